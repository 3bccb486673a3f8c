//! Operations that a user grants to another agent, and the reports and diffs of sessions as resources.

use serde_json::{Value, json};
use tool_model_server::{ModelServer, Round, ScriptedCall, ServerStep};

use super::{Agent, TOOLS, text};
use crate::operations::committed;
use crate::providers::{LOCAL, serve};
use crate::support::{Home, folder, holds, until};

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Shop\n\nCounts prices.\n"),
    ("app.py", "def price(x):\n    return x * 2\n"),
];

/// A model that follows a script, and a home that uses it and grants `operations` to other agents.
fn scripted(rounds: impl IntoIterator<Item = Round>, operations: &str) -> (ModelServer, Home) {
    let server = serve(rounds);
    let policy = format!("[policy]\nmcp = {operations}\n");
    let home = Home::configured(&(LOCAL.config(&server, "") + &policy));
    (server, home)
}

fn names(agent: &mut Agent) -> Vec<String> {
    let answer = agent.ask("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().expect("a list").clone();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn an_operation_is_offered_only_where_its_user_grants_it() {
    let (server, home) = scripted([], "[]");
    let repository = folder(FILES);
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    assert_eq!(names(&mut agent), TOOLS);
    let refused = agent.ask("tools/call", json!({"name": "explain", "arguments": {}}));
    assert_eq!(refused["error"]["data"]["code"], "not-found", "{refused}");
    agent.end().expect(0);
    assert!(server.requests().is_empty(), "no model was asked");

    let flags = ["--operation", "explain"];
    let mut agent = Agent::start(&home, repository.path(), &flags, &json!({}));
    assert_eq!(names(&mut agent), [&TOOLS[..], &["explain"]].concat());
    agent.end().expect(0);

    let (_server, home) = scripted([], "[\"explain\", \"context\"]");
    let mut agent = Agent::start(&home, repository.path(), &flags, &json!({}));
    assert_eq!(names(&mut agent), [&TOOLS[..], &["context", "explain"]].concat());
    agent.end().expect(0);

    let wrong = home
        .run(repository.path(), &["mcp", "--operation", "refactor"])
        .expect(2);
    holds(&wrong.stderr, &["expected context or explain"]);
}

#[test]
fn a_granted_operation_answers_and_tells_how_far_it_is() {
    let look = Round::calls([ScriptedCall::new("read_file", json!({"path": "app.py"}))]);
    let answer = Round::text("It doubles a price (app.py:2).");
    let refusal = Round::status(400, json!({"error": {"message": "no such thing"}}));
    let (server, home) = scripted([look, answer, refusal], "[\"context\", \"explain\"]");
    let repository = folder(FILES);
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));

    let selected = agent.call("context", json!({"task": "change the price"}));
    assert_eq!(selected["isError"], false, "{selected}");
    holds(text(&selected), &["- `app.py`: ", "return x * 2"]);
    assert!(server.requests().is_empty(), "a selection asks no model");

    let arguments = json!({"question": "what does price do?"});
    let id = agent.send(
        "tools/call",
        json!({"name": "explain", "arguments": arguments, "_meta": {"progressToken": "p"}}),
    );
    let skill = agent.wait("news of a skill", |message| {
        message["params"]["message"] == "skill read_file"
    });
    assert!(skill["params"]["progress"].as_f64() > Some(1.0), "{skill}");
    let explained = agent.answer(id)["result"].clone();
    assert_eq!(explained["isError"], false, "{explained}");
    holds(text(&explained), &["It doubles a price (app.py:2).", "citation"]);
    let asked: String = server
        .requests()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    holds(&asked, &["what does price do?"]);
    let listed = home.run(repository.path(), &["history"]).expect(0).stdout;
    holds(&listed, &["explain    what does price do?"]);

    let failed = agent.call("explain", json!({"target": "app.py"}));
    assert_eq!(failed["isError"], true);
    holds(text(&failed), &["no such thing"]);
    let wrong = agent.call("explain", json!({"model": "dear"}));
    assert_eq!(wrong["isError"], true);
    holds(text(&wrong), &["Invalid arguments for `explain`", "model"]);
    agent.end().expect(0);
}

