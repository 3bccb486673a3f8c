//! Interface for the authors of skills in Rust.
//!
//! A skill is a type that implements [`Skill`] and is exported with [`export_skill!`]. Its arguments are a struct;
//! the schema that the model reads is derived from that struct ([`schema`]). The skill reaches the repository through
//! `&dyn` [`Host`], so native tests run its logic on a folder with [`testing::FakeHost`]. Only the component that the
//! macro writes needs WebAssembly. The contract is `wit/skill.wit`, and this crate uses its names. The author's guide
//! is `skills/README.md`.
//!
//! [`text`] helps to write answers, `pattern` (a feature of that name) matches regular expressions against lines, and
//! [`testing::check_description`] checks a skill's description.

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

/// A skill: its name and description, its arguments, and one function.
///
/// The model reads the doc comments of the arguments' fields:
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

    /// Semantic version, for example `1.2.0`.
    const VERSION: &'static str;

    /// Purpose of the skill and when to use it, written for the model.
    const DESCRIPTION: &'static str;

    /// Effects that the skill may cause, in the contract's words.
    ///
    /// The component imports only the interfaces of these effects, because the host refuses a component that imports
    /// more. A function of [`Host`] whose effect is missing here fails with [`code::UNAVAILABLE`], whatever the
    /// policy says.
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    /// Arguments from the model. The host validates every call against [`schema::of`] this type. Its error names the
    /// position, the expected and the given value, and the nearest name.
    type Arguments: DeserializeOwned + JsonSchema;

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// The model reads a [`Failure`] in place of the answer, and may try again with other arguments.
    fn run(host: &dyn Host, arguments: Self::Arguments) -> Result<Outcome, Failure>;

    /// Facts about the function beyond what the host enforces.
    fn about() -> FunctionMetadata {
        FunctionMetadata::default()
    }

    /// Facts about the component, if it exports this function alone.
    fn about_component() -> ComponentMetadata {
        ComponentMetadata::default()
    }
}

/// The contract's interface `handler`, for a skill that writes its schema by hand. Every [`Skill`] implements it.
pub trait Handler {
    /// Effects that the skill may cause. [`Handler::describe`] must return the same list (`effects: Self::EFFECTS`).
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    /// Describes the skill for the host and the model.
    fn describe() -> Descriptor;

    /// Runs one call. `arguments` is a JSON object that satisfies the descriptor's schema.
    ///
    /// # Errors
    ///
    /// The model reads a [`Failure`] in place of the answer.
    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure>;

    /// Facts about the function beyond what the host enforces.
    fn metadata() -> FunctionMetadata {
        FunctionMetadata::default()
    }

    /// Facts about the component, if it exports this function alone.
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
/// The host does not validate the arguments of a part, so they may have fields that the model does not know: mark
/// them with `#[serde(default)]` and `#[schemars(skip)]`.
pub trait Sharded: Handler {
    /// Splits a call into at most `parts` calls. Each element is a JSON object for [`Handler::call`]. With fewer than
    /// two elements, the host makes the call undivided. [`arguments`] reads what the model gave.
    ///
    /// # Errors
    ///
    /// The call fails with this [`Failure`], and no part runs.
    fn split(host: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure>;

    /// Joins the outcomes of the parts, in their order.
    ///
    /// # Errors
    ///
    /// The call fails with this [`Failure`].
    fn merge(arguments: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure>;
}

/// Description of one function. A component with one function takes over its name and version.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// `[a-z][a-z0-9_]*`, at most 64 bytes.
    pub name: &'static str,
    /// Semantic version, for example `1.2.0`.
    pub version: &'static str,
    /// Purpose of the skill and when to use it, written for the model.
    pub description: &'static str,
    /// JSON Schema of the arguments.
    pub parameters: serde_json::Value,
    /// Effects that the skill may cause.
    pub effects: &'static [&'static str],
}

/// Limit for [`Outcome::details`]: the contract's 1 MiB. The host fails a call whose details are longer.
const DETAILS_BYTES_MAX: usize = 1024 * 1024;

/// The answer of a call that succeeded.
///
/// ```
/// use skill_sdk::Outcome;
///
/// let first = Outcome::page("line 1\nline 2\n", Some("3".to_owned()));
/// assert!(first.truncated);
/// let last = Outcome::text("line 3\n");
/// assert_eq!(last.cursor, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Text for the model: at most 1 MiB. The host removes control characters other than tab and line feed.
    pub text: String,
    /// True if there is more than `text` holds.
    pub truncated: bool,
    /// Opaque text. Passed back as the argument `cursor`, it asks for the rest.
    pub cursor: Option<String>,
    /// Repository paths that this proposal removes.
    pub deletions: Vec<String>,
    /// The same answer for programs: a JSON object, see [`Outcome::with_details`].
    pub details: Option<String>,
}

