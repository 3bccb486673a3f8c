//! Finds the definitions of a name that a user typed, with the index.
//!
//! A name may be qualified, as in `Blueprint.route` or `Store::open`: the last part is searched inside the definition
//! of the part before it. If the lines of no definition enclose it (a method of Go or in an `impl` of Rust may lie in
//! another file than its type), syntax trees tell the owner. A member that its owner does not define is searched in the
//! base classes, then in the files that define both names. Tests, examples and generated files come last.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base_classes::{ClassPlace, files_defining, search_bases};
use crate::lookup::{SoughtName, SymbolReader};
use crate::symbols::SyntaxDetails;
use crate::target::SymbolPlace;
use crate::{ContextError, Indexes, ProfileLookup, SelectionTree, read_tree};
use tool_core::text::nearest_name;
use tool_repository::Repository;
use tool_repository::file_role::{self, Role};

/// Places of one name that a request includes.
const PLACES_MAX: usize = 6;

/// Files with a member that are parsed for its owner.
const OWNED_FILES_MAX: usize = 200;

/// Names of paths and definitions that are compared with an unknown name.
const NAMES_COMPARED_MAX: usize = 200_000;

/// Result of looking for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolSearch {
    /// The definitions, the likeliest first.
    pub places: Vec<SymbolPlace>,
    /// For an inherited member: its name with the defining class, and the requested class.
    pub inherited: Option<InheritedName>,
    /// Similar names if there is no definition: a path, or a definition with its place.
    pub alike: Vec<String>,
    /// The definition among them.
    pub alike_definition: Option<String>,
}

/// A member that a class inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedName {
    /// For example `Scaffold.route`.
    pub name: String,
    /// The class that inherits it, for example `Blueprint`.
    pub inherited_by: String,
}

/// Definitions in one file that match a name.
pub(crate) struct DefinedLines {
    pub(crate) lines: Vec<(u32, u32)>,
    /// True if each of them is inside its owner, or no owner is given.
    pub(crate) is_enclosed: bool,
}

/// Finds the definitions of a name. Blocks.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn find_symbol(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    typed: &str,
    cancel: &CancellationToken,
) -> Result<SymbolSearch, ContextError> {
    let reader = SymbolReader {
        repository,
        parser: indexes.parser(),
        indexes: None,
        cancel,
    };
    read_tree(repository, indexes, cancel, |tree, _| {
        Ok(search_symbol(tree, &|path| reader.read(path, Some("")).ok(), typed))
    })
}

/// Reads a file with its definitions.
type FileParser<'a> = &'a dyn Fn(&str) -> Option<(String, SyntaxDetails)>;

fn search_symbol(tree: &SelectionTree<'_>, parse: FileParser<'_>, typed: &str) -> SymbolSearch {
    let name = SoughtName::parse(typed);
    let files: Vec<usize> = (0..tree.paths.len())
        .filter(|at| file_role::is_code(tree.paths[*at]))
        .collect();
    let matches = tree.each(&files, |at| find_in_file(tree, at, &name));
    let mut found: Vec<(bool, u8, usize, DefinedLines)> = files
        .iter()
        .zip(matches)
        .filter_map(|(at, found)| {
            let found = found?;
            Some((!found.is_enclosed, order_of_role(tree.layout.roles[*at]), *at, found))
        })
        .collect();
    found.sort_by_key(|(is_loose, order, at, _)| (*is_loose, *order, tree.paths[*at].matches('/').count(), *at));
    // Loose matches are a guess, used only if there is no exact match.
    let is_loose = found.first().is_none_or(|first| first.0);
    let owned = if is_loose {
        find_owned(tree, &files, parse, &name)
    } else {
        Vec::new()
    };
    if !owned.is_empty() {
        return SymbolSearch {
            places: owned,
            ..SymbolSearch::default()
        };
    }
    let inherited = is_loose.then(|| find_inherited(tree, &name)).flatten();
    if let Some((inherited, is_enclosed)) = inherited
        && (is_enclosed || found.is_empty())
    {
        return inherited;
    }
    let places: Vec<SymbolPlace> = found
        .iter()
        .filter(|one| one.0 == is_loose)
        .flat_map(|(_, _, at, found)| found.lines.iter().map(|lines| (*at, *lines)))
        .map(|(at, (first, last))| SymbolPlace {
            path: tree.paths[at].to_owned(),
            first,
            last,
        })
        .take(PLACES_MAX)
        .collect();
    if !places.is_empty() {
        return SymbolSearch {
            places,
            ..SymbolSearch::default()
        };
    }
    let alike_definition = find_definition_alike(tree, name.last);
    let path = find_path_alike(tree, typed).map(|path| format!("`{path}`"));
    SymbolSearch {
        places,
        alike: path.into_iter().chain(alike_definition.clone()).collect(),
        alike_definition,
        ..SymbolSearch::default()
    }
}

