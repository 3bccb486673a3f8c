//! Lines of `tool history`: one for each session, grouped by repository, the newest last.

use tool_core::api::{HistoryEntry, Status, TaskEntry, Timestamp};
use tool_core::text::clean_line;

use super::super::shorten_line;

/// Characters at the end of an identifier that tell sessions apart: the beginning is the time, which identifiers share.
const SHORT_CHARACTERS: usize = 8;

/// Columns of a list if standard output is not a terminal.
const COLUMNS: usize = 160;

/// Narrower terminals get two lines a session.
const COLUMNS_MIN: usize = 80;

/// The end of an identifier, which is enough to name a session.
pub(in crate::commands) fn short_id(id: &str) -> &str {
    let start = id.len().saturating_sub(SHORT_CHARACTERS);
    id.get(start..).unwrap_or(id)
}

pub(super) struct RowSettings {
    /// The repository of the working directory, which comes first.
    pub(super) here: Option<String>,
    /// Columns of the terminal, if there is one.
    pub(super) columns: Option<usize>,
    pub(super) now: Timestamp,
}

struct ListedSession<'a> {
    id: &'a str,
    started: Timestamp,
    operation: String,
    target: &'a str,
    repository: &'a str,
    conversation: &'a str,
    turn: u32,
    /// `failed`, `running`, `undone`, and the number of changed files.
    state: String,
}

impl RowSettings {
    /// The lines for entries that are sorted newest first.
    pub(super) fn lines(&self, history: &[HistoryEntry], running: &[TaskEntry]) -> Vec<String> {
        let ended = history.iter().rev().map(ended_session);
        let sessions: Vec<ListedSession> = ended.chain(running.iter().rev().map(under_way)).collect();
        let mut repositories: Vec<&str> = Vec::new();
        let newest_first = sessions.iter().rev().map(|session| session.repository);
        for repository in self.here.as_deref().into_iter().chain(newest_first) {
            let is_listed = sessions.iter().any(|session| session.repository == repository);
            if is_listed && !repositories.contains(&repository) {
                repositories.push(repository);
            }
        }
        let mut lines = Vec::new();
        for repository in &repositories {
            // The repository is named only if there are several, or if it is not the current one.
            if repositories.len() > 1 || self.here.as_deref() != Some(*repository) {
                lines.push(clean_line(repository).to_string());
            }
            let of_repository: Vec<&ListedSession> = sessions
                .iter()
                .filter(|session| session.repository == *repository)
                .collect();
            for session in by_conversation(of_repository) {
                lines.extend(self.row(session));
            }
        }
        lines
    }

    fn row(&self, session: &ListedSession<'_>) -> Vec<String> {
        let columns = self.columns.unwrap_or(COLUMNS);
        let turn = if session.turn > 1 { "  ↳ " } else { "  " };
        let head = format!(
            "{turn}{}  {:>10}",
            short_id(session.id),
            format_age(session.started, self.now)
        );
        let state = format!("{}{}", if session.state.is_empty() { "" } else { "  " }, session.state);
        if columns < COLUMNS_MIN {
            let about = match session.state.as_str() {
                "" => session.target.to_owned(),
                state => format!("{state}: {}", session.target),
            };
            let head = format!("{head}  {}", session.operation);
            return vec![
                head,
                format!("    {}", shorten_line(&about, columns.saturating_sub(6).max(10))),
            ];
        }
        let head = format!("{head}  {:9}", session.operation);
        let room = columns.saturating_sub(head.chars().count() + state.chars().count() + 3);
        vec![format!("{head}  {}{state}", shorten_line(session.target, room.max(10)))]
    }
}

/// Groups the turns of a conversation at the place of the newest one.
fn by_conversation<'s, 'a>(sessions: Vec<&'s ListedSession<'a>>) -> Vec<&'s ListedSession<'a>> {
    let newest = |conversation: &str| {
        sessions
            .iter()
            .rposition(|session| session.conversation == conversation)
    };
    let mut ordered: Vec<(Option<usize>, usize)> = sessions
        .iter()
        .enumerate()
        .map(|(at, session)| (newest(session.conversation), at))
        .collect();
    ordered.sort_unstable();
    ordered.into_iter().map(|(_, at)| sessions[at]).collect()
}

