//! The parts of a repository that a task names: definitions, files, folders and packages, with measurements.
//!
//! A name as it is written counts most. Then the words of the task are looked for in the names of definitions, files
//! and folders. Words of every task or language, such as `split` and `class`, find nothing by themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::definitions::{find_in_file, order_of_role};
use crate::history::{RECENT_COMMITS, count_commits_of};
use crate::lookup::{FoundDefinition, ReferenceForm, SoughtName, SymbolReader};
use crate::modules::file_imports;
use crate::symbols::{ParsedImport, SymbolForm};
use crate::words::{has_inner_capital, is_common, is_function_word, join_words, split_identifier, stem_word};
use crate::{ContextError, Indexes, ProfileLookup, SelectionFilter, SelectionTree};
use tool_core::api::{FoundPlace, FoundPlaces, TaskSubject};
use tool_repository::Repository;
use tool_repository::file_role::{self, Role, file_name, file_stem, parent_directory};

const SUBJECTS_MAX: usize = 4;
/// Names as written that are looked up.
const NAMES_MAX: usize = 8;
/// Pages of references of one name.
const PAGES_MAX: usize = 4;

/// Words of tasks and languages that tell one part from another only beside another word; sorted.
#[rustfmt::skip]
const GENERIC_WORDS: &[&str] = &[
    "abstract", "abstraction", "app", "application", "approach", "architecture", "base", "big", "boundaries",
    "boundary", "break", "class", "classes", "cleaner", "codebase", "component", "components", "configurable", "const",
    "constant", "convert", "coupled", "coupling", "decouple", "decoupled", "def", "dependencies", "dependency",
    "design", "directory", "duplicate", "duplicated", "easier", "enum", "fast", "faster", "field", "fields", "file",
    "files", "find", "fit", "folder", "func", "function", "functions", "generic", "god", "huge", "independent",
    "interface", "interfaces", "introduce", "isolate", "large", "layer", "layers", "less", "library", "logic", "look",
    "maintainable", "method", "methods", "model", "models", "modular", "module", "modules", "namespace", "object",
    "objects", "own", "package", "packages", "part", "parts", "pattern", "performance", "project", "property", "pure",
    "reduce", "replaceable", "repo", "repository", "reusable", "scalable", "separate", "separation", "simple",
    "simpler", "slow", "smaller", "source", "sources", "split", "struct", "structs", "structure", "system", "table",
    "tables", "testable", "think", "trait", "traits", "turn", "type", "types", "unify", "variable",
];

/// Finds at most four subjects of a task, the likeliest first, and measures them. `place` is a file or a folder that
/// the user has named beside the task. Blocks.
///
/// # Errors
///
/// If the repository cannot be listed, or `cancel` fires.
pub fn find_task_subjects(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    task: &str,
    place: Option<&str>,
    filter: &SelectionFilter,
    cancel: &CancellationToken,
) -> Result<Vec<TaskSubject>, ContextError> {
    let list = repository.list(cancel)?;
    let view = indexes.open_view(repository, &list, Instant::now(), cancel);
    let view = view.with_history(filter.takes_history());
    let tree = SelectionTree::with_layout(list.files.iter(), &view, Arc::clone(view.layout()), cancel);
    let reader = SymbolReader {
        repository,
        parser: indexes.parser(),
        indexes: Some(indexes),
        cancel,
    };
    let chosen = choose_subjects(&tree, &TaskWords::read(task), place);
    let mut subjects = measure_subjects(&tree, reader, &chosen);
    if let Some(history) = view.newest_commits(RECENT_COMMITS).filter(|_| !subjects.is_empty()) {
        for subject in subjects.iter_mut().filter(|subject| !subject.path.is_empty()) {
            let is_meant =
                |path: &str| path == subject.path || subject.path.ends_with('/') && path.starts_with(&subject.path);
            subject.commits = Some(count_commits_of(&history, is_meant));
        }
    }
    view.finish();
    if cancel.is_cancelled() {
        return Err(ContextError::Cancelled);
    }
    Ok(subjects)
}

#[derive(Debug, Default)]
struct TaskWords {
    /// Names that look like code, and words with a capital.
    names: Vec<String>,
    paths: Vec<String>,
    words: Vec<TaskWord>,
}

#[derive(Debug)]
struct TaskWord {
    stem: String,
    /// False for a word that finds nothing by itself.
    is_own: bool,
}

