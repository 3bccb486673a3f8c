//! The loop against a provider and tools that follow a script.

mod bounds;
mod cost;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use serde_json::json;

use super::*;
use crate::EventStream;
use tool_core::api::ErrorKind;

struct Silent;

impl Observer for Silent {
    fn step(&self, _: TurnStep<'_>) {}
}

/// Answers with one list of events a request, and remembers the conversations.
struct Scripted {
    rounds: Mutex<VecDeque<Vec<Result<ProviderEvent, ProviderError>>>>,
    asked: Mutex<Vec<Vec<Message>>>,
    bounds: Arc<Mutex<Vec<Option<u32>>>>,
}

impl Scripted {
    fn new(rounds: Vec<Vec<ProviderEvent>>) -> Self {
        Self::failing(
            rounds
                .into_iter()
                .map(|round| round.into_iter().map(Ok).collect())
                .collect(),
        )
    }

    fn failing(rounds: Vec<Vec<Result<ProviderEvent, ProviderError>>>) -> Self {
        Self {
            rounds: Mutex::new(rounds.into()),
            asked: Mutex::default(),
            bounds: Arc::default(),
        }
    }

    fn asked(&self) -> Vec<Vec<Message>> {
        self.asked.lock().expect("no test panics here").clone()
    }
}

impl Provider for Scripted {
    fn name(&self) -> &'static str {
        "local"
    }

    fn model(&self) -> &str {
        "scripted"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>, _cancel: CancellationToken) -> EventStream<'a> {
        self.asked
            .lock()
            .expect("no test panics here")
            .push(request.messages.to_vec());
        self.bounds
            .lock()
            .expect("no test panics here")
            .push(request.max_tokens);
        match self.rounds.lock().expect("no test panics here").pop_front() {
            Some(events) => Box::pin(stream::iter(events)),
            // A model that never answers.
            None => Box::pin(stream::pending()),
        }
    }
}

/// `echo` answers with its arguments, `slow` after a while, `forever` never, `fail` with an error.
#[derive(Default)]
struct Fakes {
    ran: Mutex<Vec<String>>,
    running: Mutex<(usize, usize)>,
    stopped: CancellationToken,
}

impl Fakes {
    fn ran(&self) -> Vec<String> {
        self.ran.lock().expect("no test panics here").clone()
    }
}

impl Tools for Fakes {
    fn specs(&self) -> Vec<ToolSpec> {
        ["echo", "slow", "busy", "forever", "read_file", "fail"]
            .map(|name| ToolSpec {
                name: name.into(),
                description: String::new(),
                parameters: json!({"type": "object"}),
            })
            .into()
    }

    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
        Box::pin(async move {
            self.ran.lock().expect("no test panics here").push(call.id.clone());
            {
                let mut running = self.running.lock().expect("no test panics here");
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            match call.name.as_str() {
                "slow" | "busy" => tokio::time::sleep(Duration::from_millis(50)).await,
                "forever" => self.stopped.cancelled().await,
                "fail" => tokio::time::sleep(Duration::from_millis(10)).await,
                _ => {}
            }
            self.running.lock().expect("no test panics here").0 -= 1;
            ToolResult {
                call_id: "not mine to say".into(),
                name: String::new(),
                text: format!("{} {}", call.name, call.arguments),
                is_error: call.name == "fail",
                origin: crate::TextOrigin::Repository,
            }
        })
    }

    fn is_ordered(&self, name: &str) -> bool {
        name == "slow"
    }

    fn stop(&self) {
        self.stopped.cancel();
    }
}

/// Writes down what happens, a line each.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn text(&self) -> String {
        self.0.lock().expect("no test panics here").join("\n")
    }
}

