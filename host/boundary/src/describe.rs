//! Asks a component for its descriptor, with every capability denied.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::bindings::tool::skill::types as wit;
use super::budget::CallBudget;
use super::component::Surface;
use super::descriptor::{ComponentMetadata, Descriptor, FunctionDescriptor, FunctionMetadata};
use super::details::rewrite_texts;
use super::engine::{NativeComponent, Runtime};
use super::loaded::LinkedComponent;
use super::{CallError, Limits, arguments};
use tool_core::api::Effect;
use tool_core::text::{clean_line, clean_text, truncate_text};

/// Bytes of a descriptor's texts (description and schema), each. Both are sent to the model with every request.
const DESCRIPTOR_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Functions of one component.
const FUNCTIONS_MAX: usize = 64;

/// Asks a compiled component to describe itself.
///
/// # Errors
///
/// Why it is refused, as the end of a sentence.
pub fn describe_component(
    runtime: &Runtime,
    component: &NativeComponent,
    surface: &Surface,
    limits: Limits,
) -> Result<Descriptor, String> {
    let limits = Limits {
        wall: limits.describe,
        ..limits
    };
    let call = CallBudget::new("describe", limits, &CancellationToken::new());
    runtime.watch(&call);
    let described = LinkedComponent::new(&component.component)
        .map_err(|error| surface.explain_link(error))?
        .describe(&call)
        .map_err(|error| match error {
            CallError::Trap { reason, .. } => format!("it does not describe itself: it crashed: {reason}"),
            CallError::Limit { limit, .. } => format!("it does not describe itself within the limit of {limit}"),
            error => format!("it does not describe itself: {error}"),
        })?;
    let descriptor = parse_descriptor(described)?;
    surface.check_effects(&descriptor.effects())?;
    Ok(descriptor)
}

fn parse_descriptor(described: wit::Descriptor) -> Result<Descriptor, String> {
    check_name(&described.name)?;
    check_length("description", &described.description)?;
    check_version(&described.version)?;
    let count = described.functions.len();
    if count == 0 || count > FUNCTIONS_MAX {
        return Err(format!(
            "it describes {count} functions; a skill has at least one and at most {FUNCTIONS_MAX}"
        ));
    }
    let functions: Vec<FunctionDescriptor> = described
        .functions
        .into_iter()
        .map(parse_function)
        .collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    if let Some(twice) = functions.iter().find(|function| !names.insert(&function.name)) {
        return Err(format!("it describes the function `{}` twice", twice.name));
    }
    let metadata: ComponentMetadata = parse_metadata("its metadata", described.metadata.as_deref())?;
    if let Some(schema) = &metadata.configuration {
        arguments::compile_schema(schema)
            .map_err(|error| format!("the schema of its configuration is refused: {error}"))?;
    }
    Ok(Descriptor {
        name: described.name,
        version: described.version,
        description: clean_text(&described.description).into_owned(),
        functions,
        metadata,
    })
}

fn parse_function(described: wit::Function) -> Result<FunctionDescriptor, String> {
    let name = described.name;
    check_name(&name)?;
    let parse = || -> Result<FunctionDescriptor, String> {
        check_length("description", &described.description)?;
        if described.description.trim().is_empty() {
            return Err("it has no description, which a model needs to choose it".to_owned());
        }
        check_length("schema", &described.parameters)?;
        let parameters =
            serde_json::from_str(&described.parameters).map_err(|error| format!("its schema is not JSON: {error}"))?;
        arguments::compile_schema(&parameters)?;
        let metadata: FunctionMetadata = parse_metadata("its metadata", described.metadata.as_deref())?;
        if let Some(schema) = &metadata.output {
            arguments::compile_schema(schema)
                .map_err(|error| format!("the schema of its output is refused: {error}"))?;
        }
        Ok(FunctionDescriptor {
            name: name.clone(),
            description: clean_text(&described.description).into_owned(),
            parameters,
            effects: parse_effects(&described.effects)?,
            metadata,
        })
    };
    parse().map_err(|error| format!("its function `{name}` is refused: {error}"))
}

fn parse_effects(names: &[String]) -> Result<Vec<Effect>, String> {
    let parsed = names.iter().map(|name| name.parse().map_err(|_| name.as_str()));
    let mut effects = parsed.collect::<Result<Vec<Effect>, &str>>().map_err(|unknown| {
        let known = Effect::FORMS;
        let unknown = clean_text(unknown);
        format!("it declares the effect `{unknown}`, which this host does not know; the effects are {known}")
    })?;
    effects.sort_unstable();
    effects.dedup();
    Ok(effects)
}

/// Parses a metadata object, and removes control characters from its texts as from answers.
fn parse_metadata<T: DeserializeOwned + Default>(what: &str, json: Option<&str>) -> Result<T, String> {
    let Some(json) = json else { return Ok(T::default()) };
    check_length("metadata", json)?;
    let mut value: Value = serde_json::from_str(json).map_err(|error| format!("{what} is not JSON: {error}"))?;
    if !value.is_object() {
        return Err(format!("{what} is not a JSON object"));
    }
    rewrite_texts(&mut value, &|text| clean_text(text).into_owned());
    serde_json::from_value(value).map_err(|error| format!("{what} does not fit its schema: {error}"))
}

