//! The main job, end to end: an explanation of a real repository, without a model, through sandboxed skills.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Home, citations, fixture, folder, holds};

#[test]
fn explain_writes_an_overview_whose_every_citation_exists() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    for empty in ["src/click/plugins/__init__.py", "src/click/__main__.py"] {
        let place = repository.path().join(empty);
        std::fs::create_dir_all(place.parent().expect("a file has a parent")).expect("the folder is writable");
        std::fs::write(place, "").expect("the folder is writable");
    }
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    let sections = finished.stdout.lines().filter(|line| line.starts_with("## ")).count();
    assert!(sections >= 5, "{}", finished.stdout);
    let cited: BTreeSet<_> = citations(&finished.stdout).into_iter().collect();
    assert!(cited.len() >= 10, "{cited:?}");
    for (path, line) in cited {
        let text = std::fs::read_to_string(repository.path().join(&path))
            .unwrap_or_else(|error| panic!("{path} is cited: {error}"));
        assert!((1..=text.lines().count()).contains(&line), "{path}:{line} is cited");
    }
    assert!(
        finished.stdout.contains("No language model was used"),
        "{}",
        finished.stdout
    );
    assert!(finished.stderr.contains("skill list_files"), "{}", finished.stderr);
    assert!(
        !finished.stdout.contains("skill list_files"),
        "progress belongs to standard error"
    );
}

#[test]
fn a_name_that_many_files_define_is_looked_up_once() {
    let home = Home::offline();
    let names = ["a.py", "b.py", "c.py", "d.py", "e.py", "f.py"];
    let files = names.map(|name| (name, "def setup():\n    return 1\n"));
    let repository = folder(&files);
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    assert_eq!(finished.stdout.matches("`setup` — ").count(), 1, "{}", finished.stdout);
    // Of as many files of each, the larger part counts.
    let mixed = folder(&[
        ("m.py", &"def f(): pass\n".repeat(40)),
        ("a.js", "export const a = 1\n"),
    ]);
    let finished = home.run(mixed.path(), &["explain", "."]).expect(0);
    assert!(finished.stdout.contains("mainly Python"), "{}", finished.stdout);
}

#[test]
fn a_session_leaves_a_report_a_latest_and_a_history() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    let reports = repository.path().join("session-reports");
    let latest = std::fs::read_to_string(reports.join("session_latest.md")).expect("a latest report");
    assert!(latest.contains("list_files"), "{latest}");
    let first_line = finished.stdout.lines().next().expect("an answer");
    assert!(latest.contains(first_line), "the report holds the answer");
    let history = std::fs::read(reports.join("session_history.json")).expect("a history");
    let history: serde_json::Value = serde_json::from_slice(&history).expect("JSON");
    let session = &history["sessions"][0];
    assert_eq!(session["operation"], "explain");
    assert_eq!(session["files_modified"], 0);
    let name = format!("_{}.md", session["id"].as_str().expect("an id"));
    let named = std::fs::read_dir(&reports)
        .expect("the folder")
        .filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(&name))
        })
        .count();
    assert_eq!(named, 1);
}

#[test]
fn the_overview_is_the_same_every_time() {
    let (home, repository) = (Home::offline(), fixture("inherits-2.0.1"));
    let first = home.run(repository.path(), &["explain", "."]).expect(0);
    let second = home.run(repository.path(), &["explain", "."]).expect(0);
    assert_eq!(first.stdout, second.stdout);
}

#[test]
fn text_of_the_repository_is_no_markup_of_the_overview() {
    let home = Home::offline();
    let repository = folder(&[
        (
            "package.json",
            "{\n  \"name\": \"*shop*\",\n  \"description\": \"A <b>list</b> of [carts](x) and *prices* of each\",\n  \
             \"scripts\": {\n    \"test\": \"echo `*`\"\n  },\n  \"dependencies\": {\n    \"a\": \"[x](y)\"\n  }\n}\n",
        ),
        (
            "src/[a](b).js",
            "/**\n * Counts ![x](y) <script>alert(1)</script> of carts.\n */\n\nexport class Cart {}\n",
        ),
        ("src/other.js", "export class Other {}\n"),
    ]);
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    for line in [
        "# *shop\\*",
        "Its manifest says: A \\<b>list\\</b> of [carts\\](x) and *prices\\* of each (package.json:3)",
        "- test: `npm test`: `` echo `*` `` (package.json:5)",
        "- `a` [x\\](y) [runtime] (package.json:8)",
        "- `[a](b).js`: Counts !x \\<script>alert(1)\\</script> of carts. (`src/[a](b).js:2`)",
    ] {
        assert!(
            finished.stdout.lines().any(|one| one == line),
            "{line}\n{}",
            finished.stdout
        );
    }
}

