//! Circular imports: files that import each other, directly or through others.
//!
//! The graph is the one of `modules`, file by file. Two languages are special: a child module of Rust may use its parent,
//! which has declared it, and Go's compiler refuses circles of packages.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::modules::file_imports;
use crate::symbols::{self, Syntax};
use crate::{ContextError, Indexes, SelectionTree, read_tree};
use tool_repository::Repository;
use tool_repository::file_role::{file_name, file_stem, parent_directory};

/// Circles whose lines are looked up.
const CIRCLES_MAX: usize = 100;
/// Steps of one circle whose lines are looked up.
const STEPS_MAX: usize = 8;

/// Files that import each other: each one imports the next, and the last one imports the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportCircle {
    /// The first eight files with the line of their import, from 1.
    pub steps: Vec<(String, u32)>,
    /// All files.
    pub files: usize,
}

/// Finds at most 100 import cycles of the file or directory; the empty path is the root. Two files that import each
/// other are one cycle. A larger group of files without such a pair is represented by its shortest cycle. Blocks.
///
/// # Errors
///
/// If the repository is empty or cannot be listed, or `cancel` fires.
pub fn find_import_circles(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    path: &str,
    cancel: &CancellationToken,
) -> Result<Vec<ImportCircle>, ContextError> {
    read_tree(repository, indexes, cancel, |tree, list| {
        if list.files.is_empty() {
            return Err(ContextError::Empty);
        }
        let circles = find_cycles(tree, path);
        // An incomplete graph would hide cycles.
        if tree.is_over() {
            Err(ContextError::Timeout)
        } else {
            Ok(circles)
        }
    })
}

fn find_cycles(tree: &SelectionTree<'_>, path: &str) -> Vec<ImportCircle> {
    let sources: Vec<usize> = (0..tree.paths.len()).filter(|at| tree.layout.sources[*at]).collect();
    let place: HashMap<usize, usize> = sources.iter().copied().zip(0..).collect();
    let imports: Vec<Vec<usize>> = file_imports(tree, &sources)
        .into_iter()
        .zip(&sources)
        .map(|(imported, from)| {
            let counts = |to: &usize| may_be_circular(tree.paths[*from], tree.paths[*to]);
            let imported = imported.into_iter().filter(counts);
            imported.filter_map(|to| place.get(&to).copied()).collect()
        })
        .collect();
    let below = tree.below(path);
    let is_meant = |at: usize| below.contains(&sources[at]) || tree.paths[sources[at]] == path;
    let mut circles: Vec<Vec<usize>> = strong_components(&imports)
        .iter()
        .flat_map(|group| circles_of(group, &imports, &is_meant))
        .collect();
    circles.sort();
    circles.truncate(CIRCLES_MAX);
    let located = |circle: Vec<usize>| {
        let next = circle.iter().cycle().skip(1);
        let step = |(from, to): (&usize, &usize)| {
            let (from, to) = (sources[*from], sources[*to]);
            (tree.paths[from].to_owned(), import_line(tree, from, to))
        };
        ImportCircle {
            steps: circle.iter().zip(next).take(STEPS_MAX).map(step).collect(),
            files: circle.len(),
        }
    };
    circles.into_iter().map(located).collect()
}

/// False for an import that belongs to no cycle: Go forbids import cycles, and a module of Rust may import its parent.
fn may_be_circular(from: &str, to: &str) -> bool {
    match Syntax::from_path(from) {
        Some(Syntax::Go) => false,
        Some(Syntax::Rust) => {
            let children = symbols::rust_directory(to);
            !(children.is_empty() || from.starts_with(&format!("{children}/")))
        }
        _ => true,
    }
}

/// The strongly connected components of a graph that have more than one node, each sorted: Kosaraju's algorithm.
fn strong_components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut back: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        targets.iter().for_each(|to| back[*to].push(from));
    }
    let mut seen = vec![false; edges.len()];
    let mut finished = Vec::new();
    for start in 0..edges.len() {
        visit_reachable(start, edges, &mut seen, &mut finished);
    }
    seen.fill(false);
    let component = |start: &usize| {
        let mut group = Vec::new();
        visit_reachable(*start, &back, &mut seen, &mut group);
        group.sort_unstable();
        group
    };
    let groups = finished.iter().rev().map(component);
    groups.filter(|group| group.len() > 1).collect()
}

/// Appends the reachable nodes to `finished`, each after its successors. Not recursive, because a chain of imports may
/// be long.
fn visit_reachable(start: usize, edges: &[Vec<usize>], seen: &mut [bool], finished: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut open = vec![(start, 0)];
    while let Some((node, next)) = open.last_mut() {
        match edges[*node].get(*next) {
            Some(to) => {
                *next += 1;
                if !std::mem::replace(&mut seen[*to], true) {
                    open.push((*to, 0));
                }
            }
            None => {
                finished.push(*node);
                open.pop();
            }
        }
    }
}

