//! Names in import statements, by language. Each function returns whether the children of the node are visited as
//! well.

use tree_sitter::Node;

use crate::walk::{import_of, node_span};
use crate::{Imported, Span};

/// Limit for the paths of one `use`: nested lists multiply.
const USES_MAX: usize = 500;

pub(crate) fn python_imports(node: Node<'_>, source: &[u8], into: &mut Vec<Imported>) -> bool {
    let module = node.child_by_field_name("module_name");
    let (level, parts) = module.map_or((0, Vec::new()), |module| relative_module(module, source));
    let mut cursor = node.walk();
    let before = into.len();
    for name in node.children_by_field_name("name", &mut cursor) {
        // Without the local name.
        let name = name.child_by_field_name("name").unwrap_or(name);
        let import = match module {
            Some(_) => Imported {
                level,
                parts: parts.clone(),
                item: Some(node_span(name)),
                ..Imported::default()
            },
            None => Imported {
                parts: vec![node_span(name)],
                ..Imported::default()
            },
        };
        into.push(import);
    }
    if module.is_some() && into.len() == before {
        into.push(Imported {
            level,
            parts,
            ..Imported::default()
        });
    }
    false
}

/// The dots and the module of `from ..a.b import c`.
fn relative_module(module: Node<'_>, source: &[u8]) -> (usize, Vec<Span>) {
    if module.kind() != "relative_import" {
        return (0, vec![node_span(module)]);
    }
    let (mut level, mut parts) = (0, Vec::new());
    let mut cursor = module.walk();
    for child in module.named_children(&mut cursor) {
        match child.kind() {
            "import_prefix" => level = source[child.byte_range()].iter().filter(|byte| **byte == b'.').count(),
            _ => parts.push(node_span(child)),
        }
    }
    (level, parts)
}

/// `import … from "a"`, `export … from "a"`, `require("a")`, `import("a")`.
pub(crate) fn script_imports(node: Node<'_>, source: &[u8], into: &mut Vec<Imported>) -> bool {
    if node.kind() == "call_expression" {
        let function = node.child_by_field_name("function");
        let requires =
            function.is_some_and(|function| matches!(&source[function.byte_range()], b"require" | b"import"));
        let argument = node
            .child_by_field_name("arguments")
            .and_then(|arguments| arguments.named_child(0));
        if let Some(path) = argument.filter(|_| requires).and_then(string_literal) {
            import_of(vec![path], into);
        }
        return true;
    }
    let clause = || {
        let mut cursor = node.walk();
        let mut children = node.named_children(&mut cursor);
        children.find_map(|child| child.child_by_field_name("source"))
    };
    let path = node
        .child_by_field_name("source")
        .or_else(clause)
        .and_then(string_literal);
    if let Some(path) = path {
        import_of(vec![path], into);
    }
    // An export statement without a path may contain a definition.
    node.kind() == "export_statement" && path.is_none()
}

fn string_literal(node: Node<'_>) -> Option<Span> {
    let is_string = matches!(
        node.kind(),
        "string" | "interpreted_string_literal" | "raw_string_literal"
    );
    let span = node_span(node);
    (is_string && span.end >= span.start + 2).then_some(Span {
        start: span.start + 1,
        end: span.end - 1,
    })
}

pub(crate) fn go_imports(node: Node<'_>, _: &[u8], into: &mut Vec<Imported>) -> bool {
    if let Some(path) = node.child_by_field_name("path").and_then(string_literal) {
        import_of(vec![path], into);
    }
    false
}

pub(crate) fn java_imports(node: Node<'_>, _: &[u8], into: &mut Vec<Imported>) -> bool {
    let mut cursor = node.walk();
    let name = node
        .named_children(&mut cursor)
        .find(|child| matches!(child.kind(), "scoped_identifier" | "identifier"));
    if let Some(name) = name {
        import_of(vec![node_span(name)], into);
    }
    false
}

pub(crate) fn rust_imports(node: Node<'_>, _: &[u8], into: &mut Vec<Imported>) -> bool {
    match node.kind() {
        "mod_item" => {
            let is_elsewhere = node.child_by_field_name("body").is_none();
            if let Some(name) = node.child_by_field_name("name").filter(|_| is_elsewhere) {
                into.push(Imported {
                    declares_module: true,
                    parts: vec![node_span(name)],
                    ..Imported::default()
                });
            }
            !is_elsewhere
        }
        "extern_crate_declaration" => {
            if let Some(name) = node.child_by_field_name("name") {
                import_of(vec![node_span(name)], into);
            }
            false
        }
        _ => {
            if let Some(argument) = node.child_by_field_name("argument") {
                collect_use_paths(argument, into);
            }
            false
        }
    }
}

/// Every path of a `use`, with lists expanded.
fn collect_use_paths(argument: Node<'_>, into: &mut Vec<Imported>) {
    let most = into.len() + USES_MAX;
    let mut open = vec![(argument, Vec::new())];
    while let Some((node, mut parts)) = open.pop() {
        if into.len() >= most || open.len() >= USES_MAX {
            return;
        }
        match node.kind() {
            "scoped_use_list" => {
                parts.extend(node.child_by_field_name("path").map(node_span));
                if let Some(list) = node.child_by_field_name("list") {
                    open.push((list, parts));
                }
            }
            "use_list" => {
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.named_children(&mut cursor).take(USES_MAX).collect();
                open.extend(children.into_iter().rev().map(|child| (child, parts.clone())));
            }
            "use_as_clause" => open.extend(node.child_by_field_name("path").map(|path| (path, parts))),
            "use_wildcard" => open.extend(node.named_child(0).map(|path| (path, parts))),
            // `self` is the module of the list itself.
            "self" if !parts.is_empty() => import_of(parts, into),
            "crate" | "identifier" | "scoped_identifier" | "self" | "super" => {
                parts.push(node_span(node));
                import_of(parts, into);
            }
            _ => {}
        }
    }
}
