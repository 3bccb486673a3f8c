//! An operation from its request to its end: the context, the turns, and what surrounds them.
//!
//! What is particular to one of the four operations is in `review`; how an end is judged is in `judge`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::judge::{self, judge};
use super::review::{Answer, Closing, Desk, Next, Review};
use super::tools::SessionTools;
use super::{Job, OperationTask, Outcome, operation_failed};
use crate::api::{Event, Problem};
use crate::config::Api;
use crate::context::{self, BuildRequest, Packet};
use crate::limits;
use crate::operation::{self, Target};
use crate::provider::{Message, Provider, Usage};
use crate::session::journal::Work;
use crate::turn::{self, Turn, TurnEnd, TurnReport, until};

/// Runs an operation to its end. Everything in it shares the session's deadline.
pub(super) async fn operate(job: &Job, task: &OperationTask) -> Result<Outcome, Problem> {
    let deadline = task.budget.timeout_seconds.map(Duration::from_secs);
    let deadline = deadline.and_then(|timeout| Instant::now().checked_add(timeout));
    let prepared = prepare(job, task, deadline).await?;
    let provider = job.engine.connect(&task.settings.provider, &job.environment)?;
    let tools = SessionTools::new(job, &prepared.packet);
    let desk = Desk {
        job,
        task,
        target: &prepared.target,
        tools: &tools,
        deadline,
    };
    let mut review = Review::new(task.operation);
    let facts = review.before(&desk).await?;
    let mut report = converse(&desk, &*provider, begin(prepared.message, &facts), Spent::default()).await;
    let mut text = report.text.clone();
    let mut asked = 0;
    let closing = loop {
        let answer = Answer {
            turn: &report,
            text: &text,
            may_ask: asked < limits::FOLLOW_UPS_MAX && may_ask(&desk, &report),
        };
        let may_ask = answer.may_ask;
        let follow_up = match review.after(&desk, &answer).await {
            Next::End(closing) => break closing,
            // It was told that nobody answers any more.
            Next::Ask(_) if !may_ask => break Closing::default(),
            Next::Ask(follow_up) => follow_up,
        };
        asked += 1;
        desk.say(&follow_up.heading);
        let spent = Spent::of(&report);
        let mut messages = std::mem::take(&mut report.messages);
        messages.push(Message::User {
            text: follow_up.message,
        });
        report = converse(&desk, &*provider, messages, spent).await;
        text = format!("{text}\n\n{}", report.text);
    };
    desk.say(&closing.text);
    let denials = tools.take_denials();
    for denial in &denials {
        job.recorder.notice(denial.sentence(), denial.hint.clone());
    }
    Ok(judge(job, task, &report, &denials, closing.problem))
}

/// The first message: the request and the packet, and what the host found out before.
fn begin(message: String, facts: &str) -> Vec<Message> {
    let text = match facts.trim() {
        "" => message,
        facts => format!("{message}\n{facts}\n"),
    };
    vec![Message::User { text }]
}

/// What earlier turns of a session have cost.
#[derive(Default)]
struct Spent {
    steps: u32,
    usage: Usage,
}

impl Spent {
    fn of(report: &TurnReport) -> Self {
        Self {
            steps: report.steps,
            usage: report.usage,
        }
    }
}

/// One turn, within what is left of the session's budget.
async fn converse(desk: &Desk<'_>, provider: &dyn Provider, messages: Vec<Message>, spent: Spent) -> TurnReport {
    let (tools, task) = (desk.tools, desk.task);
    let system = operation::system_prompt(task.operation);
    let mut turn = Turn::new(provider, tools, tools, system, messages);
    turn.cancel = desk.job.cancel.clone();
    turn.steps = spent.steps;
    turn.usage = spent.usage;
    turn.steps_max = task.budget.max_steps.unwrap_or(turn.steps_max);
    turn.tokens_max = task.budget.max_tokens;
    turn.deadline = desk.deadline;
    if is_analyst(task) {
        // It has no context that could overflow, and writes from results that a model would have forgotten.
        turn.context_tokens_max = u64::MAX;
    }
    // Boxed because the compiler cannot see through the loop's own futures that all of this may change threads.
    let running: Pin<Box<dyn Future<Output = TurnReport> + Send + '_>> = Box::pin(turn::run(turn));
    running.await
}

/// Whether the model can be asked once more after this turn.
fn may_ask(desk: &Desk<'_>, report: &TurnReport) -> bool {
    let steps_max = desk.task.budget.max_steps.unwrap_or(limits::TURN_STEPS_MAX);
    let is_late = desk.deadline.is_some_and(|deadline| deadline <= Instant::now());
    matches!(report.end, Ok(TurnEnd::Complete)) && report.steps < steps_max && !is_late && !is_analyst(desk.task)
}

fn is_analyst(task: &OperationTask) -> bool {
    task.settings.provider.api == Api::Analyst
}

struct Prepared {
    target: Target,
    packet: Packet,
    message: String,
}

/// Finds the target and builds the context, on a blocking thread.
async fn prepare(job: &Job, task: &OperationTask, deadline: Option<Instant>) -> Result<Prepared, Problem> {
    let repository = Arc::clone(&job.repository);
    let cancel = job.cancel.child_token();
    let _guard = cancel.clone().drop_guard();
    let operation = task.operation;
    let (target, text, focus) = (task.target.clone(), task.task.clone(), task.focus.clone());
    let (working_directory, vault) = (task.working_directory.clone(), task.settings.vault.clone());
    let build = move || {
        let target = operation::resolve_target(
            operation,
            target.as_deref(),
            text.as_deref(),
            &repository,
            &working_directory,
        )?;
        let request = BuildRequest {
            repository: &repository,
            operation,
            target: &target,
            focus: focus.as_deref(),
            vault: vault.as_deref(),
            budget_tokens: limits::PACKET_TOKENS,
            cancel: &cancel,
        };
        let packet = context::build(&request).map_err(Problem::from)?;
        let message = operation::user_message(operation, &target, focus.as_deref(), &packet);
        Ok::<_, Problem>(Prepared {
            target,
            packet,
            message,
        })
    };
    let prepared = tokio::select! {
        biased;
        // The guard ends the walk.
        () = until(deadline) => return Err(judge::out_of_time(task, "the context was not built, and no model was asked")),
        prepared = tokio::task::spawn_blocking(build) => prepared,
    };
    let mut prepared = prepared.map_err(|_| operation_failed(&Work::Operation(operation)))??;
    for file in &mut prepared.packet.selected {
        // What is no number has no place in JSON.
        file.score = if file.score.is_finite() { file.score } else { 0.0 };
    }
    job.recorder.event(Event::Selection {
        files: prepared.packet.selected.clone(),
    });
    for notice in &prepared.packet.notices {
        job.recorder.notice(notice.clone(), None);
    }
    Ok(prepared)
}
