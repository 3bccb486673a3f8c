//! The server over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::{round, script};
use crate::{EXAMPLE, ModelServer, Round, Script};

/// One exchange by hand; HTTP/1.0, so that the body comes as it is and the connection closes after it.
#[expect(clippy::disallowed_methods, reason = "the test is the client")]
fn ask(address: SocketAddr, head: &str, body: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    let length = body.len();
    write!(socket, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").expect("the server reads");
    let mut answer = String::new();
    // A reset ends the reading too; what came before it counts.
    let _ = socket.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_lowercase(), body.to_owned())
}

fn user() -> String {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}).to_string()
}

fn user_message() -> String {
    json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hello"}]})
        .to_string()
}

fn user_content() -> String {
    json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}).to_string()
}

const CHAT: &str = "POST /v1/chat/completions HTTP/1.0";
const MESSAGES: &str = "POST /v1/messages HTTP/1.0\r\nanthropic-version: 2023-06-01";
const GENERATE: &str = "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.0";

#[test]
fn the_path_decides_which_wire_is_spoken() {
    let script = Script {
        repeat: true,
        ..Script::new([Round::text("Hi")])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    for (head, body, says) in [
        (CHAT, user(), r#""delta":{"content":"Hi"}"#),
        ("POST /chat/completions HTTP/1.0", user(), "data: [DONE]"),
        (MESSAGES, user_message(), r#""delta":{"type":"text_delta","text":"Hi"}"#),
        (GENERATE, user_content(), r#""parts":[{"text":"Hi"}]"#),
        (
            "POST /v1beta/models/m:generateContent HTTP/1.0",
            user_content(),
            r#""parts":[{"text":"Hi"}]"#,
        ),
    ] {
        let (head, body) = ask(server.address(), head, &body);
        assert!(head.starts_with("http/1.0 200 ok"), "{head}");
        let streams = body.starts_with("data: ") || body.starts_with("event: ");
        let kind = if streams {
            "text/event-stream"
        } else {
            "application/json"
        };
        assert!(head.contains(kind) && body.contains(says), "{head}\n{body}");
    }
    let recorded = server.requests();
    assert_eq!((recorded.len(), recorded[3].query.as_str()), (5, "alt=sse"));
    assert_eq!(recorded[2].body["max_tokens"], 9);

    let (head, body) = ask(server.address(), "POST /v1/complete HTTP/1.0", "{}");
    assert!(
        head.contains(" 404 ") && body.contains("POST /v1/complete is not served here"),
        "{head}\n{body}"
    );
}

#[test]
fn the_three_model_lists() {
    let script = Script {
        get: [("/props".to_owned(), json!({"n_ctx": 4096}))].into(),
        ..Script::new([])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let get = |head: &str| ask(server.address(), head, "").1;
    insta::assert_snapshot!(get("GET /v1/models HTTP/1.0"), @r#"{"object":"list","data":[{"id":"scripted","object":"model","created":1760000000,"owned_by":"script"}]}"#);
    assert_eq!(get("GET /models HTTP/1.0"), get("GET /v1/models HTTP/1.0"));
    insta::assert_snapshot!(get("GET /v1/models HTTP/1.0\r\nanthropic-version: 2023-06-01"), @r#"{"data":[{"type":"model","id":"scripted","display_name":"scripted","created_at":"2026-01-01T00:00:00Z","lifecycle":"active"}],"has_more":false,"first_id":"scripted","last_id":"scripted"}"#);
    insta::assert_snapshot!(get("GET /v1beta/models HTTP/1.0"), @r#"{"models":[{"name":"models/scripted","version":"001","displayName":"scripted","description":"follows a script","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]}]}"#);
    insta::assert_snapshot!(get("GET /v1beta/models/scripted HTTP/1.0"), @r#"{"name":"models/scripted","version":"001","displayName":"scripted","description":"follows a script","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]}"#);
    assert_eq!(get("GET /props HTTP/1.0"), r#"{"n_ctx":4096}"#);
    let (head, body) = ask(server.address(), "GET /v1/models/other HTTP/1.0", "");
    assert!(
        head.contains(" 404 ") && body.contains("model `other` not found"),
        "{head}\n{body}"
    );
}

#[test]
fn statuses_have_the_wires_own_error_object() {
    for (head, body, codes) in [
        (
            CHAT,
            user(),
            [
                "invalid_api_key",
                "insufficient_credits",
                "rate_limit_exceeded",
                "server_error",
                "overloaded",
            ],
        ),
        (
            MESSAGES,
            user_message(),
            [
                "authentication_error",
                "billing_error",
                "rate_limit_error",
                "api_error",
                "overloaded_error",
            ],
        ),
        (
            GENERATE,
            user_content(),
            [
                "UNAUTHENTICATED",
                "FAILED_PRECONDITION",
                "RESOURCE_EXHAUSTED",
                "INTERNAL",
                "UNAVAILABLE",
            ],
        ),
    ] {
        let statuses = [401, 402, 429, 500, 529];
        let rounds = statuses.map(|code| Round::status(code, Value::Null));
        let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
        for (status, code) in statuses.into_iter().zip(codes) {
            let (head, body) = ask(server.address(), head, &body);
            assert!(head.starts_with(&format!("http/1.0 {status} ")), "{head}");
            assert!(body.contains(code), "{code} is missing in {body}");
        }
    }
}

#[test]
fn every_form_of_retry_after_is_sent() {
    let waits = json!([1, 0.5, "7s", {"ms": 150}, {"date_in": 60}, {"body": 0.25}]);
    let rounds: Vec<Value> = waits
        .as_array()
        .into_iter()
        .flatten()
        .map(|wait| json!({"steps": [{"status": {"code": 429, "retry_after": wait}}]}))
        .collect();
    let script = json!({"rounds": rounds, "repeat": true}).to_string();
    let server = ModelServer::start(super::script(&script)).expect("loopback has a free port");
    for expected in [
        "retry-after: 1\r",
        "retry-after: 0.5\r",
        "retry-after: 7s\r",
        "retry-after-ms: 150\r",
    ] {
        let (head, _) = ask(server.address(), CHAT, &user());
        assert!(head.contains(expected), "{head}");
    }
    let (head, _) = ask(server.address(), CHAT, &user());
    let date = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "))
        .unwrap_or_default();
    let date = chrono::DateTime::parse_from_rfc2822(&date.to_uppercase()).expect("a date");
    let ahead = (date.to_utc() - chrono::Utc::now()).num_seconds();
    assert!((50..=60).contains(&ahead), "{ahead} s");
    let (head, body) = ask(server.address(), CHAT, &user());
    assert!(!head.contains("retry-after"), "{head}");
    assert!(body.contains(r#""metadata":{"retry_after_seconds":0.25}"#), "{body}");
    for _ in 0..5 {
        ask(server.address(), GENERATE, &user_content());
    }
    let (_, body) = ask(server.address(), GENERATE, &user_content());
    assert!(body.contains(r#"RetryInfo","retryDelay":"0.25s""#), "{body}");
}

#[test]
fn bodies_that_no_api_sends() {
    let rounds = [
        Round::status(502, "<html><title>502 Bad Gateway</title></html>"),
        Round::status(500, ""),
        round(json!(["end"])),
        round(json!([{"text": "It is"}, "reset"])),
    ];
    let server = ModelServer::start(Script::new(rounds)).expect("loopback has a free port");
    let mut answers = std::iter::repeat_with(|| ask(server.address(), CHAT, &user()));
    let mut next = || answers.next().expect("it repeats");
    let (head, body) = next();
    assert!(head.contains("text/html") && body.starts_with("<html>"), "{head}");
    assert_eq!(next().1, "");
    let (head, body) = next();
    assert!(head.contains(" 200 ") && body.is_empty(), "{head}\n{body}");
    let (_, body) = next();
    assert!(body.contains("It is") && !body.contains("[DONE]"), "{body}");
    let (head, body) = next();
    assert!(
        head.contains(" 400 ") && body.contains("the script is over: it has 4 rounds"),
        "{body}"
    );
}

#[test]
fn conversations_do_not_take_each_others_rounds() {
    let script = Script {
        per_conversation: true,
        ..Script::new([Round::text("First."), Round::text("Second.")])
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let later = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "First."},
        {"role": "user", "content": "go on"},
    ]});
    for (body, says) in [
        (user(), "First."),
        (user(), "First."),
        (later.to_string(), "Second."),
        (user(), "First."),
    ] {
        let (_, body) = ask(server.address(), CHAT, &body);
        assert!(body.contains(says), "{body}");
    }
    let (_, body) = ask(server.address(), GENERATE, &user_content());
    assert!(body.contains("First."), "{body}");
}

#[test]
fn what_a_wire_does_not_allow_is_refused_and_takes_no_round() {
    let wrong =
        json!({"model": "m", "stream": true, "messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]});
    for (strict, status) in [(true, " 400 "), (false, " 200 ")] {
        let script = Script {
            strict,
            ..Script::new([Round::text("Hi")])
        };
        let server = ModelServer::start(script).expect("loopback has a free port");
        let (head, body) = ask(server.address(), CHAT, &wrong.to_string());
        assert!(head.contains(status), "{head}\n{body}");
        let (head, _) = ask(server.address(), CHAT, &user());
        assert_eq!(head.contains(" 200 "), strict, "the round was still there: {head}");
    }
    let server = ModelServer::start(Script::new([Round::text("Hi")])).expect("loopback has a free port");
    for (head, body, reason) in [
        (
            "POST /v1/messages HTTP/1.0",
            user_message(),
            "anthropic-version: header is required",
        ),
        (
            "POST /v1beta/models/m:streamGenerateContent HTTP/1.0",
            user_content(),
            "alt=sse",
        ),
    ] {
        let (head, body) = ask(server.address(), head, &body);
        assert!(head.contains(" 400 ") && body.contains(reason), "{head}\n{body}");
    }
}

#[test]
fn an_observer_hears_of_each_request() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let script = script(r#"{"rounds": [{"steps": [{"text": "a"}]}, {"steps": [{"status": 503}]}]}"#);
    let server = ModelServer::start_observed(([127, 0, 0, 1], 0).into(), script, move |request, told| {
        let _ = sender.send(format!("{} {}: {told}", request.method, request.path));
    });
    let server = server.expect("loopback has a free port");
    for _ in 0..3 {
        ask(server.address(), CHAT, &user());
    }
    ask(server.address(), "GET /v1/models HTTP/1.0", "");
    insta::assert_snapshot!(receiver.try_iter().collect::<Vec<_>>().join("\n"), @r"
    POST /v1/chat/completions: round 1 of 2
    POST /v1/chat/completions: round 2 of 2, status 503
    POST /v1/chat/completions: 400: the script is over: it has 2 rounds
    GET /v1/models: the model list
    ");
}

#[test]
fn the_example_plays_on_every_wire() {
    let script = script(EXAMPLE);
    for (head, body) in [(CHAT, user()), (MESSAGES, user_message()), (GENERATE, user_content())] {
        let server = ModelServer::start(script.clone()).expect("loopback has a free port");
        let answers: Vec<_> = (0..3).map(|_| ask(server.address(), head, &body)).collect();
        assert!(answers[0].1.contains("read_file"), "{}", answers[0].1);
        assert!(
            answers[1].0.contains(" 429 ") && answers[1].0.contains("retry-after: 1"),
            "{}",
            answers[1].0
        );
        assert!(answers[2].1.contains("README.md:1"), "{}", answers[2].1);
    }
}
