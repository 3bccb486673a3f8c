//! Plays the actions of a body: writes of any size, waits, gates, silence and broken connections.

use std::io;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{Stream, stream};
use tokio_util::sync::CancellationToken;

use super::dialect::BodyAction;

/// A piece of a body to send, or something to wait for.
enum BodyPart {
    Bytes(Bytes),
    Other(BodyAction),
}

fn split_actions(actions: Vec<BodyAction>, bytes: Option<usize>) -> Vec<BodyPart> {
    let mut pieces = Vec::new();
    for action in actions {
        match action {
            BodyAction::Send(text) => {
                let text = Bytes::from(text);
                let size = bytes.unwrap_or(text.len()).max(1);
                pieces.extend(text.chunks(size).map(|chunk| BodyPart::Bytes(text.slice_ref(chunk))));
            }
            other => pieces.push(BodyPart::Other(other)),
        }
    }
    pieces.reverse();
    pieces
}

/// Builds the body of these actions, in writes of so many bytes if a size is given. `gate` finds a gate by its name.
pub(super) fn stream_body<G>(
    actions: Vec<BodyAction>,
    bytes: Option<usize>,
    gate: G,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static
where
    G: Fn(&str) -> CancellationToken + Send + 'static,
{
    // The last element is the next one to send.
    stream::unfold((split_actions(actions, bytes), gate), |(mut pieces, gate)| async move {
        loop {
            match pieces.pop()? {
                BodyPart::Bytes(bytes) => {
                    // While this waits, the server writes what it has, so that pieces leave separately.
                    tokio::task::yield_now().await;
                    return Some((Ok(bytes), (pieces, gate)));
                }
                BodyPart::Other(BodyAction::WaitMs(milliseconds)) => {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                }
                BodyPart::Other(BodyAction::Gate(name)) => {
                    let opened = gate(&name);
                    opened.cancelled().await;
                }
                BodyPart::Other(BodyAction::Stall) => std::future::pending().await,
                BodyPart::Other(BodyAction::Reset) => {
                    // Bytes that were sent before must leave first.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    return Some((Err(io::ErrorKind::ConnectionReset.into()), (pieces, gate)));
                }
                BodyPart::Other(BodyAction::Send(_)) => {}
            }
        }
    })
}
