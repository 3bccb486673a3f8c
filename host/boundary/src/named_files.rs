//! Files that a call of the user names. They count as seen, so that the call may replace them.
//!
//! The host does not know which texts among the arguments are paths; a text that opens a file counts as one.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::SessionFiles;
use crate::limits;
use tool_core::digest::sha256_hex;
use tool_repository::{EntryKind, Likeness, Repository, RespelledPath, path};

impl SessionFiles {
    /// Returns the current files that arguments of the user name, as seen. Blocks. If the session is cancelled, it
    /// returns early with nothing; the call then ends at once.
    pub fn named_in(arguments: &Value, repository: &Repository, cancel: &CancellationToken) -> Self {
        let mut named = Vec::new();
        name_paths(arguments, &mut named);
        let digest_of = |path: String| {
            let path = path::normalise_inside(repository.root(), &path)?;
            let path = match repository.respell(&path, Likeness::Look) {
                Some(RespelledPath::Path(found)) => found,
                _ => path,
            };
            let opened = repository.open_within(&path, cancel).ok()?;
            let opened = Some(opened).filter(|opened| opened.kind == EntryKind::File)?;
            let content = repository
                .read_within(&opened.path, limits::REPLACED_BYTES_MAX, cancel)
                .ok()?;
            Some((opened.path, sha256_hex(&content)))
        };
        Self {
            seen: named
                .into_iter()
                .take_while(|_| !cancel.is_cancelled())
                .filter_map(digest_of)
                .collect(),
            ..Self::default()
        }
    }
}

/// Collects the texts among the arguments that may be paths, up to a limit.
fn name_paths(arguments: &Value, named: &mut Vec<String>) {
    if named.len() >= limits::REDACTION_FILES_LEARNED_MAX {
        return;
    }
    match arguments {
        Value::String(text) if text.len() <= limits::PATH_BYTES_MAX && !text.contains('\n') => {
            named.push(text.clone());
        }
        Value::Array(list) => list.iter().for_each(|value| name_paths(value, named)),
        Value::Object(fields) => fields.values().for_each(|value| name_paths(value, named)),
        _ => {}
    }
}
