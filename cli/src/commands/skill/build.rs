//! `tool skill build`: compiles a skill's sources to a component.
//!
//! The user's cargo builds Rust. Python and JavaScript need one exact version of their tools, the one that this program
//! was tested with (`toolchain`). The host checks the component before it is put in place.

mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool_core::api::{ErrorKind, Problem};
use tool_sandbox::build::{find_program, run_builder};
use tool_sandbox::{CommandSpec, RunEnd, RunOutput};
use tool_skill::{Inspection, SkillHost, SkillHostError};

use super::{CommandContext, explain_refusal, open_registry};
use crate::args::SkillLanguage;
use crate::commands::end_signals::EndSignals;
use crate::error::Error;
use crate::output::CommandOutput;

/// Compilation target of a component in Rust.
const TARGET: &str = "wasm32-wasip2";

/// File of a component before it is named, in the same folder, so that one rename is enough.
const UNNAMED: &str = ".building.wasm";

/// The file that identifies a language.
const MARKS: [(&str, SkillLanguage); 3] = [
    ("Cargo.toml", SkillLanguage::Rust),
    ("app.py", SkillLanguage::Python),
    ("skill.js", SkillLanguage::Js),
];

pub(super) async fn build_skill(folder: &Path, context: &CommandContext) -> Result<ExitCode, Error> {
    let folder = fs::canonicalize(folder).map_err(|error| Error::on_file("Skill", folder, &error))?;
    let language = detect_language(&folder)?;
    // Before anything starts, so that a signal is handled at any time until the build is done.
    let mut ending = EndSignals::new()?;
    let cancel = CancellationToken::new();
    let builder = SkillBuilder {
        environment: context.backend.environment.variables().clone(),
        home: context.backend.home.clone(),
        folder: folder.clone(),
        cancel: cancel.clone(),
        output: context.output,
    };
    let registry = open_registry(context)?;
    let work = tokio::task::spawn_blocking(move || {
        let component = builder.build(language)?;
        builder.say("looking at the component");
        inspect_component(&registry, &component, &builder.cancel)
    });
    tokio::pin!(work);
    let built = tokio::select! {
        biased;
        () = ending.asked() => None,
        built = &mut work => Some(built),
    };
    let named = match built {
        None => {
            // Waits for the end of the work: a compiler must not keep running behind the prompt. A second signal exits
            // at once.
            cancel.cancel();
            tokio::select! {
                _ = work => {}
                () = ending.asked() => {}
            }
            Err(Error::Interrupted)
        }
        Some(Ok(built)) => built.and_then(|inspection| name_component(&folder, &inspection)),
        Some(Err(error)) => Err(Error::new(ErrorKind::Build, format!("The build ended early: {error}"))),
    };
    remove_unnamed(&folder);
    print_built(&named?, context)?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a component that was not named. After naming there is nothing to remove.
fn remove_unnamed(folder: &Path) {
    let _ = fs::remove_file(folder.join(UNNAMED));
}

/// The language of the sources in a folder.
fn detect_language(folder: &Path) -> Result<SkillLanguage, Error> {
    let found: Vec<&(&str, SkillLanguage)> = MARKS.iter().filter(|(mark, _)| folder.join(mark).is_file()).collect();
    let known = MARKS
        .map(|(mark, language)| format!("{mark} ({})", language.name()))
        .join(", ");
    match found.as_slice() {
        [(_, language)] => Ok(*language),
        [] => Err(
            Problem::new(ErrorKind::Usage, format!("There is no skill in `{}`", folder.display()))
                .with_hint(format!(
                    "one of these would tell its language: {known}; `tool skill new` begins one"
                ))
                .into(),
        ),
        [(one, _), (other, _), ..] => {
            let message = format!("`{}` holds both {one} and {other}", folder.display());
            Err(Problem::new(ErrorKind::Usage, message)
                .with_hint("a skill has one language: give each a folder of its own")
                .into())
        }
    }
}

/// Reads the descriptor of the component.
fn inspect_component(registry: &SkillHost, component: &Path, cancel: &CancellationToken) -> Result<Inspection, Error> {
    registry
        .inspect_until(component, cancel)
        .map_err(|error| match (cancel.is_cancelled(), error) {
            (true, _) => Error::Interrupted,
            (false, SkillHostError::Refused { reason, .. }) => Error::new(
                ErrorKind::Skill,
                format!("The component was built and is refused: {reason}"),
            ),
            (false, error) => explain_refusal(error),
        })
}

/// Gives the component its name.
fn name_component(folder: &Path, inspection: &Inspection) -> Result<Inspection, Error> {
    let path = folder.join(format!("{}.wasm", inspection.name));
    fs::rename(&inspection.path, &path).map_err(|error| Error::on_file("Component", &path, &error))?;
    Ok(Inspection {
        path,
        ..inspection.clone()
    })
}

fn print_built(built: &Inspection, context: &CommandContext) -> Result<(), Error> {
    context.output.line(&format!(
        "Built {} {}: {}\n  size    {} bytes\n  digest  {}",
        built.name,
        built.version,
        super::super::openable_path(&built.path).display(),
        built.size,
        built.digest
    ))
}

/// Environment, folders, cancellation and output of a build.
struct SkillBuilder {
    environment: std::collections::BTreeMap<String, String>,
    home: PathBuf,
    folder: PathBuf,
    cancel: CancellationToken,
    output: CommandOutput,
}

impl SkillBuilder {
    /// Builds, and returns the unnamed component.
    fn build(&self, language: SkillLanguage) -> Result<PathBuf, Error> {
        let target = self.folder.join(UNNAMED);
        match language {
            SkillLanguage::Rust => {
                let artefact = self.rust()?;
                fs::copy(&artefact, &target).map_err(|error| Error::on_file("Component", &artefact, &error))?;
            }
            SkillLanguage::Python => {
                let program = toolchain::PYTHON.ready(self)?;
                let arguments = ["-q", "-d", "wit", "-w", "project", "componentize", "app", "-o", UNNAMED];
                self.say("building with componentize-py");
                self.run(&program, &arguments)?;
            }
            SkillLanguage::Js => {
                let program = toolchain::JAVASCRIPT.ready(self)?;
                let arguments = [
                    "skill.js",
                    "-w",
                    "wit",
                    "-n",
                    "project",
                    "-d",
                    "http",
                    "-d",
                    "fetch-event",
                    "-o",
                    UNNAMED,
                ];
                self.say("building with componentize-js");
                self.run(&program, &arguments)?;
            }
        }
        Ok(target)
    }

    fn rust(&self) -> Result<PathBuf, Error> {
        let cargo = self.program("cargo", "install Rust: https://rustup.rs")?;
        self.check_target()?;
        let metadata = self.quiet(&cargo, &["metadata", "--no-deps", "--format-version", "1"])?;
        let artefact = find_artefact(&self.folder, &metadata.output)?;
        self.say("building with cargo");
        self.run(&cargo, &["build", "--release", "--lib", "--target", TARGET])?;
        if artefact.is_file() {
            Ok(artefact)
        } else {
            Err(Problem::new(ErrorKind::Build, "The build made no component")
                .with_hint("[lib] of Cargo.toml needs crate-type = [\"cdylib\"]")
                .into())
        }
    }

    /// Checks that the compiler can build for WebAssembly.
    fn check_target(&self) -> Result<(), Error> {
        let rustc = self.program("rustc", "install Rust: https://rustup.rs")?;
        let said = self.quiet(&rustc, &["--print", "target-libdir", "--target", TARGET])?;
        let folder = said.output.lines().last().unwrap_or_default().trim();
        if Path::new(folder).is_dir() {
            Ok(())
        } else {
            Err(
                Problem::new(ErrorKind::Build, format!("The Rust target {TARGET} is missing"))
                    .with_hint(format!("run `rustup target add {TARGET}`"))
                    .into(),
            )
        }
    }

    fn program(&self, name: &str, hint: &str) -> Result<PathBuf, Error> {
        find_program(name, &self.environment).ok_or_else(|| {
            Problem::new(ErrorKind::Build, format!("`{name}` is not there"))
                .with_hint(hint)
                .into()
        })
    }

    fn say(&self, what: &str) {
        self.output.progress(what);
    }

    /// Runs a program in the folder and shows its output.
    fn run(&self, program: &Path, arguments: &[&str]) -> Result<RunOutput, Error> {
        let output = self.output;
        self.run_with(program, arguments, &self.folder, &|line| output.progress(line))
    }

    /// Runs a program for its output.
    fn quiet(&self, program: &Path, arguments: &[&str]) -> Result<RunOutput, Error> {
        self.run_with(program, arguments, &self.folder, &|_| ())
    }

    fn run_with(
        &self,
        program: &Path,
        arguments: &[&str],
        directory: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<RunOutput, Error> {
        let command = CommandSpec {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            directory: directory.to_owned(),
            environment: self.environment.clone(),
        };
        let ran = run_builder(&command, &self.cancel, progress).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let problem = Problem::new(ErrorKind::Build, error.to_string());
            cause.map_or(problem.clone(), |cause| problem.with_hint(cause))
        })?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let why = match ran.end {
            RunEnd::Exited(0) => return Ok(ran),
            RunEnd::Exited(code) => format!("`{name}` failed with exit code {code}"),
            RunEnd::TimedOut => format!("`{name}` took too long and was stopped"),
            RunEnd::Cancelled => return Err(Error::Interrupted),
            _ => format!("`{name}` was ended"),
        };
        Err(Problem::new(ErrorKind::Build, why)
            .with_hint(last_lines(&ran.output))
            .into())
    }
}

