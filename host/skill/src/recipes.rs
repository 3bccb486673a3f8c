//! Recipes: how to run the tests and checks of an ecosystem. Each is a data file. `tool-project` has a runner of the same
//! name, which says how they are found.
//!
//! A recipe is a fixed argument vector with placeholders for checked names and paths. It comes from this program or,
//! as the user's own command, from the user, and never from a repository. Unknown keys do not parse, so that every
//! key in a file has an effect.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use test_results::ResultFormat;
use tool_core::api::RunPurpose;
use tool_project::TestRunner;

/// The data files.
const FILES: [(&str, &str); 22] = [
    ("pytest", include_str!("recipes/pytest.toml")),
    ("django", include_str!("recipes/django.toml")),
    ("unittest", include_str!("recipes/unittest.toml")),
    ("tox", include_str!("recipes/tox.toml")),
    ("nox", include_str!("recipes/nox.toml")),
    ("pnpm", include_str!("recipes/pnpm.toml")),
    ("yarn", include_str!("recipes/yarn.toml")),
    ("bun", include_str!("recipes/bun.toml")),
    ("npm", include_str!("recipes/npm.toml")),
    ("nextest", include_str!("recipes/nextest.toml")),
    ("cargo", include_str!("recipes/cargo.toml")),
    ("go", include_str!("recipes/go.toml")),
    ("maven", include_str!("recipes/maven.toml")),
    ("gradle", include_str!("recipes/gradle.toml")),
    ("ctest", include_str!("recipes/ctest.toml")),
    ("meson", include_str!("recipes/meson.toml")),
    ("rspec", include_str!("recipes/rspec.toml")),
    ("minitest", include_str!("recipes/minitest.toml")),
    ("phpunit", include_str!("recipes/phpunit.toml")),
    ("exunit", include_str!("recipes/exunit.toml")),
    ("dotnet", include_str!("recipes/dotnet.toml")),
    ("make", include_str!("recipes/make.toml")),
];

/// The data files of checks.
const CHECK_FILES: [(&str, &str); 20] = [
    ("cargo-fmt", include_str!("recipes/checks/cargo-fmt.toml")),
    ("cargo-clippy", include_str!("recipes/checks/cargo-clippy.toml")),
    ("cargo-check", include_str!("recipes/checks/cargo-check.toml")),
    ("gofmt", include_str!("recipes/checks/gofmt.toml")),
    ("go-vet", include_str!("recipes/checks/go-vet.toml")),
    ("go-build", include_str!("recipes/checks/go-build.toml")),
    ("ruff", include_str!("recipes/checks/ruff.toml")),
    ("ruff-format", include_str!("recipes/checks/ruff-format.toml")),
    ("mypy", include_str!("recipes/checks/mypy.toml")),
    ("npm-lint", include_str!("recipes/checks/npm-lint.toml")),
    ("npm-format", include_str!("recipes/checks/npm-format.toml")),
    ("npm-types", include_str!("recipes/checks/npm-types.toml")),
    ("npm-build", include_str!("recipes/checks/npm-build.toml")),
    ("eslint", include_str!("recipes/checks/eslint.toml")),
    ("prettier", include_str!("recipes/checks/prettier.toml")),
    ("tsc", include_str!("recipes/checks/tsc.toml")),
    ("make-lint", include_str!("recipes/checks/make-lint.toml")),
    ("make-format", include_str!("recipes/checks/make-format.toml")),
    ("make-types", include_str!("recipes/checks/make-types.toml")),
    ("make-build", include_str!("recipes/checks/make-build.toml")),
];

static RECIPES: LazyLock<Vec<TestRecipe>> = LazyLock::new(|| {
    let parse = |runner: &'static TestRunner| {
        let mut files = FILES.iter().chain(&CHECK_FILES);
        let (_, text) = files.find(|(name, _)| *name == runner.name)?;
        let mut recipe: TestRecipe = toml::from_str(text).expect("a test parses every recipe");
        recipe.purpose = runner.purpose.parse().unwrap_or_default();
        recipe.runner = Some(runner);
        Some(recipe)
    };
    tool_project::all_runners().iter().filter_map(parse).collect()
});

/// All recipes of tests and checks, in the order of preference of their runners.
pub(crate) fn all_recipes() -> &'static [TestRecipe] {
    &RECIPES
}

