//! Taint: text from outside the user's own files has entered a conversation.
//!
//! `tool_repository::origins` recognises such files by their names and by what git tracks. `guard` and `imports` record
//! what a call has read and run, and `call` judges it at the end. The policy decides which effects a tainted
//! conversation may still have without a new yes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool_repository::normalise_path;
use tool_repository::origins::{FileOrigin, FileOrigins};

use crate::{CallContext, Conversation, SessionFiles};

/// Places outside of the user's own files that one call, and a session, remember by name. One is enough to taint.
pub(crate) const FOREIGN_PLACES_MAX: usize = 16;

/// Text from outside that has entered the conversation of a session.
#[derive(Debug, Default)]
pub struct Taint {
    is_untrusted: bool,
    places: Mutex<Vec<String>>,
    /// Number of texts from outside so far. A second text from the same place counts again.
    texts: AtomicU64,
}

impl Taint {
    /// Without text from outside; in a repository that is not trusted, everything counts as such.
    pub fn new(is_untrusted: bool) -> Self {
        Self {
            is_untrusted,
            places: Mutex::default(),
            texts: AtomicU64::new(0),
        }
    }

    /// True if the repository itself is not trusted.
    pub fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Notes text from these places.
    pub fn note(&self, places: &[String]) {
        let mut known = self.lock();
        // Also counted if all places are known: a yes for the session was given before this text.
        self.texts.fetch_add(u64::from(!places.is_empty()), Ordering::SeqCst);
        for place in places {
            if known.len() < FOREIGN_PLACES_MAX && !known.contains(place) {
                known.push(place.clone());
            }
        }
    }

