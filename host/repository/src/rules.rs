//! Hidden and protected names: the tables, and the comparison of a path with them.
//!
//! Names count, not files: a path that does not exist yet is judged like one that does. Comparison is after case
//! folding, because a repository may lie on a file system that folds. What only the file system knows (git
//! directories by their shape, keys by their first bytes, hard links) is not judged here but where a file is opened.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet};

use super::path::{self, PathError};
use super::root_file::Narrowing;

/// One line of a table.
///
/// A pattern is compared with the name of a file or directory; one with `/` is compared with as many last parts of
/// the path. One `*` may stand in a pattern without `/`.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Lower case.
    pub pattern: &'static str,
    /// Names that the rule covers.
    pub covers: Covers,
    /// Completes the sentence "`path` is hidden: it …" or "`path` is protected: it …".
    pub reason: &'static str,
}

/// Extent of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// Files and directories, and everything in a directory.
    All,
    /// Only what is not a directory.
    Files,
    /// Files, except those that end as in [`EXAMPLES`]; a directory of that name is skipped, not hidden.
    Environment,
}

/// Endings of environment files that are meant to be read.
const EXAMPLES: [&str; 3] = [".example", ".sample", ".template"];

/// Endings that editors and people give to a copy; the copy of a hidden file is hidden.
const COPIES: [&str; 7] = ["~", ".bak", ".backup", ".old", ".orig", ".save", ".swp"];

const GIT: &str = "is a git directory";
const ENVIRONMENT: &str = "holds environment variables, which are often secrets";
const KEY: &str = "is a private key";
const CREDENTIALS: &str = "holds credentials";
const CLOUD: &str = "holds cloud credentials";
const CERTIFICATE: &str = "is a certificate with its private key";
const STATE: &str = "is Terraform state, which holds secrets";
const REPORTS: &str = "holds this program's own session reports";
/// Folder of the session reports, in the working directory of a session (specification).
pub const REPORTS_FOLDER: &str = "session-reports";
const TEMPORARY: &str = "is a temporary file of a proposal";

const fn all(pattern: &'static str, reason: &'static str) -> Rule {
    Rule {
        pattern,
        covers: Covers::All,
        reason,
    }
}

const fn file(pattern: &'static str, reason: &'static str) -> Rule {
    Rule {
        pattern,
        covers: Covers::Files,
        reason,
    }
}

const fn environment(pattern: &'static str) -> Rule {
    Rule {
        pattern,
        covers: Covers::Environment,
        reason: ENVIRONMENT,
    }
}

/// Hidden: not readable, listable, searchable or selectable.
pub const HIDDEN: &[Rule] = &[
    all(".git", GIT),
    // Other names of `.git` on FAT and NTFS.
    all("git~1", GIT),
    environment(".env"),
    environment(".env.*"),
    environment("*.env"),
    file("id_rsa", KEY),
    file("id_dsa", KEY),
    file("id_ecdsa", KEY),
    file("id_ecdsa_sk", KEY),
    file("id_ed25519", KEY),
    file("id_ed25519_sk", KEY),
    file("id_xmss", KEY),
    file("ssh_host_*_key", KEY),
    file("*.key", KEY),
    file("*.ppk", KEY),
    file("*.p8", KEY),
    file("*.jks", KEY),
    file("*.keystore", KEY),
    file("secring.*", KEY),
    all(".ssh", KEY),
    all(".gnupg", KEY),
    all("private-keys-v1.d", KEY),
    file("*.p12", CERTIFICATE),
    file("*.pfx", CERTIFICATE),
    file(".netrc", CREDENTIALS),
    file("_netrc", CREDENTIALS),
    file(".npmrc", CREDENTIALS),
    file(".pypirc", CREDENTIALS),
    file(".git-credentials", CREDENTIALS),
    // The settings of a Mercurial or Sapling work tree: addresses with passwords, and what `[auth]` holds.
    file(".hg/hgrc", CREDENTIALS),
    file(".hg/hgrc-not-shared", CREDENTIALS),
    file(".sl/config", CREDENTIALS),
    file(".pgpass", CREDENTIALS),
    file(".my.cnf", CREDENTIALS),
    file(".htpasswd", CREDENTIALS),
    file(".dockercfg", CREDENTIALS),
    file(".cargo/credentials", CREDENTIALS),
    file(".cargo/credentials.toml", CREDENTIALS),
    file(".gem/credentials", CREDENTIALS),
    file(".composer/auth.json", CREDENTIALS),
    file(".vault-token", CREDENTIALS),
    file(".terraformrc", CREDENTIALS),
    file("terraform.rc", CREDENTIALS),
    file("*.keytab", CREDENTIALS),
    file("*.kdbx", CREDENTIALS),
    all(".password-store", CREDENTIALS),
    all(".aws", CLOUD),
    all(".azure", CLOUD),
    all(".gcloud", CLOUD),
    all(".config/gcloud", CLOUD),
    all(".config/doctl", CLOUD),
    all(".config/gh", CLOUD),
    all(".config/hcloud", CLOUD),
    all(".oci", CLOUD),
    all(".aliyun", CLOUD),
    all(".bluemix", CLOUD),
    all(".kube", CLOUD),
    file("kubeconfig", CLOUD),
    file("*.kubeconfig", CLOUD),
    file(".s3cfg", CLOUD),
    file(".boto", CLOUD),
    file("rclone.conf", CLOUD),
    file(".docker/config.json", CLOUD),
    all(".terraform.d", CLOUD),
    file("application_default_credentials.json", CLOUD),
    file("*.tfstate", STATE),
    file("terraform.tfstate.*", STATE),
    all(REPORTS_FOLDER, REPORTS),
    all(".tool-proposal-*", TEMPORARY),
];

const VERSION_CONTROL: &str = "belongs to a version-control system, which runs commands that its settings name";
const GIT_FILES: &str = "changes how git acts";
const CI: &str = "defines what continuous integration runs";
const HOOKS: &str = "defines hooks that run code";
const REVIEW: &str = "says who has to agree to a change";
const BOT: &str = "configures a robot that changes the repository";
const PACKAGES: &str = "can make a package manager or a build tool run code";
const SETTINGS: &str = "configures an editor or an agent, which can make it run code";
const ENTERING: &str = "configures a tool that runs code when a shell enters the folder";
pub(super) const INSTALLED: &str = "holds what is installed, which editors, shells and interpreters run";
const STARTING: &str = "is run by a shell, an interpreter or a debugger when it starts";

