//! `tool history` and `tool results`: running and ended sessions.

mod rows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tool_core::api::{Activity, ErrorKind, History, Problem, SessionResult, SessionUsage, Status, TaskEntry, Tasks};
use tool_core::limits::HISTORY_ENTRIES_MAX;

use super::{CommandContext, openable_path, path_text, print_json};
use crate::args;
use crate::client::{Client, percent_encoded};
use crate::error::{Error, FAILED};
use rows::RowSettings;
pub(super) use rows::short_id;

/// Output of `--json`: the answer of GET /history, and the running sessions.
#[derive(Serialize)]
struct SessionList {
    #[serde(flatten)]
    history: History,
    running: Vec<TaskEntry>,
}

/// Lists sessions, the running ones first.
pub(super) async fn list_sessions(filter: &args::History, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut client = connect_to_read(context).await?;
    let root = context.repo.as_deref().map(canonical_root).transpose()?;
    let query = filter_query(filter, root.as_deref())?;
    let mut history: History = client.get(&format!("/api/history{query}")).await?;
    let running: Tasks = client.get(&format!("/api/tasks{query}")).await?;
    let mut running = running.tasks;
    running.retain(|task| task.status == Status::Running);
    if let Some(limit) = filter.limit {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        running.truncate(limit);
        history.sessions.truncate(limit - running.len());
    }
    if filter.json {
        return print_json(&SessionList { history, running }, context.output);
    }
    if history.sessions.is_empty() && running.is_empty() {
        say_empty(filter, context);
    }
    let here = context.places().ok().and_then(|(root, _)| root.canonicalize().ok());
    let rows = RowSettings {
        here: here.map(|root| root.to_string_lossy().into_owned()),
        columns: context.output.columns(),
        now: tool_core::api::current_time(),
    };
    for line in rows.lines(&history.sessions, &running) {
        context.output.line(&line)?;
    }
    if let Some(task) = running.first() {
        let id = &task.session_id;
        let hint = format!("hint: `tool attach {id}` follows it, `tool cancel {id}` ends it");
        context.output.progress(&hint);
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects to a backend to read from. If none can be started, the error tells the user where the answer is stored.
pub(super) async fn connect_to_read(context: &CommandContext) -> Result<Client, Error> {
    context.backend.connect_or_start().await.map_err(|error| match error {
        Error::Problem(problem) if problem.kind == ErrorKind::PortInUse => {
            let folder = context.backend.home.join("sessions");
            let hint = problem.hint.clone().unwrap_or_default();
            let more = format!(
                "{hint}; what past sessions did is asked of the backend, and kept in {}",
                folder.display()
            );
            problem.with_hint(more).into()
        }
        error => error,
    })
}

fn say_empty(filter: &args::History, context: &CommandContext) {
    let is_filtered = filter.model.is_some() || filter.operation.is_some() || filter.status.is_some();
    let (message, hint) = match (is_filtered, &context.repo) {
        (true, _) => ("No session matches.", "`tool history` without filters shows all"),
        (false, Some(_)) => (
            "This repository has no sessions.",
            "`tool history` without `--repo` shows all",
        ),
        (false, None) => ("There is no session yet.", "`tool explain .` makes the first"),
    };
    context.output.notice(message, Some(hint));
}

/// The filters as query parameters. A limit that exceeds the length of a list means the whole list.
fn filter_query(filter: &args::History, root: Option<&Path>) -> Result<String, Error> {
    let limit = filter
        .limit
        .map(|limit| limit.min(HISTORY_ENTRIES_MAX as u32).to_string());
    let root = root.map(path_text).transpose()?;
    Ok(join_parameters(&[
        ("model", filter.model.as_deref()),
        ("operation", filter.operation.map(args::OperationName::name)),
        ("status", filter.status.map(args::StatusName::name)),
        ("repo_path", root.as_deref()),
        ("limit", limit.as_deref()),
    ]))
}

/// A query of the parameters that have a value.
fn join_parameters(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(&format!("{name}={}", percent_encoded(value)));
        }
    }
    query
}

fn canonical_root(repo: &Path) -> Result<PathBuf, Error> {
    repo.canonicalize()
        .map_err(|error| Error::on_file("Repository", repo, &error))
}

/// Shows one session's result. Its exit code tells how the session ended.
pub(super) async fn show_result(session: &str, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut client = connect_to_read(context).await?;
    let id = match session {
        "latest" => latest_ended(&mut client, context).await?,
        beginning => with_beginning(beginning, &mut client).await?,
    };
    let result: SessionResult = client.get(&format!("/api/results/{id}")).await?;
    if json {
        print_json(&result, context.output)?;
        return Ok(exit_code(&result));
    }
    context.output.markdown(&result.output)?;
    for path in &result.files_modified {
        context.output.progress(&format!("changed {path}"));
    }
    for path in &result.files_proposed {
        context.output.progress(&format!("proposes {path}"));
    }
    if let Some(usage) = &result.usage {
        context.output.progress(&usage_line(usage));
    }
    if result.status == Status::Running {
        let hint = format!("the session is still running: `tool attach {id}` follows it, `tool cancel {id}` ends it");
        context.output.progress(&hint);
    }
    if let Some(place) = report_place(&result, &mut client).await? {
        context
            .output
            .progress(&format!("report {}", openable_path(&place).display()));
    }
    if let Some(problem) = &result.error {
        context.output.problem(problem);
    }
    Ok(exit_code(&result))
}

