//! The files that have the words of a task, as the word postings of an index tell.

/// Size of a file, in words and in blocks of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSize {
    pub(crate) words: u32,
    pub(crate) blocks: u32,
}

/// The words of a task in some files. Numbers of files are positions in the list that the caller gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct WordHits {
    pub(crate) files_max: usize,
    /// For each file: its size; `None` if the index does not know the file.
    pub(crate) sizes: Vec<Option<FileSize>>,
    /// For each term of the task: the files that have it once or twice.
    pub(crate) rare: Vec<Vec<u32>>,
    /// For each term of the task: the files that have it more often.
    pub(crate) often: Vec<Vec<u32>>,
}