/// Protected beside everything hidden: never proposed without an exact path in `--allow-path`.
///
/// The table holds names by which other programs run code although the user only enters or opens a folder, starts a
/// shell, or commits. Source and build files that the user runs on purpose (`Makefile`, `package.json`, `build.rs`,
/// `conftest.py`, `eslint.config.js`) are what a refactor is for, and are not in it.
pub const PROTECTED: &[Rule] = &[
    // Version control. `.git` is hidden.
    all(".hg", VERSION_CONTROL),
    all(".hgrc", VERSION_CONTROL),
    all(".sl", VERSION_CONTROL),
    all(".jj", VERSION_CONTROL),
    all(".svn", VERSION_CONTROL),
    all(".bzr", VERSION_CONTROL),
    all("_darcs", VERSION_CONTROL),
    all(".pijul", VERSION_CONTROL),
    all("_mtn", VERSION_CONTROL),
    all(".got", VERSION_CONTROL),
    all(".repo", VERSION_CONTROL),
    all(".gclient*", VERSION_CONTROL),
    all(".p4config*", VERSION_CONTROL),
    // Fossil's databases, and the journals that SQLite plays back into them.
    all(".fslckout*", VERSION_CONTROL),
    all("_fossil_", VERSION_CONTROL),
    all("_fossil_-*", VERSION_CONTROL),
    all(".fossil-settings", VERSION_CONTROL),
    // The folder itself is not protected: a folder `cvs` may hold anything.
    all("cvs/root", VERSION_CONTROL),
    all("cvs/entries", VERSION_CONTROL),
    all("cvs/repository", VERSION_CONTROL),
    all("cvs/checkin.prog", VERSION_CONTROL),
    all("cvs/update.prog", VERSION_CONTROL),
    all(".gitattributes", GIT_FILES),
    all(".gitmodules", GIT_FILES),
    all(".gitconfig", GIT_FILES),
    all(".config/git", GIT_FILES),
    all(".lfsconfig", GIT_FILES),
    all(".gitreview", GIT_FILES),
    // Continuous integration.
    all(".github", CI),
    all(".gitea", CI),
    all(".forgejo", CI),
    all(".gitlab", CI),
    all(".gitlab-ci*", CI),
    all(".circleci", CI),
    all("jenkinsfile*", CI),
    all("azure-pipelines*", CI),
    all(".azure-pipelines*", CI),
    all("bitbucket-pipelines.yml", CI),
    all(".travis.yml", CI),
    all(".drone.*", CI),
    all(".woodpecker*", CI),
    all(".buildkite", CI),
    all(".cirrus.*", CI),
    all(".semaphore", CI),
    all(".teamcity", CI),
    all(".tekton", CI),
    all(".harness", CI),
    all(".build.yml", CI),
    all(".builds", CI),
    all("appveyor.yml", CI),
    all("appveyor.yaml", CI),
    all(".appveyor.yml", CI),
    all("buildspec.yml", CI),
    all("buildspec.yaml", CI),
    all("cloudbuild.yaml", CI),
    all("cloudbuild.yml", CI),
    all("cloudbuild.json", CI),
    all("codefresh.yml", CI),
    all("wercker.yml", CI),
    all("screwdriver.yaml", CI),
    all("screwdriver.yml", CI),
    all(".scrutinizer.yml", CI),
    all("shippable.yml", CI),
    all("codeship-steps.*", CI),
    all("codeship-services.*", CI),
    all("bitrise.yml", CI),
    all("bitrise.yaml", CI),
    all("codemagic.yaml", CI),
    all("codemagic.yml", CI),
    // Services that build and publish each push.
    all("netlify.toml", CI),
    all("vercel.json", CI),
    all("render.yaml", CI),
    all("amplify.yml", CI),
    all(".buddy", CI),
    all("buddy.yml", CI),
    all(".vela.*", CI),
    all(".zuul.*", CI),
    all(".packit.*", CI),
    all(".copr", CI),
    all(".onedev-buildspec.yml", CI),
    all(".ci", CI),
    // Review, and robots.
    all("codeowners", REVIEW),
    all(".policy.yml", REVIEW),
    all(".pullapprove.yml", REVIEW),
    all("renovate.json", BOT),
    all("renovate.json5", BOT),
    all(".renovaterc*", BOT),
    all(".dependabot", BOT),
    all(".mergify*", BOT),
    all(".kodiak.toml", BOT),
    all(".bulldozer.yml", BOT),
    all(".pr_agent.toml", BOT),
    all(".coderabbit.*", BOT),
    // Hooks.
    all(".husky", HOOKS),
    all(".huskyrc*", HOOKS),
    all(".githooks", HOOKS),
    all(".git-hooks", HOOKS),
    all("git-hooks", HOOKS),
    all(".hooks", HOOKS),
    // Git's own names for hooks: `core.hooksPath` can name any folder.
    file("applypatch-msg", HOOKS),
    file("pre-applypatch", HOOKS),
    file("post-applypatch", HOOKS),
    file("pre-commit", HOOKS),
    file("pre-merge-commit", HOOKS),
    file("prepare-commit-msg", HOOKS),
    file("commit-msg", HOOKS),
    file("post-commit", HOOKS),
    file("pre-rebase", HOOKS),
    file("post-checkout", HOOKS),
    file("post-merge", HOOKS),
    file("post-rewrite", HOOKS),
    file("pre-push", HOOKS),
    file("pre-receive", HOOKS),
    file("post-receive", HOOKS),
    file("proc-receive", HOOKS),
    file("post-update", HOOKS),
    file("push-to-checkout", HOOKS),
    file("reference-transaction", HOOKS),
    file("post-index-change", HOOKS),
    file("pre-auto-gc", HOOKS),
    file("fsmonitor-watchman", HOOKS),
    file("sendemail-validate", HOOKS),
    all(".pre-commit-config.yaml", HOOKS),
    all(".pre-commit-config.yml", HOOKS),
    all(".pre-commit-hooks.yaml", HOOKS),
    all("prek.toml", HOOKS),
    all("hk.pkl", HOOKS),
    all("lefthook.*", HOOKS),
    all(".lefthook*", HOOKS),
    all("lefthook-local.*", HOOKS),
    all(".overcommit.yml", HOOKS),
    all(".lintstagedrc*", HOOKS),
    all("lint-staged.config.*", HOOKS),
    all(".commitlintrc*", HOOKS),
    all("commitlint.config.*", HOOKS),
    all(".gitlint", HOOKS),
    all(".simple-git-hooks.*", HOOKS),
    all("captainhook.json", HOOKS),
    all("grumphp.yml", HOOKS),
    all(".arcconfig", HOOKS),
    all(".arclint", HOOKS),
    all(".reviewboardrc", HOOKS),
    // Package managers and build tools, which editors and prompts start by themselves.
    all(".yarnrc*", PACKAGES),
    all(".yarn", PACKAGES),
    all(".pnpmfile.*", PACKAGES),
    all("pnpmfile.*", PACKAGES),
    all("bunfig.toml", PACKAGES),
    all(".bowerrc", PACKAGES),
    file(".cargo/config", PACKAGES),
    file(".cargo/config.toml", PACKAGES),
    // Both files can name the compiler's folder, and shell prompts run the compiler for its version.
    all("rust-toolchain", PACKAGES),
    all("rust-toolchain.toml", PACKAGES),
    all(".mvn", PACKAGES),
    all("gradle-wrapper.properties", PACKAGES),
    all("gradle-wrapper.jar", PACKAGES),
    all(".jvmopts", PACKAGES),
    all(".sbtopts", PACKAGES),
    all(".bsp", PACKAGES),
    all(".bundle", PACKAGES),
    all(".bazelrc", PACKAGES),
    all(".bazeliskrc", PACKAGES),
    all(".buckconfig*", PACKAGES),
    all(".swiftpm", PACKAGES),
    // Packages and environments, which `install_package` writes. A new file there runs with the next start of Python, of
    // an editor's linter or of a shell, and no diff of git shows it. The rest of `node_modules` is not here: test suites
    // keep packages of that name as fixtures. Environments of other names are found by what they hold, see
    // `Repository::protected`.
    all(".venv", INSTALLED),
    file("bin/activate", INSTALLED),
    file("bin/activate.fish", INSTALLED),
    file("bin/activate.csh", INSTALLED),
    file("bin/activate.nu", INSTALLED),
    file("bin/activate.ps1", INSTALLED),
    file("bin/activate.xsh", INSTALLED),
    file("bin/activate_this.py", INSTALLED),
    file("scripts/activate", INSTALLED),
    file("scripts/activate.bat", INSTALLED),
    file("scripts/activate.fish", INSTALLED),
    file("scripts/activate.nu", INSTALLED),
    file("scripts/activate.ps1", INSTALLED),
    file("scripts/activate.xsh", INSTALLED),
    file("scripts/activate_this.py", INSTALLED),
    all("pyvenv.cfg", INSTALLED),
    all("site-packages", INSTALLED),
    all("dist-packages", INSTALLED),
    all("__pypackages__", INSTALLED),
    all("node_modules/.bin", INSTALLED),
    all(".pnp.*", INSTALLED),
    all(".direnv", INSTALLED),
    // Files that a shell runs on entering a folder.
    all(".envrc*", ENTERING),
    all("mise.toml", ENTERING),
    all("mise.*.toml", ENTERING),
    all(".mise*", ENTERING),
    all("mise", ENTERING),
    all(".rtx*", ENTERING),
    all(".tool-versions", ENTERING),
    all(".prototools*", ENTERING),
    all(".autoenv*", ENTERING),
    all(".shadowenv.d", ENTERING),
    all(".rvmrc", ENTERING),
    all(".rbenv-vars", ENTERING),
    all("devbox.json", ENTERING),
    all(".devbox", ENTERING),
    all("devenv.nix", ENTERING),
    all("devenv.local.nix", ENTERING),
    all("devenv.yaml", ENTERING),
    all("devenv.local.yaml", ENTERING),
    all("devshell.toml", ENTERING),
    // `flake.nix` is not here: it is ordinary source of many repositories.
    all("shell.nix", ENTERING),
    all(".devenv*", ENTERING),
    all(".flox", ENTERING),
    all(".pkgx*", ENTERING),
    // Files that a shell, an interpreter or a debugger runs when it starts, in any folder or in a home directory.
    all(".bash*", STARTING),
    all(".zsh*", STARTING),
    all(".zprofile", STARTING),
    all(".zlogin", STARTING),
    all(".zlogout", STARTING),
    all(".profile", STARTING),
    all(".kshrc", STARTING),
    all(".mkshrc", STARTING),
    all(".cshrc", STARTING),
    all(".tcshrc", STARTING),
    all(".login", STARTING),
    all(".logout", STARTING),
    all(".xinitrc", STARTING),
    all(".xprofile", STARTING),
    all(".xsession*", STARTING),
    all(".tmux.conf", STARTING),
    all(".config/fish", STARTING),
    all(".config/nushell", STARTING),
    all(".config/autostart", STARTING),
    all(".config/systemd", STARTING),
    all(".config/environment.d", STARTING),
    all(".rprofile", STARTING),
    all(".renviron", STARTING),
    all(".rdata", STARTING),
    all(".radian_profile", STARTING),
    all(".irbrc", STARTING),
    all(".pryrc", STARTING),
    all(".byebugrc", STARTING),
    all(".rdbgrc*", STARTING),
    all(".iex.exs", STARTING),
    all(".erlang", STARTING),
    all(".ghci", STARTING),
    all(".ghcid", STARTING),
    all(".ocamlinit", STARTING),
    all(".octaverc", STARTING),
    all(".perldb", STARTING),
    all(".psysh.php", STARTING),
    all(".gdbinit*", STARTING),
    all(".lldbinit*", STARTING),
    all(".jdbrc", STARTING),
    all(".pdbrc", STARTING),
    all(".pythonrc*", STARTING),
    all("sitecustomize.py", STARTING),
    all("usercustomize.py", STARTING),
    all("jupyter_config.*", STARTING),
    all("jupyter_*_config.py", STARTING),
    all("jupyter_*_config.json", STARTING),
    // Editors and their language servers.
    all(".vscode", SETTINGS),
    all("*.code-workspace", SETTINGS),
    all(".theia", SETTINGS),
    all(".idea", SETTINGS),
    all("*.ipr", SETTINGS),
    all(".run", SETTINGS),
    all("*.run.xml", SETTINGS),
    all(".fleet", SETTINGS),
    all(".zed", SETTINGS),
    all(".vs", SETTINGS),
    all("*.sublime-project", SETTINGS),
    all(".project", SETTINGS),
    all(".cproject", SETTINGS),
    all(".settings", SETTINGS),
    all(".classpath", SETTINGS),
    all(".factorypath", SETTINGS),
    all(".externaltoolbuilders", SETTINGS),
    all(".helix", SETTINGS),
    all(".nova", SETTINGS),
    all(".lapce", SETTINGS),
    all(".exrc", SETTINGS),
    all("_exrc", SETTINGS),
    all(".vim*", SETTINGS),
    all("_vimrc", SETTINGS),
    all(".gvimrc", SETTINGS),
    all(".lvimrc", SETTINGS),
    all(".local.vimrc", SETTINGS),
    all(".localvimrc", SETTINGS),
    all(".nvim*", SETTINGS),
    all(".lazy.lua", SETTINGS),
    all(".neoconf.json", SETTINGS),
    all(".nlsp-settings", SETTINGS),
    all(".ycm_extra_conf.*", SETTINGS),
    all(".dir-locals*", SETTINGS),
    all(".emacs*", SETTINGS),
    all(".clangd", SETTINGS),
    all(".ccls", SETTINGS),
    all(".merlin", SETTINGS),
    all("hie.yaml", SETTINGS),
    all(".hie-bios", SETTINGS),
    all(".lsp", SETTINGS),
    all(".calva", SETTINGS),
    all(".joyride", SETTINGS),
    all(".tern-project", SETTINGS),
    all(".luarc*", SETTINGS),
    all(".phpactor.*", SETTINGS),
    all(".solargraph.yml", SETTINGS),
    all(".ruby-lsp", SETTINGS),
    all(".ropeproject", SETTINGS),
    all(".jedi", SETTINGS),
    all(".pyre_configuration*", SETTINGS),
    // `init-hook` is code, which editors run when a file is opened.
    all("pylintrc", SETTINGS),
    all(".pylintrc", SETTINGS),
    all("rust-analyzer.toml", SETTINGS),
    all(".rust-analyzer.toml", SETTINGS),
    all("omnisharp.json", SETTINGS),
    all("nx.json", SETTINGS),
    // Development containers and hosted editors.
    all(".devcontainer", SETTINGS),
    all(".devcontainer.json", SETTINGS),
    all(".gitpod*", SETTINGS),
    all(".idx", SETTINGS),
    all(".replit", SETTINGS),
    all(".codesandbox", SETTINGS),
    all(".stackblitzrc", SETTINGS),
    // Agents.
    all(".mcp*", SETTINGS),
    all("mcp.json", SETTINGS),
    all(".claude*", SETTINGS),
    all("claude.md", SETTINGS),
    all("claude.local.md", SETTINGS),
    all(".gemini*", SETTINGS),
    all("gemini.md", SETTINGS),
    all(".qwen*", SETTINGS),
    all("qwen.md", SETTINGS),
    all("agents.md", SETTINGS),
    all("agents.override.md", SETTINGS),
    all("agent.md", SETTINGS),
    all(".agent", SETTINGS),
    all(".agents", SETTINGS),
    all(".codex*", SETTINGS),
    all(".cursor*", SETTINGS),
    all(".windsurf*", SETTINGS),
    all(".cline*", SETTINGS),
    all(".roo*", SETTINGS),
    all(".kilocode*", SETTINGS),
    all(".trae*", SETTINGS),
    all(".factory", SETTINGS),
    all(".openhands*", SETTINGS),
    all(".kiro", SETTINGS),
    all(".junie", SETTINGS),
    all(".aiassistant", SETTINGS),
    all(".continue", SETTINGS),
    all(".continuerc*", SETTINGS),
    all(".aider*", SETTINGS),
    all(".amazonq", SETTINGS),
    all(".augment*", SETTINGS),
    all(".goose*", SETTINGS),
    all(".opencode*", SETTINGS),
    all("opencode.json*", SETTINGS),
    all("opencode.md", SETTINGS),
    all(".crush*", SETTINGS),
    all("crush.json", SETTINGS),
    all("crush.md", SETTINGS),
    all("crush.local.md", SETTINGS),
    all("codebuff.json", SETTINGS),
    all("iflow.md", SETTINGS),
    all("kilo.json*", SETTINGS),
    all(".warp", SETTINGS),
    all("warp.md", SETTINGS),
    all("replit.md", SETTINGS),
    all(".serena", SETTINGS),
    all(".rules", SETTINGS),
    all("copilot-instructions.md", SETTINGS),
    all(".tool.toml", SETTINGS),
    all("skills.lock", SETTINGS),
];

