//! Commands around the operations: mistakes, interruptions, and what each ends with; and what several subjects share.

mod files;
mod past;
mod settings;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tool_model_server::{ModelServer, Round, ScriptedCall, ServerStep};

use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder, holds, until};

fn small_repository() -> tempfile::TempDir {
    folder(&[
        ("README.md", "# Crates\n\nCounts crates.\n"),
        ("main.py", "def main():\n    pass\n"),
    ])
}

/// The bodies of the requests for an answer, which are not the only ones.
fn prompts(server: &ModelServer) -> Vec<Value> {
    let requests = server.requests().into_iter();
    requests
        .filter(|request| request.method == "POST")
        .map(|request| request.body)
        .collect()
}

/// Runs with this on standard input.
fn with_input(home: &Home, directory: &Path, arguments: &[&str], input: &[u8]) -> Finished {
    let mut child = home
        .tool(directory, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    // One that refuses its input at once closes it.
    let _ = stdin.write_all(input);
    drop(stdin);
    finish(child.wait_with_output().expect("it ends"))
}

/// Runs a line of bash with `tool` on its path.
fn bash(home: &Home, directory: &Path, line: &str) -> Finished {
    let binary = Path::new(env!("CARGO_BIN_EXE_tool"))
        .parent()
        .expect("it lies in a folder");
    let tool = home.tool(directory, &[]);
    #[expect(clippy::disallowed_methods, reason = "a pipe is made by a shell")]
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(directory)
        .env_clear()
        .stdin(Stdio::null());
    for (name, value) in tool.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    #[expect(clippy::disallowed_methods, reason = "bash finds its programs by it")]
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", binary.display()));
    finish(command.output().expect("there is bash"))
}

/// Lines with single spaces, however their columns are laid out.
fn words_of_lines(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {}", finished.stdout))
}

/// Every exit code of the table, each by the shortest way to it.
#[test]
fn exit_codes() {
    let repository = small_repository();
    let home = Home::offline();
    let here = repository.path();
    for (arguments, code, first_line) in [
        (&["--version"][..], 0, ""),
        (&["--help"][..], 0, ""),
        (&["explain", "."][..], 0, ""),
        (&["explain", "nosuchfile"][..], 2, "[error] File not found: nosuchfile"),
        (&["explain", ".."][..], 2, "[error] File not found: .."),
        (
            &["skill", "add", "gone.wasm"][..],
            2,
            "[error] `gone.wasm` could not be read",
        ),
        (
            &["skill", "inspect", "gone.wasm"][..],
            2,
            "[error] `gone.wasm` could not be read",
        ),
        (&["skill", "build", "gone"][..], 2, "[error] Skill `gone`: "),
        (&["skill", "test", "gone"][..], 2, "[error] Not a directory: gone"),
        (&["skill", "sign", "gone.wasm", "--key", "gone.key"][..], 2, "[error] "),
        (
            &["skill", "audit", "read_file", "--cases", "gone"][..],
            2,
            "[error] There is no cases.toml",
        ),
        (
            &["dev", "model-server", "--script", "gone.json"][..],
            2,
            "[error] Script `gone.json`",
        ),
        (&["history", "--repo", "gone"][..], 2, "[error] "),
        (&["skill", "remove", "gone"][..], 2, "[error] "),
        (
            &["init", "--offline", "--model", "m"][..],
            2,
            "[error] the argument '--offline' cannot be used with '--model <MODEL>'",
        ),
        (
            &["init", "--offline", "--url", "http://127.0.0.1:1"][..],
            2,
            "[error] the argument '--offline' cannot be used with '--url <URL>'",
        ),
        (
            &["skill", "call", "write_file", r#"{"path":"a","content":"b"}"#][..],
            1,
            "[error] ",
        ),
        (&["test-gen", "main.py"][..], 2, "[error] "),
        (&[][..], 2, "[error] A command is missing"),
        (&["explan"][..], 2, "[error] unrecognized subcommand 'explan'"),
        (
            &["test-gen"][..],
            2,
            "[error] the following required arguments were not provided: <FILE>",
        ),
        (
            &["explain", ".", "--jsom"][..],
            2,
            "[error] unexpected argument '--jsom' found",
        ),
        (
            &["explain", ".", "--max-steps", "0"][..],
            2,
            "[error] invalid value '0' for '--max-steps <N>'",
        ),
        (&["explain", ".", "--provider", "router"][..], 2, "[error] "),
        (
            &["explain", ".", "--repo", "/nowhere"][..],
            2,
            "[error] Not a directory: /nowhere",
        ),
        (&["explain", ".", "--allow", "everything"][..], 2, "[error] "),
        (
            &["history", "--status", "lost"][..],
            2,
            "[error] invalid value 'lost' for '--status <STATUS>'",
        ),
    ] {
        let finished = home.run(here, arguments);
        assert_eq!(finished.code, code, "tool {arguments:?}: {}", finished.stderr);
        let found = finished
            .stderr
            .lines()
            .find(|line| line.starts_with("[error]"))
            .unwrap_or_default();
        assert!(found.starts_with(first_line), "tool {arguments:?}: {}", finished.stderr);
    }
    home.run(here, &["service", "stop"]).expect(0);
    home.run(here, &["service", "status"]).expect(3);
    let mut bad_port = home.tool(here, &["service", "start"]);
    finish(bad_port.env("TOOL_BACKEND_PORT", "http").output().expect("it runs")).expect(2);
    Home::empty().run(here, &["explain", "."]).expect(2);
}

/// True while one session is under way.
fn is_running(home: &Home, here: &Path) -> bool {
    json_of(&home.run(here, &["service", "status", "--json"]))["sessions_running"] == 1
}

/// A command whose session is under way.
fn begun(home: &Home, here: &Path, arguments: &[&str]) -> Child {
    let mut command = home.tool(here, arguments);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary runs");
    while !home.path().join("backend.json").exists() || !is_running(home, here) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The stream is open a moment after the session has begun.
    std::thread::sleep(std::time::Duration::from_millis(300));
    child
}

/// Sends the signal that a terminal sends on Ctrl-C.
fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
}

/// A command that was interrupted once its session was under way.
fn interrupted(home: &Home, here: &Path, arguments: &[&str]) -> Finished {
    let child = begun(home, here, arguments);
    interrupt(&child);
    finish(child.wait_with_output().expect("it ends")).expect(130)
}

/// A model that adds a line to `main.py`, and is silent from then on.
fn halfway() -> (ModelServer, Home) {
    let edit = json!({"path": "main.py", "content": "def main():\n    return 1\n"});
    let changing = Round::calls([
        ScriptedCall::new("read_file", json!({"path": "main.py"})),
        ScriptedCall::new("write_file", edit),
    ]);
    scripted([
        changing,
        Round::new([ServerStep::Text("Begun.".into()), ServerStep::Gate("never".into())]),
    ])
}

/// A refactor that has changed `main.py` and goes on.
fn begun_and_changed(home: &Home, repository: &Path) -> Child {
    let child = begun(home, repository, &["refactor", "main.py", "--deny", "run-process"]);
    until("the file is changed", || {
        fs::read_to_string(repository.join("main.py")).is_ok_and(|text| text.contains("return 1"))
    });
    // A daemon that dies before takes the change back.
    until("the change is on the disk", || {
        let sessions = fs::read_dir(home.path().join("sessions")).into_iter().flatten();
        let mut journals = sessions.flatten().map(|folder| folder.path().join("journal.jsonl"));
        journals.any(|journal| fs::read_to_string(journal).is_ok_and(|text| text.contains("\"kind\":\"committed\"")))
    });
    child
}

#[test]
fn an_interruption_names_what_stays_changed() {
    let (_server, home) = halfway();
    let repository = small_repository();
    let child = begun_and_changed(&home, repository.path());
    interrupt(&child);
    let finished = finish(child.wait_with_output().expect("it ends")).expect(130);
    holds(
        &finished.stderr,
        &["`main.py` stays as the session has changed it.\nhint: `tool undo "],
    );
    let undone = home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(undone.stdout, "restored  main.py\n");
}

#[test]
fn a_backend_that_dies_is_told_with_the_way_back() {
    let (_server, home) = halfway();
    let repository = small_repository();
    let child = begun_and_changed(&home, repository.path());
    rustix::process::kill_process(home.pid(), rustix::process::Signal::KILL).expect("it is ours");
    let finished = finish(child.wait_with_output().expect("it ends")).expect(3);
    holds(
        &finished.stderr,
        &[
            "has done is kept, and closed when the backend starts again.\nhint: `tool results ",
            "[error] Backend not responding: Connection refused\n",
        ],
    );
    home.run(repository.path(), &["undo"]).expect(0);
    let text = fs::read_to_string(repository.path().join("main.py")).expect("it is there");
    assert_eq!(text, "def main():\n    pass\n");
}

#[test]
fn an_interruption_is_130_and_cancels() {
    let (_server, home) = scripted([Round::new([
        ServerStep::Text("Begun.".into()),
        ServerStep::Gate("never".into()),
    ])]);
    let repository = small_repository();
    let finished = interrupted(&home, repository.path(), &["explain", ".", "--output", "A.md"]);
    assert!(finished.stderr.contains("cancelling"), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("The session was cancelled."),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("hint: `tool results "), "{}", finished.stderr);
    assert!(!repository.path().join("A.md").exists());
    let listed = json_of(
        &home
            .run(repository.path(), &["history", "--status", "cancelled", "--json"])
            .expect(0),
    );
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
}

/// The list is the server's: a hundred newer sessions of another repository would leave nothing to filter here.
#[test]
fn a_history_is_narrowed_by_repository_and_number() {
    let (home, one, other) = (Home::offline(), small_repository(), small_repository());
    for repository in [&one, &other, &one] {
        home.run(repository.path(), &["explain", "."]).expect(0);
    }
    let listed = |arguments: &[&str]| {
        let arguments = [arguments, &["history", "--json"][..]].concat();
        let sessions = json_of(&home.run(one.path(), &arguments).expect(0))["sessions"].clone();
        let of = |session: &Value| session["repository"].as_str().expect("text").to_owned();
        sessions.as_array().expect("a list").iter().map(of).collect::<Vec<_>>()
    };
    let path = |repository: &tempfile::TempDir| {
        let real = repository.path().canonicalize().expect("it is there");
        real.to_str().expect("UTF-8").to_owned()
    };
    let (of_one, of_other) = (path(&one), path(&other));
    assert_eq!(listed(&[]), [&*of_one, &of_other, &of_one]);
    assert_eq!(listed(&["--repo", &of_one]), [&*of_one, &of_one]);
    assert_eq!(listed(&["--repo", &of_other]), [&*of_other]);
    let limited = ["--repo", &of_one, "history", "--limit", "1", "--json"];
    let limited = json_of(&home.run(one.path(), &limited).expect(0));
    assert_eq!(limited["sessions"].as_array().map(Vec::len), Some(1));
    let many = home
        .run(one.path(), &["history", "--limit", "5000", "--json"])
        .expect(0);
    assert_eq!(json_of(&many)["sessions"].as_array().map(Vec::len), Some(3));
    let latest = home.run(other.path(), &["results", "latest", "--json"]).expect(0);
    assert_eq!(json_of(&latest)["operation"], "explain");
}

#[test]
fn a_detached_session_outlives_its_command() {
    let (server, home) = scripted([Round::new([
        ServerStep::Text("Begun. ".into()),
        ServerStep::Gate("go on".into()),
        ServerStep::Text("It counts crates (README.md:3).".into()),
    ])]);
    let repository = small_repository();
    let finished = interrupted(&home, repository.path(), &["explain", ".", "--detach"]);
    let (_, rest) = finished.stderr.split_once("The session ").expect("it is named");
    let id = rest.split_once(" continues.").expect("it says so").0.to_owned();
    // Longer than the backend lets a session run without a follower, were it not detached.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert!(is_running(&home, repository.path()), "nobody follows it");
    server.release("go on");
    while is_running(&home, repository.path()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let result = home.run(repository.path(), &["results", &id]).expect(0);
    assert!(result.stdout.contains("It counts crates"), "{}", result.stdout);
}

#[test]
fn a_protected_path_is_changed_where_it_is_named() {
    let write = || {
        let arguments = json!({"path": ".github/workflows/ci.yml", "content": "on: push\n"});
        [
            Round::calls([ScriptedCall::new("write_file", arguments)]),
            Round::text("Done."),
        ]
    };
    let (server, home) = scripted([write(), write(), write()].into_iter().flatten());
    let repository = small_repository();
    let file = repository.path().join(".github/workflows/ci.yml");
    let refactor = |path: Option<&str>| {
        let mut arguments = vec!["refactor", "Build on every push", "--deny", "run-process"];
        arguments.extend(path.into_iter().flat_map(|path| ["--allow-path", path]));
        home.run(repository.path(), &arguments)
    };
    let refused = refactor(None).expect(1);
    assert!(refused.stderr.contains("--allow-path"), "{}", refused.stderr);
    refactor(Some(".github")).expect(1);
    assert!(!file.exists(), "a directory is not the path");
    refactor(Some(".github/workflows/ci.yml")).expect(0);
    assert_eq!(fs::read_to_string(file).expect("it is there"), "on: push\n");
    drop(server);
}

#[test]
fn a_key_from_standard_input_is_kept_and_told_by_nobody() {
    let (home, here) = (Home::empty(), Path::new("/"));
    let key = "k-0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let arguments = ["init", "--provider", "hosted", "--model", "m", "--api-key-stdin"];
    let empty = with_input(&home, here, &arguments, b" \n").expect(2);
    assert!(
        empty
            .stderr
            .contains("Standard input holds no key; nothing was written"),
        "{}",
        empty.stderr
    );
    assert!(!home.path().join("config.toml").exists());
    let said = with_input(&home, here, &arguments, format!("  {key}\n").as_bytes()).expect(0);
    let place = home.path().join("config.toml");
    let text = fs::read_to_string(&place).expect("it is there");
    assert!(text.contains(&format!("api_key = \"{key}\"")), "{text}");
    let mode = fs::metadata(&place).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shown = home.run(here, &["config", "--json"]).expect(0);
    for told in [&said.stdout, &said.stderr, &shown.stdout, &shown.stderr] {
        assert!(!told.contains(key), "{told}");
    }
}

#[test]
fn a_component_is_added_after_a_yes_or_with_yes_said_before() {
    let (home, here) = (Home::offline(), Path::new("/"));
    let component = crate::support::guest("echo");
    let component = component.to_str().expect("UTF-8");
    let state = || {
        let skills = json_of(&home.run(here, &["skill", "list", "--json"]).expect(0))["skills"].clone();
        let mut skills = skills.as_array().expect("a list").clone().into_iter();
        skills.find(|skill| skill["name"] == "echo")
    };
    let asked = with_input(&home, here, &["skill", "add", component], b"n\n");
    assert_ne!(asked.code, 0, "{}", asked.stderr);
    assert_eq!(state(), None);
    home.run(here, &["skill", "add", component, "--yes"]).expect(0);
    assert!(state().is_some());
    let arguments = ["skill", "call", "echo", "{}"];
    let called = home.run(here, &arguments);
    assert!(!called.stderr.contains("trust"), "{}", called.stderr);
}

/// Another writer locks the history file for a while, so that the session ends long after its cancellation.
#[test]
fn an_interrupted_command_ends_after_its_session() {
    let (_server, home) = scripted([Round::new([
        ServerStep::Text("Begun.".into()),
        ServerStep::Gate("never".into()),
    ])]);
    let repository = small_repository();
    let reports = repository.path().join("session-reports");
    std::fs::create_dir(&reports).expect("the folder is writable");
    let writer = std::fs::File::create(reports.join(".session_history.lock")).expect("the folder is writable");
    rustix::fs::flock(&writer, rustix::fs::FlockOperation::LockExclusive).expect("nobody else writes yet");
    let child = begun(&home, repository.path(), &["explain", "."]);
    interrupt(&child);
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        drop(writer);
    });
    let finished = finish(child.wait_with_output().expect("it ends")).expect(130);
    assert!(
        finished.stderr.contains("The session was cancelled."),
        "{}",
        finished.stderr
    );
    let arguments = ["history", "--status", "cancelled", "--json"];
    let listed = json_of(&home.run(repository.path(), &arguments).expect(0));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    assert!(
        reports.join("session_latest.md").exists(),
        "its report is there as well"
    );
    letting_go.join().expect("no panic");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (home, repository) = (Home::offline(), small_repository());
    for line in [
        "tool completions bash | head -1",
        "tool explain . | head -1",
        "tool explain . --json | head -1",
        "tool man | head -1",
        "tool --help | head -1",
    ] {
        let finished = bash(&home, repository.path(), line).expect(0);
        assert_eq!(finished.stdout.lines().count(), 1, "{line}");
        assert!(
            !finished.stderr.contains("panicked") && !finished.stderr.contains("[error]"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn what_a_call_has_changed_is_told_also_where_nobody_reads_its_answer() {
    let (home, repository) = (Home::offline(), small_repository());
    let line =
        r#"tool skill call write_file '{"path": "new.py", "content": "x = 1\n"}' --allow write-repository | true"#;
    let finished = bash(&home, repository.path(), line).expect(0);
    holds(&finished.stderr, &["hint: `tool diff ", "takes it back"]);
    assert!(!finished.stderr.contains("cancelling"), "{}", finished.stderr);
    assert!(repository.path().join("new.py").exists());
}

#[test]
fn quiet_leaves_the_answer_alone() {
    let (home, repository) = (Home::offline(), small_repository());
    let finished = home.run(repository.path(), &["explain", ".", "--quiet"]).expect(0);
    assert_eq!(finished.stderr, "");
    assert!(finished.stdout.starts_with("# "), "{}", finished.stdout);
}

#[test]
fn a_pipe_gets_markdown_as_it_was_written_and_no_status_line() {
    let text = "# Title\n\n- **one** `two`\n- three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let (_server, home) = scripted([
        Round::new([
            ServerStep::Text("Looking.".into()),
            ServerStep::ToolCalls(vec![ScriptedCall::new("list_files", json!({"path": ""}))]),
        ]),
        Round::text(text),
    ]);
    let repository = small_repository();
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    assert!(
        finished.stdout.starts_with(&format!("Looking.\n\n{text}")),
        "{}",
        finished.stdout
    );
    assert!(!finished.stderr.contains(['\r', '\x1b']), "{:?}", finished.stderr);
}

#[test]
fn inspect_takes_a_name_as_well() {
    let home = Home::offline();
    let built_in = json_of(
        &home
            .run(Path::new("/"), &["skill", "inspect", "read_file", "--json"])
            .expect(0),
    );
    assert_eq!(
        (&built_in["origin"], &built_in["state"]),
        (&json!("builtin"), &json!("ready"))
    );
    assert_eq!(built_in["functions"][0]["parameters"]["type"], "object");
    // Of the component itself, not of its packed form.
    assert_eq!(built_in["worlds"], json!(["tool:skill@1.0.0"]));
    let unknown = home.run(Path::new("/"), &["skill", "inspect", "nosuchskill"]).expect(2);
    assert!(
        unknown
            .stderr
            .contains("There is neither a file nor a skill named `nosuchskill`"),
        "{}",
        unknown.stderr
    );
    assert!(!home.path().join("backend.json").exists());
}
