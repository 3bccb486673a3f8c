//! The engine through the real repository, and what the other tests build on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use tool_core::api::ErrorKind;
use tool_repository::FileList;
use tool_repository::{FileEntry, Options};

/// Gives `check` a tree of files in memory.
pub(super) fn with_tree<R>(files: &[(&str, &str)], check: impl FnOnce(&SelectionTree<'_>) -> R) -> R {
    let contents: BTreeMap<&str, &str> = files.iter().copied().collect();
    let entry = |(path, text): (&&str, &&str)| FileEntry {
        path: (*path).to_owned(),
        size: text.len() as u64,
        modified_ns: 0,
        changed_ns: 0,
        inode: 0,
    };
    let list = FileList {
        files: contents.iter().map(entry).collect(),
        complete: true,
        ..FileList::default()
    };
    let read = |path: &str| contents.get(path).map(|text| text.as_bytes().to_vec());
    let cancel = CancellationToken::new();
    check(&SelectionTree::new(list.files.iter(), &read, &cancel))
}

/// A repository in a temporary folder.
fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, std::sync::Arc<Repository>) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it lies in the folder")).expect("the folder is ours");
        std::fs::write(path, text).expect("the folder is ours");
    }
    let repository = Repository::open(folder.path(), &Options::default()).expect("the folder can be opened");
    (folder, repository)
}

const SHOP: &[(&str, &str)] = &[
    ("README.md", "# Shop\n"),
    (
        "pyproject.toml",
        "[project]\nname = \"shop\"\n[project.scripts]\nshop = \"shop.cli:main\"\n",
    ),
    ("shop/__init__.py", "from .cart import Cart\n"),
    (
        "shop/cli.py",
        "from .cart import Cart\nfrom .prices import total\n\n\ndef main():\n    print(total(Cart()))\n",
    ),
    (
        "shop/cart.py",
        "from .prices import total\n\n\nclass Cart:\n    def add_item(self, item):\n        self.items.append(item)\n",
    ),
    (
        "shop/prices.py",
        "import decimal\n\n\ndef total(cart):\n    return apply_discount(cart)\n\n\ndef apply_discount(cart):\n    return 0\n",
    ),
    (
        "tests/test_cart.py",
        "from shop.cart import Cart\n\n\ndef test_cart_discount():\n    assert Cart()\n",
    ),
    (".env", "SECRET=discount\n"),
    ("build/lib/shop/prices.py", "def apply_discount(): pass\n"),
];

fn request<'a>(repository: &'a Arc<Repository>, target: &'a Target, cancel: &'a CancellationToken) -> BuildRequest<'a> {
    BuildRequest {
        repository,
        indexes: Box::leak(Box::new(Indexes::open_waiting(Path::new("/nowhere")))),
        operation: Operation::Refactor,
        target,
        focus: None,
        filter: Box::leak(Box::default()),
        vault: None,
        redactor: Box::leak(Box::default()),
        budget_tokens: crate::limits::PACKET_TOKENS,
        cancel,
    }
}

#[test]
fn a_scan_counts_what_is_neither_hidden_nor_skipped() {
    let (_folder, repository) = repository(SHOP);
    let result = scan_repository(&repository, &CancellationToken::new()).expect("it can be scanned");
    assert_eq!((result.files, result.directories), (7, 2));
    assert_eq!(result.languages, ["Python"]);
}

#[test]
fn an_empty_repository_is_the_specifications_error() {
    let (_folder, repository) = repository(&[(".env", "A=1"), ("node_modules/a/index.js", "x")]);
    let cancel = CancellationToken::new();
    let problem = Problem::from(scan_repository(&repository, &cancel).expect_err("there is nothing to see"));
    assert_eq!(
        (problem.kind.code(), problem.message.as_str()),
        ("empty-repository", "No files found in repository")
    );
    let error =
        build_packet(&request(&repository, &Target::Root, &cancel)).expect_err("there is nothing to choose from");
    assert!(matches!(error, ContextError::Empty));
}

#[test]
fn a_scan_that_takes_too_long_is_the_specifications_error() {
    let problem = Problem::from(ContextError::Timeout);
    assert_eq!(problem.message, "Repository scan timeout: exceeded 60s");
    assert_eq!(problem.kind, ErrorKind::ScanTimeout);
}

#[test]
fn a_packet_holds_what_the_task_is_about_and_nothing_hidden() {
    let (_folder, repository) = repository(SHOP);
    let target = Target::Task("Round the discount in apply_discount".to_owned());
    let cancel = CancellationToken::new();
    let packet = build_packet(&request(&repository, &target, &cancel)).expect("it can be built");
    assert_eq!(packet.selected[0].path, "shop/prices.py");
    assert!((4..=6).contains(&packet.selected.len()), "{:?}", packet.selected);
    assert_eq!(packet.files_loaded, packet.selected.len());
    assert!(packet.context.contains("8\tdef apply_discount(cart):\n"));
    assert!(!packet.context.contains("SECRET") && !packet.context.contains("build/lib"));
    let read = std::fs::read(repository.root().join("shop/prices.py")).expect("it is there");
    let digest = packet
        .digests
        .iter()
        .find(|(path, _)| path == "shop/prices.py")
        .map(|(_, digest)| digest.clone());
    assert_eq!(digest, Some(tool_core::digest::sha256_hex(&read)));
}

