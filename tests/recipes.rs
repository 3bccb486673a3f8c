//! Tests of projects in other languages than Python and JavaScript, by the real binary in the real sandbox: cargo and
//! make, which this workspace is built with.

mod hostile;
mod leaving;
mod leaving_elsewhere;
mod refactors;
mod states;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tool_model_server::{Round, ScriptedCall};

use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder, holds};

const MANIFEST: &str = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
pub(crate) const SOURCE: &str = "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n";
const TESTS: &str = "#[test]\nfn adds() {\n    assert_eq!(shop::add(1, 2), 3);\n}\n";

pub(crate) fn cargo_project() -> tempfile::TempDir {
    folder(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", SOURCE),
        ("tests/api.rs", TESTS),
        (".gitignore", "target\n"),
    ])
}

/// Shows the toolchains to a command: its home is empty, and they lie in that of the user who runs the tests.
#[expect(clippy::disallowed_methods, reason = "the toolchain of the user who runs the tests")]
pub(crate) fn with_toolchains(command: &mut Command) {
    for (variable, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let usual = std::env::var_os("HOME").map(|home| Path::new(&home).join(place));
        let found = std::env::var_os(variable).map(std::path::PathBuf::from).or(usual);
        if let Some(found) = found.filter(|found| found.is_dir()) {
            command.env(variable, found);
        }
    }
}

fn tests_command(home: &Home, repository: &Path, further: &[&str]) -> Command {
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process"];
    let mut command = home.tool(repository, &[&call[..], further].concat());
    with_toolchains(&mut command);
    command
}

pub(crate) fn run_tests(home: &Home, repository: &Path, further: &[&str]) -> Finished {
    finish(
        tests_command(home, repository, further)
            .output()
            .expect("the binary starts"),
    )
}

/// Writes a file with an old time stamp, as an undo by another program may.
fn put_back(place: &Path, content: &str, modified: SystemTime) {
    std::fs::write(place, content).expect("it can be written");
    let file = std::fs::File::options().write(true).open(place).expect("it is there");
    file.set_modified(modified).expect("times can be set");
}

#[test]
fn an_undo_with_an_old_time_stamp_is_built_anew() {
    let home = Home::offline();
    let repository = cargo_project();
    let source = repository.path().join("src/lib.rs");
    let old = SystemTime::now() - Duration::from_secs(3600);
    put_back(&source, SOURCE, old);
    let passed = run_tests(&home, repository.path(), &[]).expect(0).stdout;
    holds(
        &passed,
        &["PASSED: 1 passed", "sandbox: namespaces", "runner: cargo (Cargo.toml)"],
    );
    std::fs::write(&source, SOURCE.replace("a + b", "a - b")).expect("it can be written");
    let failed = run_tests(&home, repository.path(), &[]).expect(1).stdout;
    holds(&failed, &["FAILED: 1 failed", "tests/api.rs::adds"]);
    put_back(&source, SOURCE, old);
    let undone = run_tests(&home, repository.path(), &[]).expect(0).stdout;
    holds(&undone, &["PASSED: 1 passed"]);
    assert!(
        !repository.path().join("target").exists(),
        "build output stays in the cache"
    );
    assert!(home.path().join("cache/builds").is_dir());
}

#[test]
fn the_first_report_of_a_repository_keeps_its_build_output() {
    let home = Home::offline();
    let repository = cargo_project();
    run_tests(&home, repository.path(), &[]).expect(0);
    home.run(repository.path(), &["explain", "."]).expect(0);
    assert!(repository.path().join("session-reports/session_latest.md").exists());
    run_tests(&home, repository.path(), &[]).expect(0);
    let caches = std::fs::read_dir(home.path().join("cache/builds")).expect("output is kept");
    assert_eq!(caches.count(), 1);
}

#[test]
fn an_untrusted_session_leaves_no_build_output_to_others() {
    let home = Home::offline();
    let repository = cargo_project();
    let passed = run_tests(&home, repository.path(), &["--untrusted"]).expect(0).stdout;
    holds(&passed, &["PASSED: 1 passed"]);
    assert!(!home.path().join("cache/builds").exists());
}

