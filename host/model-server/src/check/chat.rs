//! Checks of Chat Completions servers: the vendor's API, and the templates of local ones.

use serde_json::Value;

use super::{Checked, at, list, name, object, optional_list, refuse_if, schema, text, unique, words};

const FIELDS: &str = "model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens \
    max_completion_tokens temperature top_p top_k min_p n stop seed presence_penalty frequency_penalty \
    logit_bias logprobs top_logprobs response_format reasoning_effort reasoning user metadata store \
    service_tier verbosity prompt_cache_key provider models usage transforms cache_control";

const MESSAGE_FIELDS: &str =
    "role content name tool_calls tool_call_id refusal reasoning_content reasoning reasoning_details";

/// Tools that one request may offer.
const TOOLS_MAX: usize = 128;

/// The first thing that is wrong with a request.
pub(in super::super) fn check(body: &Value) -> Checked {
    object(body, "request", FIELDS)?;
    words(&body["model"], "model")?;
    refuse_if(!body["stream_options"].is_null() && body["stream"] != true, || {
        "stream_options: only allowed when `stream` is true".to_owned()
    })?;
    tools(&body["tools"])?;
    conversation(list(&body["messages"], "messages")?)
}

fn tools(tools: &Value) -> Checked {
    let tools = optional_list(tools, "tools")?;
    refuse_if(tools.len() > TOOLS_MAX, || format!("tools: at most {TOOLS_MAX}"))?;
    for (place, tool) in at(tools, "tools") {
        object(tool, &place, "type function")?;
        refuse_if(tool["type"] != "function", || {
            format!("{place}.type: must be \"function\"")
        })?;
        let place = format!("{place}.function");
        let function = &tool["function"];
        object(function, &place, "name description parameters strict")?;
        name(&function["name"], &format!("{place}.name"), 64)?;
        if !function["parameters"].is_null() {
            schema(&function["parameters"], &format!("{place}.parameters"))?;
        }
    }
    unique(
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()),
        "tools: the names",
    )
}

fn conversation(messages: &[Value]) -> Checked {
    let mut previous = "";
    // The calls that no tool message has answered yet.
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in at(messages, "messages") {
        object(message, &place, MESSAGE_FIELDS)?;
        let role = text(&message["role"], &format!("{place}.role"))?;
        refuse_if(role != "tool" && !open.is_empty(), || unanswered(&open))?;
        match role {
            "system" | "developer" if previous.is_empty() => content(message, &place)?,
            "system" | "developer" => return Err(format!("{place}: the system message must be at the beginning")),
            "user" if previous == "user" => {
                return Err(format!(
                    "{place}: conversation roles must alternate user/assistant/user/assistant"
                ));
            }
            "user" => content(message, &place)?,
            "assistant" => open = assistant(message, &place)?,
            "tool" => {
                let id = text(&message["tool_call_id"], &format!("{place}.tool_call_id"))?;
                let Some(at) = open.iter().position(|call| *call == id) else {
                    return Err(format!(
                        "{place}: a message with role `tool` must be a response to a preceding message with \
                         `tool_calls`: `{id}` is not open"
                    ));
                };
                open.remove(at);
                content(message, &place)?;
            }
            role => return Err(format!("{place}.role: `{role}` is unknown")),
        }
        previous = role;
    }
    refuse_if(!open.is_empty(), || unanswered(&open))
}

fn unanswered(open: &[&str]) -> String {
    format!(
        "An assistant message with `tool_calls` must be followed by tool messages responding to each `tool_call_id`. \
         Without a response: {}",
        open.join(", ")
    )
}

fn content(message: &Value, place: &str) -> Checked {
    let place = format!("{place}.content");
    match &message["content"] {
        Value::String(_) => Ok(()),
        parts => at(list(parts, &place)?, &place).try_for_each(|(place, part)| match part["type"].as_str() {
            Some("text") => words(&part["text"], &format!("{place}.text")).map(drop),
            Some(_) => Ok(()),
            None => Err(format!("{place}.type: is missing")),
        }),
    }
}

fn assistant<'v>(message: &'v Value, place: &str) -> Checked<Vec<&'v str>> {
    let calls = &message["tool_calls"];
    if calls.is_null() {
        content(message, place)?;
        return match message["content"].as_str() {
            Some("") => Err(format!("{place}: an assistant message needs content or `tool_calls`")),
            _ => Ok(Vec::new()),
        };
    }
    if !message["content"].is_null() {
        content(message, place)?;
    }
    let place = format!("{place}.tool_calls");
    let mut ids = Vec::new();
    for (place, call) in at(list(calls, &place)?, &place) {
        // Some servers carry a signature in a member of their own, and want it back.
        object(call, &place, "id type function extra_content provider_specific_fields")?;
        let id = words(&call["id"], &format!("{place}.id"))?;
        refuse_if(call["type"] != "function", || {
            format!("{place}.type: must be \"function\"")
        })?;
        let function = &call["function"];
        let place = format!("{place}.function");
        object(function, &place, "name arguments provider_specific_fields")?;
        text(&function["name"], &format!("{place}.name"))?;
        let arguments = text(&function["arguments"], &format!("{place}.arguments"))?;
        refuse_if(!matches!(serde_json::from_str(arguments), Ok(Value::Object(_))), || {
            format!("{place}.arguments: must be the JSON of an object")
        })?;
        ids.push(id);
    }
    unique(ids.iter().copied(), &format!("{place}: the ids"))?;
    Ok(ids)
}
