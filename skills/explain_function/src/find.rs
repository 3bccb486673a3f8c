//! Finds definitions by a bare or dotted name, and explains why there is none.

use std::collections::BTreeSet;
use std::fs;

use skill_details::NotSearched;
use skill_sdk::{Entry, Failure, Host, Query};
use syntax::{Definition, DefinitionKind, Fault, Module, names};

use crate::FAULTS_MAX;

/// Limit for the base classes that are searched for a method.
const BASES_MAX: usize = 12;
/// Limit for similar names in a hint.
const SIMILAR_MAX: usize = 5;

/// The definitions of one qualified name in one file.
pub(crate) struct FoundDefinitions {
    pub(crate) path: String,
    /// Several for a property with its setter, for overloads, and for branches.
    pub(crate) definitions: Vec<Definition>,
    /// All definitions of the file.
    pub(crate) all: Vec<Definition>,
    /// Syntax errors of the file.
    pub(crate) faults: Vec<Fault>,
}

impl FoundDefinitions {
    /// The qualified name with its module.
    pub(crate) fn full_name(&self, definition: &Definition) -> String {
        full_name(&self.path, definition)
    }

    /// Lists the definitions directly inside a definition.
    pub(crate) fn inside<'a>(&'a self, outer: &'a Definition) -> impl Iterator<Item = &'a Definition> {
        self.all
            .iter()
            .filter(|inner| inner.parent.is_some_and(|at| self.all[at].range == outer.range))
    }
}

/// Results of a search.
#[derive(Default)]
pub(crate) struct DefinitionSearch {
    pub(crate) found: Vec<FoundDefinitions>,
    /// Places with a definition in files that do not parse.
    broken: Vec<String>,
    /// Files that are too large or too deeply nested to parse.
    unparsed: Vec<String>,
    /// Note that the answer is about something other than the request.
    note: Option<String>,
}

impl DefinitionSearch {
    /// Searches for a name; if a class lacks the method, also in its bases.
    pub(crate) fn find_name(host: &dyn Host, name: &str, under: &str) -> Result<Self, Failure> {
        let files = python_files(host, under)?;
        let mut search = Self::default();
        search.look(host, &files, name)?;
        if search.found.is_empty() {
            search.look_in_bases(host, &files, name)?;
        }
        search.drop_stubs();
        Ok(search)
    }

    /// Adds notes about files that could not be searched.
    pub(crate) fn add_notes(&self, text: &mut String) {
        if let Some(note) = &self.note {
            text.push_str(&format!("note: {note}\n"));
        }
        if !self.broken.is_empty() {
            text.push_str(&format!(
                "note: also spelled out where the file does not parse: {}\n",
                self.broken.join(", ")
            ));
        }
        if !self.unparsed.is_empty() {
            text.push_str(&format!(
                "note: too large or too deeply nested to parse, not searched: {}\n",
                self.unparsed.join(", ")
            ));
        }
    }

    fn look(&mut self, host: &dyn Host, files: &[Entry], name: &str) -> Result<(), Failure> {
        let last = last_segment(name);
        let mut near = Vec::new();
        for file in files {
            // A file that is gone or may not be opened must not prevent an answer about the others.
            let Ok(source) = read_content(host, &file.path) else {
                continue;
            };
            let hits: Vec<usize> = names::definition_hits(&source, last).collect();
            if hits.is_empty() {
                continue;
            }
            let Some(module) = Module::parse(&source) else {
                self.unparsed.push(file.path.clone());
                continue;
            };
            self.look_in(&file.path, &module, &hits, name, &mut near);
        }
        if self.found.is_empty() {
            self.found = near;
        }
        Ok(())
    }

    fn look_in(
        &mut self,
        path: &str,
        module: &Module<'_>,
        hits: &[usize],
        name: &str,
        near: &mut Vec<FoundDefinitions>,
    ) {
        let all = module.definitions();
        let faults = module.faults(FAULTS_MAX);
        if !faults.is_empty() {
            let lines: BTreeSet<usize> = all.iter().map(|definition| definition.line).collect();
            let unseen = hits
                .iter()
                // The name may be in a string or a comment.
                .filter(|&&at| module.is_identifier_at(at))
                .map(|&at| names::line_of(module.source(), at))
                .filter(|line| !lines.contains(line));
            self.broken.extend(unseen.map(|line| format!("{path}:{line}")));
        }
        let mut qualified: Vec<&str> = Vec::new();
        let named = all.iter().filter(|definition| definition.name == last_segment(name));
        for definition in named {
            if !qualified.contains(&definition.qualified.as_str()) {
                qualified.push(&definition.qualified);
            }
        }
        for qualified in qualified {
            let definitions: Vec<Definition> = all
                .iter()
                .filter(|definition| definition.qualified == qualified)
                .cloned()
                .collect();
            let full = full_name(path, &definitions[0]);
            let found = FoundDefinitions {
                path: path.to_owned(),
                definitions,
                all: all.clone(),
                faults: faults.clone(),
            };
            if names::ends_with(&full, name) {
                self.found.push(found);
            } else if is_subsequence(name, &full) {
                // `requests.get` is defined in `requests/api.py`, and the package exports it.
                near.push(found);
            }
        }
    }

