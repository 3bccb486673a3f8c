//! Finds files of a repository that are in a state that sessions made.
//!
//! A run of tests over such files is not over the user's own state, and keeps no build output. A file that was
//! restored, by an undo or by hand, is the user's again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sessions;
use crate::limits;
use tool_core::api::Status;
use tool_journal::history::{FileMark, SessionSummary};
use tool_repository::Repository;
use tool_repository::changes;
use tool_skill::{LeftFiles, SeenSessions, SessionChanges};

/// The changes in the journals of all sessions.
pub(super) struct JournalChanges(pub(super) Arc<Sessions>);

impl SessionChanges for JournalChanges {
    fn left_by_sessions(&self, repository: &Repository, seen: &SeenSessions) -> LeftFiles {
        let root = repository.root().to_string_lossy();
        let summaries = self.0.summaries();
        let here = summaries.values().filter(|summary| summary.start.repository == root);
        let (newest, touched) = touched_files(here, seen);
        let is_left = |(path, before): &(&str, Option<&FileMark>)| {
            let current = changes::read_state(repository.handle(), path, limits::REPLACED_BYTES_MAX);
            // A file that cannot be read may have changed.
            current.map_or(true, |current| current.as_ref().map(FileMark::from).as_ref() != *before)
        };
        let (left, put_back): (BTreeMap<_, _>, BTreeMap<_, _>) = touched.into_iter().partition(is_left);
        let paths = |files: BTreeMap<&str, _>| files.into_keys().map(str::to_owned).collect();
        LeftFiles {
            seen: SeenSessions {
                newest: newest.map(str::to_owned),
                put_back: paths(put_back),
            },
            paths: paths(left),
        }
    }
}

/// Finds the newest session before which all have ended, and the files to examine with their state before the first
/// change: those that sessions after `seen` have changed, and those in `seen.put_back`. `sessions` are in the order
/// of their start.
fn touched_files<'s>(
    sessions: impl Iterator<Item = &'s SessionSummary>,
    seen: &SeenSessions,
) -> (Option<&'s str>, BTreeMap<&'s str, Option<&'s FileMark>>) {
    let (mut newest, mut touched, mut has_running) = (None, BTreeMap::new(), false);
    for session in sessions {
        // Later changes of a running session must count in the next run.
        has_running |= session.status == Status::Running;
        if !has_running {
            newest = Some(session.id());
        }
        // The files of a preview are in its layer.
        if session.start.preview {
            continue;
        }
        let is_seen = seen.newest.as_deref().is_some_and(|newest| session.id() <= newest);
        let files = session
            .files
            .iter()
            .filter(|(path, _)| !is_seen || seen.put_back.contains(*path));
        for (path, file) in files {
            touched.entry(path.as_str()).or_insert(file.before.as_ref());
        }
    }
    (newest, touched)
}
