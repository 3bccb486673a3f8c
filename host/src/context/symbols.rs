//! Definitions and imports of a source file, read line by line, and which file an import means.
//!
//! This is text, not syntax: safe Rust over untrusted files, bounded by their length, right for code as it is usually
//! written and sometimes wrong (a definition inside a long string). What needs a syntax tree belongs into the sandbox.

use std::collections::HashMap;

use super::scanner::{file_name, parent};

/// A family of languages whose definitions and imports are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Python and Cython.
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java and Kotlin.
    Java,
    /// C and C++: includes only.
    C,
}

impl Syntax {
    /// By the extension of a path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (_, extension) = file_name(path).rsplit_once('.')?;
        match extension {
            "py" | "pyi" | "pyx" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte" => Some(Self::Script),
            "rs" => Some(Self::Rust),
            "go" => Some(Self::Go),
            "java" | "kt" => Some(Self::Java),
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" => Some(Self::C),
            _ => None,
        }
    }
}

/// A named thing that a file defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Definition<'a> {
    /// Its bare name.
    pub(crate) name: &'a str,
    /// From 1.
    pub(crate) line: u32,
    /// True for what stands at the outermost level, or in a class there.
    pub(crate) outer: bool,
}

/// What an import names, before anybody knows which file that is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Import<'a> {
    /// `from ..a.b import c` is level 2, module `a.b`, name `c`; an absolute import has level 0.
    Python {
        /// Number of leading dots.
        level: usize,
        /// Dotted; may be empty.
        module: &'a str,
        /// What is taken from it, where it says so on one line.
        name: Option<&'a str>,
    },
    /// A module specifier or an include, as written.
    Path(&'a str),
    /// `mod name;`.
    RustModule(&'a str),
    /// `use a::b::c`, up to the first brace or semicolon.
    RustUse(&'a str),
    /// An import path of Go.
    Go(&'a str),
    /// A dotted name of Java.
    Java(&'a str),
}

/// Calls `define` and `import` for what `text` holds, in the order of lines.
pub(crate) fn read<'a>(
    syntax: Syntax,
    text: &'a str,
    mut define: impl FnMut(Definition<'a>),
    mut import: impl FnMut(Import<'a>),
) {
    let mut go_block = false;
    let mut from_open: Option<(usize, &'a str)> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.is_empty() || line.len() > LINE_BYTES_MAX {
            continue;
        }
        let number = index as u32 + 1;
        match syntax {
            Syntax::Python => {
                if let Some(open) = from_open {
                    from_open = python_names(open, trimmed, &mut import);
                    continue;
                }
                if let Some(name) = python_definition(trimmed, indent) {
                    define(Definition {
                        name,
                        line: number,
                        outer: indent <= 4,
                    });
                } else {
                    from_open = python_import(trimmed, &mut import);
                }
            }
            Syntax::Script => {
                if let Some(name) = script_definition(trimmed, indent) {
                    define(Definition {
                        name,
                        line: number,
                        outer: indent <= 4,
                    });
                }
                script_imports(trimmed, &mut import);
            }
            Syntax::Rust => rust_line(trimmed, indent, number, &mut define, &mut import),
            Syntax::Go => go_line(trimmed, indent, number, &mut go_block, &mut define, &mut import),
            Syntax::Java => java_line(trimmed, indent, number, &mut define, &mut import),
            Syntax::C => {
                if let Some(path) = trimmed.strip_prefix("#include").map(str::trim_start).and_then(quoted) {
                    import(Import::Path(path));
                }
            }
        }
    }
}

/// Lines longer than this are data or minified code.
const LINE_BYTES_MAX: usize = 2000;

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The identifier at the beginning of `text`, where there is one.
fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|character| !is_word(character)).unwrap_or(text.len());
    let name = &text[..end];
    (!name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit())).then_some(name)
}

/// What follows `word`, where `text` begins with it as a whole word.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim_start())
}

/// The content of the string literal at the beginning of `text`.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
    let rest = &text[1..];
    rest.find(quote).map(|end| &rest[..end])
}

