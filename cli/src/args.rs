//! The command line as clap knows it. The doc comments are the help texts.

mod author;
mod batch;
mod ci;
mod mcp;
mod rollout;
mod session;
mod setup;
mod skill;
mod test_commands;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tool_core::api::Operation;

pub(crate) use author::{Author, SkillLanguage};
pub(crate) use batch::{BatchArguments, Shard};
pub(crate) use ci::{CiArguments, CiHost, SessionFlags};
pub(crate) use mcp::{Install, Mcp, McpClient, McpCommand};
pub(crate) use rollout::{Consent, Keys, Rollout, SecretCommand, StoreCommand};
pub(crate) use session::{PolicyFlags, Provider, RunArguments, Steer, TestFlags, Wire};
pub(crate) use setup::{Init, ModelsArguments, ModelsCommand};
pub(crate) use skill::Skill;
pub(crate) use test_commands::{CheckName, TestsArguments, TestsCommand};

/// A repository-aware code assistant that keeps the model in a sandbox
///
/// The answer goes to standard output, everything else to standard error. On a terminal the answer is rendered; in a
/// pipe it is Markdown. Errors are `[error] MESSAGE`, followed by `hint: …` if you can fix them.
///
/// Exit codes: 0 success, 1 operation failed, denied or incomplete, 2 configuration or usage error, 3 backend not
/// running or cannot start, 130 interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "tool",
    version = env!("TOOL_VERSION"),
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Examples:
  tool init                      choose a provider
  tool explain .                 explain this repository
  tool test-gen src/parser.py    write tests for a file
  tool help explain              the same as `tool explain --help`"
)]
pub(crate) struct CliArguments {
    /// Repository root [default: the nearest git work tree, else the working directory]
    #[arg(long, global = true, value_name = "DIR", display_order = 900)]
    pub(crate) repo: Option<PathBuf>,

    /// Print nothing but the answer and errors
    #[arg(long, short, global = true, display_order = 901)]
    pub(crate) quiet: bool,

    /// Print each file and each call on a terminal, too
    #[arg(long, short, global = true, display_order = 902, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or change ~/.tool/config.toml
    ///
    /// Asks you on a terminal: for the vendor, a missing key and the model; then it sends one tiny request. Without a
    /// terminal it enables `hosted` if HOSTED_API_KEY and HOSTED_MODEL are set, and the embedded analyst otherwise.
    /// `--vendor` asks nothing, and exits with 2 if the key or the model is missing. Keys and comments in the file stay.
    /// Switching the provider or API removes the old `url` and prints a note.
    #[command(after_help = "\
Examples:
  tool init                                        asks, on a terminal
  tool init --vendor anthropic --model MODEL       the key in ANTHROPIC_API_KEY
  tool init --vendor ollama --model qwen3-coder    a model server on this machine
  tool init --offline                              the embedded analyst: no key, no network
  tool init --provider local --model qwen3-coder   a model server on this machine
  tool init --provider hosted --model MODEL        the key in HOSTED_API_KEY
  tool init --provider hosted --model MODEL --api-key-stdin < key.txt
  tool init --port 8123                            another port, if 8000 is taken")]
    Init(Init),

    /// List models and servers, or switch to another
    ///
    /// Without a subcommand it lists the servers in your configuration and the models that the enabled one offers, with
    /// context size and price where the server says. Several servers may be configured; one is enabled.
    #[command(after_help = "\
Examples:
  tool models
  tool models use groq                    the model that is set for it
  tool models use anthropic MODEL
  tool models use local                   the server that [providers.local] describes
  tool models use analyst                 no model")]
    Models(ModelsArguments),

