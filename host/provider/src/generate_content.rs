//! The generateContent wire: `hosted` with `api = "generate-content"`.
//!
//! Content is a list of parts. Calls come whole, and often without an identifier. The parts of an answer that asked for
//! tools go back unchanged, each with its thought signature, because the wire refuses a call without its signature. It
//! uses no sockets and no time.

mod request;
mod text_chunk;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use self::text_chunk::TextChunk;
use super::failure::{FailureClass, ProviderFailure, one_line};
use super::model_facts::LearnedOptions;
use super::sse::Frame;
use super::wire::{Adaptation, AnswerProgress, Decoder, Wire, complete_usage, read_count};
use super::{ModelRequest, ProviderEvent, StopReason, ToolCall, Usage, ids};
use crate::failure::PROVIDER_CALLS_MAX;
use tool_config::ProviderSettings;

/// The wire, bound to a model.
pub(super) struct GenerateContentWire {
    model: String,
    learned: Arc<LearnedOptions>,
}

impl GenerateContentWire {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        Self {
            model: settings.model.clone(),
            learned: Arc::new(LearnedOptions::new(&settings.options)),
        }
    }
}

impl Wire for GenerateContentWire {
    fn path(&self) -> String {
        // The vendor's own list names its models with this prefix.
        let model = self.model.trim_start_matches("models/");
        format!("/v1beta/models/{}:streamGenerateContent?alt=sse", path_segment(model))
    }

    fn models_path(&self) -> &'static str {
        "/v1beta/models?pageSize=1000"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn body(&self, request: &ModelRequest<'_>) -> Value {
        let mut body = request::build_body(request, &self.learned.options());
        if !self.learned.facts().hides_thinking {
            body["generationConfig"]["thinkingConfig"]["includeThoughts"] = true.into();
        }
        body
    }

    fn decoder<'a>(&self, request: ModelRequest<'a>) -> Box<dyn Decoder + Send + 'a> {
        Box::new(GenerateContentDecoder::new(request))
    }

    fn learned(&self) -> &Arc<LearnedOptions> {
        &self.learned
    }

    /// A model that does not think refuses to show its thinking.
    fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation> {
        let said = failure.said.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let names_it = says(&["include_thoughts", "includethoughts"]);
        let has_option = self.learned.options().reasoning.is_some();
        let does_not_think = says(&[
            "thinking is not",
            "not support thinking",
            "thinking_config",
            "thinkingconfig",
        ]);
        if failure.status != Some(400) || !(names_it || does_not_think && !has_option) {
            return None;
        }
        Adaptation::silent_if(self.learned.learn(|facts| facts.hides_thinking = true))
    }
}

/// A model's name, escaped for a path so that no name can lead to another path.
fn path_segment(name: &str) -> String {
    tool_core::text::percent_encode(name, "-_.@")
}

/// Why the server says that it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CandidateFinish {
    Stop,
    Length,
    /// One of the vendor's filters, by its name.
    Filtered(String),
    /// The model wrote a call that even the vendor could not parse.
    BrokenCall(String),
}

/// The state of one answer.
struct GenerateContentDecoder<'a> {
    request: ModelRequest<'a>,
    /// Parts of the answer that go back to the server.
    parts: Vec<Value>,
    calls: Vec<FunctionCall>,
    finish: Option<CandidateFinish>,
    usage: Option<Usage>,
    /// Bytes of the answer received, thinking and arguments included.
    output_bytes: usize,
    /// See [`Decoder::kept_bytes`].
    kept_bytes: usize,
    /// True once a candidate came.
    spoke: bool,
}

struct FunctionCall {
    /// Empty if the server gave none.
    id: String,
    name: String,
    arguments: String,
}

impl<'a> GenerateContentDecoder<'a> {
    fn new(request: ModelRequest<'a>) -> Self {
        Self {
            request,
            parts: Vec::new(),
            calls: Vec::new(),
            finish: None,
            usage: None,
            output_bytes: 0,
            kept_bytes: 0,
            spoke: false,
        }
    }

