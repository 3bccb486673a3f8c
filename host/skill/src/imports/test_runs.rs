//! `tests`: runs the tests and checks of a repository by recipes.
//!
//! The user's own command comes first, then the requested recipe, then the recipes whose signs are found. This module
//! chooses program and arguments, and reads the results; the skill `run_tests` describes them. Failing tests are
//! results; a failure means that nothing could run.

mod arguments;
mod build_cache;
mod detect;
mod hints;
mod own_command;
mod plan;
mod result_files;
mod script;
mod settings;
pub(super) mod source_layout;
mod tools;
mod tree_state;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;

use super::recipe::{self, EndedRecipe, PreparedRun};
use crate::CallContext;
use crate::limits;
use crate::recipes::{self, Interpreter, TestRecipe};
use build_cache::{BuildCache, CacheKey, RunKind};
use detect::{FoundSuite, SuiteSearch};
use own_command::OwnCommand;
use test_results::{ResultFormat, TestResults};
use tool_boundary::bindings::tool::skill::tests::{Counts, FailedTest, Request, Results, Suite};
use tool_boundary::consent;
use tool_boundary::{Failure, FailureKind};
use tool_core::api::{Effect, RunPurpose, TestCounts, TestRun, UnknownCheck};
use tool_core::text::nearest_name;
use tool_repository::{FileList, OpenError, normalise_path};
use tool_sandbox::environment;
use tool_sandbox::program_sandbox::{Invocation, Sandbox, ToolAccess};

/// Longest filter expression of a test run.
const RECIPE_FILTER_BYTES_MAX: usize = 2048;

/// Paths of one test run; more do not fit one command line with certainty.
const RECIPE_PATHS_MAX: usize = 200;

/// Name of the recipe for the user's own command.
const OWN: &str = "own";

/// Limit for the modules of a project whose build output is kept. Each needs some mounts in every run.
const MODULES_MAX: usize = 64;

/// The result of the suites, from exit status and the runner's own counts. The guest cannot influence it.
pub(super) fn judge_suites(suites: &[Suite]) -> Option<TestRun> {
    let run_of = |suite: &Suite| {
        let results = suite.outcome.as_ref().ok()?;
        let report = &results.report;
        let counts = results.counts.as_ref().map(counts_in);
        Some(TestRun::new(
            &suite.recipe,
            report.exit_code,
            report.timed_out,
            report.duration_ms,
            counts,
        ))
    };
    let mut run = suites.iter().filter_map(run_of).reduce(|sum, run| sum.with(&run))?;
    let not_run = suites
        .iter()
        .filter_map(|suite| Some((suite, suite.outcome.as_ref().err()?)));
    run.not_run = not_run
        .map(|(suite, failure)| format!("{}: {}", place_of(suite), failure.message))
        .collect();
    Some(run)
}

/// Names of the sandboxes in which suites ran.
pub(super) fn sandbox_of(suites: &[Suite]) -> String {
    let mut reports = suites.iter().filter_map(|suite| suite.outcome.as_ref().ok());
    reports
        .next()
        .map(|results| results.report.sandbox.clone())
        .unwrap_or_default()
}

fn place_of(suite: &Suite) -> String {
    match suite.directory.as_str() {
        "" => suite.recipe.clone(),
        directory => format!("{} in {directory}", suite.recipe),
    }
}

pub use build_cache::{CleanedCaches, clean_build_caches, drop_build_caches};
pub use own_command::read_form;
pub use plan::{MissingPart, PlannedRun, plan_runs, runnable_purposes};

