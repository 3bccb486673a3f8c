//! Commands around the operations: configuration, examination, files, filters, mistakes, and what each ends with.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use host::provider::script::{ModelServer, Round, ScriptedCall, Step};
use serde_json::{Value, json};

use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder};

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

#[test]
fn config_says_where_each_setting_comes_from_and_starts_nothing() {
    let home = Home::empty();
    let text = "[providers.hosted]\nenabled = true\napi_key = \"of-the-file-123\"\n[logging]\nlevel = \"WARN\"\n";
    fs::write(home.path().join("config.toml"), text).expect("the folder is writable");
    fs::set_permissions(home.path().join("config.toml"), fs::Permissions::from_mode(0o644)).expect("it is ours");
    let repository = small_repository();
    let mut command = home.tool(repository.path(), &["config", "--repo", "."]);
    command
        .env("HOSTED_API_KEY", "12345678")
        .env("HOSTED_MODEL", "some-model");
    let shown = finish(command.output().expect("it runs")).expect(0);
    let settings = words_of_lines(&shown.stdout);
    for line in [
        "providers.hosted.model some-model from HOSTED_MODEL",
        "providers.hosted.api_key set, 8 characters, from HOSTED_API_KEY",
        "server.port 0 from TOOL_BACKEND_PORT",
        "server.auth same-user default",
    ] {
        assert!(
            settings.iter().any(|other| other == line),
            "{line} is missing in\n{}",
            shown.stdout
        );
    }
    let from_file = format!("from {}", home.path().join("config.toml").display());
    let level = shown.stdout.lines().find(|line| line.starts_with("logging.level"));
    assert!(
        level.is_some_and(|line| line.contains("WARN") && line.ends_with(&from_file)),
        "{level:?}"
    );
    let repository_line = shown.stdout.lines().find(|line| line.starts_with("repository"));
    assert!(
        repository_line.is_some_and(|line| line.ends_with("from --repo")),
        "{repository_line:?}"
    );
    assert!(
        shown.stderr.contains("may be read by others (mode 644)"),
        "{}",
        shown.stderr
    );
    assert!(!format!("{shown:?}").contains("of-the-file"), "{shown:?}");
    assert!(!home.path().join("backend.json").exists());
}

/// Whatever can be set is in the README's table, with its default.
#[test]
fn every_key_is_in_the_readme() {
    let shown = json_of(&Home::offline().run(Path::new("/"), &["config", "--json"]).expect(0));
    let readme = include_str!("../README.md");
    let (_, table) = readme
        .split_once("### Configuration\n")
        .expect("the README has a part for it");
    let (table, _) = table.split_once("\n```toml").expect("the table ends");
    let named: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    for setting in shown["settings"].as_array().expect("a list") {
        let key = setting["key"].as_str().expect("a key");
        let key = ["hosted", "local", "router"].iter().fold(key.to_owned(), |key, name| {
            key.replace(&format!("providers.{name}."), "providers.NAME.")
        });
        // These are no keys of the file.
        if !["home", "repository"].contains(&key.as_str()) {
            assert!(named.contains(&key.as_str()), "`{key}` is missing");
        }
    }
}

#[test]
fn config_helps_where_the_configuration_is_missing_or_wrong() {
    let nowhere = Path::new("/");
    let missing = Home::empty().run(nowhere, &["config"]).expect(2);
    assert!(missing.stdout.contains("config.toml  (missing)"), "{}", missing.stdout);
    let url = "providers.local.url http://127.0.0.1:1234/v1 default".to_owned();
    assert!(words_of_lines(&missing.stdout).contains(&url), "{}", missing.stdout);
    assert!(
        missing
            .stderr
            .starts_with("[error] Configuration file not found: ~/.tool/config.toml\nhint: run `tool init`")
    );

    let broken = Home::configured("[providers.local]\nenabled = yes\n")
        .run(nowhere, &["config", "--json"])
        .expect(2);
    let broken = json_of(&broken);
    assert_eq!(broken["state"], "broken");
    assert_eq!(
        broken["problem"]["message"],
        "Failed to parse config: Invalid TOML syntax"
    );

    let two = "[providers.local]\nenabled = true\n[providers.router]\nenabled = true\n";
    let two = Home::configured(two).run(nowhere, &["config"]).expect(2);
    assert!(
        words_of_lines(&two.stdout)
            .iter()
            .any(|line| line.starts_with("providers.router.enabled true ")),
        "{}",
        two.stdout
    );
    assert!(
        two.stderr
            .contains("More than one provider is enabled: local and router"),
        "{}",
        two.stderr
    );
}

