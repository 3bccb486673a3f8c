//! Chooses 4 to 6 files by the rule of each operation, with their order and the reasons.
//!
//! With a task, files are ranked by it. Without one, they come from key files, entry points and the graph of imports,
//! and only the needed files are read. `packet` decides how much of each file fits into the budget.

mod entry_points;
mod graph;
mod ranked;
mod related_tests;

use std::collections::HashMap;

use super::query::Query;
use super::rank::MeasuredFile;
use super::weights::WEIGHTS;
use super::{ProfileLookup, SelectionTree};
use super::{SymbolPlace, Target};
use crate::limits::{SELECTED_FILES_MAX, SELECTED_FILES_MIN};
use tool_core::api::Operation;
use tool_repository::file_role::{self, Role, parent_directory};

/// Files read to find the central ones where there is no task. Enough for what two or three steps of imports reach from
/// an entry point, few enough to be read in some ten milliseconds.
const CENTRAL_FILES_READ_MAX: usize = 400;

/// A file with the reasons for its selection.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SelectedPath {
    pub(super) path: String,
    pub(super) score: f64,
    pub(super) reasons: Vec<String>,
    /// Windows of lines that matter most, best first: first and last line, score.
    pub(super) windows: Vec<(u32, u32, f64)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Selection {
    pub(super) chosen: Vec<SelectedPath>,
    pub(super) near: Vec<SelectedPath>,
    pub(super) notices: Vec<String>,
}

/// Near misses that are kept.
const NEAR_MISSES_MAX: usize = 8;

/// Chooses files by the rule of the operation; `included` always comes first.
pub(super) fn select_files(
    tree: &SelectionTree<'_>,
    operation: Operation,
    target: &Target,
    focus: Option<&str>,
    included: &[&str],
) -> Selection {
    let place = WorkingPath::from_target(tree, target);
    let words = [target.task(), focus]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n");
    let query = Query::new(&words, &WEIGHTS);
    let mut draft = SelectionDraft::new(tree);
    for path in included {
        draft.take(path, f64::from(u16::MAX), "asked for by --include");
    }
    match target {
        Target::Lines { path, first, last } => draft.show_lines(path, *first, *last),
        Target::Symbol { name, places, .. } => draft.symbol(name, places),
        Target::Paths(paths) => draft.several(paths),
        _ => {}
    }
    match (operation, &place) {
        (Operation::TestGen, WorkingPath::File(path)) => draft.test_gen(path, &query),
        (_, WorkingPath::File(path)) => draft.one_file(path, &query),
        (Operation::Refactor, _) => draft.refactor(&place, &query),
        _ => draft.overview(&place, &query),
    }
    draft.finish(&place)
}

/// The features of all files that a task could be about, for fitting the weights of the ranking.
pub(super) fn measure_files(tree: &SelectionTree<'_>, task: &str) -> Vec<MeasuredFile> {
    SelectionDraft::new(tree).measured(&Query::new(task, &WEIGHTS))
}

/// Path that an operation works on.
#[derive(Debug, Clone, PartialEq)]
enum WorkingPath {
    /// The empty path is the root.
    Directory(String),
    File(String),
}

impl WorkingPath {
    fn from_target(tree: &SelectionTree<'_>, target: &Target) -> Self {
        let below = |path: &str| !tree.below(path).is_empty();
        match target {
            Target::Root | Target::Task(_) => Self::Directory(String::new()),
            Target::Directory(path) => Self::Directory(path.clone()),
            Target::File(path) | Target::Lines { path, .. } => Self::File(path.clone()),
            Target::Symbol { places, .. } => places.first().map_or_else(
                || Self::Directory(String::new()),
                |place| Self::File(place.path.clone()),
            ),
            Target::Paths(paths) => Self::Directory(shared_directory(paths)),
            // An unlisted path may be an ignored file. An ignored directory has no files to choose from.
            Target::TaskIn { path, .. } if below(path) => Self::Directory(path.clone()),
            Target::TaskIn { path, .. } => Self::File(path.clone()),
        }
    }

    fn directory(&self) -> &str {
        match self {
            Self::Directory(path) => path,
            Self::File(path) => parent_directory(path),
        }
    }
}

struct SelectionDraft<'t, 'a> {
    tree: &'t SelectionTree<'a>,
    chosen: Vec<SelectedPath>,
    near: Vec<SelectedPath>,
    notices: Vec<String>,
    /// Windows of files that were searched for a task.
    windows: HashMap<String, Vec<(u32, u32, f64)>>,
    /// True if files were left out that a later selection will know.
    is_incomplete: bool,
}

