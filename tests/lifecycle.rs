//! The daemon's life: started once by the first that needs it, found, replaced, configured, ended, and never left
//! behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tool_model_server::{Round, ServerStep};

use crate::conformance::http::{self, Connection};
use crate::conformance::world::{SHOP, World, says};
use crate::support::{Finished, Home, finish, folder, holds, is_alive, stopper, until};

const NOWHERE: &str = "/";

/// Runs the command line where no repository is.
fn tool(home: &Home, arguments: &[&str]) -> Finished {
    home.run(Path::new(NOWHERE), arguments)
}

/// Runs it with more of an environment.
fn tool_with(home: &Home, variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
    let mut command = home.tool(Path::new(NOWHERE), arguments);
    finish(
        command
            .envs(variables.iter().copied())
            .output()
            .expect("the binary runs"),
    )
}

fn signal(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("it is ours");
}

/// The daemon's log.
fn log(home: &Home) -> String {
    fs::read_to_string(home.path().join("logs/backend.log")).expect("it is there")
}

/// The processes that are daemons of this home.
fn daemons(home: &Home) -> BTreeSet<String> {
    let mark = format!("TOOL_HOME={}", home.path().display());
    let entries = fs::read_dir("/proc").expect("it can be listed").flatten();
    let is_daemon = |place: &Path| {
        let read = |name: &str| String::from_utf8_lossy(&fs::read(place.join(name)).unwrap_or_default()).into_owned();
        read("cmdline").contains("\0__daemon\0") && read("environ").split('\0').any(|variable| variable == mark)
    };
    let daemons = entries.filter(|entry| is_daemon(&entry.path()));
    daemons
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_daemon_ends_with_the_test_run_that_started_it() {
    let home = Home::offline();
    home.serve();
    assert_eq!(daemons(&home).len(), 1);
    let (mut stopper, mut pipe) = stopper();
    writeln!(pipe, "{}", home.path().display()).expect("it reads");
    // As the kernel does when the process is killed.
    drop(pipe);
    stopper.wait().expect("it is ours");
    assert_eq!(daemons(&home).len(), 0);
    assert!(!home.path().exists());
}

/// A model that waits at a gate after its first words.
fn waiting() -> World {
    let steps = [
        ServerStep::Text("It counts".into()),
        ServerStep::Gate("go on".into()),
        ServerStep::Text(" crates (app.py:1).".into()),
    ];
    World::repeating(SHOP, Round::new(steps))
}

/// Starts a session over HTTP and waits for its first words.
fn begin(world: &World, address: &str) -> (String, Connection) {
    let start = http::post(address, "/execute", &world.body("explain", "."))
        .expect(200)
        .json();
    let id = start["session_id"].as_str().expect("an identifier").to_owned();
    let mut stream = Connection::send(address, "GET", &format!("/stream?session_id={id}"), &[], None);
    stream.until("It counts");
    (id, stream)
}

#[test]
fn twenty_commands_at_once_start_one_daemon() {
    let home = Home::offline();
    let commands: Vec<_> = (0..20)
        .map(|index| {
            // Half of them start it by the way.
            let arguments: &[&str] = if index % 2 == 0 {
                &["service", "start"]
            } else {
                &["history", "--json"]
            };
            let mut command = home.tool(Path::new(NOWHERE), arguments);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary runs")
        })
        .collect();
    let mut pids = BTreeSet::new();
    for command in commands {
        let finished = finish(command.wait_with_output().expect("it ends")).expect(0);
        let (_, said) = finished.stdout.rsplit_once("process ").unwrap_or_default();
        pids.insert(said.trim_end_matches(".\n").to_owned());
    }
    pids.remove("");
    assert_eq!(
        pids,
        BTreeSet::from([home.record()["pid"].to_string()]),
        "they all found the same one"
    );
    until("those who came late have gone", || daemons(&home) == pids);
    assert_eq!(log(&home).matches(" ready ").count(), 1, "{}", log(&home));
}

#[test]
fn an_idle_daemon_of_another_version_is_replaced() {
    let home = Home::offline();
    home.serve_with(&[("TOOL_TEST_VERSION", "0.0.9")]);
    let old = home.pid();
    let finished = tool(&home, &["history"]).expect(0);
    holds(
        &finished.stderr,
        &["The backend of version 0.0.9 was idle and has ended; this is "],
    );
    assert_eq!(home.record()["version"], env!("CARGO_PKG_VERSION"));
    assert!(!is_alive(old) && home.pid() != old);
    let again = tool(&home, &["history"]).expect(0);
    assert!(!again.stderr.contains("version"), "{}", again.stderr);
}

#[test]
fn a_busy_daemon_of_another_version_is_left_alone_and_told_of() {
    let world = waiting();
    let address = world.home.serve_with(&[("TOOL_TEST_VERSION", "0.0.9")]);
    let old = world.home.pid();
    let (id, stream) = begin(&world, &address);
    let finished = world.run(&["history"]).expect(0);
    let said = "[warning] The running backend is of version 0.0.9, this is 0.1.0. It is busy (1 session under way) and \
                was left alone.\nhint: once it is idle the next command replaces it";
    holds(&finished.stderr, &[said]);
    assert_eq!(world.home.pid(), old);
    world.server.release("go on");
    holds(&stream.finish().body, &["crates (app.py:1)", "\"complete\""]);
    until("it is idle", || {
        http::get(&address, "/api/status").json()["sessions_running"] == 0
    });
    let results = world.run(&["results", &id]).expect(0);
    holds(&results.stdout, &["It counts crates"]);
    holds(&results.stderr, &["was idle and has ended"]);
    assert_ne!(world.home.pid(), old);
}

/// An update puts another file in the place of the binary; a daemon of the old one goes on.
#[test]
fn a_daemon_whose_binary_was_replaced_works_on() {
    let home = Home::offline();
    let repository = folder(SHOP);
    let place = tempfile::tempdir().expect("a temporary folder");
    let copy = place.path().join("tool");
    let install = || {
        let fresh = place.path().join("tool.new");
        fs::copy(env!("CARGO_BIN_EXE_tool"), &fresh).expect("the folder is writable");
        fs::rename(fresh, &copy).expect("the folder is writable");
    };
    install();
    let run = |arguments: &[&str]| {
        let known = home.tool(repository.path(), arguments);
        #[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
        let mut command = Command::new(&copy);
        command
            .args(arguments)
            .current_dir(repository.path())
            .env_clear()
            .stdin(Stdio::null());
        for (name, value) in known.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        finish(command.output().expect("the binary runs")).expect(0)
    };
    run(&["service", "start"]);
    let pid = home.pid();
    install();
    holds(&run(&["explain", "."]).stdout, &["Counts and prices crates."]);
    holds(&run(&["service", "status"]).stdout, &["is running"]);
    assert_eq!(home.pid(), pid, "the same version is the same daemon");
}

#[test]
fn a_port_of_another_process_of_the_user_is_said_to_be_that() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let home = Home::offline();
    let refused = tool_with(&home, &[("TOOL_BACKEND_PORT", &port)], &["service", "start"]).expect(3);
    let said = format!("[error] Failed to start backend: Port {port} already in use\nhint: free the port");
    holds(&refused.stderr, &[&said, "a process of yours holds it"]);
    let doctor = tool_with(&home, &[("TOOL_BACKEND_PORT", &port)], &["doctor"]).expect(1);
    holds(
        &doctor.stdout,
        &["is taken by another program", "a process of yours holds it"],
    );
}

