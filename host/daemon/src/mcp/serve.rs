//! Connections: how their sessions begin and end, and how many there are.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use rmcp::service::serve_server_with_ct;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::lines::LineTransport;
use super::{McpSession, Operations, Server, lock_unpoisoned};
use crate::limits;
use tool_config::PolicySettings;
use tool_core::api::{ConnectRequest, ErrorKind, Problem};
use tool_repository::ROOT_FILE;
use tool_session::Sessions;
use tool_skill::lock;
use tool_skill::policy::GrantPlace;

/// Seconds for which a connection over HTTP may be silent: longer than the longest call, which may be silent itself.
const MCP_IDLE_SECONDS_MAX: u64 = 30 * 60;

/// All connections of a daemon.
pub(crate) struct McpConnections {
    sessions: Arc<Sessions>,
    places: Arc<Semaphore>,
    /// Sessions over HTTP. Their clients may have gone without a DELETE, so a new session evicts the one that was
    /// idle longest.
    evictable: std::sync::Mutex<Vec<Weak<McpSession>>>,
    /// Connections over HTTP, for revisions with connections, by what their clients may do: a client cannot reach a
    /// connection with more rights.
    http: HashMap<ClientReach, Arc<LocalSessionManager>>,
    /// Sessions of clients without connections, by repository and client. Locked only for a lookup, never while a
    /// session opens.
    shared: std::sync::Mutex<HashMap<SharedSessionKey, SharedSessionSlot>>,
    closing: CancellationToken,
}

/// Key of a shared session: real path of the directory, client, and what the client may do.
type SharedSessionKey = (String, String, ClientReach);

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ClientReach {
    /// It may be confined, and may only call functions that read.
    Reads,
    /// It may cause all effects that the configuration allows.
    Works,
    /// It holds the token, and may also answer questions.
    Answers,
}

/// Slot of a shared session. The request that opens the session holds the lock, so that only requests for the same
/// session wait.
type SharedSessionSlot = Arc<Mutex<Option<McpShared>>>;

struct McpShared {
    line: Arc<McpSession>,
    /// State of the repository's files at the start; a request with another state gets another session.
    marks: FileMarks,
    settings: PolicySettings,
    keys: Vec<String>,
    used: Instant,
}

/// Parts of a session that is opened on first use.
pub(crate) struct PendingSession {
    /// Connections of the daemon, which hold the session.
    pub(crate) mcp: Arc<McpConnections>,
    /// Repository and granted effects.
    pub(crate) request: ConnectRequest,
    /// Policy from the user's configuration.
    pub(crate) settings: PolicySettings,
    /// Keys of the configuration.
    pub(crate) keys: Vec<String>,
    /// Variables that recipes may see.
    pub(crate) environment: BTreeMap<String, String>,
    /// What the client may do.
    pub(crate) reach: ClientReach,
    /// Operations that the user grants.
    pub(crate) operations: Arc<Operations>,
}

impl PendingSession {
    /// Opens a session that ends with its client.
    pub(crate) async fn line(&self) -> Result<Arc<McpSession>, Problem> {
        self.own(CancellationToken::new(), GrantPlace::AgentEntry).await
    }

    /// Opens a session for a connection over HTTP. If another session needs its permit, it is evicted and `stop` is
    /// cancelled.
    pub(super) async fn evictable(&self, stop: CancellationToken) -> Result<Arc<McpSession>, Problem> {
        let line = self.own(stop, GrantPlace::Configuration).await?;
        let mut evictable = lock_unpoisoned(&self.mcp.evictable);
        evictable.retain(|line| line.strong_count() > 0);
        evictable.push(Arc::downgrade(&line));
        Ok(line)
    }

    async fn own(&self, stop: CancellationToken, place_of_grants: GrantPlace) -> Result<Arc<McpSession>, Problem> {
        let place = self.mcp.take_place().ok_or_else(|| {
            let message = format!("{} other agents are connected", limits::MCP_CONNECTIONS_MAX);
            Problem::new(ErrorKind::Busy, message).with_hint("end one of them, or wait until one of them is idle")
        })?;
        let (settings, keys) = (self.settings.clone(), self.keys.clone());
        let sessions = &self.mcp.sessions;
        let connection = sessions
            .connect(&self.request, place_of_grants, settings, keys, self.environment.clone())
            .await?;
        Ok(McpSession::new(connection, place, self.reach, stop))
    }

