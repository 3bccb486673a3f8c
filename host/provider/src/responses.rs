//! The Responses wire: `hosted` with `api = "responses"`.
//!
//! It is stateless: the server stores nothing, and reasoning travels encrypted. An answer is a list of items. They go
//! back whole and in order, as their `response.output_item.done` events gave them. It uses no sockets and no time.

mod request;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::failure::{FailureClass, ProviderFailure, one_line};
use super::model_facts::LearnedOptions;
use super::sse::Frame;
use super::usage::read_usage;
use super::wire::{Adaptation, AnswerProgress, Decoder, Wire, bearer_header, complete_usage};
use super::{ModelRequest, ProviderEvent, StopReason, ToolCall, Usage, ids, option_fields};
use crate::failure::PROVIDER_CALLS_MAX;
use tool_config::ProviderSettings;

/// The wire, bound to a model, with the facts learned about it so far.
pub(super) struct ResponsesWire {
    model: String,
    learned: Arc<LearnedOptions>,
    /// False once the model has refused encrypted reasoning, because it does not reason.
    encrypted_reasoning: AtomicBool,
    /// False once the server has refused summaries of the reasoning.
    summaries: AtomicBool,
}

impl ResponsesWire {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        Self {
            model: settings.model.clone(),
            learned: Arc::new(LearnedOptions::new(&settings.options)),
            encrypted_reasoning: AtomicBool::new(true),
            summaries: AtomicBool::new(true),
        }
    }
}

impl Wire for ResponsesWire {
    fn path(&self) -> String {
        "/responses".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        bearer_header(key)
    }

    fn body(&self, request: &ModelRequest<'_>) -> Value {
        let options = self.learned.options();
        let bounded = ModelRequest {
            max_tokens: options.output_bound(request.max_tokens),
            ..*request
        };
        let mut body = request::build_body(&self.model, &bounded);
        if self.encrypted_reasoning.load(Ordering::Relaxed) {
            body["include"] = json!(["reasoning.encrypted_content"]);
        }
        if self.summaries.load(Ordering::Relaxed) {
            body["reasoning"] = json!({"summary": "auto"});
        }
        if !self.learned.facts().no_cache_key {
            body["prompt_cache_key"] = request.mark.cache_key().into();
        }
        option_fields::shape_responses(&mut body, &options);
        body
    }

    fn decoder<'a>(&self, request: ModelRequest<'a>) -> Box<dyn Decoder + Send + 'a> {
        Box::new(ResponsesDecoder::new(request))
    }

    fn learned(&self) -> &Arc<LearnedOptions> {
        &self.learned
    }

    /// A model that does not reason refuses both fields, and an account may lack summaries.
    fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation> {
        if !matches!(failure.status, Some(400 | 422)) {
            return None;
        }
        let said = failure.said.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if says(&["prompt_cache_key"]) {
            return Adaptation::silent_if(self.learned.learn(|facts| facts.no_cache_key = true));
        }
        // This refusal is about the reasoning of an earlier answer, which the server cannot decrypt, and not about a
        // field.
        if says(&["verified", "decrypted"]) {
            return None;
        }
        let field = if says(&["encrypted content", "encrypted_content", "'include'"]) {
            &self.encrypted_reasoning
        } else if says(&["summar", "'reasoning'"]) {
            &self.summaries
        } else {
            return None;
        };
        Adaptation::silent_if(field.swap(false, Ordering::Relaxed))
    }
}

/// Why the server says that it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ResponseFinish {
    Completed,
    Length,
    /// One of the vendor's filters, by its name.
    Filtered(String),
}

/// The state of one answer.
struct ResponsesDecoder<'a> {
    request: ModelRequest<'a>,
    /// Complete items, by their index in the answer.
    items: BTreeMap<u64, Value>,
    /// Calls that have begun and are incomplete, by their index.
    open_calls: BTreeMap<u64, OpenCall>,
    /// Indices of the items of which a piece was shown.
    shown: HashSet<u64>,
    finish: Option<ResponseFinish>,
    has_refused: bool,
    usage: Option<Usage>,
    /// Bytes of the answer received, thinking and arguments included.
    output_bytes: usize,
    /// See [`Decoder::kept_bytes`].
    kept_bytes: usize,
}

#[derive(Debug, Default)]
struct OpenCall {
    name: String,
    arguments: String,
}

