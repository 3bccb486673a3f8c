//! Recorders and their readers, on real files.

use super::super::history::tests::start;
use super::super::journal::Work;
use super::events::read_lines;
use super::*;
use crate::api::{Operation, Status};
use crate::skill::{FileChange, FileState};

fn recorder(place: &tempfile::TempDir) -> Arc<Recorder> {
    let folder = SessionFolder::new(place.path().join("s"));
    Recorder::create(folder, start("s", Work::Operation(Operation::Explain))).expect("it can be made")
}

fn complete() -> End {
    End {
        status: Status::Complete,
        problem: None,
        report_path: String::new(),
        usage: None,
    }
}

async fn all(mut events: Events) -> Vec<Numbered> {
    let mut seen = Vec::new();
    while let Some(batch) = events.next().await {
        seen.extend(batch);
    }
    seen
}

fn texts(events: &[Numbered]) -> String {
    events.iter().map(|(_, event)| output_of(event)).collect()
}

#[tokio::test]
async fn early_late_and_resumed_readers_see_the_same_events() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let early = tokio::spawn(all(Events::follow(Arc::clone(&recorder), "s", 0)));
    let keeper = Arc::clone(&recorder);
    let keeper = tokio::spawn(async move { keeper.keep_up().await });
    for n in 0..50 {
        recorder.text(&format!("{n} "));
        if n % 10 == 0 {
            recorder.notice("ten more", None);
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
    }
    recorder.end(complete(), api::now()).expect("it is durable");
    keeper.abort();
    let early = early.await.expect("it ends");
    let late = all(Events::follow(Arc::clone(&recorder), "s", 0)).await;
    let replayed = all(Events::replay(recorder.folder().clone(), "s", 0)).await;
    let expected: String = (0..50).map(|n| format!("{n} ")).collect();
    assert_eq!(texts(&early), expected);
    assert_eq!(early, late);
    assert_eq!(early, replayed);
    assert_eq!(early.iter().filter(|(_, event)| event.is_terminal()).count(), 1);
    assert!(early.len() < 30, "pieces that come close together are one event");
    let middle = early[early.len() / 2].0;
    let resumed = all(Events::replay(recorder.folder().clone(), "s", middle)).await;
    assert_eq!(resumed, early[early.len() / 2 + 1..]);
    assert_eq!(recorder.output(), expected);
}

#[tokio::test]
async fn a_reader_that_fell_behind_is_served_from_the_file() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let mut reader = Events::follow(Arc::clone(&recorder), "s", 0);
    let piece = "x".repeat(10_000);
    let count = 4 * limits::EVENT_TAIL_BYTES_MAX / piece.len();
    for _ in 0..count {
        recorder.notice(piece.clone(), None);
    }
    recorder.flush().expect("it can be written");
    assert!(recorder.lock().tail.len() < count, "only the file holds all of it");
    let mut seen = reader.next().await.expect("there are events");
    recorder.end(complete(), api::now()).expect("it is durable");
    seen.extend(all(reader).await);
    assert_eq!(seen.len(), count + 1);
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(recorder.lock().tail_bytes <= limits::EVENT_TAIL_BYTES_MAX);
}

#[test]
fn nothing_is_recorded_after_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.end(complete(), api::now()).expect("it is durable");
    recorder.notice("late", None);
    recorder.text("late");
    recorder.end(complete(), api::now()).expect("it is durable");
    recorder.flush().expect("it can be written");
    let parsed = recorder.folder().read().expect("it can be read");
    assert_eq!(parsed.lines.len(), 2);
    let change = PreparedChange {
        id: "c".into(),
        root: "/r".into(),
        files: Vec::new(),
        directories: Vec::new(),
    };
    assert!(recorder.prepare(&change).is_err(), "no change after the end");
}

#[test]
fn a_prepared_change_is_on_disk_before_prepare_returns() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let file = FileChange {
        path: "a".into(),
        before: None,
        after: Some(FileState {
            content: b"new".to_vec(),
            mode: 0o644,
        }),
    };
    let change = PreparedChange {
        id: "c".into(),
        root: "/r".into(),
        files: vec![file],
        directories: Vec::new(),
    };
    recorder.prepare(&change).expect("it is durable");
    let lines = recorder.folder().read().expect("it can be read").lines;
    let summary = Summary::of(&lines).expect("it begins as a session");
    assert_eq!(
        recorder.folder().load(&summary.open_changes[0]).expect("it is stored"),
        change
    );
    recorder.committed("c").expect("it can be written");
    assert_eq!(recorder.summary().files_modified(), ["a"]);
}

#[tokio::test]
async fn a_journal_with_a_torn_tail_goes_on_after_its_last_whole_line() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let first = recorder(&place);
    first.notice("before", None);
    first.flush().expect("it can be written");
    let folder = first.folder().clone();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(folder.journal())
        .expect("it can be opened");
    file.write_all(b"{\"seq\":3,\"at\"").expect("it can be written");
    let parsed = folder.read().expect("it can be read");
    let summary = Summary::of(&parsed.lines).expect("it begins as a session");
    let second = Recorder::resume(folder.clone(), summary, &parsed).expect("it can go on");
    let reader = Events::follow(Arc::clone(&second), "s", 0);
    second.end(complete(), api::now()).expect("it is durable");
    let parsed = folder.read().expect("it can be read");
    assert_eq!(parsed.damaged, 0);
    let last = 2 + limits::JOURNAL_LOST_LINES_MAX;
    let numbers: Vec<u64> = parsed.lines.iter().map(|line| line.seq).collect();
    assert_eq!(numbers, [1, 2, last]);
    assert_eq!(all(reader).await.len(), 2);
    // It saw three events that never got to the disk.
    let resumed = all(Events::replay(folder, "s", 5)).await;
    assert_eq!(resumed.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [last]);
}

