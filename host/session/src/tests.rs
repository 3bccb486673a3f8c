//! Sessions from request to end, with a scripted model and scripted skills in place of the real ones.

mod answers;
mod changing;
mod dying;
pub(crate) mod fakes;
pub(crate) mod world;

use std::fs;
use std::task::Poll;

use serde_json::json;

use super::plan::{OperationTask, SessionTask};
use super::request::open_repository;
use super::*;
pub(crate) use fakes::{Act, FakeEngine, test_report};
use tool_config::{ProviderApi, ProviderSettings, ProviderSummary, ServerSettings, Settings};
use tool_core::api::{
    ApprovalScope, ErrorKind, Event, ExecuteRequest, Operation, PolicyRequest, ProviderName, SkillCallRequest,
};
use tool_journal::journal::SessionWork;
use tool_provider::{Message, ProviderEvent, StopReason, Usage};
use tool_repository::changes::{FileChange, FileState, PreparedChange};
use tool_skill::policy::{EffectCause, Policy};
pub(crate) use world::{SessionWorld, open_sessions};

impl SessionWorld {
    pub(crate) fn request(&self, operation: Operation, target: &str) -> ExecuteRequest {
        ExecuteRequest {
            operation,
            target: Some(target.to_owned()),
            repo_path: self.repository().to_string_lossy().into_owned(),
            provider: None,
            task: None,
            focus: None,
            working_directory: None,
            model: None,
            interactive: false,
            ask: Vec::new(),
            is_of_program: false,
            policy: PolicyRequest::default(),
            overrides: Default::default(),
            attached: false,
            budget: Default::default(),
            selection: Default::default(),
            verification: Default::default(),
            no_tests: false,
            no_checks: false,
            preview: false,
            full: false,
        }
    }

    pub(crate) async fn start(&self, request: ExecuteRequest) -> SessionStart {
        let started = self.sessions.start(request, settings(), BTreeMap::new()).await;
        started.expect("the request is right")
    }

    async fn refused(&self, request: ExecuteRequest) -> Problem {
        let started = self.sessions.start(request, settings(), BTreeMap::new()).await;
        started.expect_err("the request is wrong")
    }

    async fn events(&self, id: &str) -> Vec<Event> {
        let mut stream = self.sessions.events(id, 0).expect("it exists");
        let mut events = Vec::new();
        while let Some(batch) = stream.next().await {
            events.extend(batch.into_iter().map(|(_, event)| (*event).clone()));
        }
        events
    }

    /// Waits until nothing runs: clients see the end of a session before it is put away.
    pub(crate) async fn idle(&self) {
        while !self.sessions.lock().live.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) async fn run(&self, request: ExecuteRequest) -> (SessionResult, Vec<Event>) {
        let id = self.start(request).await.session_id;
        let events = self.events(&id).await;
        assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
        assert!(events.last().is_some_and(Event::is_terminal));
        (self.sessions.read_result(&id).await.expect("it exists"), events)
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        provider: ProviderSettings::new(
            ProviderName::Local,
            ProviderApi::Chat,
            "http://127.0.0.1:1/v1",
            "some-model",
        ),
        providers: vec![ProviderSummary {
            name: ProviderName::Local,
            enabled: true,
            model: Some("some-model".into()),
        }],
        vault: None,
        server: ServerSettings::default(),
        policy: PolicySettings::default(),
        reports: tool_config::ReportsPlace::default(),
        log_level: "INFO".into(),
    }
}

/// The host's text below an explanation that cites nothing.
const NO_CITATIONS: &str = "\n\n---\n\nNo citations: this answer names no place in the repository by which it could \
                            be checked.\n";

fn kinds(events: &[Event]) -> Vec<String> {
    let kind = |event: &Event| {
        serde_json::to_value(event).expect("it is JSON")["type"]
            .as_str()
            .map(str::to_owned)
    };
    events.iter().filter_map(kind).collect()
}

