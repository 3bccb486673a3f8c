//! Parses the arguments of a call, validates them against the skill's schema, and explains what does not fit.
//!
//! The explanation is for a model that has to correct its call: where (a JSON pointer), what the schema expects, and
//! what was given. A schema may come from a foreign component. So validating causes no request, patterns run in linear
//! time, and the work of schema and arguments together is bounded before validation starts (`weight`).

mod leniency;
mod weight;

use std::borrow::Cow;
use std::path::Path;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use super::budget::format_bytes;
use super::{CallError, RawArguments};
use tool_core::api::ErrorKind;
use tool_core::text::nearest_name;
use tool_core::text::{clean_text, truncate_text};

/// Size of one compiled pattern of a schema. Those of names and versions take a few kilobytes.
const SCHEMA_PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Parts of a schema times values in the arguments: what validating looks at, in the daemon and before the call has a
/// deadline. It takes half a second.
const SCHEMA_WORK_MAX: u64 = 8_000_000;

/// Beyond this much of [`SCHEMA_WORK_MAX`] the host does not look for the place that does not fit: every branch that
/// was tried leaves an error of some 300 bytes.
const SCHEMA_ERROR_WORK_MAX: u64 = 200_000;

/// Bytes of one call's arguments. A model writes at most 128,000 tokens in one answer, half a megabyte.
const ARGUMENT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Longest quotation of the caller's own text in an error.
const SHOWN_BYTES_MAX: usize = 100;

pub use leniency::strip_path_marks;

/// A compiled schema for arguments.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// Number of its parts if every reference is replaced by its target.
    parts: u64,
    /// The schema as it was written, to suggest names from it.
    source: Value,
}

/// Compiles a schema.
///
/// # Errors
///
/// Why the schema is refused, as the end of a sentence.
pub fn compile_schema(schema: &Value) -> Result<Schema, String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its schema is not of `\"type\": \"object\"`".to_owned());
    }
    let parts = weight::of_schema(schema)?;
    let patterns = PatternOptions::regex().size_limit(SCHEMA_PATTERN_BYTES_MAX);
    let validator = jsonschema::draft202012::options()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| format!("its schema is not valid: {}", shorten_text(&error.to_string())))?;
    Ok(Schema {
        validator,
        parts,
        source: schema.clone(),
    })
}

/// Checked arguments of a call.
#[derive(Debug)]
pub struct CheckedArguments {
    /// The JSON object that the skill gets.
    pub value: Value,
    /// One sentence for each value that was corrected.
    pub changes: Vec<String>,
    /// JSON pointers of the paths among the arguments: values that the schema marks with `"format": "path"`.
    pub paths: Vec<String>,
}

/// Parses the arguments of a call in the repository at `root`, corrects them (`leniency`), and validates them.
///
/// # Errors
///
/// The arguments are too large, are not JSON, or do not fit the schema.
pub fn check_call(
    skill: &str,
    schema: &Schema,
    arguments: &RawArguments<'_>,
    root: &Path,
) -> Result<CheckedArguments, CallError> {
    let mut value = parse(skill, arguments)?.into_owned();
    measure_work(skill, schema, &value)?;
    let (changes, paths) = leniency::correct_arguments(schema, &mut value, root);
    let value = validate_arguments(skill, schema, Cow::Owned(value))?;
    Ok(CheckedArguments { value, changes, paths })
}

/// Parses and validates arguments without correcting them.
pub(crate) fn check_arguments(skill: &str, schema: &Schema, arguments: &RawArguments<'_>) -> Result<Value, CallError> {
    validate_arguments(skill, schema, parse(skill, arguments)?)
}

/// Computes the work of validating, and refuses too much of it.
fn measure_work(skill: &str, schema: &Schema, value: &Value) -> Result<u64, CallError> {
    let work = schema.parts.saturating_mul(weight::of_value(value));
    if work > SCHEMA_WORK_MAX {
        return Err(too_large(skill, "arguments that its schema can be tried on"));
    }
    Ok(work)
}

