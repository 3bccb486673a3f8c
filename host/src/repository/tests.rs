//! The promises of the repository, each against a real temporary tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;

use super::root::is_trusted_owner;
use super::*;

const KEY_TEXT: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA\n";

/// A temporary root with these files; directories are made as needed.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (path, content) in files {
        write(folder.path(), path, content);
    }
    folder
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a path with a parent")).expect("directories are made");
    fs::write(path, content).expect("a file is written");
}

fn git_directory(root: &Path, path: &str) {
    write(root, &format!("{path}/HEAD"), "ref: refs/heads/main\n");
    write(root, &format!("{path}/config"), "[remote] url = https://token@host\n");
    for name in ["objects", "refs"] {
        fs::create_dir_all(root.join(path).join(name)).expect("directories are made");
    }
}

fn open(folder: &TempDir) -> Arc<Repository> {
    open_with(folder.path(), &Options::default())
}

fn open_with(root: &Path, options: &Options) -> Arc<Repository> {
    Repository::open(root, options).expect("the root is accepted")
}

fn list(repository: &Repository) -> Arc<FileList> {
    repository.list(&CancellationToken::new()).expect("the tree is walked")
}

fn paths(repository: &Repository) -> Vec<String> {
    list(repository).files.iter().map(|file| file.path.clone()).collect()
}

fn refusal(root: &Path, options: &Options) -> String {
    Repository::open(root, options)
        .expect_err("the root is refused")
        .to_string()
}

fn denied(repository: &Repository, path: &str) -> &'static str {
    match repository.open_at(path) {
        Err(OpenError::Denied { reason, .. }) => reason,
        other => panic!("{path}: expected a refusal, got {other:?}"),
    }
}

fn text(repository: &Repository, path: &str) -> String {
    let content = repository.read(path, 1 << 20).expect("the file is read");
    String::from_utf8(content).expect("the file is text")
}

// ---- roots ----

#[test]
fn system_directories_are_no_roots() {
    let options = Options::default();
    assert_eq!(
        refusal(Path::new("/"), &options),
        "`/` is the whole machine and is refused as a repository"
    );
    for (root, system) in [
        ("/proc", "/proc"),
        ("/sys", "/sys"),
        ("/dev", "/dev"),
        ("/proc/self/", "/proc"),
        ("/etc", "/etc"),
        ("/usr", "/usr"),
        ("/usr/bin", "/usr/bin"),
        ("/run", "/run"),
        ("/var", "/var"),
        ("/tmp", "/tmp"),
    ] {
        let refusal = refusal(Path::new(root), &options);
        let place = match Path::new(root) == Path::new(system) {
            true => "is a directory of the system".to_owned(),
            false => format!("lies in `{system}`"),
        };
        let expected = format!("{place} and is refused as a repository: no project lives there");
        assert!(refusal.ends_with(&expected), "{refusal}");
    }
    // Where these lead, or whether they are there, depends on the system.
    for root in ["/bin", "/sbin", "/lib", "/lib64", "/boot", "/etc/ssl", "/var/run"] {
        if Path::new(root).is_dir() {
            let refusal = refusal(Path::new(root), &options);
            assert!(refusal.ends_with("no project lives there"), "{refusal}");
        }
    }
}

#[test]
fn projects_may_lie_below_directories_of_the_system() {
    let system = |root: &str| root::system_directory(Path::new(root));
    for root in [
        "/etc/nginx",
        "/boot/grub",
        "/run/user/1000",
        "/usr/bin/x",
        "/dev/shm",
        "/run/media",
    ] {
        assert!(system(root).is_some(), "{root}");
    }
    for root in [
        "/usr/src/app",
        "/usr/lib/python3/dist-packages/app",
        "/var/www/site",
        "/var/tmp/checkout",
        "/tmp/checkout",
        "/dev/shm/checkout",
        "/run/media/user/disk/app",
        "/library",
        "/etcetera",
    ] {
        assert_eq!(system(root), None, "{root}");
    }
}

