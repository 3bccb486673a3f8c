//! Push and pull by a real registry: Debian's docker-registry on loopback, with its files in a temporary folder.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{changed, entry, text};
use crate::support::{Finished, Home, folder, guest, holds, until};

/// A registry of a test's own, stopped when it is dropped.
pub(super) struct Registry {
    folder: TempDir,
    port: u16,
    process: Child,
}

impl Registry {
    /// One that lets every client in.
    pub(super) fn start() -> Self {
        Self::with("")
    }

    #[expect(clippy::disallowed_methods, reason = "the tests bring a registry")]
    fn with(more: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        // It takes no port 0, so another program may take the port first; then it ends, and says so.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let data = folder.path().join("data");
        let configuration = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\n  delete:\n    \
             enabled: true\nhttp:\n  addr: 127.0.0.1:{port}\n{more}",
            data.display()
        );
        let file = folder.path().join("config.yml");
        std::fs::write(&file, configuration.replace("FOLDER", text(folder.path()))).expect("the folder is writable");
        // The name and the password are `ada` and `hunter2`.
        let users = "ada:$2b$05$0dnQvl.L.L7Rl9VYCBJP.O32CEy8VBvU.M0K9vYAnp0fwYHCbwvue\n";
        std::fs::write(folder.path().join("users"), users).expect("the folder is writable");
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry is missing: run scripts/fixtures");
        until("the registry listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { folder, port, process }
    }

    /// One that wants a name and a password.
    fn guarded() -> Self {
        Self::with("auth:\n  htpasswd:\n    realm: tests\n    path: FOLDER/users\n")
    }

    pub(super) fn place(&self, repository: &str) -> String {
        format!("oci://127.0.0.1:{}/{repository}", self.port)
    }

