//! Turns: how many calls are at work, how many wait, and how many have given theirs up while their user is asked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Approver, CallContext, CallError, Conversation, Limits, Question};
use crate::defence::{self, Defence};

/// How many calls are at work, and how many wait.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<TurnState>,
    freed: Condvar,
    limits: Limits,
}

#[derive(Debug, Default)]
struct TurnState {
    working: usize,
    waiting: usize,
    /// Calls that have given up their turn while their user is asked.
    asking: usize,
    /// Of those that want one again: they come before all that wait.
    returning: usize,
}

impl TurnState {
    /// True where a call that has not begun may have a turn.
    fn is_free(&self, max: usize) -> bool {
        self.working + self.returning < max
    }
}

/// The right to run one store.
pub(super) struct Turn<'a>(&'a Turns);

/// How often a waiting call looks whether its session has ended. A hundred may wait, and each look costs a wake-up.
const TURN_SLICE: Duration = Duration::from_millis(50);

impl Turns {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            freed: Condvar::new(),
            limits,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub(super) fn take(&self, skill: &str, context: &CallContext) -> Result<Turn<'_>, CallError> {
        let busy = || CallError::Busy {
            skill: skill.to_owned(),
        };
        let since = Instant::now();
        let mut state = self.state();
        let max = self.limits.calls_concurrent;
        if !state.is_free(max) && defence::on(Defence::Concurrency) {
            if state.waiting >= self.limits.calls_waiting {
                return Err(busy());
            }
            state.waiting += 1;
            while !state.is_free(max) {
                let cancelled = context.cancel.is_cancelled();
                if cancelled || since.elapsed() >= self.limits.turn_wait {
                    state.waiting -= 1;
                    return Err(match cancelled {
                        true => CallError::Cancelled {
                            skill: skill.to_owned(),
                        },
                        false => busy(),
                    });
                }
                let woken = self.freed.wait_timeout(state, TURN_SLICE);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        state.working += 1;
        Ok(Turn(self))
    }

    /// More turns, as far as they are free and nobody waits for them.
    pub(super) fn more(&self, max: usize) -> Vec<Turn<'_>> {
        let mut state = self.state();
        let free = match state.waiting {
            0 => self
                .limits
                .calls_concurrent
                .saturating_sub(state.working + state.returning),
            _ => 0,
        };
        let count = free.min(max);
        state.working += count;
        (0..count).map(|_| Turn(self)).collect()
    }

    /// Does without the turn that this thread's call has while `wait` waits for a person, who may take minutes. Nothing
    /// where too many do so, over all or in its session, which `ours` counts: each keeps its instance.
    fn without<R>(&self, ours: &AtomicUsize, cancel: &CancellationToken, wait: impl FnOnce() -> R) -> Option<R> {
        let max = self.limits.asking_of_session;
        let _ours = Counted::below(ours, max)?;
        {
            let mut state = self.state();
            if state.asking >= self.limits.calls_asking {
                return None;
            }
            state.asking += 1;
            state.working -= 1;
            self.wake(&state);
        }
        // Also where `wait` panics: the turn that was given up is given back by its owner.
        let _again = Again { turns: self, cancel };
        Some(wait())
    }

    /// Takes a turn again. The end of the session is not kept waiting: its call has only to end.
    fn again(&self, cancel: &CancellationToken) {
        let mut state = self.state();
        state.asking -= 1;
        state.returning += 1;
        while state.working >= self.limits.calls_concurrent && !cancel.is_cancelled() {
            let woken = self.freed.wait_timeout(state, TURN_SLICE);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.returning -= 1;
        state.working += 1;
    }

    /// Tells who waits that a turn is free. Waking nobody costs a system call all the same.
    fn wake(&self, state: &TurnState) {
        match (state.returning, state.waiting) {
            (0, 0) => {}
            (0, _) => self.freed.notify_one(),
            // One of those that come first may not be the one that is woken.
            _ => self.freed.notify_all(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        self.0.wake(&state);
    }
}

/// One more, until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Nothing where there are `max`.
    fn below(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let more = |count| (count < max).then_some(count + 1);
        let counted = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Self(count))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a turn again when it is dropped.
struct Again<'a> {
    turns: &'a Turns,
    cancel: &'a CancellationToken,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.turns.again(self.cancel);
    }
}

/// Asks without holding a turn: eight questions that nobody answers would stop every call of every session.
pub(super) struct AskingAside {
    approver: Arc<dyn Approver>,
    conversation: Arc<Conversation>,
    turns: Arc<Turns>,
    is_crowded: AtomicBool,
}

impl AskingAside {
    /// The same context, for a call that holds one turn on each of its threads.
    pub(super) fn within(context: &CallContext, turns: &Arc<Turns>) -> Arc<CallContext> {
        let approver = Self {
            approver: Arc::clone(&context.approver),
            conversation: Arc::clone(&context.conversation),
            turns: Arc::clone(turns),
            is_crowded: AtomicBool::new(false),
        };
        Arc::new(CallContext {
            approver: Arc::new(approver),
            ..context.clone()
        })
    }
}

impl Approver for AskingAside {
    fn can_ask(&self) -> bool {
        self.approver.can_ask()
    }

