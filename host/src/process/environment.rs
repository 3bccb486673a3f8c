//! What of the starter's environment a run may see, and where its programs are.
//!
//! An allow list: keys and tokens are never on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What every run may see: where things are, and how to speak.
const COMMON: [&str; 15] = [
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
];

/// What an installer may see beside that: the way to the package registry.
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

/// The environment of a run that stays on this machine.
pub(crate) fn for_run(starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut environment = pick(starter, &COMMON);
    // Tools that look decide by these to leave out colours, cursor movement and questions.
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "true")] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    environment
        .entry("LANG".to_owned())
        .or_insert_with(|| "C.UTF-8".to_owned());
    environment
}

/// The environment of an installer.
pub(crate) fn for_install(starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut environment = for_run(starter);
    environment.extend(pick(starter, &NETWORK));
    environment
}

fn pick(starter: &BTreeMap<String, String>, names: &[&str]) -> BTreeMap<String, String> {
    starter
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Finds a program on the starter's `PATH`. Relative entries are skipped: they would mean the repository.
pub(crate) fn find_program(starter: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    let path = starter.get("PATH")?;
    path.split(':')
        .map(Path::new)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| executable(candidate))
}

/// True for a regular file that may be executed, links followed.
pub(crate) fn executable(path: &Path) -> bool {
    use rustix::fs::Access;
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Puts a directory before all others on the `PATH` of a run.
pub(crate) fn prepend_path(environment: &mut BTreeMap<String, String>, directory: &Path) {
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
        assert_eq!(names, ["CI", "LANG", "NO_COLOR", "PATH", "TERM"]);
        assert!(for_install(&starter).contains_key("HTTPS_PROXY"));
        assert!(!for_install(&starter).contains_key("HOSTED_API_KEY"));
    }

    #[test]
    fn programs_are_found_in_absolute_entries_only() {
        let found = find_program(&map(&[("PATH", "bin::./bin:/nowhere:/bin")]), "sh");
        assert_eq!(found.as_deref(), Some(Path::new("/bin/sh")));
        assert_eq!(find_program(&map(&[("PATH", "/bin")]), "no-such-program"), None);
        assert_eq!(find_program(&map(&[]), "sh"), None);
    }

    #[test]
    fn a_directory_goes_before_the_path() {
        let mut environment = map(&[("PATH", "/bin")]);
        prepend_path(&mut environment, Path::new("/venv/bin"));
        assert_eq!(environment["PATH"], "/venv/bin:/bin");
    }
}
