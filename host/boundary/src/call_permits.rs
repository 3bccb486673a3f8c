//! Permits for skill calls: a call gives its permit up while its user is asked or a program runs for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Approver, CallContext, CallError, Conversation, CrowdedLimit, Limits, Question, UserAnswer};

/// Admission control for skill calls: limits how many run at once and how many may queue.
#[derive(Debug)]
pub struct CallPermits {
    state: Mutex<TurnState>,
    freed: Condvar,
    /// Notified when a program has ended, so that another may start.
    ran: Condvar,
    limits: Limits,
}

#[derive(Debug, Default)]
struct TurnState {
    working: usize,
    waiting: usize,
    /// Calls without a permit whose user is asked.
    asking: usize,
    /// Calls without a permit whose program runs or waits to start.
    running: usize,
    /// Programs that run.
    runs: usize,
    /// Calls that want their permit back. They come before all calls that wait for their first.
    returning: usize,
}

/// Reason why a call gives up its permit.
#[derive(Debug, Clone, Copy)]
enum PermitPause {
    /// Its user is asked.
    Asking,
    /// A program runs for it.
    Running,
}

impl TurnState {
    /// True if a call that has not begun may get a permit.
    fn is_free(&self, max: usize) -> bool {
        self.working + self.returning < max
    }

    /// Counter of the calls without a permit for this reason.
    fn aside(&mut self, what: PermitPause) -> &mut usize {
        match what {
            PermitPause::Asking => &mut self.asking,
            PermitPause::Running => &mut self.running,
        }
    }
}

/// Permits one store to run.
pub struct CallPermit<'a>(&'a CallPermits);

/// Interval at which a waiting call checks for cancellation. A hundred calls may wait, and each check costs a wake-up.
const TURN_SLICE: Duration = Duration::from_millis(50);

impl CallPermits {
    /// Admits as many calls as `limits` allows.
    pub fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            freed: Condvar::new(),
            ran: Condvar::new(),
            limits,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// Too many calls wait, the wait took too long, or the session was cancelled.
    pub fn take(&self, skill: &str, context: &CallContext) -> Result<CallPermit<'_>, CallError> {
        let busy = || CallError::Busy {
            skill: skill.to_owned(),
            crowd: CrowdedLimit::Calls,
        };
        let cancelled = || CallError::Cancelled {
            skill: skill.to_owned(),
        };
        if context.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let since = Instant::now();
        let mut state = self.state();
        let max = self.limits.calls_concurrent;
        if !state.is_free(max) {
            if state.waiting >= self.limits.calls_waiting {
                return Err(busy());
            }
            state.waiting += 1;
            while !state.is_free(max) {
                let is_cancelled = context.cancel.is_cancelled();
                if is_cancelled || since.elapsed() >= self.limits.turn_wait {
                    state.waiting -= 1;
                    return Err(if is_cancelled { cancelled() } else { busy() });
                }
                let woken = self.freed.wait_timeout(state, TURN_SLICE);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        state.working += 1;
        Ok(CallPermit(self))
    }

    /// Takes further permits for the parts of a call, if some are free and no call waits for them. One always stays
    /// free, so that a later call can begin immediately.
    pub(super) fn more(&self, max: usize) -> Vec<CallPermit<'_>> {
        let mut state = self.state();
        let free = match state.waiting {
            0 => self
                .limits
                .calls_concurrent
                .saturating_sub(state.working + state.returning + 1),
            _ => 0,
        };
        let count = free.min(max);
        state.working += count;
        (0..count).map(|_| CallPermit(self)).collect()
    }

    /// Gives up the permit of this thread's call while `wait` waits for a person, who may take minutes. `None` if too
    /// many calls do so, in all or in the session, which `ours` counts: each of them keeps its instance in memory.
    fn without<R>(&self, ours: &AtomicUsize, cancel: &CancellationToken, wait: impl FnOnce() -> R) -> Option<R> {
        let max = self.limits.asking_of_session;
        let _ours = CountedSlot::count_below(ours, max)?;
        let _again = self.aside(PermitPause::Asking, self.limits.calls_asking, cancel)?;
        Some(wait())
    }

    /// Gives up the permit of this thread's call while `run` waits for a program, which may take a quarter of an hour.
    /// The call gives its permit up before it waits for the program to start, so that it blocks no other call
    /// meanwhile. `ours` counts such calls of its session.
    fn running<R>(&self, ours: &AtomicUsize, cancel: &CancellationToken, run: impl FnOnce() -> R) -> Result<R, NoRun> {
        let _ours = CountedSlot::count_below(ours, self.limits.runs_of_session).ok_or(NoRun::Busy)?;
        let max = self.limits.runs_concurrent + self.limits.runs_waiting;
        let _again = self.aside(PermitPause::Running, max, cancel).ok_or(NoRun::Busy)?;
        let _run = self.begin(cancel)?;
        Ok(run())
    }

