//! Who gets in: every route that there is, tried by everybody who must not use it.

use std::collections::BTreeSet;

use super::*;

/// Every route of the table at both prefixes, by method and path; what is variable in a path is an `x`.
fn every_route() -> Vec<(&'static str, String)> {
    let (_, document) = routes().finish();
    let text = document.to_json().expect("a description has string keys only");
    let description: Value = serde_json::from_str(&text).expect("it is JSON");
    let mut every = Vec::new();
    for (path, operations) in description["paths"].as_object().expect("there are paths") {
        let mut plain = path.clone();
        while let (Some(open), Some(close)) = (plain.find('{'), plain.find('}')) {
            plain.replace_range(open..=close, "x");
        }
        for method in operations.as_object().expect("there are methods").keys() {
            let method = match method.as_str() {
                "get" => "GET",
                "post" => "POST",
                "delete" => "DELETE",
                other => panic!("{other} {path} is no method that is tried here"),
            };
            every.extend(["", "/api"].map(|prefix| (method, format!("{prefix}{plain}"))));
        }
    }
    assert!(every.len() >= 2 * 19, "{every:?}");
    every
}

/// A request that would do something: with the token, and with a body where one is taken.
fn would_work(server: &Server, method: &'static str, path: &str) -> Ask {
    let asked = ask(method, path).token();
    match method {
        "POST" => asked.json(server.execute("explain")),
        _ => asked,
    }
}

/// What a route answers, and that nothing has been started.
async fn refused(server: &Server, ask: Ask, status: u16, code: &str) {
    let asked = format!("{} {} {:?}", ask.method, ask.path, ask.headers);
    let response = server.send(ask).await;
    assert!(
        !response.headers().contains_key("access-control-allow-origin"),
        "{asked}"
    );
    assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{asked}");
    assert_eq!(response.status(), status, "{asked}");
    let text = text(response).await;
    let body: Value = serde_json::from_str(&text).expect("a reason is JSON");
    assert_eq!(body["error"]["code"], code, "{asked}");
    assert!(!text.contains(TOKEN), "{asked}");
    assert_eq!(server.state.sessions().running(), 0, "{asked}");
}

#[tokio::test]
async fn only_the_holder_of_the_token_ends_an_idle_backend() {
    let server = Server::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let same_user = ask("POST", "/stop-if-idle");
    assert_eq!(server.problem(same_user).await, (403, "forbidden".to_owned()));
    let asked = ask("POST", "/execute").json(server.execute("explain"));
    let id = server.json(asked).await["session_id"]
        .as_str()
        .expect("text")
        .to_owned();
    let busy = server.json(ask("POST", "/stop-if-idle").token()).await;
    assert_eq!(busy, json!({"stopping": false, "sessions_running": 1}));
    assert_eq!(server.status(ask("DELETE", &format!("/sessions/{id}"))).await, 202);
    server.text(ask("GET", &format!("/stream/{id}"))).await;
    let idle = server.json(ask("POST", "/stop-if-idle").token()).await;
    assert_eq!(idle, json!({"stopping": true, "sessions_running": 0}));
    let late = ask("POST", "/execute").json(server.execute("explain"));
    assert_eq!(server.problem(late).await, (503, "stopping".to_owned()));
}

#[tokio::test]
async fn no_route_is_for_another_host_or_a_page_of_another_origin() {
    let server = Server::with(vec![], "cors_origins = [\"http://localhost:5173\"]");
    for (method, path) in every_route() {
        for (name, value, code) in [
            ("host", "evil.example:8000", "host-not-allowed"),
            ("host", "evil.example", "host-not-allowed"),
            ("host", "localhost:9999", "host-not-allowed"),
            ("host", "192.0.2.7:8000", "host-not-allowed"),
            ("host", "", "host-not-allowed"),
            ("origin", "http://evil.example", "origin-not-allowed"),
            ("origin", "http://evil.example:8000", "origin-not-allowed"),
            ("origin", "http://localhost:3000", "origin-not-allowed"),
            ("origin", "https://localhost:8000", "origin-not-allowed"),
            ("origin", "null", "origin-not-allowed"),
            ("sec-fetch-site", "cross-site", "origin-not-allowed"),
            ("sec-fetch-site", "same-site", "origin-not-allowed"),
        ] {
            let asked = would_work(&server, method, &path).header(name, value);
            refused(&server, asked, 403, code).await;
        }
        let preflight = ask("OPTIONS", &path)
            .header("origin", "http://evil.example")
            .header("access-control-request-method", method);
        refused(&server, preflight, 403, "origin-not-allowed").await;
    }
    assert!(server.state.sessions().tasks(&Default::default()).is_empty());
    let portless = server.text(ask("GET", "/status").header("host", "localhost")).await;
    assert!(portless.contains("send `Host: localhost:8000`"), "{portless}");
}

#[tokio::test]
async fn no_route_is_for_somebody_without_a_credential_but_the_question_who_is_there() {
    let server = Server::new(vec![]);
    let mut open = BTreeSet::new();
    for (method, path) in every_route().into_iter().chain([("GET", "/nothing".to_owned())]) {
        let stranger = || would_work(&server, method, &path).header("authorization", "");
        if server.status(stranger()).await != 401 {
            open.insert(path);
            continue;
        }
        refused(&server, stranger(), 401, "unauthorized").await;
        for wrong in ["Bearer 0123456789abcdee", "Bearer", "Basic 0123456789abcdef", TOKEN] {
            let wrong = stranger().header("authorization", wrong);
            refused(&server, wrong, 401, "unauthorized").await;
        }
        assert_ne!(server.status(ask(method, &path).token()).await, 401, "{method} {path}");
    }
    let identity = ["/identity", "/api/identity"].map(str::to_owned);
    assert_eq!(open, BTreeSet::from(identity));
    let nonce = "ab".repeat(16);
    let identity = server
        .json(ask("GET", &format!("/api/identity?nonce={nonce}")).stranger())
        .await;
    assert_eq!(identity["proof"], proof(TOKEN, 8000, &nonce));
    assert_eq!(identity["pid"], std::process::id());
}

