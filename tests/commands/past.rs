//! `tool history` and `tool results`: which sessions are shown.

use std::path::Path;

use tool_model_server::Round;

use super::{json_of, small_repository};
use crate::providers::scripted;

#[test]
fn history_is_filtered_by_model_operation_status_repository_and_number() {
    let (_server, home) = scripted([Round::text("One."), Round::text("Two.")]);
    let (one, two) = (small_repository(), small_repository());
    let nothing = home.run(one.path(), &["history"]).expect(0);
    assert!(
        nothing.stderr.contains("hint: `tool explain .` makes the first"),
        "{}",
        nothing.stderr
    );
    home.run(one.path(), &["explain", "."]).expect(0);
    home.run(two.path(), &["explain", ".", "--model", "vendor/other one"])
        .expect(0);
    // A hidden file exists, so a session on it starts and fails.
    std::fs::write(two.path().join(".env"), "KEY=1\n").expect("the folder is writable");
    home.run(two.path(), &["explain", ".env"]).expect(1);
    let count = |arguments: &[&str]| {
        let all: Vec<&str> = ["history", "--json"].iter().chain(arguments).copied().collect();
        let listed = home.run(one.path(), &all).expect(0);
        json_of(&listed)["sessions"].as_array().expect("a list").len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--model", "vendor/other one"]), 1);
    assert_eq!(count(&["--operation", "explain"]), 3);
    assert_eq!(count(&["--operation", "test-gen"]), 0);
    assert_eq!(count(&["--status", "failed"]), 1);
    assert_eq!(count(&["--repo", "."]), 1);
    assert_eq!(
        count(&["--repo", two.path().to_str().expect("UTF-8"), "--status", "complete"]),
        1
    );
    assert_eq!(count(&["--limit", "2"]), 2);
    let none = home.run(one.path(), &["history", "--operation", "refactor"]).expect(0);
    assert!(none.stderr.contains("No session matches."), "{}", none.stderr);
}

#[test]
fn results_are_found_by_a_beginning_and_as_the_latest_here() {
    let (_server, home) = scripted([Round::text("Of the first."), Round::text("Of the second.")]);
    let (one, two) = (small_repository(), small_repository());
    home.run(one.path(), &["explain", "."]).expect(0);
    home.run(two.path(), &["explain", "."]).expect(0);
    let latest = home.run(one.path(), &["results"]).expect(0);
    assert!(latest.stdout.starts_with("Of the first."), "{}", latest.stdout);
    let report = latest
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("report "))
        .expect("a report");
    assert!(one.path().join(report).is_file(), "{report} opens from here");
    let from_elsewhere = home
        .run(
            Path::new("/"),
            &["results", "--repo", one.path().to_str().expect("UTF-8")],
        )
        .expect(0);
    let report = from_elsewhere
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("report "))
        .expect("a report");
    assert!(Path::new("/").join(report).is_file(), "{report} opens from there");

    let newest = json_of(&home.run(two.path(), &["results", "latest", "--json"]).expect(0));
    let id = newest["session_id"].as_str().expect("an id").to_owned();
    let by_beginning = home.run(one.path(), &["results", &id[..30]]).expect(0);
    assert!(
        by_beginning.stdout.starts_with("Of the second."),
        "{}",
        by_beginning.stdout
    );
    let ambiguous = home.run(one.path(), &["results", "0"]).expect(2);
    assert!(
        ambiguous.stderr.contains("is a part of more than one"),
        "{}",
        ambiguous.stderr
    );
    home.run(one.path(), &["results", "ffffffff"]).expect(2);
    let nonsense = home.run(one.path(), &["results", "../x"]).expect(2);
    assert!(
        nonsense.stderr.starts_with("[error] Not a session identifier: `../x`"),
        "{}",
        nonsense.stderr
    );
    let elsewhere = small_repository();
    let none = home.run(elsewhere.path(), &["results", "latest"]).expect(1);
    assert!(none.stderr.contains("hint: `tool history` shows"), "{}", none.stderr);
}
