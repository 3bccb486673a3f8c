//! The language of a file, and its role in the repository: source, test, example, documentation and so on.
//!
//! Both follow from the path alone, so a scan reads no file. A name without an extension says nothing: the first lines
//! of such a file do, where it is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;

use tool_core::api::ScanResult;

use crate::rules::is_beyond_scan;

/// Kind of a language. A scan names languages of prose and data only if there are no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LanguageClass {
    /// Languages for programs.
    Programming,
    /// Markup, styles and build recipes written by hand.
    Markup,
    /// Text for people.
    Prose,
    /// Configuration and data.
    Data,
}

/// Name, class, and file extensions.
type LanguageRow = (&'static str, LanguageClass, &'static [&'static str]);

/// Languages by extension. An extension that several languages share belongs to the most common of them.
const LANGUAGES: &[LanguageRow] = &[
    ("Ada", LanguageClass::Programming, &["adb", "ads"]),
    ("AsciiDoc", LanguageClass::Prose, &["adoc", "asciidoc"]),
    ("Assembly", LanguageClass::Programming, &["asm", "s"]),
    ("Astro", LanguageClass::Markup, &["astro"]),
    ("Awk", LanguageClass::Programming, &["awk"]),
    ("Batchfile", LanguageClass::Programming, &["bat", "cmd"]),
    ("C", LanguageClass::Programming, &["c", "h"]),
    ("C#", LanguageClass::Programming, &["cs", "csx"]),
    (
        "C++",
        LanguageClass::Programming,
        &["cpp", "cc", "cxx", "hpp", "hh", "hxx", "ipp", "inl"],
    ),
    ("CMake", LanguageClass::Programming, &["cmake"]),
    ("COBOL", LanguageClass::Programming, &["cob", "cbl"]),
    ("CSS", LanguageClass::Markup, &["css"]),
    ("CSV", LanguageClass::Data, &["csv", "tsv"]),
    ("Clojure", LanguageClass::Programming, &["clj", "cljs", "cljc", "edn"]),
    ("CoffeeScript", LanguageClass::Programming, &["coffee"]),
    ("Common Lisp", LanguageClass::Programming, &["lisp", "lsp"]),
    ("Crystal", LanguageClass::Programming, &["cr"]),
    ("Cuda", LanguageClass::Programming, &["cu", "cuh"]),
    ("Cython", LanguageClass::Programming, &["pyx", "pxd", "pxi"]),
    ("D", LanguageClass::Programming, &["d"]),
    ("Dart", LanguageClass::Programming, &["dart"]),
    ("Elixir", LanguageClass::Programming, &["ex", "exs"]),
    ("Elm", LanguageClass::Programming, &["elm"]),
    ("Emacs Lisp", LanguageClass::Programming, &["el"]),
    ("Erlang", LanguageClass::Programming, &["erl", "hrl"]),
    ("F#", LanguageClass::Programming, &["fs", "fsi", "fsx"]),
    ("Fish", LanguageClass::Programming, &["fish"]),
    (
        "Fortran",
        LanguageClass::Programming,
        &["f", "f77", "f90", "f95", "f03", "for"],
    ),
    ("GLSL", LanguageClass::Programming, &["glsl", "vert", "frag"]),
    ("Gettext Catalog", LanguageClass::Prose, &["po", "pot"]),
    ("Gherkin", LanguageClass::Programming, &["feature"]),
    ("Go", LanguageClass::Programming, &["go"]),
    ("GraphQL", LanguageClass::Data, &["graphql", "gql"]),
    ("Groovy", LanguageClass::Programming, &["groovy", "gradle"]),
    ("HCL", LanguageClass::Programming, &["hcl", "tf", "tfvars"]),
    ("HTML", LanguageClass::Markup, &["html", "htm", "xhtml"]),
    ("Handlebars", LanguageClass::Markup, &["hbs", "handlebars", "mustache"]),
    ("Haskell", LanguageClass::Programming, &["hs", "lhs"]),
    ("INI", LanguageClass::Data, &["ini", "cfg", "conf", "properties"]),
    (
        "JSON",
        LanguageClass::Data,
        &["json", "jsonl", "json5", "jsonc", "geojson"],
    ),
    ("Java", LanguageClass::Programming, &["java"]),
    ("JavaScript", LanguageClass::Programming, &["js", "mjs", "cjs", "jsx"]),
    ("Jinja", LanguageClass::Markup, &["j2", "jinja", "jinja2"]),
    ("Julia", LanguageClass::Programming, &["jl"]),
    ("Jupyter Notebook", LanguageClass::Markup, &["ipynb"]),
    ("Kotlin", LanguageClass::Programming, &["kt", "kts"]),
    ("Less", LanguageClass::Markup, &["less"]),
    ("Lua", LanguageClass::Programming, &["lua"]),
    ("MDX", LanguageClass::Prose, &["mdx"]),
    ("Makefile", LanguageClass::Programming, &["mk", "mak"]),
    ("Markdown", LanguageClass::Prose, &["md", "markdown"]),
    ("Meson", LanguageClass::Programming, &["meson"]),
    ("Nim", LanguageClass::Programming, &["nim"]),
    ("Nix", LanguageClass::Programming, &["nix"]),
    ("OCaml", LanguageClass::Programming, &["ml", "mli"]),
    ("Objective-C", LanguageClass::Programming, &["m"]),
    ("Objective-C++", LanguageClass::Programming, &["mm"]),
    ("PHP", LanguageClass::Programming, &["php", "phtml"]),
    ("Pascal", LanguageClass::Programming, &["pas", "dpr"]),
    ("Perl", LanguageClass::Programming, &["pl", "pm"]),
    ("PowerShell", LanguageClass::Programming, &["ps1", "psm1", "psd1"]),
    ("Prolog", LanguageClass::Programming, &["pro"]),
    ("Protocol Buffer", LanguageClass::Data, &["proto"]),
    ("Pug", LanguageClass::Markup, &["pug"]),
    ("Python", LanguageClass::Programming, &["py", "pyi", "pyw"]),
    ("QML", LanguageClass::Programming, &["qml"]),
    ("R", LanguageClass::Programming, &["r"]),
    ("Racket", LanguageClass::Programming, &["rkt"]),
    ("Ruby", LanguageClass::Programming, &["rb", "rake", "gemspec", "erb"]),
    ("Rust", LanguageClass::Programming, &["rs"]),
    ("SCSS", LanguageClass::Markup, &["scss", "sass"]),
    ("SQL", LanguageClass::Programming, &["sql"]),
    ("SVG", LanguageClass::Data, &["svg"]),
    ("Scala", LanguageClass::Programming, &["scala", "sc"]),
    ("Scheme", LanguageClass::Programming, &["scm", "ss"]),
    ("Shell", LanguageClass::Programming, &["sh", "bash", "zsh", "ksh"]),
    ("Solidity", LanguageClass::Programming, &["sol"]),
    ("Starlark", LanguageClass::Programming, &["bzl", "star"]),
    ("Svelte", LanguageClass::Markup, &["svelte"]),
    ("Swift", LanguageClass::Programming, &["swift"]),
    ("SystemVerilog", LanguageClass::Programming, &["sv", "svh"]),
    ("TOML", LanguageClass::Data, &["toml"]),
    ("Tcl", LanguageClass::Programming, &["tcl"]),
    ("TeX", LanguageClass::Markup, &["tex", "sty", "cls"]),
    ("Text", LanguageClass::Prose, &["txt"]),
    ("Thrift", LanguageClass::Programming, &["thrift"]),
    ("Twig", LanguageClass::Markup, &["twig"]),
    ("TypeScript", LanguageClass::Programming, &["ts", "tsx", "mts", "cts"]),
    ("VHDL", LanguageClass::Programming, &["vhd", "vhdl"]),
    ("Verilog", LanguageClass::Programming, &["v"]),
    ("Vim Script", LanguageClass::Programming, &["vim"]),
    ("Visual Basic", LanguageClass::Programming, &["vb", "vbs"]),
    ("Vue", LanguageClass::Markup, &["vue"]),
    ("WebAssembly", LanguageClass::Programming, &["wat", "wast"]),
    ("WebAssembly Interface Type", LanguageClass::Data, &["wit"]),
    ("XML", LanguageClass::Data, &["xml", "xsd", "xsl", "xslt", "plist"]),
    ("YAML", LanguageClass::Data, &["yml", "yaml"]),
    ("Zig", LanguageClass::Programming, &["zig"]),
    ("reStructuredText", LanguageClass::Prose, &["rst", "rest"]),
];

/// Languages by whole file name, lower case.
const NAMES: &[(&str, &str)] = &[
    ("build", "Starlark"),
    ("build.bazel", "Starlark"),
    ("cargo.lock", "TOML"),
    ("cmakelists.txt", "CMake"),
    ("containerfile", "Dockerfile"),
    ("dockerfile", "Dockerfile"),
    ("gemfile", "Ruby"),
    ("gnumakefile", "Makefile"),
    ("go.mod", "Go Module"),
    ("go.sum", "Go Module"),
    ("jenkinsfile", "Groovy"),
    ("justfile", "Just"),
    ("makefile", "Makefile"),
    ("meson.build", "Meson"),
    ("pipfile", "TOML"),
    ("podfile", "Ruby"),
    ("procfile", "Procfile"),
    ("rakefile", "Ruby"),
    ("sconscript", "Python"),
    ("sconstruct", "Python"),
    ("tiltfile", "Starlark"),
    ("vagrantfile", "Ruby"),
    ("workspace", "Starlark"),
];

/// Key files of the specification, the most informative first.
const KEY_FILES: &[&str] = &[
    "readme.md",
    "pyproject.toml",
    "package.json",
    "main.py",
    "app.py",
    "index.ts",
    "index.js",
];

/// Other key files, for a repository without those of the specification: the readme in other formats, and manifests of
/// other ecosystems.
const KEY_FILES_ELSEWHERE: &[&str] = &[
    "readme.rst",
    "readme.txt",
    "readme",
    "readme.adoc",
    "cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "setup.cfg",
    "setup.py",
    "composer.json",
    "gemfile",
    "cmakelists.txt",
    "makefile",
];

/// Role of a file in its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Code of the product.
    Source,
    /// Tests, their fixtures and helpers.
    Test,
    /// Examples, benchmarks, and code below a documentation folder.
    Example,
    /// Text for people.
    Documentation,
    /// Release notes and lists of people.
    Changelog,
    /// Manifests, settings, build recipes, data.
    Configuration,
    /// Minified, compiled or generated files, and lock files.
    Generated,
    /// Third-party code.
    Vendored,
    /// Neither text nor a known kind.
    Other,
}

/// The language of a file by its name, if it is known.
pub fn detect_language(path: &str) -> Option<&'static str> {
    find_row(path).map(|(name, _)| name)
}