/// A record that names a process which has nothing to do with it, and a socket on which another process listens.
#[test]
fn only_the_process_behind_the_socket_is_signalled() {
    let home = Home::offline();
    home.serve();
    let mut record = home.record();
    tool(&home, &["service", "stop"]).expect(0);
    #[expect(clippy::disallowed_methods, reason = "a process that must survive")]
    let mut innocent = Command::new("sleep").arg("60").spawn().expect("there is `sleep`");
    let stat = fs::read_to_string(format!("/proc/{}/stat", innocent.id())).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a command in parentheses");
    let start_ticks: u64 = fields
        .split(' ')
        .nth(19)
        .and_then(|field| field.parse().ok())
        .expect("a time");
    record["pid"] = innocent.id().into();
    record["start_ticks"] = start_ticks.into();
    fs::write(home.path().join("backend.json"), record.to_string()).expect("the folder is writable");
    let lock = fs::File::open(home.path().join("backend.lock")).expect("it is there");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
    let commands = [
        &["service", "stop"][..],
        &["service", "restart"],
        &["service", "status"],
        &["history"],
    ];
    let mut refuse = |said: &str| {
        for arguments in commands {
            holds(&tool(&home, arguments).expect(3).stderr, &[said]);
            assert!(innocent.try_wait().expect("it can be asked").is_none(), "{arguments:?}");
        }
    };
    refuse("[error] Backend not responding: Connection refused\nhint: process ");
    let place = home.path().join("backend.sock");
    let listener = UnixListener::bind(&place).expect("the folder is writable");
    refuse("is served by another process than the backend");
    drop(listener);
    refuse("[error] Backend not responding: Connection refused\nhint: process ");
    innocent.kill().expect("it is ours");
    innocent.wait().expect("it ends");
}

