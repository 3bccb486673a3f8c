//! Proposals that are refused.

use super::*;

#[test]
fn a_file_that_was_not_read_is_not_replaced_or_deleted() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b")]);
    bench.see("b.txt");
    let unseen = "`a.txt` has not been read in this session: read it first";
    bench.refused(&[("a.txt", "x"), ("b.txt", "x")], &[], "denied", unseen);
    bench.refused(&[("b.txt", "x")], &["a.txt"], "denied", unseen);
    fs::write(bench.root("b.txt"), "changed by the user").expect("a file is written");
    let changed = "`b.txt` has changed since it was read in this session: read it again";
    bench.refused(&[("b.txt", "x"), ("new.txt", "x")], &[], "denied", changed);
    assert!(bench.journal.notes().is_empty());
}

#[test]
fn protected_and_hidden_names_are_refused_in_every_spelling() {
    let bench = Bench::new(&[("state/token", "t"), ("vendor/lib/x.py", "x")]);
    for (path, message) in [
        (
            ".git/hooks/pre-commit",
            "`.git/hooks/pre-commit` is hidden: it is a git directory",
        ),
        (".GIT/config", "`.GIT/config` is hidden: it is a git directory"),
        ("sub/.git", "`sub/.git` is hidden: it is a git directory"),
        (
            ".Env",
            "`.Env` is hidden: it holds environment variables, which are often secrets",
        ),
        (
            ".github/workflows/x.yml",
            "`.github/workflows/x.yml` is protected: it defines what continuous integration runs",
        ),
        (
            ".gitattributes",
            "`.gitattributes` is protected: it changes how git acts",
        ),
        (
            ".vscode/tasks.json",
            "`.vscode/tasks.json` is protected: it configures an editor or an agent, which can make it run code",
        ),
        (
            "state/token",
            "`state/token` is hidden: it is the state directory of this program",
        ),
    ] {
        bench.refused(&[("fine.txt", "f"), (path, "x")], &[], "denied", message);
        bench.refused(&[("fine.txt", "f")], &[path], "denied", message);
    }
}

#[test]
fn an_allowed_path_is_exact() {
    let request = allowing(&["./.github/workflows/ci.yml", ".env", "state/token"]);
    let bench = Bench::with(&[("state/token", "t")], Operation::Refactor, &request);
    let allowed = [(".github/workflows/ci.yml", "ci"), (".env", "KEY=1")];
    assert_eq!(
        bench.propose(&allowed, &[]).expect("committed"),
        [".env", ".github/workflows/ci.yml"]
    );
    let message = "`.github/workflows/other.yml` is protected: it defines what continuous integration runs";
    bench.refused(&[(".github/workflows/other.yml", "x")], &[], "denied", message);
    let message = "`state/token` is hidden: it is the state directory of this program";
    bench.refused(&[("state/token", "x")], &[], "denied", message);
}

/// The refusal of a path that would create a dot name at the top level.
fn new_dot_name(path: &str, name: &str) -> String {
    format!(
        "`{path}` is protected: it would create `{name}`, and tools run code from new dot files and dot folders at the top \
         level of a repository"
    )
}

#[test]
fn a_new_dot_name_at_the_top_level_needs_allow_path() {
    let bench = Bench::new(&[("sub/a.txt", "a"), (".later", "a file")]);
    symlink("sub", bench.root(".link")).expect("a link is made");
    for (path, name) in [
        (".unheard-of", ".unheard-of"),
        (".unheard-of/settings.json", ".unheard-of"),
        (".eslintrc.json", ".eslintrc.json"),
        (".prettierrc", ".prettierrc"),
        (".GITIGNORE.d/a", ".GITIGNORE.d"),
        (".gitignore/a", ".gitignore"),
        (".gitignore.", ".gitignore."),
        ("...", "..."),
    ] {
        bench.refused(
            &[("fine.txt", "f"), (path, "x")],
            &[],
            "denied",
            &new_dot_name(path, name),
        );
    }
    // A folder in the place of a file is a new folder.
    bench.see(".later");
    let message = new_dot_name(".later/a", ".later");
    bench.refused(&[(".later/a", "x")], &[".later"], "denied", &message);
    let message = "`.link/a` leads through a symbolic link";
    bench.refused(&[(".link/a", "x")], &[], "denied", message);
    let failure = bench.propose(&[(".unheard-of/a", "x")], &[]).expect_err("it is new");
    assert_eq!(
        failure.hint.as_deref(),
        Some("only the user can allow it, with `--allow-path .unheard-of`")
    );
}