fn find_row(path: &str) -> Option<(&'static str, LanguageClass)> {
    let name = file_name(path).to_ascii_lowercase();
    if let Some((_, language)) = NAMES.iter().find(|(known, _)| *known == name) {
        let class = LANGUAGES
            .iter()
            .find(|row| row.0 == *language)
            .map_or(LanguageClass::Programming, |row| row.1);
        return Some((
            language,
            if *language == "Go Module" {
                LanguageClass::Data
            } else {
                class
            },
        ));
    }
    if name.starts_with("dockerfile.") || name.ends_with(".dockerfile") {
        return Some(("Dockerfile", LanguageClass::Programming));
    }
    by_extension().get(name.rsplit_once('.')?.1).copied()
}

fn by_extension() -> &'static HashMap<&'static str, (&'static str, LanguageClass)> {
    static TABLE: OnceLock<HashMap<&'static str, (&'static str, LanguageClass)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let rows = LANGUAGES.iter();
        rows.flat_map(|(language, class, extensions)| extensions.iter().map(|e| (*e, (*language, *class))))
            .collect()
    })
}

/// Programs that run scripts, with an extension of their language.
const INTERPRETERS: &[(&str, &str)] = &[
    ("ash", "sh"),
    ("awk", "awk"),
    ("bash", "sh"),
    ("bun", "ts"),
    ("crystal", "cr"),
    ("dash", "sh"),
    ("deno", "ts"),
    ("elixir", "exs"),
    ("escript", "erl"),
    ("fish", "fish"),
    ("gawk", "awk"),
    ("groovy", "groovy"),
    ("guile", "scm"),
    ("jruby", "rb"),
    ("julia", "jl"),
    ("ksh", "sh"),
    ("lua", "lua"),
    ("luajit", "lua"),
    ("make", "mk"),
    ("mawk", "awk"),
    ("mksh", "sh"),
    ("node", "js"),
    ("nodejs", "js"),
    ("perl", "pl"),
    ("php", "php"),
    ("pwsh", "ps1"),
    ("pypy", "py"),
    ("python", "py"),
    ("racket", "rkt"),
    ("rscript", "r"),
    ("ruby", "rb"),
    ("runhaskell", "hs"),
    ("rust-script", "rs"),
    ("scala", "scala"),
    ("sh", "sh"),
    ("swift", "swift"),
    ("tclsh", "tcl"),
    ("ts-node", "ts"),
    ("tsx", "ts"),
    ("uv", "py"),
    ("wish", "tcl"),
    ("zsh", "sh"),
];

