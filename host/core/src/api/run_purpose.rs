//! Purposes of runs of a project's own programs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Purpose of a run: the tests, or one of the checks beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPurpose {
    /// The tests.
    #[default]
    Tests,
    /// The code builds.
    Build,
    /// A linter finds nothing.
    Lint,
    /// The code is formatted.
    Format,
    /// The types fit.
    Types,
}

impl RunPurpose {
    /// The checks, in their order: the fast ones first.
    pub const CHECKS: [Self; 4] = [Self::Format, Self::Lint, Self::Types, Self::Build];

    /// Its name in requests, settings and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Build => "build",
            Self::Lint => "lint",
            Self::Format => "format",
            Self::Types => "types",
        }
    }
}

impl fmt::Display for RunPurpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is not that of a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no check: they are format, lint, types and build", .0.escape_debug())]
pub struct UnknownCheck(pub String);

impl FromStr for RunPurpose {
    type Err = UnknownCheck;

    /// Reads the name of a check.
    fn from_str(name: &str) -> Result<Self, UnknownCheck> {
        let found = Self::CHECKS.into_iter().find(|check| check.name() == name);
        found.ok_or_else(|| UnknownCheck(name.to_owned()))
    }
}
