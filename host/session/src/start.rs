//! Starts a session: checks the request, opens the repository and decides on the policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::checks::{
    self, check_budget, check_provider, check_target, open_repository, own_keys, policy, reports_directory,
    shown_target, working_directory,
};
use super::continuation::Continuation;
use super::engine::KeyObserver;
use super::preview::{self, InheritedLayer};
use super::run::{self, OperationTask, Task};
use super::running::SessionPermit;
use super::{Launch, Sessions, blocking, denies_history, selection};
use tool_config::{Api, PolicySettings, Settings};
use tool_context::SelectionFilter;
use tool_core::api::{
    self, ErrorKind, ExecuteRequest, Operation, Problem, SessionStart, SkillCallRequest, SkillFunction, SkillOrigin,
};
use tool_core::redaction::Redactor;
use tool_core::text;
use tool_journal::journal::{Start, TurnBinding, Work};
use tool_repository::Repository;
use tool_skill::lock::Lock;
use tool_skill::policy::{Cause, GrantPlace, Policy};

/// Makes denials name what the client can change: fields of the request for a program, flags for a terminal.
fn granted_where(policy: Policy, is_of_program: bool) -> Policy {
    policy.granted_in(if is_of_program {
        GrantPlace::Request
    } else {
        GrantPlace::Flags
    })
}

impl Sessions {
    /// Starts an operation. Returns once the request is checked; the stream reports later failures. `environment` are
    /// the variables that recipes may see.
    ///
    /// # Errors
    ///
    /// The request is not valid, or too many sessions run.
    pub async fn start(
        self: &Arc<Self>,
        request: ExecuteRequest,
        settings: Settings,
        environment: BTreeMap<String, String>,
    ) -> Result<SessionStart, Problem> {
        let place = self.take_place()?;
        self.begin_operation(place, request, settings, environment, None).await
    }

