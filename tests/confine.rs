//! Helpers, tested from both sides: what a confined one cannot do, and what hostile repositories and components make of
//! theirs. Nothing of it costs more than its own call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tool_core::api::{Operation, PolicyRequest, SkillState};
use tool_proof::{ProbeVerdict, helpers};
use tool_repository::{Options, Repository};
use tool_sandbox::helper_process;
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{CallContext, Limits, RawArguments, SkillHost};

use crate::sandbox::guest;
use crate::support::{Home, folder, git, holds, tree};

/// A host of skills whose helper is the real binary.
fn host_with(limits: Limits, home: &Path) -> Arc<SkillHost> {
    helper_process::offer_helper_at(env!("CARGO_BIN_EXE_tool").into());
    SkillHost::with_limits(&[], home, limits).expect("the engine starts")
}

/// A host with `git_diff` as a team's skill. Its home is kept between runs, so that it is compiled once.
fn host() -> &'static Arc<SkillHost> {
    static HOST: OnceLock<Arc<SkillHost>> = OnceLock::new();
    HOST.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("confine");
        fs::create_dir_all(&home).expect("the folder is writable");
        let lock = fs::File::create(home.join("lock")).expect("the folder is writable");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locks work");
        let host = host_with(Limits::default(), &home);
        let shown = host.inspect(&guest("git_diff")).expect("it describes itself");
        if !host
            .entries()
            .iter()
            .any(|entry| entry.digest == shown.digest && entry.state == SkillState::Ready)
        {
            host.add(&shown).expect("it is acceptable");
        }
        host
    })
}

fn context(root: &Path) -> Arc<CallContext> {
    Arc::new(CallContext {
        environment: BTreeMap::from([("HOME".to_owned(), "/nonexistent".to_owned())]),
        ..CallContext::unattended(
            Repository::open(root, &Options::default()).expect("the folder is acceptable"),
            Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is valid"),
        )
    })
}

/// The first line of the diff, or why there is none.
fn changes(context: &Arc<CallContext>) -> String {
    match host().call(context, "git_diff", RawArguments::Text("{}")).result {
        Ok(outcome) => outcome.text.lines().next().unwrap_or_default().to_owned(),
        Err(error) => format!("{} {error}", error.verdict()),
    }
}

const CHANGED: &str = "On branch main: 1 file changed, +1 -20 (1 unstaged)";

/// A repository with a pack, an index, a branch that is packed, and a file that was changed.
fn repository() -> TempDir {
    let repository = folder(&[("a.txt", "one\n"), ("dir/b.txt", "two\n")]);
    let root = repository.path();
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    for round in 0..20 {
        fs::write(root.join("a.txt"), format!("one\n{}", "more\n".repeat(round))).expect("it is writable");
        git(root, &["add", "."]);
        commit(root, &format!("Round {round}"));
    }
    git(root, &["repack", "-adfq"]);
    git(root, &["pack-refs", "--all"]);
    git(root, &["commit-graph", "write", "--reachable"]);
    fs::write(root.join("a.txt"), "changed\n").expect("it is writable");
    repository
}

fn commit(root: &Path, message: &str) {
    let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    git(
        root,
        &[&author[..], &["commit", "--quiet", "--message", message]].concat(),
    );
}