    /// Waits until another program may start.
    fn begin(&self, cancel: &CancellationToken) -> Result<RunPermit<'_>, NoRun> {
        let since = Instant::now();
        let mut state = self.state();
        while state.runs >= self.limits.runs_concurrent {
            if cancel.is_cancelled() {
                return Err(NoRun::Cancelled);
            }
            if since.elapsed() >= self.limits.turn_wait {
                return Err(NoRun::Busy);
            }
            let woken = self.ran.wait_timeout(state, TURN_SLICE);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.runs += 1;
        Ok(RunPermit(self))
    }

    /// Gives up the permit of this thread's call until the returned value is dropped. That also happens if the owner
    /// panics, whose permit is then returned. `None` if `max` calls have done the same.
    fn aside<'a>(&'a self, what: PermitPause, max: usize, cancel: &'a CancellationToken) -> Option<PermitReturn<'a>> {
        let mut state = self.state();
        let count = state.aside(what);
        if *count >= max {
            return None;
        }
        *count += 1;
        state.working -= 1;
        self.wake(&state);
        Some(PermitReturn {
            turns: self,
            what,
            cancel,
        })
    }

    /// Takes the permit back. After the session was cancelled it does not wait: the call only has to end.
    fn again(&self, what: PermitPause, cancel: &CancellationToken) {
        let mut state = self.state();
        *state.aside(what) -= 1;
        state.returning += 1;
        while state.working >= self.limits.calls_concurrent && !cancel.is_cancelled() {
            let woken = self.freed.wait_timeout(state, TURN_SLICE);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.returning -= 1;
        state.working += 1;
    }

    /// Wakes calls that wait for a permit. Notifying costs a system call even if none waits.
    fn wake(&self, state: &TurnState) {
        match (state.returning, state.waiting) {
            (0, 0) => {}
            (0, _) => self.freed.notify_one(),
            // `notify_one` could wake a call that waits for its first permit and must let the others pass.
            _ => self.freed.notify_all(),
        }
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        self.0.wake(&state);
    }
}

/// Counts one more until it is dropped.
struct CountedSlot<'a>(&'a AtomicUsize);

impl<'a> CountedSlot<'a> {
    /// `None` if the count is `max` already.
    fn count_below(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let more = |count| (count < max).then_some(count + 1);
        let counted = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Self(count))
    }
}

impl Drop for CountedSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Permits one program to run.
struct RunPermit<'a>(&'a CallPermits);

impl Drop for RunPermit<'_> {
    fn drop(&mut self) {
        self.0.state().runs -= 1;
        self.0.ran.notify_one();
    }
}

/// Reason why a program did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRun {
    /// Too many programs run or wait.
    Busy,
    /// The session ended before.
    Cancelled,
}

/// Takes the permit back when it is dropped.
struct PermitReturn<'a> {
    turns: &'a CallPermits,
    what: PermitPause,
    cancel: &'a CancellationToken,
}

impl Drop for PermitReturn<'_> {
    fn drop(&mut self) {
        self.turns.again(self.what, self.cancel);
    }
}

/// Returns the context for a call that holds a permit on each of its threads, and gives it up while it waits for its
/// user or for a program.
pub fn hold_permit(context: &CallContext, turns: &Arc<CallPermits>) -> Arc<CallContext> {
    let approver = AskingAside {
        approver: Arc::clone(&context.approver),
        conversation: Arc::clone(&context.conversation),
        turns: Arc::clone(turns),
        is_crowded: AtomicBool::new(false),
        has_refused: AtomicBool::new(false),
    };
    let turn = HeldPermit {
        turns: Arc::clone(turns),
        conversation: Arc::clone(&context.conversation),
        is_turned_away: AtomicBool::new(false),
        has_run_program: AtomicBool::new(false),
    };
    Arc::new(CallContext {
        approver: Arc::new(approver),
        turn: HeldTurn(Some(Arc::new(turn))),
        ..context.clone()
    })
}

/// The permit that a call gives up while a program runs for it. The default is none, before a call has one.
#[derive(Debug, Clone, Default)]
pub struct HeldTurn(Option<Arc<HeldPermit>>);

#[derive(Debug)]
struct HeldPermit {
    turns: Arc<CallPermits>,
    conversation: Arc<Conversation>,
    is_turned_away: AtomicBool,
    /// True once a program has run for the call, even if it failed.
    has_run_program: AtomicBool,
}

