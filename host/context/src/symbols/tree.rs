//! Checks the symbols that a component read from a syntax tree.
//!
//! The parser has read hostile text and may be compromised, so its answer is untrusted. Each name must be in the text
//! at its place, each line must exist, and an answer with more symbols than a file can hold is dropped. A lie that
//! passes causes only a wrong name.

use std::borrow::Cow;

use super::{ParsedImport, Syntax};

/// Definitions, imports and references of one file. The largest handwritten file has some two thousand.
const OUTLINE_ITEMS_MAX: usize = 10_000;

/// Bytes of the imports of one file, written out: nested lists multiply their parts. A ranked file without lists cannot
/// reach it.
const OUTLINE_IMPORT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one name. Longer ones are data.
const OUTLINE_NAME_BYTES_MAX: usize = 128;

/// A range of bytes in a text, as claimed by the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSpan {
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl ByteSpan {
    fn bytes(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }
}

/// Kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolForm {
    /// Outside of types.
    Function,
    /// Directly in a type, or with a receiver.
    Method,
    /// A class, a struct, an interface, an alias.
    Type,
    /// A constant, a variable of a module, a field.
    Value,
    /// A namespace inside of a file.
    Module,
}

/// A definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSymbol {
    /// Place of the name.
    pub name: ByteSpan,
    /// Kind of the definition.
    pub form: SymbolForm,
    /// Line of the name, from 1.
    pub line: u32,
    /// Last line of the whole.
    pub end_line: u32,
    /// Number of definitions around it.
    pub depth: u32,
}

/// An import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSite {
    /// True for a declaration of a module that is in another file.
    pub declares_module: bool,
    /// Leading dots.
    pub level: u32,
    /// As the language joins them.
    pub parts: Vec<ByteSpan>,
    /// Imported item, if there is one.
    pub item: Option<ByteSpan>,
}

impl ImportSite {
    /// Most bytes that it takes when written out.
    fn bytes(&self) -> usize {
        let parts = self.parts.iter().chain(&self.item);
        parts.map(|part| part.bytes() + SEPARATOR_BYTES_MAX).sum()
    }
}

/// Symbols of a file, from its syntax tree. Every span in it holds a name of the text that it was checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxOutline {
    syntax: Syntax,
    definitions: Vec<NamedSymbol>,
    imports: Vec<ImportSite>,
}

/// Most dots that a person writes before a module.
const LEVEL_MAX: u32 = 32;

/// Bytes of `::`, the longest separator between two parts.
const SEPARATOR_BYTES_MAX: usize = 2;

impl SyntaxOutline {
    /// Checks an answer about `text`; `None` if it cannot be correct.
    pub fn check_answer(
        syntax: Syntax,
        definitions: impl Iterator<Item = NamedSymbol>,
        imports: impl Iterator<Item = ImportSite>,
        text: &str,
    ) -> Option<Self> {
        let outline = Self {
            syntax,
            definitions: collect_bounded(definitions)?,
            imports: collect_bounded(imports)?,
        };
        outline.fits(text)
    }

    fn fits(mut self, text: &str) -> Option<Self> {
        let lines = text.lines().count() as u32;
        let holds = |span: &ByteSpan| text_at(text, *span).is_some_and(is_name);
        let is_right = |named: &NamedSymbol| {
            holds(&named.name) && (1..=lines).contains(&named.line) && (named.line..=lines).contains(&named.end_line)
        };
        let is_import = |import: &ImportSite| {
            let parts = import.parts.iter().chain(&import.item);
            import.parts.len() <= OUTLINE_ITEMS_MAX
                && import.level <= LEVEL_MAX
                && parts.clone().all(|part| text_at(text, *part).is_some_and(is_path))
        };
        let is_whole = self.definitions.iter().all(is_right);
        let import_bytes: usize = self.imports.iter().map(ImportSite::bytes).sum();
        if !is_whole || import_bytes > OUTLINE_IMPORT_BYTES_MAX || !self.imports.iter().all(is_import) {
            return None;
        }
        self.definitions.sort_by_key(|named| (named.line, named.name.start));
        Some(self)
    }

    /// The definitions with their names, in the order of lines.
    pub fn definitions<'t>(&self, text: &'t str) -> impl Iterator<Item = (&'t str, &NamedSymbol)> {
        let named = self.definitions.iter();
        named.filter_map(|named| Some((text_at(text, named.name)?, named)))
    }

    pub(crate) fn syntax(&self) -> Syntax {
        self.syntax
    }

    /// Calls `found` for each import, in the form of its language.
    pub fn each_import(&self, text: &str, mut found: impl FnMut(ParsedImport<'_>)) {
        for place in &self.imports {
            let separator = if self.syntax == Syntax::Rust { "::" } else { "." };
            let path = join_parts(text, &place.parts, separator);
            let path = path.as_ref();
            let item = place.item.and_then(|item| text_at(text, item));
            match self.syntax {
                Syntax::Python => found(ParsedImport::Python {
                    level: place.level as usize,
                    module: path,
                    name: item,
                }),
                Syntax::Rust if place.declares_module => found(ParsedImport::RustModule(path)),
                Syntax::Rust => found(ParsedImport::RustUse(path)),
                Syntax::Go => found(ParsedImport::Go(path)),
                Syntax::Java => found(ParsedImport::Java(path)),
                Syntax::Script | Syntax::C | Syntax::Ruby | Syntax::Other => found(ParsedImport::Path(path)),
            }
        }
    }
}

/// Collects the items; `None` if there are more than a file can honestly hold.
pub(super) fn collect_bounded<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.take(OUTLINE_ITEMS_MAX + 1).collect();
    (items.len() <= OUTLINE_ITEMS_MAX).then_some(items)
}

