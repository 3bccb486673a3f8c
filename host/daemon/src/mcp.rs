//! Skills for other agents: a server of the Model Context Protocol, over any transport.
//!
//! A connection is one session with many calls, with the policy of `tool skill call`, the same receipts and the same
//! journal. This module implements the protocol: tools and their annotations, progress, cancellation, approvals by
//! elicitation, and the client's roots. It runs nothing itself, decides nothing about effects, and knows neither
//! sockets nor headers: `lines` provides messages, and `http::mcp` HTTP requests.

mod ask;
mod call;
mod lines;
mod operations;
mod resources;
mod roots;
mod serve;
mod tools;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientJsonRpcMessage, ClientRequest, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, ServerJsonRpcMessage, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::limits;
use call::WaitingCall;
use roots::RootsCheck;
use tool_core::api::{ErrorKind, Problem};
use tool_session::Sessions;
use tool_session::connection::Connection;

pub(crate) use operations::Operations;
pub(crate) use serve::{ClientReach, McpConnections, PendingSession};

/// A session under way, with its share of the limit for sessions.
pub(crate) struct McpSession {
    connection: Connection,
    /// What the client may do.
    reach: ClientReach,
    /// Permits for simultaneous calls.
    calls: Arc<Semaphore>,
    /// Calls that wait for the user's answer, which another request brings.
    pending: Mutex<HashMap<String, WaitingCall>>,
    /// Cancelled once the client sends nothing more, and questions that only it could answer stay unanswered.
    hung_up: CancellationToken,
    /// Cancels the service of this session.
    stop: CancellationToken,
    /// Time of the client's last request, or of the end of its last call.
    used: Mutex<Instant>,
    /// The session's permit of `MCP_CONNECTIONS_MAX`; absent once the session was evicted.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl McpSession {
    fn new(
        connection: Connection,
        place: OwnedSemaphorePermit,
        reach: ClientReach,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            reach,
            calls: Arc::new(Semaphore::new(limits::MCP_CALLS_MAX)),
            pending: Mutex::default(),
            hung_up: CancellationToken::new(),
            stop,
            used: Mutex::new(Instant::now()),
            place: Mutex::new(Some(place)),
        })
    }

    /// Records that the client is active now.
    fn touch(&self) {
        *lock_unpoisoned(&self.used) = Instant::now();
    }

    /// Takes a permit for a call; `None` if all are in use. Calls that have waited too long for an answer return
    /// theirs first.
    fn take_call_place(&self) -> Option<OwnedSemaphorePermit> {
        self.drop_unanswered();
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// Ends calls that have waited too long for an answer.
    fn drop_unanswered(&self) {
        self.pending().retain(|_, waiting| !waiting.is_over());
    }

    /// Ends the session and returns its permit, unless a call is under way. No call begins afterwards.
    fn evict(&self) -> Option<OwnedSemaphorePermit> {
        self.drop_unanswered();
        let all = u32::try_from(limits::MCP_CALLS_MAX).expect("it is small");
        let calls = Arc::clone(&self.calls).try_acquire_many_owned(all).ok()?;
        self.calls.close();
        drop(calls);
        self.stop.cancel();
        lock_unpoisoned(&self.place).take()
    }

    fn is_same_session(self: &Arc<Self>, other: &Weak<Self>) -> bool {
        std::ptr::eq(Arc::as_ptr(self), other.as_ptr())
    }

    /// Identifier of the session.
    pub(crate) fn session(&self) -> &str {
        self.connection.id()
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<String, WaitingCall>> {
        lock_unpoisoned(&self.pending)
    }
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server of one connection, or of one request from a client without connections.
pub(crate) struct Server {
    sessions: Arc<Sessions>,
    /// Opens the session on first use, unless it exists from the start.
    connecting: Option<Arc<PendingSession>>,
    /// Cancels the service of this server.
    stop: CancellationToken,
    /// Session of this connection.
    line: OnceCell<Arc<McpSession>>,
    roots: RootsCheck,
    /// True if tools and results have a structured form beside the text.
    is_structured: bool,
    /// Operations that the user grants.
    operations: Arc<Operations>,
}

impl Server {
    fn of_line(sessions: Arc<Sessions>, line: Arc<McpSession>, connecting: &PendingSession) -> Self {
        Self {
            sessions,
            is_structured: connecting.request.structured,
            operations: Arc::clone(&connecting.operations),
            connecting: None,
            stop: line.stop.clone(),
            line: OnceCell::new_with(Some(line)),
            roots: RootsCheck::default(),
        }
    }

    /// Creates a server whose session begins with a handshake, or with a request that needs none. `stop` cancels its
    /// service.
    fn to_connect(sessions: Arc<Sessions>, connecting: Arc<PendingSession>, stop: CancellationToken) -> Self {
        Self {
            sessions,
            is_structured: connecting.request.structured,
            operations: Arc::clone(&connecting.operations),
            connecting: Some(connecting),
            stop,
            line: OnceCell::new(),
            roots: RootsCheck::default(),
        }
    }

    /// The session of a request: the connection's own, or the one that requests without a connection share.
    async fn line(&self, context: &RequestContext<RoleServer>) -> Result<Arc<McpSession>, ErrorData> {
        if let Some(line) = self.line.get() {
            return Ok(Arc::clone(line));
        }
        let connecting = self.connecting.as_ref().expect("a server has a line or can make one");
        let client = context
            .client_info()
            .map(|client| client_name(&client))
            .unwrap_or_default();
        connecting.shared(client).await.map_err(problem_error)
    }
}

impl Server {
    /// The session of a request for resources, if the client may see its repository.
    async fn find_reader(&self, context: &RequestContext<RoleServer>) -> Result<Arc<McpSession>, ErrorData> {
        let line = self.line(context).await?;
        line.touch();
        self.roots.check(&line, context).await.map_err(problem_error)?;
        line.connection.check_may_read("resources").map_err(problem_error)?;
        Ok(line)
    }

    /// Removes the structured form unless the client asked for it: some agents give a model that form instead of the
    /// text, with source code escaped as JSON.
    fn formed(&self, mut answer: CallToolResponse) -> CallToolResponse {
        if let CallToolResponse::Complete(result) = &mut answer
            && !self.is_structured
        {
            result.structured_content = None;
        }
        answer
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let info = Implementation::new("tool", env!("CARGO_PKG_VERSION")).with_title("tool: sandboxed skills");
        let mut config = ServerConfig::new(capabilities)
            .with_server_info(info)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        config.instructions = Some(INSTRUCTIONS.to_owned());
        config
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        // The transport for lines reports this itself.
        if self.connecting.is_some() && self.line.initialized() {
            return Err(lines::begun_already());
        }
        let answer = self.negotiate_initialize(&request)?;
        let line = match &self.connecting {
            Some(connecting) => {
                let made = self.line.get_or_try_init(|| connecting.evictable(self.stop.clone()));
                Arc::clone(made.await.map_err(problem_error)?)
            }
            None => self.line(&context).await?,
        };
        line.connection.note_client(&format!(
            "{} (protocol {})",
            client_name(&request.client_info),
            answer.protocol_version
        ));
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if let Some(line) = self.line.get() {
            line.touch();
        }
        let sessions = Arc::clone(&self.sessions);
        let lock = self.line.get().and_then(|line| line.connection.lock().cloned());
        let (is_structured, operations) = (self.is_structured, Arc::clone(&self.operations));
        let list = move || -> Vec<Tool> {
            let functions = sessions.tools(lock.as_deref());
            let tools = functions
                .iter()
                .filter(|function| operations.find(&function.name).is_none())
                .filter_map(|function| tools::function_tool(function, is_structured));
            tools.chain(operations.tools(is_structured)).collect()
        };
        let tools = tokio::task::spawn_blocking(list);
        let tools = tools.await.map_err(|_| backend_error())?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let line = self.line(&context).await?;
        line.touch();
        if let Err(refusal) = self.roots.check(&line, &context).await {
            return Ok(self.formed(tools::problem_result(&refusal).into()));
        }
        let answer = match self.operations.find(&request.name) {
            Some(operation) => {
                operations::answer_operation(&self.operations, operation, &self.sessions, &line, request, &context)
                    .await
                    .map(CallToolResponse::from)
            }
            None => call::answer_call(&self.sessions, &line, request, context).await,
        };
        line.touch();
        answer.map(|answer| self.formed(answer))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let line = self.find_reader(&context).await?;
        Ok(ListResourcesResult::with_all_items(resources::list_resources(
            &self.sessions,
            &line.connection,
        )))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::resource_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let line = self.find_reader(&context).await?;
        let read = resources::read_resource(&self.sessions, &line, &request.uri).await;
        read.map(Into::into).map_err(|problem| match problem.kind {
            ErrorKind::NotFound => ErrorData::resource_not_found(problem.message, None),
            _ => problem_error(problem),
        })
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.roots.forget().await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            // A request whose parameters do not fit its method arrives here as well.
            lines::INITIALIZE => lines::formless_initialize(),
            "tools/call" => ErrorData::invalid_params(
                "`tools/call` needs `params` with a `name`, a string, and `arguments`, an object",
                None,
            ),
            method @ ("ping"
            | "tools/list"
            | "server/discover"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read") => {
                ErrorData::invalid_params(format!("The parameters of `{method}` have another form"), None)
            }
            method => ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("There is no method `{method}`"),
                None,
            ),
        })
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }
}

