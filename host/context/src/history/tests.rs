use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::query::Query;
use crate::weights::WEIGHTS;
use crate::{FileSource, Indexes};
use tool_repository::{FileIdentity, Options};

const ROOT: FileIdentity = FileIdentity { device: 1, inode: 2 };

fn id(number: u8) -> CommitId {
    CommitId::of_bytes(&[number; 20]).expect("it is one")
}

/// A commit made on a day; a changed file that got another name is written as `old>new`.
fn commit(number: u8, day: i64, message: &str, files: &[&str]) -> PastCommit {
    let renamed: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| file.split_once('>'))
        .map(|(from, to)| (from.into(), to.into()))
        .collect();
    let name = |file: &&str| file.split_once('>').map_or(*file, |(_, to)| to).to_owned();
    PastCommit {
        id: id(number),
        seconds: day * 86_400,
        message: message.to_owned(),
        changed: files.iter().map(name).collect(),
        renamed,
    }
}

/// A history of commits, newest first.
fn history(commits: &[PastCommit]) -> History {
    let walked = commits.iter().cloned().map(WalkedCommit::Read).collect();
    History::new(walked, &History::default())
}

fn signals(task: &str, history: &History, paths: &[&str]) -> HistorySignals {
    HistorySignals::new(&Query::new(task, &WEIGHTS), history, paths)
}

#[test]
fn files_of_commits_like_the_task_stand_out() {
    let history = history(&[
        commit(
            4,
            9,
            "escape the query of a redirect",
            &["src/url.py", "tests/test_url.py"],
        ),
        commit(3, 8, "speed up the cache", &["src/cache.py"]),
        commit(
            2,
            7,
            "keep the query when a redirect is followed",
            &["src/redirect.py", "src/url.py"],
        ),
        commit(1, 6, "begin the log", &["src/log.py"]),
    ]);
    let paths = ["src/cache.py", "src/log.py", "src/redirect.py", "src/url.py"];
    let signals = signals("the redirect drops its query", &history, &paths);
    let url = signals.of(3).expect("it has changed");
    assert_eq!((url.similar_commits, url.similar_last), (2, Some(id(4))));
    assert!((url.similar_share - 1.0).abs() < 1e-9, "{url:?}");
    let redirect = signals.of(2).expect("it has changed");
    assert!(redirect.similar > 0.0 && redirect.similar < url.similar, "{redirect:?}");
    assert_eq!(signals.of(0).expect("it has changed").similar_commits, 0);
    assert!(url.recent > redirect.recent && url.fresh > redirect.fresh);
}

#[test]
fn the_work_of_the_last_commits_goes_on() {
    let mut commits = vec![commit(99, 99, "escape the query", &["src/url.py"])];
    commits.extend((2..=60).map(|number| commit(number, 50, "speed up the cache", &["src/cache.py"])));
    commits.push(commit(1, 1, "escape the query", &["src/redirect.py"]));
    let paths = ["src/cache.py", "src/redirect.py", "src/url.py"];
    let signals = signals("a query is not escaped", &history(&commits), &paths);
    let late = |file: u32| signals.of(file).expect("it has changed").similar_late;
    assert_eq!((late(0), late(2)), (0.0, 1.0));
    assert!(late(1) > 0.2 && late(1) < 0.3, "{}", late(1));
}

#[test]
fn a_title_is_compared_with_titles_alone() {
    let history = history(&[
        commit(
            3,
            3,
            "Begin the log\n\nIt escapes the query of a redirect.",
            &["src/log.py"],
        ),
        commit(2, 2, "speed up the cache", &["src/cache.py"]),
        commit(
            1,
            1,
            "Escape the query of a redirect\n\nThe log was wrong.",
            &["src/url.py"],
        ),
    ]);
    let paths = ["src/cache.py", "src/log.py", "src/url.py"];
    let signals = signals("escape a redirect's query\n\nbegin the log", &history, &paths);
    let alike = |file: u32| signals.of(file).expect("it has changed").similar_title;
    assert_eq!([alike(0), alike(1), alike(2)], [0.0, 0.0, 1.0]);
}

