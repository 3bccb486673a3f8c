//! Steps around the turns of each operation: work beside the turns, a check of the answer after each turn, and
//! further questions.
//!
//! All sessions run in the same way; this is the part that differs between the operations. `beside` runs once, beside
//! the turns. `after` runs after each turn, however it ended, and decides: the session ends, with text of the host and
//! perhaps a problem, or the model is asked again, with the whole conversation and the rest of the budget.

mod architect;
mod explain;
mod refactor;
mod test_gen;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::time::Instant;

use super::SessionRun;
use super::checks::project_checks::CheckRun;
use super::checks::suite::SuiteRun;
use super::request_form::RequestForm;
use super::tools::SessionTools;
use crate::limits;
use crate::plan::OperationTask;
use tool_config::TokenPrice;
use tool_context::operation::{
    self,
    verify::{self, CheckedCitations},
};
use tool_core::api::{Event, Operation, Problem, RunPurpose};
use tool_core::text::TokenRate;
use tool_provider::turn::{self, CostBound, Tools as _, TurnEnd, TurnReport};
use tool_provider::{Message, ModelRequest, Provider, Usage};
use tool_skill::{CallReport, runnable_purposes};

/// Time limit for checking the citations of an answer in seconds. Checking takes milliseconds, unless the disk hangs.
const CITATIONS_SECONDS_MAX: u64 = 20;

/// Work of an operation around the model's turns.
pub(super) type Step<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an operation does beside the model's turns and after each of them.
pub(super) trait OperationSteps: Send {
    /// Work that begins with the first request. The session ends it if it needs it no more.
    fn beside<'a>(&self, _: &'a OperationRun<'_>) -> Step<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Looks at the answer after each turn.
    fn after<'a>(&'a mut self, op: &'a OperationRun<'_>, answer: &'a DraftAnswer<'_>) -> Step<'a, Next>;
}

/// The steps of an operation.
pub(super) fn steps_of(operation: Operation) -> Box<dyn OperationSteps> {
    match operation {
        Operation::Explain => Box::new(explain::Explain),
        Operation::Architect => Box::<architect::Architect>::default(),
        Operation::Refactor => Box::new(refactor::RefactorReview),
        Operation::TestGen => Box::<test_gen::TestGen>::default(),
    }
}

/// Inputs and tools of the steps.
pub(super) struct OperationRun<'a> {
    pub(super) job: &'a SessionRun,
    pub(super) task: &'a OperationTask,
    pub(super) tools: &'a SessionTools<'a>,
    /// Deadline of the session.
    pub(super) deadline: Option<Instant>,
    /// Context size of the model, if the provider reports it.
    pub(super) context_tokens: Option<u64>,
    /// Content of the requests for that context.
    pub(super) form: RequestForm,
    /// Rate of the model's tokenizer, measured with the first request.
    pub(super) rate: TokenRate,
    /// Price of the model's tokens, if it is known.
    pub(super) price: Option<TokenPrice>,
    /// Tests and checks before any change, once they have ended.
    pub(super) baseline: OnceLock<Baseline>,
}

/// Tests and checks before any change.
#[derive(Debug)]
pub(super) struct Baseline {
    tests: SuiteRun,
    checks: Vec<CheckRun>,
}

/// The model's answer so far.
pub(super) struct DraftAnswer<'a> {
    /// Report of the last turn.
    pub(super) turn: &'a TurnReport,
    /// All answer text of the session, earlier turns included, without text of the host.
    pub(super) text: &'a Arc<String>,
    /// Offset of the last turn's text in it.
    pub(super) latest: usize,
    /// False if the model cannot be asked again: the turn did not end properly, or the budget is spent.
    pub(super) may_ask: bool,
}

/// Decision after a turn.
pub(super) enum Next {
    /// End the session.
    End(Closing),
    /// Ask the model again; only if the draft has `may_ask`.
    Ask(FollowUp),
}

/// The end of a session as the operation's steps decide it.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Text of the host below the answer; may be empty.
    pub(super) text: String,
    /// Failure of the session. The end of the turn and denials take precedence.
    pub(super) problem: Option<Problem>,
}

/// Cost of the session's requests so far, and the number of recorded messages.
#[derive(Default)]
pub(super) struct Spent {
    pub(super) steps: u32,
    pub(super) usage: Usage,
    pub(super) known: usize,
}

impl Spent {
    pub(super) fn of(report: &TurnReport) -> Self {
        Self {
            steps: report.steps,
            usage: report.usage,
            known: report.messages_known(),
        }
    }
}

/// A further question to the model.
pub(super) struct FollowUp {
    /// Text of the host above the model's next text; may be empty.
    pub(super) heading: String,
    /// Message to the model.
    pub(super) message: String,
}

