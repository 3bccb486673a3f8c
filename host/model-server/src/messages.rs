//! The Messages API: steps as numbered content blocks or one message, its errors and its model list.

use serde_json::{Value, json};

use super::dialect::{
    AnswerPart, CheckedRequest, Dialect, RoundContext, Speaker, SpeakerOutput, WholeAnswer, WireError, cut_text,
    sign_text,
};
use super::{Script, ScriptedCall, ScriptedUsage, check};

#[derive(Debug)]
pub(super) struct Messages;

impl Dialect for Messages {
    fn speaker<'a>(&self, telling: RoundContext<'a>) -> Box<dyn Speaker + 'a> {
        Box::new(BlockSpeaker {
            counts: TokenCounts::of(telling),
            telling,
            open: None,
            thinking: String::new(),
            blocks: 0,
            calls: 0,
            pinged: false,
        })
    }

    fn whole(&self, said: &WholeAnswer, telling: RoundContext<'_>) -> Value {
        let mut calls = 0;
        let content: Vec<Value> = said
            .parts
            .iter()
            .filter_map(|part| match part {
                AnswerPart::Text(text) => Some(json!({"type": "text", "text": text})),
                AnswerPart::Reasoning(text) => {
                    Some(json!({"type": "thinking", "thinking": text, "signature": sign_text(text)}))
                }
                // An answer that comes at once cannot contain a call whose input is not an object.
                AnswerPart::Call(call) => {
                    calls += 1;
                    let mut block = tool_use(call, telling.number, calls - 1);
                    block["input"] = call.arguments_object()?;
                    Some(block)
                }
            })
            .collect();
        let mut message = build_message(telling, json!(content));
        message["stop_reason"] = stop_reason(&said.finish).into();
        message["usage"] = TokenCounts::of(telling).at_start();
        message["usage"]["output_tokens"] = TokenCounts::of(telling).output.into();
        message
    }

    fn error(&self, mishap: WireError<'_>) -> Value {
        let (kind, message) = error_words(mishap.code);
        let message = mishap.message.unwrap_or(message);
        let mut error = json!({"type": kind, "message": message});
        if let Some(seconds) = mishap.retry_after_seconds {
            error["metadata"] = json!({"retry_after_seconds": seconds});
        }
        json!({"type": "error", "error": error, "request_id": "req_script"})
    }

    fn models(&self, ids: &[String]) -> Value {
        let data: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({"data": data, "has_more": false, "first_id": ids.first(), "last_id": ids.last()})
    }

    fn model(&self, id: &str) -> Value {
        json!({
            "type": "model",
            "id": id,
            "display_name": id,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
        })
    }

    fn check(&self, request: CheckedRequest<'_>, _script: &Script, _told: usize) -> Result<(), String> {
        if !request.header.has_header("anthropic-version") {
            return Err("anthropic-version: header is required".to_owned());
        }
        check::messages::check_request(request.body)
    }
}