/// Helpers of this process that are alive.
fn helpers() -> BTreeSet<u32> {
    let own = std::process::id();
    let is_helper = |pid: u32| {
        let parent = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = parent
            .rsplit_once(')')?
            .1
            .split_ascii_whitespace()
            .nth(1)?
            .parse::<u32>()
            .ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let named = line
            .split(|&byte| byte == 0)
            .any(|word| word == helper_process::HELPER_COMMAND.as_bytes());
        (parent == own && named).then_some(pid)
    };
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    all.filter_map(|entry| is_helper(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// Fails unless everything in `pids` ends soon.
#[track_caller]
fn all_end(pids: &BTreeSet<u32>) {
    let patience = Instant::now() + Duration::from_secs(2);
    while helpers().intersection(pids).next().is_some() {
        assert!(Instant::now() < patience, "{pids:?} are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_helper_cannot_get_out() {
    host();
    let results = helpers::probe_helper();
    assert_eq!(results.len(), helpers::ATTEMPTS.len());
    let stays_in = |verdict| verdict == ProbeVerdict::Pass || !helper_process::detect_confinement().is_full();
    for result in results {
        assert!(stays_in(result.verdict), "{result:?}");
        assert_ne!(result.verdict, ProbeVerdict::Fail, "{result:?}");
    }
}

// ---- hostile repositories ----

#[test]
fn broken_bytes_of_a_repository_end_as_an_answer() {
    let original = repository();
    let files = ["index", "HEAD", "packed-refs", "config", "objects/info/commit-graph"];
    let mut files: Vec<PathBuf> = files
        .iter()
        .map(|name| original.path().join(".git").join(name))
        .collect();
    let packs = fs::read_dir(original.path().join(".git/objects/pack")).expect("it is there");
    files.extend(packs.flatten().map(|entry| entry.path()));
    let context = context(original.path());
    let expected = changes(&context);
    assert_eq!(expected, CHANGED);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for file in files {
        use std::os::unix::fs::PermissionsExt;
        let bytes = fs::read(&file).expect("it is readable");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
        for round in 0..6 {
            let mut mutated = bytes.clone();
            for _ in 0..=round {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(random >> 33).expect("64 bits") % bytes.len();
                match round % 3 {
                    0 => mutated[at] ^= 1 << (random % 8),
                    1 => mutated[at] = 0xff,
                    _ => mutated.truncate(at.max(1)),
                }
                if round % 3 == 2 {
                    break;
                }
            }
            fs::write(&file, mutated).expect("it is writable");
            let started = Instant::now();
            let answer = changes(&context);
            let is_clear = [
                "On branch ",
                "On no branch",
                "No uncommitted",
                "failed ",
                "unavailable ",
                "limit ",
                "denied ",
            ]
            .iter()
            .any(|start| answer.starts_with(start));
            assert!(is_clear, "{}: {answer}", file.display());
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{}: {answer}",
                file.display()
            );
        }
        fs::write(&file, bytes).expect("it is writable");
    }
    assert_eq!(
        changes(&context),
        expected,
        "what was broken is whole again, and so is the daemon"
    );
}

/// Returns the state of a repository after a change.
fn after(change: impl Fn(&Path)) -> String {
    let repository = repository();
    let context = context(repository.path());
    change(&repository.path().join(".git"));
    let started = Instant::now();
    let answer = changes(&context);
    assert!(started.elapsed() < Duration::from_secs(30), "{answer}");
    let place = repository.path().canonicalize().expect("it is there");
    answer.replace(&*place.to_string_lossy(), "…")
}

fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from(0o600)).expect("FIFOs can be made");
}

#[test]
fn fifos_hold_nobody_up() {
    let told = [
        ("an ignore file", "../.gitignore"),
        ("attributes", "../.gitattributes"),
        ("attributes below", "../dir/.gitattributes"),
        ("the branch", "refs/heads/main"),
        ("the index", "index"),
        ("packed references", "packed-refs"),
        ("the configuration", "config"),
        ("a list of what to leave out", "info/exclude"),
    ]
    .map(|(what, place)| format!("{what}: {}", after(|git| fifo(&git.join(place)))));
    insta::assert_snapshot!(told.join("\n"), @r"
    an ignore file: On branch main: 1 file changed, +1 -20 (1 unstaged)
    attributes: On branch main: 1 file changed, +1 -20 (1 unstaged)
    attributes below: On branch main: 1 file changed, +1 -20 (1 unstaged)
    the branch: unavailable The git directory is not used: `…/.git/refs/heads/main`: it is not a regular file.
    the index: unavailable The git directory is not used: `…/.git/index`: it is not a regular file.
    packed references: unavailable The git directory is not used: `…/.git/packed-refs`: it is not a regular file.
    the configuration: unavailable The git directory is not used: `…/.git/config`: it is not a regular file.
    a list of what to leave out: unavailable The git directory is not used: `…/.git/info/exclude`: it is not a regular file.
    ");
}

#[test]
fn references_in_a_circle_and_indices_that_lie_are_errors() {
    let circle = after(|git| {
        for (from, to) in [("main", "other"), ("other", "main")] {
            fs::write(git.join("refs/heads").join(from), format!("ref: refs/heads/{to}\n")).expect("it is writable");
        }
    });
    let chain = after(|git| {
        for link in 0..5000 {
            let text = format!("ref: refs/heads/{}\n", link + 1);
            fs::write(git.join("refs/heads").join(link.to_string()), text).expect("it is writable");
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/0\n").expect("it is writable");
    });
    let count = after(|git| {
        let mut index = fs::read(git.join("index")).expect("it is there");
        index[8..12].copy_from_slice(&[0xff; 4]);
        fs::write(git.join("index"), sealed(index)).expect("it is writable");
    });
    let outside = after(|git| {
        let mut index = fs::read(git.join("index")).expect("it is there");
        let at = index
            .windows(5)
            .position(|five| five == b"a.txt")
            .expect("it is tracked");
        index[at..at + 5].copy_from_slice(b"../xt");
        fs::write(git.join("index"), sealed(index)).expect("it is writable");
    });
    insta::assert_snapshot!([circle, chain, count, outside].join("\n"), @r"
    failed git: cannot resolve reference (>5 levels deep).
    failed git: cannot resolve reference (>5 levels deep).
    failed git: invalid data in index - invalid entry.
    failed git: invalid data in index - invalid entry.
    ");
}

/// With the checksum that an index ends with.
fn sealed(mut index: Vec<u8>) -> Vec<u8> {
    let end = index.len() - 20;
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("bytes");
    fs::write(&path, &index[..end]).expect("the folder is writable");
    let sum = run("sha1sum", &[path.as_os_str()]);
    let digits = sum.split_whitespace().next().expect("it starts with the sum");
    for (at, byte) in index[end..].iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
    }
    index
}

#[expect(clippy::disallowed_methods, reason = "other programs make what is hostile here")]
fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn packs_that_explode_cost_only_their_own_call() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/confine/packs.py");
    let told = ["bomb", "chain", "lie", "circle"].map(|kind| {
        let answer = after(|git| {
            let commit = run(
                "python3",
                &[script.as_os_str(), git.join("objects").as_os_str(), kind.as_ref()],
            );
            fs::write(git.join("refs/heads/main"), commit).expect("it is writable");
        });
        format!("{kind}: {answer}")
    });
    insta::assert_snapshot!(told.join("\n"), @r"
    bomb: limit git took more memory than it may.
    chain: failed git: object hash mismatch - expected 80655da8d80aaaf92ce5357e7828dc09adb00993 but got c0c64c73836af3f92986618b999878f185c0d6b9.
    lie: failed git: failed to apply delta: overly large object.
    circle: failed git: invalid pack file - out of bounds.
    ");
}

#[test]
fn trees_that_lead_out_change_nothing_outside() {
    let (home, repository) = (Home::offline(), repository());
    let root = repository.path();
    let blob = git(root, &["rev-parse", "HEAD:a.txt"]);
    let raw = (0..40)
        .step_by(2)
        .map(|at| u8::from_str_radix(&blob[at..at + 2], 16).expect("digits"));
    let raw: Vec<u8> = raw.collect();
    let entry = |name: &str| [format!("100644 {name}\0").as_bytes(), raw.as_slice()].concat();
    let bytes = [entry("../x"), entry(".env"), entry(".git/config")].concat();
    fs::write(root.join("tree"), bytes).expect("the folder is writable");
    let tree = git(root, &["hash-object", "-t", "tree", "--literally", "-w", "tree"]);
    fs::remove_file(root.join("tree")).expect("it was there");
    let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let made = git(root, &[&author[..], &["commit-tree", tree.trim(), "-m", "x"]].concat());
    git(root, &["update-ref", "refs/heads/main", made.trim()]);
    let answer = home.run(root, &["skill", "call", "git_diff", "{}"]).expect(0);
    for name in ["../x", ".env", ".git/config"] {
        assert!(!answer.stdout.contains(name), "{}", answer.stdout);
    }
}

#[test]
fn a_cancelled_call_leaves_no_helper() {
    let repository = repository();
    changes(&context(repository.path()));
    fifo(&repository.path().join(".gitattributes"));
    let context = context(repository.path());
    let before = helpers();
    let trigger = context.cancel.clone();
    let watcher = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        let seen: BTreeSet<u32> = helpers().difference(&before).copied().collect();
        trigger.cancel();
        (seen, Instant::now())
    });
    changes(&context);
    let returned = Instant::now();
    let (seen, cancelled) = watcher.join().expect("no panic");
    let waited = returned.saturating_duration_since(cancelled);
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    all_end(&seen);
}

#[test]
fn a_linked_worktree_is_read_unasked_and_commits_need_a_flag_or_a_yes() {
    let (home, repository) = (Home::offline(), repository());
    let root = repository.path();
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    let elsewhere = TempDir::new().expect("a temporary folder");
    let place = elsewhere.path().join("second");
    git(root, &["worktree", "add", "--quiet", &place.to_string_lossy()]);
    fs::write(place.join("a.txt"), "changed\n").expect("it is writable");
    let shown = home.run(&place, &["skill", "call", "git_diff", "{}"]).expect(0);
    holds(&shown.stdout, &["On branch second: 1 file changed", "+changed"]);
    let arguments = json!({"message": "Change", "all": true}).to_string();
    let mut commit = vec!["skill", "call", "git_commit", &arguments, "--allow", "commit-git"];
    let refused = home.run(&place, &commit).expect(1);
    let common = root
        .canonicalize()
        .expect("it is there")
        .join(".git")
        .display()
        .to_string();
    holds(
        &refused.stderr,
        &[
            "A commit of this work tree writes to git data outside of it",
            "no user can be asked whether it may",
            &format!("--allow-path {common}"),
        ],
    );
    assert_eq!(git(&place, &["status", "--porcelain"]), " M a.txt\n");
    commit.extend(["--allow-path", &common]);
    home.run(&place, &commit).expect(0);
    assert_eq!(git(&place, &["status", "--porcelain"]), "");
    assert_eq!(
        git(root, &["log", "-1", "--format=%s by %an", "second"]),
        "Change by Ada\n"
    );
    git(root, &["fsck", "--strict"]);
}

#[test]
fn a_worktree_whose_repository_does_not_know_it_is_denied_where_nobody_can_be_asked() {
    let (home, repository) = (Home::offline(), repository());
    let elsewhere = TempDir::new().expect("a temporary folder");
    let place = elsewhere.path().canonicalize().expect("it is there");
    fs::create_dir(place.join("record")).expect("it is writable");
    for (name, text) in [
        (".git", "gitdir: record\n".to_owned()),
        ("record/HEAD", "ref: refs/heads/main\n".to_owned()),
        ("record/gitdir", format!("{}/.git\n", place.display())),
        ("record/commondir", format!("{}/.git\n", repository.path().display())),
    ] {
        fs::write(place.join(name), text).expect("it is writable");
    }
    let refused = home.run(&place, &["skill", "call", "git_diff", "{}"]).expect(1);
    holds(
        &refused.stderr,
        &[
            "git's data of this work tree lies outside of it",
            "no user can be asked whether to use it",
            "hint: ",
        ],
    );
}

// ---- commits ----

#[test]
fn a_commit_is_one_that_git_itself_would_have_made() {
    let (home, repository) = (Home::offline(), repository());
    let root = repository.path();
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    fs::write(root.join(".gitattributes"), "*.txt text\n*.id ident\n").expect("it is writable");
    fs::write(root.join("a.txt"), "dos\r\n").expect("it is writable");
    fs::write(root.join("b.id"), "$Id: 123$\n").expect("it is writable");
    fs::write(root.join("new ü.txt"), "new\n").expect("it is writable");
    fs::remove_file(root.join("dir/b.txt")).expect("it was there");
    let kept = |path: &Path| {
        tree(&path.join(".git/hooks"))
            .into_iter()
            .chain(config(path))
            .collect::<Vec<_>>()
    };
    let before = kept(root);
    let arguments = json!({"message": "Tidy\n\nAt length.", "all": true}).to_string();
    home.run(
        root,
        &["skill", "call", "git_commit", &arguments, "--allow", "commit-git"],
    )
    .expect(0);
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert_eq!(git(root, &["show", "HEAD:a.txt"]), "dos\n");
    assert_eq!(git(root, &["show", "HEAD:b.id"]), "$Id$\n");
    assert_eq!(
        git(root, &["log", "-1", "--format=%an <%ae> %B"]),
        "Ada <ada@example.org> Tidy\n\nAt length.\n\n"
    );
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "21\n");
    assert_eq!(git(root, &["reflog", "-1", "--format=%gs", "main"]), "commit: Tidy\n");
    assert_eq!(git(root, &["reflog", "-1", "--format=%gs", "HEAD"]), "commit: Tidy\n");
    git(root, &["fsck", "--strict"]);
    assert_eq!(kept(root), before);
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        assert!(!root.join(".git").join(lock).exists(), "{lock}");
    }

    git(root, &["checkout", "--quiet", "--detach"]);
    fs::write(root.join("a.txt"), "detached\n").expect("it is writable");
    home.run(
        root,
        &["skill", "call", "git_commit", &arguments, "--allow", "commit-git"],
    )
    .expect(0);
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert_eq!(git(root, &["rev-list", "--count", "HEAD"]), "22\n");
    assert_eq!(git(root, &["rev-list", "--count", "main"]), "21\n");
    git(root, &["fsck", "--strict"]);
}

