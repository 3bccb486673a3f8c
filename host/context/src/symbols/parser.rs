//! The parser of source files, which the context engine gets from its caller.
//!
//! Parsers are C code that reads untrusted files, so they run in the sandbox. The context engine knows neither the
//! sandbox nor a grammar: it sees this trait, and checks each answer against the text before it uses it.

use std::fmt;
use std::time::Duration;

use super::{SyntaxDetails, SyntaxOutline};

/// Reads source files by syntax tree.
pub trait SyntaxParser: fmt::Debug + Send + Sync {
    /// True if the parser knows the language of this path.
    fn reads(&self, path: &str) -> bool;

    /// Time that one file may take at most.
    fn wall(&self) -> Duration;

    /// Definitions and imports of a file. `None` if the parser does not know the language, if it reached `wall` or
    /// another limit, or if its answer does not fit the text.
    fn outline_within(&self, path: &str, text: &str, wall: Duration) -> Option<SyntaxOutline>;

    /// The definitions of a file, and its uses of `name`, or of every name; `None` as above.
    fn details(&self, path: &str, text: &str, name: Option<&str>) -> Option<SyntaxDetails>;

    /// The outline of a file, within the parser's own time limit.
    fn outline(&self, path: &str, text: &str) -> Option<SyntaxOutline> {
        self.outline_within(path, text, self.wall())
    }
}

/// A parser without languages: every file is read line by line.
#[derive(Debug, Clone, Copy)]
pub struct NoParser;

impl SyntaxParser for NoParser {
    fn reads(&self, _path: &str) -> bool {
        false
    }

    fn wall(&self) -> Duration {
        Duration::ZERO
    }

    fn outline_within(&self, _path: &str, _text: &str, _wall: Duration) -> Option<SyntaxOutline> {
        None
    }

    fn details(&self, _path: &str, _text: &str, _name: Option<&str>) -> Option<SyntaxDetails> {
        None
    }
}
