//! `tool ci`: one operation in a job of a CI system, with report files and annotations in the system's format.
//!
//! The exit code is that of the operation. All text of a model or a file goes to the log through [`CommandOutput::job_log`],
//! so that no line is a command to the runner.

mod findings;
mod pipeline;
mod report_folder;
pub(super) mod summary;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_context::operation::proposals::PlacedProposal;
use tool_core::api::{ErrorKind, Event, ExecuteRequest, Problem, SessionResult};
use tool_session::{REPORT_TRANSCRIPT_BYTES_MAX, read_proposals};

use super::follow::{EventFollower, WaitState};
use super::operation::{self, TypedTask};
use super::session_tally::SessionTally;
use super::{CommandContext, cancel_on_error, init};
use crate::args::{CiArguments, CiHost, RunArguments, TurnOperation};
use crate::error::Error;
use crate::output::{Annotation, AnnotationLevel, AnswerWriter, CommandOutput};
use pipeline::Pipeline;
use report_folder::ReportFolder;

/// Part of a session's report that is kept: the transcript, and the text above it.
const SESSION_REPORT_BYTES_MAX: u64 = 2 * REPORT_TRANSCRIPT_BYTES_MAX as u64;

struct JobReport<'a> {
    result: &'a SessionResult,
    findings: &'a [PlacedProposal],
    model: &'a str,
    /// Why the change is not trusted.
    distrust: Option<&'static str>,
}

pub(super) async fn run_ci(arguments: CiArguments, context: &CommandContext) -> Result<ExitCode, Error> {
    let pipeline = Pipeline::detect_system(arguments.host, &context.backend.environment)?;
    check_home(context)?;
    let context = CommandContext {
        backend: context.backend.without_port(),
        output: context.output,
        repo: context.repo.clone(),
    };
    init::configure_job(
        arguments.vendor.as_deref(),
        arguments.session.model.as_deref(),
        &context,
    )?;
    let mut run = arguments.session.run_arguments(arguments.max_cost);
    if let Some(why) = pipeline.distrust {
        narrow_session(&mut run, why, context.output)?;
    }
    let ready = operation::prepare_task(build_task(&arguments), &run, &context).await?;
    let model = ready.model.clone();
    let request = ready.request(&run, &context)?;
    let root = PathBuf::from(&request.repo_path);
    let root = root.canonicalize().unwrap_or(root);
    // A folder that cannot be written should be reported before a model is paid.
    let reports = open_reports(&root, &arguments.reports)?;
    let was_running = context.backend.running()?.is_some();
    let result = run_session(&request, &model, &context).await;
    if !was_running {
        stop_backend(&context).await;
    }
    let result = result?;
    let findings = findings_of(&result, &root, &context)?;
    let report = JobReport {
        result: &result,
        findings: &findings,
        model: &model,
        distrust: pipeline.distrust,
    };
    let job = EndedJob {
        pipeline,
        reports,
        root,
        context: &context,
    };
    job.publish(&report)?;
    Ok(match &result.error {
        None => ExitCode::SUCCESS,
        Some(problem) => ExitCode::from(problem.kind.exit_code()),
    })
}

/// Refuses a home within the checkout: a change could contain a configuration there, and with it a server that gets the
/// key.
fn check_home(context: &CommandContext) -> Result<(), Error> {
    let (root, _) = context.places()?;
    let root = root.canonicalize().unwrap_or(root);
    let home = &context.backend.home;
    let existing = home.ancestors().find_map(|above| above.canonicalize().ok());
    if existing.is_some_and(|home| home.starts_with(&root)) {
        let message = format!(
            "`{}` lies in the repository, whose change could configure it",
            home.display()
        );
        let hint = "set TOOL_HOME to a folder outside of the checkout, for example below the runner's temporary folder";
        return Err(Problem::new(ErrorKind::Home, message).with_hint(hint).into());
    }
    Ok(())
}

