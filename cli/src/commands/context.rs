//! `tool context`: which files an operation would send to the model, and why.

use std::fmt::Write;
use std::process::ExitCode;

use tool_core::api::ErrorKind;
use tool_core::api::{ContextRequest, ContextResult, Problem, SelectedFile};

use super::{CommandContext, path_text, print_json, selection_request};
use crate::args::Select;
use crate::error::Error;

/// Requests the selection and prints it in one of the three forms.
pub(super) async fn show_context(select: Select, context: &CommandContext) -> Result<ExitCode, Error> {
    if select.task.as_ref().is_some_and(|task| task.trim().is_empty()) {
        let problem = Problem::new(ErrorKind::InvalidRequest, "`tool context` needs a task or a path");
        return Err(problem
            .with_hint(
                "say what is to be done: `tool context \"<task>\"`; without a task it takes the whole repository",
            )
            .into());
    }
    let (root, here) = context.places()?;
    let repo_path = path_text(&root)?;
    let request = ContextRequest {
        operation: select
            .operation
            .parse()
            .map_err(|error| Error::new(ErrorKind::Usage, error))?,
        // No task means everything: the root as a path.
        target: Some(select.task.unwrap_or_else(|| repo_path.clone())),
        repo_path,
        task: None,
        focus: select.focus,
        working_directory: Some(path_text(&here)?),
        selection: selection_request(&select.steer),
    };
    let mut client = context.backend.connect_or_start().await?;
    let result: ContextResult = client.post("/api/context", &request).await?;
    if select.json {
        return print_json(&result, context.output);
    }
    if select.paths {
        for file in &result.selected_files {
            context.output.line(&file.path)?;
        }
        print_notices(&result, context);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.answer(&format_selection(&result))?;
    print_notices(&result, context);
    Ok(ExitCode::SUCCESS)
}

/// Prints the notices of the selection to standard error.
fn print_notices(result: &ContextResult, context: &CommandContext) {
    for notice in &result.notices {
        context.output.notice(notice, None);
    }
}

/// The selection for people: each file with its score, its regions and its reasons, then the near misses.
fn format_selection(result: &ContextResult) -> String {
    let mut text = String::new();
    for file in &result.selected_files {
        describe_file(file, &mut text);
    }
    if !result.notes.is_empty() {
        let _ = writeln!(text, "notes: {}", result.notes.join(", "));
    }
    let _ = writeln!(text, "in all some {} tokens", result.tokens);
    if !result.near_misses.is_empty() {
        text.push_str("\nnearly chosen:\n");
        for file in &result.near_misses {
            describe_file(file, &mut text);
        }
    }
    text
}

fn describe_file(file: &SelectedFile, text: &mut String) {
    let _ = write!(text, "{}", file.path);
    if !file.regions.is_empty() {
        let regions: Vec<String> = file.regions.iter().map(|(from, to)| format!("{from}-{to}")).collect();
        let _ = write!(text, ":{}", regions.join(","));
    }
    let _ = write!(text, "\n  score {:.2}", file.score);
    if file.tokens > 0 {
        let _ = write!(text, ", some {} tokens", file.tokens);
    }
    text.push('\n');
    if file.redacted > 0 {
        let strings = if file.redacted == 1 {
            "string that looks"
        } else {
            "strings that look"
        };
        let _ = writeln!(
            text,
            "  {} {strings} like a key: the model gets placeholders",
            file.redacted
        );
    }
    for reason in &file.reasons {
        let _ = writeln!(text, "  {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_for_people() {
        let file = |path: &str, regions: &[(u32, u32)], tokens| SelectedFile {
            path: path.to_owned(),
            reasons: vec!["defines `retry`".to_owned(), "imported by the entry point".to_owned()],
            score: 1.25,
            regions: regions.to_vec(),
            tokens,
            redacted: 0,
        };
        let config = SelectedFile {
            redacted: 2,
            ..file("config.py", &[], 30)
        };
        let result = ContextResult {
            selected_files: vec![
                file("src/a.py", &[(1, 40), (90, 120)], 900),
                file("README.md", &[], 80),
                config,
            ],
            context: String::new(),
            files_loaded: 3,
            near_misses: vec![file("src/b.py", &[], 0)],
            notes: vec!["plan.md".to_owned()],
            instructions: Vec::new(),
            tokens: 1200,
            notices: Vec::new(),
        };
        insta::assert_snapshot!(format_selection(&result), @r"
        src/a.py:1-40,90-120
          score 1.25, some 900 tokens
          defines `retry`
          imported by the entry point
        README.md
          score 1.25, some 80 tokens
          defines `retry`
          imported by the entry point
        config.py
          score 1.25, some 30 tokens
          2 strings that look like a key: the model gets placeholders
          defines `retry`
          imported by the entry point
        notes: plan.md
        in all some 1200 tokens

        nearly chosen:
        src/b.py
          score 1.25
          defines `retry`
          imported by the entry point
        ");
    }
}
