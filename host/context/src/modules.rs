//! The graph of a directory: its modules, and the imports between them.
//!
//! A module is a file, a folder or a package. The largest folders are opened first, for as long as the graph stays small
//! enough to be looked at; the rest stays folded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use tool_core::api::{ModuleEdge, ModuleGraph, ModuleNode};
use tool_repository::Repository;
use tool_repository::file_role::parent;

use super::symbols::{is_name_sign, package_name};
use super::{ContextError, Indexes, Looked, SelectionTree};
use crate::limits::RANKED_FILE_BYTES_MAX;

/// Modules of a graph: more cannot be looked at.
const NODES_MAX: usize = 25;
/// Edges of a graph.
const EDGES_MAX: usize = 60;
/// Name of the module that holds what has no room of its own.
const OTHERS: &str = "(others)";
/// Files that make a folder a package.
const MANIFESTS: [&str; 9] = [
    "Cargo.toml",
    "package.json",
    "go.mod",
    "pyproject.toml",
    "setup.py",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "mix.exs",
];

/// Draws the modules below a directory; the empty path is the root. Blocks.
pub fn draw_modules(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    directory: &str,
    by_package: bool,
    cancel: &CancellationToken,
) -> Result<ModuleGraph, ContextError> {
    let since = Instant::now();
    let list = repository.list(cancel)?;
    if list.files.is_empty() {
        return Err(ContextError::Empty);
    }
    let look = indexes.look(repository, &list, since, cancel);
    let tree = SelectionTree::with_layout(list.files.iter(), &look, Arc::clone(look.layout()), cancel);
    let graph = draw(&tree, directory, by_package);
    let is_cancelled = cancel.is_cancelled();
    let notice = tree
        .is_over()
        .then(|| "The graph is cut: not every file was read in time".to_owned());
    look.finish();
    if is_cancelled {
        return Err(ContextError::Cancelled);
    }
    Ok(ModuleGraph {
        notices: notice.into_iter().chain(list.skipped_ignores.notice()).collect(),
        ..graph
    })
}

fn draw(tree: &SelectionTree<'_>, directory: &str, by_package: bool) -> ModuleGraph {
    let of_kind = |kind: &[bool]| -> Vec<usize> { tree.below(directory).filter(|at| kind[*at]).collect() };
    let sources = of_kind(&tree.layout.sources);
    // A directory of tests or examples is drawn by these.
    let files = if sources.is_empty() {
        of_kind(&tree.layout.written)
    } else {
        sources
    };
    let modules = if by_package {
        packages(tree, &files)
    } else {
        folders(tree, directory, &files)
    };
    let home: HashMap<usize, usize> = modules
        .iter()
        .enumerate()
        .flat_map(|(module, one)| one.files.iter().map(move |file| (*file, module)))
        .collect();
    let imports = tree.each(&files, |at| {
        let is_small = tree.sizes[at] <= RANKED_FILE_BYTES_MAX;
        let Looked::Profile(profile) = is_small.then(|| tree.source.profile(tree.paths[at]))? else {
            return None;
        };
        Some(tree.imports(tree.paths[at], &profile))
    });
    let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (from, imported) in files.iter().zip(imports) {
        for to in imported.iter().flat_map(|imported| imported.iter()) {
            if let (Some(from), Some(to)) = (home.get(from), home.get(&(*to as usize)))
                && from != to
            {
                *counts.entry((*from, *to)).or_default() += 1;
            }
        }
    }
    if by_package {
        for pair in declared_dependencies(tree, &modules) {
            counts.entry(pair).or_insert(1);
        }
    }
    let mut edges: Vec<ModuleEdge> = counts
        .into_iter()
        .map(|((from, to), imports)| ModuleEdge {
            from: modules[from].name.clone(),
            to: modules[to].name.clone(),
            imports,
        })
        .collect();
    edges.sort_by(|a, b| {
        b.imports
            .cmp(&a.imports)
            .then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to)))
    });
    let edges_left_out = edges.len().saturating_sub(EDGES_MAX) as u64;
    edges.truncate(EDGES_MAX);
    let node = |module: &SourceModule| ModuleNode {
        name: module.name.clone(),
        files: module.files.len() as u64,
    };
    ModuleGraph {
        path: directory.to_owned(),
        nodes: modules.iter().map(node).collect(),
        edges,
        edges_left_out,
        notices: Vec::new(),
    }
}

/// Files that are drawn as one node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceModule {
    name: String,
    /// The folder that can be opened.
    folder: Option<String>,
    /// Indices into the list.
    files: Vec<usize>,
}

