//! What one record of npm lists: a `package.json`, a lock file of npm or yarn, a package that lies here. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::repository::path;
use crate::skill::stage::digest;

/// One thing that a record has npm install, or install from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Entry {
    /// Path of the file.
    pub(super) record: String,
    /// Whose need it is: a folder with a manifest, the root's being empty, or a place in a lock file.
    pub(super) of: String,
    pub(super) table: String,
    pub(super) name: String,
    /// Version, range or address, exactly as it is written.
    pub(super) specifier: String,
}

/// Tables of packages that npm installs. Those of peers, too, since its seventh version.
const TABLES: [&str; 4] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
];
const OVERRIDES: &str = "overrides";
pub(super) const WORKSPACES: &str = "workspaces";
const PACKAGES: &str = "packages";
/// Between the packages that an override is about.
const WITHIN: &str = " > ";

impl Entry {
    pub(super) fn is_of_manifest(&self) -> bool {
        is_manifest(&self.record) && self.table != WORKSPACES
    }

    pub(super) fn is_dependency(&self) -> bool {
        TABLES.contains(&&*self.table)
    }

    /// What it is about, wherever it stands: a package may move from one table of packages to another.
    pub(super) fn essence(&self) -> [&str; 5] {
        let table = if self.is_dependency() { "" } else { &self.table };
        [&self.record, &self.of, table, &self.name, &self.specifier]
    }

    /// The name in the folder of packages.
    pub(super) fn package(&self) -> &str {
        if self.table != OVERRIDES {
            return &self.name;
        }
        let last = self.name.rsplit(WITHIN).find(|name| *name != ".").unwrap_or_default();
        let version = last.rfind('@').filter(|&at| at > 0);
        version.map_or(last, |at| &last[..at])
    }
}

fn is_manifest(record: &str) -> bool {
    path::split(record).1 == "package.json"
}

/// All that a record lists.
pub(super) fn entries(record: &str, content: &[u8]) -> serde_json::Result<BTreeSet<Entry>> {
    let text = String::from_utf8_lossy(content);
    let text = text.trim_start_matches('\u{feff}');
    let (folder, name) = path::split(record);
    let mut found = Found {
        record,
        entries: BTreeSet::new(),
    };
    match name {
        "package.json" => found.manifest(folder, &serde_json::from_str(text)?),
        "yarn.lock" => found.yarn(text),
        "package-lock.json" | "npm-shrinkwrap.json" if folder.is_empty() => found.lock(&serde_json::from_str(text)?),
        // A package in one file: another content is another package.
        _ => found.add("", "file", record, &format!("sha256:{}", digest(content))),
    }
    Ok(found.entries)
}

struct Found<'a> {
    record: &'a str,
    entries: BTreeSet<Entry>,
}

impl Found<'_> {
    fn add(&mut self, of: &str, table: &str, name: &str, specifier: &str) {
        self.entries.insert(Entry {
            record: self.record.to_owned(),
            of: of.to_owned(),
            table: table.to_owned(),
            name: name.to_owned(),
            specifier: specifier.to_owned(),
        });
    }

    fn manifest(&mut self, of: &str, manifest: &Value) {
        self.tables(of, manifest);
        self.overrides(of, "", &manifest[OVERRIDES]);
        let workspaces = &manifest[WORKSPACES];
        let patterns = workspaces.as_array().or_else(|| workspaces[PACKAGES].as_array());
        for pattern in patterns.into_iter().flatten().filter_map(Value::as_str) {
            self.add(of, WORKSPACES, pattern, "");
        }
    }

    fn tables(&mut self, of: &str, package: &Value) {
        for table in TABLES {
            match &package[table] {
                Value::Null => {}
                Value::Object(packages) => {
                    let is_optional = |name: &str| package["peerDependenciesMeta"][name]["optional"] == true;
                    let wanted = packages
                        .iter()
                        .filter(|(name, _)| table != "peerDependencies" || !is_optional(name));
                    wanted.for_each(|(name, specifier)| self.add(of, table, name, &text(specifier)));
                }
                // Older forms, which npm still understands.
                other => self.add(of, table, table, &text(other)),
            }
        }
    }

    fn overrides(&mut self, of: &str, above: &str, overrides: &Value) {
        for (name, value) in overrides.as_object().into_iter().flatten() {
            let name = match above {
                "" => name.clone(),
                above => format!("{above}{WITHIN}{name}"),
            };
            match value {
                Value::Object(_) => self.overrides(of, &name, value),
                value => self.add(of, OVERRIDES, &name, &text(value)),
            }
        }
    }

    /// Every version of npm's own format: packages by place, or within each other.
    fn lock(&mut self, lock: &Value) {
        for (place, package) in lock[PACKAGES].as_object().into_iter().flatten() {
            if !place.is_empty() {
                let name = place.rsplit("node_modules/").next().unwrap_or(place);
                self.add(place, PACKAGES, name, &locked(package));
            }
            self.tables(place, package);
        }
        if let Some(packages) = lock["dependencies"].as_object() {
            self.nested("", packages);
        }
    }

    fn nested(&mut self, above: &str, packages: &Map<String, Value>) {
        for (name, package) in packages {
            let place = path::join(above, name);
            self.add(&place, PACKAGES, name, &locked(package));
            for (name, specifier) in package["requires"].as_object().into_iter().flatten() {
                self.add(&place, "requires", name, &text(specifier));
            }
            if let Some(packages) = package["dependencies"].as_object() {
                self.nested(&place, packages);
            }
        }
    }

    /// Every line beneath a heading says something of the packages that it names.
    fn yarn(&mut self, text: &str) {
        let mut heading = "";
        for line in text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        {
            if line.starts_with([' ', '\t']) {
                self.add("", PACKAGES, heading, line.trim());
            } else {
                heading = line.trim_end().trim_end_matches(':');
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `name version address` of a package in a lock file, as far as they are written.
fn locked(package: &Value) -> String {
    let parts = ["name", "version", "resolved"].map(|part| package[part].as_str());
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
