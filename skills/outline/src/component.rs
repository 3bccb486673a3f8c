//! The component side: the contract's records, and the macro that exports them.

use tree_sitter::Language;

use crate::{Definition, DefinitionKind, Grammar, Outline, Span, UseKind};
use bindings::exports::tool::symbols::outline as wit;

#[allow(missing_docs, reason = "generated from `wit/symbols`, which documents it")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/symbols",
        inline: "
            package tool:component;
            world symbols {
                export tool:symbols/outline@1.0.0;
            }
        ",
        world: "tool:component/symbols",
        pub_export_macro: true,
        default_bindings_module: "outline::component::bindings",
    });
}

/// A language of a component.
pub struct Reader {
    /// Grammar of the language.
    pub language: Language,
    /// Table for outlines; absent if the patterns are used for them as well.
    pub grammar: Option<&'static Grammar>,
    /// Patterns for details.
    pub patterns: &'static str,
}

impl Reader {
    /// Reads an outline.
    ///
    /// Returns `None` if the file cannot be parsed.
    pub fn read(&self, content: &[u8]) -> Option<wit::Outlined> {
        let outline = match self.grammar {
            Some(grammar) => crate::walk_outline(&self.language, grammar, content),
            None => crate::read_outline(&self.language, self.patterns, content),
        };
        outline.map(outlined)
    }

    /// Reads definitions and uses, of `name` if it is given.
    pub fn read_details(&self, content: &[u8], name: Option<&str>) -> Option<wit::Detailed> {
        let detailed = crate::read_details(&self.language, self.patterns, content, name)?;
        let definitions = detailed
            .definitions
            .into_iter()
            .map(|detailed| wit::DetailedDefinition {
                definition: definition(detailed.definition),
                first_line: detailed.first_line as u32,
                comment_line: detailed.comment_line.map(|line| line as u32),
                signature: span(detailed.signature),
                containers: detailed.containers.into_iter().map(span).collect(),
            });
        let uses = detailed.uses.into_iter().map(|one| wit::Used {
            name: span(one.name),
            kind: match one.kind {
                UseKind::Call => wit::UseKind::Call,
                UseKind::Import => wit::UseKind::Import,
                UseKind::Attribute => wit::UseKind::Attribute,
                UseKind::Type => wit::UseKind::Type,
                UseKind::Name => wit::UseKind::Name,
            },
            line: one.line as u32,
        });
        Some(wit::Detailed {
            definitions: definitions.collect(),
            uses: uses.collect(),
        })
    }
}

fn outlined(outline: Outline) -> wit::Outlined {
    let imports = outline.imports.into_iter().map(|import| wit::Imported {
        declares_module: import.declares_module,
        level: import.level as u32,
        parts: import.parts.into_iter().map(span).collect(),
        item: import.item.map(span),
    });
    wit::Outlined {
        definitions: outline.definitions.into_iter().map(definition).collect(),
        imports: imports.collect(),
    }
}

fn definition(definition: Definition) -> wit::Definition {
    wit::Definition {
        name: span(definition.name),
        kind: kind(definition.kind),
        line: definition.line as u32,
        end_line: definition.end_line as u32,
        depth: definition.depth as u32,
    }
}

fn span(span: Span) -> wit::Span {
    wit::Span {
        start: span.start as u32,
        end: span.end as u32,
    }
}

fn kind(kind: DefinitionKind) -> wit::Kind {
    match kind {
        DefinitionKind::Function => wit::Kind::Function,
        DefinitionKind::Method => wit::Kind::Method,
        DefinitionKind::Type => wit::Kind::Type,
        DefinitionKind::Value => wit::Kind::Value,
        DefinitionKind::Module => wit::Kind::Module,
    }
}

/// Exports a component with these languages: their grammars, tables for outlines, and files of patterns.
#[macro_export]
macro_rules! export_outline {
    ($($name:literal => ($language:expr, $grammar:expr, [$($patterns:literal),+])),+ $(,)?) => {
        use $crate::component::{Reader, bindings::{self, exports::tool::symbols::outline as wit}};

        struct Face;

        fn reader(language: &str) -> Option<Reader> {
            match language {
                $($name => Some(Reader {
                    language: $language.into(),
                    grammar: $grammar,
                    patterns: concat!($(include_str!(concat!("../../queries/", $patterns))),+),
                }),)+
                _ => None,
            }
        }

        impl wit::Guest for Face {
            fn read(language: String, content: Vec<u8>) -> Option<wit::Outlined> {
                reader(&language)?.read(&content)
            }

            fn read_details(language: String, content: Vec<u8>, name: Option<String>) -> Option<wit::Detailed> {
                reader(&language)?.read_details(&content, name.as_deref())
            }
        }

        bindings::export!(Face with_types_in bindings);
    };
}
