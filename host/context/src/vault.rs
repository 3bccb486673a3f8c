//! Reads the user's notes from the vault, and chooses the relevant ones for a request.
//!
//! The vault (`context.vault` in the configuration) is a folder of Markdown files outside of the repository. This
//! module reads a bounded number of files and follows no symbolic link. The choice is a pure function of the notes and
//! of the words of the request.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use tokio_util::sync::CancellationToken;

use super::words;

/// Notes that are read of a vault. Large vaults of one person have a few thousand.
const VAULT_NOTES_MAX: usize = 5000;

/// Bytes of all notes that are considered.
const VAULT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes that are read of one note; a packet shows less.
const VAULT_NOTE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum depth of directories in a vault.
const VAULT_DEPTH_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VaultNote {
    /// Below the vault, separated by `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// Lower case, without `#`. A nested tag is kept whole.
    pub(super) tags: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct VaultNotes {
    /// Sorted by path.
    pub(super) notes: Vec<VaultNote>,
    pub(super) notices: Vec<String>,
}

/// Reads the notes below `directory`. Unreadable notes are left out; a vault that cannot be opened gives a notice.
pub(super) fn read_notes(directory: &Path, cancel: &CancellationToken) -> VaultNotes {
    let mut notes = VaultNotes::default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match rustix::fs::openat(CWD, directory, flags, Mode::empty()) {
        Ok(root) => root,
        Err(error) => {
            notes.notices.push(format!(
                "The notes vault `{}` cannot be read: {error}",
                directory.display()
            ));
            return notes;
        }
    };
    let mut walk = NoteWalk {
        notes: Vec::new(),
        bytes: 0,
        cut: false,
        cancel,
    };
    walk.directory(root, "", 0);
    walk.notes.sort_by(|a, b| a.path.cmp(&b.path));
    if walk.cut {
        let count = walk.notes.len();
        notes.notices.push(format!(
            "The notes vault is large: only {count} of its notes were considered"
        ));
    }
    notes.notes = walk.notes;
    notes
}

struct NoteWalk<'a> {
    notes: Vec<VaultNote>,
    bytes: u64,
    cut: bool,
    cancel: &'a CancellationToken,
}

impl NoteWalk<'_> {
    /// Every name is opened relative to its directory's handle without following links, so a vault cannot lead outside.
    fn directory(&mut self, handle: OwnedFd, prefix: &str, depth: usize) {
        let Ok(entries) = Dir::read_from(&handle) else { return };
        let mut names: Vec<(std::ffi::CString, FileType)> = entries
            .flatten()
            .map(|entry| (entry.file_name().to_owned(), entry.file_type()))
            .collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            if self.notes.len() >= VAULT_NOTES_MAX || self.bytes >= VAULT_BYTES_MAX || self.cancel.is_cancelled() {
                self.cut = true;
                return;
            }
            let Some(text) = name.to_str().ok().filter(|text| !text.starts_with('.')) else {
                continue;
            };
            let path = if prefix.is_empty() {
                text.to_owned()
            } else {
                format!("{prefix}/{text}")
            };
            match kind_of(&handle, &name, kind) {
                FileType::Directory if depth < VAULT_DEPTH_MAX => {
                    if let Some(inner) = open_at(&handle, &name, OFlags::DIRECTORY) {
                        self.directory(inner, &path, depth + 1);
                    }
                }
                FileType::RegularFile if is_note(text) => self.file(&handle, &name, path),
                _ => {}
            }
        }
    }

    fn file(&mut self, directory: &OwnedFd, name: &CStr, path: String) {
        let Some(handle) = open_at(directory, name, OFlags::NONBLOCK) else {
            return;
        };
        if kind_of_handle(&handle) != FileType::RegularFile {
            return;
        }
        let mut content = Vec::new();
        if std::fs::File::from(handle)
            .take(VAULT_NOTE_BYTES_MAX)
            .read_to_end(&mut content)
            .is_err()
        {
            return;
        }
        self.bytes += content.len() as u64;
        let text = String::from_utf8_lossy(&content).into_owned();
        self.notes.push(VaultNote {
            path,
            tags: find_hashtags(&text),
            text,
        });
    }
}

fn open_at(directory: &OwnedFd, name: &CStr, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).ok()
}

/// The kind of an entry. Some file systems do not report it while listing.
fn kind_of(directory: &OwnedFd, name: &CStr, listed: FileType) -> FileType {
    if listed != FileType::Unknown {
        return listed;
    }
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn kind_of_handle(handle: &OwnedFd) -> FileType {
    rustix::fs::fstat(handle).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn is_note(name: &str) -> bool {
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    matches!(extension.as_deref(), Some("md" | "markdown"))
}

/// The hashtags of a note, and the `tags` of its front matter: lower case, without `#`.
///
/// A tag begins a line or follows white space or an opening bracket; it consists of letters, digits, `_`, `-` and `/`,
/// and is not a number. Headings, code and links do not hold tags.
pub(super) fn find_hashtags(text: &str) -> BTreeSet<String> {
    let mut tags = BTreeSet::new();
    let (front, body) = front_matter(text);
    front_matter_tags(front, &mut tags);
    let mut fence: Option<(char, usize)> = None;
    for line in body.lines() {
        let trimmed = line.trim_start();
        let mark = fence_mark(trimmed);
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some((open, length)), Some((mark, other))) if open == mark && other >= length => fence = None,
            (None, None) if !(line.starts_with("    ") || line.starts_with('\t')) => line_tags(trimmed, &mut tags),
            _ => {}
        }
    }
    tags
}

