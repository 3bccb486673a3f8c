//! Faults of a provider, on every wire: the message, the exit code, no tool twice, and no key anywhere.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, RecordedRequest, RetryAfter, Round, ScriptedCall, ScriptedStatus, ServerStep};

use super::{ALL, CHAT, GENERATE_CONTENT, KEY, LOCAL, MESSAGES, ROUTER, Wire, repository, serve};
use crate::support::{Finished, Home};

/// One of each wire.
const WIRES: [Wire; 3] = [ROUTER, MESSAGES, GENERATE_CONTENT];

/// Settings that let a server be silent only for a second.
const IMPATIENT: &str = "first_byte_seconds = 1\nidle_seconds = 1";

/// A run whose model first reads a file, and then meets the fault.
struct Met {
    wire: Wire,
    finished: Finished,
    requests: Vec<RecordedRequest>,
    /// The skills that ran, as the journal has them.
    skills: Vec<String>,
    address: String,
}

impl Met {
    fn new(wire: Wire, rounds: impl IntoIterator<Item = Round>) -> Self {
        let read = ScriptedCall::new("read_file", json!({"path": "app.py"}));
        let first = Round::new([
            ServerStep::Text("Let me look.".into()),
            ServerStep::ToolCalls(vec![read]),
        ]);
        let server = serve(std::iter::once(first).chain(rounds));
        Self::at(wire, &server)
    }

    fn at(wire: Wire, server: &ModelServer) -> Self {
        let home = Home::configured(&wire.config(server, IMPATIENT));
        let repository = repository();
        let finished = wire.run(&home, &repository, &["explain", "."]);
        no_key_anywhere(&home, &repository, &finished);
        Self {
            wire,
            finished,
            requests: server.requests(),
            skills: skills(&home),
            address: server.address().to_string(),
        }
    }

    /// It failed with this message and a hint that begins so, and the one tool ran once.
    #[track_caller]
    fn failed(&self, message: &str, hint: &str) -> &Self {
        let Met { wire, finished, .. } = self;
        let stderr = &finished.stderr;
        assert_eq!(finished.code, 1, "{wire:?}: {stderr}\n{}", finished.stdout);
        assert!(stderr.contains(&format!("[error] {message}")), "{wire:?}: {stderr}");
        assert!(stderr.contains(&format!("\nhint: {hint}")), "{wire:?}: {stderr}");
        assert_eq!(self.skills, ["read_file"], "{wire:?}: a tool ran twice, or not at all");
        self
    }

    /// So many requests in all, the first one included.
    #[track_caller]
    fn asked(&self, requests: usize) -> &Self {
        assert_eq!(
            self.requests.len(),
            requests,
            "{:?}: {}",
            self.wire,
            self.finished.stderr
        );
        self
    }
}

/// The skills that ran in the one session of a home.
fn skills(home: &Home) -> Vec<String> {
    let mut names = Vec::new();
    for session in std::fs::read_dir(home.path().join("sessions"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let journal = std::fs::read_to_string(session.path().join("journal.jsonl")).expect("a journal");
        let entries = journal
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        names.extend(entries.filter_map(|entry| match entry["entry"]["kind"].as_str() {
            Some("tool") => entry["entry"]["name"].as_str().map(str::to_owned),
            _ => None,
        }));
    }
    names
}

/// Looks for the key in what was printed, in the whole home (log, journals, history) and in the reports.
#[track_caller]
pub(super) fn no_key_anywhere(home: &Home, repository: &TempDir, finished: &Finished) {
    assert!(!finished.stdout.contains(KEY), "the key is on standard output");
    assert!(!finished.stderr.contains(KEY), "the key is on standard error");
    let log = std::fs::read_to_string(home.path().join("backend.log")).expect("a log");
    assert!(
        log.contains("TRACE") || log.contains("DEBUG"),
        "the log says all it could: {log}"
    );
    let mut looked_at = 0;
    for root in [home.path(), &repository.path().join("session-reports")] {
        for file in files(root) {
            // The daemon may still be tidying up; what has gone holds nothing any more.
            let Ok(content) = std::fs::read(&file) else { continue };
            let found = content.windows(KEY.len()).any(|window| window == KEY.as_bytes());
            assert!(!found, "the key is in {}", file.display());
            looked_at += 1;
        }
    }
    assert!(
        looked_at >= 6,
        "journal, summary, log, report and history are there: {looked_at}"
    );
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.is_file())
        .collect()
}