impl Observer for Log {
    fn step(&self, step: TurnStep<'_>) {
        let line = match step {
            TurnStep::Text(text) => format!("text {text:?}"),
            TurnStep::Reasoning(text) => format!("reasoning {text:?}"),
            TurnStep::ToolStarted(call) => format!("start {} {}", call.name, call.arguments),
            TurnStep::ToolFinished(call, result) => {
                format!("finish {} error={}: {}", call.name, result.is_error, result.text)
            }
            TurnStep::Usage(usage) => format!(
                "usage {}+{} {}",
                usage.input_tokens, usage.output_tokens, usage.estimated
            ),
            TurnStep::CallCutOff { name, arguments } => format!("cut off {name} {arguments}"),
            TurnStep::Notice(text) => format!("notice {text}"),
        };
        self.0.lock().expect("no test panics here").push(line);
    }
}

fn text(text: &str) -> ProviderEvent {
    ProviderEvent::Text(text.into())
}

fn call(id: &str, name: &str, arguments: &str) -> ProviderEvent {
    ProviderEvent::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    })
}

fn used(input_tokens: u64, output_tokens: u64) -> ProviderEvent {
    ProviderEvent::Usage(Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    })
}

fn stop(reason: StopReason) -> ProviderEvent {
    ProviderEvent::Stop {
        reason,
        opaque: Value::Null,
    }
}

fn ask() -> Vec<Message> {
    vec![Message::User {
        text: "What is this?".into(),
    }]
}

struct Ran {
    report: TurnReport,
    log: String,
    asked: Vec<Vec<Message>>,
    tools: Fakes,
}

