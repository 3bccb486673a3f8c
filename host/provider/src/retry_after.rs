//! Reads the wait that a server asks for before the next attempt: in seconds, milliseconds or as a date.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::limits::PROVIDER_RETRY_SECONDS_MAX;

/// Reads `Retry-After` (seconds, a float, milliseconds, a date) and `Retry-After-Ms`.
pub(super) fn retry_after(header: Option<&str>, header_ms: Option<&str>, now: DateTime<Utc>) -> Option<Duration> {
    if let Some(milliseconds) = header_ms.and_then(|text| text.trim().parse::<f64>().ok()) {
        return Some(bound_wait(milliseconds / 1000.0));
    }
    let text = header?.trim();
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return Some(bound_wait(milliseconds.trim().parse::<f64>().ok()? / 1000.0));
    }
    let seconds = text.strip_suffix('s').unwrap_or(text);
    if let Ok(seconds) = seconds.parse::<f64>() {
        return Some(bound_wait(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(bound_wait((date.with_timezone(&Utc) - now).as_seconds_f64()))
}

/// Bounds a wait, whatever the server says.
pub(super) fn bound_wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 { WAIT_MAX } else { Duration::ZERO })
        .min(WAIT_MAX)
}

/// Longest wait that a message names: a year.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Longest wait after which the engine tries again by itself.
pub(super) fn longest_wait() -> Duration {
    Duration::from_secs(PROVIDER_RETRY_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<Duration> {
        let now = DateTime::parse_from_rfc2822("Fri, 20 Nov 2026 08:00:00 GMT").expect("the date is valid");
        retry_after(Some(text), None, now.with_timezone(&Utc))
    }

    #[test]
    fn retry_24_every_form_of_retry_after_is_read_and_bounded() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(at("20"), Some(seconds(20.0)));
        assert_eq!(at("1.5"), Some(seconds(1.5)));
        assert_eq!(at("250ms"), Some(seconds(0.25)));
        assert_eq!(at("7s"), Some(seconds(7.0)));
        assert_eq!(at("Fri, 20 Nov 2026 08:00:30 GMT"), Some(seconds(30.0)));
        assert_eq!(at("Fri, 20 Nov 2026 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(at("86400"), Some(seconds(86_400.0)));
        assert_eq!(at("1e300"), Some(WAIT_MAX));
        assert_eq!(at("-4"), Some(Duration::ZERO));
        assert_eq!(at("NaN"), Some(Duration::ZERO));
        assert_eq!(at("soon"), None);
        let now = Utc::now();
        assert_eq!(retry_after(Some("9"), Some("1500"), now), Some(seconds(1.5)));
        assert_eq!(retry_after(None, None, now), None);
    }
}
