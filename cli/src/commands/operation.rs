//! The four operations: starts a session, streams it, and ends with its exit code.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use tool_analyst::refuse_question;
use tool_config::ProviderApi;
use tool_context::operation::{check_place, is_question, names_path};
use tool_core::api::{ErrorKind, Event, ExecuteRequest, Operation, Problem, SessionResult};
use tool_core::text::clean_line;
use tool_session::preflight;

use super::follow::{EventFollower, WaitState};
use super::session_tally::SessionTally;
use super::{
    CommandContext, ask_approval, asserted_provider, budget_request, cancel_on_error, describe_call, is_interactive,
    openable_path, path_text, policy_request, selection_request, show_notice,
};
use crate::args::RunArguments;
use crate::client::{Client, ServerEvents};
use crate::error::Error;
use crate::output::{AnswerFile, AnswerWriter, CommandOutput};

/// An operation with its target and focus.
#[derive(Debug)]
pub(super) struct TypedTask {
    operation: Operation,
    /// Targets of explain as typed; for another operation, one target or task.
    typed: Vec<String>,
    focus: Option<String>,
    /// True if the text must be read as a question.
    is_question: bool,
    /// True if the changes go to a private layer.
    is_preview: bool,
    /// True if the overview has all its sections.
    is_full: bool,
}

/// Subject of a request: a target, or a question.
#[derive(Debug, Default)]
struct RequestSubject {
    target: Option<String>,
    question: Option<String>,
}

/// Largest task from standard input. A description has a few thousand bytes; a larger text should be a file in the
/// repository.
const TASK_BYTES_MAX: u64 = 64 * 1024;

impl TypedTask {
    /// Replaces the target `-` by the text of standard input. Refused if a path is required.
    fn read(mut self) -> Result<Self, Error> {
        if !self.typed.iter().any(|typed| typed == "-") {
            return Ok(self);
        }
        let takes_text = self.is_question || matches!(self.operation, Operation::Architect | Operation::Refactor);
        if !takes_text {
            let message = format!("`tool {}` takes a path, not `-`", self.operation);
            let hint = "`tool ask -`, `tool architect -` and `tool refactor -` read text from standard input";
            return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
        }
        self.typed = vec![text_of("-")?];
        Ok(self)
    }

    /// Decides the meaning of the text, as far as possible without reading the repository. A path that does not exist
    /// is a typing mistake: no session is started, and no model is asked. If the path exists, the session decides
    /// whether it may be read.
    fn subject(&self, context: &CommandContext) -> Result<RequestSubject, Error> {
        let text = self.typed.join(" ");
        if self.is_question {
            return Ok(RequestSubject::of_question(text));
        }
        if !matches!(self.operation, Operation::Explain | Operation::TestGen) {
            return Ok(RequestSubject::of_target(text));
        }
        // An empty path usually comes from a variable without a value.
        if self.typed.iter().any(|typed| typed.trim().is_empty()) {
            let hint = match self.operation {
                Operation::TestGen => "name the source file that tests are wanted for",
                _ => "name a file or a directory; `.` is the whole repository",
            };
            return Err(Problem::new(ErrorKind::Usage, "The path is empty")
                .with_hint(hint)
                .into());
        }
        let (root, here) = context.places()?;
        let root = root.canonicalize().unwrap_or(root);
        let is_path = |typed: &String| names_path(typed, &root, &here);
        let is_text = match self.typed.as_slice() {
            [] => return Ok(RequestSubject::of_target(".".to_owned())),
            [typed] => is_question(typed, &root, &here),
            // A question without its quotation marks.
            several => !several.iter().any(is_path),
        };
        if is_text && self.operation == Operation::Explain {
            return Ok(RequestSubject::of_question(text));
        }
        for typed in &self.typed {
            check_place(self.operation, typed, &root, &here)?;
        }
        Ok(RequestSubject::of_target(self.typed.join("\n")))
    }

    pub(super) fn explain(targets: Vec<String>, is_full: bool) -> Self {
        Self {
            is_full,
            ..Self::new(Operation::Explain, targets)
        }
    }

    pub(super) fn ask(words: &[String]) -> Self {
        Self {
            is_question: true,
            ..Self::new(Operation::Explain, vec![words.join(" ")])
        }
    }

    pub(super) fn architect(task: String) -> Self {
        Self::new(Operation::Architect, vec![task])
    }

    pub(super) fn refactor(task: String, focus: Option<String>) -> Self {
        Self {
            focus,
            ..Self::new(Operation::Refactor, vec![task])
        }
    }

    pub(super) fn test_gen(file: String) -> Self {
        Self::new(Operation::TestGen, vec![file])
    }

