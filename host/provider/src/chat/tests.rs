//! The wire's state machine, quirk by quirk; names carry the number of the behaviour.

mod request;
mod usage;

use std::fmt::Write as _;

use super::*;
use crate::sse::Framer;
use crate::{LabelMark, ToolResult, ToolSpec};
use tool_config::{ProviderApi, Secret};
use tool_core::api::ProviderName;

fn settings(name: ProviderName) -> ProviderSettings {
    ProviderSettings {
        api_key: Some(Secret::new("key")),
        ..ProviderSettings::new(name, ProviderApi::Chat, "http://127.0.0.1:1234/v1", "m")
    }
}

fn tools() -> Vec<ToolSpec> {
    ["read_file", "list_files"]
        .map(|name| ToolSpec {
            name: name.into(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}}),
        })
        .into()
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

struct Decoded {
    events: Vec<ProviderEvent>,
    result: Result<(), ProviderFailure>,
}

impl Decoded {
    fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ProviderEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn reasoning(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ProviderEvent::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn calls(&self) -> Vec<(&str, &str)> {
        let calls = self.events.iter().filter_map(|event| match event {
            ProviderEvent::ToolCall(call) => Some((call.name.as_str(), call.arguments.as_str())),
            _ => None,
        });
        calls.collect()
    }

    fn tool_calls(&self) -> Vec<ToolCall> {
        let calls = self.events.iter().filter_map(|event| match event {
            ProviderEvent::ToolCall(call) => Some(call.clone()),
            _ => None,
        });
        calls.collect()
    }

    fn usage(&self) -> Vec<Usage> {
        let usages = self.events.iter().filter_map(|event| match event {
            ProviderEvent::Usage(usage) => Some(*usage),
            _ => None,
        });
        usages.collect()
    }

    fn stop(&self) -> Option<StopReason> {
        match self.events.last() {
            Some(ProviderEvent::Stop { reason, .. }) => Some(*reason),
            _ => None,
        }
    }

    fn opaque(&self) -> &Value {
        match self.events.last() {
            Some(ProviderEvent::Stop { opaque, .. }) => opaque,
            other => panic!("no stop at the end: {other:?}"),
        }
    }

    fn failure(&self) -> &ProviderFailure {
        self.result.as_ref().expect_err("this answer is a failure")
    }
}

/// Decodes the pieces of a body for a conversation.
fn decode_for(messages: &[Message], text_calls: bool, pieces: &[&[u8]]) -> Decoded {
    let tools = tools();
    let request = ModelRequest {
        system: "",
        messages,
        tools: &tools,
        max_tokens: None,
        mark: LabelMark(7),
    };
    let (mut decoder, mut framer) = (ChatDecoder::new(request, text_calls, Arc::default()), Framer::default());
    let (mut events, mut frames) = (Vec::new(), Vec::new());
    for piece in pieces {
        framer.feed(piece, &mut frames).expect("the frames are small");
    }
    frames.extend(framer.finish());
    let read = frames.iter().try_for_each(|frame| decoder.frame(frame, &mut events));
    let result = read.and_then(|()| decoder.end(&mut events));
    Decoded { events, result }
}

fn body(chunks: &[Value]) -> String {
    let mut body = String::new();
    for chunk in chunks {
        let written = match chunk {
            Value::String(raw) => write!(body, "data: {raw}\n\n"),
            chunk => write!(body, "data: {chunk}\n\n"),
        };
        written.expect("a string takes everything");
    }
    body
}

fn decode(chunks: &[Value]) -> Decoded {
    decode_for(&[user("hello")], false, &[body(chunks).as_bytes()])
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn content(text: &str) -> Value {
    delta(json!({"content": text}))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn one_call(arguments: Value) -> Value {
    delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": arguments}}]}))
}

fn counts(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output})
}

fn done() -> Value {
    json!("[DONE]")
}

const PATH: &str = r#"{"path":"a"}"#;

#[test]
fn sse_2_done_may_be_missing_early_or_within_a_round_of_tools() {
    for chunks in [
        vec![content("Hi"), finish("stop")],
        vec![content("Hi"), finish("stop"), done()],
        vec![content("H"), done(), content("i"), finish("stop")],
        vec![content("Hi"), finish("stop"), done(), done()],
        // The end mark alone ends a text.
        vec![content("Hi"), done()],
    ] {
        let decoded = decode(&chunks);
        assert_eq!(
            (decoded.text().as_str(), decoded.stop()),
            ("Hi", Some(StopReason::EndTurn))
        );
    }
    let decoded = decode(&[done(), one_call(json!(PATH)), done(), finish("tool_calls")]);
    assert_eq!(decoded.calls(), [("read_file", PATH)]);
    assert_eq!(decoded.stop(), Some(StopReason::ToolUse));
}

#[test]
fn sse_2_unknown_events_and_fields_are_ignored() {
    let stream = "event: ping\ndata: not json\n\nevent: x.y\ndata: {\"a\":1}\n\ndata:\n\n".to_owned()
        + &body(&[
            json!({"choices": [{"index": 0, "delta": {"content": "Hi", "new": [1]}, "logprobs": null}], "extra": {}}),
            json!({"something": "else"}),
            finish("stop"),
        ]);
    let decoded = decode_for(&[], false, &[stream.as_bytes()]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("Hi", Some(StopReason::EndTurn))
    );
}

#[test]
fn sse_3_a_stream_without_its_end_is_an_error_and_its_calls_do_not_run() {
    for chunks in [
        vec![content("Hi")],
        vec![content("Hi"), one_call(json!(PATH))],
        vec![one_call(json!(PATH)), done()],
    ] {
        let decoded = decode(&chunks);
        assert_eq!(decoded.failure().class, FailureClass::Protocol, "{chunks:?}");
        assert_eq!(decoded.calls(), []);
        assert_eq!(decoded.stop(), None);
    }
    let cut = body(&[content("Hi"), finish("stop")]);
    let decoded = decode_for(&[], false, &[&cut.as_bytes()[..cut.len() - 20]]);
    assert!(
        decoded.failure().said.starts_with("an event is not JSON"),
        "{:?}",
        decoded.failure()
    );
    assert_eq!(decoded.text(), "Hi");
}

#[test]
fn sse_5_an_error_inside_the_stream_in_every_form() {
    let with_event = "event: error\ndata: {\"message\":\"Overloaded\",\"type\":\"overloaded_error\"}\n\n";
    for (stream, class, status) in [
        (
            body(&[content("Hi"), json!({"error": {"message": "slow down", "code": 429}})]),
            FailureClass::RateLimit,
            Some(429),
        ),
        (
            body(&[json!({"object": "error", "message": "bad", "code": 400})]),
            FailureClass::Rejected,
            Some(400),
        ),
        (body(&[json!({"error": "it broke"})]), FailureClass::Rejected, None),
        (
            body(&[json!({"error": {"code": 502, "message": "upstream"}, "choices": []})]),
            FailureClass::Server,
            Some(502),
        ),
        (with_event.to_owned(), FailureClass::Server, Some(529)),
        (
            "error: {\"code\":500,\"message\":\"jinja failed\"}\n\n".to_owned(),
            FailureClass::Template,
            Some(500),
        ),
    ] {
        let decoded = decode_for(&[], false, &[stream.as_bytes()]);
        let failure = decoded.failure();
        assert_eq!((failure.class, failure.status), (class, status), "{stream}");
    }
    // A null error is none.
    let decoded = decode(&[json!({"error": null, "choices": []}), content("Hi"), finish("stop")]);
    assert_eq!(decoded.result, Ok(()));
    // The server's own word for a failure.
    for reason in ["error", "abort"] {
        assert_eq!(
            decode(&[content("Hi"), finish(reason)]).failure().class,
            FailureClass::Protocol
        );
    }
}

#[test]
fn chat_13_parallel_calls_whole_and_in_pieces() {
    let decoded = decode(&[
        content("Let me look."),
        delta(json!({"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "read_file", "arguments": PATH}},
            {"index": 1, "id": "b", "function": {"name": "list_files", "arguments": ""}},
        ]})),
        delta(json!({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]})),
        delta(json!({"tool_calls": null})),
        finish("tool_calls"),
    ]);
    assert_eq!(decoded.calls(), [("read_file", PATH), ("list_files", "{}")]);
    assert_eq!(decoded.stop(), Some(StopReason::ToolUse));
}