impl TaskWords {
    fn read(task: &str) -> Self {
        let mut read = Self::default();
        for token in task.split(|c: char| c.is_whitespace() || ",;()[]{}\"'".contains(c)) {
            let is_quoted = token.contains('`');
            let token = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let is_idle = |word: &str| is_generic(word) || is_function_word(word.as_bytes());
            if token.contains('/') || file_role::detect_language(token).is_some() {
                read.paths.push(token.to_owned());
            }
            let looks_like_name = token.contains(['_', '.', ':', '#'])
                || has_inner_capital(token)
                || token.starts_with(char::is_uppercase);
            let is_name = is_quoted || looks_like_name && !is_idle(&token.to_lowercase());
            if is_name && !token.is_empty() && read.names.len() < NAMES_MAX {
                read.names.push(token.to_owned());
            }
            for run in token.split(|c: char| !c.is_alphanumeric() && c != '_') {
                split_identifier(run.as_bytes(), |word, is_whole| read.add(word, is_whole));
            }
        }
        read
    }

    fn add(&mut self, word: &[u8], is_whole: bool) {
        let stem = String::from_utf8_lossy(stem_word(word)).into_owned();
        if !is_whole && !is_function_word(word) && self.find(word).is_none() {
            let is_own = !is_generic(&String::from_utf8_lossy(word));
            self.words.push(TaskWord { stem, is_own });
        }
    }

    fn find(&self, word: &[u8]) -> Option<usize> {
        self.words
            .iter()
            .position(|known| known.stem.as_bytes() == stem_word(word))
    }

    /// The own words of the task that a name has, and the share of its words that the task has.
    fn cover(&self, name: &str) -> (BTreeSet<usize>, f64) {
        let (mut covered, mut known, mut all) = (BTreeSet::new(), 0_u32, 0_u32);
        for part in name.split(['-', '.']) {
            split_identifier(part.as_bytes(), |word, is_whole| {
                let found = self.find(word);
                covered.extend(found.filter(|at| self.words[*at].is_own));
                all += u32::from(!is_whole);
                known = if is_whole && found.is_some() {
                    all
                } else {
                    known + u32::from(found.is_some())
                };
            });
        }
        (covered, f64::from(known.min(all)) / f64::from(all.max(1)))
    }
}

fn is_generic(word: &str) -> bool {
    GENERIC_WORDS.binary_search(&word).is_ok() || is_common(word.as_bytes())
}

#[derive(Debug, Clone, PartialEq)]
enum SubjectForm {
    /// The name as written, and the lines that the index has.
    Definition(String, (u32, u32)),
    File,
    Folder,
    Package(String),
}

#[derive(Debug, Clone)]
struct SubjectCandidate {
    form: SubjectForm,
    /// The file; one file of a folder; one user of a package.
    at: usize,
    /// Path of a folder.
    folder: String,
    covered: BTreeSet<usize>,
    share: f64,
    score: f64,
    /// Further definitions of the name.
    others: Vec<(usize, (u32, u32))>,
}

impl SubjectCandidate {
    fn new(form: SubjectForm, at: usize) -> Self {
        Self {
            form,
            at,
            folder: String::new(),
            covered: BTreeSet::new(),
            share: 1.0,
            score: 0.0,
            others: Vec::new(),
        }
    }

    /// The candidate if its name has enough of the task's words.
    fn rated(mut self, name: &str, path: &str, words: &TaskWords) -> Option<Self> {
        let (covered, share) = words.cover(name);
        let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
        let (weight, share_min) = match &self.form {
            SubjectForm::Definition(..) if is_type => (1.2, 0.5),
            SubjectForm::Folder => (1.1, 0.5),
            SubjectForm::File => (1.0, 0.5),
            // A function with a word of the task in its name is often only about it.
            SubjectForm::Definition(..) => (if share < 1.0 { 0.5 } else { 0.8 }, 0.6),
            SubjectForm::Package(_) => (0.9, 0.5),
        };
        if covered.is_empty() || share < share_min {
            return None;
        }
        let depth = path.matches('/').count() as f64;
        self.score = covered.len() as f64 * (0.5 + share / 2.0) * weight - depth / 100.0;
        (self.covered, self.share) = (covered, share);
        Some(self)
    }
}

