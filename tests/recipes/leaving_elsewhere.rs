//! The same for Go, CMake, Maven and npm: test code leaves something behind in twenty ways, and no later verdict rests on
//! any of it.

use std::path::Path;
use std::time::SystemTime;

use serde_json::json;
use tool_model_server::Round;

use super::leaving::{caches, call, commit, kept};
use super::refactors::{GO, JAVA, JAVASCRIPT, Project};
use super::states;
use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder, full, git, holds};

/// Ways to leave something behind, each a line of a shell script. `$OUT` is where build output lies, and `$1` the source.
const WAYS: [&str; 14] = [
    // Sources that are older than any output.
    r#"touch -d @1 "$1""#,
    // Stamps and results of an earlier run.
    r#"for folder in $OUT; do mkdir -p $folder/Testing $folder/.stamp && echo forged >$folder/Testing/LastTest.log; done"#,
    r#"for folder in $OUT; do echo forged >$folder/.ninja_log && echo forged >$folder/CMakeCache.txt; done"#,
    // Settings and programs of the runners, in the repository and in the home.
    r#"echo GOFLAGS=-run=none >go.env; echo forged >.npmrc; echo '{"scripts": {"test": "true"}}' >package.json"#,
    r#"mkdir -p .mvn node_modules/.bin node_modules/.cache .venv/bin obj _build .gradle; echo -DskipTests >.mvn/maven.config"#,
    r#"for tool in .venv/bin/python node_modules/.bin/node mvnw obj/run; do printf '#!/bin/sh\n' >$tool; chmod +x $tool; done"#,
    r#"mkdir -p ~/.config/go ~/.m2/repository ~/.npm ~/.cmake; echo GOFLAGS=-run=none >~/.config/go/env; echo forged >~/.npmrc"#,
    // A process that goes on after the run.
    r#"(setsid sh -c 'while :; do for folder in $OUT; do echo forged >$folder/late; done; sleep 1; done' >/dev/null 2>&1 &)"#,
    // Everything that was built is replaced by a program that does well, and is newer than every source.
    r##"find $OUT -type f -exec sh -c 'rm -f "$@"; for f; do printf "#!/bin/sh\nexit 0\n" >$f; done; chmod 755 "$@"' sh {} +"##,
    r#"find $OUT -depth ! -type l -exec touch -h -d @4000000000 {} +"#,
    // Output that leads elsewhere, has a second name, or cannot be read or counted by the host.
    r#"for folder in $OUT; do ln -sfn /tmp $folder/link && mkfifo $folder/pipe; done"#,
    r#"for folder in $OUT; do echo forged >$folder/one && ln $folder/one $folder/two; done"#,
    r#"for folder in $OUT; do mkdir -p $folder/closed && echo forged >$folder/closed/file && chmod 0300 $folder/closed; done"#,
    r#"n=$(printf 'd%.0s' $(seq 200)); (cd ${OUT%% *}; for i in $(seq 25); do mkdir $n && cd -P $n; done; echo forged >file)"#,
];

/// A suite, and the test in it that tries all the ways.
struct Suite {
    project: &'static Project,
    /// Files beside those of the project.
    files: &'static [(&'static str, &'static str)],
    /// Folders of build output, in the words of a shell.
    output: &'static str,
    /// True where a build from nothing takes long.
    is_slow: bool,
    /// Six further ways.
    ways: [&'static str; 6],
}

const CMAKE: Project = Project::new(
    &[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.10)\nproject(shop C)\nenable_testing()\nadd_executable(check check.c add.c)\n\
             add_test(NAME adds COMMAND check)\n\
             add_test(NAME leaves COMMAND sh leave.sh add.c WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})\n",
        ),
        ("add.c", "int add(int a, int b)\n{\n    return a + b;\n}\n"),
        (
            "check.c",
            "int add(int, int);\nint main(void)\n{\n    return add(1, 2) != 3;\n}\n",
        ),
    ],
    "add.c",
    "`adds` fails now and did not before",
);

