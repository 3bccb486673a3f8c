//! A model server that follows a script: for tests, and for users who want a run without a model and without a key.
//!
//! A script is data, JSON:
//!
//! ```json
//! {"models": ["scripted"],
//!  "rounds": [
//!    {"steps": [{"text": "Let me look."},
//!               {"tool_calls": [{"name": "read_file", "arguments": {"path": "README.md"}},
//!                               {"name": "list_files", "arguments": {}, "pieces": 3}]}]},
//!    {"steps": [{"pieces": ["It is ", "a ", "library."]}, {"usage": {"input": 1200, "output": 9}}]}]}
//! ```
//!
//! The first request gets the first round, the next one the second, retries included; after the last round requests
//! are refused, or the script begins again (`"repeat": true`). A round that does not say how it ends ends properly.
//! The same steps serve every wire; the path of the request decides which one is spoken. A request that the wire does
//! not allow is answered with 400 and takes no round (`"strict": false` lets it pass).

#![forbid(unsafe_code)]

mod body_stream;
mod chat;
mod check;
mod dialect;
mod generate_content;
mod messages;
mod ollama;
mod responses;
mod script_json;
mod server;
mod vendor;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use script_json::RetryAfter;
pub use server::{ModelServer, RecordedRequest};
pub use vendor::Vendor;

use tool_core::api::{ErrorKind, Problem};
use tool_core::text::nearest_key;

/// A script that shows what a script can contain. It answers an explain of any repository with a README.
pub const EXAMPLE: &str = include_str!("example.json");

/// Everything that a server sends, request by request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Answers, in the order of the requests.
    pub rounds: Vec<Round>,
    /// Ids in the model list.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
    /// True: after the last round the first follows again.
    #[serde(default)]
    pub repeat: bool,
    /// True: each conversation gets the rounds from the first on, chosen by the number of answers that it already
    /// holds, so that concurrent conversations do not take each other's rounds. A round that leaves no answer in the
    /// conversation, such as an HTTP error, is repeated for each request.
    #[serde(default)]
    pub per_conversation: bool,
    /// True: a request whose form the real API would refuse is refused here too, with the reason.
    #[serde(default = "default_strict")]
    pub strict: bool,
    /// A vendor whose rules apply in addition to the form of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// Further paths that a GET request may ask for, with the JSON that answers. They take precedence over the model
    /// lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub get: BTreeMap<String, Value>,
    /// Bytes for each token: `POST /tokenize` counts the tokens of a text with it, in the form of llama.cpp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_token: Option<f64>,
    /// Tokens of the context with which the server loads a model. A script with this number acts as Ollama, with Ollama's own
    /// API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ollama_context: Option<u64>,
}

fn default_models() -> Vec<String> {
    vec!["scripted".to_owned()]
}

fn default_strict() -> bool {
    true
}

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Steps of the round, in order.
    pub steps: Vec<ServerStep>,
    /// Sends the body in writes of this many bytes, wherever that cuts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_bytes: Option<usize>,
    /// Replaces `text/event-stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// One action of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStep {
    /// Text in one piece.
    Text(String),
    /// Text in the pieces given.
    Pieces(Vec<String>),
    /// A tool call printed as text, as some models do. All of it is answer text.
    TextCall(ScriptedCall),
    /// Thinking. A signature follows on wires that have signatures.
    Reasoning(String),
    /// Tool calls of one answer, one after the other.
    ToolCalls(Vec<ScriptedCall>),
    /// Token counts.
    Usage(ScriptedUsage),
    /// Why the answer ends: `stop`, `tool_calls`, `length`, `content_filter`, each translated into the wire's own word,
    /// or any other text, sent unchanged. The rest of the script decides whether an end mark follows.
    Finish(String),
    /// The end mark, on wires that have one: `[DONE]`, or `message_stop`.
    Done,
    /// Waits.
    DelayMs(u64),
    /// Waits until [`ModelServer::release`] names this gate.
    Gate(String),
    /// A comment line of the stream.
    Comment(String),
    /// An event with this JSON, for quirks that no other step covers.
    Frame(Value),
    /// Bytes of the body, sent unchanged.
    Raw(String),
    /// An error inside the stream: the error object, its message, or a status that is turned into the wire's own
    /// object.
    Error(Value),
    /// The body ends here, whether or not the answer is complete.
    End,
    /// Nothing more is sent, but the connection stays open.
    Stall,
    /// The connection breaks.
    Reset,
    /// An HTTP answer instead of a stream. It must be the only step of its round.
    Status(ScriptedStatus),
}

/// A tool call of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// An object, or a text that the server sends instead, which may be broken. On wires where calls come whole
    /// (generateContent), a text that is not an object cannot be sent and is left out.
    #[serde(default)]
    pub arguments: Value,
    /// Made up if it is absent (generateContent then sends none); otherwise sent unchanged, even if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True: no id at all is sent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_id: bool,
    /// Number of pieces in which the arguments come; 1 if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<usize>,
}

