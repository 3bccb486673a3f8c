//! Build scripts and result files that want more than a run gives, by the real binary in the real sandbox.

use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use super::{MANIFEST, TESTS, put_back, run_tests};
use crate::support::{Home, finish, folder, holds};

/// A build script that fails the build with what it has reached.
const REACHING: &str = r#"
use std::{env, fs, net::TcpStream, path::Path};

fn main() {
    let home = env::var("CARGO_HOME").expect("cargo sets it");
    let mut reached = Vec::new();
    for name in ["credentials.toml", "credentials", "config.toml"] {
        match fs::read_to_string(Path::new(&home).join(name)) {
            Ok(text) if text.contains("hunter2") => reached.push(format!("read {name}")),
            _ => {}
        }
    }
    if TcpStream::connect("ADDRESS").is_ok() {
        reached.push("connected".to_owned());
    }
    let _ = fs::write(Path::new(&home).join("registry/left"), "left");
    let _ = fs::write("MARKER", "left");
    let _ = fs::write(Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("src/left.rs"), "left");
    assert!(reached.is_empty(), "reached: {reached:?}");
}
"#;

#[test]
fn a_build_script_reaches_no_credentials_no_home_and_no_server() {
    let home = Home::offline();
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    listener.set_nonblocking(true).expect("it can be set");
    let outside = tempfile::tempdir().expect("a folder");
    let marker = outside.path().join("marker");
    let script = REACHING
        .replace("ADDRESS", &listener.local_addr().expect("it is bound").to_string())
        .replace("MARKER", &marker.to_string_lossy());
    let repository = folder(&[
        ("Cargo.toml", MANIFEST),
        ("build.rs", &script),
        ("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n"),
        ("tests/api.rs", TESTS),
    ]);
    let cargo_home = folder(&[
        ("credentials.toml", "[registry]\ntoken = \"hunter2\"\n"),
        ("credentials", "hunter2"),
        (
            "config.toml",
            "[registries.own]\nindex = \"https://u:hunter2@own.example/\"\ntoken = \"hunter2\"\n",
        ),
        ("registry/index/kept", "kept"),
    ]);
    let mut command = super::tests_command(&home, repository.path(), &[]);
    command.env("CARGO_HOME", cargo_home.path());
    let finished = finish(command.output().expect("the binary starts"));
    holds(&finished.expect(0).stdout, &["PASSED: 1 passed", "sandbox: namespaces"]);
    assert!(listener.accept().is_err(), "it connected");
    assert!(!marker.exists() && !cargo_home.path().join("registry/left").exists());
    assert!(!repository.path().join("src/left.rs").exists());
}

/// Files below a home folder that may hold credentials, beside the package caches that every run of `make test` has.
const CREDENTIALS: [&str; 14] = [
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".gradle/init.gradle",
    ".gem/credentials",
    ".bundle/config",
    ".cache/composer/auth.json",
    ".config/composer/auth.json",
    ".hex/hex.config",
    ".mix/auth.json",
    ".nuget/NuGet/NuGet.Config",
    ".config/go/env",
    ".netrc",
];

/// Files of package caches that lie beside them.
const PACKAGES: [&str; 9] = [
    ".cargo/registry/kept",
    ".m2/repository/kept",
    ".gradle/caches/kept",
    ".gem/ruby/kept",
    ".bundle/cache/kept",
    ".cache/composer/files/kept",
    ".hex/packages/kept",
    ".nuget/packages/kept",
    "go/pkg/mod/kept",
];

#[test]
fn a_test_run_reads_every_package_cache_and_the_credentials_of_none() {
    let home = Home::offline();
    let credentials = CREDENTIALS.map(|file| (file, "hunter2"));
    let packages = PACKAGES.map(|file| (file, "a package"));
    let user = folder(&[&credentials[..], &packages].concat());
    let place = |file: &str| user.path().join(file).display().to_string();
    let makefile = format!(
        "test:\n\t! grep -s hunter2 {}\n\tgrep -c package {}\n",
        CREDENTIALS.map(place).join(" "),
        PACKAGES.map(place).join(" ")
    );
    let repository = folder(&[("Makefile", &makefile)]);
    let mut command = super::tests_command(&home, repository.path(), &[]);
    command.env("HOME", user.path()).env_remove("CARGO_HOME");
    let finished = finish(command.output().expect("the binary starts"));
    holds(
        &finished.expect(0).stdout,
        &["PASSED: exit status 0", "sandbox: namespaces"],
    );
}

/// A build script that leaves a file in the build folder, and fails the build where it finds one. It runs again where it
/// was changed.
const LEAVING: &str = r#"
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let left = std::path::Path::new(&out).ancestors().nth(4).expect("it is deep").join("left");
    assert!(!left.exists(), "found what another run has left");
    std::fs::write(left, "left").expect("it can be written");
}
"#;

#[test]
fn build_output_is_seen_by_no_other_repository_and_no_untrusted_session() {
    let home = Home::offline();
    let project = || {
        folder(&[
            ("Cargo.toml", MANIFEST),
            ("build.rs", LEAVING),
            ("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n"),
            ("tests/api.rs", TESTS),
        ])
    };
    let (first, second) = (project(), project());
    let run = |repository: &std::path::Path, flags: &[&str]| run_tests(&home, repository, flags);
    holds(&run(first.path(), &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    let changed = format!("{LEAVING}// Changed.\n");
    std::fs::write(first.path().join("build.rs"), changed).expect("it can be written");
    holds(
        &run(first.path(), &[]).expect(1).stdout,
        &["found what another run has left"],
    );
    holds(&run(second.path(), &[]).expect(0).stdout, &["PASSED: 1 passed"]);
    for _ in 0..2 {
        let untrusted = run(first.path(), &["--untrusted"]).expect(0).stdout;
        holds(&untrusted, &["PASSED: 1 passed"]);
    }
}

#[test]
fn a_forged_result_file_makes_no_failed_run_pass() {
    let home = Home::offline();
    let passed = "<testsuite tests='2' failures='0'><testcase name='a'/><testcase name='b'/></testsuite>";
    let makefile = format!(
        "forged:\n\tmkdir -p out && echo \"{passed}\" > out/a.xml; exit 3\n\
         huge:\n\tmkdir -p out && truncate -s 40M out/a.xml\n\
         link:\n\tmkdir -p out && ln -s /etc/hostname out/a.xml\n\
         old:\n\ttrue\n"
    );
    let repository = folder(&[("Makefile", &makefile), ("old/a.xml", passed)]);
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    put_back(&repository.path().join("old/a.xml"), passed, an_hour_ago);
    let run = |target: &str, glob: &str| {
        let set = ["tests", "set", "--results", glob, "--", "make", target];
        home.run(repository.path(), &set).expect(0);
        run_tests(&home, repository.path(), &[])
    };
    holds(
        &run("forged", "junit:out/*.xml").expect(1).stdout,
        &["FAILED: 2 passed"],
    );
    // Without counts the exit status alone decides, and no number is claimed.
    for (target, glob) in [
        ("huge", "junit:out/*.xml"),
        ("link", "junit:out/*.xml"),
        ("old", "junit:old/*.xml"),
    ] {
        let said = run(target, glob).expect(0).stdout;
        assert!(said.starts_with("PASSED: exit status 0 in "), "{target}: {said}");
    }
}
