//! The configuration file: who writes it, and that each of its keys does something.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::world::{SHOP, World, documents_say, says};
use crate::support::{Home, finish, folder};

fn world() -> World {
    World::repeating(SHOP, says(&["It counts crates (app.py:1)."]))
}

#[test]
fn config_created_by_init() {
    let user = tempfile::tempdir().expect("a temporary folder");
    let home = Home::empty();
    let mut init = home.tool(Path::new("/"), &["init"]);
    let init = init.env_remove("TOOL_HOME").env("HOME", user.path());
    finish(init.output().expect("the binary runs")).expect(0);
    let place = user.path().join(".tool/config.toml");
    let text = std::fs::read_to_string(&place).expect("~/.tool/config.toml");
    let table: toml::Table = text.parse().expect("it is TOML");
    assert!(table.contains_key("providers"), "{text}");
    let mode = std::fs::metadata(&place).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
}

#[test]
fn config_api_key() {
    let world = world().configure("api_key = \"key-of-the-file\"\n");
    world.run(&["explain", "."]).expect(0);
    let requests = world.server.requests();
    let sent = requests[0]
        .headers
        .iter()
        .find(|(name, _)| name.as_str() == "authorization");
    assert_eq!(sent.map(|(_, value)| value.as_str()), Some("Bearer key-of-the-file"));
    for name in ["backend.log", "backend.json"] {
        let text = std::fs::read_to_string(world.home.path().join(name)).expect("it is there");
        assert!(!text.contains("key-of-the-file"), "the key is a secret: {name}");
    }
    let shown = world.run(&["config"]).expect(0).stdout;
    assert!(
        shown.contains("providers.local.api_key") && !shown.contains("key-of-the-file"),
        "{shown}"
    );
}

#[test]
fn config_model() {
    let world = world();
    world.run(&["explain", "."]).expect(0);
    assert_eq!(world.server.requests()[0].body["model"], "scripted");
}

/// The enabled one is used; two are an error that names both, and none is one too.
#[test]
fn config_enabled() {
    super::providers::exactly_one();
    let world = world();
    let other = "[providers.router]\nenabled = false\nmodel = \"v/m\"\nurl = \"http://127.0.0.1:9\"\n";
    let world = world.configure(other);
    world.run(&["explain", "."]).expect(0);
    assert_eq!(world.server.requests().len(), 1);
}

#[test]
fn config_logging_level() {
    let log_at = |level: &str| {
        let world = world().configure(&format!("[logging]\nlevel = \"{level}\"\n"));
        world.run(&["explain", "."]).expect(0);
        std::fs::read_to_string(world.home.path().join("backend.log")).expect("it is there")
    };
    assert!(log_at("DEBUG").contains(" INFO "));
    assert!(!log_at("ERROR").contains(" INFO "));
    let debug = log_at("DEBUG");
    assert!(debug.contains("DEBUG"), "{debug}");
}

/// The further keys are in the book, and one that is not there is an error that names the nearest.
#[test]
fn config_further_keys() {
    let listed = Home::offline()
        .run(Path::new("/"), &["config", "--json"])
        .expect(0)
        .stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    for setting in listed["settings"].as_array().expect("a list") {
        let key = setting["key"].as_str().expect("a key");
        if let Some((table, name)) = key.rsplit_once('.') {
            let table = if table.starts_with("providers.") {
                "providers.NAME"
            } else {
                table
            };
            documents_say(&[&format!("`{table}.{name}`")]);
        }
    }
    let home = Home::configured("[providers.local]\nenable = true\n");
    let repository = folder(SHOP);
    let finished = home.run(repository.path(), &["explain", "."]).expect(2);
    assert!(
        finished.stderr.starts_with("[error] Failed to parse config: "),
        "{}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains("did you mean `enabled`?"),
        "{}",
        finished.stderr
    );
}

#[test]
fn config_environment_overrides() {
    super::auth::the_environment_wins();
}
