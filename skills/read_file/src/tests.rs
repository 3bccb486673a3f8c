use proptest::prelude::*;
use skill_sdk::serde_json::{Value, json};
use skill_sdk::testing::{FakeHost, check_description};
use skill_sdk::{Handler, schema};

use super::*;

fn call(host: &FakeHost, arguments: Value) -> Result<Outcome, Failure> {
    ReadFile::call(host, &arguments.to_string())
}

/// The answer about a file of this content.
fn shown(content: &[u8]) -> String {
    let host = FakeHost::new(&[("file", content)]);
    call(&host, json!({"path": "file"})).expect("the file is readable").text
}

#[test]
fn description() {
    check_description::<ReadFile>();
    // Another schema is another contract with every model: change it knowingly.
    insta::assert_snapshot!(schema::of::<ReadFileArguments>().to_string(), @r#"{"type":"object","properties":{"path":{"type":"string","minLength":1,"format":"path","description":"File, relative to the repository root."},"offset":{"type":"integer","minimum":1,"description":"First line, from 1. Default: 1."},"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"Lines at most. Default: 400."},"column":{"type":"integer","minimum":1,"description":"First byte to show of the line at offset, from 1: reads on in a line that was cut, and shows this line alone."},"cursor":{"type":"string","description":"Cursor of a truncated answer, instead of offset."}},"required":["path"],"additionalProperties":false}"#);
}

#[test]
fn a_small_file_is_its_lines() {
    let host = FakeHost::new(&[("src/main.py", "import sys\n\n\tprint(sys.path)\n")]);
    let answer = call(&host, json!({"path": "./src/main.py"})).expect("the file is readable");
    assert_eq!(
        answer,
        Outcome::text("     1\timport sys\n     2\t\n     3\t\tprint(sys.path)")
    );
    assert_eq!(host.shown.borrow().get("src/main.py"), Some(&29));
}

#[test]
fn line_breaks_at_the_borders() {
    assert_eq!(shown(b"\n"), "     1\t");
    assert_eq!(shown(b"a"), "     1\ta");
    assert_eq!(shown(b"a\n\n"), "     1\ta\n     2\t");
    assert_eq!(shown(b"\n\nb"), "     1\t\n     2\t\n     3\tb");
    assert_eq!(shown(b""), "`file` is empty (0 bytes).");
    assert_eq!(shown(b"\xef\xbb\xbf"), "`file` is empty but for a byte order mark.");
}

#[test]
fn pages_tell_where_they_are() {
    let text: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let host = FakeHost::new(&[("long.txt", text.as_str())]);
    let first = call(&host, json!({"path": "long.txt"})).expect("the file is readable");
    assert!(first.text.starts_with("lines 1-400 of 1000\n     1\tline 1\n"));
    assert!(first.text.ends_with("\n   400\tline 400"));
    assert_eq!(first.cursor.as_deref(), Some("401"));
    assert!(first.truncated);
    let last = call(&host, json!({"path": "long.txt", "cursor": "401", "limit": 2000})).expect("the file is readable");
    assert!(last.text.starts_with("lines 401-1000 of 1000\n   401\tline 401\n"));
    assert!(!last.truncated);
    let middle = call(&host, json!({"path": "long.txt", "offset": 7, "limit": 2})).expect("the file is readable");
    assert_eq!(middle.text, "lines 7-8 of 1000\n     7\tline 7\n     8\tline 8");
}

#[test]
fn the_end_is_not_passed() {
    let host = FakeHost::new(&[("a.txt", "1\n2\n")]);
    let failure = call(&host, json!({"path": "a.txt", "offset": 3})).expect_err("there are two lines");
    assert_eq!(failure.code, "invalid-arguments");
    assert_eq!(failure.message, "line 3 is past the end: `a.txt` has 2 lines");
    let failure = call(&host, json!({"path": "a.txt", "cursor": "x"})).expect_err("that is no cursor");
    assert_eq!(failure.code, "invalid-arguments");
}

#[test]
fn what_cannot_be_read_says_why() {
    let host = FakeHost::new(&[("src/a.rs", "x")]);
    let refused = |path: &str| call(&host, json!({"path": path})).expect_err("it cannot be read");
    assert_eq!(refused("src").hint.as_deref(), Some("use list_files to see inside"));
    assert_eq!(refused(".").message, "`.` is a directory");
    assert_eq!(refused("a.rs").hint.as_deref(), Some("did you mean `src/a.rs`?"));
    assert_eq!(refused("../etc/passwd").code, "invalid-arguments");
    assert_eq!(refused("/etc/passwd").code, "invalid-arguments");
    assert_eq!(refused("none").code, "not-found");
}

#[test]
fn binary_files_are_named() {
    let host = FakeHost::new(&[("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice())]);
    let answer = call(&host, json!({"path": "logo.png"})).expect("the file is readable");
    assert_eq!(
        answer.text,
        "`logo.png` is a binary file (PNG image, 16 B); its content is not shown."
    );
    assert!(host.shown.borrow().is_empty(), "what was not shown may not be replaced");
    let kind = |content: &[u8]| decode::binary_kind(content);
    assert_eq!(kind(b"some\0thing"), Some("unknown kind"));
    assert_eq!(kind(b"%PDF-1.7\n..."), Some("PDF document"));
    assert_eq!(kind(b"\x1f\x8b\x08 no nul"), Some("gzip data"));
    assert_eq!(kind(b"MZ is how this text begins"), None);
    assert_eq!(kind(b"\xff\xfe\0\0a\0\0\0"), Some("UTF-32 text"));
    let mut late = vec![b'a'; decode::SNIFF_BYTES];
    late.push(0);
    assert_eq!(kind(&late), None);
}

#[test]
fn encodings_are_told() {
    insta::assert_snapshot!(shown(b"\xef\xbb\xbfone\r\ntwo\r\n"), @r"
    UTF-8 with a byte order mark; CRLF line endings
         1	one
         2	two
    ");
    insta::assert_snapshot!(shown(b"caf\xe9\nna\xefve\n"), @r"
    perhaps Latin-1, shown as UTF-8
         1	café
         2	naïve
    ");
    insta::assert_snapshot!(shown(b"\x93quoted\x94 and \x97"), @r"
    perhaps windows-1252, shown as UTF-8
         1	“quoted” and —
    ");
    insta::assert_snapshot!(shown("äöü\u{20ac}".as_bytes().iter().copied().chain([0xff]).collect::<Vec<_>>().as_slice()), @r"
    not valid UTF-8: 1 invalid place is shown as �
         1	äöü€�
    ");
    let utf16: Vec<u8> = "\u{feff}größe 😀\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    insta::assert_snapshot!(shown(&utf16), @r"
    UTF-16LE, shown as UTF-8; CRLF line endings
         1	größe 😀
    ");
    insta::assert_snapshot!(shown(b"\xfe\xff\0a\0\n\xd8\x00"), @r"
    UTF-16BE, shown as UTF-8
         1	a
         2	�
    ");
    insta::assert_snapshot!(shown(b"a\r\nb\nc\n"), @r"
    mixed line endings (1 of 3 are CRLF)
         1	a
         2	b
         3	c
    ");
    insta::assert_snapshot!(shown(b"\x1b[31mred\x0c\n"), @r"
    control characters are shown as symbols such as ␛
         1	␛[31mred␌
    ");
}

#[test]
fn long_lines_are_cut() {
    let text = shown(format!("{}\nshort\n", "ä".repeat(5000)).as_bytes());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "line 1 is cut: read on with offset 1 and column 2001");
    assert!(lines[1].ends_with("ä… [line cut: 8000 more bytes]"));
    assert_eq!(lines[2], "     2\tshort");
}

#[test]
fn a_cut_line_is_read_on_to_its_end() {
    for bytes in [100_000, 9_000_000] {
        let long: String = (0..bytes / 10).map(|n| format!("{n:08}é")).collect();
        let host = FakeHost::new(&[("long.json", format!("first\n{long}").as_str())]);
        let mut arguments = json!({"path": "long.json", "offset": 2});
        let (mut seen, mut pages) = (String::new(), 0);
        loop {
            let answer = call(&host, arguments.clone()).expect("the file is readable");
            let shown = answer.text.split_once('\t').expect("a line is shown").1;
            seen.push_str(shown.split("… [line cut").next().unwrap_or_default());
            pages += 1;
            assert_eq!(answer.truncated, answer.cursor.is_some());
            match answer.cursor {
                Some(cursor) if pages < 5 => arguments = json!({"path": "long.json", "cursor": cursor}),
                _ => break,
            }
        }
        assert!(
            seen == long[..seen.len()] && (seen.len() == long.len() || pages == 5),
            "{pages} pages"
        );
        let (end, past) = (long.len() - 10, long.len() + 1);
        let part = |column: usize| call(&host, json!({"path": "long.json", "offset": 2, "column": column}));
        let last = part(end + 1).expect("it is there");
        assert!(
            last.text.ends_with(&format!("\t{}", &long[end..])) && !last.truncated,
            "{}",
            last.text
        );
        let message = part(past).expect_err("it is past the end").message;
        assert!(
            message.starts_with(&format!("column {past} is past the end of line 2 of `long.json`")),
            "{message}"
        );
    }
}

#[test]
fn a_huge_line_of_another_encoding_is_read_on_without_a_gap() {
    let long: Vec<u8> = b"caf\xe9 0123456789 ".repeat(700_000);
    let host = FakeHost::new(&[("latin.txt", long.as_slice())]);
    let mut arguments = json!({"path": "latin.txt"});
    let mut seen = String::new();
    for _ in 0..4 {
        let answer = call(&host, arguments).expect("the file is readable");
        seen.push_str(
            answer
                .text
                .split_once('\t')
                .expect("a line is shown")
                .1
                .split("… [line cut")
                .next()
                .unwrap_or_default(),
        );
        arguments = json!({"path": "latin.txt", "cursor": answer.cursor.expect("there is more")});
    }
    let expected = String::from_utf8_lossy(&long[..200_000]).into_owned();
    assert!(seen.len() > 90_000 && expected.starts_with(&seen));
}

#[test]
fn a_page_of_long_lines_ends_early() {
    let text = "x".repeat(1500) + "\n";
    let host = FakeHost::new(&[("wide", text.repeat(300).as_str())]);
    let answer = call(&host, json!({"path": "wide"})).expect("the file is readable");
    assert!(answer.text.starts_with("lines 1-44 of 300\n"), "{}", &answer.text[..30]);
    assert_eq!(answer.cursor.as_deref(), Some("45"));
}

#[test]
fn huge_files_are_read_in_ranges() {
    let text: String = (1..=1_200_000).map(|n| format!("row {n:07}\n")).collect();
    let host = FakeHost::new(&[("huge.csv", text.as_str())]);
    let first = call(&host, json!({"path": "huge.csv", "limit": 2})).expect("the file is readable");
    assert_eq!(
        first.text,
        "lines 1-2 of a file of 14.4 MB\n     1\trow 0000001\n     2\trow 0000002"
    );
    assert!(host.shown.borrow().is_empty());
    let cursor = first.cursor.expect("there is more");
    assert_eq!(cursor, "3@24/14400000");
    let next = call(&host, json!({"path": "huge.csv", "limit": 1, "cursor": cursor})).expect("the file is readable");
    assert_eq!(next.text, "lines 3-3 of a file of 14.4 MB\n     3\trow 0000003");
    let deep = call(&host, json!({"path": "huge.csv", "offset": 1_199_999, "limit": 9})).expect("the file is readable");
    assert!(deep.text.ends_with("\n1199999\trow 1199999\n1200000\trow 1200000"));
    assert!(!deep.truncated);
    // In a file that has changed, the place of a cursor is found again by its line.
    let stale = json!({"path": "huge.csv", "limit": 1, "cursor": "1000@5/99"});
    assert!(
        call(&host, stale)
            .expect("the file is readable")
            .text
            .ends_with("\n  1000\trow 0001000")
    );
    let failure = call(&host, json!({"path": "huge.csv", "offset": 1_200_001})).expect_err("it is past the end");
    assert_eq!(
        failure.message,
        "line 1200001 is past the end: `huge.csv` has 1200000 lines"
    );
}

#[test]
fn a_huge_line_is_bounded() {
    let text = "é".repeat(5_000_000) + "\nend";
    let host = FakeHost::new(&[("one-line.json", text.as_str())]);
    let answer = call(&host, json!({"path": "one-line.json"})).expect("the file is readable");
    let lines: Vec<&str> = answer.text.lines().collect();
    assert_eq!(
        lines[0],
        "lines 1-2 of a file of 10.0 MB; line 1 is cut: read on with offset 1 and column 2001"
    );
    assert!(
        lines[1].ends_with("é… [line cut: 9998000 more bytes]"),
        "{}",
        &lines[1][1990..]
    );
    assert_eq!(lines[2], "     2\tend");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Nothing that a file may hold makes reading fail, and a walk in pages sees every line once.
    #[test]
    fn any_bytes_are_readable(content in prop::collection::vec(any::<u8>(), 0..300), limit in 1..5u64) {
        let host = FakeHost::new(&[("f", content.as_slice())]);
        let whole = call(&host, json!({"path": "f"})).expect("any file is readable");
        let numbered = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.get(6..7) == Some("\t")).map(str::to_owned).collect()
        };
        let mut joined = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = call(&host, json!({"path": "f", "limit": limit, "cursor": cursor})).expect("any page is readable");
            joined.extend(numbered(&page.text));
            match page.cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
        prop_assert_eq!(joined, numbered(&whole.text));
    }

    /// The two ways to read lines agree.
    #[test]
    fn a_walk_through_a_huge_file_sees_the_same_lines(text in "[aä\n]{1,80}", line in 1..6u64) {
        use std::io::{Seek, Write};
        let mut file = tempfile::tempfile().expect("the temporary folder is writable");
        file.write_all(text.as_bytes()).expect("the file is writable");
        file.rewind().expect("the file is seekable");
        let start = ReadStart {
                line,
                at: None,
                column: None,
            };
        let walked = huge::read_huge_file("f", &mut file, text.len() as u64, &text.as_bytes()[..1], start, 3);
        let host = FakeHost::new::<&str, &str>(&[]);
        let held = answer_whole(&host, "f", text.as_bytes(), start, 3);
        match (walked, held) {
            (Ok(walked), Ok(held)) => {
                let lines = |text: &str| -> Vec<String> {
                    text.lines().filter(|line| line.contains('\t')).map(str::to_owned).collect()
                };
                prop_assert_eq!(lines(&walked.text), lines(&held.text));
                prop_assert_eq!(walked.truncated, held.truncated);
            }
            (Err(walked), Err(held)) => prop_assert_eq!(walked, held),
            (walked, held) => prop_assert!(false, "{walked:?} and {held:?}"),
        }
    }
}

#[test]
fn a_pointer_of_git_lfs_is_no_content() {
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "a".repeat(64)
    );
    let host = FakeHost::new(&[("model.bin", pointer.as_bytes())]);
    let answer = call(&host, json!({"path": "model.bin"})).expect("the file is readable");
    insta::assert_snapshot!(answer.text, @"`model.bin` is a Git LFS pointer: its content (12.3 kB) is not here. `git lfs pull` fetches it.");
    assert!(host.shown.borrow().is_empty());
    assert!(shown(b"version https://git-lfs.github.com/spec/v1\n").starts_with("     1\tversion"));
}
