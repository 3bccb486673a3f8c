//! Writing: the repository is read-only, and what lies in the stage is a proposal.

use std::path::Path;

use serde_json::json;
use tool_skill::Limits;

use super::{Arena, DENIED};

#[test]
fn the_repository_cannot_be_written() {
    let arena = Arena::new();
    let read_only = "refused: ReadOnlyFilesystem";
    for (attack, path) in [
        ("write", "/repo/README.md"),
        ("write", "/repo/new"),
        ("append", "/repo/README.md"),
        ("truncate", "/repo/README.md"),
        ("create", "/repo/new"),
        ("mkdir", "/repo/new"),
        ("remove", "/repo/README.md"),
        ("rmdir", "/repo/src"),
    ] {
        assert_eq!(arena.on(attack, path), read_only, "{attack} {path}");
    }
    for (attack, path, to) in [
        ("rename", "/repo/README.md", "/repo/new"),
        ("rename", "/repo/README.md", "/stage/new"),
        ("hard-link", "/repo/README.md", "/repo/new"),
        ("hard-link", "/repo/README.md", "/stage/new"),
        ("symlink", "README.md", "/repo/new"),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": path, "to": to}));
        assert_eq!(answer, read_only, "{attack} {path} {to}");
    }
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
    assert_eq!(arena.file("new"), None);
}

#[test]
fn what_lies_in_the_stage_is_committed_after_the_call() {
    let arena = Arena::new();
    let report = arena.report("hostile", &json!({"attack": "write", "path": "/stage/deep.txt"}));
    let outcome = report.result.expect("a new file may be proposed");
    assert_eq!(
        (outcome.text.as_str(), outcome.files_modified),
        ("got written", vec!["deep.txt".to_owned()])
    );
    assert_eq!(arena.file("deep.txt").as_deref(), Some("owned"));
    assert_eq!(report.receipt.expect("it ran").files_proposed, ["deep.txt"]);
}

#[test]
fn a_file_is_replaced_only_after_it_was_shown() {
    let arena = Arena::new();
    let answer = arena.on("write", "/stage/README.md");
    assert_eq!(
        answer,
        "denied `README.md` has not been read in this session: read it first"
    );
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
    // Saying that it was shown is not showing it.
    assert_eq!(arena.on("shown-to-nobody", "README.md"), "shown");
    assert_eq!(arena.on("write", "/stage/README.md"), answer);
    assert_eq!(arena.on("shown", "README.md"), "shown\nhello");
    assert_eq!(arena.on("write", "/stage/README.md"), "got written");
    assert_eq!(arena.file("README.md").as_deref(), Some("owned"));
}

#[test]
fn a_call_that_does_not_end_well_changes_nothing() {
    let arena = Arena::new();
    assert_eq!(arena.on("fail-after-write", "/stage/new"), "failed failed on purpose");
    let answer = arena.on("trap-after-write", "/stage/new");
    assert!(answer.starts_with("trap "), "{answer}");
    assert_eq!(arena.file("new"), None);
}

#[test]
fn writing_that_is_not_granted_is_denied() {
    let arena = Arena::with(Limits::default(), &["write-repository"]);
    let denied = "denied `hostile` needs the effect `write-repository`, which is not granted here.";
    assert_eq!(arena.on("write", "/stage/new"), denied);
    assert_eq!(arena.on("mkdir", "/stage/new"), denied);
    assert_eq!(arena.on("delete", "README.md"), denied);
    assert_eq!(arena.file("README.md").as_deref(), Some("hello"));
}

#[test]
fn the_stage_holds_files_and_directories_only_and_leads_nowhere() {
    let arena = Arena::new();
    for (attack, path, to) in [
        ("symlink", "/etc/passwd", "/stage/link"),
        ("symlink", "../../repo", "/stage/link"),
        ("write", "/stage/../repo/new", ""),
        ("write", "/stage/..", ""),
        ("mkdir", "/stage/../new", ""),
        ("read", "/stage/../README.md", ""),
        ("list", "/stage/..", ""),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": path, "to": to}));
        assert_eq!(answer, DENIED, "{attack} {path}");
    }
    assert_eq!(arena.on("write", "/stage/new/"), "refused: IsADirectory");
    assert_eq!(arena.on("read", "/stage/new"), "refused: NotFound");
    for path in [
        "/stage/.git/hooks/pre-commit",
        "/stage/.env",
        "/stage/.github/workflows/ci.yml",
    ] {
        let parent = Path::new(path).parent().and_then(Path::to_str).expect("it has one");
        let answer = arena.attack(&json!({"attack": "mkdir", "path": parent}));
        assert_eq!(answer, "got made", "an empty directory proposes nothing");
    }
    assert_eq!(arena.on("write", "/stage/.env").split(' ').next(), Some("denied"));
    assert_eq!(arena.file("new"), None);
    assert_eq!(arena.file(".env").as_deref(), Some("SECRET=1"));
}
