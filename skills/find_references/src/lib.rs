//! `find_references`: finds where a symbol is defined and used.
//!
//! The skill parses Python itself; for other languages it asks the host for symbols, and in other text it searches
//! for whole words. A call may be split over instances: each part answers with a [`SearchTally`] as JSON, and one text is
//! written from their sum, so that the answer does not depend on the split. The order is by kind, path and line, and
//! a cursor is a position in that order.

mod python;
mod symbols;
mod tally;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skill_sdk::serde_json::{self, json};
use skill_sdk::{
    Content, Descriptor, Failure, FunctionMetadata, Handler, Host, Narrowed, Narrowing, Outcome, Run, SearchPattern,
    Selection, Sharded, export_skill,
};
use syntax::aliases::{self, Alias};
use syntax::{Module, names};

use python::SearchedSymbol;
use tally::{FoundMatch, MatchKind, MatchOrder, SearchTally};

/// The skill `find_references`.
#[derive(Debug)]
pub struct FindReferences;

/// Number of matches in an answer, unless the call sets another limit.
const LIMIT_DEFAULT: usize = 200;
/// Limit for the matches in an answer: about 200 kB of text.
const LIMIT_MAX: usize = 1000;
/// Limit for the additional symbols that a call counts.
const ALSO_MAX: usize = 31;
/// Limit for a file in bytes. Larger files are data; they are named, not searched.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Limit for the files that the host parses for one part of a search, at some milliseconds each. The rest is searched
/// as text.
const TREES_MAX: u64 = 1000;

#[derive(Clone, Deserialize, Serialize)]
struct FindReferencesArguments {
    symbol: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    kinds: Vec<MatchKind>,
    #[serde(default = "limit_default")]
    limit: usize,
    #[serde(default)]
    cursor: Option<String>,
    /// Set in the calls that [`Sharded::split`] makes. The answer is then for [`Sharded::merge`].
    #[serde(default)]
    part: Option<Run>,
}

fn limit_default() -> usize {
    LIMIT_DEFAULT
}

impl Handler for FindReferences {
    fn describe() -> Descriptor {
        Descriptor {
            name: "find_references",
            version: "1.0.0",
            description: "Finds where a symbol is defined and used. Source files are read by syntax tree: definitions, \
                calls, imports, attributes, types and other uses are told apart; strings and comments are left out. Other \
                files are matched by whole word, strings and comments included (kind `text`). Answers `path:line: kind: line`, ordered by kind, then path; \
                counts stand at the end. Use search_code for regular expressions and parts of words.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "symbol": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 300,
                        "description": "An identifier (`get_response`), or a dotted name to narrow it (`Class.method`, \
                            `package.module.Class`): uses on objects of unknown class are then `possible`."
                    },
                    "path": {
                        "type": "string",
                        "format": "path",
                        "description": "Directory or file, relative to the repository root. Default: all."
                    },
                    "also": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1, "maxLength": 300},
                        "maxItems": ALSO_MAX,
                        "description": "Further symbols to count in the same pass; none of their lines are listed."
                    },
                    "kinds": {
                        "type": "array",
                        "items": {
                            "type": "string",
                            "enum": ["definition", "call", "import", "attribute", "type", "name", "possible", "text"]
                        },
                        "description": "Kinds to list; the counts cover all. Default: all."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": LIMIT_MAX,
                        "description": "Matches at most. Default: 200."
                    },
                    "cursor": {
                        "type": "string",
                        "description": "Cursor of a truncated answer; keep the other arguments."
                    }
                },
                "required": ["symbol"],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: FindReferencesArguments = skill_sdk::arguments(arguments)?;
        let queries = ReferenceQuery::read_queries(&arguments)?;
        let tallies = search_files(host, &queries, arguments.part.as_ref())?;
        if arguments.part.is_none() {
            return Ok(render_tallies(tallies, &queries));
        }
        let text = serde_json::to_string(&tallies).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Outcome::text(text))
    }
}

