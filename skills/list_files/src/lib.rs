//! `list_files`: what a directory holds, with sizes.
//!
//! The host applies ignore rules and hides names; here entries are only counted, paged and written down. The form is
//! stable, because programs read it too:
//!
//! ```text
//! src/: 2 files, 1 directory, 1 link, 13.5 kB; 3 left out (ignored, skipped, hidden or not UTF-8)
//! src/context/
//! src/latest@
//! src/lib.rs<TAB>1.2 kB
//! src/main.rs<TAB>12.3 kB
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;
use skill_details::{ListDetails, ListedEntry, ListedKind, NotSearched};
use skill_sdk::serde_json::json;
use skill_sdk::text::{counted, human_size, one_line};
use skill_sdk::{
    Descriptor, Entry, EntryKind, Failure, FunctionMetadata, Handler, Host, Outcome, Query, clean_path, export_skill,
};

/// Entries in an answer by default: some 40 kB of text.
const ENTRIES: usize = 1000;
/// Limit for the entries in an answer.
const ENTRIES_MAX: usize = 5000;

/// The skill `list_files`.
#[derive(Debug)]
pub struct ListFiles;

#[derive(Debug, Deserialize)]
struct ListFilesArguments {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    globs: Vec<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Handler for ListFiles {
    fn describe() -> Descriptor {
        Descriptor {
            name: "list_files",
            version: "1.0.0",
            description: "Lists a directory with file sizes, or with `recursive` every file beneath it. Use it to find \
                your way and to learn exact paths. Leaves out ignored files (.gitignore), dependency and build \
                directories, and secrets. Directories end in `/`, symbolic links in `@`; a file is followed by a tab \
                and its size.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "format": "path",
                        "description": "Directory, relative to the repository root. Default: the root."
                    },
                    "recursive": {
                        "type": "boolean",
                        "description": "All files beneath it."
                    },
                    "globs": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "description": "Only entries that match one: `*.py` (file name) or `src/**/*.rs` (path from \
                            the root); a leading `!` excludes."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": ENTRIES_MAX,
                        "description": "Entries at most. Default: 1000."
                    },
                    "cursor": {
                        "type": "string",
                        "description": "Cursor of a truncated answer; keep the other arguments."
                    }
                },
                "required": [],
                "additionalProperties": false
            }),
            effects: Self::EFFECTS,
        }
    }

    fn metadata() -> FunctionMetadata {
        FunctionMetadata::with_sources("named")
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: ListFilesArguments = skill_sdk::arguments(arguments)?;
        let path = clean_path(&arguments.path)?;
        let query = Query {
            under: path.clone(),
            recursive: arguments.recursive,
            globs: arguments.globs.clone(),
            after: None,
        };
        let (entries, left_out) = list_entries(host, query).map_err(|failure| explain_failure(host, &path, failure))?;
        let limit = arguments.limit.unwrap_or(ENTRIES).min(ENTRIES_MAX);
        let after = arguments.cursor.as_deref();
        let start = after.map_or(0, |after| entries.partition_point(|entry| *entry.path <= *after));
        let page = &entries[start..entries.len().min(start + limit)];
        let more = start + page.len() < entries.len();

        let mut text = total_line(&path, &entries);
        if start > 0 || more {
            let end = start + page.len();
            let _ = write!(text, "; entries {}-{end} of {}", (start + 1).min(end), entries.len());
        }
        let mut not_listed = NotSearched::default();
        if arguments.recursive {
            let counted = host.count_not_listed(&path)?;
            not_listed.add_not_listed(
                (counted.skipped, counted.skipped_named),
                [counted.ignored, counted.not_utf8, counted.not_on_disk],
            );
            if !not_listed.is_nothing() {
                let _ = write!(text, "; not listed: {}", not_listed.not_listed().join(", "));
            }
        } else if left_out > 0 {
            let _ = write!(text, "; {left_out} left out (ignored, skipped, hidden or not UTF-8)");
        }
        if entries.is_empty() && arguments.recursive && arguments.globs.is_empty() && holds_any(host, &path) {
            text.push_str("; what is beneath is ignored, skipped or hidden");
        }
        for entry in page {
            text.push('\n');
            write_entry(&mut text, entry);
        }
        let cursor = page.last().filter(|_| more).map(|last| last.path.clone());
        let details = ListDetails {
            entries: page.iter().map(describe_entry).collect(),
            total: entries.len() as u64,
            left_out,
            not_listed,
        };
        Ok(Outcome::page(text, cursor).with_details(&details))
    }
}

