//! Installs in the sandbox: everything or nothing.
//!
//! The run writes to covers of the repository and of the folder of packages. The real files change only after the
//! installer exited with 0: first the folder of packages is replaced, then manifests and lock files are committed
//! like any proposal. If the commit fails, the folder is restored. Other writes of the run are dropped.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::package_records::ListedRecords;
use super::replace_folder::{self, PackageFolder, PlacedFolder};
use super::sources::PackageSources;
use crate::imports::recipe::{self, PreparedRun};
use crate::limits::REPLACED_BYTES_MAX;
use crate::{CallContext, stage};
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::tests::Report;
use tool_repository::changes::{self, FileChange, FileState, JournalGuard};
use tool_sandbox::program_sandbox::{Installation, LeftTrees, Sandbox};
use tool_sandbox::{self, RunLimits};

pub(super) struct InstallerRun<'a> {
    pub(super) recipe: &'a PreparedRun,
    /// Real path of the folder of packages.
    pub(super) folder: &'a Path,
    /// Files at the root with the installer's records.
    pub(super) manifests: &'static [&'static str],
    /// Records that the installer reads, as they were when the user was asked.
    pub(super) listed: Option<&'a ListedRecords>,
    pub(super) sources: PackageSources,
}

impl InstallerRun<'_> {
    /// Runs the installer and keeps its result.
    pub(super) fn run(self, context: &CallContext) -> Result<Report, Failure> {
        let before = read_states(context, self.manifests)?;
        let is_inside = self.folder.starts_with(context.repository.root());
        let mut enclosure = recipe::enclose_repository(context, Sandbox::Namespaces)?;
        enclosure.installation = Some(Installation {
            outside: (!is_inside).then(|| self.folder.to_owned()),
            shown: self.sources.shown,
            way: self.sources.way,
        });
        let mut command = self.recipe.command.clone();
        command.environment.extend(self.sources.settings);
        let limits = RunLimits::within(self.recipe.time);
        let progress = |line: &str| (context.progress)(line);
        let run = || tool_sandbox::run_handing_back(&command, &enclosure, &limits, &context.cancel, &progress);
        let ended = recipe::without_turn(context, run)?.map_err(|error| recipe::not_run(&error))?;
        let mut report = self.recipe.report(ended.run, Sandbox::Namespaces)?;
        let refused = ended.refused;
        let mut notes = refused.clone();
        match ended.left {
            Some(left) => {
                // A record that was written after the question may have affected the result.
                self.listed.map_or(Ok(()), |listed| listed.is_still(context))?;
                let masked = masked_paths(context, self.folder, &enclosure.hidden);
                let (told, changes) = keep_result(context, self.folder, &masked, &left, before)?;
                notes.extend(told);
                if let Some(listed) = self.listed {
                    listed.settle(context, &changes);
                }
            }
            None => {
                report.exit_code = report.exit_code.filter(|&code| code != 0);
                notes.push("nothing was changed: what the installer did before it failed is gone".to_owned());
            }
        }
        // An installer reports a refusal of the sandbox's proxy as a network failure.
        if report.exit_code != Some(0) && !report.timed_out && !refused.is_empty() {
            return Err(Failure::denied(format!(
                    "the sandbox refused what the installation wanted to reach\n{}",
                    notes.join("\n")
                )).with_hint("only the user's registries are reached; tell the user, who can name another one in their own pip or npm \
                 configuration"));
        }
        Ok(recipe::with_notes(report, &notes))
    }
}

pub(super) fn read_states(
    context: &CallContext,
    manifests: &[&'static str],
) -> Result<Vec<(&'static str, Option<FileState>)>, Failure> {
    let state = |&name: &&'static str| {
        let state = context.repository.current(name, REPLACED_BYTES_MAX);
        Ok((name, state.map_err(|obstacle| Failure::denied(format!("{obstacle}.")))?))
    };
    manifests.iter().map(state).collect()
}

