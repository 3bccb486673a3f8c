//! Environment variables of the starter that a run may see, and the paths of its programs.
//!
//! An allowlist, on which no key and no token is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::limits::RECIPE_FILE_BYTES_MAX;

/// `PATH` if the starter sets none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Variables that every run may see: paths, user, language and time zone.
const COMMON: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "NVM_DIR",
    "VOLTA_HOME",
    "POETRY_HOME",
    "UV_CACHE_DIR",
    "UV_PROJECT_ENVIRONMENT",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Further variables for an installer: how to reach the package registry.
const NETWORK: [&str; 17] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
];

/// Variables that name certificates which a user has added to the machine's.
pub const CERTIFICATES: [&str; 5] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
];

/// The environment of a run that needs no network.
pub fn for_run(starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut environment = pick_variables(starter, &COMMON);
    // With these, tools leave out colours and cursor movement.
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    for (name, value) in [("LANG", "C.UTF-8"), ("PATH", PATH)] {
        environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    environment
}

/// The environment of an installer.
pub fn for_install(starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut environment = for_run(starter);
    environment.extend(pick_variables(starter, &NETWORK));
    environment
}

/// Selects variables by their names.
pub fn pick_variables(starter: &BTreeMap<String, String>, names: &[&str]) -> BTreeMap<String, String> {
    starter
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Finds programs called `name` on the starter's `PATH`, in its order. Relative entries are skipped, because they would
/// lead into the repository.
pub fn find_programs(starter: &BTreeMap<String, String>, name: &str) -> Vec<PathBuf> {
    let path = starter.get("PATH").map_or(PATH, String::as_str);
    path.split(':')
        .map(Path::new)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .filter(|candidate| is_executable(candidate))
        .collect()
}

/// Finds those programs of [`find_programs`] that are outside of the repository. A program inside may be hostile
/// whatever its name is: this includes links of the `PATH` that lead there, and links in the repository that lead out.
pub fn find_programs_outside(starter: &BTreeMap<String, String>, name: &str, root: &Path) -> Vec<PathBuf> {
    let real_root = root.canonicalize();
    let is_outside = |path: &Path| {
        let is_beneath = |place: &Path| path.starts_with(place);
        !is_beneath(root) && !real_root.as_deref().is_ok_and(is_beneath)
    };
    // A dangling link is not a program.
    let really = |path: &PathBuf| path.canonicalize().is_ok_and(|real| is_outside(&real));
    let found = find_programs(starter, name).into_iter();
    found.filter(|path| is_outside(path) && really(path)).collect()
}

/// True for a regular file that may be executed, through links.
pub fn is_executable(path: &Path) -> bool {
    use rustix::fs::Access;
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Reads the `pyvenv.cfg` of a virtual environment; absent if the folder is not one. The file may be the repository's,
/// so the read waits for no FIFO and is bounded.
pub fn venv_record(folder: &Path) -> Option<String> {
    small_file(&folder.join("pyvenv.cfg"))
}

/// Reads a small text file of a repository without waiting; absent if it is not a regular file.
pub fn small_file(path: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    use std::io::Read;
    // Opening a FIFO for reading waits for a writer unless `NONBLOCK` is set.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(RECIPE_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Puts a directory first on the `PATH` of a run.
pub fn prepend_path(environment: &mut BTreeMap<String, String>, directory: &Path) {
    let directory = directory.to_string_lossy();
    let path = match environment.get("PATH") {
        Some(path) if !path.is_empty() => format!("{directory}:{path}"),
        _ => directory.into_owned(),
    };
    environment.insert("PATH".to_owned(), path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn keys_never_reach_a_run_and_proxies_only_an_installer() {
        let starter = map(&[
            ("PATH", "/usr/bin"),
            ("HOSTED_API_KEY", "secret"),
            ("GIT_DIR", "/elsewhere"),
            ("LD_PRELOAD", "/evil.so"),
            ("NODE_OPTIONS", "--require /evil.js"),
            ("HTTPS_PROXY", "http://proxy"),
        ]);
        let run = for_run(&starter);
        let names = run.keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names, ["LANG", "NO_COLOR", "PATH", "TERM"]);
        assert!(for_install(&starter).contains_key("HTTPS_PROXY"));
        assert!(!for_install(&starter).contains_key("HOSTED_API_KEY"));
    }

    #[test]
    fn programs_are_found_in_absolute_entries_only() {
        let found = find_programs(&map(&[("PATH", "bin::./bin:/nowhere:/bin")]), "sh");
        assert_eq!(found, [Path::new("/bin/sh")]);
        assert!(find_programs(&map(&[("PATH", "/bin")]), "no-such-program").is_empty());
        assert!(!find_programs(&map(&[]), "sh").is_empty(), "there is a usual place");
    }

    #[test]
    fn a_program_of_the_repository_is_none_of_the_machines_however_it_is_reached() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("it is there");
        let at = |path: &str| base.join(path);
        for path in ["root/bin/tool", "machine/tool"] {
            std::fs::create_dir_all(at(path).parent().expect("it has one")).expect("the folder is writable");
            std::fs::copy("/bin/sh", at(path)).expect("there is a shell");
        }
        let link = |target: &str, path: &str| {
            std::fs::create_dir_all(at(path).parent().expect("it has one")).expect("the folder is writable");
            std::os::unix::fs::symlink(at(target), at(path)).expect("links can be made");
        };
        link("root/bin", "linked");
        link("root/bin/tool", "single/tool");
        link("root", "alias");
        link("machine/tool", "root/out/tool");
        let found = |root: &str, folders: &[&str]| {
            let path = folders.iter().map(|folder| at(folder).to_string_lossy().into_owned());
            let starter = map(&[("PATH", &path.collect::<Vec<_>>().join(":"))]);
            find_programs_outside(&starter, "tool", &at(root))
        };
        let all = ["root/bin", "linked", "single", "alias/bin", "root/out", "machine"];
        assert_eq!(found("root", &all), [at("machine/tool")]);
        // A second name of the repository changes nothing.
        assert_eq!(found("alias", &all), [at("machine/tool")]);
        assert!(found("root", &all[..5]).is_empty());
    }

    #[test]
    fn a_directory_goes_before_the_path() {
        let mut environment = map(&[("PATH", "/bin")]);
        prepend_path(&mut environment, Path::new("/venv/bin"));
        assert_eq!(environment["PATH"], "/venv/bin:/bin");
    }

    #[test]
    fn a_record_that_is_none_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("pyvenv.cfg");
        assert_eq!(venv_record(folder.path()), None);
        rustix::fs::mkfifoat(rustix::fs::CWD, &place, rustix::fs::Mode::RWXU).expect("the folder is writable");
        assert_eq!(venv_record(folder.path()), None);
        std::fs::remove_file(&place).expect("it is there");
        std::os::unix::fs::symlink("/dev/zero", &place).expect("the folder is writable");
        assert_eq!(venv_record(folder.path()), None);
        std::fs::remove_file(&place).expect("it is there");
        std::fs::write(&place, "version = 3.12\n").expect("the folder is writable");
        assert_eq!(venv_record(folder.path()).as_deref(), Some("version = 3.12\n"));
        let file = std::fs::File::create(&place).expect("the folder is writable");
        file.set_len(RECIPE_FILE_BYTES_MAX + 1).expect("a sparse file");
        let read = venv_record(folder.path()).expect("it is a file");
        assert_eq!(read.len() as u64, RECIPE_FILE_BYTES_MAX);
    }
}
