//! Recorders and their readers, on real files.

use super::events::read_lines;
use super::*;
use crate::feed::events::REPLAY_BYTES_MAX;
use crate::fixtures::{fill_disk, start};
use crate::journal::SessionWork;
use tool_core::api::{Operation, Status};
use tool_repository::changes::{FileChange, FileState};

fn recorder(place: &tempfile::TempDir) -> Arc<Recorder> {
    let folder = SessionFolder::new(place.path().join("s"));
    Recorder::create(folder, start("s", SessionWork::Operation(Operation::Explain))).expect("it can be made")
}

fn complete() -> EndRecord {
    EndRecord {
        status: Status::Complete,
        problem: None,
        report_path: String::new(),
        usage: None,
    }
}

async fn all(mut events: EventReader) -> Vec<NumberedEvent> {
    let mut seen = Vec::new();
    while let Some(batch) = events.next().await {
        seen.extend(batch);
    }
    seen
}

fn texts(events: &[NumberedEvent]) -> String {
    events.iter().map(|(_, event)| output_of(event)).collect()
}

/// The session is kept in memory for as long as the disk does not take it; a reader who has seen its end must not be.
#[tokio::test]
async fn a_reader_who_comes_back_after_the_last_event_waits_for_nothing() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.end(complete(), api::current_time()).expect("it is durable");
    let seen = all(EventReader::follow(Arc::clone(&recorder), "s", 0)).await;
    let (last, _) = seen.last().expect("there is an end");
    assert!(
        all(EventReader::follow(Arc::clone(&recorder), "s", *last))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_reader_who_names_a_number_beyond_the_end_is_told_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.notice("before", None);
    let early = [4, 1_000, u64::MAX].map(|after| EventReader::follow(Arc::clone(&recorder), "s", after));
    recorder.notice("after", None);
    recorder.end(complete(), api::current_time()).expect("it is durable");
    for events in early {
        let numbers: Vec<u64> = all(events).await.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(numbers, [3, 4]);
    }
    for after in [5, u64::MAX] {
        for events in [
            EventReader::follow(Arc::clone(&recorder), "s", after),
            EventReader::replay(recorder.folder().clone(), "s", after),
        ] {
            let seen = all(events).await;
            assert_eq!(seen.len(), 1);
            assert!(seen[0].1.is_terminal());
        }
    }
    assert!(
        all(EventReader::replay(recorder.folder().clone(), "s", 4))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_for_now_ends_a_reader_where_it_is() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let piece = "x".repeat(10_000);
    for _ in 0..4 * EVENT_TAIL_BYTES_MAX / piece.len() {
        recorder.notice(piece.clone(), None);
    }
    recorder.flush().expect("it can be written");
    let mut reader = EventReader::follow(Arc::clone(&recorder), "s", 0);
    let seen = reader.next().await.expect("there are events");
    let last = seen.last().expect("there are events").0;
    // A directory opens and cannot be read.
    let (journal, aside) = (recorder.folder().journal(), place.path().join("aside"));
    std::fs::rename(&journal, &aside).expect("it is there");
    std::fs::create_dir(&journal).expect("it can be made");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    assert_eq!(reader.next().await, None, "it says no end, so its client comes back");
    assert!(
        all(EventReader::replay(recorder.folder().clone(), "s", last))
            .await
            .is_empty()
    );
    std::fs::remove_dir(&journal).expect("it is empty");
    std::fs::rename(&aside, &journal).expect("it is there");
    let whole = all(EventReader::replay(recorder.folder().clone(), "s", 0)).await;
    for rest in [
        EventReader::follow(Arc::clone(&recorder), "s", last),
        EventReader::replay(recorder.folder().clone(), "s", last),
    ] {
        assert_eq!([seen.clone(), all(rest).await].concat(), whole);
    }
}

#[tokio::test]
async fn early_late_and_resumed_readers_see_the_same_events() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let early = tokio::spawn(all(EventReader::follow(Arc::clone(&recorder), "s", 0)));
    let keeper = Arc::clone(&recorder);
    let keeper = tokio::spawn(async move { keeper.keep_up().await });
    for n in 0..50 {
        recorder.text(&format!("{n} "));
        if n % 10 == 0 {
            recorder.notice("ten more", None);
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
    }
    recorder.end(complete(), api::current_time()).expect("it is durable");
    keeper.abort();
    let early = early.await.expect("it ends");
    let late = all(EventReader::follow(Arc::clone(&recorder), "s", 0)).await;
    let replayed = all(EventReader::replay(recorder.folder().clone(), "s", 0)).await;
    let expected: String = (0..50).map(|n| format!("{n} ")).collect();
    assert_eq!(texts(&early), expected);
    assert_eq!(early, late);
    assert_eq!(early, replayed);
    assert_eq!(early.iter().filter(|(_, event)| event.is_terminal()).count(), 1);
    assert!(early.len() < 30, "pieces that come close together are one event");
    let middle = early[early.len() / 2].0;
    let resumed = all(EventReader::replay(recorder.folder().clone(), "s", middle)).await;
    assert_eq!(resumed, early[early.len() / 2 + 1..]);
    assert_eq!(recorder.output(), expected);
}

#[tokio::test]
async fn a_reader_that_fell_behind_is_served_from_the_file() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let mut reader = EventReader::follow(Arc::clone(&recorder), "s", 0);
    let piece = "x".repeat(10_000);
    let count = 4 * EVENT_TAIL_BYTES_MAX / piece.len();
    for _ in 0..count {
        recorder.notice(piece.clone(), None);
    }
    recorder.flush().expect("it can be written");
    assert!(recorder.lock().tail.len() < count, "only the file holds all of it");
    let mut seen = reader.next().await.expect("there are events");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    seen.extend(all(reader).await);
    assert_eq!(seen.len(), count + 1);
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(recorder.lock().tail_bytes <= EVENT_TAIL_BYTES_MAX);
}