    fn ask(&self, question: &Question, cancel: &CancellationToken) -> bool {
        let ours = &self.conversation.asking;
        let answer = self.turns.without(ours, cancel, || self.approver.ask(question, cancel));
        self.is_crowded.store(answer.is_none(), Ordering::Relaxed);
        answer.unwrap_or_default()
    }

    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod unit {
    use std::sync::mpsc;

    use super::*;
    use crate::api::{Operation, PolicyRequest};
    use crate::repository::{Options, Repository};
    use crate::skill::policy::{Cause, Effect, Policy};

    fn context(folder: &std::path::Path) -> CallContext {
        CallContext::unattended(
            Repository::open(folder, &Options::default()).expect("the folder is there"),
            Policy::new(Cause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is right"),
        )
    }

    /// Somebody who says yes once the test lets them.
    struct Slow(Mutex<mpsc::Receiver<()>>);

    impl Approver for Slow {
        fn can_ask(&self) -> bool {
            true
        }

        fn ask(&self, _: &Question, cancel: &CancellationToken) -> bool {
            let receiver = self.0.lock().expect("not poisoned");
            // A test that has failed meanwhile is not to wait for ever.
            let patience = Instant::now() + Duration::from_secs(30);
            loop {
                match receiver.recv_timeout(Duration::from_millis(5)) {
                    Ok(()) => return true,
                    Err(_) if cancel.is_cancelled() || Instant::now() > patience => return false,
                    Err(_) => {}
                }
            }
        }
    }

    fn question() -> Question {
        Question {
            effect: Effect::CommitGit,
            title: "Commit".to_owned(),
            detail: "+x".to_owned(),
        }
    }

    #[test]
    fn who_waits_for_a_person_holds_no_turn_and_few_may() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (say_yes, yes) = mpsc::channel();
        let alone = Arc::new(context(folder.path()));
        let asked = CallContext {
            approver: Arc::new(Slow(Mutex::new(yes))),
            ..(*alone).clone()
        };
        let limits = Limits {
            calls_concurrent: 1,
            calls_asking: 1,
            turn_wait: Duration::from_secs(10),
            ..Limits::default()
        };
        let turns = Arc::new(Turns::new(limits));
        let soon = Instant::now() + Duration::from_secs(10);
        let until = |what: &str, is: &dyn Fn(&TurnState) -> bool| {
            while !is(&turns.state()) {
                assert!(Instant::now() < soon, "{what}: {:?}", turns.state());
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let _turn = turns.take("one", &asked).expect("it is free");
                let context = AskingAside::within(&asked, &turns);
                let answer = context.approver.ask(&question(), &context.cancel);
                (answer, turns.state().working)
            });
            until("it asks", &|state| state.asking == 1);
            // Its turn is another's, who may not ask as well.
            let turn = turns.take("another", &alone).expect("nobody is at work");
            let context = AskingAside::within(&asked, &turns);
            assert!(!context.approver.ask(&question(), &context.cancel) && context.approver.is_crowded());
            // The answer is there, and the turn is not: it is waited for, before all that have not begun.
            say_yes.send(()).expect("somebody waits");
            until("it comes back", &|state| state.returning == 1);
            let late = scope.spawn(|| turns.take("late", &alone).map(drop).is_ok());
            until("another one waits", &|state| state.waiting == 1);
            assert!(!asking.is_finished());
            drop(turn);
            assert_eq!(asking.join().expect("no panic"), (true, 1));
            assert!(late.join().expect("no panic"));
        });
        let state = turns.state();
        assert_eq!((state.working, state.asking, state.returning), (0, 0, 0));
    }

    #[test]
    fn who_leaves_its_questions_open_leaves_room_for_those_of_others() {
        let turns = Turns::new(Limits {
            calls_asking: 3,
            asking_of_session: 2,
            ..Limits::default()
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let context = context(folder.path());
        let _turns = [(); 4].map(|()| turns.take("one", &context).expect("it is free"));
        let (ours, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |whose: &AtomicUsize, then: &dyn Fn() -> bool| turns.without(whose, &context.cancel, then);
        let told = ask(&ours, &|| {
            ask(&ours, &|| {
                assert_eq!(ask(&ours, &|| true), None, "it has two open");
                assert_eq!(ask(&others, &|| true), Some(true), "another session has none");
                let third = ask(&others, &|| ask(&others, &|| true).is_none());
                third == Some(true)
            }) == Some(true)
        });
        assert_eq!(told, Some(true));
        assert_eq!((ours.into_inner(), others.into_inner()), (0, 0));
    }

    #[test]
    fn the_end_of_a_session_ends_the_wait_for_a_turn_after_an_answer() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let asked = context(folder.path());
        let turns = Turns::new(Limits {
            calls_concurrent: 1,
            ..Limits::default()
        });
        let first = turns.take("one", &asked).expect("it is free");
        let (taken, is_taken) = mpsc::channel();
        std::thread::scope(|scope| {
            let (turns, cancel) = (&turns, &asked.cancel);
            let waiting = scope.spawn(move || {
                turns.without(&AtomicUsize::new(0), cancel, || {
                    is_taken.recv().expect("somebody says so");
                })
            });
            let second = loop {
                // Free once the other thread has given it up.
                if turns.state().asking == 1 {
                    break turns.take("two", &asked).expect("it is free");
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            taken.send(()).expect("it waits");
            while turns.state().returning == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            asked.cancel.cancel();
            assert!(waiting.join().expect("no panic").is_some());
            drop(second);
        });
        drop(first);
        assert_eq!(turns.state().working, 0);
    }
}