/// A backend that was killed leaves its socket, its record and its pid.
#[test]
fn a_killed_backend_refuses_connections_and_is_replaced() {
    let home = Home::offline();
    home.serve();
    let (pid, place) = (home.pid(), home.path().join("backend.sock"));
    let inode = |place: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(place).expect("it is there"));
    let before = inode(&place);
    signal(pid, Signal::KILL);
    until("it is dead", || !is_alive(pid));
    for arguments in [&["service", "status"][..], &["service", "status", "--json"]] {
        let refused = tool(&home, arguments).expect(3);
        let said = "[error] Backend not responding: Connection refused\nhint: start it with `tool service start`\n";
        assert_eq!(refused.stderr, said);
    }
    assert_eq!(inode(&place), before, "a look replaces nothing");
    tool(&home, &["service", "start"]).expect(0);
    // The new socket may get the number of the old inode, so what counts is that a new process answers on it.
    assert_ne!(home.pid(), pid);
    tool(&home, &["service", "status"]).expect(0);
    tool(&home, &["service", "stop"]).expect(0);
    assert!(!place.exists(), "an orderly end takes it along");
}

#[test]
fn a_command_gives_up_on_a_backend_that_hangs_and_names_its_pid() {
    let home = Home::offline();
    home.serve();
    let pid = home.pid();
    signal(pid, Signal::STOP);
    let refused = tool(&home, &["history"]);
    signal(pid, Signal::CONT);
    let said = format!(
        "[error] Backend not responding: no answer in 5 s\nhint: if it stays so, end process {} and try again\n",
        pid.as_raw_nonzero()
    );
    assert_eq!(refused.expect(3).stderr, said);
    tool(&home, &["history"]).expect(0);
}

/// The address of a Unix socket holds a path of 107 bytes.
#[test]
fn a_home_with_a_long_path_works_like_any_other() {
    let home = Home::offline();
    let long = home.path().join("x".repeat(150));
    fs::create_dir(&long).expect("the folder is writable");
    fs::copy(home.path().join("config.toml"), long.join("config.toml")).expect("the folder is writable");
    let variables = [("TOOL_HOME", long.to_str().expect("it is UTF-8"))];
    let run = |arguments: &[&str]| tool_with(&home, &variables, arguments);
    run(&["service", "start"]).expect(0);
    assert!(long.join("backend.sock").exists());
    for arguments in [
        &["service", "status"][..],
        &["history"],
        &["service", "restart"],
        &["service", "stop"],
    ] {
        run(arguments).expect(0);
    }
    holds(
        &run(&["service", "status"]).expect(3).stderr,
        &["Backend not responding: Connection refused"],
    );
}

/// A shell or a hook gives a command open files and variables; the daemon that the command starts keeps none of them.
#[test]
fn a_daemon_keeps_nothing_of_where_it_was_started() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let hook = [
        ("GIT_DIR", "/elsewhere/.git"),
        ("GIT_WORK_TREE", "/elsewhere"),
        ("GIT_INDEX_FILE", "/elsewhere/index"),
        ("LD_LIBRARY_PATH", "/elsewhere"),
        ("PYTHONPATH", "/elsewhere"),
    ];
    let mut command = home.tool(repository.path(), &["explain", "."]);
    let finished = finish(command.envs(hook).output().expect("the binary runs")).expect(0);
    holds(
        &finished.stdout,
        &["Counts and prices crates. (README.md:3)", "shop/cart.py"],
    );
    let process = format!("/proc/{}", home.record()["pid"]);
    let environment = fs::read(format!("{process}/environ")).expect("it is ours");
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("elsewhere"), "{environment}");
    let directory = fs::read_link(format!("{process}/cwd")).expect("it is ours");
    assert_eq!(directory, Path::new("/"));
    let stat = fs::read_to_string(format!("{process}/stat")).expect("it is ours");
    let (_, fields) = stat.rsplit_once(") ").expect("a command in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    let pid = home.record()["pid"].to_string();
    assert_eq!(
        [fields[2], fields[3]],
        [&pid, &pid],
        "a group and a session of its own: no key reaches it"
    );
    // Its index reads on after the answer.
    until("no file of the repository is open", || {
        let handles = fs::read_dir(format!("{process}/fd")).expect("it is ours").flatten();
        let mut targets = handles.map(|handle| fs::read_link(handle.path()).unwrap_or_default());
        !targets.any(|target| target.starts_with(repository.path()))
    });
}

