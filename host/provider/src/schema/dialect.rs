//! Parameter schemas in the dialect of generateContent: a part of OpenAPI 3.0, with types in capitals.
//!
//! The wire refuses a request whole for one field that it does not know, so what passes is listed, and everything else
//! is left out. References are put in place of themselves; the description holds what the dialect cannot express.

use serde_json::{Map, Value, json};

use super::{DEPTH_MAX, plain_object};

/// The parameters of a declared function; nothing where it takes none, since the wire refuses an object without
/// properties.
pub(crate) fn declared_parameters(schema: &Value) -> Option<Value> {
    let converted = convert_schema(&plain_object(schema), schema, DEPTH_MAX);
    converted.as_object().is_some_and(has_properties).then_some(converted)
}

/// One schema, its references looked up in `root`. Below the bound of depth anything is a string.
fn convert_schema(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(fields) = schema.as_object().filter(|_| depth > 0) else {
        return json!({"type": "STRING"});
    };
    if let Some(branch) = find_alternative(fields, root) {
        let mut merged = with_description_of(branch.clone(), fields);
        if has_null(fields) {
            merged["nullable"] = json!(true);
        }
        let nullable = merged["nullable"].take();
        let mut value = convert_schema(&merged, root, depth - 1);
        if nullable == true {
            value["nullable"] = nullable;
        }
        return value;
    }
    let mut out = Map::new();
    let kind = wire_type(fields);
    let mut description = fields
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match list_branches(fields) {
        branches if branches.len() > 1 && kind.is_none() => {
            let branches = branches.iter().map(|branch| convert_schema(branch, root, depth - 1));
            out.insert("anyOf".into(), branches.collect());
        }
        _ => {
            let kind = match kind {
                // The wire refuses an object without properties.
                Some("OBJECT") if !has_properties(fields) => {
                    description = format!("{description} A JSON object as text.").trim_start().to_owned();
                    "STRING"
                }
                kind => kind.unwrap_or("STRING"),
            };
            out.insert("type".into(), json!(kind));
            convert_choices(fields, kind, &mut out, &mut description);
            keep_bounds(fields, kind, &mut out);
            match kind {
                "ARRAY" => {
                    let items = fields.get("items").or_else(|| fields.get("prefixItems")?.get(0));
                    out.insert(
                        "items".into(),
                        convert_schema(items.unwrap_or(&Value::Null), root, depth - 1),
                    );
                }
                "OBJECT" => keep_properties(fields, root, depth, &mut out),
                _ => {}
            }
        }
    }
    if has_null(fields) {
        out.insert("nullable".into(), json!(true));
    }
    if !description.is_empty() {
        out.insert("description".into(), json!(description));
    }
    Value::Object(out)
}

/// The schema that replaces this one: what it refers to, or the only branch of a union.
fn find_alternative<'v>(fields: &'v Map<String, Value>, root: &'v Value) -> Option<&'v Value> {
    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
        return root.pointer(reference.strip_prefix('#')?);
    }
    match list_branches(fields)[..] {
        [only] if wire_type(fields).is_none() => Some(only),
        _ => None,
    }
}

fn with_description_of(schema: Value, outer: &Map<String, Value>) -> Value {
    match (schema, outer.get("description")) {
        (Value::Object(mut fields), Some(description)) => {
            fields.insert("description".into(), description.clone());
            Value::Object(fields)
        }
        (schema @ Value::Object(_), None) => schema,
        _ => json!({}),
    }
}

/// The branches of a union that are not null.
fn list_branches(fields: &Map<String, Value>) -> Vec<&Value> {
    let unions = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| fields.get(key)?.as_array());
    unions.flatten().filter(|branch| branch["type"] != "null").collect()
}

fn has_properties(fields: &Map<String, Value>) -> bool {
    let properties = fields.get("properties").and_then(Value::as_object);
    properties.is_some_and(|properties| !properties.is_empty())
}

/// The type in the wire's words: the first that is not null.
fn wire_type(fields: &Map<String, Value>) -> Option<&'static str> {
    let names = match fields.get("type") {
        Some(Value::Array(names)) => names.iter().collect(),
        Some(name) => vec![name],
        None if fields.contains_key("properties") => return Some("OBJECT"),
        None if fields.contains_key("items") => return Some("ARRAY"),
        None if fields.contains_key("enum") || fields.contains_key("const") => return Some(kind_of_choices(fields)),
        None => vec![],
    };
    names.into_iter().find_map(|name| match name.as_str()? {
        "string" => Some("STRING"),
        "integer" => Some("INTEGER"),
        "number" => Some("NUMBER"),
        "boolean" => Some("BOOLEAN"),
        "array" => Some("ARRAY"),
        "object" => Some("OBJECT"),
        _ => None,
    })
}

fn kind_of_choices(fields: &Map<String, Value>) -> &'static str {
    match all_choices(fields).first() {
        Some(Value::Number(number)) if number.is_f64() => "NUMBER",
        Some(Value::Number(_)) => "INTEGER",
        Some(Value::Bool(_)) => "BOOLEAN",
        _ => "STRING",
    }
}

fn has_null(fields: &Map<String, Value>) -> bool {
    let types = fields.get("type").and_then(Value::as_array).into_iter().flatten();
    let unions = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| fields.get(key)?.as_array())
        .flatten();
    types
        .chain(unions.filter_map(|branch| branch.get("type")))
        .any(|name| name == "null")
        || fields.get("nullable") == Some(&json!(true))
        || fields
            .get("enum")
            .and_then(Value::as_array)
            .is_some_and(|choices| choices.contains(&Value::Null))
}