#[test]
fn an_answer_fits_into_what_clients_take_and_says_where_the_rest_is() {
    // Codex takes 40,000 bytes, and Claude Code 50,000 characters.
    const CLIENT_BYTES_MAX: usize = 40_000;
    let part = |number: usize| {
        format!(
            "def price_{number}(x):\n{}    return x\n\n\n",
            "    x += 1  # tax\n".repeat(40)
        )
    };
    let file = (0..40).map(part).collect::<String>();
    let names = ["cart.py", "order.py", "tax.py", "shop.py", "stock.py", "sale.py"];
    let repository = folder(&names.map(|name| (name, file.as_str())));
    let long = "It doubles a price (tax.py:2). ".repeat(3_000) + "That is the end.";
    let (_server, home) = scripted([Round::text(&long)], "[\"context\", \"explain\"]");
    let mut agent = Agent::start(&home, repository.path(), &["--structured"], &json!({}));

    let listed = agent.ask("tools/list", json!({}))["result"]["tools"].clone();
    let operations = &listed.as_array().expect("a list")[TOOLS.len()..];
    for tool in operations {
        assert_eq!(tool["outputSchema"]["required"], json!(["text"]), "{tool}");
        assert_eq!(tool["outputSchema"]["properties"]["text"]["type"], "string", "{tool}");
    }
    assert_eq!(operations.len(), 2);

    let selected = agent.call("context", json!({"task": "change the price of tax"}));
    assert!(text(&selected).len() < CLIENT_BYTES_MAX, "{}", text(&selected).len());
    assert_eq!(
        text(&selected).matches("\n<file path=").count(),
        6,
        "{}",
        text(&selected)
    );
    assert!(!text(&selected).contains("[cut here"));

    let explained = agent.call("explain", json!({"question": "what does price_1 do?"}));
    assert!(text(&explained).len() < CLIENT_BYTES_MAX);
    assert_eq!(explained["structuredContent"]["text"], text(&explained));
    let (_, end) = text(&explained).rsplit_once("the resource ").expect("it is named");
    let uri = end.split(' ').next().expect("an address");
    let whole = agent.ask("resources/read", json!({"uri": uri}))["result"].clone();
    holds(
        whole["contents"][0]["text"].as_str().expect("a text"),
        &["That is the end."],
    );
    agent.end().expect(0);
}

#[test]
fn an_explanation_only_reads_whatever_the_configuration_allows() {
    let write = json!({"path": "app.py", "content": "changed = True\n"});
    let rounds = [
        Round::calls([ScriptedCall::new("write_file", write)]),
        Round::text("I could not write it."),
    ];
    let operations = "[\"explain\"]\nallow = [\"write-repository\", \"run-process\", \"commit-git:tainted\"]";
    let (server, home) = scripted(rounds, operations);
    let repository = folder(FILES);
    let flags = ["--allow", "write-repository"];
    let mut agent = Agent::start(&home, repository.path(), &flags, &json!({}));
    agent.call("explain", json!({"question": "rewrite app.py"}));
    agent.end().expect(0);
    assert!(server.requests().len() > 1, "the call was answered");
    let kept = std::fs::read_to_string(repository.path().join("app.py")).expect("it is there");
    assert_eq!(kept, FILES[1].1);
}

#[test]
fn an_explanation_sends_heartbeats_and_one_that_is_cancelled_ends_its_session() {
    let (_server, home) = scripted([Round::new([ServerStep::Stall])], "[\"explain\"]");
    let repository = folder(FILES);
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    let arguments = json!({"question": "why?"});
    let id = agent.send(
        "tools/call",
        json!({"name": "explain", "arguments": arguments, "_meta": {"progressToken": "p"}}),
    );
    agent.wait("a heartbeat", |message| message["params"]["message"] == "at work");
    let history = |status: &str| home.run(repository.path(), &["history", "--status", status]).expect(0);
    agent.tell("notifications/cancelled", json!({"requestId": id}));
    until("it has ended", || history("cancelled").stdout.contains("why?"));
    agent.end().expect(0);
}

