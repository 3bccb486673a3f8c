//! The Chat Completions wire: `local`, `router`, and `hosted` with `api = "chat"`.
//!
//! A request becomes JSON, and the frames of the answer become events. The differences between servers of this wire are
//! settled here, so that the loop sees one form: calls come out whole and only after a proper end, thinking is separate
//! from text, and a truncated answer is marked as such. It uses no sockets and no time.

mod calls;
mod printed_calls;
mod text;
mod text_chunk;
mod tools_as_text;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use self::calls::Calls;
use self::printed_calls::{occurs_in, printed_calls};
use self::text::{SortedText, TextSorter};
use super::failure::{FailureClass, ProviderFailure, is_template_complaint};
use super::ids::{self, IdForm, arguments_object, calls_of};
use super::model_facts::LearnedOptions;
use super::sse::Frame;
use super::usage::{read_timings, read_usage};
use super::wire::{Adaptation, AnswerProgress, Decoder, Wire, bearer_header, complete_usage};
use super::{Message, ModelRequest, ProviderEvent, StopReason, ToolCall, Usage, option_fields, schema};
use tool_config::{ProviderSettings, Quirks};
use tool_core::api::ProviderName;

/// Prefix of the ids of calls that the model printed as text; native calls have none.
pub(super) const PRINTED_ID: &str = "printed_";

/// Bytes kept from the beginning of an answer, to tell a server's complaint from the model's words.
const BEGINNING_BYTES: usize = 200;

/// The wire, bound to a model, with what was learned about the server so far.
pub(super) struct ChatWire {
    model: String,
    text_calls: bool,
    /// True if the server's template leaves tools out.
    describes_tools: AtomicBool,
    learned: Arc<LearnedOptions>,
    quirks: Quirks,
    /// False once the server has refused the field.
    stream_options: AtomicBool,
    /// True if the limit of output tokens is called `max_completion_tokens`.
    completion_tokens: AtomicBool,
    /// True once the server has refused tools together with reasoning.
    reasoning_off: AtomicBool,
    /// True if the router is asked to cache the prompt. It then sets the marks that the vendor's own wire needs.
    caching: AtomicBool,
    /// True if the model's template begins its thinking, so that only the end mark comes as text.
    begins_within_thinking: Arc<AtomicBool>,
}

/// Parts of the names of models that always think and whose templates begin the thinking. A local server without a
/// parser for reasoning then sends the end mark alone.
const THINKING_NAMES: [&str; 4] = ["deepseek-r1", "qwq", "-thinking", "minimax-m"];

/// Some models accept tools on this wire only without reasoning.
const REASONING_OFF: &str = "The model's reasoning is off: with tools, its vendor allows it only on another wire. Set \
    `api = \"responses\"` in [providers.hosted] of config.toml to have both.";

impl ChatWire {
    pub(super) fn new(settings: &ProviderSettings) -> Self {
        Self {
            model: settings.model.clone(),
            text_calls: settings.text_calls,
            describes_tools: AtomicBool::new(false),
            learned: Arc::new(LearnedOptions::new(&settings.options)),
            quirks: settings.quirks,
            stream_options: AtomicBool::new(settings.quirks.takes_stream_options),
            completion_tokens: AtomicBool::new(settings.quirks.has_completion_tokens),
            reasoning_off: AtomicBool::new(false),
            caching: AtomicBool::new(settings.name == ProviderName::Router && needs_cache_marks(&settings.model)),
            begins_within_thinking: Arc::new(AtomicBool::new(
                settings.name == ProviderName::Local && thinks_always(&settings.model),
            )),
        }
    }
}

/// True for models whose vendor caches nothing unless asked.
fn needs_cache_marks(model: &str) -> bool {
    let model = model.to_lowercase();
    model.starts_with("anthropic/") || model.contains("claude")
}

fn thinks_always(model: &str) -> bool {
    let model = model.to_lowercase();
    THINKING_NAMES.iter().any(|part| model.contains(part))
}

impl Wire for ChatWire {
    fn path(&self) -> String {
        "/chat/completions".to_owned()
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        bearer_header(key)
    }

