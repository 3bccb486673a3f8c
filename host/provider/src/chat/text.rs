//! Sorts the text of a Chat Completions answer into answer, thinking, and what may be a tool call that the model
//! printed instead of making it.
//!
//! Text passes through at once. Held back is only text that may still become a mark (`<think>`, `<tool_call>`), and,
//! after the mark of a call or in a message that begins like one, the rest up to a bound. Held text is scanned once,
//! because a server may send it in tiny pieces, and rescanning would take quadratic time.

use super::printed_calls::{CALL_MARKS, QWEN_FUNCTION, is_tagged};

/// Longest text in bytes that is held back because it may be a printed tool call. Longer text is an answer.
const TEXT_CALL_BYTES_MAX: usize = 64 * 1024;

/// A sorted piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SortedText {
    /// For the reader.
    Answer(String),
    /// Thinking.
    Reasoning(String),
}

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct TextSorter {
    stage: ThinkingStage,
    held: String,
    /// Bytes of white space known to begin the held text. Used by `ThinkingStage::Start`.
    blank: usize,
    /// Scans the held text for the beginning of a call. Used by `ThinkingStage::Opening` and `ThinkingStage::Holding`.
    scanner: CallScanner,
    /// True if the request offers tools, so that a printed call is possible.
    watches_calls: bool,
    /// True once anything except white space was passed on as answer.
    answered: bool,
    /// The last character that was passed on as answer.
    last: Option<char>,
    /// True right after thinking: blank lines there belong neither to it nor to the answer.
    skips_blank: bool,
    /// True until a mark of thinking came: until then an end mark alone may still come.
    awaits_end: bool,
    /// True once thinking ended that had no begin mark.
    had_lone_end: bool,
    /// Text that was shown as thinking although its end mark has not come yet.
    assumed: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingStage {
    /// Nothing but white space came.
    Start,
    /// Inside `<think>`.
    Thinking,
    /// Inside thinking that the template presumably began.
    Assumed,
    /// The first text of the answer, where a call may begin without a mark.
    Opening,
    /// Answer, searched for marks of calls.
    Passing,
    /// After the mark of a call.
    Holding,
    /// Answer, which is no longer searched.
    Open,
}

/// Result of the search for an end mark without a begin mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoneEnd {
    Found,
    /// The next character decides.
    Undecided,
    Absent,
}

/// Most bytes of white space that are held at the beginning of an answer, until it is clear whether thinking follows.
/// Models write a few line feeds there; longer white space is passed on as answer.
const BLANK_BYTES_MAX: usize = 4096;

const FENCE: &str = "```";
const THINK: [&str; 2] = ["<think>", "<mm:think>"];
const THINK_END: [&str; 2] = ["</think>", "</mm:think>"];

impl TextSorter {
    /// A sorter for one answer.
    pub(super) fn new(watches_calls: bool) -> Self {
        Self {
            stage: ThinkingStage::Start,
            held: String::new(),
            blank: 0,
            scanner: CallScanner::default(),
            watches_calls,
            answered: false,
            last: None,
            skips_blank: false,
            awaits_end: true,
            had_lone_end: false,
            assumed: String::new(),
        }
    }

    /// A sorter for a model whose template begins the thinking, so that only its end mark comes.
    pub(super) fn within_thinking(watches_calls: bool) -> Self {
        Self {
            stage: ThinkingStage::Assumed,
            ..Self::new(watches_calls)
        }
    }

    /// Thinking comes in a field of its own, so the text is answer from the beginning.
    pub(super) fn take_text_as_answer(&mut self) {
        self.awaits_end = false;
        if self.stage == ThinkingStage::Assumed && self.assumed.is_empty() {
            self.stage = ThinkingStage::Start;
        }
    }

    /// True once thinking ended without a begin mark, because the model's template begins it.
    pub(super) fn had_lone_end(&self) -> bool {
        self.had_lone_end
    }

    /// Takes the next piece of content.
    pub(super) fn take(&mut self, piece: &str, sorted: &mut Vec<SortedText>) {
        if self.is_surely_answer(piece) {
            return self.answer(piece.to_owned(), sorted);
        }
        self.held.push_str(piece);
        while self.step(sorted) {}
    }

    /// True for a piece that can be passed on unchanged, as nearly every one. Each mark of a call begins with one of
    /// two characters.
    fn is_surely_answer(&self, piece: &str) -> bool {
        let can_mark = || memchr::memchr2(b'<', b'[', piece.as_bytes()).is_some();
        let passes = self.stage == ThinkingStage::Open || (self.stage == ThinkingStage::Passing && !can_mark());
        passes && self.held.is_empty() && !self.skips_blank
    }

