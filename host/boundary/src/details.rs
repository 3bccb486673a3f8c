//! The details of an answer: what a skill tells programs, in addition to the text for the model.
//!
//! A guest writes them, so they are bounded, parsed and cleaned here before anything else sees them. The host shows
//! them and decides nothing by them. The session removes keys from them as it does from the text.

use serde_json::{Map, Value};
use tool_core::text::clean_text;

/// Bytes of the details of one answer: as many as of its text. The longest details of a built-in skill list 5000 files.
pub(super) const DETAILS_BYTES_MAX: usize = 1024 * 1024;

/// Levels of the details. Events and journal lines contain them, and readers of JSON give up at 128 levels.
pub(super) const DETAILS_LEVELS_MAX: usize = 16;

/// Why details are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DetailsError {
    /// They are longer than [`DETAILS_BYTES_MAX`].
    TooLong,
    /// They are no JSON, not an object, or deeper than [`DETAILS_LEVELS_MAX`].
    NotAnObject,
}

/// Parses the details of a guest, and removes control characters from their names and texts as from answers.
pub(super) fn parse_details(json: &str) -> Result<Value, DetailsError> {
    if json.len() > DETAILS_BYTES_MAX {
        return Err(DetailsError::TooLong);
    }
    // The parser refuses more than 128 levels, so the functions below may recurse.
    let fields: Map<String, Value> = serde_json::from_str(json).map_err(|_| DetailsError::NotAnObject)?;
    let mut details = Value::Object(fields);
    if count_levels(&details) > DETAILS_LEVELS_MAX {
        return Err(DetailsError::NotAnObject);
    }
    rewrite_texts(&mut details, &|text| clean_text(text).into_owned());
    Ok(details)
}

fn count_levels(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(count_levels).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(count_levels).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Replaces every text of a value, names of fields included.
pub fn rewrite_texts(value: &mut Value, rewrite: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = rewrite(text),
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite_texts(value, rewrite)),
        Value::Object(fields) => {
            let old = std::mem::take(fields);
            fields.extend(old.into_iter().map(|(name, mut value)| {
                rewrite_texts(&mut value, rewrite);
                (rewrite(&name), value)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Visits every text of a value, names of fields included.
pub fn visit_texts<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter().for_each(|value| visit_texts(value, visit)),
        Value::Object(fields) => {
            for (name, value) in fields {
                visit(name);
                visit_texts(value, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_are_bounded_in_bytes() {
        let of_bytes = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert!(parse_details(&of_bytes(DETAILS_BYTES_MAX)).is_ok());
        assert_eq!(
            parse_details(&of_bytes(DETAILS_BYTES_MAX + 1)),
            Err(DetailsError::TooLong)
        );
    }

    #[test]
    fn details_that_are_no_object_are_refused() {
        let of_levels = |levels: usize| {
            let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
            format!("{{\"a\":{open}{close}}}")
        };
        let (deep, deeper) = (of_levels(DETAILS_LEVELS_MAX + 1), of_levels(200));
        for json in [
            "",
            "{",
            "[]",
            "\"text\"",
            "7",
            "null",
            "{} {}",
            "{\"a\":NaN}",
            &deep,
            &deeper,
        ] {
            assert_eq!(parse_details(json), Err(DetailsError::NotAnObject), "{json}");
        }
        assert!(parse_details(&of_levels(DETAILS_LEVELS_MAX)).is_ok());
    }

    #[test]
    fn control_characters_leave_names_and_texts() {
        let details = parse_details(r#"{"a\u001b[31m": ["b\u0007", {"c\u202e": "d\u0000"}], "e": 1}"#);
        assert_eq!(details, Ok(json!({"a": ["b", {"c": "d"}], "e": 1})));
    }

    #[test]
    fn every_text_is_visited() {
        let details = json!({"a": ["b", {"c": "d"}], "e": null});
        let mut seen = Vec::new();
        visit_texts(&details, &mut |text| seen.push(text));
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    }
}
