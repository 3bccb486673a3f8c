//! Parses `pom.xml`: the project's own dependencies, without `dependencyManagement`, plugins and profiles.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::model::{Dependency, Ecosystem, Manifest};

/// Limit for the depth of elements. Real files have ten levels.
const DEPTH_MAX: usize = 64;

/// Elements that name the project.
const PROJECT_FIELDS: [&str; 4] = [
    "project/artifactId",
    "project/version",
    "project/parent/artifactId",
    "project/parent/version",
];

/// Constraint of a dependency whose version a parent decides.
pub(crate) const MANAGED: &str = "managed";

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Maven", Ecosystem::Java);
    let mut pom = PomReader::default();
    if let Err((offset, what)) = pom.read(text) {
        manifest.problem(line_at(text, offset), &what);
    }
    let mut take = |path: &str| pom.fields.remove(path).filter(|value| !value.is_empty());
    manifest.name = take("project/artifactId");
    manifest.version = take("project/version").or_else(|| take("project/parent/version"));
    manifest.fact("parent", take("project/parent/artifactId"));
    manifest.dependencies = pom.dependencies.iter().filter_map(|one| one.declared(text)).collect();
    manifest
}

/// A `<dependency>` of the project.
#[derive(Default)]
struct PomDependency {
    /// Texts of its elements; keys begin with a slash.
    fields: BTreeMap<String, String>,
    start: usize,
    end: usize,
}

impl PomDependency {
    fn declared(&self, text: &str) -> Option<Dependency> {
        let field = |name: &str| {
            self.fields
                .get(&format!("/{name}"))
                .map(String::as_str)
                .filter(|value| !value.is_empty())
        };
        let name = format!("{}:{}", field("groupId")?, field("artifactId")?);
        let group = match field("scope") {
            Some("test") => "test",
            Some("provided" | "system") => "build",
            _ if field("optional") == Some("true") => "optional",
            _ => "runtime",
        };
        let dependency = Dependency::new(
            &name,
            field("version").unwrap_or(MANAGED),
            group,
            line_at(text, self.start),
        );
        Some(dependency.until(line_at(text, self.end)))
    }
}

#[derive(Default)]
struct PomReader {
    /// Names of the open elements, joined by slashes.
    path: String,
    /// Texts of the elements in [`PROJECT_FIELDS`].
    fields: BTreeMap<String, String>,
    dependencies: Vec<PomDependency>,
}

impl PomReader {
    /// Reads the elements. An error has an offset and a message; everything before it is kept.
    fn read(&mut self, text: &str) -> Result<(), (usize, String)> {
        const DEPENDENCY: &str = "project/dependencies/dependency";
        let mut reader = Reader::from_str(text);
        loop {
            let start = reader.buffer_position() as usize;
            let event = reader.read_event().map_err(|error| (start, error.to_string()))?;
            let end = reader.buffer_position() as usize;
            match event {
                Event::Eof if self.path.is_empty() => return Ok(()),
                Event::Eof => return Err((start, format!("`{}` is not closed", self.path))),
                Event::Start(element) => {
                    if self.path.matches('/').count() >= DEPTH_MAX {
                        return Err((start, "elements are nested too deeply".to_owned()));
                    }
                    if !self.path.is_empty() {
                        self.path.push('/');
                    }
                    self.path.push_str(element.local_name().as_ref());
                    if self.path == DEPENDENCY {
                        self.dependencies.push(PomDependency {
                            start,
                            ..PomDependency::default()
                        });
                    }
                }
                Event::End(_) => {
                    if let (DEPENDENCY, Some(last)) = (self.path.as_str(), self.dependencies.last_mut()) {
                        last.end = end;
                    }
                    self.path.truncate(self.path.rfind('/').unwrap_or(0));
                }
                Event::Text(piece) => {
                    let fields = match self.path.strip_prefix(DEPENDENCY) {
                        Some(field) => self.dependencies.last_mut().map(|last| (&mut last.fields, field)),
                        None => PROJECT_FIELDS
                            .contains(&self.path.as_str())
                            .then_some((&mut self.fields, self.path.as_str())),
                    };
                    if let Some((fields, name)) = fields {
                        fields.entry(name.to_owned()).or_default().push_str(piece.trim());
                    }
                }
                _ => {}
            }
        }
    }
}

/// The line of an offset, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
