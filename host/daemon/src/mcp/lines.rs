//! Messages as lines, over a connection that was an HTTP request before.
//!
//! One message a line, of bounded length, and a bounded number of requests that are not answered yet. What is no message
//! is answered as far as it can be, and never ends the connection: the next line may be right. The same goes for what
//! comes before the handshake, which the protocol's library would take for the end.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Limit for unanswered requests of one connection, calls included: each holds a message in memory.
const MCP_REQUESTS_OPEN_MAX: usize = 64;

/// The transport for both directions.
pub(super) struct LineTransport<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// True while the rest of a line is skipped that was refused for its length.
    skipping: bool,
    writer: Arc<tokio::sync::Mutex<W>>,
    open: Arc<Mutex<OpenConversation>>,
    /// Our own error message that waits for a permit to be written.
    refusal: Option<RefusalMessage>,
    refusals: Arc<Semaphore>,
    /// Cancelled once there is nothing more to read.
    hung_up: CancellationToken,
}

/// State of the conversation.
#[derive(Default)]
struct OpenConversation {
    /// Requests that are not answered yet.
    requests: HashSet<RequestId>,
    /// The `initialize` request among them.
    hello: Option<RequestId>,
    /// True after the handshake, or after a request that needs none.
    has_begun: bool,
}

/// Limit for our own error messages that wait to be written: a client that sends invalid messages and does not read
/// is not read any further.
const REFUSALS_MAX: usize = 4;

/// An error message of our own.
type RefusalMessage = Box<ServerJsonRpcMessage>;

