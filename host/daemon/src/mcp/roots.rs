//! The roots of a client. The repository must be in one of them, and does not change with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::model::ProtocolVersion;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Mutex;

use super::McpSession;
use crate::limits;
use tool_core::api::{ErrorKind, Problem};
use tool_core::text::percent_decode;

/// Cached result of the check against a client's roots.
#[derive(Default)]
pub(super) struct RootsCheck(Mutex<Option<Arc<Result<(), Problem>>>>);

impl RootsCheck {
    /// Fails unless the repository is in one of the client's roots, if it has any. Asks once, during the first call:
    /// over HTTP, a question outside of a call has no stream.
    pub(super) async fn check(&self, line: &McpSession, context: &RequestContext<RoleServer>) -> Result<(), Problem> {
        let mut known = self.0.lock().await;
        if let Some(known) = known.as_deref() {
            return known.clone();
        }
        // From this revision on, a server cannot ask a client, and there are no roots.
        let can_be_asked = context
            .protocol_version()
            .is_none_or(|version| version < ProtocolVersion::V_2026_07_28);
        let has_roots = context.client_capabilities().is_some_and(|can| has_roots(&can));
        let checked = if can_be_asked && has_roots {
            lies_in(line.connection.root(), &ask_roots(line, context).await?)
        } else {
            Ok(())
        };
        *known = Some(Arc::new(checked.clone()));
        checked
    }

    /// Drops the cached result after a change of the roots.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

fn has_roots(capabilities: &rmcp::model::ClientCapabilities) -> bool {
    capabilities.roots.is_some()
}

/// Asks for the client's roots, as URIs.
#[expect(deprecated, reason = "roots are a part of every revision that clients speak so far")]
async fn ask_roots(line: &McpSession, context: &RequestContext<RoleServer>) -> Result<Vec<String>, Problem> {
    let patience = limits::seconds(limits::MCP_ROOTS_SECONDS_MAX);
    let answer = tokio::time::timeout(patience, context.peer.list_roots());
    match line.hung_up.run_until_cancelled(answer).await {
        Some(Ok(Ok(answer))) => Ok(answer.roots.into_iter().map(|root| root.uri).collect()),
        Some(Ok(Err(_)) | Err(_)) | None => Err(Problem::new(
            ErrorKind::RootsUnknown,
            "The client says that it has roots, and does not answer which",
        )
        .with_hint("call again, or let the client offer no roots")),
    }
}

/// Fails unless the directory is in one of the roots.
fn lies_in(repository: &Path, roots: &[String]) -> Result<(), Problem> {
    let is_around = |root: &PathBuf| root.canonicalize().is_ok_and(|root| repository.starts_with(root));
    // An empty list does not restrict: clients declare the capability of roots without having any.
    if roots.is_empty() {
        return Ok(());
    }
    let places: Vec<PathBuf> = roots.iter().filter_map(|root| path_of_uri(root)).collect();
    if places.iter().any(is_around) {
        return Ok(());
    }
    let named: Vec<String> = roots.iter().take(ROOTS_NAMED).map(|root| format!("`{root}`")).collect();
    let message = format!(
        "The repository `{}` lies in none of the client's roots ({})",
        repository.display(),
        named.join(", ")
    );
    Err(Problem::new(ErrorKind::OutsideRoots, message)
        .with_hint("serve a directory of the roots, `tool mcp --root DIR`, or add this one to the client's roots"))
}

/// Limit for the roots in a message.
const ROOTS_NAMED: usize = 5;

/// The directory of a `file` URI.
fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = path.starts_with('/').then_some(path)?;
    percent_decode(path).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_file_uri() {
        let is = |uri: &str| path_of_uri(uri).map(|place| place.to_string_lossy().into_owned());
        assert_eq!(is("file:///home/a%20b"), Some("/home/a b".to_owned()));
        assert_eq!(is("file://localhost/r"), Some("/r".to_owned()));
        for wrong in [
            "file://elsewhere/r",
            "http:///r",
            "/r",
            "file:///%zz",
            "file:///%ff",
            "file:///%+f",
            "file:///%2",
        ] {
            assert_eq!(is(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_repository_is_a_root_or_lies_in_one() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let root = place.path().canonicalize().expect("it is there");
        let inner = root.join("inner");
        std::fs::create_dir(&inner).expect("the folder is writable");
        let of = |path: &Path| format!("file://{}", path.display());
        assert!(lies_in(&inner, &[of(&inner)]).is_ok());
        assert!(lies_in(&inner, &["file:///nowhere".to_owned(), of(&root)]).is_ok());
        let refused = lies_in(&root, &[of(&inner)]).expect_err("it is around the root");
        assert_eq!(refused.kind, ErrorKind::OutsideRoots);
        assert!(
            refused
                .message
                .contains("lies in none of the client's roots (`file:///"),
            "{refused}"
        );
        assert!(lies_in(&root, &[]).is_ok(), "there is none");
        std::os::unix::fs::symlink(&root, inner.join("link")).expect("the folder is writable");
        assert!(
            lies_in(&root, &[of(&inner.join("link"))]).is_ok(),
            "where it really is counts"
        );
    }
}
