//! The four operations: start a session, stream it, end with its exit code.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use host::api::ProviderName;
use host::api::{BudgetRequest, ErrorKind, Event, ExecuteRequest, Operation, Overrides, Problem, SessionResult};
use host::config;
use host::operation::check_place;
use host::session::preflight;
use host::text::clean_line;

use super::follow::{Follow, Waiting};
use super::{Context, approve, cancel, describe_call, notice, openable, path_text, policy, selection};
use crate::args::RunArguments;
use crate::client::{Client, Events};
use crate::error::Error;
use crate::output::{AnswerFile, AnswerWriter, Output};

/// An operation with its target and focus.
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
    /// Replaces the target `-` by the text of standard input; refused where a path is wanted.
    fn read(mut self) -> Result<Self, Error> {
        if self.target != "-" {
            return Ok(self);
        }
        let takes_task = matches!(self.operation, Operation::Architect | Operation::Refactor);
        if !takes_task {
            let message = format!("`tool {}` takes a path, not `-`", self.operation);
            let hint = "`tool architect -` and `tool refactor -` read a task from standard input";
            return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
        }
        self.target = task_of(std::io::stdin().lock())?;
        Ok(self)
    }

    /// A path that names nothing to work on is a slip of the hand: no session is made of it, and no model asked. Where it exists,
    /// the session decides whether it may be read.
    fn check_place(&self, context: &Context) -> Result<(), Error> {
        if !matches!(self.operation, Operation::Explain | Operation::TestGen) {
            return Ok(());
        }
        // A variable that is not set, more often than a wish.
        if self.target.trim().is_empty() {
            let problem = Problem::new(ErrorKind::Usage, "The path is empty");
            return Err(problem
                .with_hint("name a file or a directory; `.` is the whole repository")
                .into());
        }
        let (root, here) = context.places()?;
        let root = root.canonicalize().unwrap_or(root);
        Ok(check_place(self.operation, &self.target, &root, &here)?)
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
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
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
pub(super) async fn run(task: Task, run: &RunArguments, context: &Context) -> Result<ExitCode, Error> {
    let output = context.output;
    // Errors that can be found here are reported before a daemon is started or a model paid.
    let task = task.read()?;
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let settings = match config::load(home, environment) {
        Err(problem) if problem.kind == ErrorKind::ConfigMissing && Output::can_ask() && !run.json => {
            output.notice(&problem.message, Some("a few questions follow; Ctrl-C writes nothing"));
            super::init::set_up(context).await?;
            config::load(home, environment)?
        }
        loaded => loaded?,
    };
    if let Some(problem) = preflight::configuration(home, environment) {
        return Err(problem.into());
    }
    if let Some(problem) = config::exposed_key(&context.backend.home) {
        output.warning(&problem);
    }
    task.check_place(context)?;
    let answer = match &run.output {
        Some(file) => AnswerWriter::into_file(answer_file(file, &task, context)?),
        None if run.json => AnswerWriter::unrendered(),
        None => AnswerWriter::on_standard_output(output),
    };
    let request = request(task, run, context)?;
    let (client, events) = context
        .backend
        .connect_and_stream("/api/stream?form=reference", &request)
        .await?;
    let model = run.model.clone().unwrap_or(settings.provider.model);
    let mut session = Session {
        client,
        id: events.session().unwrap_or_default().to_owned(),
        secret: events.secret(),
        answer,
        json: run.json,
        output,
    };
    let streamed = session.stream(events, Waiting::operation(model, output)).await;
    let left = match &streamed {
        Err(Error::Interrupted | Error::OutputClosed) if run.detach => InterruptedSession::Running,
        Err(why @ (Error::Interrupted | Error::OutputClosed)) => {
            if cancel(&session.client, &session.id, why, output).await {
                InterruptedSession::Cancelled
            } else {
                InterruptedSession::Ending
            }
        }
        _ => InterruptedSession::Running,
    };
    match streamed {
        Ok(ended) => session.finish(Path::new(&request.repo_path), ended).await,
        Err(error) => {
            // The error must not stand at the end of a line of the answer.
            let _ = session.answer.end_line();
            session.say_unwritten();
            match (&error, left) {
                (Error::Interrupted, InterruptedSession::Cancelled) => session.say_cancelled().await,
                (Error::Interrupted, left) => session.say_interrupted(left),
                (Error::NotRunning, _) => session.say_lost(),
                _ => {}
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

fn request(task: Task, run: &RunArguments, context: &Context) -> Result<ExecuteRequest, Error> {
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
        interactive: Output::can_ask() && !run.json && !run.policy.frozen,
        policy: policy(&run.policy),
        overrides: Overrides(context.backend.forwarded()),
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
    id: String,
    /// Answers its approvals.
    secret: String,
    answer: AnswerWriter,
    json: bool,
    output: Output,
}

/// State of a session whose client was interrupted.
#[derive(Debug, Clone, Copy)]
enum InterruptedSession {
    Running,
    Cancelled,
    /// Cancelled, but its end is not confirmed.
    Ending,
}

/// End of a session, from its last event.
struct SessionEnd {
    /// The failure; absent after success.
    problem: Option<Problem>,
    /// The connection of the stream can serve another request.
    is_free: bool,
}

impl Session {
    /// Shows what happens until the end.
    async fn stream(&mut self, events: Events, waiting: Waiting) -> Result<SessionEnd, Error> {
        let mut events = Follow::new(events, waiting)?;
        while let Some(event) = events.next().await? {
            if self.json {
                let line = serde_json::to_string(&event).unwrap_or_default();
                self.answer.piece(&format!("{line}\n"))?;
            } else {
                self.show(&event).await?;
            }
            let problem = match event {
                Event::Complete { .. } => None,
                Event::Error {
                    code: kind,
                    message,
                    hint,
                } => Some(Problem { kind, message, hint }),
                _ => continue,
            };
            let is_free = events.finish().await;
            return Ok(SessionEnd { problem, is_free });
        }
        Err(events.ended_early().await)
    }

    async fn show(&mut self, event: &Event) -> Result<(), Error> {
        if let Event::Approval { .. } = event {
            self.answer.pause()?;
            return approve(event, &self.secret, &self.client, self.output).await;
        }
        show(event, &mut self.answer, self.output)
    }

    /// After the last event: the user learns where the report is and what failed, and the file appears where there is
    /// one and the operation is complete.
    async fn finish(mut self, root: &Path, ended: SessionEnd) -> Result<ExitCode, Error> {
        self.answer.end()?;
        if !self.json {
            self.say_report(root, ended.is_free).await;
        }
        match ended.problem {
            None => self.answer.complete().map(|()| ExitCode::SUCCESS),
            Some(problem) => {
                // Into a file that is not written the events go, and the error with them.
                let unwritten = self.answer.unwritten().is_some();
                if !self.json || unwritten {
                    self.output.problem(&problem);
                }
                self.say_unwritten();
                Ok(ExitCode::from(problem.kind.exit_code()))
            }
        }
    }

    /// `is_free` is the connection that the stream came by.
    async fn say_report(&mut self, root: &Path, is_free: bool) {
        let result = async {
            // The answer itself was streamed already.
            let path = format!("/api/results/{}?output=0", self.id);
            if is_free {
                self.client.get::<SessionResult>(&path).await
            } else {
                self.client.another().await?.get(&path).await
            }
        };
        // A report that cannot be asked for is no reason to fail what has ended well.
        if let Ok(result) = result.await
            && !result.report_path.is_empty()
        {
            let place = openable(&root.join(&result.report_path));
            self.output.progress(&format!("report {}", place.display()));
        }
    }

    /// Prints the state of a session whose client was interrupted, and how to come back to it.
    fn say_interrupted(&self, left: InterruptedSession) {
        let id = &self.id;
        let hint = format!("`tool results {id}` shows what there is of the answer");
        let follow = format!("`tool attach {id}` follows it again, `tool cancel {id}` ends it");
        let (message, hint) = match left {
            InterruptedSession::Running => (format!("The session {id} continues."), follow),
            InterruptedSession::Cancelled => ("The session was cancelled.".to_owned(), hint),
            InterruptedSession::Ending => (format!("The session {id} is being cancelled."), hint),
        };
        self.output.notice(&message, Some(&hint));
    }

    /// Reports a cancelled session, with the changes that it leaves behind.
    async fn say_cancelled(&self) {
        self.say_interrupted(InterruptedSession::Cancelled);
        let path = format!("/api/results/{}?output=0", self.id);
        let result = async { self.client.another().await?.get::<SessionResult>(&path).await };
        let Ok(SessionResult { files_modified, .. }) = result.await else {
            return;
        };
        let files = match files_modified.as_slice() {
            [] => return,
            [file] => format!("`{}` stays as the session has changed it.", clean_line(file)),
            files => format!("{} files stay as the session has changed them.", files.len()),
        };
        let hint = format!("`tool undo {}` takes that back", self.id);
        self.output.notice(&files, Some(&hint));
    }

    /// After the error of a backend that went away: how to come back to the session.
    fn say_lost(&self) {
        let id = &self.id;
        let message = format!("What the session {id} has done is kept, and closed when the backend starts again.");
        let hint = format!("`tool results {id}` shows it then, `tool undo {id}` takes back what it changed");
        self.output.notice(&message, Some(&hint));
    }

    /// Printed even where the rest is quiet: a user who wanted a file must not take an old one for the answer.
    fn say_unwritten(&self) {
        if let Some(file) = self.answer.unwritten() {
            self.output.ask(&format!(
                "`{}` was not written: the operation is not complete.\n",
                file.display()
            ));
            self.output
                .hint(&format!("`tool results {}` shows what there is", self.id));
        }
    }
}

/// Shows an event that asks for nothing.
pub(super) fn show(event: &Event, answer: &mut AnswerWriter, output: Output) -> Result<(), Error> {
    match event {
        Event::Token { content } => answer.piece(content)?,
        Event::Selection { files } => {
            for file in files {
                output.progress(&format!("reads {}  ({})", file.path, file.reasons.join("; ")));
            }
        }
        Event::Skill { name, args } => {
            answer.pause()?;
            output.progress(&format!("skill {}", describe_call(name, args)));
        }
        Event::SkillResult {
            name, verdict, summary, ..
        } if verdict != "ok" => {
            answer.end_line()?;
            output.progress(&format!("skill {name}: {verdict}: {summary}"));
        }
        Event::Notice { .. } => {
            answer.end_line()?;
            notice(event, output);
        }
        _ => {}
    }
    Ok(())
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
            assert!(problem.message.ends_with("takes a path, not `-`"), "{problem}");
        }
    }
}