#[test]
fn a_refactor_without_the_toolchain_is_not_verified() {
    let repository = folder(&[("go.mod", "module shop\n"), ("shop.go", "package shop\n")]);
    let empty = tempfile::tempdir().expect("a folder");
    let rounds = || {
        let write = ScriptedCall::new("write_file", json!({"path": "new.go", "content": "package shop\n"}));
        [Round::calls([write]), Round::text("Added.")]
    };
    let (_server, home) = scripted(rounds());
    let refactor = ["refactor", "tidy up"];
    let mut command = home.tool(repository.path(), &refactor);
    command.env("PATH", empty.path());
    let finished = finish(command.output().expect("it starts")).expect(1);
    holds(&finished.stdout, &["- Not verified: "]);
    holds(&finished.stderr, &["refactor is not verified: ", "--unverified"]);
    let (_server, home) = scripted(rounds());
    std::fs::remove_file(repository.path().join("new.go")).expect("it was written");
    let mut command = home.tool(repository.path(), &["refactor", "tidy up", "--unverified"]);
    command.env("PATH", empty.path());
    finish(command.output().expect("it starts")).expect(0);
}

#[test]
fn the_users_own_command_decides_and_nothing_of_it_is_expanded() {
    let home = Home::offline();
    let repository = folder(&[("Makefile", "test:\n\tfalse\nown:\n\techo own-target-ran\n")]);
    holds(
        &run_tests(&home, repository.path(), &[]).expect(1).stdout,
        &["FAILED: exit status 2", "the target `test` in Makefile"],
    );
    let mut command = home.tool(
        repository.path(),
        &["skill", "call", "run_tests", "{}", "--allow", "run-process"],
    );
    command.env("TOOL_TEST_COMMAND", "make own");
    let own = finish(command.output().expect("it starts")).expect(0).stdout;
    holds(
        &own,
        &["PASSED: exit status 0", "the user's own command", "own-target-ran"],
    );
}

#[test]
fn a_monorepo_lists_the_command_of_each_package_and_what_runs_for_a_path() {
    let home = Home::offline();
    let package = |script: &str| format!("{{\"type\": \"module\", \"scripts\": {{\"test\": \"{script}\"}}}}\n");
    let (idle, root, own) = (
        package("echo root"),
        package("node --test test"),
        package("node --test"),
    );
    let test = "import test from 'node:test';\ntest('one', () => {});\n";
    let files = |root| {
        folder(&[
            ("package.json", root),
            ("packages/cart/package.json", &own),
            ("packages/cart/cart.test.js", test),
            ("packages/empty/package.json", &own),
        ])
    };
    let repository = files(&idle);
    let tests = |repository: &Path, arguments: &[&str]| home.run(repository, &[&["tests"], arguments].concat());
    let each = "tests   npm in packages/cart (`node --test`)\ntests   npm in packages/empty (`node --test`)\n";
    assert_eq!(
        tests(repository.path(), &[]).expect(0).stdout,
        each,
        "`echo` tests nothing"
    );
    let one = "tests   npm in packages/cart (`node --test`)\n";
    let path = ["--path", "packages/cart/cart.test.js"];
    assert_eq!(tests(repository.path(), &path).expect(0).stdout, one);
    let run_in = |package: &str| {
        let paths = format!("{{\"paths\": [\"packages/{package}\"]}}");
        let call = ["skill", "call", "run_tests", &paths, "--allow", "run-process"];
        let mut command = home.tool(repository.path(), &call);
        with_toolchains(&mut command);
        finish(command.output().expect("the binary starts"))
    };
    holds(
        &run_in("cart").expect(0).stdout,
        &["PASSED: 1 passed", "npm in packages/cart (`node --test`)"],
    );
    // The first test begins in a package that has none.
    let begun = run_in("empty").expect(0).stdout;
    holds(&begun, &["NO TESTS RAN in ", "npm in packages/empty (`node --test`)"]);
    let alone = folder(&[("package.json", &idle)]);
    holds(
        &run_tests(&home, alone.path(), &[]).expect(1).stderr,
        &["no test suite found"],
    );
    let parts = "tests   npm (`node --test test`)\n\
                 tests   npm in packages/cart (`node --test`), for paths there\n\
                 tests   npm in packages/empty (`node --test`), for paths there\n";
    let repository = files(&root);
    assert_eq!(tests(repository.path(), &[]).expect(0).stdout, parts);
    assert_eq!(tests(repository.path(), &path).expect(0).stdout, one);
    holds(
        &tests(repository.path(), &["--path", "/"]).expect(2).stderr,
        &["is not in the repository"],
    );
}

