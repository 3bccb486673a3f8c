//! Failed tests before a change, kept for the next session over the same state.
//!
//! A state is the content of all files, what is installed beside them, the commands of the runs and the policy. Only a
//! run that named each failure is kept, and only for an hour: the cause may lie outside of the files.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::suite::{self, SuiteRun, TestSuiteResults};
use crate::run::operations::OperationRun;
use crate::run_blocking;
use tool_core::api::{Problem, VerificationRule};
use tool_core::digest::sha256_hex;
use tool_repository::{FileList, REPORTS_FOLDER, Repository};
use tool_skill::plan_runs;

/// Time for which a failed run is kept.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Limit for the files of a state. A larger repository runs its tests each time.
const FILES_MAX: usize = 20_000;
/// Limit for a file whose content is compared, in bytes. A larger one counts by size and time.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Depth to which folders of installed packages are looked at: `.venv/lib/python3/site-packages`.
const INSTALLED_DEPTH: u32 = 3;

/// A failed run, and the state that it ran over.
#[derive(Serialize, Deserialize)]
struct FailedRun {
    state: String,
    results: TestSuiteResults,
}

/// Runs all tests before a change, unless an earlier session has seen them fail over the same state.
pub(crate) async fn run_suite_once(op: &OperationRun<'_>) -> SuiteRun {
    let Some(kept) = KeptRun::of(op) else {
        return suite::run_suite(op, &[]).await;
    };
    if kept.is_there()
        && let Some(results) = kept.on_thread(KeptRun::find).await
    {
        op.tools.context().conversation.taint.note(&results.foreign);
        let message =
            "The tests failed in an earlier session over the same files. They are not run again before the change.";
        op.job.recorder.notice(message, None);
        return SuiteRun::Ran(results);
    }
    // The run begins first.
    let (run, before) = tokio::join!(suite::run_suite(op, &[]), kept.on_thread(KeptRun::list));
    if let (SuiteRun::Ran(results), Some(before)) = (&run, before)
        && has_named_failures(results)
    {
        let results = results.clone();
        let keep = move |kept: &KeptRun| kept.keep(&before, results);
        kept.on_thread(keep).await;
    }
    run
}

fn has_named_failures(results: &TestSuiteResults) -> bool {
    let named = u64::try_from(results.failing.len()).ok();
    results.has_run
        && results.broken == 0
        && results.not_run.is_empty()
        && results.failed.is_some_and(|failed| failed > 0)
        && results.failed == named
}

/// The place of the failed run of a repository.
#[derive(Clone)]
struct KeptRun {
    place: PathBuf,
    repository: Arc<Repository>,
    environment: std::collections::BTreeMap<String, String>,
    policy: String,
    cancel: CancellationToken,
}

impl KeptRun {
    /// `None` if the tests do not run over the user's own state, or if the user wants a verdict from nothing.
    fn of(op: &OperationRun<'_>) -> Option<Self> {
        let (plan, request) = (&op.job.plan, &op.task.request);
        let (repository, policy) = (&plan.repository, &plan.policy);
        if request.no_tests
            || request.verification == VerificationRule::Required
            || policy.is_untrusted()
            || repository.layer().is_some()
        {
            return None;
        }
        let name = sha256_hex(repository.root().as_os_str().as_encoded_bytes());
        Some(Self {
            place: repository
                .state_directory()?
                .join("cache/failed-tests")
                .join(format!("{}.json", &name[..32])),
            repository: Arc::clone(repository),
            environment: plan.environment.clone(),
            policy: format!("{policy:?}"),
            cancel: op.job.cancel.clone(),
        })
    }

    fn is_there(&self) -> bool {
        let modified = fs::metadata(&self.place).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < KEPT))
    }

    async fn on_thread<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> Option<T> + Send + 'static) -> Option<T> {
        let kept = self.clone();
        run_blocking(move || Ok::<_, Problem>(work(&kept))).await.ok().flatten()
    }

    fn find(&self) -> Option<TestSuiteResults> {
        let kept: FailedRun = serde_json::from_slice(&fs::read(&self.place).ok()?).ok()?;
        let mut results = kept.results;
        results.verdict.push_str(" (in an earlier session over the same files)");
        (kept.state == self.digest_state(&*self.list()?)?).then_some(results)
    }

    /// Keeps a run, unless a file has changed since `before`.
    fn keep(&self, before: &FileList, results: TestSuiteResults) -> Option<()> {
        let now = self.list()?;
        if now.files != before.files {
            return None;
        }
        let state = self.digest_state(&now)?;
        let text = serde_json::to_vec(&FailedRun { state, results }).ok()?;
        let folder = self.place.parent()?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        fs::write(&self.place, text).ok()
    }

    fn list(&self) -> Option<Arc<FileList>> {
        let list = self.repository.list(&self.cancel).ok()?;
        (list.complete && list.files.len() <= FILES_MAX).then_some(list)
    }

    fn digest_state(&self, list: &FileList) -> Option<String> {
        let plan = plan_runs(&self.repository, &self.environment, None, &self.cancel).ok()?;
        let mut state = format!(
            "{} {:?} {}\n",
            self.policy,
            self.environment.get("PATH"),
            serde_json::to_string(&plan).ok()?
        );
        for file in &list.files {
            let content = self.repository.read_within(&file.path, FILE_BYTES_MAX, &self.cancel);
            let content = content.map_or_else(
                |_| format!("{} bytes at {}", file.size, file.changed_ns),
                |content| sha256_hex(&content),
            );
            let mode = fs::symlink_metadata(self.repository.root().join(&file.path))
                .ok()?
                .mode();
            state.push_str(&format!("{} {mode:o} {content}\n", file.path));
        }
        let mut left = FILES_MAX;
        for path in list
            .skipped
            .iter()
            .chain(&list.ignored)
            .filter(|path| !path.ends_with(REPORTS_FOLDER))
        {
            write_times(
                &mut state,
                &self.repository.root().join(path),
                INSTALLED_DEPTH,
                &mut left,
            )?;
        }
        Some(sha256_hex(state.as_bytes()))
    }
}

/// Writes the times of a file, or of a folder and the folders in it. `None` if there are more than `left`.
fn write_times(state: &mut String, place: &Path, depth: u32, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    let metadata = fs::symlink_metadata(place).ok()?;
    state.push_str(&format!(
        "{} {} {}.{}\n",
        place.display(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ));
    if depth > 0 && metadata.is_dir() {
        let entries = fs::read_dir(place).ok()?.flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
        folders.sort();
        for folder in folders {
            write_times(state, &folder, depth - 1, left)?;
        }
    }
    Some(())
}
