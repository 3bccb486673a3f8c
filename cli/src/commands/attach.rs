//! `tool attach` and `tool cancel`: running sessions, also those that were started elsewhere.

use std::path::Path;
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Event, Problem, SessionResult, Status, TaskEntry, Tasks};

use super::follow::{EventFollower, WaitState};
use super::history::{report_place, with_beginning};
use super::operation::{say_commands_after, show_event, with_way_back};
use super::{CommandContext, openable_path};
use crate::client::Client;
use crate::error::Error;
use crate::output::AnswerWriter;

/// Follows a session from its first event to its end. The exit code is that of its operation.
pub(super) async fn attach_session(session: &str, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let output = context.output;
    let mut client = context.backend.connect_running().await?;
    let id = identify_session(session, &mut client, context).await?;
    let path = format!("/api/stream/{id}?form=reference");
    let mut other = client.another().await?;
    let mut events = EventFollower::new(
        other.events(&path).await?,
        WaitState::for_operation("the model".to_owned(), output),
    )?;
    let mut answer = if json {
        AnswerWriter::unrendered()
    } else {
        AnswerWriter::on_standard_output(output)
    };
    let last = loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Err(events.ended_early().await),
            Err(error) => {
                if matches!(error, Error::Interrupted) {
                    let hint = format!("`tool attach {id}` follows it again, `tool cancel {id}` ends it");
                    output.notice(&format!("The session {id} continues."), Some(&hint));
                }
                return Err(error);
            }
        };
        if json {
            answer.piece(&format!("{}\n", serde_json::to_string(&event).unwrap_or_default()))?;
        } else if matches!(event, Event::Approval { .. }) {
            answer.pause()?;
            output.notice(
                "The session waits for an answer: give it in the terminal that started the session.",
                None,
            );
        } else {
            show_event(&event, &mut answer, output)?;
        }
        if matches!(event, Event::Complete { .. } | Event::Error { .. }) {
            break event;
        }
    };
    let result = if json {
        None
    } else {
        let path = format!("/api/results/{id}?output=0");
        client.get::<SessionResult>(&path).await.ok()
    };
    answer.end()?;
    if let Some(result) = &result {
        say_commands_after(result, output);
        say_report(result, &mut client, context).await;
    }
    match last {
        Event::Error {
            code: kind,
            message,
            hint,
        } => {
            let exit = ExitCode::from(kind.exit_code());
            if !json {
                let problem = Problem {
                    hint,
                    ..Problem::new(kind, message)
                };
                output.problem(&with_way_back(problem, result.as_ref()));
            }
            Ok(exit)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

async fn say_report(result: &SessionResult, client: &mut Client, context: &CommandContext) {
    // If the place is unknown, this line is omitted. The exit code does not depend on it.
    if let Ok(Some(place)) = report_place(result, client).await {
        context
            .output
            .progress(&format!("report {}", openable_path(&place).display()));
    }
}

pub(super) async fn cancel_session(session: &str, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_running().await?;
    let id = identify_session(session, &mut client, context).await?;
    client.delete(&format!("/api/sessions/{id}")).await?;
    let hint = format!("`tool results {id}` shows what there is of the answer, `tool undo {id}` takes changes back");
    context.output.line(&format!("The session {id} is cancelled."))?;
    context.output.progress(&format!("hint: {hint}"));
    Ok(ExitCode::SUCCESS)
}

async fn identify_session(session: &str, client: &mut Client, context: &CommandContext) -> Result<String, Error> {
    match session {
        "latest" => latest_running(client, context).await,
        beginning => with_beginning(beginning, client).await,
    }
}

/// The newest running session of this repository.
async fn latest_running(client: &mut Client, context: &CommandContext) -> Result<String, Error> {
    let (root, _) = context.places()?;
    let root = root.canonicalize().unwrap_or(root);
    let under_way = running_sessions(client).await?;
    let newest = under_way.into_iter().find(|task| Path::new(&task.repository) == root);
    newest.map(|task| task.session_id).ok_or_else(|| {
        let message = format!("No session of the repository `{}` is under way", root.display());
        let hint = "`tool history` shows the sessions of all repositories, those under way first";
        Problem::new(ErrorKind::NothingFound, message).with_hint(hint).into()
    })
}

/// The running sessions, newest first.
pub(super) async fn running_sessions(client: &mut Client) -> Result<Vec<TaskEntry>, Error> {
    let tasks: Tasks = client.get("/api/tasks?status=running").await?;
    Ok(tasks
        .tasks
        .into_iter()
        .filter(|task| task.status == Status::Running)
        .collect())
}