    /// The places from which text has come.
    pub fn places(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Number of texts from outside so far.
    pub(crate) fn texts(&self) -> u64 {
        self.texts.load(Ordering::SeqCst)
    }

    /// True once untrusted text has entered the conversation.
    pub fn is_tainted(&self) -> bool {
        self.is_untrusted || !self.lock().is_empty()
    }

    /// Reason for the taint, as the end of a sentence; `None` without taint.
    pub fn because(&self) -> Option<String> {
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

/// Words of a request that are looked at as names of files.
const WORDS_MAX: usize = 4_096;

/// Files that git does not track and that are the user's own nevertheless.
#[derive(Debug, Default)]
pub struct VouchedFiles {
    /// Files that earlier sessions made in this repository.
    made: BTreeSet<String>,
    /// Words of the user that can be paths. The path of a directory ends with `/`.
    named: BTreeSet<String>,
}

impl VouchedFiles {
    /// `made` are files that sessions have made.
    pub fn new(made: BTreeSet<String>) -> Self {
        Self {
            made,
            named: BTreeSet::new(),
        }
    }

    /// Adds the words of a text that the user wrote in `directory`, which is relative to the root.
    pub fn add_text(&mut self, text: &str, directory: &str) {
        let is_end = |letter: char| letter.is_whitespace() || "\"'`()[]{}<>,;|".contains(letter);
        for word in text.split(is_end).take(WORDS_MAX) {
            let word = word.trim_start_matches('@').trim_end_matches(['.', ':', '!', '?']);
            // `PATH:10-40` names lines.
            let word = match word.rsplit_once(':') {
                Some((path, lines)) if lines.starts_with(|letter: char| letter.is_ascii_digit()) => path,
                _ => word,
            };
            self.add(word, directory, word.contains('/'));
        }
    }

    /// Adds the path of a file or directory that the user gave, relative to `directory` or to the root.
    pub fn add_path(&mut self, path: &str, directory: &str) {
        self.add(path, directory, true);
    }

    fn add(&mut self, path: &str, directory: &str, may_be_directory: bool) {
        if path.is_empty() {
            return;
        }
        for place in [directory, ""] {
            let Ok(path) = normalise_path(format!("{place}/{path}").trim_start_matches('/')) else {
                continue;
            };
            if may_be_directory && !path.is_empty() {
                self.named.insert(format!("{path}/"));
            }
            self.named.insert(path);
        }
    }

    /// True for a file that a session made or the user named: by its path, by the end of its path with at least one
    /// directory, or by a directory that is written with a `/`. Also for a directory in which a session made a file.
    pub fn holds(&self, path: &str) -> bool {
        let is_named = |part: &str| self.named.contains(part);
        let slashes = || path.match_indices('/').map(|(at, _)| at);
        let ends = || slashes().map(|at| &path[at + 1..]).filter(|end| end.contains('/'));
        let directories = || slashes().map(|at| &path[..=at]);
        let below = format!("{path}/");
        // The set is sorted: if a file is below the directory, the next entry is one.
        let next = self.made.range(below.clone()..).next();
        self.made.contains(path)
            || next.is_some_and(|next| next.starts_with(&below))
            || is_named(path)
            || ends().any(is_named)
            || directories().any(is_named)
    }
}

/// Judges the files of a call by their names, by git, and by what the session wrote and the user named.
#[derive(Debug)]
pub struct OutsideFiles {
    origins: FileOrigins,
    files: Arc<Mutex<SessionFiles>>,
    conversation: Arc<Conversation>,
}

impl OutsideFiles {
    /// Reads what git tracks at present.
    pub fn from_context(context: &CallContext) -> Self {
        Self {
            origins: FileOrigins::read_tracked(&context.repository),
            files: Arc::clone(&context.files),
            conversation: Arc::clone(&context.conversation),
        }
    }

    /// The place from outside to which a file belongs, also because git does not track it; `None` for one of the user's
    /// own.
    pub fn find_place(&self, path: &str) -> Option<String> {
        match self.origins.of_file(path) {
            FileOrigin::Own => None,
            FileOrigin::Foreign(place) => Some(place),
            FileOrigin::Untracked(place) => (!self.is_vouched_for(path)).then_some(place),
        }
    }

    /// The place from outside whose names a list of `directory` shows: a directory of others, or one in which git
    /// tracks no file and one of whose `entries` neither the user has named nor a session has made.
    pub fn find_directory<'a>(&self, directory: &str, mut entries: impl Iterator<Item = &'a str>) -> Option<String> {
        match self.origins.of_directory(directory) {
            FileOrigin::Own => None,
            FileOrigin::Foreign(place) => Some(place),
            FileOrigin::Untracked(place) => entries.any(|path| !self.is_vouched_for(path)).then_some(place),
        }
    }

    fn is_vouched_for(&self, path: &str) -> bool {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let below = format!("{path}/");
        let next = files.changed.range(below.clone()..).next();
        files.changed.contains_key(path)
            || next.is_some_and(|(next, _)| next.starts_with(&below))
            || self.conversation.vouched.holds(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_user_names_are_known_by_their_paths() {
        let asked = "Compare `notes.txt` with docs/plan.md:3-9, and read web/raw/. See ../top.py, @b.py and ./c.py!";
        let mut vouched = VouchedFiles::new(BTreeSet::from(["made.py".to_owned()]));
        vouched.add_text(asked, "src");
        vouched.add_path("new.py", "src");
        vouched.add_path("data", "");
        for path in [
            "made.py",
            "notes.txt",
            "src/notes.txt",
            "docs/plan.md",
            "src/docs/plan.md",
            "site/docs/plan.md",
            "web/raw/page.html",
            "top.py",
            "b.py",
            "c.py",
            "new.py",
            "src/new.py",
            "data/x.csv",
        ] {
            assert!(vouched.holds(path), "{path}");
        }
        for path in [
            "a.py",
            "x/made.py",
            "x/notes.txt",
            "plan.md",
            "web/other.html",
            "src",
            "src/a.py",
        ] {
            assert!(!vouched.holds(path), "{path}");
        }
        let mut vouched = VouchedFiles::default();
        for asked in [".", "/", "..", "src", "", "../..", "./"] {
            vouched.add_text(asked, "src");
            vouched.add_path(asked, "");
        }
        assert!(!vouched.holds("a.py") && !vouched.holds("lib/a.py"));
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
