//! Recorded calls of a skill in a repository, for repeating them.
//!
//! The journals are only read, possibly while a daemon writes them: one that is incomplete ends early.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

use crate::journal::{JOURNAL_FILE, JournalEntry, JournalLines};

/// Limit for the calls that an audit repeats, newest first. A few dozen show how a team uses a skill.
const AUDIT_CALLS_MAX: usize = 50;

/// Recorded calls of a skill.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentCalls {
    /// Arguments of the calls, newest first and without duplicates.
    pub calls: Vec<Value>,
    /// Number of calls whose arguments were too long to be recorded whole.
    pub left_out: usize,
}

/// Returns the newest calls of a skill in the repository at `root`, from the sessions beneath `home`. Blocks.
pub fn recent_calls(home: &Path, root: &Path, skill: &str) -> RecentCalls {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mut sessions: Vec<_> = fs::read_dir(home.join("sessions"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    // Identifiers rise with time.
    sessions.sort_unstable_by(|one, other| other.cmp(one));
    let mut recent = RecentCalls::default();
    for session in sessions {
        if recent.calls.len() >= AUDIT_CALLS_MAX {
            break;
        }
        add_calls(&session.join(JOURNAL_FILE), &root, skill, &mut recent);
    }
    recent
}

/// Adds the calls of one session, the last call first.
fn add_calls(journal: &Path, root: &Path, skill: &str, recent: &mut RecentCalls) {
    let Ok(file) = File::open(journal) else { return };
    let mut lines = JournalLines::new(BufReader::new(file)).map(|line| line.entry);
    match lines.next() {
        Some(JournalEntry::Started(start)) if Path::new(&start.repository) == root => {}
        _ => return,
    }
    let mut found = Vec::new();
    for entry in lines {
        if let JournalEntry::Tool(call) = entry
            && call.name == skill
        {
            match serde_json::from_str::<Value>(&call.arguments) {
                Ok(arguments) => found.push(arguments),
                Err(_) => recent.left_out += 1,
            }
        }
    }
    for arguments in found.into_iter().rev() {
        if recent.calls.len() < AUDIT_CALLS_MAX && !recent.calls.contains(&arguments) {
            recent.calls.push(arguments);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A session's folder with calls of a skill.
    fn session(home: &Path, id: &str, root: &Path, calls: impl Iterator<Item = String>) {
        let folder = home.join("sessions").join(id);
        fs::create_dir_all(&folder).expect("the folder is writable");
        let line =
            |seq: usize, entry: Value| json!({"seq": seq, "at": "2026-01-02T03:04:05Z", "entry": entry}).to_string();
        let started = json!({"kind": "started", "session_id": id, "work": {"skill": "lint"}, "target": "lint",
            "repository": root, "working_directory": root, "provider": "", "model": "", "policy": {},
            "interactive": false, "version": "0"});
        let mut text = line(1, started) + "\n";
        for (at, arguments) in calls.enumerate() {
            for name in ["lint", "fmt"] {
                let call = json!({"kind": "tool", "call_id": "1", "name": name, "arguments": arguments, "result": "",
                    "verdict": "ok", "started": "2026-01-02T03:04:05Z", "duration_ms": 1});
                text += &(line(2 * at + 2 + usize::from(name == "fmt"), call) + "\n");
            }
        }
        fs::write(folder.join(JOURNAL_FILE), text).expect("the folder is writable");
    }

    #[test]
    fn so_many_calls_are_found_the_newest_first() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let root = tempfile::tempdir().expect("a temporary folder");
        let root = fs::canonicalize(root.path()).expect("it is there");
        let numbered = |from: usize, to: usize| (from..to).map(|number| json!({"number": number}).to_string());
        session(home.path(), "01", &root, numbered(0, AUDIT_CALLS_MAX));
        session(home.path(), "02", Path::new("/elsewhere"), numbered(900, 910));
        session(
            home.path(),
            "03",
            &root,
            numbered(100, 103).chain(["{\"cut".to_owned()]),
        );
        session(home.path(), "04", &root, numbered(102, 103));
        let recent = recent_calls(home.path(), &root, "lint");
        assert_eq!(recent.left_out, 1);
        assert_eq!(recent.calls.len(), AUDIT_CALLS_MAX);
        let newest: Vec<u64> = recent
            .calls
            .iter()
            .filter_map(|call| call["number"].as_u64())
            .take(4)
            .collect();
        assert_eq!(newest, [102, 101, 100, AUDIT_CALLS_MAX as u64 - 1]);
        assert_eq!(recent_calls(home.path(), &root, "nothing"), RecentCalls::default());
    }
}
