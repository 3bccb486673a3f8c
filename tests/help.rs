//! The help of every command is a snapshot, and the reference is made of the same texts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Finished, finish};

/// The binary without anything of a user's: no home, no configuration, no terminal.
#[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
fn tool(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tool"));
    command.args(arguments).env_clear().current_dir("/");
    finish(command.output().expect("the binary runs"))
}

/// Every command with its help, as the binary lists them by walking its own description.
fn commands() -> Vec<(String, String)> {
    let reference = tool(&["__reference"]).expect(0).stdout;
    let sections = reference.split("#### `").skip(1);
    let command = |section: &str| {
        let (name, rest) = section.split_once("`\n").expect("a heading ends");
        let (_, rest) = rest.split_once("```text\n").expect("a help text begins");
        let (help, _) = rest.split_once("\n```").expect("a help text ends");
        (name.to_owned(), help.to_owned())
    };
    sections.map(command).collect()
}

/// The arguments that mean a command, for example `["skill", "call"]`.
fn words(command: &str) -> Vec<&str> {
    command.split(' ').skip(1).collect()
}

#[test]
fn every_commands_help_is_a_snapshot() {
    let commands = commands();
    assert!(commands.len() > 20, "the walk has found {} commands", commands.len());
    let mut text = String::new();
    for (name, listed) in &commands {
        let mut arguments = words(name);
        arguments.push("--help");
        let help = tool(&arguments).expect(0).stdout;
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        assert_eq!(&lines.join("\n"), listed, "`{name} --help` and the reference differ");
        text.push_str(&format!("==== {name} --help\n{listed}\n\n"));
    }
    insta::assert_snapshot!("help", text);
}

#[test]
fn every_command_has_examples_that_name_it() {
    for (name, help) in commands() {
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("`{name}` has no examples"));
        assert!(
            examples.contains(&name),
            "the examples of `{name}` do not show it:\n{examples}"
        );
    }
}

#[test]
fn help_with_a_command_is_the_same_as_its_flag() {
    let by_flag = tool(&["skill", "call", "--help"]).expect(0).stdout;
    assert_eq!(tool(&["help", "skill", "call"]).expect(0).stdout, by_flag);
}

#[test]
fn the_reference_is_that_of_the_binary() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference.md");
    let text = std::fs::read_to_string(&place).expect("there is a reference");
    let (before, rest) = text.split_once(BEGIN).expect("it has a place for the texts");
    let (there, after) = rest.split_once(END).expect("the reference ends");
    let reference = format!("\n\n{}\n\n", tool(&["__reference"]).expect(0).stdout.trim_end());
    if there == reference {
        return;
    }
    assert!(
        rewrites(),
        "the reference is not that of the binary: run `scripts/reference`"
    );
    std::fs::write(&place, format!("{before}{BEGIN}{reference}{END}{after}")).expect("it can be written");
}

const BEGIN: &str = "<!-- reference:begin, by scripts/reference -->";
const END: &str = "<!-- reference:end -->";

#[expect(clippy::disallowed_methods, reason = "the switch that also makes insta write")]
pub(crate) fn rewrites() -> bool {
    std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always")
}

/// A page for every command, each of them one that `man` would find.
#[test]
fn manual_pages_cover_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pages = folder.path().join("man1");
    tool(&["man", "--dir", pages.to_str().expect("UTF-8")]).expect(0);
    for (name, _) in commands() {
        let page: PathBuf = pages.join(format!("{}.1", name.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.contains(".TH "), "{}", page.display());
    }
    let page = tool(&["man"]).expect(0).stdout;
    assert!(page.contains(".SH NAME") && page.contains("test\\-gen"), "{page}");
}

#[test]
fn a_completion_script_knows_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = tool(&["completions", shell]).expect(0).stdout;
        for name in ["explain", "test-gen", "doctor", "history"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
        assert!(!script.is_empty());
    }
    let script = tool(&["completions", "bash"]).expect(0).stdout;
    let folder = crate::support::folder(&[("tool.bash", script.as_str())]);
    let complete = "source tool.bash; COMP_WORDS=(tool exp); COMP_CWORD=1; _tool tool exp tool; echo ${COMPREPLY[@]}";
    #[expect(clippy::disallowed_methods, reason = "the script runs in the shell that it is for")]
    let mut bash = Command::new("bash");
    let completed = finish(
        bash.args(["-c", complete])
            .current_dir(folder.path())
            .output()
            .expect("there is bash"),
    );
    assert_eq!(completed.stdout.trim(), "explain", "{}", completed.stderr);
}
