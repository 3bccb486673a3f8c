//! Definitions and imports of a source file, from its syntax tree.
//!
//! [`walk_outline`] makes outlines for the index, from the tables of nodes in `languages` ([`Grammar`]) and the import rules
//! in `imports`. [`read_details`] reads all definitions and uses, by the patterns in `queries/` (`query` describes
//! their format); outlines of languages without a table come from the patterns as well. The crate knows nothing
//! beyond one file: the host decides which file a name belongs to. The crates in the subfolders are the components.
//! Each has languages that occur together, so that the large tables of a grammar are loaded only where they are
//! needed.

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
pub use walk::walk_outline;

/// A range of the source in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A function outside of types.
    Function,
    /// A function directly in a type, or with a receiver.
    Method,
    /// A class, a struct, an interface, an alias.
    Type,
    /// A constant, a variable of a module, a field.
    Value,
    /// A namespace inside of the file.
    Module,
}

/// A definition in an outline.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Range of the name.
    pub name: Span,
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Line of the name, counted from 1.
    pub line: usize,
    /// Last line of the definition.
    pub end_line: usize,
    /// Number of enclosing definitions.
    pub depth: usize,
}

/// A name in an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// True for the declaration of a module in another file.
    pub declares_module: bool,
    /// Leading dots of a relative import.
    pub level: usize,
    /// Parts of the path, without the language's separators.
    pub parts: Vec<Span>,
    /// Imported item, if the import names one.
    pub item: Option<Span>,
}

/// Symbols of a file.
#[derive(Debug, Default)]
pub struct Outline {
    /// Definitions in the order of the source.
    pub definitions: Vec<Definition>,
    /// Imports in the order of the source.
    pub imports: Vec<Imported>,
}

/// Kind of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseKind {
    /// A call.
    Call,
    /// An import.
    Import,
    /// A read or a write of an object's member.
    Attribute,
    /// A use as a type.
    Type,
    /// Any other use.
    Name,
}

/// A use of a name.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// Range of the name.
    pub name: Span,
    /// Kind of the use.
    pub kind: UseKind,
    /// Line, counted from 1.
    pub line: usize,
}

/// A definition with its surroundings.
#[derive(Debug, Clone)]
pub struct DetailedDefinition {
    /// Name, kind and lines of the definition.
    pub definition: Definition,
    /// First line, with attributes and decorators.
    pub first_line: usize,
    /// First line of the comment directly before it.
    pub comment_line: Option<usize>,
    /// Range of the head, without the body.
    pub signature: Span,
    /// Names of the enclosing definitions, outermost first.
    pub containers: Vec<Span>,
}

/// Definitions and uses of a file.
#[derive(Debug, Default)]
pub struct Detailed {
    /// Definitions in the order of the source.
    pub definitions: Vec<DetailedDefinition>,
    /// Uses in the order of the source.
    pub uses: Vec<Use>,
}
