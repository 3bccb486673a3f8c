use proptest::prelude::*;
use skill_sdk::testing::FakeHost;

use super::*;

fn host(settings: &[(&str, &str)], path: &str) -> FakeHost {
    let host = FakeHost::new(settings);
    host.write(path, b"");
    host
}

/// Encoding, evidence and text of a file in a repository with these settings.
#[track_caller]
fn said(settings: &[(&str, &str)], path: &str, bytes: &[u8]) -> String {
    let host = host(settings, path);
    read_text(&host, path, bytes).map_or_else(
        || "unknown".to_owned(),
        |found| format!("{} {:?}: {}", found.encoding, found.evidence, found.text.trim_end()),
    )
}

#[test]
fn what_a_file_declares_is_believed_where_it_gives_the_same_bytes() {
    for (path, bytes, wanted) in [
        (
            "a.py",
            &b"# -*- coding: latin-1 -*-\ncaf\xe9"[..],
            "Latin-1 Declared: # -*- coding: latin-1 -*-\ncafé",
        ),
        (
            "a.rb",
            b"#!/usr/bin/ruby\n# encoding: koi8-r\n\xc1",
            "KOI8-R Declared: #!/usr/bin/ruby\n# encoding: koi8-r\nа",
        ),
        ("a.py", b"coding = 'latin-1'\n\xc1\xa1\xc2\xa1", "UTF-8"),
        (
            "a.xml",
            b"<?xml version='1.0' encoding='Shift_JIS'?>\x83e",
            "Shift_JIS Declared: <?xml version='1.0' encoding='Shift_JIS'?>テ",
        ),
        (
            "a.html",
            b"<meta charset=\"iso-8859-1\">\x80",
            "windows-1252 Declared: <meta charset=\"iso-8859-1\">€",
        ),
        ("a.css", b"@charset \"gbk\";\xc4\xa3", "UTF-8"),
        (
            "a.css",
            b"@charset \"gbk\";\xc4\xe3",
            "GBK Declared: @charset \"gbk\";你",
        ),
        // What is valid UTF-8 is nothing else.
        (
            "a.py",
            "# coding: latin-1\né".as_bytes(),
            "UTF-8 Bytes: # coding: latin-1\né",
        ),
    ] {
        let found = said(&[], path, bytes);
        if wanted == "UTF-8" {
            assert!(!found.contains("Declared"), "{found}");
        } else {
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn the_settings_of_a_repository_count() {
    let editor = [(
        ".editorconfig",
        "root = true\n[*.txt]\ncharset = latin1\n[*.rc]\nCharset=utf-16le\n",
    )];
    assert_eq!(said(&editor, "d/a.txt", b"\x80"), "Latin-1 Declared: \u{80}");
    assert_eq!(said(&editor, "d/a.txt", b"ascii"), "Latin-1 Declared: ascii");
    assert_eq!(said(&editor, "a.rc", b"h\0i\0"), "UTF-16LE Declared: hi");
    assert_eq!(said(&editor, "a.bin", b"h\0i\0"), "UTF-8 Bytes: h\0i\0");
    let git = [(
        ".gitattributes",
        "*.txt text working-tree-encoding=SHIFT-JIS eol=crlf\n",
    )];
    assert_eq!(said(&git, "a.txt", b"\x83e"), "Shift_JIS Declared: テ");
}

#[test]
fn patterns_of_settings_count_for_new_files() {
    let long = format!("d/{}", "a".repeat(200));
    for (pattern, path, fits) in [
        ("*.txt", "d/é.txt", true),
        ("*.txt", "d/é.rs", false),
        ("d/*.txt", "d/e/a.txt", false),
        ("d/**.txt", "d/e/a.txt", true),
        ("/d/*/?.{rs,txt}", "d/e/a.txt", true),
        ("/d/*/?.{rs,txt}", "d/e/a.toml", false),
        ("{a*,b}{1,2}.txt", "abc2.txt", true),
        ("{a*,b}{1,2}.txt", "bc2.txt", false),
        ("a{b", "a{b", true),
        // Exponential time if one way after the other was tried.
        (format!("{}b", "**a".repeat(40)).as_str(), long.as_str(), false),
        (format!("{}b", "*a".repeat(40)).as_str(), long.as_str(), false),
        (format!("{}b", "{a,a}".repeat(60)).as_str(), long.as_str(), false),
        (format!("{}*", "{a,a}".repeat(60)).as_str(), long.as_str(), true),
    ] {
        let settings = format!("[{pattern}]\ncharset = latin1\n");
        let host = FakeHost::new(&[(".editorconfig", &settings)]);
        let expected = fits.then_some((Encoding::Latin1, false));
        assert_eq!(of_new_file(&host, path), expected, "{pattern} and {path}");
    }
}

#[test]
fn without_a_declaration_an_encoding_is_guessed() {
    let sjis = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。").0;
    let gbk = encoding_rs::GBK.encode("这是一个用中文写的文件。").0;
    for (bytes, encoding) in [
        (&b"caf\xe9 na\xefve"[..], "Latin-1"),
        (b"\x93quoted\x94 and \x97", "windows-1252"),
        (&sjis, "Shift_JIS"),
        (&gbk, "GBK"),
        (b"\xff\xfeh\0\xe9\0", "UTF-16LE"),
    ] {
        let found = said(&[], "a.txt", bytes);
        assert!(found.starts_with(&format!("{encoding} ")), "{encoding}: {found}");
    }
    // Text in UTF-8 with one broken place, and UTF-16 that is cut.
    assert_eq!(
        said(
            &[],
            "a.txt",
            "é è ü \u{20ac}"
                .as_bytes()
                .iter()
                .copied()
                .chain([0xff])
                .collect::<Vec<_>>()
                .as_slice()
        ),
        "unknown"
    );
    assert_eq!(said(&[], "a.txt", b"\xff\xfeh"), "unknown");
}

#[test]
fn a_character_that_an_encoding_does_not_have_is_named() {
    assert_eq!(Encoding::Latin1.encode("a€b"), Err('€'));
    assert_eq!(Encoding::Legacy(encoding_rs::SHIFT_JIS).encode("テ😀"), Err('😀'));
}

proptest! {
    #[test]
    fn what_is_found_gives_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let host = FakeHost::new::<&str, &str>(&[]);
        if let Some(found) = read_text(&host, "a.txt", &bytes) {
            let encoded = found.encoding.encode(&found.text);
            prop_assert_eq!(encoded.as_deref(), Ok(&*bytes));
        }
    }
}