/// Manifests that changed; removed ones are not listed.
pub(super) fn changed_manifests(
    before: Vec<(&'static str, Option<FileState>)>,
    after: impl Fn(&str) -> Option<FileState>,
) -> Vec<FileChange> {
    let difference = |(name, before): (&'static str, Option<FileState>)| {
        let after = after(name)?;
        let is_same = before.as_ref().is_some_and(|before| before.content == after.content);
        (!is_same).then(|| FileChange {
            path: name.to_owned(),
            after: Some(FileState {
                mode: before.as_ref().map_or(after.mode, |before| before.mode & 0o777),
                ..after
            }),
            before,
        })
    };
    before.into_iter().filter_map(difference).collect()
}

/// Paths in the folder that the run could not see, relative to it.
fn masked_paths(context: &CallContext, folder: &Path, hidden: &[std::ffi::OsString]) -> HashSet<PathBuf> {
    let root = context.repository.root();
    let inside = hidden.iter().map(|path| root.join(path));
    inside
        .filter_map(|path| Some(path.strip_prefix(folder).ok()?.to_owned()))
        .collect()
}

/// Replaces the folder and the manifests. Returns notices for the report, and the changes of the manifests.
fn keep_result(
    context: &CallContext,
    folder: &Path,
    masked: &HashSet<PathBuf>,
    left: &LeftTrees,
    before: Vec<(&'static str, Option<FileState>)>,
) -> Result<(Vec<String>, Vec<FileChange>), Failure> {
    // The end of the session waits for this from here on; after the end it does not begin.
    let entered = JournalGuard::new(&*context.changes);
    let _entered = entered.map_err(|error| Failure::failed(format!("Nothing was changed: {error}.")))?;
    let placed = place_packages(context, folder, masked, left)?;
    let changes = changed_manifests(before, |name| read_left_manifest(&left.repository, name));
    let count = placed.as_ref().map_or(0, PlacedFolder::changed);
    match stage::commit_manifests(context, changes.clone()) {
        Ok(paths) => {
            if let Some(placed) = placed {
                placed.keep();
            }
            let what = match count {
                0 => "no change in",
                _ => "put in place:",
            };
            let mut notes = vec![format!("{what} {}", folder.display())];
            if !paths.is_empty() {
                notes.push(format!(
                    "changed, and to be undone with `tool undo`: {}",
                    paths.join(", ")
                ));
            }
            Ok((notes, changes))
        }
        Err(failure) => {
            if let Some(placed) = placed {
                placed.take_back();
            }
            Err(failure)
        }
    }
}

/// Replaces the folder of packages; `None` if the run left none, because there was nothing to install.
fn place_packages(
    context: &CallContext,
    folder: &Path,
    masked: &HashSet<PathBuf>,
    left: &LeftTrees,
) -> Result<Option<PlacedFolder>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("The packages could not be put in place, and nothing was changed: {error}.");
        Failure::failed(message)
    };
    let new = match (&left.outside, folder.strip_prefix(context.repository.root())) {
        (Some(outside), _) => open_beneath(outside, Path::new("")),
        (None, Ok(inside)) => open_beneath(&left.repository, inside),
        (None, Err(_)) => Err(rustix::io::Errno::NOENT),
    };
    let new = match new {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        new => new.map_err(|error| failed(&error))?,
    };
    let parent = open_directory(folder.parent().unwrap_or(folder)).map_err(|error| failed(&error))?;
    let folder = PackageFolder {
        parent: parent.as_fd(),
        name: folder.file_name().unwrap_or_default(),
        masked,
        cancel: &context.cancel,
    };
    replace_folder::place_folder(&folder, &new)
        .map(Some)
        .map_err(|error| failed(&error))
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, FOLDER, Mode::empty())
}

/// Opens one name at a time, so that no link is followed.
fn open_beneath(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut here = rustix::fs::openat(root, ".", FOLDER, Mode::empty())?;
    for part in path.components() {
        here = rustix::fs::openat(&here, part.as_os_str(), FOLDER, Mode::empty())?;
    }
    Ok(here)
}

/// Reads a manifest that the run left, if it is a regular file.
fn read_left_manifest(root: &OwnedFd, name: &str) -> Option<FileState> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, OsStr::new(name), flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    Some(FileState {
        content: changes::read_bounded(file, REPLACED_BYTES_MAX).ok()?,
        mode: changes::new_file_mode(),
    })
}
