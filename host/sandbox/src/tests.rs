//! Runs of real programs: small shell scripts that behave badly.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::*;
use crate::group::PROCESS_FILE_BYTES_MAX;

fn script(text: &str) -> CommandSpec {
    CommandSpec {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        directory: std::env::temp_dir(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    }
}

fn run_for(seconds: u64, text: &str) -> RunOutput {
    let limits = RunLimits::within(Duration::from_secs(seconds));
    run_command(&script(text), &limits, &CancellationToken::new(), &|_| {}).expect("the shell starts")
}

/// True where a process of this id is alive (a zombie is not).
fn alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
}

/// True where the process is gone, or goes within the moment that the kernel takes for it.
fn gone(pid: i32) -> bool {
    let patience = Instant::now() + Duration::from_millis(300);
    while alive(pid) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
    }
    !alive(pid)
}

fn pids_in(output: &str) -> Vec<i32> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("pid ")?.parse().ok())
        .collect()
}

#[test]
fn both_outputs_come_in_their_order_with_the_exit_status() {
    let output = run_for(10, "echo one; echo two >&2; echo three; exit 3");
    assert_eq!(output.end, RunEnd::Exited(3));
    assert_eq!(output.output, "one\ntwo\nthree\n");
    assert!(!output.output_cut);
}

#[test]
fn standard_input_is_empty_and_the_environment_is_cleared() {
    let output = run_for(
        10,
        "cat; env | grep -v '^\\(PWD\\|SHLVL\\|_\\|OLDPWD\\|TOOL_RUN\\)=' | sort",
    );
    assert_eq!(
        (output.end, output.output.as_str()),
        (RunEnd::Exited(0), "PATH=/usr/bin:/bin\n")
    );
}

#[test]
fn a_signal_from_elsewhere_is_told_apart() {
    assert_eq!(run_for(10, "kill -9 $$").end, RunEnd::Signalled(9));
}

#[test]
fn a_program_that_does_not_exist_is_an_error_that_names_it() {
    let mut command = script("");
    command.program = PathBuf::from("/nowhere/python");
    let limits = RunLimits::within(Duration::from_secs(1));
    let error = run_command(&command, &limits, &CancellationToken::new(), &|_| {}).expect_err("there is none");
    assert_eq!(error.to_string(), "`/nowhere/python` could not be started");
}

#[test]
fn lines_are_shown_while_the_program_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let seen = folder.path().join("seen");
    let shown = Mutex::new(Vec::new());
    let progress = |line: &str| {
        shown.lock().expect("not poisoned").push(line.to_owned());
        std::fs::write(&seen, "").expect("it is ours");
    };
    let limits = RunLimits::within(Duration::from_secs(60));
    // The program waits for its first line to be seen.
    let text = format!(
        "echo first; until [ -e '{}' ]; do sleep 0.01; done; echo second",
        seen.display()
    );
    let output = run_command(&script(&text), &limits, &CancellationToken::new(), &progress).expect("the shell starts");
    assert_eq!(output.end, RunEnd::Exited(0));
    assert_eq!(shown.into_inner().expect("not poisoned"), ["first", "second"]);
}

#[test]
fn the_time_limit_ends_a_whole_tree_that_ignores_term() {
    let tree = "trap '' TERM; (trap '' TERM; sh -c 'trap \"\" TERM; echo pid $$; sleep 60' & sleep 60) & \
                echo pid $$; sleep 60";
    let started = Instant::now();
    let output = run_for(1, tree);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(output.end, RunEnd::TimedOut);
    let pids = pids_in(&output.output);
    assert_eq!(pids.len(), 2, "{}", output.output);
    assert!(pids.iter().all(|&pid| gone(pid)), "{pids:?}");
}

/// Measures how long a run that ignores TERM, child included, goes on after its cancellation.
fn time_to_end() -> Duration {
    let cancel = CancellationToken::new();
    let limits = RunLimits::within(Duration::from_secs(60));
    let cancelled = std::cell::Cell::new(None);
    let progress = |line: &str| {
        if line == "ready" {
            cancelled.set(Some(Instant::now()));
            cancel.cancel();
        }
    };
    let text = "trap '' TERM; sleep 60 & echo pid $!; echo pid $$; echo ready; wait; sleep 60";
    let output = run_command(&script(text), &limits, &cancel, &progress).expect("the shell starts");
    let elapsed = cancelled.get().expect("it was cancelled").elapsed();
    assert_eq!(output.end, RunEnd::Cancelled);
    assert!(pids_in(&output.output).iter().all(|&pid| gone(pid)));
    elapsed
}

#[test]
fn a_cancelled_run_is_gone_before_it_would_end() {
    let time = time_to_end();
    assert!(time < Duration::from_secs(15), "{time:?}");
}

