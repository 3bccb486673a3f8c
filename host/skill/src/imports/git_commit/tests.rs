//! Commits in real repositories: the files that go in, those that stay out, and refusals.

mod recovery;

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::imports::git::testing::{Fixture, ScriptedApproval, changed, context, formats};
use tool_boundary::policy::{EffectCause, Policy};
use tool_core::api::{Operation, PolicyRequest};

const ALLOWED: &[&str] = &["commit-git"];

/// A commit whose errors are failures, as the skill sees them.
fn create(context: &CallContext, message: &str, paths: &[String], all: bool) -> Result<Commit, Failure> {
    let made = super::create_commit(context, message, paths, all);
    made.map(|made| made.commit).map_err(CommitError::into_failure)
}

fn commit(fixture: &Fixture, paths: &[&str], all: bool) -> Result<Commit, Failure> {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    create(&fixture.session(ALLOWED), "Say why\n\nAt length.\n\n\n", &paths, all)
}

fn message(result: Result<Commit, Failure>) -> String {
    match result {
        Ok(commit) => panic!("{commit:?}"),
        Err(failure) => format!("{}: {}", failure.kind.code(), failure.message),
    }
}

fn started() -> Fixture {
    started_in(Fixture::new())
}

fn started_in(fixture: Fixture) -> Fixture {
    for path in ["a.txt", "b.txt", "c.txt", "dir/d.txt"] {
        fixture.write(path, "1\n");
    }
    fixture.commit("first");
    fixture
}

