//! Unusual surroundings: other origins, names that are not UTF-8, no home, no place to write, no room.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::rights::unprivileged;
use crate::support::{Finished, Home, finish, folder, is_alive};

const TOOL: &str = env!("CARGO_BIN_EXE_tool");

#[expect(clippy::disallowed_methods, reason = "the tests are a client")]
fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Runs a script as root of a user and mount namespace of its own, where it may mount what it likes; `$TOOL` is the
/// binary. Of the environment it has the given variables and nothing else.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests run the real binary in another world"
)]
pub(crate) fn in_namespace(script: &str, variables: &[(&str, &Path)]) -> Finished {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc", script])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TOOL", TOOL)
        .env("TOOL_BACKEND_PORT", "0")
        .envs(variables.iter().copied())
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("`unshare` of util-linux is there");
    let finished = finish(output);
    assert!(
        !finished.stderr.starts_with("unshare:"),
        "user namespaces are needed: {}",
        finished.stderr
    );
    finished
}

#[tokio::test]
async fn a_listed_origin_may_ask_everything_and_another_one_nothing() {
    let listed = "http://localhost:5173";
    let config = "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n\
                  [server]\ncors_origins = [\"http://localhost:5173\"]\n";
    let home = Home::configured(config);
    let (address, client) = (home.serve(), client());
    let ask = |method: &str, path: &str, origin: &'static str| {
        let method = method.parse().expect("a method");
        client
            .request(method, format!("{address}{path}"))
            .header("origin", origin)
    };
    let preflight = |path: &str, origin: &'static str, method: &'static str, headers: &'static str| {
        ask("OPTIONS", path, origin)
            .header("access-control-request-method", method)
            .header("access-control-request-headers", headers)
            .header("sec-fetch-site", "cross-site")
    };
    let taken = [
        ("/execute", "POST", "content-type"),
        ("/stream?session_id=x", "GET", "last-event-id"),
        ("/api/sessions/x", "DELETE", "authorization"),
    ];
    for (path, method, wanted) in taken {
        let response = preflight(path, listed, method, wanted).send().await.expect("an answer");
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_lowercase();
        assert_eq!(response.status().as_u16(), 204, "{method} {path}");
        assert_eq!(header("access-control-allow-origin"), listed);
        assert!(
            header("access-control-allow-methods").contains(&method.to_lowercase()),
            "{method} {path}"
        );
        assert!(
            header("access-control-allow-headers").contains(wanted),
            "{method} {path}"
        );
        assert_eq!(header("vary"), "origin");
        assert!(!response.headers().contains_key("access-control-allow-credentials"));
        let refused = preflight(path, "http://localhost:3000", method, wanted)
            .send()
            .await
            .expect("an answer");
        assert_eq!(refused.status().as_u16(), 403, "{method} {path}");
        assert!(!refused.headers().contains_key("access-control-allow-origin"));
    }
    for (method, path, status) in [
        ("GET", "/models", 200),
        ("GET", "/nothing", 404),
        ("PUT", "/execute", 405),
        ("DELETE", "/sessions/x", 404),
    ] {
        let response = ask(method, path, listed).send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_lowercase();
        assert_eq!(
            header("access-control-allow-origin"),
            listed,
            "a page may read errors too"
        );
        assert_eq!(header("vary"), "origin");
        assert_eq!(
            header("access-control-expose-headers"),
            "x-session-id, x-approval-secret, mcp-session-id"
        );
        for origin in ["http://localhost:3000", "null", "http://localhost:5173.evil.example"] {
            let refused = ask(method, path, origin).send().await.expect("an answer");
            assert_eq!(refused.status().as_u16(), 403, "{method} {path} from {origin}");
            assert!(
                !refused.headers().contains_key("access-control-allow-origin"),
                "{origin}"
            );
            let body: Value = serde_json::from_slice(&refused.bytes().await.expect("a body")).expect("JSON");
            assert_eq!(body["error"]["code"], "origin-not-allowed");
        }
    }
}