#[test]
fn nothing_is_recorded_after_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.end(complete(), api::current_time()).expect("it is durable");
    recorder.notice("late", None);
    recorder.text("late");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    recorder.flush().expect("it can be written");
    let parsed = recorder.folder().read().expect("it can be read");
    assert_eq!(parsed.lines.len(), 2);
    assert!(recorder.prepare(&change("c")).is_err(), "no change after the end");
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
        call_id: None,
        root: "/r".into(),
        files: vec![file],
        directories: Vec::new(),
    };
    recorder.prepare(&change).expect("it is durable");
    let lines = recorder.folder().read().expect("it can be read").lines;
    let summary = SessionSummary::from_lines(&lines).expect("it begins as a session");
    assert_eq!(
        recorder.folder().load(&summary.open_changes[0]).expect("it is stored"),
        change
    );
    recorder.committed("c").expect("it can be written");
    assert_eq!(recorder.summary().files_modified(), ["a"]);
}

#[test]
fn who_goes_on_with_a_journal_knows_how_its_answer_ends() {
    for (said, missing) in [("one two", "\n\n"), ("- one\n", "\n"), ("", "")] {
        let place = tempfile::tempdir().expect("a temporary folder");
        let first = recorder(&place);
        first.event(Event::Token { content: said.into() });
        first.flush().expect("it can be written");
        let folder = first.folder().clone();
        let (summary, extent) = folder
            .view(|lines| SessionSummary::from_lines(lines))
            .expect("it can be read");
        let second = Recorder::resume(folder, summary.expect("it begins as a session"), extent);
        assert_eq!(second.expect("it can go on").paragraph(), missing, "{said:?}");
    }
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
    let (summary, extent) = folder
        .view(|lines| SessionSummary::from_lines(lines))
        .expect("it can be read");
    let summary = summary.expect("it begins as a session");
    let second = Recorder::resume(folder.clone(), summary, extent).expect("it can go on");
    let reader = EventReader::follow(Arc::clone(&second), "s", 0);
    second.end(complete(), api::current_time()).expect("it is durable");
    let parsed = folder.read().expect("it can be read");
    assert_eq!(parsed.damaged, 0);
    let last = 2 + JOURNAL_LOST_LINES_MAX;
    let numbers: Vec<u64> = parsed.lines.iter().map(|line| line.seq).collect();
    assert_eq!(numbers, [1, 2, last]);
    assert_eq!(all(reader).await.len(), 2);
    // It saw three events that never got to the disk.
    let resumed = all(EventReader::replay(folder, "s", 5)).await;
    assert_eq!(resumed.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [last]);
}

