//! A fast path for the most common event of a stream: one piece of text for one block.
//!
//! It is parsed without building a JSON tree. Every other event goes through the general path.

use std::borrow::Cow;

use serde::Deserialize;

/// A piece of text.
#[derive(Deserialize)]
pub(super) struct TextDelta<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    /// Index of its block.
    pub(super) index: u64,
    #[serde(borrow)]
    delta: TextBlockDelta<'a>,
}

#[derive(Deserialize)]
struct TextBlockDelta<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    text: Cow<'a, str>,
    thinking: Option<()>,
    partial_json: Option<()>,
}

impl<'a> TextDelta<'a> {
    /// Parses such an event; `None` for any other event.
    pub(super) fn read(data: &'a str) -> Option<Self> {
        let piece: Self = serde_json::from_str(data).ok()?;
        let is_plain = piece.delta.thinking.is_none() && piece.delta.partial_json.is_none();
        (piece.kind == "content_block_delta" && piece.delta.kind == "text_delta" && is_plain).then_some(piece)
    }

    /// Text of the piece.
    pub(super) fn text(&self) -> &str {
        &self.delta.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_2_only_a_piece_of_text_is_read_at_once() {
        let read = |data: &str| TextDelta::read(data).map(|piece| (piece.index, piece.text().to_owned()));
        let text = |delta: &str| format!(r#"{{"type":"content_block_delta","index":2,"delta":{delta}}}"#);
        let expected = Some((2, "a\n\u{e4}".to_owned()));
        assert_eq!(read(&text(r#"{"type":"text_delta","text":"a\n\u00e4"}"#)), expected);
        for other in [
            r#"{"type":"thinking_delta","thinking":"a"}"#,
            r#"{"type":"text_delta"}"#,
            r#"{"type":"text_delta","text":"a","partial_json":"{"}"#,
            r#"{"type":"text_delta","text":1}"#,
            "null",
        ] {
            assert_eq!(read(&text(other)), None, "{other}");
        }
        assert_eq!(read(r#"{"type":"ping"}"#), None);
    }
}
