//! Asks the user if the policy requires it, once it is known exactly what would happen.

use crate::Failure;
use crate::policy::Decision;
use crate::{CallContext, Question, UserAnswer};
use tool_core::api::Effect;

/// Start of the message of a failure after the user has said no.
pub(crate) const DISAGREED: &str = "The user did not agree to ";

/// Refuses an effect that the policy denies, before any work is done for it.
///
/// # Errors
///
/// `denied`.
pub fn not_denied(context: &CallContext, effect: Effect) -> Result<(), Failure> {
    match context.decide(effect) {
        Decision::Allow | Decision::Ask => Ok(()),
        Decision::Deny => Err(super::denied_failure(context.denial(effect))),
    }
}

/// Returns if the policy allows the effect, or the user says yes to exactly this.
///
/// # Errors
///
/// `denied` after a no, and `unavailable` if too many questions are open.
pub fn obtain_consent(context: &CallContext, question: &Question) -> Result<(), Failure> {
    not_denied(context, question.effect())?;
    match context.decide(question.effect()) {
        Decision::Allow => Ok(()),
        Decision::Ask | Decision::Deny if context.may_last(question.effect()) => ask_user(context, &question.lasting()),
        Decision::Ask | Decision::Deny => ask_user(context, question),
    }
}

/// Obtains a yes to an effect that an earlier grant could not foresee: only a yes to exactly this question counts.
///
/// # Errors
///
/// `denied` after a no, and `refusal` if no user can be asked.
pub fn obtain_afresh(
    context: &CallContext,
    question: &Question,
    refusal: impl FnOnce() -> Failure,
) -> Result<(), Failure> {
    not_denied(context, question.effect())?;
    if context.conversation.refusals.is_final(question.effect()) {
        return Err(super::denied_failure(context.denial(question.effect())));
    }
    if context.can_ask(question.effect()) {
        ask_user(context, question)
    } else {
        Err(refusal())
    }
}

/// Asks the user, and returns true for a yes. Every question passes through here: it gets the taint in its title, and
/// the answer is recorded for the session.
pub fn user_agrees(context: &CallContext, question: &Question) -> bool {
    let effect = question.effect();
    let crate::Conversation {
        taint, refusals, yeses, ..
    } = &*context.conversation;
    if refusals.is_final(effect) || !context.can_ask(effect) {
        return false;
    }
    // Counted before the question: the user has not seen text that arrives while the question is open.
    let outside_texts = taint.texts();
    let remark = taint.because().map(|because| format!("tainted: {because}"));
    let asked = question.of_call(context.call_id.as_ref(), remark.as_deref());
    let answer = context.approver.ask(&asked, &context.cancel);
    if answer == UserAnswer::YesForSession && question.may_last() {
        yeses.note(effect, outside_texts);
    }
    if !answer.is_yes() && !context.approver.is_crowded() && !context.cancel.is_cancelled() {
        refusals.note(effect);
    }
    answer.is_yes()
}

fn ask_user(context: &CallContext, question: &Question) -> Result<(), Failure> {
    if user_agrees(context, question) {
        return Ok(());
    }
    Err(not_asked(context).unwrap_or_else(|| {
        Failure::denied(format!("{DISAGREED}`{}`", question.effect())).with_hint("do not ask again for the same")
    }))
}

