//! Reads configurations before a repository is opened, to know which files of the user a helper may read, and whether
//! the repository's format is one that libgit2 understands as git does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use git2::Config;

use super::super::layout;
use crate::limits;
use crate::task::GitTask;
use tool_boundary::bindings::tool::skill::types::Failure;
use tool_boundary::hinted;
use tool_sandbox::confine::Walls;

/// Makes this process ready to be confined: bounds libgit2's own use of memory, tells it where the user's home is, and
/// lets the helper read the machine's and the user's configuration. Only for a process of its own, because all of it is global.
pub(crate) fn prepare(task: &GitTask, walls: &mut Walls) {
    let config_home = task
        .config_home
        .clone()
        .or_else(|| task.home.as_ref().map(|home| home.join(".config")));
    let folder = config_home.map(|folder| folder.join("git"));
    #[expect(
        unsafe_code,
        reason = "the environment and libgit2's options are global; this process has one thread"
    )]
    // SAFETY: no other thread exists that could read or write them meanwhile.
    unsafe {
        // It was empty. libgit2 finds the user's configuration by these two, and expands `~` by the first.
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

/// Limits the memory that libgit2 maps and keeps for packs.
fn bound_memory() {
    #[expect(unsafe_code, reason = "libgit2's options are global state")]
    // SAFETY: they are numbers; a concurrent reader gets the old or the new one.
    unsafe {
        let _ = git2::opts::set_mwindow_size(limits::GIT_PACK_WINDOW_BYTES);
        let _ = git2::opts::set_mwindow_mapped_limit(limits::GIT_PACK_MAPPED_BYTES_MAX);
        let _ = git2::opts::set_cache_max_size(limits::GIT_CACHE_BYTES_MAX);
    }
}

/// The user's configurations with everything that they include, on whatever condition, and the lists of ignored files
/// and attributes that they name.
fn users_files(mut todo: Vec<PathBuf>, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    while let Some(file) = todo.pop() {
        if files.len() >= limits::GIT_CONFIG_FILES_MAX || !file.is_file() || !files.insert(file.clone()) {
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

/// Refuses a repository whose format changes what its files mean. libgit2 refuses some of these itself, and misreads
/// others: it looks at the list of extensions only in the newer of the two format versions, and git does in both.
pub(super) fn check_format(top: &Path) -> Result<(), Failure> {
    let Some(text) = configuration(top) else { return Ok(()) };
    for (key, value) in extensions(&text) {
        let is_known = match key.as_str() {
            "noop" | "preciousobjects" | "worktreeconfig" | "relativeworktrees" => true,
            "objectformat" => value == "sha1",
            "refstorage" => value == "files",
            _ => false,
        };
        if !is_known {
            return Err(hinted(
                "unavailable",
                format!("This git repository uses `extensions.{key} = {value}`, which is not understood here."),
                "the user has to work with git itself in this repository",
            ));
        }
    }
    Ok(())
}

/// The repository's own configuration, where it is found the plain way.
fn configuration(top: &Path) -> Option<String> {
    let link = top.join(".git");
    let common = if link.is_dir() {
        link
    } else {
        layout::Layout::find(top).ok()?.common
    };
    let bytes = layout::read(&common.join("config"), limits::GIT_CONFIG_BYTES_MAX)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Settings in the section `extensions`, in lower case.
fn extensions(text: &str) -> Vec<(String, String)> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let mut rest = line;
        if let Some(header) = line.strip_prefix('[') {
            let (name, after) = header.split_once(']').unwrap_or((header, ""));
            is_inside = name.trim().eq_ignore_ascii_case("extensions");
            rest = after.trim();
        }
        if !is_inside || rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
        let value = value.split(['#', ';']).next().unwrap_or_default();
        let plain = |text: &str| text.trim().trim_matches('"').to_ascii_lowercase();
        found.push((plain(key), plain(value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_found_however_they_are_written() {
        let text =
            "[core]\n\tobjectformat = no\n[Extensions] objectFormat = sha256 # so\n\tnoop\n; x = y\n[a]\nb = c\n";
        let found = extensions(text);
        let found = found
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>();
        assert_eq!(found, ["objectformat=sha256", "noop=true"]);
    }

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
        assert_eq!(told.0.ok(), Some(limits::GIT_PACK_WINDOW_BYTES));
        assert_eq!(told.1.ok(), Some(limits::GIT_PACK_MAPPED_BYTES_MAX));
        assert_eq!(told.2.ok().map(|(_, most)| most), Some(limits::GIT_CACHE_BYTES_MAX));
    }

    #[test]
    fn configurations_that_are_included_are_of_a_bounded_number() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let places: Vec<PathBuf> = (0..2 * limits::GIT_CONFIG_FILES_MAX)
            .map(|number| folder.path().join(number.to_string()))
            .collect();
        for place in &places {
            std::fs::write(place, "[user]\n").expect("the folder is writable");
        }
        assert_eq!(users_files(places, None).len(), limits::GIT_CONFIG_FILES_MAX);
    }
}