impl Closing {
    /// Ends the session with text of the host and no failure.
    pub(super) fn saying(text: String) -> Self {
        Self { text, problem: None }
    }
}

impl DraftAnswer<'_> {
    /// The last line about citations. Empty for an answer that was interrupted before its first citation, and for one of
    /// the analyst without a wrong citation: it cites what it has read.
    pub(super) fn remark(&self, checked: &CheckedCitations, is_analyst: bool) -> String {
        let is_whole = matches!(self.turn.end, Ok(TurnEnd::Complete));
        if checked.has_fault() || !is_analyst && (is_whole || checked.total() > 0) {
            checked.line()
        } else {
            String::new()
        }
    }
}

impl OperationRun<'_> {
    /// Cost limit of the session, if the user has set one.
    pub(super) fn cost_bound(&self) -> Option<CostBound> {
        let max_cost = self.task.request.budget.max_cost.zip(self.price);
        max_cost.map(|(max, price)| CostBound { price, max })
    }

    /// Name of an option for the client of the session: a flag, or a field of the request.
    pub(super) fn option_name(&self, flag: &'static str, field: &'static str) -> &'static str {
        if self.task.request.is_of_program { field } else { flag }
    }

    /// Counts the tokens of the first request. Fails if it is too long, before tests or checks run.
    pub(super) async fn measure_first_request(
        &self,
        provider: &dyn Provider,
        message: &Message,
    ) -> Result<TokenRate, Problem> {
        let (context, tools) = (self.context(), self.tools.specs());
        let request = ModelRequest {
            system: operation::system_prompt(self.form.is_short()),
            messages: std::slice::from_ref(message),
            tools: &tools,
            max_tokens: None,
            mark: self.task.mark,
        };
        let rate = turn::token_rate(provider, context, &request).await;
        if rate.tokens(request.bytes()) > limits::conversation_tokens(context) {
            return Err(turn::too_long(context, &tools, rate));
        }
        Ok(rate)
    }

    /// Tokens of the model's context. The embedded analyst has no limit.
    pub(super) fn context(&self) -> u64 {
        let unknown = if self.task.is_analyst() {
            u64::MAX
        } else {
            limits::CONTEXT_TOKENS
        };
        self.context_tokens.unwrap_or(unknown)
    }

    /// Adds text of the host to the answer, below a line `---`, so that it is not mistaken for the model's.
    pub(super) fn say(&self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            // Diffs and test results contain text of files, and an answer is stored and passed on.
            let text = self.job.plan.redactor.text(text, None);
            self.write(format!("{}---\n\n{text}\n", self.job.recorder.paragraph()));
        }
    }

    /// Prepares for further text of the model, below a heading of the host if there is one.
    pub(super) fn announce(&self, heading: &str) {
        self.say(heading);
        self.write(self.job.recorder.paragraph().to_owned());
    }

    /// Send an event at once: collected text could miss the report.
    fn write(&self, content: String) {
        if !content.is_empty() {
            self.job.recorder.event(Event::Token { content });
        }
    }

    /// Checks the citations of a text, on a blocking thread and within a time limit. The error is a sentence for the
    /// user.
    pub(super) async fn check_citations(&self, text: &Arc<String>) -> Result<CheckedCitations, String> {
        let (text, repository) = (Arc::clone(text), Arc::clone(&self.job.plan.repository));
        let cancel = self.job.cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        let check = tokio::task::spawn_blocking(move || verify::check_citations(&text, &repository, &cancel));
        let patience = limits::seconds(CITATIONS_SECONDS_MAX);
        let why = match tokio::time::timeout(patience, check).await {
            Ok(Ok(Ok(checked))) => return Ok(checked),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the check failed".to_owned(),
            Err(_) => format!("it took more than {} s", patience.as_secs()),
        };
        Err(format!("The citations of this answer were not checked: {why}."))
    }

    /// The purposes, tests or checks, for which the repository has something to run. Runs nothing.
    pub(super) async fn runnable_purposes(&self) -> Vec<RunPurpose> {
        let context = self.tools.context();
        let look = tokio::task::spawn_blocking(move || runnable_purposes(&context));
        // A failed search must not look like a repository without tests.
        look.await.unwrap_or_else(|_| vec![RunPurpose::Tests])
    }

    /// Calls a skill for the host, with the same policy and record as a call of the model. Ends at the session's
    /// deadline.
    pub(super) async fn call(&self, skill: &str, arguments: Value) -> CallReport {
        self.tools.call_for_host(skill, arguments, self.deadline).await
    }
}