async fn run_with(provider: Scripted, change: impl FnOnce(&mut Turn<'_>)) -> Ran {
    let (tools, log) = (Fakes::default(), Log::default());
    let report = {
        let mut turn = Turn::new(&provider, &tools, &log, "Be brief.", ask());
        change(&mut turn);
        run_turn(turn).await
    };
    Ran {
        report,
        log: log.text(),
        asked: provider.asked(),
        tools,
    }
}

async fn run_script(rounds: Vec<Vec<ProviderEvent>>) -> Ran {
    run_with(Scripted::new(rounds), |_| {}).await
}

fn results(message: &Message) -> Vec<(&str, &str, bool)> {
    match message {
        Message::ToolResults { results } => results
            .iter()
            .map(|result| (result.call_id.as_str(), result.text.as_str(), result.is_error))
            .collect(),
        other => panic!("no results: {other:?}"),
    }
}

#[tokio::test]
async fn a_round_of_parallel_calls_and_a_second_round() {
    let ran = run_script(vec![
        vec![
            text("Let me "),
            text("look."),
            call("a", "slow", "{\"n\":1}"),
            call("b", "echo", "{\"n\":2}"),
            call("c", "fail", "{}"),
            used(10, 5),
            stop(StopReason::ToolUse),
        ],
        vec![text("It is a test."), used(30, 7), stop(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    insta::assert_snapshot!(ran.log, @r#"
    text "Let me "
    text "look."
    usage 10+5 false
    start slow {"n":1}
    start echo {"n":2}
    finish echo error=false: echo {"n":2}
    start fail {}
    finish fail error=true: fail {}
    finish slow error=false: slow {"n":1}
    text "\n\n"
    text "It is a test."
    usage 40+12 false
    "#);
    // Answers come in the calls' order, each id once, whatever finished first.
    assert_eq!(
        results(&ran.report.messages[2]),
        [
            ("a", "slow {\"n\":1}", false),
            ("b", "echo {\"n\":2}", false),
            ("c", "fail {}", true)
        ]
    );
    assert_eq!(*ran.report.text, "Let me look.\n\nIt is a test.");
    assert_eq!(
        (ran.report.usage.input_tokens, ran.report.usage.output_tokens),
        (40, 12)
    );
    assert_eq!(ran.report.steps, 2);
    assert_eq!(ran.asked[1].len(), 3);
    let mut report = ran.report;
    assert_eq!(report.take_messages()[3], Message::from_model("It is a test."));
}

#[tokio::test]
async fn chat_15_unknown_tools_and_wrong_case_are_answered_with_the_nearest_name() {
    let ran = run_script(vec![
        vec![
            call("a", "Read_File", "{}"),
            call("b", "xyzzy", "{}"),
            stop(StopReason::ToolUse),
        ],
        vec![text("Done."), stop(StopReason::EndTurn)],
    ])
    .await;
    let answers = results(&ran.report.messages[2]);
    assert_eq!(
        answers[0].1,
        "There is no tool named `Read_File`. Did you mean `read_file`? The tools are `echo`, `slow`, `busy`, \
         `forever`, `read_file`, `fail`."
    );
    assert!(!answers[1].1.contains("Did you mean"), "{}", answers[1].1);
    assert!(answers.iter().all(|answer| answer.2));
    assert!(ran.tools.ran().is_empty());
}

#[tokio::test]
async fn chat_15_arguments_that_are_no_object_are_a_tool_error() {
    let ran = run_script(vec![
        vec![
            call("a", "echo", "[1]"),
            call("b", "echo", "{\"half"),
            stop(StopReason::ToolUse),
        ],
        vec![text("Done."), stop(StopReason::EndTurn)],
    ])
    .await;
    let answers = results(&ran.report.messages[2]);
    assert_eq!(
        answers[0].1,
        "Invalid arguments for `echo`: at ``: expected a JSON object, got an array."
    );
    assert!(
        answers[1].1.contains("got text that is not JSON (EOF while parsing"),
        "{}",
        answers[1].1
    );
    assert!(ran.tools.ran().is_empty());
}

#[tokio::test]
async fn sse_3_no_tool_runs_when_the_stream_ended_improperly() {
    let failed = ProviderError::Failed(Problem::new(ErrorKind::ProviderStream, "It broke."));
    for round in [
        vec![Ok(text("Let me")), Ok(call("a", "echo", "{}")), Err(failed.clone())],
        vec![Ok(text("Let me")), Ok(call("a", "echo", "{}"))],
    ] {
        let mut ran = run_with(Scripted::failing(vec![round]), |_| {}).await;
        assert!(
            matches!(&ran.report.end, Err(ProviderError::Failed(problem)) if problem.kind == ErrorKind::ProviderStream)
        );
        assert!(ran.tools.ran().is_empty());
        // The text that came is kept, without the call that gets no answer.
        assert_eq!(*ran.report.text, "Let me");
        assert_eq!(ran.report.take_messages()[1..], [Message::from_model("Let me")]);
    }
}

#[tokio::test]
async fn chat_14_a_call_that_was_cut_off_is_told_and_never_run() {
    let cut_off = |name: &str| ProviderEvent::CutOffCall {
        name: name.into(),
        arguments: "{\"pa".into(),
    };
    let ran = run_script(vec![
        vec![text("Writing."), cut_off("write_file"), stop(StopReason::MaxTokens)],
        // A wire that passes a call on all the same changes nothing.
        vec![call("a", "echo", "{}"), stop(StopReason::MaxTokens)],
        vec![text("In pieces."), stop(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    assert!(ran.tools.ran().is_empty());
    assert!(matches!(&ran.asked[1][2], Message::User { text } if text.contains("a call of `write_file`")));
    assert!(
        ran.log
            .contains("notice The output limit cut off a call of `write_file`; it was not run.")
    );
    assert!(ran.log.contains("cut off a call of `echo`"));
    assert!(ran.log.contains("cut off write_file {\"pa\n") && ran.log.contains("cut off echo {}\n"));

    let again = || vec![cut_off("write_file"), stop(StopReason::MaxTokens)];
    let ran = run_script(vec![again(), again(), again(), again()]).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Output)));
    assert_eq!(ran.report.steps, limits::CUT_OFF_ROUNDS_MAX);
    assert_eq!(ran.report.undone, ["write_file"]);
}

#[tokio::test]
async fn text_that_the_output_limit_cut_off_is_partial() {
    let ran = run_script(vec![vec![text("It is"), stop(StopReason::MaxTokens)]]).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Output)));
    assert_eq!(*ran.report.text, "It is");
}

#[tokio::test]
async fn chat_16_a_printed_call_gets_one_hint_and_one_retry() {
    let printed = |is_quoted| ProviderEvent::TextCall {
        held: "{\"name\":\"echo\"}".into(),
        is_quoted,
    };
    let ran = run_script(vec![
        vec![printed(false), stop(StopReason::EndTurn)],
        vec![text("Sorry."), stop(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(*ran.report.text, "Sorry.");
    assert!(matches!(&ran.asked[1][2], Message::User { text } if text.contains("Nothing was run")));

    // The second time a quotation is the answer, and anything else is none.
    let twice = |is_quoted| {
        run_script(vec![
            vec![printed(is_quoted), stop(StopReason::EndTurn)],
            vec![printed(is_quoted), stop(StopReason::EndTurn)],
        ])
    };
    let ran = twice(true).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    assert_eq!(*ran.report.text, "{\"name\":\"echo\"}");
    let ran = twice(false).await;
    let Err(ProviderError::Failed(problem)) = ran.report.end else {
        panic!("{:?} is no failure", ran.report.end);
    };
    assert_eq!(problem.kind, ErrorKind::ToolsUnsupported);
    assert_eq!(*ran.report.text, "{\"name\":\"echo\"}", "it is shown all the same");
}

#[tokio::test]
async fn a_pause_is_continued_with_what_was_said() {
    let opaque = json!({"kept": [1]});
    let ran = run_script(vec![
        vec![
            text("Part one."),
            ProviderEvent::Stop {
                reason: StopReason::Pause,
                opaque: opaque.clone(),
            },
        ],
        vec![text("Part two."), stop(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    assert!(matches!(&ran.asked[1][1], Message::Assistant { opaque: kept, .. } if *kept == opaque));
}

#[tokio::test]
async fn a_refusal_is_told_apart() {
    let ran = run_script(vec![vec![text("No."), stop(StopReason::Refusal)]]).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Refused));
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_once_and_then_a_failure() {
    let empty = || vec![stop(StopReason::EndTurn)];
    let ran = run_script(vec![empty(), vec![text("Here."), stop(StopReason::EndTurn)]]).await;
    assert_eq!(
        (ran.report.end, ran.report.text.as_str()),
        (Ok(TurnEnd::Complete), "Here.")
    );
    let ran = run_script(vec![empty(), empty()]).await;
    assert!(
        matches!(&ran.report.end, Err(ProviderError::Failed(problem)) if problem.kind == ErrorKind::ProviderEmptyAnswer)
    );
}

#[tokio::test]
async fn a_turn_goes_on_where_another_ended_and_counts_on() {
    let provider = Scripted::new(vec![
        vec![text("One."), used(10, 2), stop(StopReason::EndTurn)],
        vec![text("Two."), used(20, 3), stop(StopReason::EndTurn)],
    ]);
    let (tools, log) = (Fakes::default(), Log::default());
    let mut first = run_turn(Turn::new(&provider, &tools, &log, "", ask())).await;
    let mut messages = first.take_messages();
    messages.push(Message::User {
        text: "And then?".into(),
    });
    let mut turn = Turn::new(&provider, &tools, &log, "", messages);
    (turn.steps, turn.usage) = (first.steps, first.usage);
    let mut second = run_turn(turn).await;
    let messages = second.take_messages();
    assert_eq!(
        (&messages[1], &messages[3]),
        (&Message::from_model("One."), &Message::from_model("Two."))
    );
    assert_eq!(messages.len(), 4);
    assert_eq!((second.end, second.text.as_str()), (Ok(TurnEnd::Complete), "Two."));
    assert_eq!((second.steps, second.usage.input_tokens), (2, 30));
    assert_eq!(provider.asked()[1].len(), 3);
    assert!(log.text().ends_with("usage 30+5 false"), "{}", log.text());
}

#[tokio::test]
async fn cancel_ends_a_silent_model_at_once() {
    let started = Instant::now();
    let ran = run_with(Scripted::new(vec![]), |turn| {
        let cancel = turn.cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        });
    })
    .await;
    assert_eq!(ran.report.end, Err(ProviderError::Cancelled));
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn calls_that_change_something_run_in_the_order_in_which_they_were_made() {
    let ran = run_script(vec![
        vec![
            call("a", "slow", "{\"n\":1}"),
            call("b", "slow", "{\"n\":2}"),
            call("c", "echo", "{}"),
            call("d", "slow", "{\"n\":3}"),
            stop(StopReason::ToolUse),
        ],
        vec![text("Done."), stop(StopReason::EndTurn)],
    ])
    .await;
    assert_eq!(ran.tools.ran(), ["a", "c", "b", "d"]);
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    // A call that ends the turn early does not hold up those that wait behind it.
    let provider = Scripted::new(vec![vec![
        call("a", "slow", "{}"),
        call("b", "slow", "{}"),
        stop(StopReason::ToolUse),
    ]]);
    let ran = run_with(provider, |turn| {
        turn.deadline = Some(Instant::now() + Duration::from_millis(10));
    })
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Time)));
    assert_eq!(ran.report.undone, ["slow", "slow"]);
}

/// Ignores every sign that it should stop.
struct Deaf;

impl Tools for Deaf {
    fn specs(&self) -> Vec<ToolSpec> {
        Fakes::default().specs()
    }

    fn run<'a>(&'a self, _call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cancel_leaves_no_call_without_an_answer() {
    let provider = Scripted::new(vec![vec![
        text("Running."),
        call("a", "forever", "{}"),
        stop(StopReason::ToolUse),
    ]]);
    let (log, started) = (Log::default(), Instant::now());
    let mut turn = Turn::new(&provider, &Deaf, &log, "", ask());
    let cancel = turn.cancel.clone();
    turn.deadline = Some(Instant::now() + Duration::from_secs(3600));
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    });
    let report = run_turn(turn).await;
    assert_eq!(report.end, Err(ProviderError::Cancelled));
    assert_eq!(
        results(&report.messages[2]),
        [("a", "Stopped: the session ended while it ran.", true)]
    );
    assert!(started.elapsed() < Duration::from_secs(limits::TOOLS_STOP_SECONDS_MAX + 15));
    assert!(log.text().contains("finish forever error=true"));
}

#[tokio::test]
async fn calls_run_at_the_same_time_but_not_all_and_a_flood_is_refused() {
    let mut round: Vec<_> = (0..limits::TOOL_CALLS_PER_ROUND_MAX + 1)
        .map(|n| call(&format!("c{n}"), "busy", &format!("{{\"n\":{n}}}")))
        .collect();
    round.push(stop(StopReason::ToolUse));
    let ran = run_script(vec![round, vec![text("Done."), stop(StopReason::EndTurn)]]).await;
    assert_eq!(ran.tools.ran().len(), limits::TOOL_CALLS_PER_ROUND_MAX);
    assert_eq!(
        ran.tools.running.lock().expect("no test panics here").1,
        limits::TOOL_CALLS_CONCURRENT_MAX
    );
    let answers = results(&ran.report.messages[2]);
    assert_eq!(answers.len(), limits::TOOL_CALLS_PER_ROUND_MAX + 1);
    assert!(
        answers[limits::TOOL_CALLS_PER_ROUND_MAX]
            .1
            .starts_with("Not run: at most")
    );
}

#[tokio::test]
async fn chat_12_usage_is_summed_and_estimated_where_it_was_never_reported() {
    let ran = run_script(vec![vec![text("Twelve bytes"), stop(StopReason::EndTurn)]]).await;
    assert!(ran.report.usage.estimated);
    assert_eq!(ran.report.usage.output_tokens, 3);
    assert!(ran.report.usage.input_tokens > 3);
    let ran = run_script(vec![vec![text("x"), used(3, 1), used(5, 2), stop(StopReason::EndTurn)]]).await;
    assert_eq!((ran.report.usage.input_tokens, ran.report.usage.output_tokens), (5, 2));
    assert!(!ran.report.usage.estimated);
}
