//! The protocol's own tools: the official Python client, the inspector's command line, and what checks conformance.
//!
//! Of the scenarios of the conformance tool those run that apply to any server: `server-initialize`, `ping`, `tools-list`,
//! `dns-rebinding-protection`, `server-sse-multiple-streams` and `server-sse-polling`. All others call tools, prompts and
//! resources of a test server by their names (`tools-call-*`, `elicitation-*`, `json-schema-2020-12`, `prompts-*`,
//! `resources-*`), or ask for what we do not have (`logging-set-level`, `completion-complete`). The tool checks revisions up
//! to 2025-11-25; the newest one, 2026-07-28, is checked here by the Python client, which speaks both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::TOOLS;
use super::lines::slow;
use crate::contain::{processes, repository};
use crate::support::{Finished, Home, finish, fixture_path, git, node_packages, node_program, until};

const APP: (&str, &str) = ("app.py", "def f(x):\n    return x\n");

/// A repository with git, and a suite that is quick but for what `slow` holds.
fn repository_of(mark: &str) -> TempDir {
    let slow = slow(mark);
    let quick = "def test_quick():\n    assert True\n";
    let ignore = (".gitignore", ".venv\n");
    let settings = ("pytest.ini", "[pytest]\ntestpaths = quick\n");
    let files = [
        APP,
        ignore,
        settings,
        ("quick/test_quick.py", quick),
        ("slow/test_slow.py", &slow),
    ];
    let repository = repository(&files);
    git(repository.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(repository.path(), &["config", "user.name", "Ada"]);
    git(repository.path(), &["config", "user.email", "ada@example.org"]);
    repository
}

/// Runs a program with this home and nothing else of the environment. It meets nothing but loopback.
#[expect(clippy::disallowed_methods, reason = "the test runs the protocol's own tools")]
fn run(home: &Home, program: PathBuf, arguments: &[&str]) -> Finished {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("TOOL_HOME", home.path())
        .env("TOOL_BACKEND_PORT", "0")
        .current_dir(home.path())
        .stdin(Stdio::null());
    finish(command.output().expect("the program runs"))
}

fn agent(home: &Home, arguments: &[&str]) -> Value {
    let venv = fixture_path("mcp-python").join(".venv");
    assert!(
        venv.join("ready").exists(),
        "{} is not complete: run scripts/fixtures",
        venv.display()
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/clients/agent.py");
    let said = run(
        home,
        venv.join("bin/python"),
        &[&["-I", "-B", script], arguments].concat(),
    )
    .expect(0);
    serde_json::from_str(&said.stdout).expect("it prints JSON")
}

/// Checks that hold for both transports and both ways to begin.
#[track_caller]
fn check(said: &Value, protocol: &str, writes: &str) {
    assert_eq!(said["protocol"], protocol);
    let tools: BTreeMap<String, bool> = serde_json::from_value(said["tools"].clone()).expect("names with hints");
    assert!(tools.keys().eq(TOOLS.iter()), "{tools:?}");
    let mut expected: BTreeMap<&str, &str> = TOOLS.iter().map(|name| (*name, "ok")).collect();
    // One has no package manager to ask, one finds no logs, and two are called on their own.
    expected.extend([
        ("install_package", "denied"),
        ("read_logs", "not-found"),
        ("write_file", writes),
    ]);
    expected.remove("run_tests");
    expected.remove("git_commit");
    assert_eq!(said["calls"], json!(expected), "{said}");
}

#[test]
fn the_official_python_client_uses_the_skills_over_lines() {
    for (mode, protocol) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let mark = format!("agent-{mode}-{}", std::process::id());
        let (home, repository) = (Home::offline(), repository_of(&mark));
        let root = repository.path().to_str().expect("it is UTF-8");
        let tool = env!("CARGO_BIN_EXE_tool");
        let flags = [
            "--allow",
            "run-process",
            "--allow",
            "commit-git",
            "--allow",
            "write-repository",
            "--untrusted",
        ];
        let said = agent(
            &home,
            &[
                &[mode, "stdio", tool, "mcp", "--structured", "--root", root][..],
                &flags,
            ]
            .concat(),
        );
        check(&said, protocol, "ok");
        assert!(
            said["tests"]
                .as_str()
                .is_some_and(|text| text.starts_with("PASSED: 1 passed")),
            "{said}"
        );
        assert!(said["progress"].as_u64() > Some(0) && said["rises"] == true, "{said}");
        assert!(
            said["commit"]
                .as_str()
                .is_some_and(|text| text.starts_with("Committed ")),
            "{said}"
        );
        let asked = said["asked"].as_array().expect("a list");
        assert!(
            asked.len() == 1 && asked[0].as_str().is_some_and(|text| text.contains("+y = 2")),
            "{said}"
        );
        assert_eq!(said["cancelled"], true, "{said}");
        assert!(said["after_ms"].as_u64() < Some(2_000), "{said}");
        until("nothing of it is left", || processes(&mark).is_empty());
    }
}

#[test]
fn the_official_python_client_uses_the_skills_over_http() {
    for (mode, protocol) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let mark = format!("web-{mode}-{}", std::process::id());
        let analyst = "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n";
        let home = Home::configured(&format!("{analyst}[policy]\nallow = [\"run-process\"]\n"));
        let repository = repository_of(&mark);
        let url = format!(
            "{}/mcp?root={}&structured=true",
            home.serve(),
            repository.path().display()
        );
        let said = agent(&home, &[mode, "http", &url]);
        check(&said, protocol, "denied");
        assert!(said["progress"].as_u64() > Some(0) && said["rises"] == true, "{said}");
        assert_eq!(said["cancelled"], true, "{said}");
        until("nothing of it is left", || processes(&mark).is_empty());
    }
}

