//! Reads `.tool.toml` at the root of a repository, with which a repository restricts what may be done with it.
//!
//! A repository is not the user, so the file can only restrict: hide and protect names, deny effects, require the full
//! sandbox, mark the content as untrusted. Any other key is an error that names the key. A file that cannot be read is
//! an error too, because a session without it would do things that its author forbids. This module does not know the
//! names of effects.

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{OpenError, Repository};
use tool_core::limits;

/// Patterns in one list, because every file of the repository is compared with every pattern.
const ROOT_FILE_PATTERNS_MAX: usize = 128;

/// Bytes of one pattern, for the same reason.
const ROOT_FILE_PATTERN_BYTES_MAX: usize = 512;

/// Name of the file. It is protected, so that no model writes it.
pub const NAME: &str = ".tool.toml";

/// Advice for every error of this module.
pub const HINT: &str = "a repository may only narrow: `[policy]` of its `.tool.toml` knows `deny`, `hide`, \
    `protect`, `require_sandbox` and `untrusted`; everything else belongs in ~/.tool/config.toml";

/// Restrictions that a repository requests. The default requests none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryRules {
    /// Effects that are denied, whatever the user allows.
    pub deny: Vec<String>,
    /// Globs that are hidden in addition to the tables.
    pub hide: Vec<String>,
    /// Globs that no proposal may touch.
    pub protect: Vec<String>,
    /// True: nothing runs outside of a full sandbox.
    pub require_sandbox: bool,
    /// True: the repository's content is untrusted.
    pub untrusted: bool,
}

impl RepositoryRules {
    /// Adds what another file denies and requires. Its globs belong to another root.
    pub(super) fn join(&mut self, other: Self) {
        self.deny.extend(other.deny);
        self.require_sandbox |= other.require_sandbox;
        self.untrusted |= other.untrusted;
    }

    /// The lists that are not empty, by their keys.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("deny", &self.deny), ("hide", &self.hide), ("protect", &self.protect)];
        let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
        filled.map(|(key, list)| (key, list.as_slice()))
    }
}

/// Reason why the file cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootFileError {
    /// The file cannot be read: it is not a file, is too large, is not text, or leads elsewhere.
    #[error("{0}")]
    Unreadable(String),
    /// The file has a key or a value that it may not have.
    #[error("`.tool.toml`, line {line}: {reason}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Completes the sentence.
        reason: String,
    },
    /// A list or a pattern in it is too long.
    #[error("`.tool.toml`: `{key}` has more than {max} {what}")]
    TooMuch {
        /// `deny`, `hide` or `protect`.
        key: &'static str,
        /// The limit.
        max: usize,
        /// `patterns`, or `bytes in one pattern`.
        what: &'static str,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RootFile {
    policy: RepositoryRules,
}

/// Reads the file through the guarded opening of the repository. Without a file there are no restrictions.
pub(super) fn read_root_file(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<RepositoryRules, RootFileError> {
    let content = match repository.read_within(NAME, limits::ROOT_FILE_BYTES_MAX, cancel) {
        Ok(content) => content,
        Err(OpenError::NotFound { .. }) => return Ok(RepositoryRules::default()),
        Err(error) => return Err(RootFileError::Unreadable(error.to_string())),
    };
    let text = String::from_utf8(content);
    parse(&text.map_err(|_| RootFileError::Unreadable(format!("`{NAME}` is not UTF-8")))?)
}

fn parse(text: &str) -> Result<RepositoryRules, RootFileError> {
    let file: RootFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        RootFileError::Line {
            line: text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1,
            reason: describe_error(error.message()),
        }
    })?;
    let narrowing = file.policy;
    let lists = [
        ("deny", &narrowing.deny),
        ("hide", &narrowing.hide),
        ("protect", &narrowing.protect),
    ];
    for (key, list) in lists {
        let (patterns, bytes) = (ROOT_FILE_PATTERNS_MAX, ROOT_FILE_PATTERN_BYTES_MAX);
        let too_much = |max, what| Err(RootFileError::TooMuch { key, max, what });
        if list.len() > patterns {
            return too_much(patterns, "patterns");
        }
        if list.iter().any(|pattern| pattern.len() > bytes) {
            return too_much(bytes, "bytes in one pattern");
        }
    }
    Ok(narrowing)
}

