//! Arguments of `tool tests`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tool_core::api::RunPurpose;

/// `tool tests`.
#[derive(Debug, Args)]
pub(crate) struct TestsArguments {
    /// Subcommand; absent for the list
    #[command(subcommand)]
    pub(crate) command: Option<TestsCommand>,
    /// List only what runs for this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Subcommands of `tool tests`.
#[derive(Debug, Subcommand)]
pub(crate) enum TestsCommand {
    /// Keep a command of your own for this repository
    ///
    /// It is kept in ~/.tool/tests.toml and comes before everything that the repository's files say. No shell runs: each
    /// word is one argument.
    #[command(after_help = "\
Examples:
  tool tests set -- make check
  tool tests set --results junit:build/*.xml -- ./run-tests --xml
  tool tests set --check lint -- make lint")]
    Set {
        /// Keep the command of this check, in place of that of the tests
        #[arg(long, value_enum, value_name = "CHECK")]
        check: Option<CheckName>,
        /// Form of the results: exit, junit:GLOB, tap or json:RUNNER
        #[arg(long, value_name = "FORM", conflicts_with = "check")]
        results: Option<String>,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Forget your own command for this repository
    #[command(after_help = "\
Examples:
  tool tests unset
  tool tests unset --check lint")]
    Unset {
        /// Forget the command of this check, in place of that of the tests
        #[arg(long, value_enum, value_name = "CHECK")]
        check: Option<CheckName>,
    },
    /// Delete the build output that test runs have kept, of all repositories
    ///
    /// The next run of each repository builds everything. The output of a run that is under way stays.
    #[command(after_help = "\
Examples:
  tool tests clean")]
    Clean,
}

/// A check beside the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckName {
    Format,
    Lint,
    Types,
    Build,
}

impl CheckName {
    /// The purpose of a run; without a check that of the tests.
    pub(crate) fn purpose(check: Option<Self>) -> RunPurpose {
        match check {
            None => RunPurpose::Tests,
            Some(Self::Format) => RunPurpose::Format,
            Some(Self::Lint) => RunPurpose::Lint,
            Some(Self::Types) => RunPurpose::Types,
            Some(Self::Build) => RunPurpose::Build,
        }
    }
}