#[test]
fn a_working_directory_that_is_gone_stops_nothing_but_what_needs_it() {
    let home = Home::offline();
    let place = tempfile::tempdir().expect("a temporary folder");
    let gone = |arguments: &str| {
        let known = home.tool(place.path(), &[]);
        #[expect(clippy::disallowed_methods, reason = "a shell stays where nothing is any more")]
        let mut command = Command::new("sh");
        let line = format!("mkdir gone && cd gone && rmdir ../gone && exec \"$TOOL\" {arguments}");
        command
            .args(["-c", &line])
            .current_dir(place.path())
            .env_clear()
            .stdin(Stdio::null());
        for (name, value) in known.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        finish(
            command
                .env("TOOL", env!("CARGO_BIN_EXE_tool"))
                .output()
                .expect("there is a shell"),
        )
    };
    gone("service start").expect(0);
    for arguments in [
        "service status",
        "history",
        "skill list",
        "service restart",
        "service status",
    ] {
        gone(arguments).expect(0);
    }
    let refused = gone("explain .");
    assert!(refused.code == 1 || refused.code == 2, "{refused:?}");
    assert!(
        refused.stderr.starts_with("[error] ") && !refused.stderr.contains("panicked"),
        "{refused:?}"
    );
    let repository = folder(SHOP);
    holds(
        &home.run(repository.path(), &["explain", "."]).expect(0).stdout,
        &["Counts and prices crates."],
    );
    gone("service stop").expect(0);
}

#[test]
fn a_signal_to_end_is_heeded_while_sessions_are_recovered() {
    let (home, repository) = (Home::offline(), folder(&[("a.py", "x = 1\n")]));
    home.run(repository.path(), &["explain", "."]).expect(0);
    tool(&home, &["service", "stop"]).expect(0);
    // A disk that does not answer.
    let sessions = fs::read_dir(home.path().join("sessions"))
        .expect("it is there")
        .flatten();
    let mut summaries = sessions.map(|session| session.path().join("summary.json"));
    let summary = summaries.find(|summary| summary.exists()).expect("there is one");
    fs::remove_file(&summary).expect("it is ours");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &summary, rustix::fs::FileType::Fifo, mode, 0).expect("it can be made");
    let mut daemon = home.tool(Path::new(NOWHERE), &["__daemon", "--port", "0"]);
    let daemon = daemon.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = daemon.spawn().expect("the binary runs");
    let mut said = String::new();
    let stdout = daemon.stdout.as_mut().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).expect("it says how it is");
    assert_eq!(said.trim(), "\"recovering\"");
    signal(Pid::from_child(&daemon), Signal::TERM);
    let begun = Instant::now();
    assert_eq!(daemon.wait().expect("it is ours").code(), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    fs::remove_file(&summary).expect("it is ours");
    let listed = tool(&home, &["history"]).expect(0).stdout;
    holds(&listed, &["  explain "]);
    assert!(!listed.contains("failed") && !listed.contains("running"), "{listed}");
}

/// Sessions under way are closed, their readers see the end, their reports are written, and nothing stays behind.
#[test]
fn a_signal_to_end_closes_what_is_under_way() {
    for how in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let world = waiting();
        let address = world.home.serve();
        let pid = world.home.pid();
        let (id, stream) = begin(&world, &address);
        signal(pid, how);
        let events = stream.finish().events();
        assert_eq!(
            events.last().map(|event| &event["type"]),
            Some(&json!("error")),
            "{events:?}"
        );
        let time = until("it has ended", || !is_alive(pid));
        assert!(time < Duration::from_secs(12), "{time:?}");
        for file in ["backend.json", "backend.pid", "backend.sock"] {
            assert!(!world.home.path().join(file).exists(), "{file}");
        }
        let report = crate::conformance::world::report(world.root(), "session_latest.md");
        holds(&report, &["It counts", &id]);
        world.run(&["service", "status"]).expect(3);
        let history: Value = serde_json::from_str(&world.run(&["history", "--json"]).expect(0).stdout).expect("JSON");
        let session = &history["sessions"][0];
        assert_eq!(
            (&session["id"], &session["status"]),
            (&json!(id), &json!("cancelled")),
            "{history}"
        );
        assert_eq!(log(&world.home).matches("was left unended").count(), 0);
    }
}

