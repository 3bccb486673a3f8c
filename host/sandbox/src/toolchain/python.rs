//! Chooses the Python of a project: its own before the machine's.
//!
//! The choice only reads files and asks interpreters outside of the repository, because the user has not agreed yet to
//! run anything of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::{CommandSpec, RunEnd, RunLimits, environment};

/// Oldest Python that is supported (specification: 3.10).
const OLDEST: (u32, u32) = (3, 10);

/// Names of interpreters on a `PATH`, the best first.
const NAMES: [&str; 7] = [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python",
];

/// An interpreter, or the tool that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Program to start.
    pub program: PathBuf,
    /// Arguments before those of the interpreter.
    pub prefix: Vec<String>,
    /// Place of its packages.
    pub home: PackageHome,
    /// Version; absent if a tool chooses the interpreter.
    pub version: Option<String>,
}

/// No Python is new enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Python 3.10+ required but not found")]
pub struct MissingPython {
    /// Advice for the user.
    pub hint: String,
}

/// Inputs for the choice.
#[derive(Debug, Clone, Copy)]
struct PythonSearch<'a> {
    root: &'a Path,
    starter: &'a BTreeMap<String, String>,
    cancel: &'a CancellationToken,
}

/// Where an interpreter keeps its packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageHome {
    /// In this virtual environment.
    Environment(PathBuf),
    /// Wherever this tool (uv or Poetry) puts them.
    Managed(&'static str),
    /// In this folder of the machine.
    Machine(PathBuf),
}

impl Python {
    /// The argument vector for these arguments of the interpreter.
    pub fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let own = arguments.iter().map(|argument| (*argument).to_owned());
        self.prefix.iter().cloned().chain(own).collect()
    }

    /// Adapts the environment of a run to the interpreter.
    pub fn enter(&self, environment: &mut BTreeMap<String, String>) {
        environment.remove("VIRTUAL_ENV");
        if let PackageHome::Environment(folder) = &self.home {
            environment.insert("VIRTUAL_ENV".to_owned(), folder.to_string_lossy().into_owned());
            environment::prepend_path(environment, &folder.join("bin"));
        }
    }
}

/// Chooses the Python for a test run of this user. Blocks.
///
/// # Errors
///
/// No Python is new enough.
pub fn find_python(root: &Path, starter: &BTreeMap<String, String>) -> Result<Python, MissingPython> {
    choose_python(root, starter, &CancellationToken::new())
}

/// Chooses a Python: `.venv` or `venv` in the root, the starter's virtual environment, uv or Poetry if the project uses
/// them, or the first Python of the `PATH` that is new enough. Blocks.
///
/// # Errors
///
/// No Python is new enough.
pub fn choose_python(
    root: &Path,
    starter: &BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<Python, MissingPython> {
    choose_in(root, root, starter, cancel)
}

/// Chooses like [`choose_python`] for a folder of the repository, whose environment and manifest come before those of the
/// root. Blocks.
///
/// # Errors
///
/// No Python is new enough.
pub fn choose_in(
    root: &Path,
    directory: &Path,
    starter: &BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<Python, MissingPython> {
    let folders = if directory == root {
        vec![root]
    } else {
        vec![directory, root]
    };
    let environments = folders
        .iter()
        .flat_map(|folder| [".venv", "venv"].map(|name| folder.join(name)));
    let own: Vec<PathBuf> = environments.collect();
    let starters = starter.get("VIRTUAL_ENV").map(PathBuf::from);
    let starters = starters.filter(|folder| folder.is_absolute());
    if let Some(folder) = own.into_iter().chain(starters).find(|folder| is_environment(folder)) {
        return in_environment(folder);
    }
    let surroundings = PythonSearch { root, starter, cancel };
    let managed = folders.into_iter().find_map(|folder| surroundings.managed(folder));
    match managed {
        Some(python) => Ok(python),
        None => surroundings.on_path(),
    }
}

/// True for a virtual environment with an interpreter. One that was copied from another machine has a dead link.
fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file() && environment::is_executable(&folder.join("bin/python"))
}

fn in_environment(folder: PathBuf) -> Result<Python, MissingPython> {
    let declared = environment::venv_record(&folder).and_then(|record| declared_version(&record));
    let known = declared.as_deref().and_then(parse_version);
    if let Some((major, minor)) = known.filter(|&version| version < OLDEST) {
        let place = folder.display();
        return Err(missing_python(&format!(
            "the virtual environment `{place}` has Python {major}.{minor}: make it anew with a newer one"
        )));
    }
    Ok(Python {
        program: folder.join("bin/python"),
        prefix: Vec::new(),
        home: PackageHome::Environment(folder),
        version: declared.filter(|_| known.is_some()),
    })
}

fn missing_python(hint: &str) -> MissingPython {
    MissingPython { hint: hint.to_owned() }
}

/// Reads the version in `pyvenv.cfg`, so that no program of the repository has to be asked.
fn declared_version(record: &str) -> Option<String> {
    record.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "version" | "version_info").then(|| value.trim().to_owned())
    })
}