#[test]
fn files_of_several_new_commits_stand_out() {
    let history = history(&[
        commit(3, 3, "a", &["a.py", "b.py"]),
        commit(2, 2, "b", &["b.py"]),
        commit(1, 1, "c", &["c.py"]),
    ]);
    let signals = signals("x", &history, &["a.py", "b.py", "c.py"]);
    let newest = |file: u32| signals.of(file).expect("it has changed").newest;
    assert_eq!(newest(1), 1.0);
    assert!(newest(0) > newest(2) && newest(2) > 0.0, "{} {}", newest(0), newest(2));
}

#[test]
fn a_file_keeps_the_history_of_its_old_names() {
    let history = history(&[
        commit(3, 3, "speed up parsing", &["src/parse.py"]),
        commit(2, 2, "move the parser", &["lib/parser.py>src/parse.py"]),
        commit(1, 1, "read quoted names", &["lib/parser.py", "lib/other.py"]),
    ]);
    let signals = signals(
        "names with quotes are read wrong",
        &history,
        &["lib/other.py", "src/parse.py"],
    );
    let parse = signals.of(1).expect("it has changed");
    assert_eq!((parse.similar_commits, parse.similar_last), (1, Some(id(1))));
}

#[test]
fn files_that_change_together_get_a_share() {
    let history = history(&[
        commit(3, 3, "c", &["a.py", "b.py"]),
        commit(2, 2, "b", &["a.py", "b.py"]),
        commit(1, 1, "a", &["a.py", "c.py"]),
    ]);
    let signals = signals("x", &history, &["a.py", "b.py", "c.py"]);
    let together = signals.together(&[(0, 2.0)]);
    assert_eq!(together.keys().copied().collect::<Vec<_>>(), [1, 2]);
    assert!(together[&1].0 > together[&2].0 && together[&1].1 == 0, "{together:?}");
}

#[test]
fn a_path_that_is_not_listed_plays_no_part() {
    let history = history(&[commit(1, 1, "keep the secret", &[".env", "a.py"])]);
    let signals = signals("the secret", &history, &["a.py"]);
    assert_eq!(signals.together(&[(0, 1.0)]).len(), 0);
    assert!(signals.of(0).is_some() && signals.of(1).is_none());
}

#[test]
fn what_is_kept_of_a_commit_is_bounded() {
    let files: Vec<String> = (0..=HISTORY_COMMIT_FILES_MAX).map(|at| format!("{at}.py")).collect();
    let words: Vec<String> = (0..10_000).map(|at| format!("word{at}x")).collect();
    let many = PastCommit {
        changed: files,
        renamed: (0..5_000).map(|at| (format!("a{at}"), format!("b{at}"))).collect(),
        ..commit(1, 1, &words.join(" "), &[])
    };
    let kept = &history(&[many]).commits[0];
    assert_eq!(kept.changed.len(), 0);
    assert_eq!(kept.renamed.len(), HISTORY_COMMIT_RENAMES_MAX);
    assert!(kept.words.len() <= MESSAGE_WORDS_MAX, "{}", kept.words.len());
    let long: Vec<PastCommit> = (0..=HISTORY_COMMITS_MAX)
        .map(|_| commit(1, 1, "a", &["a.py"]))
        .collect();
    assert_eq!(history(&long).commits.len(), HISTORY_COMMITS_MAX);
}

#[test]
fn paths_are_bounded_by_their_bytes() {
    let long = |number: u32| format!("{number}/{}", "x".repeat(4000));
    let commits = (0..120_u8).map(|one| {
        let changed = (0..50).map(|at| long(u32::from(one) * 50 + at)).collect();
        WalkedCommit::Read(PastCommit {
            changed,
            ..commit(one, i64::from(one), "fix the parser", &[])
        })
    });
    let history = History::new(commits.collect(), &History::default());
    let bytes: usize = history.paths.iter().map(|path| path.len()).sum();
    assert!(
        bytes <= HISTORY_PATH_BYTES_MAX && bytes > HISTORY_PATH_BYTES_MAX - 5000,
        "{bytes}"
    );
    let again = [
        WalkedCommit::Known(id(0)),
        WalkedCommit::Read(commit(200, 1, "", &["a.py"])),
    ];
    let again = History::new(again.into(), &history);
    assert_eq!(again.paths.len(), 51, "paths of forgotten commits make room");
}

