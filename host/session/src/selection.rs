//! Target and selected files of a request, for sessions and for `POST /context`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use tool_context::Target;
use tool_context::operation::{self, TargetLookup};
use tool_context::{BuildRequest, Indexes, Packet, SelectionFilter};
use tool_core::api::{
    Action, CallGraph, CallGraphRequest, ContextResult, ErrorKind, GraphRequest, ModuleGraph, Operation, Problem,
    SelectedFile,
};
use tool_core::redaction::Redactor;
use tool_provider::estimated_tokens;
use tool_repository::Repository;

/// A request for a selection, with checked patterns.
#[derive(Clone)]
pub(super) struct CheckedSelection {
    pub(super) operation: Operation,
    pub(super) target: Option<String>,
    pub(super) task: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) working_directory: PathBuf,
    pub(super) vault: Option<PathBuf>,
    pub(super) filter: Arc<SelectionFilter>,
    pub(super) indexes: Arc<Indexes>,
    pub(super) redactor: Arc<Redactor>,
    /// Limit for the packet in tokens.
    pub(super) budget_tokens: u64,
}

impl CheckedSelection {
    /// Finds the target and builds the packet. Blocks.
    pub(super) fn build(
        &self,
        repository: &Arc<Repository>,
        cancel: &CancellationToken,
    ) -> Result<(Target, Packet), Problem> {
        let (target, task) = (self.target.as_deref(), self.task.as_deref());
        let find_symbol =
            |name: &str| tool_context::find_symbol(repository, &self.indexes, name, cancel).map_err(Problem::from);
        let lookup = TargetLookup {
            repository,
            working_directory: &self.working_directory,
            find_symbol: &find_symbol,
            cancel,
        };
        let target = operation::resolve_target(self.operation, target, task, &lookup)?;
        let request = BuildRequest {
            repository,
            indexes: &self.indexes,
            operation: self.operation,
            target: &target,
            focus: self.focus.as_deref(),
            filter: &self.filter,
            vault: self.vault.as_deref(),
            redactor: &self.redactor,
            budget_tokens: self.budget_tokens,
            cancel,
        };
        let mut packet = tool_context::build_packet(&request).map_err(Problem::from)?;
        packet.selected.iter_mut().for_each(make_finite);
        packet.near_misses.iter_mut().for_each(make_finite);
        Ok((target, packet))
    }
}

/// Draws the modules of the requested directory. Blocks.
pub(super) fn draw_graph(
    request: &GraphRequest,
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    cancel: &CancellationToken,
) -> Result<ModuleGraph, Problem> {
    let working_directory = super::request::working_directory(request.working_directory.as_deref(), repository)?;
    let find_symbol = |name: &str| tool_context::find_symbol(repository, indexes, name, cancel).map_err(Problem::from);
    let lookup = TargetLookup {
        repository,
        working_directory: &working_directory,
        find_symbol: &find_symbol,
        cancel,
    };
    let typed = request.path.as_deref().unwrap_or(&request.repo_path);
    let refused = || Problem::new(ErrorKind::FileNotFound, format!("There is no directory `{typed}`"));
    let no_directory =
        || refused().with_hint("a graph shows the modules of a directory: name one, or none for the whole repository");
    let directory = match operation::resolve_target(Operation::Explain, Some(typed), None, &lookup) {
        Ok(Target::Root) => String::new(),
        Ok(Target::Directory(path)) => path,
        Ok(Target::Symbol { name, .. }) => {
            return Err(refused().with_action(Action::ShowCalls { symbol: name }));
        }
        Ok(_) => return Err(no_directory()),
        Err(problem) if problem.kind == ErrorKind::FileNotFound => return Err(no_directory()),
        Err(problem) => return Err(problem),
    };
    tool_context::draw_modules(repository, indexes, &directory, request.packages, cancel).map_err(Problem::from)
}

/// Draws the callers and callees of the requested name. Blocks.
pub(super) fn draw_call_graph(
    request: &CallGraphRequest,
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    cancel: &CancellationToken,
) -> Result<CallGraph, Problem> {
    let working_directory = super::request::working_directory(request.working_directory.as_deref(), repository)?;
    let find_symbol = |name: &str| tool_context::find_symbol(repository, indexes, name, cancel).map_err(Problem::from);
    let lookup = TargetLookup {
        repository,
        working_directory: &working_directory,
        find_symbol: &find_symbol,
        cancel,
    };
    let under = match request.path.as_deref() {
        None => String::new(),
        Some(typed) => match operation::resolve_target(Operation::Explain, Some(typed), None, &lookup) {
            Ok(Target::Root) => String::new(),
            Ok(Target::Directory(path) | Target::File(path)) => path,
            Err(problem) if problem.kind != ErrorKind::FileNotFound => return Err(problem),
            _ => {
                let message = format!("There is no file or directory `{typed}`");
                return Err(Problem::new(ErrorKind::FileNotFound, message)
                    .with_hint("a path narrows the definitions of the symbol to a file or a directory"));
            }
        },
    };
    let symbol = request.symbol.trim();
    let graph = tool_context::draw_calls(repository, indexes, symbol, &under, cancel).map_err(Problem::from)?;
    if !graph.nodes.is_empty() {
        return Ok(graph);
    }
    let place = if under.is_empty() {
        "in the repository".to_owned()
    } else {
        format!("in `{under}`")
    };
    let not_searched = tool_context::describe_not_listed(repository, &under, cancel);
    let message = format!("No function, method or type `{symbol}` is defined {place}{not_searched}");
    let problem = Problem::new(ErrorKind::FileNotFound, message);
    let found = find_symbol(symbol)?;
    let elsewhere = found.places.iter().filter(|_| !under.is_empty());
    let elsewhere: Vec<String> = elsewhere.map(|place| format!("`{place}`")).collect();
    Err(match (elsewhere.as_slice(), found.alike_definition) {
        ([], None) => problem.with_hint("only definitions in languages that are parsed have calls"),
        ([], Some(alike)) => problem.with_hint(format!("did you mean {alike}?")),
        (places, _) => problem.with_hint(format!("it is defined at {}", places.join(", "))),
    })
}

/// Refuses a name that the repository does not define, before a session exists. Paths and questions pass. Blocks.
pub(super) fn check_symbol(
    typed: &str,
    repository: &Arc<Repository>,
    working_directory: &Path,
    indexes: &Arc<Indexes>,
    cancel: &CancellationToken,
) -> Result<(), Problem> {
    if !operation::can_name_symbol(typed, repository.root(), working_directory) {
        return Ok(());
    }
    let find_symbol = |name: &str| tool_context::find_symbol(repository, indexes, name, cancel).map_err(Problem::from);
    let lookup = TargetLookup {
        repository,
        working_directory,
        find_symbol: &find_symbol,
        cancel,
    };
    operation::resolve_target(Operation::Explain, Some(typed), None, &lookup).map(|_| ())
}

/// Replaces a score that JSON cannot represent by 0.
fn make_finite(file: &mut SelectedFile) {
    file.score = if file.score.is_finite() { file.score } else { 0.0 };
}

/// The response of `POST /context`.
pub(super) fn describe_packet(packet: Packet) -> ContextResult {
    ContextResult {
        tokens: estimated_tokens(packet.context.len()),
        selected_files: packet.selected,
        files_loaded: packet.files_loaded as u64,
        near_misses: packet.near_misses,
        notes: packet.notes,
        instructions: packet.instructions,
        notices: packet.notices,
        context: packet.context,
    }
}
