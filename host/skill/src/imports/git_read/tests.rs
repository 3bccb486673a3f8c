//! Diffs of real repositories, friendly and hostile.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use git2::{IndexEntryExtendedFlag, IndexEntryFlag};

use super::*;
use crate::imports::git::patches::{GIT_CONTEXT_LINES_MAX, GIT_DIFF_BYTES_MAX, GIT_PATCH_BYTES_MAX};
use crate::imports::git::testing::{Fixture, ScriptedApproval, context, formats};
use crate::limits;

fn everything() -> DiffQuery {
    DiffQuery {
        paths: Vec::new(),
        staged: true,
        unstaged: true,
        untracked: true,
        context_lines: 3,
    }
}

fn diff(fixture: &Fixture, query: &DiffQuery) -> Diff {
    read_changes(&fixture.session(&[]), query).expect("the repository can be read")
}

/// One line a change.
fn summary(diff: &Diff) -> String {
    let mut text = String::new();
    for change in &diff.changes {
        let from = change
            .old_path
            .as_ref()
            .map(|old| format!(" (from {old})"))
            .unwrap_or_default();
        let binary = if change.binary { " binary" } else { "" };
        let _ = writeln!(
            text,
            "{} {} {}{from} +{} -{}{binary}",
            change.area, change.status, change.path, change.added_lines, change.removed_lines
        );
    }
    text
}

fn busy() -> Fixture {
    let fixture = Fixture::new();
    for name in [
        "staged.txt",
        "unstaged.txt",
        "both.txt",
        "gone.txt",
        "moved.txt",
        "same.txt",
    ] {
        fixture.write(name, format!("one of {name}\ntwo of {name}\nthree of {name}\n"));
    }
    fixture.write("mode.sh", "echo\n");
    fixture.commit("first");
    fixture.write("staged.txt", "one of staged.txt\n2\nthree of staged.txt\n");
    fixture.stage("staged.txt");
    fixture.write("both.txt", "staged\n");
    fixture.stage("both.txt");
    fixture.write("both.txt", "staged\nand changed\n");
    fixture.write(
        "unstaged.txt",
        "one of unstaged.txt\ntwo of unstaged.txt\nthree of unstaged.txt\nfour\n",
    );
    fixture.remove("gone.txt");
    std::fs::rename(fixture.root().join("moved.txt"), fixture.root().join("new place.txt")).expect("it was there");
    fixture.stage("moved.txt");
    fixture.stage("new place.txt");
    fixture.executable("mode.sh", "echo\n");
    fixture.write("new/file.txt", "fresh\n");
    fixture.write("picture.bin", b"\0\x01\x02");
    fixture.write("ignored.log", "noise\n");
    fixture.write(".gitignore", "*.log\n");
    fixture
}

