//! Checks every citation of an answer against the tree, with the visibility rules of skills. A citation holds if its
//! lines contain what its sentence claims.
//!
//! Reads files, blocks, and changes nothing. `citations` parses citations, and `claims` the claims of sentences. The
//! session's review handles wrong citations.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::citations::{self, Citation};
use super::claims::{CitedClaims, CitedText, ClaimVerdict, claims_of};
use tool_core::text::{clean_line, truncate_text as beginning_of};
use tool_repository::{EntryKind, OpenError, Repository, ScanError, normalise_path};

/// Bytes of cited files that are read: a hundred files of the largest size that is written by hand, in some ten
/// milliseconds.
const CITED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of cited lines that are compared, once for each claim: seconds at the worst. An honest answer takes a hundredth.
const COMPARED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Wrong citations that the closing line names. More would not help the reader.
const CITATIONS_NAMED_MAX: usize = 20;

/// The citations of an answer, each with its verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedCitations {
    /// In the order of the text, without text that only looked like a citation.
    pub citations: Vec<(Citation, CitationVerdict)>,
    /// True if the answer has more citations than were checked.
    pub is_cut: bool,
}

/// Verdict on a citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CitationVerdict {
    /// The lines contain everything that the sentence claims of them.
    Holds,
    /// The file exists, but it could not be read, its lines neither support nor contradict the sentence, or there are
    /// too many of them.
    NotChecked,
    /// The file has these lines, but they contradict the sentence. The text is the reason, formatted for parentheses.
    Unsupported(String),
    /// The place does not exist. The text is the reason, formatted for parentheses.
    NoSuchPlace(String),
}

/// Checks the citations of `text`. Ends early when `cancel` fires, without an answer.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn check_citations(
    text: &str,
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<CheckedCitations, ScanError> {
    let (mut found, is_cut) = citations::parse(text);
    widen_paths(&mut found, repository, cancel);
    let mut files = CitedFiles::new(repository, found.iter().map(|citation| citation.path.as_str()), cancel);
    let mut resolved: BTreeMap<String, Result<String, MissingFile>> = BTreeMap::new();
    for citation in &found {
        if !resolved.contains_key(&citation.path) {
            resolved.insert(citation.path.clone(), files.resolve(&citation.path)?);
        }
    }
    // A doubtful citation counts only if the file exists.
    found.retain(|citation| !citation.is_doubtful || is_a_file(&citation.path, &resolved[&citation.path]));
    let claims = claims_of(text, &found, &|path| files.is_place(path));
    let mut verdicts = vec![CitationVerdict::NotChecked; found.len()];
    let mut bytes_left = COMPARED_BYTES_MAX;
    for (path, file) in resolved {
        if cancel.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        let places: Vec<usize> = (0..found.len()).filter(|at| found[*at].path == path).collect();
        let last = places.iter().map(|at| found[*at].last).max().unwrap_or(0);
        let beginning = file.and_then(|path| files.beginning(path, last));
        for at in places {
            verdicts[at] = judge_citation(&found[at], &claims[at], &beginning, &mut bytes_left);
        }
    }
    Ok(CheckedCitations {
        citations: found.into_iter().zip(verdicts).collect(),
        is_cut,
    })
}

/// Converts absolute paths below the root to relative ones, and adds the words before a path to it if such a file
/// exists.
fn widen_paths(found: &mut [Citation], repository: &Repository, cancel: &CancellationToken) {
    let mut known: HashMap<String, bool> = HashMap::new();
    for citation in found {
        citation.path = below_root(&citation.path, repository).to_owned();
        let wider = std::mem::take(&mut citation.wider).into_iter();
        let mut wider = wider.map(|(path, start)| (below_root(&path, repository).to_owned(), start));
        let is_file = |(path, _): &(String, usize)| {
            *known.entry(path.clone()).or_insert_with(|| {
                let opened = repository.open_within(path, cancel);
                opened.is_ok_and(|opened| opened.kind == EntryKind::File)
            })
        };
        if let Some((path, start)) = wider.find(is_file) {
            (citation.path, citation.at.start) = (path, start.min(citation.at.start));
            citation.is_doubtful = false;
        }
    }
}