#[test]
fn harmless_and_existing_dot_names_need_no_allow_path() {
    let bench = Bench::new(&[
        (".eslintrc.json", "{}"),
        (".storybook/main.js", "old"),
        ("sub/a.txt", "a"),
    ]);
    bench.see(".eslintrc.json");
    bench.see(".storybook/main.js");
    let files = [
        (".eslintrc.json", "{\"root\": true}"),
        (".storybook/main.js", "new"),
        (".storybook/new.js", "new"),
        (".gitignore", "target/"),
        (".EditorConfig", "root = true"),
        (".env.example", "KEY="),
        ("sub/.unheard-of/a", "x"),
    ];
    let mut paths = files.map(|(path, _)| path);
    paths.sort_unstable();
    assert_eq!(bench.propose(&files, &[]).expect("committed"), paths);
    let gone = bench.propose(&[], &[".eslintrc.json", ".storybook/main.js"]);
    assert_eq!(gone.expect("committed"), [".eslintrc.json", ".storybook/main.js"]);
    let message = new_dot_name(".eslintrc.json", ".eslintrc.json");
    bench.refused(&[(".eslintrc.json", "{}")], &[], "denied", &message);
}

#[test]
fn allow_path_permits_a_new_dot_name_but_no_protected_path_in_it() {
    let request = allowing(&[".one/a.json", ".two", "./.three.toml", ".vscode"]);
    let bench = Bench::with(&[], Operation::Refactor, &request);
    let message = new_dot_name(".one/b.json", ".one");
    bench.refused(&[(".one/a.json", "a"), (".one/b.json", "b")], &[], "denied", &message);
    let files = [(".one/a.json", "a"), (".three.toml", "c"), (".two/x/b.json", "b")];
    assert_eq!(
        bench.propose(&files, &[]).expect("committed"),
        files.map(|(path, _)| path)
    );
    let message =
        "`.two/mise/config.toml` is protected: it configures a tool that runs code when a shell enters the folder";
    bench.refused(&[(".two/mise/config.toml", "x")], &[], "denied", message);
    let message = "`.vscode/tasks.json` is protected: it configures an editor or an agent, which can make it run code";
    bench.refused(&[(".vscode/tasks.json", "x")], &[], "denied", message);
}

#[test]
fn environments_are_found_by_what_they_hold() {
    let bench = Bench::with(
        &[
            ("venv/pyvenv.cfg", ""),
            ("venv/bin/python", "old"),
            ("a/env39/pyvenv.cfg", ""),
            ("c/conda-meta/history", ""),
            ("plain/bin/python", "old"),
        ],
        Operation::Refactor,
        &allowing(&["venv/bin/allowed"]),
    );
    let message = |path: &str| {
        format!("`{path}` is protected: it holds what is installed, which editors, shells and interpreters run")
    };
    for path in ["venv/lib/python3.12/x.py", "a/env39/x/y/z", "c/etc/x.sh"] {
        bench.refused(&[("fine.txt", "f"), (path, "x")], &[], "denied", &message(path));
    }
    bench.see("venv/bin/python");
    bench.refused(&[], &["venv/bin/python"], "denied", &message("venv/bin/python"));
    bench.see("plain/bin/python");
    let files = [("a/x.py", "x"), ("plain/bin/python", "new"), ("venv/bin/allowed", "x")];
    assert_eq!(
        bench.propose(&files, &[]).expect("committed"),
        files.map(|(path, _)| path)
    );
}

#[test]
fn an_environment_at_the_root_protects_nothing_but_the_names_of_the_table() {
    let bench = Bench::new(&[("pyvenv.cfg", "")]);
    assert_eq!(
        bench.propose(&[("src/a.py", "x")], &[]).expect("committed"),
        ["src/a.py"]
    );
    let message = "`bin/activate` is protected: it holds what is installed, which editors, shells and interpreters run";
    bench.refused(&[("bin/activate", "x")], &[], "denied", message);
}

#[test]
fn a_directory_is_not_made_a_git_directory() {
    let bench = Bench::new(&[("x/objects/a", ""), ("x/refs/a", ""), ("y/HEAD", "ref")]);
    let message = "`x/HEAD` would turn `x` into a git directory";
    bench.refused(&[("x/HEAD", "ref: refs/heads/main")], &[], "denied", message);
    let message = "`y/objects/a` would turn `y` into a git directory";
    bench.refused(&[("y/objects/a", ""), ("y/refs/b", "")], &[], "denied", message);
    let message = "`z/HEAD` would turn `z` into a git directory";
    bench.refused(
        &[("z/HEAD", ""), ("z/objects/a", ""), ("z/refs/b", "")],
        &[],
        "denied",
        message,
    );
    bench
        .propose(&[("w/HEAD", ""), ("w/refs/b", "")], &[])
        .expect("two of three are none");
    let message = "`w/objects/a` would turn `w` into a git directory";
    bench.refused(&[("w/objects/a", "")], &[], "denied", message);
}

