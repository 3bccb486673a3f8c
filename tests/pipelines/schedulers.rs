//! The book's Slurm script on a real Slurm with two nodes on this machine, and the command of its Kubernetes Job.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::runner::{read_yaml, source};
use crate::support::{Finished, Home, finish, holds, until};

const REPOSITORIES: usize = 12;

/// Slurm's daemons, ended with the test.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The controller last: nodes say goodbye to it. What has ended already needs no signal.
        for daemon in self.daemons.iter_mut().rev() {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(daemon), rustix::process::Signal::TERM);
            let _ = daemon.wait();
        }
    }
}

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}

impl Slurm {
    fn start() -> Self {
        let mut slurm = Self {
            folder: TempDir::new().expect("a temporary folder"),
            daemons: Vec::new(),
        };
        let path = |name: &str| slurm.path(name).display().to_string();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let [controller, first, second] = free_ports();
        let user = user_name();
        let node = |name: &str, port: u16| {
            format!("NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN")
        };
        let configuration = [
            "ClusterName=local".to_owned(),
            format!("SlurmctldHost={host}(127.0.0.1)"),
            format!("SlurmctldPort={controller}"),
            format!("AuthInfo=socket={}", path("munge.sock")),
            format!("SlurmUser={user}"),
            format!("SlurmdUser={user}"),
            format!("StateSaveLocation={}", path("state")),
            format!("SlurmdSpoolDir={}", path("spool-%n")),
            format!("SlurmctldPidFile={}", path("controller.pid")),
            format!("SlurmdPidFile={}", path("%n.pid")),
            format!("SlurmctldLogFile={}", path("controller.log")),
            format!("SlurmdLogFile={}", path("%n.log")),
            "ProctrackType=proctrack/pgid".to_owned(),
            "TaskPlugin=task/none".to_owned(),
            "SelectType=select/cons_tres".to_owned(),
            "SelectTypeParameters=CR_Core".to_owned(),
            "MpiDefault=none".to_owned(),
            node("node1", first),
            node("node2", second),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP".to_owned(),
        ];
        fs::write(slurm.path("slurm.conf"), configuration.join("\n") + "\n").expect("the folder is writable");
        fs::create_dir(slurm.path("state")).expect("the folder is writable");
        let key: Vec<u8> = (0..64).flat_map(|_| uuid::Uuid::new_v4().into_bytes()).collect();
        fs::write(slurm.path("munge.key"), key).expect("the folder is writable");
        fs::set_permissions(slurm.path("munge.key"), fs::Permissions::from_mode(0o400)).expect("it is ours");
        slurm.start_daemon("munged", &slurm.munge_arguments());
        until("munged listens", || slurm.path("munge.sock").exists());
        slurm.start_daemon("slurmctld", &["-D".to_owned()]);
        for node in ["node1", "node2"] {
            slurm.start_daemon("slurmd", &["-D".to_owned(), "-N".to_owned(), node.to_owned()]);
        }
        until("both nodes are idle", || {
            let answered = slurm.command("sinfo").args(["--noheader", "--format=%t %D"]).output();
            answered.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "idle 2")
        });
        slurm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn munge_arguments(&self) -> Vec<String> {
        let files = [
            ("key-file", "munge.key"),
            ("socket", "munge.sock"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        ];
        let named = files.map(|(option, name)| format!("--{option}={}", self.path(name).display()));
        ["--foreground".to_owned(), "--force".to_owned()]
            .into_iter()
            .chain(named)
            .collect()
    }

    fn start_daemon(&mut self, program: &str, arguments: &[String]) {
        let daemon = self
            .command(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: run scripts/fixtures"));
        self.daemons.push(daemon);
    }

    #[expect(clippy::disallowed_methods, reason = "the programs of the scheduler")]
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{path}:/usr/sbin"))
            .env("SLURM_CONF", self.path("slurm.conf"));
        command
    }
}

#[expect(clippy::disallowed_methods, reason = "the scheduler wants a name")]
fn user_name() -> String {
    let output = Command::new("id").arg("-un").output().expect("there is id");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A folder with a list of small repositories.
fn repositories() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    let mut list = String::new();
    for number in 0..REPOSITORIES {
        let root = folder.path().join(format!("r{number}"));
        fs::create_dir(&root).expect("the folder is writable");
        fs::write(root.join("README.md"), format!("# Repository {number}\n")).expect("the folder is writable");
        list.push_str(&format!("r{number}\n"));
    }
    fs::write(folder.path().join("repositories.txt"), list).expect("the folder is writable");
    folder
}

/// Repositories with a result in each shard's file, by the file's name.
fn results(folder: &Path) -> Vec<(String, Vec<String>)> {
    let entries = fs::read_dir(folder.join("results")).expect("they are there");
    let mut shards: Vec<(String, Vec<String>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("it is text");
            let repository = |line: &str| {
                let line: Value = serde_json::from_str(line).expect("JSON");
                line["repository"].as_str().expect("a name").to_owned()
            };
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, text.lines().map(repository).collect())
        })
        .collect();
    shards.sort();
    shards
}

