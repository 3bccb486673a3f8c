//! The toolchains that a project needs, with the versions that it writes down.

use std::sync::LazyLock;

use regex::Regex;

use crate::manifests::numbered_lines;
use crate::tree::ProjectTree;
use crate::{EvidencePlace, NeededToolchain, ProjectFile};

/// Toolchain, file, and the line with its version; the first that is found for a toolchain counts.
const VERSIONS: [(&str, &str, &str); 20] = [
    ("Python", "pyproject.toml", r#"^\s*requires-python\s*=\s*["']([^"']+)"#),
    ("Python", "pyproject.toml", r#"^python\s*=\s*["']([^"']+)"#),
    ("Python", ".python-version", r"^\s*(\d[\w.]*)"),
    ("Python", "setup.py", r#"python_requires\s*=\s*["']([^"']+)"#),
    ("Python", "setup.cfg", r"^python_requires\s*=\s*(\S.*)$"),
    ("Node.js", "package.json", r#"^\s*"node"\s*:\s*"([^"]+)""#),
    ("Node.js", ".nvmrc", r"^\s*v?(\w[\w./*]*)"),
    ("Node.js", ".node-version", r"^\s*v?(\d[\w.]*)"),
    ("Rust", "rust-toolchain.toml", r#"^\s*channel\s*=\s*"([^"]+)""#),
    ("Rust", "Cargo.toml", r#"^\s*rust-version\s*=\s*"([^"]+)""#),
    ("Go", "go.mod", r"^go\s+(\d[\w.]*)"),
    (
        "Java",
        "pom.xml",
        r"<(?:java\.version|maven\.compiler\.(?:release|source)|release)>\s*(\d[\d.]*)",
    ),
    (
        "Java",
        "build.gradle",
        r"(?:JavaLanguageVersion\.of\(|sourceCompatibility\s*=\s*\D{0,20})(\d+)",
    ),
    (
        "Java",
        "build.gradle.kts",
        r"(?:JavaLanguageVersion\.of\(|jvmToolchain\()(\d+)",
    ),
    ("Ruby", ".ruby-version", r"^\s*(?:ruby-)?(\d[\w.]*)"),
    ("Ruby", "Gemfile", r#"^\s*ruby\s+["']([^"']+)"#),
    ("PHP", "composer.json", r#"^\s*"php"\s*:\s*"([^"]+)""#),
    (".NET", "global.json", r#"^\s*"version"\s*:\s*"([^"]+)""#),
    ("Elixir", "mix.exs", r#"^\s*elixir:\s*"([^"]+)""#),
    (
        "CMake",
        "CMakeLists.txt",
        r"(?i)^\s*cmake_minimum_required\s*\(\s*VERSION\s+([\d.]+)",
    ),
];

/// The toolchains of the packages, those of the target first.
pub(crate) fn find_toolchains(tree: &ProjectTree<'_>, files: &[ProjectFile]) -> Vec<NeededToolchain> {
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        let compile = |(_, _, pattern): &(&str, &str, &str)| Regex::new(pattern).expect("a constant");
        VERSIONS.iter().map(compile).collect()
    });
    let mut found: Vec<NeededToolchain> = Vec::new();
    for package in &tree.packages {
        for ((name, file_name, _), pattern) in VERSIONS.iter().zip(PATTERNS.iter()) {
            let path = crate::tree::join(package.folder, file_name);
            let Some(file) = files.iter().find(|file| file.path == path) else {
                continue;
            };
            let version = numbered_lines(file).find_map(|(line, text)| {
                let version = pattern.captures(text)?.get(1)?.as_str().trim().to_owned();
                Some((line, version))
            });
            if let Some((line, version)) = version.filter(|_| !found.iter().any(|known| known.name == *name)) {
                let place = EvidencePlace { path, line: Some(line) };
                found.push(NeededToolchain { name, version, place });
            }
        }
    }
    found
}
