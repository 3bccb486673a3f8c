//! The context engine: it chooses the 4 to 6 files that matter for a request, and makes the text for the model from
//! them.
//!
//! Read in this order: `symbols` (definitions and imports of a file), `profile` (what the index stores of a file),
//! `layout` (roles of files, from their paths), `names` (words in paths), `query` (the words of a task), `file_match`
//! (the matches of a task in a file), `rank` (scores), `entry` (entry points), `select` (the rule of each operation),
//! `vault` (the user's notes), `packet` (the text for the model). `modules` draws the imports between folders, files
//! and packages, and `calls` the callers and callees of a symbol; `endpoints` finds routes and commands. All of them
//! are functions of a list of files and a [`FileSource`]. Only this module, `lookup` and `index` (a cache of profiles on
//! disk) use the repository. All files are opened through it, so hidden files are never read.

#![forbid(unsafe_code)]

mod base_classes;
mod calls;
mod codec;
mod definitions;
mod endpoints;
mod exact;
mod file_match;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/context.rs"]
pub mod fuzz;
pub mod history;
mod index;
mod instructions;
mod layout;
mod lookup;
mod manifest_entries;
mod modules;
pub mod operation;
mod packet;
mod path_names;
mod profile;
mod query;
mod rank;
mod rice;
mod select;
mod selection_filter;
pub mod symbols;
mod target;
mod task_areas;
mod task_subjects;
mod vault;
mod weights;
mod word_hits;
mod words;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::limits::SCAN_SECONDS_MAX;
use history::History;
use index::IndexView;
use layout::TreeLayout;
use path_names::PathNames;
use profile::Profile;
use query::Query;
use skill_details::NotSearched;
use tool_core::api::{ErrorKind, Operation, Problem, ScanResult, SelectedFile};
use tool_core::redaction::Redactor;
use tool_repository::{FileEntry, FileList, OpenError, Repository, ScanError, bulk, file_role, is_beyond_scan};

pub use calls::draw_calls;
pub use definitions::{InheritedName, SymbolSearch, find_symbol};
pub use endpoints::{Endpoint, Endpoints, find_endpoints};
pub use history::{HistoryReader, NoHistory, RecentChanges, recent_changes};
pub use index::{
    EXACT_CHECK_FILES_MAX, FileVerdict, INDEXES_BYTES_MAX, Indexes, OUTLINE_FILL_SECONDS_MAX, PatternKind,
    READ_ALL_FILES_MAX, READ_FILES_MAX, SearchPattern,
};
pub use lookup::{FoundDefinition, FoundReference, LookupError, ReferenceForm, SymbolPage, SymbolReader, outline_file};
pub use modules::draw_modules;
pub use packet::estimate_tokens as packet_tokens;
pub use rank::FEATURE_NAMES;
pub use selection_filter::SelectionFilter;
pub use symbols::{NoParser, SyntaxParser};
pub use target::{SymbolPlace, Target};
pub use task_subjects::find_task_subjects;
pub use weights::{FEATURE_COUNT, WEIGHTS_WITH_HISTORY, WEIGHTS_WITHOUT_HISTORY};
use word_hits::WordHits;

/// Threads of one selection. More than the cores of a common machine do not help, and a daemon has other sessions.
const CONTEXT_THREADS_MAX: usize = 8;

/// Time in which a selection reads files. Six thousand take half a second; for a tree that needs longer, the selection
/// uses the files read so far and tells the user.
const SELECT_SECONDS_MAX: u64 = 20;

/// The result of context building. The first three fields are the specification's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// The chosen files, best first.
    pub selected: Vec<SelectedFile>,
    /// The text that goes to the model: files with line numbers, notes, and what was left out.
    pub context: String,
    /// Number of files that were loaded.
    pub files_loaded: usize,
    /// Near misses, best first, with their reasons.
    pub near_misses: Vec<SelectedFile>,
    /// Notices for the user, such as fewer files than usual or a scan that was cut short.
    pub notices: Vec<String>,
    /// Path and SHA-256 (hexadecimal) of each chosen file that went into the packet whole and unaltered.
    pub digests: Vec<(String, String)>,
    /// Notes of the vault that went along, as paths below it.
    pub notes: Vec<String>,
    /// Instruction files of the project that went along, the nearest to the target first.
    pub instructions: Vec<String>,
    /// True where the choice may hold files that the user ignores, because an ignore file is over the limits.
    pub may_reveal_ignored: bool,
}

