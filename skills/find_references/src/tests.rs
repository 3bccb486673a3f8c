use skill_sdk::SymbolReference;
use skill_sdk::serde_json::Value;
use skill_sdk::testing::{FakeHost, FakeSymbols};

use super::*;

fn host() -> FakeHost {
    FakeHost::new(&[
        (
            "pkg/store.py",
            "\"\"\"run in a docstring\"\"\"\n# run in a comment\n\nclass Store:\n    def run(self, again=None):\n        \
             return self.run(again)\n\ndef run():\n    return \"run\"\n",
        ),
        (
            "pkg/app.py",
            "from .store import Store, run\nfrom pkg.store import run as go\nimport pkg.store\n\ndef main(job):\n    \
             run()\n    go(1)\n    job.run()\n    Store.run(job)\n    pkg.store.run\n    callback(run)\n    \
             f\"{run()} run\"\n",
        ),
        (
            "pkg/other.py",
            "import subprocess\n\nsubprocess.run(['ls'])\nrunner = 1\nclass Job:\n    def run(self): pass\n",
        ),
        ("web/a.js", "// run it\nrun();\nrerun();\n"),
        ("data.bin", "\0run"),
    ])
}

fn call(host: &FakeHost, arguments: Value) -> Result<Outcome, Failure> {
    FindReferences::call(host, &arguments.to_string())
}

fn text(host: &FakeHost, arguments: Value) -> String {
    call(host, arguments).expect("a search answers").text
}

#[test]
fn details_hold_the_places_of_a_page_and_the_sum_of_all() {
    let page = call(&host(), json!({"symbol": "run", "limit": 2})).expect("a search answers");
    assert_eq!(
        page.details.as_deref(),
        Some(
            r#"{"references":[{"path":"pkg/other.py","line":6,"kind":"definition"},{"path":"pkg/store.py","line":5,"kind":"definition"}],"total":16,"files":4,"not_searched":{"binary":1}}"#
        )
    );
}

#[test]
fn files_that_the_host_leaves_out_are_counted() {
    let (all, mut narrowed) = (host(), host());
    narrowed.unmatched = ["pkg/app.py", "pkg/store.py", "web/a.js"].map(str::to_owned).into();
    for symbol in ["runner", "nothing"] {
        let arguments = json!({"symbol": symbol});
        assert_eq!(text(&narrowed, arguments.clone()), text(&all, arguments));
    }
}

