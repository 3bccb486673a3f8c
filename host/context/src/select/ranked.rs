//! Selects files by a ranking for a task.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry_points::ENTRY_POINTS_MAX;
use super::{NEAR_MISSES_MAX, SelectedPath, SelectionDraft};
use crate::ProfileLookup;
use crate::file_match::{FileMatch, is_candidate};
use crate::history::HistorySignals;
use crate::limits::{RANKED_FILE_BYTES_MAX, SELECTED_FILES_MAX};
use crate::path_names::PathNames;
use crate::query::{AREA_CERTAIN, Query};
use crate::rank::{self, ReadFilter, UnreadCounts};
use crate::weights::WEIGHTS;
use tool_repository::file_role::Role;

impl SelectionDraft<'_, '_> {
    /// Files below a directory ranked for a task, with reasons. Reads all of them, until the time is over.
    pub(super) fn ranked(&mut self, directory: &str, query: &Query) -> Vec<SelectedPath> {
        let tree = self.tree;
        let choice = |ranked: rank::Ranked| SelectedPath {
            path: tree.paths[ranked.index as usize].to_owned(),
            score: ranked.score,
            reasons: ranked
                .evidence
                .into_iter()
                .map(|(reason, score)| format!("{reason} ({score:.1})"))
                .collect(),
            windows: ranked.windows,
        };
        let most = SELECTED_FILES_MAX + NEAR_MISSES_MAX + ENTRY_POINTS_MAX;
        let ranked = self.with_candidates(directory, query, |candidates| {
            rank::rank_candidates(query, candidates, &WEIGHTS, most)
        });
        let mut choices: Vec<SelectedPath> = ranked.into_iter().map(choice).collect();
        // A path that the task spells out is meant, whatever the words of the file and its role are.
        let paths = self.indices(directory).map(|at| tree.paths[at]);
        let mut named = query.spelled_out(paths);
        named.retain(|path| tree.text(path).is_some_and(|text| !text.is_empty()));
        named.truncate(SELECTED_FILES_MAX);
        for path in named.into_iter().rev() {
            let known = choices.iter().position(|choice| choice.path == path);
            let as_named = || SelectedPath {
                path: path.to_owned(),
                score: 1.0,
                reasons: vec!["the task names it".to_owned()],
                windows: Vec::new(),
            };
            let choice = known.map_or_else(as_named, |at| choices.remove(at));
            choices.insert(0, choice);
        }
        choices
    }

    /// The features of all files that a task could be about.
    pub(super) fn measured(&mut self, query: &Query) -> Vec<rank::MeasuredFile> {
        self.with_candidates("", query, |candidates| {
            rank::measure_features(query, candidates, &WEIGHTS)
        })
    }

