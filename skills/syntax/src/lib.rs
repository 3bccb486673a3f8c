//! Python read by syntax tree, for the skills that answer about code.
//!
//! [`Module::parse`] takes a file's bytes and answers what is defined, imported, called and named in it, and where it
//! does not parse. It never executes anything and reads no files: which file a dotted name belongs to is a matter of
//! names alone ([`names`]). A file with mistakes still answers for the parts that parse.

mod definitions;
mod literals;
pub mod names;
mod uses;

use tree_sitter::{Node, Parser, Tree, TreeCursor};

pub use definitions::{Definition, DefinitionKind};
pub use literals::{Argument, Literal};
pub use uses::{CallSite, Import, Use, UseKind};

/// Longest source that is parsed. A tree costs about twenty times its source in memory, and a second per 4 MB.
pub const SOURCE_BYTES_MAX: u64 = 2 << 20;

/// A parsed Python file.
#[derive(Debug)]
pub struct Module<'source> {
    source: &'source [u8],
    tree: Tree,
}

/// A place that does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// First line of the part, counted from 1.
    pub line: usize,
    /// Last line of the part.
    pub end_line: usize,
}

impl<'source> Module<'source> {
    /// Parses a file. Bytes that are not UTF-8 make faults, nothing worse. `None` where the source is longer than
    /// [`SOURCE_BYTES_MAX`].
    pub fn parse(source: &'source [u8]) -> Option<Self> {
        if source.len() as u64 > SOURCE_BYTES_MAX {
            return None;
        }
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_python::LANGUAGE.into())
            .expect("the grammar is of a version that this tree-sitter reads");
        let tree = parser
            .parse(source, None)
            .expect("parsing has a language and no time limit");
        Some(Self { source, tree })
    }

    /// The bytes that were parsed.
    pub fn source(&self) -> &'source [u8] {
        self.source
    }

    /// Places that do not parse, in order, at most `count_max`.
    pub fn faults(&self, count_max: usize) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        walk(&self.tree, |node| {
            if faults.len() >= count_max || !node.has_error() {
                return Descent::Over;
            }
            if !node.is_error() && !node.is_missing() {
                return Descent::Into;
            }
            let fault = Fault {
                line: node.start_position().row + 1,
                end_line: node.end_position().row + 1,
            };
            if faults.last().is_none_or(|last| last.line != fault.line) {
                faults.push(fault);
            }
            Descent::Over
        });
        faults
    }

    /// The text of a node.
    fn text(&self, node: Node<'_>) -> String {
        String::from_utf8_lossy(&self.source[node.byte_range()]).into_owned()
    }
}

/// Next step of a walk from a node.
#[derive(PartialEq, Eq)]
enum Descent {
    /// To its children.
    Into,
    /// To what follows it.
    Over,
}

/// Visits nodes in the order of the source, without recursion: the depth of a tree is the repository's choice.
fn walk<'tree>(tree: &'tree Tree, visit: impl FnMut(Node<'tree>) -> Descent) {
    walk_from(tree.root_node(), visit);
}

/// Walks the tree beneath one node.
fn walk_from<'tree>(node: Node<'tree>, mut visit: impl FnMut(Node<'tree>) -> Descent) {
    let mut cursor = node.walk();
    loop {
        if visit(cursor.node()) == Descent::Into && cursor.goto_first_child() {
            continue;
        }
        if !forward(&mut cursor) {
            return;
        }
    }
}

/// To the next sibling, or that of the nearest ancestor which has one.
fn forward(cursor: &mut TreeCursor<'_>) -> bool {
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_has_no_faults_and_a_broken_one_says_where() {
        assert_eq!(parse("def f():\n    return 1\n").faults(5), []);
        let faults = parse("def f():\n    return 1\n\nx = (1 +\n\ndef g():\n    pass\n").faults(5);
        assert!(faults.iter().any(|fault| (4..=6).contains(&fault.line)), "{faults:?}");
    }

    #[test]
    fn what_is_too_long_is_not_parsed() {
        let long = vec![b' '; SOURCE_BYTES_MAX as usize + 1];
        assert!(Module::parse(&long).is_none());
    }

    #[test]
    fn deep_nesting_is_walked_without_recursion() {
        let source = format!("x = {}1{}\n", "(".repeat(20_000), ")".repeat(20_000));
        let module = parse(&source);
        assert!(module.definitions().is_empty());
        assert_eq!(module.uses(&["x"]).len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_answer(source in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let module = Module::parse(&source).expect("it is short");
            module.definitions();
            module.imports();
            module.calls(0..source.len());
            module.faults(5);
            module.uses(&["a", "def"]);
        }

        #[test]
        fn any_arrangement_of_python_words_answers(words in proptest::collection::vec(
            proptest::sample::select(vec![
                "def ", "class ", "f", "(", ")", ":", "\n", "\n    ", "import ", "from ", "as ", ".", "x", "=", "\"",
                "'''", "#", "@", "async ", "await ", ",", "*", "f\"{", "}\"", "\\\n", "lambda ", "return ",
            ]), 0..60))
        {
            let source = words.concat();
            let module = parse(&source);
            for definition in module.definitions() {
                proptest::prop_assert!(definition.line <= definition.end_line);
            }
            module.imports();
            module.calls(0..source.len());
            for found in module.uses(&["x", "f"]) {
                proptest::prop_assert!(matches!(source.as_bytes()[found.at], b'x' | b'f'));
            }
        }
    }

    fn parse(source: &str) -> Module<'_> {
        Module::parse(source.as_bytes()).expect("it is short")
    }
}
