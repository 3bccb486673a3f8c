//! The templates of the book: text reaches scripts as variables, and strangers get no key.

use super::runner::{read_yaml, source};
use crate::support::holds;

#[test]
fn templates_of_other_systems_keep_text_out_of_the_script() {
    let gitlab = read_yaml("docs/pipelines/gitlab-ci.yml");
    let script = gitlab["tool-review"]["script"].to_string();
    holds(&script, &[r#"tool ci --reports tool-ci -- architect \"$TOOL_TASK\""#]);
    // Buildkite itself would replace a variable with one `$`.
    let buildkite = read_yaml("docs/pipelines/buildkite.yml");
    let commands = buildkite["steps"][0]["commands"].to_string();
    holds(
        &commands,
        &[r#"tool ci --reports tool-ci -- architect \"$$TOOL_TASK\""#],
    );
    let single = regex::Regex::new(r"(^|[^$])\$[A-Za-z{]").expect("a constant");
    assert!(!single.is_match(&commands), "{commands}");
    // Groovy would replace a variable between double quotes.
    let jenkins = std::fs::read_to_string(source("docs/pipelines/Jenkinsfile")).expect("it is there");
    // In the checkout a change could hold a configuration, and a name that others can guess could be theirs.
    for script in [&script, &commands, &jenkins] {
        let homes = script.matches("TOOL_HOME=").count();
        assert_eq!((homes, script.matches("$(mktemp -d)").count()), (1, 1), "{script}");
    }
    holds(
        &jenkins,
        &[
            r#"tool ci --reports tool-ci -- architect "$TOOL_TASK"'"#,
            "env.CHANGE_FORK ? []",
        ],
    );
}

#[test]
fn the_configuration_of_pre_commit_names_a_hook_that_exists() {
    let configuration = read_yaml("docs/pipelines/pre-commit.yml");
    let hooks = read_yaml(".pre-commit-hooks.yaml");
    assert_eq!(configuration["repos"][0]["hooks"][0]["id"], hooks[0]["id"]);
}

#[test]
fn the_workflow_of_the_book_uses_inputs_that_exist_and_gives_forks_nothing() {
    let workflow = read_yaml("docs/pipelines/github.yml");
    assert!(workflow["on"]["pull_request_target"].is_null() && workflow["on"].get("pull_request").is_some());
    assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}));
    let declared = read_yaml("action.yml")["inputs"].clone();
    let pin = regex::Regex::new("@[0-9a-f]{40}$").expect("a constant");
    let steps = workflow["jobs"]["review"]["steps"].as_array().expect("steps");
    for step in steps {
        let uses = step["uses"].as_str().expect("each step is an action");
        assert!(pin.is_match(uses), "`{uses}` is not pinned by commit");
    }
    let own = steps.last().expect("a step");
    for (name, value) in own["with"].as_object().expect("inputs") {
        assert!(!declared[name].is_null(), "`{name}` is no input");
        assert!(!value.to_string().contains("${{"), "{value}");
    }
}
