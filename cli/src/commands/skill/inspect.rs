//! `tool skill inspect`: what a component declares and requests. Runs only `describe`.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use tool_core::api::{Effect, ErrorKind, Problem, SkillEntry, SkillOrigin};
use tool_skill::{Inspection, Interfaces, SkillHostError, read_interfaces};

use super::{CommandContext, explain_refusal, in_its_words, open_registry, print_json};
use crate::builtins::BUILTINS;
use crate::error::{Error, FAILED};

/// Output for a component that the host accepts.
#[derive(Debug, Serialize)]
struct AcceptedComponent<About> {
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    interfaces: Interfaces,
}

/// Output for a built-in skill: its entry in the list, and its size.
#[derive(Debug, Serialize)]
struct BuiltInComponent {
    #[serde(flatten)]
    entry: SkillEntry,
    size: usize,
}

/// Output for a component that the host refuses.
#[derive(Debug, Serialize)]
struct RefusedComponent<'a> {
    path: &'a Path,
    size: usize,
    digest: String,
    #[serde(flatten)]
    interfaces: Interfaces,
    refused: String,
}

/// Inspects a file, or a known skill. An argument that looks like a path is a file.
pub(super) fn inspect_skill(component: &Path, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let is_path = component.components().count() > 1 || component.extension().is_some() || component.is_file();
    let Some(name) = component.to_str().filter(|_| !is_path) else {
        return inspect_file(component, json, context);
    };
    let registry = open_registry(context)?;
    let entry = registry.entries().into_iter().find(|entry| entry.name == name);
    match entry {
        Some(entry) if entry.origin == SkillOrigin::Builtin => built_in(entry, json, context),
        // For a component that is not trusted yet, the component itself is asked.
        Some(_) => print_accepted(
            registry.inspect_installed(name, None).map_err(explain_refusal)?,
            json,
            context,
        ),
        None => Err(Problem::new(
            ErrorKind::NotFound,
            format!("There is neither a file nor a skill named `{name}`"),
        )
        .with_hint("`tool skill list` shows the skills")
        .into()),
    }
}

fn inspect_file(path: &Path, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    match open_registry(context)?.inspect(path) {
        Ok(inspection) => print_accepted(inspection, json, context),
        Err(SkillHostError::Refused { path, reason }) => not_accepted(&path, reason, json, context),
        Err(error) => Err(explain_refusal(error)),
    }
}

fn built_in(entry: SkillEntry, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let known = BUILTINS.iter().find(|known| known.name == entry.name);
    let wasm = known.map_or(Ok(Vec::new()), |known| known.wasm.unpack());
    let wasm = wasm.map_err(|error| {
        let text = format!("The built-in skill `{}` cannot be read: {error}", entry.name);
        Problem::new(ErrorKind::Internal, text)
    })?;
    let shown = AcceptedComponent {
        about: BuiltInComponent {
            size: wasm.len(),
            entry,
        },
        interfaces: read_interfaces(&wasm),
    };
    if json {
        return print_json(&shown, context.output);
    }
    let entry = &shown.about.entry;
    print_head(&entry.name, &entry.version, &entry.description, context)?;
    print_line("origin", entry.origin.name(), context)?;
    print_line("effects", &join_effects(&entry.effects), context)?;
    what_was_read(&shown.interfaces, &entry.digest, shown.about.size, context)?;
    for function in &entry.functions {
        let head = (function.name.as_str(), function.description.as_str());
        show_function(head, &function.effects, &function.parameters, context)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_accepted(inspection: Inspection, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let wasm = read_component(&inspection.path)?;
    let shown = AcceptedComponent {
        interfaces: read_interfaces(&wasm),
        about: inspection,
    };
    if json {
        return print_json(&shown, context.output);
    }
    let about = &shown.about;
    print_head(&about.name, &about.version, &about.description, context)?;
    print_line("file", &about.path.display().to_string(), context)?;
    print_line("effects", &join_effects(&about.effects), context)?;
    what_was_read(&shown.interfaces, &about.digest, wasm.len(), context)?;
    for function in &about.functions {
        let head = (function.name.as_str(), function.description.as_str());
        show_function(head, &function.effects, &function.parameters, context)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the readable parts of a refused component, and the reason.
fn not_accepted(path: &Path, reason: String, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let wasm = read_component(path)?;
    let shown = RefusedComponent {
        path,
        size: wasm.len(),
        digest: tool_core::digest::sha256_hex(&wasm),
        interfaces: read_interfaces(&wasm),
        refused: reason,
    };
    if json {
        print_json(&shown, context.output)?;
    } else {
        print_line("file", &path.display().to_string(), context)?;
        what_was_read(&shown.interfaces, &shown.digest, shown.size, context)?;
    }
    context.output.problem(&Problem::new(
        ErrorKind::Skill,
        format!("`{}` is refused: {}", path.display(), shown.refused),
    ));
    Ok(ExitCode::from(FAILED))
}

/// Reads the file. The host has checked that it is a file of acceptable size.
fn read_component(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::on_file("Component", path, &error))
}

fn print_head(name: &str, version: &str, description: &str, context: &CommandContext) -> Result<(), Error> {
    context.output.line(&format!("{name} {version}"))?;
    context
        .output
        .line(&in_its_words(description, context.output.columns()))
}

fn print_line(name: &str, value: &str, context: &CommandContext) -> Result<(), Error> {
    context.output.line(&format!("  {name:8} {value}"))
}

fn what_was_read(read: &Interfaces, digest: &str, size: usize, context: &CommandContext) -> Result<(), Error> {
    print_line("world", &or_none(read.worlds.join(", ")), context)?;
    print_line("digest", digest, context)?;
    print_line("size", &format!("{size} bytes"), context)?;
    for (name, interfaces) in [("imports", &read.imports), ("exports", &read.exports)] {
        let all = interfaces.join("\n           ");
        print_line(name, if all.is_empty() { "none" } else { &all }, context)?;
    }
    Ok(())
}

fn show_function(
    (name, description): (&str, &str),
    effects: &[Effect],
    schema: &Value,
    context: &CommandContext,
) -> Result<(), Error> {
    print_line("function", name, context)?;
    context
        .output
        .line(&in_its_words(description, context.output.columns()))?;
    print_line("effects", &join_effects(effects), context)?;
    let text = serde_json::to_string_pretty(schema).unwrap_or_default();
    print_line("schema", &text.replace('\n', "\n           "), context)
}

fn join_effects(effects: &[Effect]) -> String {
    or_none(Effect::join_names(effects))
}

fn or_none(list: String) -> String {
    if list.is_empty() { "none".to_owned() } else { list }
}
