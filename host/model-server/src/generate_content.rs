//! generateContent: steps as a stream of partial responses or one response, its errors and its model list.

use serde_json::{Value, json};

use super::dialect::{
    AnswerPart, CheckedRequest, Dialect, RoundContext, Speaker, SpeakerOutput, WholeAnswer, WireError, sign_text,
};
use super::{Round, Script, ScriptedCall, ScriptedUsage, ServerStep, check};

#[derive(Debug)]
pub(super) struct GenerateContent;

impl Dialect for GenerateContent {
    fn speaker<'a>(&self, telling: RoundContext<'a>) -> Box<dyn Speaker + 'a> {
        Box::new(Responses {
            telling,
            thought: String::new(),
        })
    }

    fn whole(&self, said: &WholeAnswer, telling: RoundContext<'_>) -> Value {
        let mut thought = String::new();
        let mut parts = Vec::new();
        for part in &said.parts {
            match part {
                AnswerPart::Text(text) => parts.push(json!({"text": text})),
                AnswerPart::Reasoning(text) => {
                    thought.push_str(text);
                    parts.push(json!({"text": text, "thought": true}));
                }
                AnswerPart::Call(call) => parts.extend(function_call(call, &std::mem::take(&mut thought))),
            }
        }
        let candidate = build_candidate(&parts, Some(finish_reason(&said.finish)));
        build_response(telling, &candidate, said.usage.map(encode_usage))
    }

    fn error(&self, mishap: WireError<'_>) -> Value {
        let (status, message) = error_words(mishap.code);
        let message = mishap.message.unwrap_or(message);
        let mut error = json!({"code": mishap.code, "message": message, "status": status});
        if let Some(seconds) = mishap.retry_after_seconds {
            error["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{seconds}s"),
            }]);
        }
        json!({"error": error})
    }

    fn models(&self, ids: &[String]) -> Value {
        let models: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({"models": models})
    }

    fn model(&self, id: &str) -> Value {
        json!({
            "name": format!("models/{id}"),
            "version": "001",
            "displayName": id,
            "description": "follows a script",
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    }

    fn check(&self, request: CheckedRequest<'_>, script: &Script, told: usize) -> Result<(), String> {
        if request.streams && !request.query.split('&').any(|pair| pair == "alt=sse") {
            return Err(
                "without `?alt=sse` the answer would not be a stream of events: add it to the address".to_owned(),
            );
        }
        let told = script.told(told);
        let signed: Vec<(&ScriptedCall, String)> = told.filter_map(signed_call).collect();
        check::generate_content::check_request(request.body, &signed)
    }
}

/// Status and sentence of an error.
fn error_words(code: u16) -> (&'static str, &'static str) {
    match code {
        400 => ("INVALID_ARGUMENT", "Request contains an invalid argument."),
        401 => ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
        402 => ("FAILED_PRECONDITION", "Billing is not enabled for this project."),
        403 => ("PERMISSION_DENIED", "The caller does not have permission"),
        404 => ("NOT_FOUND", "Requested entity was not found."),
        408 | 504 => ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        429 => ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        503 | 529 => ("UNAVAILABLE", "The model is overloaded. Please try again later."),
        500.. => ("INTERNAL", "An internal error has occurred. Please retry."),
        _ => ("INVALID_ARGUMENT", "The request is not valid."),
    }
}

fn finish_reason(reason: &str) -> &str {
    match reason {
        "stop" | "tool_calls" => "STOP",
        "length" => "MAX_TOKENS",
        "content_filter" => "SAFETY",
        own => own,
    }
}

/// The first call after a thought carries the thought's signature, which must come back.
fn function_call(call: &ScriptedCall, thought: &str) -> Option<Value> {
    let mut function = json!({});
    if let Some(id) = call.id.as_ref().filter(|_| !call.no_id) {
        function["id"] = id.as_str().into();
    }
    function["name"] = call.name.as_str().into();
    function["args"] = call.arguments_object()?;
    let mut part = json!({"functionCall": function});
    if !thought.is_empty() {
        part["thoughtSignature"] = sign_text(thought).into();
    }
    Some(part)
}

/// A call of a round that was sent with a signature.
fn signed_call(round: &Round) -> Option<(&ScriptedCall, String)> {
    let mut thought = String::new();
    for step in &round.steps {
        match step {
            ServerStep::Reasoning(text) => thought.push_str(text),
            ServerStep::ToolCalls(calls) if !thought.is_empty() => {
                let call = calls.iter().find(|call| call.arguments_object().is_some())?;
                return Some((call, sign_text(&thought)));
            }
            _ => {}
        }
    }
    None
}

fn build_candidate(parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}});
    if let Some(reason) = finish {
        candidate["finishReason"] = reason.into();
    }
    candidate["index"] = 0.into();
    candidate
}

fn build_response(telling: RoundContext<'_>, candidate: &Value, counts: Option<Value>) -> Value {
    let mut response = json!({"candidates": [candidate]});
    if let Some(counts) = counts {
        response["usageMetadata"] = counts;
    }
    response["modelVersion"] = telling.model.into();
    response["responseId"] = format!("script-{}", telling.number).into();
    response
}

fn encode_usage(usage: ScriptedUsage) -> Value {
    let mut counts = json!({
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
    });
    if usage.cached > 0 {
        counts["cachedContentTokenCount"] = usage.cached.into();
    }
    counts
}

struct Responses<'a> {
    telling: RoundContext<'a>,
    /// Thinking that no signature has followed yet.
    thought: String,
}

impl Responses<'_> {
    fn parts(&self, parts: &[Value], finish: Option<&str>, out: &mut SpeakerOutput) {
        let counts = self.telling.round.usages().map(|(first, last)| match finish {
            Some(_) => encode_usage(last),
            None => json!({"promptTokenCount": first.input, "totalTokenCount": first.input}),
        });
        self.event(
            &build_response(self.telling, &build_candidate(parts, finish), counts),
            out,
        );
    }

    /// This wire ends its lines with CR and LF.
    fn event(&self, value: &Value, out: &mut SpeakerOutput) {
        out.send(format!("data: {value}\r\n\r\n"));
    }
}

impl Speaker for Responses<'_> {
    fn begin(&mut self, _out: &mut SpeakerOutput) {}

    fn text(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.parts(&[json!({"text": text})], None, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut SpeakerOutput) {
        self.thought.push_str(text);
        self.parts(&[json!({"text": text, "thought": true})], None, out);
    }

    /// Calls come whole, and all calls of one step in one list of parts.
    fn calls(&mut self, calls: &[ScriptedCall], out: &mut SpeakerOutput) {
        let mut parts = Vec::new();
        for call in calls {
            if let Some(part) = function_call(call, &self.thought) {
                self.thought.clear();
                parts.push(part);
            }
        }
        if !parts.is_empty() {
            self.parts(&parts, None, out);
        }
    }

    fn finish(&mut self, reason: &str, out: &mut SpeakerOutput) {
        self.parts(&[json!({"text": ""})], Some(finish_reason(reason)), out);
    }

    fn frame(&mut self, value: &Value, out: &mut SpeakerOutput) {
        self.event(value, out);
    }

    fn error(&mut self, body: &Value, out: &mut SpeakerOutput) {
        self.event(body, out);
    }
}
