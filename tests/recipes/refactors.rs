//! `refactor` with a scripted model in several languages: a change that keeps the tests, one that breaks one, and undo.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tool_model_server::{Round, ScriptedCall};

use super::with_toolchains;
use crate::providers::scripted;
use crate::support::{Home, finish, fixture_path, folder, holds, node_program};

/// A project and a change of it.
pub(super) struct Project {
    /// Programs that come before those of the machine.
    pub(super) toolchain: Toolchain,
    pub(super) files: &'static [(&'static str, &'static str)],
    /// File that the model changes.
    pub(super) source: &'static str,
    pub(super) old: &'static str,
    /// Text that keeps the tests.
    good: &'static str,
    /// Text that breaks one.
    pub(super) bad: &'static str,
    /// Name of that test, as the runner has it.
    pub(super) broken: &'static str,
}

const RUST: Project = Project {
    toolchain: Toolchain::Machine,
    files: &[
        ("Cargo.toml", super::MANIFEST),
        ("src/lib.rs", super::SOURCE),
        ("tests/api.rs", super::TESTS),
        (".gitignore", "target\n"),
    ],
    source: "src/lib.rs",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "tests/api.rs::adds",
};

const C: Project = Project {
    toolchain: Toolchain::Machine,
    files: &[
        (
            "Makefile",
            "test: check.c add.c\n\tcc -o check check.c add.c && ./check\n",
        ),
        ("add.c", "int add(int a, int b)\n{\n    return a + b;\n}\n"),
        (
            "check.c",
            "#include <stdio.h>\nint add(int, int);\nint main(void)\n{\n    puts(\"adds\");\n    return add(1, 2) != 3;\n}\n",
        ),
    ],
    source: "add.c",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "the run passed before and fails now",
};

impl Project {
    /// One whose `source` adds two numbers, for the programs of the machine.
    pub(super) const fn new(
        files: &'static [(&'static str, &'static str)],
        source: &'static str,
        broken: &'static str,
    ) -> Self {
        Self {
            toolchain: Toolchain::Machine,
            files,
            source,
            old: "a + b",
            good: "b + a",
            bad: "a - b",
            broken,
        }
    }
}

/// Programs of a fixture, or those of the machine.
#[derive(Clone, Copy)]
pub(super) enum Toolchain {
    Machine,
    /// The pinned Go: Debian's is too old for current `go.mod` files.
    Go,
    /// The pinned Node: it runs TypeScript as it is.
    Node,
}

impl Toolchain {
    /// Shows its programs and those of the machine to a command.
    pub(super) fn show(self, command: &mut Command) {
        with_toolchains(command);
        let Some(programs) = self.programs() else { return };
        let path = command
            .get_envs()
            .find(|(name, _)| *name == "PATH")
            .and_then(|(_, value)| value);
        let path = path.expect("the command has one").to_owned();
        let folders = std::iter::once(programs).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).expect("no folder has a colon"));
    }

    /// Folder of the programs.
    fn programs(self) -> Option<PathBuf> {
        match self {
            Self::Machine => None,
            Self::Go => Some(fixture_path("go").join(".venv/bin")),
            Self::Node => {
                let node = node_program();
                Some(node.parent().expect("it lies in a folder").to_owned())
            }
        }
    }
}

/// Debian's Maven works offline with the repository that its packages fill.
pub(super) const JAVA: Project = Project {
    toolchain: Toolchain::Machine,
    files: &[
        (
            "pom.xml",
            "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>shop</groupId>\n  <artifactId>shop</artifactId>\n  \
             <version>1</version>\n  <properties>\n    <maven.compiler.source>8</maven.compiler.source>\n    \
             <maven.compiler.target>8</maven.compiler.target>\n    \
             <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>\n  </properties>\n  <dependencies>\n    \
             <dependency>\n      <groupId>junit</groupId>\n      <artifactId>junit</artifactId>\n      \
             <version>4.x</version>\n      <scope>test</scope>\n    </dependency>\n  </dependencies>\n</project>\n",
        ),
        // Not every machine has Debian's settings for this.
        (".mvn/maven.config", "-s.mvn/offline.xml\n"),
        (
            ".mvn/offline.xml",
            "<settings>\n  <localRepository>/usr/share/maven-repo</localRepository>\n  <offline>true</offline>\n</settings>\n",
        ),
        (".gitignore", "target\n"),
        (
            "src/main/java/shop/Sum.java",
            "package shop;\n\npublic class Sum {\n    public static int add(int a, int b) {\n        return a + b;\n    }\n}\n",
        ),
        (
            "src/test/java/shop/SumTest.java",
            "package shop;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\n\npublic class SumTest {\n    \
             @Test\n    public void adds() {\n        assertEquals(3, Sum.add(1, 2));\n    }\n\n    \
             @Test\n    public void startsAtNothing() {\n        assertEquals(0, Sum.add(0, 0));\n    }\n}\n",
        ),
    ],
    source: "src/main/java/shop/Sum.java",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "`shop.SumTest::adds` fails now and did not before",
};

