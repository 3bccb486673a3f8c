//! The guide, followed to the letter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tool_model_server::{ModelServer, Round, Script};

use super::example::warm_calls;
use super::{Author, target};
use crate::conformance::world::{Wire, calls};
use crate::support::{holds, tree};
use crate::world::assert_is_skill;

const GUIDE: &str = include_str!("../../skills/README.md");

/// One fenced block.
#[derive(Debug)]
struct Block {
    /// The heading of its section; empty before the first.
    heading: String,
    /// `sh`, `rust`, `text`, …
    language: String,
    /// The file that it is.
    path: Option<String>,
    text: String,
}

/// The blocks of a page.
fn blocks_of(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut open) = (String::new(), None::<Block>);
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, None) => {
                if let Some(words) = line.strip_prefix("## ") {
                    words.clone_into(&mut heading);
                }
            }
            (None, Some(info)) => {
                let (language, path) = info.split_once(' ').unwrap_or((info, ""));
                open = Some(Block {
                    heading: heading.clone(),
                    language: language.to_owned(),
                    path: Some(path.to_owned()).filter(|path| !path.is_empty()),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.push_str(&format!("{line}\n")),
        }
    }
    blocks
}

/// The blocks of the guide's sections whose headings begin so.
fn blocks(heading: &str) -> Vec<Block> {
    let mut blocks = blocks_of(GUIDE);
    blocks.retain(|block| block.heading.starts_with(heading) && !block.heading.is_empty());
    blocks
}

/// The file of cases that several sections of a page share: its first one.
fn cases(page: &str) -> String {
    let mut blocks = blocks_of(page).into_iter();
    let cases = blocks.find(|block| block.path.as_deref() == Some("cases.toml"));
    cases.expect("the page has one").text
}

/// Follows a section of a page: runs its commands, writes its files, and compares its output. Gives the folder of the
/// last project.
pub(super) fn follow(author: &Author, page: &str, heading: &str) -> PathBuf {
    let start = author.folder.path().to_owned();
    let (mut place, mut said) = (start.clone(), String::new());
    for block in blocks_of(page).into_iter().filter(|block| block.heading == heading) {
        match (block.language.as_str(), &block.path) {
            ("sh", _) => {
                // Each project is begun in the folder that was empty.
                if block.text.starts_with("tool skill new") {
                    place = start.clone();
                    let name = block.text.split(' ').nth(3).expect("it has a name");
                    let _ = std::fs::remove_dir_all(place.join(name));
                }
                (said, place) = run(author, &place, &block.text);
            }
            ("text", _) => assert_eq!(said, block.text.trim_end(), "{heading}"),
            (_, Some(path)) => {
                std::fs::write(place.join(path), &block.text).expect("the project is writable");
                if ["src/lib.rs", "app.py", "skill.js"].contains(&path.as_str()) {
                    std::fs::write(place.join("cases.toml"), cases(page)).expect("the project is writable");
                }
            }
            (language, None) => panic!("a block of {language} that nobody looks at: {}", block.text),
        }
    }
    place
}

/// Runs lines; where a component was built of the same sources before, `tool skill build` has nothing to do but that.
fn run(author: &Author, place: &Path, lines: &str) -> (String, PathBuf) {
    let is_build = |line: &str| line == "tool skill build";
    if !lines.lines().any(is_build) || place.join("Cargo.toml").exists() || lines.starts_with("tool skill new") {
        return match lines.split_once("tool skill build\n") {
            // The project is made first, so that there are sources to know it by.
            Some((before, after)) if lines.starts_with("tool skill new") && !before.contains("rust") => {
                let (_, place) = author.shell(place, before);
                run(author, &place, &format!("tool skill build\n{after}"))
            }
            _ => author.shell(place, lines),
        };
    }
    // One at a time: each takes a core and a gigabyte.
    static BUILDING: Mutex<()> = Mutex::new(());
    let guard = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = target().join("authoring/components").join(digest(place));
    let name = place.file_name().expect("it has one").to_string_lossy().into_owned();
    let component = place.join(format!("{name}.wasm"));
    if kept.exists() {
        std::fs::copy(&kept, &component).expect("it is readable");
    } else {
        author.shell(place, "tool skill build");
        std::fs::create_dir_all(kept.parent().expect("it has one")).expect("the target folder is writable");
        std::fs::copy(&component, &kept).expect("it was built");
    }
    drop(guard);
    let rest: String = lines
        .lines()
        .filter(|line| !is_build(line))
        .map(|line| format!("{line}\n"))
        .collect();
    author.shell(place, &rest)
}

/// Digest of everything that a component is made of: the sources, the contract, and the program that drives its
/// compiler.
fn digest(place: &Path) -> String {
    let mut parts = Vec::new();
    for (path, (_, content)) in tree(place) {
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        if ["py", "js", "wit"].contains(&extension) && !path.starts_with("fixture") {
            parts.extend([path.as_os_str().as_encoded_bytes(), b"\0", &content, b"\0"].concat());
        }
    }
    parts.extend(include_bytes!("../../cli/src/commands/skill/build.rs"));
    parts.extend(include_bytes!("../../cli/src/commands/skill/build/toolchain.rs"));
    tool_core::digest::sha256_hex(&parts)
}

/// By the guide alone: made, built, tested, added and called, at last by the model of a session.
fn written_and_used(heading: &str) {
    let author = Author::new();
    let place = follow(&author, GUIDE, heading);
    assert_is_skill(&place, "note");
    // The new project is the one that the section begins with.
    let call = ("marks", json!({}));
    warm_calls(
        heading,
        author.home.path(),
        &author.folder.path().join("marks/fixture"),
        &[call],
    );
    explained_by_a_model(&author, &place);
}

