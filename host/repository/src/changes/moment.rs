//! Crash points: moments at which a test lets the process die while it puts a change in place or takes it back.
//!
//! Each is one call in the code that changes files or the journal. A test makes the process "die" at the n-th of them:
//! everything stays exactly as it lies, and no destructor cleans up. The tests of sessions use these points too, so they
//! exist in every build with debug assertions; release builds have none.

/// Marks a crash point.
#[inline]
pub fn moment() {
    #[cfg(debug_assertions)]
    crash::pass();
}

/// True after the process "died": destructors must then leave everything as it lies.
#[inline]
pub fn is_dead() -> bool {
    #[cfg(debug_assertions)]
    return crash::IS_DEAD.get();
    #[cfg(not(debug_assertions))]
    false
}

#[cfg(debug_assertions)]
pub(super) mod crash {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// Number of moments, and the action of another program after them.
    type Meanwhile = (u32, Box<dyn FnOnce()>);

    thread_local! {
        /// Moments that this thread survives; `None` if it is not to die.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
        /// True from its death until the test goes on with this thread.
        pub(super) static IS_DEAD: Cell<bool> = const { Cell::new(false) };
        /// Action of another program at that moment.
        static MEANWHILE: Cell<Option<Meanwhile>> = const { Cell::new(None) };
    }

    struct Died;

    pub(super) fn pass() {
        match MEANWHILE.take() {
            None => {}
            Some((0, act)) => act(),
            Some((left, act)) => MEANWHILE.set(Some((left - 1, act))),
        }
        match LEFT.get() {
            None => {}
            Some(0) => {
                // A test that catches the panic must not die again.
                LEFT.set(None);
                IS_DEAD.set(true);
                resume_unwind(Box::new(Died));
            }
            Some(left) => LEFT.set(Some(left - 1)),
        }
    }

    /// Does some work, and at the moment of this number another program acts. The second value tells whether that
    /// moment came.
    pub fn doing_at<T>(moment: u32, act: impl FnOnce() + 'static, work: impl FnOnce() -> T) -> (T, bool) {
        MEANWHILE.set(Some((moment, Box::new(act))));
        let done = work();
        (done, MEANWHILE.take().is_none())
    }

    /// Does some work and dies at the moment of this number, from 0 on. Gives nothing where it died.
    pub fn dying_at<T>(moment: u32, work: impl FnOnce() -> T) -> Option<T> {
        LEFT.set(Some(moment));
        let done = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        IS_DEAD.set(false);
        match done {
            Ok(done) => Some(done),
            Err(died) if died.is::<Died>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }
}
