//! `tool batch` over many generated repositories: killed in the middle and resumed, in shards, and within a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, Script, ScriptedUsage, ServerStep};

use super::scripted;
use crate::support::{Home, finish, folder, git, holds, is_alive, until};

/// Repositories of the long test.
const MANY: usize = 200;

/// Folder with generated repositories and a list of them.
struct BatchWorld {
    home: Home,
    folder: TempDir,
}

impl BatchWorld {
    fn new(home: Home, count: usize) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let mut list = "# generated\n".to_owned();
        for number in 0..count {
            let root = folder.path().join(format!("repositories/r{number}"));
            fs::create_dir_all(&root).expect("the folder is writable");
            let readme = format!("# Repository {number}\n\nCounts to {number}.\n");
            fs::write(root.join("README.md"), readme).expect("the folder is writable");
            fs::write(root.join("main.py"), format!("def main():\n    return {number}\n"))
                .expect("the folder is writable");
            list.push_str(&format!("repositories/r{number}\n"));
        }
        fs::write(folder.path().join("list.txt"), list).expect("the folder is writable");
        Self { home, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Arguments of a batch with its results in `results`.
    fn arguments<'a>(results: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["batch", "list.txt", "--results", results], more].concat()
    }

    fn lines(&self, path: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join(path)).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Repositories with a result, in the order of the file.
    fn done(&self, path: &str) -> Vec<String> {
        let lines = self.lines(path).into_iter();
        lines
            .map(|line| line["repository"].as_str().expect("a name").to_owned())
            .collect()
    }

    /// Starts of each item's attempts, and the items of attempts without an end.
    fn attempts(&self, path: &str) -> (BTreeMap<String, usize>, BTreeSet<String>) {
        let (mut starts, mut open) = (BTreeMap::new(), BTreeSet::new());
        for line in self.lines(path) {
            let id = line["id"].as_str().expect("an identifier").to_owned();
            if line["type"] == "started" {
                *starts.entry(id.clone()).or_default() += 1;
                open.insert(id);
            } else {
                open.remove(&id);
            }
        }
        (starts, open)
    }

