//! References in other languages than Python, from the host's symbols.
//!
//! The host matches by syntax, without types. For a dotted name the text right before a use decides whether it is this
//! one: `Store::run`, or `self.run` in `Store`; any other use is `possible`.

use skill_sdk::{Host, SymbolQuery, SymbolReference};

use crate::ReferenceQuery;
use crate::python::Symbol;
use crate::tally::{Match, MatchKind, Tally};

/// Adds the references of one file. False where the host has no syntax tree of it, so that text has to do.
pub(crate) fn search(host: &dyn Host, request: &ReferenceQuery, path: &str, source: &[u8], tally: &mut Tally) -> bool {
    let query = SymbolQuery {
        name: request.symbol.written.clone(),
        under: path.to_owned(),
        after: None,
    };
    let Ok(page) = host.references(&query) else {
        return false;
    };
    if page.items.iter().any(|one| one.kind == "text") {
        return false;
    }
    let lines = LineStarts::new(source);
    let mut file = tally.file(request, path, source);
    for one in &page.items {
        let Some(at) = lines.find(source, one) else { continue };
        if let Some(kind) = judge(&request.symbol, path, one, lines.line(source, one.line)) {
            file.push(Match::at(kind, at));
        }
    }
    file.close();
    true
}

/// Kind of a reference; none where it is surely another symbol of the same name.
fn judge(symbol: &Symbol, path: &str, one: &SymbolReference, line: &[u8]) -> Option<MatchKind> {
    let kind = MatchKind::of_symbol(&one.kind)?;
    let Some(owner) = symbol.owner() else {
        return Some(kind);
    };
    let is_around = one.container.rsplit(['.', ':']).next() == Some(owner);
    if kind == MatchKind::Definition {
        let is_module = one.container.is_empty() && stem(path) == owner;
        return (is_around || is_module).then_some(kind);
    }
    let is_inside = one.container.split(['.', ':']).any(|part| part == owner);
    let is_this = is_after(line, &one.name, owner) || is_inside && OWN.iter().any(|own| is_after(line, &one.name, own));
    Some(if is_this { kind } else { MatchKind::Possible })
}

/// Words for the type around.
const OWN: [&str; 5] = ["self", "this", "Self", "static", "@"];

/// Signs between an owner and its member.
const SEPARATORS: [&str; 5] = [".", "::", "->", "?.", ":"];

/// True where `owner` and a separator stand right before `name` somewhere in a line.
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

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// First bytes of the lines of a source.
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

    /// The place of a reference's name in its line.
    fn find(&self, source: &[u8], one: &SymbolReference) -> Option<usize> {
        let start = *self.0.get((one.line as usize).checked_sub(1)?)?;
        let line = self.line(source, one.line);
        Some(start + memchr::memmem::find(line, one.name.as_bytes()).unwrap_or(0))
    }
}
