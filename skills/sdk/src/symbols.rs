//! Symbols and candidates of a search: the records of the contract's interfaces `symbols` and `search`.

use std::ops::ControlFlow;

use crate::Content;

/// A name to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolQuery {
    /// A name, or `Type.method`.
    pub name: String,
    /// A directory or a file relative to the root; empty is the root.
    pub under: String,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// One definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolDefinition {
    /// Relative to the root.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Names of the definitions around it, joined by dots.
    pub container: String,
    /// `function`, `method`, `type`, `value` or `module`.
    pub kind: String,
    /// The line of the name, from 1.
    pub line: u32,
    /// The first line of the whole, with its attributes and decorators.
    pub first_line: u32,
    /// The last line of the whole.
    pub last_line: u32,
    /// The first line of the comment right before it.
    pub comment_line: Option<u32>,
    /// The head, in one line.
    pub signature: String,
}

impl SymbolDefinition {
    /// The name with its containers, joined by dots.
    pub fn qualified_name(&self) -> String {
        if self.container.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{}", self.container, self.name)
        }
    }
}

/// One use of a name, or its definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolReference {
    /// Relative to the root.
    pub path: String,
    /// The name.
    pub name: String,
    /// `definition`, `call`, `import`, `attribute`, `type`, `name` or `text`.
    pub kind: String,
    /// From 1.
    pub line: u32,
    /// The definition around it, with its containers.
    pub container: String,
}

/// Answers about some files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolPage<T> {
    /// In the order of paths, then lines.
    pub items: Vec<T>,
    /// Set where there may be more.
    pub next: Option<String>,
}

/// Search whose candidates [`crate::Host::candidates`] lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// `word`, `literal` or `regex`.
    pub kind: String,
    /// Pattern of the search.
    pub pattern: String,
    /// True to ignore case.
    pub ignore_case: bool,
    /// A directory or a file relative to the root; empty is the root.
    pub under: String,
    /// Globs over the path; empty means all.
    pub globs: Vec<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// A pattern of a search line by line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPattern {
    /// `word`, `literal` or `regex`.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// True to ignore case.
    pub ignore_case: bool,
}

/// Reasons to leave files of a selection out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// A file can match if a line of it can match one of these.
    pub patterns: Vec<SearchPattern>,
    /// Globs of files that are counted apart.
    pub apart: Vec<String>,
}

/// Numbers of files that were left out because they cannot match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Files with text.
    pub text: u32,
    /// Those of them that [`Narrowing::apart`] selects.
    pub text_apart: u32,
    /// Files that are no text, where only text was asked for.
    pub binary: u32,
}

/// Part of a narrowed selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrowed<'a> {
    /// A file that can match: its path, and its content.
    File(&'a str, Content<'a>),
    /// Files between the file before and the next one.
    LeftOut(LeftOut),
}

/// Function that [`Host::read_matching`](crate::Host::read_matching) calls with each part.
pub type VisitNarrowed<'a> = dyn FnMut(Narrowed<'_>) -> ControlFlow<()> + 'a;

/// Files that a search has to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidatePage {
    /// Sorted by path bytewise.
    pub paths: Vec<String>,
    /// False where no file could be left out by its content.
    pub narrowed: bool,
    /// Set where there is more.
    pub next: Option<String>,
}
