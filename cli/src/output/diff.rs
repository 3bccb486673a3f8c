//! A unified diff on standard output: coloured on a terminal, unchanged elsewhere.

use std::io::{self, Write};

use tool_core::text::reveal_invisible;

use super::{CommandOutput, write_out};
use crate::error::Error;

impl CommandOutput {
    pub(crate) fn diff(self, diff: &str) -> Result<(), Error> {
        let coloured = self.terminal.is_some_and(|terminal| terminal.colour);
        write_out(&render_diff(diff, coloured))
    }
}

impl CommandOutput {
    /// The subject of a question: a diff in colours, anything else unchanged.
    pub(crate) fn ask_about(self, detail: &str) {
        let is_diff = detail.starts_with("diff --git ");
        let text = render_diff(detail, is_diff && self.colour);
        // Without standard error the user cannot be asked; the missing answer is a no.
        let _ = writeln!(io::stderr().lock(), "\n{text}");
    }
}

/// The diff with visible names in place of characters that could control a terminal, reorder text or be invisible. A
/// carriage return at the end of a line is kept: it belongs to the file, the diff would not apply without it, and it
/// moves nothing.
fn render_diff(diff: &str, coloured: bool) -> String {
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
        match line_colour(body, in_header).filter(|_| coloured) {
            Some(colour) => text.push_str(&format!("\x1b[{colour}m{}\x1b[0m{end}", reveal_invisible(body))),
            None => text.extend([&reveal_invisible(body), end]),
        }
    }
    text
}

fn line_colour(line: &str, in_header: bool) -> Option<&'static str> {
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

    const DIFF: &str =
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\x1b[2J\r\n--- old\r\n+new\u{202e}\u{200b}\n";

    #[test]
    fn a_pipe_gets_the_diff_with_its_line_ends_and_the_names_of_what_nobody_sees() {
        let named = DIFF
            .replace('\x1b', "<U+001B>")
            .replace("\u{202e}\u{200b}", "<U+202E><U+200B>");
        assert_eq!(render_diff(DIFF, false), named);
    }

    #[test]
    fn a_terminal_gets_colours() {
        assert_eq!(
            render_diff(DIFF, true),
            "\x1b[1mdiff --git a/x b/x\x1b[0m\n\x1b[1m--- a/x\x1b[0m\n\x1b[1m+++ b/x\x1b[0m\n\
             \x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n same<U+001B>[2J\r\n\x1b[31m--- old\x1b[0m\r\n\x1b[32m+new<U+202E><U+200B>\x1b[0m\n"
        );
    }
}
