//! Faults, and what others do meanwhile.

use super::*;

#[test]
fn without_a_journal_nothing_changes() {
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    *bench.journal.fail.lock().expect("not poisoned") = Some("prepare");
    let message = "The change cannot be journalled: the disk is full; nothing was changed";
    bench.refused(&[("a.txt", "b"), ("d/c.txt", "c")], &[], "failed", message);
    *bench.journal.fail.lock().expect("not poisoned") = Some("committed");
    let message = "The change cannot be journalled: the disk is full; it was taken back";
    bench.refused(&[("a.txt", "b"), ("d/c.txt", "c")], &[], "failed", message);
    assert_eq!(bench.journal.notes(), ["prepare", "abandoned"]);
}

/// Something happens after the checks; the whole proposal is taken back, and what happened stays.
fn interrupted(meanwhile: impl FnOnce(PathBuf) + Send + 'static) -> (Bench, Failure) {
    let bench = Bench::new(&[("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z")]);
    for path in ["a.txt", "m.txt", "z.txt"] {
        bench.see(path);
    }
    let root = bench.root("");
    *bench.journal.meanwhile.lock().expect("not poisoned") = Some(Box::new(move || meanwhile(root)));
    let files = [("a.txt", "A"), ("d/new.txt", "N"), ("z.txt", "Z"), ("zz.txt", "ZZ")];
    let failure = bench.propose(&files, &["m.txt"]).expect_err("the proposal is refused");
    assert_eq!(bench.journal.notes(), ["prepare", "abandoned"]);
    assert!(bench.context.files.lock().expect("not poisoned").changed.is_empty());
    (bench, failure)
}

#[test]
fn a_file_changed_at_the_last_moment_is_not_lost() {
    let (bench, failure) = interrupted(|root| write(&root.join("z.txt"), "theirs"));
    assert_eq!(
        failure.message,
        "`z.txt` has changed since it was read in this session: read it again"
    );
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
}

#[test]
fn a_file_created_at_the_last_moment_is_not_lost() {
    let (bench, _) = interrupted(|root| write(&root.join("zz.txt"), "theirs"));
    assert_eq!(bench.text("zz.txt"), "theirs");
    assert_eq!(bench.text("a.txt"), "a");
    assert!(!bench.root("d").exists());
}

/// The placeholder of one file's key, in that file, in another one, and where the file is moved to.
#[test]
fn a_key_is_written_back_only_into_the_file_at_its_path() {
    let key = format!("ghp_{}", "q7Vd0LxN3sKb9TzR5mHc1YwF8gJp2UeA6oXi");
    let text = format!("token = \"{key}\"\n");
    let bench = Bench::new(&[("a.py", &text), ("b.py", "x = 1\n"), ("d/a.py", "y = 2\n")]);
    for path in ["a.py", "b.py", "d/a.py"] {
        bench.see(path);
    }
    let shown = bench
        .context
        .conversation
        .redactor
        .text(&text, Some("a.py"))
        .into_owned();
    assert!(!shown.contains(&key), "{shown}");
    for (path, deleted) in [
        ("b.py", &[][..]),
        ("d/a.py", &[]),
        ("moved.py", &["a.py"]),
        ("A.py", &["a.py"]),
    ] {
        let message = format!(
            "`{path}` cannot get `[redacted:github-token:1]`: it stands for a secret that this file does not hold"
        );
        bench.refused(&[(path, &shown)], deleted, "denied", &message);
    }
    let longer = format!("{shown}more = True\n");
    bench.propose(&[("a.py", &longer)], &[]).expect("the file held it");
    assert_eq!(bench.text("a.py"), format!("{text}more = True\n"));
    assert_eq!(bench.text("b.py"), "x = 1\n");
}

#[test]
fn a_key_is_written_back_into_a_file_in_utf16() {
    let key = format!("ghp_{}", "q7Vd0LxN3sKb9TzR5mHc1YwF8gJp2UeA6oXi");
    let wide = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let bench = Bench::new(&[("a.rc", "")]);
    let text = format!("token = {key}\r\n");
    fs::write(bench.root("a.rc"), wide(&text)).expect("the file is written");
    bench.see("a.rc");
    let redactor = &bench.context.conversation.redactor;
    let shown = redactor.text(&text, Some("a.rc")).into_owned();
    assert!(!shown.contains(&key), "{shown}");
    fs::write(bench.stage("a.rc"), wide(&format!("{shown}more\r\n"))).expect("the file is staged");
    bench.commit(&[]).expect("the file held it");
    let written = fs::read(bench.root("a.rc")).expect("the file is read");
    assert_eq!(written, wide(&format!("{text}more\r\n")));
}

/// A change whose last file is in the way is taken back, and the user saves one of the others meanwhile.
#[test]
fn what_somebody_saves_at_any_moment_of_a_change_that_is_taken_back_is_not_lost() {
    for path in ["a.txt", "d/n.txt", "m.txt"] {
        for moment in 0.. {
            let bench = Bench::new(&[("a.txt", "a"), ("m.txt", "m"), ("d/old.txt", "o"), ("z.txt", "z")]);
            for seen in ["a.txt", "m.txt", "z.txt"] {
                bench.see(seen);
            }
            let (root, place) = (bench.root(""), bench.root(path));
            *bench.journal.meanwhile.lock().expect("not poisoned") =
                Some(Box::new(move || write(&root.join("z.txt"), "theirs")));
            let save = move || {
                let fresh = place.with_extension("saved");
                write(&fresh, "newer");
                fs::rename(fresh, place).expect("the file is replaced");
            };
            let files = [("a.txt", "A"), ("d/n.txt", "N"), ("z.txt", "Z")];
            let (refused, came) = changes::interfere_at(moment, save, || bench.propose(&files, &["m.txt"]));
            refused.expect_err("a file is in the way");
            if !came {
                assert!(moment > 10, "{moment}");
                break;
            }
            let left = bench.tree();
            let is_there = left.iter().any(|(found, text)| found == path && text == "newer");
            assert!(is_there, "{path} at moment {moment}: {left:?}");
            assert_eq!(left.iter().filter(|(_, text)| text == "theirs").count(), 1);
        }
    }
}

