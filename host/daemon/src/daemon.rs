//! The daemon's lifecycle: lock, token, bind, state file, serve, drain, stop; and how a client finds and starts it.
//!
//! Each home directory has one daemon. It holds the lock on `backend.lock` as long as it lives, so that a pid never
//! has to prove that it runs. `backend.json` holds its identity and address, and `backend.pid` only the pid, for
//! scripts. The command line connects to `backend.sock`. The modules `http` and `session` handle the requests.

mod home;
mod lock;
mod log;
mod port;
mod signals;
mod socket;
mod start;
mod state;
mod stop;
mod watch;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::commit_history::GitHistory;
use crate::contents::IndexedContents;
use crate::http::{self, AppState, Traffic};
use crate::limits;
use crate::outline::{SandboxedParser, SandboxedSymbols};
use port::BoundPort;
use signals::Signals;
use state::start_failure;
use tool_config::Environment;
use tool_context::Indexes;
use tool_core::api::{self, ErrorKind, Problem};
use tool_registry::skill_http::SkillTransport;
use tool_sandbox::scratch;
use tool_session::Sessions;
use tool_skill::{Builtin, EmbeddedOutliner, HostServices, Limits, Outliners, SkillHost};
use watch::{DaemonEnd, DaemonWatch};

pub use home::check_home;
pub use port::taken_hint;
pub use socket::{ConnectError, ReachedDaemon, connect_to_daemon, socket_path};
pub use start::{Announcement, start_daemon};
pub use state::{DaemonRecord, find_daemon, has_left, token_path};
pub use stop::{await_daemon_end, find_staying, stop_daemon};

/// Longest time that a starting daemon tries to get the lock while no holder publishes its address, and that a client
/// waits for that address: a look at the lock lasts microseconds, a start some ten milliseconds.
const LOCK_PATIENCE_MS: u64 = 2_000;

/// Address in the record of a daemon without a port.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Start options of a daemon.
#[derive(Debug)]
pub struct DaemonOptions {
    /// The home directory of the daemon.
    pub home: PathBuf,
    /// Port; 0 for any free one, absent to serve only the Unix socket. The configuration has the address.
    pub port: Option<u16>,
    /// Environment of the daemon. A request's variables take precedence.
    pub environment: Environment,
    /// Skills that are embedded in the binary.
    pub builtins: &'static [Builtin],
    /// Components that parse source files.
    pub outliners: &'static [EmbeddedOutliner],
}

/// Detaches the process from its terminal and directory, so that neither a key pressed in the terminal nor its end
/// stops a daemon. Under a service manager the process already leads a session, and `setsid` fails.
pub fn detach_process() {
    let _ = rustix::process::setsid();
    // A daemon uses no relative paths. If it cannot change the directory, the old one only cannot be unmounted.
    let _ = std::env::set_current_dir("/");
}

/// Runs the daemon until it has to stop. `announce` reports the progress of the start.
///
/// # Errors
///
/// The start failed.
pub fn run_daemon(options: DaemonOptions, announce: impl Fn(&Announcement)) -> Result<(), Problem> {
    tool_sandbox::heap::limit_heaps();
    allow_open_files();
    if let Some(file) = options.environment.wrong_clock() {
        api::make_wrong(file);
    }
    let home = options.home.clone();
    home::make_home(&home)?;
    let lock = lock::acquire_lock(&home)?;
    // A daemon that was killed left its files behind.
    state::withdraw_record(&home);
    // An invalid configuration does not prevent the start: sessions report the error.
    let live = Arc::new(tool_config::LiveConfig::open(&home, &options.environment));
    let log_failure = |error: io::Error| start_failure("its log below", &home, &error);
    let level = log::start_log(&home, &live.current().log_level).map_err(log_failure)?;
    let traffic = Arc::new(Traffic::new(log::open_access_log(&home).map_err(log_failure)?));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| start_failure("a runtime for", &home, &error))?;
    let parts = DaemonParts {
        live,
        level,
        traffic,
        lock_inode: watch::lock_inode(&lock),
    };
    let served = runtime.block_on(serve_home(options, parts, announce));
    // Blocking work that ignores its cancellation must not keep a stopped daemon alive.
    runtime.shutdown_timeout(Duration::from_secs(limits::STOP_SECONDS_MAX));
    drop(lock);
    served
}

