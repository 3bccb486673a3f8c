//! Parses tool calls that a model printed as text, in the forms of the common chat templates.
//!
//! The whole text must have the form: one word beside the calls makes it an answer.

use serde_json::{Map, Value};

use crate::ToolSpec;

/// Beginnings of printed calls. Each begins with `<` or `[`.
pub(super) const CALL_MARKS: [&str; 15] = [
    "<tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    // Qwen3-Coder, where the wrapper is missing.
    "<function=",
    // Harmony.
    "<|channel|>",
    "<|start|>assistant",
    // DeepSeek, and its newer DSML.
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜DSML｜",
    // Kimi.
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    // Gemma.
    "<start_function_call>",
    "<|tool_call>",
    // MiniMax, and the form that DSML comes from.
    "<minimax:tool_call>",
    "<function_calls>",
];

/// Marks that are not followed by JSON, or not directly.
pub(super) fn is_tagged(mark: &str) -> bool {
    !matches!(mark, "<tool_call>" | "<|python_tag|>" | "[TOOL_CALLS]")
}

/// The beginning of a call of Qwen3-Coder, within the wrapper of another form.
pub(super) const QWEN_FUNCTION: &str = "<function=";

const CALL_ENDS: [&str; 6] = [
    "</tool_call>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
];

/// A call: its name, and its arguments as the text of a JSON object.
type PrintedCall = (String, String);

/// Parses the calls of a text in one form; empty if the text has another form.
type FormReader = fn(&str, &[ToolSpec]) -> Option<Vec<PrintedCall>>;

/// The calls that a text consists of. Empty if there is anything else, even one word or one unknown name.
pub(super) fn printed_calls(text: &str, tools: &[ToolSpec]) -> Vec<PrintedCall> {
    let text = CALL_ENDS[1..]
        .iter()
        .fold(text.trim().to_owned(), |text, end| text.replace(end, " "));
    let forms: [FormReader; 7] = [
        json_calls,
        qwen_calls,
        harmony_calls,
        invoke_calls,
        deepseek_calls,
        kimi_calls,
        gemma_calls,
    ];
    let calls = forms
        .iter()
        .find_map(|form| form(text.trim(), tools).filter(|calls| !calls.is_empty()));
    let calls = calls.unwrap_or_default();
    let is_known = |(name, _): &PrintedCall| tools.iter().any(|tool| tool.name == *name);
    if calls.iter().all(is_known) { calls } else { Vec::new() }
}

/// JSON objects with a name and arguments, fenced, marked or bare.
fn json_calls(text: &str, _tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let mut bare = text.to_owned();
    if let Some((_, body)) = bare.strip_prefix("```").and_then(|fenced| fenced.split_once('\n')) {
        bare = body.trim_end().trim_end_matches("```").to_owned();
    }
    for mark in CALL_MARKS[..3].iter().chain(&CALL_ENDS) {
        bare = bare.replace(mark, " ");
    }
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&bare).into_iter().collect();
    let flat = values.ok()?.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        value => vec![value],
    });
    flat.map(|value| json_call(&value)).collect()
}

fn json_call(value: &Value) -> Option<PrintedCall> {
    let fields = match value.get("function") {
        Some(function @ Value::Object(_)) => function,
        _ => value,
    };
    let name = ["name", "function", "tool"]
        .iter()
        .find_map(|key| fields.get(*key)?.as_str())?;
    let arguments = ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|key| fields.get(*key))?;
    let arguments = match arguments {
        Value::Object(_) => arguments.to_string(),
        Value::String(text) => object_text(text)?.to_owned(),
        _ => return None,
    };
    Some((name.to_owned(), arguments))
}

/// A text that is a JSON object.
fn object_text(text: &str) -> Option<&str> {
    let text = text.trim();
    matches!(serde_json::from_str(text), Ok(Value::Object(_))).then_some(text)
}

/// Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`.
fn qwen_calls(text: &str, tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let text = text.replace("<tool_call>", " ").replace("</tool_call>", " ");
    split_elements(&text, QWEN_FUNCTION, "</function>")?
        .into_iter()
        .map(|element| {
            let (name, body) = element.split_once('>')?;
            let parameters = split_elements(body, "<parameter=", "</parameter>")?;
            let pairs = parameters.into_iter().map(|parameter| {
                let (key, value) = parameter.split_once('>')?;
                Some((
                    key.trim().to_owned(),
                    typed_value(tools, name.trim(), key.trim(), without_line_ends(value)),
                ))
            });
            let arguments: Map<String, Value> = pairs.collect::<Option<_>>()?;
            Some((name.trim().to_owned(), Value::Object(arguments).to_string()))
        })
        .collect()
}

/// DeepSeek's DSML and MiniMax: `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` in a wrapper.
fn invoke_calls(text: &str, tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let mut text = text.replace("｜DSML｜", "").replace("minimax:", "");
    for wrapper in ["function_calls", "tool_calls", "tool_call"] {
        text = text
            .replace(&format!("<{wrapper}>"), " ")
            .replace(&format!("</{wrapper}>"), " ");
    }
    split_elements(&text, "<invoke name=\"", "</invoke>")?
        .into_iter()
        .map(|element| {
            let (name, body) = element.split_once("\">")?;
            let parameters = split_elements(body, "<parameter name=\"", "</parameter>")?;
            let pairs = parameters.into_iter().map(|parameter| {
                let (head, value) = parameter.split_once('>')?;
                let (key, attributes) = head.split_once('"')?;
                let value = if attributes.contains("string=\"true\"") {
                    value.into()
                } else {
                    typed_value(tools, name, key, value)
                };
                Some((key.to_owned(), value))
            });
            let arguments: Map<String, Value> = pairs.collect::<Option<_>>()?;
            Some((name.to_owned(), Value::Object(arguments).to_string()))
        })
        .collect()
}

/// Harmony: `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>`, perhaps after thinking.
fn harmony_calls(text: &str, _tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let begins = text.starts_with("<|channel|>") || text.starts_with("<|start|>");
    let mut calls = Vec::new();
    for segment in text
        .split("<|start|>")
        .filter(|segment| begins && !segment.trim().is_empty())
    {
        let (head, body) = segment.split_once("<|message|>")?;
        let body = ["<|call|>", "<|end|>"]
            .iter()
            .fold(body.trim(), |body, end| body.trim_end_matches(end).trim_end());
        match head.split_once("to=functions.") {
            Some((_, rest)) => {
                let name = rest.split(|c: char| c.is_whitespace() || c == '<').next()?;
                calls.push((name.to_owned(), object_text(body)?.to_owned()));
            }
            None if head.contains("analysis") => {}
            None => return None,
        }
    }
    Some(calls)
}