/// Finds a member by the owner that the syntax tree of its file tells.
fn find_owned(
    tree: &SelectionTree<'_>,
    files: &[usize],
    parse: FileParser<'_>,
    name: &SoughtName<'_>,
) -> Vec<SymbolPlace> {
    if name.owner.is_none() {
        return Vec::new();
    }
    let member = SoughtName { owner: None, ..*name };
    let holds_member = tree.each(files, |at| find_in_file(tree, at, &member).map(drop));
    let holders = files.iter().zip(holds_member).filter(|(_, holds)| holds.is_some());
    let mut holders: Vec<usize> = holders.map(|(at, _)| *at).collect();
    holders.sort_by_key(|at| (order_of_role(tree.layout.roles[*at]), *at));
    let mut places = Vec::new();
    for at in holders.into_iter().take(OWNED_FILES_MAX) {
        if tree.is_over() || places.len() >= PLACES_MAX {
            break;
        }
        let Some((text, details)) = parse(tree.paths[at]) else {
            continue;
        };
        let owned = details
            .symbols
            .iter()
            .filter(|symbol| name.is_defined_by(symbol, &text));
        places.extend(owned.map(|symbol| SymbolPlace {
            path: tree.paths[at].to_owned(),
            first: symbol.named.line,
            last: symbol.named.end_line,
        }));
    }
    places.truncate(PLACES_MAX);
    places
}

/// Searches for a member in the base classes of its owner. The flag is true if the member is inside a base class, and
/// not only in the same file.
fn find_inherited(tree: &SelectionTree<'_>, name: &SoughtName<'_>) -> Option<(SymbolSearch, bool)> {
    let owner = name.owner?;
    let mut classes = files_defining(tree, owner);
    classes.sort_by_key(|at| order_of_role(tree.layout.roles[*at]));
    let class = |at| ClassPlace {
        name: owner.to_owned(),
        at,
    };
    let mut loose = None;
    let enclosed = search_bases(tree, classes.into_iter().map(class).collect(), |base| {
        let sought = SoughtName {
            owner: Some(&base.name),
            last: name.last,
        };
        let found = find_in_file(tree, base.at, &sought)?;
        let place = |(first, last)| SymbolPlace {
            path: tree.paths[base.at].to_owned(),
            first,
            last,
        };
        let is_enclosed = found.is_enclosed;
        let search = SymbolSearch {
            places: found.lines.into_iter().map(place).take(PLACES_MAX).collect(),
            inherited: Some(InheritedName {
                name: format!("{}.{}", base.name, name.last),
                inherited_by: owner.to_owned(),
            }),
            ..SymbolSearch::default()
        };
        if is_enclosed {
            return Some(search);
        }
        loose.get_or_insert(search);
        None
    });
    let enclosed = enclosed.map(|search| (search, true));
    enclosed.or_else(|| Some((loose?, false)))
}

