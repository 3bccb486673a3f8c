//! The commands that build, run, test and lint a project, each with the line of the project that declares it.

mod documented_commands;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::evidence::FileLine;
use crate::manifest::ReadFile;
use crate::readme::is_readme;
use crate::survey::{Survey, is_aside_manifest, is_test_helper, strip_directory};
use crate::text::{cite_lines, cut_text, quote_code};
pub(super) use documented_commands::command_documents as stating_documents;
use documented_commands::stated_command;
use tool_repository::file_role::{file_name, parent_directory};
use tool_repository::path::join_path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CommandPurpose {
    Build,
    Run,
    Test,
    Lint,
}

impl CommandPurpose {
    /// Word before the command.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Run => "run",
            Self::Test => "test",
            Self::Lint => "lint",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectCommand {
    pub(super) purpose: CommandPurpose,
    /// The command as a person types it.
    pub(super) command: String,
    /// The script that it runs, if the manifest has one.
    pub(super) script: String,
    pub(super) path: String,
    /// Line of the declaration, from 1; absent if only the name of the file shows the command.
    pub(super) line: Option<usize>,
    /// Text of that line, if it differs from the command.
    pub(super) evidence: String,
}

impl ProjectCommand {
    /// Citation of the evidence, with its text.
    pub(super) fn place(&self) -> String {
        let place = self
            .line
            .map_or_else(|| quote_code(&self.path), |line| cite_lines(&self.path, &line));
        match self.evidence.as_str() {
            "" => place,
            words => format!("{}, {place}", quote_code(words)),
        }
    }
}

/// Longest evidence in bytes.
const EVIDENCE_BYTES_MAX: usize = 60;

/// The beginning of a line, cut after a word.
fn evidence_of(line: &str) -> String {
    let line = line.trim();
    if line.len() <= EVIDENCE_BYTES_MAX {
        return line.to_owned();
    }
    let beginning = &line[..line.floor_char_boundary(EVIDENCE_BYTES_MAX)];
    beginning
        .rsplit_once(char::is_whitespace)
        .map_or(beginning, |(words, _)| words)
        .trim_end()
        .to_owned()
}

/// Collects the commands that manifests and build files declare, by purpose. If they have none to build or to test, the
/// documents for developers and the README are searched for one. `files` are all files that were read.
pub(super) fn project_commands(
    target: &str,
    survey: &Survey,
    files: &[&ReadFile],
    documents: &[&ReadFile],
) -> Vec<ProjectCommand> {
    let root = build_root(target, survey);
    let folder = root.as_deref().unwrap_or(target);
    let in_folder = files
        .iter()
        .copied()
        .filter(|file| parent_directory(&file.path) == folder);
    let own: Vec<&ReadFile> = in_folder.collect();
    let collector = CommandCollector {
        target: folder,
        survey,
        files: &own,
        all: files,
    };
    let mut commands: Vec<ProjectCommand> = own.iter().flat_map(|file| collector.of_file(file)).collect();
    commands.extend(collector.of_names());
    if let Some(root) = &root {
        for command in &mut commands {
            command.command = format!("cd {root} && {}", command.command);
        }
    }
    let in_target = files.iter().filter(|file| parent_directory(&file.path) == target);
    let readmes = in_target.copied().filter(|file| is_readme(&file.path));
    let documents: Vec<&ReadFile> = documents.iter().copied().chain(readmes).collect();
    for purpose in [CommandPurpose::Build, CommandPurpose::Test] {
        if !commands.iter().any(|command| command.purpose == purpose) {
            commands.extend(stated_command(purpose, target, survey, &documents));
        }
    }
    commands.sort_by_key(|command| command.purpose);
    commands.dedup_by(|a, b| a.command == b.command);
    commands
}

/// The folder with the build files if the root of the repository has none: the one with most sources.
pub(super) fn build_root(target: &str, survey: &Survey) -> Option<String> {
    let is_build_file = |path: &str| BUILD_FILES.contains(&file_name(path)) || path.ends_with(".gemspec");
    let paths = survey.files.iter().map(|file| file.path.as_str());
    let folders: BTreeSet<&str> = paths
        .filter(|path| path.matches('/').count() < 2 && is_build_file(path) && !is_aside_manifest(path))
        .map(parent_directory)
        .collect();
    if !target.is_empty() || folders.contains(target) {
        return None;
    }
    let is_inside = |path: &str, folder: &str| strip_directory(path, folder).is_some();
    let sources = |folder: &str| survey.sources().filter(|file| is_inside(&file.path, folder)).count();
    let folders = folders.into_iter().filter(|folder| is_plain_path(folder));
    let (count, folder) = folders.map(|folder| (sources(folder), folder)).max()?;
    (count * 2 > survey.sources().count()).then(|| folder.to_owned())
}

/// True for a path without special characters, so that a command with it can be copied into a shell.
fn is_plain_path(path: &str) -> bool {
    !path.starts_with('-') && path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
}

/// Any of these files makes a folder the root of a build.
const BUILD_FILES: [&str; 16] = [
    "pyproject.toml",
    "setup.py",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "settings.gradle",
    "settings.gradle.kts",
    "composer.json",
    "mix.exs",
    "Gemfile",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Makefile",
    "GNUmakefile",
];

struct CommandCollector<'a> {
    target: &'a str,
    survey: &'a Survey,
    /// Files directly in the target folder, not in a folder below it.
    files: &'a [&'a ReadFile],
    all: &'a [&'a ReadFile],
}