#[test]
fn stopping_says_what_was_under_way() {
    let world = waiting();
    let address = world.home.serve();
    let (_, stream) = begin(&world, &address);
    let stopped = world.run(&["service", "stop"]).expect(0);
    holds(
        &stopped.stdout,
        &["The backend has stopped, with 1 session under way: what there is of them is kept."],
    );
    holds(&stream.finish().body, &["\"error\""]);
}

/// A command that meets a daemon on its way out waits for it, and starts the next one.
#[test]
fn a_command_that_comes_while_the_daemon_ends_gets_the_next_one() {
    let world = World::repeating(SHOP, says(&["It counts crates (app.py:1)."]));
    for _ in 0..5 {
        world.home.serve();
        let pid = world.home.pid();
        signal(pid, Signal::TERM);
        holds(&world.run(&["explain", "."]).expect(0).stdout, &["It counts crates"]);
        assert_ne!(world.home.pid(), pid);
    }
}

#[test]
fn a_hangup_reads_the_configuration_again() {
    let home = Home::offline();
    home.serve();
    let (pid, place) = (home.pid(), home.path().join("config.toml"));
    assert!(!log(&home).contains("DEBUG"));
    let text = fs::read_to_string(&place).expect("it is there");
    fs::write(&place, format!("{text}[logging]\nlevel = \"DEBUG\"\n")).expect("it is writable");
    signal(pid, Signal::HUP);
    until("it was read", || {
        log(&home).contains("the configuration was read again")
    });
    holds(&log(&home), &["the level of the log has changed level=\"DEBUG\""]);
    fs::write(&place, "[logging]\nlevel = ").expect("it is writable");
    signal(pid, Signal::HUP);
    until("it was refused", || {
        log(&home).contains("what held before stays in force")
    });
    holds(&log(&home), &["Failed to parse config: Invalid TOML syntax"]);
    assert!(is_alive(pid), "a daemon outlives its terminal");
}

