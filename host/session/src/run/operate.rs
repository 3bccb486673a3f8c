//! An operation from its request to its end: the context, the turns, and the steps around them.
//!
//! `operations` has the steps that differ between the four operations; `judge` judges the end.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::judge::{self, judge_turn};
use super::memory::InheritedState;
use super::operations::{Closing, DraftAnswer, Next, OperationRun, OperationSteps, Spent, Step, steps_of};
use super::request_form::RequestForm;
use super::tool_list::ToolList;
use super::tools::SessionTools;
use super::{SessionOutcome, SessionRun, operation_failed};
use super::{call_redaction, compaction};
use crate::limits;
use crate::plan::OperationTask;
use crate::run_blocking;
use crate::selection::CheckedSelection;
use tool_analyst::{DeclaredEndpoint, FileDefinition, RecentChanges, TargetFacts, TargetSymbol};
use tool_config::TokenPrice;
use tool_context::operation;
use tool_context::symbols::SymbolForm;
use tool_context::{Indexes, Packet, Target};
use tool_core::api::{CallGraph, Effect, ErrorKind, Event, Operation, Problem};
use tool_core::redaction::Redactor;
use tool_core::text::TokenRate;
use tool_journal::journal::SessionWork;
use tool_provider::turn::{self, Tools as _, Turn, TurnEnd, TurnReport, wait_until};
use tool_provider::{LabelMark, Message, ModelRequest, Provider, ProviderError};
use tool_repository::Repository;
use tool_skill::policy::Decision;
use tool_skill::{RunAsker, SessionFiles, SkillScope};

/// Limit for the selections for one request: the first one, and two with the room that the server's tokenizer leaves.
/// Each reads the tree.
const SELECTIONS_MAX: u32 = 3;

/// Tells the model that it works on a private layer.
const PREVIEW: &str = "\
# Preview

This is a preview. Your changes go to a private layer that you and the tests see; the user's files stay as they are until \
the user applies the changes. Commits and installations are refused, so do not try them.";

/// Tells the model that the user wants no tests.
const NO_TESTS: &str = "# Tests\n\nThe user has asked for no tests: do not run them.";

/// Runs an operation to its end. All its steps share the session's deadline.
pub(super) async fn run_operation(job: &SessionRun, task: &OperationTask) -> Result<SessionOutcome, Problem> {
    let deadline = task.request.budget.timeout_seconds.map(Duration::from_secs);
    let deadline = deadline.and_then(|timeout| Instant::now().checked_add(timeout));
    check_may_read(job, task)?;
    let provider = job
        .engine
        .connect(&task.settings.provider, &job.plan.environment, &task.on_key)?;
    // The provider's key must be known before anything is read that may contain it.
    await_until(job, deadline, provider.prepare()).await.transpose()?;
    let price = find_price(job, task, &*provider, deadline).await?;
    let context_tokens = context_tokens(job, &*provider, deadline).await;
    let form = RequestForm::for_context(context_tokens);
    form.check(task.request.operation, context_tokens)?;
    let prepared = prepare_context(job, task, deadline, &*provider, context_tokens).await?;
    let list = list_tools(job, task.request.operation, context_tokens).await?;
    let news = prepared.inherited.news.clone();
    let tools = SessionTools::new(job, &prepared.packet, list, prepared.inherited);
    tools.note_packet(&prepared.packet).await?;
    let mut op = OperationRun {
        job,
        task,
        tools: &tools,
        deadline,
        context_tokens,
        form,
        rate: TokenRate::PROSE,
        price,
        baseline: OnceLock::new(),
    };
    let is_preview = job.plan.repository.layer().is_some();
    let facts = [
        if is_preview { PREVIEW } else { "" },
        if task.request.no_tests { NO_TESTS } else { "" },
        &news,
    ];
    let message = first_message(&job.plan.redactor, task, &prepared.message, &facts);
    op.rate = op.measure_first_request(&*provider, &message).await?;
    let (report, closing) = converse(&op, &*provider, message).await?;
    let missed = tools.take_missed();
    let has_changes = !job.recorder.summary().files_changed().is_empty();
    if has_changes && matches!(task.request.operation, Operation::Refactor | Operation::TestGen) {
        op.say(&format!("{}\n{}", closing.text.trim_end(), missed.line()));
    } else {
        op.say(&closing.text);
    }
    let reader = if task.is_analyst() {
        "the embedded analyst"
    } else {
        "the model"
    };
    call_redaction::report_placeholders(&job.plan.redactor, &job.recorder, reader);
    for denial in missed.denials.iter().filter(|denial| !denial.is_mistake) {
        job.recorder.notice(denial.sentence(), denial.hint.clone());
    }
    Ok(judge_turn(job, task, &report, &missed, closing.problem))
}