fn describe_entry(entry: &Entry) -> ListedEntry {
    ListedEntry {
        path: entry.path.clone(),
        kind: match entry.kind {
            EntryKind::Directory => ListedKind::Directory,
            EntryKind::Symlink => ListedKind::Symlink,
            EntryKind::File => ListedKind::File,
        },
        size: (entry.kind == EntryKind::File).then_some(entry.size),
    }
}

/// All entries of a query, and the number of those that rules left out.
fn list_entries(host: &dyn Host, mut query: Query) -> Result<(Vec<Entry>, u32), Failure> {
    let mut entries = Vec::new();
    let mut left_out = 0;
    loop {
        let page = host.list_page(&query)?;
        entries.extend(page.entries);
        // Every page has the number for the whole query.
        left_out = left_out.max(page.left_out);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok((entries, left_out)),
        }
    }
}

/// True if a directory has entries, regardless of the rules.
fn holds_any(host: &dyn Host, path: &str) -> bool {
    let query = Query {
        under: path.to_owned(),
        ..Query::default()
    };
    host.list_page(&query)
        .is_ok_and(|page| page.left_out > 0 || !page.entries.is_empty())
}

/// The failure for a missing directory, with entries of the same name elsewhere.
fn explain_failure(host: &dyn Host, path: &str, failure: Failure) -> Failure {
    match (failure.code.as_str(), host.locate(path)) {
        (skill_sdk::code::NOT_FOUND, Err(explained)) => explained,
        _ => failure,
    }
}

/// The first line: the number of entries of each kind.
fn total_line(path: &str, entries: &[Entry]) -> String {
    let of = |kind| entries.iter().filter(move |entry| entry.kind == kind);
    let size = of(EntryKind::File).map(|entry| entry.size).sum();
    let directories: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| shown_directories(path, entry))
        .collect();
    let shown = match path {
        "" => "./".to_owned(),
        file if entries.len() == 1 && entries[0].path == file => one_line(file).into_owned(),
        directory => format!("{}/", one_line(directory)),
    };
    let links = match of(EntryKind::Symlink).count() as u64 {
        0 => String::new(),
        links => format!(", {}", counted(links, "link", "links")),
    };
    format!(
        "{shown}: {}, {}{links}, {}",
        counted(of(EntryKind::File).count() as u64, "file", "files"),
        counted(directories.len() as u64, "directory", "directories"),
        human_size(size),
    )
}

/// The directories beneath `under` that an entry proves: itself, and those on its path.
fn shown_directories<'a>(under: &str, entry: &'a Entry) -> impl Iterator<Item = &'a str> {
    let skip = if under.is_empty() { 0 } else { under.len() + 1 };
    let path = entry.path.as_str();
    let itself = (entry.kind == EntryKind::Directory).then_some(path);
    let leading = path
        .char_indices()
        .filter(move |&(at, character)| character == '/' && at >= skip);
    leading.map(move |(at, _)| &path[..at]).chain(itself)
}

fn write_entry(text: &mut String, entry: &Entry) {
    text.push_str(&one_line(&entry.path));
    match entry.kind {
        EntryKind::Directory => text.push('/'),
        EntryKind::Symlink => text.push('@'),
        EntryKind::File => {
            text.push('\t');
            text.push_str(&human_size(entry.size));
        }
    }
}

export_skill!(ListFiles);

#[cfg(test)]
mod tests {
    use super::*;
    use skill_sdk::testing::{FakeHost, check_description};

    fn host() -> FakeHost {
        FakeHost::new(&[
            ("README.md", "# Read me\n".repeat(200).as_str()),
            ("src/lib.rs", "pub mod a;\n"),
            ("src/a/mod.rs", ""),
            ("src/a/b/deep.rs", "fn deep() {}\n"),
        ])
    }

    fn call(host: &FakeHost, arguments: &str) -> Outcome {
        ListFiles::call(host, arguments).expect("the call works")
    }

    #[test]
    fn description() {
        check_description::<ListFiles>();
    }