pub(super) fn run_tests(context: &CallContext, request: &Request) -> Result<Vec<Suite>, Failure> {
    consent::not_denied(context, Effect::RunProcess)?;
    if request.paths.len() > RECIPE_PATHS_MAX {
        let message = format!("More than {RECIPE_PATHS_MAX} paths do not fit one run.");
        return Err(Failure::limit(message).with_hint("name directories instead"));
    }
    let filter = request.filter.as_deref().map(check_filter).transpose()?;
    let paths = request
        .paths
        .iter()
        .map(|id| node_id(context, id))
        .collect::<Result<Vec<_>, _>>()?;
    let asked = request.recipe.as_deref().filter(|name| *name != OWN);
    let wanted = asked.map(find_recipe).transpose()?;
    let check = request.check.as_deref().map(parse_purpose).transpose()?;
    let purpose = check.or(wanted.map(|recipe| recipe.purpose)).unwrap_or_default();
    let ends = Instant::now() + recipe::clamp_time(request.timeout_seconds, limits::TESTS_SECONDS_MAX);
    if wanted.is_none()
        && let Some(own) = OwnCommand::for_session(context, purpose)?
    {
        return Ok(vec![run_own(context, &own, purpose, remaining_time(ends))]);
    }
    let files = detect::list_repository(&context.repository, &context.cancel)?;
    let finder = SuiteSearch {
        repository: &context.repository,
        cancel: &context.cancel,
        files: &files,
        purpose,
        wanted,
    };
    let mut suites = finder.find(&paths)?;
    let left_out = suites.split_off(suites.len().min(detect::SUITES_MAX));
    let mut outcomes = Vec::new();
    for suite in &suites {
        let run = SuiteRunner {
            context,
            suite,
            filter,
            ends,
        };
        let outcome = run.run();
        // After one denial, the other suites are not asked about.
        if let Err(failure) = &outcome
            && failure.kind == FailureKind::Denied
        {
            return Err(failure.clone());
        }
        outcomes.push(Suite {
            recipe: suite.recipe.name.clone(),
            directory: suite.found.directory.clone(),
            reason: suite.found.reason.clone(),
            outcome: outcome.map_err(Into::into),
        });
    }
    outcomes.extend(left_out.iter().map(|suite| {
        let message = format!("Only {} suites run at once.", detect::SUITES_MAX);
        Suite {
            recipe: suite.recipe.name.clone(),
            directory: suite.found.directory.clone(),
            reason: suite.found.reason.clone(),
            outcome: Err(Failure::limit(message).with_hint("give `paths`").into()),
        }
    }));
    let has_run = outcomes.iter().any(|suite| suite.outcome.is_ok());
    match outcomes.iter().find_map(|suite| suite.outcome.as_ref().err()) {
        Some(failure) if !has_run => Err(failure.clone().into()),
        _ => Ok(outcomes),
    }
}

/// Finds the recipe of a name, which may come from a model.
fn find_recipe(name: &str) -> Result<&'static TestRecipe, Failure> {
    recipes::find_recipe(name).ok_or_else(|| {
        let names: Vec<&str> = recipes::all_recipes()
            .iter()
            .map(|recipe| recipe.name.as_str())
            .collect();
        let close = nearest_name(name, names.iter().copied()).map(|close| format!("did you mean `{close}`? "));
        Failure::not_found(format!("There is no recipe `{}`.", name.escape_debug())).with_hint(format!(
            "{}the recipes are {}",
            close.unwrap_or_default(),
            names.join(", ")
        ))
    })
}

/// Parses the name of a check, which may come from a model.
fn parse_purpose(name: &str) -> Result<RunPurpose, Failure> {
    name.parse()
        .map_err(|error: UnknownCheck| Failure::invalid_arguments(format!("{error}.")))
}

/// Time until the deadline, in whole seconds.
fn remaining_time(ends: Instant) -> Duration {
    let left = ends.saturating_duration_since(Instant::now());
    Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0)).max(Duration::from_secs(1))
}

/// Accepts a filter that no runner can take for an option or for a file of options.
fn check_filter(filter: &str) -> Result<&str, Failure> {
    let wrong = if filter.trim().is_empty() {
        "is empty"
    } else if filter.len() > RECIPE_FILTER_BYTES_MAX {
        "is too long"
    } else if filter.starts_with(['-', '@']) {
        "begins like an option"
    } else if filter.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(filter);
    };
    Err(Failure::invalid_arguments(format!("The filter {wrong}.")))
}

