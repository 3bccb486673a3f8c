//! The twelve built-in skills on a real Python and a real npm repository, through the real binary.

use std::path::Path;

use serde_json::Value;

use crate::support::{Finished, Home, fixture, folder, git, holds};

fn call(home: &Home, repository: &Path, skill: &str, arguments: &str, flags: &[&str]) -> Finished {
    home.run(repository, &[&["skill", "call", skill, arguments], flags].concat())
}

/// Returns the output of a call that must work.
#[track_caller]
fn answer(home: &Home, repository: &Path, skill: &str, arguments: &str, flags: &[&str]) -> String {
    call(home, repository, skill, arguments, flags).expect(0).stdout
}

#[test]
fn all_twelve_work_on_a_python_repository() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let root = repository.path();
    git(root, &["init", "--quiet"]);
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", "Start"]);

    let text = answer(&home, root, "list_files", r#"{"path": "src/click"}"#, &[]);
    holds(&text, &["src/click/core.py\t", "17 files"]);
    let text = answer(
        &home,
        root,
        "read_file",
        r#"{"path": "src/click/parser.py", "offset": 111, "limit": 2}"#,
        &[],
    );
    holds(&text, &["   111\tdef split_opt(opt: str)", "   112\t"]);
    let text = answer(&home, root, "search_code", r#"{"pattern": "^class Option\\b"}"#, &[]);
    holds(
        &text,
        &[
            "src/click/core.py:2452:class Option(Parameter):",
            "2 matches in 2 files",
        ],
    );
    let text = answer(
        &home,
        root,
        "find_references",
        r#"{"symbol": "split_opt", "path": "src"}"#,
        &[],
    );
    holds(&text, &["src/click/parser.py:111: definition:", ": import:", ": call:"]);
    let text = answer(
        &home,
        root,
        "explain_function",
        r#"{"name": "OptionParser.add_option"}"#,
        &[],
    );
    holds(
        &text,
        &["method: ", "signature: def add_option(", "in class: OptionParser"],
    );
    let text = answer(&home, root, "analyze_dependencies", "{}", &[]);
    holds(&text, &["colorama", "pyproject.toml:17", "requirements/dev.txt"]);

    let text = answer(
        &home,
        root,
        "run_tests",
        r#"{"paths": ["tests/test_parser.py"]}"#,
        &["--allow", "run-process"],
    );
    holds(&text, &["PASSED: 7 passed", "-m pytest"]);

    let new = r#"{"path": "notes/idea.txt", "content": "one\n"}"#;
    call(&home, root, "write_file", new, &[]).expect(1);
    assert!(
        !root.join("notes").exists(),
        "a write that was not granted changes nothing"
    );
    holds(
        &answer(&home, root, "write_file", new, &["--allow", "write-repository"]),
        &["(+1 -0)", "+one"],
    );
    assert_eq!(
        std::fs::read_to_string(root.join("notes/idea.txt")).expect("it was written"),
        "one\n"
    );

    holds(
        &answer(&home, root, "git_diff", "{}", &[]),
        &["notes/idea.txt", "untracked", "+one"],
    );
    let commit = r#"{"message": "Note an idea", "paths": ["notes/idea.txt"]}"#;
    let refused = call(&home, root, "git_commit", commit, &[]).expect(1);
    holds(&refused.stderr, &["[error]", "--allow commit-git"]);
    let text = answer(&home, root, "git_commit", commit, &["--allow", "commit-git"]);
    holds(
        &text,
        &[
            "Committed ",
            ": Note an idea",
            "Author: Ada <ada@example.org>",
            "notes/idea.txt",
        ],
    );
    holds(
        &answer(&home, root, "git_diff", "{}", &[]),
        &["No uncommitted changes."],
    );

    let log = "2026-01-02 03:04:05,006 INFO app: started\n2026-01-02 03:04:06,007 ERROR app: disk is full\n";
    std::fs::write(root.join("app.log"), log).expect("the folder is writable");
    let text = answer(
        &home,
        root,
        "read_logs",
        r#"{"path": "app.log", "level": "error"}"#,
        &[],
    );
    holds(&text, &["1 error", "disk is full"]);

    for name in ["--index-url", "https://example.org/x.whl", "./x", "a b"] {
        let arguments = format!(r#"{{"names": ["{name}"], "manager": "pip"}}"#);
        let refused = call(&home, root, "install_package", &arguments, &["--allow", "install"]).expect(2);
        holds(&refused.stderr, &["[error]"]);
    }
    let refused = call(&home, root, "install_package", r#"{"names": ["six"]}"#, &[]).expect(1);
    holds(&refused.stderr, &["--allow install"]);
}

#[test]
fn the_ones_that_apply_work_on_an_npm_repository() {
    let (home, repository) = (Home::offline(), fixture("inherits-2.0.1"));
    let root = repository.path();
    let text = answer(&home, root, "run_tests", "{}", &["--allow", "run-process"]);
    holds(&text, &["PASSED", "npm test", "ok"]);
    holds(
        &answer(&home, root, "list_files", "{}", &[]),
        &["inherits.js\t", "package.json\t"],
    );
    holds(
        &answer(&home, root, "analyze_dependencies", "{}", &[]),
        &["package.json", "inherits"],
    );
    let text = answer(
        &home,
        root,
        "search_code",
        r#"{"pattern": "require", "globs": ["*.js"]}"#,
        &[],
    );
    holds(&text, &["inherits.js:1:", "test.js:"]);
    holds(
        &answer(&home, root, "find_references", r#"{"symbol": "inherits"}"#, &[]),
        &["test.js:", ": text:"],
    );
    holds(
        &answer(&home, root, "read_file", r#"{"path": "inherits.js"}"#, &[]),
        &["     1\t"],
    );
    let explained = answer(
        &home,
        root,
        "explain_function",
        r#"{"name": "test", "path": "test.js"}"#,
        &[],
    );
    holds(&explained, &["function: test\n", "file: test.js:4-11\n"]);
    let nothing = call(&home, root, "git_diff", "{}", &[]).expect(1);
    holds(&nothing.stderr, &["[error]", "git repository"]);
}

/// Source that nests so deep.
type SourceOfDepth = fn(usize) -> String;

/// Python that nests without end ends neither a call nor the component that reads it: what is too deep is matched by word.
#[test]
fn nesting_of_any_depth_and_kind_is_answered() {
    let nested: [(&str, SourceOfDepth); 14] = [
        ("brackets", |depth| {
            format!("x = {}x{}", "(".repeat(depth), ")".repeat(depth))
        }),
        ("open", |depth| "[".repeat(depth)),
        ("calls", |depth| {
            format!("x = {}x{}", "f(a=".repeat(depth), ")".repeat(depth))
        }),
        ("dictionaries", |depth| {
            format!("x = {}x{}", "{x: ".repeat(depth), "}".repeat(depth))
        }),
        ("precedence", |depth| {
            let open = "1 or 1 and 1 < 1 | 1 ^ 1 & 1 << 1 + 1 * (";
            format!("x = {}x{}", open.repeat(depth), ")".repeat(depth))
        }),
        ("attributes", |depth| format!("x = x{}", ".x".repeat(depth))),
        ("called", |depth| format!("x = x{}", "()".repeat(depth))),
        ("sum", |depth| format!("x = x{}", " + x".repeat(depth))),
        ("signs", |depth| format!("x = {}x", "- ".repeat(depth))),
        ("lambdas", |depth| format!("x = {}x", "lambda: ".repeat(depth))),
        ("conditions", |depth| format!("x = {}x", "x if x else ".repeat(depth))),
        ("strings", |depth| {
            format!("x = {}x{}", "f'{".repeat(depth), "}'".repeat(depth))
        }),
        ("elif", |depth| {
            format!("if x: pass\n{}", "elif x: pass\n".repeat(depth))
        }),
        ("blocks", |depth| {
            let heads = (0..depth.min(1600)).map(|level| format!("{}def f(x, y=1):\n", " ".repeat(level)));
            format!("{}{}x\n", heads.collect::<String>(), " ".repeat(depth.min(1600)))
        }),
    ];
    let (home, repository) = (Home::offline(), folder(&[]));
    for (kind, nest) in nested {
        let depths = [30, 60, 90, 120, 150, 200, 300, 500, 1000, 1900, 2500, 10_000];
        for depth in depths {
            let source = format!("{}\n\ndef found(): x\n", nest(depth));
            let path = repository.path().join(format!("{kind}{depth}.py"));
            std::fs::write(path, source).expect("the folder is writable");
        }
    }
    let arguments = r#"{"symbol": "found.x", "limit": 1}"#;
    let text = answer(&home, repository.path(), "find_references", arguments, &[]);
    holds(
        &text,
        &[
            "Searched: 168 Python files",
            "too deeply nested to parse, matched by whole word: ",
        ],
    );
    let text = answer(
        &home,
        repository.path(),
        "explain_function",
        r#"{"name": "found"}"#,
        &[],
    );
    holds(
        &text,
        &[
            "`found` is ambiguous",
            "note: too large or too deeply nested to parse, not searched: ",
        ],
    );
}

#[test]
fn failing_tests_are_named_with_their_messages() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let test = "def test_sum():\n    assert 1 + 1 == 3\n";
    std::fs::write(repository.path().join("tests/test_sum.py"), test).expect("the folder is writable");
    let arguments = r#"{"paths": ["tests/test_sum.py"]}"#;
    let flags = ["--allow", "run-process"];
    let text = call(&home, repository.path(), "run_tests", arguments, &flags)
        .expect(1)
        .stdout;
    holds(&text, &["FAILED: 1 failed", "test_sum", "assert (1 + 1) == 3"]);
}

#[test]
fn a_receipt_says_what_a_call_cost() {
    let (home, repository) = (Home::offline(), folder(&[("a.txt", "hello\n")]));
    let flags = ["--receipt", "--quiet"];
    let finished = call(&home, repository.path(), "read_file", r#"{"path": "a.txt"}"#, &flags).expect(0);
    assert_eq!(finished.stdout, "     1\thello\n");
    let receipt: Value = serde_json::from_str(&finished.stderr).expect("the receipt is JSON");
    assert_eq!(
        (&receipt["skill"], &receipt["verdict"]),
        (&"read_file".into(), &"ok".into())
    );
    assert_eq!(receipt["grants"], serde_json::json!(["read-repository"]));
    assert!(receipt["wall_us"].as_u64().is_some_and(|wall| wall > 0), "{receipt}");
    assert!(
        receipt["peak_memory_bytes"].as_u64().is_some_and(|peak| peak > 65_536),
        "{receipt}"
    );
    assert_eq!(receipt["digest"].as_str().map(str::len), Some(64));
}

#[test]
fn what_is_hidden_is_not_there_for_any_skill() {
    let files = [("a.py", "x = 1\n"), (".env", "KEY=hunter2\n"), ("id_rsa", "hunter2\n")];
    let (home, repository) = (Home::offline(), folder(&files));
    for (skill, arguments) in [
        ("list_files", r#"{"recursive": true}"#),
        ("search_code", r#"{"pattern": "hunter2"}"#),
        ("find_references", r#"{"symbol": "hunter2"}"#),
    ] {
        let text = answer(&home, repository.path(), skill, arguments, &[]);
        assert!(
            !text.contains("KEY=") && !text.contains(".env") && !text.contains("id_rsa"),
            "{skill}: {text}"
        );
    }
    let refused = call(&home, repository.path(), "read_file", r#"{"path": ".env"}"#, &[]).expect(1);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}
