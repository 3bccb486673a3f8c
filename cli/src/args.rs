//! The command line as clap knows it. The doc comments are the help texts.

mod author;
mod rollout;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use host::api::ProviderName;
use host::config::Api;

pub(crate) use author::{Author, Language};
pub(crate) use rollout::{Consent, Keys, Rollout};

/// A repository-aware code assistant that keeps the model in a sandbox
///
/// The answer goes to standard output, everything else to standard error. On a terminal the answer is rendered; in a
/// pipe it is Markdown. Errors are `[error] MESSAGE` and, where something mends it, `hint: …`.
///
/// Exit codes: 0 success, 1 operation failed, denied or incomplete, 2 configuration or usage error, 3 backend not
/// running or not startable, 130 interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "tool",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Examples:
  tool init                      choose a provider
  tool explain .                 explain this repository
  tool test-gen src/parser.py    write tests for a file
  tool help explain              the same as `tool explain --help`"
)]
pub(crate) struct Arguments {
    /// Repository root [default: the nearest git work tree, else the working directory]
    #[arg(long, global = true, value_name = "DIR", display_order = 900)]
    pub(crate) repo: Option<PathBuf>,

    /// Print nothing but the answer and errors
    #[arg(long, short, global = true, display_order = 901)]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or change ~/.tool/config.toml
    ///
    /// Asks on a terminal. Elsewhere it enables `hosted` where HOSTED_API_KEY and HOSTED_MODEL are set, else the
    /// embedded analyst. A file that is there keeps its keys and its comments; a URL goes where it was for another
    /// provider or API, and that is said.
    #[command(after_help = "\
Examples:
  tool init                                        asks, on a terminal
  tool init --offline                              the embedded analyst: no key, no network
  tool init --provider local --model qwen3-coder   a model server on this machine
  tool init --provider hosted --model MODEL        the key in HOSTED_API_KEY
  tool init --provider hosted --model MODEL --api-key-stdin < key.txt
  tool init --port 8123                            another port, where 8000 is taken")]
    Init(Init),

    /// Explain the architecture, the components and the key patterns of a file or a directory
    #[command(after_help = "\
Examples:
  tool explain .
  tool explain src/server.py
  tool explain . --output ARCHITECTURE.md
  tool explain . --json | jq -r 'select(.type == \"skill\") | .name'")]
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
  tool architect \"make the storage layer replaceable\"
  tool architect - < task.md")]
    Architect {
        /// What to think about; `-` reads it from standard input
        #[arg(value_name = "TASK")]
        task: String,
        #[command(flatten)]
        run: Run,
    },

    /// Improve code; changes are proposed by the model and committed by the host
    #[command(after_help = "\
Examples:
  tool refactor \"replace the hand-written retry loop\" --focus src/client
  tool refactor src/legacy.py
  tool refactor src/legacy.py --require-sandbox      nothing runs outside of a full sandbox
  git log -1 --format=%B | tool refactor -")]
    Refactor {
        /// A task, or a path; `-` reads a task from standard input
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
  tool test-gen src/parser.py
  tool test-gen src/parser.py --require-sandbox      nothing runs outside of a full sandbox"
    )]
    TestGen {
        /// Source file
        #[arg(value_name = "FILE")]
        file: String,
        #[command(flatten)]
        run: Run,
    },

    /// Show which files an operation would send to the model, and why
    #[command(after_help = "\
Examples:
  tool context \"retry failed uploads\"
  tool context --operation explain src/server.py
  tool context --exclude 'tests/**' --include src/api.py --json \"retry failed uploads\"")]
    Context(Select),

    /// Show sessions: those under way first, then those that have ended, newest first
    ///
    /// `--repo DIR` shows only those of one repository. A session whose changes are taken back says by which undo; that
    /// undo can be undone too. JSON lists what has ended, and under `running` what is under way.
    #[command(after_help = "\
Examples:
  tool history
  tool history --repo . --limit 5
  tool history --operation refactor --status failed
  tool history --operation skill-call
  tool history --model MODEL --json")]
    History(History),

    /// Follow a session that is under way, from its beginning
    ///
    /// Shows what the command that started it shows. Ctrl-C leaves the session running. What a session asks can only be
    /// answered where it was started.
    #[command(after_help = "\
Examples:
  tool attach                  the newest that is under way in this repository
  tool attach 01a1f88f         the beginning of an identifier is enough")]
    Attach {
        /// Identifier of the session or the beginning of one; `latest` is the newest that is under way in this
        /// repository
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print the events as JSON, one a line
        #[arg(long)]
        json: bool,
    },

    /// Cancel a session that is under way
    ///
    /// What it has changed so far stays; `tool undo` takes that back.
    #[command(after_help = "\
