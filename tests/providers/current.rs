//! Current models, by the rules of their vendors beyond the form of their APIs. What passes here has passed an emulator.

use serde_json::json;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall, ServerStep, Vendor};

use super::{CHAT, GENERATE_CONTENT, LOCAL, MESSAGES, RESPONSES, Wire, repository, serve};
use crate::support::{Home, holds, until};

fn server(vendor: Vendor, rounds: impl IntoIterator<Item = Round>) -> ModelServer {
    let script = Script {
        vendor: Some(vendor),
        ..Script::new(rounds)
    };
    ModelServer::start(script).expect("loopback has a free port")
}

/// Thinking, and then two calls at once.
fn looks(thinking: &str, ids: [&str; 2]) -> Round {
    let call = |name: &str, arguments, id: &str| ScriptedCall {
        id: Some(id.to_owned()).filter(|id| !id.is_empty()),
        ..ScriptedCall::new(name, arguments)
    };
    Round::new([
        ServerStep::Reasoning(thinking.to_owned()),
        ServerStep::ToolCalls(vec![
            call("read_file", json!({"path": "app.py"}), ids[0]),
            call("list_files", json!({}), ids[1]),
        ]),
    ])
}

const REFUSED: &str = "The provider refused the thinking of earlier answers";

#[test]
fn all_operations_of_a_conversation_share_the_beginning_that_thinking_is_bound_to() {
    let edited = json!({"path": "app.py", "content": "def count(boxes):\n    return len(boxes)\n"});
    let server = server(
        Vendor::Claude,
        [
            looks("First.", ["", ""]),
            Round::text("It counts crates."),
            looks("Second.", ["", ""]),
            Round::calls([ScriptedCall::new("write_file", edited)]),
            Round::text("Renamed."),
            Round::text("It counts boxes."),
        ],
    );
    let home = Home::configured(&MESSAGES.config(&server, ""));
    let repository = repository();
    for arguments in [
        &["ask", "what does it count?"][..],
        &["continue", "--as", "refactor", "call them boxes"],
        &["continue", "--as", "explain", "and now?"],
    ] {
        let said = MESSAGES.run(&home, &repository, arguments).expect(0);
        assert!(!said.stderr.contains(REFUSED), "{}", said.stderr);
    }
    let requests = server.requests();
    let last = requests.last().expect("there are some").body.to_string();
    holds(&last, &["First.", "Second.", "Renamed."]);
}

#[test]
fn a_conversation_whose_thinking_is_refused_goes_on_without_it() {
    let refusal = "messages.1.content.0: Invalid `signature` in `thinking` block: The block is bound to a different \
        conversation.";
    let server = server(
        Vendor::Claude,
        [
            looks("First.", ["", ""]),
            Round::text("It counts crates."),
            Round::status(400, json!({"error": {"message": refusal}})),
            looks("Second.", ["", ""]),
            Round::text("Not tested."),
            Round::text("It counts boxes."),
        ],
    );
    let home = Home::configured(&MESSAGES.config(&server, ""));
    let repository = repository();
    let run = |arguments: &[&str]| MESSAGES.run(&home, &repository, arguments).expect(0);
    run(&["ask", "what does it count?"]);
    let changed = run(&["continue", "is it tested?"]);
    holds(&changed.stderr, &[REFUSED]);
    // The journal has the conversation without the thinking, and what was thought since is bound to that.
    let next = run(&["continue", "and now?"]);
    assert!(!next.stderr.contains(REFUSED), "{}", next.stderr);
    let requests = server.requests();
    let last = requests.last().expect("there are some").body.to_string();
    assert!(!last.contains("First.") && last.contains("Second."), "{last}");
}

#[test]
fn a_turn_that_the_provider_refused_leaves_no_conversation_stuck() {
    let server = server(
        Vendor::Claude,
        [
            Round::text("It counts crates."),
            Round::status(400, json!({"error": {"message": "messages.2: no such thing"}})),
            Round::text("Not tested."),
        ],
    );
    let home = Home::configured(&MESSAGES.config(&server, ""));
    let repository = repository();
    MESSAGES
        .run(&home, &repository, &["ask", "what does it count?"])
        .expect(0);
    MESSAGES
        .run(&home, &repository, &["continue", "--as", "refactor", "call them boxes"])
        .expect(1);
    MESSAGES
        .run(&home, &repository, &["continue", "is it tested?"])
        .expect(0);
    let requests = server.requests();
    let last = requests.last().expect("there are some").body.to_string();
    holds(
        &last,
        &["It counts crates.", "is it tested?", "Turn 2 did not end as it should"],
    );
    assert!(
        last.contains("Operation: explain") && !last.contains("call them boxes"),
        "it goes on from the last good turn: {last}"
    );
}

