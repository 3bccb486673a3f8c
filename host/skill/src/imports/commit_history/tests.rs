//! Walks through real repositories, friendly and hostile.

use git2::Signature;

use super::*;
use crate::imports::git::testing::Fixture;
use tool_repository::Options;

/// Far more than any walk here takes.
const TIME: Duration = Duration::from_secs(60);

const BOUNDS: PastBounds = PastBounds {
    commits_max: 1_000,
    files_max: 50,
    renames_max: 100,
    message_bytes_max: 100,
    bytes_max: 1_000_000,
};

fn repository(fixture: &Fixture) -> Arc<Repository> {
    Repository::open(&fixture.root(), &Options::default()).expect("the folder is there")
}

fn head(fixture: &Fixture) -> CommitId {
    let head = head_commit(&repository(fixture), &CancellationToken::new());
    head.expect("git can be read").expect("there is a commit")
}

fn walk(fixture: &Fixture, known: &HashSet<CommitId>) -> PastCommits {
    let cancel = CancellationToken::new();
    walk_commits(&repository(fixture), head(fixture), known, &BOUNDS, TIME, &cancel).expect("git can be read")
}

fn read(commits: &PastCommits) -> Vec<&PastChanges> {
    let read = commits.commits.iter().filter_map(|step| match step {
        PastCommitStep::Read(read) => Some(read),
        PastCommitStep::Known(_) => None,
    });
    read.collect()
}

/// One line a commit, newest first.
fn shown(commits: &PastCommits) -> String {
    let line = |one: &&PastChanges| {
        let mut changed = one.changed.clone();
        changed.sort();
        let renamed: Vec<String> = one.renamed.iter().map(|(from, to)| format!("{from} > {to}")).collect();
        format!("{}: {} [{}]", one.message, changed.join(" "), renamed.join(" "))
    };
    read(commits).iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A commit with a tree of its own, on top of the last one.
fn commit_tree(fixture: &Fixture, tree: git2::Oid, message: &str) -> git2::Oid {
    let git = &fixture.git;
    let tree = git.find_tree(tree).expect("it is there");
    let author = Signature::now("Ada", "ada@example.org").expect("a valid name");
    let parent = git.head().ok().map(|head| head.peel_to_commit().expect("a commit"));
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some("HEAD"), &author, &author, message, &tree, &parents)
        .expect("it can be committed")
}

