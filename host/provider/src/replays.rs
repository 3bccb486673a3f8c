//! Streams in the forms of named servers, faults included: a table of forms and of the events that each should give.
//!
//! They are written from SDK types, documentation and public issue threads; each file names its source in its first
//! line. The folder is `recorded/servers`.

use super::ProviderEvent;
use super::failure::ProviderFailure;
use super::recorded::{Recording, read};
use tool_config::ProviderApi;

/// A replay and its expected events, in one line.
struct ServerReplay {
    form: &'static str,
    recording: Recording,
    expected: &'static str,
}

macro_rules! replays {
    ($($form:literal $api:ident $name:literal => $expected:literal;)*) => {
        &[$(ServerReplay {
            form: $form,
            recording: Recording {
                name: $name,
                api: ProviderApi::$api,
                bytes: include_bytes!(concat!("recorded/servers/", $name, ".sse")),
            },
            expected: $expected,
        }),*]
    };
}

const REPLAYS: &[ServerReplay] = replays! {
    "vLLM: parallel calls under one index" Chat "vllm_parallel_tools"
        => "read_file(a.py) read_file(b.py) | 90+30 tokens | ToolUse";
    "vLLM: error in the stream" Chat "vllm_error" => "`The ` | failed: Server";
    "llama.cpp: reasoning, timings for counts" Chat "llama_cpp_reasoning" => "thinks | `Yes.` | 17+5 tokens, 7 cached | EndTurn";
    "llama.cpp: error instead of an answer" Chat "llama_cpp_error" => "failed: Server";
    "Ollama: whole calls, index 0, `stop`" Chat "ollama_tools" => "read_file(a.py) read_file(b.py) | ToolUse";
    "LM Studio: pieces with empty names" Chat "lm_studio_tools" => "read_file(a.py) | ToolUse";
    "LM Studio: prompt longer than the context" Chat "lm_studio_error" => "failed: Overflow";
    "OpenRouter: two fields of reasoning, cost" Chat "openrouter_reasoning"
        => "thinks | read_file(a.py) | 50+9 tokens, 40 cached | ToolUse";
    "OpenRouter: error after the first piece" Chat "openrouter_error" => "`The ` | failed: Server";
    "Groq: counts in `x_groq`" Chat "groq_text" => "`Yes.` | 23+19 tokens | EndTurn";
    "Groq: a call that was no JSON" Chat "groq_broken_call" => "`Let me look.` | broken call | EndTurn";
    "Mistral: parts, a call without `type`" Chat "mistral_thinking"
        => "thinks | `Yes.` | read_file(a.py) | 30+20 tokens | ToolUse";
    "Mistral: error object" Chat "mistral_error" => "failed: Rejected";
    "DeepSeek: empty first thought, cache hits" Chat "deepseek_tools"
        => "thinks | read_file(a.py) | 100+20 tokens, 64 cached | ToolUse";
    "DeepSeek: thinking that the template begins" Chat "deepseek_template_thinking" => "thinks | `Yes.` | EndTurn";
    "xAI: whole call, counts in every chunk" Chat "xai_tools"
        => "thinks | `Yes.` | read_file(a.py) | 70+12 tokens, 64 cached | ToolUse";
    "Azure: no choices, a chunk without delta" Chat "azure_filter" => "`Yes.` | EndTurn";
    "OpenAI chat: padded chunks" Chat "openai_text" => "`Yes.` | 9+2 tokens | EndTurn";
    "OpenAI Responses: whole items only" Responses "openai_responses_items"
        => "thinks | read_file(a.py) | 30+8 tokens, 10 cached | ToolUse";
    "OpenAI Responses: failed" Responses "openai_responses_failed" => "failed: RateLimit";
    "Anthropic: overloaded" Messages "anthropic_overloaded" => "failed: Server";
    "Anthropic: redacted thinking, a call without input" Messages "anthropic_server_tool"
        => "list_files() | 49+12 tokens, 40 cached | ToolUse";
    "Gemini: one signature for two calls" GenerateContent "gemini_tools"
        => "thinks | read_file(a.py) list_files() | 30+13 tokens | ToolUse";
    "Gemini: a call that was no call" GenerateContent "gemini_malformed_call" => "broken call | 30+0 tokens | EndTurn";
};

/// The events of a stream in one line.
fn told((events, result): &(Vec<ProviderEvent>, Result<(), ProviderFailure>)) -> String {
    let mut parts = Vec::new();
    let thinks = |event: &ProviderEvent| matches!(event, ProviderEvent::Reasoning(_));
    parts.extend(events.iter().any(thinks).then(|| "thinks".to_owned()));
    let texts = events.iter().filter_map(|event| match event {
        ProviderEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text: String = texts.collect();
    parts.extend((!text.is_empty()).then(|| format!("`{text}`")));
    let calls = events.iter().filter_map(|event| match event {
        ProviderEvent::ToolCall(call) => {
            let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let path = arguments["path"].as_str().unwrap_or_default();
            Some(format!("{}({path})", call.name))
        }
        _ => None,
    });
    let calls: Vec<String> = calls.collect();
    parts.extend((!calls.is_empty()).then(|| calls.join(" ")));
    for event in events {
        parts.extend(match event {
            ProviderEvent::BrokenCall { .. } => Some("broken call".to_owned()),
            ProviderEvent::Usage(usage) => {
                let cached = match usage.cached_tokens {
                    0 => String::new(),
                    cached => format!(", {cached} cached"),
                };
                Some(format!("{}+{} tokens{cached}", usage.input_tokens, usage.output_tokens))
            }
            ProviderEvent::Stop { reason, .. } => Some(format!("{reason:?}")),
            _ => None,
        });
    }
    if let Err(failure) = result {
        parts.push(format!("failed: {:?}", failure.class));
    }
    parts.join(" | ")
}

#[test]
fn streams_of_named_servers_come_to_what_they_should() {
    let mut table = String::from("| form | expected | got |\n|---|---|---|\n");
    let mut wrong = Vec::new();
    for ServerReplay {
        form,
        recording,
        expected,
    } in REPLAYS
    {
        assert!(recording.bytes.starts_with(b": Source: "), "{form} names no source");
        let whole = read(recording, &[recording.bytes]);
        let pieces: Vec<&[u8]> = recording.bytes.chunks(1).collect();
        assert_eq!(read(recording, &pieces), whole, "{form}: the pieces must not matter");
        let got = told(&whole);
        table.push_str(&format!("| {form} | {} | {} |\n", cell(expected), cell(&got)));
        if got != *expected {
            wrong.push(format!("{form}\n  expected: {expected}\n  got:      {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!("replays", table);
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