impl<'a> ResponsesDecoder<'a> {
    fn new(request: ModelRequest<'a>) -> Self {
        Self {
            request,
            items: BTreeMap::new(),
            open_calls: BTreeMap::new(),
            shown: HashSet::new(),
            finish: None,
            has_refused: false,
            usage: None,
            output_bytes: 0,
            kept_bytes: 0,
        }
    }

    fn event(&mut self, kind: &str, event: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let place = event["output_index"].as_u64().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match kind {
            "response.output_text.delta" => self.piece(place, delta, ProviderEvent::Text, events),
            "response.refusal.delta" => {
                self.has_refused = true;
                self.piece(place, delta, ProviderEvent::Text, events);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.piece(place, delta, ProviderEvent::Reasoning, events);
            }
            // The parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" if event["summary_index"].as_u64().unwrap_or_default() > 0 => {
                events.push(ProviderEvent::Reasoning("\n\n".to_owned()));
            }
            "response.output_item.added" => return self.begin(place, &event["item"]),
            "response.function_call_arguments.delta" => {
                self.output_bytes += delta.len();
                if let Some(call) = self.open_calls.get_mut(&place) {
                    call.arguments.push_str(delta);
                }
            }
            "response.output_item.done" => return self.keep(place, &event["item"], events),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                return self.close(&event["response"], events);
            }
            _ => {}
        }
        Ok(())
    }

    fn piece(
        &mut self,
        place: u64,
        text: &str,
        into_event: fn(String) -> ProviderEvent,
        events: &mut Vec<ProviderEvent>,
    ) {
        if text.is_empty() {
            return;
        }
        self.shown.insert(place);
        self.output_bytes += text.len();
        events.push(into_event(text.to_owned()));
    }

    fn begin(&mut self, place: u64, item: &Value) -> Result<(), ProviderFailure> {
        if item["type"] != "function_call" {
            return Ok(());
        }
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        self.open_calls.insert(
            place,
            OpenCall {
                name: text("name"),
                arguments: text("arguments"),
            },
        );
        if self.open_calls.len() > PROVIDER_CALLS_MAX {
            return Err(ProviderFailure::too_many_calls());
        }
        Ok(())
    }

    /// Keeps a complete item that goes back, and shows what did not come in pieces.
    fn keep(&mut self, place: u64, item: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let is_shown = self.shown.contains(&place);
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    self.has_refused |= part["type"] == "refusal";
                    let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                    if !is_shown {
                        self.piece(place, text, ProviderEvent::Text, events);
                    }
                }
            }
            "reasoning" if !is_shown => {
                let parts = ["summary", "content"].iter().filter_map(|key| item[*key].as_array());
                let texts: Vec<&str> = parts.flatten().filter_map(|part| part["text"].as_str()).collect();
                self.piece(place, &texts.join("\n\n"), ProviderEvent::Reasoning, events);
            }
            "function_call" => {
                self.open_calls.remove(&place);
            }
            _ => {}
        }
        // Two items with the same index are two items: some servers omit the number.
        let place = (place..).find(|place| !self.items.contains_key(place)).unwrap_or(place);
        self.items.insert(place, item.clone());
        let calls = self.items.values().filter(|item| item["type"] == "function_call");
        if self.items.len() > PROVIDER_CALLS_MAX && calls.count() > PROVIDER_CALLS_MAX {
            return Err(ProviderFailure::too_many_calls());
        }
        Ok(())
    }

    /// The answer as a whole: its state, its counts, and the items of a server that sends them only here.
    fn close(&mut self, response: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        self.usage = read_usage(&response["usage"]).or(self.usage);
        let output = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
        if self.items.is_empty() || !self.open_calls.is_empty() {
            for (place, item) in (0..).zip(output) {
                if !self.items.contains_key(&place) {
                    self.keep(place, item, events)?;
                }
            }
        }
        let status = response["status"].as_str().unwrap_or_default();
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.finish = Some(match (status, reason) {
            // The rest of a response repeats the request, whose words do not describe the failure.
            ("failed", _) => return Err(ProviderFailure::from_value(None, &json!({"error": response["error"]}))),
            ("incomplete", Some("content_filter")) => ResponseFinish::Filtered("content_filter".to_owned()),
            ("incomplete", _) => ResponseFinish::Length,
            ("completed" | "", _) => ResponseFinish::Completed,
            (other, _) => {
                let said = format!("the server ended it with `{}`", one_line(other));
                return Err(ProviderFailure::new(FailureClass::Protocol, said));
            }
        });
        Ok(())
    }

    /// The calls of the answer, each with a unique identifier, both in the call and in the item that goes back.
    fn settle_calls(&mut self) -> Vec<ToolCall> {
        let (mut used, round) = (ids::collect_ids(self.request.messages), self.request.messages.len());
        let calls = self.items.values_mut().filter(|item| item["type"] == "function_call");
        let calls = calls.enumerate().map(|(number, item)| {
            let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            let call = ToolCall {
                id: ids::make_unique(&text("call_id"), &mut used, round, number),
                name: text("name"),
                arguments: match &item["arguments"] {
                    Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
                    Value::String(text) => text.clone(),
                    Value::Null => "{}".to_owned(),
                    value => value.to_string(),
                },
            };
            item["call_id"] = call.id.clone().into();
            item["arguments"] = call.arguments.clone().into();
            call
        });
        calls.collect()
    }
}