#[tokio::test]
async fn a_conversation_is_free_as_soon_as_the_end_of_its_turn_is_told() {
    let world = SessionWorld::new(vec![vec![Act::Say("It prints.")]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    world.idle().await;
    let claim = || {
        let mut place = world.sessions.take_place().expect("few run");
        place.claim("c").map(|()| place)
    };
    let recorder = {
        let (summary, sessions) = (world.sessions.store.summary(&result.session_id), &world.sessions);
        let mut start = summary.expect("it has ended").start;
        start.session_id = sessions.ids.next(api::current_time());
        sessions.store.begin(start).expect("it can be written")
    };
    let mut first = claim().expect("no turn runs");
    let first = first.take_turn(&recorder);
    assert_eq!(
        claim().err().map(|problem| problem.kind),
        Some(ErrorKind::SessionRunning)
    );
    let room = fixtures::fill_disk(&recorder);
    assert!(!world.sessions.store.end(&recorder, SessionOutcome::complete()));
    let refused = claim().err().map(|problem| problem.kind);
    assert_eq!(
        refused,
        Some(ErrorKind::SessionRunning),
        "the next turn could not read it"
    );
    drop(room);
    assert!(world.sessions.store.write_waiting(&recorder));
    let second = claim().expect("the first turn has ended, and its task has not");
    drop(first);
    let refused = claim().err().map(|problem| problem.kind);
    assert_eq!(
        refused,
        Some(ErrorKind::SessionRunning),
        "the claim of the second turn stays"
    );
    drop(second);
    assert!(claim().is_ok());
}

#[tokio::test]
async fn an_operation_runs_to_its_end_and_leaves_everything_behind() {
    let call = Act::Call("read_file", json!({"path": "src/main.py"}));
    let world = SessionWorld::new(vec![vec![Act::Say("Looking. "), call], vec![Act::Say("It prints.")]]);
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    let closed = format!("Looking. \n\nIt prints.{NO_CITATIONS}");
    assert_eq!((result.status, result.output), (Status::Complete, closed));
    let kinds = kinds(&events);
    let position = |kind: &str| kinds.iter().position(|other| other == kind).expect(kind);
    assert!(position("selection") < position("token") && position("token") < position("skill"));
    assert!(position("skill") < position("skill_result") && position("skill_result") < position("complete"));
    let report = fs::read_to_string(world.repository().join(&result.report_path)).expect("it is there");
    for part in [
        "Looking.",
        "It prints.",
        "Skill `read_file`",
        "1  print()",
        "| Status | complete |",
        "README.md",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let latest = world.repository().join("session-reports/session_latest.md");
    assert_eq!(fs::read_to_string(latest).expect("it is there"), report);
    let history = world.sessions.history(&Filter::default());
    assert_eq!(history.sessions.len(), 1);
    assert_eq!(history.sessions[0].provider, "some-model");
    assert_eq!(world.sessions.tasks(&Filter::default())[0].target, ".");
    world.idle().await;
}

#[tokio::test]
async fn a_missing_target_fails_the_session_in_the_specifications_words() {
    let world = SessionWorld::new(vec![]);
    let (result, events) = world.run(world.request(Operation::Explain, "nosuchfile.py")).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!(
        result.error.expect("there is an error").message,
        "File not found: nosuchfile.py"
    );
    assert!(matches!(&events[..], [Event::Error { message, .. }] if message == "File not found: nosuchfile.py"));
    assert!(
        world.repository().join(&result.report_path).exists(),
        "a failed session has a report too"
    );
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_at_once() {
    let world = SessionWorld::new(vec![]);
    let request = || world.request(Operation::Explain, ".");
    let with = |change: fn(&mut ExecuteRequest)| {
        let mut changed = request();
        change(&mut changed);
        changed
    };
    let mut answers = Vec::new();
    for wrong in [
        with(|request| request.repo_path = "relative".into()),
        with(|request| request.repo_path = "/nonexistent/place".into()),
        with(|request| request.repo_path = "/".into()),
        with(|request| request.working_directory = Some("/nonexistent/place".into())),
        with(|request| request.provider = Some("router".into())),
        with(|request| request.provider = Some("other".into())),
        with(|request| request.policy.allow = vec!["root".into()]),
        with(|request| (request.operation, request.target) = (Operation::TestGen, None)),
        with(|request| request.budget.max_steps = Some(0)),
        with(|request| request.budget.max_tokens = Some(0)),
        with(|request| request.budget.timeout_seconds = Some(0)),
    ] {
        let problem = world.refused(wrong).await;
        answers.push(format!("{}: {}", problem.kind, problem.message));
    }
    insta::assert_snapshot!(answers.join("\n"), @"
    invalid-request: `repo_path` must be an absolute path: `relative`
    invalid-repository: `/nonexistent/place` cannot be opened as a repository
    refused-repository: `/` is the whole machine and is refused as a repository
    invalid-request: `working_directory` does not exist: `/nonexistent/place`
    provider-mismatch: The provider `router` is not enabled: `local` is
    invalid-request: Unknown provider `other`: expected hosted, local or router
    invalid-policy: Unknown effect `root`
    invalid-request: test-gen needs a `target`: a source file
    invalid-request: `budget.max_steps` must be at least 1
    invalid-request: `budget.max_tokens` must be at least 1
    invalid-request: `budget.timeout_seconds` must be at least 1
    ");
    assert!(world.sessions.tasks(&Filter::default()).is_empty());
    assert!(!world.repository().join("session-reports").exists());
}

#[tokio::test]
async fn a_cancelled_session_ends_at_once() {
    for script in [vec![Act::Say("x"), Act::Hang], vec![Act::Call("wait", json!({}))]] {
        let world = SessionWorld::new(vec![script]);
        let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
        let mut stream = world.sessions.events(&id, 0).expect("it exists");
        stream.next().await.expect("it says something");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let clock = std::time::Instant::now();
        world.sessions.cancel(&id).expect("it runs");
        while stream.next().await.is_some() {}
        assert!(clock.elapsed() < Duration::from_secs(15), "{:?}", clock.elapsed());
        // A client that has seen the end finds it in every view at once.
        let cancelled = Filter {
            status: Some(Status::Cancelled),
            ..Filter::default()
        };
        assert_eq!(world.sessions.history(&cancelled).sessions.len(), 1);
        assert_eq!(world.sessions.tasks(&cancelled).len(), 1);
        let result = world.sessions.read_result(&id).await.expect("it exists");
        assert_eq!(result.status, Status::Cancelled);
        let problem = result.error.expect("there is an error");
        assert_eq!(
            (problem.kind.code(), problem.message.as_str()),
            ("cancelled", "The session was cancelled")
        );
    }
}

#[tokio::test]
async fn an_attached_session_ends_with_its_last_stream_and_no_other_does() {
    let world = SessionWorld::new(vec![vec![Act::Say("x"), Act::Hang], vec![Act::Say("y"), Act::Hang]]);
    let mut request = world.request(Operation::Explain, ".");
    request.attached = true;
    let attached = world.start(request).await.session_id;
    let mut stream = world.sessions.events(&attached, 0).expect("it exists");
    stream.next().await.expect("it says something");
    let detached = world.start(world.request(Operation::Explain, ".")).await.session_id;
    drop(world.sessions.events(&detached, 0).expect("it exists"));
    drop(stream);
    let grace = Duration::from_millis(ATTACHED_GRACE_MS);
    tokio::time::sleep(grace / 2).await;
    assert_eq!(world.sessions.running(), 2, "a client may come back");
    tokio::time::sleep(grace).await;
    let status = |id: String| {
        let world = &world;
        async move { world.sessions.read_result(&id).await.expect("it exists").status }
    };
    assert_eq!(status(attached).await, Status::Cancelled);
    assert_eq!(status(detached).await, Status::Running);
}

#[tokio::test]
async fn a_refactor_changes_files_and_says_which() {
    let write = Act::Call("write_file", json!({"path": "src/main.py", "content": "print(1)\n"}));
    let world = SessionWorld::new(vec![vec![write], vec![Act::Say("Done.")]]);
    let (result, _) = world.run(world.request(Operation::Refactor, "src")).await;
    assert_eq!(result.status, Status::Complete);
    assert_eq!(result.files_modified, ["src/main.py"]);
    assert_eq!(world.sessions.history(&Filter::default()).sessions[0].files_modified, 1);
    let report = fs::read_to_string(world.repository().join(&result.report_path)).expect("it is there");
    assert!(report.contains("| src/main.py | modified | 1 | 1 |"), "{report}");
}

#[tokio::test]
async fn a_refused_write_fails_a_refactor_but_not_an_explain() {
    let script = || {
        let write = Act::Call("write_file", json!({"path": "src/main.py", "content": ""}));
        vec![vec![write], vec![Act::Say("Done.")]]
    };
    let world = SessionWorld::new(script());
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!(result.status, Status::Complete);
    let notice = |event: &Event| matches!(event, Event::Notice { message, .. } if message.contains("was refused"));
    assert!(events.iter().any(notice), "the user is told");
    let world = SessionWorld::new(script());
    let mut request = world.request(Operation::Refactor, ".");
    request.policy.deny = vec!["write-repository".into()];
    let (result, _) = world.run(request).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!(result.error.expect("there is an error").kind, ErrorKind::Denied);
    assert_eq!(
        result.output,
        "Done.\n\n---\n\nNothing was changed: every file is as it was before this session, whatever the answer above \
         says.\n",
        "what was said is kept"
    );
}

#[tokio::test]
async fn an_approval_is_answered_with_the_starters_secret() {
    let world = SessionWorld::new(vec![vec![Act::Call("commit", json!({}))], vec![Act::Say("Done.")]]);
    let mut request = world.request(Operation::Refactor, ".");
    request.interactive = true;
    let start = world.start(request).await;
    let mut stream = world.sessions.events(&start.session_id, 0).expect("it exists");
    let mut verdicts = Vec::new();
    while let Some(batch) = stream.next().await {
        for (_, event) in batch {
            match &*event {
                Event::Approval { id, .. } => {
                    let mut answer = ApprovalAnswer {
                        secret: "guess".into(),
                        approve: true,
                        digest: None,
                        scope: ApprovalScope::Call,
                    };
                    assert!(world.sessions.answer(id, &answer).is_err());
                    answer.secret.clone_from(&start.approval_secret);
                    world.sessions.answer(id, &answer).expect("the secret is right");
                }
                Event::SkillResult { verdict, .. } => verdicts.push(verdict.clone()),
                _ => {}
            }
        }
    }
    assert_eq!(verdicts, ["ok"]);
}

#[tokio::test]
async fn failures_of_the_provider_and_of_ourselves_end_a_session_truthfully() {
    let problem = Problem::new(ErrorKind::RateLimited, "Rate limit exceeded: 429 Too Many Requests");
    let world = SessionWorld::new(vec![vec![Act::Say("Some "), Act::Fail(problem.clone())]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!((result.status, result.error), (Status::Failed, Some(problem)));
    assert_eq!(result.output, "Some ");

    let world = SessionWorld::new(vec![vec![Act::Panic]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    let message = result.error.expect("there is an error").message;
    assert_eq!(message, "Operation failed: explain encountered an error");

    let world = SessionWorld::new(vec![vec![Act::Call("panic", json!({}))], vec![Act::Say("Still here.")]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    let closed = format!("Still here.{NO_CITATIONS}");
    assert_eq!((result.status, result.output), (Status::Complete, closed));
}

#[tokio::test]
async fn an_answer_reaches_the_user_where_no_report_can_be_written() {
    let world = SessionWorld::new(vec![vec![Act::Say("The answer.")]]);
    fs::write(world.repository().join("session-reports"), "a file").expect("it can be written");
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    let closed = format!("The answer.{NO_CITATIONS}");
    assert_eq!((result.status, result.output), (Status::Complete, closed));
    assert_eq!(result.report_path, "");
    let told =
        |event: &Event| matches!(event, Event::Notice { message, .. } if message.contains("could not be written"));
    assert!(events.iter().any(told));
}

#[tokio::test]
async fn what_a_dead_daemon_left_is_rolled_back_and_closed_once() {
    let world = SessionWorld::new(vec![]);
    let repository = world.repository();
    let place = repository.join("src/main.py");
    let id = world.sessions.ids.next(api::current_time());
    {
        let mut start = fixtures::start(&id, SessionWork::Operation(Operation::Refactor));
        start.repository = repository.to_string_lossy().into_owned();
        start.working_directory.clone_from(&start.repository);
        let folder = tool_journal::journal::SessionFolder::new(world.home().join("sessions").join(&id));
        let recorder = Recorder::create(folder, start).expect("it can be made");
        recorder.text("Half an ans");
        let state = |content: &str| {
            Some(FileState {
                content: content.into(),
                mode: 0o644,
            })
        };
        let file = FileChange {
            path: "src/main.py".into(),
            before: state("print()\n"),
            after: state("changed\n"),
        };
        let change = PreparedChange {
            id: "c".into(),
            call_id: None,
            root: repository.clone(),
            files: vec![file],
            directories: Vec::new(),
        };
        tool_repository::changes::ChangeJournal::prepare(&*recorder, &change).expect("it is durable");
        fs::write(&place, "changed\n").expect("it can be written");
    }
    for _ in 0..2 {
        let sessions = open_sessions(&world.home(), FakeEngine::new(vec![]), None).expect("it can be opened");
        assert_eq!(fs::read_to_string(&place).expect("it is there"), "print()\n");
        let result = sessions.read_result(&id).await.expect("it exists");
        assert_eq!((result.status, result.output.as_str()), (Status::Failed, "Half an ans"));
        assert_eq!(result.error.expect("there is an error").kind, ErrorKind::Interrupted);
        assert!(result.files_modified.is_empty());
        assert!(repository.join(&result.report_path).exists());
        assert_eq!(sessions.history(&Filter::default()).sessions.len(), 1);
        let mut stream = sessions.events(&id, 0).expect("it exists");
        let mut terminal = 0;
        while let Some(batch) = stream.next().await {
            terminal += batch.iter().filter(|(_, event)| event.is_terminal()).count();
        }
        assert_eq!(terminal, 1);
    }
}

#[tokio::test]
async fn a_stopping_daemon_ends_its_sessions_and_starts_no_more() {
    let world = SessionWorld::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
    world.sessions.drain().await;
    let result = world.sessions.read_result(&id).await.expect("it exists");
    assert_eq!(result.status, Status::Cancelled);
    let problem = result.error.expect("there is an error");
    assert_eq!(problem.message, "The session was cancelled: the backend is stopping");
    assert_eq!(
        problem.hint.as_deref(),
        Some("run the operation again; that starts the backend")
    );
    let problem = world.refused(world.request(Operation::Explain, ".")).await;
    assert_eq!(problem.kind, ErrorKind::Stopping);
}

/// The request had its place before the stop, and its session is there after it.
#[tokio::test]
async fn a_session_that_begins_while_the_daemon_stops_is_cancelled_and_says_so() {
    let world = SessionWorld::new(vec![vec![Act::Say("x"), Act::Hang]]);
    let place = world.sessions.take_place().expect("nothing runs");
    let starting = world.start(world.request(Operation::Explain, "."));
    tokio::pin!(starting);
    // It has its place; how far it has come else is the machine's business.
    let begun = futures_util::poll!(&mut starting);
    let started = async {
        match begun {
            Poll::Ready(started) => started,
            Poll::Pending => starting.await,
        }
    };
    let late = async {
        world.sessions.closed().await;
        drop(place);
    };
    let (started, (), ()) = tokio::join!(started, world.sessions.drain(), late);
    let result = world
        .sessions
        .read_result(&started.session_id)
        .await
        .expect("it exists");
    assert_eq!(result.status, Status::Cancelled);
    let problem = result.error.expect("there is an error");
    assert_eq!(problem.message, "The session was cancelled: the backend is stopping");
    assert!(world.sessions.is_idle());
}

#[tokio::test]
async fn an_idle_daemon_is_closed_in_one_step_and_a_busy_one_is_not() {
    let world = SessionWorld::new(vec![vec![Act::Say("x")]]);
    {
        let place = world.sessions.take_place().expect("nothing runs");
        assert!(!world.sessions.close_if_idle(), "a session begins");
        let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
        drop(place);
        assert!(!world.sessions.close_if_idle(), "a session runs");
        world.events(&id).await;
    }
    while !world.sessions.is_idle() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let under_way = world.sessions.begin().expect("it takes work");
    assert!(!world.sessions.close_if_idle(), "an undo, or a scan");
    drop(under_way);
    assert!(world.sessions.close_if_idle());
    world.sessions.closed().await;
    let problem = world.refused(world.request(Operation::Explain, ".")).await;
    assert_eq!(problem.kind, ErrorKind::Stopping);
    assert!(world.sessions.close_if_idle(), "who asks later is told the same");
}

#[tokio::test]
async fn a_call_of_one_skill_is_a_session_that_no_list_shows() {
    let world = SessionWorld::new(vec![]);
    let call = |name: &'static str, allow: &[&str]| {
        let request = SkillCallRequest {
            arguments: json!({"path": "a.py", "content": "x"}),
            repo_path: world.repository().to_string_lossy().into_owned(),
            interactive: false,
            is_of_program: false,
            policy: PolicyRequest {
                allow: allow.iter().map(|&effect| effect.to_owned()).collect(),
                ..PolicyRequest::default()
            },
            overrides: Default::default(),
        };
        let sessions = &world.sessions;
        async move {
            sessions
                .call_skill(name, request, PolicySettings::default(), BTreeMap::new())
                .await
        }
    };
    let id = call("read_file", &[]).await.expect("the request is right").session_id;
    let events = world.events(&id).await;
    assert_eq!(kinds(&events), ["skill", "skill_result", "outcome", "complete"]);
    let id = call("write_file", &[]).await.expect("the request is right").session_id;
    let events = world.events(&id).await;
    assert!(
        matches!(
            events.last(),
            Some(Event::Error {
                code: ErrorKind::Denied,
                ..
            })
        ),
        "{events:?}"
    );
    let id = call("write_file", &["write-repository"])
        .await
        .expect("the request is right")
        .session_id;
    assert!(matches!(world.events(&id).await.last(), Some(Event::Complete { .. })));
    assert!(world.repository().join("a.py").exists());
    let unknown = call("reed_file", &[]).await.expect_err("there is none");
    assert_eq!(
        (unknown.kind.code(), unknown.hint.as_deref()),
        ("not-found", Some("did you mean `read_file`?"))
    );
    // The name comes before the policy.
    let beside = call("reed_file", &["no-effect"]).await.expect_err("there is none");
    assert_eq!(beside.kind.code(), "not-found");
    assert!(world.sessions.tasks(&Filter::default()).is_empty());
    assert!(world.sessions.history(&Filter::default()).sessions.is_empty());
    assert!(!world.repository().join("session-reports").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_and_readers_that_come_and_go_lose_and_double_nothing() {
    let pieces = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut round = Vec::new();
    for piece in pieces {
        round.extend([Act::Say(piece), Act::Pause(Duration::from_millis(7))]);
    }
    let world = Arc::new(SessionWorld::new(vec![round; 24]));
    let mut readers = Vec::new();
    for _ in 0..24 {
        let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
        for reader in 0..3_u64 {
            let (world, id) = (Arc::clone(&world), id.clone());
            readers.push(tokio::spawn(async move {
                let (mut after, mut seen, mut terminal) = (0, Vec::new(), 0);
                while terminal == 0 {
                    let mut stream = world.sessions.events(&id, after).expect("it exists");
                    for _ in 0..=reader {
                        for (seq, event) in stream.next().await.unwrap_or_default() {
                            after = seq;
                            terminal += usize::from(event.is_terminal());
                            seen.push((seq, event));
                        }
                    }
                }
                seen
            }));
        }
    }
    for reader in readers {
        let seen = reader.await.expect("it ends");
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let text: String = seen.iter().map(|(_, event)| history::output_of(event)).collect();
        assert_eq!(text, pieces.concat() + NO_CITATIONS);
    }
    world.idle().await;
}
