//! Which Python a recipe uses: the project's own before the machine's.
//!
//! The choice reads files and asks only interpreters from outside the repository, because it is made before the user
//! has agreed to run anything of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::limits;
use crate::process::{self, CommandSpec, RunEnd, RunLimits, environment};
use crate::skill::CallContext;
use crate::skill::bindings::tool::skill::types::Failure;
use crate::skill::imports::failure::hinted;

use super::{program, small_file};

/// The oldest Python that is used (specification: 3.10).
const OLDEST: (u32, u32) = (3, 10);

/// Names of interpreters on a `PATH`, best first.
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
pub(in crate::skill::imports) struct Python {
    /// What is started.
    pub(in crate::skill::imports) program: PathBuf,
    /// What comes before the interpreter's own arguments.
    pub(in crate::skill::imports) prefix: Vec<String>,
    /// Where packages are.
    pub(in crate::skill::imports) home: Home,
}

/// Where an interpreter keeps its packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::skill::imports) enum Home {
    /// In this virtual environment.
    Environment(PathBuf),
    /// Wherever uv or Poetry put them.
    Managed(&'static str),
    /// In this folder of the machine.
    Machine(PathBuf),
}

impl Python {
    /// The argument vector for these arguments of the interpreter.
    pub(in crate::skill::imports) fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let own = arguments.iter().map(|argument| (*argument).to_owned());
        self.prefix.iter().cloned().chain(own).collect()
    }

    /// Makes the environment of a run fit the interpreter.
    pub(in crate::skill::imports) fn enter(&self, environment: &mut BTreeMap<String, String>) {
        environment.remove("VIRTUAL_ENV");
        if let Home::Environment(folder) = &self.home {
            environment.insert("VIRTUAL_ENV".to_owned(), folder.to_string_lossy().into_owned());
            environment::prepend_path(environment, &folder.join("bin"));
        }
    }
}

/// Chooses: `.venv` or `venv` in the root, the starter's virtual environment, uv or Poetry where the project uses
/// them, else the first Python of the `PATH` that is new enough.
pub(in crate::skill::imports) fn choose(context: &CallContext) -> Result<Python, Failure> {
    let root = context.repository.root();
    let own = [".venv", "venv"].map(|name| root.join(name));
    let starters = context
        .environment
        .get("VIRTUAL_ENV")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    if let Some(folder) = own.into_iter().chain(starters).find(|folder| is_environment(folder)) {
        return in_environment(folder);
    }
    match managed(context) {
        Some(python) => Ok(python),
        None => on_path(context),
    }
}

/// True for a virtual environment whose interpreter is there: one that was copied from another machine has a dead link.
fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file() && environment::executable(&folder.join("bin/python"))
}

fn in_environment(folder: PathBuf) -> Result<Python, Failure> {
    if let Some((major, minor)) = declared_version(&folder).filter(|&version| version < OLDEST) {
        let place = folder.display();
        return Err(missing(&format!(
            "the virtual environment `{place}` has Python {major}.{minor}: make it anew with a newer one"
        )));
    }
    Ok(Python {
        program: folder.join("bin/python"),
        prefix: Vec::new(),
        home: Home::Environment(folder),
    })
}

fn missing(hint: &str) -> Failure {
    hinted("unavailable", "Python 3.10+ required but not found", hint)
}

/// What `pyvenv.cfg` says, so that nothing of the repository has to be asked.
fn declared_version(folder: &Path) -> Option<(u32, u32)> {
    version_in(&environment::venv_record(folder)?)
}

fn version_in(configuration: &str) -> Option<(u32, u32)> {
    configuration.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let is_version = matches!(key.trim(), "version" | "version_info");
        is_version.then(|| version(value.trim()))?
    })
}

