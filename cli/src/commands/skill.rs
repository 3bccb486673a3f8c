//! `tool skill`: list, call and manage skills.

mod add;
pub(super) mod agreements;
mod audit;
mod build;
mod inspect;
mod lock;
mod new;
mod offer;
mod push;
mod secret;
mod sign;
mod test;
mod update;

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use host::outline::{SandboxedParser, SandboxedSymbols};
use serde_json::Value;
use tool_core::api::{
    Effect, ErrorKind, Event, Media, Overrides, PolicyRequest, Problem, SkillCallRequest, SkillEntry, SkillState,
    Skills, TestRun,
};
use tool_skill::{HostServices, Limits, Outliners, SkillHost, SkillHostError};
use unicode_width::UnicodeWidthStr;

use super::follow::{EventFollower, WaitState};
use super::{
    CommandContext, ask_approval, cancel_on_error, path_text, policy_request, print_json, read_yes, shorten_line,
    show_notice,
};
use crate::args::{Author, Keys, PolicyFlags, Rollout, Skill};
use crate::builtins::{BUILTINS, OUTLINERS};
use crate::client::{Client, percent_encoded};
use crate::error::{Error, FAILED};
use crate::output::CommandOutput;

/// Columns of a description: at most so many on a terminal, and always so many elsewhere.
const WORDS_WIDTH_MAX: usize = 100;

/// Lines of a description that are shown before a question. Those of the built-in skills have one.
const WORDS_LINES_MAX: usize = 12;

/// A skill's own description. Each line is marked, so that nothing in it looks like a line of this program. No line is
/// so long that a terminal wraps it.
fn in_its_words(description: &str, columns: Option<usize>) -> String {
    const MARK: &str = "  | ";
    let columns = columns.unwrap_or(WORDS_WIDTH_MAX).min(WORDS_WIDTH_MAX);
    let width = columns.saturating_sub(MARK.len() + 1).max(2);
    let mut lines: Vec<String> = Vec::new();
    for word in description.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        // A character takes at most two columns.
        for piece in letters.chunks(width / 2).map(String::from_iter) {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + piece.width() <= width => *line += &format!(" {piece}"),
                _ => lines.push(piece),
            }
        }
    }
    if lines.len() > WORDS_LINES_MAX {
        lines.truncate(WORDS_LINES_MAX);
        lines.push("…".to_owned());
    }
    let marked: Vec<String> = lines.iter().map(|line| format!("{MARK}{line}")).collect();
    marked.join("\n")
}

pub(super) async fn run_skill_command(skill: Skill, context: &CommandContext) -> Result<ExitCode, Error> {
    match skill {
        Skill::List { json } => list_skills(json, context).await,
        Skill::Call {
            name,
            arguments,
            receipt,
            json,
            log,
            policy,
        } => {
            let form = AnswerForm { receipt, json, log };
            call_skill(&name, &arguments, form, &policy, context).await
        }
        Skill::Rollout(rollout) => self::run_rollout_command(rollout, context).await,
        Skill::Inspect { component, json } => inspect::inspect_skill(&component, json, context),
        Skill::Author(author) => self::run_author_command(author, context).await,
    }
}

/// Runs the commands for authors of skills.
async fn run_author_command(command: Author, context: &CommandContext) -> Result<ExitCode, Error> {
    match command {
        Author::New { name, lang, dir } => new::create_project(&name, lang, dir.as_deref(), context),
        Author::Build { folder } => build::build_skill(&folder, context).await,
        Author::Test { folder, allow, json } => test::run(&folder, &allow, json, context),
    }
}

/// Runs the commands that install skills, agree on them and distribute them.
async fn run_rollout_command(command: Rollout, context: &CommandContext) -> Result<ExitCode, Error> {
    match command {
        Rollout::Add { source, consent } => add::add_skills(&source, &consent, context).await,
        Rollout::Trust { name, consent } => add::trust_skill(&name, &consent, context),
        Rollout::Update {
            name: Some(name),
            from,
            consent,
            ..
        } => update::update_one(&name, from.as_deref(), &consent, context).await,
        Rollout::Update { consent, .. } => update::update_all(&consent, context).await,
        Rollout::Remove { name } => {
            open_registry(context)?.remove(&name).map_err(explain_refusal)?;
            context.output.line(&format!("Removed {name}."))?;
            Ok(ExitCode::SUCCESS)
        }
        Rollout::Disable { name } => add::switch_skill(&name, true, context),
        Rollout::Enable { name } => add::switch_skill(&name, false, context),
        Rollout::Lock { names, all, dir } => lock::lock_skills(&names, all, dir.as_deref(), context),
        Rollout::Sync { dir, frozen: true, .. } => lock::check_frozen(dir.as_deref(), context),
        Rollout::Sync {
            dir, narrow, consent, ..
        } => lock::sync_skills(dir.as_deref(), narrow, &consent, context).await,
        Rollout::Audit { name, cases, json } => audit::audit_skill(&name, cases.as_deref(), json, context),
        Rollout::Push { component, place } => push::push_component(&component, &place, context).await,
        Rollout::Keys(Keys::New { out }) => sign::new_keys(&out, context),
        Rollout::Secret(command) => secret::run_secret_command(command, context),
        Rollout::Store(command) => secret::run_store_command(command, context),
        Rollout::Sign { component, key } => sign::sign_component(&component, &key, context),
    }
}

