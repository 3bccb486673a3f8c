//! Implements the imports of `wit/skill.wit` that need git, a program or a network.
//!
//! The boundary has checked that the effect is granted. Questions that the policy requires are asked here, because
//! only this code knows exactly what is about to happen.

mod commit_history;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/imports.rs"]
pub(super) mod fuzz;
mod git;
mod git_commit;
mod git_history;
mod git_read;
mod packages;
mod recipe;
#[cfg(test)]
mod shown_changes;
mod test_runs;
pub(crate) mod value_store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::secrets::find_secret;
pub use commit_history::{
    PastBounds, PastChanges, PastCommitStep, PastCommits, PastGap, find_past_gap, head_commit, walk_commits,
};
pub use git::recover::settle_commit;
pub(crate) use git::worker::{prepare_process as prepare_git, serve_requests as serve_git};
use git_commit::CommitError;
use git_history::HistoryCall;
pub use packages::replace_folder as package_folder;
pub use test_runs::{
    CleanedCaches, MissingPart, PlannedRun, clean_build_caches, drop_build_caches, plan_runs, read_form,
    runnable_purposes,
};
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill as wit;
use tool_boundary::policy::Decision;
use tool_boundary::{
    BoundSecret, CallBudget, CallContext, ContentIndex, HttpTransport, ImportError, KeyValueStore, Services,
    SymbolLookup,
};
use tool_config::{Environment, SkillsSettings};
use tool_core::api::{Effect, Problem, SecretName};
use tool_core::authors::Team;
use tool_repository::changes::FileChange;

/// Implements the services with this machine's programs and the user's files.
pub(crate) struct MachineServices {
    home: PathBuf,
    surroundings: HostServices,
}

/// Services that the process provides to skills. The default provides none.
#[derive(Clone, Default)]
pub struct HostServices {
    /// Sends requests of skills.
    pub transport: Option<Arc<dyn HttpTransport>>,
    /// Reads symbols for skills.
    pub symbols: Option<Arc<dyn SymbolLookup>>,
    /// Narrows searches of skills.
    pub contents: Option<Arc<dyn ContentIndex>>,
    /// Environment variables. The user's configuration names those with secrets.
    pub environment: Environment,
}

impl MachineServices {
    pub(crate) fn new(home: &Path, surroundings: HostServices) -> Self {
        Self {
            home: home.to_owned(),
            surroundings,
        }
    }

    fn history_call<'a>(&self, call: &'a CallBudget, context: &'a CallContext) -> HistoryCall<'a> {
        let team = read_team(&self.home);
        HistoryCall { call, context, team }
    }

    /// Reads the user's current settings for skills.
    fn skills(&self) -> Result<SkillsSettings, String> {
        let common = tool_config::load_common(&self.home, &Environment::default());
        let unknown = |problem: Problem| format!("the configuration is not valid: {}", problem.message);
        common.map(|common| common.skills).map_err(unknown)
    }
}

impl Services for MachineServices {
    fn read_changes(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_read::DiffQuery,
    ) -> Result<wit::git_read::Diff, Failure> {
        let diff = read_git(call, context, || git_read::read_changes(context, query));
        if let Ok(diff) = &diff {
            git_read::note_places(call, context, diff);
        }
        diff
    }

    fn read_log(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::LogQuery,
    ) -> Result<wit::git_history::LogPage, Failure> {
        let reading = self.history_call(call, context);
        read_git(call, context, || git_history::read_log(&reading, query))
    }

    fn show_commit(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::ShowQuery,
    ) -> Result<wit::git_history::CommitDiff, Failure> {
        let reading = self.history_call(call, context);
        let diff = read_git(call, context, || git_history::show_commit(&reading, query))?;
        git_history::note_places(call, context, &diff);
        Ok(diff)
    }

    fn blame_lines(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::BlameQuery,
    ) -> Result<wit::git_history::BlamePage, Failure> {
        let reading = self.history_call(call, context);
        let page = read_git(call, context, || git_history::blame(&reading, query))?;
        git_history::note_place(call, context, &query.path);
        Ok(page)
    }

