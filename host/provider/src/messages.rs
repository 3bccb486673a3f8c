//! The Messages wire: `hosted` by default.
//!
//! Content comes in numbered blocks. They go back unchanged in the next request, thinking and its signatures byte for
//! byte. The parts of a request that stay the same are marked for the provider's cache. It uses no sockets and no time.

mod text_delta;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};

use self::text_delta::TextDelta;
use super::failure::{FailureClass, ProviderFailure, one_line};
use super::model_facts::LearnedOptions;
use super::option_fields::MessagesThinking;
use super::sse::Frame;
use super::wire::{Adaptation, AnswerProgress, Decoder, Wire, complete_usage, read_count};
use super::{LabelMark, Message, ModelRequest, ProviderEvent, StopReason, ToolCall, Usage, ids, option_fields, schema};
use crate::failure::PROVIDER_CALLS_MAX;
use tool_config::ProviderSettings;

/// Most output tokens of one request if the user sets no bound, because the wire requires a number. Every current model
/// accepts it; an older one names its own maximum, which is then used.
const MESSAGES_OUTPUT_TOKENS: u32 = 32_000;

/// The version of the wire that this module speaks.
const VERSION: &str = "2023-06-01";

/// The wire, bound to a model.
pub(super) struct MessagesWire {
    model: String,
    learned: Arc<LearnedOptions>,
    /// False once the model has refused to choose by itself how much it thinks.
    is_adaptive: AtomicBool,
    /// The most output tokens that the model accepts, if it has named them.
    output_tokens: AtomicU32,
}

impl MessagesWire {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        Self {
            model: settings.model.clone(),
            learned: Arc::new(LearnedOptions::new(&settings.options)),
            is_adaptive: AtomicBool::new(true),
            output_tokens: AtomicU32::new(u32::MAX),
        }
    }
}

impl Wire for MessagesWire {
    fn path(&self) -> String {
        "/v1/messages".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/v1/models?limit=1000"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        headers.extend(key.map(|key| ("x-api-key", key.to_owned())));
        headers
    }

    fn body(&self, request: &ModelRequest<'_>) -> Value {
        let options = self.learned.options();
        let wanted = options
            .output_bound(request.max_tokens)
            .unwrap_or(MESSAGES_OUTPUT_TOKENS);
        let mut body = json!({
            "model": self.model,
            "max_tokens": wanted.min(self.output_tokens.load(Ordering::Relaxed)),
            "stream": true,
            "system": encode_system(request),
            "messages": encode_messages(request.messages, request.mark),
        });
        if !request.tools.is_empty() {
            body["tools"] = encode_tools(request);
        }
        let facts = self.learned.facts();
        let thinking = MessagesThinking {
            is_adaptive: self.is_adaptive.load(Ordering::Relaxed),
            is_shown: !facts.hides_thinking,
            is_usual: facts.thinks,
        };
        option_fields::shape_messages(&mut body, &options, thinking);
        body
    }

    fn decoder<'a>(&self, request: ModelRequest<'a>) -> Box<dyn Decoder + Send + 'a> {
        Box::new(MessagesDecoder::new(request, Arc::clone(&self.learned)))
    }

    fn learned(&self) -> &Arc<LearnedOptions> {
        &self.learned
    }

    /// An older model says `max_tokens: 32000 > 8192, which is the maximum`, or that it knows no adaptive thinking.
    fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation> {
        let says = |words: &str| failure.status == Some(400) && failure.said.contains(words);
        if says("thinking") && says("display") {
            return Adaptation::silent_if(self.learned.learn(|facts| facts.hides_thinking = true));
        }
        // A refusal of another form names this one as the alternative.
        if says("adaptive") && !says("thinking.type.enabled") && !says("thinking.type.disabled") {
            return Adaptation::silent_if(self.is_adaptive.swap(false, Ordering::Relaxed));
        }
        let (_, rest) = failure.said.split_once("max_tokens: ")?;
        let maximum = rest.split_once("> ").map(|(_, rest)| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse()
        });
        let maximum = maximum?.ok()?;
        Adaptation::silent_if(self.output_tokens.swap(maximum, Ordering::Relaxed) != maximum)
    }
}

