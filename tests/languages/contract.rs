//! The contract may grow and may not change: what stood in version 1.0.0 stands in `wit/skill.wit` as it was.
//!
//! Compiled skills know the shape of each record and function. So every interface that there was must have the same
//! types and functions, no more and no fewer, and every world must import what it did and export the same. New
//! interfaces may come beside the old ones. Comments are free.

use std::collections::BTreeMap;

use wit_parser::{FunctionKind, Handle, InterfaceId, Resolve, Type, TypeDefKind, TypeId, WorldItem, WorldKey};

const KEPT: &str = include_str!("../fixtures/compat/skill-1.0.0.wit");
const NOW: &str = include_str!("../../wit/skill.wit");

/// Everything that compiled code depends on: names, with what they mean.
type Shape = BTreeMap<String, BTreeMap<String, String>>;

/// Reads a contract: its package, its interfaces and its worlds.
fn shape(text: &str) -> Result<Shape, String> {
    let mut all = Resolve::default();
    let package = all.push_str("skill.wit", text).map_err(|error| format!("{error:#}"))?;
    let package = &all.packages[package];
    let mut shape = Shape::from([("package".to_owned(), one("name", package.name.to_string()))]);
    for (name, &interface) in &package.interfaces {
        shape.insert(format!("interface {name}"), interface_shape(&all, interface));
    }
    for (name, &world) in &package.worlds {
        let world = &all.worlds[world];
        let items = |items: &wit_parser::IndexMap<WorldKey, WorldItem>| {
            let items = items.iter();
            items
                .map(|(key, item)| (all.name_world_key(key), item_shape(&all, item)))
                .collect()
        };
        shape.insert(format!("imports of world {name}"), items(&world.imports));
        shape.insert(format!("exports of world {name}"), items(&world.exports));
    }
    Ok(shape)
}

fn one(name: &str, meaning: String) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), meaning)])
}

fn interface_shape(all: &Resolve, interface: InterfaceId) -> BTreeMap<String, String> {
    let interface = &all.interfaces[interface];
    let types = interface.types.iter();
    let types = types.map(|(name, &id)| (name.clone(), definition(all, id)));
    let functions = interface.functions.iter();
    let functions = functions.map(|(name, function)| (format!("{name}()"), function_shape(all, function)));
    types.chain(functions).collect()
}

fn item_shape(all: &Resolve, item: &WorldItem) -> String {
    match item {
        WorldItem::Interface { .. } => "interface".to_owned(),
        WorldItem::Function(function) => function_shape(all, function),
        WorldItem::Type { id, .. } => definition(all, *id),
    }
}

fn function_shape(all: &Resolve, function: &wit_parser::Function) -> String {
    let kind = match &function.kind {
        FunctionKind::Freestanding => "function",
        FunctionKind::Method(_) => "method",
        FunctionKind::Static(_) => "static",
        FunctionKind::Constructor(_) => "constructor",
        _ => "asynchronous",
    };
    let parameters = function.params.iter();
    let parameters = parameters.map(|parameter| format!("{}: {}", parameter.name, meaning(all, &parameter.ty)));
    let result = function.result.as_ref().map(|result| meaning(all, result));
    let parameters: Vec<String> = parameters.collect();
    format!("{kind} ({}) -> {}", parameters.join(", "), result.unwrap_or_default())
}

/// What a name of a type stands for.
fn definition(all: &Resolve, id: TypeId) -> String {
    kind(all, &all.types[id].kind)
}

fn kind(all: &Resolve, kind: &TypeDefKind) -> String {
    let optional = |inner: &Option<Type>| inner.as_ref().map_or("_".to_owned(), |inner| meaning(all, inner));
    let parts: Vec<String> = match kind {
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            fields
                .map(|field| format!("{}: {}", field.name, meaning(all, &field.ty)))
                .collect()
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter();
            cases
                .map(|case| format!("{}({})", case.name, optional(&case.ty)))
                .collect()
        }
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| flag.name.clone()).collect(),
        TypeDefKind::Tuple(tuple) => tuple.types.iter().map(|part| meaning(all, part)).collect(),
        TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => vec![meaning(all, &Type::Id(*id))],
        TypeDefKind::Option(inner) | TypeDefKind::List(inner) | TypeDefKind::Type(inner) => vec![meaning(all, inner)],
        TypeDefKind::Result(result) => vec![optional(&result.ok), optional(&result.err)],
        TypeDefKind::Resource => Vec::new(),
        // The contract has none of these, and they are told apart by all that there is of them.
        other => vec![format!("{other:?}")],
    };
    format!("{} {{{}}}", kind.as_str(), parts.join(", "))
}

