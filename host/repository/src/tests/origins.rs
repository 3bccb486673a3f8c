//! Whose text a file is, in real git repositories.

use super::*;
use crate::origins::{FileOrigin, FileOrigins};
use crate::reftable::{self, Reference};

#[track_caller]
fn check(repository: &Arc<Repository>, own: &[&str], foreign: &[(&str, &str)], untracked: &[(&str, &str)]) {
    let origins = FileOrigins::read_tracked(repository);
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
    let origins = FileOrigins::read_tracked(&repository);
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

/// Replaces the references of a repository by one table with these.
fn use_table(root: &Path, references: &[(&str, Reference)]) {
    write(root, ".git/HEAD", "ref: refs/heads/.invalid\n");
    write(root, ".git/reftable/new", "0.ref\n");
    let folder = root.join(".git/reftable");
    fs::write(folder.join("0.ref"), reftable::encode_table(1, false, references, &[])).expect("it is written");
    // Git puts another list in its place, too.
    fs::rename(folder.join("new"), folder.join("tables.list")).expect("it is renamed");
}

#[test]
fn references_that_cannot_be_read_count_as_a_commit() {
    let folder = tree(&[("a.py", "")]);
    let root = folder.path();
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    git(root, &["add", "."]);
    let (all_own, outside) = (&["a.py", "new.py"], &[("new.py", "new.py")]);
    check(&open(&folder), all_own, &[], &[]);
    let head = ("HEAD", Reference::Symbolic("refs/heads/main".to_owned()));
    let id = vec![1; 20];
    let main = ("refs/heads/main", Reference::Object { id, peeled: None });
    let repository = open(&folder);
    use_table(root, std::slice::from_ref(&head));
    check(&repository, all_own, &[], &[]);
    let table = root.join(".git/reftable/0.ref");
    let damage =
        || fs::write(&table, [fs::read(&table).expect("it is there"), vec![0]].concat()).expect("it is written");
    damage();
    check(&open(&folder), &["a.py"], &[], outside);
    // Tables are read once for each list of them.
    check(&repository, all_own, &[], &[]);
    use_table(root, &[head.clone(), main]);
    check(&repository, &["a.py"], &[], outside);
    use_table(root, &[]);
    check(&open(&folder), &["a.py"], &[], outside);
    use_table(root, &[head]);
    check(&open(&folder), all_own, &[], &[]);
    fs::remove_dir_all(root.join(".git/reftable")).expect("it was there");
    check(&open(&folder), &["a.py"], &[], outside);
    // References in files.
    write(root, ".git/HEAD", "ref: refs/heads/main\n");
    check(&open(&folder), all_own, &[], &[]);
    symlink("elsewhere", root.join(".git/packed-refs")).expect("a link is made");
    check(&open(&folder), &["a.py"], &[], outside);
    fs::remove_file(root.join(".git/packed-refs")).expect("it was there");
    fs::remove_file(root.join(".git/HEAD")).expect("it was there");
    symlink("refs/heads/main", root.join(".git/HEAD")).expect("a link is made");
    check(&open(&folder), &["a.py"], &[], outside);
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
