//! The access log: one line for each request, written when the last byte of the answer is sent or the client is gone.
//!
//! The client decides on the content of an address. So the line has only printable ASCII of limited length, and only
//! the values of query parameters that cannot be secret. The same module knows the time since the last request.

use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, Method, Request, Response, Uri, header};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::auth::Caller;
use super::error::ReportedKind;
use super::listener::PeerAddress;
use tool_core::api::{self, ErrorKind, Timestamp};

/// Limit for a request's address in a line, in bytes. The identifier of a session fits after any route.
const LOGGED_TARGET_BYTES_MAX: usize = 512;

/// Query parameters whose values are logged.
const SHOWN: [&str; 6] = ["session_id", "form", "strict", "operation", "status", "limit"];

/// Limit for a refused Host or Origin in a line, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Access log, the number of open requests, and the time of the last one.
pub struct Traffic {
    log: Mutex<Box<dyn Write + Send>>,
    open: AtomicUsize,
    last: Mutex<Instant>,
}

impl Traffic {
    /// Creates the log. Each line is written at once, in one call.
    pub fn new(log: impl Write + Send + 'static) -> Self {
        Self {
            log: Mutex::new(Box::new(log)),
            open: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    /// Time for which no request has been under way.
    pub fn silence(&self) -> Duration {
        match self.open.load(Ordering::SeqCst) {
            0 => self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed(),
            _ => Duration::ZERO,
        }
    }

    pub(super) fn begin_record<B>(self: &Arc<Self>, request: &Request<B>, peer: Option<PeerAddress>) -> AccessRecord {
        self.open.fetch_add(1, Ordering::SeqCst);
        AccessRecord {
            traffic: Arc::clone(self),
            at: api::current_time(),
            begun: Instant::now(),
            peer,
            method: request.method().clone(),
            target: redact_target(request.uri()),
            host: header_field(request.headers(), &header::HOST),
            origin: header_field(request.headers(), &header::ORIGIN),
            caller: None,
            status: None,
            problem: None,
            bytes: 0,
            is_whole: false,
        }
    }

    /// Writes the line of a connection that never sent a whole request.
    pub(super) fn no_request(&self, peer: PeerAddress, status: Option<u16>, kind: &ErrorKind) {
        let (at, status) = (format_timestamp(api::current_time()), value_or_dash(status));
        self.write(&format!(
            "{at} - - status={status} bytes=0 ms=0 caller=- peer={peer} code={kind}\n"
        ));
    }

    fn write(&self, line: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A line that cannot be written, for example on a full disk, must not cost a client its answer.
        let _ = log.write_all(line.as_bytes());
    }
}

/// A request, from its head to the last byte of its answer.
pub(super) struct AccessRecord {
    traffic: Arc<Traffic>,
    at: Timestamp,
    begun: Instant,
    peer: Option<PeerAddress>,
    method: Method,
    target: String,
    host: String,
    origin: String,
    caller: Option<Caller>,
    status: Option<u16>,
    problem: Option<ErrorKind>,
    bytes: u64,
    is_whole: bool,
}

impl AccessRecord {
    pub(super) fn is_by(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// Follows the answer to its end.
    pub(super) fn follow(mut self, response: Response<Body>) -> Response<Body> {
        self.status = Some(response.status().as_u16());
        self.problem = response
            .extensions()
            .get::<ReportedKind>()
            .map(|ReportedKind(kind)| kind.clone());
        // The answer to HEAD has no body.
        self.is_whole = self.method == Method::HEAD;
        response.map(|body| Body::new(CountedBody { body, entry: self }))
    }

    fn line(&self) -> String {
        let Self {
            method, target, bytes, ..
        } = self;
        let at = format_timestamp(self.at);
        let status = value_or_dash(self.status);
        let ms = self.begun.elapsed().as_millis();
        let caller = match self.caller {
            Some(Caller::Token) => "token",
            Some(Caller::OwnNamespaces) => "own-namespaces",
            Some(Caller::SameUser) => "same-user",
            None => "-",
        };
        let peer = value_or_dash(self.peer);
        let mut line =
            format!("{at} {method} {target} status={status} bytes={bytes} ms={ms} caller={caller} peer={peer}");
        if let Some(kind) = &self.problem {
            line.push_str(&format!(" code={kind}"));
            match kind {
                ErrorKind::HostNotAllowed => line.push_str(&format!(" host={}", self.host)),
                ErrorKind::OriginNotAllowed => line.push_str(&format!(" origin={}", self.origin)),
                _ => {}
            }
        }
        if !self.is_whole {
            line.push_str(" cut");
        }
        line.push('\n');
        line
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        self.traffic.write(&self.line());
        *self.traffic.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.traffic.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body that counts its bytes.
struct CountedBody {
    body: Body,
    entry: AccessRecord,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => this.entry.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) => {}
            None => this.entry.is_whole = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        // A reader that knows that no frame is left does not poll for another.
        self.entry.is_whole |= self.body.is_end_stream();
    }
}

/// Formats a value, or `-` if there is none.
fn value_or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn format_timestamp(at: Timestamp) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// The path, and the logged parts of the query.
fn redact_target(uri: &Uri) -> String {
    let mut target = escape_unprintable(uri.path(), LOGGED_TARGET_BYTES_MAX);
    for (index, parameter) in uri.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        if target.len() >= LOGGED_TARGET_BYTES_MAX {
            break;
        }
        target.push(if index == 0 { '?' } else { '&' });
        let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
        target.push_str(&if SHOWN.contains(&name) {
            format!("{name}={}", escape_unprintable(value, NAME_BYTES_MAX))
        } else {
            "*".to_owned()
        });
    }
    target
}

fn header_field(headers: &HeaderMap, name: &HeaderName) -> String {
    match headers.get(name) {
        Some(value) => escape_unprintable(&String::from_utf8_lossy(value.as_bytes()), NAME_BYTES_MAX),
        None => "-".to_owned(),
    }
}

/// Encodes everything but printable ASCII as `%` and digits, so that the text cannot end a line or a field, or
/// control a terminal.
fn escape_unprintable(text: &str, bytes_max: usize) -> String {
    let mut shown = String::new();
    for byte in text.bytes() {
        if shown.len() >= bytes_max {
            shown.push_str("...");
            break;
        }
        match byte {
            b'!'..=b'~' => shown.push(byte.into()),
            _ => shown.push_str(&format!("%{byte:02X}")),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    /// Written bytes, shared by all clones.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logging() -> (Arc<Traffic>, impl Fn() -> String) {
        let shared = Shared::default();
        let traffic = Arc::new(Traffic::new(shared.clone()));
        let time = regex::Regex::new(r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (.*) ms=\d+ ").expect("a constant");
        let written = move || {
            let text = shared.0.lock().expect("nobody panicked").clone();
            let text = String::from_utf8(text).expect("it is ASCII");
            time.replace_all(&text, "TIME $1 ms=N ").into_owned()
        };
        (traffic, written)
    }

    fn request(method: &str, uri: &str) -> Request<()> {
        let request = Request::builder().method(method).uri(uri).header("host", "h\u{202e}:1");
        request.body(()).expect("it is a request")
    }

    fn peer() -> Option<PeerAddress> {
        Some(at("127.0.0.1:5"))
    }

    fn at(address: &str) -> PeerAddress {
        PeerAddress::Tcp(address.parse().expect("an address"))
    }

    #[tokio::test]
    async fn a_line_says_who_asked_what_and_what_came_of_it() {
        let (traffic, written) = logging();
        let mut entry = traffic.begin_record(&request("GET", "/tasks?limit=3"), peer());
        entry.is_by(Caller::SameUser);
        let response = entry.follow(Response::new(Body::from("12345")));
        assert_eq!(
            response.body().size_hint().exact(),
            Some(5),
            "an answer keeps its length"
        );
        assert_eq!(traffic.silence(), Duration::ZERO, "it is under way");
        axum::body::to_bytes(response.into_body(), 10).await.expect("it ends");
        let pieces = futures_util::stream::iter(["abc", "de"].map(Ok::<_, std::convert::Infallible>));
        let streamed = traffic.begin_record(&request("POST", "/stream"), peer());
        axum::body::to_bytes(
            streamed.follow(Response::new(Body::from_stream(pieces))).into_body(),
            10,
        )
        .await
        .expect("it ends");
        drop(
            traffic
                .begin_record(&request("HEAD", "/tasks"), None)
                .follow(Response::new(Body::from("12345"))),
        );
        let mut over_unix = traffic.begin_record(&request("GET", "/status"), Some(PeerAddress::Unix));
        over_unix.is_by(Caller::Token);
        drop(over_unix.follow(Response::new(Body::empty())));
        drop(
            traffic
                .begin_record(&request("DELETE", "/sessions/x"), peer())
                .follow(Response::new(Body::empty())),
        );
        insta::assert_snapshot!(written(), @r"
        TIME GET /tasks?limit=3 status=200 bytes=5 ms=N caller=same-user peer=127.0.0.1:5
        TIME POST /stream status=200 bytes=5 ms=N caller=- peer=127.0.0.1:5
        TIME HEAD /tasks status=200 bytes=0 ms=N caller=- peer=-
        TIME GET /status status=200 bytes=0 ms=N caller=token peer=unix
        TIME DELETE /sessions/x status=200 bytes=0 ms=N caller=- peer=127.0.0.1:5
        ");
    }

    #[tokio::test]
    async fn a_client_that_goes_away_and_one_that_is_refused_are_told_apart() {
        let (traffic, written) = logging();
        let endless = futures_util::stream::repeat(Ok::<_, std::convert::Infallible>("abc"));
        let entry = traffic.begin_record(&request("GET", "/stream?session_id=a&key=b"), peer());
        let mut body = entry
            .follow(Response::new(Body::from_stream(endless)))
            .into_body()
            .into_data_stream();
        body.next().await.expect("it is endless").expect("it cannot fail");
        drop(body);
        drop(traffic.begin_record(&request("GET", "/never/answered"), peer()));
        let mut refused = Response::new(Body::empty());
        refused.extensions_mut().insert(ReportedKind(ErrorKind::HostNotAllowed));
        *refused.status_mut() = axum::http::StatusCode::FORBIDDEN;
        drop(traffic.begin_record(&request("GET", "/tasks"), peer()).follow(refused));
        traffic.no_request(at("127.0.0.1:6"), Some(431), &ErrorKind::HeadTooLarge);
        insta::assert_snapshot!(written(), @r"
        TIME GET /stream?session_id=a&* status=200 bytes=3 ms=N caller=- peer=127.0.0.1:5 cut
        TIME GET /never/answered status=- bytes=0 ms=N caller=- peer=127.0.0.1:5 cut
        TIME GET /tasks status=403 bytes=0 ms=N caller=- peer=127.0.0.1:5 code=host-not-allowed host=h%E2%80%AE:1
        TIME - - status=431 bytes=0 ms=N caller=- peer=127.0.0.1:6 code=head-too-large
        ");
    }

    #[test]
    fn an_address_forges_no_line_and_shows_no_secret() {
        let shown = |uri: &str| redact_target(&uri.parse().expect("an address"));
        assert_eq!(shown("/a%0Ab%1b[2J"), "/a%0Ab%1b[2J", "what is encoded stays so");
        assert_eq!(shown("/caf\u{e9}\u{202e}"), "/caf%C3%A9%E2%80%AE");
        assert_eq!(escape_unprintable("a b\n\u{7f}\u{1b}[2J", 99), "a%20b%0A%7F%1B[2J");
        assert_eq!(
            shown("/x?token=secret&secret&form=a%20b&repo_path=/home"),
            "/x?*&*&form=a%20b&*"
        );
        let long = shown(&format!("/{}?{}", "x".repeat(10_000), "form=y&".repeat(5_000)));
        assert!(long.len() < LOGGED_TARGET_BYTES_MAX + 10, "{}", long.len());
        let many = shown(&format!("/x?{}", "a&".repeat(10_000)));
        assert!(many.len() < LOGGED_TARGET_BYTES_MAX + NAME_BYTES_MAX, "{}", many.len());
    }
}
