//! By hand, over standard input and output.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tool_core::limits;

use super::{Agent, TOOLS, calls, initialize, journal, text, until_ended};
use crate::contain::{processes, repository};
use crate::support::{Home, folder, git, holds, say, until};

const FILES: &[(&str, &str)] = &[("app.py", "def f(x):\n    return x\n")];

#[test]
fn another_agent_lists_and_calls_the_skills() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::start(&home, repository.path(), &["--structured"], &json!({}));
    let answer = agent.ask("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, TOOLS);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
        // Otherwise Claude Code replaces a long page with the path of a file.
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 200 * 1024, "{tool}");
        jsonschema::validator_for(&tool["inputSchema"]).expect("it is a schema");
    }
    let hints = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
        tool["annotations"].to_string()
    };
    insta::assert_snapshot!(hints("read_file"), @r#"{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}"#);
    insta::assert_snapshot!(hints("write_file"), @r#"{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}"#);
    insta::assert_snapshot!(hints("install_package"), @r#"{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}"#);

    let result = agent.call("read_file", json!({"path": "app.py"}));
    assert_eq!(
        (text(&result), &result["isError"]),
        ("     1\tdef f(x):\n     2\t    return x", &json!(false))
    );
    insta::assert_snapshot!(result["structuredContent"], @r#"{"text":"     1\tdef f(x):\n     2\t    return x","truncated":false,"cursor":null,"files_modified":[],"citations":[],"details":null}"#);
    assert_eq!(result["_meta"]["receipt"]["verdict"], "ok");

    let result = agent.call("read_file", json!({"path": 7}));
    insta::assert_snapshot!(result["structuredContent"], @r#"{"text":"Invalid arguments for `read_file` at `/path`: expected a string, got the number 7.","code":"invalid-arguments","message":"Invalid arguments for `read_file` at `/path`: expected a string, got the number 7.","hint":null,"pointer":"/path","expected":"a string","got":"the number 7"}"#);
    std::fs::write(repository.path().join(".env"), "KEY=1\n").expect("the folder is writable");
    let result = agent.call("read_file", json!({"path": ".env"}));
    insta::assert_snapshot!(result["structuredContent"], @r#"{"text":"`.env` may not be opened\nit holds environment variables, which are often secrets","code":"denied","message":"`.env` may not be opened","hint":"it holds environment variables, which are often secrets"}"#);
    let result = agent.call("write_file", json!({"path": "new.py", "content": "y = 2\n"}));
    assert_eq!(result["isError"], true);
    insta::assert_snapshot!(result["structuredContent"], @r#"{"text":"`write_file` needs the effect `write-repository`, which is not granted here.\nthe user can grant it with `--allow write-repository` in the arguments of `tool mcp`","code":"denied","message":"`write_file` needs the effect `write-repository`, which is not granted here.","hint":"the user can grant it with `--allow write-repository` in the arguments of `tool mcp`"}"#);
    assert!(!repository.path().join("new.py").exists());
    let unknown = agent.ask("tools/call", json!({"name": "read_fil", "arguments": {}}));
    insta::assert_snapshot!(unknown["error"], @r#"{"code":-32602,"message":"There is no tool named `read_fil` (did you mean `read_file`?)","data":{"code":"not-found","hint":"did you mean `read_file`?"}}"#);
    let formless = agent.ask("tools/call", json!({"arguments": []}));
    assert_eq!(formless["error"]["code"], -32_602, "{formless}");
    assert_eq!(agent.ask("no/such", json!({}))["error"]["code"], -32_601);

    let listed = home
        .run(
            repository.path(),
            &["history", "--operation", "mcp", "--status", "running"],
        )
        .expect(0)
        .stdout;
    holds(&listed, &["  mcp        mcp  running"]);
    let ended = agent.end().expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    until_ended(&home);
    let listed = home
        .run(repository.path(), &["history", "--operation", "mcp"])
        .expect(0)
        .stdout;
    holds(&listed, &["  mcp        mcp\n"]);
    let expected = [
        ("read_file", "ok", true),
        ("read_file", "invalid-arguments", false),
        ("read_file", "denied", true),
        ("write_file", "denied", true),
    ];
    assert_eq!(
        calls(&home),
        expected.map(|(name, verdict, has)| (name.to_owned(), verdict.to_owned(), has))
    );
    let told = journal(&home)
        .iter()
        .any(|entry| entry["event"]["message"] == "The client is a test 1 (protocol 2025-11-25).");
    assert!(told, "{:?}", journal(&home));
}

#[test]
fn each_half_of_a_result_answers_the_call_alone() {
    let log = ("server.log", "ERROR the pump stopped\n");
    let test = ("test_app.py", "def test_app():\n    assert True\n");
    let ignore = (".gitignore", ".venv\n");
    let files = [FILES[0], test, log, ignore, ("requirements.txt", "click==8.1.8\n")];
    let (home, repository) = (Home::offline(), repository(&files));
    git(repository.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(repository.path(), &["config", "user.name", "Ada"]);
    git(repository.path(), &["config", "user.email", "ada@example.org"]);
    git(repository.path(), &["add", "."]);
    git(repository.path(), &["commit", "--quiet", "--message", "one"]);
    let calls = [
        ("read_file", json!({"path": "app.py"}), "return x"),
        ("list_files", json!({}), "test_app.py"),
        ("search_code", json!({"pattern": "return"}), "return x"),
        ("find_references", json!({"symbol": "f"}), "def f(x):"),
        ("explain_function", json!({"name": "f"}), "return x"),
        ("analyze_dependencies", json!({}), "click"),
        ("write_file", json!({"path": "new.py", "content": "y = 2\n"}), "new.py"),
        ("git_diff", json!({}), "+y = 2"),
        ("git_commit", json!({"message": "Say y"}), "Committed "),
        ("install_package", json!({"names": ["left-pad"]}), "`install`"),
        // Last: what they read is outside text, after which a commit is asked about.
        ("run_tests", json!({}), "PASSED: 1 passed"),
        ("read_logs", json!({}), "the pump stopped"),
    ];
    let grants = ["run-process", "write-repository", "commit-git"].map(|effect| ["--allow", effect]);
    let grants = grants.concat();
    let mut named: Vec<&str> = calls.iter().map(|(name, ..)| *name).collect();
    named.sort_unstable();
    assert_eq!(named, TOOLS);
    let mut agent = Agent::start(
        &home,
        repository.path(),
        &[&["--structured"], &grants[..]].concat(),
        &json!({}),
    );
    let tools = agent.ask("tools/list", json!({}))["result"]["tools"].clone();
    let schemas: Vec<(&str, &Value)> = tools
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| Some((tool["name"].as_str()?, &tool["outputSchema"])))
        .collect();
    for (name, arguments, told) in &calls {
        let result = agent.call(name, arguments.clone());
        let structured = &result["structuredContent"];
        let first = structured.as_object().and_then(|fields| fields.iter().next());
        assert_eq!(
            first,
            Some((&"text".to_owned(), &result["content"][0]["text"])),
            "{name}"
        );
        holds(text(&result), &[told]);
        let (_, schema) = schemas.iter().find(|(known, _)| known == name).expect("it is listed");
        if result["isError"] == false {
            let schema = jsonschema::validator_for(schema).expect("it is a schema");
            assert!(schema.is_valid(structured), "{name}: {structured}");
        } else {
            assert_eq!((*name, &structured["code"]), ("install_package", &json!("denied")));
            let hint = structured["hint"].as_str().expect("it says what to do");
            holds(text(&result), &[structured["message"].as_str().expect("a text"), hint]);
        }
    }
    agent.end().expect(0);
    // Unasked, a result is its text.
    let mut agent = Agent::start(&home, repository.path(), &grants, &json!({}));
    let tools = agent.ask("tools/list", json!({}))["result"]["tools"].to_string();
    assert!(!tools.contains("outputSchema"), "{tools}");
    for (name, arguments, _) in &calls {
        let result = agent.call(name, arguments.clone());
        assert!(result["content"][0]["text"].is_string(), "{result}");
        assert_eq!(result.get("structuredContent"), None, "{name}");
    }
    agent.end().expect(0);
}

#[test]
fn a_granted_write_needs_the_file_to_be_read_and_can_be_undone() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::start(&home, repository.path(), &["--allow", "write-repository"], &json!({}));
    let change = json!({"path": "app.py", "content": "x = 1\n"});
    let result = agent.call("write_file", change.clone());
    assert_eq!(result["isError"], true, "it was not read: {result}");
    agent.call("read_file", json!({"path": "app.py"}));
    let result = agent.call("write_file", change);
    assert_eq!(result["isError"], false, "{result}");
    agent.end().expect(0);
    home.run(repository.path(), &["undo"]).expect(0);
    let now = std::fs::read_to_string(repository.path().join("app.py")).expect("it is there");
    assert_eq!(now, FILES[0].1);
}

#[test]
fn a_key_reaches_no_client() {
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let line = format!("TOKEN = \"{key}\"\n");
    let (home, repository) = (Home::offline(), folder(&[("settings.py", &line)]));
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    let result = agent.call("read_file", json!({"path": "settings.py"}));
    assert!(
        text(&result).contains("TOKEN") && !result.to_string().contains(&key),
        "{result}"
    );
    agent.end().expect(0);
}

#[test]
fn what_is_no_message_costs_no_connection() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    agent.write("garbage");
    let refused = agent.wait("refusal", |message| message["error"].is_object());
    assert_eq!(
        (&refused["error"]["code"], refused.get("id")),
        (&json!(-32_700), Some(&Value::Null)),
        "{refused}"
    );
    agent.write(&"x".repeat(limits::MCP_MESSAGE_BYTES_MAX + 1));
    let refused = agent.wait("refusal", |message| message["error"].is_object());
    assert_eq!(
        refused["error"]["message"],
        "A message is at most 4 MiB long; this one was not read"
    );
    agent.write("");
    agent.write(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    let refused = agent.wait("refusal", |message| message["error"].is_object());
    assert_eq!(
        refused["error"]["message"],
        "Lists of messages (batches) are not taken, in no revision: send each message by itself"
    );
    assert_eq!(
        (&refused["error"]["code"], refused.get("id")),
        (&json!(-32_600), Some(&Value::Null))
    );
    assert_eq!(agent.ask("ping", json!({}))["result"], json!({}));
    // One that breaks off before its end was never sent.
    agent
        .input
        .as_mut()
        .map(|input| std::io::Write::write_all(input, b"{\"jsonrpc\""))
        .expect("it is open")
        .expect("it is taken");
    agent.end().expect(0);
}

#[test]
fn a_botched_beginning_is_told_from_another_method_and_ends_nothing() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::spawn(&home, repository.path(), &[]);
    agent.tell("notifications/initialized", json!({}));
    let early = agent.ask("tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32_600, "{early}");
    holds(
        early["error"]["message"].as_str().expect("a text"),
        &["send `initialize` first"],
    );
    let formless = agent.ask("initialize", json!({"protocolVersion": 7}));
    assert_eq!(formless["error"]["code"], -32_602, "{formless}");
    holds(
        formless["error"]["message"].as_str().expect("a text"),
        &["`initialize` needs `params` with `protocolVersion`"],
    );
    assert_eq!(agent.ask("ping", json!({}))["result"], json!({}));
    let begun = agent.ask("initialize", initialize(&json!({})));
    assert!(begun["result"]["serverInfo"].is_object(), "{begun}");
    agent.tell("notifications/initialized", json!({}));
    let again = agent.ask("initialize", initialize(&json!({})));
    assert_eq!(again["error"]["code"], -32_600, "{again}");
    holds(
        again["error"]["message"].as_str().expect("a text"),
        &["already initialized"],
    );
    assert_eq!(agent.call("read_file", json!({"path": "app.py"}))["isError"], false);
    agent.end().expect(0);
}

/// A suite that says something, and then nothing for a minute. What it starts can be found by the mark.
pub(super) fn slow(mark: &str) -> String {
    format!(
        "import subprocess, sys\ndef test_slow():\n    print('begun', flush=True)\n    \
         subprocess.run([sys.executable, '-c', 'import time; time.sleep(60) # {mark}'])\n"
    )
}

#[test]
fn output_arrives_as_progress_and_a_cancelled_call_ends_at_once() {
    let mark = format!("slow-{}", std::process::id());
    let (home, repository) = (Home::offline(), repository(&[FILES[0], ("test_slow.py", &slow(&mark))]));
    let mut agent = Agent::start(&home, repository.path(), &["--allow", "run-process"], &json!({}));
    let id = agent.send(
        "tools/call",
        json!({"name": "run_tests", "arguments": {}, "_meta": {"progressToken": "p"}}),
    );
    let progress = agent.asked("notifications/progress");
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["progress"]),
        (&json!("p"), &json!(1.0))
    );
    assert!(progress["params"]["message"].is_string(), "{progress}");
    // Another call is not kept waiting.
    let result = agent.call("read_file", json!({"path": "app.py"}));
    assert_eq!(result["isError"], false);
    until("the suite runs", || !processes(&mark).is_empty());
    agent.tell("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    until("it has ended", || {
        calls(&home)
            .iter()
            .any(|(name, verdict, _)| name == "run_tests" && verdict == "cancelled")
    });
    until("nothing of it is left", || processes(&mark).is_empty());
    agent.call("read_file", json!({"path": "app.py"}));
    assert!(
        agent.early.iter().all(|message| message["id"] != id),
        "a cancelled call is not answered"
    );
    // A client that goes away ends its calls.
    agent.send_call("run_tests", json!({}));
    until("the suite runs again", || !processes(&mark).is_empty());
    agent.end().expect(0);
    until("nothing of it is left", || processes(&mark).is_empty());
}

/// A repository of git with one commit.
fn with_git() -> tempfile::TempDir {
    let repository = folder(FILES);
    git(repository.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(repository.path(), &["add", "."]);
    git(repository.path(), &["commit", "--quiet", "--message=one"]);
    git(repository.path(), &["config", "user.name", "Ada"]);
    git(repository.path(), &["config", "user.email", "ada@example.org"]);
    repository
}

/// Effects that are granted, and asked for each time because the repository is not trusted.
const ASKING: [&str; 5] = ["--allow", "write-repository", "--allow", "commit-git", "--untrusted"];

#[test]
fn what_the_policy_asks_is_asked_by_elicitation() {
    let (home, repository) = (Home::offline(), with_git());
    let mut agent = Agent::start(&home, repository.path(), &ASKING, &json!({"elicitation": {}}));
    for (number, (answer, verdict)) in [
        (json!({"action": "accept", "content": {"approve": true}}), "ok"),
        (json!({"action": "decline"}), "denied"),
        (json!({"action": "accept", "content": {"approve": false}}), "denied"),
    ]
    .into_iter()
    .enumerate()
    {
        let content = format!("y = {number}\n");
        agent.call("write_file", json!({"path": "new.py", "content": content}));
        let id = agent.send_call("git_commit", json!({"message": "Say y"}));
        let asked = agent.asked("elicitation/create");
        let message = asked["params"]["message"].as_str().expect("a text");
        let line = format!("+y = {number}");
        holds(
            message,
            &["Commit 1 file", &line, "Say y", "this repository is not trusted"],
        );
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["approve"]));
        agent.reply(&asked, answer);
        let result = agent.answer(id)["result"].clone();
        assert_eq!(result["_meta"]["receipt"]["verdict"], verdict, "{result}");
    }
    // After two noes the user is not asked any more.
    let result = agent.call("git_commit", json!({"message": "Say y"}));
    assert_eq!(result["_meta"]["receipt"]["verdict"], "denied", "{result}");
    agent.end().expect(0);
    until_ended(&home);
    let answers: Vec<Value> = journal(&home)
        .into_iter()
        .filter(|entry| entry["kind"] == "answered")
        .collect();
    let answers: Vec<&str> = answers.iter().filter_map(|entry| entry["answer"].as_str()).collect();
    assert_eq!(answers, ["approved", "refused", "refused"]);
    holds(&git(repository.path(), &["log", "--format=%s"]), &["Say y\none"]);
}

#[test]
fn questions_that_nobody_answers_keep_no_call_waiting() {
    let home = Home::offline();
    let repositories: Vec<_> = (0..=tool_skill::Limits::DEFAULT.calls_concurrent)
        .map(|_| with_git())
        .collect();
    let mut agents: Vec<Agent> = repositories
        .iter()
        .map(|repository| Agent::start(&home, repository.path(), &ASKING, &json!({"elicitation": {}})))
        .collect();
    // One question more than calls may be at work.
    for agent in &mut agents {
        agent.call("write_file", json!({"path": "new.py", "content": "y = 2\n"}));
        agent.send_call("git_commit", json!({"message": "Say y"}));
        agent.asked("elicitation/create");
    }
    let begun = Instant::now();
    let mut other = Agent::start(&home, repositories[0].path(), &[], &json!({}));
    assert_eq!(other.call("read_file", json!({"path": "app.py"}))["isError"], false);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    other.end().expect(0);
    // A client that hangs up answers no question and waits for none.
    let begun = Instant::now();
    for agent in agents {
        agent.end().expect(0);
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn where_nobody_can_be_asked_what_would_be_asked_is_denied() {
    let (home, repository) = (Home::offline(), with_git());
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut agent = Agent::start(&home, repository.path(), &ASKING, &capabilities);
        agent.call(
            "write_file",
            json!({"path": "new.py", "content": format!("y = '{capabilities}'\n")}),
        );
        let result = agent.call("git_commit", json!({"message": "Say y"}));
        assert_eq!(
            text(&result),
            "The effect `commit-git` is not granted any more: this repository is not trusted.\nthe user can grant it all \
             the same with `--allow commit-git:tainted` in the arguments of `tool mcp`; an agent that can ask its user \
             (elicitation) needs no grant"
        );
        agent.end().expect(0);
        git(repository.path(), &["clean", "--quiet", "--force"]);
    }
}

/// Adds the fields that a request of the newest revision carries.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a newer test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    params
}

#[test]
fn the_newest_revision_needs_no_handshake_and_asks_by_a_result() {
    let (home, repository) = (Home::offline(), with_git());
    let mut agent = Agent::spawn(&home, repository.path(), &ASKING);
    let found = agent.ask("server/discover", modern(json!({})));
    let versions = found["result"]["supportedVersions"].as_array().expect("a list");
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let call = |name: &str, arguments: Value| modern(json!({"name": name, "arguments": arguments}));
    let written = agent.ask(
        "tools/call",
        call("write_file", json!({"path": "new.py", "content": "y = 2\n"})),
    );
    assert_eq!(written["result"]["resultType"], "complete", "{written}");
    let commit = call("git_commit", json!({"message": "Say y"}));
    let asked = agent.ask("tools/call", commit.clone());
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let message = &asked["result"]["inputRequests"]["approval"]["params"]["message"];
    holds(message.as_str().expect("a text"), &["+y = 2"]);
    let mut again = commit;
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({"approval": {"action": "accept", "content": {"approve": true}}});
    let mut other = again.clone();
    other["requestState"] = json!("guessed");
    assert_eq!(agent.ask("tools/call", other)["error"]["code"], -32_602);
    let done = agent.ask("tools/call", again.clone());
    holds(text(&done["result"]), &["Committed"]);
    assert_eq!(
        agent.ask("tools/call", again)["error"]["code"],
        -32_602,
        "an answer counts once"
    );
    agent.end().expect(0);
}

#[test]
fn the_repository_lies_in_a_root_of_the_client() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let place = repository.path().canonicalize().expect("it is there");
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({"roots": {"listChanged": true}}));
    let around = place.parent().expect("it lies somewhere").display().to_string();
    for (root, lies_in) in [
        (place.display().to_string(), true),
        ("/etc".to_owned(), false),
        (around, true),
    ] {
        // That they have changed is news, which a call may overtake.
        let (id, asked) = loop {
            let id = agent.send_call("read_file", json!({"path": "app.py"}));
            let next = agent.wait("question", |message| {
                message["method"] == "roots/list" || message["id"] == id
            });
            match next.get("method") {
                Some(_) => break (id, next),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        agent.reply(&asked, json!({"roots": [{"uri": format!("file://{root}")}]}));
        let result = agent.answer(id)["result"].clone();
        assert_eq!(result["isError"], !lies_in, "{result}");
        if !lies_in {
            let said = format!(
                "The repository `{}` lies in none of the client's roots (`file:///etc`)",
                place.display()
            );
            holds(text(&result), &[&said]);
        }
        // Roots that the client has sent are not asked for again, until they change.
        agent.call("list_files", json!({}));
        agent.tell("notifications/roots/list_changed", json!({}));
    }
    agent.end().expect(0);
}

#[test]
fn a_client_that_does_not_say_its_roots_is_waited_for_within_a_bound() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::start(&home, repository.path(), &["--structured"], &json!({"roots": {}}));
    let begun = Instant::now();
    let result = agent.call("read_file", json!({"path": "app.py"}));
    assert_eq!(result["structuredContent"]["code"], "roots-unknown", "{result}");
    let bound = Duration::from_secs(limits::MCP_ROOTS_SECONDS_MAX);
    assert!(begun.elapsed() >= bound, "{:?}", begun.elapsed());
    agent.end().expect(0);
}

#[test]
fn a_bounded_number_of_calls_is_under_way() {
    let mark = format!("many-{}", std::process::id());
    let (home, repository) = (Home::offline(), repository(&[FILES[0], ("test_slow.py", &slow(&mark))]));
    let mut agent = Agent::start(&home, repository.path(), &["--allow", "run-process"], &json!({}));
    // Those that change something wait for each other, so that all but one cost nothing.
    let ids: Vec<u64> = (0..limits::MCP_CALLS_MAX)
        .map(|_| agent.send_call("run_tests", json!({})))
        .collect();
    until("the first one runs", || !processes(&mark).is_empty());
    let result = agent.call("read_file", json!({"path": "app.py"}));
    holds(text(&result), &["32 calls of this connection are under way"]);
    for id in ids {
        agent.tell("notifications/cancelled", json!({"requestId": id}));
    }
    let is_free = |agent: &mut Agent| agent.call("read_file", json!({"path": "app.py"}))["isError"] == false;
    let patience = Instant::now() + Duration::from_secs(10);
    while !is_free(&mut agent) {
        assert!(Instant::now() < patience, "they have ended");
    }
    agent.end().expect(0);
}

#[test]
fn a_session_of_another_agent_is_cancelled_and_stopped_like_any() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let agent = Agent::start(&home, repository.path(), &[], &json!({}));
    home.run(repository.path(), &["cancel", "latest"]).expect(0);
    let ended = agent.finish().expect(1);
    assert_eq!(
        ended.stderr,
        "[error] The session of this connection was cancelled\nhint: let the other agent start `tool mcp` again\n"
    );
    let listed = home.run(repository.path(), &["history"]).expect(0).stdout;
    holds(&listed, &["  mcp        mcp  cancelled"]);
    let agent = Agent::start(&home, repository.path(), &[], &json!({}));
    home.run(repository.path(), &["service", "stop"]).expect(0);
    let ended = agent.finish().expect(3);
    holds(&ended.stderr, &["[error] Backend not responding: Connection refused\n"]);
    let agent = Agent::start(&home, repository.path(), &[], &json!({}));
    rustix::process::kill_process(home.pid(), rustix::process::Signal::KILL).expect("it runs");
    let ended = agent.finish().expect(3);
    holds(&ended.stderr, &["[error] Backend not responding: Connection refused\n"]);
}

