//! The bounds of sessions, each reached.

use std::fs;

use super::*;
use crate::api::SkillCallRequest;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_after_the_last_that_fits_is_told_so() {
    let world = World::new(vec![vec![Act::Hang]; limits::SESSIONS_RUNNING_MAX]);
    let mut ids = Vec::new();
    for _ in 0..limits::SESSIONS_RUNNING_MAX {
        ids.push(world.start(world.request(Operation::Explain, ".")).await.session_id);
    }
    let problem = world.refused(world.request(Operation::Explain, ".")).await;
    assert_eq!(
        (problem.code.as_str(), problem.message.as_str()),
        ("busy", "256 sessions are under way")
    );
    for id in &ids {
        world.sessions.cancel(id).expect("it runs");
    }
    world.idle().await;
    // All of them are kept, though there are more than a hundred: whoever followed one may still come back.
    for id in &ids {
        assert!(world.sessions.events(id, 0).is_ok());
    }
    assert_eq!(
        world.sessions.history(&Filter::default()).sessions.len(),
        limits::SESSIONS_KEPT
    );
}

#[tokio::test]
async fn budgets_that_no_session_reaches_are_refused() {
    let world = World::new(vec![]);
    for (budget, message) in [
        (
            BudgetRequest {
                timeout_seconds: Some(limits::SESSION_SECONDS_MAX + 1),
                ..BudgetRequest::default()
            },
            "`budget.timeout_seconds` must be at most 86400",
        ),
        (
            BudgetRequest {
                max_tokens: Some(limits::SESSION_TOKENS_MAX + 1),
                ..BudgetRequest::default()
            },
            "`budget.max_tokens` must be at most 1000000000",
        ),
    ] {
        let mut request = world.request(Operation::Explain, ".");
        request.budget = budget;
        assert_eq!(world.refused(request).await.message, message);
    }
}

/// A call that heeds nothing: the session ends without it, and its journal says what became of it.
#[tokio::test]
async fn a_call_that_ignores_its_cancellation_does_not_keep_its_session() {
    let world = World::new(vec![vec![Act::Call("deaf", json!({}))]]);
    let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
    let mut stream = world.sessions.events(&id, 0).expect("it exists");
    let is_begun = |(_, event): &Numbered| matches!(&**event, Event::Skill { .. });
    while !stream.next().await.is_some_and(|batch| batch.iter().any(is_begun)) {}
    let clock = std::time::Instant::now();
    world.sessions.cancel(&id).expect("it runs");
    let events = world.events(&id).await;
    let grace = Duration::from_millis(limits::CANCEL_GRACE_MS);
    assert!(
        clock.elapsed() >= grace && clock.elapsed() < 2 * grace,
        "{:?}",
        clock.elapsed()
    );
    assert!(matches!(events.last(), Some(Event::Error { code, .. }) if code == "cancelled"));
    let verdicts = events.iter().filter_map(|event| match event {
        Event::SkillResult { name, verdict, .. } => Some(format!("{name} {verdict}")),
        _ => None,
    });
    assert_eq!(verdicts.collect::<Vec<_>>(), ["deaf cancelled"]);
}

#[tokio::test]
async fn a_call_waits_for_a_thread_and_its_cancellation_does_not() {
    let world = World::new(vec![vec![Act::Call("read_file", json!({}))], vec![Act::Say("Done.")]]);
    assert_eq!(
        world.sessions.calls.available_permits(),
        limits::SKILL_CALLS_RUNNING_MAX
    );
    let others = world
        .sessions
        .calls
        .acquire_many(limits::SKILL_CALLS_RUNNING_MAX as u32)
        .await;
    let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let result = world.sessions.result(&id).await.expect("it exists");
    assert_eq!(result.status, Status::Running, "it waits for its turn");
    let clock = std::time::Instant::now();
    world.sessions.cancel(&id).expect("it runs");
    world.events(&id).await;
    assert!(clock.elapsed() < Duration::from_millis(500), "{:?}", clock.elapsed());
    drop(others);
}