    fn create_commit(
        &self,
        call: &CallBudget,
        context: &CallContext,
        message: &str,
        paths: &[String],
        all: bool,
    ) -> Result<wit::git_commit::Commit, Failure> {
        refuse_in_preview(context, "make commits")?;
        let commit = || git_commit::create_commit(context, message, paths, all);
        let is_asked = context.decide(Effect::CommitGit) == Decision::Ask || git::must_ask_to_commit(context);
        let waits = is_asked || git_commit::hooks::are_run(context).unwrap_or(false);
        let commit = if waits { call.unclocked(commit) } else { commit() };
        match &commit {
            Ok(made) => {
                call.note_commit(&made.commit.id);
                git_commit::note_places(call, &made.commit);
                if let Some(place) = &made.place {
                    call.note_notice(format!(
                        "It is a commit of the submodule `{place}`; a commit of `{place}` itself records it in this \
                         repository."
                    ));
                }
                made.notices.iter().for_each(|notice| call.note_notice(notice.clone()));
                if made.have_hooks_run {
                    call.note_outside(HOOK_OUTPUT.to_owned());
                }
            }
            Err(CommitError::AfterHooks(_)) => call.note_outside(HOOK_OUTPUT.to_owned()),
            Err(CommitError::Nothing(_)) => call.note_empty_commit(),
            Err(CommitError::Failed(_)) => {}
        }
        commit.map(|made| made.commit).map_err(CommitError::into_failure)
    }

    fn run_tests(
        &self,
        call: &CallBudget,
        context: &CallContext,
        mut request: wit::tests::Request,
    ) -> Result<Vec<wit::tests::Suite>, ImportError> {
        let suites = call.recipe(|left| {
            let left = u32::try_from(left.as_secs().max(1)).unwrap_or(u32::MAX);
            request.timeout_seconds = Some(request.timeout_seconds.map_or(left, |asked| asked.min(left)));
            test_runs::run_tests(context, &request)
        })?;
        match &suites {
            Ok(suites) => call.note_test_run(test_runs::judge_suites(suites), &test_runs::sandbox_of(suites)),
            Err(_) => call.note_test_run(None, ""),
        }
        Ok(suites?)
    }

    fn install_packages(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: &wit::packages::Request,
    ) -> Result<wit::packages::Report, ImportError> {
        refuse_in_preview(context, "install packages")?;
        let report = call.recipe(|_| packages::install_packages(context, request))?;
        if report.as_ref().is_ok_and(|report| report.exit_code == Some(0)) {
            call.note_packages(&request.names);
        }
        Ok(report?)
    }

    fn settings(&self, component: &str) -> Result<Map<String, Value>, String> {
        Ok(self.skills()?.config.remove(component).unwrap_or_default())
    }

    fn secret(&self, name: SecretName) -> Result<BoundSecret, String> {
        let configured = self.skills()?.secrets.remove(&name);
        find_secret(name, configured.as_ref(), &self.home, &self.surroundings.environment)
    }

    fn open_store(&self, component: &str, root: &Path) -> Result<Box<dyn KeyValueStore>, String> {
        let opened = value_store::FileStore::open(&self.home, component, root);
        let unusable = |error: std::io::Error| format!("the store cannot be used: {}", error.kind());
        Ok(Box::new(opened.map_err(unusable)?))
    }

    fn symbols(&self) -> Option<&dyn SymbolLookup> {
        self.surroundings.symbols.as_deref()
    }

    fn contents(&self) -> Option<Arc<dyn ContentIndex>> {
        self.surroundings.contents.clone()
    }

    fn http(&self) -> Option<&dyn HttpTransport> {
        self.surroundings.transport.as_deref()
    }

    fn describe_changes(&self, files: &[FileChange]) -> String {
        tool_repository::diff::describe_changes(files)
    }

    fn note_changes(&self, context: &CallContext, files: &[FileChange]) {
        packages::package_records::note_changes(context, files);
    }
}

/// Source of a hook's output, as the user reads it in the taint.
const HOOK_OUTPUT: &str = "the output of git hooks";

/// Reads the user's team from the configuration in the home. The repository has no influence. If the file cannot be
/// parsed, the team is empty.
fn read_team(home: &Path) -> Team {
    let common = tool_config::load_common(home, &Environment::default());
    let team = common.and_then(|common| Team::parse(&common.policy.team));
    team.unwrap_or_default()
}

/// Refuses actions that would leave the private layer of a preview.
fn refuse_in_preview(context: &CallContext, what: &str) -> Result<(), Failure> {
    if context.repository.layer().is_none() {
        return Ok(());
    }
    Err(Failure::denied(format!(
        "A preview does not {what}: it changes nothing outside of its private layer."
    ))
    .with_hint("leave it to the user, after the preview is applied"))
}

/// Reads git. The time for the user's answer about git's data does not count towards the call's limit.
fn read_git<R>(call: &CallBudget, context: &CallContext, read: impl FnOnce() -> R) -> R {
    if git::must_ask(context) {
        call.unclocked(read)
    } else {
        read()
    }
}
