//! Uses of names: calls, imports, attributes, definitions and others.

use std::ops::Range;

use ruff_python_ast::statement_visitor::{StatementVisitor, walk_stmt};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_node};
use ruff_python_ast::{Alias, AnyNodeRef, Expr, ExprAttribute, ExprCall, Identifier, Stmt, StmtImportFrom};
use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::{Module, byte_range, is_name, names};

/// Kind of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UseKind {
    /// The name of a `def`, a `class` or a `type`, or a target of an assignment in a module or a class.
    Definition,
    /// A call, also as a decorator.
    Call,
    /// An imported name, or the module of an import.
    Import,
    /// An attribute of an object or a module that is not called.
    Attribute,
    /// Any other use: an argument, a base class, a parameter, an annotation.
    Name,
}

/// A use of a name.
#[derive(Debug, Clone)]
pub struct Use {
    /// Kind of the use.
    pub kind: UseKind,
    /// Offset of the name in bytes.
    pub at: usize,
    /// Line, counted from 1.
    pub line: usize,
    /// The name with its prefix: `self.cache.get` for `get`, `pkg.mod.f` for `from pkg.mod import f`. An expression
    /// before a dot becomes `?`: `?.get`.
    pub dotted: String,
    /// Enclosing classes and functions, outermost first.
    pub scopes: Vec<Scope>,
}

/// An enclosing class or function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Name of the class or function.
    pub name: String,
    /// True for a class.
    pub is_class: bool,
}

/// A name in an import statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Module as written: `os.path`, `..sub`.
    pub module: String,
    /// Imported item; `None` for `import module`, `*` for all.
    pub name: Option<String>,
    /// Name after `as`.
    pub alias: Option<String>,
    /// Line, counted from 1.
    pub line: usize,
}

impl Import {
    /// Local name in the file; `None` for `*`. For `import a.b`, it is `a`.
    pub fn local(&self) -> Option<&str> {
        match (&self.alias, &self.name) {
            (Some(alias), _) => Some(alias),
            (None, Some(name)) if name == "*" => None,
            (None, Some(name)) => Some(name),
            (None, None) => self.module.split('.').next(),
        }
    }

    /// Absolute dotted name of the import in a file at `path`.
    pub fn meaning(&self, path: &str) -> String {
        let module = names::resolve_module(path, &self.module);
        match (&self.name, &self.alias) {
            (Some(name), _) if module.is_empty() => name.clone(),
            (Some(name), _) => format!("{module}.{name}"),
            (None, Some(_)) => module,
            (None, None) => module.split('.').next().unwrap_or_default().to_owned(),
        }
    }
}

/// A call of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// Called name, as far as it is a chain of names: `self.cache.get`, or `?.get` after an expression.
    pub dotted: String,
    /// Line, counted from 1.
    pub line: usize,
}

/// Limit for the parts of a dotted name.
const CHAIN_PARTS_MAX: usize = 16;