/// The library that cargo will build, by its metadata for the package in this folder.
fn find_artefact(folder: &Path, metadata: &str) -> Result<PathBuf, Error> {
    // Warnings may precede the JSON.
    let text = metadata.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let metadata: Value = serde_json::from_str(text).unwrap_or_default();
    let manifest = folder.join("Cargo.toml");
    let here = |package: &&Value| package["manifest_path"].as_str().map(Path::new) == Some(&manifest);
    let package = metadata["packages"].as_array().and_then(|all| all.iter().find(here));
    let is_library = |target: &&Value| {
        let kinds = target["crate_types"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
    };
    let library = package.and_then(|package| package["targets"].as_array()?.iter().find(is_library));
    let name = library.and_then(|library| library["name"].as_str());
    match (name, metadata["target_directory"].as_str()) {
        (Some(name), Some(target)) => {
            let file = format!("{}.wasm", name.replace('-', "_"));
            Ok(Path::new(target).join(TARGET).join("release").join(file))
        }
        _ => Err(Problem::new(
            ErrorKind::Build,
            format!("`{}` builds no component", manifest.display()),
        )
        .with_hint("[lib] needs crate-type = [\"cdylib\"]")
        .into()),
    }
}

/// Lines of a failed program's output that the hint shows.
const HINT_LINES: usize = 12;

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(HINT_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_artefact_is_the_library_of_the_package_in_the_folder() {
        let metadata = r#"warning: something
{"packages": [
 {"manifest_path": "/other/Cargo.toml", "targets": [{"name": "other", "crate_types": ["cdylib"]}]},
 {"manifest_path": "/here/Cargo.toml", "targets": [
   {"name": "tool", "crate_types": ["bin"]}, {"name": "to-do", "crate_types": ["cdylib", "rlib"]}]}],
 "target_directory": "/there/target"}"#;
        let metadata = metadata.replace("\n ", " ").replace("   {", "{");
        let path = find_artefact(Path::new("/here"), &metadata).expect("it is there");
        assert_eq!(path, Path::new("/there/target/wasm32-wasip2/release/to_do.wasm"));
        assert!(find_artefact(Path::new("/nowhere"), &metadata).is_err());
        assert!(find_artefact(Path::new("/here"), "error: no manifest").is_err());
    }

    #[test]
    fn a_folder_has_one_language() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(detect_language(folder.path()).is_err());
        fs::write(folder.path().join("app.py"), "").expect("it is writable");
        assert_eq!(detect_language(folder.path()).ok(), Some(SkillLanguage::Python));
        fs::write(folder.path().join("skill.js"), "").expect("it is writable");
        assert!(detect_language(folder.path()).is_err());
    }

    #[test]
    fn of_a_failure_the_last_lines_are_told() {
        let long: String = (0..100).map(|number| format!("{number}\n\n")).collect();
        assert!(last_lines(&long).starts_with("88\n89\n"));
        assert_eq!(last_lines(""), "");
    }
}
