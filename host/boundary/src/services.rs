//! The work behind the imports that need git, a program, a network or files of the user. `tool-skill` implements it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::CallContext;
use crate::bindings::tool::skill as wit;
use crate::bindings::tool::skill::types::Failure;
use crate::budget::{CallBudget, Stop};
use crate::contents::ContentIndex;
use crate::secrets::BoundSecret;
use crate::transport::HttpTransport;
use tool_core::api::SecretName;
use tool_repository::changes::FileChange;

/// The imports that need more than the boundary itself. The boundary has checked the grant before it calls one of them.
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

    /// One page of the commits before a revision.
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

    /// The commits that brought the lines of a file.
    fn blame_lines(
        &self,
        call: &CallBudget,
        context: &CallContext,
        query: &wit::git_history::BlameQuery,
    ) -> Result<wit::git_history::BlamePage, Failure>;

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
    ) -> Result<Result<Vec<wit::tests::Suite>, Failure>, Stop>;

    /// Installs packages. The outer error ends the call.
    fn install_packages(
        &self,
        call: &CallBudget,
        context: &CallContext,
        request: &wit::packages::Request,
    ) -> Result<Result<wit::packages::Report, Failure>, Stop>;

    /// The settings that the user has written for a component. The error is for the guest.
    fn settings(&self, component: &str) -> Result<Map<String, Value>, String>;

    /// A secret of the user. The error is for the guest.
    fn secret(&self, name: SecretName) -> Result<BoundSecret, String>;

    /// The lasting values of a component in the repository with this root. The error is for the guest.
    fn open_store(&self, component: &str, root: &Path) -> Result<Box<dyn KeyValueStore>, String>;

    /// Reads symbols; absent where this process has no parser.
    fn symbols(&self) -> Option<&dyn SymbolLookup>;

    /// Tells which files a search can leave out; absent where this process has no index.
    fn contents(&self) -> Option<Arc<dyn ContentIndex>>;

    /// Sends requests; absent where this process makes no connections.
    fn http(&self) -> Option<&dyn HttpTransport>;

    /// Shows changes as a diff, for a question to the user.
    fn describe_changes(&self, files: &[FileChange]) -> String;

    /// Takes note of a proposal that was judged, before it is put in place.
    fn note_changes(&self, context: &CallContext, files: &[FileChange]);
}

/// Definitions and uses of names in the files of a repository. The daemon implements it.
///
/// It opens files through the call's repository, stops with the call's token, and bounds each answer. The boundary has
/// checked the grant before, and notes the files of the answer after it.
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

    /// The definitions of a file, in the order of lines.
    fn list_definitions(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
    ) -> Result<Vec<wit::symbols::Definition>, Failure>;

    /// The uses of names in a file, in their order.
    fn list_uses(
        &self,
        call: &CallBudget,
        context: &CallContext,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Vec<wit::symbols::Reference>, Failure>;
}

/// Values of a skill that last, in one repository. Each function reads or writes at once. An error is the end of a sentence.
pub trait KeyValueStore: Send {
    /// The value of a key.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, String>;

    /// Sets the value of a key, within the bounds of the store.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String>;

    /// Removes a key.
    fn delete(&self, key: &str) -> Result<(), String>;

    /// The keys, sorted.
    fn keys(&self) -> Result<Vec<String>, String>;
}