#[tokio::test]
async fn head_and_options_are_answered_without_a_body_and_at_once() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "x = 1\n")]));
    let (address, client) = (home.serve(), client());
    let run = home.run(repository.path(), &["explain", ".", "--quiet"]).expect(0);
    assert!(!run.stdout.is_empty());
    let history: Value =
        serde_json::from_str(&home.run(Path::new("/"), &["history", "--json"]).expect(0).stdout).expect("JSON");
    let id = history["sessions"][0]["id"].as_str().expect("an identifier").to_owned();
    let status = format!("{address}/api/status");
    let stream = format!("{address}/stream?session_id={id}");
    for (url, content_type) in [(&status, "application/json"), (&stream, "text/event-stream")] {
        let head = client.head(url).send().await.expect("an answer");
        assert_eq!(
            (head.status().as_u16(), &head.headers()["content-type"]),
            (200, &content_type.parse().expect("text"))
        );
        assert!(head.bytes().await.expect("an end").is_empty(), "{url}");
        let options = client
            .request("OPTIONS".parse().expect("a method"), url)
            .send()
            .await
            .expect("an answer");
        assert_eq!(options.status().as_u16(), 204, "{url}");
        assert!(
            options.headers()["allow"].to_str().expect("text").contains("GET"),
            "{url}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_gets_its_answer() {
    let home = Home::offline();
    let (address, client) = (home.serve(), client());
    for length in [1_048_577, 8_000_000] {
        let body = format!("{{\"repo_path\": \"/{}\"}}", "x".repeat(length));
        let request = client
            .post(format!("{address}/scan"))
            .header("content-type", "application/json");
        let response = request
            .body(body)
            .send()
            .await
            .expect("an answer, not a broken connection");
        assert_eq!(response.status().as_u16(), 413, "{length}");
        let body: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
        assert_eq!(body["error"]["code"], "body-too-large");
    }
}

#[test]
fn the_log_is_where_both_documents_say() {
    let home = Home::offline();
    home.serve();
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).expect("it is there");
    let (log, other) = (read("logs/backend.log"), read("backend.log"));
    assert!(
        log.contains("ready pid=") && log.starts_with(&other[..other.len().min(log.len())]),
        "{log}"
    );
}

/// A repository with names that are no text, in every place where a name can stand.
fn unnamed() -> TempDir {
    let repository = folder(&[("app.py", "def main():\n    return 1\n"), ("README.md", "# App\n")]);
    let name = |bytes: &'static [u8]| repository.path().join(OsStr::from_bytes(bytes));
    std::fs::write(name(b"caf\xe9.py"), "x = 1\n").expect("the folder is writable");
    std::fs::write(name(b"\xff\xfe"), "x").expect("the folder is writable");
    std::fs::create_dir(name(b"dir\x80")).expect("the folder is writable");
    std::fs::write(repository.path().join(OsStr::from_bytes(b"dir\x80/in.py")), "y = 2\n").expect("it is writable");
    std::os::unix::fs::symlink(OsStr::from_bytes(b"caf\xe9.py"), name(b"link\xe9")).expect("the folder is writable");
    repository
}

#[tokio::test]
async fn names_that_are_not_utf_8_are_counted_and_told() {
    let (home, repository) = (Home::offline(), unnamed());
    let address = home.serve();
    let body = json!({"repo_path": repository.path()}).to_string();
    let request = client()
        .post(format!("{address}/scan"))
        .header("content-type", "application/json");
    let response = request.body(body).send().await.expect("an answer");
    let scan: Value = serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON");
    assert_eq!((&scan["files"], &scan["not_utf8"]), (&2.into(), &4.into()), "{scan}");

    for (arguments, told) in [
        ("{}", "4 left out (ignored, skipped, hidden or not UTF-8)"),
        ("{\"recursive\": true}", "not listed: 4 names that are not UTF-8"),
    ] {
        let listed = home
            .run(repository.path(), &["skill", "call", "list_files", arguments])
            .expect(0);
        assert!(
            listed.stdout.contains(told) && listed.stdout.contains("app.py"),
            "{}",
            listed.stdout
        );
    }
    let explained = home.run(repository.path(), &["explain", "."]).expect(0);
    let told = "4 files and directories are left out: their names are not UTF-8";
    assert!(explained.stderr.contains(told), "{}", explained.stderr);
    assert!(explained.stdout.contains("app.py"), "{}", explained.stdout);
    for call in [
        ["search_code", "{\"pattern\": \"=\"}"],
        ["find_references", "{\"symbol\": \"main\"}"],
        ["analyze_dependencies", "{}"],
        ["git_diff", "{}"],
    ] {
        let called = home.run(repository.path(), &["skill", "call", call[0], call[1]]);
        assert!(
            called.code <= 1 && !called.stderr.contains("panicked"),
            "{call:?}: {called:?}"
        );
    }
    let log = std::fs::read_to_string(home.path().join("backend.log")).expect("it is there");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_repository_whose_own_path_is_not_utf_8_is_refused_by_name() {
    let (home, place) = (Home::offline(), folder(&[]));
    let root = place.path().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&root).expect("the folder is writable");
    std::fs::write(root.join("a.py"), "x = 1\n").expect("the folder is writable");
    let refused = home.run(&root, &["explain", "."]);
    assert!(refused.code > 0 && refused.stderr.contains("UTF-8"), "{refused:?}");
    assert!(!refused.stderr.contains("panicked"), "{refused:?}");
}

