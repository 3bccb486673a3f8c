//! The four operations: start a session, stream it, end with its exit code.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use host::api::{BudgetRequest, Event, ExecuteRequest, Operation, Overrides, Problem, SessionResult, SessionStart};
use host::config::{self, ProviderName};

use super::follow::{Follow, Waiting};
use super::{Context, approve, cancel, describe_call, notice, openable, path_text, policy, selection};
use crate::args::Run;
use crate::client::Client;
use crate::error::{Error, code};
use crate::output::{Answer, AnswerFile, Output};

/// What to do.
#[derive(Debug)]
pub(super) struct Task {
    operation: Operation,
    target: String,
    focus: Option<String>,
}

/// Largest task from standard input. A description is a few thousand bytes; what is larger is a file, and belongs into
/// the repository.
const TASK_BYTES_MAX: u64 = 64 * 1024;

impl Task {
    /// The same with `-` replaced by what standard input holds; refused where a path is wanted.
    fn read(mut self) -> Result<Self, Error> {
        if self.target != "-" {
            return Ok(self);
        }
        let takes_task = matches!(self.operation, Operation::Architect | Operation::Refactor);
        if !takes_task {
            let message = format!("`tool {}` takes a path; `-` is none", self.operation);
            let hint = "`tool architect -` and `tool refactor -` read a task from standard input";
            return Err(Problem::new("usage", message).with_hint(hint).into());
        }
        self.target = task_of(std::io::stdin().lock())?;
        Ok(self)
    }

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

/// A task as text: bounded, and not empty.
fn task_of(input: impl Read) -> Result<String, Error> {
    let usage = |message: String| Error::new("usage", message);
    let mut bytes = Vec::new();
    input
        .take(TASK_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| usage(format!("Standard input could not be read: {error}")))?;
    if bytes.len() as u64 > TASK_BYTES_MAX {
        return Err(usage(format!("The task is larger than {} KiB", TASK_BYTES_MAX / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| usage("The task is not UTF-8".to_owned()))?;
    match text.trim() {
        "" => Err(usage("Standard input holds no task".to_owned())),
        task => Ok(task.to_owned()),
    }
}

/// Runs an operation to its end.
pub(super) async fn run(task: Task, run: &Run, context: &Context) -> Result<ExitCode, Error> {
    let output = context.output;
    // Whatever can be wrong here and now is said before a daemon is started or a model paid.
    let task = task.read()?;
    let settings = config::load(&context.backend.home, &context.backend.environment)?;
    if let Some(problem) = config::exposed_key(&context.backend.home) {
        output.warning(&problem);
    }
    let answer = match &run.output {
        Some(file) => Answer::into_file(answer_file(file, &task, context)?),
        None if run.json => Answer::unrendered(),
        None => Answer::on_standard_output(output),
    };
    let request = request(task, run, context)?;
    let mut client = context.backend.connect_or_start().await?;
    let start: SessionStart = client.post("/api/execute", &request).await?;
    let model = run.model.clone().unwrap_or(settings.provider.model);
    let mut session = Session {
        client,
        start,
        answer,
        json: run.json,
        output,
    };
    let streamed = session.stream(Waiting::operation(model, output)).await;
    if matches!(streamed, Err(Error::Interrupted | Error::OutputClosed)) && !run.detach {
        cancel(&session.client, &session.start.session_id, output).await;
    }
    match streamed {
        Ok(ended) => session.finish(Path::new(&request.repo_path), ended).await,
        Err(error) => {
            session.say_unwritten();
            if matches!(error, Error::Interrupted) {
                session.say_interrupted(run.detach);
            }
            Err(error)
        }
    }
}

/// The file of the answer, where that cannot replace what the operation reads.
fn answer_file(file: &Path, task: &Task, context: &Context) -> Result<AnswerFile, Error> {
    let file = AnswerFile::prepare(file)?;
    let (root, here) = context.places()?;
    // A target is looked up from here, or from the root; a task is hardly the name of a file.
    for place in [here, root] {
        file.check_is_not(&place.join(&task.target))?;
    }
    Ok(file)
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
        selection: selection(&run.steer),
        budget: BudgetRequest {
            max_steps: run.max_steps,
            max_tokens: run.max_tokens,
            timeout_seconds: run.timeout,
        },
    })
}

/// A session that was started here.
struct Session {
    client: Client,
    start: SessionStart,
    answer: Answer,
    json: bool,
    output: Output,
}

/// How a session ended, by its last event.
enum Ended {
    Complete,
    Failed(Problem),
}

impl Session {
    /// Shows what happens until the end.
    async fn stream(&mut self, waiting: Waiting) -> Result<Ended, Error> {
        let path = format!("/api/stream/{}?form=reference", self.start.session_id);
        let mut events = Follow::new(self.client.events(&path).await?, waiting)?;
        while let Some(event) = events.next().await? {
            if self.json {
                let line = serde_json::to_string(&event).unwrap_or_default();
                self.answer.piece(&format!("{line}\n"))?;
            } else {
                self.show(&event).await?;
            }
            match event {
                Event::Complete { .. } => return Ok(Ended::Complete),
                Event::Error { code, message, hint } => return Ok(Ended::Failed(Problem { code, message, hint })),
                _ => {}
            }
        }
        Err(events.ended_early().await)
    }

    async fn show(&mut self, event: &Event) -> Result<(), Error> {
        let output = self.output;
        match event {
            Event::Token { content } => self.answer.piece(content)?,
            Event::Selection { files } => {
                for file in files {
                    output.progress(&format!("reads {}  ({})", file.path, file.reasons.join("; ")));
                }
            }
            Event::Skill { name, args } => {
                self.answer.pause()?;
                output.progress(&format!("skill {}", describe_call(name, args)));
            }
            Event::SkillResult {
                name, verdict, summary, ..
            } if verdict != "ok" => {
                output.progress(&format!("skill {name}: {verdict}: {summary}"));
            }
            Event::Notice { .. } => notice(event, output),
            Event::Approval { .. } => {
                self.answer.pause()?;
                approve(event, &self.start.approval_secret, &self.client, output).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// After the last event: the user learns where the report is and what failed, and the file appears where there is
    /// one and the operation is complete.
    async fn finish(mut self, root: &Path, ended: Ended) -> Result<ExitCode, Error> {
        self.answer.end()?;
        if !self.json {
            self.say_report(root).await;
        }
        match ended {
            Ended::Complete => self.answer.complete().map(|()| ExitCode::SUCCESS),
            Ended::Failed(problem) => {
                if !self.json {
                    self.output.problem(&problem);
                }
                self.say_unwritten();
                Ok(ExitCode::from(code(&problem.code)))
            }
        }
    }

    async fn say_report(&self, root: &Path) {
        let result = async {
            let path = format!("/api/results/{}", self.start.session_id);
            self.client.another().await?.get::<SessionResult>(&path).await
        };
        // A report that cannot be asked for is no reason to fail what has ended well.
        if let Ok(result) = result.await
            && !result.report_path.is_empty()
        {
            let place = openable(&root.join(&result.report_path));
            self.output.progress(&format!("report {}", place.display()));
        }
    }

    /// What became of a session whose client was interrupted, and how to come back to it.
    fn say_interrupted(&self, is_detached: bool) {
        let id = &self.start.session_id;
        let hint = format!("`tool results {id}` shows what there is of the answer");
        match is_detached {
            true => self.output.notice(&format!("The session {id} runs on."), Some(&hint)),
            false => self.output.notice("The session was cancelled.", Some(&hint)),
        }
    }

    /// Said even where the rest is quiet: whoever wanted a file must not take an old one for the answer.
    fn say_unwritten(&self) {
        if let Some(file) = self.answer.unwritten() {
            self.output.hint(&format!(
                "`{}` was not written, since the operation is not complete; `tool results {}` shows what there is",
                file.display(),
                self.start.session_id
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(input: &[u8]) -> String {
        match task_of(input) {
            Err(Error::Problem(problem)) => problem.message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_task_from_standard_input_is_bounded_text() {
        assert_eq!(task_of(&b"  do it\n\nwell\n"[..]).expect("a task"), "do it\n\nwell");
        assert_eq!(message(b" \n"), "Standard input holds no task");
        assert_eq!(message(b"\xff"), "The task is not UTF-8");
        assert_eq!(message(&vec![b'x'; 70_000]), "The task is larger than 64 KiB");
    }

    #[test]
    fn a_path_cannot_be_a_dash() {
        for task in [Task::explain("-".into()), Task::test_gen("-".into())] {
            let Err(Error::Problem(problem)) = task.read() else {
                panic!("`-` is no path");
            };
            assert!(problem.message.ends_with("takes a path; `-` is none"), "{problem}");
        }
    }
}
