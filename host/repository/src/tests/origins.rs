//! Whose text a file is, in real git repositories.

use super::*;
use crate::origins::{FileOrigin, FileOrigins};

#[track_caller]
fn check(repository: &Arc<Repository>, own: &[&str], foreign: &[(&str, &str)], untracked: &[(&str, &str)]) {
    let origins = FileOrigins::of(repository);
    for path in own {
        assert_eq!(origins.of_file(path), FileOrigin::Own, "{path}");
    }
    for (path, place) in foreign {
        assert_eq!(
            origins.of_file(path),
            FileOrigin::Foreign((*place).to_owned()),
            "{path}"
        );
    }
    for (path, place) in untracked {
        assert_eq!(
            origins.of_file(path),
            FileOrigin::Untracked((*place).to_owned()),
            "{path}"
        );
    }
}

#[test]
fn files_of_other_repositories_and_untracked_ones_are_not_the_users_own() {
    let others = tree(&[("NOTES.md", "words\n"), ("deep/x.py", "")]);
    commit_all(others.path());
    let folder = tree(&[
        ("a.py", ""),
        ("src/b.py", ""),
        ("vendor/c.py", ""),
        ("src/server.log", ""),
    ]);
    let root = folder.path();
    commit_all(root);
    let other = others.path().to_str().expect("a plain path");
    git(root, &["submodule", "--quiet", "add", other, "lib"]);
    git(root, &["submodule", "--quiet", "add", other, "gone"]);
    git(root, &["commit", "--quiet", "-am", "two"]);
    git(root, &["clone", "--quiet", other, "tools/nested"]);
    // A submodule that is not checked out, with a file in its place.
    git(root, &["submodule", "--quiet", "deinit", "--force", "gone"]);
    write(root, "gone/planted.md", "");
    for path in ["download.html", "src/new.py", "raw/x/y.md", "raw/z.md"] {
        write(root, path, "");
    }
    let repository = open(&folder);
    check(
        &repository,
        &["a.py", "src/b.py", ".gitmodules"],
        &[
            ("lib/NOTES.md", "lib/"),
            ("lib/deep/x.py", "lib/"),
            ("tools/nested/NOTES.md", "tools/nested/"),
            ("gone/planted.md", "gone/"),
            ("vendor/c.py", "vendor/"),
            ("src/server.log", "src/server.log"),
            ("lib/vendor/x.py", "lib/"),
        ],
        &[
            ("download.html", "download.html"),
            ("src/new.py", "src/new.py"),
            ("raw/x/y.md", "raw/"),
            ("raw/z.md", "raw/"),
        ],
    );
    let origins = FileOrigins::of(&repository);
    for (directory, origin) in [
        ("", FileOrigin::Own),
        ("src", FileOrigin::Own),
        ("lib/deep", FileOrigin::Foreign("lib/".to_owned())),
        ("raw/x", FileOrigin::Untracked("raw/".to_owned())),
    ] {
        assert_eq!(origins.of_directory(directory), origin, "{directory}");
    }
    // What the index says now counts for the next judgement.
    git(root, &["add", "src/new.py"]);
    check(&repository, &["src/new.py"], &[], &[("download.html", "download.html")]);
    // A root below the top knows what git tracks there.
    let below = open_with(&root.join("src"), &Options::default());
    check(&below, &["b.py", "new.py"], &[], &[("other.py", "other.py")]);
}

#[test]
fn before_the_first_commit_and_outside_git_names_alone_decide() {
    let folder = tree(&[("a.py", ""), ("new.py", ""), ("vendor/c.py", "")]);
    let root = folder.path();
    let repository = open(&folder);
    check(&repository, &["a.py", "new.py"], &[("vendor/c.py", "vendor/")], &[]);
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    git(root, &["add", "a.py"]);
    check(&repository, &["a.py", "new.py"], &[("vendor/c.py", "vendor/")], &[]);
    git(root, &["commit", "--quiet", "-m", "one"]);
    check(&repository, &["a.py"], &[], &[("new.py", "new.py")]);
    // A branch in the list of packed references has commits, too.
    git(root, &["pack-refs", "--all"]);
    check(&open(&folder), &["a.py"], &[], &[("new.py", "new.py")]);
    git(root, &["checkout", "--quiet", "--orphan", "fresh"]);
    check(&open(&folder), &["a.py", "new.py"], &[], &[]);
    // A root in which git tracks nothing is one that the user named.
    git(root, &["checkout", "--quiet", "-f", "main"]);
    write(root, "scratch/x.py", "");
    let scratch = open_with(&root.join("scratch"), &Options::default());
    check(&scratch, &["x.py"], &[], &[]);
}

#[test]
fn a_linked_work_tree_of_the_same_repository_is_the_users_own() {
    let folder = tree(&[("a.py", "")]);
    let root = folder.path();
    commit_all(root);
    git(root, &["worktree", "add", "--quiet", "trees/feature"]);
    // A file that leads into this repository without a record that leads back.
    write(root, "forged/.git", "gitdir: ../.git/worktrees/feature\n");
    // Another repository that says the same of itself.
    write(root, "other/.git/worktrees/x/gitdir", "");
    write(root, "other/.git/HEAD", "ref: refs/heads/main\n");
    write(
        root,
        "claims/.git",
        &format!("gitdir: {}/other/.git/worktrees/x\n", root.display()),
    );
    write(
        root,
        "other/.git/worktrees/x/gitdir",
        &format!("{}/claims/.git\n", root.display()),
    );
    let foreign = [
        ("forged/x.py", "forged/"),
        ("other/x.py", "other/"),
        ("claims/x.py", "claims/"),
    ];
    check(&open(&folder), &["a.py", "trees/feature/a.py"], &foreign, &[]);
    // In the linked work tree its own index counts.
    let linked = open_with(&root.join("trees/feature"), &Options::default());
    check(&linked, &["a.py"], &[], &[("b.py", "b.py")]);
}
