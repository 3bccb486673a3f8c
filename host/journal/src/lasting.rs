//! Effects of a session that an undo leaves: commits and installations. A journal of file changes does not hold them;
//! a notice names them, and the user keeps or reverts them.

use std::borrow::Borrow;

use crate::journal::{JournalEntry, JournalLine};

/// Digits of a shown object id: unambiguous in the largest repositories.
const ID_DIGITS: usize = 12;

/// Ids of the session's commits, from the host's receipts of its calls.
pub fn list_commits(lines: impl IntoIterator<Item = impl Borrow<JournalLine>>) -> Vec<String> {
    let mut commits = Vec::new();
    for line in lines {
        if let JournalEntry::Tool(tool) = &line.borrow().entry
            && let Some(receipt) = &tool.receipt
        {
            commits.extend(receipt.commits.iter().map(|id| shorten_id(id).to_owned()));
        }
    }
    commits
}

/// Effects of a session other than changes of files, as parts of a sentence: commits, installations, and requests
/// that may have changed something.
pub fn list_deeds(lines: impl IntoIterator<Item = impl Borrow<JournalLine>>) -> Vec<String> {
    let mut deeds = Vec::new();
    for line in lines {
        let JournalEntry::Tool(tool) = &line.borrow().entry else {
            continue;
        };
        let Some(receipt) = &tool.receipt else { continue };
        deeds.extend(
            receipt
                .commits
                .iter()
                .map(|id| format!("made the commit `{}`", shorten_id(id))),
        );
        deeds.extend(receipt.packages.iter().map(|name| format!("installed `{name}`")));
        let writing = receipt
            .requests
            .iter()
            .filter(|request| !matches!(&*request.method, "GET" | "HEAD"));
        deeds.extend(writing.map(|request| format!("sent {} to `{}`", request.method, request.host)));
    }
    deeds
}

/// A sentence without its full stop for each commit and installation, in the order of the session.
pub fn list_notices(lines: impl IntoIterator<Item = impl Borrow<JournalLine>>) -> Vec<String> {
    let mut notices = Vec::new();
    for line in lines {
        let JournalEntry::Tool(tool) = &line.borrow().entry else {
            continue;
        };
        let Some(receipt) = &tool.receipt else { continue };
        // `git revert` refuses while the files differ from the commit, as they do after the undo.
        notices.extend(receipt.commits.iter().map(|id| {
            format!(
                "the commit {} stays: commit the restored files to take it back in git as well",
                shorten_id(id)
            )
        }));
        if !receipt.packages.is_empty() {
            let names: Vec<String> = receipt.packages.iter().map(|name| format!("`{name}`")).collect();
            notices.push(format!(
                "the installation of {} stays: uninstall what is not wanted with the package manager",
                names.join(", ")
            ));
        }
    }
    notices
}

fn shorten_id(id: &str) -> &str {
    id.get(..ID_DIGITS).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::ToolEntry;
    use tool_core::api::{Receipt, Timestamp};

    fn line(name: &str, verdict: &str, commits: &[&str], packages: &[&str]) -> JournalLine {
        let at: Timestamp = serde_json::from_str("\"2025-03-01T12:00:00Z\"").expect("a time");
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let receipt = Receipt {
            skill: name.into(),
            digest: String::new(),
            arguments: serde_json::Value::Null,
            changes: Vec::new(),
            grants: Vec::new(),
            wall_us: 1,
            peak_memory_bytes: 1,
            bytes_in: 0,
            bytes_out: 0,
            files_proposed: Vec::new(),
            tests: None,
            commits: owned(commits),
            packages: owned(packages),
            requests: Vec::new(),
            verdict: verdict.into(),
        };
        JournalLine {
            seq: 1,
            at,
            entry: JournalEntry::Tool(ToolEntry {
                call_id: "1".into(),
                name: name.into(),
                arguments: "{}".into(),
                result: "Committed 9999999999 on main: what a skill says makes no commit".into(),
                verdict: verdict.into(),
                started: at,
                duration_ms: 1,
                receipt: Some(Box::new(receipt)),
                details: Some(serde_json::json!({"commit": "8888888888"})),
            }),
        }
    }

    #[test]
    fn what_stays_is_told_by_what_the_host_did_and_not_by_what_a_skill_says() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let lines = [
            line("git_commit", "ok", &[id], &[]),
            line("git_commit", "failed", &[], &[]),
            line("write_file", "ok", &[], &[]),
            line("install_package", "ok", &[], &["requests", "six==1"]),
            // A call that ran out of time after its commit has made it all the same.
            line("our_release", "timeout", &["fedcba9876543210"], &[]),
        ];
        assert_eq!(list_commits(&lines), ["0123456789ab", "fedcba987654"]);
        assert_eq!(
            list_deeds(&lines),
            [
                "made the commit `0123456789ab`",
                "installed `requests`",
                "installed `six==1`",
                "made the commit `fedcba987654`"
            ]
        );
        let told = list_notices(&lines);
        insta::assert_snapshot!(told.join("\n"), @r"
        the commit 0123456789ab stays: commit the restored files to take it back in git as well
        the installation of `requests`, `six==1` stays: uninstall what is not wanted with the package manager
        the commit fedcba987654 stays: commit the restored files to take it back in git as well
        ");
    }
}