    fn body(&self, request: &ModelRequest<'_>) -> Value {
        let options = self.learned.options();
        let describes_tools = self.describes_tools();
        let mut messages = if describes_tools {
            tools_as_text::encode_described(request)
        } else {
            encode_messages(request)
        };
        if self.learned.facts().wants_reasoning {
            messages.iter_mut().for_each(add_reasoning);
        }
        if self.id_form() == IdForm::Nine {
            join_to_results(&mut messages);
        }
        let mut body = json!({
            "model": self.model,
            "messages": messages,
            "stream": true,
        });
        if self.stream_options.load(Ordering::Relaxed) {
            body["stream_options"] = json!({"include_usage": true});
        }
        if !request.tools.is_empty() && !describes_tools {
            body["tools"] = request.tools.iter().map(encode_tool).collect();
        }
        option_fields::shape_chat(&mut body, &options, &self.quirks);
        if let Some(bound) = options.output_bound(request.max_tokens) {
            let field = if self.completion_tokens.load(Ordering::Relaxed) {
                "max_completion_tokens"
            } else {
                "max_tokens"
            };
            body[field] = json!(bound);
        }
        if self.caching.load(Ordering::Relaxed) {
            body["cache_control"] = json!({"type": "ephemeral"});
        }
        if self.reasoning_off.load(Ordering::Relaxed) {
            body["reasoning_effort"] = "none".into();
        }
        body
    }

    fn decoder<'a>(&self, request: ModelRequest<'a>) -> Box<dyn Decoder + Send + 'a> {
        let thinking = Arc::clone(&self.begins_within_thinking);
        Box::new(ChatDecoder {
            describes_tools: self.describes_tools(),
            ..ChatDecoder::new(request, self.text_calls, thinking)
        })
    }

    fn describe_tools(&self) {
        self.describes_tools.store(true, Ordering::Relaxed);
    }

    fn describes_tools(&self) -> bool {
        self.describes_tools.load(Ordering::Relaxed)
    }

    fn learned(&self) -> &Arc<LearnedOptions> {
        &self.learned
    }

    fn id_form(&self) -> IdForm {
        let model = self.model.to_lowercase();
        if NINE_NAMES.iter().any(|name| model.contains(name)) {
            IdForm::Nine
        } else {
            IdForm::Word
        }
    }

    fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation> {
        if !matches!(failure.status, Some(400 | 422)) {
            return None;
        }
        let said = failure.said.to_lowercase();
        if said.contains("reasoning_content") {
            return Adaptation::silent_if(self.learned.learn(|facts| facts.wants_reasoning = true));
        }
        if said.contains("stream_options") || said.contains("include_usage") {
            return Adaptation::silent_if(self.stream_options.swap(false, Ordering::Relaxed));
        }
        if said.contains("cache_control") {
            return Adaptation::silent_if(self.caching.swap(false, Ordering::Relaxed));
        }
        if said.contains("reasoning_effort") && said.contains("tools") {
            let was_off = self.reasoning_off.swap(true, Ordering::Relaxed);
            return (!was_off).then_some(Adaptation::Announced(REASONING_OFF));
        }
        let names_bound = said.contains("max_tokens") || said.contains("max_completion_tokens");
        let refuses = [
            "unsupported",
            "not supported",
            "unrecognized",
            "unknown",
            "extra",
            "instead",
        ];
        if names_bound && refuses.iter().any(|word| said.contains(word)) {
            // Try the other name. This cannot alternate for long: the transport limits how often a request is changed.
            self.completion_tokens.fetch_xor(true, Ordering::Relaxed);
            return Some(Adaptation::Silent);
        }
        None
    }
}

/// Adds a reasoning to answers with calls that have none because another model wrote them: the vendors of some thinking
/// models refuse a conversation without it.
fn add_reasoning(message: &mut Value) {
    let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
    if message["role"] == "assistant" && message["tool_calls"].is_array() && reasoning.is_empty() {
        message["reasoning_content"] = "(The reasoning of this answer was not kept.)".into();
    }
}

/// Parts of the names of models that accept only identifiers of nine characters.
const NINE_NAMES: [&str; 6] = ["mistral", "ministral", "codestral", "magistral", "devstral", "pixtral"];

fn encode_tool(spec: &super::ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": schema::plain_parameters(&spec.parameters),
        },
    })
}

