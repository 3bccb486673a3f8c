//! Redacts keys in a call of the model: in its arguments and in its result.
//!
//! `redaction` recognises keys and their placeholders; this module decides which texts are searched.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::limits;
use tool_core::api::{Event, NoticeKind};
use tool_core::redaction::Redactor;
use tool_journal::feed::Recorder;
use tool_repository::{Repository, path};
use tool_skill::details::{rewrite_texts, visit_texts};
use tool_skill::{CallError, CallReport};

/// Limit for the files that are searched for keys, in bytes, small files first. Searching them takes less time than
/// users notice before a call. Keys in larger files are not recognised when a result shows a part of one.
const REDACTION_LEARNED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Files that a call names in its arguments, with their contents.
pub(super) struct CallFiles<'a> {
    arguments: &'a str,
    parsed: Option<Value>,
    files: BTreeMap<String, String>,
    redactor: &'a Redactor,
    cancel: &'a CancellationToken,
}

impl<'a> CallFiles<'a> {
    /// Finds the files, first the one to be written. Blocks, and ends early with the session. Keys of a file beyond
    /// the limit stay in the arguments as written.
    pub(super) fn find_files(
        arguments: &'a str,
        repository: &Repository,
        redactor: &'a Redactor,
        cancel: &'a CancellationToken,
    ) -> Self {
        let parsed: Option<Value> = serde_json::from_str(arguments).ok();
        let mut strings = Vec::new();
        if let Some(value) = &parsed {
            strings.extend(written_path(value).map(str::to_owned));
            collect_paths(value, &mut strings);
        }
        let first = usize::from(parsed.as_ref().is_some_and(|value| written_path(value).is_some()));
        let files = learn_keys(strings, first, repository, redactor, cancel);
        Self {
            arguments,
            parsed,
            files,
            redactor,
            cancel,
        }
    }

    /// Returns the arguments for the skill, and the one file that they are about. A skill sees placeholders in a
    /// file, so a literal key becomes a placeholder for a call that changes that file.
    pub(super) fn arguments(self, writes: bool) -> (String, Option<String>) {
        let one = match self.files.len() {
            1 => self.files.keys().next().cloned(),
            _ => None,
        };
        let hidden = self.parsed.filter(|_| writes).map(|mut value| {
            // Only the file to be written counts: a key of another file stays as it is.
            let written = written_path(&value).or(one.as_deref());
            let content = written
                .and_then(|path| self.files.get(path))
                .cloned()
                .unwrap_or_default();
            let known = RefCell::new(BTreeMap::new());
            // Each key is searched for once, however often it occurs. A call whose session has ended does not run.
            let holds = |key: &str| {
                let mut known = known.borrow_mut();
                let look = || !self.cancel.is_cancelled() && content.contains(key);
                *known.entry(key.to_owned()).or_insert_with(look)
            };
            rewrite_strings(&mut value, &|text| self.redactor.hide_where(text, &holds));
            value.to_string()
        });
        (hidden.unwrap_or_else(|| self.arguments.to_owned()), one)
    }
}

/// Registers the keys of these files with the redactor, because a result may show a part of a key.
///
/// The number and size of the files are limited: `first` of them come before all others, then the small ones. A file
/// with a key is usually small, and a large file must not crowd it out. For other files, a whole key is still
/// recognised like in any text, but half a key is not.
fn learn_keys(
    mut paths: Vec<String>,
    first: usize,
    repository: &Repository,
    redactor: &Redactor,
    cancel: &CancellationToken,
) -> BTreeMap<String, String> {
    let (mut seen, mut files) = (BTreeSet::new(), BTreeMap::new());
    paths.retain(|path| seen.insert(path.clone()));
    paths.truncate(limits::REDACTION_FILES_LEARNED_MAX);
    // Reading checks the file itself.
    let size = |path: &String| {
        repository
            .root()
            .join(path)
            .symlink_metadata()
            .map_or(0, |metadata| metadata.len())
    };
    let first = first.min(paths.len());
    paths[first..].sort_by_cached_key(size);
    let mut bytes_left = REDACTION_LEARNED_BYTES_MAX;
    for path in paths {
        if cancel.is_cancelled() {
            break;
        }
        // A file larger than the rest of the limit is skipped; a smaller one after it may fit.
        let inside = path::normalise_inside(repository.root(), &path);
        let Some(Ok(content)) = inside.map(|inside| repository.read_within(&inside, bytes_left, cancel)) else {
            continue;
        };
        bytes_left = bytes_left.saturating_sub(content.len() as u64);
        let content = String::from_utf8_lossy(&content).into_owned();
        if redactor.learn(&content, &|| !cancel.is_cancelled()) {
            files.insert(path, content);
        }
    }
    files
}

