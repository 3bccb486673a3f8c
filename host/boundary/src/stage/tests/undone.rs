//! Undo, and recovery after a crash.

use super::*;

#[test]
fn undo_restores_dot_names_that_no_proposal_could_create() {
    let bench = Bench::new(&[(".eslintrc.json", "{}"), (".storybook/main.js", "old")]);
    let before = bench.tree();
    bench.see(".eslintrc.json");
    bench.see(".storybook/main.js");
    bench
        .propose(&[], &[".eslintrc.json", ".storybook/main.js"])
        .expect("committed");
    fs::remove_dir(bench.root(".storybook")).expect("it is empty");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!((report.restored.len(), report.left_alone.len()), (2, 0));
    assert_eq!(bench.tree(), before);
}

#[test]
fn undo_restores_byte_for_byte() {
    let bench = Bench::new(&[("a.txt", "one\r\n\u{0}"), ("keep/b.txt", "b"), ("c.txt", "c")]);
    fs::set_permissions(bench.root("c.txt"), fs::Permissions::from_mode(0o600)).expect("the mode is set");
    let before = bench.tree();
    for path in ["a.txt", "keep/b.txt", "c.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "2"), ("x/y/z.txt", "z")], &["keep/b.txt"])
        .expect("committed");
    bench
        .propose(&[("a.txt", "3"), ("x/y/w.txt", "w")], &["c.txt"])
        .expect("committed");
    let changes = bench.journal.changes();
    let after = bench.tree();
    let (report, undone) = bench.undo(&changes);
    assert_eq!(
        report.restored,
        ["a.txt", "c.txt", "keep/b.txt", "x/y/w.txt", "x/y/z.txt"]
    );
    assert_eq!(report.left_alone, []);
    assert_eq!(bench.tree(), before);
    assert_eq!(mode(&bench.root("c.txt")), 0o600);
    let (again, nothing) = bench.undo(&changes);
    assert_eq!(
        (again.restored.len(), again.unchanged.len(), again.left_alone.len()),
        (0, 5, 0),
        "a second undo finds it done"
    );
    assert!(nothing.notes().is_empty(), "what changes nothing is not journalled");
    assert_eq!(bench.tree(), before);

    // An undo is a change like any other.
    assert_eq!(undone.notes(), ["prepare", "committed"]);
    let (again, redone) = bench.undo(&undone.changes());
    assert_eq!(again.restored.len(), 5);
    assert_eq!(bench.tree(), after);
    assert_eq!(bench.undo(&redone.changes()).0.restored.len(), 5);
    assert_eq!(bench.tree(), before);
}

#[test]
fn undo_keeps_an_empty_directory_that_was_there_and_removes_those_that_were_made() {
    let bench = Bench::new(&[("a.txt", "a")]);
    fs::create_dir(bench.root("there")).expect("a directory is made");
    let before = bench.tree();
    bench
        .propose(&[("there/new/b.txt", "b"), ("there/c.txt", "c"), ("d/e.txt", "e")], &[])
        .expect("committed");
    write(&bench.root("d/theirs.txt"), "theirs");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["d/e.txt", "there/c.txt", "there/new/b.txt"]);
    assert_eq!(bench.text("d/theirs.txt"), "theirs");
    fs::remove_dir_all(bench.root("d")).expect("removed");
    assert_eq!(bench.tree(), before);
    assert!(bench.root("there").is_dir());
}

#[test]
fn undo_keeps_the_permissions_that_the_user_has_given_since() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    bench.propose(&[("a.txt", "b")], &[]).expect("committed");
    fs::set_permissions(bench.root("a.txt"), fs::Permissions::from_mode(0o700)).expect("the mode is set");
    assert_eq!(bench.undo(&bench.journal.changes()).0.restored, ["a.txt"]);
    assert_eq!((bench.text("a.txt").as_str(), mode(&bench.root("a.txt"))), ("a", 0o700));
}

/// A file that the user changes between the check and the undo stays as it is, and the rest is undone all the same.
#[test]
fn undo_leaves_alone_what_is_changed_at_the_last_moment() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    for path in ["a.txt", "b.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B")], &[])
        .expect("committed");
    let journal = Journal::default();
    let late = bench.root("b.txt");
    *journal.meanwhile.lock().expect("not poisoned") = Some(Box::new(move || write(&late, "late")));
    let report = undo_changes(&bench.context.repository, &bench.journal.changes(), &journal).expect("it is journalled");
    assert_eq!(report.restored, ["a.txt"]);
    assert_eq!(report.left_alone.len(), 1);
    assert_eq!(
        report.left_alone[0].reason,
        "`b.txt` was changed by another program in the meantime"
    );
    assert_eq!(journal.notes(), ["prepare", "abandoned", "prepare", "committed"]);
    assert_eq!((bench.text("a.txt"), bench.text("b.txt")), ("a".into(), "late".into()));
}

