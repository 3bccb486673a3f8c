//! One session's journal while the session runs: who writes to it, and who follows it.
//!
//! A [`Recorder`] gives every entry its sequence number, keeps the newest events in memory for streams, and holds
//! encoded lines until a group commit writes them. An [`Events`] reader pulls: it takes what it has not seen from that
//! tail, or from the file where it has fallen behind, so a slow reader costs no memory and no reader slows a session.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::history::{Summary, UnderWay, output_of};
use super::journal::{self, Answer, End, Entry, Line, SessionFolder, Start, ToolEntry, cut_text};
use crate::api::{self, Event, Problem, Timestamp};
use crate::limits;
use crate::skill::changes::moment;
use crate::skill::{ChangeJournal, PreparedChange};

/// An event with its sequence number.
pub type Numbered = (u64, Arc<Event>);

/// The writing end of a session's journal. All methods may be called from any thread; only those that say so block.
pub struct Recorder {
    folder: SessionFolder,
    // Taken before `state` where both are needed, so that lines reach the file in order.
    file: Mutex<File>,
    state: Mutex<State>,
    latest: watch::Sender<u64>,
    unwritten: Notify,
    unsent: Notify,
}

struct State {
    summary: Summary,
    next_seq: u64,
    output: String,
    text: String,
    reasoning: String,
    backlog: Vec<u8>,
    tail: VecDeque<(Numbered, usize)>,
    tail_bytes: usize,
    /// Events up to this number are in the file only.
    evicted: u64,
    /// Lines up to this number are in the file.
    written: u64,
    /// No further change may be prepared.
    sealed: bool,
    closed: bool,
}

impl Recorder {
    /// Begins the journal of a new session. Blocks.
    pub fn create(folder: SessionFolder, start: Start) -> io::Result<Arc<Self>> {
        let file = folder.create()?;
        let recorder = Self::new(folder, file, Summary::begin(start.clone(), api::now()), 1);
        recorder.record(Entry::Started(start));
        recorder.flush()?;
        Ok(Arc::new(recorder))
    }

    /// Goes on with the journal of a session that never ended, after its last whole line. Blocks.
    ///
    /// Numbers go on behind all that any reader may have seen and the file does not hold: who comes back with such a
    /// number is told the end all the same.
    pub fn resume(folder: SessionFolder, summary: Summary, parsed: &journal::Parsed) -> io::Result<Arc<Self>> {
        let file = folder.reopen(parsed.whole_bytes)?;
        let last = parsed.lines.last().map_or(0, |line| line.seq);
        let recorder = Self::new(folder, file, summary, last + limits::JOURNAL_LOST_LINES_MAX);
        {
            let mut state = recorder.lock();
            (state.evicted, state.written) = (last, last);
        }
        Ok(Arc::new(recorder))
    }

    fn new(folder: SessionFolder, file: File, summary: Summary, next_seq: u64) -> Self {
        Self {
            folder,
            file: Mutex::new(file),
            state: Mutex::new(State {
                summary,
                next_seq,
                output: String::new(),
                text: String::new(),
                reasoning: String::new(),
                backlog: Vec::new(),
                tail: VecDeque::new(),
                tail_bytes: 0,
                evicted: 0,
                written: 0,
                sealed: false,
                closed: false,
            }),
            latest: watch::Sender::new(0),
            unwritten: Notify::new(),
            unsent: Notify::new(),
        }
    }

    /// Where the session is kept.
    pub fn folder(&self) -> &SessionFolder {
        &self.folder
    }

    /// The session as it stands.
    pub fn summary(&self) -> Summary {
        self.lock().summary.clone()
    }

    /// The answer so far.
    pub fn output(&self) -> String {
        let state = self.lock();
        format!("{}{}", state.output, state.text)
    }

    /// Adds an entry. Ignored after the end.
    pub fn record(&self, entry: Entry) {
        self.take(entry);
    }

