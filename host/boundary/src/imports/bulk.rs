//! `bulk`: reads the files of a selection one after the other and returns them in batches.
//!
//! The repository decides which files may be read, and how. This module keeps a batch within its limits, counts what is
//! read, and notes the places of the files. The parts of a call read from the same list.

use std::ops::Range;
use std::sync::{Arc, PoisonError, Weak};

use super::repository::{going_on, is_listed, open_failure, path_of, scan_failure};
use crate::bindings::tool::skill::bulk::{Batch, File, Selection};
use crate::budget::{CallBudget, GuestStop};
use crate::globs::Globs;
use crate::{CallContext, Failure, ImportError, Limits};
use tool_core::api::ErrorKind;
use tool_repository::bulk::{ListedNames, ReadBounds, ReadOutcome};
use tool_repository::{EntryKind, FileEntry};

/// Different lists of globs that the readers of one call hold at a time. Each is compiled in the memory of the host, where
/// globs that are made for it take megabytes; the parts of an honest call share one.
const CALL_GLOBS_MAX: usize = 8;

/// Bytes after which a batch of files is handed over. It is written, copied and searched while it is in the cache of a
/// processor; smaller ones make more calls, and larger ones were measured to be slower.
const BULK_BATCH_BYTES: usize = 256 * 1024;

/// Files of a batch. Empty files do not count against the bytes of a batch, so their number needs a bound too.
const BULK_BATCH_FILES_MAX: usize = 512;

/// Less than this, files counted with what opening them costs, is not worth a part of its own: an instance costs as much
/// as reading some tens of kilobytes.
const BULK_RUN_BYTES_MIN: u64 = 1024 * 1024;

/// Cost of opening a file, as bytes that could be read and searched in the same time.
const FILE_COST_BYTES: u64 = 16 * 1024;

/// Files that are skipped between two checks whether the call must end.
const FILES_BETWEEN_CHECKS: usize = 64;

/// A selection, and the part of it that is left to read.
pub(crate) struct SelectionReader {
    call: Arc<CallBudget>,
    context: Arc<CallContext>,
    names: ListedNames,
    globs: Arc<Globs>,
    wanted: ReadBounds,
    left: Range<usize>,
    /// False for files that the list from the root leaves out.
    is_listed: bool,
}

/// The current files, the same for every part of the call.
pub(super) fn list_files(call: &CallBudget, context: &CallContext) -> Result<ListedNames, Failure> {
    // Locked during the walk: another part that asks now waits for this answer.
    let mut known = call.names.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(names) = &*known {
        return Ok(names.clone());
    }
    let names = context.repository.names(&call.token).map_err(scan_failure)?;
    call.note_skipped_ignores(&names.list().skipped_ignores);
    *known = Some(names.clone());
    Ok(names)
}

/// The current files below a path, and whether the list from the root has them.
pub(super) fn names_below(
    call: &CallBudget,
    context: &CallContext,
    under: &str,
    names: ListedNames,
) -> Result<(ListedNames, bool), Failure> {
    let opened = context.repository.open_within(&path_of(under)?, &call.token);
    let opened = opened.map_err(|error| open_failure(&error))?;
    if is_listed(names.list(), &opened) {
        return Ok((names, true));
    }
    Ok((list_files_below(call, context, &opened.path)?, false))
}

/// The files below a path that the list from the root leaves out. One path is walked only once for a call.
pub(super) fn list_files_below(call: &CallBudget, context: &CallContext, path: &str) -> Result<ListedNames, Failure> {
    // Locked during the walk: another part that asks now waits for this answer.
    let mut known = call.named.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, names)) = known.as_ref().filter(|(named, _)| named == path) {
        return Ok(names.clone());
    }
    let names = context
        .repository
        .names_beneath(path, &call.token)
        .map_err(scan_failure)?;
    *known = Some((path.to_owned(), names.clone()));
    Ok(names)
}

/// Compiles the globs of a reader, or shares those of another reader of the call. The number of different ones is
/// bounded.
pub(super) fn shared_globs(call: &CallBudget, globs: &[String]) -> Result<Arc<Globs>, ImportError> {
    let mut held = call.globs.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|held| held.strong_count() > 0);
    let same = held.iter().filter_map(Weak::upgrade).find(|held| held.are(globs));
    if let Some(same) = same {
        return Ok(same);
    }
    let max = CALL_GLOBS_MAX;
    if held.len() >= max {
        let limit = format!("{max} selections with globs of their own");
        return Err(GuestStop::limit(limit, ErrorKind::HandlesLimit).into());
    }
    let globs = Arc::new(Globs::new(globs)?);
    held.push(Arc::downgrade(&globs));
    Ok(globs)
}

