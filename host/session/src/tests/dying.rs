//! Daemons that die: at every moment of a change, of its recovery and of an undo, and in any order with the ends that a
//! session has by itself. The journal, the store, the stage and the files are the real ones.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use tool_core::api::{ErrorKind, NoticeKind};
use tool_core::digest::sha256_hex;
use tool_journal::journal::JournalEntry;
use tool_repository::changes::{ChangeJournal, CommitInProgress, crash_at};
use tool_repository::{Options, Repository};
use tool_skill::{CallContext, NoServices, SessionFiles, stage};

/// A repository that a proposal changes in every way: two files replaced, one removed, one made with its directories.
struct Scene {
    place: tempfile::TempDir,
    id: String,
}

type Tree = BTreeMap<String, String>;

const BEFORE: [(&str, &str); 4] = [
    ("a.txt", "old a"),
    ("b.txt", "old b"),
    ("dir/c.txt", "old c"),
    ("dir/z.txt", "z"),
];

const AFTER: [(&str, &str); 4] = [
    ("a.txt", "new a"),
    ("b.txt", "new b"),
    ("new/deep/d.txt", "new d"),
    ("dir/z.txt", "z"),
];

fn tree(files: [(&str, &str); 4]) -> Tree {
    let owned = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    owned.into_iter().collect()
}