#[test]
fn commits_come_with_their_paths_and_exact_renames() {
    let fixture = Fixture::new();
    fixture.write("src/a.py", "a\n");
    fixture.write("src/b.py", "b\n");
    fixture.commit("begin");
    fixture.write("src/a.py", "a2\n");
    fixture.write("lib/c/d.py", "d\n");
    fixture.commit("change a");
    fixture.remove("src/b.py");
    fixture.write("lib/b.py", "b\n");
    fixture.write(".env", "KEY=1\n");
    fixture.commit("move b");
    for at in 0..60 {
        fixture.write(&format!("many/{at}.py"), "x\n");
    }
    fixture.commit("too many");
    insta::assert_snapshot!(shown(&walk(&fixture, &HashSet::new())), @r"
    too many:  []
    move b: lib/b.py [src/b.py > lib/b.py]
    change a: lib/c/d.py src/a.py []
    begin:  []
    ");
}

#[test]
fn empty_files_are_no_renamed_ones() {
    let fixture = Fixture::new();
    fixture.write("a/__init__.py", "");
    fixture.commit("begin");
    fixture.remove("a/__init__.py");
    fixture.write("b/__init__.py", "");
    fixture.commit("other package");
    assert_eq!(
        shown(&walk(&fixture, &HashSet::new())),
        "other package: a/__init__.py b/__init__.py []\nbegin:  []"
    );
}

#[test]
fn a_merge_has_no_files_and_its_branches_have() {
    let fixture = Fixture::new();
    fixture.write("a.py", "a\n");
    let base = fixture.commit("begin");
    fixture.write("a.py", "a2\n");
    let one = fixture.commit("one");
    let git = &fixture.git;
    let commit = |id| git.find_commit(id).expect("it is there");
    let author = Signature::now("Ada", "ada@example.org").expect("a valid name");
    fixture.write("b.py", "b\n");
    fixture.stage("b.py");
    let tree = git
        .index()
        .and_then(|mut index| index.write_tree())
        .expect("it is a tree");
    let tree = git.find_tree(tree).expect("it was just written");
    let other = git.commit(None, &author, &author, "other", &tree, &[&commit(base)]);
    let other = commit(other.expect("it can be committed"));
    let parents = [&commit(one), &other];
    git.commit(Some("HEAD"), &author, &author, "merge", &tree, &parents)
        .expect("it can be committed");
    let shown = shown(&walk(&fixture, &HashSet::new()));
    assert!(shown.starts_with("merge:  []\n"), "{shown}");
    assert!(
        shown.contains("one: a.py []") && shown.contains("other: a.py b.py []"),
        "{shown}"
    );
}

#[test]
fn known_commits_are_only_named() {
    let fixture = Fixture::new();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    fixture.write("a.py", "a2\n");
    fixture.commit("change");
    let known: HashSet<CommitId> = read(&walk(&fixture, &HashSet::new()))
        .iter()
        .map(|one| one.id)
        .collect();
    fixture.write("a.py", "a3\n");
    fixture.commit("newest");
    let walked = walk(&fixture, &known);
    assert_eq!(shown(&walked), "newest: a.py []");
    assert_eq!((walked.commits.len(), walked.is_complete), (3, true));
}

#[test]
fn a_folder_of_a_repository_has_the_commits_of_its_own_files() {
    let fixture = Fixture::new();
    fixture.write("a.py", "a\n");
    fixture.write("inner/b.py", "b\n");
    fixture.commit("begin");
    fixture.write("inner/b.py", "b2\n");
    fixture.write("a.py", "a2\n");
    fixture.commit("both");
    let inner = Repository::open(&fixture.root().join("inner"), &Options::default()).expect("the folder is there");
    let cancel = CancellationToken::new();
    let walked =
        walk_commits(&inner, head(&fixture), &HashSet::new(), &BOUNDS, TIME, &cancel).expect("git can be read");
    assert_eq!(shown(&walked), "both: b.py []\nbegin:  []");
}

#[test]
fn a_long_history_of_empty_commits_ends_at_the_bound() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let tree = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_tree())
        .expect("it has a tree")
        .id();
    for _ in 0..BOUNDS.commits_max + 200 {
        commit_tree(&fixture, tree, "empty");
    }
    let walked = walk(&fixture, &HashSet::new());
    assert_eq!((walked.commits.len(), walked.is_complete), (BOUNDS.commits_max, true));
}

#[test]
fn a_message_of_many_bytes_is_cut() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    fixture.write("a.py", "b\n");
    fixture.commit(&"\u{e9}".repeat(5 * 1024 * 1024));
    let walked = walk(&fixture, &HashSet::new());
    let lengths: Vec<usize> = read(&walked).iter().map(|one| one.message.len()).collect();
    assert_eq!(lengths, [BOUNDS.message_bytes_max, 5]);
    assert_eq!(read(&walked)[0].changed, ["a.py"]);
}

#[test]
fn a_commit_of_very_many_paths_does_not_count() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let git = &fixture.git;
    let blob = git.blob(b"x\n").expect("it can be written");
    let mut folder = git.treebuilder(None).expect("a new tree");
    for at in 0..100_000 {
        folder
            .insert(format!("{at}.py"), blob, 0o100_644)
            .expect("a valid name");
    }
    let folder = folder.write().expect("it can be written");
    let mut root = git.treebuilder(None).expect("a new tree");
    root.insert("many", folder, 0o040_000).expect("a valid name");
    commit_tree(&fixture, root.write().expect("it can be written"), "many");
    assert_eq!(shown(&walk(&fixture, &HashSet::new())), "many:  []\nbegin:  []");
}