#[test]
fn chat_13_the_older_function_call_is_a_call() {
    let decoded = decode(&[
        delta(json!({"function_call": {"name": "read_file", "arguments": "{\"path\":"}})),
        delta(json!({"function_call": {"arguments": "\"a\"}"}})),
        finish("function_call"),
    ]);
    assert_eq!(decoded.calls(), [("read_file", PATH)]);
}

#[test]
fn chat_13_made_up_ids_are_unique_in_the_conversation() {
    let earlier = Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "a".into(),
            name: "read_file".into(),
            arguments: "{}".into(),
        }],
        opaque: Value::Null,
    };
    let stream = body(&[one_call(json!(PATH)), finish("tool_calls")]);
    let decoded = decode_for(&[earlier], false, &[stream.as_bytes()]);
    let Some(ProviderEvent::ToolCall(call)) = decoded.events.first() else {
        panic!("no call: {:?}", decoded.events);
    };
    assert_eq!(call.id, "call_1_0");
}

#[test]
fn chat_14_finish_reasons_that_contradict_the_answer() {
    let decoded = decode(&[one_call(json!(PATH)), finish("stop")]);
    assert_eq!((decoded.calls().len(), decoded.stop()), (1, Some(StopReason::ToolUse)));
    let decoded = decode(&[content("Hi"), finish("tool_calls")]);
    assert_eq!((decoded.calls().len(), decoded.stop()), (0, Some(StopReason::EndTurn)));
    let decoded = decode(&[content("Hi"), finish("content_filter")]);
    assert_eq!(decoded.stop(), Some(StopReason::Refusal));
    let decoded = decode(&[delta(json!({"refusal": "I will not."})), finish("stop")]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("I will not.", Some(StopReason::Refusal))
    );
}

