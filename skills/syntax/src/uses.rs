//! Uses of names: called, imported, taken from an object, defined or just named.

use std::ops::Range;

use tree_sitter::Node;

use crate::{Descent, Module, forward, names, walk, walk_from};

/// Kind of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UseKind {
    /// The name of a `def`, a `class` or a `type`, or what a module or a class assigns to.
    Definition,
    /// Called, also as a decorator.
    Call,
    /// Imported, or the module that something is imported from.
    Import,
    /// Taken from an object or a module, without being called.
    Attribute,
    /// Anything else: an argument, a base class, a parameter, an annotation.
    Name,
}

/// One place where a name stands.
#[derive(Debug, Clone)]
pub struct Use {
    /// Kind of the use.
    pub kind: UseKind,
    /// Offset of the name in bytes.
    pub at: usize,
    /// Line, counted from 1.
    pub line: usize,
    /// The name with what stands before it: `self.cache.get` where `get` was asked for, `pkg.mod.f` for
    /// `from pkg.mod import f`. Where an expression stands before the dot it is `?`: `?.get`.
    pub dotted: String,
    /// The classes and functions around the place, outermost first.
    pub scopes: Vec<Scope>,
}

/// A class or a function around a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Its name.
    pub name: String,
    /// True for a class.
    pub is_class: bool,
}

/// A name that an import statement makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The module as written: `os.path`, `..sub`.
    pub module: String,
    /// Imported item; `None` for `import module`, `*` for everything.
    pub name: Option<String>,
    /// The name after `as`.
    pub alias: Option<String>,
    /// Line, counted from 1.
    pub line: usize,
}

impl Import {
    /// The name that the file uses; none for `*`. `import a.b` makes `a`.
    pub fn local(&self) -> Option<&str> {
        match (&self.alias, &self.name) {
            (Some(alias), _) => Some(alias),
            (None, Some(name)) if name == "*" => None,
            (None, Some(name)) => Some(name),
            (None, None) => self.module.split('.').next(),
        }
    }

    /// Meaning of that name in a file at `path`.
    pub fn meaning(&self, path: &str) -> String {
        let module = names::absolute(path, &self.module);
        match (&self.name, &self.alias) {
            (Some(name), _) if module.is_empty() => name.clone(),
            (Some(name), _) => format!("{module}.{name}"),
            (None, Some(_)) => module,
            (None, None) => module.split('.').next().unwrap_or_default().to_owned(),
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// The called name, as far as it is a chain of names: `self.cache.get`, `?.get` after an expression.
    pub dotted: String,
    /// Line, counted from 1.
    pub line: usize,
}

/// A node on the way from the root, with the field by which the way goes on.
#[derive(Clone, Copy)]
struct PathNode<'tree> {
    node: Node<'tree>,
    field: Option<&'tree str>,
}

impl Module<'_> {
    /// Every place where one of these identifiers stands as code, in the order of the source.
    pub fn uses(&self, identifiers: &[&str]) -> Vec<Use> {
        let mut hits: Vec<Range<usize>> = identifiers
            .iter()
            .flat_map(|word| names::word_hits(self.source, word).map(|at| at..at + word.len()))
            .collect();
        hits.sort_by_key(|hit| hit.start);
        let mut uses = Vec::new();
        let mut way: Vec<PathNode<'_>> = Vec::new();
        let mut cursor = self.tree.root_node().walk();
        let mut next = 0;
        // A walk that enters only what holds a hit: its cost follows the hits, not the file.
        while let Some(hit) = hits.get(next) {
            let node = cursor.node();
            if node.end_byte() <= hit.start {
                if !forward(&mut cursor) {
                    break;
                }
                way.truncate(cursor.depth() as usize);
                continue;
            }
            if node.start_byte() > hit.start {
                next += 1;
                continue;
            }
            if node.byte_range() == *hit && node.kind() == "identifier" {
                set_field(&mut way, cursor.field_name());
                uses.extend(self.used(node, &way));
                next += 1;
                continue;
            }
            set_field(&mut way, cursor.field_name());
            if !cursor.goto_first_child() {
                next += 1;
                continue;
            }
            way.push(PathNode { node, field: None });
        }
        uses
    }

