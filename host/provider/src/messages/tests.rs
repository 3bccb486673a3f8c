//! The wire's state machine, quirk by quirk; names carry the number of the behaviour.

use super::*;
use crate::wire::decode;
use crate::{ToolResult, ToolSpec};
use tool_config::{ProviderApi, Secret};
use tool_core::api::ProviderName;

fn wire() -> MessagesWire {
    MessagesWire::new(&ProviderSettings {
        api_key: Some(Secret::new("key")),
        ..ProviderSettings::new(ProviderName::Hosted, ProviderApi::Messages, "http://127.0.0.1:1", "m")
    })
}

fn request(messages: &[Message]) -> ModelRequest<'_> {
    ModelRequest {
        system: "Be brief.",
        messages,
        tools: &[],
        max_tokens: None,
        mark: LabelMark(7),
    }
}

fn body(events: &[Value]) -> String {
    let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"));
    events.iter().map(frame).collect()
}

fn read(events: &[Value]) -> (Vec<ProviderEvent>, Result<(), ProviderFailure>) {
    decode(&wire(), request(&[]), &[body(events).as_bytes()])
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn input(index: u64, piece: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

fn text(index: u64, piece: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": piece}))
}

fn stop(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}})
}

fn whole_answer() -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30, "output_tokens": 1,
        }}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        start(1, json!({"type": "redacted_thinking", "data": "AAEC"})),
        start(2, json!({"type": "text", "text": ""})),
        text(2, "Let me löok."),
        start(3, tool_use("toolu_a")),
        input(3, ""),
        input(3, "{\"path\""),
        input(3, ":\"a\"}"),
        start(4, tool_use("toolu_b")),
        json!({"type": "something_new", "index": 9}),
    ];
    events.extend(stop("tool_use"));
    events
}

#[test]
fn messages_6_usage_counts_cached_input_too() {
    let (events, _) = read(&whole_answer());
    let usage = events.iter().find_map(|event| match event {
        ProviderEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let expected = Usage {
        input_tokens: 140,
        cached_tokens: 100,
        output_tokens: 7,
        cache_write_tokens: 30,
        estimated: false,
        cost_nanos: None,
    };
    assert_eq!(usage, Some(expected));
}

#[test]
fn messages_7_pings_empty_pieces_and_no_pieces() {
    let (events, result) = read(&whole_answer());
    assert_eq!(result, Ok(()));
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ProviderEvent::ToolCall(call) => Some((call.id.as_str(), call.arguments.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [("toolu_a", "{\"path\":\"a\"}"), ("toolu_b", "{}")]);
    assert!(events.contains(&ProviderEvent::Text("Let me löok.".into())));
    assert!(events.contains(&ProviderEvent::Reasoning("Hm.".into())));
}

#[test]
fn messages_7_a_piece_of_an_unknown_block_is_a_protocol_error() {
    let (_, result) = read(&[text(5, "x")]);
    assert_eq!(result.expect_err("block 5 never began").class, FailureClass::Protocol);
}

#[test]
fn messages_8_stop_reasons() {
    for (reason, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("tool_use", StopReason::EndTurn),
        ("pause_turn", StopReason::Pause),
        ("refusal", StopReason::Refusal),
        ("something_new", StopReason::EndTurn),
    ] {
        let mut stream = vec![start(0, json!({"type": "text", "text": ""})), text(0, "Hi")];
        stream.extend(stop(reason));
        let (events, _) = read(&stream);
        assert!(
            matches!(events.last(), Some(ProviderEvent::Stop { reason, .. }) if *reason == expected),
            "{reason}: {events:?}"
        );
    }
}

#[test]
fn messages_8_a_call_that_the_output_limit_cut_off_does_not_run() {
    let mut stream = vec![start(0, tool_use("a")), input(0, "{\"path\":\"a\",\"content\":\"half")];
    stream.extend(stop("max_tokens"));
    let (events, _) = read(&stream);
    assert!(events.contains(&ProviderEvent::CutOffCall {
        name: "read_file".into(),
        arguments: "{\"path\":\"a\",\"content\":\"half".into(),
    }));
    assert!(!events.iter().any(|event| matches!(event, ProviderEvent::ToolCall(_))));
}

#[test]
fn messages_8_thinking_goes_back_byte_for_byte() {
    let (events, _) = read(&whole_answer());
    let Some(ProviderEvent::Stop { opaque, .. }) = events.last() else {
        panic!("no stop: {events:?}");
    };
    let again = encode_messages(
        &[Message::Assistant {
            text: "ignored".into(),
            tool_calls: vec![],
            opaque: opaque.clone(),
        }],
        LabelMark(7),
    );
    assert_eq!(
        again[0]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "AAEC"},
            {"type": "text", "text": "Let me löok."},
            {"type": "tool_use", "id": "toolu_a", "name": "read_file", "input": {"path": "a"}},
            {"type": "tool_use", "id": "toolu_b", "name": "read_file", "input": {}},
        ])
    );
}