Examples:
  tool cancel 01a1f88f         the beginning of an identifier is enough
  tool cancel latest           the newest that is under way in this repository")]
    Cancel {
        /// Identifier of the session or the beginning of one; `latest` is the newest that is under way in this
        /// repository
        #[arg(value_name = "SESSION")]
        session: String,
    },

    /// Show the result of a session
    ///
    /// Exit code 1 where the session failed or was cancelled. The last 100 sessions are kept.
    #[command(after_help = "\
Examples:
  tool results                 the newest of this repository
  tool results 01a1f88f        the beginning of an identifier is enough
  tool results latest --json")]
    Results {
        /// Identifier of the session or the beginning of one; `latest` is the newest that has ended in this repository
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Show what a session changed, as it left it
    ///
    /// A unified diff in git's form; files that have been changed since are named below it.
    #[command(after_help = "\
Examples:
  tool diff                    what `tool undo` would take back
  tool diff 01a1f88f           the beginning of an identifier is enough
  tool diff | git apply -R --check")]
    Diff {
        /// Identifier of the session or the beginning of one; `latest` is the newest that changed files in this
        /// repository and is not undone
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Take back what a session changed, byte for byte
    ///
    /// Files that you have changed since are shown and left alone; exit code 1 then. An undo is a session of its own,
    /// which can be undone. Only changes of files through the skills are taken back: a commit, an installation and what
    /// a command did stay; commits and installations are named.
    #[command(after_help = "\
Examples:
  tool undo                    the newest session that changed files; again, the one before it
  tool undo 01a1f88f           the beginning of an identifier is enough
  tool undo UNDO               an undo, as it was printed: brings the changes back")]
    Undo {
        /// Identifier of the session or the beginning of one; `latest` is the newest that changed files in this
        /// repository and is not undone
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// List, call and manage skills
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool skill list
  tool skill call search_code '{\"pattern\": \"TODO\"}'"
    )]
    Skill(Skill),

    /// Let another agent use the skills: a Model Context Protocol server on standard input and output
    ///
    /// Each connection is one session with its own receipts, listed by `tool history` and ended by `tool cancel`. Skills may
    /// read; what else they may cause, the flags grant. An agent whose user can be asked is asked where the policy asks. The
    /// backend serves the same over HTTP, at /mcp?root=/ABSOLUTE/PATH.
    #[command(after_help = "\
Examples:
  tool mcp                                   what another agent runs
  tool mcp --root ~/project --allow run-process
  tool mcp install claude-code               what it wants in its configuration
  tool mcp install codex --write             puts it there")]
    Mcp(Mcp),

    /// Start, stop, restart or look at the backend
    ///
    /// Commands that need the backend start it by themselves, on port 8000 or TOOL_BACKEND_PORT, and it keeps running;
    /// `idle_minutes` in [server] of config.toml lets it end. An idle one of another version is replaced, a busy one left
    /// alone. SIGTERM closes what is under way and ends it; SIGHUP makes it read its configuration again. Its logs are
    /// backend.log and access.log in ~/.tool/logs.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool service start
  tool service status --json"
    )]
    Service(Service),

    /// Show every setting, its value and where it comes from
    ///
    /// Of keys only the length is shown. Starts nothing and sends nothing. Exit code 2 where the configuration is
    /// missing or wrong.
    #[command(after_help = "\
Examples:
  tool config
  tool config --json | jq '.settings[] | select(.origin.layer == \"environment\")'")]
    Config {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Check the configuration, the backend, the provider, the skills and what runs tests
    ///
    /// Each line is `ok`, `warn` or `fail`, with the command that mends it. Starts no backend. Exit code 0 where nothing
    /// fails, 2 where the configuration does, else 1.
    #[command(after_help = "\
Examples:
  tool doctor
  tool doctor --probe          also tries what the model can do; costs a few hundred tokens
  tool doctor --sandbox        tries to break out of the sandbox, and says what held
  tool doctor --json")]
    Doctor {
        /// Send tiny requests to the provider and say what it can do and what is worked around
        #[arg(long)]
        probe: bool,
        /// Make every known attack on the sandbox on this machine instead, and say which of them it holds
        #[arg(long, conflicts_with = "probe")]
        sandbox: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Helpers for trying things out and for tests of your own
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool dev model-server --example > script.json
  tool dev model-server --script script.json --port 1234"
    )]
    Dev(Dev),

    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  source <(tool completions bash)
  tool completions zsh > ~/.zfunc/_tool
  tool completions fish > ~/.config/fish/completions/tool.fish")]
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
        /// A program inside that does nothing, by which it is tried out whether anything can run there
        #[arg(long)]
        nothing: bool,
    },

    /// Do one piece of work with nothing else in reach, as standard input says
    #[command(name = "__confine", hide = true)]
    Confine,

    /// Try to get out of the confinement of a helper, as standard input says
    #[command(name = "__confine-attempts", hide = true)]
    ConfineAttempts,

    /// Try to get out of the sandbox for runs, in many ways, and print what came of it
    #[command(name = "__sandbox-probes", hide = true)]
    SandboxProbes(Probes),

    /// Print the manual page, or write one page a command
    #[command(after_help = "\
