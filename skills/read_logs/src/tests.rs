use proptest::prelude::*;
use skill_sdk::serde_json::Value;
use skill_sdk::testing::{FakeHost, check_description};

use super::*;

const LOG: &str = "\
2024-05-01 12:00:00,100 INFO app: started with 4 workers
2024-05-01 12:00:05,100 WARNING app.db: slow query: 1500 ms
2024-05-01 12:00:06,100 WARNING app.db: slow query: 900 ms
2024-05-01 12:00:07,100 ERROR app: request 17 failed
Traceback (most recent call last):
  File \"app.py\", line 9, in handle
    raise ValueError(\"bad\")
ValueError: bad
2024-05-02 08:00:00,000 INFO app: stopped
";

fn call(host: &FakeHost, arguments: Value) -> Result<Outcome, Failure> {
    ReadLogs::call(host, &arguments.to_string())
}

fn text(host: &FakeHost, arguments: Value) -> String {
    call(host, arguments).expect("the log is readable").text
}

fn host() -> FakeHost {
    FakeHost::new(&[("logs/app.log", LOG), ("README.md", "x")])
}

#[test]
fn description() {
    check_description::<ReadLogs>();
}

#[test]
fn a_log_is_counted_grouped_and_shown() {
    insta::assert_snapshot!(text(&host(), json!({"path": "logs/app.log"})), @r#"
    logs/app.log (385 B, read whole)
    5 entries, 2024-05-01 12:00:00 to 2024-05-02 08:00:00: 1 error, 2 warning, 2 info

    Repeated:
          2x warning  2024-05-01 12:00:05 to 2024-05-01 12:00:06  app.db: slow query: <n> ms

    All 5 entries:
         1	2024-05-01 12:00:00,100 INFO app: started with 4 workers
         2	2024-05-01 12:00:05,100 WARNING app.db: slow query: 1500 ms
         3	2024-05-01 12:00:06,100 WARNING app.db: slow query: 900 ms
         4	2024-05-01 12:00:07,100 ERROR app: request 17 failed
         5	Traceback (most recent call last):
         6	  File "app.py", line 9, in handle
         7	    raise ValueError("bad")
         8	ValueError: bad
         9	2024-05-02 08:00:00,000 INFO app: stopped
    "#);
}

#[test]
fn filters_select() {
    insta::assert_snapshot!(text(&host(), json!({"path": "logs/app.log", "level": "error"})), @r#"
    logs/app.log (385 B, read whole)
    5 entries, 2024-05-01 12:00:00 to 2024-05-02 08:00:00: 1 error, 2 warning, 2 info
    Level error and above: 1 entry

    The entry:
         4	2024-05-01 12:00:07,100 ERROR app: request 17 failed
         5	Traceback (most recent call last):
         6	  File "app.py", line 9, in handle
         7	    raise ValueError("bad")
         8	ValueError: bad
    "#);
    let arguments = json!({"path": "logs/app.log", "since": "2024-05-01T12:00:06", "until": "2024-05-01"});
    insta::assert_snapshot!(text(&host(), arguments), @r#"
    logs/app.log (385 B, read whole)
    5 entries, 2024-05-01 12:00:00 to 2024-05-02 08:00:00; 2 of them fit: 1 error, 1 warning

    All 2 entries:
         3	2024-05-01 12:00:06,100 WARNING app.db: slow query: 900 ms
         4	2024-05-01 12:00:07,100 ERROR app: request 17 failed
         5	Traceback (most recent call last):
         6	  File "app.py", line 9, in handle
         7	    raise ValueError("bad")
         8	ValueError: bad
    "#);
    // The pattern sees the whole entry, its trace included.
    let found = text(&host(), json!({"path": "logs/app.log", "pattern": "ValueError"}));
    assert!(
        found.contains("The entry:\n     4\t2024-05-01 12:00:07,100 ERROR"),
        "{found}"
    );
    let none = text(&host(), json!({"path": "logs/app.log", "pattern": "nowhere"}));
    assert!(none.ends_with("; 0 of them fit\n\nNo entry fits."), "{none}");
}

#[test]
fn the_tail_goes_back_by_cursor() {
    let lines: String = (0..10)
        .map(|n| format!("2024-05-01 12:00:0{n} INFO step {n}\n"))
        .collect();
    let host = FakeHost::new(&[("a.log", lines.as_str())]);
    let mut arguments = json!({"path": "a.log", "tail": 4});
    let mut seen = Vec::new();
    let mut headings = Vec::new();
    loop {
        let page = call(&host, arguments.clone()).expect("the log is readable");
        let mut steps: Vec<String> = page
            .text
            .lines()
            .filter(|line| line.contains('\t'))
            .map(|line| line[line.len() - 1..].to_owned())
            .collect();
        steps.append(&mut seen);
        seen = steps;
        headings.extend(page.text.lines().next().map(str::to_owned));
        match page.cursor {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => break,
        }
    }
    assert_eq!(seen.concat(), "0123456789");
    assert_eq!(
        headings,
        [
            "a.log (320 B, read whole)",
            "a.log (320 B): read 192 B up to byte 192; 128 B after that were not read",
            "a.log (320 B): read 64 B up to byte 64; 256 B after that were not read",
        ]
    );
}

#[test]
fn a_large_log_is_read_from_its_end() {
    let line = |n: u32| {
        let (hour, minute, second) = (n / 3600 % 24, n / 60 % 60, n % 60);
        format!(
            "2024-05-{:02} {hour:02}:{minute:02}:{second:02} INFO service: request {n} took a while and then some more\n",
            1 + n / 86_400
        )
    };
    let lines: String = (0..400_000).map(line).collect();
    assert!(lines.len() as u64 > WINDOW_BYTES);
    let host = FakeHost::new(&[("big.log", lines.as_str())]);
    let page = call(&host, json!({"path": "big.log", "tail": 1})).expect("the log is readable");
    assert!(
        page.text
            .starts_with("big.log (32.3 MB): read 16.8 MB at the end; 15.5 MB before that were not read\n"),
        "{}",
        page.text
    );
    assert!(
        page.text
            .ends_with("2024-05-05 15:06:39 INFO service: request 399999 took a while and then some more")
    );
    assert!(page.truncated);
    // An early time is found without reading what comes after it.
    let early = json!({"path": "big.log", "tail": 1, "until": "2024-05-01T00:01:40"});
    let page = call(&host, early).expect("the log is readable");
    let last = "\n   101\t2024-05-01 00:01:40 INFO service: request 100 took a while and then some more";
    assert!(page.text.ends_with(last), "{}", page.text);
    assert!(
        page.text
            .lines()
            .next()
            .is_some_and(|heading| heading.contains(" after that were not read"))
    );
    // Nothing before the time that is asked for: nothing to go on with.
    let late = json!({"path": "big.log", "since": "2024-05-05T15:06:30"});
    assert!(!call(&host, late).expect("the log is readable").truncated);
}

#[test]
fn other_shapes_are_read() {
    let json_lines = "{\"time\":\"2024-05-01T12:00:00Z\",\"level\":\"error\",\"msg\":\"lost 7\"}\n".repeat(3);
    let syslog = "<34>1 2024-05-01T12:00:00Z host app 1 - - down\n";
    let host = FakeHost::new(&[
        ("a.jsonl", json_lines.as_str()),
        ("messages", syslog),
        ("plain.txt", "one\ntwo\n"),
    ]);
    let found = text(&host, json!({"path": "a.jsonl"}));
    assert!(
        found.contains("3 entries, 2024-05-01 12:00:00Z to 2024-05-01 12:00:00Z: 3 error\n"),
        "{found}"
    );
    assert!(
        found.contains("      3x error    2024-05-01 12:00:00Z  lost <n>\n"),
        "{found}"
    );
    assert!(
        text(&host, json!({"path": "messages"}))
            .contains("1 entry, 2024-05-01 12:00:00Z to 2024-05-01 12:00:00Z: 1 critical")
    );
    insta::assert_snapshot!(text(&host, json!({"path": "plain.txt", "since": "2024-05-01"})), @r"
    plain.txt (8 B, read whole)
    2 entries; 0 of them fit
    No timestamps were recognised, so `since` and `until` leave nothing.

    No entry fits.
    ");
}

#[test]
fn long_traces_are_folded() {
    let mut log = "2024-05-01 12:00:00 ERROR deep\n".to_owned();
    (0..100).for_each(|n| log += &format!("    at frame{n} (a.js:{n}:1)\n"));
    let host = FakeHost::new(&[("a.log", log.as_str())]);
    let found = text(&host, json!({"path": "a.log"}));
    assert!(
        found.contains("\n    12\t    at frame10 (a.js:10:1)\n… [77 more lines]\n    90\t    at frame88 (a.js:88:1)\n"),
        "{found}"
    );
}

#[test]
fn the_newest_log_is_found() {
    let host = host();
    host.write("debug.log", b"2024-05-03 INFO x\n");
    host.write("logs/old.log.1.gz", b"\x1f\x8b");
    let old = File::options()
        .append(true)
        .open(host.repo().join("debug.log"))
        .expect("the file is there");
    old.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000))
        .expect("the time can be set");
    let found = text(&host, json!({"level": "error"}));
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(
        lines[0],
        "Found 2 log files; this is the newest. Give `path` to read another:"
    );
    assert!(lines[1].starts_with("  logs/app.log\t385 B\t20"), "{found}");
    assert_eq!(lines[2], "  debug.log\t18 B\t2023-11-14 22:13:20Z");
    assert_eq!(lines[4], "logs/app.log (385 B, read whole)");
    assert!(text(&host, json!({"path": "logs"})).starts_with("logs/app.log (385 B, read whole)\n"));
    let failure = call(&FakeHost::new(&[("a.py", "x")]), json!({})).expect_err("there is none");
    assert_eq!(failure.code, "not-found");
}

#[test]
fn what_cannot_be_read_says_why() {
    let host = FakeHost::new(&[("a.log.gz", b"\x1f\x8b\x08\0".as_slice()), ("empty.log", b"")]);
    let code = |arguments| call(&host, arguments).expect_err("it is refused").code;
    assert_eq!(code(json!({"path": "a.log.gz"})), "failed");
    assert_eq!(code(json!({"path": "none.log"})), "not-found");
    assert_eq!(code(json!({"path": "../x.log"})), "invalid-arguments");
    assert_eq!(
        code(json!({"path": "empty.log", "since": "yesterday"})),
        "invalid-arguments"
    );
    assert_eq!(code(json!({"path": "empty.log", "pattern": "("})), "invalid-arguments");
    assert_eq!(code(json!({"path": "empty.log", "cursor": "x"})), "invalid-arguments");
    assert_eq!(
        text(&host, json!({"path": "empty.log"})),
        "`empty.log` is empty (0 bytes)."
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// No line makes parsing fail, and every byte of a whole log belongs to just one entry.
    #[test]
    fn any_bytes_are_entries(
        pieces in prop::collection::vec(prop_oneof![
            "\\PC{0,12}",
            Just("2024-05-01 12:00:00 ERROR x".to_owned()),
            Just("\n".to_owned()),
            Just("Traceback (most recent call last):\n".to_owned()),
            Just("<34>1 ".to_owned()),
            Just("{\"level\":\"error\"}".to_owned()),
            Just("level=".to_owned()),
            Just("[".to_owned()),
            Just("\n    at x".to_owned()),
        ], 0..30),
        raw in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut log = pieces.concat().into_bytes();
        log.extend(raw);
        let mut end = 0;
        for entry in EntryReader::new(&log, true, 1_718_409_600_000) {
            prop_assert_eq!(entry.range.start, end);
            prop_assert!(entry.range.end > end);
            end = entry.range.end;
        }
        prop_assert_eq!(end, log.len());
    }
}
