//! Connections: how their sessions come about, how many there are, and when one that makes none is over.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use rmcp::service::serve_server_with_ct;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::lines::Lines;
use super::{Line, Server};
use crate::api::{ConnectRequest, Problem};
use crate::config::PolicySettings;
use crate::limits;
use crate::session::Sessions;

/// All connections of a daemon.
pub(crate) struct Mcp {
    sessions: Arc<Sessions>,
    places: Arc<Semaphore>,
    /// Connections over HTTP of the revisions that make some.
    http: Arc<LocalSessionManager>,
    /// Sessions of clients that make no connections, by repository and client.
    shared: Mutex<HashMap<Key, Shared>>,
    closing: CancellationToken,
}

/// Which requests without a connection belong together.
type Key = (String, String);

struct Shared {
    line: Arc<Line>,
    /// What it was made with: a user who changes that means the next request.
    settings: PolicySettings,
    keys: Vec<String>,
    used: Instant,
}

/// What a session is made of, once it is needed.
pub(crate) struct Connecting {
    /// Where it belongs.
    pub(crate) mcp: Arc<Mcp>,
    /// The repository, and what is granted.
    pub(crate) request: ConnectRequest,
    /// The user's policy.
    pub(crate) settings: PolicySettings,
    /// Keys of the configuration.
    pub(crate) keys: Vec<String>,
    /// What recipes may see.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Connecting {
    /// A connection that begins at once.
    pub(crate) async fn line(&self) -> Result<Arc<Line>, Problem> {
        self.own().await
    }

    /// A session of its own.
    pub(super) async fn own(&self) -> Result<Arc<Line>, Problem> {
        let place = Arc::clone(&self.mcp.places).try_acquire_owned().map_err(|_| {
            let message = format!("{} other agents are connected", limits::MCP_CONNECTIONS_MAX);
            Problem::new("busy", message).with_hint("end one of them, or wait until an idle one is ended")
        })?;
        let (settings, keys) = (self.settings.clone(), self.keys.clone());
        let sessions = &self.mcp.sessions;
        let connection = sessions
            .connect(&self.request, settings, keys, self.environment.clone())
            .await?;
        Ok(Line::new(connection, place))
    }

    /// The session that requests of this client for this repository share, until none has come for a while.
    pub(super) async fn shared(&self, client: String) -> Result<Arc<Line>, Problem> {
        let key = (self.request.repo_path.clone(), client);
        let mut shared = self.mcp.shared.lock().await;
        let is_current = |known: &&mut Shared| {
            !known.line.connection.has_ended() && known.settings == self.settings && known.keys == self.keys
        };
        if let Some(known) = shared.get_mut(&key).filter(is_current) {
            known.used = Instant::now();
            return Ok(Arc::clone(&known.line));
        }
        let line = self.own().await?;
        line.connection
            .note_client(&format!("{} (without a connection)", key.1));
        let known = Shared {
            line: Arc::clone(&line),
            settings: self.settings.clone(),
            keys: self.keys.clone(),
            used: Instant::now(),
        };
        shared.insert(key.clone(), known);
        tokio::spawn(Arc::clone(&self.mcp).forget_idle(key));
        Ok(line)
    }
}

impl Mcp {
    /// None yet.
    pub(crate) fn new(sessions: Arc<Sessions>) -> Arc<Self> {
        let mut http = LocalSessionManager::default();
        http.session_config.keep_alive = Some(limits::seconds(limits::MCP_IDLE_SECONDS_MAX));
        Arc::new(Self {
            sessions,
            places: Arc::new(Semaphore::new(limits::MCP_CONNECTIONS_MAX)),
            http: Arc::new(http),
            shared: Mutex::default(),
            closing: CancellationToken::new(),
        })
    }

    /// Ends what HTTP requests have left open. Their sessions have ended before.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Serves lines until either side ends them, or the session ends.
    pub(crate) async fn serve_lines<R, W>(self: &Arc<Self>, line: Arc<Line>, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let server = Server::of_line(Arc::clone(&self.sessions), Arc::clone(&line));
        let stop = CancellationToken::new();
        let serving = async {
            match serve_server_with_ct(server, Lines::new(reader, writer), stop.clone()).await {
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

    /// What answers one HTTP request. The connection that it names, where it names one, has a server already.
    pub(crate) fn streamable(
        self: &Arc<Self>,
        connecting: Arc<Connecting>,
    ) -> StreamableHttpService<Server, LocalSessionManager> {
        let sessions = Arc::clone(&self.sessions);
        let server = move || Ok(Server::to_connect(Arc::clone(&sessions), Arc::clone(&connecting)));
        let config = StreamableHttpServerConfig::default()
            // Host and Origin have passed our own gate, which knows the port and the configured names.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits::MCP_MESSAGE_BYTES_MAX)
            .with_cancellation_token(self.closing.child_token());
        StreamableHttpService::new(server, Arc::clone(&self.http), config)
    }

    /// Lets go of a shared session once no request has come for a while.
    async fn forget_idle(self: Arc<Self>, key: Key) {
        let patience = limits::seconds(limits::MCP_IDLE_SECONDS_MAX);
        let mut rest = patience;
        loop {
            tokio::time::sleep(rest).await;
            let mut shared = self.shared.lock().await;
            let Some(known) = shared.get(&key) else { return };
            // A call that still runs keeps its session by itself.
            rest = patience.saturating_sub(known.used.elapsed());
            if rest.is_zero() {
                shared.remove(&key);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Overrides, PolicyRequest};
    use crate::session::history::Filter;
    use crate::session::tests::fakes::FakeEngine;

    /// A place for sessions, and what makes one of them.
    fn connecting(home: &tempfile::TempDir) -> Arc<Connecting> {
        let root = home.path().join("repository");
        std::fs::create_dir(&root).expect("the folder is writable");
        let state = home.path().join("home");
        let sessions = Sessions::with_engine(&state, FakeEngine::new(Vec::new()), None).expect("it can be opened");
        Arc::new(Connecting {
            mcp: Mcp::new(sessions),
            request: ConnectRequest {
                repo_path: root.to_string_lossy().into_owned(),
                policy: PolicyRequest::default(),
                overrides: Overrides::default(),
            },
            settings: PolicySettings::default(),
            keys: Vec::new(),
            environment: BTreeMap::new(),
        })
    }

    #[tokio::test]
    async fn a_session_that_nobody_uses_any_more_ends() {
        let _hurried = limits::pace::hurried(u32::try_from(limits::MCP_IDLE_SECONDS_MAX * 10).expect("it is small"));
        let home = tempfile::tempdir().expect("a temporary folder");
        let connecting = connecting(&home);
        let line = connecting.shared("a client".to_owned()).await.expect("there is room");
        let again = connecting.shared("a client".to_owned()).await.expect("it is there");
        assert_eq!(line.session(), again.session());
        let other = connecting.shared("another".to_owned()).await.expect("there is room");
        assert_ne!(line.session(), other.session());
        let narrowed = Connecting {
            mcp: Arc::clone(&connecting.mcp),
            request: connecting.request.clone(),
            settings: PolicySettings {
                deny: vec!["write-repository".to_owned()],
                ..PolicySettings::default()
            },
            keys: Vec::new(),
            environment: BTreeMap::new(),
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
        assert!(connecting.mcp.shared.lock().await.is_empty());
    }
}