/// The recipes for a purpose.
pub(crate) fn recipes_for(purpose: RunPurpose) -> impl Iterator<Item = &'static TestRecipe> {
    all_recipes().iter().filter(move |recipe| recipe.purpose == purpose)
}

/// The recipe of this name.
pub(crate) fn find_recipe(name: &str) -> Option<&'static TestRecipe> {
    all_recipes().iter().find(|recipe| recipe.name == name)
}

/// A way to run the tests of one ecosystem, or one of its checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TestRecipe {
    /// Name of the data file without its extension.
    pub(crate) name: String,
    /// Purpose of the run: that of the runner.
    #[serde(skip)]
    pub(crate) purpose: RunPurpose,
    #[serde(skip)]
    runner: Option<&'static TestRunner>,
    /// Code in the host for this ecosystem, if data is not enough.
    #[serde(default)]
    pub(crate) interpreter: Interpreter,
    /// Program, found on the user's `PATH` outside of the repository.
    pub(crate) program: String,
    /// Script of the project that replaces the program, because it fixes the version. It runs in the sandbox.
    #[serde(default)]
    pub(crate) wrapper: Option<String>,
    /// Program among the project's installed packages, which takes precedence over the machine's.
    #[serde(default)]
    pub(crate) own_program: Option<String>,
    /// True to run through `bundle exec` if the folder has a Gemfile.
    #[serde(default)]
    pub(crate) bundle: bool,
    /// Advice if the program is missing.
    pub(crate) install: String,
    /// Programs that the run may start and that are on the `PATH` outside of the system's folders.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    /// Further programs that the run requires.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Entries that identify the installation of the program, in a folder above it. The run sees all of that folder.
    #[serde(default)]
    pub(crate) marks: Vec<String>,
    /// Commands that must succeed first: configure, build.
    #[serde(default)]
    pub(crate) before: Vec<Vec<String>>,
    /// Argument vector with `{paths}`, `{filter}`, `{script}` and `{target}`; `{paths|x}` becomes `x` if all tests
    /// run.
    pub(crate) arguments: Vec<String>,
    /// Argument vector that builds the tests without running them; empty if only the preceding commands build.
    #[serde(default)]
    pub(crate) compile: Vec<String>,
    /// Arguments that select tests by name; empty if the runner cannot.
    #[serde(default)]
    pub(crate) filter: Vec<String>,
    /// Argument between those of a package manager and those of its script.
    #[serde(default)]
    pub(crate) separator: Option<String>,
    /// Arguments that select a path; the first matching glob counts.
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<PathRule>,
    /// Format of the results.
    pub(crate) format: ResultFormat,
    /// Globs of result files, relative to the folder of the suite.
    #[serde(default)]
    pub(crate) results: Vec<String>,
    /// Folders of build output, which the build cache keeps.
    #[serde(default)]
    pub(crate) build: Vec<String>,
    /// True if build output is in the outermost folder with the first sign, instead of the suite's folder.
    #[serde(default)]
    pub(crate) workspace: bool,
    /// True if build output is beside every file that a sign names, in the suite's folder and beneath it.
    #[serde(default)]
    pub(crate) modules: bool,
    /// Environment variables of the run.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// The user's folders of toolchains and package caches.
    #[serde(default, rename = "home")]
    pub(crate) homes: Vec<ToolHome>,
    /// Texts in the output that report missing packages, with the command that installs them.
    #[serde(default)]
    pub(crate) missing: Vec<MissingSign>,
}

impl TestRecipe {
    /// How its suites are found.
    pub(crate) fn runner(&self) -> &'static TestRunner {
        self.runner.expect("each parsed recipe has one")
    }

    /// The command that builds all tests, as a user would type it.
    pub(crate) fn compile_command(&self) -> String {
        let arguments = self.compile.iter().filter(|argument| *argument != "{paths}");
        let words = std::iter::once(self.program.as_str()).chain(arguments.map(|argument| {
            let all = argument.strip_prefix("{paths|").and_then(|rest| rest.strip_suffix('}'));
            all.unwrap_or(argument)
        }));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Code in the host that chooses the program and its arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Interpreter {
    /// Data is enough.
    #[default]
    None,
    /// The Python of the project, with uv, Poetry and virtual environments.
    Python,
    /// A program beside the Python of the project, else of the machine.
    PythonTool,
    /// The `test` script of package.json, which names the runner.
    Script,
}

/// Arguments for paths that match a glob.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathRule {
    /// Glob over the path relative to the folder of the suite.
    pub(crate) glob: String,
    /// Arguments with `{path}`, `{folder}` or `{stem}`.
    pub(crate) arguments: Vec<String>,
    /// Separator that joins the values of several paths to one argument.
    #[serde(default)]
    pub(crate) join: Option<String>,
}

