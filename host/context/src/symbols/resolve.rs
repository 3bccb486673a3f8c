//! Resolution of imports to files, for one list of files.
//!
//! Paths and the names in manifests decide. An import from outside the repository resolves to no file.

use std::collections::HashMap;
use std::sync::Arc;

use super::packages::Packages;
use super::{ParsedImport, Syntax};
use tool_repository::file_role::{self, file_name, parent_directory};

/// Resolves imports to files, for one list of files.
#[derive(Debug)]
pub struct Resolver {
    /// In the order of the list; results are indices into it.
    list: Vec<Arc<str>>,
    paths: HashMap<Arc<str>, u32>,
    python: HashMap<String, u32>,
    java: HashMap<Box<str>, Vec<u32>>,
    go: HashMap<Box<str>, Vec<u32>>,
    ruby: HashMap<Box<str>, Vec<u32>>,
    rust_roots: HashMap<String, String>,
    /// By the sources of a crate.
    reexports: HashMap<String, HashMap<String, String>>,
    npm: HashMap<String, String>,
    headers: HashMap<Box<str>, Vec<u32>>,
}

impl Resolver {
    /// Learns the layout of `paths`; results are indices into it.
    pub fn new(paths: &[&str], packages: Packages) -> Self {
        let list: Vec<Arc<str>> = paths.iter().map(|path| Arc::from(*path)).collect();
        let index: HashMap<Arc<str>, u32> = (0..).zip(&list).map(|(at, path)| (Arc::clone(path), at)).collect();
        let mut resolver = Self {
            python: python_modules(paths, &index),
            list,
            paths: index,
            java: HashMap::new(),
            go: HashMap::new(),
            ruby: HashMap::new(),
            rust_roots: rust_roots(paths),
            reexports: HashMap::new(),
            npm: packages.npm,
            headers: HashMap::new(),
        };
        for package in packages.crates {
            resolver.rust_roots.retain(|_, sources| *sources != package.sources);
            resolver.reexports.insert(package.sources.clone(), package.reexports);
            resolver.rust_roots.insert(package.name, package.sources);
        }
        for (at, path) in (0..).zip(paths) {
            let (table, key) = match Syntax::from_path(path) {
                Some(Syntax::Java) => (&mut resolver.java, file_role::file_stem(path)),
                Some(Syntax::Go) if !path.ends_with("_test.go") => {
                    (&mut resolver.go, file_name(parent_directory(path)))
                }
                Some(Syntax::C) => (&mut resolver.headers, file_name(path)),
                None if path.ends_with(".lua") => (&mut resolver.headers, file_name(path)),
                Some(Syntax::Ruby) => (&mut resolver.ruby, file_role::file_stem(path)),
                _ => continue,
            };
            table.entry(key.into()).or_default().push(at);
        }
        resolver
    }

    /// The files that `import` in the file `from` means; empty if it is outside the repository.
    pub fn resolve(&self, from: &str, import: &ParsedImport<'_>) -> Vec<u32> {
        match import {
            ParsedImport::Python { level, module, name } => {
                self.python(from, *level, module, *name).into_iter().collect()
            }
            ParsedImport::Path(path) if Syntax::from_path(from) == Some(Syntax::C) => self.include(from, path),
            ParsedImport::Path(path) if from.ends_with(".lua") => {
                let module = path.replace('.', "/");
                let found = self.include(from, &format!("{module}.lua"));
                if found.is_empty() {
                    self.include(from, &format!("{module}/init.lua"))
                } else {
                    found
                }
            }
            ParsedImport::Path(path) => self.script(from, path).into_iter().collect(),
            ParsedImport::RustModule(name) => self.rust_module(&rust_directory(from), name).into_iter().collect(),
            ParsedImport::RustUse(path) => self.rust_path(from, path, true).into_iter().collect(),
            ParsedImport::Go(path) => self.go(path),
            ParsedImport::Java(name) => self.java(name).into_iter().collect(),
            ParsedImport::Ruby(path) => self.ruby(path).into_iter().collect(),
            ParsedImport::RubyRelative(path) => normalize_path(parent_directory(from), path)
                .and_then(|base| self.at(&format!("{}.rb", base.trim_end_matches(".rb"))))
                .into_iter()
                .collect(),
        }
    }

