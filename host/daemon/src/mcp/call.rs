//! One `tools/call`: its output as progress, its questions as elicitations, and its end by cancellation or
//! disconnection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ClientReach, McpSession, ask, problem_error, tools};
use crate::limits;
use tool_core::api::{ErrorKind, Problem};
use tool_session::Sessions;
use tool_session::approvals::{CallProgress, PendingQuestion};
use tool_session::connection::{CallAnswer, ConnectionCall};

/// Limit for output lines that wait to be sent as progress. A slow client misses some.
const MCP_PROGRESS_LINES_MAX: usize = 256;

/// Time between two heartbeats of a call without output: below the shortest time-out of common clients.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);

/// A call under way. Dropping it ends the call.
pub(super) struct UnderWay {
    name: String,
    answered: Pin<Box<dyn Future<Output = Option<CallAnswer>> + Send>>,
    meanwhile: mpsc::Receiver<CallProgress>,
    _cancel: DropGuard,
    _permit: OwnedSemaphorePermit,
}

/// A call that waits for the user's answer.
pub(super) struct WaitingCall {
    under_way: UnderWay,
    asking: PendingQuestion,
}

impl WaitingCall {
    /// True once it is too late for an answer.
    pub(super) fn is_over(&self) -> bool {
        self.asking.is_over()
    }
}

/// Begins the requested call, or resumes the call that the request answers.
pub(super) async fn answer_call(
    sessions: &Sessions,
    line: &Arc<McpSession>,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let under_way = match &request.request_state {
        Some(state) => resume_call(line, state, &request)?,
        None => match begin_call(sessions, line, request, &context)? {
            Ok(under_way) => under_way,
            Err(busy) => return Ok(tools::problem_result(&busy).into()),
        },
    };
    drive_call(line, under_way, &context).await
}

/// Begins a call. Fails with an error of the protocol if there is no such tool, and with a problem if there are too
/// many calls.
fn begin_call(
    sessions: &Sessions,
    line: &Arc<McpSession>,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Result<UnderWay, Problem>, ErrorData> {
    if let Some(problem) = sessions.missing_skill(&request.name, line.connection.lock().map(|lock| &**lock)) {
        return Err(problem_error(Problem {
            message: problem.message.replacen("skill", "tool", 1),
            ..problem
        }));
    }
    let lock = line.connection.lock().map(|lock| &**lock);
    if line.reach == ClientReach::Reads && sessions.changes_something(&request.name, lock) {
        return Ok(Err(confined_client_problem()));
    }
    let permit = match take_permit(line)? {
        Ok(permit) => permit,
        Err(busy) => return Ok(Err(busy)),
    };
    let cancel = CancellationToken::new();
    let (watcher, meanwhile) = progress_channel();
    let call = ConnectionCall {
        name: request.name.to_string(),
        arguments: Value::Object(request.arguments.unwrap_or_default()),
        can_ask: line.reach == ClientReach::Answers && ask::can_ask(context),
        cancel: cancel.clone(),
        meanwhile: watcher,
    };
    Ok(Ok(UnderWay {
        name: request.name.to_string(),
        answered: Box::pin(line.connection.call(call)),
        meanwhile,
        _cancel: cancel.drop_guard(),
        _permit: permit,
    }))
}

/// Takes a permit for a call. Fails with a problem if too many calls run, and with an error of the protocol if the
/// session has ended.
pub(super) fn take_permit(line: &McpSession) -> Result<Result<OwnedSemaphorePermit, Problem>, ErrorData> {
    if let Some(permit) = line.take_call_place() {
        return Ok(Ok(permit));
    }
    if line.calls.is_closed() {
        return Err(session_ended_error());
    }
    let message = format!("{} calls of this connection are under way", limits::MCP_CALLS_MAX);
    Ok(Err(
        Problem::new(ErrorKind::Busy, message).with_hint("wait for one of them to end, and call again")
    ))
}

/// The refusal of a tool that does more than read, for a client that may be confined.
fn confined_client_problem() -> Problem {
    let message = "This tool does more than read, and the process that calls it is not known to be in the backend's own \
        mount, user and PID namespaces, and under no other seccomp or Landlock rules";
    Problem::new(ErrorKind::Unauthorized, message).with_hint(
        "send `Authorization: Bearer TOKEN` with the content of `~/.tool/token`, or start `tool mcp` instead",
    )
}

fn progress_channel() -> (mpsc::Sender<CallProgress>, mpsc::Receiver<CallProgress>) {
    mpsc::channel(MCP_PROGRESS_LINES_MAX)
}

/// Finds the call that waits for this answer.
fn resume_call(line: &McpSession, state: &str, request: &CallToolRequestParams) -> Result<UnderWay, ErrorData> {
    let mut pending = line.pending();
    let waits = pending
        .get(state)
        .is_some_and(|waiting| waiting.under_way.name == request.name);
    let Some(WaitingCall { under_way, asking }) = pending.remove(state).filter(|_| waits) else {
        let message = "No call waits for this answer: it was given already, or too late. Call again without it";
        return Err(ErrorData::invalid_params(message, None));
    };
    asking.answer(ask::is_approved(request.input_responses.as_ref()));
    Ok(under_way)
}

async fn drive_call(
    line: &McpSession,
    mut under_way: UnderWay,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let mut progress = ProgressReporter::for_request(context);
    let mut heartbeat = heartbeat_interval();
    loop {
        tokio::select! {
            biased;
            // Dropping `under_way` ends the call; the client does not wait for a result.
            () = context.ct.cancelled() => return Err(cancelled_error()),
            Some(meanwhile) = under_way.meanwhile.recv() => match meanwhile {
                CallProgress::Line(text) => {
                    // A client that reads nothing more must not keep a cancelled call alive.
                    context.ct.run_until_cancelled(progress.tell(text)).await.ok_or_else(cancelled_error)?;
                    heartbeat.reset();
                }
                CallProgress::Question(asking) if ask::goes_with_result(context) => {
                    return Ok(park_call(line, under_way, *asking));
                }
                CallProgress::Question(asking) => {
                    let approved = tokio::select! {
                        () = context.ct.cancelled() => return Err(cancelled_error()),
                        approved = line.hung_up.run_until_cancelled(ask::elicit_approval(context, &asking)) => approved,
                    };
                    asking.answer(approved.ok_or_else(cancelled_error)?);
                }
            },
            answer = &mut under_way.answered => {
                let answer = answer.ok_or_else(session_ended_error)?;
                return Ok(tools::call_result(answer).into());
            }
            _ = heartbeat.tick() => {
                context.ct.run_until_cancelled(progress.beat()).await.ok_or_else(cancelled_error)?;
            }
        }
    }
}

/// Ticks when the next heartbeat of a call is due. After a question to the user, missed ticks are skipped.
pub(super) fn heartbeat_interval() -> Interval {
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_PERIOD, HEARTBEAT_PERIOD);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// Reports the progress of a request, if the client asked for it.
pub(super) struct ProgressReporter<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    /// Number of messages so far, which is sent as the progress: the real progress is not known.
    count: u32,
}

