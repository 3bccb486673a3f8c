//! Runs the calls of one round: at the same time where they only read, in their order where they change something.
//!
//! Whatever happens meanwhile, each call is answered once.

use std::pin::Pin;

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::MeantCall;
use super::{Budget, TurnState, TurnStep, TurnStop, calls, wait_until};
use crate::limits;
use crate::{ProviderError, ToolCall, ToolResult};

/// A call's place in the queue of those that run in order.
struct QueuedCall {
    before: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

/// Outcome of the calls of one round.
pub(super) struct RoundOutcome {
    pub(super) results: Vec<ToolResult>,
    pub(super) interrupted: Option<TurnStop>,
    /// Names of the calls that ran, or waited, when the turn was interrupted.
    pub(super) unfinished: Vec<String>,
}

impl TurnState<'_> {
    /// Runs the calls of one round, a bounded number at a time. Results come in the calls' order, one each, also
    /// where the turn is interrupted meanwhile.
    pub(super) async fn run_calls(&self, calls: &[ToolCall]) -> RoundOutcome {
        let (specs, tools) = (&self.specs, self.turn.tools);
        let meant = calls.iter().enumerate();
        let meant: Vec<MeantCall<'_>> = meant
            .map(|(at, call)| MeantCall::resolve_call(call, at, specs, tools))
            .collect();
        let mut results: Vec<Option<ToolResult>> = vec![None; calls.len()];
        // Boxed and collected: the compiler does not see that a lazy map over borrowed calls may change threads.
        type Job<'a> = Pin<Box<dyn Future<Output = (usize, ToolResult)> + Send + 'a>>;
        let mut before = None;
        let jobs: Vec<Job<'_>> = meant
            .iter()
            .enumerate()
            .map(|(at, meant)| {
                let place = tools.is_ordered(&meant.call.name).then(|| {
                    let (done, next) = oneshot::channel();
                    QueuedCall {
                        before: before.replace(next),
                        _done: done,
                    }
                });
                Box::pin(self.run_call(at, meant, place)) as Job<'_>
            })
            .collect();
        let mut jobs = Box::pin(stream::iter(jobs).buffer_unordered(limits::TOOL_CALLS_CONCURRENT_MAX));
        let mut interrupted = None;
        let mut unfinished = Vec::new();
        let mut patience = None;
        loop {
            let finished = tokio::select! {
                biased;
                () = self.turn.cancel.cancelled(), if interrupted.is_none() => {
                    interrupted = Some(TurnStop::Failed(ProviderError::Cancelled));
                    None
                }
                () = wait_until(self.turn.deadline), if interrupted.is_none() => {
                    interrupted = Some(TurnStop::Exhausted(Budget::Time));
                    None
                }
                () = wait_until(patience), if patience.is_some() => break,
                finished = jobs.next() => Some(finished),
            };
            match finished {
                Some(Some((at, result))) => results[at] = Some(result),
                Some(None) => break,
                None => {
                    let open = meant.iter().zip(&results).filter(|(_, result)| result.is_none());
                    unfinished = open.map(|(meant, _)| meant.call.name.clone()).collect();
                    tools.stop();
                    patience = Some(Instant::now() + limits::seconds(limits::TOOLS_STOP_SECONDS_MAX));
                }
            }
        }
        let answered = results.into_iter().zip(&meant).map(|(result, MeantCall { call, .. })| {
            result.unwrap_or_else(|| {
                let result = calls::refuse_call(call, "Stopped: the session ended while it ran.");
                self.turn.observer.step(TurnStep::ToolFinished(call, &result));
                result
            })
        });
        // A result goes back under the name by which the model has called.
        let answered = answered.zip(calls).map(|(result, ToolCall { name, .. })| ToolResult {
            name: name.clone(),
            ..result
        });
        RoundOutcome {
            results: answered.collect(),
            interrupted,
            unfinished,
        }
    }

    async fn run_call(&self, at: usize, meant: &MeantCall<'_>, mut place: Option<QueuedCall>) -> (usize, ToolResult) {
        let call = &*meant.call;
        if let Some(before) = place.as_mut().and_then(|place| place.before.take()) {
            // Nothing is ever sent: the call before is over when its end of the channel is gone.
            let _ = before.await;
        }
        self.turn.observer.step(TurnStep::ToolStarted(call));
        let result = match &meant.objection {
            Some(objection) => {
                if calls::is_unreadable(call) {
                    let (name, arguments) = (&call.name, &call.arguments);
                    self.turn.observer.step(TurnStep::CallCutOff { name, arguments });
                }
                calls::refuse_call(call, objection)
            }
            None => calls::bound_result(call, self.turn.tools.run(call).await, self.result_bytes_max()),
        };
        self.turn.observer.step(TurnStep::ToolFinished(call, &result));
        (at, result)
    }
}
