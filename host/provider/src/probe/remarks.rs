//! Notes unusual traits in the frames of an answer that was read in spite of them. Pure: it inspects what the decoders
//! silently correct.

use std::collections::HashSet;

use serde_json::Value;

use crate::sse::Frame;
use tool_config::ProviderApi;

/// For calls that were read from text, because the configuration allows it.
pub(super) const PRINTED: &str = "the model prints its calls as text; they are read out of it (`text_calls`)";

/// The remarks about an answer, in our own words only.
pub(super) fn of_stream(api: ProviderApi, frames: &[Frame]) -> Vec<&'static str> {
    let chunks = parse_chunks(frames);
    let whole = match api {
        ProviderApi::Chat => first_choices(&chunks).any(|choice| choice.get("message").is_some()),
        ProviderApi::Messages => chunks.iter().any(|chunk| chunk["type"] == "message"),
        ProviderApi::Responses => chunks.iter().any(|chunk| chunk["object"] == "response"),
        ProviderApi::GenerateContent | ProviderApi::Analyst => false,
    };
    let mut said = Vec::new();
    let mut note = |holds: bool, remark: &'static str| said.extend(holds.then_some(remark));
    note(whole, "it does not stream");
    note(!chunks.iter().any(has_counts), "no token counts: they are estimated");
    if api == ProviderApi::Chat {
        let marked = frames.iter().any(|frame| frame.data.trim() == "[DONE]");
        note(!marked && !whole, "no end mark: the finish reason ends the answer");
        note(finish_reason(&chunks).is_none(), "no finish reason");
    }
    said
}

/// The remarks about the calls of an answer. Calls of generateContent come whole and may lack identifiers; those of the
/// Responses API come in their own items.
pub(super) fn of_calls(api: ProviderApi, frames: &[Frame]) -> Vec<&'static str> {
    let chunks = parse_chunks(frames);
    match api {
        ProviderApi::Chat => chat_calls(&chunks),
        ProviderApi::Messages => messages_calls(&chunks),
        ProviderApi::GenerateContent | ProviderApi::Responses | ProviderApi::Analyst => vec![],
    }
}

fn parse_chunks(frames: &[Frame]) -> Vec<Value> {
    let values = frames.iter().filter_map(|frame| serde_json::from_str(&frame.data).ok());
    values.collect()
}

fn first_choices(chunks: &[Value]) -> impl Iterator<Item = &Value> {
    chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0"))
}

fn finish_reason(chunks: &[Value]) -> Option<&str> {
    first_choices(chunks)
        .filter_map(|choice| choice["finish_reason"].as_str())
        .last()
}

fn chat_calls(chunks: &[Value]) -> Vec<&'static str> {
    let entries: Vec<&Value> = first_choices(chunks).flat_map(call_entries).collect();
    let mut said = Vec::new();
    let mut note = |holds: bool, remark: &'static str| said.extend(holds.then_some(remark));
    note(
        finish_reason(chunks) != Some("tool_calls"),
        "calls under another finish reason",
    );
    let named: Vec<&Value> = entries
        .iter()
        .filter(|entry| has_text(&entry["function"]["name"]))
        .copied()
        .collect();
    let ids: Vec<&str> = named
        .iter()
        .filter_map(|entry| entry["id"].as_str())
        .filter(|id| !id.is_empty())
        .collect();
    note(ids.len() < named.len(), "calls without an identifier: one is made");
    note(
        ids.iter().collect::<HashSet<_>>().len() < ids.len(),
        "calls that share an identifier",
    );
    let indices: HashSet<u64> = named.iter().filter_map(|entry| entry["index"].as_u64()).collect();
    note(
        indices.len() < named.len(),
        "calls that their index does not tell apart",
    );
    let arguments: Vec<&Value> = entries.iter().map(|entry| &entry["function"]["arguments"]).collect();
    let objects = arguments.iter().any(|value| value.is_object());
    note(objects, "arguments as an object instead of its text");
    note(
        !objects && !arguments.iter().any(|value| has_text(value)),
        "empty arguments: read as `{}`",
    );
    let text: String = arguments.iter().filter_map(|value| value.as_str()).collect();
    note(
        matches!(serde_json::from_str(&text), Ok(Value::String(_))),
        "arguments encoded twice",
    );
    said
}

fn messages_calls(chunks: &[Value]) -> Vec<&'static str> {
    let starts: Vec<&Value> = chunks
        .iter()
        .filter(|chunk| chunk["type"] == "content_block_start")
        .collect();
    let indices: HashSet<Option<u64>> = starts.iter().map(|start| start["index"].as_u64()).collect();
    let mut calls = starts
        .iter()
        .filter(|start| start["content_block"]["type"] == "tool_use");
    let mut said = Vec::new();
    let mut note = |holds: bool, remark: &'static str| said.extend(holds.then_some(remark));
    note(indices.len() < starts.len(), "blocks that share an index");
    let unnamed = calls.any(|start| !has_text(&start["content_block"]["id"]));
    note(unnamed, "calls without an identifier: one is made");
    said
}

fn call_entries(choice: &Value) -> Vec<&Value> {
    let delta = choice.get("delta").or_else(|| choice.get("message"));
    let calls = delta
        .and_then(|delta| delta.get("tool_calls"))
        .and_then(Value::as_array);
    calls.into_iter().flatten().collect()
}

fn has_counts(chunk: &Value) -> bool {
    let places = [
        "/usage",
        "/x_groq/usage",
        "/choices/0/usage",
        "/timings",
        "/message/usage",
        "/response/usage",
        "/usageMetadata",
    ];
    places
        .iter()
        .any(|place| chunk.pointer(place).is_some_and(Value::is_object))
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}
