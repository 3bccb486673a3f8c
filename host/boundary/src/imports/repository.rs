//! The file list in pages, and notes about what the model has been shown.

use std::sync::{Arc, PoisonError};

use crate::bindings::tool::skill::repository::{Entry, NotListed, Page, Query};
use crate::budget::CallBudget;
use crate::globs::Globs;
use crate::proposal::is_digest;
use crate::{CallContext, Failure, FailureKind};
use tool_repository::attributes::{GIT_ATTRIBUTES, GeneratedFiles};
use tool_repository::{EntryKind, FileList, OpenError, OpenedEntry, ScanError, normalise_path};

/// Entries of one page of the file list. A page of typical paths is half a megabyte, and a Linux kernel tree ten pages.
const LIST_PAGE_ENTRIES_MAX: usize = 8_192;

/// Bytes of paths in one page of the file list, for trees whose paths are long.
const LIST_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// One page of a list.
pub(super) fn list_page(call: &CallBudget, context: &CallContext, query: &Query) -> Result<Page, Failure> {
    list_wanted(call, context, query, |_| true)
}

/// Returns a page of a list, of the files that `wants` accepts.
pub(super) fn list_wanted(
    call: &CallBudget,
    context: &CallContext,
    query: &Query,
    wants: impl Fn(&str) -> bool,
) -> Result<Page, Failure> {
    let under = path_of(&query.under)?;
    let globs = Globs::new(&query.globs)?;
    if query.recursive {
        let mut list = file_list(call, context)?;
        // A path without entries below it is a file, an empty directory, or an error to explain.
        let opened = context
            .repository
            .open_within(&under, &call.token)
            .map_err(|error| open_failure(&error))?;
        if !is_listed(&list, &opened) {
            list = Arc::clone(super::bulk::list_files_below(call, context, &opened.path)?.list());
        }
        let files = match opened.kind {
            EntryKind::Directory => list.beneath(&opened.path),
            _ => list.find(&opened.path).map_or(&[][..], std::slice::from_ref),
        };
        // By binary search, because a large tree has many pages and each of them would pass over all earlier ones.
        let passed = |after: &str| files.partition_point(|file| file.path.as_str() <= after);
        let entries = files[query.after.as_deref().map_or(0, passed)..]
            .iter()
            .filter(|file| wants(&file.path))
            .map(|file| (file.path.as_str(), EntryKind::File, file.size));
        let left_out = if under.is_empty() { list.not_utf8 } else { 0 };
        let left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
        return fill_page(call, entries, &globs, query.after.as_deref(), left_out);
    }
    let listed = match context.repository.entries(&under, &call.token) {
        Ok(listed) => listed,
        Err(error) => return file_alone(call, context, &under, &error),
    };
    call.note_skipped_ignores(&listed.skipped_ignores);
    let entries = listed.entries.iter();
    let entries = entries.map(|entry| (entry.path.as_str(), entry.kind, entry.size));
    fill_page(call, entries, &globs, query.after.as_deref(), listed.left_out)
}

/// The normal form of a path that a guest wants listed.
pub(super) fn path_of(path: &str) -> Result<String, Failure> {
    normalise_path(path).map_err(|error| {
        let message = format!("`{path}` cannot be listed: {error}");
        Failure::invalid_arguments(message)
    })
}

/// The list of a path that is a file: the file itself.
fn file_alone(call: &CallBudget, context: &CallContext, path: &str, error: &OpenError) -> Result<Page, Failure> {
    match context.repository.open_within(path, &call.token) {
        Ok(opened) if opened.kind == EntryKind::File => Ok(Page {
            entries: vec![build_entry(&opened.path, opened.kind, opened.size)],
            next: None,
            left_out: 0,
        }),
        _ => Err(open_failure(error)),
    }
}

/// The whole list, walked once for a call.
fn file_list(call: &CallBudget, context: &CallContext) -> Result<Arc<FileList>, Failure> {
    // Locked during the walk: another part of the call that asks now waits for this list.
    let mut known = call.files.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(files) = &*known {
        return Ok(Arc::clone(files));
    }
    let files = context.repository.list(&call.token).map_err(scan_failure)?;
    call.note_skipped_ignores(&files.skipped_ignores);
    *known = Some(Arc::clone(&files));
    Ok(files)
}

/// False for an entry that the caller named and the list from the root leaves out.
pub(super) fn is_listed(list: &FileList, opened: &OpenedEntry) -> bool {
    match opened.kind {
        EntryKind::Directory => list.has_walked(&opened.path),
        _ => list.find(&opened.path).is_some(),
    }
}