    fn chunk(&mut self, chunk: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        self.take_usage(&chunk["usageMetadata"]);
        if let Some(reason) = chunk.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
            let message = chunk
                .pointer("/promptFeedback/blockReasonMessage")
                .and_then(Value::as_str);
            self.finish = Some(CandidateFinish::Filtered(message.unwrap_or(reason).to_owned()));
        }
        let candidates = chunk["candidates"].as_array().into_iter().flatten();
        for candidate in candidates.filter(|candidate| candidate["index"].as_u64().unwrap_or(0) == 0) {
            self.spoke = true;
            let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
            for part in parts.into_iter().flatten() {
                self.part(part, events)?;
            }
            if let Some(reason) = candidate["finishReason"].as_str() {
                self.finish = Some(map_finish(
                    reason,
                    candidate["finishMessage"].as_str().unwrap_or_default(),
                )?);
            }
        }
        Ok(())
    }

    /// Like [`Self::chunk`], for the most common chunk.
    fn plain(&mut self, chunk: &TextChunk<'_>, events: &mut Vec<ProviderEvent>) {
        let text = chunk.text();
        self.take_usage(&chunk.usage_metadata);
        self.spoke = true;
        self.output_bytes += text.len();
        self.kept_bytes += text.len();
        events.push(ProviderEvent::Text(text.to_owned()));
        self.keep_text(text);
    }

    fn part(&mut self, part: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text.clone(),
                arguments => arguments.to_string(),
            };
            self.output_bytes += arguments.len();
            self.calls.push(FunctionCall {
                id: call["id"].as_str().unwrap_or_default().to_owned(),
                name: call["name"].as_str().unwrap_or_default().to_owned(),
                arguments,
            });
            if self.calls.len() > PROVIDER_CALLS_MAX {
                return Err(ProviderFailure::too_many_calls());
            }
        } else if let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) {
            self.output_bytes += text.len();
            events.push(if part["thought"] == true {
                ProviderEvent::Reasoning(text.to_owned())
            } else {
                ProviderEvent::Text(text.to_owned())
            });
        }
        self.keep(part);
        Ok(())
    }

    /// Keeps a part that goes back. A signature belongs to the part that it came with, so only plain pieces of text are
    /// joined. Thinking without a signature is only for the reader.
    fn keep(&mut self, part: &Value) {
        let signed = part.get("thoughtSignature").is_some();
        let text = part["text"].as_str();
        let says_nothing = text == Some("") || part.as_object().is_none_or(serde_json::Map::is_empty);
        if !signed && (part["thought"] == true || says_nothing) {
            return;
        }
        match text {
            Some(text) if is_plain(part) => self.keep_text(text),
            _ => self.parts.push(part.clone()),
        }
    }

    /// Keeps a plain piece of text.
    fn keep_text(&mut self, more: &str) {
        match self.parts.last_mut().filter(|last| is_plain(last)) {
            Some(last) => {
                if let Value::String(text) = &mut last["text"] {
                    text.push_str(more);
                }
            }
            None => self.parts.push(json!({"text": more})),
        }
    }

    /// Counts come with every chunk and grow. A later chunk may omit a count that an earlier one had.
    fn take_usage(&mut self, usage: &Value) {
        let number = |key: &str| usage.get(key).and_then(read_count);
        if !usage.is_object() {
            return;
        }
        let before = self.usage.unwrap_or_default();
        let prompt = number("promptTokenCount").map(|prompt| prompt + number("toolUsePromptTokenCount").unwrap_or(0));
        let input_tokens = prompt.unwrap_or(before.input_tokens);
        let written = match (number("candidatesTokenCount"), number("thoughtsTokenCount")) {
            (None, None) => number("totalTokenCount").map(|total| total.saturating_sub(input_tokens)),
            (answer, thoughts) => Some(answer.unwrap_or(0) + thoughts.unwrap_or(0)),
        };
        let now = Usage {
            input_tokens,
            cached_tokens: number("cachedContentTokenCount").unwrap_or(before.cached_tokens),
            output_tokens: written.unwrap_or(0).max(before.output_tokens),
            ..before
        };
        self.usage = (now.input_tokens + now.output_tokens > 0).then_some(now);
    }

    fn tool_calls(&mut self) -> Vec<ToolCall> {
        let (mut used, round) = (ids::collect_ids(self.request.messages), self.request.messages.len());
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        calls
            .map(|(number, call)| ToolCall {
                id: ids::unique_word(&call.id, &mut used, round, number),
                name: call.name,
                arguments: call.arguments,
            })
            .collect()
    }
}

