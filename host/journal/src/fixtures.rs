//! The beginning of a session, for tests of this crate and of those that read its journals.

use chrono::{TimeZone, Utc};

use tool_core::api::{PolicyRequest, Timestamp};
use tool_journal::journal::{Start, TurnBinding, Work};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Utc.with_ymd_and_hms(2025, 3, 1, 12, 0, 0)
        .single()
        .expect("a real time")
        + chrono::Duration::seconds(seconds)
}

pub(crate) fn start(id: &str, work: Work) -> Start {
    Start {
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
