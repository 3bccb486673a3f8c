//! Diffs and undos over HTTP.

use super::*;

async fn answer(server: &Server, ask: Ask) -> (u16, Value) {
    let response = server.send(ask).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&text(response).await).expect("JSON"))
}

#[tokio::test]
async fn changes_are_shown_and_taken_back() {
    let write = Act::Call("write_file", json!({"path": "src/main.py", "content": "print(1)\n"}));
    let server = Server::new(vec![vec![write], vec![Act::Say("Done.")]]);
    let started = server
        .send(ask("POST", "/stream").json(server.execute("refactor")))
        .await;
    text(started).await;
    let root = server.world.repository().to_string_lossy().into_owned();
    let latest = |what: &str| format!("/api/sessions/latest/{what}?repo_path={root}");

    let (status, diff) = answer(&server, ask("GET", &latest("diff"))).await;
    assert_eq!(status, 200);
    let id = diff["session_id"].as_str().expect("an identifier").to_owned();
    assert!(
        diff["diff"]
            .as_str()
            .is_some_and(|diff| diff.contains("\n-print()\n+print(1)\n")),
        "{diff}"
    );
    assert_eq!(
        diff["files"],
        json!([{"path": "src/main.py", "kind": "modified", "added": 1, "removed": 1, "is_text": true}])
    );
    let (status, problem) = answer(&server, ask("GET", "/sessions/latest/diff")).await;
    assert_eq!((status, &problem["error"]["code"]), (400, &json!("invalid-request")));
    let (status, _) = answer(&server, ask("POST", &latest("undo")).stranger()).await;
    assert_eq!(status, 401);
    let foreign = ask("POST", &latest("undo")).header("origin", "https://example.org");
    assert_eq!(answer(&server, foreign).await.0, 403);

    let (status, undone) = answer(&server, ask("POST", &latest("undo"))).await;
    assert_eq!((status, &undone["session_id"]), (200, &json!(id)));
    assert_eq!(undone["restored"], json!(["src/main.py"]));
    assert_eq!((&undone["left"], &undone["unchanged"]), (&json!([]), &json!([])));
    let again = answer(&server, ask("POST", &format!("/sessions/{id}/undo"))).await;
    assert_eq!((again.0, &again.1["error"]["code"]), (409, &json!("nothing-to-undo")));
    let (status, problem) = answer(&server, ask("GET", &latest("diff"))).await;
    assert_eq!((status, &problem["error"]["code"]), (404, &json!("nothing-changed")));
    let (status, _) = answer(&server, ask("GET", "/sessions/..%2f..%2ftoken/diff")).await;
    assert_eq!(status, 404);
}