    /// The session that requests of this client for this repository share, until none has come for a while.
    pub(super) async fn shared(&self, client: String) -> Result<Arc<McpSession>, Problem> {
        let (root, marks) = looked_at(&self.request.repo_path).await;
        let key = (root, client, self.reach);
        let seat = self.mcp.seat(&key);
        let mut shared = seat.lock().await;
        let is_current = |known: &&mut McpShared| {
            !known.line.connection.has_ended()
                && !known.line.stop.is_cancelled()
                && known.marks == marks
                && known.settings == self.settings
                && known.keys == self.keys
        };
        if let Some(known) = shared.as_mut().filter(is_current) {
            known.used = Instant::now();
            return Ok(Arc::clone(&known.line));
        }
        let line = self.evictable(CancellationToken::new()).await?;
        line.connection
            .note_client(&format!("{} (without a connection)", key.1));
        let known = McpShared {
            line: Arc::clone(&line),
            marks,
            settings: self.settings.clone(),
            keys: self.keys.clone(),
            used: Instant::now(),
        };
        if let Some(outdated) = shared.replace(known) {
            outdated.line.stop.cancel();
        }
        let (weak, stop) = (Arc::downgrade(&line), line.stop.clone());
        tokio::spawn(Arc::clone(&self.mcp).forget_idle(key, weak, stop));
        Ok(line)
    }
}

/// Canonical path of a directory, so that all its names share a session, with its marks. A directory that cannot be
/// examined keeps its name, and opening it reports the error.
async fn looked_at(path: &str) -> (String, FileMarks) {
    let named = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || {
        let real = Path::new(&named).canonicalize().ok()?;
        let marks = file_marks(&real);
        Some((real.into_os_string().into_string().ok()?, marks))
    });
    looked
        .await
        .ok()
        .flatten()
        .unwrap_or_else(|| (path.to_owned(), FileMarks::new()))
}

/// Marks that change when a repository is recreated or its restrictions change: device, inode, and times of the last
/// change.
type FileMarks = Vec<Option<(u64, u64, i64, i64)>>;

