//! Patterns over syntax trees, in the form of a grammar's `tags.scm`.
//!
//! A pattern names the nodes from an outer one down to a name: `(call function: (identifier) @name) @reference.call`. The
//! walk looks at patterns from the name upwards, so that each name costs a few comparisons, and the first pattern of the
//! file that fits decides. The form is a part of tree-sitter's: named nodes, fields, `_`, `!field`, the anchor `.`, and the
//! predicate `#any-of?`. Tree-sitter's own engine takes longer to compile a query than most files take to parse, and each
//! file is read in a fresh instance.
//!
//! Captures on the outermost node: `definition.KIND` (`function`, `method`, `type`, `value`, `module`), `reference.KIND`
//! (`call`, `import`, `attribute`, `type`, `name`), `scope.function` and `scope.type` (an outer thing that is no definition
//! itself), `owner` (the name is the type to which the outermost node belongs), `import` (the name is what the file
//! imports). On a single node: `comment`, `attribute` (stands before a definition), `wrapper` (belongs to the definition in
//! it), `body` (ends a signature).

use std::collections::HashMap;
use std::num::NonZeroU16;

use tree_sitter::{Language, Node};

use crate::{DefinitionKind, UseKind};

/// Meaning of a matching pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternEffect {
    Definition(DefinitionKind),
    Reference(UseKind),
    Scope(ScopeKind),
    Owner,
    Import,
}

/// Kind of an enclosing node that is not a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Function,
    Type,
}

/// A node of a pattern, below another.
#[derive(Debug, Clone, Default)]
struct PatternStep {
    /// Ids of the kind: a grammar may have several with one name. `None` for `_`.
    kinds: Option<Vec<u16>>,
    /// Field of this node in its parent.
    field: Option<NonZeroU16>,
    is_first: bool,
    is_last: bool,
    /// Other children that this node must have: field, kind, and allowed texts.
    beside: Vec<SiblingMatch>,
    /// Fields that this node must not have.
    absent: Vec<NonZeroU16>,
}

#[derive(Debug, Clone, Default)]
struct SiblingMatch {
    field: Option<NonZeroU16>,
    kinds: Option<Vec<u16>>,
    capture: Option<String>,
    texts: Vec<String>,
    beside: Vec<SiblingMatch>,
}

/// A pattern: its nodes from the name upwards.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    steps: Vec<PatternStep>,
    /// Allowed texts of the name; empty for all.
    texts: Vec<String>,
    pub(crate) capture: PatternEffect,
}

/// A node on the path from the root, with its field in its parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VisitedNode<'t> {
    pub(crate) node: Node<'t>,
    pub(crate) field: Option<NonZeroU16>,
}

impl Pattern {
    /// The outermost node of the pattern, if it matches the last node of `path`.
    pub(crate) fn find<'t>(&self, path: &[VisitedNode<'t>], source: &[u8]) -> Option<Node<'t>> {
        let name = path.last()?.node;
        if !self.texts.is_empty()
            && !self
                .texts
                .iter()
                .any(|text| text.as_bytes() == &source[name.byte_range()])
        {
            return None;
        }
        let first = path.len().checked_sub(self.steps.len())?;
        let mut fits = self.steps.iter().zip(path.iter().enumerate().rev());
        let is_one = fits.all(|(step, (at, visited))| {
            let above = at.checked_sub(1).map(|above| path[above].node);
            step.fits(*visited, above, source)
        });
        is_one.then(|| path[first].node)
    }
}

impl PatternStep {
    fn fits(&self, visited: VisitedNode<'_>, above: Option<Node<'_>>, source: &[u8]) -> bool {
        let node = visited.node;
        let is_at = |index: Option<u32>| {
            let sibling = above.zip(index).and_then(|(above, index)| above.named_child(index));
            sibling.is_some_and(|sibling| sibling.id() == node.id())
        };
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&node.kind_id()))
            && self.field.is_none_or(|field| visited.field == Some(field))
            && self
                .absent
                .iter()
                .all(|field| node.child_by_field_id(field.get()).is_none())
            && self.beside.iter().all(|beside| beside.fits(node, source))
            && (!self.is_first || is_at(Some(0)))
            && (!self.is_last || is_at(above.and_then(|above| (above.named_child_count() as u32).checked_sub(1))))
    }
}

impl SiblingMatch {
    fn fits(&self, node: Node<'_>, source: &[u8]) -> bool {
        let is_one = |child: Node<'_>| {
            self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&child.kind_id()))
                && (self.texts.is_empty()
                    || self
                        .texts
                        .iter()
                        .any(|text| text.as_bytes() == &source[child.byte_range()]))
                && self.beside.iter().all(|inner| inner.fits(child, source))
        };
        let mut cursor = node.walk();
        match self.field {
            Some(field) => node.children_by_field_id(field, &mut cursor).any(is_one),
            None => node.named_children(&mut cursor).any(is_one),
        }
    }
}