/// Lines at the beginning of a file that may hold a mode line of an editor.
const MODE_LINES: usize = 5;

/// True for a file whose name says nothing of its language, so that its text decides.
pub fn is_nameless(path: &str) -> bool {
    let name = file_name(path);
    !name.contains('.') && detect_role(name) == Role::Other
}

/// The role of a script without an extension, by its path.
pub fn detect_script_role(path: &str) -> Role {
    role_of_class(
        DirectoryRole::from_directory(parent_directory(path)),
        path,
        Some(LanguageClass::Programming),
    )
}

/// An extension of the language of a file without one: by its known name, or by the interpreter or the mode line of an
/// editor in its text.
pub fn implied_extension(path: &str, text: &str) -> Option<&'static str> {
    if file_name(path).contains('.') {
        return None;
    }
    match detect_language(path) {
        Some(language) => extension_of(language),
        None if is_nameless(path) => script_extension(text),
        None => None,
    }
}

fn extension_of(language: &str) -> Option<&'static str> {
    let row = LANGUAGES.iter().find(|row| row.0.eq_ignore_ascii_case(language));
    row.and_then(|row| row.2.first().copied())
}

/// An extension of the language of a script, by its first lines.
pub fn script_extension(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().take(MODE_LINES);
    let first = lines.next()?;
    let by_interpreter = first.strip_prefix("#!").and_then(interpreter_extension);
    by_interpreter.or_else(|| std::iter::once(first).chain(lines).find_map(mode_extension))
}

/// Skips `env`, flags and variables to find the program: `/usr/bin/env -S NAME=value python3.12 -u`.
fn interpreter_extension(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace().map(file_name);
    let program = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let known = INTERPRETERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(program));
    known.map(|(_, extension)| *extension)
}