    /// Ends the answer. Returns the text that is still held, which may be a call; see [`printed_calls`].
    pub(super) fn finish(&mut self, sorted: &mut Vec<SortedText>) -> String {
        let held = std::mem::take(&mut self.held);
        match self.stage {
            ThinkingStage::Thinking => sorted.extend((!held.is_empty()).then_some(SortedText::Reasoning(held))),
            ThinkingStage::Assumed => {
                // The end mark never came, so all of the text was the answer.
                let text = std::mem::take(&mut self.assumed) + &held;
                *self = Self::new(self.watches_calls);
                self.take(&text, sorted);
                return self.finish(sorted);
            }
            ThinkingStage::Opening | ThinkingStage::Holding => return held,
            ThinkingStage::Passing if self.awaits_end && !self.answered => match without_end(&held) {
                Some(thought) => {
                    self.had_lone_end = true;
                    sorted.push(SortedText::Reasoning(thought.to_owned()));
                }
                None => self.answer(held, sorted),
            },
            _ => self.answer(held, sorted),
        }
        String::new()
    }

    /// True if the held text is everything that the model said.
    pub(super) fn held_is_whole(&self) -> bool {
        !self.answered
    }

    /// Makes one decision. True if another can follow at once.
    fn step(&mut self, sorted: &mut Vec<SortedText>) -> bool {
        if self.skips_blank {
            self.held = self.held.trim_start().to_owned();
            self.skips_blank = self.held.is_empty();
        }
        match self.stage {
            ThinkingStage::Start => self.start(),
            ThinkingStage::Thinking => self.think(sorted),
            ThinkingStage::Assumed => self.assume(sorted),
            ThinkingStage::Opening => self.open(),
            ThinkingStage::Passing => self.pass(sorted),
            ThinkingStage::Holding => self.hold(),
            ThinkingStage::Open => {
                let held = std::mem::take(&mut self.held);
                self.answer(held, sorted);
                false
            }
        }
    }

    fn start(&mut self) -> bool {
        let text = self.held[self.blank..].trim_start();
        self.blank = self.held.len() - text.len();
        if let Some(rest) = THINK.iter().find_map(|mark| text.strip_prefix(mark)) {
            self.held = rest.to_owned();
            self.stage = ThinkingStage::Thinking;
            self.awaits_end = false;
        } else if THINK.iter().any(|mark| mark.starts_with(text)) && self.blank < BLANK_BYTES_MAX {
            return false;
        } else {
            self.stage = ThinkingStage::Opening;
        }
        true
    }

    fn think(&mut self, sorted: &mut Vec<SortedText>) -> bool {
        if let Some((end, mark)) = find_mark(&self.held, &THINK_END) {
            self.end_thinking(end, mark, sorted);
            return true;
        }
        let keep = partial_mark(&self.held, THINK_END.into_iter());
        let rest = self.held.split_off(self.held.len() - keep);
        let thought = std::mem::replace(&mut self.held, rest);
        sorted.extend((!thought.is_empty()).then_some(SortedText::Reasoning(thought)));
        false
    }

    /// Like [`Self::think`], and keeps a copy of the text in case its end mark never comes.
    fn assume(&mut self, sorted: &mut Vec<SortedText>) -> bool {
        if self.assumed.is_empty() {
            let text = self.held.trim_start();
            if let Some(rest) = THINK.iter().find_map(|mark| text.strip_prefix(mark)) {
                self.held = rest.to_owned();
                self.stage = ThinkingStage::Thinking;
                self.awaits_end = false;
                return true;
            }
            if THINK.iter().any(|mark| mark.starts_with(text)) {
                return false;
            }
        }
        let before = sorted.len();
        let has_ended = self.think(sorted);
        if has_ended {
            self.had_lone_end = true;
            self.assumed.clear();
        } else {
            for piece in &sorted[before..] {
                if let SortedText::Reasoning(text) = piece {
                    self.assumed.push_str(text);
                }
            }
        }
        has_ended
    }

    /// The held text is thinking up to a mark, and answer after it.
    fn end_thinking(&mut self, end: usize, mark: &str, sorted: &mut Vec<SortedText>) {
        let rest = self.held.split_off(end);
        let thought = std::mem::replace(&mut self.held, rest[mark.len()..].to_owned());
        self.skips_blank = true;
        self.awaits_end = false;
        sorted.extend((!thought.is_empty()).then_some(SortedText::Reasoning(thought)));
        self.stage = ThinkingStage::Opening;
    }

    /// At the first text: holds a bare or fenced JSON object that begins like a call.
    fn open(&mut self) -> bool {
        let likeness = if self.watches_calls {
            self.scanner.scan(&self.held)
        } else {
            TagLikeness::Text
        };
        match likeness {
            TagLikeness::Unclear if self.held.len() < TEXT_CALL_BYTES_MAX => false,
            TagLikeness::Call => {
                self.stage = ThinkingStage::Holding;
                true
            }
            _ => {
                self.stage = ThinkingStage::Passing;
                true
            }
        }
    }

