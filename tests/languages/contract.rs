//! The contract may grow and may not change: what stood in version 1.0.0 stands in `wit/skill.wit` as it was.
//!
//! Compiled skills know the shape of each record and function. So every interface that there was must have the same
//! types and functions, no more and no fewer, and every world must import what it did and export the same. New
//! interfaces may come beside the old ones. Comments are free.

use std::collections::BTreeMap;

const KEPT: &str = include_str!("../fixtures/compat/skill-1.0.0.wit");
const NOW: &str = include_str!("../../wit/skill.wit");

/// Everything that compiled code depends on: the package, and each interface and world with its items. An item is the
/// list of its words under its name; comments and the order of items do not count, the order of fields and cases does.
type Shape = BTreeMap<String, BTreeMap<String, String>>;

/// Reads a contract.
fn shape(text: &str) -> Result<Shape, String> {
    let mut shape = Shape::new();
    for item in items(&words(text)) {
        let name = item.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
        let content = match item.first().map(String::as_str) {
            Some("interface" | "world") => items(item.get(3..item.len() - 1).unwrap_or_default()),
            Some("package") => vec![item.clone()],
            _ => return Err(format!("`{name}` is unheard of")),
        };
        let content = content.into_iter().map(|item| (key(&item), item.join(" "))).collect();
        if shape.insert(name.clone(), content).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    Ok(shape)
}

/// Returns the name of an item: `record entry`, `open`, and for imports and the like all of it.
fn key(item: &[String]) -> String {
    let words = match item {
        [kind, ..] if kind == "package" => 1,
        [_, colon, ..] if colon == ":" => 1,
        [kind, _, brace, ..] if kind != "use" && brace == "{" => 2,
        all => all.len(),
    };
    item[..words].join(" ")
}

/// The words and signs of a text without its comments. A name may begin with `%`, which is no part of it.
fn words(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut words: Vec<String> = Vec::new();
    for line in code {
        let mut is_open = false;
        for letter in line.chars() {
            let is_name = letter.is_alphanumeric() || "-_".contains(letter);
            match words.last_mut() {
                Some(word) if is_name && is_open => word.push(letter),
                _ if letter.is_whitespace() || letter == '%' => {}
                _ => words.push(letter.to_string()),
            }
            is_open = is_name;
        }
    }
    words
}

/// Splits words where an item ends: at a `;` or a closing brace of the outermost level. `include` and `use` have braces
/// before their `;`.
fn items(words: &[String]) -> Vec<Vec<String>> {
    let (mut items, mut item, mut depth) = (Vec::new(), Vec::new(), 0_usize);
    for (at, word) in words.iter().enumerate() {
        depth = match word.as_str() {
            "{" => depth + 1,
            "}" => depth.saturating_sub(1),
            _ => depth,
        };
        item.push(word.clone());
        let goes_on = words.get(at + 1).is_some_and(|next| next == ";");
        if depth == 0 && (word == ";" || word == "}" && !goes_on) {
            items.push(std::mem::take(&mut item));
        }
    }
    if !item.is_empty() {
        items.push(item);
    }
    items
}

/// Compares two contracts; a difference is an error that tells what to do.
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
        let may_grow = |thing: &str| place.starts_with("world ") && thing.starts_with("import ");
        let new = there
            .keys()
            .find(|thing| !things.contains_key(*thing) && !may_grow(thing));
        if let Some(new) = new {
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
            "use types.{failure};\n\n    /// Which entries",
            "use types.{report};\n\n    /// Which entries",
            "interface repository: `use types",
        ),
        (
            "package tool:skill@1.0.0",
            "package tool:skill@1.1.0",
            "package tool: `package` was",
        ),
        (
            "        truncated: bool,\n        /// Opaque",
            "        /// Opaque",
            "interface types: `record outcome` was",
        ),
        (
            "        truncated: bool,\n        /// Opaque",
            "        cut: bool,\n        /// Opaque",
            "interface types: `record outcome` was",
        ),
        (
            "        size: u64,\n",
            "        size: u32,\n",
            "interface repository: `record entry` was",
        ),
        (
            "        size: u64,\n",
            "        size: u64,\n        mode: u32,\n",
            "interface repository: `record entry` was",
        ),
        (
            "hint: option<string>",
            "hint: string",
            "interface types: `record failure` was",
        ),
        (
            "left-out: u32,",
            "left-out: option<u32>,",
            "interface repository: `record page` was",
        ),
        (
            "describe: func()",
            "describe: func(locale: string)",
            "interface handler: `describe` was",
        ),
        (
            "call: func(arguments: string)",
            "call: func(args: string)",
            "interface handler: `call` was",
        ),
        (
            "next: func() -> batch",
            "next: func() -> option<batch>",
            "interface bulk: `resource reader` was",
        ),
        (
            "resource reader {",
            "record reader-of {}\n    resource reader {",
            "interface bulk: `record reader-of` is new",
        ),
        (
            "    write: func(level",
            "    close: func();\n    write: func(level",
            "interface log: `close` is new",
        ),
        (
            "    write: func(level: string, message: string);\n",
            "",
            "interface log: `write` is gone",
        ),
        ("interface log {", "interface logs {", "interface log is gone"),
        ("    import packages;\n", "", "world skill: `import packages ;` is gone"),
        (
            "    export sharded;\n",
            "",
            "world sharded-skill: `export sharded ;` is gone",
        ),
        (
            "    export handler;\n",
            "    export handler;\n    export sharded;\n",
            "world skill: `export sharded ;` is new",
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
