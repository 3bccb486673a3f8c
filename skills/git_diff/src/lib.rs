//! `git_diff`: the uncommitted changes as patches, and the history.
//!
//! The host reads git; here changes are selected, put into pages and written down:
//!
//! ```text
//! On branch main: 2 files changed, +12 -3 (1 unstaged, 1 untracked)
//!
//! === src/a.py (unstaged, modified, +2 -3)
//! @@ …
//! ```

mod history;

use std::fmt::Write;

use serde::Deserialize;
use skill_details::{DiffDetails, DiffFile};
use skill_sdk::serde_json::json;
use skill_sdk::text::{clip, counted, one_line};
use skill_sdk::{
    Descriptor, Diff, DiffQuery, Failure, FileChange, FunctionMetadata, Handler, Host, Outcome, clean_path,
    export_skill,
};

/// Lines of context by default.
const CONTEXT: u32 = 3;
/// Limit for the lines of context.
const CONTEXT_MAX: u32 = 20;
/// Limit for the text of an answer in bytes, so that it fits a model's window. Checked before each line.
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// Limit for a line in bytes.
const LINE_BYTES_MAX: usize = 1000;
/// Limit for the files in the details.
const DETAILED_MAX: usize = 1000;

/// The skill `git_diff`.
#[derive(Debug)]
pub struct GitDiff;

/// What a call shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GitMode {
    #[default]
    Changes,
    Log,
    Show,
    Blame,
}

#[derive(Debug, Deserialize)]
struct GitDiffArguments {
    #[serde(default)]
    mode: GitMode,
    revision: Option<String>,
    offset: Option<u32>,
    limit: Option<u32>,
    staged: Option<bool>,
    unstaged: Option<bool>,
    untracked: Option<bool>,
    #[serde(default)]
    paths: Vec<String>,
    context: Option<u32>,
    cursor: Option<String>,
}

impl GitDiffArguments {
    fn query(&self) -> Result<DiffQuery, Failure> {
        let areas = [self.staged, self.unstaged, self.untracked];
        // A caller that names one area does not mean the others.
        let default = !areas.contains(&Some(true));
        let [staged, unstaged, untracked] = areas.map(|area| area.unwrap_or(default));
        if !(staged || unstaged || untracked) {
            return Err(Failure::invalid(
                "staged, unstaged and untracked are all false: nothing is left to show",
            ));
        }
        Ok(DiffQuery {
            paths: self.clean_paths()?,
            staged,
            unstaged,
            untracked,
            context_lines: self.context.unwrap_or(CONTEXT).min(CONTEXT_MAX),
        })
    }

