//! The values of a Kubernetes Secret: everything below `data` and `stringData` of its document.

use std::ops::Range;

use super::{START, randomness};

/// Bytes of a document before and behind `kind: Secret`, at most: an API server takes 1 MiB, people write less.
const DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a value in base64, at least; shorter ones are words like `true`.
const BASE64_BYTES_MIN: usize = 8;

/// The values of the document around the anchor, and the end of that document.
pub(super) fn find_values(text: &str, anchor: Range<usize>) -> (Vec<Range<usize>>, usize) {
    let is_whole = text[anchor.end..]
        .bytes()
        .next()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let start = text.ceil_char_boundary(anchor.start.saturating_sub(DOCUMENT_BYTES_MAX));
    let last = text.floor_char_boundary(anchor.end + DOCUMENT_BYTES_MAX);
    let before = &text[start..anchor.start];
    let frame = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
    if !is_whole {
        return (Vec::new(), anchor.end);
    }
    // The prefix of `kind` also precedes the other lines: a line number, or a mark of a diff.
    let frame = if text[anchor.start - frame..anchor.start].trim_matches(' ').is_empty() {
        0
    } else {
        frame
    };
    let mut found = Vec::new();
    let mut block: Option<(usize, bool)> = None;
    let mut at = start;
    for line in text[start..last].split_inclusive('\n') {
        let from = at;
        at += line.len();
        let Some(body) = line.get(frame.min(line.len())..).map(str::trim_end) else {
            continue;
        };
        if body.starts_with("---") {
            // The end of this document, or of one before it.
            if from > anchor.start {
                return (found, from);
            }
            (found, block) = (Vec::new(), None);
            continue;
        }
        let indent = body.len() - body.trim_start_matches(' ').len();
        let words = body.trim_start();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        if block.is_some_and(|(outer, _)| indent <= outer) {
            block = None;
        }
        match block {
            Some((_, is_encoded)) => {
                let value = words.split_once(':').map_or(words, |(_, value)| value);
                let value = value.trim().trim_matches(['"', '\'']);
                if is_secret(value, is_encoded) {
                    let offset = line.rfind(value).unwrap_or(0);
                    found.push(from + offset..from + offset + value.len());
                }
            }
            None if words == "data:" => block = Some((indent, true)),
            None if words == "stringData:" => block = Some((indent, false)),
            None => {}
        }
    }
    (found, last)
}

fn is_secret(value: &str, is_encoded: bool) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if value.contains(START) {
        return false;
    }
    if is_encoded {
        value.len() >= BASE64_BYTES_MIN && value.bytes().all(is_base64)
    } else {
        randomness::is_passphrase(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let anchor = text.find("kind: Secret").expect("the text has the anchor");
        let (values, _) = find_values(text, anchor..anchor + "kind: Secret".len());
        values.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn all_values_of_a_secret_and_of_no_other_document_are_found() {
        let text = "kind: ConfigMap\ndata:\n  a: b3RoZXJzb3RoZXI=\n---\napiVersion: v1\ndata:\n  host: ZGIub2ZmaWNl\n  \
                    password: \"cGFzc3dvcmQ=\"\n  pem: |\n    TUlJRXZRSUJBREFO\nkind: Secret\nmetadata:\n  name: longer-name\n\
                    stringData:\n  url: Zk3!vQ9xTb7w\n  x: {{ .Values.x }}\n---\ndata:\n  a: b3RoZXJzb3RoZXI=\n";
        assert_eq!(
            found(text),
            ["ZGIub2ZmaWNl", "cGFzc3dvcmQ=", "TUlJRXZRSUJBREFO", "Zk3!vQ9xTb7w"]
        );
        let numbered: String = text
            .lines()
            .enumerate()
            .map(|(at, line)| format!("{:>6}\t{line}\n", at + 1))
            .collect();
        assert_eq!(found(&numbered).len(), 4, "{numbered}");
        assert_eq!(found("kind: SecretStore\ndata:\n  host: ZGIub2ZmaWNl\n"), [""; 0]);
    }
}
