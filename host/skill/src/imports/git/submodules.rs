//! Submodules: what of them differs, as git says it, and which one a path lies in.
//!
//! A submodule is a repository of its own, with a helper of its own. It is read unasked where its git directory and its
//! work tree name each other (`layout`).

use super::layout::Layout;
use super::talk::{Area, GitAnswer, GitRequest, Id, Status, Submodule};
use super::{Git, nonsense};
use crate::CallContext;
use tool_boundary::bindings::tool::skill::types::Failure;
use tool_boundary::hinted;

/// git's mode of a submodule.
pub(in crate::imports) const SUBMODULE: u32 = 0o160_000;

/// Work trees of submodules that one call looks at. Each costs a helper.
pub(in crate::imports) const LOOKED_AT_MAX: usize = 100;

/// The work tree of a submodule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::imports) enum SubmoduleTree {
    /// Nothing is there.
    Absent,
    /// It is not checked out, which is no change.
    Empty,
    /// It is not looked at without a question: its git data could be another repository's.
    Unproven,
    /// It is checked out.
    Present {
        /// Its last commit.
        head: Option<Id>,
        is_modified: bool,
        has_untracked: bool,
    },
}

/// What git stores for a submodule, as its diffs show it.
pub(in crate::imports) fn content(id: &Id, is_modified: bool) -> Vec<u8> {
    let dirty = if is_modified { "-dirty" } else { "" };
    format!("Subproject commit {id}{dirty}\n").into_bytes()
}

/// Looks at the work tree of the submodule at `path`.
pub(in crate::imports) fn look(context: &CallContext, path: &str) -> Result<SubmoduleTree, Failure> {
    let place = context.repository.root().join(path);
    if place.symlink_metadata().is_err() {
        return Ok(SubmoduleTree::Absent);
    }
    if place.join(".git").symlink_metadata().is_err() {
        return Ok(SubmoduleTree::Empty);
    }
    if !Layout::at(&place).is_ok_and(|layout| !layout.is_strange()) {
        return Ok(SubmoduleTree::Unproven);
    }
    let mut git = Git::open_at(context, Some(path), None)?;
    let head = match git.ask(&GitRequest::Revision { name: None })? {
        GitAnswer::Revision(head) => head.map(|commit| commit.id),
        _ => return Err(nonsense()),
    };
    let (mut is_modified, mut has_untracked) = (false, false);
    for area in [Area::Index, Area::WorkTree] {
        let request = GitRequest::Diff {
            area,
            untracked: area == Area::WorkTree,
            paths: Vec::new(),
        };
        let (count, mut from) = (git.count(&request)?, 0);
        while from < count && !(is_modified && has_untracked) {
            let page = git.deltas(from)?;
            from += page.len();
            for delta in page.iter().filter(|delta| !delta.left_in_place) {
                let is_untracked = delta.status == Status::Untracked;
                is_modified |= !is_untracked;
                has_untracked |= is_untracked;
            }
        }
    }
    Ok(SubmoduleTree::Present {
        head,
        is_modified,
        has_untracked,
    })
}

/// The submodule that a path lies in, at its top or deeper.
pub(in crate::imports) fn holding<'a>(submodules: &'a [Submodule], path: &str) -> Option<&'a str> {
    let holds = |submodule: &&Submodule| {
        let rest = path.strip_prefix(submodule.path.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let mut tracked = submodules.iter().filter(|submodule| submodule.staged.is_some());
    tracked.find(holds).map(|submodule| submodule.path.as_str())
}

/// The one repository that all `paths` lie in: that of a submodule, or the root's. An error where they lie in several.
pub(in crate::imports) fn shared<'a>(
    submodules: &'a [Submodule],
    paths: &[String],
) -> Result<Option<&'a str>, Failure> {
    let mut places = paths.iter().map(|path| (path, holding(submodules, path)));
    let Some((_, first)) = places.next() else {
        return Ok(None);
    };
    match places.find(|(_, place)| *place != first) {
        None => Ok(first),
        Some((path, place)) => {
            let (path, place) = match place {
                Some(place) => (path, place),
                None => (&paths[0], first.unwrap_or_default()),
            };
            Err(hinted(
                "invalid-arguments",
                format!(
                    "`{path}` lies in the submodule `{place}`, which is a repository of its own; other paths do not."
                ),
                format!(
                    "name the paths of one repository: first those in `{place}`, then the others, with `{place}` itself"
                ),
            ))
        }
    }
}

/// Opens the repository that all `paths` lie in, and returns the submodule that it is.
pub(in crate::imports) fn open_for(context: &CallContext, paths: &[String]) -> Result<(Git, Option<String>), Failure> {
    let mut git = Git::open(context, None)?;
    if !paths.iter().any(|path| path.contains('/')) {
        return Ok((git, None));
    }
    let submodules = git.submodules(&context.repository)?;
    match shared(&submodules, paths)? {
        None => Ok((git, None)),
        Some(place) => Ok((Git::open_at(context, Some(place), None)?, Some(place.to_owned()))),
    }
}
