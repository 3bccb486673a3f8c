//! HTTP requests of skills: the only connections that a guest can cause.
//!
//! The boundary has checked the effect. This module decides where the connection leads: with TLS to public addresses,
//! or to the address that `[skills.hosts]` in the user's configuration names for a host. The client connects only to
//! addresses from its own resolver, which drops addresses that are not public, so that a second lookup of the name
//! cannot lead elsewhere. It follows no redirect and uses no proxy, because a proxy would resolve the name again.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, redirect};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use tool_config::Environment;
use tool_provider::use_authorities;
use tool_sandbox::proxy::is_public;
use tool_skill::transport::{FIELDS_BYTES_MAX, RESPONSE_BODY_BYTES_MAX};
use tool_skill::{HttpTransport, InboundResponse, OutboundRequest, TransportError};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit for simultaneous requests of all skills.
const CONCURRENT_MAX: usize = 32;

/// Sends the requests of skills.
pub struct SkillTransport {
    home: PathBuf,
    engine: OnceLock<Option<Arc<TransportEngine>>>,
}

struct TransportEngine {
    runtime: Runtime,
    permits: Arc<tokio::sync::Semaphore>,
    /// Client for public addresses.
    public: Client,
    /// Client for hosts that the user's configuration names.
    named: Client,
}

impl SkillTransport {
    /// Creates a transport with the settings of this home. It starts no thread before the first request.
    pub fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            engine: OnceLock::new(),
        }
    }

    fn engine(&self) -> Option<&Arc<TransportEngine>> {
        self.engine
            .get_or_init(|| TransportEngine::new().map(Arc::new))
            .as_ref()
    }

    /// The URL of a request, and true if the user's configuration names its host.
    fn place(&self, request: &OutboundRequest) -> Result<(Url, bool), TransportError> {
        let common =
            tool_config::load_common(&self.home, &Environment::default()).map_err(|_| TransportError::Unavailable)?;
        let named = common.skills.hosts.get(&request.host);
        let origin = match named {
            Some(origin) => origin.to_string(),
            None if request.is_encrypted => format!("https://{}", request.host),
            None => return Err(TransportError::NotEncrypted),
        };
        let url = Url::parse(&format!("{origin}{}", request.path_with_query)).map_err(|_| TransportError::Invalid)?;
        // The resolver is not asked about a literal address.
        let literal = url.host_str().and_then(|host| host.parse::<IpAddr>().ok());
        if named.is_none() && literal.is_some_and(|address| !is_public(address.to_canonical())) {
            return Err(TransportError::ProhibitedAddress);
        }
        Ok((url, named.is_some()))
    }
}

impl HttpTransport for SkillTransport {
    fn send(
        &self,
        request: OutboundRequest,
        cancel: CancellationToken,
    ) -> Receiver<Result<InboundResponse, TransportError>> {
        let (sender, receiver) = mpsc::channel();
        // If the receiver is gone, its guest is gone as well.
        let answer = move |response| drop(sender.send(response));
        let (place, engine) = (self.place(&request), self.engine());
        match (place, engine) {
            (Err(error), _) => answer(Err(error)),
            (Ok(_), None) => answer(Err(TransportError::Unavailable)),
            (Ok((url, is_named)), Some(engine)) => {
                let worker = Arc::clone(engine);
                engine.runtime.spawn(async move {
                    let timeout = request.timeout;
                    let exchange = tokio::time::timeout(timeout, worker.exchange(request, url, is_named));
                    let response = tokio::select! {
                        response = exchange => response.unwrap_or(Err(TransportError::Timeout)),
                        () = cancel.cancelled() => Err(TransportError::Timeout),
                    };
                    answer(response);
                });
            }
        }
        receiver
    }
}

impl TransportEngine {
    fn new() -> Option<Self> {
        tool_provider::use_crypto();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("skill-http")
            .enable_all()
            .build()
            .ok()?;
        Some(Self {
            runtime,
            permits: Arc::new(tokio::sync::Semaphore::new(CONCURRENT_MAX)),
            public: build_client(true, &BTreeMap::new())?,
            named: build_client(false, &BTreeMap::new())?,
        })
    }

