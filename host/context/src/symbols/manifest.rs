//! Names and dependencies of packages, from their manifests.
//!
//! Formats with a parser are parsed. The others are programs (`setup.py`, `mix.exs`), of which the usual form is
//! recognised. Versions and groups are left out.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use toml::{Table, Value as TomlValue};

use tool_repository::file_role::file_name;

/// Bytes of a manifest that is parsed: longer ones are generated.
const MANIFEST_BYTES_MAX: usize = 1024 * 1024;

/// Packages of one ecosystem know each other by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PackageEcosystem {
    /// Cargo.
    Rust,
    /// npm and its kin.
    Node,
    /// Go modules.
    Go,
    Python,
    /// Mix.
    Elixir,
}

/// A manifest as far as it is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) ecosystem: PackageEcosystem,
    /// The package's name; absent for a workspace without a package.
    pub(crate) name: Option<String>,
    /// The name by which code imports the library, if it differs.
    pub(crate) library: Option<String>,
    pub(crate) needs: Vec<DeclaredDependency>,
    /// Dependencies that a workspace renames, with the real name of each package.
    pub(crate) renames: HashMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredDependency {
    /// The package's name, or the workspace's name for it.
    pub(crate) name: String,
    /// True if the workspace declares the rest.
    pub(crate) is_inherited: bool,
}

impl Manifest {
    /// Reads a manifest; `None` for an unknown name or form.
    pub(crate) fn read(path: &str, text: &str) -> Option<Self> {
        if text.len() > MANIFEST_BYTES_MAX {
            return None;
        }
        match file_name(path) {
            "Cargo.toml" => Some(read_cargo(&text.parse().ok()?)),
            "package.json" => Some(read_node(
                &serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?,
            )),
            "pyproject.toml" => Some(read_python(&text.parse().ok()?)),
            "setup.py" => Some(read_setup(text)),
            "go.mod" => Some(read_go(text)),
            "mix.exs" => Some(read_elixir(text)),
            _ => None,
        }
    }

    fn new(ecosystem: PackageEcosystem, name: Option<&str>, needs: impl IntoIterator<Item = String>) -> Self {
        let need = |name| DeclaredDependency {
            name,
            is_inherited: false,
        };
        Self {
            ecosystem,
            name: name.map(str::to_owned),
            library: None,
            needs: needs.into_iter().map(need).collect(),
            renames: HashMap::new(),
        }
    }
}

/// The value at a path of keys.
fn value_below<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t TomlValue> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

fn text_below<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t str> {
    value_below(table, keys)?.as_str()
}

/// The tables of dependencies, including those of single platforms.
fn cargo_dependencies(manifest: &Table) -> Vec<&Table> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let systems = value_below(manifest, &["target"]).and_then(TomlValue::as_table);
    let systems = systems
        .into_iter()
        .flat_map(Table::values)
        .filter_map(TomlValue::as_table);
    let tables = std::iter::once(manifest).chain(systems);
    tables
        .flat_map(|table| KINDS.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .collect()
}

fn read_cargo(manifest: &Table) -> Manifest {
    let package = |value: &TomlValue| value.get("package").and_then(TomlValue::as_str).map(str::to_owned);
    let need = |(key, value): (&String, &TomlValue)| DeclaredDependency {
        name: package(value).unwrap_or_else(|| key.clone()),
        is_inherited: value.get("workspace").and_then(TomlValue::as_bool).unwrap_or_default(),
    };
    let offered = value_below(manifest, &["workspace", "dependencies"]).and_then(TomlValue::as_table);
    let offered = offered.into_iter().flatten();
    Manifest {
        library: text_below(manifest, &["lib", "name"]).map(str::to_owned),
        needs: cargo_dependencies(manifest).into_iter().flatten().map(need).collect(),
        renames: offered
            .filter_map(|(key, value)| Some((key.clone(), package(value)?)))
            .collect(),
        ..Manifest::new(PackageEcosystem::Rust, text_below(manifest, &["package", "name"]), [])
    }
}

fn read_node(manifest: &Value) -> Manifest {
    const KINDS: [&str; 4] = [
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
    ];
    let declared = KINDS.iter().filter_map(|kind| manifest[kind].as_object()).flatten();
    let need = |(key, version): (&String, &Value)| {
        let version = version.as_str().unwrap_or_default();
        // An alias: `npm:name@1`, `workspace:name@*`.
        let real = version
            .strip_prefix("npm:")
            .or_else(|| version.strip_prefix("workspace:"));
        let real = real.and_then(|real| real.rsplit_once('@')).map(|(name, _)| name);
        real.filter(|name| !name.is_empty()).unwrap_or(key).to_owned()
    };
    let needs: Vec<String> = declared.map(need).collect();
    Manifest::new(PackageEcosystem::Node, manifest["name"].as_str(), needs)
}

/// Normalises the name of a Python package for comparison.
fn python_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// The name in `name[extra]>=1; marker`.
fn required_name(requirement: &str) -> String {
    let end = requirement
        .trim_start()
        .find(|sign: char| !sign.is_alphanumeric() && !"-_.".contains(sign));
    let requirement = requirement.trim_start();
    python_name(&requirement[..end.unwrap_or(requirement.len())])
}

