//! The current time for everything that is stored.
//!
//! Deadlines and waits use the monotonic clock, which programs cannot set.

use std::path::PathBuf;
use std::sync::OnceLock;

use chrono::{SubsecRound, TimeDelta, Utc};

use super::Timestamp;

/// For tests, which cannot set the machine's clock: a file with its deviation in milliseconds.
static WRONG_BY: OnceLock<PathBuf> = OnceLock::new();

/// The current time in whole milliseconds, so that a journal reads back the written value.
pub fn current_time() -> Timestamp {
    let now = Utc::now();
    let wrong = WRONG_BY.get().filter(|_| cfg!(debug_assertions)).and_then(wrong_by);
    wrong
        .and_then(|wrong| now.checked_add_signed(wrong))
        .unwrap_or(now)
        .trunc_subsecs(3)
}

fn wrong_by(file: &PathBuf) -> Option<TimeDelta> {
    let text = std::fs::read_to_string(file).ok()?;
    TimeDelta::try_milliseconds(text.trim().parse().ok()?)
}

/// From now on the clock deviates by the content of this file, which is read each time. Builds without debug assertions
/// ignore it.
pub fn make_wrong(file: PathBuf) {
    // Only the first call has an effect; a process has one clock.
    let _ = WRONG_BY.set(file);
}
