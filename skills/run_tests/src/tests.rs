use std::fs;

use skill_sdk::serde_json::Value;
use skill_sdk::testing::FakeHost;
use skill_sdk::{RunReport, SuiteCounts, SuiteFailure, SuiteResults, TestSuite};
use test_results::ResultFormat;

use super::*;

const PYTHON: (&str, &str, ResultFormat) = (
    "pytest",
    "[tool.pytest.ini_options] in pyproject.toml",
    ResultFormat::Pytest,
);
const NODE: (&str, &str, ResultFormat) = ("npm", "`node --test`", ResultFormat::Npm);

/// A run with the output of a recorded file, read as the host reads it.
struct RecordedRun {
    recipe: (&'static str, &'static str, ResultFormat),
    run: Option<RunReport>,
}

fn run(recipe: (&'static str, &'static str, ResultFormat), fixture: &str, exit_code: i32) -> RecordedRun {
    let place = format!("{}/../test_results/fixtures/{fixture}.txt", env!("CARGO_MANIFEST_DIR"));
    let report = RunReport {
        command: vec!["runner".to_owned()],
        exit_code: Some(exit_code),
        output: fs::read_to_string(place).expect("the fixture is there"),
        output_cut: false,
        duration_ms: 1234,
        timed_out: false,
        sandbox: "namespaces".to_owned(),
        ..RunReport::default()
    };
    RecordedRun {
        recipe,
        run: Some(report),
    }
}

fn suite_of(recorded: &RecordedRun) -> TestSuite {
    let (recipe, reason, format) = recorded.recipe;
    let report = recorded.run.clone().expect("it was set");
    let read = test_results::read_results(format, &report.output, &[]);
    let failure = |test: test_results::FailedTest| SuiteFailure {
        name: test.name,
        message: test.message,
        details: test.details,
    };
    TestSuite {
        recipe: recipe.to_owned(),
        directory: String::new(),
        reason: reason.to_owned(),
        outcome: Ok(SuiteResults {
            counts: read.counts.map(|counts| SuiteCounts {
                failed: counts.failed,
                errors: counts.errors,
                passed: counts.passed,
                skipped: counts.skipped,
                todo: counts.todo,
                xfailed: counts.xfailed,
                xpassed: counts.xpassed,
                deselected: counts.deselected,
                warnings: counts.warnings,
            }),
            failed: read.failed.into_iter().map(failure).collect(),
            failed_left_out: read.left_out as u64,
            notes: Vec::new(),
            report,
        }),
    }
}

fn call(recorded: &RecordedRun, arguments: Value) -> Result<Outcome, Failure> {
    let mut host = FakeHost::new::<&str, &str>(&[]);
    host.suites = Some(Ok(vec![suite_of(recorded)]));
    RunTests::call(&host, &arguments.to_string())
}

fn python(fixture: &str, exit_code: i32) -> String {
    call(&run(PYTHON, fixture, exit_code), json!({}))
        .expect("tests ran")
        .text
}

fn node(fixture: &str, exit_code: i32) -> String {
    call(&run(NODE, fixture, exit_code), json!({})).expect("tests ran").text
}

#[test]
fn pytest_passing() {
    insta::assert_snapshot!(python("pytest_passing", 0), @r"
        PASSED: 2 passed in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)
        ");
}

