//! Installing packages in the sandbox, from mirrors on loopback that the user's own configuration names, and what
//! hostile repositories and packages get of it.

mod hostile;
mod listed;
mod mirror;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::contain::{everything, unchanged, without_namespaces};
use crate::support::{Finished, Home, differences, fixture_path, folder, holds, run, tree};
use mirror::{Mirror, npm_package, wheel};

/// The library folder of a virtual environment.
fn site_packages(environment: &Path) -> PathBuf {
    let libraries = std::fs::read_dir(environment.join("lib")).expect("an environment has libraries");
    let mut places = libraries.map(|entry| entry.expect("it can be listed").path().join("site-packages"));
    places.find(|place| place.is_dir()).expect("it has packages")
}

/// A Python project with a virtual environment whose pip is the fixture's.
fn python_project(files: &[(&str, &str)]) -> TempDir {
    let repository = folder(&[files, &[("requirements.txt", "tiny\n")]].concat());
    let fixture = fixture_path("click-8.1.8").join(".venv");
    run(
        repository.path(),
        &fixture.join("bin/python"),
        &["-m", "venv", "--without-pip", ".venv"],
    );
    let (from, to) = (
        site_packages(&fixture).join("pip"),
        site_packages(&repository.path().join(".venv")),
    );
    run(
        repository.path(),
        Path::new("cp"),
        &["-r", &from.to_string_lossy(), &to.to_string_lossy()],
    );
    repository
}

/// A home whose pip and npm get their packages from this mirror.
fn home_of(mirror: &Mirror) -> Home {
    let home = Home::offline();
    settings(&home, mirror);
    home
}

/// The user's own configuration of pip and npm.
fn settings(home: &Home, mirror: &Mirror) {
    let pip = home.path().join(".config/pip");
    std::fs::create_dir_all(&pip).expect("the folder is writable");
    let settings = format!("[global]\nindex-url = {}/simple/\nretries = 0\n", mirror.url);
    std::fs::write(pip.join("pip.conf"), settings).expect("the folder is writable");
    let registry = format!("registry={}/npm/\nfetch-retries=0\n", mirror.url);
    std::fs::write(home.path().join(".npmrc"), registry).expect("the folder is writable");
}

fn install(home: &Home, repository: &Path, arguments: &str) -> Finished {
    home.run(
        repository,
        &["skill", "call", "install_package", arguments, "--allow", "install"],
    )
}