#[test]
fn a_history_of_very_long_paths_ends_at_the_bound() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let git = &fixture.git;
    let blob = git.blob(b"x\n").expect("it can be written");
    for commit in 0..40 {
        let mut root = git.treebuilder(None).expect("a new tree");
        for at in 0..20 {
            let name = format!("{commit}-{at}-{}", "x".repeat(4000));
            root.insert(name, blob, 0o100_644).expect("a valid name");
        }
        commit_tree(&fixture, root.write().expect("it can be written"), "long");
    }
    let walked = walk(&fixture, &HashSet::new());
    // One page of a helper has more than all that is wanted.
    assert!(
        walked.is_complete && walked.commits.len() < 20,
        "{}",
        walked.commits.len()
    );
    let paths = read(&walked).into_iter().flat_map(|one| &one.changed);
    assert!(paths.count() >= 100);
}

#[test]
fn paths_below_the_deepest_folder_are_left_out() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let git = &fixture.git;
    let mut inner = git.blob(b"x\n").expect("it can be written");
    let mut mode = 0o100_644;
    for _ in 0..10_000 {
        let mut folder = git.treebuilder(None).expect("a new tree");
        folder.insert("d", inner, mode).expect("a valid name");
        (inner, mode) = (folder.write().expect("it can be written"), 0o040_000);
    }
    commit_tree(&fixture, inner, "deep");
    assert_eq!(shown(&walk(&fixture, &HashSet::new())), "deep: a.py []\nbegin:  []");
}

#[test]
fn a_damaged_repository_gives_what_it_has() {
    let fixture = Fixture::new();
    fixture.write("a.py", "a\n");
    let first = fixture.commit("begin");
    fixture.write("a.py", "b\n");
    let second = fixture.commit("second");
    fixture.write("a.py", "c\n");
    fixture.commit("third");
    let tree = fixture.git.find_commit(second).expect("it is there").tree_id();
    let object = |id: git2::Oid| {
        let name = id.to_string();
        fixture.git.path().join("objects").join(&name[..2]).join(&name[2..])
    };
    // Objects are read-only files.
    for id in [first, tree] {
        std::fs::remove_file(object(id)).expect("it is a loose object");
        std::fs::write(object(id), "no object").expect("the folder is ours");
    }
    let walked = walk(&fixture, &HashSet::new());
    assert_eq!(shown(&walked), "third:  []\nsecond:  []");
    assert!(walked.is_complete);
}

#[test]
fn a_commit_that_is_too_large_is_left_out_and_other_branches_are_read() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    fixture.write("a.py", "b\n");
    let plain = fixture.commit("plain");
    let git = &fixture.git;
    let parent = git.find_commit(plain).expect("it is there");
    let author = Signature::now("Ada", "ada@example.org").expect("a valid name");
    let tree = parent.tree().expect("it has a tree");
    let message = "x".repeat(17 * 1024 * 1024);
    let large = git.commit(None, &author, &author, &message, &tree, &[&parent]);
    let large = git
        .find_commit(large.expect("it can be committed"))
        .expect("it is there");
    git.commit(Some("HEAD"), &author, &author, "merge", &tree, &[&parent, &large])
        .expect("it can be committed");
    let walked = walk(&fixture, &HashSet::new());
    assert_eq!(shown(&walked), "merge:  []\nplain: a.py []\nbegin:  []");
    assert!(walked.is_complete);
}

