//! The rows of the module map, and the files that state the purpose of each: the packages of a workspace, else the folders
//! and files in which most sources lie.

use std::collections::{BTreeMap, BTreeSet};

use super::ROWS_MAX;
use crate::evidence::{AnalystTask, ListedFile};
use crate::survey::{CountRow, Survey, is_aside_manifest, is_build_file, strip_directory};
use tool_repository::file_role::{file_name, parent_directory};
use tool_repository::path::join_path;

/// Manifests of packages, those first that describe them.
const PACKAGE_MANIFESTS: [&str; 10] = [
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "pom.xml",
    "composer.json",
    "mix.exs",
    "go.mod",
    "build.gradle",
    "build.gradle.kts",
    "Package.swift",
];
/// Files of a deployment: a chart, a playbook, services in containers, a module of Terraform, a workspace of Bazel.
const DEPLOYMENT_FILES: [&str; 9] = [
    "Chart.yaml",
    "site.yml",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
    "main.tf",
    "MODULE.bazel",
    "WORKSPACE",
];
/// From this number of folders on, deployments are what the repository is about.
const DEPLOYMENTS_MIN: usize = 5;
/// Folders between the target and a package.
const PACKAGE_DEPTH_MAX: usize = 3;
/// Folders that are opened because most sources lie in them.
const OPENED_MAX: usize = 8;

/// The rows of the map, largest first, and the directory below which their names begin.
pub(super) fn map_parts(survey: &Survey, target: &str) -> (String, Vec<CountRow>) {
    let is_package = |path: &str| PACKAGE_MANIFESTS.contains(&file_name(path)) || is_dotnet_project(path);
    let is_deployment = |path: &str| DEPLOYMENT_FILES.contains(&file_name(path));
    let mut packages = package_rows(survey, target, 2, survey.sources(), is_package);
    let deployments = package_rows(survey, target, DEPLOYMENTS_MIN, survey.files.iter(), is_deployment);
    if deployments.len() > packages.len() {
        packages = deployments;
    }
    if !packages.is_empty() {
        return (target.to_owned(), packages);
    }
    let (directory, mut parts) = survey.modules(target);
    let all: usize = parts.iter().map(|part| part.files).sum();
    for _ in 0..OPENED_MAX {
        let holds_most = |part: &CountRow| part.name.ends_with('/') && part.files * 2 > all;
        let Some(at) = parts.iter().position(holds_most) else {
            break;
        };
        let inside = survey.parts(&join_path(&directory, parts[at].name.trim_end_matches('/')));
        // A long list of files says less than their folder.
        if inside.len() > ROWS_MAX {
            break;
        }
        let opened = parts.remove(at).name;
        parts.extend(inside.into_iter().map(|part| CountRow {
            name: format!("{opened}{}", part.name),
            ..part
        }));
    }
    sort_rows(&mut parts);
    (directory, parts)
}

/// One row for each package below the target, and one for each of its other folders. Empty unless most files lie in
/// several packages.
fn package_rows<'s>(
    survey: &Survey,
    target: &str,
    packages_min: usize,
    files: impl Iterator<Item = &'s ListedFile>,
    is_manifest: impl Fn(&str) -> bool,
) -> Vec<CountRow> {
    let folder_of = |file: &ListedFile| {
        let folder = strip_directory(parent_directory(&file.path), target)?;
        let is_below = !folder.is_empty() && folder.matches('/').count() < PACKAGE_DEPTH_MAX;
        (is_manifest(&file.path) && is_below && !is_aside_manifest(&file.path)).then(|| folder.to_owned())
    };
    let packages: BTreeSet<String> = survey.files.iter().filter_map(folder_of).collect();
    let mut rows: BTreeMap<String, CountRow> = BTreeMap::new();
    let (mut all, mut packaged) = (0, 0);
    let is_counted = |path: &str| !is_build_file(path) && survey.language(path) != Some("SQL");
    for file in files.filter(|file| is_counted(&file.path)) {
        let Some(inside) = strip_directory(&file.path, target).filter(|inside| !inside.starts_with('.')) else {
            continue;
        };
        // The innermost package around the file.
        let mut folders = inside.match_indices('/').map(|(at, _)| &inside[..at]);
        let package = folders.rfind(|folder| packages.contains(*folder));
        let name = match (package, inside.split_once('/')) {
            (Some(package), _) => format!("{package}/"),
            (None, Some((first, _))) => format!("{first}/"),
            (None, None) => inside.to_owned(),
        };
        all += 1;
        packaged += usize::from(package.is_some());
        let row = rows.entry(name.clone()).or_insert(CountRow {
            name,
            files: 0,
            bytes: 0.0,
        });
        row.files += 1;
        row.bytes += file.bytes;
    }
    let is_package = |row: &CountRow| packages.contains(row.name.trim_end_matches('/'));
    let mut rows: Vec<CountRow> = rows.into_values().collect();
    if rows.iter().filter(|row| is_package(row)).count() < packages_min || packaged * 2 < all {
        return Vec::new();
    }
    sort_rows(&mut rows);
    rows.sort_by_key(|row| !is_package(row));
    rows
}

