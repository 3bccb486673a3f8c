//! A [`Host`] on a folder, for native tests of a skill's logic.
//!
//! [`FakeHost::call`] runs a skill without the sandbox: on this machine, with `cargo test`. To try ignore rules,
//! hidden names, limits and the policy, use `tool skill test`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::{
    BlamePage, BlameQuery, CandidatePage, Commit, CommitDiff, Content, Diff, DiffQuery, Entry, EntryKind, Failure,
    Handler, Host, HttpRequest, HttpResponse, InstallRequest, LeftOut, LogPage, LogQuery, Media, Narrowed, Narrowing,
    NotListed, Outcome, Page, Query, RunReport, SearchQuery, Selection, ShowQuery, SymbolDefinition, SymbolPage,
    SymbolQuery, SymbolReference, TestRequest, TestSuite, Visit, VisitNarrowed, code,
};

/// Checks a skill's description: the rules that the host enforces at load, and what models need.
///
/// # Panics
///
/// If the description breaks a rule.
pub fn check_description<S: Handler>() {
    let descriptor = S::describe();
    let name = descriptor.name;
    let lower = |c: char| c.is_ascii_lowercase();
    assert!(
        name.starts_with(lower) && name.len() <= 64,
        "the name `{name}` is not one"
    );
    assert!(
        name.chars().all(|c| lower(c) || c.is_ascii_digit() || c == '_'),
        "the name `{name}` is not one"
    );
    assert_eq!(descriptor.version.split('.').count(), 3, "the version is not semantic");
    assert_eq!(descriptor.effects, S::EFFECTS, "describe() and EFFECTS disagree");
    assert!(
        descriptor.description.len() >= 40,
        "the description is too short to choose by"
    );
    let schema = &descriptor.parameters;
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["additionalProperties"], false);
    for union in ["oneOf", "anyOf", "allOf", "not"] {
        assert!(
            schema.get(union).is_none(),
            "`{union}` at the top is not understood by every provider"
        );
    }
    let properties = schema["properties"].as_object().expect("`properties` is an object");
    for required in schema["required"].as_array().expect("`required` is a list") {
        assert!(properties.contains_key(required.as_str().expect("`required` holds names")));
    }
    properties
        .iter()
        .for_each(|(name, property)| check_property(name, property));
}

fn check_property(name: &str, property: &Value) {
    let described = property["description"].as_str().is_some_and(|text| text.len() >= 10);
    assert!(described, "`{name}` needs a description");
    let kind = property["type"].as_str().expect("one type for each property");
    if kind == "integer" {
        assert!(property["minimum"].is_i64(), "`{name}` needs a minimum");
    }
    if kind == "array" {
        assert!(
            property["items"]["type"].is_string(),
            "`{name}` needs the type of its items"
        );
    }
}

