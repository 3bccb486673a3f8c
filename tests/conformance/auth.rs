//! Authentication: the keys of the providers, each variable of the environment, and who may use the backend.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::http;
use super::told::printed;
use super::world::{Canned, SHOP, Wire, World, documents_say, free_port, holds, says};
use crate::support::{Finished, Home, finish, folder};

/// Returns the first request to a provider with these variables set: its head and body. The provider refuses the key.
fn sent(wire: Wire, variables: &[(&str, &str)]) -> (String, Finished) {
    let server = Canned::saying("401 Unauthorized", json!({"error": {"message": "no"}}));
    let (home, repository) = (Home::configured(&wire.config(&server.url)), folder(SHOP));
    let mut command = home.tool(repository.path(), &["explain", "."]);
    let output = command
        .envs(variables.iter().copied())
        .output()
        .expect("the binary runs");
    let requests = server.requests();
    let post = requests.into_iter().find(|request| request.starts_with("POST"));
    (post.expect("the provider was asked"), finish(output))
}

/// The value of a header.
fn header(request: &str, name: &str) -> Option<String> {
    let (head, _) = request.split_once("\r\n\r\n").expect("a request has a head");
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(given, _)| given.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().to_owned())
}

fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").expect("a request has a head");
    serde_json::from_str(body).expect("the body is JSON")
}

/// Keys and model of the environment win over those of the file; a variable that is empty is none.
pub(super) fn the_environment_wins() {
    let (request, _) = sent(Wire::HostedChat, &[]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-file")
    );
    assert_eq!(body(&request)["model"], "scripted");
    let variables = [
        ("VENDOR_B_API_KEY", "key-of-the-shell"),
        ("HOSTED_MODEL", "model-of-the-shell"),
    ];
    let (request, _) = sent(Wire::HostedChat, &variables);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-shell")
    );
    assert_eq!(body(&request)["model"], "model-of-the-shell");
    let (request, _) = sent(Wire::HostedChat, &[("VENDOR_B_API_KEY", "")]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-file")
    );
}

/// A daemon that runs already uses the keys of the shell that starts a session, and keeps none of them.
fn the_shell_of_the_session_counts() {
    let server = Canned::saying("401 Unauthorized", json!({"error": {"message": "no"}}));
    let (home, repository) = (Home::configured(&Wire::Router.config(&server.url)), folder(SHOP));
    home.serve();
    for key in ["key-of-one-shell", "key-of-another"] {
        let mut command = home.tool(repository.path(), &["explain", "."]);
        finish(command.env("ROUTER_API_KEY", key).output().expect("the binary runs")).expect(1);
        let last = server.requests().pop().expect("the provider was asked");
        assert_eq!(header(&last, "authorization"), Some(format!("Bearer {key}")));
    }
}

#[test]
fn auth_keys_in_file_or_environment() {
    let (request, _) = sent(Wire::Router, &[]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-file")
    );
    let (request, _) = sent(Wire::Router, &[("ROUTER_API_KEY", "key-of-the-shell")]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-shell")
    );
    the_shell_of_the_session_counts();
}

#[test]
fn auth_environment_overrides() {
    the_environment_wins();
}

/// The names are documented, and they are all that there are.
#[test]
fn auth_variables() {
    let names = [
        "HOSTED_API_KEY",
        "VENDOR_B_API_KEY",
        "VENDOR_C_API_KEY",
        "ROUTER_API_KEY",
        "HOSTED_MODEL",
        "TOOL_BACKEND_PORT",
        "TOOL_LOG_LEVEL",
    ];
    for name in names {
        documents_say(&[&format!("`{name}`")]);
    }
    let keys: Vec<&str> = tool_config::PRESETS
        .iter()
        .filter_map(|preset| preset.own_variable)
        .collect();
    assert_eq!(keys, [names[0], names[1], names[2], names[3]]);
}

#[test]
fn auth_hosted_api_key() {
    let (request, finished) = sent(Wire::Hosted, &[("HOSTED_API_KEY", "key-of-the-shell")]);
    assert_eq!(header(&request, "x-api-key").as_deref(), Some("key-of-the-shell"));
    assert!(!format!("{}{}", finished.stdout, finished.stderr).contains("key-of-the-shell"));
}

