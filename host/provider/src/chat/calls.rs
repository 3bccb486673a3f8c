//! Puts tool calls together from the pieces of a Chat Completions stream.
//!
//! By the rule, index and id together say which call a piece belongs to, but servers get both wrong in many ways. In
//! doubt, it matters whether the call so far is complete: a piece with a name after a complete call begins a new call,
//! and any other piece continues the old one. Arguments are never repaired.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::failure::PROVIDER_CALLS_MAX;
use crate::failure::{FailureClass, ProviderFailure};
use crate::{ToolCall, ids};

/// The calls of one answer so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<PendingCall>,
}

/// Most bytes of one call's other members that are kept. The longest thought signatures have some kilobytes.
const MEMBER_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Default)]
struct PendingCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: ArgumentText,
    /// Members that only the server understands, such as thought signatures.
    members: Map<String, Value>,
    member_bytes: usize,
}

/// The arguments of a call so far. Each byte is scanned once, even if they come in many pieces.
#[derive(Debug, Default)]
struct ArgumentText {
    text: String,
    progress: ArgumentProgress,
    /// Number of open objects and arrays.
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ArgumentProgress {
    #[default]
    Blank,
    /// An object has begun.
    Open,
    /// The text is a complete object.
    Whole,
    /// The text is not an object, and no more text can make it one.
    Other,
}

impl ArgumentText {
    fn append(&mut self, more: &str) {
        let before = self.text.len();
        self.text.push_str(more);
        for at in before..self.text.len() {
            self.read(at);
        }
    }

    fn replace(&mut self, value: &Value) {
        *self = Self::default();
        self.append(&value.to_string());
    }

    /// Scans the byte at a position.
    fn read(&mut self, at: usize) {
        let byte = self.text.as_bytes()[at];
        match self.progress {
            ArgumentProgress::Other => {}
            _ if !self.is_in_string && byte.is_ascii_whitespace() => {}
            ArgumentProgress::Whole => self.progress = ArgumentProgress::Other,
            ArgumentProgress::Blank if byte != b'{' => self.progress = ArgumentProgress::Other,
            ArgumentProgress::Blank | ArgumentProgress::Open => {
                self.progress = ArgumentProgress::Open;
                self.read_token(byte);
                if self.depth == 0 {
                    // Brackets are only counted, so the text is parsed here once.
                    self.progress = if is_object(&self.text[..=at]) {
                        ArgumentProgress::Whole
                    } else {
                        ArgumentProgress::Other
                    };
                }
            }
        }
    }

    fn read_token(&mut self, byte: u8) {
        match (self.is_in_string, byte) {
            (true, _) if self.is_escaped => self.is_escaped = false,
            (true, b'\\') => self.is_escaped = true,
            (_, b'"') => self.is_in_string = !self.is_in_string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => self.depth -= 1,
            _ => {}
        }
    }
}

/// One entry of a `tool_calls` array.
struct CallDelta<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: CallArguments<'a>,
    entry: &'a Value,
}

enum CallArguments<'a> {
    /// Text to append.
    Text(&'a str),
    /// Complete arguments, sent as an object instead of its text.
    Whole(&'a Value),
}

impl CallArguments<'_> {
    fn is_whole(&self) -> bool {
        match self {
            Self::Text(text) => is_object(text),
            Self::Whole(_) => true,
        }
    }

    fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.trim().is_empty())
    }
}