/// Dot files that a proposal may create at the top level of a repository without `--allow-path`: they are data of one
/// program that can name neither a command nor code to load.
///
/// Every other new dot name there needs `--allow-path`, because tools that this program does not know take their settings
/// from such names. These names are left out on purpose: `.prettierrc*`, `.eslintrc*`, `.stylelintrc*`, `.babelrc` and
/// `.markdownlint-cli2.*` load plug-ins, also in their data forms, and editors run them when a file is saved; `.flake8`
/// and `.coveragerc` load modules; `.nvmrc` and `.python-version` choose the program that a shell runs next.
const HARMLESS_DOT_FILES: [&str; 19] = [
    ".clang-format",
    ".dockerignore",
    ".editorconfig",
    ".env.example",
    ".env.sample",
    ".env.template",
    ".eslintignore",
    ".git-blame-ignore-revs",
    ".gitignore",
    ".gitkeep",
    ".ignore",
    ".mailmap",
    ".markdownlint.json",
    ".markdownlint.yaml",
    ".markdownlintignore",
    ".nojekyll",
    ".npmignore",
    ".prettierignore",
    ".rustfmt.toml",
];

/// Directories that lists leave out because the specification says so. They are not hidden: a path in one can be read.
pub const SKIPPED: [&str; 8] = [
    ".git",
    "node_modules",
    "__pycache__",
    "venv",
    ".venv",
    "env",
    "dist",
    "build",
];

