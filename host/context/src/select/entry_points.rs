//! Key files and entry points: where a newcomer to a repository begins to read.

use std::collections::{BTreeSet, HashMap};

use super::{SelectionDraft, path_distance};
use crate::limits::RANKED_FILE_BYTES_MAX;
use crate::manifest_entries;
use crate::symbols::Syntax;
use tool_repository::file_role::{self, Role, file_name, file_stem, parent_directory};
use tool_repository::is_beyond_scan;

impl SelectionDraft<'_, '_> {
    /// Key files of a directory: the README, the manifest of its main language, then the rest. The nearest to the top
    /// come first; of equally near directories, the one with most code.
    pub(super) fn key_files(&self, directory: &str) -> Vec<String> {
        let main = self.main_syntax(directory);
        let mut found: Vec<(usize, u8, usize, usize, &str)> = self
            .indices(directory)
            .map(|at| self.tree.paths[at])
            .filter_map(|path| Some((file_role::key_file_rank(path)?, path)))
            .map(|(rank, path)| (path_distance(directory, path), order_of_key(path, main), rank, path))
            .filter(|(distance, _, _, path)| *distance == 0 || *distance == 1 && file_role::is_key_file(path))
            .map(|(distance, order, rank, path)| {
                let code = if distance == 0 {
                    0
                } else {
                    usize::MAX - self.sources_below(parent_directory(path))
                };
                (distance, order, code, rank, path)
            })
            .filter(|(_, _, _, _, path)| {
                !matches!(
                    file_role::detect_role(path),
                    Role::Test | Role::Example | Role::Vendored
                )
            })
            .collect();
        found.sort_unstable();
        // One README is enough, and one manifest of each ecosystem.
        let mut taken = BTreeSet::new();
        found.retain(|(_, _, _, _, path)| taken.insert(kind_of_key(path)));
        found.into_iter().map(|(_, _, _, _, path)| path.to_owned()).collect()
    }