fn python_definition(trimmed: &str, indent: usize) -> Option<&str> {
    let text = after(trimmed, "async").unwrap_or(trimmed);
    if let Some(rest) = after(text, "def")
        .or_else(|| after(text, "class"))
        .or_else(|| after(text, "cdef"))
    {
        return identifier(rest);
    }
    // A module's own names: `NAME = …`, `Name: Type = …`.
    let name = (indent == 0).then(|| identifier(text)).flatten()?;
    let rest = text[name.len()..].trim_start();
    let assigned = rest.starts_with('=') && !rest.starts_with("==") || rest.starts_with(':') && rest.contains('=');
    assigned.then_some(name)
}

/// Reads an import statement. Returns level and module while its parenthesis is open.
fn python_import<'a>(trimmed: &'a str, import: &mut impl FnMut(Import<'a>)) -> Option<(usize, &'a str)> {
    if let Some(rest) = after(trimmed, "import") {
        for part in rest.split(',') {
            let module = dotted(part.trim());
            if !module.is_empty() {
                import(Import::Python {
                    level: 0,
                    module,
                    name: None,
                });
            }
        }
        return None;
    }
    let rest = after(trimmed, "from")?;
    let level = rest.len() - rest.trim_start_matches('.').len();
    let module = dotted(&rest[level..]);
    let rest = rest[level + module.len()..].trim_start();
    let names = rest.strip_prefix("import")?.trim_start();
    match names.strip_prefix('(') {
        Some(names) => python_names((level, module), names, import),
        None => {
            python_names((level, module), names, import);
            None
        }
    }
}

/// Reads imported names up to a closing parenthesis; returns the import while it is open.
fn python_names<'a>(
    (level, module): (usize, &'a str),
    names: &'a str,
    import: &mut impl FnMut(Import<'a>),
) -> Option<(usize, &'a str)> {
    let names = names.split('#').next().unwrap_or(names);
    let (names, closed) = match names.split_once(')') {
        Some((names, _)) => (names, true),
        None => (names, false),
    };
    for part in names.split(',') {
        if let Some(name) = identifier(part.trim()) {
            import(Import::Python {
                level,
                module,
                name: Some(name),
            });
        } else if part.trim() == "*" {
            import(Import::Python {
                level,
                module,
                name: None,
            });
        }
    }
    (!closed).then_some((level, module))
}

fn dotted(text: &str) -> &str {
    let end = text
        .find(|character: char| !(is_word(character) || character == '.'))
        .unwrap_or(text.len());
    &text[..end]
}

fn script_definition(trimmed: &str, indent: usize) -> Option<&str> {
    let mut text = trimmed;
    for word in [
        "export",
        "default",
        "declare",
        "abstract",
        "async",
        "public",
        "private",
        "protected",
        "static",
    ] {
        text = after(text, word).unwrap_or(text);
    }
    for word in [
        "function*",
        "function",
        "class",
        "interface",
        "enum",
        "namespace",
        "type",
    ] {
        if let Some(rest) = after(text, word) {
            return identifier(rest);
        }
    }
    for word in ["const", "let", "var"] {
        if let Some(rest) = after(text, word) {
            return (indent == 0).then(|| identifier(rest)).flatten();
        }
    }
    if let Some(rest) = text
        .strip_prefix("exports.")
        .or_else(|| text.strip_prefix("module.exports."))
    {
        return identifier(rest);
    }
    script_member(text)
}

/// `name(arguments) {`, `name: function`, `get name() {`, `Type.prototype.name = `.
fn script_member(text: &str) -> Option<&str> {
    const STATEMENTS: &[&str] = &[
        "if", "for", "while", "switch", "catch", "return", "function", "with", "do", "else", "await", "new",
    ];
    if let Some((_, rest)) = text.split_once(".prototype.") {
        return identifier(rest).filter(|name| rest[name.len()..].trim_start().starts_with('='));
    }
    let text = after(text, "get").or_else(|| after(text, "set")).unwrap_or(text);
    let name = identifier(text.trim_start_matches(['#', '*']))?;
    let rest = text.trim_start_matches(['#', '*'])[name.len()..].trim_start();
    let method = rest.starts_with('(') && text.trim_end().ends_with('{');
    let property = rest.starts_with(':') && (rest.contains("function") || rest.contains("=>"));
    ((method || property) && !STATEMENTS.contains(&name)).then_some(name)
}

fn script_imports<'a>(trimmed: &'a str, import: &mut impl FnMut(Import<'a>)) {
    let statement = trimmed.starts_with("import") || trimmed.starts_with("export") || trimmed.starts_with('}');
    if statement
        && let Some((_, rest)) = trimmed.rsplit_once(" from ").or_else(|| trimmed.split_once("import "))
        && let Some(path) = quoted(rest.trim_start())
    {
        import(Import::Path(path));
        return;
    }
    for call in ["require(", "import("] {
        for (at, _) in trimmed.match_indices(call) {
            if let Some(path) = quoted(trimmed[at + call.len()..].trim_start()) {
                import(Import::Path(path));
            }
        }
    }
}

fn rust_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    let mut text = trimmed;
    if let Some(rest) = text.strip_prefix("pub") {
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        };
        text = rest.trim_start();
    }
    for word in ["default", "const", "async", "unsafe", "extern \"C\""] {
        // `const NAME` is a definition, `const fn` is not.
        if word != "const" || text.starts_with("const fn") || text.starts_with("const unsafe") {
            text = after(text, word).unwrap_or(text);
        }
    }
    if let Some(rest) = after(text, "use") {
        import(Import::RustUse(rest.split(['{', ';']).next().unwrap_or(rest).trim()));
        return;
    }
    if let Some(name) = after(text, "mod").and_then(identifier) {
        if text.trim_end().ends_with(';') {
            import(Import::RustModule(name));
        }
        return;
    }
    for word in [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules!",
    ] {
        if let Some(name) = after(text, word).and_then(identifier) {
            define(Definition {
                name,
                line: number,
                outer: indent <= 4,
            });
            return;
        }
    }
}

