//! The wire's state machine, quirk by quirk; names carry the number of the behaviour.

use super::*;
use crate::wire::decode;
use crate::{DATA_RULE, LabelMark, Message, ToolResult, ToolSpec};
use tool_config::{ProviderApi, Secret};
use tool_core::api::ProviderName;

fn wire_of(model: &str) -> GenerateContentWire {
    GenerateContentWire::new(&ProviderSettings {
        api_key: Some(Secret::new("key")),
        ..ProviderSettings::new(
            ProviderName::Hosted,
            ProviderApi::GenerateContent,
            "http://127.0.0.1:1",
            model,
        )
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

fn body(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

fn read(chunks: &[Value]) -> (Vec<ProviderEvent>, Result<(), ProviderFailure>) {
    decode(&wire_of("m"), request(&[]), &[body(chunks).as_bytes()])
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn text(text: &str) -> Value {
    parts(json!([{"text": text}]))
}

fn finished(reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason}]})
}

fn calls(events: &[ProviderEvent]) -> Vec<(&str, &str, &str)> {
    let calls = events.iter().filter_map(|event| match event {
        ProviderEvent::ToolCall(call) => Some((call.id.as_str(), call.name.as_str(), call.arguments.as_str())),
        _ => None,
    });
    calls.collect()
}

fn stop(events: &[ProviderEvent]) -> (StopReason, &Value) {
    match events.last() {
        Some(ProviderEvent::Stop { reason, opaque }) => (*reason, opaque),
        other => panic!("no stop but {other:?}"),
    }
}

fn usage(events: &[ProviderEvent]) -> Option<Usage> {
    events.iter().find_map(|event| match event {
        ProviderEvent::Usage(usage) => Some(*usage),
        _ => None,
    })
}

#[test]
fn generate_content_19_the_path_names_the_model_and_nothing_else() {
    for (model, expected) in [
        ("gem-1.5", "/v1beta/models/gem-1.5:streamGenerateContent?alt=sse"),
        ("models/gem-1.5", "/v1beta/models/gem-1.5:streamGenerateContent?alt=sse"),
        (
            "../x?key=1#",
            "/v1beta/models/..%2Fx%3Fkey%3D1%23:streamGenerateContent?alt=sse",
        ),
    ] {
        assert_eq!(wire_of(model).path(), expected);
    }
    assert_eq!(
        wire_of("m").headers(Some("key")),
        [("x-goog-api-key", "key".to_owned())]
    );
    assert_eq!(wire_of("m").headers(None), []);
    assert!(wire_of("m").models_path().starts_with("/v1beta/models"));
}

#[test]
fn generate_content_19_calls_come_whole_without_ids_and_several_in_one_list() {
    let (events, result) = read(&[
        text("Let me look."),
        parts(json!([
            {"functionCall": {"name": "read_file", "args": {"path": "a"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "list_files"}},
            {"functionCall": {"name": "list_files", "args": null, "id": "given id"}},
        ])),
        finished("STOP"),
    ]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        calls(&events),
        [
            ("call_0_0", "read_file", "{\"path\":\"a\"}"),
            ("call_0_1", "list_files", "{}"),
            ("given_id", "list_files", "{}"),
        ]
    );
    assert_eq!(stop(&events).0, StopReason::ToolUse);
}

#[test]
fn generate_content_19_made_up_ids_are_unique_in_the_conversation() {
    let earlier = [Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "call_1_0".into(),
            name: "list_files".into(),
            arguments: "{}".into(),
        }],
        opaque: Value::Null,
    }];
    let stream = body(&[
        parts(json!([{"functionCall": {"name": "list_files"}}])),
        finished("STOP"),
    ]);
    let (events, _) = decode(&wire_of("m"), request(&earlier), &[stream.as_bytes()]);
    assert_eq!(calls(&events)[0].0, "call_1_0_1");
}

#[test]
fn generate_content_19_thinking_is_not_answer_text() {
    let (events, _) = read(&[
        parts(json!([{"text": "Hm.", "thought": true}, {"text": "Yes"}])),
        text("."),
        finished("STOP"),
    ]);
    assert_eq!(
        events[..3],
        [
            ProviderEvent::Reasoning("Hm.".into()),
            ProviderEvent::Text("Yes".into()),
            ProviderEvent::Text(".".into())
        ]
    );
    assert_eq!(
        stop(&events),
        (StopReason::EndTurn, &json!({"parts": [{"text": "Yes."}]}))
    );
}