#[test]
fn chat_14_length_with_partial_arguments_is_never_repaired() {
    for arguments in ["{\"path\":\"a\",\"content\":\"half", PATH] {
        let decoded = decode(&[content("Writing."), one_call(json!(arguments)), finish("length")]);
        assert_eq!(decoded.calls(), []);
        assert!(decoded.events.contains(&ProviderEvent::CutOffCall {
            name: "read_file".into(),
            arguments: arguments.to_owned(),
        }));
        assert_eq!(decoded.stop(), Some(StopReason::MaxTokens));
    }
    let decoded = decode(&[content("Half a sen"), finish("length")]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("Half a sen", Some(StopReason::MaxTokens))
    );
}

#[test]
fn chat_15_arguments_that_are_no_object_are_passed_on_as_they_are() {
    let decoded = decode(&[one_call(json!("[1,2]")), finish("tool_calls")]);
    assert_eq!(decoded.calls(), [("read_file", "[1,2]")]);
    let decoded = decode(&[one_call(json!([1, 2])), finish("tool_calls")]);
    assert_eq!(decoded.calls(), [("read_file", "[1,2]")]);
}

const PRINTED: &str = r#"<tool_call>{"name":"read_file","arguments":{"path":"a"}}</tool_call>"#;

fn printed(messages: &[Message], allowed: bool, text: &str) -> Decoded {
    decode_for(messages, allowed, &[body(&[content(text), finish("stop")]).as_bytes()])
}

