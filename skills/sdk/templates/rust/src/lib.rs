//! `{{name}}`: finds the lines that hold a mark, such as `TODO`.

use std::fs;

use schemars::JsonSchema;
use serde::Deserialize;
use skill_sdk::text::counted;
use skill_sdk::{EntryKind, Failure, Host, Outcome, Query, Skill, export_skill};

/// The skill.
#[derive(Debug)]
pub struct {{type}};

/// The arguments. The comments of the fields are what the model reads about them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Arguments {
    /// The mark to look for. Default: TODO.
    #[schemars(length(min = 1))]
    mark: Option<String>,
    /// A file or a folder to look in, relative to the repository root. Default: all of it.
    under: Option<String>,
}

impl Skill for {{type}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = "Finds the lines that hold a mark, such as TODO. Use it to see what is left to do.";
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    type Arguments = Arguments;

    fn run(host: &dyn Host, arguments: Arguments) -> Result<Outcome, Failure> {
        let mark = arguments.mark.as_deref().unwrap_or("TODO");
        let query = Query {
            under: arguments.under.unwrap_or_default(),
            recursive: true,
            ..Query::default()
        };
        let (mut lines, mut files, mut searched) = (Vec::new(), 0, 0);
        for entry in host.list(&query)? {
            if entry.kind != EntryKind::File {
                continue;
            }
            // A listed file may be gone, or may not be text.
            let Ok(text) = fs::read_to_string(host.repo().join(&entry.path)) else {
                continue;
            };
            let before = lines.len();
            let found = text.lines().enumerate().filter(|(_, line)| line.contains(mark));
            lines.extend(found.map(|(at, line)| format!("{}:{}: {}", entry.path, at + 1, line.trim())));
            files += u64::from(lines.len() > before);
            searched += 1;
        }
        let (marks, searched) = (lines.len() as u64, counted(searched, "file", "files"));
        lines.push(match marks {
            0 => format!("No `{mark}` in {searched}."),
            _ => {
                let (marks, files) = (counted(marks, "mark", "marks"), counted(files, "file", "files"));
                format!("{marks} in {files}.")
            }
        });
        Ok(Outcome::text(lines.join("\n")))
    }
}

export_skill!({{type}});

#[cfg(test)]
mod tests {
    use skill_sdk::serde_json::json;
    use skill_sdk::testing::{FakeHost, check_description};

    use super::*;

    #[test]
    fn it_describes_itself() {
        check_description::<{{type}}>();
    }

    #[test]
    fn it_finds_marks() {
        let host = FakeHost::new(&[("a.py", "x = 1  # TODO: mend\n"), ("b.py", "y = 2\n")]);
        let outcome = host.call::<{{type}}>(&json!({})).expect("it works");
        assert_eq!(outcome.text, "a.py:1: x = 1  # TODO: mend\n1 mark in 1 file.");
    }
}
