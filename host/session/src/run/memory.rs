//! State that a turn stores in its journal for the next turn, and takes over from earlier ones.
//!
//! Messages are recorded as the model gets them. Before each message, the journal records what entered the
//! conversation with it: keys, places outside the user's own files, and files that the model has seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::limits;
use tool_core::api::ChangeKind;
use tool_core::digest::sha256_hex;
use tool_core::text::quote_names;
use tool_journal::conversation::PastConversation;
use tool_journal::feed::Recorder;
use tool_journal::journal::{ConversationEntry, JournalEntry};
use tool_provider::{LabelMark, Message, TextOrigin, ToolResult};
use tool_repository::Repository;
use tool_skill::CallContext;

/// Limit for files whose content is compared with what an earlier turn saw. A session reads some dozens.
const COMPARED_FILES_MAX: usize = 2_000;

/// Limit for the changed files that are named.
const NAMED_FILES_MAX: usize = 50;

/// State that a turn takes over from earlier ones.
#[derive(Debug, Default)]
pub(super) struct InheritedState {
    /// Files that have not changed since the model saw them.
    pub(super) seen: BTreeMap<String, String>,
    /// All files that the model saw according to the journals.
    pub(super) known: BTreeMap<String, String>,
    /// Files that the conversation has created and that have not changed since.
    pub(super) created: BTreeMap<String, ChangeKind>,
    /// Places outside the user's own files that text came from.
    pub(super) places: Vec<String>,
    /// Number of keys that the model knows as placeholders.
    pub(super) keys: usize,
    /// News for the model about the repository since the last turn; may be empty.
    pub(super) news: String,
}

impl InheritedState {
    /// Compares the files that the model has seen with their present state. Blocks.
    pub(super) fn compare_files(
        past: &PastConversation,
        mark: LabelMark,
        repository: &Repository,
        cancel: &CancellationToken,
    ) -> Self {
        let is_same = |path: &str, digest: &str| {
            let content = repository.read_within(path, limits::REPLACED_BYTES_MAX, cancel);
            content.is_ok_and(|content| sha256_hex(&content) == digest)
        };
        let (mut seen, mut changed) = (BTreeMap::new(), Vec::new());
        for (path, digest) in past.seen.iter().take(COMPARED_FILES_MAX) {
            if is_same(path, digest) {
                seen.insert(path.clone(), digest.clone());
            } else {
                changed.push(path.as_str());
            }
        }
        let created = past.created.iter().take(COMPARED_FILES_MAX);
        let created = created.filter(|(path, digest)| is_same(path, digest));
        Self {
            news: describe_news(past, mark, &changed),
            seen,
            known: past.seen.clone(),
            created: created.map(|(path, _)| (path.clone(), ChangeKind::Created)).collect(),
            places: past.places.clone(),
            keys: past.keys.len(),
        }
    }
}

/// News for the model: how the last turn ended, what was undone, and which files to read again.
fn describe_news(past: &PastConversation, mark: LabelMark, changed: &[&str]) -> String {
    let mut lines = Vec::new();
    if let Some(last) = past.turns.last()
        && let Some(failure) = &last.failure
    {
        // The failure may quote names of tests and files.
        let failure = ToolResult {
            call_id: String::new(),
            name: "service".to_owned(),
            text: failure.clone(),
            is_error: true,
            origin: TextOrigin::Repository,
        };
        lines.push(format!(
            "- Turn {} did not end as it should:\n\n{}\n",
            last.number,
            failure.labelled(mark)
        ));
    }
    for turn in past.turns.iter().filter(|turn| turn.is_undone) {
        let files = quote_names(turn.changed.iter().map(String::as_str), NAMED_FILES_MAX);
        lines.push(format!(
            "- The user has taken back the changes of turn {}: {files}.",
            turn.number
        ));
    }
    if !changed.is_empty() {
        lines.push(format!(
            "- These files have changed since you saw them: {}. Read them again before you rely on them or change them.",
            quote_names(changed.iter().copied(), NAMED_FILES_MAX)
        ));
    }
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("\n# Since your last answer\n\n{}\n", lines.join("\n")),
    }
}

/// State other than messages that the journal holds so far.
#[derive(Debug, Default)]
pub(super) struct JournalledState(Mutex<RecordedState>);

#[derive(Debug, Default)]
struct RecordedState {
    keys: usize,
    places: usize,
    seen: BTreeMap<String, String>,
}

impl JournalledState {
    /// Begins with the state in the journals of earlier turns.
    pub(super) fn new(seen: BTreeMap<String, String>, places: &[String], keys: usize) -> Self {
        Self(Mutex::new(RecordedState {
            keys,
            places: places.len(),
            seen,
        }))
    }

    /// Records additions since the last call.
    pub(super) fn note(&self, recorder: &Recorder, context: &CallContext) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = context.conversation.redactor.fingerprints(recorded.keys);
        if !keys.is_empty() {
            recorded.keys += keys.len();
            recorder.record(JournalEntry::Conversation(ConversationEntry::Keys { keys }));
        }
        let places = context.conversation.taint.places();
        if places.len() > recorded.places {
            let places = places[recorded.places..].to_vec();
            recorded.places += places.len();
            recorder.record(JournalEntry::Conversation(ConversationEntry::Outside { places }));
        }
        let seen = {
            let files = context.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.seen.clone()
        };
        let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (path, digest) in &seen {
            if recorded.seen.get(path) != Some(digest) {
                files.insert(path.clone(), Some(digest.clone()));
            }
        }
        for path in recorded.seen.keys().filter(|path| !seen.contains_key(*path)) {
            files.insert(path.clone(), None);
        }
        if !files.is_empty() {
            recorded.seen = seen;
            recorder.record(JournalEntry::Conversation(ConversationEntry::Seen { files }));
        }
    }
}

/// Records one message of the conversation.
pub(super) fn record_message(recorder: &Recorder, at: usize, message: &Message) {
    recorder.record(JournalEntry::Conversation(ConversationEntry::Message {
        at,
        json: message_json(message),
    }));
}

/// Formats a message for the journal.
pub(super) fn message_json(message: &Message) -> String {
    serde_json::to_string(message).expect("messages have string keys only")
}