    /// Adds an entry; false after the end.
    fn take(&self, entry: Entry) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.take_in_collected();
        state.append(entry);
        self.tell(&state);
        true
    }

    /// Adds an event.
    pub fn event(&self, event: Event) {
        self.record(Entry::Event { event });
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
            code: Some(problem.code),
            message: problem.message,
            hint: problem.hint,
        });
    }

    /// Adds a piece of model output; pieces that come close together become one event.
    pub fn text(&self, piece: &str) {
        let mut state = self.lock();
        if state.closed || piece.is_empty() {
            return;
        }
        if !state.reasoning.is_empty() {
            state.take_in_collected();
        }
        state.text.push_str(piece);
        self.unsent.notify_one();
    }

    /// Adds a piece of thinking, which streams do not show.
    pub fn reasoning(&self, piece: &str) {
        let mut state = self.lock();
        if state.closed || piece.is_empty() {
            return;
        }
        if !state.text.is_empty() {
            state.take_in_collected();
        }
        state.reasoning.push_str(piece);
        self.unsent.notify_one();
    }

    /// Refuses changes from now on and waits for those that are being put in place. Blocks, for a bounded time.
    pub fn seal(&self) {
        let deadline = Instant::now() + limits::milliseconds(limits::OPEN_CHANGE_MS_MAX);
        self.lock().sealed = true;
        while !self.lock().summary.open_changes.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes what was begun and will never end: each call and each question has its answer in every journal.
    pub fn close_open(&self, verdict: &str, result: &str) {
        let UnderWay { calls, questions, .. } = self.summary().under_way;
        for call in calls {
            let duration = api::now().signed_duration_since(call.started).num_milliseconds();
            let duration_ms = u64::try_from(duration).unwrap_or(0);
            self.record(Entry::Tool(ToolEntry {
                call_id: format!("event-{}", call.seq),
                name: call.name.clone(),
                arguments: cut_text(&call.arguments.to_string(), limits::JOURNAL_TOOL_BYTES_MAX),
                result: result.to_owned(),
                verdict: verdict.to_owned(),
                started: call.started,
                duration_ms,
                receipt: None,
            }));
            self.event(Event::SkillResult {
                name: call.name,
                verdict: verdict.to_owned(),
                summary: result.to_owned(),
                duration_ms,
            });
        }
        for id in questions {
            let answer = Answer::Cancelled;
            self.record(Entry::Answered { id, answer });
        }
    }

    /// Ends the session: durable first, then told. Returns whether it is durable. Blocks.
    pub fn end(&self, end: End, at: Timestamp) -> io::Result<()> {
        let published = {
            let mut state = self.lock();
            if state.closed {
                return Ok(());
            }
            state.take_in_collected();
            self.tell(&state);
            state.append_at(Entry::Ended(end), at);
            state.closed = true;
            state.next_seq - 1
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
                tokio::time::sleep(Duration::from_millis(limits::TOKEN_COALESCE_MS)).await;
                let mut state = self.lock();
                state.take_in_collected();
                self.tell(&state);
            }
        };
        let writing = async {
            loop {
                self.unwritten.notified().await;
                tokio::time::sleep(Duration::from_millis(limits::JOURNAL_COMMIT_MS)).await;
                let recorder = Arc::clone(self);
                // A disk that is full now may have room at the next commit; the end of the session says so if not.
                let _ = tokio::task::spawn_blocking(move || recorder.flush()).await;
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

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it was held left whole entries behind: every change of the state is one push or one number.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &State) {
        self.latest.send_replace(state.next_seq - 1);
        if !state.backlog.is_empty() {
            self.unwritten.notify_one();
        }
    }

    /// What the tail holds after number `after`.
    fn tail_after(&self, after: u64) -> Tail {
        let published = *self.latest.borrow();
        let state = self.lock();
        if after < state.evicted {
            return Tail::Behind(state.evicted);
        }
        let fresh = state.tail.iter().map(|(numbered, _)| numbered);
        let fresh: Vec<Numbered> = fresh
            .filter(|(seq, _)| *seq > after && *seq <= published)
            .cloned()
            .collect();
        match fresh.is_empty() {
            true => Tail::Nothing,
            false => Tail::Events(fresh),
        }
    }
}

impl State {
    /// Text and thinking that were being collected become entries. At most one of them is there.
    fn take_in_collected(&mut self) {
        if !self.text.is_empty() {
            let content = std::mem::take(&mut self.text);
            self.append(Entry::Event {
                event: Event::Token { content },
            });
        }
        if !self.reasoning.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            self.append(Entry::Reasoning { text });
        }
    }

    fn append(&mut self, entry: Entry) {
        self.append_at(entry, api::now());
    }

    fn append_at(&mut self, entry: Entry, at: Timestamp) {
        let line = Line {
            seq: self.next_seq,
            at,
            entry,
        };
        self.next_seq += 1;
        let bytes = journal::encode(&line);
        self.summary.apply(&line);
        if let Entry::Event { event } = &line.entry {
            self.output.push_str(output_of(event));
        }
        if self.backlog.len() + bytes.len() <= limits::JOURNAL_BACKLOG_BYTES_MAX {
            self.backlog.extend_from_slice(&bytes);
        }
        let event = match line.entry {
            Entry::Event { event } => Some(event),
            entry => entry.event(self.summary.id()),
        };
        if let Some(event) = event {
            self.keep((line.seq, Arc::new(event)), bytes.len());
        }
    }

    fn keep(&mut self, numbered: Numbered, bytes: usize) {
        self.tail.push_back((numbered, bytes));
        self.tail_bytes += bytes;
        self.trim_tail();
    }

    /// Lets go of what readers find in the file. What could not be written yet is kept for them, as far as it is
    /// bearable.
    fn trim_tail(&mut self) {
        while self.tail.len() > 1 && self.tail_bytes > limits::EVENT_TAIL_BYTES_MAX {
            let is_written = self.tail.front().is_some_and(|((seq, _), _)| *seq <= self.written);
            if !is_written && self.tail_bytes <= limits::JOURNAL_BACKLOG_BYTES_MAX {
                return;
            }
            if let Some(((seq, _), bytes)) = self.tail.pop_front() {
                self.tail_bytes -= bytes;
                self.evicted = seq;
            }
        }
    }
}

