//! The journal of one session: one event a line, append-only. It is the source of truth; everything else that the
//! product says about a session is derived from it.
//!
//! This module defines the lines and the files: the journal and, beside it, the contents of changed files, each
//! stored once under its digest. `lines` parses bytes and drops a torn last line. `feed` decides who reads and writes
//! when.

mod lines;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use tool_core::api::{
    Activity, ApprovalOutcome, ApprovalScope, Event, Operation, PolicyRequest, Problem, Receipt, Status, Timestamp,
};
use tool_core::dialogue::Usage;
use tool_core::redaction::KeyFingerprint;
use tool_repository::changes::{CommitInProgress, ContentsFull, FileChange, FileState, PreparedChange, crash_point};

pub use lines::{JournalExtent, JournalLines, ParsedJournal, parse};
use tool_core::digest::sha256_hex;

/// Limit for the nesting of values in events and journal lines. The JSON reader stops at 128, and our own schemas
/// need fewer than ten.
const EVENT_DEPTH_MAX: usize = 32;

/// Name of the journal in a session's folder.
pub(crate) const JOURNAL_FILE: &str = "journal.jsonl";

/// Name of the folder of stored contents in a session's folder.
const CONTENTS_FOLDER: &str = "contents";

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// Sequence number, rising from 1; the `id` of the event in a stream. A gap shows that a daemon died, or that the
    /// disk was full for long.
    pub seq: u64,
    /// Time of the entry.
    pub at: Timestamp,
    /// Content of the line.
    pub entry: JournalEntry,
}

/// Content of a journal line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalEntry {
    /// The session began; always the first entry.
    Started(Box<StartRecord>),
    /// An event for streams. Terminal events are not recorded: streams derive them from [`JournalEntry::Ended`].
    Event {
        /// The event as streams show it.
        event: Event,
    },
    /// A piece of thinking, which is not part of the answer.
    Reasoning {
        /// Text of the piece.
        text: String,
    },
    /// A call of a tool ended.
    Tool(ToolEntry),
    /// A part of the conversation with the model, for the next turn.
    Conversation(ConversationEntry),
    /// An approval was answered, or closed without an answer.
    Answered {
        /// Identifier of the approval.
        id: String,
        /// `approved`, `refused`, `expired` or `cancelled`.
        answer: ApprovalOutcome,
        /// For how long an approval holds.
        #[serde(default)]
        scope: ApprovalScope,
    },
    /// A change is about to be made. Its contents are stored.
    Prepared(JournalChange),
    /// A change is completely in place.
    Committed {
        /// Identifier of the change.
        id: String,
    },
    /// A change that was recorded as committed may not survive a power failure, and has to be rolled back.
    Reopened {
        /// Identifier of the change.
        id: String,
    },
    /// A change was rolled back. It may have been recorded as committed before, if the disk was full at that moment.
    Abandoned {
        /// Identifier of the change.
        id: String,
    },
    /// A commit is about to be written to the git directory.
    Publishing(CommitInProgress),
    /// A commit is complete, or completely withdrawn.
    Published {
        /// Identifier of the publication.
        id: String,
    },
    /// The end of the stream. Only entries that settle something open may follow.
    Ended(EndRecord),
    /// The user has discarded the proposals of a preview. Their contents are deleted.
    Discarded,
}

/// A part of the conversation with the model. The next turn rebuilds the conversation from these entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum ConversationEntry {
    /// The mark that labels the results of tools.
    Mark {
        /// Sixteen hexadecimal digits.
        mark: String,
    },
    /// A new message, or one that replaces the message at its index.
    Message {
        /// Index of the message, from 0, earlier turns included.
        at: usize,
        /// The message as JSON text. Data of a provider may be nested deeper than the reader of this line accepts.
        json: String,
    },
    /// A summary replaced the oldest messages.
    Summarised {
        /// Number of replaced messages.
        replaced: usize,
        /// The new messages, each as JSON text.
        by: Vec<String>,
    },
    /// Text from outside the user's own files entered the conversation.
    Outside {
        /// Descriptions of the places that it came from.
        places: Vec<String>,
    },
    /// The model got keys as placeholders.
    Keys {
        /// Fingerprints of the keys, in the order of the placeholders' numbers.
        keys: Vec<KeyFingerprint>,
    },
    /// The model has seen files whole, or has changed them.
    Seen {
        /// Digest of the content by path; absent for a file that the model has deleted.
        files: BTreeMap<String, Option<String>>,
    },
}

