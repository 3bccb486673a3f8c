//! Hooks of git at a commit, in the sandbox where the user's file says so: those that pass, refuse, hang, change something,
//! and reach out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;

use super::{processes, uuid};
use crate::support::{Home, folder, git, holds, until};

const SANDBOX: &str = "[providers.local]\nenabled = true\nurl = \"builtin:analyst\"\n[policy]\nhooks = \"sandbox\"\n";

/// A repository with one commit, in which `a.txt` has changed since, and these hooks.
struct Hooked {
    folder: TempDir,
    home: Home,
}

impl Hooked {
    fn new(hooks: &[(&str, &str)]) -> Self {
        Self::in_folder(".git/hooks", hooks)
    }

    fn in_folder(place: &str, hooks: &[(&str, &str)]) -> Self {
        let folder = folder(&[("a.txt", "old\n"), ("b.txt", "b\n"), (".env", "KEY=hunter2\n")]);
        let root = folder.path();
        git(root, &["init", "--quiet", "--initial-branch=main"]);
        git(root, &["add", "."]);
        git(root, &["commit", "--quiet", "--message", "begin"]);
        for (key, value) in [("name", "Ada"), ("email", "ada@example.org")] {
            git(root, &["config", &format!("user.{key}"), value]);
        }
        fs::create_dir_all(root.join(place)).expect("it is ours");
        for (name, script) in hooks {
            let hook = root.join(place).join(name);
            fs::write(&hook, format!("#!/bin/sh\n{script}\n")).expect("it is ours");
            fs::set_permissions(hook, PermissionsExt::from_mode(0o755)).expect("it is ours");
        }
        fs::write(root.join("a.txt"), "new\n").expect("it is ours");
        Self {
            folder,
            home: Home::configured(SANDBOX),
        }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    const COMMIT: [&str; 6] = [
        "skill",
        "call",
        "git_commit",
        r#"{"message": "Change a", "paths": ["a.txt"]}"#,
        "--allow",
        "commit-git",
    ];

    #[track_caller]
    fn commit(&self, code: i32) -> String {
        let done = self.home.run(self.root(), &Self::COMMIT).expect(code);
        done.stdout + &done.stderr
    }

    fn message(&self) -> String {
        git(self.root(), &["log", "-1", "--format=%B"]).trim_end().to_owned()
    }
}

#[test]
fn hooks_see_the_commit_as_git_shows_it_to_them() {
    let see = "set -e\n\
               test \"$(git diff --cached --name-only)\" = a.txt\n\
               git diff --cached | grep -q '^-old$'\n\
               git diff --cached | grep -q '^+new$'\n\
               test \"$(git symbolic-ref --short HEAD)\" = main\n\
               test \"$(git rev-parse --show-toplevel)\" = \"$PWD\"\n\
               test \"$GIT_AUTHOR_NAME <$GIT_AUTHOR_EMAIL>\" = 'Ada <ada@example.org>'\n\
               test -f b.txt\n\
               . \"$(dirname \"$0\")/shared\"";
    let hooked = Hooked::new(&[
        ("pre-commit", see),
        ("shared", "test -n \"$PWD\""),
        (
            "prepare-commit-msg",
            "test \"$2\" = message && sed -i '1s/^/[main] /' \"$1\"",
        ),
        (
            "commit-msg",
            "grep -q '^\\[main\\] Change a$' \"$1\" && echo 'Reviewed-by: Hook' >>\"$1\"",
        ),
        (
            "post-commit",
            "git log -1 --format=%s | grep -q '^\\[main\\] Change a' && exit 4",
        ),
    ]);
    let said = hooked.commit(0);
    holds(
        &said,
        &[
            "These git hooks ran in the sandbox and passed: `pre-commit`, `prepare-commit-msg`, `commit-msg`.",
            "They changed the commit message.",
            "The git hook `post-commit` ended with exit code 4; the commit stays.",
        ],
    );
    assert_eq!(hooked.message(), "[main] Change a\nReviewed-by: Hook");
    assert_eq!(git(hooked.root(), &["status", "--porcelain"]), "");
}

#[test]
fn a_hook_that_fails_refuses_the_commit_with_its_output() {
    let hooked = Hooked::new(&[
        ("pre-commit", ""),
        ("commit-msg", "echo 'no ticket in:'; cat \"$1\"; exit 3"),
    ]);
    let said = hooked.commit(1);
    holds(
        &said,
        &[
            "The git hook `commit-msg` ended with exit code 3, so nothing was committed.",
            "no ticket in:\n  Change a\n",
        ],
    );
    assert_eq!(hooked.message(), "begin");
    fs::write(
        hooked.home.path().join("config.toml"),
        SANDBOX.replace("sandbox", "none"),
    )
    .expect("it is ours");
    let said = hooked.commit(0);
    holds(
        &said,
        &["Your git hooks did not run for this commit: `pre-commit`, `commit-msg`."],
    );
}

#[test]
fn what_a_hook_changes_in_the_tree_is_dropped_and_named() {
    let change = "echo formatted >a.txt; git add a.txt; rm b.txt; echo x >made.txt";
    let hooked = Hooked::in_folder("tools/hooks", &[("pre-commit", change), ("post-index-change", "")]);
    git(hooked.root(), &["config", "core.hooksPath", "tools/hooks"]);
    let said = hooked.commit(0);
    holds(
        &said,
        &[
            "Their changes in the tree are dropped: `a.txt`, `b.txt`, `made.txt`.",
            "Your git hooks did not run for this commit: `post-index-change`.",
        ],
    );
    assert_eq!(git(hooked.root(), &["show", "HEAD:a.txt"]), "new\n");
    assert!(hooked.root().join("b.txt").exists() && !hooked.root().join("made.txt").exists());
}

#[test]
fn a_hook_reaches_nothing_but_a_private_copy_of_the_visible_tree() {
    let outside = TempDir::new().expect("a folder");
    let attempts = [
        format!("echo x >{}/escaped", outside.path().display()),
        "test -e .env".to_owned(),
        "git cat-file -p HEAD:.env".to_owned(),
        "test -e .git/hooks/hidden -o -e .git/hooks/settings".to_owned(),
        "git log -1 --format=%s | grep begin".to_owned(),
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), timeout=2)'".to_owned(),
    ];
    let attempts = attempts.map(|attempt| format!("if {attempt}; then exit 9; fi\n"));
    let changes = "git config user.name Eve; echo exit 1 >.git/hooks/commit-msg";
    let hooked = Hooked::new(&[("pre-commit", &(attempts.concat() + changes))]);
    for (target, link) in [("../../.env", "hidden"), ("../config", "settings")] {
        std::os::unix::fs::symlink(target, hooked.root().join(".git/hooks").join(link)).expect("it is ours");
    }
    hooked.commit(0);
    assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 0);
    assert_eq!(git(hooked.root(), &["config", "user.name"]).trim_end(), "Ada");
    assert!(!hooked.root().join(".git/hooks/commit-msg").exists());
}

