//! Recorded outputs of real runners, and outputs made up to deceive.

use super::*;
use proptest::prelude::*;

fn recorded(name: &str) -> String {
    let place = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(place).expect("the fixture is there")
}

/// `counts`, then a line for each failure.
fn shown(results: &TestResults) -> String {
    let counts = results
        .counts
        .map_or_else(|| "no counts".to_owned(), |counts| counts.words());
    let failed = results
        .failed
        .iter()
        .map(|test| format!("\n- {}: {}", test.name, test.message));
    format!("{counts}{}", failed.collect::<String>())
}

#[test]
fn cargo() {
    let output = "\
   Compiling shop v0.1.0 (/srv/shop)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.50s
     Running unittests src/lib.rs (target/debug/deps/shop-1)

running 3 tests
test tests::adds ... ok
test tests::later ... ignored
test tests::subtracts ... FAILED

failures:

---- tests::subtracts stdout ----

thread 'tests::subtracts' (42) panicked at src/lib.rs:12:9:
assertion `left == right` failed: off
  left: 2
 right: 1
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tests::subtracts

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/api.rs (target/debug/deps/api-1)

running 1 test
test works ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s
";
    let results = read_results(ResultFormat::Cargo, output, &[]);
    insta::assert_snapshot!(shown(&results), @r"
    1 failed, 2 passed, 1 skipped, 2 deselected
    - src/lib.rs::tests::subtracts: assertion `left == right` failed: off
    ");
    let broken = "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:1:1\n\nerror: could not compile `shop` (lib test) due to 1 previous error\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Cargo, broken, &[])), @r"
    1 error
    - compiling shop: error[E0425]: cannot find value `x` in this scope
    ");
    let nextest = "        PASS [   0.010s] shop tests::adds\n        FAIL [   0.010s] shop tests::subtracts\n     Summary [   0.020s] 2 tests run: 1 passed, 1 failed, 3 skipped\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Cargo, nextest, &[])), @r"
    1 failed, 1 passed, 3 skipped
    - shop::tests::subtracts:
    ");
}

#[test]
fn go() {
    let output = r#"{"Action":"run","Package":"shop","Test":"TestAdds"}
{"Action":"output","Package":"shop","Test":"TestAdds","Output":"=== RUN   TestAdds\n"}
{"Action":"pass","Package":"shop","Test":"TestAdds","Elapsed":0}
{"Action":"output","Package":"shop","Test":"TestSubtracts","Output":"    a_test.go:9: got 2, want 1\n"}
{"Action":"output","Package":"shop","Test":"TestSubtracts","Output":"--- FAIL: TestSubtracts (0.00s)\n"}
{"Action":"fail","Package":"shop","Test":"TestSubtracts","Elapsed":0}
{"Action":"skip","Package":"shop","Test":"TestLater","Elapsed":0}
{"Action":"fail","Package":"shop","Elapsed":0.01}
{"Action":"output","Package":"shop/broken","Output":"broken/a.go:1:1: expected 'package'\n"}
{"Action":"fail","Package":"shop/broken","Elapsed":0}
"#;
    let results = read_results(ResultFormat::Go, output, &[]);
    insta::assert_snapshot!(shown(&results), @r"
    1 failed, 1 error, 1 passed, 1 skipped
    - shop.TestSubtracts: a_test.go:9: got 2, want 1
    - shop/broken: broken/a.go:1:1: expected 'package'
    ");
    insta::assert_snapshot!(readable_output(ResultFormat::Go, output), @r"
        a_test.go:9: got 2, want 1
    --- FAIL: TestSubtracts (0.00s)
    broken/a.go:1:1: expected 'package'
    ");
}

#[test]
fn junit() {
    let surefire = r#"<?xml version="1.0"?><testsuite name="a.StoreTest" tests="4">
  <testcase name="adds" classname="a.StoreTest" time="0.01"/>
  <testcase name="subtracts" classname="a.StoreTest"><failure message="expected: &lt;1&gt; but was: &lt;2&gt;" type="x"><![CDATA[org.opentest4j.AssertionFailedError: expected
	at a.StoreTest.subtracts(StoreTest.java:9)]]></failure></testcase>
  <testcase name="breaks" classname="a.StoreTest"><error type="java.lang.NullPointerException">java.lang.NullPointerException
	at a.Store.get(Store.java:3)</error></testcase>
  <testcase name="later" classname="a.StoreTest"><skipped/></testcase>
</testsuite>"#;
    let results = read_results(ResultFormat::Junit, "", &[surefire.to_owned()]);
    insta::assert_snapshot!(shown(&results), @r"
    1 failed, 1 error, 1 passed, 1 skipped
    - a.StoreTest::subtracts: expected: <1> but was: <2>
    - a.StoreTest::breaks: java.lang.NullPointerException
    ");
    assert_eq!(
        read_results(ResultFormat::Junit, "2 passed", &[]).counts,
        None,
        "without a file nothing is known"
    );
}

#[test]
fn a_forged_result_file_is_an_error_and_no_success() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><testsuite><testcase name=\"&b;\"><failure>&b;</failure></testcase></testsuite>";
    let deep = "<a>".repeat(100_000);
    let unclosed = "<testsuite><testcase name=\"a\"/>";
    for forged in [bomb, deep.as_str(), unclosed, "", "{}", "<testsuite></wrong>"] {
        let counts = read_results(ResultFormat::Junit, "", &[forged.to_owned()]).counts;
        let failures = counts.expect("there was a file").failures();
        assert!(failures > 0, "{}", &forged[..forged.len().min(60)]);
    }
}

#[test]
fn json_reports() {
    let jest = r#"> shop@1.0.0 test
{"numPassedTests":1,"numFailedTests":1,"numPendingTests":1,"numTodoTests":0,"testResults":[{"name":"/srv/a.test.js","status":"failed","message":"","assertionResults":[{"status":"failed","fullName":"store gets","failureMessages":["Error: off\n    at a.test.js:2:3"]},{"status":"passed","fullName":"x"}]},{"name":"/srv/b.test.js","status":"failed","message":"Cannot find module","assertionResults":[]}]}"#;
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Jest, jest, &[])), @r"
    1 failed, 1 error, 1 passed, 1 skipped
    - /srv/a.test.js > store gets: Error: off
    - /srv/b.test.js: Cannot find module
    ");
    let mocha = r#"{"stats":{"passes":2,"failures":1,"pending":1},"failures":[{"fullTitle":"store gets","err":{"message":"off","stack":"Error: off\n at x"}}]}"#;
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Mocha, "", &[mocha.to_owned()])), @r"
    1 failed, 2 passed, 1 skipped
    - store gets: Error: off
    ");
    let rspec = r#"{"summary":{"example_count":3,"failure_count":1,"pending_count":1,"errors_outside_of_examples_count":0},"examples":[{"status":"failed","file_path":"./spec/a_spec.rb","full_description":"Store adds","exception":{"message":"expected: 1\n got: 2"}}]}"#;
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Rspec, rspec, &[])), @r"
    1 failed, 1 passed, 1 skipped
    - ./spec/a_spec.rb Store adds: expected: 1
    ");
    assert_eq!(
        read_results(ResultFormat::Jest, "{\"numPassedTests\": -1}", &[]).counts,
        None
    );
}

