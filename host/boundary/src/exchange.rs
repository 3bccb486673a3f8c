//! One request of a guest and its response, shared by all handles of the guest for it.
//!
//! The guest may write the body after it has asked for the request to be sent. So the request waits here until its body
//! is complete, and is sent in one piece.

use std::fmt;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool_core::api::HostName;

use crate::budget::CallBudget;
use crate::secrets::{self, SecretMask};
use crate::transport::{HeaderFields, InboundResponse, TransportError};

/// A request that waits for its body.
pub(crate) struct WaitingRequest {
    pub(crate) host: HostName,
    pub(crate) is_encrypted: bool,
    pub(crate) method: String,
    pub(crate) path_with_query: String,
    pub(crate) fields: HeaderFields,
}

/// Why an exchange ended without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The transport failed.
    Transport(TransportError),
    /// The guest left its body unfinished.
    BodyUnfinished,
    /// The response is compressed although a secret may be in it: it cannot be masked.
    Encoded,
    /// The request names a secret that it may not have; the text says why.
    Secret(String),
}

/// Result of an exchange.
pub(crate) type ExchangeResult = Result<InboundResponse, ExchangeError>;

/// A request on its way.
pub(crate) struct SentRequest {
    pub(crate) receiver: Receiver<Result<InboundResponse, TransportError>>,
    pub(crate) masks: Vec<SecretMask>,
    /// Index of the request in the receipt.
    pub(crate) record: usize,
}

/// Progress of an exchange.
#[derive(Default)]
pub(crate) enum ExchangeProgress {
    /// The guest has not asked for it to be sent yet.
    #[default]
    Composed,
    /// It waits for its body.
    Waiting(Box<WaitingRequest>),
    /// It is on its way.
    Sent(SentRequest),
    /// It has come to an end.
    Ended(ExchangeResult),
    /// The guest has its result.
    Taken,
}

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Vec<u8>,
    /// The guest has asked for a handle to it.
    pub(crate) is_open: bool,
    /// Nothing more can be written.
    pub(crate) is_finished: bool,
}

/// See the module.
pub(crate) struct HttpExchange {
    call: Arc<CallBudget>,
    progress: Mutex<ExchangeProgress>,
    body: Mutex<RequestBody>,
}

impl fmt::Debug for HttpExchange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpExchange").finish_non_exhaustive()
    }
}

impl HttpExchange {
    pub(crate) fn new(call: &Arc<CallBudget>) -> Arc<Self> {
        Arc::new(Self {
            call: Arc::clone(call),
            progress: Mutex::default(),
            body: Mutex::default(),
        })
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, ExchangeProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn body(&self) -> MutexGuard<'_, RequestBody> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once there is a result. Takes it from the transport where it has come.
    pub(crate) fn is_ready(&self) -> bool {
        let mut progress = self.progress();
        if let ExchangeProgress::Sent(sent) = &*progress {
            let response = match sent.receiver.try_recv() {
                Ok(response) => response,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => Err(TransportError::Unavailable),
            };
            *progress = ExchangeProgress::Ended(self.received(sent, response));
        }
        matches!(&*progress, ExchangeProgress::Ended(_) | ExchangeProgress::Taken)
    }

    /// Hands over the result, once.
    pub(crate) fn take(&self) -> ExchangeProgress {
        std::mem::replace(&mut *self.progress(), ExchangeProgress::Taken)
    }

    /// A response as the guest may see it.
    fn received(&self, sent: &SentRequest, response: Result<InboundResponse, TransportError>) -> ExchangeResult {
        let ended = response.as_ref().map(|response| (response.status, response.body.len()));
        self.call.note_response(sent.record, ended.map_err(|error| *error));
        let mut response = response.map_err(ExchangeError::Transport)?;
        // A mask searches for the bytes of a secret, which compression changes.
        if !sent.masks.is_empty() && secrets::is_encoded(&response) {
            return Err(ExchangeError::Encoded);
        }
        for mask in &sent.masks {
            mask.apply(&mut response);
        }
        Ok(response)
    }
}
