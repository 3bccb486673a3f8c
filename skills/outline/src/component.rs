//! The face of the components: the contract's records, and the macro that exports them.

use tree_sitter::Language;

use crate::{DefinitionKind, Grammar, Span};
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

/// Reads a file for the host.
pub fn read(language: Language, grammar: &Grammar, content: &[u8]) -> Option<wit::Outlined> {
    let outline = crate::read(&language, grammar, content)?;
    let definitions = outline.definitions.into_iter().map(|definition| wit::Definition {
        name: span(definition.name),
        kind: kind(definition.kind),
        line: definition.line as u32,
        end_line: definition.end_line as u32,
        depth: definition.depth as u32,
    });
    let imports = outline.imports.into_iter().map(|import| wit::Imported {
        declares_module: import.declares_module,
        level: import.level as u32,
        parts: import.parts.into_iter().map(span).collect(),
        item: import.item.map(span),
    });
    Some(wit::Outlined {
        definitions: definitions.collect(),
        imports: imports.collect(),
    })
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

/// Exports a component that knows these languages.
#[macro_export]
macro_rules! export_outline {
    ($($name:literal => ($language:expr, $grammar:expr)),+ $(,)?) => {
        use $crate::component::bindings::{self, exports::tool::symbols::outline as wit};

        struct Face;

        impl wit::Guest for Face {
            fn read(language: String, content: Vec<u8>) -> Option<wit::Outlined> {
                match language.as_str() {
                    $($name => $crate::component::read($language.into(), &$grammar, &content),)+
                    _ => None,
                }
            }
        }

        bindings::export!(Face with_types_in bindings);
    };
}
