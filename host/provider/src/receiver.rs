//! Checks that a server on this machine belongs to a user that may see code and keys.
//!
//! Any user can listen on a well-known port while the usual server is not running. Therefore each connection is checked
//! after it is made and before a byte of a request is sent over it. Addresses do not tell whether a server is on this
//! machine, so the kernel is asked about every connection. A check is valid for its connection only. A connection that
//! no local socket receives, for example to a container's port or to another machine, cannot be checked.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::http::Extensions;
use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

use crate::limits;
use tool_config::ProviderSettings;
use tool_core::api::{ErrorKind, Problem};
use tool_socket::{Receivers, find_receivers};

/// Longest wait for a connection. After it the address is wrong, or a firewall drops the packets.
pub(crate) const PROVIDER_CONNECT_SECONDS_MAX: u64 = 15;

/// The users that may receive the data for a provider, and how the receivers of a connection are found.
#[derive(Clone)]
pub(super) struct ReceiverCheck {
    users: AllowedUsers,
    lookup: ReceiverLookup,
    /// Set once the receivers of a connection could not be found.
    is_unknown: Arc<AtomicBool>,
}

/// Finds the receivers of what the second address sends to the first.
pub(super) type ReceiverLookup = fn(SocketAddr, SocketAddr) -> Receivers;

/// The users that may receive data.
#[derive(Debug, Clone, Copy)]
struct AllowedUsers {
    own: u32,
    /// User ids below this one belong to system accounts.
    uid_min: u32,
    /// The user id that the kernel shows for every user that has none in this user namespace.
    overflow: u32,
    /// `trust_loopback_user`.
    named: Option<u32>,
}

impl AllowedUsers {
    fn allow(self, uid: u32) -> bool {
        let is_known = uid != self.overflow;
        self.named == Some(uid) || is_known && (uid == self.own || uid < self.uid_min)
    }
}

impl ReceiverCheck {
    /// Creates the check for these settings. Fails if the user that they trust does not exist.
    pub(super) fn new(settings: &ProviderSettings) -> Result<Self, Problem> {
        Self::with_lookup(settings, find_receivers)
    }

    pub(super) fn with_lookup(settings: &ProviderSettings, lookup: ReceiverLookup) -> Result<Self, Problem> {
        let named = settings
            .trust_loopback_user
            .as_deref()
            .map(|user| user_id(user, &read_bounded(USERS)).ok_or_else(|| unknown_user(settings, user)));
        let number = |text: String| text.trim().parse().ok();
        Ok(Self {
            users: AllowedUsers {
                own: rustix::process::geteuid().as_raw(),
                uid_min: uid_min(&read_bounded("/etc/login.defs")),
                overflow: number(read_bounded("/proc/sys/kernel/overflowuid")).unwrap_or(OVERFLOW_UID),
                named: named.transpose()?,
            },
            lookup,
            is_unknown: Arc::default(),
        })
    }

    /// True once something was sent to a server on this machine without knowing which user receives it.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_unknown.load(Ordering::Relaxed)
    }

    /// Fails if another user may receive the data for a proxy. An empty connection is enough to find the user.
    async fn check_proxy(&self, (host, port): &(String, u16)) -> Result<(), BoxError> {
        let patience = limits::seconds(PROVIDER_CONNECT_SECONDS_MAX);
        // Nothing is sent to a proxy that cannot be reached, and the connection of the request then fails with its own
        // error.
        let Ok(Ok(stream)) = timeout(patience, TcpStream::connect((host.as_str(), *port))).await else {
            return Ok(());
        };
        let (server, ours) = (stream.peer_addr()?, stream.local_addr()?);
        let check = self.clone();
        tokio::task::spawn_blocking(move || check.check(server, ours)).await?
    }

    /// Fails if another user may receive bytes that are sent from `ours` to `server`.
    fn check(&self, server: SocketAddr, ours: SocketAddr) -> Result<(), BoxError> {
        match (self.lookup)(server, ours) {
            Receivers::Users(users) => match users.into_iter().find(|uid| !self.users.allow(*uid)) {
                None => Ok(()),
                Some(uid) => Err(OtherUser {
                    server,
                    uid,
                    name: user_name(uid, &read_bounded(USERS)),
                    is_overflow: uid == self.users.overflow,
                }
                .into()),
            },
            Receivers::NotHere => {
                if server.ip().to_canonical().is_loopback() {
                    self.is_unknown.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            // The request over this connection then fails with its own error.
            Receivers::Closed => Ok(()),
        }
    }
}

/// The error for a server of a user that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherUser {
    server: SocketAddr,
    uid: u32,
    name: Option<String>,
    is_overflow: bool,
}