impl CommandCollector<'_> {
    fn has(&self, name: &str) -> bool {
        self.survey.has(&join_path(self.target, name))
    }

    fn of_file(&self, file: &ReadFile) -> Vec<ProjectCommand> {
        use CommandPurpose::{Build, Lint, Run, Test};
        match file.name() {
            "package.json" => self.npm_scripts(file),
            "composer.json" => composer_scripts(file),
            "Cargo.toml" => {
                let workspace = if file.find(r"^\[workspace\]").is_some() {
                    " --workspace"
                } else {
                    ""
                };
                let declared = r"^\[(package|workspace)\]";
                let mut commands = vec![
                    on_line(file, Build, &format!("cargo build{workspace}"), declared),
                    on_line(file, Test, &format!("cargo test{workspace}"), declared),
                ];
                let programs = join_path(self.target, "src/bin/");
                let is_program = |path: &str| path.starts_with(&programs) && !is_test_helper(path);
                let has_programs = self.survey.files.iter().any(|file| is_program(&file.path));
                let has_declared = file
                    .cargo_programs()
                    .iter()
                    .any(|program| !is_test_helper(&program.text));
                if self.has("src/main.rs") || has_programs || has_declared {
                    commands.push(on_line(file, Run, "cargo run", declared));
                }
                flatten_commands(commands)
            }
            "go.mod" => {
                let mut commands = vec![
                    on_line(file, Build, "go build ./...", r"^module "),
                    on_line(file, Test, "go test ./...", r"^module "),
                ];
                if self.has("main.go") {
                    commands.push(on_line(file, Run, "go run .", r"^module "));
                }
                flatten_commands(commands)
            }
            "pom.xml" => {
                let program = if self.has("mvnw") { "./mvnw" } else { "mvn" };
                flatten_commands(vec![
                    on_line(file, Build, &format!("{program} package"), "<project"),
                    on_line(file, Test, &format!("{program} test"), "<project"),
                ])
            }
            "build.gradle" | "build.gradle.kts" => {
                let program = if self.has("gradlew") { "./gradlew" } else { "gradle" };
                let declared = r"^\s*(plugins|buildscript|apply|allprojects|subprojects|dependencies)\b";
                let of = |purpose, command: &str| {
                    on_line(file, purpose, command, declared).or_else(|| on_line(file, purpose, command, r"^\s*[a-z]"))
                };
                flatten_commands(vec![
                    of(Build, &format!("{program} build")),
                    of(Test, &format!("{program} test")),
                ])
            }
            "mix.exs" => flatten_commands(vec![
                on_line(file, Build, "mix compile", r"\bproject\b"),
                on_line(file, Test, "mix test", r"\bproject\b"),
            ]),
            "pyproject.toml" => self.python_commands(file),
            "setup.py" if !self.is_built_by_pyproject() => {
                flatten_commands(vec![on_line(file, Build, "python -m pip install .", r"\bsetup\s*\(")])
            }
            "setup.cfg" => flatten_commands(vec![
                on_line(file, Test, "python -m pytest", r"^\[tool:pytest\]"),
                on_line(file, Lint, "flake8", r"^\[flake8\]"),
            ]),
            "pytest.ini" => flatten_commands(vec![on_line(file, Test, "python -m pytest", r"^\[pytest\]")]),
            "tox.ini" => flatten_commands(vec![
                on_line(file, Test, "tox", r"^\[(tox|testenv)"),
                on_line(file, Test, "python -m pytest", r"^\[pytest\]"),
            ]),
            "noxfile.py" => flatten_commands(vec![on_line(file, Test, "nox", r"^def tests?\b|@nox\.session")]),
            "Gemfile" => flatten_commands(vec![on_line(
                file,
                Build,
                "bundle install",
                r"^\s*(source|gemspec|gem)\b",
            )]),
            "Rakefile" => flatten_commands(vec![
                on_line(
                    file,
                    Test,
                    "bundle exec rake test",
                    r"Rake::TestTask|Minitest::TestTask|^task :?.?test\b",
                ),
                on_line(file, Test, "bundle exec rake spec", r"RSpec::Core::RakeTask"),
            ]),
            ".rspec" => flatten_commands(vec![on_line(file, Test, "bundle exec rspec", r"\S")]),
            "phpunit.xml" | "phpunit.xml.dist" => {
                flatten_commands(vec![on_line(file, Test, self.phpunit(), "<phpunit")])
            }
            "CMakeLists.txt" => flatten_commands(vec![
                on_line(
                    file,
                    Build,
                    "cmake -B build && cmake --build build",
                    r"(?i)^\s*project\s*\(",
                ),
                on_line(
                    file,
                    Test,
                    "ctest --test-dir build",
                    r"(?i)\b(enable_testing|add_test)\s*\(|include\s*\(\s*CTest",
                ),
                on_line(
                    file,
                    Test,
                    "cmake --build build --target verify",
                    r"(?i)^\s*add_custom_target\s*\(\s*verify\b",
                ),
            ]),
            "meson.build" => flatten_commands(vec![
                on_line(
                    file,
                    Build,
                    "meson setup build && meson compile -C build",
                    r"^\s*project\s*\(",
                ),
                on_line(file, Test, "meson test -C build", r"\btest\s*\(|subdir\s*\(\s*'tests?'"),
            ]),
            "Makefile" | "GNUmakefile" | "makefile" => make_targets(file),
            "Makefile.am" => {
                // In a checkout the script often has to be generated first.
                let made = match (self.has("configure"), self.has("autogen.sh")) {
                    (true, _) => "",
                    (false, true) => "./autogen.sh && ",
                    (false, false) => "autoreconf -i && ",
                };
                flatten_commands(vec![
                    on_line(file, Build, &format!("{made}./configure && make"), r"^\w+\s*\+?="),
                    on_line(file, Test, "make check", r"^(TESTS|check_PROGRAMS)\b|^check"),
                ])
            }
            "justfile" => flatten_commands(vec![
                on_line(file, Build, "just build", r"^build\b.*:"),
                on_line(file, Test, "just test", r"^test\b.*:"),
                on_line(file, Lint, "just lint", r"^lint\b.*:"),
            ]),
            ".pre-commit-config.yaml" => {
                flatten_commands(vec![on_line(file, Lint, "pre-commit run --all-files", r"^repos:")])
            }
            ".golangci.yml" | ".golangci.yaml" => {
                flatten_commands(vec![on_line(file, Lint, "golangci-lint run", r"^[a-z]")])
            }
            _ => Vec::new(),
        }
    }

    /// True if a `pyproject.toml` describes how the package is built, and does more than configure tools.
    fn is_built_by_pyproject(&self) -> bool {
        let mut manifests = self.files.iter().filter(|file| file.name() == "pyproject.toml");
        manifests.any(|file| file.find(r"^\[(build-system|project|tool\.poetry)\]").is_some())
    }

    /// PHPUnit at the path where the project installs it.
    fn phpunit(&self) -> &'static str {
        let installs = |package: &str| {
            let manifests = self.files.iter().filter(|file| file.name() == "composer.json");
            manifests
                .flat_map(|file| &file.lines)
                .any(|line| line.text.contains(package))
        };
        if installs("\"phpunit/phpunit\"") {
            "vendor/bin/phpunit"
        } else if installs("\"symfony/phpunit-bridge\"") {
            "vendor/bin/simple-phpunit"
        } else {
            "phpunit"
        }
    }

    fn python_commands(&self, file: &ReadFile) -> Vec<ProjectCommand> {
        use CommandPurpose::{Build, Lint, Test};
        let uv = if self.has("uv.lock") { "uv run " } else { "" };
        let pytest = if uv.is_empty() {
            "python -m pytest"
        } else {
            "uv run pytest"
        };
        let poetry = file.find(r"^\[tool\.poetry\]").is_some();
        let install = if !uv.is_empty() {
            "uv sync"
        } else if poetry {
            "poetry install"
        } else {
            "python -m pip install ."
        };
        flatten_commands(vec![
            on_line(file, Build, install, r"^\[(build-system|project|tool\.poetry)\]"),
            on_line(file, Test, pytest, r"^\[tool\.pytest"),
            on_line(file, Test, "tox", r"^\[tool\.tox"),
            on_line(file, Test, "hatch test", r"^\[tool\.hatch\.envs\.hatch-test"),
            on_line(file, Lint, &format!("{uv}ruff check"), r"^\[tool\.ruff"),
            on_line(file, Lint, &format!("{uv}mypy ."), r"^\[tool\.mypy\]"),
        ])
    }

    fn npm_scripts(&self, file: &ReadFile) -> Vec<ProjectCommand> {
        let managers = [
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
        ];
        let manager = managers
            .into_iter()
            .find_map(|(lock, manager)| self.has(lock).then_some(manager))
            .unwrap_or("npm");
        let scripts = file.json().map(|value| value["scripts"].clone()).unwrap_or_default();
        let command = |(name, script): (&String, &Value)| {
            let script = script.as_str()?;
            let purpose = purpose_of_script(name)?;
            // `npm init` writes this script for a project without tests.
            if script.contains("no test specified") {
                return None;
            }
            let command = match (manager, name.as_str()) {
                ("npm" | "pnpm" | "yarn", "test" | "start") | ("yarn", _) => format!("{manager} {name}"),
                _ => format!("{manager} run {name}"),
            };
            Some(ProjectCommand {
                purpose,
                command,
                script: cut_text(script, 120),
                evidence: String::new(),
                line: Some(file.line_of_script(name)),
                path: file.path.clone(),
            })
        };
        let mut commands: Vec<_> = scripts.as_object().into_iter().flatten().filter_map(command).collect();
        if self.is_npm_workspace(file) {
            for purpose in [CommandPurpose::Build, CommandPurpose::Test] {
                if commands
                    .iter()
                    .all(|command: &ProjectCommand| command.purpose != purpose)
                {
                    commands.extend(self.workspace_script(manager, purpose));
                }
            }
        }
        commands
    }

    fn is_npm_workspace(&self, file: &ReadFile) -> bool {
        self.has("pnpm-workspace.yaml") || file.json().is_some_and(|value| value.get("workspaces").is_some())
    }

    /// The command that runs a script in every package of a workspace, if at least half of the packages that were read
    /// have it.
    fn workspace_script(&self, manager: &str, purpose: CommandPurpose) -> Option<ProjectCommand> {
        let is_member = |file: &&&ReadFile| {
            let is_below =
                strip_directory(parent_directory(&file.path), self.target).is_some_and(|inside| !inside.is_empty());
            file.name() == "package.json" && is_below && !is_aside_manifest(&file.path)
        };
        let members: Vec<&&ReadFile> = self.all.iter().filter(is_member).collect();
        for name in ["build", "compile", "test"] {
            if purpose_of_script(name) != Some(purpose) {
                continue;
            }
            let has_script = |file: &&&&ReadFile| file.json().is_some_and(|value| value["scripts"][name].is_string());
            let having: Vec<_> = members.iter().filter(has_script).collect();
            let Some(first) = having.first().filter(|_| having.len() * 2 >= members.len()) else {
                continue;
            };
            let command = match manager {
                "pnpm" => format!("pnpm -r run {name}"),
                "yarn" => format!("yarn workspaces run {name}"),
                "bun" => format!("bun run --filter '*' {name}"),
                _ => format!("npm run {name} --workspaces --if-present"),
            };
            return Some(ProjectCommand {
                purpose,
                command,
                script: String::new(),
                evidence: name.to_owned(),
                line: Some(first.line_of_script(name)),
                path: first.path.clone(),
            });
        }
        None
    }

    /// Commands that the names of files show.
    fn of_names(&self) -> Vec<ProjectCommand> {
        let mut commands = Vec::new();
        for (name, program) in [
            ("tests/runtests.py", "python tests/runtests.py"),
            ("runtests", "./runtests"),
            ("runtest", "./runtest"),
            ("script/test", "script/test"),
            ("scripts/test", "scripts/test"),
        ] {
            if self.has(name) {
                commands.push(ProjectCommand {
                    purpose: CommandPurpose::Test,
                    command: program.to_owned(),
                    script: String::new(),
                    evidence: String::new(),
                    line: None,
                    path: join_path(self.target, name),
                });
            }
        }
        commands
    }
}

