//! Facts that the manifests of a project declare: its name, its description, and its entry points.

use regex::Regex;
use serde_json::Value;

use crate::evidence::{FileLine, SourceQuote};
use crate::survey::is_test_helper;
use crate::text::{cite_lines, quote_code};
use tool_repository::file_role::{file_name, is_code, parent_directory};
use tool_repository::path::join_path;

/// Manifests and build files that are read, the most informative first.
pub(super) const MANIFESTS: [&str; 30] = [
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "mix.exs",
    "setup.cfg",
    "setup.py",
    "Gemfile",
    "Rakefile",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Makefile",
    "GNUmakefile",
    "makefile",
    "Makefile.am",
    "justfile",
    "tox.ini",
    "noxfile.py",
    "pytest.ini",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".pre-commit-config.yaml",
    ".golangci.yml",
    ".golangci.yaml",
    ".rspec",
];

/// Beginning of a script's key in the table `[project]` of a `pyproject.toml`.
const DOTTED_SCRIPTS: &str = "scripts.";

/// Listed modules of those that an npm package exports besides its main one.
const EXPORTED_PARTS_MAX: usize = 4;

/// A file, or the part of it that was read.
#[derive(Debug)]
pub(super) struct ReadFile {
    /// Relative to the root.
    pub(super) path: String,
    pub(super) lines: Vec<FileLine>,
}

impl ReadFile {
    pub(super) fn name(&self) -> &str {
        file_name(&self.path)
    }

    /// Citation of a line: `path:line`.
    pub(super) fn place(&self, line: usize) -> String {
        cite_lines(&self.path, &line)
    }

    /// The first line that matches a pattern.
    pub(super) fn find(&self, pattern: &str) -> Option<&FileLine> {
        let pattern = Regex::new(pattern).expect("the expression is a constant");
        self.lines.iter().find(|line| pattern.is_match(&line.text))
    }

    /// The first group of the first line that matches a pattern.
    fn capture(&self, pattern: &str) -> Option<SourceQuote> {
        let pattern = Regex::new(pattern).expect("the expression is a constant");
        self.lines.iter().find_map(|line| {
            let found = pattern.captures(&line.text)?.get(1)?.as_str().trim();
            (!found.is_empty()).then(|| SourceQuote::new(found, line.number))
        })
    }

    /// Parses the file as JSON; `None` for other text, and for a file that was read in part.
    pub(super) fn json(&self) -> Option<Value> {
        let text: String = self.lines.iter().map(|line| format!("{}\n", line.text)).collect();
        serde_json::from_str(&text).ok()
    }

    /// The line of a key of a JSON object; the first one if the key is repeated.
    pub(super) fn line_of_key(&self, key: &str) -> usize {
        line_of_key(&self.lines, key)
    }

    /// The settings below one of these headings of a TOML or INI file.
    pub(super) fn in_table(&self, headings: &[&str]) -> Vec<&FileLine> {
        let mut is_inside = false;
        let mut found = Vec::new();
        for line in &self.lines {
            let text = line.text.trim();
            if text.starts_with('[') && text.ends_with(']') {
                is_inside = headings.contains(&text);
            } else if is_inside && text.contains('=') && !text.starts_with('#') {
                found.push(line);
            }
        }
        found
    }

    fn table_value(&self, headings: &[&str], key: &str) -> Option<SourceQuote> {
        self.in_table(headings).into_iter().find_map(|line| {
            let (name, value) = line.text.split_once('=')?;
            let value = value.trim();
            if name.trim() == key && value == "\"\"\"" {
                let next = self.lines.iter().find(|next| next.number == line.number + 1)?;
                return Some(SourceQuote::new(
                    next.text.trim().trim_end_matches("\"\"\""),
                    next.number,
                ));
            }
            let inside = value.strip_prefix(['"', '\''])?;
            let inside = inside.split(['"', '\'']).next()?;
            (name.trim() == key && !inside.is_empty()).then(|| SourceQuote::new(inside, line.number))
        })
    }

