//! Refactor, diff, commit, undo and history in each kind of repository, with git's own output beside ours: headless and
//! at a terminal.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{Round, ScriptedCall};

use crate::providers::scripted;
use crate::support::{Finished, Home, git, holds, say, until};
use crate::terminal::on_terminal;

/// A kind of repository: shell commands that make it in an empty folder, with its work tree at `root`.
struct RepositoryKind {
    name: &'static str,
    /// The first version of git that can make it.
    needs: (u32, u32),
    setup: &'static str,
}

/// Kinds that are tried at the same time.
const KINDS_AT_ONCE: usize = 4;

/// Makes a repository with a history in the folder of that name; further arguments are git's.
const MAKE: &str = "
set -e
git() { command git -c protocol.file.allow=always -c user.name=Ada -c user.email=ada@example.org \"$@\"; }
make() {
    place=$1; shift
    git init -q -b main \"$@\" $place
    (
        cd $place; mkdir shop other
        git config uploadpack.allowFilter true
        echo 'VALUE = 1' | tee shop/a.py shop/b.py shop/c.py > other/d.py
        git add .; git commit -qm begin
        for round in 1 2 3; do
            echo \"VALUE = 1$round\" > shop/b.py
            git commit -qam 'round the coupon to whole cents'
        done
        git tag -a -m first v1
    )
}
";

const KINDS: [RepositoryKind; 12] = [
    RepositoryKind::new("plain", "make root"),
    RepositoryKind::new(
        "linked worktree",
        "make main; git -C main worktree add -q ../root -b feature",
    ),
    RepositoryKind::new(
        "submodule",
        "make lib; make top; git -C top submodule -q add ../lib lib; git -C top commit -qm lib
         git -C top/lib checkout -q main; ln -s top/lib root",
    ),
    RepositoryKind::new(
        "submodule of a submodule",
        "make lib; make middle; git -C middle submodule -q add ../lib lib; git -C middle commit -qm lib
         make top; git -C top submodule -q add ../middle middle; git -C top commit -qm middle
         git -C top submodule -q update --init --recursive
         git -C top/middle/lib checkout -q main; ln -s top/middle/lib root",
    ),
    RepositoryKind::new("SHA-256", "make root --object-format=sha256").since(2, 29),
    RepositoryKind::new(
        "SHA-256, packed, in a linked worktree",
        "make main --object-format=sha256
         git -C main gc -q; git -C main commit-graph write --reachable; git -C main repack -dq --write-midx
         git -C main worktree add -q ../root -b feature",
    )
    .since(2, 34),
    RepositoryKind::new("reftable", "make root --ref-format=reftable").since(2, 45),
    RepositoryKind::new(
        "reftable in a linked worktree",
        "make main --ref-format=reftable; git -C main worktree add -q ../root -b feature",
    )
    .since(2, 45),
    RepositoryKind::new(
        "reftable and SHA-256, packed, on a detached head",
        "make root --ref-format=reftable --object-format=sha256; git -C root gc -q; git -C root checkout -q --detach",
    )
    .since(2, 45),
    RepositoryKind::new(
        "sparse clone",
        "make main; git clone -q --sparse \"file://$PWD/main\" root; git -C root sparse-checkout set shop",
    )
    .since(2, 25),
    RepositoryKind::new(
        "partial clone",
        "make main; git clone -q --filter=blob:none \"file://$PWD/main\" root",
    )
    .since(2, 22),
    RepositoryKind::new(
        "partial clone in a linked worktree",
        "make main; git clone -q --filter=blob:none \"file://$PWD/main\" clone
         git -C clone worktree add -q ../root -b feature",
    )
    .since(2, 22),
];

impl RepositoryKind {
    const fn new(name: &'static str, setup: &'static str) -> Self {
        Self {
            name,
            needs: (2, 20),
            setup,
        }
    }

    const fn since(self, major: u32, minor: u32) -> Self {
        let needs = (major, minor);
        Self { needs, ..self }
    }
}

/// The version of the machine's git.
fn git_version() -> (u32, u32) {
    let text = git(Path::new("/"), &["version"]);
    let numbers = text.split(['.', ' ']).filter_map(|part| part.trim().parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    (numbers[0], numbers[1])
}

/// A repository of a kind, and a home whose model renames a value twice.
struct Place {
    _folder: TempDir,
    root: PathBuf,
    home: Home,
    _server: tool_model_server::ModelServer,
}

impl Place {
    #[expect(clippy::disallowed_methods, reason = "a shell makes the repositories of this table")]
    fn new(kind: &RepositoryKind) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let made = Command::new("sh")
            .args(["-c", &format!("{MAKE}{}", kind.setup)])
            .current_dir(folder.path())
            .output()
            .expect("there is a shell");
        assert!(made.status.success(), "{}: {made:?}", kind.name);
        let root = folder.path().join("root").canonicalize().expect("it was made");
        git(&root, &["config", "user.name", "Ada"]);
        git(&root, &["config", "user.email", "ada@example.org"]);
        let edit = |old: &str, new: &str| {
            let edits = json!([{"old": old, "new": new}]);
            let read = ScriptedCall::new("read_file", json!({"path": "shop/a.py"}));
            let edit = ScriptedCall::new("write_file", json!({"path": "shop/a.py", "edits": edits}));
            [Round::calls([read]), Round::calls([edit]), Round::text("Done.")]
        };
        let rounds = [edit("VALUE = 1", "VALUE = 2"), edit("VALUE = 2", "VALUE = 3")].concat();
        let (server, home) = scripted(rounds);
        Self {
            _folder: folder,
            root,
            home,
            _server: server,
        }
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.root, arguments)
    }

    fn diff(&self, arguments: &Value) -> String {
        let call = ["skill", "call", "git_diff", &arguments.to_string()];
        self.home.run(&self.root, &call).expect(0).stdout
    }

    fn refactor(&self) {
        let refactor = [
            "refactor",
            "raise the value",
            "--focus",
            "shop/a.py",
            "--deny",
            "run-process",
        ];
        self.home.run(&self.root, &refactor).expect(0);
    }

    fn commit(&self, run: impl FnOnce(&[&str]) -> Finished, message: &str, flags: &[&str]) {
        let arguments = json!({"message": message, "all": true}).to_string();
        let call = ["skill", "call", "git_commit", &arguments];
        run(&[call.as_slice(), flags].concat()).expect(0);
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        assert_eq!(
            self.git(&["log", "-1", "--format=%s by %an"]),
            format!("{message} by Ada\n")
        );
        assert_eq!(
            self.git(&["log", "-1", "-g", "--format=%H %gs by %gn"]),
            format!("{} commit: {message} by Ada\n", self.git(&["rev-parse", "HEAD"]).trim())
        );
        self.git(&["fsck", "--strict"]);
    }
}