fn encode_messages(request: &ModelRequest<'_>) -> Vec<Value> {
    let system = request.instructions();
    let mut messages = vec![json!({"role": "system", "content": system})];
    for message in request.messages {
        match message {
            Message::User { text } => push_user(&mut messages, text),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => messages.extend(encode_assistant(text, tool_calls, opaque)),
            Message::ToolResults { results } => {
                messages.extend(results.iter().map(
                    |result| json!({"role": "tool", "tool_call_id": result.call_id, "content": result.labelled(request.mark)}),
                ))
            }
        }
    }
    messages
}

/// Many chat templates refuse two user messages in a row.
fn push_user(messages: &mut Vec<Value>, text: &str) {
    let last = messages.last_mut().filter(|last| last["role"] == "user");
    match last.and_then(|last| last.get_mut("content")) {
        Some(Value::String(content)) => *content = format!("{content}\n\n{text}"),
        _ => messages.push(json!({"role": "user", "content": text})),
    }
}

/// Mistral refuses a user message after results of tools, so its text follows the last of them, outside of the labels.
fn join_to_results(messages: &mut Vec<Value>) {
    messages.dedup_by(|message, before| {
        let is_behind = before["role"] == "tool" && message["role"] == "user";
        if is_behind && let (Some(text), Value::String(result)) = (message["content"].as_str(), &mut before["content"])
        {
            result.push_str(&format!("\n\n{text}"));
        }
        is_behind
    });
}

/// An empty answer is left out, because servers refuse an assistant message without content and calls.
fn encode_assistant(text: &str, calls: &[ToolCall], opaque: &Value) -> Option<Value> {
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        let calls = calls.iter().enumerate().map(|(at, call)| {
            let function = json!({"name": call.name, "arguments": arguments_object(&call.arguments)});
            let mut entry = json!({"id": call.id, "type": "function", "function": function});
            calls::add_members(&mut entry, &opaque[CALL_MEMBERS][at]);
            entry
        });
        message["tool_calls"] = calls.collect();
    }
    for field in RETURNED {
        if let Some(value) = opaque.get(field) {
            message[field] = value.clone();
        }
    }
    Some(message)
}

/// Fields of an answer that go back unchanged.
const RETURNED: [&str; 2] = ["reasoning_details", "reasoning_content"];

/// The key of the opaque data under which the unknown members of each call are kept.
const CALL_MEMBERS: &str = "call_members";

/// Why the server says that it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFinish {
    Stop,
    Length,
    Refusal,
}

/// The state of one answer.
struct ChatDecoder<'a> {
    request: ModelRequest<'a>,
    text_calls: bool,
    /// True if the model can call tools only by text.
    describes_tools: bool,
    begins_within_thinking: Arc<AtomicBool>,
    text: TextSorter,
    calls: Calls,
    finish: Option<ChatFinish>,
    done_mark: bool,
    /// The server's words about a call that it could not parse.
    broken_call: Option<String>,
    /// True once a chunk held any part of an answer.
    spoke: bool,
    usage: Option<Usage>,
    reasoning_content: String,
    reasoning_details: Vec<Value>,
    /// Bytes of the answer received, thinking and arguments included.
    output_bytes: usize,
    /// The beginning of the answer's text.
    beginning: String,
    /// See [`Decoder::kept_bytes`].
    kept_bytes: usize,
    /// Empty between two pieces of content.
    sorted: Vec<SortedText>,
}

impl<'a> ChatDecoder<'a> {
    fn new(request: ModelRequest<'a>, text_calls: bool, begins_within_thinking: Arc<AtomicBool>) -> Self {
        let watches_calls = !request.tools.is_empty();
        Self {
            request,
            text_calls,
            describes_tools: false,
            text: if begins_within_thinking.load(Ordering::Relaxed) {
                TextSorter::within_thinking(watches_calls)
            } else {
                TextSorter::new(watches_calls)
            },
            begins_within_thinking,
            calls: Calls::default(),
            finish: None,
            done_mark: false,
            broken_call: None,
            spoke: false,
            usage: None,
            reasoning_content: String::new(),
            reasoning_details: Vec::new(),
            output_bytes: 0,
            beginning: String::new(),
            kept_bytes: 0,
            sorted: Vec::new(),
        }
    }

