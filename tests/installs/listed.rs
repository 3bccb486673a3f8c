//! Entries that a model has written into `package.json` before it asks for a harmless installation.

use serde_json::json;
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, ScriptedCall};

use super::mirror::{Mirror, npm_package};
use super::settings;
use crate::providers::scripted;
use crate::support::{Home, folder, holds};
use crate::terminal::on_terminal;

const MANIFEST: &str = "{\"name\": \"x\", \"version\": \"1.0.0\"}\n";

/// A model that adds a package to the manifest and then asks for another one.
fn model(mirror: &Mirror) -> (ModelServer, Home, TempDir) {
    let content = MANIFEST.replace("}", ", \"dependencies\": {\"evil-typosquat\": \"6.6.6\"}}");
    let call = |name: &str, arguments| Round::calls([ScriptedCall::new(name, arguments)]);
    let (server, home) = scripted([
        call("read_file", json!({"path": "package.json"})),
        call("write_file", json!({"path": "package.json", "content": content})),
        call("install_package", json!({"names": ["harmless"], "manager": "npm"})),
        Round::text("Done."),
    ]);
    settings(&home, mirror);
    (server, home, folder(&[("package.json", MANIFEST)]))
}

fn mirror() -> Mirror {
    let mut mirror = Mirror::new();
    for (name, version) in [("harmless", "1.0.0"), ("evil-typosquat", "6.6.6")] {
        let package = npm_package(name, version, "", &[("index.js", "1\n")]);
        mirror.add_npm(name, &[(version, package)]);
    }
    mirror.start()
}

#[test]
fn what_a_model_put_into_package_json_stands_in_the_question() {
    let mirror = mirror();
    for (reply, is_installed) in [("n", false), ("y", true)] {
        let (_server, home, repository) = model(&mirror);
        let flags = ["refactor", "add harmless", "--deny", "run-process"];
        let asked = on_terminal(&home, repository.path(), 200, &flags, &[("REPLY", reply)]);
        holds(
            &asked.stdout,
            &[
                "Install with npm: harmless, and 1 more that package.json lists",
                "changed in this session, and npm installs what they say: `package.json`",
                "evil-typosquat 6.6.6 (dependencies)",
            ],
        );
        let evil = repository.path().join("node_modules/evil-typosquat");
        assert_eq!(evil.is_dir(), is_installed, "{}", asked.stdout);
    }
}

#[test]
fn what_was_allowed_beforehand_does_not_cover_what_a_model_put_into_package_json() {
    let mirror = mirror();
    let (server, home, repository) = model(&mirror);
    let flags = [
        "refactor",
        "add harmless",
        "--deny",
        "run-process",
        "--allow",
        "install",
    ];
    let refused = home.run(repository.path(), &flags).expect(1);
    let requests = server.requests();
    let messages = requests.last().expect("a request").body["messages"].to_string();
    for said in [&messages, &refused.stderr] {
        holds(
            said,
            &[
                "npm would install what this session has written into `package.json`, which the user was not asked about.",
            ],
        );
    }
    assert!(!repository.path().join("node_modules").exists());
    // npm may have asked for a newer version of itself.
    let asked = mirror.asked();
    assert!(
        !asked
            .iter()
            .any(|path| path.contains("harmless") || path.contains("evil")),
        "{asked:?}"
    );
}
