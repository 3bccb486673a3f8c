//! Finds the definitions that a call can mean, by the text around the call.

use std::ops::RangeInclusive;

use crate::SelectionTree;
use crate::symbols::{DetailedSymbol, SymbolForm};
use tool_repository::file_role::{detect_language, file_name, file_stem, parent_directory};

use super::last_part;

/// A definition that a call can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownDefinition {
    pub(super) path: String,
    pub(super) name: String,
    /// Names of the definitions around it, joined by dots.
    pub(super) container: String,
    pub(super) form: SymbolForm,
    pub(super) line: u32,
    /// Lines of the definition; several if it has several parts, such as clauses.
    pub(super) spans: Vec<RangeInclusive<u32>>,
}

impl KnownDefinition {
    pub(super) fn new(path: &str, symbol: &DetailedSymbol, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            name: symbol.name(text).to_owned(),
            container: symbol.container(text),
            form: symbol.form(),
            line: symbol.named.line,
            spans: vec![symbol.first_line..=symbol.named.end_line],
        }
    }

    /// The innermost enclosing definition. For a method this is its type.
    pub(super) fn owner(&self) -> Option<&str> {
        last_part(&self.container)
    }

    pub(super) fn is_type(&self) -> bool {
        matches!(self.form, SymbolForm::Type | SymbolForm::Module)
    }

    pub(super) fn encloses(&self, line: u32) -> bool {
        self.spans.iter().any(|span| span.contains(&line))
    }

    pub(super) fn full_name(&self) -> String {
        match self.owner() {
            Some(owner) => format!("{owner}.{}", self.name),
            None => self.name.clone(),
        }
    }

    /// True for code in a module of unit tests (Rust).
    pub(super) fn is_in_tests(&self) -> bool {
        self.container.split('.').any(|part| matches!(part, "test" | "tests"))
    }

    fn is_method(&self) -> bool {
        self.form == SymbolForm::Method
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Qualifier {
    /// No qualifier, or a path to the own module.
    Bare,
    /// The receiver or the own type: `self.`, `this.`.
    Own,
    Name(String),
    Expression,
}

impl Qualifier {
    /// Reads the qualifier before a name that starts at a byte; `receiver` is the receiver variable (Go).
    pub(super) fn parse_before(text: &str, start: usize, receiver: Option<&str>) -> Self {
        const SEPARATORS: [&str; 6] = ["?.", "&.", "::", "->", ".", "\\"];
        let before = text.get(..start).unwrap_or_default().trim_end();
        let joined = SEPARATORS
            .iter()
            .find_map(|separator| Some((separator, before.strip_suffix(separator)?)));
        let Some((separator, before)) = joined.filter(|(_, before)| !before.ends_with('.')) else {
            return Self::Bare;
        };
        let before = before.trim_end();
        let is_sign = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
        let rest = before.trim_end_matches(is_sign);
        let word = before[rest.len()..].trim_start_matches(['$', '@']);
        match word {
            "" => Self::Expression,
            "super" | "crate" | "self" if *separator == "::" => Self::Bare,
            "self" | "this" | "Self" | "cls" | "static" | "__MODULE__" => Self::Own,
            "super" | "base" | "parent" => Self::Expression,
            word if Some(word) == receiver => Self::Own,
            word => Self::Name(word.to_owned()),
        }
    }
}

/// A call, with facts of its file.
pub(super) struct CallSite<'a> {
    pub(super) path: &'a str,
    /// The type whose code it is.
    pub(super) owner: Option<&'a str>,
    pub(super) qualifier: &'a Qualifier,
    /// True where the file imports the called name.
    pub(super) is_imported: bool,
    /// Indices of the files that the file imports.
    pub(super) imports: &'a [u32],
    pub(super) tree: &'a SelectionTree<'a>,
}

/// How a language looks up unqualified names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BareNameScope {
    /// An unqualified name is defined in the file or imported.
    Explicit,
    /// An unqualified name may be a method of the own type.
    ImplicitOwn,
    /// An unqualified name may belong to the package, which is a folder (Go).
    Package,
    Global,
}

fn scoping_of_language(path: &str) -> BareNameScope {
    match detect_language(path) {
        Some("Python" | "Cython" | "JavaScript" | "TypeScript" | "Rust") => BareNameScope::Explicit,
        Some("Java" | "Kotlin" | "C#" | "Ruby" | "C++" | "Scala" | "Elixir") => BareNameScope::ImplicitOwn,
        Some("Go") => BareNameScope::Package,
        _ => BareNameScope::Global,
    }
}

/// One name for languages that call each other's functions.
fn language_family(path: &str) -> Option<&'static str> {
    Some(match detect_language(path)? {
        "TypeScript" | "Vue" | "Svelte" => "JavaScript",
        "C++" => "C",
        "Kotlin" => "Java",
        "Cython" => "Python",
        other => other,
    })
}