/// The pairs of a group; without a pair, the shortest cycle through its first file in scope.
fn circles_of(group: &[usize], edges: &[Vec<usize>], is_meant: &impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let pair = |from: &usize| {
        let later = edges[*from].iter().filter(|to| **to > *from);
        let mutual = later.filter(|to| edges[**to].contains(from));
        let pairs: BTreeSet<Vec<usize>> = mutual.map(|to| vec![*from, *to]).collect();
        pairs
    };
    let pairs = group.iter().flat_map(pair);
    let pairs: Vec<Vec<usize>> = pairs.filter(|pair| pair.iter().any(|at| is_meant(*at))).collect();
    if !pairs.is_empty() {
        return pairs;
    }
    let start = group.iter().find(|at| is_meant(**at));
    start
        .and_then(|start| shortest_circle(*start, edges))
        .into_iter()
        .collect()
}

/// The shortest way from a node back to itself.
fn shortest_circle(start: usize, edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for to in &edges[node] {
            if *to == start {
                let mut circle = vec![node];
                while let Some(earlier) = circle.last().and_then(|last| before.get(last)) {
                    circle.push(*earlier);
                }
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(to) {
                before.insert(*to, node);
                open.push_back(*to);
            }
        }
    }
    None
}

/// The line of `from` that imports `to`: the first import that resolves to it, else the first that names it.
fn import_line(tree: &SelectionTree<'_>, from: usize, to: usize) -> u32 {
    let (path, imported) = (tree.paths[from], tree.paths[to]);
    let text = tree.text(path).unwrap_or_default();
    let name = match file_stem(imported) {
        "__init__" | "mod" | "lib" | "index" => file_name(parent_directory(imported)),
        name => name,
    };
    let mut first_named = None;
    for (number, line) in (1..).zip(text.lines()) {
        if !line.contains(name) {
            continue;
        }
        first_named.get_or_insert(number);
        let mut is_import = false;
        let syntax = Syntax::from_path(path).unwrap_or(Syntax::Other);
        symbols::read_symbols(
            syntax,
            line,
            |_| {},
            |import| {
                is_import |= tree.layout.resolver.resolve(path, &import).contains(&(to as u32));
            },
        );
        if is_import {
            return number;
        }
    }
    first_named.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_tree;

    fn found(files: &[(&str, &str)], path: &str) -> Vec<String> {
        with_tree(files, |tree| {
            let step = |(path, line): &(String, u32)| format!("{path}:{line}");
            let text = |circle: ImportCircle| circle.steps.iter().map(step).collect::<Vec<_>>().join(" > ");
            find_cycles(tree, path).into_iter().map(text).collect()
        })
    }

    #[test]
    fn files_that_import_each_other_are_found_in_each_language() {
        for (files, expected) in [
            (
                &[
                    ("a.js", "// see b\nimport { b } from './b.js';\n"),
                    ("b.js", "const a = require('./a');\n"),
                ][..],
                "a.js:2 > b.js:1",
            ),
            (
                &[
                    ("shop/cart.py", "from shop import (\n    prices,\n)\n"),
                    ("shop/prices.py", "def f():\n    from .cart import Cart\n"),
                ],
                "shop/cart.py:2 > shop/prices.py:2",
            ),
            (
                &[
                    ("a.h", "#pragma once\n#include \"b.h\"\n"),
                    ("b.h", "#include \"a.h\"\n"),
                ],
                "a.h:2 > b.h:1",
            ),
            (
                &[
                    ("src/lib.rs", "mod one;\nmod two;\n"),
                    ("src/one.rs", "use crate::two::Two;\n"),
                    ("src/two.rs", "use super::one::One;\n"),
                ],
                "src/one.rs:1 > src/two.rs:1",
            ),
            (
                &[
                    ("src/x/A.java", "package x;\n\nimport y.B;\n"),
                    ("src/y/B.java", "package y;\nimport x.A;\n"),
                ],
                "src/x/A.java:3 > src/y/B.java:2",
            ),
        ] {
            assert_eq!(found(files, ""), [expected]);
        }
    }

    #[test]
    fn a_longer_circle_is_found_by_each_of_its_files() {
        let files = [
            ("a.js", "import './b';\n"),
            ("b.js", "import './c';\n"),
            ("c.js", "import './d';\nimport './a';\n"),
            ("d.js", "import './e';\n"),
            ("e.js", ""),
        ];
        assert_eq!(found(&files, ""), ["a.js:1 > b.js:1 > c.js:2"]);
        assert_eq!(found(&files, "c.js"), ["c.js:2 > a.js:1 > b.js:1"]);
        assert!(found(&files, "d.js").is_empty());
    }

    #[test]
    fn parents_of_rust_and_packages_of_go_are_no_circles() {
        let files = [
            ("src/lib.rs", "mod one;\npub struct A;\n"),
            ("src/one.rs", "mod two;\nuse crate::A;\npub struct One;\n"),
            ("src/one/two.rs", "use super::One;\n"),
            ("log/a.go", "package log\n\nimport \"log\"\n"),
            ("log/b.go", "package log\n\nimport \"log\"\n"),
        ];
        assert!(found(&files, "").is_empty());
    }

    #[test]
    fn a_chain_of_any_length_is_walked() {
        let names: Vec<(String, String)> = (0..3000)
            .map(|at| (format!("m{at}.js"), format!("import './m{}';\n", (at + 1) % 3000)))
            .collect();
        let files: Vec<(&str, &str)> = names.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        let circles = with_tree(&files, |tree| find_cycles(tree, ""));
        assert_eq!((circles.len(), circles[0].files), (1, 3000));
        assert_eq!(circles[0].steps.len(), STEPS_MAX);
    }
}
