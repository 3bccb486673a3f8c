//! The probe against the scripted model server.

use serde_json::json;

use std::time::Duration;

use super::*;
use tool_config::Secret;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall, ScriptedUsage, ServerStep};

const KEY: &str = "sk-very-secret-1234567890";

fn settings(url: &str) -> ProviderSettings {
    ProviderSettings {
        api_key: Some(Secret::new(KEY)),
        ..ProviderSettings::new(ProviderName::Local, ProviderApi::Chat, url, "scripted")
    }
}

fn options() -> Options {
    Options {
        first_byte: Duration::from_millis(800),
        idle: Duration::from_millis(300),
        retry_base: Duration::from_millis(5),
        ..Options::default()
    }
}

fn counting() -> Round {
    let usage = ScriptedUsage {
        input: 30,
        output: 9,
        cached: 0,
    };
    Round::new([
        ServerStep::Pieces(vec!["one, ".into(), "two".into()]),
        ServerStep::Usage(usage),
    ])
}

fn call(name: &str, arguments: Value) -> ScriptedCall {
    ScriptedCall::new(name, arguments)
}

fn counted(calls: Vec<ScriptedCall>) -> Round {
    let usage = ScriptedUsage {
        input: 50,
        output: 9,
        cached: 0,
    };
    Round::new([ServerStep::ToolCalls(calls), ServerStep::Usage(usage)])
}

async fn report(rounds: impl IntoIterator<Item = Round>) -> String {
    let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
    shown(&probe_provider(&settings(&server.url()), &options()).await)
}

