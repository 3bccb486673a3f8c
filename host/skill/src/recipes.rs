//! Recipes: how the tests and checks of an ecosystem are found and run, one file of data for each.
//!
//! A recipe is a fixed argument vector with places for checked names and paths. It comes from this program or, as the
//! user's own command, from the user; a repository has no say in it. Every key here is acted on: an unknown one does
//! not parse.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use test_results::ResultFormat;
use tool_core::api::RunPurpose;

/// The files, in the order in which they are preferred within a family.
const FILES: [(&str, &str); 21] = [
    ("pytest", include_str!("recipes/pytest.toml")),
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

/// The files of checks, in the same order. A script of the project comes before the tool that it may start.
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

/// All recipes.
static RECIPES: LazyLock<Vec<TestRecipe>> = LazyLock::new(|| {
    let files = FILES.iter().chain(&CHECK_FILES);
    let parsed = files.map(|(_, text)| toml::from_str(text));
    parsed.collect::<Result<_, _>>().expect("a test parses every recipe")
});

/// The recipes of tests and checks, in the order in which they are preferred.
pub(crate) fn all() -> &'static [TestRecipe] {
    &RECIPES
}

/// The recipes that serve a purpose.
pub(crate) fn of(purpose: RunPurpose) -> impl Iterator<Item = &'static TestRecipe> {
    all().iter().filter(move |recipe| recipe.purpose == purpose)
}

/// The recipe of this name.
pub(crate) fn find(name: &str) -> Option<&'static TestRecipe> {
    all().iter().find(|recipe| recipe.name == name)
}

/// Running the tests of one ecosystem, or one of its checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TestRecipe {
    /// Name of the file without its ending.
    pub(crate) name: String,
    /// Purpose of the run.
    #[serde(default)]
    pub(crate) purpose: RunPurpose,
    /// In a folder, one recipe of a family and a purpose runs: the first that fits.
    pub(crate) family: String,
    /// Part of the host that knows more about this ecosystem than data can say.
    #[serde(default)]
    pub(crate) interpreter: Interpreter,
    /// Program that is looked up on the starter's `PATH`, outside the repository.
    pub(crate) program: String,
    /// Script of the project that stands for the program where it is there, because it fixes the version. It runs in
    /// the sandbox as everything of a repository does.
    #[serde(default)]
    pub(crate) wrapper: Option<String>,
    /// Program among the project's installed packages that comes before the machine's.
    #[serde(default)]
    pub(crate) own_program: Option<String>,
    /// True: through `bundle exec` where the folder has a Gemfile.
    #[serde(default)]
    pub(crate) bundle: bool,
    /// Advice where the program is missing.
    pub(crate) install: String,
    /// Endings of files whose tests this recipe runs; empty means any file.
    #[serde(default)]
    pub(crate) endings: Vec<String>,
    /// Files that mark the folder of a suite which was found by a file somewhere beneath it.
    #[serde(default)]
    pub(crate) roots: Vec<String>,
    /// True: only where it is asked for by name.
    #[serde(default)]
    pub(crate) on_request: bool,
    /// True: only where no other recipe fits the folder.
    #[serde(default)]
    pub(crate) last: bool,
    /// True: a suite in a folder beneath another of the family is one of its own, and not a part of that.
    #[serde(default)]
    pub(crate) nested: bool,
    /// Programs that the run may start and that lie on the `PATH` outside the system's folders.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    /// Further programs without which nothing can run.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Folders by which the installation of the program is known, above the program: all of it is shown to the run.
    #[serde(default)]
    pub(crate) marks: Vec<String>,
    /// Commands that must succeed before: configure, build.
    #[serde(default)]
    pub(crate) before: Vec<Vec<String>>,
    /// The argument vector, with `{paths}`, `{filter}`, `{script}` and `{target}` where these belong; `{paths|x}` is `x`
    /// where all tests are meant.
    pub(crate) arguments: Vec<String>,
    /// The argument vector that builds the tests and runs none; empty: only the commands before can.
    #[serde(default)]
    pub(crate) compile: Vec<String>,
    /// Arguments that select tests by name; empty: the runner cannot.
    #[serde(default)]
    pub(crate) filter: Vec<String>,
    /// Argument between those of a package manager and those of the script that it starts.
    #[serde(default)]
    pub(crate) separator: Option<String>,
    /// Arguments that select a path, by the first glob that fits it.
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<PathRule>,
    /// Form of the results.
    pub(crate) format: ResultFormat,
    /// Globs of result files, relative to the folder of the suite.
    #[serde(default)]
    pub(crate) results: Vec<String>,
    /// Folders of build output, which the build cache keeps from run to run.
    #[serde(default)]
    pub(crate) build: Vec<String>,
    /// True: build output lies in the outermost folder that the first sign marks, not in that of the suite.
    #[serde(default)]
    pub(crate) workspace: bool,
    /// True: folders of build output lie beside every file that a sign names, in the folder of the suite and beneath it.
    #[serde(default)]
    pub(crate) modules: bool,
    /// Signs, of which one is enough.
    #[serde(default)]
    pub(crate) detect: Vec<Sign>,
    /// Variables of the run.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// Folders of the user that toolchains and package caches lie in.
    #[serde(default, rename = "home")]
    pub(crate) homes: Vec<ToolHome>,
    /// Outputs that mean missing packages, with the command that fetches them.
    #[serde(default)]
    pub(crate) missing: Vec<MissingSign>,
}

