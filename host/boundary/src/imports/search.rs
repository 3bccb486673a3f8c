//! `search`: the files that a search has to read.
//!
//! The host's index knows which files cannot match; without an index, every listed file is a candidate. The boundary
//! asks it once for a call, with a list whose sizes and times are current, and reads the remaining files as `bulk`
//! does. It counts the files that it leaves out, so that a guest can report how many were searched.

use std::sync::{Arc, PoisonError};

use super::bulk::{self, SelectionReader};
use super::repository::{self, scan_failure};
use crate::bindings::tool::skill::repository as listing;
use crate::bindings::tool::skill::search::{LeftOut, NarrowedBatch, NarrowedSelection, Page, Pattern, Query};
use crate::budget::{CallBudget, GuestStop};
use crate::contents::{FileVerdict, NarrowedSearch, PatternKind, SoughtPattern};
use crate::globs::Globs;
use crate::services::Services;
use crate::{CallContext, Failure, ImportError};

/// Bytes of the longest pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// Patterns of a search for which the index is asked.
const PATTERNS_MAX: usize = 64;

/// Returns a page of the files that can match.
pub(super) fn list_candidates(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    query: &Query,
) -> Result<Page, Failure> {
    if query.pattern.len() > PATTERN_BYTES_MAX {
        let message = format!("a pattern of a search has at most {PATTERN_BYTES_MAX} bytes");
        return Err(Failure::invalid_arguments(message));
    }
    let patterns = [Pattern {
        kind: query.kind.clone(),
        text: query.pattern.clone(),
        ignore_case: query.ignore_case,
    }];
    let search = narrow_search(services, call, context, &patterns)?;
    let page = listing::Query {
        under: query.under.clone(),
        recursive: true,
        globs: query.globs.clone(),
        after: query.after.clone(),
    };
    let can_match = |path: &str| {
        let list = search
            .as_ref()
            .map(|search| (search, search.names.list().index_of(path)));
        // A binary file has no lines to match, but a guest may read it.
        !matches!(list, Some((search, Some(at))) if search.verdict(at) == FileVerdict::Text)
    };
    let page = repository::list_wanted(call, context, &page, can_match)?;
    repository::note_listed(call, &page);
    Ok(Page {
        paths: page.entries.into_iter().map(|entry| entry.path).collect(),
        narrowed: search.is_some_and(|search| search.leaves_out_text()),
        next: page.next,
    })
}

/// The search of a call, the same for each of its parts; `None` if the host has no index, or the index cannot answer
/// for these patterns.
fn narrow_search(
    services: &dyn Services,
    call: &CallBudget,
    context: &CallContext,
    patterns: &[Pattern],
) -> Result<Option<Arc<NarrowedSearch>>, Failure> {
    let (Some(index), Some(patterns)) = (services.contents(), convert_patterns(patterns)) else {
        return Ok(None);
    };
    // Locked while the index answers: another part that asks now waits for this answer.
    let mut known = call.search.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(search) = known.as_ref().filter(|search| search.patterns == patterns) {
        return Ok(Some(Arc::clone(search)));
    }
    let repository = &context.repository;
    let is_exact = index.can_narrow(repository, &patterns);
    let names = if is_exact {
        let names = repository.exact_names(&call.token).map_err(scan_failure)?;
        call.note_skipped_ignores(&names.list().skipped_ignores);
        names
    } else {
        // Without an index the list may be a little older: checking each file would cost a tenth of a search.
        bulk::list_files(call, context)?
    };
    let search = Arc::new(NarrowedSearch::new(repository, index, (names, is_exact), patterns));
    *known = Some(Arc::clone(&search));
    Ok(Some(search))
}

fn convert_patterns(patterns: &[Pattern]) -> Option<Vec<SoughtPattern>> {
    let kind = |kind: &str| match kind {
        "word" | "literal" => Some(PatternKind::Literal),
        "regex" => Some(PatternKind::Regex),
        _ => None,
    };
    let pattern = |pattern: &Pattern| {
        Some(SoughtPattern {
            kind: kind(&pattern.kind)?,
            text: pattern.text.clone(),
            ignores_case: pattern.ignore_case,
        })
    };
    let fits = |pattern: &Pattern| pattern.text.len() <= PATTERN_BYTES_MAX;
    if patterns.len() > PATTERNS_MAX || !patterns.iter().all(fits) {
        return None;
    }
    patterns.iter().map(pattern).collect()
}

/// Reads the files of a selection that can match.
pub(crate) struct NarrowedReader {
    reader: SelectionReader,
    search: Option<Arc<NarrowedSearch>>,
    call: Arc<CallBudget>,
    file_bytes_max: u64,
    text_only: bool,
    /// Globs of the files that are counted separately.
    apart: Option<Arc<Globs>>,
}

impl NarrowedReader {
    pub(super) fn open(
        services: &dyn Services,
        call: &Arc<CallBudget>,
        context: &Arc<CallContext>,
        selection: &NarrowedSelection,
    ) -> Result<Self, ImportError> {
        let files = &selection.files;
        let globs = bulk::shared_globs(call, &files.globs)?;
        let apart = match &selection.apart[..] {
            [] => None,
            apart => Some(bulk::shared_globs(call, apart)?),
        };
        let search = narrow_search(services, call, context, &selection.patterns)?;
        let names = match &search {
            Some(search) => search.names.clone(),
            None => bulk::list_files(call, context)?,
        };
        let names = bulk::names_below(call, context, &files.under, names)?;
        // The index knows only files of the list from the root.
        let search = search.filter(|_| names.1);
        Ok(Self {
            reader: SelectionReader::open_list(names, globs, call, context, files)?,
            search,
            call: Arc::clone(call),
            file_bytes_max: files.file_bytes_max,
            text_only: files.text_only,
            apart,
        })
    }

    /// Reads the next files, and counts those that were left out.
    pub(super) fn next(&mut self) -> Result<NarrowedBatch, GuestStop> {
        let Self {
            reader, search, call, ..
        } = self;
        let (bytes_max, text_only, apart) = (self.file_bytes_max, self.text_only, self.apart.as_deref());
        let mut left_out = vec![NOTHING];
        let files = reader.next_of(|at, file, count| {
            left_out.resize(count + 1, NOTHING);
            let verdict = search
                .as_ref()
                .map_or(FileVerdict::Candidate, |search| search.verdict(at));
            let counts = &mut left_out[count];
            match verdict {
                // The guest learns the name of a file that is too large.
                _ if file.size > bytes_max => return true,
                FileVerdict::Text => {
                    counts.text += 1;
                    counts.text_apart += u32::from(apart.is_some_and(|globs| globs.select(&file.path)));
                }
                FileVerdict::Binary if text_only => counts.binary += 1,
                FileVerdict::Candidate | FileVerdict::Binary => return true,
            }
            // That a file does not match tells something about its content, so it counts as read.
            call.note_place(&file.path, true);
            false
        })?;
        left_out.resize(files.files.len() + 1, NOTHING);
        Ok(NarrowedBatch { files, left_out })
    }
}

/// No file was left out.
const NOTHING: LeftOut = LeftOut {
    text: 0,
    text_apart: 0,
    binary: 0,
};
