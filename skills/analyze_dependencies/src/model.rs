//! The content of a manifest in any format.

/// Registry of a package name. Only names of the same ecosystem are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ecosystem {
    Python,
    Npm,
    Rust,
    Go,
    Ruby,
    Java,
    Php,
    Elixir,
    DotNet,
    /// C and C++: packages of CMake, Conan and vcpkg.
    Cpp,
    Helm,
    Terraform,
    Swift,
    Dart,
}

#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) path: String,
    /// Format for the heading, for example `npm` or `Python, PEP 621`.
    pub(crate) kind: String,
    pub(crate) ecosystem: Ecosystem,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// Other lines: the language's version, included files, locks.
    pub(crate) facts: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// A manifest that declares other dependencies of this one in the same way, and their number.
    pub(crate) repeats: Option<(String, usize)>,
    /// Problems with their lines; line 0 for the file as a whole.
    pub(crate) problems: Vec<(usize, String)>,
}

/// A dependency as a manifest declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Constraint as written, without white space; `*` for any version.
    pub(crate) constraint: String,
    /// `runtime`, `dev`, `test`, `build`, `peer`, `optional`, `extra:NAME`, `group:NAME` and so on.
    pub(crate) group: String,
    /// First and last line of the declaration, counted from 1.
    pub(crate) line: usize,
    pub(crate) last_line: usize,
    /// Version in a lock file.
    pub(crate) locked: Option<String>,
    /// Other conditions: a marker, a source, a feature.
    pub(crate) note: Option<String>,
}

impl Dependency {
    pub(crate) fn new(name: &str, constraint: &str, group: &str, line: usize) -> Self {
        let constraint = without_credentials(&constraint.split_whitespace().collect::<Vec<_>>().join(" "));
        Self {
            name: without_credentials(name),
            constraint: if constraint.is_empty() {
                "*".to_owned()
            } else {
                constraint
            },
            group: group.to_owned(),
            line,
            last_line: line,
            locked: None,
            note: None,
        }
    }

    /// Sets the last line of a longer declaration.
    pub(crate) fn until(mut self, last_line: usize) -> Self {
        self.last_line = last_line;
        self
    }

    /// Position in a manifest: `path:line` or `path:first-last`.
    pub(crate) fn place(&self, path: &str) -> String {
        let Self { line, last_line, .. } = self;
        if line == last_line {
            format!("{path}:{line}")
        } else {
            format!("{path}:{line}-{last_line}")
        }
    }

    pub(crate) fn note(mut self, note: Option<String>) -> Self {
        self.note = note.filter(|note| !note.is_empty());
        self
    }
}

impl Manifest {
    pub(crate) fn new(path: &str, kind: &str, ecosystem: Ecosystem) -> Self {
        Self {
            path: path.to_owned(),
            kind: kind.to_owned(),
            ecosystem,
            name: None,
            version: None,
            facts: Vec::new(),
            dependencies: Vec::new(),
            repeats: None,
            problems: Vec::new(),
        }
    }

    /// Adds a line, if there is a value.
    pub(crate) fn fact(&mut self, label: &str, value: Option<String>) {
        self.facts.extend(value.map(|value| format!("{label}: {value}")));
    }

    /// Adds an error at a line.
    pub(crate) fn problem(&mut self, line: usize, what: &str) {
        self.problems.push((line, what.to_owned()));
    }

    /// Directory of the manifest, with a `/` at its end; empty for the root.
    pub(crate) fn directory(&self) -> &str {
        directory_of(&self.path)
    }
}

/// Removes the name and password from a URL. Other text stays unchanged.
fn without_credentials(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        // `git@` in an ssh address is not a secret.
        Some(at) if &rest[..at] != "git" => format!("{before}://…{}", &rest[at..]),
        _ => text.to_owned(),
    }
}

/// Directory of a path, with a `/` at its end; empty for the root.
pub(crate) fn directory_of(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..=at])
}

/// Normalises a name, so that equal names of an ecosystem have the same form.
pub(crate) fn normal_name(ecosystem: Ecosystem, name: &str) -> String {
    match ecosystem {
        // PEP 503: case and the choice of `-`, `_` and `.` do not matter.
        Ecosystem::Python => {
            let mut normal = String::new();
            for c in name.chars() {
                match c {
                    '-' | '_' | '.' if normal.ends_with('-') => {}
                    '-' | '_' | '.' => normal.push('-'),
                    c => normal.extend(c.to_lowercase()),
                }
            }
            normal
        }
        Ecosystem::Rust => name.replace('_', "-"),
        Ecosystem::Php | Ecosystem::DotNet => name.to_lowercase(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out() {
        let of = |text: &str| Dependency::new("a", text, "runtime", 1).constraint;
        assert_eq!(
            of("git+https://user:secret@example.org/a@v1"),
            "git+https://…@example.org/a@v1"
        );
        assert_eq!(of("git+ssh://git@example.org/a"), "git+ssh://git@example.org/a");
        assert_eq!(of("@ https://example.org/a@1"), "@ https://example.org/a@1");
        assert_eq!(of(" >=1,  <2 "), ">=1, <2");
    }

    #[test]
    fn names_of_python_are_equal_whatever_joins_their_words() {
        assert_eq!(
            normal_name(Ecosystem::Python, "Zope.Interface"),
            normal_name(Ecosystem::Python, "zope__interface")
        );
        assert_ne!(normal_name(Ecosystem::Npm, "a.b"), normal_name(Ecosystem::Npm, "a-b"));
    }
}
