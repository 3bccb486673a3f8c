//! Arguments of `tool ci`, and of the sessions of every command that runs without a terminal.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tool_core::api::Dollars;

use super::{PolicyFlags, RunArguments, Steer, TestFlags, TurnOperation};

/// `tool ci`.
#[derive(Debug, Args)]
pub(crate) struct CiArguments {
    /// Operation to run
    #[arg(value_enum)]
    pub(crate) operation: TurnOperation,
    /// Task of architect and refactor, source file of test-gen, files and directories of explain [default of explain: `.`];
    /// `-` reads a task from standard input
    #[arg(value_name = "TEXT")]
    pub(crate) words: Vec<String>,
    /// Narrow the task of refactor, for example to a directory or a subject
    #[arg(long, value_name = "FOCUS")]
    pub(crate) focus: Option<String>,
    /// CI system of the job [default: found by its environment variables]
    #[arg(long, value_enum)]
    pub(crate) host: Option<CiHost>,
    /// Folder for the reports, relative to the repository root
    #[arg(long, value_name = "DIR", default_value = "tool-ci")]
    pub(crate) reports: PathBuf,
    /// Vendor to enable if there is no configuration; another configured one is an error. Its key comes from the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) vendor: Option<String>,
    /// Send no request that could make the session cost more than DOLLARS
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<Dollars>,
    #[command(flatten)]
    pub(crate) session: SessionFlags,
}

/// Flags of a session, for every command that runs one.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionFlags {
    /// Use this model instead of the configured one
    #[arg(long)]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) steer: Steer,
    /// End after N requests to the model, and keep the answer so far
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
    /// End after N tokens (input and output), and keep the answer so far
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// End after SECONDS, and keep the answer so far
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: Option<u64>,
    #[command(flatten)]
    pub(crate) tests: TestFlags,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

impl SessionFlags {
    /// The flags of an operation whose answer goes neither to a terminal nor into a file.
    pub(crate) fn run_arguments(&self, max_cost: Option<Dollars>) -> RunArguments {
        RunArguments {
            provider: None,
            // As events in JSON: no terminal is asked.
            json: true,
            output: None,
            detach: false,
            max_cost,
            session: self.clone(),
        }
    }
}

/// A CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiHost {
    /// GitHub Actions, and systems that run its workflows
    Github,
    /// GitLab CI/CD
    Gitlab,
    Buildkite,
    Jenkins,
    /// Any other: only reports in files
    Other,
}
