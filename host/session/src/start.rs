//! Starts a session: checks the request, opens the repository and decides on the policy.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::continuation::Continuation;
use super::engine::KeyObserver;
use super::plan::{OperationTask, SessionPlan, SessionTask};
use super::preview::{self, InheritedLayer};
use super::request::{
    PolicyCase, Prepared, check_budget, check_provider, check_target, open_repository, own_keys, read_lock,
    reports_directory, shown_target, working_directory,
};
use super::running::SessionPermit;
use super::{Sessions, denies_history, run_blocking, selection};
use tool_config::{PolicySettings, ProviderApi, Settings};
use tool_context::SelectionFilter;
use tool_core::api::{
    self, Action, ErrorKind, ExecuteRequest, Operation, Problem, SessionStart, SkillCallRequest, SkillFunction,
    SkillOrigin,
};
use tool_core::redaction::Redactor;
use tool_core::text;
use tool_journal::journal::{SessionWork, StartRecord, TurnBinding};
use tool_repository::Repository;
use tool_repository::changes::FileChange;
use tool_skill::lock::SkillLock;
use tool_skill::policy::{EffectCause, GrantPlace};

/// Denials name what the client can change: fields of the request for a program, flags for a terminal.
fn place_of_grants(is_of_program: bool) -> GrantPlace {
    if is_of_program {
        GrantPlace::Request
    } else {
        GrantPlace::Flags
    }
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
        mut request: ExecuteRequest,
        mut settings: Settings,
        environment: BTreeMap<String, String>,
        continuation: Option<Continuation>,
    ) -> Result<SessionStart, Problem> {
        check_provider(request.provider.as_deref(), settings.provider.name)?;
        check_target(&request)?;
        check_budget(&request.budget)?;
        if settings.provider.api == ProviderApi::Analyst {
            tool_analyst::check_operation(request.operation, request.model.as_deref())?;
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
        let session_id = self.ids.next(api::current_time());
        let mark = past
            .as_ref()
            .and_then(|past| past.mark)
            .unwrap_or_else(tool_provider::new_mark);
        let known_keys = past.as_ref().map_or(&[][..], |past| &past.keys);
        let redactor = Arc::new(Redactor::continue_conversation(
            &settings.policy.unredacted,
            own_keys(&settings),
            mark.to_string(),
            known_keys,
        )?);
        own_keys(&settings).for_each(|key| self.store.conceal(key));
        let layer = is_preview.then(|| (session_id.clone(), inherited.files.clone()));
        let (repository, working_directory) = self.open_for(&request, &settings.policy, layer).await?;
        if let Some(past) = &past {
            past.check_repository(&repository)?;
        }
        let locked = read_lock(&repository, &self.engine, request.policy.frozen).await?;
        // A change in the private layer needs no approval; `tool apply` asks for it.
        request.policy.ask_before_write &= !is_preview;
        let case = PolicyCase {
            cause: EffectCause::Operation(request.operation),
            settings: &settings.policy,
            request: &request.policy,
            asked: &request.ask,
            is_interactive: request.interactive,
            grants: place_of_grants(request.is_of_program),
        };
        let prepared = Prepared::resolve(case, repository, locked).await?;
        let (repository, denied) = (&prepared.repository, &prepared.policy_request);
        // The analyst reads no instructions, and instructions of an untrusted repository are ignored.
        let is_analyst = settings.provider.api == ProviderApi::Analyst;
        let filter = filter
            .without_instructions_if(denied.untrusted || is_analyst)
            .without_history_if(denies_history(&denied.deny));
        let filter = Arc::new(filter);
        let root = repository.root().to_string_lossy().into_owned();
        let start = StartRecord {
            focus: request.focus.clone(),
            working_directory: reports_directory(&settings.reports, repository, &working_directory)?,
            provider: settings.provider.name.to_string(),
            model: settings.provider.model.clone(),
            continues: continued,
            binding: TurnBinding {
                deny: request.policy.deny.clone(),
                no_instructions: request.selection.no_instructions,
                root_inode: Some(repository.identity().inode),
            },
            interactive: request.interactive,
            ask: request.ask.clone(),
            preview: is_preview,
            ..StartRecord::new(
                session_id,
                SessionWork::Operation(request.operation),
                shown_target(&request),
                root,
            )
        };
        let is_attached = request.attached;
        let task = SessionTask::Operation(Box::new(OperationTask {
            request,
            working_directory,
            settings,
            filter,
            mark,
            past: past.map(Arc::new),
            on_key: self.key_observer(&redactor),
        }));
        let plan = SessionPlan {
            redactor,
            is_attached,
            ..prepared.plan(start, task, environment)
        };
        self.launch_session(place, plan, inherited).await
    }

    /// Opens the repository of a request, and finds its working directory. A preview has a `layer`: the identifier of
    /// its session, and the proposals that it begins with.
    async fn open_for(
        &self,
        request: &ExecuteRequest,
        settings: &PolicySettings,
        layer: Option<(String, Vec<FileChange>)>,
    ) -> Result<(Arc<Repository>, PathBuf), Problem> {
        let (repo_path, asked) = (request.repo_path.clone(), request.working_directory.clone());
        let opening = CancellationToken::new();
        let _guard = opening.clone().drop_guard();
        let mut options = self.repository_options(settings, &opening);
        let (home, indexes) = (self.home.clone(), Arc::clone(&self.indexes));
        let symbol = request
            .target
            .clone()
            .filter(|_| request.operation == Operation::Explain);
        run_blocking(move || {
            if let Some((session_id, files)) = layer {
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
        .await
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
        let repository = run_blocking(move || open_repository(&repo_path, &options)).await?;
        let locked = read_lock(&repository, &self.engine, request.policy.frozen).await?;
        self.check_skill(name, locked.as_deref())?;
        let case = PolicyCase {
            cause: EffectCause::SkillCall,
            settings: &settings,
            request: &request.policy,
            asked: &[],
            is_interactive: request.interactive,
            grants: place_of_grants(request.is_of_program),
        };
        let prepared = Prepared::resolve(case, repository, locked).await?;
        let entries = self.engine.entries(prepared.locked.as_deref().map(|lock| lock as _));
        let is_ours = entries.iter().any(|entry| {
            let is_named = |function: &SkillFunction| function.name == name;
            entry.origin == SkillOrigin::Builtin && entry.functions.iter().any(is_named)
        });
        let (id, work) = (self.ids.next(api::current_time()), SessionWork::Skill(name.to_owned()));
        let root = prepared.repository.root().to_string_lossy().into_owned();
        let start = StartRecord {
            interactive: request.interactive,
            ..StartRecord::new(id, work, name.to_owned(), root)
        };
        let task = SessionTask::Skill {
            name: name.to_owned(),
            arguments: request.arguments,
        };
        let plan = SessionPlan {
            // The result of a built-in skill goes to the user. A skill of a team may send on what it reads.
            redactor: Arc::new(if is_ours { Redactor::off() } else { Redactor::default() }),
            is_attached: true,
            ..prepared.plan(start, task, environment)
        };
        self.launch_session(place, plan, InheritedLayer::default()).await
    }

    pub(super) fn check_skill(&self, name: &str, lock: Option<&SkillLock>) -> Result<(), Problem> {
        if self.engine.effects(name, lock).is_some() {
            return Ok(());
        }
        let entries = self.engine.entries(lock.map(|lock| lock as _));
        let functions = entries.iter().flat_map(|entry| &entry.functions);
        let nearest = text::nearest_name(name, functions.map(|function| function.name.as_str()));
        let problem = Problem::new(ErrorKind::NotFound, format!("There is no skill named `{name}`"));
        Err(match nearest {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None => problem.with_action(Action::ListSkills),
        })
    }
}