fn config(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let text = fs::read(root.join(".git/config")).expect("it is there");
    BTreeMap::from([("config".into(), (0, text))])
}

#[test]
fn what_the_user_has_configured_counts_and_a_lock_is_respected() {
    let (home, repository) = (Home::offline(), repository());
    let root = repository.path();
    // The user's own configuration: conditions on the place, and a list of ignored files somewhere.
    let place = root.canonicalize().expect("it is there");
    let text = format!(
        "[core]\n\texcludesFile = ~/ignored\n[includeIf \"gitdir:{}/\"]\n\tpath = ~/more/there\n",
        place.display()
    );
    fs::write(home.path().join(".gitconfig"), text).expect("it is writable");
    fs::write(home.path().join("ignored"), "*.mine\n").expect("it is writable");
    fs::create_dir(home.path().join("more")).expect("it is writable");
    fs::write(
        home.path().join("more/there"),
        "[user]\n\tname = Bee\n\temail = bee@example.org\n",
    )
    .expect("it is writable");
    fs::write(root.join("note.mine"), "mine\n").expect("it is writable");
    let answer = home.run(root, &["skill", "call", "git_diff", "{}"]).expect(0);
    assert!(!answer.stdout.contains("note.mine"), "{}", answer.stdout);

    let arguments = json!({"message": "Change", "all": true}).to_string();
    let commit = ["skill", "call", "git_commit", &arguments, "--allow", "commit-git"];
    fs::write(root.join(".git/index.lock"), "").expect("it is writable");
    let locked = home.run(root, &commit).expect(1);
    holds(
        &locked.stderr,
        &["Another git process holds", "remove `.git/index.lock`"],
    );
    fs::remove_file(root.join(".git/index.lock")).expect("it was there");
    home.run(root, &commit).expect(0);
    assert_eq!(
        git(root, &["log", "-1", "--format=%an <%ae>"]),
        "Bee <bee@example.org>\n"
    );
    assert_eq!(git(root, &["show", "--stat", "--format=", "HEAD"]).lines().count(), 2);
}

