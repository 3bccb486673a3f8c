//! Bounds the work of a schema before anything is validated with it.
//!
//! A schema may come from a foreign component, and validation happens in the daemon, before the call has a permit or a
//! deadline. A reference stands for everything that its target contains, so a page of text can describe more parts than
//! a machine can ever visit. This module counts the parts without expanding them, and refuses schemas that refer to
//! themselves.

use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::{Map, Value};

/// Parts of a schema with every reference put in place of itself. The largest of ours has 150; a schema as long as it may
/// be and without references has 15,000.
const SCHEMA_PARTS_MAX: u64 = 20_000;

/// Levels of a schema, references included. Validating takes stack for each, and a thread has 2 MiB.
const SCHEMA_DEPTH_MAX: usize = 64;

/// Parts that a pattern counts as: it has to be compiled and run on whole texts.
const PATTERN_PARTS: u64 = 256;

/// Bytes of a text that count as one more part.
const TEXT_BYTES_A_PART: usize = 64;

/// Bytes of a text in the arguments that count as one more value.
const TEXT_BYTES_A_VALUE: usize = 256;

/// Counts the parts of a schema with every reference replaced by its target.
///
/// # Errors
///
/// Why the schema is refused, as the end of a sentence.
pub(super) fn of_schema(schema: &Value) -> Result<u64, String> {
    let mut scale = Scale {
        root: schema,
        known: HashMap::new(),
        open: HashSet::new(),
    };
    Ok(scale.weigh(schema, 0)?.parts)
}

/// Counts the values of arguments; a long text counts as several.
pub(super) fn of_value(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + (text.len() / TEXT_BYTES_A_VALUE) as u64,
        Value::Array(elements) => 1 + elements.iter().map(of_value).sum::<u64>(),
        Value::Object(fields) => {
            let names = fields.keys().map(|name| (name.len() / TEXT_BYTES_A_VALUE) as u64);
            1 + names.sum::<u64>() + fields.values().map(of_value).sum::<u64>()
        }
        _ => 1,
    }
}

/// Known size of a part.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    parts: u64,
    /// Levels beneath it.
    height: usize,
}

/// Counts the parts of a schema. Everything that looks like a reference is counted as one, even in an example: at
/// worst, a schema is refused that could be accepted.
struct Scale<'s> {
    root: &'s Value,
    known: HashMap<*const Value, Weight>,
    /// Parts that are being counted; meeting one of them again is a cycle.
    open: HashSet<*const Value>,
}

impl<'s> Scale<'s> {
    fn weigh(&mut self, part: &'s Value, depth: usize) -> Result<Weight, String> {
        let key = ptr::from_ref(part);
        let weight = match self.known.get(&key) {
            Some(weight) => *weight,
            None if depth > SCHEMA_DEPTH_MAX => return Err(too_deep()),
            None if !self.open.insert(key) => return Err("a part of its schema refers to itself".to_owned()),
            None => {
                let weight = self.sum(part, depth)?;
                self.open.remove(&key);
                self.known.insert(key, weight);
                weight
            }
        };
        if depth + weight.height > SCHEMA_DEPTH_MAX {
            return Err(too_deep());
        }
        if weight.parts > SCHEMA_PARTS_MAX {
            Err(format!("its schema stands for more than {SCHEMA_PARTS_MAX} parts"))
        } else {
            Ok(weight)
        }
    }

    fn sum(&mut self, part: &'s Value, depth: usize) -> Result<Weight, String> {
        let mut sum = Weight { parts: 1, height: 0 };
        let mut add = |weight: Weight| {
            sum.parts = sum.parts.saturating_add(weight.parts);
            sum.height = sum.height.max(weight.height + 1);
        };
        match part {
            Value::String(text) => sum.parts += (text.len() / TEXT_BYTES_A_PART) as u64,
            Value::Array(elements) => {
                for element in elements {
                    add(self.weigh(element, depth + 1)?);
                }
            }
            Value::Object(fields) => {
                for value in fields.values() {
                    add(self.weigh(value, depth + 1)?);
                }
                if let Some(target) = self.target(fields, depth)? {
                    add(self.weigh(target, depth + 1)?);
                }
                sum.parts = sum.parts.saturating_add(count_patterns(fields) * PATTERN_PARTS);
                if fields.keys().any(|name| name.starts_with("unevaluated")) {
                    // `unevaluated…` visits the parts beneath again, to find the fields that are left over.
                    sum.parts = sum.parts.saturating_mul(3);
                }
            }
            _ => {}
        }
        Ok(sum)
    }

