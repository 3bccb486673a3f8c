//! Questions that wait for a yes or a no: an `approval` event asks, POST /approvals/{id} answers.
//!
//! An answer counts only with the secret that the session's starter was given, so that neither the model nor another
//! reader of the stream can say yes. No answer in time is a no.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::feed::Recorder;
use super::journal::{Answer, Entry, cut_text};
use crate::api::{self, Event, Problem};
use crate::limits;
use crate::skill::{Approver, Question};

/// All open questions of all sessions.
#[derive(Default)]
pub struct Approvals {
    open: Mutex<HashMap<String, Open>>,
}

struct Open {
    secret: Arc<str>,
    answer: oneshot::Sender<bool>,
}

impl Approvals {
    fn open(&self, secret: &Arc<str>) -> (String, oneshot::Receiver<bool>) {
        let id = uuid::Uuid::new_v4().to_string();
        let (answer, receiver) = oneshot::channel();
        let secret = Arc::clone(secret);
        self.lock().insert(id.clone(), Open { secret, answer });
        (id, receiver)
    }

    /// Answers a question. The first answer with the right secret counts.
    pub fn answer(&self, id: &str, secret: &str, approve: bool) -> Result<(), Problem> {
        let mut open = self.lock();
        let unknown = || {
            Problem::new(
                "not-found",
                format!("No open approval `{id}`: answered, expired or never asked"),
            )
        };
        let expected = Arc::clone(&open.get(id).ok_or_else(unknown)?.secret);
        if !same(&expected, secret) {
            return Err(
                Problem::new("forbidden", "The secret is not the one of the session's starter")
                    .with_hint("POST /execute answers it as `approval_secret`"),
            );
        }
        let question = open.remove(id).ok_or_else(unknown)?;
        question.answer.send(approve).map_err(|_| unknown())
    }

    fn close(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares two secrets without telling by the time where they differ.
pub(crate) fn same(expected: &str, given: &str) -> bool {
    bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
}

/// A secret that cannot be guessed: 244 random bits.
pub(crate) fn new_secret() -> Arc<str> {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()).into()
}

/// Asks on behalf of one session.
pub struct SessionApprover {
    approvals: Arc<Approvals>,
    recorder: Arc<Recorder>,
    secret: Arc<str>,
    interactive: bool,
    patience: Duration,
    runtime: Handle,
    expired: AtomicBool,
}

impl SessionApprover {
    /// An approver whose questions are answered with `secret`. To be made on a thread of the runtime.
    pub fn new(approvals: Arc<Approvals>, recorder: Arc<Recorder>, secret: Arc<str>, interactive: bool) -> Self {
        Self {
            approvals,
            recorder,
            secret,
            interactive,
            patience: Duration::from_secs(limits::APPROVAL_SECONDS_MAX.unsigned_abs()),
            runtime: Handle::current(),
            expired: AtomicBool::new(false),
        }
    }

    /// True where a question of this session was never answered.
    pub fn has_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    async fn wait(&self, answer: oneshot::Receiver<bool>, cancel: &CancellationToken) -> Answer {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Answer::Cancelled,
            answer = answer => match answer {
                Ok(true) => Answer::Approved,
                _ => Answer::Refused,
            },
            () = tokio::time::sleep(self.patience) => Answer::Expired,
        }
    }
}

impl Approver for SessionApprover {
    fn can_ask(&self) -> bool {
        self.interactive
    }

    fn ask(&self, question: &Question, cancel: &CancellationToken) -> bool {
        if !self.interactive {
            return false;
        }
        let (id, receiver) = self.approvals.open(&self.secret);
        let patience = chrono::Duration::from_std(self.patience).unwrap_or_default();
        self.recorder.event(Event::Approval {
            id: id.clone(),
            effect: question.effect.to_string(),
            title: question.title.clone(),
            detail: cut_text(&question.detail, limits::APPROVAL_DETAIL_BYTES_MAX),
            expires: api::now() + patience,
        });
        let answer = self.runtime.block_on(self.wait(receiver, cancel));
        self.approvals.close(&id);
        self.expired.fetch_or(answer == Answer::Expired, Ordering::Relaxed);
        self.recorder.record(Entry::Answered { id, answer });
        answer == Answer::Approved
    }
}