/// A repository, a mount point and what a script needs to know of them.
struct Scene {
    repository: TempDir,
    mount: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            repository: folder(&[("app.py", "def main():\n    return 1\n")]),
            mount: TempDir::new().expect("a temporary folder"),
        }
    }

    fn run(&self, script: &str) -> Finished {
        in_namespace(
            script,
            &[("REPOSITORY", self.repository.path()), ("MOUNT", self.mount.path())],
        )
    }
}

#[test]
fn without_home_root_has_the_home_of_the_user_database() {
    let finished = Scene::new().run(
        "mount -t tmpfs none /root; cd \"$REPOSITORY\"
         $TOOL init --offline; $TOOL service start; $TOOL explain . --quiet | head -n 1; $TOOL service status
         $TOOL service stop; ls /root/.tool/config.toml session-reports/session_latest.md",
    );
    let finished = finished.expect(0);
    for expected in [
        "# .tmp",
        "is running on port",
        "/root/.tool/config.toml",
        "session_latest.md",
    ] {
        assert!(finished.stdout.contains(expected), "{finished:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the tests run the real binary as another user")]
fn a_user_without_any_home_is_told_what_to_set() {
    let user = [
        "--user",
        "--map-user=54321",
        "--map-group=54321",
        TOOL,
        "service",
        "start",
    ];
    let output = Command::new("unshare")
        .args(user)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("`unshare` of util-linux is there");
    let finished = finish(output).expect(2);
    assert!(
        finished
            .stderr
            .contains("[error] Neither TOOL_HOME nor HOME is set\nhint: set TOOL_HOME"),
        "{finished:?}"
    );
}

/// Runs a script in a network namespace without any device that is up, where no TCP connection can be made.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests run the real binary in another world"
)]
fn without_network(home: &Home, directory: &Path, script: &str) -> Finished {
    let known = home.tool(directory, &[]);
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "sh", "-euc", script])
        .current_dir(directory)
        .env_clear()
        .env("TOOL", TOOL)
        .stdin(Stdio::null());
    for (name, value) in known.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let finished = finish(command.output().expect("`unshare` of util-linux is there"));
    assert!(
        !finished.stderr.starts_with("unshare:"),
        "user namespaces are needed: {}",
        finished.stderr
    );
    finished
}

#[test]
fn the_command_line_uses_no_network() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "def main():\n    return 1\n")]));
    home.serve();
    let pid = home.pid();
    let script = "$TOOL service status; $TOOL explain . --quiet; $TOOL skill call read_file '{\"path\": \"app.py\"}'
                  $TOOL history; $TOOL doctor >/dev/null || true; $TOOL mcp </dev/null; $TOOL service stop";
    let finished = without_network(&home, repository.path(), script).expect(0);
    for expected in [
        "is running on port",
        "def main()",
        "  explain    .",
        // The session of `tool mcp` may still be ending.
        "The backend has stopped",
    ] {
        assert!(finished.stdout.contains(expected), "{finished:?}");
    }
    assert!(!is_alive(pid), "it was the one outside");
}

/// The backend binds its port without a network, too. Nothing can reach it while the loopback device is down.
#[test]
fn a_backend_without_a_network_serves_the_command_line() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "def main():\n    return 1\n")]));
    let script = "$TOOL service start; $TOOL explain . --quiet; $TOOL service restart; $TOOL service stop";
    let finished = without_network(&home, repository.path(), script).expect(0);
    for expected in ["is running on port", "app.py", "The backend has stopped."] {
        assert!(finished.stdout.contains(expected), "{finished:?}");
    }
}