impl ChangeJournal for Recorder {
    fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
        let stored = self.folder.store(change)?;
        moment();
        {
            let mut state = self.lock();
            if state.sealed || state.closed {
                return Err(io::Error::other("the session has ended"));
            }
            state.take_in_collected();
            state.append(Entry::Prepared(stored));
            self.tell(&state);
        }
        if let Err(error) = self.sync() {
            // It may lie in the journal all the same, and nothing of it happens.
            self.record(Entry::Abandoned { id: change.id.clone() });
            return Err(error);
        }
        moment();
        Ok(())
    }

    fn committed(&self, id: &str) -> io::Result<()> {
        moment();
        // After the end nobody would ever know: the next start would take the change back behind everybody's back.
        if !self.take(Entry::Committed { id: id.to_owned() }) {
            return Err(io::Error::other("the session has ended"));
        }
        self.flush()?;
        moment();
        Ok(())
    }

    fn abandoned(&self, id: &str) -> io::Result<()> {
        self.record(Entry::Abandoned { id: id.to_owned() });
        self.flush()
    }
}

enum Tail {
    Events(Vec<Numbered>),
    Behind(u64),
    Nothing,
}

/// A reader of one session's events, from any number on.
pub struct Events {
    live: Option<(Arc<Recorder>, watch::Receiver<u64>)>,
    folder: SessionFolder,
    session_id: String,
    after: u64,
    offset: u64,
    ended: bool,
}

impl Events {
    /// Follows a running session.
    pub fn follow(recorder: Arc<Recorder>, session_id: &str, after: u64) -> Self {
        let latest = recorder.latest.subscribe();
        let folder = recorder.folder.clone();
        let mut events = Self::replay(folder, session_id, after);
        events.live = Some((recorder, latest));
        events
    }

