//! The folder of a batch: one line for each result, and one for each attempt, so that an interrupted batch can
//! continue.
//!
//! `results/I-of-N.jsonl` decides: a repository with a line there is done. `attempts/I-of-N.jsonl` records when a
//! session began, with its reserved budget. An attempt without an end was killed, and may have spent all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tool_core::api::{Dollars, ErrorKind, Operation, Problem, SessionUsage, Status, Timestamp};

use crate::args::Shard;
use crate::error::Error;

/// Folder of the results within that of the batch.
const RESULTS: &str = "results";

/// One repository's result: a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BatchResult {
    /// Identifier of the list's line.
    pub(super) id: String,
    pub(super) repository: String,
    pub(super) operation: Operation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
    pub(super) status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Problem>,
    /// Absent where none could be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    pub(super) output: String,
    pub(super) files_modified: Vec<String>,
    /// Changes of the session as a git diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<SessionUsage>,
    /// The clone that holds the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clone: Option<PathBuf>,
    pub(super) started: Timestamp,
    /// The clone included.
    pub(super) seconds: f64,
}

impl BatchResult {
    /// Cost: zero if no model was asked, absent if the price of the model is unknown.
    pub(super) fn cost(&self) -> Option<Dollars> {
        self.usage.as_ref().map_or(Some(Dollars::default()), |usage| usage.cost)
    }

    /// True if the session changed a repository of the user, not a clone.
    pub(super) fn has_changed_in_place(&self) -> bool {
        self.clone.is_none() && !self.files_modified.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AttemptLine {
    Started {
        id: String,
        /// Most that its session may cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bound: Option<Dollars>,
    },
    Ended {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Dollars>,
    },
}

/// The open files of one shard. Only one process at a time holds them.
#[derive(Debug)]
pub(super) struct ResultsFolder {
    path: PathBuf,
    shard: Shard,
    results: File,
    attempts: File,
    /// Identifiers that have a result, in any shard.
    done: BTreeSet<String>,
    /// Money that earlier runs have spent, or may have: runs of this shard, and this shard's part of runs with another
    /// number of shards.
    pub(super) spent: Dollars,
}

impl ResultsFolder {
    /// Opens the folder for one shard, or creates it. With `retry_failed`, failures of this shard are removed.
    pub(super) fn open_shard(path: &Path, shard: Shard, retry_failed: bool) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(|error| Error::on_file("Results", path, &error))?;
        let name = format!("{}.jsonl", shard.name());
        let place = |folder: &str| path.join(folder).join(&name);
        let is_new = !path.exists();
        for folder in [
            RESULTS.to_owned(),
            "attempts".to_owned(),
            format!("reports/{}", shard.name()),
        ] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(|error| Error::on_file("Results", &folder, &error))?;
        }
        // The folder may be in a repository of the list, so a `.gitignore` hides it from git and from a scan. A folder
        // that existed before may be the repository itself, and keeps its own file.
        if is_new {
            write_whole(&path.join(".gitignore"), b"*\n")?;
        }
        let attempts = open_lines(&place("attempts"))?;
        if rustix::fs::flock(&attempts, FlockOperation::NonBlockingLockExclusive).is_err() {
            let message = format!("Another batch runs this shard in `{}`", path.display());
            let hint = "wait for its end, or choose another folder with --results";
            return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
        }
        repair_last_line(&place(RESULTS))?;
        repair_last_line(&place("attempts"))?;
        if retry_failed {
            keep_complete(&place(RESULTS))?;
        }
        let spent = sum_spent(&read_lines(&place("attempts"))?)
            .nanos()
            .saturating_add(spent_otherwise(&path.join("attempts"), shard)?);
        let done = read_results(&path)?.into_iter().map(|result| result.id).collect();
        Ok(Self {
            results: open_lines(&place(RESULTS))?,
            attempts,
            done,
            spent: Dollars::from_nanos(spent),
            path,
            shard,
        })
    }