/// Runs the turns of an operation, and its work beside them. That work ends with the turns.
async fn converse(
    op: &OperationRun<'_>,
    provider: &dyn Provider,
    message: Message,
) -> Result<(TurnReport, Closing), Problem> {
    let steps = steps_of(op.task.request.operation);
    let mut beside = steps.beside(op);
    let mut turns: Step<'_, _> = Box::pin(run_turns(op, provider, message, steps));
    let _stop = op.tools.stop_on_drop();
    tokio::select! {
        // Begins before the first request.
        biased;
        () = &mut beside => turns.await,
        ended = &mut turns => {
            op.tools.stop();
            let patience = limits::seconds(limits::TOOLS_STOP_SECONDS_MAX);
            // What does not stop in time ends without the session.
            let _ = tokio::time::timeout(patience, beside).await;
            ended
        }
    }
}

/// Asks the model until the steps of the operation end the session.
async fn run_turns(
    op: &OperationRun<'_>,
    provider: &dyn Provider,
    message: Message,
    mut steps: Box<dyn OperationSteps>,
) -> Result<(TurnReport, Closing), Problem> {
    let job = op.job;
    let (messages, spent) = compaction::begin_conversation(op, provider, message).await?;
    let mut report = run_turn(op, provider, messages, spent).await;
    // An answer may be long, so it is shared instead of copied.
    let (mut text, mut latest) = (Arc::clone(&report.text), 0);
    // The limit for requests counts over all turns, and each kind of question has a lower limit.
    let closing = loop {
        let answer = DraftAnswer {
            turn: &report,
            text: &text,
            latest,
            may_ask: may_ask(op, &report),
        };
        let may_ask = answer.may_ask;
        let follow_up = match steps.after(op, &answer).await {
            Next::End(closing) => break closing,
            // The steps know that the model may not be asked again.
            Next::Ask(_) if !may_ask => break Closing::default(),
            Next::Ask(follow_up) => follow_up,
        };
        op.announce(&follow_up.heading);
        let spent = Spent::of(&report);
        let mut messages = report.take_messages();
        messages.push(Message::User {
            text: job.plan.redactor.text(&follow_up.message, None).into_owned(),
        });
        report = run_turn(op, provider, messages, spent).await;
        if is_silent(&report) {
            // Without new text, the first answer stands.
            job.recorder.notice("The model had nothing to add to its answer.", None);
            report.end = Ok(TurnEnd::Complete);
        }
        let whole = Arc::make_mut(&mut text);
        whole.push_str("\n\n");
        latest = whole.len();
        whole.push_str(&report.text);
    };
    Ok((report, closing))
}

/// Refuses to begin if nothing may be read: the service itself, not a skill, reads the context for the model.
fn check_may_read(job: &SessionRun, task: &OperationTask) -> Result<(), Problem> {
    if job.plan.policy.decide(Effect::ReadRepository, false) != Decision::Deny {
        return Ok(());
    }
    let (message, hint) = job
        .call_context_with(SessionFiles::default(), RunAsker::Model)
        .denial(Effect::ReadRepository);
    let message = format!(
        "{} reads the repository. {}",
        task.request.operation,
        message.trim_end_matches('.')
    );
    Err(Problem::new(ErrorKind::Denied, message).with_hint(hint))
}

/// The first message of a session: the request, the packet, and the host's findings. The first message of a
/// conversation also has the mark of tool results.
fn first_message(redactor: &Redactor, task: &OperationTask, message: &str, facts: &[&str]) -> Message {
    let mut text = message.to_owned();
    for facts in facts.iter().map(|facts| facts.trim()).filter(|facts| !facts.is_empty()) {
        text.push_str(&format!("\n{facts}\n"));
    }
    // The packet is redacted already, but the user's text may contain a key.
    let text = redactor.text(&text, None);
    Message::User {
        text: match task.past {
            Some(_) => text.into_owned(),
            None => format!("{}\n\n{text}", task.mark.announcement()),
        },
    }
}