#[tokio::test]
async fn while_the_disk_is_full_readers_lose_nothing_and_the_journal_has_it_later() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let room = fill_disk(&recorder);
    let piece = "x".repeat(10_000);
    let count = 4 * EVENT_TAIL_BYTES_MAX / piece.len();
    for _ in 0..count {
        recorder.notice(piece.clone(), None);
        recorder.flush().expect_err("the disk is full");
    }
    assert!(
        recorder.end(complete(), api::current_time()).is_err(),
        "it is not durable"
    );
    let seen = all(EventReader::follow(Arc::clone(&recorder), "s", 0)).await;
    assert_eq!(seen.len(), count + 1);
    assert!(seen.last().is_some_and(|(_, event)| event.is_terminal()));
    drop(room);
    recorder.sync().expect("there is room");
    let replayed = all(EventReader::replay(recorder.folder().clone(), "s", 0)).await;
    assert_eq!(replayed, seen);
    assert!(recorder.lock().tail_bytes <= EVENT_TAIL_BYTES_MAX);
}

#[test]
fn unwritten_lines_are_bounded_while_the_disk_is_full() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let _room = fill_disk(&recorder);
    let piece = "x".repeat(1_000_000);
    for _ in 0..2 * JOURNAL_BACKLOG_BYTES_MAX / piece.len() {
        recorder.notice(piece.clone(), None);
    }
    let state = recorder.lock();
    assert!(state.backlog.len() <= JOURNAL_BACKLOG_BYTES_MAX);
    assert!(state.tail_bytes <= JOURNAL_BACKLOG_BYTES_MAX);
}

#[test]
fn of_a_disk_that_is_full_for_long_only_events_are_lost() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.prepare(&change("c")).expect("it is durable");
    let room = fill_disk(&recorder);
    let piece = "x".repeat(1_000_000);
    for _ in 0..JOURNAL_BACKLOG_BYTES_MAX / piece.len() + 3 {
        recorder.notice(piece.clone(), None);
    }
    // Not even the shortest event finds room.
    while recorder.lost() < 4 {
        recorder.notice(String::new(), None);
    }
    let error = recorder.prepare(&change("d")).expect_err("its line is not taken");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    recorder.committed("c").expect_err("the disk is full");
    recorder
        .end(complete(), api::current_time())
        .expect_err("the disk is full");
    assert_eq!(recorder.summary().files_modified(), [""; 0]);
    drop(room);
    recorder.sync().expect("there is room");
    let (told, _) = recorder
        .folder()
        .view(|lines| {
            let entries = lines.map(|line| line.entry);
            let told = entries.filter(|entry| !matches!(entry, JournalEntry::Event { .. } | JournalEntry::Started(_)));
            told.collect::<Vec<_>>()
        })
        .expect("it can be read");
    assert!(
        matches!(
            &told[..],
            [JournalEntry::Prepared(_), JournalEntry::Committed { id }, JournalEntry::Reopened { id: again }, JournalEntry::Ended(_)]
                if id == "c" && again == "c"
        ),
        "{told:?}"
    );
}

