use std::fs;
use std::sync::Arc;

use super::*;
use tool_repository::Options;

fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, Arc<Repository>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (path, content) in files {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().expect("it has one")).expect("the folder is ours");
        fs::write(place, content).expect("the folder is ours");
    }
    let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
    (folder, repository)
}

fn line(files: &[(&str, &str)], text: &str) -> String {
    let (_folder, repository) = repository(files);
    let checked = check_citations(text, &repository, &CancellationToken::new()).expect("it can be listed");
    checked.line()
}

const FILES: [(&str, &str); 9] = [
    ("src/a.py", "1\n2\n3\n"),
    ("src/b.py", "1\n2\n3"),
    ("src/core/only.py", "1\r\n2\r\n"),
    ("src/util.py", "1\n"),
    ("tests/util.py", "1\n2\n"),
    ("empty.py", ""),
    ("bin/tool", "#!\n"),
    ("src/thing", "a file without a known sort\n"),
    (".env", "A=1\n"),
];

#[test]
fn a_path_with_spaces_is_the_file_of_that_name() {
    const SPACED: [(&str, &str); 3] = [
        ("src/my file.py", "1\n2\n"),
        ("My notes (old)/to do.md", "1\n"),
        ("file.py", "1\n2\n3\n4\n"),
    ];
    for text in [
        "`src/my file.py:1`",
        "`src/my file.py`:2",
        "(src/my file.py:1-2)",
        "\"src/my file.py:2\"",
        "as 'src/my file.py' line 2 has it",
        "It is done in src/my file.py:1.",
        "**My notes (old)/to do.md:1**",
        "see file.py:4",
    ] {
        assert_eq!(line(&SPACED, text), "0 citations hold, 1 not checked.", "{text}");
    }
    insta::assert_snapshot!(
        ["`src/my file.py:3`", "the other file.py:5"].map(|text| line(&SPACED, text)).join("\n"),
        @"
    0 citations hold, 1 wrong: `src/my file.py:3` (the file has 2 lines).
    0 citations hold, 1 wrong: `file.py:5` (the file has 4 lines).
    "
    );
}

#[test]
fn a_path_with_signs_is_the_file_of_that_name() {
    const NAMES: [&str; 12] = [
        "src copy/util (1).ts",
        "@scope/a,b.ts",
        "it's.py",
        "a#b.py",
        "a+b=c.py",
        "x:y.py",
        "a!b.py",
        "a~b.py",
        "a;b.py",
        "a&b.tsx",
        "{id}.py",
        "%5B.tsx",
    ];
    let files = NAMES.map(|name| (name, "1\n"));
    for name in NAMES {
        for text in [
            format!("`{name}:1`"),
            format!("`{name}`:1"),
            format!("It is done in {name}:1."),
        ] {
            assert_eq!(line(&files, &text), "0 citations hold, 1 not checked.", "{text}");
        }
    }
    assert!(line(&files, "`isn't.py:1`").starts_with("0 citations hold, 1 wrong"));
}

