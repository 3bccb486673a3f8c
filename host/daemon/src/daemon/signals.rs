//! Meaning of the signals that a daemon handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Request that a signal stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// To end, with sessions under way closed and their clients informed: SIGTERM, SIGINT, SIGQUIT.
    End(&'static str),
    /// To read the configuration again: SIGHUP. A daemon outlives the terminal that started it.
    Reread,
}

/// The handlers. From the moment they are there, none of these signals does what it does by default.
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

    /// The next one that asks for the end.
    pub(super) async fn end(&mut self) -> &'static str {
        loop {
            if let Asked::End(signal) = self.next().await {
                return signal;
            }
        }
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.quit.recv() => Asked::End("SIGQUIT"),
            _ = self.hangup.recv() => Asked::Reread,
        }
    }
}
