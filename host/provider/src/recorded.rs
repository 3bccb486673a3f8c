//! Streams as servers of the four wires send them, each read whole and cut at every byte.
//!
//! The recordings are beside this file, in one folder for each wire. Identifiers and signatures are made up. The result
//! of each is a snapshot, so that a change in the events is noticed.

use std::fmt::Write as _;
use std::thread;

use serde_json::json;

use super::failure::ProviderFailure;
use super::wire::{Wire, decode};
use super::{LabelMark, Message, ModelRequest, ProviderEvent, ToolSpec, chat, generate_content, messages, responses};
use tool_config::{ProviderApi, ProviderSettings};
use tool_core::api::ProviderName;

pub(super) struct Recording {
    pub(super) name: &'static str,
    pub(super) api: ProviderApi,
    pub(super) bytes: &'static [u8],
}

macro_rules! recordings {
    ($($api:ident: $folder:literal [$($name:literal),* $(,)?]),* $(,)?) => {
        &[$($(Recording {
            name: concat!($folder, "/", $name),
            api: ProviderApi::$api,
            bytes: include_bytes!(concat!("recorded/", $folder, "/", $name, ".sse")),
        }),*),*]
    };
}

const RECORDINGS: &[Recording] = recordings! {
    Messages: "messages" [
        "text", "parallel_tools", "thinking_and_tools", "odd_usage", "error_mid_stream", "utf8",
    ],
    Chat: "chat" [
        "text", "parallel_tools", "reasoning_and_tools", "odd_usage", "error_mid_stream", "utf8", "printed_call",
        "whole",
    ],
    GenerateContent: "generate_content" [
        "text", "parallel_tools", "thoughts_and_tools", "odd_usage", "error_mid_stream", "utf8", "blocked",
    ],
    Responses: "responses" [
        "text", "parallel_tools", "reasoning_and_tools", "odd_usage", "error_mid_stream", "utf8", "cut_off", "refusal",
    ],
};

fn wire(api: ProviderApi) -> Box<dyn Wire> {
    let settings = ProviderSettings {
        text_calls: api == ProviderApi::Chat,
        ..ProviderSettings::new(ProviderName::Hosted, api, "http://127.0.0.1:1", "m")
    };
    match api {
        ProviderApi::Messages => Box::new(messages::MessagesWire::new(&settings)),
        ProviderApi::GenerateContent => Box::new(generate_content::GenerateContentWire::new(&settings)),
        ProviderApi::Responses => Box::new(responses::ResponsesWire::new(&settings)),
        _ => Box::new(chat::ChatWire::new(&settings)),
    }
}

type Decoded = (Vec<ProviderEvent>, Result<(), ProviderFailure>);

pub(super) fn read(recording: &Recording, pieces: &[&[u8]]) -> Decoded {
    let messages = [Message::User {
        text: "What is this?".into(),
    }];
    let tools = ["read_file", "list_files"].map(|name| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    });
    let request = ModelRequest {
        system: "Be brief.",
        messages: &messages,
        tools: &tools,
        max_tokens: None,
        mark: LabelMark(7),
    };
    decode(&*wire(recording.api), request, pieces)
}

/// The events in lines, pieces of text joined by `|`.
fn shown((events, result): &Decoded) -> String {
    let mut lines = String::new();
    let mut last = "";
    for event in events {
        let (kind, said) = match event {
            ProviderEvent::Text(text) => ("text", text.clone()),
            ProviderEvent::Reasoning(text) => ("reasoning", text.replace('\n', "\\n")),
            ProviderEvent::ToolCall(call) => ("call", format!("{} {} {}", call.id, call.name, call.arguments)),
            ProviderEvent::Usage(usage) => ("usage", json!(usage).to_string()),
            ProviderEvent::Stop { reason, opaque } => ("stop", format!("{reason:?}{}", kept(opaque))),
            other => ("other", format!("{other:?}")),
        };
        if kind == last && matches!(kind, "text" | "reasoning") {
            write!(lines, "|{said}")
        } else {
            write!(lines, "\n  {kind}: {said}")
        }
        .expect("a string takes everything");
        last = kind;
    }
    if let Err(failure) = result {
        write!(lines, "\n  failure: {:?}: {}", failure.class, failure.said).expect("a string takes everything");
    }
    lines
}

