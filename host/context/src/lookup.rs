//! Answers questions about names in the current files: definitions, references, outline, uses.
//!
//! A file is read before it is parsed, and only a file that contains the name is parsed, so an answer is never older
//! than its file. The index tells which files need not be read. Large results come in pages. Matching is by syntax,
//! without types.

use std::ops::RangeInclusive;

use memchr::memmem::Finder;
use tokio_util::sync::CancellationToken;

use crate::index::SEARCHED_FILE_BYTES_MAX;
use crate::symbols::{DetailedSymbol, SymbolForm, SymbolUse, SyntaxDetails, SyntaxParser, UseForm, embedded_source};
use crate::text_of;
use crate::{FileVerdict, Indexes, PatternKind, SearchPattern};
use tool_core::limits::{FILE_READ_BYTES_MAX, RANKED_FILE_BYTES_MAX};
use tool_repository::bulk::{ListedNames, ReadBounds, ReadOutcome};
use tool_repository::{EntryKind, OpenError, Repository, ScanError};

/// Items after which a page ends. The current file is finished first.
const PAGE_ITEMS: usize = 1000;

const PAGE_TREES_MAX: usize = 256;

const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Directories with at most this many files are read whole. Using the index needs a `stat` of each file of the
/// repository, which costs as much as reading some hundred.
const UNNARROWED_FILES_MAX: usize = 500;

/// A definition in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDefinition {
    /// Relative to the root.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Names of the definitions around it, joined by dots.
    pub container: String,
    /// Kind of the definition.
    pub form: SymbolForm,
    /// Line of the name, from 1.
    pub line: u32,
    /// First line of the whole.
    pub first_line: u32,
    /// Last line of the whole.
    pub last_line: u32,
    /// First line of the comment right before it.
    pub comment_line: Option<u32>,
    /// The head, in one line.
    pub signature: String,
}

/// Kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceForm {
    /// The definition itself.
    Definition,
    /// A use, by syntax tree.
    Use(UseForm),
    /// A whole word in a file without a syntax tree.
    Text,
}

/// A reference in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundReference {
    /// Relative to the root.
    pub path: String,
    /// The name.
    pub name: String,
    /// Kind of the reference.
    pub form: ReferenceForm,
    /// From 1.
    pub line: u32,
    /// The definition around it, with its containers, joined by dots.
    pub container: String,
}

/// The answer for some files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolPage<T> {
    /// In the order of paths, then lines.
    pub items: Vec<T>,
    /// The last file of the page, if more files follow.
    pub next: Option<String>,
}

/// Reason why a lookup failed.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The file or the directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The repository cannot be listed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file has no syntax tree.
    #[error("there is no syntax tree of `{path}`: its language is not known, or it is too large")]
    NoTree {
        /// Relative to the root.
        path: String,
    },
}

/// The definitions of one file, in the order of lines. Blocks.
///
/// # Errors
///
/// If the file cannot be read or has no syntax tree, or `cancel` fires.
pub fn outline_file(
    repository: &Repository,
    indexes: &Indexes,
    path: &str,
    cancel: &CancellationToken,
) -> Result<Vec<FoundDefinition>, LookupError> {
    let reader = SymbolReader {
        repository,
        parser: indexes.parser(),
        indexes: None,
        cancel,
    };
    reader.outline(path)
}

/// A name as typed: `run`, `Type.method`, `Type::method`, `Type#method`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoughtName<'a> {
    /// `Type` of `Type.method`.
    pub(crate) owner: Option<&'a str>,
    pub(crate) last: &'a str,
}

impl<'a> SoughtName<'a> {
    pub(crate) fn parse(name: &'a str) -> Self {
        let name = name.strip_suffix("()").unwrap_or(name);
        let mut parts = name.rsplit(['.', ':', '#', '\\']).filter(|part| !part.is_empty());
        let last = parts.next().unwrap_or(name);
        Self {
            owner: parts.next(),
            last,
        }
    }

    pub(crate) fn is_defined_by(&self, symbol: &DetailedSymbol, text: &str) -> bool {
        let is_inside = |owner: &str| {
            let container = symbol.container(text);
            container.rsplit(['.', ':', '\\']).next() == Some(owner)
        };
        symbol.name(text) == self.last && self.owner.is_none_or(is_inside)
    }
}

