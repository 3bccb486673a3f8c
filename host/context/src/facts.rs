//! The facts of one file for a task, read from its profile.
//!
//! Facts hold nothing of the text: where the task's words are, which definitions share words with it, and what the file
//! imports. What they weigh is `rank`'s business.

use std::sync::Arc;

use super::profile::Profile;
use super::query::Query;
use super::words::{hash, split};
use tool_repository::file_role::Role;

/// Facts of one file for a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Number of words.
    pub(super) length: u32,
    /// Number of words of each block.
    pub(super) blocks: Vec<u32>,
    /// Block, term and count, by block.
    pub(super) hits: Vec<(u32, u16, u16)>,
    /// Definitions whose names share words with the task.
    pub(super) definitions: Vec<Defined>,
    /// Files that it imports, as indices into the list.
    pub(super) imports: Arc<[u32]>,
}

#[derive(Debug, Clone)]
pub(super) struct Defined {
    pub(super) name: String,
    pub(super) line: u32,
    /// Last line of the definition; equal to `line` if the end is unknown.
    pub(super) end_line: u32,
    /// Terms among its words.
    pub(super) terms: Vec<u16>,
    /// Number of its words that are no terms.
    pub(super) others: u32,
    /// True where the task says the whole name.
    pub(super) whole: bool,
}

/// True for files that a task is looked for in: code, which `is_written` says, and whatever else the task names. `stem` is
/// the name's joined form.
pub(super) fn is_candidate(query: &Query, path: &str, stem: &str, role: Role, is_written: bool) -> bool {
    match role {
        _ if is_written => true,
        Role::Generated | Role::Vendored | Role::Other => false,
        _ => query.names_part_of_known(path, stem),
    }
}

impl Facts {
    /// Reads a profile for a task. `imports` are what the profile's imports mean in the list.
    pub(crate) fn of(query: &Query, profile: &Profile, imports: Arc<[u32]>) -> Self {
        let mut facts = Self {
            length: profile.words(),
            hits: profile.hits(&query.index),
            blocks: profile.blocks(),
            imports,
            definitions: Vec::new(),
        };
        profile.each_definition(|name, lines| facts.definitions.extend(defined(query, name, lines)));
        facts
    }
}

fn defined(query: &Query, name: &str, (line, end_line): (u32, u32)) -> Option<Defined> {
    let mut terms = Vec::new();
    let (mut others, mut folded) = (0, 0);
    split(name.as_bytes(), |word, whole| {
        // The last one is the whole: either it is the only one, or the joined form follows.
        folded = hash(word);
        if !whole {
            match query.term(word) {
                Some(term) => terms.push(term),
                None => others += 1,
            }
        }
    });
    let whole = query.says_name(name, folded);
    (!terms.is_empty() || whole).then(|| Defined {
        name: name.to_owned(),
        line,
        end_line,
        terms,
        others,
        whole,
    })
}