const INSTRUCTIONS: &str = "Skills that work on one repository, each call in a sandbox. Paths are relative to the \
    repository's root. A file has to be read before it can be replaced. What a skill may cause beyond reading, the user \
    grants; a call that is denied says how.";

/// Returns the error for bytes that are not a message of the protocol, or a malformed handshake; `None` for other
/// messages.
pub(crate) fn refuse_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    let refusal = match lines::parse(bytes.trim_ascii()) {
        Some(Ok(ClientJsonRpcMessage::Request(request))) if request.request.method() == lines::INITIALIZE => {
            let is_formless = matches!(request.request, ClientRequest::CustomRequest(_));
            is_formless.then(|| ServerJsonRpcMessage::error(lines::formless_initialize(), Some(request.id)))
        }
        Some(Err(refusal)) => Some(*refusal),
        Some(Ok(_)) | None => None,
    };
    refusal.and_then(|refusal| lines::encode_message(&refusal).ok())
}

/// Name and version that a client reports.
fn client_name(client: &Implementation) -> String {
    format!("{} {}", client.name, client.version)
}

/// Converts a problem to an error of the protocol.
fn problem_error(problem: Problem) -> ErrorData {
    let message = match &problem.hint {
        Some(hint) => format!("{} ({hint})", problem.message),
        None => problem.message.clone(),
    };
    let data = json!({"code": problem.kind, "hint": problem.hint});
    match problem.kind {
        ErrorKind::Internal | ErrorKind::JournalFailed | ErrorKind::Busy | ErrorKind::Stopping => {
            ErrorData::internal_error(message, Some(data))
        }
        _ => ErrorData::invalid_params(message, Some(data)),
    }
}

fn backend_error() -> ErrorData {
    ErrorData::internal_error("The backend failed; its log says more", None)
}
