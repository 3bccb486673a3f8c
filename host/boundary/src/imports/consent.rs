//! Asking the user, where the policy says so, once it is known what exactly would happen.

use crate::bindings::tool::skill::types::Failure;
use crate::failure::hinted;
use crate::policy::Decision;
use crate::{CallContext, Question};
use tool_core::api::Effect;

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
    not_denied(context, question.effect())?;
    match context.decide(question.effect()) {
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
    not_denied(context, question.effect())?;
    if context.conversation.refusals.is_final(question.effect()) {
        return Err(super::denied(context.denial(question.effect())));
    }
    if context.approver.can_ask() {
        ask(context, question)
    } else {
        Err(refusal())
    }
}

/// Asks, and returns true for a yes. The only way to the user: every question has the taint in its title, and every no
/// counts.
pub fn agrees(context: &CallContext, question: &Question) -> bool {
    let refusals = &context.conversation.refusals;
    if refusals.is_final(question.effect()) {
        return false;
    }
    let is_yes = context.approver.ask(&with_taint(context, question), &context.cancel);
    if !is_yes && !context.approver.is_crowded() && !context.cancel.is_cancelled() {
        refusals.note(question.effect());
    }
    is_yes
}

fn ask(context: &CallContext, question: &Question) -> Result<(), Failure> {
    if agrees(context, question) {
        return Ok(());
    }
    Err(not_asked(context).unwrap_or_else(|| {
        hinted(
            "denied",
            format!("{DISAGREED}`{}`", question.effect()),
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
    match context.conversation.taint.because() {
        Some(because) => question.with_remark(&format!("tainted: {because}")),
        None => question.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Approver;
    use crate::policy::{Cause, Policy};
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::{Options, Repository};

    /// Says no, and counts.
    #[derive(Default)]
    struct Refusing(AtomicUsize);

    impl Approver for Refusing {
        fn can_ask(&self) -> bool {
            true
        }

        fn ask(&self, _: &Question, _: &CancellationToken) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            false
        }
    }

    #[test]
    fn after_two_noes_an_effect_is_denied_for_the_session_and_the_model_is_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repository = Repository::open(folder.path(), &Options::default()).expect("it is a folder");
        let policy = Policy::new(Cause::Operation(Operation::Refactor), &PolicyRequest::default());
        let user = Arc::new(Refusing::default());
        let context = CallContext {
            approver: Arc::clone(&user) as _,
            ..CallContext::unattended(repository, policy.expect("it is right"))
        };
        let commit = Question::new(Effect::CommitGit, "Commit", "+x");
        let refusal = || obtain(&context, &commit).expect_err("the user says no");
        assert_eq!(refusal().message, "The user did not agree to `commit-git`");
        assert_eq!(context.decide(Effect::CommitGit), Decision::Ask);
        refusal();
        assert_eq!(context.decide(Effect::CommitGit), Decision::Deny);
        for _ in 0..50 {
            let told = refusal();
            assert_eq!(
                told.message,
                "The effect `commit-git` is denied for the rest of this session."
            );
            assert_eq!(
                told.hint.as_deref(),
                Some("the user said no to `commit-git` twice: go on without it, and say what is left to do")
            );
            obtain_afresh(&context, &commit, || unreachable!("the user can be asked")).expect_err("it is denied");
        }
        assert_eq!(user.0.load(Ordering::Relaxed), 2, "no third question");
        assert_eq!(
            context.decide(Effect::Install),
            Decision::Ask,
            "another effect is asked about"
        );
    }
}