fn choose_subjects(tree: &SelectionTree<'_>, words: &TaskWords, place: Option<&str>) -> Vec<SubjectCandidate> {
    let mut chosen = named_paths(tree, words, place);
    let named = named_definitions(tree, words, &chosen);
    // A file that is named beside its definition only says where that is.
    chosen.retain(|path| path.form != SubjectForm::File || !named.iter().any(|one| one.at == path.at));
    chosen.splice(0..0, named);
    chosen.truncate(SUBJECTS_MAX);
    let has_named = !chosen.is_empty();
    let mut covered: BTreeSet<usize> = chosen.iter().flat_map(|one| one.covered.iter().copied()).collect();
    let mut found = find_candidates(tree, words);
    if has_named {
        found.retain(|one| {
            one.share >= 1.0
                && !matches!(&one.form, SubjectForm::Definition(name, _) if !name.starts_with(char::is_uppercase))
        });
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.at.cmp(&b.at)));
    let least = found.first().map_or(0.0, |best| best.score / 2.0);
    for one in found.into_iter().take_while(|one| one.score >= least) {
        if chosen.len() < SUBJECTS_MAX && !one.covered.is_subset(&covered) {
            covered.extend(&one.covered);
            chosen.push(one);
        }
    }
    chosen
}

/// The files and folders that the task names by their path, or its end.
fn named_paths(tree: &SelectionTree<'_>, words: &TaskWords, place: Option<&str>) -> Vec<SubjectCandidate> {
    let mut found: Vec<SubjectCandidate> = Vec::new();
    for said in place.into_iter().chain(words.paths.iter().map(String::as_str)) {
        let said = said.trim_end_matches('/');
        let end = format!("/{said}");
        let is_said = |path: &str| path == said || path.ends_with(&end);
        let files = listed_files(tree, |at| is_said(tree.paths[at])).into_iter();
        let form = SubjectForm::File;
        let file = files.min_by_key(|at| tree.paths[*at].len()).map(|at| (form, at, ""));
        let folder = || {
            (0..tree.paths.len()).find_map(|at| {
                let path = tree.paths[at];
                let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]);
                folders
                    .find(|folder| is_said(folder))
                    .map(|folder| (SubjectForm::Folder, at, folder))
            })
        };
        let Some((form, at, folder)) = file.or_else(folder) else {
            continue;
        };
        if !found.iter().any(|known| (&known.form, known.at) == (&form, at)) {
            found.push(SubjectCandidate {
                folder: folder.to_owned(),
                covered: said.split('/').flat_map(|part| words.cover(part).0).collect(),
                ..SubjectCandidate::new(form, at)
            });
        }
    }
    found
}

/// The best definition of each name as written.
fn named_definitions(tree: &SelectionTree<'_>, words: &TaskWords, paths: &[SubjectCandidate]) -> Vec<SubjectCandidate> {
    let names: Vec<SoughtName<'_>> = words.names.iter().map(|name| SoughtName::parse(name)).collect();
    let files = listed_files(tree, |at| file_role::is_code(tree.paths[at]));
    let matches = tree.each(&files, |at| {
        let found: Vec<_> = names.iter().map(|name| find_in_file(tree, at, name)).collect();
        found.iter().any(Option::is_some).then_some(found)
    });
    let mut definitions: Vec<Vec<_>> = names.iter().map(|_| Vec::new()).collect();
    for (at, found) in files.into_iter().zip(matches) {
        for (known, found) in definitions.iter_mut().zip(found.into_iter().flatten()) {
            let found = found.into_iter();
            known.extend(
                found.flat_map(|found| found.lines.into_iter().map(move |lines| (found.is_enclosed, at, lines))),
            );
        }
    }
    let mut chosen: Vec<SubjectCandidate> = Vec::new();
    for (name, mut places) in words.names.iter().zip(definitions) {
        places.sort_by_key(|(is_enclosed, at, lines)| {
            let is_named = paths.iter().any(|path| path.at == *at);
            let order = (order_of_role(tree.layout.roles[*at]), is_migration(tree.paths[*at]));
            let depth = tree.paths[*at].matches('/').count();
            (!is_enclosed, !is_named, order, Reverse(lines.1 - lines.0), depth, *at)
        });
        let Some(&(_, at, lines)) = places.first() else {
            continue;
        };
        let member = SoughtName::parse(name).last.to_owned();
        let is_known = |one: &SubjectCandidate| {
            one.at == at && matches!(&one.form, SubjectForm::Definition(_, known) if *known == lines)
        };
        if !chosen.iter().any(is_known) {
            let others = places
                .iter()
                .skip(1)
                .filter(|place| tree.layout.sources[place.1] && !is_migration(tree.paths[place.1]));
            chosen.push(SubjectCandidate {
                covered: words.cover(name).0,
                others: others.map(|(_, at, lines)| (*at, *lines)).collect(),
                ..SubjectCandidate::new(SubjectForm::Definition(member, lines), at)
            });
        }
    }
    chosen
}