/// A host whose repository is a temporary folder and whose other answers are scripted.
///
/// Its file list applies no ignore rules: those are the real host's, tested there. Globs know `*`, `**` and `!`.
///
/// ```
/// # use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome};
/// # struct Length;
/// # impl Handler for Length {
/// #     fn describe() -> Descriptor { unreachable!() }
/// #     fn call(host: &dyn Host, _: &str) -> Result<Outcome, Failure> {
/// #         let (_, metadata) = host.locate("a.txt")?;
/// #         Ok(Outcome::text(metadata.len().to_string()))
/// #     }
/// # }
/// use skill_sdk::serde_json::json;
/// use skill_sdk::testing::FakeHost;
///
/// let host = FakeHost::new(&[("a.txt", "four")]);
/// let outcome = host.call::<Length>(&json!({})).expect("it works");
/// assert_eq!(outcome.text, "4");
/// ```
#[derive(Debug)]
pub struct FakeHost {
    base: PathBuf,
    repo: PathBuf,
    stage: PathBuf,
    /// [`Page::left_out`](crate::Page::left_out) of every list that is not recursive.
    pub left_out: u32,
    /// Answer of [`Host::count_not_listed`].
    pub not_listed: NotListed,
    /// Files that `.gitattributes` calls generated.
    pub generated: BTreeSet<String>,
    /// Text files that a narrowed reading leaves out, whatever they hold.
    pub unmatched: BTreeSet<String>,
    /// Entries on a page of a list; absent for all on one page.
    pub page_entries: Option<usize>,
    /// Symbols of the repository; without them the functions about symbols answer `unavailable`.
    pub symbols: Option<FakeSymbols>,
    /// Answer of [`Host::git_changes`]; absent answers `denied`.
    pub diff: Option<Diff>,
    /// Answer of [`Host::git_log`]; absent answers `denied`.
    pub log: Option<LogPage>,
    /// Answer of [`Host::git_show`]; absent answers `denied`.
    pub show: Option<CommitDiff>,
    /// Answer of [`Host::git_blame`]; absent answers `denied`.
    pub blame: Option<BlamePage>,
    /// Answer of [`Host::git_commit`]; absent answers `denied`.
    pub commit: Option<Commit>,
    /// Answer of [`Host::run_tests`]; absent answers `denied`.
    pub suites: Option<Result<Vec<TestSuite>, Failure>>,
    /// Answer of [`Host::install`]; absent answers `denied`.
    pub run: Option<RunReport>,
    /// Answer of [`Host::send_request`]; absent answers `denied`.
    pub response: Option<Result<HttpResponse, Failure>>,
    /// Settings of the skill.
    pub settings: BTreeMap<String, String>,
    /// Values that the skill keeps.
    pub values: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Paths that the skill reported as shown, with the content's length in bytes.
    pub shown: RefCell<BTreeMap<String, usize>>,
    /// Requests that reached the scripted answers, in their debug form.
    pub requests: RefCell<Vec<String>>,
    /// Messages that the skill logged.
    pub logged: RefCell<Vec<String>>,
    /// Paths that the skill replaces, with the length in bytes of the content that it has read.
    pub replaced: RefCell<BTreeMap<String, usize>>,
    /// Files that the skill moves, with their new paths.
    pub renamed: RefCell<BTreeMap<String, String>>,
    /// Executable bits that the skill changes.
    pub executable: RefCell<BTreeMap<String, bool>>,
    /// Places that the skill cited: path and line.
    pub cited: RefCell<Vec<(String, Option<u32>)>>,
    /// Images and diagrams that the skill attached.
    pub attached: RefCell<Vec<Media>>,
    /// Text that the skill sent while it ran.
    pub said: RefCell<String>,
    /// Progress that the skill reported.
    pub progress: RefCell<Vec<String>>,
}

/// Symbols of a scripted repository.
#[derive(Debug, Clone, Default)]
pub struct FakeSymbols {
    /// Definitions, in the order of paths and lines.
    pub definitions: Vec<SymbolDefinition>,
    /// Definitions and uses, in the order of paths and lines.
    pub references: Vec<SymbolReference>,
}

impl FakeHost {
    /// Creates a repository with these files: path and content.
    ///
    /// # Panics
    ///
    /// If a temporary folder cannot be made.
    pub fn new<P: AsRef<str>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("skill-sdk-{}-{number}", std::process::id()));
        let (repo, stage) = (base.join("repo"), base.join("stage"));
        fs::create_dir_all(&repo).expect("the temporary folder is writable");
        fs::create_dir_all(&stage).expect("the temporary folder is writable");
        let host = Self {
            base,
            repo,
            stage,
            left_out: 0,
            not_listed: NotListed::default(),
            generated: BTreeSet::new(),
            unmatched: BTreeSet::new(),
            page_entries: None,
            symbols: None,
            diff: None,
            log: None,
            show: None,
            blame: None,
            commit: None,
            suites: None,
            run: None,
            response: None,
            settings: BTreeMap::new(),
            values: RefCell::default(),
            shown: RefCell::default(),
            requests: RefCell::default(),
            logged: RefCell::default(),
            replaced: RefCell::default(),
            renamed: RefCell::default(),
            executable: RefCell::default(),
            cited: RefCell::default(),
            attached: RefCell::default(),
            said: RefCell::default(),
            progress: RefCell::default(),
        };
        for (path, content) in files {
            host.write(path.as_ref(), content.as_ref());
        }
        host
    }

    /// Runs one call of a skill.
    ///
    /// # Errors
    ///
    /// The [`Failure`] of the skill.
    pub fn call<S: Handler>(&self, arguments: &Value) -> Result<Outcome, Failure> {
        S::call(self, &arguments.to_string())
    }

    /// Writes a file of the repository.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &str, content: &[u8]) {
        let place = self.repo.join(path);
        fs::create_dir_all(place.parent().expect("a file has a parent")).expect("the folder is writable");
        fs::write(place, content).expect("the folder is writable");
    }

    /// Returns the content that the skill proposes for `path`.
    pub fn staged(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.stage.join(path)).ok()
    }

    fn selected(&self, selection: &Selection) -> Result<Vec<Entry>, Failure> {
        let host: &dyn Host = self;
        let mut entries = host.list(&Query {
            under: selection.under.clone(),
            recursive: true,
            globs: selection.globs.clone(),
            after: None,
        })?;
        entries.retain(|entry| entry.kind == EntryKind::File && selection.holds(&entry.path));
        Ok(entries)
    }

    fn known(&self) -> Result<&FakeSymbols, Failure> {
        let unavailable = || Failure::new(code::UNAVAILABLE, "this host has no parser of source files");
        self.symbols.as_ref().ok_or_else(unavailable)
    }

    fn denied_failure<T>(what: &str) -> Result<T, Failure> {
        Err(Failure::new(code::DENIED, format!("{what} is not granted")))
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        // A folder that cannot be removed must not fail a test.
        let _ = fs::remove_dir_all(&self.base);
    }
}

