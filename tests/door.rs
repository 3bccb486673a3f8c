//! Callers of the daemon's port: another user of the machine, another machine, and requests that are too long or
//! incomplete; and the access log's record of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::conformance::http;
use crate::conformance::world::free_port;
use crate::support::{Home, finish, folder, holds, until};

/// The user `nobody`; any that is not ours would do.
const NOBODY: u32 = 65_534;

/// A script of bash as another user of this machine. Root becomes one; other users need permission, by `sudo` or by
/// identities of their own in `/etc/subuid`, and a machine that has neither cannot show what this is about.
fn as_another_user(script: &str, arguments: &[&str]) -> Command {
    let mut command = another_user();
    command
        .args(["bash", "-euc", script, "bash"])
        .args(arguments)
        .current_dir("/");
    command
}

/// A command that runs the program of its arguments as another user. It may clear the environment.
#[expect(clippy::disallowed_methods, reason = "another user is another process")]
fn another_user() -> Command {
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("env");
        command.uid(NOBODY).gid(NOBODY);
        return command;
    }
    let works = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let command = command
            .args(arguments)
            .arg("true")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let ways: [(&str, &[&str]); 2] = [
        ("sudo", &["-n", "-u", "nobody"]),
        (
            "unshare",
            &[
                "--map-auto",
                "--map-root-user",
                "setpriv",
                "--reuid=1",
                "--regid=1",
                "--clear-groups",
            ],
        ),
    ];
    let way = ways.into_iter().find(|(program, arguments)| works(program, arguments));
    let (program, arguments) = way.expect(
        "no other user to become: run the tests as root, with `sudo` that asks for no password, or with identities in \
         /etc/subuid",
    );
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A folder that others may enter, with the binary in it.
fn public() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let tool = folder.path().join("tool");
    fs::copy(env!("CARGO_BIN_EXE_tool"), &tool).expect("the folder is writable");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("it is ours");
    (folder, tool)
}

/// Returns a server's answer to a request of another user.
fn asked_by_another_user(port: &str, request: &str) -> String {
    let script = "exec 3<>\"/dev/tcp/127.0.0.1/$1\"; printf %s \"$2\" >&3; cat <&3";
    let output = as_another_user(script, &[port, request]).output();
    finish(output.expect("there is bash")).expect(0).stdout
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').expect("an address has a port").1
}

#[test]
fn another_user_of_the_machine_gets_nothing_without_the_token() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    let address = home.serve();
    let body = json!({"operation": "explain", "repo_path": repository.path()}).to_string();
    let head = format!("host: 127.0.0.1:{}\r\nconnection: close\r\n", port(&address));
    let post = format!(
        "{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = |request: String| asked_by_another_user(port(&address), &request);
    for answer in [
        ask(format!("GET /tasks HTTP/1.1\r\n{head}\r\n")),
        ask(format!("GET /api/stream/x HTTP/1.1\r\n{head}\r\n")),
        ask(format!("GET /openapi.json HTTP/1.1\r\n{head}\r\n")),
        ask(format!("POST /execute HTTP/1.1\r\n{post}")),
        ask(format!("POST /stream HTTP/1.1\r\n{post}")),
        ask(format!("GET /mcp?root=/ HTTP/1.1\r\n{head}\r\n")),
        ask(format!("POST /mcp?root=/ HTTP/1.1\r\n{post}")),
        ask(format!("POST /mcp/connect HTTP/1.1\r\n{post}")),
        ask(format!(
            "GET /tasks HTTP/1.1\r\nauthorization: Bearer wrong\r\n{head}\r\n"
        )),
    ] {
        assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{answer}");
        holds(&answer, &["\"code\":\"unauthorized\"", "www-authenticate: Bearer"]);
    }
    let token = fs::read_to_string(home.path().join("token")).expect("the daemon has one");
    let with_token = ask(format!(
        "GET /tasks HTTP/1.1\r\nauthorization: Bearer {}\r\n{head}\r\n",
        token.trim()
    ));
    assert!(with_token.starts_with("HTTP/1.1 200 OK\r\n"), "{with_token}");
    // The owner's requests with the same text succeed, so the user makes the difference.
    http::get(&address, "/tasks").expect(200);
    assert_eq!(
        http::get(&address, "/tasks").json()["tasks"],
        json!([]),
        "nothing was started"
    );

    let place = home.path().join("token");
    let read = as_another_user("cat \"$1\"", &[place.to_str().expect("it is UTF-8")]).output();
    let output = read.expect("there is bash");
    assert_eq!(
        (finish(output).stdout.as_str(), token.is_empty()),
        ("", false),
        "the token is the owner's alone"
    );
    let log = fs::read_to_string(home.path().join("logs/access.log")).expect("it is there");
    assert_eq!(log.matches(" code=unauthorized").count(), 9, "{log}");
}

