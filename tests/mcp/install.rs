//! `tool mcp install`: the printed entry works, and files keep their content.

use std::fs;

use serde_json::{Value, json};

use super::Agent;
use crate::support::{Finished, Home, folder, holds};

/// A home and a repository with a name of its own.
fn places() -> (Home, tempfile::TempDir, std::path::PathBuf) {
    let (home, place) = (Home::offline(), folder(&[("shop/app.py", "x = 1\n")]));
    let root = place.path().join("shop").canonicalize().expect("it is there");
    (home, place, root)
}

fn install(home: &Home, root: &std::path::Path, arguments: &[&str]) -> Finished {
    home.run(root, &[&["mcp", "install"], arguments].concat())
}

#[test]
fn what_is_printed_starts_a_server_that_works() {
    let (home, _place, root) = places();
    let printed = install(&home, &root, &["json", "--allow", "run-process"]).expect(0);
    let printed: Value = serde_json::from_str(&printed.stdout).expect("it is JSON");
    let entry = &printed["mcpServers"]["tool"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_tool"));
    assert_eq!(entry["env"]["TOOL_HOME"], home.path().to_str().expect("it is UTF-8"));
    let arguments: Vec<&str> = entry["args"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        arguments,
        [
            "mcp",
            "--root",
            root.to_str().expect("it is UTF-8"),
            "--allow",
            "run-process"
        ]
    );
    let mut agent = Agent::start(&home, std::path::Path::new("/"), &arguments[1..], &json!({}));
    assert_eq!(agent.call("read_file", json!({"path": "app.py"}))["isError"], false);
    agent.end().expect(0);
}

#[test]
fn each_client_has_its_file_and_its_form() {
    let (home, _place, root) = places();
    let own = home.path().to_path_buf();
    for (client, file, servers, name) in [
        ("claude-code", root.join(".mcp.json"), "mcpServers", "tool"),
        ("cursor", root.join(".cursor/mcp.json"), "mcpServers", "tool"),
        ("vscode", root.join(".vscode/mcp.json"), "servers", "tool"),
        ("gemini", root.join(".gemini/settings.json"), "mcpServers", "tool"),
        (
            "zed",
            own.join(".config/zed/settings.json"),
            "context_servers",
            "tool-shop",
        ),
    ] {
        let said = install(&home, &root, &[client]).expect(0);
        holds(
            &said.stderr,
            &[&format!("goes into {}; `--write` puts it there", file.display())],
        );
        assert!(!file.exists(), "nothing is written without being told");
        let said = install(&home, &root, &[client, "--write"]).expect(0);
        holds(
            &said.stderr,
            &["+++ b/", "\"mcp\",", &format!("written to {}", file.display())],
        );
        let written: Value = serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("it is JSON");
        assert_eq!(written[servers][name]["args"][0], "mcp", "{client}: {written}");
        let said = install(&home, &root, &[client, "--write"]).expect(0);
        holds(&said.stderr, &["has it already"]);
    }
    install(&home, &root, &["codex", "--write"]).expect(0);
    let written = fs::read_to_string(own.join(".codex/config.toml")).expect("it is there");
    holds(&written, &["[mcp_servers.tool-shop]\ncommand = "]);
}

#[test]
fn what_is_in_a_file_stays_there() {
    let (home, _place, root) = places();
    let file = root.join(".mcp.json");
    fs::write(
        &file,
        "{\n    \"mcpServers\": {\n        \"tool\": {\"command\": \"other\"}\n    },\n    \"a\": [1]\n}\n",
    )
    .expect("writable");
    let before = fs::read_to_string(&file).expect("it is there");
    let refused = install(&home, &root, &["claude-code", "--write"]).expect(2);
    holds(
        &refused.stderr,
        &["has another `tool` in `mcpServers`", "hint: `--yes` replaces it"],
    );
    assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
    install(&home, &root, &["claude-code", "--write", "--yes"]).expect(0);
    let after: Value = serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("it is JSON");
    assert_eq!(
        (&after["a"], &after["mcpServers"]["tool"]["type"]),
        (&json!([1]), &json!("stdio"))
    );
    let commented = "{\n  // mine\n  \"servers\": {}\n}\n";
    fs::create_dir(root.join(".vscode")).expect("writable");
    fs::write(root.join(".vscode/mcp.json"), commented).expect("writable");
    let refused = install(&home, &root, &["vscode", "--write"]).expect(2);
    holds(
        &refused.stderr,
        &[
            "is not changed: it is not JSON, or it has comments",
            "hint: leave out `--write`",
        ],
    );
    assert_eq!(
        fs::read_to_string(root.join(".vscode/mcp.json")).expect("it is there"),
        commented
    );
    install(&home, &root, &["json", "--write"]).expect(2);
}

#[test]
fn nothing_is_written_through_a_link_of_the_repository() {
    let (home, place, root) = places();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("writable");
    fs::write(elsewhere.join("mcp.json"), "{}").expect("writable");
    for (client, link, target) in [
        ("cursor", ".cursor", elsewhere.clone()),
        ("claude-code", ".mcp.json", elsewhere.join("mcp.json")),
        ("gemini", ".gemini", place.path().join("nowhere")),
    ] {
        std::os::unix::fs::symlink(&target, root.join(link)).expect("links can be made");
        let refused = install(&home, &root, &[client, "--write"]).expect(2);
        holds(
            &refused.stderr,
            &[
                link,
                "is a link, and nothing is written through it",
                "hint: leave out `--write`",
            ],
        );
        install(&home, &root, &[client]).expect(0);
    }
    assert_eq!(
        fs::read_to_string(elsewhere.join("mcp.json")).expect("it is there"),
        "{}"
    );
    assert_eq!(fs::read_dir(&elsewhere).expect("it is there").count(), 1);
    assert!(!place.path().join("nowhere").exists());
}

#[test]
fn repositories_of_one_name_have_entries_of_their_own() {
    let (home, place, root) = places();
    let other = place.path().join("deep/shop");
    fs::create_dir_all(&other).expect("writable");
    let file = home.path().join(".codex/config.toml");
    let servers = || {
        let written: toml::Table = fs::read_to_string(&file)
            .expect("it is there")
            .parse()
            .expect("it is TOML");
        written["mcp_servers"].clone()
    };
    install(&home, &root, &["codex", "--write"]).expect(0);
    let said = install(&home, &other, &["codex", "--write"]).expect(0);
    holds(
        &said.stderr,
        &[
            "`tool-shop` is of another repository there: this one is `tool-shop-2`",
            "--name NAME",
        ],
    );
    // Each is known again, from wherever it is named.
    let again = install(&home, &root, &["codex", "--write", "--root", "../deep/../deep/shop"]).expect(0);
    holds(&again.stderr, &["has it already"]);
    holds(
        &install(&home, &root, &["codex", "--write"]).expect(0).stderr,
        &["has it already"],
    );
    install(&home, &other, &["codex", "--write", "--name", "mine"]).expect(0);
    let real = other.canonicalize().expect("it is there");
    for (name, root) in [("tool-shop", &root), ("tool-shop-2", &real), ("mine", &real)] {
        assert_eq!(servers()[name]["args"][2].as_str(), root.to_str(), "{name}");
    }
    for wrong in ["", "a b", "ü", &"n".repeat(41)] {
        let refused = install(&home, &root, &["codex", "--name", wrong]).expect(2);
        holds(&refused.stderr, &["is not a valid name of a server", "hint: letters"]);
    }
}

#[test]
fn a_file_that_teams_commit_is_said_to_name_places_of_this_machine() {
    let (home, _place, root) = places();
    let said = install(&home, &root, &["vscode", "--write"]).expect(0);
    holds(
        &said.stderr,
        &["mcp.json names places of this machine", "hint: leave it out"],
    );
    let own = install(&home, &root, &["zed", "--write"]).expect(0);
    assert!(!own.stderr.contains("places of this machine"), "{}", own.stderr);
}
