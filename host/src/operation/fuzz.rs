//! Hostile answers: whatever a model writes is read for citations and cleaned for people.

use super::citations;
use crate::{limits, session, skill};

/// Citations lie in the text, in order and apart from each other; what people see holds nothing that steers a terminal.
pub(crate) fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (citations, _) = citations::parse(&text);
    assert!(citations.len() <= limits::CITATIONS_MAX);
    let mut end = 0;
    for citation in &citations {
        let written = text.get(citation.at.clone()).expect("a citation lies in the text");
        assert!(
            !written.is_empty() && !citation.path.is_empty() && citation.at.end >= end,
            "{citation:?}"
        );
        end = citation.at.end;
        let _ = citation.to_string();
    }
    for clean in [skill::text::clean(&text).into_owned(), session::report::clean(&text)] {
        let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
        assert!(clean.chars().all(is_plain) && !clean.contains('\u{202e}'), "{clean:?}");
        assert_eq!(skill::text::clean(&clean), clean, "what is clean stays as it is");
        assert!(clean.len() <= text.len());
    }
    let _ = super::proposals::parse(&text);
}
