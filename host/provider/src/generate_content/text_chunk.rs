//! A fast path for the most common chunk of a stream: one piece of text, mostly with the token counts so far.
//!
//! It is parsed without building a JSON tree. Every other chunk goes through the general path.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// A chunk with a piece of text. Its other fields may hold anything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TextChunk<'a> {
    #[serde(borrow)]
    candidates: [TextCandidate<'a>; 1],
    /// The token counts; null if none came.
    #[serde(default)]
    pub(super) usage_metadata: Value,
    prompt_feedback: Option<()>,
    error: Option<()>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextCandidate<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    content: PlainContent<'a>,
    finish_reason: Option<()>,
}

#[derive(Deserialize)]
struct PlainContent<'a> {
    #[serde(borrow)]
    parts: [TextPart<'a>; 1],
}

/// A part with any other field takes the general path, because it goes back unchanged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextPart<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'a> TextChunk<'a> {
    /// Parses such a chunk; `None` for any other chunk.
    pub(super) fn read(data: &'a str) -> Option<Self> {
        let chunk: Self = serde_json::from_str(data).ok()?;
        let [candidate] = &chunk.candidates;
        let is_plain = chunk.error.is_none() && chunk.prompt_feedback.is_none() && candidate.finish_reason.is_none();
        (is_plain && candidate.index.is_none_or(|index| index == 0) && !chunk.text().is_empty()).then_some(chunk)
    }

    /// Text of the chunk.
    pub(super) fn text(&self) -> &str {
        let [candidate] = &self.candidates;
        let [part] = &candidate.content.parts;
        &part.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generate_content_2_only_a_piece_of_text_is_read_at_once() {
        let read = |candidate: &str| {
            let data = format!(
                r#"{{"candidates":[{candidate}],"usageMetadata":{{"promptTokenCount":3}},"modelVersion":"m"}}"#
            );
            TextChunk::read(&data).map(|chunk| (chunk.text().to_owned(), chunk.usage_metadata.to_string()))
        };
        let expected = Some(("a\n".to_owned(), r#"{"promptTokenCount":3}"#.to_owned()));
        assert_eq!(
            read(r#"{"content":{"parts":[{"text":"a\n"}],"role":"model"},"index":0}"#),
            expected
        );
        for other in [
            r#"{"content":{"parts":[{"text":"a","thought":true}]}}"#,
            r#"{"content":{"parts":[{"text":"a","thoughtSignature":"s"}]}}"#,
            r#"{"content":{"parts":[{"text":"a"},{"text":"b"}]}}"#,
            r#"{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}"#,
            r#"{"content":{"parts":[{"text":"a"}]},"index":1}"#,
            r#"{"content":{"parts":[{"text":""}]}}"#,
            "{}",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
