//! A component's description of itself, as the host keeps it.
//!
//! The host enforces the typed fields. Metadata may grow: fields that this host does not know are ignored, and
//! `describe` bounds and cleans every text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tool_core::api::{Effect, Operation};

/// Description of a component, with at least one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// Name under which it is added, locked and signed.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Its purpose, for the people who choose it.
    pub description: String,
    /// Its functions.
    pub functions: Vec<FunctionDescriptor>,
    /// Facts that the host does not enforce.
    #[serde(default)]
    pub metadata: ComponentMetadata,
}

impl Descriptor {
    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<&FunctionDescriptor> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The effects that at least one function declares, sorted.
    pub fn effects(&self) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self
            .functions
            .iter()
            .flat_map(|function| &function.effects)
            .copied()
            .collect();
        effects.sort_unstable();
        effects.dedup();
        effects
    }
}

/// Description of one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionDescriptor {
    /// Name that calls it.
    pub name: String,
    /// Its work, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Effects that it may cause.
    pub effects: Vec<Effect>,
    /// Facts that the host does not enforce.
    #[serde(default)]
    pub metadata: FunctionMetadata,
}

/// Facts about a component. `wit/metadata.schema.json` is the schema for authors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentMetadata {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// SPDX expression of its licence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Address of a page about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// JSON Schema of its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
}

/// Facts about a function. `wit/metadata.schema.json` is the schema for authors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionMetadata {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Words by which it is found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Operations in which it can be called; absent means all.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known_operations")]
    pub operations: Option<Vec<Operation>>,
    /// Calls that show its use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FunctionExample>,
    /// JSON Schema of the details of its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Sources of its answers. The host ignores it for every skill that is not of this program.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known_sources")]
    pub sources: Option<AnswerSources>,
}

/// How answers show the contents of files. If a skill states nothing, the host assumes that an answer shows each file
/// that the skill opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerSources {
    /// Each answer shows the path of a file with its content.
    Named,
    /// As `Named`, and other people may have written every content, such as a log.
    Foreign,
}

/// One call as an example.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionExample {
    /// Purpose of the call.
    pub description: String,
    /// Its arguments.
    pub arguments: Value,
}

/// Reads the sources of answers. A value that this version does not know counts as none.
fn known_sources<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<AnswerSources>, D::Error> {
    Ok(AnswerSources::deserialize(Value::deserialize(deserializer)?).ok())
}

/// Reads names of operations. A name that a later version knows is left out.
fn known_operations<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Operation>>, D::Error> {
    let names = Option::<Vec<String>>::deserialize(deserializer)?;
    let known = |name: &String| Operation::ALL.into_iter().find(|operation| operation.name() == name);
    Ok(names.map(|names| names.iter().filter_map(known).collect()))
}
