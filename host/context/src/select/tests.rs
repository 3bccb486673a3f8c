use std::collections::BTreeSet;

use super::related_tests::is_test_of;
use super::*;
use crate::limits::RANKED_FILE_BYTES_MAX;
use crate::tests::with_tree;

/// Selects and shows each file with its first reason.
fn selected(files: &[(&str, &str)], operation: Operation, target: &Target, focus: Option<&str>) -> String {
    let selection = with_tree(files, |tree| select_files(tree, operation, target, focus, &[]));
    let mut shown: Vec<String> = selection
        .chosen
        .iter()
        .map(|choice| {
            format!(
                "{}: {}",
                choice.path,
                choice.reasons.first().map_or("", |reason| reason)
            )
        })
        .collect();
    shown.extend(selection.notices.iter().map(|notice| format!("! {notice}")));
    shown.join("\n")
}

fn paths(files: &[(&str, &str)], operation: Operation, target: &Target) -> Vec<String> {
    let selection = with_tree(files, |tree| select_files(tree, operation, target, None, &[]));
    selection.chosen.into_iter().map(|choice| choice.path).collect()
}

/// Long enough not to be a stub.
fn body(imports: &str, names: &[&str]) -> String {
    let functions: String = names
        .iter()
        .map(|name| format!("def {name}(value):\n    return value\n\n\n"))
        .collect();
    format!("{imports}\n{functions}# {}\n", "-".repeat(400))
}

/// A named directory is the subject of the question, whatever it holds.
#[test]
fn a_target_directory_is_shown_before_anything_elsewhere() {
    let shop = shop();
    let mut files: Vec<(&str, &str)> = shop.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.extend([
        ("docs/_static/logo.png", "\0PNG"),
        ("docs/_static/site.css", "body {}"),
        ("docs/_static/theme", "plain words"),
        ("requirements/base.txt", "flask"),
        ("requirements/dev.in", "pytest"),
        ("wit/world.wit", "package a:b;"),
    ]);
    let shown = ["tests", "docs/_static", "requirements", "wit"].map(|directory| {
        let target = Target::Directory(directory.to_owned());
        paths(&files, Operation::Explain, &target).join(" ")
    });
    insta::assert_snapshot!(shown.join("\n"), @"
    tests/test_stock.py tests/test_prices.py tests/conftest.py tests/web/test_views.py
    docs/_static/site.css docs/_static/theme shop/engine.py shop/prices.py
    requirements/base.txt requirements/dev.in shop/engine.py shop/prices.py
    wit/world.wit shop/engine.py shop/prices.py shop/cli.py
    ");
}

fn shop() -> Vec<(String, String)> {
    [
        ("README.md", "# Shop\n".to_owned()),
        (
            "pyproject.toml",
            "[project]\nname = \"shop\"\n[project.scripts]\nshop = \"shop.cli:main\"\n[tool.pytest.ini_options]\n"
                .to_owned(),
        ),
        ("package.json", "{}".to_owned()),
        ("docs/usage.md", "use".to_owned()),
        ("shop/__init__.py", String::new()),
        ("shop/__main__.py", "from .cli import main\nmain()\n".to_owned()),
        (
            "shop/cli.py",
            body("from . import engine\nfrom .utils import helper", &["main"]),
        ),
        (
            "shop/engine.py",
            body(
                "from . import prices, stock\nfrom .utils import helper",
                &["run", "stop", "plan"],
            ),
        ),
        (
            "shop/prices.py",
            body("from .utils import helper", &["total", "apply_discount"]),
        ),
        ("shop/stock.py", body("from .utils import helper", &["reserve_items"])),
        ("shop/utils.py", body("", &["helper"])),
        ("shop/web/__init__.py", String::new()),
        (
            "shop/web/routes.py",
            body("from shop.web import views\nfrom shop import engine", &["route"]),
        ),
        ("shop/web/views.py", body("", &["cart_view", "discount_view"])),
        ("tests/conftest.py", "import pytest\n".to_owned()),
        (
            "tests/test_prices.py",
            body("from shop.prices import total", &["test_total"]),
        ),
        (
            "tests/test_stock.py",
            body("from shop.stock import reserve_items", &["test_reserve"]),
        ),
        (
            "tests/web/test_views.py",
            body("from shop.web.views import cart_view", &["test_cart"]),
        ),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), text))
    .collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect()
}

