//! Interface for the authors of skills in Rust.
//!
//! A skill is a type that implements [`Skill`], handed to [`export_skill!`]. Its arguments are a struct of the author's,
//! and what the model reads about them is derived from it ([`schema`]). Its logic takes the world as `&dyn` [`Host`], so
//! that native tests run it on a folder with [`testing::FakeHost`] and only the thin component face, which the macro
//! writes, needs WebAssembly. The contract itself is `wit/skill.wit`; the names here are its names. The author's guide is
//! `skills/README.md`.
//!
//! [`text`] helps to write answers, `pattern` (a feature of that name) holds regular expressions over lines, and
//! [`testing::check_description`] asserts what every description must hold.

mod files;
mod history;
mod metadata;
#[cfg(feature = "pattern")]
pub mod pattern;
mod requests;
mod runs;
pub mod schema;
mod symbols;
pub mod testing;
pub mod text;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component;
#[cfg(target_family = "wasm")]
mod exchange;

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use files::{Content, Entry, EntryKind, NotListed, Page, Query, Run, Selection, Visit};
pub use history::{
    BlameHunk, BlamePage, BlameQuery, Commit, CommitChange, CommitDiff, Diff, DiffQuery, FileChange, LogPage, LogQuery,
    LoggedCommit, ShowQuery,
};
pub use metadata::{ComponentMetadata, FunctionExample, FunctionMetadata};
pub use requests::{HttpRequest, HttpResponse};
pub use runs::{InstallRequest, RunReport, SuiteCounts, SuiteFailure, SuiteResults, TestRequest, TestSuite};
pub use serde_json;
pub use symbols::{
    CandidatePage, LeftOut, Narrowed, Narrowing, SearchPattern, SearchQuery, SymbolDefinition, SymbolPage, SymbolQuery,
    SymbolReference, VisitNarrowed,
};
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub use wit_bindgen;

/// A skill: what it says about itself, its arguments, and one function.
///
/// The arguments are a struct of its own; the doc comments of its fields are what the model reads about them:
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use skill_sdk::{Failure, Host, Outcome, Skill};
///
/// #[derive(Debug, Deserialize, JsonSchema)]
/// pub struct Arguments {
///     /// Whom to greet, by name.
///     #[schemars(length(min = 1))]
///     name: String,
/// }
///
/// #[derive(Debug)]
/// pub struct Greet;
///
/// impl Skill for Greet {
///     const NAME: &'static str = "greet";
///     const VERSION: &'static str = "1.0.0";
///     const DESCRIPTION: &'static str = "Greets a person by name. Use it where a greeting is asked for.";
///     const EFFECTS: &'static [&'static str] = &[];
///
///     type Arguments = Arguments;
///
///     fn run(_: &dyn Host, arguments: Arguments) -> Result<Outcome, Failure> {
///         Ok(Outcome::text(format!("Hello, {}!", arguments.name)))
///     }
/// }
///
/// skill_sdk::export_skill!(Greet);
/// skill_sdk::testing::check_description::<Greet>();
/// ```
pub trait Skill {
    /// `[a-z][a-z0-9_]*`, at most 64 bytes. The names of the built-in skills are reserved.
    const NAME: &'static str;

    /// Semantic version.
    const VERSION: &'static str;

    /// Purpose of the skill and when to use it, written for the model.
    const DESCRIPTION: &'static str;

    /// Effects that the skill may cause, in the contract's words.
    ///
    /// The component imports only what these effects cover, because the host refuses one that imports more. A
    /// function of [`Host`] whose effect is missing here answers `unavailable`, whatever the policy says.
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    /// Arguments from the model. Their schema is [`schema::of`] this type; the host holds every call to it. An error
    /// names the position, the expected and the given value, and the nearest name.
    type Arguments: DeserializeOwned + JsonSchema;

    /// Runs one call.
    fn run(host: &dyn Host, arguments: Self::Arguments) -> Result<Outcome, Failure>;

    /// Facts about the function beyond what the host enforces.
    fn about() -> FunctionMetadata {
        FunctionMetadata::default()
    }

    /// Facts about the component, where it is exported alone.
    fn about_component() -> ComponentMetadata {
        ComponentMetadata::default()
    }
}

