//! When a request is tried again, and after how long: pure functions of what failed, how often, and when.
//!
//! The transport asks only before the first output of an answer, so that no text comes twice and no tool runs twice.

use std::time::Duration;

use super::failure::ProviderFailure;
use super::retry_after::longest_wait;
use crate::limits::PROVIDER_ATTEMPTS_MAX;

/// Wait before the next attempt; `None` if there is none. `attempt` counts from 1 and has just failed; `jitter` is from
/// 0 to 1.
pub(super) fn retry_delay(failure: &ProviderFailure, attempt: u32, base: Duration, jitter: f64) -> Option<Duration> {
    if attempt >= PROVIDER_ATTEMPTS_MAX || !failure.is_retryable() {
        return None;
    }
    let backoff = base * 2_u32.pow(attempt - 1);
    // Random between half and the whole wait, so that clients that failed together do not return together.
    let backoff = backoff.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    let wait = failure.retry_after.unwrap_or(backoff.min(longest_wait()));
    // A longer wait is left to the user.
    (wait <= longest_wait()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::super::failure::FailureClass;
    use super::*;

    const BASE: Duration = Duration::from_millis(800);

    #[test]
    fn retry_24_only_what_may_pass_is_tried_again() {
        for (status, expected) in [
            (400, false),
            (401, false),
            (402, false),
            (403, false),
            (404, false),
            (408, true),
            (413, false),
            (422, false),
            (429, true),
            (500, true),
            (502, true),
            (503, true),
            (529, true),
        ] {
            let failure = ProviderFailure::from_answer(status, r#"{"error":{"message":"no"}}"#, None);
            assert_eq!(retry_delay(&failure, 1, BASE, 0.0).is_some(), expected, "{status}");
        }
        for (class, expected) in [
            (FailureClass::Broken, true),
            (FailureClass::Unreachable, true),
            (FailureClass::Refused, false),
            (FailureClass::Timeout, false),
            (FailureClass::Protocol, false),
            (FailureClass::Empty, false),
            (FailureClass::MalformedCall, true),
            (FailureClass::Forbidden, false),
            (FailureClass::WrongEndpoint, false),
        ] {
            assert_eq!(ProviderFailure::new(class, "").is_retryable(), expected, "{class:?}");
        }
    }

    #[test]
    fn retry_24_waits_grow_with_jitter_and_end() {
        let failure = ProviderFailure::from_answer(503, "", None);
        let milliseconds = |attempt, jitter| retry_delay(&failure, attempt, BASE, jitter).map(|wait| wait.as_millis());
        assert_eq!(milliseconds(1, 0.0), Some(400));
        assert_eq!(milliseconds(1, 1.0), Some(800));
        assert_eq!(milliseconds(3, 1.0), Some(3200));
        assert_eq!(milliseconds(PROVIDER_ATTEMPTS_MAX, 1.0), None);
    }

    #[test]
    fn retry_24_the_servers_own_wait_wins() {
        let failure = ProviderFailure::from_answer(429, "", Some(Duration::from_secs(3)));
        assert_eq!(retry_delay(&failure, 1, BASE, 0.0), Some(Duration::from_secs(3)));
    }

    #[test]
    fn retry_24_a_wait_beyond_our_patience_ends_at_once() {
        let failure = |wait| ProviderFailure::from_answer(429, "", Some(wait));
        assert_eq!(
            retry_delay(&failure(longest_wait()), 1, BASE, 0.0),
            Some(longest_wait())
        );
        assert_eq!(retry_delay(&failure(longest_wait() + BASE), 1, BASE, 0.0), None);
    }
}
