//! The commands of somebody who writes a skill.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Author {
    /// Make a new skill: a small complete project with cases, in a folder of its own
    #[command(after_help = "\
Examples:
  tool skill new todo --lang rust
  tool skill new todo --lang python --dir skills/todo")]
    New {
        /// Its name: lower-case letters, digits and `_`
        name: String,
        /// The language that it is written in
        #[arg(long, value_enum)]
        lang: Language,
        /// The folder to make [default: the name]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Build the skill in a folder: NAME.wasm beside its sources
    ///
    /// The language is that of what lies there: Cargo.toml, app.py or skill.js. Rust is built by the cargo and the target
    /// wasm32-wasip2 that are there. Of componentize-py and componentize-js one version each is used: where it is not
    /// there, it is installed into ~/.tool/toolchains, by pip or npm.
    #[command(after_help = "\
Examples:
  tool skill build
  tool skill build skills/todo")]
    Build {
        /// Folder of the skill
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Run a skill's own cases in the sandbox and show what each call cost
    ///
    /// The cases are those of cases.toml, each on a fresh copy of the folder fixture beside it. Nothing is added or pinned,
    /// no backend is started. What runs programs a case does not get by its file alone. Exit code 1 where a case fails.
    #[command(after_help = "\
Examples:
  tool skill test
  tool skill test --allow run-process
  tool skill test skills/todo --json | jq '.cases[] | select(.passed | not)'")]
    Test {
        /// Folder of the skill
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Let the cases have an effect that runs programs, where they allow it: run-process, install
        #[arg(long, value_name = "EFFECT")]
        allow: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A language that a skill can be begun in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Rust, with the crate skill-sdk beside it
    Rust,
    /// Python, by componentize-py
    Python,
    /// JavaScript, by componentize-js
    Js,
}

impl Language {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Js => "JavaScript",
        }
    }
}