#[test]
fn an_option_that_a_model_refuses_is_adapted_once_and_remembered() {
    let temperature = "The model takes no `temperature`";
    let reasoning = "it was asked for the nearest effort";
    for (wire, vendor, option, notice) in [
        (MESSAGES, Vendor::Claude, "temperature = 0.2", temperature),
        (MESSAGES, Vendor::Claude, "reasoning_effort = \"none\"", reasoning),
        (MESSAGES, Vendor::Claude, "thinking_budget = 4000", reasoning),
        (RESPONSES, Vendor::Gpt, "temperature = 0.2", temperature),
        (RESPONSES, Vendor::Gpt, "reasoning_effort = \"minimal\"", reasoning),
        (
            GENERATE_CONTENT,
            Vendor::Gemini,
            "reasoning_effort = \"none\"",
            reasoning,
        ),
    ] {
        let server = server(vendor, [Round::text("It counts crates."), Round::text("It does.")]);
        let home = Home::configured(&wire.config(&server, option));
        let repository = repository();
        let run = |question: &str| wire.run(&home, &repository, &["ask", question]).expect(0).stderr;
        holds(&run("what does it count?"), &[notice]);
        let again = run("does it?");
        assert!(!again.contains(notice), "{option}: {again}");
        assert_eq!(server.requests().len(), 3, "{option}: one refusal");
    }
}

#[test]
fn thinking_is_asked_for_in_a_form_that_can_be_shown() {
    for (wire, vendor, place) in [
        (MESSAGES, Vendor::Claude, "/thinking/display"),
        (
            GENERATE_CONTENT,
            Vendor::Gemini,
            "/generationConfig/thinkingConfig/includeThoughts",
        ),
    ] {
        let server = server(vendor, [looks("First.", ["", ""]), Round::text("It counts crates.")]);
        let home = Home::configured(&wire.config(&server, ""));
        let said = wire
            .run(&home, &repository(), &["ask", "--json", "what does it count?"])
            .expect(0);
        holds(&said.stdout, &["First."]);
        let second = &server.requests()[1].body;
        assert!(second.pointer(place).is_some(), "{place}: {second}");
    }
}

#[test]
fn a_server_that_loads_its_model_is_waited_for_with_one_line() {
    let loading = || Round::status(503, json!({"error": {"code": 503, "message": "Loading model"}}));
    // More often than any other failure is tried again.
    let rounds = (0..5).map(|_| loading()).chain([Round::text("It counts crates.")]);
    let server = serve(rounds);
    let home = Home::configured(&LOCAL.config(&server, ""));
    let said = LOCAL
        .run(&home, &repository(), &["ask", "what does it count?"])
        .expect(0);
    assert_eq!(
        said.stderr.matches("The server is loading the model").count(),
        1,
        "{}",
        said.stderr
    );
}

#[test]
fn the_size_of_a_context_that_an_error_names_is_remembered() {
    let words = "This model's maximum context length is 12000 tokens. However, your messages resulted in 16012 tokens.";
    let refusal = Round::status(
        400,
        json!({"error": {"message": words, "code": "context_length_exceeded"}}),
    );
    let server = server(Vendor::Gpt, [refusal, Round::text("It counts crates.")]);
    let home = Home::configured(&CHAT.config(&server, ""));
    let repository = repository();
    // Some 15,000 tokens by our estimate, with the tools.
    let question = format!("what does it count? {}", "It is about crates. ".repeat(2_000));
    let refused = CHAT.run(&home, &repository, &["ask", &question]).expect(1);
    holds(&refused.stderr, &["Context length exceeded: 12000 tokens"]);
    until("it is on the disk", || {
        let kept = std::fs::read_to_string(home.path().join("cache/models.json"));
        kept.is_ok_and(|kept| kept.contains("\"context_tokens\":12000"))
    });
    CHAT.run(&home, &repository, &["ask", "what does it count?"]).expect(0);
}

/// A way to a model: the wire, the vendor's rules, the model's name, and the identifiers that it gives to calls.
type Way = (Wire, Vendor, &'static str, [&'static str; 2]);

