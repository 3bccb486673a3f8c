//! The journal of a session while it runs: one writer, and readers that follow it.
//!
//! A [`Recorder`] gives every entry its sequence number, keeps the newest events in memory for streams, and holds
//! encoded lines until a group commit writes them. An [`EventReader`] reader pulls: it takes the next events from memory,
//! or from the file if it has fallen behind. So a slow reader costs no memory, and no reader slows a session.

mod events;
pub mod texts;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::history::{self, SessionSummary, UnderWay, output_of};
use crate::journal::{
    self, EndRecord, JournalChange, JournalEntry, JournalExtent, JournalLine, JournalLines, SessionFolder, SessionWork,
    StartRecord, ToolEntry, cut_text,
};
use crate::limits;
pub use events::EventReader;
use events::TailRead;
use tool_core::api::{self, ApprovalOutcome, ApprovalScope, ChangedFile, Event, NoticeKind, Problem, Timestamp};
use tool_core::redaction;
use tool_repository::changes::{ChangeJournal, CommitInProgress, FileChange, PreparedChange, WrittenLate, crash_point};
use tool_repository::diff::{FileDiff, first_lines};

/// Limit for the journal of a session in bytes; beyond it, entries are recorded without their text. A long session
/// writes a few megabytes, because contents of changed files are stored outside the journal.
pub const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Time in milliseconds for which encoded lines may wait in memory. A crash may lose 50 ms: half of that is left for
/// the write itself.
const JOURNAL_COMMIT_MS: u64 = 25;

/// Limit for encoded lines in memory while the disk is full, in bytes. Beyond it, events are dropped and counted, and
/// no change begins. Lines about changes and the end of the session are kept.
const JOURNAL_BACKLOG_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Sequence numbers that a resumed journal skips. Readers may have seen lines that the dead daemon never wrote, also
/// after a full disk; a resumed journal must not use their numbers again. A line has at least a hundred bytes, so
/// [`JOURNAL_BACKLOG_BYTES_MAX`] holds fewer lines than this.
const JOURNAL_LOST_LINES_MAX: u64 = 1_000_000;

/// Time in milliseconds for which model output is collected into one event. Users do not notice a delay of 5 ms, and
/// fast models send a thousand tokens a second.
const TOKEN_COALESCE_MS: u64 = 5;

/// Limit for the events of a running session in memory, in bytes. Readers find older events in the journal.
const EVENT_TAIL_BYTES_MAX: usize = 256 * 1024;

/// Limit for the diff in one `change` event, in bytes: some hundred lines. `tool diff` shows the whole diff.
const CHANGE_DIFF_BYTES_MAX: usize = 32 * 1024;

/// An event with its sequence number.
pub type NumberedEvent = (u64, Arc<Event>);

/// The writing end of a session's journal. All methods may be called from any thread; methods that block say so.
pub struct Recorder {
    folder: SessionFolder,
    // Lock order: before `state`, so that lines reach the file in the order of their numbers.
    file: Mutex<File>,
    state: Mutex<FeedState>,
    latest: watch::Sender<u64>,
    unwritten: Notify,
    unsent: Notify,
}

struct FeedState {
    summary: SessionSummary,
    next_seq: u64,
    ending: AnswerEnd,
    text: String,
    reasoning: String,
    /// Arrival of the first piece of the collected text.
    collecting_since: Instant,
    backlog: Vec<u8>,
    /// Bytes of all lines so far, written or not.
    journal_bytes: u64,
    /// Events that were dropped because the backlog was full.
    lost: u64,
    tail: VecDeque<(NumberedEvent, usize)>,
    tail_bytes: usize,
    /// Number of the last event that only the file holds.
    evicted: u64,
    /// Number of the last line in the file.
    written: u64,
    /// True once no further change may be prepared.
    sealed: bool,
    /// Operations under way that the end waits for, in addition to open changes and commits.
    entered: usize,
    /// Events of prepared changes that are not in place yet, by the identifier of the change.
    prepared: HashMap<String, Event>,
    /// Number of the last line that streams show, once it is recorded.
    end: Option<u64>,
}

