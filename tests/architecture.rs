//! The crates of the engine and their promises: the edges of `ARCHITECTURE.md` against `cargo metadata`, modules that
//! do not import each other in a cycle, and profiles that share what they can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../ARCHITECTURE.md");

/// Files that import each other in cycles. It may only become smaller.
const FILES_IN_CYCLES: usize = 31;

/// Names by crate.
type Names = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of a table of the document by their first cell: the names in backticks of the cell in `column`.
fn table(heading: &str, column: usize) -> Names {
    let section = DOCUMENT.split(heading).nth(1).expect("the document has the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let first: BTreeSet<String> = names(cells[1]);
        (
            first.first().expect("a row begins with a name").clone(),
            names(cells[column]),
        )
    })
    .collect()
}

#[expect(clippy::disallowed_methods, reason = "the test asks cargo")]
fn ask_cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo answers in UTF-8")
}

/// The normal dependencies of each crate below `host/` and of the command line, as cargo has them.
fn dependencies() -> Names {
    let output = ask_cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&output).expect("cargo answers in JSON");
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let of_product = packages.filter(|package| {
        let manifest = package["manifest_path"].as_str().expect("a path");
        manifest.contains("/host/") || manifest.contains("/cli/")
    });
    of_product
        .map(|package| {
            let listed = package["dependencies"].as_array().expect("a list").iter();
            let normal = listed.filter(|dependency| dependency["kind"].is_null());
            let names = normal.map(|dependency| dependency["name"].as_str().expect("a name").to_owned());
            (package["name"].as_str().expect("a name").to_owned(), names.collect())
        })
        .collect()
}

/// Edges between crates that the table does not allow, and crates that it does not list.
fn find_forbidden_edges(allowed: &Names, actual: &Names) -> Vec<String> {
    let mut forbidden = Vec::new();
    for (name, dependencies) in actual {
        let Some(may) = allowed.get(name) else {
            forbidden.push(format!("{name} is not in the table"));
            continue;
        };
        let own = dependencies
            .iter()
            .filter(|dependency| actual.contains_key(*dependency));
        forbidden.extend(
            own.filter(|dependency| !may.contains(*dependency))
                .map(|dependency| format!("{name} -> {dependency}")),
        );
    }
    forbidden
}

#[test]
fn crates_depend_on_each_other_as_the_document_says() {
    let (allowed, actual) = (table("## Crates", 4), dependencies());
    assert_eq!(find_forbidden_edges(&allowed, &actual), Vec::<String>::new());
    assert_eq!(
        allowed.keys().collect::<Vec<_>>(),
        actual.keys().collect::<Vec<_>>(),
        "the table lists every crate"
    );
    let mut worse = actual;
    worse
        .get_mut("tool-core")
        .expect("it is a crate")
        .insert("tool-provider".to_owned());
    assert_eq!(find_forbidden_edges(&allowed, &worse), ["tool-core -> tool-provider"]);
}

#[test]
fn libraries_with_a_promise_are_used_by_the_crates_that_keep_it() {
    let actual = dependencies();
    for (library, users) in table("## Promises", 2) {
        let found: BTreeSet<String> = actual
            .iter()
            .filter(|(_, dependencies)| dependencies.contains(&library))
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(found, users, "`{library}`");
    }
}

#[test]
fn unsafe_code_is_forbidden_outside_of_the_sandboxes() {
    for name in dependencies().keys().filter(|name| *name != "cli") {
        let folder = name.strip_prefix("tool-").unwrap_or("daemon");
        let library = root().join("host").join(folder).join("src/lib.rs");
        let text = fs::read_to_string(library).expect("every crate has one");
        let is_sandbox = ["tool-sandbox", "tool-proof", "tool-boundary", "tool-skill"].contains(&name.as_str());
        assert_ne!(text.contains("#![forbid(unsafe_code)]"), is_sandbox, "{name}");
    }
}

// ---- modules ----

/// A pattern that is compiled once.
macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant"));
        &*PATTERN
    }};
}

/// The production code of a source: without comments, and without the modules that only tests compile.
fn production(text: &str) -> String {
    let comments = pattern!(r"(?m)//.*$");
    let tests = pattern!(r"(?s)\n#\[cfg\((any\(|all\()?test[^\n]*\]\n(pub(\([a-z]+\))? )?mod \w+ \{.*?\n\}");
    tests.replace_all(&comments.replace_all(text, ""), "").into_owned()
}

