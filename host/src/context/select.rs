//! The rule of each operation: which 4 to 6 files, in which order, and why.
//!
//! With a task, files are ranked by it. Without one, they come from key files, entry points and the graph of imports,
//! and only the files that this takes are read. Nothing here knows tokens: what of a file is shown is `packet`'s.

use std::collections::{BTreeSet, HashMap};

use super::rank::{self, Facts, Query, WEIGHTS};
use super::scanner::{self, Role, file_name, parent, stem};
use super::symbols::{self, Syntax};
use super::{Tree, entry};
use crate::api::Operation;
use crate::limits::{CENTRAL_FILES_READ_MAX, RANKED_FILE_BYTES_MAX, SELECTED_FILES_MAX, SELECTED_FILES_MIN};
use crate::operation::Target;

/// A file with the reasons for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Choice {
    pub(super) path: String,
    pub(super) score: f64,
    pub(super) reasons: Vec<String>,
    /// Windows of lines that matter most, best first: first and last line, score.
    pub(super) windows: Vec<(u32, u32, f64)>,
}

/// The outcome of a selection.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Selection {
    pub(super) chosen: Vec<Choice>,
    pub(super) near: Vec<Choice>,
    pub(super) notices: Vec<String>,
}

/// Near misses that are kept.
const NEAR_MISSES_MAX: usize = 8;

/// Chooses by the operation's rule; `included` comes first, whatever the rule says.
pub(super) fn select(
    tree: &Tree<'_>,
    operation: Operation,
    target: &Target,
    focus: Option<&str>,
    included: &[&str],
) -> Selection {
    let place = Place::of(tree, target);
    let words = [target.task(), focus]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n");
    let query = Query::new(&words, &WEIGHTS);
    let mut draft = Draft::new(tree);
    for path in included {
        draft.take(path, f64::from(u16::MAX), "asked for by --include");
    }
    match (operation, &place) {
        (Operation::TestGen, Place::File(path)) => draft.test_gen(path, &query),
        (_, Place::File(path)) => draft.one_file(path, &query),
        (Operation::Refactor, _) => draft.refactor(&place, &query),
        _ => draft.overview(&place, &query),
    }
    draft.finish(&place)
}

/// Where an operation works.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    /// The empty path is the root.
    Directory(String),
    File(String),
}

impl Place {
    fn of(tree: &Tree<'_>, target: &Target) -> Self {
        let below = |path: &str| !tree.below(path).is_empty();
        match target {
            Target::Root | Target::Task(_) => Self::Directory(String::new()),
            Target::Directory(path) => Self::Directory(path.clone()),
            Target::File(path) => Self::File(path.clone()),
            // A path that is in no list can be an ignored file; an ignored directory has nothing to choose from.
            Target::TaskIn { path, .. } if below(path) => Self::Directory(path.clone()),
            Target::TaskIn { path, .. } => Self::File(path.clone()),
        }
    }

    fn directory(&self) -> &str {
        match self {
            Self::Directory(path) => path,
            Self::File(path) => parent(path),
        }
    }
}

/// A selection in the making.
struct Draft<'t, 'a> {
    tree: &'t Tree<'a>,
    chosen: Vec<Choice>,
    near: Vec<Choice>,
    notices: Vec<String>,
    /// Windows of files that a task was looked for in.
    windows: HashMap<String, Vec<(u32, u32, f64)>>,
}

