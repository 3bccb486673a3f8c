//! A conversation over several sessions: what earlier turns leave to the next one, read from their journals.
//!
//! Every turn is a session of its own. Its journal holds each message as the model got it, so that the next turn sends the
//! earlier messages byte for byte, also after a restart. Denials and taint go along, and no grant does.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::history::Summary;
use crate::journal::{ConversationEntry, JOURNAL_FILE, JournalEntry, JournalLine, SessionFolder, ToolEntry};
use tool_core::api::{Activity, ErrorKind, Event, NoticeKind, Operation, Problem, Status};
use tool_core::dialogue::{LabelMark, Message, TextOrigin, ToolCall, ToolResult};
use tool_core::redaction::KeyFingerprint;
use tool_repository::Repository;

use crate::feed::JOURNAL_BYTES_MAX;

/// Turns of one conversation. A person asks a dozen; with more, reading the journals would take longer than the answer.
pub const CONVERSATION_TURNS_MAX: u32 = 100;

/// The turn whose operation and target the next one takes over, unless its request names others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precedent {
    /// Its operation.
    pub operation: Operation,
    /// Its target, as the user wrote it.
    pub target: String,
}

/// The answer of a turn that ended before it said anything.
const UNANSWERED: &str = "[This turn was interrupted before an answer.]";

/// The result of a call that has none in the journal.
const UNFINISHED_CALL: &str = "It did not end: the session was interrupted.";

/// Why a conversation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ContinueError {
    /// A session of the conversation was removed; its identifier.
    #[error("The session `{0}`, to which this conversation goes back, is not kept any more")]
    Gone(String),
    /// Lines of the conversation are missing; the identifier of the session.
    #[error("The journal of the session `{0}` does not hold its whole conversation")]
    NotWhole(String),
    /// The identifier of the session, and the cause.
    #[error("The journal of the session `{0}` cannot be read: {1}")]
    Unreadable(String, io::Error),
    /// It has [`CONVERSATION_TURNS_MAX`] turns.
    #[error("The conversation has {CONVERSATION_TURNS_MAX} turns, which is the most that it can have")]
    TooLong,
    /// The path of the repository.
    #[error("At `{0}` lies another folder now than the one that this conversation is about")]
    OtherRepository(String),
}

impl From<ContinueError> for Problem {
    fn from(error: ContinueError) -> Self {
        let hint = "start a new conversation: `tool ask`, or the command of another operation";
        Self::new(ErrorKind::NotContinued, error.to_string()).with_hint(hint)
    }
}

/// Everything that earlier turns leave to the next one.
#[derive(Debug, Default)]
pub struct PastConversation {
    /// The mark of tool results.
    pub mark: Option<LabelMark>,
    /// The messages as the model got them; every call has its result, and the last one is the model's.
    pub messages: Vec<Message>,
    /// The turns whose messages are there, oldest first.
    pub turns: Vec<PastTurn>,
    /// Requests of the user whose turns were replaced by a summary.
    pub summarised: Vec<String>,
    /// Places outside the user's own files from which text has come.
    pub places: Vec<String>,
    /// Keys that the model knows as placeholders, in the order of their numbers.
    pub keys: Vec<KeyFingerprint>,
    /// Files that the model has seen whole or changed, with the digest of their content then.
    pub seen: BTreeMap<String, String>,
    /// Files that the conversation has created, with the digest that they were left with.
    pub created: BTreeMap<String, String>,
    /// Names of providers that have got the conversation.
    pub providers: BTreeSet<String>,
    /// The last turn that the provider did not refuse.
    pub precedent: Option<Precedent>,
    /// A turn worked on a repository that is not trusted.
    pub is_untrusted: bool,
    /// A turn demanded the sandbox.
    pub requires_sandbox: bool,
    /// A turn had each change of files asked about.
    pub asks_before_write: bool,
    /// Effects that a turn denied, by the configuration or by name.
    pub denied: Vec<String>,
    /// Effects that the user denied by name: no grant of a later turn lifts that.
    pub denied_by_name: BTreeSet<String>,
    /// A turn went without project instructions.
    pub is_without_instructions: bool,
    /// The root of the repository, and its inode where the journal has it.
    root: Option<(String, Option<u64>)>,
}

/// One earlier turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTurn {
    /// From 1.
    pub number: u32,
    /// Place of its first message.
    pub first: usize,
    /// The request in the user's words.
    pub asked: String,
    /// Files that it changed.
    pub changed: Vec<String>,
    /// Its failure, in words.
    pub failure: Option<String>,
    /// An undo has taken its changes back.
    pub is_undone: bool,
}

impl PastConversation {
    /// Reads the turns of a conversation, oldest first. Blocks.
    pub fn read(turns: &[(Summary, SessionFolder)], undone: &BTreeSet<String>) -> Result<Self, ContinueError> {
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

    /// An error where this is not the repository of the conversation: its messages speak of files that are not there.
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
        summary: &Summary,
        is_undone: bool,
        lines: impl Iterator<Item = JournalLine>,
    ) -> Result<(), ContinueError> {
        let start = &summary.start;
        let first = self.messages.len();
        self.turns.push(PastTurn {
            number: start.turn(),
            first,
            asked: asked(summary),
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
        let mut rest = Unrecorded::default();
        for line in lines {
            match line.entry {
                JournalEntry::Conversation(entry) => {
                    if matches!(entry, ConversationEntry::Message { .. }) {
                        rest = Unrecorded::default();
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
        // A summary moves it.
        let first = self.turns.last().map_or(first, |turn| turn.first);
        let own = self.messages.get(first..).unwrap_or_default();
        let is_unanswered = own.iter().all(|message| matches!(message, Message::User { .. })) && rest.is_empty();
        let problem = summary.problem.as_ref().map(|problem| &problem.kind);
        if first > 0 && is_unanswered && problem == Some(&ErrorKind::ProviderRejected) {
            // What the provider refused once, it would refuse again. The turn's limits hold all the same.
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

    /// Takes in one entry; nothing where a message before it is missing, or it cannot be read.
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

    /// Puts messages in the place of the oldest ones, which are those of whole turns.
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

    /// Makes a whole conversation of one that broke off: each call has a result, and the last word is the model's.
    fn complete(&mut self, rest: Unrecorded) {
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
                .push(Message::said(if said.is_empty() { UNANSWERED } else { said }));
        }
    }

    /// The result of a call as far as the journal has it.
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

/// Parts of a turn that are in no message yet.
#[derive(Default)]
struct Unrecorded {
    said: String,
    calls: Vec<ToolEntry>,
}

impl Unrecorded {
    fn is_empty(&self) -> bool {
        self.said.trim().is_empty() && self.calls.is_empty()
    }
}

/// The request of a session in the user's words.
fn asked(summary: &Summary) -> String {
    let start = &summary.start;
    let operation = start.work.activity().map_or("", Activity::name);
    let focus = start.focus.as_deref().map(|focus| format!(" ({focus})"));
    format!("{operation}: {}{}", start.target, focus.unwrap_or_default())
}

/// The sessions of a conversation up to `last`, oldest first.
pub fn chain(last: Summary, find: impl Fn(&str) -> Option<Summary>) -> Result<Vec<Summary>, ContinueError> {
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

/// True for a session that has ended and that a turn can go on with.
pub fn can_be_continued(summary: &Summary) -> bool {
    summary.status != Status::Running && summary.start.work.operation().is_some()
}
