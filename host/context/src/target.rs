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
    /// Some lines of a file, from 1, inclusive.
    Lines {
        /// Path of the file.
        path: String,
        /// First line.
        first: u32,
        /// Last line.
        last: u32,
    },
    /// A name that files define.
    Symbol {
        /// The name as typed, for example `Flask` or `Scaffold.route`; for an inherited member, with the class that
        /// defines it.
        name: String,
        /// The typed class, if it inherits the member.
        inherited_by: Option<String>,
        /// Its definitions, the likeliest first; at least one.
        places: Vec<SymbolPlace>,
    },
    /// Several files and directories, in the typed order.
    Paths(Vec<String>),
    /// A task without a path.
    Task(String),
    /// A task for a file or a directory.
    TaskIn {
        /// Task in the user's words.
        task: String,
        /// Path of the file or directory.
        path: String,
    },
}

/// Lines of a file that define a name, from 1, inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolPlace {
    /// Path of the file.
    pub path: String,
    /// First line of the definition.
    pub first: u32,
    /// Last line, or the first one if the end is unknown.
    pub last: u32,
}

impl std::fmt::Display for SymbolPlace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.path, self.first)
    }
}

impl Target {
    /// The path of the target, unless it is the root.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Directory(path) | Self::File(path) | Self::Lines { path, .. } | Self::TaskIn { path, .. } => {
                Some(path)
            }
            Self::Symbol { places, .. } => places.first().map(|place| place.path.as_str()),
            Self::Root | Self::Task(_) | Self::Paths(_) => None,
        }
    }

    /// The task, if there is one.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Task(task) | Self::TaskIn { task, .. } => Some(task),
            _ => None,
        }
    }
}
