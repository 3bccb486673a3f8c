//! Previews: sessions that change files in a private layer, and their proposals.
//!
//! The journal of a preview records its changes like that of any session, and its start says that they are proposals.
//! The changes of earlier turns are its first change, so that one journal holds all proposals of a preview. The layer
//! exists only while the session runs. Applying proposals is a session, which can be undone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::request::{merge_policies, open_repository};
use super::run::SessionOutcome;
use super::session_store::{journal_problem, open_again};
use super::{Sessions, run_blocking, unknown_session};
use crate::limits;
use tool_config::PolicySettings;
use tool_core::api::{self, Action, ApplyRequest, ApplyResult, DiscardResult, ErrorKind, Operation, Problem, Status};
use tool_core::text::{quote_names, visible_name};
use tool_journal::feed::Recorder;
use tool_journal::history::{FileMark, SessionSummary};
use tool_journal::journal::{SessionFolder, SessionWork, StartRecord, TurnBinding};
use tool_repository::Repository;
use tool_repository::changes::{FileChange, FileState};
use tool_repository::layer::{self, Layer};
use tool_repository::normalise_path;
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::stage::{PreviewRefused, commit_previewed};
use tool_skill::{CallContext, Failure};

/// Name of the folder for layers in a home.
const LAYERS_FOLDER: &str = "layers";

/// Limit for the files that an error names.
const FILES_NAMED_MAX: usize = 12;

/// Removes the layers of a dead daemon. Its sessions are closed, and their journals hold the proposals.
pub(super) fn remove_layers(home: &Path) {
    if let Err(error) = layer::remove_layer(&home.join(LAYERS_FOLDER)) {
        tracing::warn!(%error, "the layers of earlier previews could not be removed");
    }
}

/// Creates the empty layer of a session.
pub(super) fn create_layer(home: &Path, session_id: &str) -> Result<Arc<Layer>, Problem> {
    let folder = home.join(LAYERS_FOLDER);
    let created =
        tool_journal::journal::create_private_folder(&folder).and_then(|()| Layer::create(&folder.join(session_id)));
    created.map_err(|error| not_kept(&error))
}

/// The problem with a preview whose files cannot be stored.
pub(super) fn not_kept(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(
        ErrorKind::JournalFailed,
        format!("The files of the preview cannot be kept: {error}"),
    )
    .with_hint("make room, and check that TOOL_HOME (without it ~/.tool) may be written")
}

/// Proposals that a turn takes over from the session that it continues.
#[derive(Debug, Default)]
pub(super) struct InheritedLayer {
    /// True if the turn is a preview as well.
    pub(super) is_preview: bool,
    /// Proposals that are not applied yet.
    pub(super) files: Vec<FileChange>,
}

impl InheritedLayer {
    /// Reads the proposals of a session that are not in the repository yet. A preview continues until all its
    /// proposals are applied, or it is discarded. Blocks.
    pub(super) fn read_proposed(last: &SessionSummary, folder: &SessionFolder, home: &Path) -> Result<Self, Problem> {
        if !last.start.preview || last.is_discarded {
            return Ok(Self::default());
        }
        let proposed = net_proposals(folder)?;
        let repository = open_again(last, home)?;
        let had_some = !proposed.is_empty();
        let mut files = proposed;
        files.retain(|file| !is_at(&repository, file, file.after.as_ref()));
        Ok(Self {
            is_preview: !had_some || !files.is_empty(),
            files,
        })
    }

    /// A notice about files that have changed in the repository since the proposals were made.
    pub(super) fn notice(&self, repository: &Repository) -> Option<(String, String)> {
        let is_changed = |file: &&FileChange| !is_in_tree(repository, file);
        let changed: Vec<&str> = self
            .files
            .iter()
            .filter(is_changed)
            .map(|file| file.path.as_str())
            .collect();
        (!changed.is_empty()).then(|| {
            (
                format!(
                    "Changed in the repository since they were proposed: {}",
                    quote_names(changed.iter().copied(), FILES_NAMED_MAX)
                ),
                "the preview works with its own state of them, and they will be refused when it is applied".to_owned(),
            )
        })
    }
}

