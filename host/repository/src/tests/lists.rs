//! Entries that a walk lists, and the ends of a walk.

use super::*;
use crate::walk::HIDDEN_ENTRIES_MAX;

#[test]
fn ignore_rules_and_skipped_directories_are_left_out() {
    let folder = tree(&[
        (".gitignore", "*.log\n/only-here\n!keep.log\nignored/\n"),
        ("a.log", ""),
        ("keep.log", ""),
        ("only-here", ""),
        ("sub/only-here", ""),
        ("sub/.gitignore", "b.txt\n!c.log\n"),
        ("sub/b.txt", ""),
        ("sub/c.log", ""),
        ("sub/.ignore", "!d.log\nscratch\n"),
        ("sub/d.log", ""),
        ("sub/scratch/x", ""),
        ("ignored/x", ""),
        ("node_modules/x.js", ""),
        ("src/dist/x.js", ""),
        ("src/Build/x.py", ""),
        ("myenv/pyvenv.cfg", ""),
        ("myenv/lib/x.py", ""),
        (".hidden-by-dot", ""),
        ("zebra", ""),
    ]);
    let repository = open(&folder);
    assert_eq!(
        paths(&repository),
        [
            ".gitignore",
            ".hidden-by-dot",
            "keep.log",
            "src/Build/x.py",
            "sub/.gitignore",
            "sub/.ignore",
            "sub/c.log",
            "sub/d.log",
            "sub/only-here",
            "zebra",
        ]
    );
    let list = list(&repository);
    assert_eq!(list.directories, ["src", "src/Build", "sub"]);
    assert!(list.complete);
    assert_eq!(list.beneath("sub").len(), 5);
    assert_eq!(list.beneath("su").len(), 0);
    assert!(list.find("zebra").is_some() && list.find("a.log").is_none());
}

#[test]
fn ignore_files_above_the_root_count_only_in_a_work_tree() {
    let folder = tree(&[
        (".gitignore", "never-in-force\n"),
        ("work/.gitignore", "*.tmp\n/sub/exact.txt\n!/sub/kept.tmp\n"),
        ("work/sub/a.tmp", ""),
        ("work/sub/kept.tmp", ""),
        ("work/sub/exact.txt", ""),
        ("work/sub/deeper/exact.txt", ""),
        ("work/sub/never-in-force", ""),
    ]);
    let root = folder.path().join("work/sub");
    assert_eq!(
        paths(&open_with(&root, &Options::default())),
        ["a.tmp", "deeper/exact.txt", "exact.txt", "kept.tmp", "never-in-force"]
    );
    git_directory(folder.path(), "work/.git");
    write(folder.path(), "work/.git/info/exclude", "deeper\n");
    assert_eq!(
        paths(&open_with(&root, &Options::default())),
        ["kept.tmp", "never-in-force"]
    );
}

#[test]
fn a_work_tree_inside_has_its_own_git_rules() {
    let folder = tree(&[
        (".gitignore", "*.gen\n"),
        (".ignore", "*.both\n"),
        ("a.gen", ""),
        ("module/a.gen", ""),
        ("module/a.both", ""),
        ("module/.gitignore", "own\n"),
        ("module/own", ""),
    ]);
    git_directory(folder.path(), "module/.git");
    assert_eq!(
        paths(&open(&folder)),
        [".gitignore", ".ignore", "module/.gitignore", "module/a.gen"]
    );
}

#[test]
fn rules_for_another_tree_do_not_count_outside_of_a_work_tree() {
    let listed = |rules: &str, is_work_tree: bool| {
        let folder = tree(&[("a.c", ""), ("b/.gitignore", "*.o\n"), ("b/c.c", ""), ("b/c.o", "")]);
        write(folder.path(), ".gitignore", rules);
        if is_work_tree {
            git_directory(folder.path(), ".git");
        }
        let repository = open(&folder);
        let entries = repository
            .entries("", &CancellationToken::new())
            .expect("the root can be listed")
            .entries;
        let files = list(&repository)
            .files
            .iter()
            .map(|file| file.path.clone())
            .collect::<Vec<_>>();
        (files.join(" "), entries.len())
    };
    let all = (".gitignore a.c b/.gitignore b/c.c".to_owned(), 3);
    assert_eq!(listed("*.o\n/*\n!/debian/\n", false), all, "packagers write such rules");
    assert_eq!(listed("/*\n!/debian/\n", true), (String::new(), 0), "there git counts");
    assert_eq!(listed("/*\n", false), (String::new(), 0), "they say just that");
    assert_eq!(
        listed("/*\n!/a.c\n", false),
        ("a.c".to_owned(), 1),
        "what they name is there"
    );
}