/// Accepts a path for a command line: in normal form, in the repository, not hidden, and not an option.
fn check_path(context: &CallContext, path: &str) -> Result<String, Failure> {
    let invalid = |why: &str| Failure::invalid_arguments(format!("`{}` {why}.", path.escape_debug()));
    if path.chars().any(char::is_control) {
        return Err(invalid("contains a control character"));
    }
    let clean = normalise_path(path).map_err(|error| invalid(&format!("is no path in this repository: {error}")))?;
    if clean.split('/').any(|part| part.starts_with('-')) {
        return Err(invalid("begins like an option"));
    }
    match context.repository.open_within(&clean, &context.cancel) {
        Ok(_) if clean.is_empty() => Ok(".".to_owned()),
        Ok(_) => Ok(clean),
        Err(error @ OpenError::NotFound { .. }) => Err(Failure::not_found(format!("{error}."))),
        Err(error @ OpenError::Denied { .. }) => Err(Failure::denied(format!("{error}."))),
        Err(error) => Err(Failure::invalid_arguments(format!("{error}."))),
    }
}

/// Accepts a path, or a path with the name of a test: `tests/test_a.py::TestB::test_c[x]`.
fn node_id(context: &CallContext, id: &str) -> Result<String, Failure> {
    let Some((file, name)) = id.split_once("::") else {
        return check_path(context, id);
    };
    if name.is_empty() || name.chars().any(char::is_control) {
        let message = format!("`{}` is no node id: `path::name` is.", id.escape_debug());
        return Err(Failure::invalid_arguments(message));
    }
    Ok(format!("{}::{name}", check_path(context, file)?))
}

/// A suite that is about to run.
struct SuiteRunner<'a> {
    context: &'a CallContext,
    suite: &'a FoundSuite,
    filter: Option<&'a str>,
    ends: Instant,
}

/// The step that builds the tests without running them.
enum BuildStep {
    /// The runner with these arguments.
    Runner {
        arguments: Vec<String>,
        /// True if the step builds every test.
        is_all: bool,
    },
    /// The commands that precede the runner.
    Before,
}

impl BuildStep {
    /// Returns `None` for a check, which has no separate build.
    fn for_tests(data: &TestRecipe, paths: &[String], prefix: &[String]) -> Option<Self> {
        if data.purpose != RunPurpose::Tests {
            return None;
        }
        if data.compile.is_empty() {
            return Some(Self::Before);
        }
        let filled = arguments::fill_template(&data.compile, data, paths, None, &[], None);
        Some(Self::Runner {
            arguments: [prefix, &filled.arguments].concat(),
            is_all: paths.is_empty(),
        })
    }

    fn is_all(&self) -> bool {
        matches!(self, Self::Before | Self::Runner { is_all: true, .. })
    }

    /// The recipe with this step instead of the run.
    fn recipe(&self, recipe: &PreparedRun) -> PreparedRun {
        let mut building = recipe.clone();
        building.tools.hands_back = false;
        match self {
            Self::Runner { arguments, .. } => building.command.arguments.clone_from(arguments),
            Self::Before => {
                if let Some(last) = building.tools.before.pop() {
                    building.command.program = last.program;
                    building.command.arguments = last.arguments;
                }
            }
        }
        building
    }
}

