//! What a guest states about existing files while its call runs, for its proposal. `stage` judges all of it after the
//! call has ended.

use std::collections::BTreeMap;

use crate::Failure;
use crate::Limits;
use crate::budget::CallBudget;
use tool_core::text::visible_name;
use tool_repository::normalise_path;

/// Statements of one call about existing files, by normal path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProposalTerms {
    /// SHA-256 of the content that the guest has read and on which it bases its change.
    pub(crate) bases: BTreeMap<String, String>,
    /// New path of each file that moves.
    pub(crate) renames: BTreeMap<String, String>,
    /// Executable bit of a file after the change.
    pub(crate) executable: BTreeMap<String, bool>,
}

impl ProposalTerms {
    /// True if nothing changes without a file in the stage.
    pub(crate) fn is_empty(&self) -> bool {
        self.renames.is_empty() && self.executable.is_empty()
    }

    /// The paths that change without a file in the stage.
    pub(crate) fn paths(self) -> impl Iterator<Item = String> {
        let moved = self.renames.into_iter().flat_map(|(path, new_path)| [path, new_path]);
        moved.chain(self.executable.into_keys())
    }

    pub(crate) fn replace(&mut self, call: &CallBudget, path: &str, base_sha256: String) -> Result<(), Failure> {
        let path = normalise_file(path)?;
        if !is_digest(&base_sha256) {
            return Err(Failure::invalid_arguments(format!(
                "the digest of `{path}` is not a SHA-256 of 64 lower-case hexadecimal digits"
            )));
        }
        if !call.has_served(&path) {
            return Err(Failure::denied(format!("`{path}` has not been read in this call"))
                .with_hint("read the whole file beneath `/repo` or by `bulk`, then propose the change"));
        }
        self.check_count()?;
        let real = call.real_digest(&path, base_sha256);
        self.bases.insert(path, real);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        call: &CallBudget,
        path: &str,
        new_path: &str,
        base_sha256: String,
    ) -> Result<(), Failure> {
        let (path, new_path) = (normalise_file(path)?, normalise_file(new_path)?);
        if path == new_path || self.renames.values().any(|taken| *taken == new_path) {
            let message = format!("`{path}` cannot be moved to `{new_path}`: this path is taken");
            return Err(Failure::invalid_arguments(message));
        }
        self.replace(call, &path, base_sha256)?;
        self.renames.insert(path, new_path);
        Ok(())
    }

    pub(crate) fn set_executable(&mut self, path: &str, executable: bool) -> Result<(), Failure> {
        let path = normalise_file(path)?;
        self.check_count()?;
        self.executable.insert(path, executable);
        Ok(())
    }

    fn check_count(&self) -> Result<(), Failure> {
        let count = self.bases.len() + self.executable.len();
        if count as u64 >= 2 * Limits::DEFAULT.staged_entries {
            let max = Limits::DEFAULT.staged_entries;
            return Err(Failure::limit(format!("the proposal has more than {max} files")));
        }
        Ok(())
    }
}

fn normalise_file(path: &str) -> Result<String, Failure> {
    match normalise_path(path) {
        Ok(path) if !path.is_empty() => Ok(path),
        Ok(_) => Err(Failure::invalid_arguments("the repository root is no file")),
        Err(error) => {
            let message = format!("`{}` cannot be changed: {error}", visible_name(path));
            Err(Failure::invalid_arguments(message))
        }
    }
}

/// True for a SHA-256 in lower-case hexadecimal digits.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn call() -> std::sync::Arc<CallBudget> {
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        call.keep_served();
        call.note_served("src/a.rs");
        call
    }

    #[test]
    fn only_a_file_that_the_call_has_read_may_be_replaced() {
        let (call, digest) = (call(), "0".repeat(64));
        let mut terms = ProposalTerms::default();
        terms.replace(&call, "src//a.rs", digest.clone()).expect("it was read");
        let code = |result: Result<(), Failure>| result.expect_err("it is refused").kind.code();
        assert_eq!(code(terms.replace(&call, "src/b.rs", digest.clone())), "denied");
        assert_eq!(code(terms.rename(&call, "src/b.rs", "c.rs", digest.clone())), "denied");
        assert_eq!(code(terms.replace(&call, "../a", digest.clone())), "invalid-arguments");
        assert_eq!(
            code(terms.replace(&call, "src/a.rs", "0".repeat(63))),
            "invalid-arguments"
        );
        assert_eq!(
            code(terms.rename(&call, "src/a.rs", "src/a.rs", digest.clone())),
            "invalid-arguments"
        );
        assert_eq!(code(terms.set_executable("/etc/passwd", true)), "invalid-arguments");
        assert_eq!(terms.bases, BTreeMap::from([("src/a.rs".to_owned(), digest)]));
    }

    #[test]
    fn two_files_cannot_move_to_one_path() {
        let (call, digest) = (call(), "0".repeat(64));
        call.note_served("src/b.rs");
        let mut terms = ProposalTerms::default();
        terms
            .rename(&call, "src/a.rs", "c.rs", digest.clone())
            .expect("it was read");
        let refused = terms
            .rename(&call, "src/b.rs", "c.rs", digest)
            .expect_err("it is taken");
        assert_eq!(
            refused.message,
            "`src/b.rs` cannot be moved to `c.rs`: this path is taken"
        );
    }
}