/// State of the last lines of the answer, so that a new paragraph needs no look at the journal.
#[derive(Debug, Default)]
struct AnswerEnd {
    /// True if the answer has text that is not blank.
    is_begun: bool,
    line_feeds: usize,
}

impl AnswerEnd {
    fn follow(&mut self, piece: &str) {
        self.is_begun |= !piece.trim().is_empty();
        let before = piece.trim_end_matches('\n');
        let line_feeds = piece.len() - before.len();
        self.line_feeds = match before {
            "" => self.line_feeds + line_feeds,
            _ => line_feeds,
        };
    }

    /// Returns the line feeds that separate a new paragraph from the answer so far.
    fn until_paragraph(&self) -> &'static str {
        match (self.is_begun, self.line_feeds) {
            (false, _) | (true, 2..) => "",
            (true, 1) => "\n",
            (true, 0) => "\n\n",
        }
    }
}

impl Recorder {
    /// Begins the journal of a new session. Blocks.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be made.
    pub fn create(folder: SessionFolder, start: StartRecord) -> io::Result<Arc<Self>> {
        let file = folder.create()?;
        let recorder = Self::new(
            folder,
            file,
            SessionSummary::begin(start.clone(), api::current_time()),
            1,
        );
        recorder.record(JournalEntry::Started(start.into()));
        recorder.flush()?;
        Ok(Arc::new(recorder))
    }

    /// Resumes the journal of a session that never ended, after its last whole line. Blocks.
    ///
    /// Numbers continue after all numbers that a reader may have seen: a reader that comes back with such a number
    /// still gets the end.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or cut.
    pub fn resume(folder: SessionFolder, summary: SessionSummary, extent: JournalExtent) -> io::Result<Arc<Self>> {
        let file = folder.reopen(extent.whole_bytes)?;
        let last = extent.last;
        let recorder = Self::new(folder, file, summary, last + JOURNAL_LOST_LINES_MAX);
        {
            let mut state = recorder.lock();
            (state.evicted, state.written) = (last, last);
            state.journal_bytes = extent.whole_bytes;
        }
        let said = recorder.output();
        recorder.lock().ending.follow(&said);
        Ok(Arc::new(recorder))
    }

    fn new(folder: SessionFolder, file: File, summary: SessionSummary, next_seq: u64) -> Self {
        Self {
            folder,
            file: Mutex::new(file),
            state: Mutex::new(FeedState {
                summary,
                next_seq,
                ending: AnswerEnd::default(),
                text: String::new(),
                reasoning: String::new(),
                collecting_since: Instant::now(),
                backlog: Vec::new(),
                journal_bytes: 0,
                lost: 0,
                tail: VecDeque::new(),
                tail_bytes: 0,
                evicted: 0,
                written: 0,
                sealed: false,
                entered: 0,
                prepared: HashMap::new(),
                end: None,
            }),
            latest: watch::Sender::new(0),
            unwritten: Notify::new(),
            unsent: Notify::new(),
        }
    }