/// Parses `3.12.1` or `3.12.1.final.0`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

impl PythonSearch<'_> {
    /// uv or Poetry, if the project uses it and it is installed. Neither may use the network.
    fn managed(&self, directory: &Path) -> Option<Python> {
        let manifest = environment::small_file(&directory.join("pyproject.toml"));
        let manifest = manifest.and_then(|text| text.parse::<toml::Table>().ok());
        let has_section = |name: &str| {
            let tools = manifest.as_ref().and_then(|manifest| manifest.get("tool"));
            tools.and_then(|tools| tools.get(name)).is_some()
        };
        let has_file = |name: &str| directory.join(name).is_file();
        let found = |name: &'static str, prefix: &[&str]| {
            let programs = environment::find_programs_outside(self.starter, name, self.root);
            Some(Python {
                program: programs.into_iter().next()?,
                prefix: prefix.iter().map(|part| (*part).to_owned()).collect(),
                home: PackageHome::Managed(name),
                version: None,
            })
        };
        let uv = || found("uv", &["run", "--no-sync", "--offline", "python"]);
        let poetry = || found("poetry", &["run", "python"]);
        let hatch = || found("hatch", &["run", "python"]);
        let by_uv = (has_file("uv.lock") || has_section("uv")).then(uv).flatten();
        by_uv.or_else(|| {
            let is_poetrys = has_file("poetry.lock") || has_section("poetry");
            is_poetrys
                .then(poetry)
                .flatten()
                .or_else(|| has_section("hatch").then(hatch).flatten())
        })
    }

    /// The first interpreter of the `PATH` that is new enough.
    fn on_path(&self) -> Result<Python, MissingPython> {
        let mut too_old = None;
        for program in pythons_on_path(self.root, self.starter) {
            let Some((text, packages)) = self.ask(&program) else {
                continue;
            };
            let Some(version) = parse_version(&text) else { continue };
            if version >= OLDEST {
                return Ok(Python {
                    program,
                    prefix: Vec::new(),
                    home: PackageHome::Machine(packages),
                    version: Some(text),
                });
            }
            too_old.get_or_insert((program, version));
        }
        let found = too_old.map(|(program, (major, minor))| format!("; `{}` is {major}.{minor}", program.display()));
        Err(missing_python(&format!(
            "install Python 3.10 or newer, or make a virtual environment `.venv` with it{}",
            found.unwrap_or_default()
        )))
    }

    /// Asks an interpreter for its version and its package folder. `-I` and the working directory keep the repository
    /// out: shims of version managers run what a file in the working directory names.
    fn ask(&self, program: &Path) -> Option<(String, PathBuf)> {
        const QUESTION: &str = "import sys, sysconfig; print('%d.%d.%d' % sys.version_info[:3]); \
                                print(sysconfig.get_path('purelib'))";
        let command = CommandSpec {
            program: program.to_owned(),
            arguments: ["-I", "-c", QUESTION].map(str::to_owned).to_vec(),
            directory: PathBuf::from("/"),
            environment: environment::for_run(self.starter),
        };
        let limits = RunLimits::within(Duration::from_secs(limits::PROBE_SECONDS_MAX));
        let run = crate::run_command(&command, &limits, self.cancel, &|_| {}).ok()?;
        let mut lines = run.output.lines();
        let version = lines.next()?.trim().to_owned();
        let packages = lines.next().map(PathBuf::from).unwrap_or_default();
        (run.end == RunEnd::Exited(0)).then_some((version, packages))
    }
}

