//! What git tracks is part of the list, in real git repositories.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// What git lists: tracked files, and with `others` also the untracked ones that no rule ignores.
#[expect(clippy::disallowed_methods, reason = "git answers for tests")]
pub(super) fn git_files(folder: &Path, others: bool) -> Vec<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["ls-files", "-z", "--cached"]);
    if others {
        git.args(["--others", "--exclude-standard"]);
    }
    let output = git.output().expect("git is installed").stdout;
    let output = String::from_utf8(output).expect("the names are UTF-8");
    let mut files: Vec<String> = output
        .split_terminator('\0')
        .filter(|path| folder.join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    files
}

const SKIPPED_SOURCES: [(&str, &str); 8] = [
    ("build/gulpfile.ts", ""),
    ("dist/index.js", ""),
    ("src/env/posix.py", ""),
    ("venv/notes.md", ""),
    ("fixtures/node_modules/left/index.js", ""),
    ("fixtures/__pycache__/a.pyc", ""),
    ("fixtures/python/pyvenv.cfg", ""),
    ("main.ts", ""),
];

#[test]
fn tracked_files_are_listed_in_directories_of_any_name() {
    let folder = tree(&SKIPPED_SOURCES);
    assert_eq!(
        paths(&open(&folder)),
        ["main.ts"],
        "outside git the list of names holds"
    );
    commit_all(folder.path());
    let repository = open(&folder);
    assert_eq!(paths(&repository), git_files(folder.path(), true));
    // Untracked files count in what may hold sources, and nowhere else.
    let others = [
        ("build/new.ts", true),
        ("src/env/deep/new.py", true),
        ("src/env/node_modules/x.js", false),
        ("fixtures/node_modules/right/index.js", false),
        ("fixtures/node_modules/left/new.js", false),
        ("fixtures/__pycache__/b.pyc", false),
        ("fixtures/python/lib.py", false),
        ("src/dist/x.js", false),
    ];
    for (path, _) in others {
        write(folder.path(), path, "");
    }
    let listed = paths(&repository);
    for (path, counts) in others {
        assert_eq!(listed.iter().any(|file| file == path), counts, "{path}");
    }
    assert_eq!(listed.len(), SKIPPED_SOURCES.len() + 2);
    let skipped = list(&repository).skipped.clone();
    assert_eq!(skipped, ["src/dist", "src/env/node_modules"]);
    let not_listed = list(&repository).not_listed("src");
    assert_eq!((not_listed.skipped, not_listed.skipped_named), (2, skipped.clone()));
    // What a caller names is looked at.
    let named = |path: &str| {
        let list = repository
            .list_named(path, &CancellationToken::new())
            .expect("it is walked");
        list.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(named("src/dist"), ["src/dist/x.js"]);
    assert_eq!(
        named("fixtures/python"),
        ["fixtures/python/lib.py", "fixtures/python/pyvenv.cfg"]
    );
    assert_eq!(named("src/dist/x.js"), ["src/dist/x.js"]);
    let entries = |path: &str| {
        let listed = repository
            .entries(path, &CancellationToken::new())
            .expect("it is listed");
        listed.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
    };
    assert_eq!(entries("src"), ["src/env"]);
    assert_eq!(entries("fixtures").len(), 3);
    assert_eq!(repository.find_made_directory("build/new.ts"), None);
    assert_eq!(repository.find_made_directory("src/dist/x.js"), Some("src/dist"));
}

#[test]
fn tracked_files_are_listed_although_a_rule_of_git_ignores_them() {
    let folder = tree(&[
        (".gitignore", "scripts/*\n*.log\nout/\n"),
        ("scripts/writer.py", ""),
        ("scripts/mine.py", ""),
        ("out/deep/kept.txt", ""),
        ("out/deep/other.txt", ""),
        ("out/build/kept.txt", ""),
        ("a.log", ""),
        ("hidden.env", ""),
    ]);
    git(folder.path(), &["init", "--quiet"]);
    git(
        folder.path(),
        &[
            "add",
            "-f",
            ".gitignore",
            "scripts/writer.py",
            "out/deep/kept.txt",
            "out/build/kept.txt",
            "hidden.env",
        ],
    );
    let repository = open(&folder);
    let expected = [
        ".gitignore",
        "out/build/kept.txt",
        "out/deep/kept.txt",
        "scripts/writer.py",
    ];
    assert_eq!(paths(&repository), expected);
    assert_eq!(
        list(&repository).ignored,
        ["a.log", "out/deep/other.txt", "scripts/mine.py"]
    );
    assert_eq!(list(&repository).hidden, 2, "`.git` and a tracked `hidden.env`");
    // A list of an earlier walk ends with the index that it rests on, and outlives one that git only refreshed.
    git(folder.path(), &["add", "-f", "a.log"]);
    assert!(paths(&repository).iter().any(|path| path == "a.log"));
    git(
        folder.path(),
        &["rm", "--quiet", "--cached", "a.log", "scripts/writer.py"],
    );
    assert_eq!(
        paths(&repository),
        [".gitignore", "out/build/kept.txt", "out/deep/kept.txt"]
    );
    // `.ignore` speaks to search programs, and so of tracked files.
    write(folder.path(), "out/.ignore", "deep/\n");
    assert_eq!(paths(&repository), [".gitignore", "out/build/kept.txt"]);
}

#[test]
fn a_folder_of_a_work_tree_and_a_repository_in_it_know_what_they_track() {
    let inner = tree(&[("env/inner.py", "")]);
    commit_all(inner.path());
    let folder = tree(&[("sub/build/a.py", ""), ("sub/b.py", ""), (".gitignore", "build/\n")]);
    git(folder.path(), &["init", "--quiet"]);
    let at = inner.path().to_str().expect("UTF-8");
    git(folder.path(), &["submodule", "--quiet", "add", at, "sub/lib"]);
    git(folder.path(), &["add", "-f", "sub/build/a.py", "sub/b.py"]);
    write(folder.path(), "sub/build/new.py", "");
    assert_eq!(
        paths(&open(&folder)),
        [
            ".gitignore",
            ".gitmodules",
            "sub/b.py",
            "sub/build/a.py",
            "sub/lib/.git",
            "sub/lib/env/inner.py"
        ]
        .into_iter()
        .filter(|path| !path.ends_with("/.git"))
        .collect::<Vec<_>>()
    );
    let below = open_with(&folder.path().join("sub"), &Options::default());
    assert_eq!(paths(&below), ["b.py", "build/a.py", "lib/env/inner.py"]);
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_counted() {
    let folder = tree(&[("a/x.py", ""), ("b/y.py", ""), ("b/z.py", ""), ("top.py", "")]);
    commit_all(folder.path());
    git(folder.path(), &["sparse-checkout", "set", "a"]);
    let list = list(&open(&folder));
    let not_on_disk = |directory| list.not_listed(directory).not_on_disk;
    assert_eq!(
        (list.files.len(), not_on_disk(""), not_on_disk("a"), not_on_disk("b")),
        (2, 2, 0, 2)
    );
}

const NAMES: [&str; 20] = [
    "a",
    "b",
    "c.py",
    "d.txt",
    "src",
    "x y",
    "é",
    "foo.o",
    "Foo.o",
    "#n",
    "!m",
    "log",
    "log\t",
    "[z]",
    "cache1",
    "cacheX",
    "build",
    "node_modules",
    "dist",
    "env",
];

const PATTERNS: [&str; 68] = [
    "*.o",
    "bild/",
    "/b",
    "src/*.py",
    "**/log",
    "log/**",
    "a/**/b",
    "!c.py",
    "c.p[xy]",
    "d.txt",
    "/src",
    "\\#n",
    "\\!m",
    "x\\ y",
    "x y",
    "é",
    "foo.*",
    "!foo.o",
    "*",
    "!*/",
    "!*.py",
    "a/",
    "b",
    "**/c.py",
    "[!a]*",
    "?",
    "/*",
    "!/src",
    "src/**/",
    "!src/",
    "log ",
    "\\[z\\]",
    "[[:alpha:]]",
    "[[:digit:]]",
    "cache[[:digit:]]/",
    "cache[![:upper:]]",
    "[[:nothing:]]",
    "[[:punct:]]*",
    "**",
    "a*/",
    "/a/b",
    "*/b",
    "# comment",
    "",
    "  ",
    "\t",
    "a/b/../c.py",
    "{a,b}",
    "*.{py,txt}",
    "\\a",
    "[a-c]",
    "[^a]",
    "/**/a",
    "log\t",
    "log\t ",
    "FOO.o",
    "!src/c.py",
    "./a",
    "a//b",
    "/",
    "//a",
    "**foo",
    "foo**",
    "a/**",
    "!a/b/c.py",
    "build/",
    "build",
    "node_modules/*",
];

/// Files with their parts and whether git tracks them, and the patterns of ignore files with what ends their lines.
type RandomRepository = (Vec<(Vec<&'static str>, bool)>, Vec<(usize, Vec<&'static str>, bool)>);

fn random_repository() -> impl Strategy<Value = RandomRepository> {
    let file = (vec(select(&NAMES[..]), 1..4), any::<bool>());
    let rules = (0_usize..20, vec(select(&PATTERNS[..]), 1..6), any::<bool>());
    (vec(file, 4..20), vec(rules, 1..4))
}

/// The files that a random repository makes, after git's own answers.
fn check_random(repository: &RandomRepository) {
    let folder = TempDir::new().expect("a temporary folder");
    let root = folder.path();
    git(root, &["init", "--quiet"]);
    let mut tracked = vec!["add", "--force", "--"];
    let paths: Vec<String> = repository.0.iter().map(|(parts, _)| parts.join("/")).collect();
    for (path, (_, is_tracked)) in paths.iter().zip(&repository.0) {
        // A file in the place of a directory, or the other way round.
        let made = fs::create_dir_all(root.join(path).parent().expect("a path with a parent"));
        if made.is_ok() && fs::write(root.join(path), "").is_ok() && *is_tracked {
            tracked.push(path);
        }
    }
    for (at, patterns, is_dos) in &repository.1 {
        let directory = paths
            .get(*at)
            .map_or("", |path| path.rsplit_once('/').map_or("", |(parent, _)| parent));
        let text = patterns.join(if *is_dos { "\r\n" } else { "\n" });
        if root.join(directory).is_dir() {
            fs::write(root.join(directory).join(".gitignore"), text).expect("a file is written");
        }
    }
    if tracked.len() > 3 {
        git(
            root,
            &[&["-c", "core.quotepath=false", "--literal-pathspecs"][..], &tracked].concat(),
        );
    }
    let tracked = git_files(root, false);
    // Of what git does not track, the directories of the specification's list do not count, unless they hold sources.
    let counts = |path: &String| {
        tracked.contains(path)
            || path::list_ancestors(path).all(|directory| {
                let name = path::split_path(directory).1;
                let is_source = || tracked.iter().any(|file| file.starts_with(&format!("{directory}/")));
                !SKIPPED.contains(&name) || name != "node_modules" && is_source()
            })
    };
    let expected: Vec<String> = git_files(root, true).into_iter().filter(counts).collect();
    assert_eq!(paths_of(root), expected, "{repository:?}");
}

fn paths_of(root: &Path) -> Vec<String> {
    paths(&open_with(root, &Options::default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_repositories_have_the_files_that_git_lists(repository in random_repository()) {
        check_random(&repository);
    }
}

#[test]
fn contents_may_be_named_by_sha256() {
    let folder = tree(&SKIPPED_SOURCES);
    git(folder.path(), &["init", "--quiet", "--object-format=sha256"]);
    symlink("main.ts", folder.path().join("link")).expect("a link is made");
    git(folder.path(), &["add", "."]);
    let repository = open(&folder);
    assert_eq!(
        paths(&repository),
        git_files(folder.path(), true)
            .into_iter()
            .filter(|path| path != "link")
            .collect::<Vec<_>>()
    );
    assert_eq!(
        (repository.tracked_links(), repository.tracks_unknown()),
        (vec!["link".to_owned()], false)
    );
}

#[test]
fn a_split_index_is_read_with_its_shared_part() {
    let folder = tree(&SKIPPED_SOURCES);
    let root = folder.path();
    commit_all(root);
    git(root, &["config", "splitIndex.maxPercentChange", "100"]);
    git(root, &["update-index", "--split-index"]);
    let compare = |link: Option<&str>| {
        let repository = open(&folder);
        let link: Vec<String> = link.into_iter().map(str::to_owned).collect();
        let mut listed = [paths(&repository), link.clone()].concat();
        listed.sort();
        assert_eq!(listed, git_files(root, true));
        assert_eq!((repository.tracked_links(), repository.tracks_unknown()), (link, false));
    };
    compare(None);
    fs::create_dir(root.join("env")).expect("it is made");
    fs::write(root.join("env/added.ts"), "1").expect("it is written");
    git(root, &["add", "--force", "env"]);
    git(root, &["rm", "--quiet", "main.ts"]);
    compare(None);
    let replaced = SKIPPED_SOURCES[0].0;
    fs::remove_file(root.join(replaced)).expect("it was there");
    symlink("../dist/index.js", root.join(replaced)).expect("a link is made");
    git(root, &["add", "--force", replaced]);
    compare(Some(replaced));
    let mut git_data = fs::read_dir(root.join(".git")).expect("it is there").flatten();
    assert!(git_data.any(|entry| entry.file_name().to_string_lossy().starts_with("sharedindex.")));
}

#[test]
fn a_damaged_index_tracks_nothing() {
    let folder = tree(&SKIPPED_SOURCES);
    commit_all(folder.path());
    fs::write(folder.path().join(".git/index"), b"DIRC\0\0\0\x02\xff\xff\xff\xff").expect("it is written");
    let repository = open(&folder);
    assert_eq!(paths(&repository), ["main.ts"]);
    // What it tracks is not known: no file is surely the user's own, and every link may be a stranger's.
    assert_eq!(
        (repository.tracked_links(), repository.tracks_unknown()),
        (vec![String::new()], true)
    );
    let origin = crate::origins::FileOrigins::read_tracked(&repository).of_file("main.ts");
    assert_eq!(origin, crate::origins::FileOrigin::Untracked("main.ts".to_owned()));
}