/// Registers the keys of files that a result shows although the call did not name them, if a line may belong to a
/// private key. No rule recognises such lines alone, for example in the result of a search or in a diff. Blocks, and
/// ends early with the session.
pub(super) fn learn_shown(
    report: &CallReport,
    repository: &Repository,
    redactor: &Redactor,
    cancel: &CancellationToken,
) {
    let Ok(outcome) = &report.result else { return };
    let mut texts = vec![outcome.text.as_str()];
    if let Some(details) = &outcome.details {
        visit_texts(details, &mut |text| texts.push(text));
    }
    let mut shown = Vec::new();
    let mut heading = None;
    for line in texts.into_iter().flat_map(str::lines) {
        if let Some(named) = HEADING.captures(line) {
            heading = named.get(1).map(|path| path.as_str());
            continue;
        }
        let located = LOCATED.captures(line);
        // A long path looks like such a line as well.
        let text = located.as_ref().map_or(line, |located| &line[located[0].len()..]);
        if ARMOURED.is_match(text) {
            let located = located.and_then(|located| located.get(1));
            shown.extend(located.map(|path| path.as_str()).into_iter().chain(heading));
        }
    }
    shown.retain(|path| may_be_path(path));
    let paths = shown.into_iter().map(str::to_owned).collect();
    learn_keys(paths, 0, repository, redactor, cancel);
}

/// Part of a line of a private key; such a line usually has 64 or 70 letters.
static ARMOURED: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Za-z0-9+/]{40}").expect("the pattern is valid"));

/// A line of a search: `path:line:text`, or `path-line-text` for context.
static LOCATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^(.+?)(?::[0-9]+:|-[0-9]+-)").expect("the pattern is valid"));

/// The line of a diff that names its file.
static HEADING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:---|\+\+\+) [ab]/(.+)$").expect("the pattern is valid"));

/// The file that a call writes to.
fn written_path(arguments: &Value) -> Option<&str> {
    let path = arguments.get("path").and_then(Value::as_str);
    path.filter(|path| may_be_path(path))
}

fn may_be_path(text: &str) -> bool {
    text.len() <= limits::PATH_BYTES_MAX && !text.contains('\n')
}

/// Collects short strings, which may be paths.
fn collect_paths(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) if may_be_path(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect_paths(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| collect_paths(value, into)),
        _ => {}
    }
}

fn rewrite_strings(value: &mut Value, with: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = with(text),
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite_strings(value, with)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| rewrite_strings(value, with)),
        _ => {}
    }
}

/// Redacts keys in all texts of a report. `file` is the file that the call was about.
pub(super) fn redact_report(report: &mut CallReport, redactor: &Redactor, file: Option<&str>) {
    // A failure may quote the arguments, where a placeholder may belong to another file.
    let file = file.filter(|_| report.result.is_ok());
    let clean = |text: &mut String| {
        if let std::borrow::Cow::Owned(redacted) = redactor.text(text, file) {
            *text = redacted;
        }
    };
    match &mut report.result {
        Ok(outcome) => {
            clean(&mut outcome.text);
            if let Some(details) = &mut outcome.details {
                rewrite_texts(details, &|text| redactor.text(text, file).into_owned());
            }
            outcome
                .citations
                .iter_mut()
                .for_each(|citation| clean(&mut citation.path));
            for media in &mut outcome.media {
                clean(&mut media.alternative);
                if media.is_diagram() {
                    clean(&mut media.data);
                }
            }
            // A cursor that contains a key cannot be sent to the model, and its placeholder would be invalid.
            let holds_key = |cursor: &mut String| matches!(redactor.text(cursor, file), std::borrow::Cow::Owned(_));
            if outcome.cursor.take_if(holds_key).is_some() {
                outcome.truncated = true;
            }
        }
        Err(CallError::Failure { message, hint, .. }) => {
            clean(message);
            hint.iter_mut().for_each(clean);
        }
        Err(CallError::Trap { reason, .. }) => clean(reason),
        Err(CallError::Arguments { got, .. }) => clean(got),
        Err(_) => {}
    }
}