#[test]
fn only_plain_files_with_one_name_are_taken_from_the_stage() {
    let message = "`x` is proposed as something else than a regular file with one name";
    let check = |make: &dyn Fn(&Bench)| {
        let bench = Bench::new(&[("a.txt", "a")]);
        write(&bench.stage("fine.txt"), "f");
        make(&bench);
        let failure = bench.commit(&[]).expect_err("the proposal is refused");
        assert_eq!((failure.kind.code(), failure.message.as_str()), ("denied", message));
        assert_eq!(bench.tree().len(), 1);
    };
    check(&|bench| symlink("/etc/passwd", bench.stage("x")).expect("a link is made"));
    check(&|bench| symlink("fine.txt", bench.stage("x")).expect("a link is made"));
    check(&|bench| fs::hard_link(bench.root("a.txt"), bench.stage("x")).expect("a hard link is made"));
    check(&|bench| {
        rustix::fs::mknodat(rustix::fs::CWD, bench.stage("x"), FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO is made");
    });
}

#[test]
fn names_that_nothing_can_show_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(&[]);
    let message = "`a<U+001B>[2J` contains characters that cannot be seen";
    bench.refused(&[("a\u{1b}[2J", "x")], &[], "denied", message);
    let message = "`<U+202E>txt.exe` contains characters that cannot be seen";
    bench.refused(&[("\u{202e}txt.exe", "x")], &[], "denied", message);
    for (path, shown) in [
        ("a\u{200b}.py", "a<U+200B>.py"),
        (".\u{200d}x", ".<U+200D>x"),
        ("\u{200d}.x", "<U+200D>.x"),
    ] {
        let message = format!("`{shown}` contains characters that cannot be seen");
        bench.refused(&[(path, "x")], &[], "denied", &message);
    }
    fs::remove_dir_all(bench.stage("")).expect("the stage is removed");
    fs::create_dir(bench.stage("")).expect("a directory is made");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(bench.stage("").join(name), "x").expect("a file is written");
    let failure = bench.commit(&[]).expect_err("the proposal is refused");
    assert!(failure.message.contains("not UTF-8"), "{}", failure.message);
}

#[test]
fn a_name_that_a_command_takes_for_an_option_is_refused() {
    let bench = Bench::new(&[]);
    for path in ["--checkpoint-action=exec=sh x.sh", "-rf", "d/-x", "-d/x"] {
        let message =
            format!("`{path}` is protected: `tar *` and other commands take a name that begins with `-` for an option");
        bench.refused(&[(path, "x")], &[], "denied", &message);
    }
}

#[test]
fn deletions_that_lead_nowhere_are_refused() {
    let bench = Bench::new(&[("d/a.txt", "a")]);
    bench.see("d/a.txt");
    for (path, code, message) in [
        (
            "../x",
            "denied",
            "`../x` cannot be deleted: it lies outside the repository",
        ),
        (
            "/etc/passwd",
            "denied",
            "`/etc/passwd` cannot be deleted: it is absolute, and paths are relative to the repository root",
        ),
        ("none", "not-found", "`none` cannot be deleted: it does not exist"),
        ("d", "denied", "`d` is not a regular file"),
        (".", "invalid-arguments", "The repository root is no file"),
        (
            "d/a.txt/b",
            "denied",
            "`d/a.txt/b` lies beneath something that is not a directory",
        ),
    ] {
        bench.refused(&[("fine.txt", "f")], &[path], code, message);
    }
    let message = "`d/a.txt` is both written and deleted by the same proposal";
    bench.refused(&[("d/a.txt", "x")], &["d/a.txt"], "invalid-arguments", message);
}

#[test]
fn links_in_the_repository_are_not_written_through() {
    let bench = Bench::new(&[("docs/a.md", "a"), ("outside-target", "")]);
    symlink("docs", bench.root("link")).expect("a link is made");
    symlink("docs/a.md", bench.root("readme")).expect("a link is made");
    symlink("..", bench.root("up")).expect("a link is made");
    bench.see("docs/a.md");
    bench.refused(
        &[("link/new.md", "x")],
        &[],
        "denied",
        "`link/new.md` leads through a symbolic link",
    );
    bench.refused(
        &[("readme", "x")],
        &[],
        "denied",
        "`readme` leads through a symbolic link",
    );
    bench.refused(
        &[("up/escaped", "x")],
        &[],
        "denied",
        "`up/escaped` leads through a symbolic link",
    );
    assert!(!bench.folder.path().join("escaped").exists());
    let failure = bench.propose(&[("readme", "x")], &[]).expect_err("refused");
    assert_eq!(failure.hint.as_deref(), Some("propose the real path `docs/a.md`"));
}

