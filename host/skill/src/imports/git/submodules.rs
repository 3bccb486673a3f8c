//! Submodules: their differences as git reports them, and which submodule a path is in.
//!
//! A submodule is a repository with a helper of its own. It is read without a question if its git directory and its
//! work tree name each other (`layout`).

use super::layout::GitDirectories;
use super::messages::{ChangeArea, FileStatus, GitAnswer, GitRequest, ObjectId, Submodule};
use super::{GitHelper, nonsense_failure};
use crate::CallContext;
use tool_boundary::Failure;

/// Mode of a submodule in git.
pub(in crate::imports) const SUBMODULE: u32 = 0o160_000;

/// Limit for the work trees of submodules that one diff compares, also those in submodules. Each takes a helper.
pub(in crate::imports) const COMPARED_MAX: usize = 100;

/// Limit for the submodules of a repository. Large ones have some hundred.
pub(in crate::imports) const SUBMODULES_MAX: usize = 1000;

/// The work tree of a submodule.
pub(in crate::imports) enum SubmoduleTree {
    /// The path does not exist.
    Absent,
    /// The submodule is not checked out, and its folder is empty. git does not count that as a change.
    Empty,
    /// The work tree cannot be read, for this reason.
    Unread(String),
    /// The submodule is checked out.
    Present(Box<PresentSubmodule>),
}

/// A submodule that is checked out.
pub(in crate::imports) struct PresentSubmodule {
    git: GitHelper,
    /// Its last commit; absent before the first.
    pub(in crate::imports) head: Option<ObjectId>,
}

/// Uncommitted changes in a submodule.
pub(in crate::imports) struct SubmoduleChanges {
    pub(in crate::imports) is_modified: bool,
    pub(in crate::imports) has_untracked: bool,
}

/// The content that git's diffs show for a submodule.
pub(in crate::imports) fn submodule_content(id: &ObjectId, is_modified: bool) -> Vec<u8> {
    let dirty = if is_modified { "-dirty" } else { "" };
    format!("Subproject commit {id}{dirty}\n").into_bytes()
}

/// Reads the state of the submodule's work tree at `path`. A submodule that cannot be read is
/// [`SubmoduleTree::Unread`], so that the diff of the outer repository succeeds.
pub(in crate::imports) fn read_submodule(context: &CallContext, path: &str) -> Result<SubmoduleTree, Failure> {
    let place = context.repository.root().join(path);
    if place.symlink_metadata().is_err() {
        return Ok(SubmoduleTree::Absent);
    }
    if place.join(".git").symlink_metadata().is_err() {
        return Ok(SubmoduleTree::Empty);
    }
    if !GitDirectories::exactly_at(&place).is_ok_and(|layout| !layout.is_strange()) {
        let reason = "its git data could be another repository's";
        return Ok(SubmoduleTree::Unread(reason.to_owned()));
    }
    let present = PresentSubmodule::open(context, path).map(Box::new);
    unless_cancelled(context, present.map(SubmoduleTree::Present))
}

/// Converts the failure of a submodule to the reason why it is not read. Cancellation stays a failure.
fn unless_cancelled(context: &CallContext, tree: Result<SubmoduleTree, Failure>) -> Result<SubmoduleTree, Failure> {
    match tree {
        Err(failure) if !context.cancel.is_cancelled() => {
            let reason = failure.message.trim_end_matches('.').to_owned();
            Ok(SubmoduleTree::Unread(reason))
        }
        tree => tree,
    }
}

impl PresentSubmodule {
    fn open(context: &CallContext, path: &str) -> Result<Self, Failure> {
        let mut git = GitHelper::open_at(context, Some(path), None)?;
        match git.ask(&GitRequest::Revision { name: None })? {
            GitAnswer::Revision(head) => Ok(Self {
                git,
                head: head.map(|commit| commit.id),
            }),
            _ => Err(nonsense_failure()),
        }
    }