fn check_length(what: &str, text: &str) -> Result<(), String> {
    if text.len() > DESCRIPTOR_TEXT_BYTES_MAX {
        let max = DESCRIPTOR_TEXT_BYTES_MAX;
        return Err(format!("its {what} is longer than {max} bytes"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a name of a skill: it begins with a lower-case letter, goes on with lower-case letters, digits and \
         `_`, and has at most 64 of them",
        clean_line(truncate_text(name, 100))
    ))
}

/// Refuses a version that is not `MAJOR.MINOR.PATCH`, with an optional pre-release or build.
fn check_version(version: &str) -> Result<(), String> {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = version.len() <= 64 && version.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && core.split('.').count() == 3 && core.split('.').all(is_number) {
        return Ok(());
    }
    let shown = clean_line(truncate_text(version, 100));
    Err(format!(
        "its version `{shown}` is not a semantic version such as `1.2.0`"
    ))
}

/// True for a name that a skill may have.
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod unit {
    use super::*;

    fn function(name: &str) -> wit::Function {
        wit::Function {
            name: name.to_owned(),
            description: "Talks.".to_owned(),
            parameters: r#"{"type": "object"}"#.to_owned(),
            effects: Vec::new(),
            metadata: None,
        }
    }

    fn described(functions: Vec<wit::Function>) -> wit::Descriptor {
        wit::Descriptor {
            name: "talker".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            functions,
            metadata: None,
        }
    }

    fn refusal(described: wit::Descriptor) -> String {
        parse_descriptor(described).expect_err("it does not fit the contract")
    }

    #[test]
    fn an_unknown_effect_is_named_before_the_known_ones() {
        let effects = ["read-git", "fly", "swim"].map(str::to_owned).to_vec();
        let refused = refusal(described(vec![wit::Function {
            effects,
            ..function("talk")
        }]));
        assert!(
            refused.starts_with(
                "its function `talk` is refused: it declares the effect `fly`, which this host does not know; the effects are \
                 read-repository, "
            ),
            "{refused}"
        );
    }

    #[test]
    fn a_description_is_of_bounded_length() {
        let of_bytes = |longer: usize| {
            described(vec![wit::Function {
                description: "x".repeat(DESCRIPTOR_TEXT_BYTES_MAX + longer),
                ..function("talk")
            }])
        };
        assert!(parse_descriptor(of_bytes(0)).is_ok());
        assert_eq!(
            refusal(of_bytes(1)),
            "its function `talk` is refused: its description is longer than 65536 bytes"
        );
    }

    #[test]
    fn a_component_has_a_bounded_number_of_functions_with_names_of_their_own() {
        let of_count = |count: usize| described((0..count).map(|at| function(&format!("talk_{at}"))).collect());
        assert!(parse_descriptor(of_count(FUNCTIONS_MAX)).is_ok());
        for count in [0, FUNCTIONS_MAX + 1] {
            assert_eq!(
                refusal(of_count(count)),
                format!("it describes {count} functions; a skill has at least one and at most 64")
            );
        }
        assert_eq!(
            refusal(described(vec![function("talk"), function("talk")])),
            "it describes the function `talk` twice"
        );
    }

    #[test]
    fn unknown_metadata_is_ignored_and_known_metadata_is_checked() {
        let of = |metadata: &str| {
            described(vec![wit::Function {
                metadata: Some(metadata.to_owned()),
                ..function("talk")
            }])
        };
        let metadata = r#"{"title": "Talk\u001b[31m", "operations": ["explain", "dream"], "colour": "blue"}"#;
        let parsed = parse_descriptor(of(metadata)).expect("it fits");
        let metadata = &parsed.functions[0].metadata;
        assert_eq!(metadata.title.as_deref(), Some("Talk"));
        assert_eq!(metadata.operations, Some(vec![tool_core::api::Operation::Explain]));
        assert_eq!(
            refusal(of("[]")),
            "its function `talk` is refused: its metadata is not a JSON object"
        );
        assert_eq!(
            refusal(of(r#"{"output": {"type": "array"}}"#)),
            "its function `talk` is refused: the schema of its output is refused: its schema is not of `\"type\": \"object\"`"
        );
        assert!(refusal(of(r#"{"tags": "one"}"#)).contains("its metadata does not fit its schema: "));
    }

    #[test]
    fn a_version_is_semantic() {
        for version in ["1.0.0", "0.10.2-beta.1+build"] {
            assert_eq!(check_version(version), Ok(()));
        }
        for version in ["one", "1.0", "1.0.0.0", "1.x.0", "", "1.0.0 final"] {
            let expected = format!("its version `{version}` is not a semantic version such as `1.2.0`");
            assert_eq!(check_version(version), Err(expected));
        }
    }
}