fn build_task(arguments: &CiArguments) -> TypedTask {
    let text = arguments.words.join(" ");
    match arguments.operation {
        TurnOperation::Explain => TypedTask::explain(arguments.words.clone(), true),
        TurnOperation::Architect => TypedTask::architect(text),
        TurnOperation::Refactor => TypedTask::refactor(text, arguments.focus.clone()),
        TurnOperation::TestGen => TypedTask::test_gen(text),
    }
}

/// Restricts a session on a stranger's change.
fn narrow_session(run: &mut RunArguments, why: &str, output: CommandOutput) -> Result<(), Error> {
    if run.session.policy.unsandboxed {
        let message = format!("`--unsandboxed` would run a change that is not trusted: {why}");
        let hint = "leave the flag out; such a change runs in the full sandbox or not at all";
        return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
    }
    run.session.policy.untrusted = true;
    run.session.policy.untrusted_task = true;
    run.session.policy.require_sandbox = true;
    output.notice(&format!("The change is not trusted: {why}."), None);
    Ok(())
}

/// The folder of the reports. A new one gets a `.gitignore`, so that git and the next scan skip it; an existing one
/// keeps its files.
fn open_reports(root: &Path, folder: &Path) -> Result<ReportFolder, Error> {
    let reports = ReportFolder::open(root, folder)?;
    if reports.is_new {
        reports.write(".gitignore", b"*\n")?;
    }
    Ok(reports)
}

/// Runs the session to its end and returns its result. An interruption cancels it.
async fn run_session(request: &ExecuteRequest, model: &str, context: &CommandContext) -> Result<SessionResult, Error> {
    let output = context.output;
    let (client, events) = context
        .backend
        .connect_and_stream("/api/stream?form=reference", request)
        .await?;
    let id = events.session().unwrap_or_default().to_owned();
    let mut events = EventFollower::new(events, WaitState::for_operation(model.to_owned(), output))?;
    match follow_session(&mut events, output).await {
        Ok(tally) => output.progress(&tally.line(&id)),
        Err(why @ (Error::Interrupted | Error::OutputClosed)) => {
            cancel_on_error(&client, &id, &why, output).await;
            return Err(why);
        }
        Err(error) => return Err(error),
    }
    let mut client = client.another().await?;
    client.get(&format!("/api/results/{id}")).await
}

/// Shows each step until the last event; the answer comes from the result.
async fn follow_session(events: &mut EventFollower, output: CommandOutput) -> Result<SessionTally, Error> {
    let mut tally = SessionTally::default();
    let mut nothing = AnswerWriter::unrendered();
    while let Some(event) = events.next().await? {
        tally.count(&event);
        match event {
            Event::Token { .. } | Event::Approval { .. } => {}
            event if event.is_terminal() => return Ok(tally),
            event => operation::show_event(&event, &mut nothing, output)?,
        }
    }
    Err(events.ended_early().await)
}

/// Stops the backend that the job has started, unless something else uses it now.
async fn stop_backend(context: &CommandContext) {
    if let Ok(mut client) = context.backend.connect_running().await {
        // If the backend keeps running, it ends with the job's container. Only the result matters.
        let _ = context.backend.stop_if_idle(&mut client).await;
    }
}

/// The proposals of an architect's answer; other operations have none.
fn findings_of(result: &SessionResult, root: &Path, context: &CommandContext) -> Result<Vec<PlacedProposal>, Error> {
    if !has_findings(result) {
        return Ok(Vec::new());
    }
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    Ok(read_proposals(home, environment, root, &result.output)?)
}

fn has_findings(result: &SessionResult) -> bool {
    result.operation == tool_core::api::Operation::Architect
}

struct EndedJob<'a> {
    pipeline: Pipeline,
    reports: ReportFolder,
    root: PathBuf,
    context: &'a CommandContext,
}

