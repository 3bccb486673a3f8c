//! Texts of changed files in the events that a stream sends. The journal stores contents outside of its lines, so a
//! large change needs no memory of the session and no room in the journal.

use std::collections::VecDeque;
use std::sync::Arc;

use super::NumberedEvent;
use crate::journal::{JournalFile, SessionFolder};
use tool_core::api::{ChangedText, Event, TextOmission};
use tool_core::redaction;

/// Limit for one text in bytes. An editor shows longer files from its own disk.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Limit for all texts of one event, in bytes.
const EVENT_TEXTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A changed file in a recorded event: path and digests, without texts.
pub(super) fn digests_only(file: &JournalFile) -> ChangedText {
    ChangedText {
        path: file.path.clone(),
        old_digest: file.before.as_ref().map(|state| state.digest.clone()),
        new_digest: file.after.as_ref().map(|state| state.digest.clone()),
        ..ChangedText::default()
    }
}

/// Adds the texts to the events of changes. Blocks if [`has_texts`] is true for the batch.
pub fn add_texts(batch: Vec<NumberedEvent>, folder: &SessionFolder) -> Vec<NumberedEvent> {
    let added = batch.into_iter().map(|(seq, event)| {
        let mut event = Arc::unwrap_or_clone(event);
        if let Event::Change { texts, .. } = &mut event {
            let mut room = EVENT_TEXTS_BYTES_MAX;
            texts.iter_mut().for_each(|text| fill_text(text, folder, &mut room));
        }
        (seq, Arc::new(event))
    });
    added.collect()
}

/// True if [`add_texts`] reads files for this batch.
pub fn has_texts(batch: &[NumberedEvent]) -> bool {
    batch.iter().any(has_room)
}

/// Takes events out of a batch, up to the first event with texts. A batch may have hundreds of such events, and the
/// texts of all of them do not fit into memory.
pub fn take_piece(batch: &mut VecDeque<NumberedEvent>) -> Vec<NumberedEvent> {
    let end = batch.iter().position(has_room).map_or(batch.len(), |at| at + 1);
    batch.drain(..end).collect()
}

fn has_room((_, event): &NumberedEvent) -> bool {
    matches!(&**event, Event::Change { texts, .. } if !texts.is_empty())
}

fn fill_text(text: &mut ChangedText, folder: &SessionFolder, room: &mut usize) {
    let read = |digest: &Option<String>| digest.as_ref().map(|digest| read_text(folder, digest)).transpose();
    let sides = read(&text.old_digest).and_then(|old| Ok((old, read(&text.new_digest)?)));
    match sides {
        Ok((old, new)) => {
            let bytes = [&old, &new].into_iter().flatten().map(String::len).sum();
            match room.checked_sub(bytes) {
                Some(left) => (*room, text.old_text, text.new_text) = (left, old, new),
                None => text.left_out = Some(TextOmission::TooLong),
            }
        }
        Err(reason) => text.left_out = Some(reason),
    }
}

