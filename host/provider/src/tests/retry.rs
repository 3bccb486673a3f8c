//! Retries, and keys that no message shows.

use super::*;
use crate::failure::PROVIDER_QUOTE_CHARS_MAX;
use tool_core::api::ErrorKind;

#[tokio::test]
async fn retry_24_what_passes_is_tried_again_and_the_user_sees_why() {
    for round in [
        Round::status(429, ""),
        Round::status(500, ""),
        Round::status(
            529,
            json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        Round::status(408, ""),
        Round::status(200, json!({"error": {"code": 503, "message": "no upstream"}})),
    ] {
        let (answer, requests) = play([round.clone(), Round::text("Hi")]).await;
        assert_eq!((answer.text().as_str(), requests), ("Hi", 2), "{round:?}");
        assert_eq!(answer.waits().len(), 1);
    }
    let (answer, _) = play([Round::status(429, ""), Round::text("Hi")]).await;
    let wait = answer.waits()[0];
    assert!(
        wait.starts_with("Rate limit exceeded: 429 Too Many Requests; trying again in "),
        "{wait}"
    );
    assert!(wait.ends_with("(attempt 2 of 4)"), "{wait}");
}

#[tokio::test]
async fn retry_24_a_rate_limit_that_outlasts_the_retries() {
    let rounds = std::iter::repeat_with(|| Round::status(429, json!({"error": {"message": "Too many"}}))).take(9);
    let (answer, requests) = play(rounds).await;
    assert_eq!(answer.problem().message, "Rate limit exceeded: 429 Too Many Requests");
    assert!(
        answer
            .problem()
            .hint
            .as_ref()
            .is_some_and(|hint| hint.starts_with("wait 60 seconds"))
    );
    assert_eq!(requests as u32, limits::PROVIDER_ATTEMPTS_MAX);
}

#[tokio::test]
async fn retry_24_what_does_not_pass_is_asked_once() {
    for status in [400, 401, 402, 403, 404, 413, 422] {
        let (answer, requests) = play([Round::status(status, json!({"error": {"message": "no"}}))]).await;
        assert_eq!(requests, 1, "{status}: {:?}", answer.error);
    }
    // Rate-limit wording vetoes the overflow class.
    let words = json!({"error": {"message": "Request too large: context length over the limit of tokens per minute"}});
    let (answer, requests) = play([Round::status(413, words)]).await;
    assert_eq!((answer.problem().kind.clone(), requests), (ErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn retry_24_a_connection_that_breaks_before_the_first_output_is_tried_again() {
    let (answer, requests) = play([Round::new([ServerStep::Reset]), Round::text("Hi")]).await;
    assert_eq!((answer.text().as_str(), requests), ("Hi", 2), "{:?}", answer.error);
    let wait = answer.waits()[0];
    assert!(wait.starts_with("The connection broke off; trying again in "), "{wait}");
}

#[tokio::test]
async fn retry_24_a_connection_that_breaks_within_an_answer_is_told_without_a_librarys_words() {
    let (answer, requests) = play([Round::new([ServerStep::Text("It".into()), ServerStep::Reset])]).await;
    assert_eq!(requests, 1);
    assert_eq!(
        answer.problem().message,
        "The provider's answer is incomplete: the connection broke off"
    );
}

#[tokio::test]
async fn retry_25_keys_are_refused_in_one_sentence_and_never_quoted() {
    for status in [401, 403] {
        let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}});
        let (answer, _) = play([Round::status(status, body)]).await;
        let problem = answer.problem();
        assert_eq!(problem.message, "Authentication failed: Invalid API key");
        assert_eq!(problem.kind.clone(), ErrorKind::AuthenticationFailed);
        assert!(
            problem
                .hint
                .as_ref()
                .is_some_and(|hint| hint.starts_with("run `tool init` again"))
        );
    }
    for round in [
        Round::status(400, json!({"error": {"message": format!("bad header Bearer {KEY}")}})),
        Round::status(400, format!("<html><title>{KEY}</title></html>")),
        Round::status(302, ""),
        Round::new([ServerStep::Error(json!({"message": format!("key {KEY} failed")}))]),
        Round::new([ServerStep::Raw(format!("data: {KEY}\n\n"))]),
    ] {
        let (answer, _) = play([round]).await;
        let shown = format!("{:?}{:?}", answer.error, answer.events);
        assert!(answer.error.is_some());
        assert!(!shown.contains(KEY), "{shown}");
    }
    assert!(!format!("{:?}", settings("http://127.0.0.1/")).contains(KEY));
}

#[tokio::test]
async fn retry_25_redirects_are_not_followed() {
    let other = server([Round::text("stolen")]);
    let round = Round::new([ServerStep::Status(ScriptedStatus {
        headers: [("location".to_owned(), format!("{}/chat/completions", other.url()))].into(),
        ..ScriptedStatus::new(307, "")
    })]);
    let (answer, _) = play([round]).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::NotAModelServer);
    assert!(
        answer.problem().message.contains(&other.address().to_string()),
        "{}",
        answer.problem()
    );
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn retry_24_waits_as_the_server_says_in_every_form() {
    let date = chrono::Utc::now() + chrono::Duration::milliseconds(600);
    let date = date.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    for (name, value) in [
        ("retry-after", "0.05"),
        ("retry-after", "0"),
        ("retry-after", "50ms"),
        ("retry-after", date.as_str()),
        ("retry-after-ms", "50"),
        ("Retry-After", "-3"),
    ] {
        let round = Round::new([ServerStep::Status(ScriptedStatus {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..ScriptedStatus::new(429, "")
        })]);
        let started = Instant::now();
        let (answer, requests) = play([round, Round::text("Hi")]).await;
        assert_eq!((answer.text().as_str(), requests), ("Hi", 2), "{name}: {value}");
        assert!(started.elapsed() < Duration::from_secs(15), "{name}: {value}");
    }
}

#[tokio::test]
async fn retry_24_a_quota_that_is_used_up_is_final_and_a_rate_limit_is_no_overflow_on_every_wire() {
    for at in 0..3 {
        let quota = json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}});
        let server = server([Round::status(429, quota), Round::text("never")]);
        let answer = answer_of(&wires(&server)[at], CancellationToken::new()).await;
        assert_eq!(
            (answer.problem().kind.clone(), server.requests().len()),
            (ErrorKind::ProviderCredits, 1)
        );

        let words = "This request would exceed your rate limit of 40000 input tokens per minute; context length 200000";
        let limit = json!({"error": {"message": words, "code": 429}});
        let server = super::server([Round::status(429, limit), Round::text("Hi")]);
        let answer = answer_of(&wires(&server)[at], CancellationToken::new()).await;
        assert_eq!((answer.text().as_str(), server.requests().len()), ("Hi", 2));
    }
}

