//! Definitions and uses of one file in detail, as a component reads them from a syntax tree. Checked like an outline.

use std::cmp::Reverse;

use super::tree::{collect_bounded, is_name, text_at};
use super::{ByteSpan, NamedSymbol, SymbolForm};

/// Uses of one file. A file with more is data or generated.
const USES_MAX: usize = 50_000;

/// Bytes of a signature. A longer one is cut.
const SIGNATURE_BYTES_MAX: usize = 400;

/// Containers of one definition.
const CONTAINERS_MAX: usize = 32;

/// Kind of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseForm {
    /// It is called.
    Call,
    /// It is imported.
    Import,
    /// It is read or written on an object.
    Attribute,
    /// It is named as a type.
    Type,
    /// Any other use.
    Name,
}

/// One use of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolUse {
    /// Place of the name.
    pub name: ByteSpan,
    /// Kind of the use.
    pub form: UseForm,
    /// From 1.
    pub line: u32,
}

/// A definition with everything around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailedSymbol {
    /// The definition itself.
    pub named: NamedSymbol,
    /// First line of the whole, with its attributes.
    pub first_line: u32,
    /// First line of the comment right before it.
    pub comment_line: Option<u32>,
    /// The head.
    pub signature: ByteSpan,
    /// Names of the definitions around it, outermost first.
    pub containers: Vec<ByteSpan>,
}

impl DetailedSymbol {
    /// The name.
    pub fn name<'t>(&self, text: &'t str) -> &'t str {
        text_at(text, self.named.name).unwrap_or_default()
    }

    /// Kind of the definition.
    pub fn form(&self) -> SymbolForm {
        self.named.form
    }

    /// The head on one line, cut if it is too long.
    pub fn signature(&self, text: &str) -> String {
        let head = text_at(text, self.signature).unwrap_or_default();
        let words: Vec<&str> = head.split_whitespace().take(SIGNATURE_BYTES_MAX).collect();
        let mut signature = words.join(" ");
        if signature.len() > SIGNATURE_BYTES_MAX {
            let end = signature.floor_char_boundary(SIGNATURE_BYTES_MAX - '…'.len_utf8());
            signature.truncate(end);
            signature.push('…');
        }
        signature
    }

    /// Names of the definitions around it, joined by dots.
    pub fn container(&self, text: &str) -> String {
        let names: Vec<&str> = self.containers.iter().filter_map(|span| text_at(text, *span)).collect();
        names.join(".")
    }
}

/// Definitions and uses of a file. Every span in it holds a name of the text that it was checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxDetails {
    /// In the order of lines.
    pub symbols: Vec<DetailedSymbol>,
    /// In the order of the text.
    pub uses: Vec<SymbolUse>,
}

impl SyntaxDetails {
    /// Checks an answer about `text`; `None` if it cannot be correct.
    pub fn check_answer(
        symbols: impl Iterator<Item = DetailedSymbol>,
        uses: impl Iterator<Item = SymbolUse>,
        text: &str,
    ) -> Option<Self> {
        let mut symbols = collect_bounded(symbols)?;
        let mut uses: Vec<SymbolUse> = uses.take(USES_MAX + 1).collect();
        let lines = text.lines().count() as u32;
        let holds = |span: &ByteSpan| text_at(text, *span).is_some_and(is_name);
        let is_symbol = |symbol: &DetailedSymbol| {
            let NamedSymbol {
                name, line, end_line, ..
            } = symbol.named;
            let is_before = symbol
                .comment_line
                .is_none_or(|comment| (1..=symbol.first_line).contains(&comment));
            holds(&name)
                && (1..=line).contains(&symbol.first_line)
                && (line..=lines).contains(&end_line)
                && is_before
                && text_at(text, symbol.signature).is_some()
                && symbol.containers.len() <= CONTAINERS_MAX
                && symbol.containers.iter().all(holds)
        };
        let is_use = |one: &SymbolUse| holds(&one.name) && (1..=lines).contains(&one.line);
        if uses.len() > USES_MAX || !symbols.iter().all(is_symbol) || !uses.iter().all(is_use) {
            return None;
        }
        symbols.sort_by_key(|symbol| (symbol.named.line, symbol.named.name.start));
        uses.sort_by_key(|one| one.name.start);
        Some(Self { symbols, uses })
    }