/// A request of an operation; `connection` says what becomes of the connection.
fn execute_request(connection: &str, address: &str, body: &str) -> String {
    format!(
        "POST /execute HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: {connection}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        port(address),
        body.len()
    )
}

/// Asks for an operation as a program of the same user that another program confines; gives the answer.
#[expect(clippy::disallowed_methods, reason = "a confined program is another process")]
fn asked_by_a_confined_program(confined_by: &[&str], address: &str, body: &str) -> String {
    let script = "exec 3<>\"/dev/tcp/127.0.0.1/$1\"; printf %s \"$2\" >&3; cat <&3";
    let request = execute_request("close", address, body);
    let mut command = Command::new(confined_by[0]);
    command
        .args(&confined_by[1..])
        .args(["bash", "-euc", script, "bash", port(address), &request]);
    finish(command.output().expect("it is there")).expect(0).stdout
}

/// A shell of the user asks over a connection; then a confined program, which inherits it, asks over it again.
#[test]
#[expect(clippy::disallowed_methods, reason = "a confined program is another process")]
fn a_connection_that_a_confined_program_inherits_changes_nothing() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    let address = home.serve();
    let body = json!({"operation": "refactor", "target": "app.py", "repo_path": repository.path()}).to_string();
    // The status line is the answer's first: the shell was looked at then.
    let script = "exec 3<>\"/dev/tcp/127.0.0.1/$1\"; printf %s \"$2\" >&3; read -r status <&3; echo \"$status\"
        exec unshare -U -r bash -euc 'printf %s \"$0\" >&3; cat <&3' \"$3\"";
    let requests = ["keep-alive", "close"].map(|connection| execute_request(connection, &address, &body));
    let mut command = Command::new("bash");
    command.args(["-euc", script, "bash", port(&address), &requests[0], &requests[1]]);
    let answers = finish(command.output().expect("there is a shell")).expect(0).stdout;
    assert!(!answers.starts_with("HTTP/1.1 401"), "{answers}");
    holds(
        &answers,
        &["HTTP/1.1 401 Unauthorized", "does more than read, and needs the token"],
    );
}

/// Flatpak, rootless containers with the host's network, and programs under seccomp or Landlock are such programs.
#[test]
fn a_confined_program_of_the_same_user_changes_nothing_without_the_token() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    let address = home.serve();
    let body = |operation: &str| json!({"operation": operation, "target": "app.py", "repo_path": repository.path()});
    for confined_by in [
        &["unshare", "-U", "-r", "-m"][..],
        &["unshare", "-U", "-r", "-p", "-f"],
        &["unshare", "-U", "-r"],
        &["setpriv", "--no-new-privs"],
    ] {
        for operation in ["refactor", "test-gen"] {
            let answer = asked_by_a_confined_program(confined_by, &address, &body(operation).to_string());
            assert!(
                answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"),
                "{confined_by:?}: {answer}"
            );
            holds(
                &answer,
                &[
                    "does more than read, and needs the token",
                    "Authorization: Bearer TOKEN",
                ],
            );
        }
        let answer = asked_by_a_confined_program(confined_by, &address, &body("explain").to_string());
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{confined_by:?}: {answer}");
    }
    // The analyst behind this server only explains: a model is missing, and no credential.
    for operation in ["refactor", "test-gen"] {
        let answer = http::post(&address, "/execute", &body(operation));
        assert_ne!(answer.status, 401, "{}", answer.body);
    }
    http::post(&address, "/execute", &body("explain")).expect(200);
    let log = fs::read_to_string(home.path().join("logs/access.log")).expect("it is there");
    assert_eq!(log.matches(" status=401 ").count(), 8, "{log}");
    assert!(log.contains(" caller=own-namespaces "), "{log}");
}