impl<'a> CallDelta<'a> {
    fn read(entry: &'a Value) -> Self {
        let function = entry.get("function").unwrap_or(entry);
        let text = |value: Option<&'a Value>| value.and_then(Value::as_str).unwrap_or_default();
        let index = entry.get("index");
        Self {
            index: index.and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok())),
            id: text(entry.get("id")),
            name: text(function.get("name")),
            arguments: match function.get("arguments") {
                None | Some(Value::Null) => CallArguments::Text(""),
                Some(Value::String(text)) => CallArguments::Text(text),
                Some(value) => CallArguments::Whole(value),
            },
            entry,
        }
    }

    /// The members that this module does not read, unchanged; null if there are none.
    fn unknown_members(&self) -> Value {
        const ENTRY: [&str; 6] = ["index", "id", "type", "function", "name", "arguments"];
        const FUNCTION: [&str; 2] = ["name", "arguments"];
        let others = |value: &Value, known: &[&str]| -> Map<String, Value> {
            let fields = value.as_object().into_iter().flatten();
            let unknown = fields.filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
            unknown.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let mut members = others(self.entry, &ENTRY);
        let function = others(&self.entry["function"], &FUNCTION);
        if !function.is_empty() {
            members.insert("function".to_owned(), function.into());
        }
        if members.is_empty() {
            Value::Null
        } else {
            members.into()
        }
    }
}

/// Adds members to an object. If both hold an object under the same key, the inner objects are merged.
pub(super) fn add_members(into: &mut Value, members: &Value) {
    let (Some(fields), Some(members)) = (into.as_object_mut(), members.as_object()) else {
        return;
    };
    for (key, value) in members {
        match fields.get_mut(key) {
            Some(inner) if inner.is_object() && value.is_object() => add_members(inner, value),
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

impl Calls {
    /// Takes the `tool_calls` of one chunk. Fails if an answer holds too many calls, because each piece is compared
    /// with all of them.
    pub(super) fn take(&mut self, entries: &[Value]) -> Result<(), ProviderFailure> {
        // Two named entries of one chunk are two calls: no server splits a call within one chunk.
        let mut named_in_chunk = Vec::new();
        for entry in entries {
            let piece = CallDelta::read(entry);
            let at = self.slot_for(&piece, &named_in_chunk);
            if !piece.name.is_empty() {
                named_in_chunk.push(at);
            }
            self.slots[at].absorb(&piece)?;
            if self.slots.len() > PROVIDER_CALLS_MAX {
                return Err(ProviderFailure::too_many_calls());
            }
        }
        Ok(())
    }

    /// True if no call came.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of all arguments.
    pub(super) fn bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.arguments.text.len()).sum()
    }

    /// The unknown members of each call, in order; null if no call has any.
    pub(super) fn unknown_members(&self) -> Option<Value> {
        let has_members = self.slots.iter().any(|slot| !slot.members.is_empty());
        has_members.then(|| self.slots.iter().map(|slot| json!(slot.members)).collect())
    }

    /// The names and arguments of the calls, for the case that none may run.
    pub(super) fn into_cut_off(self) -> impl Iterator<Item = (String, String)> {
        self.slots.into_iter().map(|slot| (slot.name, slot.arguments.text))
    }

    /// The calls, each with an id that is unique in the conversation. `used` are the ids taken so far; `round` tells
    /// the made-up ids of this answer from those of others.
    pub(super) fn into_tool_calls(self, mut used: HashSet<String>, round: usize) -> Vec<ToolCall> {
        let numbered = self.slots.into_iter().enumerate();
        numbered
            .map(|(number, slot)| ToolCall {
                id: ids::make_unique(&slot.id, &mut used, round, number),
                name: slot.name,
                arguments: normalise_arguments(slot.arguments.text),
            })
            .collect()
    }

    fn slot_for(&mut self, piece: &CallDelta<'_>, named_in_chunk: &[usize]) -> usize {
        match self.continued(piece) {
            Some(at) if piece.name.is_empty() || !named_in_chunk.contains(&at) => at,
            _ => {
                self.slots.push(PendingCall {
                    index: piece.index,
                    ..PendingCall::default()
                });
                self.slots.len() - 1
            }
        }
    }

    /// The call that a piece continues, if any.
    fn continued(&self, piece: &CallDelta<'_>) -> Option<usize> {
        let by_index = |index| self.slots.iter().rposition(|slot| slot.index == Some(index));
        let by_id = || match piece.id {
            "" => None,
            id => self.slots.iter().rposition(|slot| slot.id == id),
        };
        let last = self.slots.len().checked_sub(1);
        let at = match piece.index {
            // A name under a new index begins a new call, even if its id is not new.
            Some(index) => by_index(index).or_else(|| by_id().filter(|_| piece.name.is_empty())),
            None => by_id(),
        };
        // Without an index, and with a new or missing id, only the name tells whether a call begins.
        let at = at.or(if piece.name.is_empty() || piece.index.is_none() {
            last
        } else {
            None
        })?;
        self.belongs(piece, &self.slots[at]).then_some(at)
    }

    fn belongs(&self, piece: &CallDelta<'_>, slot: &PendingCall) -> bool {
        if piece.name.is_empty() || slot.name.is_empty() {
            return true;
        }
        let fresh_id = !piece.id.is_empty() && !slot.id.is_empty() && piece.id != slot.id;
        let same_name = piece.name == slot.name;
        match slot.arguments.progress {
            // A name after a complete call begins a new call, unless the piece is an empty repetition of the complete
            // one.
            ArgumentProgress::Whole => !fresh_id && same_name && piece.arguments.is_blank(),
            // Nothing came yet: the piece belongs to this call, unless it begins its own.
            ArgumentProgress::Blank if fresh_id => {
                same_name && !piece.arguments.is_blank() && !piece.arguments.is_whole()
            }
            ArgumentProgress::Blank => same_name || piece.id == slot.id,
            // The call is incomplete: some servers repeat the name or send a fresh id with every piece, so only another
            // name begins another call.
            ArgumentProgress::Open | ArgumentProgress::Other => same_name,
        }
    }
}

impl PendingCall {
    fn absorb(&mut self, piece: &CallDelta<'_>) -> Result<(), ProviderFailure> {
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        if self.name.is_empty() {
            piece.name.clone_into(&mut self.name);
        }
        match piece.arguments {
            CallArguments::Text(text) => self.arguments.append(text),
            CallArguments::Whole(value) => self.arguments.replace(value),
        }
        self.keep_members(piece.unknown_members())
    }

    fn keep_members(&mut self, more: Value) -> Result<(), ProviderFailure> {
        if more.is_null() {
            return Ok(());
        }
        self.member_bytes += more.to_string().len();
        if self.member_bytes > MEMBER_BYTES_MAX {
            let kib = MEMBER_BYTES_MAX / 1024;
            let said = format!("a tool call holds more than {kib} KiB beside its arguments");
            return Err(ProviderFailure::new(FailureClass::Protocol, said));
        }
        let mut members = Value::Object(std::mem::take(&mut self.members));
        add_members(&mut members, &more);
        if let Value::Object(members) = members {
            self.members = members;
        }
        Ok(())
    }
}

fn is_object(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Object(_)))
}

