//! Checks of the generateContent API.

use serde_json::Value;

use super::super::ScriptedCall;
use super::super::dialect::SIGNATURE;
use super::{
    CheckResult, check_list, check_name, check_nonblank, check_text, check_unique, number_entries, optional_list,
    refuse_if,
};

const FIELDS: &str = "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent model";

/// Fields that a schema of this API may hold; everything else of JSON Schema is an unknown name.
const SCHEMA_FIELDS: &str = "type format title description nullable enum maxItems minItems properties required minProperties \
    maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum \
    maximum $defs $ref";

const DATA_FIELDS: &str = "text functionCall functionResponse inlineData fileData executableCode codeExecutionResult";

/// The first thing that is wrong with a request. `signed` are the calls that were sent with a signature.
pub(in super::super) fn check_request(body: &Value, signed: &[(&ScriptedCall, String)]) -> CheckResult {
    check_known(body, "request", FIELDS)?;
    let system = find_field(body, "systemInstruction");
    if !system.is_null() {
        check_known(system, "system_instruction", "parts role")?;
        check_parts(&system["parts"], "system_instruction")?;
    }
    for (place, tool) in number_entries(optional_list(&body["tools"], "tools")?, "tools") {
        check_known(
            tool,
            &place,
            "functionDeclarations googleSearch codeExecution urlContext",
        )?;
        let declarations = optional_list(
            find_field(tool, "functionDeclarations"),
            &format!("{place}.function_declarations"),
        )?;
        number_entries(declarations, &format!("{place}.function_declarations"))
            .try_for_each(|(place, declaration)| check_function(declaration, &place))?;
        let names = declarations.iter().filter_map(|function| function["name"].as_str());
        check_unique(names, &format!("{place}.function_declarations: the names"))?;
    }
    let contents = check_list(&body["contents"], "contents")?;
    // If a part of the conversation is in a cache, the rest need not be complete.
    if find_field(body, "cachedContent").is_null() {
        check_conversation(contents, signed)
    } else {
        Ok(())
    }
}

/// Fields may be written in camel case or snake case.
fn find_field<'v>(value: &'v Value, camel: &str) -> &'v Value {
    value
        .get(camel)
        .or_else(|| value.get(to_snake_case(camel)))
        .unwrap_or(&Value::Null)
}

fn to_snake_case(camel: &str) -> String {
    camel.chars().fold(String::new(), |mut name, letter| {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        name
    })
}

fn check_known(value: &Value, place: &str, fields: &str) -> CheckResult {
    let object = value
        .as_object()
        .ok_or_else(|| format!("Invalid JSON payload received. `{place}` must be an object"))?;
    let is_known = |key: &&String| {
        fields
            .split(' ')
            .any(|field| key.as_str() == field || **key == to_snake_case(field))
    };
    match object.keys().find(|key| !is_known(key)) {
        Some(unknown) => Err(format!(
            "Invalid JSON payload received. Unknown name \"{unknown}\" at '{place}': Cannot find field."
        )),
        None => Ok(()),
    }
}

fn check_function(function: &Value, place: &str) -> CheckResult {
    check_known(
        function,
        place,
        "name description parameters parametersJsonSchema behavior response responseJsonSchema",
    )?;
    check_name(&function["name"], &format!("{place}.name"), 64)?;
    let (parameters, json_schema) = (&function["parameters"], find_field(function, "parametersJsonSchema"));
    match (parameters.is_null(), json_schema.is_null()) {
        (false, false) => Err(format!(
            "{place}: parameters and parameters_json_schema exclude each other"
        )),
        (false, true) => {
            let place = format!("{place}.parameters");
            refuse_if(schema_type(parameters) != "OBJECT", || {
                format!("{place}: schema should be of type OBJECT")
            })?;
            check_dialect(parameters, &place)
        }
        _ => Ok(()),
    }
}

fn schema_type(schema: &Value) -> String {
    schema["type"].as_str().unwrap_or_default().to_uppercase()
}

fn check_dialect(value: &Value, place: &str) -> CheckResult {
    check_known(value, place, SCHEMA_FIELDS)?;
    refuse_if(!value["type"].is_null() && !value["type"].is_string(), || {
        format!("Invalid value at '{place}.type': Proto field is not repeating, cannot start list.")
    })?;
    let properties = value["properties"].as_object();
    refuse_if(
        schema_type(value) == "OBJECT" && properties.is_none_or(serde_json::Map::is_empty),
        || format!("{place}.properties: should be non-empty for OBJECT type"),
    )?;
    refuse_if(!value["enum"].is_null() && schema_type(value) != "STRING", || {
        format!("{place}.enum: only allowed for STRING type")
    })?;
    refuse_if(schema_type(value) == "ARRAY" && value["items"].is_null(), || {
        format!("{place}.items: missing field")
    })?;
    // Protocol buffers do not distinguish an empty list from an absent one.
    let required = match &value["required"] {
        Value::Array(names) => names.as_slice(),
        other => optional_list(other, &format!("{place}.required"))?,
    };
    for (place, required) in number_entries(required, &format!("{place}.required")) {
        let required = check_text(required, &place)?;
        refuse_if(
            !properties.is_some_and(|properties| properties.contains_key(required)),
            || format!("{place}: property `{required}` is not defined"),
        )?;
    }
    for (name, property) in properties.into_iter().flatten() {
        check_dialect(property, &format!("{place}.properties[{name}]"))?;
    }
    if !value["items"].is_null() {
        check_dialect(&value["items"], &format!("{place}.items"))?;
    }
    number_entries(
        optional_list(find_field(value, "anyOf"), place)?,
        &format!("{place}.any_of"),
    )
    .try_for_each(|(place, branch)| check_dialect(branch, &place))
}

