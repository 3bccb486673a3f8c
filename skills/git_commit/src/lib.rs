//! `git_commit`: commits, by default only what the session changed.
//!
//! The host chooses the files, asks the user if the policy requires it, and commits; hooks run in its sandbox or not
//! at all. This skill checks the arguments and describes the result.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Deserialize;
use skill_details::CommitDetails;
use skill_sdk::text::{counted, one_line};
use skill_sdk::{Commit, Failure, FunctionMetadata, Host, Outcome, Skill, clean_path, export_skill};

/// Limit for a message in bytes, far beyond what people read.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Limit for the files in the answer.
const FILES_MAX: usize = 100;
/// Limit for the files in the details.
const DETAILED_MAX: usize = 1000;
/// Digits of a shown object id: unambiguous in the largest repositories.
const ID_DIGITS: usize = 12;

/// The skill `git_commit`.
#[derive(Debug)]
pub struct GitCommit;

/// The arguments. The comments of the fields are what the model reads about them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GitCommitArguments {
    /// A subject of at most 72 characters that says what the change does; if there is more to say, an empty line and a
    /// body that says why.
    #[schemars(length(min = 1))]
    message: String,
    /// Exactly these files or directories, relative to the repository root.
    #[serde(default)]
    #[schemars(inner(length(min = 1)), extend("format" = "path"))]
    paths: Vec<String>,
    /// Every change in the repository, untracked files included.
    #[serde(default)]
    all: bool,
}

impl Skill for GitCommit {
    const NAME: &'static str = "git_commit";
    const VERSION: &'static str = "1.0.0";
    const DESCRIPTION: &'static str = "Commits to the current branch: by default just the files that this session \
        changed; `paths` or `all` widen that. Nothing is pushed, hooks run in a sandbox or not at all, and the user may be \
        asked first. Commit only when the user wants it, after a look at git_diff.";
    const EFFECTS: &'static [&'static str] = &["commit-git"];

    type Arguments = GitCommitArguments;

    fn about() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn run(host: &dyn Host, arguments: GitCommitArguments) -> Result<Outcome, Failure> {
        let message = normal_message(&arguments.message)?;
        if arguments.all && !arguments.paths.is_empty() {
            return Err(Failure::invalid("give `paths` or `all`, not both"));
        }
        let mut paths = Vec::new();
        for path in &arguments.paths {
            let path = clean_path(path)?;
            if path.is_empty() {
                return Err(Failure::invalid("the repository root is not a path to commit")
                    .with_hint("set `all` to true to commit everything"));
            }
            paths.push(path);
        }
        let commit = host.git_commit(&message, &paths, arguments.all)?;
        let details = CommitDetails {
            files: commit.files.iter().take(DETAILED_MAX).cloned().collect(),
            files_left_out: commit.files.len().saturating_sub(DETAILED_MAX) as u64,
            commit: commit.id.clone(),
            branch: commit.branch.clone(),
        };
        Ok(Outcome::text(answer_text(&commit, &message)).with_details(&details))
    }
}

/// Normalises the message as git does: no spaces at the ends of lines, no empty lines around it, one line feed at its
/// end.
fn normal_message(given: &str) -> Result<String, Failure> {
    let lines: Vec<&str> = given.lines().map(str::trim_end).collect();
    let message = lines.join("\n").trim_matches('\n').to_owned();
    if message.trim().is_empty() {
        return Err(Failure::invalid("the commit message is empty"));
    }
    if message.len() > MESSAGE_BYTES_MAX || message.contains('\0') {
        return Err(Failure::invalid("the commit message is too long, or is not text"));
    }
    Ok(message + "\n")
}

fn answer_text(commit: &Commit, message: &str) -> String {
    let id = commit.id.get(..ID_DIGITS).unwrap_or(&commit.id);
    let branch = commit.branch.as_deref().unwrap_or("no branch (detached head)");
    let subject = message.lines().next().unwrap_or_default();
    let files = counted(commit.files.len() as u64, "file", "files");
    let mut text = format!(
        "Committed {id} on {branch}: {subject}\nAuthor: {}\n{files}:",
        commit.author
    );
    for path in commit.files.iter().take(FILES_MAX) {
        let _ = write!(text, "\n  {}", one_line(path));
    }
    if commit.files.len() > FILES_MAX {
        let _ = write!(text, "\n  … and {} more", commit.files.len() - FILES_MAX);
    }
    text
}

