//! `tool skill add`, `trust`, `disable` and `enable`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};
use tool_registry::oci::RegistryReference;

use super::offer::ComponentOffer;
use super::{explain_refusal, open_registry, path_text};
use crate::args::Consent;
use crate::commands::CommandContext;
use crate::error::Error;

/// For a component, or each of a folder: shows what it requests, asks, and pins it.
pub(super) async fn add_skills(source: &str, consent: &Consent, context: &CommandContext) -> Result<ExitCode, Error> {
    let registry = open_registry(context)?;
    for source in list_sources(source)? {
        let offer = ComponentOffer::look_up(&source, &registry, consent, context).await?;
        let entry = offer.settle(&registry, consent, context)?;
        context
            .output
            .line(&format!("Added {} {}.", entry.name, entry.version))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The sources to add: the components of a folder, or the source itself.
fn list_sources(source: &str) -> Result<Vec<String>, Error> {
    let folder = Path::new(source);
    if RegistryReference::is_meant(source) || !folder.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| Error::on_file("Folder", folder, &error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut components: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm") && path.is_file())
        .collect();
    components.sort();
    if components.is_empty() {
        let message = format!("There is no component in `{}`", folder.display());
        return Err(Problem::new(ErrorKind::Skill, message)
            .with_hint("name a file `NAME.wasm`; `tool skill build` makes one of a project")
            .into());
    }
    components.iter().map(|path| path_text(path)).collect()
}

/// Pins a component that is in the team's folder.
pub(super) fn trust_skill(name: &str, consent: &Consent, context: &CommandContext) -> Result<ExitCode, Error> {
    let registry = open_registry(context)?;
    let offer = ComponentOffer::of_installed(name, None, &registry, consent, context)?;
    let entry = offer.settle(&registry, consent, context)?;
    context
        .output
        .line(&format!("Pinned {} {}.", entry.name, entry.version))?;
    Ok(ExitCode::SUCCESS)
}

/// Disables a skill, or enables it again.
pub(super) fn switch_skill(name: &str, is_disabled: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    open_registry(context)?
        .disable(name, is_disabled)
        .map_err(explain_refusal)?;
    let done = if is_disabled { "Disabled" } else { "Enabled" };
    context.output.line(&format!("{done} {name}."))?;
    Ok(ExitCode::SUCCESS)
}
