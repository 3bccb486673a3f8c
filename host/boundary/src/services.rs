//! The work behind the imports that need git, a program or a network. `tool-skill` implements it.

use crate::CallContext;
use crate::bindings::tool::skill as wit;
use crate::bindings::tool::skill::types::Failure;
use crate::budget::{CallBudget, Stop};
use tool_repository::changes::FileChange;

/// The imports that need git, a program or a network. The boundary has checked the grant before it calls one of them.
///
/// Each method works within the time of `call` and notes there whose text its answer holds.
pub trait Services: Send + Sync {
    /// The changes of the repository against a commit.
    fn read_changes(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_read::DiffQuery,
    ) -> Result<wit::git_read::Diff, Failure>;

    /// Makes a commit of `paths`, or of everything that git follows.
    fn create_commit(
        &self,
        call: &CallBudget,
        context: &CallContext,
        message: &str,
        paths: &[String],
        all: bool,
    ) -> Result<wit::git_commit::Commit, Failure>;

    /// Runs the repository's tests. The outer error ends the call.
    fn run_tests(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: wit::tests::Request,
    ) -> Result<Result<wit::tests::Report, Failure>, Stop>;

    /// Installs packages. The outer error ends the call.
    fn install_packages(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: &wit::packages::Request,
    ) -> Result<Result<wit::packages::Report, Failure>, Stop>;

    /// Takes note of a proposal that was judged, before it is put in place.
    fn note_changes(&self, context: &CallContext, files: &[FileChange]);
}