#[test]
fn a_conversation_goes_from_every_wire_and_vendor_to_every_other() {
    let long = "call_1__thought__CiQB4KWEo.pZ-Ab9".repeat(9);
    let long: &'static str = Box::leak(long.into_boxed_str());
    let ways: [Way; 6] = [
        (MESSAGES, Vendor::Claude, "claude", ["", ""]),
        (RESPONSES, Vendor::Gpt, "gpt", ["", ""]),
        (GENERATE_CONTENT, Vendor::Gemini, "gemini", ["", ""]),
        (CHAT, Vendor::Reasoning, "kimi", ["read_file:0", "list_files:1"]),
        (CHAT, Vendor::Mistral, "mistral", ["D681PevKs", "E681PevKs"]),
        // The rules of this vendor are about no field of that wire.
        (LOCAL, Vendor::Gemini, "local", [long, "call_2"]),
    ];
    let servers = ways.map(|(_, vendor, _, ids)| {
        let script = Script {
            vendor: Some(vendor),
            repeat: true,
            ..Script::new([looks("Let me look.", ids), Round::text("It counts crates.")])
        };
        ModelServer::start(script).expect("loopback has a free port")
    });
    let config = |at: usize| {
        let (wire, _, model, _) = ways[at];
        wire.config(&servers[at], "").replace("scripted", model)
    };
    let home = Home::configured(&config(0));
    let repository = repository();
    // A walk in which each follows each, itself too.
    let mut walk: Vec<usize> = Vec::new();
    for first in 0..ways.len() {
        walk.push(first);
        walk.extend((first + 1..ways.len()).flat_map(|second| [first, second]));
    }
    walk.push(walk[0]);
    for (turn, at) in walk.iter().enumerate() {
        std::fs::write(home.path().join("config.toml"), config(*at)).expect("the folder is writable");
        let question = format!("question {turn}");
        let arguments = if turn == 0 {
            ["ask", &question]
        } else {
            ["continue", &question]
        };
        let from = turn.checked_sub(1).map(|before| ways[walk[before]].2);
        let said = ways[*at].0.run(&home, &repository, &arguments);
        assert!(
            said.code == 0 && !said.stderr.contains(REFUSED),
            "from {from:?} to {}: {}",
            ways[*at].2,
            said.stderr
        );
    }
}

#[test]
fn a_compaction_drops_the_thinking_that_is_bound_to_what_it_replaces() {
    let server = server(
        Vendor::Claude,
        [
            looks("First.", ["", ""]),
            Round::text(&"The crates are counted, one after the other, and once more. ".repeat(1_200)),
            looks("Second.", ["", ""]),
            Round::text("Second answer."),
            Round::text("The crates are counted."),
            looks("Third.", ["", ""]),
            Round::text("Third answer."),
            Round::text("Fourth answer."),
        ],
    );
    let home = Home::configured(&MESSAGES.config(&server, "context_tokens = 32768"));
    let repository = repository();
    let long_question = format!("and now? {}", "Say more about it. ".repeat(1_500));
    let mut stderr = String::new();
    for arguments in [
        ["ask", "what does it count?"],
        ["continue", "is it tested?"],
        ["continue", &long_question],
        ["continue", "and then?"],
    ] {
        stderr += &MESSAGES.run(&home, &repository, &arguments).expect(0).stderr;
    }
    holds(&stderr, &["a summary has replaced turn"]);
    assert!(!stderr.contains(REFUSED), "{stderr}");
    let requests = server.requests();
    let last = requests.last().expect("there are some").body.to_string();
    assert!(!last.contains("First.") && last.contains("Third."), "{last}");
}

#[test]
fn each_conversation_has_a_cache_key_of_its_own() {
    let script = Script {
        vendor: Some(Vendor::Gpt),
        repeat: true,
        ..Script::new([Round::text("It counts crates.")])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let home = Home::configured(&RESPONSES.config(&server, ""));
    let repository = repository();
    for arguments in [["ask", "what?"], ["continue", "why?"], ["ask", "what else?"]] {
        RESPONSES.run(&home, &repository, &arguments).expect(0);
    }
    let requests = server.requests();
    let keys: Vec<&str> = requests
        .iter()
        .filter_map(|request| request.body["prompt_cache_key"].as_str())
        .collect();
    assert!(keys.len() == 3 && keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
}
