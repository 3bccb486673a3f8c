//! Framing of server-sent events: bytes in, frames out, wherever the bytes are cut.
//!
//! Knows nothing of JSON, of `[DONE]` or of any provider. Line endings may be LF, CR or CRLF; a byte order mark and
//! comments are dropped; several `data` lines make one frame. A frame that grows beyond its bound is an error, so that
//! the buffer stays bounded.

use crate::limits::SSE_FRAME_BYTES_MAX;

/// Most bytes that are read of an error's body. The sentence is at its start, and proxies answer with whole pages.
pub(crate) const PROVIDER_ERROR_BYTES_MAX: usize = 64 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The event's type; empty if the stream names none.
    pub event: String,
    /// Its data lines, joined by line feeds.
    pub data: String,
}

/// A frame that exceeds [`SSE_FRAME_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream exceeds {SSE_FRAME_BYTES_MAX} bytes")]
pub struct FrameTooLarge;

/// The state between two reads.
#[derive(Debug, Default)]
pub struct Framer {
    line: Vec<u8>,
    event: String,
    data: Vec<u8>,
    has_data: bool,
    past_first_line: bool,
    after_carriage_return: bool,
    stray: Vec<u8>,
}

impl Framer {
    /// Takes the next bytes and appends the frames that they complete.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), FrameTooLarge> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            // The second half of a CRLF whose CR ended the line.
            if std::mem::take(&mut self.after_carriage_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.line.extend_from_slice(rest);
                return self.check_size(0);
            };
            self.check_size(end)?;
            self.after_carriage_return = rest[end] == b'\r';
            frames.extend(self.end_line(&rest[..end]));
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// Fails if the kept bytes and `more` exceed the size of a frame.
    fn check_size(&self, more: usize) -> Result<(), FrameTooLarge> {
        if self.line.len() + self.data.len() + more > SSE_FRAME_BYTES_MAX {
            Err(FrameTooLarge)
        } else {
            Ok(())
        }
    }

    /// Ends the stream. Servers forget the blank line after the last event, so the rest counts as a frame.
    pub fn finish(&mut self) -> Option<Frame> {
        let last = if self.line.is_empty() { None } else { self.end_line(b"") };
        last.or_else(|| self.dispatch())
    }

    /// Lines that are no fields, from the first one that opens a bracket: a failure that was written into the stream as
    /// it was. Bounded; mostly empty.
    pub fn stray(&self) -> &[u8] {
        &self.stray
    }

