//! Every function that a component may import and every HTTP route stops with its caller.
//!
//! The names come from the contract's WIT, from that of WASI as wasmtime ships it, and from the description of the
//! routes. `stops.toml` names for each the tests that cancel it, or says why its work is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

/// The table.
const TABLE: &str = include_str!("stops.toml");

/// Interfaces that a component may import.
const COMPONENT: &str = include_str!("../../host/boundary/src/component.rs");

const CONTRACT: &str = include_str!("../../wit/skill.wit");

const ROUTES: &str = include_str!("../../host/daemon/src/http/openapi.json");

/// The functions of each interface of a WIT file, as `package/interface` and `resource.function`.
fn functions_of(wit: &str) -> BTreeMap<String, Vec<String>> {
    let pattern = |pattern: &str| Regex::new(pattern).expect("a constant");
    let package = pattern(r"^package ([a-z:-]+)");
    let block = pattern(r"^(\w+) %?([a-z0-9-]*)[^{]*\{");
    let function = pattern(r"^%?([a-z0-9-]+): (?:static )?(?:async )?func\b");
    let constructor = pattern(r"^constructor\(");
    let (mut name, mut open, mut functions) = (String::new(), Vec::new(), BTreeMap::<_, Vec<String>>::new());
    for line in wit.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(found) = package.captures(line) {
            name = found[1].to_owned();
        }
        let in_interface = matches!(open.first(), Some((kind, _)) if kind == "interface");
        let parts = open.iter().map(|(_, name): &(String, String)| name.as_str());
        let parts: Vec<&str> = parts.collect();
        let own = function.captures(line).map(|found| found[1].to_owned());
        let own = own.or_else(|| constructor.is_match(line).then(|| "constructor".to_owned()));
        if let Some(own) = own.filter(|_| in_interface) {
            let path: Vec<&str> = parts[1..].iter().copied().chain([own.as_str()]).collect();
            let of = functions.entry(format!("{name}/{}", parts[0])).or_default();
            of.push(path.join("."));
        }
        let opened = block.captures(line);
        for number in 0..line.matches('{').count() {
            let found = opened.as_ref().filter(|_| number == 0);
            open.push(found.map_or_else(Default::default, |found| (found[1].to_owned(), found[2].to_owned())));
        }
        for _ in line.matches('}') {
            open.pop();
        }
    }
    functions
}

/// The WIT files of WASI that the host's bindings are made of.
fn wasi() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Packages for other platforms need not be on this machine.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    #[expect(clippy::disallowed_methods, reason = "the test asks cargo")]
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--offline",
            "--format-version",
            "1",
            "--filter-platform",
            &platform,
        ])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("it says what there is");
    let packages = metadata["packages"].as_array().expect("a list");
    let package = packages.iter().find(|package| package["name"] == "wasmtime-wasi");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(manifest.expect("it is in the lock")).with_file_name("src/p2/wit/deps");
    let files = std::fs::read_dir(folder).expect("it comes with its WIT");
    files.map(|file| file.expect("it can be listed").path()).collect()
}