#[test]
fn reports_and_diffs_of_the_repository_are_resources() {
    let key = format!("AKIA{}", "QWERTYUIOPASDFGH");
    let content = format!("KEY = '{key}'\n");
    let rounds = [
        Round::calls([ScriptedCall::new(
            "write_file",
            json!({"path": "new.py", "content": content}),
        )]),
        Round::text("I wrote new.py."),
    ];
    let (_server, home) = scripted(rounds, "[]");
    let repository = folder(FILES);
    home.run(repository.path(), &["refactor", "add a key"]);

    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    let read = |agent: &mut Agent, method: &str, params: Value| agent.ask(method, params)["result"].clone();
    let listed = read(&mut agent, "resources/list", json!({}));
    let listed = listed["resources"].as_array().expect("a list").clone();
    let uris: Vec<&str> = listed.iter().filter_map(|resource| resource["uri"].as_str()).collect();
    assert_eq!(uris.len(), 2, "{uris:?}");
    assert!(uris[0].ends_with("/report") && uris[1].ends_with("/diff"), "{uris:?}");
    let templates = read(&mut agent, "resources/templates/list", json!({}));
    let template = |at: usize| templates["resourceTemplates"][at]["uriTemplate"].clone();
    assert_eq!(
        [template(0), template(1)],
        [
            "tool://sessions/{session_id}/report",
            "tool://sessions/{session_id}/diff"
        ]
    );

    let texts: Vec<String> = uris
        .iter()
        .map(|uri| {
            let result = read(&mut agent, "resources/read", json!({"uri": uri}));
            result["contents"][0]["text"].as_str().expect("a text").to_owned()
        })
        .collect();
    holds(&texts[0], &["# Session report: refactor", "I wrote new.py."]);
    holds(&texts[1], &["+++ b/new.py", "+KEY = '"]);
    assert!(texts.iter().all(|text| !text.contains(&key)), "{texts:?}");
    agent.end().expect(0);

    // Nothing of it is for the agent of another repository, or for one that may not read.
    let other = folder(FILES);
    for (root, flags) in [
        (other.path(), &[][..]),
        (repository.path(), &["--deny", "read-repository"]),
    ] {
        let mut agent = Agent::start(&home, root, flags, &json!({}));
        let refused = agent.ask("resources/read", json!({"uri": uris[0]}));
        assert!(refused["error"]["message"].is_string(), "{refused}");
        agent.end().expect(0);
    }
}

#[test]
fn text_that_no_skill_has_read_taints_the_conversation() {
    let (_server, home) = scripted([Round::text("It counts (app.py:1).")], "[]");
    let repository = committed(FILES);
    home.run(repository.path(), &["ask", "what is it?"]).expect(0);
    let grants = ["--allow", "write-repository", "--allow", "commit-git"];
    let mut agent = Agent::start(&home, repository.path(), &grants, &json!({}));
    let commit = |agent: &mut Agent, content: &str| {
        agent.call("write_file", json!({"path": "new.py", "content": content}));
        agent.call("git_commit", json!({"message": "Say y"}))
    };
    assert_eq!(commit(&mut agent, "y = 1\n")["isError"], false);
    let listed = agent.ask("resources/list", json!({}));
    agent.ask(
        "resources/read",
        json!({"uri": listed["result"]["resources"][0]["uri"]}),
    );
    let refused = commit(&mut agent, "y = 2\n");
    assert_eq!(refused["isError"], true, "{refused}");
    holds(text(&refused), &["is not granted any more", "the report of a session"]);
    agent.end().expect(0);
}