    /// Records proposals of earlier turns as the first change. Streams do not show it. Blocks.
    ///
    /// # Errors
    ///
    /// The contents cannot be stored, or the line cannot be synced.
    pub fn inherit(&self, root: &Path, files: &[FileChange]) -> io::Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let change = PreparedChange {
            id: uuid::Uuid::now_v7().simple().to_string(),
            call_id: None,
            root: root.to_owned(),
            files: files.to_vec(),
            directories: Vec::new(),
        };
        self.folder.check_room(&change)?;
        let stored = self.folder.store(&change)?;
        self.record(JournalEntry::Prepared(stored));
        self.record(JournalEntry::Committed { id: change.id });
        self.sync()
    }

    /// Folder of the session.
    pub fn folder(&self) -> &SessionFolder {
        &self.folder
    }

    /// Returns the summary of the entries so far.
    pub fn summary(&self) -> SessionSummary {
        self.lock().summary.clone()
    }

    /// Identifiers of the questions that wait for an answer.
    fn open_questions(&self) -> Vec<String> {
        self.lock().summary.under_way.questions.clone()
    }

    /// True once the session has ended.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended()
    }

    /// Returns the answer so far, from the file and from memory. Blocks.
    ///
    /// The answer has a gap if the disk was full for so long that neither holds all of it, or if the file is gone.
    pub fn output(&self) -> String {
        let (evicted, recent) = {
            let state = self.lock();
            let mut recent: String = state.tail.iter().map(|((_, event), _)| output_of(event)).collect();
            recent.push_str(&state.text);
            (state.evicted, recent)
        };
        if evicted == 0 {
            return recent;
        }
        let in_file =
            |lines: &mut JournalLines<_>| history::session_output(lines.take_while(|line| line.seq <= evicted));
        match self.folder.view(in_file) {
            Ok((before, _)) => before + &recent,
            Err(error) => {
                tracing::warn!(journal = %self.folder.path().display(), %error, "a journal cannot be read");
                recent
            }
        }
    }

    /// True while lines wait to be written.
    pub fn has_unwritten_lines(&self) -> bool {
        !self.lock().backlog.is_empty()
    }

    /// Adds an entry. After the end, only entries that settle something open are recorded.
    pub fn record(&self, entry: JournalEntry) {
        self.take(entry);
    }

    /// Adds an entry. Returns false if the journal refuses it: after the end, or while the disk is full.
    fn take(&self, entry: JournalEntry) -> bool {
        let mut state = self.lock();
        if state.has_ended() && !entry.settles() {
            return false;
        }
        state.take_in_collected();
        let taken = state.append(entry);
        self.tell(&state);
        taken
    }

    /// Number of events that clients received and that no journal holds, because the disk was full for too long.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Records an event.
    pub fn event(&self, event: Event) {
        self.record(JournalEntry::Event { event });
    }

    /// Records a notice for the user.
    pub fn notice(&self, message: impl Into<String>, hint: Option<String>) {
        self.event(Event::Notice {
            code: None,
            message: message.into(),
            hint,
        });
    }

    /// Records a problem that does not end the session.
    pub fn problem(&self, problem: Problem) {
        self.event(Event::Notice {
            code: Some(NoticeKind::Error(problem.kind)),
            message: problem.message,
            hint: problem.hint,
        });
    }

    /// Adds a piece of model output. Pieces that come close together become one event.
    pub fn text(&self, piece: &str) {
        let mut state = self.lock();
        if state.has_ended() || piece.is_empty() {
            return;
        }
        if !state.reasoning.is_empty() {
            state.take_in_collected();
        }
        let is_first = state.text.is_empty();
        state.text.push_str(piece);
        self.collected(&mut state, is_first);
    }

    /// Returns the line feeds that separate a new paragraph from the answer so far.
    pub fn paragraph(&self) -> &'static str {
        let mut state = self.lock();
        state.take_in_collected();
        state.ending.until_paragraph()
    }

    /// Adds a piece of thinking, which is not part of the answer.
    pub fn reasoning(&self, piece: &str) {
        let mut state = self.lock();
        if state.has_ended() || piece.is_empty() {
            return;
        }
        if !state.text.is_empty() {
            state.take_in_collected();
        }
        let is_first = state.reasoning.is_empty();
        state.reasoning.push_str(piece);
        self.collected(&mut state, is_first);
    }

    /// Sends the collected pieces once their time is over; the first piece starts the timer. The check is here as
    /// well as in `keep_up`, because a flood of pieces can keep the timer task from running.
    fn collected(&self, state: &mut FeedState, is_first: bool) {
        if is_first {
            state.collecting_since = Instant::now();
            self.unsent.notify_one();
        } else if state.collecting_since.elapsed() >= limits::milliseconds(TOKEN_COALESCE_MS) {
            state.take_in_collected();
            self.tell(state);
        }
    }

    /// Refuses changes from now on, and waits for a bounded time for those that are being put in place. Blocks.
    pub fn seal(&self) {
        let deadline = Instant::now() + limits::milliseconds(limits::OPEN_CHANGE_MS_MAX);
        // Set this before waiting: a change that begins later must fail, or the wait would take until the deadline.
        self.lock().sealed = true;
        while !self.lock().is_settled() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes calls and questions that will never end, so that every journal has an answer for each.
    pub fn close_open(&self, verdict: &str, result: &str) {
        let UnderWay { calls, questions, .. } = self.summary().under_way;
        for call in calls {
            let duration = api::current_time()
                .signed_duration_since(call.started)
                .num_milliseconds();
            let duration_ms = u64::try_from(duration).unwrap_or(0);
            self.record(JournalEntry::Tool(ToolEntry {
                call_id: call.call_id.clone().unwrap_or_else(|| format!("event-{}", call.seq)),
                name: call.name.clone(),
                arguments: cut_text(&call.arguments.to_string(), limits::JOURNAL_TOOL_BYTES_MAX),
                result: result.to_owned(),
                verdict: verdict.to_owned(),
                started: call.started,
                duration_ms,
                receipt: None,
                details: None,
            }));
            self.event(Event::SkillResult {
                name: call.name,
                verdict: verdict.to_owned(),
                summary: result.to_owned(),
                duration_ms,
                details: None,
                call_id: call.call_id,
            });
        }
        for id in questions {
            self.record(JournalEntry::Answered {
                id,
                answer: ApprovalOutcome::Cancelled,
                scope: ApprovalScope::Call,
            });
        }
    }

    /// Ends the session. The last line is synced before readers see it. Blocks.
    ///
    /// # Errors
    ///
    /// The line could not be synced. It waits for the disk all the same.
    pub fn end(&self, end: EndRecord, at: Timestamp) -> io::Result<()> {
        let published = {
            let mut state = self.lock();
            if state.has_ended() {
                return Ok(());
            }
            state.take_in_collected();
            self.tell(&state);
            state.append_at(JournalEntry::Ended(end), at);
            let end = state.next_seq - 1;
            state.end = Some(end);
            end
        };
        // Sync before readers see the end: after a power failure, a client must find the end that it saw. If the sync
        // fails, readers see the end all the same, and `keep_up` tries again.
        let durable = self.sync();
        self.latest.send_replace(published);
        self.unwritten.notify_one();
        durable
    }

    /// Sends collected text and writes waiting lines when their time is over. Never returns; the session's owner
    /// drops it at the end.
    pub async fn keep_up(self: &Arc<Self>) {
        let sending = async {
            loop {
                self.unsent.notified().await;
                tokio::time::sleep(Duration::from_millis(TOKEN_COALESCE_MS)).await;
                let mut state = self.lock();
                state.take_in_collected();
                self.tell(&state);
            }
        };
        let writing = async {
            loop {
                self.unwritten.notified().await;
                tokio::time::sleep(Duration::from_millis(JOURNAL_COMMIT_MS)).await;
                let recorder = Arc::clone(self);
                // A write can block for seconds on a slow disk, and would stop all sessions on a thread of the
                // runtime.
                let written = tokio::task::spawn_blocking(move || recorder.flush()).await;
                // Try again later: a full disk may get room even if no more entries come. The end of the session
                // reports a failure.
                if matches!(written, Ok(Err(_))) {
                    tokio::time::sleep(Duration::from_millis(limits::JOURNAL_RETRY_MS)).await;
                    self.unwritten.notify_one();
                }
            }
        };
        tokio::join!(sending, writing);
    }

    /// Writes the waiting lines. Blocks.
    ///
    /// # Errors
    ///
    /// The write failed; the rest of the lines keeps waiting.
    pub fn flush(&self) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Release the state before writing, so that recording never waits for the disk. The lock on the file keeps
        // the order of the lines.
        let (waiting, newest) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.backlog), state.next_seq - 1)
        };
        let mut written = 0;
        while written < waiting.len() {
            match file.write(&waiting[written..]) {
                Ok(0) => return Err(self.put_back(&waiting[written..], io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.put_back(&waiting[written..], error)),
            }
        }
        let mut state = self.lock();
        state.written = newest;
        state.trim_tail();
        Ok(())
    }

    /// Puts the unwritten rest before lines that arrived meanwhile. The next write completes a line of which the file
    /// has only half.
    fn put_back(&self, rest: &[u8], error: io::Error) -> io::Error {
        let mut state = self.lock();
        let newer = std::mem::replace(&mut state.backlog, rest.to_vec());
        state.backlog.extend(newer);
        error
    }

    /// Writes the waiting lines and syncs them to the disk. Blocks.
    ///
    /// # Errors
    ///
    /// The write or the sync failed.
    pub fn sync(&self) -> io::Result<()> {
        self.flush()?;
        self.file.lock().unwrap_or_else(PoisonError::into_inner).sync_data()
    }

    fn is_streamed(&self) -> bool {
        !matches!(self.lock().summary.start.work, SessionWork::Undo(_))
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // A panic leaves no half entry behind: every change of the state is one push or one number.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &FeedState) {
        self.latest.send_replace(state.next_seq - 1);
        if !state.backlog.is_empty() {
            self.unwritten.notify_one();
        }
    }

    /// The number after which a reader continues that claims to have seen `after`. It may name a number that no
    /// journal holds any more, or never held: it still gets later events, and the end in any case.
    fn known(&self, after: u64) -> u64 {
        let state = self.lock();
        let newest = state.end.unwrap_or(state.next_seq - 1);
        match after > newest {
            true if state.has_ended() => newest - 1,
            true => newest,
            false => after,
        }
    }

    /// Returns the events of the tail after number `after`.
    fn tail_after(&self, after: u64) -> TailRead {
        // Return published events only: the end is in the tail before it is synced.
        let published = *self.latest.borrow();
        let state = self.lock();
        if after < state.evicted {
            return TailRead::Behind(state.evicted);
        }
        // Numbers rise, so a reader that keeps up skips all events that it has seen.
        let first = state.tail.partition_point(|((seq, _), _)| *seq <= after);
        let end = state.tail.partition_point(|((seq, _), _)| *seq <= published);
        let fresh = state.tail.range(first..end.max(first));
        let fresh: Vec<NumberedEvent> = fresh.map(|(numbered, _)| numbered.clone()).collect();
        match fresh.is_empty() {
            // The reader has seen the last event.
            true if state.end.is_some_and(|end| after >= end) => TailRead::Over,
            true => TailRead::Nothing,
            false => TailRead::Events(fresh),
        }
    }
}

