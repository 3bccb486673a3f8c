//! The status line at the bottom of a terminal, which shows what the command waits for. In a pipe there is none.
//!
//! It is drawn only while nothing else is written: other output clears it first.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use tool_core::text::clean_line;
use unicode_width::UnicodeWidthChar;

use super::{CommandOutput, terminal_columns};

/// Interval between updates of the line.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// A wait shorter than this is not worth a line.
const PATIENCE: Duration = Duration::from_millis(400);

#[derive(Debug)]
pub(crate) struct StatusLine {
    /// True if standard error is a terminal and the user wants progress.
    shown: bool,
    colour: bool,
    what: String,
    detail: String,
    since: Instant,
    drawn: bool,
}

impl StatusLine {
    pub(crate) fn new(output: CommandOutput) -> Self {
        Self {
            shown: output.moves && !output.quiet,
            colour: output.colour,
            what: String::new(),
            detail: String::new(),
            since: Instant::now(),
            drawn: false,
        }
    }

    /// From now on this is waited for.
    pub(crate) fn wait_for(&mut self, what: impl Into<String>) {
        self.what = what.into();
        self.detail.clear();
        self.since = Instant::now();
    }

    /// Updates the text without a new wait.
    pub(crate) fn count(&mut self, what: impl Into<String>) {
        self.what = what.into();
    }

    pub(crate) fn detail(&mut self, line: &str) {
        self.detail = line.to_owned();
    }

    pub(crate) fn draw(&mut self) {
        let waited = self.since.elapsed();
        if !self.shown || self.what.is_empty() || waited < PATIENCE {
            return;
        }
        let line = fit_line(
            &status_text(&self.what, &self.detail, waited),
            terminal_columns().saturating_sub(1),
        );
        let line = if self.colour {
            format!("\x1b[2m{line}\x1b[0m")
        } else {
            line
        };
        self.write(&format!("\r\x1b[K{line}"));
        self.drawn = true;
    }

    /// Takes the line away, so that something else can be written.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Standard error that is gone needs no status line.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `waiting for MODEL … 12 s  the newest line`
fn status_text(what: &str, detail: &str, waited: Duration) -> String {
    let mut line = format!("{} …", clean_line(what));
    if waited.as_secs() > 0 {
        line.push_str(&format!(" {} s", waited.as_secs()));
    }
    if !detail.trim().is_empty() {
        line.push_str(&format!("  {}", clean_line(detail).trim()));
    }
    line
}

/// As much of a line as fits.
fn fit_line(line: &str, columns: usize) -> String {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or(0);
        taken <= columns
    };
    line.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_and_how_long() {
        let seconds = Duration::from_secs;
        assert_eq!(
            status_text("waiting for some-model", "", seconds(12)),
            "waiting for some-model … 12 s"
        );
        assert_eq!(status_text("scanning", "", Duration::from_millis(600)), "scanning …");
        assert_eq!(
            status_text("run_tests", "  tests/a.py\x1b[2K .\tok ", seconds(5)),
            "run_tests … 5 s  tests/a.py . ok"
        );
    }

    #[test]
    fn it_keeps_within_the_line() {
        assert_eq!(fit_line("waiting for 漢字", 14), "waiting for 漢");
        assert_eq!(fit_line("waiting", 3), "wai");
    }
}
