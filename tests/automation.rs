//! The book's examples of automation: that they are what is tested here, and that their commands run without a
//! terminal.

use std::path::Path;
use std::process::{Command, Stdio};

use tool_model_server::{ModelServer, Round, Script};

use crate::documents::read_page;
use crate::support::{Finished, Home, finish, folder};

const ACTIONS: &str = include_str!("fixtures/automation/github-actions.yml");
const PRE_COMMIT: &str = include_str!("fixtures/automation/pre-commit-config.yaml");

/// An answer of a model that fits every operation here.
const ANSWER: &str = "## Proposal\n\n`main.py:1` does too little.\n";

/// Runs a step as a runner does: bash, its options, no terminal, and just these variables.
fn step(home: &Home, directory: &Path, line: &str, variables: &[(&str, &str)]) -> Finished {
    let tool = home.tool(directory, &[]);
    let binaries = Path::new(env!("CARGO_BIN_EXE_tool"))
        .parent()
        .expect("it lies in a folder");
    #[expect(clippy::disallowed_methods, reason = "a runner gives a step to a shell")]
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", line])
        .current_dir(directory)
        .env_clear()
        .stdin(Stdio::null());
    for (name, value) in tool.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    #[expect(clippy::disallowed_methods, reason = "bash finds its programs by it")]
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs(variables.iter().copied());
    finish(command.output().expect("there is bash"))
}

/// The values of a key, of the one line each that our examples give them.
fn values<'t>(yaml: &'t str, key: &str) -> Vec<&'t str> {
    let prefix = format!("{key}: ");
    let lines = yaml.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(&prefix)).collect()
}

/// As much of YAML as the examples use, and every mistake that is easily made in it.
fn check_yaml(yaml: &str) {
    let mut depth = vec![0];
    let mut scalar: Option<usize> = None;
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start().len();
        assert!(!line.contains('\t') && line.trim_end() == line, "{line:?}");
        if line.trim().is_empty() || scalar.is_some_and(|outer| indent > outer) {
            continue;
        }
        scalar = None;
        let content = line.trim_start();
        if content.starts_with('#') {
            continue;
        }
        while depth.last().is_some_and(|&last| last > indent) {
            depth.pop();
        }
        assert_eq!(depth.last(), Some(&indent), "indentation of {line:?}");
        // The text behind a dash lies two columns deeper.
        let (content, indent) = match content.strip_prefix("- ") {
            Some(inner) => (inner, indent + 2),
            None => (content, indent),
        };
        if depth.last() != Some(&indent) {
            depth.push(indent);
        }
        let Some((key, value)) = content.split_once(':') else {
            continue;
        };
        assert!(
            key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
            "{line:?}"
        );
        match value.trim() {
            "" => depth.push(indent + 2),
            "|" => scalar = Some(indent),
            value => assert!(!value.contains(": ") && !value.contains(" #"), "{line:?} needs quotes"),
        }
    }
}

#[test]
fn the_book_shows_what_is_tested() {
    for example in [ACTIONS, PRE_COMMIT] {
        check_yaml(example);
        assert!(
            read_page("ci.md").contains(&format!("```yaml\n{example}```\n")),
            "the book lacks this example, or has another version of it:\n{example}"
        );
    }
}

#[test]
fn the_steps_of_the_github_job_run_without_a_terminal() {
    let server = ModelServer::start(Script::new([Round::text("# Crates\n\nSee main.py:1.\n")])).expect("a free port");
    let home = Home::configured(&format!("[providers.hosted]\nurl = \"{}\"\n", server.root()));
    let checkout = folder(&[("README.md", "# Crates\n"), ("main.py", "def main():\n    pass\n")]);
    let secrets = [
        ("HOSTED_API_KEY", "k-0123456789"),
        ("HOSTED_MODEL", "scripted"),
        ("CI", "true"),
    ];
    let steps = values(ACTIONS, "run");
    assert_eq!(steps.len(), 5, "{steps:?}");
    for line in steps {
        let finished = step(&home, checkout.path(), line, &secrets).expect(0);
        assert!(!format!("{finished:?}").contains("k-0123456789"), "{finished:?}");
    }
    let overview = std::fs::read_to_string(checkout.path().join("ARCHITECTURE.md")).expect("the artifact is there");
    assert!(overview.starts_with("# Crates\n\nSee main.py:1."), "{overview}");
    let reports = std::fs::read_dir(checkout.path().join("session-reports")).expect("the artifact is there");
    let names: Vec<String> = reports
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("session_20")), "{names:?}");
    assert!(names.iter().any(|name| name == "session_latest.md"), "{names:?}");
    let sent = server.requests();
    assert!(
        sent.iter().any(|request| request.path.ends_with("/v1/messages")),
        "{sent:?}"
    );
    assert!(
        !home.path().join("backend.json").exists(),
        "the last step stops the backend"
    );
}

#[test]
fn the_pre_commit_hook_sends_the_staged_change() {
    let server = ModelServer::start(Script::new(vec![Round::text(ANSWER); 3])).expect("a free port");
    let home = Home::configured(&format!(
        "[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"{}\"\n",
        server.url()
    ));
    let checkout = folder(&[("README.md", "# Crates\n"), ("main.py", "def main():\n    pass\n")]);
    step(&home, checkout.path(), "git init --quiet && git add .", &[]).expect(0);
    let entries = values(PRE_COMMIT, "entry");
    assert_eq!(entries.len(), 1, "{entries:?}");
    let finished = step(&home, checkout.path(), entries[0], &[]).expect(0);
    assert!(finished.stdout.contains("`main.py:1` does too little."), "{finished:?}");
    let sent = server.requests();
    let prompt = sent.iter().find(|request| request.method == "POST").expect("a prompt");
    let prompt = prompt.body.to_string();
    assert!(
        prompt.contains("Review this change.\\ndiff --git a/README.md b/README.md"),
        "{prompt}"
    );
}
