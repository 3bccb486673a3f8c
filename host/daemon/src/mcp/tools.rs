//! Converts skills to tools of the protocol, and answers of calls to results.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::limits;
use tool_core::api::{Effect, Media, Problem, SkillFunction};
use tool_session::connection::CallAnswer;
use tool_skill::{CallError, CallOutcome};

/// Claude Code replaces a result of more than 50,000 characters with the path of a file, unless its tool names a larger size
/// in this field. A page of a skill has up to 64 KiB.
const RESULT_SIZE: &str = "anthropic/maxResultSizeChars";

/// Converts a function to a tool, with the schema of [`structured_outcome`] if results have that form; `None` if the schema
/// of its arguments is not an object.
pub(super) fn function_tool(function: &SkillFunction, is_structured: bool) -> Option<Tool> {
    let schema = function.parameters.as_object()?.clone();
    let annotations = tool_annotations(&function.effects);
    let title = function.title.clone().unwrap_or_else(|| tool_title(&function.name));
    let tool = Tool::new(function.name.clone(), function.description.clone(), schema);
    let mut meta = MetaObject::default();
    meta.0
        .insert(RESULT_SIZE.to_owned(), json!(limits::TOOL_RESULT_BYTES_MAX));
    let tool = tool.with_title(title).with_annotations(annotations).with_meta(meta);
    Some(if is_structured {
        declare_output(tool, output_schema(function.output.as_ref()))
    } else {
        tool
    })
}

/// Adds the schema of a tool's results in structured form.
pub(super) fn declare_output(tool: Tool, schema: Value) -> Tool {
    match schema {
        Value::Object(schema) => tool.with_raw_output_schema(Arc::new(schema)),
        _ => tool,
    }
}

/// The schema of [`structured_outcome`], with the skill's schema of its details.
fn output_schema(details: Option<&Value>) -> Value {
    // A reference starts at the root of its schema, so it would lead elsewhere as a part of another schema.
    let details = details.filter(|details| !details.to_string().contains("\"$ref\""));
    let details = details.cloned().unwrap_or_else(|| json!({"type": "object"}));
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "truncated": {"type": "boolean"},
            "cursor": {"type": ["string", "null"]},
            "files_modified": {"type": "array", "items": {"type": "string"}},
            "citations": {"type": "array", "items": {"type": "object"}},
            "details": {"anyOf": [details, {"type": "null"}]},
        },
        "required": ["text", "truncated", "cursor", "files_modified", "citations", "details"],
    })
}

/// Derives a tool's annotations from its effects.
fn tool_annotations(effects: &[Effect]) -> ToolAnnotations {
    let is_read_only = !effects.iter().any(|effect| effect.changes_something());
    ToolAnnotations::new()
        .read_only(is_read_only)
        // A run sees a copy of the repository, and its writes are dropped with the sandbox.
        .destructive(
            effects
                .iter()
                .any(|effect| effect.changes_something() && *effect != Effect::RunProcess),
        )
        .open_world(effects.iter().any(|effect| effect.reaches_network()))
}