/// DeepSeek: `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, with a type and a fence in older models.
fn deepseek_calls(text: &str, _tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let text = text
        .replace("<｜tool▁calls▁begin｜>", " ")
        .replace("<｜tool▁calls▁end｜>", " ");
    split_elements(&text, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")?
        .into_iter()
        .map(|element| {
            let (left, right) = element.split_once("<｜tool▁sep｜>")?;
            if left.trim() != "function" {
                return Some((left.trim().to_owned(), object_text(right)?.to_owned()));
            }
            let (name, fenced) = right.split_once("```json")?;
            let arguments = fenced.trim_end().trim_end_matches("```");
            Some((name.trim().to_owned(), object_text(arguments)?.to_owned()))
        })
        .collect()
}

/// Kimi: `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>` in a section.
fn kimi_calls(text: &str, _tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let text = text
        .replace("<|tool_calls_section_begin|>", " ")
        .replace("<|tool_calls_section_end|>", " ");
    split_elements(&text, "<|tool_call_begin|>", "<|tool_call_end|>")?
        .into_iter()
        .map(|element| {
            let (head, arguments) = element.split_once("<|tool_call_argument_begin|>")?;
            let name = head.trim().trim_start_matches("functions.");
            let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
            Some((name.to_owned(), object_text(arguments)?.to_owned()))
        })
        .collect()
}

/// Gemma: `<start_function_call>call:NAME{KEY:<escape>TEXT<escape>}<end_function_call>`, and its newer marks.
fn gemma_calls(text: &str, _tools: &[ToolSpec]) -> Option<Vec<PrintedCall>> {
    let text = text
        .replace("<|tool_call>", "<start_function_call>")
        .replace("<tool_call|>", "<end_function_call>")
        .replace("<|\"|>", "<escape>");
    split_elements(&text, "<start_function_call>", "<end_function_call>")?
        .into_iter()
        .map(|element| {
            let call = element.trim().strip_prefix("call:")?;
            let brace = call.find('{')?;
            Some((call[..brace].trim().to_owned(), gemma_object(&call[brace..])?))
        })
        .collect()
}

/// Turns bare keys and escaped texts into JSON.
fn gemma_object(text: &str) -> Option<String> {
    let mut json = String::new();
    for (at, piece) in text.split("<escape>").enumerate() {
        if at % 2 == 1 {
            json.push_str(&Value::from(piece).to_string());
            continue;
        }
        let mut word = String::new();
        for c in piece.chars() {
            match c {
                ':' => json.push_str(&format!("{}:", Value::from(std::mem::take(&mut word).trim()))),
                '{' | '}' | '[' | ']' | ',' => {
                    json.push_str(&std::mem::take(&mut word));
                    json.push(c);
                }
                c => word.push(c),
            }
        }
        json.push_str(&word);
    }
    object_text(&json).map(str::to_owned)
}

/// The contents of elements that follow each other, with nothing but white space between them.
fn split_elements<'t>(text: &'t str, begin: &str, end: &str) -> Option<Vec<&'t str>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (element, after) = rest.strip_prefix(begin)?.split_once(end)?;
        found.push(element);
        rest = after.trim_start();
    }
    Some(found)
}

/// A value whose type only the tool's schema gives: text stays text, and anything else is parsed as JSON if it is valid
/// JSON.
fn typed_value(tools: &[ToolSpec], tool: &str, key: &str, value: &str) -> Value {
    let spec = tools.iter().find(|spec| spec.name == tool);
    let kind = spec.map(|spec| &spec.parameters["properties"][key]["type"]);
    if kind.is_some_and(|kind| kind == "string") {
        return value.into();
    }
    serde_json::from_str(value.trim()).unwrap_or_else(|_| value.into())
}

/// The template puts a line feed before and after each value.
fn without_line_ends(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// True if `text` occurs in `context`. Only letters are compared, so that line numbers, spacing and quoting do not
/// matter.
pub(super) fn occurs_in<'a>(text: &str, context: impl Iterator<Item = &'a str>) -> bool {
    let letters = |text: &str| -> String { text.chars().filter(|c| c.is_alphabetic()).collect() };
    let (needle, haystack) = (letters(text), context.map(letters).collect::<Vec<_>>());
    haystack.iter().any(|letters| letters.contains(&needle))
}

