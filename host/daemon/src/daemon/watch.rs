//! Watches signals, the home and the configuration of a running daemon, and the time without requests.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::lock;
use super::log::LogLevel;
use super::signals::{SignalRequest, Signals};
use super::state::{self, DaemonRecord};
use crate::http::Traffic;
use crate::limits;
use tool_config::LiveConfig;
use tool_session::Sessions;

/// Milliseconds between two checks that the home directory exists. A check takes microseconds.
const HOME_LOOK_MS: u64 = 2000;

/// Minutes without a request after which the daemon of a CI job ends. Jobs stop their daemon themselves, unless they
/// are killed.
const JOB_IDLE_MINUTES: u32 = 10;

/// Reason why a daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DaemonEnd {
    Signal(&'static str),
    /// Its lock is no longer the one in the home. After the user has removed the folder, no client can find this
    /// process any more to stop it.
    HomeGone,
    /// Nothing ran, and no request came for the time of [`idle_minutes`].
    Idle,
    /// A client of another version asked for it, and nothing was under way.
    Replaced,
}

pub(super) struct DaemonWatch {
    pub(super) home: PathBuf,
    pub(super) lock_inode: Option<u64>,
    pub(super) record: DaemonRecord,
    pub(super) live: Arc<LiveConfig>,
    pub(super) level: LogLevel,
    pub(super) traffic: Arc<Traffic>,
    pub(super) sessions: Arc<Sessions>,
    /// Overrides the configured time.
    pub(super) idle_time: Option<Duration>,
}

/// Inode of the held lock.
pub(super) fn lock_inode(lock: &File) -> Option<u64> {
    lock.metadata().ok().map(|metadata| metadata.ino())
}

/// Minutes without a request after which a daemon ends; `None` for no limit. By default only a daemon without a port has
/// a limit, because it serves one CI job.
fn idle_minutes(configured: Option<NonZeroU32>, port: u16) -> Option<u32> {
    let of_a_job = (port == 0).then_some(JOB_IDLE_MINUTES);
    configured.map(NonZeroU32::get).or(of_a_job)
}

impl DaemonWatch {
    /// Waits until the daemon has to end. Its record then says that it is stopping.
    pub(super) async fn until_end(self, mut signals: Signals) -> DaemonEnd {
        let mut look = tokio::time::interval(self.look_time());
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let end = loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    SignalRequest::End(signal) => break DaemonEnd::Signal(signal),
                    SignalRequest::Reread => self.reread(),
                },
                () = self.sessions.closed() => break DaemonEnd::Replaced,
                _ = look.tick() => {
                    self.follow_configuration();
                    if self.is_home_gone() {
                        break DaemonEnd::HomeGone;
                    }
                    if self.is_idle() && self.leave().await {
                        break DaemonEnd::Idle;
                    }
                }
            }
        };
        tracing::info!(why = ?end, "stopping");
        if end != DaemonEnd::HomeGone {
            self.say_stopping(true);
        }
        end
    }

    fn look_time(&self) -> Duration {
        let usual = limits::milliseconds(HOME_LOOK_MS);
        self.idle_time.map_or(usual, |idle| usual.min(idle / 2))
    }

    fn reread(&self) {
        self.live.reread();
        tracing::info!("SIGHUP: the configuration was read again");
        self.follow_configuration();
    }

    /// Applies the log level. Access rules are read with each request.
    fn follow_configuration(&self) {
        self.level.follow(&self.live.current().log_level);
    }

    /// A home that cannot be examined for a while, for example on a network, is not gone.
    fn is_home_gone(&self) -> bool {
        match fs::metadata(lock::lock_path(&self.home)) {
            Ok(metadata) => self.lock_inode.is_some_and(|held| held != metadata.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn idle_time_wanted(&self) -> Option<Duration> {
        let minutes = idle_minutes(self.live.current().server.idle_minutes, self.record.port);
        self.idle_time
            .or_else(|| minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes))))
    }

    fn is_idle(&self) -> bool {
        let wanted = self.idle_time_wanted();
        self.sessions.is_idle() && wanted.is_some_and(|wanted| self.traffic.silence() >= wanted)
    }

    /// Announces the end, and keeps listening for a moment: a client that has already read the record still gets an
    /// answer, and then the daemon stays. Returns true if no client came.
    async fn leave(&self) -> bool {
        self.say_stopping(true);
        tokio::time::sleep(Duration::from_millis(limits::LEAVE_MS)).await;
        let leaves = self.is_idle() && self.sessions.close_if_idle();
        if !leaves {
            self.say_stopping(false);
        }
        leaves
    }

    fn say_stopping(&self, stopping: bool) {
        let record = DaemonRecord {
            stopping,
            ..self.record.clone()
        };
        if let Err(error) = state::publish_record(&self.home, &record) {
            tracing::warn!(%error, "the state file could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_a_job_that_was_killed_does_not_stay() {
        assert_eq!((idle_minutes(None, 8000), idle_minutes(None, 0)), (None, Some(10)));
        assert_eq!(idle_minutes(NonZeroU32::new(90), 0), Some(90));
    }
}
