//! Common parts of a scripted server's wires: steps become actions, and a speaker for each wire words them.
//!
//! Waiting, breaking off and raw bytes are the same on every wire and are handled here; nothing here knows a wire's
//! form.

use std::fmt;

use serde_json::Value;

use super::{Round, Script, ScriptedCall, ScriptedUsage, ServerStep};
use tool_core::digest::sha256_hex;

/// Element of a body.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BodyAction {
    Send(String),
    WaitMs(u64),
    Gate(String),
    Stall,
    Reset,
}

/// The round to send, and the request that it answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundContext<'a> {
    pub(super) round: &'a Round,
    /// Number of the round, from 0.
    pub(super) number: usize,
    /// The model that was requested.
    pub(super) model: &'a str,
    /// An estimate of the request's tokens, for wires that must report some.
    pub(super) request_tokens: u64,
}

/// A request, with what a check needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedRequest<'a> {
    pub(super) body: &'a Value,
    pub(super) query: &'a str,
    /// True if the answer has to be a stream.
    pub(super) streams: bool,
    pub(super) header: &'a dyn HasHeader,
}

/// Tells whether a request carries a header.
pub(super) trait HasHeader: fmt::Debug {
    fn has_header(&self, name: &str) -> bool;
}

/// The error object of a wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct WireError<'a> {
    pub(super) code: u16,
    /// Replaces the usual sentence.
    pub(super) message: Option<&'a str>,
    /// Seconds until a retry, for a body that reports them.
    pub(super) retry_after_seconds: Option<f64>,
}

