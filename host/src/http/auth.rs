//! The callers that are let in: the owner, by the token or over `backend.sock`, and, on Linux and loopback, a process of
//! the same user.
//!
//! Parsing the kernel's socket tables is a pure function here; `owner` decides when they are read.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, header};

use crate::session::same_secret;

/// How a request proved who it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The request carried the token, or came over `backend.sock`, which is for the owner alone.
    Token,
    /// The request came over TCP from a process of the same user.
    SameUser,
}

/// The id that stands for every user whom our user namespace does not map.
const OVERFLOW_UID: u32 = 65_534;

/// True for the user of this process.
pub(crate) fn is_own_user(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() && (uid != OVERFLOW_UID || maps_all_users())
}

/// True outside of user namespaces, where the overflow id belongs to one user.
fn maps_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// True where the request carries the token.
pub(super) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = value.and_then(|value| value.split_once(' ')) else {
        return false;
    };
    // An empty token would let everybody in.
    scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && same_secret(token, given.trim())
}

/// The user id that owns the peer's end of a connection, in a table like `/proc/net/tcp`. Only an established socket
/// that a process holds (its inode is not 0) has an owner.
pub(super) fn owner(table: &str, peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let (peer, ours) = (canonical(peer), canonical(ours));
    sockets(table)
        .filter(|socket| socket.state == ESTABLISHED)
        .find(|socket| address(socket.local) == Some(peer) && address(socket.remote) == Some(ours))
        .map(|socket| socket.uid)
}

/// The user id that listens on a port, in such a table.
pub(super) fn listener(table: &str, port: u16) -> Option<u32> {
    sockets(table)
        .filter(|socket| socket.state == LISTENING)
        .find(|socket| address(socket.local).is_some_and(|local| local.port() == port))
        .map(|socket| socket.uid)
}

const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";

/// A line of a table.
struct Socket<'a> {
    local: &'a str,
    remote: &'a str,
    state: &'a str,
    uid: u32,
}

/// The sockets that a process holds.
fn sockets(table: &str) -> impl Iterator<Item = Socket<'_>> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = fields[..] else {
            return None;
        };
        let uid = uid.parse().ok().filter(|_| inode != "0")?;
        Some(Socket {
            local,
            remote,
            state,
            uid,
        })
    })
}

/// An address of the tables: hexadecimal words in the machine's byte order, and a port.
pub(crate) fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for start in (0..words.len()).step_by(8) {
        let word = u32::from_str_radix(words.get(start..start + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// An IPv4 address that is written as an IPv6 one is the IPv4 one.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const V4: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11111 1 0000000000000000
   1: 0100007F:1F40 0100007F:A001 01 00000000:00000000 00:00000000 00000000  1000        0 22222 1 0000000000000000
   2: 0100007F:A001 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1001        0 33333 1 0000000000000000
   3: 0100007F:A002 0100007F:1F40 06 00000000:00000000 03:00000000 00000000  1002        0 0 3 0000000000000000
   4: 0100007F:A003 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1003        0 0 1 0000000000000000
";

    const V6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0000000000000000FFFF00000100007F:A004 0000000000000000FFFF00000100007F:1F40 01 00000000:00000000 00:00000000 00000000  1004        0 44444 1 0000000000000000
   1: 00000000000000000000000001000000:A005 00000000000000000000000001000000:1F40 01 00000000:00000000 00:00000000 00000000  1005        0 55555 1 0000000000000000
";

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_owner_is_that_of_the_peers_end() {
        let ours = at("127.0.0.1:8000");
        assert_eq!(owner(V4, at("127.0.0.1:40961"), ours), Some(1001));
        assert_eq!(owner(V6, at("127.0.0.1:40964"), ours), Some(1004), "v4-mapped");
        assert_eq!(owner(V6, at("[::1]:40965"), at("[::1]:8000")), Some(1005));
    }

    #[test]
    fn a_socket_that_is_closing_or_held_by_nobody_has_no_owner() {
        let ours = at("127.0.0.1:8000");
        assert_eq!(owner(V4, at("127.0.0.1:40962"), ours), None);
        assert_eq!(owner(V4, at("127.0.0.1:40963"), ours), None);
        assert_eq!(owner(V4, at("127.0.0.1:40999"), ours), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_listener_is_no_connection() {
        assert_eq!(listener(V4, 8000), Some(1000));
        assert_eq!((listener(V4, 40961), listener(V6, 8000)), (None, None));
    }

    #[test]
    fn only_the_whole_token_counts() {
        let carries = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            has_token(&headers, "abc")
        };
        assert!(carries("Bearer abc") && carries("bearer abc"));
        assert!(!carries("Bearer ab") && !carries("Bearer abcd") && !carries("Basic abc") && !carries("abc"));
        let mut headers = HeaderMap::new();
        assert!(!has_token(&headers, "abc"));
        headers.insert(header::AUTHORIZATION, "Bearer ".parse().expect("a header"));
        assert!(!has_token(&headers, ""), "an empty token is nobody's");
    }

    #[test]
    fn a_foreign_uid_is_not_the_own_user() {
        let us = rustix::process::geteuid().as_raw();
        assert_eq!(is_own_user(us), us != OVERFLOW_UID || maps_all_users());
        assert!(!is_own_user(us + 1) && !is_own_user(us.wrapping_sub(1)));
    }

    proptest! {
        #[test]
        fn any_table_can_be_read(table in ".{0,300}") {
            prop_assert_eq!(owner(&table, at("127.0.0.1:1"), at("127.0.0.1:2")), None);
            prop_assert_eq!(listener(&table, 1), None);
        }
    }
}
