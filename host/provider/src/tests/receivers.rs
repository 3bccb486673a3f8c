//! The check of the users that receive a request, with the kernel's answers passed in.

use std::net::SocketAddr;

use super::super::receiver::{ReceiverCheck, ReceiverLookup};
use super::*;
use tool_core::api::ErrorKind;
use tool_socket::Receivers;

/// A user id that is neither ours nor a system account's on any machine.
const STRANGER: u32 = 4_000_000_000;

fn users(users: &[u32]) -> Receivers {
    Receivers::Users(users.iter().copied().collect())
}

fn provider(settings: &ProviderSettings, lookup: ReceiverLookup) -> http::HttpProvider {
    let check = ReceiverCheck::with_lookup(settings, lookup).expect("the user exists");
    let wire = Box::new(chat::ChatWire::new(settings));
    http::HttpProvider::new(settings, &options(), wire, check).expect("the settings are valid")
}

async fn answer_with(settings: &ProviderSettings, lookup: ReceiverLookup) -> (Answer, bool) {
    let provider = provider(settings, lookup);
    let answer = answer_to(&provider, &messages(), CancellationToken::new()).await;
    (answer, provider.receiver_is_unknown())
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_of_another_user_and_nothing_is_tried_again() {
    let server = server([Round::text("Hi")]);
    let port = server.address().port();
    for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
        let settings = settings(&format!("http://{host}:{port}/v1"));
        let (answer, _) = answer_with(&settings, |_, _| users(&[0, STRANGER])).await;
        let problem = answer.problem();
        let said = format!("Nothing was sent: the server at 127.0.0.1:{port} belongs to another user: uid {STRANGER}");
        assert_eq!(
            (problem.kind.clone(), &problem.message),
            (ErrorKind::ProviderOtherUser, &said)
        );
        assert!(answer.waits().is_empty(), "{:?}", answer.waits());
        let provider = provider(&settings, |_, _| users(&[STRANGER]));
        assert_eq!(provider.context_tokens().await, None);
    }
    assert!(server.requests().is_empty() && server.lists().is_empty());
}

#[tokio::test]
async fn each_connection_is_checked_for_itself() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    // After the first request another user has the port.
    fn lookup(_: SocketAddr, _: SocketAddr) -> Receivers {
        match LOOKS.fetch_add(1, Ordering::Relaxed) {
            0 => users(&[0]),
            _ => users(&[STRANGER]),
        }
    }
    let server = server([Round::status(500, ""), Round::text("Hi")]);
    let (answer, _) = answer_with(&settings(&server.url()), lookup).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderOtherUser);
    assert_eq!((server.requests().len(), answer.waits().len()), (1, 1));
}

#[tokio::test]
async fn a_request_that_no_local_socket_receives_is_sent_and_reported() {
    let server = server([Round::text("Hi"), Round::text("Hi")]);
    let settings = settings(&server.url());
    let (answer, is_unknown) = answer_with(&settings, |_, _| Receivers::NotHere).await;
    assert_eq!((answer.text().as_str(), is_unknown), ("Hi", true));
    let (answer, is_unknown) = answer_with(&settings, |_, _| users(&[0])).await;
    assert_eq!((answer.text().as_str(), is_unknown), ("Hi", false));
}

#[tokio::test]
async fn a_trusted_user_is_given_by_name_or_number() {
    let server = server([Round::text("Hi")]);
    let trusting = |user: &str| ProviderSettings {
        trust_loopback_user: Some(user.to_owned()),
        ..settings(&server.url())
    };
    let (answer, _) = answer_with(&trusting("4000000000"), |_, _| users(&[STRANGER])).await;
    assert_eq!(answer.text(), "Hi");
    let problem = connect_provider(&trusting("no such user"))
        .err()
        .expect("there is none");
    assert_eq!(problem.kind.clone(), ErrorKind::InvalidProvider);
    assert!(
        problem
            .message
            .ends_with("names a user that does not exist: `no such user`"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_user_without_an_id_in_the_namespace_gets_nothing() {
    let server = server([Round::text("Hi")]);
    let (answer, _) = answer_with(&settings(&server.url()), |_, _| users(&[65_534])).await;
    let said = "belongs to a user that has no id here (uid 65534 stands for all of them)";
    assert!(answer.problem().message.ends_with(said), "{}", answer.problem());
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_proxy_of_another_user_gets_neither_its_credentials_nor_the_servers_name() {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("it is asked");
        let mut bytes = [0; 1024];
        stream.read(&mut bytes).await.unwrap_or_default()
    });
    let through = Options {
        environment: [("https_proxy".to_owned(), format!("http://me:secret@127.0.0.1:{port}"))].into(),
        ..options()
    };
    let settings = settings("https://models.example/v1");
    let check = ReceiverCheck::with_lookup(&settings, |_, _| users(&[STRANGER])).expect("the user exists");
    let wire = Box::new(chat::ChatWire::new(&settings));
    let provider = http::HttpProvider::new(&settings, &through, wire, check).expect("the settings are valid");
    let answer = answer_to(&provider, &messages(), CancellationToken::new()).await;
    assert_eq!(answer.problem().kind.clone(), ErrorKind::ProviderOtherUser);
    assert_eq!(heard.await.expect("no panic"), 0, "bytes that the proxy has read");
}