impl Outcome {
    /// Creates a complete answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::page(text, None)
    }

    /// Creates an answer that `cursor` continues; a complete one without `cursor`.
    pub fn page(text: impl Into<String>, cursor: Option<String>) -> Self {
        Self {
            text: text.into(),
            truncated: cursor.is_some(),
            cursor,
            deletions: Vec::new(),
            details: None,
        }
    }

    /// Adds the same answer for programs: a struct or a map that becomes a JSON object of at most 1 MiB. Longer
    /// details are dropped.
    #[must_use]
    pub fn with_details(mut self, details: &impl Serialize) -> Self {
        let json = serde_json::to_string(details).ok();
        self.details = json.filter(|json| json.len() <= DETAILS_BYTES_MAX);
        self
    }
}

/// The answer of a call that did not succeed.
///
/// ```
/// use skill_sdk::{Failure, code};
///
/// let failure = Failure::not_found("there is no entry `a`").with_hint("list the entries first");
/// assert_eq!(failure.code, code::NOT_FOUND);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of the contract's codes, see [`code`].
    pub code: String,
    /// The problem, in a sentence that the model can act on.
    pub message: String,
    /// Advice on what to do instead.
    pub hint: Option<String>,
}

/// The contract's failure codes.
pub mod code {
    /// The arguments are not valid.
    pub const INVALID_ARGUMENTS: &str = "invalid-arguments";
    /// The requested thing does not exist.
    pub const NOT_FOUND: &str = "not-found";
    /// The user, the policy or the sandbox refuses it.
    pub const DENIED: &str = "denied";
    /// It was tried and failed.
    pub const FAILED: &str = "failed";
    /// Something that the call needs is missing.
    pub const UNAVAILABLE: &str = "unavailable";
    /// A limit was reached.
    pub const LIMIT: &str = "limit";
}

impl Failure {
    /// Creates a failure with one of the codes in [`code`].
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// Creates a failure for arguments that are not valid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENTS, message)
    }

    /// Creates a failure for something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// Creates a failure for something that was tried and did not work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(code::FAILED, message)
    }

    /// Adds advice on what to do instead.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Converts an error of the file system on `path` to a failure with a code and a message for the model.
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

/// Reads the arguments into a typed form.
///
/// # Errors
///
/// [`code::INVALID_ARGUMENTS`], with the name of the field. The host has validated the arguments, so this means that
/// schema and type disagree.
pub fn arguments<T: DeserializeOwned>(json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::invalid(format!("the arguments do not fit: {error}")))
}

/// The repository and the services of the host, as a skill sees them.
///
/// Files are read with `std::fs` beneath [`Host::repo`]; everything else is a function here. In a component each
/// function is an import that the policy may deny. Paths are relative to the repository root.
///
/// # Errors
///
/// Every function that returns a `Result` fails with [`code::DENIED`] if the policy refuses its effect, and with
/// [`code::UNAVAILABLE`] if the skill does not declare it. A path that is absolute or leaves the repository is
/// [`code::INVALID_ARGUMENTS`].
pub trait Host {
    /// Path at which the repository is mounted, read-only.
    fn repo(&self) -> &Path;

    /// An empty directory for the files of a proposal. It exists only for a skill with the effect `write-repository`.
    fn stage(&self) -> &Path;

    /// Returns one page of the file list.
    fn list_page(&self, query: &Query) -> Result<Page, Failure>;

    /// Counts the entries beneath `under` that no list holds.
    fn count_not_listed(&self, under: &str) -> Result<NotListed, Failure>;

