//! The router: errors within errors, credits, unknown models.

use super::*;
use tool_core::api::ErrorKind;

#[tokio::test]
async fn router_23_success_with_an_error_body_and_errors_within_errors() {
    let raw = json!({"error": {"message": "{\"error\":{\"message\":\"the innermost reason\"}}"}}).to_string();
    let nested = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}});
    let (answer, _) = play([Round::status(200, nested)]).await;
    assert_eq!(
        answer.problem().message,
        "The provider refused the request: 400 Bad Request (the innermost reason)"
    );
}

#[tokio::test]
async fn router_23_credits_and_quota_are_final() {
    for (status, body) in [
        (402, json!({"error": {"message": "Insufficient credits", "code": 402}})),
        (200, json!({"error": {"message": "Insufficient credits", "code": 402}})),
        (
            429,
            json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
        ),
    ] {
        let (answer, requests) = play([Round::status(status, body)]).await;
        assert_eq!(
            (answer.problem().kind.clone(), requests),
            (ErrorKind::ProviderCredits, 1)
        );
    }
}

#[tokio::test]
async fn router_23_unknown_models() {
    for (status, body) in [
        (
            400,
            json!({"error": {"message": "tiny is not a valid model ID", "code": 400}}),
        ),
        (
            404,
            json!({"error": {"message": "The model `tiny` does not exist", "code": "model_not_found"}}),
        ),
        (
            404,
            json!({"error": {"message": "model \"tiny\" not found, try pulling it first"}}),
        ),
        (
            404,
            json!({"error": {"message": "No endpoints found for tiny.", "code": 404}}),
        ),
    ] {
        let (answer, requests) = play([Round::status(status, body)]).await;
        assert_eq!(
            (answer.problem().message.as_str(), requests),
            ("Model not found: tiny", 1)
        );
    }
    let no_tools = json!({"error": {"message": "No endpoints found that support tool use.", "code": 404}});
    let (answer, _) = play([Round::status(404, no_tools)]).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ToolsUnsupported);
}

#[tokio::test]
async fn router_23_the_routers_own_wait_beats_the_header() {
    let body = json!({"error": {"message": "slow down", "code": 429, "metadata": {"retry_after_seconds": 0.05}}});
    let round = Round::new([ServerStep::Status(ScriptedStatus {
        headers: [("retry-after".to_owned(), "50".to_owned())].into(),
        ..ScriptedStatus::new(429, body)
    })]);
    let started = Instant::now();
    let (answer, _) = play([round, Round::text("Hi")]).await;
    assert_eq!(answer.text(), "Hi");
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn router_23_the_price_of_a_request_is_carried() {
    for (usage, nanos) in [
        (
            json!({"prompt_tokens": 194, "completion_tokens": 2, "cost": 0.00014}),
            Some(140_000),
        ),
        (
            json!({"prompt_tokens": 194, "completion_tokens": 2, "cost": 0}),
            Some(0),
        ),
        (
            json!({"prompt_tokens": 1, "completion_tokens": 2, "cost": 0.0001, "is_byok": true,
                "cost_details": {"upstream_inference_cost": 0.002}}),
            Some(2_100_000),
        ),
        (json!({"prompt_tokens": 1, "completion_tokens": 2, "cost": -1}), None),
        (json!({"prompt_tokens": 1, "completion_tokens": 2}), None),
    ] {
        let frames = [
            json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ];
        let (answer, _) = play([Round::new(
            frames.map(ServerStep::Frame).into_iter().chain([ServerStep::Done]),
        )])
        .await;
        let cost = answer.events.iter().find_map(|event| match event {
            ProviderEvent::Usage(usage) => Some(usage.cost_nanos),
            _ => None,
        });
        assert_eq!(cost, Some(nanos), "{usage}");
    }
    let paid = |cost_nanos| Usage {
        cost_nanos,
        ..Usage::default()
    };
    let (none, some) = (paid(None), paid(Some(1_500_000)));
    assert_eq!(none.plus(none).cost(), None);
    assert_eq!(
        none.plus(some).plus(some).cost(),
        Some(tool_core::api::Dollars::from_nanos(3_000_000))
    );
}
