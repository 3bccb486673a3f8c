//! Arguments of `tool init` and `tool models`.

use clap::{ArgGroup, Args, Subcommand};

use super::{Provider, Wire};

/// `tool init`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("server").args(["provider", "vendor"])))]
pub(crate) struct Init {
    /// Vendor to enable, for example anthropic, openai or ollama; the book lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) vendor: Option<String>,
    /// Provider to enable
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,
    /// API of the hosted provider or the vendor [default: the one in the file, else the usual one]
    #[arg(long, value_enum, requires = "server")]
    pub(crate) api: Option<Wire>,
    /// Base URL; `default` is the provider's own
    ///
    /// Without this flag the URL in the file stays, unless you choose another provider or API.
    #[arg(long, requires = "server")]
    pub(crate) url: Option<String>,
    /// Model identifier
    #[arg(long, requires = "server")]
    pub(crate) model: Option<String>,
    /// Region, for bedrock, vertex and qwen
    #[arg(long, requires = "vendor")]
    pub(crate) region: Option<String>,
    /// Project, for vertex
    #[arg(long, requires = "vendor")]
    pub(crate) project: Option<String>,
    /// Name of the resource, for azure; of the workspace, for qwen
    #[arg(long, requires = "vendor")]
    pub(crate) resource: Option<String>,
    /// Read the API key from standard input and store it in the file; an environment variable is safer
    #[arg(long, requires = "server")]
    pub(crate) api_key_stdin: bool,
    /// Enable the embedded analyst, which needs neither key nor network
    #[arg(long, conflicts_with_all = ["server", "api", "url", "model", "api_key_stdin"])]
    pub(crate) offline: bool,
    /// Port of the backend [default: 8000]; 0 takes any free port. Alone, it changes only the port
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
}

/// `tool models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    /// Subcommand; absent for the list
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Subcommands of `tool models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Enable another server, with the model that is set for it or another one
    ///
    /// Fails, and changes nothing, if the key or the model is missing.
    #[command(after_help = "\
Examples:
  tool models use ollama qwen3-coder
  tool models use openai")]
    Use {
        /// A vendor, one of your own in [vendors.NAME], `hosted`, `local`, `router` or `analyst`
        #[arg(value_name = "VENDOR")]
        vendor: String,
        /// Model identifier [default: the one in the file]
        #[arg(value_name = "MODEL")]
        model: Option<String>,
    },
}