#[test]
fn a_selection_that_was_cancelled_is_no_packet() {
    let (_folder, repository) = repository(SHOP);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = build_packet(&request(&repository, &Target::Root, &cancel)).expect_err("it was cancelled");
    assert!(matches!(error, ContextError::Cancelled));
}

#[test]
fn work_on_many_files_keeps_their_order_on_every_number_of_threads() {
    let files: Vec<(String, String)> = (0..200)
        .map(|at| (format!("f{at:03}.py"), format!("x = {at}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    with_tree(&files, |tree| {
        let indices: Vec<usize> = (0..200).rev().collect();
        let results = tree.each(&indices, |at| tree.text(tree.paths[at]));
        let expected: Vec<Option<String>> = (0..200).rev().map(|at| Some(format!("x = {at}\n"))).collect();
        assert_eq!(results, expected);
    });
}

#[test]
fn binary_files_have_no_text_and_other_encodings_are_read_lossily() {
    let list = FileList {
        files: ["a.bin", "b.py"]
            .map(|path| FileEntry {
                path: path.to_owned(),
                size: 4,
                modified_ns: 0,
                changed_ns: 0,
                inode: 0,
            })
            .into(),
        complete: true,
        ..FileList::default()
    };
    let read = |path: &str| {
        Some(if path == "a.bin" {
            vec![1, 0, 2]
        } else {
            b"caf\xe9".to_vec()
        })
    };
    let cancel = CancellationToken::new();
    let tree = SelectionTree::new(list.files.iter(), &read, &cancel);
    assert_eq!(tree.text("a.bin"), None);
    assert_eq!(tree.text("b.py"), Some("caf\u{fffd}".to_owned()));
}

#[test]
fn a_task_that_looks_like_a_path_is_said_to_be_none() {
    assert!(looks_like_path("src/missing") && looks_like_path("missing.py"));
    assert!(!looks_like_path("modernise") && !looks_like_path("split app.py in two"));
    let (_folder, repository) = repository(SHOP);
    let (target, cancel) = (Target::Task("shop/missing.py".to_owned()), CancellationToken::new());
    let packet = build_packet(&request(&repository, &target, &cancel)).expect("it can be built");
    assert_eq!(
        packet.notices,
        ["There is no file or directory `shop/missing.py`; it was taken as a task"]
    );
}

#[test]
fn a_file_that_a_task_spells_out_and_that_is_left_out_is_said_to_be() {
    let files = [
        SHOP,
        &[
            ("conf/.env", "A=1\n"),
            (".gitignore", "*.local\n"),
            ("conf/a.local", "b\n"),
            ("data/table", "a\0b"),
        ],
    ];
    let (_folder, repository) = repository(&files.concat());
    let task = "Move conf/.env, `conf/a.local`, data/table, and/or shop/none.py into shop/cart.py and shop/.";
    let (target, cancel) = (Target::Task(task.to_owned()), CancellationToken::new());
    let packet = build_packet(&request(&repository, &target, &cancel)).expect("it can be built");
    insta::assert_snapshot!(packet.notices.join("\n"), @r"
    `conf/.env` is not accessible: it holds environment variables, which are often secrets
    `conf/a.local` is left out: git ignores it, or its folder is not searched
    `data/table` is left out: it is not text, or too large
    ");
}

#[test]
fn shared_work_is_done_once_each_and_what_is_left_is_the_rest() {
    let items: Vec<usize> = (0..1000).collect();
    for last in [0, 500, 999, usize::MAX] {
        let done = Mutex::new(Vec::new());
        let count = each_in_parallel(&items, |item| {
            done.lock().expect("nobody panics").push(*item);
            if *item == last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let mut done = done.into_inner().expect("nobody panics");
        done.sort_unstable();
        assert_eq!(done, items[..count], "{last}");
        assert!(count > last.min(999) && count <= items.len(), "{count} after {last}");
    }
}

#[test]
fn a_large_machine_selects_with_few_threads() {
    assert_eq!(thread_count(1), 1);
    assert_eq!(thread_count(96), CONTEXT_THREADS_MAX);
}

#[test]
fn a_selection_reads_for_a_bounded_time() {
    let _hurried = crate::limits::pace::hurried(u32::MAX);
    with_tree(&[("a.py", "x = 1\n")], |tree| {
        std::thread::sleep(Duration::from_millis(1));
        assert!(tree.is_over(), "the time is over, and nothing more is read");
        assert_eq!(tree.each(&[0], Some), [None]);
    });
}