impl Scene {
    fn new() -> Self {
        // In memory where that is possible: the test is about the order of steps, and a disk makes it slow.
        let memory = Path::new("/dev/shm");
        let place = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        let place = place.expect("a temporary folder");
        for (path, text) in BEFORE {
            let path = place.path().join("repository").join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        Self {
            place,
            id: IdSource::sorting_after([].into_iter()).next(api::current_time()),
        }
    }

    fn root(&self) -> PathBuf {
        let root = self.place.path().join("repository");
        root.canonicalize().expect("it exists")
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    fn journal(&self) -> PathBuf {
        self.home().join("sessions").join(&self.id).join("journal.jsonl")
    }

    /// All files and their contents, of all owners; empty directories as a path that ends in a slash.
    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut todo = vec![self.root()];
        while let Some(folder) = todo.pop() {
            let mut is_empty = true;
            for entry in fs::read_dir(&folder).expect("it can be listed") {
                let path = entry.expect("it can be listed").path();
                is_empty = false;
                let name = path.strip_prefix(self.root()).expect("it lies below");
                let name = name.to_string_lossy().into_owned();
                if name == "session-reports" {
                } else if path.is_dir() {
                    todo.push(path);
                } else {
                    tree.insert(name, fs::read_to_string(&path).expect("it can be read"));
                }
            }
            if is_empty {
                let name = folder.strip_prefix(self.root()).expect("it lies below");
                tree.insert(format!("{}/", name.display()), String::new());
            }
        }
        tree
    }

    /// Proposes the change in a session of a daemon that dies at a moment. False where it died.
    fn propose(&self, moment: u32) -> bool {
        let mut start = fixtures::start(&self.id, SessionWork::Operation(Operation::Refactor));
        start.repository = self.root().to_string_lossy().into_owned();
        start.working_directory.clone_from(&start.repository);
        let folder = tool_journal::journal::SessionFolder::new(self.home().join("sessions").join(&self.id));
        let recorder = Recorder::create(folder, start).expect("it can be made");
        let seen = BEFORE.map(|(path, text)| (path.to_owned(), sha256_hex(text.as_bytes())));
        let context = CallContext {
            changes: Arc::clone(&recorder) as _,
            files: Arc::new(Mutex::new(SessionFiles {
                seen: seen.into_iter().collect(),
                ..SessionFiles::default()
            })),
            ..CallContext::unattended(
                Repository::open(&self.root(), &Options::default()).expect("it can be opened"),
                Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default())
                    .expect("it is right"),
            )
        };
        let staged = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in AFTER {
            let path = staged.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        let deleted = ["dir/c.txt".to_owned()];
        let left = stage::StageContent {
            stage: staged.path(),
            deletions: &deleted,
            terms: &stage::ProposalTerms::default(),
        };
        crash_at(moment, || stage::commit_stage(&context, &NoServices, left))
            .map(|committed| committed.expect("it is granted"))
            .is_some()
    }

    fn open(&self) -> Arc<Sessions> {
        open_sessions(&self.home(), FakeEngine::new(vec![]), None).expect("it can be opened")
    }

    fn entries(&self) -> Vec<JournalEntry> {
        let parsed = tool_journal::journal::parse(&fs::read(self.journal()).expect("it is there"));
        assert_eq!(parsed.damaged, 0);
        parsed.lines.into_iter().map(|line| line.entry).collect()
    }

    fn is_committed(&self) -> bool {
        self.entries()
            .iter()
            .any(|entry| matches!(entry, JournalEntry::Committed { .. }))
    }

    /// Asserts the state after a start of the daemon: one terminal status, one terminal event, and files that fit the
    /// journal.
    async fn is_closed(&self, sessions: &Arc<Sessions>) -> SessionResult {
        let result = sessions.read_result(&self.id).await.expect("it exists");
        assert_eq!(result.status, Status::Failed);
        assert_eq!(sessions.history(&Filter::default()).sessions.len(), 1);
        assert!(self.root().join(&result.report_path).exists());
        let mut stream = sessions.events(&self.id, 0).expect("it exists");
        let mut terminal = 0;
        while let Some(batch) = stream.next().await {
            terminal += batch.iter().filter(|(_, event)| event.is_terminal()).count();
        }
        assert_eq!(terminal, 1);
        result
    }
}

#[tokio::test]
async fn a_change_is_all_or_nothing_at_every_moment_at_which_a_daemon_can_die() {
    let mut moment = 0;
    loop {
        let scene = Scene::new();
        let lives = scene.propose(moment);
        let committed = scene.is_committed();
        assert!(committed || !lives);
        let expected = if committed { tree(AFTER) } else { tree(BEFORE) };
        // The second start finds nothing to do.
        for _ in 0..2 {
            let sessions = scene.open();
            assert_eq!(scene.tree(), expected, "moment {moment}");
            let result = scene.is_closed(&sessions).await;
            let modified = if committed { 4 } else { 0 };
            assert_eq!(result.files_modified.len(), modified, "moment {moment}");
        }
        if lives {
            break;
        }
        moment += 1;
    }
    assert!(moment > 20, "only {moment} moments");
}

#[tokio::test]
async fn a_recovery_may_die_as_often_as_it_likes() {
    let mut moment = 0;
    while !Scene::new().propose(moment) {
        let scene = Scene::new();
        scene.propose(moment);
        let expected = if scene.is_committed() {
            tree(AFTER)
        } else {
            tree(BEFORE)
        };
        let mut deaths = 0;
        while crash_at(deaths, || scene.open()).is_none() {
            deaths += 1;
        }
        assert_eq!(scene.tree(), expected, "moment {moment}, {deaths} deaths");
        scene.is_closed(&scene.open()).await;
        moment += 1;
    }
}

#[tokio::test]
async fn what_somebody_writes_after_a_death_is_neither_overwritten_nor_kept_quiet() {
    let mut moment = 0;
    let mut told = 0;
    while !Scene::new().propose(moment) {
        let scene = Scene::new();
        scene.propose(moment);
        fs::write(scene.root().join("b.txt"), "theirs").expect("it can be written");
        let entries = scene.entries();
        let is_open = matches!(entries.last(), Some(JournalEntry::Prepared(_)));
        let mut expected = if scene.is_committed() {
            tree(AFTER)
        } else {
            tree(BEFORE)
        };
        expected.insert("b.txt".into(), "theirs".into());
        for _ in 0..2 {
            let sessions = scene.open();
            let mut found = scene.tree();
            // Files that the daemon had not written whole when it died are its own; files that it took out of the
            // user's hands are kept until the user looks.
            found.retain(|path, text| !(path.starts_with(".tool-proposal-") && *text == "old b"));
            assert_eq!(found, expected, "moment {moment}");
            scene.is_closed(&sessions).await;
        }
        let notices = scene.entries().into_iter().filter_map(|entry| match entry {
            JournalEntry::Event {
                event: Event::Notice { message, .. },
            } => Some(message),
            _ => None,
        });
        let notices: Vec<String> = notices.filter(|message| message.contains("`b.txt`")).collect();
        assert_eq!(notices.len(), usize::from(is_open), "moment {moment}: {notices:?}");
        told += notices.len();
        moment += 1;
    }
    assert!(told > 10, "only {told}");
}

/// The change is wholly in place, and its commit did not get to the disk.
fn all_but_committed() -> Scene {
    let scene = Scene::new();
    assert!(scene.propose(u32::MAX));
    let journal = fs::read(scene.journal()).expect("it is there");
    fs::write(scene.journal(), &journal[..journal.len() - 5]).expect("it can be written");
    scene
}

fn notices(scene: &Scene) -> Vec<String> {
    let entries = scene.entries().into_iter();
    let notices = entries.filter_map(|entry| match entry {
        JournalEntry::Event {
            event: Event::Notice { message, .. },
        } => Some(message),
        _ => None,
    });
    notices.collect()
}

#[tokio::test]
async fn what_the_disk_does_not_let_a_start_take_back_is_taken_back_by_a_later_one() {
    use rustix::io::Errno;
    use tool_repository::changes::{FAILING, FailingStep};

    for failing in [
        (FailingStep::Writing, Errno::NOSPC),
        (FailingStep::Writing, Errno::ROFS),
        (FailingStep::Reading, Errno::IO),
        (FailingStep::Reading, Errno::MFILE),
    ] {
        let scene = all_but_committed();
        for _ in 0..2 {
            FAILING.set(Some(failing));
            let sessions = scene.open();
            FAILING.set(None);
            assert_eq!(scene.tree()["a.txt"], "new a", "{failing:?}");
            assert!(scene.is_closed(&sessions).await.files_modified.is_empty());
            let told = notices(&scene);
            assert_eq!(told.len(), 1, "{failing:?}: {told:?}");
            assert!(
                told[0].starts_with("An interrupted change cannot be rolled back yet: `a.txt`: "),
                "{failing:?}: {told:?}"
            );
        }
        scene.open();
        assert_eq!(scene.tree(), tree(BEFORE), "{failing:?}");
        assert_eq!(notices(&scene).len(), 1, "{failing:?}: all is as it was");
    }
}

#[tokio::test]
async fn what_a_later_session_has_changed_is_not_taken_back_with_an_older_change() {
    use tool_repository::changes::{ChangeJournal, FAILING, FailingStep, FileChange, FileState, PreparedChange};

    let scene = all_but_committed();
    FAILING.set(Some((FailingStep::Writing, rustix::io::Errno::NOSPC)));
    drop(scene.open());
    FAILING.set(None);
    // The user has the same made once more, and that is what there is.
    let id = IdSource::sorting_after([&scene.id].into_iter()).next(api::current_time());
    let mut start = fixtures::start(&id, SessionWork::Operation(Operation::Refactor));
    start.repository = scene.root().to_string_lossy().into_owned();
    start.working_directory.clone_from(&start.repository);
    let folder = tool_journal::journal::SessionFolder::new(scene.home().join("sessions").join(&id));
    let recorder = Recorder::create(folder, start).expect("it can be made");
    let state = |text: &str| FileState {
        content: text.into(),
        mode: 0o644,
    };
    let change = PreparedChange {
        id: "later".into(),
        call_id: None,
        root: scene.root(),
        files: vec![FileChange {
            path: "a.txt".into(),
            before: Some(state("old a")),
            after: Some(state("new a")),
        }],
        directories: Vec::new(),
    };
    recorder.prepare(&change).expect("it is durable");
    recorder.committed("later").expect("it is durable");
    let end = tool_journal::journal::EndRecord {
        status: Status::Complete,
        problem: None,
        report_path: String::new(),
        usage: None,
    };
    recorder.end(end, api::current_time()).expect("it is durable");
    for _ in 0..2 {
        scene.open();
        assert_eq!(scene.tree()["a.txt"], "new a");
    }
}

#[tokio::test]
async fn stored_contents_that_cannot_be_read_for_now_leave_a_change_open() {
    let scene = all_but_committed();
    let contents = scene.journal().with_file_name("contents");
    let content = contents.join(sha256_hex(b"old a"));
    let aside = contents.join("aside");
    fs::rename(&content, &aside).expect("it is there");
    fs::create_dir(&content).expect("it can be made");
    scene.open();
    assert_eq!(scene.tree(), tree(AFTER));
    fs::remove_dir(&content).expect("it is empty");
    fs::rename(&aside, &content).expect("it is there");
    scene.open();
    assert_eq!(scene.tree(), tree(BEFORE));
}

#[tokio::test]
async fn a_commit_whose_line_is_torn_did_not_happen() {
    let scene = Scene::new();
    assert!(scene.propose(u32::MAX));
    assert_eq!(scene.tree(), tree(AFTER));
    let journal = fs::read(scene.journal()).expect("it is there");
    fs::write(scene.journal(), &journal[..journal.len() - 5]).expect("it can be written");
    let sessions = scene.open();
    assert_eq!(scene.tree(), tree(BEFORE));
    assert!(scene.is_closed(&sessions).await.files_modified.is_empty());
}

#[tokio::test]
async fn an_undo_is_all_or_nothing_at_every_moment_at_which_a_daemon_can_die() {
    let mut moment = 0;
    loop {
        let scene = Scene::new();
        scene.propose(u32::MAX);
        let summary = scene.open().store.summary(&scene.id).expect("it is kept");
        let undone = {
            let sessions = scene.open();
            crash_at(moment, || sessions.take_back(&summary, &[]).expect("it can be undone"))
        };
        let sessions = scene.open();
        let found = scene.tree();
        let is_before = found == tree(BEFORE);
        assert!(is_before || found == tree(AFTER), "moment {moment}: {found:?}");
        assert!(is_before || undone.is_none());
        for summary in sessions.summaries().values() {
            assert!(summary.status != Status::Running);
        }
        // Another undo gets to the end, and back.
        match sessions.undo(&scene.id, Vec::new()).await {
            Ok(undone) => assert_eq!(undone.left, []),
            Err(problem) => assert_eq!((is_before, problem.kind.code()), (true, "nothing-to-undo")),
        }
        assert_eq!(scene.tree(), tree(BEFORE), "moment {moment}");
        let undo =
            sessions.summaries().into_values().rev().find(|summary| {
                matches!(summary.start.work, SessionWork::Undo(_)) && !summary.files_modified().is_empty()
            });
        sessions
            .undo(undo.expect("there is one").id(), Vec::new())
            .await
            .expect("it can be undone");
        assert_eq!(scene.tree(), tree(AFTER), "moment {moment}");
        if undone.is_some() {
            break;
        }
        moment += 1;
    }
    assert!(moment > 20, "only {moment} moments");
}

#[tokio::test]
async fn a_session_of_which_nobody_was_told_leaves_nothing() {
    let scene = Scene::new();
    let unborn = scene.home().join("sessions").join(&scene.id);
    fs::create_dir_all(&unborn).expect("it can be made");
    scene.open();
    assert!(!unborn.exists());
    fs::create_dir_all(&unborn).expect("it can be made");
    fs::write(unborn.join("journal.jsonl"), "").expect("it can be written");
    scene.open();
    assert!(!unborn.exists());
    // A folder with anything in it may hold a user's session.
    fs::create_dir_all(&unborn).expect("it can be made");
    fs::write(unborn.join("journal.jsonl"), "{\"seq\":1").expect("it can be written");
    scene.open();
    assert!(unborn.exists());
}

#[tokio::test]
async fn a_call_that_was_under_way_has_its_end_in_the_journal() {
    let scene = Scene::new();
    let mut start = fixtures::start(&scene.id, SessionWork::Operation(Operation::Explain));
    start.repository = scene.root().to_string_lossy().into_owned();
    start.working_directory.clone_from(&start.repository);
    let folder = tool_journal::journal::SessionFolder::new(scene.home().join("sessions").join(&scene.id));
    let recorder = Recorder::create(folder, start).expect("it can be made");
    recorder.event(Event::Skill {
        name: "run_tests".into(),
        args: json!({}),
        call_id: None,
    });
    recorder.flush().expect("it can be written");
    drop(recorder);
    let sessions = scene.open();
    let result = scene.is_closed(&sessions).await;
    let report = fs::read_to_string(scene.root().join(&result.report_path)).expect("it is there");
    assert!(report.contains("Skill `run_tests`\n\ninterrupted, "), "{report}");
    let ends = scene.entries().into_iter().filter_map(|entry| match entry {
        JournalEntry::Event {
            event: Event::SkillResult { name, verdict, .. },
        } => Some(format!("{name} {verdict}")),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["run_tests interrupted"]);
}

#[tokio::test]
async fn a_history_and_reports_that_are_gone_or_damaged_come_back_from_the_journals() {
    let say = || vec![Act::Say("Hello.")];
    let world = SessionWorld::new(vec![say(), say(), say(), say()]);
    let reports = world.repository().join("session-reports");
    let mut ids = Vec::new();
    let listed = || {
        let text = fs::read(reports.join("session_history.json")).expect("it is there");
        let history: History = serde_json::from_slice(&text).expect("it is JSON");
        let ids: Vec<String> = history.sessions.into_iter().rev().map(|entry| entry.id).collect();
        ids
    };
    for damage in ["", "whole", "gone", "{\"sessions\": [{\"id\": \"x"] {
        match damage {
            "" | "whole" => {}
            "gone" => fs::remove_dir_all(&reports).expect("it can be removed"),
            torn => fs::write(reports.join("session_history.json"), torn).expect("it can be written"),
        }
        let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
        ids.push(result.session_id);
        world.idle().await;
        assert_eq!(listed(), ids, "{damage}");
    }
    for id in &ids {
        let result = world.sessions.read_result(id).await.expect("it exists");
        let report = world.repository().join(&result.report_path);
        let text = fs::read_to_string(&report).expect("it is there again");
        assert!(text.contains("Hello."), "{text}");
        fs::write(&report, format!("{text}Mine.")).expect("it can be written");
        world.sessions.read_result(id).await.expect("it exists");
        assert!(fs::read_to_string(&report).expect("it is there").ends_with("Mine."));
    }
}

#[tokio::test]
async fn a_session_that_the_disk_does_not_take_is_answered_from_memory_and_written_later() {
    let world = SessionWorld::new(vec![vec![
        Act::Say("Before. "),
        Act::Pause(Duration::from_millis(300)),
        Act::Say("After."),
    ]]);
    let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
    let mut stream = world.sessions.events(&id, 0).expect("it exists");
    stream.next().await.expect("there are events");
    let live = world.sessions.live(&id).expect("it runs");
    let room = fixtures::fill_disk(&live.recorder);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch.into_iter().map(|(_, event)| event));
    }
    assert!(
        matches!(events.last().map(|event| &**event), Some(Event::Complete { .. })),
        "{events:?}"
    );
    let told = |event: &Arc<Event>| match &**event {
        Event::Notice { code, .. } => *code == Some(NoticeKind::Error(ErrorKind::JournalFailed)),
        _ => false,
    };
    assert_eq!(events.iter().filter(|event| told(event)).count(), 1, "{events:?}");
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert!(result.output.contains("After."), "{}", result.output);
    let late = world.events(&id).await;
    assert!(matches!(late.last(), Some(Event::Complete { .. })));
    // An end of the daemon would lose it.
    assert_eq!(world.sessions.running(), 1);
    assert!(!world.sessions.is_idle() && !world.sessions.close_if_idle());
    drop(room);
    while !world.sessions.is_idle() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.sessions.running(), 0);
    assert_eq!(world.events(&id).await, late);
    let again = open_sessions(&world.home(), FakeEngine::new(vec![]), None).expect("it can be opened");
    assert_eq!(
        again.read_result(&id).await.expect("it exists").status,
        Status::Complete
    );
}

