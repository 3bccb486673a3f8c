//! Finds out whether the other end of a TCP connection belongs to a process of this user, and whether that process is
//! in our namespaces.
//!
//! The kernel identifies a socket by addresses and ports. If a peer resets its connection, its bytes stay in our dead
//! socket, and another user may get its port. So an answer counts only if our own socket is established before and
//! after the lookup: then the pair of addresses belonged to this connection throughout.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::auth::is_own_user;
use super::stream::{ConnectionState, PeerStream};
use tool_socket::diag::{self, OwnerAnswer, SocketOwner};
use tool_socket::table;

/// Limit for simultaneous lookups. A lookup takes some microseconds, or some milliseconds if it reads
/// `/proc/net/tcp`.
const LOOKUPS_MAX: usize = 16;

/// Limit for simultaneous lookups of holders. A lookup reads the descriptors of every process.
const HOLDER_LOOKUPS_MAX: usize = 2;

/// Finds the owner of the socket at the first address that is connected to the second one.
pub(super) type FindOwner = dyn Fn(SocketAddr, SocketAddr) -> Option<SocketOwner> + Send + Sync;

/// Admission control for lookups, and the function that makes them.
pub(super) struct OwnerLookup {
    find: Arc<FindOwner>,
    permits: Semaphore,
}

impl OwnerLookup {
    /// Creates a lookup that asks the kernel.
    pub(super) fn in_kernel() -> Self {
        let kernel = KernelLookup::default();
        Self::from_fn(move |peer, ours| kernel.find_owner(peer, ours))
    }

    /// Creates a lookup with the function `find`.
    pub(super) fn from_fn(
        find: impl Fn(SocketAddr, SocketAddr) -> Option<SocketOwner> + Send + Sync + 'static,
    ) -> Self {
        Self {
            find: Arc::new(find),
            permits: Semaphore::new(LOOKUPS_MAX),
        }
    }

    /// The socket of the other end, if the connection is over loopback and a process of this user holds it.
    pub(super) async fn of_same_user(
        &self,
        stream: Arc<PeerStream>,
        peer: SocketAddr,
        ours: SocketAddr,
    ) -> Option<SocketOwner> {
        if ![peer, ours].iter().all(|end| end.ip().to_canonical().is_loopback()) {
            return None;
        }
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        // Check after the wait for a permit: a peer that has gone costs no lookup.
        if !is_established(&stream) {
            return None;
        }
        let find = Arc::clone(&self.find);
        let owner = tokio::task::spawn_blocking(move || find(peer, ours))
            .await
            .ok()
            .flatten();
        owner.filter(|owner| is_own_user(owner.uid) && is_established(&stream))
    }
}

/// True if every process that holds the other end now is in our namespaces.
pub(super) async fn is_held_in_our_namespaces(stream: &PeerStream, end: SocketOwner) -> bool {
    static PERMITS: Semaphore = Semaphore::const_new(HOLDER_LOOKUPS_MAX);
    let _permit = PERMITS.acquire().await.expect("the semaphore is never closed");
    let is_held = tokio::task::spawn_blocking(move || holders_are_like_us(end.inode)).await;
    // The inode belongs to this connection's other end as long as the connection is established.
    is_held.unwrap_or(false) && is_established(stream)
}

#[cfg(target_os = "linux")]
fn holders_are_like_us(inode: u32) -> bool {
    tool_socket::holders::are_in_our_namespaces(inode)
}

/// On other systems no owner is known either.
#[cfg(not(target_os = "linux"))]
fn holders_are_like_us(_inode: u32) -> bool {
    false
}

fn is_established(stream: &PeerStream) -> bool {
    stream.state() == ConnectionState::Established
}

/// Asks the kernel over netlink, or reads its tables if netlink is refused.
#[derive(Default)]
struct KernelLookup {
    /// True once `sock_diag` has answered about a socket. From then on its error "no such entry" means that the
    /// socket is gone, and not that the kernel lacks `sock_diag`.
    has_diag: AtomicBool,
    tables: SharedReading,
}

impl KernelLookup {
    fn find_owner(&self, peer: SocketAddr, ours: SocketAddr) -> Option<SocketOwner> {
        let answer = diag::find_owner(peer, ours);
        if matches!(answer, OwnerAnswer::Owner(_) | OwnerAnswer::NoOwner) {
            self.has_diag.store(true, Ordering::Relaxed);
        }
        match answer {
            OwnerAnswer::Owner(owner) => Some(owner),
            OwnerAnswer::NoOwner => None,
            // A kernel without `sock_diag` returns this error for every socket, even for our own end of the
            // connection.
            OwnerAnswer::NoEntry if self.has_sock_diag(ours, peer) => None,
            OwnerAnswer::NoEntry | OwnerAnswer::Refused => {
                table::find_owner(&self.tables.read(read_tables), peer, ours)
            }
        }
    }

    /// True if the kernel has `sock_diag`: it has answered before, or answers about this socket.
    fn has_sock_diag(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        if !self.has_diag.load(Ordering::Relaxed) && diag::find_owner(local, remote) != OwnerAnswer::NoEntry {
            self.has_diag.store(true, Ordering::Relaxed);
        }
        self.has_diag.load(Ordering::Relaxed)
    }
}

/// The user that listens on a port of this machine, if the kernel reports it.
pub fn listener_of(port: u16) -> Option<u32> {
    table::find_listener(&read_tables(), port)
}

/// The kernel's tables of TCP sockets, concatenated. Empty on systems other than Linux.
fn read_tables() -> String {
    let read = |place: &str| std::fs::read_to_string(place).unwrap_or_default();
    ["/proc/net/tcp", "/proc/net/tcp6"].map(read).concat()
}

