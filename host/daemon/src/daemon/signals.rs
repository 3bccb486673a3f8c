//! The signals that a daemon handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// End the sessions, inform their clients and exit: SIGTERM, SIGINT, SIGQUIT.
    End(&'static str),
    /// Read the configuration again: SIGHUP. A daemon survives the terminal that started it.
    Reread,
}

/// The installed handlers. None of these signals has its default effect any more.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal that ends the daemon.
    pub(super) async fn end(&mut self) -> &'static str {
        loop {
            if let SignalRequest::End(signal) = self.next().await {
                return signal;
            }
        }
    }

    pub(super) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::End("SIGTERM"),
            _ = self.interrupt.recv() => SignalRequest::End("SIGINT"),
            _ = self.quit.recv() => SignalRequest::End("SIGQUIT"),
            _ = self.hangup.recv() => SignalRequest::Reread,
        }
    }
}