/// Request of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Identifier of the session.
    pub session_id: String,
    /// An operation, or a call of one skill.
    pub work: SessionWork,
    /// Target as the user wrote it.
    pub target: String,
    /// Focus of the request, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Absolute path of the repository's root.
    pub repository: String,
    /// Absolute path of the folder for `session-reports/`.
    pub working_directory: String,
    /// Name of the provider; empty for a call of a skill.
    pub provider: String,
    /// Identifier of the model; empty for a call of a skill.
    pub model: String,
    /// Grants and denials of the request beyond the defaults.
    pub policy: PolicyRequest,
    /// Position in a conversation; absent for the session that begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<ContinuedSession>,
    /// Restrictions for the later turns of the conversation.
    #[serde(default)]
    pub binding: TurnBinding,
    /// True if the client can answer approvals.
    pub interactive: bool,
    /// Effects for which the user is asked instead of a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// True for a session on a private layer, whose changes are proposals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// Version of the daemon.
    pub version: String,
}

impl StartRecord {
    /// The start of a session without a model and without grants, in the repository with this root.
    pub fn new(session_id: String, work: SessionWork, target: String, repository: String) -> Self {
        Self {
            session_id,
            work,
            target,
            focus: None,
            working_directory: repository.clone(),
            repository,
            provider: String::new(),
            model: String::new(),
            policy: PolicyRequest::default(),
            continues: None,
            binding: TurnBinding::default(),
            interactive: false,
            ask: Vec::new(),
            preview: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Restrictions that a turn leaves to the later turns of its conversation, in addition to its policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBinding {
    /// Effects that the user denied by name, in this turn or an earlier one. No grant of a later turn lifts such a
    /// denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// True if the user wanted no project instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_instructions: bool,
    /// Inode of the repository's root. It shows a later turn that another repository is at the same path now. The
    /// number of the device is not stored, because it changes when the machine restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_inode: Option<u64>,
}

/// Position of a turn in its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinuedSession {
    /// Identifier of the first session of the conversation.
    pub conversation: String,
    /// Identifier of the session of the previous turn.
    pub session: String,
    /// Number of this turn; the first session is 1.
    pub turn: u32,
}

impl StartRecord {
    /// Identifier of the conversation: the identifier of its first session.
    pub fn conversation(&self) -> &str {
        self.continues
            .as_ref()
            .map_or(&self.session_id, |continued| &continued.conversation)
    }

    /// Number of the turn in its conversation, counted from 1.
    pub fn turn(&self) -> u32 {
        self.continues.as_ref().map_or(1, |continued| continued.turn)
    }

    /// The event that tells clients the position in the conversation.
    pub fn turn_event(&self) -> Event {
        Event::Turn {
            number: self.turn(),
            conversation: self.conversation().to_owned(),
            continues: self.continues.as_ref().map(|continued| continued.session.clone()),
        }
    }
}

/// Work of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionWork {
    /// One of the four operations.
    Operation(Operation),
    /// A call of the skill of this name. Lists show it only on request.
    Skill(String),
    /// An undo of the session with this identifier. Lists do not show it.
    Undo(String),
    /// Applies the proposals of the preview with this identifier. Listed, but not an operation.
    Apply(String),
    /// The calls of another agent while it is connected. Listed, but not an operation.
    Mcp,
}

impl SessionWork {
    /// The operation, if the work is one.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Operation(operation) => Some(*operation),
            Self::Skill(_) | Self::Undo(_) | Self::Apply(_) | Self::Mcp => None,
        }
    }

    /// The name in lists, if the work is listed.
    pub fn activity(&self) -> Option<Activity> {
        match self {
            Self::Mcp => Some(Activity::Mcp),
            Self::Skill(_) => Some(Activity::SkillCall),
            Self::Apply(_) => Some(Activity::Apply),
            work => work.operation().map(Activity::from),
        }
    }

    /// True if lists show it without a request. Scripts make hundreds of calls, which would fill the lists.
    pub fn is_listed_unasked(&self) -> bool {
        !matches!(self, Self::Skill(_) | Self::Undo(_))
    }
}