#[test]
fn staged_unstaged_and_untracked_changes_are_told_apart() {
    let diff = diff(&busy(), &everything());
    assert_eq!(diff.branch.as_deref(), Some("main"));
    assert!(!diff.truncated);
    insta::assert_snapshot!(summary(&diff), @r"
    staged modified both.txt +1 -3
    staged renamed new place.txt (from moved.txt) +0 -0
    staged modified staged.txt +1 -1
    untracked added .gitignore +1 -0
    unstaged modified both.txt +1 -0
    unstaged deleted gone.txt +0 -3
    unstaged modified mode.sh +0 -0
    untracked added new/file.txt +1 -0
    untracked added picture.bin +0 -0 binary
    unstaged modified unstaged.txt +1 -0
    ");
    let patch = |path: &str| {
        diff.changes
            .iter()
            .find(|change| change.path == path)
            .map(|change| change.patch.as_str())
    };
    insta::assert_snapshot!(patch("staged.txt").unwrap_or_default(), @r"
    diff --git a/staged.txt b/staged.txt
    --- a/staged.txt
    +++ b/staged.txt
    @@ -1,3 +1,3 @@
     one of staged.txt
    -two of staged.txt
    +2
     three of staged.txt
    ");
    insta::assert_snapshot!(patch("mode.sh").unwrap_or_default(), @r"
    diff --git a/mode.sh b/mode.sh
    old mode 100644
    new mode 100755
    ");
    assert_eq!(patch("picture.bin"), Some(""));
}

#[test]
fn each_area_can_be_asked_for_by_itself() {
    let fixture = busy();
    let none = DiffQuery {
        staged: false,
        unstaged: false,
        untracked: false,
        ..everything()
    };
    assert_eq!(summary(&diff(&fixture, &none)), "");
    let areas = |query: &DiffQuery| {
        let mut areas = diff(&fixture, query)
            .changes
            .into_iter()
            .map(|change| change.area)
            .collect::<Vec<_>>();
        areas.dedup();
        areas
    };
    assert_eq!(
        areas(&DiffQuery {
            staged: true,
            ..none.clone()
        }),
        ["staged"]
    );
    assert_eq!(
        areas(&DiffQuery {
            unstaged: true,
            ..none.clone()
        }),
        ["unstaged"]
    );
    assert_eq!(
        areas(&DiffQuery {
            untracked: true,
            ..none
        }),
        ["untracked"]
    );
}

#[test]
fn paths_are_literal_files_and_directories() {
    let fixture = busy();
    fixture.write("new/other.txt", "");
    fixture.write("newer.txt", "");
    fixture.write("*.txt", "star\n");
    let only = |paths: &[&str]| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let diff = diff(&fixture, &DiffQuery { paths, ..everything() });
        diff.changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
    };
    assert_eq!(only(&["new"]), ["new/file.txt", "new/other.txt"]);
    assert_eq!(only(&["./new/"]), ["new/file.txt", "new/other.txt"]);
    assert_eq!(only(&["*.txt"]), ["*.txt"]);
    assert_eq!(only(&["same.txt", "gone.txt"]), ["gone.txt"]);
    assert_eq!(only(&["new", "."]).len(), 13);
    let outside = DiffQuery {
        paths: vec!["../elsewhere".to_owned()],
        ..everything()
    };
    let failure = read_changes(&fixture.session(&[]), &outside).expect_err("it lies outside");
    assert_eq!(failure.kind.code(), "invalid-arguments");
}

#[test]
fn a_repository_without_a_commit_has_only_additions() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    fixture.stage("a.txt");
    fixture.write("b.txt", "2\n");
    let diff = diff(&fixture, &everything());
    assert_eq!(diff.branch.as_deref(), Some("main"));
    assert_eq!(
        summary(&diff),
        "staged added a.txt +1 -0\nuntracked added b.txt +1 -0\n"
    );
}

#[test]
fn a_root_in_a_subdirectory_sees_only_what_lies_beneath_it() {
    let fixture = busy();
    let context = context(&fixture.root().join("new"), &[], ScriptedApproval::new(false));
    let diff = read_changes(&context, &everything()).expect("the repository can be read");
    assert_eq!(summary(&diff), "untracked added file.txt +1 -0\n");
    assert!(diff.changes[0].patch.contains("+++ b/file.txt"));
}

#[test]
fn a_detached_head_has_no_branch() {
    let fixture = busy();
    let id = fixture.git.refname_to_id("HEAD").expect("there is a commit");
    fixture.git.set_head_detached(id).expect("it can be detached");
    assert_eq!(diff(&fixture, &everything()).branch, None);
}

#[test]
fn what_is_hidden_is_neither_shown_nor_named_nor_counted() {
    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n";
    let fixture = Fixture::new();
    fixture.write(".env", "TOKEN=committed-secret\n");
    fixture.write("visible.txt", "1\n");
    fixture.commit("first");
    fixture.write(".env", "TOKEN=changed-secret\n");
    fixture.write("sub/.env.local", "TOKEN=other-secret\n");
    fixture.write("notes.txt", KEY);
    fixture.write("staged-notes.txt", KEY);
    fixture.stage("staged-notes.txt");
    fixture.write("id_rsa", "key-secret");
    std::fs::hard_link(fixture.root().join(".env"), fixture.root().join("hard.txt")).expect("links can be made");
    let session = fixture.session(&[]);
    // Hidden files are known by their inodes from the list.
    session
        .repository
        .list(&session.cancel)
        .expect("the tree can be walked");
    let diff = read_changes(&session, &everything()).expect("the repository can be read");
    assert_eq!(summary(&diff), "", "{diff:?}");
    assert!(!format!("{diff:?}").contains("secret"), "{diff:?}");
}

#[test]
fn a_rename_does_not_show_a_hidden_file() {
    let fixture = Fixture::new();
    let secret = (0..20)
        .map(|line| format!("KEY_{line}=secret {line}\n"))
        .collect::<String>();
    fixture.write(".env", &secret);
    fixture.commit("first");
    fixture.remove(".env");
    fixture.stage(".env");
    fixture.write("example.txt", secret.replace("secret 7", "nothing") + "more\n");
    fixture.stage("example.txt");
    let diff = diff(&fixture, &everything());
    assert_eq!(summary(&diff), "staged added example.txt +21 -0\n");
    assert!(!format!("{diff:?}").contains("secret 7"));
}

#[test]
fn nothing_that_the_repository_configures_runs() {
    for (fixture, has_tables) in formats() {
        fixture.write("a.txt", "1\n");
        fixture.write("b.txt", "1\n");
        fixture.commit("first");
        let marker = fixture.booby_trap();
        fixture.write(".gitattributes", "*.txt diff=evil merge=evil\nb.txt filter=evil\n");
        fixture.write("a.txt", "2\n");
        fixture.write("b.txt", "2\n");
        fixture.write("new.txt", "3\n");
        fixture.stage("new.txt");
        if has_tables {
            fixture.use_tables();
        }
        let diff = diff(&fixture, &everything());
        assert_eq!(diff.branch.as_deref(), Some("main"));
        insta::allow_duplicates!(insta::assert_snapshot!(summary(&diff), @r"
        staged added new.txt +1 -0
        untracked added .gitattributes +2 -0
        unstaged modified a.txt +1 -1
        unstaged modified b.txt +0 -0 binary
        "));
        assert!(
            !marker.exists(),
            "{}",
            std::fs::read_to_string(&marker).unwrap_or_default()
        );
    }
}

#[test]
fn reading_writes_nothing_into_the_git_directory() {
    let fixture = busy();
    let listing = || {
        let mut files = walk(&fixture.root().join(".git"));
        files.sort();
        files
    };
    let before = listing();
    diff(&fixture, &everything());
    assert_eq!(listing(), before);
}

fn walk(directory: &std::path::Path) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("it is a directory").flatten() {
        let metadata = entry.metadata().expect("it is there");
        if metadata.is_dir() {
            files.extend(walk(&entry.path()));
        }
        files.push((entry.path(), metadata.modified().expect("the system knows")));
    }
    files
}

#[test]
fn line_ends_that_git_converts_are_no_change() {
    let fixture = Fixture::new();
    fixture.write("windows.txt", "1\n2\n3\n");
    fixture.write("stored.txt", "1\r\n2\r\n");
    fixture.commit("first");
    fixture.configure("core.autocrlf", "true");
    fixture.write("windows.txt", "1\r\ntwo\r\n3\r\n");
    fixture.write("stored.txt", "1\r\nzwei\r\n");
    insta::assert_snapshot!(summary(&diff(&fixture, &everything())), @r"
    unstaged modified stored.txt +1 -1
    unstaged modified windows.txt +1 -1
    ");
}

#[test]
fn files_that_a_sparse_checkout_left_out_are_not_deleted() {
    let fixture = Fixture::new();
    fixture.write("kept.txt", "1\n");
    fixture.write("left-out.txt", "1\n");
    fixture.commit("first");
    let mut index = fixture.git.index().expect("there is an index");
    let mut entry = index
        .get_path(std::path::Path::new("left-out.txt"), 0)
        .expect("it is tracked");
    entry.flags |= IndexEntryFlag::EXTENDED.bits();
    entry.flags_extended |= IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
    index.add(&entry).expect("it can be flagged");
    index.write().expect("the index can be written");
    fixture.remove("left-out.txt");
    assert_eq!(summary(&diff(&fixture, &everything())), "");
}

#[test]
fn links_are_shown_as_links_and_never_followed() {
    let fixture = Fixture::new();
    std::fs::write(fixture.outside("secret.txt"), "outside-secret\n").expect("files can be written");
    fixture.write("dir/a.txt", "1\n");
    fixture.write("file.txt", "1\n");
    fixture.commit("first");
    fixture.remove("file.txt");
    fixture.link("../secret.txt", "file.txt");
    std::fs::remove_dir_all(fixture.root().join("dir")).expect("it was there");
    std::fs::create_dir(fixture.outside("dir")).expect("folders can be made");
    std::fs::write(fixture.outside("dir/a.txt"), "outside-secret\n").expect("files can be written");
    fixture.link("../dir", "dir");
    let diff = diff(&fixture, &everything());
    assert!(!format!("{diff:?}").contains("outside-secret"), "{diff:?}");
    insta::assert_snapshot!(summary(&diff), @r"
    untracked added dir +1 -0
    unstaged deleted dir/a.txt +0 -1
    unstaged type-changed file.txt +1 -1
    ");
}

#[test]
fn a_conflict_is_one_change_against_the_last_commit() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "base\n");
    let base = fixture.commit("base");
    fixture.write("a.txt", "theirs\n");
    let theirs = fixture.commit("theirs");
    let base = fixture.git.find_object(base, None).expect("it was committed");
    fixture
        .git
        .reset(&base, git2::ResetType::Hard, None)
        .expect("it can be reset");
    fixture.write("a.txt", "ours\n");
    fixture.commit("ours");
    let theirs = fixture.git.find_annotated_commit(theirs).expect("it was committed");
    fixture
        .git
        .merge(&[&theirs], None, None)
        .expect("a conflict is no error");
    let diff = diff(&fixture, &everything());
    assert_eq!(summary(&diff), "unstaged conflicted a.txt +4 -0\n");
    assert!(diff.changes[0].patch.contains("+<<<<<<<"), "{}", diff.changes[0].patch);
}

#[test]
fn other_repositories_inside_are_left_alone() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    fixture.commit("first");
    git2::Repository::init(fixture.root().join("nested")).expect("git can be initialised");
    fixture.write("nested/inner.txt", "inner\n");
    assert_eq!(summary(&diff(&fixture, &everything())), "");
}

#[test]
fn long_diffs_are_cut_and_say_so() {
    let fixture = Fixture::new();
    fixture.write("long.txt", "a line of some length, over and over\n".repeat(20_000));
    fixture.write("short.txt", "short\n");
    let diff = diff(&fixture, &everything());
    assert!(diff.truncated);
    assert_eq!(
        summary(&diff),
        "untracked added long.txt +20000 -0\nuntracked added short.txt +1 -0\n"
    );
    assert!(diff.changes[0].patch.len() <= GIT_PATCH_BYTES_MAX + 100);
    assert!(diff.changes[0].patch.ends_with("lines of this patch left out ...]\n"));
    fixture.write("huge.txt", "x\n".repeat(5_000_000));
    let diff = self::diff(&fixture, &everything());
    assert_eq!(diff.changes[0].path, "huge.txt");
    assert_eq!((diff.changes[0].patch.as_str(), diff.changes[0].binary), ("", false));
}

#[test]
fn endless_lists_are_cut_and_say_so() {
    let fixture = Fixture::new();
    for number in 0..=GIT_CHANGES_MAX {
        fixture.write(&format!("many/{number}"), "");
    }
    let diff = diff(&fixture, &everything());
    assert!(diff.truncated);
    assert_eq!(diff.changes.len(), GIT_CHANGES_MAX);
}

#[test]
fn a_fifo_in_place_of_an_attributes_file_holds_nobody_up() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "1\n");
    fixture.commit("first");
    fixture.write("a.txt", "2\n");
    let path = fixture.root().join(".gitattributes");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("FIFOs can be made");
    let session = fixture.session(&[]);
    let cancel = session.cancel.clone();
    let trigger = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    let started = Instant::now();
    // It may answer or hang, as libgit2 likes; what counts is that it does not hold the session.
    let _ = read_changes(&session, &everything());
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    trigger.join().expect("no panic");
}