// ---- hostile components ----

/// A component that is a skill, with a module behind it that nothing uses and that takes for ever to compile.
fn heavy(folder: &Path, functions: u32, body: &[u8]) -> PathBuf {
    let mut section = leb(functions);
    for _ in 0..functions {
        section.extend(leb(u32::try_from(body.len()).expect("it is short")));
        section.extend(body);
    }
    let mut module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0".to_vec();
    let types = [leb(functions), vec![0; functions as usize]].concat();
    for (id, content) in [(3, types), (10, section)] {
        module.push(id);
        module.extend(leb(u32::try_from(content.len()).expect("it is short")));
        module.extend(content);
    }
    let mut component = fs::read(guest("echo")).expect("it is there");
    component.push(1);
    component.extend(leb(u32::try_from(module.len()).expect("it is short")));
    component.extend(module);
    let path = folder.join("heavy.wasm");
    fs::write(&path, component).expect("the folder is writable");
    path
}

fn leb(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (number & 0x7f).to_le_bytes()[0];
        number >>= 7;
        match number {
            0 => {
                bytes.push(byte);
                return bytes;
            }
            _ => bytes.push(byte | 0x80),
        }
    }
}

/// A body of arithmetic, nested or one after the other.
fn body(blocks: usize) -> Vec<u8> {
    let mut body = vec![1, 64, 0x7e];
    for at in 0..blocks {
        let local = (at % 64).to_le_bytes()[0];
        body.extend([
            0x02,
            0x40,
            0x20,
            local,
            0x20,
            63 - local,
            0x7e,
            0x42,
            3,
            0x7c,
            0x21,
            local,
            0x20,
            local,
            0x50,
            0x0d,
            0,
        ]);
    }
    body.extend(vec![0x0b; blocks + 1]);
    body
}

