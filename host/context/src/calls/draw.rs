//! Counts calls, and folds what has no room in the graph.

use std::collections::BTreeMap;

use super::resolve::KnownDefinition;
use tool_core::api::{CallEdge, CallGraph, CallNode, CallRole};

/// Nodes of a graph: more cannot be looked at.
const NODES_MAX: usize = 25;
/// Edges of a graph.
const EDGES_MAX: usize = 60;
/// Folded nodes at most: callers, those by name, those in tests, callees.
const FOLDED_MAX: usize = 4;
/// Callers that are known by name only and have a node each. More are noise: a common name.
const CALLERS_BY_NAME_MAX: usize = 8;

/// The other end of a call.
pub(super) enum Ends {
    /// The symbol itself.
    Itself,
    /// A definition in the sources.
    Definition(KnownDefinition),
    /// A definition in tests or examples.
    Aside(KnownDefinition),
    /// One of so many definitions of a name.
    OneOf(String, u64),
}

/// Calls between one drawn definition and another node.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    calls: u64,
    resolved: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.resolved += other.resolved;
    }
}

/// A node with its calls by drawn definition.
#[derive(Debug, Clone)]
struct Other {
    name: String,
    place: Option<(String, u32)>,
    definitions: u64,
    /// Calls of the drawn definitions by this node, and calls of this node by them.
    calls_symbol: BTreeMap<usize, Count>,
    called_by_symbol: BTreeMap<usize, Count>,
}

/// Key of a node: its path, and its name in that.
type Key = (Option<String>, String);

/// The calls of a graph.
pub(super) struct CallTally {
    symbols: Vec<KnownDefinition>,
    /// Calls between drawn definitions: from, to.
    between: BTreeMap<(usize, usize), Count>,
    others: BTreeMap<Key, Other>,
    aside: BTreeMap<Key, Other>,
}

impl CallTally {
    pub(super) fn new(symbols: Vec<KnownDefinition>) -> Self {
        Self {
            symbols,
            between: BTreeMap::new(),
            others: BTreeMap::new(),
            aside: BTreeMap::new(),
        }
    }

    /// Counts a call of a drawn definition.
    pub(super) fn add_caller(&mut self, symbol: usize, caller: Ends, by_name_only: bool) {
        let is_aside = matches!(caller, Ends::Aside(_));
        match caller {
            Ends::Itself => self.add_between(symbol, symbol, by_name_only),
            Ends::Definition(definition) | Ends::Aside(definition) => {
                if let Some(from) = self.symbol_at(&definition) {
                    self.add_between(from, symbol, by_name_only);
                    return;
                }
                let into = if is_aside { &mut self.aside } else { &mut self.others };
                let other = node_of(into, &definition);
                other.calls_symbol.entry(symbol).or_default().add(one(by_name_only));
            }
            Ends::OneOf(..) => {}
        }
    }

    /// Counts a call by a drawn definition. Calls among these are counted as calls of the called one.
    pub(super) fn add_callee(&mut self, symbol: usize, callee: Ends, by_name_only: bool) {
        let other = match callee {
            Ends::Itself => return,
            Ends::Definition(definition) | Ends::Aside(definition) => {
                if self.symbol_at(&definition).is_some() {
                    return;
                }
                node_of(&mut self.others, &definition)
            }
            Ends::OneOf(name, definitions) => {
                let label = format!("{name} (one of {definitions} definitions)");
                self.others.entry((None, label.clone())).or_insert(Other {
                    name: label,
                    place: None,
                    definitions,
                    calls_symbol: BTreeMap::new(),
                    called_by_symbol: BTreeMap::new(),
                })
            }
        };
        other.called_by_symbol.entry(symbol).or_default().add(one(by_name_only));
    }

    fn symbol_at(&self, definition: &KnownDefinition) -> Option<usize> {
        let is_it = |one: &KnownDefinition| {
            (&one.path, &one.container, &one.name) == (&definition.path, &definition.container, &definition.name)
        };
        self.symbols.iter().position(is_it)
    }

    fn add_between(&mut self, from: usize, to: usize, by_name_only: bool) {
        self.between.entry((from, to)).or_default().add(one(by_name_only));
    }

