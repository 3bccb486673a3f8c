//! Effects that a skill may cause, and the grants that name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::api::ErrorKind;
use crate::text::nearest;

/// Something that a skill may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Read files.
    ReadRepository,
    /// Propose changes of files.
    WriteRepository,
    /// Read git's state.
    ReadGit,
    /// Commit.
    CommitGit,
    /// Run tests.
    RunProcess,
    /// Add packages.
    Install,
}

impl Effect {
    /// All, in the order of the contract.
    pub const ALL: [Self; 6] = [
        Self::ReadRepository,
        Self::WriteRepository,
        Self::ReadGit,
        Self::CommitGit,
        Self::RunProcess,
        Self::Install,
    ];

    /// The name in `wit/skill.wit` and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadRepository => "read-repository",
            Self::WriteRepository => "write-repository",
            Self::ReadGit => "read-git",
            Self::CommitGit => "commit-git",
            Self::RunProcess => "run-process",
            Self::Install => "install",
        }
    }

    /// Names in one line, separated by commas.
    pub fn list(effects: &[Self]) -> String {
        effects
            .iter()
            .map(|effect| effect.name())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// True for what does more than read.
    pub fn changes_something(self) -> bool {
        !matches!(self, Self::ReadRepository | Self::ReadGit)
    }

    /// True for what lasts or leaves beyond the repository's files: in a tainted conversation it needs a yes of its own.
    pub fn reaches_further(self) -> bool {
        matches!(self, Self::CommitGit | Self::Install)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Effect {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let known = Self::ALL.into_iter().find(|effect| effect.name() == text);
        known.ok_or_else(|| {
            let known = Self::list(&Self::ALL);
            Problem::new(ErrorKind::InvalidPolicy, format!("Unknown effect `{text}`"))
                .with_hint(format!("effects are {known}"))
        })
    }
}

/// Value of `allow` and `deny`: an effect, or an effect after untrusted text has entered the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    /// Read files.
    ReadRepository,
    /// Propose changes of files.
    WriteRepository,
    /// Read git's state.
    ReadGit,
    /// Commit.
    CommitGit,
    /// Run tests.
    RunProcess,
    /// Add packages.
    Install,
    /// Commit, also in a tainted conversation.
    #[serde(rename = "commit-git:tainted")]
    CommitGitTainted,
    /// Add packages, also in a tainted conversation.
    #[serde(rename = "install:tainted")]
    InstallTainted,
}

impl Grant {
    /// All, in the order of the contract.
    pub const ALL: [Self; 8] = [
        Self::ReadRepository,
        Self::WriteRepository,
        Self::ReadGit,
        Self::CommitGit,
        Self::RunProcess,
        Self::Install,
        Self::CommitGitTainted,
        Self::InstallTainted,
    ];

    /// The effect that it is about.
    pub fn effect(self) -> Effect {
        match self {
            Self::ReadRepository => Effect::ReadRepository,
            Self::WriteRepository => Effect::WriteRepository,
            Self::ReadGit => Effect::ReadGit,
            Self::CommitGit | Self::CommitGitTainted => Effect::CommitGit,
            Self::RunProcess => Effect::RunProcess,
            Self::Install | Self::InstallTainted => Effect::Install,
        }
    }

    /// True where it speaks of tainted conversations alone.
    pub fn is_tainted(self) -> bool {
        matches!(self, Self::CommitGitTainted | Self::InstallTainted)
    }

    /// True where it decides on an effect in a conversation that is tainted or not.
    pub fn covers(self, effect: Effect, is_tainted: bool) -> bool {
        self.effect() == effect && (is_tainted || !self.is_tainted())
    }

    fn is_named(self, text: &str) -> bool {
        match text.strip_suffix(":tainted") {
            Some(effect) => self.is_tainted() && self.effect().name() == effect,
            None => !self.is_tainted() && self.effect().name() == text,
        }
    }
}

impl FromStr for Grant {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let known = Self::ALL.into_iter().find(|grant| grant.is_named(text));
        known.ok_or_else(|| {
            let effects = Effect::list(&Effect::ALL);
            let mut hint = format!("effects are {effects}; commit-git:tainted and install:tainted go further");
            let known = Effect::ALL.map(Effect::name).into_iter();
            if let Some(near) = nearest(text, known.chain(["commit-git:tainted", "install:tainted"])) {
                hint = format!("did you mean `{near}`? {hint}");
            }
            Problem::new(ErrorKind::InvalidPolicy, format!("Unknown effect `{text}`")).with_hint(hint)
        })
    }
}
