//! Keys as placeholders, untrusted text, and the rights of a repository's own files. These tests run the real binary
//! and its skills, with scripted models. Here are the keys.

mod approval;
mod asked;
mod narrowing;
mod origins;
mod taint;

use std::path::Path;

use serde_json::{Value, json};
use tool_model_server::{ModelServer, Round, ScriptedCall};

use crate::providers::{LOCAL, scripted, serve};
use crate::support::{Home, folder, git, holds, tree};

/// A token that never existed, put together so that no scanner takes it for one.
fn token() -> String {
    format!("gh{}_{}", 'p', "Zk3qW9xR2mT7vB4nL6cY8dF1gH5jK0sA2eU4")
}

const PASSWORD: &str = "Vq7-tuNNel-0ws";

/// A private key in armour, of letters that mean nothing.
fn private_key() -> String {
    let line = |start: usize| -> String {
        let letters = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let turned = (0..64).map(|at| letters[(at * 7 + start * 13) % 64] as char);
        turned.collect()
    };
    let lines: Vec<String> = (1..=6).map(line).collect();
    format!(
        "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n",
        "PRIVATE KEY",
        lines.join("\n")
    )
}

fn settings_file() -> String {
    format!(
        "\"\"\"Settings.\"\"\"\n\nTOKEN = \"{}\"\nDATABASE = \"postgres://app:{PASSWORD}@db.internal/app\"\nDEBUG = True\n",
        token()
    )
}

fn call(name: &str, arguments: Value) -> Round {
    Round::calls([ScriptedCall::new(name, arguments)])
}

