//! Identifiers of sessions: UUIDs of version 7 that sort by the order in which sessions began.
//!
//! Lists, retention and "the newest change" all go by that order, so it must hold where the clock does not: one that is
//! set back makes no session older than the one before it.

use std::sync::atomic::{AtomicU64, Ordering};

use tool_core::api::Timestamp;

/// Times from here on (the year 6429) are no times of a session of ours, and would leave no room for later ones.
const MS_MAX: u64 = 1 << 47;

/// Gives out identifiers.
#[derive(Debug)]
pub struct Ids {
    /// The time in the newest identifier, in milliseconds since 1970.
    last_ms: AtomicU64,
}

impl Ids {
    /// Identifiers that sort behind all of these.
    pub fn after<'a>(known: impl Iterator<Item = &'a String>) -> Self {
        let newest = known.filter_map(|id| time_ms(id)).max();
        Self {
            last_ms: AtomicU64::new(newest.unwrap_or(0)),
        }
    }

    /// The next one: its time is the present, or the millisecond after the one before, whichever is later.
    pub fn next(&self, now: Timestamp) -> String {
        let now = u64::try_from(now.timestamp_millis()).unwrap_or(0);
        let later = |last: u64| Some(now.max(last + 1));
        let last = self.last_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let ms = now.max(last.unwrap_or(0) + 1);
        let random = uuid::Uuid::new_v4().into_bytes();
        // The bytes between hold the version and the variant.
        let mut tail = [0; 10];
        tail[..6].copy_from_slice(&random[..6]);
        tail[6..].copy_from_slice(&random[9..13]);
        uuid::Builder::from_unix_timestamp_millis(ms, &tail)
            .into_uuid()
            .to_string()
    }
}

/// The time in an identifier, in milliseconds since 1970; absent where it is none of ours.
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
        let ids = Ids::after([].into_iter());
        let times = [0, 0, 10, 10, -86_400, -86_399, 9, 11];
        let given: Vec<String> = times.iter().map(|&seconds| ids.next(at(seconds))).collect();
        assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{given:?}");
        let restarted = Ids::after(given.iter());
        assert!(restarted.next(at(-86_400)) > given[7]);
        assert!(time_ms(&restarted.next(at(100))) == Some(at(100).timestamp_millis().unsigned_abs()));
    }

    #[test]
    fn a_name_from_the_end_of_time_leaves_room() {
        let last = "ffffffff-ffff-7fff-8fff-ffffffffffff".to_owned();
        let ids = Ids::after([last, "no identifier".into()].iter());
        assert_eq!(time_ms(&ids.next(at(5))), Some(at(5).timestamp_millis().unsigned_abs()));
    }
}
