//! Finds the users that receive the data of a connection, if its server is on this machine.
//!
//! The kernel knows the owner of a connection's other end only after the server has accepted it. Before that the end
//! belongs to no process (on older kernels to user 0), and the process that holds the listening socket will get it.
//! Therefore both count: the accepted end and every listener that the connection could have reached. `holders` compares
//! the namespaces of the processes that hold a client's end. This crate only reads the kernel's answers; its callers
//! decide what follows from them.

#![forbid(unsafe_code)]

pub mod diag;
#[cfg(target_os = "linux")]
pub mod holders;
pub mod table;

use std::collections::BTreeSet;
#[cfg(target_os = "linux")]
use std::io;
use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::net::UdpSocket;

#[cfg(target_os = "linux")]
use std::fs::read_to_string;

/// The users behind the other end of a connection.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux lists sockets"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receivers {
    /// Each of these users can read the bytes that are sent.
    Users(BTreeSet<u32>),
    /// No socket of this network namespace is the other end, for example behind a container's published port.
    NotHere,
    /// The server has closed the connection.
    Closed,
}

/// One socket as the kernel lists it.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListedSocket {
    local: SocketAddr,
    remote: SocketAddr,
    uid: u32,
    /// False before the server accepts the connection, and after its process closes it.
    is_held: bool,
}

/// Looks up the users that receive what is sent from `ours` to `server`.
#[cfg(target_os = "linux")]
pub fn find_receivers(server: SocketAddr, ours: SocketAddr) -> Receivers {
    let find_end = || other_end(server, ours);
    if is_of_this_machine(server) {
        return combine_owners(server, find_end, || listed_end(server, ours), || find_listeners(server));
    }
    // A server on another machine is not reached through a listener here, even if the ports are equal.
    match find_end().filter(|end| end.is_held) {
        Some(end) => Receivers::Users(BTreeSet::from([end.uid])),
        None => Receivers::NotHere,
    }
}

/// True for loopback and for every address of this machine. `bind` decides, because the kernel binds only to addresses
/// that the machine has; a UDP socket is enough and disturbs no TCP port.
#[cfg(target_os = "linux")]
fn is_of_this_machine(server: SocketAddr) -> bool {
    let mut address = server;
    address.set_port(0);
    server.ip().to_canonical().is_loopback() || UdpSocket::bind(address).is_ok()
}

/// Looks up the users that receive what is sent from `ours` to `server`. Only Linux tells them.
#[cfg(not(target_os = "linux"))]
pub fn receivers(_server: SocketAddr, _ours: SocketAddr) -> Receivers {
    Receivers::NotHere
}

/// Combines the owner of the other end with the owners of the listeners.
///
/// `find_end` asks about one connection, and does not find a socket that its process has bound to a device, for which
/// no privilege is needed. `list_end` finds it but costs more.
#[cfg(target_os = "linux")]
fn combine_owners(
    server: SocketAddr,
    mut find_end: impl FnMut() -> Option<ListedSocket>,
    list_end: impl FnOnce() -> Option<ListedSocket>,
    listeners: impl FnOnce() -> Vec<ListedSocket>,
) -> Receivers {
    let mut end = find_end();
    let listeners = select_reachable(&listeners(), server);
    if !end.is_some_and(|end| end.is_held) {
        // The connection may have been accepted meanwhile, and its listener closed. An end that is still not accepted
        // proves that its listener was open when the listeners were read.
        end = find_end();
        if end.is_none() || listeners.is_empty() {
            end = list_end().or(end);
        }
    }
    let accepted = end.filter(|end| end.is_held);
    let sockets = accepted.into_iter().chain(listeners);
    let users: BTreeSet<u32> = sockets.map(|socket| socket.uid).collect();
    match (users.is_empty(), end) {
        (false, _) => Receivers::Users(users),
        (true, None) => Receivers::NotHere,
        (true, Some(_)) => Receivers::Closed,
    }
}

/// The listeners that a connection to `server` can reach: those of its address and those of the unspecified address.
/// The kernel gives IPv4 connections to a listener of all IPv6 addresses only if no IPv4 listener exists.
#[cfg(target_os = "linux")]
fn select_reachable(listeners: &[ListedSocket], server: SocketAddr) -> Vec<ListedSocket> {
    let of_port = listeners.iter().filter(|socket| socket.local.port() == server.port());
    let (direct, other): (Vec<ListedSocket>, Vec<ListedSocket>) = of_port
        .filter(|socket| socket.local.ip() == server.ip().to_canonical() || socket.local.ip().is_unspecified())
        .partition(|socket| socket.local.is_ipv4() == server.ip().to_canonical().is_ipv4());
    if direct.is_empty() { other } else { direct }
}