#[test]
fn on_a_read_only_system_the_answer_comes_without_its_report() {
    let finished = Scene::new().run(
        "mount -t tmpfs -o mode=700 none \"$MOUNT\"; mount -o remount,bind,ro /; export TOOL_HOME=\"$MOUNT\"
         cd \"$REPOSITORY\"; ! touch x 2>/dev/null
         $TOOL init --offline; $TOOL explain .; $TOOL history; $TOOL service stop",
    );
    let finished = finished.expect(0);
    let told =
        "Permission denied: session-reports/\nhint: create the folder `session-reports` with write rights for you";
    assert!(finished.stderr.contains(told), "{finished:?}");
    assert!(
        finished.stdout.contains("No language model was used.") && finished.stdout.contains("  explain    ."),
        "{finished:?}"
    );
}

/// As in a container, whose user is not the owner of the mounted repository. Without root the repository is our own.
#[test]
fn the_repository_of_another_user_is_explained_without_a_report_in_it() {
    let (home, repository) = (Home::offline(), folder(&[("app.py", "def main():\n    return 1\n")]));
    std::fs::set_permissions(repository.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let explain = || {
        let command = home.tool(repository.path(), &["explain", "."]);
        finish(unprivileged(&home, &command).output().expect("the binary runs")).expect(0)
    };
    let finished = explain();
    assert!(finished.stdout.contains("`app.py` (app.py:1)"), "{finished:?}");
    let is_ours = !rustix::process::geteuid().is_root();
    let reports = repository.path().join("session-reports");
    assert_eq!(reports.exists(), is_ours, "{finished:?}");
    // A folder that another user made there is not ours to write into, even where all may.
    std::fs::create_dir_all(&reports).expect("it is ours");
    std::fs::set_permissions(&reports, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let finished = explain();
    let told = "Permission denied: session-reports/";
    assert_eq!(finished.stderr.contains(told), !is_ours, "{finished:?}");
    assert_eq!(reports.join("session_latest.md").exists(), is_ours);
}

#[test]
fn where_not_even_the_home_can_be_written_it_is_said_which_and_what_to_do() {
    let finished = Scene::new().run(
        "mount -t tmpfs none /root; mount -o remount,ro /root; cd \"$REPOSITORY\"
         code=0; $TOOL init --offline || code=$?; echo \"init $code\"
         code=0; $TOOL service start || code=$?; echo \"start $code\"
         code=0; $TOOL explain . || code=$?; echo \"explain $code\"",
    );
    let finished = finished.expect(0);
    assert_eq!(finished.stdout, "init 2\nstart 3\nexplain 2\n", "{finished:?}");
    assert!(finished.stderr.matches("/root/.tool").count() >= 3, "{finished:?}");
    let told = "set TOOL_HOME to a folder of yours that may be written";
    assert_eq!(finished.stderr.matches(told).count(), 2, "{finished:?}");
}

#[test]
fn a_full_disk_fails_what_cannot_be_kept_and_nothing_else() {
    let finished = Scene::new().run(
        "mount -t tmpfs -o size=1m,mode=700 none \"$MOUNT\"; export TOOL_HOME=\"$MOUNT\"; cd \"$REPOSITORY\"
         $TOOL init --offline; $TOOL service start
         fill() { dd if=/dev/zero of=\"$MOUNT/filler\" bs=4k 2>/dev/null || true; }
         fill; for session in 1 2; do
             code=0; $TOOL explain . --quiet || code=$?; echo \"full $session $code\"
         done
         $TOOL service status
         rm \"$MOUNT/filler\"; $TOOL explain . --quiet | head -n 1
         $TOOL service stop; fill
         code=0; $TOOL service start || code=$?; echo \"start $code\"
         rm \"$MOUNT/filler\"; $TOOL service start; $TOOL history --json; $TOOL service stop",
    );
    let finished = finished.expect(0);
    // A session that cannot be recorded does not begin.
    let told = "The session cannot be recorded: No space left on device";
    assert_eq!(finished.stderr.matches(told).count(), 2, "{finished:?}");
    for expected in ["full 1 1\n", "full 2 1\n", "is running on port", "start 3\n"] {
        assert!(finished.stdout.contains(expected), "{finished:?}");
    }
    assert_eq!(finished.stdout.matches("# .tmp").count(), 1, "{finished:?}");
    assert_eq!(finished.stdout.matches("\"complete\"").count(), 1, "{finished:?}");
}
