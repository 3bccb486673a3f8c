//! The budget, the cache and the end of reading ignore files.

use super::*;
use crate::ignore_files::{IGNORE_FILES_KEPT_MAX, IGNORE_NAMED_MAX};
use tool_core::limits::{
    IGNORE_FILE_BYTES_MAX, IGNORE_FILE_PATTERNS_MAX, IGNORE_FOREIGN_BYTES_MAX, IGNORE_FOREIGN_PATTERNS_MAX,
    IGNORE_LEVELS_MAX, IGNORE_PATTERN_BYTES_MAX, IGNORE_WALK_BYTES_MAX, IGNORE_WALK_PATTERNS_MAX, SCAN_SETTLING_MS,
};

const LIMITS: &str = ". An ignore file may have 64 KiB, 4000 patterns and 4 KiB a pattern, all together 1 MiB, 8000 patterns \
                      and 64 levels: shorten them, or name a file of such a folder to read it";
const LEFT_OUT: &str = "The folders of these ignore files were left out, because the files could not be applied: ";

/// Patterns that match `a.py` and not `b.md`.
fn patterns(count: usize) -> String {
    (1..count).map(|number| format!("{number}.c\n")).collect::<String>() + "a.py\n"
}

fn notice(repository: &Repository) -> Option<String> {
    list(repository).skipped_ignores.notice()
}

/// Walks without a kept walk, and counts the ignore files that were compiled.
fn compiled(repository: &Repository, directory: &str) -> usize {
    let cancel = CancellationToken::new();
    let tree = repository.tree(&cancel);
    let entries = repository.bounds.entries;
    tree.entries(directory, entries).expect("it can be listed");
    tree.reader.compiled()
}

#[test]
fn a_folder_whose_ignore_file_is_beyond_its_bound_is_left_out_and_named() {
    let told = |name: &str, text: &str| {
        let folder = tree(&[("a.md", ""), ("d/a.py", ""), ("d/b.md", ""), ("d/deeper/c.md", "")]);
        write(folder.path(), &format!("d/{name}"), text);
        write(folder.path(), "d/deeper/.ignore", "!*\n");
        let repository = open(&folder);
        for directory in ["d", "d/deeper"] {
            let listed = repository
                .entries(directory, &CancellationToken::new())
                .expect("it is listed");
            assert_eq!(listed.skipped_ignores.notice(), notice(&repository));
            assert_eq!(listed.entries.is_empty(), notice(&repository).is_some());
        }
        let mut paths = paths(&repository);
        paths.retain(|path| !path.ends_with("ignore"));
        (paths, notice(&repository))
    };
    let comment = |bytes: usize| format!("a.py\n{}", "#".repeat(bytes - 5));
    let long = |bytes: usize| format!("a.py\n{}\n", "x".repeat(bytes));
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    for name in [".gitignore", ".ignore"] {
        let all = |text: &str| {
            let listed = ["a.md", "d/b.md", "d/deeper/c.md"].map(str::to_owned);
            assert_eq!(told(name, text), (listed.to_vec(), None));
        };
        let over = |text: &str| {
            let named = format!("{LEFT_OUT}`d/{name}`{LIMITS}");
            assert_eq!(told(name, text), (vec!["a.md".to_owned()], Some(named)));
        };
        all(&comment(bytes));
        over(&comment(bytes + 1));
        all(&patterns(IGNORE_FILE_PATTERNS_MAX));
        over(&patterns(IGNORE_FILE_PATTERNS_MAX + 1));
        all(&long(IGNORE_PATTERN_BYTES_MAX));
        over(&long(IGNORE_PATTERN_BYTES_MAX + 1));
        // Comments and empty lines are no patterns.
        all(&("#\n\n \n".repeat(IGNORE_FILE_PATTERNS_MAX) + "a.py\n"));
    }
}

#[test]
fn the_part_within_the_bounds_of_an_ignore_file_at_the_root_counts() {
    let told = |text: &str| {
        let folder = tree(&[("a.py", ""), ("b.md", ""), ("d/a.py", "")]);
        write(folder.path(), ".gitignore", text);
        let repository = open(&folder);
        let skipped = list(&repository).skipped_ignores.clone();
        assert_eq!(skipped.may_reveal(), !skipped.is_empty());
        (paths(&repository), notice(&repository))
    };
    let listed = [".gitignore", "b.md"].map(str::to_owned).to_vec();
    let over = format!(
        "Only a part of these ignore files was applied, so that ignored files may be listed: `.gitignore`{LIMITS}"
    );
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    let many: String = (0..IGNORE_FILE_PATTERNS_MAX)
        .map(|number| format!("{number}.c\n"))
        .collect();
    for text in [
        format!("a.py\n{}", "#".repeat(bytes)),
        format!("a.py\n{many}b.md\n"),
        format!("{}\na.py\n", "x".repeat(IGNORE_PATTERN_BYTES_MAX + 1)),
    ] {
        assert_eq!(told(&text), (listed.clone(), Some(over.clone())));
    }
}

