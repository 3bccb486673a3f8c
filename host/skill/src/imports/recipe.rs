//! Shared parts of recipes: asking, running in the sandbox, reporting.
//!
//! A recipe is a fixed argument vector with placeholders for checked names and paths. No shell is involved. A name or
//! path that could be read as an option is refused. The user who is asked sees the exact vector.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits;
use crate::{CallContext, Question};
use test_results::ResultFormat;
use tokio_util::sync::CancellationToken;
use tool_boundary::Failure;
use tool_boundary::NoRun;
use tool_boundary::bindings::tool::skill::tests::Report;
use tool_boundary::call_cancelled;
use tool_boundary::consent;
use tool_core::api::{Effect, PolicyRequest};
use tool_core::text::reveal_line;
use tool_repository::{HiddenEntriesError, Repository};
use tool_sandbox::program_sandbox::{self, Enclosure, ProposedFile, RunBounds, Sandbox, ToolAccess};
use tool_sandbox::toolchain::{self, Python};
use tool_sandbox::{self, CommandSpec, ProcessError, RunEnd, RunLimits, RunOutput, environment};

/// Limit for the output of a test run that is read for results, half from the beginning and half from the end.
/// Results of twenty thousand tests as JSON fit.
const OUTPUT_READ_BYTES: usize = 32 << 20;

/// A run that needs only the user's yes.
#[derive(Clone)]
pub(super) struct PreparedRun {
    pub(super) effect: Effect,
    /// One line for the user.
    pub(super) title: String,
    /// Notes for the user beside the command.
    pub(super) notes: Vec<String>,
    pub(super) command: CommandSpec,
    pub(super) time: Duration,
    /// Places on this machine that the run needs.
    pub(super) tools: ToolAccess,
    /// Format of the output, which decides how lines are shown live.
    pub(super) format: ResultFormat,
}

/// A run of a recipe that has ended.
#[derive(Debug)]
pub(super) struct EndedRecipe {
    pub(super) report: Report,
    /// The raw output, which may be longer than the report's.
    pub(super) raw_output: String,
    /// The repository as the run left it, if the recipe asked for it.
    pub(super) tree: Option<OwnedFd>,
}

impl PreparedRun {
    /// Asks if the policy requires it, and runs. Returns all of the output, and the tree.
    pub(super) fn execute_handing_back(&self, context: &CallContext) -> Result<EndedRecipe, Failure> {
        let sandbox = self.ask(context)?;
        self.run_handing_back(context, sandbox)
    }

    /// Asks if the policy requires it, and returns the sandbox of the run.
    pub(super) fn ask(&self, context: &CallContext) -> Result<Sandbox, Failure> {
        let sandbox = self.sandbox(context)?;
        if sandbox == Sandbox::None && context.repository.layer().is_some() {
            let message = "A preview runs nothing without a sandbox: it would run with the files as they are.";
            return Err(Failure::unavailable(message).with_hint("the user can apply the changes first"));
        }
        consent::obtain_consent(context, &self.question(sandbox))?;
        Ok(sandbox)
    }

    /// Runs without asking. Returns all of the output, and the tree.
    pub(super) fn run_handing_back(&self, context: &CallContext, sandbox: Sandbox) -> Result<EndedRecipe, Failure> {
        let (run, tree) = self.run_with_tools(context, sandbox)?;
        let raw_output = run.output.clone();
        let (output, is_cut) = tool_sandbox::keep_ends(&test_results::readable_output(self.format, &run.output));
        let report = self.report(run, sandbox)?;
        Ok(EndedRecipe {
            report: Report {
                output,
                output_cut: report.output_cut || is_cut,
                ..report
            },
            raw_output,
            tree,
        })
    }

