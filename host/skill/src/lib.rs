//! The skills of this machine, and the work that they may ask the host for.
//!
//! `registry` knows which skills there are and calls them through [`tool_boundary`], which holds everything that a guest can
//! reach. The imports that need git, a program or a network are done in `imports`, behind the boundary's trait
//! [`Services`](tool_boundary::Services). Only this crate names libgit2.

pub mod cases;
mod compile;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod helper;
mod imports;
pub mod lock;
mod plain;
mod recipes;
mod registry;
pub mod secrets;
mod short;
pub mod signature;
mod task;

use std::path::PathBuf;

use tool_boundary::EngineError;
use tool_core::api::Effect;

pub use imports::{
    CleanedCaches, PastBounds, PastChanges, PastCommitStep, PastCommits, PastGap, PlannedRun, Surroundings,
    clean_build_caches, drop_build_caches, find_past_gap, head_commit, package_folder, plan_runs, read_form,
    runnable_purposes, settle_commit, walk_commits,
};
pub use registry::{
    CALL_SKILL, ComponentOrigin, Embedded, FIND_SKILL, Held, Inspection, LockChoice, OfferedTools, PinSource, Pinned,
    SkillHost, SkillScope, SkillTool, Terms, Trial, VersionChange, compiler_fingerprint, precompile,
};
pub use short::drop_keywords;
use tool_boundary::embedded::Packed;
pub use tool_boundary::{
    Approver, BoundSecret, CallBudget, CallContext, CallError, CallOutcome, CallReport, ChangeKind, ComponentMetadata,
    ContentIndex, Conversation, Crowd, Descriptor, EmbeddedOutliner, FileVerdict, FunctionDescriptor, HeldTurn,
    HostNotes, HttpTransport, InboundResponse, Interfaces, LeftFiles, Limits, LockedSkills, NoChanges, NoServices,
    Nobody, OutboundRequest, Outliners, PatternKind, Question, RawArguments, RunAsker, RunScope, SeenSessions,
    SessionChanges, SessionFiles, SoughtPattern, SymbolLookup, TransportError, Unrecorded, UserAnswer, audit, bindings,
    details, embedded, failures, hinted, outline, policy, precompile_outliner, read_interfaces, runner, stage, taint,
    transport,
};

/// A built-in component: its wasm, and the same compiled for this build's target, both packed ([`embedded`]).
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name of the skill.
    pub name: &'static str,
    /// SHA-256 of the component, hexadecimal.
    pub digest: &'static str,
    /// The component.
    pub wasm: Packed,
    /// The component, precompiled by [`precompile`].
    pub compiled: Packed,
    /// Its [`Descriptor`] as JSON, captured when it was built, so that nothing runs at start.
    pub descriptor: &'static str,
}

/// Why the skills as a whole, or one component outside a call, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SkillHostError {
    /// This machine cannot run compiled code.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A built-in skill is not what its build promised.
    #[error("the built-in skill `{name}` is broken: {reason}")]
    Builtin {
        /// The skill.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file or folder could not be read or written.
    #[error("`{}` could not be {action}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// `read`, `written`, …
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A component is refused.
    #[error("`{}` is refused: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// No such team skill.
    #[error("there is no added or waiting skill named `{name}`")]
    Unknown {
        /// As it was asked for.
        name: String,
    },
    /// The component has changed since it was shown.
    #[error("`{}` has changed since it was shown: its digest is {found}, not {shown}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The digest that the user has seen.
        shown: String,
        /// The digest of the component that is there.
        found: String,
    },
    /// A new version asks for more than the one before was granted.
    #[error("`{name}` asks for more than before: {}", Effect::list(effects))]
    Grown {
        /// The skill.
        name: String,
        /// Effects that the user has not said yes to.
        effects: Vec<Effect>,
    },
    /// The file of pins is not what this program writes.
    #[error("`{}` is not a valid list of trusted skills: {reason}", path.display())]
    Pins {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
