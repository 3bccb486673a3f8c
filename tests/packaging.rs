//! The packages of a release, made of a stand-in for the binary: `scripts/test --release` makes and installs the real ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A stand-in for the binary that prints its version and its arguments.
const BINARY: &str = "#!/bin/sh\necho \"tool 0.1.0 $*\"\n";

/// Packs stand-ins for both targets into a folder, without the packages that other programs make.
const PACK: &str = r#"
import sys
from pathlib import Path
root, work = Path(sys.argv[1]), Path(sys.argv[2])
sys.dont_write_bytecode = True
sys.path.insert(0, str(root / "scripts/packaging"))
import archives, images, packages
triples = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"]
release = packages.Release(root=root, dist=work / "dist", work=work, triples=triples, time=1_700_000_000)
release.dist.mkdir()
(release.extras / "completions").mkdir(parents=True)
(release.extras / "man").mkdir()
for name in ("man/tool.1", "completions/tool", "completions/_tool", "completions/tool.fish", "LICENSES.txt", "sbom.cdx.json"):
    (release.extras / name).write_text(name)
for triple in triples:
    release.binaries[triple] = release.symbols[triple] = work / "binary"
archives.write(release)
for triple in triples:
    packages.write_wheel(release, triple)
    images.write(release, triple, packages.machine(triple))
packages.write_npm(release)
packages.write_descriptions(release)
"#;

/// Licence texts of crates with a file, with authors, with neither, and with a text that was recognised; versions of headers.
const LICENCES: &str = r#"
import sys
from pathlib import Path
import components
work = Path(sys.argv[1])
for name in ("filed", "authored"):
    (work / name).mkdir()
(work / "filed/LICENSE").write_text("(c) their own file\n")
(work / "filed/header.h").write_text('#define VERSION "1.3.2"\n#define NUMBER 220108\n')
blank = {"text": "(c) <year> <copyright holders>", "source_path": None}
for name, authors in (("filed", []), ("authored", ["A. Author"]), ("nameless", [])):
    folder = "authored" if name == "nameless" else name
    crate = {"name": name, "authors": authors, "manifest_path": str(work / folder / "Cargo.toml")}
    print(components.crate_text(crate, blank))
print(components.crate_text(crate, {"text": "as it was found\n", "source_path": "LICENSE"}))
print(components.header_version(work / "filed", "header.h", r'VERSION "([\d.]+)"'))
print(components.header_version(work / "filed", "header.h", r"NUMBER (\d\d)(\d\d)(\d\d)"))
"#;

#[expect(clippy::disallowed_methods, reason = "the tests do what a packager and a user do")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn pack() -> tempfile::TempDir {
    let work = tempfile::tempdir().expect("a temporary folder");
    fs::write(work.path().join("binary"), BINARY).expect("the folder is ours");
    let packed = command("python3")
        .args(["-c", PACK])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .arg(work.path())
        .output()
        .expect("Python is there");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    work
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("it is there").flatten();
    let mut files: Vec<(PathBuf, Vec<u8>)> = entries
        .map(|entry| (entry.file_name().into(), fs::read(entry.path()).expect("a file")))
        .collect();
    files.sort();
    files
}

