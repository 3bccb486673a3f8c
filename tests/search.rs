//! `search_code` finds what ripgrep finds where that is given our rules as flags: its walker, from the same crate, and a
//! line-by-line search stand beside the real binary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::contents::IndexedContents;
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tool_context::{FileVerdict, Indexes, PatternKind, SearchPattern};
use tool_core::api::PolicyRequest;
use tool_repository::{Options, Repository};
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{Builtin, CallContext, HostServices, Limits, RawArguments, SkillHost};

use crate::languages::embedded;
use crate::support::{Home, fixture, git, guest};

/// Our rules as globs: the directories that are skipped and the names that are hidden, as far as the tree has them.
const LEFT_OUT: [&str; 14] = [
    ".git",
    "node_modules",
    "__pycache__",
    "venv",
    ".venv",
    "env",
    "dist",
    "build",
    "session-reports",
    ".env",
    "*.env",
    "id_rsa",
    "*.key",
    ".npmrc",
];

/// `rg --hidden --no-require-git --no-ignore-parent --max-filesize 8M` with `--glob` for each of [`LEFT_OUT`].
fn as_ripgrep(root: &Path, pattern: &str) -> BTreeSet<String> {
    let mut globs = OverrideBuilder::new(root);
    for glob in LEFT_OUT {
        globs.add(&format!("!{glob}")).expect("the glob is one");
    }
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        .require_git(false)
        .parents(false)
        .max_filesize(Some(8 * 1024 * 1024))
        .overrides(globs.build().expect("the globs are some"));
    let pattern = regex::bytes::Regex::new(pattern).expect("the pattern is one");
    let mut found = BTreeSet::new();
    for entry in walk.build() {
        let entry = entry.expect("the tree can be read");
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let Some(content) = is_file.then(|| fs::read(entry.path()).expect("a file can be read")) else {
            continue;
        };
        if content.contains(&0) {
            continue;
        }
        let path = entry.path().strip_prefix(root).expect("it lies beneath the root");
        for (at, line) in content.split(|&byte| byte == b'\n').enumerate() {
            if pattern.is_match(line) {
                found.insert(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    found
}

/// Returns the results of a search as `path:line`.
fn as_skill(home: &Home, root: &Path, pattern: &str) -> BTreeSet<String> {
    let arguments = json!({"pattern": pattern, "limit": 1000}).to_string();
    let answer = home
        .run(root, &["skill", "call", "search_code", &arguments])
        .expect(0)
        .stdout;
    let (lines, summary) = answer.trim_end().rsplit_once("\n\n").unwrap_or(("", &answer));
    assert!(!summary.contains("showing the first"), "{summary}");
    let place = |line: &str| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
    lines.lines().map(place).collect()
}

#[test]
fn a_search_finds_what_ripgrep_finds_by_the_same_rules() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let root = repository.path();
    git(root, &["init", "--quiet"]);
    let write = |path: &str, content: &str| {
        let place = root.join(path);
        fs::create_dir_all(place.parent().expect("it has a parent")).expect("folders can be made");
        fs::write(place, content).expect("files can be written");
    };
    write("deep/.gitignore", "*.log\n!kept.log\n/only-here\n");
    write("deep/a.log", "import this\n");
    write("deep/kept.log", "import this\n");
    write("deep/er/only-here/x.py", "import that\n");
    write("deep/only-here/x.py", "import that\n");
    write("deep/.ignore", "er/ignored.py\n");
    write("deep/er/ignored.py", "import that\n");
    write("build/made.py", "import that\n");
    write("prod.env", "import=secret\n");
    write("deep/id_rsa", "import secret\n");
    write("data.bin", "import\0that\n");
    for pattern in ["import", r"^class \w+\(", "zqxjwvk", r"(?i)\bcontext\b"] {
        let (ours, theirs) = (as_skill(&home, root, pattern), as_ripgrep(root, pattern));
        assert_eq!(ours, theirs, "`{pattern}`");
        assert_eq!(theirs.is_empty(), pattern == "zqxjwvk", "`{pattern}` tells something");
    }
}

/// Two hosts of the built-in searches over one repository: one that asks an index, and one that reads everything.
struct Pair {
    root: TempDir,
    home: TempDir,
    indexes: Arc<Indexes>,
    narrowing: Arc<SkillHost>,
    reading: Arc<SkillHost>,
}

/// Files of the repository at first: text, source, no text, and a script with a NUL.
const FILES: [(&str, &str); 8] = [
    (
        "src/a.py",
        "import os\n\ndef Task(task):\n    return task_state + os.sep\n",
    ),
    ("src/b.rs", "fn task() -> Kind {\n    Kind::ask(state)\n}\n"),
    ("src/deep/c.go", "func Ask(kind string) {}\r\nvar state = kind\r\n"),
    ("docs/d.md", "# Über task\n\nThe ſtate of a tas\u{212A}.\n"),
    ("docs/e.txt", "nothing of it\n"),
    ("f.bin", "task\0state\n"),
    ("g.py", "state = 'task\0'\n"),
    ("Makefile", "all:\n\ttask state\n"),
];

impl Pair {
    fn new() -> Self {
        let (root, home) = (crate::support::folder(&FILES), crate::support::folder(&[]));
        let indexes = Indexes::open_waiting(home.path());
        let builtins = || -> &'static [Builtin] {
            let search = embedded("search_code", &guest("search_code"));
            let references = embedded("find_references", &guest("find_references"));
            [search, references].concat().leak()
        };
        let surroundings = HostServices {
            contents: Some(Arc::new(IndexedContents(Arc::clone(&indexes)))),
            ..HostServices::default()
        };
        let host = |surroundings| {
            SkillHost::with_connections(builtins(), home.path(), Limits::default(), surroundings)
                .expect("the engine starts")
        };
        Self {
            narrowing: host(surroundings),
            reading: host(HostServices::default()),
            indexes,
            root,
            home,
        }
    }

    fn open(&self) -> Arc<Repository> {
        Repository::open(self.root.path(), &Options::default()).expect("the folder is acceptable")
    }

    /// Returns everything that a call answers.
    fn answer(&self, host: &SkillHost, skill: &str, arguments: &Value) -> String {
        let policy = Policy::new(EffectCause::SkillCall, &PolicyRequest::default()).expect("the effects are known");
        let context = Arc::new(CallContext::unattended(self.open(), policy));
        match host.call(&context, skill, RawArguments::Value(arguments)).result {
            Ok(outcome) => format!("{}\n{:?}\n{:?}", outcome.text, outcome.cursor, outcome.details),
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn agree(&self, skill: &str, arguments: &Value) {
        let full = self.answer(&self.reading, skill, arguments);
        // The first of these searches fills the index when it ends.
        for time in ["first", "second"] {
            let narrowed = self.answer(&self.narrowing, skill, arguments);
            assert_eq!(narrowed, full, "the {time} {skill} of {arguments}");
        }
    }

    /// Files that a search for a literal leaves out.
    fn left_out(&self, text: &str) -> usize {
        let repository = self.open();
        let list = repository.list(&CancellationToken::new()).expect("it can be listed");
        let pattern = SearchPattern {
            kind: PatternKind::Literal,
            text: text.to_owned(),
            ignores_case: false,
        };
        let verdicts = self.indexes.narrow(&repository, &list, &[pattern]).unwrap_or_default();
        verdicts
            .iter()
            .filter(|verdict| **verdict != FileVerdict::Candidate)
            .count()
    }
}

/// A change of a file: another text, a part of another file, or its end.
fn change() -> impl Strategy<Value = (usize, Option<String>)> {
    let text = prop_oneof![
        3 => "([a-cKkſsStT]{1,6}[ _.(\n]){1,12}",
        1 => Just("task state\n".to_owned()),
        1 => Just("ta\0sk\n".to_owned()),
    ];
    (0..FILES.len() + 2, proptest::option::weighted(0.8, text))
}

/// Arguments of a search, of which some match and many cannot be narrowed.
fn arguments() -> impl Strategy<Value = Value> {
    let pattern = prop_oneof![
        Just("task"),
        Just("state"),
        Just("TASK"),
        Just("(?i)task"),
        Just("ta|sta"),
        Just("task|state"),
        Just(r"\bask\b"),
        Just("^all"),
        Just("state$"),
        Just(r"(task|kind)[_:]+\w+"),
        Just("ta.k"),
        Just("[kK]ind::"),
        Just("über"),
        Just("ſtate"),
        Just("(st|t)a(te|sk)"),
        Just("nowhere at all"),
        Just(r"def \w+"),
        Just("ask{1,2}"),
        Just(r"\x{212A}"),
        Just("kin?d?"),
    ];
    let case = prop_oneof![Just("sensitive"), Just("insensitive"), Just("smart")];
    let path = prop_oneof![3 => Just(""), 1 => Just("src"), 1 => Just("docs/d.md")];
    let limit = prop_oneof![Just(1), Just(3), Just(100)];
    (pattern, case, path, limit, 0..2, any::<bool>()).prop_map(|(pattern, case, path, limit, context, is_literal)| {
        json!({
            "pattern": pattern, "case": case, "path": path, "limit": limit, "context": context, "literal": is_literal,
        })
    })
}

#[test]
fn a_narrowed_search_answers_as_a_full_one_while_files_change() {
    let pair = Pair::new();
    // Older than a tick of the clock of files, so that the index trusts them.
    std::thread::sleep(Duration::from_millis(2100));
    pair.agree("search_code", &json!({"pattern": "task"}));
    assert_eq!(
        pair.left_out("task"),
        4,
        "three files without the word, and one that is no text"
    );
    let place = |number: usize| -> PathBuf {
        let path = FILES
            .get(number)
            .map_or_else(|| format!("new/{number}.txt"), |(path, _)| (*path).to_owned());
        pair.root.path().join(path)
    };
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = (
        proptest::collection::vec(change(), 0..3),
        proptest::collection::vec(arguments(), 1..3),
    );
    let symbols = ["task", "state", "Task", "Kind.ask", "os.sep", "nowhere"];
    let result = runner.run(
        &(cases, 0..symbols.len(), any::<bool>()),
        |((changes, searches), symbol, waits)| {
            for (number, text) in changes {
                match text {
                    Some(text) => {
                        fs::create_dir_all(place(number).parent().expect("it has one")).expect("folders can be made");
                        fs::write(place(number), text).expect("files can be written");
                    }
                    // It may be gone already.
                    None => drop(fs::remove_file(place(number))),
                }
            }
            if waits {
                std::thread::sleep(Duration::from_millis(50));
            }
            for arguments in searches {
                pair.agree("search_code", &arguments);
            }
            pair.agree("find_references", &json!({"symbol": symbols[symbol], "also": ["ask"]}));
            Ok(())
        },
    );
    assert!(result.is_ok(), "{result:?}");
    let index = fs::read_dir(pair.home.path().join("index")).expect("there is an index");
    assert_eq!(index.count(), 1);
}

#[test]
fn a_page_and_its_cursor_are_those_of_a_full_search() {
    let pair = Pair::new();
    for number in 0..40 {
        let text = if number % 7 == 0 {
            "a needle\nanother needle\n"
        } else {
            "hay\n"
        };
        fs::write(pair.root.path().join(format!("f{number:02}.txt")), text).expect("files can be written");
    }
    std::thread::sleep(Duration::from_millis(2100));
    pair.agree("search_code", &json!({"pattern": "needle"}));
    assert!(pair.left_out("needle") > 30);
    let mut cursor = None;
    for _ in 0..6 {
        let arguments = json!({"pattern": "needle", "limit": 2, "cursor": cursor.clone().unwrap_or_default()});
        pair.agree("search_code", &arguments);
        let answer = pair.answer(&pair.narrowing, "search_code", &arguments);
        cursor = answer
            .lines()
            .rev()
            .find_map(|line| Some(line.strip_prefix("Some(\"")?.strip_suffix("\")")?.to_owned()));
    }
}

#[test]
fn a_search_that_cannot_write_its_index_is_right() {
    let pair = Pair::new();
    std::thread::sleep(Duration::from_millis(2100));
    // A file where the folder of the indexes would be: nothing can be kept, as on a full disk.
    fs::write(pair.home.path().join("index"), "").expect("the home is writable");
    for _ in 0..2 {
        pair.agree("search_code", &json!({"pattern": "task", "case": "insensitive"}));
        pair.agree("find_references", &json!({"symbol": "state"}));
    }
    assert_eq!(pair.left_out("task"), 0);
}
