//! The proxy on real sockets: hosts that it reaches, hosts that it refuses, and its bounds.

use super::*;

/// A server that answers every connection with what it got, once it got this much, and counts connections.
struct Echo {
    port: u16,
    reached: Arc<AtomicUsize>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        let (port, reached) = (
            listener.local_addr().expect("it has one").port(),
            Arc::new(AtomicUsize::new(0)),
        );
        let count = Arc::clone(&reached);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length) = stream.read(&mut buffer) {
                        if length == 0 || stream.write_all(&buffer[..length]).is_err() {
                            return;
                        }
                        if buffer[..length].ends_with(b"\r\n\r\n") {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, reached }
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

fn proxy(way: ProxyRoute) -> (Proxy, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let port = listener.local_addr().expect("it has one").port();
    (Proxy::start(listener, way).expect("it starts"), port)
}

fn own(url: &str) -> ProxyRoute {
    ProxyRoute {
        places: vec![RegistryHost::from_url(url, true).expect("it is a place")],
        ..ProxyRoute::default()
    }
}

/// Says something to the proxy and gives its whole answer.
#[expect(clippy::disallowed_methods, reason = "the test is the client")]
fn say(port: u16, text: &str) -> String {
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("the proxy listens");
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("it can be set");
    client.write_all(text.as_bytes()).expect("it is taken");
    let mut answer = Vec::new();
    // A reset after the answer is an end like any other.
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_configured_mirror_on_this_machine_is_reached_and_nothing_else_of_it() {
    let (mirror, other) = (Echo::start(), Echo::start());
    let (proxy, port) = proxy(own(&format!("http://127.0.0.1:{}/simple/", mirror.port)));
    let tunnel = say(
        port,
        &format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\nhello\r\n\r\n", mirror.port),
    );
    assert_eq!(tunnel, "HTTP/1.1 200 Connection established\r\n\r\nhello\r\n\r\n");
    let plain = say(
        port,
        &format!("GET http://127.0.0.1:{}/simple/x HTTP/1.1\r\nA: b\r\n\r\n", mirror.port),
    );
    assert!(plain.starts_with("GET /simple/x HTTP/1.1\r\n"), "{plain}");
    assert_eq!(mirror.reached(), 2);

    for target in [
        format!("127.0.0.1:{}", other.port),
        format!("localhost:{}", mirror.port),
    ] {
        let answer = say(port, &format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    assert_eq!((mirror.reached(), other.reached()), (2, 0));
    let expected = [
        format!(
            "installation tried to reach 127.0.0.1:{}: refused (it is no package registry of the user's)",
            other.port
        ),
        format!(
            "installation tried to reach localhost:{}: refused (it is no package registry of the user's)",
            mirror.port
        ),
    ];
    assert_eq!(proxy.refusals(), expected);
    assert_eq!(proxy.fresh_refusals(), expected);
    assert!(proxy.fresh_refusals().is_empty(), "each is told once");
}

#[test]
fn a_registry_whose_name_leads_to_this_machine_is_not_reached() {
    let server = Echo::start();
    let place = RegistryHost {
        host: "localhost".to_owned(),
        port: server.port,
        is_plain: false,
        is_own: false,
    };
    let way = ProxyRoute {
        places: vec![place],
        ..ProxyRoute::default()
    };
    let (proxy, port) = proxy(way);
    let answer = say(port, &format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", server.port));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(server.reached(), 0);
    let said = proxy.refusals();
    assert!(
        said[0].contains("refused (its name leads to an address that is not public, "),
        "{said:?}"
    );
}

#[test]
fn a_second_plain_request_on_a_connection_goes_nowhere() {
    let mirror = Echo::start();
    let (_proxy, port) = proxy(own(&format!("http://127.0.0.1:{}", mirror.port)));
    let first = format!("GET http://127.0.0.1:{}/a HTTP/1.1\r\n\r\n", mirror.port);
    let answer = say(
        port,
        &format!("{first}GET http://127.0.0.1:{}/b HTTP/1.1\r\n\r\n", mirror.port),
    );
    assert!(answer.contains("GET /a ") && !answer.contains("/b"), "{answer}");
}

#[test]
fn the_proxy_of_the_environment_is_on_the_way() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let address = upstream.local_addr().expect("it has one");
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = upstream.accept().expect("somebody comes");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("the request is whole");
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 fine\r\n\r\nfrom afar")
            .expect("it is taken");
        String::from_utf8_lossy(&head).into_owned()
    });
    let way = ProxyRoute {
        places: vec![RegistryHost::from_host("registry.example").expect("it is one")],
        upstream_tls: Upstream::from_url(&format!("http://{address}")),
        ..ProxyRoute::default()
    };
    let (_proxy, port) = proxy(way);
    let answer = say(port, "CONNECT registry.example:443 HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("from afar"), "{answer}");
    let asked = asked.join().expect("no panic");
    assert!(
        asked.starts_with("CONNECT registry.example:443 HTTP/1.1\r\n"),
        "{asked}"
    );
}

/// `PROXY_HEAD_BYTES_MAX`.
#[test]
fn a_request_without_an_end_is_cut_off() {
    let (proxy, port) = proxy(ProxyRoute::default());
    let endless = "x".repeat(PROXY_HEAD_BYTES_MAX + 10);
    assert_eq!(say(port, &format!("CONNECT {endless}")), "");
    assert_eq!(
        proxy.refusals(),
        ["installation sent a request without an end: refused"]
    );
}

/// `PROXY_REFUSALS_NAMED_MAX`.
#[test]
fn places_without_end_are_named_up_to_a_bound() {
    let (proxy, port) = proxy(ProxyRoute::default());
    for number in 0..PROXY_REFUSALS_NAMED_MAX + 5 {
        say(port, &format!("CONNECT evil{number}.example:443 HTTP/1.1\r\n\r\n"));
    }
    assert_eq!(proxy.refusals().len(), PROXY_REFUSALS_NAMED_MAX);
}

/// `PROXY_OPEN_MAX`.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the client")]
fn connections_without_end_are_cut_off() {
    let (proxy, port) = proxy(ProxyRoute::default());
    let held: Vec<TcpStream> = (0..PROXY_OPEN_MAX + 8)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("the proxy listens"))
        .collect();
    let started = Instant::now();
    while proxy.refusals().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(proxy.refusals(), ["too many connections at a time"]);
    drop(held);
}

/// `PROXY_CONNECTIONS_MAX`, `PROXY_SENT_BYTES_MAX` and `PROXY_RECEIVED_BYTES_MAX`, counted over all connections.
#[test]
fn what_all_connections_move_together_is_bounded() {
    let mirror = Echo::start();
    let connect = format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\nhello\r\n\r\n", mirror.port);
    let attempt = |exhaust: fn(&ProxyShared)| {
        let (proxy, port) = proxy(own(&format!("http://127.0.0.1:{}", mirror.port)));
        exhaust(&proxy.shared);
        let answer = say(port, &connect);
        assert!(!answer.ends_with("hello\r\n\r\n"), "{answer}");
        proxy.refusals().join("\n")
    };
    let sent = attempt(|shared| shared.sent.store(PROXY_SENT_BYTES_MAX, Ordering::Relaxed));
    assert!(sent.ends_with("through its proxy: refused"), "{sent}");
    let received = attempt(|shared| shared.received.store(PROXY_RECEIVED_BYTES_MAX, Ordering::Relaxed));
    assert!(received.ends_with("through its proxy: refused"), "{received}");
    let many = attempt(|shared| shared.connections.store(PROXY_CONNECTIONS_MAX, Ordering::Relaxed));
    assert_eq!(many, "too many connections at a time");
}

#[test]
fn connections_end_with_the_run() {
    let mirror = Echo::start();
    let (proxy, port) = proxy(own(&format!("http://127.0.0.1:{}", mirror.port)));
    let shared = Arc::clone(&proxy.shared);
    let client = std::thread::spawn(move || say(port, &format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\n", mirror.port)));
    let started = Instant::now();
    while shared.open.load(Ordering::Relaxed) == 0 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    drop(proxy);
    client.join().expect("the connection has ended");
    while Arc::strong_count(&shared) > 1 {
        assert!(started.elapsed() < Duration::from_secs(20), "a thread is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let address = listener.local_addr().expect("it has one");
    #[expect(clippy::disallowed_methods, reason = "the test is the client")]
    let client = TcpStream::connect(address).expect("it listens");
    (client, listener.accept().expect("somebody comes").0)
}

#[test]
fn whoever_says_nothing_is_given_up() {
    let (proxy, _port) = proxy(ProxyRoute::default());
    let _hurried = limits::pace::hurried(100);
    let started = Instant::now();
    let (_client, server) = pair();
    server.set_read_timeout(Some(TICK)).expect("a time-out can be set");
    // `PROXY_CONNECT_SECONDS_MAX`: no head comes.
    assert!(read_head(&server, &proxy.shared).is_err());
    // `PROXY_IDLE_SECONDS_MAX`: nothing more passes.
    let (_other, to) = pair();
    let ended = pass_bytes(&server, &to, &proxy.shared, |shared| {
        (&shared.sent, PROXY_SENT_BYTES_MAX)
    });
    assert_eq!(ended.expect_err("nothing comes").kind(), io::ErrorKind::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(PROXY_CONNECT_SECONDS_MAX));
}

#[test]
fn of_the_addresses_of_a_name_the_first_few_are_tried() {
    let server = Echo::start();
    let open = SocketAddr::from(([127, 0, 0, 1], server.port));
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    let tried = |before: usize| connect_any(&[vec![closed; before], vec![open]].concat()).is_ok();
    assert!(tried(PROXY_ADDRESSES_MAX - 1) && !tried(PROXY_ADDRESSES_MAX));
}
