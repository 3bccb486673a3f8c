//! A component with ten functions: names, grants, proposals about files that exist, and every part of an answer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedCall};

use crate::mcp::Agent;
use crate::providers::scripted;
use crate::support::{Finished, Home, folder, git, guest, holds};

const WRITE: [&str; 2] = ["--allow", "write-repository"];

/// A home to which the component was added.
fn with_toolbox() -> Home {
    let home = Home::offline();
    add(&home, &guest("toolbox")).expect(0);
    home
}

fn add(home: &Home, component: &Path) -> Finished {
    let component = component.to_str().expect("a plain path");
    let flags = ["--yes", "--allow-effects", "write-repository"];
    home.run(home.path(), &[&["skill", "add", component], &flags[..]].concat())
}

fn call(home: &Home, root: &Path, function: &str, arguments: &Value, flags: &[&str]) -> Finished {
    let arguments = arguments.to_string();
    home.run(root, &[&["skill", "call", function, &arguments], flags].concat())
}

/// A hundred files with spaces at the ends of their lines.
fn untidy() -> tempfile::TempDir {
    let root = folder(&[]);
    for number in 0..100 {
        fs::write(root.path().join(format!("{number}.txt")), "one  \ntwo\t\n").expect("the folder is writable");
    }
    root
}

fn count_tidy(root: &Path) -> usize {
    let is_tidy =
        |number: &usize| fs::read_to_string(root.join(format!("{number}.txt"))).is_ok_and(|text| text == "one\ntwo\n");
    (0..100).filter(is_tidy).count()
}

#[test]
fn functions_of_one_component_share_its_code_and_have_grants_of_their_own() {
    let (home, root) = (with_toolbox(), folder(&[("a.txt", "one\n")]));
    let listed = home.run(root.path(), &["skill", "list", "--json"]).expect(0).stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let skills = listed["skills"].as_array().expect("a list");
    let toolbox = skills
        .iter()
        .find(|skill| skill["name"] == "toolbox")
        .expect("it was added");
    let functions = toolbox["functions"].as_array().expect("a list");
    assert_eq!(functions.len(), 10);
    assert_eq!(toolbox["effects"], json!(["read-repository", "write-repository"]));
    assert_eq!(functions[3]["effects"], json!(["read-repository"]));
    for name in ["echo_first", "echo_fourth"] {
        let answer = call(&home, root.path(), name, &json!({"text": "x"}), &[]).expect(0);
        assert_eq!(answer.stdout, format!("{name}: x\n"));
    }
    let compiled = fs::read_dir(home.path().join("cache/skills"))
        .expect("it is there")
        .count();
    assert_eq!(compiled, 1, "one component is compiled once");
    // Another function of the component may write, and this one may not.
    let denied = call(&home, root.path(), "overreach", &json!({"text": "x"}), &WRITE).expect(1);
    holds(
        &denied.stderr,
        &["`new.txt` cannot be proposed without the effect `write-repository`"],
    );
    assert!(!root.path().join("new.txt").exists());
}

#[test]
fn a_function_whose_name_is_taken_is_refused() {
    let home = with_toolbox();
    let wasm = fs::read(guest("toolbox")).expect("it is built");
    // The component is another one, and its functions have the names of those that are there.
    let other: Vec<u8> = replaced(&wasm, b"toolbox", b"toolbax");
    let place = home.path().join("toolbax.wasm");
    fs::write(&place, other).expect("the folder is writable");
    let refused = add(&home, &place).expect(1);
    holds(
        &refused.stderr,
        &["the name of its function `format_files` is taken by the skill `toolbox`"],
    );
    let built_in = replaced(&wasm, b"count_lines", b"search_code");
    fs::write(&place, built_in).expect("the folder is writable");
    let refused = add(&home, &place).expect(1);
    holds(
        &refused.stderr,
        &["the name of its function `search_code` is that of a built-in tool"],
    );
}

/// Bytes with one text in place of another one of its length.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at + old.len() <= bytes.len() {
        if bytes[at..].starts_with(old) {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        at += 1;
    }
    bytes
}

