//! Answers on a real repository: their citations, their proposals, and every bound that may end them.

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedCall, ScriptedStatus, ServerStep};

use crate::providers::scripted;
use crate::support::{Finished, Home, citations, fixture};

fn read(path: &str) -> Round {
    Round::calls([ScriptedCall::new("read_file", json!({"path": path, "limit": 3}))])
}

/// The last message of a request.
fn last_message(request: &Value) -> &str {
    let messages = request["messages"].as_array().expect("a request has messages");
    messages
        .last()
        .and_then(|last| last["content"].as_str())
        .unwrap_or_default()
}

/// Returns the host's text below the answer.
fn closing(finished: &Finished) -> &str {
    let (_, closing) = finished
        .stdout
        .rsplit_once("\n\n---\n\n")
        .expect("the host has the last word");
    closing.trim_end()
}

fn report(repository: &tempfile::TempDir) -> String {
    let latest = repository.path().join("session-reports/session_latest.md");
    std::fs::read_to_string(latest).expect("a latest report")
}

// ---- explain ----

#[test]
fn an_explanation_ends_with_how_many_citations_hold_and_which_do_not() {
    let answer = "Commands are built in `src/click/core.py:1`, options are parsed in \
        [the parser](src/click/parser.py#L10-L20), see also parser.py:30 and (src/click/types.py:1-5). \
        A plugin loader is in src/click/plugins.py:7, its limit in src/click/core.py:999999. Secrets: .env:1. \
        It listens on localhost:8000 since 12:30, see https://click.palletsprojects.com:443/a.py:3.";
    let (_server, home) = scripted([Round::text(answer)]);
    let repository = fixture("click-8.1.8");
    let lines = std::fs::read_to_string(repository.path().join("src/click/core.py")).expect("it is there");
    let lines = lines.lines().count();
    let finished = home.run(repository.path(), &["explain", "src/click"]).expect(0);
    let expected = format!(
        "0 citations hold, 4 not checked, 3 wrong: `src/click/plugins.py:7` (there is no such file), \
         `src/click/core.py:999999` (the file has {lines} lines), `.env:1` (it holds environment variables, which \
         are often secrets)."
    );
    assert_eq!(closing(&finished), expected);
    assert!(finished.stdout.starts_with(answer), "{}", finished.stdout);
    assert!(report(&repository).contains(&expected));
}

#[test]
fn the_analysts_answers_are_checked_and_hold() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    for arguments in [
        &["explain", "."][..],
        &["explain", "src/click/parser.py"],
        &["architect", "make the parser replaceable"],
    ] {
        let finished = home.run(repository.path(), arguments).expect(0);
        // The host has a last word about the analyst's citations only if one is wrong.
        assert!(!finished.stdout.contains("\n\n---\n\n"), "{}", finished.stdout);
        assert!(citations(&finished.stdout).len() >= 5, "{}", finished.stdout);
    }
}

#[test]
fn an_explanation_without_a_citation_says_so() {
    let (_server, home) = scripted([Round::text("It is a library.")]);
    let finished = home.run(fixture("click-8.1.8").path(), &["explain", "."]).expect(0);
    assert!(closing(&finished).starts_with("No citations: "), "{}", finished.stdout);
}

// ---- architect ----

const PROPOSALS: &str = "The parser can be replaced.\n\n## 1. Give the parser a border\n\n- **There today:** \
    src/click/parser.py:1\n\n## 2. Split the registry\n\n- **There today:** src/click/registry.py:40\n\n\
    ## 3. Write more tests\n\n- **There today:** too few.\n";

