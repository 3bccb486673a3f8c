#![expect(clippy::disallowed_methods, reason = "these are the tests' own sockets")]

use std::net::{TcpListener, TcpStream};

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn end(uid: u32, is_held: bool) -> Option<ListedSocket> {
    Some(ListedSocket {
        local: at("127.0.0.1:1234"),
        remote: at("127.0.0.1:40000"),
        uid,
        is_held,
    })
}

fn listener(address: &str, uid: u32) -> ListedSocket {
    ListedSocket {
        local: at(address),
        remote: at("0.0.0.0:0"),
        uid,
        is_held: true,
    }
}

fn users(users: &[u32]) -> Receivers {
    Receivers::Users(users.iter().copied().collect())
}

/// The answers of the kernel before and after the listeners are read.
fn combined(first: Option<ListedSocket>, listeners: &[ListedSocket], second: Option<ListedSocket>) -> Receivers {
    let mut ends = [first, second].into_iter();
    combine_owners(
        at("127.0.0.1:1234"),
        || ends.next().flatten(),
        || None,
        || listeners.to_vec(),
    )
}

#[test]
fn the_owner_of_a_connection_that_is_not_accepted_yet_is_the_listener() {
    let mine = listener("127.0.0.1:1234", 1000);
    let stranger = listener("127.0.0.1:1234", 1001);
    let waiting = end(0, false);
    assert_eq!(combined(waiting, &[stranger], waiting), users(&[1001]), "uid 0 is none");
    assert_eq!(
        combined(waiting, &[mine, stranger], waiting),
        users(&[1000, 1001]),
        "a group"
    );
    assert_eq!(combined(end(1001, true), &[mine], None), users(&[1000, 1001]));
    // The stranger's listener was closed before the listeners were read, and another listener was open.
    assert_eq!(combined(waiting, &[mine], end(1001, true)), users(&[1000, 1001]));
    // A full queue: the kernel keeps no socket for the connection.
    assert_eq!(combined(None, &[stranger], None), users(&[1001]));
}

#[test]
fn a_server_that_is_not_of_this_machine_has_no_known_receivers() {
    assert_eq!(combined(None, &[], None), Receivers::NotHere);
    assert_eq!(
        combined(None, &[listener("127.0.0.1:1235", 1001)], None),
        Receivers::NotHere
    );
    assert_eq!(
        combined(None, &[listener("127.0.0.2:1234", 1001)], None),
        Receivers::NotHere
    );
    assert_eq!(combined(end(0, false), &[], end(0, false)), Receivers::Closed);
}

/// A stranger's socket is bound to a device, and its listener is closed. Another listener may have opened since.
#[test]
fn an_end_that_only_the_list_of_connections_shows_counts() {
    let server = at("127.0.0.1:1234");
    let stranger = || end(1001, true);
    assert_eq!(combine_owners(server, || None, stranger, Vec::new), users(&[1001]));
    assert_eq!(
        combine_owners(server, || end(0, false), stranger, Vec::new),
        users(&[1001])
    );
    let mine = listener("127.0.0.1:1234", 1000);
    assert_eq!(
        combine_owners(server, || None, stranger, || vec![mine]),
        users(&[1000, 1001])
    );
    let closed = combine_owners(server, || None, || end(0, false), Vec::new);
    assert_eq!(closed, Receivers::Closed);
}

#[test]
fn a_server_that_is_bound_to_a_device_is_found() {
    use socket2::{Domain, Socket, Type};
    let us = rustix::process::geteuid().as_raw();
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    if listener.bind_device(Some(b"lo")).is_err() {
        // Kernels before 5.7 let root alone do this.
        return;
    }
    listener.bind(&at("127.0.0.1:0").into()).expect("a port is free");
    listener.listen(1).expect("it is bound");
    let server = listener
        .local_addr()
        .expect("it is bound")
        .as_socket()
        .expect("it is IPv4");
    let client = TcpStream::connect(server).expect("it listens");
    let ours = client.local_addr().expect("it is connected");
    let accepted = listener.accept().expect("it is there");
    drop(listener);
    assert_eq!(find_receivers(server, ours), users(&[us]));
    drop(accepted);
    assert!(matches!(
        find_receivers(server, ours),
        Receivers::Closed | Receivers::NotHere
    ));
}