#[test]
fn explain_of_a_repository_is_key_files_entry_points_and_what_is_central_to_them() {
    let files = shop();
    insta::assert_snapshot!(selected(&borrowed(&files), Operation::Explain, &Target::Root, None), @r"
    README.md: key file
    pyproject.toml: key file
    shop/cli.py: entry point declared in pyproject.toml
    shop/engine.py: central to the entry points, by imports
    shop/prices.py: central to the entry points, by imports
    shop/stock.py: central to the entry points, by imports
    ");
}

#[test]
fn explain_of_a_directory_keeps_to_it() {
    let files = shop();
    let target = Target::Directory("shop/web".to_owned());
    insta::assert_snapshot!(selected(&borrowed(&files), Operation::Explain, &target, None), @r"
    shop/web/views.py: central, by imports
    shop/web/routes.py: central, by imports
    shop/engine.py: imported by the chosen files
    shop/prices.py: near `shop/web`
    ");
}

#[test]
fn explain_of_a_file_adds_what_it_imports_and_what_imports_it() {
    let files = shop();
    let target = Target::File("shop/engine.py".to_owned());
    insta::assert_snapshot!(selected(&borrowed(&files), Operation::Explain, &target, None), @r"
    shop/engine.py: the target
    shop/utils.py: imported by the target
    shop/cli.py: imports the target
    shop/prices.py: imported by the target
    shop/web/routes.py: imports the target
    README.md: key file
    ");
}

#[test]
fn architect_with_a_task_mixes_the_frame_with_what_the_task_is_about() {
    let files = shop();
    let target = Target::Task("Make discounts pluggable".to_owned());
    let chosen = paths(&borrowed(&files), Operation::Architect, &target);
    assert_eq!(chosen[..2], ["README.md", "shop/cli.py"]);
    assert!(
        chosen.contains(&"shop/prices.py".to_owned()) && chosen.contains(&"shop/web/views.py".to_owned()),
        "{chosen:?}"
    );
}

#[test]
fn refactor_by_a_task_ranks_the_whole_repository_and_leaves_tests_behind() {
    let files = shop();
    let target = Target::Task("Simplify apply_discount".to_owned());
    let chosen = paths(&borrowed(&files), Operation::Refactor, &target);
    assert_eq!(chosen[0], "shop/prices.py");
    assert!(chosen.len() >= 4, "{chosen:?}");
    assert!(
        chosen.iter().take(4).all(|path| !path.starts_with("tests/")),
        "{chosen:?}"
    );
}

#[test]
fn refactor_of_tests_themselves_chooses_tests() {
    let files = shop();
    let target = Target::Task("Use fixtures in the tests of test_prices".to_owned());
    assert_eq!(
        paths(&borrowed(&files), Operation::Refactor, &target)[0],
        "tests/test_prices.py"
    );
}

#[test]
fn refactor_of_a_directory_keeps_to_it_and_follows_the_focus() {
    let files = shop();
    let target = Target::Directory("shop".to_owned());
    let chosen = paths(&borrowed(&files), Operation::Refactor, &target);
    assert_eq!((chosen.len(), chosen[0].as_str()), (6, "shop/engine.py"));
    assert!(chosen.iter().all(|path| path.starts_with("shop/")), "{chosen:?}");
    let focused = selected(&borrowed(&files), Operation::Refactor, &target, Some("reserving stock"));
    assert!(focused.starts_with("shop/stock.py"), "{focused}");
}

#[test]
fn a_document_or_manifest_that_the_task_names_is_chosen() {
    let files = shop();
    let target = Target::Task("Describe discounts in docs/usage.md and bump pyproject.toml".to_owned());
    let chosen = paths(&borrowed(&files), Operation::Refactor, &target);
    assert!(
        chosen[..2].contains(&"docs/usage.md".to_owned()) && chosen[..2].contains(&"pyproject.toml".to_owned()),
        "{chosen:?}"
    );
}

#[test]
fn test_gen_is_the_target_its_exemplar_the_configuration_and_untested_neighbours() {
    let files = shop();
    let target = Target::File("shop/engine.py".to_owned());
    insta::assert_snapshot!(selected(&borrowed(&files), Operation::TestGen, &target, None), @r"
    shop/engine.py: the target
    tests/test_prices.py: nearest existing test: the style to match
    tests/conftest.py: fixtures of the tests
    pyproject.toml: configuration of the tests
    shop/utils.py: without tests, and the target uses it
    shop/__main__.py: a neighbour without tests
    ");
}

#[test]
fn test_gen_takes_the_tests_that_the_target_has() {
    let files = shop();
    let target = Target::File("shop/web/views.py".to_owned());
    let chosen = selected(&borrowed(&files), Operation::TestGen, &target, None);
    assert!(
        chosen.starts_with("shop/web/views.py: the target\ntests/web/test_views.py: tests the target already\n"),
        "{chosen}"
    );
}

#[test]
fn tests_are_mapped_to_their_subjects() {
    let table = [
        ("tests/test_client.py", "src/client.py"),
        ("tests/test_http_client.py", "src/http/client.py"),
        ("client_test.go", "client.go"),
        ("src/client.test.ts", "src/client.ts"),
        ("__tests__/client.spec.js", "client.js"),
        ("src/test/java/ClientTest.java", "src/main/java/Client.java"),
        ("tests/lib/rules/no-eval.js", "lib/rules/no-eval.js"),
    ];
    for (test, source) in table {
        assert!(is_test_of(test, source), "{test} is about {source}");
        assert!(!is_test_of(test, "src/other.py"), "{test} is not about other");
    }
}

#[test]
fn fewer_files_than_wanted_are_all_there_is_and_that_is_said() {
    insta::assert_snapshot!(selected(&[("a.py", "x = 1\n"), ("b.png", "\0")], Operation::Refactor, &Target::Root, None), @r"
    a.py: central, by imports
    ! Only 1 file was selected: there are no others of use in the repository
    ");
    let target = Target::Task("nothing that occurs".to_owned());
    let files = [
        ("a.py", "x = 1\n"),
        ("b.py", "y = 1\n"),
        ("c.py", "z = 1\n"),
        ("d.py", "z = 1\n"),
        ("e.py", "z = 1\n"),
    ];
    assert_eq!(paths(&files, Operation::Refactor, &target).len(), 4);
}

#[test]
fn a_target_that_is_ignored_is_chosen_all_the_same() {
    let files = shop();
    let chosen = paths(
        &borrowed(&files),
        Operation::Explain,
        &Target::File("shop/generated/x.py".to_owned()),
    );
    assert_eq!(chosen[0], "shop/generated/x.py");
    assert!(chosen.len() >= 4, "{chosen:?}");
}

#[test]
fn every_operation_chooses_four_to_six_of_an_ordinary_repository_without_doubles() {
    let files = shop();
    let targets = [
        Target::Root,
        Target::Directory("shop/web".into()),
        Target::File("shop/cli.py".into()),
        Target::Task("prices".into()),
        Target::TaskIn {
            task: "views".into(),
            path: "shop".into(),
        },
        Target::TaskIn {
            task: "views".into(),
            path: "shop/cli.py".into(),
        },
    ];
    for operation in Operation::ALL {
        for target in &targets {
            let chosen = paths(&borrowed(&files), operation, target);
            let distinct: BTreeSet<&String> = chosen.iter().collect();
            assert_eq!(distinct.len(), chosen.len(), "{operation} {target:?}: {chosen:?}");
            assert!((4..=6).contains(&chosen.len()), "{operation} {target:?}: {chosen:?}");
        }
    }
}

#[test]
fn a_file_too_large_to_rank_is_passed_over() {
    let task = Target::Task("the wombat".to_owned());
    let chosen = |bytes: usize| {
        let large = format!("def wombat():\n    pass\n{}", "#\n".repeat(bytes / 2));
        let small = body("", &["other"]);
        let files = [("src/large.py", large.as_str()), ("src/small.py", small.as_str())];
        selected(&files, Operation::Refactor, &task, None)
    };
    let bound = usize::try_from(RANKED_FILE_BYTES_MAX).expect("it is small");
    assert!(chosen(bound / 2).contains("wombat"), "{}", chosen(bound / 2));
    let unread = chosen(bound);
    assert!(!unread.contains("wombat"), "nobody knows what it is about: {unread}");
}

#[test]
fn central_files_are_found_among_a_bounded_number() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let many: Vec<String> = (0..3 * CENTRAL_FILES_READ_MAX)
        .map(|number| format!("pkg/m{number:05}.py"))
        .collect();
    let list = tool_repository::FileList {
        files: many
            .iter()
            .map(|path| tool_repository::FileEntry {
                path: path.clone(),
                size: 600,
                modified_ns: 0,
                changed_ns: 0,
                inode: 0,
            })
            .collect(),
        complete: true,
        ..tool_repository::FileList::default()
    };
    let reads = AtomicUsize::new(0);
    let text = body("", &["main"]);
    let read = |_: &str| {
        reads.fetch_add(1, Ordering::Relaxed);
        Some(text.clone().into_bytes())
    };
    let cancel = tokio_util::sync::CancellationToken::new();
    let tree = SelectionTree::new(list.files.iter(), &read, &cancel);
    select_files(&tree, Operation::Explain, &Target::Root, None, &[]);
    let reads = reads.into_inner();
    assert!(reads <= CENTRAL_FILES_READ_MAX + 50, "{reads}");
}

#[test]
fn a_stub_gives_way_to_what_it_leads_to() {
    let (program, other) = (body("import other", &["run"]), body("", &["help"]));
    let files = [
        ("README.md", "# Tool\n"),
        ("package.json", r#"{"bin": {"tool": "bin/tool"}}"#),
        ("bin/tool", "#!/usr/bin/env node\nrequire('../lib/program')\n"),
        ("lib/program.js", program.as_str()),
        ("lib/other.js", other.as_str()),
    ];
    assert!(
        selected(&files, Operation::Explain, &Target::Root, None)
            .contains("lib/program.js: entry point declared in package.json")
    );
}

#[test]
fn what_is_deep_or_private_is_no_way_in_by_its_name_alone() {
    let text = body("", &["application"]);
    let (deep, private) = ("a/b/c/d/app.js", "shop/_transports/asgi.py");
    let files = [
        ("README.md", "# Shop\n"),
        ("cli.py", text.as_str()),
        (deep, text.as_str()),
        (private, text.as_str()),
    ];
    let chosen = selected(&files, Operation::Explain, &Target::Root, None);
    assert!(chosen.contains("cli.py: entry point by its name"), "{chosen}");
    for path in [deep, private] {
        assert!(!chosen.contains(&format!("{path}: entry point")), "{chosen}");
        assert!(!chosen.contains(&format!("{path}: \n")), "{chosen}");
    }
}

#[test]
fn central_is_what_others_need_and_what_brings_others_together() {
    let many: Vec<&str> = vec!["a", "b", "c", "d"];
    let texts = [
        ("README.md", "# Shop\n".to_owned()),
        ("main.py", body("import engine\nimport words\nimport parts", &["main"])),
        (
            "engine.py",
            body("import words\nimport prices\nimport stock\nimport orders", &many),
        ),
        ("prices.py", body("import words", &many)),
        ("stock.py", body("import words", &many)),
        ("orders.py", body("import words\nimport prices", &many)),
        ("parts.py", body("import words", &["part"])),
        ("words.py", body("", &many)),
    ];
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    // Every source imports `words`, which explains nothing.
    let chosen = paths(&files, Operation::Explain, &Target::Root);
    assert_eq!(chosen[..3], ["README.md", "main.py", "engine.py"]);
}

#[test]
fn a_script_without_an_extension_is_found_and_other_texts_are_not() {
    let files = [
        ("README.md", "# Deploy\n"),
        (
            "plugins/git/functions",
            "#!/usr/bin/env bash\ngit_peel_tag() {\n  git rev-parse \"$1^{}\"\n}\n",
        ),
        ("plugins/git/notes", "peel the tag of a commit, peel the tag\n"),
        ("src/a.go", "package a\nfunc Other() {}\n"),
    ];
    let chosen = selected(
        &files,
        Operation::Refactor,
        &Target::Root,
        Some("peel the tag of a commit"),
    );
    assert!(chosen.starts_with("plugins/git/functions: "), "{chosen}");
    assert!(!chosen.contains("plugins/git/notes"), "{chosen}");
}

#[test]
fn a_path_that_the_task_spells_out_is_chosen() {
    let text = body("", &["dereference", "tags"]);
    let files = [
        ("README.md", "# Deploy\n"),
        ("lib/tags.py", text.as_str()),
        ("lib/dereference.py", text.as_str()),
        ("plugins/git/hook-data", "abc\n"),
        ("web/index.js", "run()\n"),
        ("app/index.js", "run()\n"),
    ];
    let task = "change Plugins/git/hook-data and git/nothing so that tags are dereferenced, not index.js";
    let chosen = selected(&files, Operation::Explain, &Target::Root, Some(task));
    assert!(chosen.contains("plugins/git/hook-data: the task names it"), "{chosen}");
    assert!(chosen.find("hook-data") < chosen.find("lib/tags.py"), "{chosen}");
}
