//! Steps around the turn of each operation: work before it, the check of the answer after it, and follow-ups.
//!
//! The seam between the one way in which sessions run and the four things that they are for. `before` runs once, when
//! the context is built and before the first request; its text goes to the model below the packet. `after` runs when a
//! turn has ended, however it ended, and decides: the session ends, with words of the host and perhaps a problem, or
//! the model is asked once more, with the whole conversation, within the rest of the budget.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::architect::Architect;
use super::operate::is_analyst;
use super::refactor::Refactor;
use super::request_form::RequestForm;
use super::test_gen::TestGen;
use super::tools::SessionTools;
use super::{OperationTask, SessionRun};
use crate::limits;
use tool_config::TokenPrice;
use tool_context::operation::{
    self,
    verify::{self, CheckedCitations},
};
use tool_core::api::{Event, Operation, Problem, RunPurpose};
use tool_core::text::TokenRate;
use tool_provider::turn::{self, CostBound, Tools as _, TurnEnd, TurnReport};
use tool_provider::{LabelMark, Message, ModelRequest, Provider};
use tool_skill::{CallReport, runnable_purposes};

/// Time for checking the citations of an answer. It is milliseconds, unless the disk hangs.
const CITATIONS_SECONDS_MAX: u64 = 20;

/// The operation's own part of a session, with what it must remember from before the turn.
pub(super) enum Review {
    Explain,
    Architect(Architect),
    Refactor(Refactor),
    TestGen(TestGen),
}

/// Inputs and tools of a review.
pub(super) struct Desk<'a> {
    pub(super) job: &'a SessionRun,
    pub(super) task: &'a OperationTask,
    pub(super) tools: &'a SessionTools<'a>,
    /// The end of the session's time.
    pub(super) deadline: Option<Instant>,
    /// The model's context, where the provider tells it.
    pub(super) context_tokens: Option<u64>,
    /// Content of the requests in that context.
    pub(super) form: RequestForm,
    /// Rate of the model's tokenizer, measured by the first request.
    pub(super) rate: TokenRate,
    /// Price of the model's tokens, where it is known.
    pub(super) price: Option<TokenPrice>,
    /// The mark in the labels of the session's tool results.
    pub(super) mark: LabelMark,
}

/// The model's answer so far.
pub(super) struct DraftAnswer<'a> {
    /// End of the last turn.
    pub(super) turn: &'a TurnReport,
    /// All answer text of the session, earlier turns included, without the host's words.
    pub(super) text: &'a Arc<String>,
    /// Offset of the last turn's text in it.
    pub(super) latest: usize,
    /// False where the model cannot be asked again: it did not end properly, or the budget is spent.
    pub(super) may_ask: bool,
}

/// Decision after a turn.
pub(super) enum Next {
    /// The session ends.
    End(Closing),
    /// The model is asked once more. Only where the answer says `may_ask`.
    Ask(FollowUp),
}

/// The end of a session, as its review sees it.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Words of the host below the answer; may be empty.
    pub(super) text: String,
    /// A failure that the review found; fails the session. The end of the turn and denials count first.
    pub(super) problem: Option<Problem>,
}

/// One more question to the model.
pub(super) struct FollowUp {
    /// Words of the host above what the model will say; may be empty.
    pub(super) heading: String,
    /// The message to the model.
    pub(super) message: String,
}

impl Review {
    pub(super) fn new(operation: Operation) -> Self {
        match operation {
            Operation::Explain => Self::Explain,
            Operation::Architect => Self::Architect(Architect::default()),
            Operation::Refactor => Self::Refactor(Refactor::default()),
            Operation::TestGen => Self::TestGen(TestGen::default()),
        }
    }

    /// Work before the model is asked. What it gives is appended to the first message; it may be empty.
    pub(super) async fn before(&mut self, desk: &Desk<'_>) -> Result<String, Problem> {
        match self {
            Self::Refactor(refactor) => Ok(refactor.before(desk).await),
            Self::Explain | Self::Architect(_) | Self::TestGen(_) => Ok(String::new()),
        }
    }