#[test]
fn the_sessions_files_are_committed_and_nothing_else() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    fixture.write("b.txt", "user's own, unstaged\n");
    fixture.write("c.txt", "user's own, staged\n");
    fixture.stage("c.txt");
    fixture.write("new.txt", "new\n");
    fixture.remove("dir/d.txt");
    let session = fixture.session(ALLOWED);
    changed(&session, &["a.txt", "new.txt", "dir/d.txt"]);
    let commit = create(&session, "Say why\n\nAt length.\n\n\n", &[], false).expect("it can be committed");

    assert_eq!(commit.files, ["a.txt", "dir/d.txt", "new.txt"]);
    assert_eq!(commit.branch.as_deref(), Some("main"));
    assert_eq!(commit.author, "Ada Example <ada@example.org>");
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("there is a commit");
    assert_eq!(head.id().to_string(), commit.id);
    assert_eq!(head.message(), Ok("Say why\n\nAt length.\n"));
    assert_eq!(head.author().name(), Ok("Ada Example"));
    assert_eq!(head.parent_count(), 1);
    assert_eq!(fixture.committed("a.txt"), Some(("2\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.committed("b.txt"), Some(("1\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.committed("c.txt"), Some(("1\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.committed("new.txt"), Some(("new\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.committed("dir/d.txt"), None);
    assert_eq!(
        fixture.status(),
        "b.txt Status(WT_MODIFIED)\nc.txt Status(INDEX_MODIFIED)"
    );
    let log = fixture.git.reflog("HEAD").expect("there is a log");
    let newest = log.get(0).expect("it has entries");
    assert_eq!(newest.message(), Ok(Some("commit: Say why")));
}

#[test]
fn named_paths_and_directories_widen() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    fixture.write("dir/d.txt", "2\n");
    fixture.write("dir/deep/new.txt", "new\n");
    let done = commit(&fixture, &["dir", "c.txt"], false).expect("it can be committed");
    assert_eq!(done.files, ["dir/d.txt", "dir/deep/new.txt"]);
    assert_eq!(fixture.status(), "a.txt Status(WT_MODIFIED)");
}

#[test]
fn all_takes_everything_but_what_is_hidden_or_ignored() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    fixture.remove("b.txt");
    fixture.stage("b.txt");
    fixture.write(".env", "TOKEN=secret\n");
    fixture.write("key.txt", "-----BEGIN PRIVATE KEY-----\nsecret\n");
    fixture.write(".gitignore", "*.log\n");
    fixture.write("noise.log", "noise\n");
    let done = commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(done.files, [".gitignore", "a.txt", "b.txt"]);
    assert_eq!(fixture.status(), ".env Status(WT_NEW)\nkey.txt Status(WT_NEW)");
}

#[test]
fn hidden_absent_ignored_and_outside_paths_are_refused() {
    let fixture = started();
    fixture.write(".env", "TOKEN=secret\n");
    fixture.write("key.txt", "-----BEGIN PRIVATE KEY-----\nsecret\n");
    fixture.write(".gitignore", "*.log\n");
    fixture.write("noise.log", "noise\n");
    let refusals = [".env", "key.txt", "nowhere.txt", "noise.log", "../a.txt", ".git/config"]
        .map(|path| message(commit(&fixture, &[path], false)))
        .join("\n");
    insta::assert_snapshot!(refusals, @r"
    denied: `.env` is not committed: it holds environment variables, which are often secrets.
    denied: `key.txt` is not accessible: it is a private key, so it is not committed.
    not-found: `nowhere.txt` does not exist, and git does not know it.
    invalid-arguments: `noise.log` is ignored by git, so it is not committed.
    invalid-arguments: `../a.txt` is no path in this repository: it lies outside the repository.
    denied: `.git/config` is not committed: it is a git directory.
    ");
}

#[test]
fn nothing_to_commit_is_said() {
    let fixture = started();
    fixture.write("b.txt", "2\n");
    let none = message(commit(&fixture, &[], false));
    let unchanged = message(commit(&fixture, &["a.txt"], false));
    let session = fixture.session(ALLOWED);
    changed(&session, &["a.txt"]);
    let session = message(create(&session, "message", &[], false));
    insta::assert_snapshot!([none, unchanged, session].join("\n"), @r"
    failed: Nothing to commit: this session has changed no files.
    failed: Nothing to commit: the named files are as in the last commit.
    failed: Nothing to commit: the files that this session changed are as in the last commit.
    ");
    for text in ["", " \n\n", "a\0b", &"x".repeat(GIT_MESSAGE_BYTES_MAX + 1)] {
        let answer = message(create(&fixture.session(ALLOWED), text, &[], true));
        assert!(answer.starts_with("invalid-arguments: The commit message"), "{answer}");
    }
}

#[test]
fn modes_links_and_changes_of_kind_are_kept() {
    let fixture = started();
    fixture.executable("run.sh", "echo\n");
    fixture.link("a.txt", "link");
    fixture.link("/etc/passwd", "outside");
    fixture.remove("b.txt");
    fixture.write("b.txt/inner.txt", "now a directory\n");
    let done = commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(done.files, ["b.txt", "b.txt/inner.txt", "link", "outside", "run.sh"]);
    assert_eq!(fixture.committed("run.sh"), Some(("echo\n".to_owned(), 0o100_755)));
    assert_eq!(fixture.committed("link"), Some(("a.txt".to_owned(), 0o120_000)));
    assert_eq!(
        fixture.committed("outside"),
        Some(("/etc/passwd".to_owned(), 0o120_000))
    );
    assert_eq!(
        fixture.committed("b.txt/inner.txt"),
        Some(("now a directory\n".to_owned(), 0o100_644))
    );
    assert_eq!(fixture.status(), "");
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    let fixture = started();
    std::fs::remove_dir_all(fixture.root().join("dir")).expect("it was there");
    std::fs::create_dir(fixture.outside("dir")).expect("folders can be made");
    std::fs::write(fixture.outside("dir/d.txt"), "outside\n").expect("files can be written");
    fixture.link("../dir", "dir");
    commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(fixture.committed("dir"), Some(("../dir".to_owned(), 0o120_000)));
}

#[test]
fn file_modes_that_the_file_system_does_not_keep_stay_as_they_are() {
    let fixture = started();
    fixture.configure("core.fileMode", "false");
    fixture.executable("a.txt", "2\n");
    commit(&fixture, &["a.txt"], false).expect("it can be committed");
    assert_eq!(fixture.committed("a.txt"), Some(("2\n".to_owned(), 0o100_644)));
}

#[test]
fn a_plain_file_that_stands_for_a_link_is_not_committed_as_a_file() {
    let fixture = started();
    fixture.link("a.txt", "link");
    commit(&fixture, &["link"], false).expect("it can be committed");
    fixture.configure("core.symlinks", "false");
    std::fs::remove_file(fixture.root().join("link")).expect("it is there");
    fixture.write("link", "b.txt");
    let answer = message(commit(&fixture, &["link"], false));
    assert!(answer.contains("lets a plain file stand"), "{answer}");
    assert_eq!(fixture.committed("link"), Some(("a.txt".to_owned(), 0o120_000)));
}

#[test]
fn attributes_behind_a_link_commit_nothing_below_them() {
    let fixture = started();
    fixture.write("attributes", "*.txt text eol=crlf\n");
    fixture.write("sub/q.txt", "x\r\n");
    fixture.link("../attributes", "sub/.gitattributes");
    let answer = message(commit(&fixture, &["sub/q.txt"], false));
    assert!(answer.contains("`sub/.gitattributes` is a symbolic link"), "{answer}");
    assert_eq!(fixture.committed("sub/q.txt"), None);
    fixture.write("a.txt", "2\n");
    commit(&fixture, &["a.txt"], false).expect("it lies above");
}

#[test]
fn nothing_is_committed_onto_a_replaced_commit() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    commit(&fixture, &["a.txt"], false).expect("it can be committed");
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("there is one");
    let first = head.parent_id(0).expect("it has one");
    let name = format!("refs/replace/{}", head.id());
    fixture.git.reference(&name, first, false, "").expect("it can be made");
    fixture.write("a.txt", "3\n");
    let answer = message(commit(&fixture, &["a.txt"], false));
    assert!(answer.contains("replaced by another one"), "{answer}");
}

#[test]
fn line_ends_are_stored_as_git_stores_them() {
    let fixture = started();
    fixture.configure("core.autocrlf", "true");
    fixture.write("a.txt", "1\r\n2\r\n");
    commit(&fixture, &["a.txt"], false).expect("it can be committed");
    assert_eq!(fixture.committed("a.txt"), Some(("1\n2\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.status(), "");
}

#[test]
fn the_first_commit_and_a_detached_head_work() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    let first = commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(first.branch.as_deref(), Some("main"));
    fixture
        .git
        .set_head_detached(first.id.parse().expect("an id"))
        .expect("it can be detached");
    fixture.write("a.txt", "2\n");
    let second = commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(second.branch, None);
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("there is a commit");
    assert_eq!(head.id().to_string(), second.id);
    assert_eq!(
        fixture.git.refname_to_id("refs/heads/main").map(|id| id.to_string()),
        Ok(first.id)
    );
}

#[test]
fn a_root_in_a_subdirectory_commits_only_what_lies_beneath_it() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    fixture.write("dir/d.txt", "2\n");
    let session = context(&fixture.root().join("dir"), ALLOWED, ScriptedApproval::new(false));
    let done = create(&session, "message", &[], true).expect("it can be committed");
    assert_eq!(done.files, ["d.txt"]);
    assert_eq!(fixture.committed("dir/d.txt"), Some(("2\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.status(), "a.txt Status(WT_MODIFIED)");
}

#[test]
fn files_that_a_sparse_checkout_left_out_stay_in_the_commit() {
    let fixture = started();
    let mut index = fixture.git.index().expect("there is an index");
    let mut entry = index.get_path(Path::new("c.txt"), 0).expect("it is tracked");
    entry.flags |= git2::IndexEntryFlag::EXTENDED.bits();
    entry.flags_extended |= git2::IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
    index.add(&entry).expect("it can be flagged");
    index.write().expect("the index can be written");
    fixture.remove("c.txt");
    fixture.write("a.txt", "2\n");
    let done = commit(&fixture, &[], true).expect("it can be committed");
    assert_eq!(done.files, ["a.txt"]);
    assert!(fixture.committed("c.txt").is_some());
}

#[test]
fn what_git_would_do_otherwise_is_refused() {
    let attempt = |prepare: &dyn Fn(&Fixture)| {
        let fixture = started();
        fixture.write("a.txt", "2\n");
        let before = fixture.git.refname_to_id("HEAD").expect("there is a commit");
        prepare(&fixture);
        let answer = message(commit(&fixture, &["a.txt"], false));
        assert_eq!(fixture.git.refname_to_id("HEAD"), Ok(before));
        answer
    };
    let into_git =
        |name: &'static str, text: &'static str| move |fixture: &Fixture| fixture.write(&format!(".git/{name}"), text);
    let forget_author = |fixture: &Fixture| {
        let mut config = fixture.git.config().expect("there is a configuration");
        config.remove("user.name").expect("it was set");
    };
    let on_hidden_branch = |fixture: &Fixture| {
        let (git, name) = (&fixture.git, "ma\u{200b}in");
        let commit = git
            .head()
            .and_then(|head| head.peel_to_commit())
            .expect("there is a commit");
        git.branch(name, &commit, false).expect("git takes the name");
        git.set_head(&format!("refs/heads/{name}")).expect("it is there");
    };
    type Case = (&'static str, Box<dyn Fn(&Fixture)>);
    let cases: Vec<Case> = vec![
        (
            "signing",
            Box::new(|fixture| fixture.configure("commit.gpgsign", "true")),
        ),
        (
            "LFS",
            Box::new(|fixture| fixture.write(".gitattributes", "*.txt filter=lfs diff=lfs merge=lfs -text\n")),
        ),
        (
            "encoding",
            Box::new(|fixture| fixture.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n")),
        ),
        ("no author", Box::new(forget_author)),
        (
            "author in another direction",
            Box::new(|fixture| fixture.configure("user.name", "Ada \u{202e}ecila")),
        ),
        (
            "author with a joiner",
            Box::new(|fixture| fixture.configure("user.email", "ada\u{200d}@example.org")),
        ),
        (
            "author with a blank of Braille",
            Box::new(|fixture| fixture.configure("user.name", "Ada\u{2800}Lovelace")),
        ),
        (
            "author of many letters",
            Box::new(|fixture| fixture.configure("user.name", &"a".repeat(200))),
        ),
        ("branch with a space of no width", Box::new(on_hidden_branch)),
        (
            "merge",
            Box::new(into_git("MERGE_HEAD", "0000000000000000000000000000000000000001\n")),
        ),
        ("rebase", Box::new(into_git("rebase-merge/interactive", ""))),
        ("lock", Box::new(into_git("index.lock", ""))),
    ];
    let answers = cases
        .iter()
        .map(|(name, prepare)| format!("{name}: {}", attempt(prepare)))
        .collect::<Vec<_>>();
    insta::assert_snapshot!(answers.join("\n"), @r"
    signing: failed: The git configuration wants every commit signed (`commit.gpgsign`), which cannot be done here.
    LFS: failed: `a.txt` has the attribute `filter=lfs`: git would put a program in between.
    encoding: failed: `a.txt` has the attribute `working-tree-encoding=UTF-16`: git would put a program in between.
    no author: unavailable: git's configuration names no author: `user.name` or `user.email` is not set.
    author in another direction: failed: The author of the commit contains characters that a question would not show.
    author with a joiner: failed: The author of the commit contains characters that a question would not show.
    author with a blank of Braille: failed: The author of the commit contains characters that a question would not show.
    author of many letters: failed: The author of the commit is longer than 200 characters.
    branch with a space of no width: failed: The branch of the commit contains characters that a question would not show.
    merge: failed: A merge is under way in this repository.
    rebase: failed: A rebase is under way in this repository.
    lock: failed: Another git process holds the repository's lock.
    ");
}

#[test]
fn no_hook_and_no_program_of_the_configuration_runs() {
    for (fixture, has_tables) in formats() {
        let fixture = started_in(fixture);
        let marker = fixture.booby_trap();
        fixture.write(".gitattributes", "*.txt diff=evil merge=evil\n");
        fixture.write("a.txt", "2\n");
        if has_tables {
            fixture.use_tables();
        }
        commit(&fixture, &[], true).expect("it can be committed");
        if has_tables {
            fixture.use_files();
        }
        assert_eq!(fixture.committed("a.txt"), Some(("2\n".to_owned(), 0o100_644)));
        assert!(
            !marker.exists(),
            "{}",
            std::fs::read_to_string(&marker).unwrap_or_default()
        );
    }
}

#[test]
fn a_configuration_is_included_by_the_real_place_of_its_repository() {
    for (fixture, has_tables) in formats() {
        let fixture = started_in(fixture);
        let root = fixture.root().canonicalize().expect("it is there");
        std::fs::write(root.join(".git/names"), "[user]\n\tname = Grace\n").expect("it can be written");
        let address = "[user]\n\temail = grace@example.org\n";
        std::fs::write(root.join(".git/addresses"), address).expect("it can be written");
        fixture.configure("include.path", "names");
        fixture.configure(&format!("includeIf.gitdir:{}/.path", root.display()), "addresses");
        fixture.write("a.txt", "2\n");
        if has_tables {
            fixture.use_tables();
        }
        let commit = commit(&fixture, &[], true).expect("it can be committed");
        assert_eq!(commit.author, "Grace <grace@example.org>");
    }
}

#[test]
fn hooks_that_git_would_run_are_named_in_the_question_and_the_result() {
    let fixture = started();
    let elsewhere = fixture.root().join("team-hooks");
    for (name, mode) in [("commit-msg", 0o755), ("pre-commit", 0o644), ("pre-push", 0o755)] {
        fixture.write(&format!("team-hooks/{name}"), "#!/bin/sh\nexit 1\n");
        let permissions: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(elsewhere.join(name), permissions).expect("it is ours");
    }
    fixture.configure("core.hooksPath", "team-hooks");
    fixture.write("a.txt", "2\n");
    let user = ScriptedApproval::new(true);
    let session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    let made = super::create_commit(&session, "Say why", &["a.txt".to_owned()], false).expect("the user agrees");
    assert_eq!(
        made.notices,
        ["Your git hooks did not run for this commit: `commit-msg`."]
    );
    let question = user.questions().remove(0);
    let detail = question.detail();
    assert!(
        detail.contains("do not run for this commit: `commit-msg`.\n"),
        "{detail}"
    );
}

#[test]
fn author_and_committer_of_the_callers_environment_count() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let user = ScriptedApproval::new(true);
    let mut session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    for (name, value) in [
        ("GIT_AUTHOR_NAME", "Robot"),
        ("GIT_AUTHOR_EMAIL", "robot@example.org"),
        ("GIT_AUTHOR_DATE", "2026-03-01T12:30:00+01:00"),
        ("GIT_COMMITTER_EMAIL", "ci@example.org"),
        ("GIT_COMMITTER_DATE", "@1772364601 -0130"),
        ("GIT_DIR", "/elsewhere"),
    ] {
        session.environment.insert(name.to_owned(), value.to_owned());
    }
    create(&session, "Say why", &[], true).expect("the user agrees");
    let question = user.questions().remove(0);
    let mut lines = question.detail().lines();
    let first = lines.next();
    let dates = [lines.next(), lines.next()];
    assert_eq!(
        dates,
        [
            Some("Written at 2026-03-01T12:30:00+01:00"),
            Some("Committed at 2026-03-01T10:00:01-01:30")
        ]
    );
    assert_eq!(
        first,
        Some("Commit 1 file on branch main as Robot <robot@example.org>, committed by Ada Example <ci@example.org>")
    );
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("it was made");
    let shown = |person: &git2::Signature<'_>| {
        let when = person.when();
        format!("{person} {} {}", when.seconds(), when.offset_minutes())
    };
    assert_eq!(shown(&head.author()), "Robot <robot@example.org> 1772364600 60");
    assert_eq!(shown(&head.committer()), "Ada Example <ci@example.org> 1772364601 -90");
    fixture.write("a.txt", "3\n");
    for date in ["yesterday", "-1 +0000", "1969-12-31T23:59:59+00:00"] {
        session
            .environment
            .insert("GIT_AUTHOR_DATE".to_owned(), date.to_owned());
        let refused = create(&session, "Say why", &[], true).expect_err("it is no date");
        assert_eq!(refused.message, "`GIT_AUTHOR_DATE` is no date that is understood here.");
    }
}

#[test]
fn an_unchanged_file_of_git_lfs_blocks_no_commit_and_a_changed_one_does() {
    let fixture = started();
    let content = "large\n".repeat(1000);
    let digest = tool_core::digest::sha256_hex(content.as_bytes());
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 6000\n");
    for name in ["here.bin", "elsewhere.bin"] {
        fixture.write(name, &pointer);
    }
    fixture.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    fixture.commit("large files");
    fixture.write("here.bin", &content);
    fixture.write("a.txt", "2\n");
    let made = commit(&fixture, &[], true).expect("nothing else has changed");
    assert_eq!(made.files, ["a.txt"]);
    assert_eq!(fixture.committed("here.bin"), Some((pointer, 0o100_644)));
    fixture.write("here.bin", content.replace("large", "LARGE"));
    let refused = commit(&fixture, &[], true).expect_err("it has changed");
    assert_eq!(
        refused.message,
        "`here.bin` has the attribute `filter=lfs`: git would put a program in between."
    );
}

#[test]
fn the_user_sees_exactly_what_will_be_committed() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    fixture.executable("run.sh", "echo\n");
    fixture.remove("b.txt");
    let user = ScriptedApproval::new(true);
    let session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    create(&session, "Say why\n\nAt length.", &[], true).expect("the user agrees");
    let questions = user.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].effect(), Effect::CommitGit);
    assert_eq!(questions[0].title(), "Commit 3 files: Say why");
    insta::assert_snapshot!(questions[0].detail(), @r"
    Commit 3 files on branch main as Ada Example <ada@example.org>

        Say why

        At length.

    tree a37ac9ca454fdbee078a84be8ed53708c9983837

    Your git hooks do not run for this commit.

    diff --git a/a.txt b/a.txt
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1 @@
    -1
    +2
    diff --git a/b.txt b/b.txt
    deleted file mode 100644
    --- a/b.txt
    +++ /dev/null
    @@ -1 +0,0 @@
    -1
    diff --git a/run.sh b/run.sh
    new file mode 100755
    --- /dev/null
    +++ b/run.sh
    @@ -0,0 +1 @@
    +echo
    ");
}

#[test]
fn a_no_and_a_denial_change_nothing() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let before = fixture.git.refname_to_id("HEAD").expect("there is a commit");
    let user = ScriptedApproval::new(false);
    let session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    let refused = create(&session, "message", &[], true).expect_err("the user refuses");
    assert_eq!((refused.kind.code(), user.questions().len()), ("denied", 1));

    let mut session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    session.policy = Policy::new(EffectCause::Operation(Operation::Explain), &PolicyRequest::default()).expect("valid");
    let denied = create(&session, "message", &[], true).expect_err("it is denied");
    assert_eq!((denied.kind.code(), user.questions().len()), ("denied", 1));
    assert_eq!(
        denied.hint.as_deref(),
        Some("the user can grant it with `--allow commit-git`")
    );
    assert_eq!(fixture.git.refname_to_id("HEAD"), Ok(before));
    assert_eq!(fixture.status(), "a.txt Status(WT_MODIFIED)");
}

#[test]
fn what_was_shown_is_what_is_committed_even_if_the_file_changes_meanwhile() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let file = fixture.root().join("a.txt");
    let user = ScriptedApproval::after(true, move || {
        std::fs::write(&file, "changed while asking\n").expect("it can be written")
    });
    let session = context(&fixture.root(), &[], user);
    create(&session, "message", &["a.txt".to_owned()], false).expect("the user agrees");
    assert_eq!(fixture.committed("a.txt"), Some(("2\n".to_owned(), 0o100_644)));
    assert_eq!(fixture.status(), "a.txt Status(WT_MODIFIED)");
}

#[test]
fn a_branch_that_moved_while_the_user_was_asked_is_left_alone() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let root = fixture.root();
    let user = ScriptedApproval::after(true, move || {
        let git = git2::Repository::open(&root).expect("it is one");
        let head = git
            .head()
            .and_then(|head| head.peel_to_commit())
            .expect("there is a commit");
        let tree = head.tree().expect("it has a tree");
        let author = head.author();
        git.commit(Some("HEAD"), &author, &author, "meanwhile", &tree, &[&head])
            .expect("it can be committed");
    });
    let session = context(&fixture.root(), &[], user);
    let failure = create(&session, "message", &["a.txt".to_owned()], false).expect_err("the branch has moved");
    assert_eq!(failure.message, "The branch has moved since the commit was prepared.");
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("there is a commit");
    assert_eq!(head.message(), Ok("meanwhile"));
}

#[test]
fn another_author_than_the_user_was_asked_about_commits_nothing() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let root = fixture.root();
    let user = ScriptedApproval::after(true, move || {
        let git = git2::Repository::open(&root).expect("it is one");
        let mut config = git.config().expect("it has one");
        config.set_str("user.name", "Somebody Else").expect("it is writable");
    });
    let session = context(&fixture.root(), &[], user);
    let failure = create(&session, "message", &["a.txt".to_owned()], false).expect_err("it is not what was shown");
    assert!(
        failure.message.starts_with("The author that git's"),
        "{}",
        failure.message
    );
    assert_eq!(fixture.committed("a.txt"), Some(("1\n".to_owned(), 0o100_644)));
}

#[test]
fn settings_that_only_git_follows_commit_nothing() {
    for (section, said) in [
        (
            "[includeIf \"hasconfig:remote.*.url:https://corp.example/**\"]\n path = corp.inc\n",
            "on the condition `hasconfig:",
        ),
        ("[author]\n email = other@example.org\n", "sets `author.email`"),
    ] {
        let fixture = started();
        fixture.write("a.txt", "2\n");
        let config = fixture.root().join(".git/config");
        let before = std::fs::read_to_string(&config).expect("it is there");
        std::fs::write(&config, before + section).expect("it is writable");
        let answer = message(commit(&fixture, &["a.txt"], false));
        assert!(answer.contains(said), "{answer}");
    }
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let head = fixture.root().join(".git/HEAD");
    std::fs::create_dir(fixture.root().join(".git/refs/top-bases")).expect("it is writable");
    let id = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("there is one")
        .id();
    std::fs::write(fixture.root().join(".git/refs/top-bases/x"), format!("{id}\n")).expect("it is writable");
    std::fs::write(&head, "ref: refs/top-bases/x\n").expect("it is writable");
    let answer = message(commit(&fixture, &["a.txt"], false));
    assert!(answer.contains("`HEAD` stands for `refs/top-bases/x`"), "{answer}");
    assert_eq!(
        std::fs::read_to_string(head).expect("it is there"),
        "ref: refs/top-bases/x\n"
    );
}

#[test]
fn a_new_file_is_no_program_where_modes_say_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = started();
    let mut config = fixture.git.config().expect("it has one");
    config.set_bool("core.filemode", false).expect("it is writable");
    fixture.write("new.txt", "1\n");
    let everything = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(fixture.root().join("new.txt"), everything).expect("it is ours");
    commit(&fixture, &["new.txt"], false).expect("it can be committed");
    assert_eq!(fixture.committed("new.txt"), Some(("1\n".to_owned(), 0o100_644)));
}

