//! A client that knows no more than the specification's examples: an address, a path, a JSON body. No token.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A whole answer. Names of headers are in lower case.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The body as the events of a stream.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.headers["content-type"], "text/event-stream", "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("an event is JSON"))
            .collect()
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }
}

/// GET of `http://host:port` and a path.
pub(crate) fn get(address: &str, path: &str) -> Answer {
    Connection::send(address, "GET", path, &[], None).finish()
}

/// POST of a JSON body.
pub(crate) fn post(address: &str, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    Connection::send(address, "POST", path, &headers, Some(&body.to_string())).finish()
}

/// Any request.
pub(crate) fn ask(address: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    Connection::send(address, method, path, headers, None).finish()
}

/// An answer that is still coming.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Sends a request, which is the only one of its connection.
    pub(crate) fn send(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Self {
        let host = address.strip_prefix("http://").expect("an address has a scheme");
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {host}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.unwrap_or_default();
        head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        #[expect(clippy::disallowed_methods, reason = "the test is the client")]
        let mut stream = TcpStream::connect(host).expect("somebody listens");
        // Longer than anything that a test waits for; a hang is a failure.
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a time-out can be set");
        stream.write_all(head.as_bytes()).expect("the request is taken");
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Reads until this text has come.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) {
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&self.received).contains(text) {
            let read = self.stream.read(&mut piece);
            if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
                continue;
            }
            let length = read.expect("the answer goes on");
            let so_far = String::from_utf8_lossy(&self.received);
            assert_ne!(length, 0, "it ended without `{text}`: {so_far}");
            self.received.extend_from_slice(&piece[..length]);
        }
    }

    /// The part of the answer that has come so far.
    pub(crate) fn received(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Reads to the end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Answer {
        self.stream
            .read_to_end(&mut self.received)
            .expect("the answer comes to its end");
        let end = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let (head, body) = self.received.split_at(end.expect("an answer has a head") + 4);
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let body = match headers.get("transfer-encoding").map(String::as_str) {
            Some("chunked") => unchunked(body),
            _ => body.to_vec(),
        };
        Answer {
            status: status.and_then(|status| status.parse().ok()).expect("a status"),
            headers,
            body: String::from_utf8(body).expect("UTF-8"),
        }
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body
            .windows(2)
            .position(|bytes| bytes == b"\r\n")
            .expect("a chunk's length");
        let length = std::str::from_utf8(&body[..end]).ok();
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        let (from, length) = (end + 2, length.expect("a chunk's length"));
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[from..from + length]);
        body = &body[from + length + 2..];
    }
}
