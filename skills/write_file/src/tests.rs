use proptest::prelude::*;
use skill_sdk::serde_json::Value;
use skill_sdk::testing::{FakeHost, check_description};

use super::*;

const MAIN: &str = "import sys\n\n\ndef main():\n    print(\"hello\")\n    return 0\n\n\ndef other():\n    return 0\n";

fn host() -> FakeHost {
    FakeHost::new(&[("src/main.py", MAIN)])
}

fn call(host: &FakeHost, arguments: Value) -> Result<String, Failure> {
    WriteFile::call(host, &arguments.to_string()).map(|outcome| outcome.text)
}

fn staged(host: &FakeHost, path: &str) -> Option<String> {
    host.staged(path)
        .map(|content| String::from_utf8_lossy(&content).into_owned())
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "src/main.py", "edits": [{"old": old, "new": new}]})
}

#[test]
fn description() {
    check_description::<WriteFile>();
}

#[test]
fn a_new_file_gets_its_directories() {
    let host = host();
    let text = call(&host, json!({"path": "docs/a/b.md", "content": "# B\n\nText."})).expect("the file can be made");
    insta::assert_snapshot!(text, @r"
    Created `docs/a/b.md` (+3 -0)
    --- /dev/null
    +++ b/docs/a/b.md
    @@ -0,0 +1,3 @@
    +# B
    +
    +Text.
    \ No newline at end of file
    ");
    assert_eq!(staged(&host, "docs/a/b.md").as_deref(), Some("# B\n\nText."));
    let empty = call(&host, json!({"path": "empty", "content": ""})).expect("the file can be made");
    assert_eq!(empty, "Created `empty` (+0 -0), empty.");
    assert_eq!(staged(&host, "empty").as_deref(), Some(""));
}

#[test]
fn details_name_the_path_and_what_becomes_of_it() {
    let details = |arguments: Value| {
        let outcome = WriteFile::call(&host(), &arguments.to_string()).expect("it is a change");
        outcome.details.expect("it has some")
    };
    assert_eq!(
        details(json!({"path": "./docs/b.md", "content": "# B\n\nText."})),
        r#"{"path":"docs/b.md","change":"created","added":3,"removed":0}"#
    );
    assert_eq!(
        details(edit("import sys\n", "")),
        r#"{"path":"src/main.py","change":"modified","added":0,"removed":1}"#
    );
    assert_eq!(
        details(json!({"path": "src/main.py", "content": MAIN})),
        r#"{"path":"src/main.py","change":"unchanged","added":0,"removed":0}"#
    );
}

#[test]
fn edits_change_in_place() {
    let host = host();
    let arguments = json!({"path": "src/main.py", "edits": [
        {"old": "\"hello\"", "new": "\"good day\""},
        {"old": "\"good day\")\n    return 0\n", "new": "\"good day\")\n    return 1\n"},
        {"old": "\n\ndef other():\n    return 0\n", "new": ""},
    ]});
    insta::assert_snapshot!(call(&host, arguments).expect("the edits fit"), @r#"
    Modified `src/main.py` (+2 -6)
    --- a/src/main.py
    +++ b/src/main.py
    @@ -2,9 +2,5 @@
     
     
     def main():
    -    print("hello")
    -    return 0
    -
    -
    -def other():
    -    return 0
    +    print("good day")
    +    return 1
    "#);
    let expected = "import sys\n\n\ndef main():\n    print(\"good day\")\n    return 1\n";
    assert_eq!(staged(&host, "src/main.py").as_deref(), Some(expected));
}

#[test]
fn edits_are_all_or_nothing() {
    let host = host();
    let arguments = json!({"path": "src/main.py", "edits": [
        {"old": "hello", "new": "bye"},
        {"old": "return 0", "new": "return 1"},
    ]});
    let failure = call(&host, arguments).expect_err("the second edit is ambiguous");
    assert_eq!(
        failure.message,
        "`old` of edit 2 occurs 2 times in `src/main.py`, at lines 6, 10; nothing was changed"
    );
    assert_eq!(failure.code, "invalid-arguments");
    assert!(staged(&host, "src/main.py").is_none());
}

#[test]
fn a_text_that_is_not_there_is_looked_for() {
    let refused = |old: &str| call(&host(), edit(old, "x")).expect_err("the text is not there");
    insta::assert_snapshot!(refused("    print('hello')").message, @r#"`old` does not occur in `src/main.py`; nothing was changed. The line most like it is 5:     print("hello")"#);
    insta::assert_snapshot!(refused("def main():\n\tprint(\"hello\")\n").message, @r#"
    `old` does not occur in `src/main.py`; nothing was changed. But lines 4-5 differ only in white space:
    def main():
        print("hello")
    "#);
    insta::assert_snapshot!(refused("zzzzzzzzzz").message, @"`old` does not occur in `src/main.py`; nothing was changed");
    let numbered = refused("     4\tdef main():\n     5\t    print(\"hello\")");
    assert_eq!(
        numbered.hint.as_deref(),
        Some("leave out the line numbers and the tab after them")
    );
    assert_eq!(refused("").message, "`old` is empty");
}

#[test]
fn overlapping_occurrences_are_ambiguous() {
    let host = FakeHost::new(&[("a", "aaa")]);
    let failure = call(&host, json!({"path": "a", "edits": [{"old": "aa", "new": "b"}]})).expect_err("it is ambiguous");
    assert!(failure.message.contains("occurs 2 times"));
}

#[test]
fn crlf_is_kept() {
    let host = FakeHost::new(&[("a.bat", "one\r\ntwo\r\nthree\r\n")]);
    let text = call(
        &host,
        json!({"path": "a.bat", "edits": [{"old": "one\ntwo\n", "new": "one\nand\ntwo\n"}]}),
    );
    insta::assert_snapshot!(text.expect("the edit fits"), @r"
    Modified `a.bat` (+1 -0)
    --- a/a.bat
    +++ b/a.bat
    @@ -1,3 +1,4 @@
     one
    +and
     two
     three
    ");
    assert_eq!(
        staged(&host, "a.bat").as_deref(),
        Some("one\r\nand\r\ntwo\r\nthree\r\n")
    );
    call(
        &host,
        json!({"path": "a.bat", "edits": [{"old": "three", "new": "3\n4"}]}),
    )
    .expect("the edit fits");
    assert_eq!(staged(&host, "a.bat").as_deref(), Some("one\r\ntwo\r\n3\r\n4\r\n"));
    call(&host, json!({"path": "a.bat", "content": "new\ntext"})).expect("the file can be replaced");
    assert_eq!(staged(&host, "a.bat").as_deref(), Some("new\r\ntext"));
    // Lines of the other style in a mixed file are found too, and stay what they are.
    let mixed = FakeHost::new(&[("m", "a\nb\nc\r\nd\r\n")]);
    call(
        &mixed,
        json!({"path": "m", "edits": [{"old": "c\nd\n", "new": "c\nD\n"}]}),
    )
    .expect("the edit fits");
    assert_eq!(staged(&mixed, "m").as_deref(), Some("a\nb\nc\r\nD\r\n"));
}

#[test]
fn what_a_model_does_not_see_is_kept() {
    let host = FakeHost::new(&[
        ("bom.cs", b"\xef\xbb\xbfold\n".as_slice()),
        ("latin.txt", b"caf\xe9\nx\n"),
    ]);
    call(&host, json!({"path": "bom.cs", "content": "new\n"})).expect("the file can be replaced");
    assert_eq!(host.staged("bom.cs").as_deref(), Some(b"\xef\xbb\xbfnew\n".as_slice()));
    call(&host, json!({"path": "latin.txt", "edits": [{"old": "x", "new": "y"}]})).expect("the edit fits");
    assert_eq!(host.staged("latin.txt").as_deref(), Some(b"caf\xe9\ny\n".as_slice()));
    let lossy = json!({"path": "latin.txt", "content": "caf\u{fffd}\ny\n"});
    assert_eq!(
        call(&host, lossy).expect_err("it would destroy the text").code,
        "invalid-arguments"
    );
    host.write("cut.txt", b"\xff\xfea\0b");
    let failure = call(&host, json!({"path": "cut.txt", "edits": [{"old": "a", "new": "b"}]}));
    assert_eq!(failure.expect_err("it is no UTF-16").code, "failed");
}

#[test]
fn a_file_keeps_its_encoding() {
    let sjis = b"# coding: cp932\nname = \"\x83e\"\nlimit = 10\n";
    let wide: Vec<u8> = "\u{feff}one\r\ntwo ä\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let changed: Vec<u8> = "\u{feff}one 😀\r\ntwo ä\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let whole: Vec<u8> = "\u{feff}ü\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (path, old, change, new, said) in [
        (
            "a.py",
            &b"# -*- coding: latin-1 -*-\nname = \"caf\xe9\"\nlimit = 10\n"[..],
            json!({"edits": [{"old": "limit = 10", "new": "limit = 10\nother = \"é\""}]}),
            &b"# -*- coding: latin-1 -*-\nname = \"caf\xe9\"\nlimit = 10\nother = \"\xe9\"\n"[..],
            "Modified `a.py` (+1 -0), in Latin-1\n",
        ),
        (
            "b.py",
            sjis,
            json!({"edits": [{"old": "テ", "new": "テテ"}]}),
            b"# coding: cp932\nname = \"\x83e\x83e\"\nlimit = 10\n",
            "Modified `b.py` (+1 -1), in Shift_JIS\n",
        ),
        (
            "c.rc",
            &wide,
            json!({"edits": [{"old": "one", "new": "one 😀"}]}),
            &changed,
            "Modified `c.rc` (+1 -1), in UTF-16LE\n",
        ),
        (
            "d.rc",
            &wide,
            json!({"content": "ü\n"}),
            &whole,
            "Modified `d.rc` (+1 -2), in UTF-16LE\n",
        ),
        // Another declaration is another encoding, for the whole file.
        (
            "e.py",
            b"# coding: latin-1\nx = '\xe9'\n",
            json!({"edits": [{"old": "latin-1", "new": "utf-8"}]}),
            "# coding: utf-8\nx = 'é'\n".as_bytes(),
            "Modified `e.py` (+1 -1), now in UTF-8, before in Latin-1\n",
        ),
    ] {
        let host = FakeHost::new(&[(path, old)]);
        let mut arguments = change;
        arguments["path"] = json!(path);
        let text = call(&host, arguments).expect("the file is changed");
        assert!(text.starts_with(said), "{text}");
        assert_eq!(host.staged(path).as_deref(), Some(new), "{path}");
    }
}

#[test]
fn what_an_encoding_cannot_hold_is_refused() {
    let mixed = "äöü"
        .as_bytes()
        .iter()
        .copied()
        .chain(*b"\xff\nlimit\n")
        .collect::<Vec<u8>>();
    let host = FakeHost::new(&[("a.py", &b"# coding: latin-1\nx = '\xe9'\n"[..]), ("mixed.txt", &mixed)]);
    let refused = |path: &str, old: &str, new: &str| {
        let edit = json!({"path": path, "edits": [{"old": old, "new": new}]});
        call(&host, edit).expect_err("it does not fit").message
    };
    insta::assert_snapshot!(refused("a.py", "é", "€"), @"`a.py` is in Latin-1, which has no `€` (U+20AC); nothing was changed");
    insta::assert_snapshot!(refused("mixed.txt", "limit", "é"), @"the encoding of `mixed.txt` is not known, so only ASCII can be written into it, and `é` is not; nothing was changed");
    let kept = json!({"path": "mixed.txt", "edits": [{"old": "äöü", "new": "äü!"}]});
    call(&host, kept).expect("its characters were there");
}

#[test]
fn placeholders_do_not_replace_code() {
    let host = host();
    let content = "import sys\nimport os\n\n# ... rest of the code ...\n";
    let failure = call(&host, json!({"path": "src/main.py", "content": content})).expect_err("it drops code");
    insta::assert_snapshot!(failure.message, @"the new text removes 8 lines and has a placeholder where code was: `# ... rest of the code ...`; nothing was changed");
    assert!(staged(&host, "src/main.py").is_none());
    call(&host, edit("    print(\"hello\")\n    return 0\n", "    # ...\n")).expect_err("it drops code too");
    // Nothing is dropped, or the line was there before.
    call(&host, json!({"path": "new.py", "content": content})).expect("a new file has nothing to drop");
    call(&host, edit("import sys\n", "import sys\n# ...\n")).expect("nothing is dropped");
    let host = FakeHost::new(&[("a.py", "# ...\nx = 1\ny = 2\n")]);
    call(&host, json!({"path": "a.py", "content": "# ...\nx = 3\n"})).expect("the line was there before");
}

#[test]
fn no_change_proposes_nothing() {
    let host = host();
    let text = call(&host, json!({"path": "src/main.py", "content": MAIN})).expect("that is no mistake");
    assert_eq!(
        text,
        "`src/main.py` has exactly this content already; nothing was changed."
    );
    assert!(staged(&host, "src/main.py").is_none());
}

#[test]
fn what_cannot_be_written_says_why() {
    let host = host();
    let refused = |arguments: Value| call(&host, arguments).expect_err("it cannot be written");
    let message = |arguments: Value| refused(arguments).message;
    assert_eq!(
        message(json!({"path": "a"})),
        "give exactly one of `content` and `edits`"
    );
    assert_eq!(
        message(json!({"path": "a", "edits": []})),
        "give exactly one of `content` and `edits`"
    );
    let both = json!({"path": "a", "content": "", "edits": [{"old": "a", "new": "b"}]});
    assert_eq!(message(both), "give exactly one of `content` and `edits`");
    assert_eq!(message(json!({"path": "src", "content": ""})), "`src` is a directory");
    assert_eq!(
        message(json!({"path": "new/", "content": ""})),
        "`new/` names a directory, not a file"
    );
    assert_eq!(
        message(json!({"path": "src/main.py/x", "content": ""})),
        "`src/main.py` is a file, so nothing can lie beneath it"
    );
    assert_eq!(
        refused(json!({"path": "../x", "content": ""})).code,
        "invalid-arguments"
    );
    assert_eq!(
        refused(json!({"path": "none", "edits": [{"old": "a", "new": "b"}]})).code,
        "not-found"
    );
    let large = "x".repeat(FILE_BYTES_MAX as usize + 1);
    assert_eq!(refused(json!({"path": "large", "content": large})).code, "limit");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("src/main.py", host.repo().join("link")).expect("the folder is writable");
        assert_eq!(
            message(json!({"path": "link", "content": ""})),
            "`link` is a symbolic link"
        );
    }
}

#[test]
fn a_long_diff_is_cut() {
    let text: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let answer = call(&host(), json!({"path": "long.txt", "content": text})).expect("the file can be made");
    assert!(answer.starts_with("Created `long.txt` (+5000 -0)\n"));
    assert!(answer.ends_with(" more lines of the diff]"));
    assert!(answer.len() < 30_000);
}

#[test]
fn a_file_that_was_not_text() {
    let host = FakeHost::new(&[("a.bin", b"a\0b".as_slice())]);
    let answer = call(&host, json!({"path": "a.bin", "content": "text\n"})).expect("the file can be replaced");
    assert_eq!(answer, "Replaced `a.bin`, which was not text, by 1 line of text.");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// An edit that is accepted does what a replacement of the text would.
    #[test]
    fn an_accepted_edit_replaces_one_text(content in "[ab\n]{0,12}", old in "[ab\n]{1,3}", new in "[abc]{0,3}") {
        let host = FakeHost::new(&[("f", content.as_str())]);
        let places = (0..content.len()).filter(|&at| content[at..].starts_with(&old)).count();
        let answer = call(&host, json!({"path": "f", "edits": [{"old": old, "new": new}]}));
        prop_assert_eq!(answer.is_ok(), places == 1);
        let expected = content.replacen(&old, &new, 1);
        if places == 1 && expected != content {
            prop_assert_eq!(staged(&host, "f"), Some(expected));
        } else {
            prop_assert_eq!(staged(&host, "f"), None);
        }
    }
}

#[path = "../../../tests/fuzz/replay.rs"]
mod replay;

#[test]
fn hostile_edits_change_one_place_or_none() {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    replay::replay(&place, "edits", fuzz::edits);
}
