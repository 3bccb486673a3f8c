//! One session's journal while the session runs: who writes to it, and who follows it.
//!
//! A [`Recorder`] gives every entry its sequence number, keeps the newest events in memory for streams, and holds
//! encoded lines until a group commit writes them. An [`Events`] reader pulls: it takes what it has not seen from that
//! tail, or from the file where it has fallen behind, so a slow reader costs no memory and no reader slows a session.

mod events;
pub mod texts;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::history::{self, Summary, UnderWay, output_of};
use crate::journal::{
    self, End, Extent, JournalChange, JournalEntry, JournalLine, Lines, SessionFolder, Start, ToolEntry, Work, cut_text,
};
use crate::limits;
pub use events::Events;
use events::Tail;
use tool_core::api::{self, ApprovalOutcome, ApprovalScope, ChangedFile, Event, NoticeKind, Problem, Timestamp};
use tool_core::redaction;
use tool_repository::changes::{ChangeJournal, FileChange, PreparedChange, Publishing, WrittenLate, crash_point};
use tool_repository::diff::{FileDiff, first_lines};

/// Limit for the bytes of a session's journal; beyond it, entries are recorded without their text. A long session
/// writes a few megabytes; contents of changed files lie elsewhere.
pub const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Time for which written journal lines may wait in memory. Half of the 50 ms that the design allows to be lost: the
/// other half is for the write itself.
const JOURNAL_COMMIT_MS: u64 = 25;

/// Unwritten journal bytes that are held while the disk is full. Beyond it events are dropped and counted, and no change
/// is begun; what tells of a change that was, and of the end, is kept.
const JOURNAL_BACKLOG_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Numbers that are left out where the journal of a daemon that died goes on: more lines than readers can have seen that
/// the file does not hold, also after a full disk. A line has at least a hundred bytes.
const JOURNAL_LOST_LINES_MAX: u64 = 1_000_000;

/// Time for which model output is collected into one event. A delay of 5 ms is invisible, and fast models send a
/// thousand tokens a second.
const TOKEN_COALESCE_MS: u64 = 5;

/// Events of a running session that are kept in memory for streams; older ones are read from the journal.
const EVENT_TAIL_BYTES_MAX: usize = 256 * 1024;

/// Diff of one `change` event: some hundred lines. `tool diff` shows all of it.
const CHANGE_DIFF_BYTES_MAX: usize = 32 * 1024;

/// An event with its sequence number.
pub type Numbered = (u64, Arc<Event>);

/// The writing end of a session's journal. All methods may be called from any thread; only those that say so block.
pub struct Recorder {
    folder: SessionFolder,
    // Taken before `state` where both are needed, so that lines reach the file in order.
    file: Mutex<File>,
    state: Mutex<FeedState>,
    latest: watch::Sender<u64>,
    unwritten: Notify,
    unsent: Notify,
}

struct FeedState {
    summary: Summary,
    next_seq: u64,
    ending: Ending,
    text: String,
    reasoning: String,
    /// When the first piece of the collected text came.
    collecting_since: Instant,
    backlog: Vec<u8>,
    /// Bytes of all lines so far, whether they are in the file yet or not.
    journal_bytes: u64,
    /// Events that found no room there.
    lost: u64,
    tail: VecDeque<(Numbered, usize)>,
    tail_bytes: usize,
    /// Events up to this number are in the file only.
    evicted: u64,
    /// Lines up to this number are in the file.
    written: u64,
    /// No further change may be prepared.
    sealed: bool,
    /// Operations under way that the end waits for, besides open changes and commits.
    entered: usize,
    /// Events of changes that are prepared and not in place yet, by the change's id.
    prepared: HashMap<String, Event>,
    /// Number of the last line that streams show, once it is there.
    end: Option<u64>,
}

/// State of the answer's last lines. An answer may be long, and its text is in the journal.
#[derive(Debug, Default)]
struct Ending {
    /// The answer has text that is not blank.
    is_begun: bool,
    line_feeds: usize,
}

impl Ending {
    fn follow(&mut self, piece: &str) {
        self.is_begun |= !piece.trim().is_empty();
        let before = piece.trim_end_matches('\n');
        let line_feeds = piece.len() - before.len();
        self.line_feeds = match before {
            "" => self.line_feeds + line_feeds,
            _ => line_feeds,
        };
    }

