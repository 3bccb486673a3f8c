//! `tool history` and `tool results`: what past sessions did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::api::{History, HistoryEntry, Problem, SessionResult, Status, Tasks};

use super::{Context, openable, print_json};
use crate::args;
use crate::client::{Client, percent_encoded};
use crate::error::{Error, FAILED};

/// Columns that a line of the list takes before the model; narrower terminals get two lines a session.
const LINE_COLUMNS: usize = 110;

/// Lists ended sessions.
pub(super) async fn list(filter: &args::History, context: &Context) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let mut history: History = client.get(&format!("/api/history{}", query(filter))).await?;
    if let Some(repo) = &context.repo {
        let root = canonical(repo)?;
        history
            .sessions
            .retain(|session| Path::new(&session.repository) == root);
    }
    if let Some(limit) = filter.limit {
        history.sessions.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    if filter.json {
        return print_json(&history, context.output);
    }
    if history.sessions.is_empty() {
        say_empty(filter, context);
    }
    let narrow = context.output.columns().is_some_and(|columns| columns < LINE_COLUMNS);
    for session in &history.sessions {
        context.output.line(&row(session, narrow))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn say_empty(filter: &args::History, context: &Context) {
    let is_filtered = filter.model.is_some() || filter.operation.is_some() || filter.status.is_some();
    let (message, hint) = match (is_filtered, &context.repo) {
        (true, _) => ("No session is like that.", "`tool history` without filters shows all"),
        (false, Some(_)) => (
            "No session of this repository has ended.",
            "`tool history` without `--repo` shows all",
        ),
        (false, None) => ("No session has ended yet.", "`tool explain .` makes the first"),
    };
    context.output.notice(message, Some(hint));
}

/// The filters as query parameters.
fn query(filter: &args::History) -> String {
    let pairs = [
        ("model", filter.model.as_deref()),
        ("operation", filter.operation.map(args::OperationName::name)),
        ("status", filter.status.map(args::StatusName::name)),
    ];
    let mut query = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(&format!("{name}={}", percent_encoded(value)));
        }
    }
    query
}

fn canonical(repo: &Path) -> Result<PathBuf, Error> {
    repo.canonicalize()
        .map_err(|error| Error::file("Repository", repo, &error))
}

fn row(session: &HistoryEntry, narrow: bool) -> String {
    let status = format!("{:?}", session.status).to_lowercase();
    let started = session.started.format("%Y-%m-%d %H:%M:%S");
    let files = match session.files_modified {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    if narrow {
        let HistoryEntry {
            id,
            operation,
            provider,
            repository,
            ..
        } = session;
        return format!("{id}\n  {started}  {operation}  {status}  {files}\n  {provider}\n  {repository}");
    }
    format!(
        "{}  {started}  {:9}  {status:9}  {files:>8}  {}  {}",
        session.id, session.operation, session.provider, session.repository
    )
}

/// Shows one session's result. Its exit code tells how the session ended.
pub(super) async fn result(session: &str, json: bool, context: &Context) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let id = match session {
        "latest" => latest(&mut client, context).await?,
        beginning => with_beginning(beginning, &mut client).await?,
    };
    let result: SessionResult = client.get(&format!("/api/results/{id}")).await?;
    if json {
        return print_json(&result, context.output);
    }
    context.output.markdown(&result.output)?;
    for path in &result.files_modified {
        context.output.progress(&format!("changed {path}"));
    }
    if result.status == Status::Running {
        context.output.progress("the session is still running");
    }
    if let Some(place) = report_place(&result, &mut client).await? {
        context
            .output
            .progress(&format!("report {}", openable(&place).display()));
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

/// The newest ended session of this repository.
async fn latest(client: &mut Client, context: &Context) -> Result<String, Error> {
    let (root, _) = context.places()?;
    let root = root.canonicalize().unwrap_or(root);
    let history: History = client.get("/api/history").await?;
    let newest = history
        .sessions
        .into_iter()
        .find(|session| Path::new(&session.repository) == root);
    newest.map(|session| session.id).ok_or_else(|| {
        Problem::new(
            "not-found",
            format!("No session of the repository `{}` has ended", root.display()),
        )
        .with_hint("`tool history` shows the sessions of all repositories")
        .into()
    })
}

/// The one session whose identifier begins so, among the last ones.
pub(super) async fn with_beginning(beginning: &str, client: &mut Client) -> Result<String, Error> {
    let is_identifier = |character: char| character.is_ascii_hexdigit() || character == '-';
    if beginning.is_empty() || !beginning.chars().all(is_identifier) {
        return Err(
            Problem::new("usage", format!("Not a session identifier: `{beginning}`"))
                .with_hint("`tool history` shows them; `latest` is the newest of this repository")
                .into(),
        );
    }
    // A whole one may be of a call of one skill, which no list holds.
    if beginning.len() == WHOLE_IDENTIFIER {
        return Ok(beginning.to_owned());
    }
    let tasks: Tasks = client.get("/api/tasks").await?;
    let history: History = client.get("/api/history").await?;
    let running = tasks.tasks.into_iter().map(|task| task.session_id);
    let mut found: Vec<String> = running
        .chain(history.sessions.into_iter().map(|session| session.id))
        .filter(|id| id.starts_with(&beginning.to_ascii_lowercase()))
        .collect();
    found.sort();
    found.dedup();
    match &mut found[..] {
        [id] => Ok(std::mem::take(id)),
        [] => Err(Problem::new(
            "not-found",
            format!("No session's identifier begins with `{beginning}`"),
        )
        .with_hint("`tool history` shows them")
        .into()),
        [first, second, ..] => Err(Problem::new(
            "usage",
            format!("`{beginning}` is the beginning of more than one session's identifier"),
        )
        .with_hint(format!("for example of `{first}` and `{second}`"))
        .into()),
    }
}

/// Characters of an identifier.
const WHOLE_IDENTIFIER: usize = 36;

/// Where the report lies. A path relative to the repository means nothing without the repository, which the history
/// knows.
async fn report_place(result: &SessionResult, client: &mut Client) -> Result<Option<PathBuf>, Error> {
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
            limit: None,
            json: false,
        };
        assert_eq!(
            query(&filter),
            "?model=vendor%2Fgr%C3%B6%C3%9Fe%20%26%20co&operation=test-gen"
        );
    }
}