    /// True if the item has a result.
    pub(super) fn is_done(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Working directory of the sessions, which write their reports there.
    pub(super) fn reports(&self) -> PathBuf {
        self.path.join("reports").join(self.shard.name())
    }

    pub(super) fn clone_of(&self, id: &str) -> PathBuf {
        self.path.join("clones").join(id)
    }

    /// Records that a session is about to begin.
    pub(super) fn start(&mut self, id: &str, bound: Option<Dollars>) -> Result<(), Error> {
        let id = id.to_owned();
        append_line(&mut self.attempts, &AttemptLine::Started { id, bound })
    }

    /// Records the cost of an attempt without a result.
    pub(super) fn end(&mut self, id: &str, cost: Option<Dollars>) -> Result<(), Error> {
        let id = id.to_owned();
        append_line(&mut self.attempts, &AttemptLine::Ended { id, cost })
    }

    /// Adds a result, durably.
    pub(super) fn add(&mut self, result: &BatchResult) -> Result<(), Error> {
        append_line(&mut self.results, result)?;
        self.done.insert(result.id.clone());
        self.end(&result.id, result.cost())
    }
}

/// The results of all shards, in the order of their files.
pub(super) fn read_results(folder: &Path) -> Result<Vec<BatchResult>, Error> {
    let mut results = Vec::new();
    for file in files_of_lines(&folder.join(RESULTS))? {
        results.extend(read_lines(&file)?);
    }
    Ok(results)
}

/// The files of all shards in a folder, by their names.
fn files_of_lines(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(|error| Error::on_file("Results", folder, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    Ok(files)
}

/// Money of the attempts: the cost of those that ended, and the bound of those that did not.
fn sum_spent(lines: &[AttemptLine]) -> Dollars {
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    let mut nanos: u64 = 0;
    for line in lines {
        match line {
            AttemptLine::Started { id, bound } => {
                let bound = bound.map_or(0, Dollars::nanos);
                nanos = nanos.saturating_add(open.insert(id, bound).unwrap_or_default());
            }
            AttemptLine::Ended { id, cost } => {
                let bound = open.remove(id.as_str()).unwrap_or_default();
                nanos = nanos.saturating_add(cost.map_or(bound, Dollars::nanos));
            }
        }
    }
    Dollars::from_nanos(open.into_values().fold(nanos, u64::saturating_add))
}

/// A shard's part of the cost of runs with another number of shards, in billionths of a dollar.
fn spent_otherwise(attempts: &Path, shard: Shard) -> Result<u64, Error> {
    let mut nanos: u64 = 0;
    for file in files_of_lines(attempts)? {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let count = name.split_once("-of-").and_then(|(_, count)| count.parse().ok());
        if count.is_some_and(|count: usize| count != shard.count()) {
            nanos = nanos.saturating_add(sum_spent(&read_lines(&file)?).nanos());
        }
    }
    Ok(nanos / shard.count() as u64)
}

fn open_lines(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
    opened.map_err(|error| Error::on_file("Results", path, &error))
}

fn append_line(file: &mut File, line: &impl Serialize) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::File,
            format!("The results of the batch could not be written: {error}"),
        )
    };
    let mut text = serde_json::to_vec(line).map_err(|error| failed(&error))?;
    text.push(b'\n');
    file.write_all(&text)
        .and_then(|()| file.sync_data())
        .map_err(|error| failed(&error))
}

/// Removes an incomplete last line, which a crash leaves behind.
fn repair_last_line(path: &Path) -> Result<(), Error> {
    let cut = || {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64)?;
        }
        Ok(())
    };
    cut().map_err(|error| Error::on_file("Results", path, &error))
}

/// Removes the failures from a file of results, in one step.
fn keep_complete(path: &Path) -> Result<(), Error> {
    let results: Vec<BatchResult> = read_lines(path)?;
    let mut text = Vec::new();
    for result in results.iter().filter(|result| result.status == Status::Complete) {
        serde_json::to_writer(&mut text, result).expect("a result has string keys only");
        text.push(b'\n');
    }
    write_whole(path, &text)
}

/// Replaces a file: a reader sees the old content or the new.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension(format!("{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error of the write matters, not that of the removal.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| Error::on_file("Results", path, &error))
}

