//! Behaviour of every wire: framing over real sockets, silence, cancellation, bodies that are no stream.

use super::*;
use crate::failure::PROVIDER_QUOTE_CHARS_MAX;
use crate::http::PROVIDER_CLOSING_SECONDS_MAX;
use tool_core::api::ErrorKind;

#[tokio::test]
async fn sse_1_bytes_split_on_the_wire() {
    let mut round = Round::new([ServerStep::Text("zoë 🦀".into()), ServerStep::Text(" ok".into())]);
    round.split_bytes = Some(1);
    let (answer, _) = play([round]).await;
    assert_eq!(answer.text(), "zoë 🦀 ok");
}

#[tokio::test]
async fn sse_2_an_open_connection_after_the_end_does_not_hold_the_answer() {
    let started = Instant::now();
    let (answer, _) = play([Round::new([
        ServerStep::Text("Hi".into()),
        ServerStep::Finish("stop".into()),
        ServerStep::Stall,
    ])])
    .await;
    assert!(answer.completed());
    assert!(started.elapsed() < Duration::from_secs(PROVIDER_CLOSING_SECONDS_MAX + 15));
}

#[tokio::test]
async fn sse_3_a_stream_that_ends_or_breaks_early_is_an_error_and_no_call_runs() {
    for end in [ServerStep::End, ServerStep::Reset] {
        let calls = ServerStep::ToolCalls(vec![ScriptedCall::new("read_file", json!({}))]);
        let (answer, requests) = play([Round::new([ServerStep::Text("Hi".into()), calls, end])]).await;
        assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderStream);
        assert_eq!((answer.text().as_str(), answer.calls()), ("Hi", 0));
        assert_eq!(requests, 1, "after the first output nothing is tried again");
    }
}

#[tokio::test]
async fn sse_4_silence_has_two_bounds() {
    let (answer, requests) = play([Round::new([ServerStep::Text("Hi".into()), ServerStep::Stall])]).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderTimeout);
    assert!(
        answer
            .problem()
            .message
            .ends_with("silence within the answer for 0.3 s"),
        "{}",
        answer.problem()
    );
    assert_eq!((answer.text().as_str(), requests), ("Hi", 1));

    // A cold model: nothing for longer than the idle bound, and then an answer.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let _ = stream.read(&mut [0; 4096]);
        std::thread::sleep(Duration::from_millis(700));
        let chunk = r#"{"choices":[{"delta":{"content":"Late"},"finish_reason":"stop"}]}"#;
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {chunk}\n\n");
    });
    let answer = answer_of(&settings(&url), CancellationToken::new()).await;
    assert_eq!(answer.text(), "Late", "{:?}", answer.error);
}

#[tokio::test]
async fn retry_24_cancel_ends_a_request_at_once_wherever_it_stands() {
    let wait = Round::new([ServerStep::Status(ScriptedStatus {
        headers: [("retry-after".to_owned(), "30".to_owned())].into(),
        ..ScriptedStatus::new(503, "")
    })]);
    for round in [
        Round::new([ServerStep::Text("Hi".into()), ServerStep::Stall]),
        Round::new([ServerStep::Stall]),
        wait,
    ] {
        let server = server([round]);
        let cancel = CancellationToken::new();
        let after = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            after.cancel();
        });
        let started = Instant::now();
        let answer = answer_of(&settings(&server.url()), cancel).await;
        // Silence would end the first two with another error, and the third would wait for half a minute.
        assert_eq!(answer.error, Some(ProviderError::Cancelled));
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn sse_5_an_html_page_becomes_one_sentence() {
    let page = format!(
        "<!DOCTYPE html>\n<html><head><title>502 Bad\nGateway</title></head>{}",
        "<p>x".repeat(50_000)
    );
    let (answer, requests) = play([Round::status(502, page.clone()), Round::text("Hi")]).await;
    assert_eq!((answer.text().as_str(), requests), ("Hi", 2));
    let rounds = std::iter::repeat_with(|| Round::status(502, page.clone())).take(4);
    let (answer, requests) = play(rounds).await;
    assert_eq!(
        answer.problem().message,
        "The provider is not available: it answered 502 Bad Gateway (an HTML page, \"502 Bad Gateway\")"
    );
    assert_eq!(requests, 4);
}

