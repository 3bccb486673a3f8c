//! Which git directories are used, and that hanging work is given up.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::testing::Fixture;
use super::*;

fn refusal(root: &Path) -> String {
    let root = root.canonicalize().expect("it is there");
    match Git::open(&root) {
        Ok(_) => panic!("`{}` was opened", root.display()),
        Err(failure) => failure
            .message
            .replace(&*root.parent().expect("it has one").to_string_lossy(), "…"),
    }
}

#[test]
fn a_folder_without_git_and_a_bare_repository_are_no_work_tree() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    assert_eq!(refusal(folder.path()), "This is not a git repository.");
    git2::Repository::init_bare(folder.path()).expect("git can be initialised");
    assert_eq!(refusal(folder.path()), "This is not a git repository.");
}

#[test]
fn a_root_inside_a_work_tree_sees_its_own_part() {
    let fixture = Fixture::new();
    fixture.write("part/deep/a.txt", "");
    let root = fixture.root().canonicalize().expect("it is there").join("part/deep");
    let git = Git::open(&root).expect("it is in a work tree");
    assert_eq!(git.inside("a.txt"), "part/deep/a.txt");
    assert_eq!(git.inside(""), "part/deep");
    assert_eq!(git.ours(b"part/deep/a.txt"), Some("a.txt"));
    assert_eq!(git.ours(b"part/other.txt"), None);
    assert_eq!(git.pathspecs(&[]), ["part/deep"]);
    assert_eq!(git.branch().as_deref(), Some("main"));
}

#[test]
fn a_git_directory_that_is_not_the_trees_own_is_refused() {
    let private = Fixture::new();
    private.write("diary.txt", "secret\n");
    private.commit("private");
    let private_git = private.root().join(".git");

    let folder = tempfile::tempdir().expect("there is room for a folder");
    let root = folder.path().join("evil");
    std::fs::create_dir(&root).expect("folders can be made");
    std::fs::write(root.join(".git"), format!("gitdir: {}\n", private_git.display())).expect("files can be written");
    assert!(refusal(&root).contains("does not lead back"), "{}", refusal(&root));

    std::fs::remove_file(root.join(".git")).expect("it was there");
    symlink(&private_git, root.join(".git")).expect("links can be made");
    assert_eq!(
        refusal(&root),
        "The git directory is not used: `…/evil/.git`: it is neither a directory nor a file."
    );
}

#[test]
fn a_git_directory_that_borrows_is_refused() {
    let private = Fixture::new();
    private.write("diary.txt", "secret\n");
    private.commit("private");
    let private_git = private.root().join(".git").canonicalize().expect("it is there");

    let evil = Fixture::new();
    evil.write("a.txt", "1\n");
    evil.commit("first");
    let own = evil.root().join(".git");
    Git::open(&evil.root().canonicalize().expect("it is there")).expect("nothing is borrowed yet");

    std::fs::write(own.join("commondir"), format!("{}\n", private_git.display())).expect("files can be written");
    let message = refusal(&evil.root());
    assert!(message.contains("not used"), "{message}");
    std::fs::remove_file(own.join("commondir")).expect("it was there");

    let branch = own.join("refs/heads/main");
    std::fs::remove_file(&branch).expect("it was there");
    symlink(private_git.join("refs/heads/main"), &branch).expect("links can be made");
    std::fs::create_dir_all(own.join("objects/info")).expect("folders can be made");
    std::fs::write(
        own.join("objects/info/alternates"),
        format!("{}/objects\n", private_git.display()),
    )
    .expect("files can be written");
    let message = refusal(&evil.root());
    assert!(message.contains("leads to another repository"), "{message}");

    std::fs::remove_dir_all(own.join("objects")).expect("it was there");
    symlink(private_git.join("objects"), own.join("objects")).expect("links can be made");
    let message = refusal(&evil.root());
    assert!(message.contains("is not a directory"), "{message}");
}

#[test]
fn a_work_tree_elsewhere_is_refused() {
    let fixture = Fixture::new();
    let elsewhere = fixture.outside("elsewhere");
    std::fs::create_dir(&elsewhere).expect("folders can be made");
    fixture.configure("core.worktree", &elsewhere.to_string_lossy());
    let message = refusal(&fixture.root());
    assert!(message.contains("its work tree is another directory"), "{message}");
}

#[test]
fn worktrees_and_submodules_lead_back_and_are_used() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    fixture.commit("first");
    let second = fixture.outside("second");
    fixture
        .git
        .worktree("second", &second, None)
        .expect("a worktree can be added");
    let git = Git::open(&second.canonicalize().expect("it is there")).expect("it is a worktree");
    assert_eq!(git.branch().as_deref(), Some("second"));

    let module = fixture.root().join("module");
    std::fs::create_dir(&module).expect("folders can be made");
    let git_directory = fixture.root().join(".git/modules/module");
    let mut options = git2::RepositoryInitOptions::new();
    options.no_dotgit_dir(true).mkpath(true).workdir_path(&module);
    git2::Repository::init_opts(&git_directory, &options).expect("git can be initialised");
    std::fs::write(module.join(".git"), "gitdir: ../.git/modules/module\n").expect("files can be written");
    Git::open(&module.canonicalize().expect("it is there")).expect("it is a submodule");
}

#[test]
fn work_that_hangs_is_given_up_at_once_when_the_session_is_cancelled() {
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let (release, released) = mpsc::channel::<()>();
    let (told, verdict) = mpsc::channel();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        trigger.cancel();
    });
    let started = Instant::now();
    let answer = watched(&cancel, move |watch| {
        let _ = released.recv();
        told.send((watch.given_up(), watch.begin_commit()))
            .expect("the test waits");
        Ok(())
    });
    assert_eq!(
        answer.map_err(|failure| failure.message),
        Err("The call was cancelled.".to_owned())
    );
    assert!(
        started.elapsed() < Duration::from_millis(500),
        "{:?}",
        started.elapsed()
    );
    drop(release);
    assert_eq!(
        verdict.recv(),
        Ok((true, false)),
        "given up, so it may not begin to commit"
    );
}

#[test]
fn a_commit_that_has_begun_is_waited_for() {
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let answer = watched(&cancel, move |watch| {
        assert!(watch.begin_commit());
        trigger.cancel();
        std::thread::sleep(Duration::from_millis(200));
        Ok("done")
    });
    assert_eq!(answer.map_err(|failure| failure.message), Ok("done"));
}

#[test]
fn work_that_hangs_is_given_up_when_its_time_is_over() {
    let _hurried = limits::pace::hurried(600);
    let (release, released) = mpsc::channel::<()>();
    let started = Instant::now();
    let answer = watched(&CancellationToken::new(), move |_| {
        let _ = released.recv_timeout(Duration::from_secs(10));
        Ok(())
    });
    let message = answer.expect_err("it hangs").message;
    assert_eq!(message, "git took longer than 60 seconds and was given up.");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    drop(release);
}

#[test]
fn operations_that_hang_are_of_a_bounded_number() {
    // Its own count, so that no other test is turned away.
    static HANGING: AtomicUsize = AtomicUsize::new(0);
    let held: Result<Vec<Counted>, Failure> = (0..limits::GIT_THREADS_MAX).map(|_| Counted::new(&HANGING)).collect();
    let held = held.expect("so many may hang");
    let refused = Counted::new(&HANGING).err().expect("one more may not");
    assert_eq!(refused.message, "Too many git operations are under way or hang.");
    drop(held);
    assert!(Counted::new(&HANGING).is_ok());
}
