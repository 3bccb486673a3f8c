//! What a component says about itself, asked with every capability denied.

use std::path::Path;

use tokio_util::sync::CancellationToken;
use wasmtime::component::Component;

use super::is_name;
use super::team::{io, read_component};
use crate::bindings::tool::skill::types as wit;
use crate::component::{self, Surface};
use crate::engine::{self, Runtime};
use crate::limits;
use crate::loaded::Linked;
use crate::sandbox::Call;
use crate::{CallError, Descriptor, Limits, SkillHostError, arguments, cache};
use tool_core::api::Effect;
use tool_core::digest::sha256_hex;
use tool_core::text::{clean, clean_line};

/// Asks a compiled component what it is. The error is the end of a sentence.
pub(super) fn describe(
    runtime: &Runtime,
    component: &Component,
    surface: &Surface,
    limits: Limits,
) -> Result<Descriptor, String> {
    let limits = Limits {
        wall: limits.describe,
        ..limits
    };
    let call = Call::new("describe", limits, &CancellationToken::new());
    runtime.watch(&call);
    let described = Linked::new(component)?.describe(&call).map_err(|error| match error {
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

/// A built-in skill as its build embeds it.
#[derive(Debug)]
pub struct Embedded {
    /// What it says about itself.
    pub descriptor: Descriptor,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Its code, for every machine of this architecture.
    pub compiled: Vec<u8>,
}

/// Which compiler and configuration [`precompile`] uses: code of another one does not load.
pub fn compiler_fingerprint() -> Result<String, SkillHostError> {
    Ok(cache::fingerprint(&Runtime::global()?.engine))
}

/// Compiles a component of ours ahead of time and captures what it says about itself. For the build of the product.
pub fn precompile(path: &Path) -> Result<Embedded, SkillHostError> {
    let refused = |reason| SkillHostError::Refused {
        path: path.to_owned(),
        reason,
    };
    let wasm = read_component(path).map_err(|source| io(path, "read", source))?;
    let surface = component::inspect(&wasm).map_err(refused)?;
    let compiled = engine::precompile(&wasm).map_err(|error| refused(format!("it does not compile: {error:#}")))?;
    let runtime = Runtime::global()?;
    let component = runtime.load(&compiled).map_err(|error| {
        refused(format!(
            "its code does not load on the machine that builds it: {error:#}"
        ))
    })?;
    let descriptor = describe(runtime, &component, &surface, Limits::default()).map_err(refused)?;
    if let Some((effect, interface)) = surface.unused_effect(&descriptor.effects) {
        return Err(refused(format!(
            "it declares the effect `{effect}` and does not import `tool:skill/{interface}`"
        )));
    }
    Ok(Embedded {
        descriptor,
        digest: sha256_hex(&wasm),
        compiled,
    })
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