/// A type where it is used: by its name where it has one, with its interface.
fn meaning(all: &Resolve, used: &Type) -> String {
    let Type::Id(id) = used else {
        return format!("{used:?}");
    };
    let definition = &all.types[*id];
    let place = match definition.owner {
        wit_parser::TypeOwner::Interface(interface) => all.interfaces[interface].name.as_deref(),
        _ => None,
    };
    match &definition.name {
        Some(name) => format!("{}.{name}", place.unwrap_or_default()),
        None => kind(all, &definition.kind),
    }
}

/// What of the one contract is not so in the other: an error that says what to do.
fn check(kept: &str, now: &str) -> Result<(), String> {
    let (kept, now) = (shape(kept)?, shape(now)?);
    for (place, things) in &kept {
        let there = now.get(place).ok_or(format!("{place} is gone"))?;
        for (thing, meaning) in things {
            match there.get(thing) {
                Some(now) if now == meaning => {}
                Some(now) => return Err(format!("{place}: `{thing}` was `{meaning}` and is `{now}`")),
                None => return Err(format!("{place}: `{thing}` is gone")),
            }
        }
        // Components import what they use of a world; of interfaces and exports they know all there is.
        let new = there.keys().find(|thing| !things.contains_key(*thing));
        if let Some(new) = new.filter(|_| !place.starts_with("imports")) {
            return Err(format!("{place}: `{new}` is new; put it into an interface of its own"));
        }
    }
    Ok(())
}

#[test]
fn the_contract_is_still_the_one_that_compiled_skills_know() {
    if let Err(broken) = check(KEPT, NOW) {
        panic!("wit/skill.wit would break compiled skills of version 1.0.0: {broken}");
    }
}

#[test]
fn every_edit_that_breaks_a_compiled_skill_is_refused() {
    for (from, to, told) in [
        (
            "package tool:skill@1.0.0",
            "package tool:skill@1.1.0",
            "package: `name`",
        ),
        (
            "        truncated: bool,\n        /// Opaque",
            "        /// Opaque",
            "interface types: `outcome` was",
        ),
        (
            "        truncated: bool,\n        /// Opaque",
            "        cut: bool,\n        /// Opaque",
            "interface types: `outcome` was",
        ),
        (
            "        size: u64,\n",
            "        size: u32,\n",
            "interface repository: `entry` was",
        ),
        (
            "        size: u64,\n",
            "        size: u64,\n        mode: u32,\n",
            "interface repository: `entry` was",
        ),
        ("hint: option<string>", "hint: string", "interface types: `failure` was"),
        (
            "left-out: u32,",
            "left-out: option<u32>,",
            "interface repository: `page` was",
        ),
        (
            "describe: func()",
            "describe: func(locale: string)",
            "interface handler: `describe()` was",
        ),
        (
            "call: func(arguments: string)",
            "call: func(args: string)",
            "interface handler: `call()` was",
        ),
        (
            "next: func() -> batch",
            "next: func() -> option<batch>",
            "interface bulk: `[method]reader.next()` was",
        ),
        (
            "resource reader {",
            "record reader-of {}\n    resource reader {",
            "interface bulk: `reader-of` is new",
        ),
        (
            "    write: func(level",
            "    close: func();\n    write: func(level",
            "interface log: `close()` is new",
        ),
        (
            "    write: func(level: string, message: string);\n",
            "",
            "interface log: `write()` is gone",
        ),
        ("interface log {", "interface logs {", "not found"),
        (
            "    import packages;\n",
            "",
            "imports of world sharded-skill: `tool:skill/packages@1.0.0` is gone",
        ),
        (
            "    export sharded;\n",
            "",
            "exports of world sharded-skill: `tool:skill/sharded@1.0.0` is gone",
        ),
        (
            "    export handler;\n",
            "    export handler;\n    export sharded;\n",
            "exports of world skill: `tool:skill/sharded@1.0.0` is new",
        ),
    ] {
        let edited = NOW.replacen(from, to, 1);
        assert_ne!(edited, NOW, "{from}");
        let refused = check(NOW, &edited).expect_err(to);
        assert!(refused.contains(told), "{from} -> {to}: {refused}");
    }
}

#[test]
fn the_contract_may_grow_and_be_explained() {
    let grown = NOW.replacen(
        "/// Committing.",
        "/// Another matter.\ninterface other {\n    do: func() -> u32;\n}\n\n/// Committing, and more words.",
        1,
    );
    let grown = grown.replacen("    import packages;\n", "    import packages;\n    import other;\n", 1);
    assert_ne!(grown, NOW);
    assert_eq!(check(NOW, &grown), Ok(()));
}
