//! A component of each language that uses every function of the contract: the host must give each of them the same.

use std::path::Path;
use std::sync::Arc;

use host::api::{Effect, ErrorKind, PolicyRequest, SkillState};
use host::digest::sha256_hex;
use host::repository::{Options, Repository};
use host::skill::policy::{Cause, Policy};
use host::skill::{Builtin, CallContext, CallError, CallOutcome, RawArguments, SkillHost};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{LANGUAGES, home, host, whole_contract};
use crate::contain;
use crate::support::{Home, folder, git, holds};

/// SHA-256 of `hello\n`.
const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

/// A repository with an edit that is not committed.
fn repository() -> TempDir {
    let folder = folder(&[
        ("docs/hello.md", "hello\n"),
        ("src/a.txt", "one\ntwo\n"),
        ("src/b.bin", "\0\u{1}"),
        ("src/c.txt", "umlaut ä\n"),
        ("app.log", "line\n"),
        (".gitignore", "*.log\n"),
    ]);
    let root = folder.path();
    git(root, &["init", "--quiet", "--initial-branch", "main"]);
    git(root, &["config", "user.name", "Ada"]);
    git(root, &["config", "user.email", "ada@example.org"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", "Start"]);
    std::fs::write(root.join("src/a.txt"), "one\nthree\n").expect("the folder is writable");
    folder
}

/// The skill of a language on a repository.
struct Scene {
    folder: TempDir,
    host: Arc<SkillHost>,
    context: Arc<CallContext>,
    skill: String,
}

impl Scene {
    fn new(language: &str, allow: &[&str], deny: &[&str]) -> Self {
        home();
        let folder = repository();
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let request = PolicyRequest {
            allow: owned(allow),
            deny: owned(deny),
            ..PolicyRequest::default()
        };
        let context = CallContext::unattended(
            Repository::open(folder.path(), &Options::default()).expect("the folder is acceptable"),
            Policy::new(Cause::SkillCall, &request).expect("the effects are known"),
        );
        Self {
            folder,
            host: host(),
            context: Arc::new(context),
            skill: format!("contract_{language}"),
        }
    }

    fn call(&self, arguments: &Value) -> Result<CallOutcome, CallError> {
        let report = self
            .host
            .call(&self.context, &self.skill, RawArguments::Value(arguments));
        report.result
    }

    /// Returns the answer of a call that works.
    #[track_caller]
    fn told(&self, arguments: &Value) -> String {
        match self.call(arguments) {
            Ok(outcome) => outcome.text,
            Err(error) => panic!("{} of {arguments}: {error}", self.skill),
        }
    }
}

/// Runs a check with every language.
fn each(allow: &[&str], deny: &[&str], check: impl Fn(&Scene)) {
    for language in LANGUAGES {
        check(&Scene::new(language, allow, deny));
    }
}

#[test]
fn each_describes_itself_alike() {
    home();
    let host = host();
    for language in LANGUAGES {
        let name = format!("contract_{language}");
        let entries = host.entries();
        let entry = entries.iter().find(|entry| entry.name == name).expect("it was added");
        assert_eq!((entry.version.as_str(), entry.state), ("1.0.0", SkillState::Ready));
        let mut effects = entry.effects.clone();
        effects.sort_unstable();
        assert_eq!(effects, Effect::PLAIN[..6], "{language}");
    }
}

#[test]
fn each_reads_the_repository_alike() {
    each(&[], &[], |scene| {
        let list = scene.told(&json!({"do": "list", "path": "src"}));
        assert_eq!(
            list,
            "file src/a.txt 10\nfile src/b.bin 2\nfile src/c.txt 10\nleft out 0, more no"
        );
        let read = scene.told(&json!({"do": "read", "path": "src"}));
        assert_eq!(
            read,
            "src/a.txt: one\nthree\n\nsrc/b.bin: binary\nsrc/c.txt: umlaut ä\n"
        );
        assert_eq!(scene.told(&json!({"do": "divide", "path": ""})), "starts 0");
        let changes = scene.told(&json!({"do": "changes"}));
        holds(
            &changes,
            &[
                "on main, more no\nunstaged modified src/a.txt from nothing +1 -1 no\n",
                "-two\n+three\n",
            ],
        );
    });
}

#[test]
fn each_proposes_changes_alike() {
    each(&["write-repository"], &[], |scene| {
        let file = |path: &str| std::fs::read_to_string(scene.folder.path().join(path)).ok();
        let new = json!({"do": "write", "path": "docs/new.md", "text": "new ä\n"});
        let outcome = scene.call(&new).expect("it is granted");
        assert_eq!(outcome.files_modified, ["docs/new.md"]);
        assert_eq!(file("docs/new.md").as_deref(), Some("new ä\n"));

        let write = json!({"do": "write", "path": "docs/hello.md", "text": "other\n"});
        let unread = scene.call(&write).expect_err("it was not shown");
        assert_eq!(unread.verdict(), "denied");
        let shown = scene.told(&json!({"do": "show", "path": "docs/hello.md", "text": HELLO}));
        assert_eq!(shown, "hello\n");
        scene.told(&write);
        assert_eq!(file("docs/hello.md").as_deref(), Some("other\n"));
        scene.told(&json!({"do": "delete", "path": "docs/new.md"}));
        assert_eq!(file("docs/new.md"), None);
    });
}

#[test]
fn each_answers_alike() {
    each(&[], &[], |scene| {
        let page = scene.call(&json!({"do": "page", "text": "next ä"})).expect("it works");
        assert_eq!((page.text.as_str(), page.truncated), ("a page", true));
        assert_eq!(page.cursor.as_deref(), Some("next ä"));
        assert_eq!(page.details, Some(json!({"page": "next ä"})));
        assert_eq!(scene.told(&json!({"do": "log", "text": "a word"})), "said");
        assert_eq!(scene.told(&json!({"do": "echo", "text": "ä\n𝄞"})), "ä\n𝄞");
        let failure = scene
            .call(&json!({"do": "fail", "text": "not ä"}))
            .expect_err("it fails");
        let expected = CallError::Failure {
            skill: scene.skill.clone(),
            kind: ErrorKind::NotFound,
            message: "not ä".to_owned(),
            hint: Some("look elsewhere".to_owned()),
        };
        assert_eq!(failure, expected);
    });
}

#[test]
fn each_is_denied_what_is_not_granted() {
    each(&[], &["read-git", "commit-git", "run-process", "install"], |scene| {
        for (function, effect) in [
            ("changes", "read-git"),
            ("commit", "commit-git"),
            ("test", "run-process"),
            ("install", "install"),
        ] {
            let denied = scene
                .call(&json!({"do": function, "text": "six"}))
                .expect_err("it is not granted");
            let told = format!("The effect `{effect}` is not granted here.");
            assert_eq!(
                (denied.verdict(), denied.to_string()),
                ("denied", told),
                "{}",
                scene.skill
            );
        }
    });
}

/// The skill of a language as if it were built in and could do nothing but read: only such a skill is split. The home has its code.
fn reader(language: &str) -> Builtin {
    let wasm = std::fs::read(whole_contract(language)).expect("it is built");
    let descriptor = json!({
        "name": "contract",
        "version": "1.0.0",
        "description": "Reads.",
        "functions": [{
            "name": "contract",
            "description": "Reads.",
            "parameters": {"type": "object"},
            "effects": ["read-repository"],
        }],
    });
    Builtin {
        name: "contract",
        digest: sha256_hex(&wasm).leak(),
        wasm: wasm.leak(),
        compiled: &[],
        descriptor: descriptor.to_string().leak(),
    }
}

#[test]
fn each_is_run_in_parts() {
    for language in LANGUAGES {
        let scene = Scene {
            host: SkillHost::new(vec![reader(language)].leak(), home()).expect("the engine starts"),
            skill: "contract".to_owned(),
            ..Scene::new(language, &[], &[])
        };
        let add = json!({"do": "add", "numbers": [1, 2, 3, 4]});
        assert_eq!(scene.told(&add), "3 and 7", "{language}");
        assert_eq!(
            scene.told(&json!({"do": "echo", "text": "whole"})),
            "whole",
            "{language}"
        );
    }
}

#[test]
fn each_commits_alike() {
    each(&["commit-git"], &[], |scene| {
        let told = scene.told(&json!({"do": "commit", "text": "Say three"}));
        assert_eq!(told, "40 on main by Ada <ada@example.org>: src/a.txt");
        let log = git(scene.folder.path(), &["log", "--format=%s"]);
        assert_eq!(log, "Say three\nStart\n");
    });
}

/// A home of the command line with the skills in it: `home` has them compiled.
fn a_users_home() -> Home {
    let user = Home::offline();
    for part in ["skills", "cache/skills"] {
        copy(&home().join(part), &user.path().join(part));
    }
    user
}

fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    let mut folder = std::fs::DirBuilder::new();
    folder
        .recursive(true)
        .mode(0o700)
        .create(to)
        .expect("the folder is writable");
    for entry in std::fs::read_dir(from).expect("the folder is readable") {
        let entry = entry.expect("the folder is readable");
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("the folder is writable");
        }
    }
}

#[test]
fn each_runs_tests_alike() {
    let user = a_users_home();
    let repository = contain::repository(&[("test_it.py", "def test_it():\n    pass\n")]);
    for language in LANGUAGES {
        let skill = format!("contract_{language}");
        let call = [
            "skill",
            "call",
            &skill,
            r#"{"do": "test"}"#,
            "--allow",
            "run-process",
            "--quiet",
        ];
        let told = user.run(repository.path(), &call).expect(0).stdout;
        let expected = "exit 0 cut no late no in yes took yes ran yes, passed yes\n";
        assert_eq!(told, expected, "{language}");
    }
}