/// True for a part that has only text.
fn is_plain(part: &Value) -> bool {
    part.as_object().is_some_and(|fields| fields.len() == 1) && part["text"].is_string()
}

/// Maps a finish reason. An unknown one counts as a failure, because all that were added so far name failures.
fn map_finish(reason: &str, message: &str) -> Result<CandidateFinish, ProviderFailure> {
    let said = || match message {
        "" => reason.to_owned(),
        message => one_line(message),
    };
    Ok(match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => CandidateFinish::Stop,
        "MAX_TOKENS" | "CONTINUATION" => CandidateFinish::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "ESCALATION"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => CandidateFinish::Filtered(reason.to_owned()),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
            CandidateFinish::BrokenCall(said())
        }
        _ => {
            return Err(ProviderFailure::new(
                FailureClass::Protocol,
                format!("the server ended it with `{}`", said()),
            ));
        }
    })
}

impl Decoder for GenerateContentDecoder<'_> {
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let data = frame.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        if let ("" | "message", Some(chunk)) = (frame.event.as_str(), TextChunk::read(data)) {
            self.plain(&chunk, events);
            return Ok(());
        }
        self.kept_bytes += data.len();
        let chunk: Value = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) if !matches!(frame.event.as_str(), "" | "message" | "error") => return Ok(()),
            Err(_) => return Err(ProviderFailure::from_stream_text(data)),
        };
        let chunk = match &chunk {
            Value::Array(items) => Cow::Borrowed(items.first().unwrap_or(&Value::Null)),
            _ => Cow::Owned(chunk),
        };
        if frame.event == "error" || chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ProviderFailure::from_value(None, &chunk));
        }
        self.chunk(&chunk, events)
    }

    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let Some(finish) = self.finish.take() else {
            let class = if self.spoke {
                FailureClass::Protocol
            } else {
                FailureClass::Empty
            };
            return Err(ProviderFailure::new(class, "the stream ended before the answer did"));
        };
        let calls = self.tool_calls();
        let reason = match finish {
            CandidateFinish::Stop if calls.is_empty() => StopReason::EndTurn,
            CandidateFinish::Stop => {
                events.extend(calls.into_iter().map(ProviderEvent::ToolCall));
                StopReason::ToolUse
            }
            CandidateFinish::Length => {
                // Calls of a truncated answer may be incomplete.
                let names = calls
                    .into_iter()
                    .map(|ToolCall { name, arguments, .. }| ProviderEvent::CutOffCall { name, arguments });
                events.extend(names);
                StopReason::MaxTokens
            }
            CandidateFinish::Filtered(by) => {
                let notice = format!("The provider's filter ended the answer: {}", one_line(&by));
                events.push(ProviderEvent::Notice(notice));
                StopReason::Refusal
            }
            CandidateFinish::BrokenCall(said) => {
                events.push(ProviderEvent::BrokenCall { said });
                StopReason::EndTurn
            }
        };
        if let Some(usage) = self.usage {
            let usage = complete_usage(usage, &self.request, self.output_bytes);
            events.push(ProviderEvent::Usage(usage));
        }
        let opaque = match std::mem::take(&mut self.parts) {
            parts if parts.is_empty() => Value::Null,
            parts => json!({"parts": parts}),
        };
        events.push(ProviderEvent::Stop { reason, opaque });
        Ok(())
    }

    fn progress(&self) -> AnswerProgress {
        match self.finish {
            // There is no end mark. The counts come with the last chunk or right after it.
            Some(_) => AnswerProgress::Closing,
            None => AnswerProgress::Open,
        }
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests;