#[tokio::test]
async fn sse_4_cancel_ends_a_request_that_nobody_answers() {
    // Connected, and not a byte: the phase before the head of an answer.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    let cancel = CancellationToken::new();
    let after = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after.cancel();
    });
    // Silence would end it, too, with another error.
    let answer = answer_of(&settings(&url), cancel).await;
    assert_eq!(answer.error, Some(ProviderError::Cancelled));
}

#[tokio::test]
async fn sse_4_the_first_byte_has_a_bound_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    let started = Instant::now();
    let answer = answer_of(&settings(&url), CancellationToken::new()).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderTimeout);
    assert!(
        answer.problem().message.ends_with("no answer for 1.5 s"),
        "{}",
        answer.problem()
    );
    assert!(
        started.elapsed() >= Duration::from_millis(1400),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn sse_5_the_body_of_an_error_is_read_up_to_a_bound() {
    // An error that never ends: the client reads a bounded part of it and does not wait.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    let sent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\r\n");
        let block = "no ".repeat(1000);
        let mut sent = 0;
        while stream.write_all(block.as_bytes()).is_ok() && sent < 512 * 1024 * 1024 {
            sent += block.len();
        }
        sent
    });
    let answer = answer_of(&settings(&url), CancellationToken::new()).await;
    let message = &answer.problem().message;
    assert!(
        message.starts_with("The provider refused the request: 400 Bad Request (no no no"),
        "{message}"
    );
    assert!(message.chars().count() < 2 * PROVIDER_QUOTE_CHARS_MAX, "{message}");
    // Elsewhere, because the connection is closed by this thread.
    let sent = tokio::task::spawn_blocking(|| sent.join())
        .await
        .expect("it is not cancelled");
    assert!(sent.expect("it does not panic") < 64 * 1024 * 1024);
}

#[tokio::test]
async fn sse_5_an_error_after_the_status_was_sent_on_every_wire() {
    for (status, code) in [
        (401, ErrorKind::AuthenticationFailed),
        (402, ErrorKind::ProviderCredits),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::ProviderUnavailable),
    ] {
        let all = [ProviderApi::Messages, ProviderApi::Chat, ProviderApi::GenerateContent];
        for (at, api) in all.into_iter().enumerate() {
            let round = Round::new([ServerStep::Text("Hi".into()), ServerStep::Error(json!(status))]);
            let server = server([round]);
            let answer = answer_of(&wires(&server)[at], CancellationToken::new()).await;
            assert_eq!(
                (answer.text().as_str(), answer.problem().kind.clone()),
                ("Hi", code.clone()),
                "{api:?} {status}"
            );
            assert_eq!(server.requests().len(), 1, "{api:?} {status}");
        }
    }
}

#[tokio::test]
async fn messages_10_an_overload_after_the_first_words_keeps_them_and_is_not_tried_again() {
    let server = server([
        Round::new([ServerStep::Text("Half".into()), ServerStep::Error(json!(529))]),
        Round::text("never"),
    ]);
    let answer = answer_of(&wires(&server)[0], CancellationToken::new()).await;
    assert_eq!(answer.text(), "Half");
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderUnavailable);
    assert!(
        answer.problem().message.contains("529 Overloaded"),
        "{}",
        answer.problem()
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn messages_11_a_prompt_that_is_too_long_is_said_in_the_specifications_words() {
    for status in [400, 413] {
        let said = "prompt is too long: 210000 tokens > 200000 maximum";
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
        let server = server([Round::status(status, body)]);
        let answer = answer_of(&wires(&server)[0], CancellationToken::new()).await;
        assert_eq!(answer.problem().message, "Context length exceeded: 200000 tokens");
        assert_eq!(server.requests().len(), 1, "an overflow is not tried again");
    }
}

#[tokio::test]
async fn messages_8_a_refusal_of_modified_thinking_is_never_tried_again() {
    let said = "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot \
                be modified. These blocks must remain as they were in the original response.";
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
    let server = server([Round::status(400, body), Round::text("never")]);
    let answer = answer_of(&wires(&server)[0], CancellationToken::new()).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderRejected);
    assert!(
        answer.problem().message.contains("cannot be modified"),
        "{}",
        answer.problem()
    );
    assert_eq!(server.requests().len(), 1);
}
