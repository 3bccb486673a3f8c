//! Reads source files by syntax tree, in embedded components that are not skills.
//!
//! The parsers are C code, and a repository is not trusted. So each file is read in a fresh instance that has no file,
//! no useful clock, and only the bytes of the file, under limits of its own. A parser that crashes or hangs on one file
//! loses that file alone, and cannot affect the answer for the next. It returns positions in the text, which the caller
//! checks before use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::Store;
use wasmtime::component::{InstancePre, Linker};

use super::budget::CallBudget;
use super::embedded::Packed;
use super::engine::{self, NativeComponent, Runtime};
use super::store::{self, StoreState};
use super::{CallError, Limits, guard, wasi};
use crate::limits;
use tool_repository::file_role::file_name;

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from `wit/symbols`, which documents it"
    )]

    wasmtime::component::bindgen!({
        path: "../../wit/symbols",
        inline: "
            package tool:host;
            world symbols {
                export tool:symbols/outline@1.0.0;
            }
        ",
        world: "tool:host/symbols",
    });
}

use bindings::exports::tool::symbols::outline::Guest;
pub use bindings::exports::tool::symbols::outline::{
    Definition, Detailed, DetailedDefinition, Imported, Kind, Outlined, Span, UseKind, Used,
};

/// A component that reads some languages, compiled by [`precompile_outliner`] for the target of this build.
///
/// Its WebAssembly is not embedded: on a processor that the code does not fit, files are read as text.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedOutliner {
    /// Name of the component.
    pub name: &'static str,
    /// The compiled component.
    pub compiled: Packed,
}

/// A language that is read by syntax tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript with JSX.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java.
    Java,
    /// C.
    C,
    /// C++. The grammar also reads headers of C.
    Cpp,
    /// C#.
    CSharp,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Kotlin.
    Kotlin,
    /// Bash.
    Bash,
    /// Lua.
    Lua,
    /// Elixir.
    Elixir,
}

/// Each language with its name in the contract, its component, and the extensions of its files.
const LANGUAGES: [(Language, &str, &str, &[&str]); 16] = [
    (Language::Python, "python", "outline_python", &["py", "pyi", "pyw"]),
    (
        Language::JavaScript,
        "javascript",
        "outline_script",
        &["js", "mjs", "cjs", "jsx"],
    ),
    (
        Language::TypeScript,
        "typescript",
        "outline_script",
        &["ts", "mts", "cts"],
    ),
    (Language::Tsx, "tsx", "outline_script", &["tsx"]),
    (Language::Rust, "rust", "outline_native", &["rs"]),
    (Language::Go, "go", "outline_native", &["go"]),
    (Language::Java, "java", "outline_native", &["java"]),
    (Language::C, "c", "outline_c", &["c"]),
    (
        Language::Cpp,
        "cpp",
        "outline_c",
        &["cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "ipp"],
    ),
    (Language::CSharp, "csharp", "outline_csharp", &["cs"]),
    (Language::Ruby, "ruby", "outline_dynamic", &["rb", "rake", "gemspec"]),
    (Language::Php, "php", "outline_dynamic", &["php"]),
    (Language::Kotlin, "kotlin", "outline_kotlin", &["kt", "kts"]),
    (Language::Bash, "bash", "outline_shell", &["sh", "bash", "zsh", "ksh"]),
    (Language::Lua, "lua", "outline_shell", &["lua"]),
    (Language::Elixir, "elixir", "outline_dynamic", &["ex", "exs"]),
];

impl Language {
    /// The language for the extension of a path. A dialect that no grammar knows is read as text.
    pub fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = file_name(path).rsplit_once('.')?;
        let known = LANGUAGES
            .iter()
            .find(|(_, _, _, extensions)| extensions.contains(&extension));
        known.map(|(language, ..)| *language)
    }

    /// Its name in the contract.
    fn word(self) -> &'static str {
        self.row().1
    }

    /// Name of the component that reads it.
    fn component(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, &'static str, &'static [&'static str]) {
        let row = LANGUAGES.iter().find(|(language, ..)| *language == self);
        row.expect("the table has a row for each language")
    }
}

/// Limits for reading one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlineBounds {
    /// Time for one file.
    pub wall: Duration,
    /// Linear memory of the instance.
    pub memory_bytes: u64,
    /// Bytes of the answer.
    pub answer_bytes: usize,
}

impl Default for OutlineBounds {
    fn default() -> Self {
        Self {
            wall: limits::milliseconds(limits::OUTLINE_WALL_MS_MAX),
            memory_bytes: limits::OUTLINE_MEMORY_BYTES_MAX,
            answer_bytes: limits::OUTLINE_ANSWER_BYTES_MAX,
        }
    }
}

impl OutlineBounds {
    /// The limits of a call that can use nothing else.
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
    bounds: OutlineBounds,
    loaded: Mutex<BTreeMap<&'static str, OutlinerSlot>>,
}

impl std::fmt::Debug for Outliners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Outliners").finish_non_exhaustive()
    }
}

/// A component that was asked for; `None` if it does not load on this machine.
type OutlinerSlot = Option<Arc<LoadedOutliner>>;

