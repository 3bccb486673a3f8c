//! A home with sessions and a small repository, for tests of this crate and of those that serve sessions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tool_context::{Indexes, NoHistory, NoParser};
use tool_session::engine::Engine;
use tool_session::{OpenSessionsError, Sessions};

use super::fakes::{Act, FakeEngine};

/// Sessions of another engine, with an index that knows no syntax and no history.
pub(crate) fn open_sessions(
    home: &Path,
    engine: Arc<dyn Engine>,
    scan_time: Option<Duration>,
) -> Result<Arc<Sessions>, OpenSessionsError> {
    let indexes = Indexes::new(home, Arc::new(NoParser), Arc::new(NoHistory));
    Sessions::open_with(home, engine, indexes, scan_time, BTreeSet::new())
}

/// A home and a small repository, in a temporary folder.
pub(crate) struct SessionWorld {
    place: tempfile::TempDir,
    pub(crate) engine: Arc<FakeEngine>,
    pub(crate) sessions: Arc<Sessions>,
}

impl SessionWorld {
    pub(crate) fn new(rounds: Vec<Vec<Act>>) -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        let repository = place.path().join("repository");
        fs::create_dir_all(repository.join("src")).expect("it can be made");
        fs::write(repository.join("README.md"), "# A thing\n").expect("it can be written");
        fs::write(repository.join("src/main.py"), "print()\n").expect("it can be written");
        let home = place.path().join("home");
        let engine = FakeEngine::new(rounds);
        let sessions = open_sessions(&home, Arc::clone(&engine) as _, None).expect("it can be opened");
        Self {
            place,
            engine,
            sessions,
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    pub(crate) fn repository(&self) -> PathBuf {
        let path = self.place.path().join("repository");
        path.canonicalize().expect("it exists")
    }
}
