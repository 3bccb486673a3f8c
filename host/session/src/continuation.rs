//! Starts the next turn of a conversation.
//!
//! Restrictions carry over to it (denials, `untrusted`, a required sandbox); grants do not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::preview::InheritedLayer;
use super::{Sessions, run_blocking, unknown_session};
use tool_config::{ProviderApi, Settings};
use tool_core::api::{
    Action, ErrorKind, ExecuteRequest, Operation, Problem, ProviderName, SessionStart, Status, TurnRequest,
};
use tool_journal::conversation::{
    CONVERSATION_TURNS_MAX, ContinueError, PastConversation, Precedent, can_be_continued, conversation_chain,
};
use tool_journal::history::{self, SessionSummary};
use tool_journal::journal::{ContinuedSession, SessionFolder};

/// Position of a turn in its conversation, and the state that it takes over.
pub(super) struct Continuation {
    pub(super) continued: ContinuedSession,
    pub(super) past: PastConversation,
    pub(super) layer: InheritedLayer,
}

impl Sessions {
    /// Starts the next turn of a conversation. Returns once the request is checked, as [`Sessions::start`] does.
    ///
    /// # Errors
    ///
    /// The conversation cannot be continued, or the request is not valid.
    pub async fn continue_session(
        self: &Arc<Self>,
        id: &str,
        request: TurnRequest,
        mut settings: Settings,
        environment: BTreeMap<String, String>,
    ) -> Result<SessionStart, Problem> {
        let mut request = request;
        let mut place = self.take_place()?;
        let last = self.ended_session(id)?;
        if request.message.trim().is_empty() {
            return Err(Problem::new(ErrorKind::InvalidRequest, "The message is empty"));
        }
        if settings.provider.api == ProviderApi::Analyst {
            return Err(tool_analyst::refuse_question());
        }
        let continued = ContinuedSession {
            conversation: last.start.conversation().to_owned(),
            session: last.id().to_owned(),
            turn: last.start.turn() + 1,
        };
        if continued.turn > CONVERSATION_TURNS_MAX {
            return Err(ContinueError::TooLong.into());
        }
        place.claim(&continued.conversation)?;
        let past = self.read_past(last.clone()).await?;
        check_reader(&past, request.provider.as_deref(), &settings)?;
        settings.policy.untrusted |= past.is_untrusted;
        settings.policy.require_sandbox |= past.requires_sandbox;
        settings.policy.deny.extend(past.denied.iter().cloned());
        request.policy.deny.extend(past.denied_by_name.iter().cloned());
        request.selection.no_instructions |= past.is_without_instructions;
        request.policy.ask_before_write |= past.asks_before_write;
        let layer = {
            let (last, folder, home) = (last.clone(), self.store.folder(last.id()), self.home.clone());
            run_blocking(move || InheritedLayer::read_proposed(&last, &folder, &home)).await?
        };
        let request = execute_request(request, &last, past.precedent.as_ref());
        self.begin_operation(
            place,
            request,
            settings,
            environment,
            Some(Continuation { continued, past, layer }),
        )
        .await
    }

    /// Finds a session that has ended and can be continued.
    fn ended_session(&self, id: &str) -> Result<SessionSummary, Problem> {
        let live = self.live(id).map(|live| live.recorder.summary());
        if live.as_ref().is_some_and(|summary| summary.status == Status::Running) {
            let message = format!("The session `{id}` is still running");
            return Err(Problem::new(ErrorKind::SessionRunning, message)
                .with_hint("wait for its end, or cancel it: one turn of a conversation runs at a time"));
        }
        let summary = live
            .or_else(|| self.store.summary(id))
            .ok_or_else(|| unknown_session(id))?;
        if can_be_continued(&summary) {
            return Ok(summary);
        }
        let message = format!("The session `{id}` is no operation, and has no conversation to go on with");
        Err(Problem::new(ErrorKind::InvalidRequest, message).with_action(Action::ListSessions))
    }

    /// Reads the conversation that ends with a session.
    async fn read_past(self: &Arc<Self>, last: SessionSummary) -> Result<PastConversation, Problem> {
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let summaries = sessions.summaries();
            let newest_first: Vec<&SessionSummary> = summaries.values().rev().collect();
            let undone: BTreeSet<String> = history::find_undone(&newest_first)
                .into_iter()
                .map(str::to_owned)
                .collect();
            let turns = conversation_chain(last, |id| summaries.get(id).cloned())?;
            let turns: Vec<(SessionSummary, SessionFolder)> = turns
                .into_iter()
                .map(|turn| (turn.clone(), sessions.store.folder(turn.id())))
                .collect();
            Ok(PastConversation::read_turns(&turns, &undone)?)
        })
        .await
    }
}

/// Refuses to send a conversation that only local servers have seen to another server, unless the user says so.
fn check_reader(past: &PastConversation, asserted: Option<&str>, settings: &Settings) -> Result<(), Problem> {
    let name = settings.provider.name;
    let is_local_only = past.providers.iter().all(|known| known == ProviderName::Local.name());
    if name == ProviderName::Local || !is_local_only || asserted == Some(name.name()) {
        return Ok(());
    }
    let message = format!(
        "Until now only the provider `local` has got this conversation; going on sends all of it to `{name}` ({})",
        settings.provider.model
    );
    Err(Problem::new(ErrorKind::ProviderUnconfirmed, message)
        .with_action(Action::NameProvider { name: name.to_string() }))
}

/// Converts the request of a turn to that of an operation.
fn execute_request(request: TurnRequest, last: &SessionSummary, precedent: Option<&Precedent>) -> ExecuteRequest {
    let start = &last.start;
    let before = precedent.map_or(Operation::Explain, |precedent| precedent.operation);
    let operation = request.operation.unwrap_or(before);
    let (target, task, focus) = match operation {
        Operation::Explain | Operation::Architect | Operation::Refactor => (None, Some(request.message), None),
        // The target is a file: the one of the previous turn, or the one that the message names.
        Operation::TestGen if before == Operation::TestGen => {
            let target = precedent.map(|precedent| precedent.target.clone());
            (target, None, Some(request.message))
        }
        Operation::TestGen => (Some(request.message), None, None),
    };
    ExecuteRequest {
        operation,
        target,
        repo_path: start.repository.clone(),
        provider: request.provider,
        task,
        focus,
        working_directory: request
            .working_directory
            .or_else(|| Some(start.working_directory.clone()).filter(|directory| !directory.is_empty())),
        model: request.model,
        interactive: request.interactive,
        ask: request.ask,
        policy: request.policy,
        overrides: request.overrides,
        attached: request.attached,
        selection: request.selection,
        budget: request.budget,
        verification: request.verification,
        no_tests: request.no_tests,
        no_checks: request.no_checks,
        preview: request.preview,
        full: false,
        is_of_program: request.is_of_program,
    }
}