/// Counts what the list of a path leaves out.
pub(super) fn count_not_listed(call: &CallBudget, context: &CallContext, under: &str) -> Result<NotListed, Failure> {
    let opened = context
        .repository
        .open_within(&path_of(under)?, &call.token)
        .map_err(|error| open_failure(&error))?;
    let (names, _) = super::bulk::names_below(call, context, under, super::bulk::list_files(call, context)?)?;
    let not_listed = names.list().not_listed(&opened.path);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(NotListed {
        skipped: count(not_listed.skipped),
        skipped_named: not_listed.skipped_named,
        ignored: count(not_listed.ignored),
        not_utf8: u32::try_from(not_listed.not_utf8).unwrap_or(u32::MAX),
        not_on_disk: count(not_listed.not_on_disk),
    })
}

/// Bytes of the largest `.gitattributes` that is read.
const ATTRIBUTES_BYTES_MAX: u64 = 64 * 1024;

/// True for a file that `.gitattributes` marks as generated. The attributes are read once for a call.
pub(super) fn is_generated(call: &CallBudget, context: &CallContext, path: &str) -> Result<bool, Failure> {
    let names = super::bulk::list_files(call, context)?;
    let read = || {
        let text = |path: &str| {
            let content = context.repository.read_within(path, ATTRIBUTES_BYTES_MAX, &call.token);
            String::from_utf8(content.ok()?).ok()
        };
        let named = names.list().files.iter().map(|file| file.path.as_str());
        GeneratedFiles::read(named.filter(|path| path.ends_with(GIT_ATTRIBUTES)), text)
    };
    Ok(call.generated.get_or_init(read).holds(&path_of(path)?))
}

/// The failure for a walk that gave no list.
pub(super) fn scan_failure(error: ScanError) -> Failure {
    match error {
        ScanError::Cancelled => Failure::limit("the list of files was cut short"),
        ScanError::Unreadable { .. } => Failure::failed(error.to_string()),
    }
}

/// Files between two checks whether the call must end. Many globs on long paths take a microsecond each.
const FILES_BETWEEN_CHECKS: usize = 256;

/// Checks for every `FILES_BETWEEN_CHECKS`th file whether the call must end.
pub(super) fn going_on(call: &CallBudget, at: usize) -> Result<(), Failure> {
    if at.is_multiple_of(FILES_BETWEEN_CHECKS) {
        call.check().map_err(|_| scan_failure(ScanError::Cancelled))
    } else {
        Ok(())
    }
}

fn fill_page<'a>(
    call: &CallBudget,
    entries: impl Iterator<Item = (&'a str, EntryKind, u64)>,
    globs: &Globs,
    after: Option<&str>,
    left_out: u32,
) -> Result<Page, Failure> {
    let mut page = Page {
        entries: Vec::new(),
        next: None,
        left_out,
    };
    let mut bytes = 0;
    let left = entries.filter(|(path, _, _)| after.is_none_or(|after| *path > after));
    for (at, (path, kind, size)) in left.enumerate() {
        going_on(call, at)?;
        if !globs.select(path) {
            continue;
        }
        let is_full = page.entries.len() >= LIST_PAGE_ENTRIES_MAX || bytes >= LIST_PAGE_BYTES_MAX;
        if let (true, Some(last)) = (is_full, page.entries.last()) {
            page.next = Some(last.path.clone());
            return Ok(page);
        }
        bytes += path.len();
        page.entries.push(build_entry(path, kind, size));
    }
    Ok(page)
}

/// Records the paths of a page for the taint, once for each directory.
pub(super) fn note_listed(call: &CallBudget, page: &Page) {
    fn parent_directory(entry: &Entry) -> Option<&str> {
        entry.path.rsplit_once('/').map(|(directory, _)| directory)
    }
    for entries in page.entries.chunk_by(|a, b| parent_directory(a) == parent_directory(b)) {
        if let Some(directory) = parent_directory(&entries[0]) {
            call.note_listed(directory, entries.iter().map(|entry| &*entry.path));
        }
    }
}

fn build_entry(path: &str, kind: EntryKind, size: u64) -> Entry {
    Entry {
        path: path.to_owned(),
        kind: match kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
        }
        .to_owned(),
        size,
    }
}

