//! Checks of answers: those of explain and architect, and every way in which a session is incomplete.

use super::*;
use crate::run;
use tool_core::api::BudgetRequest;
use tool_core::api::ErrorKind;

const CITED: &str = "It prints: `src/main.py:1`.";

impl SessionWorld {
    /// The conversations that the model was sent.
    pub(super) fn asked(&self) -> Vec<Vec<Message>> {
        self.engine.asked.lock().expect("no panic").clone()
    }

    /// Runs an operation that is expected to fail; gives its problem as text, after checking that it is the same
    /// everywhere, and the output.
    async fn incomplete(&self, request: ExecuteRequest) -> (String, String) {
        let (result, events) = self.run(request).await;
        assert_eq!(result.status, Status::Failed, "{}", result.output);
        let problem = result.error.expect("a failed session says why");
        let told = Event::Error {
            code: problem.kind.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        };
        assert_eq!(events.last(), Some(&told));
        assert_eq!(
            self.sessions.history(&Filter::default()).sessions[0].status,
            Status::Failed
        );
        let report = fs::read_to_string(self.repository().join(&result.report_path)).expect("it is there");
        assert!(report.contains("| Status | failed |"), "{report}");
        assert!(report.contains(&problem.message), "{report}");
        let hint = problem.hint.expect("every problem of these says what mends it");
        (
            format!("{}: {}\n  {hint}", problem.kind, problem.message),
            result.output,
        )
    }
}

fn budgeted(world: &SessionWorld, operation: Operation, budget: BudgetRequest) -> ExecuteRequest {
    ExecuteRequest {
        budget,
        ..world.request(operation, ".")
    }
}

fn look(n: u32) -> Act {
    Act::Call("read_file", json!({"path": "src/main.py", "offset": n}))
}