/// A form of request and answer.
pub(super) trait Dialect: fmt::Debug + Sync {
    /// A speaker for one answer as a stream.
    fn speaker<'a>(&self, telling: RoundContext<'a>) -> Box<dyn Speaker + 'a>;

    /// A speaker for one answer as one JSON value.
    fn whole(&self, said: &WholeAnswer, telling: RoundContext<'_>) -> Value;

    /// An error, as the body of an HTTP answer.
    fn error(&self, mishap: WireError<'_>) -> Value;

    fn models(&self, ids: &[String]) -> Value;

    /// One entry of the model list.
    fn model(&self, id: &str) -> Value;

    /// Why the real API would refuse the form of a request. `told` is the number of rounds so far.
    fn check(&self, request: CheckedRequest<'_>, script: &Script, told: usize) -> Result<(), String>;
}

/// One answer of a dialect, step by step.
pub(super) trait Speaker {
    /// Writes the events before the first word.
    fn begin(&mut self, out: &mut SpeakerOutput);
    fn text(&mut self, text: &str, out: &mut SpeakerOutput);
    fn reasoning(&mut self, text: &str, out: &mut SpeakerOutput);
    /// The calls of one step.
    fn calls(&mut self, calls: &[ScriptedCall], out: &mut SpeakerOutput);
    /// Writes token counts, where the stream has an event of its own for them.
    fn usage(&mut self, _usage: ScriptedUsage, _out: &mut SpeakerOutput) {}
    fn finish(&mut self, reason: &str, out: &mut SpeakerOutput);
    /// Writes the end mark, where the stream has one.
    fn done(&mut self, _out: &mut SpeakerOutput) {}
    /// An event with JSON of the script's own.
    fn frame(&mut self, value: &Value, out: &mut SpeakerOutput) {
        match value["type"].as_str() {
            Some(name) => out.event(name, value),
            None => out.data(value),
        }
    }
    /// An error inside the stream.
    fn error(&mut self, body: &Value, out: &mut SpeakerOutput);
    /// True if token counts come after the finish instead of with it.
    fn counts_last(&self) -> bool {
        false
    }
}

/// Output of a speaker.
#[derive(Debug, Default)]
pub(super) struct SpeakerOutput(Vec<BodyAction>);

impl SpeakerOutput {
    pub(super) fn send(&mut self, text: impl Into<String>) {
        self.0.push(BodyAction::Send(text.into()));
    }

    /// Writes `data: …` and the blank line that ends an event.
    pub(super) fn data(&mut self, value: &Value) {
        self.send(format!("data: {value}\n\n"));
    }

    /// Writes `event: …`, `data: …` and a blank line.
    pub(super) fn event(&mut self, name: &str, value: &Value) {
        self.send(format!("event: {name}\ndata: {value}\n\n"));
    }
}

/// The body of a round as a stream.
pub(super) fn stream_round(dialect: &dyn Dialect, telling: RoundContext<'_>) -> Vec<BodyAction> {
    let mut speaker = dialect.speaker(telling);
    let (mut out, mut begun) = (SpeakerOutput::default(), false);
    let steps = &telling.round.steps;
    let proper = !telling.round.ends_by_itself();
    let counts_from = if proper && speaker.counts_last() {
        steps
            .iter()
            .rposition(|step| !matches!(step, ServerStep::Usage(_)))
            .map_or(0, |last| last + 1)
    } else {
        steps.len()
    };
    for step in &steps[..counts_from] {
        if matches!(step, ServerStep::End) {
            return out.0;
        }
        if !begun && begins_answer(step) {
            speaker.begin(&mut out);
            begun = true;
        }
        tell_step(step, dialect, speaker.as_mut(), &mut out);
    }
    if proper {
        if !begun {
            speaker.begin(&mut out);
        }
        speaker.finish(natural_end(telling.round), &mut out);
        for step in &steps[counts_from..] {
            tell_step(step, dialect, speaker.as_mut(), &mut out);
        }
        speaker.done(&mut out);
    }
    out.0
}

/// The reason of a round that does not give one.
fn natural_end(round: &Round) -> &'static str {
    match round.tool_calls().next() {
        Some(_) => "tool_calls",
        None => "stop",
    }
}

/// True for a step that only an answer in progress can contain.
fn begins_answer(step: &ServerStep) -> bool {
    use ServerStep::{Finish, Pieces, Reasoning, Text, TextCall, ToolCalls, Usage};
    matches!(
        step,
        Text(_) | Pieces(_) | TextCall(_) | Reasoning(_) | ToolCalls(_) | Usage(_) | Finish(_)
    )
}

fn tell_step(step: &ServerStep, dialect: &dyn Dialect, speaker: &mut dyn Speaker, out: &mut SpeakerOutput) {
    match step {
        ServerStep::Text(text) => speaker.text(text, out),
        ServerStep::Pieces(pieces) => pieces.iter().for_each(|piece| speaker.text(piece, out)),
        ServerStep::TextCall(call) => speaker.text(&call.as_text(), out),
        ServerStep::Reasoning(text) => speaker.reasoning(text, out),
        ServerStep::ToolCalls(calls) => speaker.calls(calls, out),
        ServerStep::Usage(usage) => speaker.usage(*usage, out),
        ServerStep::Finish(reason) => speaker.finish(reason, out),
        ServerStep::Done => speaker.done(out),
        ServerStep::DelayMs(milliseconds) => out.0.push(BodyAction::WaitMs(*milliseconds)),
        ServerStep::Gate(name) => out.0.push(BodyAction::Gate(name.clone())),
        ServerStep::Comment(text) => out.send(format!(": {text}\n\n")),
        ServerStep::Frame(value) => speaker.frame(value, out),
        ServerStep::Raw(text) => out.send(text.clone()),
        ServerStep::Error(error) => speaker.error(&error_body(error, dialect), out),
        ServerStep::Stall => out.0.push(BodyAction::Stall),
        ServerStep::Reset => out.0.push(BodyAction::Reset),
        ServerStep::End | ServerStep::Status(_) => {}
    }
}

/// Converts the short forms of an error into the wire's own object; an object is left unchanged.
fn error_body(error: &Value, dialect: &dyn Dialect) -> Value {
    let mishap = |code, message| {
        dialect.error(WireError {
            code,
            message,
            retry_after_seconds: None,
        })
    };
    match error {
        Value::Number(code) => {
            let code = code.as_u64().and_then(|code| u16::try_from(code).ok());
            mishap(code.unwrap_or(500), None)
        }
        Value::String(message) => mishap(500, Some(message)),
        error => {
            let mut body = mishap(500, None);
            body["error"] = error.clone();
            body
        }
    }
}

/// An answer that is sent at once, without a stream.
#[derive(Debug, Default)]
pub(super) struct WholeAnswer {
    pub(super) parts: Vec<AnswerPart>,
    pub(super) usage: Option<ScriptedUsage>,
    pub(super) finish: String,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerPart {
    Text(String),
    Reasoning(String),
    Call(ScriptedCall),
}

impl WholeAnswer {
    /// All text of one kind.
    pub(super) fn joined(&self, kind: fn(&AnswerPart) -> Option<&str>) -> String {
        self.parts.iter().filter_map(kind).collect()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &ScriptedCall> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call(call) => Some(call),
            _ => None,
        })
    }

    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(AnswerPart::Text(last)) => last.push_str(text),
            _ => self.parts.push(AnswerPart::Text(text.to_owned())),
        }
    }
}

