//! A guest with ten functions: a formatter, others that change files, and some that answer in every form.

use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_sdk::{Content, Failure, FunctionMetadata, Host, Media, Outcome, Selection, Skill, export_skill, schema};

const READS: &[&str] = &["read-repository"];
const WRITES: &[&str] = &["read-repository", "write-repository"];

/// A file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FileArguments {
    /// Path relative to the repository root.
    path: String,
}

/// Files of a folder.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FolderArguments {
    /// Folder relative to the repository root. Default: the root.
    #[serde(default)]
    under: String,
    /// Milliseconds to wait after the last file. Default: 0.
    #[serde(default)]
    pause_ms: u64,
}

/// Two paths.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MoveArguments {
    /// Path of the file.
    path: String,
    /// Path that the file gets.
    to: String,
}

/// A text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TextArguments {
    /// The text.
    text: String,
}

/// Removes spaces at the ends of lines.
#[derive(Debug)]
pub struct FormatFiles;

impl Skill for FormatFiles {
    const NAME: &'static str = "format_files";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Removes the spaces at the ends of the lines of all files beneath a folder.";
    const EFFECTS: &'static [&'static str] = WRITES;

    type Arguments = FolderArguments;

    fn run(host: &dyn Host, arguments: FolderArguments) -> Result<Outcome, Failure> {
        let mut changed = Vec::new();
        let selection = Selection {
            under: arguments.under,
            file_bytes_max: 1 << 20,
            text_only: true,
            ..Selection::default()
        };
        let mut failed = None;
        host.read_files(&selection, &mut |path, content| {
            let Content::Whole(bytes) = content else {
                return ControlFlow::Continue(());
            };
            let text = String::from_utf8_lossy(bytes);
            let new: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            if new.as_bytes() != bytes {
                if let Err(failure) = host.propose(path, bytes, new.as_bytes()) {
                    failed = Some(failure);
                    return ControlFlow::Break(());
                }
                changed.push(path.to_owned());
                host.progress(changed.len() as u64, None, path);
            }
            ControlFlow::Continue(())
        })?;
        if arguments.pause_ms > 0 {
            host.say("waiting\n");
            std::thread::sleep(Duration::from_millis(arguments.pause_ms));
        }
        match failed {
            Some(failure) => Err(failure),
            None => Ok(Outcome::text(format!("{} files formatted", changed.len()))),
        }
    }

    fn about() -> FunctionMetadata {
        FunctionMetadata {
            title: Some("Format files".to_owned()),
            operations: vec!["refactor".to_owned()],
            // The host believes this of its own skills only.
            ..FunctionMetadata::with_sources("named")
        }
    }
}

/// Moves a file and makes it executable.
#[derive(Debug)]
pub struct MoveFile;

impl Skill for MoveFile {
    const NAME: &'static str = "move_file";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Moves a file of the repository to another path and makes it executable.";
    const EFFECTS: &'static [&'static str] = WRITES;

    type Arguments = MoveArguments;

    fn run(host: &dyn Host, MoveArguments { path, to }: MoveArguments) -> Result<Outcome, Failure> {
        let base = fs::read(host.path(&path)?).map_err(|error| Failure::io(&path, &error))?;
        host.rename(&path, &to, &base)?;
        host.set_executable(&to, true)?;
        Ok(Outcome::text(format!("moved to {to}")))
    }
}

/// Makes a file executable.
#[derive(Debug)]
pub struct MakeExecutable;

impl Skill for MakeExecutable {
    const NAME: &'static str = "make_executable";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Makes a file of the repository executable and leaves its content as it is.";
    const EFFECTS: &'static [&'static str] = WRITES;

    type Arguments = FileArguments;

    fn run(host: &dyn Host, FileArguments { path }: FileArguments) -> Result<Outcome, Failure> {
        let base = fs::read(host.path(&path)?).map_err(|error| Failure::io(&path, &error))?;
        host.replace(&path, &base)?;
        host.set_executable(&path, true)?;
        Ok(Outcome::text("made executable"))
    }
}