    /// Replays a session that has ended.
    pub fn replay(folder: SessionFolder, session_id: &str, after: u64) -> Self {
        Self {
            live: None,
            folder,
            session_id: session_id.to_owned(),
            after,
            offset: 0,
            ended: false,
        }
    }

    /// The next events, at least one; absent after the terminal one. May be dropped while it waits: nothing is lost.
    pub async fn next(&mut self) -> Option<Vec<Numbered>> {
        loop {
            if self.ended {
                return None;
            }
            let batch = match self.tail() {
                Some(Tail::Events(batch)) => batch,
                Some(Tail::Nothing) => {
                    let (_, latest) = self.live.as_mut()?;
                    latest.changed().await.ok()?;
                    continue;
                }
                Some(Tail::Behind(evicted)) => self.replayed(Some(evicted)).await,
                None => self.replayed(None).await,
            };
            let Some((seq, event)) = batch.last() else {
                continue;
            };
            self.after = *seq;
            self.ended |= event.is_terminal();
            return Some(batch);
        }
    }

    fn tail(&mut self) -> Option<Tail> {
        let (recorder, latest) = self.live.as_mut()?;
        latest.mark_unchanged();
        Some(recorder.tail_after(self.after))
    }

    /// Events of the next piece of the file. `evicted` is the last number that must come from there; where the file
    /// has no more, the reader goes on behind it.
    async fn replayed(&mut self, evicted: Option<u64>) -> Vec<Numbered> {
        let recorder = self.live.as_ref().map(|(recorder, _)| Arc::clone(recorder));
        let (path, offset) = (self.folder.journal(), self.offset);
        let read = move || {
            if let Some(recorder) = recorder {
                // What cannot be written yet cannot be replayed; the reader goes on with what is in memory.
                let _ = recorder.flush();
            }
            read_lines(&path, offset)
        };
        let piece = tokio::task::spawn_blocking(read).await;
        let bytes = piece.ok().and_then(Result::ok).unwrap_or_default();
        if bytes.is_empty() {
            match evicted {
                Some(evicted) => self.after = self.after.max(evicted),
                None => self.ended = true,
            }
            return Vec::new();
        }
        self.offset += bytes.len() as u64;
        let lines = journal::parse(&bytes).lines.into_iter();
        lines
            .filter(|line| line.seq > self.after)
            .filter_map(|line| Some((line.seq, Arc::new(line.entry.event(&self.session_id)?))))
            .collect()
    }
}

/// Whole lines of a file from `offset` on: some of them, and at least one where there is one.
fn read_lines(path: &std::path::Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    loop {
        let count = Read::by_ref(&mut file)
            .take(limits::REPLAY_BYTES_MAX as u64)
            .read_to_end(&mut bytes)?;
        if let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n') {
            bytes.truncate(end + 1);
            return Ok(bytes);
        }
        if count == 0 {
            return Ok(Vec::new());
        }
    }
}

#[cfg(test)]
impl Recorder {
    /// Makes the disk full, until the value is dropped.
    pub(super) fn fill_disk(self: &Arc<Self>) -> impl Drop + use<> {
        struct Room(Arc<Recorder>, Option<File>);
        impl Drop for Room {
            fn drop(&mut self) {
                if let Some(file) = self.1.take() {
                    *self.0.file.lock().expect("no panic") = file;
                }
            }
        }
        let full = std::fs::OpenOptions::new().append(true).open("/dev/full");
        let mut file = self.file.lock().expect("no panic");
        let real = std::mem::replace(&mut *file, full.expect("it is there"));
        drop(file);
        Room(Arc::clone(self), Some(real))
    }

