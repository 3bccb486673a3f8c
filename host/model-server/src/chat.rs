//! Chat Completions: steps as a stream of chunks or one completion, its errors and its model list.

use serde_json::{Value, json};

use super::dialect::{
    AnswerPart, CheckedRequest, Dialect, RoundContext, Speaker, SpeakerOutput, WholeAnswer, WireError, cut_text,
};
use super::{Script, ScriptedCall, ScriptedUsage, check};

#[derive(Debug)]
pub(super) struct Chat;

impl Dialect for Chat {
    fn speaker<'a>(&self, telling: RoundContext<'a>) -> Box<dyn Speaker + 'a> {
        Box::new(ChunkSpeaker { telling, calls: 0 })
    }

    fn whole(&self, said: &WholeAnswer, telling: RoundContext<'_>) -> Value {
        let text = said.joined(AnswerPart::as_text);
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        let reasoning = said.joined(AnswerPart::as_reasoning);
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        let calls: Vec<Value> = said
            .calls()
            .enumerate()
            .map(|(index, call)| {
                let function = json!({"name": call.name, "arguments": call.arguments_text()});
                build_call(json!({}), call.id_or(|| call_id(telling.number, index)), function)
            })
            .collect();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
            if text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": said.finish});
        let mut body = build_envelope(telling, "chat.completion", json!([choice]));
        if let Some(usage) = said.usage {
            body["usage"] = encode_usage(usage);
        }
        body
    }

    fn error(&self, mishap: WireError<'_>) -> Value {
        let (kind, code, message) = error_words(mishap.code);
        let message = mishap.message.unwrap_or(message);
        let mut error = json!({"message": message, "type": kind, "param": null, "code": code});
        if let Some(seconds) = mishap.retry_after_seconds {
            error["metadata"] = json!({"retry_after_seconds": seconds});
        }
        json!({"error": error})
    }

    fn models(&self, ids: &[String]) -> Value {
        let data: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({"object": "list", "data": data})
    }

    fn model(&self, id: &str) -> Value {
        json!({"id": id, "object": "model", "created": CREATED, "owned_by": "script"})
    }

    fn check(&self, request: CheckedRequest<'_>, _script: &Script, _told: usize) -> Result<(), String> {
        check::chat::check_request(request.body)
    }
}

/// A fixed second of the past, so that answers of two runs can be compared.
pub(super) const CREATED: u64 = 1_760_000_000;

/// Type, code and message of an error.
fn error_words(code: u16) -> (&'static str, Value, &'static str) {
    match code {
        401 => (
            "invalid_request_error",
            json!("invalid_api_key"),
            "Incorrect API key provided.",
        ),
        402 => (
            "insufficient_credits",
            json!(402),
            "Insufficient credits. Add more to continue.",
        ),
        403 => (
            "invalid_request_error",
            json!("permission_denied"),
            "The key may not use this.",
        ),
        404 => ("invalid_request_error", json!("not_found"), "Not found."),
        429 => (
            "requests",
            json!("rate_limit_exceeded"),
            "Rate limit reached for requests.",
        ),
        529 => (
            "server_error",
            json!("overloaded"),
            "The engine is currently overloaded, please try again later.",
        ),
        503 => (
            "server_error",
            Value::Null,
            "The engine is currently overloaded, please try again later.",
        ),
        500.. => (
            "server_error",
            Value::Null,
            "The server had an error while processing your request.",
        ),
        _ => ("invalid_request_error", Value::Null, "The request is not valid."),
    }
}

fn call_id(number: usize, index: usize) -> String {
    format!("call_{number}_{index}")
}

/// Completes an entry of `tool_calls`. `entry` holds the fields before the id.
fn build_call(mut entry: Value, id: Option<String>, function: Value) -> Value {
    if let Some(id) = id {
        entry["id"] = id.into();
    }
    entry["type"] = "function".into();
    entry["function"] = function;
    entry
}

fn encode_usage(usage: ScriptedUsage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn build_envelope(telling: RoundContext<'_>, object: &str, choices: Value) -> Value {
    json!({
        "id": format!("chatcmpl-script-{}", telling.number),
        "object": object,
        "created": CREATED,
        "model": telling.model,
        "choices": choices,
    })
}

struct ChunkSpeaker<'a> {
    telling: RoundContext<'a>,
    calls: usize,
}

impl ChunkSpeaker<'_> {
    fn delta(&self, delta: Value, out: &mut SpeakerOutput) {
        self.choice(delta, Value::Null, out);
    }

    fn choice(&self, delta: Value, finish: Value, out: &mut SpeakerOutput) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        out.data(&build_envelope(self.telling, CHUNK, json!([choice])));
    }

    /// Only the first piece has id and name; later pieces name their call by its index.
    fn call(&mut self, call: &ScriptedCall, out: &mut SpeakerOutput) {
        let index = self.calls;
        self.calls += 1;
        let mut pieces = cut_text(&call.arguments_text(), call.pieces.unwrap_or(1)).into_iter();
        let function = json!({"name": call.name, "arguments": pieces.next().unwrap_or_default()});
        let id = call.id_or(|| call_id(self.telling.number, index));
        let first = build_call(json!({"index": index}), id, function);
        self.delta(json!({"tool_calls": [first]}), out);
        for piece in pieces {
            self.delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                out,
            );
        }
    }
}

const CHUNK: &str = "chat.completion.chunk";

impl Speaker for ChunkSpeaker<'_> {
    fn begin(&mut self, out: &mut SpeakerOutput) {
        self.delta(json!({"role": "assistant", "content": "", "refusal": null}), out);
    }

    fn text(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.delta(json!({"content": text}), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.delta(json!({"reasoning_content": text}), out);
    }

    fn calls(&mut self, calls: &[ScriptedCall], out: &mut SpeakerOutput) {
        calls.iter().for_each(|call| self.call(call, out));
    }

    fn usage(&mut self, usage: ScriptedUsage, out: &mut SpeakerOutput) {
        let mut chunk = build_envelope(self.telling, CHUNK, json!([]));
        chunk["usage"] = encode_usage(usage);
        out.data(&chunk);
    }

    fn finish(&mut self, reason: &str, out: &mut SpeakerOutput) {
        self.choice(json!({}), reason.into(), out);
    }

    fn done(&mut self, out: &mut SpeakerOutput) {
        out.send("data: [DONE]\n\n");
    }

    fn frame(&mut self, value: &Value, out: &mut SpeakerOutput) {
        out.data(value);
    }

    fn error(&mut self, body: &Value, out: &mut SpeakerOutput) {
        out.data(body);
    }

    fn counts_last(&self) -> bool {
        true
    }
}
