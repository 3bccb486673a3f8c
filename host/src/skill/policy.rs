//! Effects, and who may cause them: pure functions from operation and flags to a decision for each effect.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::api::{Operation, PolicyRequest, Problem};

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
}

impl fmt::Display for Effect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Effect {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::ALL
            .into_iter()
            .find(|effect| effect.name() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                Problem::new("invalid-policy", format!("Unknown effect `{text}`"))
                    .with_hint(format!("effects are {known}"))
            })
    }
}

/// What happens when a skill causes an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It is refused.
    Deny,
    /// Somebody is asked; refused where nobody can be.
    Ask,
    /// It happens.
    Allow,
}

/// Who causes effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A model, in one of the four operations.
    Operation(Operation),
    /// The user, by `tool skill call`.
    SkillCall,
}

/// Which files a granted `write-repository` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All that are not protected.
    Any,
    /// New ones, and those that the session created: what was there before stays as it is.
    OnlyCreated,
}

/// A decision for each effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    decisions: [Decision; Effect::ALL.len()],
    writes: Writes,
    allow_paths: Vec<String>,
}

impl Policy {
    /// The defaults of a cause, widened and narrowed by a request's flags. `deny` wins over `allow`.
    pub fn new(cause: Cause, request: &PolicyRequest) -> Result<Self, Problem> {
        let mut decisions = Effect::ALL.map(|effect| default(cause, effect));
        for name in &request.allow {
            decisions[name.parse::<Effect>()? as usize] = Decision::Allow;
        }
        for name in &request.deny {
            decisions[name.parse::<Effect>()? as usize] = Decision::Deny;
        }
        Ok(Self {
            decisions,
            writes: match cause {
                Cause::Operation(Operation::TestGen) => Writes::OnlyCreated,
                Cause::Operation(_) | Cause::SkillCall => Writes::Any,
            },
            allow_paths: request.allow_paths.clone(),
        })
    }

    /// What happens when `effect` is caused. `can_ask` is true where somebody will answer.
    pub fn decide(&self, effect: Effect, can_ask: bool) -> Decision {
        match self.decisions[effect as usize] {
            Decision::Ask if !can_ask => Decision::Deny,
            decision => decision,
        }
    }

    /// Which files may be changed where changing is granted. No flag widens it.
    pub fn writes(&self) -> Writes {
        self.writes
    }

    /// Protected paths that may be proposed all the same, exact and relative to the root.
    pub fn allow_paths(&self) -> &[String] {
        &self.allow_paths
    }
}

/// The table of the design. Running tests asks until runs have an OS sandbox of their own.
fn default(cause: Cause, effect: Effect) -> Decision {
    let changes = matches!(cause, Cause::Operation(Operation::Refactor | Operation::TestGen));
    match effect {
        Effect::ReadRepository | Effect::ReadGit => Decision::Allow,
        Effect::WriteRepository if changes => Decision::Allow,
        Effect::RunProcess | Effect::CommitGit | Effect::Install if changes => Decision::Ask,
        _ => Decision::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cause: Cause, request: &PolicyRequest, can_ask: bool) -> Vec<Decision> {
        let policy = Policy::new(cause, request).expect("the request is valid");
        Effect::ALL.map(|effect| policy.decide(effect, can_ask)).into()
    }

    #[test]
    fn operations_that_read_may_only_read() {
        use Decision::{Allow, Deny};
        for cause in [
            Cause::Operation(Operation::Explain),
            Cause::Operation(Operation::Architect),
            Cause::SkillCall,
        ] {
            let expected = [Allow, Deny, Allow, Deny, Deny, Deny];
            assert_eq!(table(cause, &PolicyRequest::default(), true), expected, "{cause:?}");
        }
    }

    #[test]
    fn operations_that_change_ask_and_nobody_to_ask_means_denied() {
        use Decision::{Allow, Ask, Deny};
        let cause = Cause::Operation(Operation::Refactor);
        assert_eq!(
            table(cause, &PolicyRequest::default(), true),
            [Allow, Allow, Allow, Ask, Ask, Ask]
        );
        assert_eq!(
            table(cause, &PolicyRequest::default(), false),
            [Allow, Allow, Allow, Deny, Deny, Deny]
        );
    }

    #[test]
    fn flags_widen_and_narrow_and_deny_wins() {
        let request = PolicyRequest {
            allow: vec!["run-process".into(), "install".into()],
            deny: vec!["install".into(), "read-git".into()],
            ..PolicyRequest::default()
        };
        let policy = Policy::new(Cause::SkillCall, &request).expect("the request is valid");
        assert_eq!(policy.decide(Effect::RunProcess, false), Decision::Allow);
        assert_eq!(policy.decide(Effect::Install, true), Decision::Deny);
        assert_eq!(policy.decide(Effect::ReadGit, true), Decision::Deny);
    }

    #[test]
    fn generating_tests_changes_only_what_it_created_whatever_the_flags() {
        let request = PolicyRequest {
            allow: vec!["write-repository".into()],
            ..PolicyRequest::default()
        };
        let writes = |cause| Policy::new(cause, &request).expect("the request is valid").writes();
        assert_eq!(writes(Cause::Operation(Operation::TestGen)), Writes::OnlyCreated);
        assert_eq!(writes(Cause::Operation(Operation::Refactor)), Writes::Any);
        assert_eq!(writes(Cause::SkillCall), Writes::Any);
    }

    #[test]
    fn an_unknown_effect_is_an_error_that_lists_the_known_ones() {
        let request = PolicyRequest {
            allow: vec!["root".into()],
            ..PolicyRequest::default()
        };
        let problem = Policy::new(Cause::SkillCall, &request).expect_err("`root` is no effect");
        assert_eq!(problem.message, "Unknown effect `root`");
        assert!(problem.hint.is_some_and(|hint| hint.contains("run-process")));
    }
}
