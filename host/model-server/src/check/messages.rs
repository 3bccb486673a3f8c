//! Checks of the Messages API.

use serde_json::Value;

use super::super::dialect::{SIGNATURE, sign_text};
use super::{
    CheckResult, check_list, check_name, check_nonblank, check_object, check_schema, check_text, check_unique, is_word,
    number_entries, optional_list, refuse_if,
};

const FIELDS: &str = "model max_tokens messages system tools tool_choice stream temperature top_k top_p stop_sequences \
    thinking metadata service_tier output_config cache_control";

/// Marks for the provider's cache that one request may hold.
const CACHE_MARKS_MAX: usize = 4;

/// The first thing that is wrong with a request.
pub(in super::super) fn check_request(body: &Value) -> CheckResult {
    check_object(body, "request", FIELDS)?;
    check_nonblank(&body["model"], "model")?;
    refuse_if(body["max_tokens"].as_u64().is_none_or(|bound| bound == 0), || {
        "max_tokens: must be a positive integer".to_owned()
    })?;
    check_system(&body["system"])?;
    check_tools(&body["tools"])?;
    check_conversation(check_list(&body["messages"], "messages")?)?;
    match cache_marks(body) {
        marks if marks > CACHE_MARKS_MAX => Err(format!(
            "A maximum of {CACHE_MARKS_MAX} blocks with cache_control may be provided. Found {marks}."
        )),
        _ => Ok(()),
    }
}

fn check_system(system: &Value) -> CheckResult {
    match system {
        Value::Null | Value::String(_) => Ok(()),
        blocks => number_entries(blocks.as_array().map(Vec::as_slice).unwrap_or_default(), "system").try_for_each(
            |(place, block)| {
                check_object(block, &place, "type text cache_control citations")?;
                check_nonblank(&block["text"], &format!("{place}.text")).map(drop)
            },
        ),
    }
}

fn check_tools(tools: &Value) -> CheckResult {
    let tools = optional_list(tools, "tools")?;
    for (place, tool) in number_entries(tools, "tools") {
        check_object(tool, &place, "name description input_schema cache_control type strict")?;
        check_name(&tool["name"], &format!("{place}.name"), 128)?;
        check_schema(&tool["input_schema"], &format!("{place}.input_schema"))?;
    }
    check_unique(
        tools.iter().filter_map(|tool| tool["name"].as_str()),
        "tools: the names",
    )
}

fn check_conversation(messages: &[Value]) -> CheckResult {
    let mut previous = "assistant";
    // The calls of the message before, which this one must answer.
    let mut asked: Vec<&str> = Vec::new();
    let mut ever_asked: Vec<&str> = Vec::new();
    for (index, (place, message)) in number_entries(messages, "messages").enumerate() {
        check_object(message, &place, "role content")?;
        let role = check_text(&message["role"], &format!("{place}.role"))?;
        refuse_if(!matches!(role, "user" | "assistant"), || {
            format!("{place}.role: `{role}` is neither \"user\" nor \"assistant\"")
        })?;
        refuse_if(role == previous, || {
            format!(
                "{place}.role: roles must alternate between \"user\" and \"assistant\", beginning with \"user\", and \
                 all results of one message belong into one"
            )
        })?;
        let blocks = check_blocks(&message["content"], &place)?;
        if role == "user" {
            check_results(blocks, &asked, &place)?;
            asked.clear();
        } else {
            asked = check_uses(blocks, &place)?;
            ever_asked.extend(&asked);
            check_prefill(blocks, index + 1 == messages.len(), &place)?;
        }
        previous = role;
    }
    if let Some(id) = asked.first() {
        return Err(format!(
            "messages: the tool_use `{id}` of the last message has no tool_result: each tool_use block must have one \
             in the next message"
        ));
    }
    check_unique(ever_asked, "messages: the ids of tool_use blocks")
}

fn check_blocks<'v>(content: &'v Value, place: &str) -> CheckResult<&'v [Value]> {
    let place = format!("{place}.content");
    if content.is_string() {
        return check_nonblank(content, &place).map(|_| &[][..]);
    }
    let blocks = check_list(content, &place)?;
    for (place, block) in number_entries(blocks, &place) {
        match block["type"].as_str() {
            Some("text") => {
                check_object(block, &place, "type text cache_control citations")?;
                check_nonblank(&block["text"], &format!("{place}.text"))?;
            }
            Some("tool_use") => tool_use(block, &place)?,
            Some("tool_result") => tool_result(block, &place)?,
            Some("thinking") => check_thinking(block, &place)?,
            Some("redacted_thinking" | "image" | "document") => {}
            Some(kind) => return Err(format!("{place}.type: `{kind}` is unknown")),
            None => return Err(format!("{place}.type: is missing")),
        }
    }
    Ok(blocks)
}