/// True if the tree without the layer is what a proposal began with.
fn is_in_tree(repository: &Repository, file: &FileChange) -> bool {
    let current = tool_repository::changes::read_state(repository.handle(), &file.path, limits::REPLACED_BYTES_MAX);
    current.is_ok_and(|current| file_mark(current.as_ref()) == file_mark(file.before.as_ref()))
}

fn is_at(repository: &Repository, file: &FileChange, state: Option<&FileState>) -> bool {
    let current = repository.current(&file.path, limits::REPLACED_BYTES_MAX);
    current.is_ok_and(|current| file_mark(current.as_ref()) == file_mark(state))
}

fn file_mark(state: Option<&FileState>) -> Option<FileMark> {
    state.map(FileMark::from)
}

/// The net proposals of a session. Blocks.
fn net_proposals(folder: &SessionFolder) -> Result<Vec<FileChange>, Problem> {
    let lines = folder.changes().map_err(|error| journal_problem(&error))?;
    let net: io::Result<Vec<FileChange>> = folder.net(&lines).collect();
    net.map_err(|error| journal_problem(&error))
}

impl Sessions {
    /// Finds the newest preview with proposals in a repository.
    ///
    /// # Errors
    ///
    /// No preview of the repository has proposals.
    pub async fn newest_preview(&self, repository: &str) -> Result<String, Problem> {
        let (summaries, repository) = (self.summaries(), repository.to_owned());
        run_blocking(move || {
            let root = std::fs::canonicalize(&repository).unwrap_or_else(|_| PathBuf::from(&repository));
            let is_it = |summary: &&SessionSummary| {
                Path::new(&summary.start.repository) == root && !summary.files_proposed().is_empty()
            };
            let found = summaries.values().rev().find(is_it);
            found.map(|summary| summary.id().to_owned()).ok_or_else(|| {
                let message = format!("No preview has proposed changes in `{}`", root.display());
                Problem::new(ErrorKind::NothingChanged, message).with_action(Action::MakePreview)
            })
        })
        .await
    }

