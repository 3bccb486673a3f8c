//! Functions, methods and classes: where they are and what stands in their heads.

use std::ops::Range;

use tree_sitter::Node;

use crate::{Descent, Module, walk};

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A function that no class holds directly.
    Function,
    /// A function directly in a class.
    Method,
    /// A class.
    Class,
}

impl DefinitionKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
        }
    }
}

/// One `def` or `class`.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Its own name.
    pub name: String,
    /// The name with those of the definitions around it: `Class.method`, `outer.inner`.
    pub qualified: String,
    /// The definition around it, as an index of the same list.
    pub parent: Option<usize>,
    /// True for `async def`.
    pub is_async: bool,
    /// From the first decorator to the end of the body, in bytes.
    pub range: Range<usize>,
    /// Line of the first decorator, or of `def`; counted from 1.
    pub first_line: usize,
    /// Line of `def` or `class`.
    pub line: usize,
    /// Last line of the body.
    pub end_line: usize,
    /// The head without the colon, on one line: `async def get(self, key: str) -> Row`.
    pub signature: String,
    /// Each with its `@`.
    pub decorators: Vec<String>,
    /// Arguments between the parentheses of a class, each by itself.
    pub bases: Vec<String>,
    /// The documentation string with its indentation removed.
    pub docstring: Option<String>,
}

impl Module<'_> {
    /// Every definition, in the order of the source; a parent comes before what is in it.
    pub fn definitions(&self) -> Vec<Definition> {
        let mut definitions: Vec<Definition> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        walk(&self.tree, |node| match node.kind() {
            "function_definition" | "class_definition" => {
                while open
                    .last()
                    .is_some_and(|&at| definitions[at].range.end <= node.start_byte())
                {
                    open.pop();
                }
                let Some(definition) = self.definition(node, &definitions, open.last().copied()) else {
                    return Descent::Into;
                };
                open.push(definitions.len());
                definitions.push(definition);
                Descent::Into
            }
            kind if holds_no_definition(kind) => Descent::Over,
            _ => Descent::Into,
        });
        definitions
    }

    fn definition(&self, node: Node<'_>, before: &[Definition], parent: Option<usize>) -> Option<Definition> {
        let name = self.text(node.child_by_field_name("name")?);
        let around = parent.map(|at| &before[at]);
        let kind = match (node.kind(), around.map(|around| around.kind)) {
            ("class_definition", _) => DefinitionKind::Class,
            (_, Some(DefinitionKind::Class)) => DefinitionKind::Method,
            _ => DefinitionKind::Function,
        };
        let decorated = node.parent().filter(|parent| parent.kind() == "decorated_definition");
        let outer = decorated.unwrap_or(node);
        Some(Definition {
            kind,
            qualified: around.map_or_else(|| name.clone(), |around| format!("{}.{name}", around.qualified)),
            name,
            parent,
            is_async: node.child(0).is_some_and(|first| first.kind() == "async"),
            range: outer.byte_range(),
            first_line: outer.start_position().row + 1,
            line: node.start_position().row + 1,
            end_line: last_line(node),
            signature: self.head(node),
            decorators: decorated.map(|outer| self.decorators(outer)).unwrap_or_default(),
            bases: self.bases(node),
            docstring: self.docstring(node),
        })
    }

    /// From `def` to before the colon, comments dropped and white space made single.
    fn head(&self, node: Node<'_>) -> String {
        let mut head = String::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                ":" => break,
                "comment" => {}
                "parameters" | "argument_list" | "type_parameter" => head.push_str(&self.flat(child)),
                "identifier" | "def" | "class" | "->" | "type" | "async" => {
                    if !head.is_empty() {
                        head.push(' ');
                    }
                    head.push_str(&self.flat(child));
                }
                _ => head.push_str(&self.flat(child)),
            }
        }
        head
    }

    /// A node's text on one line, without its comments.
    fn flat(&self, node: Node<'_>) -> String {
        if !self.source[node.byte_range()].contains(&b'\n') {
            return self.text(node);
        }
        let mut comments = Vec::new();
        crate::walk_from(node, |inner| {
            if inner.kind() == "comment" {
                comments.push(inner.byte_range());
            }
            Descent::Into
        });
        let mut kept = String::new();
        let mut at = node.start_byte();
        for comment in comments {
            kept.push_str(&String::from_utf8_lossy(&self.source[at..comment.start.max(at)]));
            at = comment.end.max(at);
        }
        kept.push_str(&String::from_utf8_lossy(&self.source[at..node.end_byte().max(at)]));
        let words: Vec<&str> = kept.split_whitespace().collect();
        let line = words.join(" ");
        line.replace("( ", "(")
            .replace(", )", ")")
            .replace(" )", ")")
            .replace("[ ", "[")
            .replace(" ]", "]")
    }

    fn decorators(&self, decorated: Node<'_>) -> Vec<String> {
        let mut cursor = decorated.walk();
        decorated
            .children(&mut cursor)
            .filter(|child| child.kind() == "decorator")
            .map(|child| self.flat(child))
            .collect()
    }

    fn bases(&self, node: Node<'_>) -> Vec<String> {
        let Some(list) = node.child_by_field_name("superclasses") else {
            return Vec::new();
        };
        let mut cursor = list.walk();
        list.named_children(&mut cursor)
            .filter(|child| child.kind() != "comment")
            .map(|child| self.flat(child))
            .collect()
    }

    fn docstring(&self, node: Node<'_>) -> Option<String> {
        let body = node.child_by_field_name("body")?;
        let mut cursor = body.walk();
        let first = body
            .named_children(&mut cursor)
            .find(|child| child.kind() != "comment")?;
        let string = match first.kind() {
            "expression_statement" => first.named_child(0)?,
            _ => first,
        };
        let parts = match string.kind() {
            "string" => vec![string],
            "concatenated_string" => {
                let mut cursor = string.walk();
                string
                    .named_children(&mut cursor)
                    .filter(|child| child.kind() == "string")
                    .collect()
            }
            _ => return None,
        };
        let text: String = parts.into_iter().map(|part| self.content(part)).collect();
        Some(dedent(&text))
    }

    /// Returns the text between the quotes, as written: escapes are not undone.
    pub(crate) fn content(&self, string: Node<'_>) -> String {
        let mut cursor = string.walk();
        string
            .named_children(&mut cursor)
            .filter(|child| !matches!(child.kind(), "string_start" | "string_end"))
            .map(|child| self.text(child))
            .collect()
    }
}

