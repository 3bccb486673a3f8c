//! A session whose calls come over a connection, one after the other or several at once, until the connection closes.
//!
//! Calls that only read run in parallel. Calls that change something wait for each other, as the calls of a model do.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

use super::call_redaction;
use super::missed_work::RefusedPurpose;
use super::skill_call::why_denied;
use super::tools::{SessionTools, result_of};
use super::{SessionOutcome, SessionRun};
use crate::approvals::{CallProgress, Relay};
use crate::call_queue::{CallAnswer, CallQueue, ConnectionCall, Incoming};
use crate::limits;
use tool_core::api::{Event, Problem};
use tool_provider::ToolCall;
use tool_provider::turn::bounded_text;
use tool_repository::changes::ChangeJournal;
use tool_skill::{CallContext, CallError};

/// Serves calls until all senders are dropped.
pub(super) async fn serve_calls(job: &SessionRun, calls: &CallQueue) -> Result<SessionOutcome, Problem> {
    let mut incoming = calls.0.lock().await;
    let serving = CallServer {
        job,
        tools: SessionTools::of_connection(job),
        gone: job.cancel.child_token(),
        order: Mutex::default(),
        count: AtomicUsize::new(0),
    };
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = job.cancel.cancelled() => break,
            Some(()) = under_way.next() => {}
            next = incoming.recv() => match next {
                Some(Incoming::Call { call, answer }) => under_way.push(serving.answer(call, answer)),
                Some(Incoming::Outside { place, noted }) => {
                    serving.tools.context().conversation.taint.note(&[place]);
                    drop(noted);
                }
                None => break,
            },
        }
    }
    // No client waits for the calls that still run.
    serving.gone.cancel();
    while under_way.next().await.is_some() {}
    call_redaction::report_placeholders(&job.plan.redactor, &job.recorder, "the client");
    Ok(if job.cancel.is_cancelled() {
        SessionOutcome::cancelled()
    } else {
        SessionOutcome::complete()
    })
}

struct CallServer<'a> {
    job: &'a SessionRun,
    tools: SessionTools<'a>,
    gone: CancellationToken,
    /// Held by a call that may change something.
    order: Mutex<()>,
    count: AtomicUsize,
}

impl CallServer<'_> {
    async fn answer(&self, call: ConnectionCall, answer: oneshot::Sender<CallAnswer>) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = ToolCall {
            id: number.to_string(),
            name: call.name.clone(),
            arguments: call.arguments.to_string(),
        };
        let context = self.context(&call);
        // The caller may drop or cancel the call, or close the connection: each ends the call.
        let mut cancelled = pin!(call.cancel.cancelled());
        let mut running = pin!(self.run(&context, &asked));
        let answered = tokio::select! {
            answered = &mut running => answered,
            () = &mut cancelled => {
                context.cancel.cancel();
                running.await
            }
        };
        // The caller may be gone; the journal has the answer.
        let _ = answer.send(answered);
    }

    async fn run(&self, context: &Arc<CallContext>, call: &ToolCall) -> CallAnswer {
        let changes = RefusedPurpose::from_effects(&self.tools.effects(&call.name)) != RefusedPurpose::Reads;
        let _order = if changes {
            context.cancel.run_until_cancelled(self.order.lock()).await
        } else {
            None
        };
        let mut report = self.tools.call_for_client(context, call).await;
        let why = match &report.result {
            Err(error) => {
                let path = self.tools.path_of(&call.arguments);
                why_denied(&self.job.plan.repository, error, path, &context.cancel).await
            }
            Ok(_) => None,
        };
        if let Err(CallError::Failure { hint: hint @ None, .. }) = &mut report.result {
            *hint = why;
        }
        let text = bounded_text(result_of(call, &report).text, limits::TOOL_RESULT_BYTES_MAX);
        CallAnswer {
            result: report.result,
            receipt: report.receipt,
            text,
        }
    }

    /// Creates the context of a call: the connection's context, with the call's approver, token and progress
    /// callback.
    fn context(&self, call: &ConnectionCall) -> Arc<CallContext> {
        let (recorder, redactor) = (Arc::clone(&self.job.recorder), Arc::clone(&self.job.plan.redactor));
        let meanwhile = call.meanwhile.clone();
        let armour = std::sync::Mutex::new(String::new());
        let progress = move |line: &str| {
            let mut armour = armour.lock().unwrap_or_else(PoisonError::into_inner);
            let line = redactor.live_line(&mut armour, line);
            recorder.event(Event::Live { line: line.clone() });
            // A slow client misses lines.
            let _ = meanwhile.try_send(CallProgress::Line(line));
        };
        let relay = Relay {
            to: call.meanwhile.clone(),
            redactor: Arc::clone(&self.job.plan.redactor),
        };
        let approver = self.job.approver.relayed(call.can_ask, relay);
        let changes: Arc<dyn ChangeJournal> = Arc::clone(&self.job.recorder) as _;
        self.tools.context_of_call(CallContext {
            approver: Arc::new(approver),
            changes,
            cancel: self.gone.child_token(),
            environment: self.job.plan.environment.clone(),
            progress: Arc::new(progress),
            ..CallContext::unattended(Arc::clone(&self.job.plan.repository), self.job.plan.policy.clone())
        })
    }
}
