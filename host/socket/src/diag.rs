//! Asks the kernel over netlink (`sock_diag`) which user owns one TCP socket.
//!
//! `/proc/net/tcp` lists every socket of the machine and takes milliseconds to read; this module asks about one socket.
//! Encoding and decoding are pure functions, and the one exchange between them never blocks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of `struct nlmsghdr`, the header of every netlink message.
pub(crate) const HEAD: usize = 16;

/// Bytes of an answer: the header and `struct inet_diag_msg`.
pub(crate) const ANSWER: usize = HEAD + 72;

/// `SOCK_DIAG_BY_FAMILY`, the type of a question and of its answer.
pub(crate) const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST` without `NLM_F_DUMP`: the kernel answers about one socket instead of listing all.
const REQUEST: u16 = 1;

/// `AF_INET`, `AF_INET6`, `IPPROTO_TCP` and `TCP_ESTABLISHED`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;

/// `NLMSG_ERROR`: the question failed. The error number follows the header; `ENOENT` means that the socket does not
/// exist.
const ERROR: u16 = 2;
const NO_ENTRY: i32 = -2;

/// The user of a socket, and the inode number by which `/proc/PID/fd` names the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOwner {
    /// The user id.
    pub uid: u32,
    /// Inode of the socket, never 0: the kernel gives 0 to sockets that no process holds.
    pub inode: u32,
}

/// The kernel's answer about one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerAnswer {
    /// The socket is established, and a process of this user holds it.
    Owner(SocketOwner),
    /// There is no such socket, it is not established, or no process holds it.
    NoOwner,
    /// Either the socket does not exist, or the kernel has no `sock_diag` for TCP: both give `ENOENT`.
    NoEntry,
    /// The kernel refuses netlink, as some sandboxes make it do.
    Refused,
}

/// Asks for the owner of the socket at `local` that is connected to `remote`.
pub fn find_owner(local: SocketAddr, remote: SocketAddr) -> OwnerAnswer {
    let mut answer = [0; 1024];
    match exchange_message(&encode_question(local, remote), &mut answer) {
        Ok(count) => read_answer(&answer[..count], local, remote),
        Err(_) => OwnerAnswer::Refused,
    }
}

/// Sends a question and receives its answer. Returns the number of bytes received.
#[cfg(target_os = "linux")]
fn exchange_message(question: &[u8], answer: &mut [u8]) -> rustix::io::Result<usize> {
    use rustix::net::netlink::{self, SocketAddrNetlink};
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};

    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    // // Address 0 is the kernel. Nothing here waits: a caller decides about a connection that is open meanwhile.
    sendto(&socket, question, SendFlags::DONTWAIT, &SocketAddrNetlink::new(0, 0))?;
    // The kernel handles a netlink request within `sendto`, so the answer is already queued.
    let (count, _, from) = recvfrom(&socket, &mut *answer, RecvFlags::DONTWAIT)?;
    // // Any process can send a datagram to this socket; only the kernel's come from port 0.
    let from = SocketAddrNetlink::try_from(from.ok_or(rustix::io::Errno::PROTO)?)?;
    match from.pid() {
        0 => Ok(count.min(answer.len())),
        _ => Err(rustix::io::Errno::PROTO),
    }
}

/// Only Linux has `sock_diag`.
#[cfg(not(target_os = "linux"))]
fn exchange(_question: &[u8], _answer: &mut [u8]) -> rustix::io::Result<usize> {
    Err(rustix::io::Errno::NOTSUP)
}

pub(crate) fn encode_question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let (family, local_ip, remote_ip) = match (local.ip().to_canonical(), remote.ip().to_canonical()) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => (IPV4, pad_ipv4(local), pad_ipv4(remote)),
        (local, remote) => (IPV6, mapped_octets(local), mapped_octets(remote)),
    };
    let mut body = vec![family, TCP, 0, 0];
    // Asks for all states; the answer says which one the socket has.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(local_ip);
    body.extend(remote_ip);
    // Interface 0 is any, and a cookie of all ones (`INET_DIAG_NOCOOKIE`) is not compared.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xFF; 8]);
    let length = u32::try_from(HEAD + body.len()).expect("it has 72 bytes");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // // Sequence number and port: one socket serves one question, so that neither is needed to match the answer.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Reads an answer. Without an exact match the kernel may answer with a listener, so the addresses are compared.
fn read_answer(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> OwnerAnswer {
    match read_bytes(answer, 4).map(u16::from_ne_bytes) {
        Some(BY_FAMILY) => read_owner(answer, local, remote).map_or(OwnerAnswer::NoOwner, OwnerAnswer::Owner),
        Some(ERROR) if read_bytes(answer, HEAD).map(i32::from_ne_bytes) == Some(NO_ENTRY) => OwnerAnswer::NoEntry,
        _ => OwnerAnswer::Refused,
    }
}

fn read_owner(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> Option<SocketOwner> {
    let socket = answer.get(HEAD..).filter(|_| answer.len() >= ANSWER)?;
    let (family, state) = (socket[0], socket[1]);
    let found_local = decode_address(family, read_bytes(socket, 4)?, read_bytes(socket, 8)?)?;
    let found_remote = decode_address(family, read_bytes(socket, 6)?, read_bytes(socket, 24)?)?;
    let uid = u32::from_ne_bytes(read_bytes(socket, 64)?);
    let inode = u32::from_ne_bytes(read_bytes(socket, 68)?);
    let is_it = found_local == canonical_address(local) && found_remote == canonical_address(remote);
    (is_it && state == ESTABLISHED && inode != 0).then_some(SocketOwner { uid, inode })
}

pub(crate) fn decode_address(family: u8, port: [u8; 2], ip: [u8; 16]) -> Option<SocketAddr> {
    let ip = match family {
        IPV4 => IpAddr::from(*ip.first_chunk::<4>()?),
        IPV6 => IpAddr::from(Ipv6Addr::from(ip)),
        _ => return None,
    };
    Some(canonical_address(SocketAddr::new(ip, u16::from_be_bytes(port))))
}

/// Turns an IPv4 address that is mapped into IPv6 into the IPv4 address.
pub(crate) fn canonical_address(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn pad_ipv4(ip: Ipv4Addr) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..4].copy_from_slice(&ip.octets());
    padded
}

fn mapped_octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

pub(crate) fn read_bytes<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
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
        let mut message = encode_question(peer, ours);
        let body = message.split_off(HEAD);
        message.extend([IPV4, state, 0, 0]);
        message.extend(&body[8..56]);
        message.extend([0; 12]);
        message.extend(uid.to_ne_bytes());
        message.extend(inode.to_ne_bytes());
        message
    }

    #[test]
    fn an_answer_counts_only_for_an_established_socket_that_a_process_holds() {
        let (peer, ours) = (at("127.0.0.1:40961"), at("127.0.0.1:8000"));
        let said = |state, inode| read_answer(&answer(peer, ours, state, 1001, inode), peer, ours);
        let owner = SocketOwner { uid: 1001, inode: 7 };
        assert_eq!(said(ESTABLISHED, 7), OwnerAnswer::Owner(owner));
        for (state, inode) in [(6, 7), (10, 7), (ESTABLISHED, 0)] {
            assert_eq!(said(state, inode), OwnerAnswer::NoOwner, "{state} {inode}");
        }
        let whole = answer(peer, ours, ESTABLISHED, 1001, 7);
        for (local, remote) in [
            (at("127.0.0.1:40962"), ours),
            (at("127.0.0.2:40961"), ours),
            (ours, peer),
        ] {
            assert_eq!(
                read_answer(&whole, local, remote),
                OwnerAnswer::NoOwner,
                "{local} {remote}"
            );
        }
        let is_owner = |answer: &[u8]| matches!(read_answer(answer, peer, ours), OwnerAnswer::Owner(_));
        assert!((0..whole.len()).all(|end| !is_owner(&whole[..end])), "cut");
    }

    #[test]
    fn a_missing_socket_is_told_from_a_kernel_that_refuses_to_answer() {
        let (peer, ours) = (at("127.0.0.1:40961"), at("127.0.0.1:8000"));
        let failed = |errno: i32| {
            let mut message = answer(peer, ours, ESTABLISHED, 1001, 7);
            message[4..6].copy_from_slice(&ERROR.to_ne_bytes());
            message[HEAD..HEAD + 4].copy_from_slice(&errno.to_ne_bytes());
            read_answer(&message, peer, ours)
        };
        assert_eq!(
            (failed(-2), failed(-1), failed(-95)),
            (OwnerAnswer::NoEntry, OwnerAnswer::Refused, OwnerAnswer::Refused)
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is the test's own listener")]
    fn the_kernel_names_the_owner_of_a_live_connection_and_none_of_a_closed_one() {
        let us = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // A machine without IPv6 cannot listen there.
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
            let told = find_owner(peer, ours);
            // Some machines refuse netlink.
            assert!(
                matches!(told, OwnerAnswer::Refused)
                    || matches!(told, OwnerAnswer::Owner(owner) if owner.uid == us && owner.inode != 0),
                "{address}: {told:?}"
            );
            drop(client);
            assert!(
                !matches!(find_owner(peer, ours), OwnerAnswer::Owner(_)),
                "{address}: it is closed"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = read_answer(&bytes, at("127.0.0.1:1"), at("127.0.0.1:2"));
            prop_assert!(!matches!(read, OwnerAnswer::Owner(_)));
        }
    }
}