/// Runs one turn, within the rest of the session's budget.
async fn run_turn(op: &OperationRun<'_>, provider: &dyn Provider, messages: Vec<Message>, spent: Spent) -> TurnReport {
    let (tools, task) = (op.tools, op.task);
    let system = operation::system_prompt(op.form.is_short());
    let mut turn = Turn::new(provider, tools, tools, system, messages);
    turn.cancel = op.job.cancel.clone();
    turn.mark = op.task.mark;
    turn.steps = spent.steps;
    turn.usage = spent.usage;
    turn.known = spent.known;
    turn.steps_max = task.request.budget.max_steps.unwrap_or(turn.steps_max);
    turn.tokens_max = task.request.budget.max_tokens;
    turn.price = op.price;
    turn.cost_bound = op.cost_bound();
    turn.deadline = op.deadline;
    // The analyst has no context that could overflow, and needs results that a model would have dropped.
    turn.context_tokens = op.context();
    if task.is_analyst() {
        // The analyst uses no tokens.
        turn.tokens_max = None;
    }
    // Boxed because the compiler cannot infer that the loop's future is `Send`.
    let running: Pin<Box<dyn Future<Output = TurnReport> + Send + '_>> = Box::pin(turn::run_turn(turn));
    running.await
}

/// True if a turn failed only because the model said nothing.
fn is_silent(report: &TurnReport) -> bool {
    matches!(&report.end, Err(ProviderError::Failed(problem)) if problem.kind == ErrorKind::ProviderEmptyAnswer)
}

/// True if the model can be asked again after this turn.
fn may_ask(op: &OperationRun<'_>, report: &TurnReport) -> bool {
    let steps_max = op.task.request.budget.max_steps.unwrap_or(limits::TURN_STEPS_MAX);
    let is_late = op.deadline.is_some_and(|deadline| deadline <= Instant::now());
    matches!(report.end, Ok(TurnEnd::Complete)) && report.steps < steps_max && !is_late && !op.task.is_analyst()
}

/// The context size that the server reports. That of a local server is usually smaller than our default.
async fn context_tokens(job: &SessionRun, provider: &dyn Provider, deadline: Option<Instant>) -> Option<u64> {
    await_until(job, deadline, provider.context_tokens()).await.flatten()
}

/// Price of the model: from the user's table or, if the cost is limited, from the provider's list.
async fn find_price(
    job: &SessionRun,
    task: &OperationTask,
    provider: &dyn Provider,
    deadline: Option<Instant>,
) -> Result<Option<TokenPrice>, Problem> {
    let settings = &task.settings.provider;
    let known = settings.price();
    if known.is_some() || task.request.budget.max_cost.is_none() || task.is_analyst() {
        return Ok(known);
    }
    let listed = await_until(job, deadline, provider.listed_price()).await.flatten();
    if listed.is_none() {
        let message = format!(
            "The cost cannot be bounded: the price of `{}` is not known",
            settings.model
        );
        let hint = format!(
            "set `input` and `output` below [prices.\"{}\"] of config.toml, in US dollars for a million tokens",
            settings.model
        );
        return Err(Problem::new(ErrorKind::ConfigPriceMissing, message).with_hint(hint));
    }
    Ok(listed)
}

/// Waits for `wait`; `None` if the session ends first.
async fn await_until<T>(job: &SessionRun, deadline: Option<Instant>, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = job.cancel.cancelled() => None,
        () = wait_until(deadline) => None,
        outcome = wait => Some(outcome),
    }
}

/// Lists the tools, on a blocking thread. The list stays the same for the whole session.
async fn list_tools(job: &SessionRun, operation: Operation, context_tokens: Option<u64>) -> Result<ToolList, Problem> {
    let (engine, locked) = (Arc::clone(&job.engine), job.plan.locked.clone());
    run_blocking(move || {
        let scope = SkillScope {
            lock: locked.as_deref().map(|lock| lock as _),
            operation: Some(operation),
        };
        Ok(RequestForm::for_context(context_tokens).list_tools(engine.specs(scope), operation, context_tokens))
    })
    .await
}

/// Limit for the definitions of a file in a message.
const DEFINITIONS_MAX: usize = 1000;

struct PreparedContext {
    packet: Packet,
    message: String,
    inherited: InheritedState,
}