/// The mode of Emacs (`-*- mode: ruby -*-`, `-*- ruby -*-`) or Vim (`vim: set ft=ruby:`) in a line.
fn mode_extension(line: &str) -> Option<&'static str> {
    let emacs = || {
        let inner = line.split_once("-*-")?.1.split_once("-*-")?.0;
        let mode = inner.split(';').find_map(|part| match part.split_once(':') {
            Some((key, mode)) => key.trim().eq_ignore_ascii_case("mode").then_some(mode),
            None => Some(part),
        });
        mode.map(str::trim)
    };
    let vim = || {
        let options = ["vim:", "vi:", "ex:"]
            .iter()
            .find_map(|editor| line.split_once(editor))?
            .1;
        let mut options = options.split([' ', ':', '\t']);
        options.find_map(|option| option.strip_prefix("ft=").or_else(|| option.strip_prefix("filetype=")))
    };
    let mode = emacs().or_else(vim)?;
    let by_program = INTERPRETERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(mode));
    let by_program = by_program.map(|(_, extension)| *extension);
    by_program.or_else(|| extension_of(mode))
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The directory of a path; empty for the root.
pub fn parent_directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The file name without its extensions: `client` for `src/client.test.ts`. A leading dot belongs to the name.
pub fn file_stem(path: &str) -> &str {
    let name = file_name(path);
    let dots = name.match_indices('.').map(|(at, _)| at);
    dots.into_iter().find(|at| *at > 0).map_or(name, |at| &name[..at])
}

/// What the directories above a file say about it.
#[derive(Debug, Clone, Copy, Default)]
struct DirectoryRole {
    is_vendored: bool,
    is_generated: bool,
    is_changelog: bool,
    is_example: bool,
    /// For prose: true below every directory with such a name.
    is_test_text: bool,
    /// See [`is_test`].
    is_test: bool,
    is_test_of_python: bool,
}

impl DirectoryRole {
    fn from_directory(directory: &str) -> Self {
        let mut above = Self::default();
        let lower = directory.to_ascii_lowercase();
        // Folders of a Java package are parts of a name: many programs are in `com.example.demo`.
        let package_at = ["src/main/java/", "src/main/kotlin/", "src/main/scala/"]
            .iter()
            .find_map(|sources| lower.find(sources));
        let package_depth = package_at.map_or(usize::MAX, |at| lower[..at].matches('/').count() + 3);
        for (depth, name) in lower.split('/').enumerate() {
            match name {
                "vendor" | "vendored" | "_vendor" | "_vendored" | "third_party" | "third-party" | "thirdparty"
                | "extern" | "externals" | "bower_components" | "node_modules" | "site-packages" => {
                    above.is_vendored = true;
                }
                "generated" | "__generated__" | "gen" | ".next" | "coverage" => {
                    above.is_generated = true;
                }
                "changelog" | "changelogs" | "newsfragments" => above.is_changelog = true,
                "docs" | "doc" | "documentation" | "examples" | "example" | "samples" | "demo" | "demos"
                | "tutorials" | "extras" => above.is_example |= depth < package_depth,
                // A module of a product may be about benchmarks.
                "benchmarks" | "benchmark" | "bench" | "benches" => {
                    above.is_example |= depth < package_depth && !lower.starts_with("src/");
                }
                "testing" => {
                    above.is_test_text = true;
                    above.is_test |= depth == 0;
                    above.is_test_of_python |= depth == 0;
                }
                // Source sets of Gradle.
                "commontest"
                | "jvmtest"
                | "jstest"
                | "nativetest"
                | "androidtest"
                | "androidunittest"
                | "androidhosttest"
                | "androiddevicetest"
                | "androidinstrumentedtest"
                | "integrationtest"
                | "functionaltest" => {
                    above.is_test_text = true;
                    above.is_test = true;
                }
                "test" => {
                    above.is_test_text = true;
                    above.is_test = true;
                    above.is_test_of_python |= depth == 0;
                }
                "tests" | "testsuite" | "regress" | "__tests__" | "spec" | "specs" | "e2e" | "testdata"
                | "fixtures" | "__mocks__" | "__fixtures__" | "__snapshots__" => {
                    above.is_test_text = true;
                    above.is_test = true;
                    above.is_test_of_python = true;
                }
                _ if is_folder_of_tests(name) => {
                    above.is_test = true;
                    above.is_test_of_python = true;
                }
                _ => {}
            }
        }
        above
    }
}

/// True for names that only tests have: `serde_test` and `rule-tester` are products.
fn is_folder_of_tests(name: &str) -> bool {
    name.ends_with("_tests")
        || name.ends_with("-tests")
        || matches!(
            name,
            "integration_test" | "integration-test" | "test_suite" | "test-suite"
        )
}

/// The role of a file by its path.
pub fn detect_role(path: &str) -> Role {
    role_below(DirectoryRole::from_directory(parent_directory(path)), path)
}

/// Roles of many files. Files of one directory should follow each other, as in a sorted list: then each directory is
/// judged once.
pub fn detect_roles(paths: &[&str]) -> Vec<Role> {
    let (mut directory, mut above) = ("", DirectoryRole::default());
    let mut roles = Vec::with_capacity(paths.len());
    for path in paths {
        if parent_directory(path) != directory {
            directory = parent_directory(path);
            above = DirectoryRole::from_directory(directory);
        }
        roles.push(role_below(above, path));
    }
    mark_build_output(paths, &mut roles);
    roles
}

