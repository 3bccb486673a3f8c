//! A history on disk: one file next to the index of its repository. A damaged or foreign file is ignored.

use super::{HISTORY_COMMITS_MAX, HISTORY_PATHS_MAX, History, KeptCommit};
use crate::codec;
use tool_repository::FileIdentity;

/// First bytes. The number changes with the form, and with anything that changes the data of a commit.
pub(super) const FORMAT: &[u8; 16] = b"tool history 04\n";

/// Largest history that is read: ten thousand commits of fifty files each with long names.
pub(crate) const HISTORY_BYTES_MAX: u64 = 32 * 1024 * 1024;

impl History {
    pub(crate) fn encode(&self, root: FileIdentity) -> Vec<u8> {
        codec::encode_file(FORMAT, &([root.device, root.inode], &self.paths, &self.commits))
    }

    /// Reads a history; nothing where it is damaged, foreign, or that of another directory.
    pub(crate) fn decode(bytes: &[u8], root: FileIdentity) -> Option<Self> {
        let (its_root, paths, commits): ([u64; 2], Vec<Box<str>>, Vec<KeptCommit>) = codec::decode_file(FORMAT, bytes)?;
        let is_valid = its_root == [root.device, root.inode]
            && paths.len() <= HISTORY_PATHS_MAX
            && commits.len() <= HISTORY_COMMITS_MAX
            && paths.is_sorted_by(|one, other| one < other)
            && commits.iter().all(|commit| is_consistent(commit, paths.len()));
        is_valid.then_some(Self {
            commits,
            paths,
            ..Self::default()
        })
    }
}

/// True if each number of a commit is a place in its words, or in a table of so many paths.
fn is_consistent(commit: &KeptCommit, paths: usize) -> bool {
    let mut places = commit
        .renamed
        .iter()
        .flat_map(|&(from, to)| [from, to])
        .chain(commit.changed.iter().copied());
    usize::from(commit.title_words) <= commit.words.len() && places.all(|place| (place as usize) < paths)
}
