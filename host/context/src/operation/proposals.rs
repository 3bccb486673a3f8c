//! The proposals of an architect's answer, and whether each names an existing place.
//!
//! Pure text and numbers. The prompt asks for headings `## 1. Title`; other usual forms of a numbered list are
//! accepted, because such an answer is still usable.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::verify::{CheckedCitations, CitationVerdict};

/// Longest title that is quoted.
const TITLE_CHARS_MAX: usize = 80;

/// One proposal of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NumberedProposal {
    number: u32,
    title: String,
    is_withdrawn: bool,
    at: Range<usize>,
}

/// A proposal without an existing place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplacedProposal {
    /// As the answer numbers it.
    pub number: u32,
    /// On one line.
    pub title: String,
    /// The fault, as the end of a sentence that begins with "it".
    pub why: String,
}

/// A proposal with the places in the repository that it cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedProposal {
    /// As the answer numbers it.
    pub number: u32,
    /// On one line.
    pub title: String,
    /// Its text below the heading, in Markdown.
    pub text: String,
    /// Places that exist, at least one.
    pub places: Vec<ProposalPlace>,
}

/// Lines of a file that a proposal cites.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalPlace {
    /// Relative to the root.
    pub path: String,
    /// From 1.
    pub first: u64,
    /// Equal to `first` if one line is cited.
    pub last: u64,
}

/// Proposals of an answer, corrections included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposals {
    /// By number.
    standing: BTreeMap<u32, ProposalState>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ProposalState {
    Placed,
    Withdrawn,
    Unplaced(UnplacedProposal),
}

/// A line that begins a numbered section.
struct NumberedHeading {
    /// 1 to 6 for headings, 7 for bold lines, 8 for items of a list.
    level: usize,
    number: u32,
    title: String,
    start: usize,
}

const BOLD: usize = 7;
const ITEM: usize = 8;

static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^(?P<level>#{1,6})\s+(?P<bold>\*\*)?(?:(?i:proposal)\s+#?(?P<named>\d{1,3})\b[.):\s–—-]*|(?P<number>\d{1,3})[.):]\s*)(?P<title>.*)$";
    Regex::new(pattern).expect("a constant")
});

static BOLD_LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\*\*(?P<number>\d{1,3})[.):]\s*(?P<title>.+?)\*\*").expect("a constant"));

static LIST_ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?P<number>\d{1,3})[.)]\s+(?P<title>.+)$").expect("a constant"));

impl UnplacedProposal {
    /// Name for messages: the number, and the title if there is one.
    fn name(&self) -> String {
        if self.title.is_empty() {
            self.number.to_string()
        } else {
            format!("{} (\"{}\")", self.number, self.title)
        }
    }
}

impl Proposals {
    /// Reads the proposals in the range `at` of an answer whose citations were checked. A number that is known already
    /// is a correction.
    pub fn take_in(&mut self, text: &str, at: Range<usize>, checked: &CheckedCitations) {
        for proposal in parse(&text[at.clone()]) {
            let range = at.start + proposal.at.start..at.start + proposal.at.end;
            let standing = match why_unplaced(&range, checked) {
                _ if proposal.is_withdrawn => ProposalState::Withdrawn,
                None => ProposalState::Placed,
                Some(why) => ProposalState::Unplaced(UnplacedProposal {
                    number: proposal.number,
                    title: proposal.title,
                    why,
                }),
            };
            // A placed proposal stays placed: a correction may be shorter than the corrected text.
            let known = self.standing.entry(proposal.number).or_insert_with(|| standing.clone());
            if *known != ProposalState::Placed {
                *known = standing;
            }
        }
    }

    /// Reads a correction. Without numbers it corrects the only proposal that needs one.
    pub fn correct(&mut self, text: &str, at: Range<usize>, checked: &CheckedCitations) {
        let is_unnumbered = parse(&text[at.clone()]).is_empty();
        self.take_in(text, at.clone(), checked);
        if let [only] = &self.unplaced()[..]
            && is_unnumbered
            && why_unplaced(&at, checked).is_none()
        {
            self.standing.insert(only.number, ProposalState::Placed);
        }
    }

    /// True if the answer has no recognizable proposal.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// True if at least one proposal names an existing place.
    pub fn has_placed(&self) -> bool {
        self.standing
            .values()
            .any(|standing| *standing == ProposalState::Placed)
    }

    /// The proposals without a place, by number.
    pub fn unplaced(&self) -> Vec<UnplacedProposal> {
        let unplaced = self.standing.values().filter_map(|standing| match standing {
            ProposalState::Unplaced(unplaced) => Some(unplaced.clone()),
            ProposalState::Placed | ProposalState::Withdrawn => None,
        });
        unplaced.collect()
    }

    /// Text for the closing line; empty if each proposal has a place.
    pub fn line(&self) -> String {
        let mut sentences = Vec::new();
        let unplaced = self.unplaced();
        if !unplaced.is_empty() {
            let named: Vec<String> = unplaced.iter().map(UnplacedProposal::name).collect();
            let subject = if named.len() == 1 { "Proposal" } else { "Proposals" };
            sentences.push(format!("{subject} without a verified place: {}.", named.join(", ")));
        }
        let withdrawn: Vec<String> = self
            .standing
            .iter()
            .filter(|(_, standing)| **standing == ProposalState::Withdrawn)
            .map(|(number, _)| number.to_string())
            .collect();
        if !withdrawn.is_empty() {
            let subject = if withdrawn.len() == 1 { "Proposal" } else { "Proposals" };
            sentences.push(format!("{subject} withdrawn: {}.", withdrawn.join(", ")));
        }
        sentences.join(" ")
    }
}