/// The patterns of a language, by the kind of node in which they end.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// By the id of the kind, in the order of the file.
    by_kind: Vec<Vec<Pattern>>,
    comments: Vec<bool>,
    attributes: Vec<bool>,
    wrappers: Vec<bool>,
    bodies: Vec<bool>,
}

impl Patterns {
    /// Parses a file of patterns. The error names the first unsupported element.
    pub(crate) fn parse_patterns(text: &str, language: &Language) -> Result<Self, String> {
        let count = language.node_kind_count();
        let mut patterns = Self {
            by_kind: vec![Vec::new(); count],
            comments: vec![false; count],
            attributes: vec![false; count],
            wrappers: vec![false; count],
            bodies: vec![false; count],
        };
        let mut reader = PatternReader {
            text,
            language,
            kinds: kinds_of(language),
        };
        while let Some(found) = reader.pattern()? {
            patterns.add(found)?;
        }
        Ok(patterns)
    }

    fn add(&mut self, (steps, texts, capture): ParsedPattern) -> Result<(), String> {
        let kinds = steps.first().and_then(|step| step.kinds.clone());
        let ids: Vec<usize> = kinds
            .ok_or("a pattern ends in a node with a kind")?
            .into_iter()
            .map(usize::from)
            .collect();
        let marked = match capture.as_str() {
            "comment" => Some(&mut self.comments),
            "attribute" => Some(&mut self.attributes),
            "wrapper" => Some(&mut self.wrappers),
            "body" => Some(&mut self.bodies),
            _ => None,
        };
        if let Some(marked) = marked {
            ids.iter().for_each(|id| marked[*id] = true);
            return Ok(());
        }
        let capture = capture_of(&capture).ok_or_else(|| format!("`@{capture}` is no capture of this form"))?;
        let pattern = Pattern { steps, texts, capture };
        ids.iter().for_each(|id| self.by_kind[*id].push(pattern.clone()));
        Ok(())
    }

    /// The patterns that end in this kind of node.
    pub(crate) fn ending_in(&self, node: Node<'_>) -> &[Pattern] {
        self.by_kind.get(usize::from(node.kind_id())).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_comment(&self, node: Node<'_>) -> bool {
        is_marked(&self.comments, node)
    }

    pub(crate) fn is_attribute(&self, node: Node<'_>) -> bool {
        is_marked(&self.attributes, node)
    }

    pub(crate) fn is_wrapper(&self, node: Node<'_>) -> bool {
        is_marked(&self.wrappers, node)
    }

    pub(crate) fn is_body(&self, node: Node<'_>) -> bool {
        is_marked(&self.bodies, node)
    }
}

fn is_marked(marked: &[bool], node: Node<'_>) -> bool {
    marked.get(usize::from(node.kind_id())).copied().unwrap_or(false)
}

/// Ids of the named kinds of nodes.
fn kinds_of(language: &Language) -> HashMap<&str, Vec<u16>> {
    let mut kinds: HashMap<&str, Vec<u16>> = HashMap::new();
    for id in 0..language.node_kind_count() as u16 {
        if let Some(kind) = language
            .node_kind_for_id(id)
            .filter(|_| language.node_kind_is_named(id))
        {
            kinds.entry(kind).or_default().push(id);
        }
    }
    kinds
}

fn capture_of(name: &str) -> Option<PatternEffect> {
    Some(match name {
        "definition.function" => PatternEffect::Definition(DefinitionKind::Function),
        "definition.method" => PatternEffect::Definition(DefinitionKind::Method),
        "definition.type" => PatternEffect::Definition(DefinitionKind::Type),
        "definition.value" => PatternEffect::Definition(DefinitionKind::Value),
        "definition.module" => PatternEffect::Definition(DefinitionKind::Module),
        "reference.call" => PatternEffect::Reference(UseKind::Call),
        "reference.import" => PatternEffect::Reference(UseKind::Import),
        "reference.attribute" => PatternEffect::Reference(UseKind::Attribute),
        "reference.type" => PatternEffect::Reference(UseKind::Type),
        "reference.name" => PatternEffect::Reference(UseKind::Name),
        "scope.function" => PatternEffect::Scope(ScopeKind::Function),
        "scope.type" => PatternEffect::Scope(ScopeKind::Type),
        "owner" => PatternEffect::Owner,
        "import" => PatternEffect::Import,
        _ => return None,
    })
}

/// Gives captured siblings, at any depth, the texts that a predicate allows them.
fn set_texts(siblings: &mut [SiblingMatch], allowed: &[(String, Vec<String>)]) {
    for one in siblings {
        let texts = allowed.iter().find(|(name, _)| Some(name) == one.capture.as_ref());
        one.texts = texts.map(|(_, texts)| texts.clone()).unwrap_or_default();
        set_texts(&mut one.beside, allowed);
    }
}

/// Nodes from the name upwards, texts of the name, and capture of the outermost node.
type ParsedPattern = (Vec<PatternStep>, Vec<String>, String);

struct PatternReader<'a> {
    text: &'a str,
    language: &'a Language,
    kinds: HashMap<&'a str, Vec<u16>>,
}

