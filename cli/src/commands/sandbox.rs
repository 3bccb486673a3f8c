//! `tool doctor --sandbox`: runs the attacks of a hostile guest, and the escape attempts of runs, helpers and
//! installations, on this kernel.
//!
//! It needs no daemon, no configuration and no key: everything happens in new temporary folders, and every attempt has
//! its limits. The hidden `__sandbox-probes` runs single attempts, for tests. `tool-proof` defines the attempts and
//! what counts as held.

use std::process::ExitCode;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_core::api::{ErrorKind, Problem};
use tool_proof::{ProbeResult, ProbeVerdict, attacks, helpers, installs, probes};
use tool_sandbox::program_sandbox::{self, Sandbox};
use unicode_width::UnicodeWidthStr;

use super::end_signals::EndSignals;
use super::print_json;
use crate::args::Probes;
use crate::builtins::HOSTILE;
use crate::error::{Error, FAILED};
use crate::output::{CommandOutput, StatusLine, TICK};

#[derive(Debug, Serialize)]
struct ProofReport {
    /// Version of the kernel.
    kernel: String,
    /// Sandbox around runs.
    sandbox: &'static str,
    attacks: Vec<ProbeResult>,
    escapes: Vec<ProbeResult>,
    /// Attempts of a helper that parses untrusted files.
    helpers: Vec<ProbeResult>,
    /// Attempts of an installation, beside those of every run.
    installations: Vec<ProbeResult>,
    held: usize,
    failed: usize,
    not_available: usize,
}

/// Runs every attempt, and prints a table or JSON. Fails if something escaped.
pub(crate) fn run_all_attempts(json: bool, output: CommandOutput) -> Result<ExitCode, Error> {
    check_room()?;
    let sandbox = program_sandbox::detect_sandbox().sandbox;
    let mut table = AttemptTable::new(json, sandbox, output);
    make_attempts(
        sandbox,
        |_| true,
        output,
        |kind, result| table.add(kind, judge_result(result)),
    )?;
    let proof = table.proof();
    if json {
        print_json(&proof, output)?;
    } else {
        print_summary(&proof, output)?;
    }
    Ok(exit_code(proof.failed))
}

/// Without a usable temporary folder, every attempt would fail for that reason and prove nothing.
fn check_room() -> Result<(), Error> {
    probes::check_room().map_err(|why| {
        let hint = "set TMPDIR to a folder of yours with 64 MB of room, and try again";
        Problem::new(ErrorKind::TemporaryFolder, format!("No attempt was made: {why}"))
            .with_hint(hint)
            .into()
    })
}

/// Only an escape is a hole. An attempt that ended in another unexpected way, for example for lack of space, proves
/// nothing; the tests of this program still count it as a failure.
fn judge_result(result: ProbeResult) -> ProbeResult {
    if result.verdict != ProbeVerdict::Fail || result.got_out {
        return result;
    }
    ProbeResult {
        verdict: ProbeVerdict::NotAvailable,
        detail: format!("it ended otherwise than it should: {}", result.detail),
        ..result
    }
}

/// Runs single attempts by their names, and prints a list.
pub(crate) fn run_probes(wanted: &Probes, output: CommandOutput) -> Result<ExitCode, Error> {
    let sandbox = if wanted.fallback {
        Sandbox::Landlock
    } else {
        program_sandbox::detect_sandbox().sandbox
    };
    let mut results = Vec::new();
    let is_wanted = |name: &str| wanted.names.is_empty() || wanted.names.iter().any(|wanted| wanted == name);
    make_attempts(sandbox, is_wanted, output, |kind, result| {
        // Attempts of skills do not depend on the sandbox of runs.
        if kind == AttemptKind::Escape || !wanted.fallback {
            results.push(result);
        }
        Ok(())
    })?;
    let failed = results.iter().filter(|result| result.verdict == ProbeVerdict::Fail);
    let failed = failed.count();
    if wanted.json {
        print_json(&results, output)?;
    } else {
        for result in &results {
            print_row(result, output)?;
        }
    }
    Ok(exit_code(failed))
}

