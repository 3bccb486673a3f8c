//! References in languages other than Python, from the host's symbols.
//!
//! The host matches by syntax, without types. For a dotted name, the text directly before a use decides:
//! `Store::run`, or `self.run` in `Store`, is the symbol; any other use is `possible`. So is a bare name in a module of
//! JavaScript or TypeScript that neither defines nor imports it: it is a global or a local variable.

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
        let is_bound =
            !is_script_module(path, source) || named.iter().any(|one| binds_name(one, lines.line(source, one.line)));
        for one in named {
            let Some(at) = lines.find(source, one) else { continue };
            let line = lines.line(source, one.line);
            match judge_reference(&query.symbol, path, one, line) {
                Some(kind) if is_bound || !is_bare(one, line) => file.push(FoundMatch::at(kind, at)),
                Some(_) => file.push(FoundMatch::at(MatchKind::Possible, at)),
                None => {}
            }
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

/// True for a file of JavaScript or TypeScript that imports or exports, so that it shares no names with other files.
fn is_script_module(path: &str, source: &[u8]) -> bool {
    const ENDINGS: [&str; 11] = [
        "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "astro",
    ];
    let has = |word: &str| memchr::memmem::find(source, word.as_bytes()).is_some();
    path.rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending))
        && ["require(", "exports", "import ", "export "].into_iter().any(has)
}

/// True for a definition, an import, the name of a function in an expression, and a pattern that takes a member:
/// `const { run } = store`.
fn binds_name(one: &SymbolReference, line: &[u8]) -> bool {
    let holds = |text: &str| memchr::memmem::find(line, text.as_bytes()).is_some();
    match one.kind.as_str() {
        "definition" | "import" => true,
        "name" => holds("} =") || holds(&format!("function {}", one.name)),
        _ => false,
    }
}

/// True for a use that is no member of anything.
fn is_bare(one: &SymbolReference, line: &[u8]) -> bool {
    let is_member = |at| line[..at].trim_ascii_end().ends_with(b".");
    matches!(one.kind.as_str(), "call" | "type" | "name") && !memchr::memmem::find_iter(line, &one.name).any(is_member)
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
