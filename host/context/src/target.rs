//! The target of an operation.

/// What an operation works on. Paths are relative to the root and in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The whole repository.
    Root,
    /// What lies below a directory.
    Directory(String),
    /// One file.
    File(String),
    /// A task that names no path.
    Task(String),
    /// A task for a file or a directory.
    TaskIn {
        /// What is to be done.
        task: String,
        /// Where.
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
