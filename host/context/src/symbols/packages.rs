//! Packages of a repository by their import names, from manifests and the roots of crates.
//!
//! A directory does not tell the name: `crates/core` may contain `tool-core`. This module reads only names and
//! re-exports; `resolve` finds the file of an import.

use std::collections::HashMap;

use super::manifest::Manifest;
use tool_repository::file_role::{file_name, parent_directory};

/// Manifests that are read: a monorepo has some hundred.
const MANIFESTS_MAX: usize = 500;

/// Re-exports of one crate. Generated bindings have more, but no import uses them.
const REEXPORTS_MAX: usize = 1_000;

/// Names that packages have given themselves.
#[derive(Debug, Default)]
pub struct Packages {
    /// Sources of a crate by its name as code writes it, with its root file.
    pub(super) crates: Vec<LibraryCrate>,
    /// Folders of npm packages by their name.
    pub(super) npm: HashMap<String, String>,
}

#[derive(Debug)]
pub(super) struct LibraryCrate {
    pub(super) name: String,
    pub(super) sources: String,
    /// Paths that the root re-exports, by the name in the root.
    pub(super) reexports: HashMap<String, String>,
}

impl Packages {
    /// Reads the manifests among `paths`, which are sorted, and the roots of their crates.
    pub fn read(paths: &[&str], text: impl Fn(&str) -> Option<String>) -> Self {
        let mut packages = Self::default();
        let is_listed = |path: &str| paths.binary_search(&path).is_ok();
        let manifests = paths
            .iter()
            .filter(|path| matches!(file_name(path), "Cargo.toml" | "package.json"));
        for manifest in manifests.take(MANIFESTS_MAX) {
            let folder = parent_directory(manifest);
            let read = || Manifest::read(manifest, &text(manifest)?);
            if file_name(manifest) == "package.json" {
                if let Some(name) = read().and_then(|manifest| manifest.name) {
                    packages.npm.insert(name, folder.to_owned());
                }
                continue;
            }
            let sources = super::resolve::join_path(folder, "src");
            let root = format!("{sources}/lib.rs");
            if is_listed(&root)
                && let Some(manifest) = read()
                && let Some(name) = manifest.library.or(manifest.name)
            {
                packages.crates.push(LibraryCrate {
                    name: name.replace('-', "_"),
                    sources,
                    reexports: text(&root).map_or_else(HashMap::new, |text| read_reexports(&text)),
                });
            }
        }
        packages
    }
}

/// The paths of `pub use`, by the exported names.
fn read_reexports(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut rest = text;
    while let Some(at) = rest.find("pub use ") {
        rest = &rest[at + "pub use ".len()..];
        let Some(end) = rest.find(';') else { break };
        expand_use("", &rest[..end], &mut found);
        rest = &rest[end..];
    }
    found
}

/// Adds each path of `a::{b, c::{d as e}}`.
fn expand_use(prefix: &str, text: &str, found: &mut HashMap<String, String>) {
    if found.len() >= REEXPORTS_MAX {
        return;
    }
    let (before, group) = match text.split_once('{') {
        Some((before, group)) => (before.trim(), group.trim_end().strip_suffix('}')),
        None => (text.trim(), None),
    };
    let path = format!("{prefix}{before}");
    if let Some(group) = group {
        let mut depth = 0_usize;
        let parts = group.split(|sign: char| {
            match sign {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            sign == ',' && depth == 0
        });
        parts.for_each(|part| expand_use(&path, part, found));
        return;
    }
    let (path, name) = match path.split_once(" as ") {
        Some((path, name)) => (path.trim(), name.trim()),
        None => (path.as_str(), path.rsplit("::").next().unwrap_or_default()),
    };
    let is_plain = |name: &str| !name.is_empty() && name.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
    if is_plain(name) && name != "self" {
        found.insert(name.to_owned(), path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reexports_are_found_in_groups_and_by_their_new_names() {
        let text = "mod a;\npub use a::One;\npub use crate::b::{\n    Two, c::{Three, self as sea},\n    Four as Five,\n};\n\
                    use a::Hidden;\npub use d::*;\n";
        let found = read_reexports(text);
        let mut found: Vec<(&str, &str)> = found.iter().map(|(name, path)| (&name[..], &path[..])).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("Five", "crate::b::Four"),
                ("One", "a::One"),
                ("Three", "crate::b::c::Three"),
                ("Two", "crate::b::Two"),
                ("sea", "crate::b::c::self"),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,200}", uses in "(pub use |[a-z]{1,3}|::|\\{|\\}|,| as |;){0,40}") {
            let _ = read_reexports(&format!("{text}\n{uses}"));
        }
    }
}
