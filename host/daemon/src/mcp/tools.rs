//! Skills as tools of the protocol, and the answers of calls as its results. Pure functions.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::api::{Effect, Media, Problem, SkillFunction};
use crate::session::connection::CallAnswer;
use crate::skill::{CallError, CallOutcome};

/// A function as a tool; nothing where its schema is none of an object.
pub(super) fn tool(function: &SkillFunction) -> Option<Tool> {
    let schema = function.parameters.as_object()?.clone();
    let annotations = annotations(&function.effects);
    let title = function.title.clone().unwrap_or_else(|| title(&function.name));
    let tool = Tool::new(function.name.clone(), function.description.clone(), schema);
    let tool = tool.with_title(title).with_annotations(annotations);
    Some(match &function.output {
        Some(output) => tool.with_raw_output_schema(Arc::new(output_schema(output))),
        None => tool,
    })
}

/// The schema of [`structured`], with the skill's own schema of its details.
fn output_schema(details: &Value) -> JsonObject {
    // A reference leads from the root of the schema that it stands in, and would lead astray in a part of another one.
    let has_references = details.to_string().contains("\"$ref\"");
    let details = if has_references {
        json!({"type": "object"})
    } else {
        details.clone()
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "truncated": {"type": "boolean"},
            "cursor": {"type": ["string", "null"]},
            "files_modified": {"type": "array", "items": {"type": "string"}},
            "citations": {"type": "array", "items": {"type": "object"}},
            "details": {"anyOf": [details, {"type": "null"}]},
        },
        "required": ["truncated", "cursor", "files_modified", "citations", "details"],
    });
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

/// Derives a tool's annotations from its effects.
fn annotations(effects: &[Effect]) -> ToolAnnotations {
    let is_read_only = !effects.iter().any(|effect| effect.changes_something());
    ToolAnnotations::new()
        .read_only(is_read_only)
        .destructive(!is_read_only)
        .open_world(effects.iter().any(|effect| effect.reaches_network()))
}

/// `read_file` as people write it.
fn title(name: &str) -> String {
    let mut words = name.replace(['_', '-'], " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// The end of a call.
pub(super) fn result(answer: CallAnswer) -> CallToolResult {
    let mut result = match &answer.result {
        Ok(outcome) => {
            let mut content = vec![ContentBlock::text(answer.text)];
            content.extend(outcome.media.iter().map(media_block));
            let mut result = CallToolResult::success(content);
            result.structured_content = Some(structured(outcome));
            result
        }
        Err(error) => {
            let mut result = CallToolResult::error(vec![ContentBlock::text(answer.text)]);
            result.structured_content = Some(explained(error));
            result
        }
    };
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

/// The answer for programs. The text is in the content and not repeated here.
fn structured(outcome: &CallOutcome) -> Value {
    json!({
        "truncated": outcome.truncated,
        "cursor": outcome.cursor,
        "files_modified": outcome.files_modified,
        "citations": outcome.citations,
        "details": outcome.details,
    })
}

/// A failure with its code, and for arguments with their place.
fn explained(error: &CallError) -> Value {
    let mut fields = json!({"code": error.verdict(), "message": error.to_string(), "hint": null});
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
pub(super) fn problem(problem: &Problem) -> CallToolResult {
    let text = match &problem.hint {
        Some(hint) => format!("{}\n{hint}", problem.message),
        None => problem.message.clone(),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({
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
            let tool = tool(&function("read_file", effects)).expect("it has a schema");
            let hints = tool.annotations.expect("each has some");
            [hints.read_only_hint, hints.destructive_hint, hints.open_world_hint].map(|hint| hint == Some(true))
        };
        assert_eq!(of(&[]), [true, false, false]);
        assert_eq!(of(&["read-repository", "read-git"]), [true, false, false]);
        assert_eq!(of(&["read-repository", "write-repository"]), [false, true, false]);
        assert_eq!(of(&["commit-git"]), [false, true, false]);
        assert_eq!(of(&["run-process"]), [false, true, false]);
        assert_eq!(of(&["install"]), [false, true, true]);
    }

    #[test]
    fn a_title_is_for_people() {
        assert_eq!(title("read_file"), "Read file");
        assert_eq!(title("a-b"), "A b");
        assert_eq!((title(""), title("élan")), (String::new(), "élan".to_owned()));
    }

    #[test]
    fn a_function_without_a_schema_is_no_tool() {
        let mut function = function("x", &[]);
        function.parameters = Value::Null;
        assert!(tool(&function).is_none());
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
        let result = result(answer);
        assert_eq!((result.is_error, &result.meta), (Some(true), &None));
        insta::assert_snapshot!(result.structured_content.expect("it is structured"), @r#"{"code":"invalid-arguments","message":"Invalid arguments for `read_file` at `/path`: expected a string, got 7.","hint":null,"pointer":"/path","expected":"a string","got":"7"}"#);
    }
}
