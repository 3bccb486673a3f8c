//! Parses the projects of .NET, their central versions in `Directory.Packages.props`, and `packages.config`. Conditions
//! are not evaluated.

use std::collections::BTreeMap;

use crate::model::{Dependency, Ecosystem, Manifest, directory_of, normal_name};
use crate::properties::Properties;
use crate::xml::{XmlElement, read_elements};

/// Constraint of a package whose version `Directory.Packages.props` decides.
pub(crate) const CENTRAL: &str = "central";

/// Group of what the program needs when it runs.
const RUNTIME: &str = "runtime";

/// Group of the versions in `Directory.Packages.props`.
const CENTRAL_GROUP: &str = "central";

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, ".NET", Ecosystem::DotNet);
    let mut properties = Properties::default();
    let mut fields = BTreeMap::new();
    let outcome = read_elements(text, |element| match element.names() {
        ("", "Project") => {
            manifest.fact("SDK", element.attribute("Sdk").map(str::to_owned));
        }
        ("PropertyGroup", name) => properties.insert(name, &element.text),
        ("PackageReference" | "PackageVersion" | "GlobalPackageReference", name) => {
            fields.insert(name.to_owned(), element.text.clone());
        }
        ("ItemGroup" | "packages", _) => {
            manifest.dependencies.extend(parse_item(element, &fields));
            fields.clear();
        }
        _ => {}
    });
    if let Err((line, what)) = outcome {
        manifest.problem(line, &what);
    }
    let value = |name: &str| properties.get(name).map(str::to_owned);
    manifest.name = value("PackageId").or_else(|| value("AssemblyName"));
    manifest.version = value("Version");
    manifest.fact(
        "target framework",
        value("TargetFramework").or_else(|| value("TargetFrameworks")),
    );
    let is_test = manifest
        .dependencies
        .iter()
        .any(|one| one.name == "Microsoft.NET.Test.Sdk" && one.group == RUNTIME);
    for dependency in &mut manifest.dependencies {
        dependency.constraint = properties.expand(&dependency.constraint, "$(", ")").to_owned();
        if is_test && dependency.group == RUNTIME {
            dependency.group = "test".to_owned();
        }
    }
    manifest
}

/// The dependency of an item. `fields` are its child elements.
fn parse_item(element: &XmlElement<'_>, fields: &BTreeMap<String, String>) -> Option<Dependency> {
    let value = |name: &str| element.attribute(name).or_else(|| fields.get(name).map(String::as_str));
    let is_private = value("PrivateAssets").is_some_and(|assets| assets.eq_ignore_ascii_case("all"));
    let version = value("VersionOverride").or_else(|| value("Version"));
    let (name, version, group) = match element.names().1 {
        "PackageReference" => {
            let group = if is_private { "dev" } else { RUNTIME };
            (element.attribute("Include")?, version.unwrap_or(CENTRAL), group)
        }
        "PackageVersion" => (element.attribute("Include")?, version?, CENTRAL_GROUP),
        // Every project gets such a package, for its build only.
        "GlobalPackageReference" => (element.attribute("Include")?, version?, "dev"),
        "ProjectReference" => {
            let file = element.attribute("Include")?.rsplit(['/', '\\']).next()?;
            (file.rsplit_once('.').map_or(file, |(stem, _)| stem), "project", RUNTIME)
        }
        "package" => {
            let is_dev = element.attribute("developmentDependency") == Some("true");
            let group = if is_dev { "dev" } else { RUNTIME };
            (
                element.attribute("id")?,
                element.attribute("version").unwrap_or_default(),
                group,
            )
        }
        _ => return None,
    };
    Some(Dependency::new(name, version, group, element.line).until(element.last_line))
}

/// Takes the versions that a project leaves out from the nearest `Directory.Packages.props` above it.
pub(crate) fn resolve_central(manifests: &mut [Manifest]) {
    let mut declared: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    for manifest in manifests
        .iter()
        .filter(|manifest| manifest.ecosystem == Ecosystem::DotNet)
    {
        for dependency in manifest.dependencies.iter().filter(|one| one.group == CENTRAL_GROUP) {
            let key = (
                manifest.directory().to_owned(),
                normal_name(Ecosystem::DotNet, &dependency.name),
            );
            declared.insert(key, (dependency.constraint.clone(), dependency.place(&manifest.path)));
        }
    }
    for manifest in manifests
        .iter_mut()
        .filter(|manifest| manifest.ecosystem == Ecosystem::DotNet)
    {
        let directory = manifest.directory().to_owned();
        for dependency in manifest.dependencies.iter_mut().filter(|one| one.constraint == CENTRAL) {
            let name = normal_name(Ecosystem::DotNet, &dependency.name);
            let mut above = Some(directory.as_str());
            let found = std::iter::from_fn(|| {
                let folder = above?;
                above = (!folder.is_empty()).then(|| directory_of(folder.trim_end_matches('/')));
                Some(declared.get(&(folder.to_owned(), name.clone())))
            });
            if let Some((version, place)) = found.flatten().next() {
                dependency.constraint = version.clone();
                dependency.note = Some(format!("version: {place}"));
            }
        }
    }
}
