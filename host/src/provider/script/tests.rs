//! Scripts as data, the bytes of each wire, what is refused, and the server over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use super::chat::Chat;
use super::dialect::{Action, Dialect, HasHeader, Incoming, Telling, stream, whole};
use super::generate_content::GenerateContent;
use super::messages::Messages;
use super::*;

fn script(text: &str) -> Script {
    Script::parse(text).expect("the script is valid")
}

fn round(steps: Value) -> Round {
    let script = json!({"rounds": [{"steps": steps}]});
    self::script(&script.to_string()).rounds.remove(0)
}

fn telling(round: &Round) -> Telling<'_> {
    Telling {
        round,
        number: 0,
        model: "tiny",
        request_tokens: 7,
    }
}

fn sent(actions: Vec<Action>) -> String {
    let text = actions.into_iter().map(|action| match action {
        Action::Send(text) => text,
        other => format!("<{other:?}>"),
    });
    text.collect()
}

/// The bytes of a round, without the line ends that a snapshot cannot show.
fn bytes(dialect: &dyn Dialect, steps: Value) -> String {
    sent(stream(dialect, telling(&round(steps)))).replace('\r', "")
}

fn at_once(dialect: &dyn Dialect, steps: Value) -> String {
    sent(whole(dialect, telling(&round(steps))))
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
fn generate_content_is_told_in_partial_responses() {
    insta::assert_snapshot!(bytes(&GenerateContent, conversation()), @r#"
    data: {"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":"Let me "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":"look."}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"read_file","args":{"path":"a.py"}},"thoughtSignature":"ScriptedSign6e72d95cb4b4fe164ee677f8ddce4bde2e5af04e9e282ccd4a2a17fa6ec71d81"},{"functionCall":{"name":"list_files","args":{}}}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":90,"totalTokenCount":90},"modelVersion":"tiny","responseId":"script-0"}

    data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":90,"candidatesTokenCount":12,"totalTokenCount":102,"cachedContentTokenCount":40},"modelVersion":"tiny","responseId":"script-0"}
    "#);
    assert!(sent(stream(&GenerateContent, telling(&round(conversation())))).contains("}\r\n\r\ndata: "));
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
    for dialect in [&Chat as &dyn Dialect, &Messages, &GenerateContent] {
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
    assert_eq!(script.rounds[0].steps[1], Step::Gate("g".into()));
    assert_eq!(script.rounds[0].steps[4], Step::Done);
    assert_eq!(script.rounds[1], Round::status(503, Value::Null));
    let waits = script.rounds.iter().filter_map(|round| match round.steps.first() {
        Some(Step::Status(status)) => status.retry_after.clone(),
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
        assert_eq!(problem.code, "config-script");
        format!("{}\n{}", problem.message, problem.hint.unwrap_or_default())
    };
    insta::assert_snapshot!(said("{\"rounds\": [{\"steps\": [\n  {\"txt\": \"hello\"}]}]}"), @r"
    The script is not valid: unknown variant `txt`, expected one of `text`, `pieces`, `text_call`, `reasoning`, `tool_calls`, `usage`, `finish`, `done`, `delay_ms`, `gate`, `comment`, `frame`, `raw`, `error`, `end`, `stall`, `reset`, `status`
    line 2, column 8; did you mean `text`?
    ");
    insta::assert_snapshot!(said("{\"rounds\": [],\n \"repeats\": true}"), @r"
    The script is not valid: unknown field `repeats`, expected one of `rounds`, `models`, `repeat`, `strict`, `get`
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

#[derive(Debug)]
struct AllHeaders;

impl HasHeader for AllHeaders {
    fn has_header(&self, _name: &str) -> bool {
        true
    }
}

fn refusal(dialect: &dyn Dialect, body: &Value) -> String {
    let request = Incoming {
        body,
        query: "alt=sse",
        streams: true,
        header: &AllHeaders,
    };
    let script = Script::new([round(conversation())]);
    match dialect.check(request, &script, 1) {
        Ok(()) => "taken".to_owned(),
        Err(reason) => reason,
    }
}

/// What a check says to each of some requests that differ in one place.
fn refusals(dialect: &dyn Dialect, body: &Value, changes: &[(&str, Value)]) -> String {
    assert_eq!(refusal(dialect, body), "taken");
    let said = changes.iter().map(|(pointer, value)| {
        let mut body = body.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match body.pointer_mut(parent).expect("the place exists") {
            Value::Array(entries) => entries[key.parse::<usize>().expect("an index")] = value.clone(),
            place => place[key] = value.clone(),
        }
        refusal(dialect, &body)
    });
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn messages_requests_are_held_to_the_wire() {
    let signed = super::dialect::signature("Hm.");
    let results = json!([
        {"type": "tool_result", "tool_use_id": "a", "content": "x", "is_error": false},
        {"type": "tool_result", "tool_use_id": "b", "content": "y"},
    ]);
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read_file", "description": "reads", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": signed},
                {"type": "tool_use", "id": "a", "name": "read_file", "input": {}},
                {"type": "tool_use", "id": "b", "name": "read_file", "input": {}},
            ]},
            {"role": "user", "content": results},
        ],
    });
    let split = json!([
        body["messages"][0], body["messages"][1],
        {"role": "user", "content": [results[0]]}, {"role": "user", "content": [results[1]]},
    ]);
    let text_first = json!([{"type": "text", "text": "so"}, results[0], results[1]]);
    insta::assert_snapshot!(refusals(&Messages, &body, &[
        ("/max_token", json!(1)),
        ("/max_tokens", json!(0)),
        ("/model", json!("")),
        ("/messages", json!([])),
        ("/messages/0/role", json!("system")),
        ("/messages/0/content/0/text", json!(" \n")),
        ("/messages/0/content/0", json!({"type": "poem"})),
        ("/messages/1/content/0/thinking", json!("Aha.")),
        ("/messages/1/content/1/id", json!("a b")),
        ("/messages/1/content/1/input", json!("{}")),
        ("/messages/2/content", json!([results[0]])),
        ("/messages/2/content", json!([results[0], results[1], results[1]])),
        ("/messages/2/content", text_first),
        ("/messages/2/content/0/tool_use_id", json!("z")),
        ("/messages/2/content/0/content", json!([{"type": "text", "text": ""}])),
        ("/messages", split),
        ("/messages", json!([body["messages"][0], body["messages"][1]])),
        ("/tools/0/name", json!("read file")),
        ("/tools/0/input_schema", json!({"type": "object", "anyOf": []})),
        ("/tools", json!([body["tools"][0], body["tools"][0]])),
        ("/messages/2/content", json!(results.as_array().into_iter().flatten().cycle().take(4).collect::<Vec<_>>())),
    ]), @r#"
    request.max_token: unknown field
    max_tokens: must be a positive integer
    model: must be non-empty and contain non-whitespace text
    messages: must not be empty
    messages.0.role: `system` is neither "user" nor "assistant"
    messages.0.content.0.text: must be non-empty and contain non-whitespace text
    messages.0.content.0.type: `poem` is unknown
    messages.1.content.0: thinking blocks in an assistant message cannot be modified; they must remain as they came
    messages.1.content.1.id: `a b` does not match ^[a-zA-Z0-9_-]+$
    messages.1.content.1.input: must be an object
    messages.2: the tool_use `b` has no tool_result immediately after it; all results of one message belong into the next
    messages.2: the ids of tool_result blocks: `b` must be unique
    messages.2: tool_result blocks must come first
    messages.2: unexpected tool_use_id in a tool_result block: `z`; each must have a tool_use block in the message before
    messages.2.content.0.content.0.text: must be non-empty and contain non-whitespace text
    messages.2: the tool_use `b` has no tool_result immediately after it; all results of one message belong into the next
    messages: the tool_use `a` of the last message has no tool_result: each tool_use block must have one in the next message
    tools.0.name: `read file` does not match ^[a-zA-Z0-9_-]{1,128}$
    tools.0.input_schema: does not support anyOf at the top level
    tools: the names: `read_file` must be unique
    messages.2: the ids of tool_result blocks: `a` must be unique
    "#);
    let mark = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let mut marked = body.clone();
    marked["messages"][0]["content"] = json!([mark, mark, mark, mark]);
    insta::assert_snapshot!(refusal(&Messages, &marked), @"A maximum of 4 blocks with cache_control may be provided. Found 5.");
}

#[test]
fn chat_requests_are_held_to_the_wire() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "read_file", "arguments": "{}"}});
    let tool = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    let body = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            tool,
            {"role": "assistant", "content": "done"},
        ],
    });
    let messages = &body["messages"];
    insta::assert_snapshot!(refusals(&Chat, &body, &[
        ("/max_output", json!(1)),
        ("/stream", json!(false)),
        ("/messages/1/role", json!("human")),
        ("/messages/1/text", json!("hello")),
        ("/messages/1/content", json!([{"type": "text", "text": ""}])),
        ("/messages/1/content", json!(null)),
        ("/messages/2/tool_calls", json!([])),
        ("/messages/2/tool_calls", json!([call, call])),
        ("/messages/2/tool_calls/0/id", json!("")),
        ("/messages/2/tool_calls/0/function/arguments", json!({})),
        ("/messages/3/tool_call_id", json!("b")),
        ("/messages/4/content", json!("")),
        ("/messages", json!([messages[1], tool])),
        ("/messages", json!([messages[1], messages[2]])),
        ("/messages", json!([messages[1], messages[2], messages[1]])),
        ("/messages", json!([messages[1], messages[1]])),
        ("/messages", json!([messages[1], messages[0]])),
        ("/tools/0/function/name", json!("read.file")),
        ("/tools/0/function/parameters", json!({"type": ["object", "null"]})),
        ("/tools/0/type", json!("tool")),
    ]), @r#"
    request.max_output: unknown field
    stream_options: only allowed when `stream` is true
    messages.1.role: `human` is unknown
    messages.1.text: unknown field
    messages.1.content.0.text: must be non-empty and contain non-whitespace text
    messages.1.content: must be a list
    messages.2.tool_calls: must not be empty
    messages.2.tool_calls: the ids: `a` must be unique
    messages.2.tool_calls.0.id: `` does not match ^[a-zA-Z0-9_-]+$
    messages.2.tool_calls.0.function.arguments: must be a string
    messages.3: a message with role `tool` must be a response to a preceding message with `tool_calls`: `b` is not open
    messages.4: an assistant message needs content or `tool_calls`
    messages.1: a message with role `tool` must be a response to a preceding message with `tool_calls`: `a` is not open
    An assistant message with `tool_calls` must be followed by tool messages responding to each `tool_call_id`. Without a response: a
    An assistant message with `tool_calls` must be followed by tool messages responding to each `tool_call_id`. Without a response: a
    messages.1: conversation roles must alternate user/assistant/user/assistant
    messages.1: the system message must be at the beginning
    tools.0.function.name: `read.file` does not match ^[a-zA-Z0-9_-]{1,64}$
    tools.0.function.parameters.type: must be "object"
    tools.0.type: must be "function"
    "#);
}