/// What a form or a script may send to any server without asking first.
#[tokio::test]
async fn no_route_that_does_something_takes_what_a_form_can_send() {
    let server = Server::new(vec![]);
    for (method, path) in every_route() {
        if method == "GET" {
            continue;
        }
        for value in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonp",
            "",
        ] {
            let asked = would_work(&server, method, &path).header("content-type", value);
            refused(&server, asked, 415, "unsupported-media-type").await;
        }
    }
}

#[tokio::test]
async fn a_page_of_a_listed_origin_gets_what_the_user_gets() {
    let server = Server::with(vec![vec![]], "cors_origins = [\"http://localhost:5173\"]");
    let preflight = |origin: &str| {
        let asked = ask("OPTIONS", "/execute").header("origin", origin).stranger();
        asked
            .header("access-control-request-method", "POST")
            .header("sec-fetch-site", "cross-site")
    };
    assert_eq!(server.status(preflight("http://evil.example")).await, 403);
    let response = server.send(preflight("http://localhost:5173")).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(
        response.headers()["access-control-allow-origin"],
        "http://localhost:5173"
    );
    assert!(
        response.headers()["access-control-allow-methods"]
            .to_str()
            .expect("text")
            .contains("POST")
    );
    assert!(!response.headers().contains_key("access-control-allow-credentials"));
    let listed = ask("POST", "/execute")
        .header("origin", "http://localhost:5173")
        .header("sec-fetch-site", "same-site");
    let response = server.send(listed.json(server.execute("explain"))).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()["access-control-allow-origin"],
        "http://localhost:5173"
    );
    let own = |name: &str| {
        ask("GET", "/tasks")
            .header("host", name)
            .header("origin", &format!("http://{name}"))
            .header("sec-fetch-site", "same-origin")
    };
    assert_eq!(server.status(own("127.0.0.1:8000")).await, 200);
    // Another user of the machine may serve a page at the other addresses that these names lead to.
    for name in ["localhost:8000", "127.0.0.2:8000", "[::1]:8000"] {
        assert_eq!(server.status(own(name)).await, 403, "{name}");
        let silent = ask("GET", "/tasks")
            .header("host", name)
            .header("sec-fetch-site", "same-origin");
        assert_eq!(server.status(silent).await, 403, "{name}");
        assert_eq!(
            server.status(ask("GET", "/tasks").header("host", name)).await,
            200,
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_same_user_needs_the_token_where_the_configuration_says_so() {
    let server = Server::with(vec![], "auth = \"token\"");
    assert_eq!(server.status(ask("GET", "/tasks")).await, 401);
    assert_eq!(server.status(ask("GET", "/tasks").token()).await, 200);
}

#[tokio::test]
async fn a_changed_configuration_counts_from_the_next_request_and_a_broken_one_changes_nothing() {
    let server = Server::new(vec![]);
    let place = server.world.home().join("config.toml");
    let good = fs::read_to_string(&place).expect("it was written");
    let write = |text: &str| fs::write(&place, text).expect("the folder is writable");
    assert_eq!(server.status(ask("GET", "/tasks")).await, 200);
    write(&format!("{good}auth = \"token\"\n"));
    assert_eq!(server.status(ask("GET", "/tasks")).await, 401);
    write("[server]\nauth = ");
    assert_eq!(server.status(ask("GET", "/tasks").token()).await, 200);
    let problem = server.problem(ask("GET", "/tasks")).await;
    assert_eq!(
        problem,
        (503, "config-invalid".into()),
        "its owner is told what is wrong"
    );
    write(&format!("{good}hosts = [\"box.example\"]\n"));
    assert_eq!(
        server.status(ask("GET", "/tasks").header("host", "box.example")).await,
        200
    );
    write(&good);
    assert_eq!(
        server.status(ask("GET", "/tasks").header("host", "box.example")).await,
        403
    );
}

#[tokio::test]
async fn where_other_machines_may_ask_everybody_needs_the_token() {
    let server = Server::new(vec![]);
    let state = AppState::new(Parts {
        listening: "0.0.0.0:8000".parse().expect("an address"),
        ..clone_of(&server)
    });
    let server = Server {
        router: router(state.clone()),
        state,
        ..server
    };
    assert_eq!(server.problem(ask("GET", "/tasks")).await, (401, "unauthorized".into()));
    assert_eq!(server.status(ask("GET", "/tasks").token()).await, 200);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn over_a_socket_the_owner_needs_no_credential_and_stopping_ends_streams() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = socket.local_addr().expect("it is bound");
    let server = Server::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let state = AppState::new(Parts {
        listening: address,
        ..clone_of(&server)
    });
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone();
    let serving = tokio::spawn(serve(socket, state, async move { stopped.cancelled().await }));
    let body = server.execute("explain").to_string();
    let mut client = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = format!(
        "POST /stream HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.expect("it is open");
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("\"type\":\"token\"") {
        let count = client.read(&mut buffer).await.expect("it is open");
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    stop.cancel();
    client.read_to_string(&mut seen).await.expect("it is closed");
    assert!(seen.contains("\"code\":\"cancelled\""), "{seen}");
    serving.await.expect("it ends").expect("it was served");
}
