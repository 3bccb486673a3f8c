//! Counts calls, and folds the nodes for which the graph has no room.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::resolve::KnownDefinition;
use tool_core::api::{CallEdge, CallGraph, CallNode, CallRole};

/// Nodes of a graph. A larger one cannot be read.
const NODES_MAX: usize = 25;
const EDGES_MAX: usize = 60;
/// Folded nodes at most: callers, those by name, those in tests, callees.
const FOLDED_MAX: usize = 4;
/// Callers that are matched by name only and get their own node. More of them are noise: the name is common.
const CALLERS_BY_NAME_MAX: usize = 8;

pub(super) enum CallEnd {
    Itself,
    Definition(KnownDefinition),
    /// A definition in tests or examples.
    Aside(KnownDefinition),
    /// One of several definitions of a name; the number is their count.
    OneOf(String, u64),
}

/// Calls between one drawn definition and another node.
#[derive(Debug, Default, Clone, Copy)]
struct CallCount {
    calls: u64,
    resolved: u64,
}

impl CallCount {
    fn add_call(&mut self, by_name_only: bool) {
        self.calls += 1;
        self.resolved += u64::from(!by_name_only);
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.resolved += other.resolved;
    }
}

/// A node with its calls by drawn definition.
#[derive(Debug, Clone)]
struct OtherNode {
    name: String,
    place: Option<(String, u32)>,
    definitions: u64,
    /// Calls from this node to the drawn definitions, and from them to this node.
    calls_symbol: BTreeMap<usize, CallCount>,
    called_by_symbol: BTreeMap<usize, CallCount>,
}

/// Key of a node: its path, and its name in that.
type NodeKey = (Option<String>, String);

pub(super) struct CallTally {
    symbols: Vec<KnownDefinition>,
    /// Calls between drawn definitions: from, to.
    between: BTreeMap<(usize, usize), CallCount>,
    others: BTreeMap<NodeKey, OtherNode>,
    aside: BTreeMap<NodeKey, OtherNode>,
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
    pub(super) fn add_caller(&mut self, symbol: usize, caller: CallEnd, by_name_only: bool) {
        let is_aside = matches!(caller, CallEnd::Aside(_));
        match caller {
            CallEnd::Itself => self.add_between(symbol, symbol, by_name_only),
            CallEnd::Definition(definition) | CallEnd::Aside(definition) => {
                if let Some(from) = self.symbol_at(&definition) {
                    self.add_between(from, symbol, by_name_only);
                    return;
                }
                let into = if is_aside { &mut self.aside } else { &mut self.others };
                let other = node_of(into, &definition);
                other.calls_symbol.entry(symbol).or_default().add_call(by_name_only);
            }
            CallEnd::OneOf(..) => {}
        }
    }

    /// Counts a call from a drawn definition. A call between two of them counts for the called one.
    pub(super) fn add_callee(&mut self, symbol: usize, callee: CallEnd, by_name_only: bool) {
        let other = match callee {
            CallEnd::Itself => return,
            CallEnd::Definition(definition) | CallEnd::Aside(definition) => {
                if self.symbol_at(&definition).is_some() {
                    return;
                }
                node_of(&mut self.others, &definition)
            }
            CallEnd::OneOf(name, definitions) => {
                let label = format!("{name} (one of {definitions} definitions)");
                self.others.entry((None, label.clone())).or_insert(OtherNode {
                    name: label,
                    place: None,
                    definitions,
                    calls_symbol: BTreeMap::new(),
                    called_by_symbol: BTreeMap::new(),
                })
            }
        };
        other.called_by_symbol.entry(symbol).or_default().add_call(by_name_only);
    }

    fn symbol_at(&self, definition: &KnownDefinition) -> Option<usize> {
        let is_it = |one: &KnownDefinition| {
            (&one.path, &one.container, &one.name) == (&definition.path, &definition.container, &definition.name)
        };
        self.symbols.iter().position(is_it)
    }

    fn add_between(&mut self, from: usize, to: usize, by_name_only: bool) {
        self.between.entry((from, to)).or_default().add_call(by_name_only);
    }