fn result(id: &str) -> ToolResult {
    ToolResult {
        call_id: id.into(),
        name: "read_file".into(),
        text: "x".into(),
        is_error: id == "b",
        origin: crate::TextOrigin::Repository,
    }
}

#[test]
fn messages_9_results_are_one_user_message_and_empty_texts_are_left_out() {
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: "read_file".into(),
        arguments: String::new(),
    };
    let sent = encode_messages(
        &[
            Message::User { text: "hello".into() },
            Message::User { text: " ".into() },
            Message::Assistant {
                text: String::new(),
                tool_calls: vec![call("a"), call("b")],
                opaque: Value::Null,
            },
            Message::ToolResults {
                results: vec![result("a"), result("b")],
            },
            Message::User {
                text: "Answer now.".into(),
            },
        ],
        LabelMark(7),
    );
    let data = "<tool-output-0000000000000007 tool=\"read_file\" status=\"ok\" origin=\"repository\">\nx\n</tool-output-0000000000000007>";
    let failed = data.replace("ok", "error");
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        sent,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": cached}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "read_file", "input": {}},
                {"type": "tool_use", "id": "b", "name": "read_file", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": data, "is_error": false},
                {"type": "tool_result", "tool_use_id": "b", "content": failed, "is_error": true},
                {"type": "text", "text": "Answer now.", "cache_control": cached},
            ]},
        ])
    );
}

#[test]
fn messages_10_at_most_four_cache_marks_and_no_sampling_parameters() {
    let tools: Vec<ToolSpec> = ["a", "b"]
        .map(|name| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({}),
        })
        .into();
    let conversation: Vec<Message> = (0..9)
        .flat_map(|n| {
            let answer = Message::Assistant {
                text: format!("answer {n}"),
                tool_calls: vec![],
                opaque: Value::Null,
            };
            [
                Message::User {
                    text: format!("question {n}"),
                },
                answer,
            ]
        })
        .collect();
    let body = wire().body(&ModelRequest {
        tools: &tools,
        ..request(&conversation)
    });
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
    assert!(body["tools"][1].get("cache_control").is_some());
    assert!(body["system"][0].get("cache_control").is_some());
    let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["model", "max_tokens", "stream", "system", "messages", "tools"]);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    let headers = wire().headers(Some("key"));
    assert_eq!(
        headers,
        [
            ("anthropic-version", VERSION.to_owned()),
            ("x-api-key", "key".to_owned())
        ]
    );
}

#[test]
fn messages_10_overload_within_the_stream_is_told_with_what_came() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (events, result) = read(&[start(0, json!({"type": "text", "text": ""})), text(0, "Hi"), overloaded]);
    let failure = result.expect_err("it is an error");
    assert_eq!((failure.class, failure.status), (FailureClass::Server, Some(529)));
    assert_eq!(events, [ProviderEvent::Text("Hi".into())]);
}

#[test]
fn sse_3_a_stream_without_message_stop_is_an_error() {
    let mut events = whole_answer();
    events.pop();
    let (events, result) = read(&events);
    assert_eq!(result.expect_err("it has no end").class, FailureClass::Protocol);
    assert!(!events.iter().any(|event| matches!(event, ProviderEvent::ToolCall(_))));
    assert_eq!(read(&[]).1.expect_err("it is empty").class, FailureClass::Empty);
}

#[test]
fn messages_11_a_prompt_that_is_too_long_is_an_overflow() {
    for status in [400, 413] {
        let body = json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum",
        }});
        let failure = ProviderFailure::from_answer(status, &body.to_string(), None);
        assert_eq!(
            (failure.class, failure.context_tokens),
            (FailureClass::Overflow, Some(200_000))
        );
    }
}

#[test]
fn messages_10_an_older_models_own_maximum_counts() {
    let wire = wire();
    let said = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m";
    let failure = ProviderFailure::from_answer(400, &json!({"error": {"message": said}}).to_string(), None);
    assert_eq!(wire.adapt(&failure), Some(Adaptation::Silent));
    assert_eq!(wire.adapt(&failure), None, "only once");
    assert_eq!(wire.body(&request(&[]))["max_tokens"], 8192);
}

#[test]
fn sse_1_every_split_gives_the_same_events() {
    let stream = body(&whole_answer());
    let whole = decode(&wire(), request(&[]), &[stream.as_bytes()]);
    for cut in 0..=stream.len() {
        let (left, right) = stream.as_bytes().split_at(cut);
        assert_eq!(decode(&wire(), request(&[]), &[left, right]), whole, "cut at {cut}");
    }
}