/// Every function that a component may import.
fn functions() -> BTreeSet<String> {
    let mut functions = functions_of(CONTRACT);
    for file in wasi() {
        functions.extend(functions_of(&std::fs::read_to_string(file).expect("WIT is text")));
    }
    let world = CONTRACT.split("world imports {").nth(1).expect("there is a world");
    let world = world.split('}').next().expect("it ends");
    let imports = Regex::new(r"import ([a-z-]+);").expect("a constant");
    let imports = imports
        .captures_iter(world)
        .map(|found| format!("tool:skill/{}", &found[1]));
    let wasi = Regex::new(r#""(wasi:[a-z-]+/[a-z-]+)""#).expect("a constant");
    let list = COMPONENT
        .split("const WASI")
        .nth(1)
        .and_then(|rest| rest.split("];").next());
    let wasi = wasi
        .captures_iter(list.expect("there is a list"))
        .map(|found| found[1].to_owned());
    let interfaces: Vec<String> = imports.chain(wasi).collect();
    assert!(interfaces.len() > 30, "{interfaces:?}");
    let of = |interface: String| {
        let functions = functions.get(&interface).cloned().unwrap_or_default();
        functions
            .into_iter()
            .map(move |function| format!("{interface}.{function}"))
    };
    interfaces.into_iter().flat_map(of).collect()
}

/// Every route but `/mcp`, which speaks a protocol of its own and calls skills.
fn routes() -> BTreeSet<String> {
    let description: Value = serde_json::from_str(ROUTES).expect("JSON");
    let paths = description["paths"].as_object().expect("there are routes");
    let of = |(path, methods): (&String, &Value)| {
        let methods: Vec<String> = methods.as_object().expect("methods").keys().cloned().collect();
        let path = path.clone();
        methods
            .into_iter()
            .map(move |method| format!("{} {path}", method.to_uppercase()))
    };
    paths.iter().flat_map(of).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().expect("a list");
    list.iter()
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

/// The names of all tests in the sources.
fn test_names() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let attribute = r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\n(?:\s*#\[(?s:.*?)\]\n|\s*//[^\n]*\n)*";
    let test = Regex::new(&format!(r"{attribute}\s*(?:async )?fn (?P<name>\w+)")).expect("a constant");
    let mut names = BTreeSet::new();
    for folder in ["cli/src", "host", "skills", "tests"] {
        for file in sources(&root.join(folder)) {
            let text = std::fs::read_to_string(&file).expect("a source is text");
            names.extend(test.captures_iter(&text).map(|found| found["name"].to_owned()));
        }
    }
    names
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .flat_map(|path| match path {
            path if path.is_dir() && !path.ends_with("fixtures") => sources(&path),
            path if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn every_host_function_and_every_route_stops() {
    let table: Value = toml::from_str(TABLE).expect("the table is TOML");
    let all: BTreeSet<String> = functions().into_iter().chain(routes()).collect();
    assert!(all.len() > 140, "{all:?}");
    let known_tests = test_names();
    let mut covered = BTreeSet::new();
    for (name, tests) in table["long"].as_object().expect("a part") {
        let tests = texts(tests);
        assert!(!tests.is_empty(), "{name} has no test");
        let known = tests.iter().all(|test| known_tests.contains(test));
        assert!(known, "{name}: one of {tests:?} does not exist");
        covered.insert(name.clone());
    }
    for (reason, names) in table["bounded"].as_object().expect("a part") {
        assert!(reason.len() > 10, "`{reason}` is no reason");
        for name in texts(names) {
            let is_group = name.ends_with(['/', '.']);
            let found: Vec<&String> = if is_group {
                all.iter().filter(|one| one.starts_with(&name)).collect()
            } else {
                all.get(&name).into_iter().collect()
            };
            assert!(!found.is_empty(), "nothing is called `{name}`");
            for one in found {
                assert!(covered.insert(one.clone()), "{one} stands in the table twice");
            }
        }
    }
    let missing: Vec<&String> = all.difference(&covered).collect();
    let gone: Vec<&String> = covered.difference(&all).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "tests/limits/stops.toml: without a row: {missing:?}; rows of nothing: {gone:?}"
    );
}

#[test]
fn functions_are_found_in_wit() {
    let wit = "package a:b@0.2.0;\n/// x: func();\ninterface c {\n  record r {\n    f: u8,\n  }\n  resource d {\n    \
               constructor(a: u8);\n    e: func() -> u8;\n    s: static func();\n  }\n  %list: func(\n    a: u8,\n  );\n}\n\
               world w {\n  export run: func();\n}\n";
    let found = functions_of(wit);
    let expected = ["d.constructor", "d.e", "d.s", "list"].map(str::to_owned).to_vec();
    assert_eq!(found, BTreeMap::from([("a:b/c".to_owned(), expected)]));
}