/// A way in which a session is interrupted from outside.
#[derive(Debug, Clone)]
enum Blow {
    Cancel(u64),
    Stop(u64),
    Die(u64),
}

fn blows() -> impl Strategy<Value = Vec<Blow>> {
    let blow = prop_oneof![
        (0..40_u64).prop_map(Blow::Cancel),
        (0..40_u64).prop_map(Blow::Stop),
        (0..40_u64).prop_map(Blow::Die),
    ];
    prop::collection::vec(blow, 0..4)
}

fn script() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        Just(Act::Say("word ")),
        (0..20_u64).prop_map(|ms| Act::Pause(Duration::from_millis(ms))),
        Just(Act::Call("read_file", json!({"path": "src/main.py"}))),
        Just(Act::Call("wait", json!({}))),
        Just(Act::Call("panic", json!({}))),
        Just(Act::Hang),
        Just(Act::Fail(Problem::new(ErrorKind::RateLimited, "as it was told"))),
        Just(Act::Panic),
    ];
    prop::collection::vec(act, 0..5)
}

/// One session that ends in whatever way comes first, while a reader follows it, also across the death of its daemon.
async fn one_end(script: Vec<Act>, blows: Vec<Blow>) {
    let hangs = script.iter().any(|act| matches!(act, Act::Hang | Act::Call("wait", _)));
    let world = Arc::new(SessionWorld::new(vec![script, vec![Act::Say("End.")]]));
    let mut request = world.request(Operation::Explain, ".");
    request.budget.timeout_seconds = hangs.then_some(1);
    let id = world.start(request).await.session_id;
    // The ends that the reader has seen, and the number of the last event, which belong together.
    let seen = Arc::new(Mutex::new((0, 0)));
    let reader = {
        let mut stream = world.sessions.events(&id, 0).expect("it exists");
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(batch) = stream.next().await {
                let ends = batch.iter().filter(|(_, event)| event.is_terminal()).count();
                let mut seen = seen.lock().expect("not poisoned");
                *seen = (seen.0 + ends, batch.last().map_or(0, |(seq, _)| *seq));
            }
        })
    };
    let mut died = false;
    for blow in blows {
        match blow {
            Blow::Cancel(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                let _ = world.sessions.cancel(&id);
            }
            Blow::Stop(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                world.sessions.drain().await;
            }
            Blow::Die(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                died = true;
                break;
            }
        }
    }
    let running = world.sessions.live(&id);
    if let Some(live) = running.filter(|_| died) {
        // Nothing of it goes on: its task is gone, and what it still says comes too late. The reader goes first: here
        // the dead one could still tell it of an end that reached no disk.
        reader.abort();
        let _ = reader.await;
        live.recorder.die();
        let (ends, last_seen) = *seen.lock().expect("not poisoned");
        let sessions = open_sessions(&world.home(), FakeEngine::new(vec![]), None).expect("it can be opened");
        let mut stream = sessions.events(&id, last_seen).expect("it exists");
        let mut after = 0;
        while let Some(batch) = stream.next().await {
            after += batch.iter().filter(|(_, event)| event.is_terminal()).count();
        }
        assert_eq!(ends + after, 1, "one end for the reader that came back");
        let result = sessions.read_result(&id).await.expect("it exists");
        assert_ne!(result.status, Status::Running);
        // The threads of this process would wait for it.
        live.cancel.cancel();
    } else {
        reader.await.expect("no panic");
        assert_eq!(seen.lock().expect("not poisoned").0, 1);
        world.idle().await;
    }
    let entries = tool_journal::journal::parse(
        &fs::read(world.home().join("sessions").join(&id).join("journal.jsonl")).expect("it is there"),
    );
    let ends = entries
        .lines
        .iter()
        .filter(|line| matches!(line.entry, JournalEntry::Ended(_)))
        .count();
    assert_eq!((ends, entries.damaged), (1, 0));
    assert!(matches!(
        entries.lines.last().map(|line| &line.entry),
        Some(JournalEntry::Ended(_))
    ));
    let summary = SessionSummary::from_lines(&entries.lines).expect("it begins as a session");
    assert!(summary.open_changes.is_empty());
}