fn read(path: &str) -> Round {
    call("read_file", json!({"path": path}))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(root: &Path) -> String {
    text(&root.join("session-reports/session_latest.md"))
}

/// Returns one request to the model.
fn sent(server: &ModelServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

/// The last result of a tool that the model was sent, as it stands in the conversation.
fn last_result(server: &ModelServer) -> String {
    let requests = server.requests();
    let messages = requests.last().expect("a request").body["messages"].as_array().cloned();
    let messages = messages.expect("messages");
    let result = messages.iter().rfind(|message| message["role"] == "tool");
    result.expect("a result")["content"].as_str().expect("text").to_owned()
}

/// Fails where any of the secrets stands in anything that was sent.
#[track_caller]
fn nothing_left(server: &ModelServer, secrets: &[&str]) {
    for request in server.requests() {
        let body = request.body.to_string();
        for secret in secrets {
            assert!(!body.contains(secret), "{secret} left in\n{body}");
        }
    }
}

#[test]
fn keys_leave_as_placeholders_and_come_back_where_they_were() {
    let settings = settings_file();
    let repository = folder(&[
        ("settings.py", &settings),
        ("app.py", "import settings\n"),
        ("README.md", "# A\n"),
    ]);
    let root = repository.path();
    let (server, home) = scripted([
        Round::calls([
            ScriptedCall::new("read_file", json!({"path": "settings.py"})),
            ScriptedCall::new("search_code", json!({"pattern": "TOKEN|DATABASE"})),
            ScriptedCall::new("read_file", json!({"path": "app.py"})),
        ]),
        // A placeholder in the old text of an edit, and in the new one.
        call(
            "write_file",
            json!({"path": "settings.py", "edits": [
                {"old": "TOKEN = \"[redacted:github-token:1]\"", "new": "API_TOKEN = \"[redacted:github-token:1]\""}
            ]}),
        ),
        read("settings.py"),
        // And in a whole file.
        call(
            "write_file",
            json!({"path": "settings.py", "content": "API_TOKEN = \"[redacted:github-token:1]\"\nDATABASE = \
                \"postgres://app:[redacted:url-password:2]@db.internal/app\"\n"}),
        ),
        // Elsewhere it stands for nothing.
        call(
            "write_file",
            json!({"path": "app.py", "content": "token = \"[redacted:github-token:1]\"\n"}),
        ),
        call(
            "write_file",
            json!({"path": "new.py", "content": "x = \"[redacted:url-password:9]\"\n"}),
        ),
        Round::text("Renamed the token; it is [redacted:github-token:1]."),
    ]);
    let before = tree(root);
    let finished = home
        .run(root, &["refactor", "settings", "--deny", "run-process"])
        .expect(1);
    nothing_left(&server, &[&token(), PASSWORD]);
    assert!(
        sent(&server, 0).contains("[redacted:github-token:1]"),
        "{}",
        sent(&server, 0)
    );
    let expected = format!(
        "API_TOKEN = \"{}\"\nDATABASE = \"postgres://app:{PASSWORD}@db.internal/app\"\n",
        token()
    );
    assert_eq!(text(&root.join("settings.py")), expected);
    assert_eq!(text(&root.join("app.py")), "import settings\n");
    assert!(!root.join("new.py").exists());
    holds(
        &sent(&server, server.requests().len() - 1),
        &[
            "`app.py` cannot get `[redacted:github-token:1]`: it stands for a secret that this file does not hold",
            "`new.py` cannot get `[redacted:url-password:9]`",
            "only into the file that it was read from",
        ],
    );
    // The user reads of it once, and every text that leaves holds placeholders.
    let notice = "2 strings that look like keys were replaced by placeholders in what went to the model (1 github-token, \
                  1 url-password), in `settings.py`.";
    assert_eq!(finished.stderr.matches(notice).count(), 1, "{}", finished.stderr);
    for passed_on in [
        &finished.stdout,
        &finished.stderr,
        &report(root),
        &text(&home.path().join("backend.log")),
    ] {
        assert!(
            !passed_on.contains(&token()) && !passed_on.contains(PASSWORD),
            "{passed_on}"
        );
    }
    holds(
        &report(root),
        &[notice, "Strings that look like keys are replaced in this report"],
    );
    holds(&finished.stdout, &["+API_TOKEN = \"[redacted:github-token:1]\"\n"]);
    // A user who asks on the terminal gets the text as it is, and the way back is complete.
    holds(
        &home.run(root, &["diff"]).expect(0).stdout,
        &[&format!("+API_TOKEN = \"{}\"\n", token())],
    );
    home.run(root, &["undo"]).expect(0);
    assert_eq!(
        crate::support::differences(root, &before),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn a_private_key_that_is_read_in_pages_leaves_no_line() {
    let key = private_key();
    let source = format!("KEY = \"\"\"\n{key}\"\"\"\n\n\ndef sign():\n    return KEY\n");
    let repository = folder(&[
        ("sign.py", &source),
        ("README.md", "# A\n"),
        ("main.py", "import sign\n"),
    ]);
    let (server, home) = scripted([
        call("read_file", json!({"path": "sign.py", "start_line": 4, "end_line": 5})),
        call("search_code", json!({"pattern": "BEGIN", "context_lines": 3})),
        Round::text("It signs."),
    ]);
    home.run(repository.path(), &["explain", "sign.py"]).expect(0);
    let lines: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
    nothing_left(&server, &lines);
    assert!(
        sent(&server, 1).contains("[redacted:private-key:"),
        "{}",
        sent(&server, 1)
    );
}

#[test]
fn no_skill_answers_a_question_about_a_key() {
    let settings = settings_file();
    let line = |text: &str| format!("2024-05-01 12:00:00 INFO {text}\n");
    let log = line("started") + &line(&format!("token {}", token())) + &line("ready");
    // Too large for a copy with placeholders: keys in it are covered.
    let large = line("nothing of interest").repeat(180_000) + &log;
    let repository = folder(&[
        ("settings.py", &settings),
        ("README.md", "# A\n"),
        (".gitignore", "local/\n"),
        ("local/settings.ini", &settings),
        ("app.log", &log),
        ("large.log", &large),
    ]);
    let search = |path: &str, guess: &str| call("search_code", json!({"pattern": guess, "path": path}));
    let log_of = |path: &str, guess: &str| call("read_logs", json!({"path": path, "pattern": guess}));
    let ask = |guess: &str| {
        [
            search("", guess),
            search("settings.py", guess),
            search("local/settings.ini", guess),
            log_of("app.log", guess),
            log_of("large.log", guess),
            call("find_references", json!({"symbol": guess})),
            call(
                "write_file",
                json!({"path": "settings.py", "edits": [{"old": guess, "new": guess}]}),
            ),
        ]
    };
    // One of each pair is the beginning of a key.
    let pairs = [
        (token()[..6].to_owned(), "ghp_00"),
        (format!("app:{}", &PASSWORD[..2]), "app:00"),
    ];
    let mut rounds = vec![read("settings.py")];
    for (right, wrong) in &pairs {
        rounds.extend(
            ask(right)
                .into_iter()
                .zip(ask(wrong))
                .flat_map(|(one, other)| [one, other]),
        );
    }
    rounds.push(Round::text("Nothing."));
    let server = serve(rounds);
    let home = Home::configured(&LOCAL.config(&server, ""));
    home.run(
        repository.path(),
        &["refactor", "settings.py", "--max-steps", "40", "--deny", "run-process"],
    );
    nothing_left(&server, &[&token(), PASSWORD]);
    let answer = |request: usize| {
        let body = &server.requests()[request].body;
        let last = body["messages"].as_array().and_then(|messages| messages.last());
        last.expect("there are messages")["content"].to_string()
    };
    let asked = ask("").len();
    for (pair, (right, wrong)) in pairs.iter().enumerate() {
        for at in 0..asked {
            let request = 2 + 2 * (pair * asked + at);
            let [one, other] = [
                answer(request).replace(right, "GUESS"),
                answer(request + 1).replace(wrong, "GUESS"),
            ];
            assert_eq!(one, other, "question {at} about `{right}`");
        }
    }
    assert_eq!(text(&repository.path().join("settings.py")), settings);
}

#[test]
fn the_users_request_notes_and_the_change_that_git_shows_are_cleaned_too() {
    let repository = folder(&[("README.md", "# A\n"), ("main.py", "x = 1\n")]);
    let root = repository.path();
    git(root, &["init", "--quiet"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "-m", "one"]);
    std::fs::write(root.join("main.py"), settings_file()).expect("it is ours");
    let vault = folder(&[(
        "main.md",
        &format!("# main\n\nThe password of `main` is at postgres://a:{PASSWORD}@h/d\n"),
    )]);
    let server = serve([call("git_diff", json!({})), Round::text("Done (main.py:1).")]);
    let config = LOCAL.config(&server, "") + &format!("[context]\nvault = \"{}\"\n", vault.path().display());
    let home = Home::configured(&config);
    let task = format!("why is main using {}", token());
    home.run(root, &["architect", &task]).expect(0);
    nothing_left(&server, &[&token(), PASSWORD]);
    holds(
        &sent(&server, 0),
        &["why is main using [redacted:github-token:", "[redacted:url-password:"],
    );
    holds(
        &last_result(&server),
        &["+TOKEN = \\\"[redacted:github-token:".replace("\\\"", "\"").as_str()],
    );
    assert!(!report(root).contains(&token()));
}

#[test]
fn rules_are_switched_off_in_the_users_configuration_only() {
    let repository = folder(&[("settings.py", &settings_file()), ("README.md", "# A\n")]);
    let server = serve([Round::text("Done."), Round::text("Done.")]);
    let with =
        |names: &str| Home::configured(&(LOCAL.config(&server, "") + &format!("[policy]\nunredacted = {names}\n")));
    with("[\"github-token\"]")
        .run(repository.path(), &["explain", "."])
        .expect(0);
    let first = sent(&server, 0);
    assert!(first.contains(&token()) && !first.contains(PASSWORD), "{first}");
    assert!(!report(repository.path()).contains(&token()), "a report is passed on");
    with("[\"all\"]").run(repository.path(), &["explain", "."]).expect(0);
    assert!(sent(&server, 1).contains(PASSWORD));
    let wrong = with("[\"githubtoken\"]")
        .run(repository.path(), &["explain", "."])
        .expect(2);
    holds(
        &wrong.stderr,
        &[
            "[error] `githubtoken` in `[policy] unredacted` is no rule\n",
            "did you mean `github-token`?",
        ],
    );
}

#[test]
fn a_selection_shows_which_files_hold_keys() {
    let repository = folder(&[("settings.py", &settings_file()), ("README.md", "# A\n")]);
    let home = Home::offline();
    let shown = home.run(repository.path(), &["context", "explain"]).expect(0);
    holds(
        &shown.stdout,
        &[
            "settings.py\n",
            "  2 strings that look like a key: the model gets placeholders\n",
        ],
    );
    let json = home
        .run(repository.path(), &["context", "explain", "--json"])
        .expect(0)
        .stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let files = json["selected_files"].as_array().expect("files");
    let redacted: Vec<(&str, &Value)> = files
        .iter()
        .map(|file| (file["path"].as_str().expect("a path"), &file["redacted"]))
        .collect();
    assert!(
        redacted.contains(&("settings.py", &json!(2))) && redacted.contains(&("README.md", &Value::Null)),
        "{json}"
    );
    assert!(!json["context"].as_str().expect("text").contains(PASSWORD));
}