#[test]
fn a_component_that_takes_too_long_to_compile_is_ended_and_the_next_compiles() {
    let home = TempDir::new().expect("a temporary folder");
    let heavy = heavy(home.path(), 16, &body(40_000));
    let before = helpers();
    let hurried = Limits {
        compile: Duration::from_millis(700),
        ..Limits::default()
    };
    let started = Instant::now();
    let refused = host_with(hurried, home.path())
        .inspect(&heavy)
        .expect_err("it takes too long");
    let text = refused.to_string();
    let in_turn = "another skill is still being compiled";
    assert!(
        text.ends_with("compiling it took longer than 0 s") || text.ends_with(in_turn),
        "{text}"
    );
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    all_end(&helpers().difference(&before).copied().collect());
    let shown = host_with(Limits::default(), home.path()).inspect(&guest("echo"));
    assert_eq!(shown.expect("it is an honest one").name, "echo");
}

#[test]
fn a_component_that_takes_too_much_memory_to_compile_is_ended() {
    let home = TempDir::new().expect("a temporary folder");
    let heavy = heavy(home.path(), 16, &body(40_000));
    let narrow = Limits {
        compile_memory_bytes: 96 * 1024 * 1024,
        ..Limits::default()
    };
    let refused = host_with(narrow, home.path())
        .inspect(&heavy)
        .expect_err("it takes too much");
    let text = refused.to_string();
    assert!(text.ends_with("compiling it took more memory than it may"), "{text}");
}
