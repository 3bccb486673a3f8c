//! A daemon that is killed at random moments of a refactor, of an undo and of its own start.
//!
//! The model proposes the same changes every time, each over many files, so that the tree can be compared with what it
//! must be after each of them: nothing in between is ever allowed to last.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tool_journal::journal;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall};

use super::{add_guest, kill};
use crate::conformance::http;
use crate::conformance::world::{Wire, World, says};
use crate::support::{Dice, full, say, seed};

/// Files that every proposal replaces.
const FILES: usize = 8;

/// Proposals of one refactor.
const PROPOSALS: usize = 5;

/// Rounds that share a home: fewer sessions than it keeps.
const ROUNDS_PER_HOME: usize = 40;

/// Paths with their contents.
type Tree = BTreeMap<String, String>;

/// Content of the tree after so many proposals.
fn state(proposals: usize) -> Tree {
    let mut tree = Tree::new();
    for file in 0..FILES {
        let line = format!("file {file} as of proposal {proposals}\n");
        tree.insert(format!("pkg/f{file}.txt"), line.repeat(60 + 20 * file));
    }
    // One file comes and goes with its directories.
    if proposals % 2 == 1 {
        tree.insert("pkg/deep/er/extra.txt".into(), format!("extra {proposals}\n"));
    }
    tree.insert("README.md".into(), "# Files\n".into());
    tree
}

/// The call that leads from one state to the next.
fn proposal(number: usize) -> Round {
    let mut files = state(number);
    files.remove("README.md");
    let deletions: Vec<String> = state(number - 1)
        .into_keys()
        .filter(|path| path != "README.md" && !files.contains_key(path))
        .collect();
    let arguments = json!({"files": files, "deletions": deletions});
    Round::calls([ScriptedCall::new("bundle", arguments)])
}

fn script() -> Script {
    let read = |file: usize| ScriptedCall::new("read_file", json!({"path": format!("pkg/f{file}.txt")}));
    let mut rounds = vec![Round::calls((0..FILES).map(read))];
    rounds.extend((1..=PROPOSALS).map(proposal));
    rounds.push(says(&["All ", "is ", "renewed."]));
    Script::new(rounds)
}

/// A world in which the model begins anew with every round.
struct Bench {
    world: World,
    address: String,
}

impl Bench {
    fn new() -> Self {
        let files = state(0);
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let world = World::on(Wire::Local, &files, script());
        add_guest(&world.home, "bundle");
        // Compiled once, before anything is measured.
        let call = r#"{"files": {}}"#;
        world
            .run(&["skill", "call", "bundle", call, "--allow", "write-repository"])
            .expect(0);
        world.run(&["service", "stop"]).expect(0);
        let address = world.home.serve_with(&[]);
        Self { world, address }
    }

    fn begin_script(&mut self) {
        self.world.server = ModelServer::start(script()).expect("loopback has a free port");
        let config = Wire::Local.config(&format!("http://{}", self.world.server.address()));
        std::fs::write(self.world.home.path().join("config.toml"), config).expect("the folder is writable");
    }

    fn die(&mut self) {
        kill(&self.world.home);
        self.address = self.world.home.serve_with(&[]);
    }

    fn get(&self, path: &str) -> Value {
        http::get(&self.address, path).expect(200).json()
    }

    fn start(&self) -> String {
        let start = http::post(&self.address, "/execute", &self.world.body("refactor", "pkg")).expect(200);
        start.json()["session_id"].as_str().expect("an identifier").to_owned()
    }

    fn undo(&self, id: &str) -> Value {
        http::post(&self.address, &format!("/sessions/{id}/undo"), &json!({}))
            .expect(200)
            .json()
    }

    /// Waits for a moment within a session: the text that the stream has just sent, and how long after that.
    fn moment(&self, id: &str, dice: &mut Dice) -> String {
        let reached = dice.below(PROPOSALS as u64 + 3);
        let said = match reached {
            0 => "\r\n\r\n".to_owned(),
            1 => "\"name\":\"read_file\"".to_owned(),
            reached if reached < PROPOSALS as u64 + 2 => format!("as of proposal {}", reached - 1),
            _ => "renewed".to_owned(),
        };
        let path = format!("/stream?session_id={id}");
        let mut stream = http::Connection::send(&self.address, "GET", &path, &[], None);
        stream.until(&said);
        let after = Duration::from_micros(dice.below(60_000));
        std::thread::sleep(after);
        format!("killed {after:?} after {said:?}")
    }

