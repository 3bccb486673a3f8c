//! Tests which git directories are used, what a helper may answer, and that hanging work is given up.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::testing::{Fixture, ScriptedApproval as User, context};
use super::*;
use tool_sandbox::helper_process::HelperConnection;

fn open(root: &Path, user: &Arc<User>) -> Result<Option<String>, Failure> {
    let root = root.canonicalize().expect("it is there");
    GitHelper::open(&context(&root, &[], Arc::clone(user) as _), None)?.branch()
}

fn refusal(root: &Path) -> String {
    let parent = root.canonicalize().expect("it is there");
    let parent = parent.parent().expect("it has one").to_string_lossy().into_owned();
    match open(root, &User::new(false)) {
        Ok(_) => panic!("`{}` was opened", root.display()),
        Err(failure) => failure.message.replace(&parent, "…"),
    }
}

#[test]
fn a_folder_without_git_and_a_bare_repository_are_no_work_tree() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    assert_eq!(refusal(folder.path()), "This is not a git repository.");
    git2::Repository::init_bare(folder.path()).expect("git can be initialised");
    let bare = GitDirectories::find(&folder.path().canonicalize().expect("it is there"));
    assert_eq!(
        bare.map_err(|failure| failure.message),
        Err("This is not a git repository.".to_owned())
    );
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
    open(&evil.root(), &User::new(false)).expect("nothing is borrowed yet");

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

/// A repository with a worktree beside it.
fn with_worktree() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    fixture.commit("first");
    let second = fixture.outside("second");
    fixture
        .git
        .worktree("second", &second, None)
        .expect("a worktree can be added");
    (fixture, second)
}

/// Answers no question.
struct Nobody;

impl crate::Approver for Nobody {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _question: &Question, _cancel: &CancellationToken) -> crate::UserAnswer {
        panic!("nobody is there")
    }
}

fn headless(root: &Path) -> CallContext {
    context(
        &root.canonicalize().expect("it is there"),
        &["commit-git"],
        Arc::new(Nobody),
    )
}

#[test]
fn a_worktree_and_a_submodule_that_prove_where_they_belong_are_read_unasked() {
    let (fixture, second) = with_worktree();
    let branch = GitHelper::open(&headless(&second), None).and_then(|mut git| git.branch());
    assert_eq!(branch.expect("nobody is asked").as_deref(), Some("second"));
    let module = with_submodule(&fixture);
    GitHelper::open(&headless(&module), None).expect("nobody is asked");
}

/// A submodule in a repository; libgit2 does not clone it.
fn with_submodule(fixture: &Fixture) -> PathBuf {
    let module = fixture.root().join("module");
    std::fs::create_dir(&module).expect("folders can be made");
    let git_directory = fixture.root().join(".git/modules/module");
    let mut options = git2::RepositoryInitOptions::new();
    options.no_dotgit_dir(true).mkpath(true).workdir_path(&module);
    git2::Repository::init_opts(&git_directory, &options).expect("git can be initialised");
    std::fs::write(module.join(".git"), "gitdir: ../.git/modules/module\n").expect("files can be written");
    module
}

/// A work tree whose record leads to a repository that does not keep it, as an unpacked archive could hold it.
fn with_forged_record() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    fixture.write("diary.txt", "secret\n");
    fixture.commit("private");
    let place = fixture.outside("archive");
    std::fs::create_dir_all(place.join("record")).expect("folders can be made");
    for (name, text) in [
        (".git", "gitdir: record\n".to_owned()),
        ("record/HEAD", "ref: refs/heads/main\n".to_owned()),
        ("record/gitdir", format!("{}/.git\n", place.display())),
        ("record/commondir", format!("{}/.git\n", fixture.root().display())),
    ] {
        std::fs::write(place.join(name), text).expect("files can be written");
    }
    (fixture, place)
}

#[test]
fn a_record_that_its_repository_does_not_keep_is_asked_for_once_with_its_places() {
    let (fixture, place) = with_forged_record();
    let user = User::new(true);
    let session = context(&place, &[], Arc::clone(&user) as _);
    for _ in 0..2 {
        let branch = GitHelper::open(&session, None).and_then(|mut git| git.branch());
        assert_eq!(branch.expect("the user agrees").as_deref(), Some("main"));
    }
    let questions = user.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].effect(), Effect::ReadGit);
    let folder = fixture.outside("").canonicalize().expect("it is there");
    let detail = questions[0].detail().replace(&format!("{}/", folder.display()), "");
    insta::assert_snapshot!(detail, @r"
    The work tree archive keeps its git data elsewhere. Reading it shows what is stored there:

    work/.git
    ");
}