fn shown(report: &ProbeReport) -> String {
    let lines = report.checks.iter().map(|check| {
        let verdict = serde_json::to_value(check.verdict).expect("a verdict is a word");
        let (verdict, detail) = (verdict.as_str().unwrap_or_default(), &check.detail);
        format!(
            "{}: {verdict}: {}",
            check.name,
            detail.replace("; ", "\n  ").replace("it: ", "it\n  ")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_probe_of_a_server_that_does_everything_right() {
    let shown = report([
        counting(),
        counted(vec![call("weather", json!({"city": "Oslo"}))]),
        counted(vec![
            call("weather", json!({"city": "Oslo"})),
            call("weather", json!({"city": "Lima"})),
        ]),
        counted(vec![call("clock", json!({}))]),
    ])
    .await;
    insta::assert_snapshot!(shown, @r#"
    streaming: works: 2 pieces, 30 tokens in, 9 out
    one tool: works: called with its argument
    parallel tools: works: 2 calls in one answer
    empty arguments: works: called without arguments
    context size: worked_around: the server does not tell it
      200000 tokens are assumed, and its own count tells what it cut
    models: works: 1 listed, `scripted` among them
    "#);
}

#[tokio::test]
async fn a_probe_names_what_is_worked_around() {
    let nameless = ScriptedCall {
        id: Some(String::new()),
        ..call("weather", json!("\"{\\\"city\\\":\\\"Oslo\\\"}\""))
    };
    let shown = report([
        Round::new([
            ServerStep::Text("one, two".into()),
            ServerStep::Finish("stop".into()),
            ServerStep::End,
        ]),
        Round::new([
            ServerStep::ToolCalls(vec![nameless]),
            ServerStep::Finish("stop".into()),
            ServerStep::End,
        ]),
        Round::calls([call("weather", json!({"city": "Oslo"}))]),
        counted(vec![call("clock", Value::Null)]),
    ])
    .await;
    insta::assert_snapshot!(shown, @r#"
    streaming: worked_around: 1 piece
      no token counts: they are estimated
      no end mark: the finish reason ends the answer
      the answer came in one piece: nothing can be shown while it is written
    one tool: worked_around: called with its argument
      calls under another finish reason
      calls without an identifier: one is made
      arguments encoded twice
    parallel tools: worked_around: one call at a time: the next one is asked for in another round
    empty arguments: worked_around: called without arguments
      empty arguments: read as `{}`
    context size: worked_around: the server does not tell it
      200000 tokens are assumed, and its own count tells what it cut
    models: works: 1 listed, `scripted` among them
    "#);
}

#[tokio::test]
async fn a_probe_of_a_model_without_tools() {
    let printed = r#"<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>"#;
    let shown = report([
        counting(),
        Round::text(printed),
        Round::text("It rains in Oslo."),
        Round::status(400, json!({"error": {"message": "scripted does not support tools"}})),
    ])
    .await;
    insta::assert_snapshot!(shown, @r#"
    streaming: works: 2 pieces, 30 tokens in, 9 out
    one tool: fails: the model prints its tool calls as text
      `text_calls = true` in [providers.local] of config.toml lets them count
    parallel tools: fails: the model answered without calling the tool
    empty arguments: fails: The model `scripted` cannot call tools here: scripted does not support tools
    context size: worked_around: the server does not tell it
      200000 tokens are assumed, and its own count tells what it cut
    models: works: 1 listed, `scripted` among them
    "#);
}

#[tokio::test]
async fn a_probe_reads_printed_calls_where_the_configuration_allows_it() {
    let printed = r#"<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>"#;
    let server = ModelServer::start(Script::new([counting(), Round::text(printed)])).expect("loopback has a free port");
    let settings = ProviderSettings {
        text_calls: true,
        ..settings(&server.url())
    };
    let report = probe_provider(&settings, &options()).await;
    assert_eq!(
        (report.checks[1].verdict, &*report.checks[1].detail),
        (WorkedAround, &*format!("called with its argument; {PRINTED}"))
    );
}

#[tokio::test]
async fn a_probe_of_a_server_that_is_not_there_asks_once_and_names_no_key() {
    let refused = format!("bad key {KEY}");
    let server = ModelServer::start(Script::new([Round::status(
        400,
        json!({"error": {"message": refused}}),
    )]));
    let server = server.expect("loopback has a free port");
    let (address, url) = (server.address().to_string(), server.url());
    let report = probe_provider(&settings(&url), &options()).await;
    assert_eq!(server.requests().len(), 1);
    assert!(!shown(&report).contains(KEY), "{}", shown(&report));
    drop(server);
    let shown = shown(&probe_provider(&settings(&url), &options()).await).replace(&address, "ADDRESS");
    insta::assert_snapshot!(shown, @r#"
    streaming: fails: Connection refused: ADDRESS
    one tool: fails: not tried, since streaming fails
    parallel tools: fails: not tried, since streaming fails
    empty arguments: fails: not tried, since streaming fails
    context size: fails: the server does not tell it
      200000 tokens are assumed, and its own count tells what it cut
    models: fails: no list (Connection refused: ADDRESS): only the configured model is shown
    "#);
}

#[tokio::test]
async fn a_probe_waits_for_nobody_for_ever() {
    let started = std::time::Instant::now();
    let shown = report([Round::new([ServerStep::Stall])]).await;
    assert!(shown.starts_with("streaming: fails: The provider at "), "{shown}");
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_probe_of_the_analyst_and_of_settings_that_allow_no_request() {
    let analyst = ProviderSettings {
        api: ProviderApi::Analyst,
        ..settings("builtin:analyst")
    };
    let report = probe_provider(&analyst, &options()).await;
    assert_eq!(report.checks.len(), 6);
    assert!(report.checks.iter().all(|check| check.verdict == Works));
    let report = probe_provider(&settings("ftp://h"), &options()).await;
    let told = |check: &ProbeCheck| check.verdict == Fails && check.detail.contains("cannot be used");
    assert!(report.checks.iter().all(told), "{report:?}");
}

#[tokio::test]
async fn a_probe_of_every_wire_that_is_as_it_should_be() {
    for (api, path) in [
        (ProviderApi::Messages, ""),
        (ProviderApi::Chat, "/v1"),
        (ProviderApi::GenerateContent, ""),
    ] {
        let rounds = [
            counting(),
            counted(vec![call("weather", json!({"city": "Oslo"}))]),
            counted(vec![
                call("weather", json!({"city": "Oslo"})),
                call("weather", json!({"city": "Lima"})),
            ]),
            counted(vec![call("clock", json!({}))]),
        ];
        let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
        let settings = ProviderSettings {
            name: ProviderName::Hosted,
            api,
            ..settings(&format!("{}{path}", server.root()))
        };
        let report = probe_provider(&settings, &options()).await;
        assert!(
            report.checks.iter().all(|check| check.verdict == Works),
            "{api:?}: {}",
            shown(&report)
        );
    }
}

#[tokio::test]
async fn a_check_of_a_probe_has_a_bounded_time() {
    let _hurried = crate::limits::pace::hurried(200);
    let server = ModelServer::start(Script::new([Round::new([ServerStep::Stall])])).expect("loopback has a free port");
    // The silence within an answer alone would be waited for longer.
    let patient = Options::default();
    let settings = settings(&server.url());
    let probing = probe_provider(&settings, &patient);
    let patience = std::time::Duration::from_secs(20);
    let report = tokio::time::timeout(patience, probing).await.expect("it is given up");
    let detail = &report.checks[0].detail;
    assert!(detail.contains("no whole answer within 120 s"), "{detail}");
}

#[tokio::test]
async fn one_slow_answer_does_not_end_the_other_checks() {
    let shown = report([
        Round::new([ServerStep::Text("one, ".into()), ServerStep::Stall]),
        counted(vec![call("weather", json!({"city": "Oslo"}))]),
        Round::new([ServerStep::Stall]),
        counted(vec![call("clock", json!({}))]),
    ])
    .await;
    let verdicts: Vec<&str> = shown.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(verdicts[0].starts_with("streaming: fails: "), "{shown}");
    assert_eq!(verdicts[1], "one tool: works: called with its argument");
    assert!(verdicts[2].starts_with("parallel tools: fails: "), "{shown}");
    assert_eq!(verdicts[3], "empty arguments: works: called without arguments");
}

#[tokio::test]
async fn a_probe_bounds_its_answers() {
    for name in [ProviderName::Router, ProviderName::Local] {
        let server = ModelServer::start(Script::new([counting()])).expect("loopback has a free port");
        let settings = ProviderSettings {
            name,
            ..settings(&server.url())
        };
        probe_provider(&settings, &options()).await;
        let body = &server.requests()[0].body;
        assert_eq!(body["max_tokens"], PROBE_OUTPUT_TOKENS);
    }
}