impl ScriptedCall {
    /// A whole call.
    pub fn new(name: &str, arguments: Value) -> Self {
        Self {
            name: name.to_owned(),
            arguments,
            id: None,
            no_id: false,
            pieces: None,
        }
    }

    fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }

    /// The arguments if they are an object, also as text; absent ones count as an empty object.
    fn arguments_object(&self) -> Option<Value> {
        match &self.arguments {
            Value::Null => Some(Value::Object(serde_json::Map::new())),
            Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object),
            value => Some(value.clone()).filter(Value::is_object),
        }
    }

    /// The id as it is sent.
    fn id_or(&self, made_up: impl FnOnce() -> String) -> Option<String> {
        if self.no_id {
            None
        } else {
            Some(self.id.clone().unwrap_or_else(made_up))
        }
    }

    /// The call as it is printed by a model that was trained on another template.
    fn as_text(&self) -> String {
        let call = serde_json::json!({"name": self.name, "arguments": self.arguments});
        format!("<tool_call>\n{call}\n</tool_call>")
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Token counts of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Those of the input tokens that were read from a cache.
    #[serde(default)]
    pub cached: u64,
}

/// An HTTP answer of a script. In JSON, a bare number is the status alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScriptedStatus {
    /// The status.
    pub code: u16,
    /// Form in which the server announces the time of a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
    /// The sentence of the wire's own error object, instead of the usual one. Ignored if there is a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A text, even an empty one, or JSON. Null means the wire's own error object.
    pub body: Value,
}

impl ScriptedStatus {
    /// An answer with a status and a body, without further headers.
    pub fn new(code: u16, body: impl Into<Value>) -> Self {
        Self {
            code,
            retry_after: None,
            headers: BTreeMap::new(),
            message: None,
            body: body.into(),
        }
    }
}

impl Script {
    /// A script of these rounds.
    pub fn new(rounds: impl IntoIterator<Item = Round>) -> Self {
        Self {
            rounds: rounds.into_iter().collect(),
            models: default_models(),
            repeat: false,
            per_conversation: false,
            strict: true,
            vendor: None,
            get: BTreeMap::new(),
            bytes_per_token: None,
            ollama_context: None,
        }
    }

    /// The rounds that the server has sent after so many answers.
    fn told(&self, answers: usize) -> impl Iterator<Item = &Round> {
        self.rounds.iter().take(answers)
    }

    /// Reads a script from JSON. The problem says where the JSON is wrong, and names the nearest known word.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        serde_json::from_str(text).map_err(|error| {
            let words = error.to_string();
            // The place has its own sentence, and serde would repeat it in its message.
            let words = words.split(" at line ").next().unwrap_or_default();
            let mut hint = format!("line {}, column {}", error.line(), error.column());
            hint = match nearest_key(words) {
                Some(near) => format!("{hint}; did you mean `{near}`?"),
                None => format!("{hint}; `tool dev model-server --example` prints a script that works"),
            };
            Problem::new(ErrorKind::ConfigScript, format!("The script is not valid: {words}")).with_hint(hint)
        })
    }
}

impl Round {
    /// A round of these steps.
    pub fn new(steps: impl IntoIterator<Item = ServerStep>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A round that answers with a text.
    pub fn text(text: &str) -> Self {
        Self::new([ServerStep::Text(text.to_owned())])
    }

    /// A round that asks for tools.
    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self::new([ServerStep::ToolCalls(calls.into_iter().collect())])
    }

    /// A round that is an HTTP error.
    pub fn status(code: u16, body: impl Into<Value>) -> Self {
        Self::new([ServerStep::Status(ScriptedStatus::new(code, body))])
    }

    /// True if the script says how the round ends.
    fn ends_by_itself(&self) -> bool {
        use ServerStep::{Done, End, Error, Finish, Reset, Stall, Status};
        let ends = |step: &ServerStep| matches!(step, Finish(_) | Done | End | Error(_) | Reset | Stall | Status(_));
        self.steps.iter().any(ends)
    }

    /// The tools that the round asks for.
    fn tool_calls(&self) -> impl Iterator<Item = &ScriptedCall> {
        let calls = self.steps.iter().map(|step| match step {
            ServerStep::ToolCalls(calls) => calls.as_slice(),
            _ => &[],
        });
        calls.flatten()
    }

    /// The first and the last token counts of the round.
    fn usages(&self) -> Option<(ScriptedUsage, ScriptedUsage)> {
        let mut usages = self.steps.iter().filter_map(|step| match step {
            ServerStep::Usage(usage) => Some(*usage),
            _ => None,
        });
        let first = usages.next()?;
        Some((first, usages.next_back().unwrap_or(first)))
    }
}
