//! Reduces parameter schemas to the subset that every model server accepts.
//!
//! Servers turn a schema into a grammar, and many refuse what JSON Schema allows: lists of types, unions at the top, a
//! missing `properties`. A keyword that is dropped here only tells the model less; the host still validates every call.

mod dialect;

use serde_json::{Map, Value, json};

pub(super) use dialect::declared_parameters;

/// Levels of a schema that are inspected; deeper ones are left unchanged.
const DEPTH_MAX: usize = 16;

/// The schema of a tool's parameters with `type: object`, `properties` and `required`, without lists of types and
/// without a union at the top.
pub(super) fn plain_parameters(schema: &Value) -> Value {
    let mut value = plain_object(schema);
    simplify_types(&mut value, DEPTH_MAX);
    value
}

/// Converts any schema to one of a single object.
fn plain_object(schema: &Value) -> Value {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    for union in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(branches)) = fields.remove(union) {
            merge_properties(&mut fields, &branches);
        }
    }
    for refused in ["$schema", "$id", "$comment", "not", "if", "then", "else"] {
        fields.remove(refused);
    }
    fields.insert("type".into(), json!("object"));
    for (key, empty) in [("properties", json!({})), ("required", json!([]))] {
        fields.entry(key).or_insert(empty);
    }
    Value::Object(fields)
}

/// Offers every property that a branch names. A property that only one branch requires is not required.
fn merge_properties(fields: &mut Map<String, Value>, branches: &[Value]) {
    let offered = branches
        .iter()
        .filter_map(|branch| branch.get("properties")?.as_object());
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    for (name, schema) in offered.flatten() {
        properties.entry(name.clone()).or_insert_with(|| schema.clone());
    }
}

/// Replaces lists of types by their first real type, everywhere.
fn simplify_types(value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get("type") {
                let first = types
                    .iter()
                    .find(|name| name.as_str().is_some_and(|name| name != "null"));
                let first = first.or(types.first()).cloned().unwrap_or_else(|| json!("string"));
                fields.insert("type".into(), first);
            }
            fields.values_mut().for_each(|inner| simplify_types(inner, depth - 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| simplify_types(inner, depth - 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_18_schemas_have_type_properties_and_required() {
        let expected = json!({"type": "object", "properties": {}, "required": []});
        for schema in [json!({}), json!(null), json!(true), json!({"type": ["object", "null"]})] {
            assert_eq!(plain_parameters(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn chat_18_schemas_lose_type_lists_and_top_level_unions() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"path": {"type": ["string", "null"], "description": "A path."}},
            "required": ["path"],
            "additionalProperties": false,
            "oneOf": [
                {"properties": {"content": {"type": "string"}}, "required": ["content"]},
                {"properties": {"edits": {"type": "array", "items": {"type": ["object"]}}}, "required": ["edits"]},
            ],
        });
        assert_eq!(
            plain_parameters(&schema),
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "A path."},
                    "content": {"type": "string"},
                    "edits": {"type": "array", "items": {"type": "object"}},
                },
                "required": ["path"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn chat_18_a_property_named_type_is_left_alone() {
        let schema = json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["a"]}}});
        assert_eq!(plain_parameters(&schema)["properties"], schema["properties"]);
    }
}