#[test]
fn details_have_the_counts_and_the_names_of_failing_tests() {
    let mut host = run(PYTHON, "pytest_passing", 1);
    let report = host.run.as_mut().expect("it was set");
    report.output =
        "= short test summary info =\nFAILED t.py::test_a - boom\n= 1 failed, 2 passed in 0.1s =\n".to_owned();
    let outcome = call(&host, json!({})).expect("tests ran");
    insta::assert_snapshot!(outcome.details.expect("it has some"), @r#"{"runner":"pytest","status":"failed","exit_code":1,"duration_ms":1234,"counts":{"failed":1,"errors":0,"passed":2,"skipped":0,"todo":0,"xfailed":0,"xpassed":0,"deselected":0,"warnings":0},"failing":["t.py::test_a"],"failing_left_out":0}"#);
}

#[test]
fn pytest_failing_tests_come_with_their_messages() {
    insta::assert_snapshot!(python("pytest_failing", 1), @r#"
        FAILED: 5 failed, 1 error, 5 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 warning in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        1. tests/test_calc.py::test_sub
           AssertionError: subtraction is - off
             tests/test_calc.py:8: in test_sub
                 assert 3 - 1 == 1, "subtraction is - off"
             E   assert (3 - 1) == 1

        2. tests/test_calc.py::test_param[x - y]
           AssertionError: assert 'x - y' == '[1]'
             tests/test_calc.py:12: in test_param
                 assert a == "[1]"
             E
             E     - [1]
             E     + x - y

        3. tests/test_calc.py::test_param[b\nc]
           AssertionError: assert 'b\nc' == '[1]'
             tests/test_calc.py:12: in test_param
                 assert a == "[1]"
             E
             E     - [1]
             E     + b
             E     + c

        4. tests/test_calc.py::TestStore::test_get
           KeyError: 'missing'
             tests/test_calc.py:17: in test_get
                 d["missing"]

        5. tests/test_calc.py::test_long
           AssertionError: assert {'a': [0, 1, ...xxxxxxxxxxxx'} == {'a': [0, 1, ...xxxxxxxxxxxx'}
             tests/test_calc.py:44: in test_long
                 assert left == right
             E
             E     Omitting 1 identical items, use -vv to show
             E     Differing items:
             E     {'a': [0, 1, 2, 3, 4, 5, ...]} != {'a': [0, 1, 2, 3, 4, 5, ...]}
             E     Use -v to get more diff

        6. tests/test_calc.py::test_uses_broken
           RuntimeError: no database
             tests/test_calc.py:29: in broken
                 raise RuntimeError("no database")
        "#);
}

#[test]
fn pytest_collection_errors() {
    insta::assert_snapshot!(python("pytest_collection", 2), @r#"
        FAILED: 2 errors in 1.2 s
        command: runner
        exit status 2; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        1. broken/test_import.py
           ModuleNotFoundError: No module named 'requests_that_is_missing'
             ImportError while importing test module '/srv/demo/broken/test_import.py'.
             broken/test_import.py:1: in <module>
                 import requests_that_is_missing

        2. broken/test_syntax.py
           SyntaxError: invalid syntax
             E     File "/srv/demo/broken/test_syntax.py", line 1
             E       def test_x(:
             E                  ^
        "#);
}

#[test]
fn pytest_unittest_with_subtests() {
    insta::assert_snapshot!(python("pytest_unit", 1), @r"
        FAILED: 2 failed in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        1. many/test_unit.py::T::test_a (i=1)
           AssertionError: 1 != 2
             many/test_unit.py:5: in test_a
                 self.assertEqual(1, 2)

        2. many/test_unit.py::T::test_b
           ModuleNotFoundError: No module named 'nothing_there'
             many/test_unit.py:7: in test_b
                 import nothing_there
        ");
}

#[test]
fn pytest_counts_a_test_with_failed_subtests_once() {
    insta::assert_snapshot!(python("pytest_subtests", 1), @r"
        FAILED: 2 failed, 1 passed in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        1. test_s.py::test_two [case] (i=1)
           assert 1 == 0
             test_s.py:4: in test_two
                 assert i == 0

        2. test_s.py::test_two [case] (i=2)
           assert 2 == 0
             test_s.py:4: in test_two
                 assert i == 0

        3. test_s.py::T::test_u (i=0)
           AssertionError: 0 != 5
             test_s.py:12: in test_u
                 self.assertEqual(i, 5)

        4. test_s.py::T::test_u (i=1)
           AssertionError: 1 != 5
             test_s.py:12: in test_u
                 self.assertEqual(i, 5)
        ");
}

#[test]
fn pytest_broken_conftest() {
    insta::assert_snapshot!(python("pytest_conftest", 4), @r"
        FAILED: 1 error in 1.2 s
        command: runner
        exit status 4; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        1. /srv/demo/conf/conftest.py
           ModuleNotFoundError: No module named 'absent_plugin'
             conf/conftest.py:1: in <module>
                 import absent_plugin
        ");
}

#[test]
fn pytest_without_tests() {
    insta::assert_snapshot!(python("pytest_none", 5), @r"
        FAILED: no tests ran in 1.2 s
        command: runner
        exit status 5; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)
        hint: no test was found there; list_files shows what exists

        output:
          ============================= test session starts ==============================
          platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
          rootdir: /srv/demo
          collected 0 items

          ============================ no tests ran in 0.00s =============================
        ");
    insta::assert_snapshot!(python("pytest_deselected", 5), @r"
        FAILED: no tests ran, 2 deselected in 1.2 s
        command: runner
        exit status 5; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)
        hint: the filter matches no test; leave it out to run all

        output:
          ============================= test session starts ==============================
          platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
          rootdir: /srv/demo
          collected 2 items / 2 deselected / 0 selected

          ============================ 2 deselected in 0.01s =============================
        ");
}

#[test]
fn pytest_usage_error_shows_its_words() {
    insta::assert_snapshot!(python("pytest_usage", 4), @r"
        FAILED: exit status 4 in 1.2 s
        command: runner
        exit status 4; sandbox: namespaces
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        output:
          ERROR: usage: python -m pytest [options] [file_or_dir] [file_or_dir] [...]
          python -m pytest: error: unrecognized arguments: --nope
            inifile: None
            rootdir: /srv/demo
        ");
}

#[test]
fn of_chained_errors_the_last_is_the_message() {
    let mut host = run(PYTHON, "pytest_failing", 1);
    host.run.as_mut().expect("it was set").output =
        "=== FAILURES ===\n___ test_a ___\nt.py:2: in f\n    d[1]\nE   KeyError: 1\n\nDuring handling of the above \
         exception, another exception occurred:\nt.py:9: in test_a\n    f()\nE   ValueError: no such row\n=== short test \
         summary info ===\nFAILED t.py::test_a - ValueError: no such...\n=== 1 failed in 0.10s ===\n"
            .to_owned();
    let text = call(&host, json!({})).expect("tests ran").text;
    assert!(text.contains("1. t.py::test_a\n   ValueError: no such row\n"), "{text}");
    assert!(text.contains("E   KeyError: 1"), "{text}");
}

#[test]
fn node_tap() {
    insta::assert_snapshot!(node("node_tap", 1), @r"
        FAILED: 3 failed, 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: npm (`node --test`)

        1. /srv/demo/test/load.test.js
           test failed
             at /srv/demo/test/load.test.js:1:1

        2. subtracts
           2 == 1
             at /srv/demo/test/math.test.js:5:1
             expected: 1
             actual: 2
             operator: ==

        3. store › gets
           Cannot read properties of undefined (reading 'x')
             at /srv/demo/test/math.test.js:7:3
        ");
    insta::assert_snapshot!(node("node_pass", 0), @r"
        PASSED: 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)
        ");
}

#[test]
fn node_spec() {
    insta::assert_snapshot!(node("node_spec", 1), @r"
        FAILED: 3 failed, 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: npm (`node --test`)

        1. /srv/demo/test/load.test.js
           test failed
             at test/load.test.js:1:1

        2. subtracts
           AssertionError [ERR_ASSERTION]: 2 == 1
             at test/math.test.js:5:1
                 at TestContext.<anonymous> (/srv/demo/test/math.test.js:5:32)
               generatedMessage: true,
               code: 'ERR_ASSERTION',
               actual: 2,
               expected: 1,
               operator: '=='
             }

        3. gets
           TypeError [Error]: Cannot read properties of undefined (reading 'x')
             at test/math.test.js:7:3
             at TestContext.<anonymous> (/srv/demo/test/math.test.js:7:28)
        ");
    insta::assert_snapshot!(node("node_spec_pass", 0), @r"
        PASSED: 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)
        ");
}

#[test]
fn jest() {
    insta::assert_snapshot!(node("jest", 1), @r"
        FAILED: 2 failed, 1 error, 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: npm (`node --test`)

        1. jest/a.test.js › store › gets
           expect(received).toBe(expected) // Object.is equality
             Expected: 3
             Received: 2

               1 | describe('store', () => {
             > 2 |   test('gets', () => { expect(1 + 1).toBe(3); });
                 |                                      ^
               3 |   test('puts', () => {});
               4 |   test.skip('skips', () => {});
               5 |   test.todo('later');

               at Object.toBe (jest/a.test.js:2:38)

        2. jest/a.test.js › throws
           TypeError: no x
               5 |   test.todo('later');
               6 | });
             > 7 | test('throws', () => { throw new TypeError('no x'); });
                 |                              ^
               8 |

               at Object.<anonymous> (jest/a.test.js:7:30)

        3. jest/b.test.js › Test suite failed to run
           Cannot find module 'missing-package' from 'jest/b.test.js'
             > 1 | const m = require('missing-package'); test('x', () => {});
                 |           ^
               2 |

               at Object.require (jest/b.test.js:1:11)
        ");
    insta::assert_snapshot!(node("jest_pass", 0), @r"
        PASSED: 1 passed in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)
        ");
}

#[test]
fn mocha() {
    insta::assert_snapshot!(node("mocha", 2), @r"
        FAILED: 2 failed, 1 passed, 2 skipped in 1.2 s
        command: runner
        exit status 2; sandbox: namespaces
        runner: npm (`node --test`)

        1. store › gets
           AssertionError [ERR_ASSERTION]: 2 == 3
             + expected - actual

             -2
             +3

             at Context.<anonymous> (mocha/a.js:3:29)

        2. store › inner › deep
           TypeError: no x
             at Context.<anonymous> (mocha/a.js:7:54)
        ");
    insta::assert_snapshot!(node("mocha_pass", 0), @r"
        PASSED: 1 passed in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)
        ");
}

#[test]
fn vitest() {
    insta::assert_snapshot!(node("vitest", 1), @r"
        FAILED: 2 failed, 1 error, 2 passed, 1 skipped, 1 todo in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: npm (`node --test`)

        1. vitest/b.test.js
           Error: Cannot find package 'missing-package' imported from /srv/demo/vitest/b.test.js
             ❯ vitest/b.test.js:1:1
                  1| import 'missing-package';
                   | ^
                  2|

        2. vitest/a.test.js > store > gets
           AssertionError: expected 2 to be 3 // Object.is equality
             - Expected
             + Received

             - 3
             + 2

              ❯ vitest/a.test.js:3:38
                   1| import { describe, test, expect } from 'vitest';
                   2| describe('store', () => {
                   3|   test('gets', () => { expect(1 + 1).toBe(3); });
                    |                                      ^
                   4|   test('puts', () => {});
                   5|   test.skip('skips', () => {});

        3. vitest/a.test.js > throws
           TypeError: no x
             ❯ vitest/a.test.js:8:30
                  6|   test.todo('later');
                  7| });
                  8| test('throws', () => { throw new TypeError('no x'); });
                   |                              ^
                  9|
        ");
    insta::assert_snapshot!(node("vitest_pass", 0), @r"
        PASSED: 1 passed in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)
        ");
}

#[test]
fn other_tap_is_counted_line_by_line() {
    let mut host = run(NODE, "node_pass", 1);
    host.run.as_mut().expect("it was set").output =
        "TAP version 13\n# group\nok 1 fine\nnot ok 2 should be equal\n  ---\n    operator: equal\n    expected: 3\n    \
         actual: 2\n  ...\nok 3 later # SKIP\n\n1..3\n"
            .to_owned();
    insta::assert_snapshot!(call(&host, json!({})).expect("tests ran").text, @r"
        FAILED: 1 failed, 1 passed, 1 skipped in 1.2 s
        command: runner
        exit status 1; sandbox: namespaces
        runner: npm (`node --test`)

        1. should be equal
             operator: equal
             expected: 3
             actual: 2
        ");
}

#[test]
fn a_fallback_says_what_is_different_in_it() {
    let mut host = run(PYTHON, "pytest_failing", 1);
    host.run.as_mut().expect("it was set").sandbox = "landlock".to_owned();
    let text = call(&host, json!({})).expect("tests ran").text;
    let line = "sandbox: landlock (a copy of the repository, and no network at all)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_run_that_was_stopped_says_so() {
    let mut host = run(PYTHON, "pytest_failing", 1);
    let report = host.run.as_mut().expect("it was set");
    report.timed_out = true;
    report.exit_code = None;
    report.output = "tests/test_a.py ..F".to_owned();
    report.duration_ms = 60_000;
    report.sandbox = "none".to_owned();
    insta::assert_snapshot!(call(&host, json!({})).expect("tests ran").text, @r"
        FAILED: timed out in 60 s
        command: runner
        stopped by the time limit; sandbox: none (the run was not contained)
        runner: pytest ([tool.pytest.ini_options] in pyproject.toml)

        output:
          tests/test_a.py ..F
        ");
}

#[test]
fn an_output_that_nothing_can_be_read_from_is_shown() {
    let mut host = run(NODE, "node_pass", 0);
    host.run.as_mut().expect("it was set").output = "checked 3 files\nall good\n".to_owned();
    insta::assert_snapshot!(call(&host, json!({})).expect("tests ran").text, @r"
        PASSED: exit status 0 in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: npm (`node --test`)

        output:
          checked 3 files
          all good
        ");
}

#[test]
fn a_run_that_fails_without_a_failing_test_shows_why() {
    let mut host = run(NODE, "jest_pass", 1);
    host.run
        .as_mut()
        .expect("it was set")
        .output
        .push_str("Jest: coverage threshold (80%) not met: 12%\n");
    let text = call(&host, json!({})).expect("tests ran").text;
    assert!(
        text.starts_with("FAILED: 1 passed in 1.2 s (exit status 1, although no test failed)\n"),
        "{text}"
    );
    assert!(text.contains("coverage threshold"), "{text}");
}

#[test]
fn a_script_that_hides_its_status_does_not_pass() {
    let text = node("jest", 0);
    assert!(text.starts_with("FAILED: 2 failed, 1 error, 2 passed"), "{text}");
}

#[test]
fn many_failures_are_named_and_the_first_detailed() {
    let mut output = "=== FAILURES ===\n".to_owned();
    let mut summary = "=== short test summary info ===\n".to_owned();
    for number in 0..500 {
        output.push_str(&format!(
            "____ test_n[{number}] ____\nt.py:6: in test_n\n    assert n\nE   Wrong: {number}\n"
        ));
        summary.push_str(&format!("FAILED t.py::test_n[{number}] - Wrong: {number}\n"));
    }
    let mut host = run(PYTHON, "pytest_failing", 1);
    host.run.as_mut().expect("it was set").output = format!("{output}{summary}=== 500 failed in 1.00s ===\n");
    let outcome = call(&host, json!({})).expect("tests ran");
    assert!(outcome.truncated && outcome.cursor.is_none());
    assert!(
        outcome
            .text
            .contains("\n30. t.py::test_n[29]\n   Wrong: 29\n     t.py:6: in test_n\n"),
        "{}",
        outcome.text
    );
    assert!(outcome.text.contains("  t.py::test_n[30] - Wrong: 30\n"));
    assert!(outcome.text.contains("  … and 170 more\n"));
    assert!(outcome.text.len() < 40_000);
}

#[test]
fn the_description_is_one_that_a_model_can_use() {
    skill_sdk::testing::check_description::<RunTests>();
}

#[test]
fn the_request_reaches_the_host_as_it_was_meant() {
    let mut host = FakeHost::new::<&str, &str>(&[]);
    host.suites = Some(Ok(vec![suite_of(&run(PYTHON, "pytest_passing", 0))]));
    let arguments =
        json!({"recipe": "pytest", "check": "lint", "paths": ["tests/"], "filter": "add", "timeout_seconds": 9});
    RunTests::call(&host, &arguments.to_string()).expect("tests ran");
    assert_eq!(
        host.requests.borrow().as_slice(),
        [
            "TestRequest { recipe: Some(\"pytest\"), check: Some(\"lint\"), paths: [\"tests/\"], filter: Some(\"add\"), timeout_seconds: Some(9) }"
        ]
    );
}

#[test]
fn several_suites_have_one_verdict_and_a_part_each() {
    let mut host = FakeHost::new::<&str, &str>(&[]);
    let in_folder = |recorded: &RecordedRun, directory: &str| TestSuite {
        directory: directory.to_owned(),
        ..suite_of(recorded)
    };
    let absent = TestSuite {
        outcome: Err(Failure::new("unavailable", "go was not found on the PATH.").with_hint("install Go")),
        recipe: "go".to_owned(),
        directory: "tool".to_owned(),
        reason: "go.mod".to_owned(),
    };
    host.suites = Some(Ok(vec![
        in_folder(&run(PYTHON, "pytest_passing", 0), "backend"),
        in_folder(&run(NODE, "mocha", 2), "frontend"),
        absent,
    ]));
    let outcome = RunTests::call(&host, "{}").expect("two of them ran");
    insta::assert_snapshot!(outcome.text, @r"
        FAILED: 2 failed, 3 passed, 2 skipped in 2.5 s

        ## pytest in backend: PASSED: 2 passed in 1.2 s
        command: runner
        exit status 0; sandbox: namespaces
        runner: pytest in backend ([tool.pytest.ini_options] in pyproject.toml)

        ## npm in frontend: FAILED: 2 failed, 1 passed, 2 skipped in 1.2 s
        command: runner
        exit status 2; sandbox: namespaces
        runner: npm in frontend (`node --test`)

        1. store › gets
           AssertionError [ERR_ASSERTION]: 2 == 3
             + expected - actual

             -2
             +3

             at Context.<anonymous> (mocha/a.js:3:29)

        2. store › inner › deep
           TypeError: no x
             at Context.<anonymous> (mocha/a.js:7:54)

        ## go in tool: not run
        go was not found on the PATH.
        hint: install Go
        ");
    let details = outcome.details.expect("it has some");
    assert!(
        details.contains(r#""not_run":["go in tool: go was not found on the PATH."]"#),
        "{details}"
    );
}

#[test]
fn a_suite_that_cannot_run_alone_is_a_failure() {
    let mut host = FakeHost::new::<&str, &str>(&[]);
    assert_eq!(
        RunTests::call(&host, "{}").expect_err("nothing is granted").code,
        "denied"
    );
    let mut suite = suite_of(&run(PYTHON, "pytest_passing", 0));
    suite.outcome = Err(Failure::new("unavailable", "no pytest"));
    host.suites = Some(Ok(vec![suite]));
    assert_eq!(
        RunTests::call(&host, "{}").expect_err("it did not run").code,
        "unavailable"
    );
}