    /// Puts the changes of the task into a private layer if `is_preview`.
    pub(super) fn previewed(self, is_preview: bool) -> Self {
        Self { is_preview, ..self }
    }

    fn new(operation: Operation, typed: Vec<String>) -> Self {
        Self {
            operation,
            typed,
            focus: None,
            is_question: false,
            is_preview: false,
            is_full: false,
        }
    }
}

impl RequestSubject {
    fn of_target(text: String) -> Self {
        Self {
            target: Some(text),
            question: None,
        }
    }

    fn of_question(text: String) -> Self {
        Self {
            target: None,
            question: Some(text),
        }
    }
}

/// The text of a task or a question; `-` reads it from standard input.
pub(super) fn text_of(typed: &str) -> Result<String, Error> {
    match typed.trim() {
        "-" => task_of(std::io::stdin().lock()),
        "" => Err(Error::new(ErrorKind::Usage, "The text is empty")),
        _ => Ok(typed.to_owned()),
    }
}

/// A task as text: bounded, and not empty. A piped diff may contain other encodings, and be cut within a character.
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
    if bytes.contains(&0) {
        return Err(usage("The task is no text: it has a zero byte".to_owned()));
    }
    let text = String::from_utf8_lossy(&bytes);
    match text.trim() {
        "" => Err(usage("Standard input holds no task".to_owned())),
        task => Ok(task.to_owned()),
    }
}

/// A task whose settings and subject are valid.
#[derive(Debug)]
pub(super) struct ReadyTask {
    task: TypedTask,
    subject: RequestSubject,
    pub(super) model: String,
}

impl ReadyTask {
    pub(super) fn request(self, run: &RunArguments, context: &CommandContext) -> Result<ExecuteRequest, Error> {
        build_request(self.task, self.subject, run, context)
    }
}

/// Reports errors that can be found before a daemon is started or a model is paid.
pub(super) async fn prepare_task(
    task: TypedTask,
    run: &RunArguments,
    context: &CommandContext,
) -> Result<ReadyTask, Error> {
    let output = context.output;
    let task = task.read()?;
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let settings = match tool_config::load_settings(home, environment) {
        Err(problem) if problem.kind == ErrorKind::ConfigMissing && CommandOutput::can_ask() && !run.json => {
            output.notice(&problem.message, Some("a few questions follow; Ctrl-C writes nothing"));
            super::init::set_up(context).await?;
            tool_config::load_settings(home, environment)?
        }
        loaded => loaded?,
    };
    if let Some(problem) = preflight::check_configuration(home, environment) {
        return Err(problem.into());
    }
    if let Some(problem) = tool_config::exposed_key(&context.backend.home) {
        output.warning(&problem);
    }
    let subject = task.subject(context)?;
    if subject.question.is_some() && settings.provider.api == ProviderApi::Analyst {
        return Err(refuse_question().into());
    }
    let model = run.session.model.clone().unwrap_or(settings.provider.model);
    Ok(ReadyTask { task, subject, model })
}

pub(super) async fn run_operation(
    task: TypedTask,
    run: &RunArguments,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let output = context.output;
    let ready = prepare_task(task, run, context).await?;
    let answer = match &run.output {
        Some(file) => AnswerWriter::into_file(answer_file(file, &ready.task, context)?),
        None => answer_writer(None, run.json, output)?,
    };
    let model = ready.model.clone();
    let request = ready.request(run, context)?;
    let (client, events) = context
        .backend
        .connect_and_stream("/api/stream?form=reference", &request)
        .await?;
    let session = StartedSession {
        client,
        id: events.session().unwrap_or_default().to_owned(),
        secret: events.secret(),
        answer,
        json: run.json,
        output,
        tally: SessionTally::default(),
    };
    let root = Path::new(&request.repo_path);
    session
        .run(events, WaitState::for_operation(model, output), run.detach, root)
        .await
}

/// Writer of an answer: to a file, as JSON, or rendered.
pub(super) fn answer_writer(file: Option<&Path>, json: bool, output: CommandOutput) -> Result<AnswerWriter, Error> {
    Ok(match file {
        Some(file) => AnswerWriter::into_file(AnswerFile::check_writable(file)?),
        None if json => AnswerWriter::unrendered(),
        None => AnswerWriter::on_standard_output(output),
    })
}

/// The file of the answer. It must not replace a file that the operation reads.
fn answer_file(file: &Path, task: &TypedTask, context: &CommandContext) -> Result<AnswerFile, Error> {
    let file = AnswerFile::check_writable(file)?;
    let (root, here) = context.places()?;
    // A target is relative to the working directory or to the root. A task is hardly a file name.
    for place in [here, root] {
        for typed in &task.typed {
            file.check_is_not(&place.join(typed))?;
        }
    }
    Ok(file)
}