const SUITES: [Suite; 4] = [
    Suite {
        project: &GO,
        files: &[(
            "leave_test.go",
            "package shop\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestLeaves(t *testing.T) {\n\t\
             if said, err := exec.Command(\"/bin/sh\", \"leave.sh\", \"shop.go\").CombinedOutput(); err != nil {\n\t\t\
             t.Fatalf(\"%v: %s\", err, said)\n\t}\n}\n",
        )],
        output: "${GOCACHE:-$HOME/.cache/go-build}",
        is_slow: true,
        ways: [
            r#"ls $OUT/*/*-a >/dev/null"#,
            r#"for file in $OUT/*/*-a; do echo "v1 forged" >$file; done"#,
            r#"for file in $OUT/*/*-d; do echo forged >>$file; done"#,
            r#"mkdir -p $OUT/fuzz/shop && echo forged >$OUT/fuzz/shop/seed"#,
            r#"echo forged >$OUT/trim.txt; echo forged >$OUT/README"#,
            r#"printf 'go 1.21\nuse ./other\n' >go.work; mkdir -p vendor && echo '# forged' >vendor/modules.txt"#,
        ],
    },
    Suite {
        project: &CMAKE,
        files: &[],
        output: "$PWD/.tool-build",
        is_slow: false,
        ways: [
            r#"test -x $OUT/check"#,
            r#"printf 'add_test(adds "true")\n' >$OUT/CTestTestfile.cmake"#,
            r#"echo 'set(CTEST_CUSTOM_TESTS_IGNORE adds)' >$OUT/CTestCustom.cmake"#,
            r#"echo 'all:' >$OUT/Makefile; echo 'all:' >GNUmakefile"#,
            r#"find $OUT -name '*.o' -exec cp $OUT/Makefile {} ';'"#,
            r#"find $OUT -name 'depend*' -exec cp /dev/null {} ';'; echo '{"version": 3}' >CMakeUserPresets.json"#,
        ],
    },
    Suite {
        project: &JAVA,
        files: &[(
            "src/test/java/shop/LeaveTest.java",
            "package shop;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\n\npublic class LeaveTest {\n    \
             @Test\n    public void leaves() throws Exception {\n        \
             Class.forName(\"shop.SumTest\");\n        Sum.add(1, 2);\n        String source = \"src/main/java/shop/Sum.java\";\n        \
             ProcessBuilder leave = new ProcessBuilder(\"/bin/sh\", \"leave.sh\", source);\n        \
             assertEquals(0, leave.inheritIO().start().waitFor());\n    }\n}\n",
        )],
        output: "$PWD/target/classes $PWD/target/test-classes $PWD/target/maven-status",
        is_slow: true,
        ways: [
            r#"test -s target/classes/shop/Sum.class"#,
            r#"cp target/classes/shop/Sum.class target/test-classes/shop/Sum.class"#,
            r#"find target/maven-status -name '*.lst' -exec cp /dev/null {} ';'"#,
            r#"mkdir -p target/generated-sources target/classes/META-INF/services && echo forged >target/classes/META-INF/services/x"#,
            r#"mkdir -p target/surefire-reports && echo '<testsuite tests="9"/>' >target/surefire-reports/TEST-forged.xml"#,
            r#"echo 'runOrder=none' >target/classes/junit-platform.properties; echo forged >.surefire-1"#,
        ],
    },
    Suite {
        project: &JAVASCRIPT,
        files: &[(
            "test/leave.test.js",
            "import test from 'node:test';\nimport { execFileSync } from 'node:child_process';\n\
             test('leaves', () => execFileSync('/bin/sh', ['leave.sh', 'src/add.js']));\n",
        )],
        output: "$PWD/node_modules",
        is_slow: false,
        ways: [
            r#"mkdir -p node_modules/.cache/babel node_modules/.vite && echo forged >node_modules/.cache/babel/add.js"#,
            r#"mkdir -p node_modules/node:test && echo 'export default () => {}' >node_modules/node:test/index.js"#,
            r#"echo 'export function add() { return 3; }' >src/index.js"#,
            r#"echo 'process.exit(0)' >test/first.test.js; echo '{}' >.nycrc"#,
            r#"echo --test-only >node.config.json; echo 'node-options=--test-only' >>.npmrc"#,
            r#"echo '{"lockfileVersion": 3}' >package-lock.json; echo forged >node_modules/.package-lock.json"#,
        ],
    },
];

impl Suite {
    fn script(&self) -> String {
        let lines: Vec<&str> = self.ways.iter().chain(&WAYS).copied().collect();
        format!(
            "set -eux\nexport OUT=\"{}\"\nmkdir -p $OUT\n{}\n",
            self.output,
            lines.join("\n")
        )
    }

