//! All routes together: that each is described, what its parameters mean, and what becomes of a bug in one.

use super::*;

#[tokio::test]
async fn a_wrong_value_is_answered_with_the_nearest_right_one() {
    let server = Server::new(vec![]);
    for (path, near) in [
        ("/history?operation=explian", "explain"),
        ("/tasks?status=complet", "complete"),
        ("/history?statsu=running", "status"),
        ("/stream?session_id=x&form=referenz", "reference"),
    ] {
        let text = server.text(ask("GET", path)).await;
        let body: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(body["error"]["hint"], format!("did you mean `{near}`?"), "{text}");
    }
}

#[tokio::test]
async fn every_route_is_described_and_every_description_has_a_route() {
    let server = Server::new(vec![]);
    let description = server.json(ask("GET", "/openapi.json")).await;
    let paths = description["paths"].as_object().expect("there are paths");
    assert!(paths.len() >= 14, "{}", paths.len());
    for (path, operations) in paths {
        let path = path.replace(['{', '}'], "");
        let mut described: Vec<String> = operations.as_object().expect("methods").keys().cloned().collect();
        if described.contains(&"get".to_owned()) {
            described.push("head".to_owned());
        }
        described.sort();
        for (prefix, method) in ["", "/api"].into_iter().flat_map(|prefix| {
            ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"].map(|method| (prefix, method))
        }) {
            let asked = format!("{prefix}{path}");
            let response = server.send(ask(method, &asked)).await;
            let is_described = described.contains(&method.to_lowercase());
            assert_eq!(response.status() != 405, is_described, "{method} {asked}");
            if !is_described {
                let allowed = response.headers()["allow"].to_str().expect("text").to_lowercase();
                let mut allowed: Vec<&str> = allowed.split(',').collect();
                allowed.sort_unstable();
                assert_eq!(allowed, described, "{method} {asked}");
            }
            let text = text(response).await;
            assert!(!text.contains("There is nothing at"), "{method} {asked}: {text}");
        }
        let options = server.send(ask("OPTIONS", &path)).await;
        assert_eq!(options.status(), StatusCode::NO_CONTENT);
        assert!(options.headers().contains_key("allow"));
    }
}

#[tokio::test]
async fn a_panic_is_answered_as_a_bug() {
    let server = Server::new(vec![]);
    let layer = axum::middleware::from_fn_with_state(server.state.clone(), request_checks::check_request);
    let broken = || async { panic!("on purpose") as StatusCode };
    let router: Router = Router::new().route("/broken", axum::routing::get(broken)).layer(layer);
    let server = Server { router, ..server };
    assert_eq!(server.problem(ask("GET", "/broken")).await, (500, "internal".into()));
}

#[tokio::test]
async fn a_list_is_narrowed_by_model_operation_status_and_number() {
    let server = Server::new(vec![vec![Act::Say("a")], vec![Act::Say("b")], vec![Act::Hang]]);
    let mut ids = Vec::new();
    for operation in ["explain", "refactor", "explain"] {
        let start = server
            .json(ask("POST", "/execute").json(server.execute(operation)))
            .await;
        ids.push(start["session_id"].as_str().expect("an id").to_owned());
        if ids.len() < 3 {
            server
                .text(ask("GET", &format!("/stream/{}", ids[ids.len() - 1])))
                .await;
        }
    }
    let [first, second, running] = &ids[..] else {
        unreachable!("three were started")
    };
    for (list, query, expected) in [
        ("history", "", vec![second, first]),
        ("history", "operation=explain", vec![first]),
        ("history", "status=complete&limit=1", vec![second]),
        ("history", "status=running", vec![]),
        ("history", "model=some-model", vec![second, first]),
        ("history", "model=some", vec![]),
        (
            "history",
            "model=some-model&operation=refactor&status=complete",
            vec![second],
        ),
        ("tasks", "", vec![running, second, first]),
        ("tasks", "limit=2", vec![running, second]),
        ("tasks", "status=running", vec![running]),
        ("tasks", "operation=explain", vec![running, first]),
        (
            "tasks",
            "operation=explain&status=complete&model=some-model",
            vec![first],
        ),
        ("tasks", "model=Some-Model", vec![]),
    ] {
        let answer = server.json(ask("GET", &format!("/{list}?{query}"))).await;
        let (entries, id) = match list {
            "history" => (&answer["sessions"], "id"),
            _ => (&answer["tasks"], "session_id"),
        };
        let found: Vec<&str> = entries
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|entry| entry[id].as_str())
            .collect();
        assert_eq!(found, expected, "{list}?{query}");
    }
    let cancelled = ask("DELETE", &format!("/sessions/{running}"));
    assert_eq!(server.status(cancelled).await, 202);
    server.text(ask("GET", &format!("/stream/{running}"))).await;
    let ended = ask("DELETE", &format!("/sessions/{running}"));
    assert_eq!(server.problem(ended).await, (409, "session-ended".into()));
    let answer = server.json(ask("GET", "/history?status=cancelled")).await;
    assert_eq!(answer["sessions"][0]["id"], running.as_str());
}