    /// The graph: the strongest callers and callees, the rest folded.
    pub(super) fn graph(self, symbol: &str, definitions: u64) -> CallGraph {
        let room = NODES_MAX - self.symbols.len() - FOLDED_MAX;
        let is_caller = |other: &Other| !other.calls_symbol.is_empty();
        let (mut callers, mut callees): (Vec<Other>, Vec<Other>) = self.others.into_values().partition(is_caller);
        let mut aside: Vec<Other> = self.aside.into_values().collect();
        if aside.len() == 1 {
            callers.append(&mut aside);
        }
        let is_by_name = |other: &Other| !strength(&other.calls_symbol).0;
        let mut by_name = Vec::new();
        if callers.iter().filter(|other| is_by_name(other)).count() > CALLERS_BY_NAME_MAX {
            (by_name, callers) = callers.into_iter().partition(is_by_name);
        }
        callers.sort_by_key(|other| std::cmp::Reverse(strength(&other.calls_symbol)));
        callees.sort_by_key(|other| std::cmp::Reverse(strength(&other.called_by_symbol)));
        let callees_shown = callees.len().min((room / 2).max(room.saturating_sub(callers.len())));
        let callers_shown = callers.len().min(room - callees_shown);
        let mut nodes: Vec<(CallRole, Other)> = Vec::new();
        let more_callers = fold(callers.split_off(callers_shown), "more callers");
        let more_callees = fold(callees.split_off(callees_shown), "more callees");
        let in_tests = fold(aside, "callers in tests and examples");
        nodes.extend(callers.into_iter().map(|other| (CallRole::Caller, other)));
        let by_name = fold(by_name, "callers by name only");
        nodes.extend(
            more_callers
                .into_iter()
                .chain(by_name)
                .chain(in_tests)
                .map(|other| (CallRole::Caller, other)),
        );
        nodes.extend(callees.into_iter().map(|other| (CallRole::Callee, other)));
        nodes.extend(more_callees.map(|other| (CallRole::Callee, other)));
        let count = self.symbols.len();
        let mut edges: Vec<CallEdge> = Vec::new();
        let edge = |from: usize, to: usize, count: Count| CallEdge {
            from: from as u64,
            to: to as u64,
            calls: count.calls,
            by_name_only: count.resolved == 0,
        };
        edges.extend(self.between.iter().map(|((from, to), count)| edge(*from, *to, *count)));
        for (at, (_, other)) in nodes.iter().enumerate() {
            edges.extend(
                other
                    .calls_symbol
                    .iter()
                    .map(|(to, calls)| edge(count + at, *to, *calls)),
            );
            let called = other.called_by_symbol.iter();
            edges.extend(called.map(|(from, calls)| edge(*from, count + at, *calls)));
        }
        edges.sort_by_key(|edge| (edge.by_name_only, std::cmp::Reverse(edge.calls)));
        let edges_left_out = edges.len().saturating_sub(EDGES_MAX) as u64;
        edges.truncate(EDGES_MAX);
        let mut notices = Vec::new();
        if edges.iter().any(|edge| edge.by_name_only) {
            notices.push(
                "Dashed: known by name only, so another definition may be meant, also one of a library".to_owned(),
            );
        }
        let symbols = self.symbols.iter().map(|one| CallNode {
            name: one.full_name(),
            role: CallRole::Symbol,
            path: Some(one.path.clone()),
            line: Some(u64::from(one.line)),
            definitions: 1,
        });
        let others = nodes.into_iter().map(|(role, other)| CallNode {
            name: other.name,
            role,
            line: other.place.as_ref().map(|(_, line)| u64::from(*line)),
            path: other.place.map(|(path, _)| path),
            definitions: other.definitions,
        });
        CallGraph {
            symbol: symbol.to_owned(),
            definitions,
            nodes: symbols.chain(others).collect(),
            edges,
            edges_left_out,
            notices,
        }
    }
}

fn one(by_name_only: bool) -> Count {
    Count {
        calls: 1,
        resolved: u64::from(!by_name_only),
    }
}

fn node_of<'t>(into: &'t mut BTreeMap<Key, Other>, definition: &KnownDefinition) -> &'t mut Other {
    let name = format!("{}.{}", definition.container, definition.name);
    into.entry((Some(definition.path.clone()), name))
        .or_insert_with(|| Other {
            name: definition.full_name(),
            place: Some((definition.path.clone(), definition.line)),
            definitions: 1,
            calls_symbol: BTreeMap::new(),
            called_by_symbol: BTreeMap::new(),
        })
}

/// Order of nodes: resolved calls first, then many.
fn strength(counts: &BTreeMap<usize, Count>) -> (bool, u64) {
    let calls = counts.values().map(|count| count.calls).sum();
    (counts.values().any(|count| count.resolved > 0), calls)
}

/// One node for several; a single one stays as it is.
fn fold(mut others: Vec<Other>, words: &str) -> Option<Other> {
    if others.len() <= 1 {
        return others.pop();
    }
    let count = others.len();
    let mut folded = Other {
        name: format!("{count} {words}"),
        place: None,
        definitions: others.iter().map(|other| other.definitions).sum(),
        calls_symbol: BTreeMap::new(),
        called_by_symbol: BTreeMap::new(),
    };
    for other in others {
        for (symbol, calls) in other.calls_symbol {
            folded.calls_symbol.entry(symbol).or_default().add(calls);
        }
        for (symbol, calls) in other.called_by_symbol {
            folded.called_by_symbol.entry(symbol).or_default().add(calls);
        }
    }
    Some(folded)
}
