//! Text that tries to give commands: titles, branch names, names of files, and everything that a model says. To the shell of
//! a step, to the runner that reads its log, and to the reader of a summary.

use serde_json::{Value, json};
use tool_model_server::{ModelServer, Round, Script, ScriptedCall};

use super::runner::{Runner, commands_in};
use super::scripted;
use crate::support::{fixture_path, folder};

/// A title of a change, as a stranger may choose it. `PWNED` is a file that no step may make.
const TITLE: &str = "x\"; touch PWNED; `touch PWNED` $(touch PWNED) ${{ secrets.KEY }} ' ; touch PWNED #\n::add-mask::a\n\
                     ::set-output name=status::stolen\r::error::b\n##[group]c ##vso[task.setvariable]d";

/// An answer with commands in every place: lines, titles, texts, after carriage returns and invisible signs.
const ANSWER: &str = "::stop-commands::token\n  ::error file=main.py::evil\r::warning::evil\n\u{feff}::debug::evil\n\
    \u{a0}::notice::evil\n##[error]evil ##[section]x\n![beacon](https://a.example/?key=1) <img src=https://a.example>\n\n\
    ## 1. ::add-mask::main, line=9::evil\n\nevil\n::error::main.py:1 %0A::error::evil [link](https://a.example) {0}\n\n\
    ## 2. ##[error]\n\n- main.py:2 ::set-env name=PATH::/tmp\n";

fn hostile_repository() -> tempfile::TempDir {
    folder(&[
        ("README.md", "# Shop\n\n::error::readme\n"),
        ("main.py", "def main():\n    return 1\n"),
        ("::error::name.py", "A = 1\n"),
        ("src/a\n::warning::line.py", "B = 1\n"),
        ("$(touch PWNED).py", "C = 1\n"),
        ("##[error]d.py", "D = 1\n"),
    ])
}

fn hostile_calls() -> Round {
    let paths = [
        "x\n::error::call",
        "##[error]call",
        "\r::warning::call",
        "src/a\n::warning::line.py",
    ];
    Round::calls(paths.map(|path| ScriptedCall::new("read_file", json!({"path": path}))))
}

/// The commands that the log may hold: annotations of our own, each on one line with its text escaped.
fn assert_only_annotations(log: &str, count: usize) {
    let commands = commands_in(log);
    let form = regex::Regex::new(r"^::(warning file=main\.py,line=\d,endLine=\d,|error )title=[^:,]*::[^\n\r]*$")
        .expect("a constant");
    for command in &commands {
        assert!(
            form.is_match(command) && !command.contains("##["),
            "{command:?} in\n{log}"
        );
    }
    assert_eq!(commands.len(), count, "{commands:#?}");
}

#[test]
fn hostile_text_gives_no_command_to_the_shell_and_none_to_the_runner() {
    let server = ModelServer::start(Script::new([hostile_calls(), Round::text(ANSWER)])).expect("a free port");
    let workspace = hostile_repository();
    let mut runner = Runner::new(workspace.path());
    runner.configure(&scripted(&server));
    for name in ["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "GITHUB_ACTOR"] {
        runner.variables.insert(name.to_owned(), TITLE.to_owned());
    }
    let code = runner.run_action(&[
        ("operation", "architect"),
        ("task", TITLE),
        ("focus", TITLE),
        ("upload-sarif", "true"),
    ]);
    assert_eq!(code, 0, "{}", runner.log);
    assert_only_annotations(&runner.log, 2);
    for place in [workspace.path(), runner.temp()] {
        assert!(!place.join("PWNED").exists());
    }
    assert_eq!(
        (runner.told("env"), runner.told("path")),
        (String::new(), String::new())
    );
    let outputs = super::runner::outputs_of(&runner.told("output"));
    let names: Vec<&str> = outputs.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["changed-files", "findings", "sarif", "session", "status", "summary"]
    );
    assert_eq!(outputs["status"], "complete");
    let summary = runner.told("summary");
    assert_eq!(commands_in(&summary), Vec::<&str>::new());
    assert!(!summary.contains("![") && !summary.contains("<img"), "{summary}");
    // The model has read the whole title as text.
    let sent = server.requests();
    let prompt = sent.iter().find(|request| request.method == "POST").expect("a prompt");
    assert!(prompt.body.to_string().contains("touch PWNED"), "{}", prompt.body);
}