/// Folders that hold build output if one of their files is minified. `dist` always does.
const BUILD_FOLDERS: [&str; 7] = ["build", "bundle", "bundles", "min", "out", "release", "umd"];

/// Marks committed builds for the web as generated, unless the package has no other code.
fn mark_build_output(paths: &[&str], roles: &mut [Role]) {
    let is_minified =
        |path: &&&str| file_name(path).contains(".min.") && BUILD_FOLDERS.contains(&file_name(parent_directory(path)));
    let builds: HashSet<&str> = paths
        .iter()
        .filter(is_minified)
        .map(|path| parent_directory(path))
        .collect();
    let is_built = |path: &str| {
        let ends = [".js", ".mjs", ".cjs", ".css", ".d.ts"];
        ends.iter().any(|end| path.ends_with(end))
            && (builds.contains(parent_directory(path))
                || parent_directory(path).split('/').any(|folder| folder == "dist"))
    };
    let is_web = |path: &str| {
        matches!(
            detect_language(path),
            Some("JavaScript" | "TypeScript" | "CSS" | "SCSS" | "Vue" | "Svelte")
        )
    };
    let is_source = |(path, role): (&&str, &Role)| *role == Role::Source && is_web(path) && !is_built(path);
    if paths.iter().zip(roles.iter()).any(is_source) {
        for (path, role) in paths.iter().zip(roles) {
            if matches!(role, Role::Source | Role::Example) && is_built(path) {
                *role = Role::Generated;
            }
        }
    }
}

fn role_below(above: DirectoryRole, path: &str) -> Role {
    role_of_class(above, path, find_row(path).map(|(_, class)| class))
}

fn role_of_class(above: DirectoryRole, path: &str, class: Option<LanguageClass>) -> Role {
    let lower = file_name(path).to_ascii_lowercase();
    if above.is_vendored {
        return Role::Vendored;
    }
    if above.is_generated || is_generated(&lower) {
        return Role::Generated;
    }
    if above.is_changelog || is_changelog(&lower) {
        return Role::Changelog;
    }
    match class {
        Some(LanguageClass::Prose) if above.is_test_text => return Role::Test,
        Some(LanguageClass::Prose) => return Role::Documentation,
        None if lower.contains('.') => return Role::Other,
        None => return named_prose(&lower),
        _ => {}
    }
    if is_test_below(above, path, &lower) {
        return Role::Test;
    }
    match class {
        _ if above.is_example => Role::Example,
        Some(LanguageClass::Data) => Role::Configuration,
        _ => Role::Source,
    }
}

fn named_prose(name: &str) -> Role {
    match name {
        "readme" | "license" | "copying" | "install" | "contributing" | "todo" | "notice" => Role::Documentation,
        _ => Role::Other,
    }
}

fn is_generated(name: &str) -> bool {
    const SUFFIXES: &[&str] = &[
        ".min.js",
        ".min.css",
        ".map",
        ".bundle.js",
        ".chunk.js",
        "_pb2.py",
        "_pb2.pyi",
        "_pb2_grpc.py",
        "_pb.js",
        "_pb.ts",
        ".freezed.dart",
        ".designer.cs",
        "_generated.go",
        "_gen.go",
        ".lock",
        ".snap",
        "-lock.json",
        "-lock.yaml",
        ".sum",
        ".pot",
        "-min.js",
    ];
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        // `client.gen.ts`, `cart.pb.gw.go`, `Cart.generated.cs`
        || [".gen.", ".pb.", ".generated.", ".g."].iter().any(|part| name.contains(part))
        || name == "npm-shrinkwrap.json"
        || name.starts_with("zz_generated")
}

fn is_changelog(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    matches!(
        stem,
        "changelog" | "changes" | "history" | "news" | "releases" | "release_notes" | "authors" | "contributors"
    ) && (find_row(name).is_none_or(|(_, class)| class == LanguageClass::Prose))
}

/// True for tests, and for files that exist only for tests.
///
/// A directory `testing`, and in Python also `test`, inside a package holds what the package offers for the tests of
/// others. That is product code, so these names count only at the top.
pub fn is_test(path: &str) -> bool {
    let lower = file_name(path).to_ascii_lowercase();
    is_test_below(DirectoryRole::from_directory(parent_directory(path)), path, &lower)
}

/// `lower` is the file's name in lower case.
fn is_test_below(above: DirectoryRole, path: &str, lower: &str) -> bool {
    let is_below = if lower.ends_with(".py") {
        above.is_test_of_python
    } else {
        above.is_test
    };
    is_below || is_test_by_name(path, lower)
}

fn is_test_by_name(path: &str, lower: &str) -> bool {
    let stem = file_stem(lower);
    let suffixed = |text: &str| {
        let between = lower
            .match_indices(text)
            .any(|(at, _)| lower[..at].ends_with('.') && lower[at + text.len()..].starts_with('.'));
        between || stem.strip_suffix(text).is_some_and(|stem| stem.ends_with('_'))
    };
    stem.starts_with("test_")
        || suffixed("test")
        || suffixed("tests")
        || suffixed("spec")
        || stem.ends_with("-test")
        || matches!(stem, "conftest" | "tests")
        || (stem == "test" && parent_directory(path).is_empty())
        || is_camel_test(file_name(path))
}