/// Input of a packet.
#[derive(Debug, Clone, Copy)]
pub struct BuildRequest<'a> {
    /// The repository.
    pub repository: &'a Arc<Repository>,
    /// Profiles from earlier reads.
    pub indexes: &'a Arc<Indexes>,
    /// Operation that the packet serves.
    pub operation: Operation,
    /// Target of the operation.
    pub target: &'a Target,
    /// Narrows the target.
    pub focus: Option<&'a str>,
    /// Files that the user includes or excludes, regardless of their rank.
    pub filter: &'a SelectionFilter,
    /// Directory of the user's notes.
    pub vault: Option<&'a Path>,
    /// Replaces what looks like a key.
    pub redactor: &'a Redactor,
    /// Most tokens of the whole packet; `limits::PACKET_TOKENS` unless the model has a small context.
    pub budget_tokens: u64,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

/// Reason why a packet or a scan failed.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Nothing is there, or everything is ignored.
    #[error("No files found in repository")]
    Empty,
    /// Only for a scan. An operation continues with the files found so far, unless there are none.
    #[error("Repository scan timeout: exceeded {SCAN_SECONDS_MAX}s")]
    Timeout,
    /// A file that must be selected is not there.
    #[error(transparent)]
    Include(Problem),
    /// The session ended.
    #[error("cancelled")]
    Cancelled,
    /// The repository cannot be listed.
    #[error("The repository cannot be scanned: {0}")]
    Unreadable(#[source] ScanError),
}

impl From<ScanError> for ContextError {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Cancelled => Self::Cancelled,
            ScanError::Unreadable { .. } => Self::Unreadable(error),
        }
    }
}

impl From<ContextError> for Problem {
    fn from(error: ContextError) -> Self {
        let message = error.to_string();
        match error {
            ContextError::Empty => Self::new(ErrorKind::EmptyRepository, message)
                .with_hint("check the directory: it is empty, or all of its files are ignored or hidden"),
            ContextError::Timeout => Self::new(ErrorKind::ScanTimeout, message)
                .with_hint("operations still work, with the files found so far; target specific files"),
            ContextError::Include(problem) => problem,
            ContextError::Cancelled => Self::new(ErrorKind::Cancelled, message),
            ContextError::Unreadable(_) => {
                Self::new(ErrorKind::ScanFailed, message).with_hint("check the permissions of the directory")
            }
        }
    }
}

/// Counts what a repository holds.
///
/// # Errors
///
/// If the repository is empty or cannot be listed, the time is over, or `cancel` fires.
pub fn scan_repository(repository: &Repository, cancel: &CancellationToken) -> Result<ScanResult, ContextError> {
    let names = repository.names(cancel)?;
    let list = names.list();
    if !list.complete {
        return Err(ContextError::Timeout);
    }
    // Tracked files in directories that the specification's scanner skips count everywhere except in these numbers.
    let mut directory = ("", false);
    let counted = list.files.iter().map(|entry| entry.path.as_str()).filter(|path| {
        // Checked once for each directory: a large tree has some hundred thousand files.
        let parent = file_role::parent_directory(path);
        if parent != directory.0 {
            directory = (parent, is_beyond_scan(path));
        }
        !directory.1
    });
    let summary = file_role::summarise_files(counted);
    if summary.files == 0 {
        return Err(ContextError::Empty);
    }
    Ok(ScanResult {
        not_utf8: list.not_utf8,
        notices: list.skipped_ignores.notice().into_iter().collect(),
        ..summary
    })
}