/// A call of a tool that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEntry {
    /// Identifier of the call, unique within the conversation.
    pub call_id: String,
    /// Name of the skill.
    pub name: String,
    /// Arguments as the model wrote them, cut to a limit.
    pub arguments: String,
    /// Text that the model read, cut to a limit.
    pub result: String,
    /// `ok`, or the code of the failure.
    pub verdict: String,
    /// Time of the start.
    pub started: Timestamp,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Cost of the call, if something ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
    /// Answer for programs, if the skill gave one and it is not too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A change of the repository, with its contents as digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalChange {
    /// Identifier of the change, unique within the session.
    pub id: String,
    /// Absolute path of the repository root.
    pub root: PathBuf,
    /// All files of the change.
    pub files: Vec<JournalFile>,
    /// Directories that the change creates, relative to the root, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
}

/// A file of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalFile {
    /// Path relative to the root.
    pub path: String,
    /// State before the change; absent if the file did not exist.
    pub before: Option<StoredState>,
    /// State after the change; absent if the file is removed.
    pub after: Option<StoredState>,
}

/// Digest of a file's content, and its mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// SHA-256 of the content, hexadecimal.
    pub digest: String,
    /// Permission bits of the file.
    pub mode: u32,
}

/// End of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// Final status: not `running`.
    pub status: Status,
    /// Failure of the session, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Path of the report as results name it; empty if it could not be written.
    pub report_path: String,
    /// Token counts of all requests, if a model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl JournalEntry {
    /// True for entries about a change.
    pub fn is_of_change(&self) -> bool {
        matches!(
            self,
            Self::Prepared(_) | Self::Committed { .. } | Self::Reopened { .. } | Self::Abandoned { .. }
        )
    }

    /// True for entries after which nothing of a change or a commit is left to do.
    pub(crate) fn settles(&self) -> bool {
        matches!(self, Self::Abandoned { .. } | Self::Published { .. } | Self::Discarded)
    }

    /// Removes the long text of an entry, for a journal that has reached its limit. Returns `None` for an entry that
    /// is only text.
    pub(crate) fn in_short(self) -> Option<Self> {
        let short = |text: &str| cut_text(text, limits::SUMMARY_BYTES_MAX);
        match self {
            Self::Reasoning { .. } | Self::Conversation(_) => None,
            Self::Event { event } => match event {
                Event::Token { .. } | Event::Reasoning { .. } | Event::Live { .. } => None,
                Event::Skill { name, call_id, .. } => Some(Event::Skill {
                    name,
                    args: Value::Null,
                    call_id,
                }),
                Event::Change {
                    files,
                    proposed,
                    call_id,
                    texts,
                    ..
                } => Some(Event::Change {
                    files,
                    diff: String::new(),
                    truncated: true,
                    proposed,
                    call_id,
                    texts,
                }),
                Event::SkillResult {
                    name,
                    verdict,
                    summary,
                    duration_ms,
                    call_id,
                    ..
                } => Some(Event::SkillResult {
                    name,
                    verdict,
                    summary,
                    duration_ms,
                    details: None,
                    call_id,
                }),
                event => Some(event),
            }
            .map(|event| Self::Event { event }),
            Self::Tool(tool) => Some(Self::Tool(ToolEntry {
                arguments: short(&tool.arguments),
                result: short(&tool.result),
                receipt: tool.receipt.map(|receipt| {
                    Box::new(Receipt {
                        arguments: Value::Null,
                        ..*receipt
                    })
                }),
                details: None,
                ..tool
            })),
            entry => Some(entry),
        }
    }

    /// The event that streams show for this entry, terminal events included.
    pub fn event(&self, session_id: &str) -> Option<Event> {
        match self {
            Self::Event { event } => Some(event.clone()),
            Self::Reasoning { text } => Some(Event::Reasoning { content: text.clone() }),
            Self::Answered { id, answer, scope } => Some(Event::Answered {
                id: id.clone(),
                answer: *answer,
                scope: *scope,
            }),
            Self::Ended(end) => Some(match &end.problem {
                None => Event::Complete {
                    session_id: session_id.to_owned(),
                },
                Some(problem) => Event::Error {
                    code: problem.kind.clone(),
                    message: problem.message.clone(),
                    hint: problem.hint.clone(),
                },
            }),
            _ => None,
        }
    }
}

