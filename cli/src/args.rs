//! The command line as clap knows it. The doc comments are the help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use host::config::{Api, ProviderName};

/// A repository-aware code assistant that keeps the model in a sandbox.
///
/// The answer goes to standard output, everything else to standard error. Exit codes: 0 success, 1 operation failed,
/// denied or incomplete, 2 configuration or usage error, 3 backend not running or not startable, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "tool", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Repository root [default: the nearest git work tree, else the working directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,

    /// Print nothing but the answer and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or change ~/.tool/config.toml
    #[command(after_help = "\
Examples:
  tool init                                        asks, on a terminal
  tool init --offline                              the embedded analyst: no key, no network
  tool init --provider local --model qwen3-coder   a model server on this machine
  tool init --provider hosted --model MODEL --api-key-stdin < key.txt")]
    Init(Init),

    /// Explain the architecture, the components and the key patterns of a file or a directory
    #[command(after_help = "\
Examples:
  tool explain .
  tool explain src/server.py
  tool explain . > ARCHITECTURE.md")]
    Explain {
        /// File or directory, relative to the working directory or to the repository root
        #[arg(value_name = "FILE_OR_DIRECTORY")]
        target: String,
        #[command(flatten)]
        run: Run,
    },

    /// Propose architectural improvements that are specific to this repository
    #[command(after_help = "\
Examples:
  tool architect \"make the storage layer replaceable\"")]
    Architect {
        /// What to think about
        #[arg(value_name = "TASK")]
        task: String,
        #[command(flatten)]
        run: Run,
    },

    /// Improve code; changes are proposed by the model and committed by the host
    #[command(after_help = "\
Examples:
  tool refactor \"replace the hand-written retry loop\" --focus src/client
  tool refactor src/legacy.py")]
    Refactor {
        /// A task, or a path
        #[arg(value_name = "TASK")]
        task: String,
        /// Narrow the task, for example to a directory or a subject
        #[arg(long, value_name = "FOCUS")]
        focus: Option<String>,
        #[command(flatten)]
        run: Run,
    },

    /// Write tests for a source file, in the style of the tests that are there
    #[command(
        name = "test-gen",
        after_help = "\
Examples:
  tool test-gen src/parser.py"
    )]
    TestGen {
        /// Source file
        #[arg(value_name = "FILE")]
        file: String,
        #[command(flatten)]
        run: Run,
    },

    /// Start, stop, restart or look at the backend
    #[command(subcommand)]
    Service(Service),

    /// List, call and manage skills
    #[command(subcommand)]
    Skill(Skill),

    /// Show ended sessions, newest first
    History {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Show the result of a session
    Results {
        /// Identifier of the session, as `tool history` shows it
        #[arg(value_name = "SESSION")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },

    /// Set up a sandbox around a run, as standard input says
    #[command(name = "__contain", hide = true)]
    Contain {
        /// The part that runs inside of the namespaces
        #[arg(long)]
        inner: bool,
    },

    /// Try to get out of the sandbox for runs, in many ways, and print what came of it
    #[command(name = "__sandbox-probes", hide = true)]
    SandboxProbes {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Try the fallback without namespaces
        #[arg(long)]
        fallback: bool,
    },

    /// Run the backend in this process
    #[command(name = "__daemon", hide = true)]
    Daemon {
        /// Port on 127.0.0.1; 0 takes any free one
        #[arg(long)]
        port: u16,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Provider to enable
    #[arg(long, value_enum, conflicts_with = "offline")]
    pub(crate) provider: Option<Provider>,
    /// What the hosted provider speaks [default: what the file has, else messages]
    #[arg(long, value_enum, requires = "provider")]
    pub(crate) api: Option<Wire>,
    /// Base URL, where it is not the provider's default
    #[arg(long, requires = "provider")]
    pub(crate) url: Option<String>,
    /// Model identifier
    #[arg(long, requires = "provider")]
    pub(crate) model: Option<String>,
    /// Read the API key from standard input and keep it in the file; better is to leave it in the environment
    #[arg(long, requires = "provider")]
    pub(crate) api_key_stdin: bool,
    /// Enable the embedded analyst, which needs neither key nor network
    #[arg(long)]
    pub(crate) offline: bool,
}

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
}

impl From<Wire> for Api {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages,
            Wire::Chat => Self::Chat,
            Wire::GenerateContent => Self::GenerateContent,
        }
    }
}

/// What the four operations share.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Fail unless this provider is the enabled one
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,
    /// Use this model instead of the configured one
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Print one event a line, as JSON, instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave the session running when this command is interrupted or its terminal goes away
    #[arg(long)]
    pub(crate) detach: bool,
    /// End after this many requests to the model, with what there is
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
    /// End after this many tokens, input and output together, with what there is
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// End after this many seconds, with what there is
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: Option<u64>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

/// What a session may cause beyond its operation's defaults.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PolicyFlags {
    /// Allow an effect: write-repository, commit-git, run-process, install
    #[arg(long, value_name = "EFFECT")]
    pub(crate) allow: Vec<String>,
    /// Deny an effect; wins over --allow
    #[arg(long, value_name = "EFFECT")]
    pub(crate) deny: Vec<String>,
    /// Fail where tests could run outside of a full sandbox
    #[arg(long, conflicts_with = "unsandboxed")]
    pub(crate) require_sandbox: bool,
    /// Run tests with your own rights, without a sandbox; only together with --allow run-process
    #[arg(long)]
    pub(crate) unsandboxed: bool,
    /// Allow changing one protected path, exact and relative to the root
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_path: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Start the backend
    Start,
    /// Stop the backend
    Stop,
    /// Stop the backend, where it runs, and start it
    Restart,
    /// Report whether the backend is running (exit code 3 where it is not)
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Skill {
    /// List the skills with their effects and digests
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run one skill in the sandbox and print its answer
    #[command(after_help = "\
Examples:
  tool skill call list_files
  tool skill call search_code '{\"pattern\": \"TODO\"}'
  tool skill call run_tests --allow run-process --receipt")]
    Call {
        /// Name of the skill
        name: String,
        /// Arguments as a JSON object; `-` reads them from standard input
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print the receipt as JSON on standard error
        #[arg(long)]
        receipt: bool,
        #[command(flatten)]
        policy: PolicyFlags,
    },
    /// Show what a component asks for; with confirmation, copy it to ~/.tool/skills and pin its digest and effects
    Add {
        /// The component
        file: PathBuf,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Pin the digest and the effects of a component that lies in ~/.tool/skills
    Trust {
        /// Name of the skill
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Remove a component from ~/.tool/skills
    Remove {
        /// Name of the skill
        name: String,
    },
    /// Print what a component says about itself, running nothing but `describe`
    Inspect {
        /// The component
        file: PathBuf,
    },
}