/// Adds facts about a directory or a symbol to the analyst's request. Facts that cannot be found are left out.
fn add_facts(
    message: &str,
    target: &Target,
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    filter: &tool_context::SelectionFilter,
    is_full: bool,
    cancel: &CancellationToken,
) -> String {
    let directory = match target {
        Target::Root => "",
        Target::Directory(path) => path,
        Target::Symbol {
            name,
            inherited_by,
            places,
        } => {
            let place = |place: &tool_context::SymbolPlace| (place.path.clone(), place.first);
            let first = places.first().map(|place| place.path.as_str());
            let facts = TargetFacts {
                definitions: first.and_then(|path| read_definitions(path, repository, indexes, cancel)),
                symbol: Some(TargetSymbol {
                    name: name.clone(),
                    inherited_by: inherited_by.clone(),
                    places: places.iter().map(place).collect(),
                }),
                calls: tool_context::draw_calls(repository, indexes, name, "", cancel).unwrap_or_default(),
                ..TargetFacts::default()
            };
            return tool_analyst::add_facts(message, &facts);
        }
        Target::File(path) => {
            let facts = TargetFacts {
                definitions: read_definitions(path, repository, indexes, cancel),
                ..TargetFacts::default()
            };
            return tool_analyst::add_facts(message, &facts);
        }
        Target::Lines { path, first, last } => {
            let mut definitions = read_definitions(path, repository, indexes, cancel);
            let overlaps = |one: &FileDefinition| one.first_line <= *last && *first <= one.last_line;
            definitions.iter_mut().for_each(|all| all.retain(overlaps));
            let facts = TargetFacts {
                calls: definitions
                    .as_deref()
                    .and_then(innermost_definition)
                    .map_or_else(CallGraph::default, |one| {
                        tool_context::draw_calls(repository, indexes, &one.qualified_name(), path, cancel)
                            .unwrap_or_default()
                    }),
                definitions,
                ..TargetFacts::default()
            };
            return tool_analyst::add_facts(message, &facts);
        }
        _ => return message.to_owned(),
    };
    let draw = |by_package| tool_context::draw_modules(repository, indexes, directory, by_package, cancel);
    let changes = tool_context::recent_changes(repository, indexes, directory, filter, cancel);
    let endpoints = tool_context::find_endpoints(repository, indexes, directory, cancel).unwrap_or_default();
    let declared = |found: Vec<tool_context::Endpoint>| found.into_iter().map(declared_endpoint).collect();
    let facts = TargetFacts {
        routes: declared(endpoints.routes),
        commands: declared(endpoints.commands),
        modules: draw(false).unwrap_or_default(),
        packages: draw(true).unwrap_or_default(),
        changes: changes.ok().flatten().map(|changes| RecentChanges {
            commits: changes.commits,
            files: changes.files,
        }),
        is_full,
        ..TargetFacts::default()
    };
    tool_analyst::add_facts(message, &facts)
}

/// Definitions of a file, up to the limit of a message. `None` if its language has no parser.
fn read_definitions(
    path: &str,
    repository: &Repository,
    indexes: &Indexes,
    cancel: &CancellationToken,
) -> Option<Vec<FileDefinition>> {
    let definition = |found: tool_context::FoundDefinition| FileDefinition {
        name: found.name,
        container: found.container,
        signature: found.signature,
        is_holder: matches!(found.form, SymbolForm::Type | SymbolForm::Module),
        first_line: found.first_line,
        line: found.line,
        last_line: found.last_line,
        comment_line: found.comment_line,
    };
    let found = tool_context::outline_file(repository, indexes, path, cancel)
        .ok()?
        .into_iter();
    let is_listed = |found: &tool_context::FoundDefinition| found.form != SymbolForm::Value;
    Some(found.filter(is_listed).take(DEFINITIONS_MAX).map(definition).collect())
}

/// The only definition that neither encloses another one nor is enclosed, so that its callers are those of the lines.
fn innermost_definition(definitions: &[FileDefinition]) -> Option<&FileDefinition> {
    let mut inner = definitions.iter().filter(|one| !one.is_holder);
    let first = inner.next()?;
    inner.all(|other| first.holds(other)).then_some(first)
}

/// Adds what was measured about the parts of the repository that a task names to the analyst's request.
fn add_subjects(
    message: &str,
    target: &Target,
    selecting: &CheckedSelection,
    repository: &Arc<Repository>,
    cancel: &CancellationToken,
) -> Result<String, Problem> {
    let place = match target {
        Target::Directory(path) | Target::File(path) | Target::TaskIn { path, .. } => Some(path.as_str()),
        _ => None,
    };
    let words = [target.task(), selecting.focus.as_deref()];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join("\n");
    let (indexes, filter) = (&selecting.indexes, &selecting.filter);
    let facts = TargetFacts {
        subjects: tool_context::find_task_subjects(repository, indexes, &words, place, filter, cancel)?,
        ..TargetFacts::default()
    };
    Ok(tool_analyst::add_facts(message, &facts))
}

fn declared_endpoint(found: tool_context::Endpoint) -> DeclaredEndpoint {
    DeclaredEndpoint {
        path: found.path,
        line: found.line,
        last_line: found.last_line,
        methods: found.methods,
        name: found.name,
        handler: found.handler,
        help: found.help,
    }
}