#[test]
fn a_kept_command_decides_until_it_is_forgotten() {
    let home = Home::offline();
    let repository = folder(&[(
        "Makefile",
        "test:\n\tfalse\nown:\n\techo own-target-ran\nlint:\n\techo linted\n",
    )]);
    let tests = |arguments: &[&str]| home.run(repository.path(), &[&["tests"], arguments].concat());
    assert_eq!(
        tests(&[]).expect(0).stdout,
        "tests   make (the target `test` in Makefile)\nlint    make-lint (the target `lint` in Makefile)\n"
    );
    tests(&["set", "--", "make", "own"]).expect(0);
    tests(&["set", "--check", "lint", "--", "make", "own", "--silent"]).expect(0);
    assert_eq!(
        tests(&[]).expect(0).stdout,
        "tests   make own (the user's own command, by `tool tests set`)\n\
         lint    make own --silent (the user's own command, by `tool tests set`)\n"
    );
    holds(
        &run_tests(&home, repository.path(), &[]).expect(0).stdout,
        &["PASSED: exit status 0", "own-target-ran"],
    );
    tests(&["unset"]).expect(0);
    tests(&["unset", "--check", "lint"]).expect(0);
    holds(&tests(&["unset"]).expect(0).stderr, &["No command of your own"]);
    std::fs::write(
        home.path().join("config.toml"),
        "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n[tests]\ncommand = [\"make\", \"own\"]\n",
    )
    .expect("it can be written");
    holds(
        &tests(&["--json"]).expect(0).stdout,
        &["\"purpose\": \"tests\"", "in [tests] of config.toml", "make-lint"],
    );
    holds(
        &tests(&["set", "--results", "xml", "--", "make"]).expect(2).stderr,
        &["`xml` is no result format"],
    );
}

#[test]
fn a_program_that_many_manifests_lack_is_named_once() {
    let home = Home::offline();
    let repository = folder(&[("a/go.mod", "module a\n"), ("b/go.mod", "module b\n")]);
    let mut command = home.tool(repository.path(), &["tests"]);
    command.env("PATH", "/nonexistent");
    let finished = finish(command.output().expect("it starts")).expect(0);
    assert_eq!(finished.stdout.matches("tests   go in ").count(), 2, "{finished:?}");
    assert_eq!(
        finished
            .stdout
            .matches("go was not found on the PATH: install Go")
            .count(),
        1,
        "{finished:?}"
    );
}

#[test]
fn a_check_runs_in_place_of_the_tests() {
    let home = Home::offline();
    let repository = folder(&[("Makefile", "test:\n\tfalse\nlint:\n\techo 'line 3: too long'; exit 4\n")]);
    let lint = [
        "skill",
        "call",
        "run_tests",
        "{\"check\": \"lint\"}",
        "--allow",
        "run-process",
    ];
    let finished = home.run(repository.path(), &lint).expect(1);
    holds(
        &finished.stdout,
        &[
            "FAILED: exit status 2",
            "runner: make-lint (the target `lint` in Makefile)",
            "line 3: too long",
        ],
    );
    let types = [
        "skill",
        "call",
        "run_tests",
        "{\"check\": \"types\"}",
        "--allow",
        "run-process",
    ];
    let finished = home.run(repository.path(), &types).expect(1);
    holds(
        &finished.stderr,
        &["no check `types` found", "tool tests set --check types -- COMMAND"],
    );
}

#[test]
fn the_build_cache_is_deleted_with_a_word_about_its_size() {
    let home = Home::offline();
    let repository = cargo_project();
    run_tests(&home, repository.path(), &[]).expect(0);
    let clean = || home.run(repository.path(), &["tests", "clean"]).expect(0).stdout;
    let said = clean();
    assert!(
        said.starts_with("freed ") && !said.starts_with("freed 0.0 ") && said.ends_with(" of build output\n"),
        "{said}"
    );
    assert_eq!(clean(), "freed 0.0 MB of build output\n");
    holds(
        &run_tests(&home, repository.path(), &[]).expect(0).stdout,
        &["PASSED: 1 passed"],
    );
}
