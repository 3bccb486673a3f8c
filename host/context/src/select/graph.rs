//! The graph of imports among sources, and the files that are central in it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{NEAR_MISSES_MAX, SelectionDraft, path_distance};
use crate::ProfileLookup;
use crate::limits::{RANKED_FILE_BYTES_MAX, SELECTED_FILES_MAX};
use crate::select::CENTRAL_FILES_READ_MAX;
use tool_repository::file_role::{Role, file_stem, parent_directory};

impl SelectionDraft<'_, '_> {
    /// Sources below a directory by centrality, as seen from `starts` if there are any.
    pub(super) fn central(&self, directory: &str, starts: &[usize]) -> Vec<(String, f64)> {
        let sources: Vec<usize> = self.indices(directory).filter(|at| self.is_source(*at)).collect();
        let graph = if starts.is_empty() || sources.len() <= CENTRAL_FILES_READ_MAX {
            let mut nearest = sources;
            nearest.sort_by_key(|at| (path_distance(directory, self.tree.paths[*at]), *at));
            nearest.truncate(CENTRAL_FILES_READ_MAX);
            self.graph(&nearest)
        } else {
            self.reached(starts, directory)
        };
        let mut central: Vec<(String, f64)> = graph
            .centrality(starts)
            .into_iter()
            .filter(|(at, _)| self.is_source(*at) && self.tree.sizes[*at] > 0 && self.indices(directory).contains(at))
            .map(|(at, score)| {
                let path = self.tree.paths[at];
                (path.to_owned(), score * if is_plumbing(path) { 0.2 } else { 1.0 })
            })
            .collect();
        central.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        central
            .into_iter()
            .filter(|(path, _)| !self.is_generated(path))
            .take(SELECTED_FILES_MAX + NEAR_MISSES_MAX)
            .collect()
    }

    /// The graph of the files that imports reach, breadth first, until enough files were read.
    fn reached(&self, starts: &[usize], directory: &str) -> ImportGraph {
        let mut graph = ImportGraph::default();
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

    pub(super) fn graph(&self, files: &[usize]) -> ImportGraph {
        let read = self.tree.each(files, |at| {
            let is_small = self.tree.sizes[at] <= RANKED_FILE_BYTES_MAX;
            is_small.then(|| self.node(self.tree.paths[at])).flatten()
        });
        let nodes = files.iter().zip(read).filter_map(|(at, node)| Some((*at, node?)));
        ImportGraph { nodes: nodes.collect() }
    }

    fn node(&self, path: &str) -> Option<ImportNode> {
        let ProfileLookup::Found(profile) = self.tree.source.profile(path) else {
            return None;
        };
        Some(ImportNode {
            imports: self.tree.imports(path, &profile),
            definitions: profile.definitions(),
        })
    }

    pub(super) fn imports_of_unlisted(&self, path: &str) -> Vec<usize> {
        let node = self.node(path).unwrap_or_default();
        node.imports().collect()
    }

    /// Source files, nearest to `path` first; the file itself included.
    pub(super) fn nearest(&self, path: &str, most: usize) -> Vec<usize> {
        let mut files: Vec<usize> = self.indices("").filter(|at| self.is_source(*at)).collect();
        files.sort_by_cached_key(|at| {
            (
                self.tree.paths[*at] != path,
                path_distance(parent_directory(path), self.tree.paths[*at]),
                *at,
            )
        });
        files.truncate(most);
        files
    }

    pub(super) fn by_centrality(&self, files: Vec<usize>, graph: &ImportGraph, except: &str) -> Vec<(String, f64)> {
        let rank: HashMap<usize, f64> = graph.centrality(&[]).into_iter().collect();
        let mut scored: Vec<(String, f64)> = files
            .into_iter()
            .filter(|at| self.tree.paths[*at] != except && matches!(self.tree.layout.roles[*at], Role::Source))
            .filter(|at| !self.is_generated(self.tree.paths[*at]))
            .map(|at| (self.tree.paths[at].to_owned(), rank.get(&at).copied().unwrap_or(0.0)))
            .collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        scored
    }
}

/// True for files that everything imports and that explain little: helpers, errors, constants, types.
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
    let declares = path.ends_with(".d.ts") || path.ends_with(".pyi");
    declares || plain(file_stem(path)) || parent_directory(path).split('/').any(plain)
}

#[derive(Debug, Default)]
pub(super) struct ImportGraph {
    nodes: HashMap<usize, ImportNode>,
}

#[derive(Debug, Default)]
struct ImportNode {
    imports: Arc<[u32]>,
    definitions: u32,
}

impl ImportNode {
    fn imports(&self) -> impl Iterator<Item = usize> {
        self.imports.iter().map(|at| *at as usize)
    }
}

impl ImportGraph {
    fn extend(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
    }

    pub(super) fn imports_of(&self, at: usize) -> Vec<usize> {
        self.nodes
            .get(&at)
            .map_or_else(Vec::new, |node| node.imports().collect())
    }

    pub(super) fn importers_of(&self, at: usize) -> Vec<usize> {
        let mut importers: Vec<usize> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.imports().any(|to| to == at))
            .map(|(from, _)| *from)
            .collect();
        importers.sort_unstable();
        importers
    }

    /// Scores how much a file is worth reading: other files import it, it combines other files, and it defines much. A
    /// file with only the first is a widely used leaf; one with only the second is a list of parts.
    fn centrality(&self, starts: &[usize]) -> Vec<(usize, f64)> {
        let mut order: Vec<usize> = self.nodes.keys().copied().collect();
        order.sort_unstable();
        let place: HashMap<usize, usize> = order.iter().enumerate().map(|(place, at)| (*at, place)).collect();
        let starts: Vec<usize> = starts.iter().filter_map(|at| place.get(at).copied()).collect();
        let links: Vec<Vec<usize>> = order
            .iter()
            .map(|at| {
                self.nodes[at]
                    .imports()
                    .filter_map(|to| place.get(&to).copied())
                    .collect()
            })
            .collect();
        let needed = page_rank(&links, &starts);
        let gathering = page_rank(&reverse_links(&links), &[]);
        let score = |(place, at): (usize, usize)| {
            let defined = f64::from(self.nodes[&at].definitions).sqrt();
            (at, (needed[place] * gathering[place]).sqrt() * defined)
        };
        order.iter().copied().enumerate().map(score).collect()
    }
}

/// Returns the links in the other direction.
fn reverse_links(links: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut turned: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
    for (from, to) in links.iter().enumerate() {
        to.iter().for_each(|to| turned[*to].push(from));
    }
    turned
}

/// PageRank along links, with jumps back to `starts`, or to any file if there are no starts.
fn page_rank(links: &[Vec<usize>], starts: &[usize]) -> Vec<f64> {
    const DAMPING: f64 = 0.85;
    const ROUNDS: usize = 20;
    let count = links.len().max(1) as f64;
    let jump = |at: usize| {
        if starts.is_empty() {
            1.0 / count
        } else if starts.contains(&at) {
            0.5 / starts.len() as f64 + 0.5 / count
        } else {
            0.5 / count
        }
    };
    let mut rank: Vec<f64> = (0..links.len()).map(jump).collect();
    for _ in 0..ROUNDS {
        let mut next: Vec<f64> = (0..links.len()).map(|at| (1.0 - DAMPING) * jump(at)).collect();
        for (from, targets) in links.iter().enumerate() {
            for to in targets {
                next[*to] += DAMPING * rank[from] / targets.len() as f64;
            }
        }
        rank = next;
    }
    rank
}