    fn pass(&mut self, sorted: &mut Vec<SortedText>) -> bool {
        if self.awaits_end {
            match self.pass_thinking(sorted) {
                LoneEnd::Found => return true,
                LoneEnd::Undecided => return false,
                LoneEnd::Absent => {}
            }
        }
        let calls = if self.watches_calls { &CALL_MARKS[..] } else { &[] };
        let thoughts: &[[&str; 2]] = if self.awaits_end { &[THINK, THINK_END] } else { &[] };
        let mark = find_mark(&self.held, calls).map(|(at, _)| at);
        let marks = calls.iter().copied().chain(thoughts.iter().flatten().copied());
        let keep_from = mark.unwrap_or_else(|| self.held.len() - partial_mark(&self.held, marks));
        let rest = self.held.split_off(keep_from);
        let text = std::mem::replace(&mut self.held, rest);
        self.answer(text, sorted);
        if mark.is_some() {
            self.scanner = CallScanner::default();
            self.stage = ThinkingStage::Holding;
        }
        mark.is_some()
    }

    /// Searches for an end mark alone, because some templates begin the thinking in the prompt.
    fn pass_thinking(&mut self, sorted: &mut Vec<SortedText>) -> LoneEnd {
        let begin = find_mark(&self.held, &THINK);
        let Some((end, mark)) = find_mark(&self.held, &THINK_END) else {
            // A text that mentions the mark is not searched further.
            self.awaits_end = begin.is_none();
            return LoneEnd::Absent;
        };
        // Templates put a line feed after the mark, and some models nothing. A text that talks about the mark continues
        // its sentence.
        let next = self.held[end + mark.len()..].chars().next();
        let is_spoken_of = self
            .last_before(end)
            .is_some_and(|last| matches!(last, '`' | '"' | '\''))
            || next.is_some_and(|next| !(next.is_alphanumeric() || matches!(next, '\n' | '\r')))
            || begin.is_some_and(|(begin, _)| begin < end);
        if is_spoken_of {
            self.awaits_end = false;
            return LoneEnd::Absent;
        }
        if next.is_none() {
            return LoneEnd::Undecided;
        }
        self.had_lone_end = true;
        if self.answered {
            // The text was already passed on; now it can only be recorded as thinking.
            let text = self.held[..end].to_owned() + "\n\n";
            self.answer(text, sorted);
            self.held.drain(..end);
            self.end_thinking(0, mark, sorted);
        } else {
            self.end_thinking(end, mark, sorted);
        }
        LoneEnd::Found
    }

    /// The character before a position in the held text.
    fn last_before(&self, end: usize) -> Option<char> {
        self.held[..end].chars().next_back().or(self.last)
    }

    /// Passes on text that turned out not to be a call.
    fn hold(&mut self) -> bool {
        let impossible = self.held.len() > TEXT_CALL_BYTES_MAX || self.scanner.scan(&self.held) == TagLikeness::Text;
        if impossible {
            self.stage = ThinkingStage::Open;
        }
        impossible
    }

    fn answer(&mut self, text: String, sorted: &mut Vec<SortedText>) {
        self.answered = self.answered || !text.trim().is_empty();
        self.last = text.chars().next_back().or(self.last);
        sorted.extend((!text.is_empty()).then_some(SortedText::Answer(text)));
    }
}

/// If a text ends with the end mark of thinking: the text without the mark.
fn without_end(text: &str) -> Option<&str> {
    THINK_END.iter().find_map(|mark| text.strip_suffix(mark))
}

/// The first of these marks in a text, with its position.
fn find_mark<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let found = marks.iter().filter_map(|mark| Some((text.find(mark)?, *mark)));
    found.min_by_key(|(at, _)| *at)
}

