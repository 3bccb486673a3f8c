//! The arguments of a call: parsed, validated against the skill's schema, and where they do not fit, said how.
//!
//! The words are for a model that must mend its call: where (a JSON pointer), what the schema wants there, and what
//! came. A schema may come from a foreign component, so it causes no request and its patterns run in linear time.

use std::borrow::Cow;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use super::text::{beginning, clean};
use super::{Arguments, CallError};

/// Longest piece of the caller's own words in an error.
const SHOWN_BYTES_MAX: usize = 100;

/// Compiles a schema. The error is the end of a sentence.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its schema is not of `\"type\": \"object\"`".to_owned());
    }
    jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| format!("its schema is not valid: {error}"))
}

/// Parses and validates. Gives the arguments back as the JSON object that the skill gets.
pub(super) fn check(skill: &str, schema: &Validator, arguments: &Arguments<'_>) -> Result<Value, CallError> {
    let value = parse(skill, arguments)?;
    match schema.iter_errors(&value).max_by_key(|error| depth(error)) {
        None => Ok(value.into_owned()),
        Some(error) => Err(CallError::Arguments {
            skill: skill.to_owned(),
            pointer: error.instance_path().as_str().to_owned(),
            expected: expected(&error),
            got: got(&error),
        }),
    }
}

fn parse<'a>(skill: &str, arguments: &Arguments<'a>) -> Result<Cow<'a, Value>, CallError> {
    let unfit = |got: String| CallError::Arguments {
        skill: skill.to_owned(),
        pointer: String::new(),
        expected: "a JSON object".to_owned(),
        got,
    };
    let value = match arguments {
        Arguments::Value(value) => Cow::Borrowed(*value),
        Arguments::Text(text) if text.trim().is_empty() => Cow::Owned(Value::Object(Map::new())),
        Arguments::Text(text) => {
            Cow::Owned(serde_json::from_str(text).map_err(|error| unfit(format!("other text ({error})")))?)
        }
    };
    match value.is_object() {
        true => Ok(value),
        false => Err(unfit(described(&value))),
    }
}

/// The innermost of several errors is the one that helps: an outer one only says that a part did not fit.
fn depth(error: &ValidationError<'_>) -> usize {
    error.instance_path().as_str().matches('/').count()
}

fn expected(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type {
            kind: TypeKind::Single(kind),
        } => article(*kind).to_owned(),
        Kind::Type {
            kind: TypeKind::Multiple(kinds),
        } => kinds.iter().map(article).collect::<Vec<_>>().join(" or "),
        Kind::Required { property } => format!("the field `{}`", property.as_str().unwrap_or_default()),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!(
                "no field {}",
                unexpected
                    .iter()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Kind::Enum { options } => match options.as_array() {
            Some(options) => format!(
                "one of {}",
                options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
            ),
            None => "one of the listed values".to_owned(),
        },
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} elements"),
        Kind::MaxItems { limit } => format!("at most {limit} elements"),
        Kind::UniqueItems => "elements that differ from each other".to_owned(),
        Kind::Pattern { pattern } => format!("text that matches `{pattern}`"),
        Kind::FalseSchema => "nothing".to_owned(),
        kind => format!("a value that satisfies `{}` of the schema", kind.keyword()),
    }
}

fn got(error: &ValidationError<'_>) -> String {
    match (error.kind(), error.instance().as_ref()) {
        (ValidationErrorKind::Required { .. }, Value::Object(fields)) if fields.is_empty() => "no field".to_owned(),
        (
            ValidationErrorKind::Required { .. }
            | ValidationErrorKind::AdditionalProperties { .. }
            | ValidationErrorKind::UnevaluatedProperties { .. },
            Value::Object(fields),
        ) => {
            let names: Vec<String> = fields.keys().map(|name| format!("`{name}`")).collect();
            let noun = if names.len() == 1 { "field" } else { "fields" };
            format!("the {noun} {}", shown(&names.join(", ")))
        }
        (_, value) => described(value),
    }
}