fn exit_code(failed: usize) -> ExitCode {
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptKind {
    Attack,
    /// A program that a skill has started.
    Escape,
    /// A helper of ours that reads git's files or compiles a component.
    Helper,
    /// A program that installs packages.
    Installation,
}

/// Makes the chosen attempts on a separate thread, shows the progress, and stops when the user interrupts.
fn make_attempts(
    sandbox: Sandbox,
    is_wanted: impl Fn(&str) -> bool + Sync,
    output: CommandOutput,
    mut each: impl FnMut(AttemptKind, ProbeResult) -> Result<(), Error>,
) -> Result<(), Error> {
    let cancel = CancellationToken::new();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Runtime, format!("The command could not be set up: {error}")))?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = sender;
            // Results are ignored once standard output is closed.
            attacks::make_attacks(HOSTILE, &is_wanted, &cancel, |result| {
                drop(sender.send((AttemptKind::Attack, result)))
            });
            probes::probe_sandbox(sandbox, &is_wanted, &cancel, |result| {
                drop(sender.send((AttemptKind::Escape, result)))
            });
            let wants_helpers = helpers::ATTEMPTS.iter().any(|attempt| is_wanted(attempt.name));
            let tried = if wants_helpers && !cancel.is_cancelled() {
                helpers::probe_helper()
            } else {
                Vec::new()
            };
            for result in tried.into_iter().filter(|result| is_wanted(result.name)) {
                drop(sender.send((AttemptKind::Helper, result)));
            }
            installs::probe_installs(&is_wanted, &cancel, |result| {
                drop(sender.send((AttemptKind::Installation, result)))
            });
        });
        let followed = runtime.block_on(follow_attempts(&mut receiver, &is_wanted, output, &mut each));
        // The current attempt ends, and removes its folder, before this returns.
        cancel.cancel();
        followed
    })
}

async fn follow_attempts(
    results: &mut mpsc::UnboundedReceiver<(AttemptKind, ProbeResult)>,
    is_wanted: &impl Fn(&str) -> bool,
    output: CommandOutput,
    each: &mut impl FnMut(AttemptKind, ProbeResult) -> Result<(), Error>,
) -> Result<(), Error> {
    let names = attacks::ATTACKS.iter().map(|attack| attack.name);
    let names = names.chain(probes::ATTEMPTS.iter().map(|attempt| attempt.name));
    let names = names.chain(helpers::ATTEMPTS.iter().map(|attempt| attempt.name));
    let names = names.chain(installs::ATTEMPTS.iter().map(|attempt| attempt.name));
    let all = names.filter(|name| is_wanted(name)).count();
    let mut ending = EndSignals::new()?;
    let mut status = StatusLine::new(output);
    let mut tick = tokio::time::interval(TICK);
    let mut made = 0;
    status.wait_for(format!("trying to get out, 1 of {all}"));
    loop {
        tokio::select! {
            () = ending.asked() => return Err(Error::Interrupted),
            result = results.recv() => {
                let Some((kind, result)) = result else { return Ok(()) };
                made += 1;
                status.clear();
                each(kind, result)?;
                status.count(format!("trying to get out, {} of {all}", (made + 1).min(all)));
            }
            _ = tick.tick() => status.draw(),
        }
    }
}

/// The results so far: printed one by one, or collected for JSON.
struct AttemptTable {
    json: bool,
    output: CommandOutput,
    sandbox: Sandbox,
    attacks: Vec<ProbeResult>,
    escapes: Vec<ProbeResult>,
    helpers: Vec<ProbeResult>,
    installations: Vec<ProbeResult>,
}

impl AttemptTable {
    fn new(json: bool, sandbox: Sandbox, output: CommandOutput) -> Self {
        Self {
            json,
            output,
            sandbox,
            attacks: Vec::new(),
            escapes: Vec::new(),
            helpers: Vec::new(),
            installations: Vec::new(),
        }
    }

    fn add(&mut self, kind: AttemptKind, result: ProbeResult) -> Result<(), Error> {
        let (list, heading) = match kind {
            AttemptKind::Attack => (&mut self.attacks, "A skill tries to …".to_owned()),
            AttemptKind::Escape => (
                &mut self.escapes,
                format!("\nA test run tries to … (sandbox: {})", self.sandbox),
            ),
            AttemptKind::Helper => (
                &mut self.helpers,
                "\nA helper that parses what others wrote tries to …".to_owned(),
            ),
            AttemptKind::Installation => (
                &mut self.installations,
                "\nAn installation of packages tries to …".to_owned(),
            ),
        };
        if !self.json {
            if list.is_empty() {
                self.output.line(&heading)?;
            }
            print_row(&result, self.output)?;
        }
        list.push(result);
        Ok(())
    }

