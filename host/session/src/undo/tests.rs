//! Diffs and undos of sessions that a scripted model has made.

use std::fs;

use serde_json::json;

use super::*;
use crate::tests::{Act, FakeEngine, SessionWorld, open_sessions};
use tool_core::api::Operation;
use tool_core::api::{ChangeKind, ErrorKind};
use tool_journal::history::Filter;

fn write(path: &str, content: &str) -> Act {
    Act::Call("write_file", json!({"path": path, "content": content}))
}

fn refactors(scripts: Vec<Vec<Act>>) -> SessionWorld {
    let rounds = scripts.into_iter().flat_map(|calls| [calls, vec![Act::Say("Done.")]]);
    SessionWorld::new(rounds.collect())
}

/// Runs a refactor with the next script, and gives its identifier.
async fn refactor(world: &SessionWorld) -> String {
    let (result, _) = world.run(world.request(Operation::Refactor, "src")).await;
    result.session_id
}

fn text(world: &SessionWorld, path: &str) -> Option<String> {
    fs::read_to_string(world.repository().join(path)).ok()
}

fn root(world: &SessionWorld) -> String {
    world.repository().to_string_lossy().into_owned()
}

#[tokio::test]
async fn an_undo_is_a_session_of_its_own_that_can_be_undone() {
    let world = refactors(vec![vec![
        write("src/main.py", "print(1)\n"),
        write("src/new.py", "x = 1\n"),
    ]]);
    let id = refactor(&world).await;
    assert_eq!(world.sessions.newest_change(&root(&world)).await.as_ref(), Ok(&id));

    let undone = world.sessions.undo(&id, Vec::new()).await.expect("it can be undone");
    assert_eq!(undone.restored, ["src/main.py", "src/new.py"]);
    assert_eq!((undone.unchanged.len(), undone.left.len()), (0, 0));
    assert_eq!(text(&world, "src/main.py").as_deref(), Some("print()\n"));
    assert_eq!(text(&world, "src/new.py"), None);
    let history = world.sessions.history(&Filter::default()).sessions;
    assert_eq!(
        (history.len(), history[0].files_modified),
        (1, 2),
        "it tells what the session did"
    );
    let problem = world
        .sessions
        .newest_change(&root(&world))
        .await
        .expect_err("all is undone");
    assert_eq!(problem.kind, ErrorKind::NothingChanged);
    let problem = world.sessions.undo(&id, Vec::new()).await.expect_err("it is undone");
    assert_eq!(problem.kind, ErrorKind::NothingToUndo);

    let undo = undone.undo_session_id.expect("it changed files");
    let redone = world.sessions.undo(&undo, Vec::new()).await.expect("it can be undone");
    assert_eq!(redone.restored, ["src/main.py", "src/new.py"]);
    assert_eq!(text(&world, "src/main.py").as_deref(), Some("print(1)\n"));
    assert_eq!(text(&world, "src/new.py").as_deref(), Some("x = 1\n"));
    assert_eq!(
        world.sessions.newest_change(&root(&world)).await.as_ref(),
        Ok(&id),
        "it counts again"
    );
}

#[tokio::test]
async fn undos_go_back_session_by_session_also_after_a_restart() {
    let world = refactors(vec![
        vec![write("src/main.py", "print(1)\n")],
        vec![write("src/main.py", "print(2)\n")],
    ]);
    let (first, second) = (refactor(&world).await, refactor(&world).await);
    let left = world.sessions.undo(&first, Vec::new()).await.expect("it answers");
    assert_eq!((left.restored.len(), left.undo_session_id), (0, None));
    assert_eq!(
        left.left[0].reason,
        format!("`src/main.py` has been changed since, by the session {second}: undo that one first")
    );

    let sessions = || open_sessions(&world.home(), FakeEngine::new(vec![]), None).expect("it can be opened");
    for (expected, content) in [(&second, "print(1)\n"), (&first, "print()\n")] {
        let sessions = sessions();
        let newest = sessions.newest_change(&root(&world)).await.expect("there is one");
        assert_eq!(newest, *expected);
        sessions.undo(&newest, Vec::new()).await.expect("it can be undone");
        assert_eq!(text(&world, "src/main.py").as_deref(), Some(content));
    }
}

/// To undo an undo would bring back changes that the user did not want.
#[tokio::test]
async fn nobody_is_sent_to_undo_an_undo() {
    let world = refactors(vec![
        vec![write("src/main.py", "print(1)\n")],
        vec![write("src/main.py", "print(2)\n")],
        vec![write("src/main.py", "print(3)\n")],
    ]);
    let (_, second) = (refactor(&world).await, refactor(&world).await);
    fs::write(world.repository().join("src/main.py"), "print()\n").expect("it can be written");
    let third = refactor(&world).await;
    world.sessions.undo(&third, Vec::new()).await.expect("it can be undone");
    let left = world.sessions.undo(&second, Vec::new()).await.expect("it answers");
    assert_eq!(
        left.left[0].reason,
        format!("`src/main.py` has been changed since, by the undo of the session {third}")
    );
}

