//! Finds the entry points of a program that its manifests declare.
//!
//! Pure functions of a manifest's text; a broken manifest declares nothing. `file_role::entry_point_by_path` finds the
//! entry points that only a path tells.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeclaredEntry {
    Module(String),
    /// A path from the manifest's directory, possibly without its extension.
    Path(String),
    /// The project's own name, which its main package often has.
    Package(String),
}

/// Returns the declarations of the manifest at `path`; empty if the file is not a manifest.
pub(crate) fn read_declarations(path: &str, text: &str) -> Vec<DeclaredEntry> {
    match tool_repository::file_role::file_name(path) {
        "pyproject.toml" => read_pyproject(text),
        "setup.cfg" | "setup.py" => console_scripts(text),
        "package.json" => package_json(text),
        "Cargo.toml" => read_cargo_manifest(text),
        "go.mod" => go_module(text),
        _ => Vec::new(),
    }
}

/// True for the names that [`read_declarations`] knows.
pub(crate) fn is_manifest(path: &str) -> bool {
    let name = tool_repository::file_role::file_name(path);
    matches!(
        name,
        "pyproject.toml" | "setup.cfg" | "setup.py" | "package.json" | "Cargo.toml"
    )
}

/// `package.module:function` means the module.
fn parse_module(value: &str) -> Option<DeclaredEntry> {
    let name = value.split([':', '[']).next()?.trim();
    let dotted = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    dotted.then(|| DeclaredEntry::Module(name.to_owned()))
}

fn read_pyproject(text: &str) -> Vec<DeclaredEntry> {
    let Ok(document) = text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let project = document.get("project");
    let poetry = document.get("tool").and_then(|tool| tool.get("poetry"));
    let tables = [
        project.and_then(|project| project.get("scripts")),
        project.and_then(|project| project.get("gui-scripts")),
        poetry.and_then(|poetry| poetry.get("scripts")),
    ];
    let values = tables
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.values());
    // Poetry also knows scripts as tables with a `reference` or a `callable`.
    let text = |value: &toml::Value| {
        let inner = value.get("reference").or_else(|| value.get("callable"));
        inner.unwrap_or(value).as_str().and_then(parse_module)
    };
    let scripts = values.filter_map(text);
    let name = [project, poetry]
        .into_iter()
        .flatten()
        .find_map(|table| table.get("name")?.as_str());
    scripts
        .chain(name.map(|name| DeclaredEntry::Package(name.to_owned())))
        .collect()
}

/// The last part of a module's path, without a major version.
fn go_module(text: &str) -> Vec<DeclaredEntry> {
    let path = text
        .lines()
        .find_map(|line| line.strip_prefix("module "))
        .unwrap_or("")
        .trim();
    let version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let name = path
        .rsplit('/')
        .find(|part| !version(part))
        .filter(|name| !name.is_empty());
    name.map(|name| DeclaredEntry::Package(name.to_owned()))
        .into_iter()
        .collect()
}

/// `name = package.module:function` anywhere in the text, in quotes or alone on a line: the form that `setup.py` and
/// `setup.cfg` share.
fn console_scripts(text: &str) -> Vec<DeclaredEntry> {
    let Some((_, after)) = text.split_once("console_scripts") else {
        return Vec::new();
    };
    let section = after.lines().take(ENTRY_LINES_MAX);
    let until = section.take_while(|line| !line.trim_start().starts_with('['));
    until
        .flat_map(|line| line.split(['"', '\'', ',']))
        .filter_map(|part| part.split_once('='))
        .filter(|(_, value)| value.contains(':'))
        .filter_map(|(_, value)| parse_module(value))
        .collect()
}

/// Lines after `console_scripts` that are looked at.
const ENTRY_LINES_MAX: usize = 40;

fn package_json(text: &str) -> Vec<DeclaredEntry> {
    let Ok(document) = serde_json::from_str::<serde_json::Value>(text) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for key in ["bin", "main", "module", "exports", "browser"] {
        collect_strings(&document[key], 0, &mut paths);
    }
    if paths.is_empty() {
        // Node starts `index.js` if the manifest names no file.
        paths.push("index.js".to_owned());
    }
    let file = |path: &String| !path.contains('*') && !path.ends_with(".json") && !path.ends_with(".css");
    let mut declared: Vec<DeclaredEntry> = paths.into_iter().filter(file).map(DeclaredEntry::Path).collect();
    declared.dedup();
    declared
}

/// The strings in a value that may be one, a list, or conditions within conditions.
fn collect_strings(value: &serde_json::Value, depth: u32, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) if depth < 8 => {
            items.iter().for_each(|item| collect_strings(item, depth + 1, found))
        }
        serde_json::Value::Object(fields) if depth < 8 => {
            fields
                .values()
                .for_each(|field| collect_strings(field, depth + 1, found));
        }
        _ => {}
    }
}

fn read_cargo_manifest(text: &str) -> Vec<DeclaredEntry> {
    let Ok(document) = text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let binaries = document.get("bin").and_then(toml::Value::as_array);
    let library = document.get("lib");
    let tables = binaries.into_iter().flatten().chain(library);
    let path = |table: &toml::Value| Some(DeclaredEntry::Path(table.get("path")?.as_str()?.to_owned()));
    tables.filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(path: &str, text: &str) -> Vec<String> {
        let name = |declared: DeclaredEntry| match declared {
            DeclaredEntry::Module(name) | DeclaredEntry::Path(name) | DeclaredEntry::Package(name) => name,
        };
        read_declarations(path, text).into_iter().map(name).collect()
    }

    #[test]
    fn scripts_of_python_projects_in_all_three_forms() {
        let pyproject = "[project]\nname = \"Flask\"\n[project.scripts]\nflask = \"flask.cli:main\"\n[tool.poetry.scripts]\n\
                         b = { reference = \"b.run:go\", type = \"console\" }\n";
        assert_eq!(modules("pyproject.toml", pyproject), ["flask.cli", "b.run", "Flask"]);
        let cfg = "[options.entry_points]\nconsole_scripts =\n    py.test = pytest:console_main\n    x=a.b:c\n[flake8]\nq = r:s\n";
        assert_eq!(modules("setup.cfg", cfg), ["pytest", "a.b"]);
        let setup = "entry_points={\n 'console_scripts': ['scrapy = scrapy.cmdline:execute']\n}";
        assert_eq!(modules("a/setup.py", setup), ["scrapy.cmdline"]);
    }

    #[test]
    fn main_bin_and_exports_of_a_package() {
        let text = r#"{"bin": {"x": "./bin/x.js"}, "main": "lib/api", "exports": {".": {"import": "./e.mjs"}, "./p": "./package.json", "./*": "./f/*.js"}}"#;
        assert_eq!(modules("package.json", text), ["./bin/x.js", "lib/api", "./e.mjs"]);
    }

    #[test]
    fn what_is_broken_or_no_manifest_declares_nothing() {
        for (path, text) in [
            ("package.json", "{"),
            ("pyproject.toml", "[[["),
            ("Cargo.toml", "="),
            ("README.md", "bin"),
        ] {
            assert_eq!(modules(path, text), Vec::<String>::new(), "{path}");
        }
        assert_eq!(
            modules("Cargo.toml", "[[bin]]\nname = \"x\"\npath = \"src/x.rs\""),
            ["src/x.rs"]
        );
    }
}