#[test]
fn times_that_no_commit_has_are_no_failure() {
    let mut commits = [commit(2, 0, "fix", &["a.py"]), commit(1, 0, "fix", &["b.py"])];
    (commits[0].seconds, commits[1].seconds) = (i64::MAX, i64::MIN);
    let signals = signals("fix", &history(&commits), &["a.py", "b.py"]);
    let fresh = |file| signals.of(file).expect("it has changed").fresh;
    assert!(fresh(0) > fresh(1), "{} {}", fresh(0), fresh(1));
}

#[test]
fn a_history_is_read_as_it_was_written_and_damage_is_none() {
    let written = history(&[
        commit(2, 2, "move the parser", &["lib/parser.py>src/parse.py", "a.py"]),
        commit(1, 1, "begin", &["lib/parser.py"]),
    ]);
    let bytes = written.encode(ROOT);
    let read = History::decode(&bytes, ROOT).expect("it is whole");
    assert_eq!((read.commits, read.paths), (written.commits, written.paths));
    assert!(History::decode(&bytes, FileIdentity { device: 1, inode: 3 }).is_none());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(History::decode(&damaged, ROOT).is_none(), "byte {at}");
        assert!(History::decode(&bytes[..at], ROOT).is_none(), "the first {at} bytes");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut whole = store::FORMAT.to_vec();
        whole.extend(bytes);
        let sum = crate::codec::compute_checksum(&whole);
        whole.extend_from_slice(&sum.to_le_bytes());
        if let Some(history) = History::decode(&whole, ROOT) {
            let _ = signals("a task", &history, &["a.py"]);
        }
    }

    #[test]
    fn any_message_is_untrusted_text(message in "\\PC{0,300}") {
        let history = history(&[commit(1, 1, &message, &["a.py"])]);
        let _ = signals(&message, &history, &["a.py"]);
        prop_assert!(history.commits[0].words.len() <= MESSAGE_WORDS_MAX);
    }
}

/// Gives commits, and counts those that it has to read.
#[derive(Debug, Default)]
struct ScriptedHistory {
    /// Newest first.
    commits: Mutex<Vec<PastCommit>>,
    read: AtomicUsize,
    /// Commits that one walk reads before its time is up.
    read_max: Option<usize>,
    is_broken: bool,
    gap: Option<HistoryGap>,
}

impl HistoryReader for ScriptedHistory {
    fn head(&self, _: &Arc<Repository>, _: &CancellationToken) -> Result<Option<CommitId>, HistoryError> {
        if self.is_broken {
            return Err(HistoryError("no git".to_owned()));
        }
        Ok(self.commits.lock().expect("no panic").first().map(|commit| commit.id))
    }

    fn walk(
        &self,
        _: &Arc<Repository>,
        _: CommitId,
        known: &HashSet<CommitId>,
        _: Duration,
        _: &CancellationToken,
    ) -> Result<WalkedHistory, HistoryError> {
        let (mut commits, mut read) = (Vec::new(), 0);
        for commit in &*self.commits.lock().expect("no panic") {
            if known.contains(&commit.id) {
                commits.push(WalkedCommit::Known(commit.id));
                continue;
            }
            if self.read_max.is_some_and(|most| read >= most) {
                return Ok(WalkedHistory {
                    commits,
                    is_complete: false,
                });
            }
            read += 1;
            self.read.fetch_add(1, Ordering::Relaxed);
            commits.push(WalkedCommit::Read(commit.clone()));
        }
        Ok(WalkedHistory {
            commits,
            is_complete: true,
        })
    }

    fn gap(&self, _: &Repository) -> Option<HistoryGap> {
        self.gap
    }
}

fn refresh(cell: &HistoryCell, reader: &ScriptedHistory) -> RefreshOutcome {
    refresh_within(HISTORY_WALK_TIME, cell, reader)
}

fn refresh_within(time: Duration, cell: &HistoryCell, reader: &ScriptedHistory) -> RefreshOutcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
    let permit = cell.permit().expect("nobody reads");
    cell.refresh(permit, reader, &repository, time, &CancellationToken::new())
}

