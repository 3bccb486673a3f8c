//! Scripts as data, and the bytes of each wire.

mod refusals;
mod serving;

use serde_json::json;

use super::chat::Chat;
use super::dialect::{BodyAction, Dialect, RoundContext, encode_whole, stream_round};
use super::generate_content::GenerateContent;
use super::messages::Messages;
use super::responses::Responses;
use super::*;
use tool_core::api::ErrorKind;

fn script(text: &str) -> Script {
    Script::parse(text).expect("the script is valid")
}

fn round(steps: Value) -> Round {
    let script = json!({"rounds": [{"steps": steps}]});
    self::script(&script.to_string()).rounds.remove(0)
}

fn telling(round: &Round) -> RoundContext<'_> {
    RoundContext {
        round,
        number: 0,
        model: "tiny",
        request_tokens: 7,
    }
}

fn sent(actions: Vec<BodyAction>) -> String {
    let text = actions.into_iter().map(|action| match action {
        BodyAction::Send(text) => text,
        other => format!("<{other:?}>"),
    });
    text.collect()
}

/// The bytes of a round, without the line ends that a snapshot cannot show.
fn bytes(dialect: &dyn Dialect, steps: Value) -> String {
    sent(stream_round(dialect, telling(&round(steps)))).replace('\r', "")
}

fn at_once(dialect: &dyn Dialect, steps: Value) -> String {
    sent(encode_whole(dialect, telling(&round(steps))))
}

fn conversation() -> Value {
    json!([
        {"reasoning": "Hm."},
        {"pieces": ["Let me ", "look."]},
        {"tool_calls": [
            {"name": "read_file", "arguments": {"path": "a.py"}, "pieces": 2},
            {"name": "list_files", "arguments": {}},
        ]},
        {"usage": {"input": 90, "output": 12, "cached": 40}},
    ])
}

#[test]
fn chat_is_told_in_chunks() {
    insta::assert_snapshot!(bytes(&Chat, conversation()), @r#"
    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"content":"Let me "},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"content":"look."},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0_0","type":"function","function":{"name":"read_file","arguments":"{\"path\""}}]},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"a.py\"}"}}]},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_0_1","type":"function","function":{"name":"list_files","arguments":"{}"}}]},"logprobs":null,"finish_reason":null}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]}

    data: {"id":"chatcmpl-script-0","object":"chat.completion.chunk","created":1760000000,"model":"tiny","choices":[],"usage":{"prompt_tokens":90,"completion_tokens":12,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":40}}}

    data: [DONE]
    "#);
}

#[test]
fn messages_are_told_in_numbered_blocks() {
    insta::assert_snapshot!(bytes(&Messages, conversation()), @r#"
    event: message_start
    data: {"type":"message_start","message":{"id":"msg_script_0","type":"message","role":"assistant","model":"tiny","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":50,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":1,"service_tier":"standard"}}}

    event: content_block_start
    data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

    event: ping
    data: {"type":"ping"}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":0}

    event: content_block_start
    data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me "}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":1}

    event: content_block_start
    data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_0_0","name":"read_file","input":{}}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\"a.py\"}"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":2}

    event: content_block_start
    data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_0_1","name":"list_files","input":{}}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":3}

    event: message_delta
    data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":50,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":12}}

    event: message_stop
    data: {"type":"message_stop"}
    "#);
}

