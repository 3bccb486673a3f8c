//! Models with small contexts: what their first request holds, and which operations are refused.

use std::fmt::Write;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, RecordedRequest, Round, Script, ScriptedCall};

use crate::providers::LOCAL;
use crate::support::{Home, folder, holds};

const CODE_BYTES_PER_TOKEN: f64 = 2.8;

/// A server of llama.cpp with a context of so many tokens, or one that does not tell it.
fn script(context: Option<u64>, rounds: impl IntoIterator<Item = Round>) -> Script {
    let meta = context.map(|tokens| json!({"n_ctx": tokens}));
    let list = json!({"data": [{"id": "scripted", "owned_by": "llamacpp", "meta": meta}]});
    Script {
        get: [("/v1/models".to_owned(), list)].into(),
        bytes_per_token: Some(CODE_BYTES_PER_TOKEN),
        ..Script::new(rounds)
    }
}

fn start(script: Script) -> (ModelServer, Home) {
    let server = ModelServer::start(script).expect("loopback has a free port");
    let home = Home::configured(&LOCAL.config(&server, ""));
    (server, home)
}

/// A repository of files that fill any packet.
fn large_repository() -> TempDir {
    let module = |name: &str| {
        let mut text = String::new();
        for number in 0..150 {
            let _ = write!(
                text,
                "def {name}_{number}(crates, labels):\n    total = {number}\n    for crate in crates:\n        total += \
                 crate.weight * labels[crate.name]\n    return total\n\n\n"
            );
        }
        text
    };
    let names = ["count", "weigh", "label", "pack", "ship", "store", "print_all"];
    let files: Vec<(String, String)> = names.iter().map(|name| (format!("{name}.py"), module(name))).collect();
    let mut files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    files.push(("README.md", "# Crates\n\nCounts crates.\n"));
    folder(&files)
}

/// Tokens of a request, as the scripted server counts them.
fn tokens(request: &RecordedRequest) -> f64 {
    let content = |message: &Value| message["content"].as_str().unwrap_or_default().len();
    let messages = request.body["messages"].as_array().expect("a request has messages");
    let tools = request.body.get("tools").map_or(0, |tools| tools.to_string().len());
    (messages.iter().map(content).sum::<usize>() + tools) as f64 / CODE_BYTES_PER_TOKEN
}

fn tool_names(request: &RecordedRequest) -> Vec<&str> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

#[test]
fn the_first_request_fits_into_contexts_of_all_sizes() {
    let repository = large_repository();
    for (context, tools, tokens_max) in [
        (Some(4_096), 0, 3_277.0),
        // Four of them, and those that find and call the others.
        (Some(8_000), 6, 5_000.0),
        (Some(8_192), 12, 5_000.0),
        (Some(16_384), 12, 15_000.0),
        (Some(32_768), 12, 26_214.0),
        (None, 12, 160_000.0),
    ] {
        for arguments in [&["ask", "how are crates weighed?"][..], &["explain", "."]] {
            let (server, home) = start(script(context, [Round::text("By their names (weigh.py:1).")]));
            LOCAL.run(&home, &repository, arguments).expect(0);
            let requests = server.requests();
            assert_eq!(tool_names(&requests[0]).len(), tools, "{context:?}");
            let tokens = tokens(&requests[0]);
            assert!(tokens <= tokens_max, "{context:?}: {tokens}");
            let user = requests[0].body["messages"][1]["content"].as_str().expect("a request");
            let files = user.matches("<file path=").count();
            assert!((4..=6).contains(&files), "{context:?}: {files} files");
        }
    }
}

#[test]
fn a_packet_for_a_small_context_has_whole_functions() {
    let (server, home) = start(script(Some(4_096), [Round::text("By their names (weigh.py:1).")]));
    LOCAL
        .run(&home, &large_repository(), &["ask", "how are crates weighed?"])
        .expect(0);
    let requests = server.requests();
    let packet = requests[0].body["messages"][1]["content"].as_str().expect("a request");
    let begun = packet.matches("\tdef ").count();
    let outlined = packet.split("[outline").skip(1).map(|rest| {
        let rest = rest.split("</file>").next().unwrap_or_default();
        rest.matches("\tdef ").count()
    });
    let returns = packet.matches("\t    return total").count();
    assert!(returns > 0, "a whole function has room: {packet}");
    assert_eq!(begun - outlined.sum::<usize>(), returns);
}

