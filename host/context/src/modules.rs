//! The module graph of a directory: its modules, and the imports between them.
//!
//! A module is a file, a folder or a package. The largest folders are opened first, as long as the graph stays small
//! enough to read. Of a folder with too many files, the most connected ones are shown. The rest stays folded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use tool_core::api::{ModuleEdge, ModuleGraph, ModuleNode};
use tool_repository::Repository;
use tool_repository::file_role::parent_directory;
use tool_repository::path::join_path;

use super::symbols::{Manifest, PackageEcosystem};
use super::{ContextError, Indexes, ProfileLookup, SelectionTree, read_tree};
use crate::limits::RANKED_FILE_BYTES_MAX;

/// Modules of a graph. A larger one cannot be read.
const NODES_MAX: usize = 25;
/// A flat folder is opened in part only if this many nodes are left: fewer of its files would tell nothing.
const PARTS_MIN: usize = 8;
const EDGES_MAX: usize = 60;
/// Name of the module that holds everything for which the graph has no room.
const OTHERS: &str = "(others)";
/// Files that make a folder a package.
const MANIFESTS: [&str; 9] = [
    "Cargo.toml",
    "package.json",
    "go.mod",
    "pyproject.toml",
    "setup.py",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "mix.exs",
];

/// Draws the modules below a directory; the empty path is the root. Blocks.
///
/// # Errors
///
/// If the repository is empty or cannot be listed, or `cancel` fires.
pub fn draw_modules(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    directory: &str,
    by_package: bool,
    cancel: &CancellationToken,
) -> Result<ModuleGraph, ContextError> {
    read_tree(repository, indexes, cancel, |tree, list| {
        if list.files.is_empty() {
            return Err(ContextError::Empty);
        }
        let graph = draw_graph(tree, directory, by_package);
        let notice = tree
            .is_over()
            .then(|| "The graph is cut: not every file was read in time".to_owned());
        Ok(ModuleGraph {
            notices: notice.into_iter().chain(list.skipped_ignores.notice()).collect(),
            ..graph
        })
    })
}

fn draw_graph(tree: &SelectionTree<'_>, directory: &str, by_package: bool) -> ModuleGraph {
    let of_kind = |kind: &[bool]| -> Vec<usize> { tree.below(directory).filter(|at| kind[*at]).collect() };
    let sources = of_kind(&tree.layout.sources);
    // A directory without sources is drawn with its tests or examples.
    let files = if sources.is_empty() {
        of_kind(&tree.layout.written)
    } else {
        sources
    };
    let imports: Vec<(usize, usize)> = file_imports(tree, &files)
        .into_iter()
        .zip(&files)
        .flat_map(|(imported, from)| imported.into_iter().map(|to| (*from, to)))
        .collect();
    let (modules, declared) = if by_package {
        group_by_package(tree, &files, &imports)
    } else {
        (group_by_folder(tree, directory, &files, &imports), Vec::new())
    };
    let home = module_of_files(&modules);
    let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for pair in pairs_of(&home, &imports) {
        *counts.entry(pair).or_default() += 1;
    }
    for pair in declared {
        counts.entry(pair).or_insert(1);
    }
    let mut edges: Vec<ModuleEdge> = counts
        .into_iter()
        .map(|((from, to), imports)| ModuleEdge {
            from: modules[from].name.clone(),
            to: modules[to].name.clone(),
            imports,
        })
        .collect();
    edges.sort_by(|a, b| {
        b.imports
            .cmp(&a.imports)
            .then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to)))
    });
    let mut edges = take_turns(edges);
    let edges_left_out = edges.len().saturating_sub(EDGES_MAX) as u64;
    edges.truncate(EDGES_MAX);
    let node = |module: &SourceModule| ModuleNode {
        name: module.name.clone(),
        files: module.files.len() as u64,
    };
    ModuleGraph {
        path: directory.to_owned(),
        nodes: modules.iter().map(node).collect(),
        edges,
        edges_left_out,
        notices: Vec::new(),
    }
}