#[test]
fn a_commit_that_may_not_outlast_the_power_is_none() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.prepare(&change("c")).expect("it is durable");
    let _reader = recorder.leave_disk();
    recorder.flush().expect("it takes what is written");
    recorder.committed("c").expect_err("it is on no disk");
    let open = recorder.summary().open_changes;
    assert_eq!(open.len(), 1, "it is rolled back now, or by the next start");
    recorder.abandoned("c").expect_err("it is on no disk");
    assert!(recorder.summary().is_settled());
}

/// A slow disk may keep a change from its end until its session is over.
#[tokio::test]
async fn what_became_of_a_change_is_noted_after_the_end_and_is_no_part_of_the_stream() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.prepare(&change("c")).expect("it is durable");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    recorder.notice("Too late.", None);
    recorder.abandoned("c").expect("it is durable");
    let folder = recorder.folder().clone();
    let (summary, extent) = folder
        .view(|lines| SessionSummary::from_lines(lines))
        .expect("it can be read");
    assert!(summary.expect("it began").is_settled(), "no start takes anything back");
    for (after, is_live) in [0, extent.last - 1, extent.last, extent.last + 9]
        .into_iter()
        .flat_map(|after| [(after, false), (after, true)])
    {
        let told = all(if is_live {
            EventReader::follow(Arc::clone(&recorder), "s", after)
        } else {
            EventReader::replay(folder.clone(), "s", after)
        })
        .await;
        let ends = told.iter().filter(|(_, event)| event.is_terminal()).count();
        let is_last = told.last().is_none_or(|(_, event)| event.is_terminal());
        assert!(ends <= 1 && is_last, "{after}: {told:?}");
    }
}

