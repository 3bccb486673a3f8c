//! The budget, the cache and the end of reading ignore files.

use super::*;
use tool_core::limits::{
    IGNORE_FILE_BYTES_MAX, IGNORE_FILE_PATTERNS_MAX, IGNORE_FILES_KEPT_MAX, IGNORE_LEVELS_MAX, IGNORE_NAMED_MAX,
    IGNORE_WALK_BYTES_MAX, IGNORE_WALK_PATTERNS_MAX, SCAN_SETTLING_MS,
};

const LIMITS: &str = "over the limits (64 KiB and 4000 patterns a file, 1 MiB and 8000 patterns in all, 64 levels): ";

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
fn an_ignore_file_beyond_its_bound_does_not_count_and_is_named() {
    let told = |text: &str| {
        let folder = tree(&[("a.py", ""), ("b.md", "")]);
        fs::write(folder.path().join(".gitignore"), text).expect("a file is written");
        let repository = open(&folder);
        let paths = paths(&repository);
        let listed = repository.entries("", &CancellationToken::new()).expect("it is listed");
        assert_eq!(listed.skipped_ignores.notice(), notice(&repository));
        (paths.contains(&"a.py".to_owned()), notice(&repository))
    };
    let over = Some(format!("1 ignore file was not applied: it is {LIMITS}`.gitignore`"));
    let comment = |bytes: usize| format!("a.py\n{}", "#".repeat(bytes - 5));
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    assert_eq!(told(&comment(bytes)), (false, None));
    assert_eq!(told(&comment(bytes + 1)), (true, over.clone()));
    assert_eq!(told(&patterns(IGNORE_FILE_PATTERNS_MAX)), (false, None));
    assert_eq!(told(&patterns(IGNORE_FILE_PATTERNS_MAX + 1)), (true, over));
    // Comments and empty lines are no patterns.
    assert_eq!(
        told(&("#\n\n \n".repeat(IGNORE_FILE_PATTERNS_MAX) + "a.py\n")),
        (false, None)
    );
}

#[test]
fn the_ignore_files_of_a_walk_have_one_budget() {
    let folder = tree(&[("b.md", "")]);
    let bytes = usize::try_from(IGNORE_FILE_BYTES_MAX).expect("it is small");
    let files = usize::try_from(IGNORE_WALK_BYTES_MAX).expect("it is small") / bytes;
    for number in 0..=files {
        write(folder.path(), &format!("d{number}/.gitignore"), &"#".repeat(bytes));
    }
    let told = notice(&open(&folder)).expect("one is left out");
    assert!(
        told.starts_with("1 ignore file was not applied: it is over the limits"),
        "{told}"
    );

    let folder = tree(&[("b.md", "")]);
    let files = IGNORE_WALK_PATTERNS_MAX / IGNORE_FILE_PATTERNS_MAX;
    for number in 0..files + IGNORE_NAMED_MAX + 2 {
        let place = format!("d{number:02}/.gitignore");
        write(folder.path(), &place, &patterns(IGNORE_FILE_PATTERNS_MAX));
    }
    let told = notice(&open(&folder)).expect("some are left out");
    assert!(
        told.starts_with("10 ignore files were not applied: they are over the limits"),
        "{told}"
    );
    assert!(told.ends_with("/.gitignore` and 2 more"), "{told}");
}

#[test]
fn ignore_files_beyond_the_level_limit_do_not_count() {
    let folder = tree(&[("b.md", "")]);
    for level in 0..IGNORE_LEVELS_MAX + 2 {
        let place = "d/".repeat(level);
        write(folder.path(), &format!("{place}.gitignore"), "a.py\n!a.py\n");
        write(folder.path(), &format!("{place}a.py"), "");
    }
    let told = notice(&open(&folder)).expect("two are left out");
    assert!(told.starts_with("2 ignore files were not applied"), "{told}");
}

#[test]
fn a_hostile_name_of_an_ignore_file_is_shown_clean_and_short() {
    let folder = tree(&[("b.md", "")]);
    write(
        folder.path(),
        "a\u{1b}[31m\u{202e}\n/.gitignore",
        &patterns(IGNORE_FILE_PATTERNS_MAX + 1),
    );
    write(
        folder.path(),
        &format!("{}/.gitignore", "long/".repeat(100)),
        &patterns(IGNORE_FILE_PATTERNS_MAX + 1),
    );
    let told = notice(&open(&folder)).expect("both are left out");
    assert!(
        !told.contains(['\u{1b}', '\u{202e}', '\n']) && told.len() < 600,
        "{told:?}"
    );
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
