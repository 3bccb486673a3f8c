use proptest::prelude::*;
use skill_sdk::testing::{FakeHost, check_description};

use super::*;

fn host() -> FakeHost {
    FakeHost::new(&[
        ("README.md", "Read the code.\nThe code reads you.\n"),
        (
            "src/lib.rs",
            "//! Code.\n\npub fn code() -> u32 {\n    7\n}\n\n#[test]\nfn works() {\n    code();\n}\n",
        ),
        ("src/dos.txt", "one\r\ncode\r\nthree\r\n"),
        ("logo.png", "\u{89}PNG\0code"),
        ("empty", ""),
    ])
}

fn call(host: &FakeHost, arguments: serde_json::Value) -> Outcome {
    SearchCode::call(host, &arguments.to_string()).expect("the call works")
}

/// Runs a call in parts, as the host does on several cores; with one part, it runs the call whole.
fn sharded(host: &FakeHost, whole: serde_json::Value, parts: u32) -> Outcome {
    let arguments = whole.to_string();
    let parts = SearchCode::split(host, &arguments, parts).expect("the call splits");
    if parts.len() < 2 {
        return call(host, whole);
    }
    let outcomes = parts
        .iter()
        .map(|part| SearchCode::call(host, part).expect("the part works"))
        .collect();
    SearchCode::merge(&arguments, outcomes).expect("the parts join")
}

#[test]
fn description() {
    check_description::<SearchCode>();
}

