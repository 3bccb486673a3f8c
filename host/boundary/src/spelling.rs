//! Corrects paths among the arguments of a call that do not exist and look like an existing name.

use serde_json::Value;
use tool_core::text::visible_name;
use tool_repository::{Likeness, Repository, RespelledPath};

/// Result for the paths of a call that do not exist as written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// Sentences about the paths that were replaced.
    pub(crate) replaced: Vec<String>,
    /// Existing paths that a path which was not replaced may mean.
    meant: Vec<String>,
}

impl Spelling {
    /// Replaces each path that looks like exactly one existing name by that name. `paths` are the JSON pointers of the
    /// paths.
    pub(crate) fn apply(arguments: &mut Value, paths: &[String], repository: &Repository, likeness: Likeness) -> Self {
        let mut spelling = Self::default();
        for pointer in paths {
            let Some(Value::String(path)) = arguments.pointer_mut(pointer) else {
                continue;
            };
            match repository.respell(path, likeness) {
                Some(RespelledPath::Path(found)) => {
                    spelling.replaced.push(format!(
                        "There is no `{}`; `{}` was taken, the one name that looks like it.",
                        visible_name(path),
                        visible_name(&found)
                    ));
                    *path = found;
                }
                Some(RespelledPath::Meant(paths)) => spelling.meant.extend(paths),
                None => {}
            }
        }
        spelling
    }

    /// Returns a sentence about the paths that were replaced.
    pub(crate) fn notice(&self) -> Option<String> {
        (!self.replaced.is_empty()).then(|| self.replaced.join(" "))
    }

    /// Returns a hint with the paths that may be meant.
    pub(crate) fn hint(&self) -> Option<String> {
        let names = self
            .meant
            .iter()
            .take(3)
            .map(|path| format!("`{}`", visible_name(path)));
        let names = names.collect::<Vec<_>>().join(" or ");
        (!names.is_empty()).then(|| format!("did you mean {names}?"))
    }
}
