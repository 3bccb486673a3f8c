//! A call that belongs to no session: no user is asked, and nothing of it is kept.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::bindings::tool::skill as wit;
use super::policy::Policy;
use super::{
    Approver, BoundSecret, CallBudget, CallContext, ContentIndex, Failure, HeldTurn, HttpTransport, ImportError,
    KeyValueStore, Question, RunScope, Services, SymbolLookup, UserAnswer,
};
use tool_core::api::SecretName;
use tool_repository::Repository;
use tool_repository::changes::{ChangeJournal, FileChange, PreparedChange};

/// Approver without a user.
#[derive(Debug, Clone, Copy)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _: &Question, _: &CancellationToken) -> UserAnswer {
        UserAnswer::No
    }
}

/// Journal that records no change, so that none can be finished or undone later.
#[derive(Debug, Clone, Copy)]
pub struct NoChangeJournal;

impl ChangeJournal for NoChangeJournal {
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

/// A host without git, programs and network: each of these imports fails.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl NoServices {
    fn refuse_service<T, E: From<Failure>>() -> Result<T, E> {
        Err(Failure::unavailable("This host has neither git nor programs.").into())
    }
}

impl Services for NoServices {
    fn read_changes(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &wit::git_read::DiffQuery,
    ) -> Result<wit::git_read::Diff, Failure> {
        Self::refuse_service()
    }

    fn read_log(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &wit::git_history::LogQuery,
    ) -> Result<wit::git_history::LogPage, Failure> {
        Self::refuse_service()
    }

    fn show_commit(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &wit::git_history::ShowQuery,
    ) -> Result<wit::git_history::CommitDiff, Failure> {
        Self::refuse_service()
    }

    fn blame_lines(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &wit::git_history::BlameQuery,
    ) -> Result<wit::git_history::BlamePage, Failure> {
        Self::refuse_service()
    }

    fn create_commit(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &str,
        _: &[String],
        _: bool,
    ) -> Result<wit::git_commit::Commit, Failure> {
        Self::refuse_service()
    }

    fn run_tests(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: wit::tests::Request,
    ) -> Result<Vec<wit::tests::Suite>, ImportError> {
        Self::refuse_service()
    }

    fn install_packages(
        &self,
        _: &CallBudget,
        _: &CallContext,
        _: &wit::packages::Request,
    ) -> Result<wit::packages::Report, ImportError> {
        Self::refuse_service()
    }

    fn settings(&self, _: &str) -> Result<Map<String, Value>, String> {
        Ok(Map::new())
    }

    fn secret(&self, name: SecretName) -> Result<BoundSecret, String> {
        Err(format!("the secret `{name}` is not set"))
    }

    fn open_store(&self, _: &str, _: &Path) -> Result<Box<dyn KeyValueStore>, String> {
        Err("this host keeps no values".to_owned())
    }

    fn symbols(&self) -> Option<&dyn SymbolLookup> {
        None
    }

    fn contents(&self) -> Option<Arc<dyn ContentIndex>> {
        None
    }

    fn http(&self) -> Option<&dyn HttpTransport> {
        None
    }

    fn describe_changes(&self, files: &[FileChange]) -> String {
        files.iter().map(|file| format!("{}\n", file.path)).collect()
    }

    fn note_changes(&self, _: &CallContext, _: &[FileChange]) {}
}

impl CallContext {
    /// The context of such a call.
    pub fn unattended(repository: Arc<Repository>, policy: Policy) -> Self {
        Self {
            repository,
            policy,
            approver: Arc::new(NoApprover),
            call_id: None,
            changes: Arc::new(NoChangeJournal),
            files: Arc::default(),
            conversation: Arc::default(),
            cancel: CancellationToken::new(),
            locked: None,
            recorder: None,
            environment: BTreeMap::new(),
            progress: Arc::new(|_| ()),
            turn: HeldTurn::default(),
            runs: RunScope::default(),
        }
    }
}
