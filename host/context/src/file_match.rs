//! Matches a file's profile with a task: the positions of the task's words, the definitions whose names share words
//! with the task, and the files that it imports.
//!
//! `rank` computes scores from these matches.

use std::sync::Arc;

use super::profile::Profile;
use super::query::Query;
use super::words::{hash, split_identifier};
use tool_repository::file_role::Role;

/// Result of matching one file with a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileMatch {
    pub(super) length: u32,
    pub(super) blocks: Vec<u32>,
    /// Block, term and count of the task's words, sorted by block.
    pub(super) hits: Vec<(u32, u16, u16)>,
    /// Definitions whose names share words with the task.
    pub(super) definitions: Vec<MatchedDefinition>,
    /// Files that it imports, as indices into the list.
    pub(super) imports: Arc<[u32]>,
}

#[derive(Debug, Clone)]
pub(super) struct MatchedDefinition {
    pub(super) name: String,
    pub(super) line: u32,
    /// Last line of the definition; equal to `line` if the end is unknown.
    pub(super) end_line: u32,
    /// Words of its name that are terms of the task.
    pub(super) terms: Vec<u16>,
    /// Number of the other words of its name.
    pub(super) others: u32,
    /// True if the task contains the whole name.
    pub(super) whole: bool,
}

/// True for files that a task can be about: code (`is_written`), and other files if the task contains their name or
/// path. `stem` is the joined form of the file's name.
pub(super) fn is_candidate(query: &Query, path: &str, stem: &str, role: Role, is_written: bool) -> bool {
    match role {
        _ if is_written => true,
        Role::Generated => query.says_path(path),
        Role::Vendored | Role::Other => false,
        _ => query.names_part_of_known(path, stem),
    }
}

impl FileMatch {
    /// Matches a profile with a task. `imports` are the listed files that the profile's imports lead to.
    pub(crate) fn match_profile(query: &Query, profile: &Profile, imports: Arc<[u32]>) -> Self {
        let mut matched = Self {
            length: profile.words(),
            hits: profile.hits(&query.index),
            blocks: profile.blocks(),
            imports,
            definitions: Vec::new(),
        };
        profile.each_definition(|name, lines| matched.definitions.extend(match_definition(query, name, lines)));
        matched
    }
}

fn match_definition(query: &Query, name: &str, (line, end_line): (u32, u32)) -> Option<MatchedDefinition> {
    let mut terms = Vec::new();
    let (mut others, mut folded) = (0, 0);
    split_identifier(name.as_bytes(), |word, whole| {
        // The last word is the whole name: it is the only word, or the joined form follows.
        folded = hash(word);
        if !whole {
            match query.term(word) {
                Some(term) => terms.push(term),
                None => others += 1,
            }
        }
    });
    let whole = query.says_name(name, folded);
    (!terms.is_empty() || whole).then(|| MatchedDefinition {
        name: name.to_owned(),
        line,
        end_line,
        terms,
        others,
        whole,
    })
}