pub(super) const JAVASCRIPT: Project = Project {
    toolchain: Toolchain::Machine,
    files: &[
        (
            "package.json",
            "{\"type\": \"module\", \"scripts\": {\"test\": \"node --test\"}}\n",
        ),
        ("src/add.js", "export function add(a, b) {\n  return a + b;\n}\n"),
        (
            "test/add.test.js",
            "import test from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../src/add.js';\n\
             test('adds', () => assert.equal(add(1, 2), 3));\n",
        ),
    ],
    source: "src/add.js",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "`adds` fails now and did not before",
};

const TYPESCRIPT: Project = Project {
    toolchain: Toolchain::Node,
    files: &[
        (
            "package.json",
            "{\"type\": \"module\", \"scripts\": {\"test\": \"node --test test/*.test.ts\"}}\n",
        ),
        (
            "src/add.ts",
            "export function add(a: number, b: number): number {\n  return a + b;\n}\n",
        ),
        (
            "test/add.test.ts",
            "import test from 'node:test';\nimport assert from 'node:assert/strict';\nimport { add } from '../src/add.ts';\n\n\
             test('adds', () => assert.equal(add(1, 2), 3));\n\
             test('starts at nothing', () => assert.equal(add(0, 0), 0));\n",
        ),
    ],
    source: "src/add.ts",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "`adds` fails now and did not before",
};

pub(super) const GO: Project = Project {
    toolchain: Toolchain::Go,
    files: &[
        ("go.mod", "module shop\n\ngo 1.21\n"),
        (
            "shop.go",
            "package shop\n\n// Add adds two numbers.\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",
        ),
        (
            "shop_test.go",
            "package shop\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\t\
             t.Fatalf(\"got %d\", got)\n\t}\n}\n\nfunc TestStartsAtNothing(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\t\
             t.Fail()\n\t}\n}\n",
        ),
    ],
    source: "shop.go",
    old: "a + b",
    good: "b + a",
    bad: "a - b",
    broken: "`shop.TestAdds` fails now and did not before",
};

const LINTED: Project = Project {
    toolchain: Toolchain::Machine,
    files: &[
        ("Makefile", "test:\n\ttrue\nlint:\n\t! grep -n goto add.c\n"),
        ("add.c", "int add(int a)\n{\n    return a;\n}\n"),
    ],
    source: "add.c",
    old: "return a;",
    good: "return +a;",
    bad: "goto end; end: return a;",
    broken: "the check `lint`",
};

fn rounds(project: &Project, new: &str) -> [Round; 3] {
    let edits = json!([{"old": project.old, "new": new}]);
    [
        Round::calls([ScriptedCall::new("read_file", json!({"path": project.source}))]),
        Round::calls([ScriptedCall::new(
            "write_file",
            json!({"path": project.source, "edits": edits}),
        )]),
        Round::text("Done."),
    ]
}

fn refactor(home: &Home, repository: &Path, toolchain: Toolchain) -> Command {
    let mut command = home.tool(
        repository,
        &["refactor", "tidy up the addition", "--allow", "run-process"],
    );
    toolchain.show(&mut command);
    command
}

fn check(project: &Project) {
    check_verdict(project, "- Verified by tests");
}

