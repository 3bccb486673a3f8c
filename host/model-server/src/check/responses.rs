//! Checks of the Responses API, for requests that store nothing.

use serde_json::Value;

use super::super::dialect::{SIGNATURE, sign_text};
use super::{
    CheckResult, check_list, check_name, check_nonblank, check_object, check_schema, check_text, check_unique,
    number_entries, optional_list, refuse_if,
};

const FIELDS: &str = "model input instructions stream store include tools tool_choice parallel_tool_calls reasoning text \
    max_output_tokens temperature top_p metadata service_tier truncation prompt_cache_key user";

/// The smallest output bound that the API takes.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// The first thing that is wrong with a request.
pub(in super::super) fn check_request(body: &Value) -> CheckResult {
    check_object(body, "request", FIELDS)?;
    check_nonblank(&body["model"], "model")?;
    refuse_if(
        body["max_output_tokens"]
            .as_u64()
            .is_some_and(|bound| bound < OUTPUT_TOKENS_MIN),
        || format!("max_output_tokens: must be at least {OUTPUT_TOKENS_MIN}"),
    )?;
    check_tools(&body["tools"])?;
    match &body["input"] {
        Value::String(_) => Ok(()),
        items => check_input(check_list(items, "input")?),
    }
}

fn check_tools(tools: &Value) -> CheckResult {
    let tools = optional_list(tools, "tools")?;
    for (place, tool) in number_entries(tools, "tools") {
        check_object(tool, &place, "type name description parameters strict")?;
        refuse_if(tool["type"] != "function", || {
            format!("{place}.type: must be \"function\"")
        })?;
        check_name(&tool["name"], &format!("{place}.name"), 64)?;
        check_schema(&tool["parameters"], &format!("{place}.parameters"))?;
        refuse_if(tool["strict"] != false, || {
            format!(
                "{place}.strict: without `false` every property must be required, and this schema has optional ones"
            )
        })?;
    }
    check_unique(
        tools.iter().filter_map(|tool| tool["name"].as_str()),
        "tools: the names",
    )
}

fn check_input(items: &[Value]) -> CheckResult {
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for (index, (place, item)) in number_entries(items, "input").enumerate() {
        match item["type"].as_str() {
            Some("message") | None => check_message(item, &place)?,
            Some("reasoning") => check_reasoning(item, items.get(index + 1), &place)?,
            Some("function_call") => {
                check_object(item, &place, "type id call_id name arguments status namespace")?;
                asked.push(check_nonblank(&item["call_id"], &format!("{place}.call_id"))?);
                check_text(&item["name"], &format!("{place}.name"))?;
                let arguments = check_text(&item["arguments"], &format!("{place}.arguments"))?;
                refuse_if(!matches!(serde_json::from_str(arguments), Ok(Value::Object(_))), || {
                    format!("{place}.arguments: must be the JSON of an object")
                })?;
            }
            Some("function_call_output") => {
                check_object(item, &place, "type id call_id output status")?;
                let id = check_text(&item["call_id"], &format!("{place}.call_id"))?;
                refuse_if(!asked.contains(&id), || {
                    format!("No tool call found for function call output with call_id {id}.")
                })?;
                check_text(&item["output"], &format!("{place}.output"))?;
                answered.push(id);
            }
            Some(kind) => return Err(format!("{place}.type: `{kind}` is unknown")),
        }
    }
    check_unique(asked.iter().copied(), "input: the ids of function calls")?;
    check_unique(answered.iter().copied(), "input: the ids of function call outputs")?;
    match asked.iter().find(|id| !answered.contains(id)) {
        Some(open) => Err(format!("No tool output found for function call {open}.")),
        None => Ok(()),
    }
}

fn check_message(item: &Value, place: &str) -> CheckResult {
    check_object(item, place, "type id role content status phase")?;
    let kind = match check_text(&item["role"], &format!("{place}.role"))? {
        "assistant" => "output_text",
        "user" | "system" | "developer" => "input_text",
        role => return Err(format!("{place}.role: `{role}` is unknown")),
    };
    let place = format!("{place}.content");
    if item["content"].is_string() {
        return check_nonblank(&item["content"], &place).map(drop);
    }
    number_entries(check_list(&item["content"], &place)?, &place).try_for_each(|(place, part)| {
        match part["type"].as_str() {
            Some(own) if own == kind => check_text(&part["text"], &format!("{place}.text")).map(drop),
            Some("refusal") if kind == "output_text" => {
                check_text(&part["refusal"], &format!("{place}.refusal")).map(drop)
            }
            other => Err(format!(
                "{place}.type: must be `{kind}`, not `{}`",
                other.unwrap_or_default()
            )),
        }
    })
}

/// Nothing is stored, so the encrypted content is all that the server knows. Content that this server made must match
/// its summary; other content comes from a script's own frames and is accepted.
fn check_reasoning(item: &Value, next: Option<&Value>, place: &str) -> CheckResult {
    check_object(item, place, "type id summary content encrypted_content status")?;
    // Clients that store nothing may leave out the identifier.
    let id = match &item["id"] {
        Value::Null => "without an id",
        id => check_text(id, &format!("{place}.id"))?,
    };
    let Some(encrypted) = item["encrypted_content"].as_str() else {
        return Err(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    };
    let parts = item["summary"].as_array().into_iter().flatten();
    let summary: String = parts.filter_map(|part| part["text"].as_str()).collect();
    refuse_if(
        encrypted.starts_with(SIGNATURE) && encrypted != sign_text(&summary),
        || format!("{place}: the encrypted content could not be verified"),
    )?;
    let is_followed = next.is_some_and(|next| next["type"] != "function_call_output" && next["role"] != "user");
    refuse_if(!is_followed, || {
        format!("Item '{id}' of type 'reasoning' was provided without its required following item.")
    })
}
