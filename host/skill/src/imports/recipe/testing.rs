//! Projects for tests whose interpreters and tools are small shell scripts, so that nothing of the machine matters.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::CallContext;
use crate::imports::git::testing::{ScriptedApproval, context};

/// A folder with a repository, a `PATH` of its own, and what was shown live.
pub(in crate::imports) struct Project {
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    pub(in crate::imports) user: Arc<ScriptedApproval>,
    pub(in crate::imports) live: Arc<Mutex<Vec<String>>>,
}

impl Project {
    /// An empty project with a user who agrees, and a `PATH` that holds nothing but what scripts need.
    pub(in crate::imports) fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let project = Self {
            environment: BTreeMap::new(),
            user: ScriptedApproval::new(true),
            live: Arc::default(),
            folder,
        };
        std::fs::create_dir(project.folder.path().join("root")).expect("folders can be made");
        std::fs::create_dir(project.outside("bin")).expect("folders can be made");
        let path = project.outside("bin").to_string_lossy().into_owned();
        let environment = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("SECRET_KEY".to_owned(), "secret".to_owned()),
        ]);
        Self { environment, ..project }
    }

    pub(in crate::imports) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join("root")
    }

    pub(in crate::imports) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    pub(in crate::imports) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
        std::fs::write(path, content).expect("files can be written");
    }

    /// A virtual environment whose Python is `script`.
    pub(in crate::imports) fn environment(&self, place: &str, version: &str, script: &str) -> PathBuf {
        std::fs::create_dir_all(self.root().join(place)).expect("folders can be made");
        let folder = self.root().join(place).canonicalize().expect("it is there");
        std::fs::create_dir_all(folder.join("lib/python3.12/site-packages/pip")).expect("folders can be made");
        std::fs::write(
            folder.join("pyvenv.cfg"),
            format!("home = /usr/bin\nversion = {version}\n"),
        )
        .expect("files can be written");
        program(&folder.join("bin/python"), script);
        folder
    }

    /// A Python on the `PATH` that answers the question for its version and does `script` otherwise.
    pub(in crate::imports) fn machine_python(&self, name: &str, version: &str, script: &str) {
        let answer = format!("if [ \"$1 $2\" = '-I -c' ]; then echo {version}; echo /machine/site-packages; exit; fi");
        self.tool(name, &format!("{answer}\n{script}"));
    }

    /// A program on the `PATH`.
    pub(in crate::imports) fn tool(&self, name: &str, script: &str) {
        program(&self.outside("bin").join(name), script);
    }

    pub(in crate::imports) fn context(&self, allowed: &[&str]) -> CallContext {
        let live = Arc::clone(&self.live);
        let mut context = context(&self.root(), allowed, Arc::clone(&self.user) as _);
        context.environment = self.environment.clone();
        context.progress = Arc::new(move |line| live.lock().expect("not poisoned").push(line.to_owned()));
        context
    }

    /// Replaces what differs from run to run.
    pub(in crate::imports) fn plain(&self, text: &str) -> String {
        text.replace(
            &*self
                .folder
                .path()
                .canonicalize()
                .expect("it is there")
                .to_string_lossy(),
            "…",
        )
    }
}

fn program(path: &Path, script: &str) {
    std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
    std::fs::write(path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")).expect("files can be written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("modes can be set");
}
