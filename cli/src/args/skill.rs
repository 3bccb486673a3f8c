//! `tool skill`: commands that show and call skills. `author` and `rollout` have the others.

use std::path::PathBuf;

use clap::Subcommand;

use super::{Author, PolicyFlags, Rollout};

#[derive(Debug, Subcommand)]
pub(crate) enum Skill {
    /// List the skills with their effects and digests
    #[command(after_help = "\
Examples:
  tool skill list
  tool skill list --json | jq '.skills[] | select(.name == \"read_file\").functions[0].parameters'")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run one skill in the sandbox and print its result
    #[command(after_help = "\
Examples:
  tool skill call list_files
  tool skill call search_code '{\"pattern\": \"TODO\"}'
  tool skill call run_tests --allow run-process --receipt")]
    Call {
        /// Name of the skill
        name: String,
        /// Arguments: `NAME=VALUE` each, or one JSON object; `-` reads an object from standard input
        #[arg(value_name = "ARGUMENTS")]
        arguments: Vec<String>,
        /// Print the receipt as JSON on standard error
        #[arg(long)]
        receipt: bool,
        /// Print the whole answer as JSON
        #[arg(long)]
        json: bool,
        /// Print on standard error what the skill prints and logs
        #[arg(long)]
        log: bool,
        #[command(flatten)]
        policy: PolicyFlags,
    },
    #[command(flatten)]
    Author(Author),
    #[command(flatten)]
    Rollout(Rollout),
    /// Show the description and the imports of a component, without running anything but `describe`
    ///
    /// If the component is refused, shows the reason and what can be read without running it; exits with 1.
    #[command(after_help = "\
Examples:
  tool skill inspect read_file
  tool skill inspect ./todo.wasm --json")]
    Inspect {
        /// The component: a file, or the name of a skill
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