/// Sends a request to a Unix socket and prints the answer, or the error.
const ASK_OVER_UNIX: &str = "
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    try:
        client.connect(sys.argv[1])
        client.sendall(b'GET /tasks HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n')
        print(client.recv(4096))
    except OSError as error:
        print(type(error).__name__)
";

fn ask_over_unix(command: &mut Command, socket: &Path) -> String {
    let command = command
        .args(["python3", "-I", "-c", ASK_OVER_UNIX])
        .arg(socket)
        .current_dir("/");
    finish(command.output().expect("there is Python")).expect(0).stdout
}

/// The mode of the socket keeps other users out. Where it does not, the check of the client's user does.
#[test]
fn another_user_of_the_machine_gets_nothing_over_the_socket() {
    let home = Home::offline();
    home.serve();
    let place = home.path().join("backend.sock");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    assert_eq!(ask_over_unix(&mut another_user(), &place), "PermissionError\n");
    mode(home.path(), 0o755);
    assert_eq!(ask_over_unix(&mut another_user(), &place), "PermissionError\n");
    mode(&place, 0o666);
    let answer = ask_over_unix(&mut another_user(), &place);
    assert!(
        ["b''\n", "ConnectionResetError\n", "BrokenPipeError\n"].contains(&answer.as_str()),
        "{answer}"
    );
    let log = fs::read_to_string(home.path().join("logs/backend.log")).expect("it is there");
    holds(&log, &["another user's connection to backend.sock was dropped uid="]);
    let access = fs::read_to_string(home.path().join("logs/access.log")).expect("it is there");
    assert!(!access.contains("GET /tasks"), "{access}");
    #[expect(clippy::disallowed_methods, reason = "the owner asks the same")]
    let answer = ask_over_unix(&mut Command::new("env"), &place);
    assert!(answer.starts_with("b'HTTP/1.1 200 OK"), "{answer}");
}

/// Listens on a Unix socket that every user may use, and prints the bytes that arrive.
const LISTEN_ON_UNIX: &str = "
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
server.listen()
print('ready', flush=True)
while True:
    connection, _ = server.accept()
    connection.settimeout(10)
    print(connection.recv(4096), flush=True)
";

/// Another user could write to the home for a while, and listens at the path of the backend's socket.
#[test]
fn commands_send_nothing_to_a_socket_of_another_user() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    home.serve();
    let (pid, place) = (home.pid(), home.path().join("backend.sock"));
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    fs::remove_file(&place).expect("it is there");
    let mut command = another_user();
    let command = command
        .args(["python3", "-I", "-c", LISTEN_ON_UNIX])
        .arg(&place)
        .current_dir("/");
    let mut stranger = command.stdout(Stdio::piped()).spawn().expect("there is Python");
    let mut heard = BufReader::new(stranger.stdout.take().expect("it is piped")).lines();
    assert_eq!(heard.next().expect("it speaks").expect("text"), "ready");
    let said = format!(
        "[error] Other users may write to `{0}` (mode 777)\nhint: run `chmod go-w {0}`",
        home.path().display()
    );
    for arguments in [
        &["history"][..],
        &["service", "start"],
        &["service", "status"],
        &["explain", "."],
    ] {
        holds(&home.run(repository.path(), arguments).expect(3).stderr, &[&said]);
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let commands = [
        &["history"][..],
        &["service", "status"],
        &["service", "stop"],
        &["explain", "."],
    ];
    for arguments in commands {
        let refused = home.run(repository.path(), arguments).expect(3);
        let said = format!("[error] `{}` is served by another user (uid ", place.display());
        holds(&refused.stderr, &[&said, "); nothing was sent to it\nhint: make "]);
        assert_eq!(heard.next().expect("it speaks").expect("text"), "b''", "{arguments:?}");
    }
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    stranger.kill().expect("it is ours");
    stranger.wait().expect("it ends");
}