    /// Explain the repository, files, lines or a symbol, or answer a question about the code
    ///
    /// Text without a space is a path or the name of a definition; text with a space is a question. A question needs a
    /// model.
    #[command(after_help = "\
Examples:
  tool explain                            the whole repository
  tool explain . --full                   the same, with all sections
  tool explain src/server.py src/routes   several files and directories
  tool explain src/server.py:10-40        some lines
  tool explain Blueprint.route            a definition, by its name
  tool explain \"how are sessions stored?\"
  tool explain . --output ARCHITECTURE.md
  tool explain . --json | jq -r 'select(.type == \"skill\") | .name'")]
    Explain {
        /// Files and directories, relative to the working directory or to the repository root; a path with lines
        /// (`PATH:10-40`); the name of a definition; or a question
        #[arg(value_name = "FILE_OR_DIRECTORY")]
        targets: Vec<String>,
        /// Without a model: all sections of an overview, as `--output` writes them
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Answer a question about the repository
    ///
    /// Works as `tool explain` with a question, also for a question that looks like a path or a name.
    #[command(after_help = "\
Examples:
  tool ask \"where is a request authenticated?\"
  tool ask architecture
  tool ask - < question.txt")]
    Ask {
        /// The question; `-` reads it from standard input
        #[arg(value_name = "QUESTION", required = true)]
        question: Vec<String>,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Propose architectural improvements that are specific to this repository
    #[command(after_help = "\
Examples:
  tool architect \"make the storage layer replaceable\"
  tool architect - < task.md")]
    Architect {
        /// A task, or a path; `-` reads a task from standard input
        #[arg(value_name = "TASK")]
        task: String,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Improve code: edits files; undo with `tool undo`
    #[command(after_help = "\
Examples:
  tool refactor \"replace the hand-written retry loop\" --focus src/client
  tool refactor src/legacy.py
  tool refactor \"drop the global\" --preview          changes no file; `tool apply` does
  tool refactor src/legacy.py --require-sandbox      runs nothing without the full sandbox
  git log -1 --format=%B | tool refactor -")]
    Refactor {
        /// A task, or a path; `-` reads a task from standard input
        #[arg(value_name = "TASK")]
        task: String,
        /// Narrow the task, for example to a directory or a subject
        #[arg(long, value_name = "FOCUS")]
        focus: Option<String>,
        /// Change no file: propose the changes, tested, for `tool apply`
        #[arg(long)]
        preview: bool,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Write tests for a source file, in the style of your tests
    #[command(
        name = "test-gen",
        after_help = "\
Examples:
  tool test-gen src/parser.py
  tool test-gen src/parser.py --require-sandbox      runs nothing without the full sandbox"
    )]
    TestGen {
        /// Source file
        #[arg(value_name = "FILE")]
        file: String,
        /// Write no file: propose the tests, run, for `tool apply`
        #[arg(long)]
        preview: bool,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Run an operation in a job of a CI system: reports, annotations, and an exit code
    ///
    /// If there is no configuration, HOSTED_API_KEY and HOSTED_MODEL enable the hosted provider, --vendor enables a vendor,
    /// and the embedded analyst answers otherwise. The folder of the reports gets summary.md, answer.md, result.json and
    /// session.md; for architect also findings.sarif and, on GitLab, code-quality.json. On GitHub the job gets the summary,
    /// annotations on the lines of the findings, and outputs of the step. A change from a fork and an event that strangers
    /// can cause are not trusted, and `pull_request_target` is refused. The backend listens on no port and ends with the job.
    #[command(after_help = "\
Examples:
  tool ci explain
  tool ci architect \"what in this change does not fit the repository\"
  tool ci refactor \"replace the retry loop\" --allow run-process --require-verified
  tool ci architect \"make the storage layer replaceable\" --vendor anthropic --model MODEL --max-cost 0.50")]
    Ci(CiArguments),

    /// Run an operation on many repositories, and collect the results
    ///
    /// The list holds paths and git URLs (https, ssh, and http on this machine). Your git clones URLs, without hooks,
    /// submodules and filters. Each repository gets one line in results/I-of-N.jsonl, with the answer. Started again with the
    /// same list and folder, the batch goes on: only repositories without a result run. summary.md and summary.html
    /// show the results of all shards. Exits with 1 if a session failed or did not run.
    #[command(after_help = "\
Examples:
  tool batch repositories.txt
  tool batch repositories.txt --operation architect --task \"find duplicated clients\" --max-cost 20
  tool batch repositories.txt --shard 2/8 --parallel 8
  tool batch repositories.txt --results batch-results --summarize")]
    Batch(BatchArguments),

    /// Go on with a conversation: a question or a task after an earlier one
    ///
    /// The model gets the earlier messages again, learns which files have changed since and what was undone, and does not
    /// get anything allowed that you allowed before. Each turn is a session of its own, with its own `tool diff` and `tool
    /// undo`. A conversation that was on `local` alone goes to another provider only after a yes, or with `--provider`.
    #[command(after_help = "\
Examples:
  tool continue \"and where is that tested?\"             the newest session in this repository
  tool continue 01a1f88f \"what if the file is empty?\"   another one, by the beginning or the end of its identifier
  tool continue --as refactor \"do what you proposed first\"")]
    Continue {
        /// Identifier of a session, where there is a text behind it; then the question or task. `-` reads it from standard
        /// input
        #[arg(value_name = "TEXT", required = true)]
        words: Vec<String>,
        /// Operation of this turn [default: that of the session before]
        #[arg(long = "as", value_name = "OPERATION", value_enum)]
        operation: Option<TurnOperation>,
        /// Change no file: propose the changes for `tool apply`. After a preview every turn is one
        #[arg(long)]
        preview: bool,
        #[command(flatten)]
        run: RunArguments,
    },

    /// Show which files an operation would send to the model, and why
    #[command(after_help = "\
