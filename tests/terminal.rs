//! On a terminal: the answer is rendered, a line says what the command waits for, and colours are a choice.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tool_model_server::{ModelServer, Round, ScriptedCall, ServerStep};

use crate::providers::scripted;
use crate::support::{Finished, Home, finish, folder, git};

/// Runs a program on a pseudo-terminal of so many columns and prints what it wrote there; its exit code is passed on.
/// Where `REPLY` is set, it is typed at the first question; where `PAUSE` names a folder, a file `asked` is made there
/// at the question, and the reply waits for a file `go`. `EARLY` is typed before anything is asked.
const PTY: &str = r"
import fcntl, os, pty, struct, sys, termios, time
columns, program = int(sys.argv[1]), sys.argv[2:]
reply = os.environ.pop('REPLY', None)
pause = os.environ.pop('PAUSE', None)
early = os.environ.pop('EARLY', None)
pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.execv(program[0], program)
if early is not None:
    os.write(master, early.encode() + b'\n')
written = b''
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    written += piece
    if reply is not None and b'[y/N]' in written:
        if pause:
            open(pause + '/asked', 'x').close()
            while not os.path.exists(pause + '/go'):
                time.sleep(0.01)
        os.write(master, reply.encode() + b'\n')
        reply = None
sys.stdout.buffer.write(written)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Runs `tool` on a terminal.
#[expect(clippy::disallowed_methods, reason = "a terminal is made by a program of its own")]
pub(crate) fn on_terminal(
    home: &Home,
    directory: &Path,
    columns: u16,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Finished {
    let tool = home.tool(directory, &[]);
    let mut command = Command::new("python3");
    command
        .args(["-c", PTY, &columns.to_string(), env!("CARGO_BIN_EXE_tool")])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    for (name, value) in tool.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.envs(variables.iter().copied());
    finish(command.output().expect("there is Python"))
}

const ANSWER: &str = "# Crates\n\nThe module `app.py` counts **crates**, and it does so in a single function that is \
                      short.\n\n| Name | Lines |\n|---|---:|\n| count | 2 |\n";

fn repository() -> tempfile::TempDir {
    folder(&[("app.py", "def count(crates):\n    return len(crates)\n")])
}

#[test]
fn an_answer_is_rendered_within_the_width() {
    let (_server, home) = scripted([Round::text(ANSWER)]);
    let repository = repository();
    let shown = on_terminal(&home, repository.path(), 60, &["explain", ".", "--quiet"], &[]).expect(0);
    let begin = "\x1b[1mCrates\x1b[0m\r\n\r\nThe module \x1b[36mapp.py\x1b[0m counts \x1b[1mcrates\x1b[0m, and it does \
                 so in a single\r\nfunction that is short.\r\n\r\n\x1b[1mName\x1b[0m   \x1b[1mLines\x1b[0m\r\n";
    assert!(shown.stdout.starts_with(begin), "{:?}", shown.stdout);
    assert!(shown.stdout.contains("\r\ncount      2\r\n"), "{:?}", shown.stdout);
}

#[test]
fn a_result_is_rendered_too_and_marks_stand_in_for_colours() {
    let (_server, home) = scripted([Round::text(ANSWER)]);
    let repository = repository();
    home.run(repository.path(), &["explain", "."]).expect(0);
    let shown = on_terminal(&home, repository.path(), 40, &["results"], &[("NO_COLOR", "1")]).expect(0);
    let begin =
        "# Crates\r\n\r\nThe module `app.py` counts **crates**,\r\nand it does so in a single function that\r\nis";
    assert!(shown.stdout.starts_with(begin), "{:?}", shown.stdout);
    assert!(!shown.stdout.contains('\x1b'), "{:?}", shown.stdout);
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let (_server, home) = scripted([Round::text(ANSWER)]);
    let repository = repository();
    let shown = on_terminal(&home, repository.path(), 40, &["explain", "."], &[("TERM", "dumb")]).expect(0);
    assert!(
        shown
            .stdout
            .contains("The module `app.py` counts **crates**, and it does so in a single"),
        "{:?}",
        shown.stdout
    );
    assert!(!shown.stdout.contains('\x1b'), "{:?}", shown.stdout);
}

#[test]
fn a_line_says_what_is_waited_for_and_goes_away() {
    let (server, home) = scripted([Round::new([
        ServerStep::Gate("go on".into()),
        ServerStep::Text("Done.\n".into()),
    ])]);
    let repository = repository();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while server.requests().iter().all(|request| request.method != "POST") {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            std::thread::sleep(std::time::Duration::from_millis(1600));
            server.release("go on");
        });
        let shown = on_terminal(&home, repository.path(), 80, &["explain", "."], &[]).expect(0);
        assert!(
            shown.stdout.contains("waiting for scripted … 1 s"),
            "{:?}",
            shown.stdout
        );
        let (_, after) = shown.stdout.rsplit_once("waiting for scripted").expect("it is there");
        let cleared = after.find("\r\x1b[K").expect("the line is taken away");
        assert!(
            after.find("Done.").is_some_and(|answer| cleared < answer),
            "{:?}",
            shown.stdout
        );
    });
}

/// The output of tests is visible while they run, and stays on the screen once: in the answer.
#[test]
fn what_a_run_prints_stays_on_the_screen_once() {
    let home = Home::offline();
    let manifest = json!({"name": "crates", "scripts": {"test": "echo counting && sleep 1 && echo counted"}});
    let repository = folder(&[("package.json", &manifest.to_string())]);
    let arguments = ["skill", "call", "run_tests", "--allow", "run-process"];
    let shown = on_terminal(&home, repository.path(), 80, &arguments, &[]);
    let kept: Vec<&str> = shown
        .stdout
        .split('\n')
        .map(|line| line.rsplit("\x1b[K").next().unwrap_or(""))
        .collect();
    let times = kept.iter().filter(|line| line.trim() == "counted").count();
    assert_eq!(times, 1, "{:?}", shown.stdout);
}

