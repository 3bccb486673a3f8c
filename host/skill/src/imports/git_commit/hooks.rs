//! The repository's hooks for a commit. They run in the sandbox of test runs if the user's own configuration allows
//! it; otherwise they do not run.
//!
//! A run sees no `.git`, so the hooks get their own repository in its place (`hooks.sh`). Its last commit and its
//! index hold only the files of this commit, so that `git diff --cached` names them. Of the hooks' results, the
//! commit takes only the message.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::git::layout::GitDirectories;
use super::super::git::messages::CommitStart;
use super::super::recipe::{self, EndedRecipe, PreparedRun};
use super::super::test_runs;
use super::check_message;
use crate::CallContext;
use crate::imports::git_commit::GIT_MESSAGE_BYTES_MAX;
use test_results::ResultFormat;
use tool_boundary::Failure;
use tool_config::{Environment, HookRuns};
use tool_core::api::Effect;
use tool_core::text::{quote_names, reveal_line};
use tool_repository::normalise_path;
use tool_sandbox::program_sandbox::{self, Sandbox, WrittenFile};

/// Time limit for the hooks of a commit in seconds, enough for linters and the tests of a small project.
const HOOKS_SECONDS_MAX: u64 = 5 * 60;

/// Limit in bytes for a copied hook, for a file of the last commit, and for all of these together.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FILES_BYTES_MAX: usize = 16 << 20;

/// Limit for a hook's output in a refusal, in bytes. The end of the output is kept.
const SAID_BYTES_MAX: usize = 8 * 1024;

/// Limit for paths of changed files in a notice.
const NAMED_MAX: usize = 10;

/// Hooks that git runs for a commit, in its order, and whether they can run here. The last two get paths in the git
/// directory, so they cannot.
const COMMIT_HOOKS: [(&str, bool); 6] = [
    ("pre-commit", true),
    ("prepare-commit-msg", true),
    ("commit-msg", true),
    (AFTER, true),
    ("post-index-change", false),
    ("reference-transaction", false),
];

/// Exit code of `hooks.sh` if it could not prepare the repository for the hooks. No hook has run then.
const NOT_SHOWN: i32 = 125;

/// File of a run with the name of the hook that was started last.
const STARTED: &str = ".git/tool-hook";

/// Hook that runs after the commit.
const AFTER: &str = "post-commit";

/// True if the user's own configuration lets hooks run, and nothing denies `run-process`.
///
/// Fails if the configuration cannot be parsed: it may want hooks that refuse the commit.
pub(in crate::imports) fn are_run(context: &CallContext) -> Result<bool, Failure> {
    let Some(home) = context.repository.state_directory() else {
        return Ok(false);
    };
    let common = tool_config::load_common(home, &Environment::default()).map_err(|problem| {
        Failure::unavailable(format!(
            "Whether git hooks run is not known, so nothing is committed: {}.",
            problem.message
        ))
        .with_hint("the user has to correct config.toml")
    })?;
    // Taint changes nothing here: the sandbox confines hooks in any conversation, as it confines tests.
    Ok(common.policy.hooks == HookRuns::Sandbox && !context.policy.is_denied(Effect::RunProcess, false))
}

pub(super) struct CommitHooks {
    /// Hooks to run before the commit.
    before: Vec<&'static str>,
    has_after: bool,
    /// Hooks that git would run and that do not run here.
    left_out: Vec<&'static str>,
    /// Folder of the hooks, as a path in the run.
    folder: String,
    /// Copies of the hooks, if the run does not see their folder.
    copies: Vec<(String, String)>,
    has_changed_message: bool,
    /// Paths that the hooks changed in the run's tree.
    changed: Vec<String>,
    after_failed: Option<String>,
    have_run: bool,
}

/// A file of a commit as its hooks see it.
pub(super) struct HookFile {
    pub(super) path: String,
    /// Text in the last commit, if it has one.
    pub(super) before: Option<String>,
    /// True if the commit removes the file.
    pub(super) is_removed: bool,
}