/// Returns the failure if too many open questions kept this one from the user; `None` otherwise.
pub fn not_asked(context: &CallContext) -> Option<Failure> {
    context.approver.is_crowded().then(|| {
        Failure::unavailable("too many other calls wait for an answer of the user; this one was not asked about")
            .with_hint("let the user answer one of them, and call again")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Approver;
    use crate::policy::{EffectCause, Policy};
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::{Options, Repository};

    /// Answers always the same, and keeps the questions.
    struct User(UserAnswer, Mutex<Vec<Question>>);

    impl User {
        fn questions(&self) -> Vec<Question> {
            self.1.lock().expect("no panic").clone()
        }
    }

    impl Approver for User {
        fn can_ask(&self) -> bool {
            true
        }

        fn ask(&self, question: &Question, _: &CancellationToken) -> UserAnswer {
            self.1.lock().expect("no panic").push(question.clone());
            self.0
        }
    }

    /// The surroundings of a call, and the user. `ask` are the effects about which the client of an explanation wants to be
    /// asked; of a refactoring, where there are none.
    fn asking(folder: &tempfile::TempDir, answer: UserAnswer, ask: &[&str]) -> (CallContext, Arc<User>) {
        let repository = Repository::open(folder.path(), &Options::default()).expect("it is a folder");
        let ask: Vec<String> = ask.iter().map(|&name| name.to_owned()).collect();
        let operation = if ask.is_empty() {
            Operation::Refactor
        } else {
            Operation::Explain
        };
        let policy = Policy::new(EffectCause::Operation(operation), &PolicyRequest::default());
        let policy = policy.and_then(|policy| policy.asking(&ask, ask.is_empty()));
        let user = Arc::new(User(answer, Mutex::default()));
        let context = CallContext {
            approver: Arc::clone(&user) as _,
            call_id: Some("call_7".into()),
            ..CallContext::unattended(repository, policy.expect("it is right"))
        };
        (context, user)
    }

    fn commit() -> Question {
        Question::new(Effect::CommitGit, "Commit", "+x")
    }

    #[test]
    fn after_two_noes_an_effect_is_denied_for_the_session_and_the_model_is_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for ask in [&[][..], &["commit-git", "install"]] {
            let (context, user) = asking(&folder, UserAnswer::No, ask);
            let refusal = || obtain_consent(&context, &commit()).expect_err("the user says no");
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
                obtain_afresh(&context, &commit(), || unreachable!("the user can be asked")).expect_err("it is denied");
            }
            assert_eq!(user.questions().len(), 2, "no third question");
            assert_eq!(
                context.decide(Effect::Install),
                Decision::Ask,
                "another effect is asked about"
            );
        }
    }

    #[test]
    fn a_yes_counts_once_or_for_the_session_until_text_from_outside_comes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for ask in [&[][..], &["commit-git", "install", "run-process", "write-repository"]] {
            for effect in [
                Effect::CommitGit,
                Effect::Install,
                Effect::RunProcess,
                Effect::WriteRepository,
            ] {
                let question = Question::new(effect, "It", "happens");
                let (once, user) = asking(&folder, UserAnswer::Yes, ask);
                if once.decide(effect) == Decision::Allow {
                    continue;
                }
                for count in 1..3 {
                    obtain_consent(&once, &question).expect("the user says yes");
                    assert_eq!(user.questions().len(), count, "each call is asked about");
                }
                let (context, user) = asking(&folder, UserAnswer::YesForSession, ask);
                for _ in 0..3 {
                    obtain_consent(&context, &question).expect("the user says yes");
                }
                assert_eq!(user.questions().len(), 1, "{effect}");
                assert!(user.questions()[0].may_last() && user.questions()[0].call_id() == Some("call_7"));
                let other = if effect == Effect::Install {
                    Effect::CommitGit
                } else {
                    Effect::Install
                };
                assert_eq!(context.decide(other), Decision::Ask, "the yes was to another effect");
                // The yes was given before this text came.
                context.conversation.taint.note(&["`vendor`".to_owned()]);
                assert_eq!(context.decide(effect), Decision::Ask);
                for count in 2..4 {
                    obtain_consent(&context, &question).expect("the user says yes");
                    context.conversation.taint.note(&["`vendor`".to_owned()]);
                    assert_eq!(user.questions().len(), count, "also a text from a known place ends it");
                }
                let last = user.questions().pop().expect("there are some");
                assert!(last.title().contains("tainted: "), "{last:?}");
                assert_eq!(last.may_last(), !effect.reaches_further(), "{effect}");
            }
        }
    }

    #[test]
    fn a_yes_lasts_only_where_the_question_said_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (context, user) = asking(&folder, UserAnswer::YesForSession, &[]);
        assert!(user_agrees(&context, &commit()));
        obtain_afresh(&context, &commit(), || unreachable!("the user can be asked")).expect("the user says yes");
        assert!(user.questions().iter().all(|question| !question.may_last()));
        assert_eq!(context.decide(Effect::CommitGit), Decision::Ask);
        // A text that comes while the question is open is none that the user knew of.
        struct Meanwhile(Mutex<Option<CallContext>>);
        impl Approver for Meanwhile {
            fn can_ask(&self) -> bool {
                true
            }
            fn ask(&self, _: &Question, _: &CancellationToken) -> UserAnswer {
                let context = self.0.lock().expect("no panic").take().expect("it is asked once");
                context.conversation.taint.note(&["`x.log`".to_owned()]);
                UserAnswer::YesForSession
            }
        }
        let meanwhile = CallContext {
            approver: Arc::new(Meanwhile(Mutex::new(Some(context.clone())))),
            ..context.clone()
        };
        obtain_consent(&meanwhile, &commit()).expect("the user says yes to this");
        assert_eq!(context.decide(Effect::CommitGit), Decision::Ask);
        // All text of a repository that is not trusted comes from outside.
        let conversation = crate::Conversation {
            taint: crate::taint::Taint::new(true),
            ..crate::Conversation::default()
        };
        let untrusted = CallContext {
            conversation: Arc::new(conversation),
            ..context
        };
        let install = Question::new(Effect::Install, "Install", "x");
        for _ in 0..2 {
            obtain_consent(&untrusted, &install).expect("the user says yes");
        }
        assert!(
            user.questions()
                .iter()
                .rev()
                .take(2)
                .all(|question| !question.may_last())
        );
    }

    proptest::proptest! {
        #[test]
        fn what_a_user_is_asked_is_what_was_to_be_shown(
            title in ".{0,40}",
            detail in "(?s).{0,200}",
            is_named in proptest::bool::ANY,
            is_tainted in proptest::bool::ANY,
        ) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let ask = ["commit-git"];
            let (context, user) = asking(&folder, UserAnswer::Yes, if is_named { &ask } else { &[] });
            if is_tainted {
                context.conversation.taint.note(&["`a\u{202e}b`".to_owned()]);
            }
            let question = Question::new(Effect::CommitGit, &title, &detail);
            obtain_consent(&context, &question).expect("the user says yes");
            let asked = user.questions().pop().expect("the user is asked");
            proptest::prop_assert_eq!(asked.detail(), question.detail());
            proptest::prop_assert!(asked.title().starts_with(question.title()));
            proptest::prop_assert_eq!(asked.title() != question.title(), is_tainted);
            proptest::prop_assert!(tool_core::text::is_visible(asked.title()) && tool_core::text::is_visible(asked.detail()));
        }
    }

    #[test]
    fn a_client_is_asked_about_the_effects_that_it_names_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (context, user) = asking(&folder, UserAnswer::Yes, &["commit-git"]);
        let elsewhere = Question::new(Effect::ReadGit, "Use git data outside of the repository", "/x");
        assert!(!context.can_ask(Effect::ReadGit) && !user_agrees(&context, &elsewhere));
        let refused = obtain_afresh(&context, &elsewhere, || Failure::denied("no user").with_hint("none"));
        assert_eq!(refused.expect_err("nobody answers it").message, "no user");
        obtain_consent(&context, &commit()).expect("the user says yes");
        assert_eq!(user.questions().len(), 1);
    }
}
