//! A request as the Responses API takes it: instructions, a flat list of items, and flat tools.

use serde_json::{Value, json};

use crate::ids::arguments_object;
use crate::{LabelMark, Message, ModelRequest, ToolCall, ToolSpec, schema};

/// The parts that every request of this wire has; the wire adds what the server may refuse.
pub(super) fn build_body(model: &str, request: &ModelRequest<'_>) -> Value {
    let mut body = json!({
        "model": model,
        "input": encode_input(request.messages, request.mark),
        "stream": true,
        "store": false,
    });
    let instructions = request.instructions();
    if !instructions.trim().is_empty() {
        body["instructions"] = instructions.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(encode_tool).collect();
        body["parallel_tool_calls"] = true.into();
    }
    if let Some(bound) = request.max_tokens {
        body["max_output_tokens"] = bound.max(OUTPUT_TOKENS_MIN).into();
    }
    body
}

/// The API refuses a smaller bound.
const OUTPUT_TOKENS_MIN: u32 = 16;

/// Without `strict: false` the API makes every argument mandatory.
fn encode_tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": schema::plain_parameters(&spec.parameters),
        "strict": false,
    })
}

fn encode_input(messages: &[Message], mark: LabelMark) -> Vec<Value> {
    let items = messages.iter().flat_map(|message| match message {
        Message::User { text } => text_item("user", "input_text", text),
        Message::Assistant {
            text,
            tool_calls,
            opaque,
        } => encode_assistant(text, tool_calls, opaque),
        Message::ToolResults { results } => {
            let outputs = results.iter().map(|result| {
                json!({"type": "function_call_output", "call_id": result.call_id, "output": result.labelled(mark)})
            });
            outputs.collect()
        }
    });
    items.collect()
}

fn text_item(role: &str, kind: &str, text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    vec![json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})]
}

/// The items as they came, if they are known; otherwise items made from the conversation.
fn encode_assistant(text: &str, calls: &[ToolCall], opaque: &Value) -> Vec<Value> {
    if let Some(items) = opaque["output"].as_array() {
        return items.clone();
    }
    // Text of an answer goes back as a plain string: an output text would need the item's own id.
    let said = (!text.trim().is_empty()).then(|| json!({"type": "message", "role": "assistant", "content": text}));
    let calls = calls.iter().map(|call| {
        let arguments = arguments_object(&call.arguments);
        json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
    });
    said.into_iter().chain(calls).collect()
}

/// An item of an answer in the form in which it goes back; none for reasoning that the server could not read again.
pub(super) fn prepare_item(mut item: Value) -> Option<Value> {
    match item["type"].as_str() {
        Some("reasoning") if !item["encrypted_content"].is_string() => return None,
        Some("function_call") => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let safe = arguments_object(arguments).into_owned();
            item["arguments"] = safe.into();
        }
        _ => {}
    }
    Some(item)
}
