//! Bounds of a turn: rounds, tokens, time, repetitions, and the context.

use super::*;
use tool_core::api::ErrorKind;

#[tokio::test]
async fn the_limit_of_rounds_ends_with_a_closing_answer() {
    let calls = |id: &str, n: u32| vec![call(id, "echo", &format!("{{\"n\":{n}}}")), stop(StopReason::ToolUse)];
    let provider = Scripted::new(vec![
        calls("a", 1),
        calls("b", 2),
        vec![text("What I know."), call("c", "echo", "{}"), stop(StopReason::ToolUse)],
    ]);
    let ran = run_with(provider, |turn| turn.steps_max = 2).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Steps)));
    assert_eq!(*ran.report.text, "What I know.");
    assert_eq!(ran.tools.ran(), ["a"]);
    assert_eq!(
        results(&ran.report.messages[4]),
        [("b", "Not run: the limit of rounds is reached.", true)]
    );
    assert!(ran.log.contains(
        "notice No more tools can be used: the limit of rounds is reached. The model is asked for a closing answer."
    ));
    assert_eq!(ran.report.undone, ["echo"]);
}

#[tokio::test]
async fn the_same_call_with_the_same_answer_ends_the_turn() {
    let mut rounds: Vec<_> = (0..limits::TOOL_CALL_REPEATS_MAX)
        .map(|n| vec![call(&format!("a{n}"), "echo", "{\"n\":1}"), stop(StopReason::ToolUse)])
        .collect();
    rounds.push(vec![text("I am stuck."), stop(StopReason::EndTurn)]);
    let ran = run_script(rounds).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Repetition)));
    assert_eq!(*ran.report.text, "I am stuck.");
    assert_eq!(ran.report.undone, ["echo"]);
    assert_eq!(ran.tools.ran().len(), limits::TOOL_CALL_REPEATS_MAX);
}

fn is_out_of_tokens(report: &TurnReport) -> bool {
    matches!(report.end, Ok(TurnEnd::Exhausted(Budget::Tokens { .. })))
}

#[tokio::test]
async fn the_limit_of_tokens_ends_before_the_next_request() {
    let provider = Scripted::new(vec![vec![
        text("Looking."),
        call("a", "echo", "{}"),
        used(900, 200),
        stop(StopReason::ToolUse),
    ]]);
    let ran = run_with(provider, |turn| turn.tokens_max = Some(1000)).await;
    assert!(is_out_of_tokens(&ran.report), "{:?}", ran.report.end);
    assert_eq!(ran.report.steps, 1);
    assert_eq!(*ran.report.text, "Looking.");
}

#[tokio::test]
async fn a_request_that_alone_passes_the_limit_of_tokens_is_not_made() {
    let ran = run_with(Scripted::new(vec![]), |turn| {
        turn.tokens_max = Some(1000);
        turn.messages = vec![Message::User { text: "x".repeat(4000) }];
    })
    .await;
    assert!(
        matches!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Tokens { needed })) if needed > 1000),
        "{:?}",
        ran.report.end
    );
    assert_eq!((ran.report.steps, ran.asked.len()), (0, 0));
}