/// `ClientTest.java`, `ClientTests.cs`, `ClientSpec.scala`, `TestClient.java`. A `Test.java` may be the product.
fn is_camel_test(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    matches!(extension, "java" | "kt" | "cs" | "scala" | "groovy" | "swift" | "php")
        && (["Test", "Tests", "Spec", "IT", "TestCase"]
            .iter()
            .any(|suffix| stem.strip_suffix(suffix).is_some_and(|subject| !subject.is_empty()))
            || stem
                .strip_prefix("Test")
                .is_some_and(|rest| rest.starts_with(char::is_uppercase)))
}

/// Rank of a key file, the best first; `None` if it is not one, or is in a directory that scans skip.
pub fn key_file_rank(path: &str) -> Option<usize> {
    if is_beyond_scan(path) {
        return None;
    }
    let name = file_name(path).to_ascii_lowercase();
    let elsewhere = || {
        KEY_FILES_ELSEWHERE
            .iter()
            .position(|known| *known == name)
            .map(|rank| rank + KEY_FILES.len())
    };
    KEY_FILES.iter().position(|known| *known == name).or_else(elsewhere)
}

/// True for a key file of the specification.
pub fn is_key_file(path: &str) -> bool {
    key_file_rank(path).is_some_and(|rank| rank < KEY_FILES.len())
}

/// Scores how likely a path is a program's entry point; higher is more likely. `None` if it does not look like one, or
/// is in a directory that scans skip.
pub fn entry_point_by_path(path: &str) -> Option<u32> {
    entry_point_of_source(path).filter(|_| detect_role(path) == Role::Source)
}

/// Like [`entry_point_by_path`], for a path that is known to be a source.
pub fn entry_point_of_source(path: &str) -> Option<u32> {
    if is_beyond_scan(path) {
        return None;
    }
    let name = file_name(path);
    let directory = parent_directory(path);
    let last_directory = file_name(directory);
    let root_or = |names: &[&str]| directory.is_empty() || names.contains(&directory);
    match name {
        "main.rs" if last_directory == "src" => Some(9),
        "main.go" => Some(
            if directory.is_empty() || parent_directory(directory).ends_with("cmd") {
                9
            } else {
                5
            },
        ),
        "__main__.py" => Some(9),
        "manage.py" => Some(8),
        "main.py" | "app.py" => Some(if root_or(&["src", "app"]) { 9 } else { 4 }),
        "cli.py" => Some(6),
        "wsgi.py" | "asgi.py" => Some(5),
        "server.js" | "server.ts" | "main.ts" | "main.js" | "main.tsx" | "app.js" | "app.ts" | "cli.js" | "cli.ts" => {
            Some(if root_or(&["src", "bin", "lib", "server"]) {
                7
            } else {
                3
            })
        }
        "index.js" | "index.ts" | "index.mjs" | "index.tsx" if root_or(&["src", "lib"]) => Some(7),
        "lib.rs" if last_directory == "src" => Some(7),
        "Main.java" | "Application.java" | "App.java" | "Main.kt" | "Program.cs" => Some(8),
        _ if name.ends_with("Application.java") || name.ends_with("Application.kt") => Some(7),
        _ if last_directory == "bin" && matches!(parent_directory(directory), "src" | "") => Some(6),
        "__init__.py" if matches!(parent_directory(directory), "" | "src" | "lib") && !directory.is_empty() => Some(5),
        _ => None,
    }
}

/// Counts files, directories with files, and languages, the most frequent first.
///
/// Prose and data count as languages only if there is nothing else.
pub fn summarise_files<'a>(paths: impl Iterator<Item = &'a str>) -> ScanResult {
    let mut files = 0;
    let mut directories = std::collections::BTreeSet::new();
    let mut counts: BTreeMap<&'static str, (LanguageClass, u64)> = BTreeMap::new();
    let mut last = "";
    for path in paths {
        files += 1;
        let mut directory = parent_directory(path);
        // Consecutive files mostly share a directory.
        if std::mem::replace(&mut last, directory) == directory {
            directory = "";
        }
        while !directory.is_empty() && directories.insert(directory) {
            directory = parent_directory(directory);
        }
        if let Some((language, class)) = find_row(path) {
            counts.entry(language).or_insert((class, 0)).1 += 1;
        }
    }
    ScanResult {
        files,
        directories: directories.len() as u64,
        languages: order_languages(&counts)
            .into_iter()
            .map(|(language, _)| language.to_owned())
            .collect(),
        not_utf8: 0,
        notices: Vec::new(),
    }
}

/// Languages with their numbers of files, the most frequent first, ties sorted by name.
pub fn count_languages<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<(&'static str, u64)> {
    let mut counts: BTreeMap<&'static str, (LanguageClass, u64)> = BTreeMap::new();
    for (language, class) in paths.filter_map(find_row) {
        counts.entry(language).or_insert((class, 0)).1 += 1;
    }
    order_languages(&counts)
}

