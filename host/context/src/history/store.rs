//! A history on disk: one file next to the index of its repository. A damaged or foreign file is ignored.

use super::{CommitId, HISTORY_COMMITS_MAX, HISTORY_PATHS_MAX, History, KeptCommit, MESSAGE_WORDS_MAX};
use super::{HISTORY_COMMIT_FILES_MAX, HISTORY_COMMIT_RENAMES_MAX};
use crate::codec::{RecordReader, checksum, put, put_bytes};
use tool_repository::Identity;

/// First bytes. The number changes with the form, and with anything that changes the data of a commit.
const FORMAT: &[u8; 16] = b"tool history 03\n";

/// Largest history that is read: ten thousand commits of fifty files each with long names.
pub(crate) const HISTORY_BYTES_MAX: u64 = 32 * 1024 * 1024;

impl History {
    pub(crate) fn encode(&self, root: Identity) -> Vec<u8> {
        let mut bytes = FORMAT.to_vec();
        put(&mut bytes, root.device);
        put(&mut bytes, root.inode);
        put(&mut bytes, self.paths.len() as u64);
        for path in &self.paths {
            put_bytes(&mut bytes, path.as_bytes());
        }
        put(&mut bytes, self.commits.len() as u64);
        for commit in &self.commits {
            put_bytes(&mut bytes, commit.id.as_bytes());
            bytes.extend_from_slice(&commit.seconds.to_le_bytes());
            put(&mut bytes, u64::from(commit.title_words));
            put(&mut bytes, commit.words.len() as u64);
            for word in &commit.words {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            put(&mut bytes, commit.changed.len() as u64);
            commit
                .changed
                .iter()
                .for_each(|place| put(&mut bytes, u64::from(*place)));
            put(&mut bytes, commit.renamed.len() as u64);
            for (from, to) in &commit.renamed {
                put(&mut bytes, u64::from(*from));
                put(&mut bytes, u64::from(*to));
            }
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a history; nothing where it is damaged, foreign, or that of another directory.
    pub(crate) fn decode(bytes: &[u8], root: Identity) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if checksum(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = RecordReader(body.strip_prefix(FORMAT)?);
        if (reader.number()?, reader.number()?) != (root.device, root.inode) {
            return None;
        }
        let count = length(&mut reader, HISTORY_PATHS_MAX)?;
        let mut paths = Vec::new();
        for _ in 0..count {
            paths.push(reader.text()?.into());
        }
        let count = length(&mut reader, HISTORY_COMMITS_MAX)?;
        let mut commits = Vec::new();
        for _ in 0..count {
            commits.push(commit(&mut reader, paths.len())?);
        }
        let is_sorted = paths.is_sorted_by(|one, other| one < other);
        (is_sorted && reader.is_empty()).then_some(Self {
            commits,
            paths,
            ..Self::default()
        })
    }
}

fn length(reader: &mut RecordReader<'_>, most: usize) -> Option<usize> {
    usize::try_from(reader.number()?).ok().filter(|count| *count <= most)
}

fn commit(reader: &mut RecordReader<'_>, paths: usize) -> Option<KeptCommit> {
    let place = |reader: &mut RecordReader<'_>| reader.small().filter(|place| (*place as usize) < paths);
    let id = CommitId::of_bytes(reader.sized()?)?;
    let seconds = i64::from_le_bytes(reader.bytes(8)?.try_into().ok()?);
    let title_words = length(reader, MESSAGE_WORDS_MAX)?;
    let count = length(reader, MESSAGE_WORDS_MAX).filter(|count| *count >= title_words)?;
    let (words, _) = reader.bytes(count * 4)?.as_chunks::<4>();
    let words = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let count = length(reader, HISTORY_COMMIT_FILES_MAX)?;
    let changed: Option<Box<[u32]>> = (0..count).map(|_| place(reader)).collect();
    let count = length(reader, HISTORY_COMMIT_RENAMES_MAX)?;
    let renamed: Option<Box<[(u32, u32)]>> = (0..count).map(|_| Some((place(reader)?, place(reader)?))).collect();
    Some(KeptCommit {
        id,
        seconds,
        words,
        title_words: u8::try_from(title_words).ok()?,
        changed: changed?,
        renamed: renamed?,
    })
}