impl<'t, 'a> SelectionDraft<'t, 'a> {
    fn new(tree: &'t SelectionTree<'a>) -> Self {
        Self {
            tree,
            chosen: Vec::new(),
            near: Vec::new(),
            notices: Vec::new(),
            windows: HashMap::new(),
            is_incomplete: false,
        }
    }

    fn is_full(&self) -> bool {
        self.chosen.len() >= SELECTED_FILES_MAX
    }

    /// Selects a file, or notes it as a near miss. If it is selected already, adds the reason.
    fn take(&mut self, path: &str, score: f64, reason: impl Into<String>) {
        if let Some(known) = self.chosen.iter_mut().find(|choice| choice.path == path) {
            let reason = reason.into();
            if !known.reasons.contains(&reason) {
                known.reasons.push(reason);
            }
            return;
        }
        let choice = SelectedPath {
            path: path.to_owned(),
            score,
            reasons: vec![reason.into()],
            windows: Vec::new(),
        };
        self.take_choice(choice);
    }

    fn take_choice(&mut self, choice: SelectedPath) {
        let known = self
            .chosen
            .iter()
            .chain(&self.near)
            .any(|known| known.path == choice.path);
        if known {
            return;
        }
        if !self.is_full() {
            self.chosen.push(choice);
        } else if self.near.len() < NEAR_MISSES_MAX {
            self.near.push(choice);
        }
    }

    fn finish(mut self, place: &WorkingPath) -> Selection {
        for choice in self.chosen.iter_mut().chain(&mut self.near) {
            if choice.windows.is_empty() {
                choice.windows = self.windows.remove(&choice.path).unwrap_or_default();
            }
            if choice.reasons.is_empty() {
                choice.reasons.push("fits the task, by no single word".to_owned());
            }
        }
        self.tell_what_has_no_tree();
        let count = self.chosen.len();
        if count < SELECTED_FILES_MIN {
            let place = match place.directory() {
                "" => "in the repository".to_owned(),
                directory => format!("around `{directory}`"),
            };
            let files = if count == 1 { "file was" } else { "files were" };
            self.notices.push(format!(
                "Only {count} {files} selected: there are no others of use {place}"
            ));
        }
        Selection {
            chosen: self.chosen,
            near: self.near,
            notices: self.notices,
        }
    }

    /// Adds a notice while the index still lacks syntax trees, unless files are missing from the list, which matters
    /// more.
    fn tell_what_has_no_tree(&mut self) {
        let count = self.tree.source.unparsed_count();
        if count > 0 && !self.is_incomplete {
            let files = if count == 1 { "file" } else { "files" };
            self.notices.push(format!(
                "Indexing: {count} {files} left. Results improve as they are read."
            ));
        }
    }

    /// Files of the target directory, ranked by the task if there is one, else by centrality.
    fn refactor(&mut self, place: &WorkingPath, query: &Query) {
        let directory = place.directory();
        if query.is_empty() {
            let reason = central_in(directory);
            for (path, score) in self.central(directory, &[]) {
                self.take(&path, score, reason.as_str());
            }
        } else {
            for choice in self.ranked(directory, query) {
                self.take_choice(choice);
            }
        }
        self.own(directory);
        self.fill(directory);
    }

    /// Always shows these lines of a file; the rest depends on the budget.
    fn show_lines(&mut self, path: &str, first: u32, last: u32) {
        self.windows.insert(path.to_owned(), vec![(first, last, 1.0)]);
    }

    /// The definitions of a name, then the files that use it most.
    fn symbol(&mut self, name: &str, places: &[SymbolPlace]) {
        for place in places {
            let lines = (place.first, place.last.max(place.first + SYMBOL_LINES_MIN), 1.0);
            self.windows.entry(place.path.clone()).or_default().push(lines);
            self.take(&place.path, 1.0, format!("defines `{name}`"));
        }
        let query = Query::new(name, &WEIGHTS);
        for choice in self.ranked("", &query).into_iter().take(SYMBOL_USERS_MAX) {
            self.take_choice(choice);
        }
    }

    /// The files that the user named, and the most central files of each named directory.
    fn several(&mut self, paths: &[String]) {
        for path in paths {
            if self.tree.below(path).is_empty() {
                self.take(path, 1.0, "a target");
                continue;
            }
            for (file, score) in self
                .central(path, &[])
                .into_iter()
                .take(SELECTED_FILES_MAX / paths.len().max(1))
            {
                self.take(&file, score, central_in(path));
            }
        }
    }