/// Notes that the guest says its answer shows a file with this content. The end of the call decides whether that is
/// true, when there is an answer.
pub(super) fn record_shown(call: &CallBudget, context: &CallContext, path: &str, sha256: String) {
    let Ok(path) = normalise_path(path) else { return };
    // A file that cannot be opened cannot have been read. The check also keeps the notes from growing without bound.
    if !is_digest(&sha256) || context.repository.open_file_within(&path, &call.token).is_err() {
        return;
    }
    call.claim(path, sha256);
}

pub(super) fn open_failure(error: &OpenError) -> Failure {
    let kind = match error {
        OpenError::NotFound { .. } => FailureKind::NotFound,
        OpenError::Denied { .. } | OpenError::NotRegular { .. } => FailureKind::Denied,
        _ => FailureKind::Failed,
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Limits;
    use crate::globs::{LIST_GLOB_BYTES_MAX, LIST_GLOBS_MAX};

    fn call() -> Arc<CallBudget> {
        CallBudget::new("demo", Limits::default(), &CancellationToken::new())
    }

    fn selected(globs: &[&str]) -> Vec<&'static str> {
        let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
        let globs = Globs::new(&globs).expect("the globs are valid");
        let paths = ["a.rs", "b.py", "src/a.rs", "src/deep/c.rs", "tests/a.rs"];
        paths.into_iter().filter(|path| globs.select(path)).collect()
    }

    #[test]
    fn globs_match_names_paths_and_exclude() {
        assert_eq!(selected(&[]).len(), 5);
        assert_eq!(selected(&["*.rs"]), ["a.rs", "src/a.rs", "src/deep/c.rs", "tests/a.rs"]);
        assert_eq!(selected(&["src/*.rs"]), ["src/a.rs"]);
        assert_eq!(selected(&["src/**"]), ["src/a.rs", "src/deep/c.rs"]);
        assert_eq!(
            selected(&["src/**/*.rs", "*.py"]),
            ["b.py", "src/a.rs", "src/deep/c.rs"]
        );
        assert_eq!(selected(&["*.rs", "!tests/**"]), ["a.rs", "src/a.rs", "src/deep/c.rs"]);
        assert_eq!(selected(&["!*.rs"]), ["b.py"]);
        assert_eq!(selected(&["/*.rs"]), ["a.rs"]);
    }

    #[test]
    fn an_invalid_glob_is_named() {
        let globs = ["a[".to_owned()];
        let failure = Globs::new(&globs).expect_err("the glob is not closed");
        assert_eq!(failure.kind, FailureKind::InvalidArguments);
        assert!(
            failure.message.starts_with("the glob `a[` is not valid"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn pages_follow_each_other_without_gap() {
        let paths: Vec<String> = (0..LIST_PAGE_ENTRIES_MAX * 2 + 3)
            .map(|number| format!("{number:08}"))
            .collect();
        let globs = Globs::new(&[]).expect("no glob is valid");
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let entries = paths.iter().map(|path| (path.as_str(), EntryKind::File, 1));
            let page = fill_page(&call(), entries, &globs, after.as_deref(), 0).expect("nothing ends it");
            assert!(page.entries.len() <= LIST_PAGE_ENTRIES_MAX);
            seen.extend(page.entries.into_iter().map(|entry| entry.path));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, paths);
    }

    #[test]
    fn a_page_of_long_paths_is_short() {
        let long = "d/".repeat(2_000);
        let paths: Vec<String> = (0..600).map(|number| format!("{long}{number:03}")).collect();
        let entries = paths.iter().map(|path| (path.as_str(), EntryKind::File, 1));
        let globs = Globs::new(&[]).expect("no glob is valid");
        let page = fill_page(&call(), entries, &globs, None, 0).expect("nothing ends it");
        let bytes: usize = page.entries.iter().map(|entry| entry.path.len()).sum();
        assert!(bytes <= LIST_PAGE_BYTES_MAX + long.len() + 3, "{bytes}");
        assert!(page.next.is_some());
    }

    #[test]
    fn globs_are_bounded_in_number_and_length() {
        let refused = |globs: &[String]| Globs::new(globs).err().map(|failure| failure.message);
        let many = vec!["a".to_owned(); LIST_GLOBS_MAX];
        assert_eq!(refused(&many), None);
        let more = [many, vec!["a".to_owned()]].concat();
        assert_eq!(refused(&more).as_deref(), Some("there are more than 64 globs"));
        let long = "a".repeat(LIST_GLOB_BYTES_MAX + 1);
        let answer = refused(&[long]).expect("it is refused");
        assert!(answer.ends_with("is not valid: it is too long"), "{answer}");
    }
}