/// Details of [`CountLines`].
#[derive(Debug, Serialize, JsonSchema)]
pub struct LineCount {
    /// Number of lines.
    lines: u64,
}

/// Counts lines, and answers in every form.
#[derive(Debug)]
pub struct CountLines;

impl Skill for CountLines {
    const NAME: &'static str = "count_lines";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Counts the lines of a file and shows a diagram of them.";
    const EFFECTS: &'static [&'static str] = READS;

    type Arguments = FileArguments;

    fn run(host: &dyn Host, FileArguments { path }: FileArguments) -> Result<Outcome, Failure> {
        let text = fs::read_to_string(host.path(&path)?).map_err(|error| Failure::io(&path, &error))?;
        let lines = text.lines().count() as u64;
        host.progress(1, Some(1), &path);
        host.say(&format!("reading {path}\n"));
        host.cite(&path, Some(1))?;
        host.attach(&Media::mermaid(
            format!("graph TD; lines-->{lines}"),
            format!("a graph of {lines} lines"),
        ))?;
        host.attach(&Media {
            media_type: "image/png".to_owned(),
            alternative: "a small picture".to_owned(),
            content: b"\x89PNG\r\n\x1a\n".to_vec(),
        })?;
        Ok(Outcome::text(format!("{lines} lines")).with_details(&LineCount { lines }))
    }

    fn about() -> FunctionMetadata {
        FunctionMetadata {
            output: Some(schema::of::<LineCount>()),
            ..FunctionMetadata::default()
        }
    }
}

/// Gives details that do not fit the schema of its output.
#[derive(Debug)]
pub struct Misfit;

impl Skill for Misfit {
    const NAME: &'static str = "misfit";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Answers with details that its own schema does not allow.";
    const EFFECTS: &'static [&'static str] = &[];

    type Arguments = TextArguments;

    fn run(_: &dyn Host, TextArguments { text }: TextArguments) -> Result<Outcome, Failure> {
        Ok(Outcome::text("misfit").with_details(&std::collections::BTreeMap::from([("lines", text)])))
    }

    fn about() -> FunctionMetadata {
        CountLines::about()
    }
}

/// Writes a file although it declares only reading.
#[derive(Debug)]
pub struct Overreach;

impl Skill for Overreach {
    const NAME: &'static str = "overreach";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Proposes a file although it declares only the effect of reading.";
    const EFFECTS: &'static [&'static str] = READS;

    type Arguments = TextArguments;

    fn run(host: &dyn Host, TextArguments { text }: TextArguments) -> Result<Outcome, Failure> {
        host.stage_file("new.txt", text.as_bytes())?;
        Ok(Outcome::text("written"))
    }
}

macro_rules! echo {
    ($($skill:ident = $name:literal),+) => {
        $(
            /// Answers with its text.
            #[derive(Debug)]
            pub struct $skill;

            impl Skill for $skill {
                const NAME: &'static str = $name;
                const VERSION: &'static str = "1.0.0";
                const DESCRIPTION: &'static str = "Answers with the text that it got, and with its own name before it.";
                const EFFECTS: &'static [&'static str] = &[];

                type Arguments = TextArguments;

                fn run(_: &dyn Host, TextArguments { text }: TextArguments) -> Result<Outcome, Failure> {
                    Ok(Outcome::text(format!("{}: {text}", Self::NAME)))
                }
            }
        )+
    };
}

echo!(
    First = "echo_first",
    Second = "echo_second",
    Third = "echo_third",
    Fourth = "echo_fourth"
);

export_skill!(
    "toolbox",
    "1.0.0",
    "Ten functions in one component.",
    [
        FormatFiles,
        MoveFile,
        MakeExecutable,
        CountLines,
        Misfit,
        Overreach,
        First,
        Second,
        Third,
        Fourth
    ]
);