pub(crate) fn find_in_file(tree: &SelectionTree<'_>, at: usize, name: &SoughtName<'_>) -> Option<DefinedLines> {
    let ProfileLookup::Found(profile) = tree.source.profile(tree.paths[at]) else {
        return None;
    };
    let (mut members, mut owners) = (Vec::new(), Vec::new());
    profile.each_definition(|defined, lines| {
        if defined == name.last {
            members.push(lines);
        }
        if name.owner == Some(defined) {
            owners.push(lines);
        }
    });
    let Some(owner) = name.owner else {
        return (!members.is_empty()).then_some(DefinedLines {
            lines: members,
            is_enclosed: true,
        });
    };
    let encloses = |lines: &(u32, u32)| owners.iter().any(|owner| owner.0 <= lines.0 && lines.1 <= owner.1);
    let inside: Vec<_> = members.iter().copied().filter(encloses).collect();
    // `cart.total` may also name a function by its module.
    let is_module = file_role::file_stem(tree.paths[at]) == owner;
    if !inside.is_empty() || is_module && !members.is_empty() {
        let lines = if inside.is_empty() { members } else { inside };
        return Some(DefinedLines {
            lines,
            is_enclosed: true,
        });
    }
    (!members.is_empty() && !owners.is_empty()).then_some(DefinedLines {
        lines: members,
        is_enclosed: false,
    })
}

/// Order of files that define the same name.
pub(crate) fn order_of_role(role: Role) -> u8 {
    match role {
        Role::Source => 0,
        Role::Documentation | Role::Configuration | Role::Other | Role::Changelog => 1,
        Role::Example | Role::Test => 2,
        Role::Generated | Role::Vendored => 3,
    }
}

/// The path with the most similar spelling.
fn find_path_alike<'t>(tree: &'t SelectionTree<'_>, typed: &str) -> Option<&'t str> {
    let file = file_role::file_name(typed);
    let lower = |text: &str| text.to_lowercase();
    let names = tree.paths.iter().copied().take(NAMES_COMPARED_MAX);
    names
        .clone()
        .find(|path| {
            lower(file_role::file_name(path)) == lower(file) || lower(file_role::file_stem(path)) == lower(file)
        })
        .or_else(|| {
            let near = nearest_name(file, names.clone().map(file_role::file_name))?;
            names.clone().find(|path| file_role::file_name(path) == near)
        })
}

