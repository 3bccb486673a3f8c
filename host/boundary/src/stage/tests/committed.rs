//! Proposals that are committed.

use super::*;

#[test]
fn an_empty_proposal_changes_nothing() {
    let bench = Bench::new(&[("a.txt", "a")]);
    fs::create_dir_all(bench.stage("only/directories")).expect("directories are made");
    assert_eq!(bench.commit(&[]).expect("it is fine"), Vec::<String>::new());
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn files_are_created_replaced_and_deleted_as_one() {
    let bench = Bench::new(&[("src/a.py", "old"), ("src/b.py", "gone"), ("run.sh", "#!")]);
    fs::set_permissions(bench.root("run.sh"), fs::Permissions::from_mode(0o750)).expect("the mode is set");
    for path in ["src/a.py", "src/b.py", "run.sh"] {
        bench.see(path);
    }
    let changed = bench
        .propose(
            &[("src/a.py", "new"), ("new/deep/c.py", "c"), ("run.sh", "#!/bin/sh")],
            &["./src/b.py"],
        )
        .expect("the proposal is committed");
    assert_eq!(changed, ["new/deep/c.py", "run.sh", "src/a.py", "src/b.py"]);
    let tree = bench.tree();
    let expected = [
        ("new/", ""),
        ("new/deep/", ""),
        ("new/deep/c.py", "c"),
        ("run.sh", "#!/bin/sh"),
        ("src/", ""),
        ("src/a.py", "new"),
    ];
    let tree: Vec<_> = tree.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(tree, expected, "nothing else is there, no temporary either");
    assert_eq!(mode(&bench.root("run.sh")), 0o750);
    assert_eq!(mode(&bench.root("new/deep/c.py")), changes::new_file_mode());
    assert_eq!(bench.journal.notes(), ["prepare", "committed"]);
    let files = bench.context.files.lock().expect("not poisoned");
    assert_eq!(files.seen["src/a.py"], sha256_hex(b"new"));
    assert!(!files.seen.contains_key("src/b.py"));
    let kinds: Vec<_> = files
        .changed
        .iter()
        .map(|(path, kind)| (path.as_str(), *kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("new/deep/c.py", ChangeKind::Created),
            ("run.sh", ChangeKind::Modified),
            ("src/a.py", ChangeKind::Modified),
            ("src/b.py", ChangeKind::Deleted),
        ]
    );
}

#[test]
fn what_the_session_wrote_counts_as_seen() {
    let bench = Bench::new(&[]);
    for content in ["1", "2", "3"] {
        assert_eq!(bench.propose(&[("a.txt", content)], &[]).expect("committed"), ["a.txt"]);
    }
    assert_eq!(bench.propose(&[], &["a.txt"]).expect("committed"), ["a.txt"]);
    let files = bench.context.files.lock().expect("not poisoned");
    assert!(files.changed.is_empty(), "created and deleted is nothing");
}

#[test]
fn the_same_content_is_no_change() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    assert_eq!(
        bench.propose(&[("a.txt", "a")], &[]).expect("fine"),
        Vec::<String>::new()
    );
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn a_module_becomes_a_package_and_back() {
    let bench = Bench::new(&[("thing", "file")]);
    bench.see("thing");
    bench
        .propose(&[("thing/inner", "moved")], &["thing"])
        .expect("committed");
    assert_eq!(bench.text("thing/inner"), "moved");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["thing", "thing/inner"]);
    assert_eq!(bench.tree(), [("thing".to_owned(), "file".to_owned())]);
}

#[test]
fn no_inode_of_the_stage_enters_the_repository() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    bench
        .propose(&[("a.txt", "b"), ("c.txt", "c")], &[])
        .expect("committed");
    for path in ["a.txt", "c.txt"] {
        let inode = |path: &Path| fs::metadata(path).expect("the file is there").ino();
        assert_ne!(inode(&bench.root(path)), inode(&bench.stage(path)));
    }
    write(&bench.stage("c.txt"), "written later");
    assert_eq!(bench.text("c.txt"), "c");
}