/// Chooses files for a request and writes the packet for the model. Blocks: run it on the blocking pool.
///
/// # Errors
///
/// If the repository is empty or cannot be listed, a file to include does not exist, or the request is cancelled.
pub fn build_packet(request: &BuildRequest<'_>) -> Result<Packet, ContextError> {
    let since = Instant::now();
    let (list, age) = request.indexes.list(request.repository, request.cancel)?;
    if list.files.is_empty() {
        return Err(if list.complete {
            ContextError::Empty
        } else {
            ContextError::Timeout
        });
    }
    let list = with_named(request, list)?;
    let view = request
        .indexes
        .open_view(request.repository, &list, since, request.cancel);
    let view = view.with_history(request.filter.takes_history());
    let mut packet = build_from(request, &list, &view);
    view.finish();
    if let (Ok(packet), Some(age)) = (&mut packet, age) {
        packet.notices.push(format!(
            "Files changed in the last {} s may be missing; ask again",
            age.as_secs() + 1
        ));
    }
    if let Ok(packet) = &mut packet
        && request.filter.takes_history()
        && request.target.task().is_some()
    {
        let gap = request.indexes.history_gap(request.repository);
        packet.notices.extend(gap.map(history::HistoryGap::notice));
    }
    packet
}

/// Adds the directories and files that the request names and the list lacks.
fn with_named(request: &BuildRequest<'_>, list: Arc<FileList>) -> Result<Arc<FileList>, ContextError> {
    let targets: &[String] = match request.target {
        Target::Directory(path) | Target::TaskIn { path, .. } => std::slice::from_ref(path),
        Target::Paths(paths) => paths,
        Target::Root | Target::File(_) | Target::Lines { .. } | Target::Symbol { .. } | Target::Task(_) => &[],
    };
    let mut named = Vec::new();
    for path in targets.iter().cloned().chain(request.filter.named_paths()) {
        let is_known = list.has_walked(&path) || list.find(&path).is_some();
        if !is_known && let Ok(opened) = request.repository.open_within(&path, request.cancel) {
            named.push(request.repository.list_named(&opened.path, request.cancel)?);
        }
    }
    Ok(if named.is_empty() {
        list
    } else {
        Arc::new(list.joined(&named))
    })
}

/// Describes the files that a list leaves out, as the end of a sentence that something does not exist.
pub fn describe_not_listed(repository: &Repository, under: &str, cancel: &CancellationToken) -> String {
    let Ok(names) = repository.names(cancel) else {
        return String::new();
    };
    let not_listed = names.list().not_listed(under);
    let not_searched = NotSearched {
        skipped_folders: not_listed.skipped as u64,
        skipped_named: not_listed.skipped_named,
        ignored: not_listed.ignored as u64,
        not_utf8: not_listed.not_utf8,
        not_on_disk: not_listed.not_on_disk as u64,
        ..NotSearched::default()
    };
    let words = not_searched.not_listed();
    if words.is_empty() {
        String::new()
    } else {
        format!("; not searched: {}", words.join(", "))
    }
}

/// Lets `read` use the tree of a whole repository without its history, and then updates the index.
fn read_tree<T>(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    cancel: &CancellationToken,
    read: impl FnOnce(&SelectionTree<'_>, &FileList) -> Result<T, ContextError>,
) -> Result<T, ContextError> {
    let since = Instant::now();
    let list = repository.list(cancel)?;
    let view = indexes.open_view(repository, &list, since, cancel);
    let view = view.with_history(false);
    let tree = SelectionTree::with_layout(list.files.iter(), &view, Arc::clone(view.layout()), cancel);
    let result = read(&tree, &list);
    view.finish();
    if cancel.is_cancelled() {
        return Err(ContextError::Cancelled);
    }
    result
}

/// A file with its features, in the order of [`FEATURE_NAMES`].
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredCandidate {
    /// Path of the file.
    pub path: String,
    /// The features.
    pub features: [f64; FEATURE_COUNT],
    /// Weight of the file's role: 1 for sources, less for tests and examples.
    pub factor: f64,
}

/// Computes the features of all files that a task could be about, as a selection does. Weights are fitted to them.
/// Blocks.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn measure_candidates(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    task: &str,
    cancel: &CancellationToken,
) -> Result<Vec<MeasuredCandidate>, ContextError> {
    let list = repository.list(cancel)?;
    let view = indexes.open_view(repository, &list, Instant::now(), cancel);
    let tree = SelectionTree::with_layout(list.files.iter(), &view, Arc::clone(view.layout()), cancel);
    let candidate = |one: rank::MeasuredFile| MeasuredCandidate {
        path: tree.paths[one.index as usize].to_owned(),
        features: one.features.numbers(),
        factor: one.factor,
    };
    let candidates = select::measure_files(&tree, task).into_iter().map(candidate).collect();
    view.finish();
    Ok(candidates)
}