#[test]
fn responses_are_told_in_items() {
    let told = bytes(&Responses, conversation());
    let events: Vec<Value> = told
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    response.created
    response.in_progress
    response.output_item.added
    response.reasoning_summary_part.added
    response.reasoning_summary_text.delta
    response.reasoning_summary_text.done
    response.reasoning_summary_part.done
    response.output_item.done
    response.output_item.added
    response.content_part.added
    response.output_text.delta
    response.output_text.delta
    response.output_text.done
    response.content_part.done
    response.output_item.done
    response.output_item.added
    response.function_call_arguments.delta
    response.function_call_arguments.delta
    response.function_call_arguments.done
    response.output_item.done
    response.output_item.added
    response.function_call_arguments.delta
    response.function_call_arguments.done
    response.output_item.done
    response.completed
    ");
    let numbers = events.iter().map(|event| event["sequence_number"].as_u64());
    assert!(
        numbers.eq((0..events.len() as u64).map(Some)),
        "each event has the next number"
    );
    let done = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<&Value> = done.map(|event| &event["item"]).collect();
    let completed = events.last().expect("a stream has an end");
    let output = completed["response"]["output"].as_array().expect("a list");
    assert!(items.iter().copied().eq(output), "the end repeats the items");
    insta::assert_snapshot!(json!(items), @r#"[{"id":"rs_0_0","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"},{"id":"msg_0_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Let me look.","annotations":[],"logprobs":[]}]},{"id":"fc_0_0","type":"function_call","status":"completed","call_id":"call_0_0","name":"read_file","arguments":"{\"path\":\"a.py\"}"},{"id":"fc_0_1","type":"function_call","status":"completed","call_id":"call_0_1","name":"list_files","arguments":"{}"}]"#);
    insta::assert_snapshot!(completed["response"]["usage"], @r#"{"input_tokens":90,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":0},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":102}"#);
}

#[test]
fn generate_content_is_told_in_partial_responses() {
    insta::assert_snapshot!(bytes(&GenerateContent, conversation()), @r#"
    data: {"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":"Let me "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":"look."}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"read_file","args":{"path":"a.py"}},"thoughtSignature":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"},{"functionCall":{"name":"list_files","args":{}}}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":90,"candidatesTokenCount":12,"totalTokenCount":102,"cachedContentTokenCount":40},"modelVersion":"tiny","responseId":"script-0"}
    "#);
    assert!(sent(stream_round(&GenerateContent, telling(&round(conversation())))).contains("}\r\n\r\ndata: "));
}

#[test]
fn each_wire_says_an_answer_at_once_too() {
    insta::assert_snapshot!(at_once(&Chat, conversation()), @r#"{"id":"chatcmpl-script-0","object":"chat.completion","created":1760000000,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"Let me look.","refusal":null,"reasoning_content":"Hm.","tool_calls":[{"id":"call_0_0","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.py\"}"}},{"id":"call_0_1","type":"function","function":{"name":"list_files","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":90,"completion_tokens":12,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":40}}}"#);
    insta::assert_snapshot!(at_once(&Messages, conversation()), @r#"{"id":"msg_script_0","type":"message","role":"assistant","model":"tiny","content":[{"type":"thinking","thinking":"Hm.","signature":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"},{"type":"text","text":"Let me look."},{"type":"tool_use","id":"toolu_0_0","name":"read_file","input":{"path":"a.py"}},{"type":"tool_use","id":"toolu_0_1","name":"list_files","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":50,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":12,"service_tier":"standard"}}"#);
    insta::assert_snapshot!(at_once(&GenerateContent, conversation()), @r#"{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true},{"text":"Let me look."},{"functionCall":{"name":"read_file","args":{"path":"a.py"}},"thoughtSignature":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"},{"functionCall":{"name":"list_files","args":{}}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":90,"candidatesTokenCount":12,"totalTokenCount":102,"cachedContentTokenCount":40},"modelVersion":"tiny","responseId":"script-0"}"#);
}

#[test]
fn an_error_inside_the_stream_has_the_wires_shape() {
    let steps = json!([{"text": "It"}, {"error": 529}]);
    let last = |dialect: &dyn Dialect| {
        let bytes = bytes(dialect, steps.clone());
        bytes.trim_end().rsplit("\n\n").next().map(str::to_owned)
    };
    insta::assert_snapshot!(last(&Chat).unwrap_or_default(), @r#"data: {"error":{"message":"The engine is currently overloaded, please try again later.","type":"server_error","param":null,"code":"overloaded"}}"#);
    insta::assert_snapshot!(last(&Messages).unwrap_or_default(), @r#"
    event: error
    data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_script"}
    "#);
    insta::assert_snapshot!(last(&GenerateContent).unwrap_or_default(), @r#"data: {"error":{"code":529,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#);
    let own = bytes(
        &Messages,
        json!([{"error": {"type": "overloaded_error", "message": "busy"}}]),
    );
    insta::assert_snapshot!(own, @r#"
    event: error
    data: {"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"req_script"}
    "#);
    assert!(bytes(&Chat, json!([{"error": "no upstream"}])).contains(r#""message":"no upstream""#));
}

#[test]
fn faults_that_only_the_stream_shows() {
    // A call that the output limit cut off, in each wire's own word.
    let cut =
        json!([{"tool_calls": [{"name": "write_file", "arguments": "{\"path\": \"a"}]}, {"finish": "length"}, "done"]);
    let chat = bytes(&Chat, cut.clone());
    assert!(chat.contains(r#""arguments":"{\"path\": \"a""#), "{chat}");
    assert!(
        chat.contains(r#""finish_reason":"length""#) && chat.ends_with("data: [DONE]\n\n"),
        "{chat}"
    );
    let messages = bytes(&Messages, cut.clone());
    assert!(messages.contains(r#""partial_json":"{\"path\": \"a""#), "{messages}");
    assert!(messages.contains(r#""stop_reason":"max_tokens""#), "{messages}");
    let generate_content = bytes(&GenerateContent, cut);
    assert!(
        generate_content.contains(r#""finishReason":"MAX_TOKENS""#),
        "{generate_content}"
    );
    assert!(
        !generate_content.contains("functionCall"),
        "a call comes whole or not at all"
    );

    // A missing end mark, a missing id and an empty one.
    assert!(!bytes(&Chat, json!([{"text": "a"}, {"finish": "stop"}])).contains("[DONE]"));
    assert!(!bytes(&Messages, json!([{"text": "a"}, {"finish": "stop"}])).contains("message_stop"));
    let call = |fields: Value| {
        let mut call = json!({"name": "x", "arguments": {}});
        call.as_object_mut()
            .into_iter()
            .for_each(|call| call.extend(fields.as_object().cloned().unwrap_or_default()));
        json!([{"tool_calls": [call]}])
    };
    for (dialect, key) in [(&Chat as &dyn Dialect, "call_0_0"), (&Messages, "toolu_0_0")] {
        assert!(bytes(dialect, call(json!({}))).contains(key));
        assert!(bytes(dialect, call(json!({"id": ""}))).contains(r#""id":"""#));
        let without = bytes(dialect, call(json!({"no_id": true})));
        assert!(!without.contains(key) && !without.contains(r#""id":"""#), "{without}");
    }
    assert!(bytes(&GenerateContent, call(json!({"id": "f1"}))).contains(r#""functionCall":{"id":"f1","name":"x""#));

    // A call as text; bytes, comments and breaks as they are, and nothing before them.
    let text = bytes(&Chat, json!([{"text_call": {"name": "x", "arguments": {"a": 1}}}]));
    assert!(
        text.contains(r#"<tool_call>\n{\"name\":\"x\",\"arguments\":{\"a\":1}}\n</tool_call>"#),
        "{text}"
    );
    for dialect in [&Chat as &dyn Dialect, &Messages, &GenerateContent, &Responses] {
        assert_eq!(
            bytes(dialect, json!([{"comment": "ping"}, {"raw": "x"}, "stall"])),
            ": ping\n\nx<Stall>"
        );
        assert_eq!(bytes(dialect, json!([{"delay_ms": 3}, "reset"])), "<WaitMs(3)><Reset>");
        assert_eq!(bytes(dialect, json!(["end"])), "");
    }
}

#[test]
fn a_script_is_data() {
    let script = script(
        r#"{"rounds": [
            {"steps": [{"text": "a"}, {"gate": "g"}, {"tool_calls": [{"name": "x", "arguments": {}, "pieces": 2}]},
                       {"finish": "tool_calls"}, "done"], "split_bytes": 1},
            {"steps": [{"status": 503}]},
            {"steps": [{"status": {"code": 429, "headers": {"x-a": "1"}, "body": {"error": "slow"}}}]},
            {"steps": [{"status": {"code": 429, "retry_after": 2}}]},
            {"steps": [{"status": {"code": 429, "retry_after": 0.25, "message": "slow"}}]},
            {"steps": [{"status": {"code": 429, "retry_after": "7s"}}]},
            {"steps": [{"status": {"code": 429, "retry_after": {"ms": 150}}}]},
            {"steps": [{"status": {"code": 429, "retry_after": {"date_in": 1}}}]},
            {"steps": [{"status": {"code": 429, "retry_after": {"body": 0.5}}}]}]}"#,
    );
    assert_eq!(script.models, ["scripted"]);
    assert!(script.strict && !script.repeat);
    assert_eq!(script.rounds[0].steps[1], ServerStep::Gate("g".into()));
    assert_eq!(script.rounds[0].steps[4], ServerStep::Done);
    assert_eq!(script.rounds[1], Round::status(503, Value::Null));
    let waits = script.rounds.iter().filter_map(|round| match round.steps.first() {
        Some(ServerStep::Status(status)) => status.retry_after.clone(),
        _ => None,
    });
    let waits: Vec<_> = waits.collect();
    assert_eq!(
        waits,
        [
            RetryAfter::Seconds(2.0),
            RetryAfter::Seconds(0.25),
            RetryAfter::Header("7s".into()),
            RetryAfter::Ms(150),
            RetryAfter::DateIn(1),
            RetryAfter::Body(0.5)
        ]
    );
    let again = self::script(&json!(script).to_string());
    assert_eq!(again, script, "what is written can be read");
}

#[test]
fn a_wrong_script_says_where_and_what_was_meant() {
    let said = |text: &str| {
        let problem = Script::parse(text).expect_err("the script is wrong");
        assert_eq!(problem.kind, ErrorKind::ConfigScript);
        format!("{}\n{}", problem.message, problem.hint.unwrap_or_default())
    };
    insta::assert_snapshot!(said("{\"rounds\": [{\"steps\": [\n  {\"txt\": \"hello\"}]}]}"), @r"
    The script is not valid: unknown variant `txt`, expected one of `text`, `pieces`, `text_call`, `reasoning`, `tool_calls`, `usage`, `finish`, `done`, `delay_ms`, `gate`, `comment`, `frame`, `raw`, `error`, `end`, `stall`, `reset`, `status`
    line 2, column 8; did you mean `text`?
    ");
    insta::assert_snapshot!(said("{\"rounds\": [],\n \"repeats\": true}"), @r"
    The script is not valid: unknown field `repeats`, expected one of `rounds`, `models`, `repeat`, `per_conversation`, `strict`, `vendor`, `get`, `bytes_per_token`, `ollama_context`
    line 2, column 10; did you mean `repeat`?
    ");
    insta::assert_snapshot!(said(r#"{"rounds": [{"steps": [{"status": {"code": 429, "retry-after": 1}}]}]}"#), @r"
    The script is not valid: unknown field `retry-after`, expected one of `code`, `retry_after`, `headers`, `message`, `body`
    line 1, column 61; did you mean `retry_after`?
    ");
    insta::assert_snapshot!(said(r#"{"rounds": [{"steps": [{"status": {"code": 429, "retry_after": {"sec": 1}}}]}]}"#), @r"
    The script is not valid: unknown variant `sec`, expected one of `seconds`, `ms`, `date_in`, `body`, `header`
    line 1, column 69; `tool dev model-server --example` prints a script that works
    ");
    insta::assert_snapshot!(said(r#"{"rounds": [{"steps": [{"tool_calls": [{"nam": "x"}]}]}]}"#), @r"
    The script is not valid: unknown field `nam`, expected one of `name`, `arguments`, `id`, `no_id`, `pieces`
    line 1, column 45; did you mean `name`?
    ");
    insta::assert_snapshot!(said("{\"rounds\": [}"), @r"
    The script is not valid: expected value
    line 1, column 13; `tool dev model-server --example` prints a script that works
    ");
    insta::assert_snapshot!(said("{}"), @r"
    The script is not valid: missing field `rounds`
    line 1, column 2; `tool dev model-server --example` prints a script that works
    ");
}
