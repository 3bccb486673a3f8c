//! Facts about functions and components that the host does not enforce. Each becomes a JSON object that may grow.
//!
//! Their schema is `wit/metadata.schema.json`.

use serde::Serialize;
use serde_json::{Map, Value};

/// Facts about a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FunctionMetadata {
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Words for finding it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Operations that offer it: `explain`, `architect`, `refactor`, `test-gen`. Empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// Example calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FunctionExample>,
    /// JSON Schema of [`Outcome::details`](crate::Outcome::details). [`schema::of`](crate::schema::of) makes one from
    /// a struct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Members of later versions of the schema.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An example of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FunctionExample {
    /// Purpose of the call.
    pub description: String,
    /// Arguments of the call: a JSON object.
    pub arguments: Value,
}

/// Facts about a component.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComponentMetadata {
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// SPDX expression of the licence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// URL of a page about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// JSON Schema of its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
    /// Members of later versions of the schema.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl FunctionMetadata {
    /// Sources of the answers of a skill of the program itself; the host ignores them for other skills. `named`: each
    /// answer shows the path of a file with its content. `foreign`: the same, and other people may have written every
    /// content.
    #[doc(hidden)]
    pub fn with_sources(sources: &str) -> Self {
        Self {
            more: Map::from_iter([("sources".to_owned(), sources.into())]),
            ..Self::default()
        }
    }

    /// The JSON object of the contract; absent if there are no facts.
    pub fn to_json(&self) -> Option<String> {
        (*self != Self::default())
            .then(|| serde_json::to_string(self).ok())
            .flatten()
    }
}

impl ComponentMetadata {
    /// The JSON object of the contract; absent if there are no facts.
    pub fn to_json(&self) -> Option<String> {
        (*self != Self::default())
            .then(|| serde_json::to_string(self).ok())
            .flatten()
    }
}
