//! Reads the proposals in an architect's answer, and checks their places against the repository. Starts nothing.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::request::describe_refusal;
use tool_config::Environment;
use tool_context::operation::proposals::{PlacedProposal, placed_proposals};
use tool_context::operation::verify;
use tool_core::api::{ErrorKind, Problem};
use tool_repository::Repository;

/// Reads the proposals of `answer` that name a place in the repository at `root`. Blocks.
///
/// # Errors
///
/// The repository cannot be opened.
pub fn read_proposals(
    home: &Path,
    environment: &Environment,
    root: &Path,
    answer: &str,
) -> Result<Vec<PlacedProposal>, Problem> {
    let common = tool_config::load_common(home, environment)?;
    let options = super::repository_options(&common.policy, home);
    let repository = Repository::open(root, &options).map_err(|error| describe_refusal(&error))?;
    let checked = verify::check_citations(answer, &repository, &CancellationToken::new())
        .map_err(|error| Problem::new(ErrorKind::ScanFailed, error.to_string()))?;
    Ok(placed_proposals(answer, &checked))
}