/// `3.12.1` or `3.12.1.final.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// uv or Poetry, where the project's files are theirs and the tool is there. Neither may reach for the network.
fn managed(context: &CallContext) -> Option<Python> {
    let manifest = small_file(context, "pyproject.toml").and_then(|text| text.parse::<toml::Table>().ok());
    let has_section = |name: &str| {
        let tools = manifest.as_ref().and_then(|manifest| manifest.get("tool"));
        tools.and_then(|tools| tools.get(name)).is_some()
    };
    let has_file = |name: &str| context.repository.open_at(name).is_ok();
    let found = |name: &'static str, prefix: &[&str]| {
        Some(Python {
            program: program(context, name)?,
            prefix: prefix.iter().map(|part| (*part).to_owned()).collect(),
            home: Home::Managed(name),
        })
    };
    let uv = || found("uv", &["run", "--no-sync", "--offline", "python"]);
    let poetry = || found("poetry", &["run", "python"]);
    let by_uv = (has_file("uv.lock") || has_section("uv")).then(uv).flatten();
    by_uv.or_else(|| {
        (has_file("poetry.lock") || has_section("poetry"))
            .then(poetry)
            .flatten()
    })
}

/// The first interpreter of the `PATH` that is new enough.
fn on_path(context: &CallContext) -> Result<Python, Failure> {
    let mut too_old = None;
    for name in NAMES {
        for program in environment::find_programs(&context.environment, name) {
            if program.starts_with(context.repository.root()) {
                continue;
            }
            let Some((version, packages)) = ask(context, &program) else {
                continue;
            };
            if version >= OLDEST {
                return Ok(Python {
                    program,
                    prefix: Vec::new(),
                    home: Home::Machine(packages),
                });
            }
            too_old.get_or_insert((program, version));
        }
    }
    let found = too_old.map(|(program, (major, minor))| format!("; `{}` is {major}.{minor}", program.display()));
    Err(missing(&format!(
        "install Python 3.10 or newer, or make a virtual environment `.venv` with it{}",
        found.unwrap_or_default()
    )))
}

