//! Decides by its name whether a path is hidden or protected: the tables, and the comparison with them.
//!
//! Only names decide: a path that does not exist yet is judged like one that does. Names are compared after case
//! folding, because some file systems ignore case. Properties that need the file system are checked when a file is
//! opened: the entries of git directories, the first bytes of keys, and hard links.

mod tables;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet};
use tool_core::text::is_ignorable;

use super::path::{self, PathError};
use super::root_file::RepositoryRules;
pub(crate) use tables::INSTALLED;
use tables::{COPIES, ENVIRONMENT, EXAMPLES, HARMLESS_DOT_FILES, PERHAPS_SOURCES};
pub use tables::{HIDDEN, PROTECTED, REPORTS_FOLDER, SKIPPED};

/// One line of a table.
///
/// A pattern is compared with the name of a file or directory; one with `/` is compared with as many last parts of the
/// path. A pattern without `/` may contain one `*`.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Pattern in lower case.
    pub pattern: &'static str,
    /// Names that the rule covers.
    pub covers: RuleScope,
    /// Completes the sentence "`path` is hidden: it …" or "`path` is protected: it …".
    pub reason: &'static str,
}

/// Kinds of entries that a rule covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleScope {
    /// Files and directories, and everything in a directory.
    All,
    /// Everything but directories.
    Files,
    /// Files, except those that end as in [`EXAMPLES`]. A directory of that name is skipped, not hidden.
    Environment,
}

/// A glob in the configuration that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` in `[policy] {key}`{} is not a valid pattern: {reason}", if *of_repository { " of `.tool.toml`" } else { "" })]
pub struct PatternError {
    /// `hide`, `reveal` or `protect`.
    pub key: &'static str,
    /// True if it is in the repository's own file.
    pub of_repository: bool,
    /// Pattern as written.
    pub pattern: String,
    /// Reason why the pattern is not valid.
    pub reason: String,
}

/// The tables, with the additions and removals of the user's configuration.
#[derive(Debug, Default)]
pub struct Rules {
    hide: Vec<UserGlob>,
    reveal: Vec<UserGlob>,
    protect: Vec<UserGlob>,
    /// True if the file system finds files under names that it does not list.
    has_aliases: bool,
}

impl Rules {
    /// The tables, with `[policy] hide`, `reveal` and `protect` of the user's file.
    ///
    /// A glob without `/` is compared with names, one with `/` with the path from the root.
    ///
    /// # Errors
    ///
    /// A glob is not valid.
    pub fn new(hide: &[String], reveal: &[String], protect: &[String]) -> Result<Self, PatternError> {
        Ok(Self {
            hide: compile_globs("hide", hide, USER_HIDES)?,
            reveal: compile_globs("reveal", reveal, "")?,
            protect: compile_globs("protect", protect, USER_PROTECTS)?,
            has_aliases: false,
        })
    }

    /// Takes into account that files have unlisted names: short ones of eight and three characters, and any name with
    /// dots, spaces or the name of a stream at its end.
    pub(super) fn on_file_system(&mut self, has_aliases: bool) {
        self.has_aliases = has_aliases;
    }

    /// The first reason that `judge` finds for a folded path, or for the path without the tails of its names: some file
    /// systems ignore a tail, and the kernel does not say which of them do.
    fn judged(&self, folded: &str, judge: impl Fn(&str) -> Option<&'static str>) -> Option<&'static str> {
        judge(folded).or_else(|| {
            let meant = || folded.split('/').map(without_tail).collect::<Vec<_>>().join("/");
            let meant = self.has_aliases.then(meant).filter(|meant| meant != folded)?;
            judge(&meant)
        })
    }

    /// Adds the repository's own restrictions. What the user reveals stays revealed. `below` is the path of the root in
    /// the work tree that holds the file, empty if it is the work tree's root. True if the file hides the root itself.
    pub(super) fn narrow(&mut self, narrowing: &RepositoryRules, below: &str) -> Result<bool, PatternError> {
        let below = fold_case(below).into_owned();
        let globs = |key, patterns, reason| {
            let globs = compile_globs(key, patterns, reason).map_err(|error| PatternError {
                of_repository: true,
                ..error
            })?;
            let placed = globs.into_iter().map(|glob| UserGlob {
                below: below.clone(),
                ..glob
            });
            Ok::<Vec<_>, PatternError>(placed.collect())
        };
        let hide = globs("hide", &narrowing.hide, REPOSITORY_HIDES)?;
        let hides_root = list_prefixes(&below).any(|prefix| hide.iter().any(|glob| glob.matches_whole(prefix)));
        self.hide.extend(hide);
        self.protect
            .extend(globs("protect", &narrowing.protect, REPOSITORY_PROTECTS)?);
        Ok(hides_root)
    }

    /// Reason why `path` is hidden by its name or by that of a directory above it; `None` if it is not.
    ///
    /// The reason completes "it …". A path that leads out of the root is hidden too.
    pub fn hidden(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let path = match path::normalise_path(path) {
            Ok(path) => path,
            Err(error) => return Some(describe_path_error(error)),
        };
        let folded = fold_case(&path);
        list_prefixes(&folded).find_map(|prefix| {
            let is_directory = is_directory || prefix.len() < folded.len();
            self.hidden_entry(prefix, is_directory)
        })
    }

    /// Reason why one entry is hidden; its directory is known not to be. `folded` is its path after [`fold_case`].
    pub fn hidden_entry(&self, folded: &str, is_directory: bool) -> Option<&'static str> {
        self.judged(folded, |folded| {
            let user = || reason_of(&self.hide, folded);
            let table = || HIDDEN_TABLE.find_copy(folded, is_directory);
            let may_be_short = self.has_aliases && is_short(path::split_path(folded).1);
            let reason = table().or_else(user).or(may_be_short.then_some(SHORT))?;
            (!self.revealed(folded)).then_some(reason)
        })
    }

