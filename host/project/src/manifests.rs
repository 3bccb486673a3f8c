//! What the manifests of a package declare: its dependencies and its scripts, each with its line.
//!
//! A manifest is hostile input. It is read line by line; only JSON is parsed, whose nesting the parser bounds. Nothing
//! of it runs.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::ProjectFile;

/// Dependencies of one manifest that are kept.
const DEPENDENCIES_MAX: usize = 2000;
/// Longest line that is searched, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct DeclaredDependency {
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) is_development: bool,
}

/// The group of languages of a manifest, by its name.
pub(crate) fn manifest_group(name: &str) -> Option<&'static str> {
    Some(match name {
        "pyproject.toml" | "setup.py" | "setup.cfg" | "Pipfile" | "manage.py" | "environment.yml" | "noxfile.py"
        | "tox.ini" => "python",
        "package.json" | "deno.json" => "node",
        "Cargo.toml" => "rust",
        "go.mod" | "go.work" => "go",
        "pom.xml" | "build.gradle" | "build.gradle.kts" | "settings.gradle" | "settings.gradle.kts" => "java",
        "composer.json" | "artisan" => "php",
        "Gemfile" | "config.ru" => "ruby",
        "mix.exs" => "elixir",
        "CMakeLists.txt" | "meson.build" | "configure.ac" | "west.yml" => "c",
        "Chart.yaml"
        | "ansible.cfg"
        | "compose.yaml"
        | "compose.yml"
        | "docker-compose.yml"
        | "docker-compose.yaml" => "any",
        _ if name.starts_with("requirements") && (name.ends_with(".txt") || name.ends_with(".in")) => "python",
        _ if name.ends_with(".gemspec") => "ruby",
        _ if [".csproj", ".fsproj", ".vbproj", ".sln", ".slnx"]
            .iter()
            .any(|end| name.ends_with(end)) =>
        {
            "dotnet"
        }
        _ if name.ends_with(".tf") => "any",
        _ => return None,
    })
}

/// True for a manifest that also lies in the folders of one package, so that only the topmost makes a package.
pub(crate) fn is_repeated_inside(name: &str) -> bool {
    name.ends_with(".tf") || matches!(name, "CMakeLists.txt" | "meson.build" | "setup.cfg" | "tox.ini")
}

/// A pattern that is compiled once.
macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant"));
        &*PATTERN
    }};
}

/// The numbered lines of a file that are not too long.
pub(crate) fn numbered_lines(file: &ProjectFile) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate();
    lines
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| line.len() <= LINE_BYTES_MAX)
}

