//! Answers about a repository without a session. Nothing is recorded, and no model is asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::request::{open_repository, working_directory};
use super::selection::{self, CheckedSelection};
use super::{Sessions, denies_history, run_blocking, unknown_session};
use tool_config::PolicySettings;
use tool_context::SelectionFilter;
use tool_core::api::{
    CallGraph, CallGraphRequest, ContextRequest, ContextResult, GraphRequest, ModuleGraph, Problem, ScanRequest,
    ScanResult,
};
use tool_core::redaction::Redactor;
use tool_journal::history::SessionSummary;
use tool_journal::report;
use tool_repository::Repository;

impl Sessions {
    /// Opens a repository and examines it on a blocking thread. If the caller goes away, the work is cancelled.
    async fn inspect<T: Send + 'static>(
        &self,
        repo_path: String,
        settings: &PolicySettings,
        look: impl FnOnce(&Arc<Repository>, &CancellationToken) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let under_way = self.begin()?;
        let cancel = CancellationToken::new();
        let _guard = cancel.clone().drop_guard();
        let options = self.repository_options(settings, &cancel);
        run_blocking(move || {
            let _under_way = under_way;
            look(&open_repository(&repo_path, &options)?, &cancel)
        })
        .await
    }

    /// Counts the files that an operation would see.
    ///
    /// # Errors
    ///
    /// The repository cannot be read, or the time limit is exceeded.
    pub async fn scan(&self, request: ScanRequest, settings: PolicySettings) -> Result<ScanResult, Problem> {
        let scan = |repository: &Arc<Repository>, cancel: &_| {
            tool_context::scan_repository(repository, cancel).map_err(Problem::from)
        };
        self.inspect(request.repo_path, &settings, scan).await
    }

    /// Builds the context that an operation would send to the model, of at most `budget_tokens`. Asks no model and records
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::scan`], or the target does not exist.
    pub async fn context(
        &self,
        request: ContextRequest,
        settings: PolicySettings,
        vault: Option<PathBuf>,
        budget_tokens: u64,
    ) -> Result<ContextResult, Problem> {
        let filter = SelectionFilter::new(&request.selection)?;
        let indexes = Arc::clone(&self.indexes);
        let redactor = Arc::new(Redactor::new(&settings.unredacted, [])?);
        let (is_untrusted, denied) = (settings.untrusted, denies_history(&settings.deny));
        self.inspect(request.repo_path.clone(), &settings, move |repository, cancel| {
            let narrowing = repository.narrowing();
            let filter = filter
                .without_instructions_if(is_untrusted || narrowing.untrusted)
                .without_history_if(denied || denies_history(&narrowing.deny));
            let selecting = CheckedSelection {
                operation: request.operation,
                target: request.target,
                task: request.task,
                focus: request.focus,
                working_directory: working_directory(request.working_directory.as_deref(), repository)?,
                vault,
                filter: Arc::new(filter),
                indexes,
                redactor,
                budget_tokens,
            };
            let (_, packet) = selecting.build(repository, cancel)?;
            Ok(selection::describe_packet(packet))
        })
        .await
    }

    /// The report of an ended session in a repository, in shareable form.
    ///
    /// # Errors
    ///
    /// There is no such session, or it runs.
    pub async fn shared_report(self: &Arc<Self>, id: &str, root: &Path) -> Result<String, Problem> {
        let summary = self.summary_in(id, root)?;
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let folder = sessions.store.folder(summary.id());
            let report = sessions.store.report_of(&summary, &folder, None);
            report.map_err(|error| report::problem_of(&error))
        })
        .await
    }

    /// The changes or proposals of an ended session in a repository, in shareable form.
    ///
    /// # Errors
    ///
    /// There is no such session, or it runs.
    pub async fn shared_diff(self: &Arc<Self>, id: &str, root: &Path) -> Result<String, Problem> {
        self.summary_in(id, root)?;
        let diff = self.diff(id).await?.diff;
        let sessions = Arc::clone(self);
        run_blocking(move || Ok(sessions.store.share(&diff))).await
    }

    fn summary_in(&self, id: &str, root: &Path) -> Result<SessionSummary, Problem> {
        let summary = self.store.summary(id);
        let here = |summary: &SessionSummary| Path::new(&summary.start.repository) == root;
        summary.filter(here).ok_or_else(|| unknown_session(id))
    }

    /// Draws the modules of a directory and the imports between them. Asks no model and records nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::scan`], or the directory does not exist.
    pub async fn graph(&self, request: GraphRequest, settings: PolicySettings) -> Result<ModuleGraph, Problem> {
        let indexes = Arc::clone(&self.indexes);
        self.inspect(request.repo_path.clone(), &settings, move |repository, cancel| {
            selection::draw_graph(&request, repository, &indexes, cancel)
        })
        .await
    }

    /// Draws the callers and callees of a symbol. Asks no model and records nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::scan`], or the symbol does not exist.
    pub async fn call_graph(&self, request: CallGraphRequest, settings: PolicySettings) -> Result<CallGraph, Problem> {
        let indexes = Arc::clone(&self.indexes);
        self.inspect(request.repo_path.clone(), &settings, move |repository, cancel| {
            selection::draw_call_graph(&request, repository, &indexes, cancel)
        })
        .await
    }
}
