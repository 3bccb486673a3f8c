//! Definitions and imports of a source file by its syntax tree.
//!
//! [`read`] skims a tree for the index, by what a [`Grammar`] says of its nodes: the grammars are tables in `languages`, and
//! what imports mean is in `imports`. [`read_details`] reads all definitions and uses, by the patterns in `queries/` (their
//! form is described in `query`); a language without a table has its outline from there as well. The crate knows nothing of scopes beyond a file: which file a name belongs to is the
//! host's business. The crates in the folders below are the components, one for languages that occur together, so that
//! the large tables of a grammar are loaded only where they are needed.

mod details;
mod imports;
mod languages;
mod query;
mod walk;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component;

pub use details::{check_patterns, read_details, read_outline};
pub use languages::{GO, Grammar, JAVA, PYTHON, RUST, SCRIPT};
pub use walk::read;

/// A part of the source, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// Outside of types.
    Function,
    /// Directly in a type, or with a receiver.
    Method,
    /// A class, a struct, an interface, an alias.
    Type,
    /// A constant, a variable of a module, a field.
    Value,
    /// A namespace inside of the file.
    Module,
}

/// One definition.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Place of its name.
    pub name: Span,
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Line of the name, from 1.
    pub line: usize,
    /// Last line of the whole.
    pub end_line: usize,
    /// Number of definitions around it.
    pub depth: usize,
}

/// Name in an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// True for a declaration that a module lies in another file.
    pub declares_module: bool,
    /// Leading dots of a relative import.
    pub level: usize,
    /// As the language joins them.
    pub parts: Vec<Span>,
    /// Imported item, if there is one.
    pub item: Option<Span>,
}

/// Symbols of a file.
#[derive(Debug, Default)]
pub struct Outline {
    /// In the order of the source.
    pub definitions: Vec<Definition>,
    /// In the order of the source.
    pub imports: Vec<Imported>,
}

/// Kind of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseKind {
    /// It is called.
    Call,
    /// It is imported.
    Import,
    /// It is read or written on an object.
    Attribute,
    /// It is named as a type.
    Type,
    /// Any other use.
    Name,
}

/// One use of a name.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// Place of the name.
    pub name: Span,
    /// Kind of the use.
    pub kind: UseKind,
    /// From 1.
    pub line: usize,
}

/// One definition with everything around it.
#[derive(Debug, Clone)]
pub struct DetailedDefinition {
    /// The definition itself.
    pub definition: Definition,
    /// First line of the whole, with its attributes and decorators.
    pub first_line: usize,
    /// First line of the comment right before it.
    pub comment_line: Option<usize>,
    /// The head, without the body.
    pub signature: Span,
    /// Names of the definitions around it, outermost first.
    pub containers: Vec<Span>,
}

/// Definitions and uses of a file.
#[derive(Debug, Default)]
pub struct Detailed {
    /// By their place.
    pub definitions: Vec<DetailedDefinition>,
    /// In the order of the source.
    pub uses: Vec<Use>,
}