/// The API allows at most four marks: one each for tools and instructions, and two for the conversation.
fn cache_until(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn encode_system(request: &ModelRequest<'_>) -> Value {
    let text = request.instructions();
    // The wire refuses an empty text.
    if text.trim().is_empty() {
        return json!([]);
    }
    let mut block = json!({"type": "text", "text": text});
    cache_until(&mut block);
    json!([block])
}

fn encode_tools(request: &ModelRequest<'_>) -> Value {
    let specs = request.tools.iter().map(|spec| {
        json!({
            "name": spec.name,
            "description": spec.description,
            "input_schema": schema::plain_parameters(&spec.parameters),
        })
    });
    let mut tools: Vec<Value> = specs.collect();
    tools.last_mut().into_iter().for_each(cache_until);
    tools.into()
}

fn encode_messages(messages: &[Message], mark: LabelMark) -> Value {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::User { text } => ("user", text_block(text)),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => ("assistant", encode_assistant(text, tool_calls, opaque)),
            Message::ToolResults { results } => {
                let blocks = results.iter().map(|result| {
                    json!({
                        "type": "tool_result",
                        "tool_use_id": result.call_id,
                        "content": result.labelled(mark),
                        "is_error": result.is_error,
                    })
                });
                ("user", blocks.collect())
            }
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            // Roles alternate: results and what the user says after them are one message.
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if let Some(("assistant", blocks)) = turns.last_mut().map(|(role, blocks)| (*role, blocks)) {
        trim_end(blocks);
    }
    // The end of this request is a prefix of the next one, which finds it through its own second mark.
    let from_user = turns.iter_mut().rev().filter(|(role, _)| *role == "user").take(2);
    from_user
        .filter_map(|(_, blocks)| blocks.last_mut())
        .for_each(cache_until);
    let turns = turns
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}));
    turns.collect()
}

/// Trims the end of the text that the model has to continue: the wire refuses white space there.
fn trim_end(blocks: &mut Vec<Value>) {
    let Some(text) = blocks
        .last()
        .filter(|last| last["type"] == "text")
        .and_then(|last| last["text"].as_str())
    else {
        return;
    };
    match text.trim_end().to_owned() {
        text if text.is_empty() => drop(blocks.pop()),
        text => {
            let last = blocks.last_mut().expect("its text was just read");
            last["text"] = text.into();
        }
    }
}

fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        Vec::new()
    } else {
        vec![json!({"type": "text", "text": text})]
    }
}

/// The blocks as they came, if they are known; otherwise blocks made from the conversation.
fn encode_assistant(text: &str, calls: &[ToolCall], opaque: &Value) -> Vec<Value> {
    if let Some(blocks) = opaque["content"].as_array() {
        return blocks.clone();
    }
    let uses = calls.iter().map(|call| {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": object_or_empty(input)})
    });
    text_block(text).into_iter().chain(uses).collect()
}

/// True for the opaque data of an answer that holds thinking.
pub(super) fn has_thinking(opaque: &Value) -> bool {
    let blocks = opaque["content"].as_array().into_iter().flatten();
    blocks.into_iter().any(|block| {
        let kind = block["type"].as_str().unwrap_or_default();
        matches!(kind, "thinking" | "redacted_thinking")
    })
}

/// The wire takes back only an object, whatever the model wrote. The tool's error result says what was wrong.
fn object_or_empty(input: Value) -> Value {
    if input.is_object() { input } else { json!({}) }
}

/// The state of one answer.
struct MessagesDecoder<'a> {
    request: ModelRequest<'a>,
    learned: Arc<LearnedOptions>,
    /// The blocks in the order in which they began.
    blocks: Vec<AnswerBlock>,
    /// Position in `blocks` for each block index. A proxy may reuse an index after its block has ended.
    at: BTreeMap<u64, usize>,
    /// Tool calls among the blocks.
    calls: usize,
    stop: Option<StopReason>,
    ended: bool,
    input_tokens: u64,
    cache_read: u64,
    cache_creation: u64,
    output_tokens: u64,
    counted: bool,
    /// Bytes of the answer received, thinking and arguments included.
    output_bytes: usize,
    /// See [`Decoder::kept_bytes`].
    kept_bytes: usize,
}

/// A block that goes back, and its arguments so far.
#[derive(Debug, Default)]
struct AnswerBlock {
    value: Value,
    arguments: String,
}

impl AnswerBlock {
    fn is(&self, kind: &str) -> bool {
        self.value["type"] == kind
    }

    fn text(&self, key: &str) -> String {
        self.value[key].as_str().unwrap_or_default().to_owned()
    }

    fn append(&mut self, key: &str, more: &str) {
        // Appends in place: copying the text with each piece would take quadratic time.
        match &mut self.value[key] {
            Value::String(text) => text.push_str(more),
            other => *other = more.into(),
        }
    }

