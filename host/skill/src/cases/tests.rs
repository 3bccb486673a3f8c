use serde_json::json;

use super::*;
use crate::cases::compare::CASE_SHOWN_BYTES_MAX;
use crate::cases::fixture::{CASE_FIXTURE_BYTES_MAX, CASE_FIXTURE_ENTRIES_MAX};

fn parsed(text: &str) -> Result<Vec<SkillCase>, CasesError> {
    parse(Path::new("cases.toml"), text)
}

fn refused(text: &str) -> String {
    parsed(text).expect_err("it is refused").to_string()
}

#[test]
fn cases_are_read_with_all_that_they_may_say() {
    let cases = parsed(
        r#"
        [[case]]
        name = "one"
        arguments = { path = "a", deep = { numbers = [1, 2.5, true], day = 2026-01-02 } }
        allow = ["write-repository"]
        deny = ["read-git"]
        contains = "x"
        lacks = ["y", "z"]
        matches = "^x"
        files = { "a.txt" = "new", "b.txt" = false }

        [[case]]
        name = "two"
        arguments = '{"path": null}'
        fails = "not-found"
        "#,
    )
    .expect("they are right");
    let deep = json!({"numbers": [1, 2.5, true], "day": "2026-01-02"});
    assert_eq!(cases[0].arguments, json!({"path": "a", "deep": deep}));
    assert_eq!(cases[1].arguments, json!({"path": null}));
    assert_eq!(cases[0].expected.lacks.all(), ["y", "z"]);
    assert_eq!(cases[0].expected.files["b.txt"], ProposedContent::Removed(false));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let said: Vec<String> = [
        "",
        "# nothing\n",
        "[[case]\n",
        "[[case]]\narguments = {}\nequals = \"\"\n",
        "[[case]]\nname = \"a\"\n\n[[case]]\nname = \"b\"\nequals = \"x\"\n",
        "[[case]]\nname = \"a\"\nequal = \"x\"\n",
        "[[case]]\nname = \"a\"\nequals = 1\n",
        "[[case]]\nname = \"a\"\ncontains = 1\n",
        "[[case]]\nname = \" \"\nequals = \"x\"\n",
        "[[case]]\nname = \"a\"\nequals = \"x\"\n\n[[case]]\nname = \"a\"\nequals = \"x\"\n",
        "[[case]]\nname = \"a\"\nmatches = \"(\"\n",
        "[[case]]\nname = \"a\"\nequals = \"x\"\nallow = [\"instal\"]\n",
        "[[case]]\nname = \"a\"\nequals = \"x\"\narguments = \"{\"\n",
        "[[case]]\nname = \"a\"\nequals = \"x\"\narguments = 3\n",
        "[[case]]\nname = \"a\"\nfiles = { \"a\" = true }\n",
        "[[case]]\nname = \"a\"\n[case.files]\n\"a\" = \"x\"\n\"b\" = true\n",
        "[[case]]\nname = \"a\"\nfails = \"bogus\"\n",
        "[[case]]\nname = \"a\"\nfails = \"not_found\"\n",
        "[[cases]]\nname = \"a\"\n",
    ]
    .into_iter()
    .map(refused)
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    `cases.toml` holds no case
    `cases.toml` holds no case
    `cases.toml`, line 1: unclosed array table, expected `]`
    `cases.toml`, line 1: missing field `name`
    `cases.toml`, line 1: the case `a` expects nothing: give it `equals`, `contains`, `lacks`, `matches`, `fails` or `files`
    `cases.toml`, line 3: unknown field `equal`, expected one of `name`, `function`, `arguments`, `allow`, `deny`, `equals`, `contains`, `lacks`, `matches`, `fails`, `files`; did you mean `equals`?
    `cases.toml`, line 3: invalid type: integer `1`, expected a string
    `cases.toml`, line 3: expected a text or a list of texts
    `cases.toml`, line 2: a case has an empty name
    `cases.toml`, line 6: a second case is named `a`
    `cases.toml`, line 3: `matches` of the case `a` is no regular expression: error: unclosed group
    `cases.toml`, line 4: Unknown effect `instal`; did you mean `install`? effects are read-repository, write-repository, read-git, commit-git, run-process, install, http:HOST, http-write:HOST, config, secret:NAME, store; commit-git:tainted, install:tainted and http-write:HOST:tainted go further
    `cases.toml`, line 4: `arguments` of the case `a` is not JSON: EOF while parsing an object at line 1 column 1
    `cases.toml`, line 4: `arguments` of the case `a` is neither a table nor the text of a JSON object
    `cases.toml`, line 3: a file of the case `a` is `true`: give its text, or `false` where it is removed
    `cases.toml`, line 5: a file of the case `a` is `true`: give its text, or `false` where it is removed
    `cases.toml`, line 3: `fails` of the case `a` is `bogus`, which no call ends with. The codes are invalid-arguments, not-found, denied, unavailable, limit, failed, timeout, memory, output, read, stage, entries, handles, instances, tables, random, arguments, trap, busy, cancelled, not-ready
    `cases.toml`, line 3: `fails` of the case `a` is `not_found`, which no call ends with; did you mean `not-found`? The codes are invalid-arguments, not-found, denied, unavailable, limit, failed, timeout, memory, output, read, stage, entries, handles, instances, tables, random, arguments, trap, busy, cancelled, not-ready
    `cases.toml`, line 1: unknown field `cases`, expected `case`; did you mean `case`?
    "#);
}