impl<'a> ProgressReporter<'a> {
    pub(super) fn for_request(context: &'a RequestContext<RoleServer>) -> Self {
        Self {
            context,
            token: context.meta.get_progress_token(),
            count: 0,
        }
    }

    /// Tells the client that the call still runs. Some clients give up a call that sends nothing for a minute.
    pub(super) async fn beat(&mut self) {
        self.tell("at work".to_owned()).await;
    }

    /// Sends one message. A client that has gone is ignored.
    pub(super) async fn tell(&mut self, text: String) {
        let Some(token) = self.token.clone() else { return };
        self.count += 1;
        let progress = ProgressNotificationParam::new(token, f64::from(self.count)).with_message(text);
        let _ = self.context.peer.notify_progress(progress).await;
    }
}

/// The result that asks, with the call put aside until the answer comes.
fn park_call(line: &McpSession, under_way: UnderWay, asking: PendingQuestion) -> CallToolResponse {
    let state = uuid::Uuid::new_v4().simple().to_string();
    let result = ask::input_required(&asking, &state);
    line.drop_unanswered();
    line.pending().insert(state, WaitingCall { under_way, asking });
    result.into()
}

pub(super) fn cancelled_error() -> ErrorData {
    ErrorData::internal_error("The call was cancelled", Some(json!({"code": "cancelled"})))
}

pub(super) fn session_ended_error() -> ErrorData {
    ErrorData::internal_error(
        "The session of this connection has ended: it was cancelled, or the backend is stopping. Connect again",
        Some(json!({"code": "session-ended"})),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_keep_up_misses_lines() {
        let (watcher, mut meanwhile) = progress_channel();
        let told = (0..1_000).filter(|number| watcher.try_send(CallProgress::Line(number.to_string())).is_ok());
        assert_eq!(told.count(), MCP_PROGRESS_LINES_MAX);
        drop(watcher);
        let mut taken = 0;
        while meanwhile.recv().await.is_some() {
            taken += 1;
        }
        assert_eq!(taken, MCP_PROGRESS_LINES_MAX, "what waits is not lost");
    }
}