Examples:
  tool man | man -l -
  tool man --dir ~/.local/share/man/man1")]
    Man {
        /// Write tool.1, tool-explain.1 and so on into this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },

    /// Print the help of every command as Markdown, for cli/reference.md
    #[command(name = "__reference", hide = true)]
    Reference,

    /// Run the backend in this process
    #[command(name = "__daemon", hide = true)]
    Daemon {
        /// Port on 127.0.0.1; 0 takes any free one
        #[arg(long)]
        port: u16,
    },
}

#[derive(Debug, Args)]
pub(crate) struct History {
    /// Only sessions of this model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Only sessions of this operation; mcp are connections of other agents, skill-call your own calls of skills
    #[arg(long, value_enum)]
    pub(crate) operation: Option<OperationName>,
    /// Only sessions that stand so
    #[arg(long, value_enum)]
    pub(crate) status: Option<StatusName>,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OperationName {
    Explain,
    Architect,
    Refactor,
    TestGen,
    Mcp,
    SkillCall,
}

impl OperationName {
    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Explain => "explain",
            Self::Architect => "architect",
            Self::Refactor => "refactor",
            Self::TestGen => "test-gen",
            Self::Mcp => "mcp",
            Self::SkillCall => "skill-call",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StatusName {
    Running,
    Complete,
    Failed,
    Cancelled,
}

impl StatusName {
    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Probes {
    /// Make only these attempts
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Try the fallback without namespaces
    #[arg(long)]
    pub(crate) fallback: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Provider to enable
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,
    /// What the hosted provider speaks [default: what the file has, else messages]
    #[arg(long, value_enum, requires = "provider")]
    pub(crate) api: Option<Wire>,
    /// Base URL, where it is not the provider's own; `default` goes back to that
    ///
    /// Without this flag the URL in the file stays, unless another provider or another API is chosen.
    #[arg(long, requires = "provider")]
    pub(crate) url: Option<String>,
    /// Model identifier
    #[arg(long, requires = "provider")]
    pub(crate) model: Option<String>,
    /// Read the API key from standard input and keep it in the file; better is to leave it in the environment
    #[arg(long, requires = "provider")]
    pub(crate) api_key_stdin: bool,
    /// Enable the embedded analyst, which needs neither key nor network
    #[arg(long, conflicts_with_all = ["provider", "api", "url", "model", "api_key_stdin"])]
    pub(crate) offline: bool,
    /// Port of the backend [default: 8000]; 0 takes any free one. Alone it changes nothing else
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
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

/// `tool context`.
#[derive(Debug, Args)]
pub(crate) struct Select {
    /// A task, or a path [default: the whole repository]
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// The operation whose rule chooses
    #[arg(long, default_value = "refactor", value_parser = ["explain", "architect", "refactor", "test-gen"])]
    pub(crate) operation: String,
    /// Narrow the task, for example to a directory or a subject
    #[arg(long, value_name = "FOCUS")]
    pub(crate) focus: Option<String>,
    #[command(flatten)]
    pub(crate) steer: Steer,
    /// Print the paths alone, best first
    #[arg(long, conflicts_with = "json")]
    pub(crate) paths: bool,
    /// Print everything as JSON, the text for the model included
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the user says about the selection.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Steer {
    /// Select these files first: a path or a glob from the root
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Never select these files: a path or a glob from the root
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
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
    /// Write the answer to FILE instead of standard output; FILE appears, or changes, only once the operation is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave the session running when this command is interrupted or its terminal goes away
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) steer: Steer,
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
    /// Allow an effect: write-repository, commit-git, run-process, install; with `:tainted` behind the second and the last,
    /// also once text from outside your own files has entered the conversation
    #[arg(long, value_name = "EFFECT")]
    pub(crate) allow: Vec<String>,
    /// Deny an effect; wins over --allow
    #[arg(long, value_name = "EFFECT")]
    pub(crate) deny: Vec<String>,
    /// Fail where tests could run outside of a full sandbox
    #[arg(long, conflicts_with = "unsandboxed")]
    pub(crate) require_sandbox: bool,
    /// Run what is allowed by name with your own rights, without a sandbox; only together with --allow run-process or
    /// --allow install
    #[arg(long)]
    pub(crate) unsandboxed: bool,
    /// Take the repository for somebody else's: commits and installations need a fresh yes
    #[arg(long)]
    pub(crate) untrusted: bool,
    /// Allow one protected path, relative to the root, or one new dot folder
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_path: Vec<String>,
    /// Fail where your team's skills differ from the repository's skills.lock, and ask nothing
    #[arg(long)]
    pub(crate) frozen: bool,
}

/// `tool mcp`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    /// Repository that the skills work on, wherever the agent is; the same as --repo
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print what another agent wants in its configuration, or put it there
    ///
    /// `--write` merges it into the file and shows the difference; all else in the file stays. JSON with comments is never
    /// written, and nothing is written through a link in the repository.
    #[command(after_help = "\
Examples:
  tool mcp install vscode
  tool mcp install claude-desktop --root ~/project --write
  tool mcp install json                      for any other client")]
    Install(Install),
}

/// `tool mcp install`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The agent
    #[arg(value_enum)]
    pub(crate) client: McpClient,
    /// Repository that the skills are to work on; the same as --repo
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Grant an effect to that agent, as `tool mcp --allow` does
    #[arg(long, value_name = "EFFECT")]
    pub(crate) allow: Vec<String>,
    /// Name of the entry [default: `tool`, with the folder's name where one file serves every repository]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Write it into the agent's file instead of printing it
    #[arg(long)]
    pub(crate) write: bool,
    /// Replace an entry of the same name that says something else
    #[arg(long, requires = "write")]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
    Zed,
    Codex,
    Gemini,
    /// The form that most clients read
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Start the backend
    #[command(after_help = "\
Examples:
  tool service start
  TOOL_BACKEND_PORT=9000 tool service start")]
    Start,
    /// Stop the backend
    ///
    /// Sessions under way are closed as cancelled, with what there is of them in their reports.
    #[command(after_help = "\
Examples:
  tool service stop")]
    Stop,
    /// Stop the backend, where it runs, and start it
    ///
    /// Takes a new port, address and version at once, also where sessions are under way.
    #[command(after_help = "\
Examples:
  TOOL_BACKEND_PORT=9000 tool service restart")]
    Restart,
    /// Report whether the backend is running (exit code 3 where it is not)
    #[command(after_help = "\
Examples:
  tool service status
  tool service status --json | jq .port")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Skill {
    /// List the skills with their effects and digests
    #[command(after_help = "\
Examples:
  tool skill list
  tool skill list --json | jq '.skills[] | select(.name == \"read_file\").parameters'")]
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
    #[command(flatten)]
    Author(Author),
    #[command(flatten)]
    Rollout(Rollout),
    /// Show what a component says about itself and asks for, running nothing but `describe`
    ///
    /// Of a component that is refused it shows what can be read without running anything, and why; exit code 1 then.
    #[command(after_help = "\
Examples:
  tool skill inspect read_file
  tool skill inspect ./todo.wasm --json")]
    Inspect {
        /// The component: a file, or the name of a skill that is there
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Dev {
    /// Serve a script as a model server on 127.0.0.1, for runs without a model and without a key
    ///
    /// The same script is spoken as Chat Completions, as the Messages API and as generateContent; the path of each
    /// request decides. It runs until it is interrupted.
    #[command(after_help = "\
Examples:
  tool dev model-server --example > script.json
  tool dev model-server --script script.json
  tool dev model-server --script script.json --port 1234 --log")]
    ModelServer {
        /// The script, a JSON file
        #[arg(long, value_name = "FILE", required_unless_present = "example")]
        script: Option<PathBuf>,
        /// Port on 127.0.0.1; 0 takes any free one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Print each request and what it gets on standard error
        #[arg(long)]
        log: bool,
        /// Print a script that works, and exit
        #[arg(long, conflicts_with_all = ["script", "port", "log"])]
        example: bool,
    },
}

#[cfg(test)]
mod tests;
