//! Usage in automation: a job without a terminal, its output, its artifact; and what does not exist.

use std::path::Path;

use super::world::{SHOP, World, documents_say, holds, report, says};
use crate::support::{Home, finish, folder};

/// No webhook can be configured, nothing of the interface names one, and the documents say so.
pub(super) fn no_webhooks() {
    let repository = folder(SHOP);
    for table in [
        "[webhooks]\nurl = \"http://127.0.0.1:9\"\n",
        "[server]\nwebhook = \"http://127.0.0.1:9\"\n",
    ] {
        let home = Home::configured(&format!(
            "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n{table}"
        ));
        let finished = home.run(repository.path(), &["explain", "."]).expect(2);
        holds(
            &finished.stderr,
            &["[error] Failed to parse config: unknown field `webhook"],
        );
    }
    let home = Home::empty();
    let help = home.run(Path::new("/"), &["--help"]).expect(0).stdout;
    assert!(!help.to_lowercase().contains("webhook"), "{help}");
    documents_say(&["no webhooks"]);
}

/// Initialize, start the backend, run an operation: as a job without a terminal, as a container without a home
/// directory, and as a hook that git has given its variables.
#[test]
fn automation_jobs() {
    for variables in [
        &[][..],
        &[("HOME", "")],
        &[
            ("GIT_DIR", ".git"),
            ("GIT_INDEX_FILE", ".git/index"),
            ("GIT_PREFIX", ""),
        ],
    ] {
        let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
        std::fs::remove_file(world.home.path().join("config.toml")).expect("it was written");
        let url = world.server.url();
        let init = ["init", "--provider", "local", "--model", "scripted", "--url", &url];
        world.run_with(variables, &init).expect(0);
        world.run_with(variables, &["service", "start"]).expect(0);
        let finished = world.run_with(variables, &["explain", "."]).expect(0);
        holds(&finished.stdout, &["It counts crates (app.py:1)."]);
        assert!(
            !finished.stderr.contains('\u{1b}'),
            "no colours where nobody looks: {}",
            finished.stderr
        );
    }
}

#[test]
fn automation_standard_output() {
    let world = World::repeating(SHOP, says(&["It counts crates ", "(app.py:1).\n"]));
    let place = world.home.path().join("ARCHITECTURE.md");
    let mut command = world.home.tool(world.root(), &["explain", "."]);
    let file = std::fs::File::create(&place).expect("the folder is writable");
    let finished = finish(command.stdout(file).output().expect("the binary runs")).expect(0);
    let text = std::fs::read_to_string(&place).expect("it was written");
    assert!(text.starts_with("It counts crates (app.py:1)."), "{text}");
    assert!(
        !text.contains("skill ") && !text.contains("reads "),
        "progress is not a part of the answer: {text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    holds(&finished.stderr, &["reads app.py"]);
}

/// The collected artifacts are complete: plain files without links out of the folder.
#[test]
fn automation_artifact() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    world.run(&["explain", "."]).expect(0);
    let collected = tempfile::tempdir().expect("a temporary folder");
    super::skills::run(
        world.root(),
        "cp",
        &["-r", "session-reports", &collected.path().to_string_lossy()],
    );
    for name in ["session_latest.md", "session_history.json"] {
        assert_eq!(report(collected.path(), name), report(world.root(), name));
    }
    holds(
        &report(collected.path(), "session_latest.md"),
        &["It counts crates (app.py:1)."],
    );
}

#[test]
fn automation_no_editor_extension() {
    let help = Home::empty().run(Path::new("/"), &["--help"]).expect(0).stdout;
    assert!(!help.to_lowercase().contains("editor"), "{help}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the repository");
    assert!(
        !root.join("package.json").exists(),
        "an extension would have a manifest"
    );
    documents_say(&["no editor extension"]);
}

#[test]
fn automation_no_webhooks() {
    no_webhooks();
}
