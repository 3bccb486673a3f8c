//! The operations that change files: results of their tests, refusals and cut-offs, and the report of each.

use super::*;
use tool_core::api::BudgetRequest;
use tool_core::api::{ErrorKind, VerificationRule};

fn write(path: &str, content: &str) -> Act {
    Act::Call("write_file", json!({"path": path, "content": content}))
}

/// A world whose test runner prints this.
fn world(output: &str, rounds: Vec<Vec<Act>>) -> SessionWorld {
    let world = SessionWorld::new(rounds);
    fs::write(world.repository().join("output.txt"), output).expect("it can be written");
    world
}

fn allowed(world: &SessionWorld, operation: Operation, target: &str) -> ExecuteRequest {
    let mut request = world.request(operation, target);
    request.policy.allow = vec!["run-process".into()];
    request
}

fn refactor(world: &SessionWorld) -> ExecuteRequest {
    allowed(world, Operation::Refactor, "tidy up")
}

fn test_gen(world: &SessionWorld) -> ExecuteRequest {
    allowed(world, Operation::TestGen, "src/main.py")
}

/// The problem of a session as text, empty where it is complete, and its output.
async fn ended(world: &SessionWorld, request: ExecuteRequest) -> (String, String) {
    let (result, _) = world.run(request).await;
    let problem = result.error.map(|problem| {
        let hint = problem.hint.unwrap_or_default();
        // Identifiers differ from run to run.
        let hint = hint.replace(&result.session_id, "SESSION");
        format!("{}: {}\n  {hint}", problem.kind, problem.message)
    });
    assert_eq!(result.status == Status::Complete, problem.is_none(), "{problem:?}");
    (problem.unwrap_or_default(), result.output)
}

fn runs(events: &[Event]) -> usize {
    let is_run = |event: &&Event| matches!(event, Event::Skill { name, .. } if name == "run_tests");
    events.iter().filter(is_run).count()
}

const PASSED: &str = "5 passed in 1.0s\n";

// ---- time ----

