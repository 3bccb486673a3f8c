//! The text of a Chat Completions answer: what of it is answer, what is thinking, and what may be a tool call that the
//! model printed instead of making it.
//!
//! Text flows through as it comes. Held back is only what could still turn out to be a mark (`<think>`, `<tool_call>`)
//! and, after the mark of a call or in a message that starts like one, the rest up to a bound. Held text is looked at
//! once: a server that sends it in tiny pieces must not cost the square of its length.

use serde_json::Value;

/// Longest text that is held back because it may be a tool call printed as text. A longer one is an answer.
const TEXT_CALL_BYTES_MAX: usize = 64 * 1024;

/// A piece of text, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sorted {
    /// For the reader.
    Answer(String),
    /// Thinking.
    Reasoning(String),
}

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct TextSorter {
    stage: Stage,
    held: String,
    /// Bytes of white space at the beginning of the held text, as far as they are known. Used by `Stage::Start`.
    blank: usize,
    /// Scans the held text for the beginning of a call. Used by `Stage::Opening` and `Stage::Holding`.
    scanner: CallScanner,
    /// True where the request offers tools, so that a printed call is possible.
    watches_calls: bool,
    /// True once anything but white space was let through as answer.
    answered: bool,
    /// True right after thinking: the blank lines there belong to neither.
    skips_blank: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing but white space came.
    Start,
    /// Inside `<think>`.
    Thinking,
    /// The first text of the answer: a call without a mark stands here.
    Opening,
    /// Answer; marks of calls are looked for.
    Passing,
    /// Behind the mark of a call.
    Holding,
    /// Answer, whatever it looks like.
    Open,
}

/// White space at the beginning of an answer that is held until it is clear whether thinking follows. Models write a
/// few line feeds there; longer white space is let through as answer.
const BLANK_BYTES_MAX: usize = 4096;

const FENCE: &str = "```";
const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
const CALL_MARKS: [&str; 3] = ["<tool_call>", "<|python_tag|>", "[TOOL_CALLS]"];
const CALL_ENDS: [&str; 5] = ["</tool_call>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>"];

impl TextSorter {
    /// A sorter for one answer.
    pub(super) fn new(watches_calls: bool) -> Self {
        Self {
            stage: Stage::Start,
            held: String::new(),
            blank: 0,
            scanner: CallScanner::default(),
            watches_calls,
            answered: false,
            skips_blank: false,
        }
    }

    /// Takes the next piece of content.
    pub(super) fn take(&mut self, piece: &str, sorted: &mut Vec<Sorted>) {
        if self.is_surely_answer(piece) {
            return self.answer(piece.to_owned(), sorted);
        }
        self.held.push_str(piece);
        while self.step(sorted) {}
    }

    /// True for a piece that is let through as it is: nearly every one. Each mark of a call begins with one of two
    /// characters.
    fn is_surely_answer(&self, piece: &str) -> bool {
        let can_mark = || memchr::memchr2(b'<', b'[', piece.as_bytes()).is_some();
        let passes = self.stage == Stage::Open || (self.stage == Stage::Passing && !can_mark());
        passes && self.held.is_empty() && !self.skips_blank
    }

    /// The answer is over. Gives what is still held, which may be a call; see [`printed_calls`].
    pub(super) fn finish(&mut self, sorted: &mut Vec<Sorted>) -> String {
        let held = std::mem::take(&mut self.held);
        match self.stage {
            Stage::Thinking => sorted.extend((!held.is_empty()).then_some(Sorted::Reasoning(held))),
            Stage::Opening | Stage::Holding => return held,
            _ => self.answer(held, sorted),
        }
        String::new()
    }

    /// True where the held text is all that the model said.
    pub(super) fn held_is_whole(&self) -> bool {
        !self.answered
    }