/// Items that go back, a line each.
fn kept(opaque: &serde_json::Value) -> String {
    let lists = opaque.as_object().into_iter().flatten();
    let items = lists.flat_map(|(_, list)| list.as_array().into_iter().flatten());
    items.map(|item| format!("\n    {item}")).collect()
}

fn all(api: ProviderApi) -> String {
    let recordings = RECORDINGS.iter().filter(|recording| recording.api == api);
    let shown =
        recordings.map(|recording| format!("{}{}\n", recording.name, shown(&read(recording, &[recording.bytes]))));
    shown.collect()
}

#[test]
fn messages_recordings_are_read_as_they_should() {
    insta::assert_snapshot!(all(ProviderApi::Messages), @r#"
    messages/text
      text: The service| has two faces:| a CLI and an API.
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":15,"estimated":false}
      stop: EndTurn
        {"type":"text","text":"The service has two faces: a CLI and an API."}
    messages/parallel_tools
      text: Let me look.
      call: toolu_01A read_file {"path": "src/app.py"}
      call: toolu_01B list_files {}
      usage: {"input_tokens":1825,"cached_tokens":1800,"output_tokens":89,"estimated":false}
      stop: ToolUse
        {"type":"text","text":"Let me look."}
        {"type":"tool_use","id":"toolu_01A","name":"read_file","input":{"path":"src/app.py"}}
        {"type":"tool_use","id":"toolu_01B","name":"list_files","input":{}}
    messages/thinking_and_tools
      reasoning: The user wants| the entry point.
      call: toolu_02 read_file {"path": "main.py"}
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":142,"estimated":false}
      stop: ToolUse
        {"type":"thinking","thinking":"The user wants the entry point.","signature":"EqQBCgIYAhIM1gbc"}
        {"type":"redacted_thinking","data":"EmwKAhgBEgy3va3p"}
        {"type":"tool_use","id":"toolu_02","name":"read_file","input":{"path":"main.py"}}
    messages/odd_usage
      text: Yes|.
      usage: {"input_tokens":37,"cached_tokens":0,"cache_write_tokens":30,"output_tokens":3,"estimated":false}
      stop: EndTurn
        {"type":"text","text":"Yes."}
    messages/error_mid_stream
      text: The service has
      failure: Server: Overloaded
    messages/utf8
      text: Zoë läuft |🦀 über |日本語
      call: toolu__ read_file {"path":"dök/日.md"}
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":20,"estimated":false}
      stop: ToolUse
        {"type":"text","text":"Zoë läuft 🦀 über 日本語"}
        {"type":"tool_use","id":"toolu__","name":"read_file","input":{"path":"dök/日.md"}}
    "#);
}

#[test]
fn chat_recordings_are_read_as_they_should() {
    insta::assert_snapshot!(all(ProviderApi::Chat), @r#"
    chat/text
      text: The service| has two faces.
      usage: {"input_tokens":25,"cached_tokens":16,"output_tokens":8,"estimated":false}
      stop: EndTurn
    chat/parallel_tools
      call: call_a read_file {"path":"src/app.py"}
      call: call_b list_files {}
      usage: {"input_tokens":120,"cached_tokens":0,"output_tokens":34,"estimated":false}
      stop: ToolUse
    chat/reasoning_and_tools
      reasoning: The user wants| the entry point.
      call: call_1_0 read_file {"path":"main.py"}
      usage: {"input_tokens":194,"cached_tokens":0,"output_tokens":2,"estimated":false,"cost_nanos":950000}
      stop: ToolUse
        {"type":"reasoning.text","text":"The user wants the entry point.","format":"v1","index":0,"signature":"EqQBCgIYAhIM"}
    chat/odd_usage
      reasoning: Hm.
      text: Yes|.
      usage: {"input_tokens":21,"cached_tokens":8,"output_tokens":5,"estimated":false}
      stop: EndTurn
    chat/error_mid_stream
      text: The service
      failure: Server: upstream is gone
    chat/utf8
      text: Zoë läuft |🦀 über |日本語
      call: call_ü read_file {"path":"dök/日.md"}
      stop: ToolUse
    chat/printed_call
      call: printed_1_0 read_file {"path":"a"}
      usage: {"input_tokens":40,"cached_tokens":0,"output_tokens":22,"estimated":false}
      stop: ToolUse
    chat/whole
      text: The service has two faces.
      usage: {"input_tokens":9,"cached_tokens":0,"output_tokens":6,"estimated":false}
      stop: EndTurn
    "#);
}

#[test]
fn generate_content_recordings_are_read_as_they_should() {
    insta::assert_snapshot!(all(ProviderApi::GenerateContent), @r#"
    generate_content/text
      text: The service| has two faces:| a CLI and an API.
      usage: {"input_tokens":25,"cached_tokens":16,"output_tokens":12,"estimated":false}
      stop: EndTurn
        {"text":"The service has two faces: a CLI and an API."}
    generate_content/parallel_tools
      text: Let me look.
      call: call_1_0 read_file {"path":"src/app.py"}
      call: call_1_1 list_files {}
      usage: {"input_tokens":120,"cached_tokens":0,"output_tokens":30,"estimated":false}
      stop: ToolUse
        {"text":"Let me look."}
        {"functionCall":{"name":"read_file","args":{"path":"src/app.py"}},"thoughtSignature":"CtIBAVSoXO4="}
        {"functionCall":{"name":"list_files","args":{}}}
    generate_content/thoughts_and_tools
      reasoning: **Finding the entry point**\n\n|I will read it.
      call: fc-7 read_file {"path":"main.py"}
      usage: {"input_tokens":60,"cached_tokens":0,"output_tokens":75,"estimated":false}
      stop: ToolUse
        {"functionCall":{"id":"fc-7","name":"read_file","args":{"path":"main.py"}},"thoughtSignature":"EqQBCgIYAhIM1gbc"}
    generate_content/odd_usage
      text: Yes|.
      usage: {"input_tokens":28,"cached_tokens":8,"output_tokens":3,"estimated":false}
      stop: EndTurn
        {"text":"Yes."}
    generate_content/error_mid_stream
      text: The service has
      failure: Server: The model is overloaded. Please try again later
    generate_content/utf8
      text: Zoë läuft |🦀 über |日本語
      call: call_1_0 read_file {"path":"dök/日.md"}
      usage: {"input_tokens":9,"cached_tokens":0,"output_tokens":20,"estimated":false}
      stop: ToolUse
        {"text":"Zoë läuft 🦀 über 日本語"}
        {"functionCall":{"name":"read_file","args":{"path":"dök/日.md"}}}
    generate_content/blocked
      other: Notice("The provider's filter ended the answer: PROHIBITED_CONTENT")
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":0,"estimated":false}
      stop: Refusal
    "#);
}

#[test]
fn responses_recordings_are_read_as_they_should() {
    insta::assert_snapshot!(all(ProviderApi::Responses), @r#"
    responses/text
      text: The service| has two faces.
      usage: {"input_tokens":25,"cached_tokens":16,"output_tokens":8,"estimated":false}
      stop: EndTurn
        {"id":"msg_67ccd3acc8d48190","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"The service has two faces.","annotations":[],"logprobs":[]}]}
    responses/parallel_tools
      call: call_a read_file {"path":"src/app.py"}
      call: call_b list_files {}
      usage: {"input_tokens":120,"cached_tokens":0,"output_tokens":34,"estimated":false}
      stop: ToolUse
        {"id":"fc_call_a","type":"function_call","status":"completed","arguments":"{\"path\":\"src/app.py\"}","call_id":"call_a","name":"read_file"}
        {"id":"fc_call_b","type":"function_call","status":"completed","arguments":"{}","call_id":"call_b","name":"list_files"}
    responses/reasoning_and_tools
      reasoning: **Finding the| entry point**|\n\n|I will read it.
      text: Let me look.
      call: call_c read_file {"path":"main.py"}
      usage: {"input_tokens":194,"cached_tokens":128,"output_tokens":80,"estimated":false}
      stop: ToolUse
        {"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"**Finding the entry point**"},{"type":"summary_text","text":"I will read it."}],"encrypted_content":"gAAAAABpZm9v"}
        {"id":"msg_67ccd3acc8d48190","type":"message","role":"assistant","phase":"commentary","status":"completed","content":[{"type":"output_text","text":"Let me look.","annotations":[],"logprobs":[]}]}
        {"id":"fc_call_c","type":"function_call","status":"completed","arguments":"{\"path\":\"main.py\"}","call_id":"call_c","name":"read_file"}
    responses/odd_usage
      text: Yes|.
      usage: {"input_tokens":16,"cached_tokens":0,"output_tokens":5,"estimated":false}
      stop: EndTurn
        {"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Yes.","annotations":[]}]}
    responses/error_mid_stream
      text: The service has
      failure: Server: The server had an error while processing your request. Sorry about that!
    responses/utf8
      text: Zoë läuft |🦀 über |日本語
      call: call_日 read_file {"path":"dök/日.md"}
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":20,"estimated":false}
      stop: ToolUse
        {"id":"msg_67ccd3acc8d48190","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Zoë läuft 🦀 über 日本語","annotations":[],"logprobs":[]}]}
        {"id":"fc_call_日","type":"function_call","status":"completed","arguments":"{\"path\":\"dök/日.md\"}","call_id":"call_日","name":"read_file"}
    responses/cut_off
      text: I write it.
      other: CutOffCall { name: "write_file", arguments: "{\"path\":\"a\",\"con" }
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":64,"estimated":false}
      stop: MaxTokens
        {"id":"msg_67ccd3acc8d48190","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I write it.","annotations":[],"logprobs":[]}]}
    responses/refusal
      text: I can't |help with that.
      usage: {"input_tokens":25,"cached_tokens":0,"output_tokens":7,"estimated":false}
      stop: Refusal
        {"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"I can't help with that."}]}
    "#);
}

fn split_everywhere(recording: &Recording) {
    let (bytes, name) = (recording.bytes, recording.name);
    let whole = read(recording, &[bytes]);
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(read(recording, &[left, right]), whole, "{name} cut at byte {cut}");
    }
    for size in [1, 2, 3, 7] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(read(recording, &pieces), whole, "{name} in pieces of {size}");
    }
}

