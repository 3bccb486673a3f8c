//! What outlives a run: the book's table names every file of it, who writes it and who reads it.

use std::path::Path;

use crate::support::Home;

/// Rows of the table of files that lie in the home: the place relative to it, the writer and the reader.
fn rows() -> Vec<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/limits.md");
    let book = std::fs::read_to_string(page).expect("it is there");
    let table = book
        .split("\n## ")
        .find(|part| part.starts_with("Files\n"))
        .expect("it has one");
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let rows = table.lines().map(cells).filter(|cells| cells.len() == 6);
    rows.filter_map(|cells| {
        let place = cells[1].strip_prefix("`~/.tool/")?.strip_suffix('`')?.to_owned();
        Some([place, cells[3].clone(), cells[4].clone()])
    })
    .collect()
}

/// True where a row names this file, or a folder that holds it. Words in capitals stand for any name.
fn is_named(rows: &[[String; 3]], file: &str) -> bool {
    rows.iter().any(|[place, ..]| {
        let folder = place.strip_suffix('/');
        let parts: Vec<&str> = folder.unwrap_or(place).split('/').collect();
        let found: Vec<&str> = file.split('/').collect();
        let fits = |(part, found): (&&str, &&str)| part.chars().all(|c| c.is_ascii_uppercase()) || part == found;
        let is_long_enough = found.len() == parts.len() || (folder.is_some() && found.len() > parts.len());
        is_long_enough && parts.iter().zip(&found).all(fits)
    })
}

/// Everything in a home that is no folder.
fn files(home: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(home, &entry.path(), found);
        } else if let Ok(path) = entry.path().strip_prefix(home) {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

/// Fails for a file in this home that the table does not name.
pub(super) fn check(home: &Home) {
    let (rows, mut found) = (rows(), Vec::new());
    files(home.path(), home.path(), &mut found);
    // The link to the log stands in the row of the log.
    found.retain(|file| file != "backend.log" && !is_named(&rows, file));
    assert_eq!(
        found,
        Vec::<String>::new(),
        "docs/src/limits.md does not name these files"
    );
}

#[test]
fn the_table_of_files_says_who_writes_and_who_reads() {
    let rows = rows();
    assert!(rows.len() > 15, "the table has another form");
    for [place, writer, reader] in &rows {
        assert!(!writer.is_empty() && !reader.is_empty(), "{place}");
    }
    assert!(is_named(&rows, "cache/builds/x-none/build-0/debug/shop") && is_named(&rows, "logs/access.log"));
    for unnamed in ["cache/results.json", "sessions", "left", "logs/other.log", "token/x"] {
        assert!(!is_named(&rows, unnamed), "{unnamed}");
    }
}