    fn used(&self, node: Node<'_>, way: &[PathNode<'_>]) -> Option<Use> {
        let (kind, dotted) = self.classify(node, way)?;
        Some(Use {
            kind,
            at: node.start_byte(),
            line: node.start_position().row + 1,
            dotted,
            scopes: self.scopes(way),
        })
    }

    fn classify(&self, node: Node<'_>, way: &[PathNode<'_>]) -> Option<(UseKind, String)> {
        let name = self.text(node);
        let (last, above) = way.split_last()?;
        let field = last.field;
        Some(match last.node.kind() {
            "function_definition" | "class_definition" if field == Some("name") => (UseKind::Definition, name),
            "aliased_import" => (UseKind::Import, self.imported(node, way)),
            "dotted_name" => {
                if importing(above) {
                    (UseKind::Import, self.imported(node, way))
                } else {
                    self.pattern(node, last.node)
                }
            }
            "attribute" if field == Some("attribute") => {
                let kind = if is_called(above) {
                    UseKind::Call
                } else {
                    UseKind::Attribute
                };
                (kind, self.chain(last.node))
            }
            "call" if field == Some("function") => (UseKind::Call, name),
            "decorator" => (UseKind::Call, name),
            _ if assigns_at_rest(way) => (UseKind::Definition, name),
            _ => (UseKind::Name, name),
        })
    }

    /// `case a.B:` reads its dots as a dotted name.
    fn pattern(&self, node: Node<'_>, dotted: Node<'_>) -> (UseKind, String) {
        let text = String::from_utf8_lossy(&self.source[dotted.start_byte()..node.end_byte()]).into_owned();
        let kind = if text.contains('.') {
            UseKind::Attribute
        } else {
            UseKind::Name
        };
        (kind, compact(&text))
    }

    /// The dotted name that an identifier in an import statement belongs to, up to that identifier.
    fn imported(&self, node: Node<'_>, way: &[PathNode<'_>]) -> String {
        let statement = way.iter().rposition(|step| is_import(step.node.kind()));
        let Some(at) = statement else {
            return self.text(node);
        };
        let step = way[at];
        // After `as` the identifier is a new name of what stands before it.
        let aliased = way[at + 1..].iter().find(|step| step.node.kind() == "aliased_import");
        let written = match aliased.filter(|step| step.field == Some("alias")) {
            Some(step) => step.node.child_by_field_name("name").map(|name| self.text(name)),
            None => way[at + 1..]
                .iter()
                .rfind(|step| step.node.kind() == "dotted_name")
                .map(|step| {
                    String::from_utf8_lossy(&self.source[step.node.start_byte()..node.end_byte()]).into_owned()
                }),
        };
        let written = compact(&written.unwrap_or_else(|| self.text(node)));
        let module = step.node.child_by_field_name("module_name");
        match module {
            Some(module) if step.field == Some("name") => join(&compact(&self.text(module)), &written),
            Some(module) if module.kind() == "relative_import" => {
                let dots = self.text(module).chars().take_while(|&c| c == '.').count();
                format!("{}{written}", ".".repeat(dots))
            }
            _ => written,
        }
    }

    /// `a.b.c` of an attribute, with `?` where something else than names stands before a dot.
    fn chain(&self, attribute: Node<'_>) -> String {
        let mut parts = Vec::new();
        let mut node = attribute;
        while node.kind() == "attribute" && parts.len() < 16 {
            parts.push(
                node.child_by_field_name("attribute")
                    .map(|name| self.text(name))
                    .unwrap_or_default(),
            );
            match node.child_by_field_name("object") {
                Some(object) => node = object,
                None => break,
            }
        }
        match node.kind() {
            "identifier" => parts.push(self.text(node)),
            "call" if self.is_super(node) => parts.push("super()".to_owned()),
            _ => parts.push("?".to_owned()),
        }
        parts.reverse();
        parts.join(".")
    }

    fn is_super(&self, call: Node<'_>) -> bool {
        call.child_by_field_name("function")
            .is_some_and(|function| &self.source[function.byte_range()] == b"super")
    }

    fn scopes(&self, way: &[PathNode<'_>]) -> Vec<Scope> {
        way.iter()
            .filter(|step| step.field == Some("body"))
            .filter(|step| matches!(step.node.kind(), "function_definition" | "class_definition"))
            .filter_map(|step| {
                Some(Scope {
                    name: self.text(step.node.child_by_field_name("name")?),
                    is_class: step.node.kind() == "class_definition",
                })
            })
            .collect()
    }

    /// Every call within a range of bytes, in the order of the source, decorators included.
    pub fn calls(&self, range: Range<usize>) -> Vec<CallSite> {
        let mut calls = Vec::new();
        walk(&self.tree, |node| {
            if node.end_byte() <= range.start || node.start_byte() >= range.end {
                return Descent::Over;
            }
            let within = node.start_byte() >= range.start && node.end_byte() <= range.end;
            if node.kind() == "call" && within {
                calls.extend(node.child_by_field_name("function").and_then(|function| {
                    let dotted = match function.kind() {
                        "identifier" => self.text(function),
                        "attribute" => self.chain(function),
                        _ => return None,
                    };
                    // A method of a chain over lines is called where its own name stands.
                    let name = function.child_by_field_name("attribute").unwrap_or(function);
                    let line = name.start_position().row + 1;
                    Some(CallSite { dotted, line })
                }));
            }
            Descent::Into
        });
        calls
    }

    /// Every name that an import statement makes, wherever it stands.
    pub fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        walk(&self.tree, |node| match node.kind() {
            "import_statement" | "import_from_statement" | "future_import_statement" => {
                self.import(node, &mut imports);
                Descent::Over
            }
            "expression_statement" | "string" | "comment" | "parameters" | "decorator" => Descent::Over,
            _ => Descent::Into,
        });
        imports
    }

    fn import(&self, statement: Node<'_>, imports: &mut Vec<Import>) {
        let module = match statement.kind() {
            "future_import_statement" => Some("__future__".to_owned()),
            _ => statement
                .child_by_field_name("module_name")
                .map(|module| compact(&self.text(module))),
        };
        let line = statement.start_position().row + 1;
        let mut push = |name: String, alias: Option<String>, line: usize| {
            let (module, name) = match &module {
                Some(module) => (module.clone(), Some(name)),
                None => (name, None),
            };
            imports.push(Import {
                module,
                name,
                alias,
                line,
            });
        };
        walk_from(statement, |node| match node.kind() {
            "wildcard_import" => {
                push("*".to_owned(), None, line);
                Descent::Over
            }
            _ if node == statement => Descent::Into,
            _ if statement.child_by_field_name("module_name") == Some(node) => Descent::Over,
            "aliased_import" => {
                let name = node.child_by_field_name("name").map(|name| compact(&self.text(name)));
                let alias = node.child_by_field_name("alias").map(|alias| self.text(alias));
                push(name.unwrap_or_default(), alias, node.start_position().row + 1);
                Descent::Over
            }
            "dotted_name" => {
                push(compact(&self.text(node)), None, node.start_position().row + 1);
                Descent::Over
            }
            _ => Descent::Into,
        });
    }

    /// The names that the module's own body binds by `def`, `class`, an assignment or a loop, without imports.
    pub fn top_level_names(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.tree, |node| match node.kind() {
            "function_definition" | "class_definition" => {
                found.extend(node.child_by_field_name("name").map(|name| self.text(name)));
                Descent::Over
            }
            "assignment" => {
                if let Some(left) = node.child_by_field_name("left") {
                    walk_from(left, |inner| match inner.kind() {
                        "identifier" => {
                            found.push(self.text(inner));
                            Descent::Over
                        }
                        "attribute" | "subscript" => Descent::Over,
                        _ => Descent::Into,
                    });
                }
                Descent::Over
            }
            "string" | "call" | "comment" => Descent::Over,
            _ => Descent::Into,
        });
        found
    }
}