impl SelectionReader {
    pub(super) fn open(
        call: &Arc<CallBudget>,
        context: &Arc<CallContext>,
        selection: &Selection,
    ) -> Result<Self, ImportError> {
        let globs = shared_globs(call, &selection.globs)?;
        let names = names_below(call, context, &selection.under, list_files(call, context)?)?;
        Ok(Self::open_list(names, globs, call, context, selection)?)
    }

    /// Starts to read files of a list that the call has already.
    pub(super) fn open_list(
        (names, is_listed): (ListedNames, bool),
        globs: Arc<Globs>,
        call: &Arc<CallBudget>,
        context: &Arc<CallContext>,
        selection: &Selection,
    ) -> Result<Self, Failure> {
        Ok(Self {
            left: find_range(call, &names, context, selection)?,
            globs,
            wanted: ReadBounds {
                bytes_max: selection.file_bytes_max.min(Limits::DEFAULT.host_call_bytes as u64),
                text_only: selection.text_only,
            },
            call: Arc::clone(call),
            context: Arc::clone(context),
            names,
            is_listed,
        })
    }

    pub(super) fn next(&mut self) -> Result<Batch, GuestStop> {
        self.next_of(|_, _, _| true)
    }

    /// Reads the next files that `wants` accepts. It is asked about each selected file once, with the number of files
    /// in the batch so far. Only if the batch has no more room, it is asked again about the last file.
    pub(super) fn next_of(
        &mut self,
        mut wants: impl FnMut(usize, &FileEntry, usize) -> bool,
    ) -> Result<Batch, GuestStop> {
        let mut batch = Batch {
            files: Vec::new(),
            paths: String::new(),
            contents: Vec::with_capacity(BULK_BATCH_BYTES),
        };
        while batch.files.len() < BULK_BATCH_FILES_MAX && batch.contents.len() < BULK_BATCH_BYTES {
            let Some(at) = self.left.next() else { break };
            if at % FILES_BETWEEN_CHECKS == 0 {
                self.call.check()?;
            }
            let file = &self.names.list().files[at];
            if !self.globs.select(&file.path) || !wants(at, file, batch.files.len()) {
                continue;
            }
            self.call.check()?;
            if !self.add(at, &mut batch) {
                // In a batch of its own there is room for it.
                self.left.start = at;
                break;
            }
        }
        Ok(batch)
    }

    /// Adds a file; false if the batch is too full for it.
    fn add(&self, at: usize, batch: &mut Batch) -> bool {
        let path = &self.names.list().files[at].path;
        let start = batch.contents.len();
        let room = Limits::DEFAULT.host_call_bytes.saturating_sub(start) as u64;
        let wanted = ReadBounds {
            bytes_max: self.wanted.bytes_max.min(room),
            ..self.wanted
        };
        let repository = &self.context.repository;
        let read = repository.read_listed(&self.names, at, wanted, &mut batch.contents, &self.call.token);
        if matches!(read, Ok(ReadOutcome::Large)) && wanted.bytes_max < self.wanted.bytes_max {
            return false;
        }
        let left_out = match read {
            Ok(ReadOutcome::Whole) => {
                let redactor = &self.context.conversation.redactor;
                let content = &batch.contents[start..];
                if let Some(shown) = redactor.searchable(content, self.call.may_write()) {
                    self.call.note_copy(path, content, &shown);
                    batch.contents.truncate(start);
                    batch.contents.extend(shown);
                }
                self.call.note_place(path, self.is_listed);
                self.call.note_served(path);
                if let Some(recorder) = self.call.recorder() {
                    recorder.read(path);
                }
                None
            }
            Ok(ReadOutcome::Large) => Some("large"),
            Ok(ReadOutcome::Binary) => Some("binary"),
            Err(_) => Some("unreadable"),
        };
        batch.paths.push_str(path);
        batch.files.push(File {
            path_bytes: to_byte_count(path.len()),
            content_bytes: to_byte_count(batch.contents.len() - start),
            left_out: left_out.map(str::to_owned),
        });
        true
    }
}

/// Converts a length that a limit keeps small.
fn to_byte_count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Range of the selection in the list, without regard to globs.
fn find_range(
    call: &CallBudget,
    names: &ListedNames,
    context: &CallContext,
    selection: &Selection,
) -> Result<Range<usize>, Failure> {
    let list = names.list();
    let under = path_of(&selection.under)?;
    // A path without entries below it is a file, an empty directory, or an error to explain.
    let opened = context
        .repository
        .open_within(&under, &call.token)
        .map_err(|error| open_failure(&error))?;
    let range = match opened.kind {
        EntryKind::Directory => list.range_beneath(&opened.path),
        _ => list.index_of(&opened.path).map_or(0..0, |at| at..at + 1),
    };
    let bound = |bound: &Option<String>, default| bound.as_deref().map_or(default, |bound| list.at(bound));
    let start = bound(&selection.start, 0).max(range.start);
    let end = bound(&selection.end, usize::MAX).min(range.end);
    Ok(start..end.max(start))
}

