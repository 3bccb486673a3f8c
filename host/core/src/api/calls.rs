//! A graph of the callers and callees of a symbol, and its forms as text.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::graph::{dot_label, mermaid_label};

/// Body of POST /graph/calls.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallGraphRequest {
    /// Absolute path to the repository root.
    #[schema(pattern = "^/", examples("/home/me/project"))]
    pub repo_path: String,
    /// Name of a function, method or type, perhaps with its owner: `total`, `Cart.total`, `Cart::total`.
    #[schema(min_length = 1, examples("Cart.total"))]
    pub symbol: String,
    /// File or directory whose definitions of the name are drawn; default: the whole repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Directory that the path is relative to before the root; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub working_directory: Option<String>,
}

/// Answer of POST /graph/calls: the definitions of a name, and the definitions that call them or that they call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallGraph {
    /// The name as it was asked for.
    pub symbol: String,
    /// Definitions of the name; at most six are drawn.
    pub definitions: u64,
    /// At most 25, those of the name first.
    pub nodes: Vec<CallNode>,
    /// At most 60, the strongest first.
    pub edges: Vec<CallEdge>,
    /// Edges that were left out because there are more than 60.
    pub edges_left_out: u64,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Role of a node of a call graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallRole {
    /// A definition of the name.
    Symbol,
    /// It calls the symbol; it may also be called by it.
    Caller,
    /// The symbol calls it.
    Callee,
}

/// A definition, or several that are folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallNode {
    /// Name with its owner, `Cart.total`; `(top level)` for the code of a file outside of definitions; words for a folded
    /// node.
    pub name: String,
    /// Role of the node.
    pub role: CallRole,
    /// Path and line of the definition, or of the first call at the top level of a file; absent for a folded node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Definitions that this node stands for: 1 unless it is folded.
    pub definitions: u64,
}

/// Calls from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallEdge {
    /// Place of the calling node in `nodes`, from 0.
    pub from: u64,
    /// Place of the called node in `nodes`, from 0.
    pub to: u64,
    /// Calls; of a type, uses of any kind but imports.
    pub calls: u64,
    /// True where only the name tells that this definition is meant: it may be another one, also of a library.
    pub by_name_only: bool,
}

impl CallGraph {
    /// The graph in Mermaid. Edges that are matched by name only are dashed.
    pub fn mermaid(&self) -> String {
        let mut text = "graph LR\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let label = mermaid_label(&node.label());
            let _ = match (node.role, &node.path) {
                (CallRole::Symbol, _) => writeln!(text, "  n{at}[[\"{label}\"]]"),
                (_, Some(_)) => writeln!(text, "  n{at}[\"{label}\"]"),
                (_, None) => writeln!(text, "  n{at}([\"{label}\"])"),
            };
        }
        for edge in &self.edges {
            let arrow = if edge.by_name_only { "-.->" } else { "-->" };
            let count = if edge.calls == 1 {
                String::new()
            } else {
                format!("|{}|", edge.calls)
            };
            let _ = writeln!(text, "  n{} {arrow}{count} n{}", edge.from, edge.to);
        }
        text
    }

    /// The graph in the language of Graphviz. Edges that are matched by name only are dashed.
    pub fn dot(&self) -> String {
        let mut text = "digraph calls {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
        for (at, node) in self.nodes.iter().enumerate() {
            let style = match (node.role, &node.path) {
                (CallRole::Symbol, _) => " style=bold",
                (_, Some(_)) => "",
                (_, None) => " style=rounded",
            };
            let _ = writeln!(text, "  n{at} [label=\"{}\"{style}];", dot_label(&node.label()));
        }
        for edge in &self.edges {
            let style = if edge.by_name_only { " style=dashed" } else { "" };
            let _ = writeln!(
                text,
                "  n{} -> n{} [label=\"{}\"{style}];",
                edge.from, edge.to, edge.calls
            );
        }
        text.push_str("}\n");
        text
    }
}

impl CallNode {
    fn label(&self) -> String {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => format!("{} ({path}:{line})", self.name),
            _ => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_name_are_dashed_and_folded_nodes_are_round() {
        let node = |name: &str, role, line: Option<u64>, definitions| CallNode {
            name: name.to_owned(),
            role,
            path: line.map(|_| "a.py".to_owned()),
            line,
            definitions,
        };
        let edge = |from, to, calls, by_name_only| CallEdge {
            from,
            to,
            calls,
            by_name_only,
        };
        let graph = CallGraph {
            nodes: vec![
                node("Cart.total", CallRole::Symbol, Some(3), 1),
                node("\"];x", CallRole::Caller, Some(9), 1),
                node("4 more callees", CallRole::Callee, None, 4),
            ],
            edges: vec![edge(1, 0, 2, false), edge(0, 2, 1, true)],
            ..CallGraph::default()
        };
        let expected = "graph LR\n  n0[[\"Cart.total (a.py:3)\"]]\n  n1[\"#34;]#59;x (a.py:9)\"]\n  \
                        n2([\"4 more callees\"])\n  n1 -->|2| n0\n  n0 -.-> n2\n";
        assert_eq!(graph.mermaid(), expected);
        let expected = "digraph calls {\n  rankdir=LR;\n  node [shape=box];\n  \
                        n0 [label=\"Cart.total (a.py:3)\" style=bold];\n  n1 [label=\"\\\"];x (a.py:9)\"];\n  \
                        n2 [label=\"4 more callees\" style=rounded];\n  n1 -> n0 [label=\"2\"];\n  \
                        n0 -> n2 [label=\"1\" style=dashed];\n}\n";
        assert_eq!(graph.dot(), expected);
    }
}