#[test]
fn a_bare_name_finds_every_use_by_kind() {
    insta::assert_snapshot!(text(&host(), json!({"symbol": "run"})), @r#"
        pkg/other.py:6: definition: def run(self): pass
        pkg/store.py:5: definition: def run(self, again=None):
        pkg/store.py:8: definition: def run():
        pkg/app.py:6: call: run()
        pkg/app.py:7: call: go(1)
        pkg/app.py:8: call: job.run()
        pkg/app.py:9: call: Store.run(job)
        pkg/app.py:12: call: f"{run()} run"
        pkg/other.py:3: call: subprocess.run(['ls'])
        pkg/store.py:6: call: return self.run(again)
        pkg/app.py:1: import: from .store import Store, run
        pkg/app.py:2: import: from pkg.store import run as go
        pkg/app.py:10: attribute: pkg.store.run
        pkg/app.py:11: name: callback(run)
        web/a.js:1: text: // run it
        web/a.js:2: text: run();

        16 references to `run` in 4 files: 3 definitions, 7 calls, 2 imports, 1 attribute, 1 name, 2 text. Searched: 3 Python files, 1 other file.
        text: files without a syntax tree, matched by whole word, strings and comments included.
        "#);
}

#[test]
fn further_symbols_are_counted_as_calls_of_their_own_count_them() {
    let host = host();
    let page = text(
        &host,
        json!({"symbol": "run", "limit": 1, "also": ["Store", "Job", "nothing"]}),
    );
    let counts = |symbol: &str| {
        let alone = text(&host, json!({"symbol": symbol, "limit": 1}));
        let line = alone.lines().find(|line| line.contains("Searched:")).expect("counts");
        let (counts, _) = line.split_once(" Searched:").expect("counts");
        counts.to_owned()
    };
    let last: Vec<&str> = page.lines().rev().take(3).collect();
    assert_eq!(last, [counts("nothing"), counts("Job"), counts("Store")]);
    assert!(page.contains(&counts("run")), "{page}");
}

#[test]
fn further_symbols_of_another_language_are_counted_from_its_outline() {
    let mut host = library();
    let symbols = host.symbols.as_mut().expect("they are known");
    symbols.definitions = vec![skill_sdk::SymbolDefinition {
        path: "lib.rs".to_owned(),
        name: "go".to_owned(),
        container: "Store".to_owned(),
        kind: "method".to_owned(),
        line: 4,
        first_line: 4,
        last_line: 4,
        comment_line: None,
        signature: "fn go()".to_owned(),
    }];
    let page = text(&host, json!({"symbol": "job", "limit": 1, "also": ["go"]}));
    assert!(
        page.ends_with("1 reference to `go` in 1 file: 1 definition.\n"),
        "{page}"
    );
}

#[test]
fn too_many_further_symbols_are_refused() {
    let refused = call(&host(), json!({"symbol": "run", "also": vec!["Store"; 32]})).expect_err("32 are too many");
    assert_eq!(refused.message, "`also` holds 32 symbols, at most 31");
}

/// A source in another language, with the symbols that the host has of it.
fn library() -> FakeHost {
    let source = "struct Store;\nimpl Store {\n    fn run() {}\n    fn go() { Self::run(); }\n}\n// run it\nfn main(job: Job) { job.run(); Store::run(); }\nfn run() {}\n";
    let mut host = FakeHost::new(&[("lib.rs", source)]);
    let reference = |kind: &str, line, container: &str| SymbolReference {
        path: "lib.rs".to_owned(),
        name: "run".to_owned(),
        kind: kind.to_owned(),
        line,
        container: container.to_owned(),
    };
    host.symbols = Some(FakeSymbols {
        definitions: Vec::new(),
        references: vec![
            reference("definition", 3, "Store"),
            reference("call", 4, "Store.go"),
            reference("call", 7, "main"),
            reference("definition", 8, ""),
        ],
    });
    host
}

#[test]
fn other_languages_are_read_by_the_hosts_symbols() {
    insta::assert_snapshot!(text(&library(), json!({"symbol": "run"})), @r"
        lib.rs:3: definition: fn run() {}
        lib.rs:8: definition: fn run() {}
        lib.rs:4: call: fn go() { Self::run(); }
        lib.rs:7: call: fn main(job: Job) { job.run(); Store::run(); }

        4 references to `run` in 1 file: 2 definitions, 2 calls. Searched: 0 Python files, 1 other file.
        ");
    insta::assert_snapshot!(text(&library(), json!({"symbol": "Store::run"})), @r"
        lib.rs:3: definition: fn run() {}
        lib.rs:4: call: fn go() { Self::run(); }
        lib.rs:7: call: fn main(job: Job) { job.run(); Store::run(); }

        3 references to `Store.run` in 1 file: 1 definition, 2 calls. Searched: 0 Python files, 1 other file.
        ");
    insta::assert_snapshot!(text(&library(), json!({"symbol": "lib.run", "kinds": ["definition"]})), @r"
        lib.rs:8: definition: fn run() {}

        3 references to `lib.run` in 1 file: 1 definition, 2 possible. Searched: 0 Python files, 1 other file.
        Listed: definition only.
        possible: the syntax does not show whether it is this `run`: it belongs to an object, or the file does not import it by name.
        ");
}

#[test]
fn a_bare_name_is_possible_in_a_module_that_neither_defines_nor_imports_it() {
    let files = [
        (
            "lib/hooks.js",
            "function before(next) {\n  next();\n}\nmodule.exports = { before };\n",
        ),
        ("lib/use.js", "const { before } = require('./hooks');\nbefore(1);\n"),
        ("page.js", "before(2);\n"),
        (
            "test/a.js",
            "const hooks = require('../lib/hooks');\nbefore(3);\nhooks.before(4);\n",
        ),
        (
            "test/b.js",
            "const hooks = require('../lib/hooks');\nconst { before } = hooks;\nbefore(5);\n",
        ),
    ];
    let reference = |(path, kind, line): (&str, &str, u32)| SymbolReference {
        path: path.to_owned(),
        name: "before".to_owned(),
        kind: kind.to_owned(),
        line,
        container: String::new(),
    };
    let mut host = FakeHost::new(&files);
    let references = [
        ("lib/hooks.js", "definition", 1),
        ("lib/hooks.js", "name", 4),
        ("lib/use.js", "import", 1),
        ("lib/use.js", "call", 2),
        ("page.js", "call", 1),
        ("test/a.js", "call", 2),
        ("test/a.js", "call", 3),
        ("test/b.js", "name", 2),
        ("test/b.js", "call", 3),
    ];
    host.symbols = Some(FakeSymbols {
        definitions: Vec::new(),
        references: references.map(reference).into(),
    });
    insta::assert_snapshot!(text(&host, json!({"symbol": "before"})), @r"
        lib/hooks.js:1: definition: function before(next) {
        lib/use.js:2: call: before(1);
        page.js:1: call: before(2);
        test/a.js:3: call: hooks.before(4);
        test/b.js:3: call: before(5);
        lib/use.js:1: import: const { before } = require('./hooks');
        lib/hooks.js:4: name: module.exports = { before };
        test/b.js:2: name: const { before } = hooks;
        test/a.js:2: possible: before(3);

        9 references to `before` in 5 files: 1 definition, 4 calls, 1 import, 2 names, 1 possible. Searched: 0 Python files, 5 other files.
        possible: the syntax does not show whether it is this `before`: it belongs to an object, or the file does not import it by name.
        ");
}

#[test]
fn a_member_of_an_untyped_object_is_possible_unless_the_file_shows_the_object() {
    let files = [
        (
            "lib/view.js",
            "View.prototype.render = function () {};\nview.locals = this.render();\n",
        ),
        (
            "test/a.js",
            "const view = new View();\nconst pages = require('./pages');\nconst path = require('path');\nview.render(1);\n\
             pages.render(2);\npath.render(3);\nres.render(4);\nView.render(5);\nPromise.render(6);\nsend({ render: 7 });\n",
        ),
        ("typed.ts", "res.render(8);\n"),
    ];
    let mut references = vec![("lib/view.js", "definition", 1), ("lib/view.js", "call", 2)];
    references.extend((4..10).map(|line| ("test/a.js", "call", line)));
    references.extend([("test/a.js", "attribute", 10), ("typed.ts", "call", 1)]);
    let reference = |(path, kind, line): (&str, &str, u32)| SymbolReference {
        path: path.to_owned(),
        name: "render".to_owned(),
        kind: kind.to_owned(),
        line,
        container: String::new(),
    };
    let mut host = FakeHost::new(&files);
    host.symbols = Some(FakeSymbols {
        definitions: Vec::new(),
        references: references.into_iter().map(reference).collect(),
    });
    let page = text(&host, json!({"symbol": "render"}));
    let possible: Vec<&str> = page
        .lines()
        .filter_map(|line| line.split_once(": possible: "))
        .map(|(_, line)| line)
        .collect();
    assert_eq!(
        possible,
        [
            "path.render(3);",
            "res.render(4);",
            "Promise.render(6);",
            "send({ render: 7 });"
        ]
    );
}

#[test]
fn a_function_of_a_module_is_told_from_others_of_its_name() {
    insta::assert_snapshot!(text(&host(), json!({"symbol": "store.run"})), @r#"
        pkg/store.py:8: definition: def run():
        pkg/app.py:6: call: run()
        pkg/app.py:7: call: go(1)
        pkg/app.py:12: call: f"{run()} run"
        pkg/app.py:1: import: from .store import Store, run
        pkg/app.py:2: import: from pkg.store import run as go
        pkg/app.py:10: attribute: pkg.store.run
        pkg/app.py:11: name: callback(run)
        pkg/app.py:8: possible: job.run()

        9 references to `store.run` in 2 files: 1 definition, 3 calls, 2 imports, 1 attribute, 1 name, 1 possible. Searched: 3 Python files, 1 other file.
        possible: the syntax does not show whether it is this `run`: it belongs to an object, or the file does not import it by name.
        "#);
}

#[test]
fn a_method_is_told_from_others_of_its_name() {
    insta::assert_snapshot!(text(&host(), json!({"symbol": "Store.run()"})), @r"
        pkg/store.py:5: definition: def run(self, again=None):
        pkg/app.py:9: call: Store.run(job)
        pkg/store.py:6: call: return self.run(again)
        pkg/app.py:8: possible: job.run()

        4 references to `Store.run` in 2 files: 1 definition, 2 calls, 1 possible. Searched: 3 Python files, 1 other file.
        possible: the syntax does not show whether it is this `run`: it belongs to an object, or the file does not import it by name.
        ");
}

#[test]
fn kinds_and_paths_narrow() {
    insta::assert_snapshot!(
        text(&host(), json!({"symbol": "run", "kinds": ["definition", "text"], "path": "pkg/other.py"})),
        @r"
        pkg/other.py:6: definition: def run(self): pass

        2 references to `run` in pkg/other.py in 1 file: 1 definition, 1 call. Searched: 1 Python file, 0 other files.
        Listed: definition, text only.
        "
    );
}

#[test]
fn nothing_found_is_an_answer() {
    insta::assert_snapshot!(text(&host(), json!({"symbol": "absent"})), @r"
    No references to `absent`. Searched: 3 Python files, 1 other file.
    Not searched: 1 binary file.
    ");
}

#[test]
fn a_broken_file_still_answers() {
    let source = "def good():\n    return 1\n\nx = (1 +\n\ndef bad(:\n    good()\n\ndef last():\n    return good()\n";
    let host = FakeHost::new(&[("a.py", source)]);
    let text = text(&host, json!({"symbol": "good"}));
    assert!(text.contains("a.py:1: definition: def good():\n"), "{text}");
    assert!(text.contains("a.py:10: call: return good()\n"), "{text}");
    assert!(
        text.contains("Does not parse whole, so matches there may be missing or misjudged: a.py:6\n"),
        "{text}"
    );
}

#[test]
fn pages_go_on_where_they_ended() {
    let files: Vec<(String, String)> = (0..7)
        .map(|number| (format!("m{number}.py"), "def f(): pass\nf()\nx = f\n".to_owned()))
        .collect();
    let host = FakeHost::new(&files);
    let whole = text(&host, json!({"symbol": "f"}));
    let whole: Vec<&str> = whole.lines().filter(|line| line.starts_with('m')).collect();
    assert_eq!(whole.len(), 21);
    let mut cursor = Value::Null;
    let mut pages: Vec<String> = Vec::new();
    for _ in 0..5 {
        let mut arguments = json!({"symbol": "f", "limit": 5});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let outcome = call(&host, arguments).expect("a search answers");
        assert!(
            outcome
                .text
                .contains("21 references to `f` in 7 files: 7 definitions, 7 calls, 7 names.")
        );
        assert_eq!(outcome.truncated, outcome.cursor.is_some());
        pages.extend(
            outcome
                .text
                .lines()
                .filter(|line| line.starts_with('m'))
                .map(str::to_owned),
        );
        cursor = outcome.cursor.map_or(Value::Null, Value::String);
    }
    assert!(cursor.is_null());
    assert_eq!(pages, whole);
}

#[test]
fn a_split_call_answers_as_a_whole_one() {
    let filler = format!("# {}\n", "x".repeat(400_000));
    let files: Vec<(String, String)> = (0..20)
        .map(|number| {
            (
                format!("m{number:02}.py"),
                format!("{filler}def f(): pass\nf()\nx.f()\n"),
            )
        })
        .chain([("z.js".to_owned(), "f()".to_owned())])
        .collect();
    let host = FakeHost::new(&files);
    for arguments in [
        json!({"symbol": "f"}),
        json!({"symbol": "f", "limit": 7}),
        json!({"symbol": "m03.f"}),
    ] {
        let whole = call(&host, arguments.clone()).expect("a search answers");
        let parts = FindReferences::split(&host, &arguments.to_string(), 4).expect("it splits");
        assert_eq!(parts.len(), 4);
        let outcomes: Vec<Outcome> = parts
            .iter()
            .map(|part| FindReferences::call(&host, part).expect("a part answers"))
            .collect();
        let merged = FindReferences::merge(&arguments.to_string(), outcomes).expect("they merge");
        assert_eq!(merged, whole);
    }
}

#[test]
fn what_is_no_name_is_refused() {
    for symbol in ["a b", "a(", "", ".a", "a..b", "/x"] {
        let failure = call(&host(), json!({"symbol": symbol})).expect_err("it is no name");
        assert_eq!(failure.code, "invalid-arguments", "{symbol}");
        assert!(failure.hint.expect("there is advice").contains("search_code"));
    }
    assert_eq!(
        call(&host(), json!({"symbol": "a", "path": "none"}))
            .expect_err("it is absent")
            .code,
        "not-found"
    );
    assert_eq!(
        call(&host(), json!({"symbol": "a", "cursor": "?"}))
            .expect_err("it is no cursor")
            .code,
        "invalid-arguments"
    );
}

#[test]
fn the_schema_lists_every_kind() {
    let listed = &FindReferences::describe().parameters["properties"]["kinds"]["items"]["enum"];
    let kinds: Vec<MatchKind> = serde_json::from_value(listed.clone()).expect("each is a kind");
    assert_eq!(kinds.len(), 8);
}

#[test]
fn the_description_is_one_that_a_model_can_use() {
    skill_sdk::testing::check_description::<FindReferences>();
}