/// A program, and the arguments that precede those of the recipe.
struct ChosenProgram {
    program: PathBuf,
    prefix: Vec<String>,
    environment: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl SuiteRunner<'_> {
    fn run(&self) -> Result<Results, Failure> {
        let results = self.run_recipe(self.suite.recipe);
        let lacks_runner = results
            .as_ref()
            .err()
            .is_some_and(|failure| failure.kind == FailureKind::Unavailable);
        // Test files alone do not show which of Python's two runners they are for.
        if self.suite.found.is_guess && self.suite.recipe.name == "pytest" && lacks_runner {
            let unittest = recipes::find_recipe("unittest").map(|recipe| self.run_recipe(recipe));
            if let Some(Ok(other)) = unittest
                && other
                    .counts
                    .as_ref()
                    .is_some_and(|counts| counts.passed + counts.failed > 0)
            {
                return Ok(other);
            }
        }
        results
    }

    fn root(&self) -> PathBuf {
        let root = self.context.repository.root();
        match self.suite.found.directory.as_str() {
            "" => root.to_owned(),
            directory => root.join(directory),
        }
    }

    fn run_recipe(&self, data: &'static TestRecipe) -> Result<Results, Failure> {
        let (context, suite) = (self.context, &self.suite.found);
        let stand_in = tools::find_stand_in(&context.environment, context.repository.root(), &self.root(), data);
        if let Some(npm) = stand_in {
            let mut results = self.run_recipe(npm)?;
            let note = format!(
                "note: {} was not found, so {} ran the script",
                data.program, npm.program
            );
            results.notes.insert(0, note);
            return Ok(results);
        }
        let chosen = self.choose(data)?;
        for name in &data.needs {
            if recipe::find_program(context, name).is_none() {
                return Err(missing_program(name, data));
            }
        }
        let paths: Vec<String> = suite.paths.iter().map(|path| unambiguous_path(data, path)).collect();
        let script = match (data.interpreter, &suite.value) {
            (Interpreter::Script, Some(script)) => script::script_arguments(script, self.filter, &paths)?,
            _ => Vec::new(),
        };
        if self.filter.is_some() && data.filter.is_empty() && data.interpreter != Interpreter::Script {
            return Err(
                Failure::invalid_arguments(format!("{} cannot select tests by name.", data.name))
                    .with_hint("leave out `filter`"),
            );
        }
        let filled = arguments::fill_template(
            &data.arguments,
            data,
            &paths,
            self.filter,
            &script,
            suite.value.as_deref(),
        );
        let mut notes = chosen.notes;
        if !filled.unselected.is_empty() && data.interpreter != Interpreter::Script {
            let all = match data.purpose {
                RunPurpose::Tests => "all its tests were run",
                _ => "it has looked at everything",
            };
            notes.push(format!("note: {} takes no single files, so {all}", data.name));
        }
        let mut tools = tools::tool_access(context, data, &chosen.program);
        tools.hands_back = !data.results.is_empty();
        for command in &data.before {
            let program =
                recipe::find_program(context, &command[0]).ok_or_else(|| missing_program(&command[0], data))?;
            tools.before.push(Invocation {
                program,
                arguments: command[1..].to_vec(),
            });
        }
        let build = BuildStep::for_tests(data, &paths, &chosen.prefix);
        let command = recipe::repository_command(
            &self.root(),
            chosen.program,
            [chosen.prefix, filled.arguments].concat(),
            chosen.environment,
        );
        let title = question_title(data.purpose, &data.name);
        let script = suite.value.as_ref().filter(|_| data.interpreter == Interpreter::Script);
        let script = script.map(|script| format!("the script `test` in package.json: {}", script.escape_debug()));
        let built = (!data.compile.is_empty()).then(|| format!("built before by: {}", data.compile_command()));
        let recipe = PreparedRun {
            effect: Effect::RunProcess,
            title,
            notes: script.into_iter().chain(built).collect(),
            command,
            time: remaining_time(self.ends),
            tools,
            format: data.format,
        };
        let started = SystemTime::now();
        let ended = self.execute(recipe, data, build)?;
        let read = read_results(data.format, &data.results, &suite.directory, &ended, started);
        hints::check_available(data, &ended, &read)?;
        notes.extend(hints::run_notes(context, data, &ended, &read));
        Ok(suite_results(ended, read, notes))
    }

