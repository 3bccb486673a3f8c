//! Submodules, with git's own output beside ours.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Home, folder, git, holds};

/// A repository with the submodule `lib`, both with one commit by Ada.
struct Shop {
    _folder: TempDir,
    root: PathBuf,
    home: Home,
}

impl Shop {
    fn new() -> Self {
        let folder = folder(&[
            ("lib/helper.py", "def help():\n    return 1\n"),
            ("shop/app.py", "import lib\n"),
        ]);
        let root = folder.path().join("shop");
        for place in ["lib", "shop"] {
            let place = folder.path().join(place);
            git(&place, &["init", "--quiet", "--initial-branch=main"]);
            git(&place, &["add", "."]);
            git(&place, &["commit", "--quiet", "--message", "begin"]);
        }
        git(
            &root,
            &[
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "--quiet",
                "add",
                "../lib",
                "lib",
            ],
        );
        git(&root, &["commit", "--quiet", "--message", "add lib"]);
        for place in [&root, &root.join("lib")] {
            git(place, &["config", "user.name", "Ada"]);
            git(place, &["config", "user.email", "ada@example.org"]);
        }
        Self {
            _folder: folder,
            root,
            home: Home::offline(),
        }
    }

    fn diff(&self, root: &Path, arguments: &Value) -> String {
        let call = ["skill", "call", "git_diff", &arguments.to_string()];
        self.home.run(root, &call).expect(0).stdout
    }

    fn commit(&self, arguments: &Value, code: i32) -> String {
        let call = [
            "skill",
            "call",
            "git_commit",
            &arguments.to_string(),
            "--allow",
            "commit-git",
        ];
        let done = self.home.run(&self.root, &call).expect(code);
        done.stdout + &done.stderr
    }

    fn status(&self) -> String {
        git(&self.root, &["status", "--porcelain"])
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root.join(path), text).expect("it is writable");
    }
}

/// The lines of git's diff that name the commits of a submodule.
fn pointers(root: &Path) -> Vec<String> {
    let diff = git(root, &["diff"]);
    let is_pointer = |line: &&str| line.contains("Subproject commit");
    diff.lines().filter(is_pointer).map(str::to_owned).collect()
}

fn holds_all(text: &str, lines: &[String]) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    holds(text, &lines);
}

#[test]
fn a_submodule_is_shown_as_git_shows_it_and_its_own_changes_on_request() {
    let shop = Shop::new();
    let root = &shop.root;
    assert_eq!(shop.diff(root, &json!({})).trim_end(), "No uncommitted changes.");
    shop.write("lib/helper.py", "def help():\n    return 2\n");
    assert_eq!(shop.status(), " M lib\n");
    let shown = shop.diff(root, &json!({}));
    holds(
        &shown,
        &[
            "=== lib (unstaged, modified, +1 -1)",
            "Submodule lib: modified content;",
        ],
    );
    assert_eq!(pointers(root).len(), 2);
    holds_all(&shown, &pointers(root));
    let inside = shop.diff(root, &json!({"paths": ["lib"]}));
    holds(
        &inside,
        &[
            "=== lib (",
            "=== lib/helper.py (unstaged, modified, +1 -1)",
            "+    return 2",
        ],
    );
    let file = shop.diff(root, &json!({"paths": ["lib/helper.py"]}));
    holds(&file, &["On branch main: 1 file changed", "+    return 2"]);
    shop.write("lib/app.py", "another app\n");
    let both = shop.diff(root, &json!({"paths": ["app.py", "lib/helper.py"]}));
    holds(&both, &["=== lib/helper.py"]);
    assert!(!both.contains("lib/app.py"), "{both}");
    fs::remove_file(root.join("lib/app.py")).expect("it is there");

    git(
        &root.join("lib"),
        &["commit", "--quiet", "--all", "--message", "return 2"],
    );
    shop.write("lib/new.py", "x = 1\n");
    let shown = shop.diff(root, &json!({}));
    holds(&shown, &["Submodule lib: new commits, untracked content;"]);
    holds_all(&shown, &pointers(root));
    git(root, &["add", "lib"]);
    let staged = shop.diff(root, &json!({"staged": true}));
    let pointer = git(root, &["diff", "--cached"]);
    let pointer = pointer.lines().filter(|line| line.contains("Subproject commit"));
    holds_all(&staged, &pointer.map(str::to_owned).collect::<Vec<_>>());
    holds(&staged, &["=== lib (staged, modified, +1 -1)"]);
    let log = shop.diff(root, &json!({"mode": "log", "paths": ["lib/helper.py"]}));
    holds(&log, &["Ada: return 2"]);
}

