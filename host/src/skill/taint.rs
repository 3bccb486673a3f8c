//! Whose words have entered a conversation: the user's own files are the user's, what others wrote is not.
//!
//! Pure names here; what a call has read is recorded by `guard` and `imports`, and judged at its end by `call`. What a
//! tainted conversation may no longer cause without a fresh yes is the policy's business.

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

/// What of a path lies outside of the user's own files by its name: the directory of others with its `/`, or the log.
pub(crate) fn foreign(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        let is_last = end == path.len();
        let folded = fold(part);
        if is_last {
            return is_log(&folded).then_some(path);
        }
        end += 1;
        if DIRECTORIES.contains(&&*folded) {
            return Some(&path[..end]);
        }
    }
    None
}

/// True for an answer of `run_tests` that holds counts and no word that a test, or what it uses, has printed.
pub(crate) fn is_verdict_alone(text: &str) -> bool {
    let is_output = |line: &str| matches!(line, "output:" | "end of the output:");
    text.starts_with("PASSED: ") && !text.lines().any(is_output)
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