    async fn exchange(
        &self,
        request: OutboundRequest,
        url: Url,
        is_named: bool,
    ) -> Result<InboundResponse, TransportError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let _permit = permit.map_err(|_| TransportError::Unavailable)?;
        let of_the_caller;
        let client = match is_named {
            _ if !request.authorities.is_empty() => {
                of_the_caller = build_client(!is_named, &request.authorities).ok_or(TransportError::Encryption)?;
                &of_the_caller
            }
            true => &self.named,
            false => &self.public,
        };
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| TransportError::Invalid)?;
        let mut builder = client.request(method, url).headers(request_headers(&request)?);
        if !request.body.is_empty() {
            builder = builder.body(request.body);
        }
        let response = builder.send().await.map_err(|error| classify_error(&error))?;
        read_response(response).await
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
fn build_client(is_public_only: bool, authorities: &BTreeMap<String, String>) -> Option<Client> {
    let builder = use_authorities(Client::builder(), authorities)
        .inspect_err(|error| tracing::warn!(%error, "no authorities for the requests of skills"));
    let built = builder
        .ok()?
        .dns_resolver(Arc::new(PublicResolver { is_public_only }))
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(4)
        .build();
    built
        .inspect_err(|error| tracing::warn!(%error, "no client for the requests of skills"))
        .ok()
}