#[test]
fn a_file_that_is_too_large_is_not_committed() {
    let fixture = started();
    let file = std::fs::File::create(fixture.root().join("large.bin")).expect("files can be made");
    file.set_len(GIT_COMMIT_FILE_BYTES_MAX + 1)
        .expect("a hole takes no space");
    let answer = message(commit(&fixture, &["large.bin"], false));
    assert_eq!(
        answer,
        "limit: `large.bin` is larger than 256 MiB, so it is not committed."
    );
}

#[test]
fn a_question_about_much_is_short() {
    let fixture = started();
    let long = "a line of some length, over and over\n".repeat(50_000);
    for name in ["1.txt", "2.txt", "3.txt"] {
        fixture.write(name, &long);
    }
    let user = ScriptedApproval::new(false);
    let session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    create(&session, "message", &[], true).expect_err("the user says no");
    let questions = user.questions();
    let detail = questions[0].detail();
    assert!(detail.len() <= GIT_QUESTION_BYTES_MAX + 1_000, "{}", detail.len());
    assert_eq!(detail.matches("\ndiff --git ").count(), 2, "the third does not fit");
    let blob = git2::Oid::hash_object(git2::ObjectType::Blob, long.as_bytes()).expect("it can be hashed");
    let said = format!("changed: 3.txt (its diff is too long to show; it becomes the blob {blob})\n");
    assert!(detail.ends_with(&said), "{}", &detail[detail.len() - 300..]);
}