    /// Ends a line; `last` are its bytes beyond the kept ones. Mostly a line comes whole, and nothing is copied.
    fn end_line(&mut self, last: &[u8]) -> Option<Frame> {
        if self.line.is_empty() {
            return self.take_line(last);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(last);
        let frame = self.take_line(&line);
        line.clear();
        self.line = line;
        frame
    }

    fn take_line(&mut self, line: &[u8]) -> Option<Frame> {
        let is_first = !std::mem::replace(&mut self.past_first_line, true);
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) if is_first => rest,
            _ => line,
        };
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, rest) = line.split_at(colon);
        let value = rest.strip_prefix(b":").unwrap_or(rest);
        if !self.take_field(field, value.strip_prefix(b" ").unwrap_or(value)) {
            self.keep_stray(line);
        }
        None
    }

    fn keep_stray(&mut self, line: &[u8]) {
        let begins = line.first().is_some_and(|first| matches!(first, b'{' | b'['));
        if (begins || !self.stray.is_empty()) && self.stray.len() + line.len() < PROVIDER_ERROR_BYTES_MAX {
            self.stray.extend_from_slice(line);
            self.stray.push(b'\n');
        }
    }

    /// True if the line is one of the standard's fields, a comment, or otherwise known.
    fn take_field(&mut self, field: &[u8], value: &[u8]) -> bool {
        match field {
            b"data" => self.append(value),
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            // Not in the standard: an older model server reports a failure as the line `error: {…}`.
            b"error" => {
                "error".clone_into(&mut self.event);
                self.append(value);
            }
            b"" | b"id" | b"retry" => {}
            _ => return false,
        }
        true
    }

    fn append(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self) -> Option<Frame> {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        // Only complete frames are decoded, so a character that was cut between two reads is complete here.
        std::mem::take(&mut self.has_data).then(|| Frame {
            event,
            data: String::from_utf8(data)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
        let (mut framer, mut frames) = (Framer::default(), Vec::new());
        for piece in pieces {
            framer.feed(piece, &mut frames).expect("the frames are small");
        }
        frames.extend(framer.finish());
        frames
    }

    fn data(bytes: &[u8]) -> Vec<String> {
        frames(&[bytes]).into_iter().map(|frame| frame.data).collect()
    }

    #[test]
    fn sse_1_data_with_and_without_a_space_and_every_line_ending() {
        assert_eq!(data(b"data:x\n\ndata: x\n\ndata:  x\n\n"), ["x", "x", " x"]);
        assert_eq!(data(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"), ["a", "b", "c"]);
    }

    #[test]
    fn sse_1_several_data_lines_are_one_frame() {
        assert_eq!(data(b"data: {\ndata: }\ndata\n\n"), ["{\n}\n"]);
    }

    #[test]
    fn sse_1_byte_order_mark_is_dropped_and_only_at_the_start() {
        assert_eq!(data(b"\xEF\xBB\xBFdata: x\n\n"), ["x"]);
        assert_eq!(data("data: \u{FEFF}x\n\n".as_bytes()), ["\u{FEFF}x"]);
    }

    #[test]
    fn sse_1_a_character_cut_between_reads_is_whole() {
        let bytes = "data: zoë 🦀\n\n".as_bytes();
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(frames(&[left, right])[0].data, "zoë 🦀", "cut at {cut}");
        }
    }

    #[test]
    fn sse_1_comments_are_no_frames() {
        assert_eq!(data(b": ping\n\n: PROCESSING\n\ndata: x\n: in between\n\n"), ["x"]);
    }

    #[test]
    fn sse_2_unknown_fields_are_ignored_and_event_types_kept() {
        let got = frames(&[b"id: 7\nretry: 10\nwhatever: y\nevent: ping\ndata: {}\n\nevent: nothing\n\ndata: x\n\n"]);
        assert_eq!(
            got,
            [
                Frame {
                    event: "ping".into(),
                    data: "{}".into()
                },
                Frame {
                    event: String::new(),
                    data: "x".into()
                }
            ]
        );
    }

    #[test]
    fn sse_3_the_last_frame_needs_no_blank_line() {
        assert_eq!(data(b"data: x\n\ndata: [DONE]"), ["x", "[DONE]"]);
        assert_eq!(data(b"data: x\n\ndata: [DONE]\n"), ["x", "[DONE]"]);
        assert_eq!(data(b"data: x\n\n"), ["x"]);
    }

    #[test]
    fn sse_5_an_error_line_is_an_error_event() {
        let got = frames(&[b"error: {\"code\":500}\n\n"]);
        assert_eq!(
            (got[0].event.as_str(), got[0].data.as_str()),
            ("error", "{\"code\":500}")
        );
    }

    #[test]
    fn sse_5_bare_json_between_the_events_is_kept() {
        let stream = b"data: x\n\n{\n  \"error\": {\n    \"code\": 503\n  }\n}\n\ndata: y\n\n";
        let (mut framer, mut frames) = (Framer::default(), Vec::new());
        framer.feed(stream, &mut frames).expect("the frames are small");
        assert_eq!(frames.len(), 2);
        let kept = String::from_utf8_lossy(framer.stray())
            .split_whitespace()
            .collect::<String>();
        assert_eq!(kept, r#"{"error":{"code":503}}"#);
        for quiet in ["data: x\n\n", ": {ping}\n\nid: 1\nretry: 5\n\n", "hello\nworld\n"] {
            let mut framer = Framer::default();
            framer
                .feed(quiet.as_bytes(), &mut frames)
                .expect("the frames are small");
            assert_eq!(framer.stray(), b"", "{quiet}");
        }
    }

    #[test]
    fn sse_5_a_frame_without_end_is_an_error_not_a_growing_buffer() {
        let (mut framer, mut frames) = (Framer::default(), Vec::new());
        let block = vec![b'x'; 1024 * 1024];
        let fed = (0..=SSE_FRAME_BYTES_MAX / block.len())
            .map(|_| framer.feed(&block, &mut frames))
            .find(Result::is_err);
        assert_eq!(fed, Some(Err(FrameTooLarge)));
    }

    proptest! {
        #[test]
        fn sse_1_any_split_gives_the_same_frames(
            lines in prop::collection::vec("(data: ?|event: |: |id:|)[a-zé🦀:\r]{0,6}(\n|\r\n|\r|\n\n|\r\n\r\n)", 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = lines.concat();
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(frames(&pieces), frames(&[bytes]));
        }

        #[test]
        fn sse_1_hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = frames(&[&bytes]);
        }
    }
}
