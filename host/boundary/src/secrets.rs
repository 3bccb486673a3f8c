//! Secrets of the user in requests: the guest writes a placeholder, and the host replaces it by the value.
//!
//! The guest never has the value. If the server repeats it in a response, as it is or in a usual encoding, it is
//! masked. A server that transforms the value in another way can still reveal it: the user gives a secret only to a
//! host that may know it.

use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use tool_core::api::{HostName, SecretName};
use tool_core::digest::to_hexadecimal;
use tool_core::text::percent_encode;

use crate::transport::{HeaderFields, InboundResponse};

/// Bytes of the shortest value. Shorter values occur in other text by chance and cannot be masked.
pub const SECRET_BYTES_MIN: usize = 8;

/// Bytes of the longest value.
pub const SECRET_BYTES_MAX: usize = 8 * 1024;

/// Beginning and end of a placeholder, as in `{{secret:token}}`.
const OPENING: &str = "{{secret:";
const CLOSING: &str = "}}";

/// Request fields that could make a server send the value in pieces or compressed, so that no mask would find it.
const REVEALING: [&str; 3] = ["accept-encoding", "range", "if-range"];

/// A secret, with the only place where it may be sent.
#[derive(Clone)]
pub struct BoundSecret {
    /// The host.
    pub host: HostName,
    /// The header field, in lower case.
    pub header: String,
    /// The value.
    pub value: String,
}

impl fmt::Debug for BoundSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a secret for `{}` of {}", self.header, self.host)
    }
}

/// Returns the name in the placeholder of a field's value; `Err` for a placeholder without a valid name.
pub(crate) fn find_placeholder(value: &[u8]) -> Option<Result<SecretName, ()>> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once(OPENING)?;
    let name = rest.split_once(CLOSING).map_or("", |(name, _)| name);
    Some(name.parse().map_err(|_| ()))
}

/// Replaces the placeholder by the value.
pub(crate) fn fill_placeholder(value: &[u8], name: &SecretName, secret: &BoundSecret) -> Vec<u8> {
    let written = format!("{OPENING}{name}{CLOSING}");
    String::from_utf8_lossy(value)
        .replace(&written, &secret.value)
        .into_bytes()
}

/// Removes fields that would keep masks from finding the value, and forbids compression.
pub(crate) fn forbid_encodings(fields: &mut HeaderFields) {
    fields.retain(|(name, _)| !REVEALING.contains(&&**name));
    fields.push(("accept-encoding".to_owned(), b"identity".to_vec()));
}

/// True for a body in an encoding in which no mask can look.
pub(crate) fn is_encoded(response: &InboundResponse) -> bool {
    response
        .fields
        .iter()
        .any(|(name, value)| name == "content-encoding" && !value.eq_ignore_ascii_case(b"identity"))
}

/// Replaces a secret's value, and its usual encodings, in a response.
pub(crate) struct SecretMask {
    patterns: AhoCorasick,
    mask: String,
}

impl SecretMask {
    pub(crate) fn new(name: &SecretName, value: &str) -> Option<Self> {
        let patterns = AhoCorasick::builder()
            // Servers write percent and hexadecimal encodings in either case, and names of fields in lower case.
            .ascii_case_insensitive(true)
            // One encoding may begin with another, whose replacement alone would leave the rest of the value.
            .match_kind(MatchKind::LeftmostLongest)
            .build(list_encodings(value))
            .ok()?;
        Some(Self {
            patterns,
            mask: format!("[secret:{name}]"),
        })
    }

    pub(crate) fn apply(&self, response: &mut InboundResponse) {
        // A field whose name holds the value reveals it too.
        response.fields.retain(|(name, _)| !self.patterns.is_match(name));
        for (_, value) in &mut response.fields {
            self.replace_in(value);
        }
        self.replace_in(&mut response.body);
    }

    /// Replaces the value by the mask.
    pub(crate) fn replace_in(&self, bytes: &mut Vec<u8>) {
        if self.patterns.is_match(&*bytes) {
            let masks = vec![self.mask.as_str(); self.patterns.patterns_len()];
            *bytes = self.patterns.replace_all_bytes(bytes, &masks);
        }
    }
}

