//! `tool undo`: reverts the changes of a session.

use std::path::Path;
use std::process::ExitCode;

use tool_core::api::{BACK, ChangedFile, ErrorKind, History, HistoryEntry, Problem, SessionDiff, UndoResult};
use tool_core::text::clean_line;

use super::diff::session_route;
use super::history::{short_id, with_beginning};
use super::{CommandContext, print_json, read_yes};
use crate::client::{Client, percent_encoded};
use crate::error::{Error, FAILED};
use crate::output::CommandOutput;

const MERGES_MAX: usize = 50;

/// Reverts the changes of a session, or of all turns of its conversation. Exit code 1 if a file was left as it is.
pub(super) async fn undo_session(
    session: &str,
    whole_conversation: bool,
    merges: bool,
    json: bool,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let id = match session {
        "latest" => newest_changed(json, &mut client, context).await?,
        named => with_beginning(named, &mut client).await?,
    };
    let turns = if whole_conversation {
        changed_turns(&id, &mut client).await?
    } else {
        vec![id]
    };
    let mut results: Vec<UndoResult> = Vec::new();
    for turn in &turns {
        let mut undone = take_back(turn, &[], &mut client).await?;
        let agreed: Vec<String> = undone
            .left
            .iter()
            .filter_map(|left| left.merge_digest.clone())
            .collect();
        if !agreed.is_empty() && agrees_to_merge(&undone, merges, json, context.output).await? {
            let restored = std::mem::take(&mut undone.restored);
            undone = take_back(turn, &agreed, &mut client).await?;
            undone.restored.splice(0..0, restored);
        }
        results.push(undone);
        // A file that a later turn has left would block the undo of an earlier turn.
        if results.last().is_some_and(|undone| !undone.left.is_empty()) {
            break;
        }
    }
    let is_whole = results.iter().all(|undone| undone.left.is_empty());
    let code = if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    };
    match results.as_slice() {
        [undone] if json => print_json(undone, context.output).map(|_| code),
        undone if json => print_json(&undone, context.output).map(|_| code),
        undone => undone
            .iter()
            .try_for_each(|undone| print_undone(undone, context.output))
            .map(|()| code),
    }
}

/// Reverts the changes of one session, and makes the merges whose results have these digests.
async fn take_back(turn: &str, agreed: &[String], client: &mut Client) -> Result<UndoResult, Error> {
    // More digests do not fit into the URL of a request; the other files are reported as left.
    let agreed = agreed.iter().take(MERGES_MAX).map(String::as_str).collect::<Vec<_>>();
    let route = format!("/api/sessions/{turn}/undo?merge={}", agreed.join(","));
    client.post(&route, &serde_json::json!({})).await
}

/// Shows what merges with later edits would do. Asks on a terminal, unless the user gave `--merge`.
async fn agrees_to_merge(
    undone: &UndoResult,
    is_wanted: bool,
    json: bool,
    output: CommandOutput,
) -> Result<bool, Error> {
    if json {
        return Ok(is_wanted);
    }
    let merges: Vec<&str> = undone.left.iter().filter_map(|left| left.merge.as_deref()).collect();
    let files = match merges.len() {
        1 => "One file has".to_owned(),
        count => format!("{count} files have"),
    };
    output.progress(&format!(
        "{files} later edits of other lines. Taking the session's changes back beside them:"
    ));
    for merge in merges {
        output.diff(merge)?;
    }
    if is_wanted || !CommandOutput::can_ask() {
        return Ok(is_wanted);
    }
    output.ask("Do that? [y/N] ");
    Ok(tokio::task::spawn_blocking(read_yes).await.unwrap_or(false))
}

/// The turns of a session's conversation that changed files and are not undone, newest first.
async fn changed_turns(id: &str, client: &mut Client) -> Result<Vec<String>, Error> {
    let history: History = client.get("/api/history").await?;
    let conversation = history.sessions.iter().find(|session| session.id == id);
    let Some(conversation) = conversation.map(|session| session.conversation.clone()) else {
        return Ok(vec![id.to_owned()]);
    };
    let is_changed = |session: &HistoryEntry| {
        session.conversation == conversation && session.files_modified > 0 && session.undone_by.is_none()
    };
    let turns: Vec<String> = history
        .sessions
        .into_iter()
        .filter(is_changed)
        .map(|session| session.id)
        .collect();
    if turns.is_empty() {
        let message = format!("No turn of the conversation `{conversation}` has changes that are not undone");
        return Err(Problem::new(ErrorKind::NothingToUndo, message).into());
    }
    Ok(turns)
}