export_skill!(GitCommit);

#[cfg(test)]
mod tests {
    use skill_sdk::serde_json::json;
    use skill_sdk::testing::{FakeHost, check_description};
    use skill_sdk::{Handler, schema};

    use super::*;

    fn host(files: usize) -> FakeHost {
        let mut host = FakeHost::new::<&str, &str>(&[]);
        host.commit = Some(Commit {
            id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            branch: Some("main".to_owned()),
            author: "Ada <ada@example.org>".to_owned(),
            files: (0..files).map(|n| format!("src/f{n}.py")).collect(),
        });
        host
    }

    #[test]
    fn description() {
        check_description::<GitCommit>();
        // Another schema is another contract with every model: change it knowingly.
        insta::assert_snapshot!(schema::of::<GitCommitArguments>().to_string(), @r#"{"type":"object","properties":{"message":{"type":"string","minLength":1,"description":"A subject of at most 72 characters that says what the change does; if there is more to say, an empty line and a body that says why."},"paths":{"type":"array","items":{"type":"string","minLength":1},"format":"path","description":"Exactly these files or directories, relative to the repository root."},"all":{"type":"boolean","description":"Every change in the repository, untracked files included."}},"required":["message"],"additionalProperties":false}"#);
    }

    #[test]
    fn a_commit_is_told() {
        let host = host(2);
        let arguments = json!({"message": "\nMend the parser  \r\n\r\nIt lost a byte.\n\n"});
        let answer = GitCommit::call(&host, &arguments.to_string()).expect("the commit works");
        insta::assert_snapshot!(answer.text, @r"
        Committed 0123456789ab on main: Mend the parser
        Author: Ada <ada@example.org>
        2 files:
          src/f0.py
          src/f1.py
        ");
        insta::assert_snapshot!(answer.details.expect("it has some"), @r#"{"commit":"0123456789abcdef0123456789abcdef01234567","branch":"main","files":["src/f0.py","src/f1.py"],"files_left_out":0}"#);
        assert_eq!(
            *host.requests.borrow(),
            [r#""Mend the parser\n\nIt lost a byte.\n" [] false"#]
        );
    }

    #[test]
    fn paths_and_all_widen() {
        let host = host(120);
        let answer = GitCommit::call(&host, r#"{"message": "x", "paths": ["./a/", "b.py"]}"#).expect("it works");
        assert!(answer.text.ends_with("\n  … and 20 more"));
        GitCommit::call(&host, r#"{"message": "x", "all": true}"#).expect("it works");
        assert_eq!(
            *host.requests.borrow(),
            [r#""x\n" ["a", "b.py"] false"#, r#""x\n" [] true"#]
        );
    }

    #[test]
    fn what_cannot_be_committed_says_why() {
        let host = host(1);
        let message = |arguments: &str| GitCommit::call(&host, arguments).expect_err("it is refused").message;
        assert_eq!(message(r#"{"message": " \n "}"#), "the commit message is empty");
        assert_eq!(
            message(r#"{"message": "x", "all": true, "paths": ["a"]}"#),
            "give `paths` or `all`, not both"
        );
        assert_eq!(
            message(r#"{"message": "x", "paths": ["."]}"#),
            "the repository root is not a path to commit"
        );
        assert_eq!(
            message(r#"{"message": "x", "paths": ["../a"]}"#),
            "`../a` leaves the repository"
        );
        assert!(host.requests.borrow().is_empty(), "nothing reached the host");
        let refusing = FakeHost::new::<&str, &str>(&[]);
        let failure = GitCommit::call(&refusing, r#"{"message": "x"}"#).expect_err("it is not granted");
        assert_eq!(failure.code, "denied");
    }
}
