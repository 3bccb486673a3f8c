//! The reports of `tool ci` in other systems than GitHub.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tool_model_server::{ModelServer, Round, Script, ServerStep};

use super::attacks::check_sarif;
use super::scripted;
use crate::conformance::world::SHOP;
use crate::support::{Home, finish, folder, holds, until};

const ANSWER: &str =
    "## 1. Move the rate\n\nIt is in shop/prices.py:1 and shop/cart.py:4.\n\n## 2. Guess\n\nnone.py:3\n";

/// Runs `tool ci` with the variables of a system.
fn run_ci(
    home: &Home,
    root: &std::path::Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> crate::support::Finished {
    let mut command = home.tool(root, arguments);
    command.envs(variables.iter().copied());
    finish(command.output().expect("the binary runs"))
}

#[test]
fn gitlab_gets_a_code_quality_report_and_sarif_is_valid() {
    let rounds = vec![Round::text(ANSWER); 4];
    let server = ModelServer::start(Script::new(rounds)).expect("a free port");
    let home = Home::configured(&scripted(&server));
    let project = folder(&[("README.md", "# All\n")]);
    for (path, content) in SHOP {
        let place = project.path().join("service").join(path);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("the folder is writable");
        std::fs::write(place, content).expect("the folder is writable");
    }
    let workspace = project.path().display().to_string();
    let variables = [("GITLAB_CI", "true"), ("CI_PROJECT_DIR", workspace.as_str())];
    let arguments = ["ci", "architect", "smaller", "--repo", "service"];
    let finished = run_ci(&home, project.path(), &variables, &arguments).expect(0);
    assert!(!finished.stdout.contains("::warning"), "{}", finished.stdout);
    let read = |name: &str| -> Value {
        let text = std::fs::read(project.path().join("service/tool-ci").join(name)).expect("it is there");
        serde_json::from_slice(&text).expect("it is JSON")
    };
    let quality = read("code-quality.json");
    let [entry] = quality.as_array().expect("a list").as_slice() else {
        panic!("{quality}");
    };
    assert_eq!(entry["location"]["path"], "service/shop/prices.py");
    assert_eq!(entry["location"]["lines"]["begin"], 1);
    assert_eq!(
        (&entry["severity"], &entry["check_name"]),
        (&"minor".into(), &"architecture/proposal".into())
    );
    assert_eq!(entry["fingerprint"].as_str().map(str::len), Some(64));
    let sarif = read("findings.sarif");
    check_sarif(&sarif);
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(
        result["locations"][0]["physicalLocation"]["artifactLocation"],
        serde_json::json!({"uri": "shop/prices.py", "uriBaseId": "%SRCROOT%"})
    );
    assert_eq!(result["relatedLocations"].as_array().map(Vec::len), Some(1));
    assert_eq!(read("result.json")["status"], "complete");
}

#[test]
fn the_analyst_measures_and_has_no_findings() {
    let (home, repository) = (Home::empty(), folder(SHOP));
    let finished = run_ci(
        &home,
        repository.path(),
        &[],
        &["ci", "architect", "split shop/prices.py"],
    )
    .expect(0);
    holds(&finished.stdout, &["## `shop/prices.py`"]);
    let text = std::fs::read(repository.path().join("tool-ci/findings.sarif")).expect("it is there");
    let sarif: Value = serde_json::from_slice(&text).expect("it is JSON");
    assert_eq!(sarif["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn a_job_without_configuration_takes_it_from_the_environment() {
    let home = Home::empty();
    let repository = folder(SHOP);
    let finished = run_ci(&home, repository.path(), &[], &["ci", "explain"]).expect(0);
    holds(&finished.stdout, &["# crates"]);
    holds(
        &finished.stderr,
        &["No key in the environment: enabling the embedded analyst"],
    );
    assert!(
        !home.path().join("backend.json").exists(),
        "the job's backend ends with it"
    );
    let ignored = std::fs::read_to_string(repository.path().join("tool-ci/.gitignore")).expect("it is there");
    assert_eq!(ignored, "*\n");
    let with_key = run_ci(
        &Home::empty(),
        repository.path(),
        &[("HOSTED_API_KEY", "k")],
        &["ci", "explain"],
    )
    .expect(0);
    holds(
        &with_key.stderr,
        &["HOSTED_API_KEY is set, and no model is named", "set HOSTED_MODEL"],
    );
    let unfinished = Home::empty();
    let refused = run_ci(
        &unfinished,
        repository.path(),
        &[],
        &["ci", "explain", "--vendor", "groq"],
    )
    .expect(2);
    holds(&refused.stderr, &["No API key for the vendor `groq`"]);
    assert!(
        !unfinished.path().join("config.toml").exists(),
        "the next job would have it"
    );
    for (vendor, code) in [("groq", 2), ("analyst", 0)] {
        let again = run_ci(&home, repository.path(), &[], &["ci", "explain", "--vendor", vendor]).expect(code);
        let said = again
            .stderr
            .contains("The configuration enables `local`, and not `groq`");
        assert_eq!(said, code == 2, "{}", again.stderr);
    }
    let unknown = run_ci(
        &Home::empty(),
        repository.path(),
        &[],
        &["ci", "explain", "--vendor", "No!"],
    )
    .expect(2);
    holds(&unknown.stderr, &["cannot be the name of a vendor"]);
}

#[test]
fn a_job_that_is_told_to_end_cancels_its_session_and_ends_its_backend() {
    let server = ModelServer::start(Script::new([Round::new([ServerStep::Stall])])).expect("a free port");
    let home = Home::configured(&scripted(&server));
    let repository = folder(SHOP);
    let mut job = home
        .tool(repository.path(), &["ci", "explain"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    until("the session waits for the model", || {
        server.requests().iter().any(|request| request.method == "POST")
    });
    kill_process(Pid::from_child(&job), Signal::TERM).expect("it is ours");
    assert_eq!(job.wait().expect("it ends").code(), Some(130));
    assert!(
        !home.path().join("backend.json").exists(),
        "the job's backend ends with it"
    );
}

#[test]
fn reports_leave_the_files_of_a_folder_that_was_there() {
    let home = Home::offline();
    let repository = folder(&[("README.md", "# Shop\n"), ("docs/.gitignore", "site\n")]);
    run_ci(&home, repository.path(), &[], &["ci", "explain", "--reports", "docs"]).expect(0);
    let ignored = std::fs::read_to_string(repository.path().join("docs/.gitignore")).expect("it is there");
    assert_eq!(ignored, "site\n");
    assert!(repository.path().join("docs/summary.md").exists());
    let refused = run_ci(&home, repository.path(), &[], &["ci", "explain", "--reports", "."]).expect(1);
    holds(&refused.stderr, &["it is the repository itself"]);
}

#[test]
fn a_change_that_is_not_trusted_runs_nothing_without_the_sandbox() {
    let home = Home::offline();
    let repository = folder(SHOP);
    let fork = [
        ("GITLAB_CI", "true"),
        ("CI_PIPELINE_SOURCE", "merge_request_event"),
        ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "2"),
        ("CI_MERGE_REQUEST_PROJECT_ID", "1"),
    ];
    let arguments = ["ci", "refactor", "x", "--unsandboxed", "--allow", "run-process"];
    let refused = run_ci(&home, repository.path(), &fork, &arguments).expect(2);
    holds(
        &refused.stderr,
        &["would run a change that is not trusted: it comes from a fork"],
    );
}

/// A job's backend listens on no port, so that jobs share a machine.
#[test]
fn a_backend_without_a_port_serves_the_command_line() {
    let home = Home::offline();
    let mut daemon = home
        .tool(std::path::Path::new("/"), &["__daemon"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    crate::support::until("it is ready", || home.path().join("backend.json").exists());
    assert_eq!(home.record()["port"], 0);
    let repository = folder(SHOP);
    home.run(repository.path(), &["explain", "."]).expect(0);
    let status = home.run(repository.path(), &["service", "status"]).expect(0);
    holds(
        &status.stdout,
        &["The backend is running on its socket alone, process "],
    );
    let tcp = std::fs::read_to_string(format!("/proc/{}/net/tcp", daemon.id())).expect("the kernel says");
    let handles = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).expect("it is ours");
    let sockets: Vec<String> = handles
        .filter_map(|handle| std::fs::read_link(handle.ok()?.path()).ok())
        .filter_map(|target| {
            Some(
                target
                    .to_str()?
                    .strip_prefix("socket:[")?
                    .trim_end_matches(']')
                    .to_owned(),
            )
        })
        .collect();
    let is_listening = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(3) == Some(&"0A")
            && fields
                .get(9)
                .is_some_and(|inode| sockets.contains(&(*inode).to_owned()))
    };
    assert!(!tcp.lines().any(is_listening), "{tcp}");
    home.run(repository.path(), &["service", "stop"]).expect(0);
    assert!(daemon.wait().expect("it ends").success());
}