#[test]
fn quotas_are_enforced() {
    let bench = Bench::new(&[]);
    let many: Vec<String> = (0..=STAGED_ENTRIES_MAX).map(|n| format!("f{n}")).collect();
    let files: Vec<_> = many.iter().map(|path| (path.as_str(), "")).collect();
    bench.refused(&files, &[], "limit", "The proposal has more than 2000 files");
    let deletions: Vec<_> = many.iter().map(String::as_str).collect();
    bench.refused(&[], &deletions, "limit", "The proposal has more than 2000 files");
    fs::remove_dir_all(bench.stage("")).expect("the stage is removed");
    write(&bench.stage("half"), "12345");
    let large = fs::File::create(bench.stage("large")).expect("a file is made");
    large.set_len(STAGED_BYTES_MAX - 4).expect("a sparse file");
    let failure = bench.commit(&[]).expect_err("the proposal is refused");
    assert_eq!(failure.message, "The proposal has more than 32 MiB");
}

#[test]
fn generating_tests_changes_only_what_it_created() {
    let bench = Bench::with(&[("test_old.py", "old")], Operation::TestGen, &PolicyRequest::default());
    bench.see("test_old.py");
    let message = "`test_old.py` existed before this session, and this operation changes only what it created";
    bench.refused(&[("test_old.py", "new")], &[], "denied", message);
    bench.refused(&[("test_new.py", "x")], &["test_old.py"], "denied", message);
    bench.propose(&[("test_new.py", "1")], &[]).expect("committed");
    bench.propose(&[("test_new.py", "2")], &[]).expect("committed");
    bench.propose(&[], &["test_new.py"]).expect("committed");
}

#[test]
fn generating_tests_never_configures_what_runs_them() {
    let bench = Bench::with(&[], Operation::TestGen, &PolicyRequest::default());
    for path in ["pytest.ini", "conftest.py", "web/package.json", "vitest.config.ts"] {
        let message = format!("`{path}` decides how tests run, and this operation only writes tests");
        bench.refused(&[("tests/test_new.py", "x"), (path, "")], &[], "denied", &message);
    }
    let files = [("tests/conftest.py", ""), ("tests/test_new.py", "x")];
    assert_eq!(bench.propose(&files, &[]).expect("committed").len(), 2);
    let bench = Bench::with(&[], Operation::Refactor, &PolicyRequest::default());
    bench.propose(&[("pytest.ini", "")], &[]).expect("a refactor may");
}

#[test]
fn what_the_policy_denies_is_refused_deletions_included() {
    let bench = Bench::with(&[("a.txt", "a")], Operation::Explain, &PolicyRequest::default());
    bench.see("a.txt");
    let message = "Changing files is not allowed in this operation";
    bench.refused(&[], &["a.txt"], "denied", message);
    bench.refused(&[("b.txt", "b")], &[], "denied", message);
}

#[test]
fn a_cancelled_session_changes_nothing() {
    let bench = Bench::new(&[]);
    bench.context.cancel.cancel();
    bench.refused(
        &[("a", "a")],
        &[],
        "failed",
        "The session was cancelled; nothing was changed",
    );
}

#[test]
fn a_link_in_the_stage_is_not_followed() {
    let bench = Bench::new(&[]);
    write(&bench.stage("a.py"), "x = 1\n");
    symlink("a.py", bench.stage("link.py")).expect("a link is made");
    let stage = rustix::fs::openat(
        rustix::fs::CWD,
        bench.stage(""),
        OFlags::RDONLY | OFlags::DIRECTORY,
        Mode::empty(),
    );
    let stage = stage.expect("it is there");
    assert_eq!(
        read_staged(&stage, "a.py", "a.py", 100).expect("it is a file"),
        b"x = 1\n"
    );
    assert!(read_staged(&stage, "link.py", "link.py", 100).is_err());
}

#[test]
fn a_proposal_holds_files_up_to_its_bound() {
    let mut proposal = StagedProposal {
        files: (0..STAGED_ENTRIES_MAX)
            .map(|number| (number.to_string(), None))
            .collect(),
        bytes: 0,
        ..StagedProposal::default()
    };
    assert!(proposal.check_count().is_ok());
    proposal.files.insert("one more".to_owned(), None);
    assert!(proposal.check_count().is_err());
}

#[test]
fn a_pointer_of_git_lfs_is_not_edited() {
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "a".repeat(64)
    );
    let edited = pointer.replace("12345", "99");
    let bench = Bench::new(&[("model.bin", pointer.as_str())]);
    bench.see("model.bin");
    let message =
        "`model.bin` is a Git LFS pointer: its content (12345 bytes) is not here, and the pointer is not edited";
    bench.refused(&[("model.bin", edited.as_str())], &[], "denied", message);
    assert_eq!(bench.propose(&[], &["model.bin"]).expect("it may go"), ["model.bin"]);
}