impl CommitHooks {
    /// Finds the hooks that git would run for a commit of the repository or a submodule.
    pub(super) fn find_hooks(
        context: &CallContext,
        layout: &GitDirectories,
        start: &CommitStart,
    ) -> Result<Self, Failure> {
        let root = context.repository.root();
        let git_folder = layout.common.join("hooks");
        let place = start
            .hooks_path
            .as_ref()
            .map_or_else(|| git_folder.clone(), |path| layout.top.join(path));
        let is_program = |name: &str| {
            let metadata = place.join(name).metadata();
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        let is_git_folder = place == git_folder;
        // A link can lead to any folder on this machine, and copies would reveal its files.
        let is_linked = || git_folder.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
        // A hook expects the whole work tree.
        let folder = if !are_run(context)? || layout.top != root {
            None
        } else if is_git_folder {
            (!is_linked()).then(|| ".git/hooks".to_owned())
        } else {
            folder_in(context, &place)
        };
        let copies = match &folder {
            Some(_) if is_git_folder => copy_hooks(context, &git_folder),
            _ => Vec::new(),
        };
        let is_there = |name: &str| folder.is_some() && (!is_git_folder || copies.iter().any(|(copy, _)| copy == name));
        let (run, left_out): (Vec<_>, Vec<_>) = COMMIT_HOOKS
            .into_iter()
            .filter(|(name, _)| is_program(name))
            .partition(|(name, can_run)| *can_run && is_there(name));
        let names = |hooks: Vec<(&'static str, bool)>| hooks.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let mut before = names(run);
        let has_after = before.pop_if(|name| *name == AFTER).is_some();
        Ok(Self {
            before,
            has_after,
            left_out: names(left_out),
            folder: folder.unwrap_or_default(),
            copies,
            has_changed_message: false,
            changed: Vec::new(),
            after_failed: None,
            have_run: false,
        })
    }

    /// True if a hook is going to run.
    pub(super) fn run_here(&self) -> bool {
        !self.before.is_empty() || self.has_after
    }

    /// True if a hook has run.
    pub(super) fn have_run(&self) -> bool {
        self.have_run
    }

    /// Runs the hooks before the commit. Returns the message, which they may have changed.
    pub(super) fn run_before(
        &mut self,
        context: &CallContext,
        start: &CommitStart,
        files: &[HookFile],
    ) -> Result<String, Failure> {
        if self.before.is_empty() {
            return Ok(start.message.clone());
        }
        let ended = self.run(context, start, files, &self.before)?;
        self.have_run = true;
        let tree = ended.tree.as_ref();
        let read = |path: &str, bytes_max| tree.and_then(|tree| read_file(tree, path, bytes_max));
        if was_not_shown(&ended) {
            return Err(
                Failure::failed("The commit could not be shown to its git hooks, so nothing was committed.")
                    .with_hint("the user has to commit with git"),
            );
        }
        if ended.report.exit_code != Some(0) {
            let hook = read(STARTED, 64).unwrap_or_default();
            let hook = self.before.iter().find(|name| hook == **name).copied();
            return Err(hook_failure(hook, &ended));
        }
        let Some(message) = read(".git/COMMIT_EDITMSG", GIT_MESSAGE_BYTES_MAX as u64) else {
            return Err(Failure::failed(
                "The git hooks left no commit message that can be read.",
            ));
        };
        check_message(&message).map_err(|failure| Failure {
            message: format!("After the git hooks: {}", failure.message),
            ..failure
        })?;
        self.has_changed_message = message != start.message;
        self.changed = tree.map(|tree| find_changed(context, tree)).unwrap_or_default();
        Ok(message)
    }

    /// Runs the hook after the commit, which cannot undo it.
    pub(super) fn run_after(&mut self, context: &CallContext, start: &CommitStart, files: &[HookFile]) {
        if !self.has_after {
            return;
        }
        let ended = self.run(context, start, files, &[AFTER]);
        self.have_run |= ended.is_ok();
        self.after_failed = match ended {
            Ok(ended) if ended.report.exit_code == Some(0) => None,
            Ok(ended) if was_not_shown(&ended) => Some("could not run: the commit could not be shown to it".to_owned()),
            Ok(ended) => Some(end_of(&ended)),
            Err(failure) => Some(format!("could not run: {}", failure.message)),
        };
    }

    fn run(
        &self,
        context: &CallContext,
        start: &CommitStart,
        files: &[HookFile],
        names: &[&str],
    ) -> Result<EndedRecipe, Failure> {
        let sandbox = find_sandbox(context)?;
        let (mut environment, mut tools) = test_runs::open_run(context);
        let home = environment
            .entry("HOME".to_owned())
            .or_insert_with(|| "/home/tool".to_owned());
        let own = Path::new(home.as_str()).join(".tool-commit");
        let written = |name: &str, text: &str| WrittenFile {
            place: own.join(name),
            text: text.to_owned(),
        };
        let paths = |are_removed: bool| {
            let chosen = files.iter().filter(|file| file.is_removed == are_removed);
            let paths: Vec<&str> = chosen.map(|file| file.path.as_str()).collect();
            paths.join("\0")
        };
        tools.files.push(written("message", &start.message));
        tools.files.push(written("paths", &paths(false)));
        tools.files.push(written("removed", &paths(true)));
        let copies = self.copies.iter().map(|(name, text)| (format!("hooks/{name}"), text));
        let before = files
            .iter()
            .filter_map(|file| Some((format!("base/{}", file.path), file.before.as_ref()?)));
        tools
            .files
            .extend(copies.chain(before).map(|(name, text)| written(&name, text)));
        tools.hands_back = true;
        tools.programs.push("git".to_owned());
        environment.insert("GIT_EDITOR".to_owned(), ":".to_owned());
        for (role, person) in [("AUTHOR", &start.author), ("COMMITTER", &start.committer)] {
            let (name, email) = person.rsplit_once(" <").unwrap_or((person, ""));
            environment.insert(format!("GIT_{role}_NAME"), name.to_owned());
            environment.insert(format!("GIT_{role}_EMAIL"), email.trim_end_matches('>').to_owned());
        }
        let parent = start.parent.as_ref().map_or("", |_| "parent");
        let fixed = [
            "-c",
            include_str!("hooks.sh"),
            "hooks",
            self.folder.as_str(),
            start.branch.as_deref().unwrap_or_default(),
            parent,
        ];
        let arguments = fixed
            .into_iter()
            .chain(names.iter().copied())
            .map(str::to_owned)
            .collect();
        let recipe = PreparedRun {
            effect: Effect::RunProcess,
            title: "Run git hooks".to_owned(),
            notes: Vec::new(),
            command: recipe::repository_command(
                context.repository.root(),
                PathBuf::from("/bin/sh"),
                arguments,
                environment,
            ),
            time: Duration::from_secs(HOOKS_SECONDS_MAX),
            tools,
            format: ResultFormat::Exit,
        };
        recipe.run_handing_back(context, sandbox)
    }

    /// The part of the question about the hooks.
    pub(super) fn describe(&self) -> String {
        if !self.run_here() {
            return match self.left_out.as_slice() {
                [] => "Your git hooks do not run for this commit.".to_owned(),
                names => format!("Your git hooks do not run for this commit: {}.", quote_hooks(names)),
            };
        }
        let mut said = self.describe_run();
        if self.has_after {
            said.push(format!("After the commit `{AFTER}` runs in the sandbox."));
        }
        if !self.left_out.is_empty() {
            said.push(format!("These git hooks do not run: {}.", quote_hooks(&self.left_out)));
        }
        said.join("\n")
    }

    /// The notices about the hooks in the result.
    pub(super) fn notices(&self) -> Vec<String> {
        let mut said = self.describe_run();
        match &self.after_failed {
            Some(end) => said.push(format!("The git hook `{AFTER}` {end}; the commit stays.")),
            None if self.has_after => said.push(format!("The git hook `{AFTER}` ran in the sandbox.")),
            None => {}
        }
        if !self.left_out.is_empty() {
            said.push(format!(
                "Your git hooks did not run for this commit: {}.",
                quote_hooks(&self.left_out)
            ));
        }
        said
    }

    fn describe_run(&self) -> Vec<String> {
        let mut said = Vec::new();
        if !self.before.is_empty() {
            said.push(format!(
                "These git hooks ran in the sandbox and passed: {}.",
                quote_hooks(&self.before)
            ));
        }
        if self.has_changed_message {
            said.push("They changed the commit message.".to_owned());
        }
        if !self.changed.is_empty() {
            said.push(format!(
                "Their changes in the tree are dropped: {}.",
                quote_names(self.changed.iter().map(String::as_str), NAMED_MAX)
            ));
        }
        said
    }
}

fn quote_hooks(names: &[&str]) -> String {
    quote_names(names.iter().copied(), names.len())
}

/// Path of a folder of hooks within the run; `None` if it is outside of the tree or hidden.
fn folder_in(context: &CallContext, place: &Path) -> Option<String> {
    let inside = place.strip_prefix(context.repository.root()).ok()?;
    let inside = normalise_path(inside.to_str()?).ok()?;
    let is_hidden = context.repository.hidden(&inside, true).is_some();
    (!is_hidden).then(|| format!("./{inside}"))
}

/// Reads the files in git's folder of hooks; `folder` is its real path. A link may lead to a visible file of the work
/// tree. It may not lead elsewhere in the git directory, which can hold credentials.
fn copy_hooks(context: &CallContext, folder: &Path) -> Vec<(String, String)> {
    let repository = &context.repository;
    let is_visible = |real: &Path| {
        let inside = real.strip_prefix(repository.root()).ok().and_then(Path::to_str);
        inside.is_some_and(|inside| repository.hidden(inside, false).is_none())
    };
    let mut room = FILES_BYTES_MAX;
    let mut copies = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let Ok(real) = entry.path().canonicalize() else {
            continue;
        };
        let is_own = real.parent() == Some(folder) || is_visible(&real);
        let metadata = real.metadata().ok().filter(|metadata| metadata.is_file());
        let is_small = metadata.is_some_and(|metadata| metadata.len() <= FILE_BYTES_MAX);
        if !is_own || !is_small || name.ends_with(".sample") {
            continue;
        }
        if let Ok(text) = fs::read_to_string(real)
            && let Some(left) = room.checked_sub(text.len())
        {
            room = left;
            copies.push((name, text));
        }
    }
    copies
}

/// Text of a file of the last commit for hooks. `room` is the remaining number of bytes for all files.
pub(super) fn shown_text(content: Option<&[u8]>, room: &mut usize) -> String {
    let fits = content.filter(|content| content.len() as u64 <= FILE_BYTES_MAX && content.len() <= *room);
    let Some(text) = fits.and_then(|content| std::str::from_utf8(content).ok()) else {
        return "not shown to hooks\n".to_owned();
    };
    *room -= text.len();
    text.to_owned()
}

/// Bytes of all texts that [`shown_text`] may return for a commit.
pub(super) const SHOWN_BYTES_MAX: usize = FILES_BYTES_MAX;

fn find_sandbox(context: &CallContext) -> Result<Sandbox, Failure> {
    let available = program_sandbox::detect_sandbox();
    let is_enough = match available.sandbox {
        Sandbox::Namespaces => true,
        Sandbox::Landlock => !context.policy.requires_sandbox(),
        Sandbox::None => false,
    };
    if is_enough {
        return Ok(available.sandbox);
    }
    Err(Failure::unavailable(format!(
        "The git hooks of this repository are to run in the sandbox, and this machine allows none: {}.",
        available.refused.join("; ")
    ))
    .with_hint("the user has to commit with git, or to take `hooks` out of `[policy]` in config.toml"))
}

/// True if no hook was started, because the repository for the hooks could not be prepared.
fn was_not_shown(ended: &EndedRecipe) -> bool {
    let tree = ended.tree.as_ref();
    ended.report.exit_code == Some(NOT_SHOWN) && tree.is_some_and(|tree| read_file(tree, STARTED, 64).is_none())
}

/// The failure of a commit that a hook refused, with the end of the hook's output.
fn hook_failure(hook: Option<&str>, ended: &EndedRecipe) -> Failure {
    let which = hook.map_or_else(|| "A git hook".to_owned(), |hook| format!("The git hook `{hook}`"));
    let output = ended.report.output.trim();
    let from = output.ceil_char_boundary(output.len().saturating_sub(SAID_BYTES_MAX));
    let said = match output {
        "" => "It printed nothing.".to_owned(),
        _ => format!("It printed:\n{}", &output[from..]),
    };
    Failure::failed(format!("{which} {}, so nothing was committed. {said}", end_of(ended))).with_hint("mend what the hook names, then commit again; the hook runs in a sandbox, without network and without hidden files")
}

fn end_of(ended: &EndedRecipe) -> String {
    match (ended.report.timed_out, ended.report.exit_code) {
        (true, _) => format!("did not end within {HOOKS_SECONDS_MAX} seconds"),
        (false, Some(code)) => format!("ended with exit code {code}"),
        (false, None) => "was ended by a signal".to_owned(),
    }
}

/// Reads a text file that the hooks left.
fn read_file(tree: &OwnedFd, path: &str, bytes_max: u64) -> Option<String> {
    let file = test_runs::open_left(tree, path)?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text).ok()? as u64;
    (read <= bytes_max).then_some(text)
}

/// Finds visible files that differ between the run's tree and the work tree.
fn find_changed(context: &CallContext, tree: &OwnedFd) -> Vec<String> {
    let repository = &context.repository;
    let Ok(listed) = repository.list(&context.cancel) else {
        return Vec::new();
    };
    let real = |path: &str| repository.root().join(path).symlink_metadata().ok();
    let state = |metadata: fs::Metadata| (metadata.len(), metadata.modified().ok());
    let is_changed = |path: &str| {
        let left = test_runs::open_left(tree, path).and_then(|file| file.metadata().ok());
        left.map(state) != real(path).map(state)
    };
    let listed = listed.files.iter().map(|file| file.path.clone());
    let mut changed: Vec<String> = listed.filter(|path| is_changed(path)).collect();
    test_runs::walk_left(tree, |path| {
        if real(&path).is_none() && repository.hidden(&path, false).is_none() {
            changed.push(path);
        }
    });
    changed.iter().map(|path| reveal_line(path)).collect()
}
