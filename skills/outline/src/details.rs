//! Walks over a tree with a language's patterns, and collects definitions with their surroundings, uses, and imports.

use tree_sitter::{Language, Node, Parser};

use crate::query::{Pattern, PatternEffect, Patterns, ScopeKind, VisitedNode};
use crate::walk::{last_line, node_span};
use crate::{Definition, DefinitionKind, Detailed, DetailedDefinition, Imported, Outline, Span, Use};

/// Limit for the definitions of a file, and for its imports. A file with more is data or generated.
const ITEMS_MAX: usize = 10_000;

/// Limit for the uses in a file.
const USES_MAX: usize = 50_000;

/// Limit for a name in bytes. Longer names are data.
const NAME_BYTES_MAX: usize = 128;

/// Limit for the enclosing definitions of a definition.
const CONTAINERS_MAX: usize = 16;

/// Depth of a tree up to which names count. Deeper code is generated.
const DEPTH_MAX: usize = 2_000;

/// A definition or a scope that the walk found.
struct FoundNode {
    /// `None` for a scope without a name.
    name: Option<Span>,
    line: usize,
    kind: FoundKind,
    /// Offsets of the whole definition in bytes.
    start: usize,
    end: usize,
    first_line: usize,
    end_line: usize,
    comment_line: Option<usize>,
    signature: Span,
    owner: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundKind {
    Definition(DefinitionKind),
    Scope(ScopeKind),
}

/// An enclosing definition or scope.
struct Surrounding {
    end: usize,
    name: Option<Span>,
    kind: FoundKind,
}

/// Reads the definitions of a file and its uses of `name`, or of every name. Returns `None` if the patterns do not
/// fit the grammar.
pub fn read_details(language: &Language, patterns: &str, source: &[u8], name: Option<&str>) -> Option<Detailed> {
    let (definitions, uses, _) = read_all(language, patterns, source, name)?;
    Some(Detailed { definitions, uses })
}

/// Reads only definitions and imports.
pub fn read_outline(language: &Language, patterns: &str, source: &[u8]) -> Option<Outline> {
    let (definitions, _, imports) = read_all(language, patterns, source, Some(""))?;
    Some(Outline {
        definitions: definitions.into_iter().map(|detailed| detailed.definition).collect(),
        imports,
    })
}

type All = (Vec<DetailedDefinition>, Vec<Use>, Vec<Imported>);

fn read_all(language: &Language, patterns: &str, source: &[u8], name: Option<&str>) -> Option<All> {
    let patterns = Patterns::parse_patterns(patterns, language).ok()?;
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let tree = parser.parse(source, None)?;
    let mut walk = DetailsWalk {
        source,
        patterns: &patterns,
        name: name.map(str::as_bytes),
        found: Vec::new(),
        owners: Vec::new(),
        uses: Vec::new(),
        imports: Vec::new(),
    };
    walk.run(tree.root_node());
    let all = walk.finish();
    // An instance reads one file and is dropped as a whole. Freeing the tree first would take a tenth of the time.
    #[cfg(target_family = "wasm")]
    std::mem::forget((parser, tree));
    Some(all)
}

struct DetailsWalk<'a> {
    source: &'a [u8],
    patterns: &'a Patterns,
    name: Option<&'a [u8]>,
    found: Vec<FoundNode>,
    /// Ranges of bytes and the names that own them.
    owners: Vec<(usize, usize, Span)>,
    uses: Vec<Use>,
    imports: Vec<Imported>,
}

