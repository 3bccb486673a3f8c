//! Reading source files by syntax tree, in components of ours that are no skills.
//!
//! A parser is C, and a repository is not trusted: each file is read in a fresh instance that has no file, no clock
//! worth the name, nothing but the bytes it is given, and bounds of its own. So a file on which a parser crashes, spins
//! or goes mad costs itself alone, and cannot colour what is said of the next one. What comes back are places in the
//! text, which `context` checks before it believes any of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::component::{Component, InstancePre, Linker};

use super::engine::Runtime;
use super::sandbox::{self, Call, State};
use super::{CallError, Limits, guard, wasi};
use crate::context::symbols::{Form, Named, Outline, Place, Span, Syntax};
use crate::limits;

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from `wit/symbols`, which documents it"
    )]

    wasmtime::component::bindgen!({
        path: "../wit/symbols",
        world: "symbols",
    });
}

use bindings::exports::tool::symbols::outline as wit;

/// A component that reads some languages, compiled for this build's target by [`super::precompile_outliner`].
///
/// Its WebAssembly is not embedded: on a processor that its code is not for, files are read as text.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedOutliner {
    /// Name of the component.
    pub name: &'static str,
    /// The component, compiled.
    pub compiled: &'static [u8],
}

/// A language that is read by syntax tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Rust,
    Go,
    Java,
}

impl Language {
    /// By the extension of a path. Dialects that a grammar does not know stay with text.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (_, extension) = crate::context::scanner::file_name(path).rsplit_once('.')?;
        Some(match extension {
            "py" | "pyi" | "pyw" => Self::Python,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "ts" | "mts" | "cts" => Self::TypeScript,
            "tsx" => Self::Tsx,
            "rs" => Self::Rust,
            "go" => Self::Go,
            "java" => Self::Java,
            _ => return None,
        })
    }

    /// The word for it in the contract.
    fn word(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// The component that knows it.
    fn component(self) -> &'static str {
        match self {
            Self::Python => "outline_python",
            Self::JavaScript | Self::TypeScript | Self::Tsx => "outline_script",
            Self::Rust | Self::Go | Self::Java => "outline_native",
        }
    }

    fn syntax(self) -> Syntax {
        match self {
            Self::Python => Syntax::Python,
            Self::JavaScript | Self::TypeScript | Self::Tsx => Syntax::Script,
            Self::Rust => Syntax::Rust,
            Self::Go => Syntax::Go,
            Self::Java => Syntax::Java,
        }
    }
}

/// What the reading of one file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) wall: Duration,
    pub(super) memory_bytes: u64,
    /// Of an answer, as the host takes it over.
    pub(super) answer_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            wall: limits::milliseconds(limits::OUTLINE_WALL_MS_MAX),
            memory_bytes: limits::OUTLINE_MEMORY_BYTES_MAX,
            answer_bytes: limits::OUTLINE_ANSWER_BYTES_MAX,
        }
    }
}

impl Bounds {
    /// Those of a call that has nothing else to use up.
    fn limits(self) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            wall: self.wall,
            recipes: Duration::ZERO,
            host_call_bytes: self.answer_bytes,
            log_bytes: 0,
            ..Limits::default()
        }
    }
}

/// The components, each loaded when a file of its languages is first read.
pub struct Outliners {
    embedded: &'static [EmbeddedOutliner],
    bounds: Bounds,
    loaded: Mutex<BTreeMap<&'static str, Slot>>,
}

impl std::fmt::Debug for Outliners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Outliners").finish_non_exhaustive()
    }
}

/// A component that was asked for; none where it does not load here.
type Slot = Option<Arc<Loaded>>;

struct Loaded {
    runtime: &'static Runtime,
    instance: InstancePre<State>,
    face: bindings::SymbolsIndices,
}

impl Outliners {
    /// Nothing is loaded.
    pub fn new(embedded: &'static [EmbeddedOutliner]) -> Arc<Self> {
        Self::bounded(embedded, Bounds::default())
    }

