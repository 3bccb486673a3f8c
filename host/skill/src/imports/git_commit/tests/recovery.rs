//! Commits that end half way, or that meet the locks of other programs: what stays behind, and what the next start makes of it.

use super::*;
use crate::settle_commit;
use tool_repository::changes::crash_at;

/// Lock files and files of ours that are left in the git directory.
fn leftovers(fixture: &Fixture) -> Vec<String> {
    let mut todo = vec![fixture.git.path().to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("it is there").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.path().is_dir() {
                true => todo.push(entry.path()),
                false if name.ends_with(".lock") || name.starts_with("tool-") => found.push(name),
                false => {}
            }
        }
    }
    found
}

#[test]
fn a_session_that_ends_while_it_is_asked_commits_nothing() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let cancel = tokio_util::sync::CancellationToken::new();
    let ended = cancel.clone();
    let mut session = context(
        &fixture.root(),
        &[],
        ScriptedApproval::after(true, move || ended.cancel()),
    );
    session.cancel = cancel;
    let answer = message(create(&session, "Say why", &[], true));
    assert_eq!(answer, "failed: The call was cancelled.");
    assert_eq!(fixture.committed("a.txt"), Some(("1\n".to_owned(), 0o100_644)));
    assert_eq!(leftovers(&fixture), [""; 0]);
}

/// Ends the session at the last moment at which something could still be done for it, and remembers publications.
#[derive(Default)]
struct Notes {
    open: std::sync::Mutex<Vec<CommitInProgress>>,
    ends: Option<tokio_util::sync::CancellationToken>,
    is_over: bool,
}

impl ChangeJournal for Notes {
    fn prepare(&self, _: &tool_repository::changes::PreparedChange) -> std::io::Result<()> {
        Ok(())
    }

