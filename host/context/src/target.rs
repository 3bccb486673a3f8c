//! The target of an operation.

/// The part of a repository that an operation works on, and its task. Paths are relative to the root and normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The whole repository.
    Root,
    /// Everything below a directory.
    Directory(String),
    /// One file.
    File(String),
    /// A task that names no path.
    Task(String),
    /// A task for a file or a directory.
    TaskIn {
        /// Task in the user's words.
        task: String,
        /// Path of the file or directory.
        path: String,
    },
}

impl Target {
    /// The path, where there is one that is not the root.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Directory(path) | Self::File(path) | Self::TaskIn { path, .. } => Some(path),
            Self::Root | Self::Task(_) => None,
        }
    }

    /// The task, where there is one.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Task(task) | Self::TaskIn { task, .. } => Some(task),
            Self::Root | Self::Directory(_) | Self::File(_) => None,
        }
    }
}
