//! `api_key_command`: runs the user's program that prints a key, for password managers and tokens that expire.
//!
//! No shell is involved. The output is treated as a key: no part of it appears in an error or a log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tool_config::Secret;
use tool_core::api::{ErrorKind, Problem};
use tool_provider::KeyCommand;
use tool_sandbox::environment::find_programs;
use tool_sandbox::{CommandSpec, PrintError, read_printed};

/// Time limit for the program in seconds. A password manager may ask for a fingerprint.
const KEY_COMMAND_SECONDS_MAX: u64 = 10;

/// Limit for a key in bytes. Cloud tokens have some 2 KiB.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// Returns a function that runs such programs in this environment.
pub fn key_command(environment: &BTreeMap<String, String>) -> KeyCommand {
    let environment = environment_of_programs(environment);
    KeyCommand::new(move |words| print_key(words, &environment))
}

/// Variables for password managers and programs of clouds. They name the user's files and services, and hold no keys.
fn environment_of_programs(starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = starter
        .iter()
        .filter(|(name, _)| !tool_config::is_key_variable(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let user = rustix::process::getuid().as_raw();
    let folder = PathBuf::from(format!("/run/user/{user}"));
    if folder.is_dir() {
        variables.insert("XDG_RUNTIME_DIR".to_owned(), folder.display().to_string());
        let bus = folder.join("bus");
        if bus.exists() {
            variables.insert(
                "DBUS_SESSION_BUS_ADDRESS".to_owned(),
                format!("unix:path={}", bus.display()),
            );
        }
    }
    variables
}

fn print_key(words: &[String], environment: &BTreeMap<String, String>) -> Result<Secret, Problem> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(key_command_problem("`api_key_command`", "it names no program"));
    };
    let named = format!("`{program}` of `api_key_command`");
    let place = find_program(program, environment)
        .ok_or_else(|| key_command_problem(&named, "there is no such program on the PATH"))?;
    let command = CommandSpec {
        program: place,
        arguments: arguments.to_vec(),
        directory: PathBuf::from("/"),
        environment: environment.clone(),
    };
    let output = read_printed(&command, Duration::from_secs(KEY_COMMAND_SECONDS_MAX), KEY_BYTES_MAX);
    let output = output.map_err(|error| match error {
        PrintError::Process(error) => key_command_problem(&named, &error.to_string()),
        PrintError::Failed(Some(code)) => key_command_problem(&named, &format!("it ended with status {code}")),
        PrintError::Failed(None) => key_command_problem(&named, "a signal ended it"),
        PrintError::TimedOut => {
            key_command_problem(&named, &format!("it took longer than {KEY_COMMAND_SECONDS_MAX} s"))
        }
        PrintError::TooLong => key_command_problem(&named, "it printed more than a key"),
    })?;
    let text = String::from_utf8(output).map_err(|_| key_command_problem(&named, "it did not print text"))?;
    match text.trim() {
        "" => Err(key_command_problem(&named, "it printed nothing")),
        key if key.contains(|c: char| c.is_control()) => {
            Err(key_command_problem(&named, "it printed more than one line"))
        }
        key => Ok(Secret::new(key)),
    }
}

/// Finds a program: an absolute path as it is, a bare name in `PATH`. A relative path would refer to the repository,
/// and is refused.
fn find_program(program: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let is_bare = !program.contains('/');
    is_bare
        .then(|| find_programs(environment, program).into_iter().next())
        .flatten()
}

fn key_command_problem(what: &str, why: &str) -> Problem {
    Problem::new(ErrorKind::ConfigKeyMissing, format!("No API key: {what} failed: {why}"))
        .with_hint("run the command in a terminal to see what it says; nothing of its output is shown here")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(script: &str) -> Result<Secret, Problem> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let environment = [("ANTHROPIC_API_KEY".to_owned(), "of-another".to_owned())].into();
        print_key(&words, &environment_of_programs(&environment))
    }

    #[test]
    fn one_printed_line_is_the_key() {
        assert_eq!(
            printed("echo \"  k-1$ANTHROPIC_API_KEY \"; echo noise >&2"),
            Ok(Secret::new("k-1"))
        );
    }

    #[test]
    fn everything_else_is_an_error_without_the_output() {
        for (script, why) in [
            ("echo s3cret; exit 2", "it ended with status 2"),
            ("true", "it printed nothing"),
            ("echo s3cret; echo more", "it printed more than one line"),
            ("head -c 20000 /dev/zero | tr '\\0' x", "it printed more than a key"),
        ] {
            let problem = printed(script).expect_err("it is no key");
            assert!(problem.message.ends_with(why), "{problem}");
            assert!(!format!("{problem:?}").contains("s3cret"));
        }
        let missing = print_key(&["no-such-program".to_owned()], &BTreeMap::new());
        assert!(missing.expect_err("there is none").message.contains("no such program"));
        let relative = print_key(&["./key".to_owned()], &BTreeMap::new());
        assert!(relative.is_err(), "it would be the repository's");
    }
}
