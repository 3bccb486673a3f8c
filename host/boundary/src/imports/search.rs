//! `search`: the files that a search has to read.
//!
//! The host keeps no postings, so that every listed file is a candidate, and the answer says so. A guest that asks here gets
//! fewer files as soon as the host knows more.

use super::repository;
use crate::CallContext;
use crate::bindings::tool::skill::repository as listing;
use crate::bindings::tool::skill::search::{Page, Query};
use crate::bindings::tool::skill::types::Failure;
use crate::budget::CallBudget;
use crate::failure::failure;

/// Longest pattern of a search.
const PATTERN_BYTES_MAX: usize = 4096;

/// One page of the files that can match.
pub(super) fn list_candidates(call: &CallBudget, context: &CallContext, query: &Query) -> Result<Page, Failure> {
    if query.pattern.len() > PATTERN_BYTES_MAX {
        let message = format!("a pattern of a search has at most {PATTERN_BYTES_MAX} bytes");
        return Err(failure("invalid-arguments", message));
    }
    let page = repository::list(
        call,
        context,
        &listing::Query {
            under: query.under.clone(),
            recursive: true,
            globs: query.globs.clone(),
            after: query.after.clone(),
        },
    )?;
    repository::note_listed(call, &page);
    Ok(Page {
        paths: page.entries.into_iter().map(|entry| entry.path).collect(),
        narrowed: false,
        next: page.next,
    })
}
