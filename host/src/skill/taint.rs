//! Taint: text from outside the user's own files has entered a conversation.
//!
//! This module knows such places by their names alone. `guard` and `imports` record what a call has read and run, and
//! `call` judges it at the end of the call. The policy decides what a tainted conversation may still cause without a
//! fresh yes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::repository::fold;

/// Directories of what other people wrote, wherever they lie; lower case.
const DIRECTORIES: [&str; 28] = [
    "node_modules",
    "bower_components",
    "jspm_packages",
    "site-packages",
    "dist-packages",
    "__pypackages__",
    "vendor",
    "vendored",
    "_vendor",
    "third_party",
    "third-party",
    "thirdparty",
    "3rdparty",
    "venv",
    ".venv",
    "virtualenv",
    ".tox",
    ".nox",
    ".eggs",
    ".bundle",
    ".yarn",
    ".pnpm-store",
    ".cargo",
    ".gradle",
    ".m2",
    "pods",
    "carthage",
    "godeps",
];

/// Lock files whose names do not end with `.lock`; lower case.
const LOCK_FILES: [&str; 10] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "bun.lockb",
    "go.sum",
    "go.work.sum",
    "packages.lock.json",
    "gradle.lockfile",
    "package.resolved",
    ".terraform.lock.hcl",
];

/// The part of a path that lies outside of the user's own files by its name: a directory of packages with its `/`, or
/// the whole path of a log or of a lock file.
pub(crate) fn foreign(path: &str) -> Option<&str> {
    let name = fold(path.rsplit('/').next().unwrap_or(path));
    foreign_directory(path).or_else(|| (is_log(&name) || is_lock_file(&name)).then_some(path))
}

/// The first directory of packages that a path lies in, with its `/`.
pub(crate) fn foreign_directory(path: &str) -> Option<&str> {
    path.match_indices('/').find_map(|(end, _)| {
        let start = path[..end].rfind('/').map_or(0, |before| before + 1);
        let is_foreign = DIRECTORIES.contains(&&*fold(&path[start..end]));
        is_foreign.then_some(&path[..=end])
    })
}

/// Package managers write lock files, with names and version texts from their registries.
fn is_lock_file(name: &str) -> bool {
    LOCK_FILES.contains(&name) || name.strip_suffix(".lock").is_some_and(|stem| !stem.is_empty())
}

/// `x.log`, `x.log.1`, `x.log.2024-01-01`: programs write them, and into them what others sent.
fn is_log(name: &str) -> bool {
    name.match_indices(".log").any(|(at, ending)| {
        let rest = &name[at + ending.len()..];
        at > 0 && (rest.is_empty() || rest.starts_with(['.', '-']))
    })
}

/// What has entered the conversation of a session.
#[derive(Debug, Default)]
pub(crate) struct Taint {
    is_untrusted: bool,
    places: Mutex<Vec<String>>,
}

impl Taint {
    /// Nothing yet; in a repository that is not trusted, everything.
    pub(crate) fn new(is_untrusted: bool) -> Self {
        Self {
            is_untrusted,
            places: Mutex::default(),
        }
    }

    /// True where the repository itself is not trusted.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Takes note of text from these places.
    pub(crate) fn note(&self, places: &[String]) {
        let mut known = self.lock();
        for place in places {
            if known.len() < limits::FOREIGN_PLACES_MAX && !known.contains(place) {
                known.push(place.clone());
            }
        }
    }

    pub(crate) fn is_tainted(&self) -> bool {
        self.is_untrusted || !self.lock().is_empty()
    }

    /// What tainted it, as the end of a sentence; nothing where nothing did.
    pub(crate) fn because(&self) -> Option<String> {
        let places = self.lock();
        match (self.is_untrusted, places.is_empty()) {
            (true, _) => Some("this repository is not trusted".to_owned()),
            (false, true) => None,
            (false, false) => Some(format!(
                "text from outside the user's own files has entered the conversation ({})",
                places.join(", ")
            )),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_others_are_known_by_their_names() {
        for (path, place) in [
            ("node_modules/left-pad/README.md", "node_modules/"),
            ("packages/a/node_modules/b/index.js", "packages/a/node_modules/"),
            (
                "django/contrib/admin/static/admin/js/vendor/jquery.js",
                "django/contrib/admin/static/admin/js/vendor/",
            ),
            (".venv/lib/python3.12/site-packages/x.py", ".venv/"),
            ("Third_Party/zlib/zlib.h", "Third_Party/"),
            ("logs/server.log", "logs/server.log"),
            ("server.log.1", "server.log.1"),
            ("app.LOG-20240101", "app.LOG-20240101"),
            ("logs/auth.login.log", "logs/auth.login.log"),
            ("x.logger.log.1", "x.logger.log.1"),
            ("package-lock.json", "package-lock.json"),
            ("app/Cargo.lock", "app/Cargo.lock"),
            ("app/go.sum", "app/go.sum"),
            ("vendor/x/Cargo.lock", "vendor/"),
        ] {
            assert_eq!(foreign(path), Some(place), "{path}");
        }
        for path in [
            "",
            "src/main.py",
            "vendor",
            "vendors/list.py",
            "src/vendor.py",
            "logs/rotate.py",
            "login.py",
            "changelog.md",
            ".log",
            "a.logger",
            ".lock",
            "locks.py",
            "Cargo.toml",
        ] {
            assert_eq!(foreign(path), None, "{path}");
        }
    }

    #[test]
    fn what_tainted_is_said_once_and_within_bounds() {
        let taint = Taint::default();
        assert_eq!((taint.is_tainted(), taint.because()), (false, None));
        for number in 0..50 {
            taint.note(&["`vendor`".to_owned(), format!("`{number}.log`")]);
        }
        let because = taint.because().expect("it is tainted");
        assert!(
            because.contains("(`vendor`, `0.log`, `1.log`") && !because.contains("`15.log`"),
            "{because}"
        );
        let untrusted = Taint::new(true);
        assert!(untrusted.is_tainted());
        assert_eq!(untrusted.because().as_deref(), Some("this repository is not trusted"));
    }
}