impl FeedState {
    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// True if no change and no commit is being put in place.
    fn is_settled(&self) -> bool {
        self.entered == 0 && self.summary.is_settled()
    }

    /// Fails once no change may be put in place any more.
    fn check_open(&self) -> io::Result<()> {
        if self.sealed || self.has_ended() {
            Err(io::Error::other("the session has ended"))
        } else {
            Ok(())
        }
    }

    /// Turns collected text and thinking into entries. At most one of them is there.
    fn take_in_collected(&mut self) {
        if !self.text.is_empty() {
            let content = std::mem::take(&mut self.text);
            self.append(JournalEntry::Event {
                event: Event::Token { content },
            });
        }
        if !self.reasoning.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            self.append(JournalEntry::Reasoning { text });
        }
    }

    fn append(&mut self, entry: JournalEntry) -> bool {
        self.append_at(entry, api::current_time())
    }

    /// Returns false if the journal refuses the entry.
    fn append_at(&mut self, entry: JournalEntry, at: Timestamp) -> bool {
        let was_full = self.is_full();
        let entry = if was_full { entry.in_short() } else { Some(entry) };
        let Some(entry) = entry else { return false };
        let is_end = matches!(entry, JournalEntry::Ended(_));
        let taken = self.append_whole(entry, at);
        // Nothing may follow the end.
        if self.is_full() && !was_full && !is_end {
            let megabytes = JOURNAL_BYTES_MAX / (1024 * 1024);
            let event = Event::Notice {
                code: None,
                message: format!(
                    "The session has said more than {megabytes} MiB; what it says from here on is left out"
                ),
                hint: None,
            };
            self.append_whole(JournalEntry::Event { event }, at);
        }
        taken
    }

    /// True once the journal drops text and keeps only facts.
    fn is_full(&self) -> bool {
        self.journal_bytes > JOURNAL_BYTES_MAX
    }

    fn append_whole(&mut self, entry: JournalEntry, at: Timestamp) -> bool {
        let line = JournalLine {
            seq: self.next_seq,
            at,
            entry,
        };
        let bytes = journal::encode_line(&line);
        let has_room = self.backlog.len() + bytes.len() <= JOURNAL_BACKLOG_BYTES_MAX;
        if !has_room && matches!(line.entry, JournalEntry::Prepared(_)) {
            // Refuse the change. Its line may be large, and no file may change without the line.
            return false;
        }
        // These lines are few and short. Without them, the next start would undo a change that is in place, or report
        // an ended session as dead.
        let taken = has_room
            || !matches!(
                line.entry,
                JournalEntry::Event { .. }
                    | JournalEntry::Reasoning { .. }
                    | JournalEntry::Tool(_)
                    | JournalEntry::Conversation(_)
            );
        self.next_seq += 1;
        self.journal_bytes += bytes.len() as u64;
        self.summary.apply(&line);
        if let JournalEntry::Event { event } = &line.entry {
            self.ending.follow(output_of(event));
        }
        if taken {
            self.backlog.extend_from_slice(&bytes)
        } else {
            self.lost += 1
        }
        let event = match line.entry {
            JournalEntry::Event { event } => Some(event),
            entry => entry.event(self.summary.id()),
        };
        if let Some(event) = event {
            self.keep((line.seq, Arc::new(event)), bytes.len());
        }
        taken
    }

    fn keep(&mut self, numbered: NumberedEvent, bytes: usize) {
        self.tail.push_back((numbered, bytes));
        self.tail_bytes += bytes;
        self.trim_tail();
    }

    /// Drops events that readers find in the file. Events that could not be written stay in memory, up to the limit
    /// of the backlog.
    fn trim_tail(&mut self) {
        while self.tail.len() > 1 && self.tail_bytes > EVENT_TAIL_BYTES_MAX {
            let is_written = self.tail.front().is_some_and(|((seq, _), _)| *seq <= self.written);
            if !is_written && self.tail_bytes <= JOURNAL_BACKLOG_BYTES_MAX {
                return;
            }
            if let Some(((seq, _), bytes)) = self.tail.pop_front() {
                self.tail_bytes -= bytes;
                self.evicted = seq;
            }
        }
    }
}

