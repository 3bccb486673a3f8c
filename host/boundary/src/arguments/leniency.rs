//! Corrects arguments before validation if their meaning is clear.
//!
//! Models, above all small ones, write numbers and booleans as strings, null for a field that they want to leave out,
//! one value instead of a list, and absolute paths. A value is corrected only if the schema does not allow its type: a
//! field that may be any string keeps its string. Paths are the exception; a schema marks them with `"format": "path"`,
//! on a string or on an array of strings.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Schema, shorten_text, weight};
use crate::arguments::SCHEMA_WORK_MAX;
use tool_repository::path;

/// Corrections that a receipt lists.
const CHANGES_MAX: usize = 20;

/// Value of `format` that marks a path within the repository.
const PATH: &str = "path";

/// Corrects arguments in place. Returns a sentence for each correction, with the JSON pointer of its value, and the
/// pointers of all paths.
pub(super) fn correct_arguments(schema: &Schema, arguments: &mut Value, root: &Path) -> (Vec<String>, Vec<String>) {
    let mut reader = LenientReader {
        schema,
        root,
        changes: Vec::new(),
        paths: Vec::new(),
    };
    reader.read(&schema.source, arguments, "");
    (reader.changes, reader.paths)
}

/// Removes the marks of paths from a schema. They mean nothing to a model, and some servers refuse a format that they
/// do not know.
pub fn strip_path_marks(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let is_mark = |(name, value): &(&String, &Value)| *name == "format" && value.as_str() == Some(PATH);
            let kept = fields.iter().filter(|field| !is_mark(field));
            Value::Object(
                kept.map(|(name, value)| (name.clone(), strip_path_marks(value)))
                    .collect(),
            )
        }
        Value::Array(elements) => Value::Array(elements.iter().map(strip_path_marks).collect()),
        value => value.clone(),
    }
}

/// JSON types as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const INTEGER: Self = Self(4);
    const NUMBER: Self = Self(8 | 4);
    const STRING: Self = Self(16);
    const ARRAY: Self = Self(32);
    const OBJECT: Self = Self(64);
    const ALL: Self = Self(127);

    fn from_name(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ALL,
        }
    }

    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self(8),
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn union(all: impl Iterator<Item = Self>) -> Self {
        Self(all.fold(0, |union, types| union | types.0))
    }
}

struct LenientReader<'a> {
    schema: &'a Schema,
    root: &'a Path,
    changes: Vec<String>,
    paths: Vec<String>,
}

impl<'a> LenientReader<'a> {
    fn read(&mut self, part: &'a Value, value: &mut Value, at: &str) {
        if let Some((meant, how)) = self.meant(part, value) {
            *value = meant;
            self.note(at, &how);
        }
        let part = self.resolve(part);
        match value {
            Value::Object(fields) => self.read_fields(part, fields, at),
            Value::Array(elements) => {
                let items = part.get("items");
                for (index, element) in elements.iter_mut().enumerate() {
                    let at = format!("{at}/{index}");
                    if let Some(items) = items {
                        self.read(items, element, &at);
                    }
                    if is_marked(part) {
                        self.read_path(element, &at);
                    }
                }
            }
            Value::String(_) if is_marked(part) => self.read_path(value, at),
            _ => {}
        }
    }

    fn read_fields(&mut self, part: &'a Value, fields: &mut Map<String, Value>, at: &str) {
        let known = part.get("properties").and_then(Value::as_object);
        let required = part.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let is_absent = |name: &str, value: &Value| {
            let field = known.and_then(|known| known.get(name));
            value.is_null() && !is_required(name) && field.is_some_and(|field| !self.types(field).has(Types::NULL))
        };
        let absent: Vec<String> = fields
            .iter()
            .filter(|(name, value)| is_absent(name, value))
            .map(|(name, _)| name.clone())
            .collect();
        for name in absent {
            fields.shift_remove(&name);
            self.note(&join_pointer(at, &name), "null, taken as absent");
        }
        let others = part.get("additionalProperties");
        for (name, value) in fields {
            let field = known.and_then(|known| known.get(name)).or(others);
            if let Some(field) = field.filter(|field| field.is_object()) {
                self.read(field, value, &join_pointer(at, name));
            }
        }
    }