fn sort_rows(rows: &mut [CountRow]) {
    rows.sort_by(|a, b| b.files.cmp(&a.files).then(b.bytes.total_cmp(&a.bytes)));
}

fn is_dotnet_project(path: &str) -> bool {
    path.ends_with(".csproj") || path.ends_with(".fsproj")
}

/// For each row of the module map, the files that may describe it.
pub(super) fn module_heads(brief: &AnalystTask, survey: &Survey) -> Vec<String> {
    let (directory, parts) = map_parts(survey, &brief.target);
    let shown = parts.iter().take(ROWS_MAX);
    shown
        .flat_map(|part| heads_of(&directory, &part.name, survey))
        .collect()
}

/// Files that may state the purpose of a module: its manifest, its README, and its main file, such as `mod.rs` or
/// `__init__.py`.
pub(super) fn heads_of(directory: &str, part: &str, survey: &Survey) -> Vec<String> {
    const FACES: [&str; 15] = [
        "__init__.py",
        "src/lib.rs",
        "lib.rs",
        "mod.rs",
        "src/main.rs",
        "main.rs",
        "doc.go",
        "main.go",
        "package-info.java",
        "index.ts",
        "index.js",
        "index.mjs",
        "src/index.ts",
        "src/index.js",
        "mod.ts",
    ];
    let Some(folder) = part.strip_suffix('/') else {
        return vec![join_path(directory, part)];
    };
    let name = file_name(folder);
    let folder = join_path(directory, folder);
    let first = |names: &[&str]| {
        let mut paths = names.iter().map(|name| join_path(&folder, name));
        paths.find(|path| survey.has(path))
    };
    let dotnet = || {
        let files = survey.files.iter().map(|file| file.path.as_str());
        let mut projects = files.filter(|path| parent_directory(path) == folder && is_dotnet_project(path));
        projects.next().map(str::to_owned)
    };
    // In Go and Ruby the main file of a folder has the folder's name.
    let named = || {
        let paths = [
            join_path(&folder, &format!("{name}.go")),
            format!("{folder}.rb"),
            format!("{folder}.rs"),
        ];
        paths.into_iter().find(|path| survey.has(path))
    };
    let manifest = first(&PACKAGE_MANIFESTS)
        .or_else(dotnet)
        .or_else(|| first(&["Chart.yaml"]));
    let readme = first(&["README.md", "README.rst", "readme.md"]);
    let face = first(&FACES).or_else(named);
    manifest.into_iter().chain(readme).chain(face).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> (String, Vec<String>) {
        let (directory, parts) = map_parts(&Survey::of_paths(paths), "");
        (directory, parts.into_iter().map(|part| part.name).collect())
    }

    #[test]
    fn a_workspace_has_a_row_for_each_package() {
        let (directory, rows) = names(&[
            "package.json",
            "apps/web/package.json",
            "apps/web/src/app.ts",
            "apps/web/src/cart.ts",
            "packages/db/package.json",
            "packages/db/index.ts",
            "tooling/lint.ts",
            "examples/a/package.json",
            "examples/a/index.ts",
        ]);
        assert_eq!(directory, "");
        assert_eq!(rows, ["apps/web/", "packages/db/", "tooling/"]);
    }

    #[test]
    fn a_collection_of_charts_has_a_row_for_each() {
        let charts = ["a", "b", "c", "d", "e"].map(|name| format!("charts/{name}/Chart.yaml"));
        let mut paths: Vec<&str> = charts.iter().map(String::as_str).collect();
        paths.extend(["charts/b/values.yaml", "scripts/lint.sh"]);
        assert_eq!(
            names(&paths).1,
            [
                "charts/b/",
                "charts/a/",
                "charts/c/",
                "charts/d/",
                "charts/e/",
                "scripts/"
            ]
        );
    }

    #[test]
    fn a_folder_of_most_sources_is_opened() {
        let (directory, rows) = names(&[
            "src/main/java/org/shop/cart/A.java",
            "src/main/java/org/shop/web/B.java",
        ]);
        assert_eq!(
            (directory.as_str(), rows),
            ("src/main/java/org/shop", vec!["cart/".to_owned(), "web/".to_owned()])
        );
        let (directory, rows) = names(&["src/a/1.py", "src/a/2.py", "src/b/3.py", "bin/4.py", "bin/5.py"]);
        assert_eq!(directory, "");
        assert_eq!(rows, ["bin/", "src/a/", "src/b/"]);
    }
}
