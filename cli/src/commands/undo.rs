//! `tool undo`: take back what a session changed.

use std::path::Path;
use std::process::ExitCode;

use host::api::{ErrorKind, Problem, UndoResult};
use host::text::clean_line;

use super::diff::route;
use super::{Context, print_json};
use crate::error::{Error, FAILED};
use crate::output::Output;

/// Takes a session's changes back. Exit code 1 where a file was left as it is.
pub(super) async fn run(session: &str, json: bool, context: &Context) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let route = route("undo", session, &mut client, context).await?;
    let undone: UndoResult = client.post(&route, &serde_json::json!({})).await?;
    let code = if undone.left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    };
    if json {
        return print_json(&undone, context.output).map(|_| code);
    }
    show(&undone, context.output)?;
    Ok(code)
}

fn show(undone: &UndoResult, output: Output) -> Result<(), Error> {
    let root = Path::new(&undone.repository);
    for path in &undone.restored {
        // A file that the session had made is gone again.
        let what = match root.join(path).symlink_metadata() {
            Ok(_) => "restored",
            Err(_) => "removed ",
        };
        output.line(&format!("{what}  {}", clean_line(path)))?;
    }
    for left in &undone.left {
        output.line(&format!("left      {}", clean_line(&left.path)))?;
    }
    if let Some(id) = &undone.undo_session_id {
        let part = if undone.left.is_empty() { "" } else { " in part" };
        output.progress(&format!(
            "the session {} is undone{part}; `tool undo {id}` takes that back",
            undone.session_id
        ));
    }
    for notice in &undone.notices {
        output.notice(notice, None);
    }
    if undone.left.is_empty() {
        return Ok(());
    }
    let files = match undone.left.len() {
        1 => "One file was left as it is".to_owned(),
        count => format!("{count} files were left as they are"),
    };
    let reasons: Vec<&str> = undone.left.iter().map(|left| left.reason.as_str()).collect();
    let mut hint = match undone.left.iter().find_map(|left| left.hint.clone()) {
        Some(hint) => hint,
        None => format!(
            "`tool diff {}` shows what the session had made of it; put that back, or undo it by hand",
            undone.session_id
        ),
    };
    if let Some(next) = &undone.next_session_id {
        hint.push_str(&format!("; `tool undo {next}` takes back an earlier session"));
    }
    let problem = Problem::new(ErrorKind::UndoIncomplete, format!("{files}: {}", reasons.join("; ")));
    output.problem(&problem.with_hint(hint));
    Ok(())
}