#[test]
fn a_link_to_a_refused_root_is_refused() {
    let folder = tree(&[]);
    symlink("/", folder.path().join("all")).expect("a link is made");
    assert!(refusal(&folder.path().join("all"), &Options::default()).contains("whole machine"));
}

#[test]
fn the_state_directory_and_what_lies_in_it_are_no_roots() {
    let folder = tree(&[("sessions/a/journal.jsonl", "")]);
    let options = Options {
        state_directory: Some(folder.path().to_owned()),
        ..Options::default()
    };
    for root in ["", "sessions/a"] {
        let refusal = refusal(&folder.path().join(root), &options);
        assert!(refusal.ends_with("holds the state of this program and is refused as a repository"));
    }
}

#[test]
fn the_home_directory_needs_a_yes() {
    let folder = tree(&[("user/project/a.txt", "")]);
    let mut options = Options {
        home: Some(folder.path().join("user")),
        ..Options::default()
    };
    for root in ["", "user"] {
        assert!(refusal(&folder.path().join(root), &options).contains("without your confirmation"));
    }
    open_with(&folder.path().join("user/project"), &options);
    options.home_confirmed = true;
    open_with(&folder.path().join("user"), &options);
}

#[test]
fn what_is_hidden_everywhere_is_no_root() {
    let folder = tree(&[(".ssh/config", ""), ("work/a.txt", "")]);
    git_directory(folder.path(), "work/.git");
    git_directory(folder.path(), "bare");
    for (root, reason) in [
        (".ssh", "is a private key"),
        ("work/.git", "is a git directory"),
        ("work/.git/objects", "is a git directory"),
        ("bare", "is a git directory"),
    ] {
        let refusal = refusal(&folder.path().join(root), &Options::default());
        assert!(refusal.ends_with(reason), "{refusal}");
    }
}

#[test]
fn what_is_not_there_and_what_is_no_directory_are_no_roots() {
    let folder = tree(&[("file", "")]);
    for root in ["nowhere", "file"] {
        let refusal = refusal(&folder.path().join(root), &Options::default());
        assert!(refusal.ends_with("cannot be opened as a repository"), "{refusal}");
    }
}

#[test]
fn the_root_is_the_nearest_work_tree() {
    let folder = tree(&[
        ("outer/inner/src/a.py", ""),
        ("outer/linked/b.py", ""),
        ("plain/c.py", ""),
    ]);
    let root = folder.path().canonicalize().expect("a real path");
    git_directory(&root, "outer/.git");
    git_directory(&root, "outer/inner/.git");
    write(&root, "outer/linked/.git", "gitdir: ../.git/worktrees/linked\n");
    for (start, found) in [
        ("outer/inner/src", "outer/inner"),
        ("outer/linked", "outer/linked"),
        ("outer", "outer"),
        ("plain", "plain"),
    ] {
        assert_eq!(find_root(&root.join(start)), root.join(found), "{start}");
    }
}

#[test]
fn a_work_tree_of_a_stranger_takes_in_nobody_elses_folders() {
    let (mine, theirs) = (1000, 4242);
    assert!(!is_trusted_owner(theirs, Some(mine), mine));
    assert!(is_trusted_owner(mine, Some(theirs), mine) && is_trusted_owner(0, Some(mine), mine));
    assert!(is_trusted_owner(theirs, Some(theirs), mine));
    // Only root may give files away, to see the same on a disk.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tree(&[("shared/mine/a.py", ""), ("theirs/sub/b.py", "")]);
    let root = folder.path().canonicalize().expect("a real path");
    let give = |path: &str| std::os::unix::fs::chown(root.join(path), Some(4242), None).expect("root may");
    git_directory(&root, "shared/.git");
    give("shared/.git");
    assert_eq!(find_root(&root.join("shared/mine")), root.join("shared/mine"));
    // One's own work on somebody's repository as a whole, as in the containers of CI.
    git_directory(&root, "theirs/.git");
    give("theirs/.git");
    give("theirs/sub");
    assert_eq!(find_root(&root.join("theirs/sub")), root.join("theirs"));
    assert_eq!(find_root(&root.join("shared")), root.join("shared"));
}

