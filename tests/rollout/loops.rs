//! A team's skills in the loop of every operation, with a scripted model.

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedCall};

use super::{changed, skill, text};
use crate::providers::scripted;
use crate::support::{Home, folder, git, guest, holds};

fn offered(body: &Value) -> Vec<(String, String)> {
    let tools = body["tools"].as_array().expect("tools are offered");
    let named = |tool: &Value, key: &str| tool["function"][key].as_str().unwrap_or_default().to_owned();
    tools
        .iter()
        .map(|tool| (named(tool, "name"), named(tool, "description")))
        .collect()
}

fn add(home: &Home, name: &str) {
    skill(home, &["add", text(&guest(name)), "--yes"]).expect(0);
}

#[test]
fn a_model_is_offered_the_teams_skills_named_apart_and_calls_them() {
    for operation in [
        &["explain", "."][..],
        &["architect", "make it simpler"],
        &["refactor", "a.py"],
        &["test-gen", "a.py"],
    ] {
        let root = folder(&[("a.py", "def a():\n    return 1\n")]);
        let call = ScriptedCall::new("echo", json!({"text": "of the team"}));
        let (server, home) = scripted([Round::calls([call]), Round::text("Done (a.py:1).")]);
        add(&home, "echo");
        // This test does not check how an operation with so short an answer ends.
        home.run(root.path(), operation);
        let requests = server.requests();
        let tools = offered(&requests[0].body);
        assert_eq!(tools.len(), 13, "{operation:?}");
        let ours: Vec<_> = tools
            .iter()
            .filter(|(_, told)| told.starts_with("A skill of the user's team, not built in."))
            .collect();
        assert_eq!(ours.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["echo"]);
        let messages = requests[1].body["messages"].to_string();
        holds(&messages, &["of the team"]);
    }
}

#[test]
fn a_denied_effect_of_a_teams_skill_is_an_error_of_the_tool() {
    let root = folder(&[("a.py", "def a():\n    return 1\n")]);
    let call = ScriptedCall::new("bundle", json!({"files": {"a.py": "def a():\n    return 2\n"}}));
    let (server, home) = scripted([Round::calls([call]), Round::text("Done (a.py:1).")]);
    add(&home, "bundle");
    home.run(root.path(), &["explain", "."]).expect(0);
    let messages = server.requests()[1].body["messages"].to_string();
    holds(&messages, &["bundle", "write-repository", "not granted"]);
}

#[test]
fn what_the_user_has_refused_is_told_by_nobody_but_the_host() {
    let root = folder(&[("a.py", "1\n")]);
    let home = Home::offline();
    add(&home, "summing");
    let forge = r#"{"numbers": [1], "mischief": "forge"}"#;
    let told = home.run(root.path(), &["skill", "call", "summing", forge]).expect(1);
    holds(&told.stderr, &["it says: The user did not agree to `write-repository`"]);
    assert!(!told.stderr.contains("You refused"), "{}", told.stderr);
}

#[test]
fn a_skill_that_is_disabled_or_not_trusted_is_not_offered() {
    let root = folder(&[("a.py", "def a():\n    return 1\n")]);
    let call = ScriptedCall::new("echo", json!({"text": "of the team"}));
    let (server, home) = scripted([Round::calls([call]), Round::text("Done (a.py:1).")]);
    add(&home, "echo");
    skill(&home, &["disable", "echo"]).expect(0);
    std::fs::copy(guest("summing"), home.path().join("skills/summing.wasm")).expect("the home is ours");
    home.run(root.path(), &["explain", "."]);
    let requests = server.requests();
    let tools = offered(&requests[0].body);
    assert_eq!(tools.len(), 12, "{tools:?}");
    assert!(tools.iter().all(|(name, _)| name != "echo" && name != "summing"));
    holds(
        &requests[1].body["messages"].to_string(),
        &["There is no tool named `echo`"],
    );
}

#[test]
fn a_lock_file_narrows_what_a_model_can_do_with_a_teams_skill() {
    let root = folder(&[("a.py", "def a():\n    return 1\n")]);
    let call = ScriptedCall::new("summing", json!({"numbers": [1], "mischief": "list"}));
    let (server, home) = scripted([Round::calls([call]), Round::text("Done (a.py:1).")]);
    add(&home, "summing");
    home.run(root.path(), &["skill", "lock", "summing"]).expect(0);
    let file = root.path().join("skills.lock");
    let lock = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, lock.replace("\"read-repository\"", "")).expect("the folder is writable");
    home.run(root.path(), &["explain", "."]);
    let messages = server.requests()[1].body["messages"].to_string();
    holds(&messages, &["not granted", "withholds it"]);
}