    /// Starts an operation, alone or as the next turn of a conversation.
    pub(super) async fn begin_operation(
        self: &Arc<Self>,
        place: SessionPermit,
        request: ExecuteRequest,
        mut settings: Settings,
        environment: BTreeMap<String, String>,
        continuation: Option<Continuation>,
    ) -> Result<SessionStart, Problem> {
        check_provider(request.provider.as_deref(), settings.provider.name)?;
        check_target(&request)?;
        check_budget(&request.budget)?;
        if settings.provider.api == Api::Analyst {
            tool_analyst::check(request.operation, request.model.as_deref())?;
        }
        if let Some(model) = request.model.clone().filter(|model| !model.is_empty()) {
            settings.provider.set_model(model);
        }
        let filter = SelectionFilter::new(&request.selection)?;
        let (continued, past, inherited) = match continuation {
            Some(Continuation { continued, past, layer }) => (Some(continued), Some(past), layer),
            None => (None, None, InheritedLayer::default()),
        };
        let is_preview = request.preview || inherited.is_preview;
        let session_id = self.ids.next(api::now());
        let mark = past
            .as_ref()
            .and_then(|past| past.mark)
            .unwrap_or_else(tool_provider::new_mark);
        let known_keys = past.as_ref().map_or(&[][..], |past| &past.keys);
        let redactor = Arc::new(Redactor::continued(
            &settings.policy.unredacted,
            own_keys(&settings),
            mark.to_string(),
            known_keys,
        )?);
        own_keys(&settings).for_each(|key| self.store.conceal(key));
        let (repo_path, asked) = (request.repo_path.clone(), request.working_directory.clone());
        let (repository, working_directory) = {
            let opening = CancellationToken::new();
            let _guard = opening.clone().drop_guard();
            let mut options = self.repository_options(&settings.policy, &opening);
            let layer = is_preview.then(|| (self.home.clone(), session_id.clone(), inherited.files.clone()));
            let indexes = Arc::clone(&self.indexes);
            let symbol = request
                .target
                .clone()
                .filter(|_| request.operation == Operation::Explain);
            blocking(move || {
                if let Some((home, session_id, files)) = layer {
                    let layer = preview::create_layer(&home, &session_id)?;
                    layer.put(&files).map_err(|obstacle| preview::not_kept(&obstacle))?;
                    options.layer = Some(layer);
                }
                let repository = open_repository(&repo_path, &options)?;
                let working_directory = working_directory(asked.as_deref(), &repository)?;
                if let Some(typed) = symbol {
                    selection::check_symbol(&typed, &repository, &working_directory, &indexes, &options.cancel)?;
                }
                Ok((repository, working_directory))
            })
            .await?
        };
        if let Some(past) = &past {
            past.check_repository(&repository)?;
        }
        let locked = self.locked(&repository, &request.policy).await?;
        let mut policy_request = run::merged(&settings.policy, &request.policy, repository.narrowing());
        // A change in the private layer needs no approval; `tool apply` asks for it.
        policy_request.ask_before_write &= !is_preview;
        let cause = Cause::Operation(request.operation);
        let asking = (&request.ask[..], request.interactive);
        let policy = policy(cause, &policy_request, &request.policy, asking).await?;
        let policy = granted_where(policy, request.is_of_program);
        // The analyst reads no instructions, and instructions of an untrusted repository are ignored.
        let is_analyst = settings.provider.api == Api::Analyst;
        let filter = filter
            .without_instructions_if(policy_request.untrusted || is_analyst)
            .without_history_if(denies_history(&policy_request.deny));
        let filter = Arc::new(filter);
        let start = Start {
            session_id,
            work: Work::Operation(request.operation),
            target: shown_target(&request),
            focus: request.focus.clone(),
            repository: repository.root().to_string_lossy().into_owned(),
            working_directory: reports_directory(&settings.reports, &repository, &working_directory)?,
            provider: settings.provider.name.to_string(),
            model: settings.provider.model.clone(),
            policy: policy_request,
            continues: continued,
            binding: TurnBinding {
                deny: request.policy.deny.clone(),
                no_instructions: request.selection.no_instructions,
                root_inode: Some(repository.identity().inode),
            },
            interactive: request.interactive,
            ask: request.ask,
            preview: is_preview,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let task = Task::Operation(Box::new(OperationTask {
            operation: request.operation,
            target: request.target,
            task: request.task,
            focus: request.focus,
            working_directory,
            settings,
            filter,
            budget: request.budget,
            is_of_program: request.is_of_program,
            verification: request.verification,
            mark,
            past: past.map(Arc::new),
            on_key: self.key_observer(&redactor),
        }));
        let launch = Launch {
            place,
            repository,
            policy,
            locked,
            environment,
            redactor,
            task,
            attached: request.attached,
            inherited,
        };
        self.launch(start, launch).await
    }

    /// Redacts keys that a program prints during a session, for the model and in reports.
    fn key_observer(self: &Arc<Self>, redactor: &Arc<Redactor>) -> KeyObserver {
        let (sessions, redactor) = (Arc::clone(self), Arc::clone(redactor));
        Arc::new(move |key| {
            redactor.know(key);
            sessions.store.conceal(key);
        })
    }

    /// Calls one skill in a new session, which ends when its last stream closes.
    ///
    /// # Errors
    ///
    /// The request is not valid, or too many sessions run.
    pub async fn call_skill(
        self: &Arc<Self>,
        name: &str,
        request: SkillCallRequest,
        settings: PolicySettings,
        environment: BTreeMap<String, String>,
    ) -> Result<SessionStart, Problem> {
        let place = self.take_place()?;
        let opening = CancellationToken::new();
        let _guard = opening.clone().drop_guard();
        let (repo_path, options) = (request.repo_path, self.repository_options(&settings, &opening));
        let repository = blocking(move || open_repository(&repo_path, &options)).await?;
        let locked = self.locked(&repository, &request.policy).await?;
        self.check_skill(name, locked.as_deref())?;
        let entries = self.engine.entries(locked.as_deref().map(|lock| lock as _));
        let is_ours = entries.iter().any(|entry| {
            let is_named = |function: &SkillFunction| function.name == name;
            entry.origin == SkillOrigin::Builtin && entry.functions.iter().any(is_named)
        });
        let policy_request = run::merged(&settings, &request.policy, repository.narrowing());
        let asking = (&[][..], request.interactive);
        let policy = policy(Cause::SkillCall, &policy_request, &request.policy, asking).await?;
        let policy = granted_where(policy, request.is_of_program);
        let root = repository.root().to_string_lossy().into_owned();
        let start = Start {
            session_id: self.ids.next(api::now()),
            work: Work::Skill(name.to_owned()),
            target: name.to_owned(),
            focus: None,
            repository: root.clone(),
            working_directory: root,
            provider: String::new(),
            model: String::new(),
            policy: policy_request,
            continues: None,
            binding: TurnBinding::default(),
            interactive: request.interactive,
            ask: Vec::new(),
            preview: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let task = Task::Skill {
            name: name.to_owned(),
            arguments: request.arguments,
        };
        let launch = Launch {
            place,
            repository,
            policy,
            locked,
            environment,
            // The result of a built-in skill goes to the user. A skill of a team may send on what it reads.
            redactor: Arc::new(if is_ours { Redactor::off() } else { Redactor::default() }),
            task,
            attached: true,
            inherited: InheritedLayer::default(),
        };
        self.launch(start, launch).await
    }

    /// Reads the repository's lock file. A frozen request is refused if the skills differ from it.
    pub(super) async fn locked(
        &self,
        repository: &Arc<Repository>,
        request: &api::PolicyRequest,
    ) -> Result<Option<Arc<Lock>>, Problem> {
        let (repository, engine, frozen) = (Arc::clone(repository), Arc::clone(&self.engine), request.frozen);
        let cancel = CancellationToken::new();
        let _guard = cancel.clone().drop_guard();
        blocking(move || {
            let lock = checks::lock(&repository, &cancel)?;
            if frozen {
                let lock = checks::frozen(lock, |lock| engine.differences(lock, repository.root()))?;
                return Ok(Some(Arc::new(lock.closed())));
            }
            Ok(lock.map(Arc::new))
        })
        .await
    }

    pub(super) fn check_skill(&self, name: &str, lock: Option<&Lock>) -> Result<(), Problem> {
        if self.engine.effects(name, lock).is_some() {
            return Ok(());
        }
        let entries = self.engine.entries(lock.map(|lock| lock as _));
        let functions = entries.iter().flat_map(|entry| &entry.functions);
        let nearest = text::nearest(name, functions.map(|function| function.name.as_str()));
        let problem = Problem::new(ErrorKind::NotFound, format!("There is no skill named `{name}`"));
        Err(problem.with_hint(match nearest {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`tool skill list` shows them".to_owned(),
        }))
    }
}
