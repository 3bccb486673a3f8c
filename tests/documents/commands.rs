//! Runs the commands of README and book on the real binary, offline, and compares the output that is shown.
//!
//! A fence `console` holds lines that begin with `$ `, each perhaps followed by output. A line `…` in the output stands
//! for any lines, and `…` within a line for any text. These words may follow the language of a fence:
//!
//! - `needs=REASON`: the block is not run; REASON is one of [`NEEDS`];
//! - `exit=N`: each command of the block exits with N;
//! - `setup=scripted`: a scripted model is started and enabled before the block;
//! - `file=NAME`: the block is a file that the commands after it use.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use regex::Regex;
use tempfile::TempDir;

use super::{Document, read_document, source_root, user_documents};
use crate::conformance::world::free_port;
use crate::support::{Finished, copy_tree, finish, git};

/// Reasons for which a block is not run here, with their meaning.
const NEEDS: [(&str, &str); 10] = [
    ("agent", "another program at the other end of a pipe"),
    ("checkout", "builds the sources, which takes minutes"),
    ("release", "installs a release, which `scripts/test --release` does"),
    ("component", "a skill that was built before"),
    ("lock-file", "a `skills.lock` in the repository"),
    ("minute", "takes half a minute; `tests/sandbox/doctor.rs` runs it"),
    ("model", "a model, or a longer script than the page shows"),
    ("registry", "a registry of components"),
    ("running-session", "a session that runs in another terminal"),
    (
        "toolchain",
        "compilers of other languages; `tests/authoring` runs these commands",
    ),
];

/// Languages of fences that only show something.
const SHOWN: [&str; 5] = ["json", "text", "toml", "yaml", "wit"];

/// A fenced block.
#[derive(Default)]
struct Block {
    language: String,
    needs: Option<String>,
    exit_code: i32,
    setup: Option<String>,
    file: Option<String>,
    text: String,
}

impl Block {
    fn new(page: &str, info: &str) -> Self {
        let mut words = info.split_whitespace();
        let mut block = Self {
            language: words.next().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "needs" => block.needs = Some(value.to_owned()),
                "exit" => block.exit_code = value.parse().expect("an exit code"),
                "setup" => block.setup = Some(value.to_owned()),
                "file" => block.file = Some(value.to_owned()),
                _ => panic!("{page}: unknown word `{word}` of a fence"),
            }
        }
        block
    }

    fn is_run(&self) -> bool {
        self.language == "console" && self.needs.is_none()
    }
}

fn blocks_of(document: &Document) -> Vec<Block> {
    let (mut blocks, mut is_open) = (Vec::new(), false);
    for event in Parser::new(&document.text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                blocks.push(Block::new(&document.path, &info));
                is_open = true;
            }
            Event::Text(text) if is_open => blocks.last_mut().expect("it is open").text.push_str(&text),
            Event::End(TagEnd::CodeBlock) => is_open = false,
            _ => {}
        }
    }
    blocks
}

/// A command line, and the output that the page shows for it.
struct ShownCommand {
    line: String,
    output: String,
}

fn commands_of(block: &Block) -> Vec<ShownCommand> {
    let mut commands: Vec<ShownCommand> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(ShownCommand {
                line: line.to_owned(),
                output: String::new(),
            }),
            (None, Some(command)) if command.output.is_empty() && command.line.ends_with('\\') => {
                command.line.push_str(&format!("\n{line}"));
            }
            (None, Some(command)) => command.output.push_str(&format!("{line}\n")),
            (None, None) => panic!("a block begins with output: {line}"),
        }
    }
    commands
}