#[test]
fn a_file_as_start_finds_its_work_tree() {
    let folder = tree(&[("work/src/a.py", "")]);
    let root = folder.path().canonicalize().expect("a real path");
    git_directory(&root, "work/.git");
    assert_eq!(find_root(&root.join("work/src/a.py")), root.join("work"));
}

// ---- opening ----

/// Every promise about opening, with `openat2` and without it.
fn both_ways(folder: &TempDir, check: impl Fn(&Repository)) {
    let quick = open(folder);
    check(&quick);
    let slow = open(folder);
    slow.root.forget_openat2();
    check(&slow);
}

#[test]
fn a_path_is_opened_whatever_its_spelling() {
    let folder = tree(&[("src/a.py", "print()\n")]);
    both_ways(&folder, |repository| {
        for path in ["src/a.py", "./src/a.py", "src//a.py", "src/../src/./a.py"] {
            let opened = repository.open_at(path).expect("the file is opened");
            assert_eq!(
                (opened.path.as_str(), opened.kind, opened.size),
                ("src/a.py", EntryKind::File, 8)
            );
        }
        for path in ["", ".", "src/.."] {
            let opened = repository.open_at(path).expect("the root is opened");
            assert_eq!((opened.path.as_str(), opened.kind), ("", EntryKind::Directory));
        }
        assert_eq!(repository.open_at("src/").expect("opens").kind, EntryKind::Directory);
    });
}

#[test]
fn nothing_outside_is_opened() {
    let folder = tree(&[("root/a.txt", "in"), ("secret.txt", "out")]);
    let root = folder.path().join("root");
    symlink("../secret.txt", root.join("file")).expect("a link is made");
    symlink("..", root.join("parent")).expect("a link is made");
    symlink(folder.path().join("secret.txt"), root.join("absolute")).expect("a link is made");
    symlink("/proc/self/root", root.join("magic")).expect("a link is made");
    symlink("/etc", root.join("etc")).expect("a link is made");
    let repository = open_with(&root, &Options::default());
    for forget in [false, true] {
        if forget {
            repository.root.forget_openat2();
        }
        for path in [
            "../secret.txt",
            "a/../../secret.txt",
            "/etc/passwd",
            "file",
            "parent/secret.txt",
            "absolute",
            "magic/etc/passwd",
            "etc/passwd",
            "etc/there-is-no-such-file",
        ] {
            assert_eq!(denied(&repository, path), OUTSIDE, "{path}");
        }
    }
}

#[test]
fn links_inside_are_followed_and_the_real_name_is_judged() {
    let folder = tree(&[
        ("src/a.py", "a"),
        (".env", "KEY=1"),
        (".ssh/config", "x"),
        ("docs/deep/b.md", "b"),
    ]);
    let link = |target: &str, name: &str| symlink(target, folder.path().join(name)).expect("a link is made");
    link("src", "source");
    link("source/a.py", "chain");
    link("../src/../docs", "src/documents");
    link(".env", "settings.txt");
    link(".ssh", "folder");
    link("loop", "loop");
    link("nowhere", "dangling");
    both_ways(&folder, |repository| {
        for (asked, real) in [
            ("source/a.py", "src/a.py"),
            ("chain", "src/a.py"),
            ("src/documents/deep/b.md", "docs/deep/b.md"),
        ] {
            assert_eq!(repository.open_at(asked).expect("opens").path, real);
        }
        assert_eq!(
            denied(repository, "settings.txt"),
            "holds environment variables, which are often secrets"
        );
        assert_eq!(denied(repository, "folder/config"), "is a private key");
        assert_eq!(denied(repository, "folder"), "is a private key");
        assert!(matches!(repository.open_at("loop"), Err(OpenError::Io { .. })));
        assert!(matches!(
            repository.open_at("dangling"),
            Err(OpenError::NotFound { .. })
        ));
        assert!(matches!(repository.open_at("chain/x"), Err(OpenError::NotFound { .. })));
    });
}

