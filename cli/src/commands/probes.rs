//! `tool __sandbox-probes`: the attempts to get out of the sandbox for runs, as a table.

use std::process::ExitCode;

use host::process::contain::probes::probe;
use host::process::contain::{self, Sandbox};
use host::process::{ProbeResult, ProbeVerdict, probe_sandbox};

use super::print_json;
use crate::args::Probes;
use crate::error::Error;
use crate::output::Output;

/// Makes the attempts in the best sandbox of this machine, or in the fallback. Fails where one got out.
pub(crate) fn run(probes: &Probes, output: Output) -> Result<ExitCode, Error> {
    let sandbox = match probes.fallback {
        true => Sandbox::Landlock,
        false => contain::available().sandbox,
    };
    let results = match probes.names.as_slice() {
        [] if !probes.fallback => probe_sandbox(),
        names => probe(sandbox, |name| {
            names.is_empty() || names.iter().any(|wanted| wanted == name)
        }),
    };
    let has_failed = results.iter().any(|result| result.verdict == ProbeVerdict::Fail);
    if probes.json {
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