fn all_choices(fields: &Map<String, Value>) -> Vec<&Value> {
    let listed = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
    listed
        .chain(fields.get("const"))
        .filter(|choice| !choice.is_null())
        .collect()
}

/// Choices are strings on this wire; those of another type are named in the description.
fn convert_choices(fields: &Map<String, Value>, kind: &str, out: &mut Map<String, Value>, description: &mut String) {
    let choices = all_choices(fields);
    if choices.is_empty() {
        return;
    }
    if kind == "STRING"
        && choices
            .iter()
            .all(|choice| choice.as_str().is_some_and(|text| !text.is_empty()))
    {
        out.insert("enum".into(), choices.into_iter().cloned().collect());
        return;
    }
    let named: Vec<String> = choices.iter().map(ToString::to_string).collect();
    let sentence = format!("One of: {}.", named.join(", "));
    *description = match description.as_str() {
        "" => sentence,
        before => format!("{before} {sentence}"),
    };
}

fn keep_bounds(fields: &Map<String, Value>, kind: &str, out: &mut Map<String, Value>) {
    let (bounds, formats): (&[&str], &[&str]) = match kind {
        "STRING" => (&["minLength", "maxLength", "pattern"], &["date-time"]),
        "INTEGER" => (&["minimum", "maximum"], &["int32", "int64"]),
        "NUMBER" => (&["minimum", "maximum"], &["float", "double"]),
        "ARRAY" => (&["minItems", "maxItems"], &[]),
        _ => (&[], &[]),
    };
    for key in bounds {
        if let Some(value) = fields.get(*key) {
            out.insert((*key).into(), value.clone());
        }
    }
    let format = fields.get("format").and_then(Value::as_str);
    if let Some(format) = format.filter(|format| formats.contains(format)) {
        out.insert("format".into(), json!(format));
    }
}

fn keep_properties(fields: &Map<String, Value>, root: &Value, depth: usize, out: &mut Map<String, Value>) {
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else {
        return;
    };
    let converted: Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| (name.clone(), convert_schema(schema, root, depth - 1)))
        .collect();
    let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_known = |name: &&Value| name.as_str().is_some_and(|name| converted.contains_key(name));
    let required: Vec<Value> = required.filter(is_known).cloned().collect();
    if !required.is_empty() {
        out.insert("required".into(), required.into());
    }
    out.insert("properties".into(), Value::Object(converted));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(schema: Value) -> Value {
        let whole = json!({"type": "object", "properties": {"p": schema}});
        declared_parameters(&whole).expect("it has a property")["properties"]["p"].clone()
    }

    #[test]
    fn generate_content_19_schemas_are_in_the_wires_dialect() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Arguments",
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "absent"],
            "properties": {
                "path": {"type": "string", "description": "A path.", "minLength": 1, "default": "."},
                "limit": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 9, "format": "uint32"},
                "edits": {"type": "array", "minItems": 1, "items": {
                    "type": "object", "additionalProperties": false, "required": ["old"],
                    "properties": {"old": {"type": "string"}, "deep": {"type": "array"}},
                }},
            },
        });
        let expected = json!({
            "type": "OBJECT",
            "required": ["path"],
            "properties": {
                "path": {"type": "STRING", "minLength": 1, "description": "A path."},
                "limit": {"type": "INTEGER", "minimum": 1, "nullable": true},
                "edits": {"type": "ARRAY", "minItems": 1, "items": {
                    "type": "OBJECT", "required": ["old"],
                    "properties": {"old": {"type": "STRING"}, "deep": {"type": "ARRAY", "items": {"type": "STRING"}}},
                }},
            },
        });
        assert_eq!(declared_parameters(&schema), Some(expected));
    }

    #[test]
    fn generate_content_19_a_function_without_parameters_declares_none() {
        for schema in [json!({}), json!(null), json!({"type": "object", "properties": {}})] {
            assert_eq!(declared_parameters(&schema), None, "{schema}");
        }
    }

    #[test]
    fn generate_content_19_choices_are_strings() {
        let text = property(json!({"enum": ["a", "b", null], "format": "enum"}));
        assert_eq!(text, json!({"type": "STRING", "enum": ["a", "b"], "nullable": true}));
        assert_eq!(
            property(json!({"const": "a"})),
            json!({"type": "STRING", "enum": ["a"]})
        );
        let numbers = property(json!({"type": "integer", "enum": [1, 2], "description": "How many."}));
        assert_eq!(
            numbers,
            json!({"type": "INTEGER", "description": "How many. One of: 1, 2."})
        );
    }

    #[test]
    fn generate_content_19_unions_and_references_are_said_without_them() {
        let nullable = json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "D."});
        assert_eq!(
            property(nullable),
            json!({"type": "STRING", "nullable": true, "description": "D."})
        );
        let either = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
        assert_eq!(
            property(either),
            json!({"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]})
        );
        let schema = json!({
            "type": "object",
            "$defs": {"place": {"type": "object", "properties": {"again": {"$ref": "#/$defs/place"}}}},
            "properties": {"at": {"$ref": "#/$defs/place"}, "lost": {"$ref": "#/$defs/none"}},
        });
        let text = declared_parameters(&schema).expect("it has properties").to_string();
        assert!(!text.contains('$'), "{text}");
        assert!(text.contains(r#""lost":{"type":"STRING"}"#), "{text}");
    }
}