pub(super) fn text_at(text: &str, span: ByteSpan) -> Option<&str> {
    text.get(span.start as usize..span.end as usize)
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= OUTLINE_NAME_BYTES_MAX && !name.contains(|c: char| c.is_control())
}

/// A path may be spread over lines; its parts are joined without white space.
fn is_path(path: &str) -> bool {
    path.len() <= 4 * OUTLINE_NAME_BYTES_MAX
}

fn join_parts<'t>(text: &'t str, parts: &[ByteSpan], separator: &str) -> Cow<'t, str> {
    let is_plain = |part: &&str| !part.contains(|c: char| c.is_whitespace() || c.is_control());
    if let [part] = parts
        && let Some(part) = text_at(text, *part).filter(is_plain)
    {
        return Cow::Borrowed(part);
    }
    let mut joined = String::new();
    for part in parts.iter().filter_map(|part| text_at(text, *part)) {
        if !joined.is_empty() {
            joined.push_str(separator);
        }
        joined.extend(part.chars().filter(|c| !c.is_whitespace() && !c.is_control()));
    }
    Cow::Owned(joined)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline(definitions: Vec<NamedSymbol>, imports: Vec<ImportSite>) -> SyntaxOutline {
        SyntaxOutline {
            syntax: Syntax::Rust,
            definitions,
            imports,
        }
    }

    fn span(start: u32, end: u32) -> ByteSpan {
        ByteSpan { start, end }
    }

    fn named(name: ByteSpan, line: u32, end_line: u32) -> NamedSymbol {
        NamedSymbol {
            name,
            form: SymbolForm::Type,
            line,
            end_line,
            depth: 0,
        }
    }

    const TEXT: &str = "ab cé\nef\n";

    #[test]
    fn an_answer_that_cannot_be_about_the_text_is_none() {
        let fits = |outline: SyntaxOutline| outline.fits(TEXT).is_some();
        assert!(fits(outline(vec![named(span(0, 2), 1, 2)], Vec::new())));
        for (what, name) in [
            ("beyond the end", span(7, 99)),
            ("backwards", span(2, 0)),
            ("in the middle of a character", span(3, 5)),
            ("empty", span(1, 1)),
            ("over a line", span(0, 9)),
        ] {
            assert!(!fits(outline(vec![named(name, 1, 1)], Vec::new())), "{what}");
        }
        for (line, end_line) in [(0, 1), (3, 3), (2, 1), (1, 3)] {
            let one = named(span(0, 2), line, end_line);
            assert!(!fits(outline(vec![one], Vec::new())), "{line} {end_line}");
        }
        let import = |level, part| ImportSite {
            declares_module: false,
            level,
            parts: vec![part],
            item: None,
        };
        assert!(fits(outline(Vec::new(), vec![import(0, span(0, 2))])));
        assert!(!fits(outline(Vec::new(), vec![import(0, span(0, 20))])));
        assert!(!fits(outline(Vec::new(), vec![import(LEVEL_MAX + 1, span(0, 2))])));
    }

    #[test]
    fn more_than_a_file_holds_and_longer_names_are_none() {
        assert_eq!(
            collect_bounded(0..OUTLINE_ITEMS_MAX).map(|items| items.len()),
            Some(OUTLINE_ITEMS_MAX)
        );
        assert_eq!(collect_bounded(0..=OUTLINE_ITEMS_MAX), None);
        let long = "n".repeat(OUTLINE_NAME_BYTES_MAX + 1);
        assert!(is_name(&long[1..]) && !is_name(&long));
    }

    #[test]
    fn imports_that_multiply_their_parts_are_none() {
        let text = "p".repeat(512);
        let import = ImportSite {
            declares_module: false,
            level: 0,
            parts: vec![span(0, 510); 2],
            item: None,
        };
        let fits = |imports| outline(Vec::new(), imports).fits(&text).is_some();
        assert!(fits(vec![import.clone(); OUTLINE_IMPORT_BYTES_MAX / 1024]));
        assert!(!fits(vec![import; OUTLINE_IMPORT_BYTES_MAX / 1024 + 1]));
        let empty = ImportSite {
            declares_module: false,
            level: 0,
            parts: vec![span(0, 0); OUTLINE_ITEMS_MAX],
            item: None,
        };
        assert!(!fits(vec![empty; 53]), "what stands between parts counts");
    }

    #[test]
    fn parts_are_joined_as_the_language_does() {
        let text = "use a::b::{c, d ::\n e};";
        let place = |parts: Vec<ByteSpan>| ImportSite {
            declares_module: false,
            level: 0,
            parts,
            item: None,
        };
        let (c, d_e) = (vec![span(4, 8), span(11, 12)], vec![span(4, 8), span(14, 21)]);
        let outline = outline(Vec::new(), vec![place(c), place(d_e)]);
        let mut found = Vec::new();
        outline.each_import(text, |import| found.push(format!("{import:?}")));
        assert_eq!(found, [r#"RustUse("a::b::c")"#, r#"RustUse("a::b::d::e")"#]);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic(numbers in proptest::collection::vec(0..20_u32, 0..60), text in "\\PC{0,12}") {
            let mut numbers = numbers.into_iter();
            let mut next = || numbers.next().unwrap_or(0);
            let mut definitions = Vec::new();
            let mut imports = Vec::new();
            for _ in 0..4 {
                definitions.push(named(span(next(), next()), next(), next()));
                let item = Some(span(next(), next()));
                imports.push(ImportSite { declares_module: false, level: next(), parts: vec![span(next(), next())], item });
            }
            if let Some(outline) = outline(definitions, imports).fits(&text) {
                prop_assert!(outline.definitions(&text).all(|(name, _)| text.contains(name)));
                outline.each_import(&text, |_| {});
            }
        }
    }
}
