//! Providers: one at a time, each on its wire, and what a provider is given and gives.

use serde_json::{Value, json};
use tool_config::Environment;
use tool_model_server::Script;

use super::recorded::{explain, refactor};
use super::skills::NAMES;
use super::world::{SHOP, Wire, World, calls, holds, says};
use crate::support::{Home, folder};

/// Two enabled providers are a configuration error that names both; none is one too.
pub(super) fn exactly_one() {
    let repository = folder(SHOP);
    let table = |name: &str| format!("[providers.{name}]\nenabled = true\nmodel = \"m\"\napi_key = \"k\"\n");
    for (one, other) in [("hosted", "local"), ("local", "router"), ("hosted", "router")] {
        let home = Home::configured(&(table(one) + &table(other)));
        let finished = home.run(repository.path(), &["explain", "."]).expect(2);
        let message = format!("[error] More than one provider is enabled: {one} and {other}\n");
        assert!(finished.stderr.starts_with(&message), "{}", finished.stderr);
        holds(&finished.stderr, &["hint: "]);
    }
    let home = Home::configured("[providers.local]\nmodel = \"m\"\n");
    let finished = home.run(repository.path(), &["explain", "."]).expect(2);
    holds(&finished.stderr, &["[error] No provider is enabled\n", "tool init"]);
}

/// Returns a provider's address if the file names none.
fn default_url(table: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(home.path().join("config.toml"), table).expect("the folder is writable");
    tool_config::load_settings(home.path(), &Environment::default())
        .expect("the configuration is right")
        .provider
        .url
}

/// A read, a word, a second read, the end: four requests, and each but the last answers with tools.
fn looping() -> Script {
    Script::new([
        calls([
            ("read_file", json!({"path": "app.py"})),
            ("list_files", json!({"path": "shop"})),
        ]),
        calls([("read_file", json!({"path": "shop/taxes.py"}))]),
        says(&["It counts crates ", "(app.py:1)."]),
    ])
}

/// Runs the loop on a wire and gives the bodies of what the model was asked.
fn looped(wire: Wire) -> Vec<Value> {
    let world = World::on(wire, SHOP, looping());
    let finished = world.run(&["explain", "."]).expect(0);
    holds(&finished.stdout, &["It counts crates (app.py:1)."]);
    holds(&finished.stderr, &["skill read_file", "skill list_files"]);
    let asked = world
        .server
        .requests()
        .into_iter()
        .filter(|request| request.method == "POST");
    let bodies: Vec<Value> = asked.map(|request| request.body).collect();
    assert_eq!(bodies.len(), 3, "until the model stops asking for tools");
    holds(&bodies[1].to_string(), &["return len(crates)", "shop/prices.py"]);
    holds(&bodies[2].to_string(), &["return len(crates)", "return price * 0.2"]);
    bodies
}

#[test]
fn provider_exactly_one() {
    exactly_one();
}