#[tokio::test]
async fn the_rest_of_the_tokens_bounds_an_answer_where_it_is_little() {
    let bounds = |tokens_max: Option<u64>, usual: Option<u32>| async move {
        let provider = Scripted::new(vec![vec![text("x"), stop(StopReason::EndTurn)]]);
        let bounds = Arc::clone(&provider.bounds);
        run_with(provider, |turn| {
            turn.tokens_max = tokens_max;
            turn.output_tokens_max = usual;
        })
        .await;
        let bounds = bounds.lock().expect("no test panics here");
        bounds[0]
    };
    assert_eq!(bounds(None, None).await, None);
    assert_eq!(bounds(None, Some(9)).await, Some(9));
    assert_eq!(bounds(Some(100_000), None).await, None);
    assert_eq!(bounds(Some(1000), Some(9)).await, Some(9));
    let lowered = bounds(Some(1000), None).await.expect("little is left");
    assert!((900..1000).contains(&lowered), "{lowered}");

    // An answer that this bound cuts off was cut off by the limit of tokens, not by the model's own.
    for round in [
        vec![text("It is"), stop(StopReason::MaxTokens)],
        vec![
            ProviderEvent::CutOffCall {
                name: "echo".into(),
                arguments: String::new(),
            },
            stop(StopReason::MaxTokens),
        ],
    ] {
        let ran = run_with(Scripted::new(vec![round]), |turn| turn.tokens_max = Some(1000)).await;
        assert!(is_out_of_tokens(&ran.report), "{:?}", ran.report.end);
        assert_eq!(ran.report.steps, 1);
    }
}

#[tokio::test]
async fn the_time_limit_ends_a_silent_model_and_a_running_tool() {
    let ran = run_with(Scripted::new(vec![]), |turn| {
        turn.deadline = Some(Instant::now() + Duration::from_millis(60))
    })
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Time)));

    let provider = Scripted::new(vec![vec![
        call("a", "forever", "{}"),
        call("b", "echo", "{}"),
        stop(StopReason::ToolUse),
    ]]);
    let ran = run_with(provider, |turn| {
        turn.deadline = Some(Instant::now() + Duration::from_millis(60))
    })
    .await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Exhausted(Budget::Time)));
    assert!(ran.tools.stopped.is_cancelled());
    assert_eq!(ran.report.undone, ["forever"]);
    // The tool saw the stop and answered for itself.
    assert_eq!(
        results(&ran.report.messages[2]),
        [("a", "forever {}", false), ("b", "echo {}", false)]
    );
}

#[tokio::test]
async fn an_overflow_is_tried_once_more_without_the_old_results() {
    let overflow = || {
        vec![Err(ProviderError::Failed(Problem::new(
            ErrorKind::ContextLengthExceeded,
            "Too long.",
        )))]
    };
    let calls = |id: &str, n: &str| {
        vec![
            Ok(call(id, "echo", &format!("{{\"n\":\"{n}\"}}"))),
            Ok(stop(StopReason::ToolUse)),
        ]
    };
    let long = "x".repeat(2000);
    let provider = Scripted::failing(vec![
        calls("a", &long),
        calls("b", "2"),
        overflow(),
        vec![Ok(text("Now it fits.")), Ok(stop(StopReason::EndTurn))],
    ]);
    let ran = run_with(provider, |_| {}).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete));
    assert!(
        ran.log
            .contains("notice The conversation grew long: 1 old tool results were dropped from it.")
    );

    let ran = run_with(Scripted::failing(vec![overflow()]), |_| {}).await;
    assert!(
        matches!(&ran.report.end, Err(ProviderError::Failed(problem)) if problem.kind == ErrorKind::ContextLengthExceeded)
    );
}