/// Budget of a packet, assuming that the model's tokenizer has the same rate for other text as for this packet.
async fn packet_room(provider: &dyn Provider, context_tokens: Option<u64>, packet: &Packet, mark: LabelMark) -> u64 {
    let message = Message::User {
        text: packet.context.clone(),
    };
    let request = ModelRequest {
        system: "",
        messages: &[message],
        tools: &[],
        max_tokens: None,
        mark,
    };
    let context = context_tokens.unwrap_or(limits::CONTEXT_TOKENS);
    let rate = turn::token_rate(provider, context, &request).await;
    RequestForm::for_context(context_tokens).packet_tokens(context_tokens, rate)
}

/// Finds the target and builds the context, on a blocking thread.
async fn prepare_context(
    job: &SessionRun,
    task: &OperationTask,
    deadline: Option<Instant>,
    provider: &dyn Provider,
    context_tokens: Option<u64>,
) -> Result<PreparedContext, Problem> {
    let repository = Arc::clone(&job.plan.repository);
    let cancel = job.cancel.child_token();
    let _guard = cancel.clone().drop_guard();
    let operation = task.request.operation;
    let form = RequestForm::for_context(context_tokens);
    let mut selecting = CheckedSelection {
        operation,
        target: task.request.target.clone(),
        task: task.request.task.clone(),
        focus: task.request.focus.clone(),
        working_directory: task.working_directory.clone(),
        vault: task.settings.vault.clone(),
        filter: Arc::clone(&task.filter),
        indexes: Arc::clone(&job.indexes),
        redactor: Arc::clone(&job.plan.redactor),
        budget_tokens: form.packet_tokens(context_tokens, TokenRate::CODE),
    };
    let (is_analyst, is_full) = (task.is_analyst(), task.request.full);
    let (past, mark) = (task.past.clone(), task.mark);
    let is_task_foreign = job.plan.policy.is_task_untrusted();
    let build = move |selecting: CheckedSelection| {
        let (target, packet) = selecting.build(&repository, &cancel)?;
        match &target {
            Target::Task(_) if is_analyst && operation == Operation::Explain => {
                return Err(tool_analyst::refuse_question());
            }
            Target::Paths(_) if is_analyst => return Err(tool_analyst::refuse_several_targets()),
            _ => {}
        }
        let name = repository.root().file_name().unwrap_or_default().to_string_lossy();
        let message = operation::user_message(
            operation,
            &name,
            &target,
            selecting.focus.as_deref(),
            &packet,
            is_task_foreign,
            form.is_short(),
        );
        let indexes = &selecting.indexes;
        let message = match operation {
            Operation::Explain if is_analyst => add_facts(
                &message,
                &target,
                &repository,
                indexes,
                &selecting.filter,
                is_full,
                &cancel,
            ),
            Operation::Architect if is_analyst => add_subjects(&message, &target, &selecting, &repository, &cancel)?,
            _ => message,
        };
        let inherited = past.as_ref().map_or_else(InheritedState::default, |past| {
            InheritedState::compare_files(past, mark, &repository, &cancel)
        });
        Ok::<_, Problem>(PreparedContext {
            packet,
            message,
            inherited,
        })
    };
    let build = Arc::new(build);
    let mut selections = 0;
    let prepared = loop {
        selections += 1;
        let (build, selected) = (Arc::clone(&build), selecting.clone());
        let prepared = tokio::select! {
            biased;
            // Dropping the guard cancels the walk.
            () = wait_until(deadline) => return Err(judge::out_of_time(task, "the context was not built, and no model was asked")),
            // The semaphore is never closed. Without a permit the session was cancelled, and the walk ends at once.
            prepared = async {
                let _permit = job.cancel.run_until_cancelled(job.contexts.acquire()).await;
                tokio::task::spawn_blocking(move || build(selected)).await
            } => prepared,
        };
        let prepared = prepared.map_err(|_| operation_failed(&SessionWork::Operation(operation)))??;
        if !form.is_short() || selections == SELECTIONS_MAX {
            break prepared;
        }
        let room = packet_room(provider, context_tokens, &prepared.packet, mark).await;
        // A tokenizer may make more tokens of the packet than was assumed.
        let is_small = room + room / 20 >= tool_context::packet_tokens(prepared.packet.context.len());
        if is_small || room >= selecting.budget_tokens {
            break prepared;
        }
        selecting.budget_tokens = room;
    };
    job.recorder.event(job.recorder.summary().start.turn_event());
    job.recorder.event(Event::Selection {
        files: prepared.packet.selected.clone(),
    });
    for notice in &prepared.packet.notices {
        job.recorder.notice(notice.clone(), None);
    }
    Ok(prepared)
}