/// Reads symbols of one repository. Blocks.
#[derive(Clone, Copy)]
pub struct SymbolReader<'a> {
    /// Opens the files.
    pub repository: &'a Repository,
    /// Parses them.
    pub parser: &'a dyn SyntaxParser,
    /// Tells which files need not be read, if there is an index.
    pub indexes: Option<&'a Indexes>,
    /// Ends the reading.
    pub cancel: &'a CancellationToken,
}

impl SymbolReader<'_> {
    /// One page of the definitions of a name, beneath a path.
    ///
    /// # Errors
    ///
    /// If the repository cannot be listed, or the reading is cancelled.
    pub fn find_definitions(
        &self,
        name: &str,
        under: &str,
        after: Option<&str>,
    ) -> Result<SymbolPage<FoundDefinition>, LookupError> {
        let sought = SoughtName::parse(name);
        self.each_file(sought.last, under, after, |path, content, found| {
            if !self.parser.reads(path) || content.len() as u64 > RANKED_FILE_BYTES_MAX {
                return false;
            }
            let Some(text) = text_of(content) else { return false };
            // The empty name has no uses, so the parser returns none.
            let Some(details) = self.parser.details(path, &text, Some("")) else {
                return true;
            };
            let symbols = details.symbols.iter();
            let defined = symbols.filter(|symbol| sought.is_defined_by(symbol, &text));
            found.extend(defined.map(|symbol| found_definition(path, symbol, &text)));
            true
        })
    }

    /// One page of the definitions and uses of a name, beneath a path.
    ///
    /// # Errors
    ///
    /// If the repository cannot be listed, or the reading is cancelled.
    pub fn find_references(
        &self,
        name: &str,
        under: &str,
        after: Option<&str>,
    ) -> Result<SymbolPage<FoundReference>, LookupError> {
        let sought = SoughtName::parse(name);
        self.each_file(sought.last, under, after, |path, content, found| {
            let has_tree = self.parser.reads(path) && content.len() as u64 <= RANKED_FILE_BYTES_MAX;
            let Some(text) = text_of(content) else { return false };
            let details = has_tree.then(|| self.parser.details(path, &text, Some(sought.last)));
            match details.flatten() {
                Some(details) => {
                    add_references(path, &details, &text, &sought, found);
                    found.extend(find_markup_lines(path, &text, sought.last));
                }
                None => found.extend(find_word_lines(path, &text, sought.last)),
            }
            has_tree
        })
    }

    /// The definitions of one file, in the order of lines.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has no syntax tree, or the reading is cancelled.
    pub fn outline(&self, path: &str) -> Result<Vec<FoundDefinition>, LookupError> {
        let (text, details) = self.read(path, Some(""))?;
        let symbols = details.symbols.iter();
        Ok(symbols.map(|symbol| found_definition(path, symbol, &text)).collect())
    }

    /// The uses of names in some lines of a file, in their order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has no syntax tree, or the reading is cancelled.
    pub fn list_uses(&self, path: &str, lines: RangeInclusive<u32>) -> Result<Vec<FoundReference>, LookupError> {
        let (text, details) = self.read(path, None)?;
        let uses = details.uses.iter().filter(|one| lines.contains(&one.line));
        Ok(uses.map(|one| found_use(path, one, &details, &text)).collect())
    }

    /// A file with its definitions, and its uses of `name`, or of every name.
    pub(crate) fn read(&self, path: &str, name: Option<&str>) -> Result<(String, SyntaxDetails), LookupError> {
        let no_tree = || LookupError::NoTree { path: path.to_owned() };
        self.check_cancel()?;
        if !self.parser.reads(path) {
            return Err(no_tree());
        }
        let content = self.repository.read_within(path, FILE_READ_BYTES_MAX, self.cancel)?;
        if content.len() as u64 > RANKED_FILE_BYTES_MAX {
            return Err(no_tree());
        }
        let text = text_of(content).ok_or_else(no_tree)?;
        let details = self.parser.details(path, &text, name).ok_or_else(no_tree)?;
        Ok((text, details))
    }

    /// The text of a content with its definitions and its uses of `name`, where it has a syntax tree.
    pub(crate) fn parse_content(
        &self,
        path: &str,
        content: Vec<u8>,
        name: Option<&str>,
    ) -> Option<(String, SyntaxDetails)> {
        if !self.parser.reads(path) || content.len() as u64 > RANKED_FILE_BYTES_MAX {
            return None;
        }
        let text = text_of(content)?;
        let details = self.parser.details(path, &text, name)?;
        Some((text, details))
    }

    fn check_cancel(&self) -> Result<(), LookupError> {
        if self.cancel.is_cancelled() {
            return Err(ScanError::Cancelled.into());
        }
        Ok(())
    }

    /// The current files, and for each whether the index says that it can hold `name`.
    fn candidates(&self, name: &str, under: &str) -> Result<(ListedNames, Option<Vec<FileVerdict>>), LookupError> {
        let names = self.repository.names(self.cancel)?;
        if !names.list().has_walked(under) {
            return Ok((self.repository.names_beneath(under, self.cancel)?, None));
        }
        let patterns = [SearchPattern {
            kind: PatternKind::Literal,
            text: name.to_owned(),
            ignores_case: false,
        }];
        let is_large = names.list().range_beneath(under).len() > UNNARROWED_FILES_MAX;
        let can_narrow = |indexes: &&Indexes| is_large && indexes.can_narrow(self.repository, &patterns);
        let Some(indexes) = self.indexes.filter(can_narrow) else {
            return Ok((names, None));
        };
        let names = self.repository.exact_names(self.cancel)?;
        let verdicts = indexes.narrow(self.repository, names.list(), &patterns);
        Ok((names, verdicts))
    }

    /// Calls `visit` with each file that contains `name`, until the page is full. `visit` returns whether it parsed the
    /// file.
    pub(crate) fn each_file<T>(
        &self,
        name: &str,
        under: &str,
        after: Option<&str>,
        mut visit: impl FnMut(&str, Vec<u8>, &mut Vec<T>) -> bool,
    ) -> Result<SymbolPage<T>, LookupError> {
        self.check_cancel()?;
        let finder = Finder::new(name);
        let mut items = Vec::new();
        let opened = self.repository.open_within(under, self.cancel)?;
        if opened.kind == EntryKind::File {
            let content = self
                .repository
                .read_within(&opened.path, SEARCHED_FILE_BYTES_MAX, self.cancel)?;
            if after.is_none() && contains_name(&finder, &content) {
                visit(&opened.path, content, &mut items);
            }
            return Ok(SymbolPage { items, next: None });
        }
        let (names, verdicts) = self.candidates(name, &opened.path)?;
        let list = names.list();
        let mut left = list.range_beneath(&opened.path);
        if let Some(after) = after {
            let passed = list.files.partition_point(|file| file.path.as_str() <= after);
            left.start = left.start.max(passed);
        }
        let wanted = ReadBounds {
            bytes_max: SEARCHED_FILE_BYTES_MAX,
            text_only: true,
        };
        let (mut trees, mut bytes) = (0, 0);
        let mut content = Vec::new();
        for at in left.clone() {
            if verdicts
                .as_ref()
                .is_some_and(|verdicts| verdicts[at] != FileVerdict::Candidate)
            {
                continue;
            }
            let path = &list.files[at].path;
            self.check_cancel()?;
            content.clear();
            let read = self
                .repository
                .read_listed(&names, at, wanted, &mut content, self.cancel);
            bytes += content.len();
            if matches!(read, Ok(ReadOutcome::Whole)) && contains_name(&finder, &content) {
                trees += usize::from(visit(path, std::mem::take(&mut content), &mut items));
            }
            let is_full = items.len() >= PAGE_ITEMS || trees >= PAGE_TREES_MAX || bytes >= PAGE_BYTES_MAX;
            if is_full && at + 1 < left.end {
                let next = Some(path.clone());
                return Ok(SymbolPage { items, next });
            }
        }
        Ok(SymbolPage { items, next: None })
    }
}

