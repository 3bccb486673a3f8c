//! The servers in the file, and the server that a change would configure.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use tool_core::api::{ErrorKind, Problem, ProviderName};

use super::edit;
use super::mask::mask_url;
use super::origin::read_file;
use super::provider::SelectedServer;
use super::{Environment, Preset, ProviderChoice, ProviderSettings, config_path, parse};

/// Resolves the provider as it would be after [`super::write_initial`], and writes nothing. A missing file counts as an
/// empty one.
///
/// # Errors
///
/// If the file cannot be parsed, or lacks a setting that the provider needs.
pub fn preview_provider(
    home: &Path,
    environment: &Environment,
    init: &ProviderChoice,
) -> Result<ProviderSettings, Problem> {
    let text = match read_file(&config_path(home)) {
        Ok(text) => text,
        Err(problem) if problem.kind == ErrorKind::ConfigMissing => String::new(),
        Err(problem) => return Err(problem),
    };
    let file = parse(&edit::preview_file(&text, init)?)?;
    SelectedServer::select_server(init.provider, &file).resolve(environment)
}

/// A server that the file describes or that a provider would use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfiguredServer {
    /// Name for `tool models use`: that of a vendor, or of a provider that describes its server itself.
    pub name: String,
    /// The provider that it belongs to.
    pub provider: ProviderName,
    /// True for the server in use.
    pub enabled: bool,
    /// Its configured model.
    pub model: Option<String>,
    /// Its URL without possible secrets.
    pub url: Option<String>,
    /// Reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The servers that the file describes: providers' own and vendors', in the file's order of kinds.
///
/// # Errors
///
/// If the file is missing or cannot be parsed. A server that cannot be used has its problem in its entry.
pub fn list_servers(home: &Path, environment: &Environment) -> Result<Vec<ConfiguredServer>, Problem> {
    let file = parse(&read_file(&config_path(home))?)?;
    let mut selections: Vec<(SelectedServer<'_>, bool)> = Vec::new();
    for (&name, table) in &file.providers {
        let own = SelectedServer::of_provider(name, table);
        if own.is_described() || table.vendor.is_none() {
            selections.push((own, table.is_enabled() && table.vendor.is_none()));
        }
    }
    let is_selected = |vendor: &str| {
        let mut enabled = file.providers.values().filter(|table| table.is_enabled());
        enabled.any(|table| table.vendor.as_deref() == Some(vendor))
    };
    let named = file
        .providers
        .iter()
        .filter_map(|(&name, table)| Some((table.vendor.as_deref()?, name)));
    let mut vendors: BTreeMap<&str, ProviderName> = named.collect();
    for vendor in file.vendors.keys() {
        let provider = Preset::find_by_name(vendor).map_or(ProviderName::Hosted, |preset| preset.provider);
        vendors.entry(vendor).or_insert(provider);
    }
    for (vendor, provider) in vendors {
        selections.push((SelectedServer::of_vendor(provider, vendor, &file), is_selected(vendor)));
    }
    let server = |(selection, enabled): (SelectedServer<'_>, bool)| ConfiguredServer {
        name: selection.vendor.unwrap_or(selection.provider.name()).to_owned(),
        provider: selection.provider,
        enabled,
        model: selection.model(environment).map(|model| model.value),
        url: selection.url_as_written().map(|url| mask_url(&url.value)),
        problem: selection.resolve(environment).err(),
    };
    Ok(selections.into_iter().map(server).collect())
}
