//! Finds out whether the other end of a TCP connection belongs to a process of this user.
//!
//! The kernel is asked by addresses and ports, which say nothing of our own socket: a peer that has reset its connection
//! leaves bytes in our dead socket, and its port may be another user's by now. So the answer counts only while our own
//! socket is established, before the lookup and after it: then the pair of addresses was this connection's all the time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::auth::{self, is_own_user};
#[cfg(target_os = "linux")]
use super::diag::{self, Answer};
use super::stream::{ConnectionState, Stream};
use crate::defence::{self, Defence};

/// Lookups at a time. One takes some microseconds, or, where `/proc/net/tcp` must be read, some milliseconds.
const LOOKUPS_MAX: usize = 16;

/// The user who owns the socket at the first address that is connected to the second one.
pub(super) type FindOwner = dyn Fn(SocketAddr, SocketAddr) -> Option<u32> + Send + Sync;

/// Admission control for lookups, and how they are made.
pub(super) struct OwnerLookup {
    find: Arc<FindOwner>,
    permits: Semaphore,
}

impl OwnerLookup {
    /// Lookups in the kernel.
    pub(super) fn in_kernel() -> Self {
        let kernel = Kernel::default();
        Self::with(move |peer, ours| kernel.find_owner(peer, ours))
    }

    /// Lookups by another function.
    pub(super) fn with(find: impl Fn(SocketAddr, SocketAddr) -> Option<u32> + Send + Sync + 'static) -> Self {
        Self {
            find: Arc::new(find),
            permits: Semaphore::new(LOOKUPS_MAX),
        }
    }

    /// True where a process of this user holds the other end of this connection, which is over loopback.
    pub(super) async fn is_same_user(&self, stream: Arc<Stream>, peer: SocketAddr, ours: SocketAddr) -> bool {
        if ![peer, ours].iter().all(|end| end.ip().to_canonical().is_loopback()) {
            return false;
        }
        if !defence::on(Defence::SocketOwners) {
            return true;
        }
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        // Checked after the wait for a permit: a peer that has gone costs no lookup.
        if !is_established(&stream) {
            return false;
        }
        let find = Arc::clone(&self.find);
        let owner = tokio::task::spawn_blocking(move || find(peer, ours))
            .await
            .ok()
            .flatten();
        owner.is_some_and(is_own_user) && is_established(&stream)
    }
}

fn is_established(stream: &Stream) -> bool {
    stream.state() == ConnectionState::Established
}

/// The kernel's own answers: over netlink, and from its tables where netlink is refused.
#[derive(Default)]
struct Kernel {
    /// True once `sock_diag` has answered about a socket: from then on, "no such socket" means just that.
    has_diag: AtomicBool,
    tables: SharedReading,
}

