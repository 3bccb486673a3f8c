//! The embedded analyst: a deterministic provider that uses no language model.
//!
//! It uses the same loop and the same skills as a model, and writes from their answers: every sentence is a measurement
//! with a citation. It never pretends to be a model. Its output is a pure function of the conversation, so the whole
//! path has a deterministic test.

#![forbid(unsafe_code)]

mod architect;
mod commands;
mod evidence;
mod explain;
mod file_doc;
mod manifest;
mod readme;
mod survey;
mod text;

use std::sync::Arc;

use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use tool_config::{ANALYST_URL, ProviderApi, ProviderSettings};
use tool_core::api::{CallGraph, ErrorKind, ModuleGraph, Operation, Problem, TaskSubject};
use tool_provider::{
    EventStream, ModelRequest, Options, Provider, ProviderError, ProviderEvent, StopReason, ToolCall, Usage,
};

use evidence::{AnalystTask, Evidence};

/// The sentence in every answer of the analyst.
const NO_MODEL: &str = "Written by the embedded analyst from measurements of this repository. \
                        No language model was used.";

/// Hint: how to enable a provider.
const ENABLE: &str = "enable a provider: `tool init --provider local --model MODEL`, or hosted, or router";

/// The provider behind `url = "builtin:analyst"`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Analyst;

/// Connects to the enabled provider: the analyst, or the one behind a wire. Sends nothing.
///
/// # Errors
///
/// If the settings cannot make a client for the wire of the provider.
pub fn connect_provider(settings: &ProviderSettings, options: &Options) -> Result<Arc<dyn Provider>, Problem> {
    match settings.api {
        ProviderApi::Analyst => Ok(Arc::new(Analyst)),
        _ => tool_provider::connect_with(settings, options),
    }
}

enum AnalystStep {
    /// It wants to know more.
    Calls(Vec<ToolCall>),
    /// It has written its answer.
    Text(String),
}

impl Provider for Analyst {
    fn name(&self) -> &'static str {
        "local"
    }

    fn model(&self) -> &str {
        ANALYST_URL
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>, cancel: CancellationToken) -> EventStream<'a> {
        if cancel.is_cancelled() {
            return Box::pin(stream::iter([Err(ProviderError::Cancelled)]));
        }
        match write_reply(request) {
            Ok(reply) => Box::pin(stream::iter(split_reply(reply).into_iter().map(Ok))),
            Err(problem) => Box::pin(stream::iter([Err(problem.into())])),
        }
    }
}

/// Refuses an operation that needs a model, and a model that would not be used.
///
/// # Errors
///
/// Returns [`ErrorKind::ConfigNeedsModel`] for refactor and test-gen, and for any `model` but the analyst.
pub fn check_operation(operation: Operation, model: Option<&str>) -> Result<(), Problem> {
    if let Some(model) = model.filter(|model| !model.is_empty() && *model != ANALYST_URL) {
        let message = format!("The embedded analyst uses no language model, so `{model}` cannot be asked");
        return Err(Problem::new(ErrorKind::ConfigNeedsModel, message).with_hint(ENABLE));
    }
    match operation {
        Operation::Explain | Operation::Architect => Ok(()),
        Operation::Refactor | Operation::TestGen => Err(needs_a_model(operation.name())),
    }
}

/// Puts facts about the target before a request.
pub fn add_facts(message: &str, facts: &TargetFacts) -> String {
    match serde_json::to_string(facts) {
        Ok(json) => format!("{FACTS}{json}\n\n{message}"),
        Err(_) => message.to_owned(),
    }
}

/// Begins the line with the facts.
const FACTS: &str = "Facts: ";

/// Facts about a target that skills do not report.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Folders and files.
    pub modules: ModuleGraph,
    /// Packages of a workspace.
    pub packages: ModuleGraph,
    /// The files that changed in most of the newest commits; absent without a history.
    pub changes: Option<RecentChanges>,
    /// The symbol that the target names.
    #[serde(default)]
    pub symbol: Option<TargetSymbol>,
    /// Its callers and callees.
    #[serde(default)]
    pub calls: CallGraph,
    /// The definitions of a file, or those on the lines of the target, in the order of lines; absent if its language
    /// has no parser.
    #[serde(default)]
    pub definitions: Option<Vec<FileDefinition>>,
    /// The parts of the repository that a task names.
    #[serde(default)]
    pub subjects: Vec<TaskSubject>,
    /// HTTP routes that the sources declare.
    #[serde(default)]
    pub routes: Vec<DeclaredEndpoint>,
    /// Commands of the command line that the sources declare.
    #[serde(default)]
    pub commands: Vec<DeclaredEndpoint>,
    /// True for an overview with all its sections, false for a page of it.
    #[serde(default)]
    pub is_full: bool,
}