    /// Runs with the build cache, if there is one for this run. Over the user's own state the build runs first: only
    /// that step may write to the kept cache.
    fn execute(
        &self,
        mut recipe: PreparedRun,
        data: &TestRecipe,
        build: Option<BuildStep>,
    ) -> Result<EndedRecipe, Failure> {
        let context = self.context;
        let sandbox = recipe.ask(context)?;
        let Some(mut cache) = self.build_cache(sandbox, &recipe, data)? else {
            return recipe.run_handing_back(context, sandbox);
        };
        recipe.tools.builds = cache.folders();
        recipe.tools.refreshed = cache.changed();
        if matches!(cache.kind(), RunKind::Dropped | RunKind::FromNothing) {
            return recipe.run_handing_back(context, sandbox);
        }
        let mut limited = context.clone();
        limited.cancel = context.cancel.child_token();
        let building = match &build {
            Some(build) if cache.kind() == RunKind::Own => &build.recipe(&recipe),
            // A check only builds, and tests may write to the layer of a session.
            _ => &recipe,
        };
        let (built, is_over) = cache.watch(&limited.cancel, || building.run_handing_back(&limited, sandbox));
        if is_over {
            cache.delete();
            let message = "The run was ended: its build output does not fit the build cache of 10 GiB.";
            return Err(Failure::limit(message).with_hint("run a part of it, or make room on the disk"));
        }
        let is_session = cache.kind() == RunKind::Session;
        let has_built = built.as_ref().is_ok_and(|built| built.report.exit_code == Some(0));
        cache.keep(context, has_built && build.as_ref().is_none_or(BuildStep::is_all));
        let built = built?;
        if build.is_none() || !has_built || is_session {
            return Ok(built);
        }
        recipe.tools.builds = cache.dropped_folders();
        recipe.tools.refreshed.clear();
        recipe.tools.before.clear();
        recipe.time = remaining_time(self.ends);
        let mut ended = recipe.run_handing_back(context, sandbox)?;
        ended.report.duration_ms += built.report.duration_ms;
        Ok(ended)
    }

    /// The build cache of the suite. A session that does not trust the repository has none, so that its build output
    /// reaches no other session.
    fn build_cache(
        &self,
        sandbox: Sandbox,
        recipe: &PreparedRun,
        data: &TestRecipe,
    ) -> Result<Option<BuildCache>, Failure> {
        let (context, suite) = (self.context, &self.suite.found);
        if sandbox != Sandbox::Namespaces || context.policy.is_untrusted() {
            return Ok(None);
        }
        let files = detect::list_repository(&context.repository, &context.cancel)?;
        let roots = if data.modules {
            self.modules(data, &files)
        } else if data.workspace {
            vec![self.workspace(data)]
        } else {
            vec![self.root()]
        };
        let places = roots
            .iter()
            .flat_map(|root| data.build.iter().map(|name| root.join(name)));
        let places: Vec<PathBuf> = places.chain(tools::build_places(context, data)).collect();
        let key = CacheKey {
            recipe: &data.name,
            directory: &suite.directory,
            program: &recipe.command.program,
            sandbox: sandbox.name(),
        };
        Ok(BuildCache::open(context, &key, &places, &files))
    }

