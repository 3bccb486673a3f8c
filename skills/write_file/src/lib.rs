//! `write_file`: proposes new content for one file.
//!
//! This file has the arguments and the order of steps. `edits` applies replacements, `newlines` keeps line ends,
//! `file_encoding` keeps the encoding, `placeholder` recognises text that stands for omitted code, and `diff` writes
//! the answer. The skill changes no file: the result goes to the stage, and the host commits it or refuses (it also
//! knows whether the model has seen the file).

mod diff;
mod edits;
mod file_encoding;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/edits.rs"]
mod fuzz;
mod newlines;
mod placeholder;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use skill_details::{WriteChange, WriteDetails};
use skill_sdk::serde_json::{self, json};
use skill_sdk::text::{counted, human_size};
use skill_sdk::{Descriptor, Failure, FunctionMetadata, Handler, Host, Outcome, clean_path, code, export_skill};

use edits::Edit;
use file_encoding::StoredText;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use fuzz::edits as fuzz;

/// Limit for a file in bytes. Models do not write larger ones.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The skill `write_file`.
#[derive(Debug)]
pub struct WriteFile;

#[derive(Debug, Deserialize)]
struct WriteFileArguments {
    path: String,
    content: Option<String>,
    edits: Option<Vec<Edit>>,
}

impl Handler for WriteFile {
    const EFFECTS: &'static [&'static str] = &["read-repository", "write-repository"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "write_file",
            version: "1.0.0",
            description: "Creates a file or replaces it (`content`), or changes it in place (`edits`): give exactly \
                one of the two. For an existing file prefer `edits`: each replaces an `old` text that occurs exactly \
                once. Read a file with read_file before you change it. Makes missing directories, keeps file mode and \
                CRLF line endings, and answers with a diff.",
            parameters: parameters_schema(),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: WriteFileArguments = skill_sdk::arguments(arguments)?;
        let path = target_path(host, &arguments.path)?;
        let old = existing_content(host, &path)?;
        let stored = old.as_deref().map(|old| StoredText::read_stored(host, &path, old));
        let text = match (arguments.content, arguments.edits) {
            (Some(content), None) => replaced_content(&path, stored.as_ref(), content)?,
            (None, Some(edits)) if !edits.is_empty() => edited_content(&path, stored.as_ref(), &edits)?,
            _ => {
                return Err(Failure::invalid("give exactly one of `content` and `edits`")
                    .with_hint("`content` for a new file, `edits` with at least one edit for an existing one"));
            }
        };
        let (new, encoding) = file_encoding::encode_text(host, &path, stored.as_ref(), &text)?;
        if new.len() as u64 > FILE_BYTES_MAX {
            let most = human_size(FILE_BYTES_MAX);
            return Err(Failure::new(
                code::LIMIT,
                format!("the new content is larger than {most}"),
            ));
        }
        if old.as_deref() == Some(&*new) {
            let text = format!("`{path}` has exactly this content already; nothing was changed.");
            return Ok(Outcome::text(text).with_details(&WriteDetails {
                path,
                change: WriteChange::Unchanged,
                added: 0,
                removed: 0,
            }));
        }
        let old_text = stored.as_ref().map(|stored| &*stored.text);
        let outcome = answer_change(&path, old_text, &text, &encoding)?;
        stage_proposal(host, &path, &new)?;
        Ok(outcome)
    }
}

/// The answer, with counts and a diff. Fails if the change is not allowed.
fn answer_change(path: &str, old: Option<&[u8]>, new: &[u8], encoding: &str) -> Result<Outcome, Failure> {
    let new = String::from_utf8_lossy(new);
    let mut details = WriteDetails {
        path: path.to_owned(),
        change: match old {
            Some(_) => WriteChange::Modified,
            None => WriteChange::Created,
        },
        added: new.lines().count() as u64,
        removed: 0,
    };
    if old.is_some_and(|old| old.contains(&0)) {
        let lines = counted(details.added, "line", "lines");
        let text = format!("Replaced `{path}`, which was not text, by {lines} of text.");
        return Ok(Outcome::text(text).with_details(&details));
    }
    let before = String::from_utf8_lossy(old.unwrap_or_default());
    let change = diff::TextChange::new(&before, &new);
    placeholder::check_placeholders(&change)?;
    let (verb, name) = match old {
        Some(_) => ("Modified", format!("a/{path}")),
        None => ("Created", "/dev/null".to_owned()),
    };
    let (added, removed) = (change.added().count(), change.removed());
    (details.added, details.removed) = (added as u64, removed as u64);
    let counts = format!("{verb} `{path}` (+{added} -{removed}){encoding}");
    let text = match (added + removed, old) {
        (0, None) => counts + ", empty.",
        // Different bytes may look alike when they are shown as text.
        (0, Some(_)) => counts + "; the difference lies in bytes that are not text.",
        _ => format!("{counts}\n--- {name}\n+++ b/{path}{}", change.unified()),
    };
    Ok(Outcome::text(text).with_details(&details))
}

