//! A conversation over several sessions: the messages and restrictions that earlier turns leave to the next one, read
//! from their journals.
//!
//! Every turn is a session with a journal. The journal holds each message as the model got it, so that the next turn
//! sends the earlier messages byte for byte, also after a restart. Denials and taint carry over to the next turn;
//! grants do not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::history::SessionSummary;
use crate::journal::{ConversationEntry, JOURNAL_FILE, JournalEntry, JournalLine, SessionFolder, ToolEntry};
use tool_core::api::{Activity, ErrorKind, Event, NoticeKind, Operation, Problem, Status};
use tool_core::dialogue::{LabelMark, Message, TextOrigin, ToolCall, ToolResult};
use tool_core::redaction::KeyFingerprint;
use tool_repository::Repository;

use crate::feed::JOURNAL_BYTES_MAX;

/// Limit for the turns of one conversation. People ask a dozen; with more, reading the journals would take longer
/// than the answer.
pub const CONVERSATION_TURNS_MAX: u32 = 100;

/// Operation and target of the last turn, which the next request takes over unless it names others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precedent {
    /// Operation of the turn.
    pub operation: Operation,
    /// Target as the user wrote it.
    pub target: String,
}

/// Answer recorded for a turn that ended before the model answered.
const UNANSWERED: &str = "[This turn was interrupted before an answer.]";

/// Result recorded for a call whose result is not in the journal.
const UNFINISHED_CALL: &str = "It did not end: the session was interrupted.";

/// Reason why a conversation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ContinueError {
    /// A session of the conversation was removed. Holds its identifier.
    #[error("The session `{0}`, to which this conversation goes back, is not kept any more")]
    Gone(String),
    /// The conversation has a gap in the journal. Holds the identifier of the session.
    #[error("The journal of the session `{0}` does not hold its whole conversation")]
    NotWhole(String),
    /// A journal cannot be read. Holds the identifier of the session.
    #[error("The journal of the session `{0}` cannot be read: {1}")]
    Unreadable(String, io::Error),
    /// The conversation has [`CONVERSATION_TURNS_MAX`] turns.
    #[error("The conversation has {CONVERSATION_TURNS_MAX} turns, which is the most that it can have")]
    TooLong,
    /// The conversation is about another repository. Holds the path of that repository.
    #[error("At `{0}` lies another folder now than the one that this conversation is about")]
    OtherRepository(String),
}

impl From<ContinueError> for Problem {
    fn from(error: ContinueError) -> Self {
        let hint = "start a new conversation: `tool ask`, or the command of another operation";
        Self::new(ErrorKind::NotContinued, error.to_string()).with_hint(hint)
    }
}

/// State that earlier turns leave to the next one.
#[derive(Debug, Default)]
pub struct PastConversation {
    /// Mark that labels the results of tools.
    pub mark: Option<LabelMark>,
    /// Messages as the model got them. Every call has its result, and the last message is the model's.
    pub messages: Vec<Message>,
    /// Turns whose messages are in `messages`, oldest first.
    pub turns: Vec<PastTurn>,
    /// Requests of the user in turns that a summary has replaced.
    pub summarised: Vec<String>,
    /// Places outside the user's own files that text came from.
    pub places: Vec<String>,
    /// Fingerprints of keys that the model knows as placeholders, in the order of their numbers.
    pub keys: Vec<KeyFingerprint>,
    /// Files that the model has seen whole or changed, with the digest of their content at that time.
    pub seen: BTreeMap<String, String>,
    /// Files that the conversation has created, with the digest of their last content.
    pub created: BTreeMap<String, String>,
    /// Names of the providers that have received the conversation.
    pub providers: BTreeSet<String>,
    /// The last turn that the provider did not refuse.
    pub precedent: Option<Precedent>,
    /// True if a turn worked on a repository that is not trusted.
    pub is_untrusted: bool,
    /// True if a turn required the sandbox.
    pub requires_sandbox: bool,
    /// True if a turn had to ask before each change of files.
    pub asks_before_write: bool,
    /// Effects that a turn denied, by configuration or by name.
    pub denied: Vec<String>,
    /// Effects that the user denied by name. No grant of a later turn lifts such a denial.
    pub denied_by_name: BTreeSet<String>,
    /// True if a turn left project instructions out.
    pub is_without_instructions: bool,
    /// Path of the repository's root, and its inode if the journal has it.
    root: Option<(String, Option<u64>)>,
}

/// A turn before the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTurn {
    /// Number of the turn, counted from 1.
    pub number: u32,
    /// Index of its first message.
    pub first: usize,
    /// The request in the user's words.
    pub asked: String,
    /// Paths of the files that it changed.
    pub changed: Vec<String>,
    /// Message of its failure.
    pub failure: Option<String>,
    /// True if an undo has reverted its changes.
    pub is_undone: bool,
}