/// A command, if a line of the file shows that it works.
fn on_line(file: &ReadFile, purpose: CommandPurpose, command: &str, pattern: &str) -> Option<ProjectCommand> {
    let line = file.find(pattern)?;
    Some(ProjectCommand {
        purpose,
        command: command.to_owned(),
        line: Some(line.number),
        evidence: evidence_of(&line.text),
        script: String::new(),
        path: file.path.clone(),
    })
}

fn flatten_commands(commands: Vec<Option<ProjectCommand>>) -> Vec<ProjectCommand> {
    commands.into_iter().flatten().collect()
}

fn purpose_of_script(name: &str) -> Option<CommandPurpose> {
    match name {
        "build" | "compile" => Some(CommandPurpose::Build),
        "start" | "dev" | "serve" => Some(CommandPurpose::Run),
        "test" | "test:unit" => Some(CommandPurpose::Test),
        "lint" | "typecheck" | "check" => Some(CommandPurpose::Lint),
        _ => None,
    }
}

fn composer_scripts(file: &ReadFile) -> Vec<ProjectCommand> {
    let mut commands = flatten_commands(vec![on_line(
        file,
        CommandPurpose::Build,
        "composer install",
        r#""require(-dev)?""#,
    )]);
    let scripts = file.json().map(|value| value["scripts"].clone()).unwrap_or_default();
    for name in scripts.as_object().into_iter().flatten().map(|(name, _)| name) {
        if let Some(purpose) = purpose_of_script(name) {
            commands.push(ProjectCommand {
                purpose,
                command: format!("composer {name}"),
                script: String::new(),
                line: Some(file.line_of_script(name)),
                evidence: name.clone(),
                path: file.path.clone(),
            });
        }
    }
    commands
}

