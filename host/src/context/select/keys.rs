//! Key files and entry points: where somebody who is new to a repository begins to read.

use std::collections::{BTreeSet, HashMap};

use super::{Draft, distance};
use crate::context::entry;
use crate::context::scanner::{self, Role, file_name, parent, stem};
use crate::context::symbols::Syntax;
use crate::limits::RANKED_FILE_BYTES_MAX;

impl Draft<'_, '_> {
    /// Key files of a directory: the read-me file, the manifest of its main language, then the rest; nearest to its
    /// top first, and of directories equally near the one with most code.
    pub(super) fn key_files(&self, directory: &str) -> Vec<String> {
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
    pub(super) fn entry_points(&self, directory: &str) -> Vec<(String, f64, String)> {
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
            if self.tree.layout.roles[at] == Role::Source
                && let Some(score) = scanner::entry_point_of_source(path)
            {
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
        let resolver = &self.tree.layout.resolver;
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
}

/// Entry points that are considered.
pub(super) const ENTRY_POINTS_MAX: usize = 12;

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