#[test]
fn a_component_for_another_minor_version_is_accepted_and_a_newer_one_is_named() {
    let home = Home::offline();
    let wasm = fs::read(guest("toolbox")).expect("it is built");
    let place = home.path().join("toolbox.wasm");
    for version in ["@1.0.7", "@1.9.0"] {
        fs::write(&place, replaced(&wasm, b"@1.0.0", version.as_bytes())).expect("the folder is writable");
        add(&home, &place).expect(0);
        let root = folder(&[]);
        let answer = call(&home, root.path(), "echo_first", &json!({"text": version}), &[]).expect(0);
        assert_eq!(answer.stdout, format!("echo_first: {version}\n"));
        home.run(root.path(), &["skill", "remove", "toolbox"]).expect(0);
    }
    for (old, new, told) in [
        (
            "@1.0.0",
            "@2.0.0",
            "it was built for tool:skill@2.0.0, and this host has tool:skill@1.0.0",
        ),
        (
            "tool:skill/answer@1.0.0",
            "tool:skill/camera@1.4.0",
            "it needs tool:skill@1.4.0 for `tool:skill/camera`, and this host has tool:skill@1.0.0",
        ),
        (
            "tool:skill/answer@1.0.0",
            "tool:skill/camera@1.0.0",
            "it imports `tool:skill/camera@1.0.0`, which this host does not provide",
        ),
    ] {
        let other = replaced(&wasm, old.as_bytes(), new.as_bytes());
        fs::write(&place, other).expect("the folder is writable");
        holds(&add(&home, &place).expect(1).stderr, &[told]);
    }
}

#[test]
fn a_formatter_rewrites_a_hundred_files_in_one_call() {
    let (home, root) = (with_toolbox(), untidy());
    let answer = call(&home, root.path(), "format_files", &json!({}), &WRITE).expect(0);
    assert_eq!(answer.stdout, "100 files formatted\n");
    assert_eq!(count_tidy(root.path()), 100);
    let diff = home.run(root.path(), &["diff"]).expect(0).stdout;
    assert_eq!(diff.matches("diff --git ").count(), 100);
    holds(&diff, &["-one  \n", "+one\n"]);
    home.run(root.path(), &["undo"]).expect(0);
    assert_eq!(count_tidy(root.path()), 0);
    // Without the grant nothing is changed.
    call(&home, root.path(), "format_files", &json!({}), &[]).expect(1);
    assert_eq!(count_tidy(root.path()), 0);
}

#[test]
fn a_skill_of_a_team_sees_no_key_and_leaves_those_of_the_files_that_it_changes() {
    let home = with_toolbox();
    let hostile = guest("hostile");
    home.run(
        home.path(),
        &["skill", "add", hostile.to_str().expect("a plain path"), "--yes"],
    )
    .expect(0);
    let key = ["ghp", "_", "Zk3qW9xR2mT7vB4nL6cY8dF1gH5jK0sA2eU4"].concat();
    let root = folder(&[
        ("a.txt", &format!("token = \"{key}\"  \n")),
        ("b.txt", &format!("token = \"{key}\"\n")),
    ]);
    let text = |path: &str| fs::read_to_string(root.path().join(path)).expect("it is there");
    let read = |function, arguments: &Value| call(&home, root.path(), function, arguments, &[]).expect(0).stdout;
    let told = read("hostile", &json!({"attack": "read", "path": "/repo/b.txt"}));
    holds(&told, &["got token = \"[redacted:github-token:1]\"\n"]);
    // A skill of ours shows the user what is there.
    holds(&read("read_file", &json!({"path": "b.txt"})), &[&key]);
    // By a batch and by path: the digest is that of what the skill has seen.
    call(&home, root.path(), "format_files", &json!({}), &WRITE).expect(0);
    assert_eq!(text("a.txt"), text("b.txt"));
    let moves = json!({"path": "b.txt", "to": "c.txt"});
    call(&home, root.path(), "move_file", &moves, &WRITE).expect(0);
    assert_eq!(text("c.txt"), format!("token = \"{key}\"\n"));
}

