//! Tools for a model with a small context: fewer words and fewer arguments.
//!
//! The short descriptions of built-in skills are data (`short.toml`). Other descriptions of arguments are cut to
//! their first sentences.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::registry::OfferedTools;
use tool_core::api::ToolSpec;

/// Short description of a built-in skill.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortSkill {
    description: String,
    arguments: Vec<String>,
}

static SHORT_SKILLS: LazyLock<BTreeMap<String, ShortSkill>> =
    LazyLock::new(|| toml::from_str(include_str!("short.toml")).expect("a test reads this table"));

/// Keywords to remove: a small model calls skills correctly without them, and the host checks calls against the full
/// schema.
const NEEDLESS: [&str; 6] = [
    "additionalProperties",
    "format",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

impl OfferedTools {
    /// Shortens the description and the schema.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        for spec in &mut self.builtin {
            if let Some(short) = SHORT_SKILLS.get(&spec.name) {
                spec.description.clone_from(&short.description);
                keep_arguments(&mut spec.parameters, &short.arguments);
            }
        }
        let team = self.team.iter_mut().map(|tool| &mut tool.spec);
        for ToolSpec { parameters, .. } in self.builtin.iter_mut().chain(team) {
            drop_keywords(parameters, &NEEDLESS);
            cut_descriptions(parameters);
        }
        self
    }
}

fn keep_arguments(schema: &mut Value, kept: &[String]) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| kept.contains(name));
    }
}

/// Removes keywords from a schema and from all schemas in it.
pub fn drop_keywords(schema: &mut Value, keywords: &[&str]) {
    match schema {
        Value::Object(fields) => {
            // A property may have the name of a keyword. Its value is then a schema.
            fields.retain(|key, value| value.is_object() || !keywords.contains(&key.as_str()));
            fields.values_mut().for_each(|value| drop_keywords(value, keywords));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| drop_keywords(element, keywords)),
        _ => {}
    }
}

/// Cuts the descriptions in a schema to their first sentences.
fn cut_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "description" => {
                        text.truncate(text.find(". ").map_or(text.len(), |end| end + 1));
                    }
                    value => cut_descriptions(value),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(cut_descriptions),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::SkillTool;

    fn spec(name: &str, arguments: &[&str]) -> ToolSpec {
        let property = json!({"type": "string", "minLength": 1, "description": "A path. Default: all."});
        let properties = arguments.iter().map(|name| ((*name).to_owned(), property.clone()));
        ToolSpec {
            name: name.to_owned(),
            description: "Reads. And more.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": properties.collect::<serde_json::Map<_, _>>(),
                "additionalProperties": false,
            }),
        }
    }

    #[test]
    fn a_built_in_skill_keeps_the_arguments_of_the_table_and_a_teams_skill_keeps_all() {
        let arguments = ["path", "column", "format"];
        let tools = OfferedTools {
            builtin: vec![spec("read_file", &arguments)],
            team: vec![SkillTool {
                spec: spec("lint", &arguments),
                tags: Vec::new(),
                operations: None,
            }],
        };
        let short = tools.shortened();
        let property = json!({"type": "string", "description": "A path."});
        assert_eq!(
            short.builtin[0].parameters,
            json!({"type": "object", "properties": {"path": property}})
        );
        assert_eq!(short.builtin[0].description, SHORT_SKILLS["read_file"].description);
        assert_eq!(
            short.team[0].spec.parameters,
            json!({"type": "object", "properties": {"path": property, "column": property, "format": property}})
        );
        assert_eq!(short.team[0].spec.description, "Reads. And more.");
    }
}
