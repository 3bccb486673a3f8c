//! Resources that a guest does not have, the report of crashes, and the contract of a call.

use serde_json::json;
use tool_core::api::Effect;
use tool_skill::{Limits, RawArguments};

use super::{Arena, DENIED};

#[test]
fn a_guest_sees_nothing_of_the_host() {
    let arena = Arena::new();
    for (attack, expected) in [
        ("environment", "refused: none"),
        ("arguments", "refused: none"),
        ("stdin", "refused: none"),
        ("connect", DENIED),
        ("bind", DENIED),
        ("udp", DENIED),
        ("clock", "refused: coarse"),
        ("thread", "refused: Unsupported"),
        ("process", "refused: Unsupported"),
    ] {
        assert_eq!(arena.on(attack, ""), expected, "{attack}");
    }
    let resolved = arena.on("resolve", "");
    assert!(resolved.starts_with("refused: "), "{resolved}");
}

#[test]
fn crashes_are_told_in_words() {
    let arena = Arena::new();
    let panic = arena.on("panic", "");
    let place =
        "trap The skill `hostile` crashed: thread '<unnamed>' (1) panicked at tests/guests/hostile/src/attacks.rs";
    assert!(panic.starts_with(place), "{panic}");
    assert!(
        panic.ends_with(": a red reason (wasm `unreachable` instruction executed)"),
        "{panic}"
    );
    let told: Vec<String> = ["abort", "exit", "overflow"].map(|attack| arena.on(attack, "")).into();
    insta::assert_snapshot!(told.join("\n"), @r"
    trap The skill `hostile` crashed: wasm `unreachable` instruction executed
    trap The skill `hostile` crashed: it exited with status 1
    trap The skill `hostile` crashed: out of bounds memory access
    ");
}

#[test]
fn answers_and_failures_are_cleaned() {
    let arena = Arena::new();
    assert_eq!(arena.on("colours", ""), "red\ttab\n");
    assert_eq!(arena.on("odd-code", ""), "failed an odd failure");
}

#[test]
fn effects_that_are_not_granted_answer_denied() {
    let arena = Arena::with(Limits::default(), &["read-git"]);
    assert_eq!(arena.on("git", ""), "denied The effect `read-git` is not granted here.");
    let arena = Arena::with(Limits::default(), &["read-repository"]);
    assert_eq!(
        arena.call("hostile", &json!({"attack": "list-all"})),
        "denied `hostile` needs the effect `read-repository`, which is not granted here."
    );
}

#[test]
fn the_list_is_the_repository_as_the_user_sees_it() {
    let arena = Arena::new();
    assert_eq!(arena.on("list-all", "src"), "src/main.rs");
    assert_eq!(arena.on("list-all", "README.md"), "README.md");
    assert!(
        arena.on("list-own", "").ends_with(" and 4 left out"),
        "{}",
        arena.on("list-own", "")
    );
    assert_eq!(arena.on("list-all", "nowhere"), "not-found `nowhere` does not exist");
    assert!(arena.on("list-all", "../outside").starts_with("invalid-arguments "));
    assert!(arena.on("list-all", "out-directory").starts_with("denied "));
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let arena = Arena::new();
    let report = arena
        .host
        .call(&arena.context, "hostile", RawArguments::Text(r#"{"attack": 1}"#));
    let error = report.result.expect_err("a number is no name");
    assert_eq!(
        error.to_string(),
        "Invalid arguments for `hostile` at `/attack`: expected a string, got the number 1."
    );
    assert!(report.receipt.is_none());
    let report = arena.host.call(&arena.context, "hostil", RawArguments::Text(""));
    let error = report.result.expect_err("there is no such skill");
    assert_eq!(
        error.to_string(),
        "There is no skill named `hostil`. Did you mean `hostile`?"
    );
}

#[test]
fn a_receipt_says_what_a_call_cost() {
    let arena = Arena::with(Limits::default(), &["write-repository"]);
    let receipt = arena
        .report("hostile", &json!({"attack": "read", "path": "/repo/README.md"}))
        .receipt
        .expect("it ran");
    assert_eq!(receipt.skill, "hostile");
    assert_eq!(
        Effect::join_names(&receipt.grants),
        "read-repository, read-git, http:granted.example.org, http:second.example.org, config, secret:token, store"
    );
    assert_eq!((receipt.bytes_in, receipt.bytes_out), (5, 9));
    assert_eq!(receipt.verdict, "ok");
    assert!(receipt.peak_memory_bytes > 64 * 1024 && receipt.wall_us > 0);
    let receipt = arena
        .report("hostile", &json!({"attack": "panic"}))
        .receipt
        .expect("it ran");
    assert_eq!(receipt.verdict, "trap");
}

#[test]
fn a_call_that_opened_its_store_taints_the_conversation() {
    let arena = Arena::new();
    let foreign = |arguments: &serde_json::Value| arena.report("hostile", arguments).foreign;
    assert_eq!(foreign(&json!({"attack": "nothing"})), [""; 0]);
    let opened = foreign(&json!({"attack": "keep", "path": "a", "count": 1}));
    assert_eq!(opened, ["the store of `hostile`"]);
}