#[test]
fn a_folder_of_hooks_outside_of_the_repository_does_not_run() {
    let hooked = Hooked::in_folder(".git/hooks", &[]);
    let outside = TempDir::new().expect("a folder");
    let hook: PathBuf = outside.path().join("pre-commit");
    fs::write(&hook, "#!/bin/sh\nexit 1\n").expect("it is ours");
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let place = outside.path().display().to_string();
    git(hooked.root(), &["config", "core.hooksPath", &place]);
    holds(
        &hooked.commit(0),
        &["Your git hooks did not run for this commit: `pre-commit`."],
    );
    let own = hooked.root().join(".git/hooks");
    fs::remove_dir_all(&own).expect("it is ours");
    std::os::unix::fs::symlink(outside.path(), own).expect("it is ours");
    git(hooked.root(), &["config", "--unset", "core.hooksPath"]);
    fs::write(hooked.root().join("a.txt"), "newer\n").expect("it is ours");
    holds(
        &hooked.commit(0),
        &["Your git hooks did not run for this commit: `pre-commit`."],
    );
}

#[test]
fn a_hook_that_hangs_ends_with_its_call() {
    let mark = format!("endless-{}", uuid());
    let hooked = Hooked::new(&[("pre-commit", &format!("sh -c 'sleep 600; : {mark}'"))]);
    hooked.home.serve();
    let mut command = hooked.home.tool(hooked.root(), &Hooked::COMMIT);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    until("the hook runs", || !processes(&mark).is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    until("everything is gone", || processes(&mark).is_empty());
    child.wait().expect("it ends as well");
    assert_eq!(hooked.message(), "begin");
}

#[test]
fn a_branch_that_moves_while_hooks_run_is_left_alone() {
    let mark = format!("slow-{}", uuid());
    let hooked = Hooked::new(&[("pre-commit", &format!("sh -c 'sleep 5; : {mark}'"))]);
    hooked.home.serve();
    let child = hooked
        .home
        .tool(hooked.root(), &Hooked::COMMIT)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    until("the hook runs", || !processes(&mark).is_empty());
    fs::write(hooked.root().join("b.txt"), "the user's\n").expect("it is ours");
    let skip = "core.hooksPath=/dev/null";
    git(
        hooked.root(),
        &["-c", skip, "commit", "--quiet", "--message", "meanwhile", "b.txt"],
    );
    let done = child.wait_with_output().expect("it ends");
    let said = [done.stdout, done.stderr].concat();
    holds(
        &String::from_utf8_lossy(&said),
        &["The branch has moved since the commit was prepared."],
    );
    assert_eq!(hooked.message(), "meanwhile");
    assert_eq!(git(hooked.root(), &["show", "HEAD:b.txt"]), "the user's\n");
}

#[test]
fn hooks_see_a_folder_that_became_a_link() {
    let hooked = Hooked::new(&[("pre-commit", "git diff --cached --name-only | grep -qx c")]);
    let folder = hooked.root().join("c");
    fs::create_dir(&folder).expect("it is ours");
    fs::write(folder.join("d.txt"), "d\n").expect("it is ours");
    git(hooked.root(), &["add", "c"]);
    git(
        hooked.root(),
        &[
            "-c",
            "core.hooksPath=/dev/null",
            "commit",
            "--quiet",
            "--message",
            "c",
            "c",
        ],
    );
    fs::remove_dir_all(&folder).expect("it is ours");
    std::os::unix::fs::symlink("b.txt", folder).expect("it is ours");
    let call = r#"{"message": "Link c", "all": true}"#;
    let call = ["skill", "call", "git_commit", call, "--allow", "commit-git"];
    hooked.home.run(hooked.root(), &call).expect(0);
    assert_eq!(hooked.message(), "Link c");
}
