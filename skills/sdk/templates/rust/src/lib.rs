//! `{{name}}`: finds the lines that hold a mark, such as `TODO`, draws them, and settles one of them.

use std::collections::BTreeMap;
use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_sdk::text::counted;
use skill_sdk::{EntryKind, Failure, FunctionMetadata, Host, Media, Outcome, Query, Skill, export_skill, schema};

const READS: &[&str] = &["read-repository"];
const WRITES: &[&str] = &["read-repository", "write-repository"];

/// Finds marks.
#[derive(Debug)]
pub struct {{type}};

/// Draws marks.
#[derive(Debug)]
pub struct {{type}}Chart;

/// Settles a mark.
#[derive(Debug)]
pub struct {{type}}Done;

/// The arguments. The comments of the fields are what the model reads about them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Arguments {
    /// The mark to look for. Default: TODO.
    #[schemars(length(min = 1))]
    mark: Option<String>,
    /// A file or a folder to look in, relative to the repository root. Default: all of it.
    under: Option<String>,
}

/// The arguments of the function that changes a file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DoneArguments {
    /// File with the mark, relative to the repository root.
    path: String,
    /// Line of the mark, counted from 1.
    #[schemars(range(min = 1))]
    line: usize,
    /// The mark to settle. Default: TODO.
    #[schemars(length(min = 1))]
    mark: Option<String>,
}

/// One line with a mark.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Mark {
    path: String,
    line: u32,
    text: String,
}

/// The answer for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Details {
    marks: Vec<Mark>,
}

impl Skill for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = "Finds the lines that hold a mark, such as TODO. Use it to see what is left to do.";
    const EFFECTS: &'static [&'static str] = READS;

    type Arguments = Arguments;

    fn run(host: &dyn Host, arguments: Arguments) -> Result<Outcome, Failure> {
        let mark = arguments.mark.as_deref().unwrap_or("TODO");
        let (marks, searched) = find(host, mark, arguments.under.clone().unwrap_or_default())?;
        for found in marks.iter().take(100) {
            host.cite(&found.path, Some(found.line))?;
        }
        let line = |found: &Mark| format!("{}:{}: {}", found.path, found.line, found.text);
        let mut lines: Vec<String> = marks.iter().map(line).collect();
        lines.push(if marks.is_empty() {
            format!("No `{mark}` in {}.", counted(searched, "file", "files"))
        } else {
            let (count, files) = (marks.len() as u64, by_file(&marks).len() as u64);
            format!("{} in {}.", counted(count, "mark", "marks"), counted(files, "file", "files"))
        });
        Ok(Outcome::text(lines.join("\n")).with_details(&Details { marks }))
    }

    fn about() -> FunctionMetadata {
        FunctionMetadata {
            title: Some("Find marks".to_owned()),
            tags: vec!["todo".to_owned()],
            output: Some(schema::of::<Details>()),
            ..FunctionMetadata::default()
        }
    }
}

impl Skill for {{type}}Chart {
    const NAME: &'static str = "{{name}}_chart";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = "Draws how many lines of each file hold a mark, such as TODO, as a diagram.";
    const EFFECTS: &'static [&'static str] = READS;

    type Arguments = Arguments;

    fn run(host: &dyn Host, arguments: Arguments) -> Result<Outcome, Failure> {
        let mark = arguments.mark.as_deref().unwrap_or("TODO");
        let (marks, searched) = find(host, mark, arguments.under.clone().unwrap_or_default())?;
        let files = by_file(&marks);
        let mut diagram = format!("pie title {mark}\n");
        for (path, count) in &files {
            // A person sees this line at once; it is a part of the answer, too.
            host.say(&format!("{path}: {count}\n"));
            diagram.push_str(&format!("\"{path}\" : {count}\n"));
        }
        if !files.is_empty() {
            host.attach(&Media::mermaid(diagram, format!("a pie of the files with `{mark}`")))?;
        }
        Ok(Outcome::text(counted(searched, "file", "files")))
    }
}

