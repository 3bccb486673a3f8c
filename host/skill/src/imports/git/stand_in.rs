//! A stand-in for a git directory whose references are in tables (reftable), which libgit2 cannot read.
//!
//! It is a folder of the engine, with links to the real objects, index, configuration and files of a merge in
//! progress. A helper reads the tables and writes their references to it as files ([`fill_stand_in`]). Nothing is copied back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::layout::GitDirectories;
use crate::helper_task::StandInTask;
use tool_boundary::Failure;
use tool_core::digest::to_hexadecimal;
use tool_repository::reftable::{self, Reference, References};
use tool_sandbox::scratch::{self, ScratchFolder};

/// Entries of the common directory that libgit2 reads.
const COMMON: [&str; 4] = ["objects", "info", "config", "shallow"];

/// Entries of the work tree's own git directory that libgit2 reads. `MERGE_HEAD` is a file; other references of
/// unfinished actions are in the tables.
const OWN: [&str; 8] = [
    "MERGE_HEAD",
    "index",
    "config.worktree",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "BISECT_LOG",
    "MERGE_MSG",
];

/// References of unfinished actions, which libgit2 expects as files.
const STATES: [&str; 2] = ["CHERRY_PICK_HEAD", "REVERT_HEAD"];

/// Prepares a stand-in. `home` is the program's own directory.
pub(super) fn prepare_stand_in(
    layout: &GitDirectories,
    home: Option<&Path>,
) -> Result<(ScratchFolder, StandInTask), Failure> {
    let make = || -> io::Result<_> {
        let folder = scratch::create_folder(home, "tool-refs-")?;
        let place = folder.path();
        for (from, names) in [(&layout.common, COMMON.as_slice()), (&layout.git, OWN.as_slice())] {
            for name in names {
                symlink(from.join(name), place.join(name))?;
            }
        }
        fs::create_dir(place.join("refs"))?;
        let task = StandInTask {
            place: place.to_owned(),
            own: layout.git.join(reftable::FOLDER),
            common: layout.common.join(reftable::FOLDER),
        };
        Ok((folder, task))
    };
    make().map_err(|error| Failure::failed(format!("The references could not be prepared: {error}.")))
}

/// Writes the current references of the tables to the stand-in.
pub(super) fn fill_stand_in(task: &StandInTask) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let own = References::read(&task.own)?;
        let mut all = if task.own == task.common {
            own.by_name.clone()
        } else {
            References::read(&task.common)?.by_name
        };
        // A work tree has its own `HEAD`, its own unfinished actions, and its own references below these names.
        let is_own = |name: &str| !name.starts_with("refs/") || OWN_REFERENCES.iter().any(|at| name.starts_with(at));
        all.retain(|name, _| !is_own(name));
        let head = own.by_name.get("HEAD").map_or_else(String::new, format_reference);
        for state in STATES {
            let place = task.place.join(state);
            match own.by_name.get(state) {
                Some(value) => replace_file(&place, &format_reference(value))?,
                None if place.exists() => fs::remove_file(place)?,
                None => {}
            }
        }
        all.extend(
            own.by_name
                .into_iter()
                .filter(|(name, _)| is_own(name) && name.starts_with("refs/")),
        );
        replace_file(&task.place.join("packed-refs"), &pack_references(task, &all)?)?;
        replace_file(&task.place.join("HEAD"), &head)
    };
    write().map_err(|error| Failure::failed(format!("git: {error}.")))
}

/// Prefixes of references that every work tree has for itself.
const OWN_REFERENCES: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// The text of `packed-refs`. It cannot hold symbolic references, which are written as files.
fn pack_references(task: &StandInTask, references: &BTreeMap<String, Reference>) -> io::Result<String> {
    let mut packed = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for (name, value) in references {
        if !git2::Reference::is_valid_name(name) {
            continue;
        }
        match value {
            Reference::Object { id, peeled } => {
                let _ = writeln!(packed, "{} {name}", to_hexadecimal(id));
                if let Some(peeled) = peeled {
                    let _ = writeln!(packed, "^{}", to_hexadecimal(peeled));
                }
            }
            Reference::Symbolic(_) => {
                let place = task.place.join(name);
                fs::create_dir_all(place.parent().unwrap_or(&task.place))?;
                replace_file(&place, &format_reference(value))?;
            }
        }
    }
    Ok(packed)
}

fn format_reference(value: &Reference) -> String {
    match value {
        Reference::Object { id, .. } => format!("{}\n", to_hexadecimal(id)),
        Reference::Symbolic(target) => format!("ref: {}\n", target.replace(['\n', '\r'], " ")),
    }
}

/// Creates a new file each time, so that libgit2 notices the change.
fn replace_file(place: &Path, text: &str) -> io::Result<()> {
    let new = place.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, place)
}
