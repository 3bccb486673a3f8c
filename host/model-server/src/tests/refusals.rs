//! Requests that each wire refuses.

use serde_json::{Value, json};

use super::{conversation, round};
use crate::Script;
use crate::chat::Chat;
use crate::dialect::{CheckedRequest, Dialect, HasHeader, sign_text};
use crate::generate_content::GenerateContent;
use crate::messages::Messages;
use crate::responses::Responses;

#[derive(Debug)]
struct AllHeaders;

impl HasHeader for AllHeaders {
    fn has_header(&self, _name: &str) -> bool {
        true
    }
}

fn refusal(dialect: &dyn Dialect, body: &Value) -> String {
    let request = CheckedRequest {
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

/// Lists the refusals of some requests that differ in one place.
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
    let signed = sign_text("Hm.");
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
    messages.2.tool_calls.0.id: must be non-empty and contain non-whitespace text
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
    let signed = sign_text("Hm.");
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
    contents.0.parts.0.text: must be non-empty
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

#[test]
fn responses_requests_are_held_to_the_wire() {
    let signed = sign_text("Hm.");
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let body = json!({
        "model": "m",
        "instructions": "Be brief.",
        "store": false,
        "stream": true,
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "read_file", "description": "reads", "strict": false,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": signed,
             "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read_file", "arguments": "{}"},
            output("a"),
        ],
    });
    let input = &body["input"];
    insta::assert_snapshot!(refusals(&Responses, &body, &[
        ("/messages", json!([])),
        ("/max_output_tokens", json!(9)),
        ("/tools/0/strict", json!(true)),
        ("/tools/0/function", json!({})),
        ("/input/0/content/0/type", json!("text")),
        ("/input/1/encrypted_content", json!(null)),
        ("/input/1/summary/0/text", json!("Hmm.")),
        ("/input/2/arguments", json!("{\"path\": a}")),
        ("/input/3", output("b")),
        ("/input", json!([input[0], input[2]])),
        ("/input", json!([input[0], input[1]])),
        ("/input", json!([input[0], input[2], input[3], input[2], input[3]])),
        ("/input/0/type", json!("new")),
    ]), @r#"
    request.messages: unknown field
    max_output_tokens: must be at least 16
    tools.0.strict: without `false` every property must be required, and this schema has optional ones
    tools.0.function: unknown field
    input.0.content.0.type: must be `input_text`, not `text`
    Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.
    input.1: the encrypted content could not be verified
    input.2.arguments: must be the JSON of an object
    No tool call found for function call output with call_id b.
    No tool output found for function call a.
    Item 'rs_1' of type 'reasoning' was provided without its required following item.
    input: the ids of function calls: `a` must be unique
    input.0.type: `new` is unknown
    "#);
}
