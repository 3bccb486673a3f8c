use serde_json::json;

use super::*;

fn parsed(text: &str) -> Result<Vec<Case>, CasesError> {
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
    let arguments = |at: usize| cases[at].arguments().expect("they are right");
    let deep = json!({"numbers": [1, 2.5, true], "day": "2026-01-02"});
    assert_eq!(arguments(0), json!({"path": "a", "deep": deep}));
    assert_eq!(arguments(1), json!({"path": null}));
    assert_eq!(cases[0].lacks.all(), ["y", "z"]);
    assert_eq!(cases[0].files["b.txt"], Proposed::Removed(false));
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
    `cases.toml`, line 3: unknown field `equal`, expected one of `name`, `arguments`, `allow`, `deny`, `equals`, `contains`, `lacks`, `matches`, `fails`, `files`; did you mean `equals`?
    `cases.toml`, line 3: invalid type: integer `1`, expected a string
    `cases.toml`, line 3: expected a text or a list of texts
    `cases.toml`, line 1: a case has an empty name
    `cases.toml`, line 5: a second case is named `a`
    `cases.toml`, line 1: `matches` of the case `a` is no regular expression: error: unclosed group
    `cases.toml`, line 1: Unknown effect `instal`; did you mean `install`? effects are read-repository, write-repository, read-git, commit-git, run-process, install; commit-git:tainted and install:tainted go further
    `cases.toml`, line 1: `arguments` of the case `a` is not JSON: EOF while parsing an object at line 1 column 1
    `cases.toml`, line 1: `arguments` of the case `a` is neither a table nor the text of a JSON object
    `cases.toml`, line 1: a file of the case `a` is `true`: give its text, or `false` where it is removed
    `cases.toml`, line 1: unknown field `cases`, expected `case`; did you mean `case`?
    "#);
}

#[test]
fn a_file_of_cases_is_bounded() {
    let case = |number: usize| format!("[[case]]\nname = \"{number}\"\nequals = \"\"\n");
    let most: String = (0..limits::CASES_MAX).map(case).collect();
    assert_eq!(parsed(&most).expect("it is the most").len(), limits::CASES_MAX);
    let refused = refused(&format!("{most}{}", case(limits::CASES_MAX)));
    assert_eq!(refused, "`cases.toml`, line 3001: there are more than 1000 cases");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let long = vec![b'#'; usize::try_from(limits::CASES_BYTES_MAX).expect("it is small") + 2];
    std::fs::write(folder.path().join(FILE), long).expect("it is writable");
    let refused = read(folder.path()).expect_err("it is too long").to_string();
    assert!(
        refused.ends_with("line 1: the file is longer than 4194304 bytes"),
        "{refused}"
    );
}

#[test]
fn a_fixture_is_copied_with_its_links_up_to_a_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fixture = folder.path().join(FIXTURE);
    std::fs::create_dir_all(fixture.join("a")).expect("it is writable");
    std::fs::write(fixture.join("a/b.txt"), "b").expect("it is writable");
    std::os::unix::fs::symlink("a/b.txt", fixture.join("link")).expect("links can be made");
    let copy = fixture::copy(&fixture).expect("it is small");
    assert_eq!(
        std::fs::read_to_string(copy.root().join("a/b.txt")).expect("it is there"),
        "b"
    );
    assert!(copy.root().join("link").is_symlink());
    let none = fixture::copy(&folder.path().join("nowhere")).expect("nothing is an empty repository");
    assert_eq!(std::fs::read_dir(none.root()).expect("it is there").count(), 0);

    // Nothing of a file that only claims its size is copied.
    let large = std::fs::File::create(fixture.join("large")).expect("it is writable");
    large
        .set_len(limits::CASE_FIXTURE_BYTES_MAX)
        .expect("holes take no room");
    let said = |fixture: &Path| {
        fixture::copy(fixture)
            .map(|_| ())
            .expect_err("it is too large")
            .to_string()
    };
    assert!(said(&fixture).contains("more than 256 MiB"), "{}", said(&fixture));
    let many = folder.path().join("many");
    std::fs::create_dir(&many).expect("it is writable");
    for number in 0..=limits::CASE_FIXTURE_ENTRIES_MAX {
        std::fs::write(many.join(number.to_string()), "").expect("it is writable");
    }
    assert!(
        said(&many).contains("more than 10000 files and folders"),
        "{}",
        said(&many)
    );
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
        Came::of(verdict, text, files.collect())
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
        .map(|(text, came)| format!("{text:?}\n{}\n", compare::differences(&case(text), came).join("\n")))
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
    let long = came("ok", &"x".repeat(limits::CASE_SHOWN_BYTES_MAX + 1), &[]);
    let said = compare::differences(&case("contains = \"y\""), &long).join("\n");
    assert!(
        said.len() < limits::CASE_SHOWN_BYTES_MAX + 100 && said.ends_with('…'),
        "{}",
        said.len()
    );
}
