//! The four operations: the target of each, the messages to its model, the result.

use serde_json::json;

use super::recorded::refactoring;
use super::world::{SHOP, World, calls, holds, says};
use crate::support::fixture_path;

/// The prompt of the first request, and its first message. The prompt is what all operations share, in the system message,
/// and what this one does, before the request in the first message.
fn told(world: &World) -> (String, String) {
    let request = &world.server.requests()[0].body;
    let content = |at: usize| request["messages"][at]["content"].as_str().expect("a text").to_owned();
    let (system, message) = (content(0), content(1));
    let (own, _) = message.split_once("# Request").expect("a request");
    (format!("{system}\n{own}"), message)
}

#[track_caller]
fn says_about(prompt: &str, words: &[&str]) {
    let prompt = prompt.to_lowercase();
    for word in words {
        let known = word.split('|').any(|word| prompt.contains(word));
        assert!(known, "the prompt says nothing of `{word}`:\n{prompt}");
    }
}

#[test]
fn op_explain() {
    for (target, shown) in [
        ("shop/cart.py", "class Cart"),
        ("shop", "def tax(price)"),
        (".", "def count(crates)"),
    ] {
        let world = World::new(SHOP, [says(&["It counts crates ", "(app.py:1)."])]);
        let finished = world.run(&["explain", target]).expect(0);
        holds(&finished.stdout, &["It counts crates (app.py:1)."]);
        let (prompt, request) = told(&world);
        says_about(
            &prompt,
            &["explain", "structure|architecture", "parts|components", "patterns"],
        );
        holds(&request, &["explain", target, shown]);
    }
}

/// Proposals for the task and this repository; the prompt refuses what would fit any.
#[test]
fn op_architect() {
    let proposal =
        "## Proposal\n\nMove the rate (shop/prices.py:1) into a table. Cost: small. Verify: run the tests.\n";
    let world = World::repeating(SHOP, says(&[proposal]));
    let finished = world.run(&["architect", "make the rates configurable"]).expect(0);
    holds(&finished.stdout, &["Move the rate (shop/prices.py:1)"]);
    let (prompt, request) = told(&world);
    says_about(
        &prompt,
        &[
            "architect",
            "propos",
            "this repository",
            "any repository|general advice|generic",
        ],
    );
    holds(&request, &["make the rates configurable"]);
}

/// A task in words or a path, and a focus; files are changed.
#[test]
fn op_refactor() {
    let world = World::new(SHOP, refactoring());
    let command = ["refactor", "raise the rates", "--focus", "modernize the client"];
    let finished = world.run(&command).expect(0);
    holds(&finished.stdout, &["The rates are new"]);
    let (prompt, request) = told(&world);
    says_about(&prompt, &["refactor", "improve|quality"]);
    holds(&request, &["raise the rates", "Focus: modernize the client"]);
    holds(&world.read("shop/prices.py"), &["RATE = 3"]);
    holds(&world.read("shop/taxes.py"), &["price * 0.25"]);

    let world = World::new(SHOP, refactoring());
    world.run(&["refactor", "shop/prices.py"]).expect(0);
    let (_, request) = told(&world);
    holds(&request, &["the file `shop/prices.py`"]);
}

/// The test that is there shows the framework and the style; the new one lies where the project keeps them.
#[test]
fn op_test_gen() {
    let existing = "from shop.cart import Cart\n\n\ndef test_pay():\n    assert Cart().pay() == 2\n";
    let files = [SHOP, &[("tests/test_cart.py", existing)]].concat();
    let new = "from shop.taxes import tax\n\n\ndef test_tax():\n    assert tax(10) == 2\n";
    let world = World::new(
        &files,
        [
            calls([("read_file", json!({"path": "shop/taxes.py"}))]),
            calls([("write_file", json!({"path": "tests/test_taxes.py", "content": new}))]),
            says(&["tests/test_taxes.py:4 covers the rate."]),
            says(&["tests/test_taxes.py:4 covers the rate."]),
        ],
    );
    let environment = fixture_path("click-8.1.8").join(".venv");
    let environment = environment.to_str().expect("it is UTF-8");
    let finished = world
        .run_with(&[("VIRTUAL_ENV", environment)], &["test-gen", "shop/taxes.py"])
        .expect(0);
    holds(
        &finished.stdout,
        &[
            "tests/test_taxes.py:4 covers the rate.\n\n---\n\nWrote 1 file: `tests/test_taxes.py` (new, +5).",
            "- New tests: 1 passed, 0 failed; PASSED: 1 passed in ",
        ],
    );
    let (prompt, request) = told(&world);
    says_about(
        &prompt,
        &["tests", "framework", "happy path|normal cases", "edge", "errors"],
    );
    holds(
        &request,
        &["the file `shop/taxes.py`", "def tax(price)", "def test_pay()"],
    );
    assert_eq!(world.read("tests/test_taxes.py"), new);
    assert_eq!(world.read("tests/test_cart.py"), existing, "existing tests stay");
    world.run(&["test-gen", "shop"]).expect(2);
}