fn change(id: &str) -> PreparedChange {
    PreparedChange {
        id: id.into(),
        call_id: None,
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
    recorder.end(complete(), api::current_time()).expect("it is durable");
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
        call_id: Some(name.into()),
    };
    recorder.event(call("read_file"));
    recorder.event(call("run_tests"));
    recorder.event(Event::SkillResult {
        name: "read_file".into(),
        verdict: "ok".into(),
        summary: String::new(),
        duration_ms: 1,
        details: None,
        call_id: Some("read_file".into()),
    });
    recorder.event(Event::Approval {
        id: "a".into(),
        effect: "commit-git".into(),
        call_id: None,
        title: String::new(),
        detail: String::new(),
        left_out: None,
        expires: api::current_time(),
        scopes: Vec::new(),
    });
    recorder.close_open("interrupted", "nobody knows");
    recorder.close_open("interrupted", "nobody knows");
    recorder.flush().expect("it can be written");
    let lines = recorder.folder().read().expect("it can be read").lines;
    let closed = lines.iter().skip(5).map(|line| match &line.entry {
        JournalEntry::Tool(tool) => format!("{} {} {} {}", tool.call_id, tool.name, tool.verdict, tool.arguments),
        JournalEntry::Event {
            event: Event::SkillResult { name, verdict, .. },
        } => format!("{name} {verdict}"),
        JournalEntry::Answered { id, answer, .. } => format!("{id} {answer:?}"),
        other => format!("{other:?}"),
    });
    assert_eq!(
        closed.collect::<Vec<_>>(),
        [
            "run_tests run_tests interrupted {\"path\":\"a.py\"}",
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
        first.len() <= REPLAY_BYTES_MAX && first.len().is_multiple_of(1_000),
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
    let mut reader = EventReader::follow(Arc::clone(&recorder), "s", 0);
    recorder.text("soon");
    // Busy machines are slow; the bounds are 5 and 25 ms.
    let patience = Duration::from_millis(40 * (TOKEN_COALESCE_MS + JOURNAL_COMMIT_MS));
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

#[tokio::test]
async fn what_found_the_disk_full_is_written_once_there_is_room_though_nothing_more_is_said() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let keeper = Arc::clone(&recorder);
    let keeper = tokio::spawn(async move { keeper.keep_up().await });
    let disk = fill_disk(&recorder);
    recorder.notice("it is full", None);
    tokio::time::sleep(Duration::from_millis(4 * JOURNAL_COMMIT_MS)).await;
    drop(disk);
    let lines = || recorder.folder().read().expect("it can be read").lines.len();
    assert_eq!(lines(), 1);
    let written = async {
        while lines() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let patience = Duration::from_millis(10 * limits::JOURNAL_RETRY_MS);
    tokio::time::timeout(patience, written).await.expect("it is written");
    keeper.abort();
}

#[test]
fn a_change_that_never_ends_is_not_waited_for_at_the_end() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.prepare(&change("c")).expect("it is durable");
    let _hurried = limits::pace::hurried(20);
    let started = Instant::now();
    recorder.seal();
    assert!(started.elapsed() < Duration::from_millis(limits::OPEN_CHANGE_MS_MAX));
}

#[test]
fn what_a_session_stores_of_changed_files_is_bounded_and_its_undo_is_not() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let proposal = |id: &str, text: &str| PreparedChange {
        files: vec![FileChange {
            path: "a".into(),
            before: None,
            after: Some(FileState {
                content: text.into(),
                mode: 0o644,
            }),
        }],
        ..change(id)
    };
    recorder.prepare(&proposal("c", "new")).expect("there is room");
    let filled = recorder.folder().path().join("contents/filled");
    let file = File::create(filled).expect("it can be made");
    file.set_len(limits::SESSION_CONTENTS_BYTES_MAX - 5)
        .expect("a hole takes no space");
    let refused = recorder.prepare(&proposal("d", "other")).expect_err("there is none");
    assert_eq!(
        refused.to_string(),
        "the session would keep more than 256 MiB of old and new contents for `tool undo`"
    );
    recorder
        .prepare(&proposal("e", "new"))
        .expect("what is stored costs nothing");
    recorder.lock().summary.start.work = SessionWork::Undo("other".into());
    recorder.prepare(&proposal("f", "other")).expect("it is an undo");
}

#[test]
fn nothing_comes_after_an_end_that_fills_the_journal() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.lock().journal_bytes = JOURNAL_BYTES_MAX - 1;
    recorder.end(complete(), api::current_time()).expect("it is durable");
    let (last, _) = recorder
        .folder()
        .view(|lines| lines.last().map(|line| matches!(line.entry, JournalEntry::Ended(_))))
        .expect("it can be read");
    assert_eq!(last, Some(true));
}

#[test]
fn a_journal_that_is_full_takes_what_happens_and_no_more_words() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let piece = "x".repeat(4_000_000);
    for _ in 0..2 * JOURNAL_BYTES_MAX as usize / piece.len() {
        recorder.reasoning(&piece);
        recorder.text(&piece);
        recorder.flush().expect("it can be written");
    }
    recorder.prepare(&change("c")).expect("it is durable");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    let written = recorder.folder().size_bytes();
    assert!(written < JOURNAL_BYTES_MAX + 2 * piece.len() as u64, "{written}");
    let output = recorder.output();
    assert!(output.len() as u64 <= JOURNAL_BYTES_MAX);
    let kinds = |lines: &mut dyn Iterator<Item = JournalLine>| -> Vec<String> {
        let told = lines.filter_map(|line| match line.entry {
            JournalEntry::Reasoning { .. } | JournalEntry::Started(_) | JournalEntry::Conversation(_) => None,
            JournalEntry::Event { event } => match event {
                Event::Notice { message, .. } => Some(message),
                _ => None,
            },
            JournalEntry::Prepared(change) => Some(format!("prepared {}", change.id)),
            JournalEntry::Ended(_) => Some("end".into()),
            other => Some(format!("{other:?}")),
        });
        told.collect()
    };
    let (told, _) = recorder.folder().view(|lines| kinds(lines)).expect("it can be read");
    assert_eq!(
        told,
        [
            "The session has said more than 64 MiB; what it says from here on is left out",
            "prepared c",
            "end"
        ]
    );
}