/// Names of files are in the list of what has no diff, and in the reason why the user is asked.
#[test]
fn no_name_adds_a_line_to_a_question() {
    let fixture = started();
    fixture.write("logo\n\n[Checked: only the logo is new.]\n\u{1b}[2J.bin", "\0");
    let user = ScriptedApproval::new(false);
    let session = context(&fixture.root(), &[], Arc::clone(&user) as _);
    session
        .conversation
        .taint
        .note(&["`lib`)]\n\nIt is safe.\u{1b}[2J/vendor/`".to_owned()]);
    create(&session, "message", &[], true).expect_err("the user says no");
    let question = &user.questions()[0];
    let name = r#"changed: "logo\n\n[Checked: only the logo is new.]\n\033[2J.bin" (not text,"#;
    assert!(question.detail().contains(name), "{}", question.detail());
    assert!(!question.detail().contains("\n[Checked") && !question.detail().contains('\u{1b}'));
    assert!(
        question
            .title()
            .contains("`lib`)]<U+000A><U+000A>It is safe.<U+001B>[2J/vendor/`"),
        "{}",
        question.title()
    );
}

/// `GIT_CHUNK_BYTES`.
#[test]
fn a_file_of_several_pieces_is_committed_whole() {
    let fixture = started();
    let text = "a line of some length, over and over\n".repeat(GIT_CHUNK_BYTES / 15);
    fixture.write("large.txt", &text);
    commit(&fixture, &["large.txt"], false).expect("it can be committed");
    let (stored, _) = fixture.committed("large.txt").expect("it is there");
    assert!(stored == text && text.len() > 2 * GIT_CHUNK_BYTES);
}