    fn clean_paths(&self) -> Result<Vec<String>, Failure> {
        let mut paths = Vec::new();
        for path in &self.paths {
            let path = clean_path(path)?;
            if path.is_empty() {
                // The root includes every other path.
                return Ok(Vec::new());
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// Refuses an argument that the mode would ignore although it changes the meaning of the call.
    fn check_mode(&self) -> Result<(), Failure> {
        let areas = [self.staged, self.unstaged, self.untracked];
        if self.mode == GitMode::Changes && self.revision.is_some() {
            return Err(Failure::invalid("the uncommitted changes have no revision")
                .with_hint("use mode `show` for the changes of a commit, or `log` to find one"));
        }
        if self.mode != GitMode::Changes && areas.contains(&Some(true)) {
            return Err(Failure::invalid(
                "staged, unstaged and untracked select uncommitted changes, and this mode looks at commits",
            ));
        }
        Ok(())
    }
}

impl Handler for GitDiff {
    const EFFECTS: &'static [&'static str] = &["read-git"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "git_diff",
            version: "1.0.0",
            description: "Shows uncommitted changes as unified diffs: staged, unstaged and untracked files. Use it to \
                review changes before a commit, or to see what the user is working on. With `mode` it lists commits, \
                shows one, or says which commit brought each line of a file.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "mode": {
                        "type": "string",
                        "enum": ["changes", "log", "show", "blame"],
                        "description": "changes (default): uncommitted changes. log: commits, newest first. show: one \
                            commit with its diff. blame: the commit of each line of the one file in paths."
                    },
                    "revision": {
                        "type": "string",
                        "minLength": 1,
                        "description": "For log, show, blame: a branch, tag or commit id, also with ~N. Default: the \
                            last commit; for blame the working tree."
                    },
                    "offset": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "For blame: the first line. Default: 1."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Commits of log (default 20) or lines of blame (default 200)."
                    },
                    "staged": {
                        "type": "boolean",
                        "description": "Last commit to index. All three are shown by default; if any of them is true, \
                            only the true ones."
                    },
                    "unstaged": {
                        "type": "boolean",
                        "description": "Index to working tree."
                    },
                    "untracked": {
                        "type": "boolean",
                        "description": "New files, as additions."
                    },
                    "paths": {
                        "type": "array",
                        "format": "path",
                        "items": {"type": "string", "minLength": 1},
                        "description": "Only these files or directories, relative to the repository root."
                    },
                    "context": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": CONTEXT_MAX,
                        "description": "Unchanged lines around each change. Default: 3."
                    },
                    "cursor": {
                        "type": "string",
                        "description": "Cursor of a truncated answer; keep the other arguments."
                    }
                },
                "required": [],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: GitDiffArguments = skill_sdk::arguments(arguments)?;
        arguments.check_mode()?;
        match arguments.mode {
            GitMode::Changes => show_changes(host, &arguments),
            GitMode::Log => history::list_commits(host, &arguments),
            GitMode::Show => history::show_commit(host, &arguments),
            GitMode::Blame => history::blame_lines(host, &arguments),
        }
    }
}

fn show_changes(host: &dyn Host, arguments: &GitDiffArguments) -> Result<Outcome, Failure> {
    let query = arguments.query()?;
    let diff = host.git_changes(&query)?;
    if diff.changes.is_empty() {
        return Ok(nothing_changed(&query, &diff).with_details(&diff_details(&diff)));
    }
    let start = match arguments.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
        Some(cursor) => parse_cursor(cursor, &diff)?,
        None => (0, 0),
    };
    Ok(render_page(render_summary(&diff), &diff, start).with_details(&diff_details(&diff)))
}

fn diff_details(diff: &Diff) -> DiffDetails {
    let file = |change: &FileChange| DiffFile {
        path: change.path.clone(),
        old_path: change.old_path.clone().filter(|old| *old != change.path),
        area: change.area.clone(),
        status: change.status.clone(),
        added: change.added_lines,
        removed: change.removed_lines,
        is_binary: change.binary,
    };
    let (added, removed) = total_lines(diff);
    DiffDetails {
        branch: diff.branch.clone(),
        files: diff.changes.iter().take(DETAILED_MAX).map(file).collect(),
        files_left_out: diff.changes.len().saturating_sub(DETAILED_MAX) as u64,
        added,
        removed,
    }
}

/// Added and removed lines in all files.
fn total_lines(diff: &Diff) -> (u64, u64) {
    let sum = |count: fn(&FileChange) -> u32| diff.changes.iter().map(|change| u64::from(count(change))).sum();
    (sum(|change| change.added_lines), sum(|change| change.removed_lines))
}

/// Writes the answer without changes.
fn nothing_changed(query: &DiffQuery, diff: &Diff) -> Outcome {
    let all = query.staged && query.unstaged && query.untracked;
    let what: Vec<&str> = [
        (query.staged, "staged"),
        (query.unstaged, "unstaged"),
        (query.untracked, "untracked"),
    ]
    .into_iter()
    .filter_map(|(asked, name)| (asked && !all).then_some(name))
    .collect();
    let mut text = match what[..] {
        [] => "No uncommitted changes".to_owned(),
        _ => format!("No {} changes", what.join(" or ")),
    };
    if !query.paths.is_empty() {
        let _ = write!(text, " in {}", query.paths.join(", "));
    }
    text.push('.');
    if diff.truncated {
        text.push_str(" The list was cut, so there may be some.");
    }
    Outcome::text(text)
}