impl PastConversation {
    /// Reads the turns of a conversation, oldest first. Blocks.
    ///
    /// # Errors
    ///
    /// A journal has a gap, or cannot be read.
    pub fn read_turns(
        turns: &[(SessionSummary, SessionFolder)],
        undone: &BTreeSet<String>,
    ) -> Result<Self, ContinueError> {
        let mut past = Self::default();
        for (summary, folder) in turns {
            let id = summary.id();
            let unreadable = |error| ContinueError::Unreadable(id.to_owned(), error);
            let bytes = std::fs::metadata(folder.path().join(JOURNAL_FILE)).map_err(unreadable)?;
            if bytes.len() > JOURNAL_BYTES_MAX {
                return Err(ContinueError::NotWhole(id.to_owned()));
            }
            let (added, _) = folder
                .view(|lines| past.add_turn(summary, undone.contains(id), lines))
                .map_err(unreadable)?;
            added?;
        }
        Ok(past)
    }

    /// Checks that the conversation is about this repository.
    ///
    /// # Errors
    ///
    /// [`ContinueError::OtherRepository`]: the messages speak of files that do not exist here.
    pub fn check_repository(&self, repository: &Repository) -> Result<(), ContinueError> {
        let Some((root, inode)) = &self.root else {
            return Ok(());
        };
        let is_same =
            Path::new(root) == repository.root() && inode.is_none_or(|inode| inode == repository.identity().inode);
        if is_same {
            Ok(())
        } else {
            Err(ContinueError::OtherRepository(root.clone()))
        }
    }

    /// Adds one turn from the lines of its journal.
    fn add_turn(
        &mut self,
        summary: &SessionSummary,
        is_undone: bool,
        lines: impl Iterator<Item = JournalLine>,
    ) -> Result<(), ContinueError> {
        let start = &summary.start;
        let first = self.messages.len();
        self.turns.push(PastTurn {
            number: start.turn(),
            first,
            asked: request_text(summary),
            changed: summary.files_changed(),
            failure: summary.problem.as_ref().map(|problem| problem.message.clone()),
            is_undone: is_undone || summary.is_discarded,
        });
        self.asks_before_write |= start.policy.ask_before_write;
        self.providers.insert(start.provider.clone());
        self.is_untrusted |= start.policy.untrusted;
        self.requires_sandbox |= start.policy.require_sandbox;
        self.denied.extend(start.policy.deny.iter().cloned());
        self.denied_by_name.extend(start.binding.deny.iter().cloned());
        self.is_without_instructions |= start.binding.no_instructions;
        self.root = Some((start.repository.clone(), start.binding.root_inode));
        let created = summary.files.iter().filter(|(_, file)| file.before.is_none());
        self.created
            .extend(created.filter_map(|(path, file)| Some((path.clone(), file.after.as_ref()?.digest.clone()))));
        let not_whole = || ContinueError::NotWhole(summary.id().to_owned());
        let mut rest = UnrecordedParts::default();
        for line in lines {
            match line.entry {
                JournalEntry::Conversation(entry) => {
                    if matches!(entry, ConversationEntry::Message { .. }) {
                        rest = UnrecordedParts::default();
                    }
                    self.apply(entry).ok_or_else(not_whole)?;
                }
                JournalEntry::Event {
                    event: Event::Token { content },
                } => rest.said.push_str(&content),
                JournalEntry::Event {
                    event:
                        Event::Notice {
                            code: Some(NoticeKind::Error(ErrorKind::JournalFailed)),
                            ..
                        },
                } => return Err(not_whole()),
                JournalEntry::Tool(tool) => rest.calls.push(tool),
                _ => {}
            }
        }
        // A summary in this turn may have moved the index.
        let first = self.turns.last().map_or(first, |turn| turn.first);
        let own = self.messages.get(first..).unwrap_or_default();
        // Calls without a message of the model are the host's.
        let has_no_answer = own.iter().all(|message| matches!(message, Message::User { .. }));
        let is_unanswered = has_no_answer && rest.said.trim().is_empty();
        let problem = summary.problem.as_ref().map(|problem| &problem.kind);
        if first > 0 && is_unanswered && problem == Some(&ErrorKind::ProviderRejected) {
            // The provider would refuse these messages again. The restrictions of the turn stay.
            self.messages.truncate(first);
            return Ok(());
        }
        self.precedent = start.work.operation().map(|operation| Precedent {
            operation,
            target: start.target.clone(),
        });
        self.complete(rest);
        Ok(())
    }