/// A glob of the user's configuration that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` in `[policy] {key}`{} is not a valid pattern: {reason}", if *of_repository { " of `.tool.toml`" } else { "" })]
pub struct PatternError {
    /// `hide`, `reveal` or `protect`.
    pub key: &'static str,
    /// True where it stands in the repository's own file.
    pub of_repository: bool,
    /// As it was written.
    pub pattern: String,
    /// Fault of the pattern.
    pub reason: String,
}

/// The tables with what the user's configuration adds and removes.
#[derive(Debug, Default)]
pub struct Rules {
    hide: Vec<UserGlob>,
    reveal: Vec<UserGlob>,
    protect: Vec<UserGlob>,
    /// True where the file system knows a file by names that no list shows.
    has_aliases: bool,
}

impl Rules {
    /// The tables, with `[policy] hide`, `reveal` and `protect` of the user's file.
    ///
    /// A glob without `/` is compared with names, another one with the path from the root.
    pub fn new(hide: &[String], reveal: &[String], protect: &[String]) -> Result<Self, PatternError> {
        Ok(Self {
            hide: globs("hide", hide, USER_HIDES)?,
            reveal: globs("reveal", reveal, "")?,
            protect: globs("protect", protect, USER_PROTECTS)?,
            has_aliases: false,
        })
    }

