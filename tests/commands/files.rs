//! Answers that go into files, and tasks that come from standard input.

use std::fs;

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedCall};

use super::{prompts, small_repository, with_input};
use crate::providers::scripted;

#[test]
fn an_output_file_appears_once_the_operation_is_complete() {
    let (server, home) = scripted([Round::text("# Crates\n\nThey are counted.")]);
    let repository = small_repository();
    let place = repository.path().join("ANSWER.md");
    let done = home
        .run(repository.path(), &["explain", ".", "-o", "ANSWER.md"])
        .expect(0);
    assert_eq!(done.stdout, "");
    let text = fs::read_to_string(&place).expect("it is there");
    assert!(text.starts_with("# Crates\n\nThey are counted."), "{text}");
    assert!(
        done.stderr.contains("report session-reports/session_"),
        "{}",
        done.stderr
    );
    let seen = prompts(&server);
    assert!(
        !seen[0].to_string().contains("ANSWER"),
        "an operation does not find its own answer"
    );

    std::fs::write(repository.path().join(".env"), "KEY=1\n").expect("the folder is writable");
    let refused = home
        .run(repository.path(), &["explain", ".env", "-qo", "ANSWER.md"])
        .expect(1);
    assert!(
        refused
            .stderr
            .contains("`ANSWER.md` was not written: the operation is not complete.\nhint: `tool results "),
        "{}",
        refused.stderr
    );
    assert_eq!(
        fs::read_to_string(&place).expect("it is there"),
        text,
        "it is as it was"
    );
}

#[test]
fn an_output_file_that_cannot_be_is_said_before_anything_starts() {
    let (server, home) = scripted([Round::text("Fine.")]);
    let repository = small_repository();
    let finished = home
        .run(repository.path(), &["explain", ".", "-o", "no/such/A.md"])
        .expect(2);
    assert!(
        finished
            .stderr
            .starts_with("[error] The folder of `no/such/A.md` does not exist\nhint: make it with `mkdir -p"),
        "{}",
        finished.stderr
    );
    assert!(server.requests().is_empty() && !home.path().join("backend.json").exists());
}

#[test]
fn an_answer_never_replaces_its_target_or_what_was_changed_meanwhile() {
    let (server, home) = scripted([
        Round::calls([ScriptedCall::new(
            "write_file",
            json!({"path": "NOTES.md", "content": "the model's\n"}),
        )]),
        Round::text("Done."),
    ]);
    let repository = small_repository();
    let at = |name: &str| repository.path().join(name);
    let source = fs::read_to_string(at("main.py")).expect("it is there");
    let refused = home
        .run(repository.path(), &["refactor", "main.py", "-o", "./main.py"])
        .expect(2);
    assert_eq!(
        refused.stderr,
        "[error] `./main.py` is what the operation is about; the answer would replace it\nhint: name another file for \
         the answer, for example `-o ANSWER.md`\n"
    );
    assert!(server.requests().is_empty() && !home.path().join("backend.json").exists());
    assert_eq!(fs::read_to_string(at("main.py")).expect("it is there"), source);

    let kept = home
        .run(repository.path(), &["refactor", "main.py", "-o", "NOTES.md"])
        .expect(1);
    assert!(
        kept.stderr.ends_with(
            "[error] `NOTES.md` was changed while the operation ran, and is left as it is\nhint: `tool results` shows the \
             answer\n"
        ),
        "{}",
        kept.stderr
    );
    assert_eq!(
        fs::read_to_string(at("NOTES.md")).expect("it is there"),
        "the model's\n"
    );
    let answer = home.run(repository.path(), &["results"]).expect(0).stdout;
    assert!(answer.contains("Done."), "{answer}");
}

#[test]
fn events_go_into_a_file_as_well() {
    let (_server, home) = scripted([Round::text("Fine.")]);
    let repository = small_repository();
    home.run(
        repository.path(),
        &["explain", ".", "--json", "--output", "events.jsonl"],
    )
    .expect(0);
    let text = fs::read_to_string(repository.path().join("events.jsonl")).expect("it is there");
    let last: Value = serde_json::from_str(text.lines().last().expect("lines")).expect("JSON");
    assert_eq!(last["type"], "complete");
}

#[test]
fn a_task_comes_from_standard_input_and_a_path_does_not() {
    let (server, home) = scripted([Round::text("Split `main.py:1`.")]);
    let repository = small_repository();
    let task = b"make it modular\n\nbut keep `main.py`\n";
    with_input(&home, repository.path(), &["architect", "-"], task);
    let request = prompts(&server)[0].to_string();
    assert!(request.contains("make it modular\\n\\nbut keep `main.py`"), "{request}");
    let empty = with_input(&home, repository.path(), &["refactor", "-"], b" \n").expect(2);
    assert!(
        empty.stderr.starts_with("[error] Standard input holds no task\n"),
        "{}",
        empty.stderr
    );
    let large = with_input(&home, repository.path(), &["refactor", "-"], &vec![b'x'; 100_000]).expect(2);
    assert!(
        large.stderr.starts_with("[error] The task is larger than 64 KiB\n"),
        "{}",
        large.stderr
    );
    for command in ["explain", "test-gen"] {
        let refused = with_input(&home, repository.path(), &[command, "-"], b"x").expect(2);
        assert!(
            refused.stderr.contains("takes a path, not `-`\nhint: "),
            "{}",
            refused.stderr
        );
    }
}