impl HeldTurn {
    /// Runs `run`, which waits for a program, without the permit: otherwise eight test suites would block the calls of
    /// every session.
    ///
    /// # Errors
    ///
    /// Too many programs run or wait, or the session was cancelled.
    pub fn run<R>(&self, cancel: &CancellationToken, run: impl FnOnce() -> R) -> Result<R, NoRun> {
        let Some(held) = &self.0 else { return Ok(run()) };
        let run = || {
            held.has_run_program.store(true, Ordering::Relaxed);
            run()
        };
        let ran = held.turns.running(&held.conversation.running, cancel, run);
        if matches!(ran, Err(NoRun::Busy)) {
            held.is_turned_away.store(true, Ordering::Relaxed);
        }
        ran
    }

    /// True once a program has run for the call. The call's result may then hold output of that program.
    pub(super) fn has_run_program(&self) -> bool {
        let held = self.0.as_ref();
        held.is_some_and(|held| held.has_run_program.load(Ordering::Relaxed))
    }

    /// True if too many programs ran for the call to go on. The answer of the skill does not decide this.
    pub(super) fn is_turned_away(&self) -> bool {
        let held = self.0.as_ref();
        held.is_some_and(|held| held.is_turned_away.load(Ordering::Relaxed))
    }
}

/// Asks without holding a permit: otherwise eight open questions would block the calls of every session.
struct AskingAside {
    approver: Arc<dyn Approver>,
    conversation: Arc<Conversation>,
    turns: Arc<CallPermits>,
    is_crowded: AtomicBool,
    has_refused: AtomicBool,
}

impl Approver for AskingAside {
    fn can_ask(&self) -> bool {
        self.approver.can_ask()
    }