    /// Takes into account that files have such names: short ones of eight characters and three, and any name with dots and
    /// spaces behind it, or with the name of a stream.
    pub(super) fn on_file_system(&mut self, has_aliases: bool) {
        self.has_aliases = has_aliases;
    }

    /// The first reason that `judge` finds against a folded path, or against what the path may mean besides: what stands
    /// behind a name belongs to it on one file system and not on another, and which of them lies below nobody tells.
    fn judged(&self, folded: &str, judge: impl Fn(&str) -> Option<&'static str>) -> Option<&'static str> {
        judge(folded).or_else(|| {
            let meant = || folded.split('/').map(without_tail).collect::<Vec<_>>().join("/");
            let meant = self.has_aliases.then(meant).filter(|meant| meant != folded)?;
            judge(&meant)
        })
    }

    /// Adds what the repository itself asks for. What the user reveals stays revealed. `below` is where the root lies in the
    /// work tree whose file it is, empty where it is its root. True where that file hides the root itself.
    pub(super) fn narrow(&mut self, narrowing: &Narrowing, below: &str) -> Result<bool, PatternError> {
        let below = fold(below).into_owned();
        let globs = |key, patterns, reason| {
            let globs = globs(key, patterns, reason).map_err(|error| PatternError {
                of_repository: true,
                ..error
            })?;
            let placed = globs.into_iter().map(|glob| UserGlob {
                below: below.clone(),
                ..glob
            });
            Ok::<Vec<_>, PatternError>(placed.collect())
        };
        let hide = globs("hide", &narrowing.hide, REPOSITORY_HIDES)?;
        let hides_root = prefixes(&below).any(|prefix| hide.iter().any(|glob| glob.matches_whole(prefix)));
        self.hide.extend(hide);
        self.protect
            .extend(globs("protect", &narrowing.protect, REPOSITORY_PROTECTS)?);
        Ok(hides_root)
    }

    /// Why `path` is hidden by its name or by the name of a directory above it, or `None` where it is not.
    ///
    /// The answer completes "it …". A path that leads out of the root is hidden, too.
    pub fn hidden(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let path = match path::normalise(path) {
            Ok(path) => path,
            Err(error) => return Some(outside(error)),
        };
        let folded = fold(&path);
        prefixes(&folded).find_map(|prefix| {
            let is_directory = is_directory || prefix.len() < folded.len();
            self.hidden_entry(prefix, is_directory)
        })
    }

    /// Why one entry is hidden whose directory is known not to be. `folded` is its path after [`fold`].
    pub fn hidden_entry(&self, folded: &str, is_directory: bool) -> Option<&'static str> {
        self.judged(folded, |folded| {
            let user = || reason_of(&self.hide, folded);
            let table = || HIDDEN_TABLE.find_copy(folded, is_directory);
            let may_be_short = self.has_aliases && is_short(path::split(folded).1);
            let reason = table().or_else(user).or(may_be_short.then_some(SHORT))?;
            (!self.revealed(folded)).then_some(reason)
        })
    }

    /// True where the user's configuration takes this entry out of the tables. `folded` is a path after [`fold`].
    pub fn revealed(&self, folded: &str) -> bool {
        self.reveal.iter().any(|glob| glob.matches(folded))
    }

    /// Why `path` may not be proposed, or `None` where it may.
    ///
    /// A path that `[policy] reveal` lets a model read is still protected: reading and changing are different grants.
    pub fn protected(&self, path: &str) -> Option<&'static str> {
        let path = match path::normalise(path) {
            Ok(path) => path,
            Err(error) => return Some(outside(error)),
        };
        let folded = fold(&path);
        prefixes(&folded).find_map(|prefix| {
            let is_directory = prefix.len() < folded.len();
            self.hidden_entry(prefix, is_directory).or_else(|| {
                self.judged(prefix, |prefix| {
                    HIDDEN_TABLE
                        .find_copy(prefix, is_directory)
                        .or_else(|| PROTECTED_TABLE.find(prefix, is_directory))
                        .or_else(|| reason_of(&self.protect, prefix))
                })
            })
        })
    }
}

/// The first part of a path where that part starts with a dot and is not known to be harmless.
///
/// The path is one that [`path::normalise`] gives. `.gitignore` is harmless as a file; a folder of that name is not.
pub(super) fn find_unlisted_dot_name(path: &str) -> Option<&str> {
    let name = path.split('/').next()?;
    let is_dot_name = fold(name).starts_with('.');
    (is_dot_name && !HARMLESS_DOT_FILES.contains(&fold(path).as_ref())).then_some(name)
}

const SHORT: &str = "may be the short name of something hidden, on this file system";
const USER_HIDES: &str = "is hidden by `[policy] hide` in the configuration";
const USER_PROTECTS: &str = "is protected by `[policy] protect` in the configuration";
pub(super) const REPOSITORY_HIDES: &str = "is hidden by the repository's `.tool.toml`";
const REPOSITORY_PROTECTS: &str = "is protected by the repository's `.tool.toml`";

fn globs(key: &'static str, patterns: &[String], reason: &'static str) -> Result<Vec<UserGlob>, PatternError> {
    patterns.iter().map(|text| UserGlob::new(key, text, reason)).collect()
}

fn reason_of(globs: &[UserGlob], folded: &str) -> Option<&'static str> {
    globs.iter().find(|glob| glob.matches(folded)).map(|glob| glob.reason)
}

/// True where a directory of this name is left out of lists without being hidden.
pub(crate) fn is_skipped(name: &str) -> bool {
    if SKIPPED.contains(&name) {
        return true;
    }
    // Named like an environment file, a directory is a virtual environment.
    let folded = fold(name);
    HIDDEN_TABLE.find(&folded, false) == Some(ENVIRONMENT)
}

