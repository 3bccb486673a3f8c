//! `tool skill build` and signals: whenever one arrives, the command ends and leaves nothing half.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{Home, fixture_path, folder, is_alive, until};

/// A project in Python, and a program in the place of its compiler.
struct Scene {
    home: Home,
    project: TempDir,
    programs: TempDir,
}

impl Scene {
    /// `build` is what the compiler does in a shell.
    fn new(build: &str) -> Self {
        let script =
            format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo componentize-py 0.25.1; exit; fi\n{build}\n");
        let scene = Self {
            home: Home::offline(),
            project: folder(&[("app.py", "")]),
            programs: folder(&[("componentize-py", &script)]),
        };
        let program = scene.programs.path().join("componentize-py");
        fs::set_permissions(program, PermissionsExt::from_mode(0o755)).expect("it is ours");
        scene
    }

    fn build(&self) -> Child {
        let path = format!("{}:/usr/bin:/bin", self.programs.path().display());
        let mut command = self.home.tool(self.project.path(), &["skill", "build"]);
        let command = command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.project.path().join(name)
    }

    /// Lists the files in the project beside its source.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.project.path()).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "app.py" && name != "started").collect()
    }
}

fn tell(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

#[track_caller]
fn ended(mut child: Child) {
    let mut said = String::new();
    let status = child.wait().expect("it ends");
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
    assert_eq!(status.code(), Some(130), "{said}");
}

#[test]
fn a_build_that_is_terminated_leaves_neither_half_a_component_nor_a_compiler() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let scene = Scene::new("echo half > .building.wasm; echo $$ > starting; mv starting started; sleep 60");
        let child = scene.build();
        until("the compiler runs", || scene.place("started").exists());
        let pid = fs::read_to_string(scene.place("started")).expect("it is there");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        tell(&child, signal);
        ended(child);
        assert_eq!(scene.left(), [""; 0], "{signal:?}");
        assert!(!is_alive(pid), "{signal:?}");
    }
}

/// Compiling a component in Python for this machine takes seconds, and is the last that a build does.
#[test]
fn a_build_that_is_interrupted_at_its_end_ends() {
    let component = fixture_path("skills").join("contract_python.wasm");
    let scene = Scene::new(&format!("cp '{}' .building.wasm", component.display()));
    let mut child = scene.build();
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    lines
        .find(|line| line.as_ref().is_ok_and(|line| line == "looking at the component"))
        .expect("it says so")
        .expect("it is text");
    tell(&child, Signal::INT);
    ended(child);
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn a_build_that_waits_for_another_ones_installation_ends() {
    let scene = Scene::new("exit 1");
    fs::remove_file(scene.programs.path().join("componentize-py")).expect("it is ours");
    let toolchains = scene.home.path().join("toolchains");
    fs::create_dir(&toolchains).expect("the home is ours");
    let lock = File::create(toolchains.join("componentize-py.lock")).expect("the home is ours");
    lock.lock().expect("nobody else has it");
    let child = scene.build();
    until("it can be interrupted", || catches_interrupts(&child));
    // It may be a moment before the lock, or at it.
    std::thread::sleep(std::time::Duration::from_millis(200));
    tell(&child, Signal::INT);
    ended(child);
    assert!(!toolchains.join("componentize-py-0.25.1").exists(), "nothing was begun");
}

/// True once a process handles SIGINT instead of being ended by it.
fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(child.id().to_string()).join("status"));
    let caught = status.ok().and_then(|status| {
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?
            .trim()
            .to_owned();
        u64::from_str_radix(&mask, 16).ok()
    });
    caught.is_some_and(|mask| mask & (1 << (Signal::INT.as_raw() - 1)) != 0)
}