    /// True if the user's configuration reveals this entry. `folded` is a path after [`fold_case`].
    pub fn revealed(&self, folded: &str) -> bool {
        self.reveal.iter().any(|glob| glob.matches(folded))
    }

    /// Reason why `path` may not be proposed; `None` if it may.
    ///
    /// A path that `[policy] reveal` lets a model read is still protected: reading and changing are different
    /// permissions.
    pub fn protected(&self, path: &str) -> Option<&'static str> {
        let path = match path::normalise_path(path) {
            Ok(path) => path,
            Err(error) => return Some(describe_path_error(error)),
        };
        let folded = fold_case(&path);
        list_prefixes(&folded).find_map(|prefix| {
            let is_directory = prefix.len() < folded.len();
            self.hidden_entry(prefix, is_directory).or_else(|| {
                self.judged(prefix, |prefix| {
                    HIDDEN_TABLE
                        .find_copy(prefix, is_directory)
                        .or_else(|| PROTECTED_TABLE.find(prefix, is_directory))
                        .or_else(|| reason_of(&self.protect, prefix))
                })
            })
        })
    }
}

/// The first part of a path if it starts with a dot and is not known to be harmless.
///
/// The path is normal. `.gitignore` is harmless as a file, but not as a folder.
pub(super) fn find_unlisted_dot_name(path: &str) -> Option<&str> {
    let name = path.split('/').next()?;
    let is_dot_name = fold_case(name).starts_with('.');
    (is_dot_name && !HARMLESS_DOT_FILES.contains(&fold_case(path).as_ref())).then_some(name)
}

const SHORT: &str = "may be the short name of something hidden, on this file system";
const USER_HIDES: &str = "is hidden by `[policy] hide` in the configuration";
const USER_PROTECTS: &str = "is protected by `[policy] protect` in the configuration";
pub(super) const REPOSITORY_HIDES: &str = "is hidden by the repository's `.tool.toml`";
const REPOSITORY_PROTECTS: &str = "is protected by the repository's `.tool.toml`";

fn compile_globs(key: &'static str, patterns: &[String], reason: &'static str) -> Result<Vec<UserGlob>, PatternError> {
    patterns.iter().map(|text| UserGlob::new(key, text, reason)).collect()
}

fn reason_of(globs: &[UserGlob], folded: &str) -> Option<&'static str> {
    globs.iter().find(|glob| glob.matches(folded)).map(|glob| glob.reason)
}

/// True if a directory of this name counts as sources once git tracks a file in it.
pub(crate) fn may_hold_sources(name: &str) -> bool {
    PERHAPS_SOURCES.contains(&name)
}

/// True for a path in a directory that the specification's scanner skips, whatever git tracks there: `POST /scan` does
/// not count it, and it is never a key file or an entry point.
pub fn is_beyond_scan(path: &str) -> bool {
    path::list_ancestors(path).any(|directory| SKIPPED.contains(&path::split_path(directory).1))
}

/// True if lists leave out a directory of this name, unless git tracks a file in it. Such a directory is not hidden.
pub(crate) fn is_skipped(name: &str) -> bool {
    if SKIPPED.contains(&name) {
        return true;
    }
    // A directory with the name of an environment file is a virtual environment.
    let folded = fold_case(name);
    HIDDEN_TABLE.find(&folded, false) == Some(ENVIRONMENT)
}

fn describe_path_error(error: PathError) -> &'static str {
    match error {
        PathError::Absolute | PathError::Outside => "lies outside the repository",
        PathError::Nul => "contains a NUL character",
        PathError::TooLong => "is longer than any path can be",
    }
}

/// A name without the end that some file systems ignore.
fn without_tail(name: &str) -> &str {
    let file = name.split_once(':').map_or(name, |(file, _)| file);
    file.trim_end_matches(['.', ' '])
}

/// True for a name that a file system may have generated for a longer one: `LONGNA~1.TXT`.
fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let Some((start, number)) = base.rsplit_once('~') else {
        return false;
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !start.is_empty() && is_number && base.chars().count() <= 8 && extension.chars().count() <= 3
}

/// Every directory above a normal path, then the path itself.
fn list_prefixes(path: &str) -> impl Iterator<Item = &str> {
    path::list_ancestors(path).chain(std::iter::once(path).filter(|path| !path.is_empty()))
}