/// Asks an interpreter for its version and its package folder. `-I` keeps the repository out of it.
fn ask(context: &CallContext, program: &Path) -> Option<((u32, u32), PathBuf)> {
    const QUESTION: &str =
        "import sys, sysconfig; print('%d.%d' % sys.version_info[:2]); print(sysconfig.get_path('purelib'))";
    let command = CommandSpec {
        program: program.to_owned(),
        arguments: ["-I", "-c", QUESTION].map(str::to_owned).to_vec(),
        directory: context.repository.root().to_owned(),
        environment: environment::for_run(&context.environment),
    };
    let limits = RunLimits::within(limits::seconds(limits::PROBE_SECONDS_MAX));
    let run = process::run(&command, &limits, &context.cancel, &|_| {}).ok()?;
    let mut lines = run.output.lines();
    let version = version(lines.next()?)?;
    let packages = lines.next().map(PathBuf::from).unwrap_or_default();
    (run.end == RunEnd::Exited(0)).then_some((version, packages))
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::skill::imports::recipe::testing::Project;

    #[test]
    fn versions_are_read_as_venv_virtualenv_and_uv_write_them() {
        assert_eq!(version_in("home = /usr/bin\nversion = 3.11.7\n"), Some((3, 11)));
        assert_eq!(
            version_in("version_info = 3.9.18.final.0\nversion = 3.9.18\n"),
            Some((3, 9))
        );
        assert_eq!(
            version_in("home = /usr/bin\nuv = 0.4.0\nversion_info = 3.13.0\n"),
            Some((3, 13))
        );
        assert_eq!(version_in("home = /usr/bin\nversion = new\n"), None);
    }

    #[test]
    fn the_projects_environment_comes_before_the_starters_and_the_machines() {
        let mut project = Project::new();
        let elsewhere = project.environment("../elsewhere", "3.12.0", "");
        project.machine_python("python3", "3.11", "");
        let choose = |project: &Project| choose(&project.context(&[])).expect("there is one");
        assert_eq!(
            choose(&project).home,
            Home::Machine(PathBuf::from("/machine/site-packages"))
        );
        project.set("VIRTUAL_ENV", &elsewhere.to_string_lossy());
        assert_eq!(choose(&project).program, elsewhere.join("bin/python"));
        let venv = project.environment("venv", "3.12.0", "");
        assert_eq!(choose(&project).program, venv.join("bin/python"));
        let dot_venv = project.environment(".venv", "3.12.0", "");
        let chosen = choose(&project);
        assert_eq!(chosen.program, dot_venv.join("bin/python"));
        let mut environment = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        chosen.enter(&mut environment);
        assert_eq!(environment["VIRTUAL_ENV"], dot_venv.to_string_lossy());
        assert_eq!(environment["PATH"], format!("{}/bin:/bin", dot_venv.display()));
    }

    #[test]
    fn a_dead_environment_is_passed_over() {
        let project = Project::new();
        project.machine_python("python3", "3.11", "");
        let venv = project.environment(".venv", "3.12.0", "");
        std::fs::remove_file(venv.join("bin/python")).expect("it was there");
        std::os::unix::fs::symlink("/nowhere/python", venv.join("bin/python")).expect("links can be made");
        let chosen = choose(&project.context(&[])).expect("there is one");
        assert_eq!(chosen.home, Home::Machine(PathBuf::from("/machine/site-packages")));
    }

    #[test]
    fn uv_and_poetry_are_used_where_the_project_is_theirs_and_they_are_there() {
        let project = Project::new();
        project.machine_python("python3", "3.11", "");
        project.write("pyproject.toml", "[tool.poetry]\nname = \"x\"\n");
        let home = |project: &Project| choose(&project.context(&[])).expect("there is one").home;
        assert!(matches!(home(&project), Home::Machine(_)), "Poetry is not installed");
        project.tool("poetry", "");
        assert_eq!(home(&project), Home::Managed("poetry"));
        project.write("uv.lock", "");
        project.tool("uv", "");
        assert_eq!(home(&project), Home::Managed("uv"));
        let chosen = choose(&project.context(&[])).expect("there is one");
        assert_eq!(
            chosen.arguments(&["-m", "x"]),
            ["run", "--no-sync", "--offline", "python", "-m", "x"]
        );
    }

    #[test]
    fn old_interpreters_are_passed_over_and_then_named() {
        let project = Project::new();
        project.machine_python("python3", "3.9", "");
        let failure = choose(&project.context(&[])).expect_err("3.9 is too old");
        assert_eq!(failure.message, "Python 3.10+ required but not found");
        assert!(failure.hint.is_some_and(|hint| hint.ends_with("/bin/python3` is 3.9")));
        project.machine_python("python3.12", "3.12", "");
        let chosen = choose(&project.context(&[])).expect("there is one");
        assert!(chosen.program.ends_with("python3.12"));
        project.environment(".venv", "3.8.1", "");
        let failure = choose(&project.context(&[])).expect_err("3.8 is too old");
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            ("unavailable", "Python 3.10+ required but not found")
        );
    }

    #[test]
    fn an_interpreter_of_the_repository_is_never_asked() {
        let mut project = Project::new();
        let marker = project.outside("marker");
        project.repository_program(
            "bin/python3",
            &format!("touch '{}'; echo 3.12; echo /x", marker.display()),
        );
        let path = format!("{}:{}", project.root().join("bin").display(), project.path());
        project.set("PATH", &path);
        choose(&project.context(&[])).expect_err("there is no other");
        assert!(!marker.exists());
    }

    #[test]
    fn an_interpreter_that_never_answers_is_given_up() {
        let project = Project::new();
        project.tool("python3", "exec sleep 30");
        let _hurried = limits::pace::hurried(20);
        let started = std::time::Instant::now();
        choose(&project.context(&[])).expect_err("there is no other");
        assert!(
            started.elapsed().as_secs() < limits::PROBE_SECONDS_MAX,
            "{:?}",
            started.elapsed()
        );
    }
}
