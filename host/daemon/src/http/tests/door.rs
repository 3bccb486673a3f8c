//! Access checks: callers without the right to a route try every route.

use super::*;
use crate::http::listener::Listener;
use crate::http::listener::tests::sockets;
use crate::http::owner::OwnerLookup;
use crate::http::serve::serve_connections;

/// Every route of the table at both prefixes, by method and path; a variable part of a path is an `x`.
fn every_route() -> Vec<(&'static str, String)> {
    let (_, document) = build_route_table().finish();
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
    assert!(every.len() >= 2 * 18, "{every:?}");
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

/// Asserts that a route refuses a request and that nothing has been started.
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
async fn every_route_refuses_a_stranger_without_a_credential() {
    let server = Server::new(vec![]);
    for (method, path) in every_route().into_iter().chain([("GET", "/nothing".to_owned())]) {
        let stranger = || would_work(&server, method, &path).header("authorization", "");
        refused(&server, stranger(), 401, "unauthorized").await;
        for wrong in ["Bearer 0123456789abcdee", "Bearer", "Basic 0123456789abcdef", TOKEN] {
            let wrong = stranger().header("authorization", wrong);
            refused(&server, wrong, 401, "unauthorized").await;
        }
        assert_ne!(server.status(ask(method, &path).token()).await, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn two_origin_or_sec_fetch_site_headers_are_refused() {
    let server = Server::with(vec![], "cors_origins = [\"http://localhost:5173\"]");
    let listed = "http://localhost:5173";
    for (name, first, second) in [
        ("origin", listed, "http://evil.example"),
        ("origin", "http://evil.example", listed),
        ("origin", listed, listed),
        ("sec-fetch-site", "none", "cross-site"),
        ("sec-fetch-site", "same-origin", "cross-site"),
        ("sec-fetch-site", "none", "none"),
    ] {
        for asked in [ask("GET", "/tasks"), ask("GET", "/tasks").token()] {
            let mut asked = asked.header(name, first);
            asked.headers.push((name, second.to_owned()));
            refused(&server, asked, 403, "origin-not-allowed").await;
        }
    }
    assert_eq!(server.status(ask("GET", "/tasks").header("origin", listed)).await, 200);
}

/// Requests that a form or a script can send to any server without a preflight.
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
    let state = AppState::new(RouterParts {
        listening: "0.0.0.0:8000".parse().expect("an address"),
        ..clone_of(&server)
    });
    let server = Server {
        router: build_router(state.clone()),
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
    let (sockets, address, _folder) = sockets("127.0.0.1:0").await.expect("a port is free");
    let server = Server::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let state = AppState::new(RouterParts {
        listening: address,
        ..clone_of(&server)
    });
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone();
    let serving = tokio::spawn(serve_sockets(sockets, state, async move { stopped.cancelled().await }));
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

/// A server on both sockets with a given lookup of owners. It ends when this value is dropped.
#[cfg(target_os = "linux")]
struct SocketServer {
    server: Server,
    address: std::net::SocketAddr,
    folder: tempfile::TempDir,
    stop: tokio_util::sync::CancellationToken,
    log: AccessLog,
}

/// The lines of the access log so far.
#[cfg(target_os = "linux")]
#[derive(Clone, Default)]
struct AccessLog(Arc<std::sync::Mutex<Vec<u8>>>);

#[cfg(target_os = "linux")]
impl AccessLog {
    /// Waits for the line of the first request to this route.
    async fn line(&self, route: &str) -> String {
        for _ in 0..2_000 {
            let text = String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned();
            if let Some(line) = text.lines().find(|line| line.contains(route)) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nothing asked for {route}");
    }
}

#[cfg(target_os = "linux")]
impl std::io::Write for AccessLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl SocketServer {
    async fn new(server: Server, owners: OwnerLookup) -> Self {
        let (sockets, address, folder) = sockets("127.0.0.1:0").await.expect("a port is free");
        let log = AccessLog::default();
        let state = AppState::new(RouterParts {
            listening: address,
            traffic: Arc::new(Traffic::new(log.clone())),
            ..clone_of(&server)
        });
        let stop = tokio_util::sync::CancellationToken::new();
        let listener = Listener::with_lookup(sockets, owners);
        tokio::spawn(serve_connections(listener, state, stop.clone().cancelled_owned()));
        Self {
            server,
            address,
            folder,
            stop,
            log,
        }
    }

    /// The head and body of a request that begins a session.
    fn request(&self, credential: &str) -> String {
        let body = self.server.execute("explain").to_string();
        let host = self.address;
        let length = body.len();
        format!(
            "POST /execute HTTP/1.1\r\nhost: {host}\r\n{credential}content-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
    }

    fn sessions(&self) -> usize {
        let sessions = fs::read_dir(self.server.world.home().join("sessions"))
            .into_iter()
            .flatten();
        sessions.count()
    }
}

#[cfg(target_os = "linux")]
impl Drop for SocketServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What a lookup finds of a connection of our own user.
#[cfg(target_os = "linux")]
fn own_end() -> tool_socket::diag::SocketOwner {
    tool_socket::diag::SocketOwner {
        uid: rustix::process::geteuid().as_raw(),
        inode: 1,
    }
}

/// Turns this thread into another user where the test runs as root. Elsewhere the attacker is our own user, whose dead
/// connection gets nothing either.
#[cfg(target_os = "linux")]
fn become_another_user() {
    if rustix::process::geteuid().is_root() {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_533)).expect("root may become anybody");
    }
}

/// Connects as the owner, from this port where no other test uses it.
#[cfg(target_os = "linux")]
async fn connect_from(port: u16, address: std::net::SocketAddr) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("there are sockets");
    socket.set_reuseaddr(true).expect("an option");
    let from_port = match socket.bind(std::net::SocketAddr::from(([127, 0, 0, 1], port))) {
        Ok(()) => socket.connect(address).await.ok(),
        Err(_) => None,
    };
    match from_port {
        Some(stream) => stream,
        // The lookup names the owner all the same.
        None => tokio::net::TcpStream::connect(address).await.expect("it listens"),
    }
}

/// Another user sends a whole request and some bytes of a next one, and resets the connection; its bytes stay readable in
/// our dead socket. Then the owner's own client gets the same port, and only then is the port's owner looked up. Gives the
/// line of the request in the access log.
#[cfg(target_os = "linux")]
async fn request_of_another_user_whose_port_the_owner_gets(credential: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (asked, mut lookups) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let owners = OwnerLookup::from_fn(move |peer, _| {
        let _ = asked.send(peer);
        gate.lock().expect("no panic").recv().expect("the test goes on");
        // By now the owner's client has the port. This answer is true for the port, and wrong for the dead socket.
        Some(own_end())
    });
    let served = SocketServer::new(Server::new(vec![vec![], vec![]]), owners).await;
    let address = served.address;
    // A connection that lives until the lookup has begun, and is then reset with a whole request in it.
    let (sent, received) = std::sync::mpsc::channel::<()>();
    let text = format!("{}GET /x", served.request(credential));
    #[expect(clippy::disallowed_methods, reason = "the test is the client")]
    let stranger = std::thread::spawn(move || {
        become_another_user();
        let mut client = std::net::TcpStream::connect(address).expect("it listens");
        std::io::Write::write_all(&mut client, text.as_bytes()).expect("it is open");
        received.recv().expect("the test goes on");
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an option");
    });
    let peer = lookups.recv().await.expect("it is looked up");
    sent.send(()).expect("it waits");
    stranger.join().expect("it is reset");
    let mut owner = connect_from(peer.port(), address).await;
    go_on.send(()).expect("the lookup waits");
    // The owner's own request on the same port is served, so everything before it has been.
    lookups.recv().await.expect("it is looked up, too");
    go_on.send(()).expect("the lookup waits");
    let request = format!("GET /tasks HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    owner.write_all(request.as_bytes()).await.expect("it is open");
    let mut answer = String::new();
    owner.read_to_string(&mut answer).await.expect("it is closed");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("{\"tasks\":[]}"), "{answer}");
    // The server still reads the bytes of the dead connection.
    let line = served.log.line("POST /execute").await;
    assert_eq!(served.sessions(), 0, "{line}");
    line
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_another_user_is_refused_after_the_owner_gets_its_port() {
    let line = request_of_another_user_whose_port_the_owner_gets("").await;
    assert!(line.contains(" status=401 ") && line.contains(" caller=- "), "{line}");
}

/// The token does not help a closed connection, because it can get no answer.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_connection_is_closed_is_not_dispatched() {
    let line = request_of_another_user_whose_port_the_owner_gets("authorization: Bearer 0123456789abcdef\r\n").await;
    assert!(
        line.contains(" status=400 ") && line.contains(" code=connection-closed"),
        "{line}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_over_unix_counts_as_one_with_the_token() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::with(vec![], "auth = \"token\"");
    let served = SocketServer::new(server, OwnerLookup::from_fn(|_, _| None)).await;
    let place = served.folder.path().join("backend.sock");
    let ask = async |head: &str| {
        let mut client = tokio::net::UnixStream::connect(&place).await.expect("it listens");
        let request = format!("{head}connection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("it is open");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("it is closed");
        let code = answer
            .split_once("\"code\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let code = code.map_or(String::new(), |(code, _)| format!(" {code}"));
        format!("{}{code}", answer.split(' ').nth(1).unwrap_or_default())
    };
    for (head, expected) in [
        ("GET /tasks HTTP/1.1\r\nhost: localhost\r\n", "200"),
        ("GET /api/tasks HTTP/1.1\r\nhost: 127.0.0.1:1\r\n", "200"),
        ("GET /tasks HTTP/1.1\r\nhost: evil.example\r\n", "403 host-not-allowed"),
        // Requests that something forwards for a page.
        (
            "GET /tasks HTTP/1.1\r\nhost: localhost\r\norigin: http://127.0.0.1:8000\r\n",
            "403 origin-not-allowed",
        ),
        (
            "GET /tasks HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-origin\r\n",
            "403 origin-not-allowed",
        ),
        (
            "POST /stop-if-idle HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n",
            "415 unsupported-media-type",
        ),
        // Only the holder of the token ends a daemon.
        (
            "POST /stop-if-idle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
            "200",
        ),
    ] {
        assert_eq!(ask(head).await, expected, "{head}");
    }
}

/// Sends three requests at once and gives the answers until the server closes, or none comes for a while.
#[cfg(target_os = "linux")]
async fn answers_to_three_requests(served: &SocketServer, headers: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut client = tokio::net::TcpStream::connect(served.address)
        .await
        .expect("it listens");
    let request = format!("GET /tasks HTTP/1.1\r\n{headers}\r\n");
    client
        .write_all(request.repeat(3).as_bytes())
        .await
        .expect("it is open");
    let (mut answers, mut buffer) = (String::new(), [0; 4096]);
    while let Ok(Ok(count @ 1..)) = tokio::time::timeout(Duration::from_secs(2), client.read(&mut buffer)).await {
        answers.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    answers
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_gets_one_answer_for_each_connection() {
    let served = SocketServer::new(Server::new(vec![]), OwnerLookup::from_fn(|_, _| None)).await;
    let host = format!("host: {}\r\n", served.address);
    let token = format!("{host}authorization: Bearer {TOKEN}\r\n");
    let page = format!("{host}origin: http://evil.example\r\n");
    for (headers, status, count) in [
        (host.as_str(), "401", 1),
        ("host: evil.example\r\n", "403", 1),
        (page.as_str(), "403", 1),
        (token.as_str(), "200", 3),
    ] {
        let answers = answers_to_three_requests(&served, headers).await;
        assert_eq!(answers.matches("HTTP/1.1 ").count(), count, "{answers}");
        assert!(answers.starts_with(&format!("HTTP/1.1 {status} ")), "{answers}");
        assert_eq!(answers.contains("connection: close"), count == 1, "{answers}");
    }
    let owners = OwnerLookup::from_fn(|_, _| Some(own_end()));
    let served = SocketServer::new(Server::with(vec![], "auth = \"token\""), owners).await;
    let host = format!("host: {}\r\n", served.address);
    let answers = answers_to_three_requests(&served, &host).await;
    assert_eq!(
        answers.matches("HTTP/1.1 401 ").count(),
        3,
        "the owner's own: {answers}"
    );
}

/// What a caller of the same user may ask for by POST though it may be confined.
const OPEN_IF_CONFINED: [&str; 5] = ["/scan", "/context", "/execute", "/stream", "/skills/x/call"];

#[tokio::test]
async fn no_route_changes_anything_for_a_caller_who_may_be_confined() {
    let rounds = || (0..8).map(|_| vec![Act::Say("x")]).collect();
    let server = Server::new(rounds());
    for (method, path) in every_route() {
        let plain = path.strip_prefix("/api").unwrap_or(&path);
        let asked = |operation: &str| {
            let asked = would_work(&server, method, &path).header("authorization", "");
            match method {
                "POST" => asked.json(server.execute(operation)).confined(),
                _ => asked.confined(),
            }
        };
        let is_open = method == "GET" || OPEN_IF_CONFINED.contains(&plain);
        let status = server.status(asked("explain")).await;
        assert_eq!(status != 401, is_open, "{method} {path}: {status}");
        if plain == "/execute" || (method == "POST" && plain == "/stream") {
            assert_eq!(status, 200, "{method} {path}");
            for operation in ["refactor", "test-gen"] {
                let refused = server.problem(asked(operation)).await;
                assert_eq!(refused, (401, "unauthorized".to_owned()), "{method} {path} {operation}");
            }
        }
    }
    for operation in ["explain", "architect", "refactor", "test-gen"] {
        let mut body = server.execute(operation);
        body["target"] = json!("src/main.py");
        let asked = ask("POST", "/execute").json(body);
        assert_eq!(server.status(asked).await, 200, "{operation} in our own namespaces");
    }
}

/// What the configuration allows is for callers that are known.
#[tokio::test]
async fn the_configuration_grants_nothing_to_a_caller_who_may_be_confined() {
    let allowed = "[policy]\nallow = [\"write-repository\"]";
    let write = || json!({"path": "new.txt", "content": "x"});
    let called = |server: &Server| {
        let body = json!({"repo_path": server.world.repository(), "arguments": write()});
        ask("POST", "/skills/write_file/call").json(body)
    };
    let server = Server::with(
        (0..2)
            .flat_map(|_| [vec![Act::Call("write_file", write())], vec![Act::Say("x")]])
            .collect(),
        allowed,
    );
    let made = server.world.repository().join("new.txt");
    let explain = || ask("POST", "/stream").json(server.execute("explain"));
    assert_eq!(
        server.problem(called(&server).confined()).await,
        (401, "unauthorized".to_owned())
    );
    server.text(explain().confined()).await;
    assert!(!made.exists());
    server.text(explain()).await;
    assert!(made.exists(), "the same request in our own namespaces");
}

#[tokio::test]
async fn a_tool_that_changes_something_is_refused_to_a_client_that_may_be_confined() {
    let server = Server::with(vec![], "[policy]\nallow = [\"write-repository\"]");
    let root = server.world.repository();
    let send = |id: u64, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        ask("POST", &format!("/mcp?root={}", root.display()))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .json(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    };
    let write = |id| send(id, "write_file", json!({"path": "new.txt", "content": "x"}));
    let refused = server.text(write(1).confined()).await;
    assert!(
        refused.contains("\"isError\":true") && refused.contains("does more than read"),
        "{refused}"
    );
    let read = server
        .text(send(2, "read_file", json!({"path": "src/main.py"})).confined())
        .await;
    assert!(read.contains("\"isError\":false"), "{read}");
    assert!(!root.join("new.txt").exists());
    let written = server.text(write(3)).await;
    assert!(written.contains("\"isError\":false"), "{written}");
}