    fn arguments(&self) -> String {
        // If no piece came, the input is in the block's start; mostly it is `{}`.
        match self.arguments.trim() {
            "" => object_or_empty(self.value["input"].clone()).to_string(),
            _ => self.arguments.clone(),
        }
    }

    fn call(&self) -> ToolCall {
        ToolCall {
            id: self.text("id"),
            name: self.text("name"),
            arguments: self.arguments(),
        }
    }

    /// The block that goes back; `None` for an empty text, which the wire refuses.
    fn into_value(mut self) -> Option<Value> {
        if self.is("text") && self.text("text").trim().is_empty() {
            return None;
        }
        if self.is("tool_use") {
            let input = serde_json::from_str(&self.arguments()).unwrap_or_default();
            self.value["input"] = object_or_empty(input);
        }
        Some(self.value)
    }
}

impl<'a> MessagesDecoder<'a> {
    fn new(request: ModelRequest<'a>, learned: Arc<LearnedOptions>) -> Self {
        Self {
            request,
            learned,
            blocks: Vec::new(),
            at: BTreeMap::new(),
            calls: 0,
            stop: None,
            ended: false,
            input_tokens: 0,
            cache_read: 0,
            cache_creation: 0,
            output_tokens: 0,
            counted: false,
            output_bytes: 0,
            kept_bytes: 0,
        }
    }

    /// Counts are cumulative: a later one replaces an earlier one, and a missing or null one changes nothing.
    fn usage(&mut self, usage: &Value) {
        let set = |field: &mut u64, key: &str| *field = usage.get(key).and_then(read_count).unwrap_or(*field);
        self.counted |= usage.is_object();
        set(&mut self.input_tokens, "input_tokens");
        set(&mut self.cache_read, "cache_read_input_tokens");
        set(&mut self.cache_creation, "cache_creation_input_tokens");
        set(&mut self.output_tokens, "output_tokens");
    }

    fn begin(&mut self, index: u64, value: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let text = |key: &str| some_text(value[key].as_str().unwrap_or_default());
        events.extend(text("thinking").map(ProviderEvent::Reasoning));
        events.extend(text("text").map(ProviderEvent::Text));
        self.at.insert(index, self.blocks.len());
        self.blocks.push(AnswerBlock {
            // Later pieces add fields, which only an object can take.
            value: if value.is_object() { value.clone() } else { json!({}) },
            arguments: String::new(),
        });
        self.calls += usize::from(value["type"] == "tool_use");
        if self.calls > PROVIDER_CALLS_MAX {
            Err(ProviderFailure::too_many_calls())
        } else {
            Ok(())
        }
    }

    fn delta(&mut self, index: u64, delta: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let block = self.block(index)?;
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        let bytes = text("text").len() + text("thinking").len() + text("partial_json").len();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => {
                block.append("text", text("text"));
                events.extend(some_text(text("text")).map(ProviderEvent::Text));
            }
            "thinking_delta" => {
                block.append("thinking", text("thinking"));
                events.extend(some_text(text("thinking")).map(ProviderEvent::Reasoning));
            }
            "signature_delta" => block.append("signature", text("signature")),
            "input_json_delta" => block.arguments.push_str(text("partial_json")),
            _ => {}
        }
        self.output_bytes += bytes;
        Ok(())
    }

    fn block(&mut self, index: u64) -> Result<&mut AnswerBlock, ProviderFailure> {
        let block = self.at.get(&index).and_then(|at| self.blocks.get_mut(*at));
        block.ok_or_else(|| {
            let said = format!("a piece of block {index}, which never began");
            ProviderFailure::new(FailureClass::Protocol, said)
        })
    }

    /// Like [`Self::delta`], for the most common event.
    fn piece(&mut self, piece: &TextDelta<'_>, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        self.block(piece.index)?.append("text", piece.text());
        self.output_bytes += piece.text().len();
        self.kept_bytes += piece.text().len();
        events.extend(some_text(piece.text()).map(ProviderEvent::Text));
        Ok(())
    }

    /// A server that does not stream sends the message whole.
    fn whole(&mut self, message: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            self.output_bytes += block.to_string().len();
            self.begin(index as u64, block, events)?;
        }
        self.usage(&message["usage"]);
        self.take_stop(message["stop_reason"].as_str().unwrap_or_default());
        self.ended = true;
        Ok(())
    }

    /// Gives every call an identifier that the wire takes back, both in the call and in the block that goes back.
    fn settle_ids(&mut self) {
        let (mut used, round) = (ids::collect_ids(self.request.messages), self.request.messages.len());
        let calls = self.blocks.iter_mut().filter(|block| block.is("tool_use"));
        for (number, block) in calls.enumerate() {
            block.value["id"] = ids::unique_word(&block.text("id"), &mut used, round, number).into();
        }
    }

    fn take_stop(&mut self, reason: &str) {
        self.stop = Some(match reason {
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "tool_use" => StopReason::ToolUse,
            "pause_turn" => StopReason::Pause,
            "refusal" => StopReason::Refusal,
            _ => StopReason::EndTurn,
        });
    }
}

