//! `tool skill`: commands that install skills, agree on them and hand them on.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Flags that agree to a component before it is shown.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Consent {
    /// Do not ask: a new component gets read-repository and what --allow-effects names
    #[arg(long)]
    pub(crate) yes: bool,
    /// Effects to grant, separated by commas
    #[arg(long, value_name = "EFFECTS", value_delimiter = ',')]
    pub(crate) allow_effects: Vec<String>,
    /// Refuse a component that no key of [skills.identities] in config.toml has signed
    #[arg(long)]
    pub(crate) require_signature: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rollout {
    /// Show what a component asks for; with your yes, copy it to ~/.tool/skills and pin its digest and effects
    ///
    /// If a version is pinned already, shows the changes and asks about new effects.
    #[command(after_help = "\
Examples:
  tool skill add target/wasm32-wasip2/release/todo.wasm
  tool skill add todo.wasm --yes
  tool skill add todo.wasm --yes --allow-effects read-git
  tool skill add oci://registry.example.org/team/todo:1.0")]
    Add {
        /// A component, a folder with components, or a registry: oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]
        source: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Pin the digest and the effects of a component in ~/.tool/skills
    #[command(after_help = "\
Examples:
  tool skill trust todo")]
    Trust {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Get the current version of a skill from its source, and pin it
    ///
    /// If a tag moved, shows the difference and asks.
    #[command(after_help = "\
Examples:
  tool skill update todo
  tool skill update todo --from oci://registry.example.org/team/todo:2.0
  tool skill update --all --yes")]
    Update {
        /// Name of the skill
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Update every skill with a known source
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Use this source from now on: a component or a registry
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
    /// Turn a skill off without removing it
    #[command(after_help = "\
Examples:
  tool skill disable todo")]
    Disable {
        /// Name of the skill
        name: String,
    },
    /// Turn a disabled skill on again
    #[command(after_help = "\
Examples:
  tool skill enable todo")]
    Enable {
        /// Name of the skill
        name: String,
    },
    /// Write skills into skills.lock, for your team to commit
    ///
    /// Locks the versions that you have added last; the other skills of the file stay as they are. Without names, locks
    /// the skills of the file again. To take a skill out of the file, delete its lines.
    #[command(after_help = "\
Examples:
  tool skill lock todo lint
  tool skill lock
  tool skill lock --all --dir ../shared")]
    Lock {
        /// Names of skills
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Lock every usable skill, and no others
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// Folder of the file [default: the repository root]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Install the skills listed in skills.lock
    ///
    /// Grants only effects that the file lists and that you say yes to. A skill keeps effects that the file does not
    /// list, because your other repositories may need them; in this repository the file narrows them. Exits with 2 if
    /// --frozen finds a difference.
    #[command(after_help = "\
Examples:
  tool skill sync
  tool skill sync --frozen            for CI: change nothing, ask nothing, list differences")]
    Sync {
        /// Folder of the file [default: the repository root]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Change nothing and ask nothing: list differences and fail
        #[arg(long)]
        frozen: bool,
        /// Also remove effects that the file does not list, in every repository
        #[arg(long, conflicts_with = "frozen")]
        narrow: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Find the minimum permissions a skill needs by replaying its calls
    ///
    /// Replays recent calls in this repository, or the cases in a folder. Changes nothing and runs no programs:
    /// proposals are recorded, and runs and commits are denied and recorded.
    #[command(after_help = "\
Examples:
  tool skill audit todo
  tool skill audit todo --cases todo/
  tool skill audit todo --json | jq .superfluous")]
    Audit {
        /// Name of the skill
        name: String,
        /// Folder with `cases.toml` and `fixture/`, to replay in place of recent calls
        #[arg(long, value_name = "DIR")]
        cases: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Push a component to a registry, with the signature beside it
    ///
    /// Uses the login of `docker login`. Only registries on this machine work without TLS.
    #[command(after_help = "\
Examples:
  tool skill push todo.wasm oci://registry.example.org/team/todo:1.0
  tool skill push todo oci://localhost:5000/todo")]
    Push {
        /// The component: a file, or the name of a skill
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// Destination: oci://HOST[:PORT]/REPOSITORY[:TAG]
        place: String,
    },
    /// Create keys to sign skills
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool skill keys new"
    )]
    Keys(Keys),
    /// Give skills a secret for requests to one host, such as an access token
    ///
    /// A skill that declares `secret:NAME` can send it in one header to one host. It never sees the value.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool skill secret set tickets_token --host tickets.example.org"
    )]
    Secret(SecretCommand),
    /// Clear what skills keep from call to call
    #[command(
        subcommand,
        after_help = "\
Examples:
  tool skill store clear tickets"
    )]
    Store(StoreCommand),
    /// Sign the digest of a component
    ///
    /// Writes the signature to a file beside the component, `NAME.wasm.sig`. `push` uploads it.
    #[command(after_help = "\
Examples:
  tool skill sign todo.wasm --key team.key")]
    Sign {
        /// The component: a file, or the name of a skill
        #[arg(value_name = "FILE_OR_NAME")]
        component: PathBuf,
        /// The private key, a PEM file without a password
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret
    ///
    /// Asks for the value, which the terminal does not show, or reads it from standard input. The file with it,
    /// ~/.tool/secrets.json, is for you alone.
    #[command(after_help = "\
Examples:
  tool skill secret set tickets_token --host tickets.example.org
  pass show tickets | tool skill secret set tickets_token --host tickets.example.org --header x-api-key")]
    Set {
        /// Name of the secret, as the skill's effect `secret:NAME` has it
        name: String,
        /// The only host that gets it, with `:PORT` if the port is not 443
        #[arg(long)]
        host: String,
        /// The only header that it is sent in
        #[arg(long, value_name = "NAME", default_value = tool_config::DEFAULT_SECRET_HEADER)]
        header: String,
    },
    /// List the secrets with their hosts and headers, without their values
    #[command(after_help = "\
Examples:
  tool skill secret list")]
    List,
    /// Remove a secret
    #[command(after_help = "\
Examples:
  tool skill secret remove tickets_token")]
    Remove {
        /// Name of the secret
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Remove what a skill has kept in this repository
    #[command(after_help = "\
Examples:
  tool skill store clear tickets
  tool skill store clear tickets --all")]
    Clear {
        /// Name of the skill
        name: String,
        /// In every repository
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create a private and a public key, NAME.key and NAME.pub
    ///
    /// ECDSA on P-256, as PEM; cosign and openssl can read them. The private key has no password: keep it where only
    /// you, or only your CI, can read it.
    #[command(after_help = "\
Examples:
  tool skill keys new
  tool skill keys new --out ~/keys/team")]
    New {
        /// Path of both files, without the extension
        #[arg(long, value_name = "NAME", default_value = "skill")]
        out: PathBuf,
    },
}
