//! A repository's own file may narrow the user's rights, and nothing else.

use std::fs;
use std::path::Path;

use serde_json::json;
use tool_model_server::{Round, ScriptedCall};

use super::{call, sent, text};
use crate::providers::{LOCAL, scripted, serve};
use crate::support::{Home, folder, git, holds};

#[test]
fn a_repository_narrows_reading_searching_diffs_and_the_selection_alike() {
    let repository = folder(&[
        (
            ".tool.toml",
            "[policy]\nhide = [\"private/\", \"*.plan\"]\nprotect = [\"deploy/**\"]\ndeny = [\"commit-git\"]\n",
        ),
        ("README.md", "# A\n"),
        ("main.py", "x = 1\n"),
        ("private/main.py", "hushed = 1\n"),
        ("a.plan", "hushed\n"),
        ("deploy/run.py", "y = 1\n"),
    ]);
    let root = repository.path();
    git(root, &["init", "--quiet"]);
    git(root, &["add", "."]);
    let (server, home) = scripted([
        Round::calls([
            ScriptedCall::new("read_file", json!({"path": "private/main.py"})),
            ScriptedCall::new("search_code", json!({"pattern": "hushed"})),
            ScriptedCall::new("git_diff", json!({})),
            ScriptedCall::new("list_files", json!({"recursive": true})),
            ScriptedCall::new("read_file", json!({"path": "deploy/run.py"})),
        ]),
        call("write_file", json!({"path": "deploy/run.py", "content": "y = 2\n"})),
        call("git_commit", json!({"message": "x", "all": true})),
        Round::text("Nothing."),
    ]);
    let flags = [
        "refactor",
        "x",
        "--deny",
        "run-process",
        "--allow",
        "commit-git:tainted",
    ];
    home.run(root, &flags).expect(1);
    let all = sent(&server, server.requests().len() - 1);
    holds(
        &all,
        &[
            "`private/main.py` may not be opened",
            "`deploy/run.py` is protected: it is protected by the repository's `.tool.toml`",
            "The effect `commit-git` is denied by the repository's `.tool.toml`.",
        ],
    );
    assert!(!all.contains("hushed = 1") && !all.contains("a.plan"), "{all}");
    assert_eq!(text(&root.join("deploy/run.py")), "y = 1\n");
    let selected = home.run(root, &["context", "explain", "--paths"]).expect(0).stdout;
    assert!(!selected.contains("private/"), "{selected}");
    // A path that the user reveals stays revealed.
    let config = LOCAL.config(&serve([]), "") + "[policy]\nreveal = [\"private/**\"]\n";
    let revealed =
        Home::configured(&config).run(root, &["skill", "call", "read_file", "{\"path\": \"private/main.py\"}"]);
    assert!(
        !revealed.stdout.contains("hushed = 1"),
        "the directory itself is not revealed: {}",
        revealed.stdout
    );
    fs::write(root.join(".tool.toml"), "[policy]\ndeny = [\"write-repository\"]\n").expect("it may be written");
    let arguments = r#"{"path": "new.py", "content": ""}"#;
    let write = ["skill", "call", "write_file", arguments, "--allow", "write-repository"];
    let refused = home.run(root, &write).expect(1);
    holds(
        &refused.stderr,
        &["only who may change the repository's `.tool.toml` can grant it"],
    );
}

#[test]
fn a_repository_that_wants_more_than_to_narrow_is_refused_by_line_and_key() {
    for (content, message) in [
        (
            "[policy]\nallow = [\"install\"]\n",
            "`.tool.toml`, line 2: `allow` is not for a repository to say",
        ),
        (
            "[policy]\nreveal = [\".env\"]\n",
            "`.tool.toml`, line 2: `reveal` is not for a repository to say",
        ),
        (
            "# a\n[providers.hosted]\nurl = \"http://127.0.0.1:9/\"\n",
            "`.tool.toml`, line 2: `providers` is not for a repository to say",
        ),
        (
            "command = \"sh\"\n",
            "`.tool.toml`, line 1: `command` is not for a repository to say",
        ),
        (
            "[policy]\ndeny = [\"everything\"]\n",
            "`.tool.toml`, `deny`, line 2, column 9: Unknown effect `everything`",
        ),
        (
            "[policy]\nhide = [\"a{b\"]\n",
            "`a{b` in `[policy] hide` of `.tool.toml` is not a valid pattern",
        ),
    ] {
        let repository = folder(&[(".tool.toml", content), ("main.py", "x = 1\n")]);
        let home = Home::offline();
        for arguments in [
            &["explain", "."][..],
            &["context", "explain"],
            &["skill", "call", "list_files"],
        ] {
            let refused = home.run(repository.path(), arguments).expect(2);
            holds(&refused.stderr, &[&format!("[error] {message}"), "hint: "]);
        }
    }
}

#[test]
fn a_tool_toml_that_is_no_plain_small_file_is_an_error_and_blocks_nothing() {
    let home = Home::offline();
    let refused = |make: &dyn Fn(&Path)| {
        let repository = folder(&[("main.py", "x = 1\n")]);
        make(&repository.path().join(".tool.toml"));
        home.run(repository.path(), &["explain", "."]).expect(2).stderr
    };
    let fifo = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).expect("a FIFO is made");
    };
    holds(
        &refused(&fifo),
        &["[error] `.tool.toml` is neither a file nor a directory"],
    );
    let outside = |path: &Path| std::os::unix::fs::symlink("/etc/hostname", path).expect("a link is made");
    holds(
        &refused(&outside),
        &["[error] `.tool.toml` is not accessible: it lies outside the repository"],
    );
    let large = |path: &Path| std::fs::write(path, "#".repeat(70_000)).expect("it is written");
    holds(
        &refused(&large),
        &["[error] `.tool.toml` has 70000 bytes, more than the limit of 65536"],
    );
    let directory = |path: &Path| std::fs::create_dir(path).expect("it is made");
    holds(&refused(&directory), &["[error] `.tool.toml` is a directory"]);
}
