use proptest::prelude::*;

use super::*;

fn run_of(runner: TestRunner, output: &str, exit_code: Option<i32>) -> TestRun {
    TestRun::new(runner.name(), exit_code, false, 300, TestCounts::read(runner, output))
}

#[test]
fn summaries_of_passed_runs_are_read() {
    use TestRunner::{Npm, Pytest};
    let jest = "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 2 passed, 3 total\nSnapshots:   0 total\n";
    let vitest = " Test Files  2 passed (2)\n      Tests  5 passed | 1 skipped (6)\n   Start at  10:00:00\n";
    for (runner, output, counted) in [
        (Pytest, "..\n===== 2 passed in 0.06s =====\n", "2 passed"),
        (
            Pytest,
            "2 passed, 1 skipped, 3 warnings in 75.20s (0:01:15)\n",
            "2 passed, 1 skipped, 3 warnings",
        ),
        (
            Pytest,
            "= 2 passed, 1 rerun, 4 subtests passed in 0.1s =\nafterwards\n",
            "2 passed",
        ),
        (Npm, jest, "2 passed, 1 skipped"),
        (Npm, vitest, "5 passed, 1 skipped"),
        (
            Npm,
            "\u{1b}[34mℹ tests 2\u{1b}[39m\nℹ pass 2\nℹ fail 0\nℹ todo 0\n",
            "2 passed",
        ),
        (Npm, "# tests 2\n# pass  2\n\n# ok\n", "2 passed"),
        (
            Npm,
            "TAP version 13\nok 1 - a\nok 2 - b # SKIP later\n",
            "1 passed, 1 skipped",
        ),
        (Npm, "  2 passing (3ms)\n  1 pending\n", "2 passed, 1 skipped"),
    ] {
        let verdict = |exit_code| run_of(runner, output, exit_code).verdict();
        assert_eq!(verdict(Some(0)), format!("PASSED: {counted} in 0.3 s"), "{output}");
        assert_eq!(
            verdict(Some(1)),
            format!("FAILED: {counted} in 0.3 s (exit status 1, although no test failed)")
        );
        assert_eq!(
            verdict(None),
            format!("FAILED: {counted} in 0.3 s (ended by a signal, although no test failed)")
        );
    }
}

#[test]
fn a_runner_that_found_no_test_has_not_passed() {
    let said = |output| run_of(TestRunner::Npm, output, Some(0)).verdict();
    assert_eq!(said("# tests 0\n# pass 0\n# fail 0\n"), "NO TESTS RAN in 0.3 s");
    assert_eq!(
        said("# tests 1\n# pass 0\n# fail 0\n# skipped 1\n"),
        "NO TESTS RAN: 1 skipped in 0.3 s"
    );
}

#[test]
fn a_test_with_failed_subtests_is_one_failed_test() {
    let output = |listed: &str, counted: &str| {
        format!("SUBFAILED t.py::printed - x\n=== short test summary info ===\n{listed}==== {counted} in 0.18s ====\n")
    };
    let both = "SUBFAILED t.py::test_two - assert 1 == 0\nSUBFAILED t.py::test_two - assert 2 == 0\n";
    let around = "FAILED t.py::test_two - contains 2 failed subtests\n";
    let unit =
        "SUBFAILED(i=0) t.py::T::test_u - AssertionError: 0\nSUBFAILED[m] (i=1) t.py::T::test_u - AssertionError: 1\n";
    for (listed, counted, verdict) in [
        (format!("{both}{around}"), "3 failed", "1 failed"),
        (
            format!("{both}{around}{unit}"),
            "5 failed, 2 passed",
            "2 failed, 1 passed",
        ),
        (unit.to_owned(), "2 failed, 1 passed, 1 subtests passed", "1 failed"),
        (around.to_owned(), "1 failed", "1 failed"),
        (format!("{both}{around}"), "1 failed, 2 subtests failed", "1 failed"),
    ] {
        let run = run_of(TestRunner::Pytest, &output(&listed, counted), Some(1));
        assert_eq!(run.verdict(), format!("FAILED: {verdict} in 0.3 s"), "{listed}");
    }
}