#[test]
fn a_line_holds_from_the_first_to_the_last() {
    for text in [
        "src/a.py:1",
        "src/a.py:3",
        "src/b.py:3",
        "src/a.py:1-3",
        "src/a.py#L2-L3",
        "./src//a.py:2",
        "[a](src/a.py#L3)",
        "src\\a.py:1",
        "`src/a.py`:3",
        "src/a.py (lines 1-3)",
        "`a.py`: 3",
        "bin/tool line 1",
    ] {
        assert_eq!(line(&FILES, text), "0 citations hold, 1 not checked.", "{text}");
    }
    insta::assert_snapshot!(
        ["src/a.py:4", "src/a.py:0", "src/a.py:0-2", "src/a.py:3-2", "src/a.py:2-4", "src/b.py:4", "empty.py:1",
         "src/util.py:2", "src/a.py:99999999999999999999", "`src/a.py`:4", "src/a.py line 4", "src/a.py:1,99",
         "a.py: 4", "src/a.py:1 to 4"]
            .map(|text| line(&FILES, text))
            .join("\n"),
        @"
        0 citations hold, 1 wrong: `src/a.py:4` (the file has 3 lines).
        0 citations hold, 1 wrong: `src/a.py:0` (lines are counted from 1).
        0 citations hold, 1 wrong: `src/a.py:0-2` (lines are counted from 1).
        0 citations hold, 1 wrong: `src/a.py:3-2` (the range ends before it begins).
        0 citations hold, 1 wrong: `src/a.py:2-4` (the file has 3 lines).
        0 citations hold, 1 wrong: `src/b.py:4` (the file has 3 lines).
        0 citations hold, 1 wrong: `empty.py:1` (the file is empty).
        0 citations hold, 1 wrong: `src/util.py:2` (the file has 1 line).
        0 citations hold, 1 wrong: `src/a.py:18446744073709551615` (the file has 3 lines).
        0 citations hold, 1 wrong: `src/a.py:4` (the file has 3 lines).
        0 citations hold, 1 wrong: `src/a.py:4` (the file has 3 lines).
        0 citations hold, 1 not checked, 1 wrong: `src/a.py:99` (the file has 3 lines).
        0 citations hold, 1 wrong: `a.py:4` (the file has 3 lines).
        0 citations hold, 1 wrong: `src/a.py:1-4` (the file has 3 lines).
        "
    );
}

#[test]
fn what_is_not_there_or_not_to_be_seen_does_not_hold() {
    insta::assert_snapshot!(
        ["src/none.py:1", ".env:1", "../a.py:1", "/etc/hosts.conf:1", "/etc/passwd:1", "C:\\a.py:1", "src/core.py:1", "node.d/x.py:2"]
            .map(|text| line(&FILES, text))
            .join("\n"),
        @"
        0 citations hold, 1 wrong: `src/none.py:1` (there is no such file).
        0 citations hold, 1 wrong: `.env:1` (it holds environment variables, which are often secrets).
        0 citations hold, 1 wrong: `../a.py:1` (it lies outside the repository).
        0 citations hold, 1 wrong: `/etc/hosts.conf:1` (it lies outside the repository).
        0 citations hold, 1 wrong: `/etc/passwd:1` (it lies outside the repository).
        0 citations hold, 1 wrong: `/a.py:1` (it lies outside the repository).
        0 citations hold, 1 wrong: `src/core.py:1` (there is no such file).
        0 citations hold, 1 wrong: `node.d/x.py:2` (there is no such file).
        "
    );
}

#[test]
fn a_name_without_its_folder_holds_where_only_one_file_ends_so() {
    assert_eq!(line(&FILES, "only.py:2"), "0 citations hold, 1 not checked.");
    assert_eq!(line(&FILES, "core/only.py:2"), "0 citations hold, 1 not checked.");
    insta::assert_snapshot!(
        ["only.py:3", "nly.py:1", "util.py:1", "re/only.py:1"].map(|text| line(&FILES, text)).join("\n"),
        @"
        0 citations hold, 1 wrong: `only.py:3` (the file has 2 lines).
        0 citations hold, 1 wrong: `nly.py:1` (there is no such file).
        0 citations hold, 1 wrong: `util.py:1` (2 files end in that name, such as `src/util.py` and `tests/util.py`).
        0 citations hold, 1 wrong: `re/only.py:1` (there is no such file).
        "
    );
    let exact_first = [("util.py", "1\n"), ("src/util.py", "1\n2\n")];
    assert_eq!(line(&exact_first, "util.py:1"), "0 citations hold, 1 not checked.");
    assert_eq!(
        line(&exact_first, "util.py:2"),
        "0 citations hold, 1 wrong: `util.py:2` (the file has 1 line)."
    );
}

#[test]
fn what_only_looks_like_a_citation_counts_where_there_is_such_a_file() {
    assert_eq!(
        line(&FILES, "bin/tool:1 and localhost:8000 at 12:30"),
        "0 citations hold, 1 not checked."
    );
    assert_eq!(
        line(&FILES, "thing:9"),
        "0 citations hold, 1 wrong: `thing:9` (the file has 1 line)."
    );
    let none = "No citations: this answer names no place in the repository by which it could be checked.";
    assert_eq!(line(&FILES, "localhost:8000, see http://host/a.py:12"), none);
    assert_eq!(line(&FILES, "src:1 core:2"), none);
    assert_eq!(line(&FILES, "none.py: 4, `a.py`: 4 functions, /health:80"), none);
}