impl Host for FakeHost {
    fn repo(&self) -> &Path {
        &self.repo
    }

    fn stage(&self) -> &Path {
        &self.stage
    }

    fn list_page(&self, query: &Query) -> Result<Page, Failure> {
        let mut entries = Vec::new();
        let start = self.repo.join(&query.under);
        let metadata = fs::symlink_metadata(&start).map_err(|error| Failure::io(&query.under, &error))?;
        if metadata.is_dir() {
            walk_directory(&self.repo, &start, query.recursive, &mut entries);
        } else {
            entries.push(file_entry(&self.repo, &start));
        }
        entries.retain(|entry| is_selected(&query.globs, &entry.path));
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let start = query
            .after
            .as_ref()
            .map_or(0, |after| entries.partition_point(|entry| entry.path <= *after));
        let mut entries = entries.split_off(start);
        let more = self.page_entries.filter(|&most| most < entries.len());
        entries.truncate(more.unwrap_or(usize::MAX));
        Ok(Page {
            next: more.and_then(|_| entries.last().map(|entry| entry.path.clone())),
            entries,
            left_out: if query.recursive { 0 } else { self.left_out },
        })
    }

    fn count_not_listed(&self, _under: &str) -> Result<NotListed, Failure> {
        Ok(self.not_listed.clone())
    }

    fn is_generated(&self, path: &str) -> Result<bool, Failure> {
        Ok(self.generated.contains(path))
    }