    fn look_in_bases(&mut self, host: &dyn Host, files: &[Entry], name: &str) -> Result<(), Failure> {
        let Some((class, method)) = name.rsplit_once('.') else {
            return Ok(());
        };
        let mut waiting = vec![class.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(class) = waiting.pop() {
            if seen.len() >= BASES_MAX || !seen.insert(class.clone()) {
                continue;
            }
            let mut classes = Self::default();
            classes.look(host, files, &class)?;
            for found in &classes.found {
                for definition in found.definitions.iter().filter(|one| one.kind == DefinitionKind::Class) {
                    // In reverse, so that the first base is searched next.
                    waiting.extend(definition.bases.iter().rev().filter_map(|base| base_name(base)));
                }
            }
            if seen.len() > 1 {
                self.look(host, files, &format!("{class}.{method}"))?;
            }
            if !self.found.is_empty() {
                self.note = Some(format!("`{name}` is inherited: `{class}` defines it"));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes a stub beside its source, which says nothing more.
    fn drop_stubs(&mut self) {
        let sources: BTreeSet<(String, String)> = self
            .found
            .iter()
            .filter(|found| found.path.ends_with(".py"))
            .map(|found| (found.path.clone(), found.definitions[0].qualified.clone()))
            .collect();
        self.found.retain(|found| {
            let source = found.path.strip_suffix('i').unwrap_or_default().to_owned();
            !(found.path.ends_with(".pyi") && sources.contains(&(source, found.definitions[0].qualified.clone())))
        });
    }
}

/// The failure for a name without a definition, with similar names.
pub(crate) fn not_found(host: &dyn Host, name: &str, under: &str, search: &DefinitionSearch) -> Failure {
    let place = if under.is_empty() {
        "the repository".to_owned()
    } else {
        format!("`{under}`")
    };
    if !search.broken.is_empty() {
        let places = search.broken.join(", ");
        return Failure::failed(format!("`{name}` is defined where the file does not parse: {places}"))
            .with_hint("use read_file from that line on");
    }
    let mut message = format!("no function, method or class `{name}` is defined in {place}");
    if let Ok(counted) = host.count_not_listed(under) {
        let mut not_searched = NotSearched::default();
        not_searched.add_not_listed(
            (counted.skipped, counted.skipped_named),
            [counted.ignored, counted.not_utf8, counted.not_on_disk],
        );
        if !not_searched.is_nothing() {
            message.push_str(&format!("; not searched: {}", not_searched.not_listed().join(", ")));
        }
    }
    let failure = Failure::not_found(message);
    let similar = similar_names(host, last_segment(name), under);
    if similar.is_empty() {
        failure.with_hint("use find_references or search_code; the name may be imported from an installed package")
    } else {
        failure.with_hint(format!("similar names: {}", similar.join(", ")))
    }
}

fn similar_names(host: &dyn Host, name: &str, under: &str) -> Vec<String> {
    let wanted = plain_name(name);
    let mut similar = Vec::new();
    for file in python_files(host, under).unwrap_or_default() {
        let Ok(source) = read_content(host, &file.path) else {
            continue;
        };
        for (at, line) in source.split(|&byte| byte == b'\n').enumerate() {
            let Some(defined) = defined_name(line) else {
                continue;
            };
            let found = plain_name(&defined);
            let close = found == wanted
                || (wanted.len() > 3 && found.len() > 3) && (found.contains(&wanted) || wanted.contains(&found));
            if close {
                similar.push(format!("`{defined}` ({}:{})", file.path, at + 1));
            }
            if similar.len() >= SIMILAR_MAX {
                return similar;
            }
        }
    }
    similar
}

/// The name in a line that begins with `def` or `class`.
fn defined_name(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"async ").unwrap_or(line);
    let rest = line.strip_prefix(b"def ").or_else(|| line.strip_prefix(b"class "))?;
    let end = rest
        .iter()
        .position(|&byte| !names::is_word_byte(byte))
        .unwrap_or(rest.len());
    (end > 0).then(|| String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn plain_name(name: &str) -> String {
    name.chars().filter(|&c| c != '_').collect::<String>().to_lowercase()
}

/// The Python files beneath a path, which may be a file.
pub(crate) fn python_files(host: &dyn Host, under: &str) -> Result<Vec<Entry>, Failure> {
    if !under.is_empty() {
        let (_, metadata) = host.locate(under)?;
        if metadata.is_file() && !names::is_python(under) {
            return Ok(Vec::new());
        }
    }
    host.list(&Query {
        under: under.to_owned(),
        recursive: true,
        globs: names::PYTHON_GLOBS.map(str::to_owned).to_vec(),
        after: None,
    })
}

pub(crate) fn read_content(host: &dyn Host, path: &str) -> Result<Vec<u8>, Failure> {
    fs::read(host.path(path)?).map_err(|error| Failure::io(path, &error))
}

fn full_name(path: &str, definition: &Definition) -> String {
    let module = names::module_of(path);
    if module.is_empty() {
        definition.qualified.clone()
    } else {
        format!("{module}.{}", definition.qualified)
    }
}

pub(crate) fn last_segment(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The dotted name of a base, without type arguments; `None` for keywords and calls.
pub(crate) fn base_name(base: &str) -> Option<String> {
    let name = base.split('[').next().unwrap_or(base).trim();
    name.split('.')
        .all(names::is_identifier)
        .then(|| last_segment(name).to_owned())
}

/// True if the segments of `name` occur in `full` in this order, the last one at the end.
fn is_subsequence(name: &str, full: &str) -> bool {
    let mut wanted = name.rsplit('.').peekable();
    let mut segments = full.rsplit('.');
    if segments.next() != wanted.next() {
        return false;
    }
    for segment in segments {
        if wanted.peek() == Some(&segment) {
            wanted.next();
        }
    }
    wanted.next().is_none()
}
