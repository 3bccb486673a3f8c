//! The work behind imports that need git, a program, a network or files of the user. `tool-skill` implements it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bindings::tool::skill as wit;
use crate::budget::CallBudget;
use crate::contents::ContentIndex;
use crate::secrets::BoundSecret;
use crate::transport::HttpTransport;
use crate::{CallContext, Failure, ImportError};
use tool_core::api::SecretName;
use tool_repository::changes::FileChange;

/// Imports that need more than the boundary itself. The boundary checks the grant before it calls one of these methods.
///
/// Each method stays within the time of `call`, and notes there from where the text of its answer comes.
pub trait Services: Send + Sync {
    /// The changes of the repository against a commit.
    fn read_changes(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_read::DiffQuery,
    ) -> Result<wit::git_read::Diff, Failure>;

    /// One page of the commits that lead to a revision.
    fn read_log(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::LogQuery,
    ) -> Result<wit::git_history::LogPage, Failure>;

    /// One commit with its changes.
    fn show_commit(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::ShowQuery,
    ) -> Result<wit::git_history::CommitDiff, Failure>;

    /// The commits that last changed the lines of a file.
    fn blame_lines(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::BlameQuery,
    ) -> Result<wit::git_history::BlamePage, Failure>;

    /// Commits `paths`, or all changes to files that git tracks.
    fn create_commit(
        &self,
        call: &CallBudget,
        context: &CallContext,
        message: &str,
        paths: &[String],
        all: bool,
    ) -> Result<wit::git_commit::Commit, Failure>;

    /// Runs the repository's tests.
    fn run_tests(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: wit::tests::Request,
    ) -> Result<Vec<wit::tests::Suite>, ImportError>;

    /// Installs packages.
    fn install_packages(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: &wit::packages::Request,
    ) -> Result<wit::packages::Report, ImportError>;

    /// The settings that the user has written for a component. The error is for the guest.
    fn settings(&self, component: &str) -> Result<Map<String, Value>, String>;

    /// A secret of the user. The error is for the guest.
    fn secret(&self, name: SecretName) -> Result<BoundSecret, String>;

    /// The stored values of a component in the repository with this root. The error is for the guest.
    fn open_store(&self, component: &str, root: &Path) -> Result<Box<dyn KeyValueStore>, String>;

    /// Answers questions about symbols; absent if this process has no parser.
    fn symbols(&self) -> Option<&dyn SymbolLookup>;

    /// Says which files a search can leave out; absent if this process has no index.
    fn contents(&self) -> Option<Arc<dyn ContentIndex>>;

    /// Sends requests; absent if this process makes no connections.
    fn http(&self) -> Option<&dyn HttpTransport>;

    /// Shows changes as a diff, for a question to the user.
    fn describe_changes(&self, files: &[FileChange]) -> String;

    /// Notes a proposal that was accepted, before it is put in place.
    fn note_changes(&self, context: &CallContext, files: &[FileChange]);
}

/// Definitions and uses of names in the files of a repository. The daemon implements it.
///
/// It opens files through the call's repository, stops with the call's token, and bounds each answer. The boundary
/// checks the grant before, and notes the files of the answer afterwards.
pub trait SymbolLookup: Send + Sync {
    /// One page of the definitions of a name.
    fn find_definitions(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::symbols::Query,
    ) -> Result<wit::symbols::DefinitionPage, Failure>;

    /// One page of the definitions and uses of a name.
    fn find_references(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::symbols::Query,
    ) -> Result<wit::symbols::ReferencePage, Failure>;

    /// The definitions of a file, ordered by line.
    fn list_definitions(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
    ) -> Result<Vec<wit::symbols::Definition>, Failure>;

    /// The uses of names in some lines of a file, in their order.
    fn list_uses(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Vec<wit::symbols::Reference>, Failure>;
}

/// Values of a skill that are stored for one repository. Each method reads or writes immediately. Errors are ends of
/// sentences.
pub trait KeyValueStore: Send {
    /// The value of a key.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, String>;

    /// Sets the value of a key, within the limits of the store.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String>;

    /// Removes a key.
    fn delete(&self, key: &str) -> Result<(), String>;

    /// The keys, sorted.
    fn keys(&self) -> Result<Vec<String>, String>;
}