/// A daemon of another user, which ends with this.
struct Foreign {
    child: Child,
    home: String,
}

impl Foreign {
    fn start(tool: &Path, port: u16) -> Self {
        let script = "home=$(mktemp -d); chmod 755 \"$home\"
             export HOME=$home TOOL_HOME=$home/.tool TOOL_BACKEND_PORT=$2
             \"$1\" init --offline >&2; \"$1\" service start >&2; chmod 755 \"$TOOL_HOME\"; echo \"$TOOL_HOME\"
             read -r _ || true; \"$1\" service stop >&2; rm -rf \"$home\"";
        let tool = tool.to_str().expect("it is UTF-8");
        let mut command = as_another_user(script, &[tool, &port.to_string()]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("there is bash");
        let mut home = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut home)
            .expect("it says where its home is");
        assert!(home.starts_with('/'), "the other user's daemon did not start");
        Self {
            child,
            home: home.trim().to_owned(),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn the_daemon_of_another_user_is_neither_used_nor_mistaken_for_ones_own() {
    let (_folder, tool) = public();
    let taken = free_port();
    let foreign = Foreign::start(&tool, taken);
    let home = Home::offline();
    let at_its_port = |arguments: &[&str]| {
        let mut command = home.tool(Path::new("/"), arguments);
        finish(
            command
                .env("TOOL_BACKEND_PORT", taken.to_string())
                .output()
                .expect("the binary runs"),
        )
    };
    let refused = at_its_port(&["service", "start"]).expect(3);
    let said = format!("[error] Failed to start backend: Port {taken} already in use\nhint: only another user (uid ");
    holds(&refused.stderr, &[&said, "`tool init --port N`, or TOOL_BACKEND_PORT"]);
    holds(&at_its_port(&["doctor"]).expect(1).stdout, &["only another user (uid "]);
    http::get(&format!("http://127.0.0.1:{taken}"), "/tasks").expect(401);

    for arguments in [
        &["service", "start"][..],
        &["service", "stop"],
        &["service", "status"],
        &["history"],
    ] {
        let mut command = home.tool(Path::new("/"), arguments);
        let refused = finish(
            command
                .env("TOOL_HOME", &foreign.home)
                .output()
                .expect("the binary runs"),
        )
        .expect(3);
        let said = format!("[error] `{}` belongs to another user (uid ", foreign.home);
        holds(&refused.stderr, &[&said, "hint: set TOOL_HOME to a folder of yours"]);
    }
    // It runs on, undisturbed.
    http::get(&format!("http://127.0.0.1:{taken}"), "/tasks").expect(401);
}

const ANALYST: &str = "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n";

#[test]
fn on_another_address_everybody_needs_the_token_and_that_is_said() {
    let home = Home::configured(&format!("{ANALYST}[server]\naddress = \"0.0.0.0\"\n"));
    let started = home.run(Path::new("/"), &["service", "start"]).expect(0);
    let said = "[warning] The backend listens on 0.0.0.0:";
    holds(
        &started.stderr,
        &[said, "nothing is encrypted, and every request needs the token"],
    );
    let port = home.record()["port"].as_u64().expect("a port");
    let address = format!("http://127.0.0.1:{port}");
    http::get(&address, "/tasks").expect(401);
    let token = fs::read_to_string(home.path().join("token")).expect("the daemon has one");
    let bearer = format!("Bearer {}", token.trim());
    http::ask(&address, "GET", "/tasks", &[("authorization", &bearer)]).expect(200);
    let elsewhere = [("authorization", bearer.as_str()), ("host", "evil.example")];
    http::ask(&address, "GET", "/tasks", &elsewhere).expect(403);
    let again = home.run(Path::new("/"), &["history"]).expect(0);
    assert!(!again.stderr.contains("listens"), "it is said once: {}", again.stderr);
    let status = home.run(Path::new("/"), &["service", "status"]).expect(0);
    holds(&status.stdout, &["of 0.0.0.0, open to other machines"]);
    let doctor = home.run(Path::new("/"), &["doctor"]);
    holds(&doctor.stdout, &["of 0.0.0.0, where other machines may reach it"]);
    let log = fs::read_to_string(home.path().join("logs/backend.log")).expect("it is there");
    holds(&log, &["other machines may reach this: every request needs the token"]);
}

#[test]
fn another_loopback_address_is_like_the_first_and_one_of_another_machine_is_refused() {
    let home = Home::configured(&format!("{ANALYST}[server]\naddress = \"127.0.0.2\"\n"));
    let started = home.run(Path::new("/"), &["service", "start"]).expect(0);
    assert!(!started.stderr.contains("[warning]"), "{}", started.stderr);
    let address = format!("http://127.0.0.2:{}", home.record()["port"]);
    http::get(&address, "/tasks").expect(200);
    let home = Home::configured(&format!("{ANALYST}[server]\naddress = \"192.0.2.1\"\n"));
    let refused = home.run(Path::new("/"), &["service", "start"]).expect(3);
    holds(
        &refused.stderr,
        &["this machine has no address 192.0.2.1: mend `address` of [server]"],
    );
    let wrong = Home::configured(&format!("{ANALYST}[server]\naddress = \"localhost\"\n"));
    holds(
        &wrong.run(Path::new("/"), &["config"]).expect(2).stderr,
        &["Failed to parse config", "address"],
    );
}

/// Returns a server's answer to bytes, until it closes.
#[expect(clippy::disallowed_methods, reason = "the test is the client")]
fn told(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).expect("somebody listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out can be set");
    // One that has enough closes before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn what_is_no_request_or_too_large_a_one_is_answered_and_logged() {
    let home = Home::offline();
    let address = home.serve();
    let head = format!(
        "GET /tasks HTTP/1.1\r\nhost: {}\r\n",
        address.trim_start_matches("http://")
    );
    let many: String = (0..200).map(|index| format!("x-{index}: 1\r\n")).collect();
    let long = "x".repeat(70_000);
    for (bytes, status, code) in [
        (format!("{head}{many}\r\n"), "431", Some("head-too-large")),
        (format!("{head}x: {long}\r\n\r\n"), "431", Some("head-too-large")),
        (
            "\x16\x03\x01\x02\x00\x01\x00\x01\x1b[2J\r\n\r\n".to_owned(),
            "400",
            Some("not-http"),
        ),
        (format!("{head}content-length: x\r\n\r\n"), "400", Some("not-http")),
        (
            format!("{head}host: localhost\r\nconnection: close\r\n\r\n"),
            "403",
            None,
        ),
        (format!("{head}connection: close\r\n\r\n"), "200", None),
    ] {
        let answer = told(&address, bytes.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        if let Some(code) = code {
            let line = format!("Z - - status={status} bytes=0 ms=0 caller=- peer=127.0.0.1:");
            let log = || fs::read_to_string(home.path().join("logs/access.log")).expect("it is there");
            until(code, || {
                log()
                    .lines()
                    .any(|it| it.contains(&line) && it.ends_with(&format!(" code={code}")))
            });
        }
    }
}

#[test]
fn the_access_log_tells_each_request_and_nothing_that_is_secret() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    let address = home.serve();
    let body = json!({"operation": "explain", "repo_path": repository.path(), "task": "a secret task"});
    let stream = http::post(&address, "/stream", &body).expect(200);
    let id = stream.headers["x-session-id"].clone();
    http::get(&address, &format!("/stream?session_id={id}&strict=1")).expect(200);
    http::get(&address, "/tasks?token=s3cret&model=x").expect(400);
    http::ask(
        &address,
        "GET",
        "/a%0aforged%1b%5b2J",
        &[("authorization", "Bearer s3cret")],
    )
    .expect(404);
    http::ask(&address, "GET", "/models", &[("origin", "http://evil.example")]).expect(403);
    let log = || fs::read_to_string(home.path().join("logs/access.log")).expect("it is there");
    until("everything is written", || log().contains("evil.example"));
    let text = log();
    let time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z";
    for form in [
        r"POST /stream status=200 bytes=[1-9]\d+ ms=\d+ caller=own-namespaces peer=127\.0\.0\.1:\d+".to_owned(),
        format!(r"GET /stream\?session_id={id}&strict=1 status=200 bytes=[1-9]\d+ ms=\d+ caller=same-user peer=\S+"),
        r"GET /tasks\?\*&\* status=400 bytes=\d+ ms=\d+ caller=same-user peer=\S+ code=invalid-request".to_owned(),
        r"GET /a%0aforged%1b%5b2J status=404 bytes=\d+ ms=\d+ caller=same-user peer=\S+ code=not-found".to_owned(),
        r"GET /models status=403 bytes=\d+ ms=\d+ caller=- peer=\S+ code=origin-not-allowed origin=http://evil\.example"
            .to_owned(),
        r"GET /api/status status=200 bytes=\d+ ms=\d+ caller=token peer=\S+".to_owned(),
    ] {
        let line = regex::Regex::new(&format!("(?m)^{time} {form}$")).expect("it is a pattern");
        assert!(line.is_match(&text), "{form}\n{text}");
    }
    assert!(!text.contains("s3cret") && !text.contains("a secret task"), "{text}");
    let everything = regex::Regex::new(&format!("^{time} [ -~]+$")).expect("it is a pattern");
    assert!(text.lines().all(|line| everything.is_match(line)), "{text}");
}

#[test]
fn the_access_log_is_bounded() {
    let home = Home::offline();
    fs::create_dir_all(home.path().join("logs")).expect("the folder is writable");
    let place = home.path().join("logs/access.log");
    let full = fs::File::create(&place).expect("the folder is writable");
    full.set_len(tool_core::limits::LOG_BYTES_MAX).expect("there is room");
    let address = home.serve();
    http::get(&address, "/tasks").expect(200);
    let length = |place: &Path| fs::metadata(place).map_or(0, |file| file.len());
    until("the log is a new one", || (1..10_000).contains(&length(&place)));
    assert_eq!(length(&place.with_extension("log.1")), tool_core::limits::LOG_BYTES_MAX);
}

#[test]
fn a_client_of_the_specification_needs_no_credential() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "x = 1\n")]));
    let address = home.serve();
    let curl = |arguments: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "the examples of the specification are for it")]
        let mut command = Command::new("curl");
        let output = command
            .args(["--silent", "--show-error", "--noproxy", "*"])
            .args(arguments)
            .output();
        finish(output.expect("there is curl")).expect(0).stdout
    };
    let json = "content-type: application/json";
    let body = json!({"repo_path": repository.path()}).to_string();
    holds(
        &curl(&["-X", "POST", &format!("{address}/scan"), "-H", json, "-d", &body]),
        &["{\"files\":1,"],
    );
    let body = json!({"operation": "explain", "target": ".", "repo_path": repository.path()}).to_string();
    let start = curl(&["-X", "POST", &format!("{address}/execute"), "-H", json, "-d", &body]);
    let start: serde_json::Value = serde_json::from_str(&start).expect("JSON");
    let id = start["session_id"].as_str().expect("an identifier");
    holds(
        &curl(&["-N", &format!("{address}/stream?session_id={id}")]),
        &["data: {\"type\":\"complete\""],
    );
    holds(
        &curl(&[&format!("{address}/results/{id}")]),
        &["\"status\":\"complete\""],
    );
    holds(
        &curl(&[&format!("{}/models", address.replace("127.0.0.1", "localhost"))]),
        &["\"providers\""],
    );
}
