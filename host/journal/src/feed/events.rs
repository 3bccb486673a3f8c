//! Readers of one session. A reader pulls the next events from the recorder's memory, or from the file if it has
//! fallen behind or the session has ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use tokio::sync::watch;

use super::{NumberedEvent, Recorder};
use crate::journal::{self, JournalEntry, JournalLine, SessionFolder};
use tool_core::api::Event;

/// Journal bytes that a stream reads at once. Bounds what a reader holds that has fallen behind.
pub(crate) const REPLAY_BYTES_MAX: usize = 256 * 1024;

/// Result of a read from a recorder's memory.
pub(super) enum TailRead {
    Events(Vec<NumberedEvent>),
    Behind(u64),
    Nothing,
    /// The session has ended, and the reader has all events.
    Over,
}

/// A reader of one session's events that starts after any number.
pub struct EventReader {
    live: Option<(Arc<Recorder>, watch::Receiver<u64>)>,
    folder: SessionFolder,
    session_id: String,
    after: u64,
    offset: u64,
    ended: bool,
}

impl EventReader {
    /// Follows a running session, from the event after number `after`.
    pub fn follow(recorder: Arc<Recorder>, session_id: &str, after: u64) -> Self {
        let latest = recorder.latest.subscribe();
        let folder = recorder.folder.clone();
        let mut events = Self::replay(folder, session_id, recorder.known(after));
        events.live = Some((recorder, latest));
        events
    }

    /// Replays a session that has ended, from the event after number `after`.
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

    /// Folder of the session.
    pub fn folder(&self) -> &SessionFolder {
        &self.folder
    }

    /// Returns the next events, at least one; `None` after the terminal event. Cancel safe: no event is lost if the
    /// future is dropped.
    pub async fn next(&mut self) -> Option<Vec<NumberedEvent>> {
        loop {
            if self.ended {
                return None;
            }
            let batch = match self.tail() {
                Some(TailRead::Events(batch)) => batch,
                Some(TailRead::Nothing) => {
                    let (_, latest) = self.live.as_mut()?;
                    latest.changed().await.ok()?;
                    continue;
                }
                Some(TailRead::Over) => {
                    self.ended = true;
                    continue;
                }
                Some(TailRead::Behind(evicted)) => self.replayed(Some(evicted)).await,
                None => self.replayed(None).await,
            };
            let Some((seq, event)) = batch.last() else {
                continue;
            };
            self.after = *seq;
            self.ended |= event.is_terminal();
            let batch = self.without_answered(batch);
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Removes questions that are closed: a client would ask its user again.
    fn without_answered(&self, mut batch: Vec<NumberedEvent>) -> Vec<NumberedEvent> {
        let is_question = |numbered: &NumberedEvent| matches!(&*numbered.1, Event::Approval { .. });
        if batch.iter().any(is_question) {
            let open = self.live.as_ref().map(|(recorder, _)| recorder.open_questions());
            let open = open.unwrap_or_default();
            batch.retain(|(_, event)| !matches!(&**event, Event::Approval { id, .. } if !open.contains(id)));
        }
        batch
    }

    fn tail(&mut self) -> Option<TailRead> {
        let (recorder, latest) = self.live.as_mut()?;
        // Mark before reading the tail: an event that arrives after the read must wake `changed`.
        latest.mark_unchanged();
        Some(recorder.tail_after(self.after))
    }

    /// Reads the next events from the file. `evicted` is the last number that only the file holds; if the file has no
    /// more events, the reader continues after it. If the file cannot be read now, the reader stops where it is: a
    /// client that comes back with the number of its last event misses nothing.
    async fn replayed(&mut self, evicted: Option<u64>) -> Vec<NumberedEvent> {
        let recorder = self.live.as_ref().map(|(recorder, _)| Arc::clone(recorder));
        let (path, offset) = (self.folder.journal(), self.offset);
        let read = move || {
            if let Some(recorder) = recorder {
                // Lines that cannot be written now cannot be replayed either; the reader takes them from memory.
                let _ = recorder.flush();
            }
            read_lines(&path, offset)
        };
        let bytes = match tokio::task::spawn_blocking(read)
            .await
            .map_err(io::Error::other)
            .flatten()
        {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(session = self.session_id, %error, "a journal cannot be read on");
                self.ended = true;
                return Vec::new();
            }
        };
        if bytes.is_empty() {
            match evicted {
                Some(evicted) => self.after = self.after.max(evicted),
                None => self.ended = true,
            }
            return Vec::new();
        }
        self.offset += bytes.len() as u64;
        let mut lines = journal::parse(&bytes).lines;
        // Lines after the end come from a later start and are not part of the stream.
        if let Some(end) = lines
            .iter()
            .position(|line| matches!(line.entry, JournalEntry::Ended(_)))
        {
            lines.truncate(end + 1);
        }
        // A reader whose number is beyond the end still gets the end event.
        let is_end = |line: &JournalLine| matches!(line.entry, JournalEntry::Ended(_)) && self.after != line.seq;
        lines
            .into_iter()
            .filter(|line| line.seq > self.after || is_end(line))
            .filter_map(|line| Some((line.seq, Arc::new(line.entry.event(&self.session_id)?))))
            .collect()
    }
}

/// Reads some whole lines of a file from `offset` on: at least one if there is one.
pub(super) fn read_lines(path: &std::path::Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    loop {
        let count = Read::by_ref(&mut file)
            .take(REPLAY_BYTES_MAX as u64)
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