    /// Applies proposals of a preview, as a new session. Completes even if the caller goes away.
    ///
    /// # Errors
    ///
    /// The preview cannot be applied, or a file has changed since.
    pub async fn apply(
        self: &Arc<Self>,
        id: &str,
        request: ApplyRequest,
        settings: PolicySettings,
    ) -> Result<ApplyResult, Problem> {
        let summary = self.ended_preview(id)?;
        check_whole(&summary, request.partial)?;
        let mut place = self.take_place()?;
        place.claim(summary.start.conversation())?;
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let applied = sessions.put_in_place(&summary, &request, &settings);
            drop(place);
            applied
        })
        .await
    }

    fn put_in_place(
        &self,
        summary: &SessionSummary,
        request: &ApplyRequest,
        settings: &PolicySettings,
    ) -> Result<ApplyResult, Problem> {
        let options = self.repository_options(settings, &CancellationToken::new());
        let repository = open_repository(&summary.start.repository, &options)?;
        let proposed = net_proposals(&self.store.folder(summary.id()))?;
        if proposed.is_empty() {
            return Err(nothing_to_apply(summary, "proposes no changes"));
        }
        let count = proposed.len();
        let (wanted, left) = split_proposals(proposed, &request.paths)?;
        let (unchanged, open): (Vec<FileChange>, Vec<FileChange>) = wanted
            .into_iter()
            .partition(|file| is_at(&repository, file, file.after.as_ref()));
        if open.is_empty() {
            return Err(nothing_to_apply(
                summary,
                "is applied already: the files are as it proposes",
            ));
        }
        let apply = self.begin_apply(summary)?;
        let applied = commit_proposals(&apply, repository, summary, open, settings);
        let outcome = applied.as_ref().err().cloned();
        self.store.end(
            &apply,
            outcome.map_or_else(SessionOutcome::complete, SessionOutcome::failed),
        );
        let applied = applied?;
        let paths = |files: Vec<FileChange>| files.into_iter().map(|file| file.path).collect();
        Ok(ApplyResult {
            session_id: summary.id().to_owned(),
            repository: summary.start.repository.clone(),
            apply_session_id: apply.summary().id().to_owned(),
            not_verified: not_verified(summary, left.len(), count),
            applied,
            unchanged: paths(unchanged),
            left: paths(left),
        })
    }

    /// Begins the session that applies a preview.
    fn begin_apply(&self, preview: &SessionSummary) -> Result<Arc<Recorder>, Problem> {
        let start = StartRecord {
            session_id: self.ids.next(api::current_time()),
            work: SessionWork::Apply(preview.id().to_owned()),
            target: preview.start.target.clone(),
            focus: None,
            continues: None,
            binding: TurnBinding::default(),
            interactive: false,
            ask: Vec::new(),
            preview: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..preview.start.clone()
        };
        self.store.begin(start).map_err(|error| not_kept(&error))
    }

    /// Discards the proposals of a preview, with those of all turns of its conversation.
    ///
    /// # Errors
    ///
    /// There is no such preview, or it runs.
    pub async fn discard(self: &Arc<Self>, id: &str) -> Result<DiscardResult, Problem> {
        let summary = self.ended_preview(id)?;
        let mut place = self.take_place()?;
        place.claim(summary.start.conversation())?;
        let sessions = Arc::clone(self);
        run_blocking(move || {
            let dropped = sessions.drop_proposals(&summary);
            drop(place);
            dropped
        })
        .await
    }

    fn drop_proposals(&self, preview: &SessionSummary) -> Result<DiscardResult, Problem> {
        let conversation = preview.start.conversation();
        let summaries = self.store.summaries();
        let is_turn = |summary: &&SessionSummary| {
            summary.start.conversation() == conversation && summary.start.preview && !summary.is_discarded
        };
        let mut sessions = Vec::new();
        for summary in summaries.values().filter(is_turn) {
            self.store
                .discard(summary.id())
                .map_err(|error| journal_problem(&error))?;
            sessions.push(summary.id().to_owned());
        }
        Ok(DiscardResult {
            session_id: preview.id().to_owned(),
            discarded: preview.files_proposed(),
            sessions,
        })
    }

    /// Finds a preview that has ended and is not discarded.
    fn ended_preview(&self, id: &str) -> Result<SessionSummary, Problem> {
        if let Some(live) = self.live(id)
            && live.recorder.summary().status == Status::Running
        {
            let message = format!("The session `{id}` is still running");
            return Err(Problem::new(ErrorKind::SessionRunning, message).with_hint("wait for its end, or cancel it"));
        }
        let summary = self.store.summary(id).ok_or_else(|| unknown_session(id))?;
        if !summary.start.preview {
            let message = format!("The session `{id}` is no preview: its changes are in the repository");
            return Err(Problem::new(ErrorKind::NothingToApply, message).with_action(Action::UndoSession));
        }
        if summary.is_discarded {
            return Err(nothing_to_apply(&summary, "is discarded"));
        }
        Ok(summary)
    }
}

/// Commits proposals with the checks of any proposal. Everything that the preview was allowed to propose may be
/// applied.
fn commit_proposals(
    apply: &Arc<Recorder>,
    repository: Arc<Repository>,
    preview: &SessionSummary,
    files: Vec<FileChange>,
    settings: &PolicySettings,
) -> Result<Vec<String>, Problem> {
    let request = api::PolicyRequest {
        ask_before_write: false,
        ..preview.start.policy.clone()
    };
    let request = merge_policies(settings, &request, repository.narrowing());
    // The rules of test-gen were applied when the changes were proposed.
    let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request)?;
    let context = CallContext {
        changes: Arc::clone(apply) as _,
        ..CallContext::unattended(repository, policy)
    };
    commit_previewed(&context, files).map_err(|refused| match refused {
        PreviewRefused::Changed(paths) => {
            let paths = quote_names(paths.iter().map(String::as_str), FILES_NAMED_MAX);
            let message = format!("Nothing was applied: changed since the preview: {paths}");
            let session_id = preview.id().to_owned();
            Problem::new(ErrorKind::PreviewOutdated, message).with_action(Action::ApplyOthers { session_id })
        }
        PreviewRefused::Failure(failure) => {
            let message = format!("Nothing was applied: {}", failure.message);
            Failure { message, ..failure }.into()
        }
    })
}

