use proptest::prelude::*;

use super::*;

fn tags(text: &str) -> Vec<String> {
    find_hashtags(text).into_iter().collect()
}

#[test]
fn tags_stand_alone_nested_and_in_any_script() {
    assert_eq!(
        tags("About #Auth and #api/v2, (#héllo) [#x_1-y] #日本"),
        ["api/v2", "auth", "héllo", "x_1-y", "日本"]
    );
}

#[test]
fn headings_numbers_links_and_words_with_a_hash_are_no_tags() {
    let text = "# Heading\n## Two\n#\nissue #123 and a#b, c#, https://x.org/p#part, ##no, &#39; [t](#anchor)\n";
    // An anchor of a link looks like a tag after its bracket; that is the one that counts.
    assert_eq!(tags(text), ["anchor"]);
}

#[test]
fn code_holds_no_tags() {
    let text = "`#inline` #real ``#x``\n```c\n#include\n```\n~~~~\n```\n#in\n~~~~\n    #indented\n\t#tabbed\n#after\nlone ` #open\n";
    assert_eq!(tags(text), ["after", "open", "real"]);
}

#[test]
fn front_matter_has_tags_in_three_forms() {
    assert_eq!(
        tags("---\ntags: [One, \"two\"]\ntitle: x\n---\n#three\n"),
        ["one", "three", "two"]
    );
    assert_eq!(tags("---\ntags:\n  - a/b\n  - c\nother:\n  - no\n---\n"), ["a/b", "c"]);
    assert_eq!(tags("---\ntags: one two\nno end\n"), Vec::<String>::new());
}

fn note(path: &str, text: &str) -> VaultNote {
    VaultNote {
        path: path.to_owned(),
        text: text.to_owned(),
        tags: find_hashtags(text),
    }
}

#[test]
fn tags_count_most_then_names_then_text() {
    let notes = [
        note("cooking.md", "Pasta with #garlic"),
        note("design/login.md", "How it works"),
        note("meeting.md", "We spoke of the login form once, and of sessions"),
        note("auth.md", "#login uses tokens"),
    ];
    let found = rank_notes(&notes, "Improve the login session", "src/app.py");
    let shown: Vec<(&str, &[&str])> = found
        .iter()
        .map(|r| (r.note.path.as_str(), r.tags.as_slice()))
        .collect();
    assert_eq!(shown[..2], [("auth.md", &["login"][..]), ("design/login.md", &[][..])]);
    assert!(shown.iter().all(|(path, _)| *path != "cooking.md"));
}

#[test]
fn chosen_files_make_notes_relevant_too_and_nothing_does_without_words() {
    let notes = [note("a.md", "#scheduler rules"), note("b.md", "#garden")];
    let found = rank_notes(&notes, "", "src/core/scheduler.py src/scheduler_queue.py");
    assert_eq!(
        found.iter().map(|r| r.note.path.as_str()).collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "one word of a path is weak"
    );
    let found = rank_notes(&notes, "the scheduler", "");
    assert_eq!(found[0].note.path, "a.md");
    assert!(rank_notes(&notes, "", "").is_empty() && rank_notes(&[], "x", "y").is_empty());
}

#[test]
fn a_vault_is_read_without_following_links() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (vault, outside) = (folder.path().join("vault"), folder.path().join("outside"));
    for (path, text) in [
        ("vault/a.md", "#one"),
        ("vault/sub/b.markdown", "#two"),
        ("vault/c.txt", "#no"),
        ("vault/.trash/d.md", "#no"),
        ("outside/e.md", "#secret"),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the folder is ours");
        std::fs::write(path, text).expect("the folder is ours");
    }
    std::os::unix::fs::symlink(outside.join("e.md"), vault.join("link.md")).expect("the folder is ours");
    std::os::unix::fs::symlink(&outside, vault.join("linked")).expect("the folder is ours");
    rustix::fs::mknodat(CWD, vault.join("pipe.md"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("the folder is ours");
    let notes = read_notes(&vault, &CancellationToken::new());
    let shown: Vec<(&str, Vec<&str>)> = notes
        .notes
        .iter()
        .map(|n| (n.path.as_str(), n.tags.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(shown, [("a.md", vec!["one"]), ("sub/b.markdown", vec!["two"])]);
    assert_eq!(notes.notices, Vec::<String>::new());
}

#[test]
fn a_vault_that_is_not_there_is_a_notice() {
    let notes = read_notes(Path::new("/nonexistent/vault"), &CancellationToken::new());
    assert!(notes.notes.is_empty());
    assert!(
        notes.notices[0].starts_with("The notes vault `/nonexistent/vault` cannot be read: "),
        "{:?}",
        notes.notices
    );
}

proptest! {
    #[test]
    fn any_text_has_only_well_formed_tags(text in "(#|`|~|/|-|\n|\t| |a|é|1|---\n|tags:|\\PC){0,200}") {
        for tag in find_hashtags(&text) {
            prop_assert!(tag.chars().all(is_tag_character) && tag.chars().any(char::is_alphabetic), "{tag}");
            prop_assert!(!tag.starts_with('/') && !tag.ends_with('/'), "{tag}");
            prop_assert_eq!(&tag, &tag.to_lowercase());
        }
    }

    #[test]
    fn a_tag_between_spaces_is_found(before in "[a-z ]{0,20}", tag in "[a-z][a-z0-9_]{0,20}", after in "[a-z ]{0,20}") {
        let found = find_hashtags(&format!("x{before} #{tag} {after}"));
            prop_assert!(found.contains(&tag));
    }
}

#[test]
fn a_vault_is_bounded_in_notes_bytes_and_depth() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let write = |path: String, length: u64| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the folder is ours");
        std::fs::File::create(path)
            .and_then(|file| file.set_len(length))
            .expect("the folder is ours");
    };
    let read_all = || read_notes(folder.path(), &CancellationToken::new());
    write(format!("{}deep.md", "d/".repeat(VAULT_DEPTH_MAX)), 1);
    write(format!("{}deeper.md", "d/".repeat(VAULT_DEPTH_MAX + 1)), 1);
    let names: Vec<String> = read_all().notes.into_iter().map(|note| note.path).collect();
    assert!(matches!(&names[..], [only] if only.ends_with("/deep.md")), "{names:?}");
    write("a/long.md".to_owned(), 2 * VAULT_NOTE_BYTES_MAX);
    assert_eq!(read_all().notes[0].text.len() as u64, VAULT_NOTE_BYTES_MAX);
    let fit = VAULT_BYTES_MAX / VAULT_NOTE_BYTES_MAX;
    for number in 0..fit + 4 {
        write(format!("a/{number}.md"), VAULT_NOTE_BYTES_MAX);
    }
    let notes = read_all();
    assert!(
        notes.notes.len() as u64 <= fit && notes.notices[0].contains("is large"),
        "{:?}",
        notes.notices
    );
    std::fs::remove_dir_all(folder.path().join("a")).expect("the folder is ours");
    for number in 0..VAULT_NOTES_MAX + 4 {
        write(format!("b/{number}.md"), 0);
    }
    let notes = read_all();
    assert_eq!((notes.notes.len(), notes.notices.len()), (VAULT_NOTES_MAX, 1));
}