fn go_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    block: &mut bool,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    if *block {
        *block = !trimmed.starts_with(')');
        if let Some(path) = trimmed.find('"').and_then(|at| quoted(&trimmed[at..])) {
            import(Import::Go(path));
        }
        return;
    }
    if let Some(rest) = trimmed.strip_prefix("import").filter(|_| indent == 0) {
        *block = rest.trim_start().starts_with('(');
        if let Some(path) = rest.find('"').and_then(|at| quoted(&rest[at..])) {
            import(Import::Go(path));
        }
        return;
    }
    if indent > 0 {
        return;
    }
    let name = if let Some(rest) = after(trimmed, "func") {
        // A method's receiver stands before its name.
        let rest = match rest.strip_prefix('(') {
            Some(receiver) => receiver.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
            None => rest,
        };
        identifier(rest)
    } else {
        ["type", "var", "const"]
            .iter()
            .find_map(|word| after(trimmed, word))
            .and_then(identifier)
    };
    if let Some(name) = name {
        define(Definition {
            name,
            line: number,
            outer: true,
        });
    }
}

fn java_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    if let Some(rest) = after(trimmed, "import") {
        import(Import::Java(
            dotted(after(rest, "static").unwrap_or(rest)).trim_end_matches('.'),
        ));
        return;
    }
    for word in [
        "class ",
        "interface ",
        "enum ",
        "record ",
        "@interface ",
        "fun ",
        "object ",
    ] {
        if let Some((before, rest)) = trimmed.split_once(word)
            && before
                .split(' ')
                .all(|part| part.chars().all(|c| c.is_ascii_lowercase()))
            && let Some(name) = identifier(rest)
        {
            define(Definition {
                name,
                line: number,
                outer: indent <= 4,
            });
            return;
        }
    }
    let modified = [
        "public ",
        "private ",
        "protected ",
        "static ",
        "final ",
        "abstract ",
        "synchronized ",
    ];
    if modified.iter().any(|word| trimmed.starts_with(word))
        && let Some((before, _)) = trimmed.split_once('(')
        && !before.contains('=')
        && let Some(name) = before.rsplit([' ', '\t']).next().and_then(identifier)
    {
        define(Definition {
            name,
            line: number,
            outer: indent <= 4,
        });
    }
}

/// Which file an import means, for one list of files.
pub(crate) struct Resolver<'a> {
    paths: HashMap<&'a str, u32>,
    python: HashMap<String, u32>,
    java: HashMap<&'a str, Vec<u32>>,
    go: HashMap<&'a str, Vec<u32>>,
    rust_roots: HashMap<String, &'a str>,
    headers: HashMap<&'a str, Vec<u32>>,
}