fn listed_files(tree: &SelectionTree<'_>, is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..tree.paths.len()).filter(|at| is_meant(*at)).collect()
}

/// True in a folder of database migrations, which define what other files own.
fn is_migration(path: &str) -> bool {
    parent_directory(path)
        .split('/')
        .any(|folder| folder.contains("migrat"))
}

/// Definitions, files, folders and packages whose names have words of the task.
fn find_candidates(tree: &SelectionTree<'_>, words: &TaskWords) -> Vec<SubjectCandidate> {
    if !words.words.iter().any(|word| word.is_own) {
        return Vec::new();
    }
    let is_own =
        |at: usize| tree.layout.written[at] && tree.layout.roles[at] == Role::Source && !is_migration(tree.paths[at]);
    let sources = listed_files(tree, is_own);
    let of_files = tree.each(&sources, |at| Some(candidates_of_file(tree, at, words)));
    let mut folders: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for at in &sources {
        folders.entry(parent_directory(tree.paths[*at])).or_insert((*at, 0)).1 += 1;
    }
    let of_folders = folders
        .into_iter()
        .filter(|(_, (_, files))| *files > 1)
        .filter_map(|(folder, (at, _))| {
            let one = SubjectCandidate {
                folder: folder.to_owned(),
                ..SubjectCandidate::new(SubjectForm::Folder, at)
            };
            one.rated(file_name(folder), folder, words)
        });
    let mut found: Vec<SubjectCandidate> = of_folders.collect();
    found.extend(of_files.into_iter().flatten().flatten());
    found
}

fn candidates_of_file(tree: &SelectionTree<'_>, at: usize, words: &TaskWords) -> Vec<SubjectCandidate> {
    let path = tree.paths[at];
    let ProfileLookup::Found(profile) = tree.source.profile_near(path, at) else {
        return Vec::new();
    };
    if profile.is_generated() {
        return Vec::new();
    }
    let file = SubjectCandidate::new(SubjectForm::File, at).rated(file_stem(path), path, words);
    let mut found: Vec<SubjectCandidate> = file.into_iter().collect();
    profile.each_definition(|name, lines| {
        let one = || SubjectCandidate::new(SubjectForm::Definition(name.to_owned(), lines), at);
        if !words.cover(name).0.is_empty() {
            found.extend(one().rated(name, path, words));
        }
    });
    profile.each_import(|import| {
        let package = package_of(&import).filter(|package| !words.cover(package).0.is_empty());
        let is_elsewhere = |_: &&str| tree.layout.resolver.resolve(path, &import).is_empty();
        if let Some(package) = package.filter(is_elsewhere) {
            let one = SubjectCandidate::new(SubjectForm::Package(package.to_owned()), at);
            found.extend(one.rated(file_name(package), path, words));
        }
    });
    found
}

/// The package of an import, as far as the import alone tells.
fn package_of<'a>(import: &ParsedImport<'a>) -> Option<&'a str> {
    let first = |path: &'a str, separator: &str| path.split(separator).next();
    let package = match *import {
        ParsedImport::Python { level: 0, module, .. } => first(module, "."),
        ParsedImport::Path(path) if path.starts_with('@') => {
            let end = path.match_indices('/').nth(1).map_or(path.len(), |(at, _)| at);
            Some(&path[..end])
        }
        ParsedImport::Path(path) if !path.starts_with(['.', '/', '~', '#']) => first(path, "/"),
        ParsedImport::RustUse(path) => first(path, "::"),
        ParsedImport::Go(path) => Some(path),
        ParsedImport::Ruby(path) => first(path, "/"),
        _ => None,
    };
    package.filter(|package| !package.is_empty())
}

/// A file with a line of it, 0 if it is not known, and a number of uses.
type CountedFile = (usize, u32, u64);