fn request_headers(request: &OutboundRequest) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.fields {
        // The client counts the body itself.
        if name == "content-length" {
            continue;
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| TransportError::Invalid)?;
        let mut value = HeaderValue::from_bytes(value).map_err(|_| TransportError::Invalid)?;
        // The value may hold a secret. Debug output does not show sensitive values.
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Reads a response up to the limits.
async fn read_response(mut response: Response) -> Result<InboundResponse, TransportError> {
    let fields: Vec<(String, Vec<u8>)> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > FIELDS_BYTES_MAX {
        return Err(TransportError::FieldsTooLong);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| TransportError::Invalid)? {
        if body.len() + chunk.len() > RESPONSE_BODY_BYTES_MAX {
            return Err(TransportError::BodyTooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(InboundResponse {
        status: response.status().as_u16(),
        fields,
        body,
    })
}

/// Classifies an error of the client. Its message may hold the URL, so it is not passed on.
fn classify_error(error: &reqwest::Error) -> TransportError {
    let mut causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    if let Some(resolved) = causes.find_map(|cause| cause.downcast_ref::<ResolveError>()) {
        return match resolved {
            ResolveError::Prohibited => TransportError::ProhibitedAddress,
            ResolveError::Unknown => TransportError::NoAddress,
        };
    }
    if error.is_timeout() {
        TransportError::Timeout
    } else if is_of_encryption(error) {
        TransportError::Encryption
    } else if error.is_connect() {
        TransportError::Refused
    } else {
        TransportError::Invalid
    }
}

/// True if an error of TLS is among the causes. `io::Error::source` skips the error that it wraps, so that one is
/// examined as well.
fn is_of_encryption(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || wrapped.is_some_and(|wrapped| is_of_encryption(wrapped))
        || error.source().is_some_and(is_of_encryption)
}

/// Resolves names, and drops addresses that are not public.
struct PublicResolver {
    is_public_only: bool,
}

/// Reason why a name has no usable address.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum ResolveError {
    #[error("all addresses of the host are private")]
    Prohibited,
    #[error("the host has no address")]
    Unknown,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_public_only = self.is_public_only;
        Box::pin(async move {
            // The client sets the port.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found: Vec<SocketAddr> = found.map_err(|_| ResolveError::Unknown)?.collect();
            let usable = usable_addresses(found, is_public_only)?;
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

/// Keeps the addresses that may be connected to.
fn usable_addresses(found: Vec<SocketAddr>, is_public_only: bool) -> Result<Vec<SocketAddr>, ResolveError> {
    if found.is_empty() {
        return Err(ResolveError::Unknown);
    }
    let is_usable = |address: &SocketAddr| !is_public_only || is_public(address.ip().to_canonical());
    let usable: Vec<SocketAddr> = found.into_iter().filter(is_usable).collect();
    if usable.is_empty() {
        Err(ResolveError::Prohibited)
    } else {
        Ok(usable)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn request(host: &str, is_encrypted: bool) -> OutboundRequest {
        OutboundRequest {
            host: host.parse().expect("it is a host"),
            is_encrypted,
            method: "GET".to_owned(),
            path_with_query: "/a?b".to_owned(),
            fields: vec![("x-a".to_owned(), b"1".to_vec())],
            body: Vec::new(),
            timeout: Duration::from_secs(20),
            authorities: BTreeMap::new(),
        }
    }

    fn send(home: &Path, request: OutboundRequest) -> Result<InboundResponse, TransportError> {
        let transport = SkillTransport::new(home);
        let response = transport.send(request, CancellationToken::new()).recv();
        response.expect("there is an answer")
    }

    /// A server that answers one connection with these bytes. Returns its port, and then what it was sent.
    fn server(answer: Vec<u8>) -> (u16, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let mut read = vec![0; 4096];
            let length = stream.read(&mut read).expect("it sends a request");
            // A client that has enough of a long answer goes.
            let _ = stream.write_all(&answer);
            String::from_utf8_lossy(&read[..length]).into_owned()
        });
        (port, serving)
    }

    fn home(hosts: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(
            tool_config::config_path(home.path()),
            format!("[skills.hosts]\n{hosts}"),
        )
        .expect("it is writable");
        home
    }

    #[test]
    fn a_host_that_the_user_names_is_reached_where_the_user_says() {
        let (port, serving) = server(b"HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 2\r\n\r\nhi".to_vec());
        let home = home(&format!("\"tickets.example.org\" = \"http://127.0.0.1:{port}\"\n"));
        let response = send(home.path(), request("tickets.example.org", true)).expect("it answers");
        assert_eq!(
            (response.status, &*response.body),
            (302, &b"hi"[..]),
            "no redirect is followed"
        );
        let sent = serving.join().expect("no panic");
        assert!(
            sent.starts_with("GET /a?b HTTP/1.1\r\n") && sent.contains("x-a: 1\r\n"),
            "{sent}"
        );
    }

    #[test]
    fn nothing_private_or_unencrypted_is_reached_that_the_user_does_not_name() {
        let home = home("");
        for (host, is_encrypted, error) in [
            ("127.0.0.1", true, TransportError::ProhibitedAddress),
            ("10.0.0.1:8443", true, TransportError::ProhibitedAddress),
            ("169.254.169.254", true, TransportError::ProhibitedAddress),
            ("localhost", true, TransportError::ProhibitedAddress),
            // As the URL standard reads it, this is 127.0.0.1.
            ("2130706433", true, TransportError::ProhibitedAddress),
            ("0x7f.1", true, TransportError::ProhibitedAddress),
            ("api.example.org", false, TransportError::NotEncrypted),
        ] {
            let refused = send(home.path(), request(host, is_encrypted)).expect_err(host);
            assert_eq!(refused, error, "{host}");
        }
    }

    #[test]
    fn a_name_with_a_private_address_among_public_ones_leads_to_the_public_ones_alone() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("it is one");
        let (public, private) = (address("8.8.8.8:0"), address("[::ffff:10.0.0.1]:0"));
        let usable =
            |found: &[SocketAddr], only| usable_addresses(found.to_vec(), only).map_err(|error| error.to_string());
        assert_eq!(usable(&[private, public], true), Ok(vec![public]));
        assert_eq!(usable(&[private], true), Err(ResolveError::Prohibited.to_string()));
        assert_eq!(usable(&[private], false), Ok(vec![private]));
        assert_eq!(usable(&[], false), Err(ResolveError::Unknown.to_string()));
    }

    #[test]
    fn a_response_is_bounded_in_size_and_time() {
        let mut long = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        long.resize(RESPONSE_BODY_BYTES_MAX + 1024, b'x');
        let (port, _) = server(long);
        let named = home(&format!("\"a.org\" = \"http://127.0.0.1:{port}\"\n"));
        assert_eq!(
            send(named.path(), request("a.org", true)).expect_err("it is too long"),
            TransportError::BodyTooLong
        );
        let silent = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = silent.local_addr().expect("it is bound").port();
        let named = home(&format!("\"a.org\" = \"http://127.0.0.1:{port}\"\n"));
        let hasty = OutboundRequest {
            timeout: Duration::from_millis(50),
            ..request("a.org", true)
        };
        let refused = send(named.path(), hasty).expect_err("it says nothing");
        assert_eq!(refused, TransportError::Timeout);
        drop(silent);
        let refused = send(named.path(), request("a.org", true)).expect_err("nobody listens");
        assert_eq!(refused, TransportError::Refused);
    }
}