impl<'a> Resolver<'a> {
    /// Learns the layout of `paths`; results are indices into it.
    pub(crate) fn new(paths: &[&'a str]) -> Self {
        let index: HashMap<&str, u32> = paths.iter().enumerate().map(|(at, path)| (*path, at as u32)).collect();
        let mut resolver = Self {
            python: python_modules(paths, &index),
            paths: index,
            java: HashMap::new(),
            go: HashMap::new(),
            rust_roots: rust_roots(paths),
            headers: HashMap::new(),
        };
        for (at, path) in paths.iter().enumerate() {
            match Syntax::of(path) {
                Some(Syntax::Java) => resolver
                    .java
                    .entry(super::scanner::stem(path))
                    .or_default()
                    .push(at as u32),
                Some(Syntax::Go) if !path.ends_with("_test.go") => {
                    resolver.go.entry(file_name(parent(path))).or_default().push(at as u32);
                }
                Some(Syntax::C) => resolver.headers.entry(file_name(path)).or_default().push(at as u32),
                _ => {}
            }
        }
        resolver
    }

    /// The files that `import` in the file `from` means; none where it lies outside the repository.
    pub(crate) fn resolve(&self, from: &str, import: &Import<'_>, paths: &[&str]) -> Vec<u32> {
        match import {
            Import::Python { level, module, name } => self.python(from, *level, module, *name).into_iter().collect(),
            Import::Path(path) if Syntax::of(from) == Some(Syntax::C) => self.include(from, path, paths),
            Import::Path(path) => self.script(from, path).into_iter().collect(),
            Import::RustModule(name) => self.rust_module(&rust_directory(from), name).into_iter().collect(),
            Import::RustUse(path) => self.rust_use(from, path).into_iter().collect(),
            Import::Go(path) => self.go(path, paths),
            Import::Java(name) => self.java(name, paths).into_iter().collect(),
        }
    }

    /// The file of a Python module by its dotted name.
    pub(crate) fn module(&self, name: &str) -> Option<u32> {
        self.python.get(name).copied()
    }

    /// The main file of the project of this name: its package, or a file called after it beside the manifest.
    pub(crate) fn package(&self, manifest: &str, name: &str) -> Option<u32> {
        let module = name.to_ascii_lowercase().replace('-', "_");
        let beside = |end: &str| self.at(&join(parent(manifest), &format!("{name}.{end}")));
        self.module(&module)
            .or_else(|| ["go", "js", "ts", "py"].into_iter().find_map(beside))
    }

    /// The file that a manifest names by a path from its own directory, with or without an extension.
    pub(crate) fn file_from(&self, manifest: &str, path: &str) -> Option<u32> {
        let relative = path.trim_start_matches("./");
        self.at(&normalise(parent(manifest), relative)?)
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
        let mut directory = parent(from);
        for _ in 1..level {
            directory = parent(directory);
        }
        let base = join(directory, &module.replace('.', "/"));
        let file = |base: &str| {
            let found = self
                .at(&format!("{base}.py"))
                .or_else(|| self.at(&join(base, "__init__.py")));
            found.or_else(|| self.at(&format!("{base}.pyx")))
        };
        let named = name.and_then(|name| file(&join(&base, name)));
        named.or_else(|| file(&base))
    }

    fn script(&self, from: &str, specifier: &str) -> Option<u32> {
        const EXTENSIONS: &[&str] = &[
            "ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts", "d.ts", "vue", "svelte",
        ];
        if !specifier.starts_with('.') {
            return None;
        }
        let base = normalise(parent(from), specifier)?;
        let with_extension = |base: &str| EXTENSIONS.iter().find_map(|end| self.at(&format!("{base}.{end}")));
        // TypeScript names the file that will be compiled to: `./a.js` is `a.ts`.
        let compiled = || {
            base.strip_suffix(".js")
                .or_else(|| base.strip_suffix(".jsx"))
                .and_then(with_extension)
        };
        let found = self.at(&base).or_else(|| with_extension(&base)).or_else(compiled);
        found.or_else(|| with_extension(&join(&base, "index")))
    }

    fn include(&self, from: &str, path: &str, paths: &[&str]) -> Vec<u32> {
        if let Some(found) = normalise(parent(from), path).and_then(|path| self.at(&path)) {
            return vec![found];
        }
        let candidates = self.headers.get(file_name(path)).map_or(&[][..], Vec::as_slice);
        let suffix = format!("/{path}");
        candidates
            .iter()
            .copied()
            .find(|at| paths[*at as usize].ends_with(&suffix))
            .into_iter()
            .collect()
    }

    fn rust_module(&self, directory: &str, name: &str) -> Option<u32> {
        self.at(&join(directory, &format!("{name}.rs")))
            .or_else(|| self.at(&join(directory, &format!("{name}/mod.rs"))))
    }

    fn rust_use(&self, from: &str, path: &str) -> Option<u32> {
        let mut parts = path
            .trim_start_matches("::")
            .split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let first = parts.next()?;
        let mut directory = match first {
            "crate" => rust_root(from).to_owned(),
            "self" => rust_directory(from),
            "super" => parent(&rust_directory(from)).to_owned(),
            name => (*self.rust_roots.get(name)?).to_owned(),
        };
        let mut found = match first {
            "crate" | "self" | "super" => None,
            _ => self.at(&join(&directory, "lib.rs")),
        };
        for part in parts {
            let part = part.split(" as ").next().unwrap_or(part);
            if part == "super" {
                directory = parent(&directory).to_owned();
                continue;
            }
            let Some(next) = self.rust_module(&directory, part) else {
                break;
            };
            found = Some(next);
            directory = join(&directory, part);
        }
        found
    }

    /// Files of the package directory whose path is the longest suffix of the import path.
    fn go(&self, import: &str, paths: &[&str]) -> Vec<u32> {
        let candidates = self.go.get(file_name(import)).map_or(&[][..], Vec::as_slice);
        let of_directory = |at: &u32| parent(paths[*at as usize]);
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

    fn java(&self, name: &str, paths: &[&str]) -> Option<u32> {
        let (_, class) = name.rsplit_once('.')?;
        let suffix = name.replace('.', "/");
        let candidates = self.java.get(class)?;
        let fits = |path: &str| path.rsplit_once('.').is_some_and(|(base, _)| base.ends_with(&suffix));
        candidates.iter().copied().find(|at| fits(paths[*at as usize]))
    }
}

/// An import of Go means a whole package; of a large one, this many files take part.
const GO_FILES_MAX: usize = 40;

fn join(directory: &str, name: &str) -> String {
    match (directory.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => directory.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// `path` seen from `directory`; absent where it leaves the repository.
fn normalise(directory: &str, path: &str) -> Option<String> {
    crate::repository::normalise(&join(directory, path)).ok()
}

/// Dotted module names: from the topmost directory that is a package down, and from the root and `src` for code that
/// does without `__init__.py`. Of two files with one name, the one nearer to the root wins.
fn python_modules(paths: &[&str], index: &HashMap<&str, u32>) -> HashMap<String, u32> {
    let mut modules: HashMap<String, u32> = HashMap::new();
    let mut files: Vec<(usize, &str)> = paths
        .iter()
        .filter(|path| Syntax::of(path) == Some(Syntax::Python))
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
            parent(base)
        };
        while !top.is_empty() && index.contains_key(join(top, "__init__.py").as_str()) {
            top = parent(top);
        }
        let relative = base.strip_prefix(top).unwrap_or(base).trim_start_matches('/');
        modules.entry(relative.replace('/', ".")).or_insert(at);
        modules.entry(base.replace('/', ".")).or_insert(at);
    }
    modules
}

/// Directory of the sources of each crate, by the crate's name as code writes it.
fn rust_roots<'a>(paths: &[&'a str]) -> HashMap<String, &'a str> {
    paths
        .iter()
        .filter_map(|path| path.strip_suffix("/lib.rs"))
        .map(|source| {
            let package = if file_name(source) == "src" {
                parent(source)
            } else {
                source
            };
            (file_name(package).replace('-', "_"), source)
        })
        .collect()
}