impl Sharded for FindReferences {
    fn split(host: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure> {
        let arguments: FindReferencesArguments = skill_sdk::arguments(arguments)?;
        let queries = ReferenceQuery::read_queries(&arguments)?;
        let starts = host.divide(&file_selection(&queries[0], None), parts)?;
        let part = |part: Run| {
            serde_json::to_string(&FindReferencesArguments {
                part: Some(part),
                ..arguments.clone()
            })
            .map_err(|error| Failure::failed(error.to_string()))
        };
        Run::all(starts).map(part).collect()
    }

    fn merge(arguments: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
        let arguments: FindReferencesArguments = skill_sdk::arguments(arguments)?;
        let queries = ReferenceQuery::read_queries(&arguments)?;
        let mut sums = empty_tallies(&queries);
        for outcome in outcomes {
            let tallies: Vec<SearchTally> = serde_json::from_str(&outcome.text)
                .map_err(|error| Failure::failed(format!("a part of the search did not answer: {error}")))?;
            for ((sum, tally), query) in sums.iter_mut().zip(tallies).zip(&queries) {
                sum.add(tally, query.limit);
            }
        }
        Ok(render_tallies(sums, &queries))
    }
}

pub(crate) struct ReferenceQuery {
    pub(crate) symbol: SearchedSymbol,
    pub(crate) under: String,
    pub(crate) kinds: BTreeSet<MatchKind>,
    pub(crate) limit: usize,
    pub(crate) after: Option<MatchOrder>,
}

impl ReferenceQuery {
    /// The queries of a call: the symbol whose lines are listed, then the symbols that are only counted.
    fn read_queries(arguments: &FindReferencesArguments) -> Result<Vec<Self>, Failure> {
        let after = arguments.cursor.as_deref().map(|cursor| {
            MatchOrder::parse(cursor).ok_or_else(|| {
                Failure::invalid("the cursor does not belong to this question").with_hint("call again without `cursor`")
            })
        });
        let under = skill_sdk::clean_path(&arguments.path)?;
        let mut queries = vec![Self {
            symbol: SearchedSymbol::parse(&arguments.symbol)?,
            under: under.clone(),
            kinds: arguments.kinds.iter().copied().collect(),
            limit: arguments.limit.clamp(1, LIMIT_MAX),
            after: after.transpose()?,
        }];
        if arguments.also.len() > ALSO_MAX {
            let message = format!("`also` holds {} symbols, at most {ALSO_MAX}", arguments.also.len());
            return Err(Failure::invalid(message).with_hint("count the rest in a further call"));
        }
        for symbol in &arguments.also {
            queries.push(Self {
                symbol: SearchedSymbol::parse(symbol)?,
                under: under.clone(),
                kinds: BTreeSet::new(),
                limit: 0,
                after: None,
            });
        }
        Ok(queries)
    }

    /// Pattern that every file with the symbol matches.
    fn pattern(&self) -> SearchPattern {
        SearchPattern {
            kind: "word".to_owned(),
            text: self.symbol.last().to_owned(),
            ignore_case: false,
        }
    }

    /// True if a match is on the requested page, or after it.
    pub(crate) fn wants(&self, place: &MatchOrder) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&place.kind))
            && self.after.as_ref().is_none_or(|after| place > after)
    }
}

fn file_selection(request: &ReferenceQuery, part: Option<&Run>) -> Selection {
    Selection {
        under: request.under.clone(),
        start: part.and_then(|part| part.start.clone()),
        end: part.and_then(|part| part.end.clone()),
        file_bytes_max: FILE_BYTES_MAX,
        text_only: true,
        ..Selection::default()
    }
}

fn empty_tallies(queries: &[ReferenceQuery]) -> Vec<SearchTally> {
    queries.iter().map(|_| SearchTally::default()).collect()
}