/// A path below the root, relative to it; any other path as it is.
fn below_root<'p>(path: &'p str, repository: &Repository) -> &'p str {
    let below = Path::new(path).strip_prefix(repository.root()).ok();
    let below = below.and_then(Path::to_str).filter(|below| !below.is_empty());
    below.unwrap_or(path)
}

fn is_a_file(path: &str, resolved: &Result<String, MissingFile>) -> bool {
    match resolved {
        Ok(_) | Err(MissingFile::NotRegular | MissingFile::Unread) => true,
        // A hidden name is refused even if no file has it, but it has the form of a file name.
        Err(MissingFile::Denied(_)) => normalise_path(path).is_ok(),
        Err(MissingFile::Nothing | MissingFile::Directory | MissingFile::Ambiguous { .. }) => false,
    }
}

fn judge_citation(
    citation: &Citation,
    claims: &CitedClaims,
    beginning: &Result<FileBeginning, MissingFile>,
    bytes_left: &mut usize,
) -> CitationVerdict {
    let beginning = match beginning {
        Ok(beginning) => beginning,
        Err(MissingFile::Unread) => return CitationVerdict::NotChecked,
        Err(missing) => return CitationVerdict::NoSuchPlace(missing.to_string()),
    };
    let (first, last) = (citation.first, citation.last);
    if first == 0 || last == 0 {
        return CitationVerdict::NoSuchPlace("lines are counted from 1".to_owned());
    }
    if last < first {
        return CitationVerdict::NoSuchPlace("the range ends before it begins".to_owned());
    }
    match beginning.line_count {
        count if last <= count => {}
        0 => return CitationVerdict::NoSuchPlace("the file is empty".to_owned()),
        1 => return CitationVerdict::NoSuchPlace("the file has 1 line".to_owned()),
        count => return CitationVerdict::NoSuchPlace(format!("the file has {count} lines")),
    }
    let lines = beginning.lines(first, last);
    let Some(left) = bytes_left.checked_sub(lines.len().saturating_mul(claims.count())) else {
        return CitationVerdict::NotChecked;
    };
    *bytes_left = left;
    if claims.count() == 0 {
        return CitationVerdict::NotChecked;
    }
    let lines = CitedText::new(lines);
    let claim = match claims.compare(&lines, &beginning.path) {
        ClaimVerdict::Holds => return CitationVerdict::Holds,
        ClaimVerdict::Open => return CitationVerdict::NotChecked,
        ClaimVerdict::Lacks(claim) => claim,
    };
    let (lines, verb) = if first == last {
        ("the line", "does")
    } else {
        ("the lines", "do")
    };
    let shown = beginning_of(claim.text(), CLAIM_SHOWN_BYTES_MAX);
    CitationVerdict::Unsupported(format!("{lines} {verb} not contain `{}`", clean_line(shown)))
}

/// Bytes that a message shows of a claim.
const CLAIM_SHOWN_BYTES_MAX: usize = 60;

/// The part of a file that was read.
struct FileBeginning {
    /// From the root.
    path: String,
    text: Vec<u8>,
    /// Lines of the file, or of the part that was read if that contains every cited line.
    line_count: u64,
}

impl FileBeginning {
    /// The text of some lines, from 1, inclusive.
    fn lines(&self, first: u64, last: u64) -> &[u8] {
        let mut start = (first == 1).then_some(0);
        let mut breaks = 0;
        for at in memchr::memchr_iter(b'\n', &self.text) {
            breaks += 1;
            if breaks == last {
                return &self.text[start.unwrap_or(at)..at];
            }
            if breaks + 1 == first {
                start = Some(at + 1);
            }
        }
        &self.text[start.unwrap_or(self.text.len())..]
    }
}