/// The modules of a source that only tests and fuzzing compile.
fn test_modules(text: &str) -> BTreeSet<String> {
    let declared =
        pattern!(r"#\[cfg\((?:any\(|all\()?test[^\n]*\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod (\w+);");
    declared.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The path of a module in its crate, without a segment for the root.
type Module = Vec<String>;

/// The production code of each file of a crate, by its module.
fn read_modules(source: &Path) -> BTreeMap<Module, String> {
    let declared = pattern!(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);");
    let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
    let root = roots
        .into_iter()
        .find(|file| file.exists())
        .expect("every crate has one");
    let (mut modules, mut open) = (BTreeMap::new(), vec![(root, Module::new())]);
    while let Some((file, module)) = open.pop() {
        let text = fs::read_to_string(&file).expect("a source is text");
        let (hidden, code) = (test_modules(&text), production(&text));
        for found in declared.captures_iter(&code) {
            let child = [module.as_slice(), &[found[1].to_owned()]].concat();
            let path = source.join(child.join("/")).with_extension("rs");
            if !hidden.contains(&found[1]) && path.exists() {
                open.push((path, child));
            }
        }
        modules.insert(module, code);
    }
    modules
}

/// Adds the paths of a list of imports such as `a, b::{c, d}`, each behind `prefix`.
fn expand_imports(prefix: &[String], list: &str, paths: &mut Vec<Module>) {
    let (mut depth, mut item) = (0, String::new());
    for character in list.chars().chain([',']) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if character != ',' || depth > 0 {
            item.push(character);
        } else if !item.trim().is_empty() {
            let (path, group) = item.split_once('{').unwrap_or((&item, ""));
            let names = path.trim().split("::").filter(|name| !name.is_empty());
            let path = prefix
                .iter()
                .cloned()
                .chain(names.map(str::to_owned))
                .collect::<Module>();
            match group.rsplit_once('}') {
                Some((inner, _)) => expand_imports(&path, inner, paths),
                None => paths.push(path),
            }
            item.clear();
        }
    }
}

/// The modules in other files that a module names by a path from the root, from above or through its children.
fn find_imports(module: &Module, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let above = |other: &Module| other[..other.len().saturating_sub(1)].to_vec();
    let named = pattern!(r"(?:^|[^\w:])(\w+)::((?:super::)*)((?:\w+::)*)(?:(\w+)|\{([^;]*?)\};)");
    let mut paths = Vec::new();
    for found in named.captures_iter(&modules[module]) {
        let child = [module.as_slice(), &[found[1].to_owned()]].concat();
        let mut base = match &found[1] {
            "crate" => Module::new(),
            "self" => module.clone(),
            "super" => above(module),
            _ if modules.contains_key(&child) => child,
            _ => continue,
        };
        base.truncate(base.len().saturating_sub(found[2].matches("super").count()));
        base.extend(found[3].split_terminator("::").map(str::to_owned));
        let list = found.get(4).or_else(|| found.get(5)).expect("one of both");
        expand_imports(&base, list.as_str(), &mut paths);
    }
    let file_of = |mut path: Module| {
        while !modules.contains_key(&path) {
            path.pop();
        }
        path
    };
    paths.into_iter().map(file_of).filter(|path| path != module).collect()
}

/// Which files of a crate import which, by `module::of::the::file`. What a file takes from one above it is not counted.
fn file_imports(modules: &BTreeMap<Module, String>) -> Names {
    let imports = modules.keys().map(|module| {
        let others = find_imports(module, modules);
        let others = others.iter().filter(|other| !module.starts_with(other));
        (module.join("::"), others.map(|other| other.join("::")).collect())
    });
    imports.collect()
}

/// Which top-level modules of a crate import which.
fn top_imports(modules: &BTreeMap<Module, String>) -> Names {
    let mut graph = Names::new();
    for module in modules.keys() {
        let Some(top) = module.first() else { continue };
        let others = find_imports(module, modules);
        let others = others
            .iter()
            .filter_map(|other| other.first())
            .filter(|other| *other != top);
        graph.entry(top.clone()).or_default().extend(others.cloned());
    }
    graph
}

/// The groups of modules that reach each other.
fn find_cycles(graph: &Names) -> BTreeSet<Vec<String>> {
    let reaches = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(name) = open.pop() {
            for next in graph.get(&name).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: Names = graph.keys().map(|name| (name.clone(), reaches(name))).collect();
    let in_cycle = |name: &&String| reached[*name].contains(*name);
    let group = |name: &String| {
        let others = reached[name]
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(name)));
        others.cloned().collect::<Vec<String>>()
    };
    graph.keys().filter(in_cycle).map(group).collect()
}

