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

mod chat;
mod check;
mod dialect;
mod form;
mod generate_content;
mod messages;
mod ollama;
mod play;
mod responses;
mod server;
mod vendor;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use form::RetryAfter;
pub use server::{ModelServer, Recorded};
pub use vendor::Vendor;

use tool_core::api::{ErrorKind, Problem};
use tool_core::text::nearest_key;

/// A script that shows what a script can say; it answers an explain of any repository with a README.
pub const EXAMPLE: &str = include_str!("example.json");

/// All that a server says, request by request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Answers, in the order of the requests.
    pub rounds: Vec<Round>,
    /// Ids in the model list.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
    /// True: after the last round comes the first again.
    #[serde(default)]
    pub repeat: bool,
    /// True: each conversation gets the rounds from the first on, by the answers that it holds already, so that several
    /// at once do not take each other's. Rounds that leave no answer behind, such as HTTP errors, never end.
    #[serde(default)]
    pub per_conversation: bool,
    /// True: a request that the real API would refuse for its form is refused here too, with the reason.
    #[serde(default = "strict")]
    pub strict: bool,
    /// A vendor whose rules count beside those of the API's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// Further paths that a GET request may ask for, with the JSON that answers; they win over the model lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub get: BTreeMap<String, Value>,
    /// Bytes of a token: `POST /tokenize` counts the tokens of a text by it, in the form of llama.cpp.
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

fn strict() -> bool {
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
    /// Instead of `text/event-stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// One thing that a server does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStep {
    /// Text in one piece.
    Text(String),
    /// Text in the pieces given.
    Pieces(Vec<String>),
    /// A tool call printed as text, as some models do it: the whole of it is answer text.
    TextCall(ScriptedCall),
    /// Thinking. Where the wire has them, a signature follows.
    Reasoning(String),
    /// Tool calls of one answer, one after the other.
    ToolCalls(Vec<ScriptedCall>),
    /// Token counts.
    Usage(ScriptedUsage),
    /// Why the answer ends: `stop`, `tool_calls`, `length`, `content_filter`, each in the wire's own word, or whatever
    /// a server may say. Then the rest of the script decides whether an end mark follows.
    Finish(String),
    /// The end mark of the wire, where it has one of its own: `[DONE]`, or `message_stop`.
    Done,
    /// Waits.
    DelayMs(u64),
    /// Waits until [`ModelServer::release`] names this gate.
    Gate(String),
    /// A comment line of the stream.
    Comment(String),
    /// An event with this JSON, whatever it is: for quirks that no other step has.
    Frame(Value),
    /// Bytes of the body as they are.
    Raw(String),
    /// An error inside the stream: the error object, its message, or a status that stands for the wire's own object.
    Error(Value),
    /// The body ends here, properly or not.
    End,
    /// Nothing more comes, and the connection stays open.
    Stall,
    /// The connection breaks.
    Reset,
    /// An HTTP answer instead of a stream; the only step of its round.
    Status(ScriptedStatus),
}

/// A tool call of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// An object, or the text that the server sends instead, broken or not. Where calls come whole (generateContent),
    /// a text that is no object is no call, and is not sent.
    #[serde(default)]
    pub arguments: Value,
    /// Made up where it is absent (generateContent then sends none); sent as it is, even empty, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True: no id at all is sent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_id: bool,
    /// In how many pieces the arguments come; one where it is absent.
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

    /// The arguments where they are an object, also one in a text; nothing means an empty one.
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

    /// The call as a model prints it that was trained on another template.
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
    /// Of the input, read from a cache.
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
    /// The sentence of the wire's own error object, instead of the usual one; a body wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A text, even an empty one, or JSON. Null: the wire's own error object.
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

    /// Reads a script from JSON. The problem says where it is wrong, and which known word is nearest.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        serde_json::from_str(text).map_err(|error| {
            let words = error.to_string();
            // The place has a sentence of its own; serde repeats it in its words.
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

    /// True where the script says how the round ends.
    fn ends_by_itself(&self) -> bool {
        use ServerStep::{Done, End, Error, Finish, Reset, Stall, Status};
        let ends = |step: &ServerStep| matches!(step, Finish(_) | Done | End | Error(_) | Reset | Stall | Status(_));
        self.steps.iter().any(ends)
    }

    /// The tools that it asks for.
    fn tool_calls(&self) -> impl Iterator<Item = &ScriptedCall> {
        let calls = self.steps.iter().map(|step| match step {
            ServerStep::ToolCalls(calls) => calls.as_slice(),
            _ => &[],
        });
        calls.flatten()
    }

    /// The first and the last token counts that it gives.
    fn usages(&self) -> Option<(ScriptedUsage, ScriptedUsage)> {
        let mut usages = self.steps.iter().filter_map(|step| match step {
            ServerStep::Usage(usage) => Some(*usage),
            _ => None,
        });
        let first = usages.next()?;
        Some((first, usages.next_back().unwrap_or(first)))
    }
}