#[tokio::test]
async fn retry_24_a_rate_limit_that_outlasts_the_retries_on_every_wire() {
    for at in 0..3 {
        let server = server((0..9).map(|_| Round::status(429, Value::Null)));
        let answer = answer_of(&wires(&server)[at], CancellationToken::new()).await;
        assert_eq!(answer.problem().message, "Rate limit exceeded: 429 Too Many Requests");
        assert!(answer.hint().starts_with("wait 60 seconds"), "{}", answer.hint());
        assert_eq!(server.requests().len() as u32, limits::PROVIDER_ATTEMPTS_MAX);
    }
}

#[tokio::test]
async fn retry_25_the_key_goes_into_one_header_and_into_nothing_else_on_every_wire() {
    let headers = ["x-api-key", "authorization", "x-goog-api-key"];
    for (at, header) in headers.into_iter().enumerate() {
        let server = server([Round::status(401, Value::Null)]);
        let settings = &wires(&server)[at];
        let answer = answer_of(settings, CancellationToken::new()).await;
        assert_eq!(answer.problem().message, "Authentication failed: Invalid API key");
        let request = &server.requests()[0];
        let carriers = request.headers.iter().filter(|(_, value)| value.contains(KEY));
        assert_eq!(carriers.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [header]);
        assert!(!format!("{}{}{}", request.path, request.query, request.body).contains(KEY));
        assert!(!format!("{settings:?}").contains(KEY));
    }
}

#[tokio::test]
async fn retry_25_a_key_that_a_server_quotes_is_shown_in_no_form() {
    let cut = format!("{}{KEY}", "x ".repeat(PROVIDER_QUOTE_CHARS_MAX / 2 - 8));
    for said in [
        format!("the key {KEY} is odd"),
        cut,
        "header x-api-key: some-other-key-1 is odd".to_owned(),
        r#"{"headers": {"Authorization": "Bearer some-other-key-1"}}"#.to_owned(),
        "at https://h/v1?key=some-other-key-1".to_owned(),
    ] {
        for round in [
            Round::status(400, json!({"error": {"message": said}})),
            Round::status(503, json!({"error": {"message": said}})),
            Round::status(400, said.clone()),
            Round::new([
                ServerStep::Text("Hi".into()),
                ServerStep::Error(json!({"message": said})),
            ]),
        ] {
            let (answer, _) = play(std::iter::repeat_n(round, 4)).await;
            let shown = format!("{:?}{:?}", answer.error, answer.events);
            for secret in [&KEY[..14], "some-other-key-1"] {
                assert!(!shown.contains(secret), "{said}: {shown}");
            }
        }
    }
}
