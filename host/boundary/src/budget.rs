//! The budget of one call: its limits, its clock, its records, and the reason for its end.
//!
//! [`CallBudget`] counts everything that a guest can use up. The parts of a sharded call share it. A limit that is
//! reached ends the guest with a [`GuestStop`], which becomes a typed error that names the skill.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTableError;

use crate::audit::Recorder;
use crate::contents::NarrowedSearch;
use crate::globs::Globs;
use crate::taint::FOREIGN_PLACES_MAX;
use crate::taint::OutsideFiles;
use crate::transport::TransportError;
use crate::{CallError, CrowdedLimit, Limits};
use tool_core::api::{Effect, ErrorKind, HostName, RequestRecord, TestRun, TestStatus};
use tool_core::digest::sha256_hex;
use tool_core::text::{clean_text, truncate_text};
use tool_repository::attributes::GeneratedFiles;
use tool_repository::bulk::ListedNames;
use tool_repository::foreign;
use tool_repository::{FileList, SkippedIgnores};

/// Places outside the user's own files that one call records. A directory of packages counts once. A call with more
/// places taints, so the bound is above the number of logs and lock files in a usual repository.
pub(crate) const CALL_PLACES_MAX: usize = 1_024;

/// Reason why the host ended a guest. wasmtime carries it as the error of a host call or of the epoch's callback.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestStop {
    /// A limit was reached.
    #[error("the limit of {limit} was exceeded")]
    Limit {
        /// Text for people.
        limit: String,
        /// Kind for the receipt.
        kind: ErrorKind,
    },
    /// The session ended, or another part of the same call failed.
    #[error("cancelled")]
    Cancelled,
    /// Too many programs run for calls.
    #[error("too many runs are under way")]
    Busy,
    /// The guest caused an effect that is not granted, in a function that cannot answer with a failure.
    #[error("the effect `{effect}` is not granted")]
    Denied {
        /// The effect. Boxed because it may hold a host name, and errors should be small.
        effect: Box<Effect>,
        /// Advice to the user.
        hint: String,
    },
    /// The guest called `exit`.
    #[error("it exited with status {0}")]
    Exit(u8),
}

impl GuestStop {
    pub(crate) fn limit(limit: impl Into<String>, kind: ErrorKind) -> Self {
        Self::Limit {
            limit: limit.into(),
            kind,
        }
    }
}

