//! The user's own command, which comes before every recipe.
//!
//! It comes from `--test-command` or the variable TOOL_TEST_COMMAND, never from a repository. No
//! shell runs: the text is split into words as a shell would split them, and nothing else of a shell is there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use test_results::ResultFormat;

use crate::CallContext;
use crate::imports::recipe;
use tool_boundary::bindings::tool::skill::types::Failure;
use tool_boundary::{failure, hinted};
use tool_core::api::{TEST_COMMAND, TEST_RESULTS};

/// A command of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnCommand {
    pub(super) argv: Vec<String>,
    pub(super) format: ResultFormat,
    /// Globs of result files, relative to the root.
    pub(super) results: Vec<String>,
}

impl OwnCommand {
    /// The command that the session was given; absent where there is none.
    pub(super) fn of(environment: &BTreeMap<String, String>) -> Result<Option<Self>, Failure> {
        let Some(text) = environment.get(TEST_COMMAND).filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        let invalid = |message: String| {
            hinted(
                "invalid-arguments",
                message,
                "the user sets the command with --test-command",
            )
        };
        let argv = shlex::split(text).filter(|argv| !argv.is_empty());
        let argv = argv.ok_or_else(|| invalid("The test command has a quote without its end.".to_owned()))?;
        let results = environment.get(TEST_RESULTS).map_or("exit", String::as_str);
        let (format, results) = match results.strip_prefix("junit:") {
            Some(glob) => (ResultFormat::Junit, vec![glob.to_owned()]),
            None => match results.parse() {
                Ok(ResultFormat::Junit) => return Err(invalid("`junit` needs a glob: `junit:GLOB`.".to_owned())),
                Ok(format) => (format, Vec::new()),
                Err(error) => return Err(invalid(format!("{error}."))),
            },
        };
        Ok(Some(Self { argv, format, results }))
    }

    /// Its program: one of the repository by a path, else one of the machine by its name.
    pub(super) fn program(&self, context: &CallContext) -> Result<PathBuf, Failure> {
        let name = &self.argv[0];
        let not_found = || {
            failure(
                "unavailable",
                format!("`{}` was not found on the PATH.", name.escape_debug()),
            )
        };
        if name.contains('/') {
            let place = context.repository.root().join(name);
            return place.is_file().then_some(place).ok_or_else(|| {
                failure(
                    "unavailable",
                    format!("The test command `{}` is not there.", name.escape_debug()),
                )
            });
        }
        recipe::program(context, name).ok_or_else(not_found)
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn read(command: &str, results: Option<&str>) -> Result<Option<OwnCommand>, String> {
        let mut environment = BTreeMap::from([(TEST_COMMAND.to_owned(), command.to_owned())]);
        environment.extend(results.map(|results| (TEST_RESULTS.to_owned(), results.to_owned())));
        OwnCommand::of(&environment).map_err(|failure| failure.message)
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
}