#[tokio::test]
async fn while_the_disk_is_full_readers_lose_nothing_and_the_journal_has_it_later() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let room = recorder.fill_disk();
    let piece = "x".repeat(10_000);
    let count = 4 * limits::EVENT_TAIL_BYTES_MAX / piece.len();
    for _ in 0..count {
        recorder.notice(piece.clone(), None);
        recorder.flush().expect_err("the disk is full");
    }
    assert!(recorder.end(complete(), api::now()).is_err(), "it is not durable");
    let seen = all(Events::follow(Arc::clone(&recorder), "s", 0)).await;
    assert_eq!(seen.len(), count + 1);
    assert!(seen.last().is_some_and(|(_, event)| event.is_terminal()));
    drop(room);
    recorder.sync().expect("there is room");
    let replayed = all(Events::replay(recorder.folder().clone(), "s", 0)).await;
    assert_eq!(replayed, seen);
    assert!(recorder.lock().tail_bytes <= limits::EVENT_TAIL_BYTES_MAX);
}

#[test]
fn unwritten_lines_are_bounded_while_the_disk_is_full() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let _room = recorder.fill_disk();
    let piece = "x".repeat(1_000_000);
    for _ in 0..2 * limits::JOURNAL_BACKLOG_BYTES_MAX / piece.len() {
        recorder.notice(piece.clone(), None);
    }
    let state = recorder.lock();
    assert!(state.backlog.len() <= limits::JOURNAL_BACKLOG_BYTES_MAX);
    assert!(state.tail_bytes <= limits::JOURNAL_BACKLOG_BYTES_MAX);
}

fn change(id: &str) -> PreparedChange {
    PreparedChange {
        id: id.into(),
        root: "/r".into(),
        files: Vec::new(),
        directories: Vec::new(),
    }
}

#[test]
fn a_commit_after_the_end_is_refused() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.prepare(&change("c")).expect("it is durable");
    recorder.end(complete(), api::now()).expect("it is durable");
    assert!(
        recorder.committed("c").is_err(),
        "the next start would take it back in silence"
    );
}

#[test]
fn what_was_begun_is_closed_in_the_journal() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let call = |name: &str| Event::Skill {
        name: name.into(),
        args: serde_json::json!({"path": "a.py"}),
    };
    recorder.event(call("read_file"));
    recorder.event(call("run_tests"));
    recorder.event(Event::SkillResult {
        name: "read_file".into(),
        verdict: "ok".into(),
        summary: String::new(),
        duration_ms: 1,
    });
    recorder.event(Event::Approval {
        id: "a".into(),
        effect: "commit-git".into(),
        title: String::new(),
        detail: String::new(),
        expires: api::now(),
    });
    recorder.close_open("interrupted", "nobody knows");
    recorder.close_open("interrupted", "nobody knows");
    recorder.flush().expect("it can be written");
    let lines = recorder.folder().read().expect("it can be read").lines;
    let closed = lines.iter().skip(5).map(|line| match &line.entry {
        Entry::Tool(tool) => format!("{} {} {} {}", tool.call_id, tool.name, tool.verdict, tool.arguments),
        Entry::Event {
            event: Event::SkillResult { name, verdict, .. },
        } => format!("{name} {verdict}"),
        Entry::Answered { id, answer } => format!("{id} {answer:?}"),
        other => format!("{other:?}"),
    });
    assert_eq!(
        closed.collect::<Vec<_>>(),
        [
            "event-3 run_tests interrupted {\"path\":\"a.py\"}",
            "run_tests interrupted",
            "a Cancelled"
        ]
    );
}

#[test]
fn a_reader_takes_a_bounded_part_of_a_journal_at_once() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().join("journal.jsonl");
    let line = format!("{}\n", "x".repeat(999));
    std::fs::write(&path, line.repeat(1_000)).expect("the folder is writable");
    let first = read_lines(&path, 0).expect("it can be read");
    assert!(
        first.len() <= limits::REPLAY_BYTES_MAX && first.len().is_multiple_of(1_000),
        "{}",
        first.len()
    );
    assert_eq!(read_lines(&path, 999_000).expect("it can be read"), line.as_bytes());
}

#[tokio::test]
async fn waiting_lines_are_written_and_collected_text_is_sent_within_a_moment() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let keeper = Arc::clone(&recorder);
    let keeper = tokio::spawn(async move { keeper.keep_up().await });
    let mut reader = Events::follow(Arc::clone(&recorder), "s", 0);
    recorder.text("soon");
    // Busy machines are slow; the bounds are 5 and 25 ms.
    let patience = Duration::from_millis(40 * (limits::TOKEN_COALESCE_MS + limits::JOURNAL_COMMIT_MS));
    let batch = tokio::time::timeout(patience, reader.next()).await.expect("it is sent");
    assert_eq!(texts(&batch.expect("there is more")), "soon");
    let written = async {
        while recorder.folder().read().expect("it can be read").lines.len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(patience, written).await.expect("it is written");
    keeper.abort();
}

#[test]
fn a_change_that_never_ends_is_not_waited_for_at_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let change = PreparedChange {
        id: "c".into(),
        root: "/r".into(),
        files: Vec::new(),
        directories: Vec::new(),
    };
    recorder.prepare(&change).expect("it is durable");
    let _hurried = limits::pace::hurried(20);
    let started = Instant::now();
    recorder.seal();
    assert!(started.elapsed() < Duration::from_millis(limits::OPEN_CHANGE_MS_MAX));
}