#[test]
fn hostile_inputs_are_values_and_no_flags() {
    let server = ModelServer::start(Script::new([Round::text(ANSWER)])).expect("a free port");
    for (name, value) in [
        ("operation", "--help"),
        ("operation", TITLE),
        ("vendor", TITLE),
        ("max-cost", TITLE),
        ("timeout", "1 --unsandboxed"),
        ("directory", TITLE),
        ("allow", "run-process\n--unsandboxed\n::error::x"),
        ("model", "--unsandboxed"),
    ] {
        let workspace = hostile_repository();
        let mut runner = Runner::new(workspace.path());
        // A vendor counts only where there is no configuration.
        if name != "vendor" {
            runner.configure(&scripted(&server));
        }
        let code = runner.run_action(&[(name, value)]);
        let expected = if name == "model" { [0, 1] } else { [2, 2] };
        assert!(expected.contains(&code), "{name}={value}: {code}\n{}", runner.log);
        if name != "model" {
            assert_only_annotations(&runner.log, 0);
        }
        for place in [workspace.path(), runner.temp()] {
            assert!(!place.join("PWNED").exists(), "{name}");
        }
    }
}

#[test]
fn the_words_of_a_provider_that_fails_give_no_command() {
    let body = json!({"error": {"message": "no\n::set-env name=A::b\r::error::c ##[error]d", "code": 400}});
    let server = ModelServer::start(Script::new([Round::status(400, body)])).expect("a free port");
    let workspace = hostile_repository();
    let mut runner = Runner::new(workspace.path());
    runner.configure(&scripted(&server));
    assert_eq!(runner.run_action(&[]), 1, "{}", runner.log);
    let commands = commands_in(&runner.log);
    assert!(
        commands
            .iter()
            .all(|command| command.starts_with("::error title=tool explain::")),
        "{commands:?}"
    );
    assert_eq!(commands_in(&runner.told("summary")), Vec::<&str>::new());
}

#[test]
fn links_of_a_change_move_no_report_out_of_the_repository() {
    let server = ModelServer::start(Script::new([Round::text("# Shop\n\nmain.py:1\n")])).expect("a free port");
    let (workspace, outside) = (hostile_repository(), folder(&[("victim", "as it was")]));
    let home = crate::support::Home::configured(&scripted(&server));
    std::os::unix::fs::symlink(outside.path(), workspace.path().join("tool-ci")).expect("it can be linked");
    let refused = home.run(workspace.path(), &["ci", "explain"]).expect(1);
    assert!(
        refused.stderr.contains("must be a folder, and no link"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_dir(outside.path()).expect("it is there").count(), 1);
    assert!(server.requests().is_empty(), "no model is paid for what cannot be kept");
}

#[test]
fn a_change_cannot_configure_the_job() {
    let server = ModelServer::start(Script::new([Round::text("# Shop\n")])).expect("a free port");
    let workspace = folder(&[("README.md", "# Shop\n"), ("home/config.toml", &scripted(&server))]);
    let home = crate::support::Home::offline();
    for place in ["home", "not/there", "."] {
        let mut command = home.tool(workspace.path(), &["ci", "explain"]);
        command.env("TOOL_HOME", workspace.path().join(place));
        let refused = crate::support::finish(command.output().expect("the binary runs")).expect(1);
        assert!(
            refused.stderr.contains("whose change could configure it"),
            "{}",
            refused.stderr
        );
    }
    assert!(server.requests().is_empty(), "a server of the change got a request");
}

/// SARIF of hostile findings is valid, and its texts hold no link and no placeholder.
#[test]
fn sarif_of_hostile_findings_is_valid() {
    let server = ModelServer::start(Script::new([Round::text(ANSWER)])).expect("a free port");
    let workspace = hostile_repository();
    let mut runner = Runner::new(workspace.path());
    runner.configure(&scripted(&server));
    runner.run_action(&[("operation", "architect"), ("task", "look")]);
    let sarif: Value = serde_json::from_str(&runner.report("findings.sarif")).expect("it is JSON");
    check_sarif(&sarif);
    let text = sarif["runs"][0]["results"][0]["message"]["text"]
        .as_str()
        .expect("a text");
    assert!(text.contains(r"\[link\](https://a.example) {{0}}"), "{text}");
    assert_eq!(sarif["runs"][0]["results"].as_array().map(Vec::len), Some(2));
}

/// Compares a log with the official schema.
pub(super) fn check_sarif(sarif: &Value) {
    let place = fixture_path("sarif/sarif-2.1.0.json");
    // One pattern has a stray bracket, which ECMAScript takes for itself, and which other engines refuse.
    let text = std::fs::read_to_string(place).expect("it is readable");
    let schema: Value = serde_json::from_str(&text.replace("]?$\"", r#"\\]?$""#)).expect("it is JSON");
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let errors: Vec<String> = validator
        .iter_errors(sarif)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    let mut wrong = sarif.clone();
    wrong["runs"][0]["tool"]["driver"]["name"] = 7.into();
    assert!(!validator.is_valid(&wrong), "the schema tells right from wrong");
}
