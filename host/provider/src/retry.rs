//! When a request is tried again, and after how long: pure functions of what failed, how often, and when.
//!
//! The transport asks only before the first output of an answer, so that no text comes twice and no tool runs twice.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::failure::Failure;
use crate::limits::{PROVIDER_ATTEMPTS_MAX, PROVIDER_RETRY_SECONDS_MAX};

/// Wait before the next attempt; none where there is none. `attempt` counts from 1 and has just failed; `jitter` lies
/// in 0 to 1.
pub(super) fn delay(failure: &Failure, attempt: u32, base: Duration, jitter: f64) -> Option<Duration> {
    if attempt >= PROVIDER_ATTEMPTS_MAX || !failure.is_retryable() {
        return None;
    }
    let backoff = base * 2_u32.pow(attempt - 1);
    // Between half and the whole: clients that failed together must not come back together.
    let backoff = backoff.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    Some(failure.retry_after.unwrap_or(backoff).min(longest()))
}

/// Reads `Retry-After` (seconds, a float, milliseconds, a date) and `Retry-After-Ms`.
pub(super) fn retry_after(header: Option<&str>, header_ms: Option<&str>, now: DateTime<Utc>) -> Option<Duration> {
    if let Some(milliseconds) = header_ms.and_then(|text| text.trim().parse::<f64>().ok()) {
        return Some(clamped(milliseconds / 1000.0));
    }
    let text = header?.trim();
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return Some(clamped(milliseconds.trim().parse::<f64>().ok()? / 1000.0));
    }
    let seconds = text.strip_suffix('s').unwrap_or(text);
    if let Ok(seconds) = seconds.parse::<f64>() {
        return Some(clamped(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(clamped((date.with_timezone(&Utc) - now).as_seconds_f64()))
}

/// A wait within bounds, whatever the server says.
pub(super) fn clamped(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 { longest() } else { Duration::ZERO })
        .min(longest())
}

fn longest() -> Duration {
    Duration::from_secs(PROVIDER_RETRY_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::failure::Class;
    use super::*;

    const BASE: Duration = Duration::from_millis(800);

    fn at(text: &str) -> Option<Duration> {
        let now = DateTime::parse_from_rfc2822("Fri, 20 Nov 2026 08:00:00 GMT").expect("the date is valid");
        retry_after(Some(text), None, now.with_timezone(&Utc))
    }

    #[test]
    fn retry_24_every_form_of_retry_after_is_read_and_clamped() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(at("20"), Some(seconds(20.0)));
        assert_eq!(at("1.5"), Some(seconds(1.5)));
        assert_eq!(at("250ms"), Some(seconds(0.25)));
        assert_eq!(at("7s"), Some(seconds(7.0)));
        assert_eq!(at("Fri, 20 Nov 2026 08:00:30 GMT"), Some(seconds(30.0)));
        assert_eq!(at("Fri, 20 Nov 2026 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(at("86400"), Some(seconds(60.0)));
        assert_eq!(at("1e300"), Some(seconds(60.0)));
        assert_eq!(at("-4"), Some(Duration::ZERO));
        assert_eq!(at("NaN"), Some(Duration::ZERO));
        assert_eq!(at("soon"), None);
        let now = Utc::now();
        assert_eq!(retry_after(Some("9"), Some("1500"), now), Some(seconds(1.5)));
        assert_eq!(retry_after(None, None, now), None);
    }

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
            let failure = Failure::from_answer(status, r#"{"error":{"message":"no"}}"#, None);
            assert_eq!(delay(&failure, 1, BASE, 0.0).is_some(), expected, "{status}");
        }
        for (class, expected) in [
            (Class::Broken, true),
            (Class::Unreachable, true),
            (Class::Refused, false),
            (Class::Timeout, false),
            (Class::Protocol, false),
            (Class::Empty, false),
        ] {
            assert_eq!(Failure::new(class, "").is_retryable(), expected, "{class:?}");
        }
    }

    #[test]
    fn retry_24_waits_grow_with_jitter_and_end() {
        let failure = Failure::from_answer(503, "", None);
        let milliseconds = |attempt, jitter| delay(&failure, attempt, BASE, jitter).map(|wait| wait.as_millis());
        assert_eq!(milliseconds(1, 0.0), Some(400));
        assert_eq!(milliseconds(1, 1.0), Some(800));
        assert_eq!(milliseconds(3, 1.0), Some(3200));
        assert_eq!(milliseconds(PROVIDER_ATTEMPTS_MAX, 1.0), None);
    }

    #[test]
    fn retry_24_the_servers_own_wait_wins() {
        let failure = Failure::from_answer(429, "", Some(Duration::from_secs(3)));
        assert_eq!(delay(&failure, 1, BASE, 0.0), Some(Duration::from_secs(3)));
    }
}