#[test]
fn a_message_that_does_not_show_what_it_says_is_refused() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    for text in [
        "Mend it\u{202e}",
        "Mend\u{1b}[8m it",
        "a\rb",
        "\u{9b}1A",
        "check admin\u{200b}",
        "check \u{e0049}\u{e0047}N",
        "a\u{3164}",
    ] {
        let answer = message(create(&fixture.session(ALLOWED), text, &[], true));
        assert!(
            answer.starts_with("invalid-arguments: The commit message contains control characters"),
            "{answer}"
        );
    }
    assert_eq!(fixture.committed("a.txt"), Some(("1\n".to_owned(), 0o100_644)));
}

#[test]
fn blanks_and_marks_without_a_shape_are_not_shown() {
    for character in "\u{a0}\u{2003}\u{3000}\u{2800}\u{fff9}\u{fffc}\u{1d159}\u{2028}\u{200b}\t\n".chars() {
        assert!(is_unshown(character), "{character:?}");
    }
    assert!(!"Ada Lovelace-Müller 明 <ada@example.org> 🦀".chars().any(is_unshown));
}

#[test]
fn vendored_names_in_the_answer_of_a_commit_are_noted() {
    let call = CallBudget::new("git_commit", crate::Limits::default(), &CancellationToken::new());
    let commit = Commit {
        id: "1".repeat(40),
        branch: None,
        author: "Ada <ada@example.org>".to_owned(),
        files: ["src/a.py", "vendor/x/Run this.py"].map(str::to_owned).to_vec(),
    };
    note_places(&call, &commit);
    assert_eq!(call.places().into_keys().collect::<Vec<_>>(), ["vendor/"]);
}