/// A program of the protocol's own that runs in Node.
fn node(home: &Home, program: &str, arguments: &[&str]) -> Finished {
    let packages = node_packages();
    let program = packages.join("@modelcontextprotocol").join(program);
    let program = program.to_str().expect("it is UTF-8");
    run(home, node_program(), &[&[program], arguments].concat())
}

#[test]
fn the_inspector_lists_and_calls_the_skills() {
    let (home, repository) = (Home::offline(), crate::support::folder(&[APP]));
    let url = format!("{}/mcp?root={}", home.serve(), repository.path().display());
    let root = repository.path().to_str().expect("it is UTF-8");
    // It starts servers with little of an environment.
    let place = format!("TOOL_HOME={}", home.path().display());
    let tool = env!("CARGO_BIN_EXE_tool");
    for target in [&[url.as_str()][..], &["-e", &place, tool, "mcp", "--root", root]] {
        let inspect = |arguments: &[&str]| {
            let arguments = [&["--cli"], target, arguments].concat();
            let said = node(&home, "inspector/clients/launcher/build/index.js", &arguments).expect(0);
            serde_json::from_str::<Value>(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
        };
        let listed = inspect(&["--method", "tools/list"]);
        let names: Vec<&str> = listed["tools"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(names, TOOLS);
        let called = inspect(&[
            "--method",
            "tools/call",
            "--tool-name",
            "read_file",
            "--tool-arg",
            "path=app.py",
        ]);
        assert_eq!(
            called["content"][0]["text"], "     1\tdef f(x):\n     2\t    return x",
            "{called}"
        );
    }
}

#[test]
fn the_server_conforms_as_far_as_the_protocols_own_tool_checks_it() {
    let (home, repository) = (Home::offline(), crate::support::folder(&[APP]));
    let url = format!("{}/mcp?root={}", home.serve(), repository.path().display());
    for scenario in [
        "server-initialize",
        "ping",
        "tools-list",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
        "server-sse-polling",
    ] {
        let arguments = ["server", "--url", &url, "--scenario", scenario];
        let said = node(&home, "conformance/dist/index.js", &arguments).expect(0).stdout;
        assert!(said.contains(" 0 failed"), "{scenario}: {said}");
    }
}