fn build_from(request: &BuildRequest<'_>, list: &FileList, view: &IndexView) -> Result<Packet, ContextError> {
    let entries = list.files.iter().filter(|entry| request.filter.keeps(entry));
    let tree = if request.filter.keeps_all() {
        SelectionTree::with_layout(entries, view, Arc::clone(view.layout()), request.cancel)
    } else {
        SelectionTree::new(entries, view, request.cancel)
    };
    let included = request.filter.included(&tree.paths).map_err(ContextError::Include)?;
    let mut selection = select::select_files(&tree, request.operation, request.target, request.focus, &included);
    if request.cancel.is_cancelled() {
        return Err(ContextError::Cancelled);
    }
    if selection.chosen.is_empty() {
        return Err(ContextError::Empty);
    }
    if !list.complete {
        let found = list.files.len();
        let notice =
            format!("The repository scan was cut short after {SCAN_SECONDS_MAX} s; {found} files were considered");
        selection.notices.insert(0, notice);
    }
    selection.notices.extend(notice_of_unnamed_files(list));
    selection.notices.extend(empty_target(request.target, list));
    if let Target::Symbol {
        name,
        inherited_by,
        places,
    } = request.target
    {
        selection
            .notices
            .push(describe_places(name, inherited_by.as_deref(), places));
    }
    if let Target::Task(task) = request.target
        && looks_like_path(task)
    {
        selection.notices.push(format!(
            "There is no file or directory `{task}`; it was taken as a task"
        ));
    }
    let words = [request.target.task(), request.focus]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n");
    selection
        .notices
        .extend(notices_of_spelled_paths(request, list, &tree, &words));
    let notes = request.vault.map_or_else(vault::VaultNotes::default, |directory| {
        vault::read_notes(directory, request.cancel)
    });
    let name = request
        .repository
        .root()
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let instructions = if request.filter.takes_instructions() {
        instructions::read_instructions(request, list)
    } else {
        Vec::new()
    };
    let mut packet = packet::write_packet(
        &tree,
        name,
        selection,
        packet::PacketExtras { notes, instructions },
        &words,
        request.redactor,
        request.budget_tokens,
    );
    if !packet.instructions.is_empty() {
        let files: Vec<String> = packet.instructions.iter().map(|path| format!("`{path}`")).collect();
        packet
            .notices
            .push(format!("Project instructions: {}", files.join(", ")));
    }
    // Only for the user: the text for the model names no such file.
    packet.notices.extend(list.skipped_ignores.notice());
    packet.may_reveal_ignored = list.skipped_ignores.may_reveal();
    Ok(packet)
}

/// Notice about the definition that a name was taken for.
fn describe_places(name: &str, inherited_by: Option<&str>, places: &[SymbolPlace]) -> String {
    let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
    let heir = inherited_by.map_or_else(String::new, |class| format!(", which `{class}` inherits,"));
    match places.as_slice() {
        [place] => format!("`{name}`{heir} is defined at {place}"),
        [first, others @ ..] => format!(
            "`{name}`{heir} is defined at {first}, and also at {}",
            others.join(", ")
        ),
        [] => String::new(),
    }
}

/// Notice about files whose names cannot be shown.
fn notice_of_unnamed_files(list: &FileList) -> Option<String> {
    match list.not_utf8 {
        0 => None,
        1 => Some("1 file or directory is left out: its name is not UTF-8".to_owned()),
        count => Some(format!(
            "{count} files and directories are left out: their names are not UTF-8"
        )),
    }
}