#[test]
fn a_skill_that_is_not_offered_is_found_and_called() {
    let found = ScriptedCall::new("find_skill", json!({"query": "where a symbol is used"}));
    let arguments = json!({"name": "find_references", "arguments": {"symbol": "weigh_7"}});
    let called = ScriptedCall::new("call_skill", arguments);
    let (server, home) = start(script(
        Some(8_000),
        [
            Round::calls([found]),
            Round::calls([called]),
            Round::text("By their names (weigh.py:1)."),
        ],
    ));
    LOCAL
        .run(&home, &large_repository(), &["ask", "how are crates weighed?"])
        .expect(0);
    let requests = server.requests();
    assert_eq!(
        tool_names(&requests[0]),
        [
            "list_files",
            "read_file",
            "search_code",
            "write_file",
            "find_skill",
            "call_skill"
        ]
    );
    holds(
        &requests[1].body.to_string(),
        &["`find_references`: Finds where a symbol"],
    );
    holds(&requests[2].body.to_string(), &["weigh.py:50: definition: "]);
}

#[test]
fn an_operation_without_room_for_calls_says_so_before_anything_runs() {
    for (operation, argument) in [
        ("refactor", "weigh.py"),
        ("test-gen", "weigh.py"),
        ("architect", "Split it"),
    ] {
        let (server, home) = start(script(Some(4_096), []));
        let refused = LOCAL.run(&home, &large_repository(), &[operation, argument]).expect(1);
        let expected = format!("Context length exceeded: 4096 tokens, and {operation} needs 6144");
        holds(
            &refused.stderr,
            &[&expected, "`tool ask` and `tool explain` work with this one"],
        );
        assert!(server.requests().is_empty());
    }
}

#[test]
fn a_long_result_leaves_room_in_a_small_context() {
    let read = ScriptedCall::new("read_file", json!({"path": "weigh.py", "limit": 1000}));
    let (server, home) = start(script(
        Some(8_192),
        [Round::calls([read]), Round::text("By their names (weigh.py:1).")],
    ));
    LOCAL
        .run(&home, &large_repository(), &["ask", "how are crates weighed?"])
        .expect(0);
    let requests = server.requests();
    holds(&requests[1].body.to_string(), &["[cut here: the result has"]);
    assert!(tokens(&requests[1]) < 6_554.0, "{}", tokens(&requests[1]));
}

#[test]
fn tools_that_a_chat_template_leaves_out_are_described_and_called_by_text() {
    let printed = "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"app.py\"}}</tool_call>";
    let mut script = script(
        Some(32_768),
        [Round::text(printed), Round::text("It counts crates (app.py:1).")],
    );
    let properties = json!({"chat_template_caps": {"supports_tools": false}});
    script.get.insert("/props".to_owned(), properties);
    let (server, home) = start(script);
    let said = LOCAL
        .run(&home, &crate::providers::repository(), &["ask", "what does it count?"])
        .expect(0);
    holds(&said.stderr, &["The chat template of this model leaves tools out"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.body.get("tools").is_none()));
    let roles = |request: &RecordedRequest| {
        let messages = request.body["messages"].as_array().expect("a request has messages");
        messages
            .iter()
            .map(|message| message["role"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        roles(&requests[1]),
        ["\"system\"", "\"user\"", "\"assistant\"", "\"user\""]
    );
    let system = requests[1].body["messages"][0]["content"]
        .as_str()
        .expect("instructions");
    holds(system, &["<tool_call>", "\"name\":\"write_file\""]);
    let result = requests[1].body["messages"][3]["content"].as_str().expect("a result");
    holds(result, &["tool=\"read_file\"", "def count(crates)"]);
}

#[test]
fn ollama_loads_the_model_before_its_context_is_asked_for() {
    let (server, home) = start(Script {
        ollama_context: Some(4_096),
        ..Script::new([Round::text("It counts crates (app.py:1).")])
    });
    LOCAL
        .run(&home, &crate::providers::repository(), &["ask", "what does it count?"])
        .expect(0);
    assert_eq!(server.ollama_requests()[0].path, "/api/generate");
    assert!(tool_names(&server.requests()[0]).is_empty());
}
