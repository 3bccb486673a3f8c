//! One module for each command, and their shared functions.

mod attach;
mod batch;
mod ci;
pub(crate) mod completions;
mod config;
mod context;
pub(crate) mod dev;
mod diff;
mod doctor;
mod end_signals;
mod follow;
mod graph;
mod history;
mod init;
pub(crate) mod man;
mod mcp;
mod models;
mod operation;
mod preview;
pub(crate) mod reference;
pub(crate) mod sandbox;
pub(crate) mod service;
mod session_tally;
mod skill;
mod test_commands;
mod turn;
mod undo;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tool_core::api::ErrorKind;
use tool_core::api::{self, BudgetRequest, Event, NoticeKind, PolicyRequest, ProviderName, SelectionRequest};

use crate::args::{Command, PolicyFlags, RunArguments, Steer};
use crate::client::{Backend, Client};
use crate::error::Error;
use crate::output::{CommandOutput, StatusLine, TICK};

/// Backend, output and `--repo`, shared by all commands.
#[derive(Debug)]
pub(crate) struct CommandContext {
    pub(crate) backend: Backend,
    pub(crate) output: CommandOutput,
    pub(crate) repo: Option<PathBuf>,
}

impl CommandContext {
    /// The repository root and the working directory, both absolute.
    fn places(&self) -> Result<(PathBuf, PathBuf), Error> {
        let here = std::env::current_dir().map_err(|error| {
            Error::new(
                ErrorKind::Usage,
                format!("The working directory cannot be used: {error}; it may have been deleted"),
            )
        })?;
        let root = match &self.repo {
            Some(repo) => {
                let root = std::path::absolute(repo).map_err(|error| Error::on_file("Repository", repo, &error))?;
                if !root.is_dir() {
                    return Err(Error::new(
                        ErrorKind::Usage,
                        format!("Not a directory: {}", repo.display()),
                    ));
                }
                root
            }
            None => tool_repository::find_root(&here),
        };
        Ok((root, here))
    }
}

pub(crate) async fn run_command(command: Command, context: &CommandContext) -> Result<ExitCode, Error> {
    match command {
        Command::Init(init) => init::run_init(&init, context).await,
        Command::Models(models) => models::run_models(models, context).await,
        Command::Explain { targets, full, run } => {
            operation::run_operation(operation::TypedTask::explain(targets, full), &run, context).await
        }
        Command::Ask { question, run } => {
            operation::run_operation(operation::TypedTask::ask(&question), &run, context).await
        }
        Command::Architect { task, run } => {
            operation::run_operation(operation::TypedTask::architect(task), &run, context).await
        }
        Command::Refactor {
            task,
            focus,
            preview,
            run,
        } => {
            let task = operation::TypedTask::refactor(task, focus).previewed(preview);
            operation::run_operation(task, &run, context).await
        }
        Command::TestGen { file, preview, run } => {
            operation::run_operation(operation::TypedTask::test_gen(file).previewed(preview), &run, context).await
        }
        Command::Continue {
            words,
            operation,
            preview,
            run,
        } => turn::run_turn(&words, operation, preview, &run, context).await,
        Command::Ci(arguments) => ci::run_ci(arguments, context).await,
        Command::Batch(arguments) => batch::run_batch(arguments, context).await,
        Command::Context(select) => context::show_context(select, context).await,
        Command::Graph(arguments) => graph::show_graph(arguments, context).await,
        Command::Service(service) => service::run_service(&service, context).await,
        Command::Skill(skill) => skill::run_skill_command(skill, context).await,
        Command::Mcp(mcp) => mcp::run_mcp(&mcp, context).await,
        Command::History(history) => history::list_sessions(&history, context).await,
        Command::Attach { session, json } => attach::attach_session(&session, json, context).await,
        Command::Cancel { session } => attach::cancel_session(&session, context).await,
        Command::Results { session, json } => history::show_result(&session, json, context).await,
        Command::Diff { session, json } => diff::show_diff(&session, json, context).await,
        Command::Undo {
            session,
            conversation,
            merge,
            json,
        } => undo::undo_session(&session, conversation, merge, json, context).await,
        Command::Apply {
            words,
            partial,
            patch,
            json,
        } => {
            let apply = preview::ApplyOptions {
                words,
                partial,
                patch,
                json,
            };
            preview::apply_preview(apply, context).await
        }
        Command::Discard { session, json } => preview::discard_preview(&session, json, context).await,
        Command::Tests(tests) => test_commands::run(tests, context),
        Command::Config { json } => config::show_config(json, context),
        Command::Doctor { probe, json, .. } => doctor::run_checks(probe, json, context).await,
        Command::Completions { .. }
        | Command::Man { .. }
        | Command::Reference
        | Command::Dev(_)
        | Command::Confine
        | Command::ConfineAttempts
        | Command::Contain { .. }
        | Command::SandboxProbes(_)
        | Command::Daemon { .. } => {
            unreachable!("`main` runs these without a context")
        }
    }
}

