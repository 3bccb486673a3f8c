//! Every row of the error table, provoked for real: the exact message, the exit code, the hint that mends it, and the
//! same code, message and hint at every surface.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{Round, ScriptedStatus, ServerStep};

use super::http::{self, Connection};
use super::recorded::failed;
use super::rights::{give, restrict, unprivileged};
use super::skills::environment;
use super::states::kill;
use super::told::{Told, has, printed, refusing, skill_told, told_everywhere, with_token};
use super::world::{SHOP, Wire, World, documents_say, free_port, holds, report, says};
use crate::support::{Finished, Home, finish, fixture_path, folder};

/// An identifier that no session has.
const NO_SESSION: &str = "01900000-0000-7000-8000-000000000000";

#[test]
fn error_printed_form() {
    let world = World::new(SHOP, []);
    for arguments in [
        &["explain", ".."][..],
        &["results", NO_SESSION],
        &["skill", "call", "nosuchskill"],
    ] {
        let finished = world.run(arguments).expect(2);
        let line = finished.stderr.lines().find(|line| line.starts_with("[error] "));
        assert!(
            line.is_some_and(|line| line.len() > "[error] ".len()),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn error_invalid_key() {
    let (_server, told) = refusing(Wire::Router, "401 Unauthorized", json!({"error": {"message": "no"}}));
    has(
        &told,
        "Authentication failed: Invalid API key",
        &["run `tool init` again", "ROUTER_API_KEY"],
    );
    assert_eq!(told.code, "authentication-failed");
}

/// Provokes it without its waits: the provider asks for none. Gives the hint.
pub(super) fn rate_limit() -> String {
    let mut refusal = ScriptedStatus::new(429, json!({"error": {"message": "slow down"}}));
    refusal.headers.insert("retry-after".into(), "0".into());
    let world = World::repeating(SHOP, Round::new([ServerStep::Status(refusal)]));
    let told = told_everywhere(&world.home, world.root(), ".");
    has(
        &told,
        "Rate limit exceeded: 429 Too Many Requests",
        &["wait 60 seconds", "plan"],
    );
    let tries = world
        .server
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(tries % 3, 0, "each of the three was tried as often: {tries}");
    assert!(tries > 3, "it is tried again before it fails");
    told.hint
}

#[test]
fn error_rate_limit() {
    rate_limit();
}

#[test]
fn error_port_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let (home, repository) = (Home::offline(), folder(SHOP));
    for arguments in [&["service", "start"][..], &["service", "restart"], &["explain", "."]] {
        let mut command = home.tool(repository.path(), arguments);
        let command = command.env("TOOL_BACKEND_PORT", port.to_string());
        let (message, hint) = printed(&finish(command.output().expect("the binary runs")), 3);
        assert_eq!(message, format!("Failed to start backend: Port {port} already in use"));
        holds(&hint, &["free the port", "TOOL_BACKEND_PORT"]);
    }
}

/// Not started; killed between two commands; killed while a session runs.
#[test]
fn error_backend_down() {
    let world = World::repeating(
        SHOP,
        Round::new([ServerStep::Text("It counts".into()), ServerStep::Gate("never".into())]),
    );
    let expect = |finished: &Finished| {
        let (message, hint) = printed(finished, 3);
        assert_eq!(message, "Backend not responding: Connection refused");
        holds(&hint, &["`tool service start`"]);
    };
    expect(&world.run(&["service", "status"]));
    world.home.serve();
    kill(&world);
    expect(&world.run(&["service", "status"]));

    let mut command = world.home.tool(world.root(), &["explain", "."]);
    let command = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut first = [0; 9];
    std::io::Read::read_exact(child.stdout.as_mut().expect("it is piped"), &mut first).expect("the first words");
    assert_eq!(&first, b"It counts");
    kill(&world);
    expect(&finish(child.wait_with_output().expect("it ends")));
}

/// The folder of the logs cannot be made, or the sessions cannot be opened.
#[test]
fn error_backend_start_failure() {
    for name in ["logs", "sessions"] {
        let (home, repository) = (Home::offline(), folder(SHOP));
        std::fs::write(home.path().join(name), "in the way").expect("the folder is writable");
        for arguments in [&["service", "start"][..], &["explain", "."]] {
            let (message, hint) = printed(&home.run(repository.path(), arguments), 3);
            assert_eq!(message, "Failed to start backend service");
            holds(&hint, &["backend.log", "`tool doctor`"]);
        }
    }
}

/// On the terminal with exit code 2, over HTTP with the same words.
#[track_caller]
fn configuration(home: &Home, message: &str, remedy: &str) {
    let repository = folder(SHOP);
    for arguments in [&["explain", "."][..], &["refactor", "shop"]] {
        let (told, hint) = printed(&home.run(repository.path(), arguments), 2);
        assert_eq!(told, message);
        holds(&hint, &[remedy]);
    }
    let address = home.serve();
    let body = json!({"operation": "explain", "target": ".", "repo_path": repository.path()});
    for path in ["/execute", "/stream"] {
        let answer = http::post(&address, path, &body).expect(503).json();
        let told = Told::of(&answer["error"]);
        has(&told, message, &[remedy]);
        assert!(told.code.starts_with("config-"), "{told:?}");
        told.on_terminal(&home.run(repository.path(), &["explain", "."]), 2);
    }
}

#[test]
fn error_config_missing() {
    let message = "Configuration file not found: ~/.tool/config.toml";
    configuration(&Home::empty(), message, "`tool init`");
    // The hint holds the real path; the message is the specification's, wherever TOOL_HOME points.
    let home = Home::empty();
    let (_, hint) = printed(&home.run(Path::new("/"), &["explain", "/nosuchfile"]), 2);
    holds(&hint, &[&home.path().join("config.toml").to_string_lossy()]);
}

#[test]
fn error_config_invalid() {
    let home = Home::configured("[providers.local]\nenabled = yes\n");
    configuration(&home, "Failed to parse config: Invalid TOML syntax", "line 2");
}

/// A daemon whose time for scans is over at once: what it is asked to scan has more than its root.
fn daemon_without_time(home: &Home) -> String {
    home.serve_with(&[("TOOL_TEST_SCAN_MS", "0")])
}

/// POST /scan answers 504 in the specification's words; an operation goes on with what was found, and says so.
pub(super) fn scan_timeout() {
    let message = "Repository scan timeout: exceeded 60s";
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    let address = daemon_without_time(&world.home);
    let answer = http::post(&address, "/scan", &json!({"repo_path": world.repo_path()})).expect(504);
    let told = Told::of(&answer.json()["error"]);
    has(&told, message, &["target specific files"]);
    assert_eq!(told.code, "scan-timeout");
    let finished = world.run(&["explain", "."]).expect(0);
    holds(&finished.stdout, &["It counts crates (app.py:1)."]);
    holds(
        &finished.stderr,
        &["The repository scan was cut short after 60 s; 4 files were considered"],
    );
    let deep = folder(&[("deep/app.py", "x = 1\n")]);
    assert_eq!(
        told_everywhere(&world.home, deep.path(), "."),
        told,
        "nothing was found in time"
    );
}

#[test]
fn error_scan_timeout() {
    scan_timeout();
}

#[test]
fn error_empty_repository() {
    let home = Home::offline();
    let empty = folder(&[]);
    let told = told_everywhere(&home, empty.path(), ".");
    has(&told, "No files found in repository", &["check the directory"]);
    let ignored = folder(&[
        (".gitignore", "*.py\n.gitignore\n"),
        ("a.py", ""),
        ("node_modules/x.js", ""),
    ]);
    assert_eq!(told_everywhere(&home, ignored.path(), "."), told);
    let answer = http::post(&home.serve(), "/scan", &json!({"repo_path": empty.path()}));
    assert_eq!((answer.status, Told::of(&answer.json()["error"])), (404, told));
}

/// Something that has no row of its own: the backend dies, and the next one finds the session.
#[test]
fn error_operation_failure() {
    let world = World::repeating(
        SHOP,
        Round::new([ServerStep::Text("It counts".into()), ServerStep::Gate("never".into())]),
    );
    for operation in ["explain", "architect"] {
        let address = world.home.serve();
        let start = http::post(&address, "/execute", &world.body(operation, "."))
            .expect(200)
            .json();
        let id = start["session_id"].as_str().expect("an identifier");
        Connection::send(&address, "GET", &format!("/stream?session_id={id}"), &[], None).until("It counts");
        let_the_journal_be_written();
        kill(&world);
        let address = world.home.serve();
        let events = http::get(&address, &format!("/stream?session_id={id}"))
            .expect(200)
            .events();
        let told = Told::of(events.last().expect("events"));
        has(
            &told,
            &format!("Operation failed: {operation} encountered an error"),
            &["run it again"],
        );
        let result = http::get(&address, &format!("/results/{id}")).json();
        assert_eq!(Told::of(&result["error"]), told);
        told.on_terminal(&world.run(&["results", id]), 1);
        holds(
            &report(world.root(), "session_latest.md"),
            &[&told.message, "It counts"],
        );
    }
}

/// At most 50 ms of a session are lost with its daemon.
pub(super) fn let_the_journal_be_written() {
    std::thread::sleep(Duration::from_millis(150));
}

#[test]
fn error_target_missing() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let (root, target) = (repository.path(), "shop/nosuchfile.py");
    // On the terminal a slip of the hand is no session; over HTTP the stream says the same.
    let (message, hint) = printed(&home.run(root, &["explain", target]), 2);
    assert_eq!(message, "File not found: shop/nosuchfile.py");
    holds(&hint, &["relative to the repository root"]);
    assert!(!root.join("session-reports").exists());
    let address = home.serve();
    assert_eq!(
        http::get(&address, "/history").expect(200).json()["sessions"],
        json!([])
    );
    let body = json!({"operation": "explain", "target": target, "repo_path": root});
    let start = http::post(&address, "/execute", &body).expect(200).json();
    let id = start["session_id"].as_str().expect("an identifier");
    let events = http::get(&address, &format!("/stream?session_id={id}"))
        .expect(200)
        .events();
    let told = Told::of(events.last().expect("events"));
    assert_eq!((told.message, told.hint), (message, hint));
}

/// Provokes it on the hosted provider's own wire. Gives the message.
pub(super) fn context_too_long() -> String {
    let said = "prompt is too long: 212345 tokens > 200000 maximum";
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
    let (server, told) = refusing(Wire::Hosted, "400 Bad Request", body);
    holds(&told.hint, &["target fewer or smaller files"]);
    assert_eq!(told.code, "context-length-exceeded");
    let asked = server
        .requests()
        .iter()
        .filter(|request| request.starts_with("POST /v1/messages"))
        .count();
    assert_eq!(asked, 3, "the same request is not sent again");
    told.message
}

#[test]
fn error_context_too_long() {
    assert_eq!(context_too_long(), "Context length exceeded: 200000 tokens");
}

#[test]
fn error_local_server_down() {
    let address = format!("127.0.0.1:{}", free_port());
    let (home, repository) = (
        Home::configured(&Wire::Local.config(&format!("http://{address}"))),
        folder(SHOP),
    );
    let told = told_everywhere(&home, repository.path(), ".");
    has(
        &told,
        &format!("Connection refused: {address}"),
        &["start the local model server"],
    );
}

#[test]
fn error_unknown_model() {
    let body = json!({"error": {"message": "scripted is not a valid model ID", "code": 400}});
    let (_server, told) = refusing(Wire::Router, "400 Bad Request", body);
    has(&told, "Model not found: scripted", &["`model`", "tool init"]);
}

/// A folder with a Python that says what a real one would of itself: new enough, with its packages in `packages`.
fn python(version: &str, packages: &Path) -> TempDir {
    let script = format!("#!/bin/sh\necho {version}\necho '{}'\n", packages.display());
    let folder = folder(&[("python3", &script)]);
    restrict(folder.path(), 0o755);
    restrict(&folder.path().join("python3"), 0o755);
    folder
}

/// The packages of the machine, and those of a virtual environment that belongs to another user.
#[test]
fn error_install_permission() {
    let machine = folder(&[("site-packages/.keep", "")]);
    let packages = machine.path().join("site-packages");
    restrict(machine.path(), 0o755);
    restrict(&packages, 0o555);
    install_is_denied(&[("requirements.txt", "six\n")], &packages, &python("3.12", &packages));

    let cfg = (".venv/pyvenv.cfg", "version = 3.12.1\n");
    let files = [
        ("requirements.txt", "six\n"),
        cfg,
        (".venv/bin/python", "#!/bin/sh\n"),
        (VENV_PACKAGES, ""),
    ];
    install_is_denied(&files, Path::new(VENV_PACKAGES), &python("3.12", &packages));
    restrict(&packages, 0o755);
}

const VENV_PACKAGES: &str = ".venv/lib/python3.12/site-packages/pip/__init__.py";

#[track_caller]
fn install_is_denied(files: &[(&str, &str)], place: &Path, python: &TempDir) {
    let (home, repository) = (Home::offline(), folder(files));
    let root = repository.path();
    restrict(root, 0o755);
    // Of the file in an environment's packages, the folder of packages; of an absolute place, itself.
    let place = if place.is_absolute() {
        place.to_owned()
    } else {
        root.join(place).ancestors().nth(2).expect("it lies deep").to_owned()
    };
    if place.starts_with(root) {
        restrict(&root.join(".venv/bin/python"), 0o755);
        restrict(&place, 0o555);
    }
    let names = json!({"names": ["six"]});
    let text = names.to_string();
    let mut command = home.tool(root, &["skill", "call", "install_package", &text, "--allow", "install"]);
    command.env("PATH", python.path());
    let mut command = unprivileged(&home, &command);
    let told = skill_told(&home, root, &mut command, ("install_package", names, "install"));
    restrict(&place, 0o755);
    has(
        &told,
        &format!("Permission denied: {}", place.display()),
        &["install locally", "python3 -m venv"],
    );
}

/// A PATH without a Python.
pub(super) fn python_missing() {
    let (home, repository) = (Home::offline(), folder(&[("test_a.py", "def test_a():\n    pass\n")]));
    let nothing = tempfile::tempdir().expect("a temporary folder");
    let mut command = home.tool(
        repository.path(),
        &["skill", "call", "run_tests", "--allow", "run-process"],
    );
    command.env("PATH", nothing.path());
    let told = skill_told(
        &home,
        repository.path(),
        &mut command,
        ("run_tests", json!({}), "run-process"),
    );
    has(
        &told,
        "Python 3.10+ required but not found",
        &["install Python 3.10 or newer"],
    );
}

/// A PATH whose Python is too old.
pub(super) fn python_too_old() {
    let (home, repository) = (Home::offline(), folder(&[("test_a.py", "def test_a():\n    pass\n")]));
    let old = python("3.9", Path::new("/nowhere"));
    let mut command = home.tool(
        repository.path(),
        &["skill", "call", "run_tests", "--allow", "run-process"],
    );
    command.env("PATH", old.path());
    let told = skill_told(
        &home,
        repository.path(),
        &mut command,
        ("run_tests", json!({}), "run-process"),
    );
    has(&told, "Python 3.10+ required but not found", &["is 3.9"]);
}

#[test]
fn error_python_missing() {
    python_missing();
}

/// pytest itself is missing, and a module that the tests need is.
#[test]
fn error_module_missing() {
    let (home, repository) = (Home::offline(), folder(&[("test_a.py", "import requests_of_nobody\n")]));
    let root = repository.path();
    environment(root);
    let mut command = home.tool(root, &["skill", "call", "run_tests", "--allow", "run-process"]);
    let told = skill_told(&home, root, &mut command, ("run_tests", json!({}), "run-process"));
    has(&told, "ModuleNotFoundError: No module named pytest", &["install"]);
    std::fs::remove_dir_all(root.join(".venv")).expect("it is ours");
    command.env("VIRTUAL_ENV", fixture_path("click-8.1.8").join(".venv"));
    let ran = finish(command.output().expect("the binary runs")).expect(1);
    holds(
        &ran.stdout,
        &["ModuleNotFoundError: No module named requests_of_nobody\n", "install"],
    );
}

/// The working directory may not be written: the answer is there all the same, and the error beside it.
#[test]
fn error_log_write_failure() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    restrict(world.root(), 0o555);
    give(world.root());
    for arguments in [&["explain", "."][..], &["explain", ".", "--quiet"]] {
        let command = world.home.tool(world.root(), arguments);
        let mut command = unprivileged(&world.home, &command);
        let finished = finish(command.output().expect("the binary runs"));
        let (message, hint) = printed(&finished, 0);
        assert_eq!(message, "Permission denied: session-reports/");
        holds(&hint, &["create the folder `session-reports`"]);
        holds(&finished.stdout, &["It counts crates (app.py:1)."]);
    }
    let body = world.body("explain", ".").to_string();
    let headers = with_token(&world.home);
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let address = world.home.serve();
    let stream = Connection::send(&address, "POST", "/stream", &headers, Some(&body)).finish();
    let events = stream.expect(200).events();
    let told = events
        .iter()
        .find(|event| event["code"] == "report-denied")
        .expect("it is told in the stream");
    assert_eq!(
        (&told["type"], &told["message"]),
        (&"notice".into(), &"Permission denied: session-reports/".into())
    );
    assert_eq!(events.last().expect("events")["type"], "complete");
    restrict(world.root(), 0o755);
    assert!(!world.root().join("session-reports").exists());
}

