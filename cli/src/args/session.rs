//! Flags that commands share which start a session: the provider, the selection, the tests, the policy.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tool_config::ProviderApi;
use tool_core::api::{Dollars, Overrides, ProviderName, TEST_COMMAND, TEST_RESULTS, VerificationRule};

use super::SessionFlags;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Provider {
    Hosted,
    Local,
    Router,
}

impl From<Provider> for ProviderName {
    fn from(provider: Provider) -> Self {
        match provider {
            Provider::Hosted => Self::Hosted,
            Provider::Local => Self::Local,
            Provider::Router => Self::Router,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Wire {
    Messages,
    Chat,
    GenerateContent,
    Responses,
}

impl From<Wire> for ProviderApi {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages,
            Wire::Chat => Self::Chat,
            Wire::GenerateContent => Self::GenerateContent,
            Wire::Responses => Self::Responses,
        }
    }
}

/// Flags that steer the selection.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Steer {
    /// Select these files first: a path or a glob from the root
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Never select these files: a path or a glob from the root
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Leave out the instruction files of the project, such as AGENTS.md
    #[arg(long)]
    pub(crate) no_instructions: bool,
}

/// Flags that the four operations share.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Fail unless this provider is the enabled one
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,
    /// Print events as JSON, one a line, instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the answer to FILE instead of standard output; FILE changes only after the operation is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave the session running if this command is interrupted or its terminal closes
    #[arg(long)]
    pub(crate) detach: bool,
    /// Send no request that could make the session cost more than DOLLARS
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<Dollars>,
    #[command(flatten)]
    pub(crate) session: SessionFlags,
}

/// Flags about the tests that an operation runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TestFlags {
    /// Run the tests with this command; quotes group words as in a shell, and no shell runs
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test_command: Option<String>,
    /// Form of the results of your own test command: exit, junit:GLOB, tap or json:RUNNER
    #[arg(long, value_name = "FORM", requires = "test_command")]
    pub(crate) test_results: Option<String>,
    /// refactor: do not fail where tests exist and could not run
    #[arg(long, conflicts_with = "require_verified")]
    pub(crate) unverified: bool,
    /// refactor: fail unless tests have verified the change
    #[arg(long)]
    pub(crate) require_verified: bool,
    /// refactor, test-gen: run no tests; they then verify nothing
    #[arg(long, conflicts_with = "require_verified")]
    pub(crate) no_tests: bool,
    /// refactor: run no checks, such as linters
    #[arg(long)]
    pub(crate) no_checks: bool,
}

impl TestFlags {
    pub(crate) fn verification(&self) -> VerificationRule {
        match (self.unverified, self.require_verified) {
            (true, _) => VerificationRule::Optional,
            (_, true) => VerificationRule::Required,
            (false, false) => VerificationRule::WherePossible,
        }
    }

    /// The starter's environment with the command of these flags.
    pub(crate) fn overrides(&self, mut environment: BTreeMap<String, String>) -> Overrides {
        if let Some(command) = &self.test_command {
            environment.insert(TEST_COMMAND.to_owned(), command.clone());
            // The form belongs to the command: one from the environment would be that of another.
            environment.remove(TEST_RESULTS);
        }
        environment.extend(self.test_results.clone().map(|form| (TEST_RESULTS.to_owned(), form)));
        Overrides(environment)
    }
}

/// Flags that allow a session more than the defaults of its operation.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PolicyFlags {
    /// Allow an effect: write-repository, commit-git, run-process, install. `commit-git:tainted` and `install:tainted`
    /// also count after text from outside your own files has entered the conversation
    #[arg(long, value_name = "EFFECT")]
    pub(crate) allow: Vec<String>,
    /// Deny an effect; wins over --allow
    #[arg(long, value_name = "EFFECT")]
    pub(crate) deny: Vec<String>,
    /// Fail if tests would run without the full sandbox
    #[arg(long, conflicts_with = "unsandboxed")]
    pub(crate) require_sandbox: bool,
    /// Run without a sandbox, with your own rights; needs --allow run-process or --allow install
    #[arg(long)]
    pub(crate) unsandboxed: bool,
    /// Do not trust the repository: commits and installations need a new yes
    #[arg(long)]
    pub(crate) untrusted: bool,
    /// Strangers may have written the task: `tool ci` knows.
    #[arg(skip)]
    pub(crate) untrusted_task: bool,
    /// Allow changes of one protected path, relative to the root, or one new dot folder
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_path: Vec<String>,
    /// Show each change of files and ask before it is made; without a terminal none is made
    #[arg(long)]
    pub(crate) ask_before_write: bool,
    /// Fail without asking if your skills differ from the repository's skills.lock
    #[arg(long)]
    pub(crate) frozen: bool,
}
