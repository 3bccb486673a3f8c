use skill_sdk::testing::{FakeHost, FakeSymbols};
use skill_sdk::{SymbolDefinition, SymbolReference};

use super::*;

const STORE: &str = r#""""Keeps rows."""
import functools
import os.path as p

from .base import Base, helper
from .util import *
from elsewhere import thing


class Store(Base[int], metaclass=Meta):
    """Keeps rows in order.

    Longer words about it.
    """

    LIMIT = 10

    @property
    def size(self) -> int:
        """How many."""
        return len(self.rows)

    @size.setter
    def size(self, value):
        self.rows[:] = self.rows[:value]

    async def add(self, row, *, strict: bool = True):
        """Adds a row.

        Raises ValueError.
        """
        def check(value):
            return local(value)
        check(row)
        self.trim()
        self.close()
        super().close()
        helper(row)
        star(row)
        p.join("a")
        thing.run()
        get().again()
        if strict:
            raise ValueError(len(row))
        Store.trim(self)
        self.trim()

    def trim(self): pass


def local(value):
    return value
"#;

const BASE: &str = "from .deep import helper\n\nclass Base:\n    def close(self):\n        pass\n";
const DEEP: &str = "def other(): pass\n\ndef helper(row):\n    return row\n";
const UTIL: &str = "def star(row): pass\n\nclass Other:\n    def add(self): pass\n";

fn host() -> FakeHost {
    FakeHost::new(&[
        ("pkg/__init__.py", ""),
        ("pkg/store.py", STORE),
        ("pkg/base.py", BASE),
        ("pkg/deep.py", DEEP),
        ("pkg/util.py", UTIL),
        ("README.md", "def add\n"),
    ])
}

fn call(host: &FakeHost, arguments: skill_sdk::serde_json::Value) -> Result<Outcome, Failure> {
    ExplainFunction::call(host, &arguments.to_string())
}

fn text(host: &FakeHost, arguments: skill_sdk::serde_json::Value) -> String {
    call(host, arguments).expect("it is found").text
}

