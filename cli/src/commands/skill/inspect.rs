//! `tool skill inspect`: what a component says about itself, running nothing but `describe`.

use std::path::Path;
use std::process::ExitCode;

use host::api::Problem;

use super::{Context, print_json, refused, registry};
use crate::error::Error;

/// What a file says about itself, or a skill that is there. Something that looks like a path is one.
pub(super) fn run(component: &Path, context: &Context) -> Result<ExitCode, Error> {
    let registry = registry(context)?;
    let is_path = component.components().count() > 1 || component.extension().is_some() || component.is_file();
    let name = component.to_str().filter(|_| !is_path);
    let Some(name) = name else {
        return print_json(&registry.inspect(component).map_err(refused)?, context.output);
    };
    let entry = registry.entries().into_iter().find(|entry| entry.name == name);
    match entry {
        Some(entry) if entry.origin == "builtin" => print_json(&entry, context.output),
        // Of a component that is not trusted yet, the component itself is asked.
        Some(_) => print_json(&registry.inspect_installed(name).map_err(refused)?, context.output),
        None => Err(Problem::new(
            "not-found",
            format!("There is neither a file nor a skill named `{name}`"),
        )
        .with_hint("`tool skill list` shows the skills")
        .into()),
    }
}