#[test]
fn hostile_ignore_files_do_not_hold_up_the_walk() {
    let folder = tree(&[("a/x.py", ""), ("b/x.py", ""), ("c/x.py", ""), ("d/x.py", "")]);
    let at = |path: &str| folder.path().join(path);
    rustix::fs::mknodat(CWD, at("a/.gitignore"), FileType::Fifo, 0o600.into(), 0).expect("a FIFO is made");
    symlink("/dev/zero", at("b/.gitignore")).expect("a link is made");
    fs::create_dir(at("c/.gitignore")).expect("a directory is made");
    fs::write(at("d/.gitignore"), b"[\n{a\n\\\n\xff\xfe\n!\n**/**/x.txt\n").expect("a file is written");
    assert_eq!(
        paths(&open(&folder)),
        ["a/x.py", "b/x.py", "c/x.py", "d/.gitignore", "d/x.py"]
    );
}

#[test]
fn names_that_are_not_utf8_are_counted() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tree(&[("a.txt", "")]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(folder.path().join(name), "").expect("a file is written");
    let repository = open(&folder);
    let list = list(&repository);
    assert_eq!((list.files.len(), list.not_utf8), (1, 1));
    assert_eq!(
        repository
            .entries("", &CancellationToken::new())
            .expect("the root is listed")
            .left_out,
        1
    );
}

#[test]
fn a_walk_ends_at_its_bounds_and_says_so() {
    let mut files: Vec<(String, &str)> = (0..600).map(|n| (format!("d{}/f{n}", n % 40), "")).collect();
    files.push(("at-the-root".to_owned(), ""));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let folder = tree(&files);
    let walk = |bounds| {
        let repository = Repository::open_bounded(folder.path(), &Options::default(), bounds).expect("it opens");
        list(&repository)
    };
    let late = walk(WalkBounds {
        time: Duration::ZERO,
        ..WalkBounds::default()
    });
    assert!(!late.complete);
    let found: Vec<&str> = late.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(found, ["at-the-root"], "the root is always looked at");
    let many = walk(WalkBounds {
        entries: 100,
        ..WalkBounds::default()
    });
    assert!(!many.complete && many.files.len() < 600);
    assert!(walk(WalkBounds::default()).complete);
}

#[test]
fn a_cancelled_walk_is_an_error() {
    let folder = tree(&[("a", "")]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(matches!(open(&folder).list(&cancel), Err(ScanError::Cancelled)));
}

#[test]
fn links_are_in_no_walk_and_listed_as_links() {
    let folder = tree(&[
        ("src/a.py", "12"),
        (".env", ""),
        ("build/x", ""),
        (".gitignore", "y\n"),
        ("y", ""),
    ]);
    symlink("src", folder.path().join("link")).expect("a link is made");
    symlink("/etc", folder.path().join("etc")).expect("a link is made");
    let repository = open(&folder);
    assert_eq!(paths(&repository), [".gitignore", "src/a.py"]);
    let listed = repository
        .entries(".", &CancellationToken::new())
        .expect("the root is listed");
    let left_out = listed.left_out;
    let entries: Vec<_> = listed
        .entries
        .iter()
        .map(|entry| (entry.path.as_str(), entry.kind, entry.size))
        .collect();
    assert_eq!(
        entries,
        [
            (".gitignore", EntryKind::File, 2),
            ("etc", EntryKind::Symlink, 0),
            ("link", EntryKind::Symlink, 0),
            ("src", EntryKind::Directory, 0),
        ]
    );
    assert_eq!(left_out, 3);
    let listed = repository
        .entries("link/", &CancellationToken::new())
        .expect("the linked directory is listed");
    assert_eq!(listed.entries[0].path, "src/a.py");
    assert!(
        repository
            .entries("build", &CancellationToken::new())
            .expect("a skipped directory can be asked for")
            .entries
            .len()
            == 1
    );
    assert!(matches!(
        repository.entries("src/a.py", &CancellationToken::new()),
        Err(OpenError::NotFound { .. })
    ));
}

#[test]
fn what_cannot_be_read_is_counted() {
    let folder = tree(&[("a.txt", ""), ("closed/b.txt", "")]);
    let closed = folder.path().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("the mode is set");
    let list = list(&open(&folder));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("the mode is set");
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        (list.files.len(), list.unreadable),
        if is_root { (2, 0) } else { (1, 1) }
    );
}

