//! The names of the three providers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The three providers of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    /// A vendor's own API.
    Hosted,
    /// A model server on this machine or network, or the embedded analyst.
    Local,
    /// One API for several vendors.
    Router,
}

impl ProviderName {
    /// All three, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::Hosted, Self::Local, Self::Router];

    /// The name in the configuration and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hosted => "hosted",
            Self::Local => "local",
            Self::Router => "router",
        }
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