impl Module<'_> {
    /// Every use of one of these identifiers in code, in the order of the source.
    pub fn uses(&self, identifiers: &[&str]) -> Vec<Use> {
        let mut hits: Vec<TextRange> = identifiers
            .iter()
            .flat_map(|word| {
                let length = TextSize::of(*word);
                names::word_hits(self.source, word).map(move |at| TextRange::at(text_size(at), length))
            })
            .collect();
        hits.sort_by_key(|hit| hit.start());
        hits.dedup();
        let mut finder = UseFinder {
            module: self,
            is_seen: vec![false; hits.len()],
            hits,
            way: Vec::new(),
            uses: Vec::new(),
        };
        if !finder.hits.is_empty() {
            walk_node(&mut finder, AnyNodeRef::ModModule(self.parsed.syntax()));
        }
        finder.uses.sort_by_key(|found| found.at);
        finder.uses
    }

    /// Formats an attribute as `a.b.c`, with `?` for an expression.
    fn chain(&self, attribute: &ExprAttribute) -> String {
        let mut parts = vec![self.text(attribute.attr.range)];
        let mut object = &*attribute.value;
        while let Expr::Attribute(inner) = object
            && parts.len() < CHAIN_PARTS_MAX
        {
            parts.push(self.text(inner.attr.range));
            object = &inner.value;
        }
        parts.push(match object {
            Expr::Name(name) => self.text(name.range),
            Expr::Call(call) if is_super(call) => "super()".to_owned(),
            _ => "?".to_owned(),
        });
        parts.reverse();
        parts.join(".")
    }

    /// Every call within a range of bytes, in the order of the source, including decorators.
    pub fn calls(&self, range: Range<usize>) -> Vec<CallSite> {
        let mut collector = CallCollector {
            module: self,
            range,
            calls: Vec::new(),
        };
        collector.visit_body(self.statements());
        collector.calls
    }

    /// Every name in import statements, at any level.
    pub fn imports(&self) -> Vec<Import> {
        let mut collector = ImportCollector {
            module: self,
            imports: Vec::new(),
        };
        collector.visit_body(self.statements());
        collector.imports
    }

    /// Names that the body of the module binds by `def`, `class` or an assignment, without imports.
    pub fn top_level_names(&self) -> Vec<String> {
        let mut collector = NameCollector {
            module: self,
            names: Vec::new(),
        };
        collector.visit_body(self.statements());
        collector.names
    }

    /// Module after `from`, with its dots.
    fn module_written(&self, import: &StmtImportFrom) -> String {
        let dots = ".".repeat(import.level as usize);
        let module = import
            .module
            .as_ref()
            .map(|module| strip_whitespace(&self.text(module.range)));
        dots + &module.unwrap_or_default()
    }
}

/// Walks to the positions of some words. It enters only nodes that contain one, so that the cost depends on the words
/// and not on the file.
struct UseFinder<'a> {
    module: &'a Module<'a>,
    hits: Vec<TextRange>,
    /// True for positions that have been visited.
    is_seen: Vec<bool>,
    /// Nodes from the root on.
    way: Vec<AnyNodeRef<'a>>,
    uses: Vec<Use>,
}

impl<'a> SourceOrderVisitor<'a> for UseFinder<'a> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        let hits = self.hits_in(node.range());
        if hits.is_empty() {
            return TraversalSignal::Skip;
        }
        if let AnyNodeRef::ExprName(_) = node {
            self.add(hits.start, self.kind_of_name(node.range()), None);
            return TraversalSignal::Skip;
        }
        self.way.push(node);
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, node: AnyNodeRef<'a>) {
        if self.way.last().is_some_and(|last| last.ptr_eq(node)) {
            // The remaining words are in strings, in comments, or in text that the parser skipped after a mistake.
            for hit in self.hits_in(node.range()) {
                if !self.is_seen[hit] && self.module.is_identifier_at(self.hits[hit].start().to_usize()) {
                    self.add_by_tokens(hit);
                }
            }
            self.way.pop();
        }
    }

    fn visit_identifier(&mut self, identifier: &'a Identifier) {
        for hit in self.hits_in(identifier.range) {
            let (kind, dotted) = match *self.way.last().expect("the root is entered first") {
                AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::StmtClassDef(_) => (UseKind::Definition, None),
                AnyNodeRef::Alias(alias) => (UseKind::Import, Some(self.imported(alias, identifier, hit))),
                AnyNodeRef::StmtImportFrom(import) => {
                    let dots = ".".repeat(import.level as usize);
                    (UseKind::Import, Some(dots + &self.up_to(identifier, hit)))
                }
                AnyNodeRef::ExprAttribute(attribute) => {
                    let kind = match self.way.iter().nth_back(1) {
                        Some(AnyNodeRef::ExprCall(_) | AnyNodeRef::Decorator(_)) => UseKind::Call,
                        _ => UseKind::Attribute,
                    };
                    (kind, Some(self.module.chain(attribute)))
                }
                _ => (UseKind::Name, None),
            };
            self.add(hit, kind, dotted);
        }
    }
}

