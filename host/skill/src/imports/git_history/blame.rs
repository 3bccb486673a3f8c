//! The commits that last changed the lines of a file.
//!
//! Without a revision the lines are those of the work tree, as read_file shows them. libgit2 knows only the last
//! commit, so this module matches the lines of the work tree with those of the commit.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag};

use super::super::git::content::{self, SideContent};
use super::super::git::messages::{CommitRecord, GitAnswer, GitRequest, LineOrigin, ObjectId};
use super::super::git::patches::visible_path;
use super::super::git::{GitHelper, nonsense_failure};
use super::{HistoryCall, check_revision, check_shown, commit_out, find_commit, no_commits};
use crate::CallContext;
use crate::imports::git::messages::GIT_BLAME_LINES_MAX;
use crate::imports::git::patches::GIT_PATCH_BYTES_MAX;
use tool_boundary::Failure;
use tool_boundary::bindings::tool::skill::git_history::{BlameHunk, BlamePage, BlameQuery, Commit};
use tool_core::text::truncate_text;
use tool_repository::diff::is_binary;
use tool_repository::normalise_path;

/// Time limit for matching the lines of the work tree with those of the last commit. After it, lines count as
/// changed.
const MATCH_TIME: Duration = Duration::from_secs(2);

/// Limit for the first line of a message beside lines, in bytes.
const SUMMARY_BYTES_MAX: usize = 200;

/// Finds the commit of each line.
pub(in super::super) fn read_blame(reading: &HistoryCall<'_>, query: &BlameQuery) -> Result<BlamePage, Failure> {
    let context = reading.context;
    let path = normalise_path(&query.path).map_err(|error| {
        Failure::invalid_arguments(format!("`{}` is no path in this repository: {error}.", query.path))
            .with_hint("paths are relative to the repository root")
    })?;
    check_shown(context, &path)?;
    check_revision(query.revision.as_deref())?;
    let mut git = reading.open_for(std::slice::from_ref(&path))?;
    let commit = find_commit(&mut git, query.revision.as_deref())?;
    if commit.is_none() && query.revision.is_some() {
        return Err(no_commits());
    }
    if let Some(commit) = &commit {
        reading.note_standing(&mut git, &commit.id)?;
    }
    let stored = match &commit {
        Some(commit) => find_stored(context, &mut git, &commit.id, &path)?,
        None => SideContent::Absent,
    };
    let content = if query.revision.is_some() {
        readable_content(&path, stored.clone())?
    } else {
        readable_content(&path, read_work_tree(context, &mut git, &path, &stored)?)?
    };
    let lines = split_lines(&content);
    let range = pick_lines(&lines, query.first_line, query.line_count);
    let stored = if let SideContent::Bytes(stored) = &stored {
        stored.as_slice()
    } else {
        &[]
    };
    let origins = match &commit {
        Some(commit) => find_origins(&mut git, &commit.id, &path, &lines, &split_lines(stored), range.clone())?,
        None => vec![None; range.len()],
    };
    let mut page = BlamePage {
        content: String::from_utf8_lossy(&lines[range.clone()].concat()).into_owned(),
        lines_total: saturate_count(lines.len()),
        hunks: Vec::new(),
        commits: Vec::new(),
    };
    page.hunks = join_hunks(context, &path, &origins, range.start);
    page.commits = find_commits(reading, &mut git, &page.hunks)?;
    let end = page.content.floor_char_boundary(GIT_PATCH_BYTES_MAX);
    page.content.truncate(end);
    Ok(page)
}

fn find_stored(
    context: &CallContext,
    git: &mut GitHelper,
    commit: &ObjectId,
    path: &str,
) -> Result<SideContent, Failure> {
    let request = GitRequest::FileOf {
        commit: commit.clone(),
        path: path.to_owned(),
    };
    match git.ask(&request)? {
        GitAnswer::FileOf(None) => Ok(SideContent::Absent),
        GitAnswer::FileOf(Some(id)) => content::of_blob(git, &context.repository, path, &id),
        _ => Err(nonsense_failure()),
    }
}

fn read_work_tree(
    context: &CallContext,
    git: &mut GitHelper,
    path: &str,
    stored: &SideContent,
) -> Result<SideContent, Failure> {
    let line_ends = git.attributes(path)?.line_ends;
    let stored = if let SideContent::Bytes(stored) = stored {
        stored.as_slice()
    } else {
        &[]
    };
    Ok(content::of_work_tree(
        &context.repository,
        path,
        line_ends,
        stored,
        &context.cancel,
    ))
}

fn readable_content(path: &str, content: SideContent) -> Result<Vec<u8>, Failure> {
    match content {
        SideContent::Bytes(content) if !is_binary(&content) => Ok(content),
        SideContent::Bytes(_) => Err(Failure::failed(format!("`{path}` is not text."))),
        SideContent::Absent => Err(Failure::not_found(format!("There is no file `{path}` there."))),
        SideContent::Hidden => Err(Failure::denied(format!("`{path}` may not be opened."))),
        SideContent::TooLarge => Err(Failure::limit(format!("`{path}` is too large for this."))),
    }
}