impl<'t, 'a> Draft<'t, 'a> {
    fn new(tree: &'t Tree<'a>) -> Self {
        Self {
            tree,
            chosen: Vec::new(),
            near: Vec::new(),
            notices: Vec::new(),
            windows: HashMap::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.chosen.len() >= SELECTED_FILES_MAX
    }

    /// Takes a file, or notes it as a near miss; adds the reason where it is taken already.
    fn take(&mut self, path: &str, score: f64, reason: impl Into<String>) {
        if let Some(known) = self.chosen.iter_mut().find(|choice| choice.path == path) {
            let reason = reason.into();
            if !known.reasons.contains(&reason) {
                known.reasons.push(reason);
            }
            return;
        }
        let choice = Choice {
            path: path.to_owned(),
            score,
            reasons: vec![reason.into()],
            windows: Vec::new(),
        };
        self.take_choice(choice);
    }

    fn take_choice(&mut self, choice: Choice) {
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

    fn finish(mut self, place: &Place) -> Selection {
        for choice in self.chosen.iter_mut().chain(&mut self.near) {
            if choice.windows.is_empty() {
                choice.windows = self.windows.remove(&choice.path).unwrap_or_default();
            }
        }
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

    /// Files of the target directory, ranked by the task where there is one, else by how central they are.
    fn refactor(&mut self, place: &Place, query: &Query) {
        let directory = place.directory();
        if query.is_empty() {
            for (path, score) in self.central(directory, &[]) {
                self.take(&path, score, "central in the target directory");
            }
        } else {
            for choice in self.ranked(directory, query) {
                self.take_choice(choice);
            }
        }
        self.fill(directory);
    }

    /// Key files and entry points, then what the task is about, or what is central to them.
    fn overview(&mut self, place: &Place, query: &Query) {
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
        // In turn, so that both directions are seen.
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
        self.fill(parent(path));
    }

    /// The target, its nearest exemplar test, the configuration of the tests, then neighbours without tests.
    fn test_gen(&mut self, path: &str, query: &Query) {
        self.take(path, 1.0, "the target");
        if !query.is_empty() {
            self.look_for(path, query);
        }
        let tests: Vec<&str> = self
            .indices("")
            .filter(|at| self.is_test_code(*at))
            .map(|at| self.tree.paths[at])
            .collect();
        let mut exemplars: Vec<(f64, &str)> = tests.iter().map(|test| (exemplar_score(path, test), *test)).collect();
        exemplars.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        for (at, (score, test)) in exemplars.iter().take(2).enumerate() {
            if is_test_of(test, path) {
                self.take(test, *score, "tests the target already");
            } else if at == 0 {
                self.take(test, *score, "nearest existing test: the style to match");
            }
        }
        let exemplar = exemplars.first().map_or(path, |(_, test)| *test).to_owned();
        for (config, reason) in self.test_configuration(path, &exemplar) {
            if self.chosen.len() < SELECTED_FILES_MAX - 1 {
                self.take(&config, 0.8, reason);
            }
        }
        for (neighbour, reason) in self.untested(path, &tests) {
            self.take(&neighbour, 0.6, reason);
        }
        self.fill(parent(path));
    }

    /// Indices of the listed files below a directory.
    fn indices(&self, directory: &str) -> std::ops::Range<usize> {
        self.tree.below(directory)
    }

    fn is_test_code(&self, at: usize) -> bool {
        self.tree.roles[at] == Role::Test && scanner::is_code(self.tree.paths[at])
    }

    fn is_source(&self, at: usize) -> bool {
        self.tree.sources[at]
    }

    /// Where fewer files than wanted were found: what the chosen ones import, then sources nearby, then any text file,
    /// nearest first.
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
            if self.chosen.len() < SELECTED_FILES_MIN {
                self.take(self.tree.paths[at], 0.2, "imported by the chosen files");
            }
        }
        let mut others: Vec<(u8, usize, std::cmp::Reverse<u64>, &str)> = (0..self.tree.paths.len())
            .filter(|at| self.tree.sizes[*at] > 0 && scanner::language(self.tree.paths[*at]).is_some())
            .filter_map(|at| Some((order_of_filling(self.tree.roles[at])?, at)))
            .map(|(order, at)| {
                let path = self.tree.paths[at];
                (
                    order,
                    distance(directory, path),
                    std::cmp::Reverse(self.tree.sizes[at]),
                    path,
                )
            })
            .collect();
        others.sort_unstable();
        for (_, _, _, path) in others {
            if self.chosen.len() >= SELECTED_FILES_MIN {
                return;
            }
            self.take(path, 0.1, "nearby");
        }
    }

    /// Key files of a directory: the read-me file, the manifest of its main language, then the rest; nearest to its
    /// top first, and of directories equally near the one with most code.
    fn key_files(&self, directory: &str) -> Vec<String> {
        let main = self.main_syntax(directory);
        let mut found: Vec<(usize, u8, usize, usize, &str)> = self
            .indices(directory)
            .map(|at| self.tree.paths[at])
            .filter_map(|path| Some((scanner::key_file_rank(path)?, path)))
            .map(|(rank, path)| (distance(directory, path), order_of_key(path, main), rank, path))
            .filter(|(distance, _, _, path)| *distance == 0 || *distance == 1 && scanner::is_key_file(path))
            .map(|(distance, order, rank, path)| {
                let code = if distance == 0 {
                    0
                } else {
                    usize::MAX - self.sources_below(parent(path))
                };
                (distance, order, code, rank, path)
            })
            .filter(|(_, _, _, _, path)| !matches!(scanner::role(path), Role::Test | Role::Example | Role::Vendored))
            .collect();
        found.sort_unstable();
        // One read-me file tells enough, and one manifest of an ecosystem.
        let mut taken = BTreeSet::new();
        found.retain(|(_, _, _, _, path)| taken.insert(kind_of_key(path)));
        found.into_iter().map(|(_, _, _, _, path)| path.to_owned()).collect()
    }

    /// The family of languages that most sources below a directory are written in.
    fn main_syntax(&self, directory: &str) -> Option<Syntax> {
        let mut counts: Vec<(usize, Syntax)> = Vec::new();
        for at in self.indices(directory).filter(|at| self.is_source(*at)) {
            let Some(syntax) = Syntax::of(self.tree.paths[at]) else {
                continue;
            };
            match counts.iter_mut().find(|(_, known)| *known == syntax) {
                Some((count, _)) => *count += 1,
                None => counts.push((1, syntax)),
            }
        }
        counts
            .into_iter()
            .max_by_key(|(count, _)| *count)
            .map(|(_, syntax)| syntax)
    }

    fn sources_below(&self, directory: &str) -> usize {
        self.indices(directory).filter(|at| self.is_source(*at)).count()
    }

    /// Entry points below a directory with how sure they are and why, surest first.
    fn entry_points(&self, directory: &str) -> Vec<(String, f64, String)> {
        let mut found: HashMap<usize, (f64, String)> = HashMap::new();
        let mut note = |at: usize, score: f64, reason: String| {
            let known = found.entry(at).or_insert((0.0, String::new()));
            if score > known.0 {
                *known = (score, reason);
            }
        };
        for at in self.indices(directory) {
            let path = self.tree.paths[at];
            let depth = distance(directory, path) as f64;
            if let Some(score) = scanner::entry_point_by_path(path) {
                // Of several programs or libraries, the one with most code is the one that is asked about.
                let size = (1.0 + self.sources_below(parent(path)) as f64).ln() / 2.0;
                note(
                    at,
                    f64::from(score) - depth + size,
                    "entry point by its name".to_owned(),
                );
            }
            if is_head(directory, path) {
                note(at, 7.0 - depth, "head of the target directory".to_owned());
            }
            if entry::is_manifest(path) && depth <= 2.0 && self.tree.sizes[at] <= RANKED_FILE_BYTES_MAX {
                let reason = format!("entry point declared in {path}");
                for (target, sure) in self.declared(path) {
                    note(target, if sure { 14.0 } else { 8.0 } - depth, reason.clone());
                }
            }
        }
        // A file of a few lines only leads to another one.
        let is_stub = |at: &usize| self.tree.sizes[*at] < STUB_BYTES;
        let only_stubs = directory.is_empty() && found.keys().all(is_stub);
        found.retain(|at, _| self.tree.sizes[*at] > 0 && (only_stubs || !is_stub(at)));
        let mut entries: Vec<(String, f64, String)> = found
            .into_iter()
            .map(|(at, (score, reason))| (self.tree.paths[at].to_owned(), score, reason))
            .collect();
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        entries.truncate(ENTRY_POINTS_MAX);
        entries
    }

    /// Sources that a manifest names, and whether it names them as a program or only by the project's own name.
    fn declared(&self, manifest: &str) -> Vec<(usize, bool)> {
        let Some(text) = self.tree.text(manifest) else {
            return Vec::new();
        };
        let resolver = &self.tree.resolver;
        let place = |declared| match declared {
            entry::Declared::Module(name) => Some((resolver.module(&name)?, true)),
            entry::Declared::Path(path) => Some((resolver.file_from(manifest, &path)?, true)),
            entry::Declared::Package(name) => Some((resolver.package(manifest, &name)?, false)),
        };
        let found = entry::declared(manifest, &text).into_iter().filter_map(place);
        let found = found.map(|(at, sure)| (at as usize, sure));
        found
            .filter(|(at, _)| self.is_source(*at) && !self.tree.paths[*at].ends_with(".d.ts"))
            .collect()
    }

    /// Files below a directory in the order of a task, with reasons. Reads them all, within the time there is.
    fn ranked(&mut self, directory: &str, query: &Query) -> Vec<Choice> {
        let tree = self.tree;
        let mut files: Vec<usize> = self
            .indices(directory)
            .filter(|at| {
                tree.sizes[*at] <= RANKED_FILE_BYTES_MAX && rank::is_candidate(query, tree.paths[*at], tree.roles[*at])
            })
            .collect();
        // What the task names is read first, in case the time does not suffice for all.
        files.sort_by_key(|at| !query.names_part_of(tree.paths[*at]));
        let measured = tree.each(&files, |at| {
            let path = tree.paths[at];
            Some(rank::measure(
                query,
                path,
                &tree.text(path)?,
                &tree.paths,
                &tree.resolver,
            ))
        });
        if tree.is_over() {
            let count = measured.iter().flatten().count();
            self.notices.push(format!(
                "The selection looked at {count} of {} files before its time was up",
                files.len()
            ));
        }
        let mut facts: Vec<Option<Facts>> = std::iter::repeat_with(|| None).take(tree.paths.len()).collect();
        for (at, measured) in files.iter().zip(measured) {
            facts[*at] = measured;
        }
        let choice = |ranked: rank::Ranked| Choice {
            path: tree.paths[ranked.index as usize].to_owned(),
            score: ranked.score,
            reasons: ranked
                .evidence
                .into_iter()
                .map(|(reason, score)| format!("{reason} ({score:.1})"))
                .collect(),
            windows: ranked.windows,
        };
        let ranked = rank::rank(query, &tree.paths, &tree.roles, &facts, &WEIGHTS);
        ranked
            .into_iter()
            .take(SELECTED_FILES_MAX + NEAR_MISSES_MAX + ENTRY_POINTS_MAX)
            .map(choice)
            .collect()
    }

    /// Looks for the task in one file, so that its windows are known.
    fn look_for(&mut self, path: &str, query: &Query) {
        let Some(text) = self.tree.text(path) else { return };
        let facts = rank::measure(query, path, &text, &self.tree.paths, &self.tree.resolver);
        let ranked = rank::rank(
            query,
            &[path],
            &[Role::Source],
            &[Some(facts.without_imports())],
            &WEIGHTS,
        );
        if let Some(first) = ranked.into_iter().next() {
            self.windows.insert(path.to_owned(), first.windows);
        }
    }

    /// Sources below a directory by how central they are, seen from `starts` where there are any.
    fn central(&self, directory: &str, starts: &[usize]) -> Vec<(String, f64)> {
        let sources: Vec<usize> = self.indices(directory).filter(|at| self.is_source(*at)).collect();
        let graph = if starts.is_empty() || sources.len() <= CENTRAL_FILES_READ_MAX {
            let mut nearest = sources;
            nearest.sort_by_key(|at| (distance(directory, self.tree.paths[*at]), *at));
            nearest.truncate(CENTRAL_FILES_READ_MAX);
            self.graph(&nearest)
        } else {
            self.reached(starts, directory)
        };
        let rank = graph.page_rank(starts);
        let mut central: Vec<(String, f64)> = rank
            .into_iter()
            .filter(|(at, _)| self.is_source(*at) && self.tree.sizes[*at] > 0 && self.indices(directory).contains(at))
            .map(|(at, score)| {
                let path = self.tree.paths[at];
                (
                    path.to_owned(),
                    score * graph.weight(at) * if is_plumbing(path) { 0.2 } else { 1.0 },
                )
            })
            .collect();
        central.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        central.truncate(SELECTED_FILES_MAX + NEAR_MISSES_MAX);
        central
    }

    /// The graph of what can be reached by imports, breadth first, until enough was read.
    fn reached(&self, starts: &[usize], directory: &str) -> Graph {
        let mut graph = Graph::default();
        let mut next: Vec<usize> = starts.to_vec();
        while !next.is_empty() && graph.nodes.len() < CENTRAL_FILES_READ_MAX {
            next.truncate(CENTRAL_FILES_READ_MAX - graph.nodes.len());
            graph.extend(self.graph(&next));
            let within = self.indices(directory);
            let known = &graph.nodes;
            let reached: BTreeSet<usize> = next.iter().flat_map(|at| graph.imports_of(*at)).collect();
            next = reached
                .into_iter()
                .filter(|at| within.contains(at) && self.is_source(*at) && !known.contains_key(at))
                .collect();
        }
        graph
    }

    fn graph(&self, files: &[usize]) -> Graph {
        let read = self.tree.each(files, |at| {
            let text = self
                .tree
                .text(self.tree.paths[at])
                .filter(|text| text.len() as u64 <= RANKED_FILE_BYTES_MAX)?;
            Some(self.node(self.tree.paths[at], &text))
        });
        let nodes = files.iter().zip(read).filter_map(|(at, node)| Some((*at, node?)));
        Graph { nodes: nodes.collect() }
    }

    fn node(&self, path: &str, text: &str) -> Node {
        let mut node = Node::default();
        let Some(syntax) = Syntax::of(path) else {
            return node;
        };
        let mut imports = BTreeSet::new();
        symbols::read(
            syntax,
            text,
            |_| node.definitions += 1,
            |import| imports.extend(self.tree.resolver.resolve(path, &import, &self.tree.paths)),
        );
        node.imports = imports
            .into_iter()
            .map(|at| at as usize)
            .filter(|at| self.tree.paths[*at] != path)
            .collect();
        node
    }

    fn imports_of_unlisted(&self, path: &str) -> Vec<usize> {
        self.tree
            .text(path)
            .map_or_else(Vec::new, |text| self.node(path, &text).imports)
    }

    /// Source files, nearest to `path` first; the file itself included.
    fn nearest(&self, path: &str, most: usize) -> Vec<usize> {
        let mut files: Vec<usize> = self.indices("").filter(|at| self.is_source(*at)).collect();
        files.sort_by_cached_key(|at| {
            (
                self.tree.paths[*at] != path,
                distance(parent(path), self.tree.paths[*at]),
                *at,
            )
        });
        files.truncate(most);
        files
    }

    fn by_centrality(&self, files: Vec<usize>, graph: &Graph, except: &str) -> Vec<(String, f64)> {
        let rank: HashMap<usize, f64> = graph.page_rank(&[]).into_iter().collect();
        let mut scored: Vec<(String, f64)> = files
            .into_iter()
            .filter(|at| self.tree.paths[*at] != except && matches!(self.tree.roles[*at], Role::Source))
            .map(|at| {
                (
                    self.tree.paths[at].to_owned(),
                    rank.get(&at).copied().unwrap_or(0.0) * graph.weight(at),
                )
            })
            .collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        scored
    }

    /// Fixtures and settings of the tests, as far as they say something about how tests are written here.
    fn test_configuration(&self, target: &str, exemplar: &str) -> Vec<(String, String)> {
        let mut found: Vec<(u32, usize, &str, &str)> = Vec::new();
        for at in 0..self.tree.paths.len() {
            let path = self.tree.paths[at];
            let Some((order, marker)) = test_settings(target, path) else {
                continue;
            };
            let near = distance(parent(path), exemplar);
            let above =
                parent(path).is_empty() || exemplar.starts_with(parent(path)) || target.starts_with(parent(path));
            if above && self.tree.sizes[at] <= RANKED_FILE_BYTES_MAX {
                found.push((order, near, path, marker));
            }
        }
        found.sort_unstable();
        let holds = |path: &str, marker: &str| {
            marker.is_empty() || self.tree.text(path).is_some_and(|text| text.contains(marker))
        };
        let mut kinds = BTreeSet::new();
        found
            .into_iter()
            .filter(|(order, _, path, marker)| !kinds.contains(order) && holds(path, marker) && kinds.insert(*order))
            .take(2)
            .map(|(order, _, path, _)| {
                let reason = if order == 0 {
                    "fixtures of the tests"
                } else {
                    "configuration of the tests"
                };
                (path.to_owned(), reason.to_owned())
            })
            .collect()
    }

    /// Sources without tests near the target: first what it imports, then its directory, then further away.
    fn untested(&self, target: &str, tests: &[&str]) -> Vec<(String, String)> {
        let tested: BTreeSet<String> = tests.iter().map(|test| subject(test)).collect();
        let imports = self.imports_of_unlisted(target);
        let syntax = Syntax::of(target);
        let mut files: Vec<(bool, usize, &str)> = self
            .indices("")
            .filter(|at| self.is_source(*at) && self.tree.sizes[*at] > 0)
            .map(|at| {
                (
                    !imports.contains(&at),
                    distance(parent(target), self.tree.paths[at]),
                    self.tree.paths[at],
                )
            })
            .filter(|(_, _, path)| *path != target && Syntax::of(path) == syntax)
            .filter(|(_, _, path)| {
                !names_as_subject(path).iter().any(|name| tested.contains(name)) && stem(path) != "__init__"
            })
            .collect();
        files.sort_unstable();
        let reason = |foreign| {
            if foreign {
                "a neighbour without tests"
            } else {
                "without tests, and the target uses it"
            }
        };
        files
            .into_iter()
            .take(NEAR_MISSES_MAX)
            .map(|(foreign, _, path)| (path.to_owned(), reason(foreign).to_owned()))
            .collect()
    }
}

/// Entry points that are considered.
const ENTRY_POINTS_MAX: usize = 12;

fn order_of_filling(role: Role) -> Option<u8> {
    match role {
        Role::Source => Some(0),
        Role::Documentation | Role::Configuration => Some(1),
        Role::Test | Role::Example => Some(2),
        Role::Changelog => Some(3),
        Role::Generated | Role::Vendored | Role::Other => None,
    }
}

/// Smaller entry points only lead to another file.
const STUB_BYTES: u64 = 400;

/// Read-me files come first, then the manifest of the main language, then modules, then other manifests.
fn order_of_key(path: &str, main: Option<Syntax>) -> u8 {
    let name = file_name(path).to_ascii_lowercase();
    let of = match name.as_str() {
        _ if name.starts_with("readme") => return 0,
        "pyproject.toml" | "setup.py" | "setup.cfg" => Syntax::Python,
        "package.json" => Syntax::Script,
        "cargo.toml" => Syntax::Rust,
        "go.mod" => Syntax::Go,
        "pom.xml" | "build.gradle" | "build.gradle.kts" => Syntax::Java,
        "cmakelists.txt" | "makefile" => Syntax::C,
        _ if scanner::is_code(path) => return 2,
        _ => return 3,
    };
    if main == Some(of) { 1 } else { 3 }
}

/// Names of files that everything imports and that explain little: helpers, errors, constants, types.
fn is_plumbing(path: &str) -> bool {
    const NAMES: &[&str] = &[
        "common",
        "compat",
        "consts",
        "constants",
        "deprecation",
        "enums",
        "error",
        "errors",
        "exceptions",
        "helper",
        "helpers",
        "limits",
        "log",
        "logger",
        "logging",
        "macros",
        "misc",
        "symbols",
        "tools",
        "types",
        "typing",
        "util",
        "utilities",
        "utils",
        "version",
        "warnings",
    ];
    let plain = |name: &str| NAMES.contains(&name.trim_matches('_').to_ascii_lowercase().as_str());
    plain(stem(path)) || parent(path).split('/').any(plain) || path.ends_with(".d.ts")
}

/// Read-me files are one kind, manifests another; every other key file is its own.
fn kind_of_key(path: &str) -> String {
    let name = file_name(path).to_ascii_lowercase();
    if name.starts_with("readme") {
        return "readme".to_owned();
    }
    match name.as_str() {
        "setup.py" | "setup.cfg" | "pyproject.toml" => "python".to_owned(),
        "makefile" | "cmakelists.txt" => "make".to_owned(),
        _ => name,
    }
}

/// The file that stands for a directory: its package or module file, or the one of the same name.
fn is_head(directory: &str, path: &str) -> bool {
    let own = file_name(directory);
    !directory.is_empty()
        && parent(path) == directory
        && scanner::is_code(path)
        && (matches!(stem(path), "__init__" | "mod" | "lib" | "index" | "main") || stem(path) == own)
}

/// Steps between a directory and a file: up to what they share, and down again.
fn distance(directory: &str, path: &str) -> usize {
    let parts = |path: &str| -> Vec<String> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (from, to) = (parts(directory), parts(parent(path)));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    from.len() + to.len() - 2 * shared
}

/// What a test is about, by its name: `test_client.py`, `client.test.ts` and `ClientTest.java` are about `client`.
fn subject(test: &str) -> String {
    let stem = stem(test).to_ascii_lowercase();
    let stem = stem
        .strip_prefix("test_")
        .or_else(|| stem.strip_prefix("test-"))
        .unwrap_or(&stem);
    let mut name = stem;
    for suffix in ["_tests", "_test", "-test", "_spec", "tests", "test", "spec"] {
        if let Some(rest) = name.strip_suffix(suffix).filter(|rest| !rest.is_empty()) {
            name = rest;
            break;
        }
    }
    name.to_owned()
}

fn is_test_of(test: &str, target: &str) -> bool {
    Syntax::of(test) == Syntax::of(target) && names_as_subject(target).contains(&subject(test))
}

/// What tests may call a source: `client`, or with the directories above it, `http_client` for `src/http/client.py`.
fn names_as_subject(source: &str) -> Vec<String> {
    let mut name = stem(source).to_ascii_lowercase();
    let mut names = vec![name.clone()];
    for directory in parent(source).rsplit('/').filter(|part| !part.is_empty()) {
        name = format!("{}_{name}", directory.to_ascii_lowercase());
        names.push(name.clone());
    }
    names
}

/// How much a test shows how the target's tests should look: its own tests first, then tests of the same language
/// whose place mirrors the target's.
fn exemplar_score(target: &str, test: &str) -> f64 {
    let mut score = 0.0;
    if Syntax::of(test) != Syntax::of(target) {
        return 0.0;
    }
    let words = |path: &str| -> BTreeSet<String> {
        path.to_ascii_lowercase()
            .split(['/', '_', '-', '.'])
            .filter(|word| word.len() > 1)
            .map(str::to_owned)
            .collect()
    };
    let parts = |path: &str| -> BTreeSet<String> { parent(path).split('/').map(str::to_owned).collect() };
    score += 1.0 + words(target).intersection(&words(test)).count() as f64 * 0.5;
    score += parts(target).intersection(&parts(test)).count() as f64 * 0.3;
    score -= distance(parent(target), test) as f64 * 0.05;
    if is_test_of(test, target) {
        score += 10.0;
    }
    let own_name = stem(test).to_ascii_lowercase();
    if matches!(
        own_name.as_str(),
        "conftest" | "__init__" | "setup" | "helpers" | "utils" | "util" | "common"
    ) {
        score -= 3.0;
    }
    let named_as_test = own_name.contains("test") || own_name.contains("spec");
    score + if named_as_test { 0.5 } else { 0.0 }
}

/// The order of a file among the settings of tests, and what it has to hold to count.
fn test_settings(target: &str, path: &str) -> Option<(u32, &'static str)> {
    let name = file_name(path);
    match Syntax::of(target)? {
        Syntax::Python => match name {
            "conftest.py" => Some((0, "")),
            "pytest.ini" | ".pytest.ini" => Some((1, "")),
            "pyproject.toml" => Some((1, "pytest")),
            "tox.ini" | "setup.cfg" => Some((1, "pytest")),
            _ => None,
        },
        Syntax::Script => match name {
            "package.json" => Some((2, "")),
            _ if [
                "jest.config.",
                "vitest.config.",
                "karma.conf.",
                ".mocharc",
                "playwright.config.",
                "cypress.config.",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix)) =>
            {
                Some((1, ""))
            }
            _ if name.starts_with("jest.setup.") || name.starts_with("vitest.setup.") => Some((0, "")),
            _ => None,
        },
        Syntax::Rust => (name == "Cargo.toml").then_some((1, "")),
        Syntax::Go => (name == "go.mod").then_some((1, "")),
        Syntax::Java => matches!(name, "pom.xml" | "build.gradle" | "build.gradle.kts").then_some((1, "")),
        Syntax::C => matches!(name, "CMakeLists.txt" | "Makefile").then_some((1, "test")),
    }
}