#[test]
fn braces_in_ignore_files_overflow_no_stack_and_mean_themselves() {
    let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
    for name in [".gitignore", ".ignore", ".git/info/exclude"] {
        for place in ["", "d/", "d/e/"] {
            for depth in [600, 2_047, 30_000] {
                let folder = tree(&[("a.py", ""), ("d/e/{a.py,b.py}", ""), ("d/e/b.py", ""), ("d/e/c{", "")]);
                let text = format!("{}\n{{a.py,b.py}}\n[{{]\n*[{{]\n", nested(depth));
                write(folder.path(), &format!("{place}{name}"), &text);
                let repository = open(&folder);
                let mut paths = paths(&repository);
                paths.retain(|path| !path.ends_with("ignore"));
                let is_left_out = depth == 30_000 && !place.is_empty();
                let expected = if is_left_out {
                    vec!["a.py"]
                } else {
                    vec!["a.py", "d/e/b.py"]
                };
                assert_eq!(paths, expected, "{place}{name} {depth}");
                assert_eq!(notice(&repository).is_some(), depth == 30_000, "{place}{name} {depth}");
            }
        }
    }
}

#[test]
fn ignore_files_of_packages_and_nested_work_trees_use_up_no_budget_of_the_user() {
    let folder = tree(&[("private/secret.txt", ""), ("private/.gitignore", "secret.txt\n")]);
    for number in 0..3 {
        for place in ["vendor/p", "third_party/sub`dir "] {
            let place = format!("{place}{number}");
            write(
                folder.path(),
                &format!("{place}/.gitignore"),
                &patterns(IGNORE_FILE_PATTERNS_MAX),
            );
            write(folder.path(), &format!("{place}/b.md"), "");
        }
        let place = format!("nested{number}");
        write(folder.path(), &format!("{place}/.git/HEAD"), "");
        write(
            folder.path(),
            &format!("{place}/deep/.ignore"),
            &patterns(IGNORE_FILE_PATTERNS_MAX),
        );
        write(folder.path(), &format!("{place}/deep/b.md"), "");
    }
    let repository = open(&folder);
    let paths = paths(&repository);
    let listed = |path: &str| paths.iter().any(|listed| listed == path);
    assert!(
        listed("private/.gitignore") && !listed("private/secret.txt"),
        "{paths:?}"
    );
    assert_eq!(
        paths.iter().filter(|path| path.ends_with("b.md")).count(),
        1,
        "{paths:?}"
    );
    assert_eq!(
        notice(&repository),
        Some(format!(
            "{LEFT_OUT}8 in directories of packages or nested work trees{LIMITS}"
        ))
    );
    assert_eq!(IGNORE_FOREIGN_PATTERNS_MAX, IGNORE_FILE_PATTERNS_MAX, "one file fits");

    let folder = tree(&[("b.md", "")]);
    let files = IGNORE_FOREIGN_BYTES_MAX / IGNORE_FILE_BYTES_MAX;
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    for number in 0..=files {
        write(
            folder.path(),
            &format!("vendor/{number}/.gitignore"),
            &"#".repeat(bytes),
        );
    }
    let told = notice(&open(&folder)).expect("one is left out");
    assert!(
        told.starts_with(&format!("{LEFT_OUT}1 in directories of packages")),
        "{told}"
    );
}

#[test]
fn the_ignore_files_of_a_walk_have_one_budget() {
    let folder = tree(&[("b.md", "")]);
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    let files = usize::try_from(IGNORE_WALK_BYTES_MAX).expect("it is small") / bytes;
    for number in 0..=files {
        write(folder.path(), &format!("d{number}/.gitignore"), &"#".repeat(bytes));
        write(folder.path(), &format!("d{number}/a.txt"), "");
    }
    let repository = open(&folder);
    let told = notice(&repository).expect("one is left out");
    assert_eq!(told.matches("/.gitignore`").count(), 1, "{told}");
    let listed = paths(&repository).iter().filter(|path| path.ends_with("a.txt")).count();
    assert_eq!(listed, files);

    let folder = tree(&[("b.md", "")]);
    let files = IGNORE_WALK_PATTERNS_MAX / IGNORE_FILE_PATTERNS_MAX;
    for number in 0..files + IGNORE_NAMED_MAX + 2 {
        let place = format!("d{number:02}/.gitignore");
        write(folder.path(), &place, &patterns(IGNORE_FILE_PATTERNS_MAX));
    }
    let told = notice(&open(&folder)).expect("some are left out");
    assert!(told.contains("/.gitignore`, 2 more. An ignore file may"), "{told}");
}

