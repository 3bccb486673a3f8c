//! The files that have the words of a task, as an index tells without their profiles.

/// Size of a file, in words and in blocks of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSize {
    pub(crate) words: u32,
    pub(crate) blocks: u32,
}

/// The words of a task in some files, which have their places in a list as numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct WordHits {
    /// Files whose profiles are to be read.
    pub(crate) files_max: usize,
    /// By file: its size, where the index knows the file.
    pub(crate) sizes: Vec<Option<FileSize>>,
    /// By term of the task: the files that have it once or twice.
    pub(crate) rare: Vec<Vec<u32>>,
    /// By term of the task: the files that have it more often.
    pub(crate) often: Vec<Vec<u32>>,
}
