//! The Responses wire, request and answer.

use serde_json::{Value, json};

use super::*;
use crate::wire::decode;
use crate::{DATA_RULE, LabelMark, Message, TextOrigin, ToolResult, ToolSpec};
use tool_config::ProviderApi;
use tool_core::api::ProviderName;

fn wire() -> ResponsesWire {
    ResponsesWire::new(&ProviderSettings::new(
        ProviderName::Hosted,
        ProviderApi::Responses,
        "http://127.0.0.1:1/v1",
        "gpt-5.6",
    ))
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
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn read(events: &[Value]) -> (Vec<ProviderEvent>, Result<(), ProviderFailure>) {
    decode(&wire(), request(&[]), &[body(events).as_bytes()])
}

fn done(place: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

fn completed_with(output: &Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "read_file", "arguments": arguments,
        "status": "completed"})
}

fn reasoning(encrypted: Value) -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted})
}

fn opaque(events: &[ProviderEvent]) -> Value {
    match events.last() {
        Some(ProviderEvent::Stop { opaque, .. }) => opaque.clone(),
        other => panic!("no stop but {other:?}"),
    }
}

fn calls(events: &[ProviderEvent]) -> Vec<(&str, &str)> {
    let calls = events.iter().filter_map(|event| match event {
        ProviderEvent::ToolCall(call) => Some((call.id.as_str(), call.arguments.as_str())),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_request_is_stateless_flat_and_not_strict() {
    let items = json!([reasoning(json!("gAAAA")), call("call_1", "{}")]);
    let conversation = [
        Message::User { text: "hello".into() },
        Message::Assistant {
            text: "ignored".into(),
            tool_calls: vec![],
            opaque: json!({"output": items}),
        },
        Message::ToolResults {
            results: vec![ToolResult {
                call_id: "call_1".into(),
                name: "read_file".into(),
                text: "x".into(),
                is_error: false,
                origin: TextOrigin::Repository,
            }],
        },
        Message::from_model("Done."),
    ];
    let tools = [ToolSpec {
        name: "read_file".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }];
    let sent = wire().body(&ModelRequest {
        tools: &tools,
        max_tokens: Some(9),
        ..request(&conversation)
    });
    let output = "<tool-output-0000000000000007 tool=\"read_file\" status=\"ok\" origin=\"repository\">\nx\n</tool-output-0000000000000007>";
    assert_eq!(
        sent,
        json!({
            "model": "gpt-5.6",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
                items[0],
                items[1],
                {"type": "function_call_output", "call_id": "call_1", "output": output},
                {"type": "message", "role": "assistant", "content": "Done."},
            ],
            "stream": true,
            "store": false,
            "instructions": format!("Be brief.\n\n{DATA_RULE}"),
            "tools": [{
                "type": "function",
                "name": "read_file",
                "description": "Reads.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": []},
                "strict": false,
            }],
            "parallel_tool_calls": true,
            "max_output_tokens": 16,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"summary": "auto"},
            "prompt_cache_key": LabelMark(7).cache_key(),
        })
    );
}

#[test]
fn items_go_back_whole_and_in_order_but_for_reasoning_that_is_not_encrypted() {
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary",
        "status": "completed", "content": [{"type": "output_text", "text": "Hm.", "annotations": []}], "new": 1});
    let unknown = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let items = [
        reasoning(json!("gAAAA")),
        message,
        reasoning(Value::Null),
        unknown,
        call("call_1", "{\"path\":\"a\"}"),
    ];
    let mut events: Vec<Value> = (0..).zip(&items).map(|(place, item)| done(place, item)).collect();
    // The whole comes in another order than the events; the places decide.
    events.reverse();
    events.push(completed_with(&json!([])));
    let (events, result) = read(&events);
    assert_eq!(result, Ok(()));
    let kept = json!([items[0], items[1], items[3], items[4]]);
    assert_eq!(opaque(&events)["output"], kept);
}

#[test]
fn arguments_that_are_no_object_go_back_as_an_empty_one() {
    for arguments in ["{\"path\": README.md}", "[1]", "", "\"a\""] {
        let (events, _) = read(&[done(0, &call("call_1", arguments)), completed_with(&json!([]))]);
        assert_eq!(opaque(&events)["output"][0]["arguments"], "{}", "{arguments}");
        let got = calls(&events)[0].1;
        assert_eq!(
            got,
            if arguments.is_empty() { "{}" } else { arguments },
            "the loop sees what came"
        );
    }
}

