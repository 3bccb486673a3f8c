//! Operations of the service as tools. The user grants each by name, because `explain` spends tokens of the user's
//! model. Operations without a grant are not listed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::call::{self, ProgressReporter};
use super::{McpSession, resources, tools};
use tool_config::{PolicySettings, Settings};
use tool_core::api::{
    BudgetRequest, ContextRequest, ContextResult, ErrorKind, Event, ExecuteRequest, McpOperation, Operation, Overrides,
    PolicyRequest, Problem, SelectedFile, SelectionRequest, SessionResult, Status, VerificationRule,
};
use tool_provider::turn::bounded_text;
use tool_session::Sessions;

/// Bytes of an operation's answer. Codex shortens a result of more than 10,000 tokens, which it counts as four bytes each.
/// Claude Code puts a result of more than 50,000 characters or 25,000 tokens into a file.
const ANSWER_BYTES_MAX: usize = 36 * 1024;

/// Tokens of a selection's packet, as the context engine counts them: about 26,000 bytes. The reasons stand before it.
const PACKET_TOKENS: u64 = 7_000;

/// The granted operations, and their settings.
pub(crate) struct Operations {
    /// Operations that the user grants.
    pub(crate) granted: Vec<McpOperation>,
    /// Provider for `explain`, and the rest of the configuration.
    pub(crate) settings: Result<Settings, Problem>,
    /// The user's policy, with the denials of the connection.
    pub(crate) policy: PolicySettings,
    /// Folder of markdown notes.
    pub(crate) vault: Option<PathBuf>,
    /// Policy that the connection asks for. An operation applies its denials, and none of its grants.
    pub(crate) request: PolicyRequest,
    /// Variables that recipes may see.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Operations {
    /// Finds the granted operation with this name.
    pub(super) fn find(&self, name: &str) -> Option<McpOperation> {
        self.granted.iter().copied().find(|operation| operation.name() == name)
    }

    /// The granted operations as tools.
    pub(super) fn tools(&self, is_structured: bool) -> impl Iterator<Item = Tool> {
        McpOperation::ALL
            .into_iter()
            .filter(|operation| self.granted.contains(operation))
            .map(move |operation| describe_tool(operation, is_structured))
    }

    /// Policy of a session about a question of another agent. It may only read, even if the configuration allows
    /// more: a stranger may have written the question.
    fn policy_of_question(&self) -> PolicyRequest {
        let mut policy = PolicyRequest {
            allow: Vec::new(),
            allow_paths: Vec::new(),
            unsandboxed: false,
            untrusted_task: true,
            ..self.request.clone()
        };
        policy.deny_changes();
        policy
    }
}

