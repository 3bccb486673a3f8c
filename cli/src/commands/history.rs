//! `tool history` and `tool results`: what past sessions did.

use std::process::ExitCode;

use host::api::{History, SessionResult, Status};

use super::{Context, print_json};
use crate::error::{Error, FAILED};

/// Lists ended sessions.
pub(super) async fn list(json: bool, context: &Context) -> Result<ExitCode, Error> {
    let history: History = context.backend.connect_or_start().await?.get("/api/history").await?;
    if json {
        return print_json(&history, context.output);
    }
    if history.sessions.is_empty() {
        context
            .output
            .notice("No sessions yet.", Some("`tool explain .` makes the first"));
    }
    for session in &history.sessions {
        let status = format!("{:?}", session.status).to_lowercase();
        let started = session.started.format("%Y-%m-%d %H:%M:%S");
        context.output.line(&format!(
            "{}  {started}  {:9}  {:9}  {:>3} files  {}  {}",
            session.id, session.operation, status, session.files_modified, session.provider, session.repository
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one session's result. Its exit code tells how the session ended.
pub(super) async fn result(session: &str, json: bool, context: &Context) -> Result<ExitCode, Error> {
    if !session
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '-')
    {
        return Err(Error::new("usage", format!("Not a session identifier: `{session}`")));
    }
    let path = format!("/api/results/{session}");
    let result: SessionResult = context.backend.connect_or_start().await?.get(&path).await?;
    if json {
        return print_json(&result, context.output);
    }
    context.output.answer(&result.output)?;
    if !result.output.ends_with('\n') {
        context.output.line("")?;
    }
    for path in &result.files_modified {
        context.output.progress(&format!("changed {path}"));
    }
    if !result.report_path.is_empty() {
        context.output.progress(&format!("report {}", result.report_path));
    }
    if let Some(problem) = &result.error {
        context.output.problem(problem);
    }
    let failed = matches!(result.status, Status::Failed | Status::Cancelled);
    Ok(if failed {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}