/// Character and length of a code fence that a line begins with.
fn fence_mark(trimmed: &str) -> Option<(char, usize)> {
    let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = trimmed.len() - trimmed.trim_start_matches(mark).len();
    (length >= 3).then_some((mark, length))
}

fn line_tags(line: &str, tags: &mut BTreeSet<String>) {
    let mut in_code = false;
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        if character == '`' {
            in_code = !in_code && line[at + 1..].contains('`');
        }
        if character == '#' && !in_code && (before.is_whitespace() || matches!(before, '(' | '[' | ',' | ';')) {
            let tail = &line[at + 1..];
            let end = tail.find(|c: char| !is_tag_character(c)).unwrap_or(tail.len());
            let followed_by_hash = tail[end..].starts_with('#');
            add_tag(if followed_by_hash { "" } else { &tail[..end] }, tags);
        }
        before = character;
    }
}

fn is_tag_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '/')
}

fn add_tag(tag: &str, tags: &mut BTreeSet<String>) {
    const TAG_CHARS_MAX: usize = 100;
    let tag = tag.trim_matches(['/', '-']);
    let says_something = tag.chars().any(|c| c.is_alphabetic()) && tag.chars().count() <= TAG_CHARS_MAX;
    if says_something && tag.chars().all(is_tag_character) {
        tags.insert(tag.to_lowercase());
    }
}

/// YAML between two lines of `---` at the very beginning, and the text after it.
fn front_matter(text: &str) -> (&str, &str) {
    let Some(rest) = text.strip_prefix("---\n") else {
        return ("", text);
    };
    rest.split_once("\n---\n").unwrap_or(("", text))
}

/// `tags: a, b`, `tags: [a, b]`, or a list of lines `- a`.
fn front_matter_tags(front: &str, tags: &mut BTreeSet<String>) {
    let mut in_list = false;
    for line in front.lines() {
        let item = line.trim();
        if let Some(values) = line.strip_prefix("tags:") {
            in_list = true;
            for value in values.trim().trim_matches(['[', ']']).split([',', ' ']) {
                add_tag(value.trim().trim_matches(['"', '\'', '#']), tags);
            }
        } else if let Some(value) = item.strip_prefix("- ").filter(|_| in_list) {
            add_tag(value.trim().trim_matches(['"', '\'', '#']), tags);
        } else {
            in_list = false;
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RelevantNote<'a> {
    pub(super) note: &'a VaultNote,
    pub(super) score: f64,
    /// Tags that occur in the request.
    pub(super) tags: Vec<&'a str>,
}

/// The notes that share words with the request or, with less weight, with the paths of the chosen files; best first. A
/// tag counts most, then the note's name, then its text; common words count little.
pub(super) fn rank_notes<'a>(notes: &'a [VaultNote], words: &str, places: &str) -> Vec<RelevantNote<'a>> {
    const TAG: f64 = 3.0;
    const NAME: f64 = 2.0;
    const TEXT: f64 = 0.5;
    /// Words of the chosen paths have less weight than words of the request.
    const OF_PLACES: f64 = 0.5;
    /// Least score: a tag or a name that the request contains, or several rare words of the text.
    const LEAST: f64 = 2.0;

    let mut wanted: HashMap<String, f64> = HashMap::new();
    for (text, weight) in [(places, OF_PLACES), (words, 1.0)] {
        for word in words::stemmed_words(text) {
            let known = wanted.entry(word).or_insert(0.0);
            *known = known.max(weight);
        }
    }
    let of = |text: &str| -> BTreeSet<String> {
        words::stemmed_words(text)
            .into_iter()
            .filter(|word| wanted.contains_key(word))
            .collect()
    };
    let in_text: Vec<BTreeSet<String>> = notes.iter().map(|note| of(&note.text)).collect();
    let mut holding: HashMap<&str, f64> = HashMap::new();
    for word in in_text.iter().flatten() {
        *holding.entry(word).or_default() += 1.0;
    }
    let rarity = |word: &str| (1.0 + notes.len() as f64 / (1.0 + holding.get(word).copied().unwrap_or(0.0))).ln();
    let sum = |words: &BTreeSet<String>| words.iter().map(|word| wanted[word] * rarity(word)).sum::<f64>();
    let mut relevant: Vec<RelevantNote<'_>> = notes
        .iter()
        .zip(&in_text)
        .map(|(note, in_text)| {
            let tags: Vec<&str> = note
                .tags
                .iter()
                .map(String::as_str)
                .filter(|tag| !of(tag).is_empty())
                .collect();
            let in_tags: BTreeSet<String> = tags.iter().flat_map(|tag| of(tag)).collect();
            let weigh = |words: &BTreeSet<String>| words.iter().map(|word| wanted[word]).sum::<f64>();
            let score = TAG * weigh(&in_tags) + NAME * weigh(&of(&note.path)) + TEXT * sum(in_text);
            RelevantNote { note, score, tags }
        })
        .filter(|relevant| relevant.score >= LEAST)
        .collect();
    relevant.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.note.path.cmp(&b.note.path)));
    relevant
}

#[cfg(test)]
mod tests;