fn describe_tool(operation: McpOperation, is_structured: bool) -> Tool {
    let target = json!({
        "type": "string",
        "description": "A file, a directory, PATH:10-40, or the name of a definition. Default: the whole repository.",
    });
    let (title, description, properties, output) = match operation {
        McpOperation::Context => (
            "Select context",
            "Selects the 4 to 6 files that matter for a task, with the reasons, and shows their relevant parts. Asks no \
             model.",
            json!({
                "task": {"type": "string", "description": "What is to be done, in words."},
                "target": target,
                "operation": {"type": "string", "enum": Operation::ALL.map(Operation::name), "default": "explain"},
            }),
            json!({"text": {"type": "string"}, "selected_files": {"type": "array", "items": {"type": "object"}}}),
        ),
        McpOperation::Explain => (
            "Explain the code",
            "Lets the user's model answer a question about the repository, or explain a part of it. Its citations are \
             checked. It takes minutes, and costs the user tokens.",
            json!({
                "question": {"type": "string", "description": "A question about the code, in words."},
                "target": target,
            }),
            json!({"text": {"type": "string"}, "session_id": {"type": "string"}, "usage": {"type": ["object", "null"]}}),
        ),
    };
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let schema = schema.as_object().cloned().unwrap_or_else(JsonObject::new);
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .open_world(operation == McpOperation::Explain);
    let tool = Tool::new(operation.name(), description, schema)
        .with_title(title)
        .with_annotations(annotations);
    if is_structured {
        tools::declare_output(
            tool,
            json!({"type": "object", "properties": output, "required": ["text"]}),
        )
    } else {
        tool
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextArguments {
    task: Option<String>,
    target: Option<String>,
    operation: Option<Operation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainArguments {
    question: Option<String>,
    target: Option<String>,
}

/// Runs an operation that the user has granted. Its answer counts as text from outside: others may have written parts
/// of it.
pub(super) async fn answer_operation(
    operations: &Operations,
    operation: McpOperation,
    sessions: &Arc<Sessions>,
    line: &Arc<McpSession>,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let _permit = match call::take_permit(line)? {
        Ok(permit) => permit,
        Err(busy) => return Ok(tools::problem_result(&busy)),
    };
    if let Err(denied) = line.connection.check_may_read(operation.name()) {
        return Ok(tools::problem_result(&denied));
    }
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let mut progress = ProgressReporter::for_request(context);
    let working = async {
        match operation {
            McpOperation::Context => select_files(operations, sessions, line, arguments).await,
            McpOperation::Explain => run_explain(operations, sessions, line, arguments, &mut progress).await,
        }
    };
    let result = tokio::select! {
        biased;
        // This future holds the only stream of its session, and the session ends with it.
        () = context.ct.cancelled() => return Err(call::cancelled_error()),
        () = line.connection.ended() => return Err(call::session_ended_error()),
        result = working => result,
    };
    line.connection
        .note_outside(&format!("an answer of `{}`", operation.name()))
        .await;
    Ok(result.unwrap_or_else(|problem| tools::problem_result(&problem)))
}

fn parse<T: DeserializeOwned>(operation: McpOperation, arguments: Value) -> Result<T, Problem> {
    serde_json::from_value(arguments).map_err(|error| {
        let message = format!("Invalid arguments for `{}`: {error}", operation.name());
        Problem::new(ErrorKind::InvalidArguments, message)
    })
}

async fn select_files(
    operations: &Operations,
    sessions: &Sessions,
    line: &McpSession,
    arguments: Value,
) -> Result<CallToolResult, Problem> {
    let ContextArguments {
        task,
        target,
        operation,
    } = parse(McpOperation::Context, arguments)?;
    let root = line.connection.root().to_string_lossy().into_owned();
    let request = ContextRequest {
        operation: operation.unwrap_or(Operation::Explain),
        // Without a task and a target, the target is the whole repository.
        target: target.or_else(|| task.is_none().then(|| root.clone())),
        repo_path: root,
        task,
        focus: None,
        working_directory: None,
        selection: SelectionRequest::default(),
    };
    let selected = sessions
        .context(
            request,
            operations.policy.clone(),
            operations.vault.clone(),
            PACKET_TOKENS,
        )
        .await?;
    let text = bounded_text(describe_selection(&selected), ANSWER_BYTES_MAX);
    let mut result = CallToolResult::success(vec![ContentBlock::text(&text)]);
    result.structured_content = Some(json!({"text": text, "selected_files": selected.selected_files}));
    Ok(result)
}

fn describe_selection(selected: &ContextResult) -> String {
    let line = |file: &SelectedFile| format!("- `{}`: {}\n", file.path, file.reasons.join("; "));
    let files: String = selected.selected_files.iter().map(line).collect();
    let near: String = selected.near_misses.iter().map(line).collect();
    let notices: String = selected.notices.iter().map(|notice| format!("{notice}\n")).collect();
    format!(
        "Selected:\n{files}\nNearly selected:\n{near}\n{notices}\n{}",
        selected.context
    )
}

async fn run_explain(
    operations: &Operations,
    sessions: &Arc<Sessions>,
    line: &McpSession,
    arguments: Value,
    progress: &mut ProgressReporter<'_>,
) -> Result<CallToolResult, Problem> {
    let ExplainArguments { question, target } = parse(McpOperation::Explain, arguments)?;
    let request = ExecuteRequest {
        operation: Operation::Explain,
        target,
        repo_path: line.connection.root().to_string_lossy().into_owned(),
        provider: None,
        task: question,
        focus: None,
        working_directory: None,
        model: None,
        interactive: false,
        ask: Vec::new(),
        is_of_program: true,
        policy: operations.policy_of_question(),
        overrides: Overrides::default(),
        attached: true,
        selection: SelectionRequest::default(),
        budget: BudgetRequest::default(),
        verification: VerificationRule::default(),
        no_tests: false,
        no_checks: false,
        preview: false,
        full: false,
    };
    let settings = operations.settings.clone()?;
    let started = sessions
        .start(request, settings, operations.environment.clone())
        .await?;
    let mut stream = sessions.events(&started.session_id, 0)?;
    let mut heartbeat = call::heartbeat_interval();
    loop {
        tokio::select! {
            events = stream.next() => match events {
                Some(events) => for (_, event) in events {
                    if let Some(news) = describe_progress(&event) {
                        progress.tell(news).await;
                    }
                },
                None => break,
            },
            _ = heartbeat.tick() => progress.beat().await,
        }
    }
    let ended = sessions.read_result(&started.session_id).await?;
    Ok(result_of(&ended))
}

/// The line of progress for an event; `None` for events that do not matter to a waiting user.
fn describe_progress(event: &Event) -> Option<String> {
    match event {
        Event::Selection { files } => Some(format!("{} files were selected", files.len())),
        Event::Skill { name, .. } => Some(format!("skill {name}")),
        Event::Notice { message, .. } => Some(message.clone()),
        _ => None,
    }
}

fn result_of(ended: &SessionResult) -> CallToolResult {
    let mut text = ended.output.clone();
    if let Some(problem) = &ended.error {
        let hint = problem
            .hint
            .as_ref()
            .map(|hint| format!("\n{hint}"))
            .unwrap_or_default();
        text = format!("{text}\n\n{}{hint}", problem.message);
    }
    let mut text = text.trim().to_owned();
    if text.len() > ANSWER_BYTES_MAX {
        let whole = resources::report_uri(&ended.session_id);
        text.truncate(text.floor_char_boundary(ANSWER_BYTES_MAX));
        text.push_str(&format!("\n[cut here: the resource {whole} has the whole answer]"));
    }
    let content = vec![ContentBlock::text(&text)];
    let mut result = if ended.status == Status::Complete {
        CallToolResult::success(content)
    } else {
        CallToolResult::error(content)
    };
    result.structured_content = Some(json!({"text": text, "session_id": ended.session_id, "usage": ended.usage}));
    result
}
