//! Prepares tool calls for their way back to the server: identifiers that are unique in the conversation and otherwise
//! unchanged, and arguments that every server can parse.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::{Message, ToolCall};
use tool_core::digest::sha256_hex;

/// Longest identifier that is passed on. The longest signatures within identifiers have some kilobytes.
const ID_BYTES_MAX: usize = 64 * 1024;

/// The identifiers of a conversation's calls.
pub(super) fn collect_ids(messages: &[Message]) -> HashSet<String> {
    calls_of(messages).map(|call| call.id.clone()).collect()
}

/// The calls of a conversation, in order.
pub(super) fn calls_of(messages: &[Message]) -> impl Iterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
        _ => &[],
    })
}

/// The identifier as the server gave it, or a made-up one if it is empty, taken or too long. It is not shortened,
/// because some routers carry a vendor's signature in it and want it back unchanged. `round` and `number` tell the
/// made-up ids of one answer from those of others.
pub(super) fn make_unique(given: &str, used: &mut HashSet<String>, round: usize, number: usize) -> String {
    let made = (0..).map(|again| match again {
        0 => format!("call_{round}_{number}"),
        again => format!("call_{round}_{number}_{again}"),
    });
    let is_usable = !given.is_empty() && given.len() <= ID_BYTES_MAX;
    let mut candidates = is_usable.then(|| given.to_owned()).into_iter().chain(made);
    candidates
        .find(|id| used.insert(id.clone()))
        .expect("the made-up ids never end")
}

/// Like [`make_unique`], for a wire that takes back only the characters `[A-Za-z0-9_-]`.
pub(super) fn unique_word(given: &str, used: &mut HashSet<String>, round: usize, number: usize) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let given: String = given.chars().map(clean).collect();
    make_unique(&given, used, round, number)
}

/// The form that an API requires for identifiers of calls that another API made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdForm {
    /// `[A-Za-z0-9_-]`, at most [`WORD_BYTES_MAX`] of them.
    Word,
    /// Nine letters and digits, as Mistral requires.
    Nine,
}

/// OpenAI's limit on Chat Completions, the narrowest of those known.
const WORD_BYTES_MAX: usize = 40;

/// Converts an identifier of another API into this form. The same identifier always gives the same result.
pub(super) fn in_form(id: &str, form: IdForm) -> String {
    let fits = match form {
        IdForm::Word => {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            !id.is_empty() && id.len() <= WORD_BYTES_MAX && id.chars().all(is_word)
        }
        IdForm::Nine => id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
    };
    if fits {
        return id.to_owned();
    }
    let digest = sha256_hex(id.as_bytes());
    match form {
        IdForm::Word => format!("call_{}", &digest[..24]),
        IdForm::Nine => digest[..9].to_owned(),
    }
}

/// The arguments of a call in a form that every server takes back. Several servers parse the history and refuse it if
/// they find something other than an object. The tool's error result says what was wrong with the arguments.
pub(super) fn arguments_object(arguments: &str) -> Cow<'_, str> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(_)) => arguments.into(),
        _ => "{}".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_api_is_always_mapped_to_the_same_one_that_fits() {
        for (id, form, fits) in [
            ("call_00_1", IdForm::Word, true),
            ("read_file:0", IdForm::Word, false),
            (&"x".repeat(300), IdForm::Word, false),
            ("D681PevKs", IdForm::Nine, true),
            ("call_00_1", IdForm::Nine, false),
        ] {
            let mapped = in_form(id, form);
            assert_eq!(mapped == id, fits, "{id}");
            assert_eq!(in_form(id, form), mapped);
            assert_eq!(in_form(&mapped, form), mapped, "it fits");
            assert_ne!(mapped, in_form(&format!("{id}!"), form));
        }
    }

    #[test]
    fn an_id_is_changed_only_where_it_is_empty_taken_or_endless() {
        let mut used = HashSet::from(["taken".to_owned()]);
        let signed = format!("call_1__thought__{}", "CiQB4KWEo+pZ/Ab9=".repeat(18));
        assert_eq!(make_unique(&signed, &mut used, 3, 0), signed);
        for given in ["", "taken", &signed, &"x".repeat(ID_BYTES_MAX + 1)] {
            assert!(make_unique(given, &mut used, 3, 1).starts_with("call_3_1"), "{given}");
        }
        assert_eq!(unique_word("a+b c", &mut used, 3, 2), "a_b_c");
    }
}