#[test]
fn pip_fills_the_environment_from_the_users_mirror_and_changes_nothing_else() {
    let mut mirror = Mirror::new();
    mirror.add_wheel("tiny", "1.0", &wheel("tiny", "1.0", &[("tiny.py", "x = 1\n")], ""));
    let mirror = mirror.start();
    let (home, repository) = (home_of(&mirror), python_project(&[("app.py", "import tiny\n")]));
    let before = tree(repository.path());
    let text = install(&home, repository.path(), r#"{"names": ["tiny"]}"#)
        .expect(0)
        .stdout;
    holds(&text, &["tiny 1.0", "sandbox: namespaces", "put in place: "]);
    let changed = differences(repository.path(), &before);
    assert!(
        !changed.is_empty() && changed.iter().all(|path| path.starts_with(".venv")),
        "{changed:?}"
    );
    run(
        repository.path(),
        &repository.path().join(".venv/bin/python"),
        &["-c", "import tiny; assert tiny.x == 1"],
    );
    assert!(mirror.asked().iter().any(|path| path.starts_with("/simple/tiny")));

    let mut newer = Mirror::new();
    newer.add_wheel(
        "tiny",
        "2.0",
        &wheel("tiny", "2.0", &[("tiny/__init__.py", "x = 2\n")], ""),
    );
    let newer = newer.start();
    let home = home_of(&newer);
    install(&home, repository.path(), r#"{"names": ["tiny==2.0"]}"#).expect(0);
    let packages = site_packages(&repository.path().join(".venv"));
    assert!(!packages.join("tiny.py").exists() && packages.join("tiny/__init__.py").is_file());
    assert!(!packages.join("tiny-1.0.dist-info").exists());
}

#[test]
fn npm_records_what_it_installed_and_that_can_be_undone() {
    let mut mirror = Mirror::new();
    mirror.add_npm(
        "tiny-package",
        &[(
            "1.0.0",
            npm_package("tiny-package", "1.0.0", "", &[("index.js", "module.exports = 1\n")]),
        )],
    );
    let mirror = mirror.start();
    let manifest = "{\"name\": \"a\", \"version\": \"1.0.0\"}\n";
    let (home, repository) = (home_of(&mirror), folder(&[("package.json", manifest)]));
    let finished = install(&home, repository.path(), r#"{"names": ["tiny-package"]}"#).expect(0);
    holds(
        &finished.stdout,
        &[
            "sandbox: namespaces",
            "changed, and to be undone with `tool undo`: package-lock.json, package.json",
        ],
    );
    let read = |name: &str| std::fs::read_to_string(repository.path().join(name)).expect("it is there");
    let recorded: serde_json::Value = serde_json::from_str(&read("package.json")).expect("it is JSON");
    assert_eq!(recorded["dependencies"]["tiny-package"], "^1.0.0");
    holds(&read("package-lock.json"), &["tiny-package"]);
    assert_eq!(read("node_modules/tiny-package/index.js"), "module.exports = 1\n");

    home.run(repository.path(), &["undo"]).expect(0);
    assert_eq!(read("package.json"), manifest);
    assert!(!repository.path().join("package-lock.json").exists());
    assert!(
        repository.path().join("node_modules/tiny-package").is_dir(),
        "packages stay, and are no harm"
    );

    let mut newer = Mirror::new();
    let two = npm_package("tiny-package", "2.0.0", "", &[("other.js", "module.exports = 2\n")]);
    newer.add_npm("tiny-package", &[("2.0.0", two)]);
    let newer = newer.start();
    let home = home_of(&newer);
    install(&home, repository.path(), r#"{"names": ["tiny-package@2.0.0"]}"#).expect(0);
    assert_eq!(read("node_modules/tiny-package/other.js"), "module.exports = 2\n");
    assert!(!repository.path().join("node_modules/tiny-package/index.js").exists());
}

#[test]
fn a_proxy_of_the_users_environment_is_on_the_way() {
    let upstream = mirror::Upstream::start();
    let (home, repository) = (Home::offline(), python_project(&[]));
    let call = [
        "skill",
        "call",
        "install_package",
        r#"{"names": ["tiny"]}"#,
        "--allow",
        "install",
    ];
    let mut command = home.tool(repository.path(), &call);
    command.env("HTTPS_PROXY", &upstream.url);
    let finished = crate::support::finish(command.output().expect("the binary runs")).expect(1);
    holds(&finished.stderr, &["the package registry cannot be reached"]);
    let asked = upstream.asked();
    assert!(!asked.is_empty(), "{}", finished.stderr);
    for line in asked {
        assert!(
            line.starts_with("CONNECT ") && line.ends_with(":443 HTTP/1.1"),
            "{line}"
        );
    }
}

#[test]
fn an_installation_that_fails_halfway_changes_nothing() {
    let mut mirror = Mirror::new();
    mirror.add_wheel("tiny", "1.0", &wheel("tiny", "1.0", &[("tiny.py", "x = 1\n")], ""));
    let mut broken = wheel("broken", "1.0", &[("broken.py", "x = 1\n")], "");
    let end = broken.len() - 1;
    broken.truncate(end);
    mirror.add_wheel("broken", "1.0", &broken);
    mirror.add_npm(
        "good",
        &[("1.0.0", npm_package("good", "1.0.0", "", &[("index.js", "1\n")]))],
    );
    mirror.add_npm("bad", &[("1.0.0", b"no archive".to_vec())]);
    let mirror = mirror.start();
    let manifest = "{\"name\": \"a\", \"version\": \"1.0.0\"}\n";
    let (home, repository) = (home_of(&mirror), python_project(&[("package.json", manifest)]));
    let before = everything(repository.path());
    for (names, manager) in [(r#"["tiny", "broken"]"#, "pip"), (r#"["good", "bad"]"#, "npm")] {
        let arguments = format!(r#"{{"names": {names}, "manager": "{manager}"}}"#);
        let finished = install(&home, repository.path(), &arguments).expect(1);
        holds(&finished.stderr, &["nothing was changed"]);
        unchanged(repository.path(), &before);
    }
}

#[test]
fn the_machines_python_and_environments_of_others_are_not_installed_into() {
    let mirror = Mirror::new().start();
    let home = home_of(&mirror);
    let repository = folder(&[("requirements.txt", "tiny\n")]);
    let refused = install(&home, repository.path(), r#"{"names": ["tiny"]}"#).expect(1);
    holds(&refused.stderr, &["Permission denied: /", "python3 -m venv .venv"]);

    let elsewhere = fixture_path("click-8.1.8").join(".venv");
    std::os::unix::fs::symlink(elsewhere, repository.path().join(".venv")).expect("links can be made");
    let refused = install(&home, repository.path(), r#"{"names": ["tiny"]}"#).expect(1);
    holds(&refused.stderr, &["leads out of the repository"]);

    let modules = folder(&[("package.json", "{\"name\": \"a\", \"version\": \"1.0.0\"}\n")]);
    std::os::unix::fs::symlink(home.path(), modules.path().join("node_modules")).expect("links can be made");
    let refused = install(&home, modules.path(), r#"{"names": ["tiny"]}"#).expect(1);
    holds(&refused.stderr, &["`node_modules` leads out of the repository"]);
    assert!(mirror.asked().is_empty());
}

#[test]
fn an_environment_that_the_user_works_in_is_filled_where_it_lies() {
    let mut mirror = Mirror::new();
    mirror.add_wheel("tiny", "1.0", &wheel("tiny", "1.0", &[("tiny.py", "x = 1\n")], ""));
    let mirror = mirror.start();
    let (home, users) = (home_of(&mirror), python_project(&[]));
    let repository = folder(&[("requirements.txt", "tiny\n")]);
    let call = [
        "skill",
        "call",
        "install_package",
        r#"{"names": ["tiny"]}"#,
        "--allow",
        "install",
    ];
    let mut command = home.tool(repository.path(), &call);
    let environment = users.path().canonicalize().expect("it is there").join(".venv");
    command.env("VIRTUAL_ENV", &environment);
    let finished = crate::support::finish(command.output().expect("the binary runs")).expect(0);
    holds(&finished.stdout, &["tiny 1.0", "sandbox: namespaces"]);
    assert!(site_packages(&environment).join("tiny.py").is_file());
}

#[test]
fn without_namespaces_an_installation_takes_the_users_word() {
    let mut mirror = Mirror::new();
    mirror.add_wheel("tiny", "1.0", &wheel("tiny", "1.0", &[("tiny.py", "x = 1\n")], ""));
    let mirror = mirror.start();
    let (home, repository) = (home_of(&mirror), python_project(&[]));
    let before = everything(repository.path());
    let call = [
        "skill",
        "call",
        "install_package",
        r#"{"names": ["tiny"]}"#,
        "--allow",
        "install",
    ];
    let refused = without_namespaces(&home, repository.path(), &call).expect(1);
    holds(
        &refused.stderr,
        &[
            "This machine has no sandbox for installations",
            "hint: ",
            "`--allow install --unsandboxed`",
        ],
    );
    let required = [&call[..], &["--require-sandbox"]].concat();
    let refused = without_namespaces(&home, repository.path(), &required).expect(1);
    holds(
        &refused.stderr,
        &["A full sandbox is required, and `install` has none here."],
    );
    unchanged(repository.path(), &before);
    let insisted = [&call[..], &["--unsandboxed"]].concat();
    let text = without_namespaces(&home, repository.path(), &insisted).expect(0).stdout;
    holds(&text, &["tiny 1.0", "sandbox: none"]);
    without_namespaces(&home, repository.path(), &["service", "stop"]).expect(0);
}
