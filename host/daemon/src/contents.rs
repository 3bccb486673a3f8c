//! Answers the boundary's question to the index: which files of a search cannot match.
//!
//! This adapter converts the boundary's types to those of `context`, so that neither depends on the other.

use std::sync::Arc;

use crate::context::{self, Indexes, SearchPattern};
use crate::skill::{ContentIndex, FileVerdict, PatternKind, SoughtPattern};
use tool_repository::{FileList, Repository};

/// The indexes of a home directory, for searches of skills.
#[derive(Debug)]
pub struct IndexedContents(pub Arc<Indexes>);

impl ContentIndex for IndexedContents {
    fn can_narrow(&self, repository: &Repository, patterns: &[SoughtPattern]) -> bool {
        let patterns: Vec<SearchPattern> = patterns.iter().map(pattern).collect();
        self.0.can_narrow(repository, &patterns)
    }

    fn narrow(
        &self,
        repository: &Repository,
        list: &Arc<FileList>,
        patterns: &[SoughtPattern],
    ) -> Option<Vec<FileVerdict>> {
        let patterns: Vec<SearchPattern> = patterns.iter().map(pattern).collect();
        let verdicts = self.0.narrow(repository, list, &patterns)?;
        Some(verdicts.into_iter().map(verdict).collect())
    }

    fn note_search(&self, repository: &Arc<Repository>, list: &Arc<FileList>) {
        self.0.update_after_search(repository, list);
    }
}

fn pattern(pattern: &SoughtPattern) -> SearchPattern {
    SearchPattern {
        kind: match pattern.kind {
            PatternKind::Literal => context::PatternKind::Literal,
            PatternKind::Regex => context::PatternKind::Regex,
        },
        text: pattern.text.clone(),
        ignores_case: pattern.ignores_case,
    }
}

fn verdict(verdict: context::FileVerdict) -> FileVerdict {
    match verdict {
        context::FileVerdict::Candidate => FileVerdict::Candidate,
        context::FileVerdict::Text => FileVerdict::Text,
        context::FileVerdict::Binary => FileVerdict::Binary,
    }
}
