//! A call that belongs to no session: nobody is asked, and nothing of it is kept.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::policy::Policy;
use super::stage::digest;
use super::{Approver, CallContext, ChangeJournal, PreparedChange, Question, SessionFiles};
use crate::limits;
use crate::repository::{EntryKind, Repository};

/// Nobody to ask.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Approver for Nobody {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _: &Question, _: &CancellationToken) -> bool {
        false
    }
}

/// A journal of what nobody wants to finish or undo later.
#[derive(Debug, Clone, Copy)]
pub struct Unrecorded;

impl ChangeJournal for Unrecorded {
    fn prepare(&self, _: &PreparedChange) -> io::Result<()> {
        Ok(())
    }

    fn committed(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn abandoned(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl SessionFiles {
    /// The files that arguments of the user's name count as seen, as they are now. Blocks.
    pub(crate) fn named_in(arguments: &Value, repository: &Repository) -> Self {
        let mut named = Vec::new();
        name_paths(arguments, &mut named);
        let digest_of = |path: String| {
            let opened = repository.open_at(&path).ok()?;
            let opened = Some(opened).filter(|opened| opened.kind == EntryKind::File)?;
            let content = repository.read(&opened.path, limits::REPLACED_BYTES_MAX).ok()?;
            Some((opened.path, digest(&content)))
        };
        Self {
            seen: named.into_iter().filter_map(digest_of).collect(),
            ..Self::default()
        }
    }
}

/// Every text of the arguments that may be a path, a bounded number of them.
fn name_paths(arguments: &Value, named: &mut Vec<String>) {
    if named.len() >= limits::REDACTION_FILES_LEARNED_MAX {
        return;
    }
    match arguments {
        Value::String(text) if text.len() <= limits::PROPOSAL_PATH_BYTES_MAX && !text.contains('\n') => {
            named.push(text.clone());
        }
        Value::Array(list) => list.iter().for_each(|value| name_paths(value, named)),
        Value::Object(fields) => fields.values().for_each(|value| name_paths(value, named)),
        _ => {}
    }
}

impl CallContext {
    /// The surroundings of such a call.
    pub fn unattended(repository: Arc<Repository>, policy: Policy) -> Self {
        Self {
            repository,
            policy,
            approver: Arc::new(Nobody),
            changes: Arc::new(Unrecorded),
            files: Arc::default(),
            conversation: Arc::default(),
            cancel: CancellationToken::new(),
            locked: None,
            recorder: None,
            environment: BTreeMap::new(),
            progress: Arc::new(|_| ()),
        }
    }
}