#[tokio::test]
async fn a_conversation_that_cannot_be_shortened_ends_in_the_specifications_words() {
    let ran = run_with(Scripted::new(vec![]), |turn| {
        turn.context_tokens = 1000;
        turn.messages = vec![Message::User { text: "x".repeat(4000) }];
    })
    .await;
    let Err(ProviderError::Failed(problem)) = &ran.report.end else {
        panic!("{:?}", ran.report.end);
    };
    assert_eq!(problem.message, "Context length exceeded: 1000 tokens");
    assert!(
        problem
            .hint
            .as_ref()
            .is_some_and(|hint| hint.starts_with("target fewer or smaller files"))
    );
    assert!(ran.asked.is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_long_conversation_forgets_old_results_and_goes_on() {
    let long = "x".repeat(2000);
    let mut rounds: Vec<_> = (0..10)
        .map(|n| {
            let arguments = format!("{{\"n\":{n},\"x\":\"{long}\"}}");
            vec![call(&format!("a{n}"), "echo", &arguments), stop(StopReason::ToolUse)]
        })
        .collect();
    rounds.push(vec![text("Done."), stop(StopReason::EndTurn)]);
    let ran = run_with(Scripted::new(rounds), |turn| turn.context_tokens = 10_500).await;
    assert_eq!(ran.report.end, Ok(TurnEnd::Complete), "{}", ran.log);
    let last = ran.asked.last().expect("it was asked");
    assert_eq!(last[0], ask()[0], "the request stays");
    let dropped = last.iter().filter(|message| {
        matches!(message, Message::ToolResults { results } if results[0].text.starts_with("[This result of `echo`"))
    });
    assert!(dropped.count() >= 2);
    assert!(results(&last[last.len() - 1])[0].1.starts_with("echo {\"n\":9"));
}

#[tokio::test]
async fn long_results_are_cut() {
    let long = "é".repeat(limits::TOOL_RESULT_BYTES_MAX);
    let ran = run_script(vec![
        vec![
            call("a", "echo", &format!("{{\"n\":\"{long}\"}}")),
            stop(StopReason::ToolUse),
        ],
        vec![text("Done."), stop(StopReason::EndTurn)],
    ])
    .await;
    let answer = results(&ran.report.messages[2])[0].1.to_owned();
    assert!(answer.len() < limits::TOOL_RESULT_BYTES_MAX + 100);
    assert!(
        answer.ends_with("bytes; ask for less at once]"),
        "{}",
        &answer[answer.len() - 60..]
    );
}

#[test]
fn the_bounds_of_a_turn_are_those_of_limits() {
    let (provider, tools) = (Scripted::new(Vec::new()), Fakes::default());
    let turn = Turn::new(&provider, &tools, &Silent, "", Vec::new());
    assert_eq!(turn.steps_max, limits::TURN_STEPS_MAX);
    assert_eq!(turn.context_tokens, limits::CONTEXT_TOKENS);
}

#[tokio::test]
async fn a_request_without_room_for_an_answer_is_not_made() {
    let ran = |tokens_max: u64| {
        run_with(
            Scripted::new(vec![vec![text("x"), stop(StopReason::EndTurn)]]),
            move |turn| {
                turn.tokens_max = Some(tokens_max);
            },
        )
    };
    let Ok(TurnEnd::Exhausted(Budget::Tokens { needed })) = ran(1).await.report.end else {
        panic!("one token is not enough")
    };
    assert_eq!(ran(needed + OUTPUT_TOKENS_MIN - 1).await.asked.len(), 0);
    assert_eq!(ran(needed + OUTPUT_TOKENS_MIN).await.asked.len(), 1);
}

#[tokio::test]
async fn a_provider_that_never_stops_talking_is_cut_off() {
    let megabyte = || "x".repeat(1024 * 1024);
    let thought = || ProviderEvent::Reasoning(megabyte());
    let message = |ran: &Ran| match &ran.report.end {
        Err(ProviderError::Failed(problem)) => problem.message.clone(),
        other => format!("{other:?}"),
    };
    let mut round: Vec<ProviderEvent> = (0..8).map(|_| thought()).collect();
    round.extend([text("."), stop(StopReason::EndTurn)]);
    let ran = run_script(vec![round]).await;
    assert_eq!(
        message(&ran),
        "The provider sent more than 8 MiB of text and thinking in one answer"
    );
    let rounds = (0..5).map(|n| {
        let mut round: Vec<ProviderEvent> = (0..7).map(|_| thought()).collect();
        round.extend([
            call(&format!("a{n}"), "echo", &format!("{{\"n\":{n}}}")),
            stop(StopReason::ToolUse),
        ]);
        round
    });
    let ran = run_script(rounds.collect()).await;
    assert_eq!(
        message(&ran),
        "The provider sent more than 32 MiB of text and thinking in its answers"
    );
    assert_eq!(ran.tools.ran().len(), 4);
}
