//! Reads configurations before a repository is opened, to find the user's files that a helper may read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Once;

use git2::Config;

use crate::helper_task::GitTask;
use tool_sandbox::helper_process::HelperRights;

/// Size of one mapped window of a pack.
const GIT_PACK_WINDOW_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of all packs that are mapped together.
const GIT_PACK_MAPPED_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Objects that a helper keeps unpacked.
const GIT_CACHE_BYTES_MAX: isize = 64 * 1024 * 1024;

/// Files of the user's own git configuration, with what they include.
const GIT_CONFIG_FILES_MAX: usize = 64;

/// Prepares this process for confinement: limits libgit2's memory, sets the user's home, and lets the helper read the
/// configuration of the machine and the user. All of these are global, so this is only for a process of its own.
pub(crate) fn prepare_process(task: &GitTask, walls: &mut HelperRights) {
    let config_home = task
        .config_home
        .clone()
        .or_else(|| task.home.as_ref().map(|home| home.join(".config")));
    let folder = config_home.map(|folder| folder.join("git"));
    #[expect(
        unsafe_code,
        reason = "the environment and libgit2's options are global; this process has one thread"
    )]
    // SAFETY: no other thread exists that could read or write the environment.
    unsafe {
        // The environment is empty. libgit2 finds the user's configuration by these variables, and expands `~` with
        // `HOME`.
        for (name, place) in [("HOME", &task.home), ("XDG_CONFIG_HOME", &task.config_home)] {
            if let Some(place) = place {
                std::env::set_var(name, place);
            }
        }
    }
    bound_memory();
    let mut files = vec![PathBuf::from("/etc/gitconfig"), PathBuf::from("/etc/gitattributes")];
    files.extend(task.home.as_ref().map(|home| home.join(".gitconfig")));
    if let Some(folder) = folder {
        files.extend(["config", "ignore", "attributes"].map(|name| folder.join(name)));
    }
    walls.read.extend(users_files(files, task.home.as_deref()));
}

/// Makes libgit2 open repositories with reference tables. It reads them from a stand-in, whose configuration is the
/// real one.
pub(in crate::imports) fn allow_extensions() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(unsafe_code, reason = "libgit2's options are global state")]
        // SAFETY: this process opens repositories only after this `Once`, and nothing else reads the list.
        let set = unsafe { git2::opts::set_extensions(&["refstorage"]) };
        set.expect("libgit2 takes any name");
    });
}

/// Limits the memory that libgit2 maps and keeps for packs.
fn bound_memory() {
    #[expect(unsafe_code, reason = "libgit2's options are global state")]
    // SAFETY: these are numbers; a concurrent reader gets the old or the new one.
    unsafe {
        let _ = git2::opts::set_mwindow_size(GIT_PACK_WINDOW_BYTES);
        let _ = git2::opts::set_mwindow_mapped_limit(GIT_PACK_MAPPED_BYTES_MAX);
        let _ = git2::opts::set_cache_max_size(GIT_CACHE_BYTES_MAX);
    }
}

/// The user's configuration files with everything that they include, under any condition, and the lists of ignored
/// files and attributes that they name.
fn users_files(mut todo: Vec<PathBuf>, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    while let Some(file) = todo.pop() {
        if files.len() >= GIT_CONFIG_FILES_MAX || !file.is_file() || !files.insert(file.clone()) {
            continue;
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        let Ok(config) = Config::open(&file) else { continue };
        for pattern in ["^include.*\\.path$", "^core\\.(excludesfile|attributesfile)$"] {
            let Ok(mut entries) = config.entries(Some(pattern)) else {
                continue;
            };
            while let Some(Ok(entry)) = entries.next() {
                let Ok(value) = entry.value() else { continue };
                todo.push(match (value.strip_prefix("~/"), home) {
                    (Some(rest), Some(home)) => home.join(rest),
                    _ => folder.join(value),
                });
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_users_configuration_names_may_be_read_and_nothing_else() {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
            std::fs::write(path, text).expect("files can be written");
        };
        write(
            ".gitconfig",
            "[include]\n\tpath = more/config\n[includeIf \"gitdir:/elsewhere/\"]\n\tpath = ~/work\n\
             [core]\n\texcludesFile = ~/ignored\n[credential]\n\thelper = store --file ~/.secret\n",
        );
        write("more/config", "[include]\n\tpath = third\n");
        for name in ["more/third", "work", "ignored", ".secret", ".git-credentials"] {
            write(name, "");
        }
        let files = users_files(vec![home.path().join(".gitconfig")], Some(home.path()));
        let names = files
            .iter()
            .map(|file| file.strip_prefix(home.path()).unwrap_or(file).to_string_lossy());
        assert_eq!(
            names.collect::<Vec<_>>(),
            [".gitconfig", "ignored", "more/config", "more/third", "work"]
        );
    }

    #[test]
    #[expect(unsafe_code, reason = "libgit2's options are global state")]
    fn what_libgit2_maps_and_keeps_is_bounded() {
        bound_memory();
        // SAFETY: they are numbers, and every test sets the same ones.
        let told = unsafe {
            (
                git2::opts::get_mwindow_size(),
                git2::opts::get_mwindow_mapped_limit(),
                git2::opts::get_cached_memory(),
            )
        };
        assert_eq!(told.0.ok(), Some(GIT_PACK_WINDOW_BYTES));
        assert_eq!(told.1.ok(), Some(GIT_PACK_MAPPED_BYTES_MAX));
        assert_eq!(told.2.ok().map(|(_, most)| most), Some(GIT_CACHE_BYTES_MAX));
    }

    #[test]
    fn configurations_that_are_included_are_of_a_bounded_number() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let places: Vec<PathBuf> = (0..2 * GIT_CONFIG_FILES_MAX)
            .map(|number| folder.path().join(number.to_string()))
            .collect();
        for place in &places {
            std::fs::write(place, "[user]\n").expect("the folder is writable");
        }
        assert_eq!(users_files(places, None).len(), GIT_CONFIG_FILES_MAX);
    }
}
