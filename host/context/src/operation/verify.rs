//! Checks every citation of an answer against the tree, by the rules by which skills see it.
//!
//! Reads files, blocks, and changes nothing. What the form of a citation is, `citations` knows; what follows from a
//! citation that does not hold, the session's review decides.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::citations::{self, Citation};
use tool_repository::{EntryKind, OpenError, Repository, ScanError, normalise};

/// Bytes of cited files that are read to count their lines: a hundred files of the largest size that is written by
/// hand, in some ten milliseconds.
const CITED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Citations that do not hold, named in the closing line. Whoever reads twenty has seen enough.
const CITATIONS_NAMED_MAX: usize = 20;

/// The citations of an answer, each with what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedCitations {
    /// In the order of the text. What only looked like a citation is not among them.
    pub citations: Vec<(Citation, Verdict)>,
    /// True where the answer holds more than is checked.
    pub is_cut: bool,
}

/// Verdict on a citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The file exists and has these lines.
    Holds,
    /// Why not, for the inside of parentheses.
    Fails(String),
}

/// Checks the citations of `text`. Ends early when `cancel` fires, without an answer.
pub fn check(text: &str, repository: &Repository, cancel: &CancellationToken) -> Result<CheckedCitations, ScanError> {
    let (mut found, is_cut) = citations::parse(text);
    widen(&mut found, repository, cancel);
    let mut by_path: BTreeMap<&str, u64> = BTreeMap::new();
    for citation in &found {
        let line = by_path.entry(&citation.path).or_default();
        *line = (*line).max(citation.last);
    }
    let mut files = Files::new(repository, by_path.keys().copied(), cancel);
    let mut lengths = HashMap::new();
    for (path, line) in by_path {
        if cancel.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        lengths.insert(path.to_owned(), files.length(path, line)?);
    }
    let judged = found.into_iter().filter_map(|citation| {
        let length = lengths.get(&citation.path)?;
        // Without a file of that name it was no citation.
        if citation.is_doubtful && !length_tells_a_file(&citation.path, length) {
            return None;
        }
        let verdict = judge(&citation, length);
        Some((citation, verdict))
    });
    Ok(CheckedCitations {
        citations: judged.collect(),
        is_cut,
    })
}

/// Takes the words before a path into it where a file of that name exists, spaces and all.
fn widen(found: &mut [Citation], repository: &Repository, cancel: &CancellationToken) {
    let mut known: HashMap<String, bool> = HashMap::new();
    for citation in found {
        let wider = std::mem::take(&mut citation.wider).into_iter();
        let is_file = |(path, _): &(String, usize)| {
            *known.entry(path.clone()).or_insert_with(|| {
                let opened = repository.open_within(path, cancel);
                opened.is_ok_and(|opened| opened.kind == EntryKind::File)
            })
        };
        if let Some((path, start)) = wider.into_iter().find(is_file) {
            (citation.path, citation.at.start) = (path, start.min(citation.at.start));
            citation.is_doubtful = false;
        }
    }
}

fn length_tells_a_file(path: &str, length: &Result<Length, Missing>) -> bool {
    match length {
        Ok(_) | Err(Missing::Unread(_)) => true,
        // A hidden name is refused whether or not something is there; it is a file's name all the same.
        Err(Missing::Denied(_)) => normalise(path).is_ok(),
        Err(Missing::Nothing | Missing::Directory | Missing::Ambiguous { .. }) => false,
    }
}

fn judge(citation: &Citation, length: &Result<Length, Missing>) -> Verdict {
    let length = match length {
        Ok(length) => length,
        Err(missing) => return Verdict::Fails(missing.to_string()),
    };
    let (first, last) = (citation.first, citation.last);
    if first == 0 || last == 0 {
        return Verdict::Fails("lines are counted from 1".to_owned());
    }
    if last < first {
        return Verdict::Fails("the range ends before it begins".to_owned());
    }
    match length {
        Length::AtLeast(lines) | Length::Exactly(lines) if last <= *lines => Verdict::Holds,
        Length::Exactly(0) => Verdict::Fails("the file is empty".to_owned()),
        Length::Exactly(1) => Verdict::Fails("the file has 1 line".to_owned()),
        Length::Exactly(lines) | Length::AtLeast(lines) => Verdict::Fails(format!("the file has {lines} lines")),
    }
}

/// Number of lines of a file, as far as it was read.
enum Length {
    Exactly(u64),
    AtLeast(u64),
}

/// Why a path names no file.
#[derive(Debug, thiserror::Error)]
enum Missing {
    #[error("there is no such file")]
    Nothing,
    #[error("it is a directory")]
    Directory,
    #[error("it {0}")]
    Denied(&'static str),
    #[error("{count} files end in that name, such as `{}`", examples.join("` and `"))]
    Ambiguous { count: usize, examples: Vec<String> },
    #[error("{0}")]
    Unread(&'static str),
}

/// The tree, as citations ask for it.
struct Files<'r> {
    repository: &'r Repository,
    cancel: &'r CancellationToken,
    /// Listed files by their last part, for those that are cited. The tree is listed for the first citation that names
    /// no file by its whole path: most answers have none.
    by_name: HashMap<String, Vec<String>>,
    is_listed: bool,
    bytes_left: u64,
}

impl<'r> Files<'r> {
    fn new<'p>(
        repository: &'r Repository,
        cited: impl Iterator<Item = &'p str>,
        cancel: &'r CancellationToken,
    ) -> Self {
        Self {
            repository,
            cancel,
            by_name: cited.map(|path| (last_part(path).to_owned(), Vec::new())).collect(),
            is_listed: false,
            bytes_left: CITED_BYTES_MAX,
        }
    }

