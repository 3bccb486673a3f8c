//! `install_package`: installs packages with pip or npm.
//!
//! The host installs, by a named recipe, without install scripts and only if the policy grants it. This skill chooses
//! the recipe, refuses everything but plain names with versions ([`names`]), and describes the result ([`result`]).

mod names;
mod result;

use std::fs;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, FunctionMetadata, Handler, Host, InstallRequest, Outcome, Query, export_skill};

/// The skill `install_package`.
#[derive(Debug)]
pub struct InstallPackage;

/// Limit for the packages in one call.
const NAMES_MAX: usize = 20;

#[derive(Deserialize)]
struct InstallPackageArguments {
    names: Vec<String>,
    #[serde(default)]
    manager: ManagerChoice,
    #[serde(default)]
    dev: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ManagerChoice {
    #[default]
    Auto,
    Pip,
    Npm,
}

/// The package manager that installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageManager {
    Pip,
    Npm,
}

impl PackageManager {
    fn recipe(self) -> &'static str {
        match self {
            Self::Pip => "pip-install",
            Self::Npm => "npm-install",
        }
    }
}

impl Handler for InstallPackage {
    const EFFECTS: &'static [&'static str] = &["read-repository", "install"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "install_package",
            version: "1.0.0",
            description: "Adds packages from the public registry with pip or npm. Needs the user's permission: if the \
                answer is `denied`, tell the user what to install instead of trying again. Install scripts do not run.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "names": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1, "maxLength": 250},
                        "minItems": 1,
                        "maxItems": NAMES_MAX,
                        "description": "Each with a version if it matters: `requests[socks]>=2.31,<3` (pip), \
                            `@types/node@^22` (npm). No options, URLs, paths or spaces."
                    },
                    "manager": {
                        "type": "string",
                        "enum": ["auto", "pip", "npm"],
                        "description": "Default `auto`: by the repository's manifests."
                    },
                    "dev": {
                        "type": "boolean",
                        "description": "npm: as a development dependency."
                    }
                },
                "required": ["names"],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: InstallPackageArguments = skill_sdk::arguments(arguments)?;
        if arguments.names.is_empty() || arguments.names.len() > NAMES_MAX {
            return Err(Failure::invalid(format!("give between 1 and {NAMES_MAX} names")));
        }
        let manager = match arguments.manager {
            ManagerChoice::Pip => PackageManager::Pip,
            ManagerChoice::Npm => PackageManager::Npm,
            ManagerChoice::Auto => detect_manager(host, &arguments.names)?,
        };
        for name in &arguments.names {
            names::check_name(manager, name)?;
        }
        if manager == PackageManager::Pip && arguments.dev {
            return Err(
                Failure::invalid("`dev` is for npm; pip knows no development dependencies")
                    .with_hint("leave `dev` out, and add the package to the project's development group by hand"),
            );
        }
        let report = host.install(&InstallRequest {
            recipe: manager.recipe().to_owned(),
            names: arguments.names.clone(),
            dev: arguments.dev,
        })?;
        result::read_report(manager, &report, &arguments.names)
    }
}

/// Chooses by the manifests of the repository; if it has both kinds, by names that only one of the two accepts.
fn detect_manager(host: &dyn Host, wanted: &[String]) -> Result<PackageManager, Failure> {
    let has = |name: &str| {
        host.path(name)
            .ok()
            .and_then(|place| fs::metadata(place).ok())
            .is_some()
    };
    let npm = has("package.json");
    let pip = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"]
        .iter()
        .any(|name| has(name))
        || (!npm && has_python(host));
    match (pip, npm) {
        (true, false) => Ok(PackageManager::Pip),
        (false, true) => Ok(PackageManager::Npm),
        (true, true) if wanted.iter().all(|name| name.contains('@')) => Ok(PackageManager::Npm),
        (true, true) if wanted.iter().all(|name| name.contains(['[', '=', '<'])) => Ok(PackageManager::Pip),
        (true, true) => Err(Failure::invalid("the repository has manifests of pip and of npm")
            .with_hint("say which with `manager`: \"pip\" or \"npm\"")),
        (false, false) => Err(
            Failure::not_found("no manifest of pip or npm at the root of the repository")
                .with_hint("say which with `manager`: \"pip\" or \"npm\""),
        ),
    }
}

fn has_python(host: &dyn Host) -> bool {
    let query = Query {
        recursive: true,
        globs: vec!["*.py".to_owned(), "requirements*.txt".to_owned()],
        ..Query::default()
    };
    host.list_page(&query).is_ok_and(|page| !page.entries.is_empty())
}

export_skill!(InstallPackage);

#[cfg(test)]
mod tests;
