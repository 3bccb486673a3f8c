//! The journal of one session: what happened, one event a line, append-only. It is the truth; everything else that the
//! product says about a session is a view of it.
//!
//! This module knows the lines, how bytes become lines (in `lines`, which drops a torn tail), and the files: the
//! journal itself and, beside it, the contents of changed files, stored once each by their digest. It does not know
//! who reads or writes when; that is `feed`.

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
use tool_repository::changes::{ContentsFull, FileChange, FileState, PreparedChange, Publishing, crash_point};

pub use lines::{Extent, Lines, Parsed, parse};
use tool_core::digest::sha256_hex;

/// Nesting of values in events and journal lines. The JSON reader gives up at 128; no schema of ours needs ten.
const EVENT_DEPTH_MAX: usize = 32;

/// File name of the journal in a session's folder.
pub(crate) const JOURNAL_FILE: &str = "journal.jsonl";

/// Folder of stored contents in a session's folder.
const CONTENTS_FOLDER: &str = "contents";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// From 1, rising; the `id` of the event in a stream. A gap is where a daemon died, or the disk was full for long.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// The recorded entry.
    pub entry: JournalEntry,
}

/// Content of a journal line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalEntry {
    /// Always first.
    Started(Box<Start>),
    /// An event for streams. Never a terminal event: that is derived from [`Entry::Ended`].
    Event {
        /// The event.
        event: Event,
    },
    /// Thinking that is not answer text.
    Reasoning {
        /// A piece of it.
        text: String,
    },
    /// A tool call ended.
    Tool(ToolEntry),
    /// A part of the conversation with the model, for the turn that goes on with it.
    Conversation(ConversationEntry),
    /// An approval was answered, or closed without an answer.
    Answered {
        /// The approval.
        id: String,
        /// `approved`, `refused`, `expired` or `cancelled`.
        answer: ApprovalOutcome,
        /// How long a yes lasts.
        #[serde(default)]
        scope: ApprovalScope,
    },
    /// A change is about to be made; its contents are stored.
    Prepared(JournalChange),
    /// A change is wholly in place.
    Committed {
        /// Its id.
        id: String,
    },
    /// A change was noted as committed and may not outlast the power: it is to be rolled back.
    Reopened {
        /// Its id.
        id: String,
    },
    /// A change was rolled back, even where it was noted as committed before: the disk was full at that moment.
    Abandoned {
        /// Its id.
        id: String,
    },
    /// A commit is about to be put into the git directory.
    Publishing(Publishing),
    /// Nothing of it is left to be finished.
    Published {
        /// Its id.
        id: String,
    },
    /// The end of what streams show. Only what settles something that is open may follow.
    Ended(End),
    /// The user has dropped the proposals of a preview; their contents are gone.
    Discarded,
}

/// A part of the conversation with the model. Together these entries are what a later turn needs to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum ConversationEntry {
    /// The mark of the tool results in it.
    Mark {
        /// Sixteen hexadecimal digits.
        mark: String,
    },
    /// A message is new, or replaces the one that was in its place.
    Message {
        /// Its place, from 0, earlier turns included.
        at: usize,
        /// The message as JSON text: data of a provider may be nested deeper than a reader of this line follows.
        json: String,
    },
    /// The oldest messages were replaced by a summary.
    Summarised {
        /// Number of the messages that were replaced.
        replaced: usize,
        /// The messages in their place, each as JSON text.
        by: Vec<String>,
    },
    /// Text from outside the user's own files has entered it.
    Outside {
        /// The places, in words.
        places: Vec<String>,
    },
    /// Keys that the model knows as placeholders.
    Keys {
        /// Fingerprints, in the order of the placeholders' numbers.
        keys: Vec<KeyFingerprint>,
    },
    /// Files that the model has seen whole, or has changed.
    Seen {
        /// Content digest by path; absent for a file that the model has deleted.
        files: BTreeMap<String, Option<String>>,
    },
}

/// Request of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Identifier of the session.
    pub session_id: String,
    /// An operation, or a call of one skill.
    pub work: Work,
    /// The requested target.
    pub target: String,
    /// Focus of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Absolute path of the repository root.
    pub repository: String,
    /// Absolute path of the folder that gets `session-reports/`.
    pub working_directory: String,
    /// Name of the provider; empty for a call of one skill.
    pub provider: String,
    /// Identifier of the model; empty for a call of one skill.
    pub model: String,
    /// Requested grants and denials beyond the defaults.
    pub policy: PolicyRequest,
    /// Place in a conversation; absent for a session that begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continued>,
    /// What holds for the later turns of its conversation.
    #[serde(default)]
    pub binding: TurnBinding,
    /// True if the client can answer approvals.
    pub interactive: bool,
    /// Effects about which it is asked in place of a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// True for a session that works on a private layer: its changes are proposals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// Version of the daemon.
    pub version: String,
}

/// What a turn leaves to the later turns of its conversation, beside its policy: they only narrow it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBinding {
    /// Effects that the user denied by name, in this turn or before it. No grant of a later turn lifts that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The user wanted no project instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_instructions: bool,
    /// Inode of the repository's root: by it a later turn knows that another repository lies at the path now. The number
    /// of the device is not kept, because it changes with the next start of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_inode: Option<u64>,
}