#[test]
fn auth_vendor_b_api_key() {
    let (request, _) = sent(Wire::HostedChat, &[("VENDOR_B_API_KEY", "key-of-the-shell")]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-shell")
    );
}

#[test]
fn auth_vendor_c_api_key() {
    let (request, _) = sent(Wire::HostedGenerateContent, &[("VENDOR_C_API_KEY", "key-of-the-shell")]);
    assert_eq!(header(&request, "x-goog-api-key").as_deref(), Some("key-of-the-shell"));
    let target = request.lines().next().unwrap_or_default();
    assert!(
        !target.contains("key-of-the-shell"),
        "a key in a URL ends in somebody's log: {target}"
    );
}

#[test]
fn auth_router_api_key() {
    let (request, _) = sent(Wire::Router, &[("ROUTER_API_KEY", "key-of-the-shell")]);
    assert_eq!(
        header(&request, "authorization").as_deref(),
        Some("Bearer key-of-the-shell")
    );
}

#[test]
fn auth_hosted_model() {
    let (request, _) = sent(Wire::Hosted, &[("HOSTED_MODEL", "model-of-the-shell")]);
    assert_eq!(body(&request)["model"], "model-of-the-shell");
    let (request, _) = sent(Wire::Router, &[("HOSTED_MODEL", "model-of-the-shell")]);
    assert_eq!(body(&request)["model"], "scripted", "it is the hosted provider's");
}

#[test]
fn auth_tool_backend_port() {
    let port = free_port();
    let (home, repository) = (Home::offline(), folder(SHOP));
    let mut command = home.tool(repository.path(), &["explain", "."]);
    let command = command.env("TOOL_BACKEND_PORT", port.to_string());
    finish(command.output().expect("the binary runs")).expect(0);
    assert_eq!(home.record()["port"], port);
    let mut command = home.tool(repository.path(), &["service", "status"]);
    // A running backend's record holds its port; the variable is for the next start.
    let status = finish(
        command
            .env("TOOL_BACKEND_PORT", "many")
            .output()
            .expect("the binary runs"),
    )
    .expect(0);
    holds(&status.stdout, &[&format!("running on port {port}, ")]);
    let home = Home::offline();
    let mut command = home.tool(repository.path(), &["service", "start"]);
    let refused = finish(
        command
            .env("TOOL_BACKEND_PORT", "many")
            .output()
            .expect("the binary runs"),
    )
    .expect(2);
    holds(
        &refused.stderr,
        &["[error] TOOL_BACKEND_PORT is not a port: `many`", "hint: "],
    );
}

#[test]
fn auth_tool_log_level() {
    let log_at = |level: &str| {
        let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
        world
            .run_with(&[("TOOL_LOG_LEVEL", level)], &["explain", "."])
            .expect(0);
        std::fs::read_to_string(world.home.path().join("backend.log")).expect("it is there")
    };
    assert!(log_at("DEBUG").contains("DEBUG"));
    assert!(!log_at("ERROR").contains("INFO"));
}

/// `hosted` with `api = "chat"` uses the one, with `api = "generate-content"` the other.
#[test]
fn auth_further_vendors() {
    let others = [
        ("HOSTED_API_KEY", "wrong"),
        ("VENDOR_B_API_KEY", "wrong"),
        ("ROUTER_API_KEY", "wrong"),
    ];
    for (wire, name, variable) in [
        (Wire::HostedChat, "authorization", "VENDOR_B_API_KEY"),
        (Wire::HostedGenerateContent, "x-goog-api-key", "VENDOR_C_API_KEY"),
    ] {
        let mut variables: Vec<(&str, &str)> = others.into_iter().filter(|(other, _)| *other != variable).collect();
        variables.push((variable, "right"));
        let (request, _) = sent(wire, &variables);
        assert!(
            header(&request, name).is_some_and(|value| value.ends_with("right")),
            "{request}"
        );
    }
    documents_say(&[
        "`hosted` | Chat Completions, `api = \"chat\"` | `https://api.openai.com/v1` | `VENDOR_B_API_KEY`",
        "`VENDOR_C_API_KEY`",
    ]);
}