impl fmt::Display for OtherUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, uid, .. } = self;
        match &self.name {
            _ if self.is_overflow => write!(
                formatter,
                "{server} belongs to a user that has no id here (uid {uid} stands for all of them)"
            ),
            Some(name) => write!(formatter, "{server} belongs to another user: {name} (uid {uid})"),
            None => write!(formatter, "{server} belongs to another user: uid {uid}"),
        }
    }
}

impl std::error::Error for OtherUser {}

/// The error for a connection that was reset before its check, so that it has no addresses.
#[derive(Debug)]
pub(super) struct BrokenConnection;

impl fmt::Display for BrokenConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection broke off")
    }
}

impl std::error::Error for BrokenConnection {}

/// Lets a client check each of its connections.
#[derive(Clone)]
pub(super) struct ReceiverLayer {
    pub(super) check: ReceiverCheck,
    /// Host and port of a proxy on loopback. It is checked before the connection is made: the client tells a proxy the
    /// server's name and the proxy's credentials while it connects.
    pub(super) proxy: Option<(String, u16)>,
}

impl<S> Layer<S> for ReceiverLayer {
    type Service = CheckedConnector<S>;

    fn layer(&self, connector: S) -> Self::Service {
        CheckedConnector {
            connector,
            layer: self.clone(),
        }
    }
}

/// A connector that checks each connection before it hands it out.
#[derive(Clone)]
pub(super) struct CheckedConnector<S> {
    connector: S,
    layer: ReceiverLayer,
}

impl<S, R> Service<R> for CheckedConnector<S>
where
    S: Service<R>,
    S::Response: Connection + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The connection is made only when this future is polled.
        let connecting = self.connector.call(request);
        let ReceiverLayer { check, proxy } = self.layer.clone();
        Box::pin(async move {
            if let Some(proxy) = proxy {
                check.check_proxy(&proxy).await?;
            }
            let connection = connecting.await.map_err(Into::into)?;
            let (server, ours) = read_addresses(&connection).ok_or(BrokenConnection)?;
            tokio::task::spawn_blocking(move || check.check(server, ours)).await??;
            Ok(connection)
        })
    }
}

/// The addresses of the server and of our end.
fn read_addresses(connection: &impl Connection) -> Option<(SocketAddr, SocketAddr)> {
    let mut extras = Extensions::new();
    connection.connected().get_extras(&mut extras);
    let info = extras.get::<HttpInfo>()?;
    Some((info.remote_addr(), info.local_addr()))
}

const USERS: &str = "/etc/passwd";

/// The kernel's default for `/proc/sys/kernel/overflowuid`.
const OVERFLOW_UID: u32 = 65_534;

/// The default of `UID_MIN`.
const UID_MIN: u32 = 1000;

/// Most bytes that are read of a system file: about ten thousand users.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The beginning of a file; empty if it cannot be read.
fn read_bounded(path: &str) -> String {
    let mut bytes = Vec::new();
    // A missing file counts as empty, so that the defaults apply.
    let _ = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `UID_MIN` of `/etc/login.defs`.
fn uid_min(definitions: &str) -> u32 {
    let mut lines = definitions.lines().map(str::split_ascii_whitespace);
    let value = lines.find_map(|mut words| (words.next() == Some("UID_MIN")).then(|| words.next()?.parse().ok()));
    value.flatten().unwrap_or(UID_MIN)
}

/// Names and ids of a user database.
fn parse_users(database: &str) -> impl Iterator<Item = (&str, u32)> {
    database.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        Some((name, fields.nth(1)?.parse().ok()?))
    })
}