/// A folder of the user that belongs to a toolchain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ToolHome {
    /// Variable that names the folder.
    #[serde(default)]
    pub(crate) variable: Option<String>,
    /// Default place, relative to the user's home.
    pub(crate) place: String,
    /// Parts that the run may read. The run does not see the others, which may hold credentials.
    #[serde(default)]
    pub(crate) show: Vec<String>,
    /// Parts that the run may read, and write to a private layer.
    #[serde(default)]
    pub(crate) layers: Vec<String>,
    /// Settings that are copied from files which may hold credentials.
    #[serde(default)]
    pub(crate) settings: Vec<CopiedSettings>,
    /// True if a folder of the build cache replaces it.
    #[serde(default)]
    pub(crate) build: bool,
}

/// Settings that a tool needs to resolve packages offline. The run never sees the file itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CopiedSettings {
    /// File, relative to the folder of the tool.
    pub(crate) file: String,
    /// Key whose value is another folder of packages.
    #[serde(default)]
    pub(crate) packages: Option<String>,
    /// Keys to copy: parts separated by dots, `*` for any name. In XML they are names of elements. A value that is a
    /// URL with a user or a password is left out.
    pub(crate) keys: Vec<String>,
}

/// A text in the output that reports missing packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MissingSign {
    /// Part of the output.
    pub(crate) text: String,
    /// Command that installs the packages.
    pub(crate) command: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_parses_and_bears_the_name_of_its_file() {
        for (name, text) in FILES.into_iter().chain(CHECK_FILES) {
            let parsed: TestRecipe = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(parsed.name, name);
            let recipe = find_recipe(name).expect("it has a runner");
            assert_eq!(recipe.purpose.name(), recipe.runner().purpose);
            let is_check = CHECK_FILES.iter().any(|(check, _)| *check == name);
            assert_eq!(recipe.purpose != RunPurpose::Tests, is_check, "{name}");
        }
        assert_eq!(all_recipes().len(), tool_project::all_runners().len());
        assert!(find_recipe("no-such-recipe").is_none());
    }

    /// Tests never write to the build cache: without a step that only builds, nothing would be kept.
    #[test]
    fn what_is_kept_is_built_by_a_step_that_runs_no_test() {
        for recipe in recipes_for(RunPurpose::Tests) {
            let keeps = !recipe.build.is_empty() || recipe.homes.iter().any(|home| home.build);
            let builds = !recipe.compile.is_empty() || !recipe.before.is_empty();
            assert!(builds || !keeps, "{}", recipe.name);
            assert!(recipe.compile.is_empty() || recipe.before.is_empty(), "{}", recipe.name);
        }
    }

    /// Result files are read from the tree that a run leaves; a folder of the build cache is mounted over it.
    #[test]
    fn no_result_file_lies_in_the_build_cache() {
        for recipe in all_recipes() {
            for folder in &recipe.build {
                let is_in_it = |glob: &&String| glob.split('/').any(|part| part == folder);
                assert_eq!(recipe.results.iter().find(is_in_it), None, "{}", recipe.name);
            }
        }
    }

    #[test]
    fn no_folder_with_credentials_is_shown_as_a_whole() {
        let whole = |home: &&ToolHome| home.show.iter().chain(&home.layers).any(String::is_empty);
        let places = all_recipes().iter().flat_map(|recipe| &recipe.homes).filter(whole);
        let places: Vec<&str> = places.map(|home| home.place.as_str()).collect();
        let are_packages = |place: &&str| ["go/pkg/mod", ".nuget/packages"].contains(place);
        assert_eq!(places.into_iter().find(|place| !are_packages(place)), None);
    }

    #[test]
    fn a_placeholder_stands_where_it_means_something() {
        for recipe in all_recipes() {
            let places = recipe.arguments.iter().filter(|argument| argument.contains('{'));
            for place in places {
                let is_known = ["{paths}", "{filter}", "{script}", "{target}"].contains(&place.as_str())
                    || place.starts_with("{paths|");
                assert!(is_known, "{}: {place}", recipe.name);
            }
        }
    }
}
