//! Whole turns: the loop over the real wires and the scripted server, which refuses what the vendors refuse.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::turn::{self, Observer, Tools, Turn, TurnEnd, TurnReport, TurnStep};

/// Answers every call, and counts.
#[derive(Default)]
struct Bench {
    ran: AtomicUsize,
    notices: Mutex<Vec<String>>,
}

impl Tools for Bench {
    fn specs(&self) -> Vec<ToolSpec> {
        let parameters = json!({
            "type": "object",
            "properties": {"path": {"type": ["string", "null"], "description": "A path."}},
            "additionalProperties": false,
        });
        ["read_file", "list_files"]
            .map(|name| ToolSpec {
                name: name.into(),
                description: format!("Does {name}."),
                parameters: parameters.clone(),
            })
            .into()
    }

    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed);
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: format!("{ran}: {} {}", call.name, call.arguments),
            is_error: false,
            origin: crate::TextOrigin::Repository,
        };
        Box::pin(async move { result })
    }
}

impl Observer for Bench {
    fn step(&self, step: TurnStep<'_>) {
        if let TurnStep::Notice(notice) = step {
            self.notices
                .lock()
                .expect("no test panics here")
                .push(notice.to_owned());
        }
    }
}

struct Turned {
    report: TurnReport,
    ran: usize,
    notices: Vec<String>,
}

impl Turned {
    fn is_complete(&self) -> bool {
        matches!(self.report.end, Ok(TurnEnd::Complete))
    }

    fn results(&self) -> Vec<&ToolResult> {
        let results = self.report.messages.iter().filter_map(|message| match message {
            Message::ToolResults { results } => Some(results),
            _ => None,
        });
        results.flatten().collect()
    }
}

async fn turned(settings: &ProviderSettings) -> Turned {
    let provider = connect_with(settings, &options()).expect("the settings are valid");
    let bench = Bench::default();
    let report = turn::run_turn(Turn::new(&*provider, &bench, &bench, "Be brief.", messages())).await;
    Turned {
        report,
        ran: bench.ran.into_inner(),
        notices: bench.notices.into_inner().expect("no test panics here"),
    }
}

fn call(name: &str) -> ScriptedCall {
    ScriptedCall::new(name, json!({"path": "a"}))
}

fn of(api: ProviderApi, server: &ModelServer) -> ProviderSettings {
    let all = wires(server);
    all.into_iter()
        .find(|settings| settings.api == api)
        .expect("all wires are there")
}

#[tokio::test]
async fn messages_9_chat_13_generate_content_19_rounds_of_parallel_calls_are_answered_once_and_in_order() {
    for api in [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent] {
        let server = server([
            Round::new([
                ServerStep::Reasoning("Hm.".into()),
                ServerStep::Text("Let me look.".into()),
                ServerStep::ToolCalls(vec![call("read_file"), call("list_files"), call("read_file")]),
            ]),
            Round::calls([ScriptedCall {
                no_id: true,
                ..call("list_files")
            }]),
            Round::text("It is a library."),
        ]);
        let turned = turned(&of(api, &server)).await;
        assert!(turned.is_complete(), "{api:?}: {:?}", turned.report.end);
        assert_eq!(*turned.report.text, "Let me look.\n\nIt is a library.", "{api:?}");
        assert_eq!(turned.ran, 4, "{api:?}");
        // The server is strict: it has refused nothing of what came back, ids, order, thinking and signatures included.
        assert_eq!(server.requests().len(), 3, "{api:?}");
        let names: Vec<&str> = turned.results().iter().map(|result| result.name.as_str()).collect();
        assert_eq!(names, ["read_file", "list_files", "read_file", "list_files"], "{api:?}");
        let safe = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        assert!(turned.results().iter().all(|result| safe(&result.call_id)), "{api:?}");
    }
}

#[tokio::test]
async fn retry_24_a_tool_is_never_run_twice_by_a_retry() {
    for api in [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent] {
        let server = server([
            Round::calls([call("read_file")]),
            Round::status(503, Value::Null),
            Round::status(429, Value::Null),
            Round::text("Done."),
        ]);
        let turned = turned(&of(api, &server)).await;
        assert!(turned.is_complete(), "{api:?}: {:?}", turned.report.end);
        assert_eq!((turned.ran, server.requests().len()), (1, 4), "{api:?}");
        let waits = turned
            .notices
            .iter()
            .filter(|notice| notice.contains("trying again in"));
        assert_eq!(waits.count(), 2, "{api:?}: {:?}", turned.notices);
    }
}

#[tokio::test]
async fn sse_3_no_tool_runs_of_an_answer_that_broke_off_on_any_wire() {
    for api in [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent] {
        for end in [ServerStep::End, ServerStep::Reset, ServerStep::Error(json!(529))] {
            let calls = ServerStep::ToolCalls(vec![call("read_file")]);
            let server = server([
                Round::new([ServerStep::Text("Hi".into()), calls, end.clone()]),
                Round::text("never"),
            ]);
            let turned = turned(&of(api, &server)).await;
            assert!(turned.report.end.is_err(), "{api:?} {end:?}");
            assert_eq!((turned.ran, server.requests().len()), (0, 1), "{api:?} {end:?}");
            assert_eq!(*turned.report.text, "Hi", "{api:?} {end:?}: what came is kept");
        }
    }
}