    /// Makes it deaf and dumb at once, as the death of its process would.
    pub(super) fn die(&self) {
        let mut file = self.file.lock().expect("no panic");
        let nowhere = std::fs::OpenOptions::new().append(true).open("/dev/null");
        *file = nowhere.expect("it is there");
        let mut state = self.lock();
        state.closed = true;
        state.backlog.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::start;
    use super::super::journal::Work;
    use super::*;
    use crate::api::{Operation, Status};
    use crate::skill::{FileChange, FileState};

    fn recorder(place: &tempfile::TempDir) -> Arc<Recorder> {
        let folder = SessionFolder::new(place.path().join("s"));
        Recorder::create(folder, start("s", Work::Operation(Operation::Explain))).expect("it can be made")
    }

    fn complete() -> End {
        End {
            status: Status::Complete,
            problem: None,
            report_path: String::new(),
            usage: None,
        }
    }

    async fn all(mut events: Events) -> Vec<Numbered> {
        let mut seen = Vec::new();
        while let Some(batch) = events.next().await {
            seen.extend(batch);
        }
        seen
    }

    fn texts(events: &[Numbered]) -> String {
        events.iter().map(|(_, event)| output_of(event)).collect()
    }

    #[tokio::test]
    async fn early_late_and_resumed_readers_see_the_same_events() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let early = tokio::spawn(all(Events::follow(Arc::clone(&recorder), "s", 0)));
        let keeper = Arc::clone(&recorder);
        let keeper = tokio::spawn(async move { keeper.keep_up().await });
        for n in 0..50 {
            recorder.text(&format!("{n} "));
            if n % 10 == 0 {
                recorder.notice("ten more", None);
                tokio::time::sleep(Duration::from_millis(8)).await;
            }
        }
        recorder.end(complete(), api::now()).expect("it is durable");
        keeper.abort();
        let early = early.await.expect("it ends");
        let late = all(Events::follow(Arc::clone(&recorder), "s", 0)).await;
        let replayed = all(Events::replay(recorder.folder().clone(), "s", 0)).await;
        let expected: String = (0..50).map(|n| format!("{n} ")).collect();
        assert_eq!(texts(&early), expected);
        assert_eq!(early, late);
        assert_eq!(early, replayed);
        assert_eq!(early.iter().filter(|(_, event)| event.is_terminal()).count(), 1);
        assert!(early.len() < 30, "pieces that come close together are one event");
        let middle = early[early.len() / 2].0;
        let resumed = all(Events::replay(recorder.folder().clone(), "s", middle)).await;
        assert_eq!(resumed, early[early.len() / 2 + 1..]);
        assert_eq!(recorder.output(), expected);
    }