/// Parses a cursor `FILE:LINE:PATH`, a position among the changes. The path shows whether they are still the same.
fn parse_cursor(cursor: &str, diff: &Diff) -> Result<(usize, usize), Failure> {
    let mut parts = cursor.splitn(3, ':');
    let mut number = || parts.next()?.parse::<usize>().ok();
    let (file, line) = (number(), number());
    let path = parts.next();
    match (file, line) {
        (Some(file), Some(line)) if diff.changes.get(file).map(|change| change.path.as_str()) == path => {
            Ok((file, line))
        }
        _ => Err(
            Failure::invalid("the changes are no longer those that this cursor belongs to")
                .with_hint("call again without a cursor"),
        ),
    }
}

/// Writes the head, and as many patches as fit from a position on.
fn render_page(head: String, diff: &Diff, (first, first_line): (usize, usize)) -> Outcome {
    let mut text = head;
    for (at, change) in diff.changes.iter().enumerate().skip(first) {
        // Files without a patch need room as well.
        if at > first && text.len() >= PAGE_BYTES_MAX {
            return Outcome::page(text, Some(format!("{at}:0:{}", change.path)));
        }
        let skip = if at == first { first_line } else { 0 };
        text.push_str("\n\n");
        text.push_str(&render_header(change));
        if skip > 0 {
            text.push_str(", continued");
        }
        for (number, line) in patch_body(change).lines().enumerate().skip(skip) {
            if text.len() >= PAGE_BYTES_MAX {
                return Outcome::page(text, Some(format!("{at}:{number}:{}", change.path)));
            }
            let (shown, cut) = clip(line, LINE_BYTES_MAX);
            text.push('\n');
            text.push_str(shown);
            if cut > 0 {
                let _ = write!(text, "… [{cut} more bytes]");
            }
        }
    }
    if diff.truncated {
        text.push_str("\n\nThere are more changes than were read; name paths to see the others.");
    }
    Outcome {
        truncated: diff.truncated,
        ..Outcome::text(text)
    }
}

