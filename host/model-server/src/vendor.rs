//! Rules of vendors' current models beyond the form of their API. The error texts resemble those of the vendors.
//!
//! The rules come from the vendors' documentation and from errors that users have published. They were not compared with
//! the vendors' servers.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tool_core::digest::sha256_hex;

/// A vendor whose models refuse more than an invalid form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vendor {
    /// Claude 5.5: thinking is bound to everything before it, and only efforts are accepted.
    Claude,
    /// GPT-6.
    Gpt,
    /// Gemini 3.
    Gemini,
    /// DeepSeek V4 and Kimi K3: reasoning must go back with each answer that has calls.
    Reasoning,
    /// Mistral: identifiers have nine characters, and no message of the user follows results of tools.
    Mistral,
}

/// Thinking that the server has sent, with the conversation that it is bound to.
pub(super) type BoundThinking = HashSet<(String, String)>;

impl Vendor {
    /// Why the vendor would refuse a request.
    pub(super) fn check(self, body: &Value, bound: &BoundThinking) -> Result<(), String> {
        match self {
            Self::Claude => check_claude(body, bound),
            Self::Gpt => check_gpt(body),
            Self::Gemini => check_gemini(body),
            Self::Reasoning => check_reasoning(body),
            Self::Mistral => check_mistral(body),
        }
    }
}

/// A digest of a conversation up to one of its messages, without the marks of a cache.
pub(super) fn digest_prefix(body: &Value, messages: usize) -> String {
    let own = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = &own[..messages.min(own.len())];
    let parts = serde_json::json!([body["system"], body["tools"], own]);
    sha256_hex(without_marks(parts).to_string().as_bytes())
}

/// The number of messages in a request.
pub(super) fn messages_in(body: &Value) -> usize {
    body["messages"].as_array().map_or(0, Vec::len)
}

fn without_marks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields
                .values_mut()
                .for_each(|field| *field = without_marks(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_marks(item.take())),
        _ => {}
    }
    value
}

fn check_claude(body: &Value, bound: &BoundThinking) -> Result<(), String> {
    if body.get("temperature").is_some() {
        return Err("`temperature` is deprecated for this model.".to_owned());
    }
    if let Some(kind @ ("enabled" | "disabled")) = body["thinking"]["type"].as_str() {
        return Err(format!(
            "\"thinking.type.{kind}\" is not supported for this model. Use \"thinking.type.adaptive\" and \
             \"output_config.effort\" to control thinking behavior."
        ));
    }
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().into_iter().flatten();
        for (place, block) in blocks.enumerate().filter(|(_, block)| block["type"] == "thinking") {
            let thinking = block["thinking"].as_str().unwrap_or_default().to_owned();
            if !bound.contains(&(thinking, digest_prefix(body, at))) {
                return Err(format!(
                    "messages.{at}.content.{place}: Invalid `signature` in `thinking` block: The block is bound to a \
                     different conversation."
                ));
            }
        }
    }
    Ok(())
}

fn check_gpt(body: &Value) -> Result<(), String> {
    if body.get("temperature").is_some() {
        return Err("Unsupported parameter: 'temperature' is not supported with this model.".to_owned());
    }
    let effort = body["reasoning"]["effort"]
        .as_str()
        .or(body["reasoning_effort"].as_str());
    if effort == Some("minimal") {
        return Err(
            "Unsupported value: 'reasoning.effort' does not support 'minimal' with this model. Supported values are: \
             'none', 'low', 'medium', 'high', 'xhigh', and 'max'."
                .to_owned(),
        );
    }
    check_ids(
        body,
        |id| id.len() <= 40,
        "string too long, expected a string with maximum length 40",
    )
}

fn check_gemini(body: &Value) -> Result<(), String> {
    let thinking = &body["generationConfig"]["thinkingConfig"];
    if thinking["thinkingBudget"] == 0 {
        return Err("Budget 0 is invalid. This model only works in thinking mode.".to_owned());
    }
    if matches!(thinking["thinkingLevel"].as_str(), Some("none" | "xhigh" | "max")) {
        return Err("Invalid value at 'generation_config.thinking_config.thinking_level'".to_owned());
    }
    Ok(())
}

fn check_reasoning(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lacks = |message: &Value| {
        message["role"] == "assistant"
            && message["tool_calls"].is_array()
            && message["reasoning_content"].as_str().is_none_or(str::is_empty)
    };
    match messages.iter().position(lacks) {
        None => Ok(()),
        Some(at) => Err(format!(
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
        )),
    }
}

fn check_mistral(body: &Value) -> Result<(), String> {
    let is_fit = |id: &str| id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["role"].as_str())
        .collect();
    if roles.windows(2).any(|pair| pair == ["tool", "user"]) {
        return Err("Unexpected role 'user' after role 'tool'".to_owned());
    }
    check_ids(body, is_fit, "Tool call id must be a-z, A-Z, 0-9, with a length of 9.")
}

/// Checks the identifiers of the calls of Chat Completions and Responses.
fn check_ids(body: &Value, is_fit: impl Fn(&str) -> bool, refusal: &str) -> Result<(), String> {
    let messages = body["messages"].as_array().into_iter().flatten();
    let calls = messages.flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    let items = body["input"].as_array().into_iter().flatten();
    let ids = calls.map(|call| &call["id"]).chain(items.map(|item| &item["call_id"]));
    match ids.filter_map(Value::as_str).find(|id| !is_fit(id)) {
        None => Ok(()),
        Some(id) => Err(format!("{refusal} (`{id}`)")),
    }
}