/// The definition with the most similar spelling, with its place.
fn find_definition_alike(tree: &SelectionTree<'_>, member: &str) -> Option<String> {
    let lower = |text: &str| text.to_lowercase();
    let mut defined: Vec<(String, String)> = Vec::new();
    for (at, path) in tree.paths.iter().enumerate() {
        if tree.is_over() || defined.len() >= NAMES_COMPARED_MAX {
            break;
        }
        if tree.layout.roles[at] != Role::Source {
            continue;
        }
        if let ProfileLookup::Found(profile) = tree.source.profile(path) {
            profile.each_definition(|name, (line, _)| defined.push((name.to_owned(), format!("{path}:{line}"))));
        }
    }
    defined
        .iter()
        .find(|(name, _)| lower(name) == lower(member))
        .or_else(|| {
            let near = nearest_name(member, defined.iter().map(|(name, _)| name.as_str()))?;
            defined.iter().find(|(name, _)| name == near)
        })
        .map(|(name, place)| format!("`{name}` ({place})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::{ByteSpan, DetailedSymbol, NamedSymbol, SymbolForm};
    use tool_repository::FileEntry;

    const FILES: [(&str, &str); 10] = [
        (
            "app.py",
            "class Flask:\n    def route(self):\n        pass\n\n\ndef run():\n    pass\n",
        ),
        ("cart.py", "def total():\n    pass\n\n\ndef route():\n    pass\n"),
        ("docs/usage.md", "# Flask\n"),
        (
            "lib/command.go",
            "package lib\n\ntype Command struct{}\n\nfunc (c *Command) Execute() {}\n",
        ),
        (
            "lib/walk.go",
            "package lib\n\nfunc (c *Command) Walk() {}\nfunc (o *Other) Walk() {}\n",
        ),
        ("shop/base/__init__.py", "from .shelf import Shelf\n"),
        ("shop/base/list.py", "class Cart:\n    def total(self):\n        pass\n"),
        (
            "shop/base/shelf.py",
            "class Shelf:\n    def fill(self):\n        pass\n",
        ),
        (
            "shop/cart.py",
            "from .base import Shelf\nfrom .base.list import Cart as BaseCart\n\n\nclass Cart(BaseCart):\n    pass\n\n\n\
             class Basket(Cart, Shelf):\n    pass\n",
        ),
        ("tests/test_app.py", "class Flask:\n    pass\n"),
    ];

    /// Reads the methods of Go, with their receivers.
    fn parse(path: &str) -> Option<(String, SyntaxDetails)> {
        let text = FILES.iter().find(|file| file.0 == path && path.ends_with(".go"))?.1;
        let span = |part: &str| {
            let start = part.as_ptr() as usize - text.as_ptr() as usize;
            ByteSpan {
                start: start as u32,
                end: (start + part.len()) as u32,
            }
        };
        let symbols = (1..).zip(text.lines()).filter_map(|(line, head)| {
            let (receiver, rest) = head.strip_prefix("func (")?.split_once(") ")?;
            Some(DetailedSymbol {
                named: NamedSymbol {
                    name: span(rest.split_once('(')?.0),
                    form: SymbolForm::Method,
                    line,
                    end_line: line,
                    depth: 0,
                },
                first_line: line,
                comment_line: None,
                signature: span(head),
                containers: vec![span(receiver.split_once('*')?.1)],
            })
        });
        let (symbols, uses) = (symbols.collect(), Vec::new());
        Some((text.to_owned(), SyntaxDetails { symbols, uses }))
    }

    fn found(typed: &str) -> String {
        let read = |path: &str| {
            let file = FILES.iter().find(|file| file.0 == path)?;
            Some(file.1.as_bytes().to_vec())
        };
        let entries: Vec<_> = FILES
            .iter()
            .map(|(path, text)| FileEntry {
                path: (*path).to_owned(),
                size: text.len() as u64,
                modified_ns: 0,
                changed_ns: 0,
                inode: 0,
            })
            .collect();
        let cancel = CancellationToken::new();
        let found = search_symbol(&SelectionTree::new(entries.iter(), &read, &cancel), &parse, typed);
        let places: Vec<String> = found.places.iter().map(ToString::to_string).collect();
        let inherited = found
            .inherited
            .map(|one| format!(" = {} of {}", one.name, one.inherited_by));
        let inherited = inherited.unwrap_or_default();
        format!("{}{inherited} | {}", places.join(" "), found.alike.join(", "))
    }

    #[test]
    fn a_member_that_its_owner_lacks_is_found_in_a_base_class() {
        assert_eq!(found("Basket.total"), "shop/base/list.py:2 = Cart.total of Basket | ");
        assert_eq!(found("Basket.fill"), "shop/base/shelf.py:2 = Shelf.fill of Basket | ");
        assert_eq!(found("Basket.none"), " | ");
    }

    #[test]
    fn definitions_are_found_in_sources_before_tests() {
        assert_eq!(found("Flask"), "app.py:1 tests/test_app.py:1 | ");
        assert_eq!(found("run()"), "app.py:6 | ");
    }

    #[test]
    fn a_qualified_name_means_the_one_inside_of_its_owner() {
        assert_eq!(found("cart.route"), "cart.py:5 | ");
        assert_eq!(found("Command.Execute"), "lib/command.go:5 | ");
        assert_eq!(found("Command#Walk"), "lib/walk.go:3 | ");
        assert_eq!(found("Other.Walk"), "lib/walk.go:4 | ");
    }

    #[test]
    fn an_unknown_name_has_neighbours_or_none() {
        assert_eq!(found("flask"), " | `Flask` (app.py:1)");
        assert_eq!(found("usge.md"), " | `docs/usage.md`");
        assert_eq!(found("zzzzzzzzzzzz"), " | ");
    }
}
