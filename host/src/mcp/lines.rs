//! Messages as lines, over a connection that was an HTTP request before.
//!
//! One message a line, of bounded length, and a bounded number of requests that are not answered yet. What is no message
//! is answered as far as it can be, and never ends the connection: the next line may be right.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

use crate::limits;

/// Both directions.
pub(super) struct Lines<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that was refused for its length.
    skipping: bool,
    writer: Arc<tokio::sync::Mutex<W>>,
    /// Requests that are not answered yet.
    open: Arc<Mutex<HashSet<RequestId>>>,
    /// An answer of our own that waits for a place among those that are written.
    refusal: Option<Refusal>,
    refusals: Arc<Semaphore>,
}

/// Answers of our own that are written at a time: whoever sends nonsense and takes no answer is read no further.
const REFUSALS_MAX: usize = 4;

/// An answer of our own.
type Refusal = Box<ServerJsonRpcMessage>;

/// What came of reading.
enum Read {
    Line,
    TooLong,
    Over,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            skipping: false,
            writer: Arc::new(tokio::sync::Mutex::new(writer)),
            open: Arc::default(),
            refusal: None,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        }
    }

    /// Reads one line. May be dropped while it waits: what was read is kept.
    async fn read(&mut self) -> Read {
        loop {
            let Ok(available) = self.reader.fill_buf().await else {
                return Read::Over;
            };
            if available.is_empty() {
                // A last line needs no end.
                return match self.line.is_empty() {
                    true => Read::Over,
                    false => Read::Line,
                };
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let fits = self.line.len() + taken <= limits::MCP_MESSAGE_BYTES_MAX;
            if !self.skipping && fits {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.reader.consume(taken);
            match (self.skipping, fits, end) {
                (true, _, end) => self.skipping = end.is_none(),
                (false, true, Some(_)) => return Read::Line,
                (false, true, None) => {}
                (false, false, end) => {
                    self.skipping = end.is_none();
                    self.line = Vec::new();
                    return Read::TooLong;
                }
            }
        }
    }

    /// The message of the line that was read, or what to say of it; nothing where it is to be passed over.
    fn message(&mut self) -> Option<Result<ClientJsonRpcMessage, Refusal>> {
        let line = std::mem::take(&mut self.line);
        let parsed = parse(line.trim_ascii());
        // A long message is rare: its room is not kept.
        if line.capacity() <= 64 * 1024 {
            self.line = line;
            self.line.clear();
        }
        match parsed? {
            Ok(message) => Some(self.note(&message).map(|()| message)),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// Takes note of a request, or of one that nobody will answer.
    fn note(&self, message: &ClientJsonRpcMessage) -> Result<(), Refusal> {
        let mut open = lock(&self.open);
        match message {
            JsonRpcMessage::Request(request) => {
                let refuse = |text: String| {
                    let error = ErrorData::invalid_request(text, None);
                    Err(Box::new(ServerJsonRpcMessage::error(error, Some(request.id.clone()))))
                };
                if open.len() >= limits::MCP_REQUESTS_OPEN_MAX {
                    return refuse(format!(
                        "{} requests are not answered yet",
                        limits::MCP_REQUESTS_OPEN_MAX
                    ));
                }
                match open.insert(request.id.clone()) {
                    true => Ok(()),
                    false => refuse("A request with this id is not answered yet".to_owned()),
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    open.remove(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (writer, open) = (Arc::clone(&self.writer), Arc::clone(&self.open));
        async move {
            let answered = match &message {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                _ => None,
            };
            let written = write(&writer, &message).await;
            if let Some(id) = answered {
                lock(&open).remove(&id);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.refusal.is_some() {
                // Nobody closes it. Dropped while it waits, the refusal is still there.
                let permit = Arc::clone(&self.refusals).acquire_owned().await.ok()?;
                let (refusal, writer) = (self.refusal.take()?, Arc::clone(&self.writer));
                tokio::spawn(async move {
                    let _permit = permit;
                    // A client that has gone is noticed by reading.
                    let _ = write(&writer, &refusal).await;
                });
            }
            let message = match self.read().await {
                Read::Line => self.message(),
                Read::TooLong => Some(Err(too_long())),
                Read::Over => {
                    // Whoever has said all that it wanted to still hears what was wrong with it, unless it does not listen.
                    let patience = limits::milliseconds(limits::CONNECTIONS_DRAIN_MS);
                    let all = u32::try_from(REFUSALS_MAX).unwrap_or(u32::MAX);
                    let _ = tokio::time::timeout(patience, self.refusals.acquire_many(all)).await;
                    return None;
                }
            };
            match message {
                Some(Ok(message)) => return Some(message),
                Some(Err(refusal)) => self.refusal = Some(refusal),
                None => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.shutdown().await
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<W>,
    message: &ServerJsonRpcMessage,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

/// A message; or what to say of what is none, and nothing of what asks for no answer.
fn parse(line: &[u8]) -> Option<Result<ClientJsonRpcMessage, Refusal>> {
    if line.is_empty() {
        return None;
    }
    let refuse = |code, text: String, id| {
        Some(Err(Box::new(ServerJsonRpcMessage::error(
            ErrorData::new(code, text, None),
            id,
        ))))
    };
    let error = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
        Ok(message) => return Some(Ok(message)),
        Err(error) => error,
    };
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(error) => return refuse(ErrorCode::PARSE_ERROR, format!("The line is no JSON: {error}"), None),
    };
    let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
    match (&value, &id) {
        (Value::Object(fields), None) if fields.contains_key("method") && !fields.contains_key("id") => None,
        (Value::Array(_), _) => refuse(
            ErrorCode::INVALID_REQUEST,
            "One message a line: lists of them are not taken".to_owned(),
            None,
        ),
        _ => refuse(
            ErrorCode::INVALID_REQUEST,
            format!("The line is no message of the protocol: {error}"),
            id,
        ),
    }
}

fn too_long() -> Refusal {
    let size = limits::MCP_MESSAGE_BYTES_MAX / (1024 * 1024);
    let error = ErrorData::invalid_request(
        format!("A message is at most {size} MiB long; this one was not read"),
        None,
    );
    Box::new(ServerJsonRpcMessage::error(error, None))
}

fn lock(open: &Mutex<HashSet<RequestId>>) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

    type Half = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

    fn pair() -> (Lines<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>, Half) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        (Lines::new(reader, writer), tokio::io::split(theirs))
    }

    fn list(id: u64) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).to_string() + "\n"
    }

    async fn answer(reader: &mut BufReader<ReadHalf<DuplexStream>>) -> Value {
        let mut line = String::new();
        reader.read_line(&mut line).await.expect("it can be read");
        serde_json::from_str(&line).expect("it is JSON")
    }

    #[tokio::test]
    async fn what_is_no_message_is_answered_and_the_next_line_is_read() {
        let (mut lines, (reader, mut writer)) = pair();
        let said =
            "\n{\"broken\n[1]\n{\"id\":7,\"method\":3}\n{\"jsonrpc\":\"2.0\",\"method\":\"$/other\"}\n".to_owned();
        writer
            .write_all((said + &list(1)).as_bytes())
            .await
            .expect("there is room");
        // News of a method that nobody knows is passed on, and asks for nothing.
        assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Notification(_))));
        let message = lines.receive().await.expect("the last one is right");
        assert!(matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(1)));
        let mut reader = BufReader::new(reader);
        let mut told = Vec::new();
        for _ in 0..3 {
            let answer = answer(&mut reader).await;
            told.push((answer["error"]["code"].as_i64(), answer["id"].as_u64()));
        }
        told.sort();
        assert_eq!(
            told,
            [(Some(-32_700), None), (Some(-32_600), None), (Some(-32_600), Some(7))]
        );
    }

    #[tokio::test]
    async fn a_message_has_a_bounded_length() {
        let (mut lines, (reader, mut writer)) = pair();
        let sent = tokio::spawn(async move {
            let long = vec![b'x'; limits::MCP_MESSAGE_BYTES_MAX];
            writer.write_all(&long).await.expect("it is taken");
            writer.write_all(b"\n").await.expect("it is taken");
            writer.write_all(list(2).as_bytes()).await.expect("it is taken");
            writer
        });
        let message = lines.receive().await.expect("the next one is right");
        assert!(matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(2)));
        assert!(lines.line.capacity() < 1024 * 1024, "its room is given back");
        let told = answer(&mut BufReader::new(reader)).await;
        assert_eq!(
            told["error"]["message"],
            "A message is at most 4 MiB long; this one was not read"
        );
        sent.await.expect("it was sent");
    }

    #[tokio::test]
    async fn a_bounded_number_of_requests_is_open() {
        let (mut lines, (reader, mut writer)) = pair();
        let max = limits::MCP_REQUESTS_OPEN_MAX as u64;
        for id in 0..=max {
            writer.write_all(list(id).as_bytes()).await.expect("there is room");
        }
        for _ in 0..max {
            lines.receive().await.expect("it is taken");
        }
        // One that is cancelled, and one that is answered, make room.
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}});
        writer
            .write_all(format!("{cancel}\n").as_bytes())
            .await
            .expect("there is room");
        assert!(
            matches!(lines.receive().await, Some(JsonRpcMessage::Notification(_))),
            "one more was refused"
        );
        let mut reader = BufReader::new(reader);
        let refused = answer(&mut reader).await;
        assert_eq!(
            (refused["id"].as_u64(), &refused["error"]["message"]),
            (Some(max), &json!("64 requests are not answered yet"))
        );
        let done = ServerJsonRpcMessage::error(ErrorData::internal_error("x", None), Some(RequestId::Number(1)));
        lines.send(done).await.expect("it is written");
        for id in [max + 1, max + 2, max + 2] {
            writer.write_all(list(id).as_bytes()).await.expect("there is room");
        }
        for _ in 0..2 {
            assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Request(_))));
        }
        writer.shutdown().await.expect("it can be closed");
        assert!(lines.receive().await.is_none());
        answer(&mut reader).await;
        assert!(
            answer(&mut reader).await["error"].is_object(),
            "one too many, whatever its id"
        );
    }
}