fn outside(error: PathError) -> &'static str {
    match error {
        PathError::Absolute | PathError::Outside => "lies outside the repository",
        PathError::Nul => "contains a NUL character",
        PathError::TooLong => "is longer than any path can be",
    }
}

/// A name without what some file systems drop from its end.
fn without_tail(name: &str) -> &str {
    let file = name.split_once(':').map_or(name, |(file, _)| file);
    file.trim_end_matches(['.', ' '])
}

/// True for a name that a file system may have made up for a longer one: `LONGNA~1.TXT`.
fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let Some((start, number)) = base.rsplit_once('~') else {
        return false;
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !start.is_empty() && is_number && base.chars().count() <= 8 && extension.chars().count() <= 3
}

/// Every directory above a normal path, then the path itself.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path::ancestors(path).chain(std::iter::once(path).filter(|path| !path.is_empty()))
}

/// One form for all spellings that a case-folding file system takes for the same name.
///
/// By way of the upper case, so that characters that have one in common (`ſ` and `s`) meet, and to that by way of the
/// lower case, because some (`ẞ`) have one whose upper case is yet another (`SS`). Characters that such file systems
/// ignore are dropped (`.g\u{200c}it` is `.git` on some).
pub fn fold(path: &str) -> Cow<'_, str> {
    if path.is_ascii() {
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(path.to_ascii_lowercase());
        }
        return Cow::Borrowed(path);
    }
    let folded = path
        .chars()
        .filter(|&character| !is_ignorable(character))
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    Cow::Owned(folded)
}

/// The default-ignorable code points of Unicode: nothing is shown for them.
pub fn is_ignorable(character: char) -> bool {
    matches!(u32::from(character),
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfff8
        | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

static HIDDEN_TABLE: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::new(HIDDEN));
static PROTECTED_TABLE: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::new(PROTECTED));

/// A table made for looking up: whole names by hash, the few open ones in turn.
struct RuleTable {
    exact: HashMap<&'static str, Rule>,
    /// Text before and after the `*`.
    open: Vec<(&'static str, &'static str, Rule)>,
    /// Patterns of several parts, by their last one.
    tails: HashMap<&'static str, Vec<Rule>>,
}

impl RuleTable {
    fn new(rules: &[Rule]) -> Self {
        let mut table = Self {
            exact: HashMap::new(),
            open: Vec::new(),
            tails: HashMap::new(),
        };
        for &rule in rules {
            if let Some((_, last)) = rule.pattern.rsplit_once('/') {
                table.tails.entry(last).or_default().push(rule);
            } else if let Some((start, end)) = rule.pattern.split_once('*') {
                table.open.push((start, end, rule));
            } else {
                table.exact.insert(rule.pattern, rule);
            }
        }
        table
    }