    /// Applies one entry; `None` if an earlier message is missing or the entry cannot be read.
    fn apply(&mut self, entry: ConversationEntry) -> Option<()> {
        let message = |json: &str| serde_json::from_str::<Message>(json).ok();
        match entry {
            ConversationEntry::Mark { mark } => self.mark = Some(LabelMark::parse(&mark)?),
            ConversationEntry::Message { at, json } => {
                let message = message(&json)?;
                if at == self.messages.len() {
                    self.messages.push(message);
                } else {
                    *self.messages.get_mut(at)? = message;
                }
            }
            ConversationEntry::Summarised { replaced, by } => {
                if replaced > self.messages.len() {
                    return None;
                }
                let by: Vec<Message> = by.iter().map(|json| message(json)).collect::<Option<_>>()?;
                self.replace_oldest(replaced, by);
            }
            ConversationEntry::Outside { places } => self.places.extend(places),
            ConversationEntry::Keys { keys } => self.keys.extend(keys),
            ConversationEntry::Seen { files } => {
                for (path, digest) in files {
                    match digest {
                        Some(digest) => self.seen.insert(path, digest),
                        None => self.seen.remove(&path),
                    };
                }
            }
        }
        Some(())
    }

    /// Replaces the oldest messages, which belong to whole turns.
    fn replace_oldest(&mut self, replaced: usize, by: Vec<Message>) {
        let added = by.len();
        self.messages.splice(..replaced, by);
        let (gone, kept): (Vec<_>, Vec<_>) = self.turns.drain(..).partition(|turn| turn.first < replaced);
        self.summarised.extend(gone.into_iter().map(|turn| turn.asked));
        self.turns = kept;
        for turn in &mut self.turns {
            turn.first = turn.first - replaced + added;
        }
    }

    /// Completes a conversation that was interrupted: adds the missing results of calls and an answer of the model.
    fn complete(&mut self, rest: UnrecordedParts) {
        if let Some(Message::Assistant { tool_calls, .. }) = self.messages.last()
            && !tool_calls.is_empty()
        {
            let results = tool_calls
                .iter()
                .map(|call| self.result_of(call, &rest.calls))
                .collect();
            self.messages.push(Message::ToolResults { results });
        }
        if matches!(
            self.messages.last(),
            Some(Message::User { .. } | Message::ToolResults { .. })
        ) {
            let said = rest.said.trim();
            self.messages
                .push(Message::from_model(if said.is_empty() { UNANSWERED } else { said }));
        }
    }

    /// Finds the result of a call in the journal.
    fn result_of(&self, call: &ToolCall, ended: &[ToolEntry]) -> ToolResult {
        let known = ended.iter().find(|entry| entry.call_id == call.id);
        let origin = match known.filter(|entry| entry.receipt.is_some()) {
            None => TextOrigin::Service,
            Some(_) if !self.places.is_empty() => TextOrigin::Outside(self.places.clone()),
            Some(_) if self.is_untrusted => TextOrigin::Untrusted,
            Some(_) => TextOrigin::Repository,
        };
        ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: known.map_or_else(|| UNFINISHED_CALL.to_owned(), |entry| entry.result.clone()),
            is_error: known.is_none_or(|entry| entry.verdict != "ok"),
            origin,
        }
    }
}

/// Parts of a turn for which no message was recorded.
#[derive(Default)]
struct UnrecordedParts {
    said: String,
    calls: Vec<ToolEntry>,
}

/// The request of a session in the user's words.
fn request_text(summary: &SessionSummary) -> String {
    let start = &summary.start;
    let operation = start.work.activity().map_or("", Activity::name);
    let focus = start.focus.as_deref().map(|focus| format!(" ({focus})"));
    format!("{operation}: {}{}", start.target, focus.unwrap_or_default())
}

/// Collects the sessions of a conversation up to `last`, oldest first.
///
/// # Errors
///
/// [`ContinueError::Gone`] if `find` does not know a session of it, [`ContinueError::TooLong`] for more than
/// [`CONVERSATION_TURNS_MAX`] turns.
pub fn conversation_chain(
    last: SessionSummary,
    find: impl Fn(&str) -> Option<SessionSummary>,
) -> Result<Vec<SessionSummary>, ContinueError> {
    let mut chain = vec![last];
    while let Some(before) = chain.last().and_then(|turn| turn.start.continues.as_ref()) {
        if chain.len() >= CONVERSATION_TURNS_MAX as usize {
            return Err(ContinueError::TooLong);
        }
        let session = find(&before.session).ok_or_else(|| ContinueError::Gone(before.session.clone()))?;
        chain.push(session);
    }
    chain.reverse();
    Ok(chain)
}

/// True if the session has ended and another turn can follow it.
pub fn can_be_continued(summary: &SessionSummary) -> bool {
    summary.status != Status::Running && summary.start.work.operation().is_some()
}
