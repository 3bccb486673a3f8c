//! Hostile providers: any bytes as the body of an answer, as an error, and around the key that we sent.

use serde_json::{Value, json};

use super::body::AnswerBody;
use super::failure::ProviderFailure;
use super::redact::KeyShield;
use super::wire::Wire;
use super::{
    LabelMark, Message, ModelRequest, ProviderEvent, ToolSpec, chat, failure, generate_content, messages, responses,
    schema,
};
use input::{Input, pieces};
use tool_config::{ProviderApi, ProviderSettings, Secret};
use tool_core::api::ProviderName;

#[path = "../input.rs"]
mod input;

/// The key that no reader may ever see.
const KEY: &str = "sk-canary-0123456789abcdef";

/// The wires, and what the servers of each call their answers.
const WIRES: [(ProviderApi, bool); 5] = [
    (ProviderApi::Messages, false),
    (ProviderApi::Chat, false),
    (ProviderApi::Chat, true),
    (ProviderApi::GenerateContent, false),
    (ProviderApi::Responses, false),
];

/// An answer gives the same events however its bytes were cut, ends at most once, and holds no call where it fails.
pub fn wires(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (choice, seed) = (input.byte(), input.byte());
    let (api, text_calls) = WIRES[usize::from(choice) % WIRES.len()];
    let settings = settings(api, text_calls);
    let wire = wire(&settings);
    let media_type = match choice & 0x80 {
        0 => "text/event-stream",
        _ => "application/json",
    };
    let body = input.rest();
    let (messages, tools) = (conversation(), [tool("read_file"), tool("search_code")]);
    let request = ModelRequest {
        system: "s",
        messages: &messages,
        tools: &tools,
        max_tokens: None,
        mark: LabelMark(7),
    };
    let whole = decode(&*wire, request, media_type, &[body]);
    let cut = decode(&*wire, request, media_type, &pieces(body, seed));
    assert_eq!(whole, cut, "the pieces must not matter");
    let (events, result) = whole;
    let stops = events.iter().filter(|event| is_stop(event)).count();
    match result {
        Ok(()) => assert!(
            stops == 1 && events.last().is_some_and(is_stop),
            "a whole answer ends once"
        ),
        Err(failure) => {
            let holds_call = events.iter().any(|event| matches!(event, ProviderEvent::ToolCall(_)));
            assert!(stops == 0 && !holds_call, "a broken answer runs nothing: {failure:?}");
        }
    }
    check_calls(&events);
    let shown: usize = events.iter().map(bytes_of).sum();
    assert!(shown <= 64 * body.len() + 4096, "{shown} bytes out of {}", body.len());
}

/// Checks that a provider's failures become bounded sentences that do not hold the key.
pub fn failures(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (choice, status) = (input.byte(), input.byte());
    let settings = settings(WIRES[usize::from(choice) % WIRES.len()].0, false);
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let status = 300 + u16::from(status);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let failures = [
        Some(ProviderFailure::from_answer(status, &text, None)),
        Some(ProviderFailure::from_stream_text(&text)),
        Some(ProviderFailure::not_a_stream(status, &text)),
        parsed.as_ref().map(|value| ProviderFailure::from_value(None, value)),
        parsed
            .as_ref()
            .map(|value| ProviderFailure::from_value(Some(status), value)),
    ];
    for failure in failures.into_iter().flatten() {
        let _ = failure.is_retryable();
        let problem = failure.problem(&settings, 1_000);
        for said in [Some(problem.message), problem.hint, Some(failure.reason(&settings))] {
            let said = said.unwrap_or_default();
            assert!(!said.contains(KEY), "the key is shown");
            assert!(said.len() < 4_000, "a sentence of {} bytes", said.len());
            assert!(!said.chars().any(char::is_control), "{said:?} steers a terminal");
        }
    }
    let _ = failure::is_template_complaint(&text);
    if let Some(value) = parsed {
        let plain = schema::plain_parameters(&value);
        assert!(plain["type"] == "object" && plain["properties"] != Value::Null);
        let _ = schema::declared_parameters(&value);
    }
}

