//! The context engine's parser: embedded components that parse source files in the sandbox of the skills.
//!
//! This adapter converts the components' answers to the types of `context`, which checks them against the text, and
//! the answers of `context` about symbols to the contract's records. It keeps `context` free of the sandbox, and
//! `skill` free of the context engine.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tool_context::symbols::{
    ByteSpan, DetailedSymbol, ImportSite, NamedSymbol, SymbolForm, SymbolUse, Syntax, SyntaxDetails, SyntaxOutline,
    UseForm, embedded_source,
};
use tool_context::{FoundDefinition, FoundReference, Indexes, LookupError, ReferenceForm, SymbolReader, SyntaxParser};
use tool_repository::file_role::is_nameless;
use tool_repository::{OpenError, ScanError};
use tool_skill::bindings::tool::skill::symbols as wit;
use tool_skill::outline::{self, Language, Outliners};
use tool_skill::{CallBudget, CallContext, Failure, FailureKind, SymbolLookup};

/// Parses source files with the embedded components.
#[derive(Debug)]
pub struct SandboxedParser(pub Arc<Outliners>);

impl SyntaxParser for SandboxedParser {
    fn reads(&self, path: &str) -> bool {
        // The language of a script follows from the file, which one component reads.
        let embedded = embedded_source(path, "");
        is_nameless(path)
            || self
                .0
                .reads(embedded.as_ref().map_or(path, |(script, _)| script.as_str()))
    }

    fn wall(&self) -> Duration {
        self.0.wall()
    }

    fn outline_within(&self, path: &str, text: &str, wall: Duration) -> Option<SyntaxOutline> {
        let embedded = embedded_source(path, text);
        let (path, source) = embedded
            .as_ref()
            .map_or((path, text), |(path, source)| (path.as_str(), source.as_str()));
        let syntax = convert_language(Language::from_path(path)?);
        let answer = self.0.read(path, source, wall)?;
        let definitions = answer.definitions.iter().map(convert_named);
        SyntaxOutline::check_answer(syntax, definitions, answer.imports.iter().map(convert_import), text)
    }

    fn details(&self, path: &str, text: &str, name: Option<&str>) -> Option<SyntaxDetails> {
        let embedded = embedded_source(path, text);
        let (path, source) = embedded
            .as_ref()
            .map_or((path, text), |(path, source)| (path.as_str(), source.as_str()));
        let answer = self.0.read_details(path, source, name)?;
        SyntaxDetails::check_answer(
            answer.definitions.iter().map(convert_details),
            answer.uses.iter().map(convert_use),
            text,
        )
    }
}

/// Answers questions of skills about symbols.
pub struct SandboxedSymbols {
    /// Parses the files.
    pub parser: Arc<SandboxedParser>,
    /// Tells which files need not be read, if this process has an index.
    pub indexes: Option<Arc<Indexes>>,
}

impl SymbolLookup for SandboxedSymbols {
    fn find_definitions(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::Query,
    ) -> Result<wit::DefinitionPage, Failure> {
        let reader = self.reader(call, context);
        let page = reader.find_definitions(&query.name, &query.under, query.after.as_deref());
        let page = page.map_err(failure_of)?;
        Ok(wit::DefinitionPage {
            definitions: page.items.into_iter().map(convert_definition).collect(),
            next: page.next,
        })
    }

    fn find_references(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::Query,
    ) -> Result<wit::ReferencePage, Failure> {
        let reader = self.reader(call, context);
        let page = reader.find_references(&query.name, &query.under, query.after.as_deref());
        let page = page.map_err(failure_of)?;
        Ok(wit::ReferencePage {
            references: page.items.into_iter().map(convert_reference).collect(),
            next: page.next,
        })
    }

    fn list_definitions(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
    ) -> Result<Vec<wit::Definition>, Failure> {
        let outline = self.reader(call, context).outline(path).map_err(failure_of)?;
        Ok(outline.into_iter().map(convert_definition).collect())
    }

    fn list_uses(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Vec<wit::Reference>, Failure> {
        let uses = self.reader(call, context).list_uses(path, lines).map_err(failure_of)?;
        Ok(uses.into_iter().map(convert_reference).collect())
    }
}

impl SandboxedSymbols {
    fn reader<'a>(&'a self, call: &'a CallBudget, context: &'a CallContext) -> SymbolReader<'a> {
        SymbolReader {
            repository: &context.repository,
            parser: &*self.parser,
            indexes: self.indexes.as_deref(),
            cancel: &call.token,
        }
    }
}