/// Tokens and cost of a session in one line.
fn usage_line(usage: &SessionUsage) -> String {
    let cached = match usage.cached_tokens {
        0 => String::new(),
        cached => format!(" ({cached} from the cache)"),
    };
    let estimated = if usage.estimated { " (estimated)" } else { "" };
    let cost = usage.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    format!("tokens {input} in{cached}, {output} out{estimated}{cost}")
}

fn exit_code(result: &SessionResult) -> ExitCode {
    match result.status {
        Status::Failed | Status::Cancelled => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// The newest ended session of this repository that has a result.
pub(super) async fn latest_ended(client: &mut Client, context: &CommandContext) -> Result<String, Error> {
    let (root, _) = context.places()?;
    let root = root.canonicalize().unwrap_or(root);
    let query = join_parameters(&[("repo_path", Some(&path_text(&root)?))]);
    let history: History = client.get(&format!("/api/history{query}")).await?;
    history
        .sessions
        .into_iter()
        .find(|session| !matches!(session.operation, Activity::Mcp | Activity::Apply))
        .map(|session| session.id)
        .ok_or_else(|| {
            Problem::new(
                ErrorKind::NothingFound,
                format!("No session of the repository `{}` has ended", root.display()),
            )
            .with_hint("`tool history` shows the sessions of all repositories")
            .into()
        })
}

/// The session whose identifier begins or ends with this text, among the last ones: identifiers of one hour share their
/// beginning.
pub(super) async fn with_beginning(beginning: &str, client: &mut Client) -> Result<String, Error> {
    let is_identifier = |character: char| character.is_ascii_hexdigit() || character == '-';
    if beginning.is_empty() || !beginning.chars().all(is_identifier) {
        return Err(
            Problem::new(ErrorKind::Usage, format!("Not a session identifier: `{beginning}`"))
                .with_hint("`tool history` shows them; `latest` is the newest of this repository")
                .into(),
        );
    }
    // A whole identifier may belong to an undo, which is in no list.
    if beginning.len() == WHOLE_IDENTIFIER {
        return Ok(beginning.to_owned());
    }
    let mut found: Vec<String> = Vec::new();
    for query in ["", "?operation=skill-call"] {
        let tasks: Tasks = client.get(&format!("/api/tasks{query}")).await?;
        let history: History = client.get(&format!("/api/history{query}")).await?;
        found.extend(tasks.tasks.into_iter().map(|task| task.session_id));
        found.extend(history.sessions.into_iter().map(|session| session.id));
    }
    let part = beginning.to_ascii_lowercase();
    let is_end = part.len() >= END_CHARACTERS_MIN;
    found.retain(|id| id.starts_with(&part) || (is_end && id.ends_with(&part)));
    found.sort();
    found.dedup();
    match &mut found[..] {
        [id] => Ok(std::mem::take(id)),
        [] => Err(Problem::new(
            ErrorKind::NotFound,
            format!("The history has no session whose identifier begins or ends with `{beginning}`"),
        )
        .with_hint("`tool history` shows them; the identifier of an undo has to be given whole")
        .into()),
        [first, second, ..] => Err(Problem::new(
            ErrorKind::Usage,
            format!("`{beginning}` is a part of more than one session's identifier"),
        )
        .with_hint(format!("for example of `{first}` and `{second}`"))
        .into()),
    }
}

/// Fewest characters of an end; a shorter one would match too many sessions.
const END_CHARACTERS_MIN: usize = 6;

const WHOLE_IDENTIFIER: usize = 36;

/// Path of the report. A relative path is relative to the repository, which the history has.
pub(super) async fn report_place(result: &SessionResult, client: &mut Client) -> Result<Option<PathBuf>, Error> {
    let path = Path::new(&result.report_path);
    if result.report_path.is_empty() || path.is_absolute() {
        return Ok(Some(path.to_owned()).filter(|path| !path.as_os_str().is_empty()));
    }
    let history: History = client.get("/api/history").await?;
    let entry = history
        .sessions
        .into_iter()
        .find(|session| session.id == result.session_id);
    Ok(Some(entry.map_or_else(
        || path.to_owned(),
        |entry| Path::new(&entry.repository).join(path),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_query_parameters() {
        let filter = args::History {
            model: Some("vendor/größe & co".into()),
            operation: Some(args::OperationName::TestGen),
            status: None,
            limit: Some(5_000),
            json: false,
        };
        assert_eq!(
            filter_query(&filter, Some(Path::new("/home/me/a b"))).expect("it is UTF-8"),
            "?model=vendor%2Fgr%C3%B6%C3%9Fe%20%26%20co&operation=test-gen&repo_path=%2Fhome%2Fme%2Fa%20b&limit=100"
        );
    }
}
