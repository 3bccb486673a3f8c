//! Bounds: time, floods and parts; each ends that call alone, with words that name the limit.

use std::time::{Duration, Instant};

use serde_json::json;
use tool_core::limits::CALL_PARTS_PER_THREAD;
use tool_skill::Limits;

use super::Arena;

fn hasty() -> Limits {
    Limits {
        wall: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[test]
fn a_guest_that_never_ends_is_stopped_at_its_deadline() {
    let arena = Arena::with(hasty(), &[]);
    for attack in ["spin", "spin-in-host-calls", "sleep", "sleep-for-ever"] {
        let started = Instant::now();
        let answer = arena.on(attack, "/repo/README.md");
        assert_eq!(
            answer, "timeout The skill `hostile` was stopped: it exceeded its limit of 300 ms.",
            "{attack}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "{attack} took {:?}",
            started.elapsed()
        );
    }
    assert_eq!(arena.count("nap", 50), "slept true");
}

#[test]
fn a_cancelled_call_frees_its_thread() {
    for attack in ["spin", "spin-in-host-calls", "sleep-for-ever"] {
        let arena = Arena::new();
        // The next call of a cancelled session ends as well, so the sandbox's own health is tested elsewhere.
        let cancel = arena.context.cancel.clone();
        let watcher = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
            Instant::now()
        });
        let answer = arena.call("hostile", &json!({"attack": attack}));
        let ended = Instant::now();
        let cancelled = watcher.join().expect("it only sleeps");
        assert_eq!(answer, "cancelled The skill `hostile` was cancelled.", "{attack}");
        let bound = Duration::from_secs(1);
        assert!(
            ended.saturating_duration_since(cancelled) < bound,
            "{attack}: {:?}",
            ended - cancelled
        );
    }
}

#[test]
fn memory_is_bounded() {
    let arena = Arena::new();
    let exceeded = "memory The skill `hostile` was stopped: it exceeded its limit of 256 MiB of memory.";
    assert_eq!(arena.count("memory", 4096), exceeded);
    assert_eq!(arena.count("output", 1 << 30), exceeded);
    assert_eq!(arena.count("memory", 16), "got 16 MiB");
}

#[test]
fn answers_are_bounded() {
    let arena = Arena::new();
    let text = "output The skill `hostile` was stopped: it exceeded its limit of 1 MiB of text.";
    assert_eq!(arena.count("output", 1024 * 1024 + 1), text);
    assert_eq!(arena.count("output", 1024 * 1024).len(), 1024 * 1024);
    let whole = "output The skill `hostile` was stopped: it exceeded its limit of 16 MiB in one answer or host call.";
    assert_eq!(arena.count("output", 64 << 20), whole);
    assert_eq!(arena.count("many-deletions", 50_000), whole);
    let deletions = "stage The skill `hostile` was stopped: it exceeded its limit of 2000 deletions.";
    assert_eq!(arena.count("many-deletions", 2_001), deletions);
}

#[test]
fn details_are_bounded_checked_and_cleaned() {
    let arena = Arena::new();
    let text = "output The skill `hostile` was stopped: it exceeded its limit of 1 MiB of details.";
    assert_eq!(arena.count("details", 1024 * 1024 - 7), text);
    assert_eq!(arena.count("details", 1024 * 1024 - 8), "detailed");
    let broken = "trap The skill `hostile` crashed: its details are not a JSON object of at most 16 levels";
    for details in ["[1]", "{", "7", "{\"passed\": true} {}"] {
        assert_eq!(arena.on("details", details), broken, "{details}");
    }
    let given = json!({"attack": "details", "path": "{\"a\\u001b[31m\": [\"b\\u202ec\", {\"d\": 1}]}"});
    let outcome = arena.report("hostile", &given).result.expect("it is an answer");
    assert_eq!(outcome.details, Some(json!({"a": ["bc", {"d": 1}]})));
}

#[test]
fn other_floods_end_that_call_alone() {
    let arena = Arena::new();
    assert_eq!(arena.count("log", 100_000), "nothing");
    assert_eq!(arena.count("stdout", 10_000), "nothing");
    let exceeded = |verdict: &str, limit: &str| {
        format!("{verdict} The skill `hostile` was stopped: it exceeded its limit of {limit}.")
    };
    assert_eq!(arena.count("random", 2_000), exceeded("random", "1048576 random bytes"));
    assert_eq!(arena.count("handles", 2_000), exceeded("handles", "1024 handles"));
    let files = json!({"attack": "open-files", "path": "/repo/README.md", "count": 100});
    assert_eq!(arena.attack(&files), exceeded("handles", "64 open files"));
    let few = json!({"attack": "open-files", "path": "/repo/README.md", "count": 50});
    assert_eq!(arena.attack(&few), "got 50 files");
}