fn build_request(
    task: TypedTask,
    subject: RequestSubject,
    run: &RunArguments,
    context: &CommandContext,
) -> Result<ExecuteRequest, Error> {
    let (root, here) = context.places()?;
    Ok(ExecuteRequest {
        operation: task.operation,
        target: subject.target,
        repo_path: path_text(&root)?,
        provider: asserted_provider(run),
        task: subject.question,
        focus: task.focus,
        working_directory: Some(path_text(&here)?),
        model: run.session.model.clone(),
        interactive: is_interactive(run),
        ask: Vec::new(),
        is_of_program: false,
        policy: policy_request(&run.session.policy),
        overrides: run.session.tests.overrides(context.backend.forwarded()),
        attached: !run.detach,
        selection: selection_request(&run.session.steer),
        budget: budget_request(run),
        verification: run.session.tests.verification(),
        no_tests: run.session.tests.no_tests,
        no_checks: run.session.tests.no_checks,
        preview: task.is_preview,
        // A file has room for everything.
        full: task.is_full || run.output.is_some(),
    })
}

pub(super) struct StartedSession {
    pub(super) client: Client,
    pub(super) id: String,
    /// Answers its approvals.
    pub(super) secret: String,
    pub(super) answer: AnswerWriter,
    pub(super) json: bool,
    pub(super) output: CommandOutput,
    pub(super) tally: SessionTally,
}

/// State of a session whose client was interrupted.
#[derive(Debug, Clone, Copy)]
enum InterruptedSession {
    Running,
    Cancelled,
    /// Cancelled, but the end is not confirmed.
    Ending,
}

/// End of a session, from its last event.
struct SessionEnd {
    /// The failure; absent after success.
    problem: Option<Problem>,
    /// True if the connection of the stream can serve another request.
    is_free: bool,
}

impl StartedSession {
    /// Follows the session to its end. An interruption cancels it, unless it is detached.
    pub(super) async fn run(
        mut self,
        events: ServerEvents,
        waiting: WaitState,
        detach: bool,
        root: &Path,
    ) -> Result<ExitCode, Error> {
        let streamed = self.stream(events, waiting).await;
        let left = match &streamed {
            Err(Error::Interrupted | Error::OutputClosed) if detach => InterruptedSession::Running,
            Err(why @ (Error::Interrupted | Error::OutputClosed)) => {
                if cancel_on_error(&self.client, &self.id, why, self.output).await {
                    InterruptedSession::Cancelled
                } else {
                    InterruptedSession::Ending
                }
            }
            _ => InterruptedSession::Running,
        };
        let error = match streamed {
            Ok(ended) => return self.finish(root, ended).await,
            Err(error) => error,
        };
        // The error must start on a new line after the answer.
        let _ = self.answer.end_line();
        self.say_unwritten();
        match (&error, left) {
            (Error::Interrupted, InterruptedSession::Cancelled) => self.say_cancelled().await,
            (Error::Interrupted, left) => self.say_interrupted(left),
            (Error::NotRunning, _) => self.say_lost(),
            _ => {}
        }
        Err(error)
    }

    async fn stream(&mut self, events: ServerEvents, waiting: WaitState) -> Result<SessionEnd, Error> {
        let mut events = EventFollower::new(events, waiting)?;
        while let Some(event) = events.next().await? {
            self.tally.count(&event);
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
                } => Some(Problem {
                    hint,
                    ..Problem::new(kind, message)
                }),
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
            return ask_approval(event, &self.secret, &self.client, self.output).await;
        }
        show_event(event, &mut self.answer, self.output)
    }

    /// Runs after the last event: prints where the report is and what failed, and writes the file if the operation is
    /// complete.
    async fn finish(mut self, root: &Path, ended: SessionEnd) -> Result<ExitCode, Error> {
        // Without a result, the lines about changes and the report are omitted. The exit code is that of the session.
        let result = if self.json {
            None
        } else {
            self.result(ended.is_free).await.ok()
        };
        self.answer.end()?;
        if let Some(result) = &result {
            say_commands_after(result, self.output);
        }
        if !self.json {
            self.output.progress(&self.tally.line(&self.id));
        }
        if let Some(result) = result.as_ref().filter(|result| !result.report_path.is_empty()) {
            let place = openable_path(&root.join(&result.report_path));
            self.output.progress(&format!("report {}", place.display()));
        }
        match ended.problem {
            None => self.answer.complete().map(|()| ExitCode::SUCCESS),
            Some(problem) => {
                let problem = with_way_back(problem, result.as_ref());
                // With `--json` the events contain the error, unless their file was not written.
                let unwritten = self.answer.unwritten().is_some();
                if !self.json || unwritten {
                    self.output.problem(&problem);
                }
                self.say_unwritten();
                Ok(ExitCode::from(problem.kind.exit_code()))
            }
        }
    }

    /// The result without the answer, which was streamed already. `is_free` tells whether the stream's connection can
    /// be used.
    async fn result(&mut self, is_free: bool) -> Result<SessionResult, Error> {
        let path = format!("/api/results/{}?output=0", self.id);
        if is_free {
            return self.client.get(&path).await;
        }
        self.client.another().await?.get(&path).await
    }

    /// Prints the state of a session whose client was interrupted, and how to return to it.
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

    /// Reports a cancelled session, with its remaining changes.
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

    /// After the loss of the backend: prints how to return to the session.
    fn say_lost(&self) {
        let id = &self.id;
        let message = format!("What the session {id} has done is kept, and closed when the backend starts again.");
        let hint = format!("`tool results {id}` shows it then, `tool undo {id}` takes back what it changed");
        self.output.notice(&message, Some(&hint));
    }

    /// Printed even in quiet mode: a user who expects a file must not take an old one for the answer.
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