#[test]
fn what_cannot_be_served_is_said_on_standard_error() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let refused = home.run(repository.path(), &["mcp", "--root", "/proc"]).expect(2);
    assert_eq!(refused.stdout, "");
    holds(&refused.stderr, &["[error] "]);
    let refused = home.run(repository.path(), &["mcp", "--root", "nowhere"]).expect(2);
    assert_eq!(refused.stderr, "[error] Not a directory: nowhere\n");
    let refused = home.run(repository.path(), &["mcp", "--allow", "everything"]).expect(2);
    holds(&refused.stderr, &["[error] Unknown effect `everything`"]);
}

/// A thousand calls over one connection, each answered and on record. The test prints the time of a call beyond the one
/// in its receipt; `scripts/bench mcp` measures it, because other tests run beside this one.
#[test]
fn a_thousand_calls_go_over_one_connection() {
    let (home, repository) = (Home::offline(), folder(FILES));
    let mut agent = Agent::start(&home, repository.path(), &[], &json!({}));
    let mut took: Vec<Duration> = (0..1_000)
        .map(|_| {
            let begun = Instant::now();
            let result = agent.call("read_file", json!({"path": "app.py"}));
            let skill = result["_meta"]["receipt"]["wall_us"].as_u64().expect("a number");
            begun.elapsed().saturating_sub(Duration::from_micros(skill))
        })
        .collect();
    agent.end().expect(0);
    took.sort();
    say(&format!(
        "overhead of a call over lines, median of 1,000: {:?}",
        took[500]
    ));
    until_ended(&home);
    assert_eq!(calls(&home).len(), 1_000);
}
