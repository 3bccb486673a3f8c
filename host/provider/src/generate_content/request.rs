//! A request as the generateContent wire takes it: contents of two roles, instructions and functions apart.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{LabelMark, Message, ModelRequest, ToolCall, ToolResult, ToolSpec, option_fields, schema};
use tool_config::RequestOptions;

/// The body of a request.
pub(super) fn build_body(request: &ModelRequest<'_>, options: &RequestOptions) -> Value {
    let mut body = json!({"contents": encode_contents(request.messages, request.mark)});
    let system = request.instructions();
    if !system.trim().is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": system}]});
    }
    if !request.tools.is_empty() {
        let functions: Vec<Value> = request.tools.iter().map(encode_declaration).collect();
        body["tools"] = json!([{"functionDeclarations": functions}]);
    }
    option_fields::shape_generate_content(&mut body, options, request.max_tokens);
    body
}

fn encode_declaration(spec: &ToolSpec) -> Value {
    let mut function = json!({"name": spec.name, "description": spec.description});
    if let Some(parameters) = schema::declared_parameters(&spec.parameters) {
        function["parameters"] = parameters;
    }
    function
}

fn encode_contents(messages: &[Message], mark: LabelMark) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    // Identifiers that the server itself gave to calls, if any.
    let mut given = HashMap::new();
    for message in messages {
        let (role, parts) = match message {
            Message::User { text } => ("user", text_part(text)),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                let parts = model_parts(text, tool_calls, opaque);
                given.extend(given_ids(tool_calls, &parts));
                ("model", parts)
            }
            Message::ToolResults { results } => (
                "user",
                results
                    .iter()
                    .map(|result| encode_response(result, &given, mark))
                    .collect(),
            ),
        };
        match turns.last_mut() {
            _ if parts.is_empty() => {}
            // Roles alternate: the results of parallel calls, and what the user says after them, are one content.
            Some((last, content)) if *last == role => content.extend(parts),
            _ => turns.push((role, parts)),
        }
    }
    let turns = turns
        .into_iter()
        .map(|(role, parts)| json!({"role": role, "parts": parts}));
    turns.collect()
}

fn text_part(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        Vec::new()
    } else {
        vec![json!({"text": text})]
    }
}

/// The parts as they came, if they are known; otherwise parts made from the conversation.
fn model_parts(text: &str, calls: &[ToolCall], opaque: &Value) -> Vec<Value> {
    if let Some(parts) = opaque["parts"].as_array() {
        return parts.clone();
    }
    let calls = calls.iter().map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let arguments = if arguments.is_object() { arguments } else { json!({}) };
        json!({"functionCall": {"name": call.name, "args": arguments}})
    });
    text_part(text).into_iter().chain(calls).collect()
}

/// Our identifier of each call to the server's, where it gave one: the parts hold the calls in our order.
fn given_ids<'c>(calls: &'c [ToolCall], parts: &[Value]) -> Vec<(&'c str, String)> {
    let asked = parts.iter().filter_map(|part| part.get("functionCall"));
    let pairs = calls.iter().zip(asked);
    pairs
        .filter_map(|(call, asked)| Some((call.id.as_str(), asked["id"].as_str()?.to_owned())))
        .filter(|(_, given)| !given.is_empty())
        .collect()
}

fn encode_response(result: &ToolResult, given: &HashMap<&str, String>, mark: LabelMark) -> Value {
    let key = if result.is_error { "error" } else { "output" };
    let mut fields = Map::new();
    if let Some(id) = given.get(result.call_id.as_str()) {
        fields.insert("id".into(), json!(id));
    }
    fields.insert("name".into(), json!(result.name));
    fields.insert("response".into(), json!({key: result.labelled(mark)}));
    json!({"functionResponse": fields})
}