#[test]
fn a_name_that_is_hidden_is_refused_whether_it_exists_or_not() {
    let folder = tree(&[(".git/config", ""), (".env", ""), ("a/id_rsa", "")]);
    both_ways(&folder, |repository| {
        for path in [
            ".git",
            ".git/",
            "./.git/config",
            ".GIT/config",
            ".Git/hooks/none",
            "deep/.git",
            ".env",
            ".Env",
            ".env.production",
            "none/prod.ENV",
            "a/id_rsa",
            "a/ID_RSA",
            "a/id_ed25519",
            ".g\u{200c}it/config",
            "session-reports/session_latest.md",
        ] {
            denied(repository, path);
        }
        assert!(matches!(
            repository.open_at(".env.example"),
            Err(OpenError::NotFound { .. })
        ));
    });
}

#[test]
fn a_directory_named_like_an_environment_file_is_read_but_not_listed() {
    let folder = tree(&[(".env/lib/site.py", "s"), ("prod.env/x.py", "x"), ("a.py", "")]);
    let repository = open(&folder);
    assert_eq!(text(&repository, ".env/lib/site.py"), "s");
    assert_eq!(repository.open_at(".env").expect("opens").kind, EntryKind::Directory);
    assert_eq!(paths(&repository), ["a.py"]);
}