/// What the files of a list import, and who imports them.
struct ImportGraph {
    imports: Vec<Vec<usize>>,
    importers: Vec<Vec<usize>>,
}

impl ImportGraph {
    fn read(tree: &SelectionTree<'_>) -> Self {
        let files = listed_files(tree, |at| tree.layout.written[at]);
        let mut imports = vec![Vec::new(); tree.paths.len()];
        let mut importers = vec![Vec::new(); tree.paths.len()];
        for (from, imported) in files.iter().zip(file_imports(tree, &files)) {
            imported.iter().for_each(|to| importers[*to].push(*from));
            imports[*from] = imported;
        }
        Self { imports, importers }
    }
}

fn measure_subjects(
    tree: &SelectionTree<'_>,
    reader: SymbolReader<'_>,
    chosen: &[SubjectCandidate],
) -> Vec<TaskSubject> {
    if chosen.is_empty() {
        return Vec::new();
    }
    let measurer = SubjectMeasurer {
        tree,
        reader,
        graph: ImportGraph::read(tree),
    };
    chosen.iter().map(|one| measurer.measure(one)).collect()
}

struct SubjectMeasurer<'a> {
    tree: &'a SelectionTree<'a>,
    reader: SymbolReader<'a>,
    graph: ImportGraph,
}