fn order_languages(counts: &BTreeMap<&'static str, (LanguageClass, u64)>) -> Vec<(&'static str, u64)> {
    let written = |class: LanguageClass| matches!(class, LanguageClass::Programming | LanguageClass::Markup);
    let any_written = counts.values().any(|(class, _)| written(*class));
    let mut order: Vec<(&'static str, u64)> = counts
        .iter()
        .filter(|(_, (class, _))| !any_written || written(*class))
        .map(|(language, (_, count))| (*language, *count))
        .collect();
    // The sort is stable and the map is ordered by name.
    order.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    order
}

/// True for files with program code, for which tests could be written.
pub fn is_code(path: &str) -> bool {
    find_row(path).is_some_and(|(language, class)| {
        class == LanguageClass::Programming
            && !matches!(language, "Makefile" | "Dockerfile" | "CMake" | "Just" | "Procfile")
            || matches!(language, "Vue" | "Svelte" | "Astro" | "Jupyter Notebook")
    })
}

/// True for files whose words are worth ranking.
pub fn is_written(path: &str) -> bool {
    find_row(path).is_some_and(|(_, class)| matches!(class, LanguageClass::Programming | LanguageClass::Markup))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sound() {
        let mut seen = std::collections::HashSet::new();
        for extension in LANGUAGES.iter().flat_map(|row| row.2) {
            assert!(seen.insert(extension), "`{extension}` stands for two languages");
            assert_eq!(*extension, extension.to_ascii_lowercase());
        }
        assert!(LANGUAGES.is_sorted_by_key(|row| row.0));
        assert!(NAMES.is_sorted_by_key(|row| row.0));
        assert!(INTERPRETERS.is_sorted_by_key(|row| row.0));
        for (program, extension) in INTERPRETERS {
            assert!(by_extension().contains_key(extension), "{program}");
        }
    }

    #[test]
    fn a_package_of_java_that_is_called_example_is_none() {
        let of = |folder: &str| detect_role(&format!("{folder}/src/main/java/com/example/demo/Shop.java"));
        assert_eq!((of("app"), of("examples/app")), (Role::Source, Role::Example));
        assert_eq!(detect_role("app/src/jvmTest/kotlin/com/shop/Cart.kt"), Role::Test);
    }

    #[test]
    fn a_file_without_an_extension_is_known_by_its_first_lines() {
        let of = |text| script_extension(text).unwrap_or("-");
        assert_eq!(of("#!/bin/sh\n"), "sh");
        assert_eq!(of("#! /usr/bin/env bash\nset -e\n"), "sh");
        assert_eq!(of("#!/usr/bin/env -S PYTHONUTF8=1 python3.12 -u\n"), "py");
        assert_eq!(of("#!/usr/bin/env -S uv run --script\n"), "py");
        assert_eq!(of("#!/usr/bin/perl -w\r\n"), "pl");
        assert_eq!(of("#!/opt/lua5.4\n"), "lua");
        assert_eq!(of("# -*- mode: ruby -*-\n"), "rb");
        assert_eq!(of("# -*- coding: utf-8; mode: python -*-\n"), "py");
        assert_eq!(of("; -*- scheme -*-\n"), "scm");
        assert_eq!(of("# Setup\n# vim: set sw=2 ft=zsh:\n"), "sh");
        assert_eq!(of("# vi: filetype=javascript\n"), "js");
        for unknown in [
            "",
            "\n",
            "#!",
            "#!/usr/bin/env\n",
            "#!/opt/own\n",
            "python3\n",
            "ft=ruby\n",
            "-*- x",
        ] {
            assert_eq!(of(unknown), "-", "{unknown:?}");
        }
    }

    #[test]
    fn the_text_decides_only_where_the_name_says_nothing() {
        for path in ["bin/rails", "plugins/git/internal-functions", "a.b/run"] {
            assert!(is_nameless(path), "{path}");
            assert_eq!(detect_role(path), Role::Other, "{path}");
        }
        for path in [
            "README",
            "LICENSE",
            "Makefile",
            "Rakefile",
            "a.py",
            "AUTHORS",
            "CHANGELOG",
            ".profile",
        ] {
            assert!(!is_nameless(path), "{path}");
        }
        assert_eq!(implied_extension("Rakefile", "#!/bin/sh\n"), Some("rb"));
        assert_eq!(implied_extension("bin/run", "#!/bin/sh\n"), Some("sh"));
        assert_eq!(implied_extension("bin/run.py", "#!/bin/sh\n"), None);
        assert_eq!(detect_script_role("bin/rails"), Role::Source);
        assert_eq!(detect_script_role("tests/bin/fake"), Role::Test);
        assert_eq!(detect_script_role("vendor/bin/run"), detect_role("vendor/bin/run.sh"));
    }

    #[test]
    fn languages_by_extension_and_by_name() {
        let of = |path| detect_language(path).unwrap_or("-");
        let shown = [
            "a.py",
            "b/C.TSX",
            "Dockerfile",
            "ci/Dockerfile.test",
            "makefile",
            "CMakeLists.txt",
            "go.mod",
            "x",
            ".gitignore",
        ]
        .map(of);
        let expected = [
            "Python",
            "TypeScript",
            "Dockerfile",
            "Dockerfile",
            "Makefile",
            "CMake",
            "Go Module",
            "-",
            "-",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn languages_are_ordered_by_files_and_prose_counts_only_alone() {
        let paths = [
            "a.py",
            "b.py",
            "c.js",
            "d.css",
            "e.css",
            "README.md",
            "f.json",
            "docs/g.md",
        ];
        let summary = summarise_files(paths.into_iter());
        assert_eq!(summary.languages, ["CSS", "Python", "JavaScript"]);
        assert_eq!((summary.files, summary.directories), (8, 1));
        assert_eq!(
            super::summarise_files(["README.md", "x/y/a.json"].into_iter()).languages,
            ["JSON", "Markdown"]
        );
        assert_eq!(super::summarise_files(["x/y/a.json"].into_iter()).directories, 2);
    }

    #[test]
    fn detect_roles() {
        use Role::{Changelog, Configuration, Documentation, Example, Generated, Other, Source, Test, Vendored};
        let table = [
            ("src/client.py", Source),
            ("src/benchmark/run.rs", Source),
            ("benchmark/run.rs", Example),
            ("README.md", Documentation),
            ("LICENSE", Documentation),
            ("CHANGES.rst", Changelog),
            ("changelog/123.bugfix.rst", Changelog),
            ("src/history.py", Source),
            ("tests/test_client.py", Test),
            ("tests/data/input.txt", Test),
            ("pkg/conftest.py", Test),
            ("client_test.go", Test),
            ("src/client.test.ts", Test),
            ("src/client.spec.js", Test),
            ("src/main/java/ClientTest.java", Test),
            ("src/main/java/Test.java", Source),
            ("src/main/java/Latest.java", Source),
            ("src/test/java/Helper.java", Test),
            ("testing/acceptance.py", Test),
            ("src/shop/testsuite/cart.py", Test),
            ("src/testing/plan.md", Test),
            ("src/app_tests/helper.rb", Test),
            ("runtime-tests/node/helper.ts", Test),
            ("integration_test/cases/repo.exs", Test),
            ("test_suite/src/bytes.rs", Test),
            ("serde_test/src/token.rs", Source),
            ("src/Test/Helper.java", Test),
            ("test.js", Test),
            ("src/test.js", Source),
            ("django/test/client.py", Source),
            ("src/flask/testing.py", Source),
            ("lib/rule-tester/rule-tester.js", Source),
            ("src/contest.py", Source),
            ("docs/conf.py", Example),
            ("examples/hello/main.rs", Example),
            ("benches/scan.rs", Example),
            ("static/jquery.min.js", Generated),
            ("package-lock.json", Generated),
            ("api/user_pb2.py", Generated),
            ("Cargo.lock", Generated),
            ("vendor/github.com/x/y.go", Vendored),
            ("pip/_vendor/six.py", Vendored),
            ("pyproject.toml", Configuration),
            (".github/workflows/ci.yml", Configuration),
            ("logo.png", Other),
        ];
        for (path, expected) in table {
            assert_eq!(detect_role(path), expected, "{path}");
        }
        let (paths, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        assert_eq!(super::detect_roles(&paths), expected);
    }

    #[test]
    fn committed_builds_are_generated_where_their_sources_are() {
        use Role::{Generated, Source};
        let table = [
            ("build/command.js", Source),
            ("build/global/build/x.js", Generated),
            ("build/global/build/x.min.js", Generated),
            ("cmd/dist/main.go", Source),
            ("dist/js/shop.js", Generated),
            ("dist/shop.d.ts", Generated),
            ("lib/shop.js", Source),
            ("lib/shop.min.js", Generated),
        ];
        let (paths, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        assert_eq!(super::detect_roles(&paths), expected);
        assert_eq!(
            super::detect_roles(&["dist/index.js"]),
            [Source],
            "there is nothing else to read"
        );
    }

    #[test]
    fn key_files_are_the_specifications_first() {
        for name in [
            "README.md",
            "package.json",
            "pyproject.toml",
            "main.py",
            "app.py",
            "index.js",
            "index.ts",
        ] {
            assert!(is_key_file(&format!("a/{name}")), "{name}");
        }
        assert!(!is_key_file("README.rst") && key_file_rank("README.rst").is_some());
        assert_eq!(key_file_rank("client.py"), None);
    }

    #[test]
    fn entry_points_by_path_are_programs_not_tests() {
        assert!(entry_point_by_path("src/main.rs") > entry_point_by_path("src/lib.rs"));
        assert!(entry_point_by_path("cmd/server/main.go") > entry_point_by_path("tools/x/y/main.go"));
        for path in ["manage.py", "pkg/__main__.py", "src/index.ts", "mysite/wsgi.py"] {
            assert!(entry_point_by_path(path).is_some(), "{path}");
        }
        for path in [
            "tests/app.py",
            "examples/main.py",
            "src/deep/inside/index.js",
            "pkg/sub/__init__.py",
        ] {
            assert_eq!(entry_point_by_path(path), None, "{path}");
        }
    }

    #[test]
    fn parts_of_paths() {
        assert_eq!(
            (file_name("a/b.c"), parent_directory("a/b.c"), file_stem("a/b.test.c")),
            ("b.c", "a", "b")
        );
        assert_eq!(
            (
                file_name("b"),
                parent_directory("b"),
                file_stem(".env.local"),
                file_stem("é")
            ),
            ("b", "", ".env", "é")
        );
    }
}
