//! Describes the changes of a session for the end of its answer.

use std::fmt::Write;

use super::operations::OperationRun;
use tool_core::api::ChangeKind;
use tool_core::text;
use tool_journal::feed::Recorder;
use tool_journal::journal::StartRecord;
use tool_journal::lasting;
use tool_journal::report;
use tool_repository::diff::{FileDiff, first_lines};

/// Limit for the session's diff in an answer in bytes: some four screens. The session stores all of it.
const ANSWER_DIFF_BYTES_MAX: usize = 12 * 1024;

/// Limit for the files that are named. More would fill a screen, and the diff names all files.
const FILES_NAMED_MAX: usize = 12;

/// Last line of a session without changes. That can be the right answer, so the session does not fail.
pub(super) const UNCHANGED: &str =
    "Nothing was changed: every file is as it was before this session, whatever the answer above says.";

/// Changed files of a session, compared with its start.
#[derive(Debug, Default)]
pub(super) struct SessionDiffs {
    /// True if the changes are in a private layer.
    is_preview: bool,
    pub(super) files: Vec<FileDiff>,
    /// Abbreviated ids of the session's commits.
    commits: Vec<String>,
    /// Effects of the session other than changes of files.
    deeds: Vec<String>,
}

impl SessionDiffs {
    /// Reads the changes from the session's journal. Unreadable parts are left out, and logged.
    pub(super) async fn read_async(op: &OperationRun<'_>) -> Self {
        let recorder = std::sync::Arc::clone(&op.job.recorder);
        let read = tokio::task::spawn_blocking(move || Self::read(&recorder));
        read.await.unwrap_or_default()
    }

    /// Reads the changes. Blocks.
    pub(super) fn read(recorder: &Recorder) -> Self {
        let StartRecord {
            session_id: session,
            preview,
            ..
        } = recorder.summary().start;
        let read = || {
            recorder.flush()?;
            let lines = recorder.folder().changes()?;
            let files = recorder.folder().net(&lines);
            let files = files
                .map(|file| file.map(|file| FileDiff::new(&file)))
                .collect::<std::io::Result<Vec<FileDiff>>>()?;
            let (commits, _) = recorder.folder().view(|lines| lasting::list_commits(lines))?;
            let (deeds, _) = recorder.folder().view(|lines| lasting::list_deeds(lines))?;
            Ok::<_, std::io::Error>((files, commits, deeds))
        };
        let (files, commits, deeds) = read().unwrap_or_else(|error| {
            tracing::warn!(session, %error, "the changes of a session cannot be read");
            Default::default()
        });
        Self {
            is_preview: preview,
            files,
            commits,
            deeds,
        }
    }

    /// True if no file differs from the start.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Paths that did not exist before the session.
    pub(super) fn created(&self) -> Vec<String> {
        let created = self.files.iter().filter(|file| file.kind == ChangeKind::Created);
        created.map(|file| file.path.clone()).collect()
    }

    /// The changed files: `2 files: …`. All summaries of the session use the same text.
    pub(super) fn names(&self) -> String {
        let named = self.files.iter().take(FILES_NAMED_MAX).map(describe_file);
        let mut names = named.collect::<Vec<_>>().join(", ");
        if let more @ 1.. = self.files.len().saturating_sub(FILES_NAMED_MAX) {
            let _ = write!(names, " and {more} more");
        }
        let files = if self.files.len() == 1 { "file" } else { "files" };
        format!("{} {files}: {names}", self.files.len())
    }

    /// The summary: `Changed 2 files: …`. The client adds the commands that show and undo the changes.
    pub(super) fn summary(&self, verb: &str) -> String {
        if self.is_preview {
            return format!("Proposed changes of {}.", self.names());
        }
        format!("{verb} {}.{}", self.names(), self.what_stays())
    }

    /// The summary of a session that changed no file, with its other effects.
    pub(super) fn unchanged(&self) -> String {
        if self.deeds.is_empty() {
            return UNCHANGED.to_owned();
        }
        format!("No file was changed, but the session {}.", self.deeds.join(", "))
    }

