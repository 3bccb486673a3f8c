//! Checks of Chat Completions servers: the vendor's API, and the templates of local ones.

use serde_json::Value;

use super::{
    CheckResult, check_list, check_name, check_nonblank, check_object, check_schema, check_text, check_unique,
    number_entries, optional_list, refuse_if,
};

const FIELDS: &str = "model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens \
    max_completion_tokens temperature top_p top_k min_p n stop seed presence_penalty frequency_penalty \
    logit_bias logprobs top_logprobs response_format reasoning_effort reasoning user metadata store \
    service_tier verbosity prompt_cache_key provider models usage transforms cache_control";

const MESSAGE_FIELDS: &str =
    "role content name tool_calls tool_call_id refusal reasoning_content reasoning reasoning_details";

/// Tools that one request may offer.
const TOOLS_MAX: usize = 128;

/// The first thing that is wrong with a request.
pub(in super::super) fn check_request(body: &Value) -> CheckResult {
    check_object(body, "request", FIELDS)?;
    check_nonblank(&body["model"], "model")?;
    refuse_if(!body["stream_options"].is_null() && body["stream"] != true, || {
        "stream_options: only allowed when `stream` is true".to_owned()
    })?;
    check_tools(&body["tools"])?;
    check_conversation(check_list(&body["messages"], "messages")?)
}

fn check_tools(tools: &Value) -> CheckResult {
    let tools = optional_list(tools, "tools")?;
    refuse_if(tools.len() > TOOLS_MAX, || format!("tools: at most {TOOLS_MAX}"))?;
    for (place, tool) in number_entries(tools, "tools") {
        check_object(tool, &place, "type function")?;
        refuse_if(tool["type"] != "function", || {
            format!("{place}.type: must be \"function\"")
        })?;
        let place = format!("{place}.function");
        let function = &tool["function"];
        check_object(function, &place, "name description parameters strict")?;
        check_name(&function["name"], &format!("{place}.name"), 64)?;
        if !function["parameters"].is_null() {
            check_schema(&function["parameters"], &format!("{place}.parameters"))?;
        }
    }
    check_unique(
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()),
        "tools: the names",
    )
}

fn check_conversation(messages: &[Value]) -> CheckResult {
    let mut previous = "";
    // The calls that no tool message has answered yet.
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in number_entries(messages, "messages") {
        check_object(message, &place, MESSAGE_FIELDS)?;
        let role = check_text(&message["role"], &format!("{place}.role"))?;
        refuse_if(role != "tool" && !open.is_empty(), || describe_unanswered(&open))?;
        match role {
            "system" | "developer" if previous.is_empty() => check_content(message, &place)?,
            "system" | "developer" => return Err(format!("{place}: the system message must be at the beginning")),
            "user" if previous == "user" => {
                return Err(format!(
                    "{place}: conversation roles must alternate user/assistant/user/assistant"
                ));
            }
            "user" => check_content(message, &place)?,
            "assistant" => open = check_assistant(message, &place)?,
            "tool" => {
                let id = check_text(&message["tool_call_id"], &format!("{place}.tool_call_id"))?;
                let Some(at) = open.iter().position(|call| *call == id) else {
                    return Err(format!(
                        "{place}: a message with role `tool` must be a response to a preceding message with \
                         `tool_calls`: `{id}` is not open"
                    ));
                };
                open.remove(at);
                check_content(message, &place)?;
            }
            role => return Err(format!("{place}.role: `{role}` is unknown")),
        }
        previous = role;
    }
    refuse_if(!open.is_empty(), || describe_unanswered(&open))
}

fn describe_unanswered(open: &[&str]) -> String {
    format!(
        "An assistant message with `tool_calls` must be followed by tool messages responding to each `tool_call_id`. \
         Without a response: {}",
        open.join(", ")
    )
}

fn check_content(message: &Value, place: &str) -> CheckResult {
    let place = format!("{place}.content");
    match &message["content"] {
        Value::String(_) => Ok(()),
        parts => number_entries(check_list(parts, &place)?, &place).try_for_each(|(place, part)| {
            match part["type"].as_str() {
                Some("text") => check_nonblank(&part["text"], &format!("{place}.text")).map(drop),
                Some(_) => Ok(()),
                None => Err(format!("{place}.type: is missing")),
            }
        }),
    }
}

fn check_assistant<'v>(message: &'v Value, place: &str) -> CheckResult<Vec<&'v str>> {
    let calls = &message["tool_calls"];
    if calls.is_null() {
        check_content(message, place)?;
        return match message["content"].as_str() {
            Some("") => Err(format!("{place}: an assistant message needs content or `tool_calls`")),
            _ => Ok(Vec::new()),
        };
    }
    if !message["content"].is_null() {
        check_content(message, place)?;
    }
    let place = format!("{place}.tool_calls");
    let mut ids = Vec::new();
    for (place, call) in number_entries(check_list(calls, &place)?, &place) {
        // Some servers carry a signature in a member of their own, and want it back.
        check_object(call, &place, "id type function extra_content provider_specific_fields")?;
        let id = check_nonblank(&call["id"], &format!("{place}.id"))?;
        refuse_if(call["type"] != "function", || {
            format!("{place}.type: must be \"function\"")
        })?;
        let function = &call["function"];
        let place = format!("{place}.function");
        check_object(function, &place, "name arguments provider_specific_fields")?;
        check_text(&function["name"], &format!("{place}.name"))?;
        let arguments = check_text(&function["arguments"], &format!("{place}.arguments"))?;
        refuse_if(!matches!(serde_json::from_str(arguments), Ok(Value::Object(_))), || {
            format!("{place}.arguments: must be the JSON of an object")
        })?;
        ids.push(id);
    }
    check_unique(ids.iter().copied(), &format!("{place}: the ids"))?;
    Ok(ids)
}