    /// Runs the preceding commands, then the program.
    fn run_with_tools(&self, context: &CallContext, sandbox: Sandbox) -> Result<(RunOutput, Option<OwnedFd>), Failure> {
        let limits = RunLimits {
            output_kept_bytes: OUTPUT_READ_BYTES,
            ..RunLimits::within(self.time)
        };
        let progress = |line: &str| {
            if let Some(line) = test_results::readable_line(self.format, line) {
                (context.progress)(&line);
            }
        };
        let (command, cancel) = (&self.command, &context.cancel);
        if sandbox == Sandbox::None {
            let commands = self.tools.before.iter().map(|before| CommandSpec {
                program: before.program.clone(),
                arguments: before.arguments.clone(),
                ..command.clone()
            });
            let run_all = || {
                for before in commands {
                    let run = tool_sandbox::run_command(&before, &limits, cancel, &progress)?;
                    if run.end != RunEnd::Exited(0) {
                        return Ok(run);
                    }
                }
                tool_sandbox::run_command(command, &limits, cancel, &progress)
            };
            let run = without_turn(context, run_all)?.map_err(|error| not_run(&error))?;
            let tree = self
                .tools
                .hands_back
                .then(|| context.repository.directory().try_clone_to_owned());
            return Ok((run, tree.and_then(Result::ok)));
        }
        if sandbox == Sandbox::Landlock {
            progress(&fallback_note());
        }
        let mut enclosure = enclose_repository(context, sandbox)?;
        enclosure.tools = self.tools.clone();
        enclosure.tools.proposed = proposed_files(context);
        let run = || tool_sandbox::run_handing_back(command, &enclosure, &limits, cancel, &progress);
        let ended = without_turn(context, run)?.map_err(|error| not_run(&error))?;
        Ok((ended.run, ended.left.map(|left| left.repository)))
    }

    /// Report of a run, or the failure that ended it.
    pub(super) fn report(&self, run: RunOutput, sandbox: Sandbox) -> Result<Report, Failure> {
        let (exit_code, timed_out) = match run.end {
            RunEnd::Exited(code) => (Some(code), false),
            RunEnd::Signalled(_) => (None, false),
            RunEnd::TimedOut => (None, true),
            RunEnd::Cancelled => return Err(call_cancelled()),
            RunEnd::OutputLimit => return Err(too_much_output()),
            RunEnd::TaskLimit => return Err(too_many_tasks()),
            RunEnd::MemoryLimit => return Err(too_much_memory()),
            RunEnd::StorageLimit { bytes } => return Err(too_much_storage(bytes)),
        };
        Ok(Report {
            command: self.command.argv(),
            exit_code,
            output: run.output,
            output_cut: run.output_cut,
            duration_ms: u64::try_from(run.duration.as_millis()).unwrap_or(u64::MAX),
            timed_out,
            sandbox: sandbox.name().to_owned(),
        })
    }

    /// Sandbox of the run; fails if the policy refuses it.
    pub(super) fn sandbox(&self, context: &CallContext) -> Result<Sandbox, Failure> {
        let sandbox = context.policy.sandbox(self.effect);
        if context.policy.requires_sandbox() && sandbox != Sandbox::Namespaces {
            let message = format!("A full sandbox is required, and `{}` has none here.", self.effect);
            let required = context.policy.required_sandbox_text();
            let hint = format!("the user has to leave out {required}, or to do it by hand");
            return Err(Failure::denied(message).with_hint(hint));
        }
        Ok(sandbox)
    }

    pub(super) fn run(&self, context: &CallContext, sandbox: Sandbox) -> Result<RunOutput, Failure> {
        let limits = RunLimits::within(self.time);
        let progress = |line: &str| (context.progress)(line);
        let (command, cancel) = (&self.command, &context.cancel);
        let run = if sandbox == Sandbox::None {
            without_turn(context, || {
                tool_sandbox::run_command(command, &limits, cancel, &progress)
            })?
        } else {
            if sandbox == Sandbox::Landlock {
                progress(&fallback_note());
            }
            let enclosure = enclose_repository(context, sandbox)?;
            let run = || tool_sandbox::run_contained(command, &enclosure, &limits, cancel, &progress);
            without_turn(context, run)?
        };
        run.map_err(|error| not_run(&error))
    }