#[test]
fn the_end_waits_for_what_is_being_put_in_place_and_lets_nothing_begin() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let publication = CommitInProgress {
        id: "p".into(),
        git: "/r/.git".into(),
        common: "/r/.git".into(),
        branch: None,
        commit: "c".into(),
    };
    recorder.enter().expect("it goes on");
    recorder.publishing(&publication).expect("it goes on");
    let lines = recorder.folder().read().expect("it can be read").lines;
    let summary = SessionSummary::from_lines(&lines).expect("it begins as a session");
    assert_eq!(
        summary.open_commits,
        std::slice::from_ref(&publication),
        "it is on disk before anything is done"
    );
    let steps = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let end = scope.spawn(|| {
            recorder.seal();
            steps.lock().expect("no panic").push("sealed");
        });
        while recorder.enter().is_ok() {
            recorder.leave();
        }
        assert!(recorder.publishing(&publication).is_err(), "nothing begins any more");
        steps.lock().expect("no panic").push("published");
        recorder.published("p");
        steps.lock().expect("no panic").push("left");
        recorder.leave();
        end.join().expect("it ends");
    });
    assert_eq!(*steps.lock().expect("no panic"), ["published", "left", "sealed"]);
    assert!(recorder.summary().is_settled());
}

#[tokio::test]
async fn an_old_file_that_is_kept_is_a_notice_of_the_session() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    recorder.written_late(&WrittenLate {
        path: "a.txt".to_owned(),
        kept: ".tool-proposal-x-0".to_owned(),
    });
    recorder.end(complete(), api::current_time()).expect("it is durable");
    let seen = all(EventReader::follow(Arc::clone(&recorder), "s", 0)).await;
    let is_told = |event: &Event| matches!(event, Event::Notice { message, hint: Some(_), .. } if message.contains("`.tool-proposal-x-0`"));
    assert!(seen.iter().any(|(_, event)| is_told(event)));
}

#[test]
fn the_answer_so_far_is_whole_however_much_of_it_is_written_and_kept() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let recorder = recorder(&place);
    let mut said = String::new();
    let mut say = |text: &str| {
        recorder.text(text);
        said.push_str(text);
        assert_eq!(recorder.output(), said);
    };
    say("one ");
    recorder.notice("something else", None);
    say("two ");
    // More than memory keeps of the events.
    for _ in 0..4 {
        say(&"three ".repeat(EVENT_TAIL_BYTES_MAX / 12));
        recorder.notice("something else", None);
        recorder.flush().expect("there is room");
    }
    assert!(recorder.lock().evicted > 0, "nothing was let go of");
    let room = fill_disk(&recorder);
    recorder.notice("something else", None);
    say("four ");
    drop(room);
    say("five");
    recorder.end(complete(), api::current_time()).expect("it is durable");
    assert_eq!(recorder.output(), said);
    // Output in memory is returned even if the file cannot be read.
    std::fs::remove_file(recorder.folder().journal()).expect("it is there");
    assert!(said.ends_with(&recorder.output()) && recorder.output().ends_with("five"));
}

#[test]
fn a_paragraph_begins_behind_whatever_was_said() {
    for pieces in [
        &[][..],
        &[" \n", "\n"],
        &["a"],
        &["a", "\n"],
        &["a\n", "\n"],
        &["a\n\n", "\n"],
        &["a\n\n", "b"],
        &["a\n\n", " "],
        &["\n\n", "a\n"],
    ] {
        let mut ending = AnswerEnd::default();
        pieces.iter().for_each(|piece| ending.follow(piece));
        let whole = format!("{}{}", pieces.concat(), ending.until_paragraph());
        assert!(whole.trim().is_empty() || whole.ends_with("\n\n"), "{pieces:?}");
    }
}