    /// The family of languages that most sources below a directory are written in.
    fn main_syntax(&self, directory: &str) -> Option<Syntax> {
        let mut counts: Vec<(usize, Syntax)> = Vec::new();
        for at in self.indices(directory).filter(|at| self.is_source(*at)) {
            let Some(syntax) = Syntax::from_path(self.tree.paths[at]) else {
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

    /// Entry points below a directory with their certainty and the reason, the most certain first.
    pub(super) fn entry_points(&self, directory: &str) -> Vec<(String, f64, String)> {
        let mut found: EntryScores = HashMap::new();
        for at in self.indices(directory) {
            let path = self.tree.paths[at];
            let depth = path_distance(directory, path) as f64;
            if self.tree.layout.roles[at] == Role::Source
                && !is_private(directory, path)
                && let Some(score) = file_role::entry_point_of_source(path)
            {
                // If there are several programs or libraries, the one with most code is probably meant.
                let size = (1.0 + self.sources_below(parent_directory(path)) as f64).ln() / 2.0;
                note_entry(
                    &mut found,
                    at,
                    f64::from(score) - depth + size,
                    "entry point by its name",
                );
            }
            if is_head(directory, path) {
                note_entry(&mut found, at, 7.0 - depth, "head of the target directory");
            }
            if manifest_entries::is_manifest(path) && depth <= 2.0 && self.tree.sizes[at] <= RANKED_FILE_BYTES_MAX {
                let reason = format!("entry point declared in {path}");
                for (target, sure) in self.declared(path) {
                    note_entry(&mut found, target, if sure { 14.0 } else { 8.0 } - depth, &reason);
                }
            }
        }
        self.without_stubs(&mut found, directory);
        self.surest(found)
    }

    /// Replaces files of a few lines by the source that they lead to, and removes empty files.
    fn without_stubs(&self, found: &mut EntryScores, directory: &str) {
        let mut stubs: Vec<usize> = found.keys().copied().filter(|at| self.is_stub(*at)).collect();
        stubs.sort_unstable();
        for stub in &stubs {
            let (score, reason) = found[stub].clone();
            if let Some(at) = self.leads_to(*stub)
                && self.indices(directory).contains(&at)
                && !self.is_stub(at)
            {
                note_entry(found, at, score - 0.5, &reason);
            }
        }
        let only_stubs = directory.is_empty() && found.len() == stubs.len();
        found.retain(|at, _| self.tree.sizes[*at] > 0 && (only_stubs || !self.is_stub(*at)));
    }

    fn is_stub(&self, at: usize) -> bool {
        self.tree.sizes[at] < STUB_BYTES
    }

    /// The source that a file of a few lines imports, or names by its path: a script in `bin` may have no extension. A
    /// file that names several sources is a list and leads to none.
    fn leads_to(&self, stub: usize) -> Option<usize> {
        let mut found = self.graph(&[stub]).imports_of(stub);
        let path = self.tree.paths[stub];
        if found.is_empty()
            && let Some(text) = self.tree.text(path)
        {
            let quoted = text.split(['"', '\'']).filter(|part| part.starts_with('.'));
            found.extend(quoted.filter_map(|to| Some(self.tree.layout.resolver.file_from(path, to)? as usize)));
        }
        found.retain(|at| self.is_source(*at));
        found.first().copied().filter(|_| found.len() == 1)
    }

    /// The most certain first, of equally certain ones the largest. Files that are far less certain than the first are
    /// removed.
    fn surest(&self, found: EntryScores) -> Vec<(String, f64, String)> {
        let mut found: Vec<(usize, (f64, String))> = found.into_iter().collect();
        found.retain(|(at, _)| !is_beyond_scan(self.tree.paths[*at]) && !self.is_generated(self.tree.paths[*at]));
        found.sort_by(|(a, (a_score, _)), (b, (b_score, _))| {
            let by_size = || self.tree.sizes[*b].cmp(&self.tree.sizes[*a]);
            b_score.total_cmp(a_score).then_with(by_size).then_with(|| a.cmp(b))
        });
        let least = found.first().map_or(0.0, |(_, (score, _))| score / 4.0);
        found.retain(|(_, (score, _))| *score >= least);
        found.truncate(ENTRY_POINTS_MAX);
        let named = |(at, (score, reason)): (usize, (f64, String))| (self.tree.paths[at].to_owned(), score, reason);
        found.into_iter().map(named).collect()
    }

    /// Sources that a manifest names. The flag is true for a program, and false for a match by the project's name only.
    fn declared(&self, manifest: &str) -> Vec<(usize, bool)> {
        let Some(text) = self.tree.text(manifest) else {
            return Vec::new();
        };
        let resolver = &self.tree.layout.resolver;
        let place = |declared| match declared {
            manifest_entries::DeclaredEntry::Module(name) => Some((resolver.module(&name)?, true)),
            manifest_entries::DeclaredEntry::Path(path) => Some((resolver.file_from(manifest, &path)?, true)),
            manifest_entries::DeclaredEntry::Package(name) => Some((resolver.package(manifest, &name)?, false)),
        };
        let found = manifest_entries::read_declarations(manifest, &text)
            .into_iter()
            .filter_map(place);
        let program = |at: usize| {
            if self.is_source(at) {
                Some(at)
            } else {
                self.leads_to(at).filter(|_| self.is_stub(at))
            }
        };
        found
            .filter_map(|(at, sure)| Some((program(at as usize)?, sure)))
            .filter(|(at, _)| !self.tree.paths[*at].ends_with(".d.ts"))
            .collect()
    }
}

/// Candidates for entry points, with their certainty and the reason.
type EntryScores = HashMap<usize, (f64, String)>;

/// Adds a candidate, or raises its certainty.
fn note_entry(found: &mut EntryScores, at: usize, score: f64, reason: &str) {
    if found.get(&at).is_none_or(|(known, _)| score > *known) {
        found.insert(at, (score, reason.to_owned()));
    }
}

/// True for a file in a directory whose name marks it as private. Such a file is not an entry point.
fn is_private(directory: &str, path: &str) -> bool {
    let inside = parent_directory(path).strip_prefix(directory).unwrap_or_default();
    inside.split('/').any(|part| part.starts_with('_'))
}

/// Entry points that are considered.
pub(super) const ENTRY_POINTS_MAX: usize = 12;

/// Smaller entry points only lead to another file.
const STUB_BYTES: u64 = 400;

/// READMEs come first, then the manifest of the main language, then modules, then other manifests.
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
        "gemfile" => Syntax::Ruby,
        _ if file_role::is_code(path) => return 2,
        _ => return 3,
    };
    if main == Some(of) { 1 } else { 3 }
}

/// READMEs are one kind, manifests another; every other key file is its own kind.
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

/// The main file of a directory: its package or module file, or the file with the name of the directory.
fn is_head(directory: &str, path: &str) -> bool {
    let own = file_name(directory);
    !directory.is_empty()
        && parent_directory(path) == directory
        && file_role::is_code(path)
        && (matches!(file_stem(path), "__init__" | "mod" | "lib" | "index" | "main") || file_stem(path) == own)
}
