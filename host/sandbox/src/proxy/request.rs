//! Parses the head of a request to the proxy. Does no input or output.

use url::Url;

use super::registry_hosts::{self, Upstream};

/// A complete head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyRequestHead {
    /// The request, or a description of one that is not served.
    pub(super) request: Result<ProxyRequest, String>,
    /// The header lines, without the first line.
    lines: Vec<String>,
    /// Bytes after the head.
    pub(super) rest: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProxyRequest {
    Connect {
        host: String,
        port: u16,
    },
    /// A document of a server without TLS.
    Plain {
        method: String,
        host: String,
        port: u16,
        /// Path and query.
        path: String,
    },
}

impl ProxyRequest {
    /// True if a body follows the head.
    pub(super) fn has_body(&self) -> bool {
        matches!(self, Self::Plain { method, .. } if method == "POST")
    }

    pub(super) fn target(&self) -> (&str, u16) {
        match self {
            Self::Connect { host, port } | Self::Plain { host, port, .. } => (host, *port),
        }
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match method {
            "CONNECT" => {
                let unclear = || "to connect to nowhere".to_owned();
                // A scheme without a default port, so that the target has to name its port.
                let url = Url::parse(&format!("connect://{target}")).map_err(|_| unclear())?;
                let host = url.host_str().filter(|_| url.path().is_empty()).ok_or_else(unclear)?;
                let port = url.port().ok_or_else(unclear)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Ok(Self::Connect { host, port })
            }
            "GET" | "HEAD" | "POST" => {
                let unclear = || "to fetch from nowhere".to_owned();
                let url = Url::parse(target).map_err(|_| unclear())?;
                let host = url.host_str().filter(|_| url.scheme() == "http").ok_or_else(unclear)?;
                let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
                Ok(Self::Plain {
                    method: method.to_owned(),
                    host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
                    port: url.port_or_known_default().ok_or_else(unclear)?,
                    path: format!("{}{query}", url.path()),
                })
            }
            other => {
                let shown: String = other.chars().filter(char::is_ascii_graphic).take(16).collect();
                Err(format!("the method `{shown}`"))
            }
        }
    }
}

impl ProxyRequestHead {
    /// Takes a head off the beginning of `bytes`; `None` if it is not complete.
    pub(super) fn parse(bytes: &mut Vec<u8>) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let rest = bytes.split_off(end);
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let request = ProxyRequest::parse(lines.next().unwrap_or_default());
        let lines = lines.map(str::to_owned).collect();
        Some(Self { request, lines, rest })
    }

    /// A plain request as its server or the next proxy expects it. `Connection: close` ends the connection with the
    /// answer.
    pub(super) fn forwarded(&self, upstream: Option<&Upstream>) -> Vec<u8> {
        let Ok(ProxyRequest::Plain {
            method,
            host,
            port,
            path,
        }) = &self.request
        else {
            return Vec::new();
        };
        let authority = match port {
            80 => registry_hosts::format_authority(host, 80)
                .trim_end_matches(":80")
                .to_owned(),
            port => registry_hosts::format_authority(host, *port),
        };
        let target = match upstream {
            Some(_) => format!("http://{authority}{path}"),
            None => path.clone(),
        };
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {authority}\r\n");
        let has_body = method == "POST";
        for line in self.lines.iter().filter(|line| is_passed_on(line, has_body)) {
            text.push_str(line);
            text.push_str("\r\n");
        }
        text.push_str(&upstream.map(Upstream::header).unwrap_or_default());
        text.push_str("Connection: close\r\n\r\n");
        text.into_bytes()
    }
}

/// False for lines about one connection, about a body that is not passed on, and about the host, which is written anew.
fn is_passed_on(line: &str, has_body: bool) -> bool {
    let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    if has_body && ["transfer-encoding", "content-length"].contains(&name.as_str()) {
        return true;
    }
    let is_own = [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "content-length",
        "upgrade",
        "host",
    ];
    !is_own.contains(&name.as_str()) && !name.starts_with("proxy-") && !line.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> ProxyRequestHead {
        ProxyRequestHead::parse(&mut text.as_bytes().to_vec()).expect("it is whole")
    }

    #[test]
    fn a_connection_is_asked_for_by_name_and_port() {
        let head = head("CONNECT registry.example:443 HTTP/1.1\r\nHost: x\r\n\r\nhello");
        assert_eq!(head.rest, b"hello");
        assert_eq!(
            head.request.as_ref().map(ProxyRequest::target),
            Ok(("registry.example", 443))
        );
        let v6 = ProxyRequest::parse("CONNECT [::1]:443 HTTP/1.1").expect("it is one");
        assert_eq!(v6.target(), ("::1", 443));
        assert!(ProxyRequestHead::parse(&mut b"CONNECT a:1 HTTP/1.1\r\nHost".to_vec()).is_none());
    }

    #[test]
    fn a_plain_request_loses_what_is_about_the_connection() {
        let head = head(
            "GET http://mirror.example:8080/simple/x/?a=b HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\n\
             Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nContent-Length: 5\r\n\r\n",
        );
        insta::assert_snapshot!(String::from_utf8_lossy(&head.forwarded(None)).replace('\r', ""), @r"
        GET /simple/x/?a=b HTTP/1.1
        Host: mirror.example:8080
        Accept: text/html
        Connection: close
        ");
        let upstream = Upstream::from_url("http://a:b@proxy.example:1");
        insta::assert_snapshot!(String::from_utf8_lossy(&head.forwarded(upstream.as_ref())).replace('\r', ""), @r"
        GET http://mirror.example:8080/simple/x/?a=b HTTP/1.1
        Host: mirror.example:8080
        Accept: text/html
        Proxy-Authorization: Basic YTpi
        Connection: close
        ");
    }

    #[test]
    fn everything_else_is_named() {
        for (line, expected) in [
            ("PUT http://mirror.example/x HTTP/1.1", "the method `PUT`"),
            ("GET /simple/ HTTP/1.1", "to fetch from nowhere"),
            ("GET https://mirror.example/ HTTP/1.1", "to fetch from nowhere"),
            ("CONNECT registry.example HTTP/1.1", "to connect to nowhere"),
            ("CONNECT a:1/x HTTP/1.1", "to connect to nowhere"),
            ("\u{1b}[2J", "the method `[2J`"),
            ("", "the method ``"),
        ] {
            assert_eq!(ProxyRequest::parse(line), Err(expected.to_owned()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = [&bytes[..], b"\r\n\r\n"].concat();
            let head = ProxyRequestHead::parse(&mut bytes).expect("it has an end");
            let forwarded = String::from_utf8_lossy(&head.forwarded(None)).into_owned();
            prop_assert!(forwarded.is_empty() || forwarded.matches("\r\n\r\n").count() == 1);
        }
    }
}