/// The cycles of a graph of each crate below `host/` and of the command line.
fn cycles_by_crate(graph: fn(&BTreeMap<Module, String>) -> Names) -> BTreeSet<(String, Vec<String>)> {
    let folders = fs::read_dir(root().join("host")).expect("the folder is there");
    let folders = folders
        .map(|entry| entry.expect("an entry").path())
        .chain([root().join("cli")]);
    let mut found = BTreeSet::new();
    for folder in folders {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let cycles = find_cycles(&graph(&read_modules(&folder.join("src"))));
        found.extend(cycles.into_iter().map(|cycle| (name.clone(), cycle)));
    }
    found
}

#[test]
fn no_modules_import_each_other_in_a_cycle() {
    assert_eq!(cycles_by_crate(top_imports), BTreeSet::new());
}

#[test]
fn no_more_files_import_each_other_in_cycles() {
    let found = cycles_by_crate(file_imports);
    let files: usize = found.iter().map(|(_, cycle)| cycle.len()).sum();
    assert!(files <= FILES_IN_CYCLES, "{files} files are in cycles: {found:#?}");
}

#[test]
fn a_cycle_is_found_through_groups_and_relative_paths() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("it has one")).expect("folders can be made");
        fs::write(file, text).expect("the folder is writable");
    };
    let cycles = |graph: fn(&BTreeMap<Module, String>) -> Names| find_cycles(&graph(&read_modules(folder.path())));
    let cycle = |names: &[&str]| BTreeSet::from([names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()]);
    write("lib.rs", "mod a;\nmod b;\nmod c;\n#[cfg(test)]\nmod tests;\n");
    write("a.rs", "use crate::{\n    other::X,\n    b::{self, Y},\n};\n");
    write("b.rs", "mod inner;\n");
    write("b/inner.rs", "use super::super::c;\n");
    write(
        "c.rs",
        "// use super::b;\nfn f() { super::a::g() }\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n",
    );
    write("tests.rs", "use crate::a;\n");
    assert_eq!(cycles(top_imports), cycle(&["a", "b", "c"]));
    // The parent takes nothing from its child, so the files are in no cycle.
    assert_eq!(cycles(file_imports), BTreeSet::new());
    write("b.rs", "mod inner;\nfn f() { inner::g() }\n");
    assert_eq!(cycles(file_imports), cycle(&["a", "b", "b::inner", "c"]));
    write("c.rs", "// use super::a;\n");
    assert_eq!(cycles(top_imports), BTreeSet::new());
    assert_eq!(cycles(file_imports), BTreeSet::new());
}

// ---- profiles ----

#[test]
fn running_and_testing_share_every_dependency() {
    let read = |name: &str| -> toml::Table {
        let text = fs::read_to_string(root().join(name)).expect("the file is there");
        text.parse().expect("it is TOML")
    };
    let profile = read("Cargo.toml")["profile"].clone();
    assert_eq!(
        profile["test"],
        "opt-level = 0".parse::<toml::Table>().expect("it is TOML").into()
    );
    let mut named = profile["dev"]["package"].as_table().expect("a table").clone();
    // `"*"` is every crate but those of the workspace, which must not have a level of their own.
    let others = named
        .remove("*")
        .expect("dependencies have a level that is not that of the workspace");
    assert_eq!(others["opt-level"], 0.into());
    let lock = read("Cargo.lock");
    let packages = lock["package"].as_array().expect("a list").iter();
    let dependencies: BTreeSet<&str> = packages
        .filter(|package| package.get("source").is_some())
        .filter_map(|package| package["name"].as_str())
        .collect();
    let unknown: Vec<&String> = named
        .keys()
        .filter(|name| !dependencies.contains(name.as_str()))
        .collect();
    assert_eq!(unknown, Vec::<&String>::new());
}

#[test]
fn what_the_product_uses_has_no_other_features_in_the_tests() {
    let compiled = |edges: &str| -> BTreeSet<String> {
        let command = format!("tree --workspace --edges {edges} --prefix none --format {{p}}:{{f}}");
        let listed = ask_cargo(&command.split(' ').collect::<Vec<_>>());
        listed
            .lines()
            .map(|line| line.trim_end_matches(" (*)").to_owned())
            .collect()
    };
    let (product, tests) = (compiled("normal,build"), compiled("normal,build,dev"));
    let others: Vec<&String> = product.difference(&tests).collect();
    assert_eq!(others, Vec::<&String>::new());
}
