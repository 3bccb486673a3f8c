//! Makes one attack, and judges its result from outside.
//!
//! Calls run on their own threads, so that one that cannot be stopped is noticed. The judgement uses what the guest
//! says, because a guest has no reason to hide a success, and the files afterwards, whatever the guest says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span;

use super::arena::{Arena, ArenaContents, SECRET};
use super::{Attack, AttackGoal, AttackMethod, ExpectedRefusal, GuestRequest};
use crate::ProbeOutcome as Outcome;
use tool_skill::{Builtin, CallError, CallOutcome, RawArguments};

const GUEST: &str = "hostile";

/// Time after its deadline when a call counts as one that cannot be stopped. It is long because the machine may be
/// busy.
const GRACE: Duration = Duration::from_secs(4);

/// Interval of the check for cancellation.
const SLICE: Duration = Duration::from_millis(50);

/// Result of a call, and the number of bytes that it logged.
struct AttackedCall {
    result: Result<CallOutcome, CallError>,
    logged: u64,
}

/// Why a call has no result.
enum StuckCall {
    Cancelled,
    /// The call goes on after its deadline, and ignores the cancellation.
    Unstoppable,
}

pub(super) fn play_attack(attack: &Attack, hostile: &'static [Builtin], cancel: &CancellationToken) -> Outcome {
    let made = Arena::new(attack, hostile).and_then(|arena| Ok((arena.listing()?, Arc::new(arena))));
    let (before, arena) = match made {
        Ok(made) => made,
        Err(error) => return Outcome::NotAvailable(error.to_string()),
    };
    let ended = match attack.play {
        AttackMethod::Calls(asks) => one_after_the_other(&arena, asks, cancel),
        AttackMethod::Crowd(ask, callers) => all_at_once(&arena, &ask, callers, cancel),
        AttackMethod::Swap(ask, inside, outside) => match arena.swap(inside, outside) {
            Ok(()) => swap_names_during(&arena, (inside, outside), || {
                one_after_the_other(&arena, &[ask], cancel)
            }),
            Err(error) => return Outcome::NotAvailable(format!("names cannot be swapped here: {error}")),
        },
    };
    match ended {
        Ok(ends) => judge_ends(attack, &arena, &before, &ends),
        Err(StuckCall::Cancelled) => Outcome::NotAvailable("it was cancelled".to_owned()),
        Err(StuckCall::Unstoppable) => {
            arena.context.cancel.cancel();
            arena.open_pipe();
            Outcome::GotOut("it goes on beyond its deadline".to_owned())
        }
    }
}

/// Makes the calls in turn and returns the last result. An earlier call that fails ends the attack.
fn one_after_the_other(
    arena: &Arc<Arena>,
    asks: &[GuestRequest],
    cancel: &CancellationToken,
) -> Result<Vec<AttackedCall>, StuckCall> {
    let mut last = Vec::new();
    for ask in asks {
        last = vec![wait_for_call(arena, &start_call(arena, ask, None), cancel)?];
    }
    Ok(last)
}

fn all_at_once(
    arena: &Arc<Arena>,
    ask: &GuestRequest,
    callers: usize,
    cancel: &CancellationToken,
) -> Result<Vec<AttackedCall>, StuckCall> {
    let together = Arc::new(Barrier::new(callers));
    let calls: Vec<_> = (0..callers).map(|_| start_call(arena, ask, Some(&together))).collect();
    calls.iter().map(|call| wait_for_call(arena, call, cancel)).collect()
}

/// Swaps two names as fast as it can while the attack runs.
fn swap_names_during<R>(arena: &Arena, (inside, outside): (&str, &str), work: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // A swap that fails is followed by the next one.
                let _ = arena.swap(inside, outside);
            }
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn start_call(arena: &Arc<Arena>, ask: &GuestRequest, together: Option<&Arc<Barrier>>) -> mpsc::Receiver<AttackedCall> {
    let (sender, receiver) = mpsc::channel();
    let arguments = json!({
        "attack": ask.deed,
        "path": arena.filled(ask.path),
        "to": ask.to,
        "count": ask.count,
    });
    let (arena, together) = (Arc::clone(arena), together.cloned());
    std::thread::spawn(move || {
        if let Some(together) = together {
            together.wait();
        }
        let logged = Arc::new(AtomicU64::new(0));
        let counted = LogBytes(Arc::clone(&logged));
        let report = tracing::subscriber::with_default(counted, || {
            arena.host.call(&arena.context, GUEST, RawArguments::Value(&arguments))
        });
        drop(arena);
        // The receiver is gone if the call returned too late.
        let _ = sender.send(AttackedCall {
            result: report.result,
            logged: logged.load(Ordering::Relaxed),
        });
    });
    receiver
}