    fn chunk(&mut self, chunk: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        const USAGE: [&str; 3] = ["/usage", "/x_groq/usage", "/choices/0/usage"];
        let usage = USAGE.iter().find_map(|pointer| read_usage(chunk.pointer(pointer)?));
        let usage = usage.or_else(|| read_timings(chunk.get("timings")?));
        self.usage = usage.or(self.usage);
        let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
        // We asked for one answer; of a server that gives several, only the first is read.
        for choice in choices.filter(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0) {
            // A server that ignores `stream` answers with one `message`.
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
                self.delta(delta, events)?;
            }
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
                self.take_finish(reason)?;
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        self.spoke |= delta.as_object().is_some_and(|fields| !fields.is_empty());
        self.reasoning(delta, events);
        match delta.get("content") {
            Some(Value::String(text)) => self.content(text, events),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.part(part, events)),
            _ => {}
        }
        if let Some(text) = delta
            .get("refusal")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
        {
            self.content(text, events);
            self.finish = Some(ChatFinish::Refusal);
        }
        match (delta.get("tool_calls"), delta.get("function_call")) {
            (Some(Value::Array(entries)), _) => self.calls.take(entries),
            (_, Some(call @ Value::Object(_))) => self.calls.take(std::slice::from_ref(call)),
            _ => Ok(()),
        }
    }

    fn content(&mut self, text: &str, events: &mut Vec<ProviderEvent>) {
        self.output_bytes += text.len();
        if self.beginning.len() < BEGINNING_BYTES {
            self.beginning.push_str(text);
        }
        self.text.take(text, &mut self.sorted);
        events.extend(self.sorted.drain(..).map(into_event));
    }

    /// Content as a list of parts, among them thinking.
    fn part(&mut self, part: &Value, events: &mut Vec<ProviderEvent>) {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            self.content(text, events);
        }
        for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            events.extend(
                thought["text"]
                    .as_str()
                    .map(|text| ProviderEvent::Reasoning(text.to_owned())),
            );
        }
    }

    fn reasoning(&mut self, delta: &Value, events: &mut Vec<ProviderEvent>) {
        let field = |key: &str| delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(text) = field("reasoning_content") {
            self.reasoning_content.push_str(text);
        }

        let details = delta.get("reasoning_details").and_then(Value::as_array);
        let details = details.map(Vec::as_slice).unwrap_or_default();
        // One chunk may repeat a thought in several fields; it is shown once.
        let shown = field("reasoning_content").or(field("reasoning")).map(str::to_owned);
        let shown = shown.or_else(|| {
            let texts = details
                .iter()
                .filter_map(|detail| detail.get("text").or(detail.get("summary"))?.as_str());
            Some(texts.collect::<String>()).filter(|text| !text.is_empty())
        });
        if shown.is_some() {
            self.text.take_text_as_answer();
        }
        self.output_bytes += shown.as_ref().map_or(0, String::len);
        events.extend(shown.map(ProviderEvent::Reasoning));
        details.iter().for_each(|detail| self.keep_detail(detail));
    }

    /// Details come in pieces of one block. The block goes back as a whole, with its fields unchanged.
    fn keep_detail(&mut self, detail: &Value) {
        let is_joined = self
            .reasoning_details
            .last_mut()
            .is_some_and(|last| join_details(last, detail));
        if !is_joined {
            self.reasoning_details.push(detail.clone());
        }
    }

    fn take_finish(&mut self, reason: &str) -> Result<(), ProviderFailure> {
        self.finish = Some(match reason {
            // Some servers send an empty reason with every chunk.
            "" => return Ok(()),
            "length" | "max_tokens" | "model_length" => ChatFinish::Length,
            "content_filter" | "refusal" | "safety" => ChatFinish::Refusal,
            "error" | "abort" | "cancelled" => {
                return Err(ProviderFailure::new(
                    FailureClass::Protocol,
                    format!("the server ended it with `{reason}`"),
                ));
            }
            _ if self.finish == Some(ChatFinish::Refusal) => ChatFinish::Refusal,
            _ => ChatFinish::Stop,
        });
        Ok(())
    }

    fn check_end(&self) -> Result<ChatFinish, ProviderFailure> {
        if self.calls.is_empty() && is_template_complaint(&self.beginning) {
            return Err(ProviderFailure::from_stream_text(&self.beginning));
        }
        if let Some(finish) = self.finish {
            let silent = !self.spoke && self.usage.is_none_or(|usage| usage.output_tokens == 0);
            return if silent && finish == ChatFinish::Stop {
                Err(ProviderFailure::new(FailureClass::Empty, "no delta"))
            } else {
                Ok(finish)
            };
        }
        if !self.spoke {
            return Err(ProviderFailure::new(FailureClass::Empty, "no delta"));
        }
        // `[DONE]` ends a text, but tools run only when the server says what the round was.
        if self.done_mark && self.calls.is_empty() {
            Ok(ChatFinish::Stop)
        } else {
            Err(ProviderFailure::new(
                FailureClass::Protocol,
                "the stream ended before the answer did",
            ))
        }
    }

    /// Calls that were printed as text, if they count; otherwise the sign that the model needs a hint.
    fn printed(&self, held: &str) -> PrintedText {
        let calls = printed_calls(held, self.request.tools);
        if calls.is_empty() {
            return PrintedText::No;
        }
        let is_quoted = occurs_in(held, texts_from_elsewhere(self.request.messages));
        let counts = self.describes_tools || self.text_calls && !native_call_seen(self.request.messages);
        let accepted = counts && self.text.held_is_whole() && !is_quoted;
        if accepted {
            PrintedText::Calls(calls)
        } else {
            PrintedText::Hint { is_quoted }
        }
    }

    fn opaque(&mut self, calls: &Calls) -> Value {
        let mut fields = Map::new();
        fields.extend(
            calls
                .unknown_members()
                .map(|members| (CALL_MEMBERS.to_owned(), members)),
        );
        if !self.reasoning_details.is_empty() {
            fields.insert(
                "reasoning_details".into(),
                std::mem::take(&mut self.reasoning_details).into(),
            );
        } else if !calls.is_empty() && !self.reasoning_content.is_empty() {
            // Servers that think between calls refuse the next round without their own thinking.
            fields.insert(
                "reasoning_content".into(),
                std::mem::take(&mut self.reasoning_content).into(),
            );
        }
        if fields.is_empty() {
            Value::Null
        } else {
            Value::Object(fields)
        }
    }
}

