//! Parts of an answer that a guest gives while its call runs: text, citations, media and progress.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::CallContext;
use crate::Failure;
use crate::bindings::tool::skill::answer as wit;
use crate::budget::{CallBudget, GuestStop, format_bytes};
use tool_core::api::{Citation, ErrorKind, Media};
use tool_core::text::{clean_line, clean_text, truncate_text};
use tool_repository::normalise_path;

/// Citations of one call. A reader follows a few of them.
pub(crate) const CITATIONS_MAX: usize = 1000;
/// Images and diagrams of one call.
const MEDIA_MAX: usize = 8;
/// Bytes of all media of one call: an event and an MCP message hold all of them in base64.
const MEDIA_BYTES_MAX: usize = 512 * 1024;
/// Longest alternative text.
const ALTERNATIVE_BYTES_MAX: usize = 4 * 1024;
/// Longest line that a person sees while the call runs.
const LIVE_LINE_BYTES_MAX: usize = 4 * 1024;

/// Parts of the answer of one instance, in the order in which the guest gave them.
#[derive(Debug, Default)]
pub(crate) struct AnswerParts {
    pub(crate) text: String,
    /// Bytes of the text whose lines a person has been shown.
    told_bytes: usize,
    pub(crate) citations: Vec<Citation>,
    pub(crate) media: Vec<Media>,
    media_bytes: usize,
}

impl AnswerParts {
    pub(crate) fn cite(&mut self, citation: &wit::Citation) -> Result<(), Failure> {
        let invalid = |message: String| Err(Failure::invalid_arguments(message));
        let path = match normalise_path(&citation.path) {
            Ok(path) if !path.is_empty() && clean_line(&path) == path => path,
            _ => {
                return invalid(format!(
                    "`{}` cannot be cited: it is no path of a file",
                    clean_line(&citation.path)
                ));
            }
        };
        if citation.line == Some(0) {
            return invalid(format!("line 0 of `{path}` cannot be cited: lines are counted from 1"));
        }
        let citation = Citation {
            path,
            line: citation.line,
        };
        if self.citations.contains(&citation) {
            return Ok(());
        }
        if self.citations.len() >= CITATIONS_MAX {
            return Err(Failure::limit(format!(
                "an answer has at most {CITATIONS_MAX} citations"
            )));
        }
        self.citations.push(citation);
        Ok(())
    }

    pub(crate) fn attach(&mut self, media: wit::Media) -> Result<(), Failure> {
        let bytes = media.content.len();
        if self.media.len() >= MEDIA_MAX || self.media_bytes + bytes > MEDIA_BYTES_MAX {
            let kibibytes = MEDIA_BYTES_MAX / 1024;
            return Err(Failure::limit(format!(
                "an answer has at most {MEDIA_MAX} images and diagrams, and {kibibytes} KiB of them"
            )));
        }
        let alternative = clean_text(&media.alternative).trim().to_owned();
        if alternative.is_empty() || alternative.len() > ALTERNATIVE_BYTES_MAX {
            return Err(Failure::invalid_arguments(format!(
                "an image or a diagram needs an alternative text of at most {ALTERNATIVE_BYTES_MAX} bytes"
            )));
        }
        let data = encode_content(&media.media_type, media.content)?;
        self.media_bytes += bytes;
        self.media.push(Media {
            media_type: media.media_type,
            alternative,
            data,
        });
        Ok(())
    }

    /// Appends a piece of the text, and shows its complete lines to a person.
    pub(crate) fn add_text(
        &mut self,
        call: &CallBudget,
        context: Option<&CallContext>,
        piece: &str,
    ) -> Result<(), GuestStop> {
        let bytes_max = call.limits.output_bytes;
        if self.text.len() + piece.len() > bytes_max {
            let limit = format!("{} of text", format_bytes(bytes_max as u64));
            return Err(GuestStop::limit(limit, ErrorKind::Output));
        }
        self.text.push_str(piece);
        while let Some(end) = self.text[self.told_bytes..].find('\n') {
            let line = &self.text[self.told_bytes..self.told_bytes + end];
            show_live_line(call, context, line);
            self.told_bytes += end + 1;
        }
        Ok(())
    }

    /// Puts the citations and media of earlier parts before these, within the limits of one call.
    pub(crate) fn prepend(&mut self, parts: Vec<Self>) {
        let own = std::mem::take(self);
        for part in parts.into_iter().chain([own]) {
            for citation in part.citations {
                if self.citations.len() < CITATIONS_MAX && !self.citations.contains(&citation) {
                    self.citations.push(citation);
                }
            }
            if self.media.len() + part.media.len() <= MEDIA_MAX
                && self.media_bytes + part.media_bytes <= MEDIA_BYTES_MAX
            {
                self.media.extend(part.media);
                self.media_bytes += part.media_bytes;
            }
            self.text.push_str(&part.text);
        }
    }
}

