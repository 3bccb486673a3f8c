//! Finds an installed copy of the project that Python would import instead of its sources.
//!
//! A project with its packages in `src/` is imported from its installation. An editable installation is the tree
//! itself; another one is a copy of an earlier state, and a test run would not test the tree. This module only reads
//! files to tell the two apart.

use std::path::{Path, PathBuf};

use tool_sandbox::environment::small_file;
use tool_sandbox::toolchain::PackageHome;

/// An installed copy of the project that hides its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceCopy {
    /// Folder of the sources.
    pub(super) sources: PathBuf,
    /// Name and version of the installed copy, for example `shop 1.0`.
    distribution: String,
    /// True if the copy has compiled modules, which the sources lack.
    has_compiled_modules: bool,
}

impl SourceCopy {
    pub(super) fn note(&self) -> String {
        let compiled = if self.has_compiled_modules {
            "; its compiled modules are not tested: install the project as editable (`pip install -e .`)"
        } else {
            ""
        };
        format!(
            "PYTHONPATH=src: the sources in `src` are tested, not the copy of {} that is installed in the environment{compiled}",
            self.distribution
        )
    }
}

/// Finds the copy, if there is one and the project has a `src` folder.
pub(super) fn find_source_copy(root: &Path, home: &PackageHome) -> Option<SourceCopy> {
    let packages = match home {
        PackageHome::Environment(folder) => site_packages(folder)?,
        PackageHome::Machine(folder) => folder.clone(),
        PackageHome::Managed(_) => return None,
    };
    let sources = root.join("src");
    let modules = importable_names(&sources);
    let copied: Vec<&String> = modules.iter().filter(|module| packages.join(module).exists()).collect();
    if copied.is_empty() {
        return None;
    }
    let project = project_name(root);
    let distribution = std::fs::read_dir(&packages).ok()?.flatten().find_map(|entry| {
        let place = entry.path();
        let stem = place.file_name()?.to_str()?.strip_suffix(".dist-info")?.to_owned();
        let (name, version) = stem.split_once('-')?;
        let is_it = match &project {
            Some(project) => normal_name(name) == normal_name(project),
            None => copied
                .iter()
                .any(|module| normal_name(module.trim_end_matches(".py")) == normal_name(name)),
        };
        (is_it && !is_editable(&place)).then(|| format!("{name} {version}"))
    })?;
    let has_compiled_modules = copied.iter().any(|module| has_compiled_module(&packages.join(module)));
    Some(SourceCopy {
        sources,
        distribution,
        has_compiled_modules,
    })
}

/// True if a package has a compiled module beside its other modules.
fn has_compiled_module(package: &Path) -> bool {
    let entries = std::fs::read_dir(package).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| Path::new(&name).extension().is_some_and(|ending| ending == "so"))
}

/// Path of the form `lib/python3.12/site-packages` in a virtual environment.
pub(in crate::imports) fn site_packages(folder: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(folder.join("lib")).ok()?.flatten();
    let mut places = libraries.map(|entry| entry.path().join("site-packages"));
    places.find(|place| place.is_dir())
}

/// File names of the packages and modules that a folder makes importable.
fn importable_names(sources: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(sources).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_module = name.ends_with(".py") || entry.path().join("__init__.py").is_file();
        is_module.then_some(name)
    };
    entries.filter_map(name).collect()
}

/// Name of the project, from a file that holds it as plain text.
fn project_name(root: &Path) -> Option<String> {
    let manifest = small_file(&root.join("pyproject.toml")).and_then(|text| text.parse::<toml::Table>().ok());
    let named = |table: Option<&toml::Value>| Some(table?.get("name")?.as_str()?.to_owned());
    let declared = manifest.as_ref().and_then(|manifest| {
        let poetry = || manifest.get("tool").and_then(|tools| tools.get("poetry"));
        named(manifest.get("project")).or_else(|| named(poetry()))
    });
    declared.or_else(|| {
        let text = small_file(&root.join("setup.cfg"))?;
        let section = text.split("[metadata]").nth(1)?;
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let mut pairs = lines.filter_map(|line| line.split_once('='));
        pairs
            .find(|(key, _)| key.trim() == "name")
            .map(|(_, name)| name.trim().to_owned())
    })
}