/// Runs the install script of a release with this home.
fn install(dist: &Path, home: &Path, arguments: &[&str]) -> Output {
    command("sh")
        .arg(dist.join("install.sh"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("a shell is there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let (first, second) = (pack(), pack());
    let (first, second) = (files(&first.path().join("dist")), files(&second.path().join("dist")));
    let names: Vec<&Path> = first.iter().map(|(name, _)| name.as_path()).collect();
    assert_eq!(names.len(), 14, "{names:?}");
    for (one, other) in first.iter().zip(&second) {
        assert!(one == other, "{} differs", one.0.display());
    }
}

#[test]
fn the_install_script_installs_checked_files_and_nothing_else() {
    let work = pack();
    let (dist, home) = (work.path().join("dist"), work.path().join("home"));
    fs::create_dir(&home).expect("the folder is ours");
    let installed = install(&dist, &home, &[]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let said = text(&installed.stdout);
    assert!(said.contains("checksum is right") && said.contains("add "), "{said}");
    let binary = home.join(".local/bin/tool");
    assert_eq!(fs::read_to_string(&binary).expect("it is installed"), BINARY);
    assert_eq!(
        fs::metadata(&binary).expect("it is there").permissions().mode() & 0o777,
        0o755
    );
    for path in [
        "man/man1/tool.1",
        "bash-completion/completions/tool",
        "doc/tool/LICENSES.txt",
    ] {
        assert!(home.join(".local/share").join(path).is_file(), "{path}");
    }
}

#[test]
fn the_install_script_refuses_an_archive_with_another_checksum() {
    let work = pack();
    let (dist, home) = (work.path().join("dist"), work.path().join("home"));
    fs::create_dir(&home).expect("the folder is ours");
    let machine = std::env::consts::ARCH;
    let archive = dist.join(format!("tool-0.1.0-{machine}-linux.tar.xz"));
    let mut bytes = fs::read(&archive).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).expect("the folder is ours");
    let refused = install(&dist, &home, &[]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(
        said.contains("the checksum") && said.contains("nothing was installed"),
        "{said}"
    );
    fs::remove_file(&archive).expect("it is there");
    let missing = install(&dist, &home, &["--prefix", "elsewhere"]);
    assert!(
        text(&missing.stderr).contains("is missing; set TOOL_RELEASE"),
        "{missing:?}"
    );
    let unchecked = command("/bin/sh")
        .arg(dist.join("install.sh"))
        .env_clear()
        .env("HOME", &home)
        .env("PATH", programs_without(work.path(), "sha256sum"))
        .output()
        .expect("a shell is there");
    assert!(
        text(&unchecked.stderr).contains("sha256sum is missing"),
        "{unchecked:?}"
    );
    let unknown = install(&dist, &home, &["--user"]);
    assert!(text(&unknown.stderr).contains("unknown argument --user"), "{unknown:?}");
    assert_eq!(fs::read_dir(&home).expect("it is there").count(), 0);
}

/// A folder with the programs that the install script calls, but one.
fn programs_without(work: &Path, missing: &str) -> PathBuf {
    let folder = work.join("programs");
    fs::create_dir(&folder).expect("the folder is ours");
    for name in [
        "uname",
        "sha256sum",
        "mktemp",
        "dirname",
        "cp",
        "rm",
        "tar",
        "xz",
        "mkdir",
    ] {
        if name != missing {
            std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), folder.join(name)).expect("it can be linked");
        }
    }
    folder
}

#[test]
fn the_install_script_takes_a_prefix_without_a_home_and_explains_itself() {
    let work = pack();
    let dist = work.path().join("dist");
    let run = |arguments: &[&str]| {
        let ran = command("sh")
            .arg(dist.join("install.sh"))
            .args(arguments)
            .current_dir(work.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .output();
        ran.expect("a shell is there")
    };
    let installed = run(&["--prefix", "my tools"]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let binary = work.path().join("my tools/bin/tool");
    assert!(text(&installed.stdout).contains(&format!("installed {}", binary.display())));
    assert_eq!(
        fs::read_dir(work.path().join("my tools/bin"))
            .expect("it is there")
            .count(),
        1
    );
    for nowhere in [&[][..], &["--prefix", ""]] {
        let refused = run(nowhere);
        assert!(
            text(&refused.stderr).contains("set HOME, or pass --prefix"),
            "{refused:?}"
        );
    }
    let help = text(&run(&["--help"]).stdout);
    assert!(
        help.starts_with("Installs tool 0.1.0 for this user") && help.ends_with("sh install.sh --prefix /opt/tool\n"),
        "{help}"
    );
}

#[test]
fn licences_name_those_who_hold_the_copyright() {
    let work = tempfile::tempdir().expect("a temporary folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ran = command("python3")
        .args(["-B", "-c", LICENCES])
        .arg(work.path())
        .env("PYTHONPATH", root.join("scripts/packaging"))
        .output()
        .expect("Python is there");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(
        text(&ran.stdout),
        "(c) their own file\n(c) A. Author\n(c) the authors of nameless\nas it was found\n1.3.2\n22.1.8\n"
    );
}

#[test]
fn a_signature_of_the_checksums_holds_for_these_bytes_alone() {
    let work = tempfile::tempdir().expect("a temporary folder");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/packaging");
    let signed = command("sh")
        .arg("-ec")
        .arg(
            r#"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key 2>/dev/null
            openssl pkey -in key -pubout -out public
            echo 'a list' >SUMS
            python3 -B -c 'import pathlib, signing; signing.sign(pathlib.Path("SUMS"), "key")'
            openssl base64 -d -A -in SUMS.sig -out signature
            openssl dgst -sha256 -verify public -signature signature SUMS
            python3 -c 'import json; print(json.load(open("SUMS.sigstore.json"))["messageSignature"]["signature"])' | cmp - SUMS.sig
            echo 'another list' >SUMS
            ! openssl dgst -sha256 -verify public -signature signature SUMS"#,
        )
        .current_dir(work.path())
        .env("PYTHONPATH", scripts)
        .output()
        .expect("a shell is there");
    assert!(signed.status.success(), "{}", text(&signed.stderr));
    assert_eq!(text(&signed.stdout), "Verified OK\nVerification failure\n");
}

#[test]
fn pip_and_npm_install_the_binary_from_the_folder() {
    let work = pack();
    let dist = work.path().join("dist");
    let run = |script: &str| {
        let ran = command("sh")
            .args(["-ec", script])
            .current_dir(work.path())
            .output()
            .expect("a shell is there");
        assert!(ran.status.success(), "{script}: {}", text(&ran.stderr));
        text(&ran.stdout)
    };
    let dist = dist.display();
    let by_pip = run(&format!(
        "python3 -m venv venv; venv/bin/pip install --quiet --no-index --find-links {dist} tool-assistant;
         venv/bin/tool explain ."
    ));
    assert_eq!(by_pip, "tool 0.1.0 explain .\n");
    let cpu = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let by_npm = run(&format!(
        "mkdir node; cd node; npm install --silent --offline --no-audit --no-fund --ignore-scripts \
         {dist}/tool-assistant-linux-{cpu}-0.1.0.tgz; npm install --silent --offline --no-audit --no-fund \
         --ignore-scripts --omit=optional {dist}/tool-assistant-0.1.0.tgz; node_modules/.bin/tool ask why"
    ));
    assert_eq!(by_npm, "tool 0.1.0 ask why\n");
}

#[test]
fn the_scripts_of_a_release_parse_and_explain_themselves() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    for name in [
        "release",
        "test",
        "packaging/check",
        "packaging/check-aarch64",
        "packaging/check-bytes",
        "packaging/check-image",
    ] {
        let parsed = command("bash")
            .arg("-n")
            .arg(scripts.join(name))
            .output()
            .expect("bash is there");
        assert!(parsed.status.success(), "{name}: {}", text(&parsed.stderr));
    }
    let run = |argument: &str| {
        let ran = command("bash").arg(scripts.join("release")).arg(argument).output();
        ran.expect("bash is there")
    };
    let help = run("--help");
    assert!(
        help.status.success() && text(&help.stdout).contains("--full-image"),
        "{help:?}"
    );
    let refused = run("--nope");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).starts_with("error: unknown argument --nope\n"),
        "{refused:?}"
    );
}