Examples:
  tool context \"retry failed uploads\"
  tool context --operation explain src/server.py
  tool context --exclude 'tests/**' --include src/api.py --json \"retry failed uploads\"")]
    Context(Select),

    /// Draw the modules of a directory, or the callers and callees of a symbol
    ///
    /// Files, folders or packages with the imports between them, or definitions with the calls between them: at most 25, the
    /// rest folded. Mermaid is drawn by GitHub, GitLab and many editors; `dot` of Graphviz draws the other form. Calls are
    /// matched by syntax, without types: a dashed edge is known by name only. Asks no model.
    #[command(after_help = "\
Examples:
  tool graph
  tool graph src
  tool graph --packages --format dot | dot -Tsvg > packages.svg
  tool graph --symbol Cart.total
  tool graph --symbol run src/server.py
  tool graph --json src")]
    Graph(GraphArguments),

    /// Show sessions by repository: this one first, the newest session last
    ///
    /// Turns of a conversation stand together. `--repo DIR` shows only the sessions of one repository. A session that was
    /// undone names its undo, which can be undone, too. JSON lists running sessions under `running`.
    #[command(after_help = "\
Examples:
  tool history
  tool history --repo . --limit 5
  tool history --operation refactor --status failed
  tool history --operation skill-call
  tool history --model MODEL --json")]
    History(History),

    /// Follow a running session from its beginning
    ///
    /// Shows the output of the command that started it. Ctrl-C leaves the session running. You can answer its questions
    /// only where it was started.
    #[command(after_help = "\
Examples:
  tool attach                  the newest running session in this repository
  tool attach 01a1f88f         the beginning of an identifier")]
    Attach {
        /// Identifier of the session or its beginning; `latest` is the newest running one in this repository
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print the events as JSON, one a line
        #[arg(long)]
        json: bool,
    },

    /// Cancel a running session
    ///
    /// Its changes so far stay; undo them with `tool undo`.
    #[command(after_help = "\
Examples:
  tool cancel 01a1f88f         the beginning of an identifier
  tool cancel latest           the newest running session in this repository")]
    Cancel {
        /// Identifier of the session or its beginning; `latest` is the newest running one in this repository
        #[arg(value_name = "SESSION")]
        session: String,
    },

    /// Show the result of a session
    ///
    /// Exits with 1 if the session failed or was cancelled. The last 100 sessions are kept.
    #[command(after_help = "\
