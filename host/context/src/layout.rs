//! The layout of a repository: the role of each file, and the resolution of imports to files.
//!
//! A layout is made from the list of paths and from the manifests among them. The index caches it until a path is added
//! or removed, or a manifest changes.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::path_names::PathNames;
use super::profile::Profile;
use super::symbols::{Packages, Resolver};
use crate::limits::RANKED_FILE_BYTES_MAX;
use tool_repository::attributes::GeneratedFiles;
use tool_repository::file_role::{self, Role};

/// See the module. Indices are those of the list.
#[derive(Debug)]
pub(super) struct TreeLayout {
    pub(super) roles: Vec<Role>,
    /// True for code that the product is made of.
    pub(super) sources: Vec<bool>,
    /// True for files that are candidates for every task. The index stores their profiles.
    pub(super) written: Vec<bool>,
    pub(super) resolver: Resolver,
    /// Cache of resolved imports: for each file a checksum of its imports, and the imported files.
    resolved: Vec<Mutex<Option<ResolvedImports>>>,
    names: OnceLock<PathNames>,
    /// A packet's overview of the paths, with the name and the bytes that it was made for.
    overview: OnceLock<(String, usize, String)>,
}

type ResolvedImports = (u32, Arc<[u32]>);

impl TreeLayout {
    /// `text` reads manifests.
    pub(super) fn new(paths: &[&str], text: impl Fn(&str) -> Option<String>) -> Self {
        let generated = GeneratedFiles::read(paths.iter().copied(), &text);
        let mut roles = file_role::detect_roles(paths);
        for (path, role) in paths.iter().zip(&mut roles) {
            if *role != Role::Vendored && generated.holds(path) {
                *role = Role::Generated;
            } else if *role == Role::Other && file_role::is_nameless(path) {
                // Its text decides whether it is a script. Without a profile it is in no selection.
                *role = file_role::detect_script_role(path);
            }
        }
        let source = |(path, role): (&&str, &Role)| *role == Role::Source && file_role::is_code(path);
        let written = |(path, role): (&&str, &Role)| {
            matches!(role, Role::Source | Role::Test | Role::Example)
                && (file_role::is_written(path) || file_role::is_nameless(path))
        };
        Self {
            sources: paths.iter().zip(&roles).map(source).collect(),
            written: paths.iter().zip(&roles).map(written).collect(),
            roles,
            resolver: Resolver::new(paths, Packages::read(paths, text)),
            resolved: paths.iter().map(|_| Mutex::new(None)).collect(),
            names: OnceLock::new(),
            overview: OnceLock::new(),
        }
    }

    /// True for a file whose profile the index stores.
    pub(super) fn is_kept(&self, at: usize, size: u64) -> bool {
        self.written[at] && size <= RANKED_FILE_BYTES_MAX
    }

    /// Returns the text that `make` makes from all paths. Only the first result is kept: nearly all callers ask with
    /// the same name and bounds.
    pub(super) fn overview(&self, name: &str, bytes_max: usize, make: impl Fn() -> String) -> String {
        let (known, bytes, text) = self.overview.get_or_init(|| (name.to_owned(), bytes_max, make()));
        if (known.as_str(), *bytes) == (name, bytes_max) {
            text.clone()
        } else {
            make()
        }
    }

    /// The words in the names of these paths, from which the layout was made.
    pub(super) fn names(&self, paths: &[&str]) -> &PathNames {
        self.names.get_or_init(|| PathNames::new(paths))
    }

    /// The files that a file imports, without itself, in their order.
    pub(super) fn imports(&self, at: usize, path: &str, profile: &Profile) -> Arc<[u32]> {
        let sum = profile.imports_checksum();
        let known = self.lock(at).clone();
        if let Some((_, imports)) = known.filter(|known| known.0 == sum) {
            return imports;
        }
        let mut imports = Vec::new();
        profile.each_import(|import| imports.extend(self.resolver.resolve(path, &import)));
        imports.sort_unstable();
        imports.dedup();
        imports.retain(|import| *import as usize != at);
        let imports: Arc<[u32]> = imports.into();
        *self.lock(at) = Some((sum, Arc::clone(&imports)));
        imports
    }

    fn lock(&self, at: usize) -> std::sync::MutexGuard<'_, Option<ResolvedImports>> {
        self.resolved[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
