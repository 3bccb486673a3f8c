//! Against which time the age of a session counts: not against the clock alone, which may be wrong for a minute, and in
//! that minute all sessions would be old.
//!
//! A reading of the clock is written down once a day. Ages count from the newest one that is at least a day older than the
//! present: whatever the clock says, nothing is old by it until it has said so on two days of its own. Which sessions
//! are too old then is `store`'s business.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::api::Timestamp;
use crate::limits;

/// File name in the home.
const FILE: &str = "days.json";

/// See the module.
pub(super) struct Days {
    folder: PathBuf,
    readings: Mutex<Vec<Timestamp>>,
}

impl Days {
    /// The readings of the home `folder`; none where they are missing or no such. Blocks.
    pub(super) fn open(folder: &Path) -> Self {
        let text = fs::read(folder.join(FILE)).unwrap_or_default();
        Self {
            folder: folder.to_owned(),
            readings: Mutex::new(serde_json::from_slice(&text).unwrap_or_default()),
        }
    }

    /// The time that ages count against, and a note of the present. Absent where nothing is known to be old. Blocks.
    pub(super) fn confirmed(&self, now: Timestamp) -> Option<Timestamp> {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = readings.clone();
        let confirmed = confirm(&mut readings, now);
        if *readings != before
            && let Err(error) = self.write(&readings)
        {
            // Then the next start knows less, and keeps more.
            tracing::warn!(%error, "the reading of the clock could not be written");
        }
        confirmed
    }

    fn write(&self, readings: &[Timestamp]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&serde_json::to_vec(readings)?)?;
        file.persist(self.folder.join(FILE))?;
        Ok(())
    }
}

/// The newest of the readings that is at least a day old. Those that lie in the future were of a wrong clock.
fn confirm(readings: &mut Vec<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let is_past = |reading: &Timestamp| now - *reading >= chrono::Duration::days(1);
    readings.retain(|reading| *reading <= now);
    readings.sort_unstable();
    let confirmed = readings.iter().rfind(|reading| is_past(reading)).copied();
    if readings.last().is_none_or(is_past) {
        readings.push(now);
    }
    let surplus = readings.len().saturating_sub(limits::DAYS_NOTED_MAX);
    readings.drain(..surplus);
    confirmed
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::at;
    use super::*;

    fn day(number: i64) -> Timestamp {
        at(number * 86_400)
    }

    #[test]
    fn ages_count_from_yesterday() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let seen = |now| Days::open(place.path()).confirmed(now);
        assert_eq!(seen(day(0)), None, "the first day");
        assert_eq!(seen(day(0) + chrono::Duration::hours(23)), None);
        assert_eq!(seen(day(1)), Some(day(0)));
        assert_eq!(seen(day(1) + chrono::Duration::hours(1)), Some(day(0)));
        assert_eq!(seen(day(20)), Some(day(1)), "it was not started for long");
        assert_eq!(seen(day(21)), Some(day(20)));
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_while_makes_nothing_old() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let days = || Days::open(place.path());
        assert_eq!(days().confirmed(day(0)), None);
        for minutes in 0..5 {
            let wrong = day(400) + chrono::Duration::minutes(minutes);
            assert_eq!(
                days().confirmed(wrong),
                Some(day(0)),
                "also at the fifth start of these minutes"
            );
        }
        assert_eq!(days().confirmed(day(0) + chrono::Duration::hours(1)), None);
        assert_eq!(days().confirmed(day(1)), Some(day(0)), "what was wrong is forgotten");
        assert_eq!(days().confirmed(day(-9_000)), None);
        assert_eq!(
            days().confirmed(day(2)),
            Some(day(-9_000)),
            "and so is a clock that was set back, in time"
        );
        assert_eq!(days().confirmed(day(3)), Some(day(2)));
    }

    #[test]
    fn of_many_days_a_few_are_noted_and_a_damaged_note_is_none() {
        let mut readings = Vec::new();
        for number in 0..100 {
            confirm(&mut readings, day(number));
        }
        assert_eq!(readings.len(), limits::DAYS_NOTED_MAX);
        assert_eq!(readings.last(), Some(&day(99)));
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::write(place.path().join(FILE), "[\"tomorrow\"").expect("the folder is writable");
        assert_eq!(Days::open(place.path()).confirmed(day(0)), None);
    }
}
