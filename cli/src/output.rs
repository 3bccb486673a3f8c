//! What reaches the terminal: the answer on standard output, everything else on standard error.
//!
//! Text from a model or a repository is cleaned of control characters first: it may not move the cursor, change
//! colours or ring bells, on a terminal or in a file that somebody will show on one.

use std::io::{self, IsTerminal, Write};

use host::api::Problem;

use crate::error::Error;

/// Where a command writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
    colour: bool,
}

impl Output {
    /// `quiet` leaves standard error to errors; `colour` is the user's wish, followed on a terminal only.
    pub(crate) fn new(quiet: bool, colour: bool) -> Self {
        Self {
            quiet,
            colour: colour && io::stderr().is_terminal(),
        }
    }

    /// True where somebody can be asked: they see the question and can type.
    pub(crate) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// A piece of the answer, at once.
    pub(crate) fn answer(self, text: &str) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(clean(text).as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::OutputClosed,
            _ => Error::new("output", format!("Standard output could not be written: {error}")),
        })
    }

    /// A line of the answer.
    pub(crate) fn line(self, text: &str) -> Result<(), Error> {
        self.answer(&format!("{text}\n"))
    }

    /// A line about what is going on. One line: a file's name may hold a newline, and must not forge another one.
    pub(crate) fn progress(self, text: &str) {
        if !self.quiet {
            self.error_line(&self.dim(&text.replace(['\n', '\t'], " ")));
        }
    }

    /// A line that the user should not miss, though nothing failed.
    pub(crate) fn notice(self, message: &str, hint: Option<&str>) {
        if !self.quiet {
            self.error_line(&clean(message));
            self.hint(hint);
        }
    }

    /// A question or a part of one; shown even where the rest is quiet.
    pub(crate) fn ask(self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Without standard error there is nobody to ask; the answer that never comes is a no.
        let _ = stderr.write_all(clean(text).as_bytes()).and_then(|()| stderr.flush());
    }

    /// `[error] <message>` and the hint that mends it.
    pub(crate) fn problem(self, problem: &Problem) {
        let label = if self.colour {
            "\x1b[31m[error]\x1b[0m"
        } else {
            "[error]"
        };
        self.error_line(&format!("{label} {}", clean(&problem.message)));
        self.hint(problem.hint.as_deref());
    }

    fn hint(self, hint: Option<&str>) {
        if let Some(hint) = hint {
            self.error_line(&self.dim(&format!("hint: {hint}")));
        }
    }

    fn dim(self, text: &str) -> String {
        let text = clean(text);
        if self.colour {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text
        }
    }

    fn error_line(self, text: &str) {
        // Standard error that is gone cannot be reported anywhere.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Removes control characters but newline and tab, and the marks that reorder text.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|&character| is_shown(character)).collect()
}

fn is_shown(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => false,
        _ => !character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn what_could_steer_a_terminal_is_removed() {
        assert_eq!(clean("a\x1b[2Jb\u{9b}31mc\r\x07\td\ne"), "a[2Jb31mc\td\ne");
        assert_eq!(clean("user\u{202e}txt.exe\u{2066}"), "usertxt.exe");
        assert_eq!(clean("grüße 漢字 🦀"), "grüße 漢字 🦀");
    }
}