/// A node during parsing.
#[derive(Debug, Default)]
struct ReadNode {
    step: PatternStep,
    /// Nodes from the name upwards, without this node; empty if this node is the name, or contains none.
    below: Vec<PatternStep>,
    has_name: bool,
    capture: Option<String>,
    /// Captures with their allowed texts.
    texts: Vec<(String, Vec<String>)>,
}

impl<'a> PatternReader<'a> {
    fn pattern(&mut self) -> Result<Option<ParsedPattern>, String> {
        self.skip();
        if self.text.is_empty() {
            return Ok(None);
        }
        let mut node = self.node()?;
        // A capture of the name and one of the pattern may follow the same node.
        let second = self.capture();
        let capture = match (second, node.capture.take()) {
            (Some(second), _) => second,
            (None, Some(first)) => first,
            (None, None) => return Err(format!("a pattern has no capture before `{}`", self.here())),
        };
        let texts = node
            .texts
            .iter()
            .find(|(name, _)| name == "name")
            .map(|(_, texts)| texts.clone());
        for step in node.below.iter_mut().chain([&mut node.step]) {
            set_texts(&mut step.beside, &node.texts);
        }
        let mut steps = node.below;
        steps.push(node.step);
        Ok(Some((steps, texts.unwrap_or_default(), capture)))
    }

    fn node(&mut self) -> Result<ReadNode, String> {
        self.expect('(')?;
        let mut node = ReadNode::default();
        let kind = self.word();
        if kind != "_" {
            let kinds = self
                .kinds
                .get(kind)
                .ok_or_else(|| format!("the grammar has no node `{kind}`"))?;
            node.step.kinds = Some(kinds.clone());
        }
        let mut is_anchored = false;
        let mut last_is_path = false;
        loop {
            self.skip();
            if self.eat(')') {
                if is_anchored && last_is_path {
                    node.below.last_mut().ok_or("an anchor follows a node")?.is_last = true;
                }
                break;
            } else if self.text.starts_with("(#any-of?") {
                let texts = self.predicate()?;
                node.texts.push(texts);
            } else if self.eat('.') {
                is_anchored = true;
                continue;
            } else if self.eat('!') {
                let field = self.field()?;
                node.step.absent.push(field);
            } else {
                last_is_path = self.child(&mut node, is_anchored)?;
            }
            is_anchored = false;
        }
        if let Some(capture) = self.capture() {
            if capture == "name" {
                node.has_name = true;
            } else {
                node.capture = Some(capture);
            }
        }
        Ok(node)
    }

    /// Parses a child of `parent`. Returns true if it contains the name.
    fn child(&mut self, parent: &mut ReadNode, is_first: bool) -> Result<bool, String> {
        let field = if self.text.starts_with('(') {
            None
        } else {
            Some(self.field()?)
        };
        if field.is_some() {
            self.expect(':')?;
        }
        self.skip();
        let mut child = self.node()?;
        child.step.field = field;
        child.step.is_first = is_first;
        parent.texts.append(&mut child.texts);
        if child.has_name {
            if parent.has_name {
                return Err("a pattern has one name".to_owned());
            }
            parent.has_name = true;
            parent.below = child.below;
            parent.below.push(child.step);
            return Ok(true);
        }
        parent.step.beside.push(SiblingMatch {
            field: child.step.field,
            kinds: child.step.kinds,
            capture: child.capture,
            texts: Vec::new(),
            beside: child.step.beside,
        });
        Ok(false)
    }

    /// Parses `(#any-of? @capture "a" "b")`.
    fn predicate(&mut self) -> Result<(String, Vec<String>), String> {
        self.text = self.text.strip_prefix("(#any-of?").unwrap_or(self.text);
        let capture = self.capture().ok_or("a predicate names a capture")?;
        let mut texts = Vec::new();
        loop {
            self.skip();
            if self.eat(')') {
                return Ok((capture, texts));
            }
            self.expect('"')?;
            let (text, rest) = self.text.split_once('"').ok_or("a text ends with a quote")?;
            texts.push(text.to_owned());
            self.text = rest;
        }
    }

    fn field(&mut self) -> Result<NonZeroU16, String> {
        let field = self.word();
        let id = self.language.field_id_for_name(field);
        id.ok_or_else(|| format!("the grammar has no field `{field}`"))
    }

    fn capture(&mut self) -> Option<String> {
        self.skip();
        self.eat('@').then(|| self.word().to_owned())
    }

    fn word(&mut self) -> &'a str {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let end = self.text.find(|c| !is_part(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }

    fn eat(&mut self, sign: char) -> bool {
        let rest = self.text.strip_prefix(sign);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        self.skip();
        if self.eat(sign) {
            Ok(())
        } else {
            Err(format!("`{sign}` is missing before `{}`", self.here()))
        }
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.text = self.text.trim_start();
            match self.text.strip_prefix(';') {
                Some(comment) => self.text = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return,
            }
        }
    }

    fn here(&self) -> String {
        self.text.chars().take(30).collect()
    }
}
