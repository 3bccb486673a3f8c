//! The beginning of a session, for tests of this crate and of those that read its journals.

use std::fs::{File, OpenOptions};
use std::sync::Arc;

use chrono::{TimeZone, Utc};

use tool_core::api::{PolicyRequest, Timestamp};
use tool_journal::feed::Recorder;
use tool_journal::journal::{SessionWork, StartRecord, TurnBinding};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Utc.with_ymd_and_hms(2025, 3, 1, 12, 0, 0)
        .single()
        .expect("a real time")
        + chrono::Duration::seconds(seconds)
}

pub(crate) fn start(id: &str, work: SessionWork) -> StartRecord {
    StartRecord {
        session_id: id.into(),
        work,
        target: "src".into(),
        focus: None,
        repository: "/r".into(),
        working_directory: "/r".into(),
        provider: "local".into(),
        model: "some-model".into(),
        policy: PolicyRequest::default(),
        continues: None,
        binding: TurnBinding::default(),
        interactive: false,
        ask: Vec::new(),
        preview: false,
        version: "0.1.0".into(),
    }
}

/// Makes the disk of a journal full, until the value is dropped.
pub(crate) fn fill_disk(recorder: &Arc<Recorder>) -> impl Drop + use<> {
    struct FullDisk(Arc<Recorder>, Option<File>);
    impl Drop for FullDisk {
        fn drop(&mut self) {
            self.1.take().map(|file| self.0.replace_file(file));
        }
    }
    let full = OpenOptions::new().append(true).open("/dev/full");
    let real = recorder.replace_file(full.expect("it is there"));
    FullDisk(Arc::clone(recorder), Some(real))
}