impl Kernel {
    #[cfg(target_os = "linux")]
    fn find_owner(&self, peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
        let answer = diag::find_owner(peer, ours);
        if matches!(answer, Answer::Owner(_) | Answer::NoOwner) {
            self.has_diag.store(true, Ordering::Relaxed);
        }
        match answer {
            Answer::Owner(uid) => Some(uid),
            Answer::NoOwner => None,
            // A kernel without `sock_diag` says the same of every socket, even of our own end of this connection.
            Answer::NoEntry if self.knows(ours, peer) => None,
            Answer::NoEntry | Answer::Refused => auth::owner(&self.tables.read(read_tables), peer, ours),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn find_owner(&self, _peer: SocketAddr, _ours: SocketAddr) -> Option<u32> {
        None
    }

    /// True where `sock_diag` answers about sockets at all: it has done so before, or does about this one.
    #[cfg(target_os = "linux")]
    fn knows(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        if !self.has_diag.load(Ordering::Relaxed) && diag::find_owner(local, remote) != Answer::NoEntry {
            self.has_diag.store(true, Ordering::Relaxed);
        }
        self.has_diag.load(Ordering::Relaxed)
    }
}

/// The user who listens on a port of this machine, where the kernel tells.
pub fn listener_of(port: u16) -> Option<u32> {
    auth::listener(&read_tables(), port)
}

/// The kernel's tables of TCP sockets, one after the other; elsewhere than on Linux there are none.
fn read_tables() -> String {
    let read = |place: &str| std::fs::read_to_string(place).unwrap_or_default();
    ["/proc/net/tcp", "/proc/net/tcp6"].map(read).concat()
}

/// A text that takes long to read, read once for all threads that wait for it.
#[derive(Default)]
struct SharedReading {
    /// How many readings have begun.
    begun: AtomicU64,
    /// The last reading and its number.
    last: Mutex<(u64, Arc<String>)>,
}

impl SharedReading {
    /// A text that was read after this call began.
    fn read(&self, read: impl FnOnce() -> String) -> Arc<String> {
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        // Whoever holds the lock reads; the others wait here for that reading, or the next.
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

    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Both ends of a connection over loopback, and the addresses of the second and of ours.
    async fn connected() -> (Arc<Stream>, TcpStream, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, peer) = listener.accept().await.expect("it is there");
        (Arc::new(Stream::Tcp(stream)), client, peer, address)
    }

    fn reset(client: TcpStream) {
        client.set_zero_linger().expect("an option");
        drop(client);
    }

    /// The owner's client gets the port of a connection that was reset while its owner was looked up.
    #[tokio::test]
    async fn an_owner_that_is_found_for_a_dead_connection_does_not_count() {
        let (stream, client, peer, ours) = connected().await;
        let client = Mutex::new(Some(client));
        let lookup = OwnerLookup::with(move |_, _| {
            if let Some(client) = client.lock().expect("no panic").take() {
                reset(client);
            }
            Some(us())
        });
        assert!(!lookup.is_same_user(stream, peer, ours).await);
        let (stream, _client, peer, ours) = connected().await;
        assert!(lookup.is_same_user(stream, peer, ours).await, "this one lives");
    }

    #[tokio::test]
    async fn a_dead_connection_costs_no_lookup() {
        let looked_up = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&looked_up);
        let lookup = OwnerLookup::with(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Some(us())
        });
        for _ in 0..100 {
            let (stream, client, peer, ours) = connected().await;
            reset(client);
            assert!(!lookup.is_same_user(stream, peer, ours).await);
        }
        assert_eq!(looked_up.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_bounded_number_of_lookups_is_made_at_a_time() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (Arc::clone(&now), Arc::clone(&most));
        let lookup = Arc::new(OwnerLookup::with(move |_, _| {
            let (now, most) = &counted;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            Some(us())
        }));
        let lookups = (0..3 * LOOKUPS_MAX).map(|_| {
            let lookup = Arc::clone(&lookup);
            tokio::spawn(async move {
                let (stream, _client, peer, ours) = connected().await;
                lookup.is_same_user(stream, peer, ours).await
            })
        });
        for found in lookups.collect::<Vec<_>>() {
            assert!(found.await.expect("no panic"));
        }
        assert_eq!(most.load(Ordering::SeqCst), LOOKUPS_MAX);
    }

    #[test]
    fn one_reading_serves_all_that_wait_for_it() {
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
            // All of them wait by now, and none takes what was read before it asked.
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
            assert_eq!(Kernel::default().find_owner(peer, ours), Some(us()), "{address}");
            assert_eq!(auth::owner(&read_tables(), peer, ours), Some(us()), "{address}");
            drop(client);
            assert_eq!(
                Kernel::default().find_owner(peer, ours),
                None,
                "{address}: it is closed"
            );
        }
    }

    /// A peer that is gone is no reason to read the tables, which list every socket of the machine.
    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "it is the test's own listener")]
    fn a_socket_that_is_gone_has_no_owner_without_a_look_at_the_tables() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let ours = listener.local_addr().expect("it is bound");
        let kernel = Kernel::default();
        for _ in 0..3 {
            let client = std::net::TcpStream::connect(ours).expect("it listens");
            let (_accepted, peer) = listener.accept().expect("it is there");
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an option");
            drop(client);
            // Only where netlink is refused are they read.
            let is_refused = diag::find_owner(peer, ours) == Answer::Refused;
            kernel.has_diag.store(!is_refused, Ordering::Relaxed);
            assert_eq!(kernel.find_owner(peer, ours), None);
            assert!(is_refused || kernel.tables.begun.load(Ordering::SeqCst) == 0);
        }
    }
}
