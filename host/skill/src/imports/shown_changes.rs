//! What the question about a change shows is the change that is made.

use tool_boundary::Question;
use tool_core::api::Effect;
use tool_core::digest::sha256_hex;
use tool_repository::changes::{FileChange, FileState};
use tool_repository::diff::{BoundedDiff, DiffSide, describe_changes};

fn state(content: &[u8]) -> FileState {
    FileState {
        content: content.to_vec(),
        mode: 0o644,
    }
}

/// The content that a reader of a question makes of the old one.
fn applied(before: &str, shown: &str) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let (mut new, mut at, mut is_new) = (String::new(), 0, false);
    for line in shown.split('\n').skip_while(|line| !line.starts_with("@@")) {
        match line.split_at_checked(1) {
            Some(("@", _)) => {
                let range = line.split(' ').nth(1).expect("the old range");
                let (start, count) = range[1..].split_once(',').unwrap_or((&range[1..], "1"));
                let start: usize = start.parse().expect("a number");
                let start = if count == "0" { start } else { start - 1 };
                new.extend(old[at..start].iter().copied());
                at = start;
            }
            Some((sign @ (" " | "-" | "+"), text)) => {
                at += usize::from(sign != "+");
                is_new = sign != "-";
                new.extend(is_new.then(|| format!("{text}\n")));
            }
            Some(_) if is_new => new.truncate(new.len() - 1),
            _ => {}
        }
    }
    new.extend(old[at..].iter().copied());
    new
}

proptest::proptest! {
    #[test]
    fn the_change_that_is_shown_is_the_change_that_is_made(
        before in "([ab\\r\\t é\u{200b}\u{202e}\u{7}]{0,3}\n){0,12}b?",
        after in "([ab\\r\\t é\u{200b}\u{202e}\u{7}]{0,3}\n){0,12}b?",
        is_binary in proptest::bool::weighted(0.1),
    ) {
        let mut change = FileChange {
            path: "src/a.py".into(),
            before: Some(state(before.as_bytes())),
            after: Some(state(after.as_bytes())),
        };
        if is_binary {
            change.after = Some(state(&[after.as_bytes(), b"\xff"].concat()));
        }
        let asked = describe_changes(std::slice::from_ref(&change));
        let question = Question::new(Effect::WriteRepository, "Change", &asked);
        proptest::prop_assert!(tool_core::text::is_visible(question.detail()));
        if is_binary {
            let digest = sha256_hex(&change.after.expect("it is there").content);
            proptest::prop_assert!(question.detail().contains(&digest));
        } else {
            let mut shown = question.detail().to_owned();
            for character in ["\r", "\u{200b}", "\u{202e}", "\u{7}"] {
                shown = shown.replace(&*tool_core::text::reveal_invisible(character), character);
            }
            proptest::prop_assert_eq!(applied(&before, &shown), after.clone());
            // A commit shows the same.
            let sides = [&before, &after].map(|content| DiffSide::new("src/a.py", 0o100_644, content.as_bytes()));
            let commit = BoundedDiff::new(Some(&sides[0]), Some(&sides[1]), 3, usize::MAX);
            proptest::prop_assert_eq!(commit.patch, asked);
        }
    }
}
