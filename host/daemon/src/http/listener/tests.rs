//! The bounds of a connection, and the answer when one is reached.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A listener and its TCP address. The folder of its Unix socket is removed already.
async fn listening() -> (Listener, SocketAddr) {
    listening_on("127.0.0.1:0").await.expect("a port is free")
}

async fn listening_on(address: &str) -> io::Result<(Listener, SocketAddr)> {
    let (sockets, address, _folder) = sockets(address).await?;
    Ok((Listener::new(sockets), address))
}

/// Both sockets, the address of the first and the folder of the second.
pub(in crate::http) async fn sockets(address: &str) -> io::Result<(ServerSockets, SocketAddr, tempfile::TempDir)> {
    let tcp = TcpListener::bind(address).await?;
    let address = tcp.local_addr()?;
    let folder = tempfile::tempdir()?;
    let unix = UnixListener::bind(folder.path().join("backend.sock"))?;
    Ok((ServerSockets { tcp: Some(tcp), unix }, address, folder))
}

/// Returns the text that a client receives before the connection is closed.
async fn told(mut client: TcpStream) -> String {
    let mut answer = String::new();
    let patience = Duration::from_secs(10);
    let read = tokio::time::timeout(patience, client.read_to_string(&mut answer)).await;
    read.expect("it is closed").expect("it is text");
    answer
}