#[test]
fn auth_invalid_key() {
    for wire in [Wire::Local, Wire::Router, Wire::Hosted, Wire::HostedChat] {
        let (_, finished) = sent(wire, &[]);
        assert_eq!(finished.code, 1);
        holds(&finished.stderr, &["[error] Authentication failed: Invalid API key\n"]);
    }
}

#[test]
fn auth_invalid_key_remedy() {
    let (_, finished) = sent(Wire::Router, &[]);
    let (_, hint) = printed(&finished, 1);
    holds(&hint, &["tool init", "ROUTER_API_KEY"]);
}

/// The token of the home, or the same user on this machine; with `auth = "token"` the token alone.
#[test]
fn auth_of_the_backend() {
    let world = World::new(SHOP, []).configure("[server]\nauth = \"token\"\n");
    let address = world.home.serve();
    let refused = http::get(&address, "/models").expect(401);
    assert_eq!(refused.json()["error"]["code"], "unauthorized");
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    let token = std::fs::read_to_string(world.home.path().join("token")).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    http::ask(&address, "GET", "/models", &[("authorization", &bearer)]).expect(200);
    http::ask(&address, "GET", "/models", &[("authorization", "Bearer wrong")]).expect(401);
    let mode = std::fs::metadata(world.home.path().join("token"))
        .expect("a token")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    documents_say(&[
        "a process of the same user needs no token",
        "`Authorization: Bearer TOKEN`",
    ]);
}

#[test]
fn auth_no_credential_in_examples() {
    let session = super::recorded::explain();
    for answer in [
        &session.scan,
        &session.start,
        &session.stream,
        &session.result,
        &session.models,
        &session.tasks,
    ] {
        assert_eq!(answer.status, 200, "asked without a credential: {}", answer.body);
    }
}

/// The key of a CI secret is nowhere afterwards: not in the repository, its reports, the configuration, the log.
#[test]
fn auth_keys_not_in_the_repository() {
    let world = World::on(
        Wire::Router,
        SHOP,
        tool_model_server::Script::new([says(&["It counts crates (app.py:1)."])]),
    );
    std::fs::remove_file(world.home.path().join("config.toml")).expect("it was written");
    let secret = [("ROUTER_API_KEY", "key-of-a-ci-secret")];
    let url = world.server.url();
    let init = ["init", "--provider", "router", "--model", "v/m", "--url", &url];
    world.run_with(&secret, &init).expect(0);
    world.run_with(&secret, &["explain", "."]).expect(0);
    let request = world
        .server
        .requests()
        .into_iter()
        .find(|it| it.method == "POST")
        .expect("a request");
    assert_eq!(
        request.headers["authorization"], "Bearer key-of-a-ci-secret",
        "it was used"
    );
    let mut folders = vec![world.root().to_owned(), world.home.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it can be listed") {
            let place = entry.expect("it can be listed").path();
            if place.is_dir() {
                folders.push(place);
            } else {
                let content = String::from_utf8_lossy(&std::fs::read(&place).unwrap_or_default()).into_owned();
                assert!(!content.contains("key-of-a-ci-secret"), "{}", place.display());
                files += 1;
            }
        }
    }
    assert!(files > 12, "{files} files were looked at");
    of_a_repository();
}

/// A configuration that lies in a repository does not count: neither its key nor its address is used.
fn of_a_repository() {
    let thief = Canned::saying("401 Unauthorized", Value::Null);
    let world = World::new(SHOP, [says(&["It counts crates (app.py:1)."])]);
    for name in [".tool.toml", "config.toml", ".tool/config.toml"] {
        let place = world.root().join(name);
        std::fs::create_dir_all(place.parent().expect("it has one")).expect("the folder is writable");
        std::fs::write(place, Wire::Router.config(&thief.url)).expect("the folder is writable");
    }
    // Of the three one is a file that we read, and what it may not say ends the session.
    let refused = world.run(&["explain", "."]).expect(2);
    holds(&refused.stderr, &[".tool.toml", "`providers`"]);
    std::fs::remove_file(Path::new(&world.repo_path()).join(".tool.toml")).expect("it is there");
    world.run(&["explain", "."]).expect(0);
    assert_eq!(thief.requests(), Vec::<String>::new());
}
