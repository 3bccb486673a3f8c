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

use super::arena::{Arena, Listing, SECRET};
use super::{Ask, Attack, Expected, Play, Wants};
use crate::ProbeOutcome as Outcome;
use tool_skill::{Builtin, CallError, CallOutcome, RawArguments};

const GUEST: &str = "hostile";

/// Time after its deadline when a call counts as one that cannot be stopped. It is long because the machine may be
/// busy.
const GRACE: Duration = Duration::from_secs(4);

/// Interval of the check for cancellation.
const SLICE: Duration = Duration::from_millis(50);

/// Result of a call, and the number of bytes that it logged.
struct End {
    result: Result<CallOutcome, CallError>,
    logged: u64,
}

/// Why a call has no result.
enum Stuck {
    Cancelled,
    /// The call goes on after its deadline, and ignores the cancellation.
    Unstoppable,
}

pub(super) fn play(attack: &Attack, hostile: &'static [Builtin], cancel: &CancellationToken) -> Outcome {
    let made = Arena::new(attack, hostile).and_then(|arena| Ok((arena.listing()?, Arc::new(arena))));
    let (before, arena) = match made {
        Ok(made) => made,
        Err(error) => return Outcome::NotAvailable(error.to_string()),
    };
    let ended = match attack.play {
        Play::Calls(asks) => one_after_the_other(&arena, asks, cancel),
        Play::Crowd(ask, callers) => all_at_once(&arena, &ask, callers, cancel),
        Play::Swap(ask, inside, outside) => match arena.swap(inside, outside) {
            Ok(()) => swapping(&arena, (inside, outside), || {
                one_after_the_other(&arena, &[ask], cancel)
            }),
            Err(error) => return Outcome::NotAvailable(format!("names cannot be swapped here: {error}")),
        },
    };
    match ended {
        Ok(ends) => judge(attack, &arena, &before, &ends),
        Err(Stuck::Cancelled) => Outcome::NotAvailable("it was cancelled".to_owned()),
        Err(Stuck::Unstoppable) => {
            arena.context.cancel.cancel();
            arena.open_pipe();
            Outcome::GotOut("it goes on beyond its deadline".to_owned())
        }
    }
}

/// Makes the calls in turn and returns the last result. An earlier call that fails ends the attack.
fn one_after_the_other(arena: &Arc<Arena>, asks: &[Ask], cancel: &CancellationToken) -> Result<Vec<End>, Stuck> {
    let mut last = Vec::new();
    for ask in asks {
        last = vec![wait(arena, &start(arena, ask, None), cancel)?];
    }
    Ok(last)
}

fn all_at_once(arena: &Arc<Arena>, ask: &Ask, callers: usize, cancel: &CancellationToken) -> Result<Vec<End>, Stuck> {
    let together = Arc::new(Barrier::new(callers));
    let calls: Vec<_> = (0..callers).map(|_| start(arena, ask, Some(&together))).collect();
    calls.iter().map(|call| wait(arena, call, cancel)).collect()
}

/// Swaps two names as fast as it can while the attack runs.
fn swapping<R>(arena: &Arena, (inside, outside): (&str, &str), work: impl FnOnce() -> R) -> R {
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

fn start(arena: &Arc<Arena>, ask: &Ask, together: Option<&Arc<Barrier>>) -> mpsc::Receiver<End> {
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
        let _ = sender.send(End {
            result: report.result,
            logged: logged.load(Ordering::Relaxed),
        });
    });
    receiver
}

/// Waits for the end of a call, but not much longer than its deadline.
fn wait(arena: &Arena, call: &mpsc::Receiver<End>, cancel: &CancellationToken) -> Result<End, Stuck> {
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
            return Err(Stuck::Cancelled);
        }
    }
    Err(Stuck::Unstoppable)
}

fn judge(attack: &Attack, arena: &Arena, before: &Listing, ends: &[End]) -> Outcome {
    match arena.listing() {
        Ok(after) => {
            if let Some(path) = changed(before, &after) {
                return Outcome::GotOut(format!("`{}` has changed", arena.shown(path)));
            }
        }
        Err(error) => return Outcome::Odd(format!("what came of it cannot be seen: {error}")),
    }
    let Some(end) = ends.last() else {
        return Outcome::Odd("nothing was asked".to_owned());
    };
    let said = said(&end.result);
    if said.contains(SECRET) {
        return Outcome::GotOut("it was told a secret".to_owned());
    }
    let shown = tool_core::text::truncate_text(&said, 200).to_owned();
    let has_succeeded = match attack.wants {
        Wants::Answer => said.starts_with("got "),
        Wants::Text(text) => said.contains(text),
        Wants::Log(bytes) => end.logged > bytes,
        Wants::Room => ends.iter().all(|end| end.result.is_ok()),
        Wants::Time => false,
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

fn is_as_expected(expected: Expected, ends: &[End], end: &End) -> bool {
    let verdict = end.result.as_ref().map_or_else(CallError::verdict, |_| "ok");
    match expected {
        Expected::Refused(kind) => verdict == "ok" && said(&end.result).strip_prefix("refused: ") == Some(kind),
        Expected::Denied => verdict == "denied",
        Expected::Nothing => matches!(verdict, "ok" | "failed"),
        Expected::Bounded(name) => verdict == name,
        Expected::Crashed => verdict == "trap",
        Expected::TimedOut => verdict == "timeout",
        Expected::Busy => {
            let is_busy = |end: &End| matches!(end.result, Err(CallError::Busy { .. }));
            ends.iter().any(is_busy) && ends.iter().any(|end| end.result.is_ok())
        }
    }
}

fn said(result: &Result<CallOutcome, CallError>) -> String {
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
fn changed<'a>(before: &'a Listing, after: &'a Listing) -> Option<&'a std::path::Path> {
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
        event.record(&mut Bytes(&self.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Bytes<'a>(&'a AtomicU64);

impl Visit for Bytes<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0.fetch_add(format!("{value:?}").len() as u64, Ordering::Relaxed);
    }
}