/// Formats a name for people: `read_file` becomes `Read file`.
fn tool_title(name: &str) -> String {
    let mut words = name.replace(['_', '-'], " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// Converts the end of a call. Text and structured form are each complete, because clients give a model either of
/// them.
pub(super) fn call_result(answer: CallAnswer) -> CallToolResult {
    let structured = match &answer.result {
        Ok(outcome) => structured_outcome(&answer.text, outcome),
        Err(error) => structured_error(&answer.text, error),
    };
    let mut result = match &answer.result {
        Ok(outcome) => {
            let mut content = vec![ContentBlock::text(answer.text)];
            content.extend(outcome.media.iter().map(media_block));
            CallToolResult::success(content)
        }
        Err(_) => CallToolResult::error(vec![ContentBlock::text(answer.text)]),
    };
    result.structured_content = Some(structured);
    result.meta = answer.receipt.and_then(|receipt| {
        let mut meta = JsonObject::new();
        meta.insert("receipt".to_owned(), serde_json::to_value(receipt).ok()?);
        Some(MetaObject(meta))
    });
    result
}

fn media_block(media: &Media) -> ContentBlock {
    if media.is_diagram() {
        ContentBlock::text(format!("```mermaid\n{}\n```", media.data))
    } else {
        ContentBlock::image(media.data.clone(), media.media_type.clone())
    }
}

/// The answer for programs.
fn structured_outcome(text: &str, outcome: &CallOutcome) -> Value {
    json!({
        "text": text,
        "truncated": outcome.truncated,
        "cursor": outcome.cursor,
        "files_modified": outcome.files_modified,
        "citations": outcome.citations,
        "details": outcome.details,
    })
}

/// A failure with its code, and the position of a mistake in the arguments.
fn structured_error(text: &str, error: &CallError) -> Value {
    let mut fields = json!({"text": text, "code": error.verdict(), "message": error.to_string(), "hint": null});
    match error {
        CallError::Failure { hint, .. } => fields["hint"] = json!(hint),
        CallError::Arguments {
            pointer, expected, got, ..
        } => {
            fields["pointer"] = json!(pointer);
            fields["expected"] = json!(expected);
            fields["got"] = json!(got);
        }
        _ => {}
    }
    fields
}

/// A refusal before anything ran.
pub(super) fn problem_result(problem: &Problem) -> CallToolResult {
    let text = match &problem.hint {
        Some(hint) => format!("{}\n{hint}", problem.message),
        None => problem.message.clone(),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(&text)]);
    result.structured_content = Some(json!({
        "text": text,
        "code": problem.kind,
        "message": problem.message,
        "hint": problem.hint,
    }));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, effects: &[&str]) -> SkillFunction {
        SkillFunction {
            name: name.to_owned(),
            title: None,
            description: "Does it.".to_owned(),
            effects: effects
                .iter()
                .map(|effect| effect.parse().expect("it is one"))
                .collect(),
            parameters: json!({"type": "object"}),
            output: None,
            tags: Vec::new(),
            operations: None,
        }
    }

    #[test]
    fn annotations_follow_from_effects() {
        let of = |effects: &[&str]| {
            let tool = function_tool(&function("read_file", effects), false).expect("it has a schema");
            let hints = tool.annotations.expect("each has some");
            [hints.read_only_hint, hints.destructive_hint, hints.open_world_hint].map(|hint| hint == Some(true))
        };
        assert_eq!(of(&[]), [true, false, false]);
        assert_eq!(of(&["read-repository", "read-git"]), [true, false, false]);
        assert_eq!(of(&["read-repository", "write-repository"]), [false, true, false]);
        assert_eq!(of(&["commit-git"]), [false, true, false]);
        assert_eq!(of(&["run-process"]), [false, false, false]);
        assert_eq!(of(&["run-process", "write-repository"]), [false, true, false]);
        assert_eq!(of(&["install"]), [false, true, true]);
    }

    #[test]
    fn a_title_is_for_people() {
        assert_eq!(tool_title("read_file"), "Read file");
        assert_eq!(tool_title("a-b"), "A b");
        assert_eq!((tool_title(""), tool_title("élan")), (String::new(), "élan".to_owned()));
    }

    #[test]
    fn a_function_without_a_schema_is_no_tool() {
        let mut function = function("x", &[]);
        function.parameters = Value::Null;
        assert!(function_tool(&function, false).is_none());
    }

    #[test]
    fn wrong_arguments_say_where_and_what() {
        let error = CallError::Arguments {
            skill: "read_file".into(),
            pointer: "/path".into(),
            expected: "a string".into(),
            got: "7".into(),
            is_surplus: false,
        };
        let answer = CallAnswer {
            text: error.to_string(),
            result: Err(error),
            receipt: None,
        };
        let result = call_result(answer);
        assert_eq!((result.is_error, &result.meta), (Some(true), &None));
        insta::assert_snapshot!(result.structured_content.expect("it is structured"), @r#"{"text":"Invalid arguments for `read_file` at `/path`: expected a string, got 7.","code":"invalid-arguments","message":"Invalid arguments for `read_file` at `/path`: expected a string, got 7.","hint":null,"pointer":"/path","expected":"a string","got":"7"}"#);
    }
}