    /// Compares the work tree with the index and the last commit, and those of submodules in it, of which at most
    /// `compared_max` are compared. As in git, untracked files alone do not modify a submodule.
    pub(in crate::imports) fn find_changes(
        &mut self,
        context: &CallContext,
        compared_max: &mut usize,
    ) -> Result<SubmoduleChanges, Failure> {
        let (mut is_modified, mut has_untracked) = (false, false);
        for area in [ChangeArea::Index, ChangeArea::WorkTree] {
            let request = GitRequest::Diff {
                area,
                untracked: area == ChangeArea::WorkTree,
                paths: Vec::new(),
            };
            let (count, mut from) = (self.git.count(&request)?, 0);
            while from < count && !(is_modified && has_untracked) {
                let page = self.git.deltas(from)?;
                from += page.len();
                for delta in page.iter().filter(|delta| !delta.left_in_place) {
                    let is_untracked = delta.status == FileStatus::Untracked;
                    is_modified |= !is_untracked;
                    has_untracked |= is_untracked;
                }
            }
        }
        for submodule in self.git.submodules(&context.repository)? {
            if *compared_max == 0 || (is_modified && has_untracked) {
                break;
            }
            *compared_max -= 1;
            match (read_submodule(context, &submodule.path)?, &submodule.staged) {
                (SubmoduleTree::Present(mut inner), Some(staged)) => {
                    let changes = inner.find_changes(context, compared_max)?;
                    is_modified |= changes.is_modified || inner.head.is_some_and(|head| head != *staged);
                    has_untracked |= changes.has_untracked;
                }
                (SubmoduleTree::Absent, Some(_)) => is_modified = true,
                _ => {}
            }
        }
        Ok(SubmoduleChanges {
            is_modified,
            has_untracked,
        })
    }
}

/// The submodules of the repository, and those in submodules that `paths` name or lead into.
pub(in crate::imports) fn list_submodules(
    git: &mut GitHelper,
    context: &CallContext,
    paths: &[String],
) -> Result<Vec<Submodule>, Failure> {
    let mut found = git.submodules(&context.repository)?;
    let mut at = 0;
    while let Some(submodule) = found.get(at).filter(|_| found.len() <= SUBMODULES_MAX) {
        at += 1;
        if submodule.staged.is_some()
            && paths.iter().any(|path| is_at_or_below(path, &submodule.path))
            && let SubmoduleTree::Present(mut inner) = read_submodule(context, &submodule.path)?
        {
            found.extend(inner.git.submodules(&context.repository)?);
        }
    }
    Ok(found)
}

/// True for a place, and for a path below it.
pub(in crate::imports) fn is_at_or_below(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place);
    place.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The innermost submodule that contains a path; not one at the path.
pub(in crate::imports) fn holding_submodule<'a>(submodules: &'a [Submodule], path: &str) -> Option<&'a str> {
    let tracked = submodules.iter().filter(|submodule| submodule.staged.is_some());
    let places = tracked.map(|submodule| submodule.path.as_str());
    places
        .filter(|place| *place != path && is_at_or_below(path, place))
        .max_by_key(|place| place.len())
}

/// The one repository that contains all `paths`: a submodule, or the root's. Fails if there are several.
pub(in crate::imports) fn shared_repository<'a>(
    submodules: &'a [Submodule],
    paths: &[String],
) -> Result<Option<&'a str>, Failure> {
    let mut places = paths.iter().map(|path| (path, holding_submodule(submodules, path)));
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
            Err(Failure::invalid_arguments(format!(
                "`{path}` lies in the submodule `{place}`, which is a repository of its own; other paths do not."
            ))
            .with_hint(format!(
                "name the paths of one repository: first those in `{place}`, then the others, with `{place}` itself"
            )))
        }
    }
}

/// Opens the repository that contains all `paths`, and returns the path of its submodule.
pub(in crate::imports) fn open_for(
    context: &CallContext,
    paths: &[String],
) -> Result<(GitHelper, Option<String>), Failure> {
    let mut git = GitHelper::open(context, None)?;
    if !paths.iter().any(|path| path.contains('/')) {
        return Ok((git, None));
    }
    let submodules = list_submodules(&mut git, context, paths)?;
    match shared_repository(&submodules, paths)? {
        None => Ok((git, None)),
        Some(place) => Ok((GitHelper::open_at(context, Some(place), None)?, Some(place.to_owned()))),
    }
}