/// The folders and files below a directory, the largest folders opened.
fn folders(tree: &SelectionTree<'_>, directory: &str, files: &[usize]) -> Vec<SourceModule> {
    if files.is_empty() {
        return Vec::new();
    }
    let mut modules = fold(parts(tree, directory, files, usize::MAX));
    loop {
        let room = NODES_MAX - modules.len() + 1;
        let opened = modules
            .iter()
            .enumerate()
            .filter_map(|(at, module)| {
                let folder = module.folder.as_ref()?;
                let parts = parts(tree, folder, &module.files, room);
                // A folder whose own files have no room stays as it is.
                let is_same = matches!(&parts[..], [part] if part.folder.is_none() && part.files.len() > 1);
                (parts.len() <= room && !is_same).then_some((at, parts))
            })
            .max_by_key(|(at, _)| (modules[*at].files.len(), std::cmp::Reverse(*at)));
        let Some((at, parts)) = opened else {
            break;
        };
        modules.splice(at..=at, parts);
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

/// The parts of a folder: its folders, and its files, as one part where they have no room each.
fn parts(tree: &SelectionTree<'_>, folder: &str, files: &[usize], room: usize) -> Vec<SourceModule> {
    let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
    let mut inner: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut own = Vec::new();
    for at in files {
        match tree.paths[*at][start..].split_once('/') {
            Some((name, _)) => inner.entry(name).or_default().push(*at),
            None => own.push(*at),
        }
    }
    let file = |at: &usize| SourceModule {
        name: tree.paths[*at].to_owned(),
        folder: None,
        files: vec![*at],
    };
    let own_parts = if own.len() <= 1 || inner.len() + own.len() <= room.min(NODES_MAX) {
        own.iter().map(file).collect()
    } else {
        let prefix = &tree.paths[own[0]][..start];
        vec![SourceModule {
            name: format!("{prefix}*"),
            folder: None,
            files: own,
        }]
    };
    let inner = inner.into_iter().map(|(name, files)| {
        let path = format!("{}{name}", &tree.paths[files[0]][..start]);
        SourceModule {
            name: format!("{path}/"),
            folder: Some(path),
            files,
        }
    });
    inner.chain(own_parts).collect()
}

/// The packages of a workspace: each file belongs to the nearest folder above it that has a manifest.
fn packages(tree: &SelectionTree<'_>, files: &[usize]) -> Vec<SourceModule> {
    let mut by_package: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for at in files {
        let mut folder = parent(tree.paths[*at]);
        while !folder.is_empty() && !is_package(tree, folder) {
            folder = parent(folder);
        }
        by_package.entry(folder).or_default().push(*at);
    }
    let module = |(folder, files): (&str, Vec<usize>)| SourceModule {
        name: if folder.is_empty() {
            "./".to_owned()
        } else {
            format!("{folder}/")
        },
        folder: None,
        files,
    };
    fold(by_package.into_iter().map(module).collect())
}

/// Pairs of packages of which the manifest of one declares the other, as places in the list.
fn declared_dependencies(tree: &SelectionTree<'_>, packages: &[SourceModule]) -> Vec<(usize, usize)> {
    let manifest = |package: &SourceModule| {
        let folder = package.name.trim_start_matches("./");
        let path = MANIFESTS.iter().map(|name| format!("{folder}{name}"));
        let text = path
            .filter(|path| tree.find(path).is_some())
            .find_map(|path| tree.text(&path))?;
        (package.name != OTHERS).then_some(text)
    };
    let manifests: Vec<Option<String>> = packages.iter().map(manifest).collect();
    let names: Vec<Option<&str>> = manifests.iter().map(|text| package_name(text.as_deref()?)).collect();
    let mut pairs = Vec::new();
    for (from, text) in manifests.iter().enumerate() {
        for (to, name) in names.iter().enumerate() {
            if let (Some(text), Some(name)) = (text, name)
                && from != to
                && text.lines().any(|line| declares(line, name))
            {
                pairs.push((from, to));
            }
        }
    }
    pairs
}

/// True for a line of a manifest that declares a dependency: the name stands at its beginning, or in its heading.
fn declares(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    let line = line
        .rsplit_once("dependencies.")
        .filter(|_| line.starts_with('['))
        .map_or(line, |(_, rest)| rest);
    let line = line
        .trim_start_matches("require ")
        .trim_start_matches(['"', '\'', '{', ':']);
    let rest = line.strip_prefix(name);
    rest.is_some_and(|rest| rest.starts_with(|c: char| c == '.' || !is_name_sign(c)))
}

fn is_package(tree: &SelectionTree<'_>, folder: &str) -> bool {
    MANIFESTS
        .iter()
        .any(|name| tree.find(&format!("{folder}/{name}")).is_some())
}

/// Keeps the largest modules, and makes one of the rest where there are too many.
fn fold(mut modules: Vec<SourceModule>) -> Vec<SourceModule> {
    if modules.len() > NODES_MAX {
        modules.sort_by(|a, b| b.files.len().cmp(&a.files.len()).then_with(|| a.name.cmp(&b.name)));
        let rest = modules.split_off(NODES_MAX - 1);
        modules.push(SourceModule {
            name: OTHERS.to_owned(),
            folder: None,
            files: rest.into_iter().flat_map(|module| module.files).collect(),
        });
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_tree;

    /// The graph as lines: nodes with their files, then edges.
    fn drawn(files: &[(&str, &str)], directory: &str, by_package: bool) -> Vec<String> {
        with_tree(files, |tree| {
            let graph = draw(tree, directory, by_package);
            let nodes = graph.nodes.iter().map(|node| format!("{} {}", node.name, node.files));
            let edges = graph
                .edges
                .iter()
                .map(|edge| format!("{} > {} {}", edge.from, edge.to, edge.imports));
            nodes.chain(edges).collect()
        })
    }

    #[test]
    fn a_small_project_is_drawn_file_by_file() {
        let files = [
            ("shop/__init__.py", "from .cart import Cart\n"),
            ("shop/cart.py", "from .store import sums\nfrom shop.store import db\n"),
            ("shop/store/sums.py", "x = 1\n"),
            ("shop/store/db.py", "from . import sums\n"),
            ("tests/test_cart.py", "from shop.cart import Cart\n"),
        ];
        assert_eq!(
            drawn(&files, "", false),
            [
                "shop/__init__.py 1",
                "shop/cart.py 1",
                "shop/store/db.py 1",
                "shop/store/sums.py 1",
                "shop/__init__.py > shop/cart.py 1",
                "shop/cart.py > shop/store/db.py 1",
                "shop/cart.py > shop/store/sums.py 1",
                "shop/store/db.py > shop/store/sums.py 1",
            ]
        );
        assert_eq!(drawn(&files, "tests", false), ["tests/test_cart.py 1"]);
        assert!(drawn(&files, "nothing", false).is_empty());
    }

    #[test]
    fn a_large_project_stays_folded_and_small() {
        let names: Vec<String> = (0..40).map(|at| format!("app/part{}/file{at}.py", at % 4)).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
        files.push((
            "app/main.py",
            "from app.part0 import file0\nfrom app.part3 import file3\n",
        ));
        let lines = drawn(&files, "", false);
        let (edges, nodes): (Vec<String>, Vec<String>) = lines.into_iter().partition(|line| line.contains('>'));
        assert_eq!(nodes.len(), 23, "{nodes:?}");
        assert!(nodes.contains(&"app/part3/ 10".to_owned()), "{nodes:?}");
        assert_eq!(
            edges,
            ["app/main.py > app/part0/file0.py 1", "app/main.py > app/part3/ 1"]
        );
    }

    #[test]
    fn many_folders_side_by_side_leave_a_rest() {
        let names: Vec<String> = (0..60).map(|at| format!("m{at:02}/a.py")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
        let nodes = drawn(&files, "", false);
        assert_eq!((nodes.len(), nodes[0].as_str()), (25, "(others) 36"));
    }

    #[test]
    fn manifests_of_each_ecosystem_name_their_package_and_what_it_needs() {
        for (text, name, dependency) in [
            ("[package]\nname = \"a-b\"\n[dependencies.core-a]\n", "a-b", "core-a"),
            (
                "[package]\nname = \"a\"\n[dependencies]\ncore-a.workspace = true\n",
                "a",
                "core-a",
            ),
            (
                "{\n  \"name\": \"@x/a\",\n  \"dependencies\": {\n    \"@x/core\": \"*\"\n",
                "@x/a",
                "@x/core",
            ),
            ("module x.org/a\n\nrequire x.org/core v1.0.0\n", "x.org/a", "x.org/core"),
            (
                "[project]\nname = 'a'\ndependencies = [\n  'core-a>=1',\n]\n",
                "a",
                "core-a",
            ),
        ] {
            assert_eq!(package_name(text), Some(name), "{text}");
            assert!(text.lines().any(|line| declares(line, dependency)), "{text}");
            assert!(!text.lines().any(|line| declares(line, "core")), "{text}");
        }
    }

    #[test]
    fn packages_hold_the_files_below_their_manifest() {
        let files = [
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/core/Cargo.toml", "[package]\nname = \"core-a\"\n"),
            ("crates/core/src/lib.rs", "mod deep;\npub struct A;\n"),
            ("crates/core/src/deep/mod.rs", "pub struct B;\n"),
            (
                "crates/cli/Cargo.toml",
                "[package]\nname = \"cli-a\"\n[dependencies]\ncore-a = { path = \"../core\" }\n",
            ),
            ("crates/cli/src/main.rs", "use core_a::A;\nfn main() {}\n"),
        ];
        assert_eq!(
            drawn(&files, "", true),
            ["crates/cli/ 1", "crates/core/ 2", "crates/cli/ > crates/core/ 1"]
        );
    }
}