#[test]
fn a_skill_of_a_team_taints_with_every_file_that_it_reads_whatever_it_states() {
    let call = |name: &str, arguments: Value| Round::calls([ScriptedCall::new(name, arguments)]);
    let (server, home) = scripted([
        call("call_skill", json!({"name": "format_files", "arguments": {}})),
        call("git_commit", json!({"message": "Tidy up", "all": true})),
        Round::text("Done."),
    ]);
    add(&home, &guest("toolbox")).expect(0);
    let root = folder(&[("a.txt", "one  \n"), ("vendor/b.txt", "two\n")]);
    git(root.path(), &["init", "--quiet"]);
    git(root.path(), &["add", "."]);
    let flags = ["--exclude", "vendor", "--deny", "run-process", "--allow", "commit-git"];
    let stderr = home
        .run(root.path(), &[&["refactor", "tidy up"], &flags[..]].concat())
        .stderr;
    assert!(
        server.requests()[1].body.to_string().contains("1 files formatted"),
        "{stderr}"
    );
    holds(&stderr, &["entered the conversation (`vendor/`)"]);
}

#[test]
fn a_function_is_found_in_the_operations_that_it_names_and_no_others() {
    let asked = |arguments: &[&str]| {
        let find = ScriptedCall::new("find_skill", json!({"query": "format_files"}));
        let (server, home) = scripted([Round::calls([find]), Round::text("Done.")]);
        add(&home, &guest("toolbox")).expect(0);
        let root = folder(&[("a.txt", "one\n")]);
        home.run(root.path(), arguments);
        let requests = server.requests();
        let (first, second) = (&requests[0], &requests[1]);
        let tools = first.body["tools"].as_array().expect("a list").clone();
        let has = |wanted: &str| tools.iter().any(|tool| tool["function"]["name"] == wanted);
        let offered = ["format_files", "count_lines", "find_skill", "call_skill"].map(has);
        let is_found = second.body["messages"].to_string().contains("`format_files`: ");
        (offered, is_found, first.body["tools"].clone())
    };
    let (explain, refactor) = (asked(&["explain", "a.txt"]), asked(&["refactor", "tidy up"]));
    assert_eq!((explain.0, explain.1), ([false, true, true, true], false));
    assert_eq!((refactor.0, refactor.1), ([false, true, true, true], true));
    assert_eq!(
        explain.2, refactor.2,
        "a conversation keeps its tools when its operation changes"
    );
}

#[test]
fn a_formatter_changes_no_file_where_one_has_changed_since_it_was_read() {
    let (home, root) = (with_toolbox(), untidy());
    let paused = r#"{"pause_ms": 2000}"#;
    let arguments = [&["skill", "call", "format_files", paused, "--log"][..], &WRITE].concat();
    let mut command = home.tool(root.path(), &arguments);
    let mut calling = command.stderr(Stdio::piped()).spawn().expect("the binary runs");
    // The skill has read all files, and proposes its changes when it has waited.
    let mut told = BufReader::new(calling.stderr.take().expect("it is piped")).lines();
    let waits = told.any(|line| line.is_ok_and(|line| line == "waiting"));
    assert!(waits, "it says that it waits");
    fs::write(root.path().join("50.txt"), "mine  \n").expect("the folder is writable");
    let refused: Vec<String> = told.map_while(Result::ok).collect();
    assert!(!calling.wait().expect("it ends").success());
    holds(
        &refused.join("\n"),
        &["`50.txt` has changed since the skill read it; nothing was changed"],
    );
    assert_eq!(count_tidy(root.path()), 0);
    assert_eq!(
        fs::read_to_string(root.path().join("50.txt")).ok().as_deref(),
        Some("mine  \n")
    );
}

#[test]
fn a_formatter_works_in_a_session_and_its_files_count_as_unread() {
    let rounds = vec![
        Round::calls([ScriptedCall::new("format_files", json!({}))]),
        Round::calls([ScriptedCall::new(
            "write_file",
            json!({"path": "1.txt", "content": "mine\n"}),
        )]),
        Round::text("Done."),
    ];
    let (server, home) = scripted(rounds);
    add(&home, &guest("toolbox")).expect(0);
    let root = untidy();
    home.run(root.path(), &["refactor", "tidy up", "--allow", "write-repository"]);
    let requests = server.requests();
    let messages = requests.last().expect("a request").body["messages"].to_string();
    holds(&messages, &["100 files formatted", "read it first"]);
    assert_eq!(count_tidy(root.path()), 100);
}