    /// The file of a blob.
    fn blob(&self, digest: &str) -> std::path::PathBuf {
        let data = self.folder.path().join("data/docker/registry/v2/blobs/sha256");
        data.join(&digest[..2]).join(digest).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(super) fn skill(home: &Home, arguments: &[&str]) -> Finished {
    home.run(Path::new("/"), &[&["skill"], arguments].concat())
}

/// Pushes a component and gives its place by digest.
pub(super) fn push(home: &Home, component: &Path, place: &str) -> String {
    let pushed = skill(home, &["push", text(component), place]).expect(0).stdout;
    let (_, pinned) = pushed.trim().rsplit_once(": ").expect("it says where");
    pinned.to_owned()
}

fn pins(home: &Home) -> Value {
    let text = std::fs::read(home.path().join("skills/pins.json")).expect("something is pinned");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn a_component_is_pushed_and_pulled_by_tag_and_by_digest() {
    let (registry, home) = (Registry::start(), Home::offline());
    let place = registry.place("team/echo:1.0");
    let pinned = push(&home, &guest("echo"), &place);
    assert_eq!(push(&home, &guest("echo"), &place), pinned, "the same is the same");
    let asked = skill(&home, &["add", &place]).expect(1);
    let (_, digest) = pinned.split_once('@').expect("a digest");
    holds(
        &asked.stderr,
        &["echo 1.0.0", &format!("from     {place} ({digest})"), "--yes"],
    );
    skill(&home, &["add", &place, "--yes"]).expect(0);
    let pin = &pins(&home)["skills"]["echo"];
    assert_eq!(
        (&pin["origin"]["from"], &pin["origin"]["manifest"]),
        (&place.as_str().into(), &digest.into())
    );
    let root = folder(&[("a.txt", "x\n")]);
    holds(
        &home
            .run(root.path(), &["skill", "call", "echo", r#"{"text": "hi"}"#])
            .expect(0)
            .stdout,
        &["hi"],
    );
    // The lock file names a digest, which never means anything else, and is enough for another user.
    home.run(root.path(), &["skill", "lock", "echo"]).expect(0);
    let lock = std::fs::read_to_string(root.path().join("skills.lock")).expect("it was written");
    holds(&lock, &[&format!("source = \"{pinned}\"")]);
    let other = Home::offline();
    let asked = other.run(root.path(), &["skill", "sync"]).expect(1);
    holds(&asked.stderr, &["was not pulled from", "--yes"]);
    other.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    other.run(root.path(), &["skill", "sync", "--frozen"]).expect(0);
    let third = Home::offline();
    skill(&third, &["add", &pinned, "--yes"]).expect(0);
    // An added skill is pushed by its name.
    let by_name = skill(&third, &["push", "echo", &registry.place("copy/echo:2")])
        .expect(0)
        .stdout;
    holds(&by_name, &[digest]);
    for (wrong, told) in [
        (registry.place("team/nothing:1"), "There is no `oci://"),
        (registry.place("team/echo:2.0"), "There is no `oci://"),
        (
            registry.place(&format!("team/echo@sha256:{}", "0".repeat(64))),
            "There is no `oci://",
        ),
    ] {
        holds(&skill(&third, &["add", &wrong, "--yes"]).expect(1).stderr, &[told]);
    }
    for wrong in [
        "oci://echo",
        "oci://127.0.0.1:1/Upper",
        &format!("oci://example.org/x@{}", "0".repeat(64)),
    ] {
        holds(
            &skill(&third, &["add", wrong, "--yes"]).expect(2).stderr,
            &["is no place in a registry"],
        );
    }
    holds(
        &skill(&third, &["add", "oci://127.0.0.1:1/x", "--yes"]).expect(1).stderr,
        &["cannot be reached"],
    );
}

#[test]
fn a_tag_that_has_moved_is_refused_until_it_is_confirmed() {
    let (registry, home) = (Registry::start(), Home::offline());
    let place = registry.place("team/echo:1.0");
    let before = push(&home, &guest("echo"), &place);
    skill(&home, &["add", &place, "--yes"]).expect(0);
    let root = folder(&[("a.txt", "x\n")]);
    home.run(root.path(), &["skill", "lock", "echo"]).expect(0);
    let (_folder, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    let after = push(&home, &newer, &place);
    assert_ne!(before, after);
    for command in [&["update", "echo"][..], &["update", "--all"], &["add", &place]] {
        let refused = skill(&home, command).expect(1);
        holds(
            &refused.stderr,
            &[
                "moved    the tag meant sha256:",
                "and means sha256:",
                "under the same version",
            ],
        );
    }
    // By its digest it is still what it was; the lock file does not follow the tag.
    let other = Home::offline();
    other.run(root.path(), &["skill", "sync", "--yes"]).expect(0);
    // An update follows the tag, which stands beside the digest; the repository keeps the version that is locked.
    holds(
        &skill(&other, &["update", "echo", "--yes"]).expect(0).stdout,
        &["Updated echo from 1.0.0 to 1.0.0."],
    );
    let updated = entry(&other, "echo").expect("it is there");
    assert_eq!(updated["description"], "Answers with all arguments.");
    other.run(root.path(), &["skill", "sync", "--frozen"]).expect(0);
    // The source is compared with the one that the locked version came from.
    let lock = std::fs::read_to_string(root.path().join("skills.lock")).expect("it was written");
    let (_, digest) = before.split_once('@').expect("a digest");
    let (_, other_digest) = after.split_once('@').expect("a digest");
    for (from, to) in [("team/echo:1.0@", "team/other:1.0@"), (digest, other_digest)] {
        std::fs::write(root.path().join("skills.lock"), lock.replace(from, to)).expect("the folder is writable");
        holds(
            &other.run(root.path(), &["skill", "sync", "--frozen"]).expect(2).stderr,
            &["the source of `echo` is locked as `oci://", "and it came from `oci://"],
        );
    }
    let bare = lock.replace(&format!("@{digest}"), "");
    std::fs::write(root.path().join("skills.lock"), bare).expect("the folder is writable");
    holds(
        &other.run(root.path(), &["skill", "sync", "--frozen"]).expect(2).stderr,
        &["line 10: a place in a registry ends with `@sha256:`"],
    );
    std::fs::write(root.path().join("skills.lock"), lock).expect("the folder is writable");
    skill(&home, &["update", "echo", "--yes"]).expect(0);
    let shown = entry(&home, "echo").expect("it is there");
    assert_eq!(shown["description"], "Answers with all arguments.");
}

#[test]
fn what_a_registry_forges_is_refused() {
    let (registry, home) = (Registry::start(), Home::offline());
    let place = registry.place("team/echo:1.0");
    let pinned = push(&home, &guest("echo"), &place);
    let manifest = pinned.rsplit_once(':').expect("a digest").1.to_owned();
    let (_folder, forged) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    let component = skill(&home, &["inspect", text(&guest("echo")), "--json"]);
    // Without that flag it prints JSON in any case.
    let component = match component.code {
        0 => component,
        _ => skill(&home, &["inspect", text(&guest("echo"))]).expect(0),
    };
    let component: Value = serde_json::from_str(&component.stdout).expect("JSON");
    let layer = component["digest"].as_str().expect("text").to_owned();
    std::fs::copy(forged, registry.blob(&layer)).expect("the registry's files are ours");
    for place in [&place, &pinned] {
        let refused = skill(&home, &["add", place, "--yes"]).expect(1);
        holds(&refused.stderr, &["is not what was asked for: its digest is"]);
    }
    let file = registry.blob(&manifest);
    let changed = std::fs::read_to_string(&file)
        .expect("it is there")
        .replace("\"echo\"", "\"ohce\"");
    std::fs::write(&file, changed).expect("the registry's files are ours");
    let refused = skill(&home, &["add", &pinned, "--yes"]).expect(1);
    holds(&refused.stderr, &["is not what was asked for: its digest is"]);
    assert_eq!(entry(&home, "echo"), None);
}

#[test]
fn a_registry_that_wants_a_login_gets_the_users_and_nobody_elses() {
    let (registry, home) = (Registry::guarded(), Home::offline());
    let place = registry.place("team/echo:1.0");
    let echo = guest("echo");
    holds(
        &skill(&home, &["push", text(&echo), &place]).expect(1).stderr,
        &["log in with `docker login`"],
    );
    let log_in = |host: &str, pair: &str| {
        std::fs::create_dir_all(home.path().join(".docker")).expect("the home is ours");
        let logins = format!(r#"{{"auths": {{"{host}": {{"auth": "{pair}"}}}}}}"#);
        std::fs::write(home.path().join(".docker/config.json"), logins).expect("the home is ours");
    };
    let host = format!("127.0.0.1:{}", registry.port);
    // `ada:hunter2`, and `ada:wrong`.
    let (right, wrong) = ("YWRhOmh1bnRlcjI=", "YWRhOndyb25n");
    log_in("registry.example.org", right);
    holds(
        &skill(&home, &["push", text(&echo), &place]).expect(1).stderr,
        &["log in with `docker login`"],
    );
    log_in(&host, wrong);
    skill(&home, &["push", text(&echo), &place]).expect(1);
    log_in(&host, right);
    skill(&home, &["push", text(&echo), &place]).expect(0);
    let added = skill(&home, &["add", &place, "--yes"]).expect(0);
    assert!(!format!("{}{}", added.stdout, added.stderr).contains("hunter2"));
    log_in(&host, "!");
    let refused = skill(&home, &["add", &place, "--yes"]).expect(1);
    holds(
        &refused.stderr,
        &["config.json` cannot be used", "is not a name and a password"],
    );
}