/// The contract's interface `handler` as it is: for a skill that writes its schema by hand. Every [`Skill`] is one.
pub trait Handler {
    /// Effects that the skill may cause; `describe` answers the same list (`effects: Self::EFFECTS`).
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    /// Describes the skill for the host and the model.
    fn describe() -> Descriptor;

    /// Runs one call. `arguments` is a JSON object that satisfies the descriptor's schema.
    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure>;

    /// Facts about the function beyond what the host enforces.
    fn metadata() -> FunctionMetadata {
        FunctionMetadata::default()
    }

    /// Facts about the component, where it is exported alone.
    fn component_metadata() -> ComponentMetadata {
        ComponentMetadata::default()
    }
}

impl<S: Skill> Handler for S {
    const EFFECTS: &'static [&'static str] = <S as Skill>::EFFECTS;

    fn describe() -> Descriptor {
        Descriptor {
            name: S::NAME,
            version: S::VERSION,
            description: S::DESCRIPTION,
            parameters: schema::of::<S::Arguments>(),
            effects: <S as Skill>::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        S::run(host, self::arguments(arguments)?)
    }

    fn metadata() -> FunctionMetadata {
        S::about()
    }

    fn component_metadata() -> ComponentMetadata {
        S::about_component()
    }
}

/// A skill whose calls the host may spread over cores.
///
/// The host holds a part's arguments to no schema, so they may have fields which the model does not know: in a struct
/// of arguments, with `#[serde(default)]` and `#[schemars(skip)]`.
pub trait Sharded: Handler {
    /// Splits a call into at most `parts` calls, each a JSON object for [`Handler::call`]. [`arguments`] reads what the
    /// model gave.
    fn split(host: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure>;

    /// Joins the outcomes of the parts, in their order.
    fn merge(arguments: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure>;
}

/// Description of one function by itself. A component with one function has its name and its version.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// `[a-z][a-z0-9_]*`.
    pub name: &'static str,
    /// Semantic version.
    pub version: &'static str,
    /// Purpose of the skill and when to use it, written for the model.
    pub description: &'static str,
    /// JSON Schema of the arguments.
    pub parameters: serde_json::Value,
    /// Effects that the skill may cause.
    pub effects: &'static [&'static str],
}

/// Bytes of [`Outcome::details`]. The host stops a call whose details are longer.
const DETAILS_BYTES_MAX: usize = 1024 * 1024;

/// The answer of a call that worked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Text for the model.
    pub text: String,
    /// True where there is more than `text` holds.
    pub truncated: bool,
    /// Given back as the argument `cursor`, asks for what comes next.
    pub cursor: Option<String>,
    /// Paths that this proposal removes.
    pub deletions: Vec<String>,
    /// The answer for programs: a JSON object, see [`Outcome::with_details`].
    pub details: Option<String>,
}

impl Outcome {
    /// A complete answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::page(text, None)
    }

    /// An answer that `cursor`, where there is one, continues.
    pub fn page(text: impl Into<String>, cursor: Option<String>) -> Self {
        Self {
            text: text.into(),
            truncated: cursor.is_some(),
            cursor,
            deletions: Vec::new(),
            details: None,
        }
    }

    /// Adds the same answer for programs, as a struct or a map that becomes a JSON object. Details that are longer than
    /// the host takes are left out.
    #[must_use]
    pub fn with_details(mut self, details: &impl Serialize) -> Self {
        let json = serde_json::to_string(details).ok();
        self.details = json.filter(|json| json.len() <= DETAILS_BYTES_MAX);
        self
    }
}

/// The answer of a call that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of the contract's codes, see [`code`].
    pub code: String,
    /// The fault, in a sentence that the model can act on.
    pub message: String,
    /// Advice on what to do instead.
    pub hint: Option<String>,
}

