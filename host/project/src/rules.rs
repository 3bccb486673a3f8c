//! The frameworks and build tools that are known, one data file each.
//!
//! Unknown keys do not parse, or fail a test, so that every key in a file has an effect.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::Deserialize;

use crate::routes::RouteRules;
use crate::{ProjectKind, Purpose};

macro_rules! rule_files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../frameworks/", $name, ".toml")))),*]
    };
}

/// The data files. A framework stands before the tool that builds it, because the first command of a purpose is the
/// first that is shown.
const FILES: &[(&str, &str)] = rule_files!(
    "django" "flask" "fastapi" "streamlit" "celery" "jupyter" "tornado" "scrapy" "python-cli"
    "next" "nuxt" "remix" "sveltekit" "astro" "nest" "express" "fastify" "koa" "electron" "react-native" "angular" "vite" "node-cli"
    "rails" "sinatra" "laravel" "symfony"
    "android" "spring-boot" "quarkus" "micronaut" "ktor" "java-application"
    "aspire" "aspnet" "maui" "dotnet-worker" "dotnet-console"
    "gin" "echo" "chi" "fiber" "cobra" "go-program"
    "tauri" "axum" "actix" "clap" "rust-program"
    "phoenix"
    "zephyr" "cmake" "meson" "autotools"
    "ansible" "terraform" "helm" "docker-compose"
    "turbo" "nx" "pnpm" "npm-workspace" "bazel" "uv-workspace" "cargo-workspace" "gradle-modules" "maven-modules" "go-work"
    "cargo" "go" "maven" "gradle" "mix" "bundler" "composer" "dotnet"
    "python" "tox" "nox" "python-lint" "node-tests" "phpunit" "rake" "just" "lint-tools" "test-scripts" "library"
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameworkRule {
    pub(crate) name: String,
    /// The manifests whose dependencies count; `any` for a rule about files alone.
    pub(crate) group: String,
    /// True for a build tool, a test runner and the like, which are no framework for readers.
    #[serde(default)]
    pub(crate) is_tool: bool,
    /// Any of these proves the framework. A `*` at the end stands for the rest of a name.
    #[serde(default)]
    pub(crate) dependencies: Vec<String>,
    /// True if a development dependency proves it, too.
    #[serde(default)]
    pub(crate) of_development: bool,
    /// What a project is that uses it.
    pub(crate) kind: Option<ProjectKind>,
    /// True if its proof shows the kind. Else only a start does: a library may depend on a framework.
    #[serde(default)]
    pub(crate) kind_by_proof: bool,
    /// True if many projects of other kinds have it beside their code.
    #[serde(default)]
    pub(crate) is_beside_code: bool,
    /// Files that prove it.
    #[serde(default)]
    pub(crate) proof: Vec<FileRule>,
    /// Where programs start.
    #[serde(default)]
    pub(crate) start: Vec<FileRule>,
    #[serde(default)]
    pub(crate) command: Vec<CommandRule>,
    /// How its routes stand in the sources.
    pub(crate) routes: Option<RouteRules>,
}

/// A file of a package that shows something.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRule {
    /// Globs relative to the package: `*` within a name, `**` for any folders.
    #[serde(default)]
    pub(crate) files: Vec<String>,
    /// Expression for a line of the file. Without one, the file's name is enough.
    pub(crate) text: Option<String>,
    /// Expression that no line of the file may match.
    unless: Option<String>,
    /// No file may match these globs.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    /// A file matches one of these globs.
    #[serde(default)]
    pub(crate) with: Vec<String>,
    /// Words before the path of a start.
    #[serde(default)]
    pub(crate) what: String,
    #[serde(skip)]
    pattern: OnceLock<Regex>,
    #[serde(skip)]
    refused_pattern: OnceLock<Regex>,
}

fn compile(text: &str) -> Regex {
    Regex::new(text).expect("a test compiles the expressions")
}

impl FileRule {
    /// The expression for a line, if the rule has one.
    pub(crate) fn pattern(&self) -> Option<&Regex> {
        let text = self.text.as_deref()?;
        Some(self.pattern.get_or_init(|| compile(text)))
    }

    /// The expression that no line may match, if the rule has one.
    pub(crate) fn refused_pattern(&self) -> Option<&Regex> {
        let text = self.unless.as_deref()?;
        Some(self.refused_pattern.get_or_init(|| compile(text)))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct CommandRule {
    pub(crate) purpose: Purpose,
    /// The command with placeholders: `{python}`, `{npm}`, `{file}` and others.
    pub(crate) command: String,
    /// True if the command runs in the root, also for a package below it.
    #[serde(default)]
    pub(crate) from_root: bool,
    /// True if any other command of the purpose is better.
    #[serde(default)]
    pub(crate) is_fallback: bool,
    /// True if the command starts all programs, not one of them.
    #[serde(default)]
    pub(crate) is_whole: bool,
    /// The runner whose suites it starts: without one in the package, the command is none.
    pub(crate) runner: Option<String>,
    /// Any of these is a dependency, also one for development.
    #[serde(default)]
    pub(crate) dependencies: Vec<String>,
    #[serde(flatten)]
    pub(crate) evidence: FileRule,
}

/// All rules, in the order of their files.
pub(crate) static RULES: LazyLock<Vec<FrameworkRule>> = LazyLock::new(|| {
    let parse = |(name, text): &(&str, &str)| {
        toml::from_str(text).unwrap_or_else(|error| panic!("a test parses the rules: {name}: {error}"))
    };
    FILES.iter().map(parse).collect()
});

/// The names of the data files, in the order of [`RULES`].
#[cfg(test)]
pub(crate) fn file_names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// How the routes of all frameworks stand in their sources.
pub fn route_rules() -> impl Iterator<Item = &'static RouteRules> {
    RULES.iter().filter_map(|rule| rule.routes.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_below_frameworks_is_a_rule_with_valid_expressions() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/frameworks");
        let mut on_disk: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder exists")
            .map(|entry| {
                entry
                    .expect("it can be listed")
                    .file_name()
                    .to_string_lossy()
                    .replace(".toml", "")
            })
            .collect();
        on_disk.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        assert_eq!(listed, on_disk);
        const KEYS: [&str; 12] = [
            "purpose",
            "command",
            "runner",
            "from_root",
            "is_fallback",
            "is_whole",
            "dependencies",
            "files",
            "text",
            "unless",
            "with",
            "without",
        ];
        for (name, text) in FILES {
            let rule: toml::Table = toml::from_str(text).expect("it is TOML");
            let commands = rule.get("command").and_then(toml::Value::as_array);
            for command in commands.into_iter().flatten().filter_map(toml::Value::as_table) {
                assert!(
                    command.keys().all(|key| KEYS.contains(&key.as_str())),
                    "{name}: {command}"
                );
            }
        }
        for rule in RULES.iter() {
            let files = rule.proof.iter().chain(&rule.start);
            for file in files.chain(rule.command.iter().map(|command| &command.evidence)) {
                let expressions = [&file.text, &file.unless].into_iter().flatten();
                assert!(
                    expressions.map(|text| Regex::new(text)).all(|parsed| parsed.is_ok()),
                    "{}",
                    rule.name
                );
            }
        }
    }
}