fn failure_of(error: LookupError) -> Failure {
    let (kind, hint) = match &error {
        LookupError::Open(OpenError::NotFound { .. }) => (FailureKind::NotFound, "use list_files to see what exists"),
        LookupError::Open(OpenError::Denied { .. } | OpenError::NotRegular { .. }) => {
            (FailureKind::Denied, "hidden files stay hidden")
        }
        LookupError::Open(_) => (FailureKind::Failed, "read the file instead"),
        LookupError::Scan(ScanError::Cancelled) => (FailureKind::Limit, "name a directory to look beneath"),
        LookupError::Scan(ScanError::Unreadable { .. }) => {
            (FailureKind::Failed, "check the permissions of the directory")
        }
        LookupError::NoTree { .. } => (FailureKind::Unavailable, "read the file, or search it as text"),
    };
    Failure::new(kind, error.to_string()).with_hint(hint)
}

fn convert_definition(found: FoundDefinition) -> wit::Definition {
    let kind = match found.form {
        SymbolForm::Function => "function",
        SymbolForm::Method => "method",
        SymbolForm::Type => "type",
        SymbolForm::Value => "value",
        SymbolForm::Module => "module",
    };
    wit::Definition {
        path: found.path,
        name: found.name,
        container: found.container,
        kind: kind.to_owned(),
        line: found.line,
        first_line: found.first_line,
        last_line: found.last_line,
        comment_line: found.comment_line,
        signature: found.signature,
    }
}

fn convert_reference(found: FoundReference) -> wit::Reference {
    let kind = match found.form {
        ReferenceForm::Definition => "definition",
        ReferenceForm::Use(UseForm::Call) => "call",
        ReferenceForm::Use(UseForm::Import) => "import",
        ReferenceForm::Use(UseForm::Attribute) => "attribute",
        ReferenceForm::Use(UseForm::Type) => "type",
        ReferenceForm::Use(UseForm::Name) => "name",
        ReferenceForm::Text => "text",
    };
    wit::Reference {
        path: found.path,
        name: found.name,
        kind: kind.to_owned(),
        line: found.line,
        container: found.container,
    }
}

fn convert_details(detailed: &outline::DetailedDefinition) -> DetailedSymbol {
    DetailedSymbol {
        named: convert_named(&detailed.definition),
        first_line: detailed.first_line,
        comment_line: detailed.comment_line,
        signature: convert_span(detailed.signature),
        containers: detailed.containers.iter().copied().map(convert_span).collect(),
    }
}

fn convert_use(used: &outline::Used) -> SymbolUse {
    SymbolUse {
        name: convert_span(used.name),
        form: match used.kind {
            outline::UseKind::Call => UseForm::Call,
            outline::UseKind::Import => UseForm::Import,
            outline::UseKind::Attribute => UseForm::Attribute,
            outline::UseKind::Type => UseForm::Type,
            outline::UseKind::Name => UseForm::Name,
        },
        line: used.line,
    }
}

fn convert_language(language: Language) -> Syntax {
    match language {
        Language::Python => Syntax::Python,
        Language::JavaScript | Language::TypeScript | Language::Tsx => Syntax::Script,
        Language::Rust => Syntax::Rust,
        Language::Go => Syntax::Go,
        Language::Java | Language::Kotlin => Syntax::Java,
        Language::C | Language::Cpp => Syntax::C,
        Language::Ruby => Syntax::Ruby,
        Language::CSharp | Language::Php | Language::Bash | Language::Lua | Language::Elixir => Syntax::Other,
    }
}

fn convert_named(definition: &outline::Definition) -> NamedSymbol {
    NamedSymbol {
        name: convert_span(definition.name),
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

fn convert_import(import: &outline::Imported) -> ImportSite {
    ImportSite {
        declares_module: import.declares_module,
        level: import.level,
        parts: import.parts.iter().copied().map(convert_span).collect(),
        item: import.item.map(convert_span),
    }
}

fn convert_span(span: outline::Span) -> ByteSpan {
    ByteSpan {
        start: span.start,
        end: span.end,
    }
}

#[cfg(test)]
pub(crate) mod tests;