#[test]
fn a_program_that_listens_to_term_may_say_a_last_word() {
    let output = run_for(1, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done");
    assert_eq!(output.end, RunEnd::TimedOut);
    assert!(output.output.ends_with("bye\n"), "{}", output.output);
}

#[test]
fn children_that_outlive_the_leader_are_ended_without_being_waited_for() {
    let started = Instant::now();
    let output = run_for(30, "sleep 60 & echo pid $!; exit 0");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!(output.end, RunEnd::Exited(0));
    let pids = pids_in(&output.output);
    assert_eq!(pids.len(), 1);
    assert!(gone(pids[0]));
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_left_the_group_is_ended_as_well() {
    let output = run_for(30, "setsid sh -c 'echo pid $$; exec sleep 60' & sleep 0.3; exit 0");
    let pids = pids_in(&output.output);
    assert_eq!(pids.len(), 1, "{}", output.output);
    assert!(gone(pids[0]));
}

#[test]
fn endless_output_is_kept_within_its_bound_and_ended() {
    let limits = RunLimits {
        time: Duration::from_secs(30),
        output_kept_bytes: 4096,
        output_bytes_max: 1024 * 1024,
    };
    let output =
        run_command(&script("echo first; yes"), &limits, &CancellationToken::new(), &|_| {}).expect("the shell starts");
    assert_eq!(output.end, RunEnd::OutputLimit);
    assert!(output.output_cut);
    assert!(output.output.starts_with("first\ny\n"));
    assert!(output.output.len() <= 4096, "{}", output.output.len());
}

#[test]
fn no_zombie_stays() {
    for _ in 0..5 {
        run_for(10, "true");
    }
    let own = std::process::id().to_string();
    let zombies = std::fs::read_dir("/proc")
        .expect("there is a /proc")
        .flatten()
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| {
                let fields = stat
                    .rsplit(')')
                    .next()
                    .unwrap_or_default()
                    .split_whitespace()
                    .collect::<Vec<_>>();
                fields.first() == Some(&"Z") && fields.get(1) == Some(&own.as_str()) && stat.contains("(true)")
            })
        });
    assert_eq!(zombies.count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_leaves_no_core_dump_and_no_endless_file() {
    // The limits are set just after the start, so the program gives them a moment.
    let output = run_for(10, "sleep 0.2; ulimit -c; ulimit -f");
    let blocks = PROCESS_FILE_BYTES_MAX / 512;
    let lines = output.output.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], "0");
    assert!(
        lines[1] == blocks.to_string() || lines[1] == (blocks / 2).to_string(),
        "{}",
        lines[1]
    );
}

#[test]
fn the_bounds_of_output_are_those_of_limits() {
    let bounds = RunLimits::within(Duration::from_secs(7));
    assert_eq!(bounds.time, Duration::from_secs(7));
    assert_eq!(bounds.output_kept_bytes, PROCESS_OUTPUT_KEPT_BYTES);
    assert_eq!(bounds.output_bytes_max, limits::PROCESS_OUTPUT_BYTES_MAX);
}

#[test]
fn a_program_that_is_being_written_is_tried_again_and_not_for_ever() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("busy");
    std::fs::copy("/bin/true", &place).expect("there is a program");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let command = CommandSpec {
        program: place.clone(),
        arguments: Vec::new(),
        ..script("")
    };
    let bounds = RunLimits::within(Duration::from_secs(10));
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(&place)
        .expect("it is ours");
    let started = Instant::now();
    let refused = run_command(&command, &bounds, &CancellationToken::new(), &|_| {});
    assert!(matches!(refused, Err(ProcessError::Start { .. })), "{refused:?}");
    let patience = TICK * PROCESS_BUSY_RETRIES_MAX;
    assert!(started.elapsed() >= patience && started.elapsed() < patience + Duration::from_secs(15));
    drop(held);
    let ran = run_command(&command, &bounds, &CancellationToken::new(), &|_| {}).expect("nobody writes it");
    assert_eq!(ran.end, RunEnd::Exited(0));
}

#[test]
fn what_a_survivor_writes_is_not_read_for_ever() {
    let (reader, mut writer) = io::pipe().expect("pipes can be made");
    std::thread::spawn(move || while io::Write::write_all(&mut writer, &[b'x'; 64 * 1024]).is_ok() {});
    let mut running = ActiveRun {
        reader,
        end_of_output: false,
        output: CapturedOutput::new(1024),
        live: LiveLines::new(&|_| {}),
        deadline: Instant::now() + Duration::from_secs(60),
        output_bytes_max: u64::MAX,
        proxy: None,
        way: None,
    };
    running.drain().expect("it can be read");
    let taken = running.output.total_bytes();
    assert!(taken < PROCESS_DRAIN_BYTES_MAX + 64 * 1024, "{taken}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a child that does not end")]
fn a_child_that_does_not_end_is_left_to_others() {
    let mut child = Command::new("/bin/sleep")
        .arg("30")
        .spawn()
        .expect("there is a program");
    let pid = i32::try_from(child.id()).expect("it is an id");
    let started = Instant::now();
    assert_eq!(reap_child(&mut child), None);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    let process = rustix::process::Pid::from_raw(pid).expect("it is an id");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("it runs");
    let patience = Instant::now() + Duration::from_secs(10);
    while std::fs::exists(format!("/proc/{pid}")).expect("it can be looked at") {
        assert!(Instant::now() < patience, "nobody has collected it");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `PROCESS_ENVIRONMENT_BYTES_MAX`: of a process that left its group, more is not read than the kernel allows for one.
#[cfg(target_os = "linux")]
#[test]
fn a_process_with_a_large_environment_is_found_as_well() {
    let large = "x".repeat(100_000);
    let mut command = script("setsid sh -c 'echo pid $$; exec sleep 60' & sleep 0.3; exit 0");
    for number in 0..10 {
        command.environment.insert(format!("A{number}"), large.clone());
    }
    let limits = RunLimits::within(Duration::from_secs(30));
    let output = run_command(&command, &limits, &CancellationToken::new(), &|_| {}).expect("the shell starts");
    let pids = pids_in(&output.output);
    assert_eq!(pids.len(), 1, "{}", output.output);
    assert!(gone(pids[0]));
}