impl UseFinder<'_> {
    /// The positions within a range.
    fn hits_in(&self, range: TextRange) -> Range<usize> {
        let from = self.hits.partition_point(|hit| hit.start() < range.start());
        let count = self.hits[from..].partition_point(|hit| hit.end() <= range.end());
        from..from + count
    }

    /// Adds a use; without a dotted name, only the word.
    fn add(&mut self, hit: usize, kind: UseKind, dotted: Option<String>) {
        let range = self.hits[hit];
        if std::mem::replace(&mut self.is_seen[hit], true) {
            return;
        }
        self.uses.push(Use {
            kind,
            at: range.start().to_usize(),
            line: self.module.line(range.start()),
            dotted: dotted.unwrap_or_else(|| self.module.text(range)),
            scopes: self.scopes(range.start()),
        });
    }

    /// Adds a word that is not in the tree, by the tokens around it.
    fn add_by_tokens(&mut self, hit: usize) {
        let module = self.module;
        let at = self.hits[hit].start();
        let tokens = module.parsed.tokens();
        let own = tokens.partition_point(|token| token.start() < at);
        let mut parts = vec![module.text(self.hits[hit])];
        let mut first = own;
        while first > 1 && tokens[first - 1].kind() == TokenKind::Dot && parts.len() <= CHAIN_PARTS_MAX {
            first -= 2;
            if !is_name(tokens[first].kind()) {
                parts.push("?".to_owned());
                break;
            }
            parts.push(module.text(tokens[first].range()));
        }
        parts.reverse();
        let previous = own.checked_sub(1).map(|previous| tokens[previous].kind());
        let kind = match (previous, tokens.get(own + 1).map(|next| next.kind())) {
            // `!r` in an f-string is not a name.
            (Some(TokenKind::Exclamation), _) => return,
            (Some(TokenKind::Def | TokenKind::Class), _) => UseKind::Definition,
            (_, Some(TokenKind::Lpar)) => UseKind::Call,
            (Some(TokenKind::Dot), _) => UseKind::Attribute,
            _ => UseKind::Name,
        };
        self.add(hit, kind, Some(parts.join(".")));
    }

    fn kind_of_name(&self, name: TextRange) -> UseKind {
        match self.way.last() {
            Some(AnyNodeRef::ExprCall(_) | AnyNodeRef::Decorator(_)) => UseKind::Call,
            _ if self.is_assigned_at_rest(name) => UseKind::Definition,
            _ => UseKind::Name,
        }
    }

    /// True for a target of an assignment in the body of a module or a class, whose names last.
    fn is_assigned_at_rest(&self, name: TextRange) -> bool {
        let mut nodes = self.way.iter().rev();
        let statement = nodes.find(|node| !matches!(node, AnyNodeRef::ExprTuple(_) | AnyNodeRef::ExprList(_)));
        let is_target = match statement {
            Some(AnyNodeRef::StmtAssign(assign)) => {
                assign.targets.iter().any(|target| target.range().contains_range(name))
            }
            Some(AnyNodeRef::StmtAnnAssign(assign)) => assign.target.range().contains_range(name),
            Some(AnyNodeRef::StmtTypeAlias(alias)) => alias.name.range().contains_range(name),
            _ => false,
        };
        // Other code does not refer to local variables of a function.
        is_target
            && nodes
                .find(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::StmtClassDef(_)))
                .is_none_or(|node| matches!(node, AnyNodeRef::StmtClassDef(_)))
    }

    /// The dotted name in an import statement that contains the identifier, up to that identifier.
    fn imported(&self, alias: &Alias, identifier: &Identifier, hit: usize) -> String {
        let is_new_name = alias.asname.as_ref().is_some_and(|new| new.range == identifier.range);
        let written = if is_new_name {
            strip_whitespace(&self.module.text(alias.name.range))
        } else {
            self.up_to(identifier, hit)
        };
        match self.way.iter().nth_back(1) {
            Some(AnyNodeRef::StmtImportFrom(import)) => join_names(&self.module.module_written(import), &written),
            _ => written,
        }
    }

    /// Cuts a dotted name after the hit: `a.b` if `b` was hit in `a.b.c`.
    fn up_to(&self, dotted: &Identifier, hit: usize) -> String {
        strip_whitespace(
            &self
                .module
                .text(TextRange::new(dotted.range.start(), self.hits[hit].end())),
        )
    }

    fn scopes(&self, at: TextSize) -> Vec<Scope> {
        let definitions = self.way.iter().filter_map(|node| match node {
            AnyNodeRef::StmtFunctionDef(function) => Some((&function.name, &function.body, false)),
            AnyNodeRef::StmtClassDef(class) => Some((&class.name, &class.body, true)),
            _ => None,
        });
        definitions
            .filter(|(_, body, _)| body.first().is_some_and(|first| first.start() <= at))
            .map(|(name, _, is_class)| Scope {
                name: self.module.text(name.range),
                is_class,
            })
            .collect()
    }
}