/// Deadline and resource use of one call.
#[derive(Debug)]
pub struct CallBudget {
    pub(crate) skill: String,
    pub(crate) limits: Limits,
    /// Cancelled when the session ends, when the time is up, or when a part has failed. Every wait of the call watches
    /// it.
    pub token: CancellationToken,
    pub(crate) started: Instant,
    session: CancellationToken,
    clock: Mutex<CallClock>,
    memory: AtomicU64,
    memory_peak: AtomicU64,
    memory_refused: AtomicBool,
    pub(crate) tables: Counter,
    pub(crate) random: Counter,
    pub(crate) read: Counter,
    pub(crate) walked: Counter,
    pub(crate) logged: AtomicU64,
    pub(crate) log_dropped: AtomicU64,
    /// Messages of the guest, within the limit of its log.
    log: Mutex<Vec<String>>,
    pub(crate) files_open: AtomicUsize,
    /// True after the disk of a stage was full.
    pub(crate) stage_full: AtomicBool,
    /// Decides which files may hold text from outside; absent if the call belongs to no session.
    files_outside: OnceLock<OutsideFiles>,
    /// Places that the guest has read and that may hold text from outside.
    places: Mutex<BTreeMap<String, WritablePlace>>,
    /// True after the call has had more than `CALL_PLACES_MAX` places.
    places_full: AtomicBool,
    /// Actions of the host for the guest, for the receipt.
    deeds: Mutex<HostActions>,
    /// Files that the guest says its answer shows, with digests of their content.
    claims: Mutex<BTreeMap<String, String>>,
    /// Files whose content the guest has read, if it may propose to replace them.
    served: OnceLock<Mutex<BTreeSet<String>>>,
    /// Digests of files whose keys the guest sees as placeholders, by path and by the digest of what the guest sees.
    copies: Mutex<BTreeMap<(String, String), String>>,
    /// Bytes of such copies that open files of the call have held.
    copied: AtomicU64,
    /// Lines that the client has received while the call runs.
    live_lines: AtomicUsize,
    /// File list, once the guest has asked for it: all pages must come from the same list, and parts need not walk
    /// again.
    pub(crate) files: Mutex<Option<Arc<FileList>>>,
    /// The last path of the call that the list leaves out, with the files below it: its pages and parts must come from
    /// the same walk.
    pub(crate) named: Mutex<Option<(String, ListedNames)>>,
    /// Files that `.gitattributes` marks as generated.
    pub(crate) generated: OnceLock<GeneratedFiles>,
    /// File names for reading in bulk, for which the rest of the list is not needed.
    pub(crate) names: Mutex<Option<ListedNames>>,
    /// The search that the parts of the call make, with the files that it leaves out.
    pub(crate) search: Mutex<Option<Arc<NarrowedSearch>>>,
    /// Globs that readers of the call hold.
    pub(crate) globs: Mutex<Vec<Weak<Globs>>>,
    /// Ignore files that a list of the call did not apply.
    skipped_ignores: Mutex<SkippedIgnores>,
    /// Requests that the call has sent.
    pub(crate) requests: Counter,
    /// Bytes of the bodies of requests and responses.
    pub(crate) bodies: Counter,
    /// Sources of text for the guest that are not files, such as a host.
    outside: Mutex<BTreeSet<String>>,
    /// Recorder of an audit; absent outside of an audit.
    recorder: OnceLock<Arc<Recorder>>,
}

/// Files that a call may read and then replace. A formatter reads all files of a language.
const SERVED_FILES_MAX: usize = 65_536;

/// Bytes of copies of files with keys that the open files of a call have held together.
const COPIED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Lines that a call shows to a person while it runs.
const LIVE_LINES_MAX: usize = 1000;

/// Commits, and packages, that the receipt of one call names. A person reads them.
const DEEDS_MAX: usize = 100;

/// Actions of the host for a call, recorded by the host because a guest may claim anything about them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostActions {
    /// The last test run.
    pub(crate) tests: Option<TestRun>,
    /// Sandbox of the test run.
    pub(crate) tests_sandbox: String,
    /// Object ids of commits.
    pub(crate) commits: Vec<String>,
    /// Names of installed packages.
    pub(crate) packages: Vec<String>,
    /// Sentences of the host for the answer.
    pub(crate) notices: Vec<String>,
    /// True if a commit would have held no change.
    pub(crate) had_nothing_to_commit: bool,
    pub(crate) requests: Vec<RequestRecord>,
}

impl HostActions {
    /// Returns a sentence about a test run in which every test passed. It has numbers, and no text of the run.
    pub(crate) fn passed_sentence(&self) -> Option<String> {
        let tests = self.tests.as_ref()?;
        let has_passed = tests.status == TestStatus::Passed && tests.counts.is_some_and(|counts| counts.passed > 0);
        let is_whole = tests.not_run.is_empty();
        (has_passed && is_whole).then(|| {
            format!(
                "{}\n{} ended with exit status 0; sandbox: {}\n",
                tests.verdict(),
                tests.runner,
                self.tests_sandbox
            )
        })
    }
}

/// A place that may hold text from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritablePlace {
    /// True if its name says so.
    pub is_named: bool,
    /// True if the last walk listed it among the user's files.
    pub is_listed: bool,
}

/// Wall time of a call, and the time that recipes took.
#[derive(Debug)]
struct CallClock {
    budget: Duration,
    /// Time since the start that does not count.
    excluded: Duration,
    /// Set while the clock is stopped.
    paused: Option<Instant>,
    /// Time left for recipes.
    recipes: Duration,
}

