//! The kind of a project: from its frameworks, else from what its packages are, else from most of its files.

use std::collections::BTreeSet;

use crate::tree::{FoundRule, ProjectTree};
use crate::{EvidencePlace, KindFinding, ProjectFile, ProjectKind, UsedFramework};

/// Frameworks that are named with a kind.
const EVIDENCE_MAX: usize = 4;
/// From this number of folders with a deployment of their own on, a repository is a collection of them.
const DEPLOYMENTS_MIN: usize = 5;
/// From this number of files on, notebooks or data are what a repository is about.
const FILES_MIN: usize = 3;

/// The kind that a rule shows for its package.
pub(crate) fn kind_of(found: &FoundRule<'_>) -> Option<ProjectKind> {
    let kind = found.rule.kind.filter(|kind| *kind != ProjectKind::Workspace)?;
    (found.rule.kind_by_proof || !found.starts.is_empty()).then_some(kind)
}

/// The kind of the whole.
pub(crate) fn find_kind(tree: &ProjectTree<'_>, files: &[ProjectFile], found: &[FoundRule<'_>]) -> Option<KindFinding> {
    let of_packages = |is_root: bool| {
        let kinds = found.iter().filter(move |found| (found.package == 0) == is_root);
        kinds.filter_map(kind_of).min()
    };
    let is_deployment = |kind: ProjectKind| kind == ProjectKind::Infrastructure;
    let root = of_packages(true);
    let is_by_root = root.is_some_and(|kind| !is_deployment(kind) || is_described_by_deployment(found));
    let nested = || of_packages(false).filter(|kind| !is_deployment(*kind));
    let kind = if is_by_root {
        root
    } else {
        published(tree, files, found).or_else(nested)
    };
    if let Some(finding) = most_files(tree).filter(|_| kind.is_none_or(|kind| !kind.is_application())) {
        return Some(finding);
    }
    let deployed = found.iter().filter(|found| kind_of(found).is_some_and(is_deployment));
    let folders: BTreeSet<&str> = deployed
        .filter_map(|found| crate::tree::strip_folder(tree.packages[found.package].folder, tree.target))
        .filter_map(|inside| inside.split('/').next())
        .collect();
    let deployments = folders.len();
    let kind = match kind {
        Some(_) if !is_by_root && deployments >= DEPLOYMENTS_MIN && deployments * 2 >= tree.top_folders() => {
            ProjectKind::Infrastructure
        }
        Some(ProjectKind::WebApplication) if is_window(tree, found) => ProjectKind::DesktopApplication,
        Some(kind) => kind,
        None => root.or_else(|| of_packages(false))?,
    };
    let evidence = evidence_of(found, kind);
    match exposed_port(files, tree).filter(|_| kind == ProjectKind::CommandLine && !has_terminal(found)) {
        Some(place) => {
            let named = UsedFramework {
                name: String::new(),
                place,
            };
            let evidence = std::iter::once(named).chain(evidence).take(EVIDENCE_MAX).collect();
            Some(KindFinding {
                kind: ProjectKind::Service,
                evidence,
            })
        }
        None => Some(KindFinding { kind, evidence }),
    }
}

fn evidence_of(found: &[FoundRule<'_>], kind: ProjectKind) -> Vec<UsedFramework> {
    let mut evidence: Vec<UsedFramework> = Vec::new();
    for found in found.iter().filter(|found| kind_of(found) == Some(kind)) {
        let name = if found.rule.is_tool {
            String::new()
        } else {
            found.rule.name.clone()
        };
        if !evidence.iter().any(|known| known.name == name) && evidence.len() < EVIDENCE_MAX {
            let start = found.starts.first().map(|start| start.place.clone());
            evidence.push(UsedFramework {
                name,
                place: start.unwrap_or_else(|| found.place.clone()),
            });
        }
    }
    evidence
}

/// True if the root is made of more than a file of services, which many applications have.
fn is_described_by_deployment(found: &[FoundRule<'_>]) -> bool {
    found.iter().any(|found| {
        found.package == 0 && kind_of(found) == Some(ProjectKind::Infrastructure) && !found.rule.is_beside_code
    })
}

/// The kind of a workspace of npm that publishes packages and keeps its applications to itself.
fn published(tree: &ProjectTree<'_>, files: &[ProjectFile], found: &[FoundRule<'_>]) -> Option<ProjectKind> {
    let is_node = |found: &&FoundRule<'_>| tree.packages[found.package].groups.contains("node");
    let published = found
        .iter()
        .any(|found| kind_of(found) == Some(ProjectKind::Library) && is_node(&found));
    let is_private = |found: &FoundRule<'_>| {
        let manifest = crate::tree::join(tree.packages[found.package].folder, "package.json");
        let file = files.iter().find(|file| file.path == manifest);
        file.and_then(crate::manifests::read_json)
            .is_some_and(|manifest| manifest["private"] == true)
    };
    let mut applications = found
        .iter()
        .filter(|found| kind_of(found).is_some_and(ProjectKind::is_application));
    let has_apps = tree.paths().any(|path| {
        let inside = crate::tree::strip_folder(path, tree.target).unwrap_or(path);
        inside.starts_with("apps/")
    });
    (published && !has_apps && applications.all(|found| is_node(&found) && is_private(found)))
        .then_some(ProjectKind::Library)
}