fn file_marks(root: &Path) -> FileMarks {
    let file = |place: PathBuf| {
        let metadata = std::fs::metadata(place).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    // The file of the work tree also restricts a folder in it.
    let narrowing = root.ancestors().map(|folder| file(folder.join(ROOT_FILE)));
    let directory = std::fs::metadata(root).ok();
    let directory = directory.map(|metadata| (metadata.dev(), metadata.ino(), 0, 0));
    [directory, file(root.join(lock::NAME))]
        .into_iter()
        .chain(narrowing)
        .collect()
}

impl McpConnections {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Arc<Self> {
        let http = |reach| {
            let mut http = LocalSessionManager::default();
            http.session_config.keep_alive = Some(limits::seconds(MCP_IDLE_SECONDS_MAX));
            (reach, Arc::new(http))
        };
        Arc::new(Self {
            sessions,
            places: Arc::new(Semaphore::new(limits::MCP_CONNECTIONS_MAX)),
            evictable: std::sync::Mutex::default(),
            http: [ClientReach::Reads, ClientReach::Works, ClientReach::Answers]
                .map(http)
                .into(),
            shared: std::sync::Mutex::default(),
            closing: CancellationToken::new(),
        })
    }

    /// Ends connections that HTTP requests have left open. Their sessions have ended before.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Takes a permit for another session. If all are in use, the session that was idle longest is evicted.
    fn take_place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let mut idle: Vec<Arc<McpSession>> = lock_unpoisoned(&self.evictable)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        idle.sort_by_cached_key(|line| *lock_unpoisoned(&line.used));
        idle.iter().find_map(|line| {
            let place = line.evict()?;
            tracing::info!(session = line.session(), "an idle agent was evicted for a new one");
            Some(place)
        })
    }

    /// Serves lines until either side closes them, or the session ends.
    pub(crate) async fn serve_lines<R, W>(
        self: &Arc<Self>,
        line: Arc<McpSession>,
        connecting: &PendingSession,
        reader: R,
        writer: W,
    ) where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let server = Server::of_line(Arc::clone(&self.sessions), Arc::clone(&line), connecting);
        let stop = CancellationToken::new();
        let serving = async {
            match serve_server_with_ct(
                server,
                LineTransport::new(reader, writer, line.hung_up.clone()),
                stop.clone(),
            )
            .await
            {
                Ok(service) => drop(service.waiting().await),
                Err(error) => tracing::info!(%error, "another agent did not begin"),
            }
        };
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            () = &mut serving => return,
            () = line.connection.ended() => stop.cancel(),
        }
        serving.await;
    }

    /// Returns the service for one HTTP request. If the request names a connection, its server exists already.
    pub(crate) fn streamable_service(
        self: &Arc<Self>,
        connecting: Arc<PendingSession>,
    ) -> StreamableHttpService<Server, LocalSessionManager> {
        let sessions = Arc::clone(&self.sessions);
        let http = Arc::clone(&self.http[&connecting.reach]);
        // If the request begins a connection, this becomes the cancellation token of the connection.
        let stop = self.closing.child_token();
        let stop_of_server = stop.clone();
        let server = move || {
            let (sessions, connecting) = (Arc::clone(&sessions), Arc::clone(&connecting));
            Ok(Server::to_connect(sessions, connecting, stop_of_server.clone()))
        };
        let config = StreamableHttpServerConfig::default()
            // Our own checks of Host and Origin know the port and the configured names.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits::MCP_MESSAGE_BYTES_MAX)
            .with_cancellation_token(stop);
        StreamableHttpService::new(server, http, config)
    }

    /// Returns the slot of the session for these requests, which may be empty.
    fn seat(&self, key: &SharedSessionKey) -> SharedSessionSlot {
        let mut seats = self.seats();
        // A session that could not be opened, or has ended, leaves an empty slot that no request holds.
        seats.retain(|_, seat| Arc::strong_count(seat) > 1 || seat.try_lock().is_ok_and(|shared| shared.is_some()));
        Arc::clone(seats.entry(key.clone()).or_default())
    }

    fn seats(&self) -> std::sync::MutexGuard<'_, HashMap<SharedSessionKey, SharedSessionSlot>> {
        lock_unpoisoned(&self.shared)
    }

    /// Drops a shared session once no request has come for a while, or once it is evicted.
    async fn forget_idle(self: Arc<Self>, key: SharedSessionKey, line: Weak<McpSession>, stop: CancellationToken) {
        let patience = limits::seconds(MCP_IDLE_SECONDS_MAX);
        let mut rest = patience;
        loop {
            let evicted = stop.run_until_cancelled(tokio::time::sleep(rest)).await.is_none();
            let seat = self.seat(&key);
            let mut shared = seat.lock().await;
            let Some(known) = shared.as_ref().filter(|known| known.line.is_same_session(&line)) else {
                return;
            };
            // A running call keeps its session alive.
            rest = patience.saturating_sub(known.used.elapsed());
            if evicted || rest.is_zero() {
                *shared = None;
                drop(shared);
                // Requests that wait for this slot open a new session in it.
                let mut seats = self.seats();
                if Arc::strong_count(&seat) == 2 {
                    seats.remove(&key);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::fakes::FakeEngine;
    use crate::world::open_sessions;
    use tool_config::ProviderSettings;
    use tool_core::api::{Overrides, PolicyRequest, SkillEntry};
    use tool_journal::history::Filter;
    use tool_provider::Provider;
    use tool_session::engine::{Engine, KeyObserver};
    use tool_skill::lock::{LockDifference, SkillLock};
    use tool_skill::{CallContext, CallReport, LockedSkills, OfferedTools, RawArguments, SkillScope};

    /// An engine that takes its time to say which skills there are.
    struct SlowEngine {
        engine: Arc<FakeEngine>,
        is_slow: AtomicBool,
        is_asked: AtomicBool,
    }

    impl Engine for SlowEngine {
        fn connect(
            &self,
            settings: &ProviderSettings,
            environment: &BTreeMap<String, String>,
            on_key: &KeyObserver,
        ) -> Result<Arc<dyn Provider>, Problem> {
            self.engine.connect(settings, environment, on_key)
        }

        fn entries(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry> {
            self.is_asked.store(true, Ordering::Relaxed);
            // A test that has failed meanwhile is not to wait for ever.
            let patience = Instant::now() + std::time::Duration::from_secs(30);
            while self.is_slow.load(Ordering::Relaxed) && Instant::now() < patience {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            self.engine.entries(lock)
        }

        fn differences(&self, lock: &SkillLock, _: &Path) -> Vec<LockDifference> {
            lock.differences(&self.entries(None))
        }

        fn effects(&self, name: &str, lock: Option<&SkillLock>) -> Option<Vec<tool_core::api::Effect>> {
            self.engine.effects(name, lock)
        }

        fn specs(&self, scope: SkillScope<'_>) -> OfferedTools {
            self.engine.specs(scope)
        }

        fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
            self.engine.call(context, name, arguments)
        }
    }

    fn connecting(home: &tempfile::TempDir) -> Arc<PendingSession> {
        connecting_with(home, FakeEngine::new(Vec::new()))
    }

    /// A place for sessions, and what makes one of them.
    fn connecting_with(home: &tempfile::TempDir, engine: Arc<dyn Engine>) -> Arc<PendingSession> {
        let root = home.path().join("repository");
        std::fs::create_dir(&root).expect("the folder is writable");
        let state = home.path().join("home");
        let sessions = open_sessions(&state, engine, None).expect("it can be opened");
        Arc::new(PendingSession {
            mcp: McpConnections::new(sessions),
            request: ConnectRequest {
                repo_path: root.to_string_lossy().into_owned(),
                policy: PolicyRequest::default(),
                overrides: Overrides::default(),
                structured: false,
                operations: Vec::new(),
            },
            settings: PolicySettings::default(),
            keys: Vec::new(),
            environment: BTreeMap::new(),
            reach: ClientReach::Answers,
            operations: Arc::new(Operations {
                granted: Vec::new(),
                settings: Err(Problem::new(ErrorKind::ConfigMissing, "there is none")),
                policy: PolicySettings::default(),
                vault: None,
                request: PolicyRequest::default(),
                environment: BTreeMap::new(),
            }),
        })
    }

    #[tokio::test]
    async fn a_session_that_nobody_uses_any_more_ends() {
        let _hurried = limits::pace::hurried(u32::try_from(MCP_IDLE_SECONDS_MAX * 10).expect("it is small"));
        let home = tempfile::tempdir().expect("a temporary folder");
        let connecting = connecting(&home);
        let line = connecting.shared("a client".to_owned()).await.expect("there is room");
        let again = connecting.shared("a client".to_owned()).await.expect("it is there");
        assert_eq!(line.session(), again.session());
        let other = connecting.shared("another".to_owned()).await.expect("there is room");
        assert_ne!(line.session(), other.session());
        let narrowed = PendingSession {
            mcp: Arc::clone(&connecting.mcp),
            request: connecting.request.clone(),
            settings: PolicySettings {
                deny: vec!["write-repository".to_owned()],
                ..PolicySettings::default()
            },
            keys: Vec::new(),
            environment: BTreeMap::new(),
            reach: ClientReach::Answers,
            operations: Arc::clone(&connecting.operations),
        };
        let fresh = narrowed.shared("a client".to_owned()).await.expect("there is room");
        assert_ne!(
            fresh.session(),
            line.session(),
            "what the user takes back is taken back"
        );
        drop((line, again, other, fresh));
        let sessions = &connecting.mcp.sessions;
        let patience = Instant::now() + std::time::Duration::from_secs(20);
        while sessions.history(&Filter::default()).sessions.len() < 3 {
            assert!(Instant::now() < patience, "they have ended");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert!(connecting.mcp.seats().is_empty());
    }

    /// Copies `connecting` for another directory, perhaps with a frozen policy.
    fn of(connecting: &PendingSession, root: &Path, frozen: bool) -> PendingSession {
        let mut request = connecting.request.clone();
        request.repo_path = root.to_string_lossy().into_owned();
        request.policy.frozen = frozen;
        PendingSession {
            mcp: Arc::clone(&connecting.mcp),
            request,
            settings: connecting.settings.clone(),
            keys: Vec::new(),
            environment: BTreeMap::new(),
            reach: ClientReach::Answers,
            operations: Arc::clone(&connecting.operations),
        }
    }

    #[tokio::test]
    async fn one_repository_under_two_names_is_one_session() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let connecting = connecting(&home);
        let root = home.path().join("repository");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&root, &link).expect("the folder is writable");
        let line = connecting.shared("a client".to_owned()).await.expect("there is room");
        for name in [link, root.join(".").join("..").join("repository"), root.join("")] {
            let other = of(&connecting, &name, false);
            let other = other.shared("a client".to_owned()).await.expect("there is room");
            assert_eq!(line.session(), other.session(), "{}", name.display());
        }
    }

    #[tokio::test]
    async fn a_repository_that_is_narrowed_or_made_anew_has_another_session() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let connecting = connecting(&home);
        let root = home.path().join("repository");
        let mut sessions = std::collections::BTreeSet::new();
        for step in 0..4 {
            match step {
                1 => std::fs::write(root.join(".tool.toml"), "[policy]\nhide = [\"a\"]\n").expect("it is writable"),
                2 => std::fs::write(root.join("skills.lock"), "version = 1\n").expect("it is writable"),
                3 => {
                    std::fs::rename(&root, home.path().join("old")).expect("it is writable");
                    std::fs::create_dir(&root).expect("it is writable");
                }
                _ => {}
            }
            for _ in 0..2 {
                let line = connecting.shared("a client".to_owned()).await.expect("there is room");
                sessions.insert(line.session().to_owned());
            }
            assert_eq!(sessions.len(), step + 1);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_root_that_opens_slowly_keeps_no_other_waiting() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let slow = Arc::new(SlowEngine {
            engine: FakeEngine::new(Vec::new()),
            is_slow: AtomicBool::new(true),
            is_asked: AtomicBool::new(false),
        });
        let connecting = connecting_with(&home, Arc::clone(&slow) as Arc<dyn Engine>);
        // With a file of locked skills, a frozen session compares it with what there is.
        let root = home.path().join("slow");
        std::fs::create_dir(&root).expect("the folder is writable");
        std::fs::write(root.join("skills.lock"), "version = 1\n").expect("the folder is writable");
        let hanging = Arc::new(of(&connecting, &root, true));
        let ask = |connecting: &Arc<PendingSession>| {
            let connecting = Arc::clone(connecting);
            tokio::spawn(async move { connecting.shared("a client".to_owned()).await })
        };
        let (first, second) = (ask(&hanging), ask(&hanging));
        let patience = std::time::Duration::from_secs(10);
        let begun = Instant::now();
        while !slow.is_asked.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < patience, "one of them opens");
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        let other = tokio::time::timeout(patience, ask(&connecting)).await;
        assert!(other.expect("it does not wait").expect("no panic").is_ok());
        assert!(!first.is_finished() && !second.is_finished(), "they open");
        slow.is_slow.store(false, Ordering::Relaxed);
        let (first, second) = (first.await.expect("no panic"), second.await.expect("no panic"));
        let session = |line: Result<Arc<McpSession>, Problem>| line.expect("it is open").session().to_owned();
        assert_eq!(session(first), session(second), "it was opened once");
    }

    #[tokio::test]
    async fn what_cannot_be_opened_leaves_nothing_behind() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let connecting = connecting(&home);
        for number in 0..5 {
            let missing = of(&connecting, &home.path().join(format!("missing-{number}")), false);
            let refused = missing.shared("a client".to_owned()).await.map(drop);
            assert_eq!(refused.expect_err("it is not there").kind, ErrorKind::InvalidRepository);
        }
        connecting.shared("a client".to_owned()).await.expect("there is room");
        assert_eq!(connecting.mcp.seats().len(), 1);
    }
}