#[test]
fn texts() {
    let unittest = "F.\n======================================================================\nFAIL: test_b (test_a.T.test_b)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/srv/test_a.py\", line 6, in test_b\n    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n----------------------------------------------------------------------\nRan 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Unittest, unittest, &[])), @r"
    1 failed, 1 passed, 1 skipped
    - test_b (test_a.T.test_b): AssertionError: 1 != 2
    ");
    let minitest = "Run options: --seed 1\n\n# Running:\n\nF.\n\n  1) Failure:\nTestStore#test_adds [test/store_test.rb:7]:\nExpected: 3\n  Actual: 2\n\n2 runs, 2 assertions, 1 failures, 0 errors, 0 skips\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Minitest, minitest, &[])), @r"
    1 failed, 1 passed
    - TestStore#test_adds: Expected: 3
    ");
    let phpunit = "There was 1 failure:\n\n1) StoreTest::testAdds\nFailed asserting that 2 matches expected 1.\n\n/srv/tests/StoreTest.php:9\n\nFAILURES!\nTests: 3, Assertions: 3, Failures: 1, Skipped: 1.\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Phpunit, phpunit, &[])), @r"
    1 failed, 1 passed, 1 skipped
    - StoreTest::testAdds: Failed asserting that 2 matches expected 1.
    ");
    assert_eq!(
        shown(&read_results(
            ResultFormat::Phpunit,
            "OK (3 tests, 4 assertions)\n",
            &[]
        )),
        "3 passed"
    );
    let exunit = "  1) test adds (StoreTest)\n     test/store_test.exs:4\n     Assertion with == failed\n\nFinished in 0.02 seconds (0.00s async, 0.02s sync)\n2 doctests, 3 tests, 1 failure, 1 skipped\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Exunit, exunit, &[])), @r"
    1 failed, 3 passed, 1 skipped
    - test adds (StoreTest): Assertion with == failed
    ");
    let dotnet = "  Failed Shop.StoreTest.Adds [12 ms]\n  Error Message:\n   Assert.Equal() Failure\n\nFailed!  - Failed:     1, Passed:     2, Skipped:     1, Total:     4, Duration: 20 ms - Shop.dll (net8.0)\n";
    insta::assert_snapshot!(shown(&read_results(ResultFormat::Dotnet, dotnet, &[])), @r"
    1 failed, 2 passed, 1 skipped
    - Shop.StoreTest.Adds: Assert.Equal() Failure
    ");
    let ctest = "    Start 1: adds\n1/2 Test #1: adds .............................   Passed    0.00 sec\n    Start 2: subtracts\n2/2 Test #2: subtracts ........................***Failed    0.00 sec\ngot 2, want 1\n\n50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n\t  2 - subtracts (Failed)\n";
    let results = read_results(ResultFormat::Ctest, ctest, &[]);
    insta::assert_snapshot!(shown(&results), @r"
    1 failed, 1 passed
    - subtracts: Failed
    ");
    assert_eq!(results.failed[0].details, ["got 2, want 1"]);
    let newer = "\n100% tests passed out of 2\n\nTotal Test time (real) =   0.05 sec\n";
    assert_eq!(shown(&read_results(ResultFormat::Ctest, newer, &[])), "2 passed");
}

#[test]
fn tap_needs_a_plan_or_a_version_and_ends_at_a_bail_out() {
    let counts = |output: &str| shown(&read_results(ResultFormat::Tap, output, &[]));
    assert_eq!(
        counts("1..2\nok 1 a\nnot ok 2 b\n").lines().next(),
        Some("1 failed, 1 passed")
    );
    assert_eq!(counts("ok 1 a\n"), "no counts");
    assert_eq!(
        counts("1..2\nok 1 a\nBail out! no database\n").lines().next(),
        Some("1 error, 1 passed")
    );
}

#[test]
fn recorded_outputs_of_python_and_javascript_are_counted() {
    for (name, format, words) in [
        (
            "pytest_failing.txt",
            ResultFormat::Pytest,
            "5 failed, 1 error, 5 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 warning",
        ),
        (
            "jest.txt",
            ResultFormat::Npm,
            "2 failed, 1 error, 2 passed, 1 skipped, 1 todo",
        ),
        ("mocha.txt", ResultFormat::Npm, "2 failed, 1 passed, 2 skipped"),
        (
            "node_tap.txt",
            ResultFormat::Npm,
            "3 failed, 2 passed, 1 skipped, 1 todo",
        ),
        (
            "vitest.txt",
            ResultFormat::Npm,
            "2 failed, 1 error, 2 passed, 1 skipped, 1 todo",
        ),
    ] {
        let results = read_results(format, &recorded(name), &[]);
        assert_eq!(
            results.counts.map(|counts| counts.words()).as_deref(),
            Some(words),
            "{name}"
        );
    }
}

/// `FAILED_TESTS_MAX`, `DETAIL_LINES_MAX`, `LINE_BYTES_MAX`.
#[test]
fn results_are_bounded() {
    let case = format!(
        "<testcase name=\"{}\"><failure>{}</failure></testcase>",
        "n".repeat(9_000),
        "line\n".repeat(900)
    );
    let file = format!("<testsuite>{}</testsuite>", case.repeat(FAILED_TESTS_MAX + 5));
    let results = read_results(ResultFormat::Junit, "", &[file]);
    assert_eq!((results.failed.len(), results.left_out), (FAILED_TESTS_MAX, 5));
    assert_eq!(
        results.counts.map(|counts| counts.failed),
        Some(FAILED_TESTS_MAX as u64 + 5)
    );
    let first = &results.failed[0];
    assert!(first.name.len() <= LINE_BYTES_MAX + 3 && first.details.len() <= DETAIL_LINES_MAX);
}

const FORMATS: [ResultFormat; 16] = [
    ResultFormat::Exit,
    ResultFormat::Junit,
    ResultFormat::Tap,
    ResultFormat::Pytest,
    ResultFormat::Npm,
    ResultFormat::Cargo,
    ResultFormat::Go,
    ResultFormat::Jest,
    ResultFormat::Mocha,
    ResultFormat::Rspec,
    ResultFormat::Unittest,
    ResultFormat::Minitest,
    ResultFormat::Phpunit,
    ResultFormat::Exunit,
    ResultFormat::Dotnet,
    ResultFormat::Ctest,
];

proptest! {
    #[test]
    fn no_text_makes_a_reader_fail(output in "(?s).{0,300}", file in "(?s)[<>/a-z&;\"= {}\\[\\]:]{0,300}") {
        for format in FORMATS {
            let _ = read_results(format, &output, std::slice::from_ref(&file));
            let _ = readable_output(format, &output);
        }
    }
}
