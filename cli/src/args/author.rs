//! The commands for authors of skills.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Author {
    /// Create a skill: a small complete project with cases, in its own folder
    #[command(after_help = "\
Examples:
  tool skill new todo --lang rust
  tool skill new todo --lang python --dir skills/todo")]
    New {
        /// Name: lower-case letters, digits and `_`
        name: String,
        /// Language of the skill
        #[arg(long, value_enum)]
        lang: SkillLanguage,
        /// Folder to create [default: the name]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Build the skill in a folder: NAME.wasm beside its sources
    ///
    /// Cargo.toml, app.py or skill.js decides the language. Rust uses your cargo and the target wasm32-wasip2. Python
    /// and JavaScript use one fixed version of componentize-py or componentize-js; if it is missing, pip or npm
    /// installs it into ~/.tool/toolchains.
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
    /// Reads cases.toml; each case gets a new copy of the folder fixture beside it. Adds and pins nothing, and starts
    /// no backend. Effects that run programs need --allow. Exits with 1 if a case fails.
    #[command(after_help = "\
Examples:
  tool skill test
  tool skill test --allow run-process
  tool skill test skills/todo --json | jq '.cases[] | select(.passed | not)'")]
    Test {
        /// Folder of the skill
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Allow an effect that runs programs to the cases that ask for it: run-process, install
        #[arg(long, value_name = "EFFECT")]
        allow: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A language that a skill can be begun in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillLanguage {
    /// Rust, with the crate skill-sdk beside it
    Rust,
    /// Python, by componentize-py
    Python,
    /// JavaScript, by componentize-js
    Js,
}

impl SkillLanguage {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Js => "JavaScript",
        }
    }
}
