//! Paths that are opened, and paths that are refused.

use super::*;

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
        assert!(start.elapsed() < Duration::from_secs(15));
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
    // Making a device takes a privilege that few test runs have, and without it there is none to open.
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
            let listed = repository
                .entries("vendor", &CancellationToken::new())
                .expect("the directory is listed");
            assert_eq!((listed.entries.len(), listed.left_out), (1, 1));
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
        assert_eq!(
            repository
                .entries("", &CancellationToken::new())
                .expect("the root is listed")
                .left_out,
            1
        );
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

/// One thread exchanges a file with a link to a secret as fast as it can; the repository never opens the secret.
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

#[test]
fn an_environment_of_any_name_is_protected_below_the_root() {
    let folder = tree(&[
        ("pyvenv.cfg", ""),
        ("env39/pyvenv.cfg", ""),
        ("a/Conda/conda-meta/history", ""),
        ("plain/bin/python", ""),
    ]);
    let repository = Repository::open(folder.path(), &Options::default()).expect("the root is accepted");
    for path in [
        "env39/bin/python",
        "env39/new/x/y",
        "a/Conda/etc/x.sh",
        "plain/bin/activate",
    ] {
        assert_eq!(repository.protected(path), Some(rules::INSTALLED), "{path}");
    }
    for path in ["main.py", "a/x.py", "plain/bin/python", "env39"] {
        assert_eq!(repository.protected(path), None, "{path}");
    }
}

#[test]
fn a_folder_with_a_dot_that_replaces_a_file_is_new() {
    let folder = tree(&[(".settings/a", "a"), (".state", "a file")]);
    let repository = open(&folder);
    let new = |path| repository.find_new_dot_name(path);
    assert_eq!(new(".settings/b"), None);
    assert_eq!(new(".state"), None);
    assert_eq!(new(".state/b"), Some(".state"));
    assert_eq!(new(".other/b"), Some(".other"));
}

#[test]
fn a_key_far_down_in_a_bundle_is_found() {
    let certificate = format!(
        "-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n",
        "QUJD\n".repeat(400)
    );
    let key = "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n";
    let folder = tree(&[
        ("public.crt", &certificate),
        ("both.crt", &format!("{certificate}{key}")),
    ]);
    both_ways(&folder, |repository| {
        assert!(repository.open_at("public.crt").is_ok());
        assert_eq!(denied(repository, "both.crt"), "is a private key");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_special_file_is_never_opened() {
    use rustix::fs::inotify;

    let folder = tree(&[("a.txt", "a")]);
    let fifo = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).expect("a FIFO is made");
    both_ways(&folder, |repository| {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let queue = inotify::init(flags).expect("the system has inotify");
        inotify::add_watch(&queue, &fifo, inotify::WatchFlags::OPEN).expect("a FIFO can be watched");
        assert!(repository.open_at("pipe").is_err());
        assert!(repository.open_at("a.txt").is_ok());
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        let event = inotify::Reader::new(&queue, &mut buffer)
            .next()
            .map(|_| "it was opened");
        assert_eq!(event.err(), Some(rustix::io::Errno::AGAIN));
    });
}

#[test]
fn a_repository_knows_the_directory_of_the_programs_state() {
    let folder = tree(&[]);
    let state = folder.path().join("state");
    let options = Options {
        state_directory: Some(state.clone()),
        ..Options::default()
    };
    assert_eq!(
        open_with(folder.path(), &options).state_directory(),
        Some(state.as_path())
    );
    assert_eq!(open(&folder).state_directory(), None);
}