    /// Returns the corrected form of a value whose type is not allowed here, and a description of the correction.
    fn meant(&self, part: &'a Value, value: &Value) -> Option<(Value, String)> {
        let allowed = self.types(part);
        if allowed.has(Types::from_value(value)) {
            return None;
        }
        let scalar = match value {
            Value::String(text) => self.meant_by_text(allowed, text.trim()),
            Value::Number(number) if allowed.has(Types::INTEGER) => to_whole_number(number.as_f64()?),
            _ => None,
        };
        if let Some(scalar) = scalar {
            let how = match &scalar {
                Value::Array(_) | Value::Object(_) => "the JSON in a text, read as what it stands for".to_owned(),
                scalar => format!("read as {}", super::describe_value(scalar)),
            };
            return Some((scalar, how));
        }
        if !allowed.has(Types::ARRAY) || matches!(value, Value::Null | Value::Array(_)) {
            return None;
        }
        let items = self.resolve(part).get("items")?;
        let fits = self.types(items).has(Types::from_value(value)) || self.meant(items, value).is_some();
        fits.then(|| (Value::Array(vec![value.clone()]), "read as a list of one".to_owned()))
    }

    /// Reads the number, boolean, list or object that is written in a string.
    fn meant_by_text(&self, allowed: Types, text: &str) -> Option<Value> {
        if allowed.has(Types::BOOLEAN) && ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Some(Value::Bool(text.eq_ignore_ascii_case("true")));
        }
        if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '[' | '{')) {
            return None;
        }
        let parsed: Value = serde_json::from_str(text).ok()?;
        // The work was bounded for the string; the value that it contains may be larger.
        if weight::of_value(&parsed).saturating_mul(self.schema.parts) > SCHEMA_WORK_MAX {
            return None;
        }
        match &parsed {
            Value::Number(number) if !allowed.has(Types::from_value(&parsed)) => {
                to_whole_number(number.as_f64()?).filter(|_| allowed.has(Types::INTEGER))
            }
            parsed_value if allowed.has(Types::from_value(parsed_value)) => Some(parsed),
            _ => None,
        }
    }

    /// Makes an absolute path, or one with `..`, relative to the root, if it is inside the root.
    fn read_path(&mut self, value: &mut Value, at: &str) {
        let Value::String(text) = value else { return };
        self.paths.push(at.to_owned());
        // Runners name a test within a file as `file::test`.
        let (place, test) = text.split_at(text.find("::").unwrap_or(text.len()));
        if !place.starts_with('/') && !place.split('/').any(|name| name == "..") {
            return;
        }
        let Some(mut inside) = path::normalise_inside(self.root, place) else {
            return;
        };
        if inside.is_empty() {
            inside.push('.');
        } else if place.ends_with('/') {
            inside.push('/');
        }
        inside.push_str(test);
        *text = inside;
        let how = format!("read as the path `{}`", shorten_text(text));
        self.note(at, &how);
    }

    fn note(&mut self, at: &str, how: &str) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(format!("`{}`: {how}", shorten_text(at)));
        }
    }

    /// The types that a part allows.
    fn types(&self, part: &'a Value) -> Types {
        let part = self.follow(part);
        match part.get("type") {
            Some(Value::String(name)) => return Types::from_name(name),
            Some(Value::Array(names)) => {
                return Types::union(names.iter().filter_map(Value::as_str).map(Types::from_name));
            }
            _ => {}
        }
        if let Some(only) = part.get("const") {
            return Types::from_value(only);
        }
        if let Some(options) = part.get("enum").and_then(Value::as_array) {
            return Types::union(options.iter().map(Types::from_value));
        }
        match list_branches(part) {
            Some(branches) => Types::union(branches.iter().map(|branch| self.types(branch))),
            None => Types::ALL,
        }
    }

    /// Follows references, and takes the part `T` of `T or null`.
    fn resolve(&self, part: &'a Value) -> &'a Value {
        let part = self.follow(part);
        let is_null = |branch: &Value| branch.get("type").and_then(Value::as_str) == Some("null");
        match list_branches(part) {
            Some([one, other]) if is_null(other) => self.resolve(one),
            Some([other, one]) if is_null(other) => self.resolve(one),
            _ => part,
        }
    }

    /// Follows references. `weight` has refused schemas whose references form a cycle.
    fn follow(&self, mut part: &'a Value) -> &'a Value {
        while let Some(target) = part.get("$ref").and_then(Value::as_str) {
            let target = target
                .strip_prefix('#')
                .and_then(|pointer| self.schema.source.pointer(pointer));
            match target {
                Some(target) => part = target,
                None => break,
            }
        }
        part
    }
}

fn list_branches(part: &Value) -> Option<&[Value]> {
    let branches = part.get("anyOf").or(part.get("oneOf"))?;
    branches.as_array().map(Vec::as_slice)
}

/// The JSON pointer of a field.
fn join_pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn is_marked(part: &Value) -> bool {
    part.get("format").and_then(Value::as_str) == Some(PATH)
}

/// Converts a number without a fraction to an integer.
fn to_whole_number(number: f64) -> Option<Value> {
    // Above 2^53, neighbouring integers are the same `f64`.
    let is_whole = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    is_whole.then(|| Value::from(number as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{CheckedArguments, check_arguments, check_call, compile_schema};
    use super::*;
    use crate::RawArguments;

    fn schema() -> Schema {
        compile_schema(&json!({
            "type": "object",
            "properties": {
                "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "ratio": {"type": "number"},
                "name": {"type": ["string", "null"]},
                "key": {"type": ["string", "integer"]},
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "content": {"type": "string"},
                "place": {"type": ["string", "null"], "format": "path"},
                "places": {"type": "array", "format": "path", "items": {"type": "string"}},
                "a/b~": {"type": "string", "format": "path"},
            },
            "additionalProperties": {"type": "boolean"},
            "$defs": {"item": {"type": "integer"}},
        }))
        .expect("the schema is valid")
    }

    fn correct_arguments(arguments: &Value) -> Option<CheckedArguments> {
        check_call("demo", &schema(), &RawArguments::Value(arguments), Path::new("/shop")).ok()
    }

    #[test]
    fn the_paths_of_a_call_are_those_that_the_schema_marks() {
        let given = json!({"place": "a", "places": ["b", "c"], "a/b~": "d", "name": "e", "content": "f"});
        let read = correct_arguments(&given).expect("it is accepted");
        let found = read
            .paths
            .iter()
            .map(|path| read.value.pointer(path).expect("it is there"));
        let mut found: Vec<&str> = found.filter_map(Value::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_value_is_read_otherwise_only_where_its_own_type_is_not_allowed() {
        for (given, meant, changes) in [
            (json!({"count": "5"}), json!({"count": 5}), 1),
            (
                json!({"count": null, "name": null}),
                json!({"count": null, "name": null}),
                0,
            ),
            (json!({"ratio": "0.5"}), json!({"ratio": 0.5}), 1),
            (json!({"name": "5", "key": "5"}), json!({"name": "5", "key": "5"}), 0),
            (json!({"content": "5", "key": 5}), json!({"content": "5", "key": 5}), 0),
            (json!({"list": "5"}), json!({"list": [5]}), 2),
            (json!({"list": "[\"5\", 6]"}), json!({"list": [5, 6]}), 2),
            (json!({"list": ["5", 6.0]}), json!({"list": [5, 6]}), 2),
            (json!({"further": "TRUE"}), json!({"further": true}), 1),
            (json!({"place": "/shop/a/../b"}), json!({"place": "b"}), 1),
            (
                json!({"place": "./b", "content": "/shop/b"}),
                json!({"place": "./b", "content": "/shop/b"}),
                0,
            ),
            (
                json!({"places": "/shop/t.py::T::test_a[x/../y]"}),
                json!({"places": ["t.py::T::test_a[x/../y]"]}),
                2,
            ),
            (json!({"place": "/shop2/a"}), json!({"place": "/shop2/a"}), 0),
            (json!({"place": "../shop/a"}), json!({"place": "../shop/a"}), 0),
        ] {
            let read = correct_arguments(&given).expect("it is accepted");
            assert_eq!(
                (&read.value, read.changes.len()),
                (&meant, changes),
                "{given}: {:?}",
                read.changes
            );
        }
        for refused in [
            json!({"count": "five"}),
            json!({"count": "5.5"}),
            json!({"count": ["5"]}),
            json!({"list": [null]}),
            json!({"content": null, "list": {}}),
            json!({"further": 1}),
        ] {
            assert!(correct_arguments(&refused).is_none(), "{refused}");
        }
    }

    #[test]
    fn a_model_sees_no_mark() {
        let plain =
            strip_path_marks(&json!({"format": "path", "properties": {"format": {"type": "string", "format": "uri"}}}));
        assert_eq!(
            plain,
            json!({"properties": {"format": {"type": "string", "format": "uri"}}})
        );
    }

    proptest! {
        #[test]
        fn what_is_accepted_satisfies_the_schema_and_is_read_once(
            count in "null|\"[0-9.e]{1,4}\"|[0-9]{1,3}",
            list in "null|\"\\[?[0-9,]{1,4}\\]?\"|\\[[0-9]\\]",
            place in "[a.]{1,2}(/[a.]{1,2}){0,4}|/shop(/[a.]{1,2}){0,4}",
        ) {
            let text = format!("{{\"count\":{count},\"list\":{list},\"place\":\"{place}\"}}");
            let (schema, root) = (schema(), Path::new("/shop"));
            if let Ok(read) = check_call("demo", &schema, &RawArguments::Text(&text), root) {
                let again = check_call("demo", &schema, &RawArguments::Value(&read.value), root).expect("it fits");
                prop_assert!(again.changes.is_empty() && again.value == read.value, "{:?}", again.changes);
                prop_assert!(check_arguments("demo", &schema, &RawArguments::Value(&read.value)).is_ok());
            }
        }
    }
}