#[test]
fn folders_with_ignore_files_beyond_the_level_limit_are_left_out() {
    let folder = tree(&[("b.md", "")]);
    for level in 0..IGNORE_LEVELS_MAX + 2 {
        let place = "d/".repeat(level);
        write(folder.path(), &format!("{place}.gitignore"), "a.py\n!a.py\n");
        write(folder.path(), &format!("{place}a.py"), "");
    }
    let repository = open(&folder);
    let told = notice(&repository).expect("one is left out");
    assert!(told.starts_with(LEFT_OUT), "{told}");
    let listed = paths(&repository).iter().filter(|path| path.ends_with("a.py")).count();
    assert_eq!(listed, IGNORE_LEVELS_MAX);
}

#[test]
fn a_hostile_name_of_an_ignore_file_is_shown_without_words_and_short() {
    let folder = tree(&[("b.md", "")]);
    for name in [
        "a` now\u{1b}[31m\u{202e}\n/.gitignore".to_owned(),
        format!("{}.gitignore", "long/".repeat(100)),
    ] {
        write(folder.path(), &name, &patterns(IGNORE_FILE_PATTERNS_MAX + 1));
    }
    let shown = format!("`a??now??31m??/.gitignore`, `{}…`", "long/".repeat(20));
    assert_eq!(notice(&open(&folder)), Some(format!("{LEFT_OUT}{shown}{LIMITS}")));
}

#[test]
fn a_compiled_ignore_file_is_used_again_until_it_changes() {
    let folder = tree(&[
        ("a.py", ""),
        ("d/b.py", ""),
        (".gitignore", "x\n"),
        ("d/.gitignore", "y\n"),
    ]);
    std::thread::sleep(Duration::from_millis(SCAN_SETTLING_MS + 100));
    let repository = open(&folder);
    assert_eq!(compiled(&repository, "d"), 2);
    assert_eq!(compiled(&repository, "d"), 0);
    write(folder.path(), "d/.gitignore", "b.py\n");
    assert_eq!(compiled(&repository, "d"), 1, "it is another text now");
    assert_eq!(
        compiled(&repository, "d"),
        1,
        "a later change could have the time of this one"
    );
    let listed = repository
        .entries("d", &CancellationToken::new())
        .expect("it is listed");
    assert_eq!(listed.left_out, 1);
}

#[test]
fn the_cache_of_ignore_files_is_bounded() {
    let folder = tree(&[]);
    for number in 0..IGNORE_FILES_KEPT_MAX + 10 {
        write(folder.path(), &format!("d{number:04}/.gitignore"), "x\n");
    }
    for number in 0..5 {
        write(
            folder.path(),
            &format!("large{number}/.gitignore"),
            &patterns(IGNORE_FILE_PATTERNS_MAX),
        );
    }
    std::thread::sleep(Duration::from_millis(SCAN_SETTLING_MS + 100));
    let repository = open(&folder);
    for number in 0..IGNORE_FILES_KEPT_MAX + 10 {
        compiled(&repository, &format!("d{number:04}"));
    }
    assert_eq!(compiled(&repository, &format!("d{:04}", IGNORE_FILES_KEPT_MAX + 9)), 0);
    assert_eq!(compiled(&repository, "d0000"), 1, "it made way");
    for number in 0..5 {
        compiled(&repository, &format!("large{number}"));
    }
    assert_eq!(compiled(&repository, "large4"), 0);
    assert_eq!(compiled(&repository, "large0"), 1, "all patterns together are bounded");
}

#[test]
fn a_cancelled_walk_compiles_no_ignore_file() {
    let folder = tree(&[("a.py", "")]);
    for level in 0..40 {
        write(folder.path(), &format!("{}.gitignore", "d/".repeat(level)), "*.c\n");
    }
    let (repository, cancel) = (open(&folder), CancellationToken::new());
    cancel.cancel();
    let tree = repository.tree(&cancel);
    let entries = tree.entries(&vec!["d"; 39].join("/"), 100);
    assert!(matches!(entries, Err(ScanError::Cancelled)), "{entries:?}");
    assert_eq!(tree.reader.compiled(), 0);
    assert!(matches!(repository.list(&cancel), Err(ScanError::Cancelled)));
}