/// Finds the server's end of a connection.
#[cfg(target_os = "linux")]
fn other_end(server: SocketAddr, ours: SocketAddr) -> Option<ListedSocket> {
    let (server, ours) = (diag::canonical_address(server), diag::canonical_address(ours));
    let is_it = |socket: &ListedSocket| socket.local == server && socket.remote == ours;
    // If the connection does not exist, the kernel may answer with the listener.
    let found = netlink::ask_kernel(&diag::encode_question(server, ours)).unwrap_or_else(|_| in_tables());
    found.into_iter().find(is_it)
}

/// Finds the server's end in a list of all connections between the two ports. Sockets that are bound to different
/// devices may have the same addresses; one that a process holds is preferred.
#[cfg(target_os = "linux")]
fn listed_end(server: SocketAddr, ours: SocketAddr) -> Option<ListedSocket> {
    let (server, ours) = (diag::canonical_address(server), diag::canonical_address(ours));
    let found = netlink::list_connections(server.port(), ours.port()).unwrap_or_else(|_| in_tables());
    let ends = found
        .into_iter()
        .filter(|socket| socket.local == server && socket.remote == ours);
    ends.max_by_key(|end| end.is_held)
}

/// All listeners of the server's port.
#[cfg(target_os = "linux")]
fn find_listeners(server: SocketAddr) -> Vec<ListedSocket> {
    netlink::find_listeners(server.port()).unwrap_or_else(|_| {
        let is_listener = |socket: &ListedSocket| socket.remote.port() == 0;
        in_tables().into_iter().filter(is_listener).collect()
    })
}

/// Reads the sockets of `/proc/net/tcp` and `/proc/net/tcp6`, for kernels that refuse netlink. Empty if neither can be
/// read.
#[cfg(target_os = "linux")]
fn in_tables() -> Vec<ListedSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|place| read_to_string(place).unwrap_or_default());
    tables
        .iter()
        .flat_map(|table| table::parse_rows(table))
        .filter_map(parse_row)
        .collect()
}

#[cfg(target_os = "linux")]
fn parse_row(row: table::TableRow<'_>) -> Option<ListedSocket> {
    Some(ListedSocket {
        local: table::parse_address(row.local)?,
        remote: table::parse_address(row.remote)?,
        uid: row.uid,
        is_held: row.is_held(),
    })
}

