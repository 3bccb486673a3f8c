//! The lock file: its form, and what differs from it.

use super::*;

fn digest(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn locked(digit: char, effects: &[Effect]) -> LockedSkill {
    LockedSkill {
        version: "1.0.0".to_owned(),
        digest: digest(digit),
        world: CONTRACT.to_owned(),
        effects: effects.iter().copied().collect(),
        source: Some("lint.wasm".to_owned()),
    }
}

fn entry(name: &str, digit: char, effects: &[&str]) -> SkillEntry {
    SkillEntry {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        description: String::new(),
        effects: effects
            .iter()
            .map(|effect| effect.parse().expect("it is one"))
            .collect(),
        digest: digest(digit),
        origin: SkillOrigin::Team,
        state: SkillState::Ready,
        reason: None,
        signature: None,
        functions: Vec::new(),
    }
}

fn parsed(text: &str) -> Result<SkillLock, String> {
    SkillLock::parse(Path::new(NAME), text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn what_was_written_is_read_back_and_always_the_same() {
    let reads = locked('a', &[Effect::ReadRepository]);
    let writes = locked('b', &[Effect::WriteRepository, Effect::ReadRepository]);
    let lock = SkillLock::new([("z".to_owned(), reads.clone()), ("a".to_owned(), writes.clone())].into());
    let text = lock.to_text();
    insta::assert_snapshot!(text, @r#"
    # The skills that this team has agreed on. `tool skill lock` writes it, `tool skill sync` compares.
    version = 1

    [[skill]]
    name = "a"
    version = "1.0.0"
    digest = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    world = "1.0.0"
    effects = ["read-repository", "write-repository"]
    source = "lint.wasm"

    [[skill]]
    name = "z"
    version = "1.0.0"
    digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    world = "1.0.0"
    effects = ["read-repository"]
    source = "lint.wasm"
    "#);
    assert_eq!(parsed(&text), Ok(lock.clone()));
    let other = SkillLock::new([("a".to_owned(), writes), ("z".to_owned(), reads.clone())].into());
    assert_eq!(other.to_text(), text);
    assert_eq!(parsed(&SkillLock::default().to_text()), Ok(SkillLock::default()));
    let nowhere = LockedSkill { source: None, ..reads };
    let nowhere = SkillLock::new([("a".to_owned(), nowhere)].into());
    assert!(!nowhere.to_text().contains("source"));
    assert_eq!(parsed(&nowhere.to_text()), Ok(nowhere));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let good = SkillLock::new([("lint".to_owned(), locked('a', &[]))].into()).to_text();
    for (from, to, told) in [
        ("version = 1\n", "version = 2\n", "line 1: its form is 2"),
        ("\"lint\"", "\"Lint\"", "line 5: `Lint` is no name"),
        ("sha256:aa", "sha256:AA", "line 7: a digest is"),
        ("sha256:", "md5:", "line 7: a digest is"),
        ("effects = []", "effects = [\"root\"]", "line 9: Unknown effect `root`"),
        ("source", "sauce", "line 10: unknown field `sauce`"),
        ("world = \"1.0.0\"\n", "", "line 4: missing field `world`"),
        ("name = \"lint\"", "name = lint", "line 5: "),
        (
            "lint.wasm",
            "oci://example.org/lint:1.0",
            "line 10: a place in a registry ends with",
        ),
        (
            "lint.wasm",
            "oci://example.org/lint@sha256:00",
            "line 10: a place in a registry ends with",
        ),
        ("lint.wasm", "../lint.wasm", "line 10: a source is a file below"),
        ("lint.wasm", "/lint.wasm", "line 10: a source is a file below"),
        ("lint.wasm", "", "line 10: a source is a file below"),
    ] {
        let error = parsed(&good.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(told), "{to}: {error}");
    }
    let row = good.split_once("[[skill]]").expect("it has one").1;
    let twice = parsed(&format!("{good}\n[[skill]]{row}")).expect_err("it names one twice");
    assert!(twice.ends_with("line 13: `lint` is named twice"), "{twice}");
}

#[test]
fn every_drift_is_found() {
    use Effect::ReadRepository;
    let lock = SkillLock::new([("lint".to_owned(), locked('a', &[ReadRepository]))].into());
    let found =
        |entries: &[SkillEntry]| -> Vec<String> { lock.differences(entries).iter().map(ToString::to_string).collect() };
    let same = entry("lint", 'a', &["read-repository"]);
    assert_eq!(found(std::slice::from_ref(&same)), [""; 0]);
    let less = found(&[entry("lint", 'a', &[])]);
    assert_eq!(less, ["`lint` is granted less than is locked: read-repository"]);
    assert_eq!(found(&[]), ["`lint` is locked and not there"]);
    let other = found(&[entry("lint", 'b', &["read-repository"])]);
    assert_eq!(
        other,
        ["`lint` is locked with the digest aaaaaaaaaaaa, and is bbbbbbbbbbbb"]
    );
    let more = found(&[entry("lint", 'a', &["read-repository", "install"])]);
    assert_eq!(more, ["`lint` is granted more than is locked: install"]);
    let newer = SkillEntry {
        version: "2.0.0".to_owned(),
        ..same.clone()
    };
    assert_eq!(found(&[newer]), ["`lint` is locked in version 1.0.0, and is 2.0.0"]);
    assert_eq!(
        found(&[same.clone(), entry("fmt", 'c', &[])]),
        [""; 0],
        "a skill of the user's own"
    );
    let waiting = SkillEntry {
        state: SkillState::Untrusted,
        reason: Some("it has not been added".to_owned()),
        ..entry("lint", 'a', &[])
    };
    assert_eq!(
        found(&[waiting]),
        ["`lint` is locked and cannot be used: it has not been added"]
    );
    let built_in = SkillEntry {
        origin: SkillOrigin::Builtin,
        ..entry("read_file", 'd', &[])
    };
    assert_eq!(found(&[same.clone(), built_in]), [""; 0]);
    let old = LockedSkill {
        world: "0.9.0".to_owned(),
        ..locked('a', &[ReadRepository])
    };
    let lock = SkillLock::new([("lint".to_owned(), old)].into());
    assert_eq!(lock.differences(&[same]).len(), 1);
}

/// No hint names what has just been done, or what would change nothing.
#[test]
fn each_drift_is_told_with_what_mends_it() {
    let name = || "lint".to_owned();
    let not_ready = |state: SkillState| LockDifference::NotReady {
        name: name(),
        state,
        reason: "why".to_owned(),
    };
    let hint = |differences: &[LockDifference]| drift_problem(differences).hint.expect("it has one");
    let locks = "`tool skill lock` locks what they are";
    let syncs = "`tool skill sync` makes them what is locked";
    for difference in [LockDifference::Missing { name: name() }, not_ready(SkillState::Changed)] {
        assert_eq!(hint(&[difference.clone(), difference]), format!("{syncs}, {locks}"));
    }
    let world = LockDifference::World {
        name: name(),
        locked: "2.0.0".to_owned(),
    };
    assert_eq!(hint(std::slice::from_ref(&world)), locks);
    assert_eq!(
        hint(&[
            not_ready(SkillState::Disabled),
            LockDifference::Source {
                name: "fmt".to_owned(),
                reason: "is not there".to_owned()
            },
            world
        ]),
        format!("`tool skill enable lint` brings it back, `tool skill lock fmt` writes its source anew, {locks}")
    );
    let more = LockDifference::Effects {
        name: name(),
        more: vec![Effect::Install],
    };
    assert!(hint(&[more]).starts_with("`tool skill sync --narrow`"));
}

#[test]
fn a_file_is_a_plain_one_of_bounded_size() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let told = || SkillLock::read(folder.path()).map_err(|error| error.to_string());
    assert_eq!(told(), Ok(None));
    let lock = SkillLock::new([("lint".to_owned(), locked('a', &[]))].into());
    let path = lock.write(folder.path()).expect("the folder is writable");
    assert_eq!(told(), Ok(Some(lock.clone())));
    let long = "#".repeat(usize::try_from(LOCK_BYTES_MAX).expect("it is small") + 1);
    std::fs::write(&path, long).expect("the folder is writable");
    assert!(told().is_err_and(|told| told.ends_with(&format!("larger than {LOCK_BYTES_MAX} bytes"))));
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).expect("both are ours");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("the folder is writable");
    assert!(told().is_err(), "a link may lead anywhere");
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::create_dir(&path).expect("the folder is writable");
    assert!(told().is_err_and(|told| told.ends_with("it is not a file")));
}

#[test]
fn so_many_skills_are_named() {
    let skills = |count: usize| (0..count).map(|number| (format!("s{number}"), locked('a', &[])));
    let max = limits::TEAM_SKILLS_MAX;
    assert!(parsed(&SkillLock::new(skills(max).collect()).to_text()).is_ok());
    assert!(parsed(&SkillLock::new(skills(max + 1).collect()).to_text()).is_err());
}