fn validate_arguments(skill: &str, schema: &Schema, value: Cow<'_, Value>) -> Result<Value, CallError> {
    let work = measure_work(skill, schema, &value)?;
    if schema.validator.is_valid(&value) {
        return Ok(value.into_owned());
    }
    let unfit = |pointer: &str, expected: String, got: String, is_surplus: bool| CallError::Arguments {
        skill: skill.to_owned(),
        pointer: pointer.to_owned(),
        expected,
        got,
        is_surplus,
    };
    // Errors hold more data than the validation itself needs: above this limit, none are collected.
    if work > SCHEMA_ERROR_WORK_MAX {
        return Err(unfit(
            "",
            "what its schema describes".to_owned(),
            describe_value(&value),
            false,
        ));
    }
    // The innermost of several errors helps: an outer one only says that some part did not fit. Of two at the same
    // depth, the one with a suggestion is taken.
    let errors = schema.validator.iter_errors(&value);
    let errors = errors.map(|error| (suggest_name(&error, &schema.source), error));
    Err(
        match errors.max_by_key(|(meant, error)| (pointer_depth(error), meant.is_some())) {
            Some((meant, error)) => {
                let expected = match meant {
                    Some(name) => format!(
                        "{} (did you mean `{}`?)",
                        describe_expected(&error),
                        shorten_text(&name)
                    ),
                    None => describe_expected(&error),
                };
                unfit(
                    error.instance_path().as_str(),
                    expected,
                    describe_given(&error),
                    is_surplus(&error),
                )
            }
            None => unfit(
                "",
                "what its schema describes".to_owned(),
                describe_value(&value),
                false,
            ),
        },
    )
}

fn too_large(skill: &str, limit: impl Into<String>) -> CallError {
    CallError::Limit {
        skill: skill.to_owned(),
        limit: limit.into(),
        kind: ErrorKind::ArgumentsLimit,
    }
}

fn parse<'a>(skill: &str, arguments: &RawArguments<'a>) -> Result<Cow<'a, Value>, CallError> {
    let unfit = |got: String| CallError::Arguments {
        skill: skill.to_owned(),
        pointer: String::new(),
        expected: "a JSON object".to_owned(),
        got,
        is_surplus: false,
    };
    if let RawArguments::Text(text) = arguments
        && text.len() > ARGUMENT_BYTES_MAX
    {
        let size = format_bytes(ARGUMENT_BYTES_MAX as u64);
        return Err(too_large(skill, format!("{size} of arguments")));
    }
    let value = match arguments {
        RawArguments::Value(value) => Cow::Borrowed(*value),
        RawArguments::Text(text) if text.trim().is_empty() => Cow::Owned(Value::Object(Map::new())),
        RawArguments::Text(text) => {
            Cow::Owned(serde_json::from_str(text).map_err(|error| unfit(format!("other text ({error})")))?)
        }
    };
    if value.is_object() {
        Ok(value)
    } else {
        Err(unfit(describe_value(&value)))
    }
}

fn pointer_depth(error: &ValidationError<'_>) -> usize {
    error.instance_path().as_str().matches('/').count()
}

/// Suggests the known name that is nearest to an unknown one: of a field, or of a choice.
fn suggest_name(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    match (error.kind(), error.instance().as_ref()) {
        (ValidationErrorKind::AdditionalProperties { unexpected }, _) => {
            // Schema path of the keyword, with references followed.
            let (holder, _) = error.schema_path().as_str().rsplit_once('/')?;
            let fields = schema.pointer(holder)?.get("properties")?.as_object()?;
            nearest_name(unexpected.first()?, fields.keys().map(String::as_str)).map(str::to_owned)
        }
        (ValidationErrorKind::Enum { options }, Value::String(given)) => {
            let options = options.as_array()?.iter().filter_map(Value::as_str);
            nearest_name(given, options).map(str::to_owned)
        }
        _ => None,
    }
}

fn describe_expected(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type {
            kind: TypeKind::Single(kind),
        } => name_type(*kind).to_owned(),
        Kind::Type {
            kind: TypeKind::Multiple(kinds),
        } => kinds.iter().map(name_type).collect::<Vec<_>>().join(" or "),
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

/// True for an error about a field that the schema does not have.
fn is_surplus(error: &ValidationError<'_>) -> bool {
    matches!(
        error.kind(),
        ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::UnevaluatedProperties { .. }
    )
}

fn describe_given(error: &ValidationError<'_>) -> String {
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
            format!("the {noun} {}", shorten_text(&names.join(", ")))
        }
        (_, value) => describe_value(value),
    }
}

fn name_type(kind: JsonType) -> &'static str {
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

fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.is_empty() => "an empty string".to_owned(),
        Value::String(text) => format!("the string \"{}\"", shorten_text(text)),
        Value::Array(elements) => format!("an array of {}", elements.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn shorten_text(text: &str) -> String {
    let cleaned = clean_text(text);
    let cut = truncate_text(&cleaned, SHOWN_BYTES_MAX);
    let dots = if cut.len() < cleaned.len() { "…" } else { "" };
    format!("{cut}{dots}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        compile_schema(&json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "mode": {"enum": ["fast", "slow"]},
                "edits": {"type": "array", "items": {
                    "type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                    "required": ["old"], "additionalProperties": false}},
                "name": {"type": "string", "pattern": "^[a-z]+$"},
                "more": {"$ref": "#/$defs/more"},
            },
            "required": ["path"],
            "additionalProperties": false,
            "$defs": {"more": {
                "type": "object", "properties": {"from": {"type": "integer"}}, "additionalProperties": false}},
        }))
        .expect("the schema is valid")
    }

    fn refused(arguments: &str) -> String {
        check_arguments("demo", &schema(), &RawArguments::Text(arguments))
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
            r#"{"path": "a", "mode": "slwo"}"#,
            r#"{"path": "a", "edits": [{"old": "x"}, {"old": null}]}"#,
            r#"{"path": "a", "edits": [{}]}"#,
            r#"{"path": "a", "edits": [{"old": "x", "nwe": "y"}]}"#,
            r#"{"path": "a", "more": {"fro": 1}}"#,
            r#"{"pth": "a"}"#,
            r#"{"path": "a", "file": "b"}"#,
            r#"{"path": "a", "edit": []}"#,
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
        Invalid arguments for `demo` at `/mode`: expected one of "fast", "slow" (did you mean `slow`?), got the string "slwo".
        Invalid arguments for `demo` at `/edits/1/old`: expected a string, got null.
        Invalid arguments for `demo` at `/edits/0`: expected the field `old`, got no field.
        Invalid arguments for `demo` at `/edits/0`: expected no field `nwe` (did you mean `new`?).
        Invalid arguments for `demo` at `/more`: expected no field `fro` (did you mean `from`?).
        Invalid arguments for `demo`: expected no field `pth` (did you mean `path`?).
        Invalid arguments for `demo`: expected no field `file`.
        Invalid arguments for `demo`: expected no field `edit` (did you mean `edits`?).
        Invalid arguments for `demo` at `/name`: expected text that matches `^[a-z]+$`, got the string "A".
        "#);
    }

    #[test]
    fn an_empty_text_is_an_empty_object() {
        let free = compile_schema(&json!({"type": "object"})).expect("the schema is valid");
        let value = check_arguments("demo", &free, &RawArguments::Text(" \n")).expect("nothing is required");
        assert_eq!(value, json!({}));
    }

    #[test]
    fn a_schema_must_be_of_an_object_and_may_not_reach_out() {
        assert!(compile_schema(&json!({"type": "string"})).is_err());
        assert!(compile_schema(&json!({"type": "object", "properties": {"a": {"type": "strong"}}})).is_err());
        assert!(compile_schema(&json!({"type": "object", "$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(compile_schema(&json!({"type": "object", "$ref": "file:///etc/passwd"})).is_err());
    }

    #[test]
    fn arguments_are_bounded_in_bytes_and_in_the_work_that_they_make() {
        let limit = |schema: &Schema, text: &str| {
            let error = check_arguments("demo", schema, &RawArguments::Text(text)).expect_err("it is too much");
            (error.verdict().to_owned(), error.to_string())
        };
        let free = compile_schema(&json!({"type": "object"})).expect("the schema is valid");
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(ARGUMENT_BYTES_MAX));
        let said = "The skill `demo` was stopped: it exceeded its limit of 2 MiB of arguments.";
        assert_eq!(limit(&free, &long), ("arguments".to_owned(), said.to_owned()));
        let options: Vec<Value> = (0..2_000).map(|number| json!({"const": number})).collect();
        let choosy = compile_schema(&json!({"type": "object", "additionalProperties": {"items": {"anyOf": options}}}));
        let choosy = choosy.expect("the schema is valid");
        let none = |count: u64| json!({"a": vec![-1; usize::try_from(count).unwrap_or_default()]}).to_string();
        let (verdict, said) = limit(&choosy, &none(SCHEMA_WORK_MAX / choosy.parts));
        assert_eq!(verdict, "arguments", "{said}");
        let (verdict, said) = limit(&choosy, &none(2 * SCHEMA_ERROR_WORK_MAX / choosy.parts));
        assert_eq!(verdict, "invalid-arguments");
        assert_eq!(
            said,
            "Invalid arguments for `demo`: expected what its schema describes, got an object."
        );
        let (_, said) = limit(&choosy, &none(1));
        assert_eq!(
            said,
            "Invalid arguments for `demo` at `/a/0`: expected a value that satisfies `anyOf` of the schema, got the number -1."
        );
    }

    #[test]
    fn a_pattern_that_is_large_when_compiled_is_refused() {
        let with =
            |pattern: &str| compile_schema(&json!({"type": "object", "properties": {"a": {"pattern": pattern}}}));
        with("^[a-z_]{1,64}$").expect("it is small");
        with("(\\w{1,100}){1,100}").expect_err("SCHEMA_PATTERN_BYTES_MAX");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered(text in "\\PC{0,64}|[\\[\\]{}\":,0-9a-z ]{0,64}") {
            if let Err(error) = check_arguments("demo", &schema(), &RawArguments::Text(&text)) {
                prop_assert!(error.to_string().len() < 1_000);
            }
        }
    }
}