fn message(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

// ---- explain ----

#[tokio::test]
async fn an_explanation_ends_with_what_its_citations_are_worth() {
    let say = "See src/main.py:1, [here](README.md#L1), `main.py:1` and src/main.py:9; run it on localhost:8000.";
    let world = SessionWorld::new(vec![vec![Act::Say(say)]]);
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!(
        result.status,
        Status::Complete,
        "a citation that does not hold is told, not punished"
    );
    let closing = "\n\n---\n\n0 citations hold, 3 not checked, 1 wrong: `src/main.py:9` (the file has 1 line).\n";
    assert_eq!(result.output, format!("{say}{closing}"));
    let streamed: String = events.iter().map(history::output_of).collect();
    assert_eq!(streamed, result.output, "the stream says the same");
    let report = fs::read_to_string(world.repository().join(&result.report_path)).expect("it is there");
    assert!(
        report.contains("0 citations hold, 3 not checked, 1 wrong: `src/main.py:9` (the file has 1 line)."),
        "{report}"
    );
}

#[tokio::test]
async fn an_explanation_that_breaks_off_is_checked_as_far_as_it_came() {
    let problem = Problem::new(ErrorKind::ProviderStream, "The provider's answer is incomplete");
    let world = SessionWorld::new(vec![vec![Act::Say(CITED), Act::Fail(problem.clone())]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!((result.status, result.error), (Status::Failed, Some(problem)));
    assert_eq!(
        result.output,
        format!("{CITED}\n\n---\n\n0 citations hold, 1 not checked.\n")
    );
}

// ---- architect ----

const PROPOSALS: &str = "Split it.\n\n## 1. Move the print\n\n- **There today:** src/main.py:1\n\n## 2. Add a parser\n\n\
                         - **There today:** src/parser.py:30\n\n## 3. Write tests\n\n- **There today:** none.\n";

#[tokio::test]
async fn a_proposal_without_a_place_goes_back_once_and_its_correction_is_an_addendum() {
    let correction =
        "## 2. Add a parser\n\n- **There today:** `README.md:1`\n\n## 3. Write tests\n\nWithdrawn: no tests.";
    let world = SessionWorld::new(vec![vec![Act::Say(PROPOSALS)], vec![Act::Say(correction)]]);
    let (result, events) = world.run(world.request(Operation::Architect, "split it")).await;
    assert_eq!(result.status, Status::Complete);
    insta::assert_snapshot!(result.output, @"
    Split it.

    ## 1. Move the print

    - **There today:** src/main.py:1

    ## 2. Add a parser

    - **There today:** src/parser.py:30

    ## 3. Write tests

    - **There today:** none.

    ---

    ## Addendum

    ## 2. Add a parser

    - **There today:** `README.md:1`

    ## 3. Write tests

    Withdrawn: no tests.

    ---

    0 citations hold, 2 not checked, 1 wrong: `src/parser.py:30` (there is no such file). Proposal withdrawn: 3.
    ");
    let asked = world.asked();
    assert_eq!(asked.len(), 2);
    let back = tool_context::operation::correction_message(&[
        unplaced(2, "`src/parser.py:30` is wrong (there is no such file)"),
        unplaced(3, "it cites no place"),
    ]);
    assert_eq!(asked[1][0], asked[0][0], "the conversation goes on");
    assert_eq!(asked[1][2], message(&back));
    let usage: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Usage { input_tokens, .. } => Some(*input_tokens),
            _ => None,
        })
        .collect();
    assert_eq!(usage, [10, 20], "tokens are counted over both turns");
}

fn unplaced(number: u32, why: &str) -> tool_context::operation::proposals::UnplacedProposal {
    tool_context::operation::proposals::UnplacedProposal {
        number,
        title: String::new(),
        why: why.to_owned(),
    }
}

#[tokio::test]
async fn a_proposal_that_still_has_no_place_is_named() {
    let world = SessionWorld::new(vec![vec![Act::Say(PROPOSALS)], vec![Act::Say("I stand by all of it.")]]);
    let (result, _) = world.run(world.request(Operation::Architect, "split it")).await;
    assert_eq!(result.status, Status::Complete);
    assert_eq!(world.asked().len(), 2, "it is asked once");
    let closing = "\n\n---\n\n0 citations hold, 1 not checked, 1 wrong: `src/parser.py:30` (there is no such file). \
                   Proposals without a verified place: 2 (\"Add a parser\"), 3 (\"Write tests\").\n";
    assert!(result.output.ends_with(closing), "{}", result.output);
    assert!(
        result.output.contains("\n---\n\n## Addendum\n\nI stand by"),
        "{}",
        result.output
    );
}

/// Returns the notices about proposals and the closing line, for an architect whose turns are these answers.
async fn proposed(answers: &[&'static str]) -> (Vec<String>, String) {
    let world = SessionWorld::new(answers.iter().map(|say| vec![Act::Say(say)]).collect());
    let (result, events) = world.run(world.request(Operation::Architect, "split it")).await;
    assert_eq!(result.status, Status::Complete);
    let notices = events.iter().filter_map(|event| match event {
        Event::Notice { message, hint, .. } if message.starts_with("No proposal ") => {
            assert!(
                hint.as_deref().is_some_and(|hint| hint.contains("--model MODEL")),
                "{hint:?}"
            );
            Some(message.clone())
        }
        _ => None,
    });
    let closing = result.output.rsplit("\n---\n\n").next().unwrap_or_default();
    (notices.collect(), closing.trim_end().to_owned())
}

#[tokio::test]
async fn an_answer_without_one_verified_proposal_is_a_notice_that_names_all_of_them() {
    let unplaced = "No proposal of this answer names a place that exists in the repository.";
    let first = "## 1. Split\n\nsrc/none.py:1\n\n## 2.\n\nSomewhere.\n\n## 3. Test\n\nsrc/main.py:99\n";
    let (notices, closing) = proposed(&[first, "I stand by all of it."]).await;
    assert_eq!(notices, [unplaced]);
    let named = "Proposals without a verified place: 1 (\"Split\"), 2, 3 (\"Test\").";
    assert!(closing.ends_with(named), "{closing}");

    let (notices, closing) = proposed(&["Use more services.", "Really."]).await;
    assert_eq!(notices, [unplaced]);
    assert!(closing.starts_with("No citations: "), "{closing}");

    let (notices, closing) = proposed(&["## 1. Split\n\nSomewhere.", "## 1. Split\n\nWithdrawn: it is."]).await;
    assert_eq!(notices, ["No proposal is left: the model withdrew each of them."]);
    assert!(closing.ends_with("Proposal withdrawn: 1."), "{closing}");

    for placed in [
        &[PROPOSALS, "I stand by all of it."][..],
        &["It has that already: src/main.py:1."],
    ] {
        assert_eq!(proposed(placed).await.0, Vec::<String>::new(), "{placed:?}");
    }
}

#[tokio::test]
async fn an_answer_with_its_places_is_not_sent_back() {
    for (say, closing) in [
        (
            "## 1. Move the print\n\n- src/main.py:1",
            "0 citations hold, 1 not checked.",
        ),
        (
            "It has that already: src/main.py:1.",
            "0 citations hold, 1 not checked.",
        ),
    ] {
        let world = SessionWorld::new(vec![vec![Act::Say(say)]]);
        let (result, _) = world.run(world.request(Operation::Architect, "split it")).await;
        assert_eq!(result.output, format!("{say}\n\n---\n\n{closing}\n"));
        assert_eq!(world.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_any_place_is_sent_back_too() {
    let world = SessionWorld::new(vec![
        vec![Act::Say("Use more services.")],
        vec![Act::Say("## 1. Move the print\n\nsrc/main.py:1")],
    ]);
    let (result, _) = world.run(world.request(Operation::Architect, "split it")).await;
    assert_eq!(
        world.asked()[1][2],
        message(&tool_context::operation::correction_message(&[]))
    );
    assert!(
        result.output.ends_with("\n---\n\n0 citations hold, 1 not checked.\n"),
        "{}",
        result.output
    );
}

#[tokio::test]
async fn nobody_is_asked_again_where_the_budget_is_spent_or_there_is_no_model() {
    let closing = "0 citations hold, 1 not checked, 1 wrong: `src/parser.py:30` (there is no such file). Proposals \
                   without a verified place: 2 (\"Add a parser\"), 3 (\"Write tests\").\n";
    let world = SessionWorld::new(vec![vec![Act::Say(PROPOSALS)]]);
    let budget = BudgetRequest {
        max_steps: Some(1),
        ..BudgetRequest::default()
    };
    let (result, _) = world.run(budgeted(&world, Operation::Architect, budget)).await;
    assert_eq!((result.status, world.asked().len()), (Status::Complete, 1));
    assert!(result.output.ends_with(closing), "{}", result.output);

    let world = SessionWorld::new(vec![vec![Act::Say(PROPOSALS)]]);
    let mut analyst = settings();
    analyst.provider.api = ProviderApi::Analyst;
    let request = world.request(Operation::Architect, "split it");
    let start = world.sessions.start(request, analyst, BTreeMap::new()).await;
    let id = start.expect("the request is right").session_id;
    world.events(&id).await;
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert_eq!((result.status, world.asked().len()), (Status::Complete, 1));
    assert!(result.output.ends_with(closing), "{}", result.output);
}

#[tokio::test]
async fn a_correction_that_fails_is_a_failure_and_takes_nothing_back() {
    let problem = Problem::new(ErrorKind::RateLimited, "Rate limit exceeded: 429 Too Many Requests");
    let world = SessionWorld::new(vec![vec![Act::Say(PROPOSALS)], vec![Act::Fail(problem.clone())]]);
    let (result, _) = world.run(world.request(Operation::Architect, "split it")).await;
    assert_eq!((result.status, result.error), (Status::Failed, Some(problem)));
    assert!(result.output.starts_with(PROPOSALS), "{}", result.output);
    assert!(
        result.output.contains("without a verified place: 2"),
        "{}",
        result.output
    );
}

// ---- bounds and refusals ----

#[tokio::test]
async fn the_bound_of_steps_ends_with_a_closing_answer_and_says_what_was_not_done() {
    let world = SessionWorld::new(vec![
        vec![Act::Say("Looking."), look(1)],
        vec![look(2), Act::Call("wait", json!({}))],
        vec![Act::Say(CITED)],
    ]);
    let budget = BudgetRequest {
        max_steps: Some(2),
        ..BudgetRequest::default()
    };
    let (problem, output) = world.incomplete(budgeted(&world, Operation::Explain, budget)).await;
    insta::assert_snapshot!(problem, @"
    budget-exhausted: explain is incomplete: its bound of 2 requests (--max-steps) is reached; not done: `read_file`, `wait`
      allow more requests: `--max-steps 4`, or ask for less
    ");
    assert_eq!(
        output,
        format!("Looking.\n\n{CITED}\n\n---\n\n0 citations hold, 1 not checked.\n")
    );
}

#[tokio::test]
async fn the_bound_of_tokens_ends_before_what_would_pass_it() {
    let used = Act::Event(ProviderEvent::Usage(Usage {
        input_tokens: 4_000,
        output_tokens: 970,
        ..Usage::default()
    }));
    let world = SessionWorld::new(vec![vec![Act::Say("Looking."), look(1), used]]);
    let budget = BudgetRequest {
        max_tokens: Some(5_000),
        ..BudgetRequest::default()
    };
    let (problem, output) = world.incomplete(budgeted(&world, Operation::Explain, budget)).await;
    let needed = regex::Regex::new(r"\d+ more|--max-tokens \d+").expect("a constant");
    insta::assert_snapshot!(needed.replace_all(&problem, "[N]"), @"
    budget-exhausted: explain is incomplete: its bound of 5000 tokens (--max-tokens) is reached: 4970 are used; the next request would need about [N]
      allow more tokens: `[N]`, or ask for less
    ");
    assert_eq!(output, "Looking.");

    let world = SessionWorld::new(vec![]);
    let budget = BudgetRequest {
        max_tokens: Some(10),
        ..BudgetRequest::default()
    };
    let (problem, output) = world.incomplete(budgeted(&world, Operation::Explain, budget)).await;
    insta::assert_snapshot!(needed.replace_all(&problem, "[N]"), @"
    budget-exhausted: explain is incomplete: its bound of 10 tokens (--max-tokens) is reached: 0 are used; the next request would need about [N]
      allow more tokens: `[N]`, or ask for less
    ");
    assert_eq!((output.as_str(), world.asked().len()), ("", 0));

    // The rest of the budget becomes the bound of the answer, and a cut at it counts as reaching the budget.
    let world = SessionWorld::new(vec![vec![Act::Say("It pri"), Act::End(StopReason::MaxTokens)]]);
    let budget = BudgetRequest {
        max_tokens: Some(3_000),
        ..BudgetRequest::default()
    };
    let (problem, output) = world.incomplete(budgeted(&world, Operation::Explain, budget)).await;
    insta::assert_snapshot!(problem, @"
    budget-exhausted: explain is incomplete: its bound of 3000 tokens (--max-tokens) is reached: 13 are used; the model had not finished its answer
      allow more tokens: `--max-tokens 6000`, or ask for less
    ");
    assert_eq!(output, "It pri");
}

#[tokio::test]
async fn the_bound_of_time_holds_for_a_silent_model_and_for_a_tool() {
    let budget = BudgetRequest {
        timeout_seconds: Some(1),
        ..BudgetRequest::default()
    };
    let silent = SessionWorld::new(vec![vec![Act::Say("It pri"), Act::Hang]]);
    let busy = SessionWorld::new(vec![vec![Act::Say("Looking."), Act::Call("wait", json!({}))]]);
    let clock = std::time::Instant::now();
    let (first, second) = tokio::join!(
        silent.incomplete(budgeted(&silent, Operation::Explain, budget)),
        busy.incomplete(budgeted(&busy, Operation::Explain, budget)),
    );
    assert!(clock.elapsed() < Duration::from_secs(15), "{:?}", clock.elapsed());
    insta::assert_snapshot!(first.0, @"
    budget-exhausted: explain is incomplete: its time of 1 s (--timeout) is up; the model had not finished its answer
      give it more time: `--timeout 2`
    ");
    assert_eq!(first.1, "It pri");
    insta::assert_snapshot!(second.0, @"
    budget-exhausted: explain is incomplete: its time of 1 s (--timeout) is up; not done: `wait`
      give it more time: `--timeout 2`
    ");
    assert_eq!(second.1, "Looking.");
}

#[tokio::test]
async fn the_bound_of_time_holds_for_the_context() {
    let world = SessionWorld::new(vec![vec![Act::Say("Never said.")]]);
    let work = SessionWork::Operation(Operation::Explain);
    let root = world.repository();
    let repository = open_repository(&root.to_string_lossy(), &tool_repository::Options::default());
    let folder = tool_journal::journal::SessionFolder::new(world.home().join("sessions/x"));
    let mut start = fixtures::start("x", work);
    start.repository = root.to_string_lossy().into_owned();
    let recorder = Recorder::create(folder, start.clone()).expect("it can be made");
    let secret = approvals::new_secret();
    let approver = SessionApprover::new(Arc::default(), Arc::clone(&recorder), secret, false);
    let request = ExecuteRequest {
        budget: BudgetRequest {
            // No request may say so: here it makes the time be up from the beginning.
            timeout_seconds: Some(0),
            ..BudgetRequest::default()
        },
        ..world.request(Operation::Explain, ".")
    };
    let plan = SessionPlan {
        start,
        repository: repository.expect("it can be opened"),
        locked: None,
        policy: Policy::new(EffectCause::Operation(Operation::Explain), &PolicyRequest::default())
            .expect("the defaults"),
        environment: BTreeMap::new(),
        redactor: Arc::default(),
        task: SessionTask::Operation(Box::new(OperationTask {
            request,
            mark: tool_provider::new_mark(),
            past: None,
            working_directory: root,
            settings: settings(),
            filter: Arc::default(),
            on_key: Arc::new(|_| {}),
        })),
        is_attached: false,
    };
    let job = run::SessionRun {
        plan,
        changes: Arc::new(tool_skill::NoChanges),
        engine: Arc::clone(&world.engine) as _,
        recorder: Arc::clone(&recorder),
        approver: Arc::new(approver),
        indexes: tool_context::Indexes::open_waiting(&world.home()),
        made: BTreeSet::default(),
        calls: Arc::new(Semaphore::new(1)),
        contexts: Arc::new(Semaphore::new(1)),
        cancel: CancellationToken::new(),
    };
    let outcome = run::run_session(&job).await;
    let problem = outcome.problem.expect("it failed");
    assert_eq!(
        problem.message,
        "explain is incomplete: its time of 0 s (--timeout) is up; the context was not built, and no model was asked"
    );
    assert_eq!(
        (outcome.status, problem.kind.code()),
        (Status::Failed, "budget-exhausted")
    );
    assert!(world.asked().is_empty());
}

#[tokio::test]
async fn an_answer_or_a_call_that_the_model_cannot_write_is_incomplete() {
    let world = SessionWorld::new(vec![vec![Act::Say(CITED), Act::End(StopReason::MaxTokens)]]);
    let (problem, output) = world.incomplete(world.request(Operation::Explain, ".")).await;
    insta::assert_snapshot!(problem, @"
    budget-exhausted: explain is incomplete: the model's output limit cut off its answer; the rest of it is missing
      ask for less at once, or choose a model that may write more: `--model MODEL`
    ");
    assert_eq!(output, format!("{CITED}\n\n---\n\n0 citations hold, 1 not checked.\n"));

    let cut_off = || {
        let call = ProviderEvent::CutOffCall {
            name: "write_file".to_owned(),
            arguments: String::new(),
        };
        vec![Act::Event(call), Act::End(StopReason::MaxTokens)]
    };
    let rounds = (0..limits::CUT_OFF_ROUNDS_MAX).map(|_| cut_off()).collect();
    let world = SessionWorld::new(rounds);
    let (problem, _) = world.incomplete(world.request(Operation::Refactor, "tidy up")).await;
    insta::assert_snapshot!(problem, @"
    budget-exhausted: refactor is incomplete: the model's output limit cut off a call of `write_file` again and again; it was not run
      ask for less at once, or choose a model that may write more: `--model MODEL`
    ");
}

#[tokio::test]
async fn a_model_that_goes_in_circles_is_stopped() {
    let mut rounds = vec![vec![look(1)]; limits::TOOL_CALL_REPEATS_MAX];
    rounds.push(vec![Act::Say("I am stuck.")]);
    let world = SessionWorld::new(rounds);
    let (problem, output) = world.incomplete(world.request(Operation::Explain, ".")).await;
    insta::assert_snapshot!(problem, @"
    budget-exhausted: explain is incomplete: the model made the same call of `read_file` 4 times with the same result; what it was looking for is missing
      run it again, put the request in other words, or choose another model: `--model MODEL`
    ");
    assert_eq!(output, "I am stuck.");
}

#[tokio::test]
async fn a_model_that_declines_is_told_apart() {
    let world = SessionWorld::new(vec![vec![Act::Say("I will not."), Act::End(StopReason::Refusal)]]);
    let (problem, output) = world.incomplete(world.request(Operation::Explain, ".")).await;
    insta::assert_snapshot!(problem, @"
    model-refused: explain is incomplete: the model declined to answer, or to go on
      put the request in other words, or ask another model: `--model MODEL`
    ");
    assert_eq!(output, "I will not.");
}

#[tokio::test]
async fn a_write_that_was_denied_is_what_a_refactor_was_for() {
    let write = Act::Call("write_file", json!({"path": "src/main.py", "content": ""}));
    let world = SessionWorld::new(vec![vec![write], vec![Act::Say("Done.")]]);
    let mut request = world.request(Operation::Refactor, ".");
    request.policy.deny = vec!["write-repository".into()];
    let (result, events) = world.run(request).await;
    let problem = result.error.expect("it failed");
    insta::assert_snapshot!(format!("{}: {}", problem.kind, problem.message), @"
    denied: refactor is incomplete: a change of `src/main.py` was refused: writing is not allowed
    ");
    let told =
        |event: &Event| matches!(event, Event::Notice { message, .. } if message.starts_with("`write_file` was"));
    assert!(events.iter().any(told));
}

#[tokio::test]
async fn a_write_that_a_bound_refused_is_what_a_refactor_was_for() {
    let write = Act::Call("write_file", json!({"path": "huge.txt", "content": ""}));
    let world = SessionWorld::new(vec![vec![write], vec![Act::Say("Done.")]]);
    let (result, _) = world.run(world.request(Operation::Refactor, ".")).await;
    let problem = result.error.expect("it failed");
    insta::assert_snapshot!(format!("{}: {}", problem.kind, problem.message), @"
    change-failed: refactor is incomplete: a change of `huge.txt` failed: the proposal has more than 32 MiB
    ");
}

#[tokio::test]
async fn waiting_and_what_a_provider_has_to_say_reach_the_user() {
    let waiting = ProviderEvent::Waiting {
        reason: "Rate limit exceeded: waiting 2 s before the next attempt".to_owned(),
    };
    let noted = ProviderEvent::Notice("The server cut the prompt.".to_owned());
    let world = SessionWorld::new(vec![vec![Act::Event(waiting), Act::Event(noted), Act::Say(CITED)]]);
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!(result.status, Status::Complete);
    let notices: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Notice { message, .. } => Some(message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        notices[notices.len() - 2..],
        [
            "Rate limit exceeded: waiting 2 s before the next attempt",
            "The server cut the prompt."
        ]
    );
}

// ---- bounds ----

#[tokio::test]
async fn what_a_call_leaves_in_events_and_journal_is_bounded() {
    let long = "x".repeat(4 * limits::JOURNAL_TOOL_BYTES_MAX);
    let calls = vec![
        Act::Call("read_file", json!({"path": long.clone()})),
        Act::Call(NO_SKILL, json!({})),
    ];
    let world = SessionWorld::new(vec![calls, vec![Act::Say("Done.")]]);
    let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
    for event in world.events(&id).await {
        match event {
            Event::Skill { args, .. } => {
                let bytes = args.to_string().len();
                assert!(bytes < limits::EVENT_ARGUMENT_BYTES_MAX + 200, "{bytes}");
            }
            Event::SkillResult { summary, .. } => assert!(summary.len() < limits::SUMMARY_BYTES_MAX + 60, "{summary}"),
            _ => {}
        }
    }
    world.idle().await;
    let journal = fs::read(world.home().join("sessions").join(&id).join("journal.jsonl")).expect("it is there");
    let tools = tool_journal::journal::parse(&journal)
        .lines
        .into_iter()
        .filter_map(|line| match line.entry {
            tool_journal::journal::JournalEntry::Tool(tool) => Some(tool),
            _ => None,
        });
    let lengths: Vec<usize> = tools.map(|tool| tool.arguments.len().max(tool.result.len())).collect();
    assert_eq!(lengths.len(), 2);
    assert!(
        lengths
            .iter()
            .all(|&bytes| bytes < limits::JOURNAL_TOOL_BYTES_MAX + 100),
        "{lengths:?}"
    );
}

/// A name that no skill has, and whose refusal is one long line.
const NO_SKILL: &str = "a-name-that-is-far-too-long-for-a-line-of-a-summary-because-somebody-has-written-all-of-a-\
    sentence-into-it-and-then-another-one-which-says-the-same-once-more-and-goes-on-until-nobody-reads-it-any-more-\
    as-if-there-were-no-end-to-it";

#[tokio::test]
async fn sessions_under_way_are_of_a_bounded_number() {
    let world = SessionWorld::new(vec![vec![Act::Hang]; limits::SESSIONS_RUNNING_MAX + 1]);
    // All at once: a place is taken before anything is waited for.
    let start = |_| {
        let request = world.request(Operation::Explain, ".");
        world.sessions.start(request, settings(), BTreeMap::new())
    };
    let started = futures_util::future::join_all((0..=limits::SESSIONS_RUNNING_MAX).map(start)).await;
    let refused: Vec<&Problem> = started.iter().filter_map(|started| started.as_ref().err()).collect();
    let [problem] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (problem.kind.code(), problem.message.as_str()),
        ("busy", "256 sessions are under way")
    );
    // So many journals may take a slow disk more than the time of one stop.
    for _ in 0..10 {
        world.sessions.drain().await;
        if world.sessions.running() == 0 {
            return;
        }
    }
    panic!("{} sessions do not end", world.sessions.running());
}

#[tokio::test]
async fn a_budget_that_no_session_can_reach_is_a_mistake() {
    let world = SessionWorld::new(Vec::new());
    let mut request = world.request(Operation::Explain, ".");
    request.budget.timeout_seconds = Some(limits::SESSION_SECONDS_MAX + 1);
    assert_eq!(
        world.refused(request).await.message,
        "`budget.timeout_seconds` must be at most 86400"
    );
    let mut request = world.request(Operation::Explain, ".");
    request.budget.max_tokens = Some(limits::SESSION_TOKENS_MAX + 1);
    assert_eq!(
        world.refused(request).await.message,
        "`budget.max_tokens` must be at most 1000000000"
    );
}

#[tokio::test]
async fn an_attached_session_that_nobody_ever_follows_ends() {
    let _hurried = limits::pace::hurried(300);
    let world = SessionWorld::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let mut request = world.request(Operation::Explain, ".");
    request.attached = true;
    let id = world.start(request).await.session_id;
    tokio::time::timeout(Duration::from_secs(10), world.idle())
        .await
        .expect("it is cancelled");
    assert_eq!(
        world.sessions.read_result(&id).await.expect("it exists").status,
        Status::Cancelled
    );
}

#[tokio::test]
async fn a_citation_check_that_takes_too_long_is_given_up() {
    let world = SessionWorld::new(vec![vec![Act::Say("See main.py:1.")]]);
    // Enough files that a check takes more than the half millisecond that is left of its time.
    for number in 0..3_000 {
        fs::write(world.repository().join(format!("src/{number}.txt")), "x").expect("it can be written");
    }
    let request = world.request(Operation::Explain, ".");
    let _hurried = limits::pace::hurried(40_000);
    let (result, _) = world.run(request).await;
    let told = "The citations of this answer were not checked: it took more than";
    assert!(result.output.contains(told), "{}", result.output);
}

#[tokio::test]
async fn a_session_sends_no_more_than_a_packet() {
    let world = SessionWorld::new(vec![vec![Act::Say("Long files.")]]);
    let line = "def name_of_a_function(argument):\n    return argument\n";
    for number in 0..8 {
        let place = world.repository().join(format!("src/long{number}.py"));
        fs::write(place, line.repeat(4_000)).expect("it can be written");
    }
    world.run(world.request(Operation::Explain, ".")).await;
    let Message::User { text } = &world.asked()[0][0] else {
        panic!("the user speaks first")
    };
    let tokens = tool_provider::estimated_tokens(text.len());
    assert!(
        tokens < limits::PACKET_TOKENS + 2_000 && tokens > limits::PACKET_TOKENS / 2,
        "{tokens}"
    );
}

async fn called(world: &SessionWorld, name: &str) -> String {
    let request = SkillCallRequest {
        arguments: json!({}),
        repo_path: world.repository().to_string_lossy().into_owned(),
        interactive: false,
        is_of_program: false,
        policy: PolicyRequest::default(),
        overrides: Default::default(),
    };
    let started = world
        .sessions
        .call_skill(name, request, PolicySettings::default(), BTreeMap::new());
    started.await.expect("the request is right").session_id
}

#[tokio::test]
async fn a_session_that_does_not_end_by_itself_is_ended_from_outside() {
    let _hurried = limits::pace::hurried(10);
    let world = SessionWorld::new(Vec::new());
    let id = called(&world, "deaf").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let cancelled = std::time::Instant::now();
    world.sessions.cancel(&id).expect("it runs");
    let events = world.events(&id).await;
    assert!(
        matches!(
            events.last(),
            Some(Event::Error {
                code: ErrorKind::Cancelled,
                ..
            })
        ),
        "{events:?}"
    );
    assert!(
        cancelled.elapsed() < Duration::from_secs(15),
        "{:?}",
        cancelled.elapsed()
    );
}

#[tokio::test]
async fn a_stop_waits_for_sessions_within_a_bound() {
    let _hurried = limits::pace::hurried(10);
    let world = SessionWorld::new(Vec::new());
    called(&world, "deaf").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = std::time::Instant::now();
    world.sessions.drain().await;
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[tokio::test]
async fn contexts_are_built_a_bounded_number_at_a_time() {
    let world = SessionWorld::new(vec![vec![Act::Say("Done.")]]);
    let free = || world.sessions.contexts.available_permits();
    assert_eq!(free(), CONTEXTS_BUILDING_MAX);
    let all = u32::try_from(CONTEXTS_BUILDING_MAX).expect("it is small");
    let take = || Arc::clone(&world.sessions.contexts).acquire_many_owned(all);
    let others = take().await.expect("it is open");
    let waiting = world.start(world.request(Operation::Explain, ".")).await.session_id;
    let cancelled = world.start(world.request(Operation::Explain, ".")).await.session_id;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.sessions.running(), 2, "they wait for their turn");
    let clock = std::time::Instant::now();
    world.sessions.cancel(&cancelled).expect("it waits");
    assert!(matches!(
        world.events(&cancelled).await.last(),
        Some(Event::Error {
            code: ErrorKind::Cancelled,
            ..
        })
    ));
    assert!(clock.elapsed() < Duration::from_secs(15), "{:?}", clock.elapsed());
    drop(others);
    assert!(matches!(
        world.events(&waiting).await.last(),
        Some(Event::Complete { .. })
    ));
    assert_eq!(free(), CONTEXTS_BUILDING_MAX);
}

#[tokio::test]
async fn skill_calls_under_way_are_of_a_bounded_number() {
    let world = SessionWorld::new(Vec::new());
    assert_eq!(world.sessions.calls.available_permits(), SKILL_CALLS_RUNNING_MAX);
    let all = u32::try_from(SKILL_CALLS_RUNNING_MAX).expect("it is small");
    let others = Arc::clone(&world.sessions.calls)
        .acquire_many_owned(all)
        .await
        .expect("it is open");
    let id = called(&world, "read_file").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.sessions.running(), 1, "it waits for its turn");
    drop(others);
    assert!(matches!(world.events(&id).await.last(), Some(Event::Complete { .. })));
}