impl SubjectMeasurer<'_> {
    fn measure(&self, one: &SubjectCandidate) -> TaskSubject {
        match &one.form {
            SubjectForm::Definition(name, lines) => self.measure_definition(one, name, *lines),
            SubjectForm::File => self.measure_file(one.at),
            SubjectForm::Folder => self.measure_folder(&one.folder),
            SubjectForm::Package(name) => self.measure_package(name),
        }
    }

    fn measure_definition(&self, one: &SubjectCandidate, name: &str, lines: (u32, u32)) -> TaskSubject {
        let path = self.tree.paths[one.at];
        let outline = self.reader.outline(path).unwrap_or_default();
        let is_meant =
            |found: &&FoundDefinition| found.name == name && (found.first_line..=found.last_line).contains(&lines.0);
        let definition = outline.iter().find(is_meant);
        let is_part = |found: &&FoundDefinition| {
            definition.is_some_and(|around| around != *found) && found.container.rsplit(['.', ':']).next() == Some(name)
        };
        let uses = self.count_uses(name, one.at);
        let others = one.others.iter().map(|(at, lines)| self.place(*at, *lines));
        TaskSubject {
            name: definition.map_or_else(
                || name.to_owned(),
                |found| match found.container.as_str() {
                    "" => name.to_owned(),
                    container => format!("{container}.{name}"),
                },
            ),
            path: path.to_owned(),
            lines: definition.map_or(lines, |found| (found.first_line, found.last_line)),
            parts: definitions_by_size(path, outline.iter().filter(is_part)),
            others: FoundPlaces::of(others.collect()),
            users: self.by_role(&uses, false),
            tests: self.by_role(&uses, true),
            imports: self.places(self.graph.imports[one.at].iter().copied()),
            commits: None,
        }
    }

    fn measure_file(&self, at: usize) -> TaskSubject {
        let path = self.tree.paths[at];
        let outline = self.reader.outline(path).unwrap_or_default();
        let text = self.tree.text(path).unwrap_or_default();
        let importers = self.importers(|one| one == at);
        TaskSubject {
            path: path.to_owned(),
            lines: (1, text.lines().count().max(1) as u32),
            parts: definitions_by_size(path, outline.iter().filter(|found| found.container.is_empty())),
            users: self.located(self.by_role(&importers, false), import_word(path)),
            tests: self.located(
                self.by_role(&self.with_named_tests(at, importers), true),
                import_word(path),
            ),
            imports: self.places(self.graph.imports[at].iter().copied()),
            ..TaskSubject::default()
        }
    }

    fn measure_folder(&self, folder: &str) -> TaskSubject {
        let inside = self.tree.below(folder);
        let is_inside = |at: usize| inside.contains(&at);
        let mut files: Vec<FoundPlace> = inside
            .clone()
            .filter(|at| self.tree.layout.written[*at] && self.tree.layout.roles[*at] == Role::Source)
            .map(|at| FoundPlace {
                amount: self.tree.sizes[at],
                ..self.place(at, (1, 1))
            })
            .collect();
        files.sort_by_key(|file| Reverse(file.amount));
        let importers = self.importers(is_inside);
        let imported: BTreeSet<usize> = inside
            .clone()
            .flat_map(|at| self.graph.imports[at].iter().copied())
            .collect();
        TaskSubject {
            path: format!("{folder}/"),
            parts: FoundPlaces::of(files),
            users: self.located(self.by_role(&importers, false), file_name(folder)),
            tests: self.located(self.by_role(&importers, true), file_name(folder)),
            imports: self.places(imported.into_iter().filter(|at| !is_inside(*at))),
            ..TaskSubject::default()
        }
    }

    fn measure_package(&self, name: &str) -> TaskSubject {
        let files = listed_files(self.tree, |at| self.tree.layout.written[at]);
        let imports = self.tree.each(&files, |at| {
            let ProfileLookup::Found(profile) = self.tree.source.profile_near(self.tree.paths[at], at) else {
                return None;
            };
            let mut count = 0_u64;
            profile.each_import(|import| count += u64::from(package_of(&import) == Some(name)));
            (count > 0).then_some(count)
        });
        let users = files.into_iter().zip(imports);
        let users: Vec<CountedFile> = users.filter_map(|(at, count)| Some((at, 0, count?))).collect();
        TaskSubject {
            name: name.to_owned(),
            users: self.located(self.by_role(&users, false), name),
            tests: self.located(self.by_role(&users, true), name),
            ..TaskSubject::default()
        }
    }

    /// The files that use a name, with the line of the first use and the number of uses. A file that defines the name
    /// itself means its own.
    fn count_uses(&self, name: &str, defined_in: usize) -> Vec<CountedFile> {
        let mut uses: BTreeMap<usize, (u32, u64)> = BTreeMap::new();
        let (mut defining, mut after) = (BTreeSet::from([defined_in]), None);
        for _ in 0..PAGES_MAX {
            let Ok(page) = self.reader.find_references(name, "", after.as_deref()) else {
                break;
            };
            for found in page.items {
                let Some(at) = self.tree.find(&found.path) else {
                    continue;
                };
                if found.form == ReferenceForm::Definition {
                    defining.insert(at);
                } else if self.tree.layout.written[at] {
                    uses.entry(at).or_insert((found.line, 0)).1 += 1;
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let importers = &self.graph.importers[defined_in];
        let uses = uses.into_iter().filter(|(at, _)| !defining.contains(at));
        let mut uses: Vec<CountedFile> = uses.map(|(at, (line, count))| (at, line, count)).collect();
        uses.sort_by_key(|(at, _, count)| (!importers.contains(at), Reverse(*count)));
        self.with_named_tests(defined_in, uses)
    }

    /// Files that import one of these from outside.
    fn importers(&self, is_imported: impl Fn(usize) -> bool) -> Vec<CountedFile> {
        let imports_one = |at: usize| !is_imported(at) && self.graph.imports[at].iter().any(|to| is_imported(*to));
        let files = listed_files(self.tree, imports_one);
        files.into_iter().map(|at| (at, 0, 0)).collect()
    }

    /// The files, and the tests with the name of a file, which come first.
    fn with_named_tests(&self, at: usize, mut found: Vec<CountedFile>) -> Vec<CountedFile> {
        let name = join_words(file_stem(self.tree.paths[at]));
        let is_named = |test: usize| {
            let stem = join_words(file_stem(self.tree.paths[test]));
            let cut = ["tests", "test", "spec"].iter().find_map(|end| stem.strip_suffix(end));
            let is_name = stem == name || cut == Some(&name) || stem.strip_prefix("test") == Some(&name);
            is_name && self.tree.layout.roles[test] == Role::Test
        };
        let tests = listed_files(self.tree, |test| {
            is_named(test) && !found.iter().any(|one| one.0 == test)
        });
        found.extend(tests.into_iter().map(|test| (test, 1, 0)));
        found.sort_by_key(|(test, _, _)| !is_named(*test));
        found
    }

    /// Finds the lines that name a word, in the files of which no line is known.
    fn located(&self, mut places: FoundPlaces, word: &str) -> FoundPlaces {
        for place in places.first.iter_mut().filter(|place| place.lines.0 == 0) {
            let text = self.tree.text(&place.path).unwrap_or_default();
            let line = (1..).zip(text.lines()).find(|(_, line)| line.contains(word));
            let number = line.map_or(1, |(number, _)| number);
            place.lines = (number, number);
        }
        places
    }

    fn by_role(&self, found: &[CountedFile], are_tests: bool) -> FoundPlaces {
        let role = if are_tests { Role::Test } else { Role::Source };
        let found = found.iter().filter(|(at, _, _)| self.tree.layout.roles[*at] == role);
        let place = |(at, line, amount): &CountedFile| FoundPlace {
            amount: *amount,
            ..self.place(*at, (*line, *line))
        };
        FoundPlaces::of(found.map(place).collect())
    }

    fn places(&self, files: impl Iterator<Item = usize>) -> FoundPlaces {
        FoundPlaces::of(files.map(|at| self.place(at, (1, 1))).collect())
    }

    fn place(&self, at: usize, lines: (u32, u32)) -> FoundPlace {
        FoundPlace {
            path: self.tree.paths[at].to_owned(),
            lines,
            ..FoundPlace::default()
        }
    }
}

/// The word that names a file in an import.
fn import_word(path: &str) -> &str {
    match file_stem(path) {
        "__init__" | "mod" | "lib" | "index" => file_name(parent_directory(path)),
        stem => stem,
    }
}

fn definitions_by_size<'d>(path: &str, found: impl Iterator<Item = &'d FoundDefinition>) -> FoundPlaces {
    let found = found.filter(|found| found.form != SymbolForm::Value);
    let place = |found: &FoundDefinition| FoundPlace {
        path: path.to_owned(),
        name: found.name.clone(),
        lines: (found.first_line, found.last_line),
        amount: 0,
    };
    let mut places: Vec<FoundPlace> = found.map(place).collect();
    places.sort_by_key(|place| Reverse(place.lines.1 - place.lines.0));
    FoundPlaces::of(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_tree;

    const FILES: &[(&str, &str)] = &[
        (
            "app/models/comment.rb",
            "class Comment < Base\n  def type\n  end\nend\n",
        ),
        ("app/models/story.rb", "class Story < Base\n  def merge\n  end\nend\n"),
        ("db/migrate/1_create.rb", "class Story < Base\nend\n"),
        (
            "lib/billing.ts",
            "import Stripe from 'stripe';\nexport function parseInvoice() {}\n",
        ),
        ("lib/storage/disk.go", "package storage\n\ntype Disk struct{}\n"),
        ("lib/storage/memory.go", "package storage\n\ntype Memory struct{}\n"),
        ("spec/models/story_spec.rb", "class Story\nend\n"),
    ];

    /// The subjects of a task, as `path name`.
    fn chosen(task: &str, place: Option<&str>) -> Vec<String> {
        with_tree(FILES, |tree| {
            let subject = |one: SubjectCandidate| match one.form {
                SubjectForm::Definition(name, _) => format!("{} {name}", tree.paths[one.at]),
                SubjectForm::File => tree.paths[one.at].to_owned(),
                SubjectForm::Folder => format!("{}/", one.folder),
                SubjectForm::Package(name) => format!("package {name}"),
            };
            let found = choose_subjects(tree, &TaskWords::read(task), place);
            found.into_iter().map(subject).collect()
        })
    }

    #[test]
    fn a_task_leads_to_what_it_names() {
        for (task, expected) in [
            (
                "split the Story model, it is a god class",
                &["app/models/story.rb Story"][..],
            ),
            ("make the comments simpler", &["app/models/comment.rb Comment"]),
            ("make the storage layer replaceable", &["lib/storage/"]),
            ("replace stripe by paddle", &["package stripe"]),
            ("parse invoices lazily", &["lib/billing.ts parseInvoice"]),
            ("split lib/billing.ts", &["lib/billing.ts"]),
            ("tidy lib/storage/ up", &["lib/storage/"]),
            (
                "`merge` of Story",
                &["app/models/story.rb merge", "app/models/story.rb Story"],
            ),
        ] {
            assert_eq!(chosen(task, None), expected, "{task}");
        }
        assert_eq!(chosen("", Some("app/models")), ["app/models/"]);
    }

    #[test]
    fn words_of_every_task_or_language_lead_nowhere() {
        assert!(GENERIC_WORDS.is_sorted());
        for task in [
            "make it better",
            "which class or type should be a function of its own",
            "split the model and its tables into smaller modules",
            "what in this repository does not fit its own architecture",
        ] {
            assert_eq!(chosen(task, None), [""; 0], "{task}");
        }
    }
}
