//! Keeps a conversation within the context: old tool results go first, the request and the tools never.
//!
//! A provider caches the beginning of a conversation, and any change of an earlier message discards that cache. So results
//! are dropped rarely, and then many at once.
//!
//! A dropped result leaves a note in its place, so that every call keeps its answer. Nothing else is touched: not what
//! the model said, not what it called, and no message of the user's.

use crate::{Message, TokenRate, ToolResult, ToolSpec, estimated_tokens};
use tool_core::api::{ErrorKind, Problem};

/// The newest tool results, which a shortened conversation keeps as long as it can: about one round of parallel calls.
const TOOL_RESULTS_KEPT: usize = 4;

/// Results shorter than this are kept: dropping them would save nothing.
const RESULT_BYTES_MIN: usize = 400;

/// If the messages do not fit into `room` tokens, drops the oldest tool results until the messages take half of it. The
/// newest [`TOOL_RESULTS_KEPT`] results stay, unless the messages would still take more than three quarters of the room;
/// the newest round stays whole, unless nothing else helps; the newest result always stays. Returns the number of dropped
/// results.
pub(super) fn shorten_messages(messages: &mut [Message], room: u64) -> usize {
    if estimate_tokens(messages) <= room {
        return 0;
    }
    let newest_round = messages.iter().rev().find_map(|message| match message {
        Message::ToolResults { results } => Some(results.len()),
        _ => None,
    });
    let Some(newest_round) = newest_round else { return 0 };
    let kept = newest_round.max(TOOL_RESULTS_KEPT);
    let mut dropped = drop_oldest(messages, room / 2, kept);
    if estimate_tokens(messages) > room / 4 * 3 {
        dropped += drop_oldest(messages, room / 2, newest_round);
    }
    if estimate_tokens(messages) > room {
        dropped += drop_oldest(messages, room, 1);
    }
    dropped
}

/// Estimated tokens that the messages keep at least, when all old tool results are dropped.
pub fn tokens_without_old_results(messages: &[Message]) -> u64 {
    let mut messages = messages.to_vec();
    drop_oldest(&mut messages, 0, 1);
    estimate_tokens(&messages)
}

/// The problem of a conversation that does not fit even then. The hint depends on what takes the room.
pub fn too_long(context_tokens: u64, tools: &[ToolSpec], rate: TokenRate) -> Problem {
    let count = tools.len();
    let tools_tokens = rate.tokens(tools.iter().map(ToolSpec::bytes).sum());
    let hint = if tools.is_empty() {
        "target fewer or smaller files, or load the model with a larger context".to_owned()
    } else if tools_tokens > context_tokens / 2 {
        format!(
            "load the model with a larger context: the descriptions of {count} tools take about {tools_tokens} of these \
             tokens"
        )
    } else {
        format!(
            "target fewer or smaller files; the descriptions of {count} tools take about {tools_tokens} of these tokens, and \
             what is left of the conversation is the request, the selected files and the newest tool result"
        )
    };
    Problem::new(
        ErrorKind::ContextLengthExceeded,
        format!("Context length exceeded: {context_tokens} tokens"),
    )
    .with_hint(format!(
        "{hint}; if the model takes more, set `context_tokens` of its provider in config.toml"
    ))
}

/// Drops results, oldest first and all but the newest `kept`, until the messages have at most `target` tokens.
fn drop_oldest(messages: &mut [Message], target: u64, kept: usize) -> usize {
    let mut bytes: usize = messages.iter().map(Message::bytes).sum();
    let results = messages.iter_mut().filter_map(|message| match message {
        Message::ToolResults { results } => Some(results),
        _ => None,
    });
    let mut results: Vec<&mut ToolResult> = results.flatten().collect();
    let droppable = results.len().saturating_sub(kept);
    let mut dropped = 0;
    for result in &mut results[..droppable] {
        if estimated_tokens(bytes) <= target {
            break;
        }
        let before = result.text.len();
        if drop_text(result) {
            dropped += 1;
            bytes = bytes - before + result.text.len();
        }
    }
    dropped
}

