//! Fuzz target: any bytes as the journal of a session, and the views of it.

use std::collections::BTreeSet;

use crate::limits;
use tool_core::api::History;
use tool_core::text;
use tool_journal::journal::{self, JournalEntry, ParsedJournal};
use tool_journal::{history, report};

/// Checks that parsed lines survive a round trip, that a torn journal is a prefix of the whole one, and that every
/// view can be made.
pub(crate) fn journal(bytes: &[u8]) {
    let parsed = journal::parse(bytes);
    check(&parsed, bytes);
    let again: Vec<u8> = parsed.lines.iter().flat_map(journal::encode_line).collect();
    let reread = journal::parse(&again);
    assert_eq!(reread.lines, parsed.lines, "what was read reads again the same");
    assert_eq!((reread.damaged, reread.whole_bytes), (0, again.len() as u64));
    // Tear it at a position that mutations of the bytes move.
    let sum: usize = bytes.iter().map(|&byte| usize::from(byte)).sum();
    let torn = &bytes[..sum % (bytes.len() + 1)];
    let rest = journal::parse(torn);
    check(&rest, torn);
    assert!(parsed.lines.starts_with(&rest.lines), "a torn journal is a beginning");
    views(&parsed);
}

fn check(parsed: &ParsedJournal, bytes: &[u8]) {
    assert!(parsed.whole_bytes <= bytes.len() as u64);
    assert!(bytes[parsed.whole_bytes as usize..].iter().all(|&byte| byte != b'\n'));
    assert!(parsed.lines.windows(2).all(|pair| pair[0].seq < pair[1].seq));
}

fn views(parsed: &ParsedJournal) {
    let lines = &parsed.lines;
    let _ = journal::committed_changes(lines).count();
    for line in lines {
        if let Some(event) = line.entry.event("id") {
            crate::http::fuzz::one_frame(line.seq, &event);
        }
        if let JournalEntry::Event { event } = &line.entry {
            let value = serde_json::to_value(event).expect("an event is JSON");
            let cut = journal::cut_value(&value, 16);
            assert!(cut.to_string().len() <= value.to_string().len() + 64 * 1024);
        }
    }
    let Some(summary) = history::SessionSummary::from_lines(lines) else {
        return;
    };
    let _ = (summary.task(), summary.files_modified(), history::session_output(lines));
    let text = report::render_report(&summary, &[], [], lines, &BTreeSet::new());
    let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
    assert!(text.chars().all(is_plain), "a report steers a terminal");
    if let Some(entry) = summary.history_entry() {
        let mut history = History::default();
        for _ in 0..2 {
            history = history::with_entries(history, vec![entry.clone()]);
        }
        assert!(history.sessions.len() == 1 && history.sessions.len() <= limits::HISTORY_ENTRIES_MAX);
    }
}

/// Checks that texts for people contain no terminal control. The context crate reads the same answers for citations.
pub(crate) fn answers(bytes: &[u8]) {
    let answer = String::from_utf8_lossy(bytes);
    for clean in [text::clean_text(&answer).into_owned(), report::clean_lines(&answer)] {
        let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
        assert!(clean.chars().all(is_plain) && !clean.contains('\u{202e}'), "{clean:?}");
        assert_eq!(text::clean_text(&clean), clean, "clean text stays as it is");
        // A report replaces a character of two bytes by a name of eight.
        assert!(clean.len() <= 4 * answer.len());
    }
}
