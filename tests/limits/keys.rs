//! Every key of the configuration is acted on.

use serde_json::json;

use crate::support::{Home, folder, holds};

const PROVIDER: &str = "[providers.local]\nenabled = true\nurl = \"builtin:analyst\"\n";

/// Calls a skill in a repository that has one of each, under this configuration.
fn called(policy: &str, skill: &str, arguments: &serde_json::Value) -> (i32, String) {
    let home = Home::configured(&format!("{PROVIDER}\n{policy}"));
    let repository = folder(&[("a.py", "x = 1\n"), (".env", "PORT=80\n"), ("b.draft", "not yet\n")]);
    let finished = home.run(
        repository.path(),
        &["skill", "call", skill, &arguments.to_string(), "--quiet"],
    );
    (finished.code, finished.stdout + &finished.stderr)
}

#[test]
fn policy_hides_and_reveals() {
    let read = |policy: &str, path: &str| called(policy, "read_file", &json!({"path": path}));
    assert_ne!(read("", ".env").0, 0);
    assert_eq!(read("", "b.draft").0, 0);
    let (code, text) = read("[policy]\nreveal = [\".env\"]\n", ".env");
    assert_eq!(code, 0, "{text}");
    holds(&text, &["PORT=80"]);
    let (code, text) = read("[policy]\nhide = [\"*.draft\"]\n", "b.draft");
    assert_ne!(code, 0, "{text}");
    holds(&text, &["`b.draft` may not be opened"]);
}

#[test]
fn policy_allows_and_denies() {
    let write = |policy: &str| called(policy, "write_file", &json!({"path": "new.py", "content": "y = 2\n"}));
    assert_ne!(write("").0, 0);
    let (code, text) = write("[policy]\nallow = [\"write-repository\"]\n");
    assert_eq!(code, 0, "{text}");
    let both = "[policy]\nallow = [\"write-repository\"]\ndeny = [\"write-repository\"]\n";
    let (code, text) = write(both);
    assert_ne!(code, 0, "a denial wins");
    holds(
        &text,
        &["`--allow write-repository` before `deny` in the configuration"],
    );
}

#[test]
fn the_home_directory_is_a_repository_only_where_the_user_says_so() {
    let directory = folder(&[("a.py", "x = 1\n")]);
    let explain = |policy: &str| {
        let home = Home::configured(&format!("{PROVIDER}\n{policy}"));
        let mut command = home.tool(directory.path(), &["explain", "."]);
        let output = command.env("HOME", directory.path()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = explain("");
    assert_eq!(code, Some(2), "{text}");
    holds(
        &text,
        &[
            "holds your whole home directory, which is no repository without your yes",
            "`--repo DIR`",
            "`home = true` below `[policy]`",
        ],
    );
    let (code, text) = explain("[policy]\nhome = true\n");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn notes_of_the_vault_reach_the_context() {
    let vault = folder(&[("shop.md", "#apples are sold by weight\n")]);
    let vault_key = format!("[context]\nvault = {:?}\n", vault.path().to_string_lossy());
    let repository = folder(&[("a.py", "apples = 1\n"), ("README.md", "# Shop\n")]);
    let task = ["context", "--operation", "architect", "--json", "weigh the apples"];
    let with = Home::configured(&format!("{PROVIDER}\n{vault_key}"))
        .run(repository.path(), &task)
        .expect(0);
    holds(&with.stdout, &["shop.md"]);
    let without = Home::configured(PROVIDER).run(repository.path(), &task).expect(0);
    assert!(!without.stdout.contains("shop.md"), "{}", without.stdout);
}

#[test]
fn reports_go_to_the_folder_that_the_configuration_names() {
    let elsewhere = folder(&[]);
    let explained = |reports: &str| {
        let home = Home::configured(&format!("{PROVIDER}\n{reports}"));
        let repository = folder(&[("src/a.py", "x = 1\n"), ("README.md", "# Shop\n")]);
        let root = repository.path().to_string_lossy().into_owned();
        let finished = home.run(&repository.path().join("src"), &["explain", "a.py", "--repo", &root]);
        let result = home.run(repository.path(), &["results", "--json", "--repo", &root]);
        let path = serde_json::from_str::<serde_json::Value>(&result.stdout).unwrap_or_default()["report_path"].clone();
        (finished, path, repository)
    };
    let is_there = |path: &std::path::Path| path.join("session-reports/session_latest.md").exists();
    let (finished, _, repository) = explained("");
    finished.expect(0);
    assert!(is_there(&repository.path().join("src")));
    let (finished, path, repository) = explained("[reports]\ndirectory = \"root\"\n");
    finished.expect(0);
    assert!(is_there(repository.path()) && !is_there(&repository.path().join("src")));
    holds(path.as_str().expect("a path"), &["session-reports/session_"]);
    let (finished, path, repository) = explained("[reports]\ndirectory = \"none\"\n");
    finished.expect(0);
    assert_eq!(path, "");
    assert!(!is_there(repository.path()) && !is_there(&repository.path().join("src")));
    let place = elsewhere.path().to_string_lossy().into_owned();
    let (finished, path, _repository) = explained(&format!("[reports]\ndirectory = {place:?}\n"));
    finished.expect(0);
    assert!(is_there(elsewhere.path()));
    holds(path.as_str().expect("a path"), &[&place]);
    for wrong in ["reports", "/nowhere/at/all"] {
        let (finished, _, _repository) = explained(&format!("[reports]\ndirectory = {wrong:?}\n"));
        holds(&finished.expect(2).stderr, &["`directory` of [reports] is no", wrong]);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a client that names another host")]
fn another_name_of_the_server_is_known() {
    use std::io::{Read, Write};
    let home = Home::configured(&format!("{PROVIDER}\n[server]\nhosts = [\"tool.example\"]\n"));
    let address = home.serve().replace("http://", "");
    let status = |host: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        let request = format!("GET /api/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(status("tool.example"), "HTTP/1.1 200 OK");
    assert_eq!(status("evil.example"), "HTTP/1.1 403 Forbidden");
}

#[test]
fn policy_protects() {
    let policy = "[policy]\nallow = [\"write-repository\"]\n";
    let write = |policy: &str| {
        called(
            policy,
            "write_file",
            &json!({"path": "deploy/new.py", "content": "y = 2\n"}),
        )
    };
    assert_eq!(write(policy).0, 0);
    let (code, text) = write(&format!("{policy}protect = [\"deploy/**\"]\n"));
    assert_ne!(code, 0, "{text}");
    holds(&text, &["protected"]);
}