/// What a call says is cut, each time to what its reader bears: a stream's, the journal's, the report's.
#[tokio::test]
async fn long_arguments_are_cut_for_streams_journals_and_reports() {
    let long = "x".repeat(2 * limits::JOURNAL_TOOL_BYTES_MAX);
    let deep = (0..2 * limits::EVENT_DEPTH_MAX).fold(json!("deep"), |value, _| json!([value]));
    let call = Act::Call("read_file", json!({"path": long, "deep": deep}));
    let world = World::new(vec![vec![call], vec![Act::Say("Done.")]]);
    let (result, events) = world.run(world.request(Operation::Explain, ".")).await;
    world.idle().await;
    let args = events.iter().find_map(|event| match event {
        Event::Skill { args, .. } => Some(args.clone()),
        _ => None,
    });
    let args = args.expect("there was a call");
    let shown = args["path"].as_str().expect("text");
    assert!(shown.starts_with(&"x".repeat(limits::EVENT_ARGUMENT_BYTES_MAX)));
    assert!(
        shown.ends_with("… (126976 bytes more)"),
        "{}",
        &shown[shown.len() - 40..]
    );
    assert!(
        args["deep"].to_string().len() < 2 * limits::EVENT_DEPTH_MAX + 10,
        "{}",
        args["deep"]
    );
    let folder = world.sessions.store.folder(&result.session_id);
    let tool = folder
        .read()
        .expect("it can be read")
        .lines
        .into_iter()
        .find_map(|line| match line.entry {
            journal::Entry::Tool(tool) => Some(tool),
            _ => None,
        });
    let kept = tool.expect("there was a call").arguments.len();
    assert!(
        (limits::JOURNAL_TOOL_BYTES_MAX..limits::JOURNAL_TOOL_BYTES_MAX + 40).contains(&kept),
        "{kept}"
    );
    let report = fs::read_to_string(world.repository().join(&result.report_path)).expect("it is there");
    let longest = report.split(|char| char != 'x').map(str::len).max();
    assert!(
        longest.is_some_and(|longest| longest <= limits::REPORT_RESULT_BYTES_MAX),
        "{longest:?}"
    );
}

#[tokio::test]
async fn only_so_many_sessions_wait_for_a_disk_in_memory() {
    let count = limits::SESSIONS_UNWRITTEN_MAX + 2;
    let world = World::new(vec![vec![Act::Say("Begun."), Act::Hang]; count]);
    let mut rooms = Vec::new();
    for _ in 0..count {
        let id = world.start(world.request(Operation::Explain, ".")).await.session_id;
        world
            .sessions
            .events(&id, 0)
            .expect("it exists")
            .next()
            .await
            .expect("it has begun");
        let live = world.sessions.live(&id).expect("it runs");
        rooms.push(live.recorder.fill_disk());
        world.sessions.cancel(&id).expect("it runs");
    }
    world.idle().await;
    assert_eq!(world.sessions.unwritten().len(), limits::SESSIONS_UNWRITTEN_MAX);
    // A daemon that stops tries once more and does not wait.
    drop(rooms);
    world.sessions.drain().await;
    assert!(world.sessions.unwritten().is_empty());
}

#[tokio::test]
async fn a_client_that_never_follows_its_session_ends_it() {
    let world = World::new(vec![vec![Act::Hang]]);
    let request = SkillCallRequest {
        arguments: json!({}),
        repo_path: world.repository().to_string_lossy().into_owned(),
        interactive: false,
        policy: PolicyRequest::default(),
        overrides: Default::default(),
    };
    let settings = PolicySettings::default();
    let started = world
        .sessions
        .call_skill("wait", request, settings, BTreeMap::new())
        .await;
    let live = world
        .sessions
        .live(&started.expect("it is right").session_id)
        .expect("it runs");
    // Half a minute is too long for a test; that the waiting ends is what counts.
    let waited = tokio::time::timeout(
        Duration::from_millis(50),
        live.abandoned_after(Duration::from_millis(10)),
    );
    waited.await.expect("nobody came");
    live.cancel.cancel();
    world.idle().await;
}