/// Files of a task that are left out, and why: those that the task spells out with a directory.
fn notices_of_spelled_paths(
    request: &BuildRequest<'_>,
    list: &FileList,
    tree: &SelectionTree<'_>,
    task: &str,
) -> Vec<String> {
    let why_left_out = |path: &str| -> Option<String> {
        if list.has_walked(path) {
            return None;
        }
        if list.find(path).is_some() {
            let is_unread = tree.find(path).is_some() && tree.text(path).is_none();
            return is_unread.then(|| format!("`{path}` is left out: it is not text, or too large"));
        }
        match request.repository.open_within(path, request.cancel) {
            Ok(_) => Some(format!(
                "`{path}` is left out: git ignores it, or its folder is not searched"
            )),
            Err(error @ OpenError::Denied { .. }) => Some(error.to_string()),
            Err(_) => None,
        }
    };
    let mut notices: Vec<String> = Vec::new();
    let query = query::Query::new(task, &weights::WEIGHTS);
    for path in query.spelled_paths() {
        notices.extend(why_left_out(path).filter(|notice| !notices.contains(notice)));
    }
    notices
}

/// Notice for a target directory in which no file can be chosen.
fn empty_target(target: &Target, list: &FileList) -> Option<String> {
    let (Target::Directory(path) | Target::TaskIn { path, .. }) = target else {
        return None;
    };
    let prefix = format!("{path}/");
    let at = list.files.partition_point(|file| file.path.as_str() < prefix.as_str());
    let next = list.files.get(at).map(|file| file.path.as_str());
    let is_listed = next.is_some_and(|next| next.starts_with(&prefix));
    // A task may be about one file.
    let is_file = list.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok();
    (!is_listed && !is_file)
        .then(|| format!("Nothing below `{path}` was chosen: it holds no files, or they are ignored by git or hidden"))
}

/// True for a task that is probably a mistyped path.
fn looks_like_path(task: &str) -> bool {
    !task.contains(char::is_whitespace) && (task.contains('/') || file_role::detect_language(task).is_some())
}

/// True for files that test-gen can write tests for.
pub fn is_source(path: &str) -> bool {
    file_role::is_code(path)
}

/// Source of the files of a selection.
trait FileSource: Sync {
    /// The content of a file; nothing where it cannot be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;

    /// Returns the profile of a file, without its text.
    fn profile(&self, path: &str) -> ProfileLookup {
        let text = self.read(path).and_then(text_of);
        ProfileLookup::from(text.and_then(|text| Profile::of_file(path, &text)))
    }

    /// Returns the profile of a file. `_at` is its probable index in the source's list.
    fn profile_near(&self, path: &str, _at: usize) -> ProfileLookup {
        self.profile(path)
    }

    /// Returns the files that contain words of a task, if that is known and faster than reading every profile. `files`
    /// are indices into `paths`, and probably into the source's list.
    fn word_hits(&self, _query: &Query, _paths: &[&str], _files: &[usize]) -> Option<WordHits> {
        None
    }

    /// Returns the known commits before the work tree, if there are any. May wait for a first reading.
    fn history(&self) -> Option<Arc<History>> {
        None
    }

    /// Returns how many of the requested files have no syntax tree yet and will get one.
    fn unparsed_count(&self) -> usize {
        0
    }
}

impl<F: Fn(&str) -> Option<Vec<u8>> + Sync> FileSource for F {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self(path)
    }
}

/// Result of asking for the profile of one file.
enum ProfileLookup {
    Found(Profile),
    /// The file cannot be read, or is not text.
    Absent,
    /// The file would have to be read, but no time is left. The next selection will have its profile.
    Later,
}

impl From<Option<Profile>> for ProfileLookup {
    fn from(profile: Option<Profile>) -> Self {
        profile.map_or(Self::Absent, Self::Found)
    }
}