#[test]
fn generate_content_19_signatures_go_back_in_the_very_part_they_came_with() {
    let signed = json!({"text": "", "thoughtSignature": "bGFzdA=="});
    let call = json!({"functionCall": {"name": "read_file", "args": {"b": 1, "a": 2}}, "thoughtSignature": "c2ln"});
    let (events, _) = read(&[
        parts(json!([{"text": "Hm.", "thought": true}])),
        parts(json!([{"text": "Why", "thought": true, "thoughtSignature": "dGg="}])),
        text("One "),
        text("two."),
        parts(json!([call, {"functionCall": {"name": "list_files", "args": {}}}])),
        parts(json!([signed])),
        finished("STOP"),
    ]);
    let kept = json!([
        {"text": "Why", "thought": true, "thoughtSignature": "dGg="},
        {"text": "One two."},
        call,
        {"functionCall": {"name": "list_files", "args": {}}},
        signed,
    ]);
    let (_, opaque) = stop(&events);
    assert_eq!(opaque["parts"], kept);
    let again = Message::Assistant {
        text: "ignored".into(),
        tool_calls: vec![],
        opaque: opaque.clone(),
    };
    let sent = wire_of("m").body(&request(&[again]));
    assert_eq!(sent["contents"][0], json!({"role": "model", "parts": kept}));
}

#[test]
fn generate_content_19_a_request_as_it_is_sent() {
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: "read_file".into(),
        arguments: "{}".into(),
    };
    let result = |id: &str, is_error| ToolResult {
        call_id: id.into(),
        name: "read_file".into(),
        text: "x".into(),
        is_error,
        origin: crate::TextOrigin::Repository,
    };
    let asked = json!([
        {"functionCall": {"name": "read_file", "args": {}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "odd id", "name": "read_file", "args": {}}},
    ]);
    let conversation = [
        Message::User { text: "hello".into() },
        Message::User { text: " ".into() },
        Message::Assistant {
            text: String::new(),
            tool_calls: vec![call("call_1_0"), call("odd_id")],
            opaque: json!({"parts": asked}),
        },
        Message::ToolResults {
            results: vec![result("call_1_0", false), result("odd_id", true)],
        },
        Message::User {
            text: "Answer now.".into(),
        },
    ];
    let tools = [ToolSpec {
        name: "read_file".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}}),
    }];
    let body = wire_of("m").body(&ModelRequest {
        tools: &tools,
        max_tokens: Some(9),
        ..request(&conversation)
    });
    let output = "<tool-output-0000000000000007 tool=\"read_file\" status=\"ok\" origin=\"repository\">\nx\n</tool-output-0000000000000007>";
    let error = output.replace("ok", "error");
    assert_eq!(
        body,
        json!({
            "contents": [
                {"role": "user", "parts": [{"text": "hello"}]},
                {"role": "model", "parts": asked},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "read_file", "response": {"output": output}}},
                    {"functionResponse": {"id": "odd id", "name": "read_file", "response": {"error": error}}},
                    {"text": "Answer now."},
                ]},
            ],
            "systemInstruction": {"parts": [{"text": format!("Be brief.\n\n{DATA_RULE}")}]},
            "tools": [{"functionDeclarations": [{
                "name": "read_file",
                "description": "Reads.",
                "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING", "nullable": true}}},
            }]}],
            "generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {"includeThoughts": true}},
        })
    );
    let plain = wire_of("m").body(&request(&[Message::User { text: "hello".into() }]));
    let keys: Vec<&String> = plain.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["contents", "systemInstruction", "generationConfig"]);
}

#[test]
fn generate_content_19_finish_reasons() {
    for (reason, expected) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("SPII", StopReason::Refusal),
        ("BLOCKLIST", StopReason::Refusal),
        ("LANGUAGE", StopReason::Refusal),
    ] {
        let (events, _) = read(&[text("Hi"), finished(reason)]);
        assert_eq!(stop(&events).0, expected, "{reason}");
        let told = events
            .iter()
            .any(|event| matches!(event, ProviderEvent::Notice(notice) if notice.ends_with(reason)));
        assert_eq!(
            told,
            expected == StopReason::Refusal,
            "{reason}: the user sees which filter it was"
        );
    }
    for reason in ["OTHER", "MISSING_THOUGHT_SIGNATURE", "SOMETHING_NEW"] {
        let (_, result) = read(&[text("Hi"), finished(reason)]);
        let failure = result.expect_err("it is no proper end");
        assert_eq!(failure.said, format!("the server ended it with `{reason}`"));
    }
}

#[test]
fn generate_content_19_a_prompt_that_is_blocked() {
    let (events, result) = read(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        events[0],
        ProviderEvent::Notice("The provider's filter ended the answer: SAFETY".into())
    );
    assert_eq!(stop(&events), (StopReason::Refusal, &Value::Null));
}

#[test]
fn generate_content_14_calls_of_an_answer_that_was_cut_off_or_filtered_do_not_run() {
    let call = || parts(json!([{"functionCall": {"name": "write_file", "args": {"path": "a"}}}]));
    let (events, _) = read(&[call(), finished("MAX_TOKENS")]);
    assert_eq!(calls(&events), []);
    assert!(events.contains(&ProviderEvent::CutOffCall {
        name: "write_file".into(),
        arguments: "{\"path\":\"a\"}".into(),
    }));
    let (events, _) = read(&[call(), finished("SAFETY")]);
    assert_eq!((calls(&events), stop(&events).0), (vec![], StopReason::Refusal));
}