#[test]
fn chat_16_a_printed_call_counts_under_all_conditions_only() {
    let decoded = printed(&[user("hello")], true, PRINTED);
    assert_eq!(decoded.calls(), [("read_file", PATH)]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("", Some(StopReason::ToolUse))
    );

    let native = Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "a".into(),
            name: "read_file".into(),
            arguments: "{}".into(),
        }],
        opaque: Value::Null,
    };
    let quoted = Message::ToolResults {
        results: vec![ToolResult {
            call_id: "printed_1_0".into(),
            name: "read_file".into(),
            text: format!("    7\tprint('{PRINTED}')"),
            is_error: false,
            origin: crate::TextOrigin::Repository,
        }],
    };
    for (why, messages, allowed, text) in [
        ("not allowed", vec![user("hello")], false, PRINTED.to_owned()),
        (
            "not whole",
            vec![user("hello")],
            true,
            format!("Let me look.\n{PRINTED}"),
        ),
        (
            "a native call was seen",
            vec![user("hello"), native],
            true,
            PRINTED.to_owned(),
        ),
        (
            "in a tool result",
            vec![user("hello"), quoted],
            true,
            PRINTED.to_owned(),
        ),
        ("in the context", vec![user(PRINTED)], true, PRINTED.to_owned()),
    ] {
        let decoded = printed(&messages, allowed, &text);
        let is_quoted = why.starts_with("in ");
        assert_eq!(decoded.calls(), [], "{why}");
        assert!(
            decoded.events.contains(&ProviderEvent::TextCall {
                held: PRINTED.into(),
                is_quoted
            }),
            "{why}"
        );
    }
}

#[test]
fn chat_16_a_printed_call_of_an_unknown_tool_is_text() {
    let text = PRINTED.replace("read_file", "rm");
    let decoded = printed(&[user("hello")], true, &text);
    assert_eq!((decoded.text(), decoded.stop()), (text, Some(StopReason::EndTurn)));
}

#[test]
fn chat_16_an_earlier_printed_call_is_no_native_one() {
    let earlier = Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "printed_1_0".into(),
            name: "list_files".into(),
            arguments: "{}".into(),
        }],
        opaque: Value::Null,
    };
    assert_eq!(printed(&[user("hello"), earlier], true, PRINTED).calls().len(), 1);
}

#[test]
fn chat_17_reasoning_in_every_form_is_not_answer_text() {
    for thought in [
        delta(json!({"reasoning_content": "Hm."})),
        delta(json!({"reasoning": "Hm."})),
        delta(json!({"reasoning": "Hm.", "reasoning_content": "Hm."})),
        delta(json!({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]})),
        delta(json!({"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]})),
        delta(json!({"content": "<think>Hm.</think>"})),
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]})),
    ] {
        let decoded = decode(&[thought.clone(), content("Hi"), finish("stop")]);
        assert_eq!(
            (decoded.reasoning().as_str(), decoded.text().as_str()),
            ("Hm.", "Hi"),
            "{thought}"
        );
    }
    let decoded = decode(&[
        content("<th"),
        content("ink>H"),
        content("m.</thi"),
        content("nk>Hi"),
        finish("stop"),
    ]);
    assert_eq!((decoded.reasoning().as_str(), decoded.text().as_str()), ("Hm.", "Hi"));
}

#[test]
fn chat_17_reasoning_details_are_echoed_unmodified() {
    let details = json!([
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "v1", "index": 0, "x": {"y": null}},
        {"type": "reasoning.encrypted", "data": "AAEC", "id": null, "index": 1},
    ]);
    let decoded = decode(&[
        delta(json!({"reasoning_details": details})),
        one_call(json!(PATH)),
        finish("tool_calls"),
    ]);
    let opaque = decoded.opaque().clone();
    assert_eq!(opaque, json!({"reasoning_details": details}));
    let message = encode_assistant("", &[], &opaque)
        .or(encode_assistant("Hi", &[], &opaque))
        .expect("a text is a message");
    assert_eq!(message["reasoning_details"], details);
}

