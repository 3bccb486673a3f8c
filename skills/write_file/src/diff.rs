//! What changed, as a unified diff that fits an answer.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};
use skill_sdk::text::{clip, counted};

/// Text of the diff in an answer. The model wrote the change, so it needs no more than a check of it.
const DIFF_BYTES_MAX: usize = 24 * 1024;
/// A longer line is cut in the diff.
const LINE_BYTES_MAX: usize = 500;
/// After this time the diff is coarse instead of smallest.
const DIFF_TIME: Duration = Duration::from_secs(2);
/// Unchanged lines around each change.
const CONTEXT: usize = 3;

/// A change of one file.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    old: Option<Cow<'a, str>>,
    new: Cow<'a, str>,
    old_is_text: bool,
}

/// The lines that come.
pub(crate) fn added<'d>(diff: &'d TextDiff<'_, '_, str>) -> impl Iterator<Item = &'d str> {
    tagged(diff, ChangeTag::Insert)
}

/// The lines that go.
pub(crate) fn removed<'d>(diff: &'d TextDiff<'_, '_, str>) -> impl Iterator<Item = &'d str> {
    tagged(diff, ChangeTag::Delete)
}

fn tagged<'d>(diff: &'d TextDiff<'_, '_, str>, tag: ChangeTag) -> impl Iterator<Item = &'d str> {
    diff.iter_all_changes()
        .filter(move |change| change.tag() == tag)
        .map(|change| change.value())
}

impl<'a> Change<'a> {
    pub(crate) fn new(old: Option<&'a [u8]>, new: &'a [u8]) -> Self {
        Self {
            old_is_text: old.is_none_or(|old| !old.contains(&0)),
            old: old.map(String::from_utf8_lossy),
            new: String::from_utf8_lossy(new),
        }
    }

    /// The difference, line by line. Made once, because it may take its time.
    pub(crate) fn diff(&self) -> TextDiff<'_, '_, str> {
        TextDiff::configure()
            .algorithm(Algorithm::Myers)
            .timeout(DIFF_TIME)
            .diff_lines(self.old.as_deref().unwrap_or_default(), &*self.new)
    }

    /// False where the old content was not text.
    pub(crate) fn old_is_text(&self) -> bool {
        self.old_is_text
    }

    /// The old content.
    pub(crate) fn old(&self) -> &str {
        self.old.as_deref().unwrap_or_default()
    }

    /// `Modified` or `Created`, the counts, and the diff.
    pub(crate) fn answer(&self, path: &str, diff: &TextDiff<'_, '_, str>) -> String {
        let verb = if self.old.is_some() { "Modified" } else { "Created" };
        if !self.old_is_text {
            let lines = counted(self.new.lines().count() as u64, "line", "lines");
            return format!("Replaced `{path}`, which was not text, by {lines} of text.");
        }
        let (added, removed) = (added(diff).count(), removed(diff).count());
        let mut text = format!("{verb} `{path}` (+{added} -{removed})");
        if self.old.is_none() && self.new.is_empty() {
            return text + ", empty.";
        }
        if added + removed == 0 {
            // Invalid bytes look alike once they are shown.
            return text + "; the difference lies in bytes that are not text.";
        }
        let before = if self.old.is_some() {
            format!("a/{path}")
        } else {
            "/dev/null".to_owned()
        };
        let unified = diff
            .unified_diff()
            .context_radius(CONTEXT)
            .header(&before, &format!("b/{path}"))
            .to_string();
        let mut lines = unified.lines();
        for line in lines.by_ref() {
            let (shown, cut) = clip(line.strip_suffix('\r').unwrap_or(line), LINE_BYTES_MAX);
            text.push('\n');
            text.push_str(shown);
            if cut > 0 {
                let _ = write!(text, "… [{cut} more bytes]");
            }
            if text.len() > DIFF_BYTES_MAX {
                break;
            }
        }
        match lines.count() {
            0 => text,
            left => text + &format!("\n… [{left} more lines of the diff]"),
        }
    }
}