fn binaries() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
    binary.parent().expect("it lies in a folder").to_owned()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the job finds its programs by it")]
fn a_slurm_array_of_four_tasks_on_two_nodes_runs_every_repository_once() {
    let slurm = Slurm::start();
    let (home, place) = (Home::offline(), repositories());
    let path = std::env::var("PATH").unwrap_or_default();
    let submitted = slurm
        .command("sbatch")
        .arg("--wait")
        .arg(source("docs/pipelines/batch.slurm"))
        .args(["repositories.txt", "results"])
        .current_dir(place.path())
        .env("PATH", format!("{}:{path}", binaries().display()))
        .env("HOME", home.path())
        .env("TOOL_HOME", home.path())
        .output()
        .expect("the scheduler answers");
    let log = |task: usize| fs::read_to_string(place.path().join(format!("tool-batch-{task}.log"))).unwrap_or_default();
    let logs: Vec<String> = (1..=4).map(log).collect();
    assert!(submitted.status.success(), "{submitted:?}\n{logs:#?}");
    let shards = results(&place.path().join("results"));
    let sizes: Vec<usize> = shards.iter().map(|(_, done)| done.len()).collect();
    assert_eq!(sizes, [3, 3, 3, 3], "{logs:#?}");
    let union: BTreeSet<&String> = shards.iter().flat_map(|(_, done)| done).collect();
    assert_eq!(union.len(), REPOSITORIES);
    let nodes: BTreeSet<&str> = logs
        .iter()
        .filter_map(|log| log.lines().next()?.rsplit(' ').next())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["node1", "node2"]), "{logs:#?}");
}

/// The manifest's command, with the indexes that Kubernetes counts from 0.
#[test]
#[expect(clippy::disallowed_methods, reason = "a container's shell runs the command")]
fn the_indexes_of_a_kubernetes_job_are_the_shards() {
    let job = read_yaml("docs/pipelines/batch-job.yaml");
    let spec = &job["spec"];
    let container = &spec["template"]["spec"]["containers"][0];
    let script = container["args"][0].as_str().expect("a script");
    let shards = container["env"][0]["value"].as_str().expect("a number");
    assert_eq!(
        (&spec["completionMode"], spec["completions"].to_string().as_str()),
        (&"Indexed".into(), shards)
    );
    assert_eq!(spec["template"]["spec"]["securityContext"]["runAsNonRoot"], true);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let place = repositories();
    let script = script
        .replace("/list/", &format!("{}/", place.path().display()))
        .replace("/results", &format!("{}/results", place.path().display()))
        .replace("--provider hosted", "--offline");
    let run = |index: usize| -> Finished {
        // Each pod has a home of its own.
        let home = Home::empty();
        let tool = home.tool(place.path(), &[]);
        let variables = tool.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(place.path())
            .env_clear()
            .envs(variables)
            .env("PATH", format!("{}:{path}", binaries().display()))
            .env("SHARDS", shards)
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .stdin(Stdio::null());
        finish(command.output().expect("there is a shell")).expect(0)
    };
    let count: usize = shards.parse().expect("a number");
    for index in 0..count {
        holds(&run(index).stdout, &["complete, 0 failed"]);
    }
    let shards = results(&place.path().join("results"));
    assert_eq!((shards.len(), shards[0].0.as_str()), (count, "1-of-8.jsonl"));
    let union: BTreeSet<&String> = shards.iter().flat_map(|(_, done)| done).collect();
    assert_eq!(union.len(), REPOSITORIES);
}