#[test]
fn each_place_counts_once_and_a_long_list_is_cut() {
    assert_eq!(
        line(&FILES, "src/a.py:1 `src/a.py:1` src/a.py#L1 src/a.py:2"),
        "0 citations hold, 2 not checked."
    );
    let many: Vec<String> = (1..=CITATIONS_NAMED_MAX + 5).map(|n| format!("no{n}.py:1")).collect();
    let line = line(&FILES, &many.join(" "));
    assert!(
        line.starts_with("0 citations hold, 25 wrong: `no1.py:1` (there is no such file), "),
        "{line}"
    );
    assert!(line.ends_with(" and 5 more."), "{line}");
}

#[test]
fn an_ignored_file_exists_and_is_not_found_by_its_name_alone() {
    let files = [
        (".gitignore", "out/\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("out/made.py", "1\n"),
    ];
    assert_eq!(line(&files, "out/made.py:1"), "0 citations hold, 1 not checked.");
    assert_eq!(
        line(&files, "made.py:1"),
        "0 citations hold, 1 wrong: `made.py:1` (there is no such file)."
    );
}

#[test]
fn a_citation_holds_if_its_lines_contain_what_the_sentence_claims() {
    let files = [
        (
            "shop.py",
            "LIMIT = 50\n\nclass Shop:\n    def open(self):\n        raise Error(\"it is late\")\n",
        ),
        ("long.py", "x\n"),
    ];
    insta::assert_snapshot!(
        [
            "`Shop` is in shop.py:3 and opens in `Shop.open()` (shop.py:4-5).",
            "The limit is 50 (shop.py:1), the error says \"it is late\" (shop.py:5).",
            "The limit is 60 (shop.py:1). `Market` is in shop.py:3. It says \"too late\" at shop.py:1-5.",
            "See shop.py:1. The class shop.py:3 is `Shop`.",
            "`Shop` is in shop.py:3. `Market` is in shop.py:3.",
            "`open` is in long.py:2.",
        ]
        .map(|text| line(&files, text))
        .join("\n"),
        @"
    2 citations hold.
    2 citations hold.
    0 citations hold, 3 wrong: `shop.py:1` (the line does not contain `60`), `shop.py:3` (the line does not contain `Market`), `shop.py:1-5` (the lines do not contain `too late`).
    1 citation holds, 1 not checked.
    0 citations hold, 1 wrong: `shop.py:3` (the line does not contain `Market`).
    0 citations hold, 1 wrong: `long.py:2` (the file has 1 line).
    "
    );
}

const SHOP: [(&str, &str); 4] = [
    (
        "src/a.py",
        "import lib\n\n\nclass Cart:\n    def add(self, item):\n        self.items.append(item)\n\n\n\
         def price_of(item):\n    return item.price\n",
    ),
    (
        "src/b.py",
        "from src.a import Cart\n\n\n@app.get(\"/users/<name>\")\ndef user(name):\n    return name\n\n\n\
         @app.get(\"/items\")\ndef items():\n    return []\n",
    ),
    ("lib/helper.py", "def total(items):\n    return sum(items)\n"),
    ("README.md", "# Shop\n"),
];

fn shop_lines(texts: &[&str]) -> String {
    let (_folder, repository) = repository(&SHOP);
    let line = |text: &&str| {
        check_citations(text, &repository, &CancellationToken::new())
            .expect("it can be listed")
            .line()
    };
    texts.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn true_sentences_of_any_form_hold() {
    insta::assert_snapshot!(
        shop_lines(&[
            "`src/a.py:4` defines `Cart`.",
            "In `src/a.py:4`, `Cart` is defined.",
            "`Cart` (`src/a.py:4`) and `price_of` (`src/a.py`:9).",
            "src/a.py:4 (`Cart`), src/a.py:9 (`price_of`), lib/helper.py:1 (`total`)",
            "`src/a.py:4` (`Cart`) and `lib/helper.py:1` (`total()`)",
            "`src/a.py:4` defines `Cart`, and `src/a.py:9` defines `price_of`.",
            "src/a.py:4 defines `Cart`, and the project is called a shop in README.md:1.",
            "The entry is README.md:1, `Cart` is in src/a.py:4, and all use `total`.",
            "Unlike `Wagon`, src/a.py:4 defines `Cart`.",
            "| name | place | used by |\n|---|---|---|\n| `Cart` | src/a.py:4 | `user` in src/b.py:5 |\n| `total` | lib/helper.py:1 | |",
            "`Cart` and `add` are defined in [src/a.py:4-5](src/a.py#L4-L5).",
            "- `price_of()` — `src/a.py:9-10`",
            "`Cart` is in src/a.py:4 (which `main` builds).",
            "- call: `npm total`: `total(items)` (lib/helper.py:1)",
            "`GET /users/<name>` is at src/b.py:4 and `/items/` at src/b.py:9.",
            "- `` item = `item` `` (src/a.py:9)",
        ]),
        @"
        1 citation holds.
        1 citation holds.
        2 citations hold.
        3 citations hold.
        2 citations hold.
        2 citations hold.
        1 citation holds, 1 not checked.
        1 citation holds, 1 not checked.
        0 citations hold, 1 not checked.
        3 citations hold.
        1 citation holds.
        1 citation holds.
        1 citation holds.
        1 citation holds.
        2 citations hold.
        1 citation holds.
        "
    );
}

#[test]
fn false_sentences_of_any_form_are_wrong() {
    insta::assert_snapshot!(
        shop_lines(&[
            "`src/a.py:4` defines `Nope`.",
            "In `src/a.py:4`, `Nope` is defined.",
            "src/a.py:4 (`Nope`), src/a.py:9 (`Cart`)",
            "| symbol | place |\n|---|---|\n| `Nope` | src/a.py:1 |\n| `Cart` | src/a.py:4 |",
            "| place | symbol |\n|---|---|\n| `src/a.py:1` | `Nope` |",
            "`/users/<name>` (src/b.py:10)",
            "`GET /items` (src/b.py:1)",
            "`Cart` and `Wagon` are defined in src/a.py:4.",
            "`src/a.py:4` defines `Cart` and `Wagon`.",
        ]),
        @"
        0 citations hold, 1 wrong: `src/a.py:4` (the line does not contain `Nope`).
        0 citations hold, 1 wrong: `src/a.py:4` (the line does not contain `Nope`).
        0 citations hold, 2 wrong: `src/a.py:4` (the line does not contain `Nope`), `src/a.py:9` (the line does not contain `Cart`).
        1 citation holds, 1 wrong: `src/a.py:1` (the line does not contain `Nope`).
        0 citations hold, 1 wrong: `src/a.py:1` (the line does not contain `Nope`).
        0 citations hold, 1 wrong: `src/b.py:10` (the line does not contain `/users/<name>`).
        0 citations hold, 1 wrong: `src/b.py:1` (the line does not contain `/items`).
        0 citations hold, 1 wrong: `src/a.py:4` (the line does not contain `Wagon`).
        0 citations hold, 1 wrong: `src/a.py:4` (the line does not contain `Wagon`).
        "
    );
}

#[test]
fn a_sentence_that_is_true_or_false_only_in_part_is_not_checked() {
    insta::assert_snapshot!(
        shop_lines(&[
            "`Cart` uses `total` (src/a.py:4).",
            "`Cart` is limited to 60 (src/a.py:4).",
            "`Cart` and `Wagon` are defined in src/a.py:4 and src/b.py:9.",
            "The module `lib` (lib/helper.py:1)",
            "The file `helper` of `lib` (lib/helper.py:1)",
            "There is no `timeout` in src/a.py:4-9.",
            "The folder `/src` (src/b.py:1)",
            "`/users/<name>/orders` (src/b.py:4)",
            "The list of `/lib/summary` is made in lib/helper.py:2.",
        ]),
        @"
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked, 1 wrong: `src/b.py:9` (the line does not contain `Cart`).
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        0 citations hold, 1 not checked.
        "
    );
}

#[test]
fn an_absolute_path_within_the_repository_is_read_from_its_root() {
    let (folder, repository) = repository(&[("src/my file.py", "class Cart:\n"), ("a.py", "x = 1\n")]);
    let root = folder.path().canonicalize().expect("it is there");
    let text = format!(
        "`Cart` is in `{root}/src/my file.py:1`, and x in {root}/a.py:2. Its root is `{root}` (a.py:1). See {root}2/a.py:1.",
        root = root.display()
    );
    let checked = check_citations(&text, &repository, &CancellationToken::new()).expect("it can be listed");
    insta::assert_snapshot!(checked.line().replace(&root.display().to_string(), "ROOT"), @"1 citation holds, 1 not checked, 2 wrong: `a.py:2` (the file has 1 line), `ROOT2/a.py:1` (it lies outside the repository).");
}

#[test]
fn a_check_can_be_cancelled() {
    let (_folder, repository) = repository(&FILES);
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(check_citations("src/a.py:1", &repository, &cancel).is_err());
}

#[test]
fn a_place_beyond_the_bytes_that_are_read_is_not_checked() {
    let (_folder, repository) = repository(&FILES);
    let cancel = CancellationToken::new();
    let read = |bytes_left, line| {
        let mut files = CitedFiles::new(&repository, std::iter::empty(), &cancel);
        files.bytes_left = bytes_left;
        let beginning = files.beginning("src/a.py".to_owned(), line);
        (beginning, files.bytes_left)
    };
    for (bytes, line, expected) in [(3, 3, false), (5, 3, false), (3, 2, false), (4, 2, true), (7, 3, true)] {
        let (beginning, _) = read(bytes, line);
        assert_eq!(beginning.is_ok(), expected, "line {line} within {bytes} bytes");
    }
    let (beginning, left) = read(3, 3);
    assert!(matches!(beginning, Err(MissingFile::Unread)));
    assert_eq!(left, 0);
    let (citations, _) = citations::parse("`Cart` is in src/a.py:3.");
    let claims = claims_of("`Cart` is in src/a.py:3.", &citations, &|_| false);
    assert_eq!(
        judge_citation(&citations[0], &claims[0], &beginning, &mut 1000),
        CitationVerdict::NotChecked
    );
}

#[test]
fn all_that_is_read_of_cited_files_is_bounded() {
    let (_folder, repository) = repository(&FILES);
    let cancel = CancellationToken::new();
    let files = CitedFiles::new(&repository, std::iter::empty(), &cancel);
    assert_eq!(files.bytes_left, CITED_BYTES_MAX);
}

#[test]
fn the_tree_is_listed_only_for_a_citation_that_names_no_file_by_its_whole_path() {
    let (_folder, repository) = repository(&FILES);
    let cancel = CancellationToken::new();
    let mut files = CitedFiles::new(&repository, ["src/a.py", "a.py"].into_iter(), &cancel);
    assert!(matches!(files.resolve("src/a.py"), Ok(Ok(_))));
    assert!(!files.is_listed);
    assert!(matches!(files.resolve("a.py"), Ok(Ok(_))));
    assert!(files.is_listed);
}

#[test]
fn no_more_lines_are_compared_than_take_seconds() {
    let data = "12 34 56 78\n".repeat(200_000);
    let files = [("a.txt", "x = 99\n"), ("data.txt", data.as_str())];
    let all = "It waits 1234 seconds in data.txt:1-200000. ".repeat(40);
    let text = format!("{all}It waits 99 seconds in a.txt:1.");
    let (_folder, repository) = repository(&files);
    let checked = check_citations(&text, &repository, &CancellationToken::new()).expect("it can be listed");
    let verdict = |at: usize| &checked.citations[at].1;
    assert!(
        matches!(verdict(0), CitationVerdict::Unsupported(_)),
        "{:?}",
        verdict(0)
    );
    assert_eq!(
        [verdict(39), verdict(40)],
        [&CitationVerdict::NotChecked, &CitationVerdict::Holds]
    );
}