/// An error of the wire's own that quotes the key, as some vendors do.
fn status(code: u16) -> ScriptedStatus {
    ScriptedStatus {
        message: Some(format!("no luck with {KEY}")),
        ..ScriptedStatus::new(code, Value::Null)
    }
}

fn round(status: ScriptedStatus) -> Round {
    Round::new([ServerStep::Status(status)])
}

/// Repeats an answer more often than any client asks; each asks for an immediate retry.
fn for_ever(code: u16) -> impl Iterator<Item = Round> {
    let again = ScriptedStatus {
        retry_after: Some(RetryAfter::Seconds(0.0)),
        ..status(code)
    };
    std::iter::repeat_n(round(again), 9)
}

#[test]
fn fault_401_the_key_is_refused() {
    for wire in ALL {
        let hint = match wire.provider {
            // It was sent no key.
            "local" => "this server wants a key: set `api_key` under `[providers.local]`",
            _ => "run `tool init` again",
        };
        Met::new(wire, [round(status(401))])
            .failed("Authentication failed: Invalid API key\n", hint)
            .asked(2);
    }
    // This vendor says it with a 400.
    let invalid = ScriptedStatus {
        message: Some("API key not valid. Please pass a valid API key.".into()),
        ..ScriptedStatus::new(400, Value::Null)
    };
    Met::new(GENERATE_CONTENT, [round(invalid)])
        .failed("Authentication failed: Invalid API key\n", "run `tool init` again")
        .asked(2);
}

#[test]
fn fault_402_credits_are_used_up() {
    for wire in WIRES {
        Met::new(wire, [round(status(402))])
            .failed(
                "The provider's credits or quota are used up\n",
                "check the plan and billing",
            )
            .asked(2);
    }
}

#[test]
fn fault_429_that_outlasts_the_retries() {
    for wire in WIRES {
        Met::new(wire, for_ever(429))
            .failed("Rate limit exceeded: 429 Too Many Requests\n", "wait 60 seconds")
            .asked(1 + 4);
    }
}

#[test]
fn fault_429_that_passes_in_every_form_of_retry_after() {
    let waits = [
        RetryAfter::Seconds(0.05),
        RetryAfter::Ms(50),
        RetryAfter::DateIn(0),
        RetryAfter::Body(0.05),
        RetryAfter::Header("50ms".into()),
    ];
    for wire in WIRES {
        for waits in waits.chunks(3) {
            let limited = waits.iter().map(|wait| {
                round(ScriptedStatus {
                    retry_after: Some(wait.clone()),
                    ..status(429)
                })
            });
            let started = Instant::now();
            let met = Met::new(wire, limited.chain([Round::text("It counts (app.py:1).")]));
            let Finished { code, stderr, .. } = &met.finished;
            assert_eq!(*code, 0, "{wire:?}: {stderr}");
            assert_eq!(met.skills, ["read_file"], "{wire:?}");
            met.asked(1 + waits.len() + 1);
            let shown = stderr
                .matches("Rate limit exceeded: 429 Too Many Requests; trying again in ")
                .count();
            assert_eq!(shown, waits.len(), "the user sees why: {stderr}");
            assert!(
                started.elapsed().as_secs() < 20,
                "{wire:?}: the waits were the server's, and short"
            );
        }
    }
}

#[test]
fn fault_500_the_server_is_out_of_order() {
    for wire in WIRES {
        Met::new(wire, for_ever(500))
            .failed(
                "The provider is not available: it answered 500 Internal Server Error (no luck with ***)\n",
                "try again in a few minutes",
            )
            .asked(1 + 4);
    }
}

#[test]
fn fault_529_the_server_is_overloaded() {
    for wire in WIRES {
        Met::new(wire, for_ever(529))
            .failed(
                "The provider is not available: it answered 529 Overloaded (no luck with ***)\n",
                "try again in a few minutes",
            )
            .asked(1 + 4);
    }
}

