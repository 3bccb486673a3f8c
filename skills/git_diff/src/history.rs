//! The modes about commits: `log`, `show` and `blame`.

use std::fmt::Write;

use skill_details::{BlameDetails, BlamedLines, CommitSummary, DiffDetails, LogDetails, ShowDetails};
use skill_sdk::text::{clip, counted, one_line};
use skill_sdk::{
    BlameHunk, BlameQuery, CommitChange, Diff, Failure, FileChange, Host, LogQuery, LoggedCommit, Outcome, ShowQuery,
    clean_path,
};

use crate::{
    CONTEXT, CONTEXT_MAX, GitDiffArguments, LINE_BYTES_MAX, PAGE_BYTES_MAX, diff_details, parse_cursor, render_page,
    total_lines,
};

/// Commits on a page of the log by default.
const COMMITS: u32 = 20;
/// Lines of blame by default.
const LINES: u32 = 200;
/// Digits of a commit's id beside a line: unambiguous in the largest repositories.
const ID_DIGITS: usize = 12;
/// Limit for an author's name and for the first line of a message beside an id, in bytes.
const NAME_BYTES_MAX: usize = 60;
const SUMMARY_BYTES_MAX: usize = 160;

pub(crate) fn list_commits(host: &dyn Host, arguments: &GitDiffArguments) -> Result<Outcome, Failure> {
    let query = LogQuery {
        revision: arguments.revision.clone(),
        paths: arguments.clean_paths()?,
        count: arguments.limit.unwrap_or(COMMITS),
        after: arguments.cursor.clone().filter(|cursor| !cursor.is_empty()),
    };
    let found = host.git_log(&query)?;
    let touching = match query.paths[..] {
        [] => String::new(),
        _ => format!(" to {}", query.paths.join(", ")),
    };
    let mut text = match (found.commits.is_empty(), &found.next) {
        (true, None) => format!("No commits{touching}."),
        (true, Some(_)) => format!("No commits{touching} so far; the cursor looks further back."),
        (false, _) => format!(
            "{}{touching}, newest first:\n",
            counted(found.commits.len() as u64, "commit", "commits")
        ),
    };
    for commit in &found.commits {
        let _ = write!(text, "\n{}", line_of(commit));
    }
    let details = LogDetails {
        commits: found.commits.iter().map(summary_of).collect(),
    };
    Ok(Outcome::page(text, found.next).with_details(&details))
}

pub(crate) fn show_commit(host: &dyn Host, arguments: &GitDiffArguments) -> Result<Outcome, Failure> {
    let shown = host.git_show(&ShowQuery {
        revision: arguments.revision.clone(),
        paths: arguments.clean_paths()?,
        context_lines: arguments.context.unwrap_or(CONTEXT).min(CONTEXT_MAX),
    })?;
    let diff = Diff {
        branch: None,
        changes: shown.changes.into_iter().map(file_change).collect(),
        truncated: shown.truncated,
    };
    let start = match arguments.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => parse_cursor(cursor, &diff)?,
        None => (0, 0),
    };
    let head = if start == (0, 0) {
        head_of(&shown.commit, &diff)
    } else {
        format!("commit {}, continued", shown.commit.id)
    };
    let DiffDetails {
        files,
        files_left_out,
        added,
        removed,
        ..
    } = diff_details(&diff);
    let details = ShowDetails {
        commit: summary_of(&shown.commit),
        files,
        files_left_out,
        added,
        removed,
    };
    Ok(render_page(head, &diff, start).with_details(&details))
}

