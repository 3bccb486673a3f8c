//! `tool apply` and `tool discard`: applies or drops the changes that a preview proposes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_core::api::{ApplyRequest, ApplyResult, DiscardResult, ErrorKind, Problem, SessionDiff};
use tool_core::text::clean_line;

use super::diff::session_route;
use super::history::short_id;
use super::{CommandContext, path_text, print_json};
use crate::error::Error;

pub(super) struct ApplyOptions {
    /// A session, if the first word looks like one; then paths.
    pub(super) words: Vec<String>,
    pub(super) partial: bool,
    pub(super) patch: Option<PathBuf>,
    pub(super) json: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct ChosenFiles {
    session: String,
    paths: Vec<String>,
}

impl ChosenFiles {
    /// The first word is a session if it looks like an identifier; otherwise the session is `latest`.
    fn parse_words(words: Vec<String>) -> Self {
        let mut words = words.into_iter().peekable();
        let session = words.next_if(|word| super::turn::is_session(word));
        Self {
            session: session.unwrap_or_else(|| "latest".to_owned()),
            paths: words.collect(),
        }
    }
}

/// Applies the proposals of a preview, or writes them as a patch.
pub(super) async fn apply_preview(apply: ApplyOptions, context: &CommandContext) -> Result<ExitCode, Error> {
    let chosen = ChosenFiles::parse_words(apply.words);
    let paths = from_root(&chosen.paths, context)?;
    let mut client = context.backend.connect_or_start().await?;
    if let Some(file) = &apply.patch {
        let route = preview_route("diff", &chosen.session, &mut client, context).await?;
        let diff: SessionDiff = client.get(&route).await?;
        return write_patch(file, &diff, &paths, context);
    }
    let route = session_route("apply", &chosen.session, &mut client, context).await?;
    let request = ApplyRequest {
        paths,
        partial: apply.partial,
    };
    let applied: ApplyResult = client.post(&route, &request).await?;
    if apply.json {
        return print_json(&applied, context.output);
    }
    let output = context.output;
    for path in &applied.applied {
        output.line(&format!("applied   {}", clean_line(path)))?;
    }
    for path in &applied.left {
        output.line(&format!("left      {}", clean_line(path)))?;
    }
    if let Some(why) = &applied.not_verified {
        output.notice(&format!("Not verified: {why}."), Some("run the tests"));
    }
    output.progress(&format!(
        "applied as the session {id}; `tool undo {id}` takes it back",
        id = short_id(&applied.apply_session_id)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Drops the proposals of a preview and its conversation.
pub(super) async fn discard_preview(session: &str, json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let route = session_route("discard", session, &mut client, context).await?;
    let discarded: DiscardResult = client.post(&route, &serde_json::json!({})).await?;
    if json {
        return print_json(&discarded, context.output);
    }
    for path in &discarded.discarded {
        context.output.line(&format!("discarded {}", clean_line(path)))?;
    }
    context.output.progress(&format!(
        "the preview {} is discarded; the repository is as it was",
        short_id(&discarded.session_id)
    ));
    Ok(ExitCode::SUCCESS)
}

/// The route to a resource of a preview. `latest` is the newest preview here; in `tool diff` it is a session that
/// changed files.
async fn preview_route(
    what: &str,
    session: &str,
    client: &mut crate::client::Client,
    context: &CommandContext,
) -> Result<String, Error> {
    if session != "latest" {
        return session_route(what, session, client, context).await;
    }
    let history: tool_core::api::History = client
        .get(&format!("/api/history?repo_path={}", encoded_root(context)?))
        .await?;
    let newest = history.sessions.into_iter().find(|session| session.files_proposed > 0);
    let newest = newest.ok_or_else(|| {
        Problem::new(
            ErrorKind::NothingChanged,
            "No preview has proposed changes in this repository",
        )
        .with_hint("`tool refactor --preview` and `tool test-gen --preview` make one")
    })?;
    Ok(format!("/api/sessions/{}/{what}", newest.id))
}

fn encoded_root(context: &CommandContext) -> Result<String, Error> {
    let (root, _) = context.places()?;
    let root = root.canonicalize().unwrap_or(root);
    Ok(crate::client::percent_encoded(&path_text(&root)?))
}

/// Converts typed paths to paths relative to the root. A path that does not exist may be a new file.
fn from_root(typed: &[String], context: &CommandContext) -> Result<Vec<String>, Error> {
    let (root, here) = context.places()?;
    let canonical = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let (root, here) = (canonical(root), canonical(here));
    let relative = |typed: &String| {
        let path = Path::new(typed);
        if path.is_absolute() {
            return path_text(path.strip_prefix(&root).unwrap_or(path));
        }
        // Relative to the working directory first, like every other path. A preview may propose new files.
        let below = here.strip_prefix(&root).unwrap_or(Path::new(""));
        let from_here = below.join(path);
        let is_from_root = !root.join(&from_here).exists() && root.join(path).exists();
        path_text(if is_from_root { path } else { &from_here })
    };
    typed.iter().map(relative).collect()
}

/// Writes the chosen files of a diff for `git apply`; `-` is standard output.
fn write_patch(file: &Path, diff: &SessionDiff, paths: &[String], context: &CommandContext) -> Result<ExitCode, Error> {
    let patch = build_patch(diff, paths)?;
    if file == Path::new("-") {
        context.output.line(patch.trim_end_matches('\n'))?;
        return Ok(ExitCode::SUCCESS);
    }
    let write = || {
        let mut opened = std::fs::File::create(file)?;
        opened.write_all(patch.as_bytes())?;
        opened.sync_all()
    };
    write().map_err(|error| Error::on_file("Patch", file, &error))?;
    let message = format!("wrote {}; `git apply {}` takes it", file.display(), file.display());
    context.output.progress(&message);
    Ok(ExitCode::SUCCESS)
}

/// The patch of the chosen files; of all files if none is named.
fn build_patch(diff: &SessionDiff, paths: &[String]) -> Result<String, Error> {
    let failed = |message: String| Problem::new(ErrorKind::InvalidRequest, message);
    if diff.truncated {
        return Err(failed("The diff is too long for a patch".to_owned())
            .with_hint("`tool apply` puts the files in place")
            .into());
    }
    let is_at = |file: &str, path: &String| {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let rest = file.strip_prefix(path);
        path.is_empty() || path == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(missing) = paths
        .iter()
        .find(|path| !diff.files.iter().any(|file| is_at(&file.path, path)))
    {
        let message = format!("`{}` is not among the proposed files", clean_line(missing));
        return Err(failed(message).with_hint("`tool diff` shows them").into());
    }
    let mut patch = String::new();
    for (file, section) in diff.files.iter().zip(split_diff(&diff.diff)) {
        if !paths.is_empty() && !paths.iter().any(|path| is_at(&file.path, path)) {
            continue;
        }
        if !file.is_text {
            let message = format!("`{}` is no text, and a patch cannot hold it", clean_line(&file.path));
            return Err(failed(message).with_hint("`tool apply` puts the files in place").into());
        }
        patch.push_str(section);
    }
    Ok(patch)
}

/// The parts of a diff, one for each file. Content lines begin with other characters.
fn split_diff(diff: &str) -> Vec<&str> {
    const HEADER: &str = "diff --git ";
    let mut starts: Vec<usize> = diff.match_indices(HEADER).map(|(at, _)| at).collect();
    starts.retain(|&at| at == 0 || diff.as_bytes()[at - 1] == b'\n');
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &diff[start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_first_word_that_looks_like_a_session_is_one() {
        for (typed, session, paths) in [
            (&[][..], "latest", &[][..]),
            (&["src/a.py"], "latest", &["src/a.py"]),
            (&["01a1f88f"], "01a1f88f", &[]),
            (&["latest", "a.py", "b"], "latest", &["a.py", "b"]),
            (&["01a1f88f", "a.py"], "01a1f88f", &["a.py"]),
        ] {
            let expected = ChosenFiles {
                session: session.to_owned(),
                paths: words(paths),
            };
            assert_eq!(ChosenFiles::parse_words(words(typed)), expected, "{typed:?}");
        }
    }

    #[test]
    fn a_diff_is_divided_by_its_files_and_not_by_their_contents() {
        let diff =
            "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-diff --git x\n+y diff --git \ndiff --git a/b b/b\n";
        let parts = split_diff(diff);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts.concat(), diff);
        assert!(parts[1].starts_with("diff --git a/b"));
        assert!(split_diff("").is_empty());
    }
}