#[test]
fn a_moved_submodule_is_committed_and_so_are_its_own_files() {
    let shop = Shop::new();
    let root = &shop.root;
    shop.write("lib/helper.py", "def help():\n    return 3\n");
    shop.write("app.py", "import lib  # the shop\n");

    let refused = shop.commit(&json!({"message": "Both", "paths": ["app.py", "lib/helper.py"]}), 2);
    holds(
        &refused,
        &["`lib/helper.py` lies in the submodule `lib`, which is a repository of its own"],
    );
    let refused = shop.commit(&json!({"message": "Pointer", "paths": ["lib"]}), 1);
    holds(
        &refused,
        &["Nothing to commit: the submodule `lib` is at the commit that the last one names."],
    );

    let done = shop.commit(&json!({"message": "Return 3", "paths": ["lib/helper.py"]}), 0);
    holds(
        &done,
        &["Return 3", "lib/helper.py", "It is a commit of the submodule `lib`;"],
    );
    assert_eq!(git(&root.join("lib"), &["status", "--porcelain"]), "");
    assert_eq!(git(&root.join("lib"), &["log", "-1", "--format=%s"]), "Return 3\n");
    assert_eq!(shop.status(), " M app.py\n M lib\n");

    shop.commit(&json!({"message": "Move lib", "all": true}), 0);
    assert_eq!(shop.status(), "");
    let head = git(&root.join("lib"), &["rev-parse", "HEAD"]);
    assert_eq!(git(root, &["rev-parse", "HEAD:lib"]), head);
    git(root, &["fsck", "--strict"]);
    let shown = shop.diff(root, &json!({"mode": "show"}));
    holds(&shown, &[&format!("+Subproject commit {head}"), "=== app.py"]);
}

#[test]
fn a_submodule_of_a_linked_worktree_is_read_unasked() {
    let shop = Shop::new();
    let second = shop.root.parent().expect("it has one").join("second");
    git(&shop.root, &["worktree", "add", "--quiet", &second.to_string_lossy()]);
    git(
        &second,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "update",
            "--init",
        ],
    );
    assert_eq!(shop.diff(&second, &json!({})).trim_end(), "No uncommitted changes.");
    fs::write(second.join("lib/helper.py"), "def help():\n    return 4\n").expect("it is writable");
    holds(&shop.diff(&second, &json!({})), &["Submodule lib: modified content;"]);
    holds(&shop.diff(&second, &json!({"paths": ["lib"]})), &["+    return 4"]);
    assert_eq!(
        shop.diff(&second.join("lib"), &json!({}))
            .lines()
            .next()
            .map(|line| line.contains("1 file changed")),
        Some(true)
    );
}

#[test]
fn a_submodule_that_a_sparse_checkout_leaves_out_stays_in_the_commit() {
    let shop = Shop::new();
    let root = &shop.root;
    git(root, &["update-index", "--skip-worktree", "lib"]);
    fs::remove_dir_all(root.join("lib")).expect("it is there");
    shop.write("app.py", "import lib  # the shop\n");
    assert_eq!(shop.status(), " M app.py\n");
    let before = git(root, &["rev-parse", "HEAD:lib"]);
    let shown = shop.diff(root, &json!({}));
    holds(&shown, &["1 file changed", "=== app.py"]);
    shop.commit(&json!({"message": "Say so", "all": true}), 0);
    assert_eq!(git(root, &["rev-parse", "HEAD:lib"]), before);
}