/// Encodes one line, with its line feed.
pub fn encode_line(line: &JournalLine) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("journal lines have string keys only");
    bytes.push(b'\n');
    bytes
}

/// Cuts a value for a journal or a stream: strings at `string_bytes_max` bytes, and values that are nested too deeply
/// for a reader.
pub fn cut_value(value: &Value, string_bytes_max: usize) -> Value {
    cut_at_depth(value, string_bytes_max, 0)
}

fn cut_at_depth(value: &Value, bytes_max: usize, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut_text(text, bytes_max)),
        Value::Array(_) | Value::Object(_) if depth >= EVENT_DEPTH_MAX => Value::String("…".to_owned()),
        Value::Array(items) => items
            .iter()
            .map(|item| cut_at_depth(item, bytes_max, depth + 1))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (cut_text(name, bytes_max), cut_at_depth(field, bytes_max, depth + 1)))
            .collect(),
        other => other.clone(),
    }
}

/// Cuts the arguments of a call for a journal or a stream: long strings, and the end of very many arguments.
pub fn cut_arguments(arguments: &Value) -> Value {
    let cut = cut_value(arguments, limits::EVENT_ARGUMENT_BYTES_MAX);
    let text = cut.to_string();
    if text.len() > limits::JOURNAL_TOOL_BYTES_MAX {
        Value::String(cut_text(&text, limits::EVENT_ARGUMENT_BYTES_MAX))
    } else {
        cut
    }
}

/// The details of an answer for a journal or a stream. Details that are too long are left out: cut JSON is not JSON.
pub fn keep_details(details: Option<&Value>) -> Option<Value> {
    details
        .filter(|details| details.to_string().len() <= limits::JOURNAL_TOOL_BYTES_MAX)
        .cloned()
}