/// The proposals of a whole answer that name an existing place, by number. A repeated proposal counts in its first form
/// that has a place; a withdrawn one does not count.
pub fn placed_proposals(text: &str, checked: &CheckedCitations) -> Vec<PlacedProposal> {
    let mut placed: BTreeMap<u32, PlacedProposal> = BTreeMap::new();
    for proposal in parse(text).into_iter().filter(|proposal| !proposal.is_withdrawn) {
        let places = places_within(&proposal.at, checked);
        if !places.is_empty() {
            let body = text[proposal.at].split_once('\n').map_or("", |(_, body)| body);
            placed.entry(proposal.number).or_insert_with(|| PlacedProposal {
                number: proposal.number,
                title: proposal.title,
                text: body.trim().to_owned(),
                places,
            });
        }
    }
    placed.into_values().collect()
}

/// The existing places within `range`, each once, in the order of the text.
fn places_within(range: &Range<usize>, checked: &CheckedCitations) -> Vec<ProposalPlace> {
    let mut places = Vec::new();
    for (citation, verdict) in &checked.citations {
        let place = ProposalPlace {
            path: citation.path.clone(),
            first: citation.first,
            last: citation.last,
        };
        if range.contains(&citation.at.start) && verdict.is_place() && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Reason why no citation within `range` names a place; `None` if one does. A proposal may name a new file, so its
/// place counts even if the cited lines do not match.
fn why_unplaced(range: &Range<usize>, checked: &CheckedCitations) -> Option<String> {
    let within: Vec<_> = checked
        .citations
        .iter()
        .filter(|(citation, _)| range.contains(&citation.at.start))
        .collect();
    let failing: Vec<String> = within
        .iter()
        .filter_map(|(citation, verdict)| match verdict {
            CitationVerdict::NoSuchPlace(why) => Some(format!("`{citation}` is wrong ({why})")),
            CitationVerdict::Holds | CitationVerdict::NotChecked | CitationVerdict::Unsupported(_) => None,
        })
        .collect();
    match (failing.len() < within.len(), failing.is_empty()) {
        (true, _) => None,
        (false, true) => Some("it cites no place".to_owned()),
        (false, false) => Some(failing.join("; ")),
    }
}

/// The proposals of a text: its numbered sections of the highest level there is.
pub(crate) fn parse(text: &str) -> Vec<NumberedProposal> {
    let (lines, ends) = numbered_lines(text);
    let Some(level) = lines.iter().map(|line| line.level).min() else {
        return Vec::new();
    };
    let of_level: Vec<&NumberedHeading> = lines.iter().filter(|line| line.level == level).collect();
    let proposal = |(at, line): (usize, &&NumberedHeading)| {
        let next = of_level.get(at + 1).map_or(text.len(), |next| next.start);
        let border = ends
            .iter()
            .find(|(heading, start)| *start > line.start && *heading <= level)
            .map_or(text.len(), |(_, start)| *start);
        let range = line.start..next.min(border);
        NumberedProposal {
            number: line.number,
            title: line.title.clone(),
            is_withdrawn: is_withdrawn(&text[range.clone()]),
            at: range,
        }
    };
    of_level.iter().enumerate().map(proposal).collect()
}

/// The numbered lines outside code, and all headings with their levels.
fn numbered_lines(text: &str) -> (Vec<NumberedHeading>, Vec<(usize, usize)>) {
    let (mut numbered, mut headings) = (Vec::new(), Vec::new());
    let (mut start, mut fence) = (0, None);
    for line in text.split_inclusive('\n') {
        let (at, shown) = (start, line.trim_end());
        start += line.len();
        let opening = ["```", "~~~"]
            .into_iter()
            .find(|mark| shown.trim_start().starts_with(mark));
        match (fence, opening) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_some() || opening.is_some() {
            continue;
        }
        if let Some(level) = heading_level(shown) {
            headings.push((level, at));
        }
        numbered.extend(numbered_line(shown, at));
    }
    (numbered, headings)
}

fn heading_level(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|&byte| byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(char::is_whitespace)).then_some(level)
}

fn numbered_line(line: &str, start: usize) -> Option<NumberedHeading> {
    let forms: [(&Regex, usize); 3] = [(&HEADING, 0), (&BOLD_LINE, BOLD), (&LIST_ITEM, ITEM)];
    let (captures, level) = forms
        .into_iter()
        .find_map(|(form, level)| Some((form.captures(line)?, level)))?;
    let number = captures.name("named").or_else(|| captures.name("number"))?;
    Some(NumberedHeading {
        level: captures.name("level").map_or(level, |marks| marks.len()),
        number: number.as_str().parse().ok()?,
        title: clean_title(&captures["title"]),
        start,
    })
}

/// Shortens a title and removes control characters and markup.
fn clean_title(text: &str) -> String {
    let plain: String = text
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '`' | '*' | '"' | '#'))
        .take(TITLE_CHARS_MAX)
        .collect();
    plain.trim().to_owned()
}

fn is_withdrawn(section: &str) -> bool {
    let body = section.split_once('\n').map_or("", |(_, body)| body);
    let body = body.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '-' | '_'));
    body.get(.."withdrawn".len())
        .is_some_and(|word| word.eq_ignore_ascii_case("withdrawn"))
}

#[cfg(test)]
mod tests;
