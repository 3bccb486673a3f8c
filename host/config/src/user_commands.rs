//! The user's own commands for tests and checks: those that `tool tests set` stores for single repositories, then
//! `[tests]` of the configuration file.
//!
//! Both files are in the user's home, so a repository cannot set a command.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::edit::write_private;
use super::{origin, parse};
use tool_core::api::{ErrorKind, Problem, RunPurpose};

/// Bytes of the file with the commands of single repositories: some thousand of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `[tests]`, and the commands of one repository. Each command is a list of words and runs without a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestsSettings {
    /// Command that runs the tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Format of its results: `exit`, `junit:GLOB`, `tap` or `json:RUNNER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
    /// Command that builds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub build: Vec<String>,
    /// Command that runs a linter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lint: Vec<String>,
    /// Command that checks the formatting of the code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub format: Vec<String>,
    /// Command that checks types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
}

impl TestsSettings {
    fn words(&self, purpose: RunPurpose) -> &Vec<String> {
        match purpose {
            RunPurpose::Tests => &self.command,
            RunPurpose::Build => &self.build,
            RunPurpose::Lint => &self.lint,
            RunPurpose::Format => &self.format,
            RunPurpose::Types => &self.types,
        }
    }

    fn words_mut(&mut self, purpose: RunPurpose) -> &mut Vec<String> {
        match purpose {
            RunPurpose::Tests => &mut self.command,
            RunPurpose::Build => &mut self.build,
            RunPurpose::Lint => &mut self.lint,
            RunPurpose::Format => &mut self.format,
            RunPurpose::Types => &mut self.types,
        }
    }

    fn command(&self, purpose: RunPurpose, origin: CommandOrigin) -> Option<UserCommand> {
        let words = self.words(purpose);
        (!words.is_empty()).then(|| UserCommand {
            words: words.clone(),
            results: self.results.clone().filter(|_| purpose == RunPurpose::Tests),
            origin,
        })
    }

    fn set(&mut self, purpose: RunPurpose, words: Vec<String>, results: Option<String>) {
        *self.words_mut(purpose) = words;
        if purpose == RunPurpose::Tests {
            self.results = results;
        }
    }
}

/// A command of the user for tests or a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCommand {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Format of its results; absent means the exit status.
    pub results: Option<String>,
    /// Where the user has set it.
    pub origin: CommandOrigin,
}

/// Where the user has set a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOrigin {
    /// `tool tests set`, for this repository.
    Repository,
    /// `[tests]` of the configuration file, for every repository.
    File,
}

/// File with the commands of single repositories.
pub fn user_commands_path(home: &Path) -> PathBuf {
    home.join("tests.toml")
}

/// The user's command for this purpose: that of the repository, else that of the configuration file.
///
/// # Errors
///
/// If one of the two files cannot be read or parsed. A missing file has no command.
pub fn user_command(home: &Path, root: &Path, purpose: RunPurpose) -> Result<Option<UserCommand>, Problem> {
    let of_repository = read_repositories(home)?
        .get(&*root.to_string_lossy())
        .and_then(|settings| settings.command(purpose, CommandOrigin::Repository));
    if of_repository.is_some() {
        return Ok(of_repository);
    }
    match origin::read_file(&super::config_path(home)) {
        Ok(text) => Ok(parse(&text)?.tests.command(purpose, CommandOrigin::File)),
        Err(problem) if problem.kind == ErrorKind::ConfigMissing => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Stores a command for a repository.
///
/// # Errors
///
/// If a word contains a NUL byte, `root` is not UTF-8, or the file cannot be read or written.
pub fn set_user_command(
    home: &Path,
    root: &Path,
    purpose: RunPurpose,
    words: Vec<String>,
    results: Option<String>,
) -> Result<(), Problem> {
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Problem::new(ErrorKind::Usage, "A command cannot hold a NUL byte"));
    }
    let mut repositories = read_repositories(home)?;
    let settings = repositories.entry(repository_key(root)?).or_default();
    settings.set(purpose, words, results);
    write_repositories(home, &repositories)
}

/// Removes the command of a repository for this purpose. Returns false if there was none.
///
/// # Errors
///
/// If `root` is not UTF-8, or the file cannot be read or written.
pub fn unset_user_command(home: &Path, root: &Path, purpose: RunPurpose) -> Result<bool, Problem> {
    let mut repositories = read_repositories(home)?;
    let key = repository_key(root)?;
    let Some(settings) = repositories.get_mut(&key) else {
        return Ok(false);
    };
    let was_set = !settings.words(purpose).is_empty();
    settings.set(purpose, Vec::new(), None);
    if *settings == TestsSettings::default() {
        repositories.remove(&key);
    }
    write_repositories(home, &repositories)?;
    Ok(was_set)
}

