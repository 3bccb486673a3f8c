//! `tool context`, and the flags that steer a selection: the output is the packet that an operation sends.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tool_model_server::Round;

use crate::providers::scripted;
use crate::support::{Home, folder, git};

fn shop() -> TempDir {
    folder(&[
        ("README.md", "# Shop\n\nSells crates.\n"),
        ("docs/prices.md", "Prices are in cents.\n"),
        ("shop/cart.py", "def add_crate(cart, crate):\n    cart.append(crate)\n"),
        ("shop/discount.py", "def discount(price):\n    return price * 0.9\n"),
        (
            "shop/secret_plan.py",
            "def secret_discount(price):\n    return price * 0.5\n",
        ),
        ("main.py", "from shop.cart import add_crate\n\nadd_crate([], 1)\n"),
    ])
}

fn paths(home: &Home, repository: &TempDir, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["context", "--paths"], arguments].concat();
    let shown = home.run(repository.path(), &arguments).expect(0).stdout;
    shown.lines().map(str::to_owned).collect()
}

#[test]
fn the_task_decides_and_the_user_overrides() {
    let (home, repository) = (Home::offline(), shop());
    let task = "change the discount of a price";
    assert_eq!(paths(&home, &repository, &[task])[0], "shop/discount.py");
    let steered = ["--include", "docs", "--exclude", "**/secret_*", task];
    let steered = paths(&home, &repository, &steered);
    assert_eq!(steered[..2], ["docs/prices.md", "shop/discount.py"]);
    assert!(!steered.iter().any(|path| path.contains("secret")), "{steered:?}");
}

#[test]
fn an_index_changes_no_selection_holds_nothing_hidden_and_may_be_deleted() {
    let (home, repository) = (Home::offline(), shop());
    std::fs::write(repository.path().join(".env"), "PASSWORD=swordfish\n").expect("the folder is ours");
    let task = "change the discount of a price";
    let first = paths(&home, &repository, &[task]);
    let index = home.path().join("index");
    // It is made beside the answer.
    let since = std::time::Instant::now();
    while !holds(&index, b"secret_discount") {
        assert!(since.elapsed().as_secs() < 60, "no index was made");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(paths(&home, &repository, &[task]), first);
    assert!(!holds(&index, b"swordfish") && !holds(&index, b".env"));
    // The backend may still be writing into the folder, so one removal can find it not empty.
    while index.exists() {
        assert!(since.elapsed().as_secs() < 60, "the index could not be deleted");
        let _still_written = std::fs::remove_dir_all(&index);
    }
    assert_eq!(paths(&home, &repository, &[task]), first);

    let moved = "def discount(price):\n    return price * 0.8\n";
    std::fs::write(repository.path().join("shop/rebate.py"), moved).expect("the folder is ours");
    std::fs::remove_file(repository.path().join("shop/discount.py")).expect("it is there");
    assert_eq!(paths(&home, &repository, &[task])[0], "shop/rebate.py");
}

/// True where a file below a folder holds these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        if entry.path().is_dir() {
            holds(&entry.path(), bytes)
        } else {
            std::fs::read(entry.path()).is_ok_and(|content| content.windows(bytes.len()).any(|part| part == bytes))
        }
    })
}

