//! The four operations: what they are pointed at, and what the model is told.
//!
//! A target is resolved once, from what was typed to a path or a task; nothing downstream sees the raw form. Prompts
//! are constants: no text of a repository ever becomes an instruction. Which files go along is `context`'s business,
//! and what an operation may cause is `skill::policy`'s.

pub mod citations;
mod prompts;
pub mod proposals;
pub mod verify;

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::{Packet, Target};
use tool_core::api::{ErrorKind, Operation, Problem};
use tool_core::text::visible_name;
use tool_repository::{EntryKind, OpenError, Repository};

pub use prompts::{correction, system_prompt};

/// Kind of file that a path leads to.
enum TargetKind {
    Root,
    Directory(String),
    File(String),
}

impl TargetKind {
    fn with_task(self, task: Option<&str>) -> Target {
        match (self, task) {
            (Self::Root, None) => Target::Root,
            (Self::Root, Some(task)) => Target::Task(task.to_owned()),
            (Self::Directory(path), None) => Target::Directory(path),
            (Self::File(path), None) => Target::File(path),
            (Self::Directory(path) | Self::File(path), Some(task)) => Target::TaskIn {
                task: task.to_owned(),
                path,
            },
        }
    }
}

/// Decides what `target` and `task` mean for an operation.
///
/// A path is relative to `working_directory`, then to the root. For explain and test-gen the target is a path; for
/// architect and refactor it is one where it names something that exists, and a task otherwise.
pub fn resolve_target(
    operation: Operation,
    target: Option<&str>,
    task: Option<&str>,
    repository: &Repository,
    working_directory: &Path,
    cancel: &CancellationToken,
) -> Result<Target, Problem> {
    let given = |text: &&str| !text.trim().is_empty();
    let (target, task) = (
        target.filter(given),
        task.map(str::trim).filter(|task| !task.is_empty()),
    );
    let locate = |path| locate(path, repository, working_directory, cancel);
    match (operation, target) {
        (Operation::Explain, None) => Ok(TargetKind::Root.with_task(task)),
        (Operation::Explain, Some(path)) => Ok(locate(path)?.with_task(task)),
        (Operation::TestGen, None) => Err(needs_source_file("test-gen needs a source file to write tests for")),
        (Operation::TestGen, Some(path)) => Ok(source_file(locate(path)?, path)?.with_task(task)),
        (Operation::Architect | Operation::Refactor, None) => {
            task.map(|task| Target::Task(task.to_owned())).ok_or_else(|| {
                Problem::new(ErrorKind::InvalidRequest, format!("{operation} needs a task or a path")).with_hint(
                    format!("say what is to be done: `tool {operation} \"<task description>\"`"),
                )
            })
        }
        (Operation::Architect | Operation::Refactor, Some(text)) => match locate(text) {
            Ok(place) => Ok(place.with_task(task)),
            Err(problem) if problem.kind == ErrorKind::FileNotAccessible && is_one_word(text) => Err(problem),
            Err(_) => Ok(Target::Task(match task {
                Some(task) => format!("{}\n{task}", text.trim()),
                None => text.trim().to_owned(),
            })),
        },
    }
}

/// Refuses a target of explain or test-gen that nobody has to look into to know that it is none: it lies outside of
/// the root, is not there, or is a directory where a file is needed. `root` is a real path.
pub fn check_place(operation: Operation, typed: &str, root: &Path, working_directory: &Path) -> Result<(), Problem> {
    let inside = candidates(typed, root, working_directory);
    let is_there = |path: &&String| root.join(path).symlink_metadata().is_ok();
    let found = inside.iter().find(is_there).ok_or_else(|| missing(typed, &inside))?;
    if operation != Operation::TestGen {
        return Ok(());
    }
    let place = if root.join(found).is_dir() {
        TargetKind::Directory(found.clone())
    } else {
        TargetKind::File(found.clone())
    };
    source_file(place, typed).map(|_| ())
}

/// Paths from the root that a typed path can mean.
fn candidates(typed: &str, root: &Path, working_directory: &Path) -> Vec<String> {
    let places = [working_directory.join(typed), root.join(typed)];
    places.iter().filter_map(|path| relative(path, root)).collect()
}

