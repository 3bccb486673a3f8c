//! Tasks that the engine sends to helpers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Task of a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HelperTask {
    /// Reads a git repository, or makes the objects of a commit.
    Git(Box<GitTask>),
    Compile,
}

/// Repository and folders for a helper for git.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GitTask {
    /// Real path of the session's root; for a submodule, of the submodule.
    pub(crate) root: PathBuf,
    /// Work tree that contains the root.
    pub(crate) top: PathBuf,
    /// Prefix of every path in requests and answers: the path of a submodule in the repository, with a trailing `/`.
    pub(crate) above: String,
    /// False for a linked worktree or a submodule, whose `.git` is a file.
    pub(crate) is_directory: bool,
    /// Folder for the objects of a commit.
    pub(crate) scratch: Option<PathBuf>,
    /// For reference tables: the git directory to which the helper writes the references as files.
    pub(crate) stand_in: Option<StandInTask>,
    /// The user's home, and the folder of configurations if it is not the default.
    pub(crate) home: Option<PathBuf>,
    pub(crate) config_home: Option<PathBuf>,
    pub(crate) author: GitPerson,
    pub(crate) committer: GitPerson,
}

/// A stand-in for a git directory with reference tables, and the folders of those tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StandInTask {
    pub(crate) place: PathBuf,
    /// Folder of `HEAD` and other references of the work tree.
    pub(crate) own: PathBuf,
    /// Folder of the repository's references; the same folder, except in a linked worktree.
    pub(crate) common: PathBuf,
}

/// Author or committer from the caller's environment: `GIT_AUTHOR_NAME` and so on. Missing parts are taken from git's
/// configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GitPerson {
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
}
