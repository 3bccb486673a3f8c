//! A problem reads alike everywhere: on the terminal, as an event of `--json`, in the stream, in the result and as an
//! HTTP error.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::http::{self, Connection};
use super::world::{Canned, SHOP, Wire, holds};
use crate::support::{Finished, Home, finish, folder};

/// A problem as one surface shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Told {
    /// Out of an `error` event, the `error` of a result or of an HTTP answer.
    #[track_caller]
    pub(super) fn of(value: &Value) -> Self {
        let text = |key: &str| {
            value[key]
                .as_str()
                .unwrap_or_else(|| panic!("`{key}` in {value}"))
                .to_owned()
        };
        Self {
            code: text("code"),
            message: text("message"),
            hint: text("hint"),
        }
    }

    /// Fails unless the command printed exactly this, with its hint, and ended with the code.
    #[track_caller]
    pub(super) fn on_terminal(&self, finished: &Finished, exit: i32) {
        assert_eq!(finished.code, exit, "{}", finished.stderr);
        holds(
            &finished.stderr,
            &[&format!("[error] {}\nhint: {}\n", self.message, self.hint)],
        );
        assert_eq!(finished.stderr.matches("[error]").count(), 1, "{}", finished.stderr);
    }
}

/// The message and the hint on a terminal, for what has no other place.
#[track_caller]
pub(super) fn printed(finished: &Finished, exit: i32) -> (String, String) {
    assert_eq!(finished.code, exit, "{}", finished.stderr);
    let mut lines = finished.stderr.lines();
    let message = lines.find_map(|line| line.strip_prefix("[error] "));
    let hint = lines.next().and_then(|line| line.strip_prefix("hint: "));
    (message.expect("an error").to_owned(), hint.expect("a hint").to_owned())
}

/// Lets an explain fail in every way that it can be asked for, and checks that all of them tell the same.
#[track_caller]
pub(super) fn told_everywhere(home: &Home, root: &Path, target: &str) -> Told {
    let lines = home.run(root, &["explain", target, "--json"]).expect(1).stdout;
    let event = lines
        .lines()
        .last()
        .and_then(|line| serde_json::from_str::<Value>(line).ok());
    let event = event.expect("one event a line");
    assert_eq!(event["type"], "error");
    let told = Told::of(&event);
    told.on_terminal(&home.run(root, &["explain", target]), 1);
    let address = home.serve();
    let body = json!({"operation": "explain", "target": target, "repo_path": root});
    let start = http::post(&address, "/execute", &body).expect(200).json();
    let id = start["session_id"].as_str().expect("an identifier");
    for path in [
        format!("/stream?session_id={id}"),
        format!("/api/stream/{id}"),
        format!("/api/stream?session_id={id}"),
    ] {
        let last = http::get(&address, &path).expect(200).events().pop().expect("events");
        assert_eq!(
            (&last["type"], Told::of(&last)),
            (&"error".into(), told.clone()),
            "{path}"
        );
    }
    let result = http::get(&address, &format!("/results/{id}")).expect(200).json();
    assert_eq!(
        (&result["status"], Told::of(&result["error"])),
        (&"failed".into(), told.clone())
    );
    told.on_terminal(&home.run(root, &["results", id]), 1);
    told
}

/// A failing round for every request.
pub(super) fn refusing(wire: Wire, status: &'static str, body: Value) -> (Canned, Told) {
    let server = Canned::saying(status, body);
    let (home, repository) = (Home::configured(&wire.config(&server.url)), folder(SHOP));
    let told = told_everywhere(&home, repository.path(), ".");
    (server, told)
}

#[track_caller]
pub(super) fn has(told: &Told, message: &str, remedies: &[&str]) {
    assert_eq!(told.message, message);
    holds(&told.hint, remedies);
}

/// Returns a skill's text on the terminal and as the event of a call over HTTP.
#[track_caller]
pub(super) fn skill_told(home: &Home, root: &Path, command: &mut Command, call: (&str, Value, &str)) -> Told {
    let finished = finish(command.output().expect("the binary runs"));
    let (skill, arguments, effect) = call;
    let address = home.serve();
    let headers = with_token(home);
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let environment: Vec<(String, String)> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned())))
        .filter(|(name, _)| tool_core::api::FORWARDED.contains(&name.as_str()))
        .collect();
    let body = json!({
        "arguments": arguments,
        "repo_path": root,
        "policy": {"allow": [effect]},
        "overrides": environment.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
    });
    let path = format!("/skills/{skill}/call");
    let answer = Connection::send(&address, "POST", &path, &headers, Some(&body.to_string())).finish();
    let told = Told::of(answer.expect(200).events().last().expect("events"));
    told.on_terminal(&finished, 1);
    told
}

/// The headers of a JSON request by the holder of the token.
pub(super) fn with_token(home: &Home) -> [(&'static str, String); 2] {
    let token = std::fs::read_to_string(home.path().join("token")).expect("a token");
    [
        ("content-type", "application/json".to_owned()),
        ("authorization", format!("Bearer {}", token.trim())),
    ]
}
