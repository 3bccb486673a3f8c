//! The worlds of the contract name every import of the components that are built: `wasm-tools` says so, as an author
//! would ask it. `scripts/fixtures` fetches it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Finished, finish, fixture_path, guest, holds};

/// Guest that exports an interface of a version that does not exist.
const ODD: &str = "liar";

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")
}

#[expect(clippy::disallowed_methods, reason = "the test runs a tool of authors")]
fn wasm_tools(arguments: &[&str]) -> Finished {
    let program = fixture_path("wasm-tools/.venv/bin/wasm-tools");
    finish(Command::new(program).args(arguments).output().expect("it runs"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Checks that a component imports no more, and exports no less, than a world in the folder `wit` says.
fn check(wit: &Path, world: &str, component: &Path) -> Finished {
    let arguments = [
        "component",
        "targets",
        "--semver-compatible",
        text(wit),
        text(component),
        "-w",
        world,
    ];
    wasm_tools(&arguments)
}

#[track_caller]
fn assert_fits(wit: &Path, world: &str, component: &Path) {
    let checked = check(wit, world, component);
    assert_eq!(checked.code, 0, "{}: {}", component.display(), checked.stderr);
}

/// Checks a component of a project of `tool skill new`, where the contract is the package itself or one that it imports.
#[track_caller]
pub(crate) fn assert_is_skill(project: &Path, name: &str) {
    let wit = project.join("wit");
    let world = if wit.join("skill.wit").exists() {
        "skill"
    } else {
        "tool:skill/skill"
    };
    assert_fits(&wit, world, &project.join(format!("{name}.wasm")));
}

/// Components in a folder, by their names.
fn components(folder: &Path) -> Vec<(String, PathBuf)> {
    let files = std::fs::read_dir(folder).expect("it is there");
    let paths = files.map(|file| file.expect("it can be listed").path());
    let is_component = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wasm");
    let named = |path: PathBuf| {
        (
            path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path,
        )
    };
    paths.filter(is_component).map(named).collect()
}

#[test]
fn the_worlds_name_every_import_of_what_is_built() {
    let echo = guest("echo");
    let mut all = components(echo.parent().expect("it lies in a folder"));
    assert!(all.len() > 20, "{all:?}");
    all.extend(components(&fixture_path("skills")));
    for (name, component) in all.iter().filter(|(name, _)| name != ODD) {
        if name.starts_with("outline_") {
            assert_fits(&wit().join("symbols"), "symbols", component);
        } else {
            assert_fits(&wit(), "skill", component);
        }
    }
    for name in ["search_code", "find_references", "contract"] {
        assert_fits(&wit(), "sharded-skill", &guest(name));
    }
}

#[test]
fn an_import_that_the_world_does_not_name_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = folder.path().join("other.wasm");
    let component = std::fs::read(guest("toolbox")).expect("it is built");
    let text = component.utf8_chunks().map(|chunk| {
        let valid = chunk
            .valid()
            .replace("tool:skill/answer@1.0.0", "tool:skill/camera@1.0.0");
        [valid.as_bytes(), chunk.invalid()].concat()
    });
    std::fs::write(&other, text.collect::<Vec<_>>().concat()).expect("the folder is writable");
    holds(&check(&wit(), "skill", &other).expect(1).stderr, &["tool:skill/camera"]);
}

/// Nothing is fetched for it: each package that the contract imports lies in `wit/deps`.
#[test]
fn the_contract_is_a_package_by_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let package = folder.path().join("skill.wasm");
    wasm_tools(&["component", "wit", "--wasm", text(&wit()), "-o", text(&package)]).expect(0);
    let shown = wasm_tools(&["component", "wit", text(&package)]).expect(0).stdout;
    holds(
        &shown,
        &["package tool:skill@1.0.0;", "import wasi:http/outgoing-handler@0.2.12;"],
    );
}
