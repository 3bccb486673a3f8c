//! Registries that misbehave: silent ones, ones that talk too much, and ones that ask for other hosts' credentials.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::*;
use crate::oci::client::{REGISTRY_REDIRECTS_MAX, TOKEN_BYTES_MAX};

/// Answer of a stub to a path: a status line's rest, headers, and a body.
type Answers = Arc<dyn Fn(&str) -> (String, String, Vec<u8>) + Send + Sync>;

/// A path that was asked for, and the authorization that came with it.
type Asked = (String, Option<String>);

/// A registry with given answers. It records each request: the request line, and its authorization.
struct Stub {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    fn serve(answers: impl Fn(&str) -> (String, String, Vec<u8>) + Send + Sync + 'static) -> Self {
        Self::serve_on("127.0.0.1:0", answers)
    }

    fn serve_on(address: &str, answers: impl Fn(&str) -> (String, String, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, known): (Answers, _) = (Arc::new(answers), Arc::clone(&asked));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (answers, known) = (Arc::clone(&answers), Arc::clone(&known));
                std::thread::spawn(move || answer(connection, &answers, &known));
            }
        });
        Self { port, asked }
    }

    fn place(&self) -> RegistryReference {
        let text = format!("oci://127.0.0.1:{}/team/lint:1.0", self.port);
        text.parse().expect("it is a place")
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

fn answer(mut connection: TcpStream, answers: &Answers, asked: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(connection.try_clone().expect("it can be shared"));
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
        let header = |line: &String| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
        };
        let authorization = lines.iter().find_map(header);
        asked.lock().expect("not poisoned").push((path.clone(), authorization));
        let (status, headers, body) = answers(&path);
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        if connection
            .write_all(head.as_bytes())
            .and_then(|()| connection.write_all(&body))
            .is_err()
        {
            return;
        }
    }
}

fn ok(body: impl Into<Vec<u8>>) -> (String, String, Vec<u8>) {
    ("200 OK".to_owned(), String::new(), body.into())
}

fn missing() -> (String, String, Vec<u8>) {
    ("404 Not Found".to_owned(), String::new(), Vec::new())
}

/// The manifest of a component with these bytes.
fn manifest_of(component: &[u8]) -> Vec<u8> {
    let described = ComponentDescription {
        name: "lint".to_owned(),
        version: "1.0.0".to_owned(),
        description: String::new(),
    };
    serde_json::to_vec(&artifact::of_component(component, &described).manifest).expect("it has string keys only")
}

/// An environment in which the user has logged in to a registry on this port.
fn logged_in(port: u16) -> (tempfile::TempDir, Environment) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let auth = BASE64.encode(b"ada:hunter2");
    let logins = format!(r#"{{"auths": {{"127.0.0.1:{port}": {{"auth": "{auth}"}}}}}}"#);
    std::fs::write(folder.path().join("config.json"), logins).expect("the folder is writable");
    let variable = ("DOCKER_CONFIG".to_owned(), folder.path().display().to_string());
    (folder, Environment::new([variable].into()))
}