/// The session that a turn goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    /// Identifier of the session that began the conversation.
    pub conversation: String,
    /// Identifier of the session before this turn.
    pub session: String,
    /// Number of this turn; the session that began the conversation is 1.
    pub turn: u32,
}

impl Start {
    /// Identifier of the conversation, which is that of its first session.
    pub fn conversation(&self) -> &str {
        self.continues
            .as_ref()
            .map_or(&self.session_id, |continued| &continued.conversation)
    }

    /// Number of the turn in its conversation, from 1.
    pub fn turn(&self) -> u32 {
        self.continues.as_ref().map_or(1, |continued| continued.turn)
    }

    /// The event that tells the place in the conversation.
    pub fn turn_event(&self) -> Event {
        Event::Turn {
            number: self.turn(),
            conversation: self.conversation().to_owned(),
            continues: self.continues.as_ref().map(|continued| continued.session.clone()),
        }
    }
}

/// Kind of work of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// One of the four.
    Operation(Operation),
    /// A call of the skill of this name. Listed among tasks and history only where calls are asked for.
    Skill(String),
    /// Takes back what the session of this identifier changed. Not listed either.
    Undo(String),
    /// Puts in place what the preview of this identifier proposes. Listed, but no operation.
    Apply(String),
    /// The calls of another agent, for as long as it is connected. Listed, but no operation.
    Mcp,
}

impl Work {
    /// The operation, where it is one.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Operation(operation) => Some(*operation),
            Self::Skill(_) | Self::Undo(_) | Self::Apply(_) | Self::Mcp => None,
        }
    }

    /// Returns its activity, if it is listed.
    pub fn activity(&self) -> Option<Activity> {
        match self {
            Self::Mcp => Some(Activity::Mcp),
            Self::Skill(_) => Some(Activity::SkillCall),
            Self::Apply(_) => Some(Activity::Apply),
            work => work.operation().map(Activity::from),
        }
    }

    /// True where it is listed without being asked for: scripts make calls by the hundred, which would leave no room.
    pub fn is_listed_unasked(&self) -> bool {
        !matches!(self, Self::Skill(_) | Self::Undo(_))
    }
}

/// A tool call, with its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEntry {
    /// Unique within the conversation.
    pub call_id: String,
    /// Name of the skill.
    pub name: String,
    /// The arguments as the model wrote them, cut.
    pub arguments: String,
    /// The text that the model read, cut.
    pub result: String,
    /// `ok` or the failure's code.
    pub verdict: String,
    /// When it started.
    pub started: Timestamp,
    /// Duration of the call.
    pub duration_ms: u64,
    /// Cost of the call, if anything ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
    /// The answer for programs, where the skill gave one that is not too long to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A change of the repository, contents by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalChange {
    /// Unique.
    pub id: String,
    /// Absolute path of the repository root.
    pub root: PathBuf,
    /// Every file of it.
    pub files: Vec<ChangedFile>,
    /// Directories that it makes, relative to the root, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
}

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the root.
    pub path: String,
    /// Before; absent where the file did not exist.
    pub before: Option<StoredState>,
    /// After; absent where the file is removed.
    pub after: Option<StoredState>,
}

/// A file's content by digest, and its mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// SHA-256, hexadecimal.
    pub digest: String,
    /// Permission bits.
    pub mode: u32,
}

/// End of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Anything but `running`.
    pub status: Status,
    /// The failure; absent if the session did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The report as results name it; empty where it could not be written.
    pub report_path: String,
    /// Token counts over all rounds, where a model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl JournalEntry {
    /// True for what tells of a change.
    pub fn is_of_change(&self) -> bool {
        matches!(
            self,
            Self::Prepared(_) | Self::Committed { .. } | Self::Reopened { .. } | Self::Abandoned { .. }
        )
    }

    /// True for what says that nothing of a change, or of a commit, is left to be finished.
    pub(crate) fn settles(&self) -> bool {
        matches!(self, Self::Abandoned { .. } | Self::Published { .. } | Self::Discarded)
    }

    /// Returns the entry without its long text, for a journal that has reached its limit for text. Returns nothing for
    /// an entry that is text alone.
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

    /// The event that streams show for this entry, the terminal one included.
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

/// One line as bytes, the line feed included.
pub fn encode(line: &JournalLine) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("journal lines have string keys only");
    bytes.push(b'\n');
    bytes
}

/// A value fit for a journal and a stream: strings cut at `string_bytes_max`, and nothing nested deeper than a reader
/// would follow.
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

/// Cuts the arguments of a call for a journal and a stream: long strings, and the end of very many arguments.
pub fn cut_arguments(arguments: &Value) -> Value {
    let cut = cut_value(arguments, limits::EVENT_ARGUMENT_BYTES_MAX);
    let text = cut.to_string();
    if text.len() > limits::JOURNAL_TOOL_BYTES_MAX {
        Value::String(cut_text(&text, limits::EVENT_ARGUMENT_BYTES_MAX))
    } else {
        cut
    }
}