fn read_python(manifest: &Table) -> Manifest {
    let own = text_below(manifest, &["project", "name"]).or_else(|| text_below(manifest, &["tool", "poetry", "name"]));
    let groups = |keys: &[&str]| -> Vec<&TomlValue> {
        let table = value_below(manifest, keys).and_then(TomlValue::as_table);
        table.into_iter().flat_map(Table::values).collect()
    };
    let lists = value_below(manifest, &["project", "dependencies"]).into_iter();
    let lists = lists
        .chain(groups(&["project", "optional-dependencies"]))
        .chain(groups(&["dependency-groups"]));
    let required = lists
        .filter_map(TomlValue::as_array)
        .flatten()
        .filter_map(TomlValue::as_str);
    let poetry = groups(&["tool", "poetry", "group"])
        .into_iter()
        .filter_map(|group| group.get("dependencies"));
    let tables = ["dependencies", "dev-dependencies"]
        .iter()
        .filter_map(|kind| value_below(manifest, &["tool", "poetry", kind]));
    let keys = tables
        .chain(poetry)
        .filter_map(TomlValue::as_table)
        .flat_map(Table::keys);
    let needs: Vec<String> = required
        .map(required_name)
        .chain(keys.map(|key| python_name(key)))
        .collect();
    Manifest::new(PackageEcosystem::Python, own.map(python_name).as_deref(), needs)
}

fn read_setup(text: &str) -> Manifest {
    static NAME: LazyLock<Regex> = LazyLock::new(|| compile_regex(r#"\bname\s*=\s*["']([^"'\n]+)["']"#));
    static LISTS: LazyLock<Regex> =
        LazyLock::new(|| compile_regex(r"\b(?:install|tests|setup|extras)_require\w*\s*=\s*[\[{(]([^\])}]*)"));
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| compile_regex(r#"["']([^"'\n]+)["']"#));
    let name = NAME.captures(text).map(|found| python_name(&found[1]));
    let lists = LISTS.captures_iter(text).filter_map(|found| found.get(1));
    let needs: Vec<String> = lists
        .flat_map(|list| QUOTED.captures_iter(list.as_str()))
        .map(|found| required_name(&found[1]))
        .collect();
    Manifest::new(PackageEcosystem::Python, name.as_deref(), needs)
}

fn read_go(text: &str) -> Manifest {
    let (mut name, mut needs, mut is_open) = (None, Vec::new(), false);
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["module", path, ..] => name = Some(path.trim_matches('"')),
            ["require", "(", ..] => is_open = true,
            [")", ..] => is_open = false,
            ["require", path, ..] => needs.push(path.to_owned()),
            [path, _, ..] if is_open => needs.push(path.to_owned()),
            _ => {}
        }
    }
    Manifest::new(PackageEcosystem::Go, name, needs)
}

fn read_elixir(text: &str) -> Manifest {
    static NAME: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"\bapp: :(\w+)"));
    static NEED: LazyLock<Regex> = LazyLock::new(|| compile_regex(r#"\{\s*:(\w+),\s*(?:["\[]|\w+:)"#));
    let name = NAME.captures(text).and_then(|found| found.get(1));
    let needs: Vec<String> = NEED.captures_iter(text).map(|found| found[1].to_owned()).collect();
    Manifest::new(PackageEcosystem::Elixir, name.map(|name| name.as_str()), needs)
}

fn compile_regex(text: &str) -> Regex {
    Regex::new(text).expect("the expression is a constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_of_each_ecosystem_name_their_package_and_what_it_needs() {
        for (path, text, name, needs) in [
            (
                "a/Cargo.toml",
                "[package]\nname = \"a-b\"\n[dependencies.core-a]\nversion = \"1\"\n[features]\nx = []\n\
                 [target.'cfg(unix)'.dependencies]\nrenamed = { package = \"real\" }\n",
                "a-b",
                &["core-a", "real"][..],
            ),
            (
                "package.json",
                "{\"name\":\"@x/a\",\"scripts\":{\"test\":\"jest\"},\"dependencies\":{\"@x/core\":\"*\"},\
                 \"devDependencies\":{\"old\":\"npm:@x/real@1\",\"near\":\"workspace:*\"}}",
                "@x/a",
                &["@x/core", "@x/real", "near"],
            ),
            (
                "go.mod",
                "module x.org/a // main\n\nrequire x.org/core v1.0.0\nrequire (\n\tx.org/more v1 // indirect\n)\n\
                 replace x.org/core => ../core\n",
                "x.org/a",
                &["x.org/core", "x.org/more"],
            ),
            (
                "pyproject.toml",
                "[project]\nname = 'A_b'\ndependencies = [\n  'core.a[x]>=1',\n]\n[project.optional-dependencies]\n\
                 dev = ['more; python_version > \"3\"']\n[tool.poetry.dependencies]\npoem = '*'\n",
                "a-b",
                &["core-a", "more", "poem"],
            ),
            (
                "setup.py",
                "setup(name='a', keywords=['word'], install_requires=['core-a>=1', \"more\"])\n",
                "a",
                &["core-a", "more"],
            ),
            (
                "mix.exs",
                "def project, do: [app: :a]\ndefp deps do\n  [{:core, \"~> 1.0\"}, {:more, in_umbrella: true}]\nend\n",
                "a",
                &["core", "more"],
            ),
        ] {
            let manifest = Manifest::read(path, text).expect("it can be read");
            let mut found: Vec<&str> = manifest.needs.iter().map(|need| need.name.as_str()).collect();
            found.sort_unstable();
            assert_eq!((manifest.name.as_deref(), &found[..]), (Some(name), needs), "{path}");
        }
    }

    #[test]
    fn a_broken_manifest_tells_nothing() {
        assert_eq!(Manifest::read("Cargo.toml", "[package\nname = 1"), None);
        assert_eq!(Manifest::read("package.json", "{\"name\": "), None);
        let odd = Manifest::read("package.json", "[1]").expect("it is JSON");
        assert_eq!((odd.name, odd.needs.len()), (None, 0));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,200}") {
            for path in ["Cargo.toml", "package.json", "pyproject.toml", "setup.py", "go.mod", "mix.exs"] {
                let _ = Manifest::read(path, &text);
            }
        }
    }
}
