//! The command line: each command of the specification, and each exit code.

use std::net::TcpListener;
use std::path::Path;

use serde_json::json;

use super::http;
use super::recorded::{alive, refactoring, service};
use super::world::{SHOP, World, calls, holds, says};
use crate::support::{Home, finish, folder};

fn world() -> World {
    World::repeating(SHOP, says(&["It counts crates (app.py:1)."]))
}

/// The first task of the backend: operation and target as the command line mapped them.
#[track_caller]
fn task(world: &World, operation: &str, target: &str) {
    let tasks = http::get(&world.home.serve(), "/tasks").json();
    let task = &tasks["tasks"][0];
    assert_eq!(
        (&task["operation"], &task["target"]),
        (&operation.into(), &target.into())
    );
}

#[test]
fn cli_init() {
    for (arguments, provider) in [
        (&["init", "--offline"][..], "local"),
        (&["init", "--provider", "local", "--model", "m"], "local"),
        (&["init", "--provider", "router", "--model", "v/m"], "router"),
        (&["init", "--provider", "hosted", "--model", "m"], "hosted"),
    ] {
        let home = Home::empty();
        home.run(Path::new("/"), arguments).expect(0);
        let text = std::fs::read_to_string(home.path().join("config.toml")).expect("it was written");
        let table: toml::Table = text.parse().expect("it is TOML");
        assert_eq!(table["providers"][provider]["enabled"].as_bool(), Some(true), "{text}");
    }
}

#[test]
fn cli_explain() {
    let world = world();
    holds(
        &world.run(&["explain", "shop/cart.py"]).expect(0).stdout,
        &["It counts crates"],
    );
    task(&world, "explain", "shop/cart.py");
    world.run(&["explain", "shop"]).expect(0);
    task(&world, "explain", "shop");
}

#[test]
fn cli_architect() {
    let proposal =
        "## Proposal\n\nMove the rate (shop/prices.py:1) into a table. Cost: small. Verify: run the tests.\n";
    let world = World::repeating(SHOP, says(&[proposal]));
    world.run(&["architect", "price by weight"]).expect(0);
    task(&world, "architect", "price by weight");
}

#[test]
fn cli_refactor() {
    let world = World::new(SHOP, refactoring());
    world.run(&["refactor", "raise the rates", "--focus", "shop"]).expect(0);
    task(&world, "refactor", "raise the rates");
    holds(
        &world.server.requests()[0].body.to_string(),
        &["raise the rates", "Focus: shop"],
    );
    holds(&world.read("shop/prices.py"), &["RATE = 3"]);
}

#[test]
fn cli_test_gen() {
    let new = json!({"path": "tests/test_taxes.py", "content": "def test_tax():\n    assert True\n"});
    let world = World::new(
        SHOP,
        [calls([("write_file", new)]), says(&["Written."]), says(&["Written."])],
    );
    world.run(&["test-gen", "shop/taxes.py"]);
    task(&world, "test-gen", "shop/taxes.py");
    holds(&world.read("tests/test_taxes.py"), &["def test_tax"]);
}

#[test]
fn cli_service_start() {
    let service = service();
    assert_eq!(service.start.code, 0, "{}", service.start.stderr);
    holds(
        &service.start.stdout,
        &["The backend is running on port ", &service.pid.to_string()],
    );
    assert!(service.alive);
}

#[test]
fn cli_service_stop() {
    let service = service();
    assert_eq!(service.stop.code, 0, "{}", service.stop.stderr);
    assert!(!service.stopped_alive);
    let home = Home::offline();
    home.run(Path::new("/"), &["service", "stop"]).expect(0);
}

#[test]
fn cli_service_restart() {
    let service = service();
    assert_eq!(service.restart.code, 0, "{}", service.restart.stderr);
    assert!(service.new_pid != service.pid && !service.old_alive);
    let home = Home::offline();
    home.run(Path::new("/"), &["service", "restart"]).expect(0);
    assert!(
        home.record()["pid"].as_u64().is_some_and(alive),
        "a backend that did not run is started"
    );
}

#[test]
fn cli_service_status() {
    let service = service();
    holds(
        &service.running.stdout,
        &["The backend is running on port ", &service.pid.to_string()],
    );
    assert_eq!(service.running.code, 0);
    for status in [&service.before, &service.after] {
        holds(&status.stdout, &["The backend is not running."]);
        assert_eq!(status.code, 3);
    }
}

#[test]
fn exit_0_success() {
    let world = world();
    for arguments in [
        &["explain", "."][..],
        &["service", "status"],
        &["history"],
        &["skill", "list"],
        &["service", "stop"],
        &["--help"],
        &["--version"],
    ] {
        world.run(arguments).expect(0);
    }
}

/// Failed, denied, incomplete, cut off.
#[test]
fn exit_1_operation_failed() {
    let world = World::new(
        SHOP,
        [
            calls([("write_file", json!({"path": ".github/x.yml", "content": "x"}))]),
            says(&["No."]),
        ],
    );
    let denied = world.run(&["refactor", "add a workflow"]).expect(1);
    holds(&denied.stderr, &["[error] ", "hint: "]);
    // The script is over: the provider refuses.
    world.run(&["explain", "."]).expect(1);
    let world = World::repeating(SHOP, calls([("read_file", json!({"path": "app.py"}))]));
    world.run(&["explain", ".", "--max-steps", "1"]).expect(1);
}

#[test]
fn exit_2_configuration_error() {
    let repository = folder(SHOP);
    for config in [
        "[providers.local\n",
        "",
        "[providers.local]\nenabled = true\n",
        "[providers.local]\nenabled = true\nmodel = \"m\"\nurl = \"ftp://x\"\n",
        "[providers.router]\nenabled = true\nmodel = \"m\"\n",
        "[providers.nosuch]\nenabled = true\n",
    ] {
        let home = Home::configured(config);
        let finished = home.run(repository.path(), &["explain", "."]).expect(2);
        holds(&finished.stderr, &["[error] ", "hint: "]);
        assert!(!home.path().join("backend.json").exists(), "nothing was started");
    }
    Home::empty().run(repository.path(), &["explain", "."]).expect(2);
    Home::offline().run(repository.path(), &["test-gen"]).expect(2);
}

#[test]
fn exit_3_backend_not_running() {
    Home::offline().run(Path::new("/"), &["service", "status"]).expect(3);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let (home, repository) = (Home::offline(), folder(SHOP));
    let mut command = home.tool(repository.path(), &["explain", "."]);
    finish(
        command
            .env("TOOL_BACKEND_PORT", port)
            .output()
            .expect("the binary runs"),
    )
    .expect(3);
}