impl Skill for {{type}}Done {
    const NAME: &'static str = "{{name}}_done";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = "Settles a mark, such as TODO, in one line of a file: it becomes DONE.";
    const EFFECTS: &'static [&'static str] = WRITES;

    type Arguments = DoneArguments;

    fn run(host: &dyn Host, arguments: DoneArguments) -> Result<Outcome, Failure> {
        let (path, mark) = (arguments.path.as_str(), arguments.mark.as_deref().unwrap_or("TODO"));
        let text = fs::read_to_string(host.path(path)?).map_err(|error| Failure::io(path, &error))?;
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let line = lines.get_mut(arguments.line - 1).filter(|line| line.contains(mark));
        let Some(line) = line else {
            return Err(Failure::not_found(format!("line {} of `{path}` holds no `{mark}`", arguments.line)));
        };
        *line = line.replacen(mark, "DONE", 1);
        // The host compares `text` with the file again when it commits the change.
        host.propose(path, text.as_bytes(), lines.concat().as_bytes())?;
        Ok(Outcome::text(format!("Settled line {} of `{path}`.", arguments.line)))
    }
}

/// The marks beneath a folder, and the number of files that were searched.
fn find(host: &dyn Host, mark: &str, under: String) -> Result<(Vec<Mark>, u64), Failure> {
    let query = Query {
        under,
        recursive: true,
        ..Query::default()
    };
    let entries = host.list(&query)?;
    let (mut marks, mut searched) = (Vec::new(), 0);
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        // A listed file may be gone, or may not be text.
        let Ok(text) = fs::read_to_string(host.repo().join(&entry.path)) else {
            continue;
        };
        let found = text.lines().zip(1..).filter(|(line, _)| line.contains(mark));
        marks.extend(found.map(|(text, line)| Mark {
            path: entry.path.clone(),
            line,
            text: text.trim().to_owned(),
        }));
        searched += 1;
    }
    host.progress(searched, Some(searched), "files searched");
    Ok((marks, searched))
}

fn by_file(marks: &[Mark]) -> BTreeMap<&str, u64> {
    let mut files = BTreeMap::new();
    for mark in marks {
        *files.entry(mark.path.as_str()).or_default() += 1;
    }
    files
}

export_skill!(
    "{{name}}",
    env!("CARGO_PKG_VERSION"),
    "Finds, draws and settles marks such as TODO.",
    [{{type}}, {{type}}Chart, {{type}}Done]
);

#[cfg(test)]
mod tests {
    use skill_sdk::serde_json::json;
    use skill_sdk::testing::{FakeHost, check_description};

    use super::*;

    fn host() -> FakeHost {
        FakeHost::new(&[("a.py", "x = 1  # TODO: mend\n"), ("b.py", "y = 2\n")])
    }

    #[test]
    fn each_function_describes_itself() {
        check_description::<{{type}}>();
        check_description::<{{type}}Chart>();
        check_description::<{{type}}Done>();
    }

    #[test]
    fn it_finds_marks() {
        let host = host();
        let outcome = host.call::<{{type}}>(&json!({})).expect("it works");
        assert_eq!(outcome.text, "a.py:1: x = 1  # TODO: mend\n1 mark in 1 file.");
        assert_eq!(*host.cited.borrow(), [("a.py".to_owned(), Some(1))]);
    }

    #[test]
    fn it_draws_marks() {
        let host = host();
        host.call::<{{type}}Chart>(&json!({})).expect("it works");
        assert_eq!(*host.said.borrow(), "a.py: 1\n");
        assert_eq!(host.attached.borrow().len(), 1);
    }

    #[test]
    fn it_settles_a_mark() {
        let host = host();
        host.call::<{{type}}Done>(&json!({"path": "a.py", "line": 1})).expect("it works");
        assert_eq!(host.staged("a.py").as_deref(), Some(&b"x = 1  # DONE: mend\n"[..]));
    }
}