/// The skills of this home, in this process: managing them needs no daemon, and a running daemon notices the change.
fn open_registry(context: &CommandContext) -> Result<Arc<SkillHost>, Error> {
    SkillHost::new(BUILTINS, &context.backend.home).map_err(explain_refusal)
}

/// A registry whose skills may request symbols, as in a backend. They can reach no server.
fn registry_with_symbols(context: &CommandContext) -> Result<Arc<SkillHost>, Error> {
    let surroundings = HostServices {
        symbols: Some(Arc::new(SandboxedSymbols {
            parser: Arc::new(SandboxedParser(Outliners::new(OUTLINERS))),
            indexes: None,
        })),
        ..HostServices::default()
    };
    SkillHost::with_connections(BUILTINS, &context.backend.home, Limits::default(), surroundings)
        .map_err(explain_refusal)
}

fn explain_refusal(error: impl std::error::Error + 'static) -> Error {
    // A missing path is the user's mistake.
    let is_unknown = matches!(
        (&error as &(dyn std::error::Error + 'static)).downcast_ref(),
        Some(SkillHostError::Unknown { .. })
    );
    let kind = if is_unknown || is_missing(&error) {
        ErrorKind::Usage
    } else {
        ErrorKind::Skill
    };
    let problem = Problem::new(kind, error.to_string());
    // The error names the file; the cause is the system's message.
    match error.source() {
        Some(source) => problem.with_hint(source.to_string()).into(),
        None => problem.into(),
    }
}

/// True for an error that is caused by a missing file.
fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound)
    })
}

