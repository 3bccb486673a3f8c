//! The four operations: start a session, stream it, end with its exit code.

use std::process::ExitCode;

use host::api::{BudgetRequest, Event, ExecuteRequest, Operation, Overrides, SessionStart};
use host::config::{self, ProviderName};

use super::{Context, approve, cancel, describe_call, next_or_interrupt, notice, path_text, policy};
use crate::args::Run;
use crate::client::Client;
use crate::error::{Error, code};
use crate::output::Output;

/// What to do.
#[derive(Debug)]
pub(super) struct Task {
    operation: Operation,
    target: String,
    focus: Option<String>,
}

impl Task {
    /// `tool explain`.
    pub(super) fn explain(target: String) -> Self {
        Self {
            operation: Operation::Explain,
            target,
            focus: None,
        }
    }

    /// `tool architect`.
    pub(super) fn architect(task: String) -> Self {
        Self {
            operation: Operation::Architect,
            target: task,
            focus: None,
        }
    }

    /// `tool refactor`.
    pub(super) fn refactor(task: String, focus: Option<String>) -> Self {
        Self {
            operation: Operation::Refactor,
            target: task,
            focus,
        }
    }

    /// `tool test-gen`.
    pub(super) fn test_gen(file: String) -> Self {
        Self {
            operation: Operation::TestGen,
            target: file,
            focus: None,
        }
    }
}

/// Runs an operation to its end.
pub(super) async fn run(task: Task, run: &Run, context: &Context) -> Result<ExitCode, Error> {
    let request = request(task, run, context)?;
    // Whether the configuration works is known here and now; a daemon need not be started to say that it does not.
    config::load(&context.backend.home, &context.backend.environment)?;
    let mut client = context.backend.connect_or_start().await?;
    let start: SessionStart = client.post("/api/execute", &request).await?;
    let streamed = stream(&mut client, &start, run, context.output).await;
    if matches!(streamed, Err(Error::Interrupted | Error::OutputClosed)) && !run.detach {
        cancel(&client, &start.session_id, context.output).await;
    }
    streamed
}

fn request(task: Task, run: &Run, context: &Context) -> Result<ExecuteRequest, Error> {
    let (root, here) = context.places()?;
    Ok(ExecuteRequest {
        operation: task.operation,
        target: Some(task.target),
        repo_path: path_text(&root)?,
        provider: run
            .provider
            .map(|provider| ProviderName::from(provider).name().to_owned()),
        task: None,
        focus: task.focus,
        working_directory: Some(path_text(&here)?),
        model: run.model.clone(),
        interactive: Output::can_ask() && !run.json,
        policy: policy(&run.policy),
        overrides: Overrides(context.backend.environment.forwarded()),
        attached: !run.detach,
        budget: BudgetRequest {
            max_steps: run.max_steps,
            max_tokens: run.max_tokens,
            timeout_seconds: run.timeout,
        },
    })
}

/// Streams a session. Its last event decides the exit code.
async fn stream(client: &mut Client, start: &SessionStart, run: &Run, output: Output) -> Result<ExitCode, Error> {
    let mut events = client
        .events(&format!("/api/stream/{}?form=reference", start.session_id))
        .await?;
    let mut answer = Answer::default();
    while let Some(event) = next_or_interrupt(&mut events).await? {
        if run.json {
            output.line(&serde_json::to_string(&event).unwrap_or_default())?;
        } else {
            show(&event, &mut answer, output)?;
        }
        match &event {
            Event::Approval { .. } if !run.json => approve(&event, &start.approval_secret, client, output).await?,
            Event::Complete { .. } => return answer.end(output).map(|()| ExitCode::SUCCESS),
            Event::Error { code: of_problem, .. } => return Ok(ExitCode::from(code(of_problem))),
            _ => {}
        }
    }
    Err(events.ended_early().await)
}

/// Whether the answer printed so far ends with a newline: progress must not stand on its last line.
#[derive(Debug, Default)]
struct Answer {
    open_line: bool,
}

impl Answer {
    fn piece(&mut self, text: &str, output: Output) -> Result<(), Error> {
        if let Some(last) = text.chars().next_back() {
            self.open_line = last != '\n';
        }
        output.answer(text)
    }

    fn end(&mut self, output: Output) -> Result<(), Error> {
        if std::mem::take(&mut self.open_line) {
            output.answer("\n")
        } else {
            Ok(())
        }
    }
}

fn show(event: &Event, answer: &mut Answer, output: Output) -> Result<(), Error> {
    match event {
        Event::Token { content } => answer.piece(content, output)?,
        Event::Selection { files } => {
            for file in files {
                output.progress(&format!("reads {}  ({})", file.path, file.reasons.join("; ")));
            }
        }
        Event::Skill { name, args } => output.progress(&format!("skill {}", describe_call(name, args))),
        Event::SkillResult {
            name, verdict, summary, ..
        } if verdict != "ok" => {
            output.progress(&format!("skill {name}: {verdict}: {summary}"));
        }
        Event::Notice { .. } => notice(event, output),
        Event::Error { code, message, hint } => {
            answer.end(output)?;
            output.problem(&host::api::Problem {
                code: code.clone(),
                message: message.clone(),
                hint: hint.clone(),
            });
        }
        _ => {}
    }
    Ok(())
}