#[test]
fn an_overview_lists_the_names_that_a_package_offers() {
    let home = Home::offline();
    let python = folder(&[
        (
            "src/shop/__init__.py",
            "from .cart import Cart as Cart\n\n\ndef open_cart():\n    return Cart()\n",
        ),
        ("src/shop/cart.py", "class Cart:\n    pass\n"),
    ]);
    // A test may hold a program as text.
    let go = folder(&[
        ("go.mod", "module example.com/shop\n"),
        (
            "shop.go",
            "package shop\n\ntype Cart struct{}\n\nfunc Open() *Cart { return nil }\n\nfunc own() {}\n",
        ),
        ("shop_test.go", "package shop\n\nconst text = `\nfunc main() {\n`\n"),
    ]);
    let elixir = folder(&[
        ("mix.exs", "defmodule Shop.MixProject do\nend\n"),
        (
            "lib/shop.ex",
            "defmodule Shop do\n  @moduledoc \"A shop\"\n\n  defmodule Inner do\n  end\nend\n",
        ),
        ("lib/shop/own.ex", "defmodule Shop.Own do\n  @moduledoc false\nend\n"),
    ]);
    let java = folder(&[
        (
            "src/main/java/shop/Cart.java",
            "package shop;\n\npublic final class Cart {}\n",
        ),
        ("src/main/java/shop/Own.java", "package shop;\n\nclass Own {}\n"),
        (
            "src/main/java/shop/internal/Inner.java",
            "package shop.internal;\n\npublic class Inner {}\n",
        ),
        (
            "src/test/java/shop/CartTest.java",
            "package shop;\n\npublic class CartTest {}\n",
        ),
    ]);
    let php_files = [
        (
            "src/Cart.php",
            "<?php\n\nnamespace Shop;\n\nfinal class Cart\n{\n}\n\nfunction open() {}\n",
        ),
        (
            "src/Internal/Inner.php",
            "<?php\n\nnamespace Shop\\Internal;\n\nclass Inner\n{\n}\n",
        ),
        ("tests/CartTest.php", "<?php\n\nclass CartTest\n{\n}\n"),
    ];
    let php = |kind| {
        let manifest = format!("{{\n  \"type\": \"{kind}\"\n}}\n");
        folder(&[&[("composer.json", manifest.as_str())], &php_files[..]].concat())
    };
    for (repository, names) in [
        (
            &python,
            "Names that `src/shop/__init__.py` offers:\n\n- `Cart` (src/shop/__init__.py:1)\n- `open_cart` \
             (src/shop/__init__.py:4)\n",
        ),
        (
            &go,
            "Names that the package in this directory offers:\n\n- `Cart` (shop.go:3)\n- `Open` (shop.go:5)\n",
        ),
        (
            &elixir,
            "Names that the package in this directory offers:\n\n- `Shop` (lib/shop.ex:1)\n",
        ),
        (
            &java,
            "Names that the package in this directory offers:\n\n- `Cart` (src/main/java/shop/Cart.java:3)\n",
        ),
        (
            &php("library"),
            "Names that the package in this directory offers:\n\n- `Cart` (src/Cart.php:5)\n",
        ),
    ] {
        let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
        let section = format!("## Public interface\n\n{names}\n");
        assert!(finished.stdout.contains(&section), "{}", finished.stdout);
    }
    let program = folder(&[("main.go", "package main\n\nfunc Open() {}\n\nfunc main() {}\n")]);
    for program in [program, php("project")] {
        let finished = home.run(program.path(), &["explain", ".", "--full"]).expect(0);
        assert!(!finished.stdout.contains("## Public interface"), "{}", finished.stdout);
    }
}

#[test]
fn an_overview_of_a_program_is_no_overview_of_a_library() {
    let home = Home::offline();
    let place = folder(&[
        (
            "mux/mux.c",
            "#include \"mux.h\"\n\nint\nmain(int argc, char **argv)\n{\n\treturn run(argc);\n}\n",
        ),
        ("mux/mux.h", "int run(int);\n"),
        (
            "mux/list.c",
            "#include \"list.h\"\n\nint main(void)\n{\n\treturn 0;\n}\n",
        ),
        ("mux/list.h", "struct list;\n"),
        ("mux/autogen.sh", "#!/bin/sh\n"),
        ("mux/Makefile.am", "# Sources\nbin_PROGRAMS = mux\n"),
        ("mux/db/1.sql", "CREATE TABLE a (b int);\n"),
        ("mux/db/2.sql", "CREATE TABLE b (b int);\n"),
        ("mux/db/3.sql", "CREATE TABLE c (b int);\n"),
        ("mux/db/4.sql", "CREATE TABLE d (b int);\n"),
        ("mux/db/5.sql", "CREATE TABLE e (b int);\n"),
        ("mux/regress/list.sh", "#!/bin/sh\n./mux\n"),
        (
            "mux/examples/web/package.json",
            "{\n  \"dependencies\": {\"left-pad\": \"1\"}\n}\n",
        ),
    ]);
    let finished = home
        .run(&place.path().join("mux"), &["explain", ".", "--full"])
        .expect(0);
    let shown = finished.stdout;
    for present in [
        "its sources are mainly C.",
        "- build: `./autogen.sh && ./configure && make` (`autogen.sh`)\n",
        "- program `mux.c` (mux.c:4)\n",
        "1 test file, `regress/list.sh`.",
    ] {
        assert!(shown.contains(present), "{present}: {shown}");
    }
    for absent in [
        "program `list.c`",
        "library `mux.h`",
        "## Public interface",
        "## Dependencies",
    ] {
        assert!(!shown.contains(absent), "{absent}: {shown}");
    }
}