    /// Key files and entry points, then files that match the task, or without a task the central ones.
    fn overview(&mut self, place: &WorkingPath, query: &Query) {
        let directory = place.directory();
        let keys = self.key_files(directory);
        let mut entries = self.entry_points(directory);
        let ranked = if query.is_empty() {
            Vec::new()
        } else {
            self.ranked(directory, query)
        };
        if !ranked.is_empty() {
            // Among entry points, those that the task is about come first.
            let at = |path: &str| {
                ranked
                    .iter()
                    .position(|choice| choice.path == path)
                    .unwrap_or(usize::MAX)
            };
            entries.sort_by_key(|(path, _, _)| at(path));
        }
        let (keys_max, entries_max) = if query.is_empty() { (2, 2) } else { (1, 1) };
        for path in keys.iter().take(keys_max) {
            self.take(path, 1.0, "key file");
        }
        for (path, _, reason) in entries.iter().take(entries_max) {
            self.take(path, 1.0, reason.clone());
        }
        for choice in ranked {
            self.take_choice(choice);
        }
        let starts: Vec<usize> = entries.iter().filter_map(|(path, _, _)| self.tree.find(path)).collect();
        let reason = if starts.is_empty() {
            "central, by imports"
        } else {
            "central to the entry points, by imports"
        };
        for (path, score) in self.central(directory, &starts) {
            self.take(&path, score, reason);
        }
        for (path, _, reason) in &entries {
            self.take(path, 0.5, reason.clone());
        }
        for path in &keys {
            self.take(path, 0.5, "key file");
        }
        self.own(directory);
        self.fill(directory);
    }

    /// The file, then the files that it imports and those that import it, then the nearest key file.
    fn one_file(&mut self, path: &str, query: &Query) {
        self.take(path, 1.0, "the target");
        if !query.is_empty() {
            self.look_for(path, query);
        }
        let graph = self.graph(&self.nearest(path, CENTRAL_FILES_READ_MAX));
        let (imports, importers) = match self.tree.find(path) {
            Some(at) => (graph.imports_of(at), graph.importers_of(at)),
            None => (self.imports_of_unlisted(path), Vec::new()),
        };
        let reasons = ["imported by the target", "imports the target"];
        let mut lists = [imports, importers].map(|list| self.by_centrality(list, &graph, path));
        // Alternates, so that both directions are represented.
        while !self.is_full() && lists.iter().any(|list| !list.is_empty()) {
            for (list, reason) in lists.iter_mut().zip(reasons) {
                if !list.is_empty() && self.chosen.len() < SELECTED_FILES_MAX - 1 {
                    let (path, score) = list.remove(0);
                    self.take(&path, score, reason);
                }
            }
            if self.chosen.len() >= SELECTED_FILES_MAX - 1 {
                break;
            }
        }
        if let Some(key) = self.key_files("").first() {
            self.take(key, 0.5, "key file");
        }
        for (list, reason) in lists.into_iter().zip(reasons) {
            for (path, score) in list {
                self.take(&path, score, reason);
            }
        }
        self.fill(parent_directory(path));
    }

    /// Indices of the listed files below a directory.
    fn indices(&self, directory: &str) -> std::ops::Range<usize> {
        self.tree.below(directory)
    }

    /// True for a generated file, by its name, by `.gitattributes` or by its text. It is chosen only if the user names
    /// it.
    fn is_generated(&self, path: &str) -> bool {
        let role = self.tree.find(path).map(|at| self.tree.layout.roles[at]);
        let by_text = || match self.tree.source.profile(path) {
            ProfileLookup::Found(profile) => profile.is_generated(),
            _ => false,
        };
        role == Some(Role::Generated) || by_text()
    }

    fn is_test_code(&self, at: usize) -> bool {
        self.tree.layout.roles[at] == Role::Test && file_role::is_code(self.tree.paths[at])
    }

    fn is_source(&self, at: usize) -> bool {
        self.tree.layout.sources[at]
    }

    /// Adds other text files of a target directory with few or no sources, regardless of their role: a user who names a
    /// directory of tests, documents or assets asks about those files and not about code elsewhere.
    fn own(&mut self, directory: &str) {
        if directory.is_empty() {
            return;
        }
        let mut own: Vec<(u8, usize, std::cmp::Reverse<u64>, usize)> = self
            .indices(directory)
            .filter(|at| self.tree.sizes[*at] > 0)
            .map(|at| {
                let path = self.tree.paths[at];
                let is_other = file_role::is_nameless(path)
                    && !matches!(self.tree.source.profile_near(path, at), ProfileLookup::Found(_));
                let role = if is_other {
                    Role::Other
                } else {
                    self.tree.layout.roles[at]
                };
                (
                    order_in_a_target(role),
                    path_distance(directory, path),
                    std::cmp::Reverse(self.tree.sizes[at]),
                    at,
                )
            })
            .collect();
        own.sort_unstable();
        for (_, _, _, at) in own.into_iter().take(OWN_FILES_LOOKED_AT_MAX) {
            if self.chosen.len() >= SELECTED_FILES_MIN {
                return;
            }
            let path = self.tree.paths[at];
            if file_role::detect_language(path).is_some() || self.tree.text(path).is_some() {
                self.take(path, 0.3, "in the target directory");
            }
        }
    }