    /// One decision. True where another one may follow at once.
    fn step(&mut self, sorted: &mut Vec<Sorted>) -> bool {
        if self.skips_blank {
            self.held = self.held.trim_start().to_owned();
            self.skips_blank = self.held.is_empty();
        }
        match self.stage {
            Stage::Start => self.start(),
            Stage::Thinking => self.think(sorted),
            Stage::Opening => self.open(),
            Stage::Passing => self.pass(sorted),
            Stage::Holding => self.hold(),
            Stage::Open => {
                let held = std::mem::take(&mut self.held);
                self.answer(held, sorted);
                false
            }
        }
    }

    fn start(&mut self) -> bool {
        let text = self.held[self.blank..].trim_start();
        self.blank = self.held.len() - text.len();
        if let Some(rest) = text.strip_prefix(THINK) {
            self.held = rest.to_owned();
            self.stage = Stage::Thinking;
        } else if THINK.starts_with(text) && self.blank < BLANK_BYTES_MAX {
            return false;
        } else {
            self.stage = if self.watches_calls {
                Stage::Opening
            } else {
                Stage::Open
            };
        }
        true
    }

    fn think(&mut self, sorted: &mut Vec<Sorted>) -> bool {
        if let Some(end) = self.held.find(THINK_END) {
            let rest = self.held.split_off(end);
            let thought = std::mem::replace(&mut self.held, rest[THINK_END.len()..].to_owned());
            self.skips_blank = true;
            sorted.extend((!thought.is_empty()).then_some(Sorted::Reasoning(thought)));
            self.stage = if self.watches_calls {
                Stage::Opening
            } else {
                Stage::Open
            };
            return true;
        }
        let keep = partial_mark(&self.held, &[THINK_END]);
        let rest = self.held.split_off(self.held.len() - keep);
        let thought = std::mem::replace(&mut self.held, rest);
        sorted.extend((!thought.is_empty()).then_some(Sorted::Reasoning(thought)));
        false
    }

    /// At the first text: a bare or fenced JSON object that starts like a call is held.
    fn open(&mut self) -> bool {
        match self.scanner.scan(&self.held) {
            Likeness::Unclear if self.held.len() < TEXT_CALL_BYTES_MAX => false,
            Likeness::Call => {
                self.stage = Stage::Holding;
                true
            }
            _ => {
                self.stage = Stage::Passing;
                true
            }
        }
    }

    fn pass(&mut self, sorted: &mut Vec<Sorted>) -> bool {
        let mark = CALL_MARKS.iter().filter_map(|mark| self.held.find(mark)).min();
        let keep_from = mark.unwrap_or_else(|| self.held.len() - partial_mark(&self.held, &CALL_MARKS));
        let rest = self.held.split_off(keep_from);
        let text = std::mem::replace(&mut self.held, rest);
        self.answer(text, sorted);
        if mark.is_some() {
            self.scanner = CallScanner::default();
            self.stage = Stage::Holding;
        }
        mark.is_some()
    }

    /// Lets go of what is no call after all.
    fn hold(&mut self) -> bool {
        let impossible = self.held.len() > TEXT_CALL_BYTES_MAX || self.scanner.scan(&self.held) == Likeness::Text;
        if impossible {
            self.stage = Stage::Open;
        }
        impossible
    }

    fn answer(&mut self, text: String, sorted: &mut Vec<Sorted>) {
        self.answered = self.answered || !text.trim().is_empty();
        sorted.extend((!text.is_empty()).then_some(Sorted::Answer(text)));
    }
}

/// Length of the longest end of `text` that a mark may begin with.
fn partial_mark(text: &str, marks: &[&str]) -> usize {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0).min(text.len());
    (1..=longest)
        .rev()
        .filter(|length| text.is_char_boundary(text.len() - length))
        .find(|length| marks.iter().any(|mark| mark.starts_with(&text[text.len() - length..])))
        .unwrap_or(0)
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Call,
    Text,
    #[default]
    Unclear,
}

/// Tells whether a text starts like a printed call: a mark, a fence, or nothing, and then a JSON object whose first key
/// is one that calls have.
///
/// The text may grow between two scans. A scan goes on where the last one stopped.
#[derive(Debug, Default)]
struct CallScanner {
    likeness: Likeness,
    expected: ExpectedPart,
    /// Bytes of the text before the expected part.
    at: usize,
}