    pub(super) fn question(&self, sandbox: Sandbox) -> Question {
        let around = match sandbox {
            Sandbox::None => "without a sandbox: with your rights".to_owned(),
            sandbox => format!("in a sandbox ({sandbox})"),
        };
        let mut detail = format!(
            "{}\n\nin {}, {around}, for at most {}\n",
            quote_command(&self.command.argv()),
            self.command.directory.display(),
            format_minutes(self.time),
        );
        for note in &self.notes {
            detail.push_str(note);
            detail.push('\n');
        }
        Question::new(self.effect, &self.title, &detail)
    }
}

/// Runs a program without holding the call's permit, so that other calls can run meanwhile. Queries to interpreters
/// and installers keep the permit: they end within [`limits::PROBE_SECONDS_MAX`].
pub(super) fn without_turn<R>(context: &CallContext, run: impl FnOnce() -> R) -> Result<R, Failure> {
    context.turn.run(&context.cancel, run).map_err(|no_run| match no_run {
        NoRun::Cancelled => call_cancelled(),
        // This failure ends the call; the guest never reads it.
        NoRun::Busy => Failure::unavailable("Too many test runs and installations are under way."),
    })
}

/// The repository as a run in this sandbox sees it.
pub(super) fn enclose_repository(context: &CallContext, sandbox: Sandbox) -> Result<Enclosure, Failure> {
    Ok(Enclosure {
        sandbox,
        root: context.repository.root().to_owned(),
        hidden: context
            .repository
            .hidden_entries(&context.cancel)
            .map_err(|error| unlisted_failure(context, error))?,
        tracked_links: context.repository.tracked_links(),
        state_directory: context.repository.state_directory().map(Path::to_owned),
        bounds: RunBounds::default(),
        installation: None,
        tools: ToolAccess::default(),
    })
}

/// The files of a preview, as a run sees them. Hidden files are left out.
fn proposed_files(context: &CallContext) -> Vec<ProposedFile> {
    let Some(layer) = context.repository.layer() else {
        return Vec::new();
    };
    let visible = layer
        .paths()
        .into_iter()
        .filter(|layered| context.repository.hidden(&layered.path, false).is_none());
    visible
        .map(|layered| ProposedFile {
            path: layered.path,
            content: layered.content,
        })
        .collect()
}

/// The failure if a program could not be started.
pub(super) fn not_run(error: &ProcessError) -> Failure {
    let cause = std::error::Error::source(error)
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    Failure::unavailable(format!("{error}{cause}."))
}

/// Note on the limits of the fallback sandbox.
fn fallback_note() -> String {
    let why = program_sandbox::detect_sandbox().refused.join("; ");
    format!("[this machine refuses namespaces: the run gets a copy of the repository and no network at all ({why})]")
}

/// The request that grants an effect without a sandbox.
pub(super) fn unsandboxed_request(effect: Effect) -> PolicyRequest {
    PolicyRequest {
        unsandboxed: true,
        ..PolicyRequest::allowing_effect(effect.name())
    }
}

fn unlisted_failure(context: &CallContext, error: HiddenEntriesError) -> Failure {
    match error {
        HiddenEntriesError::Cancelled => call_cancelled(),
        error @ (HiddenEntriesError::TooMany | HiddenEntriesError::Unreadable { .. }) => Failure::limit(format!(
            "The hidden files could not be found, so nothing was run: {error}."
        ))
        .with_hint(format!(
            "the user can run tests without a sandbox, with {}",
            context.policy.grant_text(&unsandboxed_request(Effect::RunProcess))
        )),
    }
}

fn too_many_tasks() -> Failure {
    let message = format!(
        "The run was ended: it had more than {} processes and threads.",
        limits::CONTAIN_TASKS_MAX
    );
    Failure::limit(message).with_hint("run a part of it")
}

