//! Symbols and candidates of a search: the interfaces `symbols` and `search` of the contract.

use std::ops::ControlFlow;

use crate::Content;

/// A symbol to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolQuery {
    /// A name, or `Type.method`.
    pub name: String,
    /// A directory or a file, relative to the root; empty for the root.
    pub under: String,
    /// [`SymbolPage::next`] of the previous page; absent for the first page.
    pub after: Option<String>,
}

/// A definition of a symbol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolDefinition {
    /// Path of the file, relative to the root.
    pub path: String,
    /// Name of the symbol.
    pub name: String,
    /// Names of the enclosing definitions, joined by dots.
    pub container: String,
    /// `function`, `method`, `type`, `value` or `module`.
    pub kind: String,
    /// Line of the name, counted from 1.
    pub line: u32,
    /// First line of the definition, with its attributes and decorators.
    pub first_line: u32,
    /// Last line of the definition.
    pub last_line: u32,
    /// First line of the comment directly before the definition.
    pub comment_line: Option<u32>,
    /// Head of the definition in one line, without its body.
    pub signature: String,
}

impl SymbolDefinition {
    /// The name with its enclosing definitions, joined by dots.
    pub fn qualified_name(&self) -> String {
        if self.container.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{}", self.container, self.name)
        }
    }
}

/// A use of a name, or its definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolReference {
    /// Path of the file, relative to the root.
    pub path: String,
    /// Name of the symbol.
    pub name: String,
    /// `definition`, `call`, `import`, `attribute`, `type`, `name` or `text`.
    pub kind: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Qualified name of the enclosing definition; empty outside of all.
    pub container: String,
}

/// A bounded part of the definitions or references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolPage<T> {
    /// Sorted by path, then by line.
    pub items: Vec<T>,
    /// Present if there may be another page. The page may be empty all the same.
    pub next: Option<String>,
}

/// A search whose candidates [`crate::Host::candidates`] lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// `word`, `literal` or `regex`.
    pub kind: String,
    /// Pattern of the search.
    pub pattern: String,
    /// True to ignore case.
    pub ignore_case: bool,
    /// A directory or a file, relative to the root; empty for the root.
    pub under: String,
    /// Globs over the path; empty for all.
    pub globs: Vec<String>,
    /// [`CandidatePage::next`] of the previous page; absent for the first page.
    pub after: Option<String>,
}

/// A pattern that a search matches against each line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPattern {
    /// `word`, `literal` or `regex`.
    pub kind: String,
    /// Text of the pattern.
    pub text: String,
    /// True to ignore case.
    pub ignore_case: bool,
}

/// Conditions under which files of a selection are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// A file can match if one of its lines can match one of these patterns.
    pub patterns: Vec<SearchPattern>,
    /// Globs of files to count separately.
    pub apart: Vec<String>,
}

/// Counts of files that were left out because they cannot match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Text files.
    pub text: u32,
    /// Text files that [`Narrowing::apart`] selects; they are part of `text`.
    pub text_apart: u32,
    /// Files that are not text, if only text was asked for.
    pub binary: u32,
}

/// An element of a narrowed selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrowed<'a> {
    /// Path and content of a file that can match.
    File(&'a str, Content<'a>),
    /// Counts of the files that were left out before the next file.
    LeftOut(LeftOut),
}

/// Function that [`Host::read_matching`](crate::Host::read_matching) calls with each element.
pub type VisitNarrowed<'a> = dyn FnMut(Narrowed<'_>) -> ControlFlow<()> + 'a;

/// A bounded part of the files that a search has to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidatePage {
    /// Sorted by path, bytewise.
    pub paths: Vec<String>,
    /// False if no file could be left out by its content.
    pub narrowed: bool,
    /// Present if there is another page.
    pub next: Option<String>,
}
