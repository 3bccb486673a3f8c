//! The text of a Chat Completions answer: what of it is answer, what is thinking, and what may be a tool call that the
//! model printed instead of making it.
//!
//! Text flows through as it comes. Held back is only what could still turn out to be a mark (`<think>`, `<tool_call>`)
//! and, after the mark of a call or in a message that starts like one, the rest up to a bound.

use serde_json::Value;

use crate::limits::TEXT_CALL_BYTES_MAX;

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
        let text = self.held.trim_start();
        if let Some(rest) = text.strip_prefix(THINK) {
            self.held = rest.to_owned();
            self.stage = Stage::Thinking;
        } else if THINK.starts_with(text) {
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
        match starts_like_call(&self.held) {
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
            self.stage = Stage::Holding;
        }
        mark.is_some()
    }

    /// Lets go of what is no call after all.
    fn hold(&mut self) -> bool {
        let impossible = self.held.len() > TEXT_CALL_BYTES_MAX || starts_like_call(&self.held) == Likeness::Text;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Call,
    Text,
    Unclear,
}

/// Whether a text starts like a printed call: a mark, a fence, or nothing, and then a JSON object whose first key is
/// one that calls have.
fn starts_like_call(text: &str) -> Likeness {
    let text = text.trim_start();
    let mut rest = text;
    if let Some(mark) = CALL_MARKS.iter().find(|mark| text.starts_with(**mark)) {
        rest = text[mark.len()..].trim_start();
    } else if CALL_MARKS.iter().any(|mark| mark.starts_with(text)) {
        return Likeness::Unclear;
    } else if text.starts_with("```") {
        let Some((_, body)) = text.split_once('\n') else {
            return Likeness::Unclear;
        };
        rest = body.trim_start();
    } else if "```".starts_with(text) {
        return Likeness::Unclear;
    }
    let rest = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    let Some(inside) = rest.strip_prefix('{') else {
        return if rest.is_empty() {
            Likeness::Unclear
        } else {
            Likeness::Text
        };
    };
    let inside = inside.trim_start();
    let Some(key) = inside.strip_prefix('"') else {
        return if inside.is_empty() {
            Likeness::Unclear
        } else {
            Likeness::Text
        };
    };
    match key.split_once('"') {
        None if key.len() < 16 => Likeness::Unclear,
        Some(("name" | "function" | "tool" | "type" | "id" | "arguments" | "parameters", _)) => Likeness::Call,
        _ => Likeness::Text,
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

    /// What comes of pieces: answer, reasoning, held text.
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

    /// The same for the text whole, cut at every character, and in single characters.
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
