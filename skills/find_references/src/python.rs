//! References to a symbol in a Python file, separated from other uses of its name.
//!
//! For a bare name, every use counts. For a dotted name, each use is resolved: through the imports of its file, the
//! class around `self`, and the file's own dotted name. Types are not inferred; uses that depend on them are
//! `possible`.

use std::collections::HashMap;

use skill_sdk::Failure;
use syntax::{Import, Module, Use, UseKind, names};

use crate::ReferenceQuery;
use crate::tally::{FoundMatch, MatchKind, SearchTally};

pub(crate) struct SearchedSymbol {
    /// The symbol as it was requested.
    pub(crate) written: String,
}

impl SearchedSymbol {
    /// Parses an identifier or a dotted name.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let written = text.trim();
        let written = written.strip_suffix("()").unwrap_or(written);
        let written = &written.replace("::", ".").replace(['#', '\\'], ".");
        // Other languages allow other letters.
        let word = |part: &str| {
            let plain = part.strip_suffix(['?', '!', '=']).unwrap_or(part);
            names::is_identifier(&plain.replace('$', "_"))
        };
        if written.split('.').all(word) {
            return Ok(Self {
                written: written.to_owned(),
            });
        }
        Err(
            Failure::invalid(format!("`{text}` is not an identifier or a dotted name"))
                .with_hint("use search_code for regular expressions and other text"),
        )
    }

    pub(crate) fn last(&self) -> &str {
        self.written.rsplit('.').next().unwrap_or(&self.written)
    }

    /// The part before the last one, if there is one.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.written.rsplit('.').nth(1)
    }

    /// True if the name has more than one part.
    pub(crate) fn is_dotted(&self) -> bool {
        self.written.contains('.')
    }
}

/// Adds the references in one file to the tallies of the symbols that it contains.
pub(crate) fn search_module(
    queries: &[ReferenceQuery],
    held: &[usize],
    path: &str,
    module: &Module<'_>,
    tallies: &mut [SearchTally],
) {
    let imports = module.imports();
    let fault = module.faults(1).first().map(|fault| format!("{path}:{}", fault.line));
    for &at in held {
        let (query, tally) = (&queries[at], &mut tallies[at]);
        let scope = FileNames::new(path, module, &imports, &query.symbol);
        let mut wanted: Vec<&str> = vec![query.symbol.last()];
        wanted.extend(scope.aliases.iter().map(String::as_str));
        let mut file = tally.file(query, path, module.source());
        for found in module.uses(&wanted) {
            if let Some(kind) = scope.judge(&found) {
                file.push(FoundMatch::at(kind, found.at));
            }
        }
        file.close();
        tally.broken.extend(fault.clone());
    }
}

/// Names of one file and their meanings.
struct FileNames<'a> {
    path: &'a str,
    module: String,
    symbol: &'a SearchedSymbol,
    /// Local names of imports, with their meanings.
    imports: HashMap<String, String>,
    /// Names under which the file imports the symbol.
    aliases: Vec<String>,
    /// Names that the file itself defines.
    own: Vec<String>,
    /// Qualified names of what its classes define.
    members: Vec<String>,
    /// True if `from x import *` may define any name.
    star: bool,
}

impl<'a> FileNames<'a> {
    fn new(path: &'a str, module: &Module<'_>, imports: &[Import], symbol: &'a SearchedSymbol) -> Self {
        let taken = |import: &&Import| {
            let name = import.name.as_deref().unwrap_or(&import.module);
            names::ends_with(name, symbol.last())
                && (!symbol.is_dotted() || names::ends_with(&import.meaning(path), &symbol.written))
        };
        Self {
            path,
            module: names::module_of(path),
            symbol,
            aliases: imports
                .iter()
                .filter(taken)
                .filter_map(|import| import.alias.clone())
                .filter(|alias| alias != symbol.last())
                .collect(),
            own: if symbol.is_dotted() {
                module.top_level_names()
            } else {
                Vec::new()
            },
            members: if symbol.is_dotted() {
                member_names(module)
            } else {
                Vec::new()
            },
            star: imports.iter().any(|import| import.name.as_deref() == Some("*")),
            imports: imports
                .iter()
                .filter_map(|import| Some((import.local()?.to_owned(), import.meaning(path))))
                .collect(),
        }
    }