/// The contract's failure codes.
pub mod code {
    /// The arguments do not fit.
    pub const INVALID_ARGUMENTS: &str = "invalid-arguments";
    /// The requested thing does not exist.
    pub const NOT_FOUND: &str = "not-found";
    /// The policy or the boundary refuses it.
    pub const DENIED: &str = "denied";
    /// It was tried and did not work.
    pub const FAILED: &str = "failed";
    /// Something that is needed is not there.
    pub const UNAVAILABLE: &str = "unavailable";
    /// A bound was reached.
    pub const LIMIT: &str = "limit";
}

impl Failure {
    /// A failure with a code of [`code`].
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// Arguments that do not fit.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENTS, message)
    }

    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// Something that was tried and did not work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(code::FAILED, message)
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Words for an error of the file system on `path`.
    pub fn io(path: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound => Self::not_found(format!("no such file or directory: `{path}`"))
                .with_hint("use list_files to see what exists; paths are relative to the repository root"),
            ErrorKind::PermissionDenied => Self::new(code::DENIED, format!("`{path}` may not be opened")),
            _ => Self::failed(format!("`{path}` could not be read: {error}")),
        }
    }
}

/// Reads the arguments into a typed form. The host has validated them, so an error here means that the schema and
/// the type disagree, and names the field.
pub fn arguments<T: DeserializeOwned>(json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::invalid(format!("the arguments do not fit: {error}")))
}

/// The world as a skill sees it.
///
/// Files are read with `std::fs` beneath [`Host::repo`]; everything else is a function here. In a component each of
/// these is an import that the policy may deny; a denied one answers with the code `denied`.
pub trait Host {
    /// Path at which the repository is mounted, read-only.
    fn repo(&self) -> &Path;

    /// An empty directory in which a skill with `write-repository` leaves its proposal.
    fn stage(&self) -> &Path;

    /// One page of the file list.
    fn list_page(&self, query: &Query) -> Result<Page, Failure>;

    /// Counts what a list of everything beneath a path leaves out.
    fn count_not_listed(&self, under: &str) -> Result<NotListed, Failure>;

    /// True for a file that `.gitattributes` calls generated.
    fn is_generated(&self, path: &str) -> Result<bool, Failure>;

