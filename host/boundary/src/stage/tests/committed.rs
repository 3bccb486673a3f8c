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

#[test]
fn a_file_is_replaced_by_the_digest_that_the_skill_has_read() {
    let mut bench = Bench::new(&[("a.py", "old\n"), ("b.py", "old\n")]);
    for path in ["a.py", "b.py"] {
        bench.terms.bases.insert(path.to_owned(), sha256_hex(b"old\n"));
    }
    let changed = bench.propose(&[("a.py", "new\n")], &["b.py"]).expect("both were read");
    assert_eq!(changed, ["a.py", "b.py"]);
    assert_eq!(bench.text("a.py"), "new\n");
    // The model has not seen the new content.
    assert!(bench.context.files.lock().expect("not poisoned").seen.is_empty());
}

#[test]
fn one_file_that_has_changed_since_it_was_read_keeps_all_as_they_are() {
    let mut bench = Bench::new(&[("a.py", "old\n"), ("b.py", "old\n")]);
    for path in ["a.py", "b.py"] {
        bench.terms.bases.insert(path.to_owned(), sha256_hex(b"old\n"));
    }
    fs::write(bench.root("b.py"), "theirs\n").expect("the file is written");
    let refused = bench
        .propose(&[("a.py", "new\n"), ("b.py", "new\n")], &[])
        .expect_err("b.py has changed");
    assert_eq!(
        (refused.kind.code(), refused.message.as_str()),
        (
            "denied",
            "`b.py` has changed since the skill read it; nothing was changed"
        )
    );
    assert_eq!(
        (bench.text("a.py"), bench.text("b.py")),
        ("old\n".to_owned(), "theirs\n".to_owned())
    );
}

#[test]
fn a_file_moves_with_its_content_and_mode() {
    use std::os::unix::fs::PermissionsExt;

    let mut bench = Bench::new(&[("a.py", "old\n"), ("b.py", "b\n")]);
    fs::set_permissions(bench.root("a.py"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    bench.terms.bases.insert("a.py".to_owned(), sha256_hex(b"old\n"));
    bench.terms.renames.insert("a.py".to_owned(), "b.py".to_owned());
    let taken = bench.propose(&[], &[]).expect_err("b.py exists");
    assert_eq!(
        taken.message,
        "`a.py` cannot be moved to `b.py`: this path exists already"
    );
    bench.terms.renames.insert("a.py".to_owned(), "lib/c.py".to_owned());
    assert_eq!(bench.propose(&[], &[]).expect("it was read"), ["a.py", "lib/c.py"]);
    assert_eq!(bench.text("lib/c.py"), "old\n");
    let mode = |path: &str| {
        fs::metadata(bench.root(path))
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("lib/c.py"), 0o755);
    assert!(!bench.root("a.py").exists());
}

#[test]
fn a_change_of_the_executable_bit_alone_is_a_change() {
    use std::os::unix::fs::PermissionsExt;

    let mut bench = Bench::new(&[("a.sh", "echo\n")]);
    bench.terms.executable.insert("a.sh".to_owned(), true);
    let unread = bench.propose(&[], &[]).expect_err("nobody has read it");
    assert_eq!(unread.kind.code(), "denied");
    bench.terms.bases.insert("a.sh".to_owned(), sha256_hex(b"echo\n"));
    assert_eq!(bench.propose(&[], &[]).expect("it was read"), ["a.sh"]);
    let metadata = fs::metadata(bench.root("a.sh")).expect("it is there");
    assert_eq!(
        metadata.permissions().mode() & 0o111,
        0o111 & (metadata.permissions().mode() >> 2)
    );
}