/// The session that an undo without a name reverts; the command prints it first. If the newest session with changes is
/// undone already, an earlier one is reverted only after a yes on a terminal.
async fn newest_changed(json: bool, client: &mut Client, context: &CommandContext) -> Result<String, Error> {
    let output = context.output;
    let diff: SessionDiff = {
        let route = session_route("diff", "latest", client, context).await?;
        client.get(&route).await?
    };
    let what = describe_changes(&diff);
    if !is_older(&diff, client).await? {
        output.progress(&format!("takes back {what}"));
        return Ok(diff.session_id);
    }
    let message = format!("The changes of the newest session are undone already; the newest one that is not is {what}");
    if json || !CommandOutput::can_ask() {
        let hint = format!("`tool undo {}` takes that one back", diff.session_id);
        return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
    }
    output.ask(&format!("{message}.\nTake that one back? [y/N] "));
    if tokio::task::spawn_blocking(read_yes).await.unwrap_or(false) {
        return Ok(diff.session_id);
    }
    Err(Problem::new(ErrorKind::Declined, "Nothing was undone").into())
}

/// True if a later session changed files of the same repository. It is undone, or it would have been chosen.
async fn is_older(chosen: &SessionDiff, client: &mut Client) -> Result<bool, Error> {
    let repository = percent_encoded(&chosen.repository);
    for operation in ["", "&operation=skill-call"] {
        let history: History = client
            .get(&format!("/api/history?repo_path={repository}{operation}"))
            .await?;
        let mut later = history.sessions.iter().filter(|session| session.id > chosen.session_id);
        if later.any(|session| session.files_modified > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The session and its files in a few words.
fn describe_changes(diff: &SessionDiff) -> String {
    // After a partial undo, the reverted files are not reverted again.
    let files: Vec<&ChangedFile> = diff
        .files
        .iter()
        .filter(|file| file.since.as_deref() != Some(BACK))
        .collect();
    let (added, removed) = files.iter().fold((0, 0), |(added, removed), file| {
        (added + file.added, removed + file.removed)
    });
    let files = match files.as_slice() {
        [file] => format!("`{}`", clean_line(&file.path)),
        files => format!("{} files", files.len()),
    };
    format!(
        "the session {}: {files} (+{added} -{removed})",
        short_id(&diff.session_id)
    )
}

fn print_undone(undone: &UndoResult, output: CommandOutput) -> Result<(), Error> {
    let root = Path::new(&undone.repository);
    for path in &undone.restored {
        // A file that the session had created is removed again.
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
        None if undone.left.iter().any(|left| left.merge.is_some()) => format!(
            "`tool undo --merge {}` takes the session's changes back beside your later edits, as shown",
            undone.session_id
        ),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::api::ChangeKind;

    #[test]
    fn a_second_undo_announces_only_what_is_not_back_yet() {
        let file = |path: &str, since: Option<&str>| ChangedFile {
            path: path.to_owned(),
            kind: ChangeKind::Modified,
            added: 2,
            removed: 1,
            is_text: true,
            since: since.map(str::to_owned),
        };
        let mut diff = SessionDiff {
            session_id: "01a1f88f-0000-7000-8000-000000000000".to_owned(),
            repository: "/work".to_owned(),
            diff: String::new(),
            truncated: false,
            preview: false,
            files: vec![file("a.py", None), file("b.py", Some("it has been changed since"))],
        };
        assert!(
            describe_changes(&diff).ends_with(": 2 files (+4 -2)"),
            "{}",
            describe_changes(&diff)
        );
        diff.files[0].since = Some(BACK.to_owned());
        assert!(
            describe_changes(&diff).ends_with(": `b.py` (+2 -1)"),
            "{}",
            describe_changes(&diff)
        );
    }
}