#[test]
fn error_event_of_a_failed_operation() {
    let error = failed().of_type("error");
    assert_eq!(error.len(), 1);
    assert_eq!(Told::of(&error[0]), Told::of(&failed().result.json()["error"]));
    let architecture = failed().architecture.events();
    assert_eq!(architecture.last().map(|event| &event["type"]), Some(&"error".into()));
}

/// One body for all errors, and the status that belongs to each code.
#[test]
fn error_http_answers() {
    let world = World::new(SHOP, []);
    let address = world.home.serve();
    let repo_path = world.repo_path();
    let explain = |more: Value| {
        let mut body = json!({"operation": "explain", "target": ".", "repo_path": repo_path});
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        body
    };
    let large = "x".repeat(2 * 1024 * 1024);
    for (answer, status, code) in [
        (http::post(&address, "/scan", &json!({})), 400, "invalid-request"),
        (
            http::post(&address, "/execute", &explain(json!({"nosuch": 1}))),
            400,
            "invalid-request",
        ),
        (http::get(&address, "/nosuchroute"), 404, "not-found"),
        (http::get(&address, "/results/nosuchsession"), 404, "not-found"),
        (http::ask(&address, "DELETE", "/scan", &[]), 405, "method-not-allowed"),
        (
            http::post(&address, "/execute", &explain(json!({"provider": "router"}))),
            409,
            "provider-mismatch",
        ),
        (
            http::post(&address, "/execute", &explain(json!({"task": large}))),
            413,
            "body-too-large",
        ),
        (
            http::ask(&address, "POST", "/scan", &[("content-type", "text/plain")]),
            415,
            "unsupported-media-type",
        ),
        (
            http::ask(&address, "GET", "/models", &[("origin", "http://evil.example")]),
            403,
            "origin-not-allowed",
        ),
        (
            http::ask(&address, "GET", "/models", &[("host", "evil.example")]),
            403,
            "host-not-allowed",
        ),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code);
        assert!(error["message"].is_string(), "{error}");
    }
    documents_say(&["**Errors.** `{\"error\": {\"code\", \"message\", \"hint\"}}` with 400"]);
}