/// A text that takes long to read. One reading serves all threads that wait for it.
#[derive(Default)]
struct SharedReading {
    /// Number of readings that have begun.
    begun: AtomicU64,
    /// Number and text of the last reading.
    last: Mutex<(u64, Arc<String>)>,
}

impl SharedReading {
    /// Returns a text whose reading began after this call.
    fn read(&self, read: impl FnOnce() -> String) -> Arc<String> {
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        // The thread that holds the lock reads. The others wait here for that reading, or for the next.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 < wanted {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            *last = (number, Arc::new(read()));
        }
        Arc::clone(&last.1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn own() -> SocketOwner {
        SocketOwner {
            uid: own_uid(),
            inode: 1,
        }
    }

    #[tokio::test]
    async fn the_owner_of_a_listener_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let owner = cfg!(target_os = "linux").then(own_uid);
        assert_eq!(listener_of(port), owner);
        drop(listener);
        assert_eq!(listener_of(port), None);
    }

    /// Both ends of a connection over loopback, and the addresses of the second and of ours.
    async fn connected() -> (Arc<PeerStream>, TcpStream, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, peer) = listener.accept().await.expect("it is there");
        (Arc::new(PeerStream::Tcp(stream)), client, peer, address)
    }

    fn reset(client: TcpStream) {
        client.set_zero_linger().expect("an option");
        drop(client);
    }

    /// A connection is reset while its owner is looked up, and the owner's client gets its port.
    #[tokio::test]
    async fn the_owner_of_a_dead_connection_does_not_count() {
        let (stream, client, peer, ours) = connected().await;
        let client = Mutex::new(Some(client));
        let lookup = OwnerLookup::from_fn(move |_, _| {
            if let Some(client) = client.lock().expect("no panic").take() {
                reset(client);
            }
            Some(own())
        });
        assert_eq!(lookup.of_same_user(stream, peer, ours).await, None);
        let (stream, _client, peer, ours) = connected().await;
        assert_eq!(
            lookup.of_same_user(stream, peer, ours).await,
            Some(own()),
            "this one lives"
        );
    }

    #[tokio::test]
    async fn a_dead_connection_costs_no_lookup() {
        let looked_up = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&looked_up);
        let lookup = OwnerLookup::from_fn(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Some(own())
        });
        for _ in 0..100 {
            let (stream, client, peer, ours) = connected().await;
            reset(client);
            assert_eq!(lookup.of_same_user(stream, peer, ours).await, None);
        }
        assert_eq!(looked_up.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_lookups_are_bounded() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (Arc::clone(&now), Arc::clone(&most));
        let lookup = Arc::new(OwnerLookup::from_fn(move |_, _| {
            let (now, most) = &counted;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            Some(own())
        }));
        let lookups = (0..3 * LOOKUPS_MAX).map(|_| {
            let lookup = Arc::clone(&lookup);
            tokio::spawn(async move {
                let (stream, _client, peer, ours) = connected().await;
                lookup.of_same_user(stream, peer, ours).await.is_some()
            })
        });
        for found in lookups.collect::<Vec<_>>() {
            assert!(found.await.expect("no panic"));
        }
        assert_eq!(most.load(Ordering::SeqCst), LOOKUPS_MAX);
    }

    #[test]
    fn waiting_lookups_share_one_reading_of_the_tables() {
        let (reading, readings) = (SharedReading::default(), AtomicUsize::new(0));
        let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                reading.read(|| {
                    begun.wait();
                    go_on.wait();
                    "old".to_owned()
                })
            });
            begun.wait();
            let waiting: Vec<_> = (0..20)
                .map(|_| {
                    scope.spawn(|| {
                        reading.read(|| {
                            readings.fetch_add(1, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(50));
                            "new".to_owned()
                        })
                    })
                })
                .collect();
            // All threads wait by now, and none takes a text that was read before it asked.
            std::thread::sleep(Duration::from_millis(50));
            go_on.wait();
            for thread in waiting {
                assert_eq!(*thread.join().expect("no panic"), "new");
            }
        });
        assert_eq!(readings.load(Ordering::SeqCst), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "it is the test's own listener")]
    fn netlink_and_the_tables_name_the_same_owner() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 cannot listen there.
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                continue;
            };
            let ours = listener.local_addr().expect("it is bound");
            let client = std::net::TcpStream::connect(ours).expect("it listens");
            let (_accepted, peer) = listener.accept().expect("it is there");
            assert_eq!(
                KernelLookup::default().find_owner(peer, ours).map(|owner| owner.uid),
                Some(own_uid()),
                "{address}"
            );
            assert_eq!(
                table::find_owner(&read_tables(), peer, ours),
                KernelLookup::default().find_owner(peer, ours),
                "{address}"
            );
            drop(client);
            assert_eq!(
                KernelLookup::default().find_owner(peer, ours),
                None,
                "{address}: it is closed"
            );
        }
    }

    /// A peer that is gone is no reason to read the tables, which list every socket of the machine.
    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "it is the test's own listener")]
    fn a_closed_socket_has_no_owner_and_the_tables_are_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let ours = listener.local_addr().expect("it is bound");
        let kernel = KernelLookup::default();
        for _ in 0..3 {
            let client = std::net::TcpStream::connect(ours).expect("it listens");
            let (_accepted, peer) = listener.accept().expect("it is there");
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an option");
            drop(client);
            // The tables are read only where netlink is refused.
            let is_refused = diag::find_owner(peer, ours) == OwnerAnswer::Refused;
            kernel.has_diag.store(!is_refused, Ordering::Relaxed);
            assert_eq!(kernel.find_owner(peer, ours), None);
            assert!(is_refused || kernel.tables.begun.load(Ordering::SeqCst) == 0);
        }
    }
}
