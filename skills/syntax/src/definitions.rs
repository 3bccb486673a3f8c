//! Functions, methods and classes: their positions and heads.

use std::ops::Range;

use ruff_python_ast::statement_visitor::{StatementVisitor, walk_stmt};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{
    Arguments, Decorator, Expr, Identifier, Parameters, Stmt, StmtClassDef, StmtFunctionDef, StringFlags,
    StringLiteral, TypeParams,
};
use ruff_text_size::{Ranged, TextRange};

use crate::{Module, byte_range};

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A function that is not directly in a class.
    Function,
    /// A function directly in a class.
    Method,
    /// A class, at any level.
    Class,
}

impl DefinitionKind {
    /// Name of the kind in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
        }
    }
}

/// A `def` or a `class`.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Name without those of enclosing definitions.
    pub name: String,
    /// Name with those of enclosing definitions: `Class.method`, `outer.inner`.
    pub qualified: String,
    /// Index of the enclosing definition in the same list.
    pub parent: Option<usize>,
    /// True for `async def`.
    pub is_async: bool,
    /// Range from the first decorator to the end of the body, in bytes.
    pub range: Range<usize>,
    /// Line of the first decorator, or of `def`; counted from 1.
    pub first_line: usize,
    /// Line of `def` or `class`.
    pub line: usize,
    /// Last line of the body.
    pub end_line: usize,
    /// Head without the colon, in one line: `async def get(self, key: str) -> Row`.
    pub signature: String,
    /// Decorators, each with its `@`.
    pub decorators: Vec<String>,
    /// Arguments in the parentheses of a class.
    pub bases: Vec<String>,
    /// Docstring, without its indentation.
    pub docstring: Option<String>,
}

impl Module<'_> {
    /// All definitions in the order of the source; a parent comes before its children.
    pub fn definitions(&self) -> Vec<Definition> {
        let mut collector = DefinitionCollector {
            module: self,
            definitions: Vec::new(),
            parent: None,
        };
        collector.visit_body(self.statements());
        collector.definitions
    }

    fn definition(&self, head: &DefinitionHead<'_>, before: &[Definition], parent: Option<usize>) -> Definition {
        let name = self.text(head.name.range);
        let around = parent.map(|at| &before[at]);
        let kind = match (head.parameters, around.map(|around| around.kind)) {
            (None, _) => DefinitionKind::Class,
            (_, Some(DefinitionKind::Class)) => DefinitionKind::Method,
            _ => DefinitionKind::Function,
        };
        Definition {
            kind,
            qualified: around.map_or_else(|| name.clone(), |around| format!("{}.{name}", around.qualified)),
            signature: self.signature(head, &name),
            name,
            parent,
            is_async: head.is_async,
            range: byte_range(head.range),
            first_line: self.line(head.range.start()),
            line: self.keyword_line(head),
            end_line: self.end_line(head),
            decorators: head
                .decorators
                .iter()
                .map(|decorator| self.flat(decorator.range))
                .collect(),
            bases: head.arguments.map_or_else(Vec::new, |arguments| {
                let arguments = arguments.arguments_source_order();
                arguments.map(|argument| self.flat(argument.range())).collect()
            }),
            docstring: self.docstring(head.body),
        }
    }

    /// The line of `def`, of `class`, or of the `async` before it.
    fn keyword_line(&self, head: &DefinitionHead<'_>) -> usize {
        let start = head.decorators.last().map_or(head.range.start(), Ranged::end);
        let tokens = self.tokens(TextRange::new(start, head.range.end().max(start)));
        let keyword = tokens
            .iter()
            .find(|token| matches!(token.kind(), TokenKind::Async | TokenKind::Def | TokenKind::Class));
        self.line(keyword.map_or(head.range.start(), |token| token.start()))
    }

    /// Last line of the body. Comments after its last statement belong to it if they are indented.
    fn end_line(&self, head: &DefinitionHead<'_>) -> usize {
        let mut end_line = self.line(head.range.end());
        let Some(first) = head.body.first() else {
            return end_line;
        };
        let column = self.column(first.start());
        for token in self.tokens(TextRange::new(head.range.end(), self.parsed.syntax().range.end())) {
            match token.kind() {
                TokenKind::Comment if self.column(token.start()) >= column => end_line = self.line(token.start()),
                TokenKind::Newline | TokenKind::NonLogicalNewline => {}
                _ => break,
            }
        }
        end_line
    }

    /// Text from `def` to the colon, without comments and in one line.
    fn signature(&self, head: &DefinitionHead<'_>, name: &str) -> String {
        let keyword = match (head.parameters, head.is_async) {
            (None, _) => "class",
            (Some(_), false) => "def",
            (Some(_), true) => "async def",
        };
        let type_parameters = head.type_parameters.map(|parameters| self.flat(parameters.range));
        let parameters = head.parameters.map(|parameters| self.flat(parameters.range));
        let arguments = head.arguments.map(|arguments| self.flat(arguments.range));
        let returns = head
            .returns
            .map(|returns| format!(" -> {}", self.flat(returns.range())));
        let parts = [type_parameters, parameters, arguments, returns];
        format!("{keyword} {name}{}", parts.map(Option::unwrap_or_default).concat())
    }

    /// Text of a range in one line, without comments.
    fn flat(&self, range: TextRange) -> String {
        if !self.source()[byte_range(range)].contains(&b'\n') {
            return self.text(range);
        }
        let mut kept = String::new();
        let mut at = range.start();
        for comment in self
            .tokens(range)
            .iter()
            .filter(|token| token.kind() == TokenKind::Comment)
        {
            kept.push_str(&self.text(TextRange::new(at, comment.start())));
            at = comment.end();
        }
        kept.push_str(&self.text(TextRange::new(at, range.end().max(at))));
        let words: Vec<&str> = kept.split_whitespace().collect();
        let line = words.join(" ");
        line.replace("( ", "(")
            .replace(", )", ")")
            .replace(" )", ")")
            .replace("[ ", "[")
            .replace(" ]", "]")
    }

    fn docstring(&self, body: &[Stmt]) -> Option<String> {
        let Stmt::Expr(first) = body.first()? else {
            return None;
        };
        let Expr::StringLiteral(string) = &*first.value else {
            return None;
        };
        let text: String = string.value.iter().map(|part| self.content(part)).collect();
        Some(dedent_docstring(&text))
    }

    /// Text between the quotes as written, with its escapes.
    pub(crate) fn content(&self, string: &StringLiteral) -> String {
        let start = string.range.start() + string.flags.opener_len();
        let end = string.range.end() - string.flags.closer_len();
        self.text(TextRange::new(start, end.max(start)))
    }
}