    #[test]
    fn the_root() {
        let mut host = host();
        host.left_out = 4;
        let answer = call(&host, "{}");
        insta::assert_snapshot!(answer.text, @r"
        ./: 1 file, 1 directory, 2.0 kB; 4 left out (ignored, skipped, hidden or not UTF-8)
        README.md	2.0 kB
        src/
        ");
        insta::assert_snapshot!(answer.details.clone().expect("it has some"), @r#"{"entries":[{"path":"README.md","kind":"file","size":2000},{"path":"src","kind":"directory"}],"total":2,"left_out":4}"#);
        assert!(!answer.truncated);
        assert_eq!(call(&host, r#"{"path": "./"}"#).text, answer.text);
    }

    #[test]
    fn recursive_lists_files_and_counts_directories() {
        insta::assert_snapshot!(call(&host(), r#"{"path": "src", "recursive": true}"#).text, @r"
        src/: 3 files, 2 directories, 24 B
        src/a/b/deep.rs	13 B
        src/a/mod.rs	0 B
        src/lib.rs	11 B
        ");
    }

    #[test]
    fn globs_select() {
        let answer = call(&host(), r#"{"recursive": true, "globs": ["*.rs", "!mod.rs"]}"#);
        insta::assert_snapshot!(answer.text, @r"
        ./: 2 files, 3 directories, 24 B
        src/a/b/deep.rs	13 B
        src/lib.rs	11 B
        ");
        let none = call(&host(), r#"{"recursive": true, "globs": ["*.go"]}"#);
        assert_eq!(none.text, "./: 0 files, 0 directories, 0 B");
    }

    #[test]
    fn an_ignored_directory_is_not_called_empty() {
        let mut host = FakeHost::new::<&str, &str>(&[]);
        assert_eq!(
            call(&host, r#"{"recursive": true}"#).text,
            "./: 0 files, 0 directories, 0 B"
        );
        host.left_out = 2;
        assert_eq!(
            call(&host, r#"{"recursive": true}"#).text,
            "./: 0 files, 0 directories, 0 B; what is beneath is ignored, skipped or hidden"
        );
    }

    #[test]
    fn a_recursive_list_says_what_is_not_in_it() {
        let mut host = host();
        host.not_listed.skipped = 1;
        host.not_listed.skipped_named = vec!["node_modules".to_owned()];
        let answer = call(&host, r#"{"recursive": true, "globs": ["*.md"]}"#);
        assert_eq!(
            answer.text.lines().next(),
            Some("./: 1 file, 0 directories, 2.0 kB; not listed: 1 folder skipped by name (node_modules)")
        );
        let details = answer.details.expect("it has some");
        assert!(
            details.ends_with(r#""not_listed":{"skipped_folders":1,"skipped_named":["node_modules"]}}"#),
            "{details}"
        );
    }

    #[test]
    fn a_file_and_a_link() {
        let host = host();
        assert_eq!(
            call(&host, r#"{"path": "src/lib.rs"}"#).text,
            "src/lib.rs: 1 file, 0 directories, 11 B\nsrc/lib.rs\t11 B"
        );
        #[cfg(unix)]
        std::os::unix::fs::symlink("lib.rs", host.repo().join("src/link")).expect("the folder is writable");
        #[cfg(unix)]
        insta::assert_snapshot!(call(&host, r#"{"path": "src/"}"#).text, @r"
        src/: 1 file, 1 directory, 1 link, 11 B
        src/a/
        src/lib.rs	11 B
        src/link@
        ");
    }

    #[test]
    fn pages_join_to_the_whole() {
        let files: Vec<(String, &str)> = (0..25).map(|n| (format!("d{}/f{n:02}", n % 3), "x")).collect();
        let mut host = FakeHost::new(&files);
        host.page_entries = Some(4);
        let whole = call(&host, r#"{"recursive": true}"#);
        let mut joined: Vec<String> = Vec::new();
        let mut cursor: Option<String> = None;
        let mut headers = Vec::new();
        loop {
            let arguments = json!({"recursive": true, "limit": 10, "cursor": cursor.unwrap_or_default()});
            let page = call(&host, &arguments.to_string());
            let mut lines = page.text.lines().map(str::to_owned);
            headers.extend(lines.next());
            joined.extend(lines);
            cursor = page.cursor;
            assert_eq!(page.truncated, cursor.is_some());
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(joined, whole.text.lines().skip(1).collect::<Vec<_>>());
        assert_eq!(
            headers,
            [
                "./: 25 files, 3 directories, 25 B; entries 1-10 of 25",
                "./: 25 files, 3 directories, 25 B; entries 11-20 of 25",
                "./: 25 files, 3 directories, 25 B; entries 21-25 of 25",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_looked_for_elsewhere() {
        let failure = ListFiles::call(&host(), r#"{"path": "lib.rs"}"#).expect_err("there is no such file");
        assert_eq!(failure.code, "not-found");
        assert_eq!(failure.hint.as_deref(), Some("did you mean `src/lib.rs`?"));
        let failure = ListFiles::call(&host(), r#"{"path": "../x"}"#).expect_err("it leaves the repository");
        assert_eq!(failure.code, "invalid-arguments");
        let failure = ListFiles::call(&host(), r#"{"path": "nowhere"}"#).expect_err("there is no such directory");
        assert!(failure.hint.expect("a hint").contains("list_files"));
    }
}