#[test]
fn messages_6_usage_in_odd_forms() {
    let counted = |start: Value, delta: Value| {
        let (events, _) = read(&[
            json!({"type": "message_start", "message": {"usage": start}}),
            start_text(),
            text(0, "eight by"),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta}),
            json!({"type": "message_stop"}),
        ]);
        events.iter().find_map(|event| match event {
            ProviderEvent::Usage(usage) => Some((usage.input_tokens, usage.output_tokens, usage.estimated)),
            _ => None,
        })
    };
    // Cumulative: the last one counts, and what it leaves out or calls null stays as it was.
    let start = json!({"input_tokens": 10, "output_tokens": 1});
    assert_eq!(
        counted(start.clone(), json!({"output_tokens": 7})),
        Some((10, 7, false))
    );
    let nulls = json!({"input_tokens": null, "cache_read_input_tokens": null, "output_tokens": 7});
    assert_eq!(counted(start.clone(), nulls), Some((10, 7, false)));
    assert_eq!(
        counted(start, json!({"input_tokens": 12, "output_tokens": 7})),
        Some((12, 7, false))
    );
    // Never: the loop estimates. One side only: the other is estimated, and marked.
    assert_eq!(counted(Value::Null, Value::Null), None);
    assert_eq!(counted(json!({"input_tokens": 10}), json!({})), Some((10, 2, true)));
    let input = request(&[]).estimated_tokens();
    assert_eq!(counted(json!({}), json!({"output_tokens": 7})), Some((input, 7, true)));
}

fn start_text() -> Value {
    start(0, json!({"type": "text", "text": ""}))
}

#[test]
fn messages_7_an_index_that_is_used_again_is_another_block() {
    let mut stream = vec![
        start_text(),
        text(0, "Hi"),
        json!({"type": "content_block_stop", "index": 0}),
        start(0, tool_use("a")),
        input(0, "{\"path\":\"a\"}"),
    ];
    stream.extend(stop("tool_use"));
    let (events, result) = read(&stream);
    assert_eq!(result, Ok(()));
    assert!(events.contains(&ProviderEvent::Text("Hi".into())));
    assert!(
        events
            .iter()
            .any(|event| matches!(event, ProviderEvent::ToolCall(call) if call.id == "a"))
    );
}

#[test]
fn messages_7_a_message_that_comes_whole_is_read_too() {
    let (events, result) = read(&[json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "a", "name": "read_file", "input": {"path": "a"}},
        ],
    })]);
    assert_eq!(result, Ok(()));
    assert_eq!(events[0], ProviderEvent::Text("Hi".into()));
    assert!(matches!(&events[1], ProviderEvent::ToolCall(call) if call.arguments == "{\"path\":\"a\"}"));
    assert!(matches!(
        events.last(),
        Some(ProviderEvent::Stop {
            reason: StopReason::ToolUse,
            ..
        })
    ));
}

#[test]
fn messages_9_ids_are_of_safe_characters_and_unique_in_call_and_block_alike() {
    let mut stream = vec![
        start(0, tool_use("call:1/a")),
        start(1, tool_use("call:1/a")),
        start(2, tool_use("")),
    ];
    stream.extend(stop("tool_use"));
    let (events, _) = read(&stream);
    let ids: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            ProviderEvent::ToolCall(call) => Some(call.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["call_1_a", "call_0_1", "call_0_2"]);
    let Some(ProviderEvent::Stop { opaque, .. }) = events.last() else {
        panic!("no stop: {events:?}");
    };
    let kept = opaque["content"].as_array().expect("blocks");
    let kept: Vec<&str> = kept.iter().filter_map(|block| block["id"].as_str()).collect();
    assert_eq!(kept, ids);
}

#[test]
fn messages_2_events_of_another_type_may_hold_anything() {
    let stream = format!("event: vendor.note\ndata: not json\n\n{}", body(&whole_answer()));
    let (_, result) = decode(&wire(), request(&[]), &[stream.as_bytes()]);
    assert_eq!(result, Ok(()));
    let (_, result) = decode(&wire(), request(&[]), &[b"event: message_delta\ndata: not json\n\n"]);
    assert_eq!(result.expect_err("it is broken").class, FailureClass::Protocol);
}

#[test]
fn messages_5_bare_json_between_the_events_is_the_error_that_it_says() {
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "it broke"}});
    let stream = format!("{}{error:#}\n", body(&[start_text(), text(0, "Hi")]));
    let (events, result) = decode(&wire(), request(&[]), &[stream.as_bytes()]);
    assert_eq!(events, [ProviderEvent::Text("Hi".into())]);
    let failure = result.expect_err("it failed");
    assert_eq!(
        (failure.class, failure.said.as_str()),
        (FailureClass::Server, "it broke")
    );
}

#[test]
fn messages_10_the_output_is_bounded_where_nobody_says_how() {
    let body = wire().body(&request(&[]));
    assert_eq!(body["max_tokens"], MESSAGES_OUTPUT_TOKENS);
}