#[test]
fn reading_is_bounded() {
    let arena = Arena::with(
        Limits {
            entries: 100,
            read_bytes: 100,
            ..Limits::default()
        },
        &[],
    );
    let exceeded = |verdict: &str, limit: &str| {
        format!("{verdict} The skill `hostile` was stopped: it exceeded its limit of {limit}.")
    };
    let walk = json!({"attack": "walk", "path": "/repo", "count": 10});
    assert_eq!(arena.attack(&walk), exceeded("entries", "100 directory entries"));
    let read = json!({"attack": "reread", "path": "/repo/README.md", "count": 21});
    assert_eq!(arena.attack(&read), exceeded("read", "100 bytes read"));
}

#[test]
fn tables_and_instances_are_bounded() {
    let tables = Limits {
        table_elements: 1,
        ..Limits::default()
    };
    let instances = Limits {
        instances: 1,
        ..Limits::default()
    };
    let answer = |limits| Arena::with(limits, &[]).call("echo", &json!({}));
    assert_eq!(
        answer(tables),
        "tables The skill `echo` was stopped: it exceeded its limit of 1 table elements."
    );
    assert_eq!(
        answer(instances),
        "instances The skill `echo` was stopped: it exceeded its limit of 1 instances, memories or tables."
    );
}

#[test]
fn proposals_are_bounded() {
    let arena = Arena::new();
    let bytes = "stage The skill `hostile` was stopped: it exceeded its limit of 32 MiB of proposed files.";
    for (attack, count) in [
        ("stage-bytes", 1_000),
        ("stage-again", 1_000),
        ("stage-hole", 1_u64 << 40),
        ("stage-size", 1_u64 << 40),
    ] {
        let answer = arena.attack(&json!({"attack": attack, "path": "/stage/big", "count": count}));
        assert_eq!(answer, bytes, "{attack}");
    }
    let files = json!({"attack": "stage-files", "path": "/stage/file", "count": 3_000});
    assert_eq!(
        arena.attack(&files),
        "stage The skill `hostile` was stopped: it exceeded its limit of 2000 proposed files and directories."
    );
    assert_eq!(arena.file("big"), None);
    assert_eq!(arena.file("file0"), None);
}

#[test]
fn no_more_calls_work_at_once_than_may_and_no_more_wait_than_may() {
    let limits = Limits {
        calls_concurrent: 1,
        calls_waiting: 1,
        ..Limits::default()
    };
    let arena = Arena::with(limits, &[]);
    let nap = json!({"attack": "nap", "count": 500});
    let started = Instant::now();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let thread = scope.spawn(|| arena.call("hostile", &nap));
                std::thread::sleep(Duration::from_millis(100));
                thread
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it answers"))
            .collect()
    });
    let busy = "busy The skill `hostile` was not called: too many calls are at work. Try again.";
    assert_eq!(answers, ["slept true", "slept true", busy]);
    let time = started.elapsed();
    assert!(
        time >= Duration::from_millis(1_000),
        "one slept after the other: {time:?}"
    );
    assert_eq!(arena.count("nap", 1), "slept true");
}

#[test]
fn a_call_runs_in_parts() {
    let limits = Limits { parts: 2, ..hasty() };
    let arena = Arena::with(limits, &[]);
    let numbers: Vec<u64> = (0..12).collect();
    let sum = |mischief: &str| arena.call("summing", &json!({"numbers": numbers, "mischief": mischief}));
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        assert_eq!(sum(""), "whole:66");
        return;
    }
    // More than work at once, and in their order whichever is done first: two threads, of which each is asked for
    // `CALL_PARTS_PER_THREAD`.
    let parts = "part:1 part:5 part:9 part:13 part:17 part:21";
    assert_eq!(sum(""), parts);
    assert_eq!(sum("list"), parts);
    assert_eq!(sum("fail"), "failed a part failed");
    assert_eq!(
        sum("spin"),
        "timeout The skill `summing` was stopped: it exceeded its limit of 300 ms."
    );
    assert_eq!(
        sum("many"),
        "trap The skill `summing` crashed: it split a call into 12 parts where 8 were asked for"
    );
    assert_eq!(CALL_PARTS_PER_THREAD * 2, 8);
    assert_eq!(arena.call("summing", &json!({"numbers": [5]})), "whole:5");
    let alone = Arena::with(Limits { parts: 1, ..limits }, &[]);
    assert_eq!(alone.call("summing", &json!({"numbers": [1, 2]})), "whole:3");
}

#[test]
fn a_call_waits_for_its_turn_for_a_bounded_time() {
    let limits = Limits {
        calls_concurrent: 1,
        turn_wait: Duration::from_millis(200),
        ..Limits::default()
    };
    let arena = Arena::with(limits, &[]);
    let answers = std::thread::scope(|scope| {
        let first = scope.spawn(|| arena.count("nap", 3_000));
        std::thread::sleep(Duration::from_millis(300));
        let second = arena.call("hostile", &json!({"attack": "nothing"}));
        [first.join().expect("it answers"), second]
    });
    let busy = "busy The skill `hostile` was not called: too many calls are at work. Try again.";
    assert_eq!(answers, ["slept true", busy]);
}