    /// The file of a Python module by its dotted name.
    pub fn module(&self, name: &str) -> Option<u32> {
        self.python.get(name).copied()
    }

    /// The main file of the project with this name: its package, or a file with this name next to the manifest.
    pub fn package(&self, manifest: &str, name: &str) -> Option<u32> {
        let module = name.to_ascii_lowercase().replace('-', "_");
        let beside = |end: &str| self.at(&join_path(parent_directory(manifest), &format!("{name}.{end}")));
        self.module(&module)
            .or_else(|| ["go", "js", "ts", "py"].into_iter().find_map(beside))
    }

    /// The file that a manifest names by a path relative to itself, with or without extension.
    pub fn file_from(&self, manifest: &str, path: &str) -> Option<u32> {
        let relative = path.trim_start_matches("./");
        self.at(&normalize_path(parent_directory(manifest), relative)?)
            .or_else(|| self.script(manifest, &format!("./{relative}")))
    }

    fn at(&self, path: &str) -> Option<u32> {
        self.paths.get(path).copied()
    }

    fn python(&self, from: &str, level: usize, module: &str, name: Option<&str>) -> Option<u32> {
        if level == 0 {
            let named = name.and_then(|name| self.python.get(&format!("{module}.{name}")));
            return named.or_else(|| self.python.get(module)).copied();
        }
        let mut directory = parent_directory(from);
        for _ in 1..level {
            directory = parent_directory(directory);
        }
        let base = join_path(directory, &module.replace('.', "/"));
        let file = |base: &str| {
            let found = self
                .at(&format!("{base}.py"))
                .or_else(|| self.at(&join_path(base, "__init__.py")));
            found.or_else(|| self.at(&format!("{base}.pyx")))
        };
        let named = name.and_then(|name| file(&join_path(&base, name)));
        named.or_else(|| file(&base))
    }

    fn script(&self, from: &str, specifier: &str) -> Option<u32> {
        const EXTENSIONS: &[&str] = &[
            "ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts", "d.ts", "vue", "svelte", "astro",
        ];
        let with_extension = |base: &str| EXTENSIONS.iter().find_map(|end| self.at(&format!("{base}.{end}")));
        let file = |base: &str| {
            let found = self.at(base).or_else(|| with_extension(base));
            found.or_else(|| with_extension(&join_path(base, "index")))
        };
        if !specifier.starts_with('.') {
            let package = self.npm_package(specifier).and_then(|(folder, rest)| {
                let within = |inner: &str| file(&join_path(&join_path(folder, inner), rest));
                within("src").or_else(|| within(""))
            });
            return package.or_else(|| find_aliased(from, specifier, file));
        }
        let base = normalize_path(parent_directory(from), specifier)?;
        // TypeScript names the file that will be compiled to: `./a.js` is `a.ts`.
        let compiled = || base.strip_suffix(".js").or_else(|| base.strip_suffix(".jsx"));
        file(&base).or_else(|| with_extension(compiled()?))
    }

