//! Everything that a session needs of its request, settled before it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::call_queue::CallQueue;
use super::engine::KeyObserver;
use tool_config::{ProviderApi, Settings};
use tool_context::SelectionFilter;
use tool_core::api::ExecuteRequest;
use tool_core::redaction::Redactor;
use tool_journal::conversation::PastConversation;
use tool_journal::journal::StartRecord;
use tool_provider::LabelMark;
use tool_repository::Repository;
use tool_skill::lock::SkillLock;
use tool_skill::policy::Policy;

/// The plan of a session: what its journal begins with, what it may do, and its task.
pub(super) struct SessionPlan {
    pub(super) start: StartRecord,
    pub(super) repository: Arc<Repository>,
    /// The repository's lock file: its grants for the skills of a team.
    pub(super) locked: Option<Arc<SkillLock>>,
    pub(super) policy: Policy,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) task: SessionTask,
    /// True for a session that ends with its last stream.
    pub(super) is_attached: bool,
}

/// Task of a session.
pub(super) enum SessionTask {
    /// One of the four operations.
    Operation(Box<OperationTask>),
    /// A call of one skill.
    Skill { name: String, arguments: Value },
    /// The calls of another agent.
    Calls(CallQueue),
}

/// The request and the settings of an operation.
pub(super) struct OperationTask {
    pub(super) request: ExecuteRequest,
    pub(super) working_directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) filter: Arc<SelectionFilter>,
    /// Mark that labels the results of tools in the conversation.
    pub(super) mark: LabelMark,
    /// Earlier turns; absent for a session that begins a conversation.
    pub(super) past: Option<Arc<PastConversation>>,
    /// Receives the keys that a program prints for the provider.
    pub(super) on_key: KeyObserver,
}

impl OperationTask {
    /// True where the embedded analyst answers in place of a model.
    pub(super) fn is_analyst(&self) -> bool {
        self.settings.provider.api == ProviderApi::Analyst
    }
}