/// Refuses to apply an incomplete preview, unless the user asks for a partial one.
fn check_whole(summary: &SessionSummary, is_partial: bool) -> Result<(), Problem> {
    if summary.status == Status::Complete || is_partial {
        return Ok(());
    }
    let end = match &summary.problem {
        Some(problem) => problem.message.clone(),
        None => "it did not end".to_owned(),
    };
    let message = format!("The preview `{}` is not complete: {end}", summary.id());
    Err(Problem::new(ErrorKind::PreviewIncomplete, message).with_action(Action::ApplyPart))
}

/// Splits proposals into those at or below one of the paths, and the rest. Without paths, all are chosen.
fn split_proposals(proposed: Vec<FileChange>, paths: &[String]) -> Result<(Vec<FileChange>, Vec<FileChange>), Problem> {
    if paths.is_empty() {
        return Ok((proposed, Vec::new()));
    }
    let mut wanted = Vec::with_capacity(paths.len());
    for path in paths {
        let invalid = |why: &dyn std::fmt::Display| {
            let message = format!("`{}` {why}", visible_name(path));
            Problem::new(ErrorKind::InvalidRequest, message).with_action(Action::ShowPreview)
        };
        let normal = normalise_path(path).map_err(|error| invalid(&error))?;
        if !proposed.iter().any(|file| lies_at(&file.path, &normal)) {
            return Err(invalid(&"is not among the proposed files"));
        }
        wanted.push(normal);
    }
    Ok(proposed
        .into_iter()
        .partition(|file| wanted.iter().any(|path| lies_at(&file.path, path))))
}

/// True for the path itself and everything below it.
fn lies_at(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path);
    path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Explains why the applied proposals are not verified: the tests have seen other files, or did not finish.
fn not_verified(summary: &SessionSummary, left: usize, count: usize) -> Option<String> {
    if left > 0 {
        let applied = count - left;
        return Some(format!(
            "{applied} of {count} proposed files are applied, and the preview was tested with all of them"
        ));
    }
    (summary.status != Status::Complete).then(|| "the preview did not end complete".to_owned())
}

fn nothing_to_apply(summary: &SessionSummary, why: &str) -> Problem {
    let message = format!("Nothing to apply: the preview `{}` {why}", summary.id());
    Problem::new(ErrorKind::NothingToApply, message).with_action(Action::ListSessions)
}

/// Refuses the diff of a discarded preview.
pub(super) fn check_diff(summary: &SessionSummary) -> Result<(), Problem> {
    if summary.is_discarded {
        return Err(nothing_to_apply(summary, "is discarded"));
    }
    Ok(())
}

/// Describes the state of a proposed file in the repository, if it is not what the proposal began with.
pub(super) fn since_proposed(change: &FileChange, repository: &Repository) -> Option<String> {
    if is_at(repository, change, change.before.as_ref()) {
        return None;
    }
    let words = if is_at(repository, change, change.after.as_ref()) {
        "it is applied"
    } else {
        "it has been changed since, and cannot be applied"
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(path: &str) -> FileChange {
        FileChange {
            path: path.to_owned(),
            before: None,
            after: Some(FileState {
                content: Vec::new(),
                mode: 0o644,
            }),
        }
    }

    #[test]
    fn paths_choose_files_and_all_below_a_directory() {
        let all = || ["a.py", "src/b.py", "src/c/d.py", "srcs.py"].map(created).to_vec();
        let chosen = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
            let chosen = split_proposals(all(), &paths).map(|(wanted, left)| (wanted.len(), left.len()));
            chosen.map_err(|problem| problem.message)
        };
        assert_eq!(chosen(&[]), Ok((4, 0)));
        assert_eq!(chosen(&["./src/"]), Ok((2, 2)));
        assert_eq!(chosen(&["a.py", "src/c"]), Ok((2, 2)));
        assert_eq!(
            chosen(&["b.py"]),
            Err("`b.py` is not among the proposed files".to_owned())
        );
        assert_eq!(chosen(&["."]), Ok((4, 0)));
    }
}
