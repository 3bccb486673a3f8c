//! The Responses API: steps as items of an answer, its errors, and the model list of Chat Completions.

use serde_json::{Value, json};

use super::chat::{CREATED, Chat};
use super::dialect::{
    AnswerPart, CheckedRequest, Dialect, RoundContext, Speaker, SpeakerOutput, WholeAnswer, WireError, cut_text,
    sign_text,
};
use super::{Script, ScriptedCall, ScriptedUsage, check};

#[derive(Debug)]
pub(super) struct Responses;

impl Dialect for Responses {
    fn speaker<'a>(&self, telling: RoundContext<'a>) -> Box<dyn Speaker + 'a> {
        Box::new(ItemSpeaker {
            telling,
            events: 0,
            output: Vec::new(),
            open: None,
            calls: 0,
            usage: None,
            is_over: false,
        })
    }

    fn whole(&self, said: &WholeAnswer, telling: RoundContext<'_>) -> Value {
        let mut calls = 0;
        let items = said.parts.iter().enumerate().map(|(place, part)| match part {
            AnswerPart::Text(text) => build_message(telling.number, place, "completed", json!([output_text(text)])),
            AnswerPart::Reasoning(text) => build_reasoning(telling.number, place, text),
            AnswerPart::Call(call) => {
                calls += 1;
                function_call(telling.number, calls - 1, call, &call.arguments_text(), "completed")
            }
        });
        let items = items.collect();
        build_response(telling, state_of(&said.finish), items, said.usage)
    }

    fn error(&self, mishap: WireError<'_>) -> Value {
        Chat.error(mishap)
    }

    fn models(&self, ids: &[String]) -> Value {
        Chat.models(ids)
    }

    fn model(&self, id: &str) -> Value {
        Chat.model(id)
    }

    fn check(&self, request: CheckedRequest<'_>, _script: &Script, _told: usize) -> Result<(), String> {
        check::responses::check_request(request.body)
    }
}

/// The status of a response, and the reason of one that is incomplete.
fn state_of(finish: &str) -> (&str, Option<&str>) {
    match finish {
        "stop" | "tool_calls" => ("completed", None),
        "length" => ("incomplete", Some("max_output_tokens")),
        "content_filter" => ("incomplete", Some("content_filter")),
        own => (own, None),
    }
}

fn build_response(
    telling: RoundContext<'_>,
    (status, reason): (&str, Option<&str>),
    output: Vec<Value>,
    usage: Option<ScriptedUsage>,
) -> Value {
    json!({
        "id": format!("resp_script_{}", telling.number),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": null,
        "metadata": {},
        "model": telling.model,
        "output": output,
        "parallel_tool_calls": true,
        "store": false,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage.map(encode_usage),
    })
}

fn encode_usage(usage: ScriptedUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    })
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn build_message(number: usize, place: usize, status: &str, content: Value) -> Value {
    json!({
        "id": format!("msg_{number}_{place}"),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    })
}

fn build_reasoning(number: usize, place: usize, text: &str) -> Value {
    json!({
        "id": format!("rs_{number}_{place}"),
        "type": "reasoning",
        "summary": [summary_text(text)],
        "encrypted_content": sign_text(text),
    })
}

fn summary_text(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

fn function_call(number: usize, index: usize, call: &ScriptedCall, arguments: &str, status: &str) -> Value {
    let mut item = json!({"id": format!("fc_{number}_{index}"), "type": "function_call", "status": status});
    if let Some(id) = call.id_or(|| format!("call_{number}_{index}")) {
        item["call_id"] = id.into();
    }
    item["name"] = call.name.as_str().into();
    item["arguments"] = arguments.into();
    item
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Reasoning,
}

struct ItemSpeaker<'a> {
    telling: RoundContext<'a>,
    /// Number of events sent. Each event has a number.
    events: usize,
    /// Whole items.
    output: Vec<Value>,
    /// The item that the server is sending, and its text so far. Calls are sent whole, so none stays open.
    open: Option<(ItemKind, String)>,
    calls: usize,
    usage: Option<ScriptedUsage>,
    /// True once the event that ends the response was sent.
    is_over: bool,
}