#[derive(Debug, thiserror::Error)]
enum MissingFile {
    #[error("there is no such file")]
    Nothing,
    #[error("it is a directory")]
    Directory,
    #[error("it {0}")]
    Denied(&'static str),
    #[error("{count} files end in that name, such as `{}`", examples.join("` and `"))]
    Ambiguous { count: usize, examples: Vec<String> },
    #[error("it is no regular file")]
    NotRegular,
    /// The file exists; nothing more is known.
    #[error("the file cannot be read")]
    Unread,
}

/// Looks up cited files.
struct CitedFiles<'r> {
    repository: &'r Repository,
    cancel: &'r CancellationToken,
    /// Listed files by their last part, for the cited names. The tree is listed only when a citation does not give a
    /// whole path; most answers have none.
    by_name: HashMap<String, Vec<String>>,
    is_listed: bool,
    bytes_left: u64,
}

impl<'r> CitedFiles<'r> {
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

    /// Reads a file up to the wanted line.
    fn beginning(&mut self, path: String, line: u64) -> Result<FileBeginning, MissingFile> {
        let file = self
            .repository
            .open_file_within(&path, self.cancel)
            .map_err(missing_reason)?;
        let read = read_lines(file.take(self.bytes_left), line).map_err(|_| MissingFile::Unread)?;
        let (text, line_count) = read;
        let bytes = text.len() as u64;
        let is_spent = bytes >= self.bytes_left;
        self.bytes_left -= bytes.min(self.bytes_left);
        // The file may continue after the read part, also within its last line.
        let is_whole = line_count > line || (line_count == line && text.ends_with(b"\n"));
        if is_spent && !is_whole {
            return Err(MissingFile::Unread);
        }
        Ok(FileBeginning { path, text, line_count })
    }

    /// True where a text that begins with `/` names a file or folder, from the root of the repository or of the machine.
    fn is_place(&self, text: &str) -> bool {
        let open = || self.repository.open_within(text.trim_start_matches('/'), self.cancel);
        Path::new(text).starts_with(self.repository.root()) || !matches!(open(), Err(OpenError::NotFound { .. }))
    }

    /// The file that is meant: the one of that path, else the only one whose path ends in it.
    fn resolve(&mut self, cited: &str) -> Result<Result<String, MissingFile>, ScanError> {
        let found = match self.repository.open_within(cited, self.cancel) {
            Ok(opened) if opened.kind == EntryKind::File => return Ok(Ok(opened.path)),
            Ok(_) => MissingFile::Directory,
            Err(error) => missing_reason(error),
        };
        let suffix = match (&found, normalise_path(cited)) {
            (MissingFile::Denied(_), _) | (_, Err(_)) => return Ok(Err(found)),
            (_, Ok(suffix)) => suffix,
        };
        self.list()?;
        Ok(self.ending_in(cited, &suffix).unwrap_or(Err(found)))
    }

    /// The only listed file whose path ends with `suffix`, or an error if there are several; `None` if there is none.
    fn ending_in(&self, cited: &str, suffix: &str) -> Option<Result<String, MissingFile>> {
        let ends_so = |path: &&String| {
            let rest = path.strip_suffix(suffix);
            rest.is_some_and(|rest| rest.ends_with('/'))
        };
        let candidates = self.by_name.get(last_part(cited)).into_iter().flatten();
        let matching: Vec<&String> = candidates.filter(ends_so).collect();
        match matching[..] {
            [] => None,
            [only] => Some(Ok(only.clone())),
            [first, second, ..] => Some(Err(MissingFile::Ambiguous {
                count: matching.len(),
                examples: vec![first.clone(), second.clone()],
            })),
        }
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn missing_reason(error: OpenError) -> MissingFile {
    match error {
        OpenError::NotFound { .. } => MissingFile::Nothing,
        OpenError::Denied { reason, .. } => MissingFile::Denied(reason),
        OpenError::IsDirectory { .. } => MissingFile::Directory,
        OpenError::NotRegular { .. } => MissingFile::NotRegular,
        OpenError::TooLarge { .. } | OpenError::Io { .. } => MissingFile::Unread,
    }
}

/// A text and its number of lines, as every tool here counts them: each ends in a line break, and a rest without one is a
/// line, too. Stops once `wanted` lines are there.
fn read_lines(mut file: impl Read, wanted: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut text, mut breaks) = (Vec::new(), 0);
    loop {
        let length = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        breaks += memchr::memchr_iter(b'\n', &buffer[..length]).count() as u64;
        text.extend_from_slice(&buffer[..length]);
        if breaks >= wanted {
            return Ok((text, breaks));
        }
    }
    let has_rest = text.last().is_some_and(|last| *last != b'\n');
    Ok((text, breaks + u64::from(has_rest)))
}

impl CitationVerdict {
    /// True if the cited place exists, even if its claims do not match.
    pub fn is_place(&self) -> bool {
        !matches!(self, Self::NoSuchPlace(_))
    }