    /// The folder of the suite and those beneath it with a file that a sign names. In a project with more modules
    /// than the limit, the rest is built from nothing.
    fn modules(&self, data: &TestRecipe, files: &FileList) -> Vec<PathBuf> {
        let (root, suite) = (self.context.repository.root(), self.root());
        let is_module = |name: &str| data.runner().sign_files().any(|file| file == name);
        let paths = files.files.iter().map(|file| root.join(&file.path));
        let marked = paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_module));
        let mut folders: Vec<PathBuf> = marked.filter_map(|path| Some(path.parent()?.to_owned())).collect();
        folders.retain(|folder| folder.starts_with(&suite));
        folders.push(suite);
        folders.sort();
        folders.dedup();
        folders.truncate(MODULES_MAX);
        folders
    }

    /// The outermost folder with the recipe's first sign, from the suite upwards.
    fn workspace(&self, data: &TestRecipe) -> PathBuf {
        let (root, suite) = (self.context.repository.root(), self.root());
        let sign = data.runner().sign_files().next();
        let folders = suite.ancestors().take_while(|folder| folder.starts_with(root));
        let marked = folders.filter(|folder| sign.is_some_and(|name| folder.join(name).is_file()));
        marked.last().unwrap_or(&suite).to_owned()
    }

    /// Chooses the program of the recipe and its environment.
    fn choose(&self, data: &TestRecipe) -> Result<ChosenProgram, Failure> {
        let context = self.context;
        let mut environment = environment::for_run(&context.environment);
        environment.extend(tools::tool_variables(context, data));
        environment.extend(data.environment.clone());
        let mut chosen = ChosenProgram {
            program: PathBuf::new(),
            prefix: Vec::new(),
            environment,
            notes: Vec::new(),
        };
        if data.interpreter == Interpreter::Python {
            let python = recipe::python_in(context, &self.root())?;
            python.enter(&mut chosen.environment);
            if let Some(copy) = source_layout::find_source_copy(&self.root(), &python.home) {
                let sources = copy.sources.to_string_lossy().into_owned();
                chosen.environment.insert("PYTHONPATH".to_owned(), sources);
                chosen.notes.push(format!("note: {}", copy.note()));
            }
            chosen.prefix = python.arguments(&[]);
            chosen.program = python.program;
            return Ok(chosen);
        }
        if data.interpreter == Interpreter::PythonTool
            && let Ok(python) = recipe::python_in(context, &self.root())
            && python.program.with_file_name(&data.program).is_file()
        {
            python.enter(&mut chosen.environment);
            chosen.prefix = python.arguments(&["-m", &data.program]);
            chosen.program = python.program;
            return Ok(chosen);
        }
        let own = data.own_program.as_ref().map(|name| self.root().join(name));
        if let Some(own) = own.filter(|own| environment::is_executable(own)) {
            chosen.program = own;
            return Ok(chosen);
        }
        let wrapper = data.wrapper.as_ref().and_then(|name| self.find_upwards(name));
        if let Some(wrapper) = wrapper.filter(|_| tools::has_wrapper_cache(context, data)) {
            chosen.program = wrapper;
            return Ok(chosen);
        }
        if data.bundle
            && self.root().join("Gemfile").is_file()
            && let Some(bundle) = recipe::find_program(context, "bundle")
        {
            chosen.program = bundle;
            chosen.prefix = vec!["exec".to_owned(), data.program.clone()];
            return Ok(chosen);
        }
        chosen.program =
            recipe::find_program(context, &data.program).ok_or_else(|| missing_program(&data.program, data))?;
        Ok(chosen)
    }

    /// Finds an executable file in the folder of the suite or in one above it, inside the repository.
    fn find_upwards(&self, name: &str) -> Option<PathBuf> {
        let root = self.context.repository.root();
        let suite = self.root();
        let folders = suite.ancestors().take_while(|folder| folder.starts_with(root));
        folders
            .map(|folder| folder.join(name))
            .find(|place| environment::is_executable(place))
    }
}

/// A path in a form that its runner cannot misread: pytest takes a path that begins with `@` for a file of arguments.
fn unambiguous_path(data: &TestRecipe, path: &str) -> String {
    if path.starts_with('@') && data.interpreter == Interpreter::Python {
        format!("./{path}")
    } else {
        path.to_owned()
    }
}

fn missing_program(name: &str, data: &TestRecipe) -> Failure {
    Failure::unavailable(format!("{name} was not found on the PATH.")).with_hint(data.install.clone())
}

