//! A journal that is longer than any session writes: a reader holds a part of it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tool_core::api::{Operation, PolicyRequest, current_time};
use tool_journal::journal::{JournalEntry, JournalLine, SessionWork, StartRecord, TurnBinding, encode_line};

use super::kibibytes;
use crate::support::Home;

const MEGABYTE: usize = 1024 * 1024;

/// Writes the journal of a daemon that died while its model thought for a long time.
fn leave_journal(home: &Home, root: &Path, megabytes: usize) {
    let id = uuid::Uuid::now_v7().to_string();
    let folder = home.path().join("sessions").join(&id);
    std::fs::create_dir_all(&folder).expect("it can be made");
    let root = root.to_string_lossy().into_owned();
    let start = StartRecord {
        session_id: id,
        work: SessionWork::Operation(Operation::Explain),
        target: ".".into(),
        focus: None,
        repository: root.clone(),
        working_directory: root,
        provider: "local".into(),
        model: "endless".into(),
        policy: PolicyRequest::default(),
        continues: None,
        binding: TurnBinding::default(),
        preview: false,
        interactive: false,
        ask: Vec::new(),
        version: "0.1.0".into(),
    };
    let start = JournalEntry::Started(start.into());
    let thought = JournalEntry::Reasoning {
        text: "Hm. ".repeat(MEGABYTE / 4),
    };
    let entries = std::iter::once(start).chain(std::iter::repeat_n(thought, megabytes));
    let mut journal = File::create(folder.join("journal.jsonl")).expect("it can be made");
    for (entry, seq) in entries.zip(1..) {
        let line = JournalLine {
            seq,
            at: current_time(),
            entry,
        };
        journal.write_all(&encode_line(&line)).expect("there is room");
    }
}

#[test]
fn a_journal_of_any_length_is_closed_in_little_memory() {
    let home = Home::offline();
    let repository = tempfile::tempdir().expect("a temporary folder");
    home.serve();
    let usual = kibibytes(home.pid(), "VmHWM:");
    home.run(Path::new("/"), &["service", "stop"]).expect(0);
    leave_journal(&home, repository.path(), 128);
    home.serve();
    let peak = kibibytes(home.pid(), "VmHWM:");
    assert!(usual > 0 && peak < usual + 64 * 1024, "{usual} KiB, then {peak} KiB");
    let report = repository.path().join("session-reports/session_latest.md");
    let report = std::fs::read_to_string(report).expect("it is there");
    assert!(report.len() < 9 * MEGABYTE, "{}", report.len());
    let end = report.split("· Left out").nth(1).expect("it says what is missing");
    assert!(end.contains("Operation failed: explain encountered an error"), "{end}");
}