#[test]
fn a_record_that_its_repository_does_not_keep_is_denied_by_a_no_and_where_nobody_is_there() {
    let (_fixture, place) = with_forged_record();
    let refused = open(&place, &User::new(false)).expect_err("the user refuses");
    assert_eq!(refused.kind.code(), "denied");
    assert!(
        refused.message.ends_with("and the user did not agree to use it."),
        "{}",
        refused.message
    );
    let denied = GitHelper::open(&headless(&place), None).err().expect("nobody is there");
    assert!(
        denied.message.ends_with("and no user can be asked whether to use it."),
        "{}",
        denied.message
    );
    assert!(denied.message.contains("work/.git`"), "{}", denied.message);
    assert!(denied.hint.is_some());
}

/// Every way in which an archive could claim another repository's data: none is read without a question.
#[test]
fn nothing_that_an_archive_can_hold_proves_that_another_repository_is_its_own() {
    let (fixture, second) = with_worktree();
    let private = fixture.root().join(".git");
    let record = private.join("worktrees/second");
    let write = |path: PathBuf, text: String| {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("folders can be made");
        std::fs::write(path, text).expect("files can be written");
    };
    let place = |name: &str, target: &str| {
        let place = fixture.outside(name);
        write(place.join(".git"), format!("gitdir: {target}\n"));
        place
    };
    // Leads to the record of another work tree.
    let stolen = place("stolen", &record.display().to_string());
    // A record of its own below a folder `worktrees`, which is not the repository's.
    let beside = place("beside", "worktrees/x");
    write(beside.join("worktrees/x/HEAD"), "ref: refs/heads/main\n".to_owned());
    write(
        beside.join("worktrees/x/gitdir"),
        format!("{}/.git\n", beside.display()),
    );
    write(beside.join("worktrees/x/commondir"), format!("{}\n", private.display()));
    // A submodule's directory that borrows the rest.
    let module = place("module", "modules/m");
    write(module.join("modules/m/HEAD"), "ref: refs/heads/main\n".to_owned());
    write(
        module.join("modules/m/config"),
        "[core]\n\tworktree = ../..\n".to_owned(),
    );
    write(module.join("modules/m/commondir"), format!("{}\n", private.display()));
    // The repository's folder of records is reached through a link.
    let link = place("link", "fake/worktrees/second");
    std::fs::create_dir_all(link.join("fake")).expect("folders can be made");
    symlink(private.join("worktrees"), link.join("fake/worktrees")).expect("links can be made");
    for place in [stolen, beside, module, link] {
        let denied = GitHelper::open(&headless(&place), None).and_then(|mut git| git.branch());
        assert!(denied.is_err(), "{}", place.display());
    }
    GitHelper::open(&headless(&second), None).expect("the real one is read");
}

#[test]
fn a_commit_to_git_data_elsewhere_is_asked_for_once_and_the_answer_is_kept() {
    let (fixture, second) = with_worktree();
    let home = fixture.outside("home");
    std::fs::create_dir(&home).expect("folders can be made");
    let opened = |approver: Arc<dyn crate::Approver>| {
        let options = tool_repository::Options {
            state_directory: Some(home.clone()),
            ..Default::default()
        };
        let mut session = context(&second, &["commit-git"], approver);
        session.repository = tool_repository::Repository::open(&second, &options).expect("the folder is there");
        session
    };
    let admit = |session: &CallContext| admit_commit(session, &layout_of(session)?);
    let denied = admit(&opened(Arc::new(Nobody))).expect_err("nobody is there");
    let common = fixture.root().join(".git").canonicalize().expect("it is there");
    let hint = format!(
        "only the user can allow it, with `--allow-path {}`, or once on a terminal",
        common.display()
    );
    assert_eq!((denied.kind.code(), denied.hint), ("denied", Some(hint)));
    admit(&opened(User::new(false))).expect_err("the user refuses");
    let mut flagged = opened(Arc::new(Nobody));
    let request = tool_core::api::PolicyRequest {
        allow_paths: vec![common.display().to_string()],
        ..Default::default()
    };
    flagged.policy = crate::policy::Policy::new(crate::policy::EffectCause::SkillCall, &request).expect("it is valid");
    admit(&flagged).expect("the flag allows it");
    let user = User::new(true);
    for _ in 0..2 {
        admit(&opened(Arc::clone(&user) as _)).expect("the user agrees");
    }
    assert_eq!(user.questions().len(), 1);
    admit(&opened(Arc::new(Nobody))).expect("the answer is kept");
}

