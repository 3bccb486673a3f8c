//! Lock files: the version that a constraint resolved to.
//!
//! The skill reads npm's lock files and those that are TOML tables of packages (Cargo, Poetry, uv). It only names the
//! others.

use std::collections::BTreeMap;

use serde::Deserialize;
use skill_sdk::serde_json;

use crate::model::{Ecosystem, Manifest, directory_of, normal_name};

/// Limit for a lock file in bytes. Larger ones are only named: parsing takes several times their size in memory.
pub(crate) const BYTES_MAX: u64 = 24 << 20;

/// Names of lock files, with their ecosystem and whether they are read.
pub(crate) const NAMES: [(&str, Ecosystem, bool); 14] = [
    ("package-lock.json", Ecosystem::Npm, true),
    ("npm-shrinkwrap.json", Ecosystem::Npm, true),
    ("yarn.lock", Ecosystem::Npm, false),
    ("pnpm-lock.yaml", Ecosystem::Npm, false),
    ("bun.lock", Ecosystem::Npm, false),
    ("bun.lockb", Ecosystem::Npm, false),
    ("Cargo.lock", Ecosystem::Rust, true),
    ("poetry.lock", Ecosystem::Python, true),
    ("uv.lock", Ecosystem::Python, true),
    ("pdm.lock", Ecosystem::Python, true),
    ("Pipfile.lock", Ecosystem::Python, false),
    ("go.sum", Ecosystem::Go, false),
    ("composer.lock", Ecosystem::Php, false),
    ("mix.lock", Ecosystem::Elixir, false),
];

/// The kind of a path whose name is in [`NAMES`].
pub(crate) fn kind_of(path: &str) -> Option<(Ecosystem, bool)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    NAMES
        .iter()
        .find(|(known, _, _)| *known == name)
        .map(|(_, ecosystem, read)| (*ecosystem, *read))
}

/// The versions in one lock file.
pub(crate) struct DependencyLock {
    path: String,
    ecosystem: Ecosystem,
    /// A line about the file for the answer.
    description: String,
    /// All versions by place of installation for npm, by name for the others.
    versions: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct NpmLock {
    #[serde(default, rename = "lockfileVersion")]
    lockfile_version: u32,
    #[serde(default)]
    packages: BTreeMap<String, NpmPackage>,
    #[serde(default)]
    dependencies: BTreeMap<String, NpmPackage>,
}

#[derive(Deserialize)]
struct NpmPackage {
    #[serde(default)]
    version: Option<String>,
}

#[derive(Deserialize)]
struct TomlLock {
    #[serde(default)]
    package: Vec<NamedPackage>,
}

#[derive(Deserialize)]
struct NamedPackage {
    name: String,
    #[serde(default)]
    version: Option<String>,
}

impl DependencyLock {
    /// Creates an entry for a file that is only named.
    pub(crate) fn unread_file(path: &str, ecosystem: Ecosystem, why: &str) -> Self {
        Self {
            path: path.to_owned(),
            ecosystem,
            description: format!("{path} ({why})"),
            versions: BTreeMap::new(),
        }
    }

    /// Parses a lock file. One that does not parse is described as such.
    pub(crate) fn parse(path: &str, ecosystem: Ecosystem, text: &str) -> Self {
        let parsed = if ecosystem == Ecosystem::Npm {
            parse_npm(text)
        } else {
            toml_packages(ecosystem, text)
        };
        match parsed {
            Ok((description, versions)) => Self {
                path: path.to_owned(),
                ecosystem,
                description: format!("{path} ({description})"),
                versions,
            },
            Err(error) => Self::unread_file(path, ecosystem, &format!("does not parse: {error}")),
        }
    }

    /// The version of a manifest's dependency; `None` if there are several.
    fn version(&self, manifest: &Manifest, name: &str) -> Option<&str> {
        let one = |key: &str| match self.versions.get(key).map(Vec::as_slice) {
            Some([version]) => Some(version.as_str()),
            _ => None,
        };
        if self.ecosystem != Ecosystem::Npm {
            let bare = name.split('[').next().unwrap_or(name);
            return one(&normal_name(self.ecosystem, bare));
        }
        let below = manifest
            .directory()
            .strip_prefix(directory_of(&self.path))
            .unwrap_or_default();
        // A workspace's own copy takes precedence over the shared one.
        one(&format!("{below}node_modules/{name}")).or_else(|| one(&format!("node_modules/{name}")))
    }
}

type LockedVersions = (String, BTreeMap<String, Vec<String>>);

fn parse_npm(text: &str) -> Result<LockedVersions, String> {
    let lock: NpmLock = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut versions = BTreeMap::new();
    // Version 1 lists by name, versions 2 and 3 by place.
    let by_name = lock
        .dependencies
        .into_iter()
        .map(|(name, package)| (format!("node_modules/{name}"), package));
    for (place, package) in by_name.chain(lock.packages) {
        if let Some(version) = package.version {
            versions.insert(place, vec![version]);
        }
    }
    let count = versions.keys().filter(|place| !place.is_empty()).count();
    Ok((
        format!("version {}, {count} packages", lock.lockfile_version.max(1)),
        versions,
    ))
}

fn toml_packages(ecosystem: Ecosystem, text: &str) -> Result<LockedVersions, String> {
    let lock: TomlLock = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let count = lock.package.len();
    for package in lock.package {
        let known = versions.entry(normal_name(ecosystem, &package.name)).or_default();
        known.extend(package.version.filter(|version| !known.contains(version)));
    }
    Ok((format!("{count} packages"), versions))
}

/// Adds the locked versions to each manifest, from the nearest lock file of its ecosystem in its directory or above.
pub(crate) fn apply_locks(manifests: &mut [Manifest], locks: &[DependencyLock]) {
    for manifest in manifests {
        let near = |lock: &&DependencyLock| {
            lock.ecosystem == manifest.ecosystem && manifest.directory().starts_with(directory_of(&lock.path))
        };
        let nearest = locks
            .iter()
            .filter(near)
            .map(|lock| directory_of(&lock.path).len())
            .max();
        let Some(nearest) = nearest else {
            continue;
        };
        // A lock file is not made from the requirements file beside it.
        let is_source = !manifest.path.ends_with(".txt");
        let found: Vec<&DependencyLock> = locks
            .iter()
            .filter(near)
            .filter(|lock| directory_of(&lock.path).len() == nearest && is_source)
            .collect();
        for lock in &found {
            manifest.facts.push(format!("lock file: {}", lock.description));
        }
        let mut dependencies = std::mem::take(&mut manifest.dependencies);
        for dependency in &mut dependencies {
            let version = found.iter().find_map(|lock| lock.version(manifest, &dependency.name));
            dependency.locked = version.map(str::to_owned);
        }
        manifest.dependencies = dependencies;
    }
}
