//! The commands of a project: those of its frameworks and tools, the suites of its tests and checks, and the scripts that
//! its manifests name.

use serde_json::Value;

use crate::kinds::kind_of;
use crate::manifests::{line_of_json_key, numbered_lines, read_dependencies, read_json};
use crate::rules::CommandRule;
use crate::runners::{TestRunner, all_runners};
use crate::suites::{SuiteFinder, TestSuite, stated_manager};
use crate::tree::{FoundRule, ProjectTree, is_named, join, strip_folder};
use crate::{EvidencePlace, ProjectCommand, ProjectFile, ProjectKind, Purpose};

/// Commands of one purpose.
const COMMANDS_MAX: usize = 4;
/// Packages below the target whose commands are collected.
const PACKAGES_MAX: usize = 8;
/// Programs of one package whose commands are collected.
const PROGRAMS_MAX: usize = 3;
/// Longest script that is kept, in bytes.
const SCRIPT_BYTES_MAX: usize = 120;

/// What the runners of these purposes are for.
const SUITE_PURPOSES: [(&str, Purpose); 3] = [
    ("tests", Purpose::Test),
    ("lint", Purpose::Lint),
    ("types", Purpose::Lint),
];

/// A command before the choice.
struct Candidate {
    command: ProjectCommand,
    is_fallback: bool,
    /// True if it starts all programs.
    is_whole: bool,
    /// True if it does not stand for the programs of the packages.
    is_beside_code: bool,
}

struct CommandCollector<'t, 'a> {
    tree: &'t ProjectTree<'a>,
    files: &'t [ProjectFile],
    found: &'t [FoundRule<'t>],
    suites: Vec<(Purpose, TestSuite)>,
}

/// Collects the commands, by purpose.
pub(crate) fn collect_commands(
    tree: &ProjectTree<'_>,
    files: &[ProjectFile],
    found: &[FoundRule<'_>],
) -> Vec<ProjectCommand> {
    let suites = find_suites(tree, files);
    let collector = CommandCollector {
        tree,
        files,
        found,
        suites,
    };
    let mut all = collector.of_package(0);
    let is_application = |at: usize| {
        let mut own = found.iter().filter(|found| found.package == at);
        own.any(|found| kind_of(found).is_some_and(ProjectKind::is_application))
    };
    let of_root: Vec<Purpose> = all
        .iter()
        .filter(|own| !own.is_fallback && !own.is_beside_code)
        .map(|own| own.command.purpose)
        .collect();
    let nested = (1..tree.packages.len()).filter(|at| is_plain_path(tree.packages[*at].folder));
    let mut nested: Vec<usize> = nested.collect();
    let starts_all = |at: usize| {
        let mut own = found.iter().filter(|found| found.package == at);
        own.any(|found| found.rule.command.iter().any(|command| command.is_whole))
    };
    let kind = |at: usize| {
        let own = found.iter().filter(|found| found.package == at);
        own.filter_map(kind_of).min().map_or(usize::MAX, |kind| kind as usize)
    };
    nested.sort_by_key(|at| (!starts_all(*at), !is_application(*at), kind(*at)));
    for at in nested.into_iter().take(PACKAGES_MAX) {
        let groups = &tree.packages[at].groups;
        let is_member = tree.packages[0].groups.intersection(groups).next().is_some();
        let is_wanted = |purpose: Purpose| {
            !of_root.contains(&purpose) && (!is_member || purpose >= Purpose::Run)
                || !is_member && is_application(at) && purpose != Purpose::Lint
        };
        all.extend(
            collector
                .of_package(at)
                .into_iter()
                .filter(|own| is_wanted(own.command.purpose)),
        );
    }
    all.sort_by_key(|own| !own.is_whole);
    choose(all)
}

/// The suites of the tests and checks that people start by hand, without those that are a part of another.
fn find_suites(tree: &ProjectTree<'_>, files: &[ProjectFile]) -> Vec<(Purpose, TestSuite)> {
    let paths: Vec<&str> = tree.paths().collect();
    let read = |path: &str| Some(files.iter().find(|file| file.path == path)?.text.clone());
    let of_purpose = |(name, purpose): (&str, Purpose)| {
        let is_eligible = |runner: &&TestRunner| runner.purpose == name && !runner.on_request;
        let finder = SuiteFinder {
            target: tree.target,
            paths: &paths,
            read: &read,
            runners: &all_runners().iter().filter(is_eligible).collect::<Vec<_>>(),
        };
        let mut suites = finder.find_each();
        suites.retain(|suite| !suite.is_part && !suite.runner.command.is_empty());
        suites.into_iter().map(move |suite| (purpose, suite))
    };
    SUITE_PURPOSES.into_iter().flat_map(of_purpose).collect()
}

/// The first commands of each purpose, without those that any other replaces.
fn choose(all: Vec<Candidate>) -> Vec<ProjectCommand> {
    let mut chosen: Vec<ProjectCommand> = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) = all.into_iter().partition(|own| own.is_fallback);
    for Candidate {
        command, is_fallback, ..
    } in first.into_iter().chain(last)
    {
        let of_purpose = chosen.iter().filter(|known| known.purpose == command.purpose).count();
        let is_known = chosen.iter().any(|known| known.command == command.command);
        if !is_known && of_purpose < COMMANDS_MAX && !(is_fallback && of_purpose > 0) {
            chosen.push(command);
        }
    }
    chosen.sort_by_key(|command| command.purpose);
    chosen
}