    /// Looks at the answer after each turn.
    pub(super) async fn after(&mut self, desk: &Desk<'_>, answer: &DraftAnswer<'_>) -> Next {
        match self {
            Self::Explain => Next::End(Closing::saying(citations(desk, answer).await)),
            Self::Architect(architect) => architect.after(desk, answer).await,
            Self::Refactor(refactor) => refactor.after(desk, answer).await,
            Self::TestGen(test_gen) => test_gen.after(desk, answer).await,
        }
    }
}

impl Closing {
    /// Words of the host, and nothing wrong.
    pub(super) fn saying(text: String) -> Self {
        Self { text, problem: None }
    }
}

/// Returns the closing line about the citations of an answer.
async fn citations(desk: &Desk<'_>, answer: &DraftAnswer<'_>) -> String {
    match desk.check_citations(answer.text).await {
        Ok(checked) => answer.remark(&checked),
        Err(why) => why,
    }
}

impl DraftAnswer<'_> {
    /// The closing line. Empty for an answer that broke off before it cited anything.
    pub(super) fn remark(&self, checked: &CheckedCitations) -> String {
        let is_whole = matches!(self.turn.end, Ok(TurnEnd::Complete));
        if is_whole || checked.total() > 0 {
            checked.line()
        } else {
            String::new()
        }
    }
}

impl Desk<'_> {
    /// The bound of the session's cost, where the user has set one.
    pub(super) fn cost_bound(&self) -> Option<CostBound> {
        let max_cost = self.task.budget.max_cost.zip(self.price);
        max_cost.map(|(max, price)| CostBound { price, max })
    }

    /// Counts the tokens of the first request. Fails if it is too long, before tests or checks run for it.
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
            mark: self.mark,
        };
        let rate = turn::token_rate(provider, context, &request).await;
        if rate.tokens(request.bytes()) > limits::conversation_tokens(context) {
            return Err(turn::too_long(context, &tools, rate));
        }
        Ok(rate)
    }

    /// Tokens of the model's context. The embedded analyst has no bound.
    pub(super) fn context(&self) -> u64 {
        let unknown = if is_analyst(self.task) {
            u64::MAX
        } else {
            limits::CONTEXT_TOKENS
        };
        self.context_tokens.unwrap_or(unknown)
    }

    /// Adds words of the host to the answer, below a line `---`, so that they never pass for the model's.
    pub(super) fn say(&self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            // Diffs and results of tests are the files' words, and an answer is kept and sent on.
            let text = self.job.redactor.text(text, None);
            self.write(format!("{}---\n\n{text}\n", self.job.recorder.paragraph()));
        }
    }

    /// Prepares for more words of the model, below a heading of the host where there is one.
    pub(super) fn announce(&self, heading: &str) {
        self.say(heading);
        self.write(self.job.recorder.paragraph().to_owned());
    }

    /// An event of its own, at once: collected text could come too late for the report.
    fn write(&self, content: String) {
        if !content.is_empty() {
            self.job.recorder.event(Event::Token { content });
        }
    }

    /// Looks up what a text cites, on a blocking thread and for a bounded time. The error is a sentence for the user.
    pub(super) async fn check_citations(&self, text: &Arc<String>) -> Result<CheckedCitations, String> {
        let (text, repository) = (Arc::clone(text), Arc::clone(&self.job.repository));
        let cancel = self.job.cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        let check = tokio::task::spawn_blocking(move || verify::check(&text, &repository, &cancel));
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
        // A look that failed must not pass for a repository without tests.
        look.await.unwrap_or_else(|_| vec![RunPurpose::Tests])
    }

    /// Calls a skill for the host itself: under the same policy and on the same record as a call of the model's.
    /// Ends with the session's time.
    pub(super) async fn call(&self, skill: &str, arguments: Value) -> CallReport {
        self.tools.call_for_host(skill, arguments, self.deadline).await
    }
}