/// Empty arguments become `{}`, and an object within a JSON string becomes that object. Everything else is left
/// unchanged.
fn normalise_arguments(arguments: String) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str(&arguments) {
        Ok(Value::String(inner)) if is_object(&inner) => inner,
        Ok(Value::String(inner)) if inner.trim().is_empty() => "{}".to_owned(),
        Ok(Value::Null) => "{}".to_owned(),
        _ => arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of `tool_calls` arrays to `(id, name, arguments)`.
    fn assembled(chunks: Value) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for chunk in chunks.as_array().expect("the chunks are an array") {
            let entries = chunk.as_array().expect("a chunk is an array");
            calls.take(entries).expect("they are few");
        }
        let calls = calls.into_tool_calls(HashSet::new(), 3);
        calls
            .into_iter()
            .map(|call| (call.id, call.name, call.arguments))
            .collect()
    }

    fn expect(chunks: Value, expected: &[(&str, &str, &str)]) {
        let got = assembled(chunks.clone());
        let got: Vec<_> = got
            .iter()
            .map(|(id, name, text)| (id.as_str(), name.as_str(), text.as_str()))
            .collect();
        assert_eq!(got, expected, "{chunks}");
    }

    fn piece(index: Value, id: &str, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    const A: &str = r#"{"path":"a"}"#;
    const B: &str = r#"{"path":"b"}"#;

    #[test]
    fn chat_13_id_and_name_only_in_the_first_piece() {
        expect(
            json!([
                [piece(json!(0), "a", "read_file", "")],
                [{"index": 0, "function": {"arguments": "{\"path\""}}],
                [{"index": 1, "id": "b", "function": {"name": "list_files", "arguments": ""}}],
                [{"index": 0, "function": {"arguments": ":\"a\"}"}}, {"index": 1, "function": {"arguments": "{}"}}],
            ]),
            &[("a", "read_file", A), ("b", "list_files", "{}")],
        );
    }

    #[test]
    fn chat_13_missing_index() {
        expect(
            json!([
                [{"id": "a", "function": {"name": "read_file", "arguments": "{\"path\""}}],
                [{"function": {"arguments": ":\"a\"}"}}],
                [{"id": "b", "function": {"name": "read_file", "arguments": B}}],
            ]),
            &[("a", "read_file", A), ("b", "read_file", B)],
        );
    }

    #[test]
    fn chat_13_non_contiguous_index_keeps_the_order_of_arrival() {
        expect(
            json!([
                [piece(json!(7), "a", "read_file", A)],
                [piece(json!(2), "b", "read_file", B)]
            ]),
            &[("a", "read_file", A), ("b", "read_file", B)],
        );
    }

    #[test]
    fn chat_13_index_zero_for_all_with_distinct_ids() {
        expect(
            json!([
                [
                    piece(json!(0), "a", "read_file", A),
                    piece(json!(0), "b", "read_file", B)
                ],
                [piece(json!(0), "c", "list_files", "")],
                [piece(json!(0), "d", "list_files", "")],
            ]),
            &[
                ("a", "read_file", A),
                ("b", "read_file", B),
                ("c", "list_files", "{}"),
                ("d", "list_files", "{}"),
            ],
        );
    }

    #[test]
    fn chat_13_a_fresh_id_on_every_piece() {
        for name in ["", "read_file"] {
            expect(
                json!([
                    [piece(json!(0), "a", "read_file", "{\"pa")],
                    [piece(json!(0), "b", name, "th\":")],
                    [piece(json!(0), "c", name, "\"a\"}")],
                ]),
                &[("a", "read_file", A)],
            );
        }
    }

    #[test]
    fn chat_13_the_name_on_every_piece() {
        expect(
            json!([
                [piece(json!(0), "a", "read_file", "")],
                [piece(json!(0), "a", "read_file", "{\"path\":")],
                [piece(json!(0), "a", "read_file", "\"a\"}")],
                [piece(json!(0), "a", "read_file", "")],
            ]),
            &[("a", "read_file", A)],
        );
    }

    #[test]
    fn chat_13_repeated_ids_become_distinct() {
        expect(
            json!([[
                piece(json!(0), "same", "read_file", A),
                piece(json!(1), "same", "read_file", B)
            ]]),
            &[("same", "read_file", A), ("call_3_1", "read_file", B)],
        );
        expect(
            json!([[
                piece(json!(0), "same", "list_files", ""),
                piece(json!(1), "same", "list_files", "")
            ],]),
            &[("same", "list_files", "{}"), ("call_3_1", "list_files", "{}")],
        );
    }

    #[test]
    fn chat_13_empty_ids_are_made_up() {
        expect(
            json!([
                [piece(json!(0), "", "read_file", A), piece(json!(0), "", "read_file", B)],
                [{"function": {"name": "list_files"}}],
            ]),
            &[
                ("call_3_0", "read_file", A),
                ("call_3_1", "read_file", B),
                ("call_3_2", "list_files", "{}"),
            ],
        );
    }

    #[test]
    fn chat_13_ids_are_unique_in_the_conversation_and_otherwise_unchanged() {
        let mut calls = Calls::default();
        let entries = [
            piece(json!(0), "taken", "read_file", A),
            piece(json!(1), "functions.read_file:0", "read_file", B),
        ];
        calls.take(&entries).expect("they are few");
        let used = HashSet::from(["taken".to_owned(), "call_5_0".to_owned()]);
        let ids: Vec<_> = calls.into_tool_calls(used, 5).into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["call_5_0_1", "functions.read_file:0"]);
    }

    #[test]
    fn chat_13_whole_call_in_one_chunk_and_arguments_of_every_shape() {
        for (arguments, expected) in [
            (json!(A), A),
            (json!({"path": "a"}), A),
            (json!("\"{\\\"path\\\":\\\"a\\\"}\""), A),
            (json!(""), "{}"),
            (json!(" "), "{}"),
            (json!(null), "{}"),
            (json!("null"), "{}"),
            (json!("\"\""), "{}"),
        ] {
            expect(
                json!([[{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": arguments}}]]),
                &[("a", "read_file", expected)],
            );
        }
        expect(
            json!([[{"index": 0, "id": "a", "function": {"name": "x"}}]]),
            &[("a", "x", "{}")],
        );
    }

    #[test]
    fn chat_14_broken_arguments_stay_as_they_came() {
        expect(
            json!([[piece(json!(0), "a", "write_file", "{\"path\":\"a\",\"content\":\"half")]]),
            &[("a", "write_file", "{\"path\":\"a\",\"content\":\"half")],
        );
        expect(json!([[piece(json!(0), "a", "x", "[1]")]]), &[("a", "x", "[1]")]);
    }

    #[test]
    fn chat_13_the_index_as_text_and_a_new_index_with_a_known_id() {
        expect(
            json!([
                [piece(json!("0"), "a", "read_file", "{\"path\"")],
                [piece(json!(1), "a", "", ":\"a\"}")],
            ]),
            &[("a", "read_file", A)],
        );
    }

    #[test]
    fn an_answer_holds_a_bounded_number_of_calls() {
        let mut calls = Calls::default();
        let call = |index: usize| [piece(json!(index), "", "read_file", A)];
        for index in 0..PROVIDER_CALLS_MAX {
            calls.take(&call(index)).expect("it is one of those that may be");
        }
        let more = calls.take(&call(PROVIDER_CALLS_MAX)).expect_err("it is one too many");
        assert_eq!(more, ProviderFailure::too_many_calls());
        assert_eq!(more.said, "it holds more than 256 tool calls");
    }

    #[test]
    fn arguments_are_whole_exactly_where_they_are_an_object() {
        for text in [
            r#"{"a":"}"}"#,
            r#"{"a":"\""}"#,
            r#" {"a":[{}]} "#,
            "{}",
            "{",
            "",
            " ",
            "[1]",
            "{]",
            r#"{"a"}"#,
            "{}{",
            "\"{}\"",
            "{} x",
        ] {
            for size in 1..=text.len().max(1) {
                let mut arguments = ArgumentText::default();
                let pieces: Vec<char> = text.chars().collect();
                pieces
                    .chunks(size)
                    .for_each(|piece| arguments.append(&piece.iter().collect::<String>()));
                assert_eq!(arguments.progress == ArgumentProgress::Whole, is_object(text), "{text}");
                assert_eq!(
                    arguments.progress == ArgumentProgress::Blank,
                    text.trim().is_empty(),
                    "{text}"
                );
                assert_eq!(arguments.text, text);
            }
        }
    }

    #[test]
    fn long_arguments_with_the_name_on_every_piece_cost_one_look_each() {
        let more = "x".repeat(100);
        let time = |pieces: usize| {
            let mut calls = Calls::default();
            let begun = std::time::Instant::now();
            calls
                .take(&[piece(json!(0), "a", "write_file", "{\"content\":\"")])
                .expect("one call");
            for _ in 0..pieces {
                calls
                    .take(&[piece(json!(0), "a", "write_file", &more)])
                    .expect("one call");
            }
            assert_eq!(calls.slots.len(), 1);
            begun.elapsed()
        };
        // Sixteen times the pieces, each of which had all before it parsed again: the square would be 256 times. A busy
        // machine spoils a comparison, and not all of them.
        assert!((0..20).any(|_| time(16_000) < 64 * time(1_000)));
    }
}