    /// A note that an undo reverts files, but no commits.
    fn what_stays(&self) -> String {
        match &self.commits[..] {
            [] => String::new(),
            [commit] => format!(" Undoing this leaves the commit `{commit}` as it is."),
            commits => format!(
                " Undoing this leaves the commits `{}` as they are.",
                commits.join("`, `")
            ),
        }
    }

    /// The diff in a fenced block, cut to the limit.
    pub(super) fn diff(&self) -> String {
        let whole: String = self.files.iter().map(|file| file.text.as_str()).collect();
        let shown = first_lines(&whole, ANSWER_DIFF_BYTES_MAX);
        let mut text = String::new();
        report::write_fenced(&mut text, "diff", shown);
        let left = whole[shown.len()..].lines().count();
        if left > 0 {
            let _ = writeln!(text, "\n{left} more lines of the diff are left out here.");
        }
        text
    }
}

fn describe_file(file: &FileDiff) -> String {
    let path = text::quote_name(&file.path);
    match (file.kind, file.is_text) {
        (ChangeKind::Created, true) => format!("{path} (new, +{})", file.added),
        (ChangeKind::Created, false) => format!("{path} (new)"),
        (ChangeKind::Deleted, _) => format!("{path} (deleted)"),
        (ChangeKind::Modified, true) => format!("{path} (+{} -{})", file.added, file.removed),
        (ChangeKind::Modified, false) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, kind: ChangeKind, text: &str) -> FileDiff {
        FileDiff {
            path: path.into(),
            kind,
            added: 3,
            removed: 1,
            is_text: true,
            text: text.into(),
        }
    }

    fn changed(files: Vec<FileDiff>) -> SessionDiffs {
        SessionDiffs {
            is_preview: false,
            files,
            commits: Vec::new(),
            deeds: Vec::new(),
        }
    }

    #[test]
    fn a_session_that_committed_does_not_say_that_nothing_was_changed() {
        let mut unchanged = changed(Vec::new());
        assert!(unchanged.unchanged().starts_with("Nothing was changed: "));
        unchanged.deeds = vec!["made the commit `0123456789ab`".into(), "installed `six`".into()];
        let said = "No file was changed, but the session made the commit `0123456789ab`, installed `six`.";
        assert_eq!(unchanged.unchanged(), said);
    }

    #[test]
    fn a_summary_names_the_files_and_no_command() {
        let changed = changed(vec![
            file("a.py", ChangeKind::Modified, ""),
            file("b`.py", ChangeKind::Created, ""),
            file("c.py", ChangeKind::Deleted, ""),
        ]);
        insta::assert_snapshot!(changed.summary("Changed"), @"Changed 3 files: `a.py` (+3 -1), `b\u{fffd}.py` (new, +3), `c.py` (deleted).");
        assert_eq!(changed.created(), ["b`.py"]);
        let committed = SessionDiffs {
            commits: vec!["0123456789ab".into()],
            ..changed
        };
        let said = "`c.py` (deleted). Undoing this leaves the commit `0123456789ab` as it is.";
        assert!(committed.summary("Changed").ends_with(said));
    }

    #[test]
    fn a_preview_says_that_nothing_is_in_place() {
        let proposed = SessionDiffs {
            is_preview: true,
            ..changed(vec![file("a.py", ChangeKind::Modified, "")])
        };
        insta::assert_snapshot!(proposed.summary("Changed"), @"Proposed changes of 1 file: `a.py` (+3 -1).");
    }

    #[test]
    fn a_long_diff_ends_at_a_line_and_says_how_much_is_left() {
        let line = "+12345678\n";
        let count = ANSWER_DIFF_BYTES_MAX / line.len() + 5;
        let text = changed(vec![file("a.py", ChangeKind::Modified, &line.repeat(count))]).diff();
        assert!(text.starts_with("```diff\n+12345678\n"));
        let left = count - ANSWER_DIFF_BYTES_MAX / line.len();
        assert!(
            text.ends_with(&format!(
                "+12345678\n```\n\n{left} more lines of the diff are left out here.\n"
            )),
            "{text}"
        );
    }
}