#[tokio::test]
async fn what_the_user_has_changed_since_is_left_and_can_be_undone_later() {
    let world = refactors(vec![vec![write("src/main.py", "print(1)\n"), write("src/b.py", "b\n")]]);
    let id = refactor(&world).await;
    fs::write(world.repository().join("src/main.py"), "the user's\n").expect("it can be written");
    let undone = world.sessions.undo(&id, Vec::new()).await.expect("it answers");
    assert_eq!(undone.restored, ["src/b.py"]);
    assert_eq!(undone.left.len(), 1);
    assert_eq!(undone.left[0].reason, "`src/main.py` has been changed since");
    assert_eq!(text(&world, "src/main.py").as_deref(), Some("the user's\n"));

    assert_eq!(
        world.sessions.newest_change(&root(&world)).await.as_ref(),
        Ok(&id),
        "it is not wholly undone"
    );
    fs::write(world.repository().join("src/main.py"), "print(1)\n").expect("it can be written");
    let undone = world.sessions.undo(&id, Vec::new()).await.expect("it can be undone");
    assert_eq!(
        (undone.restored, undone.unchanged),
        (vec!["src/main.py".to_owned()], vec!["src/b.py".to_owned()])
    );
    assert_eq!(text(&world, "src/main.py").as_deref(), Some("print()\n"));
}

#[tokio::test]
async fn what_was_taken_back_by_hand_or_cannot_be_does_not_hide_earlier_sessions() {
    let world = refactors(vec![
        vec![write("src/main.py", "print(1)\n")],
        vec![write("src/b.py", "b\n")],
        vec![write("src/c.py", "c\n")],
    ]);
    let (first, by_hand, left) = (refactor(&world).await, refactor(&world).await, refactor(&world).await);
    fs::remove_file(world.repository().join("src/b.py")).expect("it is there");
    fs::write(world.repository().join("src/c.py"), "the user's\n").expect("it can be written");
    let newest = || async { world.sessions.newest_change(&root(&world)).await };
    assert_eq!(newest().await.as_ref(), Ok(&left));
    let undone = world.sessions.undo(&left, Vec::new()).await.expect("it answers");
    assert_eq!((undone.left.len(), undone.next_session_id.as_ref()), (1, Some(&first)));
    fs::remove_file(world.repository().join("src/c.py")).expect("it is there");
    assert_eq!(
        newest().await.as_ref(),
        Ok(&first),
        "{left} and {by_hand} are taken back"
    );
    let undone = world.sessions.undo(&first, Vec::new()).await.expect("it can be undone");
    assert_eq!(
        (undone.restored, undone.next_session_id),
        (vec!["src/main.py".to_owned()], None)
    );
    assert_eq!(
        newest().await.expect_err("all is undone").kind,
        ErrorKind::NothingChanged
    );
}

#[tokio::test]
async fn a_session_that_would_be_refused_is_not_recommended() {
    let world = refactors(vec![
        vec![write("src/b.py", "b\n")],
        vec![write("src/main.py", "print(1)\n")],
        vec![write("src/main.py", "print(2)\n")],
    ]);
    let (earlier, first, second) = (refactor(&world).await, refactor(&world).await, refactor(&world).await);
    fs::write(world.repository().join("src/main.py"), "the user's\n").expect("it can be written");
    let undone = world.sessions.undo(&first, Vec::new()).await.expect("it answers");
    assert_eq!(
        (undone.left.len(), undone.next_session_id.as_ref()),
        (1, Some(&earlier))
    );
    let undone = world.sessions.undo(&second, Vec::new()).await.expect("it answers");
    assert_eq!(
        (undone.left.len(), undone.next_session_id.as_ref()),
        (1, Some(&earlier)),
        "{first} is refused, too"
    );
}

