//! `tool continue`: the next turn of a conversation.

use std::path::PathBuf;
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Operation, Problem, SessionStart, Tasks, TurnRequest};

use super::follow::WaitState;
use super::history::{latest_ended, with_beginning};
use super::operation::{StartedSession, answer_writer, text_of};
use super::session_tally::SessionTally;
use super::{
    CommandContext, asserted_provider, budget_request, is_interactive, path_text, policy_request, read_yes,
    selection_request,
};
use crate::args::{RunArguments, TurnOperation};
use crate::client::Client;
use crate::error::Error;
use crate::output::CommandOutput;

/// Fewest characters of a word that can name a session: identifiers share their beginning, and words of a text are
/// short.
const SESSION_CHARACTERS_MIN: usize = 6;

/// The text of a turn, and the session that it continues.
#[derive(Debug, PartialEq, Eq)]
struct TypedTurn {
    /// Absent for the newest session of this repository.
    session: Option<String>,
    text: String,
}

impl TypedTurn {
    /// The first of several words is a session if it looks like an identifier.
    fn parse_words(words: &[String]) -> Self {
        match words {
            [first, rest @ ..] if !rest.is_empty() && is_session(first) => Self {
                session: Some(first.clone()).filter(|session| session != "latest"),
                text: rest.join(" "),
            },
            words => Self {
                session: None,
                text: words.join(" "),
            },
        }
    }
}

/// True for a word that looks like the identifier of a session, or a part of one.
pub(super) fn is_session(word: &str) -> bool {
    let is_digit = |character: char| character.is_ascii_hexdigit() || character == '-';
    word == "latest"
        || (word.len() >= SESSION_CHARACTERS_MIN
            && word.chars().all(is_digit)
            && word.chars().any(|character| character.is_ascii_digit()))
}

/// Runs the next turn to its end.
pub(super) async fn run_turn(
    words: &[String],
    operation: Option<TurnOperation>,
    is_preview: bool,
    run: &RunArguments,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let output = context.output;
    let typed = TypedTurn::parse_words(words);
    let message = text_of(&typed.text)?;
    let settings = tool_config::load_settings(&context.backend.home, &context.backend.environment)?;
    let answer = answer_writer(run.output.as_deref(), run.json, output)?;
    let mut client = context.backend.connect_or_start().await?;
    let id = match &typed.session {
        Some(session) => with_beginning(session, &mut client).await?,
        None => latest_ended(&mut client, context).await?,
    };
    let (_, here) = context.places()?;
    let mut request = TurnRequest {
        message,
        operation: operation.map(Operation::from),
        provider: asserted_provider(run),
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
        preview: is_preview,
    };
    let route = format!("/api/sessions/{id}/turns");
    let started: SessionStart = match client.post(&route, &request).await {
        Err(Error::Problem(problem))
            if problem.kind == ErrorKind::ProviderUnconfirmed && CommandOutput::can_ask() && !run.json =>
        {
            if !ask_provider_change(&problem, output).await {
                return Err(Problem::new(ErrorKind::Declined, "Nothing was sent").into());
            }
            request.provider = Some(settings.provider.name.name().to_owned());
            client.post(&route, &request).await?
        }
        started => started?,
    };
    let root = repository_of(&started.session_id, &mut client).await?;
    let path = format!("/api/stream/{}?form=reference", started.session_id);
    let events = client.another().await?.events(&path).await?;
    let model = run.session.model.clone().unwrap_or(settings.provider.model);
    let session = StartedSession {
        client,
        id: started.session_id,
        secret: started.approval_secret,
        answer,
        json: run.json,
        output,
        tally: SessionTally::default(),
    };
    session
        .run(events, WaitState::for_operation(model, output), run.detach, &root)
        .await
}

/// Asks on the terminal whether the conversation may be sent to another provider.
async fn ask_provider_change(problem: &Problem, output: CommandOutput) -> bool {
    output.ask(&format!("{}.\nGo on? [y/N] ", problem.message));
    tokio::task::spawn_blocking(read_yes).await.unwrap_or(false)
}

/// The repository of a session that has just started.
async fn repository_of(id: &str, client: &mut Client) -> Result<PathBuf, Error> {
    let tasks: Tasks = client.get("/api/tasks").await?;
    let task = tasks.tasks.into_iter().find(|task| task.session_id == id);
    Ok(task.map(|task| PathBuf::from(task.repository)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> TypedTurn {
        TypedTurn::parse_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_first_word_is_a_session_where_it_looks_like_one() {
        for (words, session, text) in [
            (&["and the tests?"][..], None, "and the tests?"),
            (&["01a1f88f", "and the tests?"], Some("01a1f88f"), "and the tests?"),
            (&["latest", "why?"], None, "why?"),
            (&["add", "a", "test"], None, "add a test"),
            (&["decade", "of", "code"], None, "decade of code"),
            (&["01a1f88f"], None, "01a1f88f"),
        ] {
            let expected = TypedTurn {
                session: session.map(str::to_owned),
                text: text.to_owned(),
            };
            assert_eq!(typed(words), expected, "{words:?}");
        }
    }
}
