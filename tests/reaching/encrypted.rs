//! The server of a team with a certificate of its own authority: TLS on loopback, through the real binary.

use std::io::BufReader;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::{SECRET, World, serve};
use crate::support::holds;

/// Certificate of an authority that no system knows, and one that it gave to `localhost`; both are valid for a hundred years.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/tls/server.pem");
const KEY: &[u8] = include_bytes!("../fixtures/tls/server.key");

/// The backend trusts the authority.
const TRUSTING: &[(&str, &str)] = &[("SSL_CERT_FILE", AUTHORITY)];

/// A server like the plain one, with the certificate.
fn encrypted_server() -> (u16, mpsc::Receiver<String>) {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("it is one");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("it is one");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is that of the certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, sender) = (Arc::clone(&config), sender.clone());
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).expect("the configuration is valid");
                serve(BufReader::new(StreamOwned::new(connection, stream)), &sender);
            });
        }
    });
    (port, receiver)
}

#[test]
fn a_certificate_of_an_authority_that_the_call_names_is_accepted() {
    let (port, requests) = encrypted_server();
    let world = World::at(&format!("https://localhost:{port}"), requests, TRUSTING);
    world.set_secret("authorization");
    let asked = json!({
        "do": "GET",
        "url": "https://tickets.example.org/issues/7",
        "headers": ["authorization: Bearer {{secret:tickets_token}}"],
    });
    holds(&world.call(&asked, &[]).expect(0).stdout, &["200\n"]);
    let received = world.requests.recv().expect("a request came");
    holds(
        &received,
        &["GET /issues/7 HTTP/1.1", &format!("authorization: Bearer {SECRET}\r\n")],
    );
    // The backend that this call started trusts the authority in no later call.
    let later = World {
        variables: &[],
        ..world
    };
    holds(&later.call(&asked, &[]).expect(1).stderr, &["TlsCertificateError"]);
    assert!(later.requests.try_recv().is_err(), "nothing was sent");
}

#[test]
fn a_wrong_certificate_is_refused_before_anything_is_sent() {
    let asked = json!({"do": "GET", "url": "https://tickets.example.org/"});
    // No authority that the system knows gave it.
    let (port, requests) = encrypted_server();
    let stranger = World::at(&format!("https://localhost:{port}"), requests, &[]);
    holds(&stranger.call(&asked, &[]).expect(1).stderr, &["TlsCertificateError"]);
    // It is for another name.
    let (port, requests) = encrypted_server();
    let misnamed = World::at(&format!("https://127.0.0.1:{port}"), requests, TRUSTING);
    holds(&misnamed.call(&asked, &[]).expect(1).stderr, &["TlsCertificateError"]);
    for world in [stranger, misnamed] {
        assert!(world.requests.try_recv().is_err(), "nothing was sent");
    }
}
