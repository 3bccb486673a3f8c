//! Facts about functions and components that the host does not enforce: one JSON object each, which can grow.
//!
//! `wit/metadata.schema.json` is their schema.

use serde::Serialize;
use serde_json::{Map, Value};

/// Facts about a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FunctionMetadata {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Words by which it is found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Operations in which it is offered: `explain`, `architect`, `refactor`, `test-gen`. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// Calls that show its use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FunctionExample>,
    /// JSON Schema of the details of its answers; [`schema::of`](crate::schema::of) makes one of a struct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Members of a later version of the schema.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One call as an example.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FunctionExample {
    /// Purpose of the call.
    pub description: String,
    /// Its arguments.
    pub arguments: Value,
}

/// Facts about a component.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Members of a later version of the schema.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl FunctionMetadata {
    /// The object of the contract; absent where it says nothing.
    pub fn to_json(&self) -> Option<String> {
        (*self != Self::default())
            .then(|| serde_json::to_string(self).ok())
            .flatten()
    }
}

impl ComponentMetadata {
    /// The object of the contract; absent where it says nothing.
    pub fn to_json(&self) -> Option<String> {
        (*self != Self::default())
            .then(|| serde_json::to_string(self).ok())
            .flatten()
    }
}