    /// Reads the selected files in the order of their paths and hands each to `visit`, until that breaks off.
    ///
    /// For skills that read a whole tree: it costs a fraction of opening each file beneath [`Host::repo`].
    fn read_files(&self, selection: &Selection, visit: &mut Visit<'_>) -> Result<(), Failure>;

    /// Cuts a selection into at most `parts` runs that take about equally long to read. The answer is the
    /// [`Selection::start`] of each run but the first.
    fn divide(&self, selection: &Selection, parts: u32) -> Result<Vec<String>, Failure>;

    /// Tells the host that the model is shown this file; `content` is the file's whole content, which the answer's text
    /// has to hold word by word.
    fn shown(&self, path: &str, content: &[u8]);

    /// One page of the definitions of a name, by syntax tree.
    ///
    /// ```
    /// # fn list(host: &dyn skill_sdk::Host) -> Result<(), skill_sdk::Failure> {
    /// # use skill_sdk::SymbolQuery;
    /// let page = host.definitions(&SymbolQuery { name: "Store.open".to_owned(), ..SymbolQuery::default() })?;
    /// for definition in page.items {
    ///     let called = host.uses(&definition.path, definition.first_line, definition.last_line)?;
    ///     host.say(&format!("{} uses {} names\n", definition.signature, called.len()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn definitions(&self, query: &SymbolQuery) -> Result<SymbolPage<SymbolDefinition>, Failure>;

    /// One page of the definitions and uses of a name.
    fn references(&self, query: &SymbolQuery) -> Result<SymbolPage<SymbolReference>, Failure>;

    /// The definitions of a file, in the order of lines.
    fn outline(&self, path: &str) -> Result<Vec<SymbolDefinition>, Failure>;

    /// The innermost definition around a line of a file.
    fn enclosing(&self, path: &str, line: u32) -> Result<Option<SymbolDefinition>, Failure>;

    /// The names that some lines of a file use, in their order.
    fn uses(&self, path: &str, first_line: u32, last_line: u32) -> Result<Vec<SymbolReference>, Failure>;

    /// One page of the files that a search has to read. The matching stays with the skill.
    fn candidates(&self, query: &SearchQuery) -> Result<CandidatePage, Failure>;

    /// Reads the files of a selection that can match, in the order of their paths, and tells how many it leaves out between
    /// them. What it hands over and counts is what [`Host::read_files`] hands over.
    fn read_matching(
        &self,
        selection: &Selection,
        narrowing: &Narrowing,
        visit: &mut VisitNarrowed<'_>,
    ) -> Result<(), Failure>;

    /// The uncommitted changes.
    fn git_changes(&self, query: &DiffQuery) -> Result<Diff, Failure>;

    /// One page of the commits before a revision.
    fn git_log(&self, query: &LogQuery) -> Result<LogPage, Failure>;

    /// One commit with its changes.
    fn git_show(&self, query: &ShowQuery) -> Result<CommitDiff, Failure>;

    /// The commits that brought lines of a file.
    fn git_blame(&self, query: &BlameQuery) -> Result<BlamePage, Failure>;

    /// Commits.
    fn git_commit(&self, message: &str, paths: &[String], all: bool) -> Result<Commit, Failure>;

    /// Runs tests by a named recipe.
    fn run_tests(&self, request: &TestRequest) -> Result<Vec<TestSuite>, Failure>;

    /// Installs packages by a named recipe.
    fn install(&self, request: &InstallRequest) -> Result<RunReport, Failure>;

    /// Lets this proposal replace or remove the file at `path`, or change its executable bit. `base` is the file's whole
    /// content as this call has read it; the host compares it again when it commits.
    fn replace(&self, path: &str, base: &[u8]) -> Result<(), Failure>;

    /// Moves a file that this call has read to a path that does not exist. A file in the stage under the new path gives it
    /// another content.
    fn rename(&self, path: &str, new_path: &str, base: &[u8]) -> Result<(), Failure>;

    /// Sets or clears the executable bit of a file of this proposal.
    fn set_executable(&self, path: &str, executable: bool) -> Result<(), Failure>;

    /// Adds a place that the answer rests on; `line` is counted from 1.
    fn cite(&self, path: &str, line: Option<u32>) -> Result<(), Failure>;

    /// Adds an image or a diagram to the answer.
    fn attach(&self, media: &Media) -> Result<(), Failure>;

    /// Gives the next piece of the answer's text while the call runs. It comes before [`Outcome::text`].
    fn say(&self, piece: &str);

    /// Tells a person how far the call is.
    fn progress(&self, done: u64, total: Option<u64>, message: &str);

    /// Sends a request to a host that the skill declares, and waits for the response. Redirects are not followed.
    fn send_request(&self, request: &HttpRequest) -> Result<HttpResponse, Failure>;

    /// A setting of this skill in the user's configuration. Numbers and other values come as JSON.
    fn setting(&self, key: &str) -> Result<Option<String>, Failure>;

    /// All settings of this skill, with their values.
    fn settings(&self) -> Result<Vec<(String, String)>, Failure>;

    /// The value that an earlier call kept under this key for this repository.
    fn kept_value(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// Keeps a value for later calls in this repository.
    fn keep_value(&self, key: &str, value: &[u8]) -> Result<(), Failure>;

    /// Removes a kept value.
    fn remove_value(&self, key: &str) -> Result<(), Failure>;

    /// The keys of all kept values.
    fn kept_keys(&self) -> Result<Vec<String>, Failure>;

    /// Writes to the user's log. `level` is `debug`, `info`, `warn` or `error`.
    fn log(&self, level: &str, message: &str);
}

/// Helpers for every [`Host`] beyond the contract's functions.
impl dyn Host + '_ {
    /// The place of a repository path on this host. Refuses a path that is absolute or climbs out, before any file is
    /// touched, with words for the model.
    pub fn path(&self, path: &str) -> Result<PathBuf, Failure> {
        let clean = clean_path(path)?;
        Ok(if clean.is_empty() {
            self.repo().to_owned()
        } else {
            self.repo().join(clean)
        })
    }

    /// Finds the entry at a repository path, links followed, and its place on this host. If there is none, the failure
    /// names files of the same name elsewhere.
    pub fn locate(&self, path: &str) -> Result<(PathBuf, Metadata), Failure> {
        let place = self.path(path)?;
        match std::fs::metadata(&place) {
            Ok(metadata) => Ok((place, metadata)),
            Err(error) => Err(self.explain(path, &error)),
        }
    }

    /// Words for an error of the file system on `path`; for a missing file, with files of the same name elsewhere.
    fn explain(&self, path: &str, error: &std::io::Error) -> Failure {
        let failure = Failure::io(path, error);
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if failure.code != code::NOT_FOUND || name.is_empty() || name.contains(['*', '?', '[', '{', '!', '\\']) {
            return failure;
        }
        let query = Query {
            recursive: true,
            globs: vec![name.to_owned()],
            ..Query::default()
        };
        let found = self.list_page(&query).map(|page| page.entries).unwrap_or_default();
        if found.is_empty() {
            return failure;
        }
        let names: Vec<String> = found.iter().take(3).map(|entry| format!("`{}`", entry.path)).collect();
        failure.with_hint(format!("did you mean {}?", names.join(" or ")))
    }

    /// Proposes another content for a file whose whole content, `base`, this call has read.
    pub fn propose(&self, path: &str, base: &[u8], content: &[u8]) -> Result<(), Failure> {
        self.replace(path, base)?;
        self.stage_file(path, content)
    }

    /// Puts a file into the stage: a new one, or one that [`Host::replace`] or [`Host::rename`] names.
    pub fn stage_file(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let place = self.stage().join(clean_path(path)?);
        let written = place.parent().map_or(Ok(()), std::fs::create_dir_all);
        written
            .and_then(|()| std::fs::write(&place, content))
            .map_err(|error| match error.kind() {
                // There is no stage without the effect.
                std::io::ErrorKind::NotFound => {
                    let message = format!("`{path}` cannot be proposed without the effect `write-repository`");
                    Failure::new(code::DENIED, message)
                }
                _ => Failure::failed(format!("`{path}` could not be proposed: {error}")),
            })
    }

    /// The whole list of a query, page after page.
    pub fn list(&self, query: &Query) -> Result<Vec<Entry>, Failure> {
        let mut query = query.clone();
        let mut entries = Vec::new();
        loop {
            let page = self.list_page(&query)?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// All definitions of a name, page after page.
    pub fn all_definitions(&self, query: &SymbolQuery) -> Result<Vec<SymbolDefinition>, Failure> {
        all_pages(query, |query| self.definitions(query))
    }

    /// All definitions and uses of a name, page after page.
    pub fn all_references(&self, query: &SymbolQuery) -> Result<Vec<SymbolReference>, Failure> {
        all_pages(query, |query| self.references(query))
    }

    /// All files that a search has to read, page after page.
    pub fn all_candidates(&self, query: &SearchQuery) -> Result<Vec<String>, Failure> {
        let mut query = query.clone();
        let mut paths = Vec::new();
        loop {
            let page = self.candidates(&query)?;
            paths.extend(page.paths);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(paths),
            }
        }
    }
}

fn all_pages<T>(
    query: &SymbolQuery,
    ask: impl Fn(&SymbolQuery) -> Result<SymbolPage<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut query = query.clone();
    let mut items = Vec::new();
    loop {
        let page = ask(&query)?;
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(items),
        }
    }
}

/// Normalises a path relative to the root: `./a//b/` becomes `a/b`, the root becomes the empty string.
pub fn clean_path(path: &str) -> Result<String, Failure> {
    let refuse = |why: &str| {
        Err(Failure::invalid(format!("`{path}` {why}")).with_hint("give a path relative to the repository root"))
    };
    if path.starts_with('/') {
        return refuse("is an absolute path");
    }
    if path.contains('\0') {
        return refuse("contains a NUL character");
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return refuse("leaves the repository"),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// An image or a diagram of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Media {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/webp`, or [`Media::MERMAID`].
    pub media_type: String,
    /// Text in place of it: a model reads this, and never the content.
    pub alternative: String,
    /// The bytes of an image, the source of a diagram.
    pub content: Vec<u8>,
}

impl Media {
    /// Media type of the source of a Mermaid diagram.
    pub const MERMAID: &str = "text/vnd.mermaid";

    /// A Mermaid diagram.
    pub fn mermaid(source: impl Into<String>, alternative: impl Into<String>) -> Self {
        Self {
            media_type: Self::MERMAID.to_owned(),
            alternative: alternative.into(),
            content: source.into().into_bytes(),
        }
    }
}

/// Writes the component face of a skill. On other targets it does nothing, so that native tests build.
///
/// `export_skill!(MySkill)` for a [`Skill`] or a [`Handler`], `export_skill!(sharded MySkill)` for a [`Sharded`] one.
/// Several skills become the functions of one component, with a name, a version and a description of its own:
/// `export_skill!("my_tools", "1.0.0", "Does this and that.", [One, Another])`, with a [`ComponentMetadata`] as the last
/// argument if there is more to say. The bindings are made in the author's crate, because a component exports just what
/// its own crate asks for.
#[macro_export]
macro_rules! export_skill {
    ($skill:ty) => {
        #[cfg(target_family = "wasm")]
        mod component_face {
            $crate::bindings!("tool:component/skill");
            $crate::handler_face!($skill);
            export!(Face);
        }
    };
    (sharded $skill:ty) => {
        #[cfg(target_family = "wasm")]
        mod component_face {
            $crate::bindings!("tool:component/sharded-skill");
            $crate::handler_face!($skill);
            impl exports::tool::skill::sharded::Guest for Face {
                fn split(_: String, arguments: String, parts: u32) -> Result<Vec<String>, Failure> {
                    $crate::component::split::<$skill>(&arguments, parts)
                }
                fn merge(_: String, arguments: String, outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
                    $crate::component::merge::<$skill>(&arguments, outcomes)
                }
            }
            export!(Face);
        }
    };
    ($name:expr, $version:expr, $description:expr, [$($skill:ty),+ $(,)?] $(, $metadata:expr)? $(,)?) => {
        // Natively nothing asks for it, but its names are used.
        $(#[cfg(not(target_family = "wasm"))] const _: fn() -> $crate::ComponentMetadata = || $metadata;)?
        #[cfg(target_family = "wasm")]
        mod component_face {
            use super::*;
            use $crate::component::bindings::tool::skill::types::{Descriptor, Failure, Outcome};

            $crate::bindings!("tool:component/skill");

            struct Face;
            impl exports::tool::skill::handler::Guest for Face {
                fn describe() -> Descriptor {
                    Descriptor {
                        name: $name.to_owned(),
                        version: $version.to_owned(),
                        description: $description.to_owned(),
                        functions: vec![$($crate::component::function::<$skill>()),+],
                        metadata: None$(.or_else(|| $crate::component::component_metadata(&$metadata)))?,
                    }
                }
                fn call(name: String, arguments: String) -> Result<Outcome, Failure> {
                    $(
                        if name == $crate::component::name::<$skill>() {
                            return $crate::component::call::<$skill>(&arguments);
                        }
                    )+
                    Err($crate::component::unknown(&name))
                }
            }
            export!(Face);
        }
    };
}

/// Bindings of the exports. Those of the imports are the kit's own.
#[doc(hidden)]
#[macro_export]
macro_rules! bindings {
    ($world:literal) => {
        $crate::wit_bindgen::generate!({
            path: "../../wit",
            inline: "
                package tool:component;
                world skill {
                    export tool:skill/handler@1.0.0;
                }
                world sharded-skill {
                    include skill;
                    export tool:skill/sharded@1.0.0;
                }
            ",
            world: $world,
            runtime_path: "::skill_sdk::wit_bindgen::rt",
            with: {
                "tool:skill/types@1.0.0": ::skill_sdk::component::bindings::tool::skill::types,
            },
        });
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! handler_face {
    ($skill:ty) => {
        use super::*;
        use $crate::component::bindings::tool::skill::types::{Descriptor, Failure, Outcome};

        struct Face;
        impl exports::tool::skill::handler::Guest for Face {
            fn describe() -> Descriptor {
                $crate::component::describe::<$skill>()
            }
            fn call(_: String, arguments: String) -> Result<Outcome, Failure> {
                $crate::component::call::<$skill>(&arguments)
            }
        }
    };
}