#[tokio::test]
async fn a_component_is_pulled_where_all_digests_agree() {
    let component = b"\0asm component".to_vec();
    let served = component.clone();
    let stub = Stub::serve(move |path| match path {
        "/v2/" => ok(""),
        "/v2/team/lint/manifests/1.0" => ok(manifest_of(&served)),
        path if path.contains("/blobs/") => ok(served.clone()),
        _ => missing(),
    });
    let pulled = pull_component(&stub.place(), &Environment::default())
        .await
        .expect("it is right");
    assert_eq!(pulled.component, component);
    assert_eq!(pulled.manifest, digest_of(&manifest_of(&component)));
    let other = stub.place().pinned(&digest_of(b"something else"));
    let refused = pull_component(&other, &Environment::default()).await;
    assert!(
        matches!(refused, Err(DistributionError::NotFound { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn other_bytes_than_the_digests_say_are_refused() {
    let stub = Stub::serve(|path| match path {
        "/v2/" => ok(""),
        path if path.contains("/manifests/") => ok(manifest_of(b"\0asm as agreed")),
        path if path.contains("/blobs/") => ok("\0asm as forged"),
        _ => missing(),
    });
    let refused = pull_component(&stub.place(), &Environment::default()).await;
    assert!(
        matches!(refused, Err(DistributionError::WrongDigest { .. })),
        "{refused:?}"
    );
    let pinned = stub.place().pinned(&digest_of(b"another manifest"));
    let refused = pull_component(&pinned, &Environment::default()).await;
    assert!(
        matches!(refused, Err(DistributionError::WrongDigest { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_registry_says_so_much_and_no_more() {
    let long = |max: u64| vec![b' '; usize::try_from(max).expect("it is small") + 1];
    let stub = Stub::serve(move |path| match path {
        "/v2/" => ok(""),
        _ => ok(long(MANIFEST_BYTES_MAX)),
    });
    let refused = resolve_digest(&stub.place(), &Environment::default()).await;
    let is_bounded = matches!(refused, Err(DistributionError::TooLarge { max, .. }) if max == MANIFEST_BYTES_MAX);
    assert!(is_bounded, "{refused:?}");

    let stub = Stub::serve(|path| match path {
        "/v2/" => ok(""),
        path if path.contains("/manifests/") => ok(manifest_of(b"four")),
        _ => ok("more than four"),
    });
    let refused = pull_component(&stub.place(), &Environment::default()).await;
    assert!(
        matches!(
            refused,
            Err(DistributionError::TooLarge { .. } | DistributionError::WrongDigest { .. })
        ),
        "{refused:?}"
    );

    // The port is known only once it listens, and the challenge names it.
    let port = Arc::new(Mutex::new(0));
    let known = Arc::clone(&port);
    let stub = Stub::serve(move |path| match path {
        "/v2/" => challenge(&format!(
            "http://127.0.0.1:{}/token",
            known.lock().expect("not poisoned")
        )),
        _ => ok(long(TOKEN_BYTES_MAX)),
    });
    *port.lock().expect("not poisoned") = stub.port;
    let refused = resolve_digest(&stub.place(), &Environment::default()).await;
    let is_bounded = matches!(refused, Err(DistributionError::TooLarge { max, .. }) if max == TOKEN_BYTES_MAX);
    assert!(is_bounded, "{refused:?}");
}

fn challenge(realm: &str) -> (String, String, Vec<u8>) {
    let header = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"stub\"\r\n");
    ("401 Unauthorized".to_owned(), header, Vec::new())
}

/// Waits as long as [`super::REGISTRY_SECONDS_MAX`] says, which tests make short.
#[tokio::test]
async fn a_registry_that_is_silent_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let place: RegistryReference = format!("oci://127.0.0.1:{port}/x").parse().expect("it is a place");
    let _hurried = limits::pace::hurried(600);
    let refused = resolve_digest(&place, &Environment::default()).await;
    assert!(matches!(refused, Err(DistributionError::TooSlow { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_token_comes_for_the_login_and_goes_to_the_registry_alone() {
    let component = b"\0asm component".to_vec();
    let elsewhere = {
        let component = component.clone();
        Stub::serve(move |_| ok(component.clone()))
    };
    let (port, other) = (Arc::new(Mutex::new(0)), elsewhere.port);
    let known = Arc::clone(&port);
    let stub = Stub::serve(move |path| match path {
        "/v2/" => challenge(&format!(
            "http://127.0.0.1:{}/token",
            known.lock().expect("not poisoned")
        )),
        path if path.starts_with("/token?") => ok(r#"{"token": "s3cret"}"#),
        path if path.contains("/manifests/") => ok(manifest_of(&component)),
        _ => {
            let location = format!("Location: http://127.0.0.1:{other}/blob\r\n");
            ("307 Temporary Redirect".to_owned(), location, Vec::new())
        }
    });
    *port.lock().expect("not poisoned") = stub.port;
    let (_folder, environment) = logged_in(stub.port);
    let pulled = pull_component(&stub.place(), &environment).await.expect("it is right");
    assert_eq!(pulled.component, b"\0asm component");
    let asked = stub.asked();
    let of = |part: &str| asked.iter().find(|(path, _)| path.contains(part)).cloned();
    let (token, login) = of("/token?").expect("it was asked for");
    assert!(
        token.contains("scope=repository%3Ateam%2Flint%3Apull&service=stub"),
        "{token}"
    );
    assert_eq!(login, Some(format!("Basic {}", BASE64.encode(b"ada:hunter2"))));
    for part in ["/manifests/", "/blobs/"] {
        let (_, sent) = of(part).expect("it was asked for");
        assert_eq!(sent.as_deref(), Some("Bearer s3cret"), "{part}");
    }
    assert_eq!(
        elsewhere.asked(),
        [("/blob".to_owned(), None)],
        "a redirect takes nothing along"
    );
}

#[tokio::test]
async fn a_registry_sends_us_elsewhere_a_few_times_and_nowhere_nearer() {
    let to = |location: String| {
        let location = format!("Location: {location}\r\n");
        ("307 Temporary Redirect".to_owned(), location, Vec::new())
    };
    // So often, and not once more.
    for (times, is_taken) in [(REGISTRY_REDIRECTS_MAX, true), (REGISTRY_REDIRECTS_MAX + 1, false)] {
        let stub = Stub::serve(move |path| match path {
            "/v2/" => ok(""),
            path if path.contains("/manifests/") => ok(manifest_of(b"\0asm component")),
            path => match path.trim_start_matches("/hop/").parse::<usize>() {
                Ok(done) if done >= times => ok("\0asm component"),
                Ok(done) => to(format!("/hop/{}", done + 1)),
                Err(_) => to("/hop/1".to_owned()),
            },
        });
        let pulled = pull_component(&stub.place(), &Environment::default()).await;
        assert_eq!(pulled.is_ok(), is_taken, "{times} {pulled:?}");
    }
    // A registry of this machine leads to this machine or by TLS; no host is contacted to find out.
    for (location, said) in [
        ("http://192.0.2.1/blob", "it sends us to `192.0.2.1`, and not by TLS"),
        ("ftp://127.0.0.1/blob", "it sends us to `127.0.0.1`, and not by TLS"),
        ("http://", "it sends us elsewhere and does not say where"),
    ] {
        let stub = Stub::serve(move |path| match path {
            "/v2/" => ok(""),
            path if path.contains("/manifests/") => ok(manifest_of(b"\0asm component")),
            _ => to(location.to_owned()),
        });
        let refused = pull_component(&stub.place(), &Environment::default()).await;
        assert!(
            refused.as_ref().is_err_and(|error| error.to_string().ends_with(said)),
            "{location} {refused:?}"
        );
    }
}

/// Every address of this machine is its own, and so is its name: a push to it passes no proxy.
#[tokio::test]
async fn no_proxy_stands_between_this_machine_and_itself() {
    let proxy = Stub::serve(|_| ok(""));
    let proxied = [
        ("HTTP_PROXY".to_owned(), format!("http://127.0.0.1:{}", proxy.port)),
        ("https_proxy".to_owned(), format!("http://127.0.0.1:{}", proxy.port)),
    ];
    let environment = Environment::new(proxied.into());
    for (host, address) in [
        ("127.0.0.1", "127.0.0.1:0"),
        ("127.0.0.2", "127.0.0.2:0"),
        ("localhost", "127.0.0.1:0"),
    ] {
        let stub = Stub::serve_on(address, |path| match path {
            "/v2/" => ok(""),
            _ => missing(),
        });
        let place: RegistryReference = format!("oci://{host}:{}/team/lint:1.0", stub.port)
            .parse()
            .expect("it is a place");
        let described = ComponentDescription {
            name: "lint".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
        };
        let refused = push_component(&place, b"\0asm", &described, &environment).await;
        assert!(refused.is_err(), "it takes nothing");
        assert!(stub.asked().len() > 1, "{host}: it was asked whether it does");
    }
    assert!(proxy.asked().is_empty(), "{:?}", proxy.asked());
}

#[tokio::test]
async fn a_login_is_not_sent_where_a_challenge_points_elsewhere() {
    let thief = Stub::serve(|_| ok(r#"{"token": "x"}"#));
    let realm = format!("http://127.0.0.1:{}/token", thief.port);
    let stub = Stub::serve(move |_| challenge(&realm));
    let (_folder, environment) = logged_in(stub.port);
    let refused = pull_component(&stub.place(), &environment).await;
    assert!(matches!(refused, Err(DistributionError::Realm { .. })), "{refused:?}");
    assert!(thief.asked().is_empty());
    // A login for another registry is not sent here.
    let (_folder, environment) = logged_in(thief.port);
    let stub = Stub::serve(|_| {
        let header = "WWW-Authenticate: Basic realm=\"x\"\r\n".to_owned();
        ("401 Unauthorized".to_owned(), header, Vec::new())
    });
    let refused = pull_component(&stub.place(), &environment).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("docker login")));
    assert!(stub.asked().iter().all(|(_, sent)| sent.is_none()));
}
