//! Tasks of helpers, as the engine sends them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Task of a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// Reading a git repository, and making the objects of a commit.
    Git(Box<GitTask>),
    /// Compiling a component.
    Compile,
}

/// Repository and folders that a helper for git works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GitTask {
    /// The real path of our root; of a submodule, its own.
    pub(crate) root: PathBuf,
    /// The work tree that is the root or holds it.
    pub(crate) top: PathBuf,
    /// Precedes each path of the requests and answers: the place of a submodule in the repository, with a `/` at its end.
    pub(crate) above: String,
    /// False for a worktree or a submodule, whose `.git` is a file.
    pub(crate) is_directory: bool,
    /// Folder for the objects of a commit.
    pub(crate) scratch: Option<PathBuf>,
    /// Where references are kept in tables: a git directory that is to hold them in files.
    pub(crate) stand_in: Option<StandInTask>,
    /// The user's home, and the folder of configurations where it is another than usual.
    pub(crate) home: Option<PathBuf>,
    pub(crate) config_home: Option<PathBuf>,
    pub(crate) author: GitPerson,
    pub(crate) committer: GitPerson,
}

/// A stand-in for a git directory whose references are in tables, and the folders of those tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StandInTask {
    pub(crate) place: PathBuf,
    /// `HEAD` and other references of the work tree.
    pub(crate) own: PathBuf,
    /// The references of the repository; the same folder but for a linked worktree.
    pub(crate) common: PathBuf,
}

/// A person of a commit as the caller's environment has them: `GIT_AUTHOR_NAME` and the like. What it lacks is taken from
/// git's configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GitPerson {
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
}