/// Parts of a `def` or a `class`.
struct DefinitionHead<'a> {
    name: &'a Identifier,
    range: TextRange,
    decorators: &'a [Decorator],
    type_parameters: Option<&'a TypeParams>,
    is_async: bool,
    /// Parameters of a function with their parentheses.
    parameters: Option<&'a Parameters>,
    /// Type after `->`.
    returns: Option<&'a Expr>,
    /// Bases and keywords of a class with their parentheses.
    arguments: Option<&'a Arguments>,
    body: &'a [Stmt],
}

impl<'a> DefinitionHead<'a> {
    fn from_statement(statement: &'a Stmt) -> Option<Self> {
        match statement {
            Stmt::FunctionDef(function) => Some(Self::of_function(function)),
            Stmt::ClassDef(class) => Some(Self::of_class(class)),
            _ => None,
        }
    }

    fn of_function(function: &'a StmtFunctionDef) -> Self {
        Self {
            name: &function.name,
            range: function.range,
            decorators: &function.decorator_list,
            type_parameters: function.type_params.as_deref(),
            is_async: function.is_async,
            parameters: Some(&function.parameters),
            returns: function.returns.as_deref(),
            arguments: None,
            body: &function.body,
        }
    }

    fn of_class(class: &'a StmtClassDef) -> Self {
        Self {
            name: &class.name,
            range: class.range,
            decorators: &class.decorator_list,
            type_parameters: class.type_params.as_deref(),
            is_async: false,
            parameters: None,
            returns: None,
            arguments: class.arguments.as_deref(),
            body: &class.body,
        }
    }
}

/// Collects definitions, each with its enclosing definition.
struct DefinitionCollector<'a> {
    module: &'a Module<'a>,
    definitions: Vec<Definition>,
    parent: Option<usize>,
}

impl<'a> StatementVisitor<'a> for DefinitionCollector<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        // The name is empty if the parser recovered from a mistake.
        let head = DefinitionHead::from_statement(statement).filter(|head| !head.name.range.is_empty());
        let Some(head) = head else {
            return walk_stmt(self, statement);
        };
        let definition = self.module.definition(&head, &self.definitions, self.parent);
        self.definitions.push(definition);
        let around = self.parent.replace(self.definitions.len() - 1);
        walk_stmt(self, statement);
        self.parent = around;
    }
}

/// Removes the common indentation of the lines after the first, and empty lines at both ends.
fn dedent_docstring(text: &str) -> String {
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