/// True for a path without special characters, so that a command with it can be copied into a shell.
fn is_plain_path(path: &str) -> bool {
    !path.starts_with('-') && path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/@".contains(c))
}

impl CommandCollector<'_, '_> {
    fn of_package(&self, at: usize) -> Vec<Candidate> {
        // The tool of a workspace runs the suites of its packages.
        let is_workspace = |found: &&FoundRule<'_>| found.rule.kind == Some(ProjectKind::Workspace);
        let own = self.found.iter().filter(|found| found.package == at);
        let (workspace, others): (Vec<_>, Vec<_>) = own.partition(is_workspace);
        let by_rules = |found: Vec<&FoundRule<'_>>| {
            let of_rule = |found: &FoundRule<'_>| {
                let rules = found.rule.command.iter().filter(|rule| rule.runner.is_none());
                let commands = rules.flat_map(|rule| self.by_rule(at, rule, found.rule.is_beside_code));
                commands.collect::<Vec<_>>()
            };
            found.into_iter().flat_map(of_rule).collect::<Vec<_>>()
        };
        let mut all = by_rules(workspace);
        let folder = self.tree.packages[at].folder;
        let suites = self.suites.iter().filter(|(_, suite)| suite.directory == folder);
        let mut suites: Vec<(bool, Candidate)> = suites
            .filter_map(|(purpose, suite)| self.by_suite(at, *purpose, suite))
            .collect();
        // The tests of a framework before those of its assets.
        suites.sort_by_key(|(is_of_framework, _)| !is_of_framework);
        all.extend(suites.into_iter().map(|(_, candidate)| candidate));
        all.extend(by_rules(others));
        all.extend(self.of_manifests(at));
        all
    }

    /// The command of a suite: as a framework has it, then with true, else as its runner has it.
    fn by_suite(&self, at: usize, purpose: Purpose, suite: &TestSuite) -> Option<(bool, Candidate)> {
        let own = self.found.iter().filter(|found| found.package == at);
        let mut rules = own.flat_map(|found| &found.rule.command);
        let of_framework = rules.find_map(|rule| {
            let is_for_it = rule.runner.as_ref() == Some(&suite.runner.name);
            let own = is_for_it.then(|| self.by_rule(at, rule, false));
            own.into_iter().flatten().next()
        });
        if let Some(of_framework) = of_framework {
            return Some((true, of_framework));
        }
        let value = suite.value.clone().unwrap_or_default();
        let command = suite.runner.command.replace("{value}", &value);
        let command = self.fill(at, &command, &suite.place.path)?;
        // The command already holds the value.
        let script = if suite.runner.command.contains("{value}") {
            ""
        } else {
            value.as_str()
        };
        let script = script[..script.floor_char_boundary(SCRIPT_BYTES_MAX.min(script.len()))].to_owned();
        let command = ProjectCommand {
            purpose,
            command: self.in_folder(at, command),
            script,
            place: suite.place.clone(),
        };
        let candidate = Candidate {
            command,
            is_fallback: suite.is_guess,
            is_whole: false,
            is_beside_code: false,
        };
        Some((false, candidate))
    }

    fn by_rule(&self, at: usize, rule: &CommandRule, is_beside_code: bool) -> Vec<Candidate> {
        let places = self.tree.find_places(at, &rule.evidence, self.files);
        if !rule.dependencies.is_empty() && !self.declares(at, &rule.dependencies) {
            return Vec::new();
        }
        let candidate = |place: EvidencePlace| {
            let command = self.fill(at, &rule.command, &place.path)?;
            let command = ProjectCommand {
                purpose: rule.purpose,
                command: if rule.from_root {
                    command
                } else {
                    self.in_folder(at, command)
                },
                script: String::new(),
                place,
            };
            Some(Candidate {
                command,
                is_fallback: rule.is_fallback,
                is_whole: rule.is_whole,
                is_beside_code,
            })
        };
        // Each program of a package has a command of its own.
        let count = if rule.command.contains("./{here}") {
            PROGRAMS_MAX
        } else {
            1
        };
        places.into_iter().take(count).filter_map(candidate).collect()
    }

    /// True if a manifest of a package or around it declares one of these.
    fn declares(&self, at: usize, names: &[String]) -> bool {
        let folder = self.tree.packages[at].folder;
        let is_near = |file: &&ProjectFile| {
            let manifest = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let manifest = manifest
                .strip_suffix("requirements")
                .map_or(manifest, |above| above.trim_end_matches('/'));
            folder == manifest || strip_folder(folder, manifest).is_some()
        };
        self.files
            .iter()
            .filter(is_near)
            .flat_map(read_dependencies)
            .any(|dependency| names.iter().any(|name| is_named(&dependency.name, name)))
    }

    /// Below the target, a command begins with `cd`, or a wrapper at the root runs it there.
    fn in_folder(&self, at: usize, command: String) -> String {
        let folder = self.tree.packages[at].folder;
        match strip_folder(folder, self.tree.target).filter(|inside| !inside.is_empty() && folder != self.tree.target) {
            Some(inside) => match command
                .strip_prefix("./gradlew ")
                .or_else(|| command.strip_prefix("./mvnw "))
            {
                Some(task) if !self.tree.has(&join(folder, wrapper_of(&command))) => {
                    let flag = if command.starts_with("./mvnw") { "-f" } else { "-p" };
                    format!("./{} {flag} {inside} {task}", wrapper_of(&command))
                }
                _ => format!("cd {inside} && {command}"),
            },
            None => command,
        }
    }

    /// A command with its placeholders replaced; `None` if a name in it has special characters.
    fn fill(&self, at: usize, template: &str, path: &str) -> Option<String> {
        let package = &self.tree.packages[at];
        let inside = strip_folder(path, package.folder).unwrap_or(path);
        let name = inside.rsplit_once('/').map_or(inside, |(_, name)| name);
        let stem = name.split('.').next().unwrap_or(name);
        let folder = strip_folder(path, self.tree.target).unwrap_or(path);
        let folder = folder.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let module = inside.strip_suffix(".py").unwrap_or(inside).replace('/', ".");
        let is_named = ["{file}", "{stem}", "{folder}", "{module}", "{here}"]
            .iter()
            .any(|name| template.contains(name));
        if is_named && !is_plain_path(path) {
            return None;
        }
        let here = inside.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let has = |name: &str| self.tree.find_around(at, name).is_some();
        let (runner, pytest) = if has("uv.lock") {
            ("uv run ", "uv run pytest")
        } else if has("poetry.lock") {
            ("poetry run ", "poetry run pytest")
        } else if has("Pipfile") {
            ("pipenv run ", "pipenv run pytest")
        } else {
            ("", "python -m pytest")
        };
        let maven = if has("mvnw") { "./mvnw" } else { "mvn" };
        let gradle = if has("gradlew") { "./gradlew" } else { "gradle" };
        let manager = self.node_manager(at).0;
        let script = if manager == "yarn" {
            "yarn".to_owned()
        } else {
            format!("{manager} run")
        };
        let execute = match manager {
            "npm" => "npx",
            "bun" => "bunx",
            "pnpm" => "pnpm exec",
            _ => "yarn",
        };
        let filled = template
            .replace("{runner}", runner)
            .replace("{pytest}", pytest)
            .replace("{mvn}", maven)
            .replace("{gradle}", gradle)
            .replace("{npm}", manager)
            .replace("{npx}", execute)
            .replace("{script}", &script)
            .replace("{module}", &module)
            .replace("{file}", inside)
            .replace("{folder}", folder)
            .replace("{here}", here)
            .replace("{stem}", stem);
        Some(filled)
    }

    /// The package manager of npm packages: by its lock file, else by the manifest; with the file that shows it.
    fn node_manager(&self, at: usize) -> (&'static str, Option<String>) {
        const LOCKS: [(&str, &str); 8] = [
            ("pnpm-lock.yaml", "pnpm"),
            ("pnpm-workspace.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            (".yarnrc.yml", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
            ("package-lock.json", "npm"),
            ("npm-shrinkwrap.json", "npm"),
        ];
        for (lock, manager) in LOCKS {
            if let Some(path) = self.tree.find_around(at, lock) {
                return (manager, Some(path));
            }
        }
        let manifest = self.tree.find_around(at, "package.json");
        let file = manifest.and_then(|path| self.files.iter().find(|file| file.path == path));
        let stated = file.and_then(stated_manager);
        let named = ["pnpm", "yarn", "bun"]
            .into_iter()
            .find(|name| stated.as_deref() == Some(*name));
        (named.unwrap_or("npm"), None)
    }

    fn of_manifests(&self, at: usize) -> Vec<Candidate> {
        let own = |name: &str| {
            let path = join(self.tree.packages[at].folder, name);
            self.files.iter().find(|file| file.path == path)
        };
        let mut commands = Vec::new();
        if let Some(file) = own("package.json") {
            commands.extend(self.npm_commands(at, file));
        }
        if let Some(file) = own("composer.json") {
            commands.extend(composer_commands(file));
        }
        for name in ["Makefile", "GNUmakefile", "makefile"] {
            commands.extend(own(name).into_iter().flat_map(make_commands));
        }
        let in_folder = |mut command: ProjectCommand| {
            command.command = self.in_folder(at, command.command);
            Candidate {
                command,
                is_fallback: false,
                is_whole: false,
                is_beside_code: false,
            }
        };
        commands.into_iter().map(in_folder).collect()
    }

    fn npm_commands(&self, at: usize, file: &ProjectFile) -> Vec<ProjectCommand> {
        let (manager, lock) = self.node_manager(at);
        let manifest = read_json(file).unwrap_or_default();
        let has_dependencies = ["dependencies", "devDependencies"]
            .iter()
            .any(|key| manifest[*key].is_object());
        let mut commands = Vec::new();
        if has_dependencies || lock.is_some() {
            let install = if manager == "npm" && lock.is_some() {
                "npm ci".to_owned()
            } else {
                format!("{manager} install")
            };
            let place = EvidencePlace {
                path: lock.unwrap_or_else(|| file.path.clone()),
                line: None,
            };
            commands.push(ProjectCommand {
                purpose: Purpose::Install,
                command: install,
                script: String::new(),
                place,
            });
        }
        let is_suite =
            |command: &ProjectCommand| command.purpose == Purpose::Test && command.command.ends_with(" test");
        let mut scripts = scripts_of(file, &manifest, |name| match (manager, name) {
            ("npm" | "pnpm" | "yarn", "test" | "start") | ("yarn", _) => format!("{manager} {name}"),
            _ => format!("{manager} run {name}"),
        });
        scripts.retain(|command| !is_suite(command));
        commands.extend(scripts);
        if manifest.get("workspaces").is_some()
            || self
                .tree
                .has(&join(self.tree.packages[at].folder, "pnpm-workspace.yaml"))
        {
            for purpose in [Purpose::Build, Purpose::Test] {
                let folder = self.tree.packages[at].folder;
                let has_suite = |own: &(Purpose, TestSuite)| own.0 == purpose && own.1.directory == folder;
                if !self.suites.iter().any(has_suite) && commands.iter().all(|command| command.purpose != purpose) {
                    commands.extend(self.workspace_script(at, manager, purpose));
                }
            }
        }
        commands
    }

    /// The command that runs a script in every package of a workspace, if at least half of the packages that were read
    /// have it.
    fn workspace_script(&self, at: usize, manager: &str, purpose: Purpose) -> Option<ProjectCommand> {
        let folder = self.tree.packages[at].folder;
        let is_member = |file: &&ProjectFile| {
            file.name() == "package.json" && strip_folder(&file.path, folder).is_some_and(|inside| inside.contains('/'))
        };
        let members: Vec<(&ProjectFile, Value)> = self
            .files
            .iter()
            .filter(is_member)
            .filter_map(|file| Some((file, read_json(file)?)))
            .collect();
        for name in ["build", "compile", "test"]
            .into_iter()
            .filter(|name| purpose_of_script(name) == Some(purpose))
        {
            let having: Vec<_> = members
                .iter()
                .filter(|(_, manifest)| manifest["scripts"][name].is_string())
                .collect();
            let Some((first, _)) = having.first().filter(|_| having.len() * 2 >= members.len()) else {
                continue;
            };
            let command = match manager {
                "pnpm" => format!("pnpm -r run {name}"),
                "yarn" => format!("yarn workspaces run {name}"),
                "bun" => format!("bun run --filter '*' {name}"),
                _ => format!("npm run {name} --workspaces --if-present"),
            };
            let place = EvidencePlace {
                path: first.path.clone(),
                line: Some(line_of_json_key(&first.text, "scripts", name)),
            };
            return Some(ProjectCommand {
                purpose,
                command,
                script: String::new(),
                place,
            });
        }
        None
    }
}

