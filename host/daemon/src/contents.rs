//! Answers the boundary's question to the index: which files of a search cannot match.
//!
//! This adapter converts the boundary's types to those of `context`, so that neither depends on the other.

use std::sync::Arc;

use tool_context::{Indexes, SearchPattern};
use tool_repository::{FileList, Repository};
use tool_skill::{ContentIndex, FileVerdict, PatternKind, SoughtPattern};

/// The indexes of a home directory, for searches of skills.
#[derive(Debug)]
pub struct IndexedContents(pub Arc<Indexes>);

impl ContentIndex for IndexedContents {
    fn can_narrow(&self, repository: &Repository, patterns: &[SoughtPattern]) -> bool {
        let patterns: Vec<SearchPattern> = patterns.iter().map(convert_pattern).collect();
        self.0.can_narrow(repository, &patterns)
    }

    fn narrow(
        &self,
        repository: &Repository,
        list: &Arc<FileList>,
        patterns: &[SoughtPattern],
    ) -> Option<Vec<FileVerdict>> {
        let patterns: Vec<SearchPattern> = patterns.iter().map(convert_pattern).collect();
        let verdicts = self.0.narrow(repository, list, &patterns)?;
        Some(verdicts.into_iter().map(convert_verdict).collect())
    }

    fn note_search(&self, repository: &Arc<Repository>, list: &Arc<FileList>) {
        self.0.update_after_search(repository, list);
    }
}

fn convert_pattern(pattern: &SoughtPattern) -> SearchPattern {
    SearchPattern {
        kind: match pattern.kind {
            PatternKind::Literal => tool_context::PatternKind::Literal,
            PatternKind::Regex => tool_context::PatternKind::Regex,
        },
        text: pattern.text.clone(),
        ignores_case: pattern.ignores_case,
    }
}

fn convert_verdict(verdict: tool_context::FileVerdict) -> FileVerdict {
    match verdict {
        tool_context::FileVerdict::Candidate => FileVerdict::Candidate,
        tool_context::FileVerdict::Text => FileVerdict::Text,
        tool_context::FileVerdict::Binary => FileVerdict::Binary,
    }
}