/// Checks that a file can exist at the path, and normalises it.
fn target_path(host: &dyn Host, path: &str) -> Result<String, Failure> {
    let clean = clean_path(path)?;
    if clean.is_empty() || path.ends_with('/') {
        return Err(Failure::invalid(format!("`{path}` names a directory, not a file")));
    }
    for (at, _) in clean.match_indices('/') {
        let ancestor = &clean[..at];
        if fs::metadata(host.repo().join(ancestor)).is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(Failure::invalid(format!(
                "`{ancestor}` is a file, so nothing can lie beneath it"
            )));
        }
    }
    Ok(clean)
}

/// Content of the existing file; `None` if there is none.
fn existing_content(host: &dyn Host, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    let place = host.path(path)?;
    let metadata = match fs::symlink_metadata(&place) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(Failure::io(path, &error)),
    };
    if metadata.is_dir() {
        return Err(Failure::invalid(format!("`{path}` is a directory")));
    }
    if metadata.is_symlink() {
        return Err(Failure::invalid(format!("`{path}` is a symbolic link")).with_hint("write to what it leads to"));
    }
    if !metadata.is_file() {
        return Err(Failure::invalid(format!("`{path}` is not a regular file")));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let size = human_size(metadata.len());
        return Err(Failure::new(
            code::LIMIT,
            format!("`{path}` is too large to be changed ({size})"),
        ));
    }
    fs::read(&place).map(Some).map_err(|error| Failure::io(path, &error))
}

/// The whole new content, in the style of the old one.
fn replaced_content(path: &str, old: Option<&StoredText<'_>>, content: String) -> Result<Vec<u8>, Failure> {
    let Some(old) = old else {
        return Ok(content.into_bytes());
    };
    // Text with replaced bytes must not be written as the file's text.
    if old.encoding.is_none() && content.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Failure::invalid(format!(
            "`{path}` is not valid UTF-8, and the content holds the replacement characters it was shown with"
        ))
        .with_hint("use `edits`: they leave the bytes around them as they are"));
    }
    Ok(newlines::in_style_of(&old.text, &content))
}

fn edited_content(path: &str, old: Option<&StoredText<'_>>, edits: &[Edit]) -> Result<Vec<u8>, Failure> {
    let Some(old) = old else {
        return Err(
            Failure::not_found(format!("`{path}` does not exist, so it cannot be edited"))
                .with_hint("use `content` to create it, or list_files to find the right path"),
        );
    };
    if old.encoding.is_none() {
        file_encoding::check_unknown(path, &old.text, edits)?;
    }
    edits::apply_edits(path, &old.text, edits)
}

/// Writes the proposal to the stage.
fn stage_proposal(host: &dyn Host, path: &str, content: &[u8]) -> Result<(), Failure> {
    let place = host.stage().join(path);
    let write = |place: &Path| -> std::io::Result<()> {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(place, content)
    };
    write(&place).map_err(|error| Failure::failed(format!("`{path}` could not be proposed: {error}")))
}

fn parameters_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "format": "path",
                "minLength": 1,
                "description": "File, relative to the repository root."
            },
            "content": {
                "type": "string",
                "description": "The whole new content; abbreviate nothing."
            },
            "edits": {
                "type": "array",
                "minItems": 1,
                "description": "Replacements in an existing file, applied in order, all or none.",
                "items": {
                    "type": "object",
                    "properties": {
                        "old": {
                            "type": "string",
                            "minLength": 1,
                            "description": "Exactly as in the file: with indentation, without line numbers. Add lines \
                                around it until it occurs exactly once."
                        },
                        "new": {
                            "type": "string",
                            "description": "Its replacement; empty deletes it."
                        }
                    },
                    "required": ["old", "new"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

export_skill!(WriteFile);

#[cfg(test)]
mod tests;