#[tokio::test]
async fn a_diff_shows_what_the_session_left_and_says_what_became_of_it() {
    let world = refactors(vec![vec![
        write("src/main.py", "print(1)\n"),
        write("src/main.py", "print(2)\n"),
        write("src/new.py", "x = 1\n"),
    ]]);
    let id = refactor(&world).await;
    fs::write(world.repository().join("src/main.py"), "the user's\n").expect("it can be written");
    let diff = world.sessions.diff(&id).await.expect("it exists");
    insta::assert_snapshot!(diff.diff, @r"
    diff --git a/src/main.py b/src/main.py
    --- a/src/main.py
    +++ b/src/main.py
    @@ -1 +1 @@
    -print()
    +print(2)
    diff --git a/src/new.py b/src/new.py
    new file mode 100644
    --- /dev/null
    +++ b/src/new.py
    @@ -0,0 +1 @@
    +x = 1
    ");
    let files: Vec<_> = diff
        .files
        .iter()
        .map(|file| {
            (
                file.path.as_str(),
                file.kind,
                file.added,
                file.removed,
                file.since.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        files,
        [
            (
                "src/main.py",
                ChangeKind::Modified,
                1,
                1,
                Some("it has been changed since")
            ),
            ("src/new.py", ChangeKind::Created, 1, 0, None),
        ]
    );
    fs::remove_file(world.repository().join("src/new.py")).expect("it can be removed");
    let diff = world.sessions.diff(&id).await.expect("it exists");
    assert_eq!(
        diff.files[1].since.as_deref(),
        Some("it is back to what it was before the session")
    );
}

#[tokio::test]
async fn a_running_session_is_shown_but_not_undone() {
    let world = SessionWorld::new(vec![vec![write("src/main.py", "print(1)\n")], vec![Act::Hang]]);
    let started = world.start(world.request(Operation::Refactor, "src")).await;
    let id = started.session_id;
    let clock = std::time::Instant::now();
    while world.sessions.diff(&id).await.expect("it exists").files.is_empty() {
        assert!(clock.elapsed().as_secs() < 10, "it never changed anything");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let problem = world.sessions.undo(&id, Vec::new()).await.expect_err("it runs");
    assert_eq!(problem.kind, ErrorKind::SessionRunning);
    assert_eq!(
        problem.message,
        format!("The session `{id}` is still running and cannot be undone")
    );
    world.sessions.cancel(&id).expect("it runs");
    world.idle().await;
    world
        .sessions
        .undo(&id, Vec::new())
        .await
        .expect("what a cancelled session changed can be undone");
    assert_eq!(text(&world, "src/main.py").as_deref(), Some("print()\n"));
}

#[tokio::test]
async fn a_session_without_changes_has_an_empty_diff_and_nothing_to_undo() {
    let world = SessionWorld::new(vec![vec![Act::Say("It prints.")]]);
    let (result, _) = world.run(world.request(Operation::Explain, ".")).await;
    assert_eq!(result.status, Status::Complete);
    let diff = world.sessions.diff(&result.session_id).await.expect("it exists");
    assert_eq!((diff.diff.as_str(), diff.files.len()), ("", 0));
    let problem = world
        .sessions
        .undo(&result.session_id, Vec::new())
        .await
        .expect_err("nothing changed");
    assert_eq!(problem.kind, ErrorKind::NothingToUndo);
    for problem in [
        world
            .sessions
            .undo("nosuch", Vec::new())
            .await
            .expect_err("there is none"),
        world.sessions.diff("nosuch").await.expect_err("there is none"),
    ] {
        assert_eq!(problem.kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn the_diff_of_a_session_is_bounded() {
    let long = "a line of some length that is written again and again\n".repeat(SESSION_DIFF_BYTES_MAX / 50);
    let world = refactors(vec![vec![write("src/long.py", &long)]]);
    let id = refactor(&world).await;
    let diff = world.sessions.diff(&id).await.expect("there is one");
    assert!(
        diff.truncated && diff.diff.len() <= SESSION_DIFF_BYTES_MAX + 100,
        "{}",
        diff.diff.len()
    );
}

#[tokio::test]
async fn an_edit_of_other_lines_is_shown_merged_and_merged_after_a_yes() {
    let world = refactors(vec![vec![write("src/main.py", "one()\nTWO()\nthree()\nfour()\n")]]);
    let main = world.repository().join("src/main.py");
    fs::write(&main, "one()\ntwo()\nthree()\nfour()\n").expect("it is writable");
    let id = refactor(&world).await;
    fs::write(&main, "one()\nTWO()\nTHREE()\nfour()\n").expect("it is writable");
    let touching = world.sessions.undo(&id, Vec::new()).await.expect("it answers");
    assert_eq!((touching.restored.len(), &touching.left[0].merge), (0, &None));

    fs::write(&main, "one()\nTWO()\nthree()\nFOUR()\n").expect("it is writable");
    let left = world.sessions.undo(&id, Vec::new()).await.expect("it answers");
    assert_eq!(left.left[0].reason, "`src/main.py` has been changed since");
    let merge = left.left[0].merge.as_deref().expect("it can be merged");
    assert!(merge.contains("-TWO()\n+two()\n three()\n FOUR()\n"), "{merge}");
    let agreed: Vec<String> = left.left[0].merge_digest.iter().cloned().collect();
    assert_eq!(agreed.len(), 1);
    // An edit after the question makes another merge, which was not agreed to.
    fs::write(&main, "one()\nTWO()\nthree()\nFOUR(4)\n").expect("it is writable");
    let other = world.sessions.undo(&id, agreed.clone()).await.expect("it answers");
    assert_eq!((other.restored.len(), other.left.len()), (0, 1));
    assert_ne!(other.left[0].merge_digest.as_ref(), agreed.first());
    fs::write(&main, "one()\nTWO()\nthree()\nFOUR()\n").expect("it is writable");
    let merged = world.sessions.undo(&id, agreed).await.expect("it can be merged");
    assert_eq!(merged.restored, ["src/main.py"]);
    assert_eq!(
        text(&world, "src/main.py").as_deref(),
        Some("one()\ntwo()\nthree()\nFOUR()\n")
    );
    let undo = merged.undo_session_id.expect("it changed a file");
    world.sessions.undo(&undo, Vec::new()).await.expect("it can be undone");
    assert_eq!(
        text(&world, "src/main.py").as_deref(),
        Some("one()\nTWO()\nthree()\nFOUR()\n")
    );
}
