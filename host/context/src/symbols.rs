//! Definitions and imports of a source file, read line by line; `resolve` finds the file of an import.
//!
//! This is text, not syntax: safe Rust over untrusted files, bounded by their length. It is right for code as it is
//! usually written and sometimes wrong (a definition inside a long string). It needs no parser, and works for every
//! language. Syntax trees come from the sandbox (`outline`), and `tree` checks them.

mod details;
mod embedded;
mod lines;
mod manifest;
mod packages;
mod parser;
mod resolve;
mod tree;

pub use details::{DetailedSymbol, SymbolUse, SyntaxDetails, UseForm};
pub use embedded::embedded_source;
pub(crate) use manifest::{Manifest, PackageEcosystem};
pub use packages::Packages;
pub use parser::{NoParser, SyntaxParser};
pub use resolve::Resolver;
pub use tree::{ByteSpan, ImportSite, NamedSymbol, SymbolForm, SyntaxOutline};

use lines::{
    go_line, java_line, leading_string, python_definition, python_import, python_names, ruby_line, rust_line,
    script_definition, script_imports,
};
use serde::{Deserialize, Serialize};
use tool_repository::file_role::file_name;

/// A family of languages whose definitions and imports are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Python and Cython.
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java and Kotlin.
    Java,
    /// C and C++: includes only.
    C,
    /// Ruby.
    Ruby,
    /// A language that only syntax trees cover.
    Other,
}

impl Syntax {
    /// By the extension of a path.
    pub fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = file_name(path).rsplit_once('.')?;
        match extension {
            "py" | "pyi" | "pyx" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte" | "astro" => {
                Some(Self::Script)
            }
            "rs" => Some(Self::Rust),
            "go" => Some(Self::Go),
            "java" | "kt" => Some(Self::Java),
            "rb" | "rake" => Some(Self::Ruby),
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" => Some(Self::C),
            _ => None,
        }
    }
}

/// A named definition in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedDefinition<'a> {
    /// Its bare name.
    pub name: &'a str,
    /// From 1.
    pub line: u32,
    /// True for a definition at the outermost level, or in a class there.
    pub outer: bool,
}

impl<'a> ParsedDefinition<'a> {
    /// A definition in a line with this indentation.
    fn new(name: &'a str, line: u32, indent: usize) -> Self {
        let outer = indent <= 4;
        Self { name, line, outer }
    }
}

/// Name in an import, before it is resolved to a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ParsedImport<'a> {
    /// `from ..a.b import c` is level 2, module `a.b`, name `c`; an absolute import has level 0.
    Python {
        /// Number of leading dots.
        level: usize,
        /// Dotted; may be empty.
        module: &'a str,
        /// Imported item, if the line names one.
        name: Option<&'a str>,
    },
    /// A module specifier or an include, as written.
    Path(&'a str),
    /// `mod name;`.
    RustModule(&'a str),
    /// `use a::b::c`, up to the first brace or semicolon.
    RustUse(&'a str),
    /// An import path of Go.
    Go(&'a str),
    /// A dotted name of Java.
    Java(&'a str),
    /// `require "a/b"`, below a load path.
    Ruby(&'a str),
    /// `require_relative "b"`.
    RubyRelative(&'a str),
}

/// Calls `define` and `import` for the definitions and imports of `text`, in the order of lines.
pub fn read_symbols<'a>(
    syntax: Syntax,
    text: &'a str,
    mut define: impl FnMut(ParsedDefinition<'a>),
    mut import: impl FnMut(ParsedImport<'a>),
) {
    let mut go_block = false;
    let mut from_open: Option<(usize, &'a str)> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.is_empty() || line.len() > LINE_BYTES_MAX {
            continue;
        }
        let number = index as u32 + 1;
        match syntax {
            Syntax::Python => {
                if let Some(open) = from_open {
                    from_open = python_names(open, trimmed, &mut import);
                    continue;
                }
                if let Some(name) = python_definition(trimmed, indent) {
                    define(ParsedDefinition::new(name, number, indent));
                } else {
                    from_open = python_import(trimmed, &mut import);
                }
            }
            Syntax::Script => {
                if let Some(name) = script_definition(trimmed, indent) {
                    define(ParsedDefinition::new(name, number, indent));
                }
                script_imports(trimmed, &mut import);
            }
            Syntax::Rust => rust_line(trimmed, indent, number, &mut define, &mut import),
            Syntax::Go => go_line(trimmed, indent, number, &mut go_block, &mut define, &mut import),
            Syntax::Java => java_line(trimmed, indent, number, &mut define, &mut import),
            Syntax::Ruby => ruby_line(trimmed, indent, number, &mut define, &mut import),
            Syntax::C => {
                if let Some(path) = trimmed
                    .strip_prefix("#include")
                    .map(str::trim_start)
                    .and_then(leading_string)
                {
                    import(ParsedImport::Path(path));
                }
            }
            Syntax::Other => return,
        }
    }
}
/// Lines longer than this are data or minified code.
pub(super) const LINE_BYTES_MAX: usize = 2000;

#[cfg(test)]
mod tests;
