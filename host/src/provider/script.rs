//! A model server that follows a script: for tests, and for everyone who wants a run without a model and without a key.
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
//! The same steps serve every wire; the path of the request decides which one is spoken.

mod chat;
mod server;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use server::{ModelServer, Recorded};

use crate::api::Problem;

/// All that a server says, request by request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Answers, in the order of the requests.
    pub rounds: Vec<Round>,
    /// What the model list holds.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
    /// True: after the last round comes the first again.
    #[serde(default)]
    pub repeat: bool,
}

fn default_models() -> Vec<String> {
    vec!["scripted".to_owned()]
}

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// What happens, in order.
    pub steps: Vec<Step>,
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
pub enum Step {
    /// Text in one piece.
    Text(String),
    /// Text in the pieces given.
    Pieces(Vec<String>),
    /// Thinking.
    Reasoning(String),
    /// Tool calls of one answer, one after the other.
    ToolCalls(Vec<ScriptedCall>),
    /// Token counts.
    Usage(ScriptedUsage),
    /// Why the answer ends: `stop`, `tool_calls`, `length`, or whatever a server may say. Then the rest of the script
    /// decides whether an end mark follows.
    Finish(String),
    /// The end mark of the wire, where it has one.
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
    /// An error inside the stream.
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
    /// An object, or the text that the server sends instead, broken or not.
    #[serde(default)]
    pub arguments: Value,
    /// Made up where it is absent; sent as it is, even empty, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
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

/// An HTTP answer of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedStatus {
    /// The status.
    pub code: u16,
    /// Further headers, `retry-after` for example.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A text, or JSON.
    #[serde(default)]
    pub body: Value,
}

impl ScriptedStatus {
    /// An answer with a status and a body, without further headers.
    pub fn new(code: u16, body: impl Into<Value>) -> Self {
        Self {
            code,
            headers: BTreeMap::new(),
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
        }
    }

    /// Reads a script from JSON. The problem says where it is wrong.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        serde_json::from_str(text).map_err(|error| {
            Problem::new("invalid-script", format!("The script is not valid: {error}"))
                .with_hint("a script is JSON with `rounds`, each with `steps`; the README shows one")
        })
    }
}

impl Round {
    /// A round of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A round that answers with a text.
    pub fn text(text: &str) -> Self {
        Self::new([Step::Text(text.to_owned())])
    }

    /// A round that asks for tools.
    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self::new([Step::ToolCalls(calls.into_iter().collect())])
    }

    /// A round that is an HTTP error.
    pub fn status(code: u16, body: impl Into<Value>) -> Self {
        Self::new([Step::Status(ScriptedStatus::new(code, body))])
    }

    /// True where the script says how the round ends.
    fn ends_by_itself(&self) -> bool {
        use Step::{Done, End, Error, Finish, Reset, Stall, Status};
        let ends = |step: &Step| matches!(step, Finish(_) | Done | End | Error(_) | Reset | Stall | Status(_));
        self.steps.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_script_is_data() {
        let script = Script::parse(
            r#"{"rounds": [
                {"steps": [{"text": "a"}, {"gate": "g"}, {"tool_calls": [{"name": "x", "arguments": {}, "pieces": 2}]},
                           {"finish": "tool_calls"}, "done"], "split_bytes": 1},
                {"steps": [{"status": {"code": 429, "headers": {"retry-after": "1"}, "body": {"error": "slow"}}}]}]}"#,
        )
        .expect("the script is valid");
        assert_eq!(script.models, ["scripted"]);
        assert_eq!(script.rounds[0].steps[1], Step::Gate("g".into()));
        assert_eq!(script.rounds[0].steps[4], Step::Done);
        let again = Script::parse(&json!(script).to_string()).expect("what is written can be read");
        assert_eq!(again, script);
    }

    #[test]
    fn a_wrong_script_says_where() {
        let problem = Script::parse(r#"{"rounds": [{"steps": [{"sing": 1}]}]}"#).expect_err("no such step");
        assert!(problem.message.contains("unknown variant `sing`"), "{problem}");
        assert!(problem.message.contains("line 1"), "{problem}");
    }
}
