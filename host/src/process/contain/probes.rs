//! Trying out what works.

use super::Enclosure;
use super::Sandbox;
use crate::limits;
use crate::process::{CommandSpec, RunEnd, RunLimits, run_contained};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs a program that does nothing in a sandbox of this kind.
pub(super) fn works(sandbox: Sandbox) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let command = CommandSpec {
        program: PathBuf::from("/bin/true"),
        arguments: Vec::new(),
        directory: root.clone(),
        environment: BTreeMap::new(),
    };
    let enclosure = Enclosure {
        sandbox,
        root,
        hidden: Vec::new(),
        state_directory: None,
    };
    let limits = RunLimits::within(Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX));
    let run = run_contained(&command, &enclosure, &limits, &CancellationToken::new(), &|_| {});
    match run.map_err(|error| error.to_string())?.end {
        RunEnd::Exited(0) => Ok(()),
        end => Err(format!("a program that does nothing ended otherwise: {end:?}")),
    }
}