/// The netlink questions that ask for lists of sockets.
#[cfg(target_os = "linux")]
mod netlink {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use rustix::net::netlink::{self, SocketAddrNetlink};
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};

    use super::diag::{self, ANSWER, BY_FAMILY, HEAD};
    use super::{ListedSocket, SocketAddr, io};

    /// `NLM_F_REQUEST | NLM_F_DUMP`: the kernel lists all sockets that match.
    const DUMP: u16 = 0x301;

    /// The bit of `TCP_LISTEN` (10) in a set of states.
    const LISTENING: u32 = 1 << 10;

    /// The bits of all states from `TCP_ESTABLISHED` (1) to `TCP_NEW_SYN_RECV` (12) except `TCP_LISTEN`.
    const CONNECTED: u32 = 0x1FFE & !LISTENING;

    /// `NLMSG_ERROR` and `NLMSG_DONE`.
    const ERROR: u16 = 2;
    const DONE: u16 = 3;

    /// Most datagrams that are read for one answer. One holds some hundred sockets, and a port has few.
    const DATAGRAMS_MAX: usize = 64;

    /// All listeners of a port, IPv4 and IPv6.
    pub(super) fn find_listeners(port: u16) -> io::Result<Vec<ListedSocket>> {
        list_sockets(port, 0, LISTENING)
    }

    /// All connections from a local port to a remote one, IPv4 and IPv6, of every device.
    pub(super) fn list_connections(local_port: u16, remote_port: u16) -> io::Result<Vec<ListedSocket>> {
        list_sockets(local_port, remote_port, CONNECTED)
    }

    /// Lists the sockets of these ports in these states. When it lists, the kernel ignores addresses, and the remote
    /// port if it is 0.
    fn list_sockets(local_port: u16, remote_port: u16, states: u32) -> io::Result<Vec<ListedSocket>> {
        let mut found = Vec::new();
        for any in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
            let mut message =
                diag::encode_question(SocketAddr::new(any, local_port), SocketAddr::new(any, remote_port));
            // // The flags of `nlmsghdr` and the states of `inet_diag_req_v2`, which `encode_question` has set for one socket.
            message[6..8].copy_from_slice(&DUMP.to_ne_bytes());
            message[HEAD + 4..HEAD + 8].copy_from_slice(&states.to_ne_bytes());
            found.extend(ask_kernel(&message)?);
        }
        Ok(found)
    }

    /// Sends one question and reads its answer. Fails if the kernel does not answer such questions.
    pub(super) fn ask_kernel(message: &[u8]) -> io::Result<Vec<ListedSocket>> {
        let kind = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, kind)?;
        sendto(&socket, message, SendFlags::DONTWAIT, &SocketAddrNetlink::new(0, 0))?;
        let mut found = Vec::new();
        let mut buffer = vec![0; 32 * 1024];
        for _ in 0..DATAGRAMS_MAX {
            // The kernel produces each datagram within the call to `sendto` or `recvfrom`, so there is nothing to wait
            // for.
            let (count, _, from) = recvfrom(&socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
            let is_kernel =
                from.is_some_and(|from| SocketAddrNetlink::try_from(from).is_ok_and(|from| from.pid() == 0));
            let datagram = buffer.get(..count).filter(|_| is_kernel).ok_or_else(invalid_data)?;
            if read_datagram(datagram, &mut found)? {
                return Ok(found);
            }
        }
        Err(invalid_data())
    }

    /// Reads the messages of a datagram. True if the answer ends with it.
    pub(super) fn read_datagram(mut datagram: &[u8], found: &mut Vec<ListedSocket>) -> io::Result<bool> {
        while !datagram.is_empty() {
            let length = diag::read_bytes(datagram, 0)
                .map(u32::from_ne_bytes)
                .ok_or_else(invalid_data)? as usize;
            let kind = diag::read_bytes(datagram, 4)
                .map(u16::from_ne_bytes)
                .ok_or_else(invalid_data)?;
            let flags = diag::read_bytes(datagram, 6)
                .map(u16::from_ne_bytes)
                .ok_or_else(invalid_data)?;
            let message = datagram.get(..length).filter(|message| message.len() >= HEAD);
            let message = message.ok_or_else(invalid_data)?;
            match kind {
                // A kernel that cannot list such sockets ends the list with an error number.
                DONE if diag::read_bytes(message, HEAD).is_some_and(|code| i32::from_ne_bytes(code) < 0) => {
                    return Err(invalid_data());
                }
                DONE => return Ok(true),
                ERROR => return read_refusal(message),
                BY_FAMILY => found.push(parse_socket(message).ok_or_else(invalid_data)?),
                _ => return Err(invalid_data()),
            }
            // Without `NLM_F_MULTI` the message is the whole answer; with it more follow, until `NLMSG_DONE`.
            if flags & 2 == 0 {
                return Ok(true);
            }
            // // Netlink aligns messages to 4 bytes (`NLMSG_ALIGN`); the length in the header does not count the
            // padding.
            datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }

    /// `ENOENT` is an answer, an empty one. After every other refusal the caller reads the tables.
    fn read_refusal(message: &[u8]) -> io::Result<bool> {
        let code = diag::read_bytes(message, HEAD)
            .map(i32::from_ne_bytes)
            .ok_or_else(invalid_data)?;
        let error = io::Error::from_raw_os_error(code.wrapping_neg());
        match error.kind() {
            io::ErrorKind::NotFound => Ok(true),
            _ => Err(error),
        }
    }

    fn parse_socket(message: &[u8]) -> Option<ListedSocket> {
        let body = message.get(HEAD..ANSWER)?;
        Some(ListedSocket {
            local: diag::decode_address(body[0], diag::read_bytes(body, 4)?, diag::read_bytes(body, 8)?)?,
            remote: diag::decode_address(body[0], diag::read_bytes(body, 6)?, diag::read_bytes(body, 24)?)?,
            uid: u32::from_ne_bytes(diag::read_bytes(body, 64)?),
            is_held: u32::from_ne_bytes(diag::read_bytes(body, 68)?) != 0,
        })
    }

    fn invalid_data() -> io::Error {
        io::Error::from(io::ErrorKind::InvalidData)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