fn repository_key(root: &Path) -> Result<String, Problem> {
    let text = root.to_str().map(str::to_owned);
    text.ok_or_else(|| Problem::new(ErrorKind::Usage, "The repository's path is not UTF-8"))
}

fn read_repositories(home: &Path) -> Result<BTreeMap<String, TestsSettings>, Problem> {
    let place = user_commands_path(home);
    let invalid = |why: String| {
        Problem::new(ErrorKind::ConfigInvalid, format!("`{}` {why}", place.display()))
            .with_hint("mend or delete it; `tool tests set` writes it anew")
    };
    let file = match fs::File::open(&place) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(invalid(format!("could not be read: {error}"))),
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| invalid(format!("could not be read: {error}")))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(invalid(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    toml::from_str(&text).map_err(|error| invalid(format!("could not be understood: {}", error.message())))
}

fn write_repositories(home: &Path, repositories: &BTreeMap<String, TestsSettings>) -> Result<(), Problem> {
    let place = user_commands_path(home);
    let text = toml::to_string(repositories).expect("text and lists of text are TOML");
    let text = format!("# Your own test commands, written by `tool tests set`.\n{text}");
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("`{}` has no room for more commands", place.display());
        return Err(Problem::new(ErrorKind::Usage, message).with_hint("remove some with `tool tests unset`"));
    }
    write_private(&place, text.as_bytes()).map_err(|error| {
        let message = format!("`{}` could not be written: {error}", place.display());
        Problem::new(ErrorKind::ConfigInvalid, message).with_hint(super::SET_HOME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn found(home: &Path, root: &str, purpose: RunPurpose) -> Option<String> {
        let command = user_command(home, Path::new(root), purpose).expect("both files are valid")?;
        Some(format!(
            "{} {:?} {:?}",
            command.words.join(" "),
            command.results,
            command.origin
        ))
    }

    #[test]
    fn a_repository_comes_before_the_configuration_file() {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path();
        assert_eq!(found(home, "/a", RunPurpose::Tests), None);
        fs::write(
            super::super::config_path(home),
            "[tests]\ncommand = [\"make\", \"check\"]\nresults = \"tap\"\nlint = [\"make\", \"lint\"]\n",
        )
        .expect("it can be written");
        let set = set_user_command(home, Path::new("/a"), RunPurpose::Tests, words("make own"), None);
        set.expect("it can be kept");
        assert_eq!(
            found(home, "/a", RunPurpose::Tests).as_deref(),
            Some("make own None Repository")
        );
        assert_eq!(
            found(home, "/a", RunPurpose::Lint).as_deref(),
            Some("make lint None File"),
            "the form of results is that of the tests"
        );
        assert_eq!(
            found(home, "/b", RunPurpose::Tests).as_deref(),
            Some("make check Some(\"tap\") File")
        );
        assert_eq!(found(home, "/b", RunPurpose::Types), None);
    }

    #[test]
    fn an_unset_command_leaves_the_others() {
        let home = tempfile::tempdir().expect("a folder");
        let (home, root) = (home.path(), Path::new("/a"));
        let set = |purpose, text: &str, results: Option<&str>| {
            set_user_command(home, root, purpose, words(text), results.map(str::to_owned)).expect("it can be kept");
        };
        set(RunPurpose::Tests, "make 'x", Some("junit:out/*.xml"));
        set(RunPurpose::Format, "make fmt", None);
        insta::assert_snapshot!(fs::read_to_string(user_commands_path(home)).expect("it is there"), @r#"
        # Your own test commands, written by `tool tests set`.
        ["/a"]
        command = ["make", "'x"]
        results = "junit:out/*.xml"
        format = ["make", "fmt"]
        "#);
        assert_eq!(unset_user_command(home, root, RunPurpose::Tests), Ok(true));
        assert_eq!(unset_user_command(home, root, RunPurpose::Tests), Ok(false));
        assert_eq!(
            found(home, "/a", RunPurpose::Format).as_deref(),
            Some("make fmt None Repository")
        );
        assert_eq!(unset_user_command(home, root, RunPurpose::Format), Ok(true));
        assert_eq!(
            fs::read_to_string(user_commands_path(home))
                .expect("it is there")
                .lines()
                .count(),
            1,
            "no empty table stays"
        );
    }

    #[test]
    fn a_broken_file_is_a_problem_and_not_a_command() {
        let home = tempfile::tempdir().expect("a folder");
        for text in ["[\"/a\"]\nshell = \"rm\"\n", "x", &"#".repeat(2 << 20)] {
            fs::write(user_commands_path(home.path()), text).expect("it can be written");
            let problem = user_command(home.path(), Path::new("/a"), RunPurpose::Tests).expect_err("it is invalid");
            assert_eq!(problem.kind, ErrorKind::ConfigInvalid);
        }
    }
}