/// Cuts a text to `bytes_max` bytes, with a mark at the cut.
pub fn cut_text(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

/// The changes among `lines` that are completely in place, in the order of their commits.
pub fn committed_changes(lines: &[JournalLine]) -> impl Iterator<Item = &JournalChange> {
    // A rolled-back change may have a `Committed` line before it: it was rolled back because that line, or the disk,
    // failed.
    let abandoned: HashSet<&str> = lines
        .iter()
        .filter_map(|line| match &line.entry {
            JournalEntry::Reopened { id } | JournalEntry::Abandoned { id } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let prepared: HashMap<&str, &JournalChange> = lines
        .iter()
        .filter_map(|line| match &line.entry {
            JournalEntry::Prepared(change) => Some((change.id.as_str(), change)),
            _ => None,
        })
        .collect();
    lines.iter().filter_map(move |line| match &line.entry {
        JournalEntry::Committed { id } if !abandoned.contains(id.as_str()) => prepared.get(id.as_str()).copied(),
        _ => None,
    })
}

/// The folder of one session on disk.
#[derive(Debug, Clone)]
pub struct SessionFolder {
    path: PathBuf,
}

impl SessionFolder {
    /// Creates a handle. The folder need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL_FILE)
    }

    /// Creates the folder (mode 0700) with an empty journal (mode 0600). Returns the journal, opened for appending.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be made.
    pub fn create(&self) -> io::Result<File> {
        create_private_folder(&self.path)?;
        private_file().create_new(true).append(true).open(self.journal())
    }

    /// Opens the journal for appending.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(&self) -> io::Result<File> {
        private_file().append(true).open(self.journal())
    }

    /// Opens the journal for appending, cut to its first `whole_bytes`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or cut.
    pub fn reopen(&self, whole_bytes: u64) -> io::Result<File> {
        let file = self.open()?;
        // The next line would continue a torn one, and both would be lost.
        file.set_len(whole_bytes)?;
        Ok(file)
    }

    /// True if a daemon died before it wrote the first line. No client knows the identifier of such a session.
    pub fn is_unborn(&self) -> bool {
        let is_empty = |metadata: fs::Metadata| metadata.len() == 0;
        match fs::metadata(self.journal()) {
            Ok(metadata) => is_empty(metadata),
            Err(error) => {
                error.kind() == io::ErrorKind::NotFound
                    && fs::read_dir(&self.path).is_ok_and(|mut names| names.next().is_none())
            }
        }
    }

    /// Reads the whole journal into memory.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    #[cfg(test)]
    pub fn read(&self) -> io::Result<ParsedJournal> {
        Ok(parse(&fs::read(self.journal())?))
    }

    /// Applies `view` to the lines of the journal. Returns its result, and the extent of what was read.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn view<T>(
        &self,
        view: impl FnOnce(&mut JournalLines<BufReader<File>>) -> T,
    ) -> io::Result<(T, JournalExtent)> {
        let mut lines = JournalLines::new(BufReader::new(File::open(self.journal())?));
        let seen = view(&mut lines);
        Ok((seen, lines.end()?))
    }

    /// Reads the lines about changes, for [`committed_changes`] and [`SessionFolder::net`].
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn changes(&self) -> io::Result<Vec<JournalLine>> {
        let is_of_change = |line: &JournalLine| line.entry.is_of_change();
        Ok(self.view(|lines| lines.filter(is_of_change).collect())?.0)
    }

    /// Checks that the folder has room for the contents of a change.
    ///
    /// # Errors
    ///
    /// The folder would hold more than a session may keep.
    pub fn check_room(&self, change: &PreparedChange) -> io::Result<()> {
        let room = limits::SESSION_CONTENTS_BYTES_MAX.saturating_sub(self.contents_bytes());
        let states = || {
            change
                .files
                .iter()
                .flat_map(|file| [&file.before, &file.after])
                .flatten()
        };
        let most: u64 = states().map(|state| state.content.len() as u64).sum();
        if most <= room {
            return Ok(());
        }
        // Contents that are stored already, or occur twice in the change, need no room.
        let contents: HashMap<String, u64> = states()
            .map(|state| (sha256_hex(&state.content), state.content.len() as u64))
            .collect();
        let new = contents
            .iter()
            .filter(|(digest, _)| !self.content_path(digest).exists());
        if new.map(|(_, bytes)| bytes).sum::<u64>() <= room {
            Ok(())
        } else {
            Err(io::Error::other(ContentsFull))
        }
    }

    /// Stores the contents of a change and syncs them. Returns the change as a journal line holds it.
    ///
    /// # Errors
    ///
    /// A content cannot be written or synced.
    pub fn store(&self, change: &PreparedChange) -> io::Result<JournalChange> {
        create_private_folder(&self.path.join(CONTENTS_FOLDER))?;
        let mut files = Vec::with_capacity(change.files.len());
        for file in &change.files {
            files.push(JournalFile {
                path: file.path.clone(),
                before: self.store_state(file.before.as_ref())?,
                after: self.store_state(file.after.as_ref())?,
            });
            crash_point();
        }
        // Syncing a file does not sync its name; that takes a sync of the folder.
        File::open(self.path.join(CONTENTS_FOLDER))?.sync_all()?;
        File::open(&self.path)?.sync_all()?;
        // Sync the parent as well: after a power failure, a journal whose folder has no name is gone, whatever it
        // holds.
        if let Some(sessions) = self.path.parent() {
            File::open(sessions)?.sync_all()?;
        }
        Ok(JournalChange {
            id: change.id.clone(),
            root: change.root.clone(),
            files,
            directories: change.directories.clone(),
        })
    }

    fn store_state(&self, state: Option<&FileState>) -> io::Result<Option<StoredState>> {
        let Some(state) = state else { return Ok(None) };
        let digest = sha256_hex(&state.content);
        let place = self.content_path(&digest);
        if !place.exists() {
            // The name must appear with the whole content: the check above takes any file of that name for complete.
            let folder = self.path.join(CONTENTS_FOLDER);
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&state.content)?;
            file.as_file().sync_all()?;
            file.persist(place)?;
        }
        Ok(Some(StoredState {
            digest,
            mode: state.mode,
        }))
    }

    /// Loads a change with its stored contents.
    ///
    /// # Errors
    ///
    /// A content is missing or damaged.
    pub fn load(&self, change: &JournalChange) -> io::Result<PreparedChange> {
        let mut files = Vec::with_capacity(change.files.len());
        for file in &change.files {
            files.push(FileChange {
                path: file.path.clone(),
                before: self.load_state(file.before.as_ref())?,
                after: self.load_state(file.after.as_ref())?,
            });
        }
        Ok(PreparedChange {
            id: change.id.clone(),
            call_id: None,
            root: change.root.clone(),
            files,
            directories: change.directories.clone(),
        })
    }

    /// Net change of each file over the committed changes among `lines`, with its content before the first and after
    /// the last change. Files without a net change are left out.
    ///
    /// Yields one file at a time, so that only one content is in memory.
    pub fn net<'a>(&'a self, lines: &'a [JournalLine]) -> impl Iterator<Item = io::Result<FileChange>> + use<'a> {
        let mut files: BTreeMap<&str, (Option<&StoredState>, Option<&StoredState>)> = BTreeMap::new();
        for file in committed_changes(lines).flat_map(|change| &change.files) {
            let (before, after) = (file.before.as_ref(), file.after.as_ref());
            files
                .entry(&file.path)
                .and_modify(|(_, newest)| *newest = after)
                .or_insert((before, after));
        }
        let changed = files.into_iter().filter(|(_, (before, after))| before != after);
        changed.map(|(path, (before, after))| {
            Ok(FileChange {
                path: path.to_owned(),
                before: self.load_state(before)?,
                after: self.load_state(after)?,
            })
        })
    }

    fn load_state(&self, state: Option<&StoredState>) -> io::Result<Option<FileState>> {
        let Some(state) = state else { return Ok(None) };
        Ok(Some(FileState {
            content: self.content(&state.digest)?,
            mode: state.mode,
        }))
    }

    /// Removes the stored contents.
    ///
    /// # Errors
    ///
    /// The folder cannot be removed.
    pub fn remove_contents(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.path.join(CONTENTS_FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Reads a stored content.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its content does not have the digest that names it.
    pub fn content(&self, wanted: &str) -> io::Result<Vec<u8>> {
        let content = fs::read(self.content_path(wanted))?;
        if sha256_hex(&content) == wanted {
            return Ok(content);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the stored content `{wanted}` is damaged"),
        ))
    }

    fn content_path(&self, digest: &str) -> PathBuf {
        self.path.join(CONTENTS_FOLDER).join(digest)
    }

    /// Size of all files in the folder in bytes, as retention counts it.
    pub fn size_bytes(&self) -> u64 {
        files_bytes(&self.path) + self.contents_bytes()
    }

    fn contents_bytes(&self) -> u64 {
        files_bytes(&self.path.join(CONTENTS_FOLDER))
    }
}