#[tokio::test]
async fn tests_that_the_time_did_not_suffice_for_are_incomplete() {
    let budget = BudgetRequest {
        timeout_seconds: Some(1),
        ..BudgetRequest::default()
    };
    let changed = world(PASSED, vec![vec![write("output.txt", "hang")], vec![Act::Say("Done.")]]);
    let mut first = refactor(&changed);
    first.budget = budget;
    let created = world("hang", vec![vec![write("test_main.py", "x")], vec![Act::Say("Done.")]]);
    let mut second = test_gen(&created);
    second.budget = budget;
    let (first, second) = tokio::join!(ended(&changed, first), ended(&created, second));
    insta::assert_snapshot!(first.0, @"
    budget-exhausted: refactor is incomplete: its time of 1 s (--timeout) is up; the tests after the change did not finish
      give it more time: `--timeout 2`
    ");
    assert!(
        first.1.contains("- Tests after the change: not run to their end"),
        "{}",
        first.1
    );
    insta::assert_snapshot!(second.0, @"
    budget-exhausted: test-gen is incomplete: its time of 1 s (--timeout) is up; the new tests did not finish
      give it more time: `--timeout 2`
    ");
    assert!(second.1.contains("- New tests: not run to their end"), "{}", second.1);
}

#[tokio::test]
async fn a_session_that_is_cancelled_during_its_last_tests_is_cancelled() {
    let world = world(PASSED, vec![vec![write("output.txt", "hang")], vec![Act::Say("Done.")]]);
    let id = world.start(refactor(&world)).await.session_id;
    let mut stream = world.sessions.events(&id, 0).expect("it exists");
    let mut events: Vec<Event> = Vec::new();
    while runs(&events) < 2 {
        let batch = stream.next().await.expect("it goes on");
        events.extend(batch.into_iter().map(|(_, event)| (*event).clone()));
    }
    world.sessions.cancel(&id).expect("it runs");
    world.events(&id).await;
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert_eq!(result.status, Status::Cancelled);
}

// ---- the tests before any change ----

/// Follows a session until an event of this kind.
async fn follow(world: &SessionWorld, id: &str, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut stream = world.sessions.events(id, 0).expect("it exists");
    let mut events: Vec<Event> = Vec::new();
    while !events.iter().any(&is_it) {
        let batch = stream.next().await.expect("it goes on");
        events.extend(batch.into_iter().map(|(_, event)| (*event).clone()));
    }
    events
}

fn is_waiting(event: &Event) -> bool {
    let words = "`write_file` waits for the tests and checks before any change";
    matches!(event, Event::Live { line } if line == words)
}

fn reading_then_writing(output: &str) -> SessionWorld {
    let read = Act::Call("read_file", json!({"path": "src/main.py"}));
    let rounds = vec![
        vec![read],
        vec![write("src/main.py", "x = 2\n")],
        vec![Act::Say("Done.")],
    ];
    world(output, rounds)
}

#[tokio::test]
async fn the_model_is_asked_and_reads_beside_the_first_tests_and_its_change_waits_for_them() {
    let world = reading_then_writing("held\n5 passed in 1.0s\n");
    let id = world.start(refactor(&world)).await.session_id;
    let events = follow(&world, &id, is_waiting).await;
    let source = world.repository().join("src/main.py");
    assert_eq!(fs::read_to_string(&source).expect("it is there"), "print()\n");
    let ended = |name: &str| {
        let is_it = |event: &Event| matches!(event, Event::SkillResult { name: other, .. } if other == name);
        events.iter().any(is_it)
    };
    assert!(ended("read_file") && !ended("run_tests"));
    assert_eq!(world.asked().len(), 2);
    fs::write(world.repository().with_file_name("go"), "").expect("it can be written");
    let events = world.events(&id).await;
    let verdicts = events.iter().filter_map(|event| match event {
        Event::SkillResult { name, verdict, .. } => Some(format!("{name} {verdict}")),
        _ => None,
    });
    let expected = ["read_file ok", "run_tests ok", "write_file ok", "run_tests ok"];
    assert_eq!(verdicts.collect::<Vec<_>>(), expected);
    assert_eq!(fs::read_to_string(&source).expect("it is there"), "x = 2\n");
    let asked = world.asked();
    let told = |message: &Message| {
        let text = format!("{message:?}");
        text.contains("# Tests before any change") && text.contains("PASSED: 5 passed")
    };
    assert!(!asked[1].iter().any(told));
    let [.., Message::ToolResults { .. }, message] = &asked[2][..] else {
        panic!("{:?}", asked[2]);
    };
    assert!(told(message), "{message:?}");
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert!(
        result
            .output
            .contains("- Tests before the change: PASSED: 5 passed in 1.0 s\n")
    );
    assert!(result.output.ends_with("- Verified by tests\n"), "{}", result.output);
}

#[tokio::test]
async fn a_session_that_is_cancelled_during_its_first_tests_ends_with_them_and_changes_nothing() {
    let world = reading_then_writing("hang");
    let id = world.start(refactor(&world)).await.session_id;
    follow(&world, &id, is_waiting).await;
    world.sessions.cancel(&id).expect("it runs");
    let events = world.events(&id).await;
    let cancelled = |event: &&Event| matches!(event, Event::SkillResult { verdict, .. } if verdict == "cancelled");
    assert_eq!(events.iter().filter(cancelled).count(), 2, "the tests and the change");
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert_eq!((result.status, result.files_modified), (Status::Cancelled, Vec::new()));
    let source = world.repository().join("src/main.py");
    assert_eq!(fs::read_to_string(source).expect("it is there"), "print()\n");
}

#[tokio::test]
async fn a_session_without_a_change_does_not_wait_for_its_first_tests_and_says_so() {
    let world = world("hang", vec![vec![Act::Say("It is fine as it is.")]]);
    let (problem, output) = ended(&world, refactor(&world)).await;
    assert_eq!(problem, "");
    insta::assert_snapshot!(output, @"
    It is fine as it is.

    ---

    Nothing was changed: every file is as it was before this session, whatever the answer above says.

    - Tests as they are: not run to their end: the session ended before
    ");
}

#[tokio::test]
async fn the_first_tests_end_with_a_provider_that_fails() {
    let problem = Problem::new(ErrorKind::RateLimited, "Rate limit exceeded: 429 Too Many Requests");
    let world = world("hang", vec![vec![Act::Fail(problem.clone())]]);
    let (result, events) = world.run(refactor(&world)).await;
    assert_eq!((result.status, result.error), (Status::Failed, Some(problem)));
    let ended = |event: &Event| matches!(event, Event::SkillResult { verdict, .. } if verdict == "cancelled");
    assert!(events.iter().any(ended), "{events:?}");
}

#[tokio::test]
async fn tests_that_failed_over_the_same_files_are_not_run_again_before_a_change() {
    let tests = || vec![Act::Call("run_tests", json!({}))];
    let fine = || vec![Act::Say("It is fine.")];
    let rounds = vec![tests(), fine(), tests(), fine(), tests(), fine(), tests(), fine()];
    let world = world("FAILED t.py::test_a\n1 failed, 4 passed in 1.0s\n", rounds);
    let told = |events: &[Event]| {
        let is_it = |event: &Event| matches!(event, Event::Notice { message, .. } if message.contains("not run again"));
        events.iter().any(is_it)
    };
    let (_, first) = world.run(refactor(&world)).await;
    assert_eq!(
        (runs(&first), told(&first)),
        (2, false),
        "the host's run and the model's"
    );
    let (result, second) = world.run(refactor(&world)).await;
    assert_eq!((runs(&second), told(&second)), (1, true), "{}", result.output);
    let words = "- Tests as they are: FAILED: 1 failed, 4 passed in 1.0 s (in an earlier session over the same files)";
    assert!(result.output.contains(words), "{}", result.output);
    let mut request = refactor(&world);
    request.verification = VerificationRule::Required;
    let (_, third) = world.run(request).await;
    assert_eq!((runs(&third), told(&third)), (2, false), "a verdict from nothing");
    fs::write(world.repository().join("src/main.py"), "print(2)\n").expect("it can be written");
    let (_, fourth) = world.run(refactor(&world)).await;
    assert_eq!((runs(&fourth), told(&fourth)), (2, false), "another state");
}

// ---- refusals ----

#[tokio::test]
async fn a_call_that_was_refused_and_never_made_good_fails_what_changes_files() {
    let commit = || Act::Call("commit", json!({}));
    let world_of = || {
        let rounds = vec![
            vec![write("test_main.py", "x")],
            vec![commit()],
            vec![Act::Say("Done.")],
        ];
        world(PASSED, rounds)
    };
    let world = world_of();
    insta::assert_snapshot!(ended(&world, refactor(&world)).await.0, @"
    denied: refactor is incomplete: `commit` was refused: nobody said yes
      allow it with `--allow commit-git`
    ");
    let world = world_of();
    insta::assert_snapshot!(ended(&world, test_gen(&world)).await.0, @"
    denied: test-gen is incomplete: `commit` was refused: nobody said yes
      allow it with `--allow commit-git`
    ");
    let world = world_of();
    let (problem, _) = ended(&world, world.request(Operation::Explain, ".")).await;
    assert_eq!(problem, "", "it was not for that");
}

#[tokio::test]
async fn new_tests_that_may_not_run_are_incomplete() {
    let world = world(PASSED, vec![vec![write("test_main.py", "x")], vec![Act::Say("Done.")]]);
    let mut request = world.request(Operation::TestGen, "src/main.py");
    request.policy.deny = vec!["run-process".into()];
    insta::assert_snapshot!(ended(&world, request).await.0, @"
    denied: test-gen is incomplete: the new tests were not run: `run-process` is not allowed here
      allow it with `--allow run-process`
    ");
}

// ---- what was not written ----

#[tokio::test]
async fn a_note_is_no_test_and_nothing_is_run_for_it() {
    let world = world(PASSED, vec![vec![write("notes.md", "x")], vec![Act::Say("Done.")]]);
    let (result, events) = world.run(test_gen(&world)).await;
    assert_eq!(result.error.expect("it failed").kind, ErrorKind::NothingWritten);
    assert_eq!(runs(&events), 0);
    let words = "\n---\n\nNo test file was written. Wrote 1 file: `notes.md` (new, +1).";
    assert!(result.output.contains(words), "{}", result.output);
}

#[tokio::test]
async fn a_refactor_that_changes_nothing_contradicts_what_the_model_claims() {
    // The model's own run waits for the first one.
    let tests = Act::Call("run_tests", json!({}));
    let world = world(
        PASSED,
        vec![vec![tests], vec![Act::Say("I have split it into three modules.")]],
    );
    let (result, events) = world.run(refactor(&world)).await;
    assert_eq!(result.status, Status::Complete, "it can be the right answer");
    insta::assert_snapshot!(result.output, @"
    I have split it into three modules.

    ---

    Nothing was changed: every file is as it was before this session, whatever the answer above says.

    - Tests as they are: PASSED: 5 passed in 1.0 s
    ");
    let told = |event: &Event| matches!(event, Event::Notice { message, .. } if message == "Nothing was changed.");
    assert!(events.iter().any(told));
}

#[tokio::test]
async fn a_change_that_was_cut_off_is_missing_until_it_is_made() {
    let lost = |arguments: &str| {
        Act::Event(ProviderEvent::CutOffCall {
            name: "write_file".to_owned(),
            arguments: arguments.to_owned(),
        })
    };
    let half = "{\"path\": \"src/main.py\", \"content\": \"def ma";
    let cut_off = || vec![lost(half), Act::End(StopReason::MaxTokens)];
    let world = world(
        PASSED,
        vec![cut_off(), vec![write("b.py", "x")], vec![Act::Say("Done.")]],
    );
    insta::assert_snapshot!(ended(&world, refactor(&world)).await.0, @"
    budget-exhausted: refactor is incomplete: a change of `src/main.py` was cut off and never made; a call of `write_file` was not whole
      ask for less at once, or choose a model that may write more: `--model MODEL`
    ");
    let made = vec![cut_off(), vec![write("src/main.py", "x")], vec![Act::Say("Done.")]];
    let world = super::changing::world(PASSED, made);
    assert_eq!(ended(&world, refactor(&world)).await.0, "");
    // A server that does not report that it reached a limit.
    let call = tool_provider::ToolCall {
        id: "call_1".to_owned(),
        name: "write_file".to_owned(),
        arguments: "{\"path\": \"test_a.py\", \"content\": \"def ma".to_owned(),
    };
    let broken = vec![Act::Event(ProviderEvent::ToolCall(call)), Act::End(StopReason::ToolUse)];
    let rounds = vec![broken, vec![write("test_b.py", "x")], vec![Act::Say("Done.")]];
    let world = super::changing::world(PASSED, rounds);
    insta::assert_snapshot!(ended(&world, test_gen(&world)).await.0, @"
    budget-exhausted: test-gen is incomplete: a change of `test_a.py` was cut off and never made; a call of `write_file` was not whole
      ask for less at once, or choose a model that may write more: `--model MODEL`
    ");
}

// ---- tests that say less ----

#[tokio::test]
async fn a_refactor_that_guts_tests_made_them_worse_and_says_which_files_it_edited() {
    let world = world(
        PASSED,
        vec![
            vec![
                write("test_main.py", "x = 2"),
                write("pytest.ini", "[pytest]"),
                write("output.txt", "3 passed in 1.0s\n"),
            ],
            vec![Act::Say("Done.")],
        ],
    );
    fs::write(world.repository().join("test_main.py"), "x = 1").expect("it can be written");
    let (problem, output) = ended(&world, refactor(&world)).await;
    insta::assert_snapshot!(problem, @"tests-worse: refactor made the tests worse: 5 tests passed before, and 3 do now");
    let words = "- Edited among them, tests or configuration of their runner: `pytest.ini`, `test_main.py`\n";
    assert!(output.contains(words), "{output}");
    assert!(
        output.contains("- The tests got worse: 5 tests passed before, and 3 do now\n"),
        "{output}"
    );
}

// ---- follow-ups ----

#[tokio::test]
async fn a_correction_without_a_word_leaves_the_first_answer_as_it_is() {
    let proposals = "## 1. Move it\n\n- src/main.py:1\n\n## 2. Add a parser\n\n- src/parser.py:30\n";
    let world = SessionWorld::new(vec![vec![Act::Say(proposals)], vec![], vec![]]);
    let (problem, output) = ended(&world, world.request(Operation::Architect, "split it")).await;
    assert_eq!(problem, "");
    assert!(output.starts_with(proposals), "{output}");
    assert!(
        output.ends_with("Proposal without a verified place: 2 (\"Add a parser\").\n"),
        "{output}"
    );
}

#[tokio::test]
async fn tests_that_the_host_runs_have_a_bounded_time() {
    let world = world(
        PASSED,
        vec![vec![write("src/main.py", "x = 2\n")], vec![Act::Say("Done.")]],
    );
    let (_, events) = world.run(refactor(&world)).await;
    let times: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Skill { name, args, .. } if name == "run_tests" => args["timeout_seconds"].as_u64(),
            _ => None,
        })
        .collect();
    assert_eq!(times, [limits::SUITE_SECONDS_MAX; 2]);
}

#[tokio::test]
async fn a_request_without_tests_and_checks_runs_none_and_its_outcome_says_so() {
    let edited = |path| world(PASSED, vec![vec![write(path, "x = 2\n")], vec![Act::Say("Done.")]]);
    let world = edited("src/main.py");
    let mut request = refactor(&world);
    (request.no_tests, request.no_checks) = (true, true);
    let (result, events) = world.run(request).await;
    assert_eq!((result.status, runs(&events)), (Status::Complete, 0));
    let said = "- Tests: left out by --no-tests\n- Checks: left out by --no-checks\n- Not verified: the tests were left out \
                by --no-tests\n";
    assert!(result.output.ends_with(said), "{}", result.output);
    let world = edited("src/main.py");
    let mut request = refactor(&world);
    (request.no_tests, request.verification) = (true, VerificationRule::Required);
    let (problem, _) = ended(&world, request).await;
    assert!(
        problem.contains("refactor is not verified: the tests were left out by --no-tests"),
        "{problem}"
    );
    let world = edited("test_main.py");
    let mut request = test_gen(&world);
    request.no_tests = true;
    let (problem, output) = ended(&world, request).await;
    assert_eq!(problem, "");
    assert!(output.ends_with("- New tests: left out by --no-tests\n"), "{output}");
}