    /// The homes of shards.
    fn shard_homes(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.home.path().join("batch")).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

fn unique(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn a_batch_that_is_killed_goes_on_and_each_repository_is_once_in_the_results() {
    let world = BatchWorld::new(Home::offline(), MANY);
    let (results, attempts) = ("out/results/1-of-1.jsonl", "out/attempts/1-of-1.jsonl");
    let arguments = BatchWorld::arguments("out", &["--parallel", "4"]);
    let mut batch = world
        .home
        .tool(world.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    until("a third has ended", || world.done(results).len() >= MANY / 3);
    batch.kill().expect("it runs");
    batch.wait().expect("it was killed");
    let done_before = world.done(results);
    let (starts, open) = world.attempts(attempts);
    assert!(
        done_before.len() < MANY && (1..=5).contains(&open.len()),
        "{} {open:?}",
        done_before.len()
    );
    // A result that was written without the end of its attempt counts as done.
    let done_ids: BTreeSet<String> = world
        .lines(results)
        .iter()
        .map(|line| line["id"].as_str().expect("an identifier").to_owned())
        .collect();
    let in_flight: BTreeSet<&String> = open.difference(&done_ids).collect();
    assert_eq!(starts.len(), done_ids.union(&open).count());
    let finished = world.home.run(world.path(), &arguments).expect(0);
    holds(
        &finished.stderr,
        &[&format!("{MANY} repositories, {} with a result", done_before.len())],
    );
    let done = world.done(results);
    assert_eq!((done.len(), unique(&done).len()), (MANY, MANY));
    assert_eq!(
        done[..done_before.len()],
        done_before,
        "earlier results stay as they were"
    );
    let (starts, open) = world.attempts(attempts);
    let again: BTreeSet<&String> = starts
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(id, _)| id)
        .collect();
    assert_eq!(again, in_flight, "only the sessions in flight ran again");
    assert!(open.is_subset(&done_ids), "{open:?}");
    holds(
        &fs::read_to_string(world.path().join("out/summary.md")).expect("it is there"),
        &[
            "200 repositories: 200 complete, 0 failed",
            "| repositories/r199 | explain | complete |",
        ],
    );
    let page = fs::read_to_string(world.path().join("out/summary.html")).expect("it is there");
    holds(&page, &["Content-Security-Policy", "Counts to 7."]);
    // Once more: nothing is left to do.
    let finished = world.home.run(world.path(), &arguments).expect(0);
    assert_eq!(world.done(results).len(), MANY, "{}", finished.stderr);
    for home in world.shard_homes() {
        assert!(!home.join("backend.json").exists(), "the backend ends with the batch");
    }
}

#[test]
fn two_shards_at_once_give_the_union() {
    let world = BatchWorld::new(Home::offline(), 21);
    let arguments = |shard: &'static str| BatchWorld::arguments("out", &["--shard", shard]);
    let mut first = world
        .home
        .tool(world.path(), &arguments("1/2"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    world.home.run(world.path(), &arguments("2/2")).expect(0);
    assert!(first.wait().expect("it ends").success());
    let (first, second) = (
        world.done("out/results/1-of-2.jsonl"),
        world.done("out/results/2-of-2.jsonl"),
    );
    assert_eq!((first.len(), second.len()), (11, 10));
    let union: BTreeSet<&str> = unique(&first).union(&unique(&second)).copied().collect();
    assert_eq!(union.len(), 21);
    assert_eq!(world.shard_homes().len(), 2, "each shard has a home of its own");
    let finished = world
        .home
        .run(world.path(), &BatchWorld::arguments("out", &["--summarize"]))
        .expect(0);
    holds(&finished.stdout, &["21 repositories: 21 complete, 0 failed"]);
    // Another division finds the results of the first one.
    world.home.run(world.path(), &arguments("1/1")).expect(0);
    assert_eq!(world.lines("out/results/1-of-1.jsonl"), Vec::<Value>::new());
}

/// Under `nohup` the end of the terminal ends nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "a shell ignores the signal as nohup does")]
fn an_interrupted_batch_cancels_its_sessions() {
    let hang = Round::new([ServerStep::Stall]);
    let server = ModelServer::start(Script::new(vec![hang; 6])).expect("a free port");
    let world = BatchWorld::new(Home::configured(&scripted(&server)), 3);
    let tool = world
        .home
        .tool(world.path(), &BatchWorld::arguments("out", &["--parallel", "2"]));
    let mut batch = Command::new("/bin/sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(tool.get_program())
        .args(tool.get_args())
        .current_dir(world.path())
        .env_clear()
        .envs(tool.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    until("two sessions wait for the model", || {
        server
            .requests()
            .iter()
            .filter(|request| request.method == "POST")
            .count()
            == 2
    });
    let pid = Pid::from_child(&batch);
    kill_process(pid, Signal::HUP).expect("it is ours");
    std::thread::sleep(Duration::from_secs(1));
    assert!(batch.try_wait().expect("it is ours").is_none(), "the batch goes on");
    kill_process(pid, Signal::TERM).expect("it is ours");
    assert_eq!(batch.wait().expect("it ends").code(), Some(130));
    assert!(!is_alive(pid));
    assert_eq!(world.done("out/results/1-of-1.jsonl"), Vec::<String>::new());
    for home in world.shard_homes() {
        assert!(!home.join("backend.json").exists(), "the backend ends with the batch");
    }
}

#[test]
fn all_sessions_together_stay_within_the_budget() {
    // Each session costs 3 dollars: 10,000 tokens of input at 300 dollars a million.
    let round = Round::new([
        ServerStep::Text("main.py:1 counts.\n".to_owned()),
        ServerStep::Usage(ScriptedUsage {
            input: 10_000,
            output: 100,
            cached: 0,
        }),
    ]);
    let script = Script {
        repeat: true,
        ..Script::new([round])
    };
    let server = ModelServer::start(script).expect("a free port");
    let prices = "[prices.scripted]\ninput = 300\noutput = 0\n";
    let world = BatchWorld::new(Home::configured(&format!("{}{prices}", scripted(&server))), 6);
    let arguments = |dollars: &'static str| BatchWorld::arguments("out", &["--max-cost", dollars, "--parallel", "1"]);
    let stopped = world.home.run(world.path(), &arguments("9")).expect(1);
    holds(&stopped.stderr, &["--max-cost is used up; 5 repositories did not run"]);
    assert_eq!(
        world.done("out/results/1-of-1.jsonl").len(),
        1,
        "a second request could cost more than what is left"
    );
    // Money that was spent counts in the next run, too.
    world.home.run(world.path(), &arguments("9")).expect(1);
    assert_eq!(world.done("out/results/1-of-1.jsonl").len(), 1);
    let finished = world.home.run(world.path(), &arguments("30")).expect(0);
    holds(
        &finished.stdout,
        &["6 repositories: 6 complete, 0 failed, 0 changed, 60600 tokens, $18.00"],
    );
}

#[test]
fn an_error_that_meets_all_repositories_ends_the_batch() {
    let script = Script {
        repeat: true,
        ..Script::new([Round::status(401, "no")])
    };
    let server = ModelServer::start(script).expect("a free port");
    let world = BatchWorld::new(Home::configured(&scripted(&server)), 8);
    let arguments = BatchWorld::arguments("out", &["--parallel", "1"]);
    let stopped = world.home.run(world.path(), &arguments).expect(1);
    holds(&stopped.stderr, &["[error] Authentication failed: Invalid API key"]);
    assert_eq!(world.done("out/results/1-of-1.jsonl"), Vec::<String>::new());
}

#[test]
fn a_failure_is_a_result_and_runs_again_when_asked() {
    let world = BatchWorld::new(Home::offline(), 2);
    let list = world.path().join("list.txt");
    fs::write(&list, "repositories/r0\nlater\n").expect("the folder is writable");
    let failed = world
        .home
        .run(world.path(), &BatchWorld::arguments("out", &[]))
        .expect(1);
    holds(&failed.stderr, &["failed later", "Not a directory"]);
    fs::rename(world.path().join("repositories/r1"), world.path().join("later")).expect("it is ours");
    world
        .home
        .run(world.path(), &BatchWorld::arguments("out", &[]))
        .expect(1);
    let again = BatchWorld::arguments("out", &["--retry-failed"]);
    world.home.run(world.path(), &again).expect(0);
    assert_eq!(world.done("out/results/1-of-1.jsonl"), ["repositories/r0", "later"]);
    // A summary names a repository as it is written, whatever it holds.
    fs::write(&list, "a|b<script>\n").expect("the folder is writable");
    world
        .home
        .run(world.path(), &BatchWorld::arguments("other", &[]))
        .expect(1);
    let page = fs::read_to_string(world.path().join("other/summary.html")).expect("it is there");
    assert!(!page.contains("<script>"), "{page}");
    holds(
        &fs::read_to_string(world.path().join("other/summary.md")).expect("it is there"),
        &[r"| a\|b\<script\> |"],
    );
}

#[test]
fn a_list_that_is_wrong_starts_nothing() {
    let home = Home::offline();
    let place = folder(&[
        ("empty.txt", "# nothing\n"),
        ("file.txt", "file:///srv/a\n"),
        ("http.txt", "http://a.example/b\n"),
    ]);
    for (list, message) in [
        ("none.txt", "List `none.txt`"),
        ("empty.txt", "The list names no repository"),
        (
            "file.txt",
            "Line 1 of the list: `file:///srv/a` has a transport that is not used",
        ),
        ("http.txt", "Line 1 of the list: `http://a.example/b` is not encrypted"),
    ] {
        let refused = home.run(place.path(), &["batch", list]).expect(2);
        holds(&refused.stderr, &[message]);
    }
    assert!(!place.path().join("batch-results").exists());
    let refused = home
        .run(place.path(), &["batch", "file.txt", "--shard", "3/2"])
        .expect(2);
    holds(&refused.stderr, &["give I/N with I from 1 to N"]);
}

/// The repositories of users keep what sessions change; git is not touched.
#[test]
fn changes_are_in_the_results_with_their_diff() {
    let write = Round::calls([tool_model_server::ScriptedCall::new(
        "write_file",
        serde_json::json!({"path": "NOTES.md", "content": "# Notes\n"}),
    )]);
    let server = ModelServer::start(Script::new([write, Round::text("Added NOTES.md:1.\n")])).expect("a free port");
    let world = BatchWorld::new(Home::configured(&scripted(&server)), 1);
    git(&world.path().join("repositories/r0"), &["init", "--quiet"]);
    let more = ["--operation", "refactor", "--task", "add notes", "--unverified"];
    let finished = world
        .home
        .run(world.path(), &BatchWorld::arguments("out", &more))
        .expect(0);
    let results = world.lines("out/results/1-of-1.jsonl");
    assert_eq!(results[0]["files_modified"], serde_json::json!(["NOTES.md"]));
    holds(results[0]["diff"].as_str().expect("a diff"), &["+# Notes"]);
    assert!(world.path().join("repositories/r0/NOTES.md").exists());
    let reports = fs::read_dir(world.path().join("out/reports/1-of-1/session-reports")).expect("they are there");
    assert!(reports.count() >= 2);
    assert!(!world.path().join("repositories/r0/session-reports").exists());
    let shard = world.shard_homes().remove(0);
    let command = format!(
        "undo, in a repository: TOOL_HOME={} TOOL_BACKEND_PORT=0 tool undo",
        shard.display()
    );
    holds(&finished.stderr, &[&command]);
    let mut undo = world.home.tool(&world.path().join("repositories/r0"), &["undo"]);
    undo.env("TOOL_HOME", &shard);
    finish(undo.output().expect("the binary runs")).expect(0);
    assert!(!world.path().join("repositories/r0/NOTES.md").exists());
    let mut stop = world.home.tool(world.path(), &["service", "stop"]);
    finish(stop.env("TOOL_HOME", &shard).output().expect("the binary runs")).expect(0);
}

/// Sessions in one folder would see and report each other's changes.
#[test]
fn sessions_in_one_folder_run_one_after_the_other() {
    let world = BatchWorld::new(Home::offline(), 1);
    let list: String = ["main.py", "README.md", "main"]
        .map(|task| format!("{{\"repository\": \"repositories/r0\", \"task\": \"{task}\"}}\n"))
        .concat();
    fs::write(world.path().join("list.txt"), list).expect("the folder is writable");
    world
        .home
        .run(world.path(), &BatchWorld::arguments("out", &["--parallel", "3"]))
        .expect(0);
    let attempts = world.lines("out/attempts/1-of-1.jsonl");
    let types: Vec<&str> = attempts.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["started", "ended"].repeat(3));
    let other = world
        .home
        .run(world.path(), &BatchWorld::arguments("other", &["--shard", "2/2"]))
        .expect(0);
    holds(&other.stderr, &["0 repositories"]);
}

/// The folder of the results may lie in a repository of the list.
#[test]
fn results_within_a_repository_are_no_part_of_it() {
    let world = BatchWorld::new(Home::offline(), 1);
    let root = world.path().join("repositories/r0");
    git(&root, &["init", "--quiet"]);
    fs::write(root.join("list.txt"), ".\n").expect("the folder is writable");
    for results in ["first", "second"] {
        world.home.run(&root, &BatchWorld::arguments(results, &[])).expect(0);
    }
    let output = |name: &str| {
        let text = fs::read_to_string(root.join(name).join("results/1-of-1.jsonl")).expect("it is there");
        let line: Value = serde_json::from_str(&text).expect("JSON");
        line["output"].as_str().expect("a text").to_owned()
    };
    holds(&output("second"), &["Counts to 0."]);
    assert!(!output("second").contains("first/"), "{}", output("second"));
    assert!(!git(&root, &["status", "--short"]).contains("first"));
}