fn ended_session(entry: &HistoryEntry) -> ListedSession<'_> {
    let files = match (entry.files_modified, entry.files_proposed) {
        (0, 0) => None,
        (0, 1) => Some("1 file proposed".to_owned()),
        (0, count) => Some(format!("{count} files proposed")),
        (1, _) => Some("1 file".to_owned()),
        (count, _) => Some(format!("{count} files")),
    };
    let status = (entry.status != Status::Complete).then(|| format!("{:?}", entry.status).to_lowercase());
    let undone = entry.undone_by.as_ref().map(|by| format!("undone by {by}"));
    let cost = entry.cost.map(|cost| cost.to_string());
    let state: Vec<String> = status.into_iter().chain(files).chain(cost).chain(undone).collect();
    ListedSession {
        id: &entry.id,
        started: entry.started,
        operation: entry.operation.to_string(),
        // A call has no task: `provider` names what was called.
        target: if entry.target.is_empty() {
            &entry.provider
        } else {
            &entry.target
        },
        repository: &entry.repository,
        conversation: if entry.conversation.is_empty() {
            &entry.id
        } else {
            &entry.conversation
        },
        turn: entry.turn,
        state: state.join(", "),
    }
}

fn under_way(task: &TaskEntry) -> ListedSession<'_> {
    ListedSession {
        id: &task.session_id,
        started: task.timestamp,
        operation: task.operation.to_string(),
        target: &task.target,
        repository: &task.repository,
        conversation: if task.conversation.is_empty() {
            &task.session_id
        } else {
            &task.conversation
        },
        turn: task.turn,
        state: "running".to_owned(),
    }
}

/// `12 s ago`, `3 min ago`, `5 h ago`, `2 d ago`, and a date for sessions older than a month.
pub(super) fn format_age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.signed_duration_since(then).num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_678_400 => format!("{} d ago", seconds / 86_400),
        _ => then.format("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tool_core::api::Activity;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_timestamp(1_740_830_400 + seconds, 0).expect("it is a time")
    }

    fn entry(id: &str, minutes: i64, repository: &str, target: &str, conversation: &str, turn: u32) -> HistoryEntry {
        HistoryEntry {
            id: format!("0195-{id:0>8}"),
            operation: Activity::Explain,
            started: at(minutes * 60),
            completed: at(minutes * 60 + 1),
            files_modified: 0,
            files_proposed: 0,
            provider: "some-model".to_owned(),
            status: Status::Complete,
            repository: repository.to_owned(),
            undone_by: None,
            cost: None,
            target: target.to_owned(),
            conversation: format!("0195-{conversation:0>8}"),
            turn,
            continues: None,
        }
    }

    #[test]
    fn this_repository_comes_first_turns_stand_together_and_the_newest_is_last() {
        let mut failed = entry("5", 50, "/here", "count the lines", "5", 1);
        (failed.status, failed.files_modified) = (Status::Failed, 2);
        let history = [
            entry("6", 59, "/other", "elsewhere", "6", 1),
            failed,
            entry("4", 40, "/here", "and why?", "2", 2),
            entry("3", 30, "/here", "another", "3", 1),
            entry("2", 20, "/here", "a question", "2", 1),
        ];
        let rows = |columns| RowSettings {
            here: Some("/here".to_owned()),
            columns: Some(columns),
            now: at(3_600),
        };
        insta::assert_snapshot!(rows(90).lines(&history, &[]).join("\n"), @r"
        /here
          00000003  30 min ago  explain    another
          00000002  40 min ago  explain    a question
          ↳ 00000004  20 min ago  explain    and why?
          00000005  10 min ago  explain    count the lines  failed, 2 files
        /other
          00000006   1 min ago  explain    elsewhere
        ");
        insta::assert_snapshot!(rows(40).lines(&history[1..2], &[]).join("\n"), @r"
          00000005  10 min ago  explain
            failed, 2 files: count the lines
        ");
    }

    #[test]
    fn times_are_relative_for_a_month() {
        let ago = |seconds| format_age(at(0), at(seconds));
        let written = [-5, 59, 60, 7_300, 90_000, 4_000_000].map(ago);
        assert_eq!(
            written,
            ["0 s ago", "59 s ago", "1 min ago", "2 h ago", "1 d ago", "2025-03-01"]
        );
    }
}
