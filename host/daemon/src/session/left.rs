//! The files of a repository that are as sessions have left them.
//!
//! A run of tests over such files is not one over the user's own state, and keeps no build output. A file that a session
//! changed and that was put back, by an undo or by hand, is the user's again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sessions;
use super::history::{FileMark, Summary};
use crate::api::Status;
use crate::limits;
use crate::repository::Repository;
use crate::skill::{LeftFiles, SessionChanges};
use tool_repository::changes;

/// The changes that the journals of all sessions tell of.
pub(super) struct JournalChanges(pub(super) Arc<Sessions>);

impl SessionChanges for JournalChanges {
    fn left_by_sessions(&self, repository: &Repository, since: Option<&str>) -> LeftFiles {
        let root = repository.root().to_string_lossy();
        let summaries = self.0.summaries();
        let here = summaries.values().filter(|summary| summary.start.repository == root);
        let (newest, touched) = touched(here, since);
        let is_left = |(path, before): &(&str, Option<&FileMark>)| {
            let current = changes::current(repository.handle(), path, limits::REPLACED_BYTES_MAX);
            // One that cannot be read is not known to be what it was.
            current.map_or(true, |current| current.as_ref().map(FileMark::from).as_ref() != *before)
        };
        LeftFiles {
            newest: newest.map(str::to_owned),
            paths: touched
                .into_iter()
                .filter(is_left)
                .map(|(path, _)| path.to_owned())
                .collect(),
        }
    }
}

/// The newest session with only ended ones before it, and the files that sessions after `since` have changed, with their
/// state before the first change. The sessions come in the order in which they began.
fn touched<'s>(
    sessions: impl Iterator<Item = &'s Summary>,
    since: Option<&str>,
) -> (Option<&'s str>, BTreeMap<&'s str, Option<&'s FileMark>>) {
    let (mut newest, mut touched, mut has_running) = (None, BTreeMap::new(), false);
    for session in sessions {
        // A later change of a running session must count then, too.
        has_running |= session.status == Status::Running;
        if !has_running {
            newest = Some(session.id());
        }
        // The files of a preview are in its layer.
        if session.start.preview || since.is_some_and(|since| session.id() <= since) {
            continue;
        }
        for (path, file) in &session.files {
            touched.entry(path.as_str()).or_insert(file.before.as_ref());
        }
    }
    (newest, touched)
}