/// The source root of the crate that a file belongs to: up to and including the last `src`.
fn rust_root(from: &str) -> &str {
    match from.rfind("/src/") {
        Some(at) => &from[..at + 4],
        None if from.starts_with("src/") => "src",
        None => parent(from),
    }
}

/// Where the child modules of a file live.
fn rust_directory(from: &str) -> String {
    let directory = parent(from);
    match file_name(from) {
        "lib.rs" | "main.rs" | "mod.rs" => directory.to_owned(),
        name => join(directory, name.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> String {
        let syntax = Syntax::of(path).expect("the language is known");
        let (mut definitions, mut imports) = (Vec::new(), Vec::new());
        read(
            syntax,
            text,
            |d| {
                definitions.push(format!(
                    "{}:{}{}",
                    d.line,
                    d.name,
                    if d.outer { "" } else { " (inner)" }
                ))
            },
            |import| imports.push(format!("{import:?}")),
        );
        format!("{}\n{}", definitions.join(" "), imports.join("\n"))
    }

    #[test]
    fn python() {
        let text = "import os, a.b as c\nfrom . import x\nfrom ..pkg.mod import (  # why\n    One,\n    Two as T,\n)\nfrom q import *\n\
                    LIMIT: int = 3\nx == 1\n\n@wrap\nasync def run(a):\n    def inner(): ...\n\nclass Client(Base):\n    def get(self):\n        \
                    def deep(): ...\n";
        insta::assert_snapshot!(shown("a.py", text), @r#"
        8:LIMIT 12:run 13:inner 15:Client 16:get 17:deep (inner)
        Python { level: 0, module: "os", name: None }
        Python { level: 0, module: "a.b", name: None }
        Python { level: 1, module: "", name: Some("x") }
        Python { level: 2, module: "pkg.mod", name: Some("One") }
        Python { level: 2, module: "pkg.mod", name: Some("Two") }
        Python { level: 0, module: "q", name: None }
        "#);
    }

    #[test]
    fn javascript_and_typescript() {
        let text = "import React, { useState } from 'react';\nimport './side';\nimport {\n  a,\n} from \"./many\";\nexport * from './re';\n\
                    const x = require('./x'), y = require(\"../y\");\nexport default class App extends B {\n  async load(id) {\n    if (id) {\n    }\n  }\n\
                    \x20 get size() {\n}\nexport const handler = async () => {};\nexports.run = run;\nFoo.prototype.bar = function () {};\n\
                    export interface Options {}\nconst p = import('./lazy');\n";
        insta::assert_snapshot!(shown("a.ts", text), @r#"
        7:x 8:App 9:load 13:size 15:handler 16:run 17:bar 18:Options 19:p
        Path("react")
        Path("./side")
        Path("./many")
        Path("./re")
        Path("./x")
        Path("../y")
        Path("./lazy")
        "#);
    }

    #[test]
    fn rust() {
        let text = "pub mod api;\nmod inline {\n}\nuse crate::api::{A, B};\npub(crate) use super::x::Y as Z;\npub const fn new() {}\n\
                    const MAX: u32 = 1;\npub(super) async fn go() {}\npub struct S;\nimpl S {\n    pub unsafe fn f() {}\n}\nmacro_rules! m { }\n";
        insta::assert_snapshot!(shown("a.rs", text), @r#"
        6:new 7:MAX 8:go 9:S 11:f 13:m
        RustModule("api")
        RustUse("crate::api::")
        RustUse("super::x::Y as Z")
        "#);
    }

    #[test]
    fn go_java_and_c() {
        let go = "package a\nimport \"fmt\"\nimport (\n\tx \"example.com/m/x\"\n)\nfunc (c *Context) Next() {\n\tvar y = 1\n}\nfunc New() {}\ntype T struct {\n";
        insta::assert_snapshot!(shown("a.go", go), @r#"
        6:Next 9:New 10:T
        Go("fmt")
        Go("example.com/m/x")
        "#);
        let java = "import a.b.C;\nimport static a.D.*;\npublic final class Main<T> {\n    private static int count(String s) {\n        return helper(s);\n";
        insta::assert_snapshot!(shown("Main.java", java), @r#"
        3:Main 4:count
        Java("a.b.C")
        Java("a.D")
        "#);
        insta::assert_snapshot!(shown("a.c", "#include <stdio.h>\n#include \"util/x.h\"\n"), @r#"

        Path("util/x.h")
        "#);
    }

    /// What the imports of each file resolve to.
    fn resolved(files: &[(&str, &str)]) -> String {
        let paths: Vec<&str> = files.iter().map(|file| file.0).collect();
        let resolver = Resolver::new(&paths);
        let mut shown = String::new();
        for (path, text) in files {
            let mut found = Vec::new();
            let syntax = Syntax::of(path).expect("the language is known");
            read(
                syntax,
                text,
                |_| {},
                |import| found.extend(resolver.resolve(path, &import, &paths)),
            );
            let found: Vec<&str> = found.iter().map(|at| paths[*at as usize]).collect();
            if !found.is_empty() {
                shown.push_str(&format!("{path} -> {}\n", found.join(" ")));
            }
        }
        shown
    }

    #[test]
    fn imports_of_python_resolve_in_a_source_root_and_relatively() {
        insta::assert_snapshot!(resolved(&[
            ("src/shop/__init__.py", "from .cart import Cart\nfrom . import prices\n"),
            ("src/shop/cart.py", "from shop.prices import total\nimport shop.db.models\nimport os\n"),
            ("src/shop/prices.py", "from .db import models, missing\nfrom .. import nowhere\n"),
            ("src/shop/db/__init__.py", ""),
            ("src/shop/db/models.py", "from ..cart import Cart\nfrom shop import db\n"),
        ]), @r"
        src/shop/__init__.py -> src/shop/cart.py src/shop/prices.py
        src/shop/cart.py -> src/shop/prices.py src/shop/db/models.py
        src/shop/prices.py -> src/shop/db/models.py src/shop/db/__init__.py
        src/shop/db/models.py -> src/shop/cart.py src/shop/db/__init__.py
        ");
    }

    #[test]
    fn imports_of_scripts_resolve_with_and_without_extension() {
        insta::assert_snapshot!(resolved(&[
            ("lib/a.ts", "import './b.js';\nimport x from './c';\nimport y from '../other';\nimport z from 'package';\nimport '../../out';\n"),
            ("lib/b.ts", ""),
            ("lib/c/index.js", "require('../a')"),
            ("other.d.ts", ""),
        ]), @r"
        lib/a.ts -> lib/b.ts lib/c/index.js other.d.ts
        lib/c/index.js -> lib/a.ts
        ");
    }

    #[test]
    fn imports_of_rust_go_java_and_c_resolve() {
        insta::assert_snapshot!(resolved(&[
            ("host/src/lib.rs", "pub mod api;\nmod turn;\nuse crate::turn::run;\n"),
            ("host/src/api.rs", "mod inner;\n"),
            ("host/src/api/inner.rs", "use super::super::turn;\nuse my_sdk::text::X;\n"),
            ("host/src/turn/mod.rs", "use crate::api::Event;\nuse std::fmt;\n"),
            ("crates/my-sdk/src/lib.rs", ""),
            ("crates/my-sdk/src/text.rs", "use super::nothing;"),
            ("gin.go", "import \"github.com/x/gin/render\"\n"),
            ("render/json.go", ""),
            ("render/json_test.go", ""),
            ("java/a/b/C.java", "import a.b.D;\nimport java.util.List;\n"),
            ("java/a/b/D.java", ""),
            ("c/main.c", "#include \"util/x.h\"\n"),
            ("c/include/util/x.h", ""),
        ]), @r"
        host/src/lib.rs -> host/src/api.rs host/src/turn/mod.rs host/src/turn/mod.rs
        host/src/api.rs -> host/src/api/inner.rs
        host/src/api/inner.rs -> host/src/turn/mod.rs crates/my-sdk/src/text.rs
        host/src/turn/mod.rs -> host/src/api.rs
        gin.go -> render/json.go
        java/a/b/C.java -> java/a/b/D.java
        c/main.c -> c/include/util/x.h
        ");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,400}", lines in proptest::collection::vec("(from|import|use|mod|def|class|func|export|const|#include|\\(|\\)|[a-zé.\"' ]){0,12}", 0..12)) {
            let text = format!("{text}\n{}", lines.join("\n"));
            let count = text.lines().count() as u32;
            for path in ["a.py", "a.ts", "a.rs", "a.go", "a.java", "a.c"] {
                let resolver = Resolver::new(&[path]);
                read(Syntax::of(path).expect("known"), &text, |d| assert!(d.line >= 1 && d.line <= count), |import| {
                    let _ = resolver.resolve(path, &import, &[path]);
                });
            }
        }
    }
}