#[test]
fn only_new_commits_are_read_again() {
    let reader = ScriptedHistory::default();
    *reader.commits.lock().expect("no panic") = vec![commit(2, 2, "b", &["a.py"]), commit(1, 1, "a", &["a.py"])];
    let cell = HistoryCell::default();
    assert_eq!(refresh(&cell, &reader), RefreshOutcome::Changed);
    assert_eq!(refresh(&cell, &reader), RefreshOutcome::Unchanged);
    reader
        .commits
        .lock()
        .expect("no panic")
        .insert(0, commit(3, 3, "c", &["b.py"]));
    assert_eq!(refresh(&cell, &reader), RefreshOutcome::Changed);
    assert_eq!(reader.read.load(Ordering::Relaxed), 3);
    let names: Vec<CommitId> = cell.current().commits.iter().map(|commit| commit.id).collect();
    assert_eq!(names, [id(3), id(2), id(1)]);
}

#[test]
fn a_walk_that_ran_out_of_time_goes_on_later() {
    let reader = ScriptedHistory {
        read_max: Some(2),
        ..ScriptedHistory::default()
    };
    let commits = (1..=5)
        .rev()
        .map(|number| commit(number, i64::from(number), "a", &["a.py"]));
    *reader.commits.lock().expect("no panic") = commits.collect();
    let cell = HistoryCell::default();
    for expected in [2, 4, 5] {
        assert_eq!(refresh(&cell, &reader), RefreshOutcome::Changed);
        assert_eq!(cell.current().commits.len(), expected);
    }
    assert_eq!(refresh(&cell, &reader), RefreshOutcome::Unchanged);
}

#[test]
fn a_short_walk_without_a_commit_is_not_the_end_of_the_history() {
    let mut reader = ScriptedHistory {
        read_max: Some(0),
        ..ScriptedHistory::default()
    };
    *reader.commits.lock().expect("no panic") = vec![commit(1, 1, "a", &["a.py"])];
    let cell = HistoryCell::default();
    let short = HISTORY_WALK_TIME / 2;
    refresh_within(short, &cell, &reader);
    assert!(cell.is_due() && !cell.is_complete(), "a busy machine read none");
    reader.read_max = None;
    assert_eq!(refresh(&cell, &reader), RefreshOutcome::Changed);
    assert_eq!(cell.current().commits.len(), 1);
    reader.is_broken = true;
    refresh_within(short, &cell, &reader);
    assert!(!cell.is_due(), "more time changes nothing where git cannot read");
}

#[test]
fn a_repository_that_cannot_be_read_keeps_the_history_that_is_known() {
    let known = history(&[commit(1, 1, "a", &["a.py"])]);
    let cell = HistoryCell::new(known);
    let broken = ScriptedHistory {
        is_broken: true,
        ..ScriptedHistory::default()
    };
    assert_eq!(refresh(&cell, &broken), RefreshOutcome::Unchanged);
    assert_eq!(cell.current().commits.len(), 1);
    assert!(!cell.is_due(), "it was looked at a moment ago");
}

#[test]
fn a_request_that_may_not_know_earlier_commits_reads_none() {
    let (home, folder) = (tempfile::tempdir(), tempfile::tempdir());
    let (home, folder) = (home.expect("a temporary folder"), folder.expect("a temporary folder"));
    std::fs::write(folder.path().join("a.py"), "a = 1\n").expect("the folder is ours");
    let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
    let reader = Arc::new(ScriptedHistory::default());
    *reader.commits.lock().expect("no panic") = vec![commit(1, 1, "a", &["a.py"])];
    let indexes = Indexes::waiting_for_history(home.path(), Arc::clone(&reader) as _);
    let cancel = CancellationToken::new();
    let list = repository.list(&cancel).expect("it can be listed");
    for (is_denied, read) in [(true, 0), (false, 1)] {
        let view = indexes.open_view(&repository, &list, Instant::now(), &cancel);
        let view = view.with_history(!is_denied);
        assert_eq!(view.history().is_none(), is_denied);
        view.finish();
        assert_eq!(reader.read.load(Ordering::Relaxed), read);
    }
}