#[test]
fn a_file_of_cases_is_bounded() {
    let case = |number: usize| format!("[[case]]\nname = \"{number}\"\nequals = \"\"\n");
    let most: String = (0..CASES_MAX).map(case).collect();
    assert_eq!(parsed(&most).expect("it is the most").len(), CASES_MAX);
    let refused = refused(&format!("{most}{}", case(CASES_MAX)));
    assert_eq!(refused, "`cases.toml`, line 3001: there are more than 1000 cases");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let long = vec![b'#'; usize::try_from(CASES_BYTES_MAX).expect("it is small") + 2];
    std::fs::write(folder.path().join(FILE), long).expect("it is writable");
    let refused = read_cases(folder.path()).expect_err("it is too long");
    assert!(
        matches!(&refused, CasesError::Io { source, .. } if source.to_string() == "it is larger than 4194304 bytes"),
        "{refused:?}"
    );
}

#[test]
fn what_runs_programs_takes_a_word_beside_the_file() {
    let cases = parsed(
        "[[case]]\nname = \"a\"\nequals = \"\"\nallow = [\"write-repository\", \"install:tainted\"]\n\
         [[case]]\nname = \"b\"\nequals = \"\"\nallow = [\"run-process\"]\n\
         [[case]]\nname = \"c\"\nequals = \"\"\nallow = [\"write-repository\", \"commit-git\"]\ndeny = [\"install\"]\n",
    )
    .expect("they are right");
    let told = |granted: &[Effect]| -> Vec<String> {
        let refused = cases.iter().filter_map(|case| case.check_granted(granted).err());
        refused.map(|error| error.to_string()).collect()
    };
    let (install, run) = (
        "The case `a` allows `install`, which runs programs here and takes your own word",
        "The case `b` allows `run-process`, which runs programs here and takes your own word",
    );
    assert_eq!(told(&[]), [install, run]);
    assert_eq!(told(&[Effect::Install]), [run]);
    assert_eq!(told(&BY_WORD), [""; 0]);
}

#[test]
fn a_fifo_is_no_file_of_cases_and_nobody_waits_for_it() {
    use rustix::fs::{CWD, FileType, mknodat};
    let folder = tempfile::tempdir().expect("a temporary folder");
    mknodat(CWD, folder.path().join(FILE), FileType::Fifo, 0o600.into(), 0).expect("FIFOs can be made");
    let refused = read_cases(folder.path()).expect_err("it is none");
    assert!(
        matches!(&refused, CasesError::Io { source, .. } if source.to_string() == "it is not a file"),
        "{refused:?}"
    );
}

#[test]
fn a_fixture_is_a_folder_and_no_link_to_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(matches!(fixture_in(folder.path()), Ok(None)));
    let (place, other) = (folder.path().join(FIXTURE), folder.path().join("other"));
    std::fs::create_dir(&other).expect("it is writable");
    std::fs::write(other.join("secret.txt"), "x").expect("it is writable");
    std::os::unix::fs::symlink(&other, &place).expect("links can be made");
    let said = || {
        fixture::copy_fixture(folder.path())
            .map(|_| ())
            .expect_err("it is none")
            .to_string()
    };
    assert!(said().ends_with("fixture` is a link: a fixture is a folder of its own beside `cases.toml`"));
    std::fs::remove_file(&place).expect("it is ours");
    std::fs::write(&place, "x").expect("it is writable");
    assert!(said().contains("is no folder"), "{}", said());
    std::fs::remove_file(&place).expect("it is ours");
    std::fs::rename(&other, &place).expect("both are ours");
    assert!(fixture::copy_fixture(folder.path()).is_ok());
}