    /// The reason for which an entry is in the table.
    fn find(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let (_, name) = path::split(path);
        let applies = |rule: &&Rule| rule.applies(name, is_directory);
        let by_name = || self.exact.get(name).filter(applies);
        let by_tail = || {
            let ends = |rule: &&Rule| {
                let rest = path.strip_suffix(rule.pattern);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            self.tails.get(name)?.iter().filter(applies).find(ends)
        };
        let by_shape = || {
            let found = self.open.iter().find(|(start, end, rule)| {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
                    && rule.applies(name, is_directory)
            });
            found.map(|(_, _, rule)| rule)
        };
        by_name().or_else(by_tail).or_else(by_shape).map(|rule| rule.reason)
    }

    /// Like [`Self::find`], also for a copy (`id_rsa.bak`, `.server.key.swp`).
    fn find_copy(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let original = || {
            let original = COPIES.iter().find_map(|ending| path.strip_suffix(ending))?;
            let (_, name) = path::split(original);
            let undotted = name.strip_prefix('.').unwrap_or(name);
            self.find(original, false).or_else(|| self.find(undotted, false))
        };
        self.find(path, is_directory)
            .or_else(|| if is_directory { None } else { original() })
    }
}

impl Rule {
    fn applies(&self, name: &str, is_directory: bool) -> bool {
        match self.covers {
            Covers::All => true,
            Covers::Files => !is_directory,
            Covers::Environment => !is_directory && !EXAMPLES.iter().any(|ending| name.ends_with(ending)),
        }
    }
}

/// A glob of the user's configuration.
#[derive(Debug)]
struct UserGlob {
    matcher: GlobSet,
    whole_path: bool,
    /// Path of the root from the base of whole paths, after [`fold`]; empty if they begin at the root.
    below: String,
    /// Why what it matches is hidden or protected.
    reason: &'static str,
}

impl UserGlob {
    fn new(key: &'static str, text: &str, why: &'static str) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError {
            key,
            of_repository: false,
            pattern: text.to_owned(),
            reason,
        };
        let pattern = text.strip_suffix('/').unwrap_or(text);
        let whole_path = pattern.contains('/');
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(error("it is empty".to_owned()));
        }
        let glob = GlobBuilder::new(&fold(pattern))
            .literal_separator(true)
            .case_insensitive(true)
            .build()
            .map_err(|source| error(source.kind().to_string()))?;
        // `Glob::compile_matcher` panics where the alternatives are nested too deeply.
        let matcher = GlobSet::builder().add(glob).build();
        Ok(Self {
            matcher: matcher.map_err(|source| error(source.kind().to_string()))?,
            whole_path,
            below: String::new(),
            reason: why,
        })
    }

    fn matches(&self, folded: &str) -> bool {
        if self.whole_path && !self.below.is_empty() {
            self.matches_whole(&path::join(&self.below, folded))
        } else {
            self.matches_whole(folded)
        }
    }

    /// Matches a path that begins at the base of the patterns.
    fn matches_whole(&self, folded: &str) -> bool {
        let (_, name) = path::split(folded);
        self.matcher.is_match(if self.whole_path { folded } else { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pattern_with_deeply_nested_braces_is_an_error_and_no_panic() {
        let nested = format!("{}a{}", "{".repeat(255), "}".repeat(255));
        let narrowing = Narrowing {
            hide: vec![nested],
            ..Narrowing::default()
        };
        assert!(Rules::default().narrow(&narrowing, "").is_err());
    }

    fn hidden(path: &str) -> bool {
        Rules::default().hidden(path, false).is_some()
    }

    #[test]
    fn names_that_no_list_shows_are_judged_where_the_file_system_has_them() {
        let mut rules = Rules::default();
        rules.on_file_system(true);
        let aliases = [
            ".env.",
            ".env . .",
            ".env::$DATA",
            ".aws./credentials",
            ".cargo./credentials.toml ",
            "sub/GIT~2/config",
            "ENV~1",
            "NPMRC~1",
            "id_ed2~1",
            "d/CREDEN~1.TOM",
        ];
        for path in aliases {
            assert!(rules.hidden(path, false).is_some(), "{path}");
            assert!(rules.protected(path).is_some(), "{path}");
        }
        // Below such a mount may lie a file system on which all of it is the name.
        let own = ["A:b.txt".to_owned(), "odd. ".to_owned()];
        let mut mounted = Rules::new(&own, &[], &own).expect("they are globs");
        mounted.on_file_system(true);
        for path in [
            "localhost:8443.p12",
            "db:prod.tfstate",
            "sub/a:b.keystore",
            "a:B.txt",
            "odd. ",
        ] {
            assert!(mounted.hidden(path, false).is_some(), "{path}");
            assert!(mounted.protected(path).is_some(), "{path}");
        }
        for path in [".github./workflows/ci.yml", ".gitmodules.", "GITHUB~1/workflows/ci.yml"] {
            assert!(rules.protected(path).is_some(), "{path}");
        }
        for path in [
            "a~b.txt",
            "notes~1.markdown",
            "a-long-name~1.txt",
            "~1",
            "a.txt~1",
            "a.b.c",
            "x/...y",
        ] {
            assert_eq!(rules.hidden(path, false), None, "{path}");
            assert_eq!(rules.protected(path), None, "{path}");
        }
        assert_eq!(
            Rules::default().hidden("ENV~1", false),
            None,
            "elsewhere it is a name like others"
        );
        let revealing = Rules::new(&[], &["env~1".to_owned()], &[]).expect("it is a pattern");
        assert_eq!(revealing.hidden("ENV~1", false), None);
    }

    #[test]
    fn the_hidden_table_holds_what_the_design_names() {
        for path in [
            ".git",
            ".git/config",
            "sub/.git/hooks/pre-commit",
            "sub/.git",
            "GIT~1/config",
            ".env",
            ".env.local",
            "config/prod.env",
            "id_rsa",
            "keys/id_ed25519",
            "server.key",
            "putty.ppk",
            ".ssh/anything",
            ".netrc",
            ".npmrc",
            "packages/a/.npmrc",
            ".pypirc",
            ".git-credentials",
            ".aws/credentials",
            ".azure/accessTokens.json",
            ".config/gcloud/credentials.db",
            ".kube/config",
            "deploy/kubeconfig",
            "prod.kubeconfig",
            ".pgpass",
            ".htpasswd",
            ".cargo/credentials.toml",
            ".vault-token",
            "service.keytab",
            "team.kdbx",
            ".password-store/a.gpg",
            ".docker/config.json",
            "bundle.p12",
            "bundle.pfx",
            "infra/terraform.tfstate",
            "infra/terraform.tfstate.backup",
            "infra/terraform.tfstate.1700000000.backup",
            "session-reports/session_latest.md",
            "session-reports",
        ] {
            assert!(hidden(path), "{path}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_not_hidden() {
        for path in [
            "",
            ".gitignore",
            ".github/workflows/ci.yml",
            ".git.md",
            "git/config",
            ".env.example",
            ".env.sample",
            "deploy/.env.template",
            ".envrc",
            "environment.py",
            "env",
            "id_rsa.pub",
            "id_rsa.py",
            "key.py",
            "keys",
            "docker/config.json",
            ".docker/compose.yml",
            ".config/settings.toml",
            "my.config/gcloud.md",
            "netrc",
            "session-reports.md",
            "a.tfstates",
            "cert.pem",
        ] {
            assert!(!hidden(path), "{path}");
        }
    }

    #[test]
    fn a_copy_of_a_hidden_file_is_hidden() {
        for path in [
            "id_rsa~",
            "id_rsa.bak",
            ".server.key.swp",
            ".netrc.orig",
            ".npmrc.old",
            "a/.env~",
        ] {
            assert!(hidden(path), "{path}");
        }
        for path in ["a.py~", "notes.bak", ".a.py.swp", "~", ".bak"] {
            assert!(!hidden(path), "{path}");
        }
    }

    #[test]
    fn names_are_compared_after_case_folding() {
        for path in [
            ".GIT/config",
            ".Env",
            "ID_RSA",
            "Server.KEY",
            ".AWS/x",
            "SESSION-REPORTS/x",
            // Long s and the Kelvin sign fold to ASCII; some file systems ignore joiners altogether.
            ".\u{17f}\u{17f}h/x",
            "server.\u{212a}ey",
            ".g\u{200d}it/config",
            ".\u{feff}env",
        ] {
            assert!(hidden(path), "{path:?}");
        }
    }

    #[test]
    fn spellings_of_one_name_meet() {
        for (a, b) in [
            ("\u{1e9e}", "SS"),
            ("\u{df}", "ss"),
            ("\u{131}", "I"),
            ("\u{3c3}", "\u{3c2}"),
        ] {
            assert_eq!(fold(a), fold(b), "{a} {b}");
        }
    }

    #[test]
    fn a_directory_is_not_an_environment_file_nor_a_key() {
        let rules = Rules::default();
        for path in [".env", "prod.env", "id_rsa", "a.key"] {
            assert_eq!(rules.hidden(path, true), None, "{path}");
            assert_eq!(rules.hidden(&format!("{path}/file.py"), false), None, "{path}");
            assert!(rules.hidden(path, false).is_some(), "{path}");
        }
    }

    #[test]
    fn the_protected_table_holds_everything_hidden_and_what_the_design_names() {
        let rules = Rules::default();
        for path in [
            ".git/hooks/pre-commit",
            ".env",
            ".gitattributes",
            "sub/.gitattributes",
            ".gitmodules",
            ".github/workflows/ci.yml",
            ".GitHub/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            "Jenkinsfile",
            "azure-pipelines.yml",
            ".ci/run",
            ".husky/pre-commit",
            ".pre-commit-config.yaml",
            ".vscode/tasks.json",
            ".idea/workspace.xml",
            ".devcontainer/devcontainer.json",
            ".envrc",
            ".mcp.json",
            ".claude/settings.json",
            "AGENTS.md",
            "agents.MD",
            ".tool.toml",
            "skills.lock",
            "sub/Skills.lock",
            ".travis.yml",
            ".gitea/workflows/ci.yml",
            ".forgejo/workflows/ci.yml",
            ".gitlab/ci/build.yml",
            "bitbucket-pipelines.yml",
            ".drone.yml",
            ".drone.star",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".woodpecker/build.yml",
            ".buildkite/pipeline.yml",
            ".cirrus.yml",
            "Jenkinsfile.release",
            ".builds/debian.yml",
            ".github/copilot-instructions.md",
            "docs/CODEOWNERS",
            "renovate.json",
            "lefthook.yml",
            "lefthook.yaml",
            ".lefthook.yml",
            ".lefthook/pre-commit/run",
            ".githooks/pre-commit",
            ".lintstagedrc.json",
            ".yarnrc.yml",
            ".yarn/releases/yarn.cjs",
            ".pnpmfile.cjs",
            ".cargo/config.toml",
            ".mvn/extensions.xml",
            "x.code-workspace",
            ".exrc",
            ".dir-locals.el",
            ".gitpod.yml",
            ".devcontainer.json",
            "mise.toml",
            ".mise/config.toml",
            "CLAUDE.md",
            "sub/Claude.md",
            "GEMINI.md",
            ".gemini/settings.json",
            ".cursor/rules/a.mdc",
            ".cursorrules",
            ".windsurf/rules/a.md",
            ".windsurfrules",
            ".clinerules/a.md",
            ".roomodes",
            ".codex/config.toml",
            ".aider.conf.yml",
            ".continue/config.json",
            ".goosehints",
            "opencode.jsonc",
            "../x",
            "/etc/passwd",
            "a\0b",
        ] {
            assert!(rules.protected(path).is_some(), "{path}");
        }
        for path in [
            ".gitignore",
            "src/main.py",
            "README.md",
            "ci/run",
            "github/x",
            ".env.example",
            "src/lefthook_parser.py",
            "docs/claude.md.txt",
            "cursor/index.ts",
            "agents.py",
            ".editorconfig",
            "Makefile",
            "package.json",
            ".cargo/x.rs",
            "travis.yml",
        ] {
            assert_eq!(rules.protected(path), None, "{path}");
        }
    }

    #[test]
    fn version_control_folders_are_protected_at_any_depth_and_their_credentials_hidden() {
        let rules = Rules::default();
        for path in [
            ".hg/requires",
            "packages/a/.HG/requires",
            ".jj/repo/config.toml",
            ".svn/wc.db",
            ".bzr/branch/branch.conf",
            "_darcs/prefs/defaults",
            "_MTN/monotonerc",
            ".pijul/config",
            ".sl/requires",
            ".fslckout",
            "_FOSSIL_",
            "_FOSSIL_-journal",
            "CVS/Root",
            "src/CVS/Update.prog",
            "scripts/hooks/pre-commit",
        ] {
            assert!(rules.protected(path).is_some(), "{path}");
            assert_eq!(rules.hidden(path, false), None, "{path}");
        }
        for path in [
            ".hg/hgrc",
            "a/.hg/hgrc",
            ".HG/HGRC",
            ".hg/hgrc.bak",
            ".hg/hgrc-not-shared",
            ".sl/config",
        ] {
            assert!(rules.hidden(path, false).is_some(), "{path}");
        }
        for path in [
            ".venv/lib/python3.12/site-packages/a.pth",
            "web/node_modules/.bin/a",
            "env/lib/site-packages/a.py",
            "env/bin/activate_this.py",
            "env/Scripts/Activate.ps1",
        ] {
            assert_eq!(rules.protected(path), Some(INSTALLED), "{path}");
        }
        for path in [
            "cvs/ada.md",
            "src/hg.rs",
            "_fossil_fuel.scss",
            "pre-commit.md",
            "src/mise.rs",
            "src/devenv.py",
        ] {
            assert_eq!(rules.protected(path), None, "{path}");
        }
    }

    #[test]
    fn harmless_names_are_sorted_and_neither_hidden_nor_protected() {
        let rules = Rules::default();
        for name in HARMLESS_DOT_FILES {
            assert_eq!(
                (rules.protected(name), find_unlisted_dot_name(name)),
                (None, None),
                "{name}"
            );
        }
        assert!(HARMLESS_DOT_FILES.is_sorted());
    }

    #[test]
    fn patterns_are_written_in_the_form_that_is_compared() {
        for rule in HIDDEN.iter().chain(PROTECTED) {
            assert_eq!(fold(rule.pattern), rule.pattern);
            let is_tail_and_open = rule.pattern.contains('/') && rule.pattern.contains('*');
            assert!(!is_tail_and_open, "the table compares parts as they are: {rule:?}");
            assert!(
                rule.pattern.matches('*').count() <= 1 && !rule.reason.ends_with('.'),
                "{rule:?}"
            );
        }
    }

    #[test]
    fn directories_named_like_environment_files_are_skipped() {
        for name in [".env", "prod.env", "node_modules", "build"] {
            assert!(is_skipped(name), "{name}");
        }
        for name in ["src", "Build", ".aws", "keys"] {
            assert!(!is_skipped(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_dot_in_front_changes_nothing(
            path in "([.a-zA-Z~*][.a-zA-Z~/*\u{200d}]{0,20})?|\\.(git|env|ssh)(/[a-z]{1,4}){0,3}",
        ) {
            let rules = Rules::default();
            for is_directory in [false, true] {
                let dotted = format!("./{path}");
                prop_assert_eq!(rules.hidden(&path, is_directory), rules.hidden(&dotted, is_directory));
                prop_assert_eq!(rules.protected(&path), rules.protected(&dotted));
            }
        }

        #[test]
        fn whatever_lies_in_a_hidden_directory_is_hidden(rest in "[a-z./]{1,16}", above in "([a-z]{1,3}/){0,3}") {
            for name in [".git", ".SSH", "session-reports", ".aws"] {
                let path = format!("{above}{name}/x{rest}");
                prop_assert!(hidden(&path) || rest.contains(".."), "{}", path);
            }
        }

        #[test]
        fn everything_hidden_is_protected(path in "[.a-z/]{0,12}(\\.env|\\.key|\\.git|id_rsa|\\.pem)[.a-z/]{0,6}") {
            if hidden(&path) {
                prop_assert!(Rules::default().protected(&path).is_some());
            }
        }

        #[test]
        fn folding_is_idempotent(text in "\\PC{0,24}") {
            let once = fold(&text).into_owned();
            prop_assert_eq!(fold(&once).into_owned(), once);
        }
    }
}
