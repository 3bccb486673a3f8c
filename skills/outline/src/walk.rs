//! Walks over a tree without recursion, because the file decides how deep its tree is.

use std::num::NonZeroU16;

use tree_sitter::{Language, Node, Parser};

use crate::languages::{DefinitionCondition, DefinitionRule, Grammar};
use crate::{Definition, DefinitionKind, Imported, Outline, Span};

/// Limit for the symbols of a file. A file with more is data or generated, and each list takes memory of the host.
const ITEMS_MAX: usize = 10_000;

/// Limit for a name in bytes. Longer names are data.
const NAME_BYTES_MAX: usize = 128;

/// The enclosing node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnclosingNode {
    Nothing,
    Function,
    Type,
}

/// A node on the path from the root.
#[derive(Debug, Clone, Copy)]
struct WalkFrame {
    around: EnclosingNode,
    depth: usize,
}

/// Meaning of one kind of node in a grammar.
#[derive(Debug, Clone, Copy, Default)]
struct NodeRule {
    name: bool,
    over: bool,
    import: bool,
    a_type: bool,
    a_function: bool,
    define: Option<(&'static DefinitionRule, NonZeroU16)>,
}

/// The rules by the ids of the kinds.
fn rules_by_kind(language: &Language, grammar: &Grammar) -> Vec<NodeRule> {
    let count = language.node_kind_count() as u16;
    let rule = |id: u16| {
        let kind = language
            .node_kind_for_id(id)
            .filter(|_| language.node_kind_is_named(id))?;
        let define = grammar.defines.iter().find(|define| define.node == kind);
        Some(NodeRule {
            name: grammar.names.contains(&kind),
            over: grammar.over.contains(&kind),
            import: grammar.imports.contains(&kind),
            a_type: grammar.types.contains(&kind),
            a_function: grammar.functions.contains(&kind),
            define: define.and_then(|define| Some((define, language.field_id_for_name(define.field)?))),
        })
    };
    (0..count).map(|id| rule(id).unwrap_or_default()).collect()
}

/// Reads the outline of a file. Bytes that are not UTF-8 count as syntax errors. Returns `None` if this reader does
/// not support the grammar.
pub fn walk_outline(language: &Language, grammar: &Grammar, source: &[u8]) -> Option<Outline> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let tree = parser.parse(source, None)?;
    let mut walk = OutlineWalk {
        source,
        grammar,
        rules: rules_by_kind(language, grammar),
        outline: Outline::default(),
    };
    walk.run(tree.root_node());
    let outline = walk.finish();
    // An instance reads one file and is dropped as a whole. Freeing the tree first would take a tenth of the time.
    #[cfg(target_family = "wasm")]
    std::mem::forget((parser, tree));
    Some(outline)
}

struct OutlineWalk<'a> {
    source: &'a [u8],
    grammar: &'a Grammar,
    rules: Vec<NodeRule>,
    outline: Outline,
}