    /// The files of the repository, without reports; temporaries of ours too.
    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let root = self.world.root();
        let mut todo = vec![root.to_owned()];
        while let Some(folder) = todo.pop() {
            for entry in std::fs::read_dir(&folder).expect("it can be listed") {
                let path = entry.expect("it can be listed").path();
                let name = path.strip_prefix(root).expect("it lies below").to_owned();
                if name == Path::new("session-reports") {
                    continue;
                }
                if path.is_dir() {
                    todo.push(path);
                } else {
                    let text = std::fs::read_to_string(&path).expect("it can be read");
                    tree.insert(name.to_str().expect("UTF-8").to_owned(), text);
                }
            }
        }
        tree
    }

    /// No file is torn at any moment: each is what one of the proposals made of it.
    fn is_never_torn(&self) {
        let states: Vec<Tree> = (0..=PROPOSALS).map(state).collect();
        for (path, text) in self.tree() {
            let is_ours = path.contains("/.tool-proposal-");
            assert!(
                is_ours || states.iter().any(|state| state.get(&path) == Some(&text)),
                "{path} is torn"
            );
        }
    }

    /// After how many proposals the tree is; a mixture of two fails.
    fn proposals(&self) -> usize {
        let tree = self.tree();
        let found = (0..=PROPOSALS).find(|&proposals| state(proposals) == tree);
        found.unwrap_or_else(|| {
            let names: Vec<(&String, &str)> = tree
                .iter()
                .map(|(path, text)| (path, text.lines().next().unwrap_or_default()))
                .collect();
            panic!("a mixture: {names:?}")
        })
    }

    /// The session is closed once and for all, in every view of it.
    fn is_closed(&self, id: &str, proposals: usize) {
        let result = self.get(&format!("/results/{id}"));
        let status = result["status"].as_str().unwrap_or_default();
        assert!(matches!(status, "complete" | "failed"), "{result}");
        let (before, after) = (state(0), state(proposals));
        let changed = before.keys().chain(after.keys());
        let mut changed: Vec<&String> = changed.filter(|path| before.get(*path) != after.get(*path)).collect();
        changed.sort();
        changed.dedup();
        assert_eq!(result["files_modified"], json!(changed), "{result}");
        let listed = |history: &Value| {
            let sessions = history["sessions"].as_array().expect("a list").clone();
            sessions.into_iter().filter(|entry| entry["id"] == id).count()
        };
        assert_eq!(listed(&self.get("/history")), 1);
        let reports = self.world.root().join("session-reports");
        let file = std::fs::read(reports.join("session_history.json")).expect("it is there");
        assert_eq!(listed(&serde_json::from_slice(&file).expect("it is whole")), 1);
        let report = self.world.root().join(result["report_path"].as_str().expect("a path"));
        let report = std::fs::read_to_string(report).expect("it is there");
        assert!(report.contains(&format!("| Status | {status} |")), "{report}");
        self.replays(id);
        let place = self.world.home.path().join("sessions").join(id).join("journal.jsonl");
        let bytes = std::fs::read(place).expect("it is there");
        let parsed = journal::parse(&bytes);
        assert_eq!((parsed.damaged, parsed.whole_bytes), (0, bytes.len() as u64));
    }

    /// A reader gets every event in order and one end, from wherever it goes on.
    fn replays(&self, id: &str) {
        let path = format!("/stream?session_id={id}");
        let whole = http::get(&self.address, &path).expect(200);
        let numbers: Vec<u64> = whole
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
            .collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        let is_end = |event: &Value| matches!(event["type"].as_str(), Some("complete" | "error"));
        let events = whole.events();
        assert_eq!(events.iter().filter(|event| is_end(event)).count(), 1);
        assert!(events.last().is_some_and(is_end));
        let middle = numbers.len() / 2;
        let seen = numbers[middle].to_string();
        let rest = http::ask(&self.address, "GET", &path, &[("last-event-id", &seen)]);
        if middle + 1 == events.len() {
            rest.expect(204);
        } else {
            assert_eq!(rest.expect(200).events(), events[middle + 1..]);
        }
    }

    /// Takes the session back, and that again, and that once more.
    fn undoes(&self, id: &str, proposals: usize) {
        let undone = self.undo(id);
        assert_eq!((self.proposals(), &undone["left"]), (0, &json!([])), "{undone}");
        let again = undone["undo_session_id"].as_str().expect("it changed files").to_owned();
        let redone = self.undo(&again);
        assert_eq!((self.proposals(), &redone["left"]), (proposals, &json!([])), "{redone}");
        let again = redone["undo_session_id"].as_str().expect("it changed files").to_owned();
        self.undo(&again);
        assert_eq!(self.proposals(), 0);
    }

    /// The daemon dies while it takes the session back; then it is done in peace.
    fn dies_in_undo(&mut self, id: &str, proposals: usize, delay: Duration) {
        let (address, path) = (self.address.clone(), format!("/sessions/{id}/undo"));
        let headers = [("content-type", "application/json")];
        let asking = http::Connection::send(&address, "POST", &path, &headers, Some("{}"));
        std::thread::sleep(delay);
        self.die();
        drop(asking);
        let reached = self.proposals();
        assert!([0, proposals].contains(&reached), "an undo in part: {reached}");
        if reached > 0 {
            self.undo(id);
        }
        assert_eq!(self.proposals(), 0);
    }
}

