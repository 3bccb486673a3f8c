//! `tool batch`: one operation on many repositories, in parallel sessions of one daemon. Its results survive an
//! interruption.
//!
//! It does not schedule machines: `--shard I/N` picks every N-th repository of the list, and the user's own system
//! starts the shards. Each shard has its own home, daemon and files.

mod batch_items;
mod budget;
mod list;
mod page;
mod results;
mod shard_home;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tool_core::api::{Dollars, ErrorKind, Problem, Status};
use tool_core::text::clean_line;

use super::CommandContext;
use super::end_signals::EndSignals;
use crate::args::{BatchArguments, TurnOperation};
use crate::client::Backend;
use crate::error::{Error, FAILED};
use crate::output::CommandOutput;
use batch_items::{BatchSettings, ItemError, StartedItem, run_item};
use budget::SharedBudget;
use list::{BatchItem, DefaultWork, RepositorySource};
use results::{BatchResult, ResultsFolder};

pub(super) async fn run_batch(arguments: BatchArguments, context: &CommandContext) -> Result<ExitCode, Error> {
    if arguments.summarize {
        return summarize_results(&arguments.results, context.output);
    }
    let items = shard_items(&arguments)?;
    // A wrong configuration should be reported before the first session.
    let settings = tool_config::load_settings(&context.backend.home, &context.backend.environment)?;
    if settings.policy.require_sandbox && arguments.session.policy.unsandboxed {
        let message = "A sandbox is required and refused at the same time";
        return Err(Problem::new(ErrorKind::InvalidPolicy, message)
            .with_hint("leave out `--unsandboxed`, or `require_sandbox` in the configuration")
            .into());
    }
    let folder = ResultsFolder::open_shard(&arguments.results, arguments.shard, arguments.retry_failed)?;
    let ids: BTreeSet<String> = items.iter().map(|item| item.id.clone()).collect();
    let queue: VecDeque<BatchItem> = items.into_iter().filter(|item| !folder.is_done(&item.id)).collect();
    say_start(ids.len(), queue.len(), context.output);
    let place = folder.path().to_owned();
    let ended = if queue.is_empty() {
        BatchEnd::Done
    } else {
        run_queue(queue, folder, &arguments, context).await?
    };
    let mut results = write_summary(&place, context.output)?;
    results.retain(|result| ids.contains(&result.id));
    if results.iter().any(BatchResult::has_changed_in_place) {
        let home = shard_home::shard_path(&context.backend.home, &place, arguments.shard);
        let undo = format!(
            "undo, in a repository: TOOL_HOME={} TOOL_BACKEND_PORT=0 tool undo",
            home.display()
        );
        context.output.progress(&undo);
    }
    let complete = results.iter().filter(|result| result.status == Status::Complete);
    let complete: BTreeSet<&str> = complete.map(|result| result.id.as_str()).collect();
    match ended {
        BatchEnd::Interrupted => {
            let hint = "start the same command again to go on";
            context.output.notice("The batch was interrupted.", Some(hint));
            Err(Error::Interrupted)
        }
        BatchEnd::Stopped(error) => Err(error),
        BatchEnd::Done if complete.len() == ids.len() => Ok(ExitCode::SUCCESS),
        BatchEnd::Done => {
            let hint = "start the same command with --retry-failed to run them again";
            context.output.notice("Some repositories failed.", Some(hint));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// The part of the list that this shard runs.
fn shard_items(arguments: &BatchArguments) -> Result<Vec<BatchItem>, Error> {
    let work = DefaultWork {
        operation: arguments.operation.into(),
        task: match arguments.operation {
            // Without a task, explain covers the whole repository.
            TurnOperation::Explain => arguments.task.clone(),
            _ => arguments.task.clone().filter(|task| !task.trim().is_empty()),
        },
    };
    let mut items = list::read_list(&arguments.list, &work)?;
    items.retain(|item| arguments.shard.holds(item.position));
    Ok(items)
}

fn say_start(all: usize, left: usize, output: CommandOutput) {
    let done = all - left;
    output.progress(&match done {
        0 => page::count_repositories(all),
        _ => format!("{}, {done} with a result", page::count_repositories(all)),
    });
}

enum BatchEnd {
    Done,
    Interrupted,
    /// Every further session would fail.
    Stopped(Error),
}

async fn run_queue(
    queue: VecDeque<BatchItem>,
    folder: ResultsFolder,
    arguments: &BatchArguments,
    context: &CommandContext,
) -> Result<BatchEnd, Error> {
    let home = shard_home::prepare_home(&context.backend.home, folder.path(), arguments.shard)?;
    let backend = context.backend.in_home(home);
    // One start for all sessions.
    backend.connect_or_start().await?;
    let settings = BatchSettings {
        backend: backend.clone(),
        output: context.output,
        session: arguments.session.clone(),
        reports: folder.reports(),
        cancel: CancellationToken::new(),
    };
    let share = arguments
        .max_cost
        .map(|whole| Dollars::from_nanos(whole.nanos() / arguments.shard.count() as u64));
    let budget = share.map(|share| SharedBudget::new(share, folder.spent, queue.len()));
    let runner = BatchRunner {
        all: queue.len(),
        ended: 0,
        queue,
        folder,
        budget,
        parallel: arguments.parallel as usize,
        settings: Arc::new(settings),
        tasks: JoinSet::new(),
        folders_in_use: HashSet::new(),
        stop: None,
    };
    let ended = runner.run().await;
    stop_backend(&backend).await;
    ended
}

async fn stop_backend(backend: &Backend) {
    if let Ok(client) = backend.connect_running().await {
        // If it keeps running, the next run of this shard finds it.
        let _ = backend.stop(&client);
    }
}

/// The running sessions of a batch.
struct BatchRunner {
    /// Number of items in this run, and of those that have ended.
    all: usize,
    ended: usize,
    queue: VecDeque<BatchItem>,
    folder: ResultsFolder,
    budget: Option<SharedBudget>,
    parallel: usize,
    settings: Arc<BatchSettings>,
    tasks: JoinSet<(StartedItem, Result<BatchResult, ItemError>)>,
    /// Folders of the running items. Two sessions in one folder would see and report each other's changes.
    folders_in_use: HashSet<PathBuf>,
    /// Set once no further session is started.
    stop: Option<BatchEnd>,
}

impl BatchRunner {
    async fn run(mut self) -> Result<BatchEnd, Error> {
        let mut ending = EndSignals::new()?;
        loop {
            self.start_items()?;
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    Some(Ok((started, result))) => self.end_item(started, result)?,
                    Some(Err(_)) => self.stop_with(Error::new(ErrorKind::Runtime, "A session's task ended unexpectedly")),
                    None => return Ok(self.stop.unwrap_or(BatchEnd::Done)),
                },
                () = ending.asked() => {
                    self.settings.output.progress("cancelling …");
                    self.stop = Some(BatchEnd::Interrupted);
                    self.settings.cancel.cancel();
                }
            }
        }
    }

    /// Starts as many sessions as free places and the budget allow.
    fn start_items(&mut self) -> Result<(), Error> {
        while self.stop.is_none() && self.tasks.len() < self.parallel {
            let Some(next) = self.queue.iter().position(|item| !self.must_wait(item)) else {
                return Ok(());
            };
            let slots = (self.parallel - self.tasks.len()).min(self.queue.len());
            let bound = match &mut self.budget {
                None => None,
                Some(budget) => match budget.reserve(slots) {
                    Some(bound) => Some(bound),
                    // Running sessions may return a part of their budget.
                    None if !self.tasks.is_empty() => return Ok(()),
                    None => {
                        self.stop = Some(BatchEnd::Stopped(self.too_little_money()));
                        return Ok(());
                    }
                },
            };
            let item = self.queue.remove(next).expect("it was found");
            if let RepositorySource::Folder(folder) = &item.source {
                self.folders_in_use.insert(folder.clone());
            }
            self.folder.start(&item.id, bound)?;
            let clone = self.folder.clone_of(&item.id);
            let started = StartedItem { item, bound, clone };
            self.tasks.spawn(run_item(Arc::clone(&self.settings), started));
        }
        Ok(())
    }

    /// True if another session works in the folder of the item.
    fn must_wait(&self, item: &BatchItem) -> bool {
        match &item.source {
            RepositorySource::Folder(folder) => self.folders_in_use.contains(folder),
            // Each session has its own clone.
            RepositorySource::Url(_) => false,
        }
    }

    fn too_little_money(&self) -> Error {
        let message = format!(
            "--max-cost is used up; {} did not run",
            page::count_repositories(self.queue.len())
        );
        let hint = "start the same command with a higher --max-cost to go on";
        Problem::new(ErrorKind::BudgetExhausted, message).with_hint(hint).into()
    }

    fn end_item(&mut self, started: StartedItem, result: Result<BatchResult, ItemError>) -> Result<(), Error> {
        if let RepositorySource::Folder(folder) = &started.item.source {
            self.folders_in_use.remove(folder);
        }
        let cost = result.as_ref().map_or(None, BatchResult::cost);
        if let (Some(budget), Some(bound)) = (&mut self.budget, started.bound) {
            if result.as_ref().is_ok_and(was_too_expensive) {
                // It runs when more of the budget is free, or in the next run of the batch.
                budget.refuse(bound);
                self.folder.end(&started.item.id, cost)?;
                self.queue.push_front(started.item);
                return Ok(());
            }
            budget.release(bound, cost);
        }
        match result {
            Ok(result) => {
                self.ended += 1;
                self.say_end(&result);
                self.folder.add(&result)
            }
            // Its attempt stays open, because its cost is not known.
            Err(ItemError::Cancelled) => Ok(()),
            Err(ItemError::Item(problem)) => {
                self.stop_with(problem.into());
                Ok(())
            }
            Err(ItemError::Batch(error)) => {
                self.folder.end(&started.item.id, cost)?;
                self.stop_with(error);
                Ok(())
            }
        }
    }

    /// Starts no more sessions. Running ones finish.
    fn stop_with(&mut self, error: Error) {
        if self.stop.is_none() {
            self.stop = Some(BatchEnd::Stopped(error));
        }
    }

    fn say_end(&self, result: &BatchResult) {
        let word = super::ci::summary::status_word(result.status);
        let why = match &result.error {
            Some(problem) => format!(": {}", clean_line(&problem.message)),
            None => String::new(),
        };
        self.settings.output.progress(&format!(
            "[{}/{}] {word} {} ({:.1} s){why}",
            self.ended,
            self.all,
            clean_line(&result.repository),
            result.seconds
        ));
    }
}

/// True for a session whose budget did not allow its first request.
fn was_too_expensive(result: &BatchResult) -> bool {
    let is_exhausted = |problem: &Problem| problem.kind == ErrorKind::BudgetExhausted;
    result.error.as_ref().is_some_and(is_exhausted) && result.cost() == Some(Dollars::default())
}

fn summarize_results(results: &Path, output: CommandOutput) -> Result<ExitCode, Error> {
    write_summary(results, output)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the summaries of all shards, and returns their results.
fn write_summary(folder: &Path, output: CommandOutput) -> Result<Vec<BatchResult>, Error> {
    let results = results::read_results(folder)?;
    results::write_whole(&folder.join("summary.md"), page::write_markdown(&results).as_bytes())?;
    results::write_whole(&folder.join("summary.html"), page::write_page(&results).as_bytes())?;
    output.line(&page::totals_line(&results))?;
    output.progress(&format!("summary {}", folder.join("summary.html").display()));
    Ok(results)
}