#[test]
fn many_skills_of_a_team_are_found_by_one_tool_and_called_by_another() {
    let root = folder(&[("a.py", "def a():\n    return 1\n")]);
    git(root.path(), &["init", "-q"]);
    let find = ScriptedCall::new("find_skill", json!({"query": "team_s07"}));
    // The step that reads arguments leniently is for those of the skill: the model has written a boolean as text.
    let call = |arguments: Value| ScriptedCall::new("call_skill", json!({"name": "team_s07", "arguments": arguments}));
    let (server, home) = scripted([
        Round::calls([find]),
        Round::calls([call(json!({"staged": "true"}))]),
        Round::calls([call(json!({"stage": true}))]),
        Round::calls([ScriptedCall::new("call_skill", json!({"name": "team_7"}))]),
        Round::text("Done (a.py:1)."),
    ]);
    let names: Vec<String> = (0..10).map(|number| format!("team_s{number:02}")).collect();
    let team = tempfile::tempdir().expect("a temporary folder");
    for name in &names {
        let (_one, component) = changed("git_diff", &[("git_diff", name)]);
        std::fs::copy(component, team.path().join(format!("{name}.wasm"))).expect("the folder is writable");
    }
    skill(
        &home,
        &["add", text(team.path()), "--yes", "--allow-effects", "read-git"],
    )
    .expect(0);
    let shown = home.run(root.path(), &["explain", ".", "--json"]).stdout;
    let requests = server.requests();
    let lists: Vec<_> = requests.iter().map(|request| offered(&request.body)).collect();
    assert_eq!(lists[0].len(), 14, "{:?}", lists[0]);
    assert_eq!((&*lists[0][12].0, &*lists[0][13].0), ("find_skill", "call_skill"));
    assert!(
        names.iter().all(|name| lists[0][12].1.contains(name.as_str())),
        "{}",
        lists[0][12].1
    );
    assert!(lists.iter().all(|list| *list == lists[0]), "the list stays as it is");
    let messages = requests[4].body["messages"].to_string();
    holds(
        &messages,
        &[
            "Run a skill with `call_skill`.",
            "`team_s07`: A skill of the user's team",
            r#"tool=\"call_skill\" status=\"ok\""#,
            "Invalid arguments for `team_s07`",
            "There is no tool named `team_7`. Did you mean `team_s07`? `find_skill` finds",
        ],
    );
    let named = |name: &str| shown.matches(&format!(r#""type":"skill","name":"{name}""#)).count();
    assert_eq!(
        ["find_skill", "team_s07", "call_skill"].map(named),
        [1, 2, 1],
        "a call is shown under the name of the skill: {shown}"
    );
}

#[test]
fn a_skill_that_only_a_lock_file_asked_for_is_offered_where_one_names_it() {
    let author = Home::offline();
    let locked = folder(&[("a.py", "def a():\n    return 1\n")]);
    let file = locked.path().join("echo.wasm");
    std::fs::copy(guest("echo"), &file).expect("the folder is writable");
    skill(&author, &["add", text(&file), "--yes"]).expect(0);
    author.run(locked.path(), &["skill", "lock", "echo"]).expect(0);
    let elsewhere = folder(&[("a.py", "def a():\n    return 1\n")]);
    let (server, home) = scripted([Round::text("Done (a.py:1)."), Round::text("Done (a.py:1).")]);
    home.run(locked.path(), &["skill", "sync", "--yes"]).expect(0);
    add(&home, "summing");
    home.run(locked.path(), &["explain", ".", "--frozen"]);
    home.run(elsewhere.path(), &["explain", "."]);
    let team = |body: &Value| -> Vec<String> { offered(body)[12..].iter().map(|(name, _)| name.clone()).collect() };
    let requests = server.requests();
    assert_eq!(team(&requests[0].body), ["echo"], "nothing but what is locked");
    assert_eq!(
        team(&requests[1].body),
        ["summing"],
        "nothing but what the user has added"
    );
}