/// An editor that has the old file open writes into it, not into what has its name now.
#[test]
fn what_is_written_into_the_old_file_is_kept_beside_the_new_one() {
    use std::io::Write;
    let bench = Bench::new(&[("a.txt", "a")]);
    bench.see("a.txt");
    let open = fs::OpenOptions::new().append(true).open(bench.root("a.txt"));
    let mut editor = open.expect("the file is there");
    // The last moment of a change is the one before the old file is thrown away.
    let moments = (0..).find(|moment| {
        let count = Bench::new(&[("a.txt", "a")]);
        count.see("a.txt");
        !changes::interfere_at(*moment, || (), || count.propose(&[("a.txt", "A")], &[])).1
    });
    let last = moments.expect("a change ends") - 1;
    let late = move || editor.write_all(b" and more").expect("it is open");
    let (done, came) = changes::interfere_at(last, late, || bench.propose(&[("a.txt", "A")], &[]));
    done.expect("it is in place");
    assert!(came);
    let tree = bench.tree();
    assert!(tree.contains(&("a.txt".to_owned(), "A".to_owned())), "{tree:?}");
    let kept = tree.iter().find(|(_, text)| text == "a and more");
    let (kept, _) = kept.unwrap_or_else(|| panic!("{tree:?}"));
    let late = bench.journal.written_late.lock().expect("not poisoned").clone();
    let expected = WrittenLate {
        path: "a.txt".to_owned(),
        kept: kept.clone(),
    };
    assert_eq!(late, [expected]);
    let (message, _) = late[0].told();
    assert!(
        message.contains("`a.txt`") && message.contains(&format!("`{kept}`")),
        "{message}"
    );
}

#[test]
fn a_link_made_at_the_last_moment_leads_nowhere() {
    let (bench, _) = interrupted(|root| {
        fs::remove_file(root.join("z.txt")).expect("the file is removed");
        symlink("a.txt", root.join("z.txt")).expect("a link is made");
    });
    assert_eq!(bench.text("a.txt"), "a");
    let (bench, failure) = interrupted(|root| symlink("..", root.join("d")).expect("a link is made"));
    assert_eq!(
        failure.message,
        "`d/new.txt` leads through a symbolic link; nothing was changed"
    );
    assert!(!bench.folder.path().join("new.txt").exists());
    assert_eq!(bench.text("a.txt"), "a");
}

#[test]
fn a_directory_in_the_way_takes_everything_back() {
    let (bench, _) = interrupted(|root| fs::create_dir(root.join("zz.txt")).expect("a directory is made"));
    let tree: Vec<_> = bench.tree().into_iter().map(|(path, _)| path).collect();
    assert_eq!(tree, ["a.txt", "m.txt", "z.txt", "zz.txt/"]);
}

#[test]
fn a_file_system_that_cannot_exchange_names_will_do() {
    changes::WITHOUT_RENAME_FLAGS.set(true);
    let (bench, failure) = interrupted(|root| write(&root.join("zz.txt"), "theirs"));
    assert_eq!(failure.kind.code(), "denied");
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    bench
        .propose(&[("a.txt", "A"), ("new.txt", "N")], &["m.txt"])
        .expect("committed");
    let expected = [("a.txt", "A"), ("new.txt", "N"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    let last = bench.journal.changes().pop().expect("a change");
    assert_eq!(bench.undo(&[last]).0.left_alone, []);
    let expected = [("a.txt", "a"), ("m.txt", "m"), ("z.txt", "z"), ("zz.txt", "theirs")];
    assert_eq!(
        bench.tree(),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
}

/// A reader never sees anything but one of the whole contents, and a writer's work is never lost without notice.
#[test]
fn every_file_is_before_or_after_at_every_moment() {
    let old = "o".repeat(200_000);
    let new = "n".repeat(300_000);
    let bench = Bench::new(&[("a.txt", &old)]);
    bench.see("a.txt");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let text = bench.text("a.txt");
                assert!(text == old || text == new, "{} bytes", text.len());
            }
        });
        for round in 0..20 {
            let content = if round % 2 == 0 { &new } else { &old };
            bench.propose(&[("a.txt", content)], &[]).expect("committed");
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn proposals_on_one_repository_wait_for_each_other() {
    let bench = Bench::new(&[("counter", "0")]);
    let second = Repository::open(&bench.root(""), &Options::default()).expect("the root is accepted");
    let lock = changes::write_lock(&bench.context.repository);
    assert!(Arc::ptr_eq(&lock, &changes::write_lock(&second)));
    let guard = lock.lock().expect("not poisoned");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.propose(&[("a.txt", "a")], &[]));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!bench.root("a.txt").exists());
        drop(guard);
        waiting.join().expect("no panic").expect("committed");
    });
    assert_eq!(bench.text("a.txt"), "a");
}
