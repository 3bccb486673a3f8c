//! A fast path for the most common chunk of a stream: one piece of text and no other field with a meaning.
//!
//! It is parsed without building a JSON tree. Every other chunk goes through the general path, which gives the same
//! result for these chunks too.

use std::borrow::Cow;

use serde::Deserialize;

/// Fields with a meaning, which must be absent or null here. All other fields may hold anything.
#[derive(Deserialize)]
struct PlainChunk<'a> {
    #[serde(borrow)]
    object: Option<&'a str>,
    #[serde(borrow)]
    choices: [ChatChoice<'a>; 1],
    error: Option<()>,
    usage: Option<()>,
    x_groq: Option<()>,
    timings: Option<()>,
}

#[derive(Deserialize)]
struct ChatChoice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: PlainDelta<'a>,
    #[serde(borrow)]
    finish_reason: Option<&'a str>,
    usage: Option<()>,
}

#[derive(Deserialize)]
struct PlainDelta<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    refusal: Option<()>,
    reasoning: Option<()>,
    reasoning_content: Option<()>,
    reasoning_details: Option<[(); 0]>,
    tool_calls: Option<[(); 0]>,
    function_call: Option<()>,
}

/// The text of such a chunk; `None` for any other chunk.
pub(super) fn parse_text(data: &str) -> Option<Cow<'_, str>> {
    let chunk: PlainChunk<'_> = serde_json::from_str(data).ok()?;
    let PlainChunk {
        object,
        choices: [choice],
        error: None,
        usage: None,
        x_groq: None,
        timings: None,
    } = chunk
    else {
        return None;
    };
    let is_first = choice.index.is_none_or(|index| index == 0);
    let goes_on = choice.finish_reason.is_none_or(str::is_empty) && choice.usage.is_none();
    let PlainDelta {
        content,
        refusal: None,
        reasoning: None,
        reasoning_content: None,
        reasoning_details: None | Some([]),
        tool_calls: None | Some([]),
        function_call: None,
    } = choice.delta
    else {
        return None;
    };
    (is_first && goes_on && object != Some("error")).then_some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::chat::ChatWire;
    use crate::wire::Wire;
    use crate::{LabelMark, ModelRequest, ProviderEvent};
    use tool_config::{ProviderApi, ProviderSettings};
    use tool_core::api::ProviderName;

    #[test]
    fn chat_11_a_piece_of_text_is_read_at_once() {
        for chunk in [
            r#"{"choices":[{"delta":{"content":"a\nb"}}]}"#,
            r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,
                "delta":{"role":"assistant","content":"a\nb","tool_calls":[]},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        ] {
            assert_eq!(parse_text(chunk).as_deref(), Some("a\nb"), "{chunk}");
        }
    }

    /// One field with a value that may mean something there.
    fn field(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, Value)>> {
        let value = prop::sample::select(vec![
            json!(null),
            json!(""),
            json!("x"),
            json!("error"),
            json!("stop"),
            json!(0),
            json!(1),
            json!([]),
            json!({}),
            json!({"prompt_tokens": 3, "completion_tokens": 4}),
            json!([{"text": "y"}]),
            json!({"message": "no"}),
            json!(false),
        ]);
        prop::collection::vec((prop::sample::select(names.to_vec()), value), 0..3)
    }

    fn with(mut value: Value, fields: Vec<(&'static str, Value)>) -> Value {
        for (name, field) in fields {
            value[name] = field;
        }
        value
    }

    fn events(data: &str, is_plain: bool) -> (Vec<ProviderEvent>, String) {
        let settings = ProviderSettings::new(ProviderName::Local, ProviderApi::Chat, "http://127.0.0.1:1/v1", "m");
        let request = ModelRequest {
            system: "",
            messages: &[],
            tools: &[],
            max_tokens: None,
            mark: LabelMark(7),
        };
        // The mark of a type makes no difference but that of the way.
        let event = if is_plain { "" } else { "event: chunk\n" };
        let body = format!("{event}data: {data}\n\ndata: [DONE]\n\n");
        let wire: Box<dyn Wire> = Box::new(ChatWire::new(&settings));
        let (events, result) = crate::wire::decode(&*wire, request, &[body.as_bytes()]);
        (events, format!("{:?}", result.map_err(|failure| failure.said)))
    }

    proptest! {
        #[test]
        fn chat_11_both_ways_come_to_the_same(
            chunk in field(&["id", "object", "error", "usage", "x_groq", "timings", "choices"]),
            choice in field(&["index", "delta", "message", "finish_reason", "usage", "logprobs"]),
            delta in field(&["content", "role", "refusal", "reasoning", "reasoning_content", "reasoning_details",
                "tool_calls", "function_call"]),
        ) {
            let delta = with(json!({"content": "text"}), delta);
            let choice = with(json!({"index": 0, "delta": delta}), choice);
            let data = with(json!({"choices": [choice]}), chunk).to_string();
            prop_assert_eq!(events(&data, true), events(&data, false));
        }
    }
}