#[test]
fn call_ids_change_only_where_they_are_empty_or_repeated() {
    let odd = "call_1__thought__CiQB4KWEo+pZ/A==";
    let items = [call(odd, "{}"), call(odd, "{}"), call("", "{}")];
    let mut events: Vec<Value> = (0..).zip(&items).map(|(place, item)| done(place, item)).collect();
    events.push(completed_with(&json!([])));
    let (events, _) = read(&events);
    assert_eq!(calls(&events), [(odd, "{}"), ("call_0_1", "{}"), ("call_0_2", "{}")]);
    let kept = opaque(&events);
    let ids: Vec<_> = (0..3).map(|at| kept["output"][at]["call_id"].clone()).collect();
    assert_eq!(ids, [odd, "call_0_1", "call_0_2"]);
}

#[test]
fn a_server_that_does_not_stream_is_read_whole() {
    let text = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]});
    let whole = json!({"object": "response", "status": "completed", "error": null,
        "output": [reasoning(json!("gAAAA")), text, call("call_1", "{}")],
        "usage": {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}});
    let bytes = whole.to_string();
    let (events, result) = crate::fuzz::decode(&wire(), request(&[]), "application/json", &[bytes.as_bytes()]);
    assert_eq!(result, Ok(()));
    assert_eq!(events[0], ProviderEvent::Text("Hi.".into()));
    assert_eq!(calls(&events), [("call_1", "{}")]);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, ProviderEvent::Usage(usage) if usage.cached_tokens == 4))
    );
}

#[test]
fn calls_of_an_answer_that_was_cut_off_or_never_ended_do_not_run() {
    let begun = json!({"type": "response.output_item.added", "output_index": 1,
        "item": {"type": "function_call", "call_id": "b", "name": "write_file", "arguments": ""}});
    let piece = json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"pa"});
    let whole = done(0, &call("a", "{}"));
    let incomplete = json!({"type": "response.incomplete", "response": {"status": "incomplete", "output": [],
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let (events, result) = read(&[whole.clone(), begun.clone(), piece.clone(), incomplete]);
    assert_eq!((result, calls(&events)), (Ok(()), vec![]));
    let cut_off = events.iter().filter_map(|event| match event {
        ProviderEvent::CutOffCall { name, arguments } => Some((name.as_str(), arguments.as_str())),
        _ => None,
    });
    assert_eq!(
        cut_off.collect::<Vec<_>>(),
        [("read_file", "{}"), ("write_file", "{\"pa")]
    );
    let (events, result) = read(&[whole, begun, piece, completed_with(&json!([]))]);
    assert_eq!(result.expect_err("a call is open").class, FailureClass::Protocol);
    assert_eq!(calls(&events), []);
}

#[test]
fn failures_come_in_every_form() {
    let failed = |error: Value| {
        json!({"type": "response.failed", "response": {"status": "failed", "error": error,
        "instructions": "rate limit, chat template, context length: words of the request"}})
    };
    for (event, class) in [
        (
            failed(json!({"code": "server_error", "message": "An error occurred"})),
            FailureClass::Server,
        ),
        (
            failed(json!({"code": "rate_limit_exceeded", "message": "Slow down"})),
            FailureClass::RateLimit,
        ),
        (
            failed(json!({"code": "context_length_exceeded", "message": "Too long"})),
            FailureClass::Overflow,
        ),
        (
            failed(json!({"code": "invalid_prompt", "message": "No"})),
            FailureClass::Rejected,
        ),
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down"}),
            FailureClass::RateLimit,
        ),
        (
            json!({"type": "error", "error": {"type": "server_error", "message": "Oops"}}),
            FailureClass::Server,
        ),
        (json!({"error": {"code": 503, "message": "Oops"}}), FailureClass::Server),
    ] {
        let (_, result) = read(std::slice::from_ref(&event));
        assert_eq!(result.expect_err("it failed").class, class, "{event}");
    }
}

#[test]
fn a_field_that_the_model_refuses_is_dropped_once() {
    let refused = |said: &str| ProviderFailure {
        status: Some(400),
        ..ProviderFailure::new(FailureClass::Rejected, said)
    };
    let wire = wire();
    let encrypted = refused("Encrypted content is not supported with this model.");
    let summary = refused("Unsupported parameter: 'reasoning.summary' is not supported with the 'gpt-4o' model.");
    assert_eq!(wire.adapt(&encrypted), Some(Adaptation::Silent));
    assert_eq!(wire.adapt(&summary), Some(Adaptation::Silent));
    assert_eq!(wire.adapt(&encrypted), None, "once");
    assert_eq!(wire.adapt(&refused("Invalid 'input[3].id'")), None);
    let sent = wire.body(&request(&[]));
    assert_eq!((&sent["include"], &sent["reasoning"]), (&Value::Null, &Value::Null));
    assert_eq!(sent["store"], false);
}