impl ItemSpeaker<'_> {
    fn event(&mut self, name: &str, mut event: Value, out: &mut SpeakerOutput) {
        event["type"] = name.into();
        event["sequence_number"] = self.events.into();
        self.events += 1;
        out.event(name, &event);
    }

    fn response(&mut self, name: &str, state: (&str, Option<&str>), out: &mut SpeakerOutput) {
        let response = build_response(self.telling, state, self.output.clone(), self.usage);
        self.event(name, json!({"response": response}), out);
    }

    /// An event about the item that the server is sending.
    fn about(&mut self, name: &str, fields: Value, out: &mut SpeakerOutput) {
        let (number, place) = (self.telling.number, self.output.len());
        let (kind, _) = self.open.as_ref().expect("an item is open");
        let (prefix, part) = match kind {
            ItemKind::Message => ("msg", "content_index"),
            ItemKind::Reasoning => ("rs", "summary_index"),
        };
        let mut event = json!({"item_id": format!("{prefix}_{number}_{place}"), "output_index": place, part: 0});
        for (key, value) in fields.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        self.event(name, event, out);
    }

    fn item(&mut self, name: &str, item: Value, out: &mut SpeakerOutput) {
        let event = json!({"output_index": self.output.len(), "item": item});
        self.event(name, event, out);
    }

    /// Continues the open item of this kind, or begins one.
    fn open(&mut self, kind: ItemKind, out: &mut SpeakerOutput) {
        if self.open.as_ref().is_some_and(|(open, _)| *open == kind) {
            return;
        }
        self.close(out);
        let (number, place) = (self.telling.number, self.output.len());
        self.open = Some((kind, String::new()));
        match kind {
            ItemKind::Message => {
                self.item(ADDED, build_message(number, place, "in_progress", json!([])), out);
                self.about("response.content_part.added", json!({"part": output_text("")}), out);
            }
            ItemKind::Reasoning => {
                let mut item = build_reasoning(number, place, "");
                item["summary"] = json!([]);
                self.item(ADDED, item, out);
                let part = json!({"part": summary_text("")});
                self.about("response.reasoning_summary_part.added", part, out);
            }
        }
    }

    fn close(&mut self, out: &mut SpeakerOutput) {
        let Some((kind, text)) = self.open.clone() else { return };
        let (number, place) = (self.telling.number, self.output.len());
        let item = match kind {
            ItemKind::Message => {
                let whole = json!({"text": text, "logprobs": []});
                self.about("response.output_text.done", whole, out);
                let part = output_text(&text);
                self.about("response.content_part.done", json!({"part": part}), out);
                build_message(number, place, "completed", json!([part]))
            }
            ItemKind::Reasoning => {
                self.about("response.reasoning_summary_text.done", json!({"text": text}), out);
                let part = json!({"part": summary_text(&text)});
                self.about("response.reasoning_summary_part.done", part, out);
                build_reasoning(number, place, &text)
            }
        };
        self.open = None;
        self.item(DONE, item.clone(), out);
        self.output.push(item);
    }

    fn piece(&mut self, text: &str, out: &mut SpeakerOutput) {
        let (kind, told) = self.open.as_mut().expect("an item is open");
        told.push_str(text);
        match kind {
            ItemKind::Message => {
                let piece = json!({"delta": text, "logprobs": []});
                self.about("response.output_text.delta", piece, out);
            }
            ItemKind::Reasoning => {
                self.about("response.reasoning_summary_text.delta", json!({"delta": text}), out);
            }
        }
    }

    fn call(&mut self, call: &ScriptedCall, out: &mut SpeakerOutput) {
        self.close(out);
        let (number, index, place) = (self.telling.number, self.calls, self.output.len());
        self.calls += 1;
        let arguments = call.arguments_text();
        self.item(ADDED, function_call(number, index, call, "", "in_progress"), out);
        let id = format!("fc_{number}_{index}");
        for piece in cut_text(&arguments, call.pieces.unwrap_or(1)) {
            let event = json!({"item_id": id, "output_index": place, "delta": piece});
            self.event("response.function_call_arguments.delta", event, out);
        }
        let event = json!({"item_id": id, "output_index": place, "name": call.name, "arguments": arguments});
        self.event("response.function_call_arguments.done", event, out);
        let item = function_call(number, index, call, &arguments, "completed");
        self.item(DONE, item.clone(), out);
        self.output.push(item);
    }
}

const ADDED: &str = "response.output_item.added";
const DONE: &str = "response.output_item.done";

impl Speaker for ItemSpeaker<'_> {
    fn begin(&mut self, out: &mut SpeakerOutput) {
        self.response("response.created", ("in_progress", None), out);
        self.response("response.in_progress", ("in_progress", None), out);
    }

    fn text(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.open(ItemKind::Message, out);
        self.piece(text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.open(ItemKind::Reasoning, out);
        self.piece(text, out);
    }

    fn calls(&mut self, calls: &[ScriptedCall], out: &mut SpeakerOutput) {
        calls.iter().for_each(|call| self.call(call, out));
    }

    /// The counts come with the end.
    fn usage(&mut self, usage: ScriptedUsage, _out: &mut SpeakerOutput) {
        self.usage = Some(usage);
    }

    fn finish(&mut self, reason: &str, out: &mut SpeakerOutput) {
        // The event that ends the response also ends the stream; a second one would not be valid on this wire.
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.close(out);
        let state = state_of(reason);
        self.response(&format!("response.{}", state.0), state, out);
    }

    fn error(&mut self, body: &Value, out: &mut SpeakerOutput) {
        let error = &body["error"];
        let event = json!({"code": error["code"], "message": error["message"], "param": error["param"]});
        self.event("error", event, out);
    }
}