fn article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.is_empty() => "an empty string".to_owned(),
        Value::String(text) => format!("the string \"{}\"", shown(text)),
        Value::Array(elements) => format!("an array of {}", elements.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn shown(text: &str) -> String {
    let cleaned = clean(text);
    let cut = beginning(&cleaned, SHOWN_BYTES_MAX);
    let dots = if cut.len() < cleaned.len() { "…" } else { "" };
    format!("{cut}{dots}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Validator {
        compile(&json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "mode": {"enum": ["fast", "slow"]},
                "edits": {"type": "array", "items": {
                    "type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]}},
                "name": {"type": "string", "pattern": "^[a-z]+$"},
            },
            "required": ["path"],
            "additionalProperties": false,
        }))
        .expect("the schema is valid")
    }

    fn refused(arguments: &str) -> String {
        check("demo", &schema(), &Arguments::Text(arguments))
            .expect_err("the arguments do not fit")
            .to_string()
    }

    #[test]
    fn errors_say_where_what_is_wanted_and_what_came() {
        let said: Vec<String> = [
            "",
            "[1]",
            "{path}",
            r#"{"limit": 3}"#,
            r#"{"path": 3}"#,
            r#"{"path": ""}"#,
            r#"{"path": "a", "limit": 0}"#,
            r#"{"path": "a", "limit": 1.5}"#,
            r#"{"path": "a", "mode": "medium"}"#,
            r#"{"path": "a", "edits": [{"old": "x"}, {"old": null}]}"#,
            r#"{"path": "a", "edits": [{}]}"#,
            r#"{"path": "a", "file": "b"}"#,
            r#"{"path": "a", "name": "A\u001b[31m"}"#,
        ]
        .into_iter()
        .map(refused)
        .collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        Invalid arguments for `demo`: expected the field `path`, got no field.
        Invalid arguments for `demo`: expected a JSON object, got an array of 1.
        Invalid arguments for `demo`: expected a JSON object, got other text (key must be a string at line 1 column 2).
        Invalid arguments for `demo`: expected the field `path`, got the field `limit`.
        Invalid arguments for `demo` at `/path`: expected a string, got the number 3.
        Invalid arguments for `demo` at `/path`: expected at least 1 characters, got an empty string.
        Invalid arguments for `demo` at `/limit`: expected at least 1, got the number 0.
        Invalid arguments for `demo` at `/limit`: expected a whole number, got the number 1.5.
        Invalid arguments for `demo` at `/mode`: expected one of "fast", "slow", got the string "medium".
        Invalid arguments for `demo` at `/edits/1/old`: expected a string, got null.
        Invalid arguments for `demo` at `/edits/0`: expected the field `old`, got no field.
        Invalid arguments for `demo`: expected no field `file`, got the fields `path`, `file`.
        Invalid arguments for `demo` at `/name`: expected text that matches `^[a-z]+$`, got the string "A".
        "#);
    }

    #[test]
    fn an_empty_text_is_an_empty_object() {
        let free = compile(&json!({"type": "object"})).expect("the schema is valid");
        let value = check("demo", &free, &Arguments::Text(" \n")).expect("nothing is required");
        assert_eq!(value, json!({}));
    }

    #[test]
    fn a_schema_must_be_of_an_object_and_may_not_reach_out() {
        assert!(compile(&json!({"type": "string"})).is_err());
        assert!(compile(&json!({"type": "object", "properties": {"a": {"type": "strong"}}})).is_err());
        assert!(compile(&json!({"type": "object", "$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(compile(&json!({"type": "object", "$ref": "file:///etc/passwd"})).is_err());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered(text in "\\PC{0,64}|[\\[\\]{}\":,0-9a-z ]{0,64}") {
            if let Err(error) = check("demo", &schema(), &Arguments::Text(&text)) {
                prop_assert!(error.to_string().len() < 1_000);
            }
        }
    }
}