fn tool_use(block: &Value, place: &str) -> CheckResult {
    check_object(block, place, "type id name input cache_control caller")?;
    let id = check_text(&block["id"], &format!("{place}.id"))?;
    refuse_if(!is_word(id), || {
        format!("{place}.id: `{id}` does not match ^[a-zA-Z0-9_-]+$")
    })?;
    check_name(&block["name"], &format!("{place}.name"), 128)?;
    refuse_if(!block["input"].is_object(), || {
        format!("{place}.input: must be an object")
    })
}

fn tool_result(block: &Value, place: &str) -> CheckResult {
    check_object(block, place, "type tool_use_id content is_error cache_control")?;
    check_text(&block["tool_use_id"], &format!("{place}.tool_use_id"))?;
    let inner = block["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    number_entries(inner, &format!("{place}.content"))
        .filter(|(_, block)| block["type"] == "text")
        .try_for_each(|(place, block)| check_nonblank(&block["text"], &format!("{place}.text")).map(drop))
}

/// A signature that this server made must match its thinking. Others come from a script's own frames and are accepted.
fn check_thinking(block: &Value, place: &str) -> CheckResult {
    check_object(block, place, "type thinking signature")?;
    let thinking = check_text(&block["thinking"], &format!("{place}.thinking"))?;
    let signed = check_text(&block["signature"], &format!("{place}.signature"))?;
    if signed.starts_with(SIGNATURE) && signed != sign_text(thinking) {
        Err(format!(
            "{place}: thinking blocks in an assistant message cannot be modified; they must remain as they came"
        ))
    } else {
        Ok(())
    }
}

fn check_results(blocks: &[Value], asked: &[&str], place: &str) -> CheckResult {
    let is_result = |block: &&Value| block["type"] == "tool_result";
    let answered: Vec<&str> = blocks
        .iter()
        .filter(is_result)
        .filter_map(|block| block["tool_use_id"].as_str())
        .collect();
    if let Some(stray) = answered.iter().find(|id| !asked.contains(id)) {
        return Err(format!(
            "{place}: unexpected tool_use_id in a tool_result block: `{stray}`; each must have a tool_use block in the \
             message before"
        ));
    }
    if let Some(open) = asked.iter().find(|id| !answered.contains(id)) {
        return Err(format!(
            "{place}: the tool_use `{open}` has no tool_result immediately after it; all results of one message belong \
             into the next"
        ));
    }
    check_unique(
        answered.iter().copied(),
        &format!("{place}: the ids of tool_result blocks"),
    )?;
    let first_other = blocks
        .iter()
        .position(|block| !is_result(&block))
        .unwrap_or(blocks.len());
    refuse_if(blocks[first_other..].iter().any(|block| is_result(&block)), || {
        format!("{place}: tool_result blocks must come first")
    })
}

fn check_uses<'v>(blocks: &'v [Value], place: &str) -> CheckResult<Vec<&'v str>> {
    refuse_if(blocks.iter().any(|block| block["type"] == "tool_result"), || {
        format!("{place}: tool_result blocks can only be in user messages")
    })?;
    let uses = blocks.iter().filter(|block| block["type"] == "tool_use");
    Ok(uses.filter_map(|block| block["id"].as_str()).collect())
}

fn check_prefill(blocks: &[Value], is_last: bool, place: &str) -> CheckResult {
    let end = blocks
        .last()
        .and_then(|block| block["text"].as_str())
        .unwrap_or_default();
    refuse_if(is_last && end != end.trim_end(), || {
        format!("{place}: final assistant content cannot end with trailing whitespace")
    })
}

fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            let own = usize::from(fields.get("cache_control").is_some_and(|mark| !mark.is_null()));
            // A field of this name within a schema or an input is data, not a mark.
            let inner = fields
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "input" | "input_schema"));
            own + inner.map(|(_, value)| cache_marks(value)).sum::<usize>()
        }
        Value::Array(entries) => entries.iter().map(cache_marks).sum(),
        _ => 0,
    }
}