/// The lines of a file. A last line that another process is still writing is left out.
fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::on_file("Results", path, &error))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate();
    let parsed = lines.map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let message = format!("Line {} of `{}` is damaged: {error}", index + 1, path.display());
            Problem::new(ErrorKind::File, message)
                .with_hint("delete the line; its repository then runs again")
                .into()
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: &str, status: Status) -> BatchResult {
        BatchResult {
            id: id.to_owned(),
            repository: id.to_owned(),
            operation: Operation::Explain,
            task: None,
            status,
            error: None,
            session_id: None,
            output: "a\nb".to_owned(),
            files_modified: Vec::new(),
            diff: None,
            usage: None,
            clone: None,
            started: tool_core::api::current_time(),
            seconds: 0.5,
        }
    }

    fn shard() -> Shard {
        "1/1".parse().expect("a shard")
    }

    #[test]
    fn a_torn_line_is_cut_and_its_repository_runs_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut results = ResultsFolder::open_shard(folder.path(), shard(), false).expect("it opens");
        assert!(
            ResultsFolder::open_shard(folder.path(), shard(), false).is_err(),
            "the shard runs already"
        );
        results.add(&result("a", Status::Complete)).expect("it is written");
        results.add(&result("b", Status::Failed)).expect("it is written");
        drop(results);
        let place = folder.path().join("results/1-of-1.jsonl");
        let mut text = fs::read_to_string(&place).expect("it is there");
        text.push_str("{\"id\": \"c\", \"repo");
        fs::write(&place, &text).expect("it can be written");
        let mut results = ResultsFolder::open_shard(folder.path(), shard(), false).expect("it opens");
        assert_eq!(["a", "b", "c"].map(|id| results.is_done(id)), [true, true, false]);
        results.add(&result("c", Status::Complete)).expect("it is written");
        drop(results);
        let results = ResultsFolder::open_shard(folder.path(), shard(), true).expect("it opens");
        assert_eq!(["a", "b", "c"].map(|id| results.is_done(id)), [true, false, true]);
        let other = ResultsFolder::open_shard(folder.path(), "2/3".parse().expect("a shard"), false).expect("it opens");
        assert!(other.is_done("a"), "results of all shards count");
    }

    #[test]
    fn a_folder_of_the_user_keeps_its_files_and_a_new_one_is_hidden() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ignored = |path: &Path| fs::read_to_string(path.join(".gitignore")).unwrap_or_default();
        fs::write(folder.path().join(".gitignore"), "target\n").expect("the folder is writable");
        drop(ResultsFolder::open_shard(folder.path(), shard(), false).expect("it opens"));
        assert_eq!(ignored(folder.path()), "target\n");
        let new = folder.path().join("new");
        drop(ResultsFolder::open_shard(&new, shard(), false).expect("it opens"));
        assert_eq!(ignored(&new), "*\n");
    }

    #[test]
    fn money_of_another_number_of_shards_counts_for_each_shard_in_part() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = |shard: &str| {
            let shard = shard.parse().expect("a shard");
            ResultsFolder::open_shard(folder.path(), shard, false).expect("it opens")
        };
        let mut whole = open("1/1");
        whole.start("a", Some(Dollars::from_nanos(900))).expect("it is written");
        drop(whole);
        assert_eq!(open("2/3").spent, Dollars::from_nanos(300));
        assert_eq!(open("1/1").spent, Dollars::from_nanos(900));
    }

    #[test]
    fn an_attempt_without_an_end_counts_with_its_bound() {
        let cents = |cents: u64| Some(Dollars::from_nanos(cents * 10_000_000));
        let started = |id: &str, bound| AttemptLine::Started {
            id: id.to_owned(),
            bound,
        };
        let ended = |id: &str, cost| AttemptLine::Ended {
            id: id.to_owned(),
            cost,
        };
        let lines = [
            started("a", cents(50)),
            started("b", cents(25)),
            ended("a", cents(3)),
            started("b", cents(10)),
            started("c", None),
            ended("c", None),
        ];
        assert_eq!(sum_spent(&lines), Dollars::from_nanos(38 * 10_000_000));
    }
}