fn error_words(code: u16) -> (&'static str, &'static str) {
    match code {
        401 => ("authentication_error", "invalid x-api-key"),
        402 => ("billing_error", "Your credit balance is too low."),
        403 => (
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        404 => ("not_found_error", "The requested resource was not found."),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => (
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
        ),
        504 => ("timeout_error", "The request timed out."),
        529 => ("overloaded_error", "Overloaded"),
        500.. => ("api_error", "Internal server error"),
        _ => ("invalid_request_error", "The request is not valid."),
    }
}

fn stop_reason(reason: &str) -> &str {
    match reason {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        own => own,
    }
}

fn build_message(telling: RoundContext<'_>, content: Value) -> Value {
    json!({
        "id": format!("msg_script_{}", telling.number),
        "type": "message",
        "role": "assistant",
        "model": telling.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn tool_use(call: &ScriptedCall, number: usize, index: usize) -> Value {
    let mut block = json!({"type": "tool_use"});
    if let Some(id) = call.id_or(|| format!("toolu_{number}_{index}")) {
        block["id"] = id.into();
    }
    block["name"] = call.name.as_str().into();
    block["input"] = json!({});
    block
}

/// The token counts of an answer. This wire always reports some, so a script without counts gets estimates.
#[derive(Debug, Clone, Copy)]
struct TokenCounts {
    /// Without cached tokens, as this wire counts them.
    input: u64,
    cached: u64,
    output: u64,
}

impl TokenCounts {
    fn of(telling: RoundContext<'_>) -> Self {
        let estimate = ScriptedUsage {
            input: telling.request_tokens,
            output: 1,
            cached: 0,
        };
        let (first, last) = telling.round.usages().unwrap_or((estimate, estimate));
        Self {
            input: first.input.saturating_sub(first.cached),
            cached: first.cached,
            output: last.output,
        }
    }

    fn at_start(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": 1,
            "service_tier": "standard",
        })
    }

    /// Counts are cumulative, so those of the start are repeated.
    fn at_end(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.output,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

struct BlockSpeaker<'a> {
    telling: RoundContext<'a>,
    counts: TokenCounts,
    /// The block that the server is sending. Calls are sent whole, so none stays open.
    open: Option<BlockKind>,
    thinking: String,
    /// Blocks begun so far.
    blocks: usize,
    calls: usize,
    pinged: bool,
}

impl BlockSpeaker<'_> {
    /// The block for more of this kind: the open one, or a new one.
    fn open(&mut self, kind: BlockKind, out: &mut SpeakerOutput) {
        if self.open == Some(kind) {
            return;
        }
        self.close(out);
        self.start(
            match kind {
                BlockKind::Text => json!({"type": "text", "text": ""}),
                BlockKind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
            },
            out,
        );
        self.open = Some(kind);
    }

    fn start(&mut self, block: Value, out: &mut SpeakerOutput) {
        let event = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        self.blocks += 1;
        out.event("content_block_start", &event);
        if !self.pinged {
            self.pinged = true;
            out.event("ping", &json!({"type": "ping"}));
        }
    }

    fn delta(&self, delta: Value, out: &mut SpeakerOutput) {
        let event = json!({"type": "content_block_delta", "index": self.blocks - 1, "delta": delta});
        out.event("content_block_delta", &event);
    }

    fn stop(&self, out: &mut SpeakerOutput) {
        let event = json!({"type": "content_block_stop", "index": self.blocks - 1});
        out.event("content_block_stop", &event);
    }

    fn close(&mut self, out: &mut SpeakerOutput) {
        match self.open.take() {
            Some(BlockKind::Thinking) => {
                let thinking = std::mem::take(&mut self.thinking);
                self.delta(
                    json!({"type": "signature_delta", "signature": sign_text(&thinking)}),
                    out,
                );
            }
            Some(BlockKind::Text) => {}
            None => return,
        }
        self.stop(out);
    }

    /// The input comes as pieces of JSON text. The first piece is empty, and the only one if there is no input.
    fn call(&mut self, call: &ScriptedCall, out: &mut SpeakerOutput) {
        self.close(out);
        self.start(tool_use(call, self.telling.number, self.calls), out);
        self.calls += 1;
        let arguments = call.arguments_text();
        let pieces = if arguments.is_empty() {
            Vec::new()
        } else {
            cut_text(&arguments, call.pieces.unwrap_or(1))
        };
        for piece in std::iter::once(String::new()).chain(pieces) {
            self.delta(json!({"type": "input_json_delta", "partial_json": piece}), out);
        }
        self.stop(out);
    }
}

impl Speaker for BlockSpeaker<'_> {
    fn begin(&mut self, out: &mut SpeakerOutput) {
        let mut message = build_message(self.telling, json!([]));
        message["usage"] = self.counts.at_start();
        out.event("message_start", &json!({"type": "message_start", "message": message}));
    }

    fn text(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.open(BlockKind::Text, out);
        self.delta(json!({"type": "text_delta", "text": text}), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.open(BlockKind::Thinking, out);
        self.thinking.push_str(text);
        self.delta(json!({"type": "thinking_delta", "thinking": text}), out);
    }

    fn calls(&mut self, calls: &[ScriptedCall], out: &mut SpeakerOutput) {
        calls.iter().for_each(|call| self.call(call, out));
    }

    fn finish(&mut self, reason: &str, out: &mut SpeakerOutput) {
        self.close(out);
        let delta = json!({"stop_reason": stop_reason(reason), "stop_sequence": null});
        let event = json!({"type": "message_delta", "delta": delta, "usage": self.counts.at_end()});
        out.event("message_delta", &event);
    }

    fn done(&mut self, out: &mut SpeakerOutput) {
        out.event("message_stop", &json!({"type": "message_stop"}));
    }

    fn error(&mut self, body: &Value, out: &mut SpeakerOutput) {
        out.event("error", body);
    }
}
