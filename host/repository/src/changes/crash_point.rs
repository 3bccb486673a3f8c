//! Crash points: calls at which a test can simulate a crash while a change is made or undone.
//!
//! The code that changes files or the journal calls [`crash_point`] between its steps. A test simulates a crash at the
//! n-th call: the thread unwinds, all files stay as they are, and no destructor cleans up. The tests of other crates
//! use these points too, so they exist in every build with debug assertions. Release builds have none.

/// Marks a crash point.
#[inline]
pub fn crash_point() {
    #[cfg(debug_assertions)]
    crash::reach_point();
}

/// True after a simulated crash: destructors must then leave all files as they are.
#[inline]
pub fn has_crashed() -> bool {
    #[cfg(debug_assertions)]
    return crash::HAS_CRASHED.get();
    #[cfg(not(debug_assertions))]
    false
}

#[cfg(debug_assertions)]
pub(super) mod crash {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// Number of crash points to pass, and the action of another program after them.
    type Interference = (u32, Box<dyn FnOnce()>);

    thread_local! {
        /// Crash points that this thread still passes; `None` if it must not crash.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
        /// True from the simulated crash until the test continues on this thread.
        pub(super) static HAS_CRASHED: Cell<bool> = const { Cell::new(false) };
        /// The action of another program.
        static INTERFERENCE: Cell<Option<Interference>> = const { Cell::new(None) };
    }

    struct SimulatedCrash;

    pub(super) fn reach_point() {
        match INTERFERENCE.take() {
            None => {}
            Some((0, act)) => act(),
            Some((left, act)) => INTERFERENCE.set(Some((left - 1, act))),
        }
        match LEFT.get() {
            None => {}
            Some(0) => {
                // A test that catches the panic must not crash again.
                LEFT.set(None);
                HAS_CRASHED.set(true);
                resume_unwind(Box::new(SimulatedCrash));
            }
            Some(left) => LEFT.set(Some(left - 1)),
        }
    }

    /// Runs `work`, and `act` at the crash point of this number, as if another program did it. The second value tells
    /// whether `work` reached that point.
    pub fn interfere_at<T>(point: u32, act: impl FnOnce() + 'static, work: impl FnOnce() -> T) -> (T, bool) {
        INTERFERENCE.set(Some((point, Box::new(act))));
        let done = work();
        (done, INTERFERENCE.take().is_none())
    }

    /// Runs `work`, with a crash at the crash point of this number, counted from 0. `None` if it crashed.
    pub fn crash_at<T>(point: u32, work: impl FnOnce() -> T) -> Option<T> {
        LEFT.set(Some(point));
        let done = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        HAS_CRASHED.set(false);
        match done {
            Ok(done) => Some(done),
            Err(panic) if panic.is::<SimulatedCrash>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }
}