/// One refactor without a death.
fn undisturbed(bench: &mut Bench) {
    bench.begin_script();
    let id = bench.start();
    let events = http::get(&bench.address, &format!("/stream?session_id={id}"))
        .expect(200)
        .events();
    assert_eq!(
        events.last().map(|event| event["type"].clone()),
        Some("complete".into()),
        "{events:?}"
    );
    assert_eq!(bench.proposals(), PROPOSALS);
    bench.is_closed(&id, PROPOSALS);
    bench.undoes(&id, PROPOSALS);
}

#[test]
fn a_daemon_that_is_killed_at_any_moment_loses_and_tears_nothing() {
    let rounds = if full() { 200 } else { 10 };
    let seed = seed();
    let mut dice = Dice(seed);
    let mut reached = [0_usize; PROPOSALS + 1];
    let begun = Instant::now();
    let mut bench = Bench::new();
    for round in 0..rounds {
        if round % ROUNDS_PER_HOME == 0 {
            if round > 0 {
                bench = Bench::new();
            }
            undisturbed(&mut bench);
        }
        bench.begin_script();
        let id = bench.start();
        let shown = Shown(format!("seed {seed}, round {round}"));
        let moment = bench.moment(&id, &mut dice);
        kill(&bench.world.home);
        let shown = Shown(format!("{}, {moment}", shown.take()));
        bench.is_never_torn();
        // A third of the daemons die again while they start.
        if dice.below(3) == 0 {
            killed_at_start(&bench, Duration::from_micros(dice.below(60_000)));
            bench.is_never_torn();
        }
        bench.address = bench.world.home.serve_with(&[]);
        let proposals = bench.proposals();
        reached[proposals] += 1;
        bench.is_closed(&id, proposals);
        match proposals {
            0 => {}
            _ if dice.below(3) == 0 => {
                let delay = Duration::from_micros(dice.below(40_000));
                bench.dies_in_undo(&id, proposals, delay);
            }
            _ => bench.undoes(&id, proposals),
        }
        drop(shown);
    }
    say(&format!(
        "killed {rounds} times in {:.0?} (seed {seed}); proposals that stood: {reached:?}",
        begun.elapsed()
    ));
}

/// Starts a daemon and kills it after a while, ready or not.
fn killed_at_start(bench: &Bench, delay: Duration) {
    let mut command = bench.world.home.tool(Path::new("/"), &["__daemon", "--port", "0"]);
    let command = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut daemon = command.spawn().expect("the binary runs");
    std::thread::sleep(delay);
    daemon.kill().expect("it is ours");
    daemon.wait().expect("it is ours");
}

/// Tells where a round was when it fails.
struct Shown(String);

impl Shown {
    fn take(mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.0.is_empty() {
            say(&self.0);
        }
    }
}