#[test]
fn a_listener_here_says_nothing_about_a_server_elsewhere() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    // An address of documentation, which no machine has.
    let elsewhere = SocketAddr::new(at("192.0.2.1:0").ip(), port);
    assert!(!is_of_this_machine(elsewhere) && is_of_this_machine(at("127.9.9.9:80")));
    assert_eq!(find_receivers(elsewhere, at("192.0.2.2:40000")), Receivers::NotHere);
    let us = rustix::process::geteuid().as_raw();
    let here = SocketAddr::new(at("127.0.0.1:0").ip(), port);
    assert_eq!(find_receivers(here, at("127.0.0.1:1")), users(&[us]));
}

#[test]
fn a_list_that_ends_with_an_error_is_no_empty_list() {
    let done = |code: i32| {
        let mut message = 20_u32.to_ne_bytes().to_vec();
        message.extend(3_u16.to_ne_bytes());
        message.extend(2_u16.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(code.to_ne_bytes());
        netlink::read_datagram(&message, &mut Vec::new()).ok()
    };
    assert_eq!((done(0), done(-2)), (Some(true), None));
}

#[test]
fn a_listener_of_all_addresses_counts() {
    let of = |listeners: &[ListedSocket]| combined(None, listeners, None);
    let (v4, v6) = (listener("0.0.0.0:1234", 1001), listener("[::]:1234", 1002));
    assert_eq!(of(&[v4]), users(&[1001]));
    assert_eq!(of(&[v6]), users(&[1002]));
    assert_eq!(
        of(&[v4, v6]),
        users(&[1001]),
        "one that takes IPv6 alone blocks nothing"
    );
    let over_v6 = combine_owners(at("[::1]:1234"), || None, || None, || vec![v4, v6]);
    assert_eq!(over_v6, users(&[1002]));
}

#[test]
fn the_kernel_tells_the_owner_before_and_after_a_connection_is_accepted() {
    let us = rustix::process::geteuid().as_raw();
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        // A machine without IPv6 has nothing to be asked about.
        let Ok(listener) = TcpListener::bind(address) else {
            continue;
        };
        let port = listener.local_addr().expect("it is bound").port();
        let to = match address {
            "[::1]:0" => at("[::1]:0"),
            _ => at("127.0.0.1:0"),
        };
        let client = TcpStream::connect(SocketAddr::new(to.ip(), port)).expect("it listens");
        let (server, ours) = (
            client.peer_addr().expect("connected"),
            client.local_addr().expect("connected"),
        );
        assert_eq!(find_receivers(server, ours), users(&[us]), "{address}: it waits");
        let accepted = listener.accept().expect("it is there");
        assert_eq!(find_receivers(server, ours), users(&[us]), "{address}: it is accepted");
        drop(listener);
        assert_eq!(
            find_receivers(server, ours),
            users(&[us]),
            "{address}: the listener has gone"
        );
        drop(accepted);
        assert!(
            matches!(find_receivers(server, ours), Receivers::Closed | Receivers::NotHere),
            "{address}: it is closed"
        );
    }
}

#[test]
#[cfg(target_endian = "little")]
fn rows_of_the_socket_tables_are_read() {
    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:04D2 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 11111 1 0000000000000000
   1: 0100007F:04D2 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000
   2: 0100007F:04D2 0100007F:9C41 05 00000000:00000000 00:00000000 00000000  1001        0 22222 1 0000000000000000
   3: wrong
";
    let rows: Vec<ListedSocket> = table::parse_rows(TABLE).filter_map(parse_row).collect();
    assert_eq!(rows[0], listener("127.0.0.1:1234", 1001));
    assert_eq!(Some(rows[1]), end(0, false));
    assert!(rows[2].is_held, "a peer that has closed one direction still reads");
    assert_eq!(rows.len(), 3);
}

proptest! {
    #[test]
    fn any_answer_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300), table in ".{0,300}") {
        let mut found = Vec::new();
        let _ = netlink::read_datagram(&bytes, &mut found);
        prop_assert!(found.len() < 4);
        prop_assert_eq!(table::parse_rows(&table).filter_map(parse_row).count(), 0);
    }
}