    /// The graph with the strongest callers and callees; the rest is folded.
    pub(super) fn graph(self, symbol: &str, definitions: u64) -> CallGraph {
        let room = NODES_MAX - self.symbols.len() - FOLDED_MAX;
        let others = choose_nodes(self.others.into_values(), self.aside.into_values().collect(), room);
        let mut edges = collect_edges(&self.between, self.symbols.len(), &others);
        edges.sort_by_key(|edge| (edge.by_name_only, Reverse(edge.calls)));
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
        let others = others.into_iter().map(|(role, other)| CallNode {
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

/// Chooses the strongest callers and callees for which there is room, and the nodes that hold the others.
fn choose_nodes(
    others: impl Iterator<Item = OtherNode>,
    mut aside: Vec<OtherNode>,
    room: usize,
) -> Vec<(CallRole, OtherNode)> {
    let is_caller = |other: &OtherNode| !other.calls_symbol.is_empty();
    let (mut callers, mut callees): (Vec<OtherNode>, Vec<OtherNode>) = others.partition(is_caller);
    if aside.len() == 1 {
        callers.append(&mut aside);
    }
    let is_by_name = |other: &OtherNode| !sort_strength(&other.calls_symbol).0;
    let mut by_name = Vec::new();
    if callers.iter().filter(|other| is_by_name(other)).count() > CALLERS_BY_NAME_MAX {
        (by_name, callers) = callers.into_iter().partition(is_by_name);
    }
    callers.sort_by_key(|other| Reverse(sort_strength(&other.calls_symbol)));
    callees.sort_by_key(|other| Reverse(sort_strength(&other.called_by_symbol)));
    let callees_shown = callees.len().min((room / 2).max(room.saturating_sub(callers.len())));
    let callers_shown = callers.len().min(room - callees_shown);
    let more_callers = fold_nodes(callers.split_off(callers_shown), "more callers");
    let more_callees = fold_nodes(callees.split_off(callees_shown), "more callees");
    let by_name = fold_nodes(by_name, "callers by name only");
    let aside = fold_nodes(aside, "callers in tests and examples");
    let callers = callers.into_iter().chain(more_callers).chain(by_name).chain(aside);
    let callees = callees.into_iter().chain(more_callees);
    callers
        .map(|other| (CallRole::Caller, other))
        .chain(callees.map(|other| (CallRole::Callee, other)))
        .collect()
}

/// The edges between the drawn definitions, and those with the other nodes. The numbers of the other nodes follow those
/// of the definitions.
fn collect_edges(
    between: &BTreeMap<(usize, usize), CallCount>,
    symbols: usize,
    others: &[(CallRole, OtherNode)],
) -> Vec<CallEdge> {
    let edge = |from: usize, to: usize, count: &CallCount| CallEdge {
        from: from as u64,
        to: to as u64,
        calls: count.calls,
        by_name_only: count.resolved == 0,
    };
    let mut edges: Vec<CallEdge> = Vec::new();
    edges.extend(between.iter().map(|((from, to), count)| edge(*from, *to, count)));
    for (at, (_, other)) in (symbols..).zip(others) {
        let (to_symbols, from_symbols) = (other.calls_symbol.iter(), other.called_by_symbol.iter());
        edges.extend(to_symbols.map(|(to, count)| edge(at, *to, count)));
        edges.extend(from_symbols.map(|(from, count)| edge(*from, at, count)));
    }
    edges
}

fn node_of<'t>(into: &'t mut BTreeMap<NodeKey, OtherNode>, definition: &KnownDefinition) -> &'t mut OtherNode {
    let name = format!("{}.{}", definition.container, definition.name);
    into.entry((Some(definition.path.clone()), name))
        .or_insert_with(|| OtherNode {
            name: definition.full_name(),
            place: Some((definition.path.clone(), definition.line)),
            definitions: 1,
            calls_symbol: BTreeMap::new(),
            called_by_symbol: BTreeMap::new(),
        })
}

/// Order of nodes: resolved calls first, then many.
fn sort_strength(counts: &BTreeMap<usize, CallCount>) -> (bool, u64) {
    let calls = counts.values().map(|count| count.calls).sum();
    (counts.values().any(|count| count.resolved > 0), calls)
}

/// One node for several; a single one stays as it is.
fn fold_nodes(mut others: Vec<OtherNode>, words: &str) -> Option<OtherNode> {
    if others.len() <= 1 {
        return others.pop();
    }
    let count = others.len();
    let mut folded = OtherNode {
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