#[test]
fn generate_content_15_a_call_that_the_vendor_could_not_read_is_told_and_never_guessed() {
    let said = "Malformed function call: print(default_api.read_file(path=)";
    let broken = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": said}]});
    let (events, result) = read(&[text("Hm. "), broken]);
    assert_eq!(result, Ok(()));
    assert!(
        events.contains(&ProviderEvent::BrokenCall { said: said.into() }),
        "{events:?}"
    );
    assert_eq!(calls(&events), []);
}

#[test]
fn generate_content_12_usage_counts_the_cache_the_thoughts_and_comes_in_odd_forms() {
    let with = |mut chunk: Value, usage: Value| {
        chunk["usageMetadata"] = usage;
        chunk
    };
    let (events, _) = read(&[
        with(text("a"), json!({"promptTokenCount": 50, "totalTokenCount": 50})),
        with(
            finished("STOP"),
            json!({
                "promptTokenCount": 50, "cachedContentTokenCount": 40, "candidatesTokenCount": 7,
                "thoughtsTokenCount": 30, "toolUsePromptTokenCount": 5, "totalTokenCount": 92,
            }),
        ),
        json!({"usageMetadata": {"totalTokenCount": 92}}),
    ]);
    let expected = Usage {
        input_tokens: 55,
        cached_tokens: 40,
        output_tokens: 37,
        ..Usage::default()
    };
    assert_eq!(usage(&events), Some(expected));
    // Never: the loop estimates. No output though there is some: that part is estimated, and marked.
    assert_eq!(usage(&read(&[text("Hi"), finished("STOP")]).0), None);
    let (events, _) = read(&[text("eight by"), with(finished("STOP"), json!({"promptTokenCount": 4}))]);
    let usage = usage(&events).expect("it was reported");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (4, 2, true));
}

#[test]
fn generate_content_3_a_stream_without_its_end_is_an_error_and_its_calls_do_not_run() {
    let call = parts(json!([{"functionCall": {"name": "read_file", "args": {}}}]));
    for chunks in [vec![text("Hi")], vec![call]] {
        let (events, result) = read(&chunks);
        assert_eq!(result.expect_err("it has no end").class, FailureClass::Protocol);
        assert_eq!(calls(&events), []);
    }
    assert_eq!(read(&[]).1.expect_err("it is empty").class, FailureClass::Empty);
}

#[test]
fn generate_content_5_errors_inside_the_stream_in_every_form() {
    let error =
        json!({"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}});
    for stream in [
        body(&[text("Hi"), error.clone()]),
        body(&[text("Hi"), json!([error])]),
        format!("{}{error:#}\r\n", body(&[text("Hi")])),
        format!("{}[{error:#}]\r\n", body(&[text("Hi")])),
    ] {
        let (events, result) = decode(&wire_of("m"), request(&[]), &[stream.as_bytes()]);
        let failure = result.expect_err("it failed");
        assert_eq!(
            (failure.class, failure.status),
            (FailureClass::RateLimit, Some(429)),
            "{stream}"
        );
        assert_eq!(events, [ProviderEvent::Text("Hi".into())]);
    }
}

#[test]
fn generate_content_24_what_the_vendor_says_about_a_failure() {
    let seconds = std::time::Duration::from_secs_f64;
    let quota = json!([{"error": {
        "code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ],
    }}]);
    let failure = ProviderFailure::from_answer(429, &quota.to_string(), None);
    assert_eq!(
        (failure.class, failure.retry_after),
        (FailureClass::RateLimit, Some(seconds(34.5)))
    );
    for (status, message, class) in [
        (
            400,
            "API key not valid. Please pass a valid API key.",
            FailureClass::Authentication,
        ),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            FailureClass::Overflow,
        ),
        (
            404,
            "models/m is not found for API version v1beta, or is not supported for generateContent.",
            FailureClass::UnknownModel,
        ),
        (
            503,
            "The model is overloaded. Please try again later.",
            FailureClass::Server,
        ),
        (
            400,
            "Function call is missing a thought_signature",
            FailureClass::Rejected,
        ),
    ] {
        let body = json!({"error": {"code": status, "message": message, "status": "X"}});
        let failure = ProviderFailure::from_answer(status, &body.to_string(), None);
        assert_eq!(failure.class, class, "{message}");
        if class == FailureClass::Overflow {
            assert_eq!(failure.context_tokens, Some(1_048_576));
        }
    }
}

#[test]
fn generate_content_2_unknown_parts_and_fields_are_ignored_and_other_candidates_too() {
    let (events, result) = read(&[
        json!({"candidates": [
            {"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "SAFETY"},
            {"index": 0, "content": {"parts": [{"text": "Hi", "new": 1}, {"executableCode": {"code": "x"}}]}},
        ], "new": {}}),
        json!({"candidates": null}),
        json!({"candidates": [{"content": {}}]}),
        finished("STOP"),
    ]);
    assert_eq!(result, Ok(()));
    assert_eq!(events[0], ProviderEvent::Text("Hi".into()));
    assert_eq!(stop(&events).0, StopReason::EndTurn);
}
