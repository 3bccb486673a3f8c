//! Asking the user, where the policy says so, once it is known what exactly would happen.

use crate::bindings::tool::skill::types::Failure;
use crate::failure::hinted;
use crate::policy::Decision;
use crate::{CallContext, Question};
use tool_core::api::Effect;
use tool_core::text::clean_line;

/// Start of the message of a failure after the user has said no.
pub(crate) const DISAGREED: &str = "The user did not agree to ";

/// Refuses at once what the policy denies, before any work is done for it.
pub fn not_denied(context: &CallContext, effect: Effect) -> Result<(), Failure> {
    match context.decide(effect) {
        Decision::Allow | Decision::Ask => Ok(()),
        Decision::Deny => Err(super::denied(context.denial(effect))),
    }
}

/// Goes on where the policy allows the effect or the user says yes to exactly this.
pub fn obtain(context: &CallContext, question: &Question) -> Result<(), Failure> {
    not_denied(context, question.effect)?;
    match context.decide(question.effect) {
        Decision::Allow => Ok(()),
        Decision::Ask | Decision::Deny => ask(context, question),
    }
}

/// Obtains a yes to an effect that an earlier grant could not foresee: only a yes to exactly this question counts.
/// Returns the refusal if no user can be asked.
pub fn obtain_afresh(
    context: &CallContext,
    question: &Question,
    refusal: impl FnOnce() -> Failure,
) -> Result<(), Failure> {
    not_denied(context, question.effect)?;
    if context.approver.can_ask() {
        ask(context, question)
    } else {
        Err(refusal())
    }
}

fn ask(context: &CallContext, question: &Question) -> Result<(), Failure> {
    if context.approver.ask(&with_taint(context, question), &context.cancel) {
        return Ok(());
    }
    Err(not_asked(context).unwrap_or_else(|| {
        hinted(
            "denied",
            format!("{DISAGREED}`{}`", question.effect),
            "do not ask again for the same",
        )
    }))
}

/// Returns the failure if too many open questions kept this one from the user; `None` otherwise.
pub fn not_asked(context: &CallContext) -> Option<Failure> {
    context.approver.is_crowded().then(|| {
        hinted(
            "unavailable",
            "too many other calls wait for an answer of the user; this one was not asked about".to_owned(),
            "let the user answer one of them, and call again",
        )
    })
}

/// The question with what the user should know of the conversation that led to it.
fn with_taint(context: &CallContext, question: &Question) -> Question {
    let mut question = question.clone();
    if let Some(because) = context.conversation.taint.because() {
        question.title.push_str(&format!(" [tainted: {because}]"));
    }
    // Names of files are in both.
    question.title = clean_line(&question.title);
    question
}