#[test]
fn borrowed_objects_are_asked_for_as_well() {
    let lender = Fixture::new();
    let borrower = Fixture::new();
    std::fs::create_dir_all(borrower.root().join(".git/objects/info")).expect("folders can be made");
    let objects = lender.root().join(".git/objects");
    std::fs::write(
        borrower.root().join(".git/objects/info/alternates"),
        format!("# comment\n{}\n/nowhere\n", objects.display()),
    )
    .expect("files can be written");
    let user = User::new(true);
    open(&borrower.root(), &user).expect("the user agrees");
    let question = user.questions().remove(0);
    let objects = objects.canonicalize().expect("it is there");
    assert!(
        question
            .detail()
            .ends_with(&format!("there:\n\n{}\n", objects.display())),
        "{}",
        question.detail()
    );
}

#[test]
fn a_full_sandbox_that_is_required_and_not_there_is_an_error() {
    let fixture = Fixture::new();
    let mut session = fixture.session(&[]);
    let request = tool_core::api::PolicyRequest {
        require_sandbox: true,
        ..Default::default()
    };
    let cause = crate::policy::EffectCause::SkillCall;
    session.policy = crate::policy::Policy::new(cause, &request).expect("it is valid");
    let failure = GitHelper::open(&session, None).err().expect("tests have no helper");
    assert_eq!(
        failure.message,
        "A full sandbox is required, and git cannot be confined here: this program does not offer the helper."
    );
}

#[test]
fn formats_that_mean_something_else_are_refused_by_name() {
    let refused = |key: &str, value: &str| {
        let fixture = Fixture::new();
        fixture.configure(key, value);
        refusal(&fixture.root())
    };
    for (key, value) in [
        ("extensions.objectFormat", "sha256"),
        ("extensions.partialClone", "origin"),
        ("extensions.refStorage", "reftable"),
        ("extensions.compatObjectFormat", "sha256"),
        ("extensions.invented", "true"),
    ] {
        let key = key.to_lowercase();
        assert_eq!(
            refused(&key, value),
            format!("This git repository uses `{key} = {value}`, which is not understood here.")
        );
    }
    let fixture = Fixture::new();
    fixture.configure("extensions.worktreeConfig", "true");
    fixture.configure("extensions.preciousObjects", "true");
    open(&fixture.root(), &User::new(false)).expect("libgit2 knows these");
}

/// The session's git with a helper that gives one answer to everything.
fn taken_over(fixture: &Fixture, answer: &'static str, body: &'static [u8]) -> GitHelper {
    let work = move |mut connection: HelperConnection| {
        while let Ok(Some((_, _))) = connection.receive::<serde_json::Value>() {
            let answer: serde_json::Value = serde_json::from_str(answer).expect("it is JSON");
            if connection.send(&answer, body).is_err() {
                return;
            }
        }
    };
    GitHelper {
        helper: Helper::on_thread(work).expect("threads can be started"),
        until: HelperDeadline::within(Duration::from_secs(20), &CancellationToken::new()),
        layout: GitDirectories::find(&fixture.root().canonicalize().expect("it is there")).expect("it is a repository"),
        _stand_in: None,
        _counted: None,
    }
}