/// The question about a run, in one line.
fn question_title(purpose: RunPurpose, runner: &str) -> String {
    match purpose {
        RunPurpose::Tests => format!("Run the tests with {runner}"),
        check => format!("Run the check `{check}` with {runner}"),
    }
}

/// Environment of a run that may start every runner, and the places on this machine that the runners need.
pub(super) fn open_run(context: &CallContext) -> (BTreeMap<String, String>, ToolAccess) {
    let mut environment = environment::for_run(&context.environment);
    for data in recipes::all_recipes() {
        environment.extend(tools::tool_variables(context, data));
    }
    (environment, tools::access_for_all(context))
}

/// Opens a file of the tree that a run has left, without following links.
pub(super) fn open_left(tree: &OwnedFd, path: &str) -> Option<File> {
    let file = File::from(result_files::open_in_tree(tree, path, OFlags::empty())?);
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Visits the files that a run has left, without those of git and of installed packages.
pub(super) fn walk_left(tree: &OwnedFd, visit: impl FnMut(String)) {
    result_files::walk_tree(tree, "", visit);
}

/// Runs the user's own command. The command itself decides what it tests, so paths and filters have no effect.
fn run_own(context: &CallContext, own: &OwnCommand, purpose: RunPurpose, time: Duration) -> Suite {
    let outcome = own.program(context).and_then(|program| {
        let (mut environment, mut tools) = open_run(context);
        environment.insert("CI".to_owned(), "true".to_owned());
        tools.hands_back = !own.results.is_empty();
        let recipe = PreparedRun {
            effect: Effect::RunProcess,
            title: question_title(purpose, "your own command"),
            notes: Vec::new(),
            command: recipe::repository_command(
                context.repository.root(),
                program,
                own.argv[1..].to_vec(),
                environment,
            ),
            time,
            tools,
            format: own.format,
        };
        let started = SystemTime::now();
        let ended = recipe.execute_handing_back(context)?;
        let read = read_results(own.format, &own.results, "", &ended, started);
        Ok(suite_results(ended, read, Vec::new()))
    });
    Suite {
        recipe: OWN.to_owned(),
        directory: String::new(),
        reason: own.reason.to_owned(),
        outcome: outcome.map_err(Into::into),
    }
}

/// Reads the results of a run that has ended. If the result files exceed the limit, the counts are unknown.
fn read_results(
    format: ResultFormat,
    globs: &[String],
    directory: &str,
    ended: &EndedRecipe,
    started: SystemTime,
) -> TestResults {
    let tree = ended.tree.as_ref();
    let files = tree
        .map(|tree| result_files::find_result_files(tree, directory, globs, started))
        .unwrap_or_default();
    let mut read = test_results::read_results(format, &ended.raw_output, &files.texts);
    if files.is_cut {
        read.counts = None;
    }
    read
}

fn suite_results(ended: EndedRecipe, read: TestResults, notes: Vec<String>) -> Results {
    Results {
        report: ended.report,
        counts: read.counts.as_ref().map(counts_out),
        failed: read
            .failed
            .into_iter()
            .map(|test| FailedTest {
                name: test.name,
                message: test.message,
                details: test.details,
            })
            .collect(),
        failed_left_out: read.left_out as u64,
        notes,
    }
}

fn counts_out(counts: &TestCounts) -> Counts {
    Counts {
        failed: counts.failed,
        errors: counts.errors,
        passed: counts.passed,
        skipped: counts.skipped,
        todo: counts.todo,
        xfailed: counts.xfailed,
        xpassed: counts.xpassed,
        deselected: counts.deselected,
        warnings: counts.warnings,
    }
}

fn counts_in(counts: &Counts) -> TestCounts {
    TestCounts {
        failed: counts.failed,
        errors: counts.errors,
        passed: counts.passed,
        skipped: counts.skipped,
        todo: counts.todo,
        xfailed: counts.xfailed,
        xpassed: counts.xpassed,
        deselected: counts.deselected,
        warnings: counts.warnings,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unit;