/// The parser's error; a key that a repository may not set is reported as such.
fn describe_error(message: &str) -> String {
    let key = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'));
    match key {
        Some((key, _)) => format!("`{key}` is not for a repository to say"),
        None => message.lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_may_narrow() {
        let text = "[policy]\ndeny = [\"install\", \"commit-git:tainted\"]\nhide = [\"secret/**\"]\nprotect = \
                    [\"deploy/\"]\nrequire_sandbox = true\nuntrusted = true\n";
        let narrowing = parse(text).expect("all of it narrows");
        assert_eq!(narrowing.deny, ["install", "commit-git:tainted"]);
        assert_eq!(
            (narrowing.hide, narrowing.protect),
            (vec!["secret/**".to_owned()], vec!["deploy/".to_owned()])
        );
        assert!(narrowing.require_sandbox && narrowing.untrusted);
        assert_eq!(parse("# nothing\n"), Ok(RepositoryRules::default()));
    }

    #[test]
    fn everything_else_is_refused_by_its_line_and_key() {
        for (text, line, key) in [
            ("[providers.hosted]\nurl = \"http://evil\"", 1, "providers"),
            ("\n[policy]\nallow = [\"install\"]", 3, "allow"),
            ("[policy]\nreveal = [\".env\"]", 2, "reveal"),
            ("[policy]\ndeny = []\nunredacted = [\"all\"]", 3, "unredacted"),
            ("[policy]\nteam = [\"*@evil.example\"]", 2, "team"),
            ("command = \"sh\"", 1, "command"),
            ("[server]\nport = 1", 1, "server"),
            ("[environment]\nPATH = \"/tmp\"", 1, "environment"),
            ("[context]\nvault = \"/home\"", 1, "context"),
            ("[logging]\nlevel = \"OFF\"", 1, "logging"),
            ("api_key = \"k\"", 1, "api_key"),
        ] {
            let reason = format!("`{key}` is not for a repository to say");
            assert_eq!(parse(text), Err(RootFileError::Line { line, reason }), "{text}");
        }
    }

    #[test]
    fn what_is_no_toml_or_of_another_type_says_where() {
        for (text, line, word) in [
            ("[policy]\ndeny = \"install\"", 2, "sequence"),
            ("[policy]\nuntrusted = \"no\"", 2, "boolean"),
            ("[policy\n", 1, ""),
            ("policy = 3", 1, "map"),
        ] {
            match parse(text) {
                Err(RootFileError::Line { line: found, reason }) => {
                    assert_eq!(found, line, "{text}: {reason}");
                    assert!(reason.contains(word) || reason.contains("struct"), "{text}: {reason}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn lists_and_patterns_are_bounded() {
        let many = format!("[policy]\nhide = [{}]", "\"x\",".repeat(ROOT_FILE_PATTERNS_MAX + 1));
        let long = format!(
            "[policy]\nprotect = [\"{}\"]",
            "x".repeat(ROOT_FILE_PATTERN_BYTES_MAX + 1)
        );
        assert!(matches!(parse(&many), Err(RootFileError::TooMuch { key: "hide", .. })));
        assert!(matches!(
            parse(&long),
            Err(RootFileError::TooMuch { key: "protect", .. })
        ));
    }

    #[test]
    fn a_file_beyond_its_bound_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let long = format!(
            "[policy]\n{}",
            "#".repeat(usize::try_from(limits::ROOT_FILE_BYTES_MAX).expect("it is small"))
        );
        std::fs::write(folder.path().join(NAME), long).expect("the folder is writable");
        let repository = Repository::open(folder.path(), &crate::Options::default());
        let unread = match repository {
            Ok(repository) => read_root_file(&repository, &CancellationToken::new()).is_err(),
            Err(_) => true,
        };
        assert!(unread, "nobody knows what it forbids");
    }
}