#[test]
fn a_list_fits_a_narrow_terminal() {
    let home = Home::offline();
    let repository = repository();
    home.run(repository.path(), &["explain", "."]).expect(0);
    for arguments in [&["skill", "list"][..], &["history"][..], &["config"][..]] {
        let shown = on_terminal(&home, repository.path(), 60, arguments, &[]).expect(0);
        let place = repository.path().to_string_lossy().into_owned();
        let own = home.path().to_string_lossy().into_owned();
        for line in shown
            .stdout
            .lines()
            .filter(|line| !line.contains(&place) && !line.contains(&own))
        {
            assert!(line.trim_end().chars().count() <= 60, "tool {arguments:?}: {line:?}");
        }
    }
}

/// On a terminal without cursor movement, progress comes between the lines of the answer and not on them.
#[test]
fn on_a_terminal_of_lines_alone_each_line_is_one() {
    let look = ScriptedCall::new("read_file", json!({"path": "app.py"}));
    let rounds = [
        Round::new([
            ServerStep::Text("Let me look.".into()),
            ServerStep::ToolCalls(vec![look]),
        ]),
        Round::text("It counts (app.py:1)."),
    ];
    let (_server, home) = scripted(rounds);
    let repository = repository();
    let shown = on_terminal(&home, repository.path(), 80, &["explain", "."], &[("TERM", "dumb")]).expect(0);
    assert!(
        shown
            .stdout
            .contains("\r\nLet me look.\r\nskill read_file path=app.py\r\n"),
        "{:?}",
        shown.stdout
    );
}

/// A model that asks for a commit and ends, and a repository to commit in.
fn model_that_commits() -> (ModelServer, Home, tempfile::TempDir) {
    let call = ScriptedCall::new("git_commit", json!({"message": "Count", "paths": ["app.py"]}));
    let (server, home) = scripted([Round::calls([call]), Round::text("That was all.")]);
    let repository = repository();
    git(repository.path(), &["init", "--quiet"]);
    for (name, value) in [("user.name", "Somebody"), ("user.email", "somebody@example.org")] {
        git(repository.path(), &["config", name, value]);
    }
    (server, home, repository)
}

const COMMIT: [&str; 4] = ["refactor", "commit what there is", "--deny", "run-process"];

/// Returns the end of the command after this answer to the question about a commit, and the number of commits then.
fn commit_with_reply(reply: &str) -> (Finished, usize) {
    let (_server, home, repository) = model_that_commits();
    let finished = on_terminal(&home, repository.path(), 80, &COMMIT, &[("REPLY", reply)]);
    let commits = git(repository.path(), &["rev-list", "--all"]);
    (finished, commits.lines().count())
}

#[test]
fn a_question_is_answered_on_the_terminal() {
    let (granted, commits) = commit_with_reply("y");
    assert!(granted.stdout.contains("[y/N]"), "{}", granted.stdout);
    assert!(granted.stdout.contains("That was all."), "{}", granted.stdout);
    assert_eq!((granted.expect(0).code, commits), (0, 1));
    let (refused, commits) = commit_with_reply("n");
    assert!(refused.stdout.contains("That was all."), "{}", refused.stdout);
    assert!(!refused.stdout.contains("is incomplete"), "{}", refused.stdout);
    assert!(!refused.stdout.contains("--allow"), "{}", refused.stdout);
    assert_eq!((refused.expect(0).code, commits), (0, 0));
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let (_server, home, repository) = model_that_commits();
    let variables = [("EARLY", "y"), ("REPLY", "n")];
    let finished = on_terminal(&home, repository.path(), 80, &COMMIT, &variables).expect(0);
    assert!(finished.stdout.contains("That was all."), "{}", finished.stdout);
    assert_eq!(git(repository.path(), &["rev-list", "--all"]), "");
}

/// While a question waits for the user the daemon dies, and another process takes its socket. That process
/// must not get the answer, which carries the secret of the session.
#[test]
fn an_answer_goes_only_to_the_daemon_that_asked() {
    let (_server, home, repository) = model_that_commits();
    let pause = tempfile::tempdir().expect("a folder");
    let place = pause.path().to_str().expect("a path in UTF-8");
    let mut heard = Vec::new();
    let finished = std::thread::scope(|scope| {
        let command = scope.spawn(|| {
            let variables = [("REPLY", "y"), ("PAUSE", place)];
            on_terminal(&home, repository.path(), 80, &COMMIT, &variables)
        });
        while !pause.path().join("asked").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        rustix::process::kill_process(home.pid(), rustix::process::Signal::KILL).expect("it is ours");
        let socket = home.path().join("backend.sock");
        std::fs::remove_file(&socket).expect("a killed daemon leaves it");
        let stranger = UnixListener::bind(&socket).expect("the folder is writable");
        stranger.set_nonblocking(true).expect("it can be asked without waiting");
        std::fs::write(pause.path().join("go"), "").expect("the folder is writable");
        while !command.is_finished() {
            match stranger.accept() {
                Ok((mut connection, _)) => {
                    connection.set_nonblocking(false).expect("a mode");
                    connection.read_to_end(&mut heard).expect("it is closed");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        command.join().expect("the command ends")
    });
    assert_eq!(String::from_utf8_lossy(&heard), "");
    assert_eq!(finished.code, 3, "{}", finished.stdout);
}