#[test]
fn summaries_of_other_runs_are_read() {
    use TestRunner::{Npm, Pytest};
    for (runner, output, status, verdict) in [
        (
            Pytest,
            "1 failed, 2 errors, 3 passed in 0.1s\n",
            TestStatus::Failed,
            "FAILED: 1 failed, 2 errors, 3 passed in 0.3 s",
        ),
        (
            Pytest,
            "no tests ran in 0.00s\n",
            TestStatus::NothingRan,
            "FAILED: no tests ran in 0.3 s",
        ),
        (
            Pytest,
            "3 deselected in 0.00s\n",
            TestStatus::NothingRan,
            "FAILED: no tests ran, 3 deselected in 0.3 s",
        ),
        (
            Pytest,
            "ImportError while loading conftest '/x/conftest.py'.\n",
            TestStatus::Failed,
            "FAILED: 1 error in 0.3 s",
        ),
        (
            Npm,
            "Test Suites: 1 failed, 1 passed, 2 total\nTests: 1 passed, 1 total\n",
            TestStatus::Failed,
            "FAILED: 1 error, 1 passed in 0.3 s",
        ),
        (
            Npm,
            " Test Files  1 failed | 1 passed (2)\n Tests  1 passed (1)\n",
            TestStatus::Failed,
            "FAILED: 1 error, 1 passed in 0.3 s",
        ),
        (
            Npm,
            "# pass 1\n# fail 1\n",
            TestStatus::Failed,
            "FAILED: 1 failed, 1 passed in 0.3 s",
        ),
        (
            Npm,
            "  2 passing (3ms)\n  1 failing\n\n  1) store\n",
            TestStatus::Failed,
            "FAILED: 1 failed, 2 passed in 0.3 s",
        ),
        (Npm, "boom\n", TestStatus::Failed, "FAILED: exit status 1 in 0.3 s"),
    ] {
        let run = run_of(runner, output, Some(1));
        assert_eq!((run.status, run.verdict().as_str()), (status, verdict), "{output}");
    }
    let stopped = TestRun::new("npm", None, true, 12_000, None);
    assert_eq!(
        (stopped.has_run(), stopped.verdict().as_str()),
        (false, "FAILED: timed out in 12 s")
    );
}

#[test]
fn a_run_passes_by_its_counts_and_not_by_its_exit_status_alone() {
    let forgiven = run_of(TestRunner::Npm, "# pass 1\n# fail 1\n", Some(0));
    assert_eq!(forgiven.status, TestStatus::Failed, "`node --test || true`");
    assert_eq!(run_of(TestRunner::Npm, "ok\n", Some(0)).status, TestStatus::Passed);
    let empty = run_of(TestRunner::Npm, "# pass 0\n# fail 0\n", Some(0));
    assert_eq!((empty.status, empty.has_failed()), (TestStatus::NothingRan, false));
    let beside = run_of(TestRunner::Npm, "# pass 1\n# fail 0\n", Some(0));
    assert_eq!(empty.with(&beside).status, TestStatus::Passed);
    assert_eq!(
        run_of(TestRunner::Npm, "# pass 1\n", Some(1)).status,
        TestStatus::Failed
    );
}

#[test]
fn summaries_of_another_form_have_no_counts() {
    use TestRunner::{Npm, Pytest};
    for (runner, output) in [
        (Pytest, "2 passed, 1 IMPORTANT in 0.1s\n"),
        (Pytest, "20240101120000 passed in 0.1s\n"),
        (Pytest, "+2 passed in 0.1s\n"),
        (Pytest, "9999999 passed, 1 passed in 0.1s\n"),
        (Npm, "  9999999 passing (3ms)\n  9999999 pending\n  1 pending\n"),
        (Pytest, ""),
        (Npm, "ok\n"),
        (Npm, "2 passed in 0.06s\n"),
        (Npm, "Tests: 1 passed, 1 total\n"),
    ] {
        assert_eq!(TestCounts::read(runner, output), None, "{output}");
    }
}

#[test]
fn a_run_is_written_as_json_in_one_way() {
    let run = run_of(TestRunner::Pytest, "1 failed in 0.1s", Some(1));
    let json = serde_json::to_string(&run).expect("it has a form");
    assert_eq!(
        json,
        r#"{"runner":"pytest","status":"failed","exit_code":1,"duration_ms":300,"counts":{"failed":1,"errors":0,"passed":0,"skipped":0,"todo":0,"xfailed":0,"xpassed":0,"deselected":0,"warnings":0}}"#
    );
    assert_eq!(serde_json::from_str::<TestRun>(&json).ok(), Some(run));
}

proptest! {
    #[test]
    fn no_word_of_an_output_enters_a_verdict(
        before in "[ -~\n]{0,60}",
        mark in "(Q[a-z]{3}|)",
        number in "[0-9]{1,8}",
        after in "[ -~\n]{0,60}",
    ) {
        for (runner, summary) in [
            (TestRunner::Pytest, format!("{number} passed{mark} in 0.1s")),
            (TestRunner::Npm, format!("# pass {number}{mark}")),
            (TestRunner::Npm, format!("  {number} passing {mark}")),
        ] {
            let verdict = run_of(runner, &format!("{before}\n{summary}\n{after}"), Some(0)).verdict();
            let known = ["PASSED", "FAILED", "NO", "TESTS", "RAN", "failed", "error", "errors", "passed", "skipped", "todo", "xfailed",
                "xpassed", "deselected", "warning", "warnings", "in", "s", "exit", "status", "no", "tests", "ran"];
            let words = verdict.split(|character: char| !character.is_ascii_alphabetic());
            for word in words.filter(|word| !word.is_empty()) {
                prop_assert!(known.contains(&word), "{verdict}");
            }
        }
    }
}
