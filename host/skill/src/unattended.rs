//! A call that belongs to no session: nobody is asked, and nothing of it is kept.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::policy::Policy;
use super::{Approver, CallContext, HeldTurn, Question};
use tool_repository::Repository;
use tool_repository::changes::{ChangeJournal, PreparedChange};

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
            turn: HeldTurn::default(),
        }
    }
}
