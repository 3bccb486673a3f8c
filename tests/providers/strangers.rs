//! A model server on this machine that belongs to another user: it gets no key and no code.
//!
//! Root shows it with a real other user. Without root the tests show that a user's own server is used as before, and that
//! the configuration is checked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Uid;
use tool_model_server::Round;

use super::{KEY, LOCAL, repository, serve};
use crate::conformance::http;
use crate::support::{Finished, Home, holds};

/// The user id of another person: neither ours nor a system account's.
const STRANGER: u32 = 65_533;

/// The user id of a system account.
const SYSTEM: u32 = 998;

/// Behaviour of a server towards a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerBehaviour {
    /// It answers.
    Accepts,
    /// It answers, and has closed its own direction at once, so that its socket is not in the usual state.
    ClosesOneDirection,
    /// It leaves the connection in the queue of its socket for a while.
    Waits,
}

/// A server of a user.
struct Server {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(user: u32, address: SocketAddr, manner: ServerBehaviour) -> Self {
        let (heard, connections) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicUsize>::default());
        let (sender, receiver) = channel();
        let (bytes, count) = (Arc::clone(&heard), Arc::clone(&connections));
        std::thread::spawn(move || {
            // Sockets belong to the user of the thread that makes them.
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_uid(Uid::from_raw(user)).expect("root may become any user");
            }
            let listener = TcpListener::bind(address).expect("loopback has a free port");
            sender.send(listener.local_addr()).expect("the test waits");
            if manner == ServerBehaviour::Waits {
                std::thread::sleep(Duration::from_secs(2));
            }
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                if manner == ServerBehaviour::ClosesOneDirection {
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
                listen_to(stream, &bytes);
            }
        });
        let address = receiver.recv().expect("it listens").expect("it is bound");
        Self {
            address,
            heard,
            connections,
        }
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().expect("no panic")).into_owned()
    }

    fn home(&self, host: &str, further: &str) -> Home {
        let port = self.address.port();
        Home::configured(&format!(
            "[providers.local]\nenabled = true\nmodel = \"m\"\napi_key = \"{KEY}\"\nurl = \"http://{host}:{port}/v1\"\n{further}\n"
        ))
    }
}

/// Records the request, and refuses it.
fn listen_to(mut stream: TcpStream, heard: &Mutex<Vec<u8>>) {
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("it is no zero");
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        heard.lock().expect("no panic").extend(&buffer[..count]);
    }
    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
}

fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

fn explain(home: &Home) -> Finished {
    home.run(repository().path(), &["explain", "."])
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_model_server_of_another_user_gets_no_key_and_no_code() {
    let server = Server::start(STRANGER, loopback(), ServerBehaviour::Accepts);
    let home = server.home("127.0.0.1", "");
    let finished = explain(&home).expect(1);
    if !is_root() {
        holds(&server.heard(), &[KEY, "Counts crates"]);
        return;
    }
    let said = format!(
        "[error] Nothing was sent: the server at {} belongs to another user: uid {STRANGER}\nhint: start your own server \
         there, or set its `url`; if you trust that user, set `trust_loopback_user` to that user's name or number in \
         [providers.local] of config.toml",
        server.address
    );
    holds(&finished.stderr, &[&said]);
    assert!(!finished.stderr.contains("trying again"), "{}", finished.stderr);
    // The other requests to a server: the list of models, and the short turns of a probe.
    let doctor = home.run(Path::new("/"), &["doctor", "--probe"]).expect(1).stdout;
    holds(&doctor, &["fail  provider        Nothing was sent: the server at "]);
    let models = http::ask(&home.serve(), "GET", "/models", &[]);
    assert!(!models.body.contains("crates"), "{}", models.body);
    assert!(server.connections.load(Ordering::Relaxed) >= 3, "each was tried");
    assert_eq!(server.heard(), "");
}

#[test]
fn socket_state_and_local_address_do_not_hide_a_strangers_server() {
    let all_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let all_v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0);
    for (address, manner, host) in [
        (loopback(), ServerBehaviour::Waits, "127.0.0.1"),
        (loopback(), ServerBehaviour::ClosesOneDirection, "127.0.0.1"),
        (all_v4, ServerBehaviour::Waits, "localhost"),
        (all_v6, ServerBehaviour::Accepts, "127.0.0.1"),
        (all_v6, ServerBehaviour::Waits, "127.0.0.1"),
        (v6, ServerBehaviour::Accepts, "[::1]"),
        (all_v4, ServerBehaviour::Accepts, "0.0.0.0"),
    ] {
        if address.is_ipv6() && TcpListener::bind(address).is_err() {
            continue;
        }
        let server = Server::start(STRANGER, address, manner);
        let finished = explain(&server.home(host, "")).expect(1);
        if is_root() {
            holds(&finished.stderr, &["belongs to another user: uid 65533"]);
            assert_eq!(server.heard(), "", "{address} {manner:?} {host}");
        }
    }
}

#[test]
fn servers_of_system_accounts_and_of_a_trusted_user_get_requests() {
    for (user, further) in [
        (SYSTEM, ""),
        (STRANGER, "trust_loopback_user = \"65533\""),
        (rustix::process::geteuid().as_raw(), ""),
    ] {
        let server = Server::start(user, loopback(), ServerBehaviour::Accepts);
        explain(&server.home("127.0.0.1", further)).expect(1);
        holds(&server.heard(), &[KEY, "Counts crates"]);
    }
}

#[test]
fn a_trusted_user_that_does_not_exist_is_an_error() {
    let server = serve([Round::text("Fine.")]);
    let home = Home::configured(&LOCAL.config(&server, "trust_loopback_user = \"nobody-of-this-name\""));
    let said = "`trust_loopback_user` of the provider local names a user that does not exist: `nobody-of-this-name`";
    holds(
        &explain(&home).expect(1).stderr,
        &[said, "\nhint: name a user of /etc/passwd"],
    );
    holds(&home.run(Path::new("/"), &["doctor"]).expect(1).stdout, &[said]);
    let trusting = Home::configured(&LOCAL.config(&server, "trust_loopback_user = \"root\""));
    explain(&trusting).expect(0);
}

/// Only the user's own configuration names a trusted user, because the user's key and code are at stake.
#[test]
fn a_repository_cannot_name_a_trusted_user() {
    let server = serve([Round::text("Fine.")]);
    let home = Home::configured(&LOCAL.config(&server, ""));
    let repository = repository();
    let text = "[providers.local]\ntrust_loopback_user = \"65533\"\n";
    std::fs::write(repository.path().join(".tool.toml"), text).expect("the folder is writable");
    let refused = home.run(repository.path(), &["explain", "."]).expect(2);
    holds(&refused.stderr, &["`providers` is not for a repository to say"]);
    assert!(server.requests().is_empty());
}