/// Imports among some files.
#[derive(Debug, Default)]
struct Graph {
    nodes: HashMap<usize, Node>,
}

#[derive(Debug, Default)]
struct Node {
    imports: Vec<usize>,
    definitions: u32,
}

impl Graph {
    fn extend(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
    }

    fn imports_of(&self, at: usize) -> Vec<usize> {
        self.nodes.get(&at).map_or_else(Vec::new, |node| node.imports.clone())
    }

    fn importers_of(&self, at: usize) -> Vec<usize> {
        let mut importers: Vec<usize> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.imports.contains(&at))
            .map(|(from, _)| *from)
            .collect();
        importers.sort_unstable();
        importers
    }

    /// What makes an imported file worth reading: it defines much, and it brings other parts together.
    fn weight(&self, at: usize) -> f64 {
        self.nodes.get(&at).map_or(0.0, |node| {
            (1.0 + f64::from(node.definitions)).ln() * (1.0 + node.imports.len() as f64).sqrt()
        })
    }

    /// PageRank over the imports, jumping back to `starts`, or anywhere where there are none.
    fn page_rank(&self, starts: &[usize]) -> Vec<(usize, f64)> {
        const DAMPING: f64 = 0.85;
        const ROUNDS: usize = 20;
        let mut order: Vec<usize> = self.nodes.keys().copied().collect();
        order.sort_unstable();
        let place: HashMap<usize, usize> = order.iter().enumerate().map(|(place, at)| (*at, place)).collect();
        let starts: Vec<usize> = starts.iter().filter_map(|at| place.get(at).copied()).collect();
        let count = order.len().max(1) as f64;
        let jump = |at: usize| match starts.is_empty() {
            true => 1.0 / count,
            false if starts.contains(&at) => 0.5 / starts.len() as f64 + 0.5 / count,
            false => 0.5 / count,
        };
        let mut rank: Vec<f64> = (0..order.len()).map(jump).collect();
        for _ in 0..ROUNDS {
            let mut next: Vec<f64> = (0..order.len()).map(|at| (1.0 - DAMPING) * jump(at)).collect();
            for (from, at) in order.iter().enumerate() {
                let targets: Vec<usize> = self.nodes[at]
                    .imports
                    .iter()
                    .filter_map(|to| place.get(to).copied())
                    .collect();
                for to in &targets {
                    next[*to] += DAMPING * rank[from] / targets.len() as f64;
                }
            }
            rank = next;
        }
        order.into_iter().zip(rank).collect()
    }
}

#[cfg(test)]
mod tests;
