//! A unified diff on standard output: coloured on a terminal, as it is elsewhere.

use std::io::{self, Write};

use super::{Output, clean, write_out};
use crate::error::Error;

impl Output {
    /// Prints a diff.
    pub(crate) fn diff(self, diff: &str) -> Result<(), Error> {
        let coloured = self.terminal.is_some_and(|terminal| terminal.colour);
        write_out(&shown(diff, coloured))
    }
}

impl Output {
    /// The subject of a question: a diff in colours, anything else as it is.
    pub(crate) fn ask_about(self, detail: &str) {
        let is_diff = detail.starts_with("diff --git ");
        let text = if is_diff {
            shown(detail, self.colour)
        } else {
            clean(detail)
        };
        // Without standard error the user cannot be asked; the answer that never comes is a no.
        let _ = writeln!(io::stderr().lock(), "\n{text}");
    }
}

/// The diff without what could steer a terminal. A carriage return at the end of a line is kept: it is a part of the
/// file there, without which the diff would not apply, and it moves nothing.
fn shown(diff: &str, coloured: bool) -> String {
    let mut text = String::with_capacity(diff.len());
    let mut in_header = true;
    for line in diff.split_inclusive('\n') {
        let body = line.trim_end_matches('\n');
        let (body, end) = match body.strip_suffix('\r') {
            Some(body) if line.ends_with('\n') => (body, "\r\n"),
            _ => (body, &line[body.len()..]),
        };
        in_header = match body {
            _ if body.starts_with("diff --git ") => true,
            _ if body.starts_with("@@ ") => false,
            _ => in_header,
        };
        match colour(body, in_header).filter(|_| coloured) {
            Some(colour) => text.push_str(&format!("\x1b[{colour}m{}\x1b[0m{end}", clean(body))),
            None => text.extend([&clean(body), end]),
        }
    }
    text
}

fn colour(line: &str, in_header: bool) -> Option<&'static str> {
    match line.chars().next()? {
        _ if in_header => Some("1"),
        '@' => Some("36"),
        '+' => Some("32"),
        '-' => Some("31"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\x1b[2J\r\n--- old\r\n+new\n";

    #[test]
    fn a_pipe_gets_the_diff_without_escapes_and_with_its_line_ends() {
        assert_eq!(shown(DIFF, false), DIFF.replace('\x1b', ""));
    }

    #[test]
    fn a_terminal_gets_colours() {
        assert_eq!(
            shown(DIFF, true),
            "\x1b[1mdiff --git a/x b/x\x1b[0m\n\x1b[1m--- a/x\x1b[0m\n\x1b[1m+++ b/x\x1b[0m\n\
             \x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n same[2J\r\n\x1b[31m--- old\x1b[0m\r\n\x1b[32m+new\x1b[0m\n"
        );
    }
}
