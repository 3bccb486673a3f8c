//! The context engine: which 4 to 6 files matter for this request, and what of them goes to the model.

use crate::api::SelectedFile;

/// The result of context building. The first three fields are the specification's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// The chosen files, best first.
    pub selected: Vec<SelectedFile>,
    /// The text that goes to the model: files with line numbers, notes, and what was left out.
    pub context: String,
    /// How many files were loaded.
    pub files_loaded: usize,
    /// Near misses, best first, with their reasons.
    pub near_misses: Vec<SelectedFile>,
    /// What the user should be told: fewer files than usual, a scan cut short.
    pub notices: Vec<String>,
    /// Whole contents of the chosen files as they were read: path and SHA-256, hexadecimal.
    pub digests: Vec<(String, String)>,
}