/// Size of the files in one folder, in bytes.
fn files_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// Creates a folder that only its owner may enter, and its parents.
///
/// # Errors
///
/// The folder cannot be made.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options to create a file that only its owner may read.
pub fn private_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tool_core::api::current_time;

    fn line(seq: u64, text: &str) -> JournalLine {
        JournalLine {
            seq,
            at: current_time(),
            entry: JournalEntry::Event {
                event: Event::Token {
                    content: text.to_owned(),
                },
            },
        }
    }

    fn bytes_of(lines: &[JournalLine]) -> Vec<u8> {
        lines.iter().flat_map(encode_line).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let lines = vec![line(1, "a"), line(2, "line\nfeed and \u{1b}[31m"), line(3, "ß€")];
        let bytes = bytes_of(&lines);
        let parsed = parse(&bytes);
        assert_eq!(parsed.lines, lines);
        assert_eq!((parsed.whole_bytes, parsed.damaged), (bytes.len() as u64, 0));
    }

    #[test]
    fn a_damaged_line_costs_only_itself() {
        let mut bytes = encode_line(&line(1, "a"));
        bytes.extend_from_slice(b"\xff\x00 not ours\n");
        bytes.extend(encode_line(&line(1, "again the same number")));
        bytes.extend(encode_line(&line(2, "b")));
        let parsed = parse(&bytes);
        assert_eq!(parsed.lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(parsed.damaged, 2);
    }

    #[test]
    fn arguments_nested_too_deep_are_cut_so_that_the_line_can_be_read_again() {
        let mut deep = json!("bottom");
        for _ in 0..300 {
            deep = json!([deep]);
        }
        let event = Event::Skill {
            name: "x".into(),
            args: cut_value(&deep, 16),
            call_id: None,
        };
        let line = JournalLine {
            seq: 1,
            at: current_time(),
            entry: JournalEntry::Event { event },
        };
        assert_eq!(parse(&encode_line(&line)).lines, [line]);
    }

    #[test]
    fn long_strings_are_cut_at_a_character() {
        let value = cut_value(&json!({"path": "ääää", "n": 1}), 5);
        assert_eq!(value, json!({"path": "ää… (4 bytes more)", "n": 1}));
    }

    #[test]
    fn of_very_many_arguments_the_beginning_is_told() {
        let few = json!({"paths": ["a.py", "b.py"]});
        assert_eq!(cut_arguments(&few), few);
        let many = Value::Array(vec![json!("x"); limits::JOURNAL_TOOL_BYTES_MAX]);
        assert!(cut_arguments(&many).to_string().len() < 2 * limits::EVENT_ARGUMENT_BYTES_MAX);
    }

    #[test]
    fn a_change_comes_back_with_its_contents_and_damage_is_noticed() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("s"));
        folder.create().expect("it can be made");
        let change = PreparedChange {
            id: "c".into(),
            call_id: None,
            root: "/r".into(),
            files: vec![FileChange {
                path: "a.py".into(),
                before: None,
                after: Some(FileState {
                    content: b"x = 1\n\xff".to_vec(),
                    mode: 0o755,
                }),
            }],
            directories: Vec::new(),
        };
        let stored = folder.store(&change).expect("it can be stored");
        assert_eq!(folder.load(&stored).expect("it can be loaded"), change);
        let digest = stored.files[0].after.clone().expect("there is a state").digest;
        fs::write(folder.content_path(&digest), b"other").expect("it can be written");
        assert!(folder.load(&stored).is_err());
    }

    #[test]
    fn only_the_owner_may_read_any_of_it() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("deep/s"));
        folder.create().expect("it can be made");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(
            (
                mode(folder.path()),
                mode(&folder.journal()),
                mode(&place.path().join("deep"))
            ),
            (0o700, 0o600, 0o700)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let parsed = parse(&bytes);
            prop_assert!(parsed.whole_bytes <= bytes.len() as u64);
        }

        #[test]
        fn a_journal_cut_anywhere_gives_a_prefix(texts in prop::collection::vec(".{0,12}", 1..6), cut in 0.0..1.0f64) {
            let lines: Vec<JournalLine> = texts.iter().enumerate().map(|(i, text)| line(i as u64 + 1, text)).collect();
            let bytes = bytes_of(&lines);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the length")]
            let end = (bytes.len() as f64 * cut) as usize;
            let parsed = parse(&bytes[..end]);
            prop_assert_eq!(parsed.damaged, 0);
            prop_assert_eq!(&parsed.lines[..], &lines[..parsed.lines.len()]);
            prop_assert_eq!(parsed.whole_bytes as usize, bytes_of(&parsed.lines).len());
        }
    }
}