#[tokio::test]
async fn chat_12_usage_that_never_comes_is_estimated_and_said_to_be() {
    for api in [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent] {
        let usage = ScriptedUsage {
            input: 900,
            output: 3,
            cached: 100,
        };
        let server = server([Round::new([ServerStep::Text("Hi".into()), ServerStep::Usage(usage)])]);
        let turned = turned(&of(api, &server)).await;
        let usage = turned.report.usage;
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            (900, 100, 3),
            "{api:?}"
        );
        assert!(!usage.estimated, "{api:?}");
    }
    let server = server([Round::text("Hi")]);
    let usage = turned(&of(ProviderApi::Chat, &server)).await.report.usage;
    assert!(
        usage.estimated && usage.input_tokens > 0 && usage.output_tokens == 1,
        "{usage:?}"
    );
}

#[tokio::test]
async fn chat_14_a_call_that_the_output_limit_cut_off_is_told_on_every_wire() {
    for api in [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent] {
        let server = server([
            Round::new([
                ServerStep::ToolCalls(vec![call("read_file")]),
                ServerStep::Finish("length".into()),
                ServerStep::Done,
            ]),
            Round::text("In smaller steps, then."),
        ]);
        let turned = turned(&of(api, &server)).await;
        assert_eq!(turned.ran, 0, "{api:?}");
        let told = server.requests()[1].body.to_string();
        assert!(told.contains("reached the output limit"), "{api:?}: {told}");
    }
}

#[tokio::test]
async fn chat_15_calls_that_cannot_run_are_tool_errors_that_say_why() {
    let odd = |name: &str, arguments: Value| ScriptedCall::new(name, arguments);
    let server = server([
        Round::calls([
            odd("Read_File", json!({})),
            odd("nothing_like_it", json!({})),
            odd("read_file", json!("[1]")),
            odd("read_file", json!("{\"path\":")),
        ]),
        Round::text("Done."),
    ]);
    let turned = turned(&of(ProviderApi::Chat, &server)).await;
    assert!(turned.is_complete(), "{:?}", turned.report.end);
    let results = turned.results();
    assert!(results.iter().all(|result| result.is_error) && turned.ran == 0);
    assert!(
        results[0].text.contains("Did you mean `read_file`?"),
        "{}",
        results[0].text
    );
    assert!(
        results[1].text.contains("The tools are `read_file`, `list_files`"),
        "{}",
        results[1].text
    );
    assert!(
        results[2]
            .text
            .ends_with("at ``: expected a JSON object, got an array."),
        "{}",
        results[2].text
    );
    assert!(
        results[3].text.contains("got text that is not JSON"),
        "{}",
        results[3].text
    );
}

#[tokio::test]
async fn chat_16_a_printed_call_runs_where_the_configuration_allows_it_and_else_gets_one_hint() {
    let rounds = || {
        [
            Round::new([ServerStep::TextCall(call("read_file"))]),
            Round::text("Done."),
        ]
    };
    let server = server(rounds());
    let allowed = ProviderSettings {
        text_calls: true,
        ..of(ProviderApi::Chat, &server)
    };
    let ran = turned(&allowed).await;
    assert!(ran.is_complete() && ran.ran == 1, "{:?}", ran.report.end);

    let server = super::server(rounds());
    let refused = turned(&of(ProviderApi::Chat, &server)).await;
    assert!(refused.is_complete() && refused.ran == 0, "{:?}", refused.report.end);
    let told = server.requests()[1].body.to_string();
    assert!(told.contains("has the form of a tool call, printed as text"), "{told}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn messages_8_a_pause_goes_on_with_what_was_said() {
    let server = server([
        Round::new([
            ServerStep::Text("Half ".into()),
            ServerStep::Finish("pause_turn".into()),
            ServerStep::Done,
        ]),
        Round::text("and whole."),
    ]);
    let turned = turned(&of(ProviderApi::Messages, &server)).await;
    assert!(turned.is_complete(), "{:?}", turned.report.end);
    let sent = &server.requests()[1].body["messages"];
    assert_eq!(sent[1]["role"], "assistant", "{sent}");
}

#[tokio::test]
async fn generate_content_15_a_call_that_nobody_could_read_is_asked_for_again_and_a_bounded_number_of_times() {
    let broken = || {
        let said = json!({"candidates": [{"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}]});
        Round::new([ServerStep::Frame(said), ServerStep::End])
    };
    let server = server([broken(), Round::calls([call("read_file")]), Round::text("Done.")]);
    let turned_well = turned(&of(ProviderApi::GenerateContent, &server)).await;
    assert!(
        turned_well.is_complete() && turned_well.ran == 1,
        "{:?}",
        turned_well.report.end
    );
    let told = server.requests()[1].body.to_string();
    assert!(told.contains("Your last tool call could not be read"), "{told}");

    let server = super::server((0..9).map(|_| broken()));
    let given_up = turned(&of(ProviderApi::GenerateContent, &server)).await;
    let Err(ProviderError::Failed(problem)) = &given_up.report.end else {
        panic!("it never worked: {:?}", given_up.report.end);
    };
    assert_eq!(
        problem.message,
        "The model's tool calls cannot be read: MALFORMED_FUNCTION_CALL"
    );
    assert_eq!(server.requests().len() as u32, limits::CUT_OFF_ROUNDS_MAX);
}