impl OutlineWalk<'_> {
    fn run(&mut self, root: Node<'_>) {
        let mut cursor = root.walk();
        let mut frames: Vec<WalkFrame> = vec![WalkFrame {
            around: EnclosingNode::Nothing,
            depth: 0,
        }];
        loop {
            let above = *frames.last().expect("the outermost frame is never taken");
            let entered = self.enter(cursor.node(), above);
            if let Some(frame) = entered
                && cursor.goto_first_child()
            {
                frames.push(frame);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                frames.pop();
            }
        }
    }

    /// Records a node. Returns a frame if its children are visited.
    fn enter(&mut self, node: Node<'_>, above: WalkFrame) -> Option<WalkFrame> {
        let rule = *self.rules.get(usize::from(node.kind_id()))?;
        if rule.over || rule.name && node.named_child_count() == 0 || rule.import && !self.import(node) {
            return None;
        }
        let mut frame = above;
        if rule.a_type {
            frame = frame_inside(frame, EnclosingNode::Type);
        }
        if rule.a_function {
            frame.around = EnclosingNode::Function;
        }
        if let Some((define, field)) = rule.define
            && let Some(kind) = self.define(node, define, field, above)
        {
            frame = match kind {
                DefinitionKind::Type => frame_inside(above, EnclosingNode::Type),
                DefinitionKind::Module => frame_inside(above, EnclosingNode::Nothing),
                DefinitionKind::Function | DefinitionKind::Method => frame_inside(above, EnclosingNode::Function),
                DefinitionKind::Value => frame,
            };
        }
        Some(frame)
    }

    /// Records a definition, if the node is one.
    fn define(
        &mut self,
        node: Node<'_>,
        define: &DefinitionRule,
        field: NonZeroU16,
        above: WalkFrame,
    ) -> Option<DefinitionKind> {
        let is_one = match define.when {
            DefinitionCondition::Always => true,
            DefinitionCondition::OutsideFunctions => {
                above.around != EnclosingNode::Function && !holds_module(node, self.source)
            }
            DefinitionCondition::HasBody => node.child_by_field_name("body").is_some(),
            DefinitionCondition::FunctionValue => node.child_by_field_name("value").is_some_and(is_function_value),
            DefinitionCondition::Exported => is_exported(node, self.source),
            DefinitionCondition::AssignedToModule => is_assigned_to_module(node, self.source),
        };
        if !is_one {
            return None;
        }
        let kind = match define.kind {
            DefinitionKind::Function if above.around == EnclosingNode::Type => DefinitionKind::Method,
            kind => kind,
        };
        let mut cursor = node.walk();
        let mut found = false;
        for name in node.children_by_field_id(field, &mut cursor) {
            let Some(name) = self.leaf(name, define) else { continue };
            found = true;
            self.outline.definitions.push(Definition {
                name: node_span(name),
                kind,
                line: name.start_position().row + 1,
                end_line: last_line(node),
                depth: above.depth,
            });
        }
        found.then_some(kind)
    }

    /// The name itself: of `a.b.c = …` the last part, of a type its base.
    fn leaf<'t>(&self, mut node: Node<'t>, define: &DefinitionRule) -> Option<Node<'t>> {
        if define.when == DefinitionCondition::Exported {
            node = node.child_by_field_name("property")?;
        }
        for _ in 0..4 {
            if self.rules.get(usize::from(node.kind_id()))?.name {
                return Some(node);
            }
            if node.kind() != "type" {
                return None;
            }
            node = node.named_child(0)?;
        }
        None
    }

    /// Records the imports of a statement. Returns true if its children are visited as well.
    fn import(&mut self, node: Node<'_>) -> bool {
        let before = self.outline.imports.len();
        let goes_on = (self.grammar.import)(node, self.source, &mut self.outline.imports);
        self.outline.imports.truncate(before.max(ITEMS_MAX));
        goes_on
    }

    fn finish(mut self) -> Outline {
        let fits = |span: &Span| span.end > span.start && span.end - span.start <= NAME_BYTES_MAX;
        self.outline.definitions.retain(|definition| fits(&definition.name));
        self.outline.definitions.truncate(ITEMS_MAX);
        self.outline
    }
}

fn frame_inside(frame: WalkFrame, around: EnclosingNode) -> WalkFrame {
    WalkFrame {
        around,
        depth: frame.depth + 1,
    }
}

pub(crate) fn node_span(node: Node<'_>) -> Span {
    Span {
        start: node.start_byte(),
        end: node.end_byte(),
    }
}

/// A body that ends with a line feed ends on the line before it.
pub(crate) fn last_line(node: Node<'_>) -> usize {
    let end = node.end_position();
    end.row + usize::from(end.column > 0 || end.row == node.start_position().row)
}

fn is_function_value(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "function_expression" | "arrow_function" | "generator_function" | "class"
    )
}

/// True for `exports.a = …`, `module.exports.a = …`, `A.prototype.a = …`, and functions that become part of an
/// object.
fn is_exported(node: Node<'_>, source: &[u8]) -> bool {
    let Some(left) = node
        .child_by_field_name("left")
        .filter(|left| left.kind() == "member_expression")
    else {
        return false;
    };
    let object = left
        .child_by_field_name("object")
        .map_or(&b""[..], |object| &source[object.byte_range()]);
    let takes = object == b"exports" || object == b"module.exports" || object.ends_with(b".prototype");
    takes || object != b"module" && node.child_by_field_name("right").is_some_and(is_function_value)
}

/// True for a variable that imports: `a = require("b")`, `a = require("b").c`, `a = await import("b")`.
fn holds_module(variable: Node<'_>, source: &[u8]) -> bool {
    let mut value = variable.child_by_field_name("value");
    while let Some(node) = value {
        value = match node.kind() {
            "member_expression" => node.child_by_field_name("object"),
            "await_expression" => node.named_child(0),
            "call_expression" => {
                let function = node.child_by_field_name("function");
                return function
                    .is_some_and(|function| matches!(&source[function.byte_range()], b"require" | b"import"));
            }
            _ => None,
        };
    }
    false
}

/// True for `module.exports = …`, whose value other files use under its own name.
fn is_assigned_to_module(node: Node<'_>, source: &[u8]) -> bool {
    let assignment = node.parent().filter(|above| above.kind() == "assignment_expression");
    let left = assignment.and_then(|above| above.child_by_field_name("left"));
    left.is_some_and(|left| &source[left.byte_range()] == b"module.exports")
}

/// Records an import with these parts.
pub(crate) fn import_of(parts: Vec<Span>, into: &mut Vec<Imported>) {
    into.push(Imported {
        parts,
        ..Imported::default()
    });
}