/// Output without the parts that differ from run to run.
fn stable_text(text: &str) -> String {
    let uuid = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").expect("a constant");
    let seconds = Regex::new(r"\b[0-9]+(\.[0-9]+)? m?s\b").expect("a constant");
    let text = uuid.replace_all(text, "UUID");
    let text = seconds.replace_all(&text, "N s");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// True if a run printed the output that a page shows.
fn is_shown(shown: &str, printed: &str) -> bool {
    let mut pattern = String::from("^");
    for line in stable_text(shown).lines() {
        if line == "…" {
            pattern.push_str("(?:.*\n)*?");
        } else {
            let parts: Vec<String> = line.split('…').map(regex::escape).collect();
            pattern.push_str(&format!("{}\n", parts.join(".*")));
        }
    }
    pattern.push('$');
    Regex::new(&pattern)
        .expect("it is escaped")
        .is_match(&stable_text(printed))
}

#[test]
fn shown_output_matches_what_it_elides_and_nothing_else() {
    assert!(is_shown("a\n…\nz…\n", "a\nb\nc\nzoo\n"));
    assert!(is_shown("took 3 s\n", "took 0.2 s\n"));
    assert!(!is_shown("a\n…\n", "b\na\n"));
    assert!(!is_shown("a\n", "a\nb\n"));
}

/// A reader of one page: a home of their own with a copy of the sample repository, and free ports in place of the
/// default ones.
struct Reader {
    home: TempDir,
    backend_port: u16,
    model_port: u16,
}

impl Reader {
    fn new() -> Self {
        let reader = Self {
            home: TempDir::new().expect("a temporary folder"),
            backend_port: free_port(),
            model_port: free_port(),
        };
        let shop = reader.home.path().join("shop");
        fs::create_dir(&shop).expect("the folder is writable");
        copy_tree(&source_root().join("docs/sample"), &shop);
        git(&shop, &["init", "--quiet"]);
        reader
    }

    fn with_own_ports(&self, text: &str) -> String {
        text.replace("8000", &self.backend_port.to_string())
            .replace("1234", &self.model_port.to_string())
    }

    /// The output with the default ports, and `~` for the home.
    fn with_default_ports(&self, text: &str) -> String {
        text.replace(&self.backend_port.to_string(), "8000")
            .replace(&self.model_port.to_string(), "1234")
            .replace(&*self.home.path().to_string_lossy(), "~")
    }

    #[expect(clippy::disallowed_methods, reason = "the commands are for people with a shell")]
    fn run_script(&self, script: &Path) -> Finished {
        let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = binary.parent().expect("it lies in a folder");
        let output = Command::new("timeout")
            .args(["300", "bash", "--noprofile", "--norc"])
            .arg(script)
            .current_dir(self.home.path().join("shop"))
            .env_clear()
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("HOME", self.home.path())
            .env("TOOL_BACKEND_PORT", self.backend_port.to_string())
            .stdin(Stdio::null())
            .output();
        finish(output.expect("there is bash"))
    }

    /// Runs the blocks of a page in one shell, and gives a description of each difference from the page.
    fn follow(&self, document: &Document) -> Vec<String> {
        let steps = TempDir::new().expect("a temporary folder");
        let place = |name: String| steps.path().join(name);
        let mut script = String::from("set -o pipefail\n");
        // A page whose commands configure begins without a configuration.
        let has_init = |block: &Block| block.is_run() && block.text.contains("tool init");
        if !blocks_of(document).iter().any(has_init) {
            script.push_str("tool init --offline 2>/dev/null\n");
        }
        let mut expected: Vec<(ShownCommand, i32)> = Vec::new();
        for block in blocks_of(document) {
            if let Some(name) = &block.file {
                fs::write(self.home.path().join("shop").join(name), &block.text).expect("the folder is writable");
            }
            if !block.is_run() {
                continue;
            }
            if block.setup.is_some() {
                let file = place("script.json".to_owned());
                fs::write(&file, scripted_model()).expect("the folder is writable");
                script.push_str(&format!(
                    "tool dev model-server --script {file} --port {port} > {file}.out 2>&1 &\n\
                     until grep --quiet http {file}.out; do sleep 0.1; done\n\
                     tool init --provider local --model scripted --url http://127.0.0.1:{port}/v1 2>/dev/null\n",
                    file = file.display(),
                    port = self.model_port
                ));
            }
            for command in commands_of(&block) {
                let step = place(expected.len().to_string());
                fs::write(&step, self.with_own_ports(&command.line)).expect("the folder is writable");
                let step = step.display();
                script.push_str(&format!(
                    ". {step} > {step}.out 2>&1 < /dev/null\necho $? > {step}.exit\n"
                ));
                expected.push((command, block.exit_code));
            }
        }
        script.push_str("kill $(jobs -p) 2>/dev/null\ntool service stop 2>/dev/null\ntrue\n");
        let script_place = place("all.sh".to_owned());
        fs::write(&script_place, script).expect("the folder is writable");
        let finished = self.run_script(&script_place);
        let mut differences = Vec::new();
        if finished.code != 0 {
            differences.push(format!("{}: the shell ended early: {finished:?}", document.path));
        }
        for (at, (command, exit_code)) in expected.iter().enumerate() {
            let read = |name: String| fs::read_to_string(place(name)).unwrap_or_default();
            let printed = self.with_default_ports(&read(format!("{at}.out")));
            let code = read(format!("{at}.exit")).trim().to_owned();
            let described = format!(
                "{}: `{}` exited with {code} and printed:\n{printed}",
                document.path, command.line
            );
            if code != exit_code.to_string() {
                differences.push(described);
            } else if !command.output.is_empty() && !is_shown(&command.output, &printed) {
                differences.push(format!("{described}\nbut the page shows:\n{}", command.output));
            }
        }
        differences
    }
}

/// The script that the page about the scripted model shows.
fn scripted_model() -> String {
    let page = read_document("docs/src/scripted-model.md".to_owned());
    let mut blocks = blocks_of(&page).into_iter();
    blocks
        .find(|block| block.file.is_some())
        .expect("the page shows a script")
        .text
}

#[test]
fn every_fence_is_run_or_says_why_not() {
    let mut run = 0;
    for document in user_documents() {
        for block in blocks_of(&document) {
            let path = &document.path;
            if let Some(needs) = &block.needs {
                assert!(
                    NEEDS.iter().any(|(name, _)| name == needs),
                    "{path}: needs={needs} is not known"
                );
            }
            if let Some(setup) = &block.setup {
                assert_eq!(setup, "scripted", "{path}");
            }
            let is_known = block.language == "console" || SHOWN.contains(&block.language.as_str());
            assert!(
                is_known,
                "{path}: a block of `{}` is neither run nor shown:\n{}",
                block.language, block.text
            );
            run += if block.is_run() { commands_of(&block).len() } else { 0 };
        }
    }
    assert!(run > 40, "only {run} commands are run");
}

#[test]
fn the_commands_of_readme_and_book_do_what_the_pages_show() {
    let documents = user_documents();
    let pages = documents
        .iter()
        .filter(|page| blocks_of(page).iter().any(Block::is_run));
    let differences: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = pages.map(|page| scope.spawn(|| Reader::new().follow(page))).collect();
        runs.into_iter()
            .flat_map(|run| run.join().expect("a page was followed"))
            .collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n----\n"));
}