#[test]
fn fault_refused_connection() {
    for wire in ALL {
        let server = serve([]);
        let config = wire.config(&server, "");
        let address = server.address();
        drop(server);
        let (home, repository) = (Home::configured(&config), repository());
        let finished = wire.run(&home, &repository, &["explain", "."]).expect(1);
        let message = format!("[error] Connection refused: {address}\n");
        assert!(finished.stderr.contains(&message), "{wire:?}: {}", finished.stderr);
        let hint = match wire.provider {
            "local" => "hint: start the local model server",
            _ => "hint: check the network and `url`",
        };
        assert!(finished.stderr.contains(hint), "{wire:?}: {}", finished.stderr);
        assert_eq!(finished.stdout, "");
        no_key_anywhere(&home, &repository, &finished);
    }
}

#[test]
fn fault_stall_within_an_answer_and_before_it() {
    for wire in WIRES {
        let met = Met::new(
            wire,
            [Round::new([ServerStep::Text("It counts".into()), ServerStep::Stall])],
        );
        let message = format!(
            "The provider at {} stopped answering: silence within the answer for 1 s\n",
            met.address
        );
        met.failed(&message, "a large model may need longer").asked(2);
        assert!(
            met.finished.stdout.contains("It counts"),
            "what came is kept: {}",
            met.finished.stdout
        );

        let met = Met::new(wire, [Round::new([ServerStep::Stall])]);
        let message = format!("The provider at {} stopped answering: ", met.address);
        met.failed(&message, "a large model may need longer").asked(2);
    }
}

#[test]
fn fault_reset_within_an_answer() {
    let call = ScriptedCall::new("list_files", json!({}));
    for wire in WIRES {
        let broken = Round::new([
            ServerStep::Text("It counts".into()),
            ServerStep::ToolCalls(vec![call.clone()]),
            ServerStep::Reset,
        ]);
        let met = Met::new(wire, [broken, Round::text("never asked for")]);
        met.failed(
            "The provider's answer is incomplete: the connection broke off\n",
            "run the operation again",
        )
        .asked(2);
        assert!(
            met.finished.stdout.contains("It counts"),
            "what came is kept: {}",
            met.finished.stdout
        );
    }
}

#[test]
fn fault_reset_before_the_first_output_is_tried_again() {
    for wire in WIRES {
        let met = Met::new(
            wire,
            [Round::new([ServerStep::Reset]), Round::text("It counts (app.py:1).")],
        );
        assert_eq!(met.finished.code, 0, "{wire:?}: {}", met.finished.stderr);
        assert_eq!(met.skills, ["read_file"], "{wire:?}");
        met.asked(3);
    }
}

#[test]
fn fault_stream_that_ends_without_its_end() {
    for wire in WIRES {
        let call = ScriptedCall::new("list_files", json!({}));
        let cut = Round::new([
            ServerStep::Text("It".into()),
            ServerStep::ToolCalls(vec![call]),
            ServerStep::End,
        ]);
        Met::new(wire, [cut])
            .failed("The provider's answer is incomplete: ", "run the operation again")
            .asked(2);
    }
}

#[test]
fn fault_error_inside_the_stream() {
    for wire in WIRES {
        let call = ScriptedCall::new("list_files", json!({}));
        let failing = Round::new([
            ServerStep::Text("It counts".into()),
            ServerStep::ToolCalls(vec![call]),
            ServerStep::Error(json!(529)),
        ]);
        let met = Met::new(wire, [failing, Round::text("never asked for")]);
        met.failed(
            "The provider is not available: it answered ",
            "try again in a few minutes",
        )
        .asked(2);
        assert!(
            met.finished.stdout.contains("It counts"),
            "what came is kept: {}",
            met.finished.stdout
        );
    }
}

#[test]
fn fault_error_instead_of_an_answer_with_status_200() {
    for wire in WIRES {
        let met = Met::new(
            wire,
            [
                Round::new([ServerStep::Error(json!(529))]),
                Round::text("It counts (app.py:1)."),
            ],
        );
        assert_eq!(met.finished.code, 0, "{wire:?}: {}", met.finished.stderr);
        met.asked(3);
    }
}