#[test]
fn providers_every_byte_split_gives_the_same_events() {
    for api in [
        ProviderApi::Messages,
        ProviderApi::Chat,
        ProviderApi::GenerateContent,
        ProviderApi::Responses,
    ] {
        let count = RECORDINGS.iter().filter(|recording| recording.api == api).count();
        assert!(count >= 5, "{api:?} has {count} recordings");
    }
    let threads: Vec<_> = RECORDINGS
        .iter()
        .map(|recording| (recording.name, thread::spawn(move || split_everywhere(recording))))
        .collect();
    for (name, thread) in threads {
        assert!(thread.join().is_ok(), "{name}");
    }
}

/// A stream that ends early is never taken for a whole one, and none of its calls runs.
#[test]
fn sse_3_a_recording_that_breaks_off_anywhere_is_an_error_and_no_call_runs() {
    for recording in RECORDINGS {
        let whole = read(recording, &[recording.bytes]);
        for end in 0..recording.bytes.len() {
            let part = read(recording, &[&recording.bytes[..end]]);
            if part.1.is_ok() {
                // Everything that decides the round has come; only a count or an end mark is missing.
                let decided = |(events, _): &Decoded| {
                    let kept = events.iter().filter(|event| !matches!(event, ProviderEvent::Usage(_)));
                    kept.cloned().collect::<Vec<_>>()
                };
                assert_eq!(
                    decided(&part),
                    decided(&whole),
                    "{} ended at byte {end}",
                    recording.name
                );
            } else {
                let calls = part.0.iter().any(|event| matches!(event, ProviderEvent::ToolCall(_)));
                assert!(!calls, "{} ended at byte {end}", recording.name);
            }
        }
    }
}