    /// The folder of the package that a specifier names, and the rest of the specifier.
    fn npm_package<'s>(&self, specifier: &'s str) -> Option<(&str, &'s str)> {
        let names = if specifier.starts_with('@') { 2 } else { 1 };
        let end = specifier.match_indices('/').nth(names - 1).map(|(at, _)| at);
        let (name, rest) = specifier.split_at(end.unwrap_or(specifier.len()));
        Some((self.npm.get(name)?, rest.trim_start_matches('/')))
    }

    fn include(&self, from: &str, path: &str) -> Vec<u32> {
        if let Some(found) = normalize_path(parent_directory(from), path).and_then(|path| self.at(&path)) {
            return vec![found];
        }
        let candidates = self.headers.get(file_name(path)).map_or(&[][..], Vec::as_slice);
        let suffix = format!("/{path}");
        candidates
            .iter()
            .copied()
            .find(|at| self.list[*at as usize].ends_with(&suffix))
            .or_else(|| self.at(path))
            .into_iter()
            .collect()
    }

    fn rust_module(&self, directory: &str, name: &str) -> Option<u32> {
        self.at(&join_path(directory, &format!("{name}.rs")))
            .or_else(|| self.at(&join_path(directory, &format!("{name}/mod.rs"))))
    }

    fn rust_path(&self, from: &str, path: &str, follows: bool) -> Option<u32> {
        let mut parts = path
            .trim_start_matches("::")
            .split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let first = parts.next()?;
        let mut directory = match first {
            "crate" => rust_root(from).to_owned(),
            "self" => rust_directory(from),
            "super" => parent_directory(&rust_directory(from)).to_owned(),
            // A child of this module hides a crate with the same name.
            name => match self.rust_module(&rust_directory(from), name) {
                Some(_) => join_path(&rust_directory(from), name),
                None => self.rust_roots.get(name)?.clone(),
            },
        };
        let mut found = match first {
            "crate" | "self" | "super" => None,
            name => self
                .rust_module(&rust_directory(from), name)
                .or_else(|| self.at(&join_path(&directory, "lib.rs"))),
        };
        for part in parts {
            let part = part.split(" as ").next().unwrap_or(part);
            if part == "super" {
                directory = parent_directory(&directory).to_owned();
                continue;
            }
            let Some(next) = self.rust_module(&directory, part) else {
                let reexport = self.reexports.get(&directory).and_then(|names| names.get(part));
                let root = join_path(&directory, "lib.rs");
                // Only one step, because a root may re-export from itself.
                let elsewhere = reexport
                    .filter(|_| follows)
                    .and_then(|path| self.rust_path(&root, path, false));
                found = elsewhere.or(found);
                break;
            };
            found = Some(next);
            directory = join_path(&directory, part);
        }
        found
    }

    /// Files of the package directory whose path is the longest suffix of the import path.
    fn go(&self, import: &str) -> Vec<u32> {
        let candidates = self.go.get(file_name(import)).map_or(&[][..], Vec::as_slice);
        let of_directory = |at: &u32| parent_directory(&self.list[*at as usize]);
        let fits = |directory: &str| {
            !directory.is_empty() && (import == directory || import.ends_with(&format!("/{directory}")))
        };
        let best = candidates
            .iter()
            .map(of_directory)
            .filter(|directory| fits(directory))
            .max_by_key(|d| d.len());
        let Some(best) = best else {
            return Vec::new();
        };
        candidates
            .iter()
            .copied()
            .filter(|at| of_directory(at) == best)
            .take(GO_FILES_MAX)
            .collect()
    }

    /// The file of a required path, below a folder that Ruby usually loads from.
    fn ruby(&self, path: &str) -> Option<u32> {
        let base = path.trim_end_matches(".rb");
        let file = format!("{base}.rb");
        let candidates = self.ruby.get(file_name(base))?;
        let is_loaded = |at: &&u32| {
            let above = self.list[**at as usize].strip_suffix(file.as_str());
            let above = above.and_then(|above| above.strip_suffix('/'));
            above.is_some_and(|above| matches!(file_name(above), "lib" | "app" | "spec" | "test"))
        };
        candidates.iter().find(is_loaded).copied()
    }

    fn java(&self, name: &str) -> Option<u32> {
        let (_, class) = name.rsplit_once('.')?;
        let suffix = name.replace('.', "/");
        let candidates = self.java.get(class)?;
        let fits = |path: &str| path.rsplit_once('.').is_some_and(|(base, _)| base.ends_with(&suffix));
        candidates.iter().copied().find(|at| fits(&self.list[*at as usize]))
    }
}

