//! References in languages other than Python, from the host's symbols.
//!
//! The host matches by syntax, without types. For a dotted name, the text directly before a use decides:
//! `Store::run`, or `self.run` in `Store`, is the symbol; any other use is `possible`. So is a bare name in a module of
//! JavaScript or TypeScript that neither defines nor imports it: it is a global or a local variable. In JavaScript, a
//! member of an object is the symbol only if the file shows where the object comes from.

use std::collections::HashMap;

use skill_sdk::{Host, SymbolQuery, SymbolReference};

use crate::ReferenceQuery;
use crate::python::SearchedSymbol;
use crate::tally::{FoundMatch, MatchKind, SearchTally};

/// Adds the references in one file to the tallies of the symbols that it contains. Returns false if the host has no
/// syntax tree of it, so that the file is searched as text.
pub(crate) fn search_tree(
    host: &dyn Host,
    queries: &[ReferenceQuery],
    held: &[usize],
    path: &str,
    source: &[u8],
    tallies: &mut [SearchTally],
) -> bool {
    let found = match held {
        [one] => references_in_file(host, &queries[*one].symbol, path),
        _ => all_references(host, path),
    };
    let Some(found) = found else { return false };
    let lines = LineStarts::new(source);
    for &at in held {
        let query = &queries[at];
        let mut file = tallies[at].file(query, path, source);
        let named: Vec<&SymbolReference> = found.iter().filter(|one| one.name == query.symbol.last()).collect();
        let mut script = is_script(path).then(|| ScriptFile::new(path, source, &lines, &named));
        for one in named {
            let Some(at) = lines.find(source, one) else { continue };
            let line = lines.line(source, one.line);
            let Some(kind) = judge_reference(&query.symbol, path, one, line) else {
                continue;
            };
            let is_open = query.symbol.owner().is_none() && script.as_mut().is_some_and(|file| !file.shows(one, line));
            file.push(FoundMatch::at(if is_open { MatchKind::Possible } else { kind }, at));
        }
        file.close();
    }
    true
}

/// The references to one symbol in a file.
fn references_in_file(host: &dyn Host, symbol: &SearchedSymbol, path: &str) -> Option<Vec<SymbolReference>> {
    let query = SymbolQuery {
        name: symbol.written.clone(),
        under: path.to_owned(),
        after: None,
    };
    let found = host.references(&query).ok()?.items;
    // Of a file without a tree, the host knows only words; of a component with a template, both.
    (found.is_empty() || found.iter().any(|one| one.kind != "text")).then_some(found)
}

/// The references to all symbols of a file, in two requests instead of one for each symbol.
fn all_references(host: &dyn Host, path: &str) -> Option<Vec<SymbolReference>> {
    let defined = host.outline(path).ok()?.into_iter().map(|one| SymbolReference {
        path: one.path,
        name: one.name,
        kind: "definition".to_owned(),
        line: one.line,
        container: one.container,
    });
    let used = host.uses(path, 1, u32::MAX).ok()?;
    Some(defined.chain(used).collect())
}

/// Assignments of `new` that are followed to a class.
const STEPS_MAX: usize = 2;

/// True for JavaScript and TypeScript.
fn is_script(path: &str) -> bool {
    const ENDINGS: [&str; 11] = [
        "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "astro",
    ];
    path.rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Where the names of one file of JavaScript or TypeScript come from.
struct ScriptFile<'a> {
    source: &'a [u8],
    /// True if receivers have no types.
    is_untyped: bool,
    /// True if a bare name may be the symbol: the file defines or imports it, or shares all names with other files.
    is_bound: bool,
    is_exporting: bool,
    /// The objects on which the file defines the name.
    owners: Vec<&'a str>,
    is_defining: bool,
    /// Receivers, and whether the file shows where they come from.
    known: HashMap<&'a str, bool>,
}

impl<'a> ScriptFile<'a> {
    fn new(path: &str, source: &'a [u8], lines: &LineStarts, named: &[&SymbolReference]) -> Self {
        let has = |word: &str| memchr::memmem::find(source, word.as_bytes()).is_some();
        let is_exporting = has("exports") || has("export ");
        let is_module = is_exporting || has("require(") || has("import ");
        let binds = |one: &&SymbolReference| binds_name(one, lines.line(source, one.line));
        let defined = || named.iter().filter(|one| one.kind == "definition");
        Self {
            source,
            is_untyped: path.ends_with("js") || path.ends_with(".jsx"),
            is_bound: !is_module || named.iter().any(binds),
            is_exporting,
            owners: defined()
                .filter_map(|one| receiver_of(lines.line(source, one.line), &one.name))
                .collect(),
            is_defining: defined().next().is_some(),
            known: HashMap::new(),
        }
    }

    /// True if the file shows that a use may be the symbol.
    fn shows(&mut self, one: &SymbolReference, line: &'a [u8]) -> bool {
        match (one.kind.as_str(), receiver_of(line, &one.name)) {
            ("call" | "attribute", Some(receiver)) => {
                !self.is_untyped
                    || self.known.get(receiver).copied().unwrap_or_else(|| {
                        let is_known = self.knows(receiver, STEPS_MAX);
                        self.known.insert(receiver, is_known);
                        is_known
                    })
            }
            ("call" | "type" | "name", None) => self.is_bound,
            // A key of an object: `{ run: start }`.
            ("attribute", None) => !self.is_untyped || self.is_bound || self.is_exporting,
            _ => true,
        }
    }