Examples:
  tool results                 the newest session in this repository
  tool results 01a1f88f        the beginning of an identifier
  tool results latest --json")]
    Results {
        /// Identifier of the session or its beginning; `latest` is the newest ended one in this repository
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Show the changes of a session
    ///
    /// Prints a unified diff in git's form, and names files that you changed since.
    #[command(after_help = "\
Examples:
  tool diff                    the changes that `tool undo` would undo
  tool diff 01a1f88f           the beginning of an identifier
  tool diff | git apply -R --check")]
    Diff {
        /// Identifier of the session or its beginning; `latest` is the newest one in this repository that changed files
        /// and is not undone
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Undo the changes of a session, byte for byte
    ///
    /// Files that you changed since are named and left alone; the exit code is 1 then. Where your edits touch other
    /// lines, the merge is shown, and a yes on a terminal or --merge makes it. An undo is a session that can be undone,
    /// too. Without a name, the newest session that changed files is undone. If it is undone already, an earlier
    /// session is undone only if you name it, or after a yes on a terminal. Only changes of files through skills are
    /// undone: commits, installations and files written by commands stay. Commits and installations are named.
    #[command(after_help = "\
Examples:
  tool undo                    the newest session that changed files
  tool undo 01a1f88f           the beginning of an identifier
  tool undo UNDO               an undo, as it was printed: brings the changes back
  tool undo --conversation     all turns of the conversation, the newest first")]
    Undo {
        /// Identifier of the session or its beginning; `latest` is the newest one in this repository that changed files
        /// and is not undone
        #[arg(value_name = "SESSION", default_value = "latest")]
        session: String,
        /// Undo all turns of the session's conversation, the newest first
        #[arg(long)]
        conversation: bool,
        /// Undo also beside your later edits of the same files, where they touch other lines
        #[arg(long)]
        merge: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Put the changes of a preview in place
    ///
    /// Checks them like any change and applies all or none: a file that has changed since the preview is named, and
    /// nothing is applied. Applying is a session that can be undone. Some of the files count as not verified, because the
    /// tests of the preview ran with all of them.
    #[command(after_help = "\
Examples:
  tool apply                        the newest preview in this repository
  tool apply 01a1f88f src/api.py    one file, or all below a directory
  tool apply --patch change.diff    writes a patch for `git apply` instead")]
    Apply {
        /// Identifier of the preview or its beginning [default: the newest one]; then files and directories
        #[arg(value_name = "SESSION_OR_PATH")]
        words: Vec<String>,
        /// Apply what a preview has left that failed or was cancelled
        #[arg(long)]
        partial: bool,
        /// Change nothing, and write the changes to FILE as a patch; `-` is standard output
        #[arg(long, value_name = "FILE", conflicts_with_all = ["partial", "json"])]
        patch: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Drop the changes that a preview proposes
    ///
    /// Drops those of all turns of its conversation. The repository does not change, and nothing brings the proposals back.
    #[command(after_help = "\
Examples:
  tool discard                 the newest preview in this repository
  tool discard 01a1f88f        the beginning of an identifier")]
    Discard {
        /// Identifier of the preview or its beginning; `latest` is the newest one in this repository
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
  tool skill call search_code pattern=TODO"
    )]
    Skill(Skill),

    /// Let another agent use the skills: a Model Context Protocol server on standard input and output
    ///
    /// Each connection is one session, listed by `tool history` and ended by `tool cancel`. Skills may read; flags
    /// grant other effects. If the policy needs an answer, the agent's user is asked, if the agent can ask. The backend
    /// serves the same over HTTP, at /mcp?root=/ABSOLUTE/PATH.
    #[command(after_help = "\
Examples:
  tool mcp                                   the command for another agent
  tool mcp --root ~/project --allow run-process
  tool mcp install claude-code               prints the entry for its configuration
  tool mcp install codex --write             writes the entry")]
    Mcp(Mcp),

    /// Start, stop, restart or inspect the backend
    ///
    /// Commands start the backend when they need it, on port 8000 or TOOL_BACKEND_PORT, and it keeps running;
    /// `idle_minutes` in [server] of config.toml ends an idle one. An idle backend of another version is replaced; a
    /// busy one is not. SIGTERM ends its sessions and stops it; SIGHUP reads the configuration again. Its logs are
    /// backend.log and access.log in ~/.tool/logs.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool service start
  tool service status --json"
    )]
    Service(Service),

    /// Show which tests and checks would run here and why, or choose the command
    ///
    /// In this order count: `--test-command` or TOOL_TEST_COMMAND, `tool tests set`, [tests] in config.toml, and what the
    /// files of the repository say. Without a subcommand it lists that. Starts nothing.
    #[command(after_help = "\
Examples:
  tool tests
  tool tests --path packages/cart         what runs for this folder
  tool tests set -- make check
  tool tests unset
  tool tests clean                        deletes kept build output")]
    Tests(TestsArguments),

    /// Show every setting, its value and where it comes from
    ///
    /// Shows only the length of keys. Starts nothing and sends nothing. Exits with 2 if the configuration is missing or
    /// wrong.
    #[command(after_help = "\
Examples:
  tool config
  tool config --json | jq '.settings[] | select(.origin.layer == \"environment\")'")]
    Config {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Check the configuration, the backend, the provider, the skills and the sandbox
    ///
    /// Each line is `ok`, `warn` or `fail`, with the command that fixes the problem. Starts no backend. Exits with 0 if
    /// nothing fails, with 2 if the configuration fails, and with 1 otherwise.
    #[command(after_help = "\
Examples:
  tool doctor
  tool doctor --probe          also tests the model; costs a few hundred tokens
  tool doctor --sandbox        runs attacks on the sandbox
  tool doctor --json")]
    Doctor {
        /// Send small requests to the provider to find out what the model can do
        #[arg(long)]
        probe: bool,
        /// Run every known attack on the sandbox of this machine instead, and show which ones it stops
        #[arg(long, conflicts_with = "probe")]
        sandbox: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Helpers for experiments and for your own tests
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

    /// Print the manual page, or write one page for each command
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
        /// Port on 127.0.0.1; 0 takes any free port; without it the backend listens on its Unix socket alone
        #[arg(long)]
        port: Option<u16>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct History {
    /// Only sessions of this model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Only sessions of this operation; `mcp` is connections of other agents, `skill-call` your own skill calls
    #[arg(long, value_enum)]
    pub(crate) operation: Option<OperationName>,
    /// Only sessions with this status
    #[arg(long, value_enum)]
    pub(crate) status: Option<StatusName>,
    /// At most N sessions
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
    Apply,
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
            Self::Apply => "apply",
        }
    }
}

/// Operation of a turn.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TurnOperation {
    Explain,
    Architect,
    Refactor,
    TestGen,
}