/// The id of a user that is given by name or by id. An id needs no entry in the file, because directory services have
/// users that the file does not list.
fn user_id(user: &str, database: &str) -> Option<u32> {
    let listed = parse_users(database)
        .find(|(name, _)| *name == user)
        .map(|(_, uid)| uid);
    listed.or_else(|| user.parse().ok())
}

fn user_name(uid: u32, database: &str) -> Option<String> {
    parse_users(database)
        .find(|(_, other)| *other == uid)
        .map(|(name, _)| name.to_owned())
}

fn unknown_user(settings: &ProviderSettings, user: &str) -> Problem {
    let provider = settings.name;
    let message =
        format!("`trust_loopback_user` of the provider {provider} names a user that does not exist: `{user}`");
    Problem::new(ErrorKind::InvalidProvider, message).with_hint(format!(
        "name a user of {USERS}, or give the user's number, in [providers.{provider}] of config.toml"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: AllowedUsers = AllowedUsers {
        own: 1000,
        uid_min: 1000,
        overflow: 65_534,
        named: Some(1002),
    };

    #[test]
    fn only_own_root_system_and_trusted_users_may_receive() {
        for (uid, expected) in [
            (0, true),
            (998, true),
            (1000, true),
            (1001, false),
            (1002, true),
            (65_533, false),
        ] {
            assert_eq!(ALLOWED.allow(uid), expected, "{uid}");
        }
    }

    #[test]
    fn the_overflow_user_is_neither_a_system_account_nor_the_own_user() {
        assert!(!ALLOWED.allow(65_534));
        let low = AllowedUsers {
            overflow: 99,
            ..ALLOWED
        };
        assert!(!low.allow(99) && low.allow(98));
        let own = AllowedUsers { own: 65_534, ..ALLOWED };
        assert!(!own.allow(65_534));
        let named = AllowedUsers {
            named: Some(65_534),
            ..ALLOWED
        };
        assert!(named.allow(65_534), "the user has said so");
    }

    #[test]
    fn accounts_are_read_as_the_system_writes_them() {
        const DATABASE: &str =
            "root:x:0:0:root:/root:/bin/sh\n:x:5:\nbroken\nollama:x:998:998::/:/bin/false\n12:x:2000:1::/:\n";
        assert_eq!(user_id("ollama", DATABASE), Some(998));
        assert_eq!(
            (user_id("1001", DATABASE), user_id("12", DATABASE)),
            (Some(1001), Some(2000))
        );
        assert_eq!((user_id("olama", DATABASE), user_id("", DATABASE)), (None, None));
        assert_eq!(user_name(998, DATABASE).as_deref(), Some("ollama"));
        assert_eq!(user_name(1, DATABASE), None);
        assert_eq!(uid_min("# UID_MIN 5\nUID_MIN\t\t  500\nUID_MAX 60000\n"), 500);
        assert_eq!((uid_min(""), uid_min("UID_MIN x\n")), (1000, 1000));
    }

    #[test]
    fn the_owner_of_a_server_at_any_address_is_checked() {
        let check = |server: &str, lookup: ReceiverLookup| {
            let check = ReceiverCheck {
                users: ALLOWED,
                lookup,
                is_unknown: Arc::default(),
            };
            let ours = "10.9.0.1:4".parse().expect("an address");
            let is_sent = check.check(server.parse().expect("an address"), ours).is_ok();
            (is_sent, check.is_unknown())
        };
        let stranger: ReceiverLookup = |_, _| Receivers::Users([1001].into());
        let unknown: ReceiverLookup = |_, _| Receivers::NotHere;
        for server in ["127.8.9.1:80", "[::1]:80", "10.9.0.1:80", "10.9.0.2:80"] {
            assert_eq!(check(server, stranger), (false, false), "{server}");
        }
        assert_eq!(check("127.0.0.1:80", unknown), (true, true));
        assert_eq!(check("[::ffff:127.0.0.1]:80", unknown), (true, true));
        assert_eq!(check("10.9.0.2:80", unknown), (true, false), "another machine");
    }
}