#[test]
fn a_proposal_without_a_place_is_sent_back_once_and_corrected_in_an_addendum() {
    let correction = "## 2. Split the registry\n\n- **There today:** `src/click/core.py:1`\n\n\
        ## 3. Write more tests\n\nWithdrawn: there are enough.";
    let (server, home) = scripted([Round::text(PROPOSALS), Round::text(correction)]);
    let repository = fixture("click-8.1.8");
    let finished = home
        .run(repository.path(), &["architect", "make the parser replaceable"])
        .expect(0);
    let expected = format!(
        "{PROPOSALS}\n---\n\n## Addendum\n\n{correction}\n\n---\n\n0 citations hold, 2 not checked, 1 wrong: \
         `src/click/registry.py:40` (there is no such file). Proposal withdrawn: 3.\n"
    );
    assert_eq!(finished.stdout, expected);
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "once");
    let back = last_message(&requests[1].body);
    for part in [
        "- Proposal 2: `src/click/registry.py:40` is wrong (there is no such file)",
        "- Proposal 3: it cites no place",
    ] {
        assert!(back.contains(part), "{back}");
    }
    assert!(report(&repository).contains("## Addendum"));
}

#[test]
fn a_proposal_that_still_has_no_place_is_named() {
    let (server, home) = scripted([Round::text(PROPOSALS), Round::text("I have nothing to add.")]);
    let finished = home
        .run(
            fixture("click-8.1.8").path(),
            &["architect", "make the parser replaceable"],
        )
        .expect(0);
    assert_eq!(
        closing(&finished),
        "0 citations hold, 1 not checked, 1 wrong: `src/click/registry.py:40` (there is no such file). Proposals without \
         a verified place: 2 (\"Split the registry\"), 3 (\"Write more tests\")."
    );
    assert_eq!(server.requests().len(), 2);
}

// ---- bounds ----

/// Runs an explanation that ends early; checks that it says so everywhere, and gives the error with its hint.
#[track_caller]
fn incomplete(home: &Home, arguments: &[&str], kept: &str) -> String {
    let repository = fixture("click-8.1.8");
    let all = [&["explain", "src/click/parser.py"], arguments].concat();
    let finished = home.run(repository.path(), &all).expect(1);
    assert!(finished.stdout.starts_with(kept), "{}", finished.stdout);
    let from = finished.stderr.find("[error] ").expect("it says what went wrong");
    let error: Vec<&str> = finished.stderr[from..].lines().take(2).collect();
    let error = error.join("\n");
    let sentence = error.lines().next().unwrap_or_default().trim_start_matches("[error] ");
    let report = report(&repository);
    assert!(
        report.contains("| Status | failed |") && report.contains(sentence),
        "{report}"
    );
    assert!(kept.split("\n\n").all(|part| report.contains(part)), "{report}");
    let history = std::fs::read(repository.path().join("session-reports/session_history.json")).expect("a history");
    let history: Value = serde_json::from_slice(&history).expect("JSON");
    assert_eq!(history["sessions"][0]["status"], "failed");
    error
}

#[test]
fn the_bound_of_steps_gives_what_there_is_and_exits_1() {
    let (server, home) = scripted([
        Round::new([
            ServerStep::Text("Looking.".into()),
            ServerStep::ToolCalls(vec![ScriptedCall::new("list_files", json!({"path": "src"}))]),
        ]),
        read("README.md"),
        Round::text("It parses: src/click/parser.py:1."),
    ]);
    insta::assert_snapshot!(incomplete(&home, &["--max-steps", "2"], "Looking.\n\nIt parses: "), @"
    [error] explain is incomplete: its bound of 2 requests (--max-steps) is reached; not done: `read_file`
    hint: allow more requests: `--max-steps 4`, or ask for less
    ");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        last_message(&requests[2].body).starts_with("No more tools can be used"),
        "a closing answer is asked for"
    );
}

