//! The present, as everything that is written down knows it. Deadlines and waits never ask here: they use the monotonic
//! clock, which no program can set.

use std::path::PathBuf;
use std::sync::OnceLock;

use chrono::{SubsecRound, TimeDelta, Utc};

use super::Timestamp;

/// A file that holds by how many milliseconds the clock is wrong: for tests, which cannot set the machine's.
static WRONG_BY: OnceLock<PathBuf> = OnceLock::new();

/// The present, in whole milliseconds: what a journal writes and reads back is the same value.
pub fn now() -> Timestamp {
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

/// From now on the clock is wrong by what this file says whenever it is asked. Builds without debug assertions do not
/// care.
pub fn make_wrong(file: PathBuf) {
    // The first one counts; a process has one clock.
    let _ = WRONG_BY.set(file);
}