    /// The innermost definition around a use. Of several on one line, the last that begins before the use.
    pub fn enclosing(&self, one: &SymbolUse) -> Option<&DetailedSymbol> {
        let encloses = |symbol: &&DetailedSymbol| {
            let lines = symbol.first_line..=symbol.named.end_line;
            let is_before = one.line == symbol.named.line && one.name.start < symbol.signature.start;
            lines.contains(&one.line) && !is_before
        };
        let around = self.symbols.iter().filter(encloses);
        around.min_by_key(|symbol| {
            let lines = symbol.named.end_line - symbol.first_line;
            (lines, Reverse(symbol.signature.start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "struct Store;\nimpl Store { fn open( &self,\n  path: P) { load(path) } }\n";

    fn span(of: &str) -> ByteSpan {
        let start = TEXT.rfind(of).expect("the text holds it") as u32;
        ByteSpan {
            start,
            end: start + of.len() as u32,
        }
    }

    fn open() -> DetailedSymbol {
        DetailedSymbol {
            named: NamedSymbol {
                name: span("open"),
                form: SymbolForm::Method,
                line: 2,
                end_line: 3,
                depth: 0,
            },
            first_line: 2,
            comment_line: None,
            signature: span("fn open( &self,\n  path: P)"),
            containers: vec![span("Store")],
        }
    }

    fn load() -> SymbolUse {
        SymbolUse {
            name: span("load"),
            form: UseForm::Call,
            line: 3,
        }
    }

    fn check(symbol: DetailedSymbol, one: SymbolUse) -> Option<SyntaxDetails> {
        SyntaxDetails::check_answer([symbol].into_iter(), [one].into_iter(), TEXT)
    }

    #[test]
    fn a_symbol_is_told_with_its_head_and_its_container() {
        let details = check(open(), load()).expect("it is about the text");
        let symbol = details.enclosing(&load()).expect("the call lies in it");
        assert_eq!(symbol.name(TEXT), "open");
        assert_eq!(symbol.signature(TEXT), "fn open( &self, path: P)");
        assert_eq!(symbol.container(TEXT), "Store");
        let elsewhere = SymbolUse { line: 1, ..load() };
        assert_eq!(details.enclosing(&elsewhere), None);
    }

    #[test]
    fn of_definitions_on_one_line_the_last_before_a_use_is_around_it() {
        const LINE: &str = "fn a() { x() } fn b() { y() }";
        let span = |of: &str| {
            let start = LINE.find(of).expect("the line holds it") as u32;
            let end = start + of.len() as u32;
            ByteSpan { start, end }
        };
        let function = |name: &str, head: &str| DetailedSymbol {
            named: NamedSymbol {
                name: span(name),
                form: SymbolForm::Function,
                line: 1,
                end_line: 1,
                depth: 0,
            },
            first_line: 1,
            comment_line: None,
            signature: span(head),
            containers: Vec::new(),
        };
        let call = |name: &str| SymbolUse {
            name: span(name),
            form: UseForm::Call,
            line: 1,
        };
        let symbols = [function("a()", "fn a()"), function("b()", "fn b()")];
        let details = SyntaxDetails::check_answer(symbols.into_iter(), [call("x"), call("y")].into_iter(), LINE);
        let details = details.expect("it is about the line");
        let around = |one: &SymbolUse| details.enclosing(one).map(|symbol| symbol.name(LINE));
        assert_eq!(
            details.uses.iter().map(around).collect::<Vec<_>>(),
            [Some("a()"), Some("b()")]
        );
    }

    #[test]
    fn an_answer_that_cannot_be_about_the_text_is_none() {
        let beyond = ByteSpan { start: 0, end: 9_999 };
        let wrong = [
            DetailedSymbol {
                first_line: 0,
                ..open()
            },
            DetailedSymbol {
                comment_line: Some(9),
                ..open()
            },
            DetailedSymbol {
                signature: beyond,
                ..open()
            },
            DetailedSymbol {
                containers: vec![beyond],
                ..open()
            },
        ];
        for symbol in wrong {
            assert_eq!(check(symbol, load()), None);
        }
        for line in [0, 4] {
            assert_eq!(check(open(), SymbolUse { line, ..load() }), None);
        }
        let nested = vec![span("Store"); CONTAINERS_MAX + 1];
        assert_eq!(
            check(
                DetailedSymbol {
                    containers: nested,
                    ..open()
                },
                load()
            ),
            None
        );
    }
}