impl DetailsWalk<'_> {
    fn run(&mut self, root: Node<'_>) {
        let mut cursor = root.walk();
        let mut path = vec![VisitedNode {
            node: root,
            field: None,
        }];
        loop {
            self.visit(&path);
            if path.len() < DEPTH_MAX && cursor.goto_first_child() {
                path.push(VisitedNode {
                    node: cursor.node(),
                    field: cursor.field_id(),
                });
                continue;
            }
            loop {
                path.pop();
                if cursor.goto_next_sibling() {
                    path.push(VisitedNode {
                        node: cursor.node(),
                        field: cursor.field_id(),
                    });
                    break;
                }
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    /// Tries the patterns for the last node of the path. After scopes, owners and imports, other patterns are tried
    /// as well.
    fn visit(&mut self, path: &[VisitedNode<'_>]) {
        let Some(visited) = path.last() else { return };
        let (node, patterns) = (visited.node, self.patterns);
        for pattern in patterns.ending_in(node) {
            let Some(outer) = pattern.find(path, self.source) else {
                continue;
            };
            if self.take(pattern, node, outer, path) {
                return;
            }
        }
    }

    /// Records a matching pattern. Returns true if no other pattern may match.
    fn take(&mut self, pattern: &Pattern, node: Node<'_>, outer: Node<'_>, path: &[VisitedNode<'_>]) -> bool {
        match pattern.capture {
            PatternEffect::Definition(kind) => {
                if self.found.len() < ITEMS_MAX {
                    let found = self.find(FoundKind::Definition(kind), Some(node), outer, path);
                    self.found.push(found);
                }
                true
            }
            PatternEffect::Reference(kind) => {
                let Span { start, end } = self.name_span(node);
                let name = &self.source[start..end];
                let is_wanted = self.name.is_none_or(|wanted| wanted == name);
                if is_wanted && !name.is_empty() && name.len() <= NAME_BYTES_MAX && self.uses.len() < USES_MAX {
                    self.uses.push(Use {
                        name: self.name_span(node),
                        kind,
                        line: node.start_position().row + 1,
                    });
                }
                true
            }
            PatternEffect::Scope(kind) => {
                if self.found.len() < ITEMS_MAX {
                    let name = (node.id() != outer.id()).then_some(node);
                    let found = self.find(FoundKind::Scope(kind), name, outer, path);
                    self.found.push(found);
                }
                false
            }
            PatternEffect::Owner => {
                self.owners
                    .push((outer.start_byte(), outer.end_byte(), node_span(node)));
                false
            }
            PatternEffect::Import => {
                if self.imports.len() < ITEMS_MAX {
                    self.imports.push(Imported {
                        parts: vec![node_span(node)],
                        ..Imported::default()
                    });
                }
                false
            }
        }
    }

    fn find(&self, kind: FoundKind, name: Option<Node<'_>>, outer: Node<'_>, path: &[VisitedNode<'_>]) -> FoundNode {
        let at = path
            .iter()
            .position(|visited| visited.node.id() == outer.id())
            .unwrap_or(0);
        let inner = &path[at..];
        let body = inner
            .iter()
            .find_map(|visited| self.body(visited.node).map(|body| (visited.node, body)));
        let head = body.map_or(outer, |(node, _)| node);
        let head_end = body.map_or(outer.end_byte(), |(_, body)| body.start_byte());
        // Decorators and templates around a definition belong to it.
        let wrappers = path[..at]
            .iter()
            .rev()
            .take_while(|above| self.patterns.is_wrapper(above.node));
        let whole = wrappers.last().map_or(outer, |visited| visited.node);
        let (first_line, comment_line) = self.before(whole);
        FoundNode {
            name: name.map(|name| self.name_span(name)),
            line: name.unwrap_or(outer).start_position().row + 1,
            kind,
            start: outer.start_byte(),
            end: outer.end_byte(),
            first_line,
            end_line: last_line(whole),
            comment_line,
            signature: self.signature(head.start_byte(), head_end, body.is_some()),
            owner: None,
        }
    }

    /// The name without the sigil of a symbol or a variable (Ruby).
    fn name_span(&self, node: Node<'_>) -> Span {
        let Span { start, end } = node_span(node);
        let signs = self.source[start..end]
            .iter()
            .take_while(|byte| matches!(byte, b':' | b'@'));
        Span {
            start: start + signs.count(),
            end,
        }
    }

    /// The child that ends a signature: the body, or a comment before it.
    fn body<'t>(&self, node: Node<'t>) -> Option<Node<'t>> {
        let field = node.child_by_field_name("body");
        let mut cursor = node.walk();
        let body = field.or_else(|| {
            node.named_children(&mut cursor)
                .find(|child| self.patterns.is_body(*child))
        })?;
        let comment = node
            .named_children(&mut cursor)
            .find(|child| self.patterns.is_comment(*child));
        comment
            .filter(|comment| comment.end_byte() <= body.start_byte())
            .or(Some(body))
    }

    /// First lines of the attributes and of the comment directly before a node.
    fn before(&self, whole: Node<'_>) -> (usize, Option<usize>) {
        let (mut first_line, mut comment_line) = (whole.start_position().row + 1, None);
        let mut top = first_line;
        // The comment of the first definition in a body may be before the body.
        let above = || {
            whole
                .parent()
                .filter(|parent| self.patterns.is_body(*parent))?
                .prev_sibling()
        };
        let mut sibling = whole.prev_sibling().or_else(above);
        while let Some(before) = sibling {
            if last_line(before) + 1 < top {
                break;
            }
            let line = before.start_position().row + 1;
            // A comment at the end of the previous line belongs to that line.
            let is_alone = before.prev_sibling().is_none_or(|other| last_line(other) < line);
            if self.patterns.is_attribute(before) {
                first_line = line;
            } else if self.patterns.is_comment(before) && is_alone {
                comment_line = Some(line);
            } else {
                break;
            }
            top = line;
            sibling = before.prev_sibling();
        }
        // Comments between attributes are inside of the definition.
        (first_line, comment_line.filter(|line| *line < first_line))
    }

    /// The head without the token that opens the body. Without a body, its first line.
    fn signature(&self, start: usize, end: usize, has_body: bool) -> Span {
        let head = &self.source[start..end.max(start)];
        let line = head.iter().position(|byte| *byte == b'\n').filter(|_| !has_body);
        let head = &head[..line.unwrap_or(head.len())];
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b':' | b'=' | b';' | b',');
        let rest = head.iter().rev().take_while(|byte| is_end(byte)).count();
        Span {
            start,
            end: start + head.len() - rest,
        }
    }

    /// Finds the enclosing definitions of each definition.
    fn finish(self) -> All {
        let Self {
            mut found,
            owners,
            uses,
            imports,
            ..
        } = self;
        for (start, end, owner) in owners {
            let owned = found.iter_mut().filter(|one| (one.start, one.end) == (start, end));
            owned.for_each(|one| one.owner = Some(owner));
        }
        found.sort_by_key(|one| (one.start, usize::MAX - one.end));
        let mut around: Vec<Surrounding> = Vec::new();
        let mut definitions = Vec::new();
        for one in found {
            while around.last().is_some_and(|last| one.start >= last.end) {
                around.pop();
            }
            let inside = around.last().map(|last| last.kind);
            if let FoundKind::Definition(kind) = one.kind {
                definitions.extend(detail_definition(kind, &one, inside, &around));
            }
            // One place may have several names: `a, b = 1, 2`.
            if one.kind != FoundKind::Definition(DefinitionKind::Value) {
                around.push(Surrounding {
                    end: one.end,
                    name: one.name,
                    kind: one.kind,
                });
            }
        }
        let fits = |detailed: &DetailedDefinition| {
            let Span { start, end } = detailed.definition.name;
            end > start && end - start <= NAME_BYTES_MAX
        };
        definitions.retain(fits);
        (definitions, uses, imports)
    }
}

/// A definition with its surroundings; `None` for variables in functions, which other code cannot use.
fn detail_definition(
    kind: DefinitionKind,
    one: &FoundNode,
    inside: Option<FoundKind>,
    around: &[Surrounding],
) -> Option<DetailedDefinition> {
    let is_type = |kind| {
        matches!(
            kind,
            FoundKind::Definition(DefinitionKind::Type) | FoundKind::Scope(ScopeKind::Type)
        )
    };
    let is_function = |kind| {
        matches!(
            kind,
            FoundKind::Definition(DefinitionKind::Function | DefinitionKind::Method)
                | FoundKind::Scope(ScopeKind::Function)
        )
    };
    if kind == DefinitionKind::Value && around.iter().any(|outer| is_function(outer.kind)) {
        return None;
    }
    let is_method = kind == DefinitionKind::Function && (one.owner.is_some() || inside.is_some_and(is_type));
    let mut containers: Vec<Span> = around.iter().filter_map(|outer| outer.name).collect();
    containers.extend(one.owner);
    let skipped = containers.len().saturating_sub(CONTAINERS_MAX);
    containers.drain(..skipped);
    Some(DetailedDefinition {
        definition: Definition {
            name: one.name?,
            kind: if is_method { DefinitionKind::Method } else { kind },
            line: one.line,
            end_line: one.end_line.max(one.line),
            depth: around.len(),
        },
        first_line: one.first_line.min(one.line),
        comment_line: one.comment_line,
        signature: one.signature,
        containers,
    })
}

/// Checks a file of patterns.
///
/// # Errors
///
/// The first mistake.
pub fn check_patterns(language: &Language, patterns: &str) -> Result<(), String> {
    Patterns::parse_patterns(patterns, language).map(drop)
}
