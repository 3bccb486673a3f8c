//! `tool __sandbox-probes`: the attempts to get out of the sandbox for runs, as a table.

use std::process::ExitCode;

use host::process::contain::{self, Sandbox};
use host::process::{ProbeResult, ProbeVerdict, probe_sandbox};

use super::print_json;
use crate::error::Error;
use crate::output::Output;

/// Makes the attempts in the best sandbox of this machine, or in the fallback. Fails where one got out.
pub(crate) fn run(json: bool, fallback: bool, output: Output) -> Result<ExitCode, Error> {
    let results = if fallback {
        contain::probes::probe(Sandbox::Landlock)
    } else {
        probe_sandbox()
    };
    let has_failed = results.iter().any(|result| result.verdict == ProbeVerdict::Fail);
    if json {
        print_json(&results, output)?;
    } else {
        for result in &results {
            output.line(&row(result))?;
        }
    }
    Ok(if has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn row(result: &ProbeResult) -> String {
    let verdict = match result.verdict {
        ProbeVerdict::Pass => "pass",
        ProbeVerdict::Fail => "FAIL",
        ProbeVerdict::NotAvailable => "not available",
    };
    format!("{verdict:13}  {:25}  {}: {}", result.name, result.tries, result.detail)
}