    #[tokio::test]
    async fn a_reader_that_fell_behind_is_served_from_the_file() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let mut reader = Events::follow(Arc::clone(&recorder), "s", 0);
        let piece = "x".repeat(10_000);
        let count = 4 * limits::EVENT_TAIL_BYTES_MAX / piece.len();
        for _ in 0..count {
            recorder.notice(piece.clone(), None);
        }
        recorder.flush().expect("it can be written");
        assert!(recorder.lock().tail.len() < count, "only the file holds all of it");
        let mut seen = reader.next().await.expect("there are events");
        recorder.end(complete(), api::now()).expect("it is durable");
        seen.extend(all(reader).await);
        assert_eq!(seen.len(), count + 1);
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(recorder.lock().tail_bytes <= limits::EVENT_TAIL_BYTES_MAX);
    }

    #[test]
    fn nothing_is_recorded_after_the_end() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        recorder.end(complete(), api::now()).expect("it is durable");
        recorder.notice("late", None);
        recorder.text("late");
        recorder.end(complete(), api::now()).expect("it is durable");
        recorder.flush().expect("it can be written");
        let parsed = recorder.folder().read().expect("it can be read");
        assert_eq!(parsed.lines.len(), 2);
        let change = PreparedChange {
            id: "c".into(),
            root: "/r".into(),
            files: Vec::new(),
            directories: Vec::new(),
        };
        assert!(recorder.prepare(&change).is_err(), "no change after the end");
    }

    #[test]
    fn a_prepared_change_is_on_disk_before_prepare_returns() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let file = FileChange {
            path: "a".into(),
            before: None,
            after: Some(FileState {
                content: b"new".to_vec(),
                mode: 0o644,
            }),
        };
        let change = PreparedChange {
            id: "c".into(),
            root: "/r".into(),
            files: vec![file],
            directories: Vec::new(),
        };
        recorder.prepare(&change).expect("it is durable");
        let lines = recorder.folder().read().expect("it can be read").lines;
        let summary = Summary::of(&lines).expect("it begins as a session");
        assert_eq!(
            recorder.folder().load(&summary.open_changes[0]).expect("it is stored"),
            change
        );
        recorder.committed("c").expect("it can be written");
        assert_eq!(recorder.summary().files_modified(), ["a"]);
    }

    #[tokio::test]
    async fn a_journal_with_a_torn_tail_goes_on_after_its_last_whole_line() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let first = recorder(&place);
        first.notice("before", None);
        first.flush().expect("it can be written");
        let folder = first.folder().clone();
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(folder.journal())
            .expect("it can be opened");
        file.write_all(b"{\"seq\":3,\"at\"").expect("it can be written");
        let parsed = folder.read().expect("it can be read");
        let summary = Summary::of(&parsed.lines).expect("it begins as a session");
        let second = Recorder::resume(folder.clone(), summary, &parsed).expect("it can go on");
        let reader = Events::follow(Arc::clone(&second), "s", 0);
        second.end(complete(), api::now()).expect("it is durable");
        let parsed = folder.read().expect("it can be read");
        assert_eq!(parsed.damaged, 0);
        let last = 2 + limits::JOURNAL_LOST_LINES_MAX;
        let numbers: Vec<u64> = parsed.lines.iter().map(|line| line.seq).collect();
        assert_eq!(numbers, [1, 2, last]);
        assert_eq!(all(reader).await.len(), 2);
        // It saw three events that never got to the disk.
        let resumed = all(Events::replay(folder, "s", 5)).await;
        assert_eq!(resumed.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [last]);
    }

    #[tokio::test]
    async fn while_the_disk_is_full_readers_lose_nothing_and_the_journal_has_it_later() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let room = recorder.fill_disk();
        let piece = "x".repeat(10_000);
        let count = 4 * limits::EVENT_TAIL_BYTES_MAX / piece.len();
        for _ in 0..count {
            recorder.notice(piece.clone(), None);
            recorder.flush().expect_err("the disk is full");
        }
        assert!(recorder.end(complete(), api::now()).is_err(), "it is not durable");
        let seen = all(Events::follow(Arc::clone(&recorder), "s", 0)).await;
        assert_eq!(seen.len(), count + 1);
        assert!(seen.last().is_some_and(|(_, event)| event.is_terminal()));
        drop(room);
        recorder.sync().expect("there is room");
        let replayed = all(Events::replay(recorder.folder().clone(), "s", 0)).await;
        assert_eq!(replayed, seen);
        assert!(recorder.lock().tail_bytes <= limits::EVENT_TAIL_BYTES_MAX);
    }

    #[test]
    fn what_waits_for_a_full_disk_is_bounded() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let _room = recorder.fill_disk();
        let piece = "x".repeat(1_000_000);
        for _ in 0..2 * limits::JOURNAL_BACKLOG_BYTES_MAX / piece.len() {
            recorder.notice(piece.clone(), None);
        }
        let state = recorder.lock();
        assert!(state.backlog.len() <= limits::JOURNAL_BACKLOG_BYTES_MAX);
        assert!(state.tail_bytes <= limits::JOURNAL_BACKLOG_BYTES_MAX);
    }

    fn change(id: &str) -> PreparedChange {
        PreparedChange {
            id: id.into(),
            root: "/r".into(),
            files: Vec::new(),
            directories: Vec::new(),
        }
    }

    #[test]
    fn a_commit_after_the_end_is_refused() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        recorder.prepare(&change("c")).expect("it is durable");
        recorder.end(complete(), api::now()).expect("it is durable");
        assert!(
            recorder.committed("c").is_err(),
            "the next start would take it back in silence"
        );
    }

    #[test]
    fn what_was_begun_is_closed_in_the_journal() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let call = |name: &str| Event::Skill {
            name: name.into(),
            args: serde_json::json!({"path": "a.py"}),
        };
        recorder.event(call("read_file"));
        recorder.event(call("run_tests"));
        recorder.event(Event::SkillResult {
            name: "read_file".into(),
            verdict: "ok".into(),
            summary: String::new(),
            duration_ms: 1,
        });
        recorder.event(Event::Approval {
            id: "a".into(),
            effect: "commit-git".into(),
            title: String::new(),
            detail: String::new(),
            expires: api::now(),
        });
        recorder.close_open("interrupted", "nobody knows");
        recorder.close_open("interrupted", "nobody knows");
        recorder.flush().expect("it can be written");
        let lines = recorder.folder().read().expect("it can be read").lines;
        let closed = lines.iter().skip(5).map(|line| match &line.entry {
            Entry::Tool(tool) => format!("{} {} {} {}", tool.call_id, tool.name, tool.verdict, tool.arguments),
            Entry::Event {
                event: Event::SkillResult { name, verdict, .. },
            } => format!("{name} {verdict}"),
            Entry::Answered { id, answer } => format!("{id} {answer:?}"),
            other => format!("{other:?}"),
        });
        assert_eq!(
            closed.collect::<Vec<_>>(),
            [
                "event-3 run_tests interrupted {\"path\":\"a.py\"}",
                "run_tests interrupted",
                "a Cancelled"
            ]
        );
    }

    #[test]
    fn unwritten_lines_are_bounded_while_the_disk_is_full() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let piece = "x".repeat(1024 * 1024);
        for _ in 0..limits::JOURNAL_BACKLOG_BYTES_MAX / piece.len() + 4 {
            recorder.notice(piece.clone(), None);
        }
        let waiting = recorder.lock().backlog.len();
        assert!(waiting <= limits::JOURNAL_BACKLOG_BYTES_MAX, "{waiting}");
        recorder.end(complete(), api::now()).expect("it is durable");
    }

    #[test]
    fn a_reader_takes_a_bounded_part_of_a_journal_at_once() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let path = place.path().join("journal.jsonl");
        let line = format!("{}\n", "x".repeat(999));
        std::fs::write(&path, line.repeat(1_000)).expect("the folder is writable");
        let first = read_lines(&path, 0).expect("it can be read");
        assert!(
            first.len() <= limits::REPLAY_BYTES_MAX && first.len().is_multiple_of(1_000),
            "{}",
            first.len()
        );
        assert_eq!(read_lines(&path, 999_000).expect("it can be read"), line.as_bytes());
    }

    #[tokio::test]
    async fn waiting_lines_are_written_and_collected_text_is_sent_within_a_moment() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let keeper = Arc::clone(&recorder);
        let keeper = tokio::spawn(async move { keeper.keep_up().await });
        let mut reader = Events::follow(Arc::clone(&recorder), "s", 0);
        recorder.text("soon");
        // Busy machines are slow; the bounds are 5 and 25 ms.
        let patience = Duration::from_millis(40 * (limits::TOKEN_COALESCE_MS + limits::JOURNAL_COMMIT_MS));
        let batch = tokio::time::timeout(patience, reader.next()).await.expect("it is sent");
        assert_eq!(texts(&batch.expect("there is more")), "soon");
        let written = async {
            while recorder.folder().read().expect("it can be read").lines.len() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(patience, written).await.expect("it is written");
        keeper.abort();
    }

    #[test]
    fn a_change_that_never_ends_is_not_waited_for_at_the_end() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(&place);
        let change = PreparedChange {
            id: "c".into(),
            root: "/r".into(),
            files: Vec::new(),
            directories: Vec::new(),
        };
        recorder.prepare(&change).expect("it is durable");
        let _hurried = limits::pace::hurried(20);
        let started = Instant::now();
        recorder.seal();
        assert!(started.elapsed() < Duration::from_millis(limits::OPEN_CHANGE_MS_MAX));
    }
}