/// Divides the selection into runs of about equal cost. Returns the first path of each run except the first.
pub(super) fn divide_selection(
    call: &CallBudget,
    context: &CallContext,
    selection: &Selection,
    parts: u32,
) -> Result<Vec<String>, Failure> {
    let (names, _) = names_below(call, context, &selection.under, list_files(call, context)?)?;
    let globs = Globs::new(&selection.globs)?;
    let files = &names.list().files[find_range(call, &names, context, selection)?];
    let cost = |file: &FileEntry| {
        if file.size > selection.file_bytes_max {
            0
        } else {
            file.size + FILE_COST_BYTES
        }
    };
    let mut selected: Vec<(&FileEntry, u64)> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        going_on(call, at)?;
        if globs.select(&file.path) {
            selected.push((file, cost(file)));
        }
    }
    let total: u64 = selected.iter().map(|(_, cost)| cost).sum();
    let parts = u64::from(parts).min(total / BULK_RUN_BYTES_MIN).max(1);
    let mut starts = Vec::new();
    let mut spent = 0;
    for (file, cost) in selected {
        let made = starts.len() as u64 + 1;
        if made < parts && spent >= total / parts * made {
            starts.push(file.path.clone());
        }
        spent += cost;
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::FailureKind;
    use crate::bindings::tool::skill::repository::Query;
    use crate::imports::repository::list_page;
    use crate::imports::testing::context;

    #[test]
    fn a_named_folder_that_the_list_leaves_out_is_walked_once_a_call() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let add = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders can be made");
            std::fs::write(path, "x\n").expect("files can be written");
        };
        add("node_modules/a.js");
        add("b.js");
        let context = Arc::new(context(folder.path()));
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let paths = |under: &str| {
            let query = Query {
                under: under.to_owned(),
                recursive: true,
                globs: Vec::new(),
                after: None,
            };
            let page = list_page(&call, &context, &query).unwrap_or_else(|failure| panic!("{}", failure.message));
            page.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(""), ["b.js"]);
        assert_eq!(paths("node_modules"), ["node_modules/a.js"]);
        add("node_modules/later.js");
        assert_eq!(paths("node_modules"), ["node_modules/a.js"], "its pages agree");
        let under = "node_modules".to_owned();
        let opened = SelectionReader::open(&call, &context, &Selection { under, ..selection() });
        let mut reader = opened.expect("it is opened");
        let batch = reader.next().unwrap_or_else(|_| panic!("it is read"));
        assert_eq!(batch.paths, "node_modules/a.js");
    }

    fn selection() -> Selection {
        Selection {
            under: String::new(),
            globs: Vec::new(),
            start: None,
            end: None,
            file_bytes_max: 1024 * 1024,
            text_only: true,
        }
    }

    /// Paths of all batches, and the bytes of each batch.
    fn read(context: &Arc<CallContext>, selection: &Selection) -> (Vec<String>, Vec<usize>) {
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let mut reader = SelectionReader::open(&call, context, selection).expect("it opens");
        let (mut paths, mut bytes) = (Vec::new(), Vec::new());
        loop {
            let batch = reader.next().expect("nothing ends it");
            if batch.files.is_empty() {
                return (paths, bytes);
            }
            let mut rest = batch.paths.as_str();
            for file in &batch.files {
                let path;
                (path, rest) = rest.split_at(file.path_bytes as usize);
                paths.push(path.to_owned());
            }
            let told: usize = batch.files.iter().map(|file| file.content_bytes as usize).sum();
            assert_eq!((rest, told), ("", batch.contents.len()));
            bytes.push(told);
        }
    }

    #[test]
    fn runs_are_the_whole_and_batches_are_bounded() {
        let folder = tempfile::tempdir().expect("there is room");
        for number in 0..1_200 {
            let size = if number == 7 { 900_000 } else { number % 3_000 };
            let place = folder.path().join(format!("f{number:04}"));
            std::fs::write(place, vec![b'x'; size]).expect("files can be written");
        }
        let context = Arc::new(context(folder.path()));
        let (whole, bytes) = read(&context, &selection());
        assert_eq!(whole.len(), 1_200);
        assert!(
            bytes.iter().all(|&bytes| bytes < BULK_BATCH_BYTES + 900_001),
            "{bytes:?}"
        );
        assert!(bytes.len() >= 1_200 / BULK_BATCH_FILES_MAX, "{bytes:?}");
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let starts = divide_selection(&call, &context, &selection(), 4).expect("it is divided");
        assert_eq!(starts.len(), 3);
        let bounds = std::iter::once(None).chain(starts.into_iter().map(Some)).chain([None]);
        let bounds: Vec<Option<String>> = bounds.collect();
        let mut joined = Vec::new();
        for run in bounds.windows(2) {
            let (paths, _) = read(
                &context,
                &Selection {
                    start: run[0].clone(),
                    end: run[1].clone(),
                    ..selection()
                },
            );
            assert!(paths.len() > 100, "{} files in {run:?}", paths.len());
            joined.extend(paths);
        }
        assert_eq!(joined, whole);
    }

    #[test]
    fn batches_hold_placeholders_for_keys() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = ["ghp", "_", "Zk3qW9xR2mT7vB4nL6cY8dF1gH5jK0sA2eU4"].concat();
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(name), format!("{name} = \"{key}\"\n")).expect("files can be written");
        }
        let context = Arc::new(context(folder.path()));
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let mut opened = SelectionReader::open(&call, &context, &selection()).expect("it opens");
        let batch = opened.next().expect("nothing ends it");
        let text = "a = \"[redacted:github-token:1]\"\nb = \"[redacted:github-token:1]\"\n";
        assert_eq!(String::from_utf8_lossy(&batch.contents), text);
        let lengths: Vec<u32> = batch.files.iter().map(|file| file.content_bytes).collect();
        assert_eq!(lengths, [text.len() as u32 / 2; 2]);
    }

    #[test]
    fn looking_for_what_globs_select_ends_with_the_call() {
        let folder = tempfile::tempdir().expect("there is room");
        for number in 0..600 {
            std::fs::write(folder.path().join(format!("f{number}")), "x").expect("files can be written");
        }
        let context = Arc::new(context(folder.path()));
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let query = Query {
            under: String::new(),
            recursive: true,
            globs: vec!["none".to_owned()],
            after: None,
        };
        assert!(
            divide_selection(&call, &context, &selection(), 8).is_ok() && list_page(&call, &context, &query).is_ok()
        );
        // Both lists are known by now, so that only the passes over them can ask.
        call.token.cancel();
        let divided = divide_selection(&call, &context, &selection(), 8);
        assert_eq!(divided.err().map(|failure| failure.kind), Some(FailureKind::Limit));
        let listed = list_page(&call, &context, &query);
        assert_eq!(listed.err().map(|failure| failure.kind), Some(FailureKind::Limit));
    }

    #[test]
    fn readers_of_a_call_share_their_globs_and_hold_few() {
        let folder = tempfile::tempdir().expect("there is room");
        let context = Arc::new(context(folder.path()));
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let open = |number: usize| {
            let globs = vec![format!("*.{number}")];
            SelectionReader::open(&call, &context, &Selection { globs, ..selection() })
        };
        let mut readers: Vec<SelectionReader> = (0..CALL_GLOBS_MAX)
            .map(|number| open(number).expect("there is room"))
            .collect();
        readers.push(open(0).expect("it has the globs of another one"));
        let limit = "8 selections with globs of their own";
        let Err(ImportError::End(end)) = open(99) else {
            panic!("it is one too many");
        };
        assert_eq!(
            end.downcast_ref(),
            Some(&GuestStop::limit(limit, ErrorKind::HandlesLimit))
        );
        readers.truncate(1);
        assert!(open(99).is_ok(), "what a reader held goes with it");
    }

    #[test]
    fn little_is_not_divided_and_what_is_not_there_is_refused() {
        let folder = tempfile::tempdir().expect("there is room");
        std::fs::write(folder.path().join("a.py"), "x").expect("files can be written");
        std::fs::write(folder.path().join("b.rs"), "x").expect("files can be written");
        let context = Arc::new(context(folder.path()));
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        assert_eq!(
            divide_selection(&call, &context, &selection(), 8).ok(),
            Some(Vec::new())
        );
        let enough = "x".repeat(BULK_RUN_BYTES_MIN as usize * 2);
        std::fs::write(folder.path().join("c.txt"), &enough).expect("files can be written");
        std::fs::write(folder.path().join("d.txt"), &enough).expect("files can be written");
        let many = self::context(folder.path());
        let all = Selection {
            file_bytes_max: u64::MAX,
            ..selection()
        };
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let runs = divide_selection(&call, &Arc::new(many), &all, 8).ok();
        assert_eq!(runs, Some(vec!["d.txt".to_owned()]));
        let globs = vec!["*.rs".to_owned()];
        let (paths, _) = read(&context, &Selection { globs, ..selection() });
        assert_eq!(paths, ["b.rs"]);
        let under = "b.rs".to_owned();
        let (paths, _) = read(&context, &Selection { under, ..selection() });
        assert_eq!(paths, ["b.rs"]);
        let under = "none".to_owned();
        let failure = divide_selection(&call, &context, &Selection { under, ..selection() }, 8);
        assert_eq!(failure.err().map(|failure| failure.kind), Some(FailureKind::NotFound));
    }
}