impl From<TurnOperation> for Operation {
    fn from(operation: TurnOperation) -> Self {
        match operation {
            TurnOperation::Explain => Self::Explain,
            TurnOperation::Architect => Self::Architect,
            TurnOperation::Refactor => Self::Refactor,
            TurnOperation::TestGen => Self::TestGen,
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

/// `tool context`.
#[derive(Debug, Args)]
pub(crate) struct Select {
    /// A task, or a path [default: the whole repository]
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// The operation to select for
    #[arg(long, default_value = "refactor", value_parser = ["explain", "architect", "refactor", "test-gen"])]
    pub(crate) operation: String,
    /// Narrow the task, for example to a directory or a subject
    #[arg(long, value_name = "FOCUS")]
    pub(crate) focus: Option<String>,
    #[command(flatten)]
    pub(crate) steer: Steer,
    /// Print only the paths, best first
    #[arg(long, conflicts_with = "json")]
    pub(crate) paths: bool,
    /// Print everything as JSON, including the text for the model
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tool graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArguments {
    /// Directory to draw; with --symbol, the file or directory whose definitions count [default: the whole repository]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Draw the packages of a workspace instead of folders and files
    #[arg(long, conflicts_with = "symbol")]
    pub(crate) packages: bool,
    /// Draw the callers and callees of a function, method or type: `total`, `Cart.total`
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: Option<String>,
    /// The form of the graph
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "mermaid")]
    pub(crate) format: GraphFormat,
    /// Print JSON: short for `--format json`
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// Form of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
    /// For programs
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
    /// Running sessions are cancelled; their reports keep the answer so far.
    #[command(after_help = "\
Examples:
  tool service stop")]
    Stop,
    /// Stop the backend, if it runs, and start it
    ///
    /// Uses a new port, address and version at once, even if sessions are running.
    #[command(after_help = "\
Examples:
  TOOL_BACKEND_PORT=9000 tool service restart")]
    Restart,
    /// Show whether the backend is running (exit code 3 if it is not)
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
pub(crate) enum Dev {
    /// Serve a script as a model server on 127.0.0.1, to work without a model and a key
    ///
    /// The server speaks all four wires; the path of a request decides. It runs
    /// until you interrupt it.
    #[command(after_help = "\
Examples:
  tool dev model-server --example > script.json
  tool dev model-server --script script.json
  tool dev model-server --script script.json --port 1234 --log")]
    ModelServer {
        /// The script, a JSON file
        #[arg(long, value_name = "FILE", required_unless_present = "example")]
        script: Option<PathBuf>,
        /// Port on 127.0.0.1; 0 takes any free port
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Print each request and its answer on standard error
        #[arg(long)]
        log: bool,
        /// Print a working script and exit
        #[arg(long, conflicts_with_all = ["script", "port", "log"])]
        example: bool,
    },
    /// Run a program without a sandbox, and name the system calls on standard error that a sandbox refuses
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Calls {
        /// The program and its arguments
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "PROGRAM"
        )]
        command: Vec<String>,
    },
}

#[cfg(test)]
mod tests;