/// The part of a printed call that comes next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ExpectedPart {
    #[default]
    MarkOrFence,
    FenceLine,
    Bracket,
    Brace,
    Quote,
    Key,
}

/// The longest first key of a JSON object that is worth waiting for; the keys of calls are shorter.
const KEY_BYTES_MAX: usize = 16;

impl CallScanner {
    fn scan(&mut self, text: &str) -> Likeness {
        while self.likeness == Likeness::Unclear && self.advance(text) {}
        self.likeness
    }

    /// Reads the expected part. False where more text is needed.
    fn advance(&mut self, text: &str) -> bool {
        let mut rest = &text[self.at..];
        if !matches!(self.expected, ExpectedPart::FenceLine | ExpectedPart::Key) {
            rest = rest.trim_start();
            self.at = text.len() - rest.len();
        }
        match self.expected {
            ExpectedPart::MarkOrFence => self.read_mark(rest),
            ExpectedPart::FenceLine => {
                let end = memchr::memchr(b'\n', rest.as_bytes());
                match end {
                    Some(end) => self.expect(ExpectedPart::Bracket, end + 1),
                    None => self.at = text.len(),
                }
                end.is_some()
            }
            // One call, or a list of calls.
            ExpectedPart::Bracket if rest.is_empty() => false,
            ExpectedPart::Bracket => {
                self.expect(ExpectedPart::Brace, usize::from(rest.starts_with('[')));
                true
            }
            ExpectedPart::Brace => self.read_character(rest, '{', ExpectedPart::Quote),
            ExpectedPart::Quote => self.read_character(rest, '"', ExpectedPart::Key),
            ExpectedPart::Key => {
                self.likeness = match rest.split_once('"') {
                    None if rest.len() < KEY_BYTES_MAX => Likeness::Unclear,
                    Some(("name" | "function" | "tool" | "type" | "id" | "arguments" | "parameters", _)) => {
                        Likeness::Call
                    }
                    _ => Likeness::Text,
                };
                false
            }
        }
    }

    fn read_mark(&mut self, rest: &str) -> bool {
        if let Some(mark) = CALL_MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            self.expect(ExpectedPart::Bracket, mark.len());
        } else if rest.starts_with(FENCE) {
            self.expect(ExpectedPart::FenceLine, FENCE.len());
        } else if FENCE.starts_with(rest) || CALL_MARKS.iter().any(|mark| mark.starts_with(rest)) {
            return false;
        } else {
            self.expect(ExpectedPart::Bracket, 0);
        }
        true
    }

    fn read_character(&mut self, rest: &str, character: char, next: ExpectedPart) -> bool {
        if rest.starts_with(character) {
            self.expect(next, character.len_utf8());
        } else if !rest.is_empty() {
            self.likeness = Likeness::Text;
        }
        !rest.is_empty()
    }

    fn expect(&mut self, next: ExpectedPart, read_bytes: usize) {
        self.expected = next;
        self.at += read_bytes;
    }
}

/// The calls that a text consists of: names and arguments as JSON text. Empty where it is anything else, be it only
/// by one word or one unknown name.
pub(super) fn printed_calls(text: &str, known: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut bare = text.trim().to_owned();
    if let Some((_, body)) = bare.strip_prefix("```").and_then(|fenced| fenced.split_once('\n')) {
        bare = body.trim_end().trim_end_matches("```").to_owned();
    }
    for mark in CALL_MARKS.iter().chain(&CALL_ENDS) {
        bare = bare.replace(mark, " ");
    }
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&bare).into_iter().collect();
    let flat = values.unwrap_or_default().into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        value => vec![value],
    });
    let calls: Option<Vec<_>> = flat.map(|value| printed_call(&value)).collect();
    let calls = calls.unwrap_or_default();
    if calls.iter().all(|(name, _)| known(name)) {
        calls
    } else {
        Vec::new()
    }
}

