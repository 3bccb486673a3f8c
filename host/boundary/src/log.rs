//! Messages of a guest for the daemon's log and the report of the call: cleaned, bounded, and never shown to the model.

use std::sync::atomic::Ordering;

use crate::budget::CallBudget;
use tool_core::text::{clean_text, truncate_text};

/// Bytes of the longest message.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Logs a message within the limit of the call; counts it as dropped above the limit.
pub(crate) fn record_message(call: &CallBudget, level: &str, message: &str) {
    let message = truncate_text(message.trim_end_matches('\n'), MESSAGE_BYTES_MAX);
    if message.is_empty() {
        return;
    }
    let before = call.logged.fetch_add(message.len() as u64, Ordering::Relaxed);
    if before + message.len() as u64 > call.limits.log_bytes as u64 {
        call.log_dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let (skill, message) = (call.skill.as_str(), clean_text(message));
    call.keep_message(match level {
        "error" | "warn" => format!("{level}: {message}"),
        _ => message.clone().into_owned(),
    });
    match level {
        "error" => tracing::error!(target: "skill", skill, "{message}"),
        "warn" => tracing::warn!(target: "skill", skill, "{message}"),
        "info" => tracing::info!(target: "skill", skill, "{message}"),
        _ => tracing::debug!(target: "skill", skill, "{message}"),
    }
}

/// Reports at a call's end how many messages were dropped.
pub(crate) fn report_dropped(call: &CallBudget) {
    let dropped = call.log_dropped.load(Ordering::Relaxed);
    if dropped > 0 {
        let skill = call.skill.as_str();
        call.keep_message(format!("[{dropped} messages beyond the bound of the log were dropped]"));
        tracing::warn!(target: "skill", skill, dropped, "messages beyond the call's bound were dropped");
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Limits;

    #[test]
    fn what_exceeds_the_bound_is_dropped_and_counted() {
        let limits = Limits {
            log_bytes: 100,
            ..Limits::default()
        };
        let call = CallBudget::new("demo", limits, &CancellationToken::new());
        for _ in 0..5 {
            record_message(&call, "info", &"x".repeat(30));
        }
        assert_eq!(call.log_dropped.load(Ordering::Relaxed), 2);
        record_message(&call, "error", "too late");
        report_dropped(&call);
        let kept = [
            vec!["x".repeat(30); 3],
            vec!["[3 messages beyond the bound of the log were dropped]".to_owned()],
        ]
        .concat();
        assert_eq!(call.take_messages(), kept);
        assert!(call.take_messages().is_empty());
    }
}