#[test]
fn an_undo_that_cannot_be_journalled_changes_nothing() {
    for word in ["prepare", "committed"] {
        let bench = Bench::new(&[("a.txt", "a")]);
        bench.see("a.txt");
        bench
            .propose(&[("a.txt", "A"), ("d/n.txt", "N")], &[])
            .expect("committed");
        let journal = Journal::default();
        *journal.fail.lock().expect("not poisoned") = Some(word);
        undo_changes(&bench.context.repository, &bench.journal.changes(), &journal).expect_err("the disk is full");
        assert_eq!(
            (bench.text("a.txt"), bench.text("d/n.txt")),
            ("A".into(), "N".into()),
            "{word}"
        );
    }
}

#[test]
fn an_undo_that_cannot_be_journalled_says_what_it_could_not_take_back() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    for path in ["a.txt", "b.txt"] {
        bench.see(path);
    }
    let files = [("a.txt", "A"), ("b.txt", "B")];
    bench.propose(&files, &[]).expect("committed");
    // The user saves a file between the undo and the look at whether it could be journalled.
    struct Full(Journal, PathBuf);
    impl ChangeJournal for Full {
        fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
            self.0.prepare(change)
        }

        fn committed(&self, _: &str) -> io::Result<()> {
            write(&self.1, "newer");
            Err(io::Error::other("the disk is full"))
        }

        fn abandoned(&self, id: &str) -> io::Result<()> {
            self.0.abandoned(id)
        }
    }
    let journal = Full(Journal::default(), bench.root("a.txt"));
    let error =
        undo_changes(&bench.context.repository, &bench.journal.changes(), &journal).expect_err("the disk is full");
    assert_eq!(
        error.to_string(),
        "the undo cannot be journalled (the disk is full); it was taken back, but not everywhere: `a.txt` is neither \
         what it was before the interrupted change nor what it was to become"
    );
    assert_eq!((bench.text("a.txt"), bench.text("b.txt")), ("newer".into(), "B".into()));
}

/// If a directory has to make room for a file there are two steps, and each is journalled.
#[test]
fn an_undo_that_stops_between_its_steps_says_what_stays_restored() {
    let bench = Bench::new(&[("d", "a")]);
    bench.see("d");
    bench.propose(&[], &["d"]).expect("committed");
    bench.propose(&[("d/n.txt", "N")], &[]).expect("committed");
    /// Takes the first step, and no other.
    struct Full(Journal);
    impl ChangeJournal for Full {
        fn prepare(&self, change: &PreparedChange) -> io::Result<()> {
            if self.0.notes().is_empty() {
                self.0.prepare(change)
            } else {
                Err(io::Error::other("the disk is full"))
            }
        }

        fn committed(&self, id: &str) -> io::Result<()> {
            self.0.committed(id)
        }

        fn abandoned(&self, id: &str) -> io::Result<()> {
            self.0.abandoned(id)
        }
    }
    let changes = bench.journal.changes();
    let error =
        undo_changes(&bench.context.repository, &changes, &Full(Journal::default())).expect_err("the disk is full");
    assert_eq!(
        error.to_string(),
        "the undo cannot be journalled (the disk is full); it was taken back; what had been restored before stays: \
         d/n.txt"
    );
    assert_eq!(bench.tree(), []);
    // The next undo does the rest.
    assert_eq!(bench.undo(&changes).0.restored, ["d"]);
    assert_eq!(bench.text("d"), "a");
}

#[test]
fn undo_leaves_alone_what_the_user_changed() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")]);
    for path in ["a.txt", "b.txt", "c.txt"] {
        bench.see(path);
    }
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B"), ("new.txt", "N")], &["c.txt"])
        .expect("committed");
    write(&bench.root("a.txt"), "the user's");
    write(&bench.root("c.txt"), "the user's");
    fs::remove_file(bench.root("new.txt")).expect("the file is removed");
    fs::create_dir(bench.root("new.txt")).expect("a directory is made");
    let (report, _) = bench.undo(&bench.journal.changes());
    assert_eq!(report.restored, ["b.txt"]);
    let left = |path: &str, reason: &str| LeftAlone {
        path: path.to_owned(),
        reason: reason.to_owned(),
        hint: None,
    };
    assert_eq!(
        report.left_alone,
        [
            left("a.txt", "`a.txt` has been changed since"),
            left("c.txt", "`c.txt` has been changed since"),
            left("new.txt", "`new.txt` is not a regular file"),
        ]
    );
    assert_eq!(bench.text("a.txt"), "the user's");
    assert_eq!(bench.text("b.txt"), "b");
}