/// A sum that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`, and fails with `stop` if the sum exceeds `max`.
    pub(crate) fn add(&self, amount: u64, max: u64, stop: impl FnOnce() -> GuestStop) -> Result<(), GuestStop> {
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        match before.checked_add(amount) {
            Some(sum) if sum <= max => Ok(()),
            _ => Err(stop()),
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CallBudget {
    /// Starts the budget of a call of `skill`, which ends with its session.
    pub fn new(skill: &str, limits: Limits, session: &CancellationToken) -> Arc<Self> {
        let clock = CallClock {
            budget: limits.wall,
            excluded: Duration::ZERO,
            paused: None,
            recipes: limits.recipes,
        };
        Arc::new(Self {
            skill: skill.to_owned(),
            token: session.child_token(),
            started: Instant::now(),
            session: session.clone(),
            clock: Mutex::new(clock),
            memory: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            memory_refused: AtomicBool::new(false),
            tables: Counter::default(),
            random: Counter::default(),
            read: Counter::default(),
            walked: Counter::default(),
            logged: AtomicU64::new(0),
            log_dropped: AtomicU64::new(0),
            log: Mutex::default(),
            files_open: AtomicUsize::new(0),
            stage_full: AtomicBool::new(false),
            files_outside: OnceLock::new(),
            places: Mutex::default(),
            places_full: AtomicBool::new(false),
            deeds: Mutex::default(),
            claims: Mutex::default(),
            served: OnceLock::new(),
            copies: Mutex::default(),
            copied: AtomicU64::new(0),
            live_lines: AtomicUsize::new(0),
            files: Mutex::default(),
            named: Mutex::default(),
            generated: OnceLock::new(),
            names: Mutex::default(),
            search: Mutex::default(),
            globs: Mutex::default(),
            skipped_ignores: Mutex::default(),
            requests: Counter::default(),
            bodies: Counter::default(),
            outside: Mutex::default(),
            recorder: OnceLock::new(),
            limits,
        })
    }

    /// Records this call for an audit.
    pub(crate) fn record(&self, recorder: &Arc<Recorder>) {
        self.recorder.get_or_init(|| Arc::clone(recorder));
    }

    /// Returns the recorder, if there is one.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.get().map(Arc::as_ref)
    }

    /// Records a file whose content the guest learns, unless the file is certainly the user's own.
    pub fn note_place(&self, path: &str, listed: bool) {
        let place = match self.files_outside.get() {
            Some(outside) => outside.find_place(path),
            None => foreign::find_place(path).map(str::to_owned),
        };
        self.note_found(path, place.as_deref(), listed);
    }

    /// Records a file whose content the guest learns from git and not from the work tree: only its name decides whose
    /// it is.
    pub fn note_stored_place(&self, path: &str, listed: bool) {
        self.note_found(path, foreign::find_place(path), listed);
    }

    fn note_found(&self, path: &str, place: Option<&str>, listed: bool) {
        if listed && place.is_none() {
            return;
        }
        let found = WritablePlace {
            is_named: place.is_some(),
            is_listed: listed,
        };
        self.keep_place(place.unwrap_or(path), found);
    }

    /// Records entries of a directory that the host lists for the guest. A name counts as text from outside if the
    /// directory holds packages, belongs to another repository, or has no file that git tracks.
    pub fn note_listed<'a>(&self, directory: &str, entries: impl Iterator<Item = &'a str>) {
        if let Some(place) = self.find_directory(directory, entries) {
            self.note_found(directory, Some(&place), true);
        }
    }

    /// Records a directory that the guest lists. It counts even if the list is empty or cut short.
    pub(crate) fn note_directory(&self, directory: &str) {
        if let Some(place) = self.find_directory(directory, std::iter::empty()) {
            self.note_found(directory, Some(&place), false);
        }
    }

    fn find_directory<'a>(&self, directory: &str, entries: impl Iterator<Item = &'a str>) -> Option<String> {
        match self.files_outside.get() {
            Some(outside) => outside.find_directory(directory, entries),
            None => foreign::find_directory(&format!("{directory}/")).map(str::to_owned),
        }
    }

    /// Judges the files of this call by more than their names.
    pub(crate) fn judge_files(&self, outside: OutsideFiles) {
        self.files_outside.get_or_init(|| outside);
    }

    fn keep_place(&self, place: &str, found: WritablePlace) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(noted) = places.get_mut(place) {
            noted.is_listed &= found.is_listed;
        } else if places.len() < CALL_PLACES_MAX {
            places.insert(place.to_owned(), found);
        } else {
            self.places_full.store(true, Ordering::Relaxed);
        }
    }

    /// True if there were more places than [`Self::places`] holds.
    pub(crate) fn has_more_places(&self) -> bool {
        self.places_full.load(Ordering::Relaxed)
    }

    /// Notes the end of a test run. Only the last one counts.
    pub fn note_test_run(&self, tests: Option<TestRun>, sandbox: &str) {
        let mut deeds = self.lock_deeds();
        deeds.tests = tests;
        sandbox.clone_into(&mut deeds.tests_sandbox);
    }

    /// Notes a commit that the host made.
    pub fn note_commit(&self, id: &str) {
        let commits = &mut self.lock_deeds().commits;
        if commits.len() < DEEDS_MAX {
            commits.push(id.to_owned());
        }
    }

    /// Adds a sentence of the host to the answer. It holds no text of the repository except paths of changed files.
    pub fn note_notice(&self, notice: String) {
        let notices = &mut self.lock_deeds().notices;
        if notices.len() < DEEDS_MAX {
            notices.push(notice);
        }
    }

    /// Notes that no commit was made, because it would have held no change.
    pub fn note_empty_commit(&self) {
        self.lock_deeds().had_nothing_to_commit = true;
    }

    /// Notes packages that the host installed.
    pub fn note_packages(&self, names: &[String]) {
        let packages = &mut self.lock_deeds().packages;
        let room = DEEDS_MAX.saturating_sub(packages.len());
        packages.extend(names.iter().take(room).cloned());
    }

    /// Notes a request that is about to be sent, and that text of its host reaches the guest. Returns its index in the
    /// receipt.
    pub(crate) fn note_request(&self, host: &HostName, method: &str, body_bytes: usize) -> usize {
        self.note_outside(format!("`{host}`"));
        let requests = &mut self.lock_deeds().requests;
        requests.push(RequestRecord {
            host: host.to_string(),
            method: method.to_owned(),
            status: None,
            failure: None,
            bytes_sent: body_bytes as u64,
            bytes_received: 0,
        });
        requests.len() - 1
    }

    /// Notes status and length of a response, or why there is none.
    pub(crate) fn note_response(&self, record: usize, response: Result<(u16, usize), TransportError>) {
        if let Some(request) = self.lock_deeds().requests.get_mut(record) {
            match response {
                Ok((status, body_bytes)) => {
                    request.status = Some(status);
                    request.bytes_received = body_bytes as u64;
                }
                Err(error) => request.failure = Some(error.to_string()),
            }
        }
    }

    /// Notes a source of text that is not a file, described in words.
    pub fn note_outside(&self, place: String) {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        if outside.len() < FOREIGN_PLACES_MAX {
            outside.insert(place);
        }
    }

    /// Returns the places that [`Self::note_outside`] noted.
    pub fn outside(&self) -> BTreeSet<String> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the time until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        let clock = self.clock();
        let used = self.started.elapsed().saturating_sub(clock.excluded);
        clock.budget.saturating_sub(used)
    }

    /// Returns the actions of the host itself.
    pub(crate) fn deeds(&self) -> HostActions {
        self.lock_deeds().clone()
    }

    fn lock_deeds(&self) -> MutexGuard<'_, HostActions> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the places that [`Self::note_place`] noted.
    pub fn places(&self) -> BTreeMap<String, WritablePlace> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the ignore files that a list did not apply, to report them in the answer.
    pub(crate) fn note_skipped_ignores(&self, skipped: &SkippedIgnores) {
        if !skipped.is_empty() {
            *self.skipped_ignores.lock().unwrap_or_else(PoisonError::into_inner) = skipped.clone();
        }
    }

    /// Returns sentences that name the ignore files which no list of this call applied. Their paths are text of the
    /// repository within a sentence of the host, so each of them taints the conversation.
    pub(crate) fn ignores_notice(&self) -> Option<String> {
        let skipped = self.skipped_ignores.lock().unwrap_or_else(PoisonError::into_inner);
        let unlisted = WritablePlace {
            is_named: true,
            is_listed: false,
        };
        skipped.shown_paths().for_each(|path| self.keep_place(path, unlisted));
        skipped.notice()
    }

    /// Notes a file that the guest says its answer shows.
    pub(crate) fn claim(&self, path: String, sha256: String) {
        let sha256 = self.real_digest(&path, sha256);
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.len() < CALL_PLACES_MAX {
            claims.insert(path, sha256);
        }
    }

    /// Returns the claims that [`Self::claim`] noted.
    pub(crate) fn claims(&self) -> BTreeMap<String, String> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the paths of files that the guest reads from now on. A call that may not write needs none of them.
    pub(crate) fn keep_served(&self) {
        self.served.get_or_init(Mutex::default);
    }

    /// Notes a file whose content the guest reads.
    pub(crate) fn note_served(&self, path: &str) {
        let Some(served) = self.served.get() else { return };
        let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.len() < SERVED_FILES_MAX && !served.contains(path) {
            served.insert(path.to_owned());
        }
    }

    /// True for a file whose content the guest has read.
    pub(crate) fn has_served(&self, path: &str) -> bool {
        let served = self.served.get();
        served.is_some_and(|served| served.lock().unwrap_or_else(PoisonError::into_inner).contains(path))
    }

    /// True if the guest may propose changes.
    pub(crate) fn may_write(&self) -> bool {
        self.served.get().is_some()
    }

    /// Notes a copy with placeholders that an open file holds; false if the call holds too many bytes of them.
    pub(crate) fn keep_copy(&self, path: &str, content: &[u8], copy: &[u8]) -> bool {
        let held = self.copied.fetch_add(copy.len() as u64, Ordering::Relaxed);
        let fits = held + (copy.len() as u64) <= COPIED_BYTES_MAX;
        if fits {
            self.note_copy(path, content, copy);
        }
        fits
    }

    /// Notes a file whose keys the guest sees as placeholders. The guest knows only the digest of what it sees.
    pub(crate) fn note_copy(&self, path: &str, content: &[u8], copy: &[u8]) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if copies.len() < SERVED_FILES_MAX {
            copies.insert((path.to_owned(), sha256_hex(copy)), sha256_hex(content));
        }
    }

    /// Returns the digest of the file itself for the digest of what the guest has seen.
    pub(crate) fn real_digest(&self, path: &str, sha256: String) -> String {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), sha256);
        match copies.get(&key) {
            Some(real) => real.clone(),
            None => key.1,
        }
    }

    /// True if the client may receive one more line.
    pub(crate) fn take_live_line(&self) -> bool {
        self.live_lines.fetch_add(1, Ordering::Relaxed) < LIVE_LINES_MAX
    }

    /// Ends the call at a tick of the epoch if its time is up. False once it has ended.
    pub(crate) fn tick(&self) -> bool {
        if self.expired() {
            self.token.cancel();
        }
        !self.token.is_cancelled()
    }

    /// Fails once the call must end. Every host call checks this.
    pub(crate) fn check(&self) -> Result<(), GuestStop> {
        if !self.token.is_cancelled() {
            return Ok(());
        }
        // A cancelled session is reported as such, even if the time is over too.
        if !self.session.is_cancelled() && self.expired() {
            return Err(GuestStop::limit(format_duration(self.limits.wall), ErrorKind::Timeout));
        }
        Err(GuestStop::Cancelled)
    }

    fn expired(&self) -> bool {
        let clock = self.clock();
        clock.paused.is_none() && self.started.elapsed().saturating_sub(clock.excluded) >= clock.budget
    }

    fn clock(&self) -> std::sync::MutexGuard<'_, CallClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something that a person may have to answer first; the time does not count.
    pub fn unclocked<R>(&self, work: impl FnOnce() -> R) -> R {
        // Only one part of a call can be here: skills that cause such effects are not sharded.
        self.clock().paused = Some(Instant::now());
        let result = work();
        let mut clock = self.clock();
        if let Some(since) = clock.paused.take() {
            clock.excluded += since.elapsed();
        }
        result
    }

    /// Runs a recipe within its own budget of time, whose rest `work` receives.
    pub fn recipe<R>(&self, work: impl FnOnce(Duration) -> R) -> Result<R, GuestStop> {
        let left = self.clock().recipes;
        if left.is_zero() {
            return Err(GuestStop::limit(
                format!("{} in recipes", format_duration(self.limits.recipes)),
                ErrorKind::Timeout,
            ));
        }
        let started = Instant::now();
        let result = self.unclocked(|| work(left));
        let mut clock = self.clock();
        clock.recipes = clock.recipes.saturating_sub(started.elapsed());
        Ok(result)
    }

    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Ordering::Relaxed)
    }

    /// Returns the linear memory of a store that has ended.
    pub(crate) fn release_memory(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Reserves linear memory; false if the limit forbids it.
    pub(crate) fn grow_memory(&self, bytes: u64) -> bool {
        let before = self.memory.fetch_add(bytes, Ordering::Relaxed);
        let sum = before.saturating_add(bytes);
        if sum > self.limits.memory_bytes {
            self.memory.fetch_sub(bytes, Ordering::Relaxed);
            self.memory_refused.store(true, Ordering::Relaxed);
            return false;
        }
        self.memory_peak.fetch_max(sum, Ordering::Relaxed);
        true
    }

    /// Keeps a message of the guest for its report.
    pub(crate) fn keep_message(&self, message: String) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Takes the messages of the guest.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Converts the end of a guest to a typed error. `stderr` is the guest's last output.
    pub(crate) fn explain(&self, error: &wasmtime::Error, stderr: &str) -> CallError {
        tracing::debug!(skill = %self.skill, error = ?error, "a skill ended early");
        let skill = self.skill.clone();
        if let Some(stop) = error.downcast_ref::<GuestStop>() {
            return match stop.clone() {
                GuestStop::Limit { limit, kind } => CallError::Limit { skill, limit, kind },
                GuestStop::Cancelled => CallError::Cancelled { skill },
                GuestStop::Busy => CallError::Busy {
                    skill,
                    crowd: CrowdedLimit::Runs,
                },
                GuestStop::Denied { effect, hint } => deny_effect(&skill, *effect, hint),
                GuestStop::Exit(_) => CallError::Trap {
                    skill,
                    reason: describe_trap(&stop.to_string(), stderr),
                },
            };
        }
        if let Some(ResourceTableError::Full) = error.downcast_ref() {
            let (limit, kind) = (format!("{} handles", self.limits.handles), ErrorKind::HandlesLimit);
            return CallError::Limit { skill, limit, kind };
        }
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            let crowd = CrowdedLimit::Calls;
            return CallError::Busy { skill, crowd };
        }
        // A guest that was refused memory nearly always ends with a trap; the refusal is its reason.
        if self.memory_refused.load(Ordering::Relaxed) {
            let (limit, kind) = (
                format!("{} of memory", format_bytes(self.limits.memory_bytes)),
                ErrorKind::Memory,
            );
            return CallError::Limit { skill, limit, kind };
        }
        let words = error
            .downcast_ref::<wasmtime::Trap>()
            .map_or_else(|| error.root_cause().to_string(), ToString::to_string);
        // wasmtime has no types for these two; tests check its wording.
        if words.contains("fuel allocated for hostcalls") {
            let bytes = format_bytes(self.limits.host_call_bytes as u64);
            let (limit, kind) = (format!("{bytes} in one answer or host call"), ErrorKind::Output);
            return CallError::Limit { skill, limit, kind };
        }
        if words.starts_with("resource limit exceeded") {
            let (limit, kind) = (
                format!("{} instances, memories or tables", self.limits.instances),
                ErrorKind::InstancesLimit,
            );
            return CallError::Limit { skill, limit, kind };
        }
        CallError::Trap {
            skill,
            reason: describe_trap(&words, stderr),
        }
    }
}

