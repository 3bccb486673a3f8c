//! Definitions and imports of a source file by its syntax tree.
//!
//! [`read`] walks a tree once, by what a [`Grammar`] says of its nodes; the grammars are tables in `languages`, and
//! what imports mean is in `imports`. It knows nothing of scopes beyond a file: which file a name belongs to is the
//! host's business. The crates in the folders below are the components, one for languages that occur together, so that
//! the large tables of a grammar are loaded only where they are needed.

mod imports;
mod languages;
mod walk;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component;

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