/// The next session uses the file as it is then. A file that cannot be understood gives an error and ends no running
/// session; the backend forgets it once it is mended.
#[test]
fn a_configuration_that_changes_under_a_running_daemon() {
    let world = waiting();
    let address = world.home.serve();
    let (pid, place) = (world.home.pid(), world.home.path().join("config.toml"));
    let good = fs::read_to_string(&place).expect("it is there");
    let (_, stream) = begin(&world, &address);
    fs::write(&place, "[providers.local\nmodel = ").expect("it is writable");
    let refused = world.run(&["explain", "."]).expect(2);
    holds(
        &refused.stderr,
        &["[error] Failed to parse config: Invalid TOML syntax\nhint: line 1"],
    );
    let refused = http::post(&address, "/execute", &world.body("explain", ".")).expect(503);
    assert_eq!(refused.json()["error"]["code"], "config-invalid");
    world.server.release("go on");
    holds(&stream.finish().body, &["crates (app.py:1)", "\"complete\""]);
    assert_eq!(
        http::get(&address, "/history").expect(200).json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    fs::write(&place, good.replace("\"scripted\"", "\"another\"")).expect("it is writable");
    world.run(&["explain", "."]).expect(0);
    let last = world.server.requests().pop().expect("the model was asked");
    assert_eq!(last.body["model"], "another");
    fs::write(&place, format!("{good}[server]\nauth = \"token\"\n")).expect("it is writable");
    http::get(&address, "/tasks").expect(401);
    world.run(&["history"]).expect(0);
    fs::write(&place, good).expect("it is writable");
    http::get(&address, "/tasks").expect(200);
    assert_eq!(world.home.pid(), pid, "it was the same daemon all the time");
}

#[test]
fn a_daemon_that_was_started_with_a_broken_configuration_recovers_when_it_is_mended() {
    let home = Home::configured("[server]\nauth = ");
    tool(&home, &["service", "start"]).expect(0);
    let address = format!("http://127.0.0.1:{}", home.record()["port"]);
    let refused = http::get(&address, "/tasks").expect(503).json();
    assert_eq!(
        refused["error"]["message"],
        "Failed to parse config: Invalid TOML syntax"
    );
    fs::write(home.path().join("config.toml"), "").expect("it is writable");
    http::get(&address, "/tasks").expect(200);
}

#[test]
fn an_idle_daemon_ends_where_that_is_wanted_and_the_next_command_starts_another() {
    let world = waiting();
    let address = world.home.serve_with(&[("TOOL_TEST_IDLE_MS", "300")]);
    let pid = world.home.pid();
    let (id, stream) = begin(&world, &address);
    // No client listens, and none asks.
    drop(stream);
    std::thread::sleep(Duration::from_millis(1_000));
    assert!(is_alive(pid), "a session is under way");
    world.server.release("go on");
    let stream = http::get(&address, &format!("/stream?session_id={id}"));
    holds(&stream.body, &["\"complete\""]);
    let ended = Instant::now();
    while ended.elapsed() < Duration::from_millis(1_000) {
        http::get(&address, "/api/status").expect(200);
        std::thread::sleep(Duration::from_millis(50));
    }
    until("nobody asks any more", || !is_alive(pid));
    holds(&log(&world.home), &["stopping why=Idle"]);
    assert!(!world.home.path().join("backend.json").exists());
    world.run(&["service", "status"]).expect(3);
    holds(&world.run(&["history"]).expect(0).stdout, &["explain"]);
    assert_ne!(world.home.pid(), pid);
}

/// Commands come at every moment of a daemon that leaves as soon as it may: each is served.
#[test]
fn no_command_is_lost_to_a_daemon_that_leaves() {
    let home = Home::offline();
    for round in 0..6 {
        home.serve_with(&[("TOOL_TEST_IDLE_MS", "20")]);
        std::thread::sleep(Duration::from_millis(40 * round));
        tool(&home, &["history", "--json"]).expect(0);
        tool(&home, &["service", "stop"]);
    }
}

#[test]
fn staying_is_the_default_and_leaving_a_key() {
    let shown = |home: &Home| {
        let shown: Value = serde_json::from_str(&tool(home, &["config", "--json"]).stdout).expect("JSON");
        let settings = shown["settings"].as_array().expect("a list").clone();
        let idle = settings
            .into_iter()
            .find(|setting| setting["key"] == "server.idle_minutes");
        idle.expect("it is listed")["value"].clone()
    };
    assert_eq!(shown(&Home::offline()), Value::Null);
    let local = "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n";
    let home = Home::configured(&format!("{local}[server]\nidle_minutes = 90\n"));
    assert_eq!(shown(&home), 90);
    let refused = tool(
        &Home::configured(&format!("{local}[server]\nidle_minutes = 0\n")),
        &["config"],
    )
    .expect(2);
    holds(&refused.stderr, &["Failed to parse config", "nonzero"]);
}

#[test]
fn a_home_that_was_removed_takes_its_daemon_along() {
    let home = Home::offline();
    home.serve();
    let pid = home.pid();
    fs::rename(home.path(), home.path().with_extension("moved")).expect("the folder is ours");
    until("nobody could find it any more", || !is_alive(pid));
    fs::rename(home.path().with_extension("moved"), home.path()).expect("the folder is ours");
}

#[test]
fn what_a_daemon_leaves_in_its_home_is_the_users_alone() {
    let home = Home::offline();
    home.serve();
    for name in [
        "token",
        "backend.json",
        "backend.pid",
        "backend.lock",
        "backend.sock",
        "logs/backend.log",
        "logs/access.log",
    ] {
        let mode = fs::metadata(home.path().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
}

/// A client that starts the daemon gives up after a while, and must not end it by that.
#[test]
fn a_daemon_that_is_ready_when_nobody_waits_any_more_stays() {
    let home = Home::offline();
    let mut child = home
        .tool(Path::new(NOWHERE), &["__daemon", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    until("it says where it is", || home.path().join("backend.json").exists());
    tool(&home, &["service", "status"]).expect(0);
    tool(&home, &["service", "stop"]).expect(0);
    assert!(child.wait().expect("it ends").success());
}