#[test]
fn the_changed_files_of_a_large_folder_are_found() {
    let fixture = Fixture::in_memory();
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let git = &fixture.git;
    let blobs = [b"x\n", b"y\n"].map(|text| git.blob(text).expect("it can be written"));
    let tree_with = |changed: &[usize]| {
        let mut folder = git.treebuilder(None).expect("a new tree");
        for at in 0..2_000 {
            let content = blobs[usize::from(changed.contains(&at))];
            folder
                .insert(format!("{at}.py"), content, 0o100_644)
                .expect("a valid name");
        }
        let mut root = git.treebuilder(None).expect("a new tree");
        let folder = folder.write().expect("it can be written");
        root.insert("many", folder, 0o040_000).expect("a valid name");
        root.write().expect("it can be written")
    };
    for changed in [&[][..], &[7], &[7, 1_999], &[7, 1_999, 300]] {
        commit_tree(&fixture, tree_with(changed), "change");
    }
    let shown = shown(&walk(&fixture, &HashSet::new()));
    assert!(
        shown.starts_with("change: many/300.py []\nchange: many/1999.py []\nchange: many/7.py []\nchange:  []"),
        "{shown}"
    );
}

#[test]
fn a_shallow_clone_gives_what_it_has() {
    let fixture = Fixture::new();
    for content in ["a\n", "b\n", "c\n"] {
        fixture.write("a.py", content);
        fixture.commit(content);
    }
    let border = fixture.git.revparse_single("HEAD~1").expect("it is there").id();
    std::fs::write(fixture.git.path().join("shallow"), format!("{border}\n")).expect("the folder is ours");
    assert_eq!(shown(&walk(&fixture, &HashSet::new())), "c\n: a.py []\nb\n:  []");
}

#[test]
fn a_folder_without_git_and_a_repository_without_commits_have_no_history() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plain = Repository::open(folder.path(), &Options::default()).expect("the folder is there");
    assert!(head_commit(&plain, &CancellationToken::new()).is_err());
    let empty = Fixture::new();
    assert_eq!(head_commit(&repository(&empty), &CancellationToken::new()), Ok(None));
}

#[test]
fn a_reason_for_unread_commits_is_found() {
    let fixture = Fixture::new();
    assert_eq!(find_past_gap(&repository(&fixture)), None);
    fixture.write("a.py", "a\n");
    fixture.commit("begin");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let linked = folder.path().join("linked");
    fixture.git.worktree("linked", &linked, None).expect("it can be made");
    let linked = Repository::open(&linked, &Options::default()).expect("the folder is there");
    assert_eq!(find_past_gap(&linked), None);
    assert!(head_commit(&linked, &CancellationToken::new()).is_ok_and(|head| head.is_some()));
    std::fs::write(
        fixture.git.path().join("worktrees/linked/commondir"),
        "../../../.git/.\n",
    )
    .expect("it is ours");
    assert_eq!(find_past_gap(&linked), None);
    std::fs::rename(fixture.git.path().join("worktrees"), fixture.git.path().join("moved")).expect("it is ours");
    let link = format!("gitdir: {}\n", fixture.git.path().join("moved/linked").display());
    std::fs::write(linked.root().join(".git"), link).expect("the folder is ours");
    assert_eq!(find_past_gap(&linked), Some(PastGap::Outside));
    assert!(head_commit(&linked, &CancellationToken::new()).is_err());
    let objects = fixture.git.path().join("objects/info");
    std::fs::create_dir_all(&objects).expect("the folder is ours");
    let lender = folder.path().to_str().expect("a plain name");
    std::fs::write(objects.join("alternates"), format!("{lender}\n")).expect("the folder is ours");
    assert_eq!(find_past_gap(&repository(&fixture)), Some(PastGap::Borrowed));
    std::fs::remove_file(objects.join("alternates")).expect("it is there");
    let config = fixture.git.path().join("config");
    std::fs::write(config, "[extensions]\n\tobjectformat = sha256\n").expect("the folder is ours");
    assert_eq!(find_past_gap(&repository(&fixture)), Some(PastGap::Format));
}
