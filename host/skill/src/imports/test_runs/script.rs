//! The `test` script of package.json: arguments that narrow its runner, if the runner is known.

use tool_boundary::Failure;

/// Test runner of a script. All but `Unknown` take a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Jest,
    Vitest,
    Mocha,
    Node,
    Unknown,
}

impl Runner {
    /// The option that selects tests by name.
    fn filter_option(self) -> Option<&'static str> {
        match self {
            Self::Jest | Self::Vitest => Some("-t"),
            Self::Mocha => Some("-g"),
            Self::Node => Some("--test-name-pattern"),
            Self::Unknown => None,
        }
    }
}

/// The arguments that a package manager appends to the script.
pub(super) fn script_arguments(script: &str, filter: Option<&str>, paths: &[String]) -> Result<Vec<String>, Failure> {
    let mut arguments = Vec::new();
    if filter.is_none() && paths.is_empty() {
        return Ok(arguments);
    }
    let runner = narrowable_runner(script)?;
    for argument in filter.iter().copied().chain(paths.iter().map(String::as_str)) {
        refuse_shell_characters(argument)?;
    }
    if let Some(filter) = filter {
        let option = runner
            .filter_option()
            .ok_or_else(|| narrowing_failure(script, "by name"))?;
        // As one argument if the runner supports it, so that no part of the filter can stand alone.
        match runner {
            Runner::Node => arguments.push(format!("{option}={filter}")),
            _ => arguments.extend([option.to_owned(), filter.to_owned()]),
        }
    }
    arguments.extend_from_slice(paths);
    Ok(arguments)
}

fn narrowing_failure(script: &str, how: &str) -> Failure {
    Failure::invalid_arguments(format!(
        "The test script `{}` cannot be narrowed {how}.",
        script.escape_debug()
    ))
    .with_hint("run all tests: leave out `paths` and `filter`")
}

/// The runner that receives arguments which npm appends: the last command of the script.
fn narrowable_runner(script: &str) -> Result<Runner, Failure> {
    let refuse = || narrowing_failure(script, "to a part");
    if script.contains(['|', ';', '>', '<', '`', '$', '(', '\n', '#']) {
        return Err(refuse());
    }
    let commands = script.split("&&").map(str::trim).collect::<Vec<_>>();
    let last = commands.last().copied().unwrap_or_default();
    if last.contains('&') {
        return Err(refuse());
    }
    match find_runner(last) {
        Some(runner) => Ok(runner),
        None if commands.len() == 1 && !last.is_empty() => Ok(Runner::Unknown),
        None => Err(refuse()),
    }
    .and_then(|runner| match runner {
        // These start another program, which would need its own `--`.
        Runner::Unknown if ["npm", "yarn", "pnpm", "make"].contains(&last.split(' ').next().unwrap_or_default()) => {
            Err(refuse())
        }
        // node's options end at the first file, so nothing can be appended to a script that names one.
        Runner::Node if names_files(last) => Err(refuse()),
        runner => Ok(runner),
    })
}

/// True if a command of node names a file: a word that is neither an option nor the value of an option.
fn names_files(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| *word != "node").skip(1);
    while let Some(word) = words.next() {
        if [
            "--import",
            "--require",
            "-r",
            "--loader",
            "--env-file",
            "--test-reporter",
        ]
        .contains(&word)
        {
            words.next();
        } else if !word.starts_with('-') {
            return true;
        }
    }
    false
}

fn find_runner(command: &str) -> Option<Runner> {
    let mut words = command
        .split_whitespace()
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .peekable();
    // `cross-env NAME=value jest` and `npx jest` both start jest.
    while words
        .next_if(|word| word.contains('=') || ["cross-env", "npx", "env"].contains(word))
        .is_some()
    {}
    let program = words.next()?;
    let has = |wanted: &str| command.split_whitespace().any(|word| word == wanted);
    match program {
        "jest" | "jest.js" => Some(Runner::Jest),
        "react-scripts" if has("test") => Some(Runner::Jest),
        "vitest" => Some(Runner::Vitest),
        "mocha" => Some(Runner::Mocha),
        "node" if has("--test") => Some(Runner::Node),
        "node"
            if command
                .split_whitespace()
                .any(|word| word.ends_with("/jest.js") || word.ends_with("/bin/jest")) =>
        {
            Some(Runner::Jest)
        }
        _ => None,
    }
}

/// npm passes the script and its arguments to a shell. New versions quote each argument completely; old versions use
/// double quotes, in which these characters are active.
fn refuse_shell_characters(argument: &str) -> Result<(), Failure> {
    match argument
        .chars()
        .find(|character| ['$', '`', '\\', '"', '!'].contains(character))
    {
        None => Ok(()),
        Some(character) => Err(Failure::invalid_arguments(format!(
            "`{argument}` contains `{character}`, which is not passed to npm."
        ))),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn words(script: &str, filter: Option<&str>, paths: &[&str]) -> String {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        match script_arguments(script, filter, &paths) {
            Ok(arguments) => arguments.join(" "),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn runners_get_their_paths_and_filters() {
        let narrowed = [
            "jest",
            "npx jest --coverage",
            "cross-env NODE_ENV=test jest",
            "tsc -p . && vitest run",
            "./node_modules/.bin/mocha",
            "node --test",
            "node --import tsx --test",
            "node --test test/",
            "node node_modules/jest/bin/jest.js",
            "react-scripts test",
            "ava",
            "jest && eslint .",
            "npm run unit",
            "jest | tee log",
        ]
        .map(|script| format!("{script}: {}", words(script, Some("adds"), &["a.test.js"])));
        insta::assert_snapshot!(narrowed.join("\n"), @r"
        jest: -t adds a.test.js
        npx jest --coverage: -t adds a.test.js
        cross-env NODE_ENV=test jest: -t adds a.test.js
        tsc -p . && vitest run: -t adds a.test.js
        ./node_modules/.bin/mocha: -g adds a.test.js
        node --test: --test-name-pattern=adds a.test.js
        node --import tsx --test: --test-name-pattern=adds a.test.js
        node --test test/: The test script `node --test test/` cannot be narrowed to a part.
        node node_modules/jest/bin/jest.js: -t adds a.test.js
        react-scripts test: -t adds a.test.js
        ava: The test script `ava` cannot be narrowed by name.
        jest && eslint .: The test script `jest && eslint .` cannot be narrowed to a part.
        npm run unit: The test script `npm run unit` cannot be narrowed to a part.
        jest | tee log: The test script `jest | tee log` cannot be narrowed to a part.
        ");
        assert_eq!(words("jest && eslint .", None, &[]), "");
        assert_eq!(words("ava", None, &["a.js"]), "a.js");
    }

    #[test]
    fn nothing_that_a_shell_would_act_on_reaches_npm() {
        for evil in ["$(id)", "`id`", "a\"b", "a\\b", "a!b"] {
            assert!(
                words("jest", Some(evil), &[]).contains("is not passed to npm"),
                "{evil}"
            );
            assert!(words("jest", None, &[evil]).contains("is not passed to npm"), "{evil}");
        }
    }
}