/// A body that ends with its newline ends on the line before.
fn last_line(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 && end.row > node.start_position().row {
        end.row
    } else {
        end.row + 1
    }
}

/// Simple statements and expressions, which are most of a tree.
fn holds_no_definition(kind: &str) -> bool {
    matches!(
        kind,
        "expression_statement"
            | "return_statement"
            | "import_statement"
            | "import_from_statement"
            | "future_import_statement"
            | "assert_statement"
            | "raise_statement"
            | "delete_statement"
            | "decorator"
            | "parameters"
            | "argument_list"
            | "string"
            | "comment"
            | "identifier"
            | "call"
            | "type"
    )
}

/// Removes the indentation that the lines after the first share, and empty lines at both ends.
fn dedent(text: &str) -> String {
    let indent = text
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let mut lines: Vec<&str> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = if at == 0 {
            line.trim_start()
        } else {
            line.get(indent..).unwrap_or("")
        };
        lines.push(line.trim_end());
    }
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let last = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(first, |at| at + 1);
    lines[first..last].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
import functools

@functools.cache
@retry(times=3,
       wait=1)
async def fetch(
    url: str,  # where from
    *,
    timeout: float = 1.0,
) -> bytes:
    """Fetches a page.

        Indented more.
    Back.
    """
    def inner(x): return x
    return await get(url)

class Store[T](Base, metaclass=Meta):
    'Keeps things.'
    class Row:
        pass

    @property
    def size(self) -> int: return 1

    if FAST:
        def add(self, row):
            pass
"#;

    fn definitions(source: &str) -> Vec<Definition> {
        Module::parse(source.as_bytes()).expect("it is short").definitions()
    }

    #[test]
    fn heads_are_read_whole() {
        let found = definitions(SOURCE);
        let fetch = &found[0];
        assert_eq!(
            fetch.signature,
            "async def fetch(url: str, *, timeout: float = 1.0) -> bytes"
        );
        assert_eq!(fetch.decorators, ["@functools.cache", "@retry(times=3, wait=1)"]);
        assert_eq!(
            fetch.docstring.as_deref(),
            Some("Fetches a page.\n\n    Indented more.\nBack.")
        );
        assert!(fetch.is_async);
        assert_eq!((fetch.first_line, fetch.line, fetch.end_line), (4, 7, 18));
        let store = &found[2];
        assert_eq!(store.signature, "class Store[T](Base, metaclass=Meta)");
        assert_eq!(store.bases, ["Base", "metaclass=Meta"]);
        assert_eq!(store.docstring.as_deref(), Some("Keeps things."));
    }

    #[test]
    fn names_are_qualified_by_what_is_around() {
        let found = definitions(SOURCE);
        let names: Vec<(&str, &str)> = found
            .iter()
            .map(|found| (found.kind.word(), found.qualified.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("function", "fetch"),
                ("function", "fetch.inner"),
                ("class", "Store"),
                ("class", "Store.Row"),
                ("method", "Store.size"),
                ("method", "Store.add"),
            ]
        );
    }

    #[test]
    fn a_mistake_hides_only_itself() {
        let names: Vec<String> = definitions("def a():\n    return 1\n\ndef b(:\n    pass\n\ndef c():\n    return 3\n")
            .into_iter()
            .map(|found| found.qualified)
            .collect();
        assert!(
            names.contains(&"a".to_owned()) && names.contains(&"c".to_owned()),
            "{names:?}"
        );
    }
}
