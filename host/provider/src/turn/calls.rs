//! The loop's own checks of a call: objections before it runs, bounds on its result, repetitions.
//!
//! Schemas are not checked here; the runner of the tool does that.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::Tools;
use crate::limits;
use crate::{TextOrigin, ToolCall, ToolResult, ToolSpec};
use tool_core::text::nearest_name;

/// The call that runs for a call of the model. `objection` says why it cannot run, in words for the model.
pub(super) struct MeantCall<'c> {
    pub(super) call: Cow<'c, ToolCall>,
    pub(super) objection: Option<String>,
}

impl<'c> MeantCall<'c> {
    /// Resolves a call. `at` is its place in the round, because the number of calls in a round is bounded.
    pub(super) fn resolve_call(call: &'c ToolCall, at: usize, specs: &[ToolSpec], tools: &dyn Tools) -> Self {
        let (call, objection) = match tools.resolve(call) {
            Ok(Some(meant)) => (Cow::Owned(meant), None),
            Ok(None) if specs.iter().any(|spec| spec.name == call.name) => (Cow::Borrowed(call), None),
            Ok(None) => (Cow::Borrowed(call), Some(describe_unknown(&call.name, specs))),
            Err(reason) => (Cow::Borrowed(call), Some(reason)),
        };
        let max = limits::TOOL_CALLS_PER_ROUND_MAX;
        let surplus =
            || format!("Not run: at most {max} calls may be made at once. Make the rest in the next message.");
        let objection = (at >= max).then(surplus).or(objection);
        Self {
            objection: objection.or_else(|| object_to_arguments(&call)),
            call,
        }
    }
}

fn object_to_arguments(call: &ToolCall) -> Option<String> {
    let got = match serde_json::from_str::<Value>(&call.arguments) {
        _ if call.arguments.trim().is_empty() => return None,
        Ok(Value::Object(_)) => return None,
        Ok(value) => name_type(&value).to_owned(),
        Err(error) => format!("text that is not JSON ({error})"),
    };
    let name = &call.name;
    Some(format!(
        "Invalid arguments for `{name}`: at ``: expected a JSON object, got {got}."
    ))
}

/// Takes out the namespace that some models write before a tool's name: `functions.read_file`. Also renames the call in the
/// part of the answer that goes back to the server, because APIs refuse a name with a dot.
pub(super) fn drop_namespace(call: &mut ToolCall, opaque: &mut Value, specs: &[ToolSpec]) {
    let is_known = |name: &str| specs.iter().any(|spec| spec.name == name);
    if let Some(name) = call.name.strip_prefix("functions.")
        && is_known(name)
        && !is_known(&call.name)
    {
        rename_calls(opaque, &call.name, name);
        call.name = name.to_owned();
    }
}

fn rename_calls(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                if key == "name" && *field == old {
                    *field = new.into();
                } else {
                    rename_calls(field, old, new);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_calls(item, old, new)),
        _ => {}
    }
}

/// True for arguments that break off, or are no JSON for another reason.
pub(super) fn is_unreadable(call: &ToolCall) -> bool {
    !call.arguments.trim().is_empty() && serde_json::from_str::<Value>(&call.arguments).is_err()
}

fn name_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn describe_unknown(name: &str, specs: &[ToolSpec]) -> String {
    let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    let suggestion = match nearest_name(&name.to_lowercase(), names.iter().map(String::as_str)) {
        Some(nearest) => format!(" Did you mean `{nearest}`?"),
        None => String::new(),
    };
    format!(
        "There is no tool named `{name}`.{suggestion} The tools are {}.",
        quote_names(&names)
    )
}

/// Names for a sentence.
pub(super) fn quote_names(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The answer to a call that did not run.
pub(super) fn refuse_call(call: &ToolCall, reason: &str) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: reason.to_owned(),
        is_error: true,
        origin: TextOrigin::Service,
    }
}

/// A result that answers this call and no other, of bounded length.
pub(super) fn bound_result(call: &ToolCall, result: ToolResult, bytes_max: usize) -> ToolResult {
    let text = bounded_text(result.text, bytes_max);
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text,
        is_error: result.is_error,
        origin: result.origin,
    }
}

/// Cuts the text of a result to the length that a model reads.
pub fn bounded_text(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let total = text.len();
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(&format!(
            "\n[cut here: the result has {total} bytes; ask for less at once]"
        ));
    }
    text
}