/// True if the content holds the name as a whole word. A neighbouring sign such as `$` may belong to a name or not, so
/// it does not rule out a match.
fn contains_name(name: &Finder<'_>, content: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let needle = name.needle();
    let (begins_word, ends_word) = (is_word(needle.first()), is_word(needle.last()));
    let is_whole = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| content.get(at));
        let after = content.get(at + needle.len());
        !(begins_word && is_word(before) || ends_word && is_word(after))
    };
    name.find_iter(content).any(is_whole)
}

fn found_definition(path: &str, symbol: &DetailedSymbol, text: &str) -> FoundDefinition {
    FoundDefinition {
        path: path.to_owned(),
        name: symbol.name(text).to_owned(),
        container: symbol.container(text),
        form: symbol.form(),
        line: symbol.named.line,
        first_line: symbol.first_line,
        last_line: symbol.named.end_line,
        comment_line: symbol.comment_line,
        signature: symbol.signature(text),
    }
}

fn found_use(path: &str, one: &SymbolUse, details: &SyntaxDetails, text: &str) -> FoundReference {
    let name = text.get(one.name.start as usize..one.name.end as usize);
    FoundReference {
        path: path.to_owned(),
        name: name.unwrap_or_default().to_owned(),
        form: ReferenceForm::Use(one.form),
        line: one.line,
        container: qualified_name(details.enclosing(one), text),
    }
}