/// Splits text into lines, with their line ends.
fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|&byte| byte == b'\n').collect()
}

/// Chooses the wanted lines, as many as the limits allow and at least one if there is one; counted from 0.
fn pick_lines(lines: &[&[u8]], first_line: u32, line_count: u32) -> std::ops::Range<usize> {
    let start = (first_line.max(1) as usize - 1).min(lines.len());
    let wanted = (line_count.max(1) as usize).min(GIT_BLAME_LINES_MAX);
    let mut bytes = 0;
    let fits = |line: &&&[u8]| {
        bytes += line.len();
        bytes <= GIT_PATCH_BYTES_MAX
    };
    let count = lines[start..].iter().take(wanted).take_while(fits).count();
    start..start + count.max(usize::from(start < lines.len()))
}

/// The origin of each line of a range; absent for lines that are not committed.
fn find_origins(
    git: &mut GitHelper,
    commit: &ObjectId,
    path: &str,
    lines: &[&[u8]],
    stored: &[&[u8]],
    range: std::ops::Range<usize>,
) -> Result<Vec<Option<LineOrigin>>, Failure> {
    let places = match_lines(stored, lines);
    let wanted: Vec<Option<usize>> = places[range].to_vec();
    let known = || wanted.iter().flatten();
    let (Some(first), Some(last)) = (known().min(), known().max()) else {
        return Ok(vec![None; wanted.len()]);
    };
    let request = GitRequest::Blame {
        commit: commit.clone(),
        path: path.to_owned(),
        first_line: first + 1,
        last_line: last + 1,
    };
    let GitAnswer::Origins(origins) = git.ask(&request)? else {
        return Err(nonsense_failure());
    };
    if origins.len() > GIT_BLAME_LINES_MAX {
        return Err(nonsense_failure());
    }
    let holds =
        |origin: &LineOrigin, line: usize| line >= origin.first_line && line - origin.first_line < origin.line_count;
    let find = |line: usize| origins.iter().find(|origin| holds(origin, line)).cloned();
    Ok(wanted.into_iter().map(|place| find(place? + 1)).collect())
}

/// For each line of the work tree, its line in the stored content; absent for a new line.
fn match_lines(stored: &[&[u8]], lines: &[&[u8]]) -> Vec<Option<usize>> {
    let mut places = vec![None; lines.len()];
    let deadline = Some(Instant::now() + MATCH_TIME);
    for operation in similar::capture_diff_slices_deadline(Algorithm::Myers, stored, lines, deadline) {
        if operation.tag() == DiffTag::Equal {
            for (old, new) in operation.old_range().zip(operation.new_range()) {
                places[new] = Some(old);
            }
        }
    }
    places
}

/// Joins consecutive lines with the same origin to hunks.
fn join_hunks(context: &CallContext, path: &str, origins: &[Option<LineOrigin>], start: usize) -> Vec<BlameHunk> {
    let mut hunks: Vec<BlameHunk> = Vec::new();
    for (at, origin) in origins.iter().enumerate() {
        let old_path = origin.as_ref().and_then(|origin| origin.path.as_deref());
        let old_path = old_path
            .filter(|old| *old != path)
            .and_then(|old| visible_path(&context.repository, old));
        let commit = origin.as_ref().map(|origin| origin.commit.as_str());
        match hunks.last_mut() {
            Some(last) if last.commit.as_deref() == commit && last.old_path.as_deref() == old_path => {
                last.line_count += 1;
            }
            _ => hunks.push(BlameHunk {
                first_line: saturate_count(start + at + 1),
                line_count: 1,
                commit: commit.map(str::to_owned),
                old_path: old_path.map(str::to_owned),
            }),
        }
    }
    hunks
}

/// The commits of the hunks, each once, with the first line of the message.
fn find_commits(reading: &HistoryCall<'_>, git: &mut GitHelper, hunks: &[BlameHunk]) -> Result<Vec<Commit>, Failure> {
    let (mut seen, mut commits) = (HashSet::new(), Vec::new());
    for id in hunks.iter().filter_map(|hunk| hunk.commit.as_deref()) {
        if !seen.insert(id) {
            continue;
        }
        let Some(commit) = find_commit(git, Some(id))? else {
            return Err(nonsense_failure());
        };
        reading.note_authors(git, [&commit])?;
        let summary = commit.message.lines().next().unwrap_or_default();
        let message = truncate_text(summary, SUMMARY_BYTES_MAX).to_owned();
        commits.push(commit_out(CommitRecord { message, ..commit }));
    }
    Ok(commits)
}

fn saturate_count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
