//! Fuzz target: edits with any file and any replacements, and the answers to the model.

use crate::edits::{Edit, apply_edits};
use crate::{diff, newlines, placeholder};

/// Checks that an edit changes one place and nothing else, and that a refused edit is explained in a bounded
/// sentence.
pub fn edits(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (edit, content) = (
        Edit {
            old: text(part()),
            new: text(part()),
        },
        part(),
    );
    match apply_edits("a.py", content, std::slice::from_ref(&edit)) {
        Ok(changed) => check_change(content, &changed, &edit),
        Err(failure) => {
            assert!(
                failure.message.len() < 8_000,
                "{} bytes of explanation",
                failure.message.len()
            );
        }
    }
    let (old, new) = (String::from_utf8_lossy(content), edit.new.as_str());
    let styled = newlines::in_style_of(content, new);
    assert!(!newlines::is_crlf(content) || !new.contains('\n') || newlines::is_crlf(&styled));
    let change = diff::TextChange::new(&old, new);
    let _ = placeholder::check_placeholders(&change);
    assert!(change.unified().len() < 64 * 1024);
    let same = diff::TextChange::new(&old, &old);
    assert_eq!((same.added().count(), same.removed()), (0, 0));
}

/// Checks that the text before and after the changed place is unchanged.
fn check_change(content: &[u8], changed: &[u8], edit: &Edit) {
    let pairs = [
        (edit.old.as_bytes().to_vec(), edit.new.as_bytes().to_vec()),
        (
            edit.old.as_bytes().to_vec(),
            newlines::to_crlf(&edit.new).as_bytes().to_vec(),
        ),
        (
            newlines::to_crlf(&edit.old).as_bytes().to_vec(),
            newlines::to_crlf(&edit.new).as_bytes().to_vec(),
        ),
    ];
    let is_one = |(old, new): &(Vec<u8>, Vec<u8>)| {
        let mut places = content
            .windows(old.len())
            .enumerate()
            .filter(|(_, window)| window == old);
        places.next().is_some_and(|(at, _)| {
            let rest = &content[at + old.len()..];
            places.next().is_none() && changed == [&content[..at], new, rest].concat()
        })
    };
    assert!(pairs.iter().any(is_one), "more than one place was changed");
}
