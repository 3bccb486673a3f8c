//! `tool skill`, for who installs skills, agrees on them and hands them on.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What the user says to a component before it is shown.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Consent {
    /// Do not ask. Effects that a new version has beyond the one before are asked for all the same, or named by
    /// --allow-effects
    #[arg(long)]
    pub(crate) yes: bool,
    /// Effects that a new version may have beyond the one before, separated by commas
    #[arg(long, value_name = "EFFECTS", value_delimiter = ',')]
    pub(crate) allow_effects: Vec<String>,
    /// Refuse what none of [skills.identities] in config.toml has signed
    #[arg(long)]
    pub(crate) require_signature: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rollout {
    /// Show what a component asks for; with confirmation, copy it to ~/.tool/skills and pin its digest and effects
    ///
    /// Where a version of it is pinned, what has changed since is shown, and effects that it did not have are asked for
    /// again.
    #[command(after_help = "\
Examples:
  tool skill add target/wasm32-wasip2/release/todo.wasm
  tool skill add todo.wasm --yes
  tool skill add todo.wasm --yes --allow-effects read-git
  tool skill add oci://registry.example.org/team/todo:1.0")]
    Add {
        /// A component, a folder with components, or a place in a registry:
        /// oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]
        source: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Pin the digest and the effects of a component that lies in ~/.tool/skills
    #[command(after_help = "\
Examples:
  tool skill trust todo")]
    Trust {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Look where a skill came from, and pin what is there now
    ///
    /// A tag that means something else than before is shown and asked about.
    #[command(after_help = "\
Examples:
  tool skill update todo
  tool skill update todo --from oci://registry.example.org/team/todo:2.0
  tool skill update --all --yes")]
    Update {
        /// Name of the skill
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Every skill whose place is known
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Look here instead, from now on: a component or a place in a registry
        #[arg(long, value_name = "SOURCE", requires = "name")]
        from: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Remove a component from ~/.tool/skills
    #[command(after_help = "\
Examples:
  tool skill remove todo")]
    Remove {
        /// Name of the skill
        name: String,
    },
    /// Offer a skill to no model and call it for nobody; what it is and may do stays pinned
    #[command(after_help = "\
Examples:
  tool skill disable todo")]
    Disable {
        /// Name of the skill
        name: String,
    },
    /// Bring a disabled skill back
    #[command(after_help = "\
Examples:
  tool skill enable todo")]
    Enable {
        /// Name of the skill
        name: String,
    },
    /// Write skills.lock: the skills that can be used now, for a team to commit
    #[command(after_help = "\
Examples:
  tool skill lock
  tool skill lock --dir ../shared")]
    Lock {
        /// Folder of the file [default: the repository root]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Make the skills what skills.lock says, each as `add` does
    ///
    /// Nothing is granted beyond the file, nor beyond what you say yes to. What a skill has beyond the file it keeps, because
    /// your other repositories may need it: in this one the file narrows it. Exit code 2 where --frozen finds a difference.
    #[command(after_help = "\
Examples:
  tool skill sync
  tool skill sync --frozen            in CI: change nothing, ask nothing, list what differs")]
    Sync {
        /// Folder of the file [default: the repository root]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Change nothing and ask nothing: list what differs and fail
        #[arg(long)]
        frozen: bool,
        /// Also take effects that the file does not grant from skills that have them, in every repository
        #[arg(long, conflicts_with = "frozen")]
        narrow: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Show the least policy that a skill needs, by making its calls again under a recorder
    ///
    /// Recent calls of this repository are made again, or the cases in a folder. Nothing is changed and nothing runs: what
    /// would be proposed is noted, what would run or commit is denied and noted.
    #[command(after_help = "\
Examples:
  tool skill audit todo
  tool skill audit todo --cases todo/
  tool skill audit todo --json | jq .superfluous")]
    Audit {
        /// Name of the skill
        name: String,
        /// A folder with `cases.toml` and `fixture/`; those cases are made instead
        #[arg(long, value_name = "DIR")]
        cases: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Push a component to a registry, with the signature that lies beside it
    ///
    /// The login is that of `docker login`. Without TLS only registries of this machine are spoken to.
    #[command(after_help = "\
Examples:
  tool skill push todo.wasm oci://registry.example.org/team/todo:1.0
  tool skill push todo oci://localhost:5000/todo")]
    Push {
        /// The component: a file, or the name of a skill that is there
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// Where to: oci://HOST[:PORT]/REPOSITORY[:TAG]
        place: String,
    },
    /// Make keys that sign skills
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool skill keys new"
    )]
    Keys(Keys),
    /// Sign a component: what is signed is its digest
    ///
    /// The signature goes into a file beside the component, `NAME.wasm.sig`, and `push` takes it along.
    #[command(after_help = "\
Examples:
  tool skill sign todo.wasm --key team.key")]
    Sign {
        /// The component: a file, or the name of a skill that is there
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// The private key, a PEM file without a password
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Write a private and a public key, NAME.key and NAME.pub
    ///
    /// ECDSA on P-256, as PEM; cosign and openssl read them. The private one has no password: keep it where only you, or
    /// only your CI, can read it.
    #[command(after_help = "\
Examples:
  tool skill keys new
  tool skill keys new --out ~/keys/team")]
    New {
        /// Path of both without the extension
        #[arg(long, value_name = "NAME", default_value = "skill")]
        out: PathBuf,
    },
}