#[test]
fn a_manifest_that_tests_hold_broken_is_no_problem_of_the_project() {
    let home = Home::offline();
    let repository = folder(&[
        ("index.js", "exports.run = 1\n"),
        ("package.json", "{\n"),
        ("tests/data/package.json", "{\n"),
    ]);
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    let problems = finished
        .stdout
        .lines()
        .filter(|line| line.contains("a manifest could not be read"));
    let problems: Vec<&str> = problems.collect();
    assert!(
        matches!(problems[..], [own] if own.contains(": package.json:")),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_single_file_is_explained() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let finished = home
        .run(repository.path(), &["explain", "src/click/parser.py"])
        .expect(0);
    assert!(finished.stdout.contains("class Option"), "{}", finished.stdout);
    assert!(finished.stdout.contains("src/click/parser.py:"), "{}", finished.stdout);
}

#[test]
fn a_path_is_relative_to_the_working_directory_first() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    std::fs::create_dir(repository.path().join(".git")).expect("the folder is writable");
    std::fs::write(repository.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("the folder is writable");
    let inside = repository.path().join("src/click");
    let finished = home.run(&inside, &["explain", "parser.py"]).expect(0);
    assert!(
        finished.stdout.contains("# `src/click/parser.py`"),
        "{}",
        finished.stdout
    );
    assert!(
        inside.join("session-reports/session_latest.md").exists(),
        "reports go to the working directory"
    );
}

#[test]
fn architect_measures_what_the_task_names() {
    let (home, repository) = (Home::offline(), fixture("click-8.1.8"));
    let answer = |task: &str| home.run(repository.path(), &["architect", task]).expect(0).stdout;
    let parser = answer("make the parser replaceable");
    assert!(parser.contains("\n## `src/click/parser.py`\n"), "{parser}");
    let class = answer("split the Context class, it is a god object");
    assert!(class.contains("- Defined: `Context` (src/click/core.py:"), "{class}");
    assert_eq!(class.matches("\n## ").count(), 1, "{class}");
    for answer in [parser, class] {
        assert!(!citations(&answer).is_empty(), "{answer}");
        for (path, _) in citations(&answer) {
            assert!(repository.path().join(&path).exists(), "{path} is cited");
        }
    }
}

#[test]
fn architect_refuses_a_task_that_names_no_part_of_the_repository() {
    let home = Home::offline();
    let repository = folder(&[
        ("a.py", "class A:\n    def a(self):\n        return 1\n"),
        ("test_a.py", "from a import A\n"),
    ]);
    for task in ["make it better", "split the class into smaller functions and types"] {
        let refused = home.run(repository.path(), &["architect", task]).expect(1);
        assert_eq!(refused.stdout, "");
        let why = "[error] No word of the task names a definition, a file or a folder of this repository";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn a_name_that_cannot_be_shown_is_said_to_be_the_reason_that_nothing_was_read() {
    let home = Home::offline();
    let text = "def f():\n    return 1\n";
    let odd = ["a`b.py", "c\nd.py", "e\u{1b}f.py", "g`h/x.py"];
    let repository = folder(&odd.map(|path| (path, text)));
    for (target, what) in [
        ("a`b.py", "It was not read"),
        ("c\nd.py", "It was not read"),
        ("e\u{1b}f.py", "It was not read"),
        ("g`h", "Its files were not counted"),
    ] {
        let finished = home.run(repository.path(), &["explain", target]).expect(0);
        let why = format!("{what}: its name holds characters that cannot be shown, and it is not known by another.\n");
        assert!(finished.stdout.contains(&why), "{target:?}: {}", finished.stdout);
        assert!(!finished.stdout.contains("empty or binary"), "{}", finished.stdout);
    }
    let empty = folder(&[("empty.py", "")]);
    let finished = home.run(empty.path(), &["explain", "empty.py"]).expect(0);
    assert!(finished.stdout.contains("it is empty or binary"), "{}", finished.stdout);
    let tested = folder(&[("a.py", text), ("test_a.py", text)]);
    let finished = home.run(tested.path(), &["explain", ".", "--full"]).expect(0);
    assert!(
        finished.stdout.contains("\n1 test file, `test_a.py`.\n"),
        "{}",
        finished.stdout
    );
}

#[test]
fn what_needs_a_model_says_so_before_anything_starts() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "def a():\n    return 1\n")]));
    for arguments in [&["refactor", "tidy up"][..], &["test-gen", "a.py"]] {
        let finished = home.run(repository.path(), arguments).expect(2);
        assert!(
            finished
                .stderr
                .contains("[error] The embedded analyst uses no language model"),
            "{}",
            finished.stderr
        );
        assert!(finished.stderr.contains("tool init"), "{}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_session_without_a_model_needs_no_network_and_no_key() {
    let home = Home::offline();
    let config = std::fs::read_to_string(home.path().join("config.toml")).expect("it was written");
    assert!(config.contains("builtin:analyst"), "{config}");
    assert!(!config.contains("api_key"), "{config}");
    let models = home.run(Path::new("/"), &["skill", "list", "--json"]).expect(0);
    assert_eq!(models.stdout.matches("\"builtin\"").count(), 12, "{}", models.stdout);
}

#[test]
fn a_directory_of_tests_documents_or_assets_is_explained_by_what_lies_in_it() {
    let home = Home::offline();
    let repository = folder(&[
        ("src/app.py", "def app():\n    return 1\n"),
        (
            "tests/test_app.py",
            "\"\"\"Tests of the app.\"\"\"\n\nfrom app import app\n\n\ndef test_app():\n    assert app() == 1\n",
        ),
        ("requirements/base.txt", "# What it needs to run.\nflask\n"),
        ("docs/_static/site.css", "body { margin: 0 }\n"),
        ("wit/world.wit", "/// The contract.\npackage a:b;\n"),
        ("scripts/run", "#!/bin/sh\n# Starts it.\nexec python src/app.py\n"),
    ]);
    for (directory, said) in [
        ("tests", "test_app.py"),
        (
            "requirements",
            "- `requirements/base.txt`: What it needs to run. (requirements/base.txt:1)",
        ),
        ("docs/_static", "docs/_static/site.css"),
        ("wit", "- `wit/world.wit`: The contract. (wit/world.wit:1)"),
        ("scripts", "its sources are mainly Shell"),
    ] {
        let finished = home.run(repository.path(), &["explain", directory]).expect(0);
        assert!(
            finished.stdout.contains(&format!("# `{directory}/`")),
            "{}",
            finished.stdout
        );
        assert!(finished.stdout.contains(said), "{directory}: {}", finished.stdout);
        let chosen = home
            .run(
                repository.path(),
                &["context", "--operation", "explain", directory, "--paths"],
            )
            .expect(0);
        let first = chosen.stdout.lines().next().unwrap_or_default();
        assert!(first.starts_with(directory), "{}", chosen.stdout);
    }
    let whole = home.run(repository.path(), &["explain", "."]).expect(0);
    let name = repository.path().file_name().expect("it has a name").to_string_lossy();
    assert!(whole.stdout.starts_with(&format!("# {name}\n")), "{}", whole.stdout);
    let script = home.run(repository.path(), &["explain", "scripts/run"]).expect(0);
    assert!(
        script.stdout.contains("No file was found that names its path."),
        "{}",
        script.stdout
    );
}

const SHOP: [(&str, &str); 4] = [
    ("shop/__init__.py", "from .cart import Cart\n"),
    (
        "shop/cart.py",
        "from .store import prices\n\n\nclass Cart:\n    prices = prices\n",
    ),
    ("shop/store/__init__.py", ""),
    ("shop/store/prices.py", "PRICES = {}\n"),
];

#[test]
fn graph_prints_imports_as_mermaid_dot_and_json() {
    let (home, repository) = (Home::offline(), folder(&SHOP));
    let print = |arguments: &[&str]| home.run(repository.path(), arguments).expect(0).stdout;
    insta::assert_snapshot!(print(&["graph"]), @r#"
    graph LR
      n0["shop/__init__.py"]
      n1["shop/cart.py"]
      n2["shop/store/__init__.py"]
      n3["shop/store/prices.py"]
      n0 --> n1
      n1 --> n3
    "#);
    insta::assert_snapshot!(print(&["graph", "--format", "dot", "shop/store"]), @r#"
    digraph modules {
      rankdir=LR;
      node [shape=box];
      n0 [label="shop/store/__init__.py"];
      n1 [label="shop/store/prices.py"];
    }
    "#);
    insta::assert_snapshot!(print(&["graph", "--json", "--packages"]), @r#"
    {
      "path": "",
      "nodes": [
        {
          "name": "./",
          "files": 4
        }
      ],
      "edges": [],
      "edges_left_out": 0,
      "notices": []
    }
    "#);
    for path in ["shop/cart.py", "nope"] {
        let refused = home.run(repository.path(), &["graph", path]).expect(2);
        assert_eq!(
            refused.stderr,
            format!(
                "[error] There is no directory `{path}`\nhint: a graph shows the modules of a directory: name one, or none \
                 for the whole repository\n"
            )
        );
    }
}

const CALLS: [(&str, &str); 4] = [
    (
        "shop/cart.py",
        "from .price import round_price\n\n\nclass Cart:\n    def total(self):\n        return round_price(sum(self.prices()))\n\n    \
         def prices(self):\n        return []\n",
    ),
    ("shop/price.py", "def round_price(price):\n    return print(price)\n"),
    (
        "shop/order.py",
        "from .cart import Cart\n\n\ndef buy(cart):\n    \"\"\"Calls total().\"\"\"\n    return cart.total()\n\n\nclass Order:\n    \
         def total(self):\n        return Cart.total(self)\n",
    ),
    (
        "tests/test_cart.py",
        "from shop.cart import Cart\n\n\ndef test_one():\n    assert Cart().total() == 0\n\n\ndef test_two():\n    Cart.total(None)\n",
    ),
];

#[test]
fn graph_draws_callers_and_callees_of_a_symbol() {
    let (home, repository) = (Home::offline(), folder(&CALLS));
    let run = |arguments: &[&str]| home.run(repository.path(), &[&["graph"], arguments].concat());
    let one = run(&["--symbol", "Cart.total"]).expect(0);
    insta::assert_snapshot!(one.stdout, @r#"
    graph LR
      n0[["Cart.total (shop/cart.py:5)"]]
      n1["Order.total (shop/order.py:10)"]
      n2["buy (shop/order.py:4)"]
      n3(["2 callers in tests and examples"])
      n4["Cart.prices (shop/cart.py:8)"]
      n5["round_price (shop/price.py:1)"]
      n3 -->|2| n0
      n1 --> n0
      n0 --> n4
      n0 --> n5
      n2 -.-> n0
    "#);
    insta::assert_snapshot!(one.stderr, @r"
    Not drawn: calls of 1 name for which no definition in the repository fits (`sum`)
    Dashed: known by name only, so another definition may be meant, also one of a library
    ");
    insta::assert_snapshot!(run(&["--symbol", "round_price", "--format", "dot"]).expect(0).stdout, @r#"
    digraph calls {
      rankdir=LR;
      node [shape=box];
      n0 [label="round_price (shop/price.py:1)" style=bold];
      n1 [label="Cart.total (shop/cart.py:5)"];
      n1 -> n0 [label="1"];
    }
    "#);
    insta::assert_snapshot!(run(&["--symbol", "prices", "--json"]).expect(0).stdout, @r#"
    {
      "symbol": "prices",
      "definitions": 1,
      "nodes": [
        {
          "name": "Cart.prices",
          "role": "symbol",
          "path": "shop/cart.py",
          "line": 8,
          "definitions": 1
        },
        {
          "name": "Cart.total",
          "role": "caller",
          "path": "shop/cart.py",
          "line": 5,
          "definitions": 1
        }
      ],
      "edges": [
        {
          "from": 1,
          "to": 0,
          "calls": 1,
          "by_name_only": false
        }
      ],
      "edges_left_out": 0,
      "notices": []
    }
    "#);
    let both = run(&["--symbol", "total"]).expect(0);
    insta::assert_snapshot!(both.stdout, @r#"
    graph LR
      n0[["Cart.total (shop/cart.py:5)"]]
      n1[["Order.total (shop/order.py:10)"]]
      n2["buy (shop/order.py:4)"]
      n3(["2 callers in tests and examples"])
      n4["Cart.prices (shop/cart.py:8)"]
      n5["round_price (shop/price.py:1)"]
      n3 -->|2| n0
      n1 --> n0
      n0 --> n4
      n0 --> n5
      n2 -.-> n0
      n2 -.-> n1
      n3 -.-> n1
    "#);
    insta::assert_snapshot!(both.stderr, @r"
    `total` has 2 definitions: each is drawn; name a path to narrow them
    Not drawn: calls of 1 name for which no definition in the repository fits (`sum`)
    Dashed: known by name only, so another definition may be meant, also one of a library
    ");
    let narrowed = run(&["--symbol", "total", "shop/order.py"]).expect(0);
    insta::assert_snapshot!(narrowed.stdout, @r#"
    graph LR
      n0[["Order.total (shop/order.py:10)"]]
      n1["buy (shop/order.py:4)"]
      n2["test_one (tests/test_cart.py:4)"]
      n3["Cart.total (shop/cart.py:5)"]
      n0 --> n3
      n1 -.-> n0
      n2 -.-> n0
    "#);
    let refused = |arguments: &[&str]| run(arguments).expect(2).stderr;
    insta::assert_snapshot!(refused(&["--symbol", "Total"]), @r"
    [error] No function, method or type `Total` is defined in the repository
    hint: did you mean `total` (shop/cart.py:5)?
    ");
    insta::assert_snapshot!(refused(&["--symbol", "total", "shop/price.py"]), @r"
    [error] No function, method or type `total` is defined in `shop/price.py`
    hint: it is defined at `shop/cart.py:5`, `shop/order.py:10`
    ");
    insta::assert_snapshot!(refused(&["--symbol", "total", "shop/none"]), @r"
    [error] There is no file or directory `shop/none`
    hint: a path narrows the definitions of the symbol to a file or a directory
    ");
    insta::assert_snapshot!(refused(&["--symbol", "order"]), @r"
    [error] No function, method or type `order` is defined in the repository
    hint: did you mean `Order` (shop/order.py:9)?
    ");
    insta::assert_snapshot!(refused(&["Order"]), @r"
    [error] There is no directory `Order`
    hint: it is a definition: `tool graph --symbol Order` shows its callers and callees
    ");
}

#[test]
fn an_explained_symbol_is_shown_and_drawn_with_its_callers_and_callees() {
    let (home, repository) = (Home::offline(), folder(&CALLS));
    let finished = home.run(repository.path(), &["explain", "total"]).expect(0);
    let (shown, _) = finished.stdout.split_once("## Callers").unwrap_or_default();
    insta::assert_snapshot!(shown, @r"
    # `total`

    > Written by the embedded analyst from measurements of this repository. No language model was used.

    ## What it is

    `def total(self)` (shop/cart.py:5-6)
    It calls `round_price` (shop/price.py:1), `self.prices` (shop/cart.py:8).

    ```text
         5      def total(self):
         6          return round_price(sum(self.prices()))
    ```

    `def total(self)` (shop/order.py:10-11)
    It calls `Cart.total` (shop/cart.py:5).

    ```text
        10      def total(self):
        11          return Cart.total(self)
    ```

    The name is defined 2 times: shop/cart.py:5, shop/order.py:10.
    ");
    let finished = home.run(repository.path(), &["explain", "Cart.total"]).expect(0);
    assert!(
        finished.stdout.contains("\n## Its file, `shop/cart.py`\n"),
        "{}",
        finished.stdout
    );
    let (_, picture) = finished
        .stdout
        .split_once("## Callers and callees of `Cart.total`\n\n")
        .unwrap_or_else(|| panic!("{}", finished.stdout));
    let (picture, _) = picture.split_once("\n## ").unwrap_or((picture, ""));
    insta::assert_snapshot!(picture, @r#"
    ```mermaid
    graph LR
      n0[["Cart.total (shop/cart.py:5)"]]
      n1["Order.total (shop/order.py:10)"]
      n2["buy (shop/order.py:4)"]
      n3(["2 callers in tests and examples"])
      n4["Cart.prices (shop/cart.py:8)"]
      n5["round_price (shop/price.py:1)"]
      n3 -->|2| n0
      n1 --> n0
      n0 --> n4
      n0 --> n5
      n2 -.-> n0
    ```

    Not drawn: calls of 1 name for which no definition in the repository fits (`sum`).

    Dashed: known by name only, so another definition may be meant, also one of a library.
    "#);
}

#[test]
fn an_overview_draws_the_imports_between_modules() {
    let (home, repository) = (Home::offline(), folder(&SHOP));
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    let (_, picture) = finished
        .stdout
        .split_once("## Imports between modules\n\n```mermaid\n")
        .unwrap_or_else(|| panic!("{}", finished.stdout));
    let (picture, _) = picture.split_once("```").expect("the block ends");
    insta::assert_snapshot!(picture, @r#"
    graph LR
      n0["shop/__init__.py"]
      n1["shop/cart.py"]
      n2["shop/store/prices.py"]
      n0 --> n1
      n1 --> n2
    "#);
}

#[test]
fn an_overview_lists_the_routes_and_commands_that_sources_declare() {
    let home = Home::offline();
    let repository = folder(&[
        (
            "shop/__init__.py",
            "from flask import Blueprint\n\nbp = Blueprint('shop', __name__)\n",
        ),
        (
            "shop/routes.py",
            "# from flask\nfrom shop import bp\n\n\n@bp.route('/items', methods=['GET', 'POST'])\n@login\ndef items():\n    \
             client.get('/other')\n\n\n# @bp.route('/old')\n@bp.get('/items/<id>')\ndef item(id):\n    pass\n\n\n\
             @bp.get(f'/{id}')\ndef computed():\n    pass\n\n\n@cache.get('/none')\ndef none():\n    pass\n",
        ),
        (
            "shop/cli.py",
            "import argparse\nimport click\n\n\n@click.group()\ndef main():\n    pass\n\n\n@main.command(help='Adds one')\n\
             def add_item():\n    pass\n\n\n@main.command('rm')\ndef remove():\n    pass\n\n\n\
             parser = argparse.ArgumentParser().add_subparsers()\nparser.add_parser('pack', help='Packs all.')\nparser.add_parser(name)\n",
        ),
        (
            "site/urls.py",
            "from django.urls import include, path\n\nurlpatterns = [\n    path('a/', views.A.as_view()),\n    \
             path('b/', include('b.urls')),\n]\n",
        ),
        (
            "web/server.js",
            "const express = require('express');\nconst app = express();\n// app.get('/comment', f);\napp.get('/users', list);\n\
             app.get('/setting');\napp.route('/users/:id').get((req) => 1).put(save);\nfetcher.get('/no', f);\n",
        ),
        (
            "cmd/main.go",
            "package main\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/gin-gonic/gin\"\n\t\"github.com/spf13/cobra\"\n)\n\n\
             var serve = &cobra.Command{\n\tUse:   \"serve [port]\",\n\tShort: \"Serve it\",\n}\n\n\
             func routes(r *gin.Engine) {\n\tv1 := r.Group(\"/v1\")\n\tv1.GET(\"/carts\", carts)\n\thttp.Get(\"/no\")\n\t\
             http.HandleFunc(\"POST /pay\", pay)\n}\n",
        ),
        (
            "app.rb",
            "require 'sinatra/base'\n\nclass App < Sinatra::Base\n  get '/hello' do\n    get '/no'\n  end\nend\n\n\
             class Other\n  get '/other' do\n  end\nend\n",
        ),
        (
            "src/main.rs",
            "use axum::{Router, routing::get};\nuse clap::Subcommand;\n\n#[derive(Debug, Subcommand)]\nenum Command {\n    \
             /// Adds an item.\n    AddItem { name: String },\n    #[command(name = \"ls\")]\n    List,\n    #[command(hide = true)]\n    \
             Secret,\n}\n\nfn app() -> Router {\n    Router::new().route(\"/orders\", get(list).post(create))\n}\n\n\
             #[cfg(test)]\nmod tests {\n    fn app() {\n        Router::new().route(\"/test\", get(list));\n    }\n}\n",
        ),
        (
            "java/Orders.java",
            "import org.springframework.web.bind.annotation.*;\n\n@RestController\n@RequestMapping(\"/api\")\nclass Orders {\n  \
             @GetMapping({ \"/orders\", \"/all\" })\n  String all() { return \"\"; }\n\n  @PostMapping\n  void add() {}\n}\n\n\
             interface Client {\n  @GetMapping(\"/no\")\n  String get();\n}\n",
        ),
        (
            "tests/test_app.py",
            "from flask import Flask\n\napp = Flask(__name__)\n\n\n@app.route('/test')\ndef test():\n    pass\n",
        ),
    ]);
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    let section = |name: &str| {
        let (_, section) = finished
            .stdout
            .split_once(&format!("## {name}\n\n"))
            .unwrap_or_else(|| panic!("{}", finished.stdout));
        section.split("\n\n## ").next().unwrap_or(section).to_owned()
    };
    insta::assert_snapshot!(section("HTTP routes"), @r"
    - GET `/hello` (app.rb:4)
    - GET `/v1/carts` → `carts` (cmd/main.go:17)
    - POST `/pay` → `pay` (cmd/main.go:19)
    - GET `/api/all` → `all` (java/Orders.java:6-7)
    - GET `/api/orders` → `all` (java/Orders.java:6-7)
    - POST `/api` → `add` (java/Orders.java:9-10)
    - GET, POST `/items` → `items` (shop/routes.py:5-7)
    - GET `/items/<id>` → `item` (shop/routes.py:12-13)
    - `/a/` → `views.A` (site/urls.py:4)
    - `/b/` → `b.urls` (site/urls.py:5)
    - GET, POST `/orders` (src/main.rs:15)
    - GET `/users` → `list` (web/server.js:4)
    - GET, PUT `/users/:id` (web/server.js:6)
    ");
    insta::assert_snapshot!(section("Commands"), @r"
    - `serve`: Serve it (cmd/main.go:11)
    - `add-item` → `add_item`: Adds one (shop/cli.py:10-11)
    - `rm` → `remove` (shop/cli.py:15-16)
    - `pack`: Packs all (shop/cli.py:21)
    - `add-item` → `AddItem`: Adds an item (src/main.rs:7)
    - `ls` → `List` (src/main.rs:9)
    ");
    let wrong: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("wrong")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let plain = folder(&[("a.py", "def f():\n    pass\n")]);
    let finished = home.run(plain.path(), &["explain", ".", "--full"]).expect(0);
    assert!(!finished.stdout.contains("## HTTP routes"), "{}", finished.stdout);
    assert!(!finished.stdout.contains("## Commands"), "{}", finished.stdout);
}

#[test]
fn routes_begin_with_the_paths_of_their_groups_and_mounts() {
    let home = Home::offline();
    let repository = folder(&[
        (
            "main.go",
            "package main\n\nimport (\n\t\"shop/router\"\n\t\"shop/users\"\n)\n\nfunc main() {\n\tr := router.New()\n\t\
             v1 := r.Group(\"/api\")\n\tusers.Register(v1.Group(\"/users\"))\n\tserver.Start(r)\n}\n",
        ),
        (
            "router/router.go",
            "package router\n\nimport \"github.com/labstack/echo/v4\"\n\nfunc New() *echo.Echo {\n\te := echo.New()\n\t\
             e.GET(\"/health\", check, auth)\n\treturn e\n}\n",
        ),
        (
            "users/users.go",
            "package users\n\nimport \"github.com/labstack/echo/v4\"\n\nfunc Register(g *echo.Group) {\n\t\
             g.POST(\"\", signUp)\n\tg.GET(\"/:name\", show)\n}\n",
        ),
        (
            "chi/api.go",
            "package chi\n\nimport \"github.com/go-chi/chi/v5\"\n\nfunc Routes() chi.Router {\n\tr := chi.NewRouter()\n\t\
             r.Route(\"/carts\", func(r chi.Router) {\n\t\tr.Get(\"/{id}\", cart)\n\t})\n\tr.Get(\"/ping\", ping)\n\treturn r\n}\n",
        ),
        (
            "axum/src/main.rs",
            "use axum::{Router, routing::get};\n\nmod users;\n\nfn app() -> Router {\n    let api = Router::new()\n        \
             .route(\"/carts\", get(carts))\n        .nest(\"/users\", users::router());\n    \
             Router::new().nest(\"/api\", api).route(\"/\", get(home))\n}\n",
        ),
        (
            "axum/src/users.rs",
            "use axum::{Router, routing::get};\n\npub fn router() -> Router {\n    Router::new().route(\"/{id}\", get(show).delete(remove))\n}\n",
        ),
        (
            "actix/src/main.rs",
            "use actix_web::{App, get, web};\n\n#[get(\"/carts\")]\nasync fn carts() {}\n\nfn app() {\n    App::new()\n        \
             .service(\n            web::scope(\"/admin\")\n                .wrap(auth)\n                .route(\"/login\", web::post().to(login))\n                \
             .service(carts),\n        )\n        .service(web::resource(\"/users/{id}\").route(web::get().to(user)))\n        \
             .configure(shop);\n}\n\nfn shop(config: &mut web::ServiceConfig) {\n    config.route(\"/shop\", web::get().to(list));\n}\n",
        ),
        (
            "Api/Carts.cs",
            "using Microsoft.AspNetCore.Builder;\n\npublic static class Carts\n{\n    public static void MapCarts(this IEndpointRouteBuilder app)\n    {\n        \
             var api = app.MapGroup(\"api/carts\").WithTags(\"Carts\");\n        api.MapGet(\"/{id:int}\", GetCart);\n        \
             api.MapPost(\"/\", async (Cart cart) => cart);\n    }\n}\n",
        ),
        (
            "Api/OrdersController.cs",
            "[ApiController]\n[Route(\"api/[controller]\")]\npublic class BaseController : ControllerBase { }\n\npublic class OrdersController : BaseController\n{\n    \
             // [HttpGet(\"old\")]\n    [HttpGet(\"{id}\")]\n    public Order Get(int id) => null;\n}\n",
        ),
        (
            "java/Heroes.java",
            "import jakarta.ws.rs.GET;\nimport jakarta.ws.rs.Path;\n\n@Path(\"/heroes\")\npublic class Heroes {\n  @GET\n  @Path(\"/random\")\n  \
             public String random() { return \"\"; }\n}\n",
        ),
        (
            "lib/shop_web/router.ex",
            "defmodule ShopWeb.Router do\n  use ShopWeb, :router\n\n  scope \"/api\", ShopWeb do\n    pipe_through :api\n\n    \
             resources \"/carts\", CartController do\n      get \"/items\", ItemController, :index\n    end\n  end\n\n  get \"/\", ShopWeb.PageController, :home\nend\n",
        ),
    ]);
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    let (_, section) = finished.stdout.split_once("## HTTP routes\n\n").expect("it has routes");
    insta::assert_snapshot!(section.split("\n\n## ").next().unwrap_or_default(), @r"
    - GET `/api/carts/{id:int}` → `GetCart` (Api/Carts.cs:8)
    - POST `/api/carts/` (Api/Carts.cs:9)
    - GET `/api/Orders/{id}` → `Get` (Api/OrdersController.cs:8-9)
    - GET `/admin/carts` → `carts` (actix/src/main.rs:3-4)
    - POST `/admin/login` → `login` (actix/src/main.rs:11)
    - GET `/users/{id}` → `user` (actix/src/main.rs:14)
    - GET `/shop` → `list` (actix/src/main.rs:19)
    - GET `/api/carts` → `carts` (axum/src/main.rs:7)
    - GET `/` → `home` (axum/src/main.rs:9)
    - GET, DELETE `/api/users/{id}` (axum/src/users.rs:4)
    - GET `/carts/{id}` → `cart` (chi/api.go:8)
    - GET `/ping` → `ping` (chi/api.go:10)
    - GET `/heroes/random` → `random` (java/Heroes.java:6-8)
    - resources `/api/carts` → `CartController` (lib/shop_web/router.ex:7)
    - GET `/api/carts/:cart_id/items` → `ItemController.index` (lib/shop_web/router.ex:8)
    - GET `/` → `ShopWeb.PageController.home` (lib/shop_web/router.ex:12)
    - GET `/health` → `check` (router/router.go:7)
    - POST `/api/users` → `signUp` (users/users.go:6)
    - GET `/api/users/:name` → `show` (users/users.go:7)
    ");
    let wrong: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("wrong")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn routes_have_the_prefixes_of_routers_blocks_and_other_files() {
    let home = Home::offline();
    let repository = folder(&[
        (
            "shop/main.py",
            "from fastapi import FastAPI\n\nfrom shop.api import users\nfrom shop.settings import settings\n\n\
             app = FastAPI()\napp.include_router(users.router, prefix=settings.PREFIX)\n",
        ),
        (
            "shop/settings.py",
            "class Settings:\n    PREFIX: str = \"/v1\"\n\n\nsettings = Settings()\n",
        ),
        ("shop/api/__init__.py", ""),
        (
            "shop/api/users.py",
            "from fastapi import APIRouter\n\nrouter = APIRouter(prefix=\"/users\", tags=[\"users\"])\n\n\n\
             @router.get(\"/{id}\", response_model=list[int])\ndef read(id: int):\n    return [id]\n",
        ),
        (
            "site/urls.py",
            "from django.urls import include, path\n\nurlpatterns = [\n    path('blog/', include('blog.urls')),\n]\n",
        ),
        (
            "blog/urls.py",
            "from django.urls import path\n\nfrom . import views\n\nurlpatterns = [path('<int:pk>/', views.post)]\n",
        ),
        (
            "web/app.js",
            "const express = require('express');\nconst carts = require('./carts');\n\nconst app = express();\n\
             app.use(express.json());\napp.use('/api', check, carts);\n",
        ),
        (
            "web/carts.js",
            "const { Router } = require('express');\n\nconst router = Router();\nrouter.get('/carts/:id', auth, show);\n\n\
             module.exports = router;\n",
        ),
        (
            "nest/main.ts",
            "import { NestFactory } from '@nestjs/core';\n\nasync function start() {\n  const app = await NestFactory.create(App);\n  \
             app.setGlobalPrefix('rest');\n}\n",
        ),
        (
            "nest/pets.controller.ts",
            "import { Controller, Get } from '@nestjs/common';\n\n@Controller('pets')\nexport class PetsController {\n  \
             @Get(':id')\n  one() {}\n}\n",
        ),
        (
            "config/routes.rb",
            "Rails.application.routes.draw do\n  root to: \"home#index\"\n\n  scope :api do\n    resources :articles, param: :slug do\n      \
             resources :comments, only: [:index]\n      get :feed, on: :collection\n    end\n  end\n  \
             # get \"/old\" => \"old#show\"\n  get \"/newest\" => \"home#newest\"\nend\n",
        ),
        (
            "routes/api.php",
            "<?php\n\nRoute::prefix('vaults')->group(function () {\n    Route::get('{vault}', [VaultController::class, 'show']);\n\
             });\nRoute::apiResource('posts', PostController::class);\n",
        ),
        (
            "src/BlogController.php",
            "<?php\n\n#[Route('/blog')]\nfinal class BlogController\n{\n    #[Route('/{slug}', name: 'post', methods: ['GET'])]\n    \
             public function post(): void\n    {\n    }\n}\n",
        ),
        ("store/package.json", "{\"dependencies\": {\"next\": \"15.0.0\"}}\n"),
        (
            "store/app/(shop)/product/[handle]/page.tsx",
            "export default function Page() {}\n",
        ),
        ("store/app/api/pay/route.ts", "\nexport async function POST() {}\n"),
    ]);
    let finished = home.run(repository.path(), &["explain", ".", "--full"]).expect(0);
    let (_, section) = finished.stdout.split_once("## HTTP routes\n\n").expect("it has routes");
    let section = section.split("\n\n## ").next().unwrap_or(section);
    insta::assert_snapshot!(section, @r"
    - `/blog/<int:pk>/` → `views.post` (blog/urls.py:5)
    - GET `/` → `home#index` (config/routes.rb:2)
    - resources `/api/articles` (config/routes.rb:5)
    - resources `/api/articles/:article_slug/comments` (config/routes.rb:6)
    - GET `/api/articles/feed` (config/routes.rb:7)
    - GET `/newest` → `home#newest` (config/routes.rb:11)
    - GET `/rest/pets/:id` → `one` (nest/pets.controller.ts:5-6)
    - GET `/api/vaults/{vault}` → `VaultController` (routes/api.php:4)
    - apiResource `/api/posts` → `PostController` (routes/api.php:6)
    - GET `/v1/users/{id}` → `read` (shop/api/users.py:6-7)
    - GET `/blog/{slug}` → `post` (src/BlogController.php:6-7)
    - `/product/[handle]` (`store/app/(shop)/product/[handle]/page.tsx:1`)
    - POST `/api/pay` (store/app/api/pay/route.ts:2)
    - GET `/api/carts/:id` → `show` (web/carts.js:4)
    ");
}

#[test]
fn architect_shows_who_uses_a_definition_and_its_tests() {
    let home = Home::offline();
    let repository = folder(&[
        ("shop/__init__.py", ""),
        (
            "shop/cart.py",
            "from .prices import parse_prices\n\n\nclass Cart:\n    def total(self):\n        return parse_prices()\n",
        ),
        ("shop/prices.py", "def parse_prices():\n    return 1\n"),
        ("shop/app.py", "from shop.cart import Cart\n\nCart().total()\n"),
        ("tests/test_cart.py", "from shop.cart import Cart\n\nassert Cart\n"),
    ]);
    let answer = |task: &str| home.run(repository.path(), &["architect", task]).expect(0).stdout;
    holds(
        &answer("split the Cart class"),
        &[
            "## `Cart`\n\n- Defined: `Cart` (shop/cart.py:4-6), 3 lines\n",
            "- Holds: 1 definition, the longest first: `total` (shop/cart.py:5-6)\n",
            "- Used by: 1 source: shop/app.py:1",
            "- Tests: 1 file: tests/test_cart.py:1",
            "shop/prices.py:1",
        ],
    );
    holds(
        &answer("parse prices lazily"),
        &[
            "## `parse_prices`\n\n- Defined: `parse_prices` (shop/prices.py:1-2)",
            "- Used by: 1 source: shop/cart.py:1",
        ],
    );
}