#[test]
fn a_deep_tree_neither_overflows_nor_leaks_handles() {
    let deep = format!("{}x.txt", "d/".repeat(900));
    let folder = tree(&[(&deep, "x")]);
    let repository = open(&folder);
    assert_eq!(paths(&repository), [deep.as_str()]);
    assert_eq!(text(&repository, &deep), "x");
}

#[test]
fn a_list_is_used_again_only_while_it_holds() {
    let folder = tree(&[
        ("a.txt", "1"),
        ("sub/b.txt", "1"),
        ("sub/deploy-key.txt", "harmless"),
        ("sub/.gitignore", "ignored\n"),
        ("sub/ignored", ""),
    ]);
    git_directory(folder.path(), ".git");
    write(folder.path(), ".git/info/exclude", "");
    let at = |path: &str| folder.path().join(path);
    let bounds = WalkBounds {
        settling: Duration::from_millis(60),
        ..WalkBounds::default()
    };
    let settle = || std::thread::sleep(Duration::from_millis(100));
    let repository = Repository::open_bounded(folder.path(), &Options::default(), bounds).expect("it opens");
    let names = |list: &FileList| list.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    settle();
    let first = list(&repository);
    let unchanged = list(&repository);
    assert!(Arc::ptr_eq(&first, &unchanged), "nothing changed, nothing is walked");
    let distrustful = Options {
        distrust_times: true,
        ..Options::default()
    };
    let other = Repository::open_bounded(folder.path(), &distrustful, bounds).expect("it opens");
    assert!(repository.has_reliable_times() && !other.has_reliable_times());
    let (walked, again) = (list(&other), list(&other));
    assert!(!Arc::ptr_eq(&walked, &again), "times tell nothing, each list is walked");
    // A size is brought up to date without a walk.
    fs::write(at("a.txt"), "12345").expect("a file is written");
    let sized = list(&repository);
    assert_eq!(sized.find("a.txt").map(|file| file.size), Some(5));
    assert_eq!(names(&sized), names(&first));
    // Every other change takes one.
    let mut expected = names(&first);
    let check = |expected: &mut Vec<String>| {
        expected.sort();
        assert_eq!(names(&list(&repository)), *expected);
        settle();
        assert_eq!(names(&list(&repository)), *expected);
    };
    write(folder.path(), "sub/c.txt", "");
    expected.push("sub/c.txt".into());
    check(&mut expected);
    fs::write(at("sub/.gitignore"), "c.txt\n").expect("a file is written");
    expected.retain(|path| path != "sub/c.txt");
    expected.push("sub/ignored".into());
    check(&mut expected);
    fs::write(at(".git/info/exclude"), "b.txt\n").expect("a file is written");
    expected.retain(|path| path != "sub/b.txt");
    check(&mut expected);
    fs::write(at("sub/deploy-key.txt"), KEY_TEXT).expect("a file is written");
    expected.retain(|path| path != "sub/deploy-key.txt");
    check(&mut expected);
    fs::write(at("sub/deploy-key.txt"), "harmless again").expect("a file is written");
    expected.push("sub/deploy-key.txt".into());
    check(&mut expected);
    fs::rename(at("sub"), at("renamed")).expect("a directory is renamed");
    expected = expected.iter().map(|path| path.replace("sub/", "renamed/")).collect();
    check(&mut expected);
}