impl EndedJob<'_> {
    /// Writes the reports, and reports to the CI system.
    fn publish(&self, report: &JobReport<'_>) -> Result<(), Error> {
        let summary = summary::write_job_summary(report);
        self.write_reports(report, &summary)?;
        self.context
            .output
            .job_log(&format!("{}\n", report.result.output.trim_end()))?;
        if self.pipeline.host == CiHost::Github {
            self.annotate(report)?;
            self.append("GITHUB_STEP_SUMMARY", &summary)?;
            self.append("GITHUB_OUTPUT", &self.step_outputs(report))?;
        }
        let place = self.reports.path("summary.md");
        self.context.output.progress(&format!("summary {}", place.display()));
        if let Some(problem) = &report.result.error {
            self.context.output.problem(problem);
        }
        Ok(())
    }

    fn write_reports(&self, report: &JobReport<'_>, summary: &str) -> Result<(), Error> {
        self.reports.write("summary.md", summary.as_bytes())?;
        self.reports.write("answer.md", report.result.output.as_bytes())?;
        self.write_json("result.json", report.result)?;
        self.copy_session_report(report.result)?;
        if has_findings(report.result) {
            self.write_json("findings.sarif", &findings::write_sarif(report.findings))?;
        }
        if self.pipeline.host == CiHost::Gitlab {
            let report = findings::code_quality(report.findings, &self.pipeline, &self.root);
            self.write_json("code-quality.json", &report)?;
        }
        Ok(())
    }

    /// Copies the transcript next to the other reports. If it cannot be read, it is still in the backend's home.
    fn copy_session_report(&self, result: &SessionResult) -> Result<(), Error> {
        let mut text = Vec::new();
        let read = File::open(self.root.join(&result.report_path))
            .and_then(|file| file.take(SESSION_REPORT_BYTES_MAX).read_to_end(&mut text));
        match read {
            Ok(_) if !result.report_path.is_empty() => self.reports.write("session.md", &text).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(value)
            .map_err(|error| Error::new(ErrorKind::ReportFailed, format!("`{name}` could not be made: {error}")))?;
        self.reports.write(name, &text).map(|_| ())
    }

    fn annotate(&self, report: &JobReport<'_>) -> Result<(), Error> {
        for annotation in findings::make_annotations(report.findings, &self.pipeline, &self.root) {
            self.context.output.annotate(&annotation)?;
        }
        match &report.result.error {
            None => Ok(()),
            Some(problem) => self.context.output.annotate(&Annotation {
                level: AnnotationLevel::Error,
                title: format!("tool {}", report.result.operation),
                message: problem.message.clone(),
                place: None,
            }),
        }
    }

    /// Appends to a file that the runner names. Without such a variable, does nothing.
    fn append(&self, variable: &str, text: &str) -> Result<(), Error> {
        let Some(place) = self.context.backend.environment.get(variable) else {
            return Ok(());
        };
        let appended = OpenOptions::new()
            .append(true)
            .create(true)
            .open(place)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        appended.map_err(|error| Error::on_file(variable, Path::new(place), &error))
    }

    /// Outputs of the step. A random delimiter prevents a path with line breaks from becoming another output.
    fn step_outputs(&self, report: &JobReport<'_>) -> String {
        let sarif = if has_findings(report.result) {
            self.reports.path("findings.sarif").display().to_string()
        } else {
            String::new()
        };
        let outputs = [
            ("status", summary::status_word(report.result.status).to_owned()),
            ("session", report.result.session_id.clone()),
            ("findings", report.findings.len().to_string()),
            ("changed-files", report.result.files_modified.len().to_string()),
            ("summary", self.reports.path("summary.md").display().to_string()),
            ("sarif", sarif),
        ];
        let delimiter = uuid::Uuid::new_v4().simple().to_string();
        let lines = outputs.map(|(name, value)| format!("{name}<<{delimiter}\n{value}\n{delimiter}\n"));
        lines.concat()
    }
}
