//! Components that are accepted, and the errors for those that are not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tool_core::api::{Effect, SkillState};
use tool_skill::{Limits, RawArguments, SkillHost, SkillHostError, SkillScope};

use super::{Arena, guest};

/// A home of its own for what changes the list of skills.
fn empty_home() -> (TempDir, Arc<SkillHost>) {
    let home = TempDir::new().expect("a temporary folder");
    let host = SkillHost::new(&[], home.path()).expect("the engine starts");
    (home, host)
}

/// A component with one text in it replaced by another of the same length.
fn forged(folder: &Path, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let wasm = fs::read(guest("echo")).expect("the guest is built");
    let mut forged = wasm.clone();
    let found: Vec<usize> = (0..wasm.len() - from.len())
        .filter(|&at| wasm[at..].starts_with(from.as_bytes()))
        .collect();
    assert!(!found.is_empty(), "{from} is not in the guest");
    for at in found {
        forged[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let path = folder.join("forged.wasm");
    fs::write(&path, forged).expect("the folder is writable");
    path
}

#[test]
fn components_that_ask_for_the_unknown_are_refused_by_name() {
    let (home, host) = empty_home();
    let refused = |path: PathBuf| match host.inspect(&path) {
        Err(SkillHostError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let forge = |from, to| refused(forged(home.path(), from, to));
    assert_eq!(
        forge("tool:skill/handler@1.0.0", "tool:skill/handler@2.0.0"),
        "it was built for tool:skill@2.0.0, and this host has tool:skill@1.0.0"
    );
    assert_eq!(
        forge("wasi:random/insecure-seed@0.2.6", "wasi:random/insecure-feed@0.2.6"),
        "it imports `wasi:random/insecure-feed@0.2.6`, which this host does not provide"
    );
    assert_eq!(
        forge("wasi:cli/stdin@0.2.6", "wasi:cli/stdin@0.3.0"),
        "it imports `wasi:cli/stdin@0.3.0`, which this host does not provide"
    );
    assert_eq!(
        refused(guest("sneaky")),
        "it imports `tool:skill/git-read` without declaring the effect `read-git`"
    );
    let other = home.path().join("other.wasm");
    for (bytes, reason) in [
        (&b"# A page\n"[..], "it is no WebAssembly component"),
        (
            &b"\0asm\x01\0\0\0"[..],
            "it is a WebAssembly module, not a component: build it for the target `wasm32-wasip2`, or make a component of it \
             with `wasm-tools component new`",
        ),
        (
            b"\0asm\x0d\0\x01\0",
            "it exports no `tool:skill/handler@1.0.0`, so it is no skill",
        ),
    ] {
        fs::write(&other, bytes).expect("the folder is writable");
        assert_eq!(refused(other.clone()), reason);
    }
    fs::write(&other, b"\0asm\x0d\0\x01\0\xff").expect("the folder is writable");
    assert!(refused(other).starts_with("it is no valid component: "));
}

#[test]
fn looking_at_a_component_is_bounded() {
    let home = TempDir::new().expect("a temporary folder");
    let look = |limits, path: &Path| {
        let host = SkillHost::with_limits(&[], home.path(), limits).expect("the engine starts");
        host.inspect(path).expect_err("it is beyond the bounds")
    };
    let hurried = Limits {
        describe: Duration::from_millis(200),
        ..Limits::default()
    };
    let refused = look(hurried, &guest("endless")).to_string();
    assert!(
        refused.ends_with("is refused: it does not describe itself within the limit of 200 ms"),
        "{refused}"
    );
    let impatient = Limits {
        compile: Duration::ZERO,
        ..Limits::default()
    };
    let refused = look(impatient, &guest("hostile")).to_string();
    let in_turn = "another skill is still being compiled";
    assert!(
        refused.ends_with("compiling it took longer than 0 s") || refused.ends_with(in_turn),
        "{refused}"
    );
    let large = home.path().join("large.wasm");
    let file = fs::File::create(&large).expect("the folder is writable");
    file.set_len(tool_core::limits::COMPONENT_BYTES_MAX + 1)
        .expect("a hole takes no space");
    let refused = look(Limits::default(), &large);
    assert!(matches!(refused, SkillHostError::Io { .. }), "{refused}");
}

/// Neither the time nor chance tells a component that it is asked again, so that a user reads the text that is pinned.
#[test]
fn a_component_describes_itself_the_same_whenever_it_is_asked() {
    let (_home, host) = empty_home();
    let shown = host.inspect(&guest("fickle")).expect("it describes itself");
    let said = shown.functions[0].parameters["description"].as_str().expect("a text");
    assert!(said.starts_with("946684800."), "it has a clock: {said}");
    // Some runtimes, such as Go's, end at once where the monotonic clock shows 0.
    assert!(said.contains("Instant { tv_sec: 1,"), "it starts above 0: {said}");
    // It tells seconds, so that the next one has to begin.
    std::thread::sleep(Duration::from_millis(1_100));
    for _ in 0..3 {
        assert_eq!(host.inspect(&guest("fickle")).expect("it describes itself"), shown);
    }
    host.add(&shown).expect("it is what was shown");
    // Once it is called, clock and chance are real.
    let arena = Arena::new();
    let call = || {
        let report = host.call(&arena.context, "fickle", RawArguments::Text("{}"));
        report.result.expect("it answers").text
    };
    let (one, other) = (call(), call());
    assert!(!one.starts_with("946684800.") && one != other, "{one} {other}");
    assert!(
        one.contains("Instant {") && !one.contains("tv_sec: 0,"),
        "it starts above 0: {one}"
    );
}

#[test]
fn a_component_gets_nothing_before_it_is_trusted_and_nothing_after_it_changed() {
    let (home, host) = empty_home();
    let arena = Arena::new();
    let folder = home.path().join("skills");
    let state = || {
        let entries = host.entries();
        let entry = entries.first().expect("it is listed");
        (entry.state, entry.effects.clone())
    };
    let call = || match host
        .call(&arena.context, "summing", RawArguments::Text(r#"{"numbers": [1]}"#))
        .result
    {
        Ok(outcome) => outcome.text,
        Err(error) => error.to_string(),
    };
    fs::create_dir_all(&folder).expect("the home is writable");
    fs::copy(guest("summing"), folder.join("summing.wasm")).expect("the home is writable");
    assert_eq!(state(), (SkillState::Untrusted, vec![]));
    let offered = host.specs(SkillScope::default());
    assert_eq!((offered.builtin.len(), offered.team.len()), (0, 0));
    assert_eq!(
        call(),
        "The skill `summing` cannot be used: it has not been added; `tool skill trust summing` shows what it asks for."
    );

    let shown = host.inspect_installed("summing", None).expect("it describes itself");
    assert_eq!(shown.effects, [Effect::ReadRepository]);
    host.trust(&shown).expect("it is what was shown");
    assert_eq!(state(), (SkillState::Ready, vec![Effect::ReadRepository]));
    assert_eq!(call(), "whole:1");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder.join("pins.json")), 0o600);
    assert_eq!(mode(&home.path().join("cache/skills")), 0o700);

    fs::copy(guest("echo"), folder.join("summing.wasm")).expect("the home is writable");
    assert_eq!(state().0, SkillState::Changed);
    assert!(call().contains("its file has changed since it was added"), "{}", call());
    assert!(matches!(host.trust(&shown), Err(SkillHostError::Changed { .. })));
    assert!(matches!(
        host.inspect_installed("summing", None),
        Err(SkillHostError::Refused { .. })
    ));

    host.remove("summing").expect("it is there");
    assert_eq!(host.entries().len(), 0);
    assert!(matches!(host.remove("summing"), Err(SkillHostError::Unknown { .. })));
    assert!(matches!(host.remove("../summing"), Err(SkillHostError::Unknown { .. })));
}

#[test]
fn wasmtime_is_one_without_the_trailing_slash_escape() {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).expect("it is there");
    let lock: toml::Table = lock.parse().expect("cargo writes TOML");
    let packages = lock["package"].as_array().expect("a list of packages");
    let mut found = 0;
    for package in packages
        .iter()
        .filter(|package| package["name"].as_str() == Some("wasmtime-wasi"))
    {
        let version = package["version"].as_str().expect("a version");
        let major: u32 = version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .expect("a number");
        assert!(major >= 48, "wasmtime-wasi {version} lets a trailing slash escape");
        found += 1;
    }
    assert!(
        found > 0,
        "wasmtime-wasi is gone: is the guest with the trailing slash still run?"
    );
}