/// An import of Go means a whole package. At most this many of its files count.
const GO_FILES_MAX: usize = 40;

/// The file of a specifier in the folder that a project's alias usually means: `@/x` is `src/x`, and `x/y` with a base
/// URL is `src/x/y`. The folders around the importing file are tried from the innermost on.
fn find_aliased(from: &str, specifier: &str, file: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    let (name, rest) = specifier.split_once('/')?;
    let (folders, rest): (&[&str], &str) = match name {
        "@" | "~" | "@@" | "~~" => (&["src", "app", ""], rest),
        "$lib" => (&["src/lib"], rest),
        _ if name.starts_with('@') => return None,
        _ => (&["src"], specifier),
    };
    let mut around = parent_directory(from);
    loop {
        let mut bases = folders.iter().map(|inner| join_path(&join_path(around, inner), rest));
        let found = bases.find_map(|base| file(&base));
        if found.is_some() || around.is_empty() {
            return found;
        }
        around = parent_directory(around);
    }
}

pub(super) fn join_path(directory: &str, name: &str) -> String {
    match (directory.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => directory.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// `path` relative to `directory`; `None` if it leaves the repository.
fn normalize_path(directory: &str, path: &str) -> Option<String> {
    tool_repository::normalise_path(&join_path(directory, path)).ok()
}

/// Dotted module names: from the topmost directory that is a package, and also from the root and `src` for code without
/// `__init__.py`. Of two files with one name, the one nearer to the root wins.
fn python_modules(paths: &[&str], index: &HashMap<Arc<str>, u32>) -> HashMap<String, u32> {
    let mut modules: HashMap<String, u32> = HashMap::new();
    let mut files: Vec<(usize, &str)> = paths
        .iter()
        .filter(|path| Syntax::from_path(path) == Some(Syntax::Python))
        .map(|path| (path.matches('/').count(), *path))
        .collect();
    files.sort_unstable();
    for (_, path) in files {
        let at = index[path];
        let base = path.rsplit_once('.').map_or(path, |(base, _)| base);
        let base = base.strip_suffix("/__init__").unwrap_or(base);
        let mut top = if path.ends_with("__init__.py") {
            base
        } else {
            parent_directory(base)
        };
        while !top.is_empty() && index.contains_key(join_path(top, "__init__.py").as_str()) {
            top = parent_directory(top);
        }
        let relative = base.strip_prefix(top).unwrap_or(base).trim_start_matches('/');
        modules.entry(relative.replace('/', ".")).or_insert(at);
        modules.entry(base.replace('/', ".")).or_insert(at);
    }
    modules
}

/// Directory of the sources of each crate, by the crate's name as code writes it.
fn rust_roots(paths: &[&str]) -> HashMap<String, String> {
    paths
        .iter()
        .filter_map(|path| path.strip_suffix("/lib.rs"))
        .map(|source| {
            let package = if file_name(source) == "src" {
                parent_directory(source)
            } else {
                source
            };
            (file_name(package).replace('-', "_"), source.to_owned())
        })
        .collect()
}

/// The source root of the crate that a file belongs to: up to and including the last `src`.
fn rust_root(from: &str) -> &str {
    match from.rfind("/src/") {
        Some(at) => &from[..at + 4],
        None if from.starts_with("src/") => "src",
        None => parent_directory(from),
    }
}

/// Directory that holds the child modules of a file.
pub(crate) fn rust_directory(from: &str) -> String {
    let directory = parent_directory(from);
    match file_name(from) {
        "lib.rs" | "main.rs" | "mod.rs" => directory.to_owned(),
        name => join_path(directory, name.trim_end_matches(".rs")),
    }
}
