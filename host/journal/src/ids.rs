//! Identifiers of sessions: UUIDs of version 7, sorted by the order in which sessions began.
//!
//! Lists, retention and "the newest change" rely on that order, so it must hold when the clock is set back: a later
//! session never gets an earlier identifier.

use std::sync::atomic::{AtomicU64, Ordering};

use tool_core::api::Timestamp;

/// Times from here on (the year 6429) cannot come from a session of ours, and would leave no room for later
/// identifiers.
const MS_MAX: u64 = 1 << 47;

/// Creates identifiers that rise.
#[derive(Debug)]
pub struct IdSource {
    /// Time in the newest identifier, in milliseconds since 1970.
    last_ms: AtomicU64,
}

impl IdSource {
    /// Creates a source of identifiers that sort after all of `known`.
    pub fn sorting_after<'a>(known: impl Iterator<Item = &'a String>) -> Self {
        let newest = known.filter_map(|id| time_ms(id)).max();
        Self {
            last_ms: AtomicU64::new(newest.unwrap_or(0)),
        }
    }

    /// Creates the next identifier. Its time is the present, or one millisecond after the previous identifier if that
    /// is later.
    pub fn next(&self, now: Timestamp) -> String {
        let now = u64::try_from(now.timestamp_millis()).unwrap_or(0);
        // One atomic update: sessions that start in the same millisecond must still get rising times.
        let later = |last: u64| Some(now.max(last + 1));
        let last = self.last_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let ms = now.max(last.unwrap_or(0) + 1);
        let random = uuid::Uuid::new_v4().into_bytes();
        // The bytes in between hold the version and the variant.
        let mut tail = [0; 10];
        tail[..6].copy_from_slice(&random[..6]);
        tail[6..].copy_from_slice(&random[9..13]);
        uuid::Builder::from_unix_timestamp_millis(ms, &tail)
            .into_uuid()
            .to_string()
    }
}

/// Returns the time in an identifier, in milliseconds since 1970; `None` if the identifier is not ours.
pub(crate) fn time_ms(id: &str) -> Option<u64> {
    let id = uuid::Uuid::try_parse(id).ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let ms = seconds * 1000 + u64::from(nanoseconds / 1_000_000);
    (ms < MS_MAX).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn a_clock_that_is_set_back_changes_no_order() {
        let ids = IdSource::sorting_after([].into_iter());
        let times = [0, 0, 10, 10, -86_400, -86_399, 9, 11];
        let given: Vec<String> = times.iter().map(|&seconds| ids.next(at(seconds))).collect();
        assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{given:?}");
        let restarted = IdSource::sorting_after(given.iter());
        assert!(restarted.next(at(-86_400)) > given[7]);
        assert!(time_ms(&restarted.next(at(100))) == Some(at(100).timestamp_millis().unsigned_abs()));
    }

    #[test]
    fn a_name_from_the_end_of_time_leaves_room() {
        let last = "ffffffff-ffff-7fff-8fff-ffffffffffff".to_owned();
        let ids = IdSource::sorting_after([last, "no identifier".into()].iter());
        assert_eq!(time_ms(&ids.next(at(5))), Some(at(5).timestamp_millis().unsigned_abs()));
    }
}
