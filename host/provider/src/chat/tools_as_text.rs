//! Tools for a server whose chat template leaves them out: described in the instructions, called and answered as text.

use serde_json::{Value, json};

use super::{encode_tool, push_user};
use crate::ids::arguments_object;
use crate::{Message, ModelRequest};

const HOW_TO_CALL: &str = "# Tools\n\nTo call a tool, write a line of this form at the end of your answer, one line for each call:\n\
    <tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"README.md\"}}</tool_call>\nThe results come in the next \
    message. These are the tools:\n";

/// The messages of a request, with its tools in the first one.
pub(super) fn encode_described(request: &ModelRequest<'_>) -> Vec<Value> {
    let mut system = request.instructions();
    if !request.tools.is_empty() {
        system.push_str("\n\n");
        system.push_str(HOW_TO_CALL);
        for spec in request.tools {
            system.push_str(&format!("{}\n", encode_tool(spec)["function"]));
        }
    }
    let mut messages = vec![json!({"role": "system", "content": system})];
    for message in request.messages {
        match message {
            Message::User { text } => push_user(&mut messages, text),
            Message::Assistant { text, tool_calls, .. } => {
                let mut content = text.clone();
                for call in tool_calls {
                    let arguments: Value = serde_json::from_str(&arguments_object(&call.arguments)).unwrap_or_default();
                    let call = json!({"name": call.name, "arguments": arguments});
                    content.push_str(&format!("\n<tool_call>{call}</tool_call>"));
                }
                if !content.is_empty() {
                    messages.push(json!({"role": "assistant", "content": content.trim_start()}));
                }
            }
            Message::ToolResults { results } => {
                let results: Vec<String> = results.iter().map(|result| result.labelled(request.mark)).collect();
                push_user(&mut messages, &results.join("\n\n"));
            }
        }
    }
    messages
}