/// The value, and the forms in which a server may repeat it: percent-encoded, in JSON, hexadecimal, and in Base64 at
/// each of the three offsets that it can have within a group of bytes.
fn list_encodings(value: &str) -> Vec<String> {
    let in_json = serde_json::Value::from(value).to_string();
    let hexadecimal = to_hexadecimal(value.as_bytes());
    let mut encodings = vec![
        value.to_owned(),
        percent_encode(value, "-_.~"),
        in_json.trim_matches('"').to_owned(),
        hexadecimal,
    ];
    for before in 0..3 {
        let bytes = [&vec![0; before][..], value.as_bytes()].concat();
        // Only letters all of whose bits come from the value.
        let letters = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            encodings.push(engine.encode(&bytes)[letters.clone()].to_owned());
        }
    }
    encodings.sort_unstable();
    encodings.dedup();
    encodings
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "s3cr\"t/value+1";

    fn name() -> SecretName {
        "token".parse().expect("it is a name")
    }

    fn response(body: &str) -> InboundResponse {
        InboundResponse {
            status: 200,
            fields: vec![("x-echo".to_owned(), format!("<{VALUE}>").into_bytes())],
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_echo_of_a_secret_is_masked_in_every_usual_encoding() {
        let mask = SecretMask::new(&name(), VALUE).expect("it is a pattern");
        for (body, masked) in [
            (VALUE.to_owned(), "[secret:token]"),
            (VALUE.to_uppercase(), "[secret:token]"),
            (format!("a{VALUE}b{VALUE}"), "a[secret:token]b[secret:token]"),
            ("s3cr%22t%2Fvalue%2b1".to_owned(), "[secret:token]"),
            (
                serde_json::json!({"a": VALUE}).to_string(),
                "{\"a\":\"[secret:token]\"}",
            ),
            ("s3cr\"t/value".to_owned(), "s3cr\"t/value"),
        ] {
            let mut response = response(&body);
            mask.apply(&mut response);
            assert_eq!(String::from_utf8_lossy(&response.body), masked);
            assert_eq!(response.fields[0].1, b"<[secret:token]>");
        }
        for before in ["", "u", "us", "user:", "Bearer "] {
            let text = STANDARD_NO_PAD.encode(format!("{before}{VALUE} and more"));
            let mut response = response(&text);
            mask.apply(&mut response);
            let body = String::from_utf8_lossy(&response.body);
            assert!(body.contains("[secret:token]"), "{before}: {body}");
        }
    }

    #[test]
    fn a_field_that_is_named_after_a_secret_is_dropped() {
        let mask = SecretMask::new(&name(), "abcdefgh").expect("it is a pattern");
        let mut response = response("");
        response.fields.push(("x-abcdefgh".to_owned(), Vec::new()));
        mask.apply(&mut response);
        assert_eq!(response.fields.len(), 1);
    }

    #[test]
    fn a_placeholder_names_a_secret_or_is_an_error() {
        assert_eq!(find_placeholder(b"Bearer x"), None);
        assert_eq!(find_placeholder(b"Bearer {{secret:token}}"), Some(Ok(name())));
        for broken in ["{{secret:}}", "{{secret:token", "{{secret:TOKEN}}", "{{secret:a b}}"] {
            assert_eq!(find_placeholder(broken.as_bytes()), Some(Err(())), "{broken}");
        }
        let secret = BoundSecret {
            host: "a.org".parse().expect("it is a host"),
            header: "authorization".to_owned(),
            value: VALUE.to_owned(),
        };
        assert_eq!(
            fill_placeholder(b"Bearer {{secret:token}}", &name(), &secret),
            format!("Bearer {VALUE}").into_bytes()
        );
        assert!(!format!("{secret:?}").contains("s3cr"));
    }

    #[test]
    fn a_server_is_not_asked_for_pieces_of_a_secret() {
        let field = |name: &str| (name.to_owned(), b"x".to_vec());
        let mut fields = vec![field("range"), field("accept-encoding"), field("accept")];
        forbid_encodings(&mut fields);
        let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["accept", "accept-encoding"]);
        assert_eq!(fields[1].1, b"identity");
    }
}