    fn read_files(&self, selection: &Selection, visit: &mut Visit<'_>) -> Result<(), Failure> {
        for entry in self.selected(selection)? {
            let content = fs::read(self.repo.join(&entry.path));
            let content = match &content {
                Err(_) => Content::Unreadable,
                Ok(content) if content.len() as u64 > selection.file_bytes_max => Content::Large,
                Ok(content) if selection.text_only && content.iter().take(8 << 10).any(|&byte| byte == 0) => {
                    Content::Binary
                }
                Ok(content) => Content::Whole(content),
            };
            if visit(&entry.path, content).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn divide(&self, selection: &Selection, parts: u32) -> Result<Vec<String>, Failure> {
        let entries = self.selected(selection)?;
        let run = entries.len().div_ceil(parts.max(1) as usize).max(1);
        Ok(entries.chunks(run).skip(1).map(|run| run[0].path.clone()).collect())
    }

    fn definitions(&self, query: &SymbolQuery) -> Result<SymbolPage<SymbolDefinition>, Failure> {
        let (owner, name) = query
            .name
            .rsplit_once('.')
            .map_or((None, query.name.as_str()), |(owner, name)| (Some(owner), name));
        let is_one = |one: &&SymbolDefinition| {
            one.name == name
                && is_beneath(&one.path, &query.under)
                && owner.is_none_or(|owner| one.container.ends_with(owner))
        };
        let definitions = &self.known()?.definitions;
        Ok(SymbolPage {
            items: definitions.iter().filter(is_one).cloned().collect(),
            next: None,
        })
    }

    fn references(&self, query: &SymbolQuery) -> Result<SymbolPage<SymbolReference>, Failure> {
        let name = query.name.rsplit('.').next().unwrap_or_default();
        let is_one = |one: &&SymbolReference| one.name == name && is_beneath(&one.path, &query.under);
        let references = &self.known()?.references;
        Ok(SymbolPage {
            items: references.iter().filter(is_one).cloned().collect(),
            next: None,
        })
    }

    fn outline(&self, path: &str) -> Result<Vec<SymbolDefinition>, Failure> {
        let definitions = self.known()?.definitions.iter();
        Ok(definitions.filter(|one| one.path == path).cloned().collect())
    }

    fn enclosing(&self, path: &str, line: u32) -> Result<Option<SymbolDefinition>, Failure> {
        let around = self.outline(path)?.into_iter();
        let around = around.filter(|one| (one.first_line..=one.last_line).contains(&line));
        Ok(around.min_by_key(|one| one.last_line - one.first_line))
    }

    fn uses(&self, path: &str, first_line: u32, last_line: u32) -> Result<Vec<SymbolReference>, Failure> {
        let is_use = |one: &&SymbolReference| {
            one.path == path && one.kind != "definition" && (first_line..=last_line).contains(&one.line)
        };
        Ok(self.known()?.references.iter().filter(is_use).cloned().collect())
    }

    fn candidates(&self, query: &SearchQuery) -> Result<CandidatePage, Failure> {
        let page = self.list_page(&Query {
            under: query.under.clone(),
            recursive: true,
            globs: query.globs.clone(),
            after: query.after.clone(),
        })?;
        Ok(CandidatePage {
            paths: page.entries.into_iter().map(|entry| entry.path).collect(),
            narrowed: false,
            next: page.next,
        })
    }

    fn read_matching(
        &self,
        selection: &Selection,
        narrowing: &Narrowing,
        visit: &mut VisitNarrowed<'_>,
    ) -> Result<(), Failure> {
        let mut left_out = LeftOut::default();
        let mut is_over = false;
        self.read_files(selection, &mut |path, content| {
            let is_text = matches!(content, Content::Whole(_));
            if is_text && self.unmatched.contains(path) {
                left_out.text += 1;
                left_out.text_apart += u32::from(!narrowing.apart.is_empty() && is_selected(&narrowing.apart, path));
                return ControlFlow::Continue(());
            }
            if content == Content::Binary {
                left_out.binary += 1;
                return ControlFlow::Continue(());
            }
            let counts = std::mem::take(&mut left_out);
            if counts != LeftOut::default() {
                visit(Narrowed::LeftOut(counts))?;
            }
            let visited = visit(Narrowed::File(path, content));
            is_over = visited.is_break();
            visited
        })?;
        if !is_over && left_out != LeftOut::default() {
            // This is the last element, so breaking off changes nothing.
            let _ = visit(Narrowed::LeftOut(left_out));
        }
        Ok(())
    }

    fn shown(&self, path: &str, content: &[u8]) {
        self.shown.borrow_mut().insert(path.to_owned(), content.len());
    }

    fn git_changes(&self, query: &DiffQuery) -> Result<Diff, Failure> {
        self.requests.borrow_mut().push(format!("{query:?}"));
        self.diff.clone().map_or_else(|| Self::denied_failure("read-git"), Ok)
    }

    fn git_log(&self, query: &LogQuery) -> Result<LogPage, Failure> {
        self.requests.borrow_mut().push(format!("{query:?}"));
        self.log.clone().map_or_else(|| Self::denied_failure("read-git"), Ok)
    }

    fn git_show(&self, query: &ShowQuery) -> Result<CommitDiff, Failure> {
        self.requests.borrow_mut().push(format!("{query:?}"));
        self.show.clone().map_or_else(|| Self::denied_failure("read-git"), Ok)
    }

    fn git_blame(&self, query: &BlameQuery) -> Result<BlamePage, Failure> {
        self.requests.borrow_mut().push(format!("{query:?}"));
        self.blame.clone().map_or_else(|| Self::denied_failure("read-git"), Ok)
    }

    fn git_commit(&self, message: &str, paths: &[String], all: bool) -> Result<Commit, Failure> {
        self.requests.borrow_mut().push(format!("{message:?} {paths:?} {all}"));
        self.commit
            .clone()
            .map_or_else(|| Self::denied_failure("commit-git"), Ok)
    }

    fn run_tests(&self, request: &TestRequest) -> Result<Vec<TestSuite>, Failure> {
        self.requests.borrow_mut().push(format!("{request:?}"));
        self.suites
            .clone()
            .unwrap_or_else(|| Self::denied_failure("run-process"))
    }

    fn install(&self, request: &InstallRequest) -> Result<RunReport, Failure> {
        self.requests.borrow_mut().push(format!("{request:?}"));
        self.run.clone().map_or_else(|| Self::denied_failure("install"), Ok)
    }

    fn replace(&self, path: &str, base: &[u8]) -> Result<(), Failure> {
        match fs::read(self.repo.join(path)) {
            Ok(content) if content == base => {
                self.replaced.borrow_mut().insert(path.to_owned(), base.len());
                Ok(())
            }
            Ok(_) => Err(Failure::new(code::DENIED, format!("`{path}` holds another content"))),
            Err(error) => Err(Failure::io(path, &error)),
        }
    }

    fn rename(&self, path: &str, new_path: &str, base: &[u8]) -> Result<(), Failure> {
        self.replace(path, base)?;
        self.renamed.borrow_mut().insert(path.to_owned(), new_path.to_owned());
        Ok(())
    }

    fn set_executable(&self, path: &str, executable: bool) -> Result<(), Failure> {
        self.executable.borrow_mut().insert(path.to_owned(), executable);
        Ok(())
    }

    fn cite(&self, path: &str, line: Option<u32>) -> Result<(), Failure> {
        self.cited.borrow_mut().push((path.to_owned(), line));
        Ok(())
    }

    fn attach(&self, media: &Media) -> Result<(), Failure> {
        self.attached.borrow_mut().push(media.clone());
        Ok(())
    }

    fn say(&self, piece: &str) {
        self.said.borrow_mut().push_str(piece);
    }

    fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        let total = total.map_or_else(String::new, |total| format!(" of {total}"));
        self.progress.borrow_mut().push(format!("{done}{total}: {message}"));
    }

    fn send_request(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        self.requests.borrow_mut().push(format!("{request:?}"));
        self.response
            .clone()
            .unwrap_or_else(|| Self::denied_failure("the request"))
    }

    fn setting(&self, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.settings.get(key).cloned())
    }