/// Length of the longest suffix of `text` that a mark may begin with.
fn partial_mark<'m>(text: &str, marks: impl Iterator<Item = &'m str> + Clone) -> usize {
    let longest = marks.clone().map(str::len).max().unwrap_or(0).min(text.len());
    (1..=longest)
        .rev()
        .filter(|length| text.is_char_boundary(text.len() - length))
        .find(|length| marks.clone().any(|mark| mark.starts_with(&text[text.len() - length..])))
        .unwrap_or(0)
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TagLikeness {
    Call,
    Text,
    #[default]
    Unclear,
}

/// Tells whether a text begins like a printed call: a mark, a fence or nothing, followed by a JSON object whose first
/// key is one that calls have.
///
/// The text may grow between two scans, and a scan continues where the last one stopped.
#[derive(Debug, Default)]
struct CallScanner {
    likeness: TagLikeness,
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

/// Longest first key that is waited for; the keys of calls are shorter.
const KEY_BYTES_MAX: usize = 16;

impl CallScanner {
    fn scan(&mut self, text: &str) -> TagLikeness {
        while self.likeness == TagLikeness::Unclear && self.advance(text) {}
        self.likeness
    }

    /// Reads the expected part. False if more text is needed.
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
            ExpectedPart::Bracket if rest.starts_with('<') => {
                self.likeness = match () {
                    () if rest.starts_with(QWEN_FUNCTION) => TagLikeness::Call,
                    () if QWEN_FUNCTION.starts_with(rest) => TagLikeness::Unclear,
                    () => TagLikeness::Text,
                };
                false
            }
            ExpectedPart::Bracket => {
                self.expect(ExpectedPart::Brace, usize::from(rest.starts_with('[')));
                true
            }
            ExpectedPart::Brace => self.read_character(rest, '{', ExpectedPart::Quote),
            ExpectedPart::Quote => self.read_character(rest, '"', ExpectedPart::Key),
            ExpectedPart::Key => {
                self.likeness = match rest.split_once('"') {
                    None if rest.len() < KEY_BYTES_MAX => TagLikeness::Unclear,
                    Some(("name" | "function" | "tool" | "type" | "id" | "arguments" | "parameters", _)) => {
                        TagLikeness::Call
                    }
                    _ => TagLikeness::Text,
                };
                false
            }
        }
    }

    fn read_mark(&mut self, rest: &str) -> bool {
        if let Some(mark) = CALL_MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            if is_tagged(mark) {
                self.likeness = TagLikeness::Call;
            }
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
            self.likeness = TagLikeness::Text;
        }
        !rest.is_empty()
    }

    fn expect(&mut self, next: ExpectedPart, read_bytes: usize) {
        self.expected = next;
        self.at += read_bytes;
    }
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
                SortedText::Answer(text) => answer.push_str(&text),
                SortedText::Reasoning(text) => reasoning.push_str(&text),
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
                let SortedText::Answer(text) = sorted else {
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
                        ThinkingStage::Start => sorter.blank,
                        ThinkingStage::Opening | ThinkingStage::Holding
                            if sorter.scanner.likeness == TagLikeness::Unclear =>
                        {
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
    fn chat_16_the_forms_of_current_models_are_held() {
        for (form, text) in super::super::printed_calls::FORMS {
            let (answer, reasoning, held) = sorted(&[text]);
            assert_eq!(
                (answer, reasoning, held.as_str()),
                (String::new(), String::new(), text),
                "{form}"
            );
            expect(&format!("Let me look.\n{text}"), "Let me look.\n", "", text);
        }
    }

    #[test]
    fn chat_17_text_before_a_lone_end_of_thinking_is_thinking() {
        let (answer, reasoning, _) = sorted(&["Hm, 2 < 3</think>\n\nYes."]);
        assert_eq!((answer.as_str(), reasoning.as_str()), ("Yes.", "Hm, 2 < 3"));
        expect("<mm:think>Hm.</mm:think>\nYes.", "Yes.", "Hm.", "");
        for quote in [
            "The mark `</think>` ends it.",
            "I use <think> and </think>.",
            "The </think> tag.",
        ] {
            expect(quote, quote, "", "");
        }
        // Text that is out already stays; the mark itself is no text.
        assert_eq!(sorted(&["Hm, ", "two</think>\n\nYes."]).0, "Hm, two\n\nYes.");
        assert_eq!(sorted(&["Hm.</think>Yes."]).0, "Yes.");
    }

    #[test]
    fn chat_17_thinking_that_the_template_begins_is_sorted_from_its_first_piece() {
        let within = |pieces: &[&str]| {
            let (mut sorter, mut sorted) = (TextSorter::within_thinking(true), Vec::new());
            pieces.iter().for_each(|piece| sorter.take(piece, &mut sorted));
            let held = sorter.finish(&mut sorted);
            let of = |wanted: fn(&SortedText) -> Option<&str>| sorted.iter().filter_map(wanted).collect::<String>();
            let answer = of(|piece| match piece {
                SortedText::Answer(text) => Some(text),
                SortedText::Reasoning(_) => None,
            });
            let reasoning = of(|piece| match piece {
                SortedText::Reasoning(text) => Some(text),
                SortedText::Answer(_) => None,
            });
            (answer, reasoning, held)
        };
        let expected = |answer: &str, reasoning: &str, held: &str| (answer.into(), reasoning.into(), held.into());
        assert_eq!(
            within(&["Hm, ", "two</th", "ink>\n\nYes."]),
            expected("Yes.", "Hm, two", "")
        );
        assert_eq!(within(&["<thi", "nk>Hm.</think>", "Yes."]), expected("Yes.", "Hm.", ""));
        assert_eq!(
            within(&["Just an ", "answer."]),
            expected("Just an answer.", "Just an answer.", "")
        );
        assert_eq!(within(&[CALL]), expected("", CALL, CALL));
    }
}