pub(crate) fn report_progress(
    call: &CallBudget,
    context: Option<&CallContext>,
    (done, total): (u64, Option<u64>),
    message: &str,
) {
    let counted = match total {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    };
    let message = truncate_text(message, LIVE_LINE_BYTES_MAX);
    match message.trim() {
        "" => show_live_line(call, context, &counted),
        message => show_live_line(call, context, &format!("{counted}: {message}")),
    }
}

/// Shows a line to a person while the call runs.
fn show_live_line(call: &CallBudget, context: Option<&CallContext>, line: &str) {
    if let Some(context) = context.filter(|_| call.take_live_line()) {
        (context.progress)(&clean_line(truncate_text(line, LIVE_LINE_BYTES_MAX)));
    }
}

/// Encodes the content for events and messages: an image in base64, a diagram as its text. The first bytes of an image
/// must be those of its type, so that no reader takes it for another type, such as HTML.
fn encode_content(media_type: &str, content: Vec<u8>) -> Result<String, Failure> {
    let is_of_type = match media_type {
        "image/png" => content.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => content.starts_with(b"\xff\xd8\xff"),
        "image/gif" => content.starts_with(b"GIF87a") || content.starts_with(b"GIF89a"),
        "image/webp" => content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP"),
        Media::MERMAID => {
            return String::from_utf8(content)
                .map(|text| clean_text(&text).into_owned())
                .map_err(|_| Failure::invalid_arguments("the source of a diagram is not UTF-8"));
        }
        _ => {
            let message = format!(
                "`{}` is not a media type of answers; they are image/png, image/jpeg, image/gif, image/webp and {}",
                clean_line(truncate_text(media_type, 100)),
                Media::MERMAID
            );
            return Err(Failure::invalid_arguments(message));
        }
    };
    if is_of_type {
        Ok(BASE64.encode(content))
    } else {
        Err(Failure::invalid_arguments(format!("the content is no `{media_type}`")))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Limits;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn media(media_type: &str, content: &[u8]) -> wit::Media {
        wit::Media {
            media_type: media_type.to_owned(),
            alternative: "a graph".to_owned(),
            content: content.to_vec(),
        }
    }

    fn citation(path: &str, line: Option<u32>) -> wit::Citation {
        wit::Citation {
            path: path.to_owned(),
            line,
        }
    }

    #[test]
    fn citations_are_paths_and_lines_within_a_bound() {
        let mut parts = AnswerParts::default();
        for odd in ["../a", "/a", "", "a\nb", "a\u{202e}"] {
            let refused = parts.cite(&citation(odd, None)).expect_err("it is no path");
            assert_eq!(refused.kind.code(), "invalid-arguments", "{odd:?}");
        }
        assert!(parts.cite(&citation("a.rs", Some(0))).is_err());
        for line in (1..=CITATIONS_MAX as u32).chain([1]) {
            assert!(parts.cite(&citation("./a.rs", Some(line))).is_ok());
        }
        let refused = parts.cite(&citation("b.rs", None)).expect_err("there is one too many");
        assert_eq!(refused.kind.code(), "limit");
        assert_eq!(parts.citations.len(), CITATIONS_MAX);
    }

    #[test]
    fn media_are_what_their_type_says_within_bounds() {
        let refusal = |media| {
            AnswerParts::default()
                .attach(media)
                .expect_err("it is refused")
                .kind
                .code()
        };
        assert_eq!(refusal(media("image/svg+xml", b"<svg/>")), "invalid-arguments");
        assert_eq!(refusal(media("image/png", b"GIF89a")), "invalid-arguments");
        assert_eq!(refusal(media(Media::MERMAID, b"\xff")), "invalid-arguments");
        assert_eq!(
            refusal(media(Media::MERMAID, &vec![b'x'; MEDIA_BYTES_MAX + 1])),
            "limit"
        );
        let silent = wit::Media {
            alternative: " \n".to_owned(),
            ..media("image/png", PNG)
        };
        assert_eq!(refusal(silent), "invalid-arguments");
        let mut parts = AnswerParts::default();
        for _ in 0..MEDIA_MAX {
            assert!(parts.attach(media("image/png", PNG)).is_ok());
        }
        assert!(parts.attach(media("image/png", PNG)).is_err());
        let mut diagram = AnswerParts::default();
        diagram
            .attach(media(Media::MERMAID, b"graph TD\x1b[31m"))
            .expect("it is one");
        assert_eq!(diagram.media[0].data, "graph TD");
    }

    #[test]
    fn pieces_of_text_are_bounded_as_a_whole() {
        let limits = Limits {
            output_bytes: 8,
            ..Limits::default()
        };
        let call = CallBudget::new("demo", limits, &CancellationToken::new());
        let mut parts = AnswerParts::default();
        assert!(parts.add_text(&call, None, "one\ntwo").is_ok());
        assert_eq!((parts.told_bytes, parts.text.as_str()), (4, "one\ntwo"));
        assert!(parts.add_text(&call, None, "34").is_err());
    }
}