#[test]
fn fault_truncated_arguments_never_run_and_the_model_is_told() {
    let half = ScriptedCall {
        arguments: json!("{\"path\": \"app.py\", \"content\": \"class Ne"),
        ..ScriptedCall::new("write_file", Value::Null)
    };
    let cut_off = || {
        Round::new([
            ServerStep::ToolCalls(vec![half.clone()]),
            ServerStep::Finish("length".into()),
            ServerStep::Done,
        ])
    };
    // On wires that send calls whole, a cut-off call never comes.
    for wire in [LOCAL, CHAT, MESSAGES] {
        let met = Met::new(wire, [cut_off(), Round::text("It counts (app.py:1).")]);
        assert_eq!(met.finished.code, 0, "{wire:?}: {}", met.finished.stderr);
        assert_eq!(met.skills, ["read_file"], "{wire:?}: half a call does not run");
        met.asked(3);
        let told = met.requests[2].body.to_string();
        assert!(told.contains("cut off"), "{wire:?}: {told}");
        assert!(!told.contains("class Ne"), "{wire:?}: half a call does not go back");
    }
    for wire in ALL {
        let text = Round::new([
            ServerStep::Text("It counts".into()),
            ServerStep::Finish("length".into()),
            ServerStep::Done,
        ]);
        let met = Met::new(wire, std::iter::repeat_n(text, 9));
        let Finished { code, stderr, .. } = &met.finished;
        assert_eq!(
            *code, 1,
            "an answer that is cut off does not count as one: {wire:?}: {stderr}"
        );
        assert!(
            stderr.contains("[error] ") && stderr.contains("\nhint: "),
            "{wire:?}: {stderr}"
        );
    }
}

#[test]
fn fault_page_of_a_proxy_and_an_empty_body() {
    let page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    for wire in WIRES {
        let again = || ScriptedStatus {
            retry_after: Some(RetryAfter::Seconds(0.0)),
            ..ScriptedStatus::new(502, page)
        };
        Met::new(wire, std::iter::repeat_with(|| round(again())).take(4))
            .failed(
                "The provider is not available: it answered 502 Bad Gateway (an HTML page, \"502 Bad Gateway\")\n",
                "try again in a few minutes",
            )
            .asked(1 + 4);
        let empty = Met::new(wire, [Round::new([ServerStep::End])]);
        let message = format!("The model server at {} sent an empty answer\n", empty.address);
        empty.failed(&message, "about ").asked(2);
    }
}

#[test]
fn fault_missing_ids_and_end_marks_are_lived_with() {
    let calls = [
        ScriptedCall {
            id: Some(String::new()),
            ..ScriptedCall::new("list_files", json!({}))
        },
        ScriptedCall {
            no_id: true,
            ..ScriptedCall::new("search_code", json!({"pattern": "count"}))
        },
    ];
    for wire in [LOCAL, ROUTER, GENERATE_CONTENT] {
        let unmarked = Round::new([
            ServerStep::Comment(" OPENROUTER PROCESSING".into()),
            ServerStep::Text("It counts (app.py:1).".into()),
            ServerStep::Finish("stop".into()),
        ]);
        let met = Met::new(wire, [Round::calls(calls.clone()), unmarked]);
        assert_eq!(met.finished.code, 0, "{wire:?}: {}", met.finished.stderr);
        // Reading calls of one answer run beside each other, and begin in any order.
        let mut skills = met.skills.clone();
        skills[1..].sort_unstable();
        assert_eq!(skills, ["read_file", "list_files", "search_code"], "{wire:?}");
        met.asked(3);
    }
}

#[test]
fn fault_unknown_model_and_context_too_long_in_the_specifications_words() {
    for wire in WIRES {
        let said = |code, message: &str| {
            round(ScriptedStatus {
                message: Some(message.into()),
                ..ScriptedStatus::new(code, Value::Null)
            })
        };
        Met::new(wire, [said(404, "The model `scripted` does not exist")])
            .failed("Model not found: scripted\n", "set `model` to an identifier")
            .asked(2);
        Met::new(wire, [said(400, "prompt is too long: 210000 tokens > 200000 maximum")])
            .failed(
                "Context length exceeded: 200000 tokens\n",
                "target fewer or smaller files",
            )
            .asked(2);
    }
}