/// Error for an effect that is not granted.
pub(crate) fn deny_effect(skill: &str, effect: Effect, hint: String) -> CallError {
    CallError::Failure {
        skill: skill.to_owned(),
        kind: ErrorKind::Denied,
        message: format!("`{skill}` needs the effect `{effect}`, which is not granted here."),
        hint: Some(hint),
    }
}

/// Describes a trap: the guest's last output, and how it ended.
fn describe_trap(words: &str, stderr: &str) -> String {
    let words = words.trim_start_matches("wasm trap: ");
    let cleaned = clean_text(stderr);
    // A guest cannot have environment variables, so advice to set them is dropped.
    let said: Vec<&str> = cleaned
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("note: "))
        .collect();
    if said.is_empty() {
        truncate_text(words, 500).to_owned()
    } else {
        format!(
            "{} ({})",
            truncate_text(&said.join(" "), 1_000),
            truncate_text(words, 200)
        )
    }
}

pub(crate) fn format_duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 60_000 == 0 && millis >= 120_000 => format!("{} min", millis / 60_000),
        millis if millis % 1_000 == 0 => format!("{} s", millis / 1_000),
        millis => format!("{millis} ms"),
    }
}

pub(crate) fn format_bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1024 * 1024) && bytes > 0 => format!("{} MiB", bytes / (1024 * 1024)),
        _ if bytes.is_multiple_of(1024) && bytes > 0 => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::api::TestCounts;

    fn call(limits: Limits) -> Arc<CallBudget> {
        CallBudget::new("demo", limits, &CancellationToken::new())
    }

    #[test]
    fn a_request_is_in_the_receipt_and_its_host_taints() {
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let host: HostName = "a.org".parse().expect("it is a host");
        let (first, second) = (call.note_request(&host, "GET", 0), call.note_request(&host, "POST", 7));
        call.note_response(first, Ok((200, 5)));
        call.note_response(second, Err(TransportError::Timeout));
        let requests = call.deeds().requests;
        let told = |at: usize| {
            (
                requests[at].status,
                requests[at].failure.as_deref(),
                requests[at].bytes_sent,
            )
        };
        assert_eq!(told(0), (Some(200), None, 0));
        assert_eq!(told(1), (None, Some("the host did not answer in time"), 7));
        assert_eq!(call.outside().into_iter().collect::<Vec<_>>(), ["`a.org`"]);
    }

    #[test]
    fn waiting_for_a_human_does_not_count() {
        let call = call(Limits {
            wall: Duration::from_millis(200),
            ..Limits::default()
        });
        call.unclocked(|| {
            std::thread::sleep(Duration::from_millis(250));
            assert!(call.tick(), "the clock stands still while it waits");
        });
        assert!(call.tick() && call.check().is_ok());
        std::thread::sleep(Duration::from_millis(250));
        assert!(!call.tick());
        assert_eq!(call.check(), Err(GuestStop::limit("200 ms", ErrorKind::Timeout)));
    }

    #[test]
    fn recipes_have_a_budget_of_their_own() {
        let call = call(Limits {
            recipes: Duration::from_millis(20),
            ..Limits::default()
        });
        let left = call.recipe(|left| {
            std::thread::sleep(Duration::from_millis(30));
            left
        });
        assert_eq!(left, Ok(Duration::from_millis(20)));
        assert_eq!(
            call.recipe(|left| left),
            Err(GuestStop::limit("20 ms in recipes", ErrorKind::Timeout))
        );
        assert!(call.tick());
    }

    #[test]
    fn a_cancelled_session_is_told_from_a_deadline() {
        let session = CancellationToken::new();
        let call = CallBudget::new("demo", Limits::default(), &session);
        session.cancel();
        assert_eq!(call.check(), Err(GuestStop::Cancelled));
    }

    #[test]
    fn limits_are_told_in_round_units() {
        let told = [300, 1_000, 30_000, 60_000, 90_000, 121_000, 900_000]
            .map(|millis| format_duration(Duration::from_millis(millis)));
        assert_eq!(told, ["300 ms", "1 s", "30 s", "60 s", "90 s", "121 s", "15 min"]);
        assert_eq!(
            [0, 5, 2048, 256 << 20].map(format_bytes),
            ["0 bytes", "5 bytes", "2 KiB", "256 MiB"]
        );
    }

    #[test]
    fn places_that_a_guest_reads_are_noted_up_to_a_bound() {
        let call = call(Limits::default());
        for number in 0..2 * CALL_PLACES_MAX {
            call.note_place(&format!("{number}.py"), false);
        }
        assert_eq!(call.places().len(), CALL_PLACES_MAX);
        assert!(call.has_more_places(), "more of them count as one that is known");
    }

    #[test]
    fn names_in_a_directory_of_packages_are_noted_and_others_are_not() {
        let call = call(Limits::default());
        for path in [
            "src/main.py",
            "vendor",
            "server.log",
            "Cargo.lock",
            "vendor/lib/a.py",
            "vendor/b.py",
        ] {
            let (directory, _) = path.rsplit_once('/').unwrap_or_default();
            call.note_listed(directory, std::iter::once(path));
        }
        let place = WritablePlace {
            is_named: true,
            is_listed: true,
        };
        assert_eq!(call.places(), BTreeMap::from([("vendor/".to_owned(), place)]));
        assert!(!call.has_more_places());
    }

    #[test]
    fn commits_and_packages_are_noted_up_to_a_bound() {
        let call = call(Limits::default());
        let names: Vec<String> = (0..DEEDS_MAX + 1).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| call.note_commit(name));
        call.note_packages(&names[..2]);
        call.note_packages(&names[2..]);
        let deeds = call.deeds();
        assert_eq!(deeds.commits, names[..DEEDS_MAX]);
        assert_eq!(deeds.packages, names[..DEEDS_MAX]);
    }

    #[test]
    fn only_a_run_with_passed_tests_and_no_failure_has_a_sentence() {
        let told = |status, passed: Option<u64>| {
            let counts = passed.map(|passed| TestCounts {
                passed,
                ..TestCounts::default()
            });
            let call = call(Limits::default());
            let run = TestRun {
                runner: "pytest".to_owned(),
                status,
                exit_code: None,
                duration_ms: 1,
                counts,
                not_run: Vec::new(),
            };
            call.note_test_run(Some(run), "none");
            call.deeds().passed_sentence().is_some()
        };
        assert!(told(TestStatus::Passed, Some(1)));
        assert!(!told(TestStatus::Passed, Some(0)) && !told(TestStatus::Passed, None));
        assert!(!told(TestStatus::Failed, Some(1)));
    }

    #[test]
    fn a_call_has_a_recorder_only_in_an_audit() {
        let call = call(Limits::default());
        assert!(call.recorder().is_none());
        call.record(&Arc::default());
        assert!(call.recorder().is_some());
    }
}
