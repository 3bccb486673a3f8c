//! Checks that the real APIs make on a request: one check for each wire, which returns one sentence for the first
//! fault.
//!
//! A client that passes here must also pass there, so the checks are as strict as the APIs and use much the same words.
//! They only report; the server answers.

pub(super) mod chat;
pub(super) mod generate_content;
pub(super) mod messages;
pub(super) mod responses;

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The first fault, as a sentence.
type CheckResult<T = ()> = Result<T, String>;

/// Fails with a reason if a fault is there.
fn refuse_if(is_wrong: bool, reason: impl FnOnce() -> String) -> CheckResult {
    if is_wrong { Err(reason()) } else { Ok(()) }
}

/// An object with known fields only, which are separated by spaces.
fn check_object<'v>(value: &'v Value, place: &str, known: &str) -> CheckResult<&'v Map<String, Value>> {
    let fields = value.as_object().ok_or_else(|| format!("{place}: must be an object"))?;
    match fields
        .keys()
        .find(|key| !known.split(' ').any(|field| field == key.as_str()))
    {
        Some(unknown) => Err(format!("{place}.{unknown}: unknown field")),
        None => Ok(fields),
    }
}

/// A list with at least one entry.
fn check_list<'v>(value: &'v Value, place: &str) -> CheckResult<&'v [Value]> {
    match value.as_array() {
        Some(entries) if !entries.is_empty() => Ok(entries),
        Some(_) => Err(format!("{place}: must not be empty")),
        None => Err(format!("{place}: must be a list")),
    }
}

/// A list that may be absent.
fn optional_list<'v>(value: &'v Value, place: &str) -> CheckResult<&'v [Value]> {
    if value.is_null() {
        Ok(&[])
    } else {
        check_list(value, place)
    }
}

fn check_text<'v>(value: &'v Value, place: &str) -> CheckResult<&'v str> {
    value.as_str().ok_or_else(|| format!("{place}: must be a string"))
}

/// A text that is not blank.
fn check_nonblank<'v>(value: &'v Value, place: &str) -> CheckResult<&'v str> {
    match check_text(value, place)? {
        text if text.trim().is_empty() => Err(format!("{place}: must be non-empty and contain non-whitespace text")),
        text => Ok(text),
    }
}

fn check_name<'v>(value: &'v Value, place: &str, longest: usize) -> CheckResult<&'v str> {
    let name = check_text(value, place)?;
    if is_word(name) && name.len() <= longest {
        Ok(name)
    } else {
        Err(format!(
            "{place}: `{name}` does not match ^[a-zA-Z0-9_-]{{1,{longest}}}$"
        ))
    }
}

/// True for an id or a name that every wire accepts.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Fails if a value occurs twice.
fn check_unique<'v>(names: impl IntoIterator<Item = &'v str>, place: &str) -> CheckResult {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("{place}: `{twice}` must be unique")),
        None => Ok(()),
    }
}

/// A schema of arguments: an object without a union at its top.
fn check_schema(schema: &Value, place: &str) -> CheckResult {
    if schema["type"] != "object" {
        return Err(format!("{place}.type: must be \"object\""));
    }
    match ["oneOf", "anyOf", "allOf"]
        .iter()
        .find(|union| schema.get(**union).is_some())
    {
        Some(union) => Err(format!("{place}: does not support {union} at the top level")),
        None => Ok(()),
    }
}

/// The entries with their paths for an error, such as `messages.0`.
fn number_entries<'v>(entries: &'v [Value], place: &str) -> impl Iterator<Item = (String, &'v Value)> {
    entries
        .iter()
        .enumerate()
        .map(move |(index, entry)| (format!("{place}.{index}"), entry))
}
