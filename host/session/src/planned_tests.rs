//! Lists the tests and checks of a repository for `tool tests`. Starts nothing.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::request::describe_refusal;
use tool_config::Environment;
use tool_core::api::Problem;
use tool_repository::Repository;
use tool_skill::{PlannedRun, plan_runs};

/// Lists the runs of tests and checks in the repository at `root`, or those for a path in it. Blocks.
///
/// # Errors
///
/// The repository cannot be opened, or the path is not valid.
pub fn plan_tests(
    home: &Path,
    environment: &Environment,
    root: &Path,
    path: Option<&str>,
) -> Result<Vec<PlannedRun>, Problem> {
    let common = tool_config::load_common(home, environment)?;
    let options = super::repository_options(&common.policy, home);
    let repository = Repository::open(root, &options).map_err(|error| describe_refusal(&error))?;
    plan_runs(&repository, environment.variables(), path, &CancellationToken::new())
}
