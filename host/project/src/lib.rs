//! What a project is, how it is built, run and tested, and where its programs start.
//!
//! Pure functions over a list of paths and the texts of a few files that they ask for. A claim has a place that shows
//! it; without one there is no claim. Frameworks and build tools are data, one file each below `frameworks/`. Manifests
//! are hostile input: paths, packages, files and results are bounded, and nothing of them runs.

#![forbid(unsafe_code)]

mod commands;
mod globs;
mod kinds;
mod manifests;
mod routes;
mod rules;
mod runners;
mod suites;
mod toolchains;
mod tree;

use serde::Deserialize;

pub use routes::{BlockSpan, HandlerPlace, PageRule, RoutePattern, RouteRules};
pub use rules::route_rules;
pub use runners::{TestRunner, all_runners};
pub use suites::{SuiteFinder, TestSuite};
pub use tree::ProjectTree;

/// A file that was read, from its first line on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Relative to the root of the repository.
    pub path: String,
    /// The text, which may be cut after some line.
    pub text: String,
}

impl ProjectFile {
    fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }
}

/// What a project is for the people who run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectKind {
    /// A site or an API over HTTP.
    WebApplication,
    /// A program for phones.
    MobileApplication,
    /// A program with windows.
    DesktopApplication,
    /// A program for a board.
    Firmware,
    /// A program that runs in the background.
    Service,
    /// A program for a terminal.
    CommandLine,
    /// Notebooks of Jupyter.
    Notebooks,
    /// Code that other projects use.
    Library,
    /// Descriptions of machines and services.
    Infrastructure,
    /// Files of data.
    Data,
    /// Several packages in one repository.
    Workspace,
}

impl ProjectKind {
    /// The kind in words.
    pub fn label(self) -> &'static str {
        match self {
            Self::WebApplication => "web application",
            Self::MobileApplication => "mobile application",
            Self::DesktopApplication => "desktop application",
            Self::Firmware => "firmware",
            Self::Service => "service",
            Self::CommandLine => "command line",
            Self::Notebooks => "notebooks",
            Self::Library => "library",
            Self::Infrastructure => "infrastructure",
            Self::Data => "data",
            Self::Workspace => "workspace",
        }
    }

    /// True for a program that people start.
    pub fn is_application(self) -> bool {
        self <= Self::CommandLine
    }
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Fetches dependencies.
    Install,
    /// Builds the project.
    Build,
    /// Starts it.
    Run,
    /// Runs its tests.
    Test,
    /// Checks its sources.
    Lint,
}

impl Purpose {
    /// Word before the command.
    pub fn label(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Build => "build",
            Self::Run => "run",
            Self::Test => "test",
            Self::Lint => "lint",
        }
    }
}

/// Where the evidence stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidencePlace {
    /// Relative to the root of the repository.
    pub path: String,
    /// From 1; absent if the name of the file is the evidence.
    pub line: Option<usize>,
}

/// A framework or a tool of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedFramework {
    /// Its name.
    pub name: String,
    /// What shows it.
    pub place: EvidencePlace,
}

/// The kind of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindFinding {
    /// The kind.
    pub kind: ProjectKind,
    /// What shows it: frameworks, or a place with an empty name.
    pub evidence: Vec<UsedFramework>,
}

/// A command that builds, runs, tests or checks the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCommand {
    /// What it is for.
    pub purpose: Purpose,
    /// The command as a person types it in the folder of the target.
    pub command: String,
    /// The script that it runs, if the manifest has one.
    pub script: String,
    /// What shows it.
    pub place: EvidencePlace,
}

/// A place where a program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramStart {
    /// Words about it, such as `Django site`.
    pub what: String,
    /// The place.
    pub place: EvidencePlace,
}

/// A toolchain that the project needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededToolchain {
    /// Its name, such as `Python`.
    pub name: &'static str,
    /// The version as the project writes it.
    pub version: String,
    /// What shows it.
    pub place: EvidencePlace,
}

/// Everything that the files of a project show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectFacts {
    /// The kind; absent if nothing shows it.
    pub kind: Option<KindFinding>,
    /// What holds several packages together, such as workspaces of pnpm.
    pub workspace: Vec<UsedFramework>,
    /// Other frameworks.
    pub frameworks: Vec<UsedFramework>,
    /// Commands, by purpose.
    pub commands: Vec<ProjectCommand>,
    /// Places where programs start.
    pub starts: Vec<ProgramStart>,
    /// Toolchains.
    pub toolchains: Vec<NeededToolchain>,
}

/// Frameworks of the facts.
const FRAMEWORKS_MAX: usize = 12;
/// Starts of the facts.
const STARTS_MAX: usize = 12;

/// The files that [`detect_project`] wants to read, the most informative first.
pub fn plan_reads(tree: &ProjectTree<'_>) -> Vec<String> {
    tree.plan_reads()
}

/// Finds out what a project is. `files` are those of [`plan_reads`], as far as they could be read, and any others.
pub fn detect_project(tree: &ProjectTree<'_>, files: &[ProjectFile]) -> ProjectFacts {
    let found = tree.apply_rules(files);
    let kind = kinds::find_kind(tree, files, &found);
    let of_workspace = |found: &&tree::FoundRule<'_>| found.rule.kind == Some(ProjectKind::Workspace);
    let used = |found: &tree::FoundRule<'_>| UsedFramework {
        name: found.rule.name.clone(),
        place: found.place.clone(),
    };
    let mut workspace: Vec<UsedFramework> = found.iter().filter(of_workspace).map(used).collect();
    workspace.dedup_by(|a, b| a.name == b.name);
    let mut frameworks: Vec<UsedFramework> = Vec::new();
    for found in found.iter().filter(|found| !of_workspace(found) && !found.rule.is_tool) {
        if !frameworks.iter().any(|known| known.name == found.rule.name) && frameworks.len() < FRAMEWORKS_MAX {
            frameworks.push(used(found));
        }
    }
    let mut starts: Vec<ProgramStart> = Vec::new();
    // A manifest lists its commands itself.
    let is_listed = |found: &tree::FoundRule<'_>, start: &ProgramStart| {
        let name = start.place.path.rsplit('/').next().unwrap_or_default();
        found.rule.is_tool && manifests::manifest_group(name).is_some()
    };
    let own = |found| {
        let found: &tree::FoundRule<'_> = found;
        found.starts.iter().filter(move |start| !is_listed(found, start))
    };
    // A program that starts all others comes first.
    let mut ordered: Vec<&tree::FoundRule<'_>> = found.iter().collect();
    ordered.sort_by_key(|found| !found.rule.command.iter().any(|command| command.is_whole));
    for start in ordered.into_iter().flat_map(own) {
        if !starts.iter().any(|known| known.place.path == start.place.path) && starts.len() < STARTS_MAX {
            starts.push(start.clone());
        }
    }
    ProjectFacts {
        kind,
        workspace,
        frameworks,
        commands: commands::collect_commands(tree, files, &found),
        starts,
        toolchains: toolchains::find_toolchains(tree, files),
    }
}

#[cfg(test)]
mod tests;
