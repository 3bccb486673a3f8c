//! Parses the kernel's tables of TCP sockets, `/proc/net/tcp` and `/proc/net/tcp6`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::diag::{SocketOwner, canonical_address};

/// Finds the owner of the peer's end of a connection in a table. Only an established socket that a process holds has an
/// owner.
pub fn find_owner(table: &str, peer: SocketAddr, ours: SocketAddr) -> Option<SocketOwner> {
    let (peer, ours) = (canonical_address(peer), canonical_address(ours));
    held_rows(table)
        .filter(|socket| socket.state == ESTABLISHED)
        .find(|socket| parse_address(socket.local) == Some(peer) && parse_address(socket.remote) == Some(ours))
        .map(|socket| SocketOwner {
            uid: socket.uid,
            inode: socket.inode,
        })
}

/// Finds the user id that listens on a port.
pub fn find_listener(table: &str, port: u16) -> Option<u32> {
    held_rows(table)
        .filter(|socket| socket.state == LISTENING)
        .find(|socket| parse_address(socket.local).is_some_and(|local| local.port() == port))
        .map(|socket| socket.uid)
}

const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";

/// A row of a table. Its addresses are parsed on demand, because a reader skips most rows.
pub(crate) struct TableRow<'a> {
    pub(crate) local: &'a str,
    pub(crate) remote: &'a str,
    state: &'a str,
    pub(crate) uid: u32,
    inode: u32,
}

impl TableRow<'_> {
    /// False before the server accepts the connection, and after its process closes it.
    pub(crate) fn is_held(&self) -> bool {
        self.inode != 0
    }
}

/// The rows of sockets that a process holds.
fn held_rows(table: &str) -> impl Iterator<Item = TableRow<'_>> {
    parse_rows(table).filter(TableRow::is_held)
}

/// All rows that can be parsed; others are skipped.
pub(crate) fn parse_rows(table: &str) -> impl Iterator<Item = TableRow<'_>> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = fields[..] else {
            return None;
        };
        Some(TableRow {
            local,
            remote,
            state,
            uid: uid.parse().ok()?,
            inode: inode.parse().ok()?,
        })
    })
}

/// Parses an address of the tables. The kernel prints the bytes of the IP as 32-bit words in the machine's byte order,
/// but the port as a number.
pub(crate) fn parse_address(text: &str) -> Option<SocketAddr> {
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
    Some(canonical_address(SocketAddr::new(ip, port)))
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
        let owner = |uid, inode| Some(SocketOwner { uid, inode });
        assert_eq!(find_owner(V4, at("127.0.0.1:40961"), ours), owner(1001, 33333));
        assert_eq!(
            find_owner(V6, at("127.0.0.1:40964"), ours),
            owner(1004, 44444),
            "v4-mapped"
        );
        assert_eq!(find_owner(V6, at("[::1]:40965"), at("[::1]:8000")), owner(1005, 55555));
    }

    #[test]
    fn a_socket_that_is_closing_or_held_by_nobody_has_no_owner() {
        let ours = at("127.0.0.1:8000");
        assert_eq!(find_owner(V4, at("127.0.0.1:40962"), ours), None);
        assert_eq!(find_owner(V4, at("127.0.0.1:40963"), ours), None);
        assert_eq!(find_owner(V4, at("127.0.0.1:40999"), ours), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_listener_is_no_connection() {
        assert_eq!(find_listener(V4, 8000), Some(1000));
        assert_eq!((find_listener(V4, 40961), find_listener(V6, 8000)), (None, None));
    }

    proptest! {
        #[test]
        fn any_table_can_be_read(table in ".{0,300}") {
            prop_assert_eq!(find_owner(&table, at("127.0.0.1:1"), at("127.0.0.1:2")), None);
            prop_assert_eq!(find_listener(&table, 1), None);
        }
    }
}
