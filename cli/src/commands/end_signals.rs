//! The signals that end a command which has to clean up.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;
use tool_core::api::ErrorKind;

/// SIGINT, SIGTERM and, unless `nohup` has turned it off, SIGHUP.
#[derive(Debug)]
pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Listens from now on. Must be called within a runtime.
    pub(super) fn new() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::new(ErrorKind::Runtime, format!("Ctrl-C cannot be handled: {error}")))
        };
        Ok(Self {
            hangup: if is_hangup_ignored() {
                None
            } else {
                Some(listen(SignalKind::hangup())?)
            },
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(super) async fn asked(&mut self) {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// True if the starting process ignores SIGHUP. Only Linux shows that in a file; elsewhere the signal counts.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}
