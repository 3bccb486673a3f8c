//! Proposals that go into a private layer, and that are put in place afterwards.

use super::*;
use crate::FailureKind;
use tool_repository::layer::Layer;

/// A bench whose repository has a private layer over it.
fn preview(files: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::new(files);
    let layer = Layer::create(&bench.folder.path().join("layer")).expect("it can be made");
    let options = Options {
        layer: Some(layer),
        ..Options::default()
    };
    let root = bench.root("");
    bench.context.repository = Repository::open(&root, &options).expect("the root is accepted");
    bench
}

/// The net changes of a preview, as its journal tells them.
fn net(bench: &Bench) -> Vec<FileChange> {
    let mut net: BTreeMap<String, FileChange> = BTreeMap::new();
    for file in bench.journal.changes().into_iter().flat_map(|change| change.files) {
        let known = net.entry(file.path.clone()).or_insert_with(|| file.clone());
        known.after = file.after;
    }
    net.into_values().collect()
}

/// Applies a preview to its repository with a session of its own.
fn apply(bench: &Bench, files: Vec<FileChange>) -> Result<Vec<String>, PreviewRefused> {
    let root = bench.root("");
    let repository = Repository::open(&root, &Options::default()).expect("the root is accepted");
    let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default());
    let context = CallContext::unattended(repository, policy.expect("the request is valid"));
    commit_previewed(&context, files)
}

#[test]
fn a_move_a_deletion_and_an_executable_bit_stay_in_the_layer_until_they_are_applied() {
    let mut bench = preview(&[("a.sh", "#!/bin/sh\n"), ("b.py", "b"), ("c.py", "c"), ("d", "d")]);
    for path in ["a.sh", "b.py", "c.py", "d"] {
        bench.see(path);
    }
    let before = bench.tree();
    bench.terms = ProposalTerms {
        executable: [("a.sh".to_owned(), true)].into(),
        renames: [("c.py".to_owned(), "lib/c.py".to_owned())].into(),
        ..ProposalTerms::default()
    };
    let changed = bench
        .propose(&[("d/e.py", "e")], &["b.py", "d"])
        .expect("it is committed");
    assert_eq!(changed, ["a.sh", "b.py", "c.py", "d", "d/e.py", "lib/c.py"]);
    assert_eq!(bench.tree(), before, "the tree is as it was");
    let read = |path: &str| bench.context.repository.current(path, 100).expect("it can be read");
    assert!(read("a.sh").is_some_and(|state| state.is_executable()));
    assert_eq!((read("b.py"), read("c.py")), (None, None));
    assert_eq!(read("lib/c.py").map(|state| state.content), Some(b"c".to_vec()));

    let applied = apply(&bench, net(&bench)).expect("nothing has changed since");
    assert_eq!(applied, changed);
    assert_eq!(mode(&bench.root("a.sh")) & 0o111, 0o111);
    assert_eq!(
        (bench.text("lib/c.py"), bench.text("d/e.py")),
        ("c".to_owned(), "e".to_owned())
    );
    assert!(!bench.root("b.py").exists() && !bench.root("c.py").exists());
}

#[test]
fn every_file_that_has_changed_since_is_named_and_nothing_is_applied() {
    let bench = preview(&[("a.py", "a"), ("b.py", "b"), ("c.py", "c")]);
    for path in ["a.py", "b.py", "c.py"] {
        bench.see(path);
    }
    let all = [("a.py", "1"), ("b.py", "2"), ("c.py", "3"), ("new.py", "4")];
    bench.propose(&all, &[]).expect("it is committed");
    fs::write(bench.root("a.py"), "mine").expect("it is ours");
    fs::remove_file(bench.root("b.py")).expect("it is there");
    fs::write(bench.root("new.py"), "mine").expect("it is ours");
    let before = bench.tree();
    let refused = apply(&bench, net(&bench)).expect_err("three files have changed");
    let PreviewRefused::Changed(paths) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(paths, ["a.py", "b.py", "new.py"]);
    assert_eq!(bench.tree(), before);
}

#[test]
fn a_change_that_the_journal_does_not_take_is_in_no_layer() {
    let bench = preview(&[("a.py", "old")]);
    bench.see("a.py");
    *bench.journal.fail.lock().expect("not poisoned") = Some("committed");
    let failure = bench.propose(&[("a.py", "new")], &[]).expect_err("it is not recorded");
    assert!(
        failure.message.ends_with("the disk is full; it was taken back"),
        "{}",
        failure.message
    );
    let current = bench.context.repository.current("a.py", 100).expect("it can be read");
    assert_eq!(current.map(|state| state.content), Some(b"old".to_vec()));
}

#[test]
fn what_is_protected_is_so_in_a_layer_and_when_it_is_applied() {
    let bench = preview(&[]);
    for path in [".github/workflows/x.yml", ".env", ".newrc"] {
        let failure = bench.propose(&[(path, "x")], &[]).expect_err("it is protected");
        assert_eq!(failure.kind.code(), "denied", "{path}");
        let change = FileChange {
            path: path.to_owned(),
            before: None,
            after: Some(FileState {
                content: b"x".to_vec(),
                mode: 0o644,
            }),
        };
        let refused = apply(&bench, vec![change]).expect_err("it is protected");
        assert!(matches!(refused, PreviewRefused::Failure(failure) if failure.kind == FailureKind::Denied));
    }
    // Neither does a layer make a git directory of what it holds by now.
    for path in ["bare/HEAD", "bare/refs/x"] {
        bench.propose(&[(path, "x")], &[]).expect("it is committed");
    }
    let shaped = bench
        .propose(&[("bare/objects/x", "x")], &[])
        .expect_err("it would be a git directory");
    assert!(
        shaped.message.contains("would turn `bare` into a git directory"),
        "{}",
        shaped.message
    );
}
