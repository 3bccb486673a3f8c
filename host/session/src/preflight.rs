//! Finds errors that prevent every operation, without starting one: invalid values in the user's configuration, a
//! directory that is not a repository, and errors in the repository's own `.tool.toml`.
//!
//! Starts nothing and asks no questions. `config` parses the file; the start of a session reports the same problems,
//! but without positions in the file.

use std::path::{Path, PathBuf};

use super::request::{describe_refusal, open_repository};
use tool_config::{Environment, PolicySettings};
use tool_core::api::Grant;
use tool_core::api::{ErrorKind, Problem};
use tool_core::authors::Team;
use tool_core::redaction::Redactor;
use tool_repository::{Repository, RepositoryError, RepositoryRules, Rules};

/// Findings of the preflight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preflight {
    /// Error in the user's configuration.
    pub configuration: Option<Problem>,
    /// Warnings about the configuration.
    pub warnings: Vec<Problem>,
    /// Reason why no session works in the directory.
    pub refused: Option<Problem>,
    /// Path of the repository's own file, if it has one, with its settings or the error in it.
    pub root_file: Option<(PathBuf, Result<RepositoryRules, Problem>)>,
}

/// Returns the error in the user's configuration, without examining any repository.
pub fn check_configuration(home: &Path, environment: &Environment) -> Option<Problem> {
    let common = tool_config::load_common(home, environment).ok()?;
    check_policy(&common.policy, &tool_config::config_text(home)).err()
}

/// Examines the configuration beneath `home`, and the repository at `root`. Blocks.
pub fn run_preflight(home: &Path, environment: &Environment, root: &Path) -> Preflight {
    let Ok(common) = tool_config::load_common(home, environment) else {
        // The parser of the file reports this error.
        return Preflight::default();
    };
    let text = tool_config::config_text(home);
    let configuration = check_policy(&common.policy, &text).err();
    let place = root.join(tool_repository::ROOT_FILE);
    // With invalid patterns in the configuration, no repository can be opened, and its own file is not the cause.
    let narrowing = configuration
        .is_none()
        .then(|| read_narrowing(home, &common.policy, root, &place));
    let refused = match &narrowing {
        Some(Err(problem)) if problem.kind == ErrorKind::RefusedRepository => Some(problem.clone()),
        _ => None,
    };
    let is_there = refused.is_none() && place.symlink_metadata().is_ok();
    let root_file = narrowing.filter(|_| is_there).map(|narrowing| (place, narrowing));
    Preflight {
        refused,
        configuration,
        warnings: common
            .vault
            .as_deref()
            .and_then(|vault| missing_vault(vault, &text))
            .into_iter()
            .collect(),
        root_file,
    }
}

fn read_narrowing(home: &Path, policy: &PolicySettings, root: &Path, place: &Path) -> Result<RepositoryRules, Problem> {
    let options = super::repository_options(policy, home);
    if let Err(error @ RepositoryError::Pattern(_)) = Repository::open(root, &options) {
        let text = std::fs::read_to_string(place).unwrap_or_default();
        return Err(with_line(&error, &text));
    }
    open_repository(&root.to_string_lossy(), &options).map(|repository| repository.narrowing().clone())
}

/// Describes an invalid pattern in the repository's file, with its line.
fn with_line(error: &RepositoryError, text: &str) -> Problem {
    let problem = describe_refusal(error);
    let place = match error {
        RepositoryError::Pattern(error) => tool_config::place_of(text, "policy", error.key, Some(&error.pattern)),
        _ => None,
    };
    match (place, &problem.hint) {
        (Some(place), Some(hint)) => {
            let hint = format!("{place}; {hint}");
            problem.with_hint(hint)
        }
        _ => problem,
    }
}

/// Checks the values of `[policy]` that `config` does not interpret.
fn check_policy(policy: &PolicySettings, text: &str) -> Result<(), Problem> {
    for (key, names) in [("allow", &policy.allow), ("deny", &policy.deny)] {
        for name in names {
            name.parse::<Grant>().map_err(|problem| {
                let message = format!("{} in `[policy] {key}`", problem.message);
                add_config_line(Problem { message, ..problem }, key, name, text)
            })?;
        }
    }
    for name in &policy.unredacted {
        let known = Redactor::new(std::slice::from_ref(name), None);
        known.map_err(|problem| add_config_line(problem, "unredacted", name, text))?;
    }
    for member in &policy.team {
        let known = Team::parse(std::slice::from_ref(member));
        known.map_err(|problem| add_config_line(problem, "team", member, text))?;
    }
    Rules::new(&policy.hide, &policy.reveal, &policy.protect).map_err(|error| {
        let problem = Problem::new(ErrorKind::ConfigInvalid, error.to_string());
        add_config_line(problem, error.key, &error.pattern, text)
    })?;
    Ok(())
}