/// Why the vendor declined, in its own words.
fn read_refusal(details: &Value) -> Option<ProviderEvent> {
    let words = |key: &str| details[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let said = match (words("category"), words("explanation")) {
        (Some(category), Some(explanation)) => format!("{category}: {explanation}"),
        (said, None) | (None, said) => said?.to_owned(),
    };
    Some(ProviderEvent::Notice(format!(
        "The provider declined: {}",
        one_line(&said)
    )))
}

/// The events of the wire that hold JSON.
fn is_known(event: &str) -> bool {
    const KNOWN: [&str; 9] = [
        "",
        "message",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    ];
    KNOWN.contains(&event)
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Decoder for MessagesDecoder<'_> {
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let data = frame.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        if let Some(piece) = TextDelta::read(data) {
            return self.piece(&piece, events);
        }
        self.kept_bytes += data.len();
        let event: Value = match serde_json::from_str(data) {
            Ok(event) => event,
            // An event of another type may hold anything.
            Err(_) if !is_known(&frame.event) => return Ok(()),
            Err(_) => return Err(ProviderFailure::from_stream_text(data)),
        };
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or(&frame.event) {
            "message_start" => self.usage(&event["message"]["usage"]),
            "message" => self.whole(&event, events)?,
            "content_block_start" => self.begin(index, &event["content_block"], events)?,
            "content_block_delta" => self.delta(index, &event["delta"], events)?,
            "message_delta" => {
                self.usage(&event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.take_stop(reason);
                }
                events.extend(read_refusal(&event["delta"]["stop_details"]));
            }
            "message_stop" => self.ended = true,
            "error" => return Err(ProviderFailure::from_value(None, &event)),
            _ if event.get("error").is_some_and(Value::is_object) => {
                return Err(ProviderFailure::from_value(None, &event));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let (true, Some(stop)) = (self.ended, self.stop) else {
            let class = if self.blocks.is_empty() && !self.counted {
                FailureClass::Empty
            } else {
                FailureClass::Protocol
            };
            return Err(ProviderFailure::new(class, "the stream ended before the answer did"));
        };
        self.settle_ids();
        if self.blocks.iter().any(|block| block.is("thinking")) {
            self.learned.learn_thinking();
        }
        let blocks = std::mem::take(&mut self.blocks);
        let calls: Vec<ToolCall> = blocks
            .iter()
            .filter(|block| block.is("tool_use"))
            .map(AnswerBlock::call)
            .collect();
        let reason = match (stop, calls.is_empty()) {
            (StopReason::ToolUse, true) => StopReason::EndTurn,
            (StopReason::EndTurn, false) => StopReason::ToolUse,
            (stop, _) => stop,
        };
        if reason == StopReason::ToolUse {
            events.extend(calls.into_iter().map(ProviderEvent::ToolCall));
        } else {
            // Calls of a truncated, refused or paused answer may be incomplete.
            events.extend(
                calls
                    .into_iter()
                    .map(|ToolCall { name, arguments, .. }| ProviderEvent::CutOffCall { name, arguments }),
            );
        }
        if self.counted {
            let usage = Usage {
                input_tokens: self.input_tokens + self.cache_read + self.cache_creation,
                cached_tokens: self.cache_read,
                cache_write_tokens: self.cache_creation,
                output_tokens: self.output_tokens,
                ..Usage::default()
            };
            let usage = complete_usage(usage, &self.request, self.output_bytes);
            events.push(ProviderEvent::Usage(usage));
        }
        let content: Vec<Value> = blocks.into_iter().filter_map(AnswerBlock::into_value).collect();
        let opaque = if content.is_empty() {
            Value::Null
        } else {
            json!({"content": content})
        };
        events.push(ProviderEvent::Stop { reason, opaque });
        Ok(())
    }

    fn progress(&self) -> AnswerProgress {
        match (self.ended, self.stop) {
            (true, _) => AnswerProgress::Done,
            _ => AnswerProgress::Open,
        }
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests;
