//! The descriptor of a component, asked with every capability denied.

use tokio_util::sync::CancellationToken;

use super::bindings::tool::skill::types as wit;
use super::budget::CallBudget;
use super::component::Surface;
use super::engine::{NativeComponent, Runtime};
use super::loaded::Linked;
use super::{CallError, Descriptor, Limits, arguments};
use crate::limits;
use tool_core::api::Effect;
use tool_core::text::{clean, clean_line};

/// Asks a compiled component what it is. The error is the end of a sentence.
pub fn describe(
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
    let described = Linked::new(&component.0)?
        .describe(&call)
        .map_err(|error| match error {
            CallError::Trap { reason, .. } => format!("it does not describe itself: it crashed: {reason}"),
            CallError::Limit { limit, .. } => format!("it does not describe itself within the limit of {limit}"),
            error => format!("it does not describe itself: {error}"),
        })?;
    let descriptor = parse_descriptor(described)?;
    surface.check_effects(&descriptor.effects)?;
    arguments::compile(&descriptor.parameters)?;
    Ok(descriptor)
}

fn parse_descriptor(described: wit::Descriptor) -> Result<Descriptor, String> {
    if !is_name(&described.name) {
        return Err(format!("`{}` is not a name of a skill", clean(&described.name)));
    }
    let longest = described
        .description
        .len()
        .max(described.parameters.len())
        .max(described.version.len());
    if longest > limits::DESCRIPTOR_TEXT_BYTES_MAX {
        return Err(format!(
            "its description is longer than {} bytes",
            limits::DESCRIPTOR_TEXT_BYTES_MAX
        ));
    }
    let parsed = described
        .effects
        .iter()
        .map(|name| name.parse().map_err(|_| name.as_str()));
    let mut effects = parsed.collect::<Result<Vec<Effect>, &str>>().map_err(|unknown| {
        let known = Effect::ALL.map(Effect::name).join(", ");
        let unknown = clean(unknown);
        format!("it declares the effect `{unknown}`, which this host does not know; the effects are {known}")
    })?;
    effects.sort_unstable();
    effects.dedup();
    Ok(Descriptor {
        parameters: serde_json::from_str(&described.parameters)
            .map_err(|error| format!("its schema is not JSON: {error}"))?,
        name: described.name,
        version: clean_line(&described.version),
        description: clean(&described.description).into_owned(),
        effects,
    })
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

    #[test]
    fn an_effect_that_is_none_is_named_before_those_that_are() {
        let described = wit::Descriptor {
            name: "talker".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            parameters: r#"{"type": "object"}"#.to_owned(),
            effects: ["read-git", "fly", "swim"].map(str::to_owned).to_vec(),
        };
        let refused = parse_descriptor(described).expect_err("nobody can fly");
        assert!(
            refused.starts_with(
                "it declares the effect `fly`, which this host does not know; the effects are read-repository, "
            ),
            "{refused}"
        );
    }

    #[test]
    fn a_description_is_of_bounded_length() {
        let described = |longer: usize| wit::Descriptor {
            name: "talker".to_owned(),
            version: "1.0.0".to_owned(),
            description: "x".repeat(limits::DESCRIPTOR_TEXT_BYTES_MAX + longer),
            parameters: r#"{"type": "object"}"#.to_owned(),
            effects: Vec::new(),
        };
        assert!(parse_descriptor(described(0)).is_ok());
        let refused = parse_descriptor(described(1)).expect_err("it is longer than the bound");
        assert_eq!(refused, "its description is longer than 65536 bytes");
    }
}