/// Orders edges of equal weight so that each module gets its first edge before any gets its second. So even the
/// beginning of the list covers all modules.
fn take_turns(edges: Vec<ModuleEdge>) -> Vec<ModuleEdge> {
    let mut turns: HashMap<(String, u64), usize> = HashMap::new();
    let with_turn = |edge: ModuleEdge| {
        let turn = turns.entry((edge.from.clone(), edge.imports)).or_default();
        *turn += 1;
        (*turn, edge)
    };
    let mut edges: Vec<(usize, ModuleEdge)> = edges.into_iter().map(with_turn).collect();
    edges.sort_by_key(|(turn, edge)| (Reverse(edge.imports), *turn));
    edges.into_iter().map(|(_, edge)| edge).collect()
}

/// The files that each of `files` imports, as indices into the list; empty for a file that was not read in time.
pub(crate) fn file_imports(tree: &SelectionTree<'_>, files: &[usize]) -> Vec<Vec<usize>> {
    let imports = tree.each(files, |at| {
        let is_small = tree.sizes[at] <= RANKED_FILE_BYTES_MAX;
        let ProfileLookup::Found(profile) = is_small.then(|| tree.source.profile(tree.paths[at]))? else {
            return None;
        };
        Some(tree.imports(tree.paths[at], &profile))
    });
    let indices = |imported: Option<Arc<[u32]>>| {
        imported
            .iter()
            .flat_map(|list| list.iter())
            .map(|to| *to as usize)
            .collect()
    };
    imports.into_iter().map(indices).collect()
}

/// Files that are drawn as one node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceModule {
    name: String,
    form: ModuleForm,
    /// Indices into the list.
    files: Vec<usize>,
}

/// Way in which a user can open a module.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ModuleForm {
    /// Not at all: one file, a package, or a rest.
    Closed,
    /// Into its folders and files.
    Folder(String),
    /// Opened into files: this module holds the files directly in a folder.
    Files,
}

impl SourceModule {
    fn new_closed(name: String, files: Vec<usize>) -> Self {
        let form = ModuleForm::Closed;
        Self { name, form, files }
    }
}

/// The module that each file belongs to.
fn module_of_files(modules: &[SourceModule]) -> HashMap<usize, usize> {
    modules
        .iter()
        .enumerate()
        .flat_map(|(module, one)| one.files.iter().map(move |file| (*file, module)))
        .collect()
}

/// The imports between different modules, once for each pair of files.
fn pairs_of<'a>(
    home: &'a HashMap<usize, usize>,
    imports: &'a [(usize, usize)],
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let pair = |(from, to): &(usize, usize)| Some((*home.get(from)?, *home.get(to)?));
    imports.iter().filter_map(pair).filter(|(from, to)| from != to)
}

/// The number of edges of each of `count` modules.
fn count_edges(count: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let pairs: BTreeSet<(usize, usize)> = pairs.collect();
    let mut degrees = vec![0; count];
    for (from, to) in pairs {
        degrees[from] += 1;
        degrees[to] += 1;
    }
    degrees
}