    /// True for an object of the repository: it belongs to the definition, or the file makes or imports it. Follows `new`
    /// over some steps.
    fn knows(&self, receiver: &str, steps: usize) -> bool {
        const BUILT_IN: &str = " Array Buffer Date Error JSON Map Math Number Object Promise Reflect RegExp Set String Symbol TypeError URL ";
        if receiver == "this" || receiver == "super" {
            return self.is_defining;
        }
        if self.owners.contains(&receiver) || matches!(receiver, "exports" | "prototype") {
            return true;
        }
        if receiver.is_empty() || steps == 0 || BUILT_IN.contains(&format!(" {receiver} ")) {
            return false;
        }
        let mut is_known = receiver.starts_with(|first: char| first.is_ascii_uppercase());
        for at in syntax::names::word_hits(self.source, receiver) {
            let start = memchr::memrchr(b'\n', &self.source[..at]).map_or(0, |feed| feed + 1);
            let end = memchr::memchr(b'\n', &self.source[at..]).map_or(self.source.len(), |feed| at + feed);
            let line = String::from_utf8_lossy(&self.source[start..end]);
            if line.contains("= require(") || line.trim_start().starts_with("import ") {
                is_known = ["'.", "\".", "'@/", "\"@/", "'~", "\"~", "'#", "\"#"]
                    .iter()
                    .any(|own| line.contains(own));
                continue;
            }
            let after = String::from_utf8_lossy(&self.source[at + receiver.len()..end]);
            let Some(value) = after.trim_start().strip_prefix("= ") else {
                continue;
            };
            is_known = match value.strip_prefix("new ") {
                Some(class) => {
                    let end = class.find(|sign: char| !sign.is_alphanumeric() && sign != '_');
                    self.knows(&class[..end.unwrap_or(class.len())], steps - 1)
                }
                None => ["class", "function"].iter().any(|word| value.starts_with(word)),
            };
        }
        is_known
    }
}

/// True for an import and a pattern that takes a member, `const { run } = store`, and for a definition and the name of a
/// function in an expression, unless they belong to an object.
fn binds_name(one: &SymbolReference, line: &[u8]) -> bool {
    let holds = |text: &str| memchr::memmem::find(line, text.as_bytes()).is_some();
    let is_alone = || receiver_of(line, &one.name).is_none();
    match one.kind.as_str() {
        "import" => true,
        "definition" => is_alone(),
        "name" => holds("} =") || holds(&format!("function {}", one.name)) && is_alone(),
        _ => false,
    }
}

/// The name before the dot of a member; empty if a call, an index or a longer chain stands there.
fn receiver_of<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    let mut members = memchr::memmem::find_iter(line, name).filter_map(|at| {
        let before = line[..at].trim_ascii_end().strip_suffix(b".")?;
        Some(before.strip_suffix(b"?").unwrap_or(before))
    });
    let before = members.next()?;
    let is_word = |byte: &u8| syntax::names::is_word_byte(*byte) || *byte == b'$';
    let start = before.iter().rposition(|byte| !is_word(byte)).map_or(0, |at| at + 1);
    let word = str::from_utf8(&before[start..]).unwrap_or_default();
    let is_chain = before[..start].ends_with(b".") && !matches!(word, "exports" | "prototype");
    Some(if is_chain { "" } else { word })
}

/// Kind of a reference; `None` if it is certainly another symbol of the same name.
fn judge_reference(symbol: &SearchedSymbol, path: &str, one: &SymbolReference, line: &[u8]) -> Option<MatchKind> {
    let kind = MatchKind::of_symbol(&one.kind)?;
    let Some(owner) = symbol.owner() else {
        return Some(kind);
    };
    let is_around = one.container.rsplit(['.', ':']).next() == Some(owner);
    if kind == MatchKind::Definition {
        let is_module = one.container.is_empty() && file_stem(path) == owner;
        return (is_around || is_module).then_some(kind);
    }
    let is_inside = one.container.split(['.', ':']).any(|part| part == owner);
    let is_this = is_after(line, &one.name, owner) || is_inside && OWN.iter().any(|own| is_after(line, &one.name, own));
    Some(if is_this { kind } else { MatchKind::Possible })
}

/// Keywords for the enclosing type.
const OWN: [&str; 5] = ["self", "this", "Self", "static", "@"];

/// Separators between an owner and its member.
const SEPARATORS: [&str; 5] = [".", "::", "->", "?.", ":"];

/// True if `owner` and a separator come directly before `name` somewhere in the line.
fn is_after(line: &[u8], name: &str, owner: &str) -> bool {
    let is_owner = |before: &[u8]| {
        let before = before.trim_ascii_end();
        let rest = before.strip_suffix(owner.as_bytes());
        rest.is_some_and(|rest| rest.last().is_none_or(|&byte| !syntax::names::is_word_byte(byte)))
    };
    memchr::memmem::find_iter(line, name).any(|at| {
        let before = line[..at].trim_ascii_end();
        let joined = SEPARATORS
            .iter()
            .filter_map(|separator| before.strip_suffix(separator.as_bytes()));
        joined.into_iter().any(is_owner)
    })
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// Offsets of the lines of a source.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(source: &[u8]) -> Self {
        let starts = memchr::memchr_iter(b'\n', source).map(|at| at + 1);
        Self(std::iter::once(0).chain(starts).collect())
    }

    fn line<'a>(&self, source: &'a [u8], line: u32) -> &'a [u8] {
        let at = line as usize;
        let start = at
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .copied()
            .unwrap_or(source.len());
        let end = self.0.get(at).copied().unwrap_or(source.len());
        &source[start..end]
    }

    /// The offset of a reference's name in the source.
    fn find(&self, source: &[u8], one: &SymbolReference) -> Option<usize> {
        let start = *self.0.get((one.line as usize).checked_sub(1)?)?;
        let line = self.line(source, one.line);
        Some(start + memchr::memmem::find(line, one.name.as_bytes()).unwrap_or(0))
    }
}