/// The provider options that a session would get, such as a proxy.
fn provider_options(context: &CommandContext) -> tool_provider::Options {
    let variables = context.backend.forwarded();
    tool_provider::Options {
        key_command: Some(tool_session::key_command(&variables)),
        environment: variables,
        ..tool_provider::Options::default()
    }
}

/// Waits for an answer, and shows that on a terminal.
async fn wait_for_answer<T>(what: String, answer: impl Future<Output = T>, output: CommandOutput) -> T {
    let mut status = StatusLine::new(output);
    status.wait_for(what);
    let mut tick = tokio::time::interval(TICK);
    tokio::pin!(answer);
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ = tick.tick() => status.draw(),
        }
    }
}

/// The wire form of the policy flags.
fn policy_request(flags: &PolicyFlags) -> PolicyRequest {
    PolicyRequest {
        allow: flags.allow.clone(),
        deny: flags.deny.clone(),
        allow_paths: flags.allow_path.clone(),
        require_sandbox: flags.require_sandbox,
        unsandboxed: flags.unsandboxed,
        untrusted: flags.untrusted,
        untrusted_task: flags.untrusted_task,
        ask_before_write: flags.ask_before_write,
        frozen: flags.frozen,
    }
}

/// Name of the provider that the user requires.
fn asserted_provider(run: &RunArguments) -> Option<String> {
    run.provider
        .map(|provider| ProviderName::from(provider).name().to_owned())
}

/// True if a person can answer questions of the session.
fn is_interactive(run: &RunArguments) -> bool {
    CommandOutput::can_ask() && !run.json && !run.session.policy.frozen
}

fn budget_request(run: &RunArguments) -> BudgetRequest {
    BudgetRequest {
        max_steps: run.session.max_steps,
        max_tokens: run.session.max_tokens,
        max_cost: run.max_cost,
        timeout_seconds: run.session.timeout,
    }
}

/// The wire form of the selection flags.
fn selection_request(flags: &Steer) -> SelectionRequest {
    SelectionRequest {
        include: flags.include.clone(),
        exclude: flags.exclude.clone(),
        no_instructions: flags.no_instructions,
    }
}

/// An absolute path for the wire.
fn path_text(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            format!("The path `{}` is not UTF-8 and cannot be sent", path.display()),
        )
    })
}

/// A path that the user can open from here: relative if it is below the working directory.
fn openable_path(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).map(Path::to_path_buf).ok());
    relative.unwrap_or_else(|| path.to_owned())
}

/// Shows a notice. A notice with a code is an error that did not end the session, and is shown as an error, except for
/// the notice about replaced keys.
fn show_notice(event: &Event, output: CommandOutput) {
    let Event::Notice { code, message, hint } = event else {
        return;
    };
    match code {
        Some(NoticeKind::Error(kind)) => output.problem(&api::Problem {
            kind: kind.clone(),
            message: message.clone(),
            hint: hint.clone(),
            action: None,
        }),
        Some(NoticeKind::Redacted) | None => output.notice(message, hint.as_deref()),
    }
}

