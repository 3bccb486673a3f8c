//! A component of each language that uses every function of the contract: the host must give each of them the same.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tool_core::api::{Citation, Effect, ErrorKind, Media, PolicyRequest, SkillState};
use tool_core::digest::sha256_hex;
use tool_repository::{Options, Repository};
use tool_skill::embedded::{Packed, pack_component};
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{
    Builtin, CallContext, CallError, CallOutcome, HostServices, HttpTransport, InboundResponse, Limits,
    OutboundRequest, RawArguments, SkillHost, TransportError,
};

use super::{LANGUAGES, home, host, whole_contract};
use crate::contain;
use crate::support::{Home, folder, git, holds, say};

/// The value of `contract_token` in the home: see `home`.
pub(super) const SECRET: &str = "tk-77d0c4b18e2f";

/// SHA-256 of `hello\n`.
const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

/// Every effect, sorted.
const EFFECTS: [&str; 11] = [
    "read-repository",
    "write-repository",
    "read-git",
    "commit-git",
    "run-process",
    "install",
    "http:tickets.example.org",
    "http-write:tickets.example.org",
    "config",
    "secret:contract_token",
    "store",
];

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

/// A server that answers each request with its own words, and says whether it was sent the secret.
#[derive(Debug)]
struct Echo;

impl HttpTransport for Echo {
    fn send(
        &self,
        request: OutboundRequest,
        _: CancellationToken,
    ) -> mpsc::Receiver<Result<InboundResponse, TransportError>> {
        let (sender, receiver) = mpsc::channel();
        let secret = format!("Bearer {SECRET}");
        let is_known = |(name, value): &(String, Vec<u8>)| name == "authorization" && value == secret.as_bytes();
        let word = if request.fields.iter().any(is_known) {
            "yes"
        } else {
            "no"
        };
        let mut body = format!("{} {}: {SECRET}", request.method, request.path_with_query).into_bytes();
        body.extend(request.body);
        let response = InboundResponse {
            status: 200,
            fields: vec![("x-is-known".to_owned(), word.into())],
            body,
        };
        sender.send(Ok(response)).expect("the receiver is here");
        receiver
    }
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
            Policy::new(EffectCause::SkillCall, &request).expect("the effects are known"),
        );
        let surroundings = HostServices {
            transport: Some(Arc::new(Echo)),
            ..HostServices::default()
        };
        Self {
            folder,
            host: SkillHost::with_connections(&[], home(), Limits::default(), surroundings).expect("the engine starts"),
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
        let names: Vec<String> = effects.iter().map(Effect::to_string).collect();
        assert_eq!(names, EFFECTS, "{language}");
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
fn each_replaces_and_moves_what_it_has_read_alike() {
    use std::os::unix::fs::PermissionsExt;
    each(&["write-repository"], &[], |scene| {
        let place = |path: &str| scene.folder.path().join(path);
        let replace = json!({"do": "replace", "path": "docs/hello.md", "text": "other\n", "digest": HELLO});
        assert_eq!(scene.told(&replace), "replaced");
        assert_eq!(
            std::fs::read_to_string(place("docs/hello.md")).ok().as_deref(),
            Some("other\n")
        );
        let mode = std::fs::metadata(place("docs/hello.md"))
            .expect("it is there")
            .permissions()
            .mode();
        assert_ne!(mode & 0o100, 0, "{}", scene.skill);
        let stale = scene.call(&replace).expect_err("it is another one by now");
        holds(&stale.to_string(), &["docs/hello.md"]);

        let digest = sha256_hex("umlaut ä\n".as_bytes());
        let rename = json!({"do": "rename", "path": "src/c.txt", "text": "lib/d.txt", "digest": digest});
        assert_eq!(scene.told(&rename), "moved");
        assert!(!place("src/c.txt").exists() && place("lib/d.txt").exists());
    });
}

#[test]
fn each_reads_the_history_alike() {
    each(&[], &[], |scene| {
        let told = scene.told(&json!({"do": "history", "path": "src/a.txt"}));
        assert_eq!(
            told,
            "Start, added .gitignore, added docs/hello.md, added src/a.txt, added src/b.bin, added src/c.txt, 1+1 yes, 2+1 no"
        );
    });
}

#[test]
fn each_answers_in_parts_alike() {
    each(&[], &[], |scene| {
        let outcome = scene
            .call(&json!({"do": "parts", "path": "src/a.txt"}))
            .expect("it works");
        assert_eq!(outcome.text, "piece ä\nwhole");
        let citation = Citation {
            path: "src/a.txt".to_owned(),
            line: Some(2),
        };
        let diagram = Media {
            media_type: Media::MERMAID.to_owned(),
            alternative: "a graph".to_owned(),
            data: "graph TD; a-->b".to_owned(),
        };
        assert_eq!((outcome.citations, outcome.media), (vec![citation], vec![diagram]));
    });
}

#[test]
fn each_reaches_outside_alike() {
    each(&["http-write:*"], &[], |scene| {
        let url = "https://tickets.example.org/7";
        let got = scene.told(&json!({"do": "request", "path": url}));
        assert_eq!(
            got, "200\nx-is-known: yes\n\nGET /7: [secret:contract_token]",
            "{}",
            scene.skill
        );
        let posted = scene.told(&json!({"do": "request", "path": url, "text": "new ä"}));
        assert_eq!(posted, "200\nx-is-known: yes\n\nPOST /7: [secret:contract_token]new ä");
        let other = json!({"do": "request", "path": "https://other.example.org/"});
        assert_eq!(scene.call(&other).expect_err("it is not granted").verdict(), "denied");

        assert_eq!(scene.told(&json!({"do": "setting", "path": "project"})), "CORE");
        assert_eq!(scene.told(&json!({"do": "setting", "path": "other"})), "nothing");
        let keep = |text: &str| scene.told(&json!({"do": "keep", "path": "seen", "text": text}));
        assert_eq!((keep("1"), keep("2")), ("nothing".to_owned(), "1".to_owned()));
        assert_eq!(scene.told(&json!({"do": "settings"})), "project=CORE");
        assert_eq!(scene.told(&json!({"do": "kept-keys"})), "seen");
    });
}

/// Calls of each kind, 200 of each language: none fails. The test prints both figures: other programs slow the wall
/// clock down.
#[test]
fn two_hundred_warm_calls_of_each_work() {
    let calls = [
        json!({"do": "echo", "text": "ä"}),
        json!({"do": "list", "path": "src"}),
        json!({"do": "parts", "path": "src/a.txt"}),
        json!({"do": "request", "path": "https://tickets.example.org/7"}),
        json!({"do": "keep", "path": "seen", "text": "1"}),
    ];
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    each(&[], &[], |scene| {
        let call = |number: usize| {
            let (start, processor) = (Instant::now(), processor_time());
            scene.told(&calls[number % calls.len()]);
            (start.elapsed(), processor_time() - processor)
        };
        // Each pool of the engine loads the component once.
        for number in 0..20 {
            call(number);
        }
        let (walls, processors) = (0..200).map(call).unzip();
        let (wall, processor) = (median(walls), median(processors));
        say(&format!(
            "a warm call of {}: p50 {wall:.2?}, of a processor {processor:.2?}",
            scene.skill
        ));
    });
}

/// Time that a processor has worked for this thread. A guest runs on the thread that calls it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
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
        wasm: Packed::without_base(pack_component(&wasm, &[]).expect("memory is there").leak()),
        compiled: Packed::without_base(&[]),
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

#[test]
fn each_asks_for_symbols_and_candidates_alike() {
    let user = a_users_home();
    let shop = "class Shop:\n    # Sells.\n    def sell(self, name):\n        return find(name)\n\n\nShop().sell(1)\n";
    let repository = folder(&[("lib/shop.py", shop), ("docs/shop.md", "Call sell.\n")]);
    for language in LANGUAGES {
        let skill = format!("contract_{language}");
        let told = |arguments: Value| {
            let call = ["skill", "call", &skill, &arguments.to_string(), "--quiet"];
            user.run(repository.path(), &call).expect(0).stdout
        };
        let symbols = told(json!({"do": "symbols", "text": "Shop.sell", "path": ""}));
        insta::allow_duplicates! { insta::assert_snapshot!(symbols, @r"
        method Shop.sell lib/shop.py:3 3-4 after nothing: def sell(self, name)
        outline Shop sell
        enclosing sell
        uses self name find name
        text sell docs/shop.md:1 in 
        definition sell lib/shop.py:3 in Shop
        call sell lib/shop.py:7 in 
        more no
        ") };
        let candidates = told(json!({"do": "candidates", "text": "sell", "path": ""}));
        assert_eq!(
            candidates, "docs/shop.md lib/shop.py, narrowed no, more no\n",
            "{language}"
        );
        let narrowed = told(json!({"do": "narrowed", "text": "sell", "path": ""}));
        assert_eq!(
            narrowed, "docs/shop.md after 0, lib/shop.py after 0, then 0\n",
            "{language}"
        );
    }
}
