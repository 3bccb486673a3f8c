//! The user's own test command, which takes precedence over all recipes.
//!
//! It comes from `--test-command` or the variable TOOL_TEST_COMMAND, else from `tool tests set`, else from `[tests]`
//! in the configuration file, and never from a repository. No shell runs: the text of the first two is split into
//! words as a shell does, without any other feature of a shell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use test_results::ResultFormat;

use crate::CallContext;
use crate::imports::recipe;
use tool_boundary::{Failure, FailureKind};
use tool_config::CommandOrigin;
use tool_core::api::{RunPurpose, TEST_COMMAND, TEST_RESULTS};

/// A command of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnCommand {
    pub(super) argv: Vec<String>,
    pub(super) format: ResultFormat,
    /// Globs of result files, relative to the root.
    pub(super) results: Vec<String>,
    /// Where the user has set it, in words.
    pub(super) reason: &'static str,
}

impl OwnCommand {
    /// Finds the command for a session in a repository.
    pub(super) fn for_session(context: &CallContext, purpose: RunPurpose) -> Result<Option<Self>, Failure> {
        let repository = &context.repository;
        Self::find_command(
            &context.environment,
            repository.state_directory(),
            repository.root(),
            purpose,
        )
    }

    /// Finds the command in the environment, or else in a file in the user's home.
    pub(super) fn find_command(
        environment: &BTreeMap<String, String>,
        home: Option<&Path>,
        root: &Path,
        purpose: RunPurpose,
    ) -> Result<Option<Self>, Failure> {
        let text = environment.get(TEST_COMMAND).filter(|text| !text.trim().is_empty());
        if let Some(text) = text.filter(|_| purpose == RunPurpose::Tests) {
            let argv = shlex::split(text).filter(|argv| !argv.is_empty());
            let argv =
                argv.ok_or_else(|| invalid_command("The test command has a quote without its end.".to_owned()))?;
            let results = environment.get(TEST_RESULTS).map(String::as_str);
            return Self::new(argv, results, "the user's own command").map(Some);
        }
        let Some(home) = home else { return Ok(None) };
        let found = tool_config::user_command(home, root, purpose).map_err(|problem| Failure {
            kind: FailureKind::from_code(problem.kind.code()),
            message: format!("{}.", problem.message),
            hint: problem.hint,
        })?;
        let Some(found) = found else { return Ok(None) };
        let reason = match found.origin {
            CommandOrigin::Repository => "the user's own command, by `tool tests set`",
            CommandOrigin::File => "the user's own command, in [tests] of config.toml",
        };
        Self::new(found.words, found.results.as_deref(), reason).map(Some)
    }

    fn new(argv: Vec<String>, results: Option<&str>, reason: &'static str) -> Result<Self, Failure> {
        let (format, results) = read_form(results.unwrap_or("exit")).map_err(invalid_command)?;
        Ok(Self {
            argv,
            format,
            results,
            reason,
        })
    }

    /// Its program: a file of the repository by path, or a program on this machine by name.
    pub(super) fn program(&self, context: &CallContext) -> Result<PathBuf, Failure> {
        let name = &self.argv[0];
        let not_found = || Failure::unavailable(format!("`{}` was not found on the PATH.", name.escape_debug()));
        if name.contains('/') {
            let place = context.repository.root().join(name);
            return place.is_file().then_some(place).ok_or_else(|| {
                Failure::unavailable(format!("The test command `{}` is not there.", name.escape_debug()))
            });
        }
        recipe::find_program(context, name).ok_or_else(not_found)
    }
}

/// Parses a format of results: the format itself, and the globs of result files.
///
/// # Errors
///
/// A sentence about the mistake.
pub fn read_form(form: &str) -> Result<(ResultFormat, Vec<String>), String> {
    match form.strip_prefix("junit:") {
        Some(glob) => Ok((ResultFormat::Junit, vec![glob.to_owned()])),
        None => match form.parse() {
            Ok(ResultFormat::Junit) => Err("`junit` needs a glob: `junit:GLOB`.".to_owned()),
            Ok(format) => Ok((format, Vec::new())),
            Err(error) => Err(format!("{error}.")),
        },
    }
}

fn invalid_command(message: String) -> Failure {
    let hint = "the user sets the command with `--test-command`, `tool tests set` or [tests] in config.toml";
    Failure::invalid_arguments(message).with_hint(hint)
}

#[cfg(test)]
mod unit {
    use super::*;

    fn read(command: &str, results: Option<&str>) -> Result<Option<OwnCommand>, String> {
        let mut environment = BTreeMap::from([(TEST_COMMAND.to_owned(), command.to_owned())]);
        environment.extend(results.map(|results| (TEST_RESULTS.to_owned(), results.to_owned())));
        OwnCommand::find_command(&environment, None, Path::new("/"), RunPurpose::Tests)
            .map_err(|failure| failure.message)
    }

    #[test]
    fn a_command_is_split_into_words_and_nothing_is_expanded() {
        let own = read("make 'a b' $HOME *.c && id", None)
            .expect("it is one")
            .expect("it is set");
        assert_eq!(own.argv, ["make", "a b", "$HOME", "*.c", "&&", "id"]);
        assert_eq!(own.format, ResultFormat::Exit);
        assert_eq!(read("  ", None), Ok(None));
        assert_eq!(
            read("make 'a", None),
            Err("The test command has a quote without its end.".to_owned())
        );
    }

    #[test]
    fn results_have_a_known_form() {
        let own = |results| read("make check", Some(results)).map(|own| own.expect("it is set"));
        assert_eq!(
            own("junit:out/*.xml").map(|own| own.results),
            Ok(vec!["out/*.xml".to_owned()])
        );
        assert_eq!(own("tap").map(|own| own.format), Ok(ResultFormat::Tap));
        assert_eq!(own("json:go").map(|own| own.format), Ok(ResultFormat::Go));
        assert!(own("junit").is_err_and(|message| message.contains("junit:GLOB")));
        assert!(own("xml").is_err_and(|message| message.contains("no result format")));
    }

    #[test]
    fn the_commands_of_the_home_come_after_the_flag_and_serve_checks_as_well() {
        let home = tempfile::tempdir().expect("a folder");
        let root = Path::new("/repository");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        std::fs::write(
            tool_config::config_path(home.path()),
            "[tests]\ncommand = [\"make\", \"all\"]\n",
        )
        .expect("writable");
        let found = |environment: &BTreeMap<String, String>, purpose| {
            let own =
                OwnCommand::find_command(environment, Some(home.path()), root, purpose).expect("all are valid")?;
            Some(format!("{} ({})", own.argv.join(" "), own.reason))
        };
        let none = BTreeMap::new();
        assert_eq!(
            found(&none, RunPurpose::Tests).as_deref(),
            Some("make all (the user's own command, in [tests] of config.toml)")
        );
        for (purpose, text) in [(RunPurpose::Tests, "make check"), (RunPurpose::Lint, "make lint")] {
            tool_config::set_user_command(home.path(), root, purpose, words(text), None).expect("it is kept");
        }
        assert_eq!(
            found(&none, RunPurpose::Tests).as_deref(),
            Some("make check (the user's own command, by `tool tests set`)")
        );
        let flag = BTreeMap::from([(TEST_COMMAND.to_owned(), "make flag".to_owned())]);
        assert_eq!(
            found(&flag, RunPurpose::Tests).as_deref(),
            Some("make flag (the user's own command)")
        );
        assert_eq!(
            found(&flag, RunPurpose::Lint).as_deref(),
            Some("make lint (the user's own command, by `tool tests set`)")
        );
    }
}