    /// Fills the selection if fewer files than wanted were found: the imports of the chosen files, then sources nearby,
    /// then any text file, nearest first.
    fn fill(&mut self, directory: &str) {
        if self.chosen.len() >= SELECTED_FILES_MIN {
            return;
        }
        let chosen: Vec<usize> = self
            .chosen
            .iter()
            .filter_map(|choice| self.tree.find(&choice.path))
            .collect();
        let graph = self.graph(&chosen);
        let mut used: HashMap<usize, usize> = HashMap::new();
        for at in chosen.iter().flat_map(|at| graph.imports_of(*at)) {
            *used.entry(at).or_default() += 1;
        }
        let mut used: Vec<(usize, usize)> = used.into_iter().filter(|(at, _)| self.tree.sizes[*at] > 0).collect();
        used.sort_by_key(|(at, count)| (std::cmp::Reverse(*count), *at));
        for (at, _) in used {
            if self.chosen.len() < SELECTED_FILES_MIN && !self.is_generated(self.tree.paths[at]) {
                self.take(self.tree.paths[at], 0.2, "imported by the chosen files");
            }
        }
        let mut others: Vec<(u8, usize, std::cmp::Reverse<u64>, &str)> = (0..self.tree.paths.len())
            .filter(|at| self.tree.sizes[*at] > 0 && file_role::detect_language(self.tree.paths[*at]).is_some())
            .filter_map(|at| Some((order_of_filling(self.tree.layout.roles[at])?, at)))
            .map(|(order, at)| {
                let path = self.tree.paths[at];
                (
                    order,
                    path_distance(directory, path),
                    std::cmp::Reverse(self.tree.sizes[at]),
                    path,
                )
            })
            .collect();
        others.sort_unstable();
        let reason = if directory.is_empty() {
            "fills up the selection".to_owned()
        } else {
            format!("near `{directory}`")
        };
        for (_, _, _, path) in others {
            if self.chosen.len() >= SELECTED_FILES_MIN {
                return;
            }
            if self.chosen.iter().all(|choice| choice.path != path) && !self.is_generated(path) {
                self.take(path, 0.1, reason.as_str());
            }
        }
    }
}

/// Reason for a file that many others of a directory import.
fn central_in(directory: &str) -> String {
    if directory.is_empty() {
        "central, by imports".to_owned()
    } else {
        format!("central in `{directory}`, by imports")
    }
}

/// Lines that are shown of a definition with an unknown end.
const SYMBOL_LINES_MIN: u32 = 20;

/// Files that are chosen because they use a name, besides those that define it.
const SYMBOL_USERS_MAX: usize = 3;

/// The deepest directory that holds all paths; empty is the root.
fn shared_directory(paths: &[String]) -> String {
    let mut shared: Vec<&str> = match paths.first() {
        Some(first) => parent_directory(first).split('/').collect(),
        None => Vec::new(),
    };
    for path in paths {
        let same = shared
            .iter()
            .zip(parent_directory(path).split('/'))
            .take_while(|(a, b)| *a == b);
        let count = same.count();
        shared.truncate(count);
    }
    shared.join("/")
}

/// Files of a target directory that are tried. Files with an unknown extension must be opened to find out whether they
/// are text.
const OWN_FILES_LOOKED_AT_MAX: usize = 64;

/// Order of files in a directory that the user named: files that people wrote come first, generated files last.
fn order_in_a_target(role: Role) -> u8 {
    match role {
        Role::Source | Role::Test | Role::Example => 0,
        Role::Documentation | Role::Configuration => 1,
        Role::Changelog | Role::Other => 2,
        Role::Generated | Role::Vendored => 3,
    }
}

fn order_of_filling(role: Role) -> Option<u8> {
    match role {
        Role::Source => Some(0),
        Role::Documentation | Role::Configuration => Some(1),
        Role::Test | Role::Example => Some(2),
        Role::Changelog => Some(3),
        Role::Generated | Role::Vendored | Role::Other => None,
    }
}

/// Steps between a directory and a file: up to the common directory, and down again.
fn path_distance(directory: &str, path: &str) -> usize {
    fn split_path(path: &str) -> impl Iterator<Item = &str> {
        path.split('/').filter(|part| !part.is_empty())
    }
    let (from, to) = (|| split_path(directory), || split_path(parent_directory(path)));
    let shared = from().zip(to()).take_while(|(a, b)| a == b).count();
    from().count() + to().count() - 2 * shared
}

#[cfg(test)]
mod tests;