#[test]
fn keys_are_known_by_their_first_bytes() {
    let account = "{\n  \"type\" : \"service_account\",\n  \"private_key\": \"x\" }";
    let folder = tree(&[
        ("deploy", KEY_TEXT),
        ("notes.txt", "\u{feff}\n-----BEGIN RSA PRIVATE KEY-----\nMII\n"),
        ("putty.txt", "PuTTY-User-Key-File-3: ssh-ed25519\n"),
        ("pgp", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n"),
        ("ssh2", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n"),
        ("age.txt", "# created: 2024\nAGE-SECRET-KEY-1QQ\n"),
        ("gcp.json", account),
        (
            "chain.pem",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n",
        ),
        (
            "bag",
            "Bag Attributes\n    localKeyID: 01\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
        ),
        ("public.pem", "-----BEGIN PUBLIC KEY-----\nMII\n"),
        ("test_keys.py", "KEY = '''\n-----BEGIN RSA PRIVATE KEY-----\n'''\n"),
        ("package.json", "{\"type\": \"module\", \"x\": \"service_account\"}"),
    ]);
    let repository = open(&folder);
    for path in [
        "deploy",
        "notes.txt",
        "putty.txt",
        "pgp",
        "ssh2",
        "age.txt",
        "chain.pem",
        "bag",
    ] {
        assert_eq!(denied(&repository, path), "is a private key", "{path}");
    }
    assert_eq!(
        denied(&repository, "gcp.json"),
        "holds the credentials of a service account"
    );
    for path in ["public.pem", "test_keys.py", "package.json"] {
        repository.open_at(path).expect("it is no secret");
    }
    // Lists look only into files whose name lets one suspect a key.
    assert!(
        !paths(&repository)
            .iter()
            .any(|path| path == "deploy" || path == "chain.pem")
    );
}

#[test]
fn a_fifo_and_a_socket_neither_block_nor_open() {
    let folder = tree(&[]);
    let fifo = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).expect("a FIFO is made");
    let _socket = UnixListener::bind(folder.path().join("socket")).expect("a socket is made");
    symlink("pipe", folder.path().join("link")).expect("a link is made");
    both_ways(&folder, |repository| {
        let start = Instant::now();
        for path in ["pipe", "socket", "link"] {
            let answer = repository.open_at(path);
            assert!(
                matches!(answer, Err(OpenError::NotRegular { .. })),
                "{path}: {answer:?}"
            );
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(paths(repository).is_empty());
    });
}

#[test]
fn a_fifo_that_replaced_a_known_file_does_not_block() {
    let folder = tree(&[("a.txt", "a")]);
    let repository = open(&folder);
    assert_eq!(paths(&repository), ["a.txt"]);
    let path = folder.path().join("a.txt");
    fs::remove_file(&path).expect("the file is removed");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).expect("a FIFO is made");
    assert!(matches!(repository.open_at("a.txt"), Err(OpenError::NotRegular { .. })));
}

#[test]
fn a_device_is_not_opened() {
    let folder = tree(&[]);
    let path = folder.path().join("zero");
    let made = rustix::fs::mknodat(
        CWD,
        &path,
        FileType::CharacterDevice,
        0o600.into(),
        rustix::fs::makedev(1, 5),
    );
    // Making a device takes a privilege that few test runs have, and where nobody can, there is none to open.
    if made.is_ok() {
        both_ways(&folder, |repository| {
            assert!(matches!(repository.open_at("zero"), Err(OpenError::NotRegular { .. })));
        });
    }
}

#[test]
fn another_name_of_a_hidden_file_is_refused() {
    let folder = tree(&[
        (".env", "KEY=1"),
        (".ssh/known_hosts", "h"),
        ("ordinary.txt", "o"),
        ("ignored.key", "not a key by content"),
        (".gitignore", ".env\n"),
    ]);
    git_directory(folder.path(), ".git");
    let link = |from: &str, to: &str| {
        fs::hard_link(folder.path().join(from), folder.path().join(to)).expect("a hard link is made");
    };
    link(".env", "readme.txt");
    link(".ssh/known_hosts", "hosts.txt");
    link(".git/config", "config.txt");
    link("ordinary.txt", "second.txt");
    let repository = open(&folder);
    for path in ["readme.txt", "hosts.txt", "config.txt"] {
        assert_eq!(denied(&repository, path), HARD_LINK, "{path}");
    }
    assert_eq!(text(&repository, "second.txt"), "o");
}

#[test]
fn git_directories_are_hidden_whatever_their_name() {
    let folder = tree(&[("a.py", ""), ("vendor/b.py", ""), (".gitignore", "cache/\n")]);
    git_directory(folder.path(), "vendor/library");
    git_directory(folder.path(), "cache/mirror");
    write(folder.path(), "linked/.git", "gitdir: /somewhere\n");
    both_ways(&folder, |repository| {
        for scanned in [false, true] {
            if scanned {
                assert_eq!(paths(repository), [".gitignore", "a.py", "vendor/b.py"]);
            }
            for path in [
                "vendor/library",
                "vendor/library/config",
                "cache/mirror/config",
                "linked/.git",
            ] {
                assert_eq!(denied(repository, path), GIT, "{path}, scanned: {scanned}");
            }
            let (entries, left_out) = repository.entries("vendor").expect("the directory is listed");
            assert_eq!((entries.len(), left_out), (1, 1));
            assert_eq!(repository.hidden("vendor/library/refs/new", false), Some(GIT));
            assert_eq!(repository.hidden("vendor/b.py", false), None);
        }
    });
}

#[test]
fn the_state_directory_is_hidden_inside_a_root() {
    let folder = tree(&[("state/token", "t"), ("a.py", "")]);
    let options = Options {
        state_directory: Some(folder.path().join("state")),
        ..Options::default()
    };
    let repository = open_with(folder.path(), &options);
    for _ in 0..2 {
        assert_eq!(denied(&repository, "state/token"), STATE);
        assert_eq!(denied(&repository, "state"), STATE);
        assert_eq!(repository.entries("").expect("the root is listed").1, 1);
        assert_eq!(paths(&repository), ["a.py"]);
    }
    fs::rename(folder.path().join("state"), folder.path().join("renamed")).expect("it is renamed");
    assert_eq!(
        paths(&repository),
        ["a.py", "renamed/token"],
        "it is no longer the state directory"
    );
}

#[test]
fn hide_adds_and_reveal_removes() {
    let folder = tree(&[
        ("private/plan.md", "p"),
        ("Notes.TXT", "n"),
        (".env.test", "e"),
        (".env", "e"),
        ("fixtures/id_rsa", KEY_TEXT),
        ("id_rsa", KEY_TEXT),
    ]);
    let options = Options {
        hide: vec!["private/".into(), "*.txt".into()],
        reveal: vec![".env.test".into(), "/fixtures/*".into()],
        ..Options::default()
    };
    let repository = open_with(folder.path(), &options);
    for path in ["private", "private/plan.md", "notes.txt", "Notes.TXT", ".env", "id_rsa"] {
        denied(&repository, path);
    }
    assert_eq!(text(&repository, ".env.test"), "e");
    assert_eq!(text(&repository, "fixtures/id_rsa"), KEY_TEXT);
    assert_eq!(paths(&repository), [".env.test", "fixtures/id_rsa"]);
    assert!(
        repository.rules().protected(".env.test").is_some(),
        "reading is not changing"
    );
}

#[test]
fn a_broken_glob_is_an_error_that_names_it() {
    let folder = tree(&[]);
    let options = Options {
        hide: vec!["a{b".into()],
        ..Options::default()
    };
    let refusal = refusal(folder.path(), &options);
    assert!(
        refusal.starts_with("`a{b` in `[policy] hide` is not a valid pattern: "),
        "{refusal}"
    );
}

#[test]
fn reading_is_bounded_and_typed() {
    let folder = tree(&[("a.txt", "12345"), ("d/b.txt", "")]);
    let repository = open(&folder);
    assert_eq!(repository.read("a.txt", 5).expect("it fits"), b"12345");
    assert!(matches!(
        repository.read("a.txt", 4),
        Err(OpenError::TooLarge {
            size: 5,
            bytes_max: 4,
            ..
        })
    ));
    assert!(matches!(repository.read("d", 4), Err(OpenError::IsDirectory { .. })));
    assert!(matches!(repository.read("none", 4), Err(OpenError::NotFound { .. })));
    assert!(matches!(repository.read("a.txt/b", 4), Err(OpenError::NotFound { .. })));
}

/// One thread exchanges a file with a link to a secret as fast as it can; what is opened is never the secret.
#[test]
fn a_link_swapped_in_during_the_opening_is_never_followed_out() {
    let folder = tree(&[
        ("root/a/file.txt", "open"),
        ("root/.env", "hidden"),
        ("outside.txt", "outside"),
    ]);
    let root = folder.path().join("root");
    symlink("../outside.txt", root.join("other")).expect("a link is made");
    symlink(".env", root.join("third")).expect("a link is made");
    symlink("..", root.join("up")).expect("a link is made");
    write(&root, "file.txt", "open");
    let stop = AtomicBool::new(false);
    let exchange = |a: &str, b: &str| {
        rustix::fs::renameat_with(CWD, root.join(a), CWD, root.join(b), RenameFlags::EXCHANGE)
            .expect("the names are exchanged");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                exchange("file.txt", "other");
                exchange("file.txt", "third");
                exchange("a", "up");
            }
        });
        let quick = open_with(&root, &Options::default());
        let slow = open_with(&root, &Options::default());
        slow.root.forget_openat2();
        for repository in [&quick, &slow] {
            for _ in 0..1500 {
                for path in ["file.txt", "a/file.txt", "a/outside.txt"] {
                    if let Ok(content) = repository.read(path, 100) {
                        assert_eq!(content, b"open", "{path}");
                    }
                }
            }
        }
        stop.store(true, Relaxed);
    });
}

