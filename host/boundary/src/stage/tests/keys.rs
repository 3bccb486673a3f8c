//! Keys that a model knows as placeholders, and the wait for another proposal.

use super::*;

#[test]
fn a_key_that_the_model_knows_as_a_placeholder_is_put_back() {
    let key = format!("gh{}_{}", 'p', "Zk3qW9xR2mT7vB4nL6cY8dF1gH5jK0sA2eU4");
    let held = format!("key = \"{key}\"\n");
    let bench = Bench::new(&[("a.py", &held), ("b.py", "x = 1\n")]);
    bench.see("a.py");
    bench.see("b.py");
    let shown = bench
        .context
        .conversation
        .redactor
        .text(&held, Some("a.py"))
        .into_owned();
    assert_eq!(shown, "key = \"[redacted:github-token:1]\"\n");
    // Written back as it was shown, nothing changes.
    let propose = |content: &str| bench.propose(&[("a.py", content)], &[]).expect("it is accepted");
    assert!(propose(&shown).is_empty());
    let longer = format!("{shown}y = 2\n");
    assert_eq!(propose(&longer), ["a.py"]);
    let expected = format!("{held}y = 2\n");
    assert_eq!(fs::read_to_string(bench.root("a.py")).expect("it is read"), expected);
    // The journal holds the real content, and the session has seen the files that it has written.
    let change = bench.journal.changes();
    let after = change.last().expect("a change").files[0]
        .after
        .clone()
        .expect("a content");
    assert_eq!(after.content, expected.as_bytes());
    assert_eq!(propose(&shown), ["a.py"]);

    let message = |path: &str, placeholder: &str| {
        format!("`{path}` cannot get `{placeholder}`: it stands for a secret that this file does not hold")
    };
    let placeholder = "[redacted:github-token:1]";
    bench.refused(&[("b.py", &shown)], &[], "denied", &message("b.py", placeholder));
    bench.refused(&[("new.py", &shown)], &[], "denied", &message("new.py", placeholder));
    // All or nothing, and a key may not move with its file's name.
    bench.refused(
        &[("a.py", "y = 3\n"), ("c.py", &shown)],
        &[],
        "denied",
        &message("c.py", placeholder),
    );
    bench.refused(
        &[("moved.py", &shown)],
        &["a.py"],
        "denied",
        &message("moved.py", placeholder),
    );
    let made_up = "[redacted:github-token:7]";
    bench.refused(&[("a.py", made_up)], &[], "denied", &message("a.py", made_up));
}

#[test]
fn a_proposal_that_waits_for_another_one_ends_with_its_session() {
    let bench = Bench::new(&[]);
    let lock = changes::write_lock(&bench.context.repository);
    let guard = lock.lock().expect("not poisoned");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.propose(&[("a.txt", "a")], &[]));
        std::thread::sleep(std::time::Duration::from_millis(20));
        bench.context.cancel.cancel();
        // The lock is held until it has ended.
        let failure = waiting.join().expect("no panic").expect_err("its session has ended");
        assert_eq!(failure.message, "The session was cancelled; nothing was changed");
    });
    drop(guard);
    assert!(!bench.root("a.txt").exists());
}
