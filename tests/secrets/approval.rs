//! Approvals over HTTP: the exact change is shown, and only the session's starter may answer.

use serde_json::{Value, json};

use super::taint::{commits_after, with_others};
use super::{call, report, sent, text};
use crate::providers::scripted;
use crate::support::{git, holds};

/// A client that knows nothing but the address.
#[expect(clippy::disallowed_methods, reason = "the tests are a client")]
pub(super) fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

async fn post(client: &reqwest::Client, url: String, body: &Value) -> (u16, Value) {
    answered(client.post(url), body).await
}

pub(super) async fn answered(request: reqwest::RequestBuilder, body: &Value) -> (u16, Value) {
    let request = request
        .header("content-type", "application/json")
        .body(body.to_string());
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.bytes().await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Follows a stream until the first approval.
async fn approval(stream: &mut reqwest::Response) -> Value {
    let mut seen = String::new();
    loop {
        let piece = stream
            .chunk()
            .await
            .expect("the stream goes on")
            .expect("somebody is asked");
        seen.push_str(&String::from_utf8_lossy(&piece));
        let whole = seen.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let events = whole.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut events = events.map(|data| serde_json::from_str::<Value>(data).expect("an event is JSON"));
        if let Some(event) = events.find(|event| event["type"] == "approval") {
            return event;
        }
    }
}

#[tokio::test]
async fn an_approval_over_http_shows_the_exact_diff_and_takes_the_starters_secret_alone() {
    let repository = with_others();
    let root = repository.path();
    let (server, home) = scripted(commits_after(vec![call("approve", json!({"approve": true}))]));
    let (address, client) = (home.serve(), client());
    let request = json!({
        "operation": "refactor", "target": "add y", "repo_path": root, "interactive": true,
        "policy": {"deny": ["run-process"]},
    });
    let (status, refused) = post(&client, format!("{address}/execute"), &request).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (403, &json!("forbidden")),
        "it could say yes to itself"
    );
    let token = text(&home.path().join("token"));
    let starting = client.post(format!("{address}/execute")).bearer_auth(token.trim());
    let (status, start) = answered(starting, &request).await;
    assert_eq!(status, 200, "{start}");
    let (id, secret) = (
        start["session_id"].as_str().expect("an id"),
        start["approval_secret"].as_str().expect("a secret"),
    );
    let mut stream = client
        .get(format!("{address}/stream?session_id={id}"))
        .send()
        .await
        .expect("a stream");
    let asked = approval(&mut stream).await;
    assert_eq!(
        (&asked["effect"], &asked["title"]),
        (&json!("commit-git"), &json!("Commit 1 file: Add y"))
    );
    holds(asked["detail"].as_str().expect("text"), &["+++ b/new.py", "+y = 2\n"]);
    let answer = |secret: &str, approve: bool| json!({"secret": secret, "approve": approve});
    let url = format!("{address}/approvals/{}", asked["id"].as_str().expect("an id"));
    assert_eq!(post(&client, url.clone(), &answer("guess", true)).await.0, 403);
    assert_eq!(post(&client, url.clone(), &json!({"approve": true})).await.0, 400);
    // The shown content is committed, whatever the file holds by now.
    std::fs::write(root.join("new.py"), "y = \"another\"\n").expect("it is ours");
    assert_eq!(post(&client, url.clone(), &answer(secret, true)).await.0, 204);
    assert_eq!(
        post(&client, url, &answer(secret, true)).await.0,
        404,
        "an answer counts once"
    );
    let rest = stream.text().await.expect("the stream ends");
    assert!(rest.contains("\"type\":\"complete\""), "{rest}");
    assert_eq!(git(root, &["show", "HEAD:new.py"]), "y = 2\n");
    // Only the starter has it, and the model has no way to say yes.
    for request in server.requests() {
        assert!(!request.body.to_string().contains(secret));
    }
    holds(&sent(&server, 1), &["There is no tool named `approve`"]);
    let kept = [
        rest,
        report(root),
        text(&home.path().join(format!("sessions/{id}/journal.jsonl"))),
        client
            .get(format!("{address}/results/{id}"))
            .send()
            .await
            .expect("an answer")
            .text()
            .await
            .expect("text"),
        client
            .get(format!("{address}/tasks"))
            .send()
            .await
            .expect("an answer")
            .text()
            .await
            .expect("text"),
        client
            .get(format!("{address}/stream?session_id={id}"))
            .send()
            .await
            .expect("an answer")
            .text()
            .await
            .expect("text"),
    ];
    assert!(kept.iter().all(|text| !text.contains(secret)));
    // Without the token a request can only narrow.
    for policy in [
        json!({"allow": ["commit-git:tainted"]}),
        json!({"allow_paths": [".env"]}),
        json!({"unsandboxed": true}),
    ] {
        let mut request = request.clone();
        request["policy"] = policy;
        assert_eq!(post(&client, format!("{address}/execute"), &request).await.0, 403);
    }
}
