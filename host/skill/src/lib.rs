//! The skills of this machine, and the services that they may use.
//!
//! `registry` holds the skills and calls them through [`tool_boundary`], which controls everything that a guest can
//! reach. `imports` implements the services that need git, a program or a network, behind the boundary's trait
//! [`Services`](tool_boundary::Services). Only this crate uses libgit2.

pub mod cases;
mod compile;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/skill.rs"]
pub mod fuzz;
pub mod helper;
mod helper_task;
mod imports;
pub mod lock;
mod recipes;
mod registry;
pub mod secrets;
mod short_descriptions;
pub mod signature;
mod small_files;

use std::path::PathBuf;

use tool_boundary::EngineError;
use tool_core::api::Effect;

pub use imports::{
    CleanedCaches, HostServices, MissingPart, PastBounds, PastChanges, PastCommitStep, PastCommits, PastGap,
    PlannedRun, clean_build_caches, drop_build_caches, find_past_gap, head_commit, package_folder, plan_runs,
    read_form, runnable_purposes, settle_commit, walk_commits,
};
pub use registry::{
    CALL_SKILL, ComponentOrigin, Embedded, FIND_SKILL, Inspection, LockChoice, OfferedTools, PinSource, PinTerms,
    PinnedSkill, PulledCopy, SkillHost, SkillScope, SkillTool, TrialSkill, VersionChange, compiler_fingerprint,
    precompile_skill,
};
pub use short_descriptions::drop_keywords;
use tool_boundary::embedded::Packed;
pub use tool_boundary::{
    Approver, BoundSecret, CallBudget, CallContext, CallError, CallOutcome, CallReport, ComponentMetadata,
    ContentIndex, Conversation, CrowdedLimit, Descriptor, EmbeddedOutliner, Failure, FailureKind, FileVerdict,
    FunctionDescriptor, HeldTurn, HostNotes, HttpTransport, InboundResponse, Interfaces, LeftFiles, Limits,
    LockedSkills, NoApprover, NoChangeJournal, NoChanges, NoServices, OutboundRequest, Outliners, PatternKind,
    Question, RawArguments, RunAsker, RunScope, SeenSessions, SessionChanges, SessionFiles, SoughtPattern,
    SymbolLookup, TransportError, UserAnswer, audit, bindings, details, embedded, failure_kinds, outline, policy,
    precompile_outliner, read_interfaces, runner, stage, taint, transport,
};

/// A built-in component: its wasm, and its native code for this build's target, both packed ([`embedded`]).
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name of the skill.
    pub name: &'static str,
    /// SHA-256 of the component, hexadecimal.
    pub digest: &'static str,
    /// The component's wasm.
    pub wasm: Packed,
    /// The component's native code, from [`precompile_skill`].
    pub compiled: Packed,
    /// Its [`Descriptor`] as JSON, recorded at build time, so that a start runs no component.
    pub descriptor: &'static str,
}

/// Reason why the skills as a whole, or one component, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SkillHostError {
    /// This machine cannot run compiled code.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A built-in skill differs from what its build recorded.
    #[error("the built-in skill `{name}` is broken: {reason}")]
    Builtin {
        /// Name of the skill.
        name: String,
        /// Description of the cause.
        reason: String,
    },
    /// A file or folder could not be read or written.
    #[error("`{}` could not be {action}", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// What was tried, as a participle: `read`, `written`.
        action: &'static str,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// A component breaks a rule.
    #[error("`{}` is refused: {reason}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// The broken rule, as the end of a sentence.
        reason: String,
    },
    /// The team has no such skill.
    #[error("there is no added or waiting skill named `{name}`")]
    Unknown {
        /// Name as the caller gave it.
        name: String,
    },
    /// The component has changed since the user saw it.
    #[error("`{}` has changed since it was shown: its digest is {found}, not {shown}", path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Digest that the user saw.
        shown: String,
        /// Digest of the present component.
        found: String,
    },
    /// A new version asks for effects that the previous version was not granted.
    #[error("`{name}` asks for more than before: {}", Effect::join_names(effects))]
    Grown {
        /// Name of the skill.
        name: String,
        /// Effects that the user has not granted.
        effects: Vec<Effect>,
    },
    /// The file of pins is not valid.
    #[error("`{}` is not a valid list of trusted skills: {reason}", path.display())]
    Pins {
        /// Path of the file.
        path: PathBuf,
        /// Description of the cause.
        reason: String,
    },
}

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