fn too_much_memory() -> Failure {
    let message = "The run was ended: it used more memory than the sandbox allows.";
    Failure::limit(message).with_hint("run a part of it")
}

fn too_much_storage(bytes: u64) -> Failure {
    let message = format!(
        "The run was ended: the files that it wrote do not fit the {} MiB, or the number of files, that are kept in \
         memory for it.",
        bytes >> 20
    );
    Failure::limit(message).with_hint("run a part of it")
}

fn too_much_output() -> Failure {
    let mebibytes = limits::PROCESS_OUTPUT_BYTES_MAX / (1024 * 1024);
    Failure::limit(format!("The run was ended: it wrote more than {mebibytes} MiB.")).with_hint("run a part of it")
}

fn format_minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 60 == 0 && seconds > 60 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// Puts the host's lines before the program's output, so that they cannot be mistaken for each other.
pub(super) fn with_notes(report: Report, notes: &[String]) -> Report {
    let lines: String = notes.iter().map(|note| format!("{HOST_LINE}{note}\n")).collect();
    let own = report.output;
    // If the program's output begins like a line of the host, a line feed separates the two.
    let apart = if own.starts_with(HOST_LINE) { "\n" } else { "" };
    Report {
        output: format!("{lines}{apart}{own}"),
        ..report
    }
}

/// Prefix of lines that the host writes (`wit/skill.wit`).
const HOST_LINE: &str = "[tool] ";