#[cfg(test)]
/// One call in each form, as the templates of these models print it.
pub(super) const FORMS: [(&str, &str); 10] = [
    (
        "Qwen3-Coder",
        "<tool_call>\n<function=read_file>\n<parameter=path>\na.py\n</parameter>\n<parameter=lines>\n[1, 2]\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "Qwen3-Coder without the wrapper",
        "<function=read_file>\n<parameter=path>\na.py\n</parameter>\n<parameter=lines>\n[1, 2]\n</parameter>\n</function>",
    ),
    (
        "harmony",
        "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\": \"a.py\", \"lines\": [1, 2]}<|call|>",
    ),
    (
        "harmony after thinking",
        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.read_file<|message|>{\"path\": \"a.py\", \"lines\": [1, 2]}",
    ),
    (
        "DSML",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a.py</｜DSML｜parameter>\n<｜DSML｜parameter name=\"lines\" string=\"false\">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "DeepSeek V3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"a.py\", \"lines\": [1, 2]}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    ),
    (
        "DeepSeek R1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"a.py\", \"lines\": [1, 2]}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "Kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"a.py\", \"lines\": [1, 2]}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "Gemma",
        "<start_function_call>call:read_file{path:<escape>a.py<escape>,lines:[1,2]}<end_function_call>",
    ),
    (
        "MiniMax",
        "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a.py</parameter>\n<parameter name=\"lines\">[1, 2]</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALL: &str = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;

    fn tools() -> [ToolSpec; 1] {
        let properties = json!({"path": {"type": "string"}, "lines": {"type": "array"}, "deep": {"type": "boolean"}});
        [ToolSpec {
            name: "read_file".into(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties}),
        }]
    }

    fn read(text: &str) -> Vec<(String, Value)> {
        let calls = printed_calls(text, &tools()).into_iter();
        calls
            .map(|(name, arguments)| (name, serde_json::from_str(&arguments).expect("arguments are JSON")))
            .collect()
    }

    #[test]
    fn chat_16_printed_calls_are_read_whole_or_not_at_all() {
        let expected = [("read_file".to_owned(), json!({"path": "a"}))];
        for text in [
            CALL.to_owned(),
            format!("<tool_call>{CALL}</tool_call>"),
            format!("```json\n{CALL}\n```"),
            format!("<|python_tag|>{CALL}<|eom_id|>"),
            format!("[{CALL}]"),
            r#"{"type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}"#.to_owned(),
            r#"{"name":"read_file","parameters":{"path":"a"}}"#.to_owned(),
        ] {
            assert_eq!(read(&text), expected, "{text}");
        }
        assert_eq!(read(&format!("<tool_call>{CALL}</tool_call>{CALL}")).len(), 2);
        for text in [
            format!("{CALL} and more"),
            CALL.replace("read_file", "rm"),
            r#"{"name": "read_file"}"#.to_owned(),
            r#"{"name": "read_file", "arguments": [1]}"#.to_owned(),
            r#"{"name": "read_file", "arguments": {"path": "#.to_owned(),
            String::new(),
        ] {
            assert_eq!(read(&text), [], "{text}");
        }
    }

    #[test]
    fn chat_16_the_forms_of_current_models_are_read() {
        let expected = [("read_file".to_owned(), json!({"path": "a.py", "lines": [1, 2]}))];
        for (form, text) in FORMS {
            assert_eq!(read(text), expected, "{form}");
            assert_eq!(read(&format!("{text}\nand more")), [], "{form} with more");
            assert_eq!(read(&text.replace("read_file", "rm")), [], "{form} of an unknown tool");
            // Cut off anywhere, it is a whole call or none.
            for (cut, _) in text.char_indices() {
                let calls = read(&text[..cut]);
                assert!(calls.is_empty() || calls == expected, "{form} cut at {cut}: {calls:?}");
            }
        }
        assert_eq!(read("<|channel|>final<|message|>It reads files."), []);
    }

    #[test]
    fn chat_16_values_have_the_types_of_the_schema() {
        let text = "<function=read_file><parameter=path>\n7\n</parameter><parameter=deep>true</parameter></function>";
        assert_eq!(
            read(text),
            [("read_file".to_owned(), json!({"path": "7", "deep": true}))]
        );
        let text = "<|tool_call>call:read_file{path:<|\"|>a, {b}: \"c\"<|\"|>,deep:true}<tool_call|>";
        let expected = json!({"path": "a, {b}: \"c\"", "deep": true});
        assert_eq!(read(text), [("read_file".to_owned(), expected)]);
    }

    #[test]
    fn chat_16_a_quotation_is_found_through_line_numbers() {
        let context =
            "   12\t{\n   13\t  \"name\": \"read_file\",\n   14\t  \"arguments\": {\"path\": \"a\"}\n   15\t}";
        assert!(occurs_in(CALL, [context].into_iter()));
        assert!(!occurs_in(CALL, ["the tool read_file takes a path"].into_iter()));
    }
}