#[test]
fn provider_hosted() {
    let bodies = looped(Wire::Hosted);
    let roles: Vec<&Value> = bodies[2]["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let results = bodies[1]["messages"][2]["content"].as_array().expect("blocks");
    let kinds = results.iter().filter(|block| block["type"] == "tool_result").count();
    assert_eq!(kinds, 2, "native tool calling: {results:?}");
}

#[test]
fn provider_local() {
    let table = "[providers.local]\nenabled = true\nmodel = \"m\"\n";
    assert_eq!(default_url(table), "http://127.0.0.1:1234/v1");
    looped(Wire::Local);
    let world = World::on(Wire::Local, SHOP, looping());
    world.run(&["explain", "."]).expect(0);
    let posts = world
        .server
        .requests()
        .into_iter()
        .filter(|request| request.method == "POST");
    assert!(posts.clone().count() == 3 && posts.clone().all(|request| request.path == "/v1/chat/completions"));
    for request in posts {
        assert!(
            !request.headers.contains_key("authorization"),
            "a local server needs no key"
        );
    }
}

/// One address and one key; the vendor is a part of the model's name.
#[test]
fn provider_router() {
    let table = "[providers.router]\nenabled = true\nmodel = \"v/m\"\napi_key = \"k\"\n";
    assert_eq!(default_url(table), "https://openrouter.ai/api/v1");
    looped(Wire::Router);
    let script = Script {
        repeat: true,
        ..Script::new([says(&["It counts crates (app.py:1)."])])
    };
    let world = World::on(Wire::Router, SHOP, script);
    for model in ["vendor-a/small", "vendor-b/large"] {
        world.run(&["explain", ".", "--model", model]).expect(0);
    }
    let models: Vec<Value> = world
        .server
        .requests()
        .iter()
        .map(|it| it.body["model"].clone())
        .collect();
    let models: Vec<&Value> = models.iter().filter(|model| model.is_string()).collect();
    assert_eq!(models, ["vendor-a/small", "vendor-b/large"]);
    for request in world.server.requests() {
        assert_eq!(request.headers["authorization"], "Bearer key-of-the-file");
    }
}

/// Two repositories at once: each session's provider has the one that it was started for, and all skills.
#[test]
fn provider_constructed_with() {
    let script = Script {
        repeat: true,
        ..Script::new([
            calls([("read_file", json!({"path": "app.py"}))]),
            says(&["It counts (app.py:1)."]),
        ])
    };
    let world = World::on(Wire::Local, SHOP, script);
    let other = folder(&[
        ("app.py", "def weigh(crates):\n    return 7\n"),
        ("README.md", "# Scales\n"),
    ]);
    world.run(&["explain", "."]).expect(0);
    world.home.run(other.path(), &["explain", "."]).expect(0);
    let requests = world.server.requests();
    let bodies: Vec<&Value> = requests
        .iter()
        .filter(|it| it.method == "POST")
        .map(|it| &it.body)
        .collect();
    assert_eq!(bodies.len(), 4);
    for body in &bodies {
        assert_eq!(body["tools"].as_array().map(Vec::len), Some(NAMES.len()));
    }
    let results = |body: &Value| {
        body["messages"]
            .as_array()
            .and_then(|all| all.last().cloned())
            .expect("messages")
    };
    holds(&results(bodies[1]).to_string(), &["return len(crates)"]);
    holds(&results(bodies[3]).to_string(), &["return 7"]);
    assert!(!bodies[3].to_string().contains("return len(crates)"));
}

#[test]
fn provider_yields_text_chunks() {
    let tokens = explain().of_type("token");
    assert!(tokens.len() > 1, "{tokens:?}");
    holds(
        &explain().requests[0].body["messages"].to_string(),
        &["Operation: explain", "def count(crates)"],
    );
}

#[test]
fn provider_executes_a_skill() {
    let session = refactor();
    // The host runs the tests before the change and after it.
    let mut skills = session.of_type("skill");
    skills.retain(|skill| skill["name"] != "run_tests");
    assert_eq!(
        skills[0]["args"],
        json!({"path": "shop/prices.py"}),
        "arguments by keyword"
    );
    let messages = session.requests[1].body["messages"]
        .as_array()
        .expect("messages")
        .clone();
    let results: Vec<&Value> = messages.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 2);
    assert!(
        results.iter().all(|result| result["content"].is_string()),
        "{results:?}"
    );
    holds(&results[0].to_string(), &["RATE = 2"]);
}

/// The twelve in the form of each wire.
#[test]
fn provider_tool_formats() {
    fn names<'t>(tools: &'t Value, name: impl Fn(&'t Value) -> &'t Value) -> Vec<&'t str> {
        let tools = tools.as_array().expect("tools").iter();
        let mut names: Vec<&str> = tools.map(|tool| name(tool).as_str().expect("a name")).collect();
        names.sort_unstable();
        names
    }
    let hosted = &looped(Wire::Hosted)[0]["tools"];
    assert_eq!(names(hosted, |tool| &tool["name"]), NAMES);
    for tool in hosted.as_array().expect("tools") {
        assert!(tool["description"].is_string(), "{tool}");
        assert_eq!(tool["input_schema"]["type"], "object", "{tool}");
    }
    for wire in [Wire::Local, Wire::Router, Wire::HostedChat] {
        let tools = &looped(wire)[0]["tools"];
        assert_eq!(names(tools, |tool| &tool["function"]["name"]), NAMES);
        for tool in tools.as_array().expect("tools") {
            assert_eq!(tool["type"], "function", "{tool}");
            assert!(tool["function"]["description"].is_string(), "{tool}");
            assert_eq!(tool["function"]["parameters"]["type"], "object", "{tool}");
        }
    }
    let body = &looped(Wire::HostedGenerateContent)[0];
    let declarations = &body["tools"][0]["functionDeclarations"];
    assert_eq!(names(declarations, |tool| &tool["name"]), NAMES);
    for tool in declarations.as_array().expect("declarations") {
        assert!(tool["description"].is_string(), "{tool}");
    }
}