    /// Returns the line feeds that a new paragraph needs.
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
    pub fn create(folder: SessionFolder, start: Start) -> io::Result<Arc<Self>> {
        let file = folder.create()?;
        let recorder = Self::new(folder, file, Summary::begin(start.clone(), api::now()), 1);
        recorder.record(JournalEntry::Started(start.into()));
        recorder.flush()?;
        Ok(Arc::new(recorder))
    }

    /// Goes on with the journal of a session that never ended, after its last whole line. Blocks.
    ///
    /// Numbers go on behind all that any reader may have seen and the file does not hold: a reader that comes back with
    /// such a number still gets the end.
    pub fn resume(folder: SessionFolder, summary: Summary, extent: Extent) -> io::Result<Arc<Self>> {
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

    fn new(folder: SessionFolder, file: File, summary: Summary, next_seq: u64) -> Self {
        Self {
            folder,
            file: Mutex::new(file),
            state: Mutex::new(FeedState {
                summary,
                next_seq,
                ending: Ending::default(),
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

    /// The session as it stands.
    pub fn summary(&self) -> Summary {
        self.lock().summary.clone()
    }

    /// Questions that wait for an answer.
    fn open_questions(&self) -> Vec<String> {
        self.lock().summary.under_way.questions.clone()
    }

    /// True once its last entry is there.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended()
    }

    /// The answer so far: from the file what memory has let go of, and the rest from memory. Blocks.
    ///
    /// It has a gap where the disk was full for so long that neither holds all of it, or the file is gone.
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
        let in_file = |lines: &mut Lines<_>| history::output(lines.take_while(|line| line.seq <= evicted));
        match self.folder.view(in_file) {
            Ok((before, _)) => before + &recent,
            Err(error) => {
                tracing::warn!(journal = %self.folder.path().display(), %error, "a journal cannot be read");
                recent
            }
        }
    }

    /// True while lines wait for the disk.
    pub fn has_unwritten_lines(&self) -> bool {
        !self.lock().backlog.is_empty()
    }

    /// Adds an entry. Ignored after the end, unless it says what became of something that was still open then.
    pub fn record(&self, entry: JournalEntry) {
        self.take(entry);
    }

    /// Adds an entry; false where the journal does not take it: after the end, or while the disk is full.
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

    /// Events that clients got and that are in no journal, because the disk was full for too long.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Adds an event.
    pub fn event(&self, event: Event) {
        self.record(JournalEntry::Event { event });
    }

    /// Adds a notice.
    pub fn notice(&self, message: impl Into<String>, hint: Option<String>) {
        self.event(Event::Notice {
            code: None,
            message: message.into(),
            hint,
        });
    }

    /// Adds a problem that does not end the session.
    pub fn problem(&self, problem: Problem) {
        self.event(Event::Notice {
            code: Some(NoticeKind::Error(problem.kind)),
            message: problem.message,
            hint: problem.hint,
        });
    }

    /// Adds a piece of model output; pieces that come close together become one event.
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

    /// Returns the line feeds that the answer needs for a new paragraph.
    pub fn paragraph(&self) -> &'static str {
        let mut state = self.lock();
        state.take_in_collected();
        state.ending.until_paragraph()
    }

    /// Adds a piece of thinking, which is no part of the answer.
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

    /// A piece was collected: the first one starts the timer, and the first one after the time is over sends all of
    /// them. A flood of pieces may keep the timer of `keep_up` from its turn.
    fn collected(&self, state: &mut FeedState, is_first: bool) {
        if is_first {
            state.collecting_since = Instant::now();
            self.unsent.notify_one();
        } else if state.collecting_since.elapsed() >= limits::milliseconds(TOKEN_COALESCE_MS) {
            state.take_in_collected();
            self.tell(state);
        }
    }

    /// Refuses changes from now on and waits for those that are being put in place. Blocks, for a bounded time.
    pub fn seal(&self) {
        let deadline = Instant::now() + limits::milliseconds(limits::OPEN_CHANGE_MS_MAX);
        self.lock().sealed = true;
        while !self.lock().is_settled() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes what was begun and will never end: each call and each question has its answer in every journal.
    pub fn close_open(&self, verdict: &str, result: &str) {
        let UnderWay { calls, questions, .. } = self.summary().under_way;
        for call in calls {
            let duration = api::now().signed_duration_since(call.started).num_milliseconds();
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

    /// Ends the session: durable first, then published. Returns whether it is durable; its line waits for the disk in
    /// any case. Blocks.
    pub fn end(&self, end: End, at: Timestamp) -> io::Result<()> {
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
        let durable = self.sync();
        self.latest.send_replace(published);
        self.unwritten.notify_one();
        durable
    }

    /// Does what must happen after a while: sends collected text, writes waiting lines. Never returns; the session's
    /// owner drops it at the end.
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
                let written = tokio::task::spawn_blocking(move || recorder.flush()).await;
                // A disk that is full now may have room later, even if no more entries come until then; the end of the
                // session reports a failure.
                if matches!(written, Ok(Err(_))) {
                    tokio::time::sleep(Duration::from_millis(limits::JOURNAL_RETRY_MS)).await;
                    self.unwritten.notify_one();
                }
            }
        };
        tokio::join!(sending, writing);
    }

    /// Writes what waits. Blocks.
    pub fn flush(&self) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The unwritten rest goes before what came meanwhile; half a line in the file is completed by the next write.
    fn put_back(&self, rest: &[u8], error: io::Error) -> io::Error {
        let mut state = self.lock();
        let newer = std::mem::replace(&mut state.backlog, rest.to_vec());
        state.backlog.extend(newer);
        error
    }

    /// Writes what waits, and returns once the disk has it. Blocks.
    pub fn sync(&self) -> io::Result<()> {
        self.flush()?;
        self.file.lock().unwrap_or_else(PoisonError::into_inner).sync_data()
    }

    fn is_streamed(&self) -> bool {
        !matches!(self.lock().summary.start.work, Work::Undo(_))
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // A panic while it was held left whole entries behind: every change of the state is one push or one number.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &FeedState) {
        self.latest.send_replace(state.next_seq - 1);
        if !state.backlog.is_empty() {
            self.unwritten.notify_one();
        }
    }

    /// From where a reader goes on that says to have seen `after`. It may have seen numbers that no journal holds any
    /// more, or name one that never was: it still gets later events, and the end in any case.
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
    fn tail_after(&self, after: u64) -> Tail {
        let published = *self.latest.borrow();
        let state = self.lock();
        if after < state.evicted {
            return Tail::Behind(state.evicted);
        }
        // Numbers rise: a reader that keeps up is not made to look through all that it has seen.
        let first = state.tail.partition_point(|((seq, _), _)| *seq <= after);
        let end = state.tail.partition_point(|((seq, _), _)| *seq <= published);
        let fresh = state.tail.range(first..end.max(first));
        let fresh: Vec<Numbered> = fresh.map(|(numbered, _)| numbered.clone()).collect();
        match fresh.is_empty() {
            // The reader has seen the last event.
            true if state.end.is_some_and(|end| after >= end) => Tail::Over,
            true => Tail::Nothing,
            false => Tail::Events(fresh),
        }
    }
}

impl FeedState {
    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// True where nothing is being put in place.
    fn is_settled(&self) -> bool {
        self.entered == 0 && self.summary.is_settled()
    }

    /// An error once nothing may be put in place any more.
    fn check_open(&self) -> io::Result<()> {
        if self.sealed || self.has_ended() {
            Err(io::Error::other("the session has ended"))
        } else {
            Ok(())
        }
    }

    /// Text and thinking that were being collected become entries. At most one of them is there.
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
        self.append_at(entry, api::now())
    }

    /// False where the journal will not have the entry.
    fn append_at(&mut self, entry: JournalEntry, at: Timestamp) -> bool {
        let was_full = self.is_full();
        let entry = if was_full { entry.in_short() } else { Some(entry) };
        let Some(entry) = entry else { return false };
        let is_end = matches!(entry, JournalEntry::Ended(_));
        let taken = self.append_whole(entry, at);
        // Nothing comes after the end.
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

    /// True once the journal takes no more words, only what happens.
    fn is_full(&self) -> bool {
        self.journal_bytes > JOURNAL_BYTES_MAX
    }

    fn append_whole(&mut self, entry: JournalEntry, at: Timestamp) -> bool {
        let line = JournalLine {
            seq: self.next_seq,
            at,
            entry,
        };
        let bytes = journal::encode(&line);
        let has_room = self.backlog.len() + bytes.len() <= JOURNAL_BACKLOG_BYTES_MAX;
        if !has_room && matches!(line.entry, JournalEntry::Prepared(_)) {
            // Refuses the change: its line may be large, and without the line no file changes.
            return false;
        }
        // Few and short, and without them the next start would take back what stands, or call a session dead that ended.
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

    fn keep(&mut self, numbered: Numbered, bytes: usize) {
        self.tail.push_back((numbered, bytes));
        self.tail_bytes += bytes;
        self.trim_tail();
    }

    /// Lets go of what readers find in the file. What could not be written yet is kept for them, as far as it is
    /// bearable.
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

/// The event of a change, with as much of its diff as an event may hold. Of the contents, which the journal keeps apart, it
/// has the digests; [`texts`] adds the texts to what a stream sends.
fn change_event(change: &PreparedChange, stored: &JournalChange, proposed: bool) -> Event {
    let diffs: Vec<FileDiff> = change.files.iter().map(FileDiff::new).collect();
    let whole: String = diffs.iter().map(|diff| diff.text.as_str()).collect();
    let shown = first_lines(&whole, CHANGE_DIFF_BYTES_MAX);
    Event::Change {
        truncated: shown.len() < whole.len(),
        diff: redaction::mask(shown).into_owned(),
        files: diffs.into_iter().map(ChangedFile::from).collect(),
        proposed,
        call_id: change.call_id.clone(),
        texts: stored.files.iter().map(texts::digests).collect(),
    }
}

impl ChangeJournal for Recorder {
    fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
        // An undo restores contents that were stored before; the limit must not block it.
        if !matches!(self.lock().summary.start.work, Work::Undo(_)) {
            self.folder.check_room(change)?;
        }
        let stored = self.folder.store(change)?;
        // An undo has no stream, and a rollback shows nothing.
        let proposed = self.lock().summary.start.preview;
        let event = self.is_streamed().then(|| change_event(change, &stored, proposed));
        crash_point();
        // Pending lines may take the room; if they cannot be written, `sync` below returns the error.
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
            // It may lie in the journal all the same, and nothing of it happens.
            self.record(JournalEntry::Abandoned { id: change.id.clone() });
            return Err(error);
        }
        crash_point();
        Ok(())
    }

    fn committed(&self, id: &str) -> io::Result<()> {
        crash_point();
        // After the end this line could not be recorded, and the next start would take the change back unnoticed.
        if !self.take(JournalEntry::Committed { id: id.to_owned() }) {
            return Err(io::Error::other("the session has ended"));
        }
        // The files' names are on the disk. Were this line lost with the power, the next start would take them back.
        self.sync().inspect_err(|_| {
            // Until it is rolled back, which may be the next start's business.
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

    fn publishing(&self, publication: &Publishing) -> io::Result<()> {
        {
            let mut state = self.lock();
            state.check_open()?;
            state.take_in_collected();
            state.append(JournalEntry::Publishing(publication.clone()));
            self.tell(&state);
        }
        let durable = self.sync();
        if durable.is_err() {
            self.published(&publication.id);
        }
        durable
    }

    fn published(&self, id: &str) {
        self.record(JournalEntry::Published { id: id.to_owned() });
        // Without this line, the next start finds that nothing is left to do.
        let _ = self.flush();
    }
}

impl Recorder {
    /// Puts another file in the journal's place, for tests of disks that fail. Returns the one before.
    #[doc(hidden)]
    pub fn replace_file(&self, file: File) -> File {
        std::mem::replace(&mut *self.file.lock().unwrap_or_else(PoisonError::into_inner), file)
    }

    /// Stops recording and publishing at once, as the death of the process does: for tests of followers.
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
    /// Replaces the journal's file by a pipe, which accepts every write and cannot be synced to a disk. The caller has to
    /// keep the reading end.
    fn leave_disk(&self) -> io::PipeReader {
        let (reader, writer) = io::pipe().expect("a pipe");
        *self.file.lock().expect("no panic") = File::from(std::os::fd::OwnedFd::from(writer));
        reader
    }
}

#[cfg(test)]
mod tests;
