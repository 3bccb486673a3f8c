//! The signals that end a command which has something to clear away.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;
use host::api::ErrorKind;

/// SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub(super) struct Ending([Signal; 3]);

impl Ending {
    /// Listens from now on; within a runtime.
    pub(super) fn new() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::new(ErrorKind::Runtime, format!("Ctrl-C cannot be handled: {error}")))
        };
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one of the signals.
    pub(super) async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
