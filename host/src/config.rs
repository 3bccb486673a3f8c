//! Configuration: defaults, the user's file, the environment and flags, resolved once a session into [`Settings`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key. Its debug form and its display form hold nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

/// The three providers of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    /// A vendor's own API.
    Hosted,
    /// A model server on this machine or network, or the embedded analyst.
    Local,
    /// One API for several vendors.
    Router,
}

/// The wire that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// The Messages API.
    Messages,
    /// Chat Completions.
    Chat,
    /// generateContent.
    GenerateContent,
    /// No wire: the embedded analyst (`url = "builtin:analyst"`).
    Analyst,
}

/// The enabled provider, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Which of the three.
    pub name: ProviderName,
    /// What it speaks.
    pub api: Api,
    /// Base URL without a trailing slash; the wire's path is appended.
    pub url: String,
    /// Model identifier; `builtin:analyst` for the analyst.
    pub model: String,
    /// Its key, where it has one.
    pub api_key: Option<Secret>,
}