/// Writes the page of the first symbol, then a line of counts for each further one.
fn render_tallies(tallies: Vec<SearchTally>, queries: &[ReferenceQuery]) -> Outcome {
    let mut sums = tallies.into_iter().zip(queries);
    let (first, query) = sums.next().expect("a call asks about one symbol at least");
    let mut outcome = first.render(query);
    for (tally, query) in sums {
        outcome.text.push_str(&tally.counted(query));
        outcome.text.push('\n');
    }
    outcome
}

fn search_files(host: &dyn Host, queries: &[ReferenceQuery], part: Option<&Run>) -> Result<Vec<SearchTally>, Failure> {
    let mut tallies = empty_tallies(queries);
    let narrowing = Narrowing {
        patterns: queries.iter().map(ReferenceQuery::pattern).collect(),
        apart: names::PYTHON_GLOBS.map(str::to_owned).into(),
    };
    host.read_matching(&file_selection(&queries[0], part), &narrowing, &mut |part| {
        match part {
            Narrowed::File(path, Content::Whole(source)) => search_file(host, queries, path, source, &mut tallies),
            Narrowed::File(path, Content::Large) => {
                tallies[0].not_searched.large += 1;
                tallies[0].large.push(path.to_owned());
            }
            Narrowed::File(_, Content::Binary) => tallies[0].not_searched.binary += 1,
            // A file that is gone since it was listed, or may not be opened, is counted, and the search continues.
            Narrowed::File(_, Content::Unreadable) => tallies[0].not_searched.unreadable += 1,
            Narrowed::LeftOut(counts) => tallies[0].left_out(counts),
        }
        ControlFlow::Continue(())
    })?;
    // In a divided call, only the first part counts these.
    if part.is_none_or(|part| part.start.is_none()) {
        let counted = host.count_not_listed(&queries[0].under)?;
        tallies[0].not_searched.add_not_listed(
            (counted.skipped, counted.skipped_named),
            [counted.ignored, counted.not_utf8, counted.not_on_disk],
        );
    }
    for (tally, query) in tallies.iter_mut().zip(queries) {
        tally.cut(query.limit);
        let found = std::mem::take(&mut tally.aliases);
        // The answer shows no aliases if the name itself has definitions.
        if tally.own_definitions == 0 {
            let note = |alias: Alias| {
                let note = aliases::describe_defined(host, &query.symbol.written, &alias)?;
                Some((alias.original, note))
            };
            tally.alias_notes = found.into_iter().filter_map(note).collect();
        }
    }
    Ok(tallies)
}

/// Searches one file. Notes about the whole file go into the first tally.
fn search_file(host: &dyn Host, queries: &[ReferenceQuery], path: &str, source: &[u8], tallies: &mut [SearchTally]) {
    let python = names::is_python(path);
    tallies[0].searched(python);
    // Searching for a word costs a thousandth of parsing.
    let holds = |query: &ReferenceQuery| names::word_hits(source, query.symbol.last()).next().is_some();
    let held: Vec<usize> = (0..queries.len()).filter(|&at| holds(&queries[at])).collect();
    if held.is_empty() {
        return;
    }
    if python {
        if let Some(module) = Module::parse(source) {
            python::search_module(queries, &held, path, &module, tallies);
            return;
        }
        tallies[0].unparsed.push(path.to_owned());
    } else if tallies[0].trees >= TREES_MAX {
        tallies[0].treeless += 1;
    } else if symbols::search_tree(host, queries, &held, path, source, tallies) {
        tallies[0].trees += 1;
        return;
    }
    for at in held {
        search_text(&queries[at], path, source, &mut tallies[at]);
    }
}

/// Finds whole words anywhere in the text.
fn search_text(request: &ReferenceQuery, path: &str, source: &[u8], tally: &mut SearchTally) {
    let mut file = tally.file(request, path, source);
    for at in names::word_hits(source, &request.symbol.written) {
        file.push(FoundMatch::at(MatchKind::Text, at));
    }
    file.close();
}

export_skill!(sharded FindReferences);

#[cfg(test)]
mod tests;