#[test]
fn a_skill_in_rust() {
    written_and_used("A skill in Rust");
}

#[test]
fn a_skill_in_python() {
    written_and_used("A skill in Python");
}

#[test]
fn a_skill_in_javascript() {
    written_and_used("A skill in JavaScript");
}

#[test]
fn a_skill_for_many_cores() {
    let author = Author::new();
    let mut place = author.folder.path().to_owned();
    for heading in ["Many files", "What the host checks"] {
        for block in blocks(heading) {
            match &block.path {
                Some(path) => std::fs::write(place.join(path), &block.text).expect("the project is writable"),
                None => (_, place) = author.shell(&place, &block.text),
            }
        }
    }
    // Divided or not, the answer is the same.
    let many = crate::support::folder(&[]);
    for number in 0..3_000 {
        let line = "x".repeat(number);
        std::fs::write(many.path().join(format!("{number:04}.txt")), format!("{line}\n")).expect("it is writable");
    }
    author
        .tool(&place, &["skill", "add", "longest.wasm", "--yes"])
        .expect(0);
    let answer = author
        .tool(many.path(), &["skill", "call", "longest", r#"{"limit": 3}"#])
        .expect(0);
    assert_eq!(answer.stdout, "2999 2999.txt:1\n2998 2998.txt:1\n2997 2997.txt:1\n");
}

#[test]
fn every_block_of_the_guide_is_looked_at() {
    let followed = [
        "A skill in",
        "Many files",
        "What the host checks",
        "Arguments",
        "Several functions",
        "Effects",
    ];
    let all: BTreeSet<&str> = GUIDE
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|heading| !blocks(heading).is_empty())
        .collect();
    let missed: Vec<&&str> = all
        .iter()
        .filter(|heading| !followed.iter().any(|known| heading.starts_with(known)))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// The guest with ten functions is exported in the form that the guide shows.
#[test]
fn several_functions_are_exported_as_the_guide_shows() {
    let form = |text: &str| {
        let call = text.split_once("export_skill!(").expect("it exports").1;
        let arguments = call.split_once(");").expect("it ends").0;
        let (texts, list) = arguments.split_once('[').expect("it lists functions");
        (texts.matches('"').count(), list.trim_end().ends_with(']'))
    };
    let guest = include_str!("../guests/toolbox/src/lib.rs");
    assert_eq!(form(&blocks("Several functions")[0].text), form(guest));
}

/// The example of symbols is one that the SDK's documentation compiles.
#[test]
fn the_example_of_symbols_is_compiled() {
    let sdk = include_str!("../../skills/sdk/src/lib.rs");
    let documented: String = sdk
        .lines()
        .filter_map(|line| Some(format!("{}\n", line.trim_start().strip_prefix("/// ")?)))
        .collect();
    let example = &blocks("Effects")[0].text;
    assert!(documented.contains(example), "{example}");
}

/// The sentence of the section on arguments is the one that the host says, and the figures are those of the host.
#[test]
fn the_guide_says_what_the_host_says() {
    let limits = tool_skill::Limits::DEFAULT;
    let figures = [
        format!("{} MiB of memory", limits.memory_bytes >> 20),
        format!("{} seconds", limits.wall.as_secs()),
        format!("{} MiB of answer", limits.output_bytes >> 20),
        format!("reads at most {} GiB", limits.read_bytes >> 30),
        format!("proposes at most {} MiB", limits.staged_bytes >> 20),
    ];
    holds(GUIDE, &figures.iter().map(String::as_str).collect::<Vec<_>>());
    let author = Author::new();
    let place = author.folder.path().join("note");
    author
        .tool(author.folder.path(), &["skill", "new", "note", "--lang", "rust"])
        .expect(0);
    for block in blocks("A skill in Rust").iter().filter(|block| block.path.is_some()) {
        let path = block.path.as_deref().expect("it was looked at");
        std::fs::write(place.join(path), &block.text).expect("it is writable");
    }
    author.tool(&place, &["skill", "build"]).expect(0);
    let add = [
        "skill",
        "add",
        "note.wasm",
        "--yes",
        "--allow-effects",
        "write-repository",
    ];
    author.tool(&place, &add).expect(0);
    let slip = r#"{"path": "a", "text": "x", "kind": "tood"}"#;
    let refused = author.tool(&place, &["skill", "call", "note", slip]).expect(2);
    holds(&refused.stderr, &[blocks("Arguments")[0].text.trim_end()]);
}

/// A scripted model calls the skill in an explanation: first wrongly, which gives it a user's message, then right.
fn explained_by_a_model(author: &Author, place: &Path) {
    // A file that is there would have to be read first.
    let slip = json!({"path": "ideas.md", "text": "x", "kind": "tood"});
    let right = json!({"path": "ideas.md", "text": "x"});
    let script = Script::new([calls([("note", slip)]), calls([("note", right)]), Round::text("Done.")]);
    let server = ModelServer::start(script).expect("loopback has a free port");
    let config = Wire::Local.config(&server.root());
    std::fs::write(author.home.path().join("config.toml"), config).expect("the home is writable");
    let finished = author
        .tool(place, &["explain", "fixture", "--allow", "write-repository"])
        .expect(0);
    holds(&finished.stdout, &["Done."]);
    let requests = server.requests();
    let said: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
    holds(&said[0], &["Appends a note to a file."]);
    holds(&said[1], &["did you mean `todo`?"]);
    holds(&said[2], &["Added a line to `ideas.md`."]);
}