/// Prints the commands that show and undo the changes of a session, one on each line. Prints nothing if no file
/// changed.
pub(super) fn say_commands_after(result: &SessionResult, output: CommandOutput) {
    let commands: &[(&str, &str)] = if !result.files_proposed.is_empty() {
        &[
            ("diff", "shows the changes"),
            ("apply", "puts them in place"),
            ("discard", "drops them"),
        ]
    } else if !result.files_modified.is_empty() {
        &[("diff", "shows the changes"), ("undo", "takes them back")]
    } else {
        &[]
    };
    let id = &result.session_id;
    for (name, does) in commands {
        output.progress(&format!("`tool {name} {id}` {does}"));
    }
}

/// Adds the command that undoes the changes of the session, if the problem is about these changes.
pub(super) fn with_way_back(mut problem: Problem, result: Option<&SessionResult>) -> Problem {
    use ErrorKind::{ChecksWorse, NotVerified, TestsFailing, TestsNotRun, TestsWorse};
    let is_about_changes = matches!(
        problem.kind,
        TestsWorse | ChecksWorse | NotVerified | TestsFailing | TestsNotRun
    );
    let Some(result) = result.filter(|_| is_about_changes) else {
        return problem;
    };
    if problem.kind == NotVerified {
        let before = problem.hint.take().unwrap_or_default();
        problem.hint = Some(format!("{before}, or take it as it is with `--unverified`"));
    }
    let id = &result.session_id;
    let way_back = if !result.files_proposed.is_empty() {
        format!("`tool discard {id}` drops the proposals")
    } else if !result.files_modified.is_empty() {
        format!("`tool undo {id}` brings the old state back")
    } else {
        return problem;
    };
    let before = problem.hint.take().map(|hint| format!("{hint}; ")).unwrap_or_default();
    problem.with_hint(before + &way_back)
}

/// Shows an event that requires no answer.
pub(super) fn show_event(event: &Event, answer: &mut AnswerWriter, output: CommandOutput) -> Result<(), Error> {
    match event {
        Event::Token { content } => answer.piece(content)?,
        Event::Selection { files } => {
            for file in files {
                output.step(&format!("reads {}  ({})", file.path, file.reasons.join("; ")));
            }
        }
        Event::Skill { name, args, .. } => {
            answer.pause()?;
            output.step(&format!("skill {}", describe_call(name, args)));
        }
        Event::SkillResult {
            name, verdict, summary, ..
        } if verdict != "ok" => {
            answer.end_line()?;
            output.step(&format!("skill {name}: {verdict}: {summary}"));
        }
        Event::Notice { .. } => {
            answer.end_line()?;
            show_notice(event, output);
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
        assert_eq!(message(b"a\0b"), "The task is no text: it has a zero byte");
        assert_eq!(
            task_of(&b"+caf\xe9 gr\xc3"[..]).expect("a task"),
            "+caf\u{fffd} gr\u{fffd}"
        );
        assert_eq!(message(&vec![b'x'; 70_000]), "The task is larger than 64 KiB");
    }

    #[test]
    fn a_path_cannot_be_a_dash() {
        for task in [
            TypedTask::explain(vec!["-".into()], false),
            TypedTask::test_gen("-".into()),
        ] {
            let Err(Error::Problem(problem)) = task.read() else {
                panic!("`-` is no path");
            };
            assert!(problem.message.ends_with("takes a path, not `-`"), "{problem}");
        }
    }
}