    /// Returns the target of `$ref`. Only `#/…` can be resolved without a base address, so every other form is refused.
    fn target(&self, fields: &'s Map<String, Value>, depth: usize) -> Result<Option<&'s Value>, String> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        for name in ["$dynamicRef", "$recursiveRef"] {
            if text(name).is_some() {
                return Err(format!("its schema refers to something by `{name}`"));
            }
        }
        if depth > 0 && text("$id").is_some() {
            return Err("a part of its schema has an `$id` of its own".to_owned());
        }
        let Some(reference) = text("$ref") else { return Ok(None) };
        let local = reference.strip_prefix('#').filter(|rest| !rest.contains('%'));
        match local.and_then(|pointer| self.root.pointer(pointer)) {
            Some(target) => Ok(Some(target)),
            None => Err("its schema refers to something else than a `#/…` of its own".to_owned()),
        }
    }
}

fn count_patterns(fields: &Map<String, Value>) -> u64 {
    let one = u64::from(fields.get("pattern").is_some_and(Value::is_string));
    let many = fields.get("patternProperties").and_then(Value::as_object);
    one + many.map_or(0, |patterns| patterns.len() as u64)
}

fn too_deep() -> String {
    format!("its schema has more than {SCHEMA_DEPTH_MAX} levels")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each step means the next one twice.
    fn doubling(steps: usize, keyword: &str) -> Value {
        let mut defs = Map::new();
        for step in 0..steps {
            let next = json!({"$ref": format!("#/$defs/d{}", step + 1)});
            defs.insert(format!("d{step}"), json!({keyword: [next, next]}));
        }
        defs.insert(format!("d{steps}"), json!({"type": "string"}));
        json!({"type": "object", "$defs": defs, "anyOf": [{"$ref": "#/$defs/d0"}]})
    }

    #[test]
    fn parts_that_mean_others_again_and_again_are_counted_each_time() {
        let few = of_schema(&doubling(4, "anyOf")).expect("it is small");
        let more = of_schema(&doubling(6, "anyOf")).expect("it is small");
        assert!(more > 3 * few, "{few} and {more}");
        for keyword in ["anyOf", "allOf", "oneOf", "prefixItems"] {
            let refused = of_schema(&doubling(20, keyword)).expect_err("it means a million parts");
            assert_eq!(
                refused,
                format!("its schema stands for more than {SCHEMA_PARTS_MAX} parts")
            );
        }
    }

    #[test]
    fn what_has_no_end_or_no_place_here_is_refused() {
        let with = |more: Value| {
            let mut schema = json!({"type": "object"});
            schema["$defs"] = json!({"a": more});
            of_schema(&schema).expect_err("it is refused")
        };
        let mut deep = json!({});
        for _ in 0..=SCHEMA_DEPTH_MAX {
            deep = json!({"not": deep});
        }
        // Each level is near, and all of them together are deep.
        let mut chain = Map::new();
        for step in 0..SCHEMA_DEPTH_MAX {
            chain.insert(format!("c{step}"), json!({"$ref": format!("#/$defs/a/c{}", step + 1)}));
        }
        chain.insert(format!("c{SCHEMA_DEPTH_MAX}"), json!({}));
        let said = [
            with(json!({"items": {"$ref": "#/$defs/a"}})),
            with(json!({"$ref": "#"})),
            with(json!({"$ref": "#name"})),
            with(json!({"$ref": "http://127.0.0.1:1/schema.json"})),
            with(json!({"$dynamicRef": "#name"})),
            with(json!({"$id": "other", "$ref": "#/$defs/a"})),
            with(deep),
            with(Value::Object(chain)),
        ];
        insta::assert_snapshot!(said.join("\n"), @r"
        a part of its schema refers to itself
        a part of its schema refers to itself
        its schema refers to something else than a `#/…` of its own
        its schema refers to something else than a `#/…` of its own
        its schema refers to something by `$dynamicRef`
        a part of its schema has an `$id` of its own
        its schema has more than 64 levels
        its schema has more than 64 levels
        ");
    }

    #[test]
    fn patterns_and_what_is_looked_at_again_count_more() {
        let plain = of_schema(&json!({"type": "object"})).expect("it is small");
        let pattern = of_schema(&json!({"type": "object", "pattern": "a"})).expect("it is small");
        assert!(pattern > plain + PATTERN_PARTS);
        let again = of_schema(&json!({"type": "object", "unevaluatedProperties": false})).expect("it is small");
        assert!(again > 2 * plain);
        assert_eq!(
            of_value(&json!({"a": ["b", 1], "c": "x".repeat(2 * TEXT_BYTES_A_VALUE)})),
            7
        );
    }
}