fn render_summary(diff: &Diff) -> String {
    let branch = match &diff.branch {
        Some(branch) => format!("On branch {branch}"),
        None => "On no branch (detached head)".to_owned(),
    };
    let (added, removed) = total_lines(diff);
    let mut paths: Vec<&str> = diff.changes.iter().map(|change| change.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let areas: Vec<String> = ["staged", "unstaged", "untracked"]
        .into_iter()
        .map(|area| (diff.changes.iter().filter(|change| change.area == area).count(), area))
        .filter(|(count, _)| *count > 0)
        .map(|(count, area)| format!("{count} {area}"))
        .collect();
    let least = if diff.truncated { "at least " } else { "" };
    let files = counted(paths.len() as u64, "file", "files");
    format!(
        "{branch}: {least}{files} changed, +{added} -{removed} ({})",
        areas.join(", ")
    )
}

/// The header of a file: `=== old -> new (area, status, +1 -2)`.
fn render_header(change: &FileChange) -> String {
    let path = one_line(&change.path);
    let name = match &change.old_path {
        Some(old) if *old != change.path => format!("{} -> {path}", one_line(old)),
        _ => path.into_owned(),
    };
    let size = if change.path.ends_with('/') {
        "directory".to_owned()
    } else if change.binary {
        "binary".to_owned()
    } else {
        format!("+{} -{}", change.added_lines, change.removed_lines)
    };
    format!("=== {name} ({}, {}, {size})", change.area, change.status)
}

/// The patch, or the reason why there is none. Lines before the first hunk repeat the header and are left out.
fn patch_body(change: &FileChange) -> &str {
    if change.patch.is_empty() {
        let has_lines = change.added_lines + change.removed_lines > 0;
        return if change.path.ends_with('/') {
            "(packages or build output: name a path in it to see the files)"
        } else if has_lines && !change.binary {
            "(content not shown)"
        } else {
            ""
        };
    }
    if change.patch.starts_with("@@") {
        &change.patch
    } else {
        change
            .patch
            .find("\n@@")
            .map_or(&*change.patch, |at| &change.patch[at + 1..])
    }
}

export_skill!(GitDiff);

#[cfg(test)]
mod tests {
    use skill_sdk::serde_json::Value;
    use skill_sdk::testing::{FakeHost, check_description};

    use super::*;

    fn change(path: &str, area: &str, status: &str, patch: &str) -> FileChange {
        let count = |mark| patch.lines().filter(|line| line.starts_with(mark)).count() as u32;
        FileChange {
            path: path.to_owned(),
            area: area.to_owned(),
            status: status.to_owned(),
            patch: patch.to_owned(),
            added_lines: count('+'),
            removed_lines: count('-'),
            ..FileChange::default()
        }
    }

    fn host(changes: Vec<FileChange>) -> FakeHost {
        let mut host = FakeHost::new::<&str, &str>(&[]);
        host.diff = Some(Diff {
            branch: Some("main".to_owned()),
            changes,
            truncated: false,
        });
        host
    }

    fn call(host: &FakeHost, arguments: Value) -> Outcome {
        GitDiff::call(host, &arguments.to_string()).expect("the call works")
    }

    #[test]
    fn description() {
        check_description::<GitDiff>();
    }

    #[test]
    fn details_describe_all_changes_without_their_contents() {
        let host = host(vec![change("a.py", "staged", "modified", "@@ -1 +1 @@\n-z\n+a\n")]);
        assert_eq!(
            call(&host, json!({})).details.as_deref(),
            Some(
                r#"{"branch":"main","files":[{"path":"a.py","area":"staged","status":"modified","added":1,"removed":1,"is_binary":false}],"files_left_out":0,"added":1,"removed":1}"#
            )
        );
    }

    #[test]
    fn patches_have_headers() {
        let mut moved = change("new.py", "staged", "renamed", "");
        moved.old_path = Some("old.py".to_owned());
        let mut image = change("logo.png", "untracked", "added", "");
        image.binary = true;
        let mut secret = change(".env", "unstaged", "modified", "");
        secret.added_lines = 1;
        let patch = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
        let host = host(vec![
            change("src/a.py", "unstaged", "modified", patch),
            change(
                "src/a.py",
                "staged",
                "modified",
                "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-z\n+a\n",
            ),
            moved,
            image,
            secret,
        ]);
        insta::assert_snapshot!(call(&host, json!({})).text, @r"
        On branch main: 4 files changed, +4 -3 (2 staged, 2 unstaged, 1 untracked)

        === src/a.py (unstaged, modified, +1 -1)
        @@ -1,2 +1,2 @@
         a
        -b
        +c

        === src/a.py (staged, modified, +2 -2)
        @@ -1 +1 @@
        -z
        +a

        === old.py -> new.py (staged, renamed, +0 -0)

        === logo.png (untracked, added, binary)

        === .env (unstaged, modified, +1 -0)
        (content not shown)
        ");
    }

    #[test]
    fn a_directory_is_named_without_its_files() {
        let host = host(vec![change("venv/", "untracked", "added", "")]);
        insta::assert_snapshot!(call(&host, json!({})).text, @r"
        On branch main: 1 file changed, +0 -0 (1 untracked)

        === venv/ (untracked, added, directory)
        (packages or build output: name a path in it to see the files)
        ");
    }

    #[test]
    fn areas_and_paths_are_asked_for() {
        let host = host(Vec::new());
        let asked = |arguments: Value| {
            call(&host, arguments);
            host.requests.borrow_mut().pop().expect("the host was asked")
        };
        let query = |areas: [bool; 3], paths: &[&str], context_lines| DiffQuery {
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            staged: areas[0],
            unstaged: areas[1],
            untracked: areas[2],
            context_lines,
        };
        let debug = |query: DiffQuery| format!("{query:?}");
        assert_eq!(asked(json!({})), debug(query([true, true, true], &[], 3)));
        assert_eq!(
            asked(json!({"staged": true})),
            debug(query([true, false, false], &[], 3))
        );
        assert_eq!(
            asked(json!({"untracked": false, "context": 0})),
            debug(query([true, true, false], &[], 0))
        );
        assert_eq!(
            asked(json!({"paths": ["./src/", "a.py"]})),
            debug(query([true, true, true], &["src", "a.py"], 3))
        );
        assert_eq!(
            asked(json!({"paths": ["src", "."]})),
            debug(query([true, true, true], &[], 3))
        );
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let host = host(Vec::new());
        assert_eq!(call(&host, json!({})).text, "No uncommitted changes.");
        assert_eq!(call(&host, json!({"staged": true})).text, "No staged changes.");
        assert_eq!(
            call(&host, json!({"paths": ["src"]})).text,
            "No uncommitted changes in src."
        );
        let none = json!({"staged": false, "unstaged": false, "untracked": false});
        let failure = GitDiff::call(&host, &none.to_string()).expect_err("nothing is asked for");
        assert_eq!(failure.code, "invalid-arguments");
        let failure = GitDiff::call(&host, r#"{"paths": ["../x"]}"#).expect_err("it leaves the repository");
        assert_eq!(failure.code, "invalid-arguments");
    }

    #[test]
    fn a_large_diff_comes_in_pages() {
        let patch: String = (0..4000).map(|n| format!("+line {n} of a long file\n")).collect();
        let host = host(vec![
            change("a", "untracked", "added", &patch),
            change("b", "untracked", "added", "+b\n"),
        ]);
        let first = call(&host, json!({}));
        assert!(first.truncated && first.text.len() < PAGE_BYTES_MAX + 100);
        let cursor = first.cursor.expect("there is more");
        let second = call(&host, json!({"cursor": cursor}));
        assert!(
            second
                .text
                .contains("\n\n=== a (untracked, added, +4000 -0), continued\n+line ")
        );
        assert!(second.text.ends_with("=== b (untracked, added, +1 -0)\n+b"));
        assert!(!second.truncated);
        let lines = |text: &str| text.lines().filter(|line| line.starts_with("+line")).count();
        assert_eq!(lines(&first.text) + lines(&second.text), 4000);
        let failure = GitDiff::call(&host, r#"{"cursor": "1:3:a"}"#).expect_err("the file is another one");
        assert_eq!(failure.hint.as_deref(), Some("call again without a cursor"));
    }

    #[test]
    fn many_files_without_a_patch_come_in_pages() {
        let changes = (0..5000)
            .map(|n| change(&format!("data/f{n}.bin"), "untracked", "added", ""))
            .collect();
        let host = host(changes);
        let mut headers = 0;
        let mut cursor = String::new();
        loop {
            let page = call(&host, json!({"cursor": cursor}));
            assert!(page.text.len() < PAGE_BYTES_MAX + 100);
            headers += page.text.matches("=== ").count();
            match page.cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
        assert_eq!(headers, 5000);
    }

    #[test]
    fn a_cut_list_is_told() {
        let mut host = host(vec![change("a", "untracked", "added", "+a\n")]);
        if let Some(diff) = &mut host.diff {
            diff.truncated = true;
            diff.branch = None;
        }
        insta::assert_snapshot!(call(&host, json!({})).text, @r"
        On no branch (detached head): at least 1 file changed, +1 -0 (1 untracked)

        === a (untracked, added, +1 -0)
        +a

        There are more changes than were read; name paths to see the others.
        ");
    }

    #[test]
    fn a_refusal_passes_through() {
        let host = FakeHost::new::<&str, &str>(&[]);
        assert_eq!(
            GitDiff::call(&host, "{}").expect_err("it is not granted").code,
            "denied"
        );
    }
}