    fn settings(&self) -> Result<Vec<(String, String)>, Failure> {
        Ok(self.settings.clone().into_iter().collect())
    }

    fn kept_value(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.values.borrow().get(key).cloned())
    }

    fn keep_value(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.values.borrow_mut().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn remove_value(&self, key: &str) -> Result<(), Failure> {
        self.values.borrow_mut().remove(key);
        Ok(())
    }

    fn kept_keys(&self) -> Result<Vec<String>, Failure> {
        Ok(self.values.borrow().keys().cloned().collect())
    }

    fn log(&self, level: &str, message: &str) {
        self.logged.borrow_mut().push(format!("{level}: {message}"));
    }
}

fn is_beneath(path: &str, under: &str) -> bool {
    let rest = path.strip_prefix(under);
    under.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn walk_directory(root: &Path, directory: &Path, recursive: bool, entries: &mut Vec<Entry>) {
    for item in fs::read_dir(directory).into_iter().flatten().flatten() {
        let place = item.path();
        let found = file_entry(root, &place);
        match (found.kind, recursive) {
            (EntryKind::Directory, true) => walk_directory(root, &place, recursive, entries),
            _ => entries.push(found),
        }
    }
}

fn file_entry(root: &Path, place: &Path) -> Entry {
    let metadata = fs::symlink_metadata(place).expect("the entry was just listed");
    let kind = if metadata.is_dir() {
        EntryKind::Directory
    } else if metadata.is_symlink() {
        EntryKind::Symlink
    } else {
        EntryKind::File
    };
    Entry {
        path: place
            .strip_prefix(root)
            .expect("the entry lies beneath the root")
            .to_string_lossy()
            .into_owned(),
        kind,
        size: if kind == EntryKind::Directory {
            0
        } else {
            metadata.len()
        },
    }
}

fn is_selected(globs: &[String], path: &str) -> bool {
    let (excluding, including): (Vec<&str>, Vec<&str>) =
        globs.iter().map(String::as_str).partition(|glob| glob.starts_with('!'));
    let matches = |glob: &str| {
        let subject = if glob.contains('/') {
            path
        } else {
            path.rsplit('/').next().unwrap_or(path)
        };
        glob_matches(glob.as_bytes(), subject.as_bytes())
    };
    (including.is_empty() || including.into_iter().any(matches))
        && !excluding.into_iter().any(|glob| matches(&glob[1..]))
}

fn glob_matches(glob: &[u8], path: &[u8]) -> bool {
    match glob {
        [] => path.is_empty(),
        [b'*', b'*', b'/', rest @ ..] => {
            glob_matches(rest, path)
                || (0..path.len()).any(|at| path[at] == b'/' && glob_matches(rest, &path[at + 1..]))
        }
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| glob_matches(rest, &path[at..])),
        [b'*', rest @ ..] => (0..=path.len())
            .take_while(|&at| !path[..at].contains(&b'/'))
            .any(|at| glob_matches(rest, &path[at..])),
        [b'?', rest @ ..] => path.first().is_some_and(|&byte| byte != b'/') && glob_matches(rest, &path[1..]),
        [byte, rest @ ..] => path.first() == Some(byte) && glob_matches(rest, &path[1..]),
    }
}