impl Decoder for ResponsesDecoder<'_> {
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let data = frame.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let event: Value = match serde_json::from_str(data) {
            Ok(event) => event,
            // An event of another type may hold anything.
            Err(_)
                if !(matches!(frame.event.as_str(), "" | "message" | "error")
                    || frame.event.starts_with("response.")) =>
            {
                return Ok(());
            }
            Err(_) => return Err(ProviderFailure::from_stream_text(data)),
        };
        let kind = event["type"].as_str().unwrap_or(&frame.event);
        self.kept_bytes += match event["delta"].as_str() {
            Some(delta) => delta.len(),
            None => data.len(),
        };
        // A server that does not stream sends the response whole.
        if event["object"] == "response" {
            return self.close(&event, events);
        }
        let has_error = event.get("error").is_some_and(|error| !error.is_null());
        if kind == "error" || has_error {
            return Err(ProviderFailure::from_value(None, &event));
        }
        self.event(kind, &event, events)
    }

    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let Some(finish) = self.finish.take() else {
            let is_empty = self.items.is_empty() && self.open_calls.is_empty() && self.output_bytes == 0;
            let class = if is_empty {
                FailureClass::Empty
            } else {
                FailureClass::Protocol
            };
            return Err(ProviderFailure::new(class, "the stream ended before the answer did"));
        };
        if finish == ResponseFinish::Completed && !self.open_calls.is_empty() {
            return Err(ProviderFailure::new(
                FailureClass::Protocol,
                "the answer ended before one of its calls did",
            ));
        }
        let calls = self.settle_calls();
        let reason = match finish {
            ResponseFinish::Completed if !calls.is_empty() => {
                events.extend(calls.into_iter().map(ProviderEvent::ToolCall));
                StopReason::ToolUse
            }
            ResponseFinish::Completed if self.has_refused => StopReason::Refusal,
            ResponseFinish::Completed if self.items.is_empty() && self.output_bytes == 0 && self.usage.is_none() => {
                return Err(ProviderFailure::new(FailureClass::Empty, "no item"));
            }
            ResponseFinish::Completed => StopReason::EndTurn,
            ResponseFinish::Length => {
                // Calls of a truncated answer may be incomplete.
                let whole = calls.into_iter().map(|call| (call.name, call.arguments));
                let open = std::mem::take(&mut self.open_calls).into_values();
                let cut_off = whole.chain(open.map(|call| (call.name, call.arguments)));
                events.extend(cut_off.map(|(name, arguments)| ProviderEvent::CutOffCall { name, arguments }));
                StopReason::MaxTokens
            }
            ResponseFinish::Filtered(by) => {
                let notice = format!("The provider's filter ended the answer: {by}");
                events.push(ProviderEvent::Notice(notice));
                StopReason::Refusal
            }
        };
        if let Some(usage) = self.usage {
            events.push(ProviderEvent::Usage(complete_usage(
                usage,
                &self.request,
                self.output_bytes,
            )));
        }
        let output: Vec<Value> = std::mem::take(&mut self.items)
            .into_values()
            .filter_map(request::prepare_item)
            .collect();
        let opaque = if output.is_empty() {
            Value::Null
        } else {
            json!({"output": output})
        };
        events.push(ProviderEvent::Stop { reason, opaque });
        Ok(())
    }

    fn progress(&self) -> AnswerProgress {
        match self.finish {
            Some(_) => AnswerProgress::Done,
            None => AnswerProgress::Open,
        }
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests;
