//! Reports and diffs of earlier sessions in the repository, as resources of the protocol.

use std::sync::Arc;

use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::McpSession;
use tool_core::api::{ErrorKind, HistoryEntry, Problem};
use tool_core::redaction::mask_keys;
use tool_core::text::clean_line;
use tool_journal::history::Filter;
use tool_session::Sessions;
use tool_session::connection::Connection;

/// Limit for the list of sessions, newest first. Other sessions can be read as well.
const LISTED_SESSIONS_MAX: usize = 50;

/// Limit for a resource in bytes: more than a user reads, and a fraction of a model's context.
const RESOURCE_BYTES_MAX: usize = 256 * 1024;

/// Prefix of all addresses, before the identifier of a session.
const PREFIX: &str = "tool://sessions/";

/// Text of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionText {
    Report,
    Diff,
}

impl SessionText {
    const ALL: [Self; 2] = [Self::Report, Self::Diff];

    fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Diff => "diff",
        }
    }

    fn mime_type(self) -> &'static str {
        match self {
            Self::Report => "text/markdown",
            Self::Diff => "text/x-diff",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Report => "What an earlier session was asked, read, called, answered and changed",
            Self::Diff => "What an earlier session changed, or a preview proposes, as a unified diff",
        }
    }
}

/// Lists the resources of the newest ended sessions in a repository.
pub(super) fn list_resources(sessions: &Sessions, connection: &Connection) -> Vec<Resource> {
    let filter = Filter {
        repo_path: Some(connection.root().to_string_lossy().into_owned()),
        limit: Some(LISTED_SESSIONS_MAX),
        ..Filter::default()
    };
    let ended = sessions.history(&filter).sessions;
    let resources = ended.iter().flat_map(|entry| {
        let has_changes = entry.files_modified + entry.files_proposed > 0;
        let texts = SessionText::ALL.into_iter();
        texts
            .filter(move |text| *text == SessionText::Report || has_changes)
            .map(move |text| describe_resource(entry, text))
    });
    resources.collect()
}

fn describe_resource(entry: &HistoryEntry, text: SessionText) -> Resource {
    let title = format!(
        "{} of {} {}: {}",
        text.name(),
        entry.operation,
        entry.started.format("%Y-%m-%d %H:%M"),
        mask_keys(&clean_line(&entry.target))
    );
    Resource::new(
        format!("{PREFIX}{}/{}", entry.id, text.name()),
        format!("{}-{}", text.name(), entry.id),
    )
    .with_title(title)
    .with_description(text.description())
    .with_mime_type(text.mime_type())
}

/// Templates of the addresses.
pub(super) fn resource_templates() -> Vec<ResourceTemplate> {
    let template = |text: SessionText| {
        ResourceTemplate::new(format!("{PREFIX}{{session_id}}/{}", text.name()), text.name())
            .with_description(text.description())
            .with_mime_type(text.mime_type())
    };
    SessionText::ALL.map(template).into()
}

/// Reads a resource. Its text counts as text from outside: programs may have printed parts of it.
pub(super) async fn read_resource(
    sessions: &Arc<Sessions>,
    line: &McpSession,
    uri: &str,
) -> Result<ReadResourceResult, Problem> {
    let (id, text) = parse(uri).ok_or_else(|| refuse_unknown(uri))?;
    let root = line.connection.root();
    let whole = match text {
        SessionText::Report => sessions.shared_report(id, root).await,
        SessionText::Diff => sessions.shared_diff(id, root).await,
    };
    let whole = whole.map_err(|problem| match problem.kind {
        ErrorKind::NotFound => refuse_unknown(uri),
        _ => problem,
    })?;
    line.connection
        .note_outside(&format!("the {} of a session", text.name()))
        .await;
    let contents = ResourceContents::text(cut_resource(whole), uri).with_mime_type(text.mime_type());
    Ok(ReadResourceResult::new(vec![contents]))
}

/// The address of a session's report.
pub(super) fn report_uri(id: &str) -> String {
    format!("{PREFIX}{id}/{}", SessionText::Report.name())
}

fn parse(uri: &str) -> Option<(&str, SessionText)> {
    let (id, name) = uri.strip_prefix(PREFIX)?.split_once('/')?;
    let text = SessionText::ALL.into_iter().find(|text| text.name() == name)?;
    Some((id, text))
}

fn cut_resource(mut text: String) -> String {
    if text.len() > RESOURCE_BYTES_MAX {
        let total = text.len();
        text.truncate(text.floor_char_boundary(RESOURCE_BYTES_MAX));
        text.push_str(&format!(
            "\n[cut here: the whole text has {total} bytes; the report file has it]\n"
        ));
    }
    text
}

fn refuse_unknown(uri: &str) -> Problem {
    let message = format!("There is no resource `{uri}` in this repository");
    Problem::new(ErrorKind::NotFound, message).with_hint("`resources/list` names the newest ones")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_session_and_a_text_of_it() {
        assert_eq!(parse("tool://sessions/abc/diff"), Some(("abc", SessionText::Diff)));
        for uri in [
            "tool://sessions/abc",
            "tool://sessions/abc/report/x",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let text = cut_resource("é".repeat(RESOURCE_BYTES_MAX));
        assert!(text.len() < RESOURCE_BYTES_MAX + 200);
        assert!(text.contains("[cut here: the whole text has 524288 bytes"));
    }
}
