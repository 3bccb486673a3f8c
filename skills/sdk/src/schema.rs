//! The JSON Schema of a struct of arguments, in the form that models read best.
//!
//! The schema that schemars derives is correct, but says more than a model needs. This module converts it to the form
//! of the built-in skills: everything in place instead of by reference, one type for each property, no titles, and no
//! additional properties, so that the host can answer a misspelt field with the nearest name.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

type Schema = Map<String, Value>;

/// Returns the schema of a type (JSON Schema 2020-12).
///
/// ```
/// use schemars::JsonSchema;
///
/// #[derive(JsonSchema)]
/// struct Arguments {
///     /// First line, from 1.
///     line: u32,
/// }
///
/// let schema = skill_sdk::schema::of::<Arguments>();
/// assert_eq!(schema["properties"]["line"]["description"], "First line, from 1.");
/// ```
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    if let Value::Object(top) = &mut schema {
        // People read the description of the struct; the model reads the description of the skill.
        top.remove("description");
        top.entry("properties").or_insert_with(|| json!({}));
        top.entry("required").or_insert_with(|| json!([]));
        tidy_schema(top);
    }
    schema
}

/// Converts a schema and all schemas in it.
fn tidy_schema(schema: &mut Schema) {
    schema.remove("title");
    tidy_description(schema);
    tidy_properties(schema);
    for place in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(place) {
            tidy_schema(inner);
        }
    }
    for place in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for inner in schema
            .get_mut(place)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            inner.as_object_mut().into_iter().for_each(tidy_schema);
        }
    }
    for inner in schema
        .get_mut("$defs")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        inner.1.as_object_mut().into_iter().for_each(tidy_schema);
    }
    join_choices(schema);
    drop_noise(schema);
    order_keys(schema);
}

/// Joins the lines of a paragraph: a doc comment wraps its lines.
fn tidy_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
        *text = paragraphs.join("\n\n");
    }
}

fn tidy_properties(schema: &mut Schema) {
    let required: Vec<String> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for (name, property) in properties.iter_mut() {
        let Value::Object(property) = property else { continue };
        if !required.contains(name) {
            drop_null(property);
        }
        tidy_schema(property);
    }
    schema.entry("additionalProperties").or_insert(Value::Bool(false));
}

/// Removes `null` from the types of an optional field. It may be left out, and some providers accept only one type
/// for each property.
fn drop_null(property: &mut Schema) {
    if let Some(Value::Array(kinds)) = property.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            property.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(options)) = property.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    let Some(Value::Array(branches)) = property.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = branches.as_slice() {
        let only = only.clone();
        property.remove("anyOf");
        // The description of the field takes precedence over that of its type.
        for (key, value) in only {
            property.entry(key).or_insert(value);
        }
    }
}

/// Joins choices between texts to one `enum`. The meaning of each choice moves to the description.
fn join_choices(schema: &mut Schema) {
    let Some(branches) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let Some(choices) = branches.iter().map(constant_texts).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut description: Vec<String> = Vec::new();
    description.extend(schema.get("description").and_then(Value::as_str).map(str::to_owned));
    for (branch, texts) in branches.iter().zip(&choices) {
        if let (Some(said), [text]) = (branch.get("description").and_then(Value::as_str), texts.as_slice()) {
            description.push(format!("`{text}`: {said}"));
        }
    }
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), choices.concat().into());
    if !description.is_empty() {
        schema.insert("description".to_owned(), description.join(" ").into());
    }
}

/// The texts that a branch allows; `None` if it allows anything else.
fn constant_texts(branch: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match (branch.get("const"), branch.get("enum")) {
        (Some(only), None) => Some(vec![text(only)?]),
        (None, Some(Value::Array(options))) => options.iter().map(text).collect(),
        _ => None,
    }
}

/// Removes details that tell a model nothing: the width of a number, and an empty default.
fn drop_noise(schema: &mut Schema) {
    let kind = schema.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| ["integer", "number"].contains(&kind)) {
        schema.remove("format");
    }
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if schema.get("default").is_some_and(is_empty) {
        schema.remove("default");
    }
}

/// Orders the keys as people write them: the type first, the description last.
fn order_keys(schema: &mut Schema) {
    const FIRST: [&str; 7] = ["type", "enum", "items", "properties", "required", "minimum", "maximum"];
    let rank = |key: &str| match key {
        "additionalProperties" => FIRST.len() + 1,
        "description" => FIRST.len() + 2,
        key => FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len()),
    };
    let mut keys: Vec<(String, Value)> = std::mem::take(schema).into_iter().collect();
    keys.sort_by_key(|(key, _)| rank(key));
    schema.extend(keys);
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;

    use super::of;

    /// Text for people.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is asked for")]
    struct Arguments {
        /// Folder to search, relative
        /// to the repository root.
        #[schemars(length(min = 1))]
        path: String,
        /// At most so many.
        #[schemars(range(min = 1, max = 100))]
        limit: Option<u64>,
        /// Number at once.
        #[serde(default = "eight")]
        width: u32,
        /// Mode of the search.
        mode: Option<Mode>,
        /// Unit to count.
        kind: Option<Kind>,
        /// Also what is hidden.
        #[serde(default)]
        all: bool,
        /// Changes to make.
        #[serde(default)]
        edits: Vec<Edit>,
        #[serde(default)]
        #[schemars(skip)]
        part: Option<String>,
    }

    fn eight() -> u32 {
        8
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is asked for")]
    enum Mode {
        /// Looks at names.
        Fast,
        /// Looks at everything.
        Slow,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is asked for")]
    enum Kind {
        Lines,
        Words,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is asked for")]
    struct Edit {
        /// Old text.
        old: String,
        /// New text.
        new: Option<String>,
    }

    #[derive(JsonSchema)]
    struct Nothing {}

    #[test]
    fn a_schema_says_what_a_model_needs_and_no_more() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&of::<Arguments>()).expect("it is JSON"), @r#"
        {
          "type": "object",
          "properties": {
            "path": {
              "type": "string",
              "minLength": 1,
              "description": "Folder to search, relative to the repository root."
            },
            "limit": {
              "type": "integer",
              "minimum": 1,
              "maximum": 100,
              "description": "At most so many."
            },
            "width": {
              "type": "integer",
              "minimum": 0,
              "default": 8,
              "description": "Number at once."
            },
            "mode": {
              "type": "string",
              "enum": [
                "fast",
                "slow"
              ],
              "description": "Mode of the search. `fast`: Looks at names. `slow`: Looks at everything."
            },
            "kind": {
              "type": "string",
              "enum": [
                "lines",
                "words"
              ],
              "description": "Unit to count."
            },
            "all": {
              "type": "boolean",
              "description": "Also what is hidden."
            },
            "edits": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "old": {
                    "type": "string",
                    "description": "Old text."
                  },
                  "new": {
                    "type": "string",
                    "description": "New text."
                  }
                },
                "required": [
                  "old"
                ],
                "additionalProperties": false
              },
              "description": "Changes to make."
            }
          },
          "required": [
            "path"
          ],
          "additionalProperties": false
        }
        "#);
    }

    #[test]
    fn no_arguments_are_an_object_without_fields() {
        insta::assert_snapshot!(of::<Nothing>().to_string(), @r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#);
    }
}