    /// Reads the files below a directory, and hands them to a ranking.
    fn with_candidates<R>(
        &mut self,
        directory: &str,
        query: &Query,
        work: impl FnOnce(&rank::Candidates<'_>) -> R,
    ) -> R {
        let tree = self.tree;
        let areas = tree.names().areas(query, &tree.paths);
        let (files, unread) = self.files_to_read(directory, query, &areas);
        let matches = self.matches(directory, query, &files, unread.count);
        // Must follow the reading of files: the history may be read at the same time.
        let history = self.history(query);
        let read = |at: u32| (!tree.is_over()).then(|| tree.text(tree.paths[at as usize]))?;
        work(&rank::Candidates {
            paths: &tree.paths,
            roles: &tree.layout.roles,
            matches: &matches,
            unread: &unread,
            names: tree.names(),
            areas: &areas,
            history: history.as_ref(),
            read: Some(&read),
        })
    }

    fn history(&self, query: &Query) -> Option<HistorySignals> {
        let history = self.tree.source.history()?;
        Some(HistorySignals::new(query, &history, &self.tree.paths))
    }

    /// The files below a directory to read for a task, the most relevant first, because the time may not suffice for
    /// all. In a large tree, most files are only counted.
    fn files_to_read(&self, directory: &str, query: &Query, areas: &[Vec<f64>]) -> (Vec<usize>, UnreadCounts) {
        let (tree, names) = (self.tree, self.tree.names());
        let is_wanted = |at: &usize| {
            let (role, is_written) = (tree.layout.roles[*at], tree.layout.written[*at]);
            tree.sizes[*at] <= RANKED_FILE_BYTES_MAX
                && is_candidate(query, tree.paths[*at], names.stem(*at as u32), role, is_written)
        };
        let files: Vec<usize> = self.indices(directory).filter(is_wanted).collect();
        if let Some(hits) = tree.source.word_hits(query, &tree.paths, &files) {
            let history = self.history(query);
            let sieve = ReadFilter {
                query,
                paths: &tree.paths,
                roles: &tree.layout.roles,
                names,
                areas,
                history: history.as_ref(),
            };
            return sieve.divide(&files, &hits);
        }
        let (named, others): (Vec<usize>, Vec<usize>) = files.into_iter().partition(|at| {
            areas.iter().any(|area| area[*at] >= AREA_CERTAIN)
                || query.names_part_of_known(tree.paths[*at], names.stem(*at as u32))
        });
        ([named, others].concat(), UnreadCounts::default())
    }

    /// Matches the files with the task. The result is in the order of the tree's paths.
    fn matches(&mut self, directory: &str, query: &Query, files: &[usize], unread: usize) -> Vec<Option<FileMatch>> {
        let tree = self.tree;
        let seen = tree.each(files, |at| {
            let path = tree.paths[at];
            Some(match tree.source.profile_near(path, at) {
                ProfileLookup::Found(profile) if profile.is_generated() && !query.says_path(path) => {
                    SearchOutcome::Nothing
                }
                ProfileLookup::Found(profile) => {
                    let imports = tree.layout.imports(at, path, &profile);
                    SearchOutcome::Match(FileMatch::match_profile(query, &profile, imports))
                }
                ProfileLookup::Absent => SearchOutcome::Nothing,
                ProfileLookup::Later => SearchOutcome::Later,
            })
        });
        self.tell_what_is_missing(directory, files, &seen, unread);
        let mut matches: Vec<Option<FileMatch>> = std::iter::repeat_with(|| None).take(tree.paths.len()).collect();
        for (at, one) in files.iter().zip(seen) {
            if let Some(SearchOutcome::Match(measured)) = one {
                matches[*at] = Some(measured);
            }
        }
        matches
    }

    /// Searches one file for the task, to find its windows.
    pub(super) fn look_for(&mut self, path: &str, query: &Query) {
        let ProfileLookup::Found(profile) = self.tree.source.profile(path) else {
            return;
        };
        let matched = FileMatch::match_profile(query, &profile, Arc::default());
        let names = PathNames::new(&[path]);
        let candidates = rank::Candidates {
            paths: &[path],
            roles: &[Role::Source],
            matches: &[Some(matched)],
            unread: &UnreadCounts::default(),
            names: &names,
            areas: &names.areas(query, &[path]),
            history: None,
            read: None,
        };
        let ranked = rank::rank_candidates(query, &candidates, &WEIGHTS, 1);
        if let Some(first) = ranked.into_iter().next() {
            self.windows.insert(path.to_owned(), first.windows);
        }
    }

    /// Adds a notice if not every file was read.
    fn tell_what_is_missing(
        &mut self,
        directory: &str,
        files: &[usize],
        seen: &[Option<SearchOutcome>],
        unread: usize,
    ) {
        let all = seen.len() + unread;
        let later = files
            .iter()
            .zip(seen)
            .filter(|(_, seen)| matches!(seen, Some(SearchOutcome::Later)));
        let later: Vec<&str> = later.map(|(at, _)| self.tree.paths[*at]).collect();
        let count = seen.iter().flatten().count() - later.len() + unread;
        if self.tree.is_over() {
            let notice = format!("The selection looked at {count} of {all} files before its time was up");
            self.notices.push(notice);
        } else if !later.is_empty() {
            self.is_incomplete = true;
            let notice = format!(
                "The index of this repository is still being made: {count} of {all} files were considered. \
                 Missing are {}; later selections will know them",
                describe_places(directory, &later)
            );
            self.notices.push(notice);
        }
    }
}

/// Places that are named where files are missing.
const PLACES_MAX: usize = 3;

/// Describes in a few words where files are: the parts of the directory with most of them, with their numbers.
fn describe_places(directory: &str, paths: &[&str]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        let below = path.strip_prefix(directory).unwrap_or(path);
        let begun = path.len() - below.trim_start_matches('/').len();
        let end = path[begun..].find('/').map_or(begun, |length| begun + length);
        *counts.entry(path[..end].trim_end_matches('/')).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others: usize = counts.iter().skip(PLACES_MAX).map(|(_, count)| count).sum();
    let place = |(place, count): &(&str, usize)| match *place {
        "" => format!("{count} in the root"),
        place => format!("{count} in `{place}`"),
    };
    let mut told: Vec<String> = counts.iter().take(PLACES_MAX).map(place).collect();
    if others > 0 {
        told.push(format!("{others} elsewhere"));
    }
    told.join(", ")
}

/// Result of searching a file for a task.
enum SearchOutcome {
    Match(FileMatch),
    Nothing,
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_files_are_missing_is_told_in_a_few_words() {
        let paths = ["a.c", "d/e/f.c", "d/g.c", "x/a.c", "y/a.c", "y/b.c", "y/c.c", "z/a.c"];
        assert_eq!(
            describe_places("", &paths),
            "3 in `y`, 2 in `d`, 1 in the root, 2 elsewhere"
        );
        assert_eq!(describe_places("d", &paths[1..3]), "1 in `d`, 1 in `d/e`");
    }
}
