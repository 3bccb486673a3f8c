//! Serves connections, each with its limits, until the daemon stops.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::access::Traffic;
use super::listener::{CloseReason, Listener, Peer, PeerConnection, ServerSockets};
use super::{AppState, build_router};
use crate::limits;
use tool_core::api::ErrorKind;

/// Limit for the head of a request with its address, in bytes. A browser with many cookies for `localhost` sends 16
/// KiB.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Limit for the headers of a request. Browsers behind proxies send some forty.
const HEADERS_MAX: usize = 100;

/// Serves until `stop` completes. Then running sessions are ended, and connections get a moment to read the last
/// events.
///
/// # Errors
///
/// A socket cannot be used.
pub async fn serve_sockets(
    sockets: ServerSockets,
    state: AppState,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_connections(Listener::new(sockets), state, stop).await
}

/// Serves the connections of `listener`, and ends as [`serve_sockets`] does.
pub(super) async fn serve_connections(
    listener: Listener,
    state: AppState,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (sessions, mcp) = (Arc::clone(state.sessions()), Arc::clone(state.mcp()));
    let served = ConnectionService {
        router: build_router(state.clone()),
        traffic: Arc::clone(state.traffic()),
        closing: CancellationToken::new(),
    };
    let connections = TaskTracker::new();
    let stopping = async move {
        stop.await;
        sessions.drain().await;
        mcp.close();
    };
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            (connection, peer) = listener.accept() => {
                connections.spawn(served.clone().connection(connection, peer));
            }
            () = &mut stopping => break,
        }
    }
    // From here on, new connections are refused instead of queued.
    drop(listener);
    served.closing.cancel();
    connections.close();
    let patience = limits::milliseconds(limits::CONNECTIONS_DRAIN_MS);
    // A client that has not read its last bytes by then comes back with `Last-Event-ID`.
    let _ = tokio::time::timeout(patience, connections.wait()).await;
    Ok(())
}

#[derive(Clone)]
struct ConnectionService {
    router: Router,
    traffic: Arc<Traffic>,
    closing: CancellationToken,
}

impl ConnectionService {
    /// Serves one connection to its end.
    async fn connection(self, connection: PeerConnection, peer: Peer) {
        let (router, address) = (self.router, peer.address());
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer.clone()));
            let router = router.clone();
            async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
        });
        let mut builder = http1::Builder::new();
        // The connection itself limits the time for a head, because the limit also counts before the first byte.
        builder
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .header_read_timeout(None);
        let serving = builder
            .serve_connection(TokioIo::new(connection), service)
            .with_upgrades();
        tokio::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = self.closing.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.as_mut().await
            }
        };
        if let Some((status, kind)) = ended.err().as_ref().and_then(refusal_status) {
            tracing::warn!(peer = %address, code = %kind, "a connection was closed");
            self.traffic.no_request(address, status, &kind);
        }
    }
}

/// Status and kind for the access log, if this side ended a connection outside of any logged request.
fn refusal_status(error: &hyper::Error) -> Option<(Option<u16>, ErrorKind)> {
    if error.is_parse_too_large() {
        return Some((Some(431), ErrorKind::HeadTooLarge));
    }
    if error.is_parse() {
        return Some((Some(400), ErrorKind::NotHttp));
    }
    let source = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    source.get_ref()?.downcast_ref::<CloseReason>()?.refusal()
}