enum PrintedText {
    Calls(Vec<(String, String)>),
    Hint { is_quoted: bool },
    No,
}

impl Decoder for ChatDecoder<'_> {
    fn frame(&mut self, frame: &Frame, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            self.done_mark = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        if let ("" | "message", Some(text)) = (frame.event.as_str(), text_chunk::parse_text(data)) {
            self.kept_bytes += text.len();
            self.spoke = true;
            self.content(&text, events);
            return Ok(());
        }
        self.kept_bytes += data.len();
        let chunk: Value = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // An event of another type may hold anything.
            Err(_) if !matches!(frame.event.as_str(), "" | "message" | "error") => return Ok(()),
            Err(_) => return Err(ProviderFailure::from_stream_text(data)),
        };
        let is_error = frame.event == "error"
            || chunk.get("error").is_some_and(|error| !error.is_null())
            || chunk.get("object").is_some_and(|object| object == "error");
        if is_error {
            let failure = ProviderFailure::from_value(None, &chunk);
            if failure.class == FailureClass::MalformedCall && self.spoke {
                // The text before it was already sent on, so nothing is tried again; the loop tells the model about its
                // call.
                self.broken_call = Some(failure.said);
                self.finish = Some(ChatFinish::Stop);
                self.done_mark = true;
                return Ok(());
            }
            return Err(failure);
        }
        self.chunk(&chunk, events)
    }

    fn end(&mut self, events: &mut Vec<ProviderEvent>) -> Result<(), ProviderFailure> {
        let mut sorted = Vec::new();
        if self.text.had_lone_end() {
            self.begins_within_thinking.store(true, Ordering::Relaxed);
        }
        let held = self.text.finish(&mut sorted);
        events.extend(sorted.into_iter().map(into_event));
        let finish = match self.check_end() {
            Ok(finish) => finish,
            Err(failure) => {
                events.extend((!held.is_empty()).then_some(ProviderEvent::Text(held)));
                return Err(failure);
            }
        };
        let calls = std::mem::take(&mut self.calls);
        let arguments_bytes = calls.bytes();
        let opaque = self.opaque(&calls);
        let round = self.request.messages.len();
        let mut reason = match finish {
            ChatFinish::Stop => StopReason::EndTurn,
            ChatFinish::Length => StopReason::MaxTokens,
            ChatFinish::Refusal => StopReason::Refusal,
        };
        let mut text = Some(held).filter(|held| !held.is_empty()).map(ProviderEvent::Text);
        if let Some(said) = self.broken_call.take() {
            events.extend(text.take());
            events.push(ProviderEvent::BrokenCall { said });
        } else if finish == ChatFinish::Length {
            events.extend(text.take());
            events.extend(
                calls
                    .into_cut_off()
                    .map(|(name, arguments)| ProviderEvent::CutOffCall { name, arguments }),
            );
        } else if !calls.is_empty() {
            events.extend(text.take());
            let used = ids::collect_ids(self.request.messages);
            events.extend(
                calls
                    .into_tool_calls(used, round)
                    .into_iter()
                    .map(ProviderEvent::ToolCall),
            );
            reason = StopReason::ToolUse;
        } else if let Some(ProviderEvent::Text(held)) = text.take() {
            match self.printed(&held) {
                PrintedText::Calls(calls) => {
                    events.extend(printed_tool_calls(calls, round));
                    reason = StopReason::ToolUse;
                }
                PrintedText::Hint { is_quoted } => events.push(ProviderEvent::TextCall { held, is_quoted }),
                PrintedText::No => events.push(ProviderEvent::Text(held)),
            }
        }
        if let Some(usage) = self.usage {
            let usage = complete_usage(usage, &self.request, self.output_bytes + arguments_bytes);
            events.push(ProviderEvent::Usage(usage));
        }
        events.push(ProviderEvent::Stop { reason, opaque });
        Ok(())
    }

    fn progress(&self) -> AnswerProgress {
        match (self.finish.is_some(), self.done_mark) {
            (true, true) => AnswerProgress::Done,
            (false, false) => AnswerProgress::Open,
            _ => AnswerProgress::Closing,
        }
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

fn into_event(sorted: SortedText) -> ProviderEvent {
    match sorted {
        SortedText::Answer(text) => ProviderEvent::Text(text),
        SortedText::Reasoning(text) => ProviderEvent::Reasoning(text),
    }
}

fn printed_tool_calls(calls: Vec<(String, String)>, round: usize) -> impl Iterator<Item = ProviderEvent> {
    calls.into_iter().enumerate().map(move |(number, (name, arguments))| {
        ProviderEvent::ToolCall(ToolCall {
            id: format!("{PRINTED_ID}{round}_{number}"),
            name,
            arguments,
        })
    })
}

fn native_call_seen(messages: &[Message]) -> bool {
    calls_of(messages).any(|call| !call.id.starts_with(PRINTED_ID))
}

/// Every text that the model may be quoting.
fn texts_from_elsewhere(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| match message {
        Message::User { text } => vec![text.as_str()],
        Message::ToolResults { results } => results.iter().map(|result| result.text.as_str()).collect(),
        Message::Assistant { .. } => Vec::new(),
    })
}

/// Adds a piece to a reasoning block. Returns false and changes nothing if the two belong to different blocks.
fn join_details(left: &mut Value, right: &Value) -> bool {
    const GROWING: [&str; 3] = ["text", "summary", "data"];
    let (Some(left), Some(right)) = (left.as_object_mut(), right.as_object()) else {
        return false;
    };
    // Only a stream numbers its pieces; a list without numbers is complete.
    if !left.contains_key("index") || right.get("index") != left.get("index") || left.get("type") != right.get("type") {
        return false;
    }
    let grows = |key: &str, old: &Value, new: &Value| GROWING.contains(&key) && old.is_string() && new.is_string();
    let fits = |(key, new): (&String, &Value)| match left.get(key) {
        None | Some(Value::Null) => true,
        Some(old) => new.is_null() || old == new || grows(key, old, new),
    };
    if !right.iter().all(fits) {
        return false;
    }
    for (key, value) in right {
        match (left.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if GROWING.contains(&key.as_str()) => text.push_str(more),
            (None | Some(Value::Null), value) => {
                left.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests;