#[test]
fn what_a_helper_that_was_taken_over_says_is_refused_or_cut() {
    let fixture = Fixture::new();
    let nonsense = "The process that reads the git repository gave an answer that makes no sense.";
    let says = |answer, body| taken_over(&fixture, answer, body);
    let message = |failure: Failure| failure.message;
    // Another answer, bytes where none belong, more than were asked for, a list without end.
    assert_eq!(
        says("\"done\"", b"").branch().map_err(message),
        Err(nonsense.to_owned())
    );
    assert_eq!(
        says(r#"{"branch":null}"#, b"x").branch().map_err(message),
        Err(nonsense.to_owned())
    );
    assert_eq!(
        says(r#"{"deltas":[]}"#, b"").deltas(0).map_err(message),
        Err(nonsense.to_owned())
    );
    let id = ObjectId::try_from("0".repeat(40)).expect("it is one");
    assert_eq!(
        says("\"blob\"", b"12345").blob(&id, 4).map_err(message),
        Err(nonsense.to_owned())
    );
    let stored = says(r#"{"stored":"../../../../etc/passwd"}"#, b"").ask(&GitRequest::Tree);
    assert_eq!(stored.map_err(message).err().as_deref(), Some(nonsense));
    let endless = says(r#"{"counted":18446744073709551615}"#, b"").count(&GitRequest::Renames);
    assert_eq!(endless.map_err(message), Ok(GIT_DELTAS_MAX));
    let failed = says(
        r#"{"failed":{"code":"grant","message":"\u001b[31mred\u202e","hint":null}}"#,
        b"",
    );
    let failure = { failed }.branch().expect_err("it failed");
    assert_eq!((failure.kind.code(), failure.message.as_str()), ("failed", "red"));
}

#[test]
fn paths_of_a_helper_are_looked_at_in_their_one_form_only() {
    for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "a/", ""] {
        assert_eq!(plain_path(path), None, "{path}");
    }
    assert_eq!(plain_path("a/b.txt"), Some("a/b.txt"));
}

#[test]
fn work_that_hangs_is_given_up_at_once_when_the_session_is_cancelled() {
    let fixture = Fixture::new();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let cancel = CancellationToken::new();
    let mut git = taken_over(&fixture, "null", b"");
    git.until = HelperDeadline::within(Duration::from_secs(60), &cancel);
    git.helper = Helper::on_thread(move |connection| {
        let _ = released.recv();
        drop(connection);
    })
    .expect("threads can be started");
    let trigger = cancel.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        trigger.cancel();
    });
    let started = Instant::now();
    let failure = git.branch().expect_err("it is cancelled");
    assert_eq!(failure.message, "The call was cancelled.");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    drop(release);
}

#[test]
fn work_that_hangs_is_given_up_when_its_time_is_over() {
    let fixture = Fixture::new();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut git = taken_over(&fixture, "null", b"");
    let _hurried = limits::pace::hurried(600);
    git.until = HelperDeadline::within(question_timeout(), &CancellationToken::new());
    git.helper = Helper::on_thread(move |connection| {
        let _ = released.recv_timeout(Duration::from_secs(20));
        drop(connection);
    })
    .expect("threads can be started");
    let started = Instant::now();
    let message = git.branch().expect_err("it hangs").message;
    assert_eq!(message, "git took longer than 60 seconds and was given up.");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    drop(release);
}

#[test]
fn operations_that_hang_are_of_a_bounded_number() {
    // Its own count, so that no other test is turned away.
    static HANGING: AtomicUsize = AtomicUsize::new(0);
    let held: Result<Vec<OperationCount>, Failure> =
        (0..GIT_OPERATIONS_MAX).map(|_| OperationCount::new(&HANGING)).collect();
    let held = held.expect("so many may hang");
    let refused = OperationCount::new(&HANGING).err().expect("one more may not");
    assert_eq!(refused.message, "Too many git operations are under way or hang.");
    drop(held);
    assert!(OperationCount::new(&HANGING).is_ok());
}

#[test]
fn the_walls_of_the_git_helper_have_the_bounds_of_limits() {
    let fixture = Fixture::new();
    let layout =
        GitDirectories::find(&fixture.root().canonicalize().expect("it is there")).expect("it is a repository");
    let reading = helper_walls(&layout, [None, None]);
    assert_eq!(reading.memory_bytes, GIT_MEMORY_BYTES_MAX);
    assert_eq!(reading.address_bytes, GIT_ADDRESS_BYTES_MAX);
    assert_eq!(reading.cpu_seconds, GIT_SECONDS_MAX);
    assert_eq!(reading.file_bytes, 0, "who only reads writes nothing");
    assert_eq!(
        helper_walls(&layout, [Some(Path::new("/scratch")), None]).file_bytes,
        GIT_FILE_BYTES_MAX
    );
}

#[test]
fn words_and_pages_of_the_helper_are_bounded() {
    assert_eq!(
        cut_message(&"x".repeat(2 * GIT_MESSAGE_SHOWN_BYTES_MAX)).len(),
        GIT_MESSAGE_SHOWN_BYTES_MAX
    );
    let delta = r#"{"status":"modified","path":"a","old_path":"a","old":null,"new":null,"old_mode":0,"new_mode":0,
        "left_in_place":false}"#;
    let page = |count: usize| {
        let fixture = Fixture::new();
        let answer = format!("{{\"deltas\":[{}]}}", vec![delta; count].join(","));
        taken_over(&fixture, Box::leak(answer.into_boxed_str()), b"")
            .deltas(0)
            .is_ok()
    };
    assert!(page(GIT_PAGE) && !page(GIT_PAGE + 1));
}