    fn committed(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn abandoned(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn publishing(&self, publication: &CommitInProgress) -> std::io::Result<()> {
        if self.is_over {
            return Err(std::io::Error::other("the session has ended"));
        }
        self.open.lock().expect("not poisoned").push(publication.clone());
        if let Some(ends) = &self.ends {
            ends.cancel();
        }
        Ok(())
    }

    fn published(&self, id: &str) {
        self.open.lock().expect("not poisoned").retain(|open| open.id != id);
    }
}

#[test]
fn a_session_that_ends_while_it_commits_commits_nothing() {
    let fixture = started();
    fixture.write("a.txt", "2\n");
    let mut session = fixture.session(ALLOWED);
    let notes = Arc::new(Notes {
        ends: Some(session.cancel.clone()),
        ..Notes::default()
    });
    session.changes = Arc::clone(&notes) as _;
    let answer = message(create(&session, "Say why", &[], true));
    assert_eq!(answer, "failed: The call was cancelled.");
    let mut session = fixture.session(ALLOWED);
    session.changes = Arc::new(Notes {
        is_over: true,
        ..Notes::default()
    });
    let answer = message(create(&session, "Say why", &[], true));
    assert_eq!(
        answer,
        "failed: The commit cannot be journalled: the session has ended; it was not made."
    );
    assert_eq!(fixture.committed("a.txt"), Some(("1\n".to_owned(), 0o100_644)));
    assert_eq!(leftovers(&fixture), [""; 0]);
    assert_eq!(notes.open.lock().expect("not poisoned").len(), 0);
}

#[test]
fn a_commit_is_made_or_not_at_whatever_moment_its_process_dies() {
    let (mut made, mut unmade) = (0, 0);
    for (branch, has_tables) in [
        ("main", false),
        ("feature/deep", false),
        ("main", true),
        ("feature/deep", true),
    ] {
        for moment in 0.. {
            let fixture = started_in(Fixture::in_memory());
            if branch != "main" {
                let head = fixture
                    .git
                    .head()
                    .and_then(|head| head.peel_to_commit())
                    .expect("a commit");
                fixture.git.branch(branch, &head, false).expect("it can be made");
                fixture
                    .git
                    .set_head(&format!("refs/heads/{branch}"))
                    .expect("it is there");
            }
            fixture.write("a.txt", "2\n");
            if has_tables {
                fixture.use_tables();
            }
            let mut session = fixture.session(ALLOWED);
            let notes = Arc::new(Notes::default());
            session.changes = Arc::clone(&notes) as _;
            let lived = crash_at(moment, || {
                create(&session, "Say why", &[], true).expect("it can be committed")
            });
            let open = notes.open.lock().expect("not poisoned").clone();
            assert_eq!(open.len(), usize::from(lived.is_none()));
            for left in &open {
                // The next start may die as well, and the one after it finds the same.
                for again in 0.. {
                    if crash_at(again, || settle_commit(left).expect("it is there")).is_some() {
                        break;
                    }
                }
                assert_eq!(
                    settle_commit(left).expect("it is there"),
                    None,
                    "nothing is left to be said"
                );
            }
            assert_eq!(leftovers(&fixture), [""; 0], "at moment {moment} on {branch}");
            if has_tables {
                fixture.use_files();
            }
            let is_made = fixture.committed("a.txt") == Some(("2\n".to_owned(), 0o100_644));
            let status = if is_made { "" } else { "a.txt Status(WT_MODIFIED)" };
            assert_eq!(fixture.status(), status, "at moment {moment} on {branch}");
            *(if is_made { &mut made } else { &mut unmade }) += 1;
            // git goes on as if nothing had been.
            let again = commit(&fixture, &[], true);
            assert_eq!(again.is_ok(), !is_made, "{again:?}");
            if lived.is_some() {
                break;
            }
        }
    }
    assert!(made > 4 && unmade > 12, "{made} and {unmade}");
}

#[test]
fn what_somebody_else_has_locked_or_changed_since_is_left_alone() {
    let fixture = started();
    let (git, branch) = (fixture.git.path().to_owned(), "main".to_owned());
    let head = fixture
        .git
        .head()
        .and_then(|head| head.peel_to_commit())
        .expect("a commit")
        .id();
    let left = CommitInProgress {
        id: "x".to_owned(),
        git: git.clone(),
        common: git.clone(),
        branch: Some(branch),
        commit: head.to_string(),
    };
    std::fs::write(git.join("index.lock"), "").expect("it can be written");
    std::fs::write(git.join("tool-x-index.new.lock"), "new").expect("it can be written");
    let said = settle_commit(&left).expect("it is there").expect("it is worth a word");
    insta::assert_snapshot!(
        format!("{}\nhint: {}", said.0.replace(&left.commit, "[id]"), said.1.unwrap_or_default()),
        @r"
    The commit [id] was made, but git's index could not be updated: another program was at work there.
    hint: `git reset` brings the index in line with it
    "
    );
    assert_eq!(leftovers(&fixture), ["index.lock"]);
    assert_eq!(std::fs::read(git.join("index.lock")).expect("it is there"), b"");
    let gone = CommitInProgress {
        git: fixture.outside("nowhere"),
        ..left
    };
    assert_eq!(
        settle_commit(&gone).expect_err("it is gone").kind(),
        std::io::ErrorKind::NotFound
    );
}

#[test]
fn a_commit_in_a_worktree_without_tables_for_its_log_is_finished() {
    let fixture = started();
    fixture.use_tables();
    let git = fixture.outside("record");
    std::fs::create_dir(&git).expect("folders can be made");
    let common = fixture.git.path().to_owned();
    let tables = tool_repository::reftable::References::read(&common.join("reftable")).expect("they are whole");
    let head = tables.resolve("refs/heads/main").expect("there is a commit");
    let left = CommitInProgress {
        id: "x".to_owned(),
        git: git.clone(),
        common: common.clone(),
        branch: Some("main".to_owned()),
        commit: tool_core::digest::to_hexadecimal(head),
    };
    for (place, text) in [
        (common.join("reftable/tables.list.lock"), "tool-x-branch\n"),
        (git.join("index.lock"), "tool-x-index\n"),
        (git.join("tool-x-index.new.lock"), "new"),
    ] {
        std::fs::write(place, text).expect("it can be written");
    }
    let (said, hint) = settle_commit(&left).expect("it is there").expect("it is worth a word");
    assert!(said.ends_with("was finished.") && hint.is_none(), "{said}");
    assert_eq!(leftovers(&fixture), [""; 0]);
    assert_eq!(std::fs::read(git.join("index")).expect("it is there"), b"new");
}

#[test]
fn tables_with_the_last_of_all_numbers_take_no_commit() {
    let fixture = started();
    fixture.use_tables();
    let tables = fixture.git.path().join("reftable");
    let last = tool_repository::reftable::encode_table(u64::MAX, false, &[], &[]);
    std::fs::write(tables.join("2.ref"), last).expect("it can be written");
    std::fs::write(tables.join("tables.list"), "1.ref\n2.ref\n").expect("it can be written");
    fixture.write("a.txt", "2\n");
    let answer = message(commit(&fixture, &["a.txt"], false));
    assert!(
        answer.contains("the references in `reftable/2.ref` cannot be read"),
        "{answer}"
    );
    assert_eq!(leftovers(&fixture), [""; 0]);
}

#[test]
fn a_lock_of_another_program_is_named_by_its_place() {
    for (has_tables, lock) in [
        (false, ".git/index.lock"),
        (false, ".git/refs/heads/main.lock"),
        (true, ".git/reftable/tables.list.lock"),
    ] {
        let fixture = started();
        if has_tables {
            fixture.use_tables();
        }
        fixture.write("a.txt", "2\n");
        fixture.write(lock, "");
        let failure = commit(&fixture, &["a.txt"], false).expect_err("it is locked");
        let hint = format!("try again; if no git runs, remove `{lock}`");
        assert_eq!(failure.hint, Some(hint));
    }
}
