//! The crates of the engine and their promises: the edges of `ARCHITECTURE.md` against `cargo metadata`, and modules
//! that do not import each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../ARCHITECTURE.md");

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

/// The normal dependencies of each crate below `host/` and of the command line, as cargo has them.
fn dependencies() -> Names {
    #[expect(clippy::disallowed_methods, reason = "the test asks cargo")]
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo answers in JSON");
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

/// The production code of a source: without comments, and without the modules that only tests compile.
fn production(text: &str) -> String {
    let comments = Regex::new(r"(?m)//.*$").expect("a constant");
    let tests = Regex::new(r"(?s)\n#\[cfg\((any\(|all\()?test[^\n]*\]\n(pub(\([a-z]+\))? )?mod \w+ \{.*?\n\}")
        .expect("a constant");
    tests.replace_all(&comments.replace_all(text, ""), "").into_owned()
}

/// The modules of a source that only tests and fuzzing compile.
fn test_modules(text: &str) -> BTreeSet<String> {
    let declared =
        Regex::new(r#"#\[cfg\((?:any\(|all\()?test[^\n]*\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod (\w+);"#)
            .expect("a constant");
    declared.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The first names of a list of imports such as `a, b::{c, d}`.
fn first_names(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut name) = (Vec::new(), 0, String::new());
    for character in list.chars().chain([',']) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut name)),
            _ if depth == 0 => name.push(character),
            _ => {}
        }
    }
    let first = |name: &String| name.trim().split([':', ' ']).next().unwrap_or_default().to_owned();
    names.iter().map(first).collect()
}

/// The names that a source at this depth below `src` takes from the root of its crate.
fn taken_from_root(code: &str, depth: usize) -> Vec<String> {
    let above = vec!["super"; depth].join("::");
    let pattern = format!(r"(?:^|[^\w:])(?:crate|{above})::(?:(\w+)|\{{([^;]*?)\}};)");
    let found = Regex::new(&pattern).expect("a pattern");
    let names = found
        .captures_iter(code)
        .flat_map(|found| match (found.get(1), found.get(2)) {
            (Some(name), _) => vec![name.as_str().to_owned()],
            (None, Some(list)) => first_names(list.as_str()),
            (None, None) => Vec::new(),
        });
    names.collect()
}

/// Adds the imports of one module and of its children to the graph.
fn add_imports(file: &Path, top: &str, depth: usize, tops: &BTreeSet<String>, graph: &mut Names) {
    let text = fs::read_to_string(file).expect("a source is text");
    let names = taken_from_root(&production(&text), depth);
    let taken = names.into_iter().filter(|name| tops.contains(name) && name != top);
    graph.entry(top.to_owned()).or_default().extend(taken);
    let children = file.with_extension("");
    let hidden = test_modules(&text);
    let entries = fs::read_dir(&children).into_iter().flatten();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && !hidden.contains(&stem) {
            add_imports(&path, top, depth + 1, tops, graph);
        }
    }
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

/// The cycles between the top-level modules of a crate.
fn cycles_of(source: &Path) -> BTreeSet<Vec<String>> {
    let library = fs::read_to_string(source.join("lib.rs")).expect("every crate has one");
    let hidden = test_modules(&library);
    let files = fs::read_dir(source).expect("the folder is there");
    let files: BTreeMap<String, PathBuf> = files
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .filter(|(name, _)| name != "lib" && !hidden.contains(name))
        .collect();
    let tops: BTreeSet<String> = files.keys().cloned().collect();
    let mut graph = Names::new();
    for (name, file) in &files {
        add_imports(file, name, 1, &tops, &mut graph);
    }
    find_cycles(&graph)
}

#[test]
fn no_modules_import_each_other_in_a_cycle() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("host")).expect("the folder is there") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        found.extend(
            cycles_of(&folder.join("src"))
                .into_iter()
                .map(|cycle| (name.clone(), cycle)),
        );
    }
    assert_eq!(found, BTreeSet::new());
}

#[test]
fn a_cycle_is_found_through_groups_and_relative_paths() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("it has one")).expect("folders can be made");
        fs::write(file, text).expect("the folder is writable");
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\n#[cfg(test)]\nmod tests;\n");
    write("a.rs", "use crate::{\n    other::X,\n    b::{self, Y},\n};\n");
    write("b.rs", "mod inner;\n");
    write("b/inner.rs", "use super::super::c;\n");
    write(
        "c.rs",
        "// use super::b;\nfn f() { super::a::g() }\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n",
    );
    write("tests.rs", "use crate::a;\n");
    assert_eq!(
        cycles_of(folder.path()),
        BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()])
    );
    write("c.rs", "// use super::a;\n");
    assert_eq!(cycles_of(folder.path()), BTreeSet::new());
}