    fn judge(&self, found: &Use) -> Option<MatchKind> {
        let kind = match found.kind {
            UseKind::Definition => MatchKind::Definition,
            UseKind::Call => MatchKind::Call,
            UseKind::Import => MatchKind::Import,
            UseKind::Attribute => MatchKind::Attribute,
            UseKind::Name => MatchKind::Name,
        };
        let name = found.dotted.rsplit('.').next().unwrap_or(&found.dotted);
        if self.aliases.iter().any(|alias| alias == name) {
            // Another name of the symbol, unless it belongs to an object.
            return (found.dotted == name && matches!(kind, MatchKind::Call | MatchKind::Name)).then_some(kind);
        }
        if !self.symbol.is_dotted() {
            return Some(kind);
        }
        match self.compare(found) {
            UseJudgement::Same => Some(kind),
            UseJudgement::Unknown => Some(MatchKind::Possible),
            UseJudgement::Other => None,
        }
    }

    fn compare(&self, found: &Use) -> UseJudgement {
        let symbol = self.symbol.written.as_str();
        let same = |meaning: &str| names::ends_with(meaning, symbol);
        let dotted = found.dotted.as_str();
        match found.kind {
            UseKind::Definition => return UseJudgement::from_same(same(&self.defined(found))),
            UseKind::Import => return UseJudgement::from_same(same(&names::resolve_module(self.path, dotted))),
            _ => {}
        }
        let (head, rest) = dotted.split_once('.').unwrap_or((dotted, ""));
        if matches!(head, "self" | "cls")
            && let Some(class) = self.class_around(found)
        {
            let member = format!("{class}.{rest}");
            // A member that the class does not define may be inherited from the meant class.
            return if same(&self.full(&member)) {
                UseJudgement::Same
            } else {
                UseJudgement::unless_other(!self.members.contains(&member))
            };
        }
        if let Some(meaning) = self.imports.get(head) {
            let meaning = if rest.is_empty() {
                meaning.clone()
            } else {
                format!("{meaning}.{rest}")
            };
            return UseJudgement::from_same(same(&meaning));
        }
        if self.own.iter().any(|own| own == head) {
            // An object or a class that the module defines.
            let meaning = self.full(dotted);
            let is_class = head.starts_with(|first: char| first.is_uppercase());
            return match same(&meaning) {
                true => UseJudgement::Same,
                false if rest.is_empty() || is_class => UseJudgement::Other,
                false => UseJudgement::Unknown,
            };
        }
        if same(dotted) {
            return UseJudgement::Same;
        }
        // A name without a dot is local, or comes from a star import.
        if rest.is_empty() {
            UseJudgement::unless_other(self.star)
        } else {
            UseJudgement::Unknown
        }
    }

    fn defined(&self, found: &Use) -> String {
        let mut parts: Vec<&str> = found.scopes.iter().map(|scope| scope.name.as_str()).collect();
        parts.push(&found.dotted);
        self.full(&parts.join("."))
    }

    /// The qualified name of the innermost class around a place.
    fn class_around(&self, found: &Use) -> Option<String> {
        let class = found.scopes.iter().rposition(|scope| scope.is_class)?;
        let parts: Vec<&str> = found.scopes[..=class].iter().map(|scope| scope.name.as_str()).collect();
        Some(parts.join("."))
    }

    fn full(&self, qualified: &str) -> String {
        format!("{}.{qualified}", self.module)
    }
}

fn member_names(module: &Module<'_>) -> Vec<String> {
    let definitions = module.definitions().into_iter();
    definitions
        .filter(|definition| definition.parent.is_some())
        .map(|definition| definition.qualified)
        .collect()
}

/// Result of comparing a use with the symbol.
enum UseJudgement {
    Same,
    Other,
    Unknown,
}

impl UseJudgement {
    fn from_same(same: bool) -> Self {
        if same { Self::Same } else { Self::Other }
    }

    fn unless_other(unknown: bool) -> Self {
        if unknown { Self::Unknown } else { Self::Other }
    }
}
