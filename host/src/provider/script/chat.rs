//! Steps of a script as a Chat Completions server sends them.

use serde_json::{Value, json};

use super::{Round, ScriptedCall, Step};

/// What a body is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Send(String),
    WaitMs(u64),
    Gate(String),
    Stall,
    Reset,
}

/// The body of a round. `number` counts rounds from 0, `model` is the one that was asked for.
pub(super) fn actions(round: &Round, number: usize, model: &str) -> Vec<Action> {
    let mut writer = Writer {
        number,
        model,
        calls: 0,
        actions: Vec::new(),
    };
    writer.delta(json!({"role": "assistant", "content": ""}));
    for step in &round.steps {
        if matches!(step, Step::End) {
            break;
        }
        writer.step(step);
    }
    if !round.ends_by_itself() {
        writer.finish(if writer.calls > 0 { "tool_calls" } else { "stop" });
        writer.send("data: [DONE]\n\n".to_owned());
    }
    writer.actions
}

struct Writer<'a> {
    number: usize,
    model: &'a str,
    calls: usize,
    actions: Vec<Action>,
}

impl Writer<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Text(text) => self.delta(json!({"content": text})),
            Step::Pieces(pieces) => pieces.iter().for_each(|piece| self.delta(json!({"content": piece}))),
            Step::Reasoning(text) => self.delta(json!({"reasoning_content": text})),
            Step::ToolCalls(calls) => calls.iter().for_each(|call| self.call(call)),
            Step::Usage(usage) => {
                let counts = json!({
                    "prompt_tokens": usage.input,
                    "completion_tokens": usage.output,
                    "total_tokens": usage.input + usage.output,
                    "prompt_tokens_details": {"cached_tokens": usage.cached},
                });
                let mut chunk = self.envelope(json!([]));
                chunk["usage"] = counts;
                self.frame(&chunk);
            }
            Step::Finish(reason) => self.finish(reason),
            Step::Done => self.send("data: [DONE]\n\n".to_owned()),
            Step::DelayMs(milliseconds) => self.actions.push(Action::WaitMs(*milliseconds)),
            Step::Gate(name) => self.actions.push(Action::Gate(name.clone())),
            Step::Comment(text) => self.send(format!(": {text}\n\n")),
            Step::Frame(value) => self.frame(value),
            Step::Raw(text) => self.send(text.clone()),
            Step::Error(error) => self.frame(&json!({"error": error})),
            Step::Stall => self.actions.push(Action::Stall),
            Step::Reset => self.actions.push(Action::Reset),
            Step::End | Step::Status(_) => {}
        }
    }

    fn call(&mut self, call: &ScriptedCall) {
        let index = self.calls;
        self.calls += 1;
        let id = call
            .id
            .clone()
            .unwrap_or_else(|| format!("call_{}_{index}", self.number));
        let arguments = call.arguments_text();
        let mut pieces = cut(&arguments, call.pieces.unwrap_or(1)).into_iter();
        let first = pieces.next().unwrap_or_default();
        self.delta(json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": {"name": call.name, "arguments": first}},
        ]}));
        for piece in pieces {
            self.delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
    }

    fn delta(&mut self, delta: Value) {
        let chunk = self.envelope(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        self.frame(&chunk);
    }

    fn finish(&mut self, reason: &str) {
        let chunk = self.envelope(json!([{"index": 0, "delta": {}, "finish_reason": reason}]));
        self.frame(&chunk);
    }

    fn envelope(&self, choices: Value) -> Value {
        json!({
            "id": format!("chatcmpl-script-{}", self.number),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.model,
            "choices": choices,
        })
    }

    fn frame(&mut self, value: &Value) {
        self.send(format!("data: {value}\n\n"));
    }

    fn send(&mut self, text: String) {
        self.actions.push(Action::Send(text));
    }
}

/// A text in so many pieces of about the same length, the last ones empty where it is too short.
fn cut(text: &str, pieces: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces = pieces.max(1);
    let bound = |piece: usize| characters.len() * piece / pieces;
    (0..pieces)
        .map(|piece| characters[bound(piece)..bound(piece + 1)].iter().collect())
        .collect()
}