// ---- lists ----

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
        let (entries, _) = repository.entries("").expect("the root can be listed");
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
    assert_eq!(repository.entries("").expect("the root is listed").1, 1);
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
    let late = walk(Bounds {
        time: Duration::ZERO,
        ..Bounds::default()
    });
    assert!(!late.complete);
    let found: Vec<&str> = late.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(found, ["at-the-root"], "the root is always looked at");
    let many = walk(Bounds {
        entries: 100,
        ..Bounds::default()
    });
    assert!(!many.complete && many.files.len() < 600);
    assert!(walk(Bounds::default()).complete);
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
    let (entries, left_out) = repository.entries(".").expect("the root is listed");
    let entries: Vec<_> = entries
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
    let (entries, _) = repository.entries("link/").expect("the linked directory is listed");
    assert_eq!(entries[0].path, "src/a.py");
    assert!(
        repository
            .entries("build")
            .expect("a skipped directory can be asked for")
            .0
            .len()
            == 1
    );
    assert!(matches!(
        repository.entries("src/a.py"),
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
    let bounds = Bounds {
        settling: Duration::from_millis(60),
        ..Bounds::default()
    };
    let settle = || std::thread::sleep(Duration::from_millis(100));
    let repository = Repository::open_bounded(folder.path(), &Options::default(), bounds).expect("it opens");
    let names = |list: &FileList| list.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    settle();
    let first = list(&repository);
    let unchanged = list(&repository);
    assert!(Arc::ptr_eq(&first, &unchanged), "nothing changed, nothing is walked");
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
            // Rules of the root that leave nothing and were written for another tree are a matter of their own.
            let names_something = git[0].as_deref().is_some_and(|rules| rules.lines().any(|line| line.starts_with('!')));
            prop_assume!(work_trees || !known.is_empty() || !names_something);
            prop_assert_eq!(paths(&open(&folder)), known);
        }
    }
}

