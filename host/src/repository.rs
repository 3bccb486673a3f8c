//! The repository as everything else sees it: one root, one rule set, one way to open a file.
//!
//! Hidden and protected names, the ignore-aware list of files and the non-blocking, symlink-free opening of a file
//! live here, so that skills, context engine, git diff and search obey the same table. Nothing here writes.

/// An opened repository root.
#[derive(Debug)]
pub struct Repository {}