fn read_text(folder: &SessionFolder, digest: &str) -> Result<String, TextOmission> {
    let content = folder.content(digest).map_err(|_| TextOmission::Gone)?;
    if content.len() > TEXT_BYTES_MAX {
        return Err(TextOmission::TooLong);
    }
    let text = String::from_utf8(content).map_err(|_| TextOmission::NotText)?;
    if text.contains('\0') {
        return Err(TextOmission::NotText);
    }
    Ok(redaction::mask_keys(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_repository::changes::{FileChange, FileState, PreparedChange};
    use tool_repository::diff::FileDiff;

    type TextContent = Option<Vec<u8>>;

    fn sent(files: &[(&str, TextContent, TextContent)], is_kept: bool) -> Vec<ChangedText> {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("s"));
        folder.create().expect("it can be made");
        let state = |content: &TextContent| content.clone().map(|content| FileState { content, mode: 0o644 });
        let files = files.iter().map(|(path, before, after)| FileChange {
            path: (*path).to_owned(),
            before: state(before),
            after: state(after),
        });
        let change = PreparedChange {
            id: "c".into(),
            call_id: Some("call_1".into()),
            root: place.path().to_owned(),
            files: files.collect(),
            directories: Vec::new(),
        };
        let stored = folder.store(&change).expect("it can be stored");
        let event = super::super::change_event(&change, &stored, false);
        let Event::Change { call_id, files, .. } = &event else {
            panic!("no change: {event:?}")
        };
        assert_eq!(call_id.as_deref(), Some("call_1"));
        assert_eq!(files.len(), change.files.iter().map(FileDiff::new).count());
        if !is_kept {
            folder.remove_contents().expect("they can be removed");
        }
        let batch = vec![(1, Arc::new(event))];
        assert!(has_texts(&batch));
        match &*add_texts(batch, &folder)[0].1 {
            Event::Change { texts, .. } => texts.clone(),
            other => panic!("no change: {other:?}"),
        }
    }

    #[test]
    fn a_piece_has_one_event_with_texts_at_most() {
        let token = || Event::Token { content: "a".into() };
        let change = || Event::Change {
            call_id: None,
            files: Vec::new(),
            diff: String::new(),
            truncated: false,
            proposed: false,
            texts: vec![ChangedText::default()],
        };
        let events = [token(), change(), change(), token(), token()];
        let mut batch: VecDeque<NumberedEvent> = (1..).zip(events.map(Arc::new)).collect();
        let mut pieces = Vec::new();
        while !batch.is_empty() {
            let piece = take_piece(&mut batch);
            pieces.push(piece.iter().map(|(seq, _)| *seq).collect::<Vec<_>>());
        }
        assert_eq!(pieces, [vec![1, 2], vec![3], vec![4, 5]]);
    }

    #[test]
    fn a_change_has_the_texts_before_and_after_as_far_as_an_event_holds_them() {
        let text = |content: &str| Some(content.as_bytes().to_vec());
        let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let full = Some(vec![b'a'; TEXT_BYTES_MAX]);
        let texts = sent(
            &[
                ("new.py", None, text("x = 1\n")),
                ("old.py", text("x = 1\n"), None),
                ("both.py", text("a\n"), text(&format!("token = \"{key}\"\n"))),
                ("binary", text("a\n"), Some(vec![0xff, 0])),
                ("zero", text("a\n"), text("a\0")),
                ("long", text("a\n"), Some(vec![b'a'; TEXT_BYTES_MAX + 1])),
                ("full", full.clone(), full),
            ],
            true,
        );
        let shown = |at: usize| (texts[at].old_text.as_deref(), texts[at].new_text.as_deref());
        assert_eq!((shown(0), shown(1)), ((None, Some("x = 1\n")), (Some("x = 1\n"), None)));
        let (old, new) = shown(2);
        assert!(old == Some("a\n") && new.is_some_and(|new| new.starts_with("token = ") && !new.contains(&key)));
        let left_out: Vec<_> = texts.iter().map(|text| text.left_out).collect();
        use TextOmission::{NotText, TooLong};
        assert_eq!(
            left_out,
            [None, None, None, Some(NotText), Some(NotText), Some(TooLong), None]
        );
        assert_eq!((shown(3), shown(5)), ((None, None), (None, None)), "both or none");
        assert!(texts[3].old_digest.is_some() && texts[0].old_digest.is_none());
        let many: Vec<_> = (0..20)
            .map(|at| (format!("{at}"), Some(vec![b'a'; TEXT_BYTES_MAX])))
            .collect();
        let many: Vec<_> = many
            .iter()
            .map(|(path, text)| (path.as_str(), None, text.clone()))
            .collect();
        let texts = sent(&many, true);
        assert_eq!(texts.iter().filter(|text| text.left_out == Some(TooLong)).count(), 4);
        let gone = sent(&[("new.py", None, text("x = 1\n"))], false);
        assert_eq!((gone[0].left_out, &gone[0].new_text), (Some(TextOmission::Gone), &None));
    }
}