#[test]
fn chat_17_pieces_of_one_reasoning_block_are_joined() {
    let piece = |detail: Value| delta(json!({"reasoning_details": [detail]}));
    let decoded = decode(&[
        piece(json!({"type": "reasoning.text", "text": "H", "index": 0, "signature": null})),
        piece(json!({"type": "reasoning.text", "text": "m.", "index": 0})),
        piece(json!({"type": "reasoning.text", "text": "", "index": 0, "signature": "c2ln"})),
        piece(json!({"type": "reasoning.text", "text": "Next.", "index": 1})),
        content("Hi"),
        finish("stop"),
    ]);
    assert_eq!(
        decoded.opaque()["reasoning_details"],
        json!([
            {"type": "reasoning.text", "text": "Hm.", "index": 0, "signature": "c2ln"},
            {"type": "reasoning.text", "text": "Next.", "index": 1},
        ])
    );
}

#[test]
fn chat_17_reasoning_content_goes_back_with_calls_only() {
    let thought = || delta(json!({"reasoning_content": "Hm."}));
    let decoded = decode(&[thought(), one_call(json!(PATH)), finish("tool_calls")]);
    assert_eq!(decoded.opaque(), &json!({"reasoning_content": "Hm."}));
    assert_eq!(
        decode(&[thought(), content("Hi"), finish("stop")]).opaque(),
        &Value::Null
    );
}

#[test]
fn local_21_no_delta_at_all_is_no_empty_answer() {
    for chunks in [
        vec![],
        vec![done()],
        vec![finish("stop"), done()],
        vec![json!({"choices": [], "usage": counts(4096, 0)}), done()],
    ] {
        assert_eq!(decode(&chunks).failure().class, FailureClass::Empty, "{chunks:?}");
    }
}

#[test]
fn sse_1_every_split_of_recorded_streams_gives_the_same_events() {
    let streams = [
        body(&[
            content("Lét me 🦀 look."),
            delta(json!({"tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "{\"pa"}},
            ]})),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "th\":\"ä\"}"}}]})),
            finish("tool_calls"),
            json!({"choices": [], "usage": counts(9, 3)}),
            done(),
        ]),
        format!(
            ": ping\r\n\r\n{}",
            body(&[content("<think>H"), content("m</think>Hi"), finish("stop"), done()])
        )
        .replace('\n', "\r\n"),
        body(&[content("Hi"), json!({"error": {"message": "stop", "code": 503}})]),
        body(&[content(PRINTED), finish("stop")]),
        body(&[content("cut"), one_call(json!("{\"a")), finish("length")]),
    ];
    for stream in streams {
        let bytes = stream.as_bytes();
        let whole = decode_for(&[user("x")], true, &[bytes]);
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            let split = decode_for(&[user("x")], true, &[left, right]);
            assert_eq!(
                (&split.events, &split.result),
                (&whole.events, &whole.result),
                "cut at {cut}"
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode_for(&[user("x")], true, &single).events, whole.events);
    }
}

proptest::proptest! {
    #[test]
    fn chat_15_hostile_chunks_never_panic(
        deltas in proptest::collection::vec("[{}\\[\\]\":,a-z0-9]{0,40}", 0..8),
        reason in "[a-z_]{0,10}",
    ) {
        let mut chunks: Vec<Value> = deltas.iter().map(|text| json!(text)).collect();
        chunks.extend(deltas.iter().map(|text| one_call(json!(text))));
        chunks.extend(deltas.iter().filter_map(|text| serde_json::from_str(text).ok()).map(delta));
        chunks.push(finish(&reason));
        let _ = decode(&chunks);
    }
}