#[test]
fn generate_content_requests_are_held_to_the_wire() {
    let signed = super::dialect::signature("Hm.");
    // As the script of these tests sent it.
    let first = json!({"functionCall": {"name": "read_file", "args": {"path": "a.py"}}, "thoughtSignature": signed});
    let second = json!({"functionCall": {"name": "list_files", "args": {}}});
    let answer = |name: &str| json!({"functionResponse": {"name": name, "response": {"output": "x"}}});
    let body = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [
            {"name": "read_file", "description": "reads",
             "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
            {"name": "list_files", "description": "lists"},
        ]}],
        "contents": [
            {"role": "user", "parts": [{"text": "hello"}]},
            {"role": "model", "parts": [first, second]},
            {"role": "user", "parts": [answer("read_file"), answer("list_files")]},
        ],
    });
    let contents = &body["contents"];
    let parameters = "/tools/0/functionDeclarations/0/parameters";
    insta::assert_snapshot!(refusals(&GenerateContent, &body, &[
        ("/stream", json!(true)),
        ("/contents", json!([])),
        ("/contents/0/role", json!("assistant")),
        ("/contents/0/parts", json!([])),
        ("/contents/0/parts/0", json!({})),
        ("/contents/0/parts/0/text", json!("")),
        ("/contents/1/parts/0", json!({"functionCall": {"name": "read_file", "args": {"path": "a.py"}}})),
        ("/contents/1/parts/0/thoughtSignature", json!("ScriptedSign00")),
        ("/contents/1/parts/0/functionCall/args", json!("{}")),
        ("/contents/2/parts", json!([answer("read_file")])),
        ("/contents/2/parts/0", answer("other")),
        ("/contents/2/parts/0/functionResponse/response", json!("x")),
        ("/contents", json!([contents[0], contents[1]])),
        ("/contents", json!([contents[0], contents[0]])),
        ("/contents", json!([contents[2]])),
        (&format!("{parameters}/$schema"), json!("x")),
        (&format!("{parameters}/additionalProperties"), json!(false)),
        (&format!("{parameters}/properties"), json!({})),
        (&format!("{parameters}/properties/path/type"), json!(["string", "null"])),
        (&format!("{parameters}/required"), json!(["place"])),
        ("/tools/0/functionDeclarations/1/name", json!("read_file")),
    ]), @r#"
    Invalid JSON payload received. Unknown name "stream" at 'request': Cannot find field.
    contents: must not be empty
    contents.0: please use a valid role: user, model.
    contents.0.parts: must not be empty
    contents.0.parts.0.data: required oneof field 'data' must have one initialized field
    contents.0.parts.0.text: must be non-empty and contain non-whitespace text
    contents: function call `read_file` is missing a thought_signature
    contents: the thought_signature of `read_file` is not valid
    Invalid value at 'contents.1.parts.0.function_call.args': must be an object
    contents.2: please ensure that the number of function response parts (1) is equal to the number of function call parts of the function call turn (2)
    contents.2: the function response "other" (null) does not answer the function call "read_file" (null)
    Invalid value at 'contents.2.parts.0.function_response.response': must be an object
    contents: a function call turn must be followed by a function response turn
    contents.1: roles must alternate between user and model, beginning with user
    contents.0: please ensure that function response turn comes immediately after a function call turn
    Invalid JSON payload received. Unknown name "$schema" at 'tools.0.function_declarations.0.parameters': Cannot find field.
    Invalid JSON payload received. Unknown name "additionalProperties" at 'tools.0.function_declarations.0.parameters': Cannot find field.
    tools.0.function_declarations.0.parameters.properties: should be non-empty for OBJECT type
    Invalid value at 'tools.0.function_declarations.0.parameters.properties[path].type': Proto field is not repeating, cannot start list.
    tools.0.function_declarations.0.parameters.required.0: property `place` is not defined
    tools.0.function_declarations: the names: `read_file` must be unique
    "#);
}