enum ReadOutcome {
    Line,
    TooLong,
    Over,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W, hung_up: CancellationToken) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            skipping: false,
            writer: Arc::new(tokio::sync::Mutex::new(writer)),
            open: Arc::default(),
            refusal: None,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            hung_up,
        }
    }

    /// Reads one line. Cancel safe: bytes that were read are kept.
    async fn read(&mut self) -> ReadOutcome {
        loop {
            let Ok(available) = self.reader.fill_buf().await else {
                return ReadOutcome::Over;
            };
            if available.is_empty() {
                // The last line may lack a line feed.
                return if self.line.is_empty() {
                    ReadOutcome::Over
                } else {
                    ReadOutcome::Line
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
                (false, true, Some(_)) => return ReadOutcome::Line,
                (false, true, None) => {}
                (false, false, end) => {
                    self.skipping = end.is_none();
                    self.line = Vec::new();
                    return ReadOutcome::TooLong;
                }
            }
        }
    }

    /// Parses the line that was read. Returns an error message for the client, or `None` for a line to be ignored.
    fn message(&mut self) -> Option<Result<ClientJsonRpcMessage, RefusalMessage>> {
        let line = std::mem::take(&mut self.line);
        let parsed = parse(line.trim_ascii());
        // Long messages are rare, so the memory is not kept for the next.
        if line.capacity() <= 64 * 1024 {
            self.line = line;
            self.line.clear();
        }
        match parsed? {
            Ok(message) if self.is_too_early(&message) => None,
            Ok(message) => Some(self.note(&message).map(|()| message)),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// True for notifications and answers before the conversation has begun: they are unrequested, and their sender
    /// expects no reply.
    fn is_too_early(&self, message: &ClientJsonRpcMessage) -> bool {
        !matches!(message, JsonRpcMessage::Request(_)) && !lock_open(&self.open).has_begun
    }

    /// Records a request as open, or removes one that the client cancels.
    fn note(&self, message: &ClientJsonRpcMessage) -> Result<(), RefusalMessage> {
        let mut open = lock_open(&self.open);
        match message {
            JsonRpcMessage::Request(request) => {
                let refuse = |error: ErrorData| {
                    let id = Some(request.id.clone());
                    Err(Box::new(ServerJsonRpcMessage::error(error, id)))
                };
                let invalid = |text: String| refuse(ErrorData::invalid_request(text, None));
                if open.requests.len() >= MCP_REQUESTS_OPEN_MAX {
                    return invalid(format!("{} requests are not answered yet", MCP_REQUESTS_OPEN_MAX));
                }
                if open.requests.contains(&request.id) {
                    return invalid("A request with this id is not answered yet".to_owned());
                }
                if let Err(error) = open.begin(&request.request, &request.id) {
                    return refuse(error);
                }
                open.requests.insert(request.id.clone());
                Ok(())
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    open.requests.remove(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
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
            if matches!(&message, JsonRpcMessage::Response(_)) {
                // Update the state before writing: a client may continue as soon as it has read the message.
                let mut open = lock_open(&open);
                open.has_begun |= open.hello.is_some() && open.hello == answered;
            }
            let written = write_message(&writer, &message).await;
            if let Some(id) = answered {
                let mut open = lock_open(&open);
                open.requests.remove(&id);
                if open.hello.as_ref() == Some(&id) {
                    open.hello = None;
                }
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.refusal.is_some() {
                // The semaphore is never closed. If this future is dropped while it waits, the message is kept.
                let permit = Arc::clone(&self.refusals).acquire_owned().await.ok()?;
                let (refusal, writer) = (self.refusal.take()?, Arc::clone(&self.writer));
                tokio::spawn(async move {
                    let _permit = permit;
                    // Reading notices a client that has gone.
                    let _ = write_message(&writer, &refusal).await;
                });
            }
            let message = match self.read().await {
                ReadOutcome::Line => self.message(),
                ReadOutcome::TooLong => Some(Err(too_long())),
                ReadOutcome::Over => {
                    self.hung_up.cancel();
                    // A client that has finished sending still gets its error messages, unless it does not read.
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

async fn write_message<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<W>,
    message: &ServerJsonRpcMessage,
) -> io::Result<()> {
    let mut line = encode_message(message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

/// Encodes a message. JSON-RPC requires the id `null` in an error about an unreadable message, which rmcp leaves out.
pub(super) fn encode_message(message: &ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    match message {
        JsonRpcMessage::Error(error) if error.id.is_none() => {
            serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": null, "error": error.error}))
        }
        message => serde_json::to_vec(message),
    }
}

impl OpenConversation {
    /// Records the beginning of a conversation. Returns an error if something else must come first.
    fn begin(&mut self, request: &ClientRequest, id: &RequestId) -> Result<(), ErrorData> {
        match request {
            ClientRequest::InitializeRequest(_) if self.has_begun => Err(begun_already()),
            ClientRequest::InitializeRequest(_) => {
                self.hello = Some(id.clone());
                Ok(())
            }
            _ if self.has_begun => Ok(()),
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => Ok(()),
            ClientRequest::CustomRequest(request) if request.method == INITIALIZE => Err(formless_initialize()),
            request => {
                let meta = request.get_meta();
                let Some(version) = meta.protocol_version() else {
                    return Err(ErrorData::invalid_request(NOT_BEGUN, None));
                };
                // A request that lacks another key is refused by its handler, and does not begin the conversation.
                let is_whole = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
                self.has_begun = is_whole && ProtocolVersion::KNOWN_VERSIONS.contains(&version);
                Ok(())
            }
        }
    }
}

/// Method of the handshake.
pub(super) const INITIALIZE: &str = "initialize";

const NOT_BEGUN: &str = "The connection is not initialized: send `initialize` first, or name the revision in each \
    request's `_meta`, as it is done from 2026-07-28 on";

/// Error for a second handshake.
pub(super) fn begun_already() -> ErrorData {
    ErrorData::invalid_request(
        "The connection is already initialized: `initialize` comes once, and first",
        None,
    )
}

/// Error for a malformed handshake.
pub(super) fn formless_initialize() -> ErrorData {
    ErrorData::invalid_params(
        "`initialize` needs `params` with `protocolVersion`, a string, `capabilities`, an object, and `clientInfo`, an \
         object with a `name` and a `version`",
        None,
    )
}

/// Parses a message. Returns an error message for an invalid line; `None` if the client expects no answer.
pub(super) fn parse(line: &[u8]) -> Option<Result<ClientJsonRpcMessage, RefusalMessage>> {
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
        Err(error) => return refuse(ErrorCode::PARSE_ERROR, format!("The message is no JSON: {error}"), None),
    };
    let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
    match (&value, &id) {
        (Value::Object(fields), None) if fields.contains_key("method") && !fields.contains_key("id") => None,
        (Value::Array(_), _) => refuse(ErrorCode::INVALID_REQUEST, BATCH.to_owned(), None),
        _ => refuse(
            ErrorCode::INVALID_REQUEST,
            format!("It is no message of the protocol: {error}"),
            id,
        ),
    }
}

/// Only the revision 2025-03-26 had them, and its clients can work without.
const BATCH: &str = "Lists of messages (batches) are not taken, in no revision: send each message by itself";

fn too_long() -> RefusalMessage {
    let size = limits::MCP_MESSAGE_BYTES_MAX / (1024 * 1024);
    let error = ErrorData::invalid_request(
        format!("A message is at most {size} MiB long; this one was not read"),
        None,
    );
    Box::new(ServerJsonRpcMessage::error(error, None))
}

fn lock_open(open: &Mutex<OpenConversation>) -> std::sync::MutexGuard<'_, OpenConversation> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

    type Half = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

    fn pair() -> (LineTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>, Half) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        let lines = LineTransport::new(reader, writer, CancellationToken::new());
        lock_open(&lines.open).has_begun = true;
        (lines, tokio::io::split(theirs))
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
        // A notification of an unknown method is passed on, and gets no answer.
        assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Notification(_))));
        let message = lines.receive().await.expect("the last one is right");
        assert!(matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(1)));
        let mut reader = BufReader::new(reader);
        let mut told = Vec::new();
        for _ in 0..3 {
            let answer = answer(&mut reader).await;
            // It is there, and says that there was none to read.
            let id = answer.get("id").expect("every answer has one").clone();
            told.push((answer["error"]["code"].as_i64().expect("a number"), id.to_string()));
        }
        told.sort();
        let expected = [(-32_700, "null"), (-32_600, "7"), (-32_600, "null")];
        assert_eq!(told, expected.map(|(code, id)| (code, id.to_owned())));
    }

    #[tokio::test]
    async fn what_comes_before_the_handshake_is_told_what_should_come_and_ends_nothing() {
        let (mut lines, (reader, mut writer)) = pair();
        lock_open(&lines.open).has_begun = false;
        let hello = |id: u64| {
            let info = json!({"name": "a test", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}).to_string() + "\n"
        };
        let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
        let said = [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned() + "\n",
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.to_owned() + "\n",
            list(1),
            r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#.to_owned()
                + "\n",
            format!("{ping}\n"),
            hello(3),
        ];
        writer.write_all(said.concat().as_bytes()).await.expect("there is room");
        for id in [9, 3] {
            let message = lines.receive().await;
            assert!(matches!(message, Some(JsonRpcMessage::Request(request)) if request.id == RequestId::Number(id)));
        }
        let mut reader = BufReader::new(reader);
        let mut told = Vec::new();
        for _ in 0..2 {
            let answer = answer(&mut reader).await;
            told.push((answer["id"].clone(), answer["error"].clone()));
        }
        told.sort_by_key(|(id, _)| id.as_u64());
        assert_eq!(
            told,
            [
                (json!(1), json!({"code": -32_600, "message": NOT_BEGUN})),
                (
                    json!(2),
                    json!({"code": -32_602, "message": formless_initialize().message})
                ),
            ]
        );
        // Answered, and then once more.
        let done = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
        lines
            .send(serde_json::from_value(done).expect("it is an answer"))
            .await
            .expect("it is written");
        answer(&mut reader).await;
        writer
            .write_all((hello(4) + &list(5)).as_bytes())
            .await
            .expect("there is room");
        let message = lines.receive().await;
        assert!(matches!(message, Some(JsonRpcMessage::Request(request)) if request.id == RequestId::Number(5)));
        let told = answer(&mut reader).await;
        assert_eq!(
            (&told["id"], &told["error"]["message"]),
            (&json!(4), &json!(begun_already().message))
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
        let max = MCP_REQUESTS_OPEN_MAX as u64;
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
