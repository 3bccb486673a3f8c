//! The packages of a project, and the rules that apply to each.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::globs::matches_glob;
use crate::manifests::{DeclaredDependency, is_repeated_inside, manifest_group, numbered_lines, read_dependencies};
use crate::rules::{FileRule, FrameworkRule, RULES};
use crate::runners::read_signs;
use crate::{EvidencePlace, ProgramStart, ProjectFile};

/// Paths that are looked at.
const PATHS_MAX: usize = 50_000;
/// Packages that are looked at, the shallowest first.
const PACKAGES_MAX: usize = 64;
/// Deepest folder of a package below the target.
const DEPTH_MAX: usize = 5;
/// Manifests that are read.
const MANIFESTS_MAX: usize = 32;
/// Manifests of one package that are read.
const MANIFESTS_OF_PACKAGE_MAX: usize = 12;
/// Other files that are read.
const CANDIDATES_MAX: usize = 48;
/// Files of one glob in one package that are read or listed.
const MATCHES_MAX: usize = 4;

/// A folder with a manifest.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    /// Relative to the root of the repository.
    pub(crate) folder: &'a str,
    /// Files in it and in folders that are no package, without tests and examples, relative to the root.
    paths: Vec<&'a str>,
    /// Groups of languages of its manifests.
    pub(crate) groups: BTreeSet<&'static str>,
    /// The packages around it, by index, the nearest first.
    around: Vec<usize>,
}

impl<'a> Package<'a> {
    /// The path below the package's folder.
    fn relative<'p>(&self, path: &'p str) -> &'p str {
        strip_folder(path, self.folder).unwrap_or(path)
    }

    /// The paths that match a glob, the shallowest first. Only a glob with `**` looks at all of them.
    fn matching(&self, glob: &str) -> Vec<&'a str> {
        let depth = |path: &str| path.matches('/').count();
        let rooted = join(self.folder, glob);
        if !glob.contains('*') {
            let found = self
                .paths
                .binary_search_by(|path| (depth(path), *path).cmp(&(depth(&rooted), rooted.as_str())));
            return found.map(|at| self.paths[at]).into_iter().collect();
        }
        let deepest = if glob.contains("**") {
            usize::MAX
        } else {
            depth(&rooted)
        };
        let near = self.paths.iter().copied().take_while(|path| depth(path) <= deepest);
        near.filter(|path| matches_glob(glob, self.relative(path)))
            .take(MATCHES_MAX)
            .collect()
    }
}

/// The paths of a project, by package.
#[derive(Debug)]
pub struct ProjectTree<'a> {
    pub(crate) target: &'a str,
    all: BTreeSet<&'a str>,
    /// The target first, then by depth.
    pub(crate) packages: Vec<Package<'a>>,
}

/// A rule that applies to a package.
#[derive(Debug)]
pub(crate) struct FoundRule<'r> {
    pub(crate) rule: &'r FrameworkRule,
    /// The package, by index.
    pub(crate) package: usize,
    pub(crate) place: EvidencePlace,
    pub(crate) starts: Vec<ProgramStart>,
}

