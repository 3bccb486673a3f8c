//! Compiles built-in skills, for the build of the product.

use std::path::Path;

use super::team::{io_error, read_component};
use crate::SkillHostError;
use tool_boundary::{Descriptor, Limits, Runtime, describe_component, inspect_component};
use tool_core::digest::sha256_hex;

/// A built-in skill as the build embeds it.
#[derive(Debug)]
pub struct Embedded {
    /// The component's own descriptor.
    pub descriptor: Descriptor,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Native code, without instructions that only some processors of this architecture have.
    pub compiled: Vec<u8>,
}

/// Fingerprint of the compiler and its configuration. Code with another fingerprint does not load.
///
/// # Errors
///
/// The compiler cannot be configured.
pub fn compiler_fingerprint() -> Result<String, SkillHostError> {
    Ok(Runtime::global()?.fingerprint())
}

/// Compiles a built-in component, and records its descriptor.
///
/// # Errors
///
/// The component cannot be read, compiled or described.
pub fn precompile_skill(path: &Path) -> Result<Embedded, SkillHostError> {
    let refused = |reason| SkillHostError::Refused {
        path: path.to_owned(),
        reason,
    };
    let wasm = read_component(path).map_err(|source| io_error(path, "read", source))?;
    let surface = inspect_component(&wasm).map_err(refused)?;
    let compiled = tool_boundary::precompile_portable(&wasm)
        .map_err(|error| refused(format!("it does not compile: {error:#}")))?;
    let runtime = Runtime::global()?;
    let component = runtime.load(&compiled).map_err(|error| {
        refused(format!(
            "its code does not load on the machine that builds it: {error:#}"
        ))
    })?;
    let descriptor = describe_component(runtime, &component, &surface, Limits::default()).map_err(refused)?;
    if let Some((effect, interface)) = surface.unused_effect(&descriptor.effects()) {
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
