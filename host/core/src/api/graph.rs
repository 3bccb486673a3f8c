//! A graph of modules and their imports, and its forms as text.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of POST /graph.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphRequest {
    /// Absolute path to the repository root.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
    /// Directory to draw; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Directory that the path is relative to before the root; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub working_directory: Option<String>,
    /// True draws the packages of a workspace instead of folders and files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub packages: bool,
}

/// Answer of POST /graph: modules and the imports between them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleGraph {
    /// The directory that is drawn, from the root; empty for the root.
    pub path: String,
    /// Modules: files, folders or packages, at most 25, by name.
    pub nodes: Vec<ModuleNode>,
    /// Imports from one module to another, at most 60, the strongest first.
    pub edges: Vec<ModuleEdge>,
    /// Edges that were left out because there are more than 60.
    pub edges_left_out: u64,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// A module of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleNode {
    /// Path of a file; of a folder, with `/` behind it; of a folder's further files, with `/*`; `(others)` for the rest.
    pub name: String,
    /// Source files.
    pub files: u64,
}

/// Imports from one module to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleEdge {
    /// Name of the importing module.
    pub from: String,
    /// Name of the imported module.
    pub to: String,
    /// Pairs of files of which one imports the other; 1 where only a package's manifest declares it.
    pub imports: u64,
}

impl ModuleGraph {
    /// The graph in Mermaid.
    pub fn mermaid(&self) -> String {
        let mut text = "graph LR\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "  n{at}[\"{}\"]", mermaid_label(&node.label()));
        }
        for (from, to, imports) in self.numbered_edges() {
            let _ = match imports {
                1 => writeln!(text, "  n{from} --> n{to}"),
                imports => writeln!(text, "  n{from} -->|{imports}| n{to}"),
            };
        }
        text
    }

    /// The graph in the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = "digraph modules {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "  n{at} [label=\"{}\"];", dot_label(&node.label()));
        }
        for (from, to, imports) in self.numbered_edges() {
            let _ = writeln!(text, "  n{from} -> n{to} [label=\"{imports}\"];");
        }
        text.push_str("}\n");
        text
    }

    /// Edges between known nodes, as indices of these nodes.
    fn numbered_edges(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let place = |name: &str| self.nodes.iter().position(|node| node.name == name);
        self.edges
            .iter()
            .filter_map(move |edge| Some((place(&edge.from)?, place(&edge.to)?, edge.imports)))
    }
}

impl ModuleNode {
    fn label(&self) -> String {
        match self.files {
            1 => self.name.clone(),
            files => format!("{} ({files} files)", self.name),
        }
    }
}

/// Escapes a text for the quotation marks of a Mermaid label: characters of its syntax and of HTML become entities.
pub(super) fn mermaid_label(text: &str) -> String {
    let mut label = String::new();
    for sign in text.chars() {
        match sign {
            '"' | '<' | '>' | '&' | '#' | ';' | '`' | '\\' => {
                let _ = write!(label, "#{};", u32::from(sign));
            }
            sign if sign.is_control() => label.push(char::REPLACEMENT_CHARACTER),
            sign => label.push(sign),
        }
    }
    label
}

/// Escapes a text for the quotation marks of a Graphviz label, which may contain entities of HTML.
pub(super) fn dot_label(text: &str) -> String {
    let mut label = String::new();
    for sign in text.chars() {
        match sign {
            '"' | '\\' => label.extend(['\\', sign]),
            '&' => label.push_str("&amp;"),
            sign if sign.is_control() => label.push(char::REPLACEMENT_CHARACTER),
            sign => label.push(sign),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> ModuleGraph {
        let node = |name: &str, files| ModuleNode {
            name: name.to_owned(),
            files,
        };
        let edge = |from: &str, to: &str, imports| ModuleEdge {
            from: from.to_owned(),
            to: to.to_owned(),
            imports,
        };
        ModuleGraph {
            nodes: vec![node("src/a.py", 1), node("src/b\"];x/", 3)],
            edges: vec![edge("src/a.py", "src/b\"];x/", 2), edge("src/b\"];x/", "src/a.py", 1)],
            ..ModuleGraph::default()
        }
    }

    #[test]
    fn a_name_cannot_end_its_label() {
        let expected =
            "graph LR\n  n0[\"src/a.py\"]\n  n1[\"src/b#34;]#59;x/ (3 files)\"]\n  n0 -->|2| n1\n  n1 --> n0\n";
        assert_eq!(graph().mermaid(), expected);
        let expected = "digraph modules {\n  rankdir=LR;\n  node [shape=box];\n  n0 [label=\"src/a.py\"];\n  \
                        n1 [label=\"src/b\\\"];x/ (3 files)\"];\n  n0 -> n1 [label=\"2\"];\n  n1 -> n0 [label=\"1\"];\n}\n";
        assert_eq!(graph().dot(), expected);
        assert_eq!(dot_label("a&lt;b\\.py"), "a&amp;lt;b\\\\.py");
    }
}