impl TestRecipe {
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

/// Part of the host that chooses the program and its arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Interpreter {
    /// None: the data says it all.
    #[default]
    None,
    /// The Python of the project, with uv, Poetry and virtual environments.
    Python,
    /// A program beside the Python of the project, else of the machine.
    PythonTool,
    /// The `test` script of package.json, which names the runner.
    Script,
}

/// A sign that a recipe fits a folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Sign {
    /// A file of the folder, relative to it.
    #[serde(default)]
    pub(crate) file: Option<String>,
    /// A glob of the names of files in the folder.
    #[serde(default)]
    pub(crate) glob: Option<String>,
    /// A line of the file begins with this.
    #[serde(default)]
    pub(crate) line: Option<String>,
    /// The file is JSON with text at this key, whose parts are separated by points.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// Programs that test nothing: a script of these alone counts as none.
    #[serde(default)]
    pub(crate) idle: Vec<String>,
    /// The file is a Makefile with one of these targets.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    /// One of these files or folders is there as well, in the folder or one above it.
    #[serde(default)]
    pub(crate) near: Vec<String>,
    /// Globs of names of files that may lie anywhere beneath the folder.
    #[serde(default)]
    pub(crate) anywhere: Vec<String>,
}

/// Arguments for paths that a glob fits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathRule {
    /// Glob over the path relative to the folder of the suite.
    pub(crate) glob: String,
    /// Arguments with `{path}`, `{folder}` or `{stem}`.
    pub(crate) arguments: Vec<String>,
    /// Separator by which the values of several paths become one argument.
    #[serde(default)]
    pub(crate) join: Option<String>,
}

/// A folder of the user that a toolchain keeps something in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ToolHome {
    /// Variable that says where it lies.
    #[serde(default)]
    pub(crate) variable: Option<String>,
    /// Its usual place, relative to the user's home.
    pub(crate) place: String,
    /// Parts of it that the run may read. All other parts, which may hold credentials, are not there.
    #[serde(default)]
    pub(crate) show: Vec<String>,
    /// Parts of it that the run may read and seem to write: a private layer takes what it writes.
    #[serde(default)]
    pub(crate) layers: Vec<String>,
    /// Settings that are copied from files of it which may hold credentials.
    #[serde(default)]
    pub(crate) settings: Vec<CopiedSettings>,
    /// True: a folder of the build cache stands in its place.
    #[serde(default)]
    pub(crate) build: bool,
}

/// Settings of a tool that its offline resolution needs. The file itself is never there for a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CopiedSettings {
    /// The file, relative to the folder of the tool.
    pub(crate) file: String,
    /// Key whose value is another folder in which the tool keeps its packages.
    #[serde(default)]
    pub(crate) packages: Option<String>,
    /// Keys that are copied, and no others: parts separated by points, `*` stands for any name. Of XML they are the names
    /// of elements. A value that is a URL with a user or a password is left out.
    pub(crate) keys: Vec<String>,
}

/// An output that means missing packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MissingSign {
    /// A part of the output.
    pub(crate) text: String,
    /// Command that helps.
    pub(crate) command: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_parses_and_bears_the_name_of_its_file() {
        for (name, text) in FILES.into_iter().chain(CHECK_FILES) {
            let recipe: TestRecipe = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(recipe.name, name);
            let is_check = CHECK_FILES.iter().any(|(check, _)| *check == name);
            assert_eq!(recipe.purpose != RunPurpose::Tests, is_check, "{name}");
            assert!(!recipe.detect.is_empty() || recipe.on_request, "{name} is never found");
            assert_eq!(find(name).map(|found| &found.name), Some(&recipe.name));
        }
        assert!(find("no-such-recipe").is_none());
    }

    /// Tests never write to the build cache: without a step that only builds, nothing would be kept.
    #[test]
    fn what_is_kept_is_built_by_a_step_that_runs_no_test() {
        for recipe in of(RunPurpose::Tests) {
            let keeps = !recipe.build.is_empty() || recipe.homes.iter().any(|home| home.build);
            let builds = !recipe.compile.is_empty() || !recipe.before.is_empty();
            assert!(builds || !keeps, "{}", recipe.name);
            assert!(recipe.compile.is_empty() || recipe.before.is_empty(), "{}", recipe.name);
        }
    }

    /// Result files are read from the tree that a run leaves; a folder of the build cache is mounted over it.
    #[test]
    fn no_result_file_lies_in_the_build_cache() {
        for recipe in all() {
            for folder in &recipe.build {
                let is_in_it = |glob: &&String| glob.split('/').any(|part| part == folder);
                assert_eq!(recipe.results.iter().find(is_in_it), None, "{}", recipe.name);
            }
        }
    }

    #[test]
    fn no_folder_with_credentials_is_shown_as_a_whole() {
        let whole = |home: &&ToolHome| home.show.iter().chain(&home.layers).any(String::is_empty);
        let places = all().iter().flat_map(|recipe| &recipe.homes).filter(whole);
        let places: Vec<&str> = places.map(|home| home.place.as_str()).collect();
        let are_packages = |place: &&str| ["go/pkg/mod", ".nuget/packages"].contains(place);
        assert_eq!(places.into_iter().find(|place| !are_packages(place)), None);
    }

    #[test]
    fn a_placeholder_stands_where_it_means_something() {
        for recipe in all() {
            let places = recipe.arguments.iter().filter(|argument| argument.contains('{'));
            for place in places {
                let is_known = ["{paths}", "{filter}", "{script}", "{target}"].contains(&place.as_str())
                    || place.starts_with("{paths|");
                assert!(is_known, "{}: {place}", recipe.name);
            }
        }
    }
}
