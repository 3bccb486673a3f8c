//! The context engine's parser: embedded components that read syntax trees in the sandbox of the skills.
//!
//! This adapter maps the components' answers to the types of `context`, which checks them against the text. It keeps
//! `context` free of the sandbox, and `skill` free of the context engine.

use std::sync::Arc;
use std::time::Duration;

use crate::context::SyntaxParser;
use crate::context::symbols::{ImportSite, Named, Span, SymbolForm, Syntax, SyntaxOutline};
use crate::skill::outline::{self, Language, Outliners};

/// Reads source files through the embedded components.
#[derive(Debug)]
pub struct SandboxedParser(pub Arc<Outliners>);

impl SyntaxParser for SandboxedParser {
    fn reads(&self, path: &str) -> bool {
        self.0.reads(path)
    }

    fn wall(&self) -> Duration {
        self.0.wall()
    }

    fn outline_within(&self, path: &str, text: &str, wall: Duration) -> Option<SyntaxOutline> {
        let syntax = syntax(Language::of(path)?);
        let answer = self.0.read(path, text, wall)?;
        let definitions = answer.definitions.iter().map(named);
        SyntaxOutline::checked(syntax, definitions, answer.imports.iter().map(place), text)
    }
}

fn syntax(language: Language) -> Syntax {
    match language {
        Language::Python => Syntax::Python,
        Language::JavaScript | Language::TypeScript | Language::Tsx => Syntax::Script,
        Language::Rust => Syntax::Rust,
        Language::Go => Syntax::Go,
        Language::Java => Syntax::Java,
    }
}

fn named(definition: &outline::Definition) -> Named {
    Named {
        name: span(definition.name),
        form: match definition.kind {
            outline::Kind::Function => SymbolForm::Function,
            outline::Kind::Method => SymbolForm::Method,
            outline::Kind::Type => SymbolForm::Type,
            outline::Kind::Value => SymbolForm::Value,
            outline::Kind::Module => SymbolForm::Module,
        },
        line: definition.line,
        end_line: definition.end_line,
        depth: definition.depth,
    }
}

fn place(import: &outline::Imported) -> ImportSite {
    ImportSite {
        declares_module: import.declares_module,
        level: import.level,
        parts: import.parts.iter().copied().map(span).collect(),
        item: import.item.map(span),
    }
}

fn span(span: outline::Span) -> Span {
    Span {
        start: span.start,
        end: span.end,
    }
}

#[cfg(test)]
pub(crate) mod tests;