struct CallCollector<'a> {
    module: &'a Module<'a>,
    range: Range<usize>,
    calls: Vec<CallSite>,
}

impl<'a> SourceOrderVisitor<'a> for CallCollector<'a> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        let range = byte_range(node.range());
        if range.end <= self.range.start || range.start >= self.range.end {
            return TraversalSignal::Skip;
        }
        if let AnyNodeRef::ExprCall(call) = node
            && range.start >= self.range.start
            && range.end <= self.range.end
        {
            // A method in a chain over several lines is called in the line of its name.
            let called = match &*call.func {
                Expr::Name(name) => Some((self.module.text(name.range), name.start())),
                Expr::Attribute(attribute) => Some((self.module.chain(attribute), attribute.attr.start())),
                _ => None,
            };
            self.calls.extend(called.map(|(dotted, at)| CallSite {
                dotted,
                line: self.module.line(at),
            }));
        }
        TraversalSignal::Traverse
    }
}

/// Collects the names in import statements.
struct ImportCollector<'a> {
    module: &'a Module<'a>,
    imports: Vec<Import>,
}

impl<'a> StatementVisitor<'a> for ImportCollector<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        let (from, aliases) = match statement {
            Stmt::Import(import) => (None, &import.names),
            Stmt::ImportFrom(import) => (Some(self.module.module_written(import)), &import.names),
            _ => return walk_stmt(self, statement),
        };
        for alias in aliases {
            let written = strip_whitespace(&self.module.text(alias.name.range));
            let (module, name) = match &from {
                Some(module) => (module.clone(), Some(written)),
                None => (written, None),
            };
            self.imports.push(Import {
                module,
                name,
                alias: alias.asname.as_ref().map(|alias| self.module.text(alias.range)),
                line: self.module.line(alias.start()),
            });
        }
    }
}

/// Collects names that statements bind, without those in functions and classes.
struct NameCollector<'a> {
    module: &'a Module<'a>,
    names: Vec<String>,
}

impl NameCollector<'_> {
    fn add_target(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => self.names.push(self.module.text(name.range)),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|element| self.add_target(element)),
            Expr::List(list) => list.elts.iter().for_each(|element| self.add_target(element)),
            Expr::Starred(starred) => self.add_target(&starred.value),
            _ => {}
        }
    }
}

impl<'a> StatementVisitor<'a> for NameCollector<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.names.push(self.module.text(function.name.range)),
            Stmt::ClassDef(class) => self.names.push(self.module.text(class.name.range)),
            Stmt::Assign(assign) => assign.targets.iter().for_each(|target| self.add_target(target)),
            Stmt::AnnAssign(assign) => self.add_target(&assign.target),
            _ => walk_stmt(self, statement),
        }
    }
}

fn is_super(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Name(name) if name.id == "super")
}

fn text_size(at: usize) -> TextSize {
    TextSize::try_from(at).expect("a source is at most 2 MiB")
}

fn join_names(module: &str, name: &str) -> String {
    if module.ends_with('.') {
        format!("{module}{name}")
    } else {
        format!("{module}.{name}")
    }
}

fn strip_whitespace(text: &str) -> String {
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