fn check_parts<'v>(value: &'v Value, place: &str) -> CheckResult<&'v [Value]> {
    let place = format!("{place}.parts");
    let parts = check_list(value, &place)?;
    for (place, part) in number_entries(parts, &place) {
        check_known(
            part,
            &place,
            &format!("{DATA_FIELDS} thought thoughtSignature videoMetadata"),
        )?;
        let data = DATA_FIELDS
            .split(' ')
            .filter(|name| !find_field(part, name).is_null())
            .count();
        refuse_if(data != 1, || {
            format!("{place}.data: required oneof field 'data' must have one initialized field")
        })?;
        // The API itself sends an empty text that only carries a signature.
        if !part["text"].is_null() && find_field(part, "thoughtSignature").is_null() {
            // White space counts as text: LiteLLM sends some if everything else is in a cache.
            refuse_if(check_text(&part["text"], &format!("{place}.text"))?.is_empty(), || {
                format!("{place}.text: must be non-empty")
            })?;
        }
        for (key, object) in [("functionCall", "args"), ("functionResponse", "response")] {
            let function = find_field(part, key);
            if function.is_null() {
                continue;
            }
            check_known(
                function,
                &format!("{place}.{}", to_snake_case(key)),
                &format!("id name {object}"),
            )?;
            check_nonblank(&function["name"], &format!("{place}.{}.name", to_snake_case(key)))?;
            let absent = object == "args" && function[object].is_null();
            refuse_if(!absent && !function[object].is_object(), || {
                format!(
                    "Invalid value at '{place}.{}.{object}': must be an object",
                    to_snake_case(key)
                )
            })?;
        }
    }
    Ok(parts)
}

fn check_conversation(contents: &[Value], signed: &[(&ScriptedCall, String)]) -> CheckResult {
    let mut previous = "model";
    let mut asked: Vec<&Value> = Vec::new();
    for (place, content) in number_entries(contents, "contents") {
        check_known(content, &place, "role parts")?;
        let role = match content["role"].as_str() {
            Some("user" | "function") => "user",
            Some("model") => "model",
            _ => return Err(format!("{place}: please use a valid role: user, model.")),
        };
        refuse_if(role == previous, || {
            format!("{place}: roles must alternate between user and model, beginning with user")
        })?;
        let parts = check_parts(&content["parts"], &place)?;
        let of = |key| -> Vec<&Value> {
            parts
                .iter()
                .map(|part| find_field(part, key))
                .filter(|data| !data.is_null())
                .collect()
        };
        let (calls, responses) = (of("functionCall"), of("functionResponse"));
        refuse_if(
            role == "model" && !responses.is_empty() || role == "user" && !calls.is_empty(),
            || format!("{place}: calls belong to the model, responses to the user"),
        )?;
        if role == "user" {
            check_answered(&asked, &responses, &place)?;
        }
        (asked, previous) = (calls, role);
    }
    if asked.is_empty() {
        check_signatures(contents, signed)
    } else {
        Err("contents: a function call turn must be followed by a function response turn".to_owned())
    }
}

fn check_answered(asked: &[&Value], responses: &[&Value], place: &str) -> CheckResult {
    refuse_if(asked.is_empty() && !responses.is_empty(), || {
        format!("{place}: please ensure that function response turn comes immediately after a function call turn")
    })?;
    refuse_if(asked.len() != responses.len(), || {
        format!(
            "{place}: please ensure that the number of function response parts ({}) is equal to the number of function \
             call parts of the function call turn ({})",
            responses.len(),
            asked.len()
        )
    })?;
    let matches = |call: &Value, response: &Value| {
        call["name"] == response["name"] && (response["id"].is_null() || response["id"] == call["id"])
    };
    match asked
        .iter()
        .zip(responses)
        .find(|(call, response)| !matches(call, response))
    {
        Some((call, response)) => Err(format!(
            "{place}: the function response {} ({}) does not answer the function call {} ({})",
            response["name"], response["id"], call["name"], call["id"]
        )),
        None => Ok(()),
    }
}

/// A signature that came with a call must come back with it. The same call may have been made again without a
/// signature.
fn check_signatures(contents: &[Value], signed: &[(&ScriptedCall, String)]) -> CheckResult {
    let parts = contents
        .iter()
        .filter_map(|content| content["parts"].as_array())
        .flatten();
    let parts: Vec<&Value> = parts
        .filter(|part| find_field(part, "functionCall").is_object())
        .collect();
    for (sent, signature) in signed {
        let is_sent = |part: &&&Value| {
            let call = find_field(part, "functionCall");
            call["name"] == sent.name.as_str() && sent.arguments_object().as_ref() == Some(&call["args"])
        };
        let mut back = parts
            .iter()
            .filter(is_sent)
            .map(|part| find_field(part, "thoughtSignature").as_str())
            .peekable();
        if back.peek().is_none() {
            continue;
        }
        let ours: Vec<&str> = back.flatten().filter(|back| back.starts_with(SIGNATURE)).collect();
        refuse_if(ours.is_empty(), || {
            format!("contents: function call `{}` is missing a thought_signature", sent.name)
        })?;
        refuse_if(!ours.contains(&signature.as_str()), || {
            format!("contents: the thought_signature of `{}` is not valid", sent.name)
        })?;
    }
    Ok(())
}
