//! The calls of a connection on their way to the session that makes them.

use serde_json::Value;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::approvals::CallProgress;
use tool_core::api::Receipt;
use tool_skill::{CallError, CallOutcome};

/// A call of another agent.
pub struct ConnectionCall {
    /// Name of the skill.
    pub name: String,
    /// Arguments, not yet checked.
    pub arguments: Value,
    /// True if the caller can answer questions.
    pub can_ask: bool,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Channel for live output and questions. When it is full, lines are dropped and questions wait.
    pub meanwhile: mpsc::Sender<CallProgress>,
}

/// The result of a call.
#[derive(Debug)]
pub struct CallAnswer {
    /// Outcome of the call, without keys.
    pub result: Result<CallOutcome, CallError>,
    /// Cost of the call; absent if nothing ran.
    pub receipt: Option<Receipt>,
    /// Text for the model.
    pub text: String,
}

/// Message to the session's owner.
pub(super) enum Incoming {
    /// A call, and the channel for its answer.
    Call {
        call: ConnectionCall,
        answer: oneshot::Sender<CallAnswer>,
    },
    /// The client gets text that no call has read. `noted` is dropped once the conversation is tainted.
    Outside { place: String, noted: oneshot::Sender<()> },
}

/// Receiver for the calls of a connection.
pub(super) struct CallQueue(pub(super) Mutex<mpsc::Receiver<Incoming>>);

impl CallQueue {
    pub(super) fn new(incoming: mpsc::Receiver<Incoming>) -> Self {
        Self(Mutex::new(incoming))
    }
}
