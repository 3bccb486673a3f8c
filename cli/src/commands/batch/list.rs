//! The list of a batch: one repository a line, as a path, a git URL, or an object in JSON.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tool_core::api::{ErrorKind, Operation, Problem};
use tool_core::digest::sha256_hex;
use tool_registry::clone::CloneUrl;

use crate::error::Error;

/// Largest list. A line is some hundred bytes.
const LIST_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(super) const ITEMS_MAX: usize = 100_000;

/// Digits of an item's identifier: enough that two of the largest list do not meet.
const ID_DIGITS: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct BatchItem {
    /// Hash of the operation, the task, and the repository as it was written.
    pub(super) id: String,
    /// As it was written.
    pub(super) repository: String,
    pub(super) source: RepositorySource,
    /// Position of the repository among those of the list, from 0. Items of one repository have the same one.
    pub(super) position: usize,
    pub(super) operation: Operation,
    pub(super) task: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RepositorySource {
    /// By its real path, where it exists: one folder may be written in several ways.
    Folder(PathBuf),
    Url(CloneUrl),
}

/// Operation and task of the lines that name none.
#[derive(Debug, Clone)]
pub(super) struct DefaultWork {
    pub(super) operation: Operation,
    pub(super) task: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLine {
    repository: String,
    operation: Option<Operation>,
    task: Option<String>,
}

/// Reads the list. Relative paths are relative to its folder.
pub(super) fn read_list(path: &Path, work: &DefaultWork) -> Result<Vec<BatchItem>, Error> {
    let unreadable = |error| Error::on_file("List", path, &error);
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LIST_BYTES_MAX {
        return Err(usage_error(format!("`{}` is larger than 16 MiB", path.display()), None));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let path = std::path::absolute(path).map_err(unreadable)?;
    parse_list(&text, path.parent().unwrap_or(&path), work)
}

fn parse_list(text: &str, folder: &Path, work: &DefaultWork) -> Result<Vec<BatchItem>, Error> {
    let mut items: Vec<BatchItem> = Vec::new();
    let mut lines_by_work = HashMap::new();
    let mut positions = HashMap::new();
    // Editors on Windows begin a file with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut item = parse_line(line, folder, work)
            .map_err(|why| usage_error(format!("Line {number} of the list: {why}"), None))?;
        let next = positions.len();
        item.position = *positions.entry(item.source.clone()).or_insert(next);
        let work = (item.position, item.operation, item.task.clone());
        if let Some(earlier) = lines_by_work.insert(work, number) {
            let hint = "leave one of them out, or give them different tasks";
            return Err(usage_error(
                format!("Line {number} of the list repeats line {earlier}"),
                Some(hint),
            ));
        }
        if items.len() == ITEMS_MAX {
            return Err(usage_error(
                format!("The list has more than {ITEMS_MAX} repositories"),
                None,
            ));
        }
        items.push(item);
    }
    if items.is_empty() {
        return Err(usage_error("The list names no repository".to_owned(), None));
    }
    Ok(items)
}

fn usage_error(message: String, hint: Option<&str>) -> Error {
    let problem = Problem::new(ErrorKind::Usage, message);
    match hint {
        Some(hint) => problem.with_hint(hint).into(),
        None => problem.into(),
    }
}

fn parse_line(line: &str, folder: &Path, work: &DefaultWork) -> Result<BatchItem, String> {
    let parsed = if line.starts_with('{') {
        serde_json::from_str(line).map_err(|error| error.to_string())?
    } else {
        JsonLine {
            repository: line.to_owned(),
            operation: None,
            task: None,
        }
    };
    let operation = parsed.operation.unwrap_or(work.operation);
    let task = parsed.task.filter(|task| !task.trim().is_empty());
    let task = task.or_else(|| work.task.clone());
    if task.is_none() && operation != Operation::Explain {
        return Err(format!("{operation} needs a task: give --task, or `task` in the line"));
    }
    let source = match CloneUrl::parse(&parsed.repository) {
        None => {
            let folder = folder.join(&parsed.repository);
            RepositorySource::Folder(folder.canonicalize().unwrap_or(folder))
        }
        Some(url) => RepositorySource::Url(url.map_err(|error| error.to_string())?),
    };
    let named = format!(
        "{operation}\0{}\0{}",
        task.as_deref().unwrap_or_default(),
        parsed.repository
    );
    let mut id = sha256_hex(named.as_bytes());
    id.truncate(ID_DIGITS);
    Ok(BatchItem {
        id,
        repository: parsed.repository,
        source,
        position: 0,
        operation,
        task,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<BatchItem>, String> {
        let work = DefaultWork {
            operation: Operation::Explain,
            task: None,
        };
        parse_list(text, Path::new("/lists"), &work).map_err(|error| match error {
            Error::Problem(problem) => problem.message,
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_line_is_a_path_a_url_or_an_object() {
        let items = parse(
            "# two\nshop\n\nhttps://host.example/a.git\n\
             {\"repository\": \"shop\", \"operation\": \"architect\", \"task\": \"split it\"}\n",
        )
        .expect("it is a list");
        assert_eq!(items[0].source, RepositorySource::Folder(PathBuf::from("/lists/shop")));
        assert!(matches!(items[1].source, RepositorySource::Url(_)));
        assert_eq!(
            (items[2].operation, items[2].task.as_deref()),
            (Operation::Architect, Some("split it"))
        );
        assert!(items[0].id != items[2].id && items[0].id.len() == ID_DIGITS);
    }

    #[test]
    fn a_folder_is_one_repository_however_it_is_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("a")).expect("the folder is writable");
        std::os::unix::fs::symlink("a", folder.path().join("link")).expect("it can be linked");
        let parse = |text: &str| {
            let work = DefaultWork {
                operation: Operation::Explain,
                task: None,
            };
            parse_list(text, folder.path(), &work)
        };
        for again in ["./a", "link", "a/"] {
            assert!(parse(&format!("\u{feff}a\n{again}\n")).is_err(), "{again}");
        }
        let items = parse("a\nb\n{\"repository\": \"link\", \"task\": \"why\"}\n").expect("the work differs");
        let positions: Vec<usize> = items.iter().map(|item| item.position).collect();
        assert_eq!(positions, [0, 1, 0]);
    }

    #[test]
    fn a_line_that_cannot_be_run_is_named() {
        for (text, message) in [
            ("a\nb\na\n", "Line 3 of the list repeats line 1"),
            ("\n# none\n", "The list names no repository"),
            (
                "a\nhttps://me:pw@host/a\n",
                "Line 2 of the list: a URL holds a password: keep it in a credential helper of git",
            ),
            (
                "{\"repository\": \"a\", \"operation\": \"refactor\"}",
                "Line 1 of the list: refactor needs a task: give --task, or `task` in the line",
            ),
        ] {
            assert_eq!(parse(text).expect_err("it is wrong"), message);
        }
        assert!(parse("{\"repository\": \"a\", \"command\": \"x\"}").is_err());
    }
}