impl AnswerPart {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_reasoning(&self) -> Option<&str> {
        match self {
            Self::Reasoning(text) => Some(text),
            _ => None,
        }
    }
}

/// The body of a round as one JSON value. Frames and raw bytes exist only in a stream and are left out.
pub(super) fn encode_whole(dialect: &dyn Dialect, telling: RoundContext<'_>) -> Vec<BodyAction> {
    let mut said = WholeAnswer {
        finish: natural_end(telling.round).to_owned(),
        ..WholeAnswer::default()
    };
    let mut actions = Vec::new();
    for step in &telling.round.steps {
        match step {
            ServerStep::Text(text) => said.text(text),
            ServerStep::Pieces(pieces) => pieces.iter().for_each(|piece| said.text(piece)),
            ServerStep::TextCall(call) => said.text(&call.as_text()),
            ServerStep::Reasoning(text) => said.parts.push(AnswerPart::Reasoning(text.clone())),
            ServerStep::ToolCalls(calls) => said.parts.extend(calls.iter().cloned().map(AnswerPart::Call)),
            ServerStep::Usage(usage) => said.usage = Some(*usage),
            ServerStep::Finish(reason) => said.finish.clone_from(reason),
            ServerStep::DelayMs(milliseconds) => actions.push(BodyAction::WaitMs(*milliseconds)),
            ServerStep::Gate(name) => actions.push(BodyAction::Gate(name.clone())),
            ServerStep::Stall => actions.push(BodyAction::Stall),
            ServerStep::Reset => actions.push(BodyAction::Reset),
            ServerStep::Error(error) => {
                actions.push(BodyAction::Send(error_body(error, dialect).to_string()));
                return actions;
            }
            ServerStep::End => return actions,
            ServerStep::Done
            | ServerStep::Comment(_)
            | ServerStep::Frame(_)
            | ServerStep::Raw(_)
            | ServerStep::Status(_) => {}
        }
    }
    actions.push(BodyAction::Send(dialect.whole(&said, telling).to_string()));
    actions
}

/// Splits a text into so many pieces of about the same length. If the text is too short, the last pieces are empty.
pub(super) fn cut_text(text: &str, pieces: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces = pieces.max(1);
    let bound = |piece: usize| characters.len() * piece / pieces;
    (0..pieces)
        .map(|piece| characters[bound(piece)..bound(piece + 1)].iter().collect())
        .collect()
}

/// A signature of a text, as wires put it beside thinking: base64, opaque to a client, and verifiable by this server.
pub(super) fn sign_text(text: &str) -> String {
    format!("{SIGNATURE}{}", sha256_hex(text.as_bytes()))
}

/// Prefix of this server's own signatures. Others come from frames of a script and are not verified.
pub(super) const SIGNATURE: &str = "ScriptedSign";