    fn ask(&self, question: &Question, cancel: &CancellationToken) -> UserAnswer {
        let ours = &self.conversation.asking;
        let answer = self.turns.without(ours, cancel, || self.approver.ask(question, cancel));
        self.is_crowded.store(answer.is_none(), Ordering::Relaxed);
        if answer == Some(UserAnswer::No) {
            self.has_refused.store(true, Ordering::Relaxed);
        }
        answer.unwrap_or_default()
    }

    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod unit {
    use std::sync::mpsc;

    use super::*;
    use crate::policy::{EffectCause, Policy};
    use tool_core::api::Effect;
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::{Options, Repository};

    fn context(folder: &std::path::Path) -> CallContext {
        CallContext::unattended(
            Repository::open(folder, &Options::default()).expect("the folder is there"),
            Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is right"),
        )
    }

    /// A user who says yes once the test lets them.
    struct Slow(Mutex<mpsc::Receiver<()>>);

    impl Approver for Slow {
        fn can_ask(&self) -> bool {
            true
        }

        fn ask(&self, _: &Question, cancel: &CancellationToken) -> UserAnswer {
            let receiver = self.0.lock().expect("not poisoned");
            // A test that has failed meanwhile is not to wait for ever.
            let patience = Instant::now() + Duration::from_secs(30);
            loop {
                match receiver.recv_timeout(Duration::from_millis(5)) {
                    Ok(()) => return UserAnswer::Yes,
                    Err(_) if cancel.is_cancelled() || Instant::now() > patience => return UserAnswer::No,
                    Err(_) => {}
                }
            }
        }
    }

    fn question() -> Question {
        Question::new(Effect::CommitGit, "Commit", "+x")
    }

    #[test]
    fn the_calls_of_one_session_and_their_parts_leave_a_turn_to_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (context, limits) = (context(folder.path()), Limits::default());
        let turns = CallPermits::new(limits);
        let take = || turns.take("demo", &context).expect("there is a turn");
        let calls: Vec<CallPermit<'_>> = (0..crate::limits::TOOL_CALLS_CONCURRENT_MAX).map(|_| take()).collect();
        let parts = turns.more(limits.parts);
        assert_eq!(calls.len() + parts.len(), limits.calls_concurrent - 1);
        assert!(turns.state().is_free(limits.calls_concurrent));
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
        let turns = Arc::new(CallPermits::new(limits));
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
                let context = hold_permit(&asked, &turns);
                let answer = context.approver.ask(&question(), &context.cancel);
                (answer.is_yes(), turns.state().working)
            });
            until("it asks", &|state| state.asking == 1);
            // Its turn is another's, who may not ask as well.
            let turn = turns.take("another", &alone).expect("nobody is at work");
            let context = hold_permit(&asked, &turns);
            assert!(!context.approver.ask(&question(), &context.cancel).is_yes() && context.approver.is_crowded());
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

    /// Few turns and few runs, and a wait that is longer than the tests are.
    fn few() -> Limits {
        Limits {
            calls_concurrent: 1,
            runs_concurrent: 1,
            runs_waiting: 1,
            turn_wait: Duration::from_secs(30),
            ..Limits::default()
        }
    }

    #[track_caller]
    fn until(turns: &CallPermits, what: &str, is: impl Fn(&TurnState) -> bool) {
        let begun = Instant::now();
        while !is(&turns.state()) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{what}: {:?}", turns.state());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_waits_for_a_program_holds_no_turn_and_few_may() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let context = context(folder.path());
        let turns = Arc::new(CallPermits::new(few()));
        let run = |program: mpsc::Receiver<()>| {
            let _turn = turns.take("run", &context).expect("nobody is at work");
            let held = &hold_permit(&context, &turns).turn;
            // A test that has failed meanwhile is not to wait for ever.
            let patience = Duration::from_secs(30);
            let ran = held.run(&context.cancel, || program.recv_timeout(patience).is_ok());
            (ran, held.is_turned_away())
        };
        let (end_first, first) = mpsc::channel();
        let (end_second, second) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run(first));
            until(&turns, "a program runs", |state| state.runs == 1);
            let second = scope.spawn(|| run(second));
            until(&turns, "another is to run", |state| state.running == 2);
            // Neither has a turn, and a third may not do as they do.
            let turn = turns.take("another", &context).expect("nobody is at work");
            let held = &hold_permit(&context, &turns).turn;
            let ran = held.run(&context.cancel, || unreachable!("it may not run"));
            assert_eq!((ran, held.is_turned_away()), (Err::<(), _>(NoRun::Busy), true));
            // The first one's end is the second one's beginning, though its own turn is not there yet.
            end_first.send(()).expect("it runs");
            until(&turns, "the first comes back", |state| state.returning == 1);
            until(&turns, "the second runs", |state| (state.runs, state.running) == (1, 1));
            end_second.send(()).expect("it runs");
            until(&turns, "both come back", |state| state.returning == 2);
            drop(turn);
            for thread in [first, second] {
                assert_eq!(thread.join().expect("no panic"), (Ok(true), false));
            }
        });
        let state = turns.state();
        assert_eq!(
            (state.working, state.running, state.runs, state.returning),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn a_run_is_waited_for_for_a_bounded_time_and_no_longer_than_its_session_lasts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (one, other) = (context(folder.path()), context(folder.path()));
        let wait = Duration::from_millis(50);
        for (turn_wait, why) in [(wait, NoRun::Busy), (few().turn_wait, NoRun::Cancelled)] {
            let limits = Limits {
                calls_concurrent: 2,
                turn_wait,
                ..few()
            };
            let turns = CallPermits::new(limits);
            let _turns = [&one, &other].map(|context| turns.take("run", context).expect("it is free"));
            let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
            let ran = turns.running(&counts[0], &one.cancel, || {
                std::thread::scope(|scope| {
                    let second =
                        scope.spawn(|| turns.running(&counts[1], &other.cancel, || unreachable!("one runs already")));
                    until(&turns, "it waits", |state| state.running == 2);
                    if why == NoRun::Cancelled {
                        other.cancel.cancel();
                    }
                    second.join().expect("no panic")
                })
            });
            assert_eq!(ran, Ok(Err::<(), _>(why)));
        }
        // One that has ended begins nothing more.
        let turns = CallPermits::new(few());
        assert!(matches!(turns.take("late", &other), Err(CallError::Cancelled { .. })));
    }

    #[test]
    fn who_leaves_its_questions_open_leaves_room_for_those_of_others() {
        let turns = CallPermits::new(Limits {
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
    fn who_runs_many_programs_leaves_room_for_those_of_others() {
        let turns = CallPermits::new(Limits {
            runs_of_session: 2,
            ..Limits::default()
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let context = context(folder.path());
        let _turns = [(); 3].map(|()| turns.take("one", &context).expect("it is free"));
        let (ours, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let run = |whose: &AtomicUsize, then: &dyn Fn() -> bool| turns.running(whose, &context.cancel, then);
        let told = run(&ours, &|| {
            run(&ours, &|| {
                assert_eq!(run(&ours, &|| true), Err(NoRun::Busy), "it has two under way");
                run(&others, &|| true) == Ok(true)
            }) == Ok(true)
        });
        assert_eq!(told, Ok(true));
        assert_eq!((ours.into_inner(), others.into_inner()), (0, 0));
    }

    #[test]
    fn the_end_of_a_session_ends_the_wait_for_a_turn_after_an_answer() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let asked = context(folder.path());
        let turns = CallPermits::new(Limits {
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
