//! `tool dev model-server`: what it prints, what it serves, how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tool_model_server::Script;

use super::{GENERATE_CONTENT, LOCAL, MESSAGES, RESPONSES, repository};
use crate::documents::read_page;
use crate::support::{Home, folder};

/// A served script. It ends when this is dropped.
struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    root: String,
}

impl Served {
    fn new(home: &Home, script: &str, arguments: &[&str]) -> Self {
        let place = home.path().join("script.json");
        std::fs::write(&place, script).expect("the home is writable");
        let place = place.to_string_lossy();
        let mut all = vec!["dev", "model-server", "--script", &*place];
        all.extend(arguments);
        let mut child = home
            .tool(home.path(), &all)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut root = String::new();
        stdout.read_line(&mut root).expect("it says where it is");
        Self {
            child,
            stdout,
            root: root.trim_end().to_owned(),
        }
    }

    /// Ends it with a signal; gives its exit code and what else it wrote.
    fn end(mut self, signal: Signal) -> (Option<i32>, String, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).expect("it is text");
        let mut err = self.child.stderr.take().expect("it is piped");
        err.read_to_string(&mut stderr).expect("it is text");
        (self.child.wait().expect("it ends").code(), stdout, stderr)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After a failed test it still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn example() -> String {
    Home::empty()
        .run("/".as_ref(), &["dev", "model-server", "--example"])
        .expect(0)
        .stdout
}

#[test]
fn the_example_serves_a_run_on_every_wire_as_it_is_told_to() {
    let home = Home::empty();
    let served = Served::new(&home, &example(), &["--log"]);
    let root = served.root.clone();
    let port = root.strip_prefix("http://127.0.0.1:").expect("loopback");
    assert!(port.parse::<u16>().is_ok_and(|port| port != 0), "{root}");
    let chat_url = format!("{root}/v1");
    let repository = repository();
    for wire in [LOCAL, MESSAGES, GENERATE_CONTENT, RESPONSES] {
        let mut init = vec!["init", "--provider", wire.provider, "--model", "scripted"];
        init.extend(wire.api.iter().flat_map(|api| ["--api", api]));
        let has_version = matches!(wire.api, None | Some("responses"));
        init.extend(["--url", if has_version { &chat_url } else { &root }]);
        wire.run(&home, &repository, &init).expect(0);
        let finished = wire.run(&home, &repository, &["explain", "."]).expect(0);
        let answer = "Let me look at the repository.\n\nThis repository describes itself in README.md:1.";
        assert!(finished.stdout.starts_with(answer), "{}", finished.stdout);
        assert!(finished.stderr.contains("trying again in 1 s"), "{}", finished.stderr);
    }
    let (code, stdout, stderr) = served.end(Signal::TERM);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    insta::assert_snapshot!(stderr.replace(&root, "http://ADDRESS"), @r"
    Serving the script until interrupted. To use it, one of:
      tool init --provider local --model scripted --url http://ADDRESS/v1
      export HOSTED_API_KEY=scripted; tool init --provider hosted --api messages --model scripted --url http://ADDRESS
      export VENDOR_C_API_KEY=scripted; tool init --provider hosted --api generate-content --model scripted --url http://ADDRESS
      export VENDOR_B_API_KEY=scripted; tool init --provider hosted --api responses --model scripted --url http://ADDRESS/v1
    GET /v1/models -> the model list
    GET /api/v1/models -> 404: GET /api/v1/models is not served here
    GET /props -> 404: GET /props is not served here
    GET /api/ps -> 404: GET /api/ps is not served here
    POST /v1/chat/completions -> round 1 of 3
    POST /v1/chat/completions -> round 2 of 3, status 429
    POST /v1/chat/completions -> round 3 of 3
    GET /v1/models -> the model list
    POST /v1/messages -> round 1 of 3
    POST /v1/messages -> round 2 of 3, status 429
    POST /v1/messages -> round 3 of 3
    GET /v1beta/models -> the model list
    POST /v1beta/models/scripted:streamGenerateContent -> round 1 of 3
    POST /v1beta/models/scripted:streamGenerateContent -> round 2 of 3, status 429
    POST /v1beta/models/scripted:streamGenerateContent -> round 3 of 3
    GET /v1/models -> the model list
    POST /v1/responses -> round 1 of 3
    POST /v1/responses -> round 2 of 3, status 429
    POST /v1/responses -> round 3 of 3
    ");
}

#[test]
fn it_ends_when_it_is_interrupted() {
    let home = Home::empty();
    let served = Served::new(&home, r#"{"rounds": []}"#, &["--quiet"]);
    assert_eq!(served.end(Signal::INT), (Some(0), String::new(), String::new()));
}

#[test]
fn a_wrong_script_is_a_configuration_error_with_its_place() {
    let scripts = folder(&[
        (
            "typo.json",
            "{\"rounds\": [\n  {\"steps\": [{\"txt\": \"hello\"}]}\n]}\n",
        ),
        ("broken.json", "{\"rounds\": [\n"),
    ]);
    let home = Home::empty();
    let said = |script: &str| {
        let finished = home
            .run(scripts.path(), &["dev", "model-server", "--script", script])
            .expect(2);
        assert_eq!(finished.stdout, "");
        finished.stderr
    };
    insta::assert_snapshot!(said("typo.json"), @r"
    [error] The script is not valid: unknown variant `txt`, expected one of `text`, `pieces`, `text_call`, `reasoning`, `tool_calls`, `usage`, `finish`, `done`, `delay_ms`, `gate`, `comment`, `frame`, `raw`, `error`, `end`, `stall`, `reset`, `status`
    hint: typo.json, line 2, column 19; did you mean `text`?
    ");
    insta::assert_snapshot!(said("broken.json"), @r"
    [error] The script is not valid: EOF while parsing a list
    hint: broken.json, line 2, column 0; `tool dev model-server --example` prints a script that works
    ");
    insta::assert_snapshot!(said("missing.json"), @r"
    [error] Script `missing.json`: No such file or directory (os error 2)
    hint: `tool dev model-server --example` prints a script that works
    ");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let home = Home::empty();
    let served = Served::new(&home, r#"{"rounds": []}"#, &[]);
    let port = served.root.rsplit(':').next().unwrap_or_default().to_owned();
    let place = home.path().join("script.json");
    let place = place.to_string_lossy();
    let finished = home
        .run(
            home.path(),
            &["dev", "model-server", "--script", &place, "--port", &port],
        )
        .expect(2);
    insta::assert_snapshot!(finished.stderr.replace(&port, "PORT"), @r"
    [error] The model server cannot listen on 127.0.0.1:PORT: Address already in use (os error 98)
    hint: `--port 0` takes any free port
    ");
}

#[test]
fn the_book_shows_a_script_that_works_and_names_every_step() {
    let page = read_page("scripted-model.md");
    let (_, block) = page
        .split_once("```json file=script.json\n")
        .expect("the page shows a script");
    let (script, _) = block.split_once("```").expect("the script ends");
    Script::parse(script).expect("and it is valid");

    let problem = Script::parse(r#"{"rounds": [{"steps": ["?"]}]}"#).expect_err("no such step");
    let (_, known) = problem
        .message
        .split_once("expected one of ")
        .expect("it names the steps");
    let steps: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    assert!(steps.len() > 15, "{steps:?}");
    // A gate is opened by the program that runs the server; a script alone cannot.
    for step in steps.into_iter().filter(|step| *step != "gate") {
        assert!(
            page.contains(&format!("\"{step}\"")),
            "the book does not name the step `{step}`"
        );
    }
}