fn wrapper_of(command: &str) -> &'static str {
    if command.starts_with("./mvnw") {
        "mvnw"
    } else {
        "gradlew"
    }
}

fn purpose_of_script(name: &str) -> Option<Purpose> {
    match name {
        "setup" => Some(Purpose::Install),
        "build" | "compile" => Some(Purpose::Build),
        "start" | "dev" | "serve" | "develop" | "start:dev" => Some(Purpose::Run),
        "test" | "test:unit" | "tests" => Some(Purpose::Test),
        "lint" | "typecheck" | "check" => Some(Purpose::Lint),
        _ => None,
    }
}

/// The scripts of a JSON manifest with a known purpose.
fn scripts_of(file: &ProjectFile, manifest: &Value, command: impl Fn(&str) -> String) -> Vec<ProjectCommand> {
    let script = |(name, script): (&String, &Value)| {
        let text = script.as_str().unwrap_or_default();
        let purpose = purpose_of_script(name)?;
        Some(ProjectCommand {
            purpose,
            command: command(name),
            script: text[..text.floor_char_boundary(SCRIPT_BYTES_MAX.min(text.len()))].to_owned(),
            place: EvidencePlace {
                path: file.path.clone(),
                line: Some(line_of_json_key(&file.text, "scripts", name)),
            },
        })
    };
    manifest["scripts"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(script)
        .collect()
}

fn composer_commands(file: &ProjectFile) -> Vec<ProjectCommand> {
    let manifest = read_json(file).unwrap_or_default();
    scripts_of(file, &manifest, |name| {
        format!("composer {}{name}", if name == "test" { "" } else { "run " })
    })
}

/// The targets of a makefile with a known purpose.
fn make_commands(file: &ProjectFile) -> Vec<ProjectCommand> {
    let mut commands = Vec::new();
    for (line, text) in numbered_lines(file) {
        let Some((names, rest)) = text
            .split_once(':')
            .filter(|_| !text.starts_with(['\t', ' ', '.', '#']))
        else {
            continue;
        };
        if rest.starts_with('=') || rest.starts_with(":=") || names.contains('=') {
            continue;
        }
        let is_help = rest.trim_end().ends_with("help") || rest.trim_end().ends_with("usage");
        for name in names.split_whitespace() {
            let (purpose, command) = match name {
                // `make` without arguments builds the first target.
                "all" | "default" if !is_help => (Purpose::Build, "make".to_owned()),
                "build" => (Purpose::Build, format!("make {name}")),
                "run" | "dev" | "serve" | "start" | "up" => (Purpose::Run, format!("make {name}")),
                "test" | "tests" | "check" => (Purpose::Test, format!("make {name}")),
                "lint" => (Purpose::Lint, format!("make {name}")),
                _ => continue,
            };
            let place = EvidencePlace {
                path: file.path.clone(),
                line: Some(line),
            };
            commands.push(ProjectCommand {
                purpose,
                command,
                script: String::new(),
                place,
            });
        }
    }
    commands
}