#[test]
fn a_method_comes_with_its_class_and_what_it_calls() {
    insta::assert_snapshot!(text(&host(), json!({"name": "Store.add"})), @r#"
        method: pkg.store.Store.add
        file: pkg/store.py:27-46
        signature: async def add(self, row, *, strict: bool = True)
        in class: Store(Base[int], metaclass=Meta) (pkg/store.py:10)
        docstring: Adds a row. […]
        nested:
          def check(value) (pkg/store.py:32)
        calls:
          local -> pkg/store.py:51  [line 33]
          check -> pkg/store.py:32  [line 34]
          self.trim -> pkg/store.py:48  [line 35, 46]
          self.close -> pkg/base.py:4  [line 36]
          super().close -> pkg/base.py:4  [line 37]
          helper -> pkg/deep.py:3  [line 38]
          star -> pkg/util.py:1  [line 39]
          p.join (imported: os.path.join)  [line 40]
          thing.run (imported: elsewhere.thing.run)  [line 41]
          (…).again  [line 42]
          get  [line 42]
          ValueError (builtin)  [line 44]
          len (builtin)  [line 44]
          Store.trim -> pkg/store.py:48  [line 45]
        source:
            27      async def add(self, row, *, strict: bool = True):
            28          """Adds a row.
            29
            30          Raises ValueError.
            31          """
            32          def check(value):
            33              return local(value)
            34          check(row)
            35          self.trim()
            36          self.close()
            37          super().close()
            38          helper(row)
            39          star(row)
            40          p.join("a")
            41          thing.run()
            42          get().again()
            43          if strict:
            44              raise ValueError(len(row))
            45          Store.trim(self)
            46          self.trim()
        "#);
}

#[test]
fn a_property_comes_with_its_setter() {
    insta::assert_snapshot!(text(&host(), json!({"name": "pkg.store.Store.size", "path": "pkg"})), @r#"
        method: pkg.store.Store.size
        file: pkg/store.py:18-21
        signature: def size(self) -> int
        decorators: @property
        in class: Store(Base[int], metaclass=Meta) (pkg/store.py:10)
        docstring: How many.
        calls:
          len (builtin)  [line 21]

        method: pkg.store.Store.size
        file: pkg/store.py:23-25
        signature: def size(self, value)
        decorators: @size.setter
        in class: Store(Base[int], metaclass=Meta) (pkg/store.py:10)
        source:
            18      @property
            19      def size(self) -> int:
            20          """How many."""
            21          return len(self.rows)

            23      @size.setter
            24      def size(self, value):
            25          self.rows[:] = self.rows[:value]
        "#);
}

#[test]
fn a_class_is_an_outline() {
    insta::assert_snapshot!(text(&host(), json!({"name": "Store"})), @r#"
        class: pkg.store.Store
        file: pkg/store.py:10-48
        signature: class Store(Base[int], metaclass=Meta)
        docstring: Keeps rows in order. […]
        bases:
          Base[int] -> pkg/base.py:3
        source:
            10  class Store(Base[int], metaclass=Meta):
            11      """Keeps rows in order.
            12
            13      Longer words about it.
            14      """
            15
            16      LIMIT = 10
            17
            18      @property
            19      def size(self) -> int: … to line 21
            22
            23      @size.setter
            24      def size(self, value): … to line 25
            26
            27      async def add(self, row, *, strict: bool = True): … to line 46
            47
            48      def trim(self): pass
        "#);
}

#[test]
fn an_ambiguous_name_lists_the_candidates() {
    let outcome = call(&host(), json!({"name": "add()"})).expect("candidates are an answer");
    insta::assert_snapshot!(outcome.text, @r"
        `add` is ambiguous: 2 definitions. Call again with one of these names, or with `path`.
        pkg/store.py:27: method pkg.store.Store.add
        pkg/util.py:4: method pkg.util.Other.add
        ");
    assert!(!outcome.truncated);
    assert!(text(&host(), json!({"name": "add", "path": "pkg/util.py"})).starts_with("method: pkg.util.Other.add\n"));
}

#[test]
fn nested_functions_are_found_and_say_where_they_are() {
    let text = text(&host(), json!({"name": "Store.add.check"}));
    assert!(text.contains("in function: async def add("), "{text}");
    assert!(text.contains("local -> pkg/store.py:"), "{text}");
}

#[test]
fn an_inherited_method_is_answered_with_the_one_of_the_base() {
    let text = text(&host(), json!({"name": "Store.close"}));
    assert!(text.starts_with("method: pkg.base.Base.close\n"), "{text}");
    assert!(
        text.contains("note: `Store.close` is inherited: `Base` defines it\n"),
        "{text}"
    );
}

#[test]
fn a_name_that_the_package_hands_on_is_found() {
    assert!(text(&host(), json!({"name": "pkg.helper"})).starts_with("function: pkg.deep.helper\n"));
}

#[test]
fn an_unknown_name_gets_similar_ones() {
    let failure = call(&host(), json!({"name": "Store.Help_er"})).expect_err("there is none");
    assert_eq!(failure.code, "not-found");
    assert_eq!(
        failure.message,
        "no function, method or class `Store.Help_er` is defined in the repository"
    );
    assert_eq!(failure.hint.as_deref(), Some("similar names: `helper` (pkg/deep.py:3)"));
    let failure = call(&host(), json!({"name": "absent"})).expect_err("there is none");
    assert!(failure.hint.expect("there is advice").contains("find_references"));
}

#[test]
fn a_file_without_a_parser_is_for_another_skill() {
    let failure = call(&host(), json!({"name": "add", "path": "README.md"})).expect_err("it is no source");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        (
            "not-found",
            "no function, method or class `add` is defined in `README.md`"
        )
    );
    assert!(failure.hint.expect("there is advice").contains("search_code"));
}

const LIBRARY: &str = "// Keeps rows.\n// In order.\npub struct Store;\n\nimpl Store {\n    pub fn add(row: Row) {\n        check(row);\n        log(row);\n    }\n}\n\nfn check(row: Row) {\n    Store::add(row);\n}\n";

fn definition(name: &str, container: &str, kind: &str, (first_line, last_line): (u32, u32)) -> SymbolDefinition {
    SymbolDefinition {
        path: "lib.rs".to_owned(),
        name: name.to_owned(),
        container: container.to_owned(),
        kind: kind.to_owned(),
        line: first_line,
        first_line,
        last_line,
        comment_line: (name == "Store").then_some(1),
        signature: format!("fn {name}"),
    }
}

fn reference(name: &str, line: u32, container: &str) -> SymbolReference {
    SymbolReference {
        path: "lib.rs".to_owned(),
        name: name.to_owned(),
        kind: "call".to_owned(),
        line,
        container: container.to_owned(),
    }
}

fn library() -> FakeHost {
    let mut host = FakeHost::new(&[("lib.rs", LIBRARY), ("a.py", "def check(): pass\n")]);
    host.symbols = Some(FakeSymbols {
        definitions: vec![
            definition("Store", "", "type", (3, 3)),
            definition("add", "Store", "method", (6, 9)),
            definition("check", "", "function", (12, 14)),
        ],
        references: vec![
            reference("check", 7, "Store.add"),
            reference("log", 8, "Store.add"),
            reference("add", 13, "check"),
        ],
    });
    host
}

#[test]
fn a_method_of_another_language_comes_with_its_calls_and_callers() {
    insta::assert_snapshot!(text(&library(), json!({"name": "Store::add"})), @r"
        method: Store.add
        file: lib.rs:6-9
        signature: fn add
        calls:
          check -> lib.rs:12  [line 7]
          log  [line 8]
        called by, going by the name:
          lib.rs:13 in check
        source:
             6      pub fn add(row: Row) {
             7          check(row);
             8          log(row);
             9      }
        ");
    insta::assert_snapshot!(text(&library(), json!({"name": "Store"})), @r"
        type: Store
        file: lib.rs:3-3
        signature: fn Store
        comment: Keeps rows. In order.
        members:
          fn add (line 6)
        source:
             3  pub struct Store;
        ");
}

#[test]
fn candidates_may_be_in_several_languages() {
    insta::assert_snapshot!(text(&library(), json!({"name": "check"})), @r"
        `check` is ambiguous: 2 definitions. Call again with one of these names, or with `path`.
        a.py:1: function a.check
        lib.rs:12: function check
        ");
    let python = text(&library(), json!({"name": "check", "path": "a.py"}));
    assert!(python.starts_with("function: a.check\n"), "{python}");
}

#[test]
fn bad_names_and_paths_are_named() {
    for name in ["a b", "a..b", "1a", "--x", "a/b.py", ""] {
        let failure = call(&host(), json!({"name": name})).expect_err("it is no name");
        assert_eq!(failure.code, "invalid-arguments", "{name}");
    }
    let failure = call(&host(), json!({"name": "a", "path": "nowhere"})).expect_err("there is none");
    assert_eq!(failure.code, "not-found");
    let failure = call(&host(), json!({"name": "a", "path": "../x"})).expect_err("it leaves");
    assert_eq!(failure.code, "invalid-arguments");
    let failure = call(&host(), json!({"name": "helper", "cursor": "x"})).expect_err("it is no cursor");
    assert_eq!(failure.code, "invalid-arguments");
}

#[test]
fn a_broken_file_answers_for_what_parses_and_says_where_it_does_not() {
    let source = "def good():\n    return 1\n\nx = (1 +\n\ndef bad(:\n    return 2\n\ndef last():\n    return good()\n";
    let host = FakeHost::new(&[("a.py", source)]);
    let good = text(&host, json!({"name": "good"}));
    assert!(good.contains("     1  def good():\n     2      return 1\n"), "{good}");
    assert!(good.contains("note: a.py does not parse whole (line 6"), "{good}");
    let failure = call(&host, json!({"name": "bad"})).expect_err("it does not parse");
    assert_eq!(
        failure.message,
        "`bad` is defined where the file does not parse: a.py:6"
    );
}

#[test]
fn a_long_function_goes_on_by_its_cursor() {
    let mut source = "def long():\n".to_owned();
    for number in 0..900 {
        source.push_str(&format!("    x = {number}\n"));
    }
    let host = FakeHost::new(&[("a.py", source)]);
    let mut cursor = None;
    let mut lines = Vec::new();
    for _ in 0..3 {
        let arguments = match &cursor {
            Some(cursor) => json!({"name": "long", "cursor": cursor}),
            None => json!({"name": "long"}),
        };
        let outcome = call(&host, arguments).expect("it is found");
        assert_eq!(outcome.truncated, outcome.cursor.is_some());
        lines.extend(
            outcome
                .text
                .lines()
                .filter(|line| line.contains("x = "))
                .map(str::to_owned),
        );
        cursor = outcome.cursor;
    }
    assert_eq!(cursor, None);
    assert_eq!(lines.len(), 900);
    assert_eq!(lines[899], "   901      x = 899");
}

#[test]
fn many_candidates_go_on_by_their_cursor() {
    let files: Vec<(String, &str)> = (0..70)
        .map(|number| (format!("m{number:02}.py"), "def f(): pass\n"))
        .collect();
    let host = FakeHost::new(&files);
    let first = call(&host, json!({"name": "f"})).expect("candidates are an answer");
    assert!(first.truncated && first.text.contains("m59.py:1: function m59.f\n… 10 more candidates"));
    let second = call(&host, json!({"name": "f", "cursor": first.cursor})).expect("candidates are an answer");
    assert!(!second.truncated && second.text.contains("m69.py:1") && !second.text.contains("m59.py"));
}

#[test]
fn a_stub_beside_its_source_is_no_candidate() {
    let host = FakeHost::new(&[("a.py", "def f(x): pass\n"), ("a.pyi", "def f(x: int) -> None: ...\n")]);
    assert!(text(&host, json!({"name": "f"})).starts_with("function: a.f\nfile: a.py:1-1\n"));
}

#[test]
fn definitions_in_strings_are_none() {
    let host = FakeHost::new(&[("a.py", "x = '''\ndef f(): pass\n'''\n")]);
    let failure = call(&host, json!({"name": "f"})).expect_err("it is a string");
    assert_eq!(failure.code, "not-found");
}

#[test]
fn nothing_is_marked_as_shown() {
    let host = host();
    text(&host, json!({"name": "local"}));
    assert!(host.shown.borrow().is_empty());
}

#[test]
fn the_description_is_one_that_a_model_can_use() {
    skill_sdk::testing::check_description::<ExplainFunction>();
}

/// A host whose symbols are these: definitions by path, name, kind and line, and references by path, name, kind and line.
fn scripted(
    files: &[(&str, &str)],
    definitions: &[(&str, &str, &str, u32)],
    references: &[(&str, &str, &str, u32)],
) -> FakeHost {
    let mut host = FakeHost::new(files);
    host.symbols = Some(FakeSymbols {
        definitions: definitions
            .iter()
            .map(|&(path, name, kind, line)| SymbolDefinition {
                path: path.to_owned(),
                ..definition(name, "", kind, (line, line))
            })
            .collect(),
        references: references
            .iter()
            .map(|&(path, name, kind, line)| SymbolReference {
                path: path.to_owned(),
                kind: kind.to_owned(),
                ..reference(name, line, "")
            })
            .collect(),
    });
    host
}

#[test]
fn another_name_of_a_definition_is_followed_to_it() {
    let host = scripted(
        &[
            ("src/helper.ts", "export function shared() { return 1; }\n"),
            ("other/shared.ts", "export function shared() { return 2; }\n"),
            ("src/index.ts", "export { shared as renamed } from \"./helper\";\n"),
            ("src/again.ts", "export { renamed as third } from \"./index\";\n"),
            (
                "src/router.js",
                "function createRouter() {}\nmodule.exports = {\n  publicName: createRouter,\n};\n",
            ),
            ("src/view.js", "function heading() {}\nshow({\n  title: heading,\n});\n"),
            ("models.py", "class User:\n    pass\n"),
            ("app.py", "from models import User as Person\n"),
        ],
        &[
            ("src/helper.ts", "shared", "function", 1),
            ("other/shared.ts", "shared", "function", 1),
            ("src/router.js", "createRouter", "function", 1),
            ("src/view.js", "heading", "function", 1),
        ],
        &[
            ("src/index.ts", "renamed", "name", 1),
            ("src/again.ts", "third", "name", 1),
            ("src/router.js", "publicName", "attribute", 3),
            ("src/view.js", "title", "attribute", 3),
            ("app.py", "Person", "name", 1),
        ],
    );
    let first_lines = |name: &str| {
        let text = text(&host, json!({"name": name}));
        text.lines().take(3).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(first_lines("renamed"), @r"
    `renamed` is `shared` (src/helper.ts:1), by src/index.ts:1
    function: shared
    file: src/helper.ts:1-1
    ");
    insta::assert_snapshot!(first_lines("third"), @r"
    `third` is `shared` (src/helper.ts:1), by src/again.ts:1, src/index.ts:1
    function: shared
    file: src/helper.ts:1-1
    ");
    insta::assert_snapshot!(first_lines("publicName"), @r"
    `publicName` is `createRouter` (src/router.js:1), by src/router.js:3
    function: createRouter
    file: src/router.js:1-1
    ");
    insta::assert_snapshot!(first_lines("Person"), @r"
    `Person` is `User` (models.py:1), by app.py:1
    class: models.User
    file: models.py:1-2
    ");
    // An argument with a name is no other name of it.
    assert_eq!(
        call(&host, json!({"name": "title"})).expect_err("there is none").code,
        "not-found"
    );
}

#[test]
fn a_function_without_def_is_shown_as_a_value() {
    let host = scripted(
        &[("a.py", "handler = lambda e: cached(e)\n")],
        &[("a.py", "handler", "value", 1)],
        &[("a.py", "handler", "definition", 1)],
    );
    let text = text(&host, json!({"name": "handler"}));
    assert!(text.starts_with("value: handler\nfile: a.py:1-1\n"), "{text}");
}

#[test]
fn a_file_that_is_too_large_to_parse_answers_with_the_lines_of_the_word() {
    let large = format!("{}def unique_big(): pass\n", "x = 1  # filled\n".repeat(150_000));
    let host = scripted(&[("big.py", &large)], &[], &[("big.py", "unique_big", "text", 150_001)]);
    insta::assert_snapshot!(text(&host, json!({"name": "unique_big"})), @r"
    `unique_big` is not known as a definition: big.py is too large to parse. It stands there as a word; read on with read_file:
    big.py:150001: def unique_big(): pass
    ");
}

#[test]
fn functions_on_one_line_keep_their_own_calls() {
    let mut host = library();
    host.write("lib.rs", b"fn a() { x() } fn b() { y() }\n");
    host.symbols = Some(FakeSymbols {
        definitions: vec![
            definition("a", "", "function", (1, 1)),
            definition("b", "", "function", (1, 1)),
        ],
        references: vec![reference("x", 1, "a"), reference("y", 1, "b")],
    });
    let text = text(&host, json!({"name": "a", "callers": false}));
    assert!(text.contains("calls:\n  x  [line 1]\nsource:"), "{text}");
}