/// The details of an answer for a journal and a stream, which leave out those that are longer than a result may be there:
/// cut JSON is none.
pub fn keep_details(details: Option<&Value>) -> Option<Value> {
    details
        .filter(|details| details.to_string().len() <= limits::JOURNAL_TOOL_BYTES_MAX)
        .cloned()
}

/// A text of at most `bytes_max` bytes, with a mark where it was cut.
pub fn cut_text(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

/// The changes among `lines` that are wholly in place, in the order of their commits.
pub fn committed(lines: &[JournalLine]) -> impl Iterator<Item = &JournalChange> {
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
    /// The folder `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal in it.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL_FILE)
    }

    /// Makes the folder (0700) with an empty journal (0600), to be appended to.
    pub fn create(&self) -> io::Result<File> {
        create_private_folder(&self.path)?;
        private_file().create_new(true).append(true).open(self.journal())
    }

    /// Opens the journal to be appended to.
    pub fn open(&self) -> io::Result<File> {
        private_file().append(true).open(self.journal())
    }

    /// Opens the journal to be appended to, cut to its first `whole_bytes`.
    pub fn reopen(&self, whole_bytes: u64) -> io::Result<File> {
        let file = self.open()?;
        file.set_len(whole_bytes)?;
        Ok(file)
    }

    /// True where a daemon died before it had written the first line: no client has the identifier of this session.
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
    #[cfg(test)]
    pub fn read(&self) -> io::Result<Parsed> {
        Ok(parse(&fs::read(self.journal())?))
    }

    /// Applies `view` to the journal's lines. Returns its result and the extent read.
    pub fn view<T>(&self, view: impl FnOnce(&mut Lines<BufReader<File>>) -> T) -> io::Result<(T, Extent)> {
        let mut lines = Lines::new(BufReader::new(File::open(self.journal())?));
        let seen = view(&mut lines);
        Ok((seen, lines.end()?))
    }

    /// The lines that tell of changes, which are what [`committed`] and [`SessionFolder::net`] go by.
    pub fn changes(&self) -> io::Result<Vec<JournalLine>> {
        let is_of_change = |line: &JournalLine| line.entry.is_of_change();
        Ok(self.view(|lines| lines.filter(is_of_change).collect())?.0)
    }

    /// Refuses a change with whose contents the folder would hold more than a session may keep.
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
        // Contents that are stored already, or twice in the change, cost nothing.
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

    /// Stores the contents of a change, durably, and gives the form that a journal line holds.
    pub fn store(&self, change: &PreparedChange) -> io::Result<JournalChange> {
        create_private_folder(&self.path.join(CONTENTS_FOLDER))?;
        let mut files = Vec::with_capacity(change.files.len());
        for file in &change.files {
            files.push(ChangedFile {
                path: file.path.clone(),
                before: self.store_state(file.before.as_ref())?,
                after: self.store_state(file.after.as_ref())?,
            });
            crash_point();
        }
        File::open(self.path.join(CONTENTS_FOLDER))?.sync_all()?;
        File::open(&self.path)?.sync_all()?;
        // The session's own name, too: without it there is no journal after a power failure, whatever is in it.
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

    /// A change with its contents, as they were stored.
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
    /// the last of them. Files that are as they were are left out.
    ///
    /// Yields one file at a time, to hold the contents of one only.
    pub fn net<'a>(&'a self, lines: &'a [JournalLine]) -> impl Iterator<Item = io::Result<FileChange>> + use<'a> {
        let mut files: BTreeMap<&str, (Option<&StoredState>, Option<&StoredState>)> = BTreeMap::new();
        for file in committed(lines).flat_map(|change| &change.files) {
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
    pub fn remove_contents(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.path.join(CONTENTS_FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// A stored content. One that is not what its name says is an error.
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

    /// Bytes of everything in the folder, as the retention counts them.
    pub fn size_bytes(&self) -> u64 {
        files_bytes(&self.path) + self.contents_bytes()
    }

    fn contents_bytes(&self) -> u64 {
        files_bytes(&self.path.join(CONTENTS_FOLDER))
    }
}

/// Bytes of the files in a folder.
fn files_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// Makes a folder that only its owner may enter, and its parents.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options of a file that only its owner may read.
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
    use tool_core::api::now;

    fn line(seq: u64, text: &str) -> JournalLine {
        JournalLine {
            seq,
            at: now(),
            entry: JournalEntry::Event {
                event: Event::Token {
                    content: text.to_owned(),
                },
            },
        }
    }

    fn bytes_of(lines: &[JournalLine]) -> Vec<u8> {
        lines.iter().flat_map(encode).collect()
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
        let mut bytes = encode(&line(1, "a"));
        bytes.extend_from_slice(b"\xff\x00 not ours\n");
        bytes.extend(encode(&line(1, "again the same number")));
        bytes.extend(encode(&line(2, "b")));
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
            at: now(),
            entry: JournalEntry::Event { event },
        };
        assert_eq!(parse(&encode(&line)).lines, [line]);
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