fn printed_call(value: &Value) -> Option<(String, String)> {
    let fields = match value.get("function") {
        Some(function @ Value::Object(_)) => function,
        _ => value,
    };
    let name = ["name", "function", "tool"]
        .iter()
        .find_map(|key| fields.get(*key)?.as_str())?;
    let arguments = ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|key| fields.get(*key))?;
    let arguments = match arguments {
        Value::Object(_) => arguments.to_string(),
        Value::String(text) if matches!(serde_json::from_str(text), Ok(Value::Object(_))) => text.clone(),
        _ => return None,
    };
    Some((name.to_owned(), arguments))
}

/// True where `text` occurs in `context`, whatever the line numbers, spacing and quoting around it: only letters count.
pub(super) fn occurs_in<'a>(text: &str, context: impl Iterator<Item = &'a str>) -> bool {
    let letters = |text: &str| -> String { text.chars().filter(|c| c.is_alphabetic()).collect() };
    let (needle, haystack) = (letters(text), context.map(letters).collect::<Vec<_>>());
    haystack.iter().any(|letters| letters.contains(&needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts pieces into answer, reasoning, held text.
    fn sorted(pieces: &[&str]) -> (String, String, String) {
        let (mut sorter, mut sorted) = (TextSorter::new(true), Vec::new());
        pieces.iter().for_each(|piece| sorter.take(piece, &mut sorted));
        let held = sorter.finish(&mut sorted);
        let (mut answer, mut reasoning) = (String::new(), String::new());
        for piece in sorted {
            match piece {
                Sorted::Answer(text) => answer.push_str(&text),
                Sorted::Reasoning(text) => reasoning.push_str(&text),
            }
        }
        (answer, reasoning, held)
    }

    /// Checks the text whole, cut at every character, and in single characters.
    fn expect(text: &str, answer: &str, reasoning: &str, held: &str) {
        let expected = (answer.to_owned(), reasoning.to_owned(), held.to_owned());
        assert_eq!(sorted(&[text]), expected);
        for (cut, _) in text.char_indices() {
            assert_eq!(sorted(&[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(sorted(&single.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }

    const CALL: &str = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;

    #[test]
    fn chat_17_inline_thinking_is_not_answer_text() {
        expect("<think>Hm, 2 < 3</think>\n\nYes.", "Yes.", "Hm, 2 < 3", "");
        expect("\n<think>\nnever ends", "", "\nnever ends", "");
        expect("<thin air>", "<thin air>", "", "");
        expect("I use <think> and </think>.", "I use <think> and </think>.", "", "");
    }

    #[test]
    fn chat_16_text_shaped_calls_are_held() {
        let marked = format!("<tool_call>\n{CALL}\n</tool_call>");
        expect(&marked, "", "", &marked);
        expect(&format!("Let me look.\n{marked}"), "Let me look.\n", "", &marked);
        expect(CALL, "", "", CALL);
        let fenced = format!("```json\n{CALL}\n```");
        expect(&fenced, "", "", &fenced);
        let tagged = format!("<|python_tag|>{CALL}");
        expect(&tagged, "", "", &tagged);
        expect(&format!("<think>x</think>{marked}"), "", "x", &marked);
    }

    #[test]
    fn chat_16_other_text_flows() {
        for text in [
            "Plain.",
            "a < b and c <tool",
            "{\"answer\": 42}",
            "```python\nprint()\n```",
            "<tool_call> is a mark of some models.",
            "[1] is a footnote",
            "{",
        ] {
            let (answer, _, held) = sorted(&[text]);
            assert_eq!(answer + &held, text);
        }
        expect("<tool_call> is a mark", "<tool_call> is a mark", "", "");
        expect("{\"answer\": 42}", "{\"answer\": 42}", "", "");
    }

    #[test]
    fn chat_16_held_text_is_bounded() {
        let long = format!("{{\"name\": \"{}", "x".repeat(TEXT_CALL_BYTES_MAX));
        assert_eq!(sorted(&[&long]), (long.clone(), String::new(), String::new()));
    }

    #[test]
    fn chat_16_white_space_in_front_is_let_through_and_not_held() {
        let (mut sorter, mut sorted) = (TextSorter::new(true), Vec::new());
        let piece = " ".repeat(45);
        let mut passed = 0;
        // 9 MB: scanned anew with each piece, it would take minutes.
        for _ in 0..200_000 {
            sorter.take(&piece, &mut sorted);
            assert!(sorter.held.len() <= TEXT_CALL_BYTES_MAX);
            for sorted in sorted.drain(..) {
                let Sorted::Answer(text) = sorted else {
                    panic!("{sorted:?} is no answer")
                };
                passed += text.len();
            }
        }
        assert!(passed >= 200_000 * 45 - TEXT_CALL_BYTES_MAX, "{passed} bytes");
    }

    #[test]
    fn chat_16_held_text_is_scanned_once() {
        const BEGINNINGS: [&str; 9] = [
            "",
            "```json\n",
            "```",
            "<tool_call>",
            "x <tool_call>",
            "[",
            "{",
            "[{",
            "{\"name\":",
        ];
        for begins in BEGINNINGS {
            for filler in [" ", "\n", "\u{3000}", "x"] {
                let (mut sorter, mut sorted) = (TextSorter::new(true), Vec::new());
                sorter.take(begins, &mut sorted);
                for _ in 0..TEXT_CALL_BYTES_MAX {
                    sorter.take(filler, &mut sorted);
                    // Only the bytes behind this position are looked at again when the next piece comes.
                    let scanned_to = match sorter.stage {
                        Stage::Start => sorter.blank,
                        Stage::Opening | Stage::Holding if sorter.scanner.likeness == Likeness::Unclear => {
                            sorter.scanner.at
                        }
                        _ => sorter.held.len(),
                    };
                    assert!(sorter.held.len() - scanned_to <= KEY_BYTES_MAX, "{begins:?} {filler:?}");
                }
            }
        }
    }

    #[test]
    fn chat_17_thinking_behind_more_white_space_than_a_model_writes_is_answer_text() {
        let blank = "\n".repeat(BLANK_BYTES_MAX - 1);
        expect(&format!("{blank}<think>x</think>y"), "y", "x", "");
        let text = format!("{blank}\n<think>x</think>y");
        assert_eq!(sorted(&[&text[..BLANK_BYTES_MAX], &text[BLANK_BYTES_MAX..]]).0, text);
    }

    #[test]
    fn chat_16_printed_calls_are_read_whole_or_not_at_all() {
        let known = |name: &str| name == "read_file";
        let expected = [("read_file".to_owned(), r#"{"path":"a"}"#.to_owned())];
        for text in [
            CALL.to_owned(),
            format!("<tool_call>{CALL}</tool_call>"),
            format!("```json\n{CALL}\n```"),
            format!("<|python_tag|>{CALL}<|eom_id|>"),
            format!("[{CALL}]"),
            r#"{"type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}"#.to_owned(),
            r#"{"name":"read_file","parameters":{"path":"a"}}"#.to_owned(),
        ] {
            let got: Vec<_> = printed_calls(&text, known)
                .into_iter()
                .map(|(name, arguments)| (name, arguments.replace(' ', "")))
                .collect();
            assert_eq!(got, expected, "{text}");
        }
        assert_eq!(
            printed_calls(&format!("<tool_call>{CALL}</tool_call>{CALL}"), known).len(),
            2
        );
        for text in [
            format!("{CALL} and more"),
            CALL.replace("read_file", "rm"),
            r#"{"name": "read_file"}"#.to_owned(),
            r#"{"name": "read_file", "arguments": [1]}"#.to_owned(),
            r#"{"name": "read_file", "arguments": {"path": "#.to_owned(),
            String::new(),
        ] {
            assert_eq!(printed_calls(&text, known), [], "{text}");
        }
    }

    #[test]
    fn chat_16_a_quotation_is_found_through_line_numbers() {
        let context =
            "   12\t{\n   13\t  \"name\": \"read_file\",\n   14\t  \"arguments\": {\"path\": \"a\"}\n   15\t}";
        assert!(occurs_in(CALL, [context].into_iter()));
        assert!(!occurs_in(CALL, ["the tool read_file takes a path"].into_iter()));
    }
}