fn make_targets(file: &ReadFile) -> Vec<ProjectCommand> {
    use CommandPurpose::{Build, Lint, Run, Test};
    let target = |purpose, name: &str| {
        let pattern = format!(r"^([\w.-]+\s+)*{name}(\s+[\w.-]+)*\s*::?([^=]|$)");
        let line = file.find(&pattern).filter(|line| !line.text.starts_with('.'))?;
        Some(ProjectCommand {
            purpose,
            command: format!("make {name}"),
            script: String::new(),
            line: Some(line.number),
            evidence: evidence_of(&line.text),
            path: file.path.clone(),
        })
    };
    let mut commands = vec![target(Build, "build")];
    // `make` without arguments builds the first target.
    let helps = |line: &&FileLine| line.text.trim_end().ends_with("help") || line.text.trim_end().ends_with("usage");
    let default = file
        .find(r"^(all|default)\s*::?([^=]|$)")
        .filter(|line| !helps(line))
        .map(|line| ProjectCommand {
            purpose: Build,
            command: "make".to_owned(),
            script: String::new(),
            line: Some(line.number),
            evidence: evidence_of(&line.text),
            path: file.path.clone(),
        });
    commands.push(default);
    commands.extend([
        target(Run, "run"),
        target(Test, "test"),
        target(Test, "tests"),
        target(Test, "check"),
        target(Lint, "lint"),
    ]);
    flatten_commands(commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    fn commands(path: &str, text: &str, beside: &[&str]) -> Vec<String> {
        commands_of(&[(path, text)], beside)
    }

    fn commands_of(files: &[(&str, &str)], beside: &[&str]) -> Vec<String> {
        let survey = Survey::of_paths(beside);
        let read = |(path, text): &(&str, &str)| ReadFile {
            path: (*path).to_owned(),
            lines: number_lines(text),
        };
        let files: Vec<ReadFile> = files.iter().map(read).collect();
        project_commands("", &survey, &files.iter().collect::<Vec<_>>(), &[])
            .into_iter()
            .map(|command| {
                let line = command.line.unwrap_or(0);
                format!("{} {}:{line}", command.purpose.label(), command.command)
            })
            .collect()
    }

    #[test]
    fn a_build_below_the_root_begins_in_its_folder() {
        let beside = [
            "projects/settings.gradle.kts",
            "projects/gradlew",
            "projects/core/A.kt",
            "examples/b.kt",
        ];
        let files = [("projects/build.gradle.kts", "plugins {\n")];
        let expected = [
            "build cd projects && ./gradlew build:1",
            "test cd projects && ./gradlew test:1",
        ];
        assert_eq!(commands_of(&files, &beside), expected);
    }

    #[test]
    fn a_workspace_without_scripts_runs_those_of_its_members() {
        let files = [
            ("package.json", "{\"workspaces\": [\"packages/*\"]}"),
            (
                "packages/a/package.json",
                "{\"scripts\": {\n\"compile\": \"tsc\",\n\"test\": \"mocha\"}}",
            ),
            ("packages/b/package.json", "{}"),
            ("packages/c/package.json", "{\"scripts\": {\"compile\": \"tsc\"}}"),
        ];
        let beside = files.map(|(path, _)| path);
        assert_eq!(
            commands_of(&files, &beside),
            ["build npm run compile --workspaces --if-present:2"]
        );
    }

    #[test]
    fn each_ecosystem_names_its_commands() {
        for (path, text, beside, expected) in [
            (
                "package.json",
                "{\n\"scripts\": {\n\"test\": \"mocha\",\n\"build\": \"tsc\",\n\"postinstall\": \"x\"\n}}",
                &["pnpm-lock.yaml"][..],
                &["build pnpm run build:4", "test pnpm test:3"][..],
            ),
            (
                "package.json",
                "{\"scripts\": {\"test\": \"echo \\\"Error: no test specified\\\" && exit 1\"}}",
                &[],
                &[],
            ),
            (
                "Cargo.toml",
                "[package]\n[workspace]\n",
                &["src/main.rs"],
                &[
                    "build cargo build --workspace:1",
                    "run cargo run:1",
                    "test cargo test --workspace:1",
                ],
            ),
            (
                "Makefile",
                "ALL = x\n.PHONY: test\nall: a\n\ttest: no\ntest: all\ncheck := 1\n",
                &[],
                &["build make:3", "test make test:5"],
            ),
            ("Makefile", "all: help\nbuild:\n", &[], &["build make build:2"]),
            ("setup.py", "setup(\n", &[], &["build python -m pip install .:1"]),
            (
                "CMakeLists.txt",
                "project(a)\nenable_testing()\n",
                &[],
                &[
                    "build cmake -B build && cmake --build build:1",
                    "test ctest --test-dir build:2",
                ],
            ),
            (
                "package.json",
                "{\n\"directories\": {\n\"test\": \"a\"\n},\n\"scripts\": {\n\"test\": \"mocha\"\n}}",
                &[],
                &["test npm test:6"],
            ),
            ("phpunit.xml", "<phpunit>\n", &[], &["test phpunit:1"]),
            (
                "Cargo.toml",
                "[package]\n[[bin]]\nname = \"stdio-fixture\"\n",
                &["src/bin/stdio-fixture.rs"],
                &["build cargo build:1", "test cargo test:1"],
            ),
            (
                "pyproject.toml",
                "[project]\n[tool.pytest.ini_options]\n[tool.ruff]\n",
                &["uv.lock"],
                &["build uv sync:1", "test uv run pytest:2", "lint uv run ruff check:3"],
            ),
        ] {
            assert_eq!(commands(path, text, beside), expected, "{path}");
        }
    }
}