fn missing(typed: &str, inside: &[String]) -> Problem {
    let hint = match inside {
        [] => {
            "the path lies outside the repository; use a path relative to its root, or choose another root with --repo DIR"
        }
        _ if has_line(typed) => "leave the line out: a file is named without it",
        _ => "use a path relative to the repository root",
    };
    Problem::new(ErrorKind::FileNotFound, format!("File not found: {typed}")).with_hint(hint)
}

/// True for `src/a.py:12`, the form in which answers cite.
fn has_line(typed: &str) -> bool {
    let line = typed.rsplit_once(':').map_or("", |(_, line)| line);
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_one_word(text: &str) -> bool {
    !text.trim().contains(char::is_whitespace)
}

fn needs_source_file(message: impl Into<String>) -> Problem {
    Problem::new(ErrorKind::InvalidTarget, message).with_hint("name one file: `tool test-gen <file>`")
}

fn source_file(place: TargetKind, typed: &str) -> Result<TargetKind, Problem> {
    match place {
        TargetKind::File(path) if crate::is_source(&path) => Ok(TargetKind::File(path)),
        TargetKind::File(_) => Err(needs_source_file(format!("Not a source file: {typed}"))),
        TargetKind::Root | TargetKind::Directory(_) => {
            Err(needs_source_file(format!("Not a file but a directory: {typed}")))
        }
    }
}

/// Finds what was typed: first from the working directory, then from the root.
fn locate(
    typed: &str,
    repository: &Repository,
    working_directory: &Path,
    cancel: &CancellationToken,
) -> Result<TargetKind, Problem> {
    let inside = candidates(typed, repository.root(), working_directory);
    for path in &inside {
        match repository.open_within(path, cancel) {
            Ok(opened) if opened.path.is_empty() || opened.path == "." => return Ok(TargetKind::Root),
            Ok(opened) if opened.kind == EntryKind::Directory => return Ok(TargetKind::Directory(opened.path)),
            Ok(opened) => return Ok(TargetKind::File(opened.path)),
            Err(OpenError::Denied { reason, .. }) => {
                let message = format!("File not accessible: {typed} (it {reason})");
                return Err(Problem::new(ErrorKind::FileNotAccessible, message));
            }
            Err(OpenError::NotRegular { .. }) => {
                let message = format!("File not accessible: {typed} (it is neither a file nor a directory)");
                return Err(Problem::new(ErrorKind::FileNotAccessible, message));
            }
            Err(_) => {}
        }
    }
    Err(missing(typed, &inside))
}

/// `path` from the root, in normal form; absent where it lies outside. The real path of the working directory counts
/// too, because a root is always a real path.
fn relative(path: &Path, root: &Path) -> Option<String> {
    let inside = |path: &Path| Some(path.strip_prefix(root).ok()?.to_str()?.to_owned());
    let normal = normal(path);
    inside(&normal).or_else(|| {
        let existing = normal.ancestors().find(|ancestor| ancestor.exists())?;
        let rest = normal.strip_prefix(existing).ok()?;
        inside(&existing.canonicalize().ok()?.join(rest))
    })
}

/// Without `.` and `..`, by text alone.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut whole = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    whole
}

/// The first message to the model: what is asked, then the packet, then the question once more in a line, because a
/// long packet lies in between. `repository` is the name of its folder, where it has one.
pub fn user_message(
    operation: Operation,
    repository: &str,
    target: &Target,
    focus: Option<&str>,
    packet: &Packet,
) -> String {
    let mut text = format!("# Request\n\nOperation: {operation}\n");
    text.push_str(&match target {
        Target::Root if repository.is_empty() => "Target: the whole repository\n".to_owned(),
        Target::Root => format!("Target: the whole repository `{}`\n", visible_name(repository)),
        Target::Directory(path) => format!("Target: the directory `{}`\n", visible_name(path)),
        Target::File(path) => format!("Target: the file `{}`\n", visible_name(path)),
        Target::Task(task) => format!("Task:\n{task}\n"),
        Target::TaskIn { task, path } => format!("Target: `{}`\nTask:\n{task}\n", visible_name(path)),
    });
    if let Some(focus) = focus.filter(|focus| !focus.trim().is_empty()) {
        text.push_str(&format!("Focus: {focus}\n"));
    }
    text.push('\n');
    text.push_str(&packet.context);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("\n{}\n", prompts::reminder(operation)));
    text
}

#[cfg(test)]
mod tests;
