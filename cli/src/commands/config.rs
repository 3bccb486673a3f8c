//! `tool config`: every setting, its value and its origin. Starts nothing.

use std::path::Path;
use std::process::ExitCode;

use host::daemon;
use serde_json::Value;
use tool_config::{FileState, Inspection, Setting, ValueOrigin};
use tool_repository::RepositoryRules;
use tool_session::preflight::run_preflight;

use super::skill::agreements::{AgreementFinding, IDENTITIES, LOCK};
use super::{CommandContext, print_json, skill};
use crate::error::Error;
use crate::output::CommandOutput;

/// Shows the configuration. The exit code says whether operations can start with it.
pub(super) fn show_config(json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let mut inspection = tool_config::inspect_config(home, environment);
    inspection.settings.extend(of_the_command_line(context)?);
    let (root, _) = context.places()?;
    let found = run_preflight(home, environment, &root);
    let home_problem = daemon::check_home(home).err();
    inspection.problem = home_problem.or(inspection.problem).or(found.configuration);
    inspection.warnings.extend(found.warnings);
    match found.root_file {
        Some((place, Ok(narrowing))) => inspection.settings.extend(of_the_repository(&place, &narrowing)),
        Some((_, Err(problem))) => inspection.problem = inspection.problem.or(Some(problem)),
        None => {}
    }
    for (name, finding) in skill::agreements::check_agreements(&root, context) {
        match finding {
            // The accepted signers are listed among the settings.
            AgreementFinding::Fine(_) if name == IDENTITIES => {}
            AgreementFinding::Fine(detail) => inspection.settings.push(Setting::new(
                "repository.skills",
                detail,
                ValueOrigin::File(root.join(LOCK)),
            )),
            AgreementFinding::Odd(problem) => inspection.warnings.push(problem),
            AgreementFinding::Wrong(problem) => inspection.problem = inspection.problem.or(Some(problem)),
        }
    }
    if json {
        print_json(&inspection, context.output)?;
    } else {
        print_inspection(&inspection, context.output)?;
    }
    Ok(match &inspection.problem {
        Some(problem) => ExitCode::from(problem.kind.exit_code()),
        None => ExitCode::SUCCESS,
    })
}

/// Settings that come from the flags and the working directory.
fn of_the_command_line(context: &CommandContext) -> Result<[Setting; 1], Error> {
    let (root, _) = context.places()?;
    let origin = match context.repo {
        Some(_) => ValueOrigin::Flag("--repo"),
        None => ValueOrigin::Default,
    };
    Ok([Setting::new("repository", root.to_string_lossy(), origin)])
}

/// Settings that the repository's own file narrows; it cannot widen them.
fn of_the_repository(place: &Path, narrowing: &RepositoryRules) -> Vec<Setting> {
    let origin = || ValueOrigin::File(place.to_owned());
    let mut settings: Vec<Setting> = narrowing
        .lists()
        .map(|(key, list)| Setting::new(format!("repository.policy.{key}"), list.to_vec(), origin()))
        .collect();
    let words = [
        ("require_sandbox", narrowing.require_sandbox),
        ("untrusted", narrowing.untrusted),
    ];
    for (key, _) in words.into_iter().filter(|(_, is_set)| *is_set) {
        settings.push(Setting::new(format!("repository.policy.{key}"), true, origin()));
    }
    settings
}

fn print_inspection(inspection: &Inspection, output: CommandOutput) -> Result<(), Error> {
    let state = match inspection.state {
        FileState::Missing => "  (missing)",
        FileState::Read => "",
        FileState::Broken => "  (broken: only what the environment and flags set is shown)",
    };
    output.line(&format!("{}{state}\n", inspection.file.display()))?;
    for line in format_settings(&inspection.settings, output.columns()) {
        output.line(&line)?;
    }
    if !inspection.forwarded.is_empty() {
        output.line(&format!("\nsessions also get  {}", inspection.forwarded.join(", ")))?;
    }
    for warning in &inspection.warnings {
        output.warning(warning);
    }
    if let Some(problem) = &inspection.problem {
        output.problem(problem);
    }
    Ok(())
}

/// Key, value and origin in columns, or on separate lines if the terminal is too narrow.
fn format_settings(settings: &[Setting], columns: Option<usize>) -> Vec<String> {
    let shown: Vec<(&str, String, String)> = settings.iter().map(format_setting).collect();
    let widest = |measure: fn(&(&str, String, String)) -> usize| shown.iter().map(measure).max().unwrap_or(0);
    let key_columns = widest(|(key, _, _)| key.chars().count());
    // A long value shifts only its own origin, not those of the other lines.
    let value_columns = widest(|(_, value, _)| value.chars().count()).min(40);
    let origin_columns = widest(|(_, _, origin)| origin.chars().count());
    if columns.is_some_and(|columns| columns < key_columns + value_columns + origin_columns + 4) {
        return shown
            .into_iter()
            .map(|(key, value, origin)| format!("{key}\n  {value}\n  {origin}").trim_end().to_owned())
            .collect();
    }
    shown
        .into_iter()
        .map(|(key, value, origin)| {
            format!("{key:key_columns$}  {value:value_columns$}  {origin}")
                .trim_end()
                .to_owned()
        })
        .collect()
}

fn format_setting(setting: &Setting) -> (&str, String, String) {
    let value = match &setting.value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let origin = setting.origin.to_string();
    match setting.secret {
        true => (&setting.key, format!("{value}, {origin}"), String::new()),
        false if setting.value.is_null() => (&setting.key, value, String::new()),
        false => (&setting.key, value, origin),
    }
}