    fn list(&mut self) -> Result<(), ScanError> {
        if self.is_listed {
            return Ok(());
        }
        for file in &self.repository.list(self.cancel)?.files {
            if let Some(files) = self.by_name.get_mut(last_part(&file.path)) {
                files.push(file.path.clone());
            }
        }
        self.is_listed = true;
        Ok(())
    }

    /// Counts the lines of what a citation names, up to the line that is wanted.
    fn length(&mut self, cited: &str, line: u64) -> Result<Result<Length, Missing>, ScanError> {
        Ok(match self.resolve(cited)? {
            Ok(path) => self.length_at(&path, line),
            Err(missing) => Err(missing),
        })
    }

    fn length_at(&mut self, path: &str, line: u64) -> Result<Length, Missing> {
        let file = self.repository.open_file_within(path, self.cancel).map_err(missing)?;
        let (length, bytes) =
            count_lines(file.take(self.bytes_left), line).map_err(|_| Missing::Unread("the file cannot be read"))?;
        let is_spent = bytes >= self.bytes_left;
        self.bytes_left -= bytes.min(self.bytes_left);
        match length {
            // The file may go on where reading stopped.
            Length::Exactly(_) if is_spent => Err(Missing::Unread("not checked: the cited files are too large")),
            length => Ok(length),
        }
    }

    /// The file that is meant: the one of that path, else the only one whose path ends in it.
    fn resolve(&mut self, cited: &str) -> Result<Result<String, Missing>, ScanError> {
        let found = match self.repository.open_within(cited, self.cancel) {
            Ok(opened) if opened.kind == EntryKind::File => return Ok(Ok(opened.path)),
            Ok(_) => Missing::Directory,
            Err(error) => missing(error),
        };
        let suffix = match (&found, normalise(cited)) {
            (Missing::Denied(_), _) | (_, Err(_)) => return Ok(Err(found)),
            (_, Ok(suffix)) => suffix,
        };
        self.list()?;
        Ok(self.ending_in(cited, &suffix).unwrap_or(Err(found)))
    }

    /// The only listed file whose path ends in this, or that there are several; absent where there is none.
    fn ending_in(&self, cited: &str, suffix: &str) -> Option<Result<String, Missing>> {
        let ends_so = |path: &&String| {
            let rest = path.strip_suffix(suffix);
            rest.is_some_and(|rest| rest.ends_with('/'))
        };
        let candidates = self.by_name.get(last_part(cited)).into_iter().flatten();
        let matching: Vec<&String> = candidates.filter(ends_so).collect();
        match matching[..] {
            [] => None,
            [only] => Some(Ok(only.clone())),
            [first, second, ..] => Some(Err(Missing::Ambiguous {
                count: matching.len(),
                examples: vec![first.clone(), second.clone()],
            })),
        }
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn missing(error: OpenError) -> Missing {
    match error {
        OpenError::NotFound { .. } => Missing::Nothing,
        OpenError::Denied { reason, .. } => Missing::Denied(reason),
        OpenError::IsDirectory { .. } => Missing::Directory,
        OpenError::NotRegular { .. } => Missing::Unread("it is no regular file"),
        OpenError::TooLarge { .. } | OpenError::Io { .. } => Missing::Unread("the file cannot be read"),
    }
}

/// Lines as every tool here counts them: what ends in a line break, and a rest without one. Stops once `wanted` lines
/// are there. Also gives the bytes that were read.
fn count_lines(mut file: impl Read, wanted: u64) -> io::Result<(Length, u64)> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut breaks, mut bytes, mut last) = (0, 0, b'\n');
    loop {
        let length = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = &buffer[..length];
        breaks += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
        bytes += length as u64;
        last = piece[length - 1];
        if breaks >= wanted {
            return Ok((Length::AtLeast(breaks), bytes));
        }
    }
    Ok((Length::Exactly(breaks + u64::from(last != b'\n')), bytes))
}

impl CheckedCitations {
    /// Number of citations that hold. A place that is cited twice counts once, here and everywhere.
    pub fn holding(&self) -> usize {
        self.distinct()
            .filter(|(_, verdict)| *verdict == Verdict::Holds)
            .count()
    }

    /// Number of citations.
    pub fn total(&self) -> usize {
        self.distinct().count()
    }

    fn distinct(&self) -> impl Iterator<Item = &(Citation, Verdict)> {
        let mut seen = std::collections::HashSet::new();
        let is_new = move |(citation, _): &&(Citation, Verdict)| seen.insert(citation.to_string());
        self.citations.iter().filter(is_new)
    }

    /// The closing line of an answer: how many citations hold, and which do not.
    pub fn line(&self) -> String {
        let total = self.total();
        if total == 0 {
            return "No citations: this answer names no place in the repository by which it could be checked."
                .to_owned();
        }
        let mut line = format!("{} of {total} citations hold", self.holding());
        let failing: Vec<String> = self
            .distinct()
            .filter_map(|(citation, verdict)| match verdict {
                Verdict::Holds => None,
                Verdict::Fails(why) => Some(format!("`{citation}` ({why})")),
            })
            .collect();
        if !failing.is_empty() {
            let verb = if failing.len() == 1 { "does" } else { "do" };
            let named = &failing[..failing.len().min(CITATIONS_NAMED_MAX)];
            line.push_str(&format!("; {verb} not hold: {}", named.join(", ")));
            if failing.len() > named.len() {
                line.push_str(&format!(" and {} more", failing.len() - named.len()));
            }
        }
        line.push('.');
        if self.is_cut {
            line.push_str(" The answer cites more than is checked.");
        }
        line
    }
}

#[cfg(test)]
mod tests;