/// Normalises a project name: case, `-`, `_` and `.` do not matter.
fn normal_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn is_editable(place: &Path) -> bool {
    let origin = small_file(&place.join("direct_url.json"));
    let origin = origin.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    origin.is_some_and(|origin| origin["dir_info"]["editable"] == true)
}

#[cfg(test)]
mod unit {
    use super::*;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        for (path, text) in files {
            let place = folder.path().join(path);
            std::fs::create_dir_all(place.parent().expect("it has one")).expect("folders can be made");
            std::fs::write(place, text).expect("files can be written");
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Option<String> {
        let folder = project(files);
        let copy = find_source_copy(folder.path(), &PackageHome::Environment(folder.path().join(".venv")))?;
        assert_eq!(copy.sources, folder.path().join("src"));
        Some(copy.distribution)
    }

    const SOURCE: (&str, &str) = ("src/shop/__init__.py", "");
    const COPY: (&str, &str) = (".venv/lib/python3.12/site-packages/shop/__init__.py", "");
    const INFO: (&str, &str) = (".venv/lib/python3.12/site-packages/My_Shop-1.0.dist-info/METADATA", "");
    const NAME: (&str, &str) = ("pyproject.toml", "[project]\nname = \"my.shop\"\n");

    #[test]
    fn a_copy_that_is_installed_stands_before_the_sources() {
        assert_eq!(found(&[SOURCE, COPY, INFO, NAME]).as_deref(), Some("My_Shop 1.0"));
        let poetry = ("pyproject.toml", "[tool.poetry]\nname = \"my-shop\"\n");
        assert_eq!(found(&[SOURCE, COPY, INFO, poetry]).as_deref(), Some("My_Shop 1.0"));
        let setup = ("setup.cfg", "[options]\nx = 1\n[metadata]\nname = my_shop\n");
        assert_eq!(found(&[SOURCE, COPY, INFO, setup]).as_deref(), Some("My_Shop 1.0"));
        let unnamed = (".venv/lib/python3.12/site-packages/shop-2.dist-info/METADATA", "");
        assert_eq!(found(&[SOURCE, COPY, unnamed]).as_deref(), Some("shop 2"));
        let module = ("src/shop.py", "");
        let copied = (".venv/lib/python3.12/site-packages/shop.py", "");
        assert_eq!(found(&[module, copied, INFO, NAME]).as_deref(), Some("My_Shop 1.0"));
    }

    #[test]
    fn compiled_modules_that_the_sources_lack_are_said() {
        let compiled = (".venv/lib/python3.12/site-packages/shop/_speed.cpython-312.so", "");
        for (files, is_said) in [
            (vec![SOURCE, COPY, INFO, NAME, compiled], true),
            (vec![SOURCE, COPY, INFO, NAME], false),
        ] {
            let folder = project(&files);
            let copy = find_source_copy(folder.path(), &PackageHome::Environment(folder.path().join(".venv")))
                .expect("there is a copy");
            assert_eq!(copy.note().contains("pip install -e ."), is_said);
        }
    }

    #[test]
    fn everything_else_is_tested_as_it_is() {
        let editable = (
            ".venv/lib/python3.12/site-packages/My_Shop-1.0.dist-info/direct_url.json",
            r#"{"dir_info": {"editable": true}, "url": "file:///x"}"#,
        );
        assert_eq!(found(&[SOURCE, COPY, INFO, NAME, editable]), None);
        assert_eq!(found(&[SOURCE, INFO, NAME]), None, "there is no copy");
        assert_eq!(found(&[COPY, INFO, NAME]), None, "there is no `src`");
        let other = ("pyproject.toml", "[project]\nname = \"other\"\n");
        assert_eq!(
            found(&[SOURCE, COPY, INFO, other]),
            None,
            "it is another project's package"
        );
        assert_eq!(found(&[]), None);
    }
}