/// One form for all spellings that a case-folding file system treats as the same name.
///
/// Characters are converted to upper case, because some share an upper case (`ſ` and `s`). Before that they are
/// converted to lower case, because some (`ẞ`) have a lower case whose upper case differs (`SS`). Characters that such
/// file systems ignore are removed (`.g\u{200c}it` is `.git` on some).
pub fn fold_case(path: &str) -> Cow<'_, str> {
    if path.is_ascii() {
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(path.to_ascii_lowercase());
        }
        return Cow::Borrowed(path);
    }
    let folded = path
        .chars()
        .filter(|&character| !is_ignorable(character))
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    Cow::Owned(folded)
}

static HIDDEN_TABLE: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::new(HIDDEN));
static PROTECTED_TABLE: LazyLock<RuleTable> = LazyLock::new(|| RuleTable::new(PROTECTED));

/// A table for lookups: whole names by hash, and the few patterns with `*` one after the other.
struct RuleTable {
    exact: HashMap<&'static str, Rule>,
    /// Text before and after the `*`.
    open: Vec<(&'static str, &'static str, Rule)>,
    /// Patterns of several parts, by their last part.
    tails: HashMap<&'static str, Vec<Rule>>,
}

impl RuleTable {
    fn new(rules: &[Rule]) -> Self {
        let mut table = Self {
            exact: HashMap::new(),
            open: Vec::new(),
            tails: HashMap::new(),
        };
        for &rule in rules {
            if let Some((_, last)) = rule.pattern.rsplit_once('/') {
                table.tails.entry(last).or_default().push(rule);
            } else if let Some((start, end)) = rule.pattern.split_once('*') {
                table.open.push((start, end, rule));
            } else {
                table.exact.insert(rule.pattern, rule);
            }
        }
        table
    }

    /// Reason why an entry is in the table.
    fn find(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let (_, name) = path::split_path(path);
        let applies = |rule: &&Rule| rule.applies(name, is_directory);
        let by_name = || self.exact.get(name).filter(applies);
        let by_tail = || {
            let ends = |rule: &&Rule| {
                let rest = path.strip_suffix(rule.pattern);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            self.tails.get(name)?.iter().filter(applies).find(ends)
        };
        let by_shape = || {
            let found = self.open.iter().find(|(start, end, rule)| {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
                    && rule.applies(name, is_directory)
            });
            found.map(|(_, _, rule)| rule)
        };
        by_name().or_else(by_tail).or_else(by_shape).map(|rule| rule.reason)
    }

    /// Like [`Self::find`], but also for a copy (`id_rsa.bak`, `.server.key.swp`).
    fn find_copy(&self, path: &str, is_directory: bool) -> Option<&'static str> {
        let original = || {
            let original = COPIES.iter().find_map(|ending| path.strip_suffix(ending))?;
            let (_, name) = path::split_path(original);
            let undotted = name.strip_prefix('.').unwrap_or(name);
            self.find(original, false).or_else(|| self.find(undotted, false))
        };
        self.find(path, is_directory)
            .or_else(|| if is_directory { None } else { original() })
    }
}

impl Rule {
    fn applies(&self, name: &str, is_directory: bool) -> bool {
        match self.covers {
            RuleScope::All => true,
            RuleScope::Files => !is_directory,
            RuleScope::Environment => !is_directory && !EXAMPLES.iter().any(|ending| name.ends_with(ending)),
        }
    }
}

/// A glob of the user's configuration.
#[derive(Debug)]
struct UserGlob {
    matcher: GlobSet,
    whole_path: bool,
    /// Path of the root from the base of whole paths, after [`fold_case`]; empty if they start at the root.
    below: String,
    /// Reason why matching paths are hidden or protected.
    reason: &'static str,
}

impl UserGlob {
    fn new(key: &'static str, text: &str, why: &'static str) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError {
            key,
            of_repository: false,
            pattern: text.to_owned(),
            reason,
        };
        let pattern = text.strip_suffix('/').unwrap_or(text);
        let whole_path = pattern.contains('/');
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(error("it is empty".to_owned()));
        }
        let glob = GlobBuilder::new(&fold_case(pattern))
            .literal_separator(true)
            .case_insensitive(true)
            .build()
            .map_err(|source| error(source.kind().to_string()))?;
        // `Glob::compile_matcher` panics if alternatives are nested too deeply.
        let matcher = GlobSet::builder().add(glob).build();
        Ok(Self {
            matcher: matcher.map_err(|source| error(source.kind().to_string()))?,
            whole_path,
            below: String::new(),
            reason: why,
        })
    }

    fn matches(&self, folded: &str) -> bool {
        if self.whole_path && !self.below.is_empty() {
            self.matches_whole(&path::join_path(&self.below, folded))
        } else {
            self.matches_whole(folded)
        }
    }

    /// Matches a path that begins at the base of the patterns.
    fn matches_whole(&self, folded: &str) -> bool {
        let (_, name) = path::split_path(folded);
        self.matcher.is_match(if self.whole_path { folded } else { name })
    }
}

#[cfg(test)]
mod tests;