/// Added and removed lines.
fn changed(patch: &str) -> Vec<&str> {
    let is_change = |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---");
    patch.lines().map(str::trim_end).filter(is_change).collect()
}

fn check(kind: &RepositoryKind) {
    let place = Place::new(kind);
    let root = &place.root;
    assert_eq!(
        place.diff(&json!({})).trim_end(),
        "No uncommitted changes.",
        "{}",
        kind.name
    );

    // The history: as git has it, and in the selection.
    let log = place.diff(&json!({"mode": "log"}));
    let lines = place.git(&["log", "--format=%h %an: %s", "--abbrev=10"]);
    for line in lines.lines() {
        let (id, words) = line.split_once(' ').expect("two parts");
        holds(&log, &[id, words]);
    }
    let head = place.git(&["rev-parse", "HEAD"]);
    let show = json!({"mode": "show", "revision": "v1"});
    if kind.name.starts_with("partial") {
        let call = ["skill", "call", "git_diff", &show.to_string()];
        let lacking = place.home.run(root, &call).expect(1);
        holds(
            &lacking.stderr,
            &["git lacks an object that this needs", "the user can fetch it with git"],
        );
        place.git(&["show", "v1"]);
        place.git(&["blame", "shop/b.py"]);
    }
    holds(&place.diff(&show), &[&head[..10], "+VALUE = 13", "-VALUE = 12"]);
    holds(
        &place.diff(&json!({"mode": "blame", "paths": ["shop/b.py"]})),
        &[&head[..8], "VALUE = 13"],
    );
    let like = format!("changed in 3 commits like this one, last in {}", &head[..10]);
    until("the commits count", || {
        let task = "a coupon is not rounded to cents";
        let shown = place.home.run(root, &["context", "--json", task]).expect(0).stdout;
        shown.contains(&like)
    });

    // Headless.
    place.refactor();
    assert_eq!(
        changed(&place.diff(&json!({}))),
        changed(&place.git(&["diff"])),
        "{}",
        kind.name
    );
    let common = place.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let flags = ["--allow", "commit-git", "--allow-path", common.trim()];
    place.commit(|call| place.home.run(root, call), "Raise the value", &flags);
    place.refactor();
    place.home.run(root, &["undo"]).expect(0);
    assert_eq!(place.git(&["status", "--porcelain"]), "", "{}", kind.name);

    // At a terminal, with a question.
    for name in ["shop/c.py", "shop/announced.py"] {
        std::fs::write(root.join(name), "VALUE = 5\n").expect("it is writable");
    }
    place.git(&["add", "--intent-to-add", "shop/announced.py"]);
    let shown = on_terminal(&place.home, root, 200, &["skill", "call", "git_diff", "{}"], &[]).expect(0);
    assert_eq!(changed(&shown.stdout), changed(&place.git(&["diff"])), "{}", kind.name);
    let yes = [("REPLY", "y")];
    let flags = ["--allow-path", common.trim()];
    place.commit(|call| on_terminal(&place.home, root, 200, call, &yes), "Five", &flags);
    place.git(&["gc", "--quiet"]);
}

#[test]
fn git_functions_work_in_each_kind_of_repository_that_the_machines_git_can_make() {
    let version = git_version();
    let (made, other): (Vec<&RepositoryKind>, Vec<&RepositoryKind>) =
        KINDS.iter().partition(|kind| kind.needs <= version);
    for kind in other {
        let (major, minor) = kind.needs;
        say(&format!(
            "{}: made by git {major}.{minor} or newer, and this one is {version:?}",
            kind.name
        ));
    }
    for kinds in made.chunks(KINDS_AT_ONCE) {
        std::thread::scope(|scope| {
            for kind in kinds {
                scope.spawn(|| check(kind));
            }
        });
    }
}