#[test]
fn everything_about_a_selection_is_in_its_json() {
    let (home, repository) = (Home::offline(), shop());
    let arguments = ["context", "--json", "--operation", "explain", "."];
    let shown = home.run(repository.path(), &arguments).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    let files = shown["selected_files"].as_array().expect("an array");
    assert!((4..=6).contains(&files.len()), "{shown}");
    assert_eq!(shown["files_loaded"], files.len());
    for file in files {
        let path = file["path"].as_str().expect("a path");
        assert!(
            shown["context"].as_str().is_some_and(|text| text.contains(path)),
            "{path}"
        );
        assert!(
            file["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()),
            "{file}"
        );
    }
}

#[test]
fn patterns_that_are_of_no_use_are_errors() {
    let (home, repository) = (Home::offline(), shop());
    for (arguments, message) in [
        (["--include", "gone.py"], "[error] File not found: gone.py"),
        (
            ["--exclude", "a{b"],
            "[error] The pattern `a{b` of `exclude` cannot be used",
        ),
    ] {
        let arguments = [&["context", "a task"], &arguments[..]].concat();
        let finished = home.run(repository.path(), &arguments);
        assert_ne!(finished.code, 0);
        assert!(finished.stderr.starts_with(message), "{}", finished.stderr);
        assert!(finished.stderr.contains("\nhint: "), "{}", finished.stderr);
    }
}

#[test]
fn an_operation_sends_what_was_asked_for_and_not_what_was_excluded() {
    let (server, home) = scripted([Round::text("See `docs/prices.md:1`.")]);
    let repository = shop();
    let flags = ["--include", "docs/prices.md", "--exclude", "shop/secret_plan.py"];
    let arguments = [&["architect", "change the discount"], &flags[..]].concat();
    home.run(repository.path(), &arguments).expect(0);
    let requests = server.requests();
    let prompt = requests[0].body["messages"].to_string();
    assert!(prompt.contains("Prices are in cents."), "{prompt}");
    assert!(!prompt.contains("price * 0.5"), "{prompt}");
}

#[test]
fn symbols_come_by_syntax_tree_after_the_first_selection_which_says_so() {
    let (home, repository) = (Home::offline(), folder(&[]));
    for number in 0..100 {
        let text = format!("def part{number}():\n    \"\"\"\ndef rebate{number}(): pass\n\"\"\"\n");
        std::fs::write(repository.path().join(format!("part{number}.py")), text).expect("the folder is ours");
    }
    let shown = || {
        let arguments = [
            "context",
            "--operation",
            "refactor",
            "--json",
            "change rebate42 and rebate43",
        ];
        let shown = home.run(repository.path(), &arguments).expect(0).stdout;
        let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
        let first = &shown["selected_files"][0];
        (
            shown["notices"].to_string(),
            first["path"].to_string(),
            first["reasons"].to_string(),
        )
    };
    let (notices, path, reasons) = shown();
    assert!(
        notices.contains("Indexing: 100 files left. Results improve as they are read."),
        "{notices}"
    );
    assert_eq!(path, r#""part42.py""#);
    assert!(reasons.contains("defines `rebate42`"), "{reasons}");
    let since = std::time::Instant::now();
    let (path, reasons) = loop {
        let (notices, path, reasons) = shown();
        if !notices.contains("Indexing") {
            break (path, reasons);
        }
        assert!(since.elapsed().as_secs() < 60, "the trees never came: {notices}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!(path, r#""part42.py""#);
    assert!(
        !reasons.contains("defines"),
        "what stands in a string is no definition: {reasons}"
    );
}

#[test]
fn earlier_commits_like_the_task_count_and_hidden_paths_are_never_named() {
    let repository = folder(&[
        ("shop/a.py", "VALUE = 1\n"),
        ("shop/b.py", "VALUE = 2\n"),
        ("shop/c.py", "VALUE = 3\n"),
        ("shop/coupon.py", "def coupon(price):\n    return price\n"),
        (".env", "PASSWORD=swordfish\n"),
    ]);
    let (home, root) = (Home::offline(), repository.path());
    git(root, &["init", "--quiet"]);
    let commit = |message: &str| {
        git(root, &["add", "--force", "--all"]);
        git(root, &["commit", "--quiet", "--message", message]);
    };
    commit("begin");
    for round in 0..3 {
        for path in ["shop/b.py", ".env"] {
            std::fs::write(root.join(path), format!("VALUE = {round}\n")).expect("the folder is ours");
        }
        commit("round the coupon to whole cents \u{1b}[31m");
    }
    let task = "a coupon is not rounded to cents";
    let selected = || -> Vec<Value> {
        let shown = home.run(root, &["context", "--json", task]).expect(0).stdout;
        let answer: Value = serde_json::from_str(&shown).expect("it is JSON");
        answer["selected_files"].as_array().expect("a list").clone()
    };
    // It is read beside the answer.
    let since = std::time::Instant::now();
    let file = loop {
        let files = selected();
        let file = files.iter().find(|file| file["path"] == "shop/b.py").cloned();
        let has_history = |file: &Value| file["reasons"].to_string().contains("commits like this one");
        if let Some(file) = file.filter(has_history) {
            break file;
        }
        assert!(since.elapsed().as_secs() < 120, "{files:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let reasons = file["reasons"].to_string();
    let head = git(root, &["rev-parse", "HEAD"]);
    assert!(
        reasons.contains(&format!("changed in 3 commits like this one, last in {}", &head[..10])),
        "{reasons}"
    );
    let all = selected().iter().map(Value::to_string).collect::<String>();
    assert!(!all.contains(".env") && !all.contains("u001b"), "{all}");
    assert!(!holds(&home.path().join("index"), b".env"));

    std::fs::write(root.join(".tool.toml"), "[policy]\ndeny = [\"read-git\"]\n").expect("the folder is ours");
    let denied = selected().iter().map(Value::to_string).collect::<String>();
    assert!(
        denied.contains("shop/b.py") && !denied.contains("commits like this one"),
        "{denied}"
    );
}

/// Topics that no file of the generated repository names: only its commits say which file a topic belongs to.
const TOPICS: [&str; 12] = [
    "coupon",
    "refund",
    "invoice",
    "parcel",
    "warranty",
    "loyalty",
    "shipment",
    "currency",
    "basket",
    "voucher",
    "gift",
    "subscription",
];

/// Files among which a task has to find one; six of them are selected.
const MODULES: usize = 36;

/// The file that the commits about a topic change.
fn module_of(topic: usize) -> String {
    format!("shop/part{:02}.py", (topic * 7 + 5) % MODULES)
}

#[test]
fn a_generated_history_decides_which_files_are_right() {
    let (home, repository) = (Home::offline(), folder(&[]));
    let root = repository.path();
    std::fs::create_dir(root.join("shop")).expect("the folder is ours");
    let write = |path: &str, round: usize| {
        let text = format!(
            "def handle(value):\n    \"\"\"Change the value after a retry.\"\"\"\n    return value + {round}\n"
        );
        std::fs::write(root.join(path), text).expect("the folder is ours");
    };
    let commit = |message: &str| {
        git(root, &["add", "--all"]);
        git(root, &["commit", "--quiet", "--message", message]);
    };
    git(root, &["init", "--quiet"]);
    (0..MODULES).for_each(|at| write(&format!("shop/part{at:02}.py"), 0));
    commit("begin");
    for round in 1..=3 {
        for (at, topic) in TOPICS.iter().enumerate() {
            write(&module_of(at), round);
            commit(&format!("Change the {topic} after retry {round}"));
        }
    }
    let found = || -> usize {
        let is_found = |(at, topic): (usize, &&str)| {
            let task = format!("the {topic} is lost after a retry");
            paths(&home, &repository, &["--operation", "refactor", &task]).contains(&module_of(at))
        };
        TOPICS.iter().enumerate().filter(|one| is_found(*one)).count()
    };
    let settings = root.join(".tool.toml");
    std::fs::write(&settings, "[policy]\ndeny = [\"read-git\"]\n").expect("the folder is ours");
    let without = found();
    let history = || holds_file(&home.path().join("index"), "history");
    assert!(!history(), "commits were read although the policy denies it");
    std::fs::remove_file(&settings).expect("it is there");

    // The commits are read beside the first answer. While the index is written they are not kept: the next request does it.
    let since = std::time::Instant::now();
    while !history() {
        assert!(since.elapsed().as_secs() < 120, "no history was read");
        paths(&home, &repository, &["a task"]);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let with = found();
    assert!(
        with >= 11 && without <= 6,
        "{with} of 12 with history, {without} without"
    );
}

/// True where a folder below this one holds a file of this name.
fn holds_file(folder: &Path, name: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.path().join(name).is_file() || entry.file_name() == name)
}