#[test]
fn a_fixture_is_copied_with_its_links_up_to_a_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fixture = folder.path().join(FIXTURE);
    std::fs::create_dir_all(fixture.join("a")).expect("it is writable");
    std::fs::write(fixture.join("a/b.txt"), "b").expect("it is writable");
    std::os::unix::fs::symlink("a/b.txt", fixture.join("link")).expect("links can be made");
    let copy = fixture::copy_fixture(folder.path()).expect("it is small");
    assert_eq!(
        std::fs::read_to_string(copy.root().join("a/b.txt")).expect("it is there"),
        "b"
    );
    assert!(copy.root().join("link").is_symlink());
    let none = fixture::copy_fixture(&folder.path().join("nowhere")).expect("nothing is an empty repository");
    assert_eq!(std::fs::read_dir(none.root()).expect("it is there").count(), 0);

    // Nothing of a file that only claims its size is copied.
    let large = std::fs::File::create(fixture.join("large")).expect("it is writable");
    large.set_len(CASE_FIXTURE_BYTES_MAX).expect("holes take no room");
    let said = |folder: &Path| {
        fixture::copy_fixture(folder)
            .map(|_| ())
            .expect_err("it is too large")
            .to_string()
    };
    let told = said(folder.path());
    assert!(told.contains("more than 256 MiB"), "{told}");
    let many = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(many.path().join(FIXTURE)).expect("it is writable");
    for number in 0..=CASE_FIXTURE_ENTRIES_MAX {
        std::fs::write(many.path().join(FIXTURE).join(number.to_string()), "").expect("it is writable");
    }
    let told = said(many.path());
    assert!(told.contains("more than 10000 files and folders"), "{told}");
}

#[test]
fn what_came_is_compared_with_what_is_expected() {
    let case = |text: &str| {
        parsed(&format!("[[case]]\nname = \"a\"\n{text}"))
            .expect("it is right")
            .remove(0)
    };
    let came = |verdict: &str, text: &str, files: &[(&str, Option<&str>)]| {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.map(str::to_owned)));
        ActualOutcome::of(verdict, text, files.collect())
    };
    let answer = came("ok", "one\ntwo\n", &[]);
    let changed = came("ok", "", &[("a", Some("1\n")), ("b", None)]);
    let failed = came("not-found", "no such file\nhint: look", &[]);
    let cases = [
        ("equals = \"one\\ntwo\"", &answer),
        ("equals = \"one\\nthree\"", &answer),
        (
            "contains = [\"one\", \"three\"]\nlacks = \"two\"\nmatches = \"^three\"",
            &answer,
        ),
        ("fails = \"denied\"", &answer),
        ("fails = \"denied\"", &failed),
        ("fails = \"not-found\"\ncontains = \"hint: look\"", &failed),
        ("contains = \"one\"", &failed),
        ("files = { a = \"1\\n\", b = false }", &changed),
        ("files = { a = false, b = \"\", c = \"\" }", &changed),
        ("equals = \"\"", &changed),
        ("files = { a = \"2\\n\", b = false }", &changed),
    ];
    let said: Vec<String> = cases
        .map(|(text, came)| {
            format!(
                "{text:?}\n{}\n",
                compare::find_differences(&case(text).expected, came).join("\n")
            )
        })
        .into();
    insta::assert_snapshot!(said.join("\n"), @r#"
    "equals = \"one\\ntwo\""


    "equals = \"one\\nthree\""
    the answer is another one:
    --- expected
    +++ got
    @@ -1,2 +1,2 @@
     one
    -three
    +two

    "contains = [\"one\", \"three\"]\nlacks = \"two\"\nmatches = \"^three\""
    the answer lacks `three`: one
    two

    the answer holds `two`: one
    two

    the answer does not match `^three`: one
    two


    "fails = \"denied\""
    a failure with `denied` was expected, and the call answered: one
    two


    "fails = \"denied\""
    a failure with `denied` was expected, and it is `not-found`: no such file
    hint: look

    "fails = \"not-found\"\ncontains = \"hint: look\""


    "contains = \"one\""
    an answer was expected, and the call failed with `not-found`: no such file
    hint: look

    "files = { a = \"1\\n\", b = false }"


    "files = { a = false, b = \"\", c = \"\" }"
    `a` was expected to be removed, and is there
    `b` was expected to be there, and was removed
    `c` was expected to be changed, and was not

    "equals = \"\""
    `a` was changed, and the case does not say so
    `b` was changed, and the case does not say so

    "files = { a = \"2\\n\", b = false }"
    `a` holds something else:
    --- expected
    +++ got
    @@ -1,2 +1,2 @@
    -2
    +1
    "#);
    let long = came("ok", &"x".repeat(CASE_SHOWN_BYTES_MAX + 1), &[]);
    let said = compare::find_differences(&case("contains = \"y\"").expected, &long).join("\n");
    assert!(
        said.len() < CASE_SHOWN_BYTES_MAX + 100 && said.ends_with('…'),
        "{}",
        said.len()
    );
}