#[test]
fn callers_at_the_same_time_agree() {
    let files: Vec<(String, &str)> = (0..300).map(|n| (format!("d{}/f{n}", n % 20), "")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let folder = tree(&files);
    let repository = open(&folder);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(|| list(&repository))).collect();
        for caller in callers {
            assert_eq!(caller.join().expect("no panic").files.len(), 300);
        }
    });
}

#[test]
fn what_a_walk_saw_is_judged_again_when_it_is_opened() {
    let folder = tree(&[
        ("a.txt", "a"),
        (".env", "KEY=1"),
        ("b.txt", "b"),
        ("dir/c.txt", "c"),
        ("key.txt", "k"),
    ]);
    let at = |path: &str| folder.path().join(path);
    let repository = open(&folder);
    assert_eq!(paths(&repository).len(), 4);
    fs::remove_file(at("a.txt")).expect("removed");
    symlink(".env", at("a.txt")).expect("a link is made");
    fs::remove_file(at("b.txt")).expect("removed");
    fs::hard_link(at(".env"), at("b.txt")).expect("a hard link is made");
    fs::rename(at("dir"), at("moved")).expect("renamed");
    symlink("..", at("dir")).expect("a link is made");
    fs::write(at("key.txt"), KEY_TEXT).expect("a file is written");
    denied(&repository, "a.txt");
    assert_eq!(denied(&repository, "b.txt"), HARD_LINK);
    assert_eq!(denied(&repository, "dir/c.txt"), OUTSIDE);
    assert_eq!(denied(&repository, "key.txt"), "is a private key");
}

#[test]
fn settings_are_hidden_where_they_hold_a_secret_and_only_there() {
    let word = ["correct", "horse"].concat() + "7";
    let secret = [
        (".envrc", format!("export DB_PASSWORD={word}\n")),
        (".dev.vars", format!("API_TOKEN = \"{word}\"\n")),
        (
            "local.settings.json",
            format!("{{\"Values\": {{\"Db\": \"Server=x;Password={word};\"}}}}"),
        ),
        (
            "NuGet.Config",
            format!("<add key=\"ClearTextPassword\" value=\"{word}\" />"),
        ),
        ("settings.xml", format!("<server><password>{word}</password></server>")),
        (".yarnrc.yml", format!("npmAuthToken: {word}\n")),
        (
            "pip.conf",
            format!("index-url = https://me:{}@pypi.example.org/\n", word.repeat(2)),
        ),
        (".streamlit/secrets.toml", format!("db_password = \"{word}\"\n")),
    ];
    let plain = [
        (".envrc", "use flake\nexport PGPASSWORD=$POSTGRES_PASSWORD\n"),
        (".dev.vars", "LOG_LEVEL = \"debug\"\n"),
        ("local.settings.json", "{\"Values\": {\"Runtime\": \"python\"}}"),
        ("NuGet.Config", "<add key=\"Password\" value=\"%NUGET_PASSWORD%\" />"),
        (
            "settings.xml",
            "<server><password>${env.MAVEN_PASSWORD}</password></server>",
        ),
        (".yarnrc.yml", "npmAuthToken: ${NPM_TOKEN}\nnodeLinker: node-modules\n"),
        ("pip.conf", "index-url = https://pypi.example.org/\n"),
        (".streamlit/secrets.toml", "# db_password\n"),
    ];
    for (name, content) in &secret {
        let folder = tree(&[(name, content), ("a.txt", "a")]);
        let repository = open(&folder);
        assert_eq!(denied(&repository, name), "holds a secret", "{name}");
    }
    for (name, content) in plain {
        let folder = tree(&[(name, content), ("a.txt", "a")]);
        let repository = open(&folder);
        assert!(repository.open_at(name).is_ok(), "{name}");
        assert!(paths(&repository).contains(&name.to_owned()), "{name}");
    }
    let folder = tree(
        &secret
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect::<Vec<_>>(),
    );
    assert_eq!(paths(&open(&folder)), [""; 0]);
}