/// Waits for the end of a call, but not much longer than its deadline.
fn wait_for_call(
    arena: &Arena,
    call: &mpsc::Receiver<AttackedCall>,
    cancel: &CancellationToken,
) -> Result<AttackedCall, StuckCall> {
    let patience = arena.limits.wall + GRACE;
    let mut waited = Duration::ZERO;
    while waited < patience {
        match call.recv_timeout(SLICE) {
            Ok(end) => return Ok(end),
            Err(RecvTimeoutError::Timeout) => waited += SLICE,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if cancel.is_cancelled() {
            arena.context.cancel.cancel();
            // A cancelled call ends at once, and releases what has to be cleaned up.
            let _ = call.recv_timeout(GRACE);
            return Err(StuckCall::Cancelled);
        }
    }
    Err(StuckCall::Unstoppable)
}

fn judge_ends(attack: &Attack, arena: &Arena, before: &ArenaContents, ends: &[AttackedCall]) -> Outcome {
    match arena.listing() {
        Ok(after) => {
            if let Some(path) = find_change(before, &after) {
                return Outcome::GotOut(format!("`{}` has changed", arena.shown(path)));
            }
        }
        Err(error) => return Outcome::Odd(format!("what came of it cannot be seen: {error}")),
    }
    let Some(end) = ends.last() else {
        return Outcome::Odd("nothing was asked".to_owned());
    };
    let said = answer_text(&end.result);
    if said.contains(SECRET) {
        return Outcome::GotOut("it was told a secret".to_owned());
    }
    let shown = tool_core::text::truncate_text(&said, 200).to_owned();
    let has_succeeded = match attack.wants {
        AttackGoal::Answer => said.starts_with("got "),
        AttackGoal::Text(text) => said.contains(text),
        AttackGoal::Log(bytes) => end.logged > bytes,
        AttackGoal::Room => ends.iter().all(|end| end.result.is_ok()),
        AttackGoal::Time => false,
    };
    if has_succeeded {
        return Outcome::GotOut(shown);
    }
    if is_as_expected(attack.expected, ends, end) {
        Outcome::Held(shown)
    } else {
        Outcome::Odd(shown)
    }
}

fn is_as_expected(expected: ExpectedRefusal, ends: &[AttackedCall], end: &AttackedCall) -> bool {
    let verdict = end.result.as_ref().map_or_else(CallError::verdict, |_| "ok");
    match expected {
        ExpectedRefusal::Refused(kind) => {
            verdict == "ok" && answer_text(&end.result).strip_prefix("refused: ") == Some(kind)
        }
        ExpectedRefusal::Denied => verdict == "denied",
        ExpectedRefusal::Nothing => matches!(verdict, "ok" | "failed"),
        ExpectedRefusal::Bounded(name) => verdict == name,
        ExpectedRefusal::Crashed => verdict == "trap",
        ExpectedRefusal::TimedOut => verdict == "timeout",
        ExpectedRefusal::Busy => {
            let is_busy = |end: &AttackedCall| matches!(end.result, Err(CallError::Busy { .. }));
            ends.iter().any(is_busy) && ends.iter().any(|end| end.result.is_ok())
        }
    }
}

fn answer_text(result: &Result<CallOutcome, CallError>) -> String {
    match result {
        Ok(CallOutcome {
            text,
            cursor: Some(cursor),
            ..
        }) => format!("{text} {cursor}"),
        Ok(outcome) => outcome.text.clone(),
        Err(error) => error.to_string(),
    }
}

/// A file that changed.
fn find_change<'a>(before: &'a ArenaContents, after: &'a ArenaContents) -> Option<&'a std::path::Path> {
    let differs = before.iter().find(|(path, content)| after.get(*path) != Some(content));
    let is_new = || after.keys().find(|path| !before.contains_key(*path));
    differs
        .map(|(path, _)| path)
        .or_else(is_new)
        .map(std::path::PathBuf::as_path)
}

/// Counts the bytes of a guest's log messages, and writes nothing.
struct LogBytes(Arc<AtomicU64>);

impl tracing::Subscriber for LogBytes {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "skill"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut LoggedBytes(&self.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct LoggedBytes<'a>(&'a AtomicU64);

impl Visit for LoggedBytes<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0.fetch_add(format!("{value:?}").len() as u64, Ordering::Relaxed);
    }
}