/// Converts a problem to one with the position of the value in the configuration file.
fn add_config_line(problem: Problem, key: &str, value: &str, text: &str) -> Problem {
    let place = tool_config::place_of(text, "policy", key, Some(value)).map(|place| format!("{place} of config.toml"));
    let hint: Vec<String> = place.into_iter().chain(problem.hint).collect();
    let placed = Problem::new(ErrorKind::ConfigInvalid, problem.message);
    if hint.is_empty() {
        placed
    } else {
        placed.with_hint(hint.join(": "))
    }
}

fn missing_vault(vault: &Path, text: &str) -> Option<Problem> {
    if vault.is_dir() {
        return None;
    }
    let message = format!(
        "the notes vault `{}` is no folder: operations go on without notes",
        vault.display()
    );
    let place = tool_config::place_of(text, "context", "vault", None)?;
    let hint = format!("{place} of config.toml: mend or remove `vault` of [context]");
    Some(Problem::new(ErrorKind::VaultMissing, message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(config: &str, root_file: Option<&str>) -> String {
        let home = tempfile::tempdir().expect("a temporary folder");
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(home.path().join("config.toml"), config).expect("the folder is ours");
        if let Some(text) = root_file {
            std::fs::write(root.path().join(".tool.toml"), text).expect("the folder is ours");
        }
        let found = run_preflight(home.path(), &Environment::default(), root.path());
        let said = |problem: &Problem| format!("{}\n  {}", problem.message, problem.hint.as_deref().unwrap_or("-"));
        let mut lines: Vec<String> = found.configuration.iter().chain(&found.warnings).map(said).collect();
        lines.extend(found.root_file.map(|(_, narrowing)| match narrowing {
            Ok(narrowing) => format!("denies {:?}, hides {:?}", narrowing.deny, narrowing.hide),
            Err(problem) => said(&problem),
        }));
        lines.join("\n")
    }

    /// Of a list its first entry.
    fn shortened(shown: &[String]) -> String {
        let cut = |line: &str| match line
            .match_indices(", ")
            .find(|(at, _)| !line[..*at].ends_with(char::is_numeric))
        {
            Some((at, _)) if !line.contains("`.tool.toml`, ") && !line.starts_with("denies") => {
                format!("{} …", &line[..at])
            }
            _ => line.to_owned(),
        };
        shown.join("\n").lines().map(cut).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn values_that_nobody_understands_are_found_with_their_line() {
        let shown = [
            "[policy]\nallow = [\"run-process\", \"instal\"]",
            "[policy]\ndeny = [\"root\"]",
            "[policy]\nhide = [\n  \"a\",\n  \"[bad\",\n]",
            "[policy]\nunredacted = [\"gitub-token\"]",
            "[policy]\nteam = [\n  \"*@example.org\",\n  \"*\",\n]",
            "[context]\nvault = \"/nowhere/at/all\"",
        ]
        .map(|text| looked(text, None));
        insta::assert_snapshot!(shortened(&shown), @"
        Unknown effect `instal` in `[policy] allow`
          line 2, column 25 of config.toml: did you mean `install`? effects are read-repository …
        Unknown effect `root` in `[policy] deny`
          line 2, column 9 of config.toml: effects are read-repository …
        `[bad` in `[policy] hide` is not a valid pattern: unclosed character class; missing ']'
          line 4, column 3 of config.toml
        `gitub-token` in `[policy] unredacted` is no rule
          line 2, column 15 of config.toml: did you mean `github-token`? The rules are private-key …
        `*` in `[policy] team` is neither an address nor a domain
          line 4, column 3 of config.toml: write `ada@example.org` for one author …
        the notes vault `/nowhere/at/all` is no folder: operations go on without notes
          line 2, column 9 of config.toml: mend or remove `vault` of [context]
        ");
    }

    #[test]
    fn the_repositorys_file_is_shown_or_what_is_wrong_with_it() {
        let shown = [
            "[policy]\ndeny = [\"install\"]\nhide = [\"x\"]",
            "[policy]\ndeny = [\"instal\"]",
            "[policy]\nhide = [\"[bad\"]",
            "[policy]\nallow = []",
            "broken",
        ]
        .map(|text| looked("", Some(text)));
        insta::assert_snapshot!(shortened(&shown), @"
        denies [\"install\"], hides [\"x\"]
        `.tool.toml`, `deny`, line 2, column 9: Unknown effect `instal`
          did you mean `install`? effects are read-repository …
        `[bad` in `[policy] hide` of `.tool.toml` is not a valid pattern: unclosed character class; missing ']'
          line 2, column 9; a repository may only narrow: `[policy]` of its `.tool.toml` knows `deny` …
        `.tool.toml`, line 2: `allow` is not for a repository to say
          a repository may only narrow: `[policy]` of its `.tool.toml` knows `deny` …
        `.tool.toml`, line 1: key with no value, expected `=`
          a repository may only narrow: `[policy]` of its `.tool.toml` knows `deny` …
        ");
        assert_eq!(looked("", None), "");
    }
}