    pub(super) fn bounded(embedded: &'static [EmbeddedOutliner], bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            embedded,
            bounds,
            loaded: Mutex::default(),
        })
    }

    /// True where files of this path's language can be read.
    pub(crate) fn reads(&self, path: &str) -> bool {
        let component = Language::of(path).map(Language::component);
        self.embedded.iter().any(|embedded| Some(embedded.name) == component)
    }

    /// What stands in a file. Nothing where its language has no component, where a bound ended the reading, and where
    /// the answer cannot be about this text.
    pub(crate) fn outline(&self, path: &str, text: &str) -> Option<Outline> {
        self.outline_within(path, text, self.bounds.wall)
    }

    /// The same in less time.
    pub(crate) fn outline_within(&self, path: &str, text: &str, wall: Duration) -> Option<Outline> {
        let language = Language::of(path)?;
        let loaded = self.loaded(language.component())?;
        let bounds = Bounds {
            wall: wall.min(self.bounds.wall),
            ..self.bounds
        };
        match loaded.read(bounds, language, text) {
            Ok(answer) => Outline::checked(language.syntax(), answer?, text),
            Err(error) => {
                tracing::debug!(path, %error, "a file is read as text");
                None
            }
        }
    }

    fn loaded(&self, name: &'static str) -> Option<Arc<Loaded>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get(name) {
            return known.clone();
        }
        let embedded = self.embedded.iter().find(|embedded| embedded.name == name)?;
        let new = Loaded::new(embedded)
            .inspect_err(|error| tracing::info!(name, %error, "files of its languages are read as text"))
            .ok()
            .map(Arc::new);
        loaded.insert(name, new.clone());
        new
    }
}

impl Loaded {
    fn new(embedded: &EmbeddedOutliner) -> Result<Self, String> {
        let runtime = Runtime::global().map_err(|error| error.to_string())?;
        let component = runtime.load(embedded.compiled).map_err(|error| format!("{error:#}"))?;
        Self::linked(runtime, &component).map_err(|error| format!("{error:#}"))
    }

    /// Links what every component carries along of WASI, which answers that there is nothing, and no more.
    fn linked(runtime: &'static Runtime, component: &Component) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(component.engine());
        wasi::link(&mut linker)?;
        guard::link(&mut linker)?;
        let instance = linker.instantiate_pre(component)?;
        Ok(Self {
            runtime,
            face: bindings::SymbolsIndices::new(&instance)?,
            instance,
        })
    }

    fn read(&self, bounds: Bounds, language: Language, text: &str) -> Result<Option<Answer>, CallError> {
        let call = Call::new(language.component(), bounds.limits(), &CancellationToken::new());
        self.runtime.watch(&call);
        let mut store = sandbox::store(self.instance.engine(), &call, None);
        let answer = self.instance.instantiate(&mut store).and_then(|instance| {
            let face = self.face.load(&mut store, &instance)?;
            face.tool_symbols_outline()
                .call_read(&mut store, language.word(), text.as_bytes())
        });
        let answer = answer.map_err(|error| call.explain(&error, &sandbox::last_words(&store)));
        call.token.cancel();
        Ok(answer?.map(Answer))
    }
}

/// An answer as it came, in the words of `context`.
#[derive(Debug)]
pub(crate) struct Answer(wit::Outlined);

impl Answer {
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Named> {
        self.0.definitions.iter().map(|definition| Named {
            name: span(definition.name),
            form: match definition.kind {
                wit::Kind::Function => Form::Function,
                wit::Kind::Method => Form::Method,
                wit::Kind::Type => Form::Type,
                wit::Kind::Value => Form::Value,
                wit::Kind::Module => Form::Module,
            },
            line: definition.line,
            end_line: definition.end_line,
            depth: definition.depth,
        })
    }

    pub(crate) fn imports(&self) -> impl Iterator<Item = Place> {
        self.0.imports.iter().map(|import| Place {
            declares_module: import.declares_module,
            level: import.level,
            parts: import.parts.iter().copied().map(span).collect(),
            item: import.item.map(span),
        })
    }
}

fn span(span: wit::Span) -> Span {
    Span {
        start: span.start,
        end: span.end,
    }
}

/// Compiles a component of this kind for every machine that has the baseline. For the build of the product.
pub fn precompile_outliner(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let compiled = super::engine::precompile(wasm).map_err(|error| format!("it does not compile: {error:#}"))?;
    let runtime = Runtime::global().map_err(|error| error.to_string())?;
    let link = || Loaded::linked(runtime, &runtime.load(&compiled)?);
    link().map_err(|error| format!("it does not link: {error:#}"))?;
    Ok(compiled)
}

#[cfg(test)]
pub(crate) mod tests;
