//! Directories that are accepted as roots.

use super::*;

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
        let place = if Path::new(root) == Path::new(system) {
            "is a directory of the system".to_owned()
        } else {
            format!("lies in `{system}`")
        };
        let expected = format!("{place} and is refused as a repository: no project lives there");
        assert!(refusal.ends_with(&expected), "{refusal}");
    }
    // The system decides where these lead and whether they exist.
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
        assert!(refusal(&folder.path().join(root), &options).contains("without your yes"));
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
    // The user's work inside a repository of another user, as in the containers of CI.
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

#[test]
fn a_folder_of_a_work_tree_is_narrowed_by_the_file_at_its_root() {
    let narrowing = "[policy]\ndeny = [\"install\"]\nhide = [\"app/Plans/**\", \"*.dump\", \"closed\"]\n\
                     protect = [\"app/ops/*\"]\nrequire_sandbox = true\n";
    let around = tree(&[
        (".tool.toml", narrowing),
        ("app/main.py", ""),
        ("app/plans/a.py", ""),
        ("app/b.dump", ""),
        ("app/ops/run.py", ""),
        ("plans/a.py", ""),
        ("closed/a.py", ""),
    ]);
    let open = |folder: &str| Repository::open(&around.path().join(folder), &Options::default());
    let own = |folder: &str| open(folder).expect("it is a root").narrowing().clone();
    // Without a work tree around it, it is a folder like any other.
    assert_eq!(own("app"), RepositoryRules::default());

    git_directory(around.path(), ".git");
    let app = open("app").expect("it is a root");
    assert_eq!(app.narrowing().deny, ["install"]);
    assert!(app.narrowing().require_sandbox);
    assert!(app.read("main.py", 100).is_ok());
    assert!(app.read("plans/a.py", 100).is_err() && app.read("b.dump", 100).is_err());
    assert!(app.rules().protected("ops/run.py").is_some() && app.rules().protected("main.py").is_none());
    // Equal names in another directory are other names.
    let plans = open("plans").expect("it is a root");
    assert!(plans.read("a.py", 100).is_ok());
    let refused = refusal(&around.path().join("closed"), &Options::default());
    assert!(
        refused.ends_with("it is hidden by the repository's `.tool.toml`"),
        "{refused}"
    );

    // An ignore file that cannot be followed refuses the folder, too; a work tree of its own does not ask the one
    // around it.
    write(around.path(), ".tool.toml", "[policy]\nallow = [\"install\"]\n");
    assert!(matches!(open("app"), Err(RepositoryError::RootFile(_))));
    fs::create_dir(around.path().join("app/.git")).expect("the folder is ours");
    assert!(open("app").is_err(), "an empty folder of that name makes no work tree");
    git_directory(around.path(), "app/.git");
    assert_eq!(own("app"), RepositoryRules::default());
}