#[test]
fn a_key_that_others_may_read_is_a_warning_before_an_operation() {
    let (server, home) = scripted([Round::text("Fine.")]);
    let place = home.path().join("config.toml");
    let mut text = fs::read_to_string(&place).expect("it is there");
    text.push_str("api_key = \"k\"\n");
    fs::write(&place, text).expect("it is writable");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let repository = small_repository();
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    assert!(finished.stderr.starts_with("[warning] `"), "{}", finished.stderr);
    assert!(finished.stderr.contains("hint: chmod 600 '"), "{}", finished.stderr);
    assert_eq!(prompts(&server).len(), 1);
}

#[test]
fn doctor_examines_in_order_and_starts_nothing() {
    let home = Home::offline();
    let repository = small_repository();
    let finished = home.run(repository.path(), &["doctor"]).expect(0);
    let names: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(
        names,
        [
            "configuration",
            "home",
            "backend",
            "key",
            "provider",
            "skills",
            "repository",
            "python",
            "node",
            "sandbox",
            "helpers"
        ],
        "{}",
        finished.stdout
    );
    assert!(!home.path().join("backend.json").exists());
    let report = home.run(repository.path(), &["doctor", "--json"]).expect(0);
    let checks = json_of(&report)["checks"].clone();
    let of = |name: &str| {
        let mut all = checks.as_array().expect("a list").iter();
        all.find(|check| check["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(
        of("skills"),
        json!({"name": "skills", "status": "ok", "detail": "12 ready"})
    );
    assert_eq!(of("repository")["fix"], "git init");
}

#[test]
fn doctor_finds_what_is_wrong_and_says_what_mends_it() {
    let repository = small_repository();
    let missing = Home::empty().run(repository.path(), &["doctor"]).expect(2);
    assert!(
        missing
            .stdout
            .starts_with("fail  configuration   Configuration file not found"),
        "{}",
        missing.stdout
    );
    assert!(missing.stdout.contains("hint: run `tool init`"), "{}", missing.stdout);

    // Nothing listens on the port of a server that has gone.
    let (server, home) = scripted([]);
    drop(server);
    let down = home.run(repository.path(), &["doctor"]).expect(1);
    assert!(
        down.stdout
            .contains("\nfail  provider        Connection refused: 127.0.0.1:"),
        "{}",
        down.stdout
    );

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let mut command = Home::offline().tool(repository.path(), &["doctor"]);
    let home = Home::offline();
    command.env("TOOL_HOME", home.path()).env("TOOL_BACKEND_PORT", &port);
    let finished = finish(command.output().expect("it runs")).expect(1);
    let expected = format!("fail  backend         not running, and port {port} is taken by somebody else");
    assert!(finished.stdout.contains(&expected), "{}", finished.stdout);
}

#[test]
fn doctor_looks_for_the_model_in_the_providers_list() {
    let (_server, home) = scripted([]);
    let repository = small_repository();
    let known = home.run(repository.path(), &["doctor"]).expect(0);
    assert!(
        known.stdout.contains("\nok    model           scripted\n"),
        "{}",
        known.stdout
    );
    home.run(
        repository.path(),
        &[
            "init",
            "--provider",
            "local",
            "--model",
            "unheard-of",
            "--url",
            &_server.url(),
        ],
    )
    .expect(0);
    let unknown = home.run(repository.path(), &["doctor"]).expect(0);
    assert!(
        unknown
            .stdout
            .contains("\nwarn  model           `unheard-of` is not among the"),
        "{}",
        unknown.stdout
    );
    assert!(
        unknown
            .stdout
            .contains("hint: tool init --provider local --model MODEL"),
        "{}",
        unknown.stdout
    );
}

#[test]
fn doctor_probes_what_the_provider_can_do() {
    let (_server, home) = scripted([]);
    let repository = small_repository();
    let finished = home.run(repository.path(), &["doctor", "--probe", "--json"]).expect(1);
    let report = json_of(&finished)["probe"]["checks"].clone();
    let names: Vec<&str> = report
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    let all = [
        "streaming",
        "one tool",
        "parallel tools",
        "empty arguments",
        "context size",
        "models",
    ];
    assert_eq!(names, all);
    assert_eq!(report[0]["verdict"], "fails", "the script has no round for it");
    let shown = home.run(repository.path(), &["doctor", "--probe"]).expect(1);
    assert!(shown.stdout.contains("\nfail  streaming       "), "{}", shown.stdout);
    assert!(shown.stdout.contains("\nok    models          "), "{}", shown.stdout);
    let analyst = Home::offline().run(repository.path(), &["doctor", "--probe"]).expect(0);
    assert!(
        analyst.stdout.contains("\nok    parallel tools  "),
        "{}",
        analyst.stdout
    );
}

#[test]
fn an_output_file_appears_once_the_operation_is_complete() {
    let (server, home) = scripted([Round::text("# Crates\n\nThey are counted.")]);
    let repository = small_repository();
    let place = repository.path().join("ANSWER.md");
    let done = home
        .run(repository.path(), &["explain", ".", "-o", "ANSWER.md"])
        .expect(0);
    assert_eq!(done.stdout, "");
    let text = fs::read_to_string(&place).expect("it is there");
    assert!(text.starts_with("# Crates\n\nThey are counted."), "{text}");
    assert!(
        done.stderr.contains("report session-reports/session_"),
        "{}",
        done.stderr
    );
    let seen = prompts(&server);
    assert!(
        !seen[0].to_string().contains("ANSWER"),
        "an operation does not find its own answer"
    );

    let refused = home
        .run(repository.path(), &["explain", "..", "-qo", "ANSWER.md"])
        .expect(1);
    assert!(
        refused
            .stderr
            .contains("`ANSWER.md` was not written: the operation is not complete.\nhint: `tool results "),
        "{}",
        refused.stderr
    );
    assert_eq!(
        fs::read_to_string(&place).expect("it is there"),
        text,
        "it is as it was"
    );
}

#[test]
fn an_output_file_that_cannot_be_is_said_before_anything_starts() {
    let (server, home) = scripted([Round::text("Fine.")]);
    let repository = small_repository();
    let finished = home
        .run(repository.path(), &["explain", ".", "-o", "no/such/A.md"])
        .expect(2);
    assert!(
        finished
            .stderr
            .starts_with("[error] The folder of `no/such/A.md` does not exist\nhint: make it with `mkdir -p"),
        "{}",
        finished.stderr
    );
    assert!(server.requests().is_empty() && !home.path().join("backend.json").exists());
}

#[test]
fn an_answer_never_replaces_its_target_or_what_was_changed_meanwhile() {
    let (server, home) = scripted([
        Round::calls([ScriptedCall::new(
            "write_file",
            json!({"path": "NOTES.md", "content": "the model's\n"}),
        )]),
        Round::text("Done."),
    ]);
    let repository = small_repository();
    let at = |name: &str| repository.path().join(name);
    let source = fs::read_to_string(at("main.py")).expect("it is there");
    let refused = home
        .run(repository.path(), &["refactor", "main.py", "-o", "./main.py"])
        .expect(2);
    assert_eq!(
        refused.stderr,
        "[error] `./main.py` is what the operation is about; the answer would replace it\nhint: name another file for \
         the answer, for example `-o ANSWER.md`\n"
    );
    assert!(server.requests().is_empty() && !home.path().join("backend.json").exists());
    assert_eq!(fs::read_to_string(at("main.py")).expect("it is there"), source);

    let kept = home
        .run(repository.path(), &["refactor", "main.py", "-o", "NOTES.md"])
        .expect(1);
    assert!(
        kept.stderr.ends_with(
            "[error] `NOTES.md` was changed while the operation ran, and is left as it is\nhint: the answer is in \
             `NOTES.md.answer`\n"
        ),
        "{}",
        kept.stderr
    );
    assert_eq!(
        fs::read_to_string(at("NOTES.md")).expect("it is there"),
        "the model's\n"
    );
    let answer = fs::read_to_string(at("NOTES.md.answer")).expect("it is there");
    assert!(answer.starts_with("Done."), "{answer}");
}

#[test]
fn events_go_into_a_file_as_well() {
    let (_server, home) = scripted([Round::text("Fine.")]);
    let repository = small_repository();
    home.run(
        repository.path(),
        &["explain", ".", "--json", "--output", "events.jsonl"],
    )
    .expect(0);
    let text = fs::read_to_string(repository.path().join("events.jsonl")).expect("it is there");
    let last: Value = serde_json::from_str(text.lines().last().expect("lines")).expect("JSON");
    assert_eq!(last["type"], "complete");
}

#[test]
fn a_task_comes_from_standard_input_and_a_path_does_not() {
    let (server, home) = scripted([Round::text("Split `main.py:1`.")]);
    let repository = small_repository();
    let task = b"make it modular\n\nbut keep `main.py`\n";
    with_input(&home, repository.path(), &["architect", "-"], task);
    let request = prompts(&server)[0].to_string();
    assert!(request.contains("make it modular\\n\\nbut keep `main.py`"), "{request}");
    let empty = with_input(&home, repository.path(), &["refactor", "-"], b" \n").expect(2);
    assert!(
        empty.stderr.starts_with("[error] Standard input holds no task\n"),
        "{}",
        empty.stderr
    );
    let large = with_input(&home, repository.path(), &["refactor", "-"], &vec![b'x'; 100_000]).expect(2);
    assert!(
        large.stderr.starts_with("[error] The task is larger than 64 KiB\n"),
        "{}",
        large.stderr
    );
    for command in ["explain", "test-gen"] {
        let refused = with_input(&home, repository.path(), &[command, "-"], b"x").expect(2);
        assert!(
            refused.stderr.contains("takes a path; `-` is none\nhint: "),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn history_is_filtered_by_model_operation_status_repository_and_number() {
    let (_server, home) = scripted([Round::text("One."), Round::text("Two.")]);
    let (one, two) = (small_repository(), small_repository());
    let nothing = home.run(one.path(), &["history"]).expect(0);
    assert!(
        nothing.stderr.contains("hint: `tool explain .` makes the first"),
        "{}",
        nothing.stderr
    );
    home.run(one.path(), &["explain", "."]).expect(0);
    home.run(two.path(), &["explain", ".", "--model", "vendor/other one"])
        .expect(0);
    home.run(two.path(), &["explain", ".."]).expect(1);
    let count = |arguments: &[&str]| {
        let all: Vec<&str> = ["history", "--json"].iter().chain(arguments).copied().collect();
        let listed = home.run(one.path(), &all).expect(0);
        json_of(&listed)["sessions"].as_array().expect("a list").len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--model", "vendor/other one"]), 1);
    assert_eq!(count(&["--operation", "explain"]), 3);
    assert_eq!(count(&["--operation", "test-gen"]), 0);
    assert_eq!(count(&["--status", "failed"]), 1);
    assert_eq!(count(&["--repo", "."]), 1);
    assert_eq!(
        count(&["--repo", two.path().to_str().expect("UTF-8"), "--status", "complete"]),
        1
    );
    assert_eq!(count(&["--limit", "2"]), 2);
    let none = home.run(one.path(), &["history", "--operation", "refactor"]).expect(0);
    assert!(none.stderr.contains("No session is like that."), "{}", none.stderr);
}

#[test]
fn results_are_found_by_a_beginning_and_as_the_latest_here() {
    let (_server, home) = scripted([Round::text("Of the first."), Round::text("Of the second.")]);
    let (one, two) = (small_repository(), small_repository());
    home.run(one.path(), &["explain", "."]).expect(0);
    home.run(two.path(), &["explain", "."]).expect(0);
    let latest = home.run(one.path(), &["results"]).expect(0);
    assert!(latest.stdout.starts_with("Of the first."), "{}", latest.stdout);
    let report = latest
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("report "))
        .expect("a report");
    assert!(one.path().join(report).is_file(), "{report} opens from here");
    let from_elsewhere = home
        .run(
            Path::new("/"),
            &["results", "--repo", one.path().to_str().expect("UTF-8")],
        )
        .expect(0);
    let report = from_elsewhere
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("report "))
        .expect("a report");
    assert!(Path::new("/").join(report).is_file(), "{report} opens from there");

    let newest = json_of(&home.run(two.path(), &["results", "latest", "--json"]).expect(0));
    let id = newest["session_id"].as_str().expect("an id").to_owned();
    let by_beginning = home.run(one.path(), &["results", &id[..30]]).expect(0);
    assert!(
        by_beginning.stdout.starts_with("Of the second."),
        "{}",
        by_beginning.stdout
    );
    let ambiguous = home.run(one.path(), &["results", "0"]).expect(2);
    assert!(
        ambiguous.stderr.contains("is the beginning of more than one"),
        "{}",
        ambiguous.stderr
    );
    home.run(one.path(), &["results", "ffffffff"]).expect(1);
    let nonsense = home.run(one.path(), &["results", "../x"]).expect(2);
    assert!(
        nonsense.stderr.starts_with("[error] Not a session identifier: `../x`"),
        "{}",
        nonsense.stderr
    );
    let elsewhere = small_repository();
    let none = home.run(elsewhere.path(), &["results", "latest"]).expect(1);
    assert!(none.stderr.contains("hint: `tool history` shows"), "{}", none.stderr);
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
        (&["explain", ".."][..], 1, "[error] File not found: .."),
        (
            &["skill", "call", "write_file", r#"{"path":"a","content":"b"}"#][..],
            1,
            "[error] ",
        ),
        (&["test-gen", "main.py"][..], 2, "[error] "),
        (&[][..], 2, "[error] A command is missing"),
        (&["explan"][..], 2, "[error] unrecognized subcommand 'explan'"),
        (
            &["explain"][..],
            2,
            "[error] the following required arguments were not provided: <FILE_OR_DIRECTORY>",
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

/// What a terminal does to a command on Ctrl-C.
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

#[test]
fn an_interruption_is_130_and_cancels() {
    let (_server, home) = scripted([Round::new([Step::Text("Begun.".into()), Step::Gate("never".into())])]);
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
        Step::Text("Begun. ".into()),
        Step::Gate("go on".into()),
        Step::Text("It counts crates (README.md:3).".into()),
    ])]);
    let repository = small_repository();
    let finished = interrupted(&home, repository.path(), &["explain", ".", "--detach"]);
    let (_, rest) = finished.stderr.split_once("The session ").expect("it is named");
    let id = rest.split_once(" runs on.").expect("it says so").0.to_owned();
    // Longer than a session that nobody follows would be left, were it not detached.
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

/// The history file is another writer's for a while, so that the session ends later than it is told to.
#[test]
fn an_interrupted_command_ends_after_its_session() {
    let (_server, home) = scripted([Round::new([Step::Text("Begun.".into()), Step::Gate("never".into())])]);
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
            Step::Text("Looking.".into()),
            Step::ToolCalls(vec![ScriptedCall::new("list_files", json!({"path": ""}))]),
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
    assert_eq!(built_in["parameters"]["type"], "object");
    let unknown = home.run(Path::new("/"), &["skill", "inspect", "nosuchskill"]).expect(1);
    assert!(
        unknown
            .stderr
            .contains("There is neither a file nor a skill named `nosuchskill`"),
        "{}",
        unknown.stderr
    );
    assert!(!home.path().join("backend.json").exists());
}