/// Raises the limit for open files to what connections and sessions need together. Shells commonly set 1,024. If the
/// system allows fewer, requests wait for a free connection.
fn allow_open_files() {
    let wanted = Some(limits::FILES_OPEN_WANTED);
    let now = getrlimit(Resource::Nofile);
    let soft = match now.maximum {
        Some(most) => wanted.min(Some(most)),
        None => wanted,
    };
    if now.current.is_some() && now.current < soft {
        let raised = Rlimit {
            current: soft,
            maximum: now.maximum,
        };
        // If this fails, the old limit applies.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

struct DaemonParts {
    live: Arc<tool_config::LiveConfig>,
    level: log::LogLevel,
    traffic: Arc<Traffic>,
    lock_inode: Option<u64>,
}

async fn serve_home(
    options: DaemonOptions,
    parts: DaemonParts,
    announce: impl Fn(&Announcement),
) -> Result<(), Problem> {
    let DaemonOptions {
        home,
        port,
        environment,
        builtins,
        outliners,
    } = options;
    let DaemonParts {
        live,
        level,
        traffic,
        lock_inode,
    } = parts;
    // Examining every process of the machine takes a while, and only the sessions depend on it.
    let leftovers =
        scratch::open_scratch(&home).map_err(|error| start_failure("the folder `tmp` of", &home, &error))?;
    let orphans = tokio::task::spawn_blocking(tool_sandbox::end_orphans);
    let bind = |port| port::bind_port(SocketAddr::new(live.current().server.address, port));
    let port = port.map(bind).transpose()?;
    let listening = port.as_ref().map_or(NOWHERE, BoundPort::address);
    let token = state::read_or_make_token(&home).map_err(|error| start_failure("the token of", &home, &error))?;
    let mut signals = Signals::new().map_err(|error| start_failure("signals for", &home, &error))?;
    let unusable =
        |error: String| Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(error);
    let parser = Arc::new(SandboxedParser(Outliners::new(outliners)));
    let indexes = Indexes::new(&home, Arc::<SandboxedParser>::clone(&parser), Arc::new(GitHistory));
    let surroundings = HostServices {
        transport: Some(Arc::new(SkillTransport::new(&home))),
        symbols: Some(Arc::new(SandboxedSymbols {
            parser,
            indexes: Some(Arc::clone(&indexes)),
        })),
        contents: Some(Arc::new(IndexedContents(Arc::clone(&indexes)))),
        environment: environment.clone(),
    };
    let skills = SkillHost::with_connections(builtins, &home, Limits::default(), surroundings)
        .map_err(|error| unusable(error.to_string()))?;
    match orphans.await {
        Ok(0) | Err(_) => {}
        Ok(count) => tracing::warn!(count, "ended what a killed backend had left running"),
    }
    // Nothing uses the leftovers any more, and nothing waits for their removal.
    tokio::task::spawn_blocking(|| leftovers.remove());
    // An invalid configuration does not prevent the start; the next session reports the error.
    let settings = tool_config::load_settings(&home, &environment).ok();
    let provider = settings.map(|settings| settings.provider);
    let keys = provider
        .iter()
        .flat_map(|provider| provider.secrets().map(str::to_owned))
        .collect();
    announce(&Announcement::Recovering);
    tracing::info!("looking at the sessions, and recovering those that a killed backend has left");
    let opened = {
        let (home, skills, scan_time) = (home.clone(), Arc::clone(&skills), environment.scan_time());
        tokio::task::spawn_blocking(move || Sessions::open(&home, skills, indexes, scan_time, keys))
    };
    let sessions = tokio::select! {
        opened = opened => opened.map_err(|error| unusable(error.to_string()))?,
        // The next daemon completes a partial recovery, as after a crash.
        signal = signals.end() => return Err(unusable(format!("{signal} ended it while sessions were recovered"))),
    };
    let sessions = sessions.map_err(|error| unusable(error.to_string()))?;
    let record = DaemonRecord::of_this_process(listening, environment.version().to_owned());
    let idle_time = environment.idle_time();
    let state = AppState::new(http::RouterParts {
        sessions: Arc::clone(&sessions),
        skills,
        token,
        listening,
        live: Arc::clone(&live),
        traffic: Arc::clone(&traffic),
        started: record.started,
        home: home.clone(),
        environment,
    });
    // Listen last: the owner of a connection that waited in the queue would be looked up too late.
    let sockets = http::ServerSockets {
        tcp: port.map(BoundPort::listen).transpose()?,
        unix: socket::listen_on_socket(&home).map_err(|error| start_failure("the socket of", &home, &error))?,
    };
    state::publish_record(&home, &record).map_err(|error| start_failure("the state file of", &home, &error))?;
    tracing::info!(pid = record.pid, address = %listening, version = record.version, "ready");
    if record.is_exposed() {
        tracing::warn!(address = %listening, "other machines may reach this: every request needs the token");
    }
    announce(&Announcement::Ready(record.clone()));
    let life = DaemonWatch {
        home: home.clone(),
        lock_inode,
        record,
        live,
        level,
        traffic,
        sessions: Arc::clone(&sessions),
        idle_time,
    };
    let (ended, end) = tokio::sync::oneshot::channel();
    let stop = async move {
        let end = life.until_end(signals).await;
        // Without a receiver, the server has ended already.
        let _ = ended.send(end);
    };
    let served = http::serve_sockets(sockets, state, stop).await;
    sessions.drain().await;
    // If the home was removed, files at its path are not ours.
    if !matches!(end.await, Ok(DaemonEnd::HomeGone)) {
        state::withdraw_record(&home);
    }
    tracing::info!("stopped");
    served.map_err(|error| Problem::new(ErrorKind::StartFailed, format!("The backend stopped: {error}")))
}

/// Returns the problem with a daemon that runs but cannot be found: its record is missing, damaged or of another
/// process.
pub fn find_lost_daemon(home: &Path) -> Option<Problem> {
    // A daemon that is starting writes its record soon.
    if find_daemon(home).is_some() || !lock::is_held(home) || await_record_or_end(home) {
        return None;
    }
    let place = lock::lock_path(home);
    let message = format!("A backend holds {} and does not say where it is", place.display());
    // Only the record could identify the process, so the message names none.
    let hint = format!(
        "it may still be starting: {} says what it does; if backend.json was removed, end the process that `fuser {}` \
         shows, and try again",
        log::log_path(home).display(),
        place.display()
    );
    Some(Problem::new(ErrorKind::BackendDown, message).with_hint(hint))
}

/// Waits a little until the holder of the lock has written its record, or has ended.
fn await_record_or_end(home: &Path) -> bool {
    let deadline = std::time::Instant::now() + Duration::from_millis(LOCK_PATIENCE_MS);
    while std::time::Instant::now() < deadline {
        if find_daemon(home).is_some() || !lock::is_held(home) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