/// Shows the commits that last changed the lines of a file.
pub(crate) fn blame_lines(host: &dyn Host, arguments: &GitDiffArguments) -> Result<Outcome, Failure> {
    let [path] = &arguments.paths[..] else {
        return Err(Failure::invalid("blame needs exactly one file in `paths`"));
    };
    let path = clean_path(path)?;
    let first_line = match arguments.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => cursor
            .parse()
            .map_err(|_| Failure::invalid(format!("`{cursor}` is not a cursor of a blame")))?,
        None => arguments.offset.unwrap_or(1).max(1),
    };
    let found = host.git_blame(&BlameQuery {
        path: path.clone(),
        revision: arguments.revision.clone(),
        first_line,
        line_count: arguments.limit.unwrap_or(LINES).max(1),
    })?;
    let lines: Vec<&str> = found.content.split_inclusive('\n').collect();
    if lines.is_empty() {
        let total = counted(u64::from(found.lines_total), "line", "lines");
        return Ok(Outcome::text(format!("`{path}` has {total}; none is shown.")));
    }
    let place = arguments.revision.as_deref().unwrap_or("the working tree");
    let mut text = format!("{} in {place}, {} lines\n", one_line(&path), found.lines_total);
    let mut shown = 0;
    let mut details = BlameDetails {
        path: path.clone(),
        lines: Vec::new(),
        commits: found.commits.iter().map(summary_of).collect(),
    };
    'hunks: for hunk in &found.hunks {
        let commit = found
            .commits
            .iter()
            .find(|commit| Some(&commit.id) == hunk.commit.as_ref());
        let _ = write!(text, "\n{}", line_origin(hunk, commit));
        let mut line_count = 0;
        for _ in 0..hunk.line_count {
            let Some(line) = lines.get(shown) else { break 'hunks };
            if text.len() >= PAGE_BYTES_MAX {
                break;
            }
            let (line, cut) = clip(line.trim_end_matches(['\n', '\r']), LINE_BYTES_MAX);
            let _ = write!(text, "\n{:>6}\t{line}", first_line as usize + shown);
            if cut > 0 {
                let _ = write!(text, "… [{cut} more bytes]");
            }
            shown += 1;
            line_count += 1;
        }
        if line_count > 0 {
            details.lines.push(BlamedLines {
                first: hunk.first_line,
                count: line_count,
                commit: hunk.commit.clone(),
            });
        }
        if text.len() >= PAGE_BYTES_MAX {
            break;
        }
    }
    let next = u64::from(first_line) + shown as u64;
    let cursor = (next <= u64::from(found.lines_total)).then(|| next.to_string());
    Ok(Outcome::page(text, cursor).with_details(&details))
}

fn file_change(change: CommitChange) -> FileChange {
    FileChange {
        path: change.path,
        old_path: change.old_path,
        area: "committed".to_owned(),
        status: change.status,
        patch: change.patch,
        added_lines: change.added_lines,
        removed_lines: change.removed_lines,
        binary: change.binary,
    }
}

/// A commit in one line: `1a2b3c4d5e6f 2026-03-01 Ada: Add a test`.
fn line_of(commit: &LoggedCommit) -> String {
    let name = commit.author.split(" <").next().unwrap_or_default();
    let summary = commit.message.lines().next().unwrap_or_default();
    format!(
        "{} {} {}: {}",
        clip(&commit.id, ID_DIGITS).0,
        clip(&format_date(commit), "2026-03-01".len()).0,
        one_line(clip(name, NAME_BYTES_MAX).0),
        one_line(clip(summary, SUMMARY_BYTES_MAX).0)
    )
}

fn line_origin(hunk: &BlameHunk, commit: Option<&LoggedCommit>) -> String {
    let mut text = commit.map_or_else(|| "not committed".to_owned(), line_of);
    if let Some(old) = &hunk.old_path {
        let _ = write!(text, " (as {})", one_line(old));
    }
    text
}

/// The commit with its message, as git shows it, and the size of its changes.
fn head_of(commit: &LoggedCommit, diff: &Diff) -> String {
    let mut text = format!(
        "commit {}\nAuthor: {}\nDate: {}\n",
        commit.id,
        one_line(&commit.author),
        format_date(commit)
    );
    if commit.parents.len() > 1 {
        let _ = writeln!(
            text,
            "Merge of {} parents: the changes are those against the first, {}",
            commit.parents.len(),
            clip(&commit.parents[0], ID_DIGITS).0
        );
    }
    for line in commit.message.trim_end().lines() {
        let _ = write!(text, "\n    {line}");
    }
    let (added, removed) = total_lines(diff);
    let files = counted(diff.changes.len() as u64, "file", "files");
    let least = if diff.truncated { "at least " } else { "" };
    let _ = write!(text, "\n\n{least}{files} changed, +{added} -{removed}");
    text
}