struct LoadedOutliner {
    runtime: &'static Runtime,
    instance: InstancePre<StoreState>,
    face: bindings::SymbolsIndices,
}

impl Outliners {
    /// Loads nothing yet.
    pub fn new(embedded: &'static [EmbeddedOutliner]) -> Arc<Self> {
        Self::with_bounds(embedded, OutlineBounds::default())
    }

    /// The components with other limits, for tests.
    pub fn with_bounds(embedded: &'static [EmbeddedOutliner], bounds: OutlineBounds) -> Arc<Self> {
        Arc::new(Self {
            embedded,
            bounds,
            loaded: Mutex::default(),
        })
    }

    /// True if files of this path's language can be read.
    pub fn reads(&self, path: &str) -> bool {
        let component = Language::from_path(path).map(Language::component);
        self.embedded.iter().any(|embedded| Some(embedded.name) == component)
    }

    /// Longest time for one file.
    pub fn wall(&self) -> Duration {
        self.bounds.wall
    }

    /// Reads the outline of a file in at most `wall`. `None` if no component reads its language, or if a limit ended
    /// the reading. The answer comes from a parser of untrusted text: check every span against the text before you use
    /// it.
    pub fn read(&self, path: &str, text: &str, wall: Duration) -> Option<Outlined> {
        self.ask(path, wall, |guest, store, language| {
            guest.call_read(store, language, text.as_bytes())
        })
    }

    /// Reads the definitions of a file and its uses of `name`, or of all names. The answer is untrusted like an
    /// outline.
    pub fn read_details(&self, path: &str, text: &str, name: Option<&str>) -> Option<Detailed> {
        self.ask(path, self.bounds.wall, |guest, store, language| {
            guest.call_read_details(store, language, text.as_bytes(), name)
        })
    }

    fn ask<T>(
        &self,
        path: &str,
        wall: Duration,
        ask: impl FnOnce(&Guest, &mut Store<StoreState>, &str) -> wasmtime::Result<Option<T>>,
    ) -> Option<T> {
        let language = Language::from_path(path)?;
        let loaded = self.loaded(language.component())?;
        let bounds = OutlineBounds {
            wall: wall.min(self.bounds.wall),
            ..self.bounds
        };
        loaded.ask(bounds, language, ask).unwrap_or_else(|error| {
            tracing::debug!(path, %error, "a file is read as text");
            None
        })
    }

    fn loaded(&self, name: &'static str) -> Option<Arc<LoadedOutliner>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get(name) {
            return known.clone();
        }
        let embedded = self.embedded.iter().find(|embedded| embedded.name == name)?;
        let new = LoadedOutliner::new(embedded)
            .inspect_err(|error| tracing::info!(name, %error, "files of its languages are read as text"))
            .ok()
            .map(Arc::new);
        loaded.insert(name, new.clone());
        new
    }
}

impl LoadedOutliner {
    fn new(embedded: &EmbeddedOutliner) -> Result<Self, String> {
        let runtime = Runtime::global().map_err(|error| error.to_string())?;
        let compiled = embedded.compiled.unpack().map_err(|error| error.to_string())?;
        let component = runtime.load(&compiled).map_err(|error| format!("{error:#}"))?;
        Self::link_component(runtime, &component).map_err(|error| format!("{error:#}"))
    }

    /// Links the parts of WASI that every component imports, which give it nothing.
    fn link_component(runtime: &'static Runtime, native: &NativeComponent) -> wasmtime::Result<Self> {
        let component = &native.component;
        let mut linker = Linker::new(component.engine());
        wasi::link_wasi(&mut linker)?;
        guard::link_filesystem(&mut linker)?;
        let instance = linker.instantiate_pre(component)?;
        Ok(Self {
            runtime,
            face: bindings::SymbolsIndices::new(&instance)?,
            instance,
        })
    }

    fn ask<T>(
        &self,
        bounds: OutlineBounds,
        language: Language,
        ask: impl FnOnce(&Guest, &mut Store<StoreState>, &str) -> wasmtime::Result<Option<T>>,
    ) -> Result<Option<T>, CallError> {
        let call = CallBudget::new(language.component(), bounds.limits(), &CancellationToken::new());
        self.runtime.watch(&call);
        let mut store = store::open_store(self.instance.engine(), &call, None);
        let answer = self.instance.instantiate(&mut store).and_then(|instance| {
            let face = self.face.load(&mut store, &instance)?;
            ask(face.tool_symbols_outline(), &mut store, language.word())
        });
        let answer = answer.map_err(|error| call.explain(&error, &store::last_words(&store)));
        call.token.cancel();
        answer
    }
}

/// Compiles a component of this kind for every machine that has the baseline. For the build of the product.
///
/// # Errors
///
/// It does not compile or link, as the end of a sentence.
pub fn precompile_outliner(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let compiled = engine::precompile_portable(wasm).map_err(|error| format!("it does not compile: {error:#}"))?;
    let runtime = Runtime::global().map_err(|error| error.to_string())?;
    let link = || LoadedOutliner::link_component(runtime, &runtime.load(&compiled)?);
    link().map_err(|error| format!("it does not link: {error:#}"))?;
    Ok(compiled)
}
