//! `tool diff`: the changes of a session, as it left them.

use std::process::ExitCode;

use tool_core::api::ErrorKind;
use tool_core::api::SessionDiff;

use super::history::{connect_to_read, with_beginning};
use super::{CommandContext, path_text, print_json};
use crate::client::{Client, percent_encoded};
use crate::error::Error;

pub(super) async fn show_diff(session: &str, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut client = connect_to_read(context).await?;
    let route = session_route("diff", session, &mut client, context).await?;
    let diff: SessionDiff = match client.get(&route).await {
        Ok(diff) => diff,
        // An empty diff is not an error.
        Err(Error::Problem(problem)) if problem.kind == ErrorKind::NothingChanged => {
            context.output.notice(&problem.message, problem.hint.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error),
    };
    if json {
        return print_json(&diff, context.output);
    }
    let output = context.output;
    output.diff(&diff.diff)?;
    if diff.files.is_empty() {
        output.notice(&format!("The session {} changed no files.", diff.session_id), None);
    }
    if diff.truncated {
        output.notice("The diff is too long to be shown whole.", None);
    }
    for file in &diff.files {
        if let Some(since) = &file.since {
            let verb = if diff.preview { "proposed" } else { "left" };
            let message = format!("`{}`: {since}; the diff shows what the session {verb}", file.path);
            output.notice(&message, None);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The route to a resource of a session. The backend resolves `latest` for this repository.
pub(super) async fn session_route(
    what: &str,
    session: &str,
    client: &mut Client,
    context: &CommandContext,
) -> Result<String, Error> {
    if session != "latest" {
        let id = with_beginning(session, client).await?;
        return Ok(format!("/api/sessions/{id}/{what}"));
    }
    let (root, _) = context.places()?;
    let repository = percent_encoded(&path_text(&root)?);
    Ok(format!("/api/sessions/latest/{what}?repo_path={repository}"))
}