/// The files of a change at every point at which a process can die.
#[test]
fn recovery_makes_an_interrupted_change_nothing() {
    let names = ["a.txt", "b.txt", "new/c.txt"];
    for done in 0..=names.len() {
        let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
        let before = bench.tree();
        let state = |content: &str| FileState {
            content: content.into(),
            mode: 0o644,
        };
        let change = PreparedChange {
            id: "id".into(),
            call_id: None,
            root: bench.context.repository.root().to_owned(),
            files: vec![
                FileChange {
                    path: "a.txt".into(),
                    before: Some(state("a")),
                    after: None,
                },
                FileChange {
                    path: "b.txt".into(),
                    before: Some(state("b")),
                    after: Some(state("B")),
                },
                FileChange {
                    path: "new/c.txt".into(),
                    before: None,
                    after: Some(state("C")),
                },
            ],
            directories: vec!["new".into()],
        };
        if done > 0 {
            fs::rename(bench.root("a.txt"), bench.root(".tool-proposal-id-0")).expect("renamed");
        }
        if done > 1 {
            write(&bench.root("b.txt"), "B");
            write(&bench.root(".tool-proposal-id-1"), "b");
        } else {
            write(&bench.root(".tool-proposal-id-1"), "");
        }
        if done > 2 {
            write(&bench.root("new/c.txt"), "C");
        }
        let recovery = recover_change(&bench.context.repository, &change);
        assert!(recovery.is_whole());
        assert_eq!(recovery.restored, names[..done]);
        assert_eq!(bench.tree(), before);
        assert!(recover_change(&bench.context.repository, &change).restored.is_empty());
    }
}

#[test]
fn recovery_shows_what_is_neither_old_nor_new() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    bench.see("a.txt");
    bench.see("b.txt");
    bench
        .propose(&[("a.txt", "A"), ("b.txt", "B")], &[])
        .expect("committed");
    write(&bench.root("b.txt"), "third");
    write(&bench.root("a.txt.tmp"), "somebody's");
    let change = &bench.journal.changes()[0];
    write(&bench.root(&format!(".tool-proposal-{}-1", change.id)), "somebody's");
    let recovery = recover_change(&bench.context.repository, change);
    assert_eq!(recovery.restored, ["a.txt"]);
    assert!(!recovery.is_whole());
    assert_eq!(
        recovery.left_alone[0].reason,
        "`b.txt` is neither what it was before the interrupted change nor what it was to become"
    );
    assert_eq!(
        (bench.text("a.txt").as_str(), bench.text("b.txt").as_str()),
        ("a", "third")
    );
    assert_eq!(bench.text(&format!(".tool-proposal-{}-1", change.id)), "somebody's");
}

#[test]
fn what_a_session_did_to_a_file_is_seen_from_its_start() {
    use ChangeKind::{Created, Deleted, Modified};
    for (previous, before, after, expected) in [
        (None, false, true, Some(Created)),
        (None, true, true, Some(Modified)),
        (None, true, false, Some(Deleted)),
        (Some(Created), true, true, Some(Created)),
        (Some(Created), true, false, None),
        (Some(Modified), true, false, Some(Deleted)),
        (Some(Deleted), false, true, Some(Modified)),
    ] {
        assert_eq!(
            combine_kinds(previous, before, after),
            expected,
            "{previous:?} {before} {after}"
        );
    }
}

#[test]
fn what_a_proposal_replaces_is_bounded() {
    use crate::limits::REPLACED_BYTES_MAX;
    let bench = Bench::new(&[("small.txt", "x")]);
    let place = bench.root("large.bin");
    let file = fs::File::create(&place).expect("a file is made");
    file.set_len(REPLACED_BYTES_MAX + 1).expect("a hole takes no space");
    let failure = bench
        .propose(&[], &["large.bin"])
        .expect_err("it is too large to be kept");
    assert_eq!(
        failure.message,
        "`large.bin` has 67108865 bytes, more than a change can hold"
    );
    assert!(place.exists());
}

#[test]
fn a_path_of_a_proposal_is_of_bounded_length() {
    use crate::limits::PATH_BYTES_MAX;
    assert!(check_name(&"x".repeat(PATH_BYTES_MAX)).is_ok());
    let refused = check_name(&"x".repeat(PATH_BYTES_MAX + 1)).expect_err("it is longer");
    assert_eq!(refused.message, "A path of the proposal has more than 4095 bytes");
}