/// The dependencies that a manifest declares.
pub(crate) fn read_dependencies(file: &ProjectFile) -> Vec<DeclaredDependency> {
    let name = file.name();
    let mut found = match name {
        "package.json" | "composer.json" => json_dependencies(file),
        "pyproject.toml" | "Cargo.toml" | "Pipfile" => table_dependencies(file),
        "Gemfile" => by_pattern(file, pattern!(r#"^\s*gem\s*\(?\s*["']([\w.-]+)["']"#)),
        "pom.xml" => by_pattern(file, pattern!(r"<artifactId>\s*([\w.-]+)\s*</artifactId>")),
        "go.mod" => {
            let mut found = by_pattern(file, pattern!(r"^(?:require\s+|\s+)([\w./~-]+)\s+v\d(?:[^/]|/[^/])*$"));
            found.retain(|dependency| dependency.name.contains('.'));
            found
        }
        "mix.exs" => by_pattern(file, pattern!(r"\{:(\w+),")),
        "CMakeLists.txt" => by_pattern(file, pattern!(r"(?i)\bfind_package\s*\(\s*(\w+)")),
        "meson.build" => by_pattern(file, pattern!(r"\bdependency\s*\(\s*'([\w.+-]+)'")),
        "setup.py" => by_pattern(
            file,
            pattern!(r#"["']([A-Za-z][\w.-]*)(?:\[[\w,-]*\])?\s*(?:[<>=~!]=?[^"']*)?["']\s*,?"#),
        ),
        "setup.cfg" | "tox.ini" => by_pattern(file, pattern!(r"^\s+([A-Za-z][\w.-]*)\s*(?:[<>=~!;\[]|$)")),
        "environment.yml" => by_pattern(file, pattern!(r"^\s*-\s*([A-Za-z][\w.-]*)\s*(?:[<>=~!\[]|$)")),
        _ if name.ends_with(".gemspec") => by_pattern(
            file,
            pattern!(r#"add_(?:runtime_)?dependency\s*\(?\s*["']([\w.-]+)["']"#),
        ),
        _ if name.ends_with("proj") => by_pattern(
            file,
            pattern!(
                r#"(?:\bSdk|<(?:Package|Framework)Reference\s+Include)\s*=\s*"([\w.]+)|<((?:UseMaui|OutputType)>\w+)"#
            ),
        ),
        _ if name.contains(".gradle") || name.ends_with(".versions.toml") => gradle_dependencies(file),
        _ if name.starts_with("requirements") || file.path.contains("requirements/") => {
            by_pattern(file, pattern!(r"^\s*([A-Za-z][\w.-]*)\s*(?:[<>=~!;\[@ ]|$)"))
        }
        _ => Vec::new(),
    };
    let is_python = manifest_group(name) == Some("python") || file.path.contains("requirements/");
    if is_python {
        for dependency in &mut found {
            dependency.name = dependency.name.to_ascii_lowercase().replace(['_', '.'], "-");
            dependency.is_development |= is_for_development(name);
        }
    }
    found.truncate(DEPENDENCIES_MAX);
    found
}

fn is_for_development(name: &str) -> bool {
    ["dev", "test", "doc", "lint"].iter().any(|word| name.contains(word))
}

/// The first group that takes part in each line's matches.
fn by_pattern(file: &ProjectFile, pattern: &Regex) -> Vec<DeclaredDependency> {
    let in_line = |(line, text): (usize, &str)| {
        let names = pattern
            .captures_iter(text)
            .filter_map(|found| Some(found.iter().skip(1).flatten().next()?.as_str().to_owned()));
        names
            .map(move |name| DeclaredDependency {
                name,
                line,
                is_development: false,
            })
            .collect::<Vec<_>>()
    };
    numbered_lines(file).flat_map(in_line).take(DEPENDENCIES_MAX).collect()
}

/// Strings such as `group:artifact:1.0`, and plugins: each part counts as a name.
fn gradle_dependencies(file: &ProjectFile) -> Vec<DeclaredDependency> {
    let strings = by_pattern(file, pattern!(r#"["']([A-Za-z][\w.:-]*)["'@:]"#));
    let aliases = by_pattern(file, pattern!(r"\blibs\.(?:plugins\.)?([\w.]+)"));
    let parts = strings.into_iter().flat_map(|dependency| {
        let DeclaredDependency { name, line, .. } = dependency;
        let parts: Vec<String> = name.split(':').take(2).map(str::to_owned).collect();
        parts.into_iter().map(move |name| DeclaredDependency {
            name,
            line,
            is_development: false,
        })
    });
    let dashed = aliases.into_iter().map(|mut dependency| {
        dependency.name = dependency.name.replace('.', "-");
        dependency
    });
    parts.chain(dashed).collect()
}

/// Sections of a TOML manifest: keys of tables of dependencies, and strings of lists of requirements.
fn table_dependencies(file: &ProjectFile) -> Vec<DeclaredDependency> {
    let requirement = pattern!(r#"["']([A-Za-z][\w.-]*)(?:\[[^\]]*\])?[^"']*["']"#);
    let mut found = Vec::new();
    let (mut section, mut is_list) = (String::new(), false);
    for (line, text) in numbered_lines(file) {
        let text = text.trim();
        if text.starts_with('[') && text.ends_with(']') && !text.contains(['"', '\'']) {
            is_list = false;
            section = text.trim_matches(['[', ']']).to_owned();
            // `[dependencies.serde]`
            if let Some((_, name)) = section
                .split_once("dependencies.")
                .filter(|_| file.name() == "Cargo.toml")
            {
                let is_development = section.starts_with("dev-") || section.starts_with("build-");
                found.push(DeclaredDependency {
                    name: name.to_owned(),
                    line,
                    is_development,
                });
            }
            continue;
        }
        if text.starts_with('#') {
            continue;
        }
        let key = text
            .split('=')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_matches(['"', '\'']);
        let is_table = section.ends_with("dependencies")
            && section != "project.optional-dependencies"
            && section != "workspace.dependencies"
            || section.ends_with("packages") && file.name() == "Pipfile";
        let is_development = is_for_development(&section) || section.starts_with("build-");
        if is_table && text.contains('=') {
            let name = key.split('.').next().unwrap_or(key).to_owned();
            found.push(DeclaredDependency {
                name,
                line,
                is_development,
            });
            continue;
        }
        let is_optional = matches!(section.as_str(), "project.optional-dependencies" | "dependency-groups");
        let is_own = section == "project" && key == "dependencies" || section == "tool.uv" && key == "dev-dependencies";
        let begins =
            (is_optional || is_own) && text.contains('[') && text.contains('=') && !text.starts_with(['"', '\'']);
        if begins || is_list {
            let list = if begins {
                text.split_once('=').map_or(text, |(_, list)| list)
            } else {
                text
            };
            found.extend(requirement.captures_iter(list).map(|name| DeclaredDependency {
                name: name[1].to_owned(),
                line,
                is_development: is_optional || section == "tool.uv",
            }));
            // A bracket of an extra, `a[b]`, is within quotes.
            is_list = !list.trim_end_matches(',').ends_with(']');
        }
    }
    found
}

/// The dependencies of a `package.json` or a `composer.json`.
fn json_dependencies(file: &ProjectFile) -> Vec<DeclaredDependency> {
    let Some(manifest) = read_json(file) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, is_development) in [
        ("dependencies", false),
        ("require", false),
        ("optionalDependencies", false),
        ("devDependencies", true),
        ("require-dev", true),
    ] {
        for name in manifest[key].as_object().into_iter().flat_map(|table| table.keys()) {
            found.push(DeclaredDependency {
                name: name.clone(),
                line: line_of_json_key(&file.text, key, name),
                is_development,
            });
        }
    }
    found
}

/// A file as JSON. A byte order mark is left out.
pub(crate) fn read_json(file: &ProjectFile) -> Option<Value> {
    serde_json::from_str(file.text.trim_start_matches('\u{feff}')).ok()
}

/// The line of a key in an object with another key, from 1; the line of the object if the key is not found.
pub(crate) fn line_of_json_key(text: &str, object: &str, key: &str) -> usize {
    let line_of = |key: &str, after: usize| {
        let quoted = serde_json::to_string(key).unwrap_or_default();
        let is_key = |line: &str| {
            line.match_indices(&quoted)
                .any(|(at, _)| line[at + quoted.len()..].trim_start().starts_with(':'))
        };
        text.lines()
            .enumerate()
            .skip(after)
            .find(|(_, line)| is_key(line))
            .map(|(at, _)| at)
    };
    let at = line_of(object, 0).unwrap_or_default();
    line_of(key, at).unwrap_or(at) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        let file = ProjectFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let shown = |dependency: DeclaredDependency| {
            let mark = if dependency.is_development { "~" } else { "" };
            format!("{mark}{}:{}", dependency.name, dependency.line)
        };
        read_dependencies(&file).into_iter().map(shown).collect()
    }

    #[test]
    fn each_manifest_declares_dependencies_on_lines() {
        for (path, text, expected) in [
            (
                "requirements.txt",
                "# a\nDjango>=4 # x\n-r base.txt\ncelery[redis]==5\n",
                &["django:2", "celery:4"][..],
            ),
            ("requirements/dev.txt", "pytest\n", &["~pytest:1"]),
            (
                "pyproject.toml",
                "[project]\nname = \"x\"\ndependencies = [\n  \"fastapi[all]>=1\",\n  'uvicorn',\n]\n[dependency-groups]\ndev = [\"pytest\"]\n",
                &["fastapi:4", "uvicorn:5", "~pytest:8"],
            ),
            (
                "pyproject.toml",
                "[tool.poetry.dependencies]\npython = \"^3\"\nFlask = \"^3\"\n[tool.poetry.group.dev.dependencies]\npytest = \"8\"\n",
                &["python:2", "flask:3", "~pytest:5"],
            ),
            (
                "package.json",
                "{\n\"name\": \"next\",\n\"dependencies\": {\n\"next\": \"15\"},\n\"devDependencies\": {\"vite\": \"6\"}}",
                &["next:4", "~vite:5"],
            ),
            ("Gemfile", "source 'x'\ngem \"rails\", \"~> 8\"\n", &["rails:2"]),
            (
                "composer.json",
                "{\"require\": {\"laravel/framework\": \"12\"}}",
                &["laravel/framework:1"],
            ),
            (
                "pom.xml",
                "<a>\n<artifactId>spring-boot-starter-web</artifactId>\n",
                &["spring-boot-starter-web:2"],
            ),
            (
                "build.gradle.kts",
                "plugins { id(\"org.springframework.boot\") }\nimplementation(\"io.ktor:ktor-server:2\")\nalias(libs.plugins.android.application)\n",
                &[
                    "org.springframework.boot:1",
                    "io.ktor:2",
                    "ktor-server:2",
                    "android-application:3",
                ],
            ),
            (
                "Web/Web.csproj",
                "<Project Sdk=\"Microsoft.NET.Sdk.Web\">\n<PackageReference Include=\"Serilog\" />\n<OutputType>Exe</OutputType>\n",
                &["Microsoft.NET.Sdk.Web:1", "Serilog:2", "OutputType>Exe:3"],
            ),
            (
                "go.mod",
                "module x\nrequire (\n\tgithub.com/gin-gonic/gin v1.9.0\n\tgolang.org/x/net v0.1.0 // indirect\n)\n",
                &["github.com/gin-gonic/gin:3"],
            ),
            (
                "Cargo.toml",
                "[dependencies]\naxum = \"0.8\"\nserde.workspace = true\n[dev-dependencies]\ninsta = \"1\"\n[dependencies.clap]\nversion = \"4\"\n",
                &["axum:2", "serde:3", "~insta:5", "clap:6"],
            ),
            ("mix.exs", "{:phoenix, \"~> 1.7\"},\n", &["phoenix:1"]),
        ] {
            assert_eq!(names(path, text), expected, "{path}");
        }
    }

    #[test]
    fn hostile_manifests_are_read_within_bounds() {
        let deep = format!("{{\"dependencies\": {}", "[".repeat(100_000));
        assert!(names("package.json", &deep).is_empty());
        let many: String = (0..10_000).map(|number| format!("a{number}\n")).collect();
        assert_eq!(names("requirements.txt", &many).len(), DEPENDENCIES_MAX);
        assert!(names("requirements.txt", &"a".repeat(LINE_BYTES_MAX + 1)).is_empty());
    }
}