/// The name of a definition with its containers; empty without a definition.
fn qualified_name(symbol: Option<&DetailedSymbol>, text: &str) -> String {
    symbol.map_or_else(String::new, |symbol| {
        let (container, name) = (symbol.container(text), symbol.name(text));
        if container.is_empty() {
            name.to_owned()
        } else {
            format!("{container}.{name}")
        }
    })
}

/// The definitions and the uses of a name in one file, in the order of lines.
fn add_references(
    path: &str,
    details: &SyntaxDetails,
    text: &str,
    sought: &SoughtName<'_>,
    found: &mut Vec<FoundReference>,
) {
    let start = found.len();
    let defined = details.symbols.iter().filter(|symbol| symbol.name(text) == sought.last);
    found.extend(defined.map(|symbol| FoundReference {
        path: path.to_owned(),
        name: sought.last.to_owned(),
        form: ReferenceForm::Definition,
        line: symbol.named.line,
        container: symbol.container(text),
    }));
    found.extend(details.uses.iter().map(|one| found_use(path, one, details, text)));
    found[start..].sort_by_key(|reference| reference.line);
}

/// Lines that hold a word as a whole.
fn find_word_lines(path: &str, text: &str, word: &str) -> Vec<FoundReference> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let is_whole = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + word.len()..]);
            !before.ends_with(is_part) && !after.starts_with(is_part)
        })
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_whole(line));
    let found = lines.take(PAGE_ITEMS * 10).map(|(line, _)| FoundReference {
        path: path.to_owned(),
        name: word.to_owned(),
        form: ReferenceForm::Text,
        line,
        container: String::new(),
    });
    found.collect()
}

/// Lines that hold a word around the scripts of a file, such as in a template.
fn find_markup_lines(path: &str, text: &str, word: &str) -> Vec<FoundReference> {
    let Some((_, script)) = embedded_source(path, text) else {
        return Vec::new();
    };
    let is_script: Vec<bool> = script.lines().map(|line| !line.trim().is_empty()).collect();
    let mut lines = find_word_lines(path, text, word);
    lines.retain(|one| !is_script[one.line as usize - 1]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_searched_by_word() {
        let text = "<script>\nlet total = 1;\n</script>\n<p>{{ total }}</p>\n";
        let lines = find_markup_lines("a.vue", text, "total");
        assert_eq!(lines.iter().map(|one| one.line).collect::<Vec<_>>(), [4]);
        assert_eq!(find_markup_lines("a.js", text, "total"), []);
    }

    #[test]
    fn a_name_is_looked_for_as_a_whole() {
        for (name, text, expected) in [
            ("Field", "class CharField: pass", false),
            ("Field", "Fields Field_ _Field 9Field CharField", false),
            ("Field", "CharField(Field)", true),
            ("Field", "Field", true),
            ("field", "$field", true),
            ("saved?", "record.saved?(1)", true),
            ("saved?", "unsaved?", false),
            ("==", "a==b", true),
            ("größe", "die größe", true),
            ("name", "m\u{e4}name", true),
        ] {
            assert_eq!(
                contains_name(&Finder::new(name), text.as_bytes()),
                expected,
                "{name} in {text}"
            );
        }
    }
}