#[cfg(test)]
mod tests {
    use super::super::feed::Events;
    use super::super::history::tests::start;
    use super::super::journal::{SessionFolder, Work};
    use super::*;
    use crate::skill::policy::Effect;

    struct Bench {
        _place: tempfile::TempDir,
        approver: Arc<SessionApprover>,
        cancel: CancellationToken,
        events: Events,
    }

    fn bench(interactive: bool, patience: Duration) -> Bench {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("s"));
        let recorder = Recorder::create(folder, start("s", Work::Skill("x".into()))).expect("it can be made");
        let events = Events::follow(Arc::clone(&recorder), "s", 0);
        let mut approver = SessionApprover::new(Arc::default(), recorder, "right".into(), interactive);
        approver.patience = patience;
        Bench {
            _place: place,
            approver: Arc::new(approver),
            cancel: CancellationToken::new(),
            events,
        }
    }

    impl Bench {
        fn ask(&self) -> tokio::task::JoinHandle<bool> {
            let (approver, cancel) = (Arc::clone(&self.approver), self.cancel.clone());
            let question = Question {
                effect: Effect::CommitGit,
                title: "Commit 1 file".into(),
                detail: "+x".into(),
            };
            tokio::task::spawn_blocking(move || approver.ask(&question, &cancel))
        }

        async fn asked(&mut self) -> String {
            let batch = self.events.next().await.expect("there is an event");
            match &*batch[0].1 {
                Event::Approval { id, effect, .. } if effect == "commit-git" => id.clone(),
                other => panic!("not an approval: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn only_the_secret_answers_and_only_once() {
        let mut bench = bench(true, Duration::from_secs(60));
        let asking = bench.ask();
        let id = bench.asked().await;
        let approvals = Arc::clone(&bench.approver.approvals);
        let refused = approvals.answer(&id, "wrong", true).expect_err("the secret is wrong");
        assert_eq!(refused.code, "forbidden");
        approvals.answer(&id, "right", true).expect("the secret is right");
        assert!(asking.await.expect("it ends"));
        let again = approvals.answer(&id, "right", true).expect_err("it was answered");
        assert_eq!(again.code, "not-found");
        assert!(!bench.approver.has_expired());
    }

    #[tokio::test]
    async fn no_answer_in_time_is_a_no() {
        let bench = bench(true, Duration::from_millis(20));
        assert!(!bench.ask().await.expect("it ends"));
        assert!(bench.approver.has_expired());
        assert!(bench.approver.approvals.lock().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_a_session_ends_its_questions() {
        let mut bench = bench(true, Duration::from_secs(60));
        let asking = bench.ask();
        bench.asked().await;
        bench.cancel.cancel();
        assert!(!asking.await.expect("it ends"));
        assert!(!bench.approver.has_expired());
    }

    #[tokio::test]
    async fn where_nobody_answers_nobody_is_asked() {
        let bench = bench(false, Duration::from_secs(60));
        assert!(!bench.approver.can_ask());
        assert!(!bench.ask().await.expect("it ends"));
    }

    #[tokio::test]
    async fn a_question_has_a_bounded_time_and_a_bounded_detail() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("s"));
        let recorder = Recorder::create(folder, start("s", Work::Skill("x".into()))).expect("it can be made");
        let mut events = Events::follow(Arc::clone(&recorder), "s", 0);
        let approver = Arc::new(SessionApprover::new(Arc::default(), recorder, "right".into(), true));
        assert_eq!(approver.patience.as_secs(), limits::APPROVAL_SECONDS_MAX.unsigned_abs());
        let question = Question {
            effect: Effect::CommitGit,
            title: "Commit".into(),
            detail: "x".repeat(2 * limits::APPROVAL_DETAIL_BYTES_MAX),
        };
        let (cancel, asker) = (CancellationToken::new(), Arc::clone(&approver));
        let ended = cancel.clone();
        let asking = tokio::task::spawn_blocking(move || asker.ask(&question, &ended));
        let batch = events.next().await.expect("there is an event");
        let Event::Approval { detail, .. } = &*batch[0].1 else {
            panic!("not an approval: {batch:?}")
        };
        assert!(
            detail.len() <= limits::APPROVAL_DETAIL_BYTES_MAX + 100,
            "{}",
            detail.len()
        );
        cancel.cancel();
        assert!(!asking.await.expect("it ends"));
    }
}
