//! Readers of one session: they pull what they have not seen from the recorder's memory, or from the file where they
//! have fallen behind or the session has ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use tokio::sync::watch;

use super::{Numbered, Recorder};
use crate::journal::{self, JournalEntry, JournalLine, SessionFolder};
use crate::limits;
use tool_core::api::Event;

/// Result of a read from a recorder's memory.
pub(super) enum Tail {
    Events(Vec<Numbered>),
    Behind(u64),
    Nothing,
    /// There will be nothing more.
    Over,
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
        let mut events = Self::replay(folder, session_id, recorder.known(after));
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

    /// Folder of the session.
    pub fn folder(&self) -> &SessionFolder {
        &self.folder
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
                Some(Tail::Over) => {
                    self.ended = true;
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
            let batch = self.without_answered(batch);
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Leaves out the questions that are closed: a client that reads them would ask its user again.
    fn without_answered(&self, mut batch: Vec<Numbered>) -> Vec<Numbered> {
        let is_question = |numbered: &Numbered| matches!(&*numbered.1, Event::Approval { .. });
        if batch.iter().any(is_question) {
            let open = self.live.as_ref().map(|(recorder, _)| recorder.open_questions());
            let open = open.unwrap_or_default();
            batch.retain(|(_, event)| !matches!(&**event, Event::Approval { id, .. } if !open.contains(id)));
        }
        batch
    }

    fn tail(&mut self) -> Option<Tail> {
        let (recorder, latest) = self.live.as_mut()?;
        latest.mark_unchanged();
        Some(recorder.tail_after(self.after))
    }

    /// Events of the next piece of the file. `evicted` is the last number that must come from there; where the file
    /// has no more, the reader goes on behind it. Where the file cannot be read now, the reader ends where it is: a
    /// client that comes back with the number of the last event misses nothing.
    async fn replayed(&mut self, evicted: Option<u64>) -> Vec<Numbered> {
        let recorder = self.live.as_ref().map(|(recorder, _)| Arc::clone(recorder));
        let (path, offset) = (self.folder.journal(), self.offset);
        let read = move || {
            if let Some(recorder) = recorder {
                // Lines that cannot be written yet cannot be replayed; the reader goes on with those in memory.
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
        // Lines of a later start, after the end, are no part of the stream.
        if let Some(end) = lines
            .iter()
            .position(|line| matches!(line.entry, JournalEntry::Ended(_)))
        {
            lines.truncate(end + 1);
        }
        // A reader whose number is beyond the end gets the end event.
        let is_end = |line: &JournalLine| matches!(line.entry, JournalEntry::Ended(_)) && self.after != line.seq;
        lines
            .into_iter()
            .filter(|line| line.seq > self.after || is_end(line))
            .filter_map(|line| Some((line.seq, Arc::new(line.entry.event(&self.session_id)?))))
            .collect()
    }
}

/// Whole lines of a file from `offset` on: some of them, and at least one where there is one.
pub(super) fn read_lines(path: &std::path::Path, offset: u64) -> io::Result<Vec<u8>> {
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
