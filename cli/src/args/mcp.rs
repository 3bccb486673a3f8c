//! `tool mcp`: the skills for another agent.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tool_core::api::McpOperation;

use super::PolicyFlags;

/// `tool mcp`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    /// Repository for the skills; the same as --repo
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// For programs: declare a schema of results, and send them structured beside the text
    #[arg(long)]
    pub(crate) structured: bool,
    /// Also offer an operation: `context`, or `explain`, which spends tokens of your model
    #[arg(long, value_name = "OPERATION")]
    pub(crate) operation: Vec<McpOperation>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print or write the entry for another agent's configuration
    ///
    /// `--write` merges the entry into the file and shows the difference; the rest of the file stays. JSON with
    /// comments is never written, and links in the repository are not followed.
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
    /// Repository for the skills; the same as --repo
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Grant an effect to that agent, as `tool mcp --allow` does
    #[arg(long, value_name = "EFFECT")]
    pub(crate) allow: Vec<String>,
    /// Name of the entry [default: `tool`, with the folder's name if one file serves all repositories]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Write the entry into the agent's file instead of printing it
    #[arg(long)]
    pub(crate) write: bool,
    /// Replace a different entry of the same name
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