    pub(super) fn project_name(&self) -> Option<SourceQuote> {
        match self.name() {
            "pyproject.toml" => self.table_value(&["[project]", "[tool.poetry]"], "name"),
            "Cargo.toml" => self.table_value(&["[package]"], "name"),
            // The name at the root of a workspace is not meant for readers.
            "package.json" => self
                .json_text("name")
                .filter(|name| !matches!(file_name(&name.text), "root" | "monorepo" | "workspace")),
            "composer.json" => {
                let name = self.json_text("name")?;
                Some(SourceQuote::new(name.text.rsplit('/').next()?, name.line))
            }
            name if name.ends_with(".gemspec") => {
                self.capture(r#"(?:\.name\s*=|Gem::Specification\.new)\s*\(?\s*["']([^"']+)["']"#)
            }
            "go.mod" => {
                let module = self.capture(r"^module\s+(\S+)")?;
                let version = |part: &&str| {
                    part.len() > 1 && part.starts_with('v') && part[1..].chars().all(|c| c.is_ascii_digit())
                };
                let name = module.text.rsplit('/').find(|part| !version(part))?;
                Some(SourceQuote::new(name, module.line))
            }
            "setup.cfg" => self.in_table(&["[metadata]"]).into_iter().find_map(|line| {
                Some(SourceQuote::new(
                    line.text.strip_prefix("name")?.trim_start().strip_prefix('=')?.trim(),
                    line.number,
                ))
            }),
            "setup.py" => self.capture(r#"^\s*name\s*=\s*["']([^"']+)["']"#),
            "mix.exs" => self.capture(r"^\s*app:\s*:(\w+)"),
            "CMakeLists.txt" => self.capture(r"(?i)^\s*project\s*\(\s*([\w.+-]+)"),
            "meson.build" => self.capture(r"^\s*project\s*\(\s*'([^']+)'"),
            "configure.ac" => self.capture(r"AC_INIT\(\[?([^\],)]+)"),
            _ => None,
        }
    }

    pub(super) fn description(&self) -> Option<SourceQuote> {
        match self.name() {
            "pyproject.toml" => self.table_value(&["[project]", "[tool.poetry]"], "description"),
            "Cargo.toml" => self.table_value(&["[package]"], "description"),
            "package.json" | "composer.json" => self.json_text("description"),
            "setup.py" => self.capture(r#"^\s*description\s*=\s*["']([^"']+)["']"#),
            "setup.cfg" => self
                .capture(r"^description\s*=\s*(.+)$")
                .filter(|found| !found.text.starts_with("file:")),
            "pom.xml" => self.capture(r"^\s*<description>([^<]+)</description>"),
            "Chart.yaml" => self.capture(r#"^description:\s*["']?(\w[^"']*)"#),
            name if name.ends_with(".csproj") => self.capture(r"^\s*<Description>([^<]+)</Description>"),
            name if name.ends_with(".gemspec") => self.capture(r#"\.summary\s*=\s*["']([^"']+)["']"#),
            "mix.exs" => self.capture(r#"^\s*description:\s*"([^"]+)""#),
            _ => None,
        }
    }

    fn json_text(&self, key: &str) -> Option<SourceQuote> {
        let value = self.json()?;
        let text = value.get(key)?.as_str()?;
        (!text.is_empty()).then(|| SourceQuote::new(text, self.line_of_key(key)))
    }

    /// The language of projects with such a manifest.
    pub(super) fn ecosystem(&self) -> Option<&'static str> {
        match self.name() {
            "pyproject.toml" | "setup.cfg" | "setup.py" => Some("Python"),
            "Cargo.toml" => Some("Rust"),
            "go.mod" => Some("Go"),
            "pom.xml" => Some("Java"),
            "composer.json" => Some("PHP"),
            "mix.exs" => Some("Elixir"),
            name if name.ends_with(".gemspec") => Some("Ruby"),
            _ => None,
        }
    }

    /// A path in the manifest, relative to the root of the repository.
    fn rooted(&self, path: &str) -> String {
        join_path(parent_directory(&self.path), path.trim_start_matches("./"))
    }

    /// A file of the manifest, in backticks. `exists` takes a path from the root. A built file is named after its
    /// source.
    fn shown(&self, path: &str, exists: &impl Fn(&str) -> bool) -> String {
        let rooted = quote_code(&self.rooted(path));
        match self.source_of(path, exists) {
            Some(source) => format!("{}, built as {rooted}", quote_code(&source)),
            None => rooted,
        }
    }

    /// The source of a missing file of an npm package: `lib/index.ts` for `dist/index.js`.
    fn source_of(&self, path: &str, exists: &impl Fn(&str) -> bool) -> Option<String> {
        const BUILT: [&str; 9] = ["dist", "build", "out", "output", "lib", "es", "esm", "cjs", "umd"];
        const FOLDERS: [&str; 4] = ["src", "lib", "source", ""];
        const ENDS: [&str; 5] = ["ts", "tsx", "mts", "js", "mjs"];
        let inside = path.trim_start_matches("./");
        let is_built = inside.split('/').next().is_some_and(|folder| BUILT.contains(&folder));
        if !is_built || exists(&self.rooted(path)) {
            return None;
        }
        let (mut stem, _) = inside.rsplit_once('.')?;
        // `dist/esm/index.js` is built from `src/index.ts`.
        while let Some((_, inside)) = stem.split_once('/') {
            stem = inside;
            let sources = FOLDERS.iter().flat_map(|folder| {
                let file = join_path(folder, stem);
                ENDS.iter().map(move |end| format!("{file}.{end}"))
            });
            if let Some(source) = sources.map(|source| self.rooted(&source)).find(|source| exists(source)) {
                return Some(source);
            }
        }
        None
    }

    /// Commands and modules that the manifest declares as entry points: a part of a sentence, and the line. `exists`
    /// tells whether a file exists, by its path from the root.
    pub(super) fn declared_starts(&self, exists: impl Fn(&str) -> bool) -> Vec<SourceQuote> {
        let setting = |line: &FileLine| {
            let (name, value) = line.text.split_once('=')?;
            let name = name.trim();
            let (name, value) = (
                name.strip_prefix(DOTTED_SCRIPTS)
                    .unwrap_or(name)
                    .trim_matches(['"', '\'']),
                value.trim().trim_matches(['"', '\'', ',']),
            );
            Some(SourceQuote::new(
                &format!("command {}: {}", quote_code(name), quote_code(value)),
                line.number,
            ))
        };
        match self.name() {
            "pyproject.toml" => self
                .in_table(&["[project.scripts]", "[project.gui-scripts]", "[tool.poetry.scripts]"])
                .into_iter()
                .chain(
                    self.in_table(&["[project]"])
                        .into_iter()
                        .filter(|line| line.text.trim_start().starts_with(DOTTED_SCRIPTS)),
                )
                .filter_map(setting)
                .collect(),
            "setup.cfg" => self
                .in_table(&["[options.entry_points]"])
                .into_iter()
                .filter(|line| line.text.contains(':'))
                .filter_map(setting)
                .collect(),
            "Cargo.toml" => {
                let mut programs = self.cargo_programs();
                programs.retain(|program| !is_test_helper(&program.text));
                programs
            }
            "package.json" => self.npm_starts(exists),
            name if name.ends_with(".gemspec") => self.gem_commands(exists),
            "mix.exs" => {
                let module = self.capture(r"^\s*mod:\s*\{\s*([\w.]+)");
                let start =
                    |module: SourceQuote| SourceQuote::new(&format!("application `{}`", module.text), module.line);
                module.map(start).into_iter().collect()
            }
            "composer.json" => self
                .json()
                .and_then(|value| Some(value.get("bin")?.as_array()?.clone()))
                .into_iter()
                .flatten()
                .filter_map(|bin| {
                    let file = self.shown(bin.as_str()?, &exists);
                    Some(SourceQuote::new(&format!("command: {file}"), self.line_of_key("bin")))
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn cargo_programs(&self) -> Vec<SourceQuote> {
        let starts = self.cargo_tables().into_iter().filter_map(|(line, name, path)| {
            let starts = if path.is_empty() {
                String::new()
            } else {
                format!(": {}", quote_code(&self.rooted(&path)))
            };
            Some(SourceQuote::new(
                &format!("program {}{starts}", quote_code(&name)),
                line?.number,
            ))
        });
        starts.collect()
    }

    /// The files of a Cargo manifest's programs, if it names them.
    pub(super) fn cargo_program_paths(&self) -> Vec<String> {
        if self.name() != "Cargo.toml" {
            return Vec::new();
        }
        let paths = self.cargo_tables().into_iter().map(|(_, _, path)| path);
        paths
            .filter(|path| !path.is_empty())
            .map(|path| self.rooted(&path))
            .collect()
    }

    /// The tables `[[bin]]` of a Cargo manifest: the line of the name, the name and the path.
    fn cargo_tables(&self) -> Vec<(Option<&FileLine>, String, String)> {
        let mut programs: Vec<(Option<&FileLine>, String, String)> = Vec::new();
        let mut is_inside = false;
        for line in &self.lines {
            let text = line.text.trim();
            if text.starts_with('[') {
                is_inside = text == "[[bin]]";
                if is_inside {
                    programs.push((None, String::new(), String::new()));
                }
            } else if let (true, Some(program), Some((key, value))) =
                (is_inside, programs.last_mut(), text.split_once('='))
            {
                let value = value.trim().trim_matches(['"', '\'']).to_owned();
                match key.trim() {
                    "name" => (program.0, program.1) = (Some(line), value),
                    "path" => program.2 = value,
                    _ => {}
                }
            }
        }
        programs
    }

    /// Commands of a gem; their files are in `exe` or `bin`.
    fn gem_commands(&self, exists: impl Fn(&str) -> bool) -> Vec<SourceQuote> {
        let Some(listed) = self.capture(r"\.executables\s*=\s*(?:\[|%w[\[({])([^\])}]*)") else {
            return Vec::new();
        };
        let names = listed.text.split(|c: char| c.is_whitespace() || "\"',".contains(c));
        let command = |name: &str| {
            let paths = ["exe", "bin"].map(|folder| format!("{folder}/{name}"));
            let path = paths
                .map(|path| self.rooted(&path))
                .into_iter()
                .find(|path| exists(path))?;
            Some(SourceQuote::new(
                &format!("command {}: {}", quote_code(name), quote_code(&path)),
                listed.line,
            ))
        };
        names.filter(|name| !name.is_empty()).filter_map(command).collect()
    }

    fn npm_starts(&self, exists: impl Fn(&str) -> bool) -> Vec<SourceQuote> {
        let Some(value) = self.json() else {
            return Vec::new();
        };
        let mut starts = Vec::new();
        match &value["bin"] {
            Value::String(path) => {
                let name = value["name"].as_str().unwrap_or_default();
                let name = name.rsplit('/').next().unwrap_or(name);
                let file = self.shown(path, &exists);
                starts.push(SourceQuote::new(
                    &format!("command {}: {file}", quote_code(name)),
                    self.line_of_key("bin"),
                ));
            }
            Value::Object(commands) => starts.extend(commands.iter().filter_map(|(name, path)| {
                let file = self.shown(path.as_str()?, &exists);
                Some(SourceQuote::new(
                    &format!("command {}: {file}", quote_code(name)),
                    self.line_of_key(name),
                ))
            })),
            _ => {}
        }
        // A file in a folder may be built later. `npm init` names an `index.js` that may never exist.
        let is_there = |path: &&str| {
            let inside = path.trim_start_matches("./");
            inside.contains('/') || exists(&self.rooted(inside))
        };
        let mut modules: Vec<(&str, &str)> = Vec::new();
        for key in ["main", "module"] {
            let path = value[key].as_str().filter(is_there);
            modules.extend(
                path.filter(|path| modules.iter().all(|(_, known)| known != path))
                    .map(|path| (key, path)),
            );
        }
        starts.extend(modules.into_iter().map(|(key, path)| {
            let file = self.shown(path, &exists);
            SourceQuote::new(&format!("`{key}` module: {file}"), self.line_of_key(key))
        }));
        let exported = match &value["exports"] {
            Value::String(path) => Some(path.as_str()),
            // Without paths as keys, the keys are conditions for the package itself.
            Value::Object(paths) if !paths.keys().any(|key| key.starts_with('.')) => first_path(&value["exports"]),
            Value::Object(paths) => paths.get(".").and_then(first_path),
            _ => None,
        };
        if let (Some(path), true) = (exported, starts.is_empty()) {
            let file = self.shown(path, &exists);
            starts.push(SourceQuote::new(
                &format!("exported module: {file}"),
                self.line_of_key("exports"),
            ));
        }
        starts.extend(self.exported_parts(&value["exports"], &exists));
        starts
    }

    /// Modules that a package exports beside its main one, each with its own source file.
    fn exported_parts(&self, exports: &Value, exists: &impl Fn(&str) -> bool) -> Vec<SourceQuote> {
        let parts = exports.as_object().into_iter().flatten();
        let parts = parts.filter(|(key, _)| key.starts_with("./") && !key.contains('*') && !key.contains("internal"));
        let parts = parts.filter_map(|(key, value)| {
            let path = last_path(value).filter(|path| is_code(path) && exists(&self.rooted(path)))?;
            let file = quote_code(&self.rooted(path));
            Some(SourceQuote::new(
                &format!("exported module {}: {file}", quote_code(key)),
                self.line_of_key(key),
            ))
        });
        parts.take(EXPORTED_PARTS_MAX).collect()
    }
}

fn line_of_key(lines: &[FileLine], key: &str) -> usize {
    let quoted = format!("\"{key}\"");
    let line = lines.iter().find(|line| {
        let text = line.text.trim_start();
        text.strip_prefix(&quoted)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    });
    line.or_else(|| lines.iter().find(|line| line.text.contains(&quoted)))
        .map_or(1, |line| line.number)
}

/// The first path that conditional exports name. It falls back to a path under `types`.
fn first_path(value: &Value) -> Option<&str> {
    match value {
        Value::String(path) => Some(path),
        Value::Object(conditions) => {
            let runs = conditions.iter().filter(|(condition, _)| *condition != "types");
            let mut paths = runs.map(|(_, path)| path).chain(conditions.get("types"));
            paths.find_map(first_path)
        }
        _ => None,
    }
}

/// The last path of conditional exports that is not a type declaration: `default` follows the special conditions.
fn last_path(value: &Value) -> Option<&str> {
    match value {
        Value::String(path) => Some(path),
        Value::Object(conditions) => conditions
            .get("default")
            .or_else(|| conditions.get("import"))
            .and_then(last_path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    fn file(path: &str, text: &str) -> ReadFile {
        ReadFile {
            path: path.to_owned(),
            lines: number_lines(text),
        }
    }

    #[test]
    fn names_come_from_the_projects_own_table() {
        for (path, text, expected) in [
            (
                "Cargo.toml",
                "[[bin]]\nname = \"rg\"\n[package]\nname = \"ripgrep\" # it\n",
                Some("ripgrep"),
            ),
            ("Cargo.toml", "[workspace]\nmembers = []\n", None),
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"x\"]\n[project]\nname = 'flask'\n",
                Some("flask"),
            ),
            (
                "package.json",
                "{\"author\": {\"name\": \"A\"}, \"name\": \"express\"}",
                Some("express"),
            ),
            ("package.json", "{\"name\": \"@shop/root\"}", None),
            ("go.mod", "module github.com/spf13/cobra\n", Some("cobra")),
            ("go.mod", "module github.com/go-chi/chi/v5\n", Some("chi")),
            (
                "CMakeLists.txt",
                "cmake_minimum_required(VERSION 3)\nproject(zlib C)\n",
                Some("zlib"),
            ),
            ("mix.exs", "      app: :plug,\n", Some("plug")),
        ] {
            let name = file(path, text).project_name().map(|name| name.text);
            assert_eq!(name.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn declared_starts_name_the_command_and_its_file() {
        for (path, text, expected) in [
            (
                "pyproject.toml",
                "[project]\nname = \"x\"\n[project.scripts]\n# none = 1\nrun = \"x:main\"\n[tool.other]\na = 1",
                &["command `run`: `x:main`"][..],
            ),
            (
                "Cargo.toml",
                "[[bin]]\nbench = false\npath = \"core/main.rs\"\nname = \"rg\"\n",
                &["program `rg`: `core/main.rs`"],
            ),
            (
                "package.json",
                "{\"name\": \"@a/b\", \"bin\": \"cli.js\", \"main\": \"lib.js\", \"module\": \"none.js\"}",
                &["command `b`: `cli.js`", "`main` module: `lib.js`"],
            ),
            (
                "packages/shop/package.json",
                "{\"main\": \"./dist/index.js\", \"module\": \"./dist/esm/index.js\", \"exports\": {\".\": \"./x.js\", \
                 \"./cart\": {\"types\": \"./c.d.ts\", \"default\": \"./src/cart.js\"}, \"./none\": \"./none.js\"}}",
                &[
                    "`main` module: `packages/shop/lib/index.ts`, built as `packages/shop/dist/index.js`",
                    "`module` module: `packages/shop/lib/index.ts`, built as `packages/shop/dist/esm/index.js`",
                    "exported module `./cart`: `packages/shop/src/cart.js`",
                ],
            ),
            (
                "package.json",
                "{\"exports\": {\".\": {\"types\": \"a.d.ts\"}}}",
                &["exported module: `a.d.ts`"],
            ),
            (
                "package.json",
                "{\"exports\": {\"types\": \"a.d.ts\", \"default\": \"a.js\"}}",
                &["exported module: `a.js`"],
            ),
            (
                "pyproject.toml",
                "[project]\nscripts.\"x.y\" = \"x:main\"\n",
                &["command `x.y`: `x:main`"],
            ),
            (
                "shop.gemspec",
                "  s.executables = [\"shop\", \"none\"]\n",
                &["command `shop`: `exe/shop`"],
            ),
            (
                "mix.exs",
                "      mod: {Shop.Application, []},\n",
                &["application `Shop.Application`"],
            ),
        ] {
            let starts = file(path, text).declared_starts(|path| {
                let known = [
                    "lib.js",
                    "exe/shop",
                    "packages/shop/lib/index.ts",
                    "packages/shop/src/cart.js",
                ];
                known.contains(&path)
            });
            let starts: Vec<&str> = starts.iter().map(|start| start.text.as_str()).collect();
            assert_eq!(starts, expected, "{path}");
        }
    }
}