#[test]
fn the_bounds_of_a_walk_are_those_of_limits() {
    use crate::limits::{SCAN_ENTRIES_MAX, SCAN_SECONDS_MAX, SCAN_SETTLING_MS};
    let bounds = Bounds::default();
    let milliseconds = (bounds.time.as_millis(), bounds.settling.as_millis());
    assert_eq!(
        milliseconds,
        (u128::from(SCAN_SECONDS_MAX) * 1_000, u128::from(SCAN_SETTLING_MS))
    );
    assert_eq!(bounds.entries, SCAN_ENTRIES_MAX);
}

#[test]
fn a_large_machine_walks_with_few_threads() {
    assert_eq!(walk::threads(1), 1);
    assert_eq!(walk::threads(96), crate::limits::SCAN_THREADS_MAX);
}

#[test]
fn of_a_huge_hidden_directory_a_bounded_part_is_remembered() {
    use crate::limits::HIDDEN_ENTRIES_MAX;
    let folder = tree(&[("a.py", ""), (".ssh/known_hosts", "")]);
    for number in 0..HIDDEN_ENTRIES_MAX + 50 {
        fs::File::create(folder.path().join(format!(".ssh/{number}"))).expect("a file is made");
    }
    let repository = open(&folder);
    assert_eq!(list(&repository).files.len(), 1);
    let remembered = repository.scanned().expect("it was walked").hidden.len() as u64;
    assert!(remembered <= HIDDEN_ENTRIES_MAX, "{remembered}");
}

#[test]
fn an_ignore_file_beyond_its_bound_does_not_count() {
    let rule = |length: u64| {
        let folder = tree(&[("a.py", ""), ("b.md", "")]);
        let text = format!(
            "*.py\n{}",
            "#".repeat(usize::try_from(length).expect("it is small") - 5)
        );
        fs::write(folder.path().join(".gitignore"), text).expect("a file is written");
        paths(&open(&folder))
    };
    assert_eq!(rule(crate::limits::IGNORE_FILE_BYTES_MAX), [".gitignore", "b.md"]);
    assert_eq!(
        rule(crate::limits::IGNORE_FILE_BYTES_MAX + 1),
        [".gitignore", "a.py", "b.md"]
    );
}