    fn proof(self) -> ProofReport {
        let count = |verdict| {
            let all = self.attacks.iter().chain(&self.escapes).chain(&self.helpers);
            let all = all.chain(&self.installations);
            all.filter(|result| result.verdict == verdict).count()
        };
        ProofReport {
            kernel: program_sandbox::describe_kernel(),
            sandbox: self.sandbox.name(),
            held: count(ProbeVerdict::Pass),
            failed: count(ProbeVerdict::Fail),
            not_available: count(ProbeVerdict::NotAvailable),
            attacks: self.attacks,
            escapes: self.escapes,
            helpers: self.helpers,
            installations: self.installations,
        }
    }
}

fn print_summary(proof: &ProofReport, output: CommandOutput) -> Result<(), Error> {
    let text = format!(
        "\n{} held, {} failed, {} not available; kernel {}, sandbox {}",
        proof.held, proof.failed, proof.not_available, proof.kernel, proof.sandbox
    );
    output.line(&text)?;
    if proof.failed > 0 {
        output.hint("FAIL means that an attack succeeded: SECURITY.md says how to report it; `--json` has the details");
    }
    if proof.not_available > 0 {
        output.hint("n/a proves nothing: `tool doctor` says what this machine lacks");
    }
    Ok(())
}

/// Columns of the name in a row with the text next to it.
const NAME_COLUMNS: usize = 28;
const VERDICT_COLUMNS: usize = 6;

/// On a narrower terminal a row takes two lines.
const COLUMNS_WIDE: usize = 76;

fn print_row(result: &ProbeResult, output: CommandOutput) -> Result<(), Error> {
    let verdict = match result.verdict {
        ProbeVerdict::Pass => "pass",
        ProbeVerdict::Fail => "FAIL",
        ProbeVerdict::NotAvailable => "n/a",
    };
    let text = match result.verdict {
        ProbeVerdict::Pass => result.tries.to_owned(),
        ProbeVerdict::Fail if result.got_out => format!("{}: it got out: {}", result.tries, result.detail),
        ProbeVerdict::Fail => format!("{}: it ended otherwise than it should: {}", result.tries, result.detail),
        ProbeVerdict::NotAvailable => format!("{}: not available: {}", result.tries, result.detail),
    };
    for line in laid_out(verdict, result.name, &text, output.columns()) {
        output.line(&line)?;
    }
    Ok(())
}

/// A row, wrapped to the columns of the terminal; one line without a terminal.
fn laid_out(verdict: &str, name: &str, text: &str, columns: Option<usize>) -> Vec<String> {
    let start = format!("{verdict:VERDICT_COLUMNS$}{name:NAME_COLUMNS$}");
    let Some(columns) = columns else {
        return vec![format!("{start}{text}")];
    };
    let indent = if columns >= COLUMNS_WIDE {
        start.width()
    } else {
        VERDICT_COLUMNS
    };
    let mut lines = if columns >= COLUMNS_WIDE {
        vec![start]
    } else {
        vec![start.trim_end().to_owned(), " ".repeat(indent)]
    };
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let is_fresh = lines[last].width() <= indent;
        if !is_fresh && lines[last].width() + 1 + word.width() > columns {
            lines.push(format!("{}{word}", " ".repeat(indent)));
        } else if is_fresh {
            lines[last].push_str(word);
        } else {
            lines[last].push(' ');
            lines[last].push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: Option<usize>) -> String {
        let text = "read a file of which nobody knows that it is there";
        laid_out("pass", "read_hidden", text, columns).join("\n")
    }

    #[test]
    fn a_row_keeps_within_the_terminal() {
        insta::assert_snapshot!(shown(None), @"pass  read_hidden                 read a file of which nobody knows that it is there");
        insta::assert_snapshot!(shown(Some(80)), @r"
        pass  read_hidden                 read a file of which nobody knows that it is
                                          there
        ");
        insta::assert_snapshot!(shown(Some(30)), @r"
        pass  read_hidden
              read a file of which
              nobody knows that it is
              there
        ");
    }
}