async fn list_skills(json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let skills: Skills = context.backend.connect_or_start().await?.get("/api/skills").await?;
    if json {
        return print_json(&skills, context.output);
    }
    let width = skills.skills.iter().map(|skill| skill.name.len()).max().unwrap_or(0);
    let narrow = context.output.columns().is_some_and(|columns| columns < ROW_COLUMNS);
    for skill in &skills.skills {
        context.output.line(&format_row(skill, width, narrow))?;
        let columns = context.output.columns().unwrap_or(WORDS_WIDTH_MAX).min(WORDS_WIDTH_MAX);
        context.output.line(&format!(
            "  {}",
            first_sentence(&skill.description, columns.saturating_sub(4))
        ))?;
        for function in function_rows(skill) {
            context.output.line(&function)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns of a line of the list. On narrower terminals a skill takes two lines.
const ROW_COLUMNS: usize = 90;

fn format_row(skill: &SkillEntry, width: usize, narrow: bool) -> String {
    let state = match (&skill.reason, skill.state) {
        (_, SkillState::Ready) => String::new(),
        (Some(reason), state) => format!("  {state}: {reason}"),
        (None, state) => format!("  {state}"),
    };
    let signed = match skill.signature.as_ref().map(|signature| &signature.by) {
        None => String::new(),
        Some(Some(name)) => format!("  signed by {name}"),
        Some(None) => format!("  signed by {UNKNOWN_SIGNER}"),
    };
    let effects = Effect::join_names(&skill.effects);
    let digest = skill.digest.get(..12).unwrap_or(&skill.digest);
    let (name, version, origin) = (&skill.name, &skill.version, &skill.origin);
    if narrow {
        return format!("{name} {version}\n  {origin}  {digest}{signed}{state}\n  {effects}")
            .trim_end()
            .to_owned();
    }
    format!("{name:width$}  {version:7}  {origin:7}  {digest}  {effects}{signed}{state}")
        .trim_end()
        .to_owned()
}

/// The first sentence of a description, on one line.
fn first_sentence(description: &str, characters_max: usize) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = line.split_once(". ").map_or(line.as_str(), |(first, _)| first);
    shorten_line(first.trim_end_matches('.'), characters_max)
}

/// Lines about the functions of a skill; empty if its only function has the name of the skill.
fn function_rows(skill: &SkillEntry) -> Vec<String> {
    match &skill.functions[..] {
        [only] if only.name == skill.name => Vec::new(),
        functions => functions
            .iter()
            .map(|function| format!("  {}  {}", function.name, Effect::join_names(&function.effects)))
            .collect(),
    }
}

/// Shown for a component without a signature of a known key.
const UNKNOWN_SIGNER: &str = "no identity in [skills.identities]";

/// Form in which the answer of a call is printed.
#[derive(Debug, Clone, Copy)]
struct AnswerForm {
    receipt: bool,
    /// The whole answer as JSON instead of its text.
    json: bool,
    /// Messages of the skill go to standard error while it runs.
    log: bool,
}

async fn call_skill(
    name: &str,
    arguments: &[String],
    form: AnswerForm,
    flags: &PolicyFlags,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let (root, _) = context.places()?;
    let mut request = SkillCallRequest {
        arguments: arguments_of(arguments)?,
        repo_path: path_text(&root)?,
        interactive: CommandOutput::can_ask() && !flags.frozen,
        is_of_program: false,
        policy: policy_request(flags),
        overrides: Overrides(context.backend.forwarded()),
    };
    match call_once(name, &request, form, context).await? {
        CallEnd::Denied(problem) => {
            let missing = if request.interactive {
                missing_grants(name, &request.policy, context).await?
            } else {
                Vec::new()
            };
            if missing.is_empty() || !ask_agreement(name, &missing, context.output).await {
                context.output.problem(&problem);
                return Ok(ExitCode::from(problem.kind.exit_code()));
            }
            request.policy.allow.extend(missing);
            match call_once(name, &request, form, context).await? {
                CallEnd::Code(code) => Ok(code),
                CallEnd::Denied(problem) => {
                    context.output.problem(&problem);
                    Ok(ExitCode::from(problem.kind.exit_code()))
                }
            }
        }
        CallEnd::Code(code) => Ok(code),
    }
}

enum CallEnd {
    Code(ExitCode),
    /// The policy does not allow the call; nothing was printed yet.
    Denied(Problem),
}

async fn call_once(
    name: &str,
    request: &SkillCallRequest,
    form: AnswerForm,
    context: &CommandContext,
) -> Result<CallEnd, Error> {
    let mut client = context.backend.connect_or_start().await?;
    let events = client
        .post_events(&format!("/api/skills/{}/call", percent_encoded(name)), request)
        .await?;
    let mut events = EventFollower::new(events, WaitState::for_skill(name, context.output))?;
    let followed = follow_call(&mut events, form, &client, context).await;
    if let (Err(why @ (Error::Interrupted | Error::OutputClosed)), Some(session)) = (&followed, events.session()) {
        cancel_on_error(&client, session, why, context.output).await;
    }
    followed
}

/// Effects that a function needs, that change or run something, and that the request does not allow.
async fn missing_grants(name: &str, policy: &PolicyRequest, context: &CommandContext) -> Result<Vec<String>, Error> {
    let skills: Skills = context.backend.connect_or_start().await?.get("/api/skills").await?;
    let functions = skills.skills.iter().flat_map(|skill| &skill.functions);
    let effects = functions
        .filter(|function| function.name == name)
        .flat_map(|function| &function.effects);
    let reads = [Effect::ReadRepository, Effect::ReadGit];
    let missing = effects
        .filter(|effect| !reads.contains(effect))
        .map(ToString::to_string);
    Ok(missing
        .filter(|effect| !policy.allow.contains(effect) && !policy.deny.contains(effect))
        .collect())
}

/// Asks on the terminal for the effects that a call lacks.
async fn ask_agreement(name: &str, missing: &[String], output: CommandOutput) -> bool {
    output.ask(&format!(
        "`{name}` needs {}. Allow it for this call? [y/N] ",
        missing.join(" and ")
    ));
    tokio::task::spawn_blocking(read_yes).await.unwrap_or(false)
}

/// Shows a call's events. The last one decides the exit code.
async fn follow_call(
    events: &mut EventFollower,
    form: AnswerForm,
    client: &Client,
    context: &CommandContext,
) -> Result<CallEnd, Error> {
    let mut have_tests_failed = false;
    while let Some(event) = events.next().await? {
        match &event {
            Event::Approval { .. } => ask_approval(&event, &events.secret(), client, context.output).await?,
            Event::Notice { .. } => show_notice(&event, context.output),
            Event::Live { line } if form.log => context.output.progress(line),
            Event::Outcome { receipt: of, .. } => {
                // For a model, failing tests are an answer; a script sees the exit code.
                have_tests_failed = of.tests.as_ref().is_some_and(TestRun::has_failed);
                let printed = print_outcome(&event, form, context.output);
                // Printed even if the answer has no reader: the changes stay.
                if let (Event::Outcome { files_modified, .. }, Some(id)) = (&event, events.session())
                    && !files_modified.is_empty()
                {
                    let hint = format!("hint: `tool diff {id}` shows it, `tool undo {id}` takes it back");
                    context.output.progress(&hint);
                }
                printed?;
            }
            Event::Complete { .. } if have_tests_failed => return Ok(CallEnd::Code(ExitCode::from(FAILED))),
            Event::Complete { .. } => return Ok(CallEnd::Code(ExitCode::SUCCESS)),
            Event::Error {
                code: kind,
                message,
                hint,
            } => {
                let problem = Problem {
                    hint: hint.clone(),
                    ..Problem::new(kind.clone(), message.clone())
                };
                if problem.kind == ErrorKind::Denied {
                    return Ok(CallEnd::Denied(problem));
                }
                context.output.problem(&problem);
                return Ok(CallEnd::Code(ExitCode::from(kind.exit_code())));
            }
            _ => {}
        }
    }
    Err(events.ended_early().await)
}

/// Typed arguments: `NAME=VALUE` words, or one JSON object.
fn arguments_of(words: &[String]) -> Result<Value, Error> {
    match words {
        [] => Ok(Value::Object(serde_json::Map::new())),
        [only] if only == "-" || only.trim_start().starts_with(['{', '[']) => read_arguments(only),
        words => words.iter().map(|word| argument_of(word)).collect(),
    }
}

/// Parses `NAME=VALUE`. A number, `true`, `false`, a list or an object in JSON becomes that value; anything else is
/// text.
fn argument_of(word: &str) -> Result<(String, Value), Error> {
    let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        let message = format!("`{word}` is no argument: it is neither `NAME=VALUE` nor a JSON object");
        return Err(Problem::new(ErrorKind::Usage, message)
            .with_hint("for example `tool skill call read_file path=README.md`")
            .into());
    };
    let read = serde_json::from_str(value)
        .ok()
        .filter(|value: &Value| !value.is_null());
    Ok((name.to_owned(), read.unwrap_or_else(|| Value::String(value.to_owned()))))
}

fn read_arguments(text: &str) -> Result<Value, Error> {
    let mut from_stdin = String::new();
    let text = if text == "-" {
        std::io::stdin()
            .lock()
            .read_to_string(&mut from_stdin)
            .map_err(|error| Error::new(ErrorKind::Usage, format!("Standard input could not be read: {error}")))?;
        &from_stdin
    } else {
        text
    };
    serde_json::from_str(text).map_err(|error| {
        Problem::new(ErrorKind::Usage, format!("The arguments are not JSON: {error}"))
            .with_hint("give `path=README.md`, or a JSON object, for example '{\"path\": \"README.md\"}'")
            .into()
    })
}

fn print_outcome(event: &Event, form: AnswerForm, output: CommandOutput) -> Result<(), Error> {
    let Event::Outcome {
        text,
        truncated,
        cursor,
        files_modified,
        citations,
        media,
        receipt,
        ..
    } = event
    else {
        return Ok(());
    };
    if form.json {
        print_json(event, output)?;
        return Ok(());
    }
    output.line(text.strip_suffix('\n').unwrap_or(text))?;
    for media in media {
        output.line(&media_lines(media))?;
    }
    for citation in citations {
        output.progress(&format!("rests on {citation}"));
    }
    if *truncated {
        let hint = cursor
            .as_ref()
            .map(|cursor| format!("add \"cursor\": {} for the rest", Value::from(cursor.as_str())));
        output.notice("There is more.", hint.as_deref());
    }
    for path in files_modified {
        output.progress(&format!("changed {path}"));
    }
    if form.receipt {
        output.ask(&format!(
            "{}\n",
            serde_json::to_string_pretty(receipt).unwrap_or_default()
        ));
    }
    Ok(())
}

/// An image as its alternative text, a diagram with its source.
fn media_lines(media: &Media) -> String {
    let head = format!("[{}] {}", media.media_type, media.alternative);
    if media.is_diagram() {
        format!("{head}\n{}", media.data)
    } else {
        // Four characters of base64 hold three bytes.
        let padding = media.data.bytes().rev().take_while(|byte| *byte == b'=').count();
        format!(
            "{head} ({} bytes; `--json` prints them)",
            media.data.len() / 4 * 3 - padding
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_description_looks_like_one_of_this_program() {
        assert_eq!(in_its_words("Counts lines.", None), "  | Counts lines.");
        let forged = "Counts lines.\n  effects  none\n  signed   by platform-team\n\n";
        assert_eq!(
            in_its_words(forged, None),
            "  | Counts lines. effects none signed by platform-team"
        );
        for columns in [1, 20, 80] {
            let long = format!("{} {}", "漢".repeat(300), "word ".repeat(300));
            let shown = in_its_words(&long, Some(columns));
            assert_eq!(shown.lines().count(), WORDS_LINES_MAX + 1);
            for line in shown.lines() {
                assert!(line.starts_with("  | ") && line.width() <= columns.max(6), "{line}");
            }
        }
        assert_eq!(in_its_words("", None), "");
    }
}
