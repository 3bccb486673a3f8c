//! `tool tests`: the commands that run the tests and checks of a repository, and their build output. Starts nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use tool_core::api::ErrorKind;
use tool_core::text::clean_line;
use tool_repository::path::normalise_inside;
use tool_session::plan_tests;
use tool_skill::{PlannedRun, clean_build_caches, read_form};

use super::{CommandContext, format_size, print_json};
use crate::args::{CheckName, TestsArguments, TestsCommand};
use crate::error::Error;

/// Packages of a monorepo that are listed one by one.
const PARTS_MAX: usize = 20;

pub(super) fn run(arguments: TestsArguments, context: &CommandContext) -> Result<ExitCode, Error> {
    let (root, here) = context.places()?;
    let root = root
        .canonicalize()
        .map_err(|error| Error::on_file("Repository", &root, &error))?;
    match arguments.command {
        None => {
            let path = arguments
                .path
                .map(|path| path_in(&root, &here.join(path)))
                .transpose()?;
            list(&root, path.as_deref(), arguments.json, context)
        }
        Some(TestsCommand::Set {
            check,
            results,
            command,
        }) => set(&root, check, results, command, context),
        Some(TestsCommand::Unset { check }) => unset(&root, check, context),
        Some(TestsCommand::Clean) => clean(arguments.json, context),
    }
}

fn path_in(root: &Path, path: &Path) -> Result<String, Error> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inside = real.to_str().and_then(|text| normalise_inside(root, text));
    inside
        .map(|path| if path.is_empty() { ".".to_owned() } else { path })
        .ok_or_else(|| {
            let message = format!("`{}` is not in the repository `{}`", path.display(), root.display());
            Error::new(ErrorKind::Usage, message)
        })
}

fn list(root: &Path, path: Option<&str>, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut planned = plan_tests(&context.backend.home, &context.backend.environment, root, path)?;
    if json {
        return print_json(&planned, context.output);
    }
    let mut parts = 0;
    planned.retain(|run| {
        parts += usize::from(run.paths_only);
        !run.paths_only || parts <= PARTS_MAX
    });
    // A repository with many manifests lacks the same program for each of them.
    let mut said = BTreeSet::new();
    for run in &planned {
        context.output.line(&line(run))?;
        if let Some(missing) = run.missing.as_ref().filter(|missing| said.insert(*missing)) {
            context
                .output
                .line(&format!("        {}", clean_line(&missing.to_string())))?;
        }
    }
    if let more @ 1.. = parts.saturating_sub(PARTS_MAX) {
        let hint = "`tool tests --path PATH` lists what runs for a path, `--json` all";
        let message = format!("{more} more folders have tests that run for paths in them");
        context.output.notice(&message, Some(hint));
    }
    if !planned.iter().any(|run| run.purpose == CheckName::purpose(None)) {
        let hint = "`tool tests set -- COMMAND` names the command that runs them";
        context.output.notice("no sign of tests was found", Some(hint));
    }
    Ok(ExitCode::SUCCESS)
}

/// `tests   pytest in backend (pytest.ini)`.
fn line(run: &PlannedRun) -> String {
    let place = match run.directory.as_str() {
        "" => String::new(),
        directory => format!(" in {directory}"),
    };
    let what = match run.command.as_slice() {
        [] => run.recipe.clone(),
        words => words.join(" "),
    };
    let purpose = run.purpose.name();
    let scope = if run.paths_only { ", for paths there" } else { "" };
    clean_line(&format!("{purpose:6}  {what}{place} ({}){scope}", run.reason))
}

fn set(
    root: &Path,
    check: Option<CheckName>,
    results: Option<String>,
    words: Vec<String>,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    if let Some(form) = &results {
        read_form(form).map_err(|message| Error::new(ErrorKind::Usage, message))?;
    }
    tool_config::set_user_command(&context.backend.home, root, CheckName::purpose(check), words, results)?;
    Ok(ExitCode::SUCCESS)
}

fn unset(root: &Path, check: Option<CheckName>, context: &CommandContext) -> Result<ExitCode, Error> {
    let was_set = tool_config::unset_user_command(&context.backend.home, root, CheckName::purpose(check))?;
    if !was_set {
        context
            .output
            .notice("No command of your own was kept for this repository.", None);
    }
    Ok(ExitCode::SUCCESS)
}

fn clean(json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let cleaned = clean_build_caches(&context.backend.home)
        .map_err(|error| Error::on_file("The build cache", &context.backend.home.join("cache/builds"), &error))?;
    if json {
        return print_json(&cleaned, context.output);
    }
    let stays = match cleaned.in_use {
        0 => String::new(),
        count => format!("; {count} stay, because runs use them"),
    };
    context
        .output
        .line(&format!("freed {} of build output{stays}", format_size(cleaned.bytes)))?;
    Ok(ExitCode::SUCCESS)
}