    /// True if `.gitattributes` calls the file generated.
    fn is_generated(&self, path: &str) -> Result<bool, Failure>;

    /// Reads the selected files in the order of their paths and passes each to `visit`, until that breaks off.
    ///
    /// For skills that read a whole tree: it costs a fraction of opening each file beneath [`Host::repo`].
    fn read_files(&self, selection: &Selection, visit: &mut Visit<'_>) -> Result<(), Failure>;

    /// Cuts a selection into at most `parts` runs that take about equally long to read. Returns the
    /// [`Selection::start`] of each run but the first.
    fn divide(&self, selection: &Selection, parts: u32) -> Result<Vec<String>, Failure>;

    /// Tells the host that the answer shows this file to the model, so that a later proposal may replace the file.
    /// `content` is the file's whole content, which the answer's text must hold word by word.
    fn shown(&self, path: &str, content: &[u8]);

    /// Returns one page of the definitions of a name, by syntax tree.
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

    /// Returns one page of the definitions and uses of a name.
    fn references(&self, query: &SymbolQuery) -> Result<SymbolPage<SymbolReference>, Failure>;

    /// Returns the definitions of a file, in the order of lines.
    ///
    /// # Errors
    ///
    /// [`code::UNAVAILABLE`] if the host has no syntax tree of the file: it does not know the language, or the file
    /// is too large.
    fn outline(&self, path: &str) -> Result<Vec<SymbolDefinition>, Failure>;

    /// Returns the innermost definition around a line, counted from 1.
    fn enclosing(&self, path: &str, line: u32) -> Result<Option<SymbolDefinition>, Failure>;

    /// Returns the names that a range of lines uses, in their order. Lines are counted from 1; `last_line` is
    /// included.
    fn uses(&self, path: &str, first_line: u32, last_line: u32) -> Result<Vec<SymbolReference>, Failure>;

    /// Returns one page of the files that a search has to read. The matching is up to the skill.
    fn candidates(&self, query: &SearchQuery) -> Result<CandidatePage, Failure>;

    /// Reads the files of a selection that can match, in the order of their paths, and reports how many files it
    /// leaves out between them. It covers the same files as [`Host::read_files`].
    fn read_matching(
        &self,
        selection: &Selection,
        narrowing: &Narrowing,
        visit: &mut VisitNarrowed<'_>,
    ) -> Result<(), Failure>;

    /// Returns the uncommitted changes.
    fn git_changes(&self, query: &DiffQuery) -> Result<Diff, Failure>;

    /// Returns one page of the commits that a revision reaches.
    fn git_log(&self, query: &LogQuery) -> Result<LogPage, Failure>;

    /// Returns one commit with its changes.
    fn git_show(&self, query: &ShowQuery) -> Result<CommitDiff, Failure>;

    /// Returns the commits that last changed the lines of a file.
    fn git_blame(&self, query: &BlameQuery) -> Result<BlamePage, Failure>;

    /// Makes a commit of `paths`. Without paths, it commits the files that the session changed, and with `all` every
    /// change.
    fn git_commit(&self, message: &str, paths: &[String], all: bool) -> Result<Commit, Failure>;

    /// Runs tests or a check by a named recipe, and waits for the end. A failing test is a result, not an error.
    fn run_tests(&self, request: &TestRequest) -> Result<Vec<TestSuite>, Failure>;

    /// Installs packages by a named recipe, and waits for the end. An installer that fails is a result, not an error.
    fn install(&self, request: &InstallRequest) -> Result<RunReport, Failure>;

    /// Lets this proposal replace or remove the file at `path`, or change its executable bit. `base` is the file's
    /// whole content as this call has read it. The host compares it again before it commits the proposal.
    fn replace(&self, path: &str, base: &[u8]) -> Result<(), Failure>;

    /// Moves a file that this call has read to a path that does not exist. It keeps its content, unless the stage
    /// holds a file under the new path.
    fn rename(&self, path: &str, new_path: &str, base: &[u8]) -> Result<(), Failure>;

    /// Sets or clears the executable bit of a file of this proposal.
    fn set_executable(&self, path: &str, executable: bool) -> Result<(), Failure>;

    /// Adds a place that supports the answer; `line` is counted from 1. At most 1000 in a call.
    fn cite(&self, path: &str, line: Option<u32>) -> Result<(), Failure>;

    /// Adds an image or a diagram to the answer: at most 8 in a call, with at most 512 KiB together.
    fn attach(&self, media: &Media) -> Result<(), Failure>;

    /// Sends the next piece of the answer while the call runs. The pieces come before [`Outcome::text`] and count as
    /// a part of it.
    fn say(&self, piece: &str);

    /// Reports progress to the user: `done` of `total` units. The host drops reports after the first 1000 of a call.
    fn progress(&self, done: u64, total: Option<u64>, message: &str);

    /// Sends a request to a host that the skill declares, and waits for the response. Redirects are not followed.
    ///
    /// # Errors
    ///
    /// [`code::UNAVAILABLE`] if no response arrives. A response with an error status is not an error.
    fn send_request(&self, request: &HttpRequest) -> Result<HttpResponse, Failure>;

    /// Returns a setting of this skill from the user's configuration. Values other than strings come as JSON.
    fn setting(&self, key: &str) -> Result<Option<String>, Failure>;

    /// Returns all settings of this skill, with their values.
    fn settings(&self) -> Result<Vec<(String, String)>, Failure>;

    /// Returns the value that an earlier call kept under this key for this repository.
    fn kept_value(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// Keeps a value for later calls in this repository.
    ///
    /// ```
    /// # fn count(host: &dyn skill_sdk::Host) -> Result<u8, skill_sdk::Failure> {
    /// let before = host.kept_value("calls")?.map_or(0, |value| value[0]);
    /// host.keep_value("calls", &[before + 1])?;
    /// # Ok(before)
    /// # }
    /// ```
    fn keep_value(&self, key: &str, value: &[u8]) -> Result<(), Failure>;

    /// Removes the value under this key.
    fn remove_value(&self, key: &str) -> Result<(), Failure>;

    /// Returns the keys of all kept values.
    fn kept_keys(&self) -> Result<Vec<String>, Failure>;

    /// Writes to the user's log, which the model does not read. `level` is `debug`, `info`, `warn` or `error`.
    fn log(&self, level: &str, message: &str);
}

/// Functions for every [`Host`] that build on those of the contract.
impl dyn Host + '_ {
    /// Returns the path of a repository file on this machine. Touches no file.
    ///
    /// # Errors
    ///
    /// [`code::INVALID_ARGUMENTS`] if the path is absolute, leaves the repository or contains a NUL character.
    pub fn path(&self, path: &str) -> Result<PathBuf, Failure> {
        let clean = clean_path(path)?;
        Ok(if clean.is_empty() {
            self.repo().to_owned()
        } else {
            self.repo().join(clean)
        })
    }

    /// Finds the entry at a repository path, and follows links. Returns its path on this machine and its metadata.
    ///
    /// # Errors
    ///
    /// As `path`. If there is no entry, [`code::NOT_FOUND`] with up to three files of the same name
    /// elsewhere.
    pub fn locate(&self, path: &str) -> Result<(PathBuf, Metadata), Failure> {
        let place = self.path(path)?;
        match std::fs::metadata(&place) {
            Ok(metadata) => Ok((place, metadata)),
            Err(error) => Err(self.explain(path, &error)),
        }
    }

    /// Converts an error of the file system. For a missing file, the hint names files of the same name elsewhere.
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

    /// Proposes new content for a file. `base` is the file's whole content as this call has read it.
    ///
    /// ```
    /// # fn upper(host: &dyn skill_sdk::Host) -> Result<(), skill_sdk::Failure> {
    /// # use skill_sdk::Failure;
    /// let place = host.path("README.md")?;
    /// let base = std::fs::read(&place).map_err(|error| Failure::io("README.md", &error))?;
    /// host.propose("README.md", &base, &base.to_ascii_uppercase())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Host::replace`] and `stage_file`.
    pub fn propose(&self, path: &str, base: &[u8], content: &[u8]) -> Result<(), Failure> {
        self.replace(path, base)?;
        self.stage_file(path, content)
    }

    /// Writes a file into the stage: a new one, or one that [`Host::replace`] or [`Host::rename`] names.
    ///
    /// # Errors
    ///
    /// [`code::DENIED`] without the effect `write-repository`, [`code::FAILED`] if the file cannot be written.
    pub fn stage_file(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let place = self.stage().join(clean_path(path)?);
        let written = place.parent().map_or(Ok(()), std::fs::create_dir_all);
        written
            .and_then(|()| std::fs::write(&place, content))
            .map_err(|error| match error.kind() {
                // The directory exists only for a skill with the effect.
                std::io::ErrorKind::NotFound => {
                    let message = format!("`{path}` cannot be proposed without the effect `write-repository`");
                    Failure::new(code::DENIED, message)
                }
                _ => Failure::failed(format!("`{path}` could not be proposed: {error}")),
            })
    }

    /// Collects the entries of all pages of a query.
    ///
    /// ```
    /// # fn count(host: &dyn skill_sdk::Host) -> Result<usize, skill_sdk::Failure> {
    /// # use skill_sdk::Query;
    /// let rust = Query { recursive: true, globs: vec!["*.rs".to_owned()], ..Query::default() };
    /// let files = host.list(&rust)?.len();
    /// # Ok(files)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Host::list_page`].
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

    /// Collects the definitions of all pages.
    ///
    /// # Errors
    ///
    /// As [`Host::definitions`].
    pub fn all_definitions(&self, query: &SymbolQuery) -> Result<Vec<SymbolDefinition>, Failure> {
        all_pages(query, |query| self.definitions(query))
    }

    /// Collects the definitions and uses of all pages.
    ///
    /// # Errors
    ///
    /// As [`Host::references`].
    pub fn all_references(&self, query: &SymbolQuery) -> Result<Vec<SymbolReference>, Failure> {
        all_pages(query, |query| self.references(query))
    }

    /// Collects the paths of all pages.
    ///
    /// # Errors
    ///
    /// As [`Host::candidates`].
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

/// Normalises a path relative to the root. The root becomes the empty string.
///
/// ```
/// use skill_sdk::clean_path;
///
/// assert_eq!(clean_path("./a//b/").as_deref(), Ok("a/b"));
/// assert!(clean_path("../a").is_err());
/// ```
///
/// # Errors
///
/// [`code::INVALID_ARGUMENTS`] if the path is absolute, leaves the repository or contains a NUL character.
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

/// An image or a diagram that belongs to an answer.
///
/// ```
/// use skill_sdk::Media;
///
/// let diagram = Media::mermaid("graph TD; a-->b", "`a` calls `b`");
/// assert_eq!(diagram.media_type, Media::MERMAID);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Media {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/webp`, or [`Media::MERMAID`].
    pub media_type: String,
    /// Alternative text, at most 4 KiB. The model reads this, and never the content.
    pub alternative: String,
    /// The bytes of an image, or the source of a diagram.
    pub content: Vec<u8>,
}

impl Media {
    /// Media type of the source of a Mermaid diagram.
    pub const MERMAID: &str = "text/vnd.mermaid";

    /// Creates a Mermaid diagram from its source and its alternative text.
    pub fn mermaid(source: impl Into<String>, alternative: impl Into<String>) -> Self {
        Self {
            media_type: Self::MERMAID.to_owned(),
            alternative: alternative.into(),
            content: source.into().into_bytes(),
        }
    }
}

/// Exports a skill as a component. On targets other than WebAssembly it exports nothing, so that native tests build.
///
/// `export_skill!(MySkill)` exports a [`Skill`] or a [`Handler`], and `export_skill!(sharded MySkill)` a [`Sharded`]
/// one. Several skills become the functions of one component with its own name, version and description:
/// `export_skill!("my_tools", "1.0.0", "Does this and that.", [One, Another])`. A [`ComponentMetadata`] as the last
/// argument adds facts about the component. The macro makes the bindings in the author's crate, because a component
/// exports only what its own crate exports.
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
        // On other targets nothing calls these functions; this marks them as used.
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

/// Bindings of the exports. The bindings of the imports are in this crate.
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