fn summary_of(commit: &LoggedCommit) -> CommitSummary {
    CommitSummary {
        commit: commit.id.clone(),
        author: commit.author.clone(),
        date: format_date(commit),
        summary: commit.message.lines().next().unwrap_or_default().to_owned(),
    }
}

/// The author's time: `2026-03-01T12:30:00+01:00`.
fn format_date(commit: &LoggedCommit) -> String {
    let offset = commit.offset_minutes.clamp(-24 * 60, 24 * 60);
    let seconds = commit.time.saturating_add(i64::from(offset) * 60);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let sign = if offset < 0 { '-' } else { '+' };
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        offset.abs() / 60,
        offset.abs() % 60
    )
}

/// Converts days since 1970 to year, month and day in the Gregorian calendar. Eras have 400 years and begin in March,
/// so that the leap day is the last day of a year.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let is_next_year = i64::from(month >= 10);
    let number = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + is_next_year, number, day - first + 1)
}

#[cfg(test)]
mod tests {
    use skill_sdk::serde_json::{Value, json};
    use skill_sdk::testing::FakeHost;
    use skill_sdk::{BlamePage, CommitDiff, Handler, LogPage};

    use super::*;
    use crate::GitDiff;

    fn commit(digit: char, message: &str) -> LoggedCommit {
        LoggedCommit {
            id: String::from(digit).repeat(40),
            parents: vec!["f".repeat(40)],
            author: "Ada Example <ada@example.org>".to_owned(),
            time: 1_772_368_200,
            offset_minutes: 90,
            message: message.to_owned(),
        }
    }

    fn call(host: &FakeHost, arguments: &Value) -> Outcome {
        GitDiff::call(host, &arguments.to_string()).expect("the call works")
    }