/// Tells the user, once a session, which placeholders `reader`, usually the model, got in place of keys.
pub(super) fn report_placeholders(redactor: &Redactor, recorder: &Recorder, reader: &str) {
    let Some(told) = redactor.told() else { return };
    let rules: Vec<String> = told
        .rules
        .iter()
        .map(|(rule, count)| format!("{count} {rule}"))
        .collect();
    let strings = match told.count {
        1 => "1 string that looks like a key was".to_owned(),
        count => format!("{count} strings that look like keys were"),
    };
    let files: Vec<String> = told
        .files
        .iter()
        .map(|file| tool_core::text::quote_name(file))
        .collect();
    let places = if files.is_empty() {
        String::new()
    } else {
        format!(", in {}", files.join(", "))
    };
    recorder.event(Event::Notice {
        code: Some(NoticeKind::Redacted),
        message: format!(
            "{strings} replaced by placeholders in what went to {reader} ({}){places}.",
            rules.join(", ")
        ),
        hint: Some("`[policy] unredacted` in config.toml switches a rule off".to_owned()),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_skill::{CallOutcome, HostNotes};

    #[test]
    fn keys_leave_the_details_as_they_leave_the_text() {
        let key = "a-key-of-the-configuration-0123456789";
        let redactor = Redactor::new(&[], [key]).expect("no rule is named");
        let mut report = CallReport {
            result: Ok(CallOutcome {
                text: key.to_owned(),
                truncated: false,
                cursor: None,
                files_modified: Vec::new(),
                details: Some(serde_json::json!({key: [{"line": format!("a = \"{key}\"")}], "count": 1})),
                ..CallOutcome::default()
            }),
            receipt: None,
            foreign: Vec::new(),
            notes: HostNotes::default(),
        };
        redact_report(&mut report, &redactor, None);
        let outcome = report.result.expect("it is an answer");
        let placeholder = outcome.text;
        assert!(!placeholder.contains(key), "{placeholder}");
        assert_eq!(
            outcome.details,
            Some(serde_json::json!({placeholder.as_str(): [{"line": format!("a = \"{placeholder}\"")}], "count": 1}))
        );
    }

    #[test]
    fn a_cursor_that_holds_a_key_is_not_told() {
        let key = "a-key-of-the-configuration-0123456789";
        let redactor = Redactor::new(&[], [key]).expect("no rule is named");
        let cursor_of = |cursor: &str| {
            let outcome = CallOutcome {
                text: "a page".to_owned(),
                truncated: false,
                cursor: Some(cursor.to_owned()),
                files_modified: Vec::new(),
                details: None,
                ..CallOutcome::default()
            };
            let mut report = CallReport {
                result: Ok(outcome),
                receipt: None,
                foreign: Vec::new(),
                notes: HostNotes::default(),
            };
            redact_report(&mut report, &redactor, None);
            let outcome = report.result.expect("it is an answer");
            (outcome.cursor, outcome.truncated)
        };
        assert_eq!(cursor_of("src/a.py:3"), (Some("src/a.py:3".to_owned()), false));
        assert_eq!(cursor_of(&format!("src/{key}:3")), (None, true));
    }

    /// A repository of these files, and a call that names them.
    fn repository(files: &[(&str, &[u8])]) -> (tempfile::TempDir, std::sync::Arc<Repository>, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("the folder is writable");
        }
        let repository = Repository::open(folder.path(), &tool_repository::Options::default()).expect("it opens");
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let arguments = serde_json::json!({"paths": names}).to_string();
        (folder, repository, arguments)
    }

    #[test]
    fn of_the_files_that_a_call_names_so_many_bytes_are_learned() {
        let max = usize::try_from(REDACTION_LEARNED_BYTES_MAX).expect("it fits");
        let line = b"nothing that looks like anything\n";
        let (large, small) = (line.repeat(max / 2 / line.len()), b"x = 1\n".as_slice());
        let whole = vec![b'\n'; max];
        let files = [
            ("a", large.as_slice()),
            ("b", &large),
            // There is no room for it any more, and for the smaller one behind it there is.
            ("c", &large),
            ("d", small),
        ];
        let (_folder, repository, arguments) = repository(&files);
        let (redactor, cancel) = (Redactor::default(), CancellationToken::new());
        let learned = |arguments: &str| {
            let named = CallFiles::find_files(arguments, &repository, &redactor, &cancel);
            named.files.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(learned(&arguments), ["a", "b", "d"]);
        assert_eq!(
            learned(r#"{"paths": ["b", "a", "c", "d"]}"#),
            ["a", "b", "d"],
            "the smallest comes first"
        );
        // Often named is not often read; and the file that is written to comes before all others.
        assert_eq!(learned(r#"{"paths": ["a", "a", "a", "b"]}"#), ["a", "b"]);
        assert_eq!(learned(r#"{"also": ["a", "b", "d"], "path": "c"}"#), ["a", "c", "d"]);
        std::fs::write(repository.root().join("e"), &whole).expect("the folder is writable");
        assert_eq!(learned(r#"{"path": "e"}"#), ["e"]);
        std::fs::write(repository.root().join("e"), [&whole, small].concat()).expect("the folder is writable");
        assert_eq!(learned(r#"{"path": "e"}"#), [""; 0]);
    }

    #[test]
    fn lines_of_a_key_are_known_where_a_result_names_their_file_and_the_call_did_not() {
        let lines = ["b", "c", "d"].map(|letter| letter.repeat(64));
        let armour = |word: &str| format!("-----{word} PRIVATE KEY-----");
        let file = [&armour("BEGIN"), &lines.join("\n"), &armour("END")]
            .map(String::as_str)
            .join("\n");
        let (_folder, repository, _) = repository(&[("deploy.py", format!("KEY = \"\"\"{file}\"\"\"").as_bytes())]);
        let honest = "e".repeat(64);
        for (text, left) in [
            (
                format!("deploy.py:3:{}\ndeploy.py-4-{}\n\n2 lines", lines[1], lines[2]),
                "deploy.py:3:[",
            ),
            (
                format!("+++ b/deploy.py\n@@ -3,1 +3,2 @@\n {}\n+{}", lines[1], lines[2]),
                " [",
            ),
            (
                format!("deploy.py:9:{honest}\nnone.py:1:{honest}\n/etc/passwd:1:{honest}"),
                "deploy.py:9:e",
            ),
        ] {
            let outcome = CallOutcome {
                text,
                truncated: false,
                cursor: None,
                files_modified: Vec::new(),
                details: None,
                ..CallOutcome::default()
            };
            let mut report = CallReport {
                result: Ok(outcome),
                receipt: None,
                foreign: Vec::new(),
                notes: HostNotes::default(),
            };
            let redactor = Redactor::default();
            learn_shown(&report, &repository, &redactor, &CancellationToken::new());
            redact_report(&mut report, &redactor, None);
            let shown = report.result.expect("it is an answer").text;
            assert!(lines.iter().all(|line| !shown.contains(line)), "{shown}");
            assert!(shown.contains(left), "{shown}");
            assert_eq!(shown.contains(&honest), left.ends_with('e'), "{shown}");
        }
    }

    #[test]
    fn no_file_is_learned_any_more_once_the_session_has_ended() {
        // Anchors without a key, each of which is looked at: minutes of work where nothing is optimised.
        let text = b"://a: token = \"  ".repeat(3 * 1024 * 1024 / 17);
        let longer = [&text, b"x = 1\n".as_slice()].concat();
        let (_folder, repository, arguments) = repository(&[("a", text.as_slice()), ("b", &longer)]);
        let (redactor, cancel) = (Redactor::default(), CancellationToken::new());
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                CallFiles::find_files(&arguments, &repository, &redactor, &cancel)
                    .files
                    .len()
            });
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert!(!looking.is_finished(), "there is more to look at than that");
            let begun = std::time::Instant::now();
            cancel.cancel();
            assert_eq!(looking.join().expect("no panic"), 0);
            let took = begun.elapsed();
            assert!(took < std::time::Duration::from_secs(15), "{took:?}");
        });
    }

    #[test]
    fn of_the_files_that_a_call_names_a_bounded_number_is_learned() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let names: Vec<String> = (0..2 * limits::REDACTION_FILES_LEARNED_MAX)
            .map(|n| format!("{n}.py"))
            .collect();
        for name in &names {
            std::fs::write(folder.path().join(name), "x = 1\n").expect("the folder is writable");
        }
        let repository = Repository::open(folder.path(), &tool_repository::Options::default()).expect("it opens");
        let redactor = Redactor::new(&[], []).expect("no rule is named");
        let arguments = serde_json::to_string(&serde_json::json!({"paths": names})).expect("it is JSON");
        let cancel = CancellationToken::new();
        let named = CallFiles::find_files(&arguments, &repository, &redactor, &cancel);
        assert_eq!(named.files.len(), limits::REDACTION_FILES_LEARNED_MAX);
    }
}