/// One exchange by hand; HTTP/1.0, so that the body comes as it is and the connection closes after it.
fn ask(address: SocketAddr, head: &str, body: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    let length = body.len();
    write!(socket, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").expect("the server reads");
    let mut answer = String::new();
    // A reset ends the reading too; what came before it counts.
    let _ = socket.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_lowercase(), body.to_owned())
}

fn user() -> String {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}).to_string()
}

fn user_message() -> String {
    json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hello"}]})
        .to_string()
}

fn user_content() -> String {
    json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}).to_string()
}

const CHAT: &str = "POST /v1/chat/completions HTTP/1.0";
const MESSAGES: &str = "POST /v1/messages HTTP/1.0\r\nanthropic-version: 2023-06-01";
const GENERATE: &str = "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.0";

#[test]
fn the_path_decides_which_wire_is_spoken() {
    let script = Script {
        repeat: true,
        ..Script::new([Round::text("Hi")])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    for (head, body, says) in [
        (CHAT, user(), r#""delta":{"content":"Hi"}"#),
        ("POST /chat/completions HTTP/1.0", user(), "data: [DONE]"),
        (MESSAGES, user_message(), r#""delta":{"type":"text_delta","text":"Hi"}"#),
        (GENERATE, user_content(), r#""parts":[{"text":"Hi"}]"#),
        (
            "POST /v1beta/models/m:generateContent HTTP/1.0",
            user_content(),
            r#""parts":[{"text":"Hi"}]"#,
        ),
    ] {
        let (head, body) = ask(server.address(), head, &body);
        assert!(head.starts_with("http/1.0 200 ok"), "{head}");
        let streams = body.starts_with("data: ") || body.starts_with("event: ");
        let kind = if streams {
            "text/event-stream"
        } else {
            "application/json"
        };
        assert!(head.contains(kind) && body.contains(says), "{head}\n{body}");
    }
    let recorded = server.requests();
    assert_eq!((recorded.len(), recorded[3].query.as_str()), (5, "alt=sse"));
    assert_eq!(recorded[2].body["max_tokens"], 9);

    let (head, body) = ask(server.address(), "POST /v1/complete HTTP/1.0", "{}");
    assert!(
        head.contains(" 404 ") && body.contains("POST /v1/complete is not served here"),
        "{head}\n{body}"
    );
}

#[test]
fn the_three_model_lists() {
    let script = Script {
        get: [("/props".to_owned(), json!({"n_ctx": 4096}))].into(),
        ..Script::new([])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let get = |head: &str| ask(server.address(), head, "").1;
    insta::assert_snapshot!(get("GET /v1/models HTTP/1.0"), @r#"{"object":"list","data":[{"id":"scripted","object":"model","created":1760000000,"owned_by":"script"}]}"#);
    assert_eq!(get("GET /models HTTP/1.0"), get("GET /v1/models HTTP/1.0"));
    insta::assert_snapshot!(get("GET /v1/models HTTP/1.0\r\nanthropic-version: 2023-06-01"), @r#"{"data":[{"type":"model","id":"scripted","display_name":"scripted","created_at":"2026-01-01T00:00:00Z","lifecycle":"active"}],"has_more":false,"first_id":"scripted","last_id":"scripted"}"#);
    insta::assert_snapshot!(get("GET /v1beta/models HTTP/1.0"), @r#"{"models":[{"name":"models/scripted","version":"001","displayName":"scripted","description":"follows a script","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]}]}"#);
    insta::assert_snapshot!(get("GET /v1beta/models/scripted HTTP/1.0"), @r#"{"name":"models/scripted","version":"001","displayName":"scripted","description":"follows a script","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]}"#);
    assert_eq!(get("GET /props HTTP/1.0"), r#"{"n_ctx":4096}"#);
    let (head, body) = ask(server.address(), "GET /v1/models/other HTTP/1.0", "");
    assert!(
        head.contains(" 404 ") && body.contains("model `other` not found"),
        "{head}\n{body}"
    );
}

#[test]
fn statuses_have_the_wires_own_error_object() {
    for (head, body, codes) in [
        (
            CHAT,
            user(),
            [
                "invalid_api_key",
                "insufficient_credits",
                "rate_limit_exceeded",
                "server_error",
                "overloaded",
            ],
        ),
        (
            MESSAGES,
            user_message(),
            [
                "authentication_error",
                "billing_error",
                "rate_limit_error",
                "api_error",
                "overloaded_error",
            ],
        ),
        (
            GENERATE,
            user_content(),
            [
                "UNAUTHENTICATED",
                "FAILED_PRECONDITION",
                "RESOURCE_EXHAUSTED",
                "INTERNAL",
                "UNAVAILABLE",
            ],
        ),
    ] {
        let statuses = [401, 402, 429, 500, 529];
        let rounds = statuses.map(|code| Round::status(code, Value::Null));
        let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
        for (status, code) in statuses.into_iter().zip(codes) {
            let (head, body) = ask(server.address(), head, &body);
            assert!(head.starts_with(&format!("http/1.0 {status} ")), "{head}");
            assert!(body.contains(code), "{code} is missing in {body}");
        }
    }
}

#[test]
fn every_form_of_retry_after_is_sent() {
    let waits = json!([1, 0.5, "7s", {"ms": 150}, {"date_in": 60}, {"body": 0.25}]);
    let rounds: Vec<Value> = waits
        .as_array()
        .into_iter()
        .flatten()
        .map(|wait| json!({"steps": [{"status": {"code": 429, "retry_after": wait}}]}))
        .collect();
    let script = json!({"rounds": rounds, "repeat": true}).to_string();
    let server = ModelServer::start(self::script(&script)).expect("loopback has a free port");
    for expected in [
        "retry-after: 1\r",
        "retry-after: 0.5\r",
        "retry-after: 7s\r",
        "retry-after-ms: 150\r",
    ] {
        let (head, _) = ask(server.address(), CHAT, &user());
        assert!(head.contains(expected), "{head}");
    }
    let (head, _) = ask(server.address(), CHAT, &user());
    let date = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "))
        .unwrap_or_default();
    let date = chrono::DateTime::parse_from_rfc2822(&date.to_uppercase()).expect("a date");
    let ahead = (date.to_utc() - chrono::Utc::now()).num_seconds();
    assert!((50..=60).contains(&ahead), "{ahead} s");
    let (head, body) = ask(server.address(), CHAT, &user());
    assert!(!head.contains("retry-after"), "{head}");
    assert!(body.contains(r#""metadata":{"retry_after_seconds":0.25}"#), "{body}");
    for _ in 0..5 {
        ask(server.address(), GENERATE, &user_content());
    }
    let (_, body) = ask(server.address(), GENERATE, &user_content());
    assert!(body.contains(r#"RetryInfo","retryDelay":"0.25s""#), "{body}");
}

#[test]
fn bodies_that_no_api_sends() {
    let rounds = [
        Round::status(502, "<html><title>502 Bad Gateway</title></html>"),
        Round::status(500, ""),
        round(json!(["end"])),
        round(json!([{"text": "It is"}, "reset"])),
    ];
    let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
    let mut answers = std::iter::repeat_with(|| ask(server.address(), CHAT, &user()));
    let mut next = || answers.next().expect("it repeats");
    let (head, body) = next();
    assert!(head.contains("text/html") && body.starts_with("<html>"), "{head}");
    assert_eq!(next().1, "");
    let (head, body) = next();
    assert!(head.contains(" 200 ") && body.is_empty(), "{head}\n{body}");
    let (_, body) = next();
    assert!(body.contains("It is") && !body.contains("[DONE]"), "{body}");
    let (head, body) = next();
    assert!(
        head.contains(" 400 ") && body.contains("the script is over: it has 4 rounds"),
        "{body}"
    );
}

#[test]
fn what_a_wire_does_not_allow_is_refused_and_takes_no_round() {
    let wrong =
        json!({"model": "m", "stream": true, "messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]});
    for (strict, status) in [(true, " 400 "), (false, " 200 ")] {
        let script = Script {
            strict,
            ..Script::new([Round::text("Hi")])
        };
        let server = ModelServer::start(script).expect("loopback has a free port");
        let (head, body) = ask(server.address(), CHAT, &wrong.to_string());
        assert!(head.contains(status), "{head}\n{body}");
        let (head, _) = ask(server.address(), CHAT, &user());
        assert_eq!(head.contains(" 200 "), strict, "the round was still there: {head}");
    }
    let server = ModelServer::start(Script::new([Round::text("Hi")])).expect("loopback has a free port");
    for (head, body, reason) in [
        (
            "POST /v1/messages HTTP/1.0",
            user_message(),
            "anthropic-version: header is required",
        ),
        (
            "POST /v1beta/models/m:streamGenerateContent HTTP/1.0",
            user_content(),
            "alt=sse",
        ),
    ] {
        let (head, body) = ask(server.address(), head, &body);
        assert!(head.contains(" 400 ") && body.contains(reason), "{head}\n{body}");
    }
}

#[test]
fn an_observer_hears_of_each_request() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let script = script(r#"{"rounds": [{"steps": [{"text": "a"}]}, {"steps": [{"status": 503}]}]}"#);
    let server = ModelServer::start_observed(([127, 0, 0, 1], 0).into(), script, move |request, told| {
        let _ = sender.send(format!("{} {}: {told}", request.method, request.path));
    });
    let server = server.expect("loopback has a free port");
    for _ in 0..3 {
        ask(server.address(), CHAT, &user());
    }
    ask(server.address(), "GET /v1/models HTTP/1.0", "");
    insta::assert_snapshot!(receiver.try_iter().collect::<Vec<_>>().join("\n"), @r"
    POST /v1/chat/completions: round 1 of 2
    POST /v1/chat/completions: round 2 of 2, status 503
    POST /v1/chat/completions: 400: the script is over: it has 2 rounds
    GET /v1/models: the model list
    ");
}

#[test]
fn the_example_plays_on_every_wire() {
    let script = script(EXAMPLE);
    for (head, body) in [(CHAT, user()), (MESSAGES, user_message()), (GENERATE, user_content())] {
        let server = ModelServer::start(script.clone()).expect("loopback has a free port");
        let answers: Vec<_> = (0..3).map(|_| ask(server.address(), head, &body)).collect();
        assert!(answers[0].1.contains("read_file"), "{}", answers[0].1);
        assert!(
            answers[1].0.contains(" 429 ") && answers[1].0.contains("retry-after: 1"),
            "{}",
            answers[1].0
        );
        assert!(answers[2].1.contains("README.md:1"), "{}", answers[2].1);
    }
}