/// Counts calls that were made before with the same arguments and had the same result, whichever way they were written.
/// Gives the call that has now been made too often, if one has. Equal calls of one round count once: the model had none
/// of their answers yet.
pub(super) fn count_repeats<'c>(
    seen: &mut HashMap<u64, usize>,
    calls: &'c [ToolCall],
    results: &[ToolResult],
    tools: &dyn Tools,
) -> Option<&'c ToolCall> {
    let mut too_often = None;
    let mut in_round = HashSet::new();
    for (call, result) in calls.iter().zip(results) {
        let resolved = tools.resolve(call).ok().flatten();
        let meant = resolved.as_ref().unwrap_or(call);
        let mut hasher = DefaultHasher::new();
        // A call without arguments may leave them out.
        let arguments = match serde_json::from_str(&meant.arguments) {
            Ok(Value::Null) | Err(_) => Value::Object(serde_json::Map::new()),
            Ok(arguments) => arguments,
        };
        (&meant.name, arguments, &result.text).hash(&mut hasher);
        let digest = hasher.finish();
        if !in_round.insert(digest) {
            continue;
        }
        let count = seen.entry(digest).or_default();
        *count += 1;
        if *count >= limits::TOOL_CALL_REPEATS_MAX {
            too_often = too_often.or(Some(call));
        }
    }
    too_often
}

/// The names of the skills that these calls run, each once.
pub(super) fn skill_names(calls: &[ToolCall], tools: &dyn Tools) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for call in calls {
        let meant = tools.resolve(call).ok().flatten();
        let name = meant.map_or_else(|| call.name.clone(), |meant| meant.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use serde_json::json;

    use super::*;

    /// One tool, and `indirect`, whose arguments are those of that tool, as text.
    struct Indirect;

    impl Tools for Indirect {
        fn specs(&self) -> Vec<ToolSpec> {
            Vec::new()
        }

        fn resolve(&self, call: &ToolCall) -> Result<Option<ToolCall>, String> {
            if call.name != "indirect" {
                return Ok(None);
            }
            Ok(Some(ToolCall {
                id: call.id.clone(),
                name: "read_file".into(),
                arguments: serde_json::from_str(&call.arguments).map_err(|error| error.to_string())?,
            }))
        }

        fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>> {
            Box::pin(async move { refuse_call(call, "not here") })
        }
    }

    fn call(name: &str) -> ToolCall {
        ToolCall {
            id: "c".into(),
            name: name.into(),
            arguments: json!({"path": "a.py"}).to_string(),
        }
    }

    #[test]
    fn equal_calls_of_one_round_are_no_loop_and_those_of_several_are() {
        let calls = vec![call("read_file"); 2 * limits::TOOL_CALL_REPEATS_MAX];
        let results: Vec<ToolResult> = calls.iter().map(|call| refuse_call(call, "the same")).collect();
        let mut seen = HashMap::new();
        for round in 1..limits::TOOL_CALL_REPEATS_MAX {
            assert_eq!(
                count_repeats(&mut seen, &calls, &results, &Indirect),
                None,
                "round {round}"
            );
        }
        assert!(count_repeats(&mut seen, &calls, &results, &Indirect).is_some());
    }

    #[test]
    fn a_call_that_is_written_in_another_way_is_the_same_call() {
        let mut seen = HashMap::new();
        let mut repeats = 0;
        for round in 0..limits::TOOL_CALL_REPEATS_MAX {
            let spaces = " ".repeat(round);
            let (name, arguments) = match round % 3 {
                0 => ("read_file", format!(r#"{{"path":"a.py",{spaces}"lines":3}}"#)),
                1 => ("read_file", format!(r#"{{"lines":3,{spaces}"path":"a.py"}}"#)),
                _ => (
                    "indirect",
                    json!(format!(r#"{{{spaces}"path":"a.py","lines":3}}"#)).to_string(),
                ),
            };
            let call = ToolCall {
                name: name.into(),
                arguments,
                ..call("read_file")
            };
            let results = [refuse_call(&call, "the same")];
            repeats += usize::from(count_repeats(&mut seen, &[call], &results, &Indirect).is_some());
        }
        assert_eq!(repeats, 1, "it was made too often with the last round");
    }

    #[test]
    fn a_namespace_before_a_known_name_is_taken_out() {
        let specs = [ToolSpec {
            name: "read_file".into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        }];
        for (given, expected) in [
            ("functions.read_file", "read_file"),
            ("functions.other", "functions.other"),
            ("read_file", "read_file"),
        ] {
            let mut call = call(given);
            let mut opaque = json!([{"type": "tool_use", "name": given, "input": {"path": "a"}}]);
            drop_namespace(&mut call, &mut opaque, &specs);
            assert_eq!((call.name.as_str(), &opaque[0]["name"]), (expected, &json!(expected)));
        }
    }
}
