//! The parts of a repository that a task names, with what was measured about them.

use serde::{Deserialize, Serialize};

/// A definition, a file, a folder or a package of others that a task names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSubject {
    /// The definition, with the name around it, or the package; empty for a file and a folder.
    pub name: String,
    /// The file, or the folder with `/` behind it; empty for a package.
    pub path: String,
    /// First and last line of the definition or the file, from 1; 0 for a folder and a package.
    pub lines: (u32, u32),
    /// Outermost definitions within, or the files of a folder; the largest first.
    pub parts: FoundPlaces,
    /// Further definitions of the name.
    pub others: FoundPlaces,
    /// Sources that use the name or import the files; those that import them first, then by number of uses.
    pub users: FoundPlaces,
    /// Tests that do so, or have the name of the file.
    pub tests: FoundPlaces,
    /// Files that it imports.
    pub imports: FoundPlaces,
    /// The newest commits that were looked at, and how many of them changed it; absent without a history.
    pub commits: Option<(u64, u64)>,
}

/// The first of some places, and the number of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPlaces {
    /// At most five.
    pub first: Vec<FoundPlace>,
    /// All places.
    pub count: u64,
}

/// Lines of a file, with a measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPlace {
    /// Relative to the root.
    pub path: String,
    /// The definition; empty if the place is a file.
    pub name: String,
    /// First and last line, from 1.
    pub lines: (u32, u32),
    /// Uses of the name, or bytes of the file; 0 if nothing was counted.
    pub amount: u64,
}

impl FoundPlaces {
    const FIRST_MAX: usize = 5;

    /// Keeps the first of these places.
    pub fn of(mut places: Vec<FoundPlace>) -> Self {
        let count = places.len() as u64;
        places.truncate(Self::FIRST_MAX);
        Self { first: places, count }
    }
}