proptest! {
    #![proptest_config(Config { cases: 24, max_shrink_iters: 20, ..Config::default() })]

    #[test]
    fn every_session_has_exactly_one_end(script in script(), blows in blows()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("it can be made").block_on(one_end(script, blows));
    }
}

#[tokio::test]
async fn a_session_that_cannot_write_its_journal_does_not_begin() {
    let world = SessionWorld::new(vec![vec![Act::Say("Hello.")]]);
    let folder = world.home().join("sessions");
    fs::remove_dir(&folder).expect("it is empty");
    fs::write(&folder, "no folder").expect("it can be written");
    let problem = world.refused(world.request(Operation::Explain, ".")).await;
    assert_eq!(problem.kind, ErrorKind::JournalFailed);
    assert!(world.sessions.is_idle());
    fs::remove_file(&folder).expect("it can be removed");
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    assert!(result.output.starts_with("Hello."), "{result:?}");
    assert_eq!(fs::read_dir(&folder).expect("it is a folder").count(), 1);
}

#[test]
fn a_commit_that_a_daemon_left_half_done_is_settled_at_the_next_start() {
    let scene = Scene::new();
    let git = scene.root().join(".git");
    fs::create_dir_all(git.join("refs/heads")).expect("it can be made");
    fs::write(git.join("refs/heads/main"), "new\n").expect("it can be written");
    fs::write(git.join("index"), "old").expect("it can be written");
    fs::write(git.join("index.lock"), "tool-p-index\n").expect("it can be written");
    fs::write(git.join("tool-p-index.new.lock"), "new").expect("it can be written");
    let mut start = fixtures::start(&scene.id, SessionWork::Operation(Operation::Refactor));
    start.repository = scene.root().to_string_lossy().into_owned();
    start.working_directory.clone_from(&start.repository);
    let folder = tool_journal::journal::SessionFolder::new(scene.home().join("sessions").join(&scene.id));
    let recorder = Recorder::create(folder, start).expect("it can be made");
    let publication = CommitInProgress {
        id: "p".into(),
        git: git.clone(),
        common: git.clone(),
        branch: Some("main".into()),
        commit: "new".into(),
    };
    recorder.publishing(&publication).expect("it goes on");
    drop(recorder);
    drop(scene.open());
    assert_eq!(fs::read_to_string(git.join("index")).expect("it is there"), "new");
    assert!(!git.join("index.lock").exists());
    let told = scene.entries().into_iter().any(|entry| {
        matches!(entry, JournalEntry::Event { event: Event::Notice { message, .. } }
            if message == "The interrupted commit new was finished.")
    });
    assert!(told, "{:?}", scene.entries());
    // And once only.
    let count = scene.entries().len();
    drop(scene.open());
    assert_eq!(scene.entries().len(), count);
}