/// A definition in a file, by its syntax tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDefinition {
    /// Its name.
    pub name: String,
    /// Names of the definitions around it, joined by dots.
    pub container: String,
    /// The head, in one line.
    pub signature: String,
    /// True for a type or a module, which may hold others.
    pub is_holder: bool,
    /// First line of the whole, from 1.
    pub first_line: u32,
    /// Line of the name.
    pub line: u32,
    /// Last line of the whole.
    pub last_line: u32,
    /// First line of the comment right before it.
    pub comment_line: Option<u32>,
}

impl FileDefinition {
    /// True if the lines of `other` are within the lines of this definition.
    pub fn holds(&self, other: &Self) -> bool {
        self.first_line <= other.first_line && other.last_line <= self.last_line && self != other
    }

    /// The name with that of the definition around it.
    pub fn qualified_name(&self) -> String {
        if self.container.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{}", self.container, self.name)
        }
    }
}

/// A symbol with the places that define it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSymbol {
    /// As typed; for an inherited member, with the class that defines it.
    pub name: String,
    /// The typed class, if it inherits the member.
    #[serde(default)]
    pub inherited_by: Option<String>,
    /// Paths and first lines, from 1.
    pub places: Vec<(String, u32)>,
}

/// A route or a command with its place.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredEndpoint {
    /// File of the declaration.
    pub path: String,
    /// First line of the declaration.
    pub line: u32,
    /// Last line that names it.
    pub last_line: u32,
    /// HTTP methods; empty for a command, or if the source names none.
    pub methods: String,
    /// The route's path, or the command's name.
    pub name: String,
    /// The function that answers.
    pub handler: Option<String>,
    /// Words about it.
    pub help: Option<String>,
}

/// The files that changed in most of the newest commits.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentChanges {
    /// Commits that were looked at.
    pub commits: u64,
    /// Paths with their number of commits, most first.
    pub files: Vec<(String, u64)>,
}

/// Refuses a question, which needs a model.
pub fn refuse_question() -> Problem {
    needs_a_model_for("a question needs one")
}

/// Refuses several targets at once.
pub fn refuse_several_targets() -> Problem {
    needs_a_model_for("it explains one target at a time")
}

/// Refuses a task that names no part of the repository.
fn refuse_task() -> Problem {
    let message = "No word of the task names a definition, a file or a folder of this repository, and the embedded \
                   analyst uses no language model that could understand it";
    let hint = format!("name a definition, a file or a folder in the task, or {ENABLE}");
    Problem::new(ErrorKind::OperationFailed, message).with_hint(hint)
}

fn needs_a_model(operation: &str) -> Problem {
    needs_a_model_for(&format!("`{operation}` needs one"))
}

fn needs_a_model_for(reason: &str) -> Problem {
    let message = format!("The embedded analyst uses no language model, and {reason}");
    Problem::new(ErrorKind::ConfigNeedsModel, message).with_hint(ENABLE)
}

fn write_reply(request: ModelRequest<'_>) -> Result<AnalystStep, Problem> {
    let brief = AnalystTask::parse_brief(request.messages);
    let evidence = Evidence::pair_answers(request.messages);
    match brief.operation.as_str() {
        "explain" => Ok(explain::next(&brief, &evidence)),
        "architect" => architect::answer_task(&brief),
        other => Err(needs_a_model(other)),
    }
}

/// A reply in the form of a wire: text paragraph by paragraph, calls whole.
fn split_reply(reply: AnalystStep) -> Vec<ProviderEvent> {
    let (mut events, reason) = match reply {
        AnalystStep::Calls(calls) => (
            calls.into_iter().map(ProviderEvent::ToolCall).collect::<Vec<_>>(),
            StopReason::ToolUse,
        ),
        AnalystStep::Text(text) => (
            text.split_inclusive("\n\n")
                .map(|part| ProviderEvent::Text(part.to_owned()))
                .collect(),
            StopReason::EndTurn,
        ),
    };
    // No model, no tokens: otherwise they would be estimated.
    events.push(ProviderEvent::Usage(Usage::default()));
    events.push(ProviderEvent::Stop {
        reason,
        opaque: Value::Null,
    });
    events
}

/// A call whose identifier begins with its purpose, which finds its answer again.
fn tool_call(purpose: &str, number: usize, name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: format!("{purpose}-{number}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}