#[test]
fn details_hold_the_places_of_matches_without_context() {
    let found = call(&host(), json!({"pattern": "code", "context": 1, "limit": 2}));
    assert_eq!(
        found.details.as_deref(),
        Some(r#"{"matches":[{"path":"README.md","line":1},{"path":"README.md","line":2}],"total":5,"files":3}"#)
    );
    let split = sharded(&host(), json!({"pattern": "code", "context": 1, "limit": 2}), 3);
    assert_eq!(split.details, found.details, "the parts add up to the whole");
}

#[test]
fn files_that_the_host_leaves_out_are_counted() {
    let (all, mut narrowed) = (host(), host());
    narrowed.unmatched = ["README.md", "empty", "src/dos.txt"].map(str::to_owned).into();
    for (pattern, count) in [("works", 1), ("nothing", 0)] {
        let arguments = json!({"pattern": pattern});
        let found = call(&narrowed, arguments.clone());
        assert_eq!(found, call(&all, arguments.clone()), "{pattern}");
        assert_eq!(sharded(&narrowed, arguments, 3), found);
        assert_eq!(found.text.matches("src/lib.rs:").count(), count);
    }
}

#[test]
fn lines_are_found_in_the_order_of_paths() {
    insta::assert_snapshot!(call(&host(), json!({"pattern": "code"})).text, @r"
    README.md:1:Read the code.
    README.md:2:The code reads you.
    src/dos.txt:2:code
    src/lib.rs:3:pub fn code() -> u32 {
    src/lib.rs:9:    code();

    5 matches in 3 files; not searched: 1 binary
    ");
}

#[test]
fn context_is_shown_in_groups() {
    let arguments = json!({"pattern": r"^\s+\S", "path": "src/lib.rs", "context": 1});
    insta::assert_snapshot!(call(&host(), arguments).text, @r"
    src/lib.rs-3-pub fn code() -> u32 {
    src/lib.rs:4:    7
    src/lib.rs-5-}
    --
    src/lib.rs-8-fn works() {
    src/lib.rs:9:    code();
    src/lib.rs-10-}

    2 matches in 1 file
    ");
    let overlapping = json!({"pattern": "fn", "path": "src/lib.rs", "context": 3});
    insta::assert_snapshot!(call(&host(), overlapping).text, @r"
    src/lib.rs-1-//! Code.
    src/lib.rs-2-
    src/lib.rs:3:pub fn code() -> u32 {
    src/lib.rs-4-    7
    src/lib.rs-5-}
    src/lib.rs-6-
    src/lib.rs-7-#[test]
    src/lib.rs:8:fn works() {
    src/lib.rs-9-    code();
    src/lib.rs-10-}

    2 matches in 1 file
    ");
}

#[test]
fn cases_globs_and_literals() {
    let found = |arguments| call(&host(), arguments).text.lines().next().map(str::to_owned);
    assert_eq!(
        found(json!({"pattern": "^//! code"})),
        Some("No matches in 4 files; not searched: 1 binary".into())
    );
    let insensitive = json!({"pattern": "^//! code", "case": "insensitive"});
    assert_eq!(found(insensitive), Some("src/lib.rs:1://! Code.".into()));
    let smart = json!({"pattern": "^//! Code", "case": "smart", "globs": ["src/**/*.rs"]});
    assert_eq!(found(smart), Some("src/lib.rs:1://! Code.".into()));
    assert_eq!(
        found(json!({"pattern": "code()", "literal": true, "globs": ["!*.md"]})),
        Some("src/lib.rs:3:pub fn code() -> u32 {".into())
    );
    assert_eq!(
        found(json!({"pattern": "x", "globs": ["*.go"]})),
        Some("No matches in 0 files; no file matches the path and globs (ignored files are searched only by their full path)".into())
    );
}

#[test]
fn pages_join_to_the_whole() {
    let mut joined = Vec::new();
    let mut cursor = String::new();
    let mut endings = Vec::new();
    loop {
        let page = call(&host(), json!({"pattern": "code", "limit": 2, "cursor": cursor}));
        let lines: Vec<&str> = page.text.lines().collect();
        joined.extend(lines[..lines.len() - 2].iter().map(|line| (*line).to_owned()));
        endings.push(lines[lines.len() - 1].to_owned());
        match page.cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let whole = call(&host(), json!({"pattern": "code"}));
    assert_eq!(joined, whole.text.lines().take(5).collect::<Vec<_>>());
    assert_eq!(
        endings,
        [
            "5 matches in 3 files; showing the first 2; not searched: 1 binary",
            "3 further matches in 2 files; showing the first 2; not searched: 1 binary",
            "1 further match in 1 file",
        ]
    );
    let failure = SearchCode::call(&host(), r#"{"pattern": "x", "cursor": "nonsense"}"#).expect_err("no cursor");
    assert_eq!(failure.code, "invalid-arguments");
}

#[test]
fn a_line_that_matches_but_is_not_shown_is_no_context() {
    let answer = call(
        &host(),
        json!({"pattern": "code", "path": "README.md", "limit": 1, "context": 2}),
    );
    insta::assert_snapshot!(answer.text, @r"
    README.md:1:Read the code.

    2 matches in 1 file; showing the first 1
    ");
    assert_eq!(answer.cursor.as_deref(), Some("README.md:1"));
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let long = format!("{}ä needle ö{}\nshort needle\n", "x".repeat(5000), "y".repeat(5000));
    let host = FakeHost::new(&[("min.js", long.as_bytes())]);
    let answer = call(&host, json!({"pattern": "needle"})).text;
    let first = answer.lines().next().expect("a line");
    assert!(first.starts_with("min.js:1:…xxx") && first.ends_with("yyy…"), "{first}");
    assert!(first.contains("xä needle öy"));
    assert!(first.len() < 330);
    assert!(answer.contains("min.js:2:short needle\n"));
    // A match that is itself longer than the shown part.
    let whole = call(&host, json!({"pattern": "x.*y"})).text;
    assert!(
        whole
            .lines()
            .next()
            .is_some_and(|line| line.len() < 330 && line.ends_with('…'))
    );
}

#[test]
fn large_files_are_named_and_left_out() {
    let mut big = vec![b'a'; search::FILE_BYTES_MAX as usize];
    let host = FakeHost::new(&[("big.sql", big.as_slice())]);
    assert!(
        call(&host, json!({"pattern": "a"}))
            .text
            .ends_with("\n\n1 match in 1 file")
    );
    big.push(b'a');
    host.write("big.sql", &big);
    assert_eq!(
        call(&host, json!({"pattern": "a"})).text,
        "No matches in 0 files; not searched: 1 larger than 8.4 MB (big.sql)"
    );
}

#[test]
fn encodings_do_not_hide_a_match() {
    let host = FakeHost::new(&[("latin.txt", b"caf\xe9 code\n".as_slice())]);
    assert_eq!(
        call(&host, json!({"pattern": "code$"})).text,
        "latin.txt:1:caf\u{fffd} code\n\n1 match in 1 file"
    );
}

#[test]
fn mistakes_are_pointed_at() {
    let failure = SearchCode::call(&host(), r#"{"pattern": "fn (\\w+"}"#).expect_err("the pattern is wrong");
    insta::assert_snapshot!(failure.message, @r"
    invalid regular expression at column 4: unclosed group
        fn (\w+
           ^
    ");
    assert!(SearchCode::split(&host(), r#"{"pattern": "("}"#, 4).is_err());
    let failure = SearchCode::call(&host(), r#"{"pattern": "x", "path": "lib.rs"}"#).expect_err("no such file");
    assert_eq!(failure.hint.as_deref(), Some("did you mean `src/lib.rs`?"));
}

#[test]
fn counting_ends_somewhere() {
    let text = "x\n".repeat(150_000);
    let host = FakeHost::new(&[("a.txt", text.as_str()), ("b.txt", "x\n")]);
    let answer = call(&host, json!({"pattern": "x", "limit": 1}));
    assert_eq!(answer.text, "a.txt:1:x\n\nat least 100000 matches; showing the first 1");
    assert!(answer.truncated);
    let half = "x\n".repeat(60_000);
    let host = FakeHost::new(&[("a.txt", half.as_str()), ("b.txt", half.as_str()), ("c.txt", "x\n")]);
    let arguments = json!({"pattern": "x", "limit": 1});
    assert_eq!(sharded(&host, arguments.clone(), 3), call(&host, arguments));
}

#[test]
fn an_answer_of_parts_is_not_longer_than_one_of_the_whole() {
    let long = format!("{}\n", "x".repeat(290)).repeat(150);
    let names = ["a", "b", "c", "d"];
    let host = FakeHost::new(&names.map(|name| (name, long.as_str())));
    let arguments = json!({"pattern": "x", "limit": 1000});
    let whole = call(&host, arguments.clone());
    assert!(whole.text.len() < 80_000 && whole.truncated, "{}", whole.text.len());
    assert_eq!(sharded(&host, arguments, 4), whole);
}

/// Finds what a line-by-line search finds.
fn naive(files: &[(String, String)], needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        for (at, line) in text.split_terminator('\n').enumerate() {
            if line.contains(needle) {
                found.push(format!("{path}:{}:{line}", at + 1));
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn parts_find_what_the_whole_does(
        texts in prop::collection::vec("[ab \n]{0,60}", 1..8),
        needle in "[ab]{1,2}",
        parts in 1..5u32,
        limit in 1..12usize,
        context in 0..3usize,
    ) {
        let files: Vec<(String, String)> =
            texts.into_iter().enumerate().map(|(at, text)| (format!("d{}/f{at}", at % 2), text)).collect();
        let host = FakeHost::new(&files);
        let arguments = json!({"pattern": needle, "limit": limit, "context": context});
        let whole = call(&host, arguments.clone());
        prop_assert_eq!(&sharded(&host, arguments, parts), &whole);

        let mut files = files;
        files.sort();
        let expected = naive(&files, &needle);
        let all = call(&host, json!({"pattern": needle, "limit": 1000}));
        let lines: Vec<&str> = all.text.lines().take(expected.len()).collect();
        prop_assert_eq!(lines, expected);
    }
}