#[test]
fn a_submodule_that_cannot_be_read_is_named_and_the_rest_is_shown_and_committed() {
    let shop = Shop::new();
    let root = &shop.root;
    git(&root.join("lib"), &["config", "extensions.invented", "true"]);
    shop.write("app.py", "import lib  # the shop\n");
    let shown = shop.diff(root, &json!({}));
    holds(
        &shown,
        &[
            "=== app.py",
            "Submodule lib: not looked at (This git repository uses `extensions.invented = true`",
        ],
    );
    let refused = shop.commit(&json!({"message": "Move", "paths": ["lib"]}), 1);
    holds(
        &refused,
        &["The submodule `lib` cannot be committed: This git repository uses"],
    );
    let done = shop.commit(&json!({"message": "Say so", "all": true}), 0);
    holds(&done, &["1 file:"]);
}

#[test]
fn a_submodule_of_a_submodule_is_shown_and_committed_like_any_other() {
    let inner = Shop::new();
    let top = inner.root.parent().expect("it has one").join("top");
    fs::create_dir(&top).expect("the folder is writable");
    git(&top, &["init", "--quiet", "--initial-branch=main"]);
    let local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    git(&top, &[&local[..], &["add", "../shop", "shop"]].concat());
    git(&top, &["commit", "--quiet", "--message", "add shop"]);
    git(&top, &[&local[..], &["update", "--init", "--recursive"]].concat());
    for place in ["", "shop", "shop/lib"] {
        git(&top.join(place), &["config", "user.name", "Ada"]);
        git(&top.join(place), &["config", "user.email", "ada@example.org"]);
    }
    let shop = Shop { root: top, ..inner };
    let root = &shop.root;
    let shown = |paths: &[&str]| shop.diff(root, &json!({"paths": paths}));
    assert_eq!(shown(&[]).trim_end(), "No uncommitted changes.");

    shop.write("shop/lib/new.py", "x = 1\n");
    assert_eq!(shop.status(), " M shop\n");
    holds(&shown(&[]), &["Submodule shop: untracked content;"]);
    shop.write("shop/lib/helper.py", "def help():\n    return 2\n");
    holds(&shown(&[]), &["Submodule shop: modified content, untracked content;"]);
    holds_all(&shown(&[]), &pointers(root));
    holds(
        &shown(&["shop"]),
        &["Submodule shop/lib: modified content, untracked content;"],
    );
    holds_all(&shown(&["shop"]), &pointers(&root.join("shop")));
    holds(
        &shown(&["shop/lib"]),
        &["=== shop/lib (", "=== shop/lib/new.py", "+    return 2"],
    );
    let file = shown(&["shop/lib/helper.py"]);
    holds(
        &file,
        &["1 file changed", "=== shop/lib/helper.py (unstaged, modified, +1 -1)"],
    );

    let paths = ["shop/lib/helper.py", "shop/lib/new.py"];
    let done = shop.commit(&json!({"message": "Return 2", "paths": paths}), 0);
    holds(&done, &["It is a commit of the submodule `shop/lib`;"]);
    let log = shop.diff(root, &json!({"mode": "log", "paths": ["shop/lib/helper.py"]}));
    holds(&log, &["Ada: Return 2"]);
    holds(&shown(&[]), &["Submodule shop: modified content;"]);
    holds(&shown(&["shop"]), &["Submodule shop/lib: new commits;"]);
    let done = shop.commit(&json!({"message": "Move lib", "paths": ["shop/lib"]}), 0);
    holds(&done, &["It is a commit of the submodule `shop`;"]);
    let head = git(&root.join("shop/lib"), &["rev-parse", "HEAD"]);
    assert_eq!(git(&root.join("shop"), &["rev-parse", "HEAD:lib"]), head);
    shop.commit(&json!({"message": "Move shop", "all": true}), 0);
    assert_eq!(shop.status(), "");
    for place in ["", "shop", "shop/lib"] {
        git(&root.join(place), &["fsck", "--strict"]);
    }
}