#[test]
fn many_patches_are_bounded_together() {
    let fixture = Fixture::new();
    let long = "a line of some length, over and over\n".repeat(GIT_PATCH_BYTES_MAX / 36);
    let count = GIT_DIFF_BYTES_MAX / GIT_PATCH_BYTES_MAX + 4;
    for number in 0..count {
        fixture.write(&format!("{number:02}.txt"), &long);
    }
    let diff = diff(&fixture, &everything());
    let bytes: usize = diff.changes.iter().map(|change| change.patch.len()).sum();
    assert_eq!((diff.changes.len(), diff.truncated), (count, true));
    assert!(bytes <= GIT_DIFF_BYTES_MAX + 100 * count, "{bytes}");
}

#[test]
fn files_too_large_to_read_have_no_patch() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x\n");
    fixture.commit("first");
    let file = std::fs::File::create(fixture.root().join("a.txt")).expect("files can be made");
    file.set_len(limits::FILE_READ_BYTES_MAX + 1)
        .expect("a hole takes no space");
    let diff = diff(&fixture, &everything());
    assert_eq!(
        (diff.changes[0].patch.as_str(), diff.changes[0].binary, diff.truncated),
        ("", false, true)
    );
}

#[test]
fn context_and_paths_are_bounded() {
    let fixture = Fixture::new();
    let lines = |middle: &str| -> String {
        let around: String = (0..300).map(|number| format!("line {number}\n")).collect();
        format!("{around}{middle}\n{around}")
    };
    fixture.write("a.txt", lines("old"));
    fixture.commit("first");
    fixture.write("a.txt", lines("new"));
    let query = DiffQuery {
        context_lines: 10_000,
        ..everything()
    };
    let shown = diff(&fixture, &query).changes[0]
        .patch
        .lines()
        .filter(|line| line.starts_with(' '))
        .count();
    assert_eq!(shown as u32, 2 * GIT_CONTEXT_LINES_MAX);
    let paths = |count: usize| normal_paths(&vec!["a".to_owned(); count]);
    assert!(paths(GIT_PATHS_MAX).is_ok());
    let message = paths(GIT_PATHS_MAX + 1).expect_err("they are too many").message;
    assert_eq!(message, "1001 paths are more than the limit of 1000.");
}

