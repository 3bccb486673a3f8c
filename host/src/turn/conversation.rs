//! Keeps a conversation within the context: old tool results go first, the request and the tools never.

use crate::provider::{Message, ToolResult, estimated_tokens};

/// Results shorter than this are kept: dropping them would save nothing.
const RESULT_BYTES_MIN: usize = 400;

/// Drops the oldest tool results until the messages fit into `room` tokens, and a fifth more, so that this does not
/// happen again in every round. The newest results always stay. Gives how many were dropped.
pub(super) fn shorten(messages: &mut [Message], room: u64) -> usize {
    let total = |messages: &[Message]| estimated_tokens(messages.iter().map(Message::bytes).sum());
    if total(messages) <= room {
        return 0;
    }
    let newest = messages
        .iter()
        .rposition(|message| matches!(message, Message::ToolResults { .. }));
    let Some(newest) = newest else { return 0 };
    let target = room / 5 * 4;
    let mut dropped = 0;
    for at in 0..newest {
        if total(messages) <= target {
            break;
        }
        if let Message::ToolResults { results } = &mut messages[at] {
            dropped += results.iter_mut().map(drop_text).filter(|dropped| *dropped).count();
        }
    }
    dropped
}

fn drop_text(result: &mut ToolResult) -> bool {
    let is_long = result.text.len() >= RESULT_BYTES_MIN;
    if is_long {
        result.text = format!(
            "[This result of `{}` was dropped to keep the conversation short. Call it again if you need it.]",
            result.name
        );
    }
    is_long
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(text: &str) -> Message {
        Message::ToolResults {
            results: vec![ToolResult {
                call_id: "a".into(),
                name: "read_file".into(),
                text: text.into(),
                is_error: false,
            }],
        }
    }

    #[test]
    fn the_oldest_results_go_first_and_the_request_and_the_newest_stay() {
        let long = "x".repeat(4000);
        let user = Message::User { text: "y".repeat(4000) };
        let mut messages = vec![
            user.clone(),
            results(&long),
            results("short"),
            results(&long),
            results(&long),
        ];
        assert_eq!(shorten(&mut messages, 4100), 0);
        assert_eq!(shorten(&mut messages, 3900), 1);
        assert_eq!(messages[0], user);
        assert!(matches!(&messages[1], Message::ToolResults { results } if results[0].text.contains("was dropped")));
        assert_eq!(messages[2], results("short"));
        assert_eq!(messages[3], results(&long));
        assert_eq!(shorten(&mut messages, 0), 1);
        assert_eq!(messages[4], results(&long));
        assert_eq!(shorten(&mut messages, 0), 0);
    }
}