/// The files that the `ignore` crate's own walk lists; our walk differs only in how it opens things. That walk sees the
/// border of a work tree inside another only where it asks for work trees at all.
fn reference_list(root: &Path, work_trees: bool) -> Vec<String> {
    let mut found: Vec<String> = ignore::WalkBuilder::new(root)
        .hidden(false)
        .require_git(work_trees)
        .parents(false)
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| Some(entry.path().strip_prefix(root).ok()?.to_str()?.to_owned()))
        .filter(|path| !path.split('/').any(|part| part == ".git"))
        .collect();
    found.sort();
    found
}

mod ignore_rules {
    use super::*;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = String> {
        let patterns = [
            "x.txt",
            "*.log",
            "/a",
            "a/",
            "a/b",
            "a/**",
            "**/b",
            "/*",
            "!x.txt",
            "!*.log",
            "!/a/",
            "!a/b/x.txt",
            "b/*",
            "[xy].txt",
            "?.log",
            "# x",
            "\\!x.txt",
            "*",
            "!*",
            "!*/",
            "a/b/**/x.txt",
            " ",
            "b/x.txt ",
        ];
        prop::sample::select(patterns.to_vec()).prop_map(str::to_owned)
    }

    fn file() -> impl Strategy<Value = Option<String>> {
        prop::option::of(prop::collection::vec(line(), 0..4).prop_map(|lines| lines.join("\n")))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn are_those_that_search_programs_know(
            git in prop::collection::vec(file(), 4),
            search in prop::collection::vec(file(), 4),
            work_trees in any::<bool>(),
        ) {
            let folder = tree(&[]);
            for (index, directory) in ["", "a/", "a/b/", "c/"].into_iter().enumerate() {
                for name in ["x.txt", "y.log", "!x.txt", "b/x.txt", "b/z.log"] {
                    write(folder.path(), &format!("{directory}{name}"), "");
                }
                for (name, content) in [(".gitignore", &git[index]), (".ignore", &search[index])] {
                    if let Some(content) = content {
                        write(folder.path(), &format!("{directory}{name}"), content);
                    }
                }
            }
            if work_trees {
                git_directory(folder.path(), ".git");
                git_directory(folder.path(), "a/.git");
            }
            let root = folder.path().canonicalize().expect("a real path");
            let known = reference_list(&root, work_trees);
            // Git's rules at the root that leave nothing and were written for another tree are a matter of their own. An
            // `.ignore` file beside them may bring a file back, so the list of a search program is not empty then.
            let includes = |rules: &Option<String>| {
                let rules = rules.as_deref();
                rules.is_some_and(|rules| rules.lines().any(|line| line.starts_with('!')))
            };
            prop_assume!(work_trees || !includes(&git[0]) || (!known.is_empty() && !includes(&search[0])));
            prop_assert_eq!(paths(&open(&folder)), known);
        }
    }
}

#[test]
fn the_bounds_of_a_walk_are_those_of_limits() {
    use tool_core::limits::{SCAN_ENTRIES_MAX, SCAN_SECONDS_MAX, SCAN_SETTLING_MS};
    let bounds = WalkBounds::default();
    let milliseconds = (bounds.time.as_millis(), bounds.settling.as_millis());
    assert_eq!(
        milliseconds,
        (u128::from(SCAN_SECONDS_MAX) * 1_000, u128::from(SCAN_SETTLING_MS))
    );
    assert_eq!(bounds.entries, SCAN_ENTRIES_MAX);
}

#[test]
fn a_large_machine_walks_with_few_threads() {
    assert_eq!(walk::thread_count(1), 1);
    assert_eq!(walk::thread_count(96), tool_core::limits::SCAN_THREADS_MAX);
}

#[test]
fn of_a_huge_hidden_directory_a_bounded_part_is_remembered() {
    let folder = tree(&[("a.py", ""), (".ssh/known_hosts", "")]);
    for number in 0..HIDDEN_ENTRIES_MAX + 50 {
        fs::File::create(folder.path().join(format!(".ssh/{number}"))).expect("a file is made");
    }
    let repository = open(&folder);
    assert_eq!(list(&repository).files.len(), 1);
    let remembered = repository.scanned().expect("it was walked").hidden.len() as u64;
    assert!(remembered <= HIDDEN_ENTRIES_MAX, "{remembered}");
}