/// The definitions that a call can mean, as indices into `known`. The flag is true if only the name matches. `None` if
/// the call must mean something else.
pub(super) fn match_call_site(site: &CallSite<'_>, known: &[KnownDefinition]) -> Option<(Vec<usize>, bool)> {
    let own_family = language_family(site.path);
    let of = |fits: DefinitionTest<'_>| -> Vec<usize> {
        let all = known.iter().enumerate();
        all.filter(|(_, one)| language_family(&one.path) == own_family && fits(one))
            .map(|(at, _)| at)
            .collect()
    };
    let is_local = |one: &KnownDefinition| one.path == site.path;
    let is_imported = |one: &KnownDefinition| {
        let at = site.tree.find(&one.path);
        at.is_some_and(|at| site.imports.contains(&(at as u32)))
    };
    // Prefers definitions of the same file, then those of imported files.
    let nearest = |found: Vec<usize>| {
        let of_these =
            |fits: DefinitionTest<'_>| -> Vec<usize> { found.iter().copied().filter(|at| fits(&known[*at])).collect() };
        [of_these(&is_local), of_these(&is_imported)]
            .into_iter()
            .find(|near| !near.is_empty())
            .unwrap_or(found)
    };
    let sure = |found: Vec<usize>| (!found.is_empty()).then(|| (nearest(found), false));
    let by_name = |found: Vec<usize>| (!found.is_empty()).then_some((found, true));
    match site.qualifier {
        Qualifier::Own => {
            let owned = of(&|one| one.owner().is_some() && one.owner() == site.owner);
            // If the own type lacks the method, it is inherited.
            sure(owned).or_else(|| by_name(of(&KnownDefinition::is_method)))
        }
        Qualifier::Name(name) => {
            let owned = of(&|one| one.owner() == Some(name.as_str()));
            let in_module = || {
                let is_module = |one: &KnownDefinition| {
                    let folder = file_name(parent_directory(&one.path));
                    !one.is_method() && (file_stem(&one.path) == name.as_str() || folder == name.as_str())
                };
                sure(of(&is_module))
            };
            let methods = || by_name(of(&KnownDefinition::is_method));
            let others = || by_name(of(&is_imported));
            sure(owned).or_else(in_module).or_else(methods).or_else(others)
        }
        Qualifier::Expression => by_name(of(&KnownDefinition::is_method)),
        Qualifier::Bare => resolve_bare_call(site, &of, &sure, &by_name, &is_local, &is_imported),
    }
}

type ResolvedCall = Option<(Vec<usize>, bool)>;
type DefinitionTest<'f> = &'f dyn Fn(&KnownDefinition) -> bool;

fn resolve_bare_call(
    site: &CallSite<'_>,
    of: &dyn Fn(DefinitionTest<'_>) -> Vec<usize>,
    sure: &dyn Fn(Vec<usize>) -> ResolvedCall,
    by_name: &dyn Fn(Vec<usize>) -> ResolvedCall,
    is_local: DefinitionTest<'_>,
    is_imported: DefinitionTest<'_>,
) -> ResolvedCall {
    let scoping = scoping_of_language(site.path);
    let is_own = |one: &KnownDefinition| {
        scoping == BareNameScope::ImplicitOwn && one.owner().is_some() && one.owner() == site.owner
    };
    let is_free = |one: &KnownDefinition| !one.is_method();
    let is_near = |one: &KnownDefinition| {
        scoping == BareNameScope::Package && parent_directory(&one.path) == parent_directory(site.path)
    };
    let found = sure(of(&is_own))
        .or_else(|| sure(of(&|one| is_local(one) && is_free(one))))
        .or_else(|| sure(of(&|one| is_near(one) && is_free(one))))
        .or_else(|| sure(of(&|one| is_imported(one) && is_free(one))));
    if found.is_some() {
        return found;
    }
    let free = of(&is_free);
    match scoping {
        BareNameScope::Explicit | BareNameScope::Package if !site.is_imported => None,
        BareNameScope::Explicit | BareNameScope::Global if free.len() == 1 => sure(free),
        BareNameScope::ImplicitOwn if site.owner.is_some() => by_name(of(&|_| true)),
        _ => by_name(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_before_a_name_tells_its_owner() {
        for (text, expected) in [
            ("x = total(", Qualifier::Bare),
            ("self.total(", Qualifier::Own),
            ("$this->total(", Qualifier::Own),
            ("Self::total(", Qualifier::Own),
            ("super::total(", Qualifier::Bare),
            ("super.total(", Qualifier::Expression),
            ("Cart::total(", Qualifier::Name("Cart".to_owned())),
            ("cart\n    .total(", Qualifier::Name("cart".to_owned())),
            ("c.total(", Qualifier::Own),
            ("open().total(", Qualifier::Expression),
            ("0..total(", Qualifier::Bare),
        ] {
            let start = text.find("total").expect("the text holds the name");
            assert_eq!(Qualifier::parse_before(text, start, Some("c")), expected, "{text}");
        }
    }
}
