//! Describes a request for the question whether it may be sent: all of it, with the names of secrets instead of their
//! values.

use std::fmt::Write;

use crate::OutboundRequest;
use crate::secrets::SecretMask;
use tool_core::digest::sha256_hex;
use tool_core::text::{reveal_bytes, reveal_line};

/// Method, whole address, every header field of the guest, then length, digest and content of the body. The body comes
/// last, after its length: its text cannot pass for a header field, or hide that there is more.
pub(super) fn describe_request(request: &OutboundRequest, masks: &[SecretMask]) -> String {
    let scheme = if request.is_encrypted { "https" } else { "http" };
    let address = format!("{scheme}://{}{}", request.host, request.path_with_query);
    let mut text = format!("{} {}\n", request.method, reveal_line(&address));
    for (name, value) in &request.fields {
        let mut value = value.clone();
        masks.iter().for_each(|mask| mask.replace_in(&mut value));
        let _ = writeln!(text, "{name}: {}", reveal_line(&reveal_bytes(&value)));
    }
    if request.body.is_empty() {
        text.push_str("\nno body\n");
        return text;
    }
    let (bytes, digest) = (request.body.len(), sha256_hex(&request.body));
    let _ = write!(
        text,
        "\nbody of {bytes} bytes, SHA-256 {digest}:\n\n{}",
        reveal_bytes(&request.body)
    );
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::transport::HeaderFields;

    const SECRET: &str = "tk-5f0c1d9e7a2b48";

    fn mask() -> SecretMask {
        let name = "token".parse().expect("it is a name");
        SecretMask::new(&name, SECRET).expect("it is a pattern")
    }

    fn request(method: &str, path: &str, fields: HeaderFields, body: &[u8]) -> OutboundRequest {
        OutboundRequest {
            host: "write.example.org".parse().expect("it is a host"),
            is_encrypted: true,
            method: method.to_owned(),
            path_with_query: path.to_owned(),
            fields,
            body: body.to_vec(),
            timeout: Duration::ZERO,
            authorities: BTreeMap::new(),
        }
    }

    #[test]
    fn a_question_shows_query_headers_and_the_end_of_a_body() {
        let fields = vec![
            ("authorization".to_owned(), format!("Bearer {SECRET}").into_bytes()),
            ("x-http-method-override".to_owned(), b"DELETE".to_vec()),
            ("x-odd".to_owned(), b"a\tb\xff".to_vec()),
        ];
        let body = format!("harmless\n{}\u{202e}; rm -rf\0", " ".repeat(5_000));
        let sent = request("POST", "/api?admin=true#\u{200b}", fields, body.as_bytes());
        let shown = describe_request(&sent, &[mask()]).replace(&" ".repeat(5_000), "[5000 spaces]");
        insta::assert_snapshot!(shown, @r"
        POST https://write.example.org/api?admin=true#<U+200B>
        authorization: Bearer [secret:token]
        x-http-method-override: DELETE
        x-odd: a<U+0009>b<0xFF>

        body of 5021 bytes, SHA-256 8b34266c3e67341401eff8e8ebec54e88481b4dbe88034197d8060374ded30cf:

        harmless
        [5000 spaces]<U+202E>; rm -rf<U+0000>
        ");
        let shown = describe_request(&request("DELETE", "/a", Vec::new(), b""), &[]);
        assert_eq!(shown, "DELETE https://write.example.org/a\n\nno body\n");
    }

    /// The bytes of which a text without `<U+` and `<0x` is what a question shows.
    fn bytes_of(shown: &str) -> Vec<u8> {
        let (mut bytes, mut rest) = (Vec::new(), shown);
        while let Some(at) = rest.find('<') {
            bytes.extend(rest[..at].bytes());
            let (name, after) = rest[at + 1..].split_once('>').expect("a name ends");
            let code = u32::from_str_radix(&name[2..], 16).expect("it is hexadecimal");
            if name.starts_with("U+") {
                bytes.extend(char::from_u32(code).expect("it is a character").to_string().bytes());
            } else {
                bytes.push(u8::try_from(code).expect("it is a byte"));
            }
            rest = after;
        }
        bytes.extend(rest.bytes());
        bytes
    }

    /// The request that a question shows.
    fn shown_request(text: &str) -> OutboundRequest {
        let (head, body) = text.split_once("\n\n").expect("a blank line ends the head");
        let mut lines = head.lines();
        let (method, address) = lines.next().and_then(|line| line.split_once(' ')).expect("a request");
        let path = bytes_of(address.strip_prefix("https://write.example.org").expect("the host"));
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_owned(), bytes_of(&value.replace("[secret:token]", SECRET)))
        });
        let body = match body.split_once(":\n\n") {
            Some((_, body)) => bytes_of(body),
            None => Vec::new(),
        };
        let path = String::from_utf8(path).expect("it was text");
        request(method, &path, fields.collect(), &body)
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_is_sent(
            method in "POST|PUT|DELETE|X-[A-Z]{1,9}",
            path in "/[a-z/?&=%#\\x{200b}\\x{202e}é]{0,30}",
            fields in proptest::collection::vec(
                ("[a-z-]{1,9}", prop_oneof![
                    "[ -;=-~\\t\\x{80}-\\x{2fff}]{0,20}".prop_map(String::into_bytes),
                    proptest::collection::vec(prop_oneof![32_u8..60, 128_u8..], 0..12),
                    Just(format!("Bearer {SECRET}").into_bytes()),
                ]),
                0..6,
            ),
            body in prop_oneof![
                "[ -;=-~\\n\\r\\t\\x{80}-\\x{ffff}]{0,200}".prop_map(String::into_bytes),
                proptest::collection::vec(prop_oneof![0_u8..60, 61_u8..], 0..200),
            ],
        ) {
            let sent = request(&method, &path, fields, &body);
            let text = describe_request(&sent, &[mask()]);
            prop_assert!(tool_core::text::is_visible(&text));
            let shown = shown_request(&text);
            prop_assert_eq!(&shown.method, &sent.method);
            prop_assert_eq!(&shown.path_with_query, &sent.path_with_query);
            prop_assert_eq!(&shown.fields, &sent.fields);
            prop_assert_eq!(&shown.body, &sent.body);
            let digest = sha256_hex(&sent.body);
            prop_assert!(sent.body.is_empty() || text.contains(&digest));
        }
    }
}