#[test]
fn the_first_reading_is_waited_for_and_later_ones_are_not() {
    let cell = HistoryCell::default();
    let permit = cell.permit().expect("nobody reads");
    assert!(cell.permit().is_none(), "one reads at a time");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            cell.wait_for_first(Instant::now() + Duration::from_secs(60));
            cell.current().commits.len()
        });
        let reader = ScriptedHistory {
            read_max: Some(1),
            ..ScriptedHistory::default()
        };
        *reader.commits.lock().expect("no panic") = vec![commit(2, 2, "b", &["a.py"]), commit(1, 1, "a", &["a.py"])];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
        let cancel = CancellationToken::new();
        cell.refresh(permit, &reader, &repository, HISTORY_WALK_TIME, &cancel);
        assert_eq!(waiting.join().expect("no panic"), 1);
    });
    assert!(cell.is_due(), "the walk has to go on");
    let slow = HistoryCell::default();
    let _slow = slow.permit().expect("nobody reads");
    slow.wait_for_first(Instant::now());
    // Would wait for an hour if the first request had not given up already.
    slow.wait_for_first(Instant::now() + Duration::from_secs(3600));
    let _permit = cell.permit().expect("nobody reads");
    // Would wait for a reading that no one ends.
    cell.wait_for_first(Instant::now() + Duration::from_secs(3600));
}

#[test]
fn what_changed_most_is_told_of_sources_that_are_there_and_may_be_shown() {
    let (home, folder) = (tempfile::tempdir(), tempfile::tempdir());
    let (home, folder) = (home.expect("a temporary folder"), folder.expect("a temporary folder"));
    for file in ["a.py", "b.py", "c.py", "notes.md"] {
        std::fs::write(folder.path().join(file), "a = 1\n").expect("the folder is ours");
    }
    let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
    let all: &[&str] = &["a.py", "gone.py", "notes.md"];
    let commits = (1..=6)
        .rev()
        .map(|at| commit(at, i64::from(at), "a", if at > 3 { &["a.py", "b.py"] } else { all }));
    let reader = Arc::new(ScriptedHistory::default());
    *reader.commits.lock().expect("no panic") = commits.collect();
    let indexes = Indexes::waiting_for_history(home.path(), Arc::clone(&reader) as _);
    let recent = |directory: &str, filter: &crate::SelectionFilter| {
        let cancel = CancellationToken::new();
        recent_changes(&repository, &indexes, directory, filter, &cancel).expect("it can be listed")
    };
    let filter = crate::SelectionFilter::default();
    let changes = recent("", &filter).expect("there is a history");
    assert_eq!(changes.commits, 6);
    assert_eq!(changes.files, [("a.py".to_owned(), 6), ("b.py".to_owned(), 3)]);
    assert_eq!(recent("elsewhere", &filter), None);
    assert_eq!(recent("", &filter.without_history_if(true)), None);
}

#[test]
fn a_selection_for_a_task_says_why_there_is_no_history() {
    let (home, folder) = (tempfile::tempdir(), tempfile::tempdir());
    let (home, folder) = (home.expect("a temporary folder"), folder.expect("a temporary folder"));
    std::fs::write(folder.path().join("a.py"), "a = 1\n").expect("the folder is ours");
    let repository = Repository::open(folder.path(), &Options::default()).expect("it can be opened");
    let reader = ScriptedHistory {
        is_broken: true,
        gap: Some(HistoryGap::Outside),
        ..ScriptedHistory::default()
    };
    let indexes = Indexes::waiting_for_history(home.path(), Arc::new(reader));
    let notices = |target: &crate::Target, filter: &crate::SelectionFilter| {
        let request = crate::BuildRequest {
            repository: &repository,
            indexes: &indexes,
            operation: tool_core::api::Operation::Refactor,
            target,
            focus: None,
            filter,
            vault: None,
            redactor: &tool_core::redaction::Redactor::default(),
            budget_tokens: crate::limits::PACKET_TOKENS,
            cancel: &CancellationToken::new(),
        };
        let mut packet = crate::build_packet(&request).expect("it can be built");
        packet.notices.retain(|notice| notice.starts_with("Earlier commits"));
        packet.notices
    };
    let (task, filter) = (
        crate::Target::Task("change a".to_owned()),
        crate::SelectionFilter::default(),
    );
    let expected = "Earlier commits are not used: the git directory of this worktree lies outside of the repository";
    assert_eq!(notices(&task, &filter), [expected]);
    assert!(notices(&crate::Target::Root, &filter).is_empty());
    assert!(notices(&task, &filter.without_history_if(true)).is_empty());
}