fn check_verdict(project: &Project, verdict: &str) {
    let repository = folder(project.files);
    let source = repository.path().join(project.source);
    let original = std::fs::read_to_string(&source).expect("it is there");
    let changes = [rounds(project, project.good), rounds(project, project.bad)];
    let (_server, home) = scripted(changes.concat());
    let run = || {
        let mut command = refactor(&home, repository.path(), project.toolchain);
        finish(command.output().expect("it starts"))
    };
    holds(
        &run().expect(0).stdout,
        &[
            "- Tests before the change: PASSED: ",
            "- Tests after the change: PASSED: ",
            verdict,
        ],
    );
    home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(std::fs::read_to_string(&source).expect("it is there"), original);
    let broken = run().expect(1);
    holds(&broken.stdout, &["- The tests got worse: ", project.broken]);
    holds(&broken.stderr, &["refactor made the tests worse: "]);
    home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(std::fs::read_to_string(&source).expect("it is there"), original);
}

/// Without any program on the `PATH`.
fn check_without_toolchain(project: &Project, missing: &str) {
    let repository = folder(project.files);
    let (_server, home) = scripted(rounds(project, project.good));
    let mut command = refactor(&home, repository.path(), Toolchain::Machine);
    let empty = tempfile::tempdir().expect("a folder");
    command.env("PATH", empty.path());
    let finished = finish(command.output().expect("it starts")).expect(1);
    holds(&finished.stdout, &["- Not verified: ", missing]);
    holds(&finished.stderr, &["refactor is not verified: ", "--unverified"]);
}

#[test]
fn a_refactor_of_rust_is_verified_or_names_the_broken_test() {
    check(&RUST);
}

#[test]
fn a_refactor_of_c_is_verified_or_says_that_its_run_fails() {
    check_verdict(
        &C,
        "- Not verified by tests: the test runner exited with 0, and no test was counted\n",
    );
}

#[test]
fn a_refactor_of_java_is_verified_or_names_the_broken_test() {
    check(&JAVA);
}

#[test]
fn a_refactor_of_java_without_maven_is_not_verified() {
    check_without_toolchain(&JAVA, "mvn was not found on the PATH");
}

#[test]
fn a_refactor_of_javascript_is_verified_or_names_the_broken_test() {
    check(&JAVASCRIPT);
}

#[test]
fn a_refactor_of_typescript_is_verified_or_names_the_broken_test() {
    check(&TYPESCRIPT);
}

#[test]
fn a_refactor_of_typescript_without_npm_is_not_verified() {
    check_without_toolchain(&TYPESCRIPT, "npm was not found on the PATH");
}

#[test]
fn a_refactor_of_go_is_verified_or_names_the_broken_test() {
    check(&GO);
}

#[test]
fn a_check_that_was_clean_and_fails_is_named_with_exit_code_1() {
    let project = LINTED;
    let repository = folder(project.files);
    let (_server, home) = scripted(rounds(&project, project.bad));
    let finished = finish(
        refactor(&home, repository.path(), project.toolchain)
            .output()
            .expect("it starts"),
    )
    .expect(1);
    holds(
        &finished.stdout,
        &["- Check `lint`: passed before the change and fails now (FAILED: exit status 2 in "],
    );
    holds(&finished.stderr, &["refactor broke the checks `lint`", "tool undo"]);
    home.run(repository.path(), &["undo"]).expect(0);
    let (_server, home) = scripted(rounds(&project, project.good));
    let finished = finish(
        refactor(&home, repository.path(), project.toolchain)
            .output()
            .expect("it starts"),
    )
    .expect(0);
    holds(
        &finished.stdout,
        &["- Verified by the checks `lint`; the test runner exited with 0, and no test was counted\n"],
    );
}

#[test]
fn the_first_tests_see_nothing_of_a_change_that_the_model_makes_beside_them() {
    let project = Project {
        files: &[
            (
                "Makefile",
                "test:\n\tcp add.c first.c\n\tsleep 1\n\tcmp add.c first.c\n",
            ),
            ("add.c", "int add(int a, int b)\n{\n    return a + b;\n}\n"),
        ],
        ..C
    };
    let repository = folder(project.files);
    let (server, home) = scripted(rounds(&project, project.good));
    let mut command = refactor(&home, repository.path(), project.toolchain);
    let finished = finish(command.output().expect("it starts")).expect(0);
    holds(
        &finished.stdout,
        &[
            "- Tests before the change: PASSED: exit status 0 in ",
            "- Tests after the change: PASSED: exit status 0 in ",
        ],
    );
    let messages = |request: usize| server.requests()[request].body["messages"].to_string();
    assert!(!messages(0).contains("# Tests before any change"));
    holds(&messages(2), &["# Tests before any change"]);
}