/// A text that holds the key is shown without it, and another one as it is, however it was cut.
pub fn masking(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let seed = input.byte();
    // 0x01 stands for the key, which a mutation would hardly ever hit upon; 0x02 for its beginning.
    let text = String::from_utf8_lossy(input.rest())
        .replace('\u{1}', KEY)
        .replace('\u{2}', &KEY[..KEY.len() - 3]);
    let settings = settings(ProviderApi::Chat, false);
    let shown = |pieces: &[&str]| {
        let mut shield = KeyShield::new(&settings);
        let mut shown = String::new();
        let passed: Vec<_> = pieces
            .iter()
            .flat_map(|piece| shield.pass(ProviderEvent::Text((*piece).to_owned())))
            .collect();
        for event in passed.into_iter().chain(shield.end()) {
            if let ProviderEvent::Text(text) = event {
                shown.push_str(&text);
            }
        }
        shown
    };
    let whole = shown(&[&text]);
    assert_eq!(whole, text.replace(KEY, "***"));
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let cut: Vec<&str> = match seed & 1 {
        0 => characters.iter().map(String::as_str).collect(),
        _ => text.split_inclusive(char::from(seed >> 1)).collect(),
    };
    assert_eq!(shown(&cut), whole, "the pieces must not matter");
}

/// Reads a body that comes in pieces.
pub(super) fn decode(
    wire: &dyn Wire,
    request: ModelRequest<'_>,
    media_type: &str,
    pieces: &[&[u8]],
) -> (Vec<ProviderEvent>, Result<(), ProviderFailure>) {
    let mut body = AnswerBody::new(wire.decoder(request), media_type, None);
    let mut events = Vec::new();
    for piece in pieces {
        match body.take(piece, &mut events) {
            Ok(false) => {}
            Ok(true) => return (events, Ok(())),
            Err(failure) => return (events, Err(failure)),
        }
    }
    let result = body.finish(&mut events);
    (events, result)
}

fn settings(api: ProviderApi, text_calls: bool) -> ProviderSettings {
    ProviderSettings {
        api_key: Some(Secret::new(KEY)),
        text_calls,
        ..ProviderSettings::new(ProviderName::Hosted, api, "http://127.0.0.1:1/v1", "model")
    }
}

fn wire(settings: &ProviderSettings) -> Box<dyn Wire> {
    match settings.api {
        ProviderApi::Messages | ProviderApi::Analyst => Box::new(messages::MessagesWire::new(settings)),
        ProviderApi::Chat => Box::new(chat::ChatWire::new(settings)),
        ProviderApi::GenerateContent => Box::new(generate_content::GenerateContentWire::new(settings)),
        ProviderApi::Responses => Box::new(responses::ResponsesWire::new(settings)),
    }
}

fn conversation() -> [Message; 1] {
    [Message::User {
        text: "Explain this.".to_owned(),
    }]
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

fn is_stop(event: &ProviderEvent) -> bool {
    matches!(event, ProviderEvent::Stop { .. })
}

fn check_calls(events: &[ProviderEvent]) {
    let mut ids: Vec<&str> = Vec::new();
    for event in events {
        if let ProviderEvent::ToolCall(call) = event {
            assert!(!call.id.is_empty(), "a call without an id");
            assert!(!ids.contains(&call.id.as_str()), "two calls are named {:?}", call.id);
            ids.push(&call.id);
        }
    }
}

fn bytes_of(event: &ProviderEvent) -> usize {
    match event {
        ProviderEvent::Text(text) | ProviderEvent::Reasoning(text) | ProviderEvent::Notice(text) => text.len(),
        ProviderEvent::ToolCall(call) => call.name.len() + call.arguments.len(),
        ProviderEvent::CutOffCall { name, arguments } => name.len() + arguments.len(),
        ProviderEvent::BrokenCall { said: text }
        | ProviderEvent::TextCall { held: text, .. }
        | ProviderEvent::Waiting { reason: text } => text.len(),
        ProviderEvent::Stop { opaque, .. } => opaque.to_string().len(),
        ProviderEvent::Usage(_) | ProviderEvent::ThinkingRefused => 0,
    }
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", failures masking wires);
}