/// The event of a change, with as much of its diff as an event may hold. It holds digests of the contents; [`texts`]
/// adds the texts to the events that a stream sends.
fn change_event(change: &PreparedChange, stored: &JournalChange, proposed: bool) -> Event {
    let diffs: Vec<FileDiff> = change.files.iter().map(FileDiff::new).collect();
    let whole: String = diffs.iter().map(|diff| diff.text.as_str()).collect();
    let shown = first_lines(&whole, CHANGE_DIFF_BYTES_MAX);
    Event::Change {
        truncated: shown.len() < whole.len(),
        diff: redaction::mask_keys(shown).into_owned(),
        files: diffs.into_iter().map(ChangedFile::from).collect(),
        proposed,
        call_id: change.call_id.clone(),
        texts: stored.files.iter().map(texts::digests_only).collect(),
    }
}

impl ChangeJournal for Recorder {
    fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
        // An undo restores contents that were stored before; the limit must not block it.
        if !matches!(self.lock().summary.start.work, SessionWork::Undo(_)) {
            self.folder.check_room(change)?;
        }
        let stored = self.folder.store(change)?;
        // An undo has no stream, and a rollback is not shown.
        let proposed = self.lock().summary.start.preview;
        let event = self.is_streamed().then(|| change_event(change, &stored, proposed));
        crash_point();
        // Waiting lines may take the disk's room. If the flush fails, `sync` below returns the error.
        let _ = self.flush();
        {
            let mut state = self.lock();
            state.check_open()?;
            state.take_in_collected();
            if !state.append(JournalEntry::Prepared(stored)) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if let Some(event) = event {
                state.prepared.insert(change.id.clone(), event);
            }
            self.tell(&state);
        }
        if let Err(error) = self.sync() {
            // The line may be in the file although the sync failed. Abandon the change, so that it is not recovered.
            self.record(JournalEntry::Abandoned { id: change.id.clone() });
            return Err(error);
        }
        crash_point();
        Ok(())
    }

    fn committed(&self, id: &str) -> io::Result<()> {
        crash_point();
        // After the end this line cannot be recorded, and the next start would revert the change without notice.
        if !self.take(JournalEntry::Committed { id: id.to_owned() }) {
            return Err(io::Error::other("the session has ended"));
        }
        // The renamed files are on the disk. If a power failure lost this line, the next start would revert them.
        self.sync().inspect_err(|_| {
            // The change is open again until it is rolled back, perhaps by the next start.
            self.record(JournalEntry::Reopened { id: id.to_owned() });
        })?;
        crash_point();
        let event = self.lock().prepared.remove(id);
        if let Some(event) = event {
            self.event(event);
        }
        Ok(())
    }

    fn abandoned(&self, id: &str) -> io::Result<()> {
        self.lock().prepared.remove(id);
        self.record(JournalEntry::Abandoned { id: id.to_owned() });
        self.sync()
    }

    fn written_late(&self, late: &WrittenLate) {
        let (message, hint) = late.told();
        self.notice(message, Some(hint));
    }

    fn enter(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.check_open()?;
        state.entered += 1;
        Ok(())
    }

    fn leave(&self) {
        self.lock().entered -= 1;
    }

    fn publishing(&self, publication: &CommitInProgress) -> io::Result<()> {
        {
            let mut state = self.lock();
            state.check_open()?;
            state.take_in_collected();
            state.append(JournalEntry::Publishing(publication.clone()));
            self.tell(&state);
        }
        let durable = self.sync();
        // After an error the caller does not publish. The line may be on the disk all the same, and must not stay
        // open.
        if durable.is_err() {
            self.published(&publication.id);
        }
        durable
    }

    fn published(&self, id: &str) {
        self.record(JournalEntry::Published { id: id.to_owned() });
        // Best effort: without this line, the next start finds that there is nothing to do.
        let _ = self.flush();
    }
}

impl Recorder {
    /// Replaces the journal's file, for tests of failing disks. Returns the previous file.
    #[doc(hidden)]
    pub fn replace_file(&self, file: File) -> File {
        std::mem::replace(&mut *self.file.lock().unwrap_or_else(PoisonError::into_inner), file)
    }

    /// Stops recording and publishing at once, as if the process died. For tests of readers.
    ///
    /// # Panics
    ///
    /// Panics if `/dev/null` cannot be opened.
    #[doc(hidden)]
    pub fn die(&self) {
        let mut file = self.file.lock().expect("no panic");
        let nowhere = std::fs::OpenOptions::new().append(true).open("/dev/null");
        *file = nowhere.expect("it is there");
        let mut state = self.lock();
        state.end = Some(state.next_seq - 1);
        state.backlog.clear();
    }
}

#[cfg(test)]
impl Recorder {
    /// Replaces the journal's file by a pipe, which accepts writes but cannot be synced. The caller has to keep the
    /// reading end.
    fn leave_disk(&self) -> io::PipeReader {
        let (reader, writer) = io::pipe().expect("a pipe");
        *self.file.lock().expect("no panic") = File::from(std::os::fd::OwnedFd::from(writer));
        reader
    }
}

#[cfg(test)]
mod tests;
