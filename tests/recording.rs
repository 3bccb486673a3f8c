//! The product as a person sees it: a terminal of tmux, recorded at 100 and at 40 columns, and kept as snapshots.
//!
//! Each scene is one command with its typed input. The recording has the lines as the terminal shows them, so that a
//! line that breaks badly is seen in a review.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tool_model_server::{ModelServer, Round, ScriptedCall, ServerStep};

use crate::providers::serve;
use crate::support::{Finished, Home, finish, folder};

/// A scene ends within this time, also on a busy machine.
const SCENE_MAX: Duration = Duration::from_secs(60);

/// Settings of the terminal: the whole history counts, and nothing but the command's own lines is on the screen.
const SETTINGS: &str = "set -g remain-on-exit on\nset -g remain-on-exit-format ''\nset -g status off\n\
                        set -g history-limit 5000\nset -g default-terminal screen-256color\n";

/// Runs a command and says its exit status. Ctrl-C is for the command alone.
const SHELL: &str = r#"trap : INT; "$@"; echo "[exit $?]""#;

/// A terminal in which one command runs.
struct Terminal<'a> {
    /// Place of its settings, and of the socket of the server of tmux.
    folder: &'a Path,
    /// Name of the server, which belongs to this terminal alone.
    server: String,
}

impl<'a> Terminal<'a> {
    fn open(folder: &'a Path, columns: u16, command: &Command) -> Self {
        let terminal = Self {
            folder,
            server: uuid::Uuid::new_v4().simple().to_string(),
        };
        std::fs::write(folder.join("tmux.conf"), SETTINGS).expect("the folder is writable");
        let size = columns.to_string();
        let directory = command.get_current_dir().expect("it has one");
        let mut arguments = vec!["new-session", "-d", "-x", &size, "-y", "50", "-c"];
        arguments.push(directory.to_str().expect("it is UTF-8"));
        arguments.extend(["env", "-i", "TERM=screen-256color"]);
        let variables: Vec<String> = command
            .get_envs()
            .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)))
            .collect();
        arguments.extend(variables.iter().map(String::as_str));
        arguments.extend(["/bin/sh", "-c", SHELL, "sh"]);
        arguments.push(command.get_program().to_str().expect("it is UTF-8"));
        arguments.extend(command.get_args().filter_map(|argument| argument.to_str()));
        terminal.tmux(&arguments).expect(0);
        terminal
    }

    #[expect(clippy::disallowed_methods, reason = "the terminal is a program of its own")]
    fn tmux(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new("tmux");
        let settings = self.folder.join("tmux.conf");
        command
            .env("TMUX_TMPDIR", self.folder)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .args(["-u", "-L", &self.server, "-f"])
            .arg(settings)
            .args(arguments);
        finish(command.output().expect("tmux is installed: scripts/fixtures does it"))
    }

    /// Waits until the screen shows a text, and types at it.
    fn answer(&self, question: &str, keys: &[&str]) {
        self.wait(|| self.screen(&[]).replace('\n', "").contains(question), question);
        self.tmux(&[&["send-keys"], keys].concat()).expect(0);
    }

    fn wait(&self, is_so: impl Fn() -> bool, what: &str) {
        let deadline = Instant::now() + SCENE_MAX;
        while !is_so() {
            assert!(Instant::now() < deadline, "no {what}:\n{}", self.screen(&[]));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Everything that was shown, history included.
    fn screen(&self, flags: &[&str]) -> String {
        let capture = ["capture-pane", "-p", "-S", "-", "-E", "-"];
        self.tmux(&[&capture, flags].concat()).expect(0).stdout
    }

    /// Waits for the end of the command, and returns the screen, which ends with the exit status.
    fn end(self, flags: &[&str]) -> String {
        self.wait(|| self.screen(&[]).contains("[exit "), "end");
        let screen = self.screen(flags);
        let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
        let shown = lines.join("\n");
        format!("{}\n", steady(shown.trim_end()))
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The text without what differs from run to run: identifiers, times and the home.
fn steady(shown: &str) -> String {
    let is_hex = |character: char| character.is_ascii_digit() || ('a'..='f').contains(&character) || character == '-';
    let mut text = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, text: &mut String| {
        let is_id = word.len() >= 8 && word.chars().any(|character| character.is_ascii_digit());
        let masked = word.chars().map(|character| if character == '-' { '-' } else { 'f' });
        if is_id {
            text.extend(masked);
        } else {
            text.push_str(word);
        }
        word.clear();
    };
    for character in shown.chars() {
        if is_hex(character) {
            word.push(character);
        } else {
            flush(&mut word, &mut text);
            text.push(character);
        }
    }
    flush(&mut word, &mut text);
    without_durations(&text)
}

/// Durations are those of the machine: `0.3 s`, `12 s`, `12 ms`.
fn without_durations(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(number.len());
        let unit = number[end..].trim_start();
        let is_duration = number[end..].starts_with(' ') && (is_word(unit, "s") || is_word(unit, "ms"));
        kept.push_str(before);
        kept.push_str(if is_duration { "0" } else { &number[..end] });
        rest = &number[end..];
    }
    kept + rest
}

fn is_word(text: &str, word: &str) -> bool {
    let after = text.strip_prefix(word).and_then(|rest| rest.chars().next());
    text.starts_with(word) && after.is_none_or(|character| !character.is_alphanumeric())
}

const TABLE: &str = "# Crates\n\n`app.py` counts **crates**.\n\n| Function | What it does | Line |\n|---|---|---:|\n\
                     | `count` | returns the number of crates in a list | 1 |\n\
                     | `weigh` | adds up the weights, and says nothing of empty crates | 5 |\n";

const APP: &str = "def count(crates):\n    return len(crates)\n\n\ndef weigh(crates):\n    return sum(crates)\n";

fn edit() -> Round {
    let edits = json!([{"old": "return len(crates)", "new": "return len(list(crates))"}]);
    Round::calls([ScriptedCall::new(
        "write_file",
        json!({"path": "app.py", "edits": edits}),
    )])
}

fn read() -> Round {
    Round::calls([ScriptedCall::new("read_file", json!({"path": "app.py"}))])
}

/// A repository, a home and a model to record.
struct Stage {
    columns: u16,
    home: Home,
    repository: tempfile::TempDir,
    _server: ModelServer,
}

impl Stage {
    fn new(columns: u16, rounds: Vec<Round>) -> Self {
        let server = serve(rounds);
        let config = format!(
            "[providers.local]\nenabled = true\nurl = \"{}\"\nmodel = \"scripted\"\n\n[reports]\ndirectory = \"none\"\n",
            server.url()
        );
        Self {
            columns,
            home: Home::configured(&config),
            repository: folder(&[("app.py", APP)]),
            _server: server,
        }
    }

    fn open(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal<'_> {
        let mut command = self.home.tool(self.repository.path(), arguments);
        command.envs(variables.iter().copied());
        Terminal::open(self.home.path(), self.columns, &command)
    }

    /// A command that asks nothing.
    fn run(&self, arguments: &[&str]) -> String {
        self.open(arguments, &[]).end(&[])
    }
}

fn first_run(columns: u16) -> String {
    let stage = Stage::new(columns, Vec::new());
    std::fs::remove_file(stage.home.path().join("config.toml")).expect("it is there");
    let terminal = stage.open(&["explain", "app.py"], &[]);
    terminal.answer("Number or name", &["analyst", "Enter"]);
    let shown = terminal.end(&[]);
    // Servers of the machine come first among the vendors, and the home and the report have names of their own.
    let (questions, rest) = shown.split_once("Which vendor?").expect("it asks");
    let answered = rest.find("Number or name").expect("it asks");
    let (asked, shown) = rest[answered..].split_once('\n').expect("it is answered");
    let shown = shown.find("Only 1 file").map_or(shown, |at| &shown[at..]);
    let end = shown.find("\nreport").map_or(shown.len(), |at| at + 1);
    format!("{questions}Which vendor?\n…\n{asked}\n…\n{}…\n", &shown[..end])
}

fn with_preview(columns: u16) -> String {
    let stage = Stage::new(
        columns,
        vec![read(), edit(), Round::text("It takes any iterable now (app.py:2).")],
    );
    let previewed = stage.run(&[
        "refactor",
        "take any iterable",
        "--preview",
        "--deny",
        "run-process",
        "--unverified",
    ]);
    let applied = stage.run(&["apply"]);
    let history = stage.run(&["history"]);
    format!("{previewed}\n$ tool apply\n{applied}\n$ tool history\n{history}")
}

fn with_approval(columns: u16) -> String {
    let stage = Stage::new(
        columns,
        vec![read(), edit(), Round::text("It takes any iterable now (app.py:2).")],
    );
    let flags = ["--ask-before-write", "--deny", "run-process", "--unverified"];
    let terminal = stage.open(&[&["refactor", "take any iterable"], &flags[..]].concat(), &[]);
    terminal.answer("[y/N]", &["y", "Enter"]);
    terminal.end(&[])
}

fn interrupted(columns: u16) -> String {
    let gate = Round::new([
        ServerStep::Text("The first half of an answer.\n\n".into()),
        ServerStep::Gate("never".into()),
    ]);
    let stage = Stage::new(columns, vec![gate]);
    let terminal = stage.open(&["ask", "what does it count?"], &[]);
    terminal.answer("The first half of an answer.", &["C-c"]);
    terminal.end(&[])
}

fn recording(columns: u16) -> String {
    let ask = ["ask", "what does it count?"];
    let question = || Stage::new(columns, vec![read(), Round::text(TABLE)]);
    let colours = |variables: &[(&str, &str)]| {
        let shown = question().open(&ask, variables).end(&["-e"]);
        shown.contains('\u{1b}')
    };
    assert!(colours(&[]) && !colours(&[("NO_COLOR", "1")]), "colours are a choice");
    let scenes = [
        ("tool explain app.py    (the first run)", first_run(columns)),
        ("tool ask \"what does it count?\"", question().run(&ask)),
        (
            "tool ask \"what does it count?\"    (with NO_COLOR)",
            question().open(&ask, &[("NO_COLOR", "1")]).end(&[]),
        ),
        (
            "tool refactor \"take any iterable\" --ask-before-write",
            with_approval(columns),
        ),
        ("tool refactor \"take any iterable\" --preview", with_preview(columns)),
        ("tool ask \"what does it count?\"    (and Ctrl-C)", interrupted(columns)),
    ];
    let rule = "=".repeat(usize::from(columns));
    scenes
        .map(|(command, shown)| format!("{rule}\n$ {command}\n{shown}"))
        .join("\n")
}

#[test]
fn a_terminal_of_a_hundred_columns_shows_what_it_did() {
    insta::assert_snapshot!("recording_100", recording(100));
}

#[test]
fn a_terminal_of_forty_columns_breaks_no_line_badly() {
    let shown = recording(40);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
    insta::assert_snapshot!("recording_40", shown);
}