#[test]
fn the_bound_of_tokens_gives_what_there_is_and_exits_1() {
    let (server, home) = scripted([
        Round::new([
            ServerStep::Text("Looking.".into()),
            ServerStep::ToolCalls(vec![ScriptedCall::new("list_files", json!({"path": "src"}))]),
            ServerStep::Usage(tool_model_server::ScriptedUsage {
                input: 95_000,
                output: 100,
                cached: 0,
            }),
        ]),
        Round::text("Never asked."),
    ]);
    let error = incomplete(&home, &["--max-tokens", "100000"], "Looking.");
    let numbers = regex::Regex::new(r"about \d+|--max-tokens \d+").expect("a constant");
    insta::assert_snapshot!(numbers.replace_all(&error, "[N]"), @"
    [error] explain is incomplete: its bound of 100000 tokens (--max-tokens) is reached: 95100 are used; the next request would need [N] more
    hint: allow more tokens: `[N]`, or ask for less
    ");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_bound_of_time_gives_what_there_is_and_exits_1() {
    let (_server, home) = scripted([Round::new([ServerStep::Text("It pars".into()), ServerStep::Stall])]);
    insta::assert_snapshot!(incomplete(&home, &["--timeout", "6"], "It pars"), @"
    [error] explain is incomplete: its time of 6 s (--timeout) is up; the model had not finished its answer
    hint: give it more time: `--timeout 12`
    ");
}

#[test]
fn an_answer_that_is_cut_off_refused_or_goes_in_circles_exits_1() {
    let (_server, home) = scripted([Round::new([
        ServerStep::Text("It pars".into()),
        ServerStep::Finish("length".into()),
        ServerStep::Done,
    ])]);
    insta::assert_snapshot!(incomplete(&home, &[], "It pars"), @"
    [error] explain is incomplete: the model's output limit cut off its answer; the rest of it is missing
    hint: ask for less at once, or choose a model that may write more: `--model MODEL`
    ");
    let (_server, home) = scripted([Round::new([
        ServerStep::Text("I will not.".into()),
        ServerStep::Finish("content_filter".into()),
        ServerStep::Done,
    ])]);
    insta::assert_snapshot!(incomplete(&home, &[], "I will not."), @"
    [error] explain is incomplete: the model declined to answer, or to go on
    hint: put the request in other words, or ask another model: `--model MODEL`
    ");
    let mut rounds: Vec<Round> = (0..tool_core::limits::TOOL_CALL_REPEATS_MAX)
        .map(|_| read("README.md"))
        .collect();
    rounds.push(Round::text("I am stuck."));
    let (_server, home) = scripted(rounds);
    insta::assert_snapshot!(incomplete(&home, &[], "I am stuck."), @"
    [error] explain is incomplete: the model made the same call of `read_file` 4 times with the same result; what it was looking for is missing
    hint: run it again, put the request in other words, or choose another model: `--model MODEL`
    ");
}

#[test]
fn a_question_without_a_whole_answer_is_called_a_question() {
    let (_server, home) = scripted([Round::new([
        ServerStep::Text("It pars".into()),
        ServerStep::Finish("length".into()),
        ServerStep::Done,
    ])]);
    let asked = home.run(fixture("click-8.1.8").path(), &["ask", "what parses options?"]);
    let asked = asked.expect(1);
    let error = asked.stderr.lines().find(|line| line.starts_with("[error] "));
    let said = "the answer to the question is incomplete: the model's output limit cut off its answer; the rest of it is missing";
    assert_eq!(error, Some(&*format!("[error] {said}")), "{}", asked.stderr);
}

#[test]
fn a_bound_of_nothing_is_a_usage_error() {
    let (server, home) = scripted([]);
    let repository = fixture("inherits-2.0.1");
    for flag in ["--max-steps", "--max-tokens", "--max-cost", "--timeout"] {
        home.run(repository.path(), &["explain", ".", flag, "0"]).expect(2);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn waiting_for_a_provider_is_told() {
    let slow = ScriptedStatus {
        headers: [("retry-after".to_owned(), "1".to_owned())].into(),
        ..ScriptedStatus::new(429, json!({"error": {"message": "slow down"}}))
    };
    let (server, home) = scripted([
        Round::new([ServerStep::Status(slow)]),
        Round::text("It parses: src/click/parser.py:1."),
    ]);
    let finished = home.run(fixture("click-8.1.8").path(), &["explain", "."]).expect(0);
    let told = finished
        .stderr
        .lines()
        .find(|line| line.contains("429 Too Many Requests"));
    assert!(told.is_some_and(|line| line.contains("1 s")), "{}", finished.stderr);
    assert_eq!(server.requests().len(), 2);
}