/// Asks the user on the terminal and sends the answer. Anything but a yes counts as a no.
async fn ask_approval(event: &Event, secret: &str, client: &Client, output: CommandOutput) -> Result<(), Error> {
    let Event::Approval {
        id,
        title,
        detail,
        effect,
        left_out,
        ..
    } = event
    else {
        return Ok(());
    };
    output.ask_about(detail);
    output.ask(&format!("\n{title} [{effect}]\nAllow it? "));
    // Input that was typed before the question does not answer it.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    output.ask("[y/N] ");
    let approve = tokio::select! {
        _ = tokio::signal::ctrl_c() => return Err(Error::Interrupted),
        answer = tokio::task::spawn_blocking(read_yes) => answer.unwrap_or(false),
    };
    let answer = api::ApprovalAnswer {
        secret: secret.to_owned(),
        approve,
        digest: left_out.as_ref().map(|left_out| left_out.digest.clone()),
        scope: api::ApprovalScope::Call,
    };
    let mut client = client.another().await?;
    match client.post_unanswered(&format!("/api/approvals/{id}"), &answer).await {
        // The question was answered elsewhere, or too late. The session and its stream go on.
        Err(Error::Problem(problem)) if problem.kind == ErrorKind::NotFound => {
            output.notice(&problem.message, problem.hint.as_deref());
            Ok(())
        }
        answered => answered,
    }
}

/// Cancels a session in the daemon and waits for its last event, so that lists and results know its end when this
/// command exits. Returns true if that event came. A second Ctrl-C exits at once; if standard error is closed, nothing
/// is printed.
async fn cancel_on_error(client: &Client, session: &str, why: &Error, output: CommandOutput) -> bool {
    if matches!(why, Error::Interrupted) {
        output.progress("cancelling …");
    }
    let cancelled = async {
        let mut client = client.another().await?;
        // A session that has just ended cannot be cancelled; its last event says how it ended.
        let told = client.delete(&format!("/api/sessions/{session}")).await;
        let mut events = client.events(&format!("/api/stream/{session}?form=reference")).await?;
        while let Some(event) = events.next().await? {
            if event.is_terminal() {
                return Ok(());
            }
        }
        told
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => false,
        // The daemon also notices that the stream lost its reader.
        ended = tokio::time::timeout(CANCEL_TIME, cancelled) => matches!(ended, Ok(Ok::<(), Error>(()))),
    }
}

/// Time limit for the end of a cancelled session. The daemon gives the work two seconds; the rest is for a report and a
/// history file that other sessions may be writing.
const CANCEL_TIME: Duration = Duration::from_secs(10);

/// Reads one line of the terminal: true for `y` and `yes`.
fn read_yes() -> bool {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && is_yes(&line)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// One short line for a skill call: its name and arguments.
fn describe_call(name: &str, arguments: &serde_json::Value) -> String {
    let mut line = name.to_owned();
    for (key, value) in arguments.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        line.push_str(&format!(" {key}={}", shorten_line(&value, 60)));
    }
    line
}

/// The first line of a text, cut to a number of characters.
fn shorten_line(text: &str, characters_max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(characters_max).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A number of bytes for people.
fn format_size(bytes: u64) -> String {
    match bytes as f64 / 1e6 {
        megabytes if megabytes < 1000.0 => format!("{megabytes:.1} MB"),
        megabytes => format!("{:.1} GB", megabytes / 1000.0),
    }
}

/// JSON for people and programs alike: indented, with a newline at the end.
fn print_json(value: &impl serde::Serialize, output: CommandOutput) -> Result<ExitCode, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Error::new(
            ErrorKind::Output,
            format!("The answer could not be written as JSON: {error}"),
        )
    })?;
    output.line(&text)?;
    Ok(ExitCode::SUCCESS)
}