    /// The project with that test, in a git repository of the user.
    fn repository(&self) -> tempfile::TempDir {
        let repository = folder(self.project.files);
        let root = repository.path();
        for (path, text) in self.files {
            std::fs::write(root.join(path), text).expect("it can be written");
        }
        std::fs::write(root.join("leave.sh"), self.script()).expect("it can be written");
        git(root, &["init", "--quiet", "--initial-branch=main"]);
        git(root, &["config", "user.email", "ada@example.org"]);
        commit(root, "begin");
        repository
    }

    fn tool(&self, home: &Home, root: &Path, arguments: &[&str]) -> Finished {
        let mut command = home.tool(root, arguments);
        self.project.toolchain.show(&mut command);
        finish(command.output().expect("the binary starts"))
    }

    fn run_tests(&self, home: &Home, root: &Path) -> Finished {
        self.tool(
            home,
            root,
            &["skill", "call", "run_tests", "{}", "--allow", "run-process"],
        )
    }

    /// A change by the model that breaks a test.
    fn breaks(&self) -> [Round; 3] {
        let edits = json!([{"old": self.project.old, "new": self.project.bad}]);
        [
            call("read_file", json!({"path": self.project.source})),
            call("write_file", json!({"path": self.project.source, "edits": edits})),
            Round::text("Simplified."),
        ]
    }

    fn check(&self) {
        let repository = self.repository();
        let root = repository.path();
        let again = format!("{}true\n", self.script());
        let writes = [
            call("read_file", json!({"path": "leave.sh"})),
            call("write_file", json!({"path": "leave.sh", "content": again})),
            call("run_tests", json!({})),
            call("run_tests", json!({})),
            Round::text("Left something."),
        ];
        let (_server, home) = scripted(writes.into_iter().chain(self.breaks()));
        let source = root.join(self.project.source);
        let text = std::fs::read_to_string(&source).expect("it is there");
        let fails_when_broken = || {
            let broken = text.replace(self.project.old, self.project.bad);
            std::fs::write(&source, broken).expect("it can be written");
            holds(&self.run_tests(&home, root).expect(1).stdout, &["FAILED: "]);
            std::fs::write(&source, &text).expect("it can be written");
        };
        // Over the user's own state.
        holds(&self.run_tests(&home, root).expect(0).stdout, &["PASSED: "]);
        check_nothing_is_forged(&home);
        fails_when_broken();
        // In a session.
        let session = self.tool(&home, root, &["refactor", "leave something"]).expect(0);
        holds(&session.stdout, &["Verified by tests"]);
        check_nothing_is_forged(&home);
        fails_when_broken();
        states::check(&home);
        self.tool(&home, root, &["undo"]).expect(0);
        assert_eq!(caches(&home), 0, "an undo drops what is kept");
        // On a branch of others. Each of these builds from nothing.
        if !self.is_slow || full() {
            git(root, &["checkout", "--quiet", "-b", "other"]);
            let by = ["-c", "user.name=Mallory", "-c", "user.email=mallory@example.net"];
            let other = ["commit", "--quiet", "--allow-empty", "-m", "other"];
            git(root, &[&by[..], &other].concat());
            self.run_tests(&home, root).expect(0);
            git(root, &["checkout", "--quiet", "main"]);
            let verified = ["refactor", "simplify", "--require-verified"];
            let judged = self.tool(&home, root, &verified).expect(1);
            holds(&judged.stdout, &[self.project.broken]);
        }
    }
}

fn check_nothing_is_forged(home: &Home) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_secs()).expect("it fits");
    for (path, (_, modified, content)) in kept(home) {
        let is_forged = content.starts_with(b"forged") || content.starts_with(b"#!/bin/sh\nexit 0");
        assert!(modified <= now && !is_forged, "{}", path.display());
    }
}

#[test]
fn no_test_code_of_go_decides_a_later_verdict() {
    SUITES[0].check();
}

#[test]
fn no_test_code_of_cmake_decides_a_later_verdict() {
    SUITES[1].check();
}

#[test]
fn no_test_code_of_maven_decides_a_later_verdict() {
    SUITES[2].check();
}

#[test]
fn no_test_code_of_npm_decides_a_later_verdict() {
    SUITES[3].check();
}