    fn fault(&self) -> Option<&str> {
        match self {
            Self::Holds | Self::NotChecked => None,
            Self::Unsupported(why) | Self::NoSuchPlace(why) => Some(why),
        }
    }
}

impl CheckedCitations {
    /// Number of citations of places that exist. A place that is cited twice counts once, here and everywhere.
    pub fn places(&self) -> usize {
        self.distinct().iter().filter(|(_, verdict)| verdict.is_place()).count()
    }

    /// True if a citation is wrong.
    pub fn has_fault(&self) -> bool {
        self.citations.iter().any(|(_, verdict)| verdict.fault().is_some())
    }

    /// Number of citations.
    pub fn total(&self) -> usize {
        self.distinct().len()
    }

    /// Each cited place once, with its worst verdict, so that a right claim does not hide a wrong one.
    fn distinct(&self) -> Vec<(String, &CitationVerdict)> {
        let severity = |verdict: &CitationVerdict| match verdict {
            CitationVerdict::NotChecked => 0,
            CitationVerdict::Holds => 1,
            CitationVerdict::Unsupported(_) => 2,
            CitationVerdict::NoSuchPlace(_) => 3,
        };
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut distinct: Vec<(String, &CitationVerdict)> = Vec::new();
        for (citation, verdict) in &self.citations {
            let name = citation.to_string();
            match places.get(&name) {
                Some(at) if severity(verdict) > severity(distinct[*at].1) => distinct[*at].1 = verdict,
                Some(_) => {}
                None => {
                    places.insert(name.clone(), distinct.len());
                    distinct.push((name, verdict));
                }
            }
        }
        distinct
    }

    /// The closing line of an answer: how many citations hold, how many could not be checked, and which are wrong.
    pub fn line(&self) -> String {
        let distinct = self.distinct();
        if distinct.is_empty() {
            return "No citations: this answer names no place in the repository by which it could be checked."
                .to_owned();
        }
        let holding = distinct
            .iter()
            .filter(|(_, verdict)| **verdict == CitationVerdict::Holds)
            .count();
        let unchecked = distinct
            .iter()
            .filter(|(_, verdict)| **verdict == CitationVerdict::NotChecked)
            .count();
        let mut line = match holding {
            1 => "1 citation holds".to_owned(),
            count => format!("{count} citations hold"),
        };
        if unchecked > 0 {
            line.push_str(&format!(", {unchecked} not checked"));
        }
        let wrong = distinct
            .iter()
            .filter_map(|(citation, verdict)| Some((citation, verdict.fault()?)));
        let wrong: Vec<String> = wrong.map(|(citation, why)| format!("`{citation}` ({why})")).collect();
        if !wrong.is_empty() {
            let named = &wrong[..wrong.len().min(CITATIONS_NAMED_MAX)];
            line.push_str(&format!(", {} wrong: {}", wrong.len(), named.join(", ")));
            if wrong.len() > named.len() {
                line.push_str(&format!(" and {} more", wrong.len() - named.len()));
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
