//! What an undo does not take back, though the session did it: commits and installations. They are no changes of files
//! that a journal could hold; the user is told, and takes them back or keeps them.

use std::borrow::Borrow;

use serde::Deserialize;

use crate::api::Effect;
use crate::api::Receipt;
use crate::session::journal::{Entry, Line, ToolEntry};

/// The arguments of an installation, as far as they matter here.
#[derive(Deserialize)]
struct Installation {
    names: Vec<String>,
}

/// The commits that a session made, by what their skills called them.
pub(in crate::session) fn commits(lines: impl IntoIterator<Item = impl Borrow<Line>>) -> Vec<String> {
    let commit = |line: &Line| match &line.entry {
        Entry::Tool(tool) if tool.verdict == "ok" => {
            let receipt = tool.receipt.as_ref()?;
            may(receipt, Effect::CommitGit).then(|| commit_id(tool).map(str::to_owned))?
        }
        _ => None,
    };
    lines.into_iter().filter_map(|line| commit(line.borrow())).collect()
}

fn may(receipt: &Receipt, effect: Effect) -> bool {
    receipt.grants.contains(&effect)
}

/// A sentence without its full stop for each, in the order of the session.
pub(super) fn notices(lines: impl IntoIterator<Item = impl Borrow<Line>>) -> Vec<String> {
    let notice = |line: &Line| match &line.entry {
        Entry::Tool(tool) if tool.verdict == "ok" => notice(tool),
        _ => None,
    };
    lines.into_iter().filter_map(|line| notice(line.borrow())).collect()
}

/// By what the call was allowed to cause, whatever the skill is called: a team has its own.
fn notice(tool: &ToolEntry) -> Option<String> {
    let receipt = tool.receipt.as_ref()?;
    if may(receipt, Effect::CommitGit) {
        // `git revert` refuses while the files differ from the commit, and after the undo they do.
        return Some(format!(
            "the {} stays: commit the restored files to take it back in git as well",
            commit(tool)
        ));
    }
    may(receipt, Effect::Install).then(|| {
        format!(
            "the installation of {} stays: uninstall what is not wanted with the package manager",
            packages(&tool.arguments)
        )
    })
}

/// `Committed 0123456789ab on main: …`
fn commit(tool: &ToolEntry) -> String {
    commit_id(tool).map_or_else(
        || format!("commit that `{}` made", tool.name),
        |id| format!("commit {id}"),
    )
}

fn commit_id(tool: &ToolEntry) -> Option<&str> {
    let rest = tool.result.strip_prefix("Committed ")?;
    let id = rest.split_whitespace().next()?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(id)
}

fn packages(arguments: &str) -> String {
    // Arguments that were cut are no JSON any more.
    match serde_json::from_str::<Installation>(arguments) {
        Ok(Installation { names }) if !names.is_empty() => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        _ => "packages".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Timestamp;

    fn receipt(name: &str) -> Option<Box<Receipt>> {
        let grants = match name {
            "git_commit" | "our_release" => vec![Effect::ReadGit, Effect::CommitGit],
            "install_package" => vec![Effect::Install],
            _ => vec![Effect::WriteRepository],
        };
        Some(Box::new(Receipt {
            skill: name.into(),
            digest: String::new(),
            arguments: serde_json::Value::Null,
            grants,
            wall_us: 1,
            peak_memory_bytes: 1,
            bytes_in: 0,
            bytes_out: 0,
            files_proposed: Vec::new(),
            verdict: "ok".into(),
        }))
    }

    fn line(name: &str, arguments: &str, result: &str, verdict: &str) -> Line {
        let at: Timestamp = serde_json::from_str("\"2025-03-01T12:00:00Z\"").expect("a time");
        Line {
            seq: 1,
            at,
            entry: Entry::Tool(ToolEntry {
                call_id: "1".into(),
                name: name.into(),
                arguments: arguments.into(),
                result: result.into(),
                verdict: verdict.into(),
                started: at,
                duration_ms: 1,
                receipt: receipt(name),
                details: None,
            }),
        }
    }

    #[test]
    fn what_stays_is_told_once_each_and_failures_are_not() {
        let told = notices(&[
            line(
                "git_commit",
                "{}",
                "Committed 0123456789ab on main: Mend it\nAuthor: A",
                "ok",
            ),
            line("git_commit", "{}", "nothing to commit", "failed"),
            line("write_file", "{}", "Committed 1 on main", "ok"),
            line(
                "install_package",
                r#"{"names": ["requests", "six==1"]}"#,
                "INSTALLED",
                "ok",
            ),
            line(
                "install_package",
                r#"{"names": ["requ… (9 bytes more)"#,
                "INSTALLED",
                "ok",
            ),
            line("our_release", "{}", "Something else", "ok"),
        ]);
        let lines = [line(
            "git_commit",
            "{}",
            "Committed 0123456789ab on main: Mend it",
            "ok",
        )];
        assert_eq!(commits(&lines), ["0123456789ab"]);
        insta::assert_snapshot!(told.join("\n"), @r"
        the commit 0123456789ab stays: commit the restored files to take it back in git as well
        the installation of `requests`, `six==1` stays: uninstall what is not wanted with the package manager
        the installation of packages stays: uninstall what is not wanted with the package manager
        the commit that `our_release` made stays: commit the restored files to take it back in git as well
        ");
    }
}
