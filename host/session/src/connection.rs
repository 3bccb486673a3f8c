//! A session that lasts as long as the connection of another agent, and makes the agent's calls.
//!
//! Journal, receipts, taint and the record of seen files are those of any session. `mcp` receives the calls and
//! formats the answers; `run::calls` runs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use super::call_queue::{CallAnswer, ConnectionCall};
use super::call_queue::{CallQueue, Incoming};
use super::plan::{SessionPlan, SessionTask};
use super::request::{PolicyCase, Prepared, open_repository, read_lock};
use super::{Sessions, run_blocking};
use crate::limits;
use tool_config::PolicySettings;
use tool_core::api::{ConnectRequest, Effect, ErrorKind, Problem, SkillFunction, SkillState};
use tool_core::redaction::Redactor;
use tool_journal::feed::Recorder;
use tool_journal::journal::{SessionWork, StartRecord, cut_text};
use tool_skill::lock::SkillLock;
use tool_skill::policy::{Decision, EffectCause, GrantPlace};
use tool_skill::{LockedSkills, SkillScope};

/// A running session, which ends when this value is dropped.
pub struct Connection {
    id: String,
    root: PathBuf,
    recorder: Arc<Recorder>,
    calls: mpsc::Sender<Incoming>,
    /// True if the user may not be asked.
    is_frozen: bool,
    /// The denial of reading the repository, if the policy denies it.
    unreadable: Option<String>,
    locked: Option<Arc<SkillLock>>,
}

impl Connection {
    /// Lock file of the repository.
    pub fn lock(&self) -> Option<&Arc<SkillLock>> {
        self.locked.as_ref()
    }

    /// Identifier of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Root of the repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a call to its end; `None` if the session has ended. The call begins when the future is first polled.
    pub fn call(&self, mut call: ConnectionCall) -> impl Future<Output = Option<CallAnswer>> + Send + use<> {
        call.can_ask &= !self.is_frozen;
        let calls = self.calls.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            calls.send(Incoming::Call { call, answer }).await.ok()?;
            // A call that waits for its user must not keep the session of a disconnected client alive.
            drop(calls);
            answered.await.ok()
        }
    }

    /// Refuses to show anything of the repository if the policy denies reading.
    ///
    /// # Errors
    ///
    /// The denial.
    pub fn check_may_read(&self, what: &str) -> Result<(), Problem> {
        match &self.unreadable {
            Some(remedy) => Err(Problem::new(
                ErrorKind::Denied,
                format!("`{what}` reads the repository, which is denied"),
            )
            .with_hint(remedy.clone())),
            None => Ok(()),
        }
    }

    /// Taints the conversation before the client gets text that no call has read.
    pub async fn note_outside(&self, place: &str) {
        let (noted, is_noted) = oneshot::channel();
        let place = place.to_owned();
        if self.calls.send(Incoming::Outside { place, noted }).await.is_ok() {
            let _ = is_noted.await;
        }
    }

    /// True once the session has ended.
    pub fn has_ended(&self) -> bool {
        self.calls.is_closed()
    }

    /// Records the client in the journal.
    pub fn note_client(&self, client: &str) {
        let client = cut_text(&tool_core::text::clean_text(client), limits::SUMMARY_BYTES_MAX);
        self.recorder.notice(format!("The client is {client}."), None);
    }

    /// Waits for the end of the session: it was cancelled, or the daemon stops.
    pub async fn ended(&self) {
        self.calls.closed().await;
    }
}

impl Sessions {
    /// Begins a session that makes the calls of a connection. It completes when the connection is dropped. `keys` are
    /// those of the configuration, which are redacted. Denials name `place_of_grants` as the place for a grant.
    ///
    /// # Errors
    ///
    /// The request is not valid, or too many sessions run.
    pub async fn connect(
        self: &Arc<Self>,
        request: &ConnectRequest,
        place_of_grants: GrantPlace,
        settings: PolicySettings,
        keys: Vec<String>,
        environment: BTreeMap<String, String>,
    ) -> Result<Connection, Problem> {
        let place = self.take_place()?;
        let redactor = Redactor::new(&settings.unredacted, keys.iter().map(String::as_str))?;
        keys.iter().for_each(|key| self.store.conceal(key));
        let opening = CancellationToken::new();
        let _guard = opening.clone().drop_guard();
        let (repo_path, options) = (request.repo_path.clone(), self.repository_options(&settings, &opening));
        let repository = run_blocking(move || open_repository(&repo_path, &options)).await?;
        let locked = read_lock(&repository, &self.engine, request.policy.frozen).await?;
        let case = PolicyCase {
            cause: EffectCause::SkillCall,
            settings: &settings,
            request: &request.policy,
            asked: &[],
            // Each call says whether its client answers questions.
            is_interactive: true,
            grants: place_of_grants,
        };
        let prepared = Prepared::resolve(case, repository, locked.clone()).await?;
        let policy = &prepared.policy;
        let unreadable = (policy.decide(Effect::ReadRepository, false) == Decision::Deny)
            .then(|| policy.remedy(Effect::ReadRepository, false));
        let root = prepared.repository.root().to_owned();
        let (id, place_of_root) = (
            self.ids.next(tool_core::api::current_time()),
            root.to_string_lossy().into_owned(),
        );
        let start = StartRecord::new(id, SessionWork::Mcp, "mcp".to_owned(), place_of_root);
        let (calls, incoming) = mpsc::channel(limits::MCP_CALLS_MAX);
        let plan = SessionPlan {
            redactor: Arc::new(redactor),
            ..prepared.plan(start, SessionTask::Calls(CallQueue::new(incoming)), environment)
        };
        let started = self
            .launch_session(place, plan, super::preview::InheritedLayer::default())
            .await?;
        let live = self.live(&started.session_id);
        // A stop may have ended the session in between.
        let live = live.ok_or_else(|| Problem::new(ErrorKind::Stopping, "The backend is stopping"))?;
        Ok(Connection {
            id: started.session_id,
            root,
            recorder: Arc::clone(&live.recorder),
            calls,
            is_frozen: request.policy.frozen,
            unreadable,
            locked,
        })
    }

    /// Functions that may be called in a repository with this lock file, with their schemas.
    pub fn tools(&self, lock: Option<&SkillLock>) -> Vec<SkillFunction> {
        let lock: Option<&dyn LockedSkills> = lock.map(|lock| lock as _);
        let offered = self.engine.specs(SkillScope { lock, operation: None });
        let is_offered = |function: &SkillFunction| {
            let mut specs = offered.builtin.iter().chain(offered.team.iter().map(|tool| &tool.spec));
            specs.any(|spec| spec.name == function.name)
        };
        let ready = self.engine.entries(lock).into_iter();
        let ready = ready.filter(|entry| entry.state == SkillState::Ready);
        ready.flat_map(|entry| entry.functions).filter(is_offered).collect()
    }

    /// True for a skill that may do more than read, in the version of this lock file.
    pub fn changes_something(&self, name: &str, lock: Option<&SkillLock>) -> bool {
        let effects = self.engine.effects(name, lock).unwrap_or_default();
        effects.into_iter().any(Effect::changes_something)
    }

    /// Returns the problem with an unknown skill; `None` if the skill exists.
    pub fn missing_skill(&self, name: &str, lock: Option<&SkillLock>) -> Option<Problem> {
        self.check_skill(name, lock).err()
    }
}