    #[test]
    fn a_log_has_one_line_a_commit() {
        let mut host = FakeHost::new::<&str, &str>(&[]);
        host.log = Some(LogPage {
            commits: vec![commit('a', "Add a test\n\nIt is long.\n"), commit('b', "Begin\tnow\n")],
            next: Some("there".to_owned()),
        });
        let outcome = call(
            &host,
            &json!({"mode": "log", "paths": ["./src/"], "revision": "main", "limit": 2}),
        );
        insta::assert_snapshot!(outcome.text, @r"
        2 commits to src, newest first:

        aaaaaaaaaaaa 2026-03-01 Ada Example: Add a test
        bbbbbbbbbbbb 2026-03-01 Ada Example: Begin\tnow
        ");
        assert_eq!(outcome.cursor.as_deref(), Some("there"));
        let asked = host.requests.borrow_mut().pop().expect("the host was asked");
        assert_eq!(
            asked,
            r#"LogQuery { revision: Some("main"), paths: ["src"], count: 2, after: None }"#
        );
        host.log = Some(LogPage::default());
        assert_eq!(call(&host, &json!({"mode": "log"})).text, "No commits.");
        host.log = Some(LogPage {
            commits: Vec::new(),
            next: Some("there".to_owned()),
        });
        let far = call(&host, &json!({"mode": "log", "paths": ["a.py"]}));
        assert_eq!(far.text, "No commits to a.py so far; the cursor looks further back.");
        assert!(far.truncated);
    }

    #[test]
    fn a_commit_is_shown_with_its_message_and_patches() {
        let mut host = FakeHost::new::<&str, &str>(&[]);
        let mut merge = commit('a', "Join two branches\n\nBoth are good.\n");
        merge.parents.push("e".repeat(40));
        host.show = Some(CommitDiff {
            commit: merge,
            changes: vec![CommitChange {
                path: "new.py".to_owned(),
                old_path: Some("old.py".to_owned()),
                status: "renamed".to_owned(),
                patch: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-z\n+a\n".to_owned(),
                added_lines: 1,
                removed_lines: 1,
                binary: false,
            }],
            truncated: false,
        });
        let outcome = call(&host, &json!({"mode": "show", "revision": "main~2"}));
        insta::assert_snapshot!(outcome.text, @r"
        commit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        Author: Ada Example <ada@example.org>
        Date: 2026-03-01T14:00:00+01:30
        Merge of 2 parents: the changes are those against the first, ffffffffffff

            Join two branches
            
            Both are good.

        1 file changed, +1 -1

        === old.py -> new.py (committed, renamed, +1 -1)
        @@ -1 +1 @@
        -z
        +a
        ");
        insta::assert_snapshot!(
            outcome.details.expect("there are details"),
            @r#"{"commit":{"commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","author":"Ada Example <ada@example.org>","date":"2026-03-01T14:00:00+01:30","summary":"Join two branches"},"files":[{"path":"new.py","old_path":"old.py","area":"committed","status":"renamed","added":1,"removed":1,"is_binary":false}],"files_left_out":0,"added":1,"removed":1}"#
        );
    }

    fn blamed() -> FakeHost {
        let hunk = |first_line, line_count, commit: Option<char>| BlameHunk {
            first_line,
            line_count,
            commit: commit.map(|digit| String::from(digit).repeat(40)),
            old_path: None,
        };
        let mut host = FakeHost::new::<&str, &str>(&[]);
        host.blame = Some(BlamePage {
            content: "three\r\nfour\nfive\n".to_owned(),
            lines_total: 6,
            hunks: vec![
                hunk(3, 1, Some('a')),
                hunk(4, 1, None),
                BlameHunk {
                    old_path: Some("old.txt".to_owned()),
                    ..hunk(5, 1, Some('b'))
                },
            ],
            commits: vec![commit('a', "Add three"), commit('b', "Begin")],
        });
        host
    }

    #[test]
    fn each_line_stands_below_its_commit() {
        let host = blamed();
        let outcome = call(
            &host,
            &json!({"mode": "blame", "paths": ["a.txt"], "offset": 3, "limit": 3}),
        );
        insta::assert_snapshot!(outcome.text, @r"
        a.txt in the working tree, 6 lines

        aaaaaaaaaaaa 2026-03-01 Ada Example: Add three
             3	three
        not committed
             4	four
        bbbbbbbbbbbb 2026-03-01 Ada Example: Begin (as old.txt)
             5	five
        ");
        assert_eq!(outcome.cursor.as_deref(), Some("6"));
        let next = call(&host, &json!({"mode": "blame", "paths": ["a.txt"], "cursor": "6"}));
        assert!(next.text.starts_with("a.txt"), "{}", next.text);
        let asked = host.requests.borrow_mut().pop().expect("the host was asked");
        assert_eq!(
            asked,
            r#"BlameQuery { path: "a.txt", revision: None, first_line: 6, line_count: 200 }"#
        );
    }

    #[test]
    fn arguments_of_another_mode_are_refused() {
        let host = blamed();
        for arguments in [
            json!({"mode": "blame"}),
            json!({"mode": "blame", "paths": ["a", "b"]}),
            json!({"mode": "blame", "paths": ["../a"]}),
            json!({"mode": "blame", "paths": ["a"], "cursor": "x"}),
            json!({"mode": "log", "staged": true}),
            json!({"mode": "log", "paths": ["/etc"]}),
            json!({"revision": "main"}),
        ] {
            let failure = GitDiff::call(&host, &arguments.to_string()).expect_err("it does not fit");
            assert_eq!(failure.code, "invalid-arguments", "{arguments}");
        }
        assert_eq!(host.requests.borrow().len(), 0);
    }

    #[test]
    fn dates_follow_the_calendar() {
        let at = |time, offset_minutes| {
            format_date(&LoggedCommit {
                time,
                offset_minutes,
                ..LoggedCommit::default()
            })
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00+00:00");
        assert_eq!(at(951_827_696, 0), "2000-02-29T12:34:56+00:00");
        assert_eq!(at(1_704_067_199, 0), "2023-12-31T23:59:59+00:00");
        assert_eq!(at(-1, -60), "1969-12-31T22:59:59-01:00");
        // Nonsense is shown as nonsense, and does not overflow.
        assert!(at(i64::MAX, i32::MAX).ends_with("+24:00"));
    }
}
