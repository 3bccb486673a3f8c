//! What an undo does not take back, though the session did it: commits and installations. They are no changes of files
//! that a journal could hold; the user is told, and takes them back or keeps them.

use serde::Deserialize;

use crate::session::journal::{Entry, Line, ToolEntry};
use crate::skill::policy::Effect;

/// The arguments of an installation, as far as they matter here.
#[derive(Deserialize)]
struct Installation {
    names: Vec<String>,
}

/// A sentence without its full stop for each, in the order of the session.
pub(super) fn notices(lines: &[Line]) -> Vec<String> {
    let ended_well = lines.iter().filter_map(|line| match &line.entry {
        Entry::Tool(tool) if tool.verdict == "ok" => Some(tool),
        _ => None,
    });
    ended_well.filter_map(notice).collect()
}

/// By what the call was allowed to cause, whatever the skill is called: a team has its own.
fn notice(tool: &ToolEntry) -> Option<String> {
    let grants = &tool.receipt.as_ref()?.grants;
    let may = |effect: Effect| grants.iter().any(|granted| granted == effect.name());
    if may(Effect::CommitGit) {
        // `git revert` refuses while the files differ from the commit, and after the undo they do.
        return Some(format!(
            "the {} stays: commit the restored files to take it back in git as well",
            commit(tool)
        ));
    }
    may(Effect::Install).then(|| {
        format!(
            "the installation of {} stays: uninstall what is not wanted with the package manager",
            packages(&tool.arguments)
        )
    })
}

/// `Committed 0123456789ab on main: …`
fn commit(tool: &ToolEntry) -> String {
    let id = tool
        .result
        .strip_prefix("Committed ")
        .and_then(|rest| rest.split_whitespace().next())
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    id.map_or_else(
        || format!("commit that `{}` made", tool.name),
        |id| format!("commit {id}"),
    )
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
    use crate::api::{Receipt, Timestamp};

    fn receipt(name: &str) -> Option<Box<Receipt>> {
        let grants = match name {
            "git_commit" | "our_release" => vec!["read-git".to_owned(), "commit-git".to_owned()],
            "install_package" => vec!["install".to_owned()],
            _ => vec!["write-repository".to_owned()],
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
        insta::assert_snapshot!(told.join("\n"), @r"
        the commit 0123456789ab stays: commit the restored files to take it back in git as well
        the installation of `requests`, `six==1` stays: uninstall what is not wanted with the package manager
        the installation of packages stays: uninstall what is not wanted with the package manager
        the commit that `our_release` made stays: commit the restored files to take it back in git as well
        ");
    }
}