/// Quotes an argument vector as for a shell, so that the end of each argument is clear. Control characters and
/// characters that reorder text are replaced by their names.
fn quote_command(argv: &[String]) -> String {
    argv.iter()
        .map(|argument| quote_argument(argument))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn quote_argument(argument: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=@%+,".contains(character);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    let mut quoted = String::from("'");
    for character in reveal_line(argument).chars() {
        match character {
            '\'' => quoted.push_str("'\\''"),
            character => quoted.push(character),
        }
    }
    quoted.push('\'');
    quoted
}

/// The requested time, up to the limit.
pub(super) fn clamp_time(wanted_seconds: Option<u32>, seconds_max: u64) -> Duration {
    let wanted = wanted_seconds.map_or(seconds_max, u64::from);
    Duration::from_secs(wanted.clamp(1, seconds_max))
}

/// Finds a program on the `PATH` of the user who started the session, outside of the repository.
pub(super) fn find_program(context: &CallContext, name: &str) -> Option<PathBuf> {
    let found = environment::find_programs_outside(&context.environment, name, context.repository.root());
    found.into_iter().next()
}

/// The Python of the project, else of the machine.
pub(super) fn find_python(context: &CallContext) -> Result<Python, Failure> {
    python_in(context, context.repository.root())
}

/// The Python of a folder of the repository, else of the project, else of the machine.
pub(super) fn python_in(context: &CallContext, directory: &Path) -> Result<Python, Failure> {
    let root = context.repository.root();
    toolchain::choose_in(root, directory, &context.environment, &context.cancel)
        .map_err(|missing| Failure::unavailable(missing.to_string()).with_hint(missing.hint))
}

/// Finds the user's `npm`.
pub(super) fn find_npm(context: &CallContext) -> Result<PathBuf, Failure> {
    find_program(context, "npm").ok_or_else(|| {
        Failure::unavailable("npm was not found on the PATH.").with_hint("install Node.js, which brings npm")
    })
}

/// A command that runs in the repository's root.
pub(super) fn repository_command(
    root: &Path,
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
) -> CommandSpec {
    CommandSpec {
        program,
        arguments,
        directory: root.to_owned(),
        environment,
    }
}

/// Reads a small file of the repository; `None` if there is none, or if it may not be read.
pub(super) fn small_file(repository: &Repository, cancel: &CancellationToken, path: &str) -> Option<String> {
    let content = repository
        .read_within(path, limits::RECIPE_FILE_BYTES_MAX, cancel)
        .ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Reads the root's `package.json`. Without one, npm would use a project in a folder above the root.
pub(super) fn read_package_json(
    repository: &Repository,
    cancel: &CancellationToken,
) -> Result<serde_json::Value, Failure> {
    let text = small_file(repository, cancel, "package.json").ok_or_else(|| {
        Failure::unavailable("There is no package.json at the repository root.")
            .with_hint("this is no npm project; pytest and pip are the other recipes")
    })?;
    serde_json::from_str(&text).map_err(|error| Failure::failed(format!("package.json is not valid JSON: {error}.")))
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn an_argument_vector_is_shown_without_doubt() {
        let argv = ["/usr/bin/python", "-k", "a or b", "it's", "", "x\u{1b}[2J\u{202e}y\n"].map(str::to_owned);
        insta::assert_snapshot!(quote_command(&argv), @r"/usr/bin/python -k 'a or b' 'it'\''s' '' 'x<U+001B>[2J<U+202E>y<U+000A>'");
    }

    /// The arguments that a shell would read from a text, with its named characters.
    fn arguments_of(shown: &str) -> Vec<String> {
        let (mut arguments, mut argument, mut is_quoted) = (Vec::new(), String::new(), false);
        let mut rest = shown;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '\'' => is_quoted = !is_quoted,
                '\\' if !is_quoted => {
                    argument.push('\'');
                    rest = &rest[1..];
                }
                ' ' if !is_quoted => arguments.push(std::mem::take(&mut argument)),
                '<' => {
                    let (name, after) = rest.split_once('>').expect("a name ends");
                    let code = u32::from_str_radix(&name[2..], 16).expect("it is hexadecimal");
                    argument.push(char::from_u32(code).expect("it is a character"));
                    rest = after;
                }
                other => argument.push(other),
            }
        }
        arguments.push(argument);
        arguments
    }

    proptest::proptest! {
        #[test]
        fn the_command_that_is_shown_is_the_command_that_runs(
            argv in proptest::collection::vec("[ -;=-~\\n\\t\\x{1b}\\x{200b}\\x{202e}é]{0,12}", 1..6),
        ) {
            let shown = quote_command(&argv);
            proptest::prop_assert!(tool_core::text::is_visible(&shown) && !shown.contains('\n'));
            proptest::prop_assert_eq!(arguments_of(&shown), argv);
        }
    }

    #[test]
    fn what_the_host_says_comes_first_and_cannot_be_said_by_a_program() {
        let report = |output: &str| Report {
            command: Vec::new(),
            exit_code: Some(0),
            output: output.to_owned(),
            output_cut: false,
            duration_ms: 0,
            timed_out: false,
            sandbox: String::new(),
        };
        let said = |output, notes: &[&str]| {
            let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
            with_notes(report(output), &notes).output
        };
        assert_eq!(said("1 passed\n", &[]), "1 passed\n");
        assert_eq!(said("1 passed\n", &["a", "b"]), "[tool] a\n[tool] b\n1 passed\n");
        assert_eq!(said("[tool] all is well\n", &[]), "\n[tool] all is well\n");
        assert_eq!(said("[tool] all is well\n", &["a"]), "[tool] a\n\n[tool] all is well\n");
    }

    #[test]
    fn times_stay_within_their_bound() {
        assert_eq!(
            clamp_time(None, limits::TESTS_SECONDS_MAX).as_secs(),
            limits::TESTS_SECONDS_MAX
        );
        assert_eq!(clamp_time(None, 900).as_secs(), 900);
        assert_eq!(clamp_time(Some(0), 900).as_secs(), 1);
        assert_eq!(clamp_time(Some(30), 900).as_secs(), 30);
        assert_eq!(clamp_time(Some(u32::MAX), 900).as_secs(), 900);
    }
}