#[tokio::test]
async fn a_head_that_does_not_end_is_answered_before_it_is_given_up() {
    let (listener, address) = listening().await;
    let mut client = TcpStream::connect(address).await.expect("it listens");
    let (mut connection, _peer) = listener.accept().await;
    connection.lookup = None;
    connection.head_max = Duration::from_millis(50);
    client.write_all(b"GET / HT").await.expect("it is open");
    let mut bytes = Vec::new();
    let error = connection.read_to_end(&mut bytes).await.expect_err("it is given up");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(connection);
    let answer = told(client).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\n{\"error\":{\"code\":\"head-too-slow\",\"message\":\"The head of the request did not arrive in time\"}}"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_has_asked_nothing_is_given_up_before_others() {
    let (listener, address) = listening().await;
    let client = TcpStream::connect(address).await.expect("it listens");
    let (mut connection, peer) = listener.accept().await;
    connection.lookup = None;
    connection.head_max = Duration::from_millis(50);
    let patience = Duration::from_millis(200);
    let read = tokio::time::timeout(patience * 50, connection.read_u8()).await;
    assert_eq!(
        read.expect("it is given up").expect_err("nothing came").kind(),
        io::ErrorKind::TimedOut
    );
    drop(peer.answering());
    connection.progress = Instant::now();
    let read = tokio::time::timeout(patience, connection.read_u8()).await;
    assert!(read.is_err(), "it has the time of a connection in use");
    drop(connection);
    assert_eq!(told(client).await, "", "a client that says nothing is told nothing");
}

#[tokio::test]
async fn strangers_cannot_hold_every_connection() {
    let (mut listener, address) = listening().await;
    listener.strangers = Arc::new(Semaphore::new(1));
    let accept = async |listener: &Listener, same_user: bool| {
        let client = TcpStream::connect(address).await.expect("it listens");
        let (mut connection, _peer) = listener.accept().await;
        let end = same_user.then_some(SocketOwner { uid: 0, inode: 1 });
        connection.lookup = Some(Box::pin(async move { end }));
        (client, connection)
    };
    let works = async |client: &mut TcpStream, connection: &mut PeerConnection| {
        // A connection that is refused may be closed before anything is sent on it.
        let _ = client.write_all(b"x").await;
        connection.read_u8().await
    };
    let (mut first, mut first_connection) = accept(&listener, false).await;
    works(&mut first, &mut first_connection)
        .await
        .expect("it is the only one");
    let (mut second, mut second_connection) = accept(&listener, false).await;
    works(&mut second, &mut second_connection)
        .await
        .expect_err("it is one too many");
    assert_eq!(second.read(&mut [0; 8]).await.expect("it was told"), 8);
    let (mut own, mut own_connection) = accept(&listener, true).await;
    works(&mut own, &mut own_connection).await.expect("it is the user's");
    drop((first, first_connection));
    let (mut third, mut third_connection) = accept(&listener, false).await;
    works(&mut third, &mut third_connection)
        .await
        .expect("there is room again");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_of_this_process_is_of_the_same_user() {
    for address in ["127.0.0.1:0", "[::]:0"] {
        // A machine without IPv6 cannot listen there.
        let Ok((listener, address)) = listening_on(address).await else {
            continue;
        };
        let mut client = TcpStream::connect(("127.0.0.1", address.port()))
            .await
            .expect("it listens");
        let (mut connection, peer) = listener.accept().await;
        assert!(!peer.is_same_user(), "not before it was looked up");
        client.write_all(b"x").await.expect("it is open");
        connection.read_u8().await.expect("a byte came");
        assert!(peer.is_same_user());
    }
}

#[tokio::test]
async fn a_silent_connection_is_closed_unless_an_answer_is_under_way() {
    let (listener, address) = listening().await;
    let _client = TcpStream::connect(address).await.expect("it listens");
    let (mut connection, peer) = listener.accept().await;
    connection.lookup = None;
    connection.idle_max = Duration::from_millis(20);
    let patience = Duration::from_millis(200);
    let answer = peer.long_answer();
    assert!(
        tokio::time::timeout(patience, connection.read_u8()).await.is_err(),
        "it is left open"
    );
    drop(answer);
    connection.progress = Instant::now();
    let read = tokio::time::timeout(patience, connection.read_u8())
        .await
        .expect("it is given up");
    assert_eq!(read.expect_err("nothing came").kind(), io::ErrorKind::TimedOut);
}

/// Sends a byte every 10 ms and says for how long the connection took them.
async fn trickled(connection: &mut PeerConnection, mut client: TcpStream, bytes: usize) -> io::Result<()> {
    let send = async {
        for _ in 0..bytes {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if client.write_all(b"x").await.is_err() {
                break;
            }
        }
    };
    let take = async {
        for _ in 0..bytes {
            connection.read_u8().await?;
        }
        Ok(())
    };
    let (taken, ()) = tokio::join!(take, send);
    taken
}

#[tokio::test]
async fn a_head_that_trickles_is_given_up_and_a_body_is_not() {
    let (listener, address) = listening().await;
    for is_body in [false, true] {
        let client = TcpStream::connect(address).await.expect("it listens");
        let (mut connection, peer) = listener.accept().await;
        connection.lookup = None;
        connection.head_max = Duration::from_millis(100);
        let mark = is_body.then(|| peer.answering());
        let ended = trickled(&mut connection, client, 30).await;
        assert_eq!(ended.is_ok(), is_body, "{ended:?}");
        drop(mark);
    }
}

#[tokio::test]
async fn every_head_has_its_own_time() {
    let (listener, address) = listening().await;
    let mut client = TcpStream::connect(address).await.expect("it listens");
    let (mut connection, peer) = listener.accept().await;
    connection.lookup = None;
    connection.head_max = Duration::from_millis(100);
    for _ in 0..4 {
        client.write_all(b"x").await.expect("it is open");
        connection.read_u8().await.expect("a byte came");
        drop(peer.answering());
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    client.write_all(b"x").await.expect("it is open");
    connection.read_u8().await.expect("a byte came");
    let patience = Duration::from_secs(10);
    let read = tokio::time::timeout(patience, connection.read_u8()).await;
    let error = read.expect("it is given up").expect_err("nothing came");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_closed() {
    let (listener, address) = listening().await;
    let _client = TcpStream::connect(address).await.expect("it listens");
    let (mut connection, _peer) = listener.accept().await;
    connection.stall_max = Duration::from_millis(50);
    let flood = async {
        loop {
            connection.write_all(&[0; 65_536]).await?;
        }
    };
    let patience = Duration::from_secs(30);
    let ended: Result<io::Result<()>, _> = tokio::time::timeout(patience, flood).await;
    let error = ended.expect("it is given up").expect_err("the peer takes nothing");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_bounds_of_a_connection_are_those_of_limits() {
    let (listener, address) = listening().await;
    assert_eq!(listener.tcp_connections.available_permits(), CONNECTIONS_MAX);
    assert_eq!(listener.unix_connections.available_permits(), CONNECTIONS_MAX);
    assert_eq!(listener.strangers.available_permits(), STRANGERS_CONNECTIONS_MAX);
    let _client = TcpStream::connect(address).await.expect("it listens");
    let (connection, _peer) = listener.accept().await;
    assert_eq!(listener.tcp_connections.available_permits(), CONNECTIONS_MAX - 1);
    let seconds = [connection.idle_max, connection.head_max, connection.stall_max].map(|span| span.as_secs());
    let bounds = [IDLE_SECONDS_MAX, HEAD_SECONDS_MAX, WRITE_STALL_SECONDS_MAX];
    assert_eq!(seconds, bounds);
    drop(connection);
    assert_eq!(listener.tcp_connections.available_permits(), CONNECTIONS_MAX);
}

#[tokio::test]
async fn one_connection_more_than_the_bound_waits() {
    let (listener, address) = listening().await;
    let others = u32::try_from(CONNECTIONS_MAX - 1).expect("it is small");
    let others = Arc::clone(&listener.tcp_connections)
        .acquire_many_owned(others)
        .await
        .expect("it is open");
    let _first = TcpStream::connect(address).await.expect("it listens");
    let (last, _) = listener.accept().await;
    let _second = TcpStream::connect(address).await.expect("the kernel takes it");
    let patience = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(patience, listener.accept()).await.is_err(),
        "it waits"
    );
    drop(last);
    let patience = Duration::from_secs(10);
    assert!(
        tokio::time::timeout(patience, listener.accept()).await.is_ok(),
        "it is its turn"
    );
    drop(others);
}

/// A connection over the Unix socket, from this process.
async fn over_unix(listener: &Listener, place: &std::path::Path) -> (UnixStream, PeerConnection, Peer) {
    let client = UnixStream::connect(place).await.expect("it listens");
    let (connection, peer) = listener.accept().await;
    (client, connection, peer)
}

#[tokio::test]
async fn a_connection_over_unix_is_the_owners_and_has_the_same_bounds() {
    let (sockets, _, folder) = sockets("127.0.0.1:0").await.expect("a port is free");
    let (listener, place) = (Listener::new(sockets), folder.path().join("backend.sock"));
    let (mut client, mut connection, peer) = over_unix(&listener, &place).await;
    assert!(peer.is_over_unix() && !peer.is_same_user() && !peer.is_gone());
    assert_eq!(peer.address().to_string(), "unix");
    client.write_all(b"x").await.expect("it is open");
    assert_eq!(connection.read_u8().await.expect("a byte came"), b'x');
    drop(client);
    assert!(peer.is_gone());

    let (client, mut connection, _) = over_unix(&listener, &place).await;
    connection.idle_max = Duration::from_millis(20);
    let error = connection.read_u8().await.expect_err("nothing came");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(client);
    let (mut client, mut connection, _) = over_unix(&listener, &place).await;
    connection.head_max = Duration::from_millis(50);
    client.write_all(b"GET / HT").await.expect("it is open");
    let error = connection
        .read_to_end(&mut Vec::new())
        .await
        .expect_err("it is given up");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let (_client, mut connection, _) = over_unix(&listener, &place).await;
    connection.stall_max = Duration::from_millis(50);
    let flood = async {
        loop {
            connection.write_all(&[0; 65_536]).await?;
        }
    };
    let ended: io::Result<()> = flood.await;
    assert_eq!(
        ended.expect_err("the peer takes nothing").kind(),
        io::ErrorKind::TimedOut
    );
}

/// Connections over TCP that fill their bound leave the command line its own.
#[tokio::test]
async fn connections_over_tcp_leave_room_for_the_command_line() {
    let (sockets, address, folder) = sockets("127.0.0.1:0").await.expect("a port is free");
    let (listener, place) = (Listener::new(sockets), folder.path().join("backend.sock"));
    let all = u32::try_from(CONNECTIONS_MAX).expect("it is small");
    let _others = Arc::clone(&listener.tcp_connections)
        .acquire_many_owned(all)
        .await
        .expect("it is open");
    let _waiting = TcpStream::connect(address).await.expect("the kernel takes it");
    let (_client, _, peer) = over_unix(&listener, &place).await;
    assert!(peer.is_over_unix());
}

/// A connection that was reset before it was accepted holds bytes that can be read, and gets nothing.
#[tokio::test]
async fn a_connection_that_is_reset_before_it_is_accepted_is_dropped() {
    let (listener, address) = listening().await;
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("it is open");
        client.set_zero_linger().expect("an option");
    }
    let living = TcpStream::connect(address).await.expect("it listens");
    let (_, peer) = listener.accept().await;
    let own = living.local_addr().expect("it is connected");
    assert_eq!(peer.address(), PeerAddress::Tcp(own), "the others are not seen");
}