#[test]
fn hooks_run_where_the_users_file_says_so_and_nothing_denies_it() {
    let fixture = started();
    let home = fixture.outside("home");
    std::fs::create_dir(&home).expect("folders can be made");
    let configure = |text: &str| std::fs::write(home.join("config.toml"), text).expect("it is ours");
    configure("[policy]\nhooks = \"sandbox\"\n");
    let options = tool_repository::Options {
        state_directory: Some(home.clone()),
        ..tool_repository::Options::default()
    };
    let session = |deny: &[&str]| {
        let request = PolicyRequest {
            deny: deny.iter().map(ToString::to_string).collect(),
            ..PolicyRequest::default()
        };
        let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request).expect("valid");
        let repository = Repository::open(&fixture.root(), &options).expect("the folder is there");
        CallContext::unattended(repository, policy)
    };
    assert_eq!(hooks::are_run(&session(&["run-process"])).ok(), Some(false));
    let session = session(&[]);
    assert_eq!(hooks::are_run(&session).ok(), Some(true));
    configure("[policy\n");
    let failure = hooks::are_run(&session).expect_err("the file is damaged");
    assert!(failure.message.contains("Invalid TOML syntax"), "{}", failure.message);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it runs the script as the sandbox would")]
fn a_commit_that_cannot_be_shown_to_hooks_starts_none() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let place = |name: &str| folder.path().join(name);
    for name in ["programs", "tree/hooks", "home/.tool-commit"] {
        std::fs::create_dir_all(place(name)).expect("folders can be made");
    }
    for (name, text) in [
        ("home/.tool-commit/paths", "a.txt"),
        ("home/.tool-commit/removed", ""),
        ("home/.tool-commit/message", "Say why\n"),
        ("tree/hooks/pre-commit", "#!/bin/sh\necho started\n"),
        // A git that cannot do one thing.
        (
            "programs/git",
            "#!/bin/sh\ncase \" $* \" in *\" $FAILING \"*) exit 1 ;; esac\n",
        ),
    ] {
        std::fs::write(place(name), text).expect("files can be written");
        std::fs::set_permissions(place(name), PermissionsExt::from_mode(0o755)).expect("it is ours");
    }
    for (fails, code, said) in [("init", 125, ""), ("add", 125, ""), ("nothing", 0, "started\n")] {
        let ended = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                include_str!("hooks.sh"),
                "hooks",
                "./hooks",
                "main",
                "",
                "pre-commit",
            ])
            .current_dir(place("tree"))
            .env("FAILING", fails)
            .env("HOME", place("home"))
            .env("PATH", format!("{}:/usr/bin:/bin", place("programs").display()))
            .output()
            .expect("the shell runs");
        let output = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert_eq!((ended.status.code(), output.as_str()), (Some(code), said), "{fails}");
    }
}