/// Interpreters of the machine, the best first, without those in the repository.
pub fn pythons_on_path<'a>(
    root: &'a Path,
    starter: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = PathBuf> + 'a {
    let names = NAMES.into_iter();
    names.flat_map(move |name| environment::find_programs_outside(starter, name, root))
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::toolchain::testing::ToolchainMachine;

    fn told(record: &str) -> Option<(u32, u32)> {
        parse_version(&declared_version(record)?)
    }

    fn choose_python(machine: &ToolchainMachine) -> Result<Python, MissingPython> {
        find_python(&machine.root(), &machine.starter)
    }

    #[test]
    fn versions_are_read_as_venv_virtualenv_and_uv_write_them() {
        assert_eq!(told("home = /usr/bin\nversion = 3.11.7\n"), Some((3, 11)));
        assert_eq!(told("version_info = 3.9.18.final.0\nversion = 3.9.18\n"), Some((3, 9)));
        assert_eq!(
            told("home = /usr/bin\nuv = 0.4.0\nversion_info = 3.13.0\n"),
            Some((3, 13))
        );
        assert_eq!(told("home = /usr/bin\nversion = new\n"), None);
    }

    #[test]
    fn the_projects_environment_comes_before_the_starters_and_the_machines() {
        let mut machine = ToolchainMachine::new();
        let elsewhere = machine.environment("../elsewhere", "3.12.0", "");
        machine.python("python3", "3.11", "");
        let chosen = |machine: &ToolchainMachine| choose_python(machine).expect("there is one");
        assert_eq!(
            chosen(&machine).home,
            PackageHome::Machine(PathBuf::from("/machine/site-packages"))
        );
        machine.set("VIRTUAL_ENV", &elsewhere.to_string_lossy());
        assert_eq!(chosen(&machine).program, elsewhere.join("bin/python"));
        let venv = machine.environment("venv", "3.12.0", "");
        assert_eq!(chosen(&machine).program, venv.join("bin/python"));
        let dot_venv = machine.environment(".venv", "3.12.0", "");
        let chosen = chosen(&machine);
        assert_eq!(chosen.program, dot_venv.join("bin/python"));
        let mut environment = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        chosen.enter(&mut environment);
        assert_eq!(environment["VIRTUAL_ENV"], dot_venv.to_string_lossy());
        assert_eq!(environment["PATH"], format!("{}/bin:/bin", dot_venv.display()));
    }

    #[test]
    fn a_dead_environment_is_passed_over() {
        let machine = ToolchainMachine::new();
        machine.python("python3", "3.11", "");
        let venv = machine.environment(".venv", "3.12.0", "");
        std::fs::remove_file(venv.join("bin/python")).expect("it was there");
        std::os::unix::fs::symlink("/nowhere/python", venv.join("bin/python")).expect("links can be made");
        let chosen = choose_python(&machine).expect("there is one");
        assert_eq!(
            chosen.home,
            PackageHome::Machine(PathBuf::from("/machine/site-packages"))
        );
    }

    #[test]
    fn uv_and_poetry_are_used_where_the_project_is_theirs_and_they_are_there() {
        let machine = ToolchainMachine::new();
        machine.python("python3", "3.11", "");
        machine.write("pyproject.toml", "[tool.poetry]\nname = \"x\"\n");
        let home = |machine: &ToolchainMachine| choose_python(machine).expect("there is one").home;
        assert!(
            matches!(home(&machine), PackageHome::Machine(_)),
            "Poetry is not installed"
        );
        machine.tool("poetry", "");
        assert_eq!(home(&machine), PackageHome::Managed("poetry"));
        machine.write("uv.lock", "");
        machine.tool("uv", "");
        assert_eq!(home(&machine), PackageHome::Managed("uv"));
        let chosen = choose_python(&machine).expect("there is one");
        assert_eq!(
            chosen.arguments(&["-m", "x"]),
            ["run", "--no-sync", "--offline", "python", "-m", "x"]
        );
    }

    #[test]
    fn old_interpreters_are_passed_over_and_then_named() {
        let machine = ToolchainMachine::new();
        machine.python("python3", "3.9", "");
        let failure = choose_python(&machine).expect_err("3.9 is too old");
        assert_eq!(failure.to_string(), "Python 3.10+ required but not found");
        assert!(failure.hint.ends_with("/bin/python3` is 3.9"));
        machine.python("python3.12", "3.12", "");
        let chosen = choose_python(&machine).expect("there is one");
        assert!(chosen.program.ends_with("python3.12"));
        machine.environment(".venv", "3.8.1", "");
        let failure = choose_python(&machine).expect_err("3.8 is too old");
        assert!(
            failure.hint.contains("has Python 3.8: make it anew"),
            "{}",
            failure.hint
        );
    }

    #[test]
    fn an_interpreter_of_the_repository_is_never_asked() {
        let mut machine = ToolchainMachine::new();
        let marker = machine.outside("marker");
        machine.repository_program(
            "bin/python3",
            &format!("touch '{}'; echo 3.12; echo /x", marker.display()),
        );
        let linked = machine.outside("linked");
        std::os::unix::fs::symlink(machine.root().join("bin"), &linked).expect("links can be made");
        let own = machine.path().to_owned();
        for folder in [machine.root().join("bin"), linked] {
            machine.set("PATH", &format!("{}:{own}", folder.display()));
            choose_python(&machine).expect_err("there is no other");
            assert!(!marker.exists());
        }
    }
}