fn set_field<'tree>(way: &mut [PathNode<'tree>], field: Option<&'tree str>) {
    if let Some(last) = way.last_mut() {
        last.field = field;
    }
}

fn is_import(kind: &str) -> bool {
    matches!(
        kind,
        "import_statement" | "import_from_statement" | "future_import_statement"
    )
}

fn importing(above: &[PathNode<'_>]) -> bool {
    above.iter().rev().take(3).any(|step| is_import(step.node.kind()))
}

fn is_called(above: &[PathNode<'_>]) -> bool {
    above.last().is_some_and(|step| {
        (step.node.kind() == "call" && step.field == Some("function")) || step.node.kind() == "decorator"
    })
}

/// True for a target of an assignment in the body of a module or a class, where names are there to stay.
fn assigns_at_rest(way: &[PathNode<'_>]) -> bool {
    let mut steps = way.iter().rev();
    let target = steps.by_ref().find(|step| {
        !matches!(
            step.node.kind(),
            "pattern_list" | "tuple_pattern" | "list_pattern" | "type"
        )
    });
    let assigned = target.is_some_and(|step| {
        matches!(step.node.kind(), "assignment" | "type_alias_statement") && step.field == Some("left")
    });
    // A local of a function is not what others refer to.
    assigned
        && steps
            .find(|step| matches!(step.node.kind(), "function_definition" | "class_definition" | "lambda"))
            .is_none_or(|step| step.node.kind() == "class_definition")
}

fn join(module: &str, name: &str) -> String {
    if module.ends_with('.') {
        format!("{module}{name}")
    } else {
        format!("{module}.{name}")
    }
}

fn compact(text: &str) -> String {
    if text.contains(char::is_whitespace) {
        text.split_whitespace().collect()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(source: &str, name: &str) -> Vec<(UseKind, usize, String)> {
        let module = Module::parse(source.as_bytes()).expect("it is short");
        module
            .uses(&[name])
            .into_iter()
            .map(|found| (found.kind, found.line, found.dotted))
            .collect()
    }

    #[test]
    fn kinds_are_told_apart_and_strings_and_comments_left_out() {
        let source = r#"
from pkg.mod import run, stop as run
import run
def run(a, run=1):  # run
    "run"
    run(run)
    a.b.run()
    a.run = f"run {run}"
    get().run()
@run
@x.run
class C(run):
    run: int = 2
    super().run()
"#;
        use UseKind::{Attribute, Call, Definition, Import, Name};
        let expected = [
            (Import, 2, "pkg.mod.run"),
            (Import, 2, "pkg.mod.stop"),
            (Import, 3, "run"),
            (Definition, 4, "run"),
            (Name, 4, "run"),
            (Call, 6, "run"),
            (Name, 6, "run"),
            (Call, 7, "a.b.run"),
            (Attribute, 8, "a.run"),
            (Name, 8, "run"),
            (Call, 9, "?.run"),
            (Call, 10, "run"),
            (Call, 11, "x.run"),
            (Name, 12, "run"),
            (Definition, 13, "run"),
            (Call, 14, "super().run"),
        ];
        let found = uses(source, "run");
        let found: Vec<(UseKind, usize, &str)> = found
            .iter()
            .map(|(kind, line, dotted)| (*kind, *line, dotted.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn relative_imports_keep_their_dots() {
        assert_eq!(
            uses("from ..a.b import c\n", "c"),
            [(UseKind::Import, 1, "..a.b.c".to_owned())]
        );
        assert_eq!(uses("from . import c\n", "c"), [(UseKind::Import, 1, ".c".to_owned())]);
        assert_eq!(
            uses("from ..a.b import c\n", "b"),
            [(UseKind::Import, 1, "..a.b".to_owned())]
        );
        assert_eq!(uses("import a.b.c\n", "b"), [(UseKind::Import, 1, "a.b".to_owned())]);
    }

    #[test]
    fn locals_are_names_and_constants_are_definitions() {
        assert_eq!(uses("LIMIT, OTHER = 1, 2\n", "LIMIT")[0].0, UseKind::Definition);
        assert_eq!(uses("def f():\n    LIMIT = 1\n", "LIMIT")[0].0, UseKind::Name);
        assert_eq!(uses("type Row = dict\n", "Row")[0].0, UseKind::Definition);
        assert_eq!(uses("match x:\n    case pkg.Row(): pass\n", "Row")[0].2, "pkg.Row");
    }

    #[test]
    fn places_know_what_is_around_them() {
        let module = Module::parse(b"class A:\n    def f(self, x=g()):\n        def h(): g()\n").expect("it is short");
        let around: Vec<Vec<String>> = module
            .uses(&["g"])
            .into_iter()
            .map(|found| found.scopes.into_iter().map(|scope| scope.name).collect())
            .collect();
        assert_eq!(around, [vec!["A"], vec!["A", "f", "h"]]);
    }

    #[test]
    fn imports_say_what_they_make_and_mean() {
        let source = "import os.path\nimport numpy as np\nfrom .a import (b, c as d)\nfrom x import *\n\
                      def f():\n    from ..up import y\nfrom __future__ import annotations\n";
        let module = Module::parse(source.as_bytes()).expect("it is short");
        let found: Vec<(Option<String>, String)> = module
            .imports()
            .iter()
            .map(|import| (import.local().map(str::to_owned), import.meaning("pkg/sub/m.py")))
            .collect();
        let expected = [
            (Some("os"), "os"),
            (Some("np"), "numpy"),
            (Some("b"), "pkg.sub.a.b"),
            (Some("d"), "pkg.sub.a.c"),
            (None, "x.*"),
            (Some("y"), "pkg.up.y"),
            (Some("annotations"), "__future__.annotations"),
        ];
        let found: Vec<(Option<&str>, &str)> = found
            .iter()
            .map(|(local, meaning)| (local.as_deref(), meaning.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_name_what_they_call() {
        let source = b"def f():\n    a(b.c())\n    x[0].y()\n    (lambda: 1)()\ng()\n";
        let module = Module::parse(source).expect("it is short");
        let range = module.definitions()[0].range.clone();
        let calls: Vec<(String, usize)> = module
            .calls(range)
            .into_iter()
            .map(|call| (call.dotted, call.line))
            .collect();
        assert_eq!(
            calls,
            [("a".to_owned(), 2), ("b.c".to_owned(), 2), ("?.y".to_owned(), 3)]
        );
    }
}