fn estimate_tokens(messages: &[Message]) -> u64 {
    estimated_tokens(messages.iter().map(Message::bytes).sum())
}

fn drop_text(result: &mut ToolResult) -> bool {
    let is_long = result.text.len() >= RESULT_BYTES_MIN;
    if is_long {
        // A name is the model's own and may be of any length.
        let name: String = result.name.chars().take(64).collect();
        result.text = format!(
            "[This result of `{name}` was dropped to keep the conversation short. Call it again if you need it.]"
        );
    }
    is_long
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::ToolCall;

    fn result(id: &str, text: &str) -> ToolResult {
        ToolResult {
            call_id: id.into(),
            name: "read_file".into(),
            text: text.into(),
            is_error: false,
            origin: crate::TextOrigin::Repository,
        }
    }

    fn results(text: &str) -> Message {
        Message::ToolResults {
            results: vec![result("a", text)],
        }
    }

    fn is_dropped(result: &ToolResult) -> bool {
        result.text.starts_with("[This result of `")
    }

    #[test]
    fn the_oldest_results_go_first_and_the_request_and_the_newest_stay() {
        let long = "x".repeat(4000);
        let user = Message::User { text: "y".repeat(4000) };
        let mut messages = vec![user.clone(), results(&long), results("short")];
        messages.extend((0..11).map(|_| results(&long)));
        assert_eq!(shorten_messages(&mut messages, 13_100), 0);
        assert_eq!(shorten_messages(&mut messages, 12_900), 7);
        assert_eq!(messages[0], user);
        assert!(matches!(&messages[1], Message::ToolResults { results } if is_dropped(&results[0])));
        assert_eq!(messages[2], results("short"));
        assert!(messages[9..].iter().all(|message| *message == results(&long)));
        // Six further rounds find room.
        let mut longer = messages.clone();
        longer.extend((0..6).map(|_| results(&long)));
        assert_eq!(shorten_messages(&mut longer, 12_900), 0);
        // The newest four go only where little else helps, and the newest one never.
        assert_eq!(shorten_messages(&mut messages, 5_000), 4);
        assert_eq!(messages[13], results(&long));
        assert_eq!(shorten_messages(&mut messages, 0), 0);
    }

    #[test]
    fn a_hint_names_what_takes_the_room() {
        let tool = |bytes: usize| ToolSpec {
            name: "lint".to_owned(),
            description: "x".repeat(bytes),
            parameters: json!({}),
        };
        let hint = |tools: &[ToolSpec]| too_long(1_000, tools, TokenRate::PROSE).hint.expect("it has one");
        assert_eq!(
            hint(&vec![tool(250); 12]),
            "load the model with a larger context: the descriptions of 12 tools take about 768 of these tokens; if the model \
             takes more, set `context_tokens` of its provider in config.toml"
        );
        assert!(hint(&vec![tool(50); 12]).starts_with(
            "target fewer or smaller files; the descriptions of 12 tools take about 168 of these tokens, and what is left"
        ));
    }

    #[test]
    fn a_round_of_many_results_is_kept_whole_as_long_as_it_can_be() {
        let long = "x".repeat(4000);
        let round = |count: usize| Message::ToolResults {
            results: (0..count).map(|n| result(&format!("c{n}"), &long)).collect(),
        };
        let mut messages = vec![round(2), round(8)];
        assert_eq!(shorten_messages(&mut messages, 9000), 2);
        assert_eq!(messages[1], round(8));
        let mut messages = vec![round(8)];
        assert_eq!(shorten_messages(&mut messages, 3000), 6, "no more than is needed");
    }

    /// A conversation as the loop builds it: a request, then rounds of calls with their answers, words in between.
    fn conversation() -> impl Strategy<Value = Vec<Message>> {
        let length = prop_oneof![0..300_usize, 300..500_usize, 2_000..9_000_usize];
        let round = (proptest::collection::vec(length, 1..5), any::<bool>(), 0..200_usize);
        (1..4_000_usize, proptest::collection::vec(round, 0..8)).prop_map(|(request, rounds)| {
            let mut messages = vec![Message::User {
                text: "r".repeat(request),
            }];
            for (at, (lengths, is_told, words)) in rounds.into_iter().enumerate() {
                let call = |n: usize| ToolCall {
                    id: format!("c{at}_{n}"),
                    name: "read_file".into(),
                    arguments: json!({"path": "x".repeat(n)}).to_string(),
                };
                messages.push(Message::Assistant {
                    text: "w".repeat(words),
                    tool_calls: (0..lengths.len()).map(call).collect(),
                    opaque: Value::Null,
                });
                let answer = |(n, length): (usize, usize)| result(&format!("c{at}_{n}"), &"t".repeat(length));
                messages.push(Message::ToolResults {
                    results: lengths.into_iter().enumerate().map(answer).collect(),
                });
                if is_told {
                    messages.push(Message::User { text: "Go on.".into() });
                }
            }
            messages
        })
    }

    fn all_results(messages: &[Message]) -> Vec<ToolResult> {
        let of = |message: &Message| match message {
            Message::ToolResults { results } => results.clone(),
            _ => Vec::new(),
        };
        messages.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn what_is_shortened_stays_a_conversation(before in conversation(), room in 0..20_000_u64) {
            let mut after = before.clone();
            let dropped = shorten_messages(&mut after, room);
            prop_assert_eq!(after.len(), before.len());
            for (old, new) in before.iter().zip(&after) {
                match (old, new) {
                    // Every call keeps its answer, in its place.
                    (Message::ToolResults { results: old }, Message::ToolResults { results: new }) => {
                        prop_assert_eq!(old.len(), new.len());
                        for (old, new) in old.iter().zip(new) {
                            prop_assert_eq!((&old.call_id, &old.name, old.is_error), (&new.call_id, &new.name, new.is_error));
                            prop_assert!(old == new || (is_dropped(new) && new.text.len() < old.text.len()));
                        }
                    }
                    (old, new) => prop_assert_eq!(old, new),
                }
            }
            let (old, new) = (all_results(&before), all_results(&after));
            prop_assert_eq!(new.iter().filter(|one| is_dropped(one)).count(), dropped);
            prop_assert_eq!(old.last(), new.last());
            if estimate_tokens(&before) <= room {
                prop_assert_eq!(dropped, 0);
            }
            // The newest few are touched only where all older ones were not enough.
            let few = new.len().saturating_sub(TOOL_RESULTS_KEPT);
            if new[few..].iter().any(is_dropped) {
                prop_assert!(new[..few].iter().all(|one| one.text.len() < RESULT_BYTES_MIN));
            }
            // If it does not fit, there is nothing left to drop, and a second time changes nothing.
            if estimate_tokens(&after) > room {
                prop_assert!(new.iter().rev().skip(1).all(|one| one.text.len() < RESULT_BYTES_MIN));
                prop_assert_eq!(shorten_messages(&mut after.clone(), room), 0);
            }
        }
    }

    #[test]
    fn the_newest_results_of_several_rounds_are_kept_as_long_as_they_can_be() {
        let long = "x".repeat(4_000);
        let rounds = || -> Vec<Message> {
            let round = |n: usize| Message::ToolResults {
                results: vec![result(&format!("c{n}"), &long)],
            };
            (0..2 * TOOL_RESULTS_KEPT).map(round).collect()
        };
        assert_eq!(shorten_messages(&mut rounds(), 7_000), 4, "the newest four stay");
        assert_eq!(
            shorten_messages(&mut rounds(), 4_400),
            6,
            "unless little room would be won"
        );
    }
}