/// True if the pages of a project are shown by its program with windows.
fn is_window(tree: &ProjectTree<'_>, found: &[FoundRule<'_>]) -> bool {
    let of = |kind: ProjectKind| found.iter().filter(move |found| kind_of(found) == Some(kind));
    let is_around = |page: &FoundRule<'_>, window: &FoundRule<'_>| {
        page.package == window.package
            || crate::tree::strip_folder(tree.packages[window.package].folder, tree.packages[page.package].folder)
                .is_some()
    };
    let mut pages = of(ProjectKind::WebApplication);
    of(ProjectKind::DesktopApplication).next().is_some()
        && pages.all(|page| {
            page.rule.group == "node" && of(ProjectKind::DesktopApplication).any(|window| is_around(page, window))
        })
}

/// True if a framework for terminals is used, or a package of npm installs a command.
fn has_terminal(found: &[FoundRule<'_>]) -> bool {
    let mut commands = found
        .iter()
        .filter(|found| kind_of(found) == Some(ProjectKind::CommandLine));
    commands.any(|found| !found.rule.is_tool || found.rule.group == "node")
}

/// The line of a container file that opens a port.
fn exposed_port(files: &[ProjectFile], tree: &ProjectTree<'_>) -> Option<EvidencePlace> {
    let root = crate::tree::join(tree.target, "Dockerfile");
    let file = files.iter().find(|file| file.path == root)?;
    let at = file.text.lines().position(|line| line.starts_with("EXPOSE "))?;
    Some(EvidencePlace {
        path: root,
        line: Some(at + 1),
    })
}

/// Notebooks or data, if most files are.
fn most_files(tree: &ProjectTree<'_>) -> Option<KindFinding> {
    const CODE: [&str; 24] = [
        "py", "js", "ts", "tsx", "jsx", "mjs", "vue", "svelte", "rs", "go", "java", "kt", "cs", "rb", "php", "c", "cc",
        "cpp", "ex", "swift", "scala", "lua", "sh", "r",
    ];
    const DATA: [&str; 9] = [
        "csv", "tsv", "json", "jsonl", "geojson", "parquet", "xml", "xlsx", "sqlite",
    ];
    let extension = |path: &str| {
        path.rsplit_once('.')
            .map_or("", |(_, extension)| extension)
            .to_ascii_lowercase()
    };
    let of = |known: &dyn Fn(&str) -> bool| tree.paths().filter(|path| known(&extension(path))).collect::<Vec<_>>();
    let (notebooks, code) = (of(&|end| end == "ipynb"), of(&|end| CODE.contains(&end)));
    let (data, all) = (of(&|end| DATA.contains(&end)), tree.paths().count());
    let (kind, files) = if notebooks.len() >= FILES_MIN && notebooks.len() * 2 >= code.len() {
        (ProjectKind::Notebooks, notebooks)
    } else if code.is_empty() && data.len() >= FILES_MIN && data.len() * 2 >= all {
        (ProjectKind::Data, data)
    } else {
        return None;
    };
    let first = files.iter().min_by_key(|path| (path.matches('/').count(), **path))?;
    let place = EvidencePlace {
        path: (*first).to_owned(),
        line: None,
    };
    Some(KindFinding {
        kind,
        evidence: vec![UsedFramework {
            name: String::new(),
            place,
        }],
    })
}
