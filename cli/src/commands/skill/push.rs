//! `tool skill push`: uploads a component to a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_core::api::ErrorKind;
use tool_registry::oci::{self, ComponentDescription, PlaceError, RegistryReference};
use tool_skill::SkillHost;
use tool_skill::signature::Signature;

use super::{explain_refusal, open_registry};
use crate::commands::CommandContext;
use crate::error::Error;

/// Pushes a component, and the signature next to it.
pub(super) async fn push_component(component: &Path, place: &str, context: &CommandContext) -> Result<ExitCode, Error> {
    let place: RegistryReference = place
        .parse()
        .map_err(|error: PlaceError| Error::new(ErrorKind::Usage, error.to_string()))?;
    let registry = open_registry(context)?;
    let file = file_of(component, &registry)?;
    let inspection = registry.inspect(&file).map_err(explain_refusal)?;
    let bytes = registry.component(&inspection).map_err(explain_refusal)?;
    let signature = Signature::read_beside(&file).map_err(explain_refusal)?;
    let described = ComponentDescription {
        name: inspection.name.clone(),
        version: inspection.version.clone(),
        description: inspection.description.clone(),
    };
    let environment = &context.backend.environment;
    context.output.progress(&format!("pushing to {place}"));
    let pushed = oci::push_component(&place, &bytes, &described, environment).await;
    let manifest = pushed.map_err(explain_refusal)?;
    let mut also = "";
    if let Some(signature) = &signature {
        let pushed = oci::push_signature(&place, &inspection.digest, signature, environment).await;
        pushed.map_err(explain_refusal)?;
        also = " with its signature";
    }
    context.output.line(&format!(
        "Pushed {} {}{also}: {}",
        inspection.name,
        inspection.version,
        place.pinned(&manifest)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The file to push: a path, or the component of a known skill. An argument that looks like a path is a path.
pub(super) fn file_of(component: &Path, registry: &SkillHost) -> Result<PathBuf, Error> {
    let is_path = component.components().count() > 1 || component.extension().is_some() || component.is_file();
    match component.to_str().filter(|_| !is_path) {
        Some(name) => registry.file_of(name).map_err(explain_refusal),
        None => Ok(component.to_owned()),
    }
}
