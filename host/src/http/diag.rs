//! Who holds one socket, asked of the kernel directly.
//!
//! `/proc/net/tcp` lists every socket of the machine, and is some milliseconds in the making; this asks for the one in
//! question. A pure encoding and decoding, and one exchange that never waits. Whatever is not a clear answer is none:
//! then the tables are read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};

/// Bytes of the head of a message.
pub(crate) const HEAD: usize = 16;

/// Bytes of an answer: its head, and what it says of the socket.
pub(crate) const ANSWER: usize = HEAD + 72;

/// `SOCK_DIAG_BY_FAMILY`: question and answer alike.
pub(crate) const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST`: one answer, not a list.
const REQUEST: u16 = 1;

/// `AF_INET`, `AF_INET6`, `IPPROTO_TCP` and `TCP_ESTABLISHED`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;

/// The user id that owns the peer's end of a connection: of an established socket that a process holds.
pub(super) fn owner(peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    );
    let socket = socket.ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &question(peer, ours), SendFlags::DONTWAIT, &kernel).ok()?;
    let mut answer = [0; 1024];
    // The kernel has answered by the time that it has taken the question.
    let (count, _, from) = recvfrom(&socket, answer.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
    let from = SocketAddrNetlink::try_from(from?).ok()?;
    (from.pid() == 0).then(|| read(answer.get(..count)?, peer, ours))?
}

pub(crate) fn question(peer: SocketAddr, ours: SocketAddr) -> Vec<u8> {
    let (family, peer_ip, ours_ip) = match (peer.ip().to_canonical(), ours.ip().to_canonical()) {
        (IpAddr::V4(peer), IpAddr::V4(ours)) => (IPV4, padded(peer), padded(ours)),
        (peer, ours) => (IPV6, octets(peer), octets(ours)),
    };
    let mut body = vec![family, TCP, 0, 0];
    // All states: which one it is in is in the answer.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(ours.port().to_be_bytes());
    body.extend(peer_ip);
    body.extend(ours_ip);
    // Any interface, and no cookie.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xFF; 8]);
    let length = u32::try_from(HEAD + body.len()).expect("it has 72 bytes");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// What an answer says of the owner, where it is about this very socket.
fn read(answer: &[u8], peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let kind = u16::from_ne_bytes(bytes(answer, 4)?);
    if answer.len() < ANSWER || kind != BY_FAMILY {
        return None;
    }
    let said = &answer[HEAD..];
    let (family, state) = (said[0], said[1]);
    let local = address(family, bytes(said, 4)?, bytes(said, 8)?)?;
    let remote = address(family, bytes(said, 6)?, bytes(said, 24)?)?;
    let (uid, inode) = (
        u32::from_ne_bytes(bytes(said, 64)?),
        u32::from_ne_bytes(bytes(said, 68)?),
    );
    let is_it = local == canonical(peer) && remote == canonical(ours);
    (is_it && state == ESTABLISHED && inode != 0).then_some(uid)
}

pub(crate) fn address(family: u8, port: [u8; 2], ip: [u8; 16]) -> Option<SocketAddr> {
    let ip = match family {
        IPV4 => IpAddr::from(*ip.first_chunk::<4>()?),
        IPV6 => IpAddr::from(Ipv6Addr::from(ip)),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, u16::from_be_bytes(port))))
}

/// An IPv4 address that is written as an IPv6 one is the IPv4 one.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn padded(ip: Ipv4Addr) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..4].copy_from_slice(&ip.octets());
    padded
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

pub(crate) fn bytes<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
    message.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// An answer about a socket of IPv4.
    fn answer(peer: SocketAddr, ours: SocketAddr, state: u8, uid: u32, inode: u32) -> Vec<u8> {
        let mut message = question(peer, ours);
        let body = message.split_off(HEAD);
        message.extend([IPV4, state, 0, 0]);
        message.extend(&body[8..56]);
        message.extend([0; 12]);
        message.extend(uid.to_ne_bytes());
        message.extend(inode.to_ne_bytes());
        message
    }

    #[test]
    fn an_answer_counts_only_where_it_is_about_an_established_socket_that_somebody_holds() {
        let (peer, ours) = (at("127.0.0.1:40961"), at("127.0.0.1:8000"));
        let said = |state, inode| read(&answer(peer, ours, state, 1001, inode), peer, ours);
        assert_eq!(said(ESTABLISHED, 7), Some(1001));
        assert_eq!((said(6, 7), said(10, 7), said(ESTABLISHED, 0)), (None, None, None));
        let whole = answer(peer, ours, ESTABLISHED, 1001, 7);
        assert_eq!(read(&whole, at("127.0.0.1:40962"), ours), None, "another port");
        assert_eq!(read(&whole, at("127.0.0.2:40961"), ours), None, "another address");
        assert_eq!(read(&whole, ours, peer), None, "our own end");
        let mut failed = whole.clone();
        failed[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(read(&failed, peer, ours), None, "a failure");
        assert!(
            (0..whole.len()).all(|end| read(&whole[..end], peer, ours).is_none()),
            "cut"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is the test's own listener")]
    fn the_kernel_says_what_its_tables_say() {
        let us = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // A machine without IPv6 has nothing to be asked about.
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().expect("it is bound").port();
            let to = match address {
                "[::1]:0" => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
                _ => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            };
            let client = TcpStream::connect(to).expect("it listens");
            let (accepted, peer) = listener.accept().expect("it is there");
            let ours = accepted.local_addr().expect("it is connected");
            let told = owner(peer, ours);
            assert!(told.is_none_or(|told| told == us), "{address}: {told:?}");
            // A kernel may be without this way to ask; then the tables say it.
            let known = told.or_else(|| crate::http::listener::owner_in_tables(peer, ours));
            assert_eq!(known, Some(us), "{address}");
            drop(client);
            assert_eq!(owner(peer, ours), None, "{address}: it is closed");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(read(&bytes, at("127.0.0.1:1"), at("127.0.0.1:2")), None);
        }
    }
}