/// The rest of a path below a folder; the root is the empty string.
pub(crate) fn strip_folder<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    match folder {
        "" => Some(path),
        _ => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// True for a small file that names a version.
fn is_version_file(name: &str) -> bool {
    matches!(
        name,
        ".python-version" | ".nvmrc" | ".node-version" | "rust-toolchain.toml" | ".ruby-version" | "global.json"
    )
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl<'a> ProjectTree<'a> {
    /// Finds the packages below `target`. `is_aside` is true for a path of tests, examples or copies, which say nothing
    /// about the project.
    pub fn from_paths(target: &'a str, paths: &[&'a str], is_aside: impl Fn(&str) -> bool) -> Self {
        let inside = paths
            .iter()
            .copied()
            .filter(|path| strip_folder(path, target).is_some());
        let all: BTreeSet<&str> = inside.take(PATHS_MAX).collect();
        let mut own: Vec<&str> = all.iter().copied().filter(|path| !is_aside(path)).collect();
        if own.is_empty() {
            own = all.iter().copied().collect();
        }
        let mut marks: BTreeMap<(usize, &str), BTreeSet<&'static str>> = BTreeMap::new();
        marks.insert((0, target), BTreeSet::new());
        own.sort_by_key(|path| path.matches('/').count());
        let mut holders: BTreeSet<&str> = BTreeSet::new();
        for path in own.iter().copied() {
            let name = name_of(path);
            let Some(group) = manifest_group(name)
                .or_else(|| (path.contains("requirements/") && name.ends_with(".txt")).then_some("python"))
            else {
                continue;
            };
            let mut folder = parent(path);
            // Lists of requirements and files of a deployment describe the folder above.
            if matches!(name_of(folder), "requirements" | "reqs" | ".devcontainer") && folder != target {
                folder = parent(folder);
            }
            let depth = strip_folder(folder, target).map_or(0, |inside| inside.split('/').count());
            let is_inside = is_repeated_inside(name) && folder != target && (name != "main.tf" || depth > 2);
            // A role of Ansible may have tasks with the name of a manifest.
            if folder.len() < target.len()
                || matches!(name_of(folder), "tasks" | "handlers")
                || depth > DEPTH_MAX
                || is_inside && holders.iter().any(|holder| is_below(folder, holder))
            {
                continue;
            }
            if is_repeated_inside(name) {
                holders.insert(folder);
            }
            let depth = if folder == target { 0 } else { depth };
            marks.entry((depth, folder)).or_default().insert(group);
        }
        let mut packages: Vec<Package<'a>> = Vec::new();
        for ((_, folder), groups) in marks.into_iter().take(PACKAGES_MAX) {
            let mut around: Vec<usize> = (0..packages.len())
                .filter(|at| is_below(folder, packages[*at].folder))
                .collect();
            around.reverse();
            packages.push(Package {
                folder,
                paths: Vec::new(),
                groups,
                around,
            });
        }
        let by_folder: BTreeMap<&str, usize> = packages
            .iter()
            .enumerate()
            .map(|(at, package)| (package.folder, at))
            .collect();
        for path in own {
            let mut folder = parent(path);
            let at = loop {
                match by_folder.get(folder) {
                    Some(at) => break *at,
                    None if folder.is_empty() => break 0,
                    None => folder = parent(folder),
                }
            };
            packages[at].paths.push(path);
        }
        for package in &mut packages {
            package.paths.sort_by_key(|path| (path.matches('/').count(), *path));
        }
        Self { target, all, packages }
    }

    /// True if the project has this file, by its path from the root of the repository.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.all.contains(path)
    }

    /// The path of a file with this name in a package or around it.
    pub(crate) fn find_around(&self, package: usize, name: &str) -> Option<String> {
        let folders = std::iter::once(package).chain(self.packages[package].around.iter().copied());
        folders
            .map(|at| join(self.packages[at].folder, name))
            .find(|path| self.has(path))
    }

    /// Folders directly in the target.
    pub(crate) fn top_folders(&self) -> usize {
        let inside = self.all.iter().filter_map(|path| strip_folder(path, self.target));
        let folders: BTreeSet<&str> = inside.filter_map(|path| Some(path.split_once('/')?.0)).collect();
        folders.len()
    }

    /// All paths of a project, tests as well.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.all.iter().copied()
    }

    /// The paths of a package that match a rule's globs, the shallowest first.
    fn matches(&self, package: &Package<'a>, rule: &FileRule) -> Vec<&'a str> {
        let is_there = |glob: &String| {
            if !glob.contains('*') {
                return self.has(&join(package.folder, glob));
            }
            let mut inside = self.all.iter().filter_map(|path| strip_folder(path, package.folder));
            inside.any(|path| matches_glob(glob, path))
        };
        let found: Vec<&'a str> = rule.files.iter().flat_map(|glob| package.matching(glob)).collect();
        let is_wanted = !found.is_empty()
            && !rule.without.iter().any(is_there)
            && (rule.with.is_empty() || rule.with.iter().any(is_there));
        if is_wanted { found } else { Vec::new() }
    }

    /// The places in a package that a rule names.
    pub(crate) fn find_places(&self, package: usize, rule: &FileRule, files: &[ProjectFile]) -> Vec<EvidencePlace> {
        let place = |path: &str| {
            let Some(pattern) = rule.pattern() else {
                return Some(EvidencePlace {
                    path: path.to_owned(),
                    line: None,
                });
            };
            let file = files.iter().find(|file| file.path == path)?;
            let is_refused = |refused: &Regex| numbered_lines(file).any(|(_, line)| refused.is_match(line));
            if rule.refused_pattern().is_some_and(is_refused) {
                return None;
            }
            let (line, _) = numbered_lines(file).find(|(_, line)| pattern.is_match(line))?;
            Some(EvidencePlace {
                path: path.to_owned(),
                line: Some(line),
            })
        };
        self.matches(&self.packages[package], rule)
            .into_iter()
            .filter_map(place)
            .collect()
    }

    fn rules_of(&self, package: &Package<'a>) -> impl Iterator<Item = &'static FrameworkRule> {
        let around = package.around.iter().flat_map(|at| &self.packages[*at].groups);
        let groups: BTreeSet<&str> = package.groups.iter().chain(around).copied().collect();
        RULES
            .iter()
            .filter(move |rule| rule.group == "any" || groups.contains(rule.group.as_str()))
    }

    pub(crate) fn plan_reads(&self) -> Vec<String> {
        let is_manifest = |path: &&str| {
            manifest_group(name_of(path)).is_some()
                || path.ends_with("libs.versions.toml")
                || path.contains("requirements/") && path.ends_with(".txt")
                || is_version_file(name_of(path))
                || name_of(path).starts_with("Dockerfile")
                || matches!(
                    name_of(path),
                    "Makefile" | "GNUmakefile" | "makefile" | "justfile" | "pnpm-workspace.yaml"
                )
        };
        let mut manifests: Vec<&str> = Vec::new();
        for package in &self.packages {
            let is_near = |path: &&str| package.relative(path).matches('/').count() < 2;
            let own = package.paths.iter().copied().filter(is_near).filter(is_manifest);
            manifests.extend(own.take(MANIFESTS_OF_PACKAGE_MAX));
        }
        manifests.truncate(MANIFESTS_MAX);
        let mut candidates: Vec<&str> = Vec::new();
        for package in &self.packages {
            // Signs of tests may lie in files of tests.
            for name in read_signs() {
                let sign = self.all.get(join(package.folder, name).as_str()).copied();
                candidates.extend(sign.filter(|path| !manifests.contains(path) && !candidates.contains(path)));
            }
            for rule in self.rules_of(package) {
                let of_commands = rule.command.iter().map(|command| &command.evidence);
                let with_text = rule
                    .proof
                    .iter()
                    .chain(&rule.start)
                    .chain(of_commands)
                    .filter(|file| file.text.is_some());
                for path in with_text.flat_map(|file| self.matches(package, file)) {
                    if !manifests.contains(&path) && !candidates.contains(&path) {
                        candidates.push(path);
                    }
                }
            }
            if candidates.len() >= CANDIDATES_MAX {
                break;
            }
        }
        candidates.truncate(CANDIDATES_MAX);
        manifests.into_iter().chain(candidates).map(str::to_owned).collect()
    }

    /// The dependencies of each package with the manifest that declares them.
    pub(crate) fn dependencies<'f>(&self, files: &'f [ProjectFile]) -> Vec<Vec<(&'f ProjectFile, DeclaredDependency)>> {
        let of_package = |package: &Package<'a>| {
            let own = files.iter().filter(|file| package.paths.contains(&file.path.as_str()));
            own.flat_map(|file| {
                read_dependencies(file)
                    .into_iter()
                    .map(move |dependency| (file, dependency))
            })
            .collect()
        };
        self.packages.iter().map(of_package).collect()
    }

    /// The rules that something in the files proves, those of the target first.
    pub(crate) fn apply_rules(&self, files: &[ProjectFile]) -> Vec<FoundRule<'static>> {
        let declared = self.dependencies(files);
        let mut found = Vec::new();
        for (at, package) in self.packages.iter().enumerate() {
            for rule in self.rules_of(package) {
                let declares = |at: usize| {
                    let mut own = declared[at].iter();
                    own.find(|(_, dependency)| {
                        (rule.of_development || !dependency.is_development)
                            && rule.dependencies.iter().any(|name| is_named(&dependency.name, name))
                    })
                };
                let own = declares(at);
                let inherited = || package.around.iter().find_map(|at| declares(*at));
                let proof = rule
                    .proof
                    .iter()
                    .flat_map(|file| self.find_places(at, file, files))
                    .next();
                let by_dependency = own.or_else(inherited).map(|(file, dependency)| EvidencePlace {
                    path: file.path.clone(),
                    line: Some(dependency.line),
                });
                // Without dependencies and proof, a start is the proof.
                let is_by_start = rule.dependencies.is_empty() && rule.proof.is_empty();
                if by_dependency.is_none() && proof.is_none() && !is_by_start {
                    continue;
                }
                let starts: Vec<ProgramStart> = rule
                    .start
                    .iter()
                    .flat_map(|file| {
                        let places = self.find_places(at, file, files).into_iter();
                        places.map(move |place| ProgramStart {
                            what: file.what.clone(),
                            place,
                        })
                    })
                    .collect();
                let first = starts.first().map(|start| start.place.clone());
                let place = match own {
                    Some(_) => proof.or(by_dependency),
                    None => proof.or(first),
                };
                if let Some(place) = place {
                    found.push(FoundRule {
                        rule,
                        package: at,
                        place,
                        starts,
                    });
                }
            }
        }
        found
    }
}

/// True if a dependency has the name of a rule, which may end with `*`.
pub(crate) fn is_named(dependency: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => dependency.starts_with(start),
        None => dependency == name,
    }
}

fn is_below(folder: &str, holder: &str) -> bool {
    folder != holder && strip_folder(folder, holder).is_some()
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}
