//! Waits for a lock that another thread may hold for long, until the caller is cancelled.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time between two checks. A wake-up costs a few microseconds, and users do not notice so short a wait.
const SLICE: Duration = Duration::from_millis(1);

/// Takes the lock; `None` if the caller is cancelled first. A poisoned lock is taken.
pub fn lock_unless_cancelled<'m, T>(mutex: &'m Mutex<T>, cancel: &CancellationToken) -> Option<MutexGuard<'m, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(SLICE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn who_waits_for_a_lock_is_let_go_by_the_end_of_its_session() {
        let (mutex, cancel) = (Mutex::new(()), CancellationToken::new());
        let held = lock_unless_cancelled(&mutex, &cancel).expect("nobody holds it");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_unless_cancelled(&mutex, &cancel).is_none());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "it waits");
            let since = Instant::now();
            cancel.cancel();
            assert!(waiting.join().expect("it ends"), "it got nothing");
            assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        });
        drop(held);
        // One that is free is taken all the same: what was begun is brought to its end.
        assert!(lock_unless_cancelled(&mutex, &cancel).is_some());
    }
}
