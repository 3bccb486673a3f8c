//! `refactor` with a scripted model in several languages: a change that keeps the tests, one that breaks one, and undo.

use std::process::Command;

use serde_json::json;
use tool_model_server::{Round, ScriptedCall};

use super::with_toolchains;
use crate::providers::scripted;
use crate::support::{Home, finish, folder, holds};

/// A project and a change of it.
struct Project {
    files: &'static [(&'static str, &'static str)],
    /// File that the model changes.
    source: &'static str,
    old: &'static str,
    /// Text that keeps the tests.
    good: &'static str,
    /// Text that breaks one.
    bad: &'static str,
    /// Name of that test, as the runner has it.
    broken: &'static str,
}

const RUST: Project = Project {
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

/// Debian's Maven works offline with the repository that its packages fill.
const JAVA: Project = Project {
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
        (".mvn/maven.config", "-s/etc/maven/settings-debian.xml\n"),
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

const JAVASCRIPT: Project = Project {
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

const LINTED: Project = Project {
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

fn refactor(home: &Home, repository: &std::path::Path) -> Command {
    let mut command = home.tool(
        repository,
        &["refactor", "tidy up the addition", "--allow", "run-process"],
    );
    with_toolchains(&mut command);
    command
}

fn check(project: &Project) {
    let repository = folder(project.files);
    let source = repository.path().join(project.source);
    let original = std::fs::read_to_string(&source).expect("it is there");
    let (_server, home) = scripted(rounds(project, project.good));
    let finished = finish(refactor(&home, repository.path()).output().expect("it starts")).expect(0);
    holds(
        &finished.stdout,
        &[
            "- Tests before the change: PASSED: ",
            "- Tests after the change: PASSED: ",
            "- Verified by tests",
        ],
    );
    home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(std::fs::read_to_string(&source).expect("it is there"), original);
    let (_server, home) = scripted(rounds(project, project.bad));
    let finished = finish(refactor(&home, repository.path()).output().expect("it starts")).expect(1);
    holds(&finished.stdout, &["- The tests got worse: ", project.broken]);
    holds(&finished.stderr, &["refactor made the tests worse: "]);
    home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(std::fs::read_to_string(&source).expect("it is there"), original);
}

#[test]
fn a_refactor_of_rust_is_verified_or_names_the_broken_test() {
    check(&RUST);
}

#[test]
fn a_refactor_of_c_is_verified_or_says_that_its_run_fails() {
    check(&C);
}

#[test]
fn a_refactor_of_java_is_verified_or_names_the_broken_test() {
    check(&JAVA);
}

#[test]
fn a_refactor_of_java_without_maven_is_not_verified() {
    let repository = folder(JAVA.files);
    let (_server, home) = scripted(rounds(&JAVA, JAVA.good));
    let mut command = refactor(&home, repository.path());
    let empty = tempfile::tempdir().expect("a folder");
    command.env("PATH", empty.path());
    let finished = finish(command.output().expect("it starts")).expect(1);
    holds(&finished.stdout, &["- Not verified: ", "mvn was not found on the PATH"]);
    holds(&finished.stderr, &["refactor is not verified: ", "--unverified"]);
}

#[test]
fn a_refactor_of_javascript_is_verified_or_names_the_broken_test() {
    check(&JAVASCRIPT);
}

#[test]
fn a_check_that_was_clean_and_fails_is_named_with_exit_code_1() {
    let project = LINTED;
    let repository = folder(project.files);
    let (_server, home) = scripted(rounds(&project, project.bad));
    let finished = finish(refactor(&home, repository.path()).output().expect("it starts")).expect(1);
    holds(
        &finished.stdout,
        &["- Check `lint`: passed before the change and fails now (FAILED: exit status 2 in "],
    );
    holds(&finished.stderr, &["refactor broke the checks `lint`", "tool undo"]);
    home.run(repository.path(), &["undo"]).expect(0);
    let (_server, home) = scripted(rounds(&project, project.good));
    let finished = finish(refactor(&home, repository.path()).output().expect("it starts")).expect(0);
    holds(&finished.stdout, &["- Verified by tests and by the checks `lint`\n"]);
}