#[test]
fn tracked_files_are_the_users_own_whatever_their_name_or_a_rule_says() {
    let fixture = Fixture::new();
    for path in ["own.txt", "gone.txt", "dist/built.txt", "made/by.txt"] {
        fixture.write(path, "1\n");
    }
    fixture.write(".gitignore", "made/\n");
    fixture.commit("first");
    for path in ["own.txt", "dist/built.txt", "made/by.txt"] {
        fixture.write(path, "2\n");
    }
    fixture.remove("gone.txt");
    let context = fixture.session(&[]);
    let diff = read_changes(&context, &everything()).expect("the repository can be read");
    assert_eq!(diff.changes.len(), 4, "{}", summary(&diff));
    let call = CallBudget::new("git_diff", crate::Limits::default(), &context.cancel);
    note_places(&call, &context, &diff);
    let places: Vec<(String, bool)> = call
        .places()
        .into_iter()
        .map(|(path, place)| (path, place.is_listed))
        .collect();
    assert!(places.is_empty(), "{places:?}");
    assert!(context.repository.lists("made/by.txt", &context.cancel));
}

#[test]
fn untracked_packages_and_build_output_are_named_without_their_files() {
    let fixture = Fixture::new();
    fixture.write("own.txt", "1\n");
    fixture.write("dist/kept.txt", "1\n");
    fixture.commit("first");
    for path in [
        "fresh.txt",
        "surroundings/pyvenv.cfg",
        "surroundings/lib/a.py",
        "sub/node_modules/b.js",
        "target/CACHEDIR.TAG",
        "target/debug/c.o",
        "dist/new.txt",
        "dist/kept.txt",
    ] {
        fixture.write(path, "2\n");
    }
    insta::assert_snapshot!(summary(&diff(&fixture, &everything())), @r"
    unstaged modified dist/kept.txt +1 -1
    untracked added dist/new.txt +1 -0
    untracked added fresh.txt +1 -0
    untracked added sub/node_modules/ +0 -0
    untracked added surroundings/ +0 -0
    untracked added target/ +0 -0
    ");
    let named = DiffQuery {
        paths: vec!["target".to_owned(), "sub/node_modules/b.js".to_owned()],
        ..everything()
    };
    insta::assert_snapshot!(summary(&diff(&fixture, &named)), @r"
    untracked added sub/node_modules/b.js +1 -0
    untracked added target/CACHEDIR.TAG +1 -0
    untracked added target/debug/c.o +1 -0
    ");
}