/// The folders and files below a directory, the largest folders opened.
fn group_by_folder(
    tree: &SelectionTree<'_>,
    directory: &str,
    files: &[usize],
    imports: &[(usize, usize)],
) -> Vec<SourceModule> {
    if files.is_empty() {
        return Vec::new();
    }
    let drawn: HashSet<usize> = files.iter().copied().collect();
    let mut links: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    for (from, to) in imports.iter().filter(|(_, to)| drawn.contains(to)) {
        links.entry(*from).or_default().insert(*to);
        links.entry(*to).or_default().insert(*from);
    }
    let links: HashMap<usize, usize> = links.into_iter().map(|(at, linked)| (at, linked.len())).collect();
    let (mut modules, _) = fold_modules(split_folder(tree, directory, files, usize::MAX), imports, &[]);
    loop {
        let room = NODES_MAX - modules.len() + 1;
        let degrees = count_edges(modules.len(), pairs_of(&module_of_files(&modules), imports));
        let opened = modules
            .iter()
            .enumerate()
            .filter_map(|(at, module)| Some((at, open_module(tree, module, room, &links)?)))
            .max_by_key(|(at, _)| (modules[*at].files.len(), degrees[*at], std::cmp::Reverse(*at)));
        let Some((at, parts)) = opened else {
            break;
        };
        modules.splice(at..=at, parts);
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

/// The parts of a module, if they fit into `room`.
fn open_module(
    tree: &SelectionTree<'_>,
    module: &SourceModule,
    room: usize,
    links: &HashMap<usize, usize>,
) -> Option<Vec<SourceModule>> {
    match &module.form {
        ModuleForm::Closed => None,
        ModuleForm::Files => most_connected(tree, module, room, links),
        ModuleForm::Folder(folder) => {
            let parts = split_folder(tree, folder, &module.files, room);
            match &parts[..] {
                [own] if own.form == ModuleForm::Files => most_connected(tree, own, room, links),
                parts => (parts.len() <= room).then(|| parts.to_vec()),
            }
        }
    }
}

/// The files of a flat folder that are linked with most others, and one module for the rest.
fn most_connected(
    tree: &SelectionTree<'_>,
    module: &SourceModule,
    room: usize,
    links: &HashMap<usize, usize>,
) -> Option<Vec<SourceModule>> {
    let mut files = module.files.clone();
    let file = |at: usize| SourceModule::new_closed(tree.paths[at].to_owned(), vec![at]);
    if files.len() <= room {
        return Some(files.into_iter().map(file).collect());
    }
    if room < PARTS_MIN {
        return None;
    }
    // The list is sorted by name, and the order of equals stays.
    files.sort_by_key(|at| std::cmp::Reverse(links.get(at).copied().unwrap_or_default()));
    let rest = files.split_off(room - 1);
    let rest = SourceModule::new_closed(module.name.clone(), rest);
    Some(files.into_iter().map(file).chain([rest]).collect())
}

/// The parts of a folder: its folders, and its files. The files are one part if there is no room for each.
fn split_folder(tree: &SelectionTree<'_>, folder: &str, files: &[usize], room: usize) -> Vec<SourceModule> {
    let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
    let mut inner: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut own = Vec::new();
    for at in files {
        match tree.paths[*at][start..].split_once('/') {
            Some((name, _)) => inner.entry(name).or_default().push(*at),
            None => own.push(*at),
        }
    }
    let file = |at: &usize| SourceModule::new_closed(tree.paths[*at].to_owned(), vec![*at]);
    let own_parts = if own.len() <= 1 || inner.len() + own.len() <= room.min(NODES_MAX) {
        own.iter().map(file).collect()
    } else {
        let prefix = &tree.paths[own[0]][..start];
        vec![SourceModule {
            name: format!("{prefix}*"),
            form: ModuleForm::Files,
            files: own,
        }]
    };
    let inner = inner.into_iter().map(|(name, files)| {
        let path = format!("{}{name}", &tree.paths[files[0]][..start]);
        SourceModule {
            name: format!("{path}/"),
            form: ModuleForm::Folder(path),
            files,
        }
    });
    inner.chain(own_parts).collect()
}

/// The packages of a workspace, and the pairs of packages with a declared dependency. Each file belongs to the nearest
/// folder above it with a manifest.
fn group_by_package(
    tree: &SelectionTree<'_>,
    files: &[usize],
    imports: &[(usize, usize)],
) -> (Vec<SourceModule>, Vec<(usize, usize)>) {
    let mut by_package: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for at in files {
        let mut folder = parent_directory(tree.paths[*at]);
        while !folder.is_empty() && !is_package(tree, folder) {
            folder = parent_directory(folder);
        }
        by_package.entry(folder).or_default().push(*at);
    }
    let folders: Vec<&str> = by_package.keys().copied().collect();
    let declared = declared_dependencies(tree, &folders);
    let module = |(folder, files): (&str, Vec<usize>)| {
        let name = if folder.is_empty() {
            "./".to_owned()
        } else {
            format!("{folder}/")
        };
        SourceModule::new_closed(name, files)
    };
    fold_modules(by_package.into_iter().map(module).collect(), imports, &declared)
}

/// Pairs of packages in which the manifest of the first declares the second, as indices into `folders`.
fn declared_dependencies(tree: &SelectionTree<'_>, folders: &[&str]) -> Vec<(usize, usize)> {
    let mut renamed: HashMap<String, PackageRenames> = HashMap::new();
    let manifests: Vec<Vec<Manifest>> = folders
        .iter()
        .map(|folder| {
            let paths = MANIFESTS.iter().map(|name| join_path(folder, name));
            let paths = paths.filter(|path| tree.find(path).is_some());
            paths
                .filter_map(|path| Manifest::read(&path, &tree.text(&path)?))
                .collect()
        })
        .collect();
    let mut places: HashMap<(PackageEcosystem, &str), usize> = HashMap::new();
    for (at, manifest) in manifests
        .iter()
        .enumerate()
        .flat_map(|(at, list)| list.iter().map(move |one| (at, one)))
    {
        if let Some(name) = &manifest.name {
            places.entry((manifest.ecosystem, name)).or_insert(at);
        }
    }
    let mut pairs = BTreeSet::new();
    for (from, folder) in folders.iter().enumerate() {
        for manifest in &manifests[from] {
            for need in &manifest.needs {
                let inherited = need
                    .is_inherited
                    .then(|| inherited_name(tree, folder, &need.name, &mut renamed));
                let name = inherited.flatten().unwrap_or_else(|| need.name.clone());
                if let Some(to) = places
                    .get(&(manifest.ecosystem, name.as_str()))
                    .filter(|to| **to != from)
                {
                    pairs.insert((from, *to));
                }
            }
        }
    }
    pairs.into_iter().collect()
}

/// Packages that a workspace's manifest renames.
type PackageRenames = HashMap<String, String>;

/// The package that a dependency name means in the workspace above a folder, if it is renamed there.
fn inherited_name(
    tree: &SelectionTree<'_>,
    folder: &str,
    name: &str,
    known: &mut HashMap<String, PackageRenames>,
) -> Option<String> {
    let mut folder = folder;
    loop {
        let renames = known.entry(folder.to_owned()).or_insert_with(|| {
            let path = join_path(folder, "Cargo.toml");
            let text = tree.find(&path).and_then(|_| tree.text(&path));
            text.and_then(|text| Manifest::read(&path, &text))
                .map(|one| one.renames)
                .unwrap_or_default()
        });
        if let Some(package) = renames.get(name) {
            return Some(package.clone());
        }
        if folder.is_empty() {
            return None;
        }
        folder = parent_directory(folder);
    }
}

fn is_package(tree: &SelectionTree<'_>, folder: &str) -> bool {
    MANIFESTS
        .iter()
        .any(|name| tree.find(&join_path(folder, name)).is_some())
}

/// Keeps the largest modules, of equal ones those with most edges, and joins the rest if there are too many. `pairs`
/// are further edges, which are returned as indices into the result.
fn fold_modules(
    modules: Vec<SourceModule>,
    imports: &[(usize, usize)],
    pairs: &[(usize, usize)],
) -> (Vec<SourceModule>, Vec<(usize, usize)>) {
    let home = module_of_files(&modules);
    let degrees = count_edges(modules.len(), pairs_of(&home, imports).chain(pairs.iter().copied()));
    let mut order: Vec<usize> = (0..modules.len()).collect();
    let mut rest = Vec::new();
    if modules.len() > NODES_MAX {
        order.sort_by(|a, b| {
            let key = |at: usize| (modules[at].files.len(), degrees[at]);
            key(*b)
                .cmp(&key(*a))
                .then_with(|| modules[*a].name.cmp(&modules[*b].name))
        });
        rest = order.split_off(NODES_MAX - 1);
    }
    let mut folded: Vec<(SourceModule, Vec<usize>)> =
        order.into_iter().map(|at| (modules[at].clone(), vec![at])).collect();
    if !rest.is_empty() {
        let files = rest.iter().flat_map(|at| modules[*at].files.iter().copied()).collect();
        folded.push((SourceModule::new_closed(OTHERS.to_owned(), files), rest));
    }
    folded.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut place = vec![0; modules.len()];
    for (to, (_, from)) in folded.iter().enumerate() {
        from.iter().for_each(|at| place[*at] = to);
    }
    let pairs = pairs
        .iter()
        .map(|(from, to)| (place[*from], place[*to]))
        .filter(|(from, to)| from != to);
    let pairs = pairs.collect();
    (folded.into_iter().map(|(module, _)| module).collect(), pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_tree;

    /// The graph as lines: nodes with their files, then edges.
    fn drawn(files: &[(&str, &str)], directory: &str, by_package: bool) -> Vec<String> {
        with_tree(files, |tree| {
            let graph = draw_graph(tree, directory, by_package);
            let nodes = graph.nodes.iter().map(|node| format!("{} {}", node.name, node.files));
            let edges = graph
                .edges
                .iter()
                .map(|edge| format!("{} > {} {}", edge.from, edge.to, edge.imports));
            nodes.chain(edges).collect()
        })
    }

    #[test]
    fn a_small_project_is_drawn_file_by_file() {
        let files = [
            ("shop/__init__.py", "from .cart import Cart\n"),
            ("shop/cart.py", "from .store import sums\nfrom shop.store import db\n"),
            ("shop/store/sums.py", "x = 1\n"),
            ("shop/store/db.py", "from . import sums\n"),
            ("tests/test_cart.py", "from shop.cart import Cart\n"),
        ];
        assert_eq!(
            drawn(&files, "", false),
            [
                "shop/__init__.py 1",
                "shop/cart.py 1",
                "shop/store/db.py 1",
                "shop/store/sums.py 1",
                "shop/__init__.py > shop/cart.py 1",
                "shop/cart.py > shop/store/db.py 1",
                "shop/store/db.py > shop/store/sums.py 1",
                "shop/cart.py > shop/store/sums.py 1",
            ]
        );
        assert_eq!(drawn(&files, "tests", false), ["tests/test_cart.py 1"]);
        assert!(drawn(&files, "nothing", false).is_empty());
    }

    #[test]
    fn a_large_project_stays_folded_and_small() {
        let names: Vec<String> = (0..40).map(|at| format!("app/part{}/file{at}.py", at % 4)).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
        files.push((
            "app/main.py",
            "from app.part0 import file0\nfrom app.part3 import file3\n",
        ));
        let lines = drawn(&files, "", false);
        let (edges, nodes): (Vec<String>, Vec<String>) = lines.into_iter().partition(|line| line.contains('>'));
        assert_eq!(nodes.len(), 23, "{nodes:?}");
        // Of folders of one size, those with an edge are opened.
        for folded in ["app/part1/ 10", "app/part2/ 10"] {
            assert!(nodes.iter().any(|node| node == folded), "{nodes:?}");
        }
        assert_eq!(
            edges,
            [
                "app/main.py > app/part0/file0.py 1",
                "app/main.py > app/part3/file3.py 1"
            ]
        );
    }

    #[test]
    fn many_folders_side_by_side_leave_a_rest() {
        let names: Vec<String> = (0..60).map(|at| format!("m{at:02}/a.py")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
        let nodes = drawn(&files, "", false);
        assert_eq!((nodes.len(), nodes[0].as_str()), (25, "(others) 36"));
    }

    #[test]
    fn a_flat_folder_shows_its_most_connected_files_and_one_rest() {
        let named = |at: usize| format!("src/file{at:02}.js");
        let import = |at: usize| {
            if at < 30 {
                "import './file31';\nimport './file30';\n"
            } else {
                ""
            }
        };
        let names: Vec<String> = (0..40).map(named).collect();
        let mut files: Vec<(&str, &str)> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (&name[..], import(at)))
            .collect();
        files.push(("src/file39.js", "import './file31';\n"));
        files.extend([("scripts/one.js", ""), ("scripts/two.js", "")]);
        let lines = drawn(&files, "", false);
        let (edges, nodes): (Vec<String>, Vec<String>) = lines.into_iter().partition(|line| line.contains('>'));
        assert_eq!(nodes.len(), 25, "{nodes:?}");
        for shown in [
            "scripts/ 2",
            "src/* 17",
            "src/file20.js 1",
            "src/file30.js 1",
            "src/file31.js 1",
        ] {
            assert!(nodes.iter().any(|node| node == shown), "{shown}: {nodes:?}");
        }
        assert!(!nodes.iter().any(|node| node == "src/file39.js 1"), "{nodes:?}");
        assert_eq!(edges[..2], ["src/* > src/file31.js 10", "src/* > src/file30.js 9"]);
    }

    #[test]
    fn of_packages_of_one_size_those_with_edges_stay() {
        let names: Vec<(String, String, String)> = (0..40)
            .map(|at| {
                let folder = format!("packages/p{at:02}");
                let text = format!("{{\"name\":\"p{at:02}\",\"dependencies\":{{\"z\":\"1\"}}}}");
                (format!("{folder}/package.json"), format!("{folder}/index.js"), text)
            })
            .collect();
        let mut files = vec![
            ("packages/z/package.json", "{\"name\":\"z\"}"),
            ("packages/z/index.js", ""),
        ];
        for (manifest, source, text) in &names {
            files.extend([(&manifest[..], &text[..]), (&source[..], "")]);
        }
        let lines = drawn(&files, "", true);
        assert_eq!(lines.len(), 25 + 24, "{lines:?}");
        assert!(
            lines.contains(&"packages/z/ 1".to_owned()) && lines.contains(&"(others) 17".to_owned()),
            "{lines:?}"
        );
        assert!(lines.contains(&"packages/p00/ > packages/z/ 1".to_owned()), "{lines:?}");
    }

    #[test]
    fn packages_are_linked_by_what_their_manifests_declare() {
        let files = [
            (
                "Cargo.toml",
                "[workspace]\n[workspace.dependencies]\ndd = { path = \"d\", package = \"d\" }\n",
            ),
            (
                "a/Cargo.toml",
                "[package]\nname = \"a\"\n[dependencies]\nbb = { package = \"b\", path = \"../b\" }\ndd.workspace = true\n",
            ),
            ("a/src/main.rs", ""),
            ("b/Cargo.toml", "[package]\nname = \"b\"\n[features]\nc = []\n"),
            ("b/src/lib.rs", ""),
            ("c/Cargo.toml", "[package]\nname = \"c\"\n"),
            ("c/src/lib.rs", ""),
            ("d/Cargo.toml", "[package]\nname = \"d\"\n"),
            ("d/src/lib.rs", ""),
            (
                "e/package.json",
                "{\"name\": \"e\", \"scripts\": {\"c\": \"\"}, \"dependencies\": {\"a\": \"1\"}}",
            ),
            ("e/index.js", ""),
        ];
        assert_eq!(
            drawn(&files, "", true),
            ["a/ 1", "b/ 1", "c/ 1", "d/ 1", "e/ 1", "a/ > b/ 1", "a/ > d/ 1"]
        );
    }

    #[test]
    fn packages_hold_the_files_below_their_manifest() {
        let files = [
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/core/Cargo.toml", "[package]\nname = \"core-a\"\n"),
            ("crates/core/src/lib.rs", "mod deep;\npub struct A;\n"),
            ("crates/core/src/deep/mod.rs", "pub struct B;\n"),
            (
                "crates/cli/Cargo.toml",
                "[package]\nname = \"cli-a\"\n[dependencies]\ncore-a = { path = \"../core\" }\n",
            ),
            ("crates/cli/src/main.rs", "use core_a::A;\nfn main() {}\n"),
        ];
        assert_eq!(
            drawn(&files, "", true),
            ["crates/cli/ 1", "crates/core/ 2", "crates/cli/ > crates/core/ 1"]
        );
    }
}