#[test]
fn a_file_moves_and_gets_its_executable_bit() {
    let (home, root) = (with_toolbox(), folder(&[("a.sh", "echo\n"), ("b.sh", "echo\n")]));
    let mode = |path: &str| {
        let metadata = fs::metadata(root.path().join(path)).expect("it is there");
        metadata.permissions().mode() & 0o111
    };
    let moves = json!({"path": "a.sh", "to": "bin/run.sh"});
    call(&home, root.path(), "move_file", &moves, &WRITE).expect(0);
    assert!(!root.path().join("a.sh").exists());
    assert_ne!(mode("bin/run.sh"), 0);
    home.run(root.path(), &["undo"]).expect(0);
    assert!(root.path().join("a.sh").exists() && !root.path().join("bin").exists());

    call(&home, root.path(), "make_executable", &json!({"path": "b.sh"}), &WRITE).expect(0);
    assert_ne!(mode("b.sh"), 0);
    let diff = home.run(root.path(), &["diff"]).expect(0).stdout;
    holds(&diff, &["old mode 100644\nnew mode 100755\n"]);
    home.run(root.path(), &["undo"]).expect(0);
    assert_eq!(mode("b.sh"), 0);
    // It is taken back, so that the move before it, which was undone as well, leaves nothing to undo.
    holds(&home.run(root.path(), &["undo"]).stderr, &["not undone yet"]);
}

#[test]
fn an_answer_has_text_citations_media_and_details() {
    let (home, root) = (with_toolbox(), folder(&[("a.txt", "one\ntwo\n")]));
    let arguments = json!({"path": "a.txt"});
    let answer = call(&home, root.path(), "count_lines", &arguments, &[]).expect(0);
    insta::assert_snapshot!(answer.stdout, @r"
    reading a.txt
    2 lines
    [text/vnd.mermaid] a graph of 2 lines
    graph TD; lines-->2
    [image/png] a small picture (8 bytes; `--json` prints them)
    ");
    let answer = call(&home, root.path(), "count_lines", &arguments, &["--json"]).expect(0);
    let mut answer: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    answer.as_object_mut().expect("an object").remove("receipt");
    assert_eq!(
        answer,
        json!({
            "type": "outcome",
            "text": "reading a.txt\n2 lines",
            "truncated": false,
            "files_modified": [],
            "details": {"lines": 2},
            "citations": [{"path": "a.txt", "line": 1}],
            "media": [
                {"media_type": "text/vnd.mermaid", "alternative": "a graph of 2 lines", "data": "graph TD; lines-->2"},
                {"media_type": "image/png", "alternative": "a small picture", "data": "iVBORw0KGgo="},
            ],
        })
    );
    let misfit = call(&home, root.path(), "misfit", &json!({"text": "two"}), &[]).expect(1);
    holds(
        &misfit.stderr,
        &["its details do not fit the schema of its output at `/lines`: expected a whole number"],
    );
}

#[test]
fn another_agent_gets_the_schema_of_an_answer_and_all_of_its_parts() {
    let (home, root) = (with_toolbox(), folder(&[("a.txt", "one\ntwo\n")]));
    let mut agent = Agent::start(&home, root.path(), &["--structured"], &json!({}));
    let tools = agent.ask("tools/list", json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().expect("a list");
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "count_lines")
        .expect("it is a tool");
    let details = &tool["outputSchema"]["properties"]["details"]["anyOf"][0];
    assert_eq!(details["properties"]["lines"]["type"], "integer");
    let call = json!({"name": "count_lines", "arguments": {"path": "a.txt"}, "_meta": {"progressToken": "p"}});
    let answer = agent.ask("tools/call", call);
    let result = &answer["result"];
    assert_eq!(result["structuredContent"]["details"], json!({"lines": 2}));
    assert_eq!(
        result["structuredContent"]["citations"],
        json!([{"path": "a.txt", "line": 1}])
    );
    let content = result["content"].as_array().expect("a list");
    let text = content[0]["text"].as_str().expect("text");
    holds(
        text,
        &[
            "2 lines",
            "(text/vnd.mermaid: a graph of 2 lines)",
            "(image/png: a small picture)",
            "a.txt:1",
        ],
    );
    assert!(!text.contains("iVBOR"), "a model does not read the bytes of an image");
    assert_eq!(content[1]["text"], "```mermaid\ngraph TD; lines-->2\n```");
    assert_eq!(
        (&content[2]["type"], &content[2]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    let told = agent.asked("notifications/progress");
    assert_eq!(told["params"]["message"], "1 of 1: a.txt");
}