/// The content as text; `None` if it is not text.
fn text_of(content: Vec<u8>) -> Option<String> {
    if bulk::is_binary(&content) {
        return None;
    }
    Some(match String::from_utf8(content) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// A repository as the selection sees it: its list of files, their roles, and a way to read them.
struct SelectionTree<'a> {
    /// Sorted bytewise.
    paths: Vec<&'a str>,
    sizes: Vec<u64>,
    layout: Arc<TreeLayout>,
    source: &'a dyn FileSource,
    cancel: &'a CancellationToken,
    deadline: Instant,
}

impl<'a> SelectionTree<'a> {
    fn new(
        entries: impl Iterator<Item = &'a FileEntry> + Clone,
        source: &'a dyn FileSource,
        cancel: &'a CancellationToken,
    ) -> Self {
        let paths: Vec<&str> = entries.clone().map(|entry| entry.path.as_str()).collect();
        let layout = TreeLayout::new(&paths, |path| source.read(path).and_then(text_of));
        Self::with_layout(entries, source, Arc::new(layout), cancel)
    }

    /// `layout` must belong to the same list of files.
    fn with_layout(
        entries: impl Iterator<Item = &'a FileEntry>,
        source: &'a dyn FileSource,
        layout: Arc<TreeLayout>,
        cancel: &'a CancellationToken,
    ) -> Self {
        let (paths, sizes) = entries.map(|entry| (entry.path.as_str(), entry.size)).unzip();
        Self {
            paths,
            sizes,
            layout,
            source,
            cancel,
            deadline: Instant::now() + limits::seconds(SELECT_SECONDS_MAX),
        }
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.paths.binary_search(&path).ok()
    }

    /// Indices of the files below a directory; the empty path is the root.
    fn below(&self, directory: &str) -> std::ops::Range<usize> {
        if directory.is_empty() {
            return 0..self.paths.len();
        }
        // `0` follows `/`.
        let (from, to) = (format!("{directory}/"), format!("{directory}0"));
        let at = |bound: &str| self.paths.partition_point(|path| *path < bound);
        at(&from)..at(&to)
    }

    /// The text of a file; `None` if it cannot be read or is not text.
    fn text(&self, path: &str) -> Option<String> {
        self.source.read(path).and_then(text_of)
    }

    /// Facts about the file names, which are the same for every task.
    fn names(&self) -> &PathNames {
        self.layout.names(&self.paths)
    }

    /// The files that a file imports, also for a file that is not listed.
    fn imports(&self, path: &str, profile: &Profile) -> Arc<[u32]> {
        match self.find(path) {
            Some(at) => self.layout.imports(at, path, profile),
            None => {
                let mut imports = Vec::new();
                profile.each_import(|import| imports.extend(self.layout.resolver.resolve(path, &import)));
                imports.into()
            }
        }
    }

    /// True once nothing more should be read for a selection.
    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() > self.deadline
    }

    /// Calls `work` for each of `files` on all processors. Results are in the order of `files`; `None` for those that
    /// were not reached in time.
    fn each<R: Send>(&self, files: &[usize], work: impl Fn(usize) -> Option<R> + Sync) -> Vec<Option<R>> {
        let mut results: Vec<Option<R>> = std::iter::repeat_with(|| None).take(files.len()).collect();
        let batches = files.chunks(BATCH_FILES).zip(results.chunks_mut(BATCH_FILES));
        let batches: Vec<_> = batches.map(Mutex::new).collect();
        each_in_parallel(&batches, |batch| {
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            let (files, results) = &mut *batch;
            for (file, result) in files.iter().zip(results.iter_mut()) {
                if self.is_over() {
                    return ControlFlow::Break(());
                }
                *result = work(*file);
            }
            ControlFlow::Continue(())
        });
        drop(batches);
        results
    }
}

/// Calls `work` for each of `items` on all processors, in any order, until it breaks. Returns the number of calls;
/// these were the first items. A panic of `work` reaches the caller.
fn each_in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> ControlFlow<()> + Sync) -> usize {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        while !is_over.load(Ordering::Relaxed)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if work(item).is_break() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    let threads = thread_count(std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            scope.spawn(run);
        }
        run();
    });
    next.into_inner().min(items.len())
}

/// `work` for each of `items` on all processors, results in their order.
fn map_in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = thread_count(cores).min(items.len() / ITEMS_OF_A_THREAD_MIN).max(1);
    let mut parts = items.chunks(items.len().div_ceil(parts).max(1));
    let work = |part: &[T]| part.iter().map(&work).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let work = &work;
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut results = work(first);
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Below so many items, a second thread costs more than it saves.
const ITEMS_OF_A_THREAD_MIN: usize = 2_000;

/// Threads of a selection on a machine with so many cores.
fn thread_count(cores: usize) -> usize {
    cores.min(CONTEXT_THREADS_MAX)
}

/// Files that a thread takes at once: enough that the counter costs nothing, few enough that threads end together.
const BATCH_FILES: usize = 16;

#[cfg(test)]
mod tests;

mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
